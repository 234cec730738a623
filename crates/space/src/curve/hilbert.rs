//! The compact Hilbert curve of Hamilton and Rau-Chaplin, "Compact Hilbert indices: Space-filling curves for domains with
//! unequal side lengths", Information Processing Letters 105 (2008), section 3 and algorithms 2 to 5.
//!
//! At each level the cube that the point is in is cut into 2^n, which a Gray code visits in order, turned and mirrored by the
//! state (entry corner `e`, direction `d`). Axes without a bit at a level are fixed there, and only the bits of the Gray
//! code's rank that are free enter the key (`extract`), which keeps the order of the full curve.
//!
//! A bit-prefix within a level is a box too: the first k bits of a rank w decide the first k bits of its Gray code
//! w ^ (w >> 1), and each bit of the Gray code halves one axis.

use super::boxes::Walk;

/// The turn and mirror of the curve within the current cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Entry corner, one bit per axis.
    pub(super) entry: u64,
    /// Direction of the exit from the entry, an axis.
    pub(super) direction: u32,
}

impl State {
    pub(super) const START: State = State { entry: 0, direction: 0 };

    /// From a corner of the cube to its rank along the curve (its Gray code undone).
    #[inline]
    pub(super) fn rank(self, axes: u32, word: u64) -> u64 {
        gray_inverse(rotate_right(word ^ self.entry, self.direction + 1, axes))
    }

    /// The state within the sub-cube of that rank.
    #[inline]
    pub(super) fn descend(self, axes: u32, rank: u64) -> State {
        let turn = rotate_left(entry_of(rank), self.direction + 1, axes);
        let direction = (self.direction + direction_of(rank, axes) + 1) % axes;
        State { entry: self.entry ^ turn, direction }
    }

    /// Which bits of a rank are free, when these axes take part.
    #[inline]
    pub(super) fn free(self, axes: u32, active: u64) -> u64 {
        rotate_right(active, self.direction + 1, axes)
    }
}

/// The key of a point given as one word of axis bits per level, finest first.
pub(super) fn encode(axes: u32, active: &[u64], words: &[u64]) -> u128 {
    let mut state = State::START;
    let mut key = 0u128;
    let all = all_axes(axes);
    for (&active, &word) in active.iter().zip(words).rev() {
        let rank = state.rank(axes, word);
        if active == all {
            key = key.unbounded_shl(axes) | u128::from(rank);
        } else {
            let (bits, count) = extract(rank, state.free(axes, active));
            key = key << count | u128::from(bits);
        }
        state = state.descend(axes, rank);
    }
    key
}

/// Takes the known bits of a key apart.
pub(super) fn walk(axes: u32, active: &[u64], walk: &mut Walk) {
    let mut state = State::START;
    for &active in active.iter().rev() {
        let free = state.free(axes, active);
        // Fixed axes have coordinate bit 0, which the mirror turns into the entry's bit.
        let fixed = rotate_right(state.entry, state.direction + 1, axes) & !free;
        let mut rank = 0;
        let mut above = 0;
        for at in (0..axes).rev() {
            let (rank_bit, gray_bit) = if free >> at & 1 == 1 {
                let Some(bit) = walk.next_bit() else { return };
                let gray = bit ^ above;
                let axis = (at + state.direction + 1) % axes;
                walk.halve(axis as usize, gray ^ (state.entry >> axis & 1) == 1);
                (bit, gray)
            } else {
                let gray = fixed >> at & 1;
                (gray ^ above, gray)
            };
            debug_assert_eq!(rank_bit ^ above, gray_bit);
            rank |= rank_bit << at;
            above = rank_bit;
        }
        state = state.descend(axes, rank);
    }
}

/// The bits of `rank` under `free`, closed up, and their count.
pub(super) fn extract(rank: u64, free: u64) -> (u64, u32) {
    let mut bits = 0;
    let mut left = free;
    let mut count = 0;
    while left != 0 {
        bits |= (rank >> left.trailing_zeros() & 1) << count;
        left &= left - 1;
        count += 1;
    }
    (bits, count)
}

pub(super) fn all_axes(axes: u32) -> u64 {
    u64::MAX >> (64 - axes)
}

#[inline]
fn gray(rank: u64) -> u64 {
    rank ^ rank >> 1
}

#[inline]
fn gray_inverse(mut gray: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        gray ^= gray >> shift;
    }
    gray
}

/// The entry corner of the sub-cube of a rank (theorem 2.10 there).
#[inline]
fn entry_of(rank: u64) -> u64 {
    if rank == 0 { 0 } else { gray((rank - 1) & !1) }
}

/// The direction within the sub-cube of a rank (lemma 2.8 there).
#[inline]
fn direction_of(rank: u64, axes: u32) -> u32 {
    match rank {
        0 => 0,
        rank if rank & 1 == 0 => (rank - 1).trailing_ones() % axes,
        rank => rank.trailing_ones() % axes,
    }
}

#[inline]
fn rotate_right(word: u64, by: u32, axes: u32) -> u64 {
    (word.unbounded_shr(by) | word.unbounded_shl(axes - by)) & all_axes(axes)
}

#[inline]
fn rotate_left(word: u64, by: u32, axes: u32) -> u64 {
    rotate_right(word, axes - by, axes)
}
