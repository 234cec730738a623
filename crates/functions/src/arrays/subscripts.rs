//! `list[i]`, `list[a:b]` and `trim_array`.
//!
//! Invariants, as in PostgreSQL:
//! - Subscripts count from 1. What is before the first or behind the last element is NULL; a slice has those elements that lie within, or
//!   none. (DataFusion 55.2 counts negative ones from the end.)
//! - NULL in, NULL out. No list loses more elements than it has.
//! - They are called what they would be called by DataFusion's functions, whose types they have.

use super::lists::{Lists, element_of};
use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_functions_nested::extract::{array_element_udf, array_slice_udf};
use std::ops::Range;
use std::sync::Arc;

/// A subscript, in the place of DataFusion's function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Subscript {
    inner: Arc<ScalarUDF>,
    is_slice: bool,
}

impl Stateful for Subscript {
    const CODE: &'static str = "subscript";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(u8::from(self.is_slice));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(if state.flag()? { Subscript::slice() } else { Subscript::element() })
    }
}

impl Subscript {
    /// One element.
    pub fn element() -> Subscript {
        Subscript { inner: array_element_udf(), is_slice: false }
    }

    /// Those from one to another.
    pub fn slice() -> Subscript {
        Subscript { inner: array_slice_udf(), is_slice: true }
    }
}

fn number(numbers: &ArrayRef, row: usize) -> Option<i64> {
    let numbers = numbers.as_primitive::<Int64Type>();
    numbers.is_valid(row).then(|| numbers.value(row))
}

fn elements(lists: &Lists, at: &ArrayRef) -> Result<ArrayRef> {
    let place = |row: usize| {
        let range = lists.range(row);
        let at = usize::try_from(number(at, row)?.checked_sub(1)?).ok()?;
        (at < range.len()).then(|| (range.start + at) as u64)
    };
    let places: UInt64Array = (0..lists.len()).map(place).collect();
    Ok(take(lists.elements(), &places, None)?)
}

/// Which of so many elements a slice has.
fn part(from: i64, to: i64, length: usize) -> Range<usize> {
    let to = usize::try_from(to).unwrap_or(0).min(length);
    let from = usize::try_from(from.saturating_sub(1)).unwrap_or(0).min(to);
    from..to
}

fn slices(lists: &Lists, from: &ArrayRef, to: &ArrayRef, element: &FieldRef) -> Result<ArrayRef> {
    let bounds = |row: usize| number(from, row).zip(number(to, row));
    let cut = |row: usize, length: usize| Ok(bounds(row).map(|(from, to)| part(from, to, length)));
    Ok(Arc::new(lists.cut(element, cut)?))
}

impl ScalarUDFImpl for Subscript {
    fn name(&self) -> &str {
        // Not as DataFusion's: the predicate cache knows predicates by it.
        if self.is_slice { "slice_by_subscripts" } else { "element_by_subscript" }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let element = element_of(args.return_field.data_type()).cloned();
        by_arrays(&args.args, |args| {
            let numbers = args[1..].iter().map(|of| cast(of, &DataType::Int64));
            let numbers = numbers.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
            match (numbers.as_slice(), element) {
                ([at], _) => elements(&Lists::of(&args[0])?, at),
                ([from, to, ..], Some(element)) => slices(&Lists::of(&args[0])?, from, to, &element),
                _ => exec_err!("{} came without subscripts, or of no list", self.name()),
            }
        })
    }
}

/// `trim_array(list, n)`: the list without its last elements.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trimmed {
    signature: Signature,
}

impl Default for Trimmed {
    fn default() -> Trimmed {
        Trimmed { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Trimmed {
    fn name(&self) -> &str {
        "trim_array"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [list, count] if count.is_integer() || count.is_null() => match element_of(list) {
                Some(element) => Ok(vec![DataType::List(Arc::clone(element)), DataType::Int64]),
                None => plan_err!("trim_array takes a list, and how many elements it is to lose"),
            },
            _ => plan_err!("trim_array takes a list, and how many elements it is to lose"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let list = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(list.with_name(self.name()).with_nullable(is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(element) = element_of(args.return_field.data_type()).cloned() else {
            return exec_err!("trim_array of no list");
        };
        by_arrays(&args.args, |args| {
            let [lists, counts] = args.as_slice() else { return exec_err!("trim_array takes two arguments") };
            let cut = |row: usize, length: usize| -> Result<Option<Range<usize>>> {
                let Some(count) = number(counts, row) else { return Ok(None) };
                let kept = usize::try_from(count).ok().and_then(|count| length.checked_sub(count));
                let refused = || {
                    let message = format!("a list of {length} elements cannot lose {count}");
                    wrap(Error::new(ErrorKind::InvalidSetting, message))
                };
                Ok(Some(0..kept.ok_or_else(refused)?))
            };
            Ok(Arc::new(Lists::of(lists)?.cut(&element, cut)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lists::tests::{column, written};
    use super::*;
    use arrow::array::Int64Array;
    use arrow::datatypes::Field;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn subscripts_count_from_one(lists in written(), from in -3..6_i64, to in -3..6_i64) {
            let values = |of: i64| Arc::new(Int64Array::from(vec![of; lists.len()])) as ArrayRef;
            let all = Lists::of(&column(&lists)).unwrap();
            let wanted = lists.iter().map(|list| {
                list.as_ref().and_then(|list| (1_i64..).zip(list).find(|(at, _)| *at == from).and_then(|(_, one)| *one))
            });
            let found = elements(&all, &values(from)).unwrap();
            prop_assert_eq!(found.as_primitive::<Int64Type>(), &wanted.collect::<Int64Array>());
            let element: FieldRef = Arc::new(Field::new_list_field(DataType::Int64, true));
            let found = slices(&all, &values(from), &values(to), &element).unwrap();
            for (found, list) in found.as_list::<i32>().iter().zip(&lists) {
                let wanted: Option<Vec<Option<i64>>> = list.as_ref().map(|list| {
                    (1_i64..).zip(list).filter(|(at, _)| *at >= from && *at <= to).map(|(_, one)| *one).collect()
                });
                let found: Option<Vec<Option<i64>>> = found.map(|list| list.as_primitive::<Int64Type>().iter().collect());
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
