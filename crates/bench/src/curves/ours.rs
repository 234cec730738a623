//! Alluvia in `curves`: a table of text levels, filled in durable batches, merged, and asked through the Rust API with cuboids off.
//!
//! Unlike the other structures it is a database: rows come as Arrow with texts, every batch is synced before it is
//! acknowledged, and a question is a prepared statement.

use crate::Anything;
use crate::curves::cube::{BITS_BELOW, LEAVES, LEVELS, Rows, Totals};
use crate::curves::question::Question;
use alluvia_node::Database;
use alluvia_query::{Prepared, Session};
use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type, Schema};
use arrow::record_batch::RecordBatch;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Rows of a durable batch.
pub const BATCH_ROWS: usize = 10_000;

/// A loaded database, and how long that took.
pub struct Ours {
    session: Session,
    /// Until all rows were durable and visible.
    pub visible_s: f64,
    /// Until all rows were merged.
    pub merged_s: f64,
    _db: Database,
}

impl Ours {
    /// Fills a database in a folder of its own with these rows.
    pub async fn load(dir: &Path, curve: &str, rows: &Rows) -> Anything<Ours> {
        let db = Database::open(dir)?;
        let session = db.session();
        session.sql(&create(rows.dimensions, curve)).await?;
        let members = members();
        let start = Instant::now();
        for first in (0..rows.len()).step_by(BATCH_ROWS) {
            let batch = batch(rows, first..(first + BATCH_ROWS).min(rows.len()), &members)?;
            session.append("points", vec![batch]).await?;
        }
        let visible_s = start.elapsed().as_secs_f64();
        session.sql("CALL alluvia.merge()").await?;
        let merged_s = start.elapsed().as_secs_f64();
        session.sql("SET cuboids = off").await?;
        Ok(Ours { session, visible_s, merged_s, _db: db })
    }

    pub fn prepare(&self, question: &Question) -> Anything<Prepared> {
        Ok(self.session.prepare(&statement(question))?)
    }

    pub async fn ask(&self, prepared: &Prepared) -> Anything<Totals> {
        let batches = self.session.execute_prepared(prepared, &[]).await?.collect().await?;
        let batch = batches.iter().find(|batch| batch.num_rows() == 1).ok_or("an aggregate has one row")?;
        let sum = batch.column(1).as_primitive::<Float64Type>();
        let sum = if sum.is_null(0) { 0.0 } else { sum.value(0) };
        Ok(Totals { count: batch.column(0).as_primitive::<Int64Type>().value(0) as u64, sum })
    }
}

fn column(dimension: usize, level: usize) -> String {
    format!("d{dimension}_{level}")
}

fn create(dimensions: usize, curve: &str) -> String {
    let levels = |dimension: usize| (0..LEVELS).map(move |level| column(dimension, level));
    let columns: Vec<String> = (0..dimensions).flat_map(levels).map(|name| format!("{name} TEXT")).collect();
    let paths: Vec<String> = (0..dimensions)
        .map(|dimension| format!("d{dimension}({})", levels(dimension).collect::<Vec<_>>().join(", ")))
        .collect();
    format!(
        "CREATE TABLE points ({}, price DOUBLE) WITH (dimensions = '{}', measures = 'price', curve = '{curve}')",
        columns.join(", "),
        paths.join("; ")
    )
}

fn name(level: usize, member: usize) -> String {
    format!("level-{level}-{member:03}")
}

fn statement(question: &Question) -> String {
    let conditions: Vec<String> = question
        .sets
        .iter()
        .map(|(dimension, set)| {
            let list: Vec<String> =
                set.members.iter().map(|member| format!("'{}'", name(set.level, usize::from(*member)))).collect();
            format!("{} IN ({})", column(*dimension, set.level), list.join(", "))
        })
        .collect();
    format!("SELECT count(*), sum(price) FROM points WHERE {}", conditions.join(" AND "))
}

/// Names of all members of each level; those of all dimensions are alike.
fn members() -> [Arc<StringArray>; LEVELS] {
    std::array::from_fn(|level| {
        let count = LEAVES >> BITS_BELOW[level];
        Arc::new(StringArray::from_iter_values((0..count).map(|member| name(level, member))))
    })
}

fn batch(rows: &Rows, range: Range<usize>, members: &[Arc<StringArray>; LEVELS]) -> Anything<RecordBatch> {
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let mut fields = Vec::with_capacity(rows.dimensions * LEVELS + 1);
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(fields.capacity());
    for dimension in 0..rows.dimensions {
        for level in 0..LEVELS {
            let member = |at: usize| i32::from(rows.row(at)[dimension] >> BITS_BELOW[level]);
            let keys = Int32Array::from_iter_values(range.clone().map(member));
            let names = Arc::clone(&members[level]) as ArrayRef;
            columns.push(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names)?));
            fields.push(Field::new(column(dimension, level), text.clone(), true));
        }
    }
    columns.push(Arc::new(Float64Array::from(rows.values[range].to_vec())));
    fields.push(Field::new("price", DataType::Float64, true));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
