//! Column types: their Arrow form in storage, and their names in SQL.
//!
//! Invariants:
//! - `from_arrow(to_arrow(t)) == t` for every type.
//! - `from_arrow` is the type that *holds* values of an Arrow type; casting to it may still refuse single values
//!   (an unsigned 64-bit number past `BIGINT`).

use crate::schema::{Column, ColumnType, DataType};
use arrow::datatypes::{DataType as ArrowType, TimeUnit};

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
            DataType::Text => ArrowType::Utf8View,
            DataType::Binary => ArrowType::BinaryView,
        }
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
            ArrowType::Decimal32(precision, scale)
            | ArrowType::Decimal64(precision, scale)
            | ArrowType::Decimal128(precision, scale)
            | ArrowType::Decimal256(precision, scale) => return decimal(*precision, *scale),
            ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
            ArrowType::Timestamp(_, None) => DataType::Timestamp,
            ArrowType::Timestamp(_, Some(_)) => DataType::TimestampTz,
            ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View | ArrowType::Null => DataType::Text,
            ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
                DataType::Binary
            }
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
        }
    }

    /// Whether values are numbers, which can be measures and can be cut into halves.
    pub fn is_number(&self) -> bool {
        use DataType::*;
        matches!(self, Int16 | Int32 | Int64 | Real | Double | Decimal { .. })
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

    /// The type as SQL writes it, with the length of a `VARCHAR(n)`.
    pub fn sql_type(&self) -> String {
        self.declared_type().sql_name()
    }
}

/// A decimal with digits only before the point when the Arrow scale is negative.
fn decimal(precision: u8, scale: i8) -> Option<DataType> {
    let precision = if scale < 0 { precision.checked_add(scale.unsigned_abs())? } else { precision };
    let scale = scale.max(0) as u8;
    ((1..=PRECISION_MAX).contains(&precision) && scale <= precision).then_some(DataType::Decimal { precision, scale })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ]
        .into_iter()
        .chain(decimals)
        {
            assert_eq!(DataType::from_arrow(&data_type.to_arrow()), Some(data_type));
        }
    }

    #[test]
    fn foreign_types_find_the_type_that_holds_them() {
        let text = ArrowType::Dictionary(Box::new(ArrowType::UInt32), Box::new(ArrowType::Utf8));
        assert_eq!(DataType::from_arrow(&text), Some(DataType::Text));
        let thousands = DataType::Decimal { precision: 8, scale: 0 };
        assert_eq!(DataType::from_arrow(&ArrowType::Decimal128(5, -3)), Some(thousands));
        assert_eq!(DataType::from_arrow(&ArrowType::Decimal256(76, 2)), None);
        assert_eq!(DataType::from_arrow(&ArrowType::Duration(TimeUnit::Second)), None);
    }
}
