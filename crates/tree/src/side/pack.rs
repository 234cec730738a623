//! Packing of a block's keys and codes: fixed width, so that any row is found by multiplication.
//!
//! Keys ascend, so a block's keys share the bytes above the highest byte in which its first and last key differ: only the
//! bytes below are stored. Codes are stored less the block's smallest code, in 0, 1, 2 or 4 bytes: a block that holds one
//! member costs nothing.

/// Bytes per key of a block whose first and last key are these.
pub(crate) fn key_width(first: u128, last: u128) -> usize {
    (128 - (first ^ last).leading_zeros() as usize).div_ceil(8)
}

/// Appends the low bytes of each key, little-endian.
pub(crate) fn pack_keys(keys: &[u128], width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    // Whole words are written over each other; the slack of the last one is cut off.
    out.resize(start + keys.len() * width + 16, 0);
    for (at, key) in keys.iter().enumerate() {
        let at = start + at * width;
        out[at..at + 16].copy_from_slice(&key.to_le_bytes());
    }
    out.truncate(start + keys.len() * width);
}

/// Appends the keys that `packed` holds; `first` is the block's first key and gives the bytes not stored.
pub(crate) fn unpack_keys(packed: &[u8], width: usize, first: u128, rows: usize, out: &mut Vec<u128>) {
    assert_eq!(packed.len(), rows * width, "packed keys of a block have their width");
    if width == 0 {
        out.resize(out.len() + rows, first);
        return;
    }
    let mask = if width == 16 { u128::MAX } else { (1 << (8 * width)) - 1 };
    let prefix = first & !mask;
    let whole = packed.len().saturating_sub(16 - width) / width;
    out.reserve(rows);
    for at in 0..whole {
        let word: [u8; 16] = packed[at * width..at * width + 16].try_into().expect("16 bytes");
        out.push(u128::from_le_bytes(word) & mask | prefix);
    }
    for tail in packed[whole * width..].chunks_exact(width) {
        let mut word = [0; 16];
        word[..width].copy_from_slice(tail);
        out.push(u128::from_le_bytes(word) | prefix);
    }
}

/// Bytes per code of a block whose smallest and largest code are these.
pub(crate) fn code_width(min: u32, max: u32) -> usize {
    match max - min {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// Appends each code less `base`, little-endian.
pub(crate) fn pack_codes(codes: &[u32], width: usize, base: u32, out: &mut Vec<u8>) {
    match width {
        0 => {}
        1 => out.extend(codes.iter().map(|code| (code - base) as u8)),
        2 => pack_wide(codes, out, |code| ((code - base) as u16).to_le_bytes()),
        _ => pack_wide(codes, out, |code| (code - base).to_le_bytes()),
    }
}

fn pack_wide<const W: usize>(codes: &[u32], out: &mut Vec<u8>, bytes: impl Fn(u32) -> [u8; W]) {
    let start = out.len();
    out.resize(start + codes.len() * W, 0);
    for (place, code) in out[start..].chunks_exact_mut(W).zip(codes) {
        place.copy_from_slice(&bytes(*code));
    }
}

/// Appends the codes that `packed` holds.
pub(crate) fn unpack_codes(packed: &[u8], width: usize, base: u32, rows: usize, out: &mut Vec<u32>) {
    assert_eq!(packed.len(), rows * width, "packed codes of a block have their width");
    match width {
        0 => out.resize(out.len() + rows, base),
        1 => out.extend(packed.iter().map(|&byte| base.wrapping_add(byte.into()))),
        2 => out.extend(packed.chunks_exact(2).map(|code| {
            let code = u16::from_le_bytes(code.try_into().expect("2 bytes"));
            base.wrapping_add(code.into())
        })),
        _ => out.extend(packed.chunks_exact(4).map(|code| {
            let code = u32::from_le_bytes(code.try_into().expect("4 bytes"));
            base.wrapping_add(code)
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_come_back(shift in 0u32..128, mut keys in prop::collection::vec(any::<u128>(), 1..200)) {
            // Shifting makes blocks of every width.
            let prefix = if shift == 0 { 0 } else { keys[0] << (128 - shift) };
            keys.iter_mut().for_each(|key| *key = *key >> shift | prefix);
            keys.sort_unstable();
            let (first, last) = (keys[0], keys[keys.len() - 1]);
            let width = key_width(first, last);
            let mut packed = vec![7; 3];
            pack_keys(&keys, width, &mut packed);
            prop_assert_eq!(packed.len(), 3 + width * keys.len());
            let mut unpacked = Vec::new();
            unpack_keys(&packed[3..], width, first, keys.len(), &mut unpacked);
            prop_assert_eq!(unpacked, keys);
        }

        #[test]
        fn codes_come_back(shift in 0u32..32, offset: u32, codes in prop::collection::vec(any::<u32>(), 1..200)) {
            let span = u32::MAX >> shift;
            let base = offset.min(u32::MAX - span);
            let codes: Vec<u32> = codes.into_iter().map(|code| base + (code >> shift)).collect();
            let (min, max) = (*codes.iter().min().unwrap(), *codes.iter().max().unwrap());
            let width = code_width(min, max);
            let mut packed = Vec::new();
            pack_codes(&codes, width, min, &mut packed);
            prop_assert_eq!(packed.len(), width * codes.len());
            let mut unpacked = Vec::new();
            unpack_codes(&packed, width, min, codes.len(), &mut unpacked);
            prop_assert_eq!(unpacked, codes);
        }
    }

    #[test]
    fn widths_are_the_least_that_fit() {
        assert_eq!([key_width(0, 0), key_width(0, 1), key_width(1 << 8, 0), key_width(0, u128::MAX)], [0, 1, 2, 16]);
        assert_eq!([code_width(5, 5), code_width(5, 260), code_width(0, 256), code_width(0, u32::MAX)], [0, 1, 2, 4]);
    }
}
