//! Arrow's types as PostgreSQL's, and values of them in both of its formats.
//!
//! Invariants:
//! - A column's type on the wire follows from its field alone ([`wire_type`] first brings relatives together, and the field's
//!   extension tells JSON from text), so that a statement is described and answered alike.
//! - What is written here in either format is read back here as the same value, and as PostgreSQL itself would write it.

mod array_shape;
mod copy_rows;
mod datetime;
mod decode;
mod encode;
mod numeric;

pub(crate) use copy_rows::{BinaryAsText, RowForm};
pub(crate) use decode::parameter;
pub(crate) use encode::{Rows, changed};

use alluvia_space::DataType as StoredType;
use alluvia_space::data_type::{UUID_BYTES, chars_of};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

/// Numbers of types in PostgreSQL's catalog.
pub(crate) mod oid {
    pub(crate) const BOOL: u32 = 16;
    pub(crate) const BYTEA: u32 = 17;
    pub(crate) const CHAR: u32 = 18;
    pub(crate) const NAME: u32 = 19;
    pub(crate) const INT8: u32 = 20;
    pub(crate) const INT2: u32 = 21;
    pub(crate) const INT2VECTOR: u32 = 22;
    pub(crate) const INT4: u32 = 23;
    pub(crate) const TEXT: u32 = 25;
    pub(crate) const OID: u32 = 26;
    pub(crate) const OIDVECTOR: u32 = 30;
    pub(crate) const JSON: u32 = 114;
    pub(crate) const FLOAT4: u32 = 700;
    pub(crate) const FLOAT8: u32 = 701;
    pub(crate) const UNKNOWN: u32 = 705;
    pub(crate) const BPCHAR: u32 = 1042;
    pub(crate) const VARCHAR: u32 = 1043;
    pub(crate) const DATE: u32 = 1082;
    pub(crate) const TIME: u32 = 1083;
    pub(crate) const TIMESTAMP: u32 = 1114;
    pub(crate) const TIMESTAMPTZ: u32 = 1184;
    pub(crate) const INTERVAL: u32 = 1186;
    pub(crate) const NUMERIC: u32 = 1700;
    pub(crate) const VOID: u32 = 2278;
    pub(crate) const UUID: u32 = 2950;
    pub(crate) const JSONB: u32 = 3802;
}

/// Types, and those of arrays of them.
const ARRAYS: [(u32, u32); 22] = [
    (oid::BOOL, 1000),
    (oid::BYTEA, 1001),
    (oid::CHAR, 1002),
    (oid::NAME, 1003),
    (oid::INT2, 1005),
    (oid::INT4, 1007),
    (oid::TEXT, 1009),
    (oid::BPCHAR, 1014),
    (oid::VARCHAR, 1015),
    (oid::INT8, 1016),
    (oid::FLOAT4, 1021),
    (oid::FLOAT8, 1022),
    (oid::OID, 1028),
    (oid::TIMESTAMP, 1115),
    (oid::DATE, 1182),
    (oid::TIME, 1183),
    (oid::TIMESTAMPTZ, 1185),
    (oid::INTERVAL, 1187),
    (oid::NUMERIC, 1231),
    (oid::UUID, 2951),
    (oid::JSON, 199),
    (oid::JSONB, 3807),
];

/// The type of arrays of a type; text for what has none. Arrays of arrays are arrays of the same type: it says nothing of how many
/// dimensions a value has.
fn array_of(element: u32) -> u32 {
    if element_of(element).is_some() {
        return element;
    }
    ARRAYS.iter().find(|(known, _)| *known == element).map_or(oid::TEXT, |(_, array)| *array)
}

/// The type of an array's elements.
fn element_of(array: u32) -> Option<u32> {
    ARRAYS.iter().find(|(_, known)| *known == array).map(|(element, _)| *element)
}

/// Dimensions that an array of PostgreSQL's may have.
const DIMENSIONS_MAX: usize = 6;

/// The dimensions of a wire type's values: how deep it is a list of lists.
fn dimensions(wire: &DataType) -> usize {
    match wire {
        DataType::List(element) => 1 + dimensions(element.data_type()),
        _ => 0,
    }
}

/// The metadata key by which a column of the catalog says which of PostgreSQL's types it is: `oid`, `name`, `char`,
/// `int2vector`, `oidvector`.
const CATALOG_TYPE: &str = "pg_type";

/// The Arrow type that values are brought to before they are written.
pub(crate) fn wire_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        // Ranks and counts; what does not fit is an error of its value.
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8View,
        DataType::FixedSizeBinary(UUID_BYTES) => DataType::FixedSizeBinary(UUID_BYTES),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::BinaryView
        }
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) if *scale >= 0 => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal128(_, scale) if *scale < 0 => DataType::Decimal128(38, 0),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Dictionary(_, values) => wire_type(values),
        DataType::RunEndEncoded(_, values) => wire_type(values.data_type()),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => {
            let element = element.as_ref().clone().with_data_type(wire_type(element.data_type()));
            DataType::List(element.into())
        }
        other => other.clone(),
    }
}

/// The Arrow type that a column's values are written from: its wire type, but that numbers of the catalog have four bytes.
pub(crate) fn sent_type(field: &Field) -> DataType {
    match wire_type(field.data_type()) {
        DataType::List(element) => {
            let sent = element.as_ref().clone().with_data_type(sent_type(&element));
            DataType::List(sent.into())
        }
        // Asked for each column of each answer: no field is made for it.
        DataType::Int64 | DataType::Int32 if field.metadata().get(CATALOG_TYPE).is_some_and(|of| of == "oid") => {
            DataType::UInt32
        }
        other => other,
    }
}

/// The type of a wire type's values.
fn oid_of(wire: &DataType) -> u32 {
    match wire {
        DataType::Boolean => oid::BOOL,
        DataType::Int16 => oid::INT2,
        DataType::Int32 => oid::INT4,
        DataType::Int64 => oid::INT8,
        DataType::UInt32 => oid::OID,
        DataType::Float32 => oid::FLOAT4,
        DataType::Float64 => oid::FLOAT8,
        DataType::BinaryView => oid::BYTEA,
        DataType::FixedSizeBinary(_) => oid::UUID,
        DataType::Date32 => oid::DATE,
        DataType::Time64(_) => oid::TIME,
        DataType::Timestamp(_, None) => oid::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => oid::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => oid::INTERVAL,
        DataType::Decimal128(..) | DataType::Decimal256(..) => oid::NUMERIC,
        // What no array of PostgreSQL's can hold is only text.
        DataType::List(_) if dimensions(wire) > DIMENSIONS_MAX => oid::TEXT,
        DataType::List(element) => array_of(oid_of_field(element)),
        _ => oid::TEXT,
    }
}

/// The type of the values of a column, or of a list's elements, which has its wire type.
fn oid_of_field(field: &Field) -> u32 {
    match (field.metadata().get(CATALOG_TYPE).map(String::as_str), field.data_type()) {
        (Some("oid"), DataType::Int64 | DataType::Int32) => oid::OID,
        (Some("name"), DataType::Utf8View) => oid::NAME,
        (Some("char"), DataType::Utf8View) => oid::CHAR,
        (Some("int2vector"), DataType::List(_)) => oid::INT2VECTOR,
        (Some("oidvector"), DataType::List(_)) => oid::OIDVECTOR,
        (_, wire) => match StoredType::from_field(field) {
            Some(StoredType::Json) => oid::JSON,
            Some(StoredType::Jsonb) => oid::JSONB,
            Some(StoredType::Char) => oid::BPCHAR,
            _ => oid_of(wire),
        },
    }
}

/// What a column is on the wire: number of the type, size, modifier.
pub(crate) fn of_field(field: &Field) -> (u32, i16, i32) {
    let wire = wire_type(field.data_type());
    let type_oid = oid_of_field(&field.clone().with_data_type(wire.clone()));
    let size = match type_oid {
        oid::BOOL | oid::CHAR => 1,
        oid::INT2 => 2,
        oid::INT4 | oid::OID | oid::FLOAT4 | oid::DATE => 4,
        oid::INT8 | oid::FLOAT8 | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ => 8,
        oid::INTERVAL | oid::UUID => 16,
        oid::NAME => 64,
        _ => -1,
    };
    let modifier = match wire {
        _ if StoredType::from_field(field) == Some(StoredType::Numeric) => -1,
        DataType::Utf8View if type_oid == oid::BPCHAR => {
            chars_of(field).and_then(|chars| i32::try_from(chars).ok()).map_or(-1, |chars| chars + 4)
        }
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (i32::from(precision) << 16 | i32::from(scale)) + 4
        }
        _ => -1,
    };
    (type_oid, size, modifier)
}

/// The type that a parameter of this field has.
pub(crate) fn of_parameter(field: &Field) -> u32 {
    of_field(field).0
}

/// The Arrow type that a client means by a parameter's type. `None` leaves it to the statement.
pub(crate) fn parameter_type(type_oid: u32) -> Option<DataType> {
    Some(match type_oid {
        oid::BOOL => DataType::Boolean,
        oid::INT2 => DataType::Int16,
        oid::INT4 => DataType::Int32,
        oid::INT8 | oid::OID => DataType::Int64,
        oid::FLOAT4 => DataType::Float32,
        oid::FLOAT8 => DataType::Float64,
        // Its scale comes with each value.
        oid::NUMERIC => DataType::Decimal128(38, 10),
        oid::BYTEA => DataType::BinaryView,
        oid::DATE => DataType::Date32,
        oid::TIME => DataType::Time64(TimeUnit::Microsecond),
        oid::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        oid::UUID => DataType::FixedSizeBinary(UUID_BYTES),
        oid::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        oid::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR | oid::JSON | oid::JSONB => DataType::Utf8View,
        other => DataType::List(Field::new("item", parameter_type(element_of(other)?)?, true).into()),
    })
}
