//! Dates beside timestamps where no operator brings them together.
//!
//! Invariants:
//! - In comparisons, `IN`, `BETWEEN` and CASE, in UNION, and among the arguments of `coalesce`, `greatest`, `least` and `nullif`, a date that stands
//!   beside a timestamp is the timestamp at which it begins, in microseconds, in which all fit that can be stored.
//! - Where there is no date, or anything but dates, timestamps, NULL and texts, nothing is changed.
//!
//! DataFusion 55.2 counts nanoseconds there, and fails outside of the years 1677 to 2262. What operators compare is cast where it is planned,
//! too ([`crate::before_types::timestamps`]): the short path and pruning know it by that.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: date, timestamp, coercion, nanoseconds,
//! out of range).

use crate::expressions::{changed_as_written, parts_of_case};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Union, cast,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Functions that bring their arguments to one type.
const FUNCTIONS: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Casts dates that stand beside timestamps. Types must not have been coerced, which computes the schemas anew.
#[derive(Debug)]
pub struct CommonTimestampType;

impl AnalyzerRule for CommonTimestampType {
    fn name(&self) -> &str {
        "common_timestamp_type"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = changed_as_written(plan, needs_one_type, in_one_type)?;
        Ok(plan.transform_up_with_subqueries(united)?.data)
    }
}

/// A union of whose inputs some have dates where others have timestamps: these become timestamps before they meet.
fn united(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(union) = plan else { return Ok(Transformed::no(plan)) };
    let width = union.inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let wanted = |at: usize| {
        let types = union.inputs.iter().map(|input| input.schema().field(at).data_type().clone());
        moment_among(&types.collect::<Vec<DataType>>())
    };
    let wanted: Vec<Option<DataType>> = (0..width).map(wanted).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let exprs = input.schema().columns().into_iter().enumerate().map(|(at, column)| match wanted.get(at) {
            Some(Some(moment)) if *input.schema().field(at).data_type() == DataType::Date32 => {
                let (relation, name) = (column.relation.clone(), column.name.clone());
                cast(Expr::Column(column), moment.clone()).alias_qualified(relation, name)
            }
            _ => Expr::Column(column),
        });
        let exprs: Vec<Expr> = exprs.collect();
        let is_changed = exprs.iter().any(|expr| !matches!(expr, Expr::Column(_)));
        if !is_changed {
            return Ok(input);
        }
        Ok(Arc::new(LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(exprs)?.build()?))
    });
    let union = Union::try_new_with_loose_types(inputs.collect::<Result<Vec<Arc<LogicalPlan>>>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Whether parts of an expression are to have one type.
fn needs_one_type(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) | Expr::Between(_) | Expr::Case(_) => true,
        Expr::BinaryExpr(binary) => compares(binary.op),
        Expr::ScalarFunction(function) => FUNCTIONS.contains(&function.name()),
        _ => false,
    }
}

/// What is planned as an operator has been cast there, unless a side has only become a timestamp in microseconds here.
fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The expression with the dates among its parts as timestamps, if a timestamp is among them.
fn in_one_type(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_changed = match &mut expr {
        Expr::InList(InList { expr: of, list, .. }) => {
            let mut all: Vec<&mut Expr> = vec![&mut **of];
            all.extend(list);
            in_microseconds(all, schema)
        }
        Expr::Between(Between { expr: of, low, high, .. }) => {
            in_microseconds(vec![&mut **of, &mut **low, &mut **high], schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            in_microseconds(vec![&mut **left, &mut **right], schema)
        }
        Expr::Case(case) => {
            let (compared, results) = parts_of_case(case);
            let is_compared = compared.is_some_and(|compared| in_microseconds(compared, schema));
            in_microseconds(results, schema) || is_compared
        }
        Expr::ScalarFunction(function) if FUNCTIONS.contains(&function.name()) => {
            in_microseconds(function.args.iter_mut().collect(), schema)
        }
        _ => false,
    };
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Casts the dates among expressions that are to have one type, if a timestamp is among them, and says whether it did.
fn in_microseconds(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let Some(types) = exprs.iter().map(|expr| expr.get_type(schema).ok()).collect::<Option<Vec<DataType>>>() else {
        return false;
    };
    let Some(moment) = moment_among(&types) else { return false };
    let mut any = false;
    for (expr, of) in exprs.into_iter().zip(types) {
        if of == DataType::Date32 {
            let date = std::mem::take(expr);
            *expr = cast(date, moment.clone());
            any = true;
        }
    }
    any
}

/// What dates become among values of these types that are to have one; `None` if nothing is to be changed.
fn moment_among(types: &[DataType]) -> Option<DataType> {
    let mut moment: Option<&DataType> = None;
    for of in types {
        match of {
            // With a zone if any of them has one.
            DataType::Timestamp(TimeUnit::Microsecond, zone) if moment.is_none() || zone.is_some() => moment = Some(of),
            DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Date32 | DataType::Null => {}
            text if text.is_string() => {}
            _ => return None,
        }
    }
    moment.filter(|_| types.contains(&DataType::Date32)).cloned()
}

#[cfg(test)]
mod tests {
    use crate::testing::{context, rows, runtime};

    #[test]
    fn dates_are_timestamps_beside_them_in_all_years() {
        let (date, time) = ("arrow_cast('2999-11-21', 'Date32')", "arrow_cast('2999-11-21T10:00:00', 'Timestamp(µs)')");
        let from = format!("FROM (SELECT {date} AS d, {time} AS t) q");
        for (expr, expected) in [
            ("t IN (d, d)", 0),
            ("d IN (t, t, t, t, d)", 1),
            ("t BETWEEN d AND d", 0),
            ("d BETWEEN d AND t", 1),
            ("d IS DISTINCT FROM t", 1),
            ("CASE t WHEN d THEN true ELSE false END", 0),
            ("CASE WHEN d > t THEN t ELSE d END = d", 1),
            ("coalesce(d, t) < t", 1),
            ("greatest(d, t) = t", 1),
            ("least(d, t) = d", 1),
            ("nullif(t, d) = t", 1),
        ] {
            let found = runtime().block_on(rows(&context(), &format!("SELECT {expr} AS x {from}")));
            assert_eq!(found, Ok(vec![vec![Some(expected)]]), "{expr}");
        }
        for (all, expected) in [("ALL", 2), ("", 1)] {
            let day = "arrow_cast('2999-11-21T00:00:00', 'Timestamp(µs)')";
            let sql = format!("SELECT count(*) FROM (SELECT {date} AS a UNION {all} SELECT {day}) q WHERE a = {day}");
            assert_eq!(runtime().block_on(rows(&context(), &sql)), Ok(vec![vec![Some(expected)]]), "{sql}");
        }
    }
}
