//! Rounding of floats, and of decimals that become integers, as PostgreSQL rounds them.
//!
//! Invariants:
//! - Of two numbers that are equally near, a float becomes the even one, and a number that PostgreSQL has as NUMERIC the one further from
//!   zero. NUMERIC there, and floats here, are numbers that are written out, averages of whole numbers and of decimals, and what is made
//!   of these by arithmetic: `round(2.5)` is 3, and `round(CAST(2.5 AS DOUBLE PRECISION))` is 2. They are followed through derived tables.
//! - `round(x, n)` of a float is `round(x::numeric, n)`: PostgreSQL has no other, and takes the 15 digits that a float is sure of.
//! - `round(x, n)` of a decimal has the type that is written ([`alluvia_functions::rounding::places`]).
//! - What is chosen of decimals and floats is a float, unless that is NUMERIC in PostgreSQL ([`chosen`]).
//! - A float that is cast to a decimal is the number of the digits that it is sure of ([`alluvia_functions::rounding::float_to_decimal`]).
//! - A decimal becomes the nearest integer, and of two the one further from zero. It is rounded by a function, so that a comparison of the
//!   cast does not become one of the decimal, which more or less numbers pass.
//!
//! DataFusion 55.2 rounds all floats away from zero, cuts off what is behind the point in casts, and multiplies by a power of ten for
//! `round(x, n)`, so that `round(2.675, 2)` is 2.67 or 2.68 by chance.

mod chosen;

use crate::constants::value_of;
use crate::expressions::each_named;
use alluvia_functions::rounding::round::{has_fraction, is_rounded, rounded};
use alluvia_functions::to_char;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::collections::HashSet;

/// Puts our functions in the place of `round` and of casts of floats to decimals, and into casts to integers. Types must not have been coerced: a cast that was written tells a float
/// from a number.
#[derive(Debug)]
pub struct RoundedFloats;

impl AnalyzerRule for RoundedFloats {
    fn name(&self) -> &str {
        "rounded_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rounded = plan.transform_up_with_subqueries(|plan| {
            if !rounds(&plan)? {
                return Ok(Transformed::no(plan));
            }
            let schema = merge_schema(&plan.inputs());
            let exact = plan.inputs().into_iter().flat_map(exact_columns).collect();
            let rounding = Rounding { schema: &schema, exact };
            let names = NamePreserver::new(&plan);
            let change = |expr: Expr| expr.transform_up(|expr| Ok(rounding.of(expr)));
            plan.map_expressions(|expr| each_named(&names, expr, &change))?.map_data(as_planned)
        })?;
        Ok(rounded.data)
    }
}

/// VALUES with the types that they were planned with, which nothing computes anew.
fn as_planned(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Values(mut values) = plan else { return Ok(plan) };
    let nothing = DFSchema::empty();
    for row in &mut values.values {
        for (value, field) in row.iter_mut().zip(values.schema.fields()) {
            let is_other = |of: DataType| (of.is_decimal() || of.is_floating()) && of != *field.data_type();
            if value.get_type(&nothing).is_ok_and(is_other) {
                *value = cast(std::mem::take(value), field.data_type().clone());
            }
        }
    }
    Ok(LogicalPlan::Values(values))
}

fn rounds(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|expr| {
            Ok(match expr {
                Expr::ScalarFunction(function) => ["round", "to_char"].contains(&function.name()),
                Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
                    field.data_type().is_integer() || matches!(field.data_type(), DataType::Decimal128(..))
                }
                _ => false,
            } || chosen::chooses(expr))
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// What is rounded, and what is known of it.
struct Rounding<'a> {
    schema: &'a DFSchema,
    /// Columns of floats that PostgreSQL has as NUMERIC.
    exact: HashSet<Column>,
}

impl Rounding<'_> {
    fn of(&self, expr: Expr) -> Transformed<Expr> {
        match expr {
            Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "round" => {
                match <[Expr; 2]>::try_from(args) {
                    Ok([of, places]) if self.is_float(&of) => Transformed::yes(
                        alluvia_functions::rounding::round::at_place(of, cast(places, DataType::Int64)),
                    ),
                    Ok(args) => {
                        // What fails is computed when the statement runs, and fails there.
                        let places = value_of(&args[1]).ok().flatten();
                        alluvia_functions::rounding::places::placed(func, args, places.as_ref())
                    }
                    Err(args) => match <[Expr; 1]>::try_from(args) {
                        Ok([of]) if self.is_float(&of) => {
                            let to_even = !self.is_exact(&of);
                            Transformed::yes(rounded(of, to_even))
                        }
                        Ok(args) => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args: args.into() })),
                        Err(args) => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
                    },
                }
            }
            // Digits that a template does not show are rounded, too.
            Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "to_char" => {
                let is_exact = args.first().is_some_and(|of| self.is_float(of) && self.is_exact(of));
                if is_exact {
                    return Transformed::yes(to_char::of_exact(args));
                }
                Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))
            }
            Expr::Cast(Cast { expr: of, field }) if field.data_type().is_integer() && self.has_fraction(&of) => {
                let to_even = !self.is_exact(&of);
                Transformed::yes(Expr::Cast(Cast { expr: Box::new(rounded(*of, to_even)), field }))
            }
            Expr::TryCast(TryCast { expr: of, field }) if field.data_type().is_integer() && self.has_fraction(&of) => {
                let to_even = !self.is_exact(&of);
                Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(rounded(*of, to_even)), field }))
            }
            Expr::Cast(Cast { expr: of, field }) => match self.target(&of, field.data_type(), false) {
                Some(target) => {
                    Transformed::yes(alluvia_functions::rounding::float_to_decimal::decimal_of(*of, target))
                }
                None => Transformed::no(Expr::Cast(Cast { expr: of, field })),
            },
            Expr::TryCast(TryCast { expr: of, field }) => match self.target(&of, field.data_type(), true) {
                Some(target) => {
                    Transformed::yes(alluvia_functions::rounding::float_to_decimal::decimal_of(*of, target))
                }
                None => Transformed::no(Expr::TryCast(TryCast { expr: of, field })),
            },
            other if chosen::chooses(&other) => chosen::chosen(other, self),
            other => Transformed::no(other),
        }
    }

    /// What a float is cast to, if it is a decimal. A number that is written out has its own digits.
    fn target(&self, of: &Expr, to: &DataType, is_tried: bool) -> Option<alluvia_values::float_to_decimal::Target> {
        let DataType::Decimal128(precision, scale) = *to else { return None };
        let is_float = matches!(of.get_type(self.schema), Ok(DataType::Float32 | DataType::Float64));
        let is_exact = is_float && self.is_exact(of);
        (is_float && !is_written(of)).then_some(alluvia_values::float_to_decimal::Target {
            precision,
            scale,
            is_exact,
            is_tried,
        })
    }

    fn has_fraction(&self, expr: &Expr) -> bool {
        !is_rounded(expr) && expr.get_type(self.schema).is_ok_and(|of| has_fraction(&of))
    }

    fn is_float(&self, expr: &Expr) -> bool {
        !is_rounded(expr) && matches!(expr.get_type(self.schema), Ok(DataType::Float32 | DataType::Float64))
    }

    /// Whether PostgreSQL has it as NUMERIC, or as an integer.
    fn is_exact(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Literal(..) => true,
            Expr::Column(column) if self.exact.contains(column) => true,
            Expr::Alias(alias) => self.is_exact(&alias.expr),
            Expr::ScalarFunction(function)
                if alluvia_functions::rounding::float_to_decimal::is_decimal_of(function) =>
            {
                true
            }
            Expr::Negative(inner) => self.is_exact(inner),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                use Operator::{Divide, Minus, Modulo, Multiply, Plus};
                matches!(op, Plus | Minus | Multiply | Divide | Modulo) && self.is_exact(left) && self.is_exact(right)
            }
            Expr::AggregateFunction(function) => {
                let same = ["avg", "sum", "min", "max"].contains(&function.func.name());
                same && function.params.args.iter().all(|of| self.is_exact(of))
            }
            Expr::WindowFunction(function) => {
                let same = ["avg", "sum", "min", "max"].contains(&function.fun.name());
                same && function.params.args.iter().all(|of| self.is_exact(of))
            }
            Expr::ScalarFunction(function) => {
                let same = ["abs", "ceil", "coalesce", "floor", "greatest", "least", "nullif", "round", "trunc"];
                let is_rounding = same.contains(&function.name()) || is_rounded(expr);
                is_rounding && function.args.iter().all(|of| self.is_exact(of))
            }
            Expr::Case(case) => {
                let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
                results.into_iter().all(|result| self.is_exact(result))
            }
            Expr::ScalarSubquery(of) if self.is_float(expr) => {
                let exact = exact_columns(&of.subquery);
                of.subquery.schema().columns().first().is_some_and(|column| exact.contains(column))
            }
            other => {
                use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
                let of = other.get_type(self.schema);
                of.is_ok_and(|of| {
                    of.is_integer() || matches!(of, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
                })
            }
        }
    }
}

/// Whether it is a number that is written out.
fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Negative(inner) => is_written(inner),
        _ => false,
    }
}

/// The columns of a plan that PostgreSQL has as NUMERIC, and that are floats here.
fn exact_columns(plan: &LogicalPlan) -> HashSet<Column> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let rounding = Rounding { schema: aggregate.input.schema(), exact: exact_columns(&aggregate.input) };
            exact_of(&rounding, aggregate.group_expr.iter().chain(&aggregate.aggr_expr))
        }
        LogicalPlan::Projection(projection) => {
            let rounding = Rounding { schema: projection.input.schema(), exact: exact_columns(&projection.input) };
            exact_of(&rounding, projection.expr.iter())
        }
        LogicalPlan::Window(window) => {
            let rounding = Rounding { schema: window.input.schema(), exact: exact_columns(&window.input) };
            let mut exact = exact_of(&rounding, window.window_expr.iter());
            exact.extend(rounding.exact);
            exact
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let renamed = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
            exact_columns(&alias.input).into_iter().map(renamed).collect()
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Join(_) => plan.inputs().into_iter().flat_map(exact_columns).collect(),
        LogicalPlan::Values(values) => {
            let nothing = DFSchema::empty();
            let rounding = Rounding { schema: &nothing, exact: HashSet::new() };
            let is_exact = |at: usize| values.values.iter().all(|row| rounding.is_exact(&row[at]));
            let columns = values.schema.columns().into_iter().enumerate();
            columns.filter(|(at, _)| is_exact(*at)).map(|(_, column)| column).collect()
        }
        LogicalPlan::Union(union) => {
            let inputs: Vec<_> = union.inputs.iter().map(|of| (of.schema().columns(), exact_columns(of))).collect();
            let is_exact = |at: usize| inputs.iter().all(|(columns, exact)| exact.contains(&columns[at]));
            let columns = union.schema.columns().into_iter().enumerate();
            columns.filter(|(at, _)| is_exact(*at)).map(|(_, column)| column).collect()
        }
        _ => HashSet::new(),
    }
}

fn exact_of<'a>(rounding: &Rounding<'_>, exprs: impl Iterator<Item = &'a Expr>) -> HashSet<Column> {
    let is_exact = |expr: &&Expr| {
        matches!(expr.get_type(rounding.schema), Ok(DataType::Float32 | DataType::Float64)) && rounding.is_exact(expr)
    };
    let column = |expr: &Expr| {
        let (relation, name) = expr.qualified_name();
        Column::new(relation, name)
    };
    exprs.filter(is_exact).map(column).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, batches, context, nearest, questions, rows, runtime, table};
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;
    use proptest::prelude::*;

    fn asked(of: &[[Value; 1]], sql: &str) -> Vec<Vec<Value>> {
        let context = context();
        context.register_batch("t", table(["n"], of)).expect("a new table");
        runtime().block_on(rows(&context, sql)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// `digits / 10^places`, written out.
    fn decimal(digits: i64, places: u32) -> String {
        let (sign, unit) = (if digits < 0 { "-" } else { "" }, 10_u64.pow(places));
        let (whole, rest) = (digits.unsigned_abs() / unit, digits.unsigned_abs() % unit);
        if places == 0 {
            format!("{sign}{whole}")
        } else {
            format!("{sign}{whole}.{rest:0width$}", width = places as usize)
        }
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn doubles_go_to_the_even_neighbour_and_numbers_away_from_zero(
            eighths in prop::collection::vec(-100_000..100_000_i64, 1..20),
        ) {
            let of: Vec<[Value; 1]> = eighths.iter().map(|&n| [Some(n)]).collect();
            let found = asked(
                &of,
                "SELECT n, CAST(round(d) AS BIGINT) AS a, CAST(d AS BIGINT) AS b, CAST(round(e) AS BIGINT) AS c, CAST(e AS BIGINT) AS d, \
                 CAST(round(CAST(n AS DOUBLE PRECISION) / 8) AS BIGINT) AS e, CAST(round(n / 8.0) AS BIGINT) AS f \
                 FROM (SELECT n, CAST(n AS DOUBLE PRECISION) / 8 AS d, n / 8.0 AS e FROM t) q ORDER BY n",
            );
            let mut sorted = eighths;
            sorted.sort_unstable();
            let expected = sorted.iter().map(|&n| {
                let (even, away) = (Some(nearest(n, 8, true)), Some(nearest(n, 8, false)));
                vec![Some(n), even, even, away, away, even, away]
            });
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }

        #[test]
        fn what_is_written_out_is_a_number(n in -100_000..100_000_i64) {
            let of = decimal(n * 125, 3);
            let found = asked(
                &[[Some(n)]],
                &format!(
                    "SELECT CAST(round({of}) AS BIGINT) AS a, CAST({of} AS BIGINT) AS b, CAST(round(v) AS BIGINT) AS c, \
                     CAST(round(CAST({of} AS DECIMAL(12, 3))) AS BIGINT) AS d, \
                     CAST(round(CAST({of} AS DOUBLE PRECISION)) AS BIGINT) AS e, CAST(CAST({of} AS DOUBLE PRECISION) AS BIGINT) AS f \
                     FROM (VALUES ({of})) q (v)"
                ),
            );
            let (even, away) = (Some(nearest(n, 8, true)), Some(nearest(n, 8, false)));
            prop_assert_eq!(found, vec![vec![away, away, away, away, even, even]], "{}", of);
        }

        #[test]
        fn averages_of_whole_numbers_are_numbers(values in prop::collection::vec(-50..50_i64, 1..9)) {
            let of: Vec<[Value; 1]> = values.iter().map(|&n| [Some(n)]).collect();
            let (sum, count) = (values.iter().sum::<i64>(), values.len() as i64);
            let (even, away) = (Some(nearest(sum, count, true)), Some(nearest(sum, count, false)));
            let found = asked(&of, "SELECT CAST(round(avg(n)) AS BIGINT) AS a, CAST(avg(n) AS BIGINT) AS b FROM t");
            prop_assert_eq!(found, vec![vec![away, away]], "{:?}", values);
            let found = asked(&of, "SELECT CAST(round(m) AS BIGINT) AS a FROM (SELECT avg(n) AS m FROM t) q");
            prop_assert_eq!(found, vec![vec![away]], "{:?}", values);
            let doubles = "avg(CAST(n AS DOUBLE PRECISION))";
            let sql = format!("SELECT CAST(round({doubles}) AS BIGINT) AS a, CAST({doubles} AS BIGINT) AS b FROM t");
            let found = asked(&of, &sql);
            prop_assert_eq!(found, vec![vec![even, even]], "{:?}", values);
        }

        #[test]
        fn places_are_those_of_the_digits(
            digits in -1_000_000_000_000..1_000_000_000_000_i64,
            behind in 0..7_u32,
            places in -3..9_i64,
        ) {
            let of = decimal(digits, behind);
            let dropped = u32::try_from(i64::from(behind) - places).unwrap_or(0);
            let rounded = nearest(digits, 10_i64.pow(dropped), false);
            let expected: f64 = format!("{rounded}e{}", i64::from(dropped) - i64::from(behind)).parse().expect("a float");
            let sql = format!("SELECT round(CAST({of} AS DOUBLE PRECISION), {places}) AS r");
            let found = runtime().block_on(batches(&context(), &sql)).unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(found[0].column(0).as_primitive::<Float64Type>().value(0), expected, "{}", sql);
        }
    }
}
