//! Answers that go on where a read meets damage to what is derived from rows: a rung of a ladder, or a segment's side file.
//!
//! Invariants:
//! - Whoever meets damage has marked it ([`alluvia_tree::Segment::is_damaged`]): a rung is not read again, so the answer is asked for once
//!   more, from thicker rungs or from the segment. Where a side file is damaged the general way answers, from the rows themselves as far as
//!   it can.
//! - Nothing is taken for right that is damaged: an answer is one whose every byte has passed its checksum, or an error.

use alluvia_snapshot::TableRead;
use alluvia_types::{ErrorKind, Result};

/// The answer of `ask`, or `None` for the general way, where damage keeps it from answering.
pub(crate) fn going_on<T>(read: &TableRead, ask: impl Fn() -> Result<Option<T>>) -> Result<Option<T>> {
    let mut known = 0;
    loop {
        match ask() {
            Err(error) if error.kind() == ErrorKind::Corrupt && damaged(read) > 0 => match damaged(read) {
                more if more > known => known = more,
                _ => return Ok(None),
            },
            answered => return answered,
        }
    }
}

/// How many segments and rungs of a table reads have found damaged.
fn damaged(read: &TableRead) -> usize {
    let of_one = |part: &alluvia_tree::Segment| {
        let rungs = part.rungs().iter().filter(|rung| rung.segment.is_damaged()).count();
        usize::from(part.is_damaged()) + rungs
    };
    read.segments.iter().map(|part| of_one(&part.segment)).sum()
}
