//! Casts that mean what PostgreSQL means, and moments that lose nothing in silence.
//!
//! Invariants:
//! - A float that becomes an integer because something wants one becomes the nearest, and of two the even one, as one that is cast
//!   ([`crate::before_types::rounding`]); of a decimal, and of two the one further from zero. DataFusion 55.2 cuts off what is behind the point.
//! - A moment, a float, an interval or a list that becomes text, by a cast that was written or because something wants text (`||`, `concat`),
//!   is written as PostgreSQL writes it ([`alluvia_functions::casts::text_output`]): `2026-11-21 10:11:12+00`, `Infinity`, `1e+20`, `1 day 02:00:00`, `{1,NULL}`; and
//!   text that becomes a list is read so ([`alluvia_functions::arrays`]).
//! - A number that is too large for a float is an error, and not infinity ([`alluvia_functions::casts::float_ranges`]).
//! - A text that becomes an interval is read as PostgreSQL reads it ([`alluvia_functions::casts::interval_input`]).
//! - Of a cast that does not keep the order of what is cast (a moment's time of day, a number as text, a text as number) no bound is known:
//!   `max(n::text)` is 9 of 9 and 10. DataFusion 55.2 casts the bounds of columns, to skip what cannot match and to answer `min` and `max`.
//! - A date and a part of a day that come together only after parameters have their values are not added: what they make was told to be
//!   a date, and DataFusion 55.2 drops the part. All others make a timestamp ([`crate::before_types::timestamps`]).
//!
//! Mends apache/datafusion#25221 (in 55.2).

use crate::before_types::timestamps::is_part_of_day;
use crate::expressions::changed;
use alluvia_functions::arrays;
use alluvia_functions::casts::float_ranges::{float, may_be_too_large};
use alluvia_functions::casts::interval_input::{SPAN, read};
use alluvia_functions::casts::text_output::{is_written_otherwise, written};
use alluvia_functions::internal::opaque::{is_opaque, opaque};
use alluvia_functions::rounding::round::{has_fraction, is_rounded, rounded};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

/// Puts rounding where floats and decimals are cast to integers, writes moments, floats and intervals where they are cast to text, hides the
/// bounds of what is cast out of order, and refuses dates with parts of days. Types must have been coerced.
#[derive(Debug)]
pub struct LosslessCasts;

impl AnalyzerRule for LosslessCasts {
    fn name(&self) -> &str {
        "lossless_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, may_lose, kept)
    }
}

fn may_lose(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(_) | Expr::TryCast(_) => true,
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::Plus | Operator::Minus),
        _ => false,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether it is a number that is written out, which PostgreSQL has as NUMERIC: `1.0` keeps its digits.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => value.is_finite(),
        Expr::Negative(inner) => is_number(inner),
        _ => false,
    }
}

/// Whether a cast of columns' values may put them in another order.
fn is_out_of_order(of: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    !is_opaque(of) && of.any_column_refs() && of.get_type(schema).is_ok_and(|of| !keeps_order(&of, to))
}

fn keeps_order(of: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Dictionary, Null, Timestamp};
    let is_moment = |data_type: &DataType| matches!(data_type, Date32 | Date64 | Timestamp(..));
    match (of, to) {
        (Dictionary(_, of), to) => keeps_order(of, to),
        (of, Dictionary(_, to)) => keeps_order(of, to),
        // There is but one value, or none.
        (Null, _) => true,
        // Of rows and lists nobody knows bounds.
        (of, _) if of.is_nested() => true,
        (of, to) if of == to => true,
        (of, to) if is_text(of) || is_text(to) => is_text(of) && is_text(to),
        (of, to) if of.is_numeric() || *of == Boolean => to.is_numeric(),
        (of, to) => is_moment(of) && (is_moment(to) || to.is_integer()) || is_bytes(of) && is_bytes(to),
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn kept(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let has_fraction = |expr: &Expr| !is_rounded(expr) && expr.get_type(schema).is_ok_and(|of| has_fraction(&of));
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    let is_of_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| is_text(&of));
    match expr {
        Expr::Cast(Cast { expr: of, field }) if field.data_type().is_integer() && has_fraction(&of) => {
            Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(rounded(*of, true)), field })))
        }
        Expr::TryCast(TryCast { expr: of, field }) if field.data_type().is_integer() && has_fraction(&of) => {
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(rounded(*of, true)), field })))
        }
        Expr::Cast(Cast { expr: of, field }) | Expr::TryCast(TryCast { expr: of, field })
            if is_text(field.data_type())
                && !is_number(&of)
                && of.get_type(schema).is_ok_and(|of| is_written_otherwise(&of)) =>
        {
            Ok(Transformed::yes(written(*of, field.data_type().clone())))
        }
        Expr::Cast(Cast { expr: of, field })
            if of.get_type(schema).is_ok_and(|of| may_be_too_large(&of, field.data_type())) =>
        {
            Ok(Transformed::yes(float(*of, field.data_type().clone(), false)))
        }
        Expr::TryCast(TryCast { expr: of, field })
            if of.get_type(schema).is_ok_and(|of| may_be_too_large(&of, field.data_type())) =>
        {
            Ok(Transformed::yes(float(*of, field.data_type().clone(), true)))
        }
        Expr::Cast(Cast { expr: of, field }) if *field.data_type() == SPAN && is_of_text(&of) => {
            Ok(Transformed::yes(read(*of, false)))
        }
        Expr::TryCast(TryCast { expr: of, field }) if *field.data_type() == SPAN && is_of_text(&of) => {
            Ok(Transformed::yes(read(*of, true)))
        }
        Expr::Cast(Cast { expr: of, field })
            if of.get_type(schema).is_ok_and(|of| arrays::is_read_as_list(&of, field.data_type())) =>
        {
            Ok(Transformed::yes(arrays::read(*of, field.data_type().clone(), false)))
        }
        Expr::TryCast(TryCast { expr: of, field })
            if of.get_type(schema).is_ok_and(|of| arrays::is_read_as_list(&of, field.data_type())) =>
        {
            Ok(Transformed::yes(arrays::read(*of, field.data_type().clone(), true)))
        }
        Expr::Cast(Cast { expr: of, field }) if is_out_of_order(&of, field.data_type(), schema) => {
            Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(opaque(*of)), field })))
        }
        Expr::TryCast(TryCast { expr: of, field }) if is_out_of_order(&of, field.data_type(), schema) => {
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(opaque(*of)), field })))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right })
            if is_date(&left) && is_part_of_day(&right) || is_date(&right) && is_part_of_day(&left) =>
        {
            let word = if op == Operator::Plus { "adding hours to" } else { "taking hours from" };
            not_impl_err!("{word} a date is not supported: write CAST(x AS TIMESTAMP) for the date")
        }
        other => Ok(Transformed::no(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{nearest, questions, runtime};
    use alluvia_values::convert::texts_of;
    use arrow::array::{
        ArrayRef, AsArray, Date32Array, Float32Array, Float64Array, RecordBatch, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Int64Type, IntervalMonthDayNano};
    use datafusion::logical_expr::{LogicalPlanBuilder, binary_expr, cast, col, lit, try_cast};
    use datafusion::prelude::SessionContext;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// DataFusion's own session, in which nothing else rounds, and a plan of its table.
    async fn of_table(batch: RecordBatch) -> (SessionContext, LogicalPlan) {
        let context = SessionContext::new();
        context.register_batch("t", batch).expect("a new table");
        let table = context.table("t").await.expect("the table");
        (context, table.logical_plan().clone())
    }

    fn projected(plan: LogicalPlan, exprs: Vec<Expr>) -> LogicalPlan {
        LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).expect("a plan")
    }

    #[tokio::test]
    async fn a_cast_that_is_gone_hides_nothing() {
        let context = crate::testing::context();
        for (condition, seen) in [("a::text = '5'", true), ("a::text < '5'", false), ("a::bigint < 5", true)] {
            let sql = format!("SELECT 1 FROM (VALUES (1), (2)) t(a) WHERE {condition}");
            let plan = context.sql(&sql).await.unwrap().into_optimized_plan().unwrap().to_string();
            assert_eq!(!plan.contains("as_it_comes"), seen, "{condition}: {plan}");
        }
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn floats_become_the_nearest_integers(eighths in prop::collection::vec(-4_000..4_000_i64, 1..30)) {
            let found = runtime().block_on(async {
                let doubles: Float64Array = eighths.iter().map(|&of| Some(of as f64 / 8.0)).collect();
                let reals: Float32Array = eighths.iter().map(|&of| Some(of as f32 / 8.0)).collect();
                let batch = RecordBatch::try_from_iter([("f", Arc::new(doubles) as _), ("r", Arc::new(reals) as _)]);
                let (context, plan) = of_table(batch.expect("columns")).await;
                let casts = vec![
                    cast(col("f"), DataType::Int64).alias("a"),
                    try_cast(col("f"), DataType::Int64).alias("b"),
                    cast(col("r"), DataType::Int64).alias("c"),
                ];
                let plan = LosslessCasts.analyze(projected(plan, casts), &ConfigOptions::default()).expect("a plan");
                context.execute_logical_plan(plan).await.expect("runs").collect().await.expect("an answer")
            });
            let expected: Vec<i64> = eighths.iter().map(|&of| nearest(of, 8, true)).collect();
            for column in 0..3 {
                let values = found.iter().flat_map(|batch| batch.column(column).as_primitive::<Int64Type>().values());
                let values: Vec<i64> = values.copied().collect();
                prop_assert_eq!(&values, &expected, "column {}", column);
            }
        }

        #[test]
        fn moments_and_floats_become_what_texts_hold(micros in prop::collection::vec(any::<i32>(), 1..20)) {
            let (found, expected) = runtime().block_on(async {
                let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(micros.iter().map(|&of| i64::from(of))));
                let floats: Float64Array = micros.iter().map(|&of| Some(1.0 / f64::from(of % 3))).collect();
                let floats: ArrayRef = Arc::new(floats);
                let expected = [&moments, &floats].map(|of| texts_of(of).expect("texts"));
                let (context, plan) = of_table(RecordBatch::try_from_iter([("m", moments), ("f", floats)]).expect("columns")).await;
                let casts = vec![cast(col("m"), DataType::Utf8View).alias("a"), try_cast(col("f"), DataType::Utf8View).alias("b")];
                let plan = LosslessCasts.analyze(projected(plan, casts), &ConfigOptions::default()).expect("a plan");
                (context.execute_logical_plan(plan).await.expect("runs").collect().await.expect("an answer"), expected)
            });
            for (at, expected) in expected.iter().enumerate() {
                prop_assert_eq!(found[0].column(at), expected);
            }
        }

        #[test]
        fn dates_take_no_parts_of_days(
            (months, days) in (-20..20_i32, -40..40_i32),
            hours in -50..50_i64,
            is_plus in any::<bool>(),
        ) {
            let interval = IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000);
            let interval = lit(ScalarValue::IntervalMonthDayNano(Some(interval)));
            let operator = if is_plus { Operator::Plus } else { Operator::Minus };
            let analyzed = runtime().block_on(async {
                let dates = Arc::new(Date32Array::from(vec![20_000])) as ArrayRef;
                let (_, plan) = of_table(RecordBatch::try_from_iter([("d", dates)]).expect("a column")).await;
                let plan = projected(plan, vec![binary_expr(col("d"), operator, interval).alias("m")]);
                LosslessCasts.analyze(plan, &ConfigOptions::default())
            });
            match analyzed {
                Ok(_) => prop_assert_eq!(hours % 24, 0),
                Err(error) => {
                    prop_assert!(hours % 24 != 0 && error.to_string().contains("a date is not supported"), "{}", error);
                }
            }
        }
    }
}
