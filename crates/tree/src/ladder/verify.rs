//! Whether a ladder is what its segment's rows make it; and the rows' weights, which are not stored.

use super::rung_limit;
use crate::layout::BLOCK_ROWS;
use crate::parquet_file::RowReader;
use crate::segment::Segment;
use alluvia_space::weight::weight;
use alluvia_space::{ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, UInt64Type};
use std::ops::Range;

/// A row's version (0 where it is not known) and ordinal.
type Identity = (u64, u64);

impl Segment {
    /// The weights of some rows under a seed: the table's, or another one's to draw another sample.
    pub fn weights(&self, rows: Range<u64>, seed: u64) -> Result<Vec<u64>> {
        let identities = self.identities(rows)?;
        Ok(identities.into_iter().map(|(version, ordinal)| weight(Version(version), ordinal, seed)).collect())
    }

    /// Which rows they are.
    pub fn identities(&self, rows: Range<u64>) -> Result<Vec<Identity>> {
        let count = (rows.end - rows.start) as usize;
        let columns = [(VERSION_COLUMN, DataType::UInt64), (ORDINAL_COLUMN, DataType::UInt64)];
        let mut reader = RowReader::open(self, &columns, rows, BLOCK_ROWS)?;
        let mut identities = Vec::with_capacity(count);
        while let Some(batch) = reader.next_batch()? {
            let versions = batch.column(0).as_primitive::<UInt64Type>();
            let ordinals = batch.column(1).as_primitive::<UInt64Type>();
            identities.extend((0..batch.num_rows()).map(|row| {
                let version = if versions.is_valid(row) { versions.value(row) } else { 0 };
                (version, ordinals.value(row))
            }));
        }
        if identities.len() == count {
            return Ok(identities);
        }
        let message = format!("the Parquet file of segment {} ends early", self.meta().id);
        Err(Error::new(ErrorKind::Corrupt, message))
    }

    /// Checks that every rung the manifest names is there, is sound in itself, and has the rows of the segment that it should.
    pub(crate) fn verify_ladder(&self, table: &TableDef) -> Result<()> {
        if self.meta().rungs.is_empty() {
            return Ok(());
        }
        let wrong = |what: String| {
            Error::new(ErrorKind::Corrupt, what).with_hint(
                "its rows are in the segment, too: nothing is lost, and the next merge writes the ladder anew",
            )
        };
        let identities = self.identities(0..self.meta().rows)?;
        for named in &self.meta().rungs {
            let at = |error: Error| error.at(format_args!("rung {} of segment {}", named.rung, self.meta().id));
            let rung = Segment::open(self.context(), named.segment.clone()).map_err(at)?;
            rung.verify(table).map_err(at)?;
            let limit = rung_limit(named.rung).unwrap_or(u64::MAX);
            let is_in = |&(version, ordinal): &Identity| weight(Version(version), ordinal, table.seed) < limit;
            let mut expected = Vec::with_capacity(named.segment.rows as usize);
            let mut first_rows = Vec::with_capacity(self.blocks() + 1);
            for block in identities.chunks(BLOCK_ROWS) {
                first_rows.push(expected.len() as u32);
                expected.extend(block.iter().filter(|row| is_in(row)).copied());
            }
            first_rows.push(expected.len() as u32);
            if rung.identities(0..rung.meta().rows).map_err(at)? != expected {
                return Err(at(wrong("its rows are not those of low weight".to_owned())));
            }
            if *rung.first_rows().map_err(at)? != first_rows {
                return Err(at(wrong("it does not say rightly which of its rows are of which block".to_owned())));
            }
        }
        Ok(())
    }
}
