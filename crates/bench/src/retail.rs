//! Synthetic sales: 8 hierarchical dimensions over 19 level columns, and 2 measures.

use crate::Anything;
use arrow::array::{ArrayRef, DictionaryArray, Float64Array, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of each dimension, and for each level its column and how many children a member has.
pub const DIMENSIONS: &[(&str, &[(&str, usize)])] = &[
    ("store", &[("country", 12), ("state", 10), ("city", 12)]),
    ("item", &[("category", 16), ("brand", 12), ("item", 25)]),
    ("customer", &[("region", 8), ("segment", 6), ("customer", 200)]),
    ("day", &[("year", 8), ("month", 12), ("day", 28)]),
    ("promo", &[("promo_kind", 6), ("promo", 20)]),
    ("channel", &[("channel", 5), ("device", 8)]),
    ("shipping", &[("carrier", 6), ("service", 4)]),
    ("payment", &[("payment", 7)]),
];

/// The table's definition.
pub fn create(table: &str) -> String {
    let columns: Vec<String> =
        DIMENSIONS.iter().flat_map(|(_, levels)| *levels).map(|(name, _)| format!("{name} TEXT")).collect();
    let dimensions: Vec<String> = DIMENSIONS
        .iter()
        .map(|(name, levels)| {
            format!("{name}_dim({})", levels.iter().map(|level| level.0).collect::<Vec<_>>().join(", "))
        })
        .collect();
    format!(
        "CREATE TABLE {table} ({}, price DOUBLE, quantity INT) WITH (dimensions = '{}', measures = 'price, quantity')",
        columns.join(", "),
        dimensions.join("; ")
    )
}

/// SplitMix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn schema() -> SchemaRef {
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let mut fields: Vec<Field> = DIMENSIONS
        .iter()
        .flat_map(|(_, levels)| *levels)
        .map(|(name, _)| Field::new(*name, text.clone(), true))
        .collect();
    fields.push(Field::new("price", DataType::Float64, true));
    fields.push(Field::new("quantity", DataType::Int32, true));
    Arc::new(Schema::new(fields))
}

/// All member names of every level, in code order.
fn members() -> Vec<StringArray> {
    let mut all = Vec::new();
    for (_, levels) in DIMENSIONS {
        let mut count = 1;
        for (name, children) in *levels {
            count *= children;
            all.push(StringArray::from_iter_values((0..count).map(|code| format!("{name}-{code:05}"))));
        }
    }
    all
}

/// A generator of batches.
pub struct Retail {
    random: Random,
    schema: SchemaRef,
    members: Vec<Arc<StringArray>>,
}

impl Retail {
    pub fn new(seed: u64) -> Retail {
        Retail { random: Random(seed), schema: schema(), members: members().into_iter().map(Arc::new).collect() }
    }

    /// The next rows, uniform over every dimension's leaves.
    pub fn batch(&mut self, rows: usize) -> Anything<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(21);
        let mut at = 0;
        for (_, levels) in DIMENSIONS {
            let leaves: usize = levels.iter().map(|level| level.1).product();
            let picks: Vec<usize> = (0..rows).map(|_| (self.random.next() % leaves as u64) as usize).collect();
            let mut below = leaves;
            for (_, children) in *levels {
                below /= children;
                let keys = Int32Array::from_iter_values(picks.iter().map(|pick| (pick / below) as i32));
                columns.push(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, self.members[at].clone())?));
                at += 1;
            }
        }
        columns.push(Arc::new(Float64Array::from_iter_values(
            (0..rows).map(|_| (self.random.next() % 100_000) as f64 / 100.0),
        )));
        columns.push(Arc::new(Int32Array::from_iter_values((0..rows).map(|_| 1 + (self.random.next() % 9) as i32))));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// The Parquet file of so many rows, made the first time.
pub fn parquet_file(folder: &Path, rows: u64) -> Anything<PathBuf> {
    let mut retail = Retail::new(1);
    let schema = Arc::clone(&retail.schema);
    write_once(folder.join(format!("retail-{rows}.parquet")), &schema, rows, |count| retail.batch(count))
}

/// Writes so many rows, made batch by batch, unless the file is there.
pub fn write_once(
    path: PathBuf,
    schema: &SchemaRef,
    rows: u64,
    mut batch: impl FnMut(usize) -> Anything<RecordBatch>,
) -> Anything<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    eprintln!("generating {} ...", path.display());
    let scratch = path.with_extension("tmp");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(500_000))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(&scratch)?, Arc::clone(schema), Some(properties))?;
    let mut left = rows;
    while left > 0 {
        let count = left.min(50_000);
        writer.write(&batch(count as usize)?)?;
        left -= count;
    }
    writer.close()?;
    fs::rename(scratch, &path)?;
    Ok(path)
}
