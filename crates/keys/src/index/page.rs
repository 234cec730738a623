//! Some dozens of entries, packed and sorted.
//!
//! Invariants:
//! - An entry is a remainder of some bytes and a place of six. Entries ascend by remainder, and no two have the same one.
//! - How wide remainders are is known to whoever owns the page, and said with each call.

/// Bytes of a place.
const PLACE_BYTES: usize = 6;
/// Entries are added for so many at once, and an eighth of what there is.
const GROWTH_MIN: usize = 4;

/// How an entry of a page is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Bits of a remainder.
    pub(super) bits: u32,
    /// Bytes that it takes.
    bytes: usize,
}

impl Shape {
    /// Of remainders with so many bits.
    pub(super) fn new(bits: u32) -> Shape {
        Shape { bits, bytes: bits.div_ceil(8) as usize }
    }

    fn entry(self) -> usize {
        self.bytes + PLACE_BYTES
    }
}

/// Entries that ascend by remainder.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    bytes: Vec<u8>,
}

impl Page {
    pub(super) fn len(&self, shape: Shape) -> usize {
        self.bytes.len() / shape.entry()
    }

    /// Bytes of memory that its entries take.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The place of a remainder.
    pub(super) fn get(&self, shape: Shape, remainder: u128) -> Option<u64> {
        let at = self.find(shape, remainder).ok()?;
        Some(self.entry(shape, at).1)
    }

    /// Sets the place of a remainder; returns the one before.
    pub(super) fn insert(&mut self, shape: Shape, remainder: u128, place: u64) -> Option<u64> {
        match self.find(shape, remainder) {
            Ok(at) => {
                let before = self.entry(shape, at).1;
                self.write(shape, at, remainder, place);
                Some(before)
            }
            Err(at) => {
                self.grow(shape);
                let (start, end) = (at * shape.entry(), self.bytes.len());
                self.bytes.resize(end + shape.entry(), 0);
                self.bytes.copy_within(start..end, start + shape.entry());
                self.write(shape, at, remainder, place);
                None
            }
        }
    }

    /// Takes a remainder out; returns its place.
    pub(super) fn remove(&mut self, shape: Shape, remainder: u128) -> Option<u64> {
        let at = self.find(shape, remainder).ok()?;
        let place = self.entry(shape, at).1;
        let start = at * shape.entry();
        self.bytes.drain(start..start + shape.entry());
        Some(place)
    }

    /// Adds an entry behind all others, wherever it belongs: [`Page::sort`] must follow.
    pub(super) fn push(&mut self, shape: Shape, remainder: u128, place: u64) {
        self.grow(shape);
        let at = self.len(shape);
        self.bytes.resize(self.bytes.len() + shape.entry(), 0);
        self.write(shape, at, remainder, place);
    }

    /// Sorts entries that were pushed. Tells the places of two that have one remainder.
    pub(super) fn sort(&mut self, shape: Shape) -> Result<(), (u64, u64)> {
        let mut entries: Vec<(u128, u64)> = self.entries(shape).collect();
        entries.sort_unstable();
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err((pair[0].1, pair[1].1));
        }
        for (at, (remainder, place)) in entries.into_iter().enumerate() {
            self.write(shape, at, remainder, place);
        }
        Ok(())
    }

    /// The entries, in order.
    pub(super) fn entries(&self, shape: Shape) -> impl Iterator<Item = (u128, u64)> + '_ {
        (0..self.len(shape)).map(move |at| self.entry(shape, at))
    }

    /// Takes the entries apart by the low bit of their remainders, which from then on lack it: the new page has those that had it.
    pub(super) fn split(&mut self, shape: Shape) -> Page {
        let narrower = Shape::new(shape.bits - 1);
        let (mut low, mut high) = (Page::default(), Page::default());
        let entries = self.len(shape);
        low.bytes.reserve_exact((entries / 2 + entries / 16 + GROWTH_MIN) * narrower.entry());
        high.bytes.reserve_exact((entries / 2 + entries / 16 + GROWTH_MIN) * narrower.entry());
        for (remainder, place) in self.entries(shape) {
            let page = if remainder & 1 == 0 { &mut low } else { &mut high };
            page.push(narrower, remainder >> 1, place);
        }
        *self = low;
        high
    }

    /// Where a remainder is, or belongs: remainders are evenly spread, so it is looked for from where it should be.
    fn find(&self, shape: Shape, remainder: u128) -> Result<usize, usize> {
        let len = self.len(shape);
        // Of long remainders the upper bits say enough.
        let upper = |number: u128| (number >> shape.bits.saturating_sub(64)) as u64;
        let mut at = ((u128::from(upper(remainder)) * len as u128) >> shape.bits.min(64)) as usize;
        while at < len && self.remainder(shape, at) < remainder {
            at += 1;
        }
        while at > 0 && self.remainder(shape, at - 1) >= remainder {
            at -= 1;
        }
        if at < len && self.remainder(shape, at) == remainder { Ok(at) } else { Err(at) }
    }

    fn remainder(&self, shape: Shape, at: usize) -> u128 {
        number(&self.bytes[at * shape.entry()..], shape.bytes)
    }

    fn entry(&self, shape: Shape, at: usize) -> (u128, u64) {
        let start = at * shape.entry();
        let place = number(&self.bytes[start + shape.bytes..], PLACE_BYTES) as u64;
        (self.remainder(shape, at), place)
    }

    fn write(&mut self, shape: Shape, at: usize, remainder: u128, place: u64) {
        let entry = &mut self.bytes[at * shape.entry()..][..shape.entry()];
        entry[..shape.bytes].copy_from_slice(&remainder.to_le_bytes()[..shape.bytes]);
        entry[shape.bytes..].copy_from_slice(&place.to_le_bytes()[..PLACE_BYTES]);
    }

    /// Makes room for one more entry.
    fn grow(&mut self, shape: Shape) {
        if self.bytes.len() + shape.entry() > self.bytes.capacity() {
            let entries = (self.len(shape) / 8).max(GROWTH_MIN);
            self.bytes.reserve_exact(entries * shape.entry());
        }
    }
}

/// The number in the first bytes of some.
fn number(bytes: &[u8], count: usize) -> u128 {
    let word = match bytes.first_chunk::<16>() {
        Some(word) => u128::from_le_bytes(*word),
        None => {
            let mut word = [0; 16];
            word[..bytes.len()].copy_from_slice(bytes);
            u128::from_le_bytes(word)
        }
    };
    word & (u128::MAX >> (128 - 8 * count))
}
