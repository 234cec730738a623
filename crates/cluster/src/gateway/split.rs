//! Rows of a batch, by shard.
//!
//! Invariants:
//! - Each row is in one part; rows of a part are in the order of the batch, with the ordinals that they have there.
//! - A batch is split the same way whenever it is split by one placement and number.

use crate::placed::{PlacedTable, Shard};
use alluvia_commit::encode;
use alluvia_snapshot::{NewBatch, NewRows, RowChange};
use alluvia_space::TableDef;
use alluvia_types::{Error, Result, TableId, Version, planted};
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
    /// What is looked at before they are decided, if anything is.
    pub looks: Option<Looks>,
}

/// What is looked at of a part before it is decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looks {
    /// The versions that rows were computed from, in the order of the body's rows.
    pub computed_at: Vec<Option<Version>>,
    /// So many rows are named by their identities, which any shard of the table may have.
    pub named: u64,
    /// Whether all of these must be there.
    pub must_be: bool,
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
/// Errors: as [`Placement::slots`](alluvia_space::Placement).
pub fn split(def: &TableDef, placed: &PlacedTable, rows: &[NewRows], number: u64) -> Result<Vec<Part>> {
    let mut gathered: Vec<Gathered> = placed.shards.iter().map(|_| Gathered::default()).collect();
    let mut coming = 0;
    for rows in rows {
        if rows.change == RowChange::DeleteRows {
            for gathered in &mut gathered {
                gathered.changes.push(rows.clone());
            }
            continue;
        }
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
        let looks = gathered.changes.iter().any(|rows| must_look(def, rows)).then(|| looks_of(&gathered.changes));
        let rows = gathered.changes.into_iter().map(|rows| NewRows { table: shard.id, ..rows }).collect();
        let body = encode(&NewBatch { rows, ..NewBatch::default() })?.into();
        let quorum = placed.quorum(shard);
        Ok(Part { table: def.id, shard: shard.clone(), quorum, rows: gathered.rows, body, looks })
    };
    let parts = placed.shards.iter().zip(gathered);
    parts.filter(|(_, gathered)| !gathered.changes.is_empty()).map(part).collect()
}

fn looks_of(changes: &[NewRows]) -> Looks {
    let is_named = |rows: &&NewRows| rows.change == RowChange::DeleteRows;
    let count = |rows: &NewRows| rows.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    let named = || changes.iter().filter(is_named);
    Looks {
        // Whether rows that are named are there, is asked of all shards: none has to have them.
        computed_at: changes.iter().map(|rows| rows.computed_at.filter(|_| !is_named(&rows))).collect(),
        named: named().map(count).sum(),
        must_be: named().any(|rows| rows.computed_at.is_some()),
    }
}

/// Whether what rows do must be looked at before they are decided: it depends on the rows that are there, and may refuse them.
fn must_look(def: &TableDef, rows: &NewRows) -> bool {
    match (rows.change, def.key.is_some()) {
        (RowChange::Insert, false) => false,
        (RowChange::Upsert | RowChange::Delete, true) => rows.computed_at.is_some(),
        _ => true,
    }
}

fn taken(batch: &RecordBatch, places: Vec<u32>) -> Result<RecordBatch> {
    take_record_batch(batch, &UInt32Array::from(places))
        .map_err(|error| Error::internal(format!("rows of a shard: {error}")))
}
