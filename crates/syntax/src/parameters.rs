//! Parameters of a statement: `$1`, `$2`, ...
//!
//! Invariants:
//! - A value goes into the tree as the literal that means exactly it, so that a bound statement is a statement like any other:
//!   whatever recognises literals (the fast INSERT, the short path) recognises parameters.
//! - A double is a written number, except where that would be rounded or written otherwise, as NUMERIC: in `round` and in casts to integers
//!   and to text.
//! - Text becomes a plain string literal, which takes the type of what it is compared with or stored in, as PostgreSQL's do.
//! - The statement that is bound is left as it is; binding gives another.

use crate::copy::statement::{CopyStatement, CopyWhat};
use crate::names::parts_of;
use crate::sample::number::{bind_seed, parameters_of};
use crate::statement::{Insert, InsertSource, Kind};
use crate::statements::changes::ConflictAction;
use crate::statements::written_types::{data_type_of, length_of};
use crate::trees::rewriting::name_items;
use crate::trees::visit::visit_mut;
use crate::trees::{like_any, like_escape, list_calls, list_literals, regex_literals};
use alluvia_space::DataType;
use alluvia_space::data_type::UUID_BYTES;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::text::value_text;
use arrow::array::Array;
use arrow::datatypes::{DataType as ArrowType, Field, IntervalUnit, TimeUnit};
use datafusion_common::ScalarValue;
use sqlparser::ast::{
    self, ArrayElemTypeDef, CastKind, ExactNumberInfo, Expr, LimitClause, Query, Select, SelectItem, SetExpr,
    TableFactor, TimezoneInfo, TypedString, UnaryOperator, Value, VisitorMut,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The most parameters of a statement: what the PostgreSQL protocol can count.
pub const PARAMETERS_MAX: usize = 65_535;

/// Stack for walking a deep tree.
pub(crate) const BIND_STACK_BYTES: usize = 32 << 20;

/// How many parameters a statement has: the highest number in it.
pub fn count(tokens: &[TokenWithSpan]) -> Result<usize> {
    let mut count = 0;
    for token in tokens {
        if let Token::Placeholder(name) = &token.token {
            count = count.max(number_of(name)?);
        }
    }
    Ok(count)
}

fn number_of(name: &str) -> Result<usize> {
    let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
    match number {
        Some(number @ 1..=PARAMETERS_MAX) => Ok(number),
        _ => Err(Error::new(ErrorKind::Syntax, format!("{name} is no parameter"))
            .with_hint(format!("parameters are written $1, $2, ... up to ${PARAMETERS_MAX}"))),
    }
}

/// The query that a statement is or holds, or the first of them.
pub fn query_of(kind: &mut Kind) -> Option<&mut Query> {
    queries_of(kind).into_iter().next()
}

/// All queries that a statement is or holds; parameters stand nowhere else.
pub fn queries_of(kind: &mut Kind) -> Vec<&mut Query> {
    match kind {
        Kind::Query(query) | Kind::Explain { query, .. } => vec![query],
        Kind::Locking(locking) => vec![&mut locking.query],
        Kind::Insert(Insert { source, conflict, returning, .. }) => {
            let source = match source {
                InsertSource::Query(query) => Some(query.as_mut()),
                InsertSource::Literals(_) => None,
            };
            let update = conflict.as_deref_mut().and_then(|conflict| match &mut conflict.action {
                ConflictAction::Update { query, .. } => Some(query.as_mut()),
                ConflictAction::Nothing => None,
            });
            source.into_iter().chain(update).chain(returning.as_deref_mut()).collect()
        }
        Kind::Update(update) => std::iter::once(update.query.as_mut()).chain(update.returning.as_deref_mut()).collect(),
        Kind::Delete(delete) => std::iter::once(delete.query.as_mut()).chain(delete.returning.as_deref_mut()).collect(),
        Kind::Truncate(tables) => tables.iter_mut().map(|delete| delete.query.as_mut()).collect(),
        Kind::Merge(merge) => std::iter::once(merge.query.as_mut()).chain(merge.returning.as_deref_mut()).collect(),
        Kind::CreateTable(create) => create.query.as_deref_mut().into_iter().collect(),
        Kind::CreateView(create) => vec![&mut create.query],
        Kind::Declare(declare) => vec![&mut declare.query],
        Kind::CallProcedure(call) => call.arguments.as_deref_mut().into_iter().collect(),
        Kind::Copy(copy) => match copy.as_mut() {
            CopyStatement::To { what: CopyWhat::Query(query), .. } => vec![query],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Puts values in the place of parameters; `names_catalog` says whether the statement names something of PostgreSQL's
/// catalog.
pub fn bind(kind: &mut Kind, values: &[ScalarValue], names_catalog: bool) -> Result<()> {
    for query in queries_of(kind) {
        // A tree as deep as `depth` lets through is walked in less than what is left, or on a stack of its own.
        let bound = stacker::maybe_grow(1 << 20, BIND_STACK_BYTES, || {
            visit_mut(query, &mut Bind { values, names_catalog, rounding: 0, outer: Vec::new() })
        });
        if let ControlFlow::Break(error) = bound {
            return Err(error);
        }
    }
    Ok(())
}

struct Bind<'a> {
    values: &'a [ScalarValue],
    /// Whether computed lists are left to the catalog's rewriting.
    names_catalog: bool,
    /// How many of the expressions around, within this query, are told by [`tells_doubles`].
    rounding: usize,
    /// The same of the queries around.
    outer: Vec<usize>,
}

impl Bind<'_> {
    /// The literal in the place of a parameter.
    fn literal_of(&self, name: &str) -> Result<Expr> {
        let number = number_of(name)?;
        let value = self.values.get(number - 1).ok_or_else(|| missing(number))?;
        let literal = literal(value)?;
        let is_number = matches!(value, ScalarValue::Float64(Some(value)) if value.is_finite());
        Ok(if is_number && self.rounding > 0 { cast(literal, ast::DataType::DoublePrecision) } else { literal })
    }
}

/// Whether it makes another thing of a double than of the number that is written the same.
fn tells_doubles(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            parts_of(&function.name).is_ok_and(|parts| parts.last().is_some_and(|name| name == "round"))
        }
        Expr::Cast { data_type, array: false, .. } => {
            use alluvia_space::DataType::{Int16, Int32, Int64, Text};
            matches!(data_type_of(data_type), Ok(Int16 | Int32 | Int64 | Text))
        }
        _ => false,
    }
}

impl VisitorMut for Bind<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.outer.push(std::mem::take(&mut self.rounding));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.rounding = self.outer.pop().unwrap_or(0);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match bind_seed(factor, |name| self.literal_of(name)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // A column is called after its text, whatever its parameters are.
        name_items(select, is_parameter);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.rounding += usize::from(tells_doubles(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.rounding -= usize::from(tells_doubles(expr));
        let put = match expr {
            Expr::Value(value) => {
                let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
                self.literal_of(name).map(|literal| *expr = literal)
            }
            // What was a list's parameter is a written list now, what was a pattern's is a written pattern, and other lists are computed.
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => like_escape::expand(expr),
            Expr::BinaryOp { .. } | Expr::Function(_) => {
                regex_literals::expand(expr);
                Ok(())
            }
            _ => list_literals::expand(expr)
                .and_then(|()| if self.names_catalog { Ok(()) } else { list_calls::expand(expr) }),
        };
        match put {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

pub(crate) fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

/// The error of a statement that is run without a value for one of its parameters.
pub fn missing(number: usize) -> Error {
    Error::new(ErrorKind::UndefinedParameter, format!("there is no value for parameter ${number}"))
        .with_hint("prepare the statement and give its values, or write them in its place")
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// The literal that means a value.
pub fn literal(value: &ScalarValue) -> Result<Expr> {
    let data_type = value.data_type();
    if value.is_null() {
        return Ok(match sql_type(&data_type) {
            Some(sql) if data_type != ArrowType::Utf8 => cast(null(), sql),
            _ => null(),
        });
    }
    let number = |text: String| match text.strip_prefix('-') {
        Some(digits) => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(Expr::Value(Value::Number(digits.to_owned(), false).into())),
        },
        None => Expr::Value(Value::Number(text, false).into()),
    };
    let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
    let typed = |text: String, data_type| {
        Expr::TypedString(TypedString {
            data_type,
            value: Value::SingleQuotedString(text).into(),
            uses_odbc_syntax: false,
        })
    };
    Ok(match value {
        ScalarValue::Boolean(Some(value)) => Expr::Value(Value::Boolean(*value).into()),
        ScalarValue::Int8(Some(value)) => number(value.to_string()),
        ScalarValue::Int16(Some(value)) => number(value.to_string()),
        ScalarValue::Int32(Some(value)) => number(value.to_string()),
        ScalarValue::Int64(Some(value)) => number(value.to_string()),
        ScalarValue::UInt8(Some(value)) => number(value.to_string()),
        ScalarValue::UInt16(Some(value)) => number(value.to_string()),
        ScalarValue::UInt32(Some(value)) => number(value.to_string()),
        ScalarValue::UInt64(Some(value)) => number(value.to_string()),
        ScalarValue::Float64(Some(value)) if value.is_finite() => number(format!("{value:?}")),
        ScalarValue::Float64(Some(value)) => cast(text(&float_text(*value)), ast::DataType::DoublePrecision),
        ScalarValue::Float32(Some(value)) if value.is_finite() => {
            cast(text(&format!("{value:?}")), ast::DataType::Real)
        }
        ScalarValue::Float32(Some(value)) => cast(text(&float_text(f64::from(*value))), ast::DataType::Real),
        ScalarValue::Utf8(Some(value)) | ScalarValue::LargeUtf8(Some(value)) | ScalarValue::Utf8View(Some(value)) => {
            text(value)
        }
        ScalarValue::Binary(Some(value))
        | ScalarValue::LargeBinary(Some(value))
        | ScalarValue::BinaryView(Some(value)) => {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            Expr::Value(Value::HexStringLiteral(hex).into())
        }
        ScalarValue::FixedSizeBinary(UUID_BYTES, Some(_)) => cast(text(&text_of(value)?), ast::DataType::Uuid),
        ScalarValue::List(list) => elements(list.values())?,
        ScalarValue::Date32(_) => typed(text_of(value)?, ast::DataType::Date),
        ScalarValue::TimestampMicrosecond(_, None) => {
            typed(text_of(value)?, ast::DataType::Timestamp(None, TimezoneInfo::None))
        }
        ScalarValue::TimestampMicrosecond(_, Some(_)) => {
            typed(text_of(value)?, ast::DataType::Timestamp(None, TimezoneInfo::WithTimeZone))
        }
        other => match sql_type(&data_type) {
            Some(sql) => cast(text(&text_of(other)?), sql),
            None => {
                return Err(Error::new(
                    ErrorKind::NotSupported,
                    format!("a parameter of type {data_type} is not supported"),
                ));
            }
        },
    })
}

fn elements(values: &dyn Array) -> Result<Expr> {
    let wrong = |error| Error::internal(format!("a list could not be taken apart: {error}"));
    let element = |at| literal(&ScalarValue::try_from_array(values, at).map_err(wrong)?);
    let elem = (0..values.len()).map(element).collect::<Result<Vec<Expr>>>()?;
    Ok(Expr::Array(ast::Array { elem, named: true }))
}

fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn float_text(value: f64) -> String {
    if value.is_nan() { "NaN".to_owned() } else { format!("{}inf", if value < 0.0 { "-" } else { "" }) }
}

fn text_of(value: &ScalarValue) -> Result<String> {
    let array = value.to_array().map_err(|error| Error::internal(format!("a value has no array: {error}")))?;
    value_text(&array, 0)
}

/// A type as SQL writes it, where values of it can be written.
pub fn sql_type(data_type: &ArrowType) -> Option<ast::DataType> {
    Some(match data_type {
        ArrowType::Boolean => ast::DataType::Boolean,
        ArrowType::Int8 | ArrowType::UInt8 | ArrowType::Int16 => ast::DataType::SmallInt(None),
        ArrowType::UInt16 | ArrowType::Int32 => ast::DataType::Integer(None),
        ArrowType::UInt32 | ArrowType::Int64 => ast::DataType::BigInt(None),
        ArrowType::Float32 => ast::DataType::Real,
        ArrowType::Float64 => ast::DataType::DoublePrecision,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => ast::DataType::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => ast::DataType::Bytea,
        ArrowType::FixedSizeBinary(UUID_BYTES) => ast::DataType::Uuid,
        ArrowType::Date32 => ast::DataType::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => ast::DataType::Timestamp(None, TimezoneInfo::None),
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            ast::DataType::Timestamp(None, TimezoneInfo::WithTimeZone)
        }
        ArrowType::Decimal128(precision, scale) => {
            ast::DataType::Decimal(ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)))
        }
        ArrowType::Interval(_) => ast::DataType::Interval { fields: None, precision: None },
        ArrowType::Time64(_) => ast::DataType::Time(None, TimezoneInfo::None),
        ArrowType::List(element) => {
            let element = sql_type(element.data_type())?;
            ast::DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(element), None))
        }
        _ => return None,
    })
}

/// Types that the text of a statement states for its parameters: by a cast, as a LIMIT, or as a number of a sample. As fields
/// without a name, which also tell types of one Arrow type apart.
pub fn stated(kind: &mut Kind) -> BTreeMap<usize, Field> {
    let mut stated = Stated::default();
    for query in queries_of(kind) {
        let _ = visit_mut(query, &mut stated);
    }
    stated.types
}

#[derive(Default)]
struct Stated {
    types: BTreeMap<usize, Field>,
}

impl Stated {
    fn note(&mut self, expr: &Expr, field: Field) {
        if let Some(number) = parameter(expr) {
            self.types.entry(number).or_insert(field);
        }
    }
}

/// The field of a parameter of an Arrow type.
fn of_type(data_type: ArrowType) -> Field {
    Field::new("", data_type, true)
}

impl VisitorMut for Stated {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let Some(known) = cast_type(data_type)
        {
            self.note(expr, known);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let (whole, others) = parameters_of(factor);
        for (names, data_type) in [(whole, ArrowType::Int64), (others, ArrowType::Float64)] {
            for number in names.into_iter().filter_map(|name| number_of(name).ok()) {
                self.types.entry(number).or_insert(of_type(data_type.clone()));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                let offset = offset.as_ref().map(|offset| &offset.value);
                limit.iter().chain(offset).for_each(|expr| self.note(expr, of_type(ArrowType::Int64)));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                [offset, limit].into_iter().for_each(|expr| self.note(expr, of_type(ArrowType::Int64)));
            }
            None => {}
        }
        ControlFlow::Continue(())
    }
}

/// The type that a cast gives, if it is one of a column, one of the catalog, or a list of such.
fn cast_type(written: &ast::DataType) -> Option<Field> {
    Some(match written {
        ast::DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            of_type(ArrowType::List(Arc::new(element_type(element)?)))
        }
        ast::DataType::Char(_) | ast::DataType::Character(_) => DataType::Char.to_field("", true),
        // What a cast to a length gives is text.
        _ if matches!(length_of(written), Ok(Some(_))) => of_type(ArrowType::Utf8View),
        _ => match catalog_type(written).as_deref() {
            // Read by their names.
            Some("regclass" | "regtype" | "regproc" | "regnamespace" | "name") => of_type(ArrowType::Utf8View),
            Some("oid") => of_type(ArrowType::Int64),
            // Of whatever fields.
            _ if matches!(written, ast::DataType::Interval { .. }) => {
                of_type(ArrowType::Interval(IntervalUnit::MonthDayNano))
            }
            _ if matches!(written, ast::DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)) => {
                of_type(ArrowType::Time64(TimeUnit::Microsecond))
            }
            // Its digits come with the value.
            _ if is_any_numeric(written) => of_type(ArrowType::Decimal128(38, 10)),
            _ => data_type_of(written).ok()?.to_field("", true),
        },
    })
}

/// Whether it is a number of any precision.
fn is_any_numeric(written: &ast::DataType) -> bool {
    use ast::DataType::{Dec, Decimal, Numeric};
    matches!(written, Numeric(ExactNumberInfo::None) | Decimal(ExactNumberInfo::None) | Dec(ExactNumberInfo::None))
}

/// The elements of a list. Numbers of the catalog say that they are.
fn element_type(written: &ast::DataType) -> Option<Field> {
    let item = |data_type| Field::new("item", data_type, true);
    Some(match (catalog_type(written).as_deref(), written) {
        (Some("oid"), _) => item(ArrowType::Int64).with_metadata([("pg_type".to_owned(), "oid".to_owned())].into()),
        // Drivers' lists of these have no form here.
        (_, ast::DataType::Interval { .. } | ast::DataType::Time(..)) => return None,
        _ => cast_type(written)?.with_name("item"),
    })
}

/// The name of a type that only the catalog has.
fn catalog_type(written: &ast::DataType) -> Option<String> {
    match written {
        ast::DataType::Custom(name, _) => Some(name.0.last()?.as_ident()?.value.to_ascii_lowercase()),
        ast::DataType::Regclass => Some("regclass".to_owned()),
        _ => None,
    }
}

/// Puts `x = $1` in the place of `x = ANY($1)`, so that planning finds the type of the list's elements; of `x = ANY($1::text[])`, too, whose
/// type is stated. Gives the numbers of those parameters.
pub fn unlist(query: &mut Query) -> BTreeSet<usize> {
    struct Unlist(BTreeSet<usize>);

    impl VisitorMut for Unlist {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } = expr
                && let Some(number) = parameter(uncast(right))
            {
                self.0.insert(number);
                let left = std::mem::replace(left, Box::new(null()));
                let right = Box::new(Expr::Value(Value::Placeholder(format!("${number}")).into()));
                *expr = Expr::BinaryOp { left, op: compare_op.clone(), right };
            }
            if let Some((left, right, number)) = like_any::of_parameter(expr) {
                self.0.insert(number);
                *expr = Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right };
            }
            ControlFlow::Continue(())
        }
    }

    let mut unlist = Unlist(BTreeSet::new());
    let _ = visit_mut(query, &mut unlist);
    unlist.0
}

/// What is cast to a list.
pub fn uncast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => uncast(inner),
        Expr::Cast { expr: inner, data_type: ast::DataType::Array(_), .. } => inner,
        _ => expr,
    }
}

/// The number of a parameter that stands alone.
pub fn parameter(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => number_of(name).ok(),
            _ => None,
        },
        Expr::Nested(inner) => parameter(inner),
        _ => None,
    }
}

/// For an INSERT: parameters that are a whole value, with the place of that value in its row.
pub fn whole_values(source: &Query) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut row = |exprs: &mut dyn Iterator<Item = &Expr>| {
        found.extend(exprs.enumerate().filter_map(|(place, expr)| Some((parameter(expr)?, place))));
    };
    match source.body.as_ref() {
        SetExpr::Values(values) => values.rows.iter().for_each(|values| row(&mut values.content.iter())),
        SetExpr::Select(select) => {
            let exprs: Option<Vec<&Expr>> = select
                .projection
                .iter()
                .map(|item| match item {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
                    _ => None,
                })
                .collect();
            row(&mut exprs.unwrap_or_default().into_iter());
        }
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    fn bound(sql: &str, values: &[ScalarValue]) -> Result<String> {
        let mut kind = parse(sql)?.remove(0).kind;
        bind(&mut kind, values, false)?;
        Ok(query_of(&mut kind).expect("a query").to_string())
    }

    #[test]
    fn values_become_the_literals_that_mean_them() {
        let cases = [
            (ScalarValue::from(-5i64), "SELECT -5"),
            (ScalarValue::from(1.5f64), "SELECT 1.5"),
            (ScalarValue::from(f64::NEG_INFINITY), "SELECT CAST('-inf' AS DOUBLE PRECISION)"),
            (ScalarValue::from("it's"), "SELECT 'it''s'"),
            (ScalarValue::from(true), "SELECT true"),
            (ScalarValue::Null, "SELECT NULL"),
            (ScalarValue::Int32(None), "SELECT CAST(NULL AS INTEGER)"),
            (ScalarValue::Date32(Some(20_000)), "SELECT DATE '2024-10-04'"),
            (ScalarValue::TimestampMicrosecond(Some(1), None), "SELECT TIMESTAMP '1970-01-01 00:00:00.000001'"),
            (ScalarValue::Decimal128(Some(-1234), 10, 2), "SELECT CAST('-12.34' AS DECIMAL(10,2))"),
            (ScalarValue::Binary(Some(vec![0, 255])), "SELECT X'00ff'"),
        ];
        for (value, expected) in cases {
            assert_eq!(bound("SELECT $1 AS a", &[value]).unwrap(), format!("{expected} AS a"));
        }
        assert_eq!(bound("SELECT $1, a", &[ScalarValue::Null]).unwrap(), "SELECT NULL AS \"$1\", a");
        let list = ScalarValue::List(ScalarValue::new_list_nullable(
            &[ScalarValue::from(1i32), ScalarValue::from(2i32)],
            &ArrowType::Int32,
        ));
        let ScalarValue::List(array) = &list else { panic!("a list") };
        assert_eq!(array.values().as_primitive::<Int32Type>().len(), 2);
        assert_eq!(bound("SELECT 1 FROM t WHERE a = ANY($1)", &[list]).unwrap(), "SELECT 1 FROM t WHERE a IN (1, 2)");
    }

    #[test]
    fn patterns_are_translated_as_written_ones_are() {
        let found = bound(
            "SELECT 1 FROM t WHERE a ~ $1 AND regexp_like(a, $1) AND a = $1 AND a ~* $2",
            &[ScalarValue::from(r"\mcat"), ScalarValue::Null],
        );
        let expected = r"SELECT 1 FROM t WHERE a ~ '\b{start}cat' AND regexp_like(a, '\b{start}cat') AND a = '\mcat' AND a ~* NULL";
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn doubles_are_told_from_written_numbers_where_that_matters() {
        for (sql, expected) in [
            ("round($1)", "round(CAST(2.5 AS DOUBLE PRECISION))"),
            ("Round(x * (- $1))", "Round(x * (-CAST(2.5 AS DOUBLE PRECISION)))"),
            ("$1::int", "CAST(2.5 AS DOUBLE PRECISION)::INT"),
            ("CAST($1 AS TEXT)", "CAST(CAST(2.5 AS DOUBLE PRECISION) AS TEXT)"),
            ("CAST($1 AS DOUBLE PRECISION) + $1", "CAST(2.5 AS DOUBLE PRECISION) + 2.5"),
            ("round(x) + $1", "round(x) + 2.5"),
            ("round((SELECT b FROM u WHERE c = $1))", "round((SELECT b FROM u WHERE c = 2.5))"),
        ] {
            let found = bound(&format!("SELECT {sql} AS a FROM t"), &[ScalarValue::from(2.5)]).unwrap();
            assert_eq!(found, format!("SELECT {expected} AS a FROM t"));
        }
    }

    #[test]
    fn parameters_are_counted_bound_anywhere_and_missed_by_number() {
        let parsed = parse("SELECT a FROM t WHERE b = $2 AND c IN ($1, $3) LIMIT $2").unwrap().remove(0);
        assert_eq!(parsed.parameters(), 3);
        let error = bound("SELECT $2", &[ScalarValue::Null]).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::UndefinedParameter, "there is no value for parameter $2")
        );
        for wrong in ["SELECT $0", "SELECT $70000", "SELECT $x"] {
            assert!(parse(wrong).is_err() || bound(wrong, &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn casts_and_limits_state_types() {
        let mut kind = parse("SELECT $1::date, CAST($2 AS BIGINT) FROM t LIMIT $3 OFFSET $4").unwrap().remove(0).kind;
        let types: Vec<ArrowType> = stated(&mut kind).into_values().map(|field| field.data_type().clone()).collect();
        assert_eq!(types, [ArrowType::Date32, ArrowType::Int64, ArrowType::Int64, ArrowType::Int64]);
        let mut kind =
            parse("SELECT $1::bigint[], CAST($2 AS varchar(3)[]) WHERE 1 = ANY($3::oid[])").unwrap().remove(0).kind;
        let elements = stated(&mut kind).into_values().map(|list| match list.data_type() {
            ArrowType::List(element) => (element.data_type().clone(), element.metadata().len()),
            other => panic!("{other}"),
        });
        let expected = [(ArrowType::Int64, 0), (ArrowType::Utf8View, 0), (ArrowType::Int64, 1)];
        assert_eq!(elements.collect::<Vec<_>>(), expected);
        // Types that are texts to Arrow are told apart.
        let mut kind = parse("SELECT $1::json, CAST($2 AS JSONB), $3::char(5), $4::jsonb[]").unwrap().remove(0).kind;
        let types: Vec<Option<DataType>> = stated(&mut kind)
            .into_values()
            .map(|field| match field.data_type() {
                ArrowType::List(element) => DataType::from_field(element),
                _ => DataType::from_field(&field),
            })
            .collect();
        assert_eq!(types, [DataType::Json, DataType::Jsonb, DataType::Char, DataType::Jsonb].map(Some));
    }

    #[test]
    fn lists_are_the_lists_that_they_meet() {
        let list = |values: &[Option<i32>]| {
            let values: Vec<ScalarValue> = values.iter().map(|value| ScalarValue::from(*value)).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &ArrowType::Int32))
        };
        let texts = ScalarValue::List(ScalarValue::new_list_nullable(&[ScalarValue::from("abcd")], &ArrowType::Utf8));
        for (sql, value, expected) in [
            ("a = ANY($1::int[])", list(&[Some(1), Some(-2)]), "a IN (1, -2)"),
            ("a = ANY(($1))", list(&[Some(1), None]), "a IN (1, CAST(NULL AS INTEGER))"),
            ("a <> ALL($1)", list(&[]), "a NOT IN ()"),
            ("a = ANY($1::int[])", ScalarValue::Null, "CAST(NULL AS BOOLEAN)"),
            ("a = ANY($1)", ScalarValue::from("{x,\"y z\"}"), "a IN ('x', 'y z')"),
            ("a = $1::text[]", ScalarValue::from("{x}"), "a = ARRAY['x']::TEXT[]"),
            ("a = ANY($1::varchar(3)[])", ScalarValue::from("{abcd}"), "a IN (left(CAST('abcd' AS TEXT), 3))"),
            ("a <> ALL(($1)::varchar(3)[])", texts, "a NOT IN (left(CAST('abcd' AS TEXT), 3))"),
        ] {
            let found = bound(&format!("SELECT 1 FROM t WHERE {sql}"), &[value]).unwrap();
            assert_eq!(found, format!("SELECT 1 FROM t WHERE {expected}"));
        }
        let mut kind = parse("SELECT 1 FROM t WHERE a = ANY(($1)::varchar(3)[]) AND b = $2").unwrap().remove(0).kind;
        let query = query_of(&mut kind).expect("a query");
        assert_eq!(unlist(query).into_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(query.to_string(), "SELECT 1 FROM t WHERE a = $1 AND b = $2");
        let error = bound("SELECT 1 FROM t WHERE a = ANY($1)", &[ScalarValue::from("5")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidText);
    }
}
