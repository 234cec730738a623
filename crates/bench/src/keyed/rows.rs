//! Rows with keys: those that are there, and batches of which half replace some and half are new.
//!
//! Batch `n` has the rows of template `n` modulo their number; its new keys follow those of the batch before. So a peer that has
//! taken so many batches has a known state, whatever its speed. Of batches of an odd number of rows each second one has one new row less.

use crate::Anything;
use crate::retail::{Random, Retail, write_once};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Different batches.
const TEMPLATES: usize = 32;

/// A dimension's name, and of each level its column and how many children a member has.
pub type Dimension = (&'static str, &'static [(&'static str, usize)]);

/// The definition of table `t` with these dimensions, for ours or for PostgreSQL.
pub fn create(dimensions: &[Dimension], ours: bool) -> String {
    let levels = dimensions.iter().flat_map(|(_, levels)| *levels);
    let columns: Vec<String> = levels.map(|(name, _)| format!("{name} TEXT")).collect();
    let dimension = |(name, levels): &Dimension| {
        format!("{name}_dim({})", levels.iter().map(|level| level.0).collect::<Vec<_>>().join(", "))
    };
    let with = match ours {
        true => format!(
            " WITH (dimensions = '{}', measures = 'price, quantity', on_conflict = 'replace')",
            dimensions.iter().map(dimension).collect::<Vec<_>>().join("; ")
        ),
        false => String::new(),
    };
    format!(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, {}, price DOUBLE PRECISION, quantity INT){with}",
        columns.join(", ")
    )
}

/// The names of columns of a table with these dimensions.
pub fn columns(dimensions: &[Dimension]) -> Vec<&'static str> {
    let levels = dimensions.iter().flat_map(|(_, levels)| *levels).map(|(name, _)| *name);
    std::iter::once("id").chain(levels).chain(["price", "quantity"]).collect()
}

/// The Parquet file of so many rows, whose keys count from 0, made the first time.
pub fn base(folder: &Path, rows: u64) -> Anything<PathBuf> {
    let (mut retail, mut next) = (Retail::new(76), 0);
    let schema = with_keys(&Retail::new(76).batch(0)?, Vec::new())?.schema();
    write_once(folder.join(format!("keyed-{rows}.parquet")), &schema, rows, |count| {
        let ids = (next..next + count as i64).collect();
        next += count as i64;
        with_keys(&retail.batch(count)?, ids)
    })
}

/// Rows with keys.
pub struct Keyed {
    pub rows: u64,
    pub batch_rows: usize,
    /// The rows of all templates, one behind the other. Of each the first half, rounded up, have keys that are there.
    pub templates: RecordBatch,
    /// Keys are drawn by Zipf's law with exponent 1.
    zipf: bool,
}

impl Keyed {
    /// So many rows, and templates of batches over them, as the peers in Python take them.
    pub fn new(rows: u64, batch_rows: usize, zipf: bool) -> Anything<Keyed> {
        if batch_rows % 2 == 1 {
            return Err(format!(
                "--batch-rows cannot be {batch_rows}: half of a batch's rows are new, so it must be even"
            )
            .into());
        }
        Keyed::of_templates(rows, batch_rows, zipf, TEMPLATES)
    }

    /// The same with so many templates of any number of rows.
    pub fn of_templates(rows: u64, batch_rows: usize, zipf: bool, count: usize) -> Anything<Keyed> {
        if batch_rows == 0 || rows < batch_rows as u64 {
            return Err(format!(
                "a batch of {batch_rows} rows over {rows}: it wants at least one, and no more than there are"
            )
            .into());
        }
        let (mut retail, mut random) = (Retail::new(77), Random(78));
        let template = |_| {
            let mut known = HashSet::new();
            // A statement changes a row once.
            while known.len() < batch_rows.div_ceil(2) {
                known.insert(key(&mut random, rows, zipf));
            }
            let mut known: Vec<i64> = known.into_iter().collect();
            known.sort_unstable();
            known.resize(batch_rows, 0);
            with_keys(&retail.batch(batch_rows)?, known)
        };
        let all = (0..count.max(1)).map(template).collect::<Anything<Vec<RecordBatch>>>()?;
        let templates = arrow::compute::concat_batches(&all[0].schema(), &all)?;
        Ok(Keyed { rows, batch_rows, templates, zipf })
    }

    /// How many keys so many batches replace, each as often as they do.
    fn replaced(&self, batches: u64) -> u64 {
        batches * self.batch_rows as u64 / 2
    }

    /// How many rows there are after so many batches.
    pub fn rows_after(&self, batches: u64) -> u64 {
        self.rows + batches * self.batch_rows as u64 - self.replaced(batches)
    }

    /// Where the rows of a batch are among those of the templates.
    pub fn place(&self, number: u64) -> Range<usize> {
        let count = (self.templates.num_rows() / self.batch_rows) as u64;
        let first = (number % count) as usize * self.batch_rows;
        first..first + self.batch_rows
    }

    /// The keys of a batch.
    pub fn ids(&self, number: u64) -> Vec<i64> {
        let known = self.templates.column(0).as_primitive::<Int64Type>().values();
        let replaced = (self.replaced(number + 1) - self.replaced(number)) as usize;
        let (first, end) = (self.rows_after(number) as i64, self.rows_after(number + 1) as i64);
        known[self.place(number)][..replaced].iter().copied().chain(first..end).collect()
    }

    /// Batch `number`.
    pub fn batch(&self, number: u64) -> Anything<RecordBatch> {
        let ids: ArrayRef = Arc::new(Int64Array::from(self.ids(number)));
        let first = self.place(number).start;
        let others = self.templates.columns()[1..].iter().map(|column| column.slice(first, self.batch_rows));
        Ok(RecordBatch::try_new(self.templates.schema(), std::iter::once(ids).chain(others).collect())?)
    }

    /// The Parquet file of the rows that are there, made the first time.
    pub fn base(&self, folder: &Path) -> Anything<PathBuf> {
        base(folder, self.rows)
    }

    /// The Parquet file of the templates.
    pub fn batches(&self, folder: &Path) -> Anything<PathBuf> {
        let law = if self.zipf { "-zipf" } else { "" };
        let name = format!("keyed-{}-batches-{}{law}.parquet", self.rows, self.batch_rows);
        let mut at = 0;
        write_once(folder.join(name), &self.templates.schema(), self.templates.num_rows() as u64, |count| {
            at += count;
            Ok(self.templates.slice(at - count, count))
        })
    }

    /// Rows and sum of quantities after so many batches, from what there was: the quantity of each key.
    pub fn state(&self, mut quantities: Vec<i32>, batches: u64) -> (u64, i64) {
        for number in 0..batches {
            let given = self.templates.column(self.templates.num_columns() - 1).as_primitive::<Int32Type>();
            for (id, &quantity) in self.ids(number).into_iter().zip(&given.values()[self.place(number)]) {
                let id = id as usize;
                if id >= quantities.len() {
                    quantities.resize(id + 1, 0);
                }
                quantities[id] = quantity;
            }
        }
        (quantities.len() as u64, quantities.iter().map(|&quantity| i64::from(quantity)).sum())
    }
}

/// The quantity of each key of a file, whose keys count from 0.
pub fn quantities(base: &Path) -> Anything<Vec<i32>> {
    let mut all = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(base)?)?.build()? {
        let batch = batch?;
        all.extend_from_slice(batch.column(batch.num_columns() - 1).as_primitive::<Int32Type>().values());
    }
    Ok(all)
}

fn key(random: &mut Random, rows: u64, zipf: bool) -> i64 {
    match zipf {
        false => (random.next() % rows) as i64,
        // The density of key k is 1 / k.
        true => {
            let share = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
            ((rows as f64).powf(share) as u64 - 1).min(rows - 1) as i64
        }
    }
}

/// These rows with a key each.
pub fn with_keys(rows: &RecordBatch, ids: Vec<i64>) -> Anything<RecordBatch> {
    let schema: SchemaRef = {
        let id = Arc::new(Field::new("id", DataType::Int64, false));
        Arc::new(Schema::new(std::iter::once(id).chain(rows.schema().fields().iter().cloned()).collect::<Vec<_>>()))
    };
    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
    Ok(RecordBatch::try_new(schema, std::iter::once(ids).chain(rows.columns().iter().cloned()).collect())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of all rows replace others, whatever the size of a batch, and new keys follow each other.
    #[test]
    fn half_of_what_comes_is_new() {
        for size in [1, 2, 3, 10, 25] {
            let keyed = Keyed::of_templates(100, size, false, 4).unwrap();
            let (mut rows, mut replaced) = (100, 0);
            for number in 0..40 {
                let batch = keyed.batch(number).unwrap();
                assert_eq!(batch.num_rows(), size);
                let ids = batch.column(0).as_primitive::<Int64Type>().values();
                assert_eq!(ids.iter().collect::<HashSet<_>>().len(), size, "a key comes once in a batch");
                for id in ids {
                    match (*id as u64).cmp(&rows) {
                        std::cmp::Ordering::Less => replaced += 1,
                        std::cmp::Ordering::Equal => rows += 1,
                        std::cmp::Ordering::Greater => panic!("key {id} is left out"),
                    }
                }
                assert_eq!(rows, keyed.rows_after(number + 1));
                assert_eq!(replaced, (number + 1) * size as u64 / 2);
            }
        }
        let keyed = Keyed::of_templates(100, 10, false, 4).unwrap();
        assert_eq!(keyed.state(vec![0; 100], 7).0, 135);
    }

    #[test]
    fn what_no_batch_can_be_is_refused() {
        assert!(Keyed::new(100, 5, false).is_err());
        assert!(Keyed::new(100, 0, false).is_err());
        assert!(Keyed::of_templates(100, 101, false, 2).is_err());
    }
}
