//! A table of a snapshot as a transaction sees it that has killed some of its rows.
//!
//! Invariants:
//! - What is left out is dead in this one [`TableRead`], and nowhere else: nobody but its reader sees that.
//! - Nothing that is kept between statements may be made of it, or serve it. It says so as a table does of which others
//!   have killed rows: its tail is cut, and rows of it were killed at its version.

use crate::lookup::{SnapshotRow, identities_of};
use crate::snapshot::TableRead;
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::DeadRows;
use alluvia_types::{Error, Result, Version};
use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use std::collections::{BTreeMap, HashMap};

/// What tells a row for ever: its version and ordinal.
pub type Identity = (Version, u64);

impl TableRead {
    /// Where the rows with these identities are, `None` where there is no such row, by reading the identities of all rows
    /// that may have them.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub fn find_identities(&self, identities: &[Identity]) -> Result<Vec<Option<SnapshotRow>>> {
        let mut found = vec![None; identities.len()];
        let mut wanted: HashMap<Identity, Vec<usize>> = HashMap::with_capacity(identities.len());
        for (at, identity) in identities.iter().enumerate() {
            wanted.entry(*identity).or_default().push(at);
        }
        let (Some(least), Some(most)) = (identities.iter().min(), identities.iter().max()) else { return Ok(found) };
        let mut place = |identity: Identity, row: SnapshotRow| {
            for &at in wanted.get(&identity).into_iter().flatten() {
                found[at] = Some(row);
            }
        };
        let columns = [(VERSION_COLUMN, DataType::UInt64), (ORDINAL_COLUMN, DataType::UInt64)];
        for (segment, rows) in self.segments.iter().enumerate() {
            let meta = rows.segment.meta();
            if meta.min_version > most.0 || meta.max_version < least.0 {
                continue;
            }
            let mut row = 0;
            for batch in rows.segment.column_batches(&columns)? {
                for identity in identities_of(&batch?)? {
                    place(identity, SnapshotRow::Segment { segment, row });
                    row += 1;
                }
            }
        }
        for (run, rows) in self.tail.iter().enumerate() {
            for (row, identity) in (0..).zip(identities_of(&rows.rows)?) {
                place(identity, SnapshotRow::Tail { run, row });
            }
        }
        Ok(found)
    }

    /// Leaves these rows out, which the reader has killed: he reads at version `at`. Rows of the tail that are left have
    /// other places from then on.
    ///
    /// # Errors
    /// `Internal` if there is no such row.
    pub fn leave_out(&mut self, rows: impl IntoIterator<Item = SnapshotRow>, at: Version) -> Result<()> {
        let mut of_segments: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut of_runs: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for row in rows {
            match row {
                SnapshotRow::Segment { segment, row } => of_segments.entry(segment).or_default().push(row.into()),
                SnapshotRow::Tail { run, row } => of_runs.entry(run).or_default().push(row),
            }
        }
        if !of_segments.is_empty() || !of_runs.is_empty() {
            self.killed_through = self.killed_through.max(at);
        }
        for (segment, killed) in of_segments {
            let rows = self.segments.get_mut(segment).ok_or_else(not_there)?;
            rows.dead = DeadRows::and(rows.dead.as_ref(), killed, at);
        }
        for (run, killed) in of_runs {
            let run = self.tail.get_mut(run).ok_or_else(not_there)?;
            let mut is_left = vec![true; run.rows.num_rows()];
            for row in killed {
                *is_left.get_mut(row as usize).ok_or_else(not_there)? = false;
            }
            run.rows = filter_record_batch(&run.rows, &BooleanArray::from(is_left))
                .map_err(|error| Error::internal(format!("rows of the tail cannot be left out: {error}")))?;
            self.is_tail_cut = true;
        }
        self.tail.retain(|run| run.rows.num_rows() > 0);
        Ok(())
    }
}

fn not_there() -> Error {
    Error::internal("a row that is left out of a snapshot is not there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::TailRead;
    use alluvia_catalog::TableEntry;
    use alluvia_space::{Column, TableDef, TableOptions, TableRules};
    use alluvia_types::{ColumnId, TableId};
    use arrow::array::{RecordBatch, UInt64Array};
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    fn run(version: u64, rows: u64) -> TailRead {
        let field = |name| Field::new(name, DataType::UInt64, false);
        let schema = Schema::new(vec![field(VERSION_COLUMN), field(ORDINAL_COLUMN)]);
        let versions = UInt64Array::from_value(version, rows as usize);
        let ordinals = UInt64Array::from_iter_values(0..rows);
        TailRead::new(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(versions), Arc::new(ordinals)]).unwrap())
    }

    fn read() -> TableRead {
        let def = TableDef {
            id: TableId(1),
            schema: "public".to_owned(),
            name: "t".to_owned(),
            columns: Vec::<Column>::new(),
            next_column_id: ColumnId(0).0,
            key: None,
            dimensions: Vec::new(),
            measures: Vec::new(),
            seed: 7,
            options: TableOptions::default(),
            rules: TableRules::default(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
        };
        let tail = vec![run(3, 4), run(5, 2)];
        TableRead { tail, ..TableRead::empty(Arc::new(TableEntry::new(Arc::new(def), Version(1)))) }
    }

    #[test]
    fn rows_of_the_tail_are_found_by_identity_and_left_out() {
        let mut read = read();
        let wanted = [(Version(5), 1), (Version(3), 2), (Version(3), 4), (Version(4), 0)];
        let found = read.find_identities(&wanted).unwrap();
        let place = |run, row| Some(SnapshotRow::Tail { run, row });
        assert_eq!(found, [place(1, 1), place(0, 2), None, None]);
        read.leave_out(found.into_iter().flatten(), Version(6)).unwrap();
        let left: Vec<_> = read.tail.iter().flat_map(|run| identities_of(&run.rows).unwrap()).collect();
        assert_eq!(left, [(Version(3), 0), (Version(3), 1), (Version(3), 3), (Version(5), 0)]);
        assert_eq!((read.is_tail_cut, read.killed_through), (true, Version(6)));
        read.leave_out([SnapshotRow::Tail { run: 1, row: 0 }], Version(6)).unwrap();
        assert_eq!(read.tail.len(), 1);
        assert!(read.leave_out([SnapshotRow::Tail { run: 0, row: 9 }], Version(6)).is_err());
    }

    #[test]
    fn nothing_left_out_changes_nothing() {
        let mut read = read();
        read.leave_out([], Version(6)).unwrap();
        assert_eq!((read.is_tail_cut, read.killed_through, read.tail.len()), (false, Version(0), 2));
    }
}
