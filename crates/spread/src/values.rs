//! Values that make the states of aggregates.
//!
//! A worker whose index answers `sum(x)` has no state of `sum`; but a sum and a count make one. So what is asked for are values, where all
//! states of a plan's aggregates are made of such.
//!
//! Invariant: a state that is made of values merges to what the state of the same rows does.

use alluvia_functions::aggregates::sum::WIDE;
use arrow::array::{Array, ArrayRef};
use arrow::compute::kernels::{cmp::eq, zip::zip};
use arrow::compute::{cast, is_not_null, nullif};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Cast};
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable};
use std::sync::Arc;

/// What a state column is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Made {
    /// A value, by its place among those that are asked for.
    Value(usize),
    /// The same, where NULL is 0.
    Filled(usize),
    /// A count, where 0 is NULL: what has a sum of nothing beside it.
    Counted(usize),
    /// 0 for all.
    Zero,
}

/// Aggregate functions that values are made by.
pub(crate) struct Makers {
    pub count: Arc<AggregateUDF>,
    pub sum: Arc<AggregateUDF>,
}

/// The values to ask for, and what makes all states of them; `None` where some are made of no values. `states` are those of each function,
/// `schema` is that of the rows.
pub(crate) fn values_of(
    functions: &[Expr],
    states: &[Vec<FieldRef>],
    makers: &Makers,
    schema: &DFSchema,
) -> Result<Option<(Vec<Expr>, Vec<Made>)>> {
    let (mut values, mut made): (Vec<Expr>, Vec<Made>) = Default::default();
    let place = |value: Expr, values: &mut Vec<Expr>| match values.iter().position(|known| *known == value) {
        Some(known) => known,
        None => {
            values.push(value);
            values.len() - 1
        }
    };
    for (function, states) in functions.iter().zip(states) {
        let Some((call, argument)) = plain(function) else { return Ok(None) };
        let parts: Vec<&str> = states.iter().map(part_of).collect();
        match (call.func.name(), parts.as_slice()) {
            ("count", ["count"]) | ("min" | "max", [_]) | ("sum", ["sum"]) => {
                made.push(Made::Value(place(function.clone(), &mut values)));
            }
            // A sum of decimals may have more digits than its values may, where their average has not; and one of a part, where the whole
            // has not.
            ("avg", _) if argument.get_type(schema)?.is_decimal() => return Ok(None),
            ("sum", _) if matches!(argument.get_type(schema)?, DataType::Decimal128(DECIMAL128_MAX_PRECISION, _)) => {
                return Ok(None);
            }
            ("sum" | "avg", parts) if parts.len() > 1 && parts.contains(&"sum") => {
                // DataFusion's averages of doubles know by NULL that there is no value, the others by a count of 0.
                let is_of_doubles = argument.get_type(schema)?.is_floating();
                for (part, state) in parts.iter().zip(states) {
                    made.push(match *part {
                        "count" => {
                            let count = place(call_of(&makers.count, unwidened(argument, schema)?), &mut values);
                            if is_of_doubles { Made::Counted(count) } else { Made::Filled(count) }
                        }
                        "carry" => Made::Zero,
                        "sum" => {
                            let summed = summed(argument, state.data_type(), schema)?;
                            let sum = place(call_of(&makers.sum, summed), &mut values);
                            if is_of_doubles { Made::Value(sum) } else { Made::Filled(sum) }
                        }
                        _ => return Ok(None),
                    });
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(Some((values, made)))
}

/// A call of an aggregate of one argument that has nothing else.
fn plain(function: &Expr) -> Option<(&AggregateFunction, &Expr)> {
    let Expr::AggregateFunction(call) = function else { return None };
    match &call.params {
        AggregateFunctionParams { args, distinct: false, filter: None, order_by, null_treatment: None }
            if order_by.is_empty() =>
        {
            <&[Expr; 1]>::try_from(args.as_slice()).ok().map(|[argument]| (call, argument))
        }
        _ => None,
    }
}

/// The part of a state that a column is: what its name has in brackets.
fn part_of(state: &FieldRef) -> &str {
    state.name().strip_suffix(']').and_then(|name| name.rsplit_once('[')).map_or("", |(_, part)| part)
}

fn call_of(function: &Arc<AggregateUDF>, argument: Expr) -> Expr {
    Expr::AggregateFunction(AggregateFunction::new_udf(Arc::clone(function), vec![argument], false, None, vec![], None))
}

/// What a number was before it was made one of more digits: it is NULL where that is.
fn unwidened(argument: &Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::Cast(Cast { expr, field }) = argument else { return Ok(argument.clone()) };
    let (from, to) = (expr.get_type(schema)?, field.data_type());
    let is_wider = match (from.is_signed_integer(), to) {
        (true, to) if to.is_signed_integer() => from.primitive_width() <= to.primitive_width(),
        (is_integer, DataType::Float64) => is_integer || from.is_decimal(),
        _ => false,
    };
    Ok(if is_wider { expr.as_ref().clone() } else { argument.clone() })
}

/// What is summed so that no sum of a part is too large, where the sum of all may be smaller.
fn summed(argument: &Expr, state: &DataType, schema: &DFSchema) -> Result<Expr> {
    if *state != WIDE || !argument.get_type(schema)?.is_integer() {
        return Ok(argument.clone());
    }
    let inner = unwidened(argument, schema)?;
    let inner = if inner.get_type(schema)?.is_integer() { inner } else { argument.clone() };
    inner.cast_to(&WIDE, schema)
}

impl Made {
    /// The state column, as a type, of the values of some groups.
    pub(crate) fn column(self, values: &[ArrayRef], of: &DataType, groups: usize) -> Result<ArrayRef> {
        let zeros = || ScalarValue::new_zero(of)?.to_array_of_size(groups);
        let value = |at: usize| match values.get(at) {
            Some(value) => Ok(cast(value, of)?),
            None => internal_err!("a value is missing"),
        };
        match self {
            Made::Value(at) => value(at),
            Made::Zero => zeros(),
            Made::Counted(at) => {
                let counts = value(at)?;
                Ok(nullif(&counts, &eq(&counts, &zeros()?)?)?)
            }
            Made::Filled(at) => {
                let column = value(at)?;
                match column.null_count() {
                    0 => Ok(column),
                    nulls if nulls == groups => zeros(),
                    _ => Ok(zip(&is_not_null(&column)?, &column, &zeros()?)?),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Decimal128Array, Int64Array, new_null_array};
    use arrow::datatypes::Decimal128Type;

    #[test]
    fn what_is_missing_is_filled_where_a_count_tells() {
        let sums: ArrayRef = Arc::new(Decimal128Array::from(vec![Some(7), None]).with_data_type(WIDE));
        let column = Made::Filled(0).column(&[sums], &WIDE, 2).unwrap();
        assert_eq!(column.as_primitive::<Decimal128Type>().values(), &[7, 0]);
        let none = new_null_array(&DataType::Int64, 2);
        assert_eq!(Made::Filled(0).column(&[none], &DataType::UInt64, 2).unwrap().null_count(), 0);
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        assert_eq!(Made::Value(0).column(&[counts], &DataType::UInt64, 2).unwrap().null_count(), 1);
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![7, 0]));
        assert_eq!(Made::Counted(0).column(&[counts], &DataType::UInt64, 2).unwrap().null_count(), 1);
    }
}
