//! Which of SQL's types an expression has, where Arrow's type does not tell: UUID, JSON, JSONB, NUMERIC and CHAR(n).
//!
//! Invariants:
//! - Sixteen bytes of fixed width are a UUID. The others are told by the extension name of the field, which functions of ours pass on; where
//!   it is lost a value is the TEXT, or the DECIMAL(38, 16), that it is kept as.
//! - NUMERIC is calculated with wherever there are 38 digits, 16 of them behind the point.

use alluvia_space::DataType as SqlType;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::metadata::FieldMetadata;
use std::sync::Arc;

/// Digits behind the point of a NUMERIC.
pub const NUMERIC_SCALE: i8 = 16;
/// Of a NUMERIC.
pub const NUMERIC: DataType = DataType::Decimal128(38, NUMERIC_SCALE);
/// Of a UUID.
pub const UUID: DataType = DataType::FixedSizeBinary(16);

/// A type that has values of its own kind, or any other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// UUID
    Uuid,
    /// JSON
    Json,
    /// JSONB
    Jsonb,
    /// NUMERIC without precision
    Numeric,
    /// CHAR(n)
    Char,
    /// Another type.
    Other,
}

/// All kinds, for those who write them down by number.
pub const KINDS: [Kind; 6] = [Kind::Uuid, Kind::Json, Kind::Jsonb, Kind::Numeric, Kind::Char, Kind::Other];

impl Kind {
    /// As a column has it; `None` of the others.
    pub fn sql_type(self) -> Option<SqlType> {
        match self {
            Kind::Uuid => Some(SqlType::Uuid),
            Kind::Json => Some(SqlType::Json),
            Kind::Jsonb => Some(SqlType::Jsonb),
            Kind::Numeric => Some(SqlType::Numeric),
            Kind::Char => Some(SqlType::Char),
            Kind::Other => None,
        }
    }

    /// Whether it is JSON in either form.
    pub fn is_json(self) -> bool {
        matches!(self, Kind::Json | Kind::Jsonb)
    }
}

/// Of a field of a plan.
pub fn kind_of(field: &Field) -> Kind {
    match SqlType::from_field(field) {
        Some(SqlType::Uuid) => Kind::Uuid,
        Some(SqlType::Json) => Kind::Json,
        Some(SqlType::Jsonb) => Kind::Jsonb,
        Some(SqlType::Numeric) => Kind::Numeric,
        Some(SqlType::Char) => Kind::Char,
        _ => Kind::Other,
    }
}

/// Whether values are calculated with as NUMERIC.
pub fn is_numeric(field: &Field) -> bool {
    *field.data_type() == NUMERIC
}

/// A field of values of a kind; of others it is NULL's.
pub fn field_of(kind: Kind, name: &str) -> FieldRef {
    Arc::new(match kind.sql_type() {
        Some(sql_type) => sql_type.to_field(name, true),
        None => Field::new(name, DataType::Null, true),
    })
}

/// What a literal of a kind says of itself.
pub fn metadata_of(kind: Kind) -> Option<FieldMetadata> {
    kind.sql_type().map(|sql_type| FieldMetadata::from(&sql_type.to_field("", true)))
}

/// The field of a value that one of several becomes: of the kind that all have, where they have one type.
pub fn common_field(name: &str, data_type: DataType, of: &[FieldRef]) -> FieldRef {
    let mut kinds = of.iter().filter(|field| !field.data_type().is_null()).map(|field| kind_of(field));
    let first = kinds.next().filter(|first| kinds.all(|kind| kind == *first));
    match first.and_then(Kind::sql_type) {
        Some(sql_type) if sql_type.to_arrow() == data_type => Arc::new(sql_type.to_field(name, true)),
        _ => Arc::new(Field::new(name, data_type, true)),
    }
}

/// A number without the zeros behind its point, as NUMERIC is shown.
pub fn plain_number(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_behind_the_point_are_not_shown() {
        for (digits, shown) in [("1.5000", "1.5"), ("10.00", "10"), ("100", "100"), ("-0.0100", "-0.01"), ("0.00", "0")]
        {
            assert_eq!(plain_number(digits), shown);
        }
    }

    #[test]
    fn kinds_are_told_by_their_fields() {
        for kind in KINDS {
            assert_eq!(kind_of(&field_of(kind, "a")), kind);
        }
        let text = Field::new("a", DataType::Utf8View, true);
        assert_eq!(kind_of(&text), Kind::Other);
        let several = [field_of(Kind::Json, "a"), field_of(Kind::Other, "b"), field_of(Kind::Json, "c")];
        assert_eq!(kind_of(&common_field("x", DataType::Utf8View, &several)), Kind::Json);
        let several = [field_of(Kind::Json, "a"), Arc::new(text)];
        assert_eq!(kind_of(&common_field("x", DataType::Utf8View, &several)), Kind::Other);
    }
}
