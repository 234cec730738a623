//! Segments that were lost, and were dropped by somebody who was told what they had.
//!
//! Invariants:
//! - The manifest remembers them as long as there is the table: so that rows which are missing are explained, and no check takes them for a
//!   defect.
//! - Kills that name their rows stay in files that have others, and are passed over, as those of segments that were merged.

use crate::manifest::TableFiles;
use alluvia_tree::SegmentMeta;
use alluvia_types::{SegmentId, Version};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A segment that is gone with its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Forgotten {
    /// Its id.
    pub segment: SegmentId,
    /// How many rows it had.
    pub rows: u64,
    /// Those of them that were dead.
    #[serde(default)]
    pub dead: u64,
    /// The oldest row's version.
    pub from: Version,
    /// The newest row's version.
    pub through: Version,
}

impl Forgotten {
    /// Of a segment of which so many rows are dead.
    pub fn new(meta: &SegmentMeta, dead: u64) -> Forgotten {
        let SegmentMeta { id, rows, min_version, max_version, .. } = *meta;
        Forgotten { segment: id, rows, dead, from: min_version, through: max_version }
    }
}

/// A sentence's part: what is lost with it.
impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Forgotten { segment, rows, dead, from, through } = self;
        let alive = rows.saturating_sub(*dead);
        write!(f, "segment {segment} with {alive} rows")?;
        if *dead > 0 {
            write!(f, " (and {dead} that were deleted or replaced before)")?;
        }
        write!(f, " of versions {from} to {through}")
    }
}

impl TableFiles {
    /// Drops a segment, and remembers that. Returns what was said of it; `None` if there is no such segment.
    pub fn forget(&mut self, segment: SegmentId, dead: u64) -> Option<SegmentMeta> {
        let partitions = self.partitions.iter_mut().map(|partition| &mut partition.segments);
        let lists = [&mut self.sorted, &mut self.buffer].into_iter().chain(partitions);
        let mut gone = None;
        for list in lists {
            if let Some(at) = list.iter().position(|meta| meta.id == segment) {
                gone = Some(list.remove(at));
            }
        }
        self.forgotten.extend(gone.iter().map(|meta| Forgotten::new(meta, dead)));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_manifest_as_the_format_says_and_may_be_left_out() {
        let lost = Forgotten { segment: SegmentId(7), rows: 10, dead: 2, from: Version(3), through: Version(5) };
        assert_eq!(
            lost.to_string(),
            "segment 7 with 8 rows (and 2 that were deleted or replaced before) of versions 3 to 5"
        );
        let files = TableFiles { forgotten: vec![lost], dropped: 4, ..TableFiles::default() };
        let text = serde_json::to_string(&files).expect("it is written");
        let expected = r#""forgotten":[{"segment":7,"rows":10,"dead":2,"from":3,"through":5}]"#;
        assert!(text.contains(expected), "{text}");
        let read: TableFiles = serde_json::from_str(&text).expect("it is read");
        assert_eq!((read.forgotten.as_slice(), read.gone()), ([lost].as_slice(), 14));
        let none = serde_json::to_string(&TableFiles::default()).expect("it is written");
        assert!(!none.contains("forgotten"), "{none}");
        assert!(serde_json::from_str::<TableFiles>(&none).expect("it is read").forgotten.is_empty());
    }
}
