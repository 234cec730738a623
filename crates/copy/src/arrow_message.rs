//! Messages of Arrow IPC, checked before Arrow's own reader sees them.
//!
//! That reader takes a schema for one that Arrow's types can say, and a batch for one that goes with its schema; it panics where they are
//! not. It allocates what a header says, and what a packed buffer says it unpacks to; a process that cannot allocate ends. What the arrays
//! themselves say (offsets, UTF-8, keys of dictionaries, ends of runs) it checks itself.
//!
//! Invariants:
//! - No length is believed before as many bytes have come: buffers lie within the body and together are no longer than it, and what they
//!   unpack to is no more than their packing can make of them.
//! - A batch has the nodes and the buffers that its schema asks for, and no others.

use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::{DataType, Schema};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{
    Buffer as IpcBuffer, CompressionType, DateUnit, Endianness, Field, FieldNode, Int, IntervalUnit, Message,
    Precision, RecordBatch, Schema as IpcSchema, TimeUnit, Type, root_as_message,
};
use std::io::Read;

/// What all packed buffers of a message may unpack to.
const UNPACKED_BYTES_MAX: i64 = 1 << 30;
/// Rows that a message may have beyond the bits in its body.
const ROWS_OF_NOTHING_MAX: i64 = 1 << 20;
/// The most that Zstandard makes of a byte: a block of 128 KB of one byte takes four.
const ZSTD_RATIO_MAX: i64 = 32 << 10;

pub(crate) fn no_stream(what: impl Into<String>) -> Error {
    let message = format!("this is no Arrow stream: {}", what.into());
    Error::new(ErrorKind::InvalidValue, message).with_hint("is it complete, and is the format right?")
}

pub(crate) fn longer(what: &str) -> Error {
    let message = format!("{what} of an Arrow message is longer than is taken");
    Error::new(ErrorKind::TooLarge, message).with_hint("write batches of fewer rows")
}

/// Checks the messages of one stream in their order, whatever carries them.
#[derive(Debug, Default)]
pub struct MessageChecks {
    /// The last one that came.
    schema: Option<Schema>,
}

impl MessageChecks {
    /// Checks the next message against its body.
    pub fn check(&mut self, message: &Message<'_>, body: &[u8]) -> Result<()> {
        if let Some(schema) = message.header_as_schema() {
            self.schema = Some(checked_schema(&schema)?);
            return Ok(());
        }
        let dictionary = message.header_as_dictionary_batch();
        let rows = match (message.header_as_record_batch(), &dictionary) {
            (Some(rows), _) => rows,
            (None, Some(dictionary)) => dictionary.data().ok_or_else(|| no_stream("a dictionary has no values"))?,
            (None, None) => return Ok(()),
        };
        let mut batch = Batch::new(&rows, body)?;
        // Without a schema before it no reader takes it.
        let Some(schema) = &self.schema else { return Ok(()) };
        match dictionary {
            None => schema.fields().iter().try_for_each(|field| batch.column(field.data_type()))?,
            Some(dictionary) => match values_of(schema, dictionary.id()) {
                Some(values) => batch.column(values)?,
                None => return Err(no_stream("a dictionary is of no column")),
            },
        }
        batch.end()
    }
}

/// The type of the values of the dictionary of this number, found as Arrow's reader finds it.
fn values_of(schema: &Schema, id: i64) -> Option<&DataType> {
    #[allow(deprecated)] // there is no other way from the number
    let fields = schema.fields_with_dict_id(id);
    match fields.first()?.data_type() {
        DataType::Dictionary(_, values) => Some(values),
        _ => None,
    }
}

/// One batch on its way through the columns of its schema.
struct Batch<'a> {
    nodes: std::vec::IntoIter<&'a FieldNode>,
    /// The bytes of each buffer once it is unpacked.
    buffers: std::vec::IntoIter<i64>,
    variadic: std::vec::IntoIter<i64>,
    /// The most rows that the bytes can be.
    rows_max: i64,
}

impl<'a> Batch<'a> {
    fn new(rows: &RecordBatch<'a>, body: &[u8]) -> Result<Batch<'a>> {
        let codec = rows.compression().map(|packing| packing.codec());
        let (mut all, mut taken, mut unpacked) = (Vec::new(), 0_u64, 0_i64);
        for buffer in rows.buffers().into_iter().flatten() {
            let bytes = slice(body, buffer).ok_or_else(|| no_stream("a buffer lies outside of its message"))?;
            taken += bytes.len() as u64;
            let length = match codec {
                Some(codec) if !bytes.is_empty() => unpacked_bytes(codec, bytes)?,
                _ => bytes.len() as i64,
            };
            unpacked = unpacked.saturating_add(length);
            all.push((length, bytes));
        }
        // One that is copied many times over would be as many.
        if taken > body.len() as u64 {
            return Err(no_stream("its buffers lie one in another"));
        }
        if unpacked > UNPACKED_BYTES_MAX {
            return Err(longer("what a body unpacks to"));
        }
        if codec == Some(CompressionType::LZ4_FRAME) {
            all.iter().try_for_each(|(length, bytes)| check_lz4(*length, bytes))?;
        }
        if !(0..=i64::from(i32::MAX)).contains(&rows.length()) {
            return Err(no_stream(format!("a batch says that it has {} rows", rows.length())));
        }
        // A value takes a bit at least; columns of type Null take none, and would be any number of rows.
        let bits = (body.len() as i64).saturating_add(unpacked).saturating_mul(8);
        let rows_max = bits.saturating_add(ROWS_OF_NOTHING_MAX).min(i64::from(i32::MAX));
        if rows.length() > rows_max {
            return Err(longer("the number of rows"));
        }
        let nodes: Vec<&FieldNode> = rows.nodes().into_iter().flatten().collect();
        let variadic: Vec<i64> = rows.variadicBufferCounts().into_iter().flatten().collect();
        let buffers: Vec<i64> = all.into_iter().map(|(length, _)| length).collect();
        Ok(Batch { nodes: nodes.into_iter(), buffers: buffers.into_iter(), variadic: variadic.into_iter(), rows_max })
    }

    fn buffer(&mut self) -> Result<i64> {
        self.buffers.next().ok_or_else(|| no_stream("a batch has fewer buffers than its schema asks for"))
    }

    /// A buffer of values of so many bytes.
    fn buffer_of(&mut self, width: i64) -> Result<()> {
        match self.buffer()? % width {
            0 => Ok(()),
            _ => Err(no_stream("a buffer ends within a value")),
        }
    }

    /// A node, and what comes first of its buffers: which values are there.
    fn node(&mut self, has_nulls: bool) -> Result<i64> {
        let node = self.nodes.next().ok_or_else(|| no_stream("a batch has fewer columns than its schema"))?;
        let (length, nulls) = (node.length(), node.null_count());
        if !(0..=self.rows_max).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(no_stream(format!("a column says that {nulls} of {length} values are NULL")));
        }
        if has_nulls && self.buffer()? < (length + 7) / 8 && nulls > 0 {
            return Err(no_stream("a column does not say which values are NULL"));
        }
        Ok(length)
    }

    /// A column and what is below it, in the order in which they lie in a message.
    fn column(&mut self, data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::Null => self.node(false).map(drop),
            DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
                self.node(true)?;
                self.buffer_of(offset_bytes(data_type))?;
                self.buffer().map(drop)
            }
            DataType::Utf8View | DataType::BinaryView => {
                self.node(true)?;
                self.buffer_of(16)?;
                let count = self.variadic.next().unwrap_or(-1);
                let left = self.buffers.len() as i64;
                if !(0..=left).contains(&count) {
                    return Err(no_stream("the number of a column's buffers makes no sense"));
                }
                (0..count).try_for_each(|_| self.buffer().map(drop))
            }
            DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
                self.node(true)?;
                self.buffer_of(offset_bytes(data_type))?;
                self.column(field.data_type())
            }
            DataType::ListView(field) | DataType::LargeListView(field) => {
                self.node(true)?;
                self.buffer_of(offset_bytes(data_type))?;
                self.buffer_of(offset_bytes(data_type))?;
                self.column(field.data_type())
            }
            DataType::FixedSizeList(field, _) => {
                self.node(true)?;
                self.column(field.data_type())
            }
            DataType::Struct(fields) => {
                self.node(true)?;
                fields.iter().try_for_each(|field| self.column(field.data_type()))
            }
            DataType::RunEndEncoded(ends, values) => {
                self.node(false)?;
                self.column(ends.data_type())?;
                self.column(values.data_type())
            }
            DataType::Dictionary(keys, _) => {
                self.node(true)?;
                self.buffer_of(width(keys))
            }
            // Refused with the schema.
            DataType::Union(..) => Err(union()),
            other => {
                self.node(true)?;
                self.buffer_of(width(other))
            }
        }
    }

    fn end(mut self) -> Result<()> {
        match (self.nodes.next(), self.buffers.next(), self.variadic.next()) {
            (None, None, None) => Ok(()),
            _ => Err(no_stream("a batch has more columns or buffers than its schema")),
        }
    }
}

/// Bytes of a value; 1 of those that have no such number.
fn width(data_type: &DataType) -> i64 {
    data_type.primitive_width().map_or(1, |bytes| bytes as i64)
}

/// Bytes of an offset.
fn offset_bytes(data_type: &DataType) -> i64 {
    match data_type {
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) | DataType::LargeListView(_) => 8,
        _ => 4,
    }
}

fn slice<'a>(body: &'a [u8], buffer: &IpcBuffer) -> Option<&'a [u8]> {
    let from = usize::try_from(buffer.offset()).ok()?;
    body.get(from..from.checked_add(usize::try_from(buffer.length()).ok()?)?)
}

/// What a packed buffer comes to: its first eight bytes say it, -1 that the rest is not packed.
fn unpacked_bytes(codec: CompressionType, bytes: &[u8]) -> Result<i64> {
    let (stated, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| no_stream("a packed buffer has no length"))?;
    let packed = rest.len() as i64;
    let most = match codec {
        CompressionType::ZSTD => packed.saturating_mul(ZSTD_RATIO_MAX),
        // As is read below.
        CompressionType::LZ4_FRAME => packed.saturating_mul(255),
        _ => return Err(no_stream("a batch is packed in a way that is not known")),
    };
    match i64::from_le_bytes(*stated) {
        -1 => Ok(packed),
        stated if (0..=most).contains(&stated) => Ok(stated),
        _ => Err(no_stream("a packed buffer says that it unpacks to more than it can")),
    }
}

/// Arrow's reader unpacks all that comes, whatever the length that is stated.
fn check_lz4(stated: i64, bytes: &[u8]) -> Result<()> {
    let Some((prefix, packed)) = bytes.split_first_chunk::<8>() else { return Ok(()) };
    if stated == 0 || i64::from_le_bytes(*prefix) == -1 {
        return Ok(());
    }
    let mut unpacked = lz4_flex::frame::FrameDecoder::new(packed).take(stated as u64 + 1);
    match std::io::copy(&mut unpacked, &mut std::io::sink()) {
        Ok(bytes) if bytes == stated as u64 => Ok(()),
        _ => Err(no_stream("a packed buffer does not unpack to what it says")),
    }
}

fn union() -> Error {
    Error::new(ErrorKind::NotSupported, "a column of an Arrow stream is a union, which no column takes")
        .with_hint("write each of its types as a column of its own")
}

/// Checks the schema that a file of another format has within: a message, perhaps behind a mark and its length. What is none at all the reader
/// refuses itself.
pub(crate) fn check_schema_within(bytes: &[u8]) -> Result<()> {
    let message = match bytes.split_first_chunk::<8>() {
        Some((start, rest)) if start[..4] == [0xff; 4] && !rest.is_empty() => rest,
        _ => bytes,
    };
    let message = root_as_message(message).ok();
    let schema = message.as_ref().and_then(|message| message.header_as_schema());
    schema.map_or(Ok(()), |schema| checked_schema(&schema).map(drop))
}

/// The schema, if Arrow's types can say it.
fn checked_schema(schema: &IpcSchema<'_>) -> Result<Schema> {
    if schema.endianness() != Endianness::Little {
        return Err(no_stream("its numbers are of another byte order (big-endian)"));
    }
    let fields = schema.fields().ok_or_else(|| no_stream("its schema has no list of columns"))?;
    fields.iter().try_for_each(check_field)?;
    Ok(fb_to_schema(*schema))
}

fn check_field(field: Field<'_>) -> Result<()> {
    if let Some(dictionary) = field.dictionary() {
        known(field, dictionary.indexType().is_some_and(is_int))?;
    }
    let children = field.children().map_or(0, |children| children.len());
    let is_known = match field.type_type() {
        Type::Union => return Err(union()),
        Type::Null | Type::Bool | Type::Binary | Type::BinaryView | Type::LargeBinary => true,
        Type::Utf8 | Type::Utf8View | Type::LargeUtf8 | Type::Struct_ => true,
        Type::Int => field.type_as_int().is_some_and(is_int),
        Type::FixedSizeBinary => field.type_as_fixed_size_binary().is_some_and(|bytes| bytes.byteWidth() >= 0),
        Type::FloatingPoint => field
            .type_as_floating_point()
            .is_some_and(|float| [Precision::HALF, Precision::SINGLE, Precision::DOUBLE].contains(&float.precision())),
        Type::Date => {
            field.type_as_date().is_some_and(|date| [DateUnit::DAY, DateUnit::MILLISECOND].contains(&date.unit()))
        }
        Type::Time => field.type_as_time().is_some_and(|time| match time.unit() {
            TimeUnit::SECOND | TimeUnit::MILLISECOND => time.bitWidth() == 32,
            TimeUnit::MICROSECOND | TimeUnit::NANOSECOND => time.bitWidth() == 64,
            _ => false,
        }),
        Type::Timestamp => field.type_as_timestamp().is_some_and(|moment| is_unit(moment.unit())),
        Type::Duration => field.type_as_duration().is_some_and(|duration| is_unit(duration.unit())),
        Type::Interval => field.type_as_interval().is_some_and(|interval| {
            [IntervalUnit::YEAR_MONTH, IntervalUnit::DAY_TIME, IntervalUnit::MONTH_DAY_NANO].contains(&interval.unit())
        }),
        Type::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            let digits = match decimal.bitWidth() {
                32 => 9,
                64 => 18,
                128 => 38,
                256 => 76,
                _ => 0,
            };
            (1..=digits).contains(&decimal.precision()) && (-digits..=digits).contains(&decimal.scale())
        }),
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => children == 1,
        Type::FixedSizeList => {
            children == 1 && field.type_as_fixed_size_list().is_some_and(|list| list.listSize() >= 0)
        }
        Type::RunEndEncoded => children == 2,
        Type::Map => field.type_as_map().is_some() && children == 1,
        _ => false,
    };
    known(field, is_known)?;
    field.children().into_iter().flatten().try_for_each(check_field)
}

fn known(field: Field<'_>, is_known: bool) -> Result<()> {
    let name = field.name().unwrap_or_default();
    if is_known { Ok(()) } else { Err(no_stream(format!("the type of column {name} makes no sense"))) }
}

fn is_int(int: Int<'_>) -> bool {
    [8, 16, 32, 64].contains(&int.bitWidth())
}

fn is_unit(unit: TimeUnit) -> bool {
    [TimeUnit::SECOND, TimeUnit::MILLISECOND, TimeUnit::MICROSECOND, TimeUnit::NANOSECOND].contains(&unit)
}
