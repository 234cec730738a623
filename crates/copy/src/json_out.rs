//! Rows into JSON.
//!
//! Invariants:
//! - JSON has no NaN and no infinity: they are written as the texts that a DOUBLE column reads back.
//! - A value that has no form is an error. Arrow's writer would put the reason in its place, as if that were the value, so times are
//!   written here. Nothing of a batch goes out before all of it was written.

use crate::output::{Packed, arrow_error, plain_batch, writing};
use alluvia_space::DataType as StoredType;
use alluvia_space::data_type::UUID_BYTES;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::text::{TextColumn, Utf8Sink, iso_moment};
use alluvia_values::time_zone::Zone;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Float32Type, Float64Type, Schema, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonFormat, NullableEncoder, Writer, WriterBuilder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parking_lot::Mutex;
use std::io::Write;
use std::sync::Arc;

/// Writes batches as JSON, in lines or as one array.
pub(crate) struct JsonRows<W: Write, F: JsonFormat> {
    writer: Writer<Vec<u8>, F>,
    unwritable: Unwritable,
    out: Packed<W>,
}

/// Why a value was not written. An encoder cannot say so itself, since Arrow's do not fail.
type Unwritable = Arc<Mutex<Option<Error>>>;

impl<W: Write, F: JsonFormat> JsonRows<W, F> {
    /// Moments are written as clocks of a zone show them.
    pub fn new(out: Packed<W>, zone: &Zone) -> JsonRows<W, F> {
        let unwritable = Unwritable::default();
        let readable = Readable { unwritable: Arc::clone(&unwritable), zone: zone.clone() };
        let builder = WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(readable));
        JsonRows { writer: builder.build(Vec::new()), unwritable, out }
    }

    /// Writes all rows of `batch`. If it fails none of them are written, and nothing can be after them.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = self.writer.write(&in_utc(batch)?).map_err(arrow_error);
        let unwritable = self.unwritable.lock().take();
        if let Err(error) = written.and(unwritable.map_or(Ok(()), Err)) {
            self.writer.get_mut().clear();
            return Err(error);
        }
        self.pass_on()
    }

    /// Writes what comes after the last row.
    pub fn finish(mut self) -> Result<Packed<W>> {
        self.writer.finish().map_err(arrow_error)?;
        self.pass_on()?;
        Ok(self.out)
    }

    fn pass_on(&mut self) -> Result<()> {
        let bytes = self.writer.get_mut();
        self.out.write_all(bytes).map_err(writing)?;
        bytes.clear();
        Ok(())
    }
}

/// Times with a zone as the same moments in `+00:00`, a zone that Arrow writes in every build.
fn in_utc(batch: &RecordBatch) -> Result<RecordBatch> {
    let utc = |field: &FieldRef| match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Timestamp(*unit, Some("+00:00".into()))))
        }
        _ => field.clone(),
    };
    plain_batch(batch, &Arc::new(Schema::new(batch.schema().fields().iter().map(utc).collect::<Vec<FieldRef>>())))
}

/// JSON forms that the loader reads back: `"NaN"`, `"Infinity"`, `"\\xDEAD"`.
#[derive(Debug)]
struct Readable {
    unwritable: Unwritable,
    zone: Zone,
}

impl EncoderFactory for Readable {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let nulls = array.nulls().cloned();
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                Box::new(EncodeWith(move |at, out: &mut Vec<u8>| write_float(values.value(at), values.value(at), out)))
            }
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>();
                Box::new(EncodeWith(move |at, out: &mut Vec<u8>| {
                    write_float(f64::from(values.value(at)), values.value(at), out);
                }))
            }
            DataType::Binary => {
                let values = array.as_binary::<i32>();
                Box::new(EncodeWith(move |at, out: &mut Vec<u8>| {
                    out.extend_from_slice(b"\"\\\\x");
                    const DIGITS: &[u8; 16] = b"0123456789abcdef";
                    for byte in values.value(at) {
                        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
                    }
                    out.push(b'"');
                }))
            }
            _ if matches!(StoredType::from_field(field), Some(StoredType::Json | StoredType::Jsonb)) => {
                // As it is, in one line: within strings there are no line ends.
                let values = array.as_string_opt::<i32>().ok_or_else(|| no_text(array))?;
                Box::new(EncodeWith(move |at, out: &mut Vec<u8>| {
                    let is_end = |byte: u8| matches!(byte, b'\n' | b'\r');
                    out.extend(values.value(at).bytes().map(|byte| if is_end(byte) { b' ' } else { byte }));
                }))
            }
            DataType::FixedSizeBinary(UUID_BYTES)
            | DataType::Interval(_)
            | DataType::Time32(_)
            | DataType::Time64(_) => Box::new(EncodeWith(self.text(array, field, true)?)),
            DataType::Decimal128(..) if StoredType::from_field(field) == Some(StoredType::Numeric) => {
                Box::new(EncodeWith(self.text(array, field, false)?))
            }
            // Arrow's writer knows no zone's clocks.
            DataType::Timestamp(_, Some(_)) if !self.zone.is_utc() => {
                let moments = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())))?;
                let moments = moments.as_primitive::<TimestampMicrosecondType>().clone();
                let (unwritable, zone) = (Arc::clone(&self.unwritable), self.zone.clone());
                Box::new(EncodeWith(move |at, out: &mut Vec<u8>| {
                    if moments.is_null(at) {
                        unwritable.lock().get_or_insert_with(|| unwritten("it is out of range"));
                        return;
                    }
                    out.push(b'"');
                    out.extend_from_slice(iso_moment(moments.value(at), &zone).as_bytes());
                    out.push(b'"');
                }))
            }
            data_type if data_type.is_temporal() => {
                let formatter = ArrayFormatter::try_new(array, &FormatOptions::new())?;
                let unwritable = Arc::clone(&self.unwritable);
                Box::new(EncodeWith(move |at, out: &mut Vec<u8>| {
                    if let Err(error) = write_time(&formatter, at, out) {
                        unwritable.lock().get_or_insert(error);
                    }
                }))
            }
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, nulls)))
    }
}

impl Readable {
    /// Writes values as PostgreSQL's casts to text do, of which none has anything that JSON escapes.
    fn text<'a>(
        &self,
        array: &'a dyn Array,
        field: &Field,
        is_quoted: bool,
    ) -> Result<impl FnMut(usize, &mut Vec<u8>) + 'a, ArrowError> {
        let column = TextColumn::of_field(array, field).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        let unwritable = Arc::clone(&self.unwritable);
        let quote = if is_quoted { &b"\""[..] } else { &[] };
        Ok(move |at: usize, out: &mut Vec<u8>| {
            out.extend_from_slice(quote);
            if let Err(error) = column.write(at, out) {
                unwritable.lock().get_or_insert(error);
            }
            out.extend_from_slice(quote);
        })
    }
}

fn no_text(array: &dyn Array) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("JSON came as {}", array.data_type()))
}

struct EncodeWith<F>(F);

impl<F: FnMut(usize, &mut Vec<u8>)> Encoder for EncodeWith<F> {
    fn encode(&mut self, at: usize, out: &mut Vec<u8>) {
        self.0(at, out);
    }
}

/// A date, a time, a moment or a span as text in quotes: none of their forms has anything that JSON escapes.
fn write_time(formatter: &ArrayFormatter<'_>, at: usize, out: &mut Vec<u8>) -> Result<()> {
    // What Arrow writes for a span that is too long, and does not call an error.
    const INVALID: &[u8] = b"<invalid>";
    out.push(b'"');
    let start = out.len();
    let written = formatter.value(at).write(&mut Utf8Sink(out));
    let reason = match written {
        Ok(()) if &out[start..] != INVALID => {
            out.push(b'"');
            return Ok(());
        }
        Ok(()) => "it is out of range".to_owned(),
        Err(ArrowError::CastError(reason)) => reason,
        Err(error) => error.to_string(),
    };
    Err(unwritten(&reason))
}

fn unwritten(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, format!("a value cannot be written as JSON: {reason}"))
        .with_hint("leave such values out with WHERE, or write Arrow or Parquet, which hold all")
}

/// The shortest text that reads back as the same number; `shortest` knows the precision.
fn write_float(value: f64, shortest: impl std::fmt::Debug, out: &mut Vec<u8>) {
    let text = match value {
        value if value.is_nan() => "\"NaN\"".to_owned(),
        f64::INFINITY => "\"Infinity\"".to_owned(),
        f64::NEG_INFINITY => "\"-Infinity\"".to_owned(),
        _ => format!("{shortest:?}"),
    };
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResultWriter;
    use alluvia_syntax::copy::options::{CopyOptions, Format};
    use arrow::array::{
        ArrayRef, Date32Array, DurationSecondArray, ListArray, StructArray, TimestampMicrosecondArray,
        TimestampSecondArray,
    };
    use arrow::buffer::OffsetBuffer;

    fn written(format: Format, batches: &[RecordBatch]) -> (Vec<Result<()>>, String) {
        written_with(format, batches, &CopyOptions::default())
    }

    fn written_with(format: Format, batches: &[RecordBatch], options: &CopyOptions) -> (Vec<Result<()>>, String) {
        let mut writer = ResultWriter::new(format, batches[0].schema(), options, Vec::new()).unwrap();
        let results = batches.iter().map(|batch| writer.write(batch)).collect();
        (results, String::from_utf8(writer.finish().unwrap().1).unwrap())
    }

    fn batch(array: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap()
    }

    #[test]
    fn times_are_written_as_before() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(1_500_000), None]));
        let text = written(Format::JsonLines, &[batch(times)]).1;
        assert_eq!(text, "{\"a\":\"1970-01-01T00:00:01.500\"}\n{\"a\":null}\n");
        let zoned: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC"));
        assert_eq!(written(Format::JsonArray, &[batch(zoned)]).1, "[{\"a\":\"1970-01-01T00:00:00.000001Z\"}]\n");
    }

    #[test]
    fn moments_are_those_of_a_zone_also_in_lists() {
        let options = CopyOptions { time_zone: Zone::of_setting("Europe/Berlin").unwrap(), ..CopyOptions::default() };
        let moments = || TimestampMicrosecondArray::from(vec![Some(0), None]).with_timezone("UTC");
        let text = written_with(Format::JsonLines, &[batch(Arc::new(moments()))], &options).1;
        assert_eq!(text, "{\"a\":\"1970-01-01T01:00:00+01:00\"}\n{\"a\":null}\n");
        let field = Arc::new(Field::new_list_field(moments().data_type().clone(), true));
        let list = ListArray::new(field, OffsetBuffer::from_lengths([2]), Arc::new(moments()), None);
        let text = written_with(Format::JsonArray, &[batch(Arc::new(list))], &options).1;
        assert_eq!(text, "[{\"a\":[\"1970-01-01T01:00:00+01:00\",null]}]\n");
        // What is no moment stays.
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0]));
        assert_eq!(written_with(Format::JsonLines, &[batch(times)], &options).1, "{\"a\":\"1970-01-01T00:00:00\"}\n");
    }

    #[test]
    fn a_value_without_a_form_is_an_error_and_nothing_of_its_batch_is_written() {
        let time = || Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX])) as ArrayRef;
        let field = Arc::new(Field::new("t", time().data_type().clone(), true));
        let list = ListArray::new(Arc::clone(&field), OffsetBuffer::from_lengths([1, 1]), time(), None);
        let all: [ArrayRef; 7] = [
            time(),
            Arc::new(StructArray::from(vec![(field, time())])),
            Arc::new(list),
            Arc::new(TimestampSecondArray::from(vec![0, i64::MIN])),
            Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX]).with_timezone("UTC")),
            Arc::new(Date32Array::from(vec![0, i32::MAX])),
            Arc::new(DurationSecondArray::from(vec![0, i64::MAX])),
        ];
        for array in all {
            let kind = array.data_type().clone();
            let good = batch(array.slice(0, 1));
            for format in [Format::JsonLines, Format::JsonArray] {
                let (results, text) = written(format, &[good.clone(), batch(Arc::clone(&array))]);
                let error = results[1].clone().unwrap_err();
                assert!(results[0].is_ok(), "{kind}");
                assert_eq!(error.kind(), ErrorKind::InvalidValue, "{kind}");
                assert!(error.message().starts_with("a value cannot be written as JSON: "), "{error}");
                assert_eq!(text, written(format, std::slice::from_ref(&good)).1, "{kind}");
            }
        }
    }
}
