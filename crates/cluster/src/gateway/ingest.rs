//! The port of writers: batches are split, staged and decided.
//!
//! Invariants:
//! - What is acknowledged is decided (D5). An error before the proposal decides nothing. Where the keeper has been asked and has not
//!   answered, the error says that nobody knows; a batch with a producer's number or a key can be sent again, and is applied once.
//! - A batch that the keeper has not answered about stays open: the floor does not pass it.

use super::look::{Looked, among_themselves};
use super::reach::Reached;
use super::session::{Gateway, unasked};
use super::split::{Part, split};
use super::write::{Action, Event, Write};
use crate::decision::Decided;
use crate::image::{Image, lies_elsewhere, must_look_again, must_route_again};
use crate::keeper::{Outcome, Proposal};
use crate::message::{FromBodies, FromKeeper, FromWorker, ToBodies, ToKeeper, ToWorker};
use crate::placed::PlacedTable;
use crate::words::{BatchId, NodeId};
use crate::worker::Staged;
use alluvia_catalog::{Change, DictionaryMark};
use alluvia_snapshot::{
    BatchKey, Committed, Done, Durability, Ingest, KeyRecord, Load, NewBatch, NewRows, RowChange, StagedLoad, Staging,
};
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, TableId, Version};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A replica that is silent is asked again after so long; it may only be slow.
const STAGED_AGAIN: Duration = Duration::from_millis(500);

/// A replica that is asked for longer than it takes to be connected to works on it: the connection tells when it does no more.
const AT_WORK: Duration = Duration::from_secs(2);

/// The keeper is asked again after so long.
const ASKED_AGAIN: Duration = Duration::from_millis(100);

/// Rows of one load have at most so many bytes; they wait in memory.
const LOAD_BYTES_MAX: usize = 512 << 20;

/// A number that no table has: what is made under it is refused.
const NO_NUMBER: TableId = TableId(0);

/// A batch whose shards have other replicas by now is staged anew, so often at most.
const ROUTES_MAX: u32 = 20;

/// A batch that has looked at its shards in vain looks again, so often at most, and after a pause that grows.
const LOOKS_MAX: u32 = 200;
const LOOK_PAUSE: Duration = Duration::from_millis(1);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(10);

/// A batch, ready to be staged.
#[derive(Clone)]
struct Ready {
    parts: Vec<Part>,
    proposal: Proposal,
    /// Rows that are known to change nothing.
    passed_over: u64,
}

impl Gateway {
    /// Splits a batch by what the image says.
    fn ready(&self, image: &Image, (id, floor): (BatchId, u64), batch: NewBatch) -> Result<Ready> {
        let NewBatch { changes, mut rows, loads, producer, key, unwritten, heeds: _ } = batch;
        for load in &loads {
            let batches = load.staging.id().and_then(|id| self.loads.lock().remove(&id)).unwrap_or_default();
            rows.push(NewRows { change: load.change, ..NewRows::insert(load.table, load.checked_at, batches) });
        }
        let mut placed: Vec<(TableId, PlacedTable)> = Vec::new();
        let mut defs: HashMap<TableId, Arc<TableDef>> = HashMap::new();
        for change in &changes {
            let known = |id: &TableId| image.placed.get(id).cloned();
            let (id, of_table) = match change {
                Change::CreateTable { def } | Change::AlterTable { def, .. } => {
                    defs.insert(def.id, Arc::new(def.clone()));
                    match change {
                        Change::CreateTable { .. } if def.id == NO_NUMBER => return Err(no_number()),
                        Change::CreateTable { .. } => {
                            (def.id, Some(PlacedTable::new(def, &image.workers(), || self.number())?))
                        }
                        _ => (def.id, known(&def.id)),
                    }
                }
                Change::DropTable { id } => (*id, known(id)),
                Change::CreateView { .. } | Change::CreateSchema { .. } | Change::PutRoutine { .. }
                    if change.new_id() == Some(NO_NUMBER) =>
                {
                    return Err(no_number());
                }
                _ => continue,
            };
            if !placed.iter().any(|(known, _)| *known == id) {
                placed.extend(of_table.map(|of_table| (id, of_table)));
            }
        }
        rows.retain(|rows| rows.batches.iter().any(|batch| batch.num_rows() > 0));
        let mut tables: Vec<TableId> = rows.iter().map(|rows| rows.table).collect();
        tables.sort();
        tables.dedup();
        let (mut parts, mut checked, mut passed_over) = (Vec::new(), Vec::new(), 0);
        for table in tables {
            let gone = || Error::new(ErrorKind::Conflict, "the table was dropped while the batch was under way");
            let def = defs.get(&table).or(image.catalog.by_id(table).map(|entry| &entry.def)).ok_or_else(gone)?;
            let own = placed.iter().find(|(placed, _)| *placed == table).map(|(_, placed)| placed);
            let of_table = own.or(image.placed.get(&table)).ok_or_else(gone)?;
            let rows: Vec<NewRows> = rows.iter().filter(|rows| rows.table == table).cloned().collect();
            checked.extend(rows.iter().map(|rows| (table, rows.checked_at)));
            // A number that no other batch has, by which rows are spread.
            let number = id.gateway.0 ^ id.incarnation << 40 ^ id.sequence;
            let mut of_rows = split(def, of_table, &rows, number)?;
            if image.placed.contains_key(&table) {
                if defs.contains_key(&table) && of_rows.iter().any(|part| part.looks.is_some()) {
                    return Err(refuse_both(&def.name));
                }
            } else {
                // Nobody else has written to it.
                passed_over += among_themselves(def, &rows)?;
                of_rows.iter_mut().for_each(|part| part.looks = None);
            }
            parts.extend(of_rows);
        }
        let decided = Decided { id, floor, changes, placed, producer, key, touched: Vec::new() };
        let proposal = Proposal { decided, checked, unwritten, looked: Vec::new() };
        Ok(Ready { parts, proposal, passed_over })
    }

    /// Has a batch staged and decided, with so many rows passed over. Whether the outcome is known is told beside it.
    ///
    /// Where replicas of its shards have changed meanwhile, it is staged anew: nobody has decided it, nor will under the old ones.
    fn run(&self, id: BatchId, mut ready: Ready) -> (Result<(Outcome, u64)>, bool) {
        for route in 0..ROUTES_MAX {
            let (outcome, is_known) = self.run_as_routed(id, ready.clone());
            match &outcome {
                Err(error) if is_known && must_route_again(error) => {}
                _ => return (outcome, is_known),
            }
            // What has moved the shard may not be durable yet, and is told by nobody before it is.
            std::thread::park_timeout(LOOK_PAUSE * route * route);
            let image = match self.now().and_then(|version| self.caught_up(version)) {
                Ok(image) => image,
                Err(error) => return (Err(error), true),
            };
            for part in &mut ready.parts {
                let Some(placed) = image.placed.get(&part.table) else { continue };
                if let Some(shard) = placed.shard(part.shard.id) {
                    (part.quorum, part.shard) = (placed.quorum(shard), shard.clone());
                }
            }
        }
        self.run_as_routed(id, ready)
    }

    fn run_as_routed(&self, id: BatchId, ready: Ready) -> (Result<(Outcome, u64)>, bool) {
        if ready.parts.iter().all(|part| part.looks.is_none()) {
            let passed_over = ready.passed_over;
            let (outcome, is_known) = self.run_once(id, ready.parts, ready.proposal);
            return (outcome.map(|outcome| (outcome, passed_over)), is_known);
        }
        let turns = self.turns(&ready.parts);
        let _turns: Vec<_> = turns.iter().map(|turn| turn.lock()).collect();
        // The keeper tells whether a batch was sent before. What the image says of it is believed once.
        let mut may_be_repeated = true;
        for look in 0.. {
            // By what is decided now: what is said of older rows may be wrong.
            let image = match self.now().and_then(|version| self.caught_up(version)) {
                Ok(image) => image,
                Err(error) => return (Err(error), true),
            };
            let Ready { mut parts, mut proposal, passed_over } = ready.clone();
            let looked = match may_be_repeated && is_repeated(&image, &proposal.decided) {
                true => Looked::never(&parts),
                false => match self.look(&image, &mut parts) {
                    Ok(looked) => looked,
                    // Its first copy may have been decided meanwhile, and be what refuses it.
                    Err(_) if may_be_repeated && self.is_repeated_now(&proposal.decided) => continue,
                    Err(error) => return (Err(error), true),
                },
            };
            may_be_repeated &= !looked.is_of_nothing();
            proposal.looked = looked.shards;
            let (outcome, is_known) = self.run_once(id, parts, proposal);
            match outcome {
                Err(error) if is_known && look < LOOKS_MAX && must_look_again(&error) => {
                    std::thread::park_timeout((LOOK_PAUSE * look).min(LOOK_PAUSE_MAX));
                }
                outcome => {
                    let passed_over = passed_over + looked.passed_over;
                    return (outcome.map(|outcome| (outcome, passed_over)), is_known);
                }
            }
        }
        (Err(Error::internal("a batch looks without end")), true)
    }

    /// Whether a batch was sent before, by what is decided now. Where that is not known, it was not.
    fn is_repeated_now(&self, decided: &Decided) -> bool {
        let image = self.now().and_then(|version| self.caught_up(version));
        image.is_ok_and(|image| is_repeated(&image, decided))
    }

    /// The turns of the shards that a batch looks at, in the order in which all take them.
    fn turns(&self, parts: &[Part]) -> Vec<Arc<Mutex<()>>> {
        let mut shards: Vec<TableId> =
            parts.iter().filter(|part| part.looks.is_some()).map(|part| part.shard.id).collect();
        shards.sort();
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        shards.into_iter().map(|shard| Arc::clone(turns.entry(shard).or_default())).collect()
    }

    /// The same, once.
    fn run_once(&self, id: BatchId, parts: Vec<Part>, proposal: Proposal) -> (Result<Outcome>, bool) {
        let (sender, events) = channel();
        let (mut write, first) = Write::begin(parts, proposal);
        let mut actions: std::collections::VecDeque<Action> = first.into();
        // Who was asked, and has neither answered nor not been reached: since when.
        let mut asked: BTreeMap<(NodeId, usize), Duration> = BTreeMap::new();
        let given_up = self.clock.monotonic() + self.options.staging_patience;
        loop {
            while let Some(action) = actions.pop_front() {
                match action {
                    // Who works on it is not sent it again.
                    Action::Stage { node, part } if asked.contains_key(&(node, part)) => {}
                    Action::Stage { node, part } => {
                        asked.insert((node, part), self.clock.monotonic());
                        let sender = sender.clone();
                        // Whoever waits may have gone.
                        let answered = move |answer| drop(sender.send((node, part, answer)));
                        let part = write.part(part);
                        let (shard, epoch) = (part.shard.id, part.shard.epoch);
                        let staged = Staged { batch: id, shard, epoch, body: Arc::clone(&part.body) };
                        self.reach.worker(node, ToWorker::Bodies(ToBodies::Stage(staged)), Box::new(answered));
                    }
                    Action::Propose(proposal) => match self.propose(&proposal) {
                        Ok(outcome) => actions.extend(write.step(Event::Answered(outcome))),
                        Err(error) => return (Err(error), false),
                    },
                    Action::Done(outcome) => return (outcome, true),
                }
            }
            let event = match events.recv_timeout(STAGED_AGAIN) {
                Ok((node, part, answer)) => {
                    asked.remove(&(node, part));
                    // Who is not reached is silent, and asked again.
                    event_of(write.part(part).shard.id, node, answer)
                }
                Err(_) => {
                    if let Some(shard) = write.misrouted(&self.image()) {
                        return (Err(lies_elsewhere(shard)), true);
                    }
                    let now = self.clock.monotonic();
                    let is_at_work = asked.values().any(|since| now >= *since + AT_WORK);
                    Some(if now >= given_up && !is_at_work { Event::Late } else { Event::Again })
                }
            };
            actions.extend(event.into_iter().flat_map(|event| write.step(event)));
        }
    }

    /// What the keeper says, asked until it answers. An error: nobody knows.
    fn propose(&self, proposal: &Proposal) -> Result<Result<Outcome>> {
        let given_up = self.clock.monotonic() + self.options.deciding_patience;
        let mut was_asked = false;
        loop {
            let why = match self.keeper(ToKeeper::Propose(Box::new(proposal.clone()))) {
                Ok(Ok(FromKeeper::Outcome(outcome))) => return Ok(Ok(outcome)),
                Ok(Ok(_)) => return unasked(),
                // What an earlier try has begun may still be decided once there is room.
                Ok(Err(error)) if was_asked && matches!(error.kind(), ErrorKind::Busy | ErrorKind::DiskFull) => {
                    error.message().to_owned()
                }
                Ok(Err(error)) => return Ok(Err(error)),
                Err(why) => format!("the keeper is not reached: {}", why.why),
            };
            if self.clock.monotonic() >= given_up {
                return Err(unknown(&why));
            }
            was_asked = true;
            std::thread::park_timeout(ASKED_AGAIN);
        }
    }

    /// Has a batch staged and decided by itself. Whether the outcome is known is told beside it.
    pub(super) fn submit_alone(&self, batch: NewBatch) -> (Result<Committed>, bool) {
        let has_changes = !batch.changes.is_empty();
        let (id, floor) = self.begin();
        let image = self.image();
        let (outcome, is_known) = match self.ready(&image, (id, floor), batch) {
            Ok(ready) => self.run(id, ready),
            Err(error) => (Err(error), true),
        };
        if is_known {
            self.end(id);
        } else {
            self.leave_unknown(id);
        }
        let (Outcome { version, duplicate }, passed_over) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                if error.kind() == ErrorKind::Conflict {
                    // By what was decided since, it may go another time; who comes next learns that else.
                    let _ = self.refresh();
                }
                return (Err(error), is_known);
            }
        };
        if has_changes {
            // It is committed whatever comes of this; the next statement catches up, too.
            let _ = self.caught_up(version);
        }
        (Ok(Committed { version, duplicate, passed_over }), is_known)
    }
}

fn unknown(why: &str) -> Error {
    Error::new(ErrorKind::Io, format!("nobody knows whether the batch is committed: {why}"))
        .with_hint("look whether its rows are there; a batch with a producer's number or a key can be sent again")
}

/// Workers know a table as it was before the batch.
fn refuse_both(table: &str) -> Error {
    let what = format!(
        "table '{table}' lies on several machines, and one transaction changes its definition and its rows by key"
    );
    Error::new(ErrorKind::NotSupported, what).with_hint("change the definition in a transaction of its own")
}

/// Whether its producer or its client seems to have sent a batch before.
fn is_repeated(image: &Image, Decided { producer, key, .. }: &Decided) -> bool {
    let is_numbered = |mark: &ProducerMark| {
        let known = image.producers.get(&mark.name);
        known.is_some_and(|known| (mark.epoch, mark.sequence) <= (known.epoch, known.sequence))
    };
    producer.as_ref().is_some_and(is_numbered)
        || key.is_some_and(|key| image.keys.iter().any(|record| record.key == key))
}

fn no_number() -> Error {
    Error::new(ErrorKind::Busy, "the keeper has given no number for what is new")
        .with_hint("send it again once the keeper is reached")
}

fn event_of(shard: TableId, node: NodeId, answer: Reached<FromWorker>) -> Option<Event> {
    Some(match answer {
        Ok(Ok(FromWorker::Bodies(FromBodies::Staged))) => Event::Staged { shard, node },
        Ok(Ok(_)) => Event::Refused { shard, node, error: Error::internal("an answer to another question") },
        Ok(Err(error)) => Event::Refused { shard, node, error },
        Err(_) => return None,
    })
}

impl Ingest for Gateway {
    /// Waits for durability whatever is asked for: a decision without it would be taken back by a keeper's crash.
    fn submit(&self, batch: NewBatch, _durability: Durability) -> Result<Committed> {
        match self.goes_together(&batch) {
            Some(of) => self.submit_together(of, batch),
            None => self.submit_alone(batch).0,
        }
    }

    fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)> {
        Some((batch, done))
    }

    fn new_table_id(&self) -> TableId {
        self.number().unwrap_or(NO_NUMBER)
    }

    fn begin_load(&self, table: &Arc<TableDef>, checked_at: Version) -> Result<Box<dyn Load>> {
        let (staging, _) = Staging::begin();
        let (table, loads) = (Arc::clone(table), Arc::clone(&self.loads));
        Ok(Box::new(GatewayLoad { table, checked_at, rows: Vec::new(), bytes: 0, staging, loads }))
    }

    fn discard(&self, batch: NewBatch) {
        for load in &batch.loads {
            load.staging.id().map(|id| self.loads.lock().remove(&id));
        }
    }

    fn producer(&self, name: &str) -> Option<(ProducerMark, Version)> {
        let image = self.now().and_then(|version| self.caught_up(version)).unwrap_or_else(|_| self.image());
        let state = image.producers.get(name)?;
        Some((ProducerMark { name: name.to_owned(), epoch: state.epoch, sequence: state.sequence }, state.version))
    }

    fn keyed(&self, key: BatchKey) -> Option<KeyRecord> {
        let image = self.now().and_then(|version| self.caught_up(version)).unwrap_or_else(|_| self.image());
        image.keys.iter().rev().find(|record| record.key == key).copied()
    }
}

/// Takes the rows of a large batch, and keeps them in memory.
struct GatewayLoad {
    table: Arc<TableDef>,
    checked_at: Version,
    rows: Vec<RecordBatch>,
    bytes: usize,
    staging: Staging,
    loads: Arc<Mutex<HashMap<usize, Vec<RecordBatch>>>>,
}

impl Load for GatewayLoad {
    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        self.bytes += rows.get_array_memory_size();
        if self.bytes > LOAD_BYTES_MAX {
            let what = format!("the rows of one batch have more than {} MiB", LOAD_BYTES_MAX >> 20);
            return Err(Error::new(ErrorKind::OutOfMemory, what)
                .with_hint("a table on several machines takes so much at once: load it in several batches"));
        }
        let schema = self.table.storage_schema();
        let column = |(field, column): (&Arc<arrow::datatypes::Field>, &arrow::array::ArrayRef)| {
            arrow::compute::cast(column, field.data_type())
        };
        let columns =
            schema.fields().iter().zip(rows.columns()).map(column).collect::<std::result::Result<Vec<_>, _>>();
        let rows = columns.and_then(|columns| RecordBatch::try_new(schema, columns));
        self.rows.push(rows.map_err(|error| Error::internal(format!("rows of a load: {error}")))?);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<StagedLoad> {
        let rows = self.rows.iter().map(|rows| rows.num_rows() as u64).sum();
        let change = RowChange::of_table(&self.table);
        if let Some(id) = self.staging.id() {
            self.loads.lock().insert(id, self.rows);
        }
        Ok(StagedLoad {
            table: self.table.id,
            checked_at: self.checked_at,
            segments: Vec::new(),
            dictionary: DictionaryMark::default(),
            ranges: Vec::new(),
            rows,
            change,
            staging: self.staging,
        })
    }
}
