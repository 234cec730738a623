//! Values of identity columns.
//!
//! Invariants:
//! - No value of a sequence is given twice, whatever becomes of the row that it was for. Values are given only once a
//!   record of the log says that they are taken; those that it says so of and that nobody got before the process ended are
//!   a gap.
//! - Of a table that only an open transaction has, its COMMIT says what is taken, with the table. What such a transaction
//!   took stays taken, also where it goes back to a savepoint.
//! - Sequences of temporary tables are their sessions' own: no log says anything of them.
//! - Where several processes take values, a record says what was taken before, and is refused where it is not so: then others have, and
//!   the next ones are taken. A block whose sequence another process has begun anew is given up, once that is known.
//! - A sequence is locked while its values are taken, which may wait for the log: whoever takes may block.

use crate::engine::Engine;
use alluvia_catalog::{Change, TableEntry, TakenBefore};
use alluvia_snapshot::{Durability, NewBatch};
use alluvia_space::Identity;
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// A statement that asks for many values gets so many times as many at once: each block is a record of the log, which is
/// synced.
const AHEAD: u64 = 16;

/// Who takes values.
pub(crate) trait Taker {
    /// The sequence, if it is one of a temporary table: nothing but the session knows of it.
    fn own_block(&self, sequence: (TableId, ColumnId)) -> Option<SharedBlock>;
    /// It has got values of this sequence, the last of which this is.
    fn has_taken(&self, sequence: (TableId, ColumnId), last: i64);
    /// The COMMIT of its transaction, whose own the table is, is to say that values are taken.
    fn take_with_commit(&self, change: Change) -> Result<()>;
}

/// The sequences that were asked since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Mutex<HashMap<(TableId, ColumnId), SharedBlock>>);

/// Locked while values are taken.
pub(crate) type SharedBlock = Arc<Mutex<Block>>;

/// Values that are taken, and how far they are given.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The last value that was given.
    given: Option<i64>,
    /// The last that is taken.
    through: Option<i64>,
}

impl Sequences {
    /// Takes so many values, which follow each other; gives the first. They are the session's last ones of that sequence.
    pub(crate) fn take(
        &self,
        engine: &Engine,
        taker: &dyn Taker,
        entry: &TableEntry,
        identity: &Identity,
        count: u64,
    ) -> Result<i64> {
        let key = (entry.def.id, identity.column);
        let (block, log) = self.block(engine, taker, key);
        let mut block = block.lock();
        let is_shared = matches!(log, Log::AtOnce) && engine.read().is_remote();
        if is_shared {
            block.follow(identity, engine.read().catalog().taken(key.0, key.1));
        }
        loop {
            let first = identity.next(block.given).ok_or_else(|| at_end(identity))?;
            let left = identity.left_from(first);
            if left < count {
                return Err(at_end(identity));
            }
            let last = identity.behind(first, count.saturating_sub(1)).ok_or_else(|| at_end(identity))?;
            if !block.has(identity, last) {
                let cache = u64::from(identity.cache);
                let wanted = if count < cache { cache } else { count.saturating_mul(AHEAD) };
                let steps = wanted.min(left).saturating_sub(1);
                let through = identity.behind(first, steps).ok_or_else(|| at_end(identity))?;
                let only_after = is_shared.then(|| block.through.map_or(TakenBefore::Nothing, TakenBefore::Through));
                match record(engine, taker, key, Some(through), only_after, log) {
                    // Another process has taken values since: these come behind them.
                    Err(error) if is_shared && error.kind() == ErrorKind::Conflict => {
                        engine.read().learn_definitions()?;
                        let through = engine.read().catalog().taken(key.0, key.1);
                        *block = Block { given: through, through };
                        continue;
                    }
                    recorded => recorded?,
                }
                block.through = Some(through);
            }
            block.given = Some(last);
            drop(block);
            taker.has_taken(key, last);
            return Ok(first);
        }
    }

    /// Has the sequence go on behind `given`, or begin anew.
    pub(crate) fn set(
        &self,
        engine: &Engine,
        taker: &dyn Taker,
        entry: &TableEntry,
        identity: &Identity,
        given: Option<i64>,
    ) -> Result<()> {
        let key = (entry.def.id, identity.column);
        let (block, log) = self.block(engine, taker, key);
        let mut block = block.lock();
        record(engine, taker, key, given, None, log)?;
        *block = Block { given, through: given };
        Ok(())
    }

    /// What is given of a sequence is to be known anew from the definitions: it is another one, or was begun anew with them.
    pub(crate) fn forget(&self, table: TableId, column: ColumnId) {
        self.0.lock().remove(&(table, column));
    }

    fn block(&self, engine: &Engine, taker: &dyn Taker, key: (TableId, ColumnId)) -> (SharedBlock, Log) {
        if let Some(block) = taker.own_block(key) {
            return (block, Log::Nothing);
        }
        let newest = engine.read().catalog();
        // The table, or that its column is numbered, may be the open transaction's alone.
        let is_known = newest.by_id(key.0).is_some_and(|entry| entry.def.identity_of(key.1).is_some());
        let log = if is_known { Log::AtOnce } else { Log::WithCommit };
        let mut known = self.0.lock();
        let block = known.entry(key).or_insert_with(|| {
            let through = newest.taken(key.0, key.1);
            Arc::new(Mutex::new(Block { given: through, through }))
        });
        (Arc::clone(block), log)
    }
}

/// When the log says what is taken.
#[derive(Clone, Copy)]
enum Log {
    /// Before it is given.
    AtOnce,
    /// With the transaction that the table is of.
    WithCommit,
    /// Never: the table is temporary.
    Nothing,
}

impl Block {
    /// What is taken is less than it was: the sequence was begun anew elsewhere, and what is left of the block is nobody's.
    fn follow(&mut self, identity: &Identity, taken: Option<i64>) {
        let is_less = match (taken, self.through) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(taken), Some(through)) if identity.increment > 0 => taken < through,
            (Some(taken), Some(through)) => taken > through,
        };
        if is_less {
            *self = Block { given: taken, through: taken };
        }
    }

    /// The last value that was given.
    pub(crate) fn given(&self) -> Option<i64> {
        self.given
    }

    /// Whether a value, which is behind those that were given, is taken.
    fn has(&self, identity: &Identity, value: i64) -> bool {
        self.through.is_some_and(|through| if identity.increment > 0 { value <= through } else { value >= through })
    }
}

/// Has the log say what is taken, or the transaction that the table is of.
fn record(
    engine: &Engine,
    taker: &dyn Taker,
    (table, column): (TableId, ColumnId),
    through: Option<i64>,
    only_after: Option<TakenBefore>,
    log: Log,
) -> Result<()> {
    let change = Change::Sequence { table, column, through, only_after };
    match log {
        Log::Nothing => return Ok(()),
        Log::WithCommit => return taker.take_with_commit(change),
        Log::AtOnce => {}
    }
    // Synced whatever the session's durability is: a row may be seen, or told of, before a later sync.
    engine.ingest().submit(NewBatch { changes: vec![change], ..NewBatch::default() }, Durability::Sync).map(drop)
}

fn at_end(identity: &Identity) -> Error {
    let (end, limit) = match identity.increment > 0 {
        true => ("maximum", identity.maximum),
        false => ("minimum", identity.minimum),
    };
    let message = format!("nextval: reached {end} value of sequence \"{}\" ({limit})", identity.name);
    Error::new(ErrorKind::SequenceLimit, message).with_hint("a wider column has more values: BIGINT")
}
