//! The side file: packed keys and codes by stripe, then sections.
//!
//! Invariants:
//! - Stripe `s` holds blocks `16 s .. 16 s + 16`. It is a sequence of streams: the keys, then one stream per level,
//!   then one per measure; a stream is its blocks one after the other, each packed by itself.
//! - Where everything lies follows from the bounds in the section `blocks`; the section `stripes` adds each stripe's
//!   offset and each stream's checksum.
//! - Readers skip sections of a kind they do not know: room for deletions and cuboids.
//!
//! Stripes are written while rows come in, so a writer holds one stripe, or what may wait of it in memory, and the summaries, whatever
//! the segment's size.

mod format;
mod read;
mod waiting;
mod write;

pub(crate) use format::{Header, SectionKind};
pub(crate) use read::{SideFile, Stripes};
pub(crate) use write::{OptionalSections, SideWriter};
