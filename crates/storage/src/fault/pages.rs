//! File contents in shared pages, so that keeping an old version of a file, or of a whole disk, costs no copies.
//!
//! Invariants:
//! - `pages` has exactly the pages that `len` needs; a missing one is all zeros.
//! - Bytes of the last page past `len` are zero, so that growing a file shows zeros, and equal files have equal pages.

use std::io;
use std::sync::Arc;

pub(super) const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    len: u64,
    pages: Vec<Option<Arc<Page>>>,
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Cuts, or extends with zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        self.pages.resize(len.div_ceil(PAGE_BYTES as u64) as usize, None);
        let tail = (len % PAGE_BYTES as u64) as usize;
        if len < self.len
            && tail != 0
            && let Some(Some(page)) = self.pages.last_mut()
        {
            Arc::make_mut(page)[tail..].fill(0);
        }
        self.len = len;
    }

    /// Writes all of `bytes`, growing the file if they end past it.
    pub(super) fn write(&mut self, mut bytes: &[u8], mut offset: u64) {
        let end = offset + bytes.len() as u64;
        if end > self.len {
            self.set_len(end);
        }
        while !bytes.is_empty() {
            let within = (offset % PAGE_BYTES as u64) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - within));
            let page =
                self.pages[(offset / PAGE_BYTES as u64) as usize].get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[within..within + now.len()].copy_from_slice(now);
            offset += now.len() as u64;
            bytes = later;
        }
    }

    /// Fills `buf` from `offset`. An empty one is filled wherever that is, as by the system.
    pub(super) fn read(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while !buf.is_empty() {
            let within = (offset % PAGE_BYTES as u64) as usize;
            let (now, later) = buf.split_at_mut((PAGE_BYTES - within).min(buf.len()));
            match &self.pages[(offset / PAGE_BYTES as u64) as usize] {
                Some(page) => now.copy_from_slice(&page[within..within + now.len()]),
                None => now.fill(0),
            }
            offset += now.len() as u64;
            buf = later;
        }
        Ok(())
    }

    /// Takes over from `other` the pages that `start..end` touches, as far as both files reach.
    pub(super) fn share(&mut self, other: &Pages, start: u64, end: u64) {
        let end = end.min(self.len).min(other.len).div_ceil(PAGE_BYTES as u64) as usize;
        for page in (start / PAGE_BYTES as u64) as usize..end {
            self.pages[page].clone_from(&other.pages[page]);
        }
    }

    /// Every page in order, zeros where there is none.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Page> {
        static ZEROS: Page = [0; PAGE_BYTES];
        self.pages.iter().map(|page| page.as_deref().unwrap_or(&ZEROS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behave_as_a_vector(steps in prop::collection::vec((0..4u8, 0..20_000u64, 0..10_000usize), 1..30)) {
            let mut pages = Pages::default();
            let mut model: Vec<u8> = Vec::new();
            let mut kept: Vec<(Pages, Vec<u8>)> = Vec::new();
            for (i, (what, offset, len)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        pages.set_len(offset);
                        model.resize(offset as usize, 0);
                    }
                    1 => kept.push((pages.clone(), model.clone())),
                    _ => {
                        let bytes = vec![i as u8 + 1; len];
                        pages.write(&bytes, offset);
                        let end = offset as usize + len;
                        model.resize(model.len().max(end), 0);
                        model[offset as usize..end].copy_from_slice(&bytes);
                    }
                }
            }
            kept.push((pages, model));
            for (pages, model) in kept {
                prop_assert_eq!(pages.len(), model.len() as u64);
                let mut found = vec![9; model.len()];
                pages.read(&mut found, 0).expect("reads");
                prop_assert!(found == model);
                prop_assert!(pages.iter().flatten().skip(model.len()).all(|byte| *byte == 0));
                prop_assert!(pages.read(&mut [0], model.len() as u64).is_err());
            }
        }
    }
}
