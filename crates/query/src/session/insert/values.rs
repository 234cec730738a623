//! The fast path of INSERT: rows of literals, bound to columns without planning a query.
//!
//! Planning costs milliseconds; a durable INSERT of one row should cost little more than its share of an fsync. So
//! VALUES of literals alone are built here, by the builders that COPY uses. All other VALUES go through a query
//! (`insert::computed`).
//!
//! Invariant: both ways give the same rows. [`values_rows`] answers `None` unless every expression is a literal.

use alluvia_catalog::TableEntry;
use alluvia_copy::Lacking;
use alluvia_space::{Column, DataType, IdentityKind, TableDef};
use alluvia_syntax::statements::plain_insert::{Literal, LiteralRows};
use alluvia_syntax::statements::rules::Overriding;
use alluvia_syntax::statements::written_types::data_type_of;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::builders::{ColumnBuilder, TextAs};
use alluvia_values::parse::{Bad, parse_decimal, shown};
use alluvia_values::time_zone::Zone;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema};
use datafusion::sql::sqlparser::ast::{CastKind, Expr, UnaryOperator, Value, Values};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows in the storage schema of their table, but for what they lack.
pub(crate) type LiteralBatch = (RecordBatch, Lacking);

/// The rows of `VALUES`; `targets[i]` is the column that the i-th expression of a row goes to, and columns without one are
/// lacking, or NULL. `None` when something is not a literal.
pub(crate) fn values_rows(
    values: &Values,
    entry: &TableEntry,
    targets: &[usize],
    overriding: Option<Overriding>,
    zone: &Zone,
) -> Result<Option<LiteralBatch>> {
    for (at, row) in values.rows.iter().enumerate() {
        check_width(row.content.len(), targets.len(), &entry.def, at + 1)?;
    }
    let literal = |row: usize, place: usize, column: &Column| {
        values.rows[row].content.get(place).map_or(Some(Literal::Null), |expr| literal(expr, column.data_type))
    };
    rows(values.rows.len(), literal, entry, (targets, overriding), zone)
}

/// The same of rows that no tree was made of.
pub(crate) fn literal_rows(
    literals: &LiteralRows,
    entry: &TableEntry,
    targets: &[usize],
    zone: &Zone,
) -> Result<LiteralBatch> {
    check_width(literals.width(), targets.len(), &entry.def, 1)?;
    let rows = rows(literals.rows(), |row, place, _| Some(literals.at(row, place)), entry, (targets, None), zone)?;
    rows.ok_or_else(|| Error::internal("a literal was taken for none"))
}

/// Where a value stands in VALUES: its row, and its place there.
pub(crate) type ValuePosition = (usize, usize);

/// What rows have that are not all literals.
pub(crate) struct AmongLiterals {
    /// For each column of the table what it gets, with NULL where something has to be computed, or is lacking.
    pub(crate) arrays: Vec<ArrayRef>,
    /// What has to be computed.
    pub(crate) computed: Vec<ValuePosition>,
    /// What the table's definition is to give.
    pub(crate) lacking: Lacking,
}

/// What rows have that are not all literals. Literals mean what they mean in rows of literals alone.
pub(crate) fn literals_among(
    values: &Values,
    entry: &TableEntry,
    targets: &[usize],
    overriding: Option<Overriding>,
    zone: &Zone,
) -> Result<AmongLiterals> {
    let (def, rows) = (entry.def.as_ref(), values.rows.len());
    let mut arrays = Vec::with_capacity(def.columns.len());
    let (mut computed, mut lacking) = (Vec::new(), Lacking::of(def, without_target(def, targets)));
    for (index, column) in def.columns.iter().enumerate() {
        let mut builder = ColumnBuilder::new(column.declared_type(), TextAs::Plain, rows).in_zone(zone);
        let from = targets.iter().position(|target| *target == index);
        let given = Given::of(def, column, overriding);
        for (row, exprs) in values.rows.iter().enumerate() {
            let expr = from.and_then(|place| Some((place, exprs.content.get(place)?)));
            let (place, literal) = match expr {
                None => (0, Some(Literal::Default)),
                Some((place, expr)) => (place, literal(expr, column.data_type)),
            };
            match given.taken(literal, column)? {
                Some(Literal::Default) if def.fills(column.id) => {
                    builder.append_null();
                    lacking.add(index, row);
                }
                Some(literal) => append(&mut builder, &literal, column, row + 1)?,
                None => {
                    builder.append_null();
                    computed.push((row, place));
                }
            }
        }
        arrays.push(builder.finish());
    }
    Ok(AmongLiterals { arrays, computed, lacking })
}

/// The columns that no value of a row goes to.
fn without_target<'a>(def: &'a TableDef, targets: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    (0..def.columns.len()).filter(move |column| !targets.contains(column))
}

/// What becomes of values that are given for a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// They are taken.
    Taken,
    /// They are refused, but for DEFAULT: the column is always numbered.
    Refused,
    /// They are passed over.
    PassedOver,
}

impl Given {
    pub(crate) fn of(def: &TableDef, column: &Column, overriding: Option<Overriding>) -> Given {
        match (def.identity_of(column.id).map(|identity| identity.kind), overriding) {
            (None, _) | (Some(_), Some(Overriding::System)) => Given::Taken,
            (Some(_), Some(Overriding::User)) => Given::PassedOver,
            (Some(IdentityKind::Always), None) => Given::Refused,
            (Some(IdentityKind::ByDefault | IdentityKind::Serial), None) => Given::Taken,
        }
    }

    /// The value that is taken for one that is given; `None` is one that has to be computed.
    fn taken<'a>(self, given: Option<Literal<'a>>, column: &Column) -> Result<Option<Literal<'a>>> {
        match self {
            Given::Taken => Ok(given),
            Given::PassedOver => Ok(Some(Literal::Default)),
            Given::Refused if given == Some(Literal::Default) => Ok(given),
            Given::Refused => Err(always_numbered(column)),
        }
    }
}

/// The error for a value of a column that is always numbered.
pub(crate) fn always_numbered(column: &Column) -> Error {
    let message = format!(
        "cannot insert a non-DEFAULT value into column \"{}\": it is an identity column defined as GENERATED ALWAYS",
        column.name
    );
    Error::new(ErrorKind::GeneratedAlways, message)
        .with_hint("use OVERRIDING SYSTEM VALUE to override: INSERT INTO t (id) OVERRIDING SYSTEM VALUE VALUES (1)")
}

/// So many rows of literals, each given by its row, its place there, and the column that it goes to.
fn rows<'a>(
    rows: usize,
    literal: impl Fn(usize, usize, &Column) -> Option<Literal<'a>>,
    entry: &TableEntry,
    (targets, overriding): (&[usize], Option<Overriding>),
    zone: &Zone,
) -> Result<Option<LiteralBatch>> {
    let def = entry.def.as_ref();
    let mut arrays = Vec::with_capacity(def.columns.len());
    let mut lacking = Lacking::of(def, without_target(def, targets));
    for (index, column) in def.columns.iter().enumerate() {
        let mut builder = ColumnBuilder::new(column.declared_type(), TextAs::Plain, rows).in_zone(zone);
        let from = targets.iter().position(|target| *target == index);
        let (given, fills) = (Given::of(def, column, overriding), def.fills(column.id));
        for row in 0..rows {
            let literal = match from {
                None => Literal::Default,
                Some(place) => match given.taken(literal(row, place, column), column)? {
                    Some(literal) => literal,
                    None => return Ok(None),
                },
            };
            if fills && literal == Literal::Default {
                builder.append_null();
                lacking.add(index, row);
            } else {
                append(&mut builder, &literal, column, row + 1)?;
            }
        }
        arrays.push(builder.finish());
    }
    Ok(Some((batch(entry, arrays, rows, &lacking)?, lacking)))
}

/// Fails unless a row has a value for every target; without a column list a shorter row is padded with NULLs by the
/// caller.
fn check_width(width: usize, targets: usize, def: &TableDef, row: usize) -> Result<()> {
    if width == targets {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Syntax,
        format!("row {row} has {width} values, and INSERT INTO {} is given {targets} columns", def.name),
    )
    .with_hint("list the columns: INSERT INTO t (a, b) VALUES (1, 2)"))
}

/// Columns in the storage schema of a table as its rows, but for what they lack.
pub(crate) fn batch(entry: &TableEntry, arrays: Vec<ArrayRef>, rows: usize, lacking: &Lacking) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = match lacking.is_empty() {
        true => Arc::clone(entry.storage_schema()),
        false => {
            let fields = entry.storage_schema().fields().iter().enumerate();
            let field = |(at, field): (usize, &FieldRef)| {
                field.as_ref().clone().with_nullable(field.is_nullable() || lacking.has(at))
            };
            Arc::new(Schema::new(fields.map(field).collect::<Vec<_>>()))
        }
    };
    RecordBatch::try_new_with_options(schema, arrays, &options)
        .map_err(|error| Error::internal(format!("rows could not be assembled: {error}")))
}

fn literal(expr: &Expr, to: DataType) -> Option<Literal<'_>> {
    match expr {
        Expr::Value(value) => of_value(&value.value),
        Expr::Nested(expr) => literal(expr, to),
        Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") => {
            Some(Literal::Default)
        }
        Expr::UnaryOp { op, expr } => match (op, literal(expr, to)?) {
            (UnaryOperator::Plus, Literal::Number(number)) => Some(Literal::Number(number)),
            (UnaryOperator::Minus, Literal::Number(number)) if !number.starts_with('-') => {
                Some(Literal::Number(Cow::Owned(format!("-{number}"))))
            }
            _ => None,
        },
        Expr::TypedString(typed) => match (data_type_of(&typed.data_type), of_value(&typed.value.value)?) {
            (Ok(data_type), Literal::Text(text)) if data_type == to => Some(Literal::Text(text)),
            _ => None,
        },
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, array: false, format: None } => {
            match (data_type_of(data_type), literal(expr, to)?) {
                (Ok(_), Literal::Null) => Some(Literal::Null),
                (Ok(data_type), Literal::Text(text)) if data_type == to => Some(Literal::Text(text)),
                (Ok(DataType::Decimal { precision, scale }), Literal::Text(text))
                    if is_number(to) && is_exact_decimal(&text, precision, scale) =>
                {
                    Some(Literal::Number(text))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_number(data_type: DataType) -> bool {
    data_type.is_number()
}

/// Whether a decimal of these digits holds all of what is written.
fn is_exact_decimal(text: &str, precision: u8, scale: u8) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    !whole.is_empty()
        && are_digits(whole)
        && are_digits(fraction)
        && fraction.len() <= usize::from(scale)
        && parse_decimal(text.as_bytes(), precision, scale).is_ok()
}

fn of_value(value: &Value) -> Option<Literal<'_>> {
    match value {
        Value::Null => Some(Literal::Null),
        Value::Boolean(value) => Some(Literal::Boolean(*value)),
        Value::Number(text, false) => {
            let digits =
                text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'));
            digits.then_some(Literal::Number(Cow::Borrowed(text)))
        }
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text)
        | Value::NationalStringLiteral(text) => Some(Literal::Text(Cow::Borrowed(text))),
        Value::DollarQuotedString(text) => Some(Literal::Text(Cow::Borrowed(&text.value))),
        Value::HexStringLiteral(digits) => Some(Literal::Hex(digits)),
        _ => None,
    }
}

fn append(builder: &mut ColumnBuilder, literal: &Literal<'_>, column: &Column, row: usize) -> Result<()> {
    let (result, text): (Result<(), Bad>, Cow<'_, str>) = match (literal, column.data_type) {
        (Literal::Null | Literal::Default, _) if column.nullable => {
            builder.append_null();
            return Ok(());
        }
        (Literal::Null | Literal::Default, _) => (Err(Bad::Null), Cow::Borrowed("NULL")),
        (Literal::Text(text), _) => (builder.append(text.as_bytes()), Cow::Borrowed(text.as_ref())),
        (Literal::Boolean(value), DataType::Boolean | DataType::Text | DataType::Char) => {
            let text = if *value { "true" } else { "false" };
            (builder.append(text.as_bytes()), Cow::Borrowed(text))
        }
        (Literal::Number(text), DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            (append_rounded(builder, text), Cow::Borrowed(text.as_ref()))
        }
        (
            Literal::Number(text),
            DataType::Real
            | DataType::Double
            | DataType::Decimal { .. }
            | DataType::Numeric
            | DataType::Text
            | DataType::Char,
        ) => (builder.append(text.as_bytes()), Cow::Borrowed(text.as_ref())),
        (Literal::Hex(digits), DataType::Binary) => {
            let text = format!("\\x{digits}");
            (builder.append(text.as_bytes()), Cow::Owned(text))
        }
        (Literal::Hex(_), _) => return Err(mismatch(column, "BYTEA")),
        (Literal::Boolean(_), _) => return Err(mismatch(column, "BOOLEAN")),
        (Literal::Number(_), _) => return Err(mismatch(column, "a number")),
    };
    result.map_err(|bad| {
        let reason = bad.describe(&shown(text.as_bytes()), &column.sql_type());
        Error::new(bad.kind(), format!("row {row}, column {}: {reason}", column.name))
    })
}

/// A number into an integer column: rounded half away from zero, as PostgreSQL assigns a numeric literal.
fn append_rounded(builder: &mut ColumnBuilder, text: &str) -> Result<(), Bad> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return builder.append(text.as_bytes());
    }
    let whole = parse_decimal(text.as_bytes(), 38, 0)?;
    builder.append(whole.to_string().as_bytes())
}

fn mismatch(column: &Column, what: &str) -> Error {
    Error::new(
        ErrorKind::DatatypeMismatch,
        format!("column {} is {}, and {what} cannot be stored in it", column.name, column.sql_type()),
    )
    .with_hint("write the value in quotes, or with an explicit cast")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_space::ColumnType;
    use alluvia_syntax::names::name_of;
    use alluvia_syntax::statement::{Insert, InsertSource};
    use alluvia_syntax::statements::definitions::{WithOptions, define};
    use alluvia_syntax::trees::value_rows::values_of;
    use alluvia_syntax::{Kind, Statement, parse_by_tokens};
    use alluvia_types::{TableId, Version};
    use arrow::array::AsArray;
    use arrow::datatypes::{Int32Type, TimestampMicrosecondType};
    use proptest::prelude::*;

    fn table() -> TableDef {
        let columns = [
            ("a", DataType::Int32, false),
            ("b", DataType::Text, true),
            ("c", DataType::Timestamp, true),
            ("d", DataType::Boolean, true),
        ];
        let columns =
            columns.map(|(name, data_type, nullable)| (name.to_owned(), ColumnType::from(data_type), nullable));
        define(TableId(1), ("public", "t"), &columns, &WithOptions::default(), 0).unwrap()
    }

    fn bind(values: &str, targets: &[usize]) -> Result<Option<RecordBatch>> {
        let mut statements = alluvia_syntax::script::parse(&format!("INSERT INTO t VALUES {values}")).unwrap();
        let Kind::Insert(insert) = statements.remove(0).kind else { panic!("an INSERT") };
        bind_source(&insert.source, targets)
    }

    fn bind_source(source: &InsertSource, targets: &[usize]) -> Result<Option<RecordBatch>> {
        let entry = TableEntry::new(Arc::new(table()), Version(1));
        match source {
            InsertSource::Literals(literals) => {
                literal_rows(literals, &entry, targets, &Zone::utc()).map(|(rows, _)| Some(rows))
            }
            InsertSource::Query(query) => match values_of(query) {
                Some(values) => Ok(values_rows(values, &entry, targets, None, &Zone::utc())?.map(|(rows, _)| rows)),
                None => Ok(None),
            },
        }
    }

    #[test]
    fn literals_of_every_form_are_bound() {
        let rows =
            "(1, 'x', '2026-01-02 03:04:05', true), (-2.5, 7, TIMESTAMP '2026-01-02', 'f'), ('3', true, NULL, DEFAULT)";
        let batch = bind(rows, &[0, 1, 2, 3]).unwrap().unwrap();
        let ints: Vec<i32> = batch.column(0).as_primitive::<Int32Type>().values().to_vec();
        assert_eq!(ints, [1, -3, 3]);
        let texts: Vec<Option<&str>> = batch.column(1).as_string_view().iter().collect();
        assert_eq!(texts, [Some("x"), Some("7"), Some("true")]);
        let times = batch.column(2).as_primitive::<TimestampMicrosecondType>();
        assert_eq!((times.value(1), times.iter().last()), (1_767_312_000_000_000, Some(None)));
        assert_eq!(batch.column(3).as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), None]);
    }

    #[test]
    fn columns_without_a_value_are_null_and_expressions_are_left_to_a_query() {
        let batch = bind("('b', 1)", &[1, 0]).unwrap().unwrap();
        assert_eq!(batch.column(1).as_string_view().value(0), "b");
        assert_eq!(batch.column(2).null_count(), 1);
        for query in ["(1 + 1, 'b')", "(1, now())", "(1, CAST(1 AS TEXT))", "((SELECT 1), 'b')"] {
            assert!(bind(query, &[0, 1]).unwrap().is_none(), "{query}");
        }
    }

    #[test]
    fn bad_values_name_row_column_and_value() {
        let cases = [
            ("(1, 'x'), (99999999999, 'y')", ErrorKind::OutOfRange, "row 2, column a: '99999999999'"),
            ("('one', 'x')", ErrorKind::InvalidText, "'one'"),
            ("(NULL, 'x')", ErrorKind::NotNull, "column a"),
            ("(true, 'x')", ErrorKind::DatatypeMismatch, "column a"),
            ("(1)", ErrorKind::Syntax, "row 1 has 1 values"),
        ];
        for (values, kind, words) in cases {
            let error = bind(values, &[0, 1]).unwrap_err();
            assert_eq!(error.kind(), kind, "{values}");
            assert!(error.message().contains(words), "{error}");
        }
    }

    /// Texts of literals, and of what is nearly one.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "-?[0-9]{1,12}",
            2 => "[+-]?[0-9]{1,4}\\.[0-9]{0,4}(e[+-]?[0-9]{1,2})?",
            4 => "'([a-zé ;,()]|''){0,6}'",
            2 => Just("'2026-01-02 03:04:05'".to_owned()),
            3 => prop::sample::select(vec!["null", "NULL", "Default", "true", "FALSE", "'t'", "'-7'"]).prop_map(str::to_owned),
            1 => prop::sample::select(vec!["- 1", "(1)", "$1", "x'0a'", "E'a'", "'a\\b'", ".5", "1 + 1", "now()", "1 /* c */"])
                .prop_map(str::to_owned),
        ]
    }

    fn insert() -> impl Strategy<Value = String> {
        let space = || prop::sample::select(vec![" ", "\n", "  ", "\t"]);
        let head = prop::sample::select(vec![
            "INSERT INTO t VALUES",
            "insert into public.t (a, b, \"c\", D) values",
            "INSERT INTO \"t\"(d,c,b,a)VALUES",
            "INSERT INTO T (a) VALUES",
            "INSERT INTO t (values) VALUES",
        ]);
        let rows = prop::collection::vec(prop::collection::vec(value(), 1..5), 1..4);
        let tail = prop::sample::select(vec!["", ";", " ; ", "\n", ";;", " -- end", "; SELECT 1", " RETURNING a"]);
        (head, space(), rows, space(), prop_oneof![6 => Just(""), 1 => tail]).prop_map(
            |(head, before, rows, between, tail)| {
                let rows = rows.iter().map(|row| format!("({})", row.join(&format!("{between},"))));
                format!("{head}{before}{}{tail}", rows.collect::<Vec<_>>().join(&format!(",{between}")))
            },
        )
    }

    /// What a text means: the texts of its statements and, of INSERT, the rows; or what is wrong.
    fn meaning(parsed: Result<Vec<Statement>>) -> std::result::Result<Vec<String>, String> {
        let one = |statement: Statement| {
            let Kind::Insert(Insert { table, columns, source, .. }) = &statement.kind else {
                return Ok(format!("{}: {:?}", statement.sql(), statement.kind));
            };
            let width = columns.as_ref().map_or(4, Vec::len);
            let columns: Option<Vec<_>> = columns.as_ref().map(|all| all.iter().map(name_of).collect());
            let rows = bind_source(source, &(0..width).rev().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
            Ok(format!("{} into {table} {columns:?}: {rows:?}, {}", statement.sql(), statement.parameters))
        };
        parsed.map_err(|error| error.to_string())?.into_iter().map(one).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn what_no_tree_was_made_of_means_what_its_tree_means(sql in insert()) {
            prop_assert_eq!(meaning(alluvia_syntax::script::parse(&sql)), meaning(parse_by_tokens(&sql)), "{}", sql);
        }
    }
}
