//! What table would hold files that say the types of their columns: Parquet and Arrow.
//!
//! Invariants:
//! - A column's type holds the values of every file that is looked at as they are ([`unified`]); only integers and decimals beside floats are
//!   taken for doubles, as texts are. Types that have nothing in common become TEXT.
//! - A column that a file lacks, or may have NULL in, takes NULL. Columns that the first file lacks come after its own.
//! - A later file whose type a column does not hold is refused by an EXACT load, before any row of it ([`check_holds`]).

use super::{Inferred, InferredColumn, folded};
use alluvia_space::data_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use alluvia_space::{Column, DataType};
use alluvia_syntax::copy::options::CopyOptions;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::{DataType as ArrowType, Field, SchemaRef};

/// Widest `DECIMAL`.
const PRECISION_MAX: u8 = 38;

/// A column as far as files are looked at.
struct Found {
    name: String,
    /// `None` while there is nothing but NULL.
    data_type: Option<DataType>,
    nullable: bool,
}

/// The table that would hold the rows of all these files, each with its name.
pub(super) fn from_schemas(files: &[(String, SchemaRef)], options: &CopyOptions) -> Result<Inferred> {
    let mut found: Vec<Found> = Vec::new();
    for (at_file, (file, schema)) in files.iter().enumerate() {
        let known = found.len();
        let mut seen = vec![false; known];
        for field in schema.fields() {
            let data_type = type_of(field, file)?;
            match place_of(&found[..known], field.name()).filter(|at| !seen[*at]) {
                Some(at) => {
                    seen[at] = true;
                    let column = &mut found[at];
                    column.nullable |= field.is_nullable();
                    column.data_type = match (column.data_type, data_type) {
                        (Some(one), Some(other)) => Some(unified(one, other)),
                        (one, other) => one.or(other),
                    };
                }
                None => {
                    let (name, nullable) = (field.name().clone(), field.is_nullable() || at_file > 0);
                    found.push(Found { name, data_type, nullable });
                }
            }
        }
        for (column, seen) in found.iter_mut().zip(seen) {
            column.nullable |= !seen;
        }
    }
    let names = folded(found.iter().map(|column| column.name.clone()).collect());
    let column = |(column, name): (Found, String)| {
        let data_type = column.data_type.unwrap_or(DataType::Text);
        InferredColumn { name, data_type, nullable: column.nullable }
    };
    Ok(Inferred::new(found.into_iter().zip(names).map(column).collect(), options.clone()))
}

/// The column of this name, exactly or else without regard to case, as a load finds it.
fn place_of(found: &[Found], name: &str) -> Option<usize> {
    let exactly = found.iter().position(|column| column.name == name);
    exactly.or_else(|| found.iter().position(|column| column.name.to_lowercase() == name.to_lowercase()))
}

/// The type of a field's values; `None` if they are all NULL.
fn type_of(field: &Field, file: &str) -> Result<Option<DataType>> {
    let from = field.data_type();
    if *from == ArrowType::Null {
        return Ok(None);
    }
    let data_type = held_of_file(field).or_else(|| from.is_temporal().then_some(DataType::Text));
    data_type.map(Some).ok_or_else(|| {
        Error::new(
            ErrorKind::NotSupported,
            format!("{file}: column {} is {from}, which no column type holds", field.name()),
        )
        .with_hint("create the table without it, and load the other columns alone")
    })
}

/// The type that holds a field's values. That of a `CHAR(n)` is TEXT: its length is not said of files that others wrote.
fn held_of_file(field: &Field) -> Option<DataType> {
    DataType::from_foreign(field).map(|held| if held == DataType::Char { DataType::Text } else { held })
}

/// The type that holds values of both.
fn unified(one: DataType, other: DataType) -> DataType {
    use DataType::{Date, Double, Int16, Int32, Int64, Numeric, Real, Text, Timestamp, TimestampTz};
    match (one, other) {
        _ if one == other => one,
        (Int16 | Int32, Int16 | Int32) => Int32,
        (Int16 | Int32 | Int64, Int16 | Int32 | Int64) => Int64,
        (Real | Double, number) | (number, Real | Double) if number.is_number() => Double,
        (Numeric, number) | (number, Numeric) if number.is_number() => unified_numerics(number),
        _ if one.is_number() && other.is_number() => unified_decimals(one, other),
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        _ if one.is_time() && other.is_time() => TimestampTz,
        _ => Text,
    }
}

/// NUMERIC, if it holds values of the other, which is a number; TEXT if they may have too many digits.
fn unified_numerics(other: DataType) -> DataType {
    match other {
        DataType::Decimal { precision, scale }
            if scale > NUMERIC_SCALE || precision - scale > NUMERIC_PRECISION - NUMERIC_SCALE =>
        {
            DataType::Text
        }
        _ => DataType::Numeric,
    }
}

/// The decimal that holds both, of integers and decimals; TEXT if it has too many digits.
fn unified_decimals(one: DataType, other: DataType) -> DataType {
    // Before the point, and behind it.
    let digits = |data_type| match data_type {
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Decimal { precision, scale } => (precision.saturating_sub(scale), scale),
        _ => (19, 0),
    };
    let ((before, behind), (other_before, other_behind)) = (digits(one), digits(other));
    let scale = behind.max(other_behind);
    let precision = before.max(other_before) + scale;
    if precision <= PRECISION_MAX { DataType::Decimal { precision, scale } } else { DataType::Text }
}

/// Refuses a field of a file whose values would be changed to be those of this column.
pub(crate) fn check_holds(column: &Column, field: &Field, file: &str) -> Result<()> {
    let from = field.data_type();
    // Whether a type that no column has can be stored is for the casts to say.
    let Some(data_type) = held_of_file(field).filter(|_| *from != ArrowType::Null) else { return Ok(()) };
    if unified(data_type, column.data_type) == column.data_type {
        return Ok(());
    }
    let (name, is, takes) = (field.name(), data_type.sql_name(), column.sql_type());
    let message = format!("{file}: column {name} is {is}, whose values would be changed to be {takes}");
    Err(Error::new(ErrorKind::DatatypeMismatch, message).with_hint(
        "the table's types were taken from the first files: create the table with a type that holds the values of all, such as TEXT",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Schema, TimeUnit};
    use std::sync::Arc;

    fn file(name: &str, fields: &[(&str, ArrowType, bool)]) -> (String, SchemaRef) {
        let field = |(name, from, nullable): &(&str, ArrowType, bool)| Field::new(*name, from.clone(), *nullable);
        (name.to_owned(), Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<Field>>())))
    }

    fn inferred(files: &[(String, SchemaRef)]) -> String {
        let found = from_schemas(files, &CopyOptions::default()).unwrap();
        let column = |column: &InferredColumn| {
            let null = if column.nullable { "" } else { " NOT NULL" };
            format!("{} {}{null}", column.name, column.data_type.sql_name())
        };
        found.columns.iter().map(column).collect::<Vec<String>>().join(", ")
    }

    #[test]
    fn a_type_holds_the_values_of_all_files() {
        let moment = |zone: Option<&str>| ArrowType::Timestamp(TimeUnit::Nanosecond, zone.map(Into::into));
        let coded = ArrowType::Dictionary(Box::new(ArrowType::Int8), Box::new(ArrowType::UInt64));
        for (one, other, want) in [
            (ArrowType::Int32, ArrowType::Int64, "BIGINT"),
            (ArrowType::Int8, ArrowType::UInt16, "INT"),
            (ArrowType::Int64, ArrowType::Float64, "DOUBLE"),
            (ArrowType::Float32, ArrowType::Int16, "DOUBLE"),
            (ArrowType::Float32, ArrowType::Float64, "DOUBLE"),
            (ArrowType::Float32, ArrowType::Float32, "REAL"),
            (ArrowType::Int32, ArrowType::Decimal128(8, 2), "DECIMAL(12, 2)"),
            (ArrowType::Decimal128(10, 1), ArrowType::Decimal128(9, 4), "DECIMAL(13, 4)"),
            (ArrowType::Int64, ArrowType::Decimal128(38, 20), "TEXT"),
            (ArrowType::Decimal128(10, 1), ArrowType::Float32, "DOUBLE"),
            (ArrowType::UInt64, ArrowType::Int64, "DECIMAL(20, 0)"),
            (coded, ArrowType::UInt64, "DECIMAL(20, 0)"),
            (ArrowType::Date32, moment(None), "TIMESTAMP"),
            (ArrowType::Date32, moment(Some("UTC")), "TIMESTAMP WITH TIME ZONE"),
            (moment(None), moment(Some("+01:00")), "TIMESTAMP WITH TIME ZONE"),
            (ArrowType::Null, ArrowType::Boolean, "BOOLEAN"),
            (ArrowType::Null, ArrowType::Null, "TEXT"),
            (ArrowType::Boolean, ArrowType::Int8, "TEXT"),
            (ArrowType::Date32, ArrowType::Int32, "TEXT"),
            (ArrowType::Utf8, ArrowType::LargeUtf8, "TEXT"),
            (ArrowType::Time32(TimeUnit::Second), ArrowType::Int32, "TEXT"),
        ] {
            for (first, second) in [(&one, &other), (&other, &one)] {
                let files = [file("a", &[("v", first.clone(), false)]), file("b", &[("v", second.clone(), false)])];
                assert_eq!(inferred(&files), format!("v {want} NOT NULL"), "{first} {second}");
                // What holds both holds each.
                let found = from_schemas(&files, &CopyOptions::default()).unwrap();
                let column = Column {
                    id: alluvia_types::ColumnId(0),
                    name: "v".to_owned(),
                    storage_name: "v".to_owned(),
                    data_type: found.columns[0].data_type,
                    nullable: false,
                    chars_max: None,
                };
                for (_, schema) in &files {
                    check_holds(&column, schema.field(0), "f").unwrap();
                }
            }
        }
    }

    #[test]
    fn columns_are_those_of_all_files_by_name() {
        let files = [
            file("a", &[("Id", ArrowType::Int32, false), ("b", ArrowType::Utf8, false)]),
            file("b", &[("c", ArrowType::Date32, false), ("id", ArrowType::Int64, false)]),
            file("c", &[("id", ArrowType::Int16, true), ("b", ArrowType::Utf8, false), ("c", ArrowType::Null, true)]),
        ];
        assert_eq!(inferred(&files), "id BIGINT, b TEXT, c DATE");
        assert_eq!(inferred(&files[..1]), "id INT NOT NULL, b TEXT NOT NULL");
        let cases = [file("a", &[("A", ArrowType::Int32, true), ("a", ArrowType::Utf8, true)])];
        assert_eq!(inferred(&[&cases[..], &cases[..]].concat()), "A INT, a TEXT");
    }

    #[test]
    fn a_file_that_does_not_fit_is_named() {
        let column = Column {
            id: alluvia_types::ColumnId(0),
            name: "v".to_owned(),
            storage_name: "v".to_owned(),
            data_type: DataType::Int64,
            nullable: true,
            chars_max: None,
        };
        let check = |from: ArrowType| check_holds(&column, &Field::new("V", from, true), "f.parquet");
        for fits in [ArrowType::Int8, ArrowType::UInt32, ArrowType::Int64, ArrowType::Null] {
            check(fits).unwrap();
        }
        for from in [ArrowType::Float64, ArrowType::UInt64, ArrowType::Utf8, ArrowType::Decimal128(5, 1)] {
            let error = check(from).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DatatypeMismatch);
            assert!(error.message().starts_with("f.parquet: column V is ") && error.hint().is_some(), "{error}");
        }
    }
}
