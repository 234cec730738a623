//! Verification of a segment, for `alluvia check`: checksums, order, summaries, heavy rows, ladder.
//!
//! Reads every byte past the cache, then computes the summaries and bands again from the rows and compares. Whether
//! codes and keys belong to the values is seen where a [`Mapping`] is given, which needs the table's dictionaries.

mod ladder;
mod mapping;

pub use mapping::Mapping;

use crate::heavy::verify_heavy;
use crate::layout::{BLOCK_ROWS, BandCounter};
use crate::segment::{Segment, identities_of};
use crate::side::SectionKind;
use crate::summary::{BlockSummaries, ColumnSummary, MeasureSummary, SummaryBuilder, least_and_greatest};
use alluvia_space::weight::weight;
use alluvia_space::{ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::kernels::aggregate;
use arrow::datatypes::{DataType, UInt64Type};
use std::sync::Arc;

impl Segment {
    /// Checks every checksum, the order of the rows, the summaries, the heavy rows and the ladder against the rows.
    /// `table` is the table's definition now; columns dropped since the segment was written are checked by checksum
    /// only.
    pub fn verify(&self, table: &TableDef) -> Result<()> {
        self.verify_with(table, None)
    }

    /// As [`Self::verify`], and whether every key and code is what the row's values make. `mapping` is of the same
    /// table.
    pub fn verify_mapped(&self, table: &TableDef, mapping: &Mapping<'_>) -> Result<()> {
        self.verify_with(table, Some(mapping))
    }

    pub(crate) fn verify_with(&self, table: &TableDef, mapping: Option<&Mapping<'_>>) -> Result<()> {
        self.verify_rows(table, mapping)?;
        self.verify_ladder(table, mapping)
    }

    fn verify_rows(&self, table: &TableDef, mapping: Option<&Mapping<'_>>) -> Result<()> {
        let wrong = |what: String| {
            Error::new(ErrorKind::Corrupt, format!("segment {} of table {}: {what}", self.meta().id, table.name))
                .with_hint("restore the data directory from a copy")
        };
        let index = self.index()?;
        self.diagnosed(self.side()?.verify(&index.stripes, &index.table))?;
        self.parquet_file()?.verify()?;
        let stored = self.summaries()?;
        // Columns that both the file and the definition have.
        let mut table = table.clone();
        table.columns.retain(|column| self.meta().columns.contains(&column.id));
        let levels: usize = table.dimensions.iter().map(|dimension| dimension.levels.len()).sum();
        if stored.levels.len() != levels {
            return Err(wrong(format!("it has {} levels instead of {levels}", stored.levels.len())));
        }
        let computed = self.summarise(&table, levels, mapping, &wrong)?;
        compare(&stored, &computed, &wrong)?;
        verify_heavy(self, &wrong)?;
        self.verify_meta(&stored, &wrong)
    }

    /// Reads all rows, compares their keys and codes with their values, and computes their summaries.
    fn summarise(
        &self,
        table: &TableDef,
        levels: usize,
        mapping: Option<&Mapping<'_>>,
        wrong: &dyn Fn(String) -> Error,
    ) -> Result<BlockSummaries> {
        let columns = stored_columns(table);
        let rows = self.meta().rows;
        // A rung's rows are in the order of its segment's, which may be banded; they are compared with those.
        let is_rung = self.side()?.has(SectionKind::Parents);
        let mut reader = self.read_rows(&columns, 0..rows, BLOCK_ROWS)?;
        let mut builder = SummaryBuilder::new(table, levels);
        let bands = self.bands()?;
        let mut weighed = BandCounter::default();
        let mut last_key = 0;
        for block in 0..self.blocks() {
            let keys = self.keys(block..block + 1)?;
            let codes = (0..levels).map(|level| self.codes(level, block)).collect::<Result<Vec<_>>>()?;
            let rows_ascend = match bands.as_ref() {
                Some(bands) => bands.of_block(block).all(|band| keys[band].is_sorted()),
                None => is_rung || keys.is_sorted(),
            };
            let (least, greatest) = least_and_greatest(&keys);
            if least < last_key || !rows_ascend {
                return Err(wrong(format!("the keys of block {block} do not ascend")));
            }
            last_key = if is_rung { least } else { greatest };
            let mut place = 0;
            while place < keys.len() {
                let Some(batch) = reader.next_batch()? else {
                    return Err(wrong("its Parquet file ends early".to_owned()));
                };
                if place + batch.num_rows() > keys.len() {
                    return Err(wrong(format!("its Parquet file is not cut like block {block}")));
                }
                for (at, (name, _)) in columns.iter().enumerate() {
                    let values = batch.column_by_name(name);
                    let values = values.ok_or_else(|| wrong(format!("its Parquet file lacks the column {name}")))?;
                    summarise_column(&mut builder, at, values, place);
                }
                let end = place + batch.num_rows();
                if bands.is_some() {
                    let weight = |(version, ordinal)| weight(Version(version), ordinal, table.seed);
                    let weights: Vec<u64> = identities_of(&batch).map(weight).collect();
                    if !weighed.add(&weights) {
                        return Err(wrong(format!("the rows of block {block} do not lie in bands by weight")));
                    }
                }
                if let Some(mapping) = mapping {
                    let codes: Vec<&[u32]> = codes.iter().map(|level| &level[place..end]).collect();
                    if let Some((row, what)) = mapping.difference(&batch, &keys[place..end], &codes)? {
                        let (side, row) = (self.context().side_path(self.meta().id), place + row);
                        return Err(wrong(format!("{}, block {block}, row {row}: {what}", side.display())));
                    }
                }
                place = end;
            }
            let found = builder.end_columns();
            builder.end_block(&keys, &codes);
            let measures = table.columns.iter().filter(|column| builder.is_measure(column.id));
            for (column, packed) in measures.zip(&found) {
                if self.measure(column.id, block)?.is_some_and(|stored| stored != packed.values.as_slice()) {
                    let name = &column.name;
                    return Err(wrong(format!(
                        "the packed values of column {name} in block {block} do not fit the rows"
                    )));
                }
            }
        }
        if bands.as_ref().as_ref().is_some_and(|bands| *bands != weighed.finish()) {
            return Err(wrong("the bands of its blocks do not fit the rows' weights".to_owned()));
        }
        let (table, levels) = builder.finish();
        Ok(BlockSummaries { table: Arc::new(table), levels, rows })
    }

    fn verify_meta(&self, stored: &BlockSummaries, wrong: &dyn Fn(String) -> Error) -> Result<()> {
        let meta = self.meta();
        // Blocks of a banded segment's rung may begin within blocks of that: the last need not have the greatest key.
        let keys = (stored.table.key_first.iter().min().copied(), stored.table.key_last.iter().max().copied());
        if keys != (None, None) && keys != (Some(meta.key_min), Some(meta.key_max)) {
            return Err(wrong("the manifest states other key bounds".to_owned()));
        }
        let versions = stored.versions();
        let (mins, maxs) = (versions.mins.as_primitive::<UInt64Type>(), versions.maxs.as_primitive::<UInt64Type>());
        let found = (aggregate::min(mins), aggregate::max(maxs));
        let expected = (Some(meta.min_version.0), Some(meta.max_version.0));
        match meta.fixed_version {
            Some(_) if found != (None, None) => Err(wrong("it has versions although it was staged".to_owned())),
            Some(version) if (meta.min_version, meta.max_version) != (version, version) => {
                Err(wrong("the manifest states several versions of a staged segment".to_owned()))
            }
            None if meta.rows > 0 && found != expected => Err(wrong("the manifest states other versions".to_owned())),
            _ => Ok(()),
        }
    }
}

/// Names and types of a definition's columns and the hidden ones, as a segment that has all of them stores them.
pub(crate) fn stored_columns(table: &TableDef) -> Vec<(&str, DataType)> {
    let own = table.columns.iter().map(|column| (column.storage_name.as_str(), column.data_type.to_arrow()));
    own.chain([(VERSION_COLUMN, DataType::UInt64), (ORDINAL_COLUMN, DataType::UInt64)]).collect()
}

/// Takes in some values of a column of the current block, the first of them at row `place` of it.
pub(crate) fn summarise_column(builder: &mut SummaryBuilder, at: usize, values: &ArrayRef, place: usize) {
    let nulls = values.null_count();
    match values.data_type() {
        DataType::Utf8View => {
            let text = values.as_string_view();
            let bounds = aggregate::min_string_view(text).zip(aggregate::max_string_view(text));
            builder.bytes(at, nulls, bounds.map(|(min, max)| (min.as_bytes(), max.as_bytes())));
        }
        DataType::BinaryView => {
            let bytes = values.as_binary_view();
            builder.bytes(at, nulls, aggregate::min_binary_view(bytes).zip(aggregate::max_binary_view(bytes)));
        }
        _ => builder.fixed(at, values.as_ref(), place),
    }
}

fn compare(stored: &BlockSummaries, computed: &BlockSummaries, wrong: &dyn Fn(String) -> Error) -> Result<()> {
    let (old, new) = (&stored.table, &computed.table);
    if old.key_first != new.key_first || old.key_last != new.key_last {
        return Err(wrong("key bounds do not fit the keys".to_owned()));
    }
    for (level, (old, new)) in stored.levels.iter().zip(&computed.levels).enumerate() {
        let same = old.bounds.mins == new.bounds.mins && old.bounds.maxs == new.bounds.maxs;
        if !same || old.bounds.nulls != new.bounds.nulls || old.bits != new.bits {
            return Err(wrong(format!("codes present at level {level} do not fit the codes")));
        }
    }
    let same = |old: &ColumnSummary, new: &ColumnSummary| {
        old.nulls.as_ref() == new.nulls.as_ref()
            && old.mins.as_ref() == new.mins.as_ref()
            && old.maxs.as_ref() == new.maxs.as_ref()
    };
    if !same(stored.versions(), computed.versions()) {
        return Err(wrong("bounds of _version do not fit the rows".to_owned()));
    }
    for (id, new) in &new.columns {
        if !stored.column(*id).is_some_and(|old| same(old, new)) {
            return Err(wrong(format!("bounds of column {id} do not fit the rows")));
        }
    }
    for (id, new) in &new.measures {
        // A measure declared later has none, which is not damage.
        if stored.measure(*id).is_some_and(|old| !same_measure(old, new)) {
            return Err(wrong(format!("sums of column {id} do not fit the rows")));
        }
    }
    Ok(())
}

fn same_measure(old: &MeasureSummary, new: &MeasureSummary) -> bool {
    let floats = match (&old.floats, &new.floats) {
        (None, None) => true,
        (Some(old), Some(new)) => {
            old.sum_rests.as_ref() == new.sum_rests.as_ref()
                && old.mins.as_ref() == new.mins.as_ref()
                && old.maxs.as_ref() == new.maxs.as_ref()
                && old.nans.as_ref() == new.nans.as_ref()
                && old.infinities.as_ref() == new.infinities.as_ref()
                && old.negative_infinities.as_ref() == new.negative_infinities.as_ref()
        }
        _ => false,
    };
    floats
        && old.counts.as_ref() == new.counts.as_ref()
        && old.sums.as_ref() == new.sums.as_ref()
        && old.squares.as_ref() == new.squares.as_ref()
        && old.encodings == new.encodings
}
