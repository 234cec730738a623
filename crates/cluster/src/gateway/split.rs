//! Rows of a batch, by shard.
//!
//! Invariants:
//! - Each row is in one part; rows of a part are in the order of the batch, with the ordinals that they have there.
//! - A batch is split the same way whenever it is split by one placement and number.

use crate::placed::{PlacedTable, Shard};
use alluvia_commit::encode;
use alluvia_snapshot::{NewBatch, NewRows, RowChange};
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, Result, TableId, planted};
use arrow::array::{RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::take_record_batch;
use std::sync::Arc;

/// The rows of a batch for one shard.
#[derive(Clone, Debug)]
pub struct Part {
    /// Of which table.
    pub table: TableId,
    /// The shard, and where it lies.
    pub shard: Shard,
    /// How many of its replicas must have it.
    pub quorum: u32,
    /// How many rows.
    pub rows: u64,
    /// The rows, as they are staged.
    pub body: Arc<[u8]>,
}

/// One shard's rows, as they are gathered.
#[derive(Default)]
struct Gathered {
    /// By what they do; several where the batch has several.
    changes: Vec<NewRows>,
    rows: u64,
}

/// Splits the rows of one table. All `rows` are of it, in the order of the batch; `number` is a number that no other batch has.
///
/// Errors: `NotSupported` where rows do what a table on several machines does not take yet; as [`Placement::slots`](alluvia_space::Placement).
pub fn split(def: &TableDef, placed: &PlacedTable, rows: &[NewRows], number: u64) -> Result<Vec<Part>> {
    let mut gathered: Vec<Gathered> = placed.shards.iter().map(|_| Gathered::default()).collect();
    let mut coming = 0;
    for rows in rows {
        refuse(def, rows)?;
        let comes = rows.change != RowChange::Delete;
        let mut parts: Vec<(Vec<RecordBatch>, Vec<u64>)> = vec![Default::default(); placed.shards.len()];
        for batch in &rows.batches {
            let slots = placed.placement.slots(def, batch, number, coming)?;
            let mut of_shard: Vec<Vec<u32>> = vec![Vec::new(); placed.shards.len()];
            for (row, slot) in slots.iter().enumerate() {
                of_shard[placed.shard_of(*slot)].push(row as u32);
            }
            for (places, (batches, ordinals)) in of_shard.into_iter().zip(&mut parts) {
                if places.is_empty() {
                    continue;
                }
                if comes {
                    let own = |(at, &row): (usize, &u32)| {
                        if planted("ordinals by shard") { at as u64 } else { coming + u64::from(row) }
                    };
                    ordinals.extend(places.iter().enumerate().map(own));
                }
                let all = places.len() == batch.num_rows();
                batches.push(if all { batch.clone() } else { taken(batch, places)? });
            }
            coming += if comes { batch.num_rows() as u64 } else { 0 };
        }
        for ((batches, ordinals), gathered) in parts.into_iter().zip(&mut gathered) {
            if batches.is_empty() {
                continue;
            }
            gathered.rows += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            let ordinals = comes.then(|| UInt64Array::from(ordinals));
            gathered.changes.push(NewRows { batches, ordinals, ..rows.clone() });
        }
    }
    let part = |(shard, gathered): (&Shard, Gathered)| -> Result<Part> {
        let rows = gathered.changes.into_iter().map(|rows| NewRows { table: shard.id, ..rows }).collect();
        let body = encode(&NewBatch { rows, ..NewBatch::default() })?.into();
        Ok(Part { table: def.id, shard: shard.clone(), quorum: placed.write_quorum, rows: gathered.rows, body })
    };
    let parts = placed.shards.iter().zip(gathered);
    parts.filter(|(_, gathered)| !gathered.changes.is_empty()).map(part).collect()
}

/// Keys are decided where a version is, which is after a body is staged: so what needs an answer before the decision is not taken.
fn refuse(def: &TableDef, rows: &NewRows) -> Result<()> {
    let what = match (rows.change, def.key.is_some()) {
        (RowChange::Insert, false) | (RowChange::Upsert | RowChange::Delete, true) if rows.computed_at.is_none() => {
            return Ok(());
        }
        (RowChange::Insert | RowChange::InsertNew, true) => "rows whose keys may be there already",
        _ => "rows that were computed from others",
    };
    Err(Error::new(
        ErrorKind::NotSupported,
        format!("table '{}' lies on several machines, and takes no {what}", def.name),
    )
    .with_hint("write whole rows into a table WITH (on_conflict = 'replace'), or delete by key"))
}

fn taken(batch: &RecordBatch, places: Vec<u32>) -> Result<RecordBatch> {
    take_record_batch(batch, &UInt32Array::from(places))
        .map_err(|error| Error::internal(format!("rows of a shard: {error}")))
}
