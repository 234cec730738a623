//! Hashes of values, for key bits of names and for buckets of ids.
//!
//! Invariants:
//! - A hash depends on the value alone: not on whether a text column came plain or dictionary-encoded, nor on its batch.
//! - These functions never change: segments are ordered and bucketed by them.
//! - NULL hashes to 0; -0.0 hashes as 0.0, every NaN alike.
//!
//! Only the top bits of a hash are ever used. Integers are multiplied by 2^64 divided by the golden ratio, which spreads
//! consecutive numbers evenly over the top bits (three-gap theorem), so that a level of a few dense numbers hardly
//! collides. Text of at most 12 bytes is hashed as the 16 bytes of an Arrow string view, without a branch on its length.

use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayAccessor, AsArray, BinaryViewArray, ByteView, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use xxhash_rust::xxh3::xxh3_64;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST: u64 = 0xa076_1d64_78bd_642f;
const SECOND: u64 = 0xe703_7ed1_a0b4_28db;
/// Longest text that lies within a view.
const INLINE_BYTES: usize = 12;

/// The hash of an integer, date or timestamp.
#[inline]
pub(crate) fn hash_integer(value: i64) -> u64 {
    (value as u64).wrapping_mul(GOLDEN)
}

/// The hash of text or bytes.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    if bytes.len() > INLINE_BYTES {
        return xxh3_64(bytes);
    }
    let mut view = [0; 16];
    view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    view[4..4 + bytes.len()].copy_from_slice(bytes);
    hash_wide(u128::from_le_bytes(view))
}

#[inline]
fn hash_wide(value: u128) -> u64 {
    let folded = fold(value as u64 ^ FIRST, (value >> 64) as u64 ^ SECOND);
    fold(folded ^ SECOND, GOLDEN)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn hash_float(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
    hash_wide(u128::from(bits))
}

/// The values of one column, ready to be hashed a few thousand at a time.
pub(crate) struct Hashes<'a> {
    source: Source<'a>,
    nulls: Option<NullBuffer>,
}

enum Source<'a> {
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    TextViews(&'a StringViewArray),
    ByteViews(&'a BinaryViewArray),
    /// Indices into the hashes of the distinct values.
    Dictionary {
        keys: Vec<u32>,
        hashes: Vec<u64>,
    },
    /// One hash for each row: types too rare to be worth their own loop.
    Each(Vec<u64>),
}

impl<'a> Hashes<'a> {
    /// Reads an array in storage form, or a dictionary of text or bytes.
    pub(crate) fn new(array: &'a dyn Array) -> Result<Hashes<'a>> {
        let source = match array.data_type() {
            ArrowType::Int16 => Source::Int16(array.as_primitive::<Int16Type>().values()),
            ArrowType::Int32 => Source::Int32(array.as_primitive::<Int32Type>().values()),
            ArrowType::Date32 => Source::Int32(array.as_primitive::<Date32Type>().values()),
            ArrowType::Int64 => Source::Int64(array.as_primitive::<Int64Type>().values()),
            ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
                Source::Int64(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            ArrowType::Utf8View => Source::TextViews(array.as_string_view()),
            ArrowType::BinaryView => Source::ByteViews(array.as_binary_view()),
            ArrowType::Dictionary(key, _) => match key.as_ref() {
                ArrowType::Int8 => dictionary::<Int8Type>(array)?,
                ArrowType::Int16 => dictionary::<Int16Type>(array)?,
                ArrowType::Int32 => dictionary::<Int32Type>(array)?,
                ArrowType::Int64 => dictionary::<Int64Type>(array)?,
                ArrowType::UInt8 => dictionary::<UInt8Type>(array)?,
                ArrowType::UInt16 => dictionary::<UInt16Type>(array)?,
                ArrowType::UInt32 => dictionary::<UInt32Type>(array)?,
                _ => dictionary::<UInt64Type>(array)?,
            },
            _ => Source::Each(each(array)?),
        };
        Ok(Hashes { source, nulls: array.logical_nulls().filter(|nulls| nulls.null_count() > 0) })
    }

    /// Where NULLs are, if there are any.
    pub(crate) fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// Hashes from row `first` on, as many as `into` holds.
    pub(crate) fn fill(&self, first: usize, into: &mut [u64]) {
        let end = first + into.len();
        match &self.source {
            Source::Int16(values) => convert(&values[first..end], into, |value| hash_integer(i64::from(value))),
            Source::Int32(values) => convert(&values[first..end], into, |value| hash_integer(i64::from(value))),
            Source::Int64(values) => convert(&values[first..end], into, hash_integer),
            Source::TextViews(array) => {
                views(&array.views()[first..end], into, |at| array.value(first + at).as_bytes());
            }
            Source::ByteViews(array) => views(&array.views()[first..end], into, |at| array.value(first + at)),
            Source::Dictionary { keys, hashes } => convert(&keys[first..end], into, |key| hashes[key as usize]),
            Source::Each(hashes) => into.copy_from_slice(&hashes[first..end]),
        }
        if let Some(nulls) = &self.nulls {
            for (at, hash) in into.iter_mut().enumerate() {
                if nulls.is_null(first + at) {
                    *hash = 0;
                }
            }
        }
    }
}

fn convert<T: Copy>(values: &[T], into: &mut [u64], hash: impl Fn(T) -> u64) {
    for (into, &value) in into.iter_mut().zip(values) {
        *into = hash(value);
    }
}

/// Short values are hashed from their views; `long` finds the bytes of the others.
fn views<'v>(views: &[u128], into: &mut [u64], long: impl Fn(usize) -> &'v [u8]) {
    for (at, (into, &view)) in into.iter_mut().zip(views).enumerate() {
        *into =
            if ByteView::from(view).length as usize <= INLINE_BYTES { hash_wide(view) } else { hash_bytes(long(at)) };
    }
}

/// Hashes each distinct value once. Indices under NULL may point anywhere, so they are clamped.
fn dictionary<'a, K: ArrowDictionaryKeyType>(array: &'a dyn Array) -> Result<Source<'a>> {
    let array = array.as_dictionary::<K>();
    let mut hashes = vec![0; array.values().len()];
    Hashes::new(array.values())?.fill(0, &mut hashes);
    if hashes.is_empty() {
        hashes.push(0);
    }
    let last = hashes.len() - 1;
    let keys = array.keys().values().iter().map(|key| key.to_usize().unwrap_or(0).min(last) as u32).collect();
    Ok(Source::Dictionary { keys, hashes })
}

fn each(array: &dyn Array) -> Result<Vec<u64>> {
    let rows = array.len();
    Ok(match array.data_type() {
        ArrowType::Boolean => {
            let values = array.as_boolean().values();
            (0..rows).map(|row| hash_integer(i64::from(values.value(row)))).collect()
        }
        ArrowType::Float32 => {
            array.as_primitive::<Float32Type>().values().iter().map(|&value| hash_float(f64::from(value))).collect()
        }
        ArrowType::Float64 => {
            array.as_primitive::<Float64Type>().values().iter().map(|&value| hash_float(value)).collect()
        }
        ArrowType::Decimal128(..) => {
            array.as_primitive::<Decimal128Type>().values().iter().map(|&value| hash_wide(value as u128)).collect()
        }
        ArrowType::Utf8 => bytes_of(array.as_string::<i32>(), rows, |text| hash_bytes(text.as_bytes())),
        ArrowType::LargeUtf8 => bytes_of(array.as_string::<i64>(), rows, |text| hash_bytes(text.as_bytes())),
        ArrowType::Binary => bytes_of(array.as_binary::<i32>(), rows, hash_bytes),
        ArrowType::LargeBinary => bytes_of(array.as_binary::<i64>(), rows, hash_bytes),
        ArrowType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            (0..rows).map(|row| hash_bytes(values.value(row))).collect()
        }
        ArrowType::Time64(_) => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            times.values().iter().map(|&time| hash_integer(time)).collect()
        }
        other => return Err(Error::internal(format!("a level's column has type {other}"))),
    })
}

fn bytes_of<A: ArrayAccessor>(array: A, rows: usize, hash: impl Fn(A::Item) -> u64) -> Vec<u64> {
    (0..rows).map(|row| hash(array.value(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, DictionaryArray, Int16Array, Int64Array, StringArray, StringDictionaryBuilder};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn hashes(array: &dyn Array) -> Vec<u64> {
        let mut into = vec![1; array.len()];
        Hashes::new(array).unwrap().fill(0, &mut into);
        into
    }

    #[test]
    fn hashes_are_those_of_the_first_release() {
        // Segments on disk are ordered by these: a change here is a change of format.
        assert_eq!(hash_integer(1), GOLDEN);
        assert_eq!(hash_bytes(b""), 0x0ef5_1f16_64b6_298c);
        assert_eq!(hash_bytes(b"Germany"), 0x31df_9e92_f200_84ef);
        assert_eq!(hash_bytes(b"Netherlands Antilles"), 0x89eb_68a5_a498_5947);
    }

    #[test]
    fn dense_numbers_spread_evenly() {
        let mut cells: Vec<u64> = (1..=31).map(|day| hash_integer(day) >> 58).collect();
        cells.sort_unstable();
        cells.dedup();
        assert!(cells.len() >= 30, "{} of 31 days have a cell of their own", cells.len());
    }

    #[test]
    fn integers_of_all_widths_and_dictionaries_with_null_values_agree() {
        let wide = hashes(&Int64Array::from(vec![Some(-5), None, Some(7)]));
        assert_eq!(wide, hashes(&Int16Array::from(vec![Some(-5), None, Some(7)])));
        let values: ArrayRef = Arc::new(StringArray::from(vec![None, Some("x")]));
        let keys = arrow::array::UInt32Array::from(vec![Some(1), Some(0), None]);
        assert_eq!(hashes(&DictionaryArray::new(keys, values)), [hash_bytes(b"x"), 0, 0]);
    }

    proptest! {
        #[test]
        fn text_hashes_alike_in_every_encoding(texts in prop::collection::vec(prop::option::of(".{0,8}|[a-z]{0,30}"), 0..60), offset in 0usize..10) {
            let plain = StringViewArray::from_iter(texts.iter().map(Option::as_deref));
            let mut dictionary = StringDictionaryBuilder::<Int32Type>::new();
            texts.iter().for_each(|text| dictionary.append_option(text.as_deref()));
            let dictionary = dictionary.finish();
            let expected: Vec<u64> = texts.iter().map(|text| text.as_ref().map_or(0, |text| hash_bytes(text.as_bytes()))).collect();
            prop_assert_eq!(&hashes(&plain), &expected);
            prop_assert_eq!(&hashes(&dictionary), &expected);
            prop_assert_eq!(&hashes(&StringArray::from_iter(texts.iter().map(Option::as_deref))), &expected);
            let offset = offset.min(texts.len());
            prop_assert_eq!(&hashes(&plain.slice(offset, texts.len() - offset)), &expected[offset..]);
            prop_assert_eq!(&hashes(&dictionary.slice(offset, texts.len() - offset)), &expected[offset..]);
        }
    }
}
