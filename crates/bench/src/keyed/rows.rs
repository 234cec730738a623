//! Rows with keys: those that are there, and batches of which half replace some and half are new.
//!
//! Batch `n` has the rows of template `n` modulo their number; its new keys follow those of the batch before. So a peer that has
//! taken so many batches has a known state, whatever its speed.

use crate::Anything;
use crate::retail::{DIMENSIONS, Random, Retail, write_once};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Different batches.
const TEMPLATES: usize = 32;

/// The table's definition, for ours or for PostgreSQL.
pub fn create(table: &str, ours: bool) -> String {
    let columns: Vec<String> =
        DIMENSIONS.iter().flat_map(|(_, levels)| *levels).map(|(name, _)| format!("{name} TEXT")).collect();
    let dimension = |(name, levels): &(&str, &[(&str, usize)])| {
        format!("{name}_dim({})", levels.iter().map(|level| level.0).collect::<Vec<_>>().join(", "))
    };
    let with = match ours {
        true => format!(
            " WITH (dimensions = '{}', measures = 'price, quantity', on_conflict = 'replace')",
            DIMENSIONS.iter().map(dimension).collect::<Vec<_>>().join("; ")
        ),
        false => String::new(),
    };
    format!(
        "CREATE TABLE {table} (id BIGINT PRIMARY KEY, {}, price DOUBLE PRECISION, quantity INT){with}",
        columns.join(", ")
    )
}

/// All names of columns.
pub fn columns() -> Vec<&'static str> {
    let levels = DIMENSIONS.iter().flat_map(|(_, levels)| *levels).map(|(name, _)| *name);
    std::iter::once("id").chain(levels).chain(["price", "quantity"]).collect()
}

/// Rows with keys.
pub struct Keyed {
    pub rows: u64,
    pub batch_rows: usize,
    templates: Vec<RecordBatch>,
    /// Keys are drawn by Zipf's law with exponent 1.
    zipf: bool,
}

impl Keyed {
    /// So many rows, and templates of batches over them.
    pub fn new(rows: u64, batch_rows: usize, zipf: bool) -> Anything<Keyed> {
        let (mut retail, mut random) = (Retail::new(77), Random(78));
        let half = batch_rows / 2;
        if half == 0 || rows < batch_rows as u64 {
            return Err("a batch wants at least 2 rows, and no more than there are".into());
        }
        let template = |_| {
            let mut known = HashSet::new();
            // A statement changes a row once.
            while known.len() < half {
                known.insert(key(&mut random, rows, zipf));
            }
            let mut known: Vec<i64> = known.into_iter().collect();
            known.sort_unstable();
            known.resize(batch_rows, 0);
            with_keys(&retail.batch(batch_rows)?, known)
        };
        Ok(Keyed { rows, batch_rows, templates: (0..TEMPLATES).map(template).collect::<Anything<_>>()?, zipf })
    }

    /// New keys of a batch.
    pub fn half(&self) -> usize {
        self.batch_rows - self.batch_rows / 2
    }

    /// Batch `number`.
    pub fn batch(&self, number: u64) -> Anything<RecordBatch> {
        let template = self.template(number);
        let kept = self.batch_rows / 2;
        let ids = template.column(0).as_primitive::<arrow::datatypes::Int64Type>();
        let first = (self.rows + number * self.half() as u64) as i64;
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
            ids.values()[..kept].iter().copied().chain(first..first + self.half() as i64),
        ));
        let columns = std::iter::once(ids).chain(template.columns()[1..].iter().cloned()).collect();
        Ok(RecordBatch::try_new(template.schema(), columns)?)
    }

    pub fn template(&self, number: u64) -> &RecordBatch {
        &self.templates[(number % TEMPLATES as u64) as usize]
    }

    /// The Parquet file of the rows that are there, made the first time.
    pub fn base(&self, folder: &Path) -> Anything<PathBuf> {
        let (mut retail, mut next) = (Retail::new(76), 0);
        let schema = self.templates[0].schema();
        write_once(folder.join(format!("keyed-{}.parquet", self.rows)), &schema, self.rows, |count| {
            let ids = (next..next + count as i64).collect();
            next += count as i64;
            with_keys(&retail.batch(count)?, ids)
        })
    }

    /// The Parquet file of the templates.
    pub fn batches(&self, folder: &Path) -> Anything<PathBuf> {
        let law = if self.zipf { "-zipf" } else { "" };
        let name = format!("keyed-{}-batches-{}{law}.parquet", self.rows, self.batch_rows);
        let all = arrow::compute::concat_batches(&self.templates[0].schema(), &self.templates)?;
        let mut at = 0;
        write_once(folder.join(name), &all.schema(), all.num_rows() as u64, |count| {
            at += count;
            Ok(all.slice(at - count, count))
        })
    }

    /// Rows and sum of quantities after so many batches, from what there was: the quantity of each key.
    pub fn state(&self, mut quantities: Vec<i32>, batches: u64) -> Anything<(u64, i64)> {
        for number in 0..batches {
            let batch = self.batch(number)?;
            let ids = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>();
            let given = batch.column(batch.num_columns() - 1).as_primitive::<Int32Type>();
            for (&id, &quantity) in ids.values().iter().zip(given.values()) {
                let id = id as usize;
                if id >= quantities.len() {
                    quantities.resize(id + 1, 0);
                }
                quantities[id] = quantity;
            }
        }
        Ok((quantities.len() as u64, quantities.iter().map(|&quantity| i64::from(quantity)).sum()))
    }
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

fn with_keys(rows: &RecordBatch, ids: Vec<i64>) -> Anything<RecordBatch> {
    let schema: SchemaRef = {
        let id = Arc::new(Field::new("id", DataType::Int64, false));
        Arc::new(Schema::new(std::iter::once(id).chain(rows.schema().fields().iter().cloned()).collect::<Vec<_>>()))
    };
    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
    Ok(RecordBatch::try_new(schema, std::iter::once(ids).chain(rows.columns().iter().cloned()).collect())?)
}
