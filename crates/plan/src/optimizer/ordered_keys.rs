//! What rows are ordered by: by sorts, by windows and their partitions, and within aggregates.
//!
//! Invariants:
//! - A key of whose order nothing can be said is a column, computed below what orders by it. DataFusion 55.2 asks a plan in which order its rows
//!   are by asking each part of a key for its order and its bounds, and takes a key of which one part has no answer for unordered, also right
//!   above the sort by it: `sqrt(x)` has none where `x` may be negative, and `CASE ... END > 1` has none, since a CASE has no type of bounds.
//!   It then refuses its own plan. Of a column it knows that it is sorted by.
//! - So is a key of the rows of a join that is no column itself: DataFusion would sort a side of the join by it, with rows that the join leaves
//!   out, of which the key may fail.
//! - Of the zeros of floats, which are one number ([`crate::after_types::signed_zero`]), none comes before the other where another key tells rows with them apart.
//! - A plan has the columns that it had before.
//!
//! Mends apache/datafusion#18327 (in 55.2). It was closed there when comparisons with NULL had bounds, and is so of all others.

use alluvia_functions::operators::floats;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::{AggregateFunctionParams, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::sort_properties::ExprProperties;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Sort, SortExpr, Window, lit,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::expressions::{Column as PhysicalColumn, Literal};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The rule. Nothing may come after it that puts expressions in the place of columns.
#[derive(Debug)]
pub struct OrderedKeys;

impl OptimizerRule for OrderedKeys {
    fn name(&self) -> &str {
        "ordered_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = config.alias_generator();
        match plan {
            LogicalPlan::Sort(sort) => sorted(sort, names),
            LogicalPlan::Window(window) => windowed(window, names),
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(is_ordered) => {
                aggregated(aggregate, names)
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn sorted(Sort { mut expr, input, fetch }: Sort, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    // Where the first rows are wanted, blocks of a table are left out by the bounds of its column, which a sum does not have.
    let mut is_changed = without_signs(&mut expr, &input, |key| fetch.is_some() && matches!(key, Expr::Column(_)))?;
    let mut keys = Keys::over(&input, names);
    for key in &mut expr {
        is_changed |= keys.take(&mut key.expr);
    }
    let schema = Arc::clone(input.schema());
    Ok(match keys.below()? {
        None => Transformed::new_transformed(LogicalPlan::Sort(Sort { expr, input, fetch }), is_changed),
        Some(input) => {
            let sort = LogicalPlan::Sort(Sort { expr, input, fetch });
            Transformed::yes(LogicalPlan::Projection(Projection::new_from_schema(Arc::new(sort), schema)))
        }
    })
}

fn windowed(window: Window, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let mut keys = Keys::over(&window.input, names);
    let windows = each(&window.window_expr, |expr| {
        let Expr::WindowFunction(function) = expr else { return Ok(false) };
        let params = &mut function.params;
        let mut is_changed = false;
        for key in params.partition_by.iter_mut().chain(params.order_by.iter_mut().map(|key| &mut key.expr)) {
            is_changed |= keys.take(key);
        }
        Ok(is_changed)
    })?;
    let Some(input) = keys.below()? else { return Ok(Transformed::no(LogicalPlan::Window(window))) };
    let above = Arc::new(LogicalPlan::Window(Window::try_new(windows, input)?));
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::new_from_schema(above, window.schema))))
}

fn aggregated(aggregate: Aggregate, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let mut keys = Keys::over(&aggregate.input, names);
    let mut is_changed = false;
    let aggregates = each(&aggregate.aggr_expr, |expr| {
        let Expr::AggregateFunction(function) = expr else { return Ok(false) };
        let AggregateFunctionParams { args, distinct, order_by, .. } = &mut function.params;
        // What is aggregated DISTINCT has one of both already.
        let mut is_other = !*distinct && without_signs(order_by, &aggregate.input, |_| false)?;
        for key in order_by {
            let before = key.expr.clone();
            if keys.take(&mut key.expr) {
                is_other = true;
                // What is ordered by itself has to be the same.
                args.iter_mut().filter(|arg| **arg == before).for_each(|arg| *arg = key.expr.clone());
            }
        }
        is_changed |= is_other;
        Ok(is_other)
    })?;
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, group_expr, schema, .. } = aggregate;
    let input = keys.below()?.unwrap_or(input);
    let aggregate = Aggregate::try_new_with_schema(input, group_expr, aggregates, schema)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

/// Expressions of a node under their names, of which each function of rows was given to `change`, which says whether it did.
fn each(exprs: &[Expr], mut change: impl FnMut(&mut Expr) -> Result<bool>) -> Result<Vec<Expr>> {
    let names = NamePreserver::new_for_projection();
    let changed = |expr: &Expr| {
        let name = names.save(expr);
        let changed = expr.clone().transform_down(|mut expr| {
            let is_changed = change(&mut expr)?;
            Ok(Transformed::new_transformed(expr, is_changed))
        })?;
        Ok(changed.update_data(|expr| name.restore(expr)).data)
    };
    exprs.iter().map(changed).collect()
}

fn is_ordered(expr: &Expr) -> bool {
    let orders =
        |expr: &Expr| Ok(matches!(expr, Expr::AggregateFunction(function) if !function.params.order_by.is_empty()));
    expr.exists(orders).unwrap_or(false)
}

/// Takes the signs off the zeros of floats, but of the last key, where it does not matter which comes first, and of those that `stays` is true of.
fn without_signs(keys: &mut [SortExpr], input: &LogicalPlan, stays: impl Fn(&Expr) -> bool) -> Result<bool> {
    let Some((_, keys)) = keys.split_last_mut() else { return Ok(false) };
    let mut is_changed = false;
    for SortExpr { expr, .. } in keys {
        if stays(expr) || !std::ptr::eq(with_sign(expr), &*expr) {
            continue;
        }
        let Ok(float @ (DataType::Float32 | DataType::Float64)) = expr.get_type(input.schema()) else { continue };
        let Some(sum) = floats::operation(Operator::Plus) else { continue };
        let args = vec![std::mem::take(expr), lit(ScalarValue::new_zero(&float)?)];
        *expr = Expr::ScalarFunction(ScalarFunction::new_udf(sum, args));
        is_changed = true;
    }
    Ok(is_changed)
}

/// What a key is of whose zeros have no signs; any other key as it is.
pub fn with_sign(key: &Expr) -> &Expr {
    let Expr::ScalarFunction(function) = key else { return key };
    let is_zero = |of: &Expr| match of {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 0.0,
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value == 0.0,
        _ => false,
    };
    match function.args.as_slice() {
        [of, zero] if function.name() == "float_add" && is_zero(zero) => of,
        _ => key,
    }
}

/// Keys that become columns.
struct Keys<'a> {
    input: Arc<LogicalPlan>,
    is_joined: bool,
    names: &'a AliasGenerator,
    computed: Vec<(Expr, Column)>,
}

impl Keys<'_> {
    /// Of what orders the rows of `input`.
    fn over<'a>(input: &Arc<LogicalPlan>, names: &'a AliasGenerator) -> Keys<'a> {
        Keys { input: Arc::clone(input), is_joined: is_join(input), names, computed: Vec::new() }
    }

    /// Puts a column in a key's place, if the key must be one; gives whether it did.
    fn take(&mut self, key: &mut Expr) -> bool {
        let is_column = matches!(key, Expr::Column(_) | Expr::Literal(..));
        if is_column || key.contains_outer() || !self.is_joined && self.has_order(key) {
            return false;
        }
        let known = self.computed.iter().find(|(of, _)| *of == *key).map(|(_, column)| column.clone());
        let column = match known {
            Some(column) => column,
            None => {
                let column = Column::new_unqualified(self.names.next("__key"));
                self.computed.push((key.clone(), column.clone()));
                column
            }
        };
        *key = Expr::Column(column);
        true
    }

    /// Whether DataFusion would know of rows that are sorted by it that they are. What cannot be planned by itself is left alone.
    fn has_order(&self, key: &Expr) -> bool {
        let schema = self.input.schema();
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        match create_physical_expr(key, schema, &properties, &context) {
            Ok(key) => order_of(&key, schema.as_arrow()).is_ok(),
            Err(_) => true,
        }
    }

    /// The input with the keys' columns, if there are any.
    fn below(self) -> Result<Option<Arc<LogicalPlan>>> {
        if self.computed.is_empty() {
            return Ok(None);
        }
        let columns = self.input.schema().columns().into_iter().map(Expr::Column);
        let computed = self.computed.into_iter().map(|(key, column)| key.alias(column.name));
        let exprs = columns.chain(computed).collect();
        Ok(Some(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, self.input)?))))
    }
}

/// Whether the rows are a join's as they come.
fn is_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(_) => true,
        LogicalPlan::Projection(Projection { input, .. }) => is_join(input),
        LogicalPlan::SubqueryAlias(alias) => is_join(&alias.input),
        _ => false,
    }
}

/// What DataFusion asks a key for, as it asks (`update_properties` of its equivalences), of rows in no order.
fn order_of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<ExprProperties> {
    let of_parts: Vec<ExprProperties> =
        expr.children().into_iter().map(|part| order_of(part, schema)).collect::<Result<_>>()?;
    if !of_parts.is_empty() || expr.is::<Literal>() {
        return expr.get_properties(&of_parts);
    }
    let mut unknown = ExprProperties::new_unknown();
    if expr.is::<PhysicalColumn>() {
        unknown.range = Interval::make_unbounded(&expr.data_type(schema)?)?;
        unknown.strictly_order_preserving = true;
    }
    Ok(unknown)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use proptest::prelude::*;

    const KEYS: [&str; 6] = [
        "sqrt(a * a)",
        "CASE WHEN a > 1 THEN b ELSE a END > 2",
        "exp(a) > 3",
        "-sqrt(b * b)",
        "ln(b * b + 1)",
        "a % 3",
    ];

    /// The same as [`KEYS`], without floats.
    fn key(of: usize, a: i64, b: i64) -> f64 {
        match of {
            0 => a.abs() as f64,
            1 => f64::from(u8::from((if a > 1 { b } else { a }) > 2)),
            2 => f64::from(u8::from(a > 1)),
            3 => -b.abs() as f64,
            4 => b.abs() as f64,
            _ => (a % 3) as f64,
        }
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn rows_come_in_the_order_of_any_key(
            values in prop::collection::vec((-9..10_i64, -9..10_i64), 0..30),
            of in 0..KEYS.len(),
        ) {
            let numbered: Vec<[Value; 3]> =
                values.iter().enumerate().map(|(at, (a, b))| [Some(at as i64), Some(*a), Some(*b)]).collect();
            let mut order: Vec<(usize, f64)> =
                values.iter().enumerate().map(|(at, (a, b))| (at, key(of, *a, *b))).collect();
            order.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
            let ids: Vec<Vec<Value>> = order.iter().map(|(at, _)| vec![Some(*at as i64)]).collect();
            let numbers: Vec<Vec<Value>> =
                order.iter().zip(1..).map(|((at, _), number)| vec![Some(*at as i64), Some(number)]).collect();
            let found = runtime().block_on(async {
                let context = context();
                context.register_batch("r", table(["id", "a", "b"], &numbered)).expect("a new table");
                let key = KEYS[of];
                let sorted = rows(&context, &format!("SELECT id FROM r ORDER BY {key}, id")).await?;
                let window = format!("SELECT id, row_number() OVER (ORDER BY {key}, id) n FROM r ORDER BY n");
                let window = rows(&context, &window).await?;
                let list = format!("SELECT unnest(l) FROM (SELECT array_agg(id ORDER BY {key}, id) l FROM r) x");
                let list = rows(&context, &list).await?;
                let joined = format!("SELECT r.id FROM r JOIN r s ON r.id = s.id ORDER BY {}, r.id", of_first(key));
                let joined = rows(&context, &joined).await?;
                Ok::<_, String>([sorted, list, joined, window])
            });
            prop_assert_eq!(found, Ok([ids.clone(), ids.clone(), ids, numbers]));
        }
    }

    /// The key's columns of the first of two tables.
    fn of_first(key: &str) -> String {
        let of_first = |word: &str| match word {
            "a" | "b" => format!("r.{word}"),
            _ => word.to_owned(),
        };
        let parts = key.split_inclusive(|of: char| !of.is_alphanumeric());
        let part = |part: &str| {
            let end = part.find(|of: char| !of.is_alphanumeric()).unwrap_or(part.len());
            format!("{}{}", of_first(&part[..end]), &part[end..])
        };
        parts.map(part).collect()
    }
}
