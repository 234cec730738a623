//! The streams of the stripe that is being filled: in memory, or, of many columns, in a file that is gone when its writer is.
//!
//! A stripe lies in the side file stream by stream, and its blocks come one by one with a piece of each stream. So all of it waits. What does
//! not fit in memory is written down as it comes and read again stream by stream.

use crate::context::{TreeContext, nameless_file};
use alluvia_storage::DiskFile;
use alluvia_types::{Error, Result, SegmentId};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// What waits of one stripe.
pub(super) struct Waiting {
    streams: Vec<Vec<u8>>,
    bytes_max: usize,
    /// Where the file is made, and the file, once there was one.
    path: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
    /// Bytes of the file that belong to this stripe.
    len: u64,
    /// Where each stream's pieces lie in the file.
    pieces: Vec<Vec<Range<u64>>>,
}

impl Waiting {
    /// Nothing of so many streams.
    pub(super) fn new(context: &TreeContext, id: SegmentId, streams: usize) -> Waiting {
        Waiting {
            streams: vec![Vec::new(); streams],
            bytes_max: context.waiting_bytes_max,
            path: context.waiting_path(id),
            file: None,
            len: 0,
            pieces: vec![Vec::new(); streams],
        }
    }

    /// How many streams.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Where the next bytes of a stream go.
    pub(super) fn stream(&mut self, at: usize) -> &mut Vec<u8> {
        &mut self.streams[at]
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.len + self.in_memory() as u64
    }

    fn in_memory(&self) -> usize {
        self.streams.iter().map(Vec::len).sum()
    }

    /// What does not fit goes to the file.
    pub(super) fn make_room(&mut self, context: &TreeContext) -> Result<()> {
        if self.in_memory() <= self.bytes_max {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = nameless_file(context.disk.as_ref(), &self.path);
                self.file.insert(file.map_err(|error| Error::io(&self.path, "creating", &error))?)
            }
        };
        for (stream, pieces) in self.streams.iter_mut().zip(&mut self.pieces).filter(|(stream, _)| !stream.is_empty()) {
            let end = self.len + stream.len() as u64;
            file.write_all_at(stream, self.len).map_err(|error| Error::io(&self.path, "writing", &error))?;
            pieces.push(self.len..end);
            self.len = end;
            // The capacity is given back, too: that of all streams is what does not fit.
            *stream = Vec::new();
        }
        Ok(())
    }

    /// All bytes of one stream, which do not wait any more.
    pub(super) fn take(&mut self, at: usize) -> Result<Vec<u8>> {
        let pieces = std::mem::take(&mut self.pieces[at]);
        let Some(file) = self.file.as_ref().filter(|_| !pieces.is_empty()) else {
            return Ok(std::mem::take(&mut self.streams[at]));
        };
        let last = std::mem::take(&mut self.streams[at]);
        let len: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let mut stream = vec![0; len as usize];
        let mut rest = stream.as_mut_slice();
        for piece in pieces {
            let (now, later) = rest.split_at_mut((piece.end - piece.start) as usize);
            file.read_exact_at(now, piece.start).map_err(|error| Error::io(&self.path, "reading", &error))?;
            rest = later;
        }
        stream.extend_from_slice(&last);
        Ok(stream)
    }

    /// Room for the next bytes of a stream that was taken; of those that went through the file none is kept.
    pub(super) fn give_back(&mut self, at: usize, empty: Vec<u8>) {
        if self.file.is_none() {
            self.streams[at] = empty;
        }
    }

    /// After all streams were taken: the file is used from its start again.
    pub(super) fn restart(&mut self) {
        self.len = 0;
    }
}
