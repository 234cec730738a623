//! `<`, `<=`, `>` and `>=` of lists, and `@>` and `<@`.
//!
//! Invariants, as in PostgreSQL:
//! - Lists are compared element by element; NULL is equal to NULL there, and greater than all else. Of lists that begin alike the shorter
//!   one is less. (DataFusion 55.2 has NULL less than all else.)
//! - A list with NULL is contained in none. What is contained in a list that is NULL, or contains it, is unknown.
//! - They are called what they would be called by DataFusion's operators and functions.

use super::lists::{Lists, element_of};
use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::columnar::by_arrays;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion_common::utils::normalize_float_zero;
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_expr_common::type_coercion::binary::comparison_coercion;
use datafusion_functions_nested::array_has::array_has_all_udf;
use std::cmp::Ordering;
use std::sync::Arc;

/// The operators that say so.
const ORDERS: [Operator; 4] = [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

/// An operator that says which of two lists comes first.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Ordered {
    op: Operator,
    signature: Signature,
}

impl Stateful for Ordered {
    const CODE: &'static str = "list_order";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.op, &ORDERS));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        match Ordered::of(state.variant(&ORDERS)?) {
            Some(ordered) => Ok(ordered),
            None => plan_err!("no order of lists"),
        }
    }
}

impl Ordered {
    /// The function of an operator, if it is one.
    pub fn of(op: Operator) -> Option<Ordered> {
        ORDERS.contains(&op).then(|| Ordered { op, signature: Signature::user_defined(Volatility::Immutable) })
    }

    fn holds(&self, order: Ordering) -> bool {
        match self.op {
            Operator::Lt => order.is_lt(),
            Operator::LtEq => order.is_le(),
            Operator::Gt => order.is_gt(),
            _ => order.is_ge(),
        }
    }

    fn array(&self, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        let nulls_last = SortOptions { descending: false, nulls_first: false };
        let (left, right) = (with_one_zero(left)?, with_one_zero(right)?);
        let compared = make_comparator(left.as_ref(), right.as_ref(), nulls_last)?;
        let of_row = |row: usize| (left.is_valid(row) && right.is_valid(row)).then(|| self.holds(compared(row, row)));
        Ok(Arc::new((0..left.len()).map(of_row).collect::<BooleanArray>()))
    }
}

impl ScalarUDFImpl for Ordered {
    fn name(&self) -> &str {
        match self.op {
            Operator::Lt => "list_less",
            Operator::LtEq => "list_less_or_equal",
            Operator::Gt => "list_greater",
            _ => "list_greater_or_equal",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(names.join(&format!(" {} ", self.op)))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else { return plan_err!("{} is of two lists", self.op) };
        match comparison_coercion(left, right) {
            Some(common) => Ok(vec![common.clone(), common]),
            None => plan_err!("lists of types {left} and {right} are not compared"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |args| {
            let [left, right] = args.as_slice() else { return exec_err!("{} is of two lists", self.op) };
            self.array(left, right)
        })
    }
}

/// Lists of floats with the zeros as the one number that they are.
fn with_one_zero(lists: &ArrayRef) -> Result<ArrayRef> {
    match element_of(lists.data_type()) {
        Some(element) if element.data_type().is_floating() => {
            let all = Lists::of(lists)?;
            Ok(Arc::new(all.with(element, normalize_float_zero(all.elements()))?))
        }
        _ => Ok(Arc::clone(lists)),
    }
}

/// `list @> part`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contains {
    inner: Arc<ScalarUDF>,
}

impl Stateful for Contains {
    const CODE: &'static str = "list_contains_all";

    fn write(&self, _state: &mut StateWriter) -> Result<()> {
        Ok(())
    }

    fn read(_state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Contains::default())
    }
}

impl Default for Contains {
    fn default() -> Contains {
        Contains { inner: array_has_all_udf() }
    }
}

/// Whether parts are contained, of which it is known which elements are found.
fn contained(found: &BooleanArray, lists: &ArrayRef, parts: &ArrayRef) -> Result<BooleanArray> {
    let parts = Lists::of(parts)?;
    let of_row = |row: usize| {
        if lists.is_null(row) || parts.is_null(row) {
            return None;
        }
        let has_null = parts.range(row).any(|at| parts.elements().is_null(at));
        Some(!has_null && found.value(row))
    };
    Ok((0..parts.len()).map(of_row).collect())
}

impl ScalarUDFImpl for Contains {
    fn name(&self) -> &str {
        "list_contains_all"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args.args.clone();
        let found = self.inner.inner().invoke_with_args(args)?;
        let all: Vec<ColumnarValue> = given.into_iter().chain([found]).collect();
        by_arrays(&all, |all| {
            let [lists, parts, found] = all.as_slice() else { return exec_err!("@> is of two lists") };
            Ok(Arc::new(contained(found.as_boolean(), lists, parts)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lists::tests::{Written, column, written};
    use super::*;
    use proptest::prelude::*;

    /// NULL as the greatest number.
    fn known(list: &Written) -> Option<Vec<i64>> {
        list.as_ref().map(|list| list.iter().map(|one| one.unwrap_or(i64::MAX)).collect())
    }

    proptest! {
        #[test]
        fn null_is_the_greatest_element(left in written(), right in written()) {
            let rows = left.len().min(right.len());
            let (lists, others) = (column(&left[..rows]), column(&right[..rows]));
            for op in [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq] {
                let ordered = Ordered::of(op).unwrap();
                let found = ordered.array(&lists, &others).unwrap();
                let wanted = left.iter().zip(&right).map(|(left, right)| {
                    known(left).zip(known(right)).map(|(left, right)| ordered.holds(left.cmp(&right)))
                });
                prop_assert_eq!(found.as_boolean(), &wanted.collect::<BooleanArray>());
            }
            let all = BooleanArray::from(vec![true; rows]);
            let found = contained(&all, &lists, &others).unwrap();
            let wanted = left.iter().zip(&right).map(|(left, right)| {
                left.as_ref().zip(right.as_ref()).map(|(_, right)| right.iter().all(Option::is_some))
            });
            prop_assert_eq!(found, wanted.collect::<BooleanArray>());
        }
    }
}
