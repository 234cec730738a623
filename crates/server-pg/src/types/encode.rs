//! Rows of record batches as DataRow messages.
//!
//! Columns are brought to their wire types a batch at a time; then rows are written one after the other, each value straight into
//! the buffer that goes to the socket.
//!
//! Invariant: the buffer holds whole messages. A row that cannot be written leaves none, so that the error behind it is read as one.

use crate::types::array_shape::{range, shape};
use crate::types::datetime::{
    EPOCH_DAYS, EPOCH_MICROS, put_date, put_difference, put_double, put_interval, put_real, put_time, put_timestamp,
};
use crate::types::{DIMENSIONS_MAX, dimensions, numeric, oid, oid_of_field, sent_type};
use crate::wire::CHANGED_COLUMNS;
use alluvia_space::DataType as StoredType;
use alluvia_space::data_type::{NUMERIC_SCALE, chars_of};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::display;
use alluvia_values::list_text::quoted_element;
use alluvia_values::numeric::{shown_scale, write_numeric};
use alluvia_values::time_zone::Zone;
use alluvia_values::uuid::write_uuid;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    ListArray, RecordBatch, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{BufMut, BytesMut};
use std::sync::Arc;

/// A batch, ready to be written row by row.
pub(crate) struct Rows {
    columns: Vec<(ArrayRef, bool, FieldRef)>,
    len: usize,
    /// In which moments are written as text.
    zone: Zone,
}

impl Rows {
    /// Brings a batch to the types that were announced: those of `described`. `formats` has 1 for binary, for each column.
    pub(crate) fn new(batch: &RecordBatch, described: &SchemaRef, formats: &[i16]) -> Result<Rows> {
        if batch.num_columns() != described.fields().len() {
            return Err(changed());
        }
        let columns = batch.columns().iter().zip(described.fields()).zip(formats).map(|((array, field), format)| {
            let wire = sent_type(field);
            let array = if *array.data_type() == wire { array.clone() } else { to_wire(array, &wire)? };
            Ok((array, *format == 1, Arc::clone(field)))
        });
        Ok(Rows { columns: columns.collect::<Result<_>>()?, len: batch.num_rows(), zone: Zone::utc() })
    }

    /// The same for a client in a time zone.
    pub(crate) fn in_zone(self, zone: Zone) -> Rows {
        Rows { zone, ..self }
    }

    /// Rows in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends rows `from..to` as DataRow messages. Where one cannot be written, the whole ones before it are: what is half a message
    /// would swallow the error that comes after it.
    pub(crate) fn write(&self, from: usize, to: usize, out: &mut BytesMut) -> Result<()> {
        let columns: Vec<Column<'_>> = self
            .columns
            .iter()
            .map(|(array, binary, field)| Column::new(array, *binary, field, &self.zone))
            .collect::<Result<_>>()?;
        for row in from..to {
            let begin = out.len();
            out.put_u8(b'D');
            out.put_u32(0);
            out.put_u16(columns.len() as u16);
            let written = columns.iter().try_for_each(|column| column.put(row, out));
            if let Err(error) = written {
                out.truncate(begin);
                return Err(error);
            }
            let length = (out.len() - begin - 1) as u32;
            out[begin + 1..begin + 5].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    /// The columns, ready to be written.
    pub(super) fn columns(&self, binary: bool) -> Result<Vec<Column<'_>>> {
        self.columns.iter().map(|(array, _, field)| Column::new(array, binary, field, &self.zone)).collect()
    }
}

/// The error of a statement whose columns are not those that its client was told.
pub(crate) fn changed() -> Error {
    Error::new(ErrorKind::NotSupported, CHANGED_COLUMNS)
        .with_hint("the statement's columns have changed since it was prepared: prepare it again")
}

fn to_wire(array: &ArrayRef, wire: &DataType) -> Result<ArrayRef> {
    // Only what has no form of its own is left, and is written as it prints.
    if matches!(wire, DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) | DataType::Null) {
        return Ok(array.clone());
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, wire, &strict).map_err(|error| {
        Error::new(ErrorKind::InvalidValue, format!("a value cannot be sent as its column's type: {error}"))
    })
}

enum Values<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    /// Numbers of the catalog.
    Oid(&'a UInt32Array),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Text(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
    Date(&'a Date32Array),
    Time(&'a Time64MicrosecondArray),
    /// With the client's time zone, if the type has one.
    Timestamp(&'a TimestampMicrosecondArray, Option<&'a Zone>),
    Interval(&'a IntervalMonthDayNanoArray),
    Duration(&'a DurationMicrosecondArray),
    Decimal(&'a Decimal128Array, u8),
    /// Those that are written without the zeros at their end.
    Numeric(&'a Decimal128Array),
    Uuid(&'a FixedSizeBinaryArray),
    Jsonb(&'a StringViewArray),
    /// Texts that are filled up with blanks to so many characters.
    Padded(&'a StringViewArray, usize),
    /// Decimals of more digits than that, as they print.
    WideDecimal(ArrayFormatter<'a>),
    /// Its values, and the type of the elements: of lists of lists, of the innermost.
    List(&'a ListArray, Box<Column<'a>>, u32),
    /// A list of the catalog's that is written without brackets, and counts from 0.
    Vector(&'a ListArray, Box<Column<'a>>, u32),
    Shown(ArrayFormatter<'a>),
}

/// A column, ready to be written.
pub(super) struct Column<'a> {
    array: &'a dyn Array,
    values: Values<'a>,
    binary: bool,
}

impl<'a> Column<'a> {
    /// Of values that are written from what a field has.
    fn new(array: &'a dyn Array, binary: bool, field: &Field, zone: &'a Zone) -> Result<Column<'a>> {
        let stored = StoredType::from_field(field);
        let binary = binary && dimensions(array.data_type()) <= DIMENSIONS_MAX;
        let shown = || {
            // Else the reason why a value has no form would be written in its place, within what it is part of.
            let options = FormatOptions::new().with_display_error(false);
            ArrayFormatter::try_new(array, &options).map_err(|error| {
                Error::new(
                    ErrorKind::NotSupported,
                    format!("values of type {} cannot be sent: {error}", array.data_type()),
                )
            })
        };
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Int16 => Values::Int16(array.as_primitive()),
            DataType::Int32 => Values::Int32(array.as_primitive()),
            DataType::Int64 => Values::Int64(array.as_primitive()),
            DataType::UInt32 => Values::Oid(array.as_primitive()),
            DataType::Float32 => Values::Float32(array.as_primitive()),
            DataType::Float64 => Values::Float64(array.as_primitive()),
            DataType::Utf8View => match (stored, chars_of(field)) {
                (Some(StoredType::Jsonb), _) => Values::Jsonb(array.as_string_view()),
                (Some(StoredType::Char), Some(chars)) => Values::Padded(array.as_string_view(), chars as usize),
                _ => Values::Text(array.as_string_view()),
            },
            DataType::FixedSizeBinary(_) => Values::Uuid(array.as_fixed_size_binary()),
            DataType::BinaryView => Values::Bytes(array.as_binary_view()),
            DataType::Date32 => Values::Date(array.as_primitive()),
            DataType::Time64(_) => Values::Time(array.as_primitive()),
            DataType::Timestamp(_, None) => Values::Timestamp(array.as_primitive(), None),
            DataType::Timestamp(_, Some(_)) => Values::Timestamp(array.as_primitive(), Some(zone)),
            DataType::Interval(_) => Values::Interval(array.as_primitive()),
            DataType::Duration(_) => Values::Duration(array.as_primitive()),
            DataType::Decimal128(..) if stored == Some(StoredType::Numeric) => Values::Numeric(array.as_primitive()),
            DataType::Decimal128(_, scale) => {
                Values::Decimal(array.as_primitive::<Decimal128Type>(), u8::try_from(*scale).unwrap_or(0))
            }
            DataType::List(element) => {
                let list = array.as_list::<i32>();
                let inner = Column::new(list.values().as_ref(), binary, element, zone)?;
                let element_oid = match &inner.values {
                    Values::List(_, _, innermost) => *innermost,
                    _ => oid_of_field(element),
                };
                match oid_of_field(field) {
                    oid::INT2VECTOR | oid::OIDVECTOR => Values::Vector(list, Box::new(inner), element_oid),
                    _ => Values::List(list, Box::new(inner), element_oid),
                }
            }
            DataType::Decimal256(..) => Values::WideDecimal(shown()?),
            _ => Values::Shown(shown()?),
        };
        Ok(Column { array, values, binary })
    }

    /// Whether it is NULL at `row`.
    pub(super) fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.array.is_null(row)
    }

    /// Appends the length and the value.
    #[inline]
    pub(super) fn put(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        let start = out.len();
        out.put_u32(0);
        if self.binary {
            self.put_binary(row, out)?
        } else {
            self.put_text(row, out)?
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Appends the value as text.
    pub(super) fn put_text(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let mut digits = itoa::Buffer::new();
        match &self.values {
            Values::Null => {}
            Values::Boolean(values) => out.put_u8(if values.value(row) { b't' } else { b'f' }),
            Values::Int16(values) => out.put_slice(digits.format(values.value(row)).as_bytes()),
            Values::Int32(values) => out.put_slice(digits.format(values.value(row)).as_bytes()),
            Values::Int64(values) => out.put_slice(digits.format(values.value(row)).as_bytes()),
            Values::Oid(values) => out.put_slice(digits.format(values.value(row)).as_bytes()),
            Values::Float32(values) => put_real(out, values.value(row)),
            Values::Float64(values) => put_double(out, values.value(row)),
            Values::Text(values) => out.put_slice(values.value(row).as_bytes()),
            Values::Bytes(values) => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                out.put_slice(b"\\x");
                for byte in values.value(row) {
                    out.put_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
                }
            }
            Values::Date(values) => put_date(out, i64::from(values.value(row))),
            Values::Time(values) => put_time(out, values.value(row)),
            Values::Timestamp(values, zone) => put_timestamp(out, values.value(row), *zone),
            Values::Interval(values) => {
                let value = values.value(row);
                put_interval(out, value.months, value.days, value.nanoseconds / 1_000);
            }
            Values::Duration(values) => put_difference(out, values.value(row)),
            Values::Decimal(values, scale) => numeric::put_text(out, values.value(row), *scale),
            Values::Numeric(values) => {
                // A buffer takes every text.
                let _ = write_numeric(out, values.value(row));
            }
            Values::Uuid(values) => {
                let _ = write_uuid(out, values.value(row));
            }
            Values::Jsonb(values) => out.put_slice(values.value(row).as_bytes()),
            Values::Padded(values, chars) => {
                let text = values.value(row);
                out.put_slice(text.as_bytes());
                out.put_bytes(b' ', chars.saturating_sub(text.chars().count()));
            }
            Values::List(list, inner, _) => {
                let elements = range(list, row);
                out.put_u8(b'{');
                for at in elements.clone() {
                    if at > elements.start {
                        out.put_u8(b',');
                    }
                    inner.put_element(at, out)?;
                }
                out.put_u8(b'}');
            }
            Values::Vector(list, inner, _) => {
                let elements = range(list, row);
                for at in elements.clone() {
                    if at > elements.start {
                        out.put_u8(b' ');
                    }
                    inner.put_text(at, out)?;
                }
            }
            Values::WideDecimal(formatter) | Values::Shown(formatter) => {
                out.put_slice(printed(formatter, row)?.as_bytes());
            }
        }
        Ok(())
    }

    /// An element of an array, quoted where it must be.
    fn put_element(&self, at: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_null(at) {
            out.put_slice(b"NULL");
            return Ok(());
        }
        let mut text = BytesMut::new();
        self.put_text(at, &mut text)?;
        if matches!(self.values, Values::List(..)) {
            out.put_slice(&text);
        } else {
            out.put_slice(quoted_element(&String::from_utf8_lossy(&text)).as_bytes());
        }
        Ok(())
    }

    fn put_binary(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        match &self.values {
            Values::Boolean(values) => out.put_u8(u8::from(values.value(row))),
            Values::Int16(values) => out.put_i16(values.value(row)),
            Values::Int32(values) => out.put_i32(values.value(row)),
            Values::Int64(values) => out.put_i64(values.value(row)),
            Values::Oid(values) => out.put_u32(values.value(row)),
            Values::Float32(values) => out.put_f32(values.value(row)),
            Values::Float64(values) => out.put_f64(values.value(row)),
            Values::Bytes(values) => out.put_slice(values.value(row)),
            Values::Date(values) => out.put_i32(values.value(row).saturating_sub(EPOCH_DAYS)),
            Values::Time(values) => out.put_i64(values.value(row)),
            Values::Timestamp(values, _) => out.put_i64(values.value(row).saturating_sub(EPOCH_MICROS)),
            Values::Interval(values) => {
                let value = values.value(row);
                out.put_i64(value.nanoseconds / 1_000);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Values::Duration(values) => {
                let (days, rest) = display::difference(values.value(row));
                out.put_i64(rest);
                out.put_i32(days);
                out.put_i32(0);
            }
            Values::Decimal(values, scale) => numeric::put_binary(out, values.value(row), *scale),
            Values::Numeric(values) => {
                let (value, scale) = (values.value(row), shown_scale(values.value(row)));
                numeric::put_binary(out, value / 10_i128.pow(u32::from(NUMERIC_SCALE - scale)), scale);
            }
            Values::Uuid(values) => out.put_slice(values.value(row)),
            Values::Jsonb(values) => {
                // The version of its format.
                out.put_u8(1);
                out.put_slice(values.value(row).as_bytes());
            }
            Values::List(list, inner, element) => {
                let Some((lengths, mut elements)) = shape(list, row) else { return Err(shapeless()) };
                if elements.is_empty() {
                    // No dimensions: that is what an empty array is.
                    out.put_u32(0);
                    out.put_u32(0);
                    out.put_u32(*element);
                    return Ok(());
                }
                let mut innermost: &Column<'_> = inner;
                while let Values::List(_, inner, _) = &innermost.values {
                    innermost = inner;
                }
                let has_nulls = elements.clone().any(|at| innermost.is_null(at));
                out.put_u32(lengths.len() as u32);
                out.put_u32(u32::from(has_nulls));
                out.put_u32(*element);
                for length in lengths {
                    out.put_u32(length as u32);
                    // Places count from 1.
                    out.put_u32(1);
                }
                elements.try_for_each(|at| innermost.put(at, out))?;
            }
            Values::Vector(list, inner, element) => {
                let mut elements = range(list, row);
                // One dimension without NULLs, whose places count from 0.
                for part in [1, 0, *element, elements.len() as u32, 0] {
                    out.put_u32(part);
                }
                elements.try_for_each(|at| inner.put(at, out))?;
            }
            Values::WideDecimal(formatter) => numeric::put_binary_of_text(out, &printed(formatter, row)?),
            // Text is the same in both formats, and so is what is only text.
            Values::Null | Values::Text(_) | Values::Padded(..) | Values::Shown(_) => self.put_text(row, out)?,
        }
        Ok(())
    }
}

/// A value as it prints.
fn printed(formatter: &ArrayFormatter<'_>, row: usize) -> Result<String> {
    // Arrow's reason is "Format error", whatever it is.
    formatter.value(row).try_to_string().map_err(|_| {
        let message = "a value cannot be written as text: something in it is out of its type's range";
        Error::new(ErrorKind::InvalidValue, message).with_hint("select its parts one by one")
    })
}

/// The error of a list of lists that is no array of PostgreSQL's.
fn shapeless() -> Error {
    Error::new(
        ErrorKind::NotSupported,
        "a list of lists that differ in length, or of which some are NULL, has no binary form",
    )
    .with_hint("ask for the result as text, or UNNEST it")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use alluvia_space::Column as StoredColumn;
    use alluvia_types::ColumnId;
    use arrow::array::Time64MicrosecondArray;
    use arrow::array::{Decimal256Array, StringArray, UInt64Array};
    use arrow::datatypes::{Int16Type, Int64Type, IntervalMonthDayNano, Schema, i256};

    /// The values of a column as they are sent; `None` for NULL.
    pub(in crate::types) fn rows(array: ArrayRef, binary: bool) -> Result<Vec<Option<Vec<u8>>>> {
        let schema = Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap();
        let rows = Rows::new(&batch, &schema, &[i16::from(binary)])?;
        let mut out = BytesMut::new();
        rows.write(0, rows.len(), &mut out)?;
        let mut values = Vec::new();
        let mut at = 0;
        while at < out.len() {
            let length = u32::from_be_bytes(out[at + 1..at + 5].try_into().unwrap()) as usize;
            let value = i32::from_be_bytes(out[at + 7..at + 11].try_into().unwrap());
            values.push((value >= 0).then(|| out[at + 11..at + 1 + length].to_vec()));
            at += 1 + length;
        }
        Ok(values)
    }

    #[test]
    fn lists_quote_what_must_be_quoted() {
        let texts = StringArray::from(vec![Some("a"), Some("b c"), None, Some("x\"y\\"), Some("NULL"), Some("")]);
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([6, 0]);
        let field = Arc::new(Field::new("item", DataType::Utf8, true));
        let list: ArrayRef = Arc::new(ListArray::new(field, offsets, Arc::new(texts), None));
        let text = rows(list.clone(), false).unwrap();
        assert_eq!(text[0].as_deref().unwrap(), br#"{a,"b c",NULL,"x\"y\\","NULL",""}"#);
        assert_eq!(text[1].as_deref().unwrap(), b"{}");
        let numbers = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])]);
        let binary = rows(Arc::new(numbers), true).unwrap().remove(0).unwrap();
        assert_eq!(&binary[..20], &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(&binary[32..], &[255; 4]);
    }

    #[test]
    fn decimals_of_any_width_are_numeric() {
        let digits = "1234567890123456789012345678901234567890123456";
        let values = [Some(i256::from_string(digits).unwrap()), Some(i256::from_i128(-5)), None];
        let wide = Decimal256Array::from_iter(values).with_precision_and_scale(50, 2).unwrap();
        let wide: ArrayRef = Arc::new(wide);
        assert_eq!(
            crate::types::of_field(&Field::new("a", wide.data_type().clone(), true)).0,
            crate::types::oid::NUMERIC
        );
        let text = rows(wide.clone(), false).unwrap();
        assert_eq!(text[0].as_deref(), Some(&b"12345678901234567890123456789012345678901234.56"[..]));
        let binary = rows(wide, true).unwrap();
        // Twelve groups of four digits, the first of which has weight 10.
        let first: Vec<u16> =
            binary[0].as_deref().unwrap().chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
        assert_eq!(first, [12, 10, 0, 2, 1234, 5678, 9012, 3456, 7890, 1234, 5678, 9012, 3456, 7890, 1234, 5600]);
        let mut narrow = BytesMut::new();
        numeric::put_binary(&mut narrow, -5, 2);
        assert_eq!(binary[1].as_deref(), Some(&narrow[..]));
        assert_eq!(binary[2], None);
    }

    #[test]
    fn vectors_of_the_catalog_have_no_brackets_and_count_from_0() {
        let numbers: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>([Some([Some(3), Some(1)])]));
        let metadata = [("pg_type".to_owned(), "int2vector".to_owned())].into();
        let field = Field::new("indkey", numbers.data_type().clone(), true).with_metadata(metadata);
        assert_eq!(crate::types::of_field(&field).0, crate::types::oid::INT2VECTOR);
        let zone = Zone::utc();
        let (mut text, mut binary) = (BytesMut::new(), BytesMut::new());
        Column::new(&numbers, false, &field, &zone).unwrap().put_text(0, &mut text).unwrap();
        Column::new(&numbers, true, &field, &zone).unwrap().put(0, &mut binary).unwrap();
        assert_eq!(&text[..], b"3 1");
        assert_eq!(&binary[..24], &[0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn numbers_of_the_catalog_have_four_bytes() {
        let field = |data_type| {
            let metadata = [("pg_type".to_owned(), "oid".to_owned())].into();
            Field::new("item", data_type, true).with_metadata(metadata)
        };
        let oids: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![23, 4_000_000_000]));
        let list = ListArray::new(
            Arc::new(field(DataType::Int64)),
            arrow::buffer::OffsetBuffer::from_lengths([2, 0]),
            oids.clone(),
            None,
        );
        let schema =
            Arc::new(Schema::new(vec![field(DataType::Int64), Field::new("list", list.data_type().clone(), true)]));
        assert_eq!(crate::types::of_field(schema.field(1)).0, 1028);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![oids, Arc::new(list)]).unwrap();
        let rows = Rows::new(&batch, &schema, &[1, 1]).unwrap();
        let mut out = BytesMut::new();
        rows.write(0, 1, &mut out).unwrap();
        assert_eq!(&out[7..15], &[0, 0, 0, 4, 0, 0, 0, 23]);
        // Length, one dimension, no NULLs, elements of type 26, two of them from 1 on, and the first of four bytes.
        let expected: [u32; 9] = [36, 1, 0, 26, 2, 1, 4, 23, 4];
        let found: Vec<u32> = out[15..51].chunks(4).map(|four| u32::from_be_bytes(four.try_into().unwrap())).collect();
        assert_eq!(found, expected);
    }

    /// Bytes that PostgreSQL 15 sends for the same values.
    #[test]
    fn types_with_extensions_are_themselves_on_the_wire() {
        let sent = |data_type: StoredType, array: ArrayRef| {
            let chars_max = (data_type == StoredType::Char).then_some(4);
            let column = StoredColumn {
                id: ColumnId(0),
                name: "a".into(),
                storage_name: "a".into(),
                data_type,
                nullable: true,
                chars_max,
            };
            let schema = Arc::new(Schema::new(vec![column.to_field()]));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap();
            let value = |format: i16| {
                let mut out = BytesMut::new();
                Rows::new(&batch, &schema, &[format]).unwrap().write(0, 1, &mut out).unwrap();
                out[11..].to_vec()
            };
            let (type_oid, size, modifier) = crate::types::of_field(schema.field(0));
            ((type_oid, size, modifier), String::from_utf8(value(0)).unwrap(), value(1))
        };
        let text = |text: &str| Arc::new(StringViewArray::from(vec![text])) as ArrayRef;
        let uuid = FixedSizeBinaryArray::try_from_iter([[0xa0; 16]].into_iter()).unwrap();
        let expected = "a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0".to_owned();
        assert_eq!(sent(StoredType::Uuid, Arc::new(uuid)), ((2950, 16, -1), expected, vec![0xa0; 16]));
        assert_eq!(sent(StoredType::Json, text("[1]")), ((114, -1, -1), "[1]".to_owned(), b"[1]".to_vec()));
        assert_eq!(sent(StoredType::Jsonb, text("[1]")), ((3802, -1, -1), "[1]".to_owned(), b"\x01[1]".to_vec()));
        assert_eq!(sent(StoredType::Char, text("é")), ((1042, -1, 8), "é   ".to_owned(), "é   ".into()));
        let time = Arc::new(Time64MicrosecondArray::from(vec![86_400_000_000]));
        let bytes = 86_400_000_000_i64.to_be_bytes().to_vec();
        assert_eq!(sent(StoredType::Time, time), ((1083, 8, -1), "24:00:00".to_owned(), bytes));
        let span = Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, -3, 1_000)]));
        let bytes = [&1_i64.to_be_bytes()[..], &(-3_i32).to_be_bytes(), &14_i32.to_be_bytes()].concat();
        let written = "1 year 2 mons -3 days +00:00:00.000001".to_owned();
        assert_eq!(sent(StoredType::Interval, span), ((1186, 16, -1), written, bytes));
        let number = Decimal128Array::from(vec![15_000_000_000_000_000]).with_precision_and_scale(38, 16).unwrap();
        let bytes = vec![0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0x13, 0x88];
        assert_eq!(sent(StoredType::Numeric, Arc::new(number)), ((1700, -1, -1), "1.5".to_owned(), bytes));
    }

    #[test]
    fn what_has_no_form_is_an_error_and_no_half_row_is_left() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX]));
        let field = Arc::new(Field::new("t", times.data_type().clone(), true));
        let parts: ArrayRef = Arc::new(arrow::array::StructArray::from(vec![(field, times)]));
        let first = rows(parts.slice(0, 1), false).unwrap();
        assert_eq!(first[0].as_deref(), Some(&b"{t: 1970-01-01T00:00:00}"[..]));
        for binary in [false, true] {
            let schema = Arc::new(Schema::new(vec![Field::new("a", parts.data_type().clone(), true)]));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&parts)]).unwrap();
            let written = Rows::new(&batch, &schema, &[i16::from(binary)]).unwrap();
            let (mut out, mut one) = (BytesMut::new(), BytesMut::new());
            assert_eq!(written.write(0, 2, &mut out).unwrap_err().kind(), ErrorKind::InvalidValue);
            written.write(0, 1, &mut one).unwrap();
            assert_eq!(out, one);
        }
    }

    #[test]
    fn numbers_that_no_type_holds_are_errors() {
        assert_eq!(rows(Arc::new(UInt64Array::from(vec![7])), false).unwrap()[0].as_deref(), Some(&b"7"[..]));
        let error = rows(Arc::new(UInt64Array::from(vec![u64::MAX])), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }
}
