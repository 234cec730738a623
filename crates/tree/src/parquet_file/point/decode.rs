//! Encodings, decoded as far as the values that are asked for.
//!
//! `None` says that the bytes are not such.

use bytes::Bytes;
use parquet::basic::Type;

/// A value of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// A boolean, a number, a date or a time; the bits of a float.
    Number(i128),
    Bytes(Bytes),
}

/// A number of seven bits a byte, and how many bytes it has.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

/// The number of so many bits from a bit on, the lowest first.
fn bits_at(bytes: &[u8], bit: usize, width: usize) -> Option<u64> {
    if width == 0 {
        return Some(0);
    }
    let (first, shift) = (bit / 8, bit % 8);
    let mut word = [0; 16];
    let end = (bit + width).div_ceil(8);
    let bytes = bytes.get(first..end)?;
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
    Some((u128::from_le_bytes(word) >> shift) as u64 & mask)
}

/// A run of values of one width.
enum Run<'a> {
    /// So many times one.
    Same(u64),
    /// Packed side by side.
    Packed(&'a [u8]),
}

/// Goes through runs of values of so many bits (Parquet's hybrid of run lengths and bit packing).
struct Runs<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Runs<'a> {
    /// The next run, and how many values it has.
    fn next(&mut self) -> Option<(Run<'a>, usize)> {
        let (head, len) = varint(self.bytes)?;
        self.bytes = self.bytes.get(len..)?;
        let count = usize::try_from(head >> 1).ok()?;
        if head & 1 == 0 {
            let (value, rest) = self.bytes.split_at_checked(self.width.div_ceil(8))?;
            self.bytes = rest;
            let value = value.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            return Some((Run::Same(value), count));
        }
        // The last run may end where its values do.
        let size = count.checked_mul(self.width)?.min(self.bytes.len());
        let (packed, rest) = self.bytes.split_at_checked(size)?;
        self.bytes = rest;
        Some((Run::Packed(packed), count.checked_mul(8)?))
    }
}

/// Of some rows of a column that may be NULL, which ascend: which of the values that are there each has.
pub(super) fn validity(levels: &[u8], rows: &[usize]) -> Option<Vec<Option<usize>>> {
    let mut runs = Runs { bytes: levels, width: 1 };
    let mut places = Vec::with_capacity(rows.len());
    // Rows and values before the run.
    let (mut first, mut before) = (0usize, 0usize);
    while places.len() < rows.len() {
        let (run, count) = runs.next()?;
        let end = first.checked_add(count)?;
        while let Some(row) = rows.get(places.len()).filter(|row| **row < end) {
            let within = row - first;
            places.push(match run {
                Run::Same(0) => None,
                Run::Same(_) => Some(before + within),
                Run::Packed(packed) => (bits_at(packed, within, 1)? == 1).then(|| before + ones(packed, within)),
            });
        }
        before += match run {
            Run::Same(0) => 0,
            Run::Same(_) => count,
            Run::Packed(packed) => ones(packed, count),
        };
        first = end;
    }
    Some(places)
}

/// How many of the first bits are set.
fn ones(bytes: &[u8], bits: usize) -> usize {
    let whole = (bits / 8).min(bytes.len());
    let of_rest = bytes.get(whole).map_or(0, |byte| (byte & ((1u16 << (bits % 8)) - 1) as u8).count_ones());
    bytes[..whole].iter().map(|byte| byte.count_ones() as usize).sum::<usize>() + of_rest as usize
}

/// Indices into a dictionary, of the values at these places, which ascend.
pub(super) fn dictionary_indices(body: &[u8], places: &[usize]) -> Option<Vec<u32>> {
    let (width, bytes) = body.split_first()?;
    let mut runs = Runs { bytes, width: usize::from(*width).min(32) };
    let mut indices = Vec::with_capacity(places.len());
    let mut first = 0usize;
    while indices.len() < places.len() {
        let width = runs.width;
        let (run, count) = runs.next()?;
        let end = first.checked_add(count)?;
        while let Some(place) = places.get(indices.len()).filter(|place| **place < end) {
            let index = match run {
                Run::Same(value) => value,
                Run::Packed(packed) => bits_at(packed, (place - first) * width, width)?,
            };
            indices.push(u32::try_from(index).ok()?);
        }
        first = end;
    }
    Some(indices)
}

/// Where the values of a page of plain texts or bytes begin.
pub(super) fn starts(body: &[u8], count: usize) -> Option<Vec<u32>> {
    let mut starts = Vec::with_capacity(count.min(body.len()));
    let mut at = 0;
    for _ in 0..count {
        starts.push(u32::try_from(at).ok()?);
        at = text_end(body, at)?;
    }
    Some(starts)
}

fn text_end(body: &[u8], start: usize) -> Option<usize> {
    let len = u32::from_le_bytes(*body.get(start..)?.first_chunk::<4>()?);
    (start + 4).checked_add(len as usize).filter(|end| *end <= body.len())
}

/// The text or bytes that begin there with their length.
pub(super) fn text_at(body: &Bytes, start: usize) -> Option<Value> {
    Some(Value::Bytes(body.slice(start + 4..text_end(body, start)?)))
}

/// Plain values at these places, which ascend. `width` is of those of a fixed length.
pub(super) fn plain(kind: Type, width: usize, body: &Bytes, places: &[usize]) -> Option<Vec<Value>> {
    let fixed = |width: usize, value: &dyn Fn(&[u8]) -> Option<i128>| -> Option<Vec<Value>> {
        let value = |place: &usize| {
            let start = place.checked_mul(width)?;
            value(body.get(start..start.checked_add(width)?)?).map(Value::Number)
        };
        places.iter().map(value).collect()
    };
    match kind {
        Type::BOOLEAN => places.iter().map(|place| Some(Value::Number(bits_at(body, *place, 1)?.into()))).collect(),
        Type::INT32 => fixed(4, &|bytes| Some(i32::from_le_bytes(bytes.try_into().ok()?).into())),
        Type::FLOAT => fixed(4, &|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?).into())),
        Type::INT64 => fixed(8, &|bytes| Some(i64::from_le_bytes(bytes.try_into().ok()?).into())),
        Type::DOUBLE => fixed(8, &|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?).into())),
        Type::FIXED_LEN_BYTE_ARRAY if (1..=16).contains(&width) => fixed(width, &|bytes| {
            // The sign goes on to the left.
            let sign = if bytes.first()? >> 7 == 1 { -1 } else { 0 };
            Some(bytes.iter().fold(sign, |value: i128, byte| value << 8 | i128::from(*byte)))
        }),
        Type::BYTE_ARRAY => {
            let (mut at, mut start) = (0, 0);
            let value = |place: &usize| {
                while at < *place {
                    start = text_end(body, start)?;
                    at += 1;
                }
                text_at(body, start)
            };
            places.iter().map(value).collect()
        }
        _ => None,
    }
}

/// Numbers that are packed by their differences, at these places, which ascend.
pub(super) fn packed_differences(kind: Type, body: &[u8], places: &[usize]) -> Option<Vec<Value>> {
    let mut at = 0;
    let next = |at: &mut usize| {
        let (value, len) = varint(body.get(*at..)?)?;
        *at += len;
        Some(value)
    };
    let signed = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
    let in_block = usize::try_from(next(&mut at)?).ok()?;
    let parts = usize::try_from(next(&mut at)?).ok()?;
    let count = usize::try_from(next(&mut at)?).ok()?;
    let in_part = in_block.checked_div(parts)?;
    let shown = |value: i64| match kind {
        Type::INT32 => Some(Value::Number((value as i32).into())),
        Type::INT64 => Some(Value::Number(value.into())),
        _ => None,
    };
    let mut value = signed(next(&mut at)?);
    let mut values = Vec::with_capacity(places.len());
    // The number of `value` among all.
    let mut number = 0;
    while places.get(values.len()).is_some_and(|place| *place == number) {
        values.push(shown(value)?);
    }
    while values.len() < places.len() {
        if number + 1 >= count {
            return None;
        }
        let least = signed(next(&mut at)?);
        let widths = body.get(at..at.checked_add(parts)?)?;
        at += parts;
        for width in widths {
            let width = usize::from(*width).min(64);
            // Parts behind the last value are not there.
            if number + 1 >= count || values.len() == places.len() {
                break;
            }
            let size = in_part.checked_mul(width)?.div_ceil(8);
            let packed = body.get(at..body.len().min(at.checked_add(size)?))?;
            at += size;
            for within in 0..in_part.min(count - number - 1) {
                let difference = bits_at(packed, within * width, width)? as i64;
                value = value.wrapping_add(least).wrapping_add(difference);
                number += 1;
                while places.get(values.len()).is_some_and(|place| *place == number) {
                    values.push(shown(value)?);
                }
                if values.len() == places.len() {
                    break;
                }
            }
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet_file::hybrid;
    use crate::parquet_file::point::header::PageHeader;
    use proptest::prelude::*;

    /// Some places below `count`, ascending.
    fn places(count: usize) -> impl Strategy<Value = Vec<usize>> {
        prop::collection::btree_set(0..count, 0..12).prop_map(|places| places.into_iter().collect())
    }

    fn runs() -> impl Strategy<Value = (Vec<u32>, Vec<usize>)> {
        let runs = prop::collection::vec((0u32..5, prop_oneof![4 => 1usize..4, 1 => 8usize..60]), 1..40);
        runs.prop_flat_map(|runs| {
            let values: Vec<u32> = runs.into_iter().flat_map(|(value, count)| vec![value; count]).collect();
            let count = values.len();
            (Just(values), places(count))
        })
    }

    proptest! {
        #[test]
        fn indices_are_those_that_were_written((values, places) in runs(), width in 3usize..20) {
            let mut body = vec![width as u8];
            hybrid::encode(&values, width, &mut body);
            let expected: Vec<u32> = places.iter().map(|&place| values[place]).collect();
            prop_assert_eq!(dictionary_indices(&body, &places), Some(expected));
            prop_assert_eq!(dictionary_indices(&body[..1], &[0]), None);
        }

        #[test]
        fn rows_that_are_not_null_are_counted((values, rows) in runs()) {
            let bits: Vec<u32> = values.iter().map(|value| u32::from(*value > 1)).collect();
            let mut levels = Vec::new();
            hybrid::encode(&bits, 1, &mut levels);
            let before = |row: usize| bits[..row].iter().filter(|bit| **bit == 1).count();
            let expected: Vec<Option<usize>> = rows.iter().map(|&row| (bits[row] == 1).then(|| before(row))).collect();
            prop_assert_eq!(validity(&levels, &rows), Some(expected));
        }

        /// Whatever the bytes are, there is an answer.
        #[test]
        fn any_bytes_are_decoded_or_refused(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..60),
            places in places(3_000),
            width in 0usize..20,
        ) {
            let body = Bytes::from(bytes.clone());
            let _ = (validity(&bytes, &places), dictionary_indices(&bytes, &places), starts(&bytes, 50));
            let _ = PageHeader::read(&bytes);
            for kind in [
                Type::BOOLEAN, Type::INT32, Type::INT64, Type::FLOAT, Type::DOUBLE, Type::BYTE_ARRAY,
                Type::FIXED_LEN_BYTE_ARRAY,
            ] {
                let _ = (plain(kind, width, &body, &places), packed_differences(kind, &bytes, &places));
            }
        }
    }
}
