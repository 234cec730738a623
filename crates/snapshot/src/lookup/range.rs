//! Rows whose keys lie between two.

use super::SnapshotRow;
use crate::snapshot::TableRead;
use alluvia_space::key_code::{CodeRange, KeyCoder};
use alluvia_types::{Result, planted};

impl TableRead {
    /// Rows among which are all whose keys' codes lie between two, at most so many, in the order in which they lie; `None` where there
    /// are more, or where that is not known without reading the keys of all rows. No dead row is among them.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub fn find_between(&self, coder: &KeyCoder, codes: CodeRange, most: usize) -> Result<Option<Vec<SnapshotRow>>> {
        // Which rows of these count, their versions say.
        if self.segments.iter().any(|rows| rows.above.is_some() || rows.through.is_some()) {
            return Ok(None);
        }
        let mut found = Vec::new();
        let mut is_known = true;
        for (segment, rows) in self.segments.iter().enumerate() {
            // All are asked: each counts how often it was.
            match rows.segment.rows_between(coder, codes, most)? {
                Some(between) if is_known => {
                    let dead = rows.dead.as_ref().filter(|_| !planted("dead row between keys"));
                    let is_alive = |row: &u32| dead.is_none_or(|dead| !dead.contains((*row).into()));
                    found.extend(between.into_iter().filter(is_alive).map(|row| SnapshotRow::Segment { segment, row }));
                    is_known = found.len() <= most;
                }
                Some(_) => {}
                None => is_known = false,
            }
        }
        if !is_known {
            return Ok(None);
        }
        for (run, rows) in self.tail.iter().enumerate().filter(|_| !planted("tail passed over between keys")) {
            let all = (0..).zip(coder.codes(&rows.rows)?);
            let between = all.filter(|(_, code)| (codes.0..=codes.1).contains(code));
            found.extend(between.map(|(row, _)| SnapshotRow::Tail { run, row }));
        }
        Ok((found.len() <= most).then_some(found))
    }
}
