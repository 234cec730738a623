//! Column types: their Arrow form in storage, and their names in SQL.
//!
//! Invariants:
//! - `from_field(to_field(t)) == t` for every type: types that share an Arrow type (JSON, JSONB, CHAR(n) and TEXT; NUMERIC and
//!   DECIMAL(38, 16)) are told apart by the field's extension name. Where that is lost, `from_arrow` gives the type whose values look
//!   the same: text, and of decimals of these digits NUMERIC, as sums of them come.
//! - `from_arrow` is the type that *holds* values of an Arrow type in a plan; casting to it may still refuse single values
//!   (an unsigned 64-bit number past `BIGINT`). `from_foreign` is the one for data that comes from elsewhere: no number of
//!   theirs is too large for it, and what has fields or elements is JSON.

use crate::schema::{Column, ColumnType, DataType};
use arrow::datatypes::{DataType as ArrowType, Field, IntervalUnit, TimeUnit};

/// The key of a field's metadata that names its extension type.
pub const EXTENSION_NAME: &str = "ARROW:extension:name";
/// The key of a field's metadata that says more of its extension type: of CHAR(n) the n.
pub const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
/// The extension name of UUIDs, which is Arrow's.
pub const UUID_EXTENSION: &str = "arrow.uuid";
/// The extension name of JSON, which is Arrow's.
pub const JSON_EXTENSION: &str = "arrow.json";
/// The extension name of JSONB.
pub const JSONB_EXTENSION: &str = "alluvia.jsonb";
/// The extension name of NUMERIC without precision.
pub const NUMERIC_EXTENSION: &str = "alluvia.numeric";
/// The extension name of a DECIMAL that has the digits of a NUMERIC.
pub const DECIMAL_EXTENSION: &str = "alluvia.decimal";
/// The extension name of CHAR(n).
pub const CHAR_EXTENSION: &str = "alluvia.bpchar";
/// Digits of a NUMERIC without precision.
pub const NUMERIC_PRECISION: u8 = 38;
/// Digits behind its point.
pub const NUMERIC_SCALE: u8 = 16;
/// Bytes of a UUID, and of an INTERVAL where it is stored as bytes.
pub const UUID_BYTES: i32 = 16;

/// Widest `DECIMAL`.
pub(crate) const PRECISION_MAX: u8 = 38;
/// Longest `VARCHAR(n)`, as in PostgreSQL.
pub const CHARS_MAX: u32 = 10_485_760;

impl DataType {
    /// The Arrow type of this column in storage.
    pub fn to_arrow(&self) -> ArrowType {
        match *self {
            DataType::Boolean => ArrowType::Boolean,
            DataType::Int16 => ArrowType::Int16,
            DataType::Int32 => ArrowType::Int32,
            DataType::Int64 => ArrowType::Int64,
            DataType::Real => ArrowType::Float32,
            DataType::Double => ArrowType::Float64,
            DataType::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
            DataType::Date => ArrowType::Date32,
            DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            DataType::TimestampTz => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            DataType::Text | DataType::Json | DataType::Jsonb | DataType::Char => ArrowType::Utf8View,
            DataType::Binary => ArrowType::BinaryView,
            DataType::Uuid => ArrowType::FixedSizeBinary(UUID_BYTES),
            DataType::Time => ArrowType::Time64(TimeUnit::Microsecond),
            DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
            DataType::Numeric => ArrowType::Decimal128(NUMERIC_PRECISION, NUMERIC_SCALE as i8),
        }
    }

    /// The name by which a field tells this type from another of the same Arrow type.
    pub fn extension(&self) -> Option<&'static str> {
        match self {
            DataType::Uuid => Some(UUID_EXTENSION),
            DataType::Json => Some(JSON_EXTENSION),
            DataType::Jsonb => Some(JSONB_EXTENSION),
            DataType::Numeric => Some(NUMERIC_EXTENSION),
            DataType::Char => Some(CHAR_EXTENSION),
            DataType::Decimal { precision: NUMERIC_PRECISION, scale: NUMERIC_SCALE } => Some(DECIMAL_EXTENSION),
            _ => None,
        }
    }

    /// A field of values of this type.
    pub fn to_field(&self, name: impl Into<String>, nullable: bool) -> Field {
        let field = Field::new(name, self.to_arrow(), nullable);
        match self.extension() {
            Some(extension) => field.with_metadata([(EXTENSION_NAME.to_owned(), extension.to_owned())].into()),
            None => field,
        }
    }

    /// The type of a field's values in a plan: as [`from_arrow`](Self::from_arrow), but that the field's extension is looked at.
    pub fn from_field(field: &Field) -> Option<DataType> {
        let plain = DataType::from_arrow(field.data_type())?;
        let extension = field.metadata().get(EXTENSION_NAME).map(String::as_str);
        Some(match (extension, plain) {
            (Some(JSON_EXTENSION), DataType::Text) => DataType::Json,
            (Some(JSONB_EXTENSION), DataType::Text) => DataType::Jsonb,
            (Some(CHAR_EXTENSION), DataType::Text) => DataType::Char,
            (Some(DECIMAL_EXTENSION), DataType::Numeric) => {
                DataType::Decimal { precision: NUMERIC_PRECISION, scale: NUMERIC_SCALE }
            }
            (_, plain) => plain,
        })
    }

    /// The type of a column for what a file or another program has in a field.
    pub fn from_foreign(field: &Field) -> Option<DataType> {
        fn values(of: &ArrowType) -> &ArrowType {
            match of {
                ArrowType::Dictionary(_, inner) => values(inner),
                ArrowType::RunEndEncoded(_, inner) => values(inner.data_type()),
                other => other,
            }
        }
        Some(match values(field.data_type()) {
            ArrowType::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
            // Bytes that happen to be sixteen.
            ArrowType::FixedSizeBinary(_)
                if field.metadata().get(EXTENSION_NAME).is_none_or(|name| name != UUID_EXTENSION) =>
            {
                DataType::Binary
            }
            ArrowType::Decimal256(precision, scale) if decimal(*precision, *scale).is_none() => {
                let scale = (*scale).clamp(0, PRECISION_MAX as i8) as u8;
                DataType::Decimal { precision: PRECISION_MAX, scale }
            }
            nested if is_nested(nested) => DataType::Json,
            _ => return DataType::from_field(field),
        })
    }

    /// The column type that values of an Arrow type are stored in, if there is one. `NULL` alone becomes text, as in
    /// PostgreSQL; `UInt64` becomes `BIGINT`, because it is what ranks and counts come as.
    pub fn from_arrow(arrow: &ArrowType) -> Option<DataType> {
        Some(match arrow {
            ArrowType::Boolean => DataType::Boolean,
            ArrowType::Int8 | ArrowType::UInt8 | ArrowType::Int16 => DataType::Int16,
            ArrowType::UInt16 | ArrowType::Int32 => DataType::Int32,
            ArrowType::UInt32 | ArrowType::Int64 | ArrowType::UInt64 => DataType::Int64,
            ArrowType::Float16 | ArrowType::Float32 => DataType::Real,
            ArrowType::Float64 => DataType::Double,
            // What sums and extremes of them come as, too.
            ArrowType::Decimal128(NUMERIC_PRECISION, scale) if *scale == NUMERIC_SCALE as i8 => DataType::Numeric,
            ArrowType::Decimal32(precision, scale)
            | ArrowType::Decimal64(precision, scale)
            | ArrowType::Decimal128(precision, scale)
            | ArrowType::Decimal256(precision, scale) => return decimal(*precision, *scale),
            ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
            ArrowType::Timestamp(_, None) => DataType::Timestamp,
            ArrowType::Timestamp(_, Some(_)) => DataType::TimestampTz,
            ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View | ArrowType::Null => DataType::Text,
            ArrowType::FixedSizeBinary(UUID_BYTES) => DataType::Uuid,
            ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
                DataType::Binary
            }
            ArrowType::Time32(_) | ArrowType::Time64(_) => DataType::Time,
            ArrowType::Interval(_) | ArrowType::Duration(_) => DataType::Interval,
            ArrowType::Dictionary(_, values) => return DataType::from_arrow(values),
            ArrowType::RunEndEncoded(_, values) => return DataType::from_arrow(values.data_type()),
            _ => return None,
        })
    }

    /// The type as SQL writes it.
    pub fn sql_name(&self) -> String {
        match self {
            DataType::Boolean => "BOOLEAN".into(),
            DataType::Int16 => "SMALLINT".into(),
            DataType::Int32 => "INT".into(),
            DataType::Int64 => "BIGINT".into(),
            DataType::Real => "REAL".into(),
            DataType::Double => "DOUBLE".into(),
            DataType::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
            DataType::Date => "DATE".into(),
            DataType::Timestamp => "TIMESTAMP".into(),
            DataType::TimestampTz => "TIMESTAMP WITH TIME ZONE".into(),
            DataType::Text => "TEXT".into(),
            DataType::Binary => "BYTEA".into(),
            DataType::Uuid => "UUID".into(),
            DataType::Json => "JSON".into(),
            DataType::Jsonb => "JSONB".into(),
            DataType::Time => "TIME".into(),
            DataType::Interval => "INTERVAL".into(),
            DataType::Numeric => "NUMERIC".into(),
            DataType::Char => "CHAR".into(),
        }
    }

    /// Whether values are numbers, which can be measures and can be cut into halves.
    pub fn is_number(&self) -> bool {
        use DataType::*;
        matches!(self, Int16 | Int32 | Int64 | Real | Double | Decimal { .. } | Numeric)
    }

    /// Whether it is SMALLINT, INT or BIGINT.
    pub fn is_whole_number(&self) -> bool {
        matches!(self, DataType::Int16 | DataType::Int32 | DataType::Int64)
    }

    /// Whether values are kept as texts in UTF-8.
    pub fn is_text(&self) -> bool {
        matches!(self, DataType::Text | DataType::Json | DataType::Jsonb | DataType::Char)
    }

    /// Digits in all and behind the point, of decimals.
    pub fn digits(&self) -> Option<(u8, u8)> {
        match *self {
            DataType::Decimal { precision, scale } => Some((precision, scale)),
            DataType::Numeric => Some((NUMERIC_PRECISION, NUMERIC_SCALE)),
            _ => None,
        }
    }

    /// Whether values have calendar parts.
    pub fn is_time(&self) -> bool {
        matches!(self, DataType::Date | DataType::Timestamp | DataType::TimestampTz)
    }
}

impl From<DataType> for ColumnType {
    fn from(data_type: DataType) -> ColumnType {
        ColumnType { data_type, chars_max: None }
    }
}

impl ColumnType {
    /// The type as SQL writes it.
    pub fn sql_name(&self) -> String {
        match self.chars_max {
            Some(chars_max) if self.data_type == DataType::Char => format!("CHAR({chars_max})"),
            Some(chars_max) => format!("VARCHAR({chars_max})"),
            None => self.data_type.sql_name(),
        }
    }
}

impl Column {
    /// The type as it was declared.
    pub fn declared_type(&self) -> ColumnType {
        ColumnType { data_type: self.data_type, chars_max: self.chars_max }
    }

    /// A field of its values, as plans have them; that of a `CHAR(n)` says its n.
    pub fn to_field(&self) -> Field {
        let mut field = self.data_type.to_field(&self.name, self.nullable);
        if let (DataType::Char, Some(chars_max)) = (self.data_type, self.chars_max) {
            field.metadata_mut().insert(EXTENSION_METADATA.to_owned(), chars_max.to_string());
        }
        field
    }

    /// The type as SQL writes it, with the length of a `VARCHAR(n)`.
    pub fn sql_type(&self) -> String {
        self.declared_type().sql_name()
    }
}

/// The n of a field of `CHAR(n)`, where it says it.
pub fn chars_of(field: &Field) -> Option<u32> {
    let is_char = DataType::from_field(field) == Some(DataType::Char);
    field.metadata().get(EXTENSION_METADATA).filter(|_| is_char)?.parse().ok()
}

/// A decimal with digits only before the point when the Arrow scale is negative.
fn decimal(precision: u8, scale: i8) -> Option<DataType> {
    let precision = if scale < 0 { precision.checked_add(scale.unsigned_abs())? } else { precision };
    let scale = scale.max(0) as u8;
    ((1..=PRECISION_MAX).contains(&precision) && scale <= precision).then_some(DataType::Decimal { precision, scale })
}

fn is_nested(arrow: &ArrowType) -> bool {
    matches!(
        arrow,
        ArrowType::List(_)
            | ArrowType::LargeList(_)
            | ArrowType::FixedSizeList(..)
            | ArrowType::Struct(_)
            | ArrowType::Map(..)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_type_survives_arrow() {
        let decimals = [DataType::Decimal { precision: 38, scale: 38 }, DataType::Decimal { precision: 1, scale: 0 }];
        for data_type in [
            DataType::Boolean,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::Real,
            DataType::Double,
            DataType::Date,
            DataType::Timestamp,
            DataType::TimestampTz,
            DataType::Text,
            DataType::Binary,
            DataType::Uuid,
            DataType::Time,
            DataType::Interval,
        ]
        .into_iter()
        .chain(decimals)
        {
            assert_eq!(DataType::from_arrow(&data_type.to_arrow()), Some(data_type));
            assert_eq!(DataType::from_field(&data_type.to_field("a", true)), Some(data_type));
        }
        let same_digits = DataType::Decimal { precision: NUMERIC_PRECISION, scale: NUMERIC_SCALE };
        for data_type in [DataType::Json, DataType::Jsonb, DataType::Numeric, DataType::Char, same_digits] {
            let field = data_type.to_field("a", true);
            assert_eq!(DataType::from_field(&field), Some(data_type));
            assert_eq!(DataType::from_foreign(&field), Some(data_type));
        }
    }

    #[test]
    fn foreign_types_find_the_type_that_holds_them() {
        let text = ArrowType::Dictionary(Box::new(ArrowType::UInt32), Box::new(ArrowType::Utf8));
        assert_eq!(DataType::from_arrow(&text), Some(DataType::Text));
        let thousands = DataType::Decimal { precision: 8, scale: 0 };
        assert_eq!(DataType::from_arrow(&ArrowType::Decimal128(5, -3)), Some(thousands));
        assert_eq!(DataType::from_arrow(&ArrowType::Decimal256(76, 2)), None);
        assert_eq!(DataType::from_arrow(&ArrowType::Duration(TimeUnit::Second)), Some(DataType::Interval));
    }

    #[test]
    fn what_others_send_keeps_its_values() {
        let of = |arrow: ArrowType| DataType::from_foreign(&Field::new("a", arrow, true));
        assert_eq!(of(ArrowType::UInt64), Some(DataType::Decimal { precision: 20, scale: 0 }));
        assert_eq!(of(ArrowType::Decimal256(60, 2)), Some(DataType::Decimal { precision: 38, scale: 2 }));
        assert_eq!(of(ArrowType::FixedSizeBinary(16)), Some(DataType::Binary));
        assert_eq!(DataType::from_foreign(&DataType::Uuid.to_field("a", true)), Some(DataType::Uuid));
        let item = Arc::new(Field::new("item", ArrowType::Int64, true));
        assert_eq!(of(ArrowType::List(Arc::clone(&item))), Some(DataType::Json));
        assert_eq!(of(ArrowType::Struct(vec![item].into())), Some(DataType::Json));
        assert_eq!(of(ArrowType::Time32(TimeUnit::Second)), Some(DataType::Time));
        assert_eq!(of(ArrowType::Duration(TimeUnit::Nanosecond)), Some(DataType::Interval));
    }
}
