//! Parquet's RLE/bit-packing hybrid (apache/parquet-format, Encodings.md), written eight values at a time.
//!
//! A group of eight equal values opens or extends a run; other groups are bit-packed. That finds every run of at least
//! fifteen equal values and needs no look at single values.

/// Bits that values up to `max` take.
pub(crate) fn bit_width(max: u32) -> usize {
    32 - max.leading_zeros() as usize
}

/// Appends `values`, each below 2^`width`.
pub(crate) fn encode(values: &[u32], width: usize, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    if width == 0 {
        return put_varint((values.len() as u64) << 1, out);
    }
    let groups = values.chunks_exact(8);
    let tail = groups.remainder();
    let count = groups.len();
    let group = |at: usize| &values[8 * at..8 * at + 8];
    let mut at = 0;
    // Where the bit-packed stretch before `at` began.
    let mut packed_from = 0;
    while at < count {
        let first = group(at)[0];
        if !is_run(group(at), first) {
            at += 1;
            continue;
        }
        let mut end = at + 1;
        while end < count && is_run(group(end), first) {
            end += 1;
        }
        // The run goes on into what follows, value by value, only where nothing more can be packed after it.
        let mut rows = 8 * (end - at);
        if end == count && tail.iter().all(|&value| value == first) {
            rows += tail.len();
        }
        put_packed(&values[8 * packed_from..8 * at], width, out);
        put_varint((rows as u64) << 1, out);
        out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8)]);
        if rows > 8 * (end - at) {
            return;
        }
        at = end;
        packed_from = end;
    }
    put_packed(&values[8 * packed_from..], width, out);
}

/// Appends a bitmap as definition levels (one bit each), already in Parquet's order.
pub(crate) fn encode_bitmap(bits: &[u8], len: usize, out: &mut Vec<u8>) {
    put_varint((len.div_ceil(8) as u64) << 1 | 1, out);
    out.extend_from_slice(&bits[..len.div_ceil(8)]);
}

/// Appends `len` times the same level, 0 or 1.
pub(crate) fn encode_level_run(level: u8, len: usize, out: &mut Vec<u8>) {
    put_varint((len as u64) << 1, out);
    out.push(level);
}

fn is_run(group: &[u32], value: u32) -> bool {
    group.iter().fold(0, |differs, &other| differs | (other ^ value)) == 0
}

/// One bit-packed run; the last group is filled up with zeros.
fn put_packed(values: &[u32], width: usize, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    put_varint((groups as u64) << 1 | 1, out);
    let start = out.len();
    // The packers write whole 32-byte scratch words; only their first `width` bytes count.
    out.resize(start + groups * width + 32, 0);
    pack_groups(values, width, &mut out[start..]);
    out.truncate(start + groups * width);
}

fn pack_groups(values: &[u32], width: usize, out: &mut [u8]) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => pack_each::<$width>(values, out),)*
                _ => unreachable!("a bit width is 1 to 32"),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

fn pack_each<const WIDTH: usize>(values: &[u32], out: &mut [u8]) {
    let groups = values.chunks_exact(8);
    let tail = groups.remainder();
    let mut at = 0;
    for group in groups {
        pack_group::<WIDTH>(group.try_into().expect("8 values"), &mut out[at..]);
        at += WIDTH;
    }
    if !tail.is_empty() {
        let mut group = [0; 8];
        group[..tail.len()].copy_from_slice(tail);
        pack_group::<WIDTH>(&group, &mut out[at..]);
    }
}

#[inline(always)]
fn pack_group<const WIDTH: usize>(group: &[u32; 8], out: &mut [u8]) {
    let mut words = [0u64; 5];
    for (at, &value) in group.iter().enumerate() {
        let bit = at * WIDTH;
        let wide = u128::from(value) << (bit % 64);
        words[bit / 64] |= wide as u64;
        words[bit / 64 + 1] |= (wide >> 64) as u64;
    }
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    if WIDTH <= 8 {
        out[..8].copy_from_slice(&bytes[..8]);
    } else if WIDTH <= 16 {
        out[..16].copy_from_slice(&bytes[..16]);
    } else {
        out[..32].copy_from_slice(&bytes);
    }
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow, obviously right reader.
    fn decode(mut bytes: &[u8], width: usize, len: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < len {
            let (mut header, mut shift) = (0u64, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                header |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let count = (header >> 1) as usize;
            if header & 1 == 0 {
                let mut value = [0; 4];
                value[..width.div_ceil(8)].copy_from_slice(&bytes[..width.div_ceil(8)]);
                bytes = &bytes[width.div_ceil(8)..];
                values.extend(std::iter::repeat_n(u32::from_le_bytes(value), count));
            } else {
                for at in 0..8 * count {
                    let bit = |bit: usize| u32::from(bytes[bit / 8] >> (bit % 8) & 1);
                    values.push((0..width).map(|of| bit(at * width + of) << of).sum());
                }
                bytes = &bytes[count * width..];
            }
        }
        assert!(bytes.is_empty());
        values.truncate(len);
        values
    }

    proptest! {
        #[test]
        fn values_come_back(
            width in 0usize..=32,
            runs in prop::collection::vec((any::<u32>(), 1usize..40, any::<bool>()), 0..20),
        ) {
            let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 };
            let mut values: Vec<u32> = Vec::new();
            for (value, len, run) in runs {
                values.extend((0..len as u32).map(|at| if run { value } else { value.wrapping_mul(at + 3) } & mask));
            }
            let mut bytes = vec![9];
            encode(&values, width, &mut bytes);
            prop_assert_eq!(decode(&bytes[1..], width, values.len()), values);
        }
    }

    #[test]
    fn levels_are_short() {
        let mut bytes = Vec::new();
        encode_level_run(1, 8192, &mut bytes);
        assert_eq!(decode(&bytes, 1, 8192), vec![1; 8192]);
        assert_eq!(bytes.len(), 4);
        let mut bytes = Vec::new();
        encode_bitmap(&[0b0000_0101, 1], 9, &mut bytes);
        assert_eq!(decode(&bytes, 1, 9), [1, 0, 1, 0, 0, 0, 0, 0, 1]);
    }
}
