//! Functions that count the elements of lists, or say where one is: `array_length`, `array_upper`, `array_lower`, `array_ndims`,
//! `cardinality`, `array_position` and `array_positions`.
//!
//! Invariants, as in PostgreSQL:
//! - They give INT, so that a quotient of two is whole. (DataFusion 55.2 gives numbers without a sign, which are DECIMAL beside others.)
//! - A list of no elements has no dimensions: of it `array_length(list, n)`, `array_upper`, `array_lower` and `array_ndims` are NULL, and
//!   `cardinality` is 0. So is `array_length(list)`, which PostgreSQL has not.
//! - Nothing is found in a list that is NULL.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: array_length, cardinality, array_position,
//! UInt64, signed).
//! Held by `slt/arrays.slt` (`array_length(ARRAY[1, 2], 1) / 4`, `array_position(ARRAY[4, 5], 5) - 3`).

use super::lists::{as_lists, emptied, list_of};
use crate::columnar::by_arrays;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion_functions_nested::length::array_length_udf;
use std::sync::Arc;

/// What a function says of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Counts {
    /// How long it is, in one of its dimensions.
    Length,
    /// The first subscript.
    Lower,
    /// How many dimensions it has.
    Dimensions,
    /// What DataFusion's function counts.
    Other,
    /// Where a value is in it, each time.
    Positions,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Counted {
    inner: Arc<ScalarUDF>,
    /// Another name than DataFusion's function has.
    name: Option<&'static str>,
    counts: Counts,
}

impl Counted {
    /// In the place of DataFusion's function.
    pub(crate) fn new(inner: Arc<ScalarUDF>, counts: Counts) -> Counted {
        Counted { inner, name: None, counts }
    }

    /// One that DataFusion lacks, with the arguments of its `array_length`.
    pub(crate) fn named(name: &'static str, counts: Counts) -> Counted {
        Counted { inner: array_length_udf(), name: Some(name), counts }
    }
}

/// How long a list is in one of its dimensions, which count from 1.
fn length(list: ArrayRef, dimension: i64) -> Option<i32> {
    let mut list = list;
    for _ in 1..dimension.clamp(1, 64) {
        let inner = as_lists(&list).ok()?;
        if inner.is_empty() || inner.is_null(0) {
            return None;
        }
        list = inner.value(0);
    }
    let length = i32::try_from(list.len()).ok()?;
    (length > 0 && (1..=64).contains(&dimension)).then_some(length)
}

/// The lengths of lists; in the first dimension, and 0 of no elements, if none is said.
fn lengths(args: &[ArrayRef]) -> Result<Int32Array> {
    let lists = emptied(&as_lists(&args[0])?)?;
    let dimensions = args.get(1).map(|of| cast(of, &DataType::Int64)).transpose()?;
    let of_row = |row: usize| {
        if lists.is_null(row) {
            return None;
        }
        match &dimensions {
            None => Some(lists.value_length(row)),
            Some(dimensions) if dimensions.is_null(row) => None,
            Some(dimensions) => length(lists.value(row), dimensions.as_primitive::<Int64Type>().value(row)),
        }
    };
    Ok((0..lists.len()).map(of_row).collect())
}

/// Lists among arguments, with no elements below NULL.
fn cleaned(arg: &ArrayRef) -> Result<ArrayRef> {
    Ok(match arg.data_type() {
        DataType::List(_) => Arc::new(emptied(&as_lists(arg)?)?) as ArrayRef,
        _ => Arc::clone(arg),
    })
}

impl ScalarUDFImpl for Counted {
    fn name(&self) -> &str {
        self.name.unwrap_or_else(|| self.inner.name())
    }

    fn aliases(&self) -> &[String] {
        if self.name.is_some() { &[] } else { self.inner.aliases() }
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(if self.counts == Counts::Positions { list_of(DataType::Int32) } else { DataType::Int32 })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.counts {
            Counts::Length => by_arrays(&args.args, |args| Ok(Arc::new(lengths(&args)?))),
            Counts::Lower => by_arrays(&args.args, |args| {
                let lower: Int32Array = lengths(&args)?.unary(|_| 1);
                Ok(Arc::new(lower))
            }),
            Counts::Dimensions => {
                let found = self.inner.inner().invoke_with_args(args.clone())?;
                by_arrays(&[found, args.args[0].clone()], |args| {
                    let (found, lists) = (cast(&args[0], &DataType::Int32)?, as_lists(&args[1])?);
                    let is_none = |row: usize| lists.is_null(row) || lists.value_length(row) == 0;
                    let found = found.as_primitive::<Int32Type>();
                    let of_row = |row: usize| (!is_none(row) && found.is_valid(row)).then(|| found.value(row));
                    Ok(Arc::new((0..lists.len()).map(of_row).collect::<Int32Array>()))
                })
            }
            Counts::Other | Counts::Positions => {
                let to = self.return_type(&[])?;
                let clean = |arg: ColumnarValue| match arg {
                    ColumnarValue::Array(array) => cleaned(&array).map(ColumnarValue::Array),
                    scalar => Ok(scalar),
                };
                let cleaned = args.args.into_iter().map(clean).collect::<Result<Vec<ColumnarValue>>>()?;
                self.inner.inner().invoke_with_args(ScalarFunctionArgs { args: cleaned, ..args })?.cast_to(&to, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lists::tests::{column, written};
    use super::*;
    use arrow::array::Int64Array;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_empty_list_has_no_dimensions(lists in written(), dimension in -1..3_i64) {
            let dimensions = Arc::new(Int64Array::from(vec![dimension; lists.len()])) as ArrayRef;
            let wanted = lists.iter().map(|list| {
                let length = list.as_ref().map(|list| list.len() as i32);
                length.filter(|length| *length > 0 && dimension == 1)
            });
            prop_assert_eq!(lengths(&[column(&lists), dimensions]).unwrap(), wanted.collect::<Int32Array>());
            let wanted = lists.iter().map(|list| list.as_ref().map(|list| list.len() as i32));
            prop_assert_eq!(lengths(&[column(&lists)]).unwrap(), wanted.collect::<Int32Array>());
        }
    }
}
