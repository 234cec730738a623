//! Packing of a block's measure values.
//!
//! Invariants:
//! - Unpacking gives back every value bit by bit, but for NaNs, which all come back as the one NaN of [`f64::NAN`].
//! - Sums may be taken on packed values: an unpacked value is `base + packed`, or that over a power of ten.
//!
//! Integers and decimals are stored as distances from the block's least value. Floats that are decimal numbers in
//! disguise (prices) are stored as integers too, scaled by the least power of ten that loses nothing for any value of
//! the block: the idea of ALP (Afroozeh, Kuffo, Boncz, "ALP: Adaptive Lossless floating-Point Compression", SIGMOD
//! 2023, section 3.1), without its exceptions. They take a quarter of the room, and their sums are exact. Everything
//! else is stored as it is.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};

/// The largest power of ten that floats are scaled by.
pub(crate) const SCALE_MAX: u8 = 6;
/// Integers up to this are exact as floats.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Marks NULL among floats; NaNs are stored as `f64::NAN`, which has other bits.
const NULL_FLOAT: u64 = 0x7ff8_0000_0000_0001;
/// Marks NULL among wide integers; no decimal of 38 digits reaches it.
const NULL_WIDE: i128 = i128::MIN;

/// How the values of a block are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    /// `base + packed`, over `10^scale` for floats. With NULLs, packed 0 is NULL.
    Integers {
        /// What is added to a packed value.
        base: i64,
        /// Bytes of a packed value: 0, 1, 2, 4 or 8.
        width: u8,
        /// The power of ten; 0 for integers and decimals.
        scale: u8,
    },
    /// Floats as they are, 8 bytes.
    Floats,
    /// Integers of 16 bytes, as they are.
    Wide,
}

impl Encoding {
    /// Bytes per value.
    pub(crate) fn width(self) -> usize {
        match self {
            Encoding::Integers { width, .. } => width.into(),
            Encoding::Floats => 8,
            Encoding::Wide => 16,
        }
    }

    /// As numbers for the block table: kind, base, width, scale.
    pub(crate) fn to_parts(self) -> (u8, i64, u8, u8) {
        match self {
            Encoding::Integers { base, width, scale } => (0, base, width, scale),
            Encoding::Floats => (1, 0, 8, 0),
            Encoding::Wide => (2, 0, 16, 0),
        }
    }

    /// The reverse of [`Encoding::to_parts`]; `None` if there is no such encoding.
    pub(crate) fn from_parts(kind: u8, base: i64, width: u8, scale: u8) -> Option<Encoding> {
        match (kind, width) {
            (0, 0 | 1 | 2 | 4 | 8) if scale <= SCALE_MAX => Some(Encoding::Integers { base, width, scale }),
            (1, 8) => Some(Encoding::Floats),
            (2, 16) => Some(Encoding::Wide),
            _ => None,
        }
    }
}

/// What is known of a block's packed values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PackedAs {
    pub(crate) encoding: Encoding,
    /// Values that are not NULL.
    pub(crate) count: u64,
    /// Whether NaN or an infinity is among them.
    pub(crate) is_special: bool,
}

/// The values of one block of one measure, gathered as they come.
#[derive(Debug)]
pub(crate) enum MeasureValues {
    /// Integers and decimals.
    Integers { values: Vec<i64>, wide: Vec<i128>, valid: Vec<bool>, nulls: usize },
    /// Floats.
    Floats { values: Vec<f64>, valid: Vec<bool>, nulls: usize },
}

impl MeasureValues {
    /// None yet, of an integer, decimal or float type.
    pub(crate) fn new(data_type: &DataType) -> MeasureValues {
        match data_type {
            DataType::Float32 | DataType::Float64 => {
                MeasureValues::Floats { values: Vec::new(), valid: Vec::new(), nulls: 0 }
            }
            _ => MeasureValues::Integers { values: Vec::new(), wide: Vec::new(), valid: Vec::new(), nulls: 0 },
        }
    }

    /// Gives back the memory of a block's values, of which there are none now.
    pub(crate) fn release(&mut self) {
        *self = match self {
            MeasureValues::Integers { .. } => MeasureValues::new(&DataType::Int64),
            MeasureValues::Floats { .. } => MeasureValues::new(&DataType::Float64),
        };
    }

    /// Adds some values.
    pub(crate) fn push(&mut self, array: &dyn Array) {
        match self {
            MeasureValues::Integers { values, wide, valid, nulls } => {
                *nulls += array.null_count();
                mark_valid(array, valid);
                match array.data_type() {
                    DataType::Int16 => push_integers::<Int16Type>(array, values, wide),
                    DataType::Int32 => push_integers::<Int32Type>(array, values, wide),
                    DataType::Int64 => push_integers::<Int64Type>(array, values, wide),
                    _ => push_integers::<Decimal128Type>(array, values, wide),
                }
            }
            MeasureValues::Floats { values, valid, nulls } => {
                *nulls += array.null_count();
                mark_valid(array, valid);
                match array.data_type() {
                    DataType::Float32 => {
                        values
                            .extend(array.as_primitive::<Float32Type>().values().iter().map(|&value| f64::from(value)));
                    }
                    _ => values.extend_from_slice(array.as_primitive::<Float64Type>().values()),
                }
            }
        }
    }

    /// Appends the block's packed values to `out`, and begins the next block.
    pub(crate) fn pack(&mut self, out: &mut Vec<u8>) -> Encoding {
        let encoding = match self {
            MeasureValues::Integers { values, wide, valid, nulls } => {
                let valid = (*nulls > 0).then_some(valid.as_slice());
                if wide.is_empty() { pack_integers(values, valid, 0, out) } else { pack_wide(values, wide, valid, out) }
            }
            MeasureValues::Floats { values, valid, nulls } => {
                let valid = (*nulls > 0).then_some(valid.as_slice());
                match scaled(values, valid) {
                    Some((integers, scale)) => pack_integers(&integers, valid, scale, out),
                    None => pack_floats(values, valid, out),
                }
            }
        };
        match self {
            MeasureValues::Integers { values, wide, valid, nulls } => {
                values.clear();
                wide.clear();
                valid.clear();
                *nulls = 0;
            }
            MeasureValues::Floats { values, valid, nulls } => {
                values.clear();
                valid.clear();
                *nulls = 0;
            }
        }
        encoding
    }
}

fn mark_valid(array: &dyn Array, valid: &mut Vec<bool>) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => valid.extend(nulls.iter()),
        None => valid.resize(valid.len() + array.len(), true),
    }
}

/// Values go to `values` until one does not fit; from then on all go to `wide`, behind those of `values`.
fn push_integers<T: ArrowPrimitiveType>(array: &dyn Array, values: &mut Vec<i64>, wide: &mut Vec<i128>)
where
    T::Native: Into<i128>,
{
    let array = array.as_primitive::<T>();
    let is_valid = |row: usize| array.is_valid(row);
    for (row, &native) in array.values().iter().enumerate() {
        let value: i128 = native.into();
        match i64::try_from(value) {
            Ok(value) if wide.is_empty() => values.push(value),
            // What lies under a NULL is anything.
            Err(_) if wide.is_empty() && !is_valid(row) => values.push(0),
            _ => wide.push(value),
        }
    }
}

/// The valid ones among the values.
fn known<'a, T: Copy>(values: &'a [T], valid: Option<&'a [bool]>) -> impl Iterator<Item = T> + 'a {
    values.iter().enumerate().filter(move |(row, _)| valid.is_none_or(|valid| valid[*row])).map(|(_, &value)| value)
}

fn pack_integers(values: &[i64], valid: Option<&[bool]>, scale: u8, out: &mut Vec<u8>) -> Encoding {
    let (min, max) = match valid {
        None => values.iter().fold((i64::MAX, i64::MIN), |(min, max), &value| (min.min(value), max.max(value))),
        Some(_) => {
            known(values, valid).fold((i64::MAX, i64::MIN), |(min, max), value| (min.min(value), max.max(value)))
        }
    };
    if min > max {
        // NULLs alone: all packed 0, in no bytes.
        return Encoding::Integers { base: 0, width: 0, scale };
    }
    let is_nullable = valid.is_some();
    let span = i128::from(max) - i128::from(min) + i128::from(is_nullable);
    let width = match span {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    let base = i128::from(min) - i128::from(is_nullable);
    let (Ok(base), Ok(_)) = (i64::try_from(base), u64::try_from(span)) else {
        let wide: Vec<i128> = values.iter().map(|&value| value.into()).collect();
        return pack_wide(&[], &wide, valid, out);
    };
    let less = |value: i64| value.wrapping_sub(base) as u64;
    let start = out.len();
    out.resize(start + values.len() * width, 0);
    let places = &mut out[start..];
    match width {
        0 => {}
        1 => places.iter_mut().zip(values).for_each(|(place, &value)| *place = less(value) as u8),
        2 => put(places, values, |value| (less(value) as u16).to_le_bytes()),
        4 => put(places, values, |value| (less(value) as u32).to_le_bytes()),
        _ => put(places, values, |value| less(value).to_le_bytes()),
    }
    if let Some(valid) = valid.filter(|_| width > 0) {
        for (place, _) in places.chunks_exact_mut(width).zip(valid).filter(|(_, valid)| !**valid) {
            place.fill(0);
        }
    }
    Encoding::Integers { base, width: width as u8, scale }
}

fn put<T: Copy, const W: usize>(places: &mut [u8], values: &[T], bytes: impl Fn(T) -> [u8; W]) {
    for (place, &value) in places.chunks_exact_mut(W).zip(values) {
        place.copy_from_slice(&bytes(value));
    }
}

fn pack_wide(first: &[i64], rest: &[i128], valid: Option<&[bool]>, out: &mut Vec<u8>) -> Encoding {
    let values = first.iter().map(|&value| i128::from(value)).chain(rest.iter().copied());
    for (row, value) in values.enumerate() {
        let value = if valid.is_none_or(|valid| valid[row]) { value } else { NULL_WIDE };
        out.extend(value.to_le_bytes());
    }
    Encoding::Wide
}

fn pack_floats(values: &[f64], valid: Option<&[bool]>, out: &mut Vec<u8>) -> Encoding {
    for (row, &value) in values.iter().enumerate() {
        let bits = match valid.is_none_or(|valid| valid[row]) {
            false => NULL_FLOAT,
            true if value.is_nan() => f64::NAN.to_bits(),
            true => value.to_bits(),
        };
        out.extend(bits.to_le_bytes());
    }
    Encoding::Floats
}

/// The floats as integers over a power of ten, if that loses nothing. NULLs become 0.
fn scaled(values: &[f64], valid: Option<&[bool]>) -> Option<(Vec<i64>, u8)> {
    // The scale is chosen by a few values, then tried on all.
    let sample = |scale: u8| known(values, valid).take(64).all(|value| integer(value, scale).is_some());
    let scale = (0..=SCALE_MAX).find(|&scale| sample(scale))?;
    let mut integers = vec![0; values.len()];
    let power = powi(scale);
    let mut exact = true;
    for (integer, &value) in integers.iter_mut().zip(values) {
        let round = (value * power).round_ties_even();
        exact &= round.abs() <= EXACT_MAX && (round as i64 as f64 / power).to_bits() == value.to_bits();
        *integer = round as i64;
    }
    if !exact {
        // Perhaps only what lies under NULLs is not, or a value needs a larger scale.
        for scale in scale..=SCALE_MAX {
            let each = values.iter().enumerate().map(|(row, &value)| match valid.is_none_or(|valid| valid[row]) {
                true => integer(value, scale),
                false => Some(0),
            });
            if let Some(integers) = each.collect() {
                return Some((integers, scale));
            }
        }
        return None;
    }
    Some((integers, scale))
}

/// A float as an integer over a power of ten, the least that loses nothing; `None` if none does.
pub(crate) fn scaled_integer(value: f64) -> Option<(i64, u8)> {
    (0..=SCALE_MAX).find_map(|scale| integer(value, scale).map(|integer| (integer, scale)))
}

fn integer(value: f64, scale: u8) -> Option<i64> {
    let power = powi(scale);
    let round = (value * power).round_ties_even();
    let exact = round.abs() <= EXACT_MAX && (round as i64 as f64 / power).to_bits() == value.to_bits();
    exact.then_some(round as i64)
}

/// Ten to a power up to [`SCALE_MAX`].
pub(crate) fn powi(scale: u8) -> f64 {
    [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6][usize::from(scale)]
}

/// How many of the units of sums, 10^-[`SCALE_MAX`], one unit of 10^-`scale` is.
pub(crate) fn units(scale: u8) -> i64 {
    [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1][usize::from(scale)]
}

/// One value, unpacked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    /// NULL.
    Null,
    /// Of an integer or decimal measure.
    Integer(i128),
    /// Of a float measure.
    Float(f64),
}

/// The value at a row of a block. `has_nulls` says whether any of the block is NULL; `is_float` whether the measure is
/// of floats.
pub(crate) fn value_at(packed: &[u8], encoding: Encoding, has_nulls: bool, is_float: bool, row: usize) -> Value {
    match encoding {
        Encoding::Integers { base, width, scale } => {
            let bytes = &packed[row * usize::from(width)..(row + 1) * usize::from(width)];
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let raw = u64::from_le_bytes(word);
            if has_nulls && raw == 0 {
                return Value::Null;
            }
            let integer = i128::from(base) + i128::from(raw);
            if is_float { Value::Float(integer as f64 / powi(scale)) } else { Value::Integer(integer) }
        }
        Encoding::Floats => {
            let word = packed[row * 8..row * 8 + 8].try_into().expect("8 bytes");
            match u64::from_le_bytes(word) {
                NULL_FLOAT => Value::Null,
                bits => Value::Float(f64::from_bits(bits)),
            }
        }
        Encoding::Wide => {
            let word = packed[row * 16..row * 16 + 16].try_into().expect("16 bytes");
            match i128::from_le_bytes(word) {
                NULL_WIDE => Value::Null,
                value => Value::Integer(value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn round_trip(array: &ArrayRef) -> (Encoding, Vec<Value>) {
        let mut values = MeasureValues::new(array.data_type());
        let half = array.len() / 2;
        values.push(&array.slice(0, half));
        values.push(&array.slice(half, array.len() - half));
        let mut packed = Vec::new();
        let encoding = values.pack(&mut packed);
        assert_eq!(packed.len(), encoding.width() * array.len());
        let is_float = array.data_type().is_floating();
        let unpacked =
            (0..array.len()).map(|row| value_at(&packed, encoding, array.null_count() > 0, is_float, row)).collect();
        let (kind, base, width, scale) = encoding.to_parts();
        assert_eq!(Encoding::from_parts(kind, base, width, scale), Some(encoding));
        (encoding, unpacked)
    }

    proptest! {
        #[test]
        fn integers_come_back(shift in 0u32..64, draws in prop::collection::vec(any::<Option<i64>>(), 1..200)) {
            let values: Vec<Option<i64>> = draws.into_iter().map(|draw| draw.map(|draw| draw >> shift)).collect();
            let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            let expected = values.iter().map(|value| value.map_or(Value::Null, |value| Value::Integer(value.into())));
            prop_assert_eq!(round_trip(&array).1, expected.collect::<Vec<_>>());
        }

        #[test]
        fn decimals_come_back(shift in 0u32..127, draws in prop::collection::vec(any::<Option<i128>>(), 1..100)) {
            let values: Vec<Option<i128>> = draws.into_iter().map(|draw| draw.map(|draw| (draw / 2) >> shift)).collect();
            let array: ArrayRef = Arc::new(Decimal128Array::from(values.clone()));
            let expected = values.iter().map(|value| value.map_or(Value::Null, Value::Integer));
            prop_assert_eq!(round_trip(&array).1, expected.collect::<Vec<_>>());
        }

        #[test]
        fn floats_come_back_bit_by_bit(
            cents in prop::collection::vec(prop::option::of(-100_000i64..100_000), 1..100),
            any in prop::collection::vec(any::<f64>(), 0..3),
            scale in 0u8..4,
        ) {
            let mut values: Vec<Option<f64>> =
                cents.into_iter().map(|cents| cents.map(|cents| cents as f64 / powi(scale))).collect();
            values.extend(any.into_iter().map(Some));
            let array: ArrayRef = Arc::new(Float64Array::from(values.clone()));
            for (found, expected) in round_trip(&array).1.into_iter().zip(values) {
                match (found, expected) {
                    (Value::Null, None) => {}
                    (Value::Float(found), Some(expected)) if expected.is_nan() => prop_assert!(found.is_nan()),
                    (Value::Float(found), Some(expected)) => prop_assert_eq!(found.to_bits(), expected.to_bits()),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }

    #[test]
    fn prices_take_little_room_and_odd_floats_are_kept() {
        let prices: ArrayRef = Arc::new(Float64Array::from_iter_values((0..200).map(|cents| f64::from(cents) / 100.0)));
        assert_eq!(round_trip(&prices).0, Encoding::Integers { base: 0, width: 1, scale: 2 });
        for odd in [-0.0, f64::INFINITY, f64::NAN, 1e300, 0.1 + 0.2] {
            let array: ArrayRef = Arc::new(Float64Array::from(vec![1.0, odd]));
            assert_eq!(round_trip(&array).0, Encoding::Floats, "{odd}");
        }
    }
}
