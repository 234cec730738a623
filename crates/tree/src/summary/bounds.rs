//! Smallest and largest value of each block of a column.
//!
//! Order is what Arrow's comparison kernels use, because predicates are evaluated by them: floats by total order, so that a
//! NaN is the largest value and no block that holds one is skipped for `x > 5`; text and binary by bytes. Long values are
//! cut to [`BYTES_MAX`]: the bounds still hold, they are just not values of the column any more.

use alluvia_space::data_type::UUID_BYTES;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewBuilder, BooleanArray, FixedSizeBinaryArray,
    PrimitiveArray, StringViewBuilder, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::aggregate;
use arrow::datatypes::{
    ArrowNativeTypeOp, ArrowNumericType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use std::sync::Arc;

/// Bytes that a bound of text or binary has at most.
pub(crate) const BYTES_MAX: usize = 64;

/// Gathers the bounds of one column of fixed-width values.
pub(crate) trait FixedBounds: Send {
    /// Takes in some of the current block's values.
    fn update(&mut self, values: &dyn Array);
    /// Ends the block.
    fn end_block(&mut self);
    /// One entry per block; NULL where the block has no value.
    fn finish(&mut self) -> (ArrayRef, ArrayRef);
    /// The current block's bounds are of floats, and the upper one is NaN.
    fn saw_nan(&self) -> bool;
}

/// The builder for a type; `None` for text and binary, whose bounds come from [`ByteBounds`].
pub(crate) fn fixed_bounds(data_type: &DataType) -> Option<Box<dyn FixedBounds>> {
    fn plain<T: ArrowNumericType>(data_type: &DataType) -> Box<dyn FixedBounds>
    where
        T::Native: ArrowNativeTypeOp,
    {
        Box::new(Numbers::<T> {
            data_type: data_type.clone(),
            widen: |bounds| bounds,
            is_nan: |_| false,
            current: None,
            done: Vec::new(),
        })
    }
    Some(match data_type {
        DataType::Boolean => Box::new(Booleans::default()),
        DataType::Int16 => plain::<Int16Type>(data_type),
        DataType::Int32 => plain::<Int32Type>(data_type),
        DataType::Int64 => plain::<Int64Type>(data_type),
        DataType::UInt64 => plain::<UInt64Type>(data_type),
        DataType::Date32 => plain::<Date32Type>(data_type),
        DataType::Timestamp(TimeUnit::Microsecond, _) => plain::<TimestampMicrosecondType>(data_type),
        DataType::Time64(TimeUnit::Microsecond) => plain::<Time64MicrosecondType>(data_type),
        DataType::FixedSizeBinary(UUID_BYTES) => Box::new(Uuids::default()),
        // Equal intervals may have other months, days and times: none bounds the others by these.
        DataType::Interval(_) => Box::new(Unbounded { data_type: data_type.clone(), blocks: 0 }),
        DataType::Decimal128(_, _) => plain::<Decimal128Type>(data_type),
        // Zero has two encodings, and a predicate may mean either.
        DataType::Float32 => Box::new(Numbers::<Float32Type> {
            data_type: data_type.clone(),
            widen: |(min, max)| (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max }),
            is_nan: f32::is_nan,
            current: None,
            done: Vec::new(),
        }),
        DataType::Float64 => Box::new(Numbers::<Float64Type> {
            data_type: data_type.clone(),
            widen: |(min, max)| (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max }),
            is_nan: f64::is_nan,
            current: None,
            done: Vec::new(),
        }),
        _ => return None,
    })
}

/// Smallest and largest value.
type Range<T> = (<T as ArrowPrimitiveType>::Native, <T as ArrowPrimitiveType>::Native);

struct Numbers<T: ArrowPrimitiveType> {
    data_type: DataType,
    widen: fn(Range<T>) -> Range<T>,
    is_nan: fn(T::Native) -> bool,
    current: Option<Range<T>>,
    done: Vec<Option<Range<T>>>,
}

impl<T: ArrowNumericType> FixedBounds for Numbers<T>
where
    T::Native: ArrowNativeTypeOp,
{
    fn update(&mut self, values: &dyn Array) {
        let values = values.as_primitive::<T>();
        let (Some(min), Some(max)) = (aggregate::min(values), aggregate::max(values)) else { return };
        let (min, max) = (self.widen)((min, max));
        self.current = Some(match self.current {
            None => (min, max),
            Some((low, high)) => (if min.is_lt(low) { min } else { low }, if max.is_gt(high) { max } else { high }),
        });
    }

    fn end_block(&mut self) {
        self.done.push(self.current.take());
    }

    fn finish(&mut self) -> (ArrayRef, ArrayRef) {
        let done = std::mem::take(&mut self.done);
        let array = |pick: fn(Range<T>) -> T::Native| -> ArrayRef {
            let values = PrimitiveArray::<T>::from_iter(done.iter().map(|bounds| bounds.map(pick)));
            Arc::new(values.with_data_type(self.data_type.clone()))
        };
        (array(|bounds| bounds.0), array(|bounds| bounds.1))
    }

    fn saw_nan(&self) -> bool {
        // Total order puts negative NaN first and positive NaN last.
        self.current.is_some_and(|(min, max)| (self.is_nan)(min) || (self.is_nan)(max))
    }
}

#[derive(Default)]
struct Booleans {
    current: Option<(bool, bool)>,
    done: Vec<Option<(bool, bool)>>,
}

impl FixedBounds for Booleans {
    fn update(&mut self, values: &dyn Array) {
        let values = values.as_boolean();
        let (Some(min), Some(max)) = (aggregate::min_boolean(values), aggregate::max_boolean(values)) else { return };
        let (low, high) = self.current.unwrap_or((min, max));
        self.current = Some((min & low, max | high));
    }

    fn end_block(&mut self) {
        self.done.push(self.current.take());
    }

    fn finish(&mut self) -> (ArrayRef, ArrayRef) {
        let done = std::mem::take(&mut self.done);
        let array = |pick: fn((bool, bool)) -> bool| -> ArrayRef {
            Arc::new(done.iter().map(|bounds| bounds.map(pick)).collect::<BooleanArray>())
        };
        (array(|bounds| bounds.0), array(|bounds| bounds.1))
    }

    fn saw_nan(&self) -> bool {
        false
    }
}

/// Of UUIDs, whose order is that of their bytes.
#[derive(Default)]
struct Uuids {
    current: Option<(u128, u128)>,
    done: Vec<Option<(u128, u128)>>,
}

impl FixedBounds for Uuids {
    fn update(&mut self, values: &dyn Array) {
        let values = values.as_fixed_size_binary();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |value: u128, byte| value << 8 | u128::from(*byte));
        for value in values.iter().flatten().map(number) {
            let (low, high) = self.current.unwrap_or((value, value));
            self.current = Some((low.min(value), high.max(value)));
        }
    }

    fn end_block(&mut self) {
        self.done.push(self.current.take());
    }

    fn finish(&mut self) -> (ArrayRef, ArrayRef) {
        let done = std::mem::take(&mut self.done);
        let array = |pick: fn((u128, u128)) -> u128| -> ArrayRef {
            let bytes: Vec<u8> = done.iter().flat_map(|bounds| bounds.map_or(0, pick).to_be_bytes()).collect();
            let nulls = NullBuffer::from_iter(done.iter().map(Option::is_some));
            Arc::new(FixedSizeBinaryArray::new(UUID_BYTES, bytes.into(), Some(nulls)))
        };
        (array(|bounds| bounds.0), array(|bounds| bounds.1))
    }

    fn saw_nan(&self) -> bool {
        false
    }
}

/// Of values that have no bounds.
struct Unbounded {
    data_type: DataType,
    blocks: usize,
}

impl FixedBounds for Unbounded {
    fn update(&mut self, _values: &dyn Array) {}

    fn end_block(&mut self) {
        self.blocks += 1;
    }

    fn finish(&mut self) -> (ArrayRef, ArrayRef) {
        let none = new_null_array(&self.data_type, std::mem::take(&mut self.blocks));
        (Arc::clone(&none), none)
    }

    fn saw_nan(&self) -> bool {
        false
    }
}

/// Lower bound, and upper bound if there is one.
type CutRange = (Vec<u8>, Option<Vec<u8>>);

/// Gathers the bounds of one column of text or binary values.
pub(crate) struct ByteBounds {
    is_text: bool,
    current: Option<(Vec<u8>, Vec<u8>)>,
    done: Vec<Option<CutRange>>,
}

impl ByteBounds {
    pub(crate) fn new(is_text: bool) -> ByteBounds {
        ByteBounds { is_text, current: None, done: Vec::new() }
    }

    /// Takes in the smallest and largest of some of the current block's values.
    pub(crate) fn merge(&mut self, min: &[u8], max: &[u8]) {
        match &mut self.current {
            None => self.current = Some((min.to_vec(), max.to_vec())),
            Some((low, high)) => {
                if min < low.as_slice() {
                    *low = min.to_vec();
                }
                if max > high.as_slice() {
                    *high = max.to_vec();
                }
            }
        }
    }

    pub(crate) fn end_block(&mut self) {
        let cut = self.current.take();
        self.done
            .push(cut.map(|(min, max)| (lower_bound(&min, self.is_text).to_vec(), upper_bound(&max, self.is_text))));
    }

    /// One entry per block. The lower bound is NULL where the block has no value; the upper one also where none fits.
    pub(crate) fn finish(&mut self) -> (ArrayRef, ArrayRef) {
        let done = std::mem::take(&mut self.done);
        let mins = done.iter().map(|bounds| bounds.as_ref().map(|(min, _)| min.as_slice()));
        let maxs = done.iter().map(|bounds| bounds.as_ref().and_then(|(_, max)| max.as_deref()));
        (byte_array(mins, self.is_text), byte_array(maxs, self.is_text))
    }
}

fn byte_array<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, is_text: bool) -> ArrayRef {
    if is_text {
        let mut builder = StringViewBuilder::new();
        // Bounds of text are cut between characters, so they are text.
        values
            .for_each(|value| builder.append_option(value.map(|bytes| std::str::from_utf8(bytes).unwrap_or_default())));
        return Arc::new(builder.finish());
    }
    let mut builder = BinaryViewBuilder::new();
    values.for_each(|value| builder.append_option(value));
    Arc::new(builder.finish())
}

/// A value of at most [`BYTES_MAX`] bytes that is not above `value`.
pub(crate) fn lower_bound(value: &[u8], is_text: bool) -> &[u8] {
    if value.len() <= BYTES_MAX {
        return value;
    }
    let mut end = BYTES_MAX;
    while is_text && is_continuation(value[end]) {
        end -= 1;
    }
    &value[..end]
}

/// A value of at most [`BYTES_MAX`] bytes that is not below `value`; `None` if there is none.
pub(crate) fn upper_bound(value: &[u8], is_text: bool) -> Option<Vec<u8>> {
    if value.len() <= BYTES_MAX {
        return Some(value.to_vec());
    }
    let kept = lower_bound(value, is_text);
    if is_text {
        // Raise the last character that can be raised, and end there.
        let kept = std::str::from_utf8(kept).ok()?;
        for (at, last) in kept.char_indices().rev() {
            let Some(next) = next_char(last) else { continue };
            let mut bound = kept[..at].to_owned();
            bound.push(next);
            if bound.len() <= BYTES_MAX {
                return Some(bound.into_bytes());
            }
        }
        return None;
    }
    let at = kept.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut bound = kept[..=at].to_vec();
    bound[at] += 1;
    Some(bound)
}

/// The next character in byte order, which is the order of code points.
fn next_char(character: char) -> Option<char> {
    match character {
        '\u{d7ff}' => Some('\u{e000}'),
        other => char::from_u32(other as u32 + 1),
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cut_text_still_bounds(value in "[a\u{7f}é\u{7ff}\u{d7ff}\u{ffff}\u{10ffff}]{0,80}") {
            let bytes = value.as_bytes();
            let low = lower_bound(bytes, true);
            prop_assert!(low <= bytes && low.len() <= BYTES_MAX && std::str::from_utf8(low).is_ok());
            if let Some(high) = upper_bound(bytes, true) {
                prop_assert!(high.as_slice() >= bytes && high.len() <= BYTES_MAX && String::from_utf8(high).is_ok());
            } else {
                let no_next = value.chars().take(16).all(|character| character == char::MAX);
                prop_assert!(no_next);
            }
        }

        #[test]
        fn cut_binary_still_bounds(value in prop::collection::vec(prop::sample::select(vec![0u8, 1, 254, 255]), 0..80)) {
            prop_assert!(lower_bound(&value, false) <= value.as_slice());
            match upper_bound(&value, false) {
                Some(high) => prop_assert!(high >= value && high.len() <= BYTES_MAX),
                None => prop_assert!(value[..BYTES_MAX].iter().all(|&byte| byte == 255)),
            }
        }
    }
}
