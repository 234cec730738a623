//! `x op ANY (list)` and `x op ALL (list)` of lists that are computed, which `alluvia_syntax` writes as calls.
//!
//! Invariants, as in PostgreSQL:
//! - ANY is true if a comparison is, else unknown if one is, else false: of no elements it is false, whatever `x` is. ALL is false if a
//!   comparison is, else unknown if one is, else true.
//! - Of a list that is NULL it is unknown.
//! - `x = ANY (list)` and `x <> ALL (list)` of a list that is known before rows are read are `IN` and `NOT IN`, which the index, pruning and
//!   the predicate cache know.
//! - A batch is compared in pieces, so that one long list is not written out for all rows at a time.
//!
//! DataFusion 55.2 looks for the value, or compares it with the least and the greatest element, and forgets NULL.
//!
//! Mends apache/datafusion#13682, #19288 (in 55.2).
//! Held by `slt/arrays.slt` (`9 = ANY (ARRAY[qty, id] || 5)`).

use super::lists::{Lists, element_of, list_of};
use crate::columnar::{as_columnar, is_constant, rows_made};
use alluvia_values::calls::{QUANTIFIED_CALL, quantified_by};
use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBuilder};
use arrow::datatypes::DataType;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility, in_list,
};
use datafusion_expr_common::type_coercion::binary::comparison_coercion;
use std::sync::Arc;

/// Elements that are compared at a time, about.
const PIECE_ELEMENTS: usize = 1 << 16;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Quantified {
    signature: Signature,
}

impl Default for Quantified {
    fn default() -> Quantified {
        Quantified { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The operator that a word stands for, and whether one comparison is enough.
fn asked(word: &ScalarValue) -> Option<(Operator, bool)> {
    let (sign, is_any) = quantified_by(word.try_as_str()??)?;
    let op = match sign {
        "=" => Operator::Eq,
        "<>" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        _ => return None,
    };
    Some((op, is_any))
}

/// The type that a value and elements are compared in. Text is read as what it is compared with.
fn common(value: &DataType, element: &DataType) -> Option<DataType> {
    let is_read = |of: &DataType| of.is_temporal() || of.is_binary() || *of == DataType::Boolean;
    // A literal beside UUIDs is one, which is seen to where it is planned.
    let common = match (value, element) {
        (value, read) if value.is_string() && is_read(read) => Some(read.clone()),
        (read, element) if element.is_string() && is_read(read) => Some(read.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (value, element) => comparison_coercion(value, element),
    };
    // NULL compared with NULL.
    common.map(|of| if of.is_null() { DataType::Utf8View } else { of })
}

/// What is said of all comparisons of one list.
fn any_or_all(found: impl Iterator<Item = Option<bool>>, is_any: bool) -> Option<bool> {
    let mut is_unknown = false;
    for one in found {
        match one {
            Some(truth) if truth == is_any => return Some(is_any),
            Some(_) => {}
            None => is_unknown = true,
        }
    }
    (!is_unknown).then_some(!is_any)
}

fn piece(values: &ArrayRef, lists: &ArrayRef, op: Operator, is_any: bool, out: &mut BooleanBuilder) -> Result<()> {
    let lists = Lists::of(lists)?;
    let found = lists.compared(values, op)?;
    let truth = |at: usize| found.is_valid(at).then(|| found.value(at));
    for row in 0..lists.len() {
        out.append_option(if lists.is_null(row) { None } else { any_or_all(lists.range(row).map(truth), is_any) });
    }
    Ok(())
}

fn array(value: &ColumnarValue, list: &ColumnarValue, rows: usize, op: Operator, is_any: bool) -> Result<BooleanArray> {
    let elements = match list {
        ColumnarValue::Array(lists) => Lists::of(lists)?.elements().len() / rows.max(1),
        ColumnarValue::Scalar(list) => Lists::of(&list.to_array()?)?.elements().len(),
    };
    let at_a_time = (PIECE_ELEMENTS / elements.max(1)).max(1);
    let part = |of: &ColumnarValue, from: usize, count: usize| match of {
        ColumnarValue::Array(array) => Ok(array.slice(from, count)),
        ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(count),
    };
    let mut out = BooleanBuilder::with_capacity(rows);
    for from in (0..rows).step_by(at_a_time) {
        let count = at_a_time.min(rows - from);
        piece(&part(value, from, count)?, &part(list, from, count)?, op, is_any, &mut out)?;
    }
    Ok(out.finish())
}

impl ScalarUDFImpl for Quantified {
    fn name(&self) -> &str {
        QUANTIFIED_CALL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, value, list] = types else { return plan_err!("ANY and ALL take a value and a list") };
        let element = match (element_of(list), list) {
            (Some(element), _) => element.data_type().clone(),
            (None, DataType::Null) => DataType::Null,
            (None, other) => return plan_err!("behind ANY and ALL stands a list, and no value of type {other}"),
        };
        let Some(common) = common(value, &element) else {
            return plan_err!("values of type {value} and elements of type {element} are not compared");
        };
        Ok(vec![DataType::Utf8, common.clone(), list_of(common)])
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn simplify(&self, mut args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [Expr::Literal(word, _), value, Expr::Literal(list @ ScalarValue::List(_), _)] = args.as_mut_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let negated = match asked(word) {
            Some((Operator::Eq, true)) => false,
            Some((Operator::NotEq, false)) => true,
            _ => return Ok(ExprSimplifyResult::Original(args)),
        };
        if list.is_null() {
            return Ok(ExprSimplifyResult::Simplified(Expr::Literal(ScalarValue::Boolean(None), None)));
        }
        let lists = Lists::of(&list.to_array()?)?;
        let elements = lists.elements();
        if elements.is_empty() {
            return Ok(ExprSimplifyResult::Simplified(Expr::Literal(ScalarValue::Boolean(Some(negated)), None)));
        }
        let literal = |at: usize| -> Result<Expr> {
            let element = ScalarValue::try_from_array(elements, at)?;
            Ok(Expr::Literal(element, None))
        };
        let literals = (0..elements.len()).map(literal).collect::<Result<Vec<Expr>>>()?;
        Ok(ExprSimplifyResult::Simplified(in_list(std::mem::take(value), literals, negated)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, is_constant) = (rows_made(&args.args, args.number_rows), is_constant(&args.args));
        let [word, value, list] = take_function_args(self.name(), args.args)?;
        let word = match word {
            ColumnarValue::Scalar(word) => word,
            ColumnarValue::Array(_) => return exec_err!("{} takes an operator that is written", self.name()),
        };
        let Some((op, is_any)) = asked(&word) else {
            return exec_err!("{} knows no operator {word}", self.name());
        };
        as_columnar(Arc::new(array(&value, &list, rows, op, is_any)?), is_constant)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lists::tests::{column, written};
    use super::*;
    use arrow::array::Int64Array;
    use proptest::prelude::*;

    type Holds = fn(i64, i64) -> bool;

    proptest! {
        #[test]
        fn all_comparisons_are_put_together_by_or_and_and(lists in written(), value in prop::option::of(0..4_i64)) {
            let values = Arc::new(Int64Array::from(vec![value; lists.len()])) as ArrayRef;
            let signs: [(&str, Holds); 4] =
                [("=", |a, b| a == b), ("<>", |a, b| a != b), ("<", |a, b| a < b), (">=", |a, b| a >= b)];
            for (sign, holds) in signs {
                for (word, is_any) in [("any", true), ("all", false)] {
                    let (op, told) = asked(&ScalarValue::from(format!("{sign} {word}"))).unwrap();
                    prop_assert_eq!(told, is_any);
                    let args = [ColumnarValue::Array(Arc::clone(&values)), ColumnarValue::Array(column(&lists))];
                    let found = array(&args[0], &args[1], lists.len(), op, is_any).unwrap();
                    for (row, list) in lists.iter().enumerate() {
                        let wanted = list.as_ref().and_then(|list| {
                            let each: Vec<Option<bool>> =
                                list.iter().map(|element| value.zip(*element).map(|(a, b)| holds(a, b))).collect();
                            let is_settled = each.contains(&Some(is_any));
                            if is_settled || !each.contains(&None) { Some(is_settled == is_any) } else { None }
                        });
                        prop_assert_eq!(found.is_valid(row).then(|| found.value(row)), wanted, "{} {}: {:?}", sign, word, list);
                    }
                }
            }
        }
    }
}
