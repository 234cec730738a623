//! Distances of window frames that are computed of numbers: `ROWS 2::int PRECEDING`, `ROWS 1 + 1 PRECEDING`.
//!
//! Invariants: only ROWS and GROUPS are looked at, whose distances are whole numbers; what cannot be computed here, or is no BIGINT, is
//! left for planning to refuse.
//!
//! For the binder: `sum(x) OVER (ORDER BY y ROWS 2::int PRECEDING)`, since planning takes literals alone.

use super::visit::visit_mut;
use alluvia_types::Result;
use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, NamedWindowExpr, Query, Select, UnaryOperator, Value, VisitorMut,
    WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_end = |keyword| matches!(keyword, Keyword::PRECEDING | Keyword::FOLLOWING);
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_end(word.keyword)))
}

/// Writes numbers in the place of what they are computed of.
pub fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Frames);
    Ok(())
}

struct Frames;

impl VisitorMut for Frames {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = expr {
            of_spec(spec);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = &mut window.1 {
                of_spec(spec);
            }
        }
        ControlFlow::Continue(())
    }
}

fn of_spec(spec: &mut WindowSpec) {
    let Some(WindowFrame { units, start_bound, end_bound }) = &mut spec.window_frame else { return };
    if *units == WindowFrameUnits::Range {
        return;
    }
    for bound in [Some(start_bound), end_bound.as_mut()].into_iter().flatten() {
        if let WindowFrameBound::Preceding(Some(distance)) | WindowFrameBound::Following(Some(distance)) = bound
            && !matches!(distance.as_ref(), Expr::Value(_))
            && let Some(number) = number(distance).filter(|number| *number >= 0)
        {
            **distance = Expr::Value(Value::Number(number.to_string(), false).into());
        }
    }
}

/// The whole number that an expression is.
fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => number(inner),
        Expr::Cast { expr, data_type, format: None, .. } => {
            let number = number(expr)?;
            let fits = match data_type {
                DataType::SmallInt(_) | DataType::Int2(_) => i16::try_from(number).is_ok(),
                DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => i32::try_from(number).is_ok(),
                DataType::BigInt(_) | DataType::Int8(_) => true,
                _ => false,
            };
            fits.then_some(number)
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => number(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr)?.checked_neg(),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (number(left)?, number(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::parameters::query_of;
    use crate::script::parse;

    #[test]
    fn distances_are_numbers() {
        let told = |frame: &str| {
            let sql = format!("SELECT sum(x) OVER (ORDER BY y {frame}) FROM t");
            let query = query_of(&mut parse(&sql).unwrap().remove(0).kind).unwrap().to_string();
            query.split_once("ORDER BY y ").unwrap().1.split_once(") FROM").unwrap().0.to_owned()
        };
        for (frame, wanted) in [
            ("ROWS 2::int PRECEDING", "ROWS 2 PRECEDING"),
            ("ROWS BETWEEN 1 + 1 PRECEDING AND (3 - 2)::bigint FOLLOWING", "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
            ("GROUPS CAST(1 AS smallint) PRECEDING", "GROUPS 1 PRECEDING"),
        ] {
            assert_eq!(told(frame), wanted);
        }
        for same in ["ROWS 99999::SMALLINT PRECEDING", "RANGE 2::INT PRECEDING", "ROWS UNBOUNDED PRECEDING"] {
            assert_eq!(told(same), same);
        }
    }
}
