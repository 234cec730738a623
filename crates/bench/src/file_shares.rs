//! File sizes of a database beside its rows: side files, ladders and cuboids, as shares of the Parquet files.

use crate::Anything;
use alluvia_node::Database;
use alluvia_snapshot::Admin;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use serde_json::{Value, json};

/// Prints and gives the bytes of every part and its share of the Parquet files; cuboids are in memory.
pub async fn print(db: &Database) -> Anything<Value> {
    let segments = db.core().segments();
    let parquet: u64 = segments.iter().map(|segment| segment.meta.parquet_bytes).sum();
    let side: u64 = segments.iter().map(|segment| segment.meta.side.len).sum();
    let ladders: u64 = segments.iter().map(|segment| segment.meta.ladder_bytes()).sum();
    let batches =
        db.session().sql("SELECT count(*), coalesce(sum(bytes), 0) FROM alluvia.cuboids").await?.collect().await?;
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).ok_or("alluvia.cuboids cannot be counted")?;
    let number = |column: usize| -> Anything<u64> {
        let values = cast(batch.column(column), &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        Ok(if values.is_null(0) { 0 } else { values.value(0) as u64 })
    };
    let (cuboids, cuboid_bytes) = (number(0)?, number(1)?);
    let share = |bytes: u64| bytes as f64 / parquet.max(1) as f64;
    eprintln!(
        "Parquet {:.1} MB; of it side files {:.1} %, ladders {:.1} %; {cuboids} cuboids in memory {:.1} %",
        parquet as f64 / 1e6,
        share(side) * 100.0,
        share(ladders) * 100.0,
        share(cuboid_bytes) * 100.0
    );
    Ok(json!({
        "parquet_bytes": parquet, "side_bytes": side, "ladder_bytes": ladders, "cuboids": cuboids, "cuboid_bytes": cuboid_bytes,
        "side_to_parquet": share(side), "ladder_to_parquet": share(ladders), "cuboid_to_parquet": share(cuboid_bytes),
    }))
}
