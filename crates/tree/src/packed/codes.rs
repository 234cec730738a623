//! Packing of a block's keys and codes: fixed width, so that any row is found by multiplication.
//!
//! Keys ascend, so a block's keys share the bytes above the highest byte in which its first and last key differ: only
//! the bytes below are stored. Codes are stored less the block's smallest code, in 0, 1, 2 or 4 bytes: a block that
//! holds one member costs nothing, and NULL among dates far from it costs little.

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

/// What says how a block's codes at a level are packed: the smallest and largest code that is not 0, and whether any is
/// 0 beside others. Code 0 means NULL and may be far from the rest, so it is packed as 0 and the others from 1 on. A
/// block that holds 0 alone has `min` and `max` 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CodeBounds {
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) has_null: bool,
}

impl CodeBounds {
    /// Of some codes, at least one.
    pub(crate) fn of(codes: &[u32]) -> CodeBounds {
        // Less one, NULL is the largest of all: one pass finds the least code that is not NULL.
        let (min, max, top) = codes.iter().fold((u32::MAX, 0, 0), |(min, max, top), &code| {
            let less = code.wrapping_sub(1);
            (less.min(min), code.max(max), less.max(top))
        });
        match max {
            0 => CodeBounds { min: 0, max: 0, has_null: false },
            _ => CodeBounds { min: min.wrapping_add(1), max, has_null: top == u32::MAX },
        }
    }

    /// Bytes per code.
    pub(crate) fn width(self) -> usize {
        // A NULL beside 2^32 - 1 other codes still fits: 0 and the codes less `base` are at most `max`.
        match self.max - self.base() {
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        }
    }

    /// What is subtracted from a code that is not NULL.
    pub(crate) fn base(self) -> u32 {
        self.min - u32::from(self.has_null)
    }
}

/// Appends a block's packed codes.
pub(crate) fn pack_codes(codes: &[u32], bounds: CodeBounds, out: &mut Vec<u8>) {
    let base = bounds.base();
    if bounds.has_null {
        pack_each(codes, bounds.width(), out, |code| code.saturating_sub(base));
    } else {
        pack_each(codes, bounds.width(), out, |code| code - base);
    }
}

fn pack_each(codes: &[u32], width: usize, out: &mut Vec<u8>, less: impl Fn(u32) -> u32) {
    match width {
        0 => {}
        1 => out.extend(codes.iter().map(|&code| less(code) as u8)),
        2 => pack_wide(codes, out, |code| (less(code) as u16).to_le_bytes()),
        _ => pack_wide(codes, out, |code| less(code).to_le_bytes()),
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
pub(crate) fn unpack_codes(packed: &[u8], bounds: CodeBounds, rows: usize, out: &mut Vec<u32>) {
    assert_eq!(packed.len(), rows * bounds.width(), "packed codes of a block have their width");
    let base = bounds.base();
    if bounds.has_null {
        let add = |packed: u32| if packed == 0 { 0 } else { base.wrapping_add(packed) };
        unpack_each(packed, bounds.width(), rows, out, add);
    } else {
        unpack_each(packed, bounds.width(), rows, out, |packed| base.wrapping_add(packed));
    }
}

fn unpack_each(packed: &[u8], width: usize, rows: usize, out: &mut Vec<u32>, add: impl Fn(u32) -> u32) {
    match width {
        0 => out.resize(out.len() + rows, add(0)),
        1 => out.extend(packed.iter().map(|&byte| add(byte.into()))),
        2 => out.extend(
            packed.chunks_exact(2).map(|code| add(u16::from_le_bytes(code.try_into().expect("2 bytes")).into())),
        ),
        _ => out.extend(packed.chunks_exact(4).map(|code| add(u32::from_le_bytes(code.try_into().expect("4 bytes"))))),
    }
}

/// The code of a row.
#[inline]
pub(crate) fn code_at(packed: &[u8], bounds: CodeBounds, width: usize, row: usize) -> u32 {
    let raw = match width {
        0 => return bounds.min,
        1 => u32::from(packed[row]),
        2 => u32::from(u16::from_le_bytes([packed[2 * row], packed[2 * row + 1]])),
        _ => u32::from_le_bytes(packed[4 * row..4 * row + 4].try_into().expect("4 bytes")),
    };
    if bounds.has_null && raw == 0 { 0 } else { bounds.base().wrapping_add(raw) }
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
        fn codes_come_back(
            shift in 0u32..32,
            offset: u32,
            nulls in prop::sample::select(vec![0u32, 3, 1]),
            draws in prop::collection::vec(any::<u32>(), 1..200),
        ) {
            let span = u32::MAX >> shift;
            let base = offset.min(u32::MAX - span);
            let code = |draw: u32| if nulls > 0 && draw.is_multiple_of(nulls) { 0 } else { base + (draw >> shift) };
            let codes: Vec<u32> = draws.into_iter().map(code).collect();
            let known: Vec<u32> = codes.iter().copied().filter(|&code| code > 0).collect();
            let bounds = CodeBounds::of(&codes);
            let (min, max) = (known.iter().min().copied(), known.iter().max().copied());
            prop_assert_eq!((bounds.min, bounds.max), (min.unwrap_or(0), max.unwrap_or(0)));
            prop_assert_eq!(bounds.has_null, !known.is_empty() && known.len() < codes.len());
            let mut packed = Vec::new();
            pack_codes(&codes, bounds, &mut packed);
            prop_assert_eq!(packed.len(), bounds.width() * codes.len());
            let mut unpacked = Vec::new();
            unpack_codes(&packed, bounds, codes.len(), &mut unpacked);
            prop_assert_eq!(unpacked, codes);
        }
    }

    #[test]
    fn widths_are_the_least_that_fit() {
        assert_eq!([key_width(0, 0), key_width(0, 1), key_width(1 << 8, 0), key_width(0, u128::MAX)], [0, 1, 2, 16]);
        let width = |codes: &[u32]| CodeBounds::of(codes).width();
        assert_eq!([width(&[5]), width(&[5, 260]), width(&[1, 257]), width(&[1, u32::MAX])], [0, 1, 2, 4]);
        assert_eq!([width(&[0, 0]), width(&[0, 1 << 31]), width(&[0, 5, 260])], [0, 1, 2]);
    }
}
