//! `greatest`, `least`, `nullif` and `coalesce` of intervals, and what CASE chooses from.
//!
//! Invariants:
//! - The greatest interval is the longest, as intervals are compared ([`crate::operators::durations`]), and of several that are as long the first. NULL is
//!   none of them.
//! - A difference of moments beside an interval is one of days and time.
//!
//! DataFusion 55.2 compares months first, and takes a difference for hours.
//!
//! Mends apache/datafusion#8468 (in 55.2).
//! Held by `slt/intervals_compared.slt` (`greatest(INTERVAL '1 day', INTERVAL '30 hours')`).

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::operators::durations;
use crate::operators::durations::{differences, length_of};
use arrow::array::{Array, ArrayRef, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    Case, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, binary_expr, lit,
};
use std::sync::Arc;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Whether a function chooses one of its arguments.
pub fn chooses(function: &ScalarFunction) -> bool {
    matches!(function.name(), "greatest" | "least" | "nullif" | "coalesce")
}

/// The same choice among intervals, if it is one among them.
pub fn chosen(function: &mut ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    if !chooses(function) || !among_intervals(function.args.iter(), schema) {
        return None;
    }
    let mut args = std::mem::take(&mut function.args);
    for arg in &mut args {
        durations::as_interval(arg, schema);
    }
    match (function.name(), args.as_slice()) {
        ("greatest", _) => Some(extreme(false, args)),
        ("least", _) => Some(extreme(true, args)),
        ("nullif", [of, other]) => {
            let [length, than] = [of, other].map(|span| durations::length(span.clone()));
            let is_equal = binary_expr(length, Operator::Eq, than);
            let none = lit(ScalarValue::IntervalMonthDayNano(None));
            let when = vec![(Box::new(is_equal), Box::new(none))];
            Some(Expr::Case(Case::new(None, when, Some(Box::new(of.clone())))))
        }
        _ => Some(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&function.func), args })),
    }
}

/// Makes intervals of all that CASE chooses from, if it chooses from intervals, and says whether it did.
pub fn chosen_from(results: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let is_difference = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Duration(_)));
    if !results.iter().any(|expr| is_difference(expr)) || !among_intervals(results.iter().map(|expr| &**expr), schema) {
        return false;
    }
    for expr in results {
        durations::as_interval(expr, schema);
    }
    true
}

fn among_intervals<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    let mut any = false;
    for expr in exprs {
        match expr.get_type(schema) {
            Ok(DataType::Interval(_)) => any = true,
            Ok(DataType::Duration(_) | DataType::Null) => {}
            _ if durations::is_text(expr) => {}
            _ => return false,
        }
    }
    any
}

fn extreme(is_least: bool, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(IntervalExtreme::new(is_least))), args))
}

/// The longest of intervals, or the shortest.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntervalExtreme {
    is_least: bool,
    signature: Signature,
}

impl Stateful for IntervalExtreme {
    const CODE: &'static str = "interval_extreme";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(u8::from(self.is_least));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(IntervalExtreme::new(state.flag()?))
    }
}

impl IntervalExtreme {
    fn new(is_least: bool) -> IntervalExtreme {
        IntervalExtreme { is_least, signature: Signature::variadic_any(Volatility::Immutable) }
    }

    fn array(&self, spans: &[ArrayRef]) -> Result<ArrayRef> {
        let spans = spans.iter().map(differences).collect::<Result<Vec<IntervalMonthDayNanoArray>>>()?;
        let rows = spans.first().map_or(0, |spans| spans.len());
        let further = |first: IntervalMonthDayNano, next: IntervalMonthDayNano| {
            let (of_first, of_next) = (length_of(first), length_of(next));
            let is_further = if self.is_least { of_next < of_first } else { of_next > of_first };
            if is_further { next } else { first }
        };
        let of_row =
            |row: usize| spans.iter().filter(|spans| spans.is_valid(row)).map(|spans| spans.value(row)).reduce(further);
        Ok(Arc::new((0..rows).map(of_row).collect::<IntervalMonthDayNanoArray>()))
    }
}

impl ScalarUDFImpl for IntervalExtreme {
    fn name(&self) -> &str {
        if self.is_least { "shortest" } else { "longest" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(SPAN)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |spans| self.array(&spans))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_found_and_of_as_long_ones_the_first() {
        let hour = 3_600_000_000_000;
        let column = |spans: [Option<(i32, i32, i64)>; 4]| {
            let of = |(months, days, nanos)| IntervalMonthDayNano::new(months, days, nanos);
            Arc::new(spans.into_iter().map(|span| span.map(of)).collect::<IntervalMonthDayNanoArray>()) as ArrayRef
        };
        let spans = [
            column([Some((0, 1, 0)), Some((1, 0, 0)), None, None]),
            column([Some((0, 0, 30 * hour)), Some((0, 30, 0)), Some((0, -1, 0)), None]),
        ];
        let found = |is_least: bool| {
            let function = IntervalExtreme { is_least, signature: Signature::variadic_any(Volatility::Immutable) };
            function.array(&spans).unwrap()
        };
        let longest = column([Some((0, 0, 30 * hour)), Some((1, 0, 0)), Some((0, -1, 0)), None]);
        let shortest = column([Some((0, 1, 0)), Some((1, 0, 0)), Some((0, -1, 0)), None]);
        assert_eq!((&found(false), &found(true)), (&longest, &shortest));
    }
}
