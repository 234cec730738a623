//! Tables that are closed: a file of theirs is missing or damaged, and the others go on.
//!
//! Invariants:
//! - A closed table is neither read nor written. Its files stay as they are, and so does what the manifest says of them: once what is missing
//!   is restored, the next start opens it.
//! - What the log holds of it above the manifest's version is sorted as that of any table, and stands behind what is closed.
//! - It can be dropped, which removes its files; or the segment that is lost can be forgotten, which opens it again.

use crate::manifest::{Base, TableFiles};
use alluvia_catalog::Catalog;
use alluvia_tree::SegmentMeta;
use alluvia_types::{Error, ErrorKind, TableId};
use std::collections::BTreeMap;

/// A table that could not be opened.
#[derive(Clone, Debug)]
pub struct ClosedTable {
    /// What the manifest said of it.
    pub files: TableFiles,
    /// Why: it names the file.
    pub error: Error,
}

impl ClosedTable {
    /// What a statement is told that names it.
    pub fn refusal(&self, name: &str) -> Error {
        let message =
            format!("table '{name}' is closed, since a file of it is missing or damaged: {}", self.error.message());
        Error::new(ErrorKind::Corrupt, message).with_hint(
            "restore that file from a copy or a replica and start again; or say what is lost, and forget it (alluvia repair DIR, CALL \
             alluvia.forget_segment); other tables are whole, and alluvia check lists all that is damaged",
        )
    }

    /// Every segment that it has.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentMeta> {
        self.files.segments()
    }
}

impl Base {
    /// Why a table is neither read nor written; `None` if it is open. `catalog` has its name.
    pub fn check_open(&self, table: TableId, catalog: &Catalog) -> Result<(), Error> {
        let Some(closed) = self.closed.get(&table) else { return Ok(()) };
        let entry = catalog.by_id(table);
        Err(closed.refusal(entry.map_or("(dropped)", |entry| entry.def.name.as_str())))
    }

    /// What the manifest says of all tables.
    pub fn files(&self) -> BTreeMap<TableId, TableFiles> {
        let mut all: BTreeMap<TableId, TableFiles> =
            self.tables.iter().map(|(&id, table)| (id, table.files())).collect();
        for (&id, closed) in &self.closed {
            let mut files = closed.files.clone();
            if let Some(sorted) = all.remove(&id) {
                // Since it is closed it gets rows by sorts alone, and their dictionary has all members that there are.
                files.dictionary = sorted.dictionary.or(files.dictionary);
                files.ranges = sorted.ranges.or(files.ranges);
                files.dropped += sorted.dropped;
                files.kills.extend(sorted.kills);
                files.sorted.extend(sorted.sorted);
            }
            all.insert(id, files);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::TableBase;
    use alluvia_catalog::DictionaryMark;

    #[test]
    fn what_is_closed_is_carried_on_and_what_is_sorted_since_stands_behind_it() {
        let mark = |bytes| DictionaryMark { bytes, ..DictionaryMark::default() };
        let files = TableFiles { dictionary: Some(mark(7)), dropped: 3, ..TableFiles::default() };
        let error = Error::new(ErrorKind::Corrupt, "/db/segments/seg-1.parquet is missing");
        let mut base = Base::default();
        base.closed.insert(TableId(1), ClosedTable { files: files.clone(), error });
        base.tables.insert(TableId(2), TableBase { dropped: 5, ..TableBase::default() });
        let all = base.files();
        assert_eq!((all[&TableId(1)].dictionary.clone(), all[&TableId(2)].dropped), (files.dictionary, 5));
        base.tables.insert(TableId(1), TableBase { dictionary: Some(mark(9)), ..TableBase::default() });
        let all = base.files();
        assert_eq!((all[&TableId(1)].dictionary.clone(), all[&TableId(1)].dropped), (Some(mark(9)), 3));

        let refused = base.check_open(TableId(1), &Catalog::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        assert!(refused.message().contains("seg-1.parquet is missing") && refused.hint().is_some(), "{refused}");
        base.check_open(TableId(2), &Catalog::default()).unwrap();
    }
}
