//! Expressions of plans as statements write them.
//!
//! Invariant: this is for people. What has no form of its own here is shown as the planner shows it, without the types of constants
//! and the places of columns.

use super::tree::cut;
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr,
    TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Deeper parts are not looked at: a chain of conditions is a tree as deep as it is long.
const DEPTH_MAX: usize = 40;
/// Constants are no longer than this.
const CONSTANT_MAX: usize = 40;
/// Of a chain of conditions only the first are written: more do not fit a line.
const CHAIN_MAX: usize = 32;
/// Of a list only the first are written.
const LIST_MAX: usize = 5;

/// An expression.
pub(super) fn written(expr: &Arc<dyn PhysicalExpr>) -> String {
    part(expr, DEPTH_MAX, 0)
}

/// Expressions, with commas between them.
pub(super) fn list<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> String {
    exprs.into_iter().map(written).collect::<Vec<_>>().join(", ")
}

/// Conditions that all hold.
pub(super) fn all<'a>(conditions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> String {
    let conditions: Vec<_> = conditions.into_iter().collect();
    let within = if conditions.len() > 1 { Operator::And.precedence() } else { 0 };
    conditions.into_iter().map(|expr| part(expr, DEPTH_MAX, within)).collect::<Vec<_>>().join(" AND ")
}

/// Part of an operator of this precedence.
fn part(expr: &Arc<dyn PhysicalExpr>, depth: usize, within: u8) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "…".to_owned() };
    let inner = |expr: &Arc<dyn PhysicalExpr>| part(expr, depth, u8::MAX);
    let not = |negated: bool| if negated { "NOT " } else { "" };
    if let Some(column) = expr.downcast_ref::<Column>() {
        plain(column.name())
    } else if let Some(literal) = expr.downcast_ref::<Literal>() {
        constant(literal.value())
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let own = binary.op().precedence();
        // The right side of what is no chain needs its brackets: `a - (b - c)`.
        let right = own + u8::from(!matches!(binary.op(), Operator::And | Operator::Or));
        let shown = |(at, one): (usize, &Arc<dyn PhysicalExpr>)| part(one, depth, if at == 0 { own } else { right });
        let parts: Vec<String> = chain(expr, *binary.op()).into_iter().enumerate().map(shown).collect();
        let text = parts.join(&format!(" {} ", binary.op()));
        if own < within { format!("({text})") } else { text }
    } else if let Some(of) = expr.downcast_ref::<NotExpr>() {
        format!("NOT {}", inner(of.arg()))
    } else if let Some(of) = expr.downcast_ref::<NegativeExpr>() {
        format!("-{}", inner(of.arg()))
    } else if let Some(of) = expr.downcast_ref::<IsNullExpr>() {
        format!("{} IS NULL", inner(of.arg()))
    } else if let Some(of) = expr.downcast_ref::<IsNotNullExpr>() {
        format!("{} IS NOT NULL", inner(of.arg()))
    } else if let Some(of) = expr.downcast_ref::<InListExpr>() {
        let mut values: Vec<String> = of.list().iter().take(LIST_MAX).map(inner).collect();
        values.extend((of.list().len() > LIST_MAX).then(|| format!("… of {}", of.list().len())));
        format!("{} {}IN ({})", inner(of.expr()), not(of.negated()), values.join(", "))
    } else if let Some(of) = expr.downcast_ref::<LikeExpr>() {
        let like = if of.case_insensitive() { "ILIKE" } else { "LIKE" };
        format!("{} {}{like} {}", inner(of.expr()), not(of.negated()), inner(of.pattern()))
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        format!("{}::{}", inner(cast.expr()), type_name(cast.cast_type()))
    } else if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        format!("{}::{}", inner(cast.expr()), type_name(cast.cast_type()))
    } else if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let arguments: Vec<String> = call.args().iter().map(|argument| part(argument, depth, 0)).collect();
        format!("{}({})", call.name(), arguments.join(", "))
    } else {
        plain(&expr.to_string())
    }
}

/// The first operands of a chain of ANDs or ORs; the two of any other operator.
fn chain(expr: &Arc<dyn PhysicalExpr>, op: Operator) -> Vec<&Arc<dyn PhysicalExpr>> {
    let is_chain = matches!(op, Operator::And | Operator::Or);
    let (mut operands, mut open, mut is_first) = (Vec::new(), vec![expr], true);
    while let Some(next) = open.pop() {
        match next.downcast_ref::<BinaryExpr>().filter(|of| is_first || (is_chain && *of.op() == op)) {
            Some(of) => open.extend([of.right(), of.left()]),
            None => operands.push(next),
        }
        is_first = false;
        if operands.len() >= CHAIN_MAX {
            break;
        }
    }
    operands
}

/// A constant.
fn constant(value: &ScalarValue) -> String {
    if value.is_null() {
        return "NULL".to_owned();
    }
    let text = |text: &str| format!("'{}'", cut(text, CONSTANT_MAX));
    match value {
        ScalarValue::Utf8(Some(own)) | ScalarValue::LargeUtf8(Some(own)) | ScalarValue::Utf8View(Some(own)) => {
            text(own)
        }
        ScalarValue::Boolean(_)
        | ScalarValue::Float32(_)
        | ScalarValue::Float64(_)
        | ScalarValue::Int8(_)
        | ScalarValue::Int16(_)
        | ScalarValue::Int32(_)
        | ScalarValue::Int64(_)
        | ScalarValue::UInt8(_)
        | ScalarValue::UInt16(_)
        | ScalarValue::UInt32(_)
        | ScalarValue::UInt64(_) => value.to_string(),
        other => {
            let shown =
                other.to_array().ok().and_then(|array| arrow::util::display::array_value_to_string(&array, 0).ok());
            match (shown, other.data_type()) {
                (Some(shown), DataType::Decimal128(..) | DataType::Decimal256(..)) => shown,
                (Some(shown), _) => text(&shown),
                (None, _) => cut(&other.to_string(), CONSTANT_MAX),
            }
        }
    }
}

/// What statements call a type.
fn type_name(of: &DataType) -> String {
    let name = match of {
        DataType::Boolean => "boolean",
        DataType::Int16 => "smallint",
        DataType::Int32 => "int",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Date32 => "date",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Decimal128(precision, scale) => return format!("decimal({precision}, {scale})"),
        other => return other.to_string(),
    };
    name.to_owned()
}

/// What the planner writes around constants.
const CONSTANTS: [&str; 13] = [
    "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "Boolean", "Utf8",
    "Utf8View",
];

/// A text of the planner without places of columns (`k@1`) and types of constants (`Int64(7)`, `Utf8("x")`).
pub(super) fn plain(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        if word > 0 {
            let (name, after) = rest.split_at(word);
            match after.strip_prefix('(').filter(|_| CONSTANTS.contains(&name)).and_then(constant_in) {
                Some((value, after)) => {
                    written += &value;
                    rest = after;
                }
                None => {
                    written += name;
                    rest = after;
                }
            }
            // Where a column is: `@` and digits behind its name.
            if let Some(after) = rest.strip_prefix('@') {
                let digits = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
                rest = if digits > 0 { &after[digits..] } else { rest };
            }
            if let Some(after) = rest.strip_prefix('@') {
                written.push('@');
                rest = after;
            }
        } else {
            written.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    written
}

/// The constant that a bracket holds, and what is behind the bracket.
fn constant_in(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find("\")")?;
        return Some((format!("'{}'", &quoted[..end]), &quoted[end + 2..]));
    }
    let (value, after) = text.split_once(')')?;
    Some((value.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, lit};

    #[test]
    fn the_planner_s_texts_are_plain() {
        for (text, wanted) in [
            ("s.k % Int64(7)", "s.k % 7"),
            ("k@1 % 7", "k % 7"),
            ("sum(s.v) FILTER (WHERE a = Utf8(\"x (y)\"))", "sum(s.v) FILTER (WHERE a = 'x (y)')"),
            ("count(Int64(1))", "count(1)"),
            ("Int64", "Int64"),
            ("f(Utf8View(NULL), b@12)", "f(NULL, b)"),
            ("user@host", "user@host"),
            ("käse@0 > Float64(1.5)", "käse > 1.5"),
            ("Utf8(\"open", "Utf8(\"open"),
        ] {
            assert_eq!(plain(text), wanted, "{text}");
        }
    }

    #[test]
    fn expressions_are_written_as_in_statements() {
        let fields = vec![Field::new("a", DataType::Utf8, true), Field::new("k", DataType::Int64, true)];
        let schema = Schema::new(fields);
        let (a, k) = (col("a", &schema).expect("a column"), col("k", &schema).expect("a column"));
        let of = |left: &Arc<dyn PhysicalExpr>, op, right: Arc<dyn PhysicalExpr>| {
            binary(Arc::clone(left), op, right, &schema).expect("an expression")
        };
        let (same, more) = (of(&a, Operator::Eq, lit("c3")), of(&k, Operator::Gt, lit(300_000i64)));
        let either = of(&same, Operator::Or, Arc::clone(&more));
        assert_eq!(written(&of(&same, Operator::And, Arc::clone(&more))), "a = 'c3' AND k > 300000");
        assert_eq!(written(&of(&either, Operator::And, Arc::clone(&same))), "(a = 'c3' OR k > 300000) AND a = 'c3'");
        assert_eq!(all([&either, &same]), "(a = 'c3' OR k > 300000) AND a = 'c3'");
        let day: Arc<dyn PhysicalExpr> = lit(ScalarValue::Date32(Some(20_000)));
        assert_eq!(written(&day), "'2024-10-04'");
        // No chain is too deep.
        let deep = (0..10_000).fold(same, |chain, _| of(&chain, Operator::And, Arc::clone(&more)));
        assert!(written(&deep).starts_with("a = 'c3' AND k > 300000 AND k"), "{}", written(&deep));
        let difference = of(&k, Operator::Minus, of(&k, Operator::Minus, lit(1i64)));
        assert_eq!(written(&difference), "k - (k - 1)");
        // What is dropped is dropped by recursion.
        std::mem::forget(deep);
    }
}
