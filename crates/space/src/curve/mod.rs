//! Space-filling curves over coordinates of up to 64 dimensions and 128 bits in all.
//!
//! A curve maps a point, one unsigned coordinate per axis, to a key, so that rows in key order are near each other in
//! space. Axes may have different numbers of bits; no bit is wasted on the shorter ones (*compact* indices).
//!
//! Invariants:
//! - A curve is a bijection between points and the keys below 2^(sum of bits).
//! - The points whose keys share a bit-prefix form an axis-aligned box (`prefix_box`), so parts of the key space never
//!   overlap in space. It holds because each bit of a key halves one axis, chosen by the bits before it.
//! - An axis's bits are used from its top bit down.
//! - The order of keys is part of the disk format and never changes.
//!
//! Level by level: the top bits of all axes come first. At level i only the axes with more than i bits take part.

mod boxes;
mod hilbert;
mod table;
mod transpose;
mod z;

pub use boxes::CurveBox;

use crate::schema::Curve;

/// Most axes a curve can have.
pub const AXES_MAX: usize = 64;
/// Most bits a key can have.
pub const KEY_BITS_MAX: u32 = 128;
/// Most bits an axis can have.
pub const AXIS_BITS_MAX: u8 = 32;

/// A curve over axes of given bits, ready to encode.
#[derive(Clone, Debug)]
pub struct CurveMap {
    curve: Curve,
    bits: Vec<u8>,
    /// For each level, finest first: the axes that have a bit there, as a mask.
    active: Vec<u64>,
    tables: Option<table::Tables>,
}

impl CurveMap {
    /// A curve over axes with so many bits each.
    ///
    /// # Panics
    /// With more than 64 axes, 32 bits in one or 128 in all.
    pub fn new(curve: Curve, bits: &[u8]) -> CurveMap {
        assert!(bits.len() <= AXES_MAX, "{} axes are too many", bits.len());
        assert!(bits.iter().all(|&bits| bits <= AXIS_BITS_MAX), "an axis has more than {AXIS_BITS_MAX} bits");
        let total: u32 = bits.iter().map(|&bits| u32::from(bits)).sum();
        assert!(total <= KEY_BITS_MAX, "{total} bits are too many for a key");
        let levels = bits.iter().copied().max().unwrap_or(0);
        let mask = |level| (0..bits.len()).filter(|&axis| bits[axis] > level).map(|axis| 1 << axis).sum();
        let active: Vec<u64> = (0..levels).map(mask).collect();
        let small = bits.len() <= table::AXES_MAX;
        let tables = small.then(|| table::Tables::new(curve, bits.len() as u32, &active));
        CurveMap { curve, bits: bits.to_vec(), active, tables }
    }

    /// Bits of each axis.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Bits of a key.
    pub fn bits_total(&self) -> u32 {
        self.bits.iter().map(|&bits| u32::from(bits)).sum()
    }

    /// The key of a point. Coordinates must fit their axes.
    pub fn encode(&self, point: &[u32]) -> u128 {
        assert_eq!(point.len(), self.bits.len(), "a point has one coordinate per axis");
        let fits = |(&at, &bits): (&u32, &u8)| u64::from(at) < 1 << bits;
        assert!(point.iter().zip(&self.bits).all(fits), "a coordinate is outside its axis");
        let mut key = [0];
        let axes: Vec<&[u32]> = point.iter().map(std::slice::from_ref).collect();
        self.encode_all(&axes, &mut key);
        key[0]
    }

    /// The keys of many points; `axes[a][i]` is coordinate a of point i, and must fit its axis.
    pub fn encode_all(&self, axes: &[&[u32]], keys: &mut [u128]) {
        assert_eq!(axes.len(), self.bits.len(), "points have one coordinate per axis");
        assert!(axes.iter().all(|axis| axis.len() == keys.len()), "every point needs every coordinate");
        if self.bits.is_empty() {
            keys.fill(0);
            return;
        }
        let mut words = transpose::LevelWords::new(axes.len(), self.active.len());
        for (at, key) in keys.iter_mut().enumerate() {
            let words = words.of(axes, at);
            *key = match (&self.tables, self.curve) {
                (Some(tables), _) => tables.encode(words),
                (None, Curve::Hilbert) => hilbert::encode(self.bits.len() as u32, &self.active, words),
                (None, Curve::Z) => z::encode(&self.active, words),
            };
        }
    }

    /// The point of a key.
    pub fn decode(&self, key: u128) -> Vec<u32> {
        self.prefix_box(key, self.bits_total()).low
    }

    /// The box of all points whose keys begin with the top `prefix_bits` of `key`.
    pub fn prefix_box(&self, key: u128, prefix_bits: u32) -> CurveBox {
        let total = self.bits_total();
        assert!(prefix_bits <= total, "a prefix of {prefix_bits} bits of a key of {total}");
        assert!(total == 128 || key >> total == 0, "a key of more than {total} bits");
        let mut walk = boxes::Walk::new(&self.bits, key, prefix_bits);
        match self.curve {
            Curve::Hilbert => hilbert::walk(self.bits.len() as u32, &self.active, &mut walk),
            Curve::Z => z::walk(self.bits.len() as u32, &self.active, &mut walk),
        }
        walk.finish()
    }
}

#[cfg(test)]
mod tests;
