//! The check of a ladder: rungs hold what the rows of their segment make them.
//!
//! Segment and rungs are read side by side, once: a rung's next rows are the segment's next ones of low weight, column
//! by column.

use super::{Mapping, stored_columns};
use crate::layout::{BLOCK_ROWS, rung_limit};
use crate::meta::RungMeta;
use crate::parquet_file::RowReader;
use crate::segment::{Segment, identities_of};
use alluvia_space::TableDef;
use alluvia_space::weight::weight;
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::DataType;
use std::sync::Arc;

impl Segment {
    /// Checks that every rung the manifest names is there, is sound in itself, and has the rows of the segment that it
    /// should, as the segment has them. The segment itself is sound.
    pub(crate) fn verify_ladder(&self, table: &TableDef, mapping: Option<&Mapping<'_>>) -> Result<()> {
        if self.meta().rungs.is_empty() {
            return Ok(());
        }
        let mut stored = table.clone();
        stored.columns.retain(|column| self.meta().columns.contains(&column.id));
        let columns = stored_columns(&stored);
        let mut rungs = Vec::with_capacity(self.meta().rungs.len());
        for named in &self.meta().rungs {
            let place = format!("rung {} of segment {}", named.rung, self.meta().id);
            let open = || RungRows::open(self, named, table, mapping, &columns, place.clone());
            rungs.push(open().map_err(|error| error.at(&place))?);
        }
        let mut reader = self.read_rows(&columns, 0..self.meta().rows, BLOCK_ROWS)?;
        let mut row = 0u64;
        while let Some(batch) = reader.next_batch()? {
            let identities = identities_of(&batch);
            let weights: Vec<u64> =
                identities.map(|(version, ordinal)| weight(Version(version), ordinal, table.seed)).collect();
            for rung in &mut rungs {
                // A batch ends where its block does, or before.
                if row.is_multiple_of(BLOCK_ROWS as u64) {
                    rung.first_rows.push(rung.rows as u32);
                }
                rung.compare(&batch, &weights, row)?;
            }
            row += batch.num_rows() as u64;
        }
        rungs.into_iter().try_for_each(RungRows::finish)
    }
}

/// A rung that is read beside its segment.
struct RungRows {
    /// Which rung of which segment.
    place: String,
    limit: u64,
    segment: Arc<Segment>,
    reader: RowReader,
    /// What was read and is not compared yet.
    rest: Option<RecordBatch>,
    /// Rows that were compared.
    rows: u64,
    /// By block of the segment, how many of them were compared before it.
    first_rows: Vec<u32>,
    /// Of each where it lies in its block of the segment.
    places: Vec<u16>,
}

impl RungRows {
    /// Opens a rung that is sound in itself.
    fn open(
        of: &Segment,
        named: &RungMeta,
        table: &TableDef,
        mapping: Option<&Mapping<'_>>,
        columns: &[(&str, DataType)],
        place: String,
    ) -> Result<RungRows> {
        let segment = Segment::open(of.context(), named.segment.clone())?;
        if named.segment.columns != of.meta().columns {
            return Err(wrong("it has other columns than its segment".to_owned()));
        }
        segment.verify_with(table, mapping)?;
        let reader = segment.read_rows(columns, 0..segment.meta().rows, BLOCK_ROWS)?;
        let limit = rung_limit(named.rung).unwrap_or(u64::MAX);
        Ok(RungRows { place, limit, segment, reader, rest: None, rows: 0, first_rows: Vec::new(), places: Vec::new() })
    }

    /// Compares the rung's next rows with those that it should have of some rows of the segment, from row `first` on.
    fn compare(&mut self, rows: &RecordBatch, weights: &[u64], first: u64) -> Result<()> {
        let low = (0..).zip(weights).filter(|(_, weight)| **weight < self.limit).map(|(row, _)| row);
        let picked: UInt32Array = UInt32Array::from_iter_values(low);
        let place = |row: &u32| ((first + u64::from(*row)) % BLOCK_ROWS as u64) as u16;
        self.places.extend(picked.values().iter().map(place));
        if picked.is_empty() {
            return Ok(());
        }
        let expected = take_record_batch(rows, &picked)
            .map_err(|error| Error::internal(format!("picking the rows of {}: {error}", self.place)))?;
        let mut at = 0;
        while at < expected.num_rows() {
            let next = match self.rest.take() {
                Some(rest) => Some(rest),
                None => self.reader.next_batch().map_err(|error| error.at(&self.place))?,
            };
            let Some(found) = next else { return Err(self.not_of_low_weight()) };
            let count = found.num_rows().min(expected.num_rows() - at);
            self.same(&expected.slice(at, count), &found.slice(0, count))?;
            self.rest = (count < found.num_rows()).then(|| found.slice(count, found.num_rows() - count));
            self.rows += count as u64;
            at += count;
        }
        Ok(())
    }

    /// Whether the next rows are the same. The hidden columns come first: other rows have other values, too.
    fn same(&self, expected: &RecordBatch, found: &RecordBatch) -> Result<()> {
        let columns = expected.num_columns();
        for at in (0..columns).rev() {
            let (expected, values) = (expected.column(at), found.column(at));
            if expected.as_ref() == values.as_ref() {
                continue;
            }
            if at >= columns - 2 {
                return Err(self.not_of_low_weight());
            }
            let other = (0..values.len()).find(|&row| expected.slice(row, 1).as_ref() != values.slice(row, 1).as_ref());
            let row = self.rows + other.unwrap_or(0) as u64;
            let path = self.segment.context().parquet_path(self.segment.meta().id);
            let name = found.schema_ref().field(at).name();
            let what = format!("{}, row {row}: column {name} has another value than in the segment", path.display());
            return Err(wrong(what).at(&self.place));
        }
        Ok(())
    }

    /// Once all rows of the segment were compared.
    fn finish(mut self) -> Result<()> {
        if self.rows != self.segment.meta().rows {
            return Err(self.not_of_low_weight());
        }
        self.first_rows.push(self.rows as u32);
        if *self.segment.first_rows().map_err(|error| error.at(&self.place))? != self.first_rows {
            return Err(
                wrong("it does not say rightly which of its rows are of which block".to_owned()).at(&self.place)
            );
        }
        let places = self.segment.places().map_err(|error| error.at(&self.place))?;
        if places.as_ref().as_ref().is_some_and(|places| *places != self.places) {
            return Err(wrong("it does not say rightly where its rows lie in their blocks".to_owned()).at(&self.place));
        }
        Ok(())
    }

    fn not_of_low_weight(&self) -> Error {
        wrong(format!("its rows are not those of low weight, from row {} on", self.rows)).at(&self.place)
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, what)
        .with_hint("its rows are in the segment, too: nothing is lost, and the next start, or a running server, makes the rung anew")
}
