//! Own values of members, in the three shapes that all column types come down to.
//!
//! Invariants:
//! - Equal values have equal shapes and equal bits: `-0.0` is `0.0`, and every NaN is one NaN.
//! - Place 0 of a [`Values`] is the NULL member; what is stored there is never looked at.
//!
//! Shapes instead of types keep interning, look-up and file free of a case per type; only building an Arrow array from
//! members needs the type again.

use super::code_set::CodeSet;
use alluvia_space::DataType;
use alluvia_space::data_type::UUID_BYTES;
use alluvia_types::{Error, Result};
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Int16Array, Int32Array, Int64Array, PrimitiveArray, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{Float32Type, Float64Type};
use arrow::error::ArrowError;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that the text of one level may take: what an Arrow array can hold.
pub(crate) const BYTES_MAX: usize = i32::MAX as usize;

/// How values of a column are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Text and binary.
    Bytes,
    /// Everything of at most 64 bits.
    Words,
    /// Decimals and UUIDs.
    Wide,
}

impl Shape {
    pub(crate) fn of(data_type: DataType) -> Shape {
        match data_type {
            DataType::Text | DataType::Binary | DataType::Char | DataType::Json | DataType::Jsonb => Shape::Bytes,
            DataType::Decimal { .. } | DataType::Numeric | DataType::Uuid => Shape::Wide,
            _ => Shape::Words,
        }
    }

    /// What an empty store of this shape is.
    pub(crate) fn empty(self) -> Values {
        match self {
            Shape::Bytes => Values::Bytes { ends: vec![0], bytes: Vec::new() },
            Shape::Words => Values::Words(vec![0]),
            Shape::Wide => Values::Wide(vec![0]),
        }
    }
}

/// Borrowed values of one shape; no NULLs.
#[derive(Debug)]
pub(crate) enum Distinct<'a> {
    Bytes(Vec<&'a [u8]>),
    Words(Vec<u64>),
    Wide(Vec<u128>),
}

/// The own values of a level's members, by code.
#[derive(Debug)]
pub(crate) enum Values {
    /// Where each value's bytes end; they begin where the value before ends.
    Bytes {
        ends: Vec<u32>,
        bytes: Vec<u8>,
    },
    Words(Vec<u64>),
    Wide(Vec<u128>),
}

/// A value of one of the shapes, and the store it belongs to.
pub(crate) trait Value: Copy {
    /// A hash that does not depend on how the value came in.
    fn hash(self) -> u64;
    /// Whether it is the value of that member.
    fn is_at(self, values: &Values, code: u32) -> bool;
    /// Puts it after the last member.
    fn push(self, values: &mut Values);
    /// Bytes that `push` adds to what [`BYTES_MAX`] limits.
    fn bytes(self) -> usize {
        0
    }
}

const WRONG_SHAPE: &str = "values of a level keep their shape";

impl Value for &[u8] {
    fn hash(self) -> u64 {
        xxh3_64(self)
    }

    fn is_at(self, values: &Values, code: u32) -> bool {
        values.bytes_at(code) == self
    }

    fn push(self, values: &mut Values) {
        let Values::Bytes { ends, bytes } = values else { panic!("{WRONG_SHAPE}") };
        bytes.extend_from_slice(self);
        ends.push(bytes.len() as u32);
    }

    fn bytes(self) -> usize {
        self.len()
    }
}

impl Value for u64 {
    fn hash(self) -> u64 {
        mix(self, 0x9E37_79B9_7F4A_7C15)
    }

    fn is_at(self, values: &Values, code: u32) -> bool {
        let Values::Words(words) = values else { panic!("{WRONG_SHAPE}") };
        words[code as usize] == self
    }

    fn push(self, values: &mut Values) {
        let Values::Words(words) = values else { panic!("{WRONG_SHAPE}") };
        words.push(self);
    }
}

impl Value for u128 {
    fn hash(self) -> u64 {
        mix(self as u64, 0x9E37_79B9_7F4A_7C15) ^ mix((self >> 64) as u64, 0xD1B5_4A32_D192_ED03)
    }

    fn is_at(self, values: &Values, code: u32) -> bool {
        let Values::Wide(wide) = values else { panic!("{WRONG_SHAPE}") };
        wide[code as usize] == self
    }

    fn push(self, values: &mut Values) {
        let Values::Wide(wide) = values else { panic!("{WRONG_SHAPE}") };
        wide.push(self);
    }
}

/// Every bit of the result depends on every bit of `word`.
pub(crate) fn mix(word: u64, by: u64) -> u64 {
    let product = u128::from(word ^ by.rotate_left(32)) * u128::from(by);
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded ^ folded >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// The bits of a float, one for each value that is equal to SQL's eye.
pub(crate) fn double_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// As [`double_bits`].
pub(crate) fn real_bits(value: f32) -> u64 {
    u64::from(if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() })
}

impl Distinct<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Distinct::Bytes(values) => values.len(),
            Distinct::Words(values) => values.len(),
            Distinct::Wide(values) => values.len(),
        }
    }
}

impl Values {
    /// Members, with NULL.
    pub(crate) fn len(&self) -> usize {
        match self {
            Values::Bytes { ends, .. } => ends.len(),
            Values::Words(words) => words.len(),
            Values::Wide(wide) => wide.len(),
        }
    }

    /// Bytes of the text of all members.
    pub(crate) fn bytes_len(&self) -> usize {
        match self {
            Values::Bytes { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }

    /// The same values, but none for some codes: no bytes, or zero.
    pub(crate) fn without(&self, gone: &CodeSet) -> Values {
        let kept = |code: usize| !gone.contains(code as u32);
        match self {
            Values::Bytes { ends, .. } => {
                let mut left = Values::Bytes { ends: Vec::with_capacity(ends.len()), bytes: Vec::new() };
                for code in 0..ends.len() {
                    let value: &[u8] = if kept(code) { self.bytes_at(code as u32) } else { &[] };
                    value.push(&mut left);
                }
                left
            }
            Values::Words(words) => {
                let word = |(code, &word): (usize, &u64)| if kept(code) { word } else { 0 };
                Values::Words(words.iter().enumerate().map(word).collect())
            }
            Values::Wide(wide) => {
                let value = |(code, &value): (usize, &u128)| if kept(code) { value } else { 0 };
                Values::Wide(wide.iter().enumerate().map(value).collect())
            }
        }
    }

    /// The bytes of a member's value.
    pub(crate) fn bytes_at(&self, code: u32) -> &[u8] {
        let Values::Bytes { ends, bytes } = self else { panic!("{WRONG_SHAPE}") };
        let start = if code == 0 { 0 } else { ends[code as usize - 1] };
        &bytes[start as usize..ends[code as usize] as usize]
    }

    /// The hash of a member's value; the same as [`Value::hash`] of it.
    pub(crate) fn hash_at(&self, code: u32) -> u64 {
        match self {
            Values::Bytes { .. } => self.bytes_at(code).hash(),
            Values::Words(words) => words[code as usize].hash(),
            Values::Wide(wide) => wide[code as usize].hash(),
        }
    }

    /// Whether two members have the same own value.
    pub(crate) fn same(&self, a: u32, b: u32) -> bool {
        match self {
            Values::Bytes { .. } => self.bytes_at(a) == self.bytes_at(b),
            Values::Words(words) => words[a as usize] == words[b as usize],
            Values::Wide(wide) => wide[a as usize] == wide[b as usize],
        }
    }

    /// All members' own values in code order, as an array of the column's type (text as `Utf8`, binary as `Binary`), with
    /// NULL in place 0.
    pub(crate) fn to_array(&self, data_type: DataType) -> Result<ArrayRef> {
        let nulls = || {
            let len = self.len();
            Some(NullBuffer::new(BooleanBuffer::collect_bool(len, |at| at != 0)))
        };
        let wrong = |error: ArrowError| Error::internal(format!("members of type {}: {error}", data_type.sql_name()));
        Ok(match (self, data_type) {
            (Values::Bytes { ends, bytes }, DataType::Text | DataType::Char | DataType::Binary) => {
                let offsets: Vec<i32> = std::iter::once(0).chain(ends.iter().map(|&end| end as i32)).collect();
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let bytes = Buffer::from_slice_ref(bytes);
                match data_type {
                    DataType::Text | DataType::Char => {
                        Arc::new(StringArray::try_new(offsets, bytes, nulls()).map_err(wrong)?)
                    }
                    _ => Arc::new(BinaryArray::try_new(offsets, bytes, nulls()).map_err(wrong)?),
                }
            }
            (Values::Words(words), DataType::Boolean) => {
                let bits = BooleanBuffer::collect_bool(words.len(), |at| words[at] != 0);
                Arc::new(BooleanArray::new(bits, nulls()))
            }
            (Values::Words(words), DataType::Int16) => Arc::new(Int16Array::new(map(words, |w| w as i16), nulls())),
            (Values::Words(words), DataType::Int32) => Arc::new(Int32Array::new(map(words, |w| w as i32), nulls())),
            (Values::Words(words), DataType::Int64) => Arc::new(Int64Array::new(map(words, |w| w as i64), nulls())),
            (Values::Words(words), DataType::Date) => Arc::new(Date32Array::new(map(words, |w| w as i32), nulls())),
            (Values::Words(words), DataType::Real) => {
                Arc::new(floats::<Float32Type>(map(words, |w| f32::from_bits(w as u32)), nulls()))
            }
            (Values::Words(words), DataType::Double) => {
                Arc::new(floats::<Float64Type>(map(words, f64::from_bits), nulls()))
            }
            (Values::Words(words), DataType::Timestamp) => {
                Arc::new(TimestampMicrosecondArray::new(map(words, |w| w as i64), nulls()))
            }
            (Values::Words(words), DataType::TimestampTz) => Arc::new(
                TimestampMicrosecondArray::new(map(words, |w| w as i64), nulls()).with_data_type(data_type.to_arrow()),
            ),
            (Values::Words(words), DataType::Time) => {
                Arc::new(Time64MicrosecondArray::new(map(words, |w| w as i64), nulls()))
            }
            (Values::Wide(wide), DataType::Uuid) => {
                let bytes: Vec<u8> = wide.iter().flat_map(|value| value.to_be_bytes()).collect();
                Arc::new(FixedSizeBinaryArray::try_new(UUID_BYTES, bytes.into(), nulls()).map_err(wrong)?)
            }
            (Values::Wide(wide), DataType::Decimal { .. } | DataType::Numeric) => {
                let values: ScalarBuffer<i128> = wide.iter().map(|&value| value as i128).collect::<Vec<_>>().into();
                Arc::new(Decimal128Array::new(values, nulls()).with_data_type(data_type.to_arrow()))
            }
            _ => return Err(Error::internal(format!("{WRONG_SHAPE}: {}", data_type.sql_name()))),
        })
    }
}

fn map<T>(words: &[u64], to: impl Fn(u64) -> T) -> ScalarBuffer<T>
where
    T: arrow::datatypes::ArrowNativeType,
{
    words.iter().map(|&word| to(word)).collect::<Vec<T>>().into()
}

fn floats<T: ArrowPrimitiveType>(values: ScalarBuffer<T::Native>, nulls: Option<NullBuffer>) -> PrimitiveArray<T> {
    PrimitiveArray::new(values, nulls)
}
