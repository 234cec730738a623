//! Functions that give a list with other elements: `array_remove`, `array_replace`, `array_append`, `array_prepend` and `array_cat`.
//!
//! Invariants, as in PostgreSQL:
//! - All elements that are equal to the value are taken out or replaced, not only the first; NULL is equal to NULL there.
//! - A list that is NULL has no elements to be put with others. (DataFusion 55.2 takes what lies below it.)
//! - Their types, and what else they take, are DataFusion's.
//!
//! Mends apache/datafusion#25222 (in 55.2).
//! Held by `slt/arrays.slt` (`array_append(NULLIF(ARRAY[id, 8], ARRAY[id, 8]), 9)`).

use super::lists::{Lists, as_lists, element_of, emptied};
use crate::columnar::{as_columnar, is_constant, rows_made};
use crate::delegate::delegate_scalar;
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, not};
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::{ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use datafusion_functions_nested::concat::{array_append_udf, array_concat_udf, array_prepend_udf};
use std::sync::Arc;

/// What a function does with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Does {
    /// What DataFusion's function does, with no elements below NULL.
    Join,
    /// Takes out the elements that are equal to a value.
    Remove,
    /// Puts another value in the place of those that are equal to one.
    Replace,
}

/// DataFusion's function, as PostgreSQL has it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Changed {
    inner: Arc<ScalarUDF>,
    does: Does,
}

impl Changed {
    /// In the place of DataFusion's function.
    pub(crate) fn new(inner: Arc<ScalarUDF>, does: Does) -> Changed {
        Changed { inner, does }
    }

    /// A list with an element behind it.
    pub fn append() -> Changed {
        Changed::new(array_append_udf(), Does::Join)
    }

    /// A list with an element before it.
    pub(super) fn prepend() -> Changed {
        Changed::new(array_prepend_udf(), Does::Join)
    }

    /// The elements of several lists.
    pub fn concat() -> Changed {
        Changed::new(array_concat_udf(), Does::Join)
    }
}

/// A list that is an argument, with no elements below NULL.
fn cleaned(arg: ColumnarValue) -> Result<ColumnarValue> {
    Ok(match arg {
        ColumnarValue::Array(lists) if matches!(lists.data_type(), DataType::List(_)) => {
            ColumnarValue::Array(Arc::new(emptied(&as_lists(&lists)?)?))
        }
        other => other,
    })
}

/// The elements that are equal to the value of their row.
fn places(lists: &Lists, values: &ArrayRef) -> Result<BooleanArray> {
    lists.compared(&cast(values, lists.elements().data_type())?, Operator::IsNotDistinctFrom)
}

fn removed(lists: &Lists, values: &ArrayRef, element: &FieldRef) -> Result<ArrayRef> {
    let is_kept = not(&places(lists, values)?)?;
    let kept = |row: usize| lists.range(row).filter(|at| is_kept.value(*at)).count();
    let lengths: Vec<usize> = (0..lists.len()).map(kept).collect();
    Ok(Arc::new(lists.filtered(element, &is_kept, lengths)?))
}

fn replaced(lists: &Lists, from: &ArrayRef, to: &ArrayRef, element: &FieldRef) -> Result<ArrayRef> {
    let is_replaced = places(lists, from)?;
    let elements = cast(lists.elements(), element.data_type())?;
    let others = lists.beside(&cast(to, element.data_type())?)?;
    Ok(Arc::new(lists.with(element, zip(&is_replaced, &others, &elements)?)?))
}

impl ScalarUDFImpl for Changed {
    delegate_scalar!(name, aliases, signature, return_type, return_field_from_args, coerce_types, documentation);

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, is_constant) = (rows_made(&args.args, args.number_rows), is_constant(&args.args));
        let made = match (element_of(args.return_field.data_type()).cloned(), self.does) {
            (Some(element), Does::Remove) => {
                let [lists, values] = take_function_args(self.name(), args.args)?;
                removed(&Lists::of(&lists.into_array(rows)?)?, &values.into_array(rows)?, &element)?
            }
            (Some(element), Does::Replace) => {
                let [lists, from, to] = take_function_args(self.name(), args.args)?;
                let lists = Lists::of(&lists.into_array(rows)?)?;
                replaced(&lists, &from.into_array(rows)?, &to.into_array(rows)?, &element)?
            }
            _ => {
                let cleaned = args.args.into_iter().map(cleaned).collect::<Result<Vec<ColumnarValue>>>()?;
                return self.inner.inner().invoke_with_args(ScalarFunctionArgs { args: cleaned, ..args });
            }
        };
        as_columnar(made, is_constant)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lists::tests::{Written, column, written};
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{Field, Int64Type};
    use proptest::prelude::*;

    fn read(lists: &ArrayRef) -> Vec<Written> {
        let list = |list: ArrayRef| -> Vec<Option<i64>> { list.as_primitive::<Int64Type>().iter().collect() };
        lists.as_list::<i32>().iter().map(|one| one.map(list)).collect()
    }

    proptest! {
        #[test]
        fn every_equal_element_is_meant(
            lists in written(),
            from in prop::option::of(0..4_i64),
            to in prop::option::of(0..4_i64),
        ) {
            let element: FieldRef = Arc::new(Field::new_list_field(DataType::Int64, true));
            let values = |of: Option<i64>| Arc::new(Int64Array::from(vec![of; lists.len()])) as ArrayRef;
            let all = Lists::of(&column(&lists)).unwrap();
            let without = lists.iter().map(|list| {
                list.as_ref().map(|list| list.iter().copied().filter(|one| *one != from).collect())
            });
            prop_assert_eq!(read(&removed(&all, &values(from), &element).unwrap()), without.collect::<Vec<Written>>());
            let with = lists.iter().map(|list| {
                list.as_ref().map(|list| list.iter().map(|one| if *one == from { to } else { *one }).collect())
            });
            let found = replaced(&all, &values(from), &values(to), &element).unwrap();
            prop_assert_eq!(read(&found), with.collect::<Vec<Written>>());
        }
    }
}
