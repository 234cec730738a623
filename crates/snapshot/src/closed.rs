//! Tables that are closed: a file of theirs is missing or damaged, and the others go on.
//!
//! Invariants:
//! - A closed table is neither read nor written. Its files stay as they are, and so does what the manifest says of them: once what is missing
//!   is restored, the next start opens it.
//! - Rows that the log has of it above the version of its files, and that kill none, are sorted as those of any table, and stand behind what
//!   is closed.
//! - Where the log has anything else of it, all of that stays in the log: which rows it kills could not be found without those that are
//!   there. So the log is kept from that version on ([`Held`]), with all that others have written since, and the definitions as of then; the
//!   segments of its staged loads stay, too. The start that opens the table reads the log from there on, takes of it what is not in files
//!   yet ([`Base::applies`]), and sorts it before anybody reads or writes: so there is one base again, as of one version.
//! - It can be dropped, which removes its files; or the segment that is lost can be forgotten, which opens it again: at once, or where the
//!   log is kept for it, at the next start.

use crate::manifest::{Base, TableFiles};
use alluvia_catalog::Catalog;
use alluvia_tree::SegmentMeta;
use alluvia_types::{Error, ErrorKind, TableId, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// From where on the log is kept for tables that are closed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Held {
    /// The log has everything above this version.
    pub after: Version,
    /// The definitions as of it: records are read by those of their time.
    pub catalog: Catalog,
}

/// A table that could not be opened.
#[derive(Clone, Debug)]
pub struct ClosedTable {
    /// What the manifest said of it.
    pub files: TableFiles,
    /// Why: it names the file.
    pub error: Error,
    /// Whether what the log has of it stays there.
    pub is_held: bool,
    /// Segments of its staged loads that records of the log name, and no manifest does.
    pub staged: Vec<SegmentMeta>,
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

    /// A table of which the manifest said this.
    pub fn new(files: TableFiles, error: Error) -> ClosedTable {
        let is_held = files.held.is_some();
        ClosedTable { files, error, is_held, staged: Vec::new() }
    }

    /// The same, of which the log has more than rows that come.
    pub fn held(files: TableFiles, error: Error) -> ClosedTable {
        ClosedTable { is_held: true, ..ClosedTable::new(files, error) }
    }

    /// Every segment that it has.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentMeta> {
        self.files.segments().chain(&self.staged)
    }
}

impl Base {
    /// Why a table is neither read nor written; `None` if it is open. `catalog` has its name.
    pub fn check_open(&self, table: TableId, catalog: &Catalog) -> Result<(), Error> {
        let Some(closed) = self.closed.get(&table) else { return Ok(()) };
        let entry = catalog.by_id(table);
        Err(closed.refusal(entry.map_or("(dropped)", |entry| entry.def.name.as_str())))
    }

    /// Whether a record of the log has something of a table that is in no file of it, and is to be applied.
    pub fn applies(&self, table: TableId, version: Version) -> bool {
        let known = self.tables.get(&table).and_then(|files| files.held).unwrap_or(self.complete);
        version > known && self.closed.get(&table).is_none_or(|closed| !closed.is_held)
    }

    /// Notes that a record of the log has something of a table, and segments of a staged load, if that stays in the log and files do not
    /// have it: the log is kept for it. Returns whether that is so.
    pub fn hold(&mut self, table: TableId, version: Version, staged: &[SegmentMeta]) -> bool {
        let complete = self.complete;
        let Some(closed) = self.closed.get_mut(&table).filter(|closed| closed.is_held) else { return false };
        if version <= closed.files.held.unwrap_or(complete) {
            return false;
        }
        closed.files.held.get_or_insert(complete);
        let forgotten: Vec<_> = closed.files.forgotten.iter().map(|lost| lost.segment).collect();
        let kept = staged.iter().filter(|meta| !forgotten.contains(&meta.id));
        closed.staged.extend(kept.map(|meta| meta.clone().committed_as(version)));
        true
    }

    /// From where on the log is kept for tables that are closed, if it is.
    pub fn held(&self) -> Option<&Held> {
        let is_held = self.closed.values().any(|closed| closed.files.held.is_some());
        self.held.as_deref().filter(|_| is_held)
    }

    /// The version through which the log can be given up.
    pub fn log_given_up(&self) -> Version {
        self.held().map_or(self.through, |held| held.after.min(self.through))
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
    use std::sync::Arc;

    #[test]
    fn what_is_closed_is_carried_on_and_what_is_sorted_since_stands_behind_it() {
        let mark = |bytes| DictionaryMark { bytes, ..DictionaryMark::default() };
        let files = TableFiles { dictionary: Some(mark(7)), dropped: 3, ..TableFiles::default() };
        let error = Error::new(ErrorKind::Corrupt, "/db/segments/seg-1.parquet is missing");
        let mut base = Base::default();
        base.closed.insert(TableId(1), ClosedTable::new(files.clone(), error));
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

    #[test]
    fn the_log_is_kept_from_where_the_files_of_a_closed_table_end() {
        let (closed, open, behind) = (TableId(1), TableId(2), TableId(3));
        let error = Error::new(ErrorKind::Corrupt, "/db/segments/seg-1.parquet is missing");
        let held = Held { after: Version(4), catalog: Catalog::default() };
        let mut base =
            Base { through: Version(9), complete: Version(9), held: Some(Arc::new(held)), ..Base::default() };
        base.closed.insert(closed, ClosedTable::new(TableFiles::default(), error.clone()));
        assert!(base.applies(closed, Version(10)) && !base.hold(closed, Version(10), &[]), "rows that come are sorted");
        base.closed.insert(closed, ClosedTable::held(TableFiles::default(), error));
        base.tables.insert(behind, TableBase { held: Some(Version(6)), ..TableBase::default() });
        assert_eq!((base.held().is_none(), base.log_given_up()), (true, Version(9)), "the log has nothing of it");
        // What its files have, and what is another's.
        assert!(!base.hold(closed, Version(9), &[]) && !base.hold(open, Version(10), &[]));
        assert!(base.hold(closed, Version(10), &[]) && !base.hold(closed, Version(9), &[]));
        assert_eq!(base.closed[&closed].files.held, Some(Version(9)));
        assert_eq!((base.held().is_some(), base.log_given_up()), (true, Version(4)));
        let applies = |table, version| base.applies(table, Version(version));
        assert_eq!((applies(open, 9), applies(open, 10)), (false, true));
        assert_eq!((applies(behind, 6), applies(behind, 7), applies(closed, 10)), (false, true, false));
    }
}
