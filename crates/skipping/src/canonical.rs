//! Texts by which deterministic expressions are known.
//!
//! Invariants:
//! - Two expressions of one text are TRUE for the same rows: every part is in brackets, columns (by id) and literals (with their
//!   types) are in braces, and text is quoted so that nothing in it can pass for structure.
//! - What is not known to depend on the row alone has no text: functions that are volatile or stable, functions that read the
//!   session's settings, subqueries, parameters.
//!
//! Functions and casts mean what this version of the planner makes of them, so texts are kept across restarts only together with
//! that version (see [`crate::memory`]).

use alluvia_space::TableDef;
use alluvia_types::ColumnId;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::expr::{Like, ScalarFunction};
use datafusion::logical_expr::{Expr, Volatility};
use std::fmt::Write;

/// Longer texts are not kept: what is looked up by them would cost more than it spares.
const BYTES_MAX: usize = 16 << 10;
/// Deeper expressions have no text.
const DEPTH_MAX: usize = 64;

/// The text of an expression over a table; `None` if it may not depend on the row alone, or is too long.
pub fn canonical(expr: &Expr, def: &TableDef) -> Option<String> {
    let mut writer = Writer { def, text: String::new(), depth: 0 };
    writer.expr(expr)?;
    Some(writer.text)
}

/// Whether the text is that of a constant that is not TRUE. What is written otherwise, the planner has folded.
pub(crate) fn is_never(text: &str) -> bool {
    matches!(text, "{Boolean|false}" | "{Boolean|NULL}" | "{Null|NULL}")
}

/// The text for people: names of columns in place of their ids, literals without their types, texts in single quotes.
pub(crate) fn show(text: &str, name: impl Fn(ColumnId) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        shown.push_str(before);
        let Some((inner, after)) = after.split_once('}') else { break };
        match (inner.parse(), inner.split_once('|')) {
            (Ok(id), _) => shown.push_str(&name(ColumnId(id))),
            (Err(_), Some((_, literal))) => match of_quoted(literal) {
                Some(text) => {
                    let _ = write!(shown, "'{}'", text.replace('\'', "''"));
                }
                None => shown.push_str(literal),
            },
            (Err(_), None) => shown.push_str(inner),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// The text that `{:?}` and [`escape`] wrote; `None` of what is no text, or has characters that are shown by their numbers.
fn of_quoted(literal: &str) -> Option<String> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next()? {
                '(' => '{',
                ')' => '}',
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                same @ ('\\' | '"' | '\'') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(text)
}

struct Writer<'a> {
    def: &'a TableDef,
    text: String,
    depth: usize,
}

impl Writer<'_> {
    fn expr(&mut self, expr: &Expr) -> Option<()> {
        if self.depth == DEPTH_MAX || self.text.len() > BYTES_MAX {
            return None;
        }
        self.depth += 1;
        match expr {
            Expr::Alias(alias) => self.expr(&alias.expr)?,
            Expr::Column(column) => {
                let column = self.def.columns.iter().find(|known| known.name == column.name)?;
                self.push(format_args!("{{{}}}", column.id));
            }
            Expr::Literal(value, _) => self.literal(value)?,
            Expr::BinaryExpr(binary) => {
                self.text.push('(');
                self.expr(&binary.left)?;
                self.push(format_args!(" {} ", binary.op));
                self.expr(&binary.right)?;
                self.text.push(')');
            }
            Expr::Like(like) => self.like("LIKE", like)?,
            Expr::SimilarTo(like) => self.like("SIMILAR TO", like)?,
            Expr::Not(of) => self.write_between("(NOT ", of, ")")?,
            Expr::Negative(of) => self.write_between("(- ", of, ")")?,
            Expr::IsNotNull(of) => self.write_between("(", of, " IS NOT NULL)")?,
            Expr::IsNull(of) => self.write_between("(", of, " IS NULL)")?,
            Expr::IsTrue(of) => self.write_between("(", of, " IS TRUE)")?,
            Expr::IsFalse(of) => self.write_between("(", of, " IS FALSE)")?,
            Expr::IsUnknown(of) => self.write_between("(", of, " IS UNKNOWN)")?,
            Expr::IsNotTrue(of) => self.write_between("(", of, " IS NOT TRUE)")?,
            Expr::IsNotFalse(of) => self.write_between("(", of, " IS NOT FALSE)")?,
            Expr::IsNotUnknown(of) => self.write_between("(", of, " IS NOT UNKNOWN)")?,
            Expr::Between(between) => {
                let middle = if between.negated { " NOT BETWEEN " } else { " BETWEEN " };
                self.write_between("(", &between.expr, middle)?;
                self.write_between("", &between.low, " AND ")?;
                self.write_between("", &between.high, ")")?;
            }
            Expr::InList(list) => {
                self.write_between("(", &list.expr, if list.negated { " NOT IN (" } else { " IN (" })?;
                self.list(&list.list)?;
                self.text.push_str("))");
            }
            Expr::Case(case) => {
                self.text.push_str("(CASE");
                if let Some(of) = &case.expr {
                    self.write_between(" ", of, "")?;
                }
                for (when, then) in &case.when_then_expr {
                    self.write_between(" WHEN ", when, " THEN ")?;
                    self.expr(then)?;
                }
                if let Some(otherwise) = &case.else_expr {
                    self.write_between(" ELSE ", otherwise, "")?;
                }
                self.text.push_str(" END)");
            }
            Expr::Cast(cast) => {
                let data_type = escape(&format!(" AS {:?})", cast.field.data_type()));
                self.write_between("CAST(", &cast.expr, &data_type)?;
            }
            Expr::TryCast(cast) => {
                let data_type = escape(&format!(" AS {:?})", cast.field.data_type()));
                self.write_between("TRY_CAST(", &cast.expr, &data_type)?;
            }
            Expr::ScalarFunction(function) if depends_on_arguments_alone(function) => {
                let name = function.name();
                if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                    return None;
                }
                self.push(format_args!("{name}("));
                self.list(&function.args)?;
                self.text.push(')');
            }
            _ => return None,
        }
        self.depth -= 1;
        Some(())
    }

    fn like(&mut self, operator: &str, like: &Like) -> Option<()> {
        let not = if like.negated { " NOT" } else { "" };
        let case = if like.case_insensitive { " CASELESS" } else { "" };
        self.write_between("(", &like.expr, &format!("{not}{case} {operator} "))?;
        self.expr(&like.pattern)?;
        if let Some(escaped_by) = like.escape_char {
            self.push(format_args!(" ESCAPE {}", escape(&format!("{escaped_by:?}"))));
        }
        self.text.push(')');
        Some(())
    }

    /// Writes an expression between two texts.
    fn write_between(&mut self, before: &str, expr: &Expr, after: &str) -> Option<()> {
        self.text.push_str(before);
        self.expr(expr)?;
        self.text.push_str(after);
        Some(())
    }

    fn list(&mut self, parts: &[Expr]) -> Option<()> {
        for (at, part) in parts.iter().enumerate() {
            self.write_between(if at == 0 { "" } else { ", " }, part, "")?;
        }
        Some(())
    }

    fn literal(&mut self, value: &ScalarValue) -> Option<()> {
        use ScalarValue as S;
        let data_type = value.data_type();
        let text = match value {
            value if value.is_null() => "NULL".to_owned(),
            S::Boolean(Some(value)) => value.to_string(),
            // Bits, since several NaN look alike.
            S::Float32(Some(value)) if value.is_nan() => format!("NaN {:08x}", value.to_bits()),
            S::Float64(Some(value)) if value.is_nan() => format!("NaN {:016x}", value.to_bits()),
            S::Float32(Some(value)) => format!("{value:?}"),
            S::Float64(Some(value)) => format!("{value:?}"),
            S::Int8(Some(value)) => value.to_string(),
            S::Int16(Some(value)) => value.to_string(),
            S::Int32(Some(value)) => value.to_string(),
            S::Int64(Some(value)) => value.to_string(),
            S::UInt8(Some(value)) => value.to_string(),
            S::UInt16(Some(value)) => value.to_string(),
            S::UInt32(Some(value)) => value.to_string(),
            S::UInt64(Some(value)) => value.to_string(),
            S::Decimal128(Some(value), ..) => value.to_string(),
            S::Date32(Some(value)) => value.to_string(),
            S::TimestampSecond(Some(value), _)
            | S::TimestampMillisecond(Some(value), _)
            | S::TimestampMicrosecond(Some(value), _)
            | S::TimestampNanosecond(Some(value), _) => value.to_string(),
            S::IntervalYearMonth(Some(value)) => value.to_string(),
            S::IntervalDayTime(Some(value)) => format!("{} {}", value.days, value.milliseconds),
            S::IntervalMonthDayNano(Some(value)) => format!("{} {} {}", value.months, value.days, value.nanoseconds),
            S::Utf8(Some(text)) | S::LargeUtf8(Some(text)) | S::Utf8View(Some(text)) => format!("{text:?}"),
            S::Binary(Some(bytes)) | S::LargeBinary(Some(bytes)) | S::BinaryView(Some(bytes)) => format!("{bytes:?}"),
            _ => return None,
        };
        self.push(format_args!("{{{}|{}}}", escape(&format!("{data_type:?}")), escape(&text)));
        Some(())
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

/// Braces are for columns and literals alone. A backslash before a bracket is in no text that `{:?}` has written.
fn escape(text: &str) -> String {
    text.replace('{', "\\(").replace('}', "\\)")
}

/// Of functions that say so of themselves. One that reads settings takes them in when it is planned.
fn depends_on_arguments_alone(function: &ScalarFunction) -> bool {
    function.func.signature().volatility == Volatility::Immutable
        && function.func.inner().with_updated_config(&ConfigOptions::default()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_fixture::table;
    use alluvia_space::DataType;
    use datafusion::functions::expr_fn::{now, random, upper, uuid};
    use datafusion::prelude::{col, lit};

    fn def() -> TableDef {
        table("t", &[("a", DataType::Text), ("b", DataType::Int64), ("c", DataType::Double)])
    }

    fn text(expr: &Expr) -> Option<String> {
        canonical(expr, &def())
    }

    #[test]
    fn expressions_that_differ_have_texts_that_differ() {
        let view = |text: &str| lit(ScalarValue::Utf8View(Some(text.to_owned())));
        let expressions = [
            upper(col("a")).eq(view("X")),
            upper(col("a")).eq(lit("X")),
            upper(col("a")).eq(view("X\"}) OR ({1} = {Utf8View|\"y")),
            upper(col("a")).eq(view("{1}")),
            upper(col("a")).eq(view("\\(1\\)")),
            upper(col("a")).eq(view("X")).or(col("b").eq(lit(1i64))),
            col("a").like(view("%x%")),
            col("a").ilike(view("%x%")),
            col("a").not_like(view("%x%")),
            (col("b") % lit(7i64)).eq(lit(0i64)),
            (col("b") % lit(7i32)).eq(lit(0i64)),
            (col("b") % lit(7i64)).not_eq(lit(0i64)),
            col("c").in_list(vec![lit(0.0), lit(1.0)], false),
            col("c").in_list(vec![lit(-0.0), lit(1.0)], false),
            col("c").in_list(vec![lit(0.0), lit(1.0)], true),
            col("c").in_list(vec![lit(f64::NAN)], true),
            datafusion::logical_expr::cast(col("b"), arrow::datatypes::DataType::Int32).eq(lit(1i32)),
            datafusion::logical_expr::try_cast(col("b"), arrow::datatypes::DataType::Int32).eq(lit(1i32)),
            datafusion::logical_expr::when(col("b").eq(lit(1i64)), lit(true)).end().expect("a case"),
            datafusion::logical_expr::when(col("b").eq(lit(1i64)), lit(true)).otherwise(lit(false)).expect("a case"),
            col("a").is_null().or(col("b").is_null()),
            col("b").is_null().or(col("a").is_null()),
        ];
        let texts: Vec<String> = expressions.iter().map(|expr| text(expr).expect("deterministic")).collect();
        for (at, one) in texts.iter().enumerate() {
            assert!(!texts[..at].contains(one), "{one}");
        }
    }

    #[test]
    fn what_may_change_by_itself_has_no_text() {
        assert_eq!(text(&random().gt(lit(0.5))), None);
        assert_eq!(text(&uuid().eq(col("a"))), None);
        assert_eq!(text(&now().gt(lit(1i64))), None);
        assert_eq!(text(&upper(col("a")).eq(lit("x")).and(random().gt(lit(0.5)))), None);
        assert_eq!(
            text(&Expr::Placeholder(datafusion::logical_expr::expr::Placeholder::new_with_field("$1".into(), None))),
            None
        );
        assert_eq!(text(&col("unknown").is_null()), None);
        let long = lit("x".repeat(BYTES_MAX)).eq(col("a")).or(col("b").is_null());
        assert_eq!(text(&long), None);
        let deep = (0..DEPTH_MAX).fold(col("b"), |deep, _| deep + lit(1i64));
        assert_eq!(text(&deep.eq(lit(1i64))), None);
    }

    #[test]
    fn constants_that_are_not_true_are_seen() {
        for never in [ScalarValue::Boolean(Some(false)), ScalarValue::Boolean(None), ScalarValue::Null] {
            assert!(is_never(&text(&lit(never)).expect("a constant")));
        }
        assert!(!is_never(&text(&lit(true)).expect("a constant")));
        assert!(!is_never(&text(&col("b").is_null()).expect("deterministic")));
    }

    #[test]
    fn a_text_is_shown_with_names() {
        let predicate = upper(col("a")).eq(lit("it's {0}")).and((col("b") % lit(7i64)).eq(lit(1i64)));
        let text = text(&predicate).expect("deterministic");
        let shown = show(&text, |id| format!("column{id}"));
        assert_eq!(shown, "((upper(column0) = 'it''s {0}') AND ((column1 % 7) = 1))");
        for odd in ["", "a\\b\"c", "line\nline", "{\\(}"] {
            let text = canonical(&col("a").eq(lit(odd)), &def()).expect("deterministic");
            let shown = show(&text, |_| "a".to_owned());
            assert_eq!(shown, format!("(a = '{odd}')"));
        }
    }
}
