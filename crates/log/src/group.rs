//! A group: the records that one write and one fsync make durable, and those who wait for that.
//!
//! Invariants:
//! - A group's bytes are final when it is taken, but for its header, whose place is kept free at the front of the first
//!   chunk, so that header and small records go out in one write.
//! - An outcome is decided once. All who wait on it are woken by one call: the followers of a group wake together and
//!   take no lock that the next group needs.
//!
//! Cost: a record below [`SHARED_BYTES_MAX`] is copied once, into the chunk it shares with its neighbours; a larger one
//! that was handed over is not copied at all and is written from where it lies.

use crate::format::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, GROUP_HEADER_BYTES, GroupHeader};
use alluvia_types::{Result, Version};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bodies up to this size share a chunk.
pub(crate) const SHARED_BYTES_MAX: usize = 64 << 10;

/// A chunk is kept for reuse up to this size.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// How a group ended, for those who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    decided: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Outcome {
    /// Decides it, unless it is decided, and wakes all who wait.
    pub fn decide(&self, result: Result<()>) {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if decided.is_none() {
            *decided = Some(result);
            drop(decided);
            self.changed.notify_all();
        }
    }

    /// Waits until it is decided.
    pub fn wait(&self) -> Result<()> {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*decided {
                Some(result) => return result.clone(),
                None => decided = self.changed.wait(decided).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A body on its way into the log.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// At most [`SHARED_BYTES_MAX`]; copied.
    Small(&'a [u8]),
    /// Kept as it is.
    Large(Vec<u8>),
}

impl Body<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Small(bytes) => bytes,
            Body::Large(bytes) => bytes,
        }
    }
}

/// Records that accumulate.
#[derive(Debug)]
pub(crate) struct Group {
    /// In file order. The first one begins with room for the group header.
    chunks: Vec<Vec<u8>>,
    /// Whether the last chunk is shared, so that more may be added to it.
    is_open: bool,
    bytes: u64,
    last_version: Version,
    /// Whether someone has taken it upon itself to write it.
    pub has_leader: bool,
    pub outcome: Arc<Outcome>,
}

impl Group {
    /// An empty group after `last_version`; `spare` is an old chunk to use again.
    pub fn new(last_version: Version, spare: Vec<u8>) -> Group {
        let mut first = spare;
        first.clear();
        first.resize(GROUP_HEADER_BYTES, 0);
        let bytes = GROUP_HEADER_BYTES as u64;
        let outcome = Arc::default();
        Group { chunks: vec![first], is_open: true, bytes, last_version, has_leader: false, outcome }
    }

    /// Whether it holds no records.
    pub fn is_empty(&self) -> bool {
        self.bytes == GROUP_HEADER_BYTES as u64
    }

    /// Length in the file, header included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The last version in it, or before it when it is empty.
    pub fn last_version(&self) -> Version {
        self.last_version
    }

    /// Adds a body frame and its commit record.
    pub fn push(&mut self, version: Version, commit_micros: i64, body: Body<'_>, body_crc: u32, salt: u64) {
        let body_len = body.bytes().len() as u64;
        let commit = FrameHeader { kind: FrameKind::Commit, version, commit_micros, body_len, body_crc };
        let frame = FrameHeader { kind: FrameKind::Body, ..commit }.encode(salt);
        let open = self.open_chunk();
        open.extend_from_slice(&frame);
        match body {
            Body::Small(bytes) => open.extend_from_slice(bytes),
            Body::Large(bytes) => {
                self.chunks.push(bytes);
                self.is_open = false;
            }
        }
        self.open_chunk().extend_from_slice(&commit.encode(salt));
        self.bytes += body_len + 2 * FRAME_HEADER_BYTES as u64;
        self.last_version = version;
    }

    fn open_chunk(&mut self) -> &mut Vec<u8> {
        if !self.is_open {
            self.chunks.push(Vec::new());
            self.is_open = true;
        }
        self.chunks.last_mut().expect("a group has a first chunk")
    }

    /// Puts the header into its place.
    pub fn set_header(&mut self, header: &GroupHeader, salt: u64) {
        self.chunks[0][..GROUP_HEADER_BYTES].copy_from_slice(&header.encode(salt));
    }

    /// The bytes to be written one after the other.
    pub fn chunks(&self) -> &[Vec<u8>] {
        &self.chunks
    }

    /// Gives back a chunk worth using again.
    pub fn into_spare(mut self) -> Vec<u8> {
        let first = std::mem::take(&mut self.chunks[0]);
        if first.capacity() <= SPARE_BYTES_MAX { first } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Position;

    #[test]
    fn large_bodies_are_not_copied_and_small_ones_share_a_chunk() {
        let mut group = Group::new(Version(6), Vec::new());
        assert!(group.is_empty());
        let large = vec![7; SHARED_BYTES_MAX + 1];
        let address = large.as_ptr();
        group.push(Version(7), 0, Body::Small(b"one"), 1, 9);
        group.push(Version(8), 0, Body::Large(large), 2, 9);
        group.push(Version(9), 0, Body::Small(b"two"), 3, 9);
        assert_eq!(group.chunks().len(), 3);
        assert_eq!(group.chunks()[1].as_ptr(), address);
        assert_eq!(group.chunks().iter().map(|chunk| chunk.len() as u64).sum::<u64>(), group.bytes());
        assert_eq!(group.last_version(), Version(9));

        let at = Position { file: 1, offset: 64 };
        let header = GroupHeader { at, sequence: 1, durable: at };
        group.set_header(&header, 9);
        assert_eq!(GroupHeader::decode(&group.chunks()[0], 9, at), Some(header));
    }

    #[test]
    fn the_first_decision_stands() {
        let outcome = Outcome::default();
        outcome.decide(Ok(()));
        outcome.decide(Err(alluvia_types::Error::internal("late")));
        assert!(outcome.wait().is_ok());
    }
}
