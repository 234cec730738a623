//! The types that columns are declared with: from what is written to what is stored.
//!
//! Invariant: a type is taken whole or refused by name, with what to write instead.

use crate::grammar::Grammar;
use crate::statements::parse::syntax;
use crate::statements::rules::serial_type;
use crate::tokens::{depth, lexer};
use alluvia_space::{CHARS_MAX, ColumnType, DataType};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{self, CharLengthUnits, CharacterLength, ExactNumberInfo, TimezoneInfo};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// The type of a column for a written one.
pub fn column_type_of(written: &ast::DataType) -> Result<ColumnType> {
    if let Some(chars_max) = char_length_of(written)? {
        return Ok(ColumnType { data_type: DataType::Char, chars_max: Some(chars_max) });
    }
    match length_of(written)? {
        Some(chars_max) => Ok(ColumnType { data_type: DataType::Text, chars_max: Some(chars_max) }),
        None => data_type_of(written).map(ColumnType::from),
    }
}

/// The type of a column for the text of a type.
pub fn column_type_of_text(text: &str) -> Result<ColumnType> {
    let tokens = lexer::of(text)?;
    depth::check(&tokens)?;
    let grammar = Grammar::for_tokens(tokens.len());
    let mut parser = Parser::new(&grammar).with_tokens_with_locations(tokens).with_recursion_limit(depth::DEPTH_MAX);
    let written = parser.parse_data_type().map_err(syntax)?;
    if parser.peek_token_ref().token != Token::EOF {
        return Err(Error::new(ErrorKind::Syntax, format!("{text} is no type")));
    }
    column_type_of(&written)
}

/// The n of `CHAR(n)`, which is 1 where none is written; `None` for other types.
pub fn char_length_of(written: &ast::DataType) -> Result<Option<u32>> {
    use ast::DataType as Sql;
    match written {
        Sql::Char(None) | Sql::Character(None) => Ok(Some(1)),
        Sql::Char(Some(length)) | Sql::Character(Some(length)) => chars_of(written, length).map(Some),
        // `bpchar` without a length has none in PostgreSQL either, and is then a text but for its blanks.
        _ => Ok(None),
    }
}

/// The n of `VARCHAR(n)`, however it is written; `None` for other types.
pub fn length_of(written: &ast::DataType) -> Result<Option<u32>> {
    use ast::DataType as Sql;
    let (Sql::Varchar(Some(length)) | Sql::CharacterVarying(Some(length)) | Sql::CharVarying(Some(length))) = written
    else {
        return Ok(None);
    };
    chars_of(written, length).map(Some)
}

/// How many characters a type's length is.
fn chars_of(written: &ast::DataType, length: &CharacterLength) -> Result<u32> {
    match length {
        CharacterLength::IntegerLength { length, unit: None | Some(CharLengthUnits::Characters) } => {
            match u32::try_from(*length) {
                Ok(chars_max @ 1..=CHARS_MAX) => Ok(chars_max),
                _ => Err(Error::new(ErrorKind::InvalidDefinition, format!("{written} has no possible length"))
                    .with_hint(format!("a length is 1 to {CHARS_MAX} characters; TEXT takes any"))),
            }
        }
        _ => Err(not_supported(format!("type {written}")).with_hint("write a number of characters, or TEXT")),
    }
}

/// Our type for a written one, whatever its length.
pub fn data_type_of(written: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Sql;
    let decimal = |info: &ExactNumberInfo| match info {
        ExactNumberInfo::None => Ok(DataType::Numeric),
        ExactNumberInfo::Precision(precision) => decimal_of(written, *precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => decimal_of(written, *precision, *scale),
    };
    let timestamp = |digits: &Option<u64>, data_type| match digits {
        None | Some(6) => Ok(data_type),
        Some(_) => {
            Err(not_supported(written).with_hint("timestamps hold microseconds: write TIMESTAMP or TIMESTAMPTZ"))
        }
    };
    match written {
        Sql::Boolean | Sql::Bool => Ok(DataType::Boolean),
        Sql::SmallInt(None) | Sql::Int2(None) => Ok(DataType::Int16),
        Sql::Int(None) | Sql::Integer(None) | Sql::Int4(None) => Ok(DataType::Int32),
        Sql::BigInt(None) | Sql::Int8(None) => Ok(DataType::Int64),
        Sql::Real | Sql::Float4 => Ok(DataType::Real),
        Sql::Float(ExactNumberInfo::Precision(1..=24)) => Ok(DataType::Real),
        Sql::Float(ExactNumberInfo::None | ExactNumberInfo::Precision(25..=53)) => Ok(DataType::Double),
        Sql::Double(ExactNumberInfo::None) | Sql::DoublePrecision | Sql::Float8 => Ok(DataType::Double),
        Sql::Decimal(info) | Sql::Numeric(info) | Sql::Dec(info) => decimal(info),
        Sql::Date => Ok(DataType::Date),
        Sql::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            timestamp(digits, DataType::Timestamp)
        }
        Sql::Timestamp(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            timestamp(digits, DataType::TimestampTz)
        }
        Sql::Text | Sql::String(None) | Sql::Varchar(None) | Sql::CharacterVarying(None) | Sql::CharVarying(None) => {
            Ok(DataType::Text)
        }
        Sql::Bytea | Sql::Blob(None) | Sql::Bytes(None) | Sql::Varbinary(None) => Ok(DataType::Binary),
        Sql::Uuid => Ok(DataType::Uuid),
        Sql::JSON => Ok(DataType::Json),
        Sql::JSONB => Ok(DataType::Jsonb),
        Sql::Time(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Ok(DataType::Time),
        Sql::Time(Some(_), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Err(not_supported(written).with_hint("times hold microseconds: write TIME"))
        }
        Sql::Interval { fields: None, precision: None | Some(6) } => Ok(DataType::Interval),
        Sql::Char(_) | Sql::Character(_) => char_length_of(written).map(|_| DataType::Char),
        other => Err(type_error(other)),
    }
}

fn decimal_of(written: &ast::DataType, precision: u64, scale: i64) -> Result<DataType> {
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(DataType::Decimal { precision, scale }),
        _ => Err(Error::new(ErrorKind::InvalidDefinition, format!("{written} is not a possible decimal"))
            .with_hint("precision is 1 to 38, scale 0 to the precision: DECIMAL(18, 2)")),
    }
}

fn type_error(written: &ast::DataType) -> Error {
    use ast::DataType as Sql;
    let hint = match written {
        Sql::Nvarchar(_) => "use VARCHAR(n): all text is Unicode",
        Sql::Varchar(_) | Sql::CharacterVarying(_) | Sql::CharVarying(_) | Sql::String(Some(_)) => "use TEXT",
        Sql::TinyInt(_) | Sql::TinyIntUnsigned(_) | Sql::UTinyInt => "use SMALLINT",
        Sql::IntUnsigned(_) | Sql::IntegerUnsigned(_) | Sql::Int4Unsigned(_) => "use BIGINT",
        Sql::BigIntUnsigned(_) | Sql::UBigInt | Sql::HugeInt | Sql::UInt64 => "use DECIMAL(20, 0)",
        Sql::Datetime(_) => "use TIMESTAMP",
        Sql::Time(..) => "write TIME, or TIMESTAMPTZ where the zone matters",
        Sql::Interval { .. } => "write INTERVAL, which holds years to microseconds",
        Sql::Custom(..) if serial_type(written).is_some() => {
            "a column of a new table may be numbered; anywhere else use BIGINT"
        }
        _ => {
            "the types are BOOLEAN, SMALLINT, INT, BIGINT, REAL, DOUBLE, NUMERIC, DECIMAL(p, s), DATE, TIME, TIMESTAMP, \
             TIMESTAMPTZ, INTERVAL, TEXT, VARCHAR(n), CHAR(n), BYTEA, UUID, JSON, JSONB"
        }
    };
    not_supported(format!("type {written}")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(precision: u64, scale: i64) -> Result<DataType> {
        data_type_of(&ast::DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale)))
    }

    #[test]
    fn types_are_ours_or_refused_with_what_to_use_instead() {
        assert_eq!(decimal(38, 38).unwrap(), DataType::Decimal { precision: 38, scale: 38 });
        assert!(decimal(39, 2).is_err() && decimal(5, 6).is_err() && decimal(5, -1).is_err());
        let length = CharacterLength::IntegerLength { length: 10, unit: None };
        let padded = ast::DataType::Char(Some(length));
        let chars = |chars_max| ColumnType { data_type: DataType::Char, chars_max: Some(chars_max) };
        assert_eq!(column_type_of(&padded).unwrap(), chars(10));
        assert_eq!(column_type_of(&ast::DataType::Character(None)).unwrap(), chars(1));
        assert_eq!(data_type_of(&ast::DataType::Numeric(ExactNumberInfo::None)).unwrap(), DataType::Numeric);
        let interval = ast::DataType::Interval { fields: None, precision: None };
        for (written, wanted) in [
            (ast::DataType::Uuid, DataType::Uuid),
            (ast::DataType::JSON, DataType::Json),
            (ast::DataType::JSONB, DataType::Jsonb),
            (ast::DataType::Time(None, TimezoneInfo::None), DataType::Time),
            (interval, DataType::Interval),
        ] {
            assert_eq!(column_type_of(&written).unwrap(), ColumnType::from(wanted));
        }
        assert!(data_type_of(&ast::DataType::Time(None, TimezoneInfo::WithTimeZone)).is_err());
        assert_eq!(data_type_of(&ast::DataType::Float(ExactNumberInfo::None)).unwrap(), DataType::Double);
    }

    #[test]
    fn lengths_of_text_are_taken_over_or_refused() {
        use ast::DataType as Sql;
        let length = |length| CharacterLength::IntegerLength { length, unit: None };
        for written in [
            Sql::Varchar(Some(length(10))),
            Sql::CharacterVarying(Some(length(10))),
            Sql::CharVarying(Some(CharacterLength::IntegerLength {
                length: 10,
                unit: Some(CharLengthUnits::Characters),
            })),
        ] {
            let expected = ColumnType { data_type: DataType::Text, chars_max: Some(10) };
            assert_eq!(column_type_of(&written).unwrap(), expected);
            assert_eq!(data_type_of(&written).unwrap_err().kind(), ErrorKind::NotSupported, "its length would be lost");
        }
        for written in [Sql::Text, Sql::Varchar(None), Sql::CharacterVarying(None), Sql::CharVarying(None)] {
            assert_eq!(column_type_of(&written).unwrap(), ColumnType::from(DataType::Text));
        }
        for impossible in [0, u64::from(CHARS_MAX) + 1, u64::MAX] {
            let error = column_type_of(&Sql::Varchar(Some(length(impossible)))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidDefinition, "{error}");
        }
        let octets = CharacterLength::IntegerLength { length: 10, unit: Some(CharLengthUnits::Octets) };
        for written in [Sql::Varchar(Some(octets)), Sql::Varchar(Some(CharacterLength::Max))] {
            assert_eq!(column_type_of(&written).unwrap_err().kind(), ErrorKind::NotSupported);
        }
    }
}
