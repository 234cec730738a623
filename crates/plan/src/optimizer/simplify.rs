//! Simplification of expressions that leaves NULL alone.
//!
//! Invariant: of every row an expression is the same before and after; a filter may be false where it was NULL.
//!
//! DataFusion's rule takes `a IN (1) AND a IN (2)` for false and `a NOT IN (1) OR a NOT IN (2)` for true, which both are NULL where `a`
//! is, and takes lists of columns for lists of values. So where such lists can meet, each is hidden
//! from the rule as a function that it does not know, and is put back afterwards. A few functions are hidden always.
//!
//! Mends apache/datafusion#24246 (in 55.2).

use crate::expressions::each_named;
use alluvia_functions::internal::hidden::Hidden;
use alluvia_functions::internal::opaque::{is_opaque, seen};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::collections::HashMap;
use std::sync::Arc;

/// Functions of which the rule forgets that they are NULL of NULL, or compares what is unknown.
const HIDDEN_FUNCTIONS: [&str; 3] = ["log", "power", "array_has"];

/// DataFusion's rule, which sees nothing that it gets wrong.
#[derive(Debug, Default)]
pub struct SimplifyKeepingNulls(SimplifyExpressions);

impl OptimizerRule for SimplifyKeepingNulls {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        let mut is_any_hidden = false;
        let join_filter = match &plan {
            LogicalPlan::Join(join) => join.filter.clone(),
            _ => None,
        };
        let was_aggregate = matches!(plan, LogicalPlan::Aggregate(_));
        let is_filter = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_));
        let names = NamePreserver::new(&plan);
        let hidden = plan.map_expressions(|expr| {
            let is_filter = is_filter || join_filter.as_ref() == Some(&expr);
            let hidden = each_named(&names, expr, &|expr| hide(expr, is_filter))?;
            is_any_hidden |= hidden.transformed;
            Ok(hidden)
        })?;
        let simplified = self.0.rewrite(hidden.data, config)?;
        let simplified = simplified
            .transform_data(|plan| if filters(&plan) { shown_bounds(plan) } else { Ok(Transformed::no(plan)) })?;
        let simplified = simplified.transform_data(|plan| Ok(known_of_themselves(plan)))?;
        if !is_any_hidden {
            return Ok(simplified);
        }
        let changed = simplified.transformed;
        // What was one node may be two. What lies below has nothing that is hidden.
        let mut nodes = if was_aggregate && matches!(simplified.data, LogicalPlan::Projection(_)) { 2 } else { 1 };
        let shown = simplified.data.transform_down(|plan| {
            let names = NamePreserver::new(&plan);
            let mut shown = plan.map_expressions(|expr| each_named(&names, expr, &show))?;
            nodes -= 1;
            shown.tnr = if nodes == 0 { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue };
            Ok(shown)
        })?;
        Ok(Transformed::new_transformed(shown.data, changed))
    }
}

fn filters(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_) | LogicalPlan::Join(_))
}

/// Has bounds skip blocks again where the rule made `n = 5` of `n::text = '5'`.
fn shown_bounds(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(
        |expr| {
            if expr.exists(|expr| Ok(is_opaque(expr)))? { seen(expr) } else { Ok(Transformed::no(expr)) }
        },
    )
}

/// Says of what a filter compares with itself that it is not NULL, where it is of rows around a subquery: joining the two takes `a = a` for
/// true (DataFusion's `find_join_exprs`). The rule itself says so of what was written so, and not of what it makes of `a IN (a)`.
fn known_of_themselves(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    let LogicalPlan::Filter(mut filter) = plan else { return Transformed::no(plan) };
    let is_itself = |expr: &Expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            left == right && left.contains_outer() && !left.is_volatile()
        }
        _ => false,
    };
    if !split_conjunction(&filter.predicate).into_iter().any(is_itself) {
        return Transformed::no(LogicalPlan::Filter(filter));
    }
    let parts = split_conjunction(&filter.predicate).into_iter().cloned().map(|expr| match expr {
        expr if is_itself(&expr) => match expr {
            Expr::BinaryExpr(BinaryExpr { left, .. }) => Expr::IsNotNull(left),
            other => other,
        },
        other => other,
    });
    if let Some(predicate) = conjunction(parts) {
        filter.predicate = predicate;
    }
    Transformed::yes(LogicalPlan::Filter(filter))
}

/// A list of values, or a comparison that may become part of one.
struct Atom<'a> {
    /// What is looked for in the list, without casts, which the rule may take away.
    of: &'a Expr,
    /// Whether it is one of the values or none of them.
    is_negated: bool,
    is_list: bool,
    /// Whether the list has values only, none of them NULL.
    has_values: bool,
}

impl Atom<'_> {
    fn of(expr: &Expr) -> Option<Atom<'_>> {
        match expr {
            Expr::InList(InList { expr, list, negated }) => {
                let has_values = list.iter().all(|item| matches!(item, Expr::Literal(value, _) if !value.is_null()));
                Some(Atom { of: without_casts(expr), is_negated: *negated, is_list: true, has_values })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::NotEq), right }) => {
                let of = match (without_casts(left), without_casts(right)) {
                    (Expr::Literal(..), Expr::Literal(..)) => return None,
                    (of, Expr::Literal(..)) | (Expr::Literal(..), of) => of,
                    _ => return None,
                };
                Some(Atom { of, is_negated: *op == Operator::NotEq, is_list: false, has_values: true })
            }
            _ => None,
        }
    }
}

fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => without_casts(&cast.expr),
        Expr::TryCast(cast) => without_casts(&cast.expr),
        Expr::Alias(alias) => without_casts(&alias.expr),
        other => other,
    }
}

/// Where an expression stands in a filter.
#[derive(Clone, Copy)]
enum FilterPosition {
    /// Below nothing but AND, OR and NOT, where false is as good as NULL.
    Filter { is_negated: bool, is_below_or: bool },
    /// Where NULL and false differ.
    Value,
}

/// How often an expression is looked for, and whether the rule may get it wrong.
#[derive(Clone, Copy, Default)]
struct Found {
    atoms: usize,
    is_unsafe: bool,
}

fn find<'a>(expr: &'a Expr, place: FilterPosition, found: &mut HashMap<&'a Expr, Found>) -> Result<()> {
    match (expr, place) {
        (Expr::Alias(alias), _) => return find(&alias.expr, place, found),
        (Expr::Not(inner), FilterPosition::Filter { is_negated, is_below_or }) => {
            return find(inner, FilterPosition::Filter { is_negated: !is_negated, is_below_or }, found);
        }
        (
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }),
            FilterPosition::Filter { is_negated, is_below_or },
        ) => {
            // NOT (a AND b) is NOT a OR NOT b.
            let is_or = (*op == Operator::Or) != is_negated;
            let place = FilterPosition::Filter { is_negated, is_below_or: is_below_or || is_or };
            find(left, place, found)?;
            return find(right, place, found);
        }
        _ => {}
    }
    if let Some(atom) = Atom::of(expr) {
        let (is_counted, is_safe) = match place {
            FilterPosition::Value => (true, false),
            // `a <> 1` becomes part of a list below NOT alone.
            FilterPosition::Filter { is_negated, .. } if !atom.is_list && atom.is_negated && !is_negated => {
                (false, true)
            }
            FilterPosition::Filter { is_negated, is_below_or } => {
                (true, atom.has_values && !(is_below_or && atom.is_negated != is_negated))
            }
        };
        let all = found.entry(atom.of).or_default();
        all.atoms += usize::from(is_counted);
        all.is_unsafe |= !is_safe;
    }
    expr.apply_children(|child| find(child, FilterPosition::Value, found).map(|()| TreeNodeRecursion::Continue))?;
    Ok(())
}

/// The expression without what the rule gets wrong.
fn hide(expr: Expr, is_filter: bool) -> Result<Transformed<Expr>> {
    let place = if is_filter {
        FilterPosition::Filter { is_negated: false, is_below_or: false }
    } else {
        FilterPosition::Value
    };
    let mut found = HashMap::new();
    find(&expr, place, &mut found)?;
    let is_wrong = |found: &Found| found.is_unsafe && found.atoms > 1;
    let wrong: Vec<Expr> = found.into_iter().filter(|(_, found)| is_wrong(found)).map(|(of, _)| of.clone()).collect();
    expr.transform_down(|expr| {
        let is_hidden = match &expr {
            Expr::ScalarFunction(function) => HIDDEN_FUNCTIONS.contains(&function.name()) && reads_a_column(&expr),
            Expr::BinaryExpr(BinaryExpr { op: Operator::BitwiseXor, .. }) => reads_a_column(&expr),
            _ => !wrong.is_empty() && Atom::of(&expr).is_some_and(|atom| wrong.contains(atom.of)),
        };
        if !is_hidden {
            return Ok(Transformed::no(expr));
        }
        // What is below is what the function is of, and is looked at next.
        let mut args = Vec::new();
        expr.apply_children(|child| {
            args.push(child.clone());
            Ok(TreeNodeRecursion::Continue)
        })?;
        let function = Arc::new(ScalarUDF::from(Hidden { signature: Hidden::signature(), of: expr }));
        Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
    })
}

fn reads_a_column(expr: &Expr) -> bool {
    !expr.column_refs().is_empty()
}

/// The expression with everything that was hidden in its place.
fn show(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(function) if function.func.inner().is::<Hidden>() => {
            let hidden = function.func.inner().downcast_ref::<Hidden>();
            let Some(Hidden { of, .. }) = hidden else { return internal_err!("an expression is hidden, and is not") };
            let mut args = function.args.into_iter();
            let shown =
                of.clone().map_children(|child| Ok(args.next().map_or(Transformed::no(child), Transformed::yes)))?;
            Ok(Transformed::yes(shown.data))
        }
        // As the rule would have it.
        Expr::Not(inner) => Ok(match *inner {
            Expr::InList(list) => Transformed::yes(Expr::InList(InList { negated: !list.negated, ..list })),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => Transformed::yes(left.not_eq(*right)),
            other => Transformed::no(Expr::Not(Box::new(other))),
        }),
        other => Ok(Transformed::no(other)),
    })
}

#[cfg(test)]
mod tests {
    use crate::rules::{StopChecks, configure, with_rules};
    use arrow::array::{BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use std::sync::Arc;

    /// Every pair of whole numbers and NULL, with other values beside them.
    fn rows() -> RecordBatch {
        let numbers = [None, Some(0), Some(1), Some(2)];
        let pairs: Vec<_> = numbers.iter().flat_map(|&i| numbers.iter().map(move |&j| (i, j))).collect();
        let texts = [None, Some("a"), Some("b"), Some("ab"), Some("")];
        let floats = [None, Some(0.0), Some(-1.5), Some(2.0), Some(f64::NAN)];
        let switches = [Some(true), None, Some(false)];
        let every = |at: usize, count: usize| at % count;
        RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(Int32Array::from_iter_values(0..pairs.len() as i32)) as _, false),
            ("i", Arc::new(pairs.iter().map(|pair| pair.0).collect::<Int32Array>()) as _, true),
            ("j", Arc::new(pairs.iter().map(|pair| pair.1).collect::<Int32Array>()) as _, true),
            ("b", Arc::new((0..pairs.len()).map(|at| switches[every(at, 3)]).collect::<BooleanArray>()) as _, true),
            ("s", Arc::new((0..pairs.len()).map(|at| texts[every(at, 5)]).collect::<StringArray>()) as _, true),
            ("f", Arc::new((0..pairs.len()).map(|at| floats[every(at / 2, 5)]).collect::<Float64Array>()) as _, true),
        ])
        .expect("columns are of one length")
    }

    fn context(simplifies: bool) -> SessionContext {
        let mut config = SessionConfig::new().with_target_partitions(1);
        config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
        configure(&mut config);
        let mut builder =
            with_rules(SessionStateBuilder::new().with_config(config).with_default_features(), StopChecks::NEVER);
        if !simplifies {
            builder = builder.with_optimizer_rules(Vec::new());
        }
        let context = SessionContext::new_with_state(builder.build());
        context.register_batch("t", rows()).expect("a new table");
        context
    }

    fn atom() -> impl Strategy<Value = String> {
        let number = || prop_oneof![Just("i"), Just("j"), Just("i + j"), Just("i + 0"), Just("CAST(i AS BIGINT)")];
        let items = prop::collection::vec(
            prop_oneof![6 => Just("0"), 6 => Just("1"), 4 => Just("2"), 1 => Just("j"), 1 => Just("NULL")],
            1..5,
        );
        let texts = prop::collection::vec(prop_oneof![Just("'a'"), Just("'b'"), Just("'ab'"), Just("upper(s)")], 1..4);
        let operator = || prop_oneof![Just("="), Just("<>"), Just("<"), Just(">="), Just("IS DISTINCT FROM")];
        prop_oneof![
            4 => (number(), any::<bool>(), items)
                .prop_map(|(of, not, items)| format!("{of} {}IN ({})", if not { "NOT " } else { "" }, items.join(", "))),
            4 => (number(), operator(), 0..3i32).prop_map(|(of, operator, to)| format!("{of} {operator} {to}")),
            1 => (operator(), 0..3i32).prop_map(|(operator, to)| format!("{to} {operator} i")),
            2 => (any::<bool>(), texts)
                .prop_map(|(not, texts)| format!("s {}IN ({})", if not { "NOT " } else { "" }, texts.join(", "))),
            1 => prop_oneof![Just("%"), Just("a%"), Just("a"), Just("")].prop_map(|like| format!("s LIKE '{like}'")),
            1 => (operator(), prop_oneof![Just("0"), Just("2"), Just("'NaN'")])
                .prop_map(|(operator, to)| format!("f {operator} CAST({to} AS DOUBLE)")),
            1 => prop_oneof![
                Just("b"), Just("i = j"), Just("i IS NULL"), Just("i IS NOT NULL"), Just("i # i = 0"), Just("i % 1 = 0"),
                Just("i * 0 = 0"), Just("i & 0 = 0"), Just("power(f, 0.0) = 1"), Just("log(f, 1.0) = 0"),
                Just("power(f, 1.0) = f"), Just("i BETWEEN 1 AND j"), Just("i / 1 = i"), Just("array_has([i, 1], 2)"),
                Just("NULL"), Just("i - i = 0"), Just("s || '' = s"), Just("nullif(i, 1) = 2"),
            ].prop_map(str::to_owned),
        ]
    }

    fn boolean() -> impl Strategy<Value = String> {
        atom().prop_recursive(4, 24, 3, |inner| {
            let two = || (inner.clone(), inner.clone());
            prop_oneof![
                4 => two().prop_map(|(a, b)| format!("({a} AND {b})")),
                4 => two().prop_map(|(a, b)| format!("({a} OR {b})")),
                3 => inner.clone().prop_map(|a| format!("(NOT ({a}))")),
                1 => (inner.clone(), prop_oneof![Just("NULL"), Just("NOT NULL"), Just("TRUE"), Just("NOT FALSE"), Just("UNKNOWN")])
                    .prop_map(|(a, test)| format!("(({a}) IS {test})")),
                1 => two().prop_map(|(a, b)| format!("(({a}) = ({b}))")),
                1 => two().prop_map(|(a, b)| format!("coalesce({a}, {b})")),
                1 => (two(), inner.clone()).prop_map(|((a, b), c)| format!("(CASE WHEN {a} THEN {b} ELSE {c} END)")),
            ]
        })
    }

    async fn said(context: &SessionContext, sql: &str) -> Result<String, String> {
        let rows = async { context.sql(sql).await?.collect().await };
        let rows = rows.await.map_err(|error| error.to_string())?;
        Ok(pretty_format_batches(&rows).expect("shows").to_string())
    }

    /// Panics unless the planner's rules leave answers as they are.
    fn same(expr: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (fast, slow) = (context(true), context(false));
            for sql in [
                format!("SELECT id, {expr} AS said FROM t ORDER BY id"),
                format!("SELECT id FROM t WHERE {expr} ORDER BY id"),
                format!("SELECT id FROM t WHERE i = 1 AND NOT ({expr}) ORDER BY id"),
                format!("SELECT {expr}, count(*) FILTER (WHERE {expr}) FROM t GROUP BY {expr} ORDER BY 1, 2"),
                format!(
                    "SELECT a.id, b.id FROM t a LEFT JOIN (SELECT id FROM t WHERE {expr}) b ON a.id = b.id ORDER BY 1"
                ),
            ] {
                // What fails on rows may be folded away.
                if let Ok(expected) = said(&slow, &sql).await {
                    assert_eq!(said(&fast, &sql).await.as_ref(), Ok(&expected), "{sql}");
                }
            }
        });
    }

    #[test]
    fn lists_that_meet_are_null_of_null() {
        for expr in [
            "i IN (1) AND i IN (2)",
            "i NOT IN (1) OR i NOT IN (2)",
            "NOT (i IN (1) AND NOT i IN (1))",
            "(i = 1 OR i = 2) AND (i = 0 OR i = 3)",
            "i IN (j) AND i IN (1)",
            "i IN (1, NULL) AND i NOT IN (NULL)",
            "i IN (j, 1) AND i NOT IN (1)",
            "i # i = 0",
            "NOT (i NOT IN (0, 1, 2, 3, 4) OR i NOT IN (5, 6, 7, 8))",
            "i IS NULL AND (i BETWEEN 0 AND 1 OR NOT (i IN (0) AND NOT i IN (0)))",
        ] {
            same(expr);
        }
    }

    /// The same expressions each time, unless `ALLUVIA_TEST_SEED` says others, or `ALLUVIA_TEST_STATEMENTS` more.
    fn expressions() -> ProptestConfig {
        let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
        let seed = RngSeed::Fixed(variable("ALLUVIA_TEST_SEED").unwrap_or(1));
        let cases = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(300) as u32;
        ProptestConfig { cases, rng_seed: seed, failure_persistence: None, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(expressions())]
        #[test]
        fn expressions_say_the_same_planned_or_not(expr in boolean()) {
            same(&expr);
        }
    }
}
