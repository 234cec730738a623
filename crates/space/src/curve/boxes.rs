//! From a key's prefix back to the box of points that share it.

/// An axis-aligned box, ends included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CurveBox {
    /// The lowest coordinate on each axis.
    pub low: Vec<u32>,
    /// The highest coordinate on each axis.
    pub high: Vec<u32>,
}

impl CurveBox {
    /// Whether the box contains a point.
    pub fn contains(&self, point: &[u32]) -> bool {
        let within = point.iter().zip(self.low.iter().zip(&self.high));
        within.into_iter().all(|(at, (low, high))| low <= at && at <= high)
    }
}

/// Hands a key's known bits to a curve and collects what they say of each axis.
pub(super) struct Walk {
    key: u128,
    /// Bits of the key not yet taken.
    left: u32,
    /// Bits of the key that are known, of those not yet taken.
    known: u32,
    unknown: Vec<u8>,
    point: Vec<u32>,
}

impl Walk {
    pub(super) fn new(bits: &[u8], key: u128, prefix_bits: u32) -> Walk {
        let left = bits.iter().map(|&bits| u32::from(bits)).sum();
        Walk { key, left, known: prefix_bits, unknown: bits.to_vec(), point: vec![0; bits.len()] }
    }

    /// The next bit of the key, while it is known.
    pub(super) fn next_bit(&mut self) -> Option<u64> {
        if self.known == 0 {
            return None;
        }
        self.known -= 1;
        self.left -= 1;
        Some((self.key >> self.left) as u64 & 1)
    }

    /// The next bit of an axis, from the top.
    pub(super) fn halve(&mut self, axis: usize, upper: bool) {
        self.unknown[axis] -= 1;
        self.point[axis] |= u32::from(upper) << self.unknown[axis];
    }

    pub(super) fn finish(self) -> CurveBox {
        let high = self.point.iter().zip(&self.unknown).map(|(low, &unknown)| low | ((1u64 << unknown) - 1) as u32);
        CurveBox { high: high.collect(), low: self.point }
    }
}
