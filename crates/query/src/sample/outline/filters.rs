//! From the conditions of a box to the filters that the planner would make of them.
//!
//! Invariant: a filter compares a column with values of its own type, and is true of exactly the rows of which the condition is; what
//! the planner would compare as another type (a number with an INT that does not hold it, a REAL, a decimal) is left to it.

use crate::answer::{Condition, Literal, Test, values_of};
use alluvia_plan::after_types::signed_zero::with_both;
use alluvia_space::{Column, DataType, TableDef};
use datafusion::common::{Column as Named, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::prelude::lit;

/// All conditions as filters over the table's columns; `None` where only the planner knows what they mean.
pub(super) fn filters_of(def: &TableDef, conditions: &[Condition]) -> Option<Vec<Expr>> {
    conditions.iter().map(|condition| filter_of(def, condition)).collect()
}

fn filter_of(def: &TableDef, condition: &Condition) -> Option<Expr> {
    match condition {
        Condition::All(parts) => filters_of(def, parts)?.into_iter().reduce(Expr::and),
        Condition::Any(parts) => filters_of(def, parts)?.into_iter().reduce(Expr::or),
        Condition::Column(name, test) => {
            let column = def.columns.iter().find(|column| column.name == *name)?;
            tested(column, test)
        }
    }
}

fn tested(column: &Column, test: &Test) -> Option<Expr> {
    let of = || Expr::Column(Named::from_name(&column.name));
    let value = |literal: &Literal| value_of(column, literal).map(lit);
    let is_in = |literals: &[Literal], negated: bool| {
        let list: Vec<Expr> = literals.iter().map(value).collect::<Option<_>>()?;
        Some(match <[Expr; 1]>::try_from(list) {
            Ok([one]) if negated => of().not_eq(one),
            Ok([one]) => of().eq(one),
            // What the planner would do, too: lists of floats tell zeros apart by their signs.
            Err(list) => with_both(of().in_list(list, negated)).data,
        })
    };
    match test {
        Test::In(literals) => is_in(literals, false),
        Test::Range(low, high) => {
            let low = match low {
                None => None,
                Some((low, true)) => Some(of().gt_eq(value(low)?)),
                Some((low, false)) => Some(of().gt(value(low)?)),
            };
            let high = match high {
                None => None,
                Some((high, true)) => Some(of().lt_eq(value(high)?)),
                Some((high, false)) => Some(of().lt(value(high)?)),
            };
            low.into_iter().chain(high).reduce(Expr::and)
        }
        Test::Null => Some(of().is_null()),
        Test::Known => Some(of().is_not_null()),
        Test::Not(test) => match test.as_ref() {
            Test::In(literals) => is_in(literals, true),
            _ => None,
        },
        Test::Among(_) | Test::Cut(..) | Test::Like(_) | Test::Holds(_) => None,
    }
}

/// A literal as a value of a column.
fn value_of(column: &Column, literal: &Literal) -> Option<ScalarValue> {
    match (literal, column.data_type) {
        (Literal::Number(text), DataType::Double) => {
            // Whole numbers are whole before they are compared: -0 is 0.
            let whole = text.parse::<i64>().ok().map(|whole| whole as f64);
            let value = whole.or_else(|| text.parse::<f64>().ok())?;
            Some(ScalarValue::Float64(Some(value)))
        }
        _ => {
            let values = values_of(std::slice::from_ref(literal), column, &column.data_type.to_arrow())?;
            ScalarValue::try_from_array(&values, 0).ok().filter(|value| !value.is_null())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing;

    #[test]
    fn values_are_of_their_columns_types_or_left_to_the_planner() {
        let column = |data_type| testing::column(0, "c", data_type);
        let number = |text: &str| Literal::Number(text.to_owned());
        let of = |literal: &Literal, data_type| value_of(&column(data_type), literal);
        assert_eq!(of(&number("3"), DataType::Double), Some(ScalarValue::Float64(Some(3.0))));
        assert_eq!(of(&number("-2.5e1"), DataType::Double), Some(ScalarValue::Float64(Some(-25.0))));
        let zero = |text| match of(&number(text), DataType::Double) {
            Some(ScalarValue::Float64(Some(zero))) => zero.is_sign_negative(),
            other => panic!("{other:?}"),
        };
        assert!(!zero("-0") && zero("-0.0"));
        assert_eq!(of(&number("7"), DataType::Int32), Some(ScalarValue::Int32(Some(7))));
        assert_eq!(of(&number("7000000000"), DataType::Int32), None);
        assert_eq!(of(&number("7.5"), DataType::Int32), None);
        assert_eq!(of(&number("7.5"), DataType::Real), None);
        assert_eq!(of(&Literal::Text("7".to_owned()), DataType::Double), None);
        assert_eq!(
            of(&Literal::Text("a".to_owned()), DataType::Text),
            Some(ScalarValue::Utf8View(Some("a".to_owned())))
        );
    }
}
