//! A gateway's process: batches and reads of its clients, under way.

use super::clients::{Content, Part, Reply, Token};
use super::net::{KEEPER, MILLI, MachineId, Message, SECOND, node_of, place_of};
use crate::keyed::tables::{KeyKind, table};
use alluvia_catalog::Change;
use alluvia_cluster::gateway::{Action, Event, Known, Write, split};
use alluvia_cluster::message::{FromBodies, FromKeeper, ToBodies, ToKeeper};
use alluvia_cluster::{BatchId, Decided, Image, NodeId, PlacedTable, Proposal, Role, Staged};
use alluvia_sim::rows::{FoundRow, batch_of, table_batch};
use alluvia_snapshot::{NewRows, RowChange};
use alluvia_space::{OnConflict, TableDef};
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, TableId, Version};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A question is asked again after so long without an answer.
const PATIENCE: u64 = 100 * MILLI;
/// A batch that is being staged is given up after so long.
const STAGING: u64 = SECOND;
/// A read fails after so long.
const READING: u64 = 4 * SECOND;

/// What is to be sent: to whom, under which number, and what.
pub type Out = (MachineId, u64, Message);

/// What a question was asked for.
enum Call {
    Join,
    Feed { sent: u64 },
    Now { token: Token, sent: u64 },
    Numbers,
    Stage { sequence: u64, shard: TableId, node: NodeId },
    Propose { sequence: u64 },
    Rows { token: Token, at: usize, version: Version },
}

struct Open {
    token: Token,
    write: Write,
    batch: BatchId,
    began: u64,
    looked: u64,
}

struct Read {
    token: Token,
    tables: Vec<TableId>,
    age: Duration,
    at_least: Version,
    began: u64,
    version: Option<Version>,
    asked_now: Option<u64>,
    parts: Vec<PartRead>,
}

struct PartRead {
    table: TableId,
    shard: TableId,
    replicas: Vec<NodeId>,
    turn: usize,
    asked: Option<u64>,
    rows: Option<Vec<FoundRow>>,
}

pub struct Gateway {
    place: MachineId,
    process: u64,
    incarnation: Option<u64>,
    pub image: Arc<Image>,
    known: Known,
    sequence: u64,
    open: BTreeMap<u64, Open>,
    reads: Vec<Read>,
    calls: BTreeMap<u64, Call>,
    asked: u64,
    numbers: Range<u32>,
    asked_join: Option<u64>,
    asked_numbers: Option<u64>,
    asked_feed: Option<u64>,
    /// Batches that need numbers.
    waiting: Vec<(Token, Arc<Content>, ProducerMark)>,
    out: Vec<Out>,
    /// For whoever runs it.
    pub replies: Vec<(Token, Reply)>,
    pub begun: Vec<(BatchId, Arc<Content>)>,
}

impl Gateway {
    pub fn new(place: MachineId, process: u64) -> Gateway {
        Gateway {
            place,
            process,
            incarnation: None,
            image: Arc::new(Image::new(0)),
            known: Known::default(),
            sequence: 0,
            open: BTreeMap::new(),
            reads: Vec::new(),
            calls: BTreeMap::new(),
            asked: 0,
            numbers: 0..0,
            asked_join: None,
            asked_numbers: None,
            asked_feed: None,
            waiting: Vec::new(),
            out: Vec::new(),
            replies: Vec::new(),
            begun: Vec::new(),
        }
    }

    pub fn take_out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    fn ask(&mut self, to: MachineId, call: Call, message: Message) {
        self.asked += 1;
        self.calls.insert(self.asked, call);
        self.out.push((to, self.asked, message));
    }

    pub fn read(&mut self, now: u64, token: Token, tables: Vec<TableId>, age: u64, at_least: Version) {
        let age = Duration::from_micros(age);
        let (version, asked_now, parts) = (None, None, Vec::new());
        self.reads.push(Read { token, tables, age, at_least, began: now, version, asked_now, parts });
        self.look_at_reads(now);
    }

    pub fn write(&mut self, now: u64, token: Token, content: Arc<Content>, mark: ProducerMark) {
        let needed = content.define.len() as u32 * 16;
        if self.numbers.len() < needed as usize {
            self.waiting.push((token, content, mark));
            return self.tick(now);
        }
        if let Err(error) = self.begin(now, token, &content, mark) {
            self.replies.push((token, Reply::Failed(error)));
        }
    }

    fn begin(&mut self, now: u64, token: Token, content: &Arc<Content>, mark: ProducerMark) -> Result<()> {
        let not_yet = || Error::new(ErrorKind::Busy, "the gateway has not joined");
        let incarnation = self.incarnation.ok_or_else(not_yet)?;
        let image = Arc::clone(&self.image);
        if image.version == Version(0) {
            return Err(not_yet());
        }
        let (mut changes, mut placed, mut parts, mut checked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (name, kind, placement) in &content.define {
            let mut number = || Ok(TableId(self.numbers.next().expect("there are enough")));
            let mut def = table(number()?, name, *kind, OnConflict::Replace);
            def.options.placement = Some(placement.clone());
            placed.push((def.id, PlacedTable::new(&def, &image.workers(), number)?));
            changes.push(Change::CreateTable { def });
        }
        for id in &content.drop {
            placed.extend(image.placed.get(id).map(|placed| (*id, placed.clone())));
            changes.push(Change::DropTable { id: *id });
        }
        self.sequence += 1;
        let batch = BatchId { gateway: node_of(self.place), incarnation, sequence: self.sequence };
        let mut at = 0;
        while at < content.parts.len() {
            let id = content.parts[at].0;
            let unknown = || Error::new(ErrorKind::UndefinedTable, "there is no such table");
            let entry = image.catalog.by_id(id).ok_or_else(unknown)?;
            let of_table = image.placed.get(&id).ok_or_else(unknown)?;
            let rows: Vec<NewRows> = content.parts[at..]
                .iter()
                .take_while(|(table, _)| *table == id)
                .map(|(_, part)| new_rows(&entry.def, entry.changed_at, part))
                .collect();
            at += rows.len();
            checked.push((id, entry.changed_at));
            parts.extend(split(
                &entry.def,
                of_table,
                &rows,
                batch.gateway.0 << 40 | batch.incarnation << 20 | batch.sequence,
            )?);
        }
        let floor = self.open.keys().next().copied().unwrap_or(self.sequence);
        let (producer, key, touched) = (Some(mark), None, Vec::new());
        let decided = Decided { id: batch, floor, changes, placed, producer, key, touched };
        let (write, actions) =
            Write::begin(parts, Proposal { decided, checked, unwritten: Vec::new(), looked: Vec::new() });
        self.begun.push((batch, Arc::clone(content)));
        self.open.insert(self.sequence, Open { token, write, batch, began: now, looked: now });
        self.act(self.sequence, actions);
        Ok(())
    }

    fn act(&mut self, sequence: u64, actions: Vec<Action>) {
        for action in actions {
            let Some(open) = self.open.get(&sequence) else { return };
            match action {
                Action::Stage { node, part } => {
                    let part = open.write.part(part);
                    let (shard, epoch) = (part.shard.id, part.shard.epoch);
                    let staged = Staged { batch: open.batch, shard, epoch, body: Arc::clone(&part.body) };
                    let call = Call::Stage { sequence, shard, node };
                    self.ask(place_of(node), call, Message::AskBodies(ToBodies::Stage(staged)));
                }
                Action::Propose(proposal) => {
                    self.ask(KEEPER, Call::Propose { sequence }, Message::AskKeeper(ToKeeper::Propose(proposal)));
                }
                Action::Done(outcome) => {
                    let reply = match outcome {
                        Ok(outcome) => Reply::Written(outcome.version),
                        Err(error) => Reply::Failed(error),
                    };
                    self.replies.push((open.token, reply));
                    self.open.remove(&sequence);
                }
            }
        }
    }

    fn step(&mut self, sequence: u64, event: Event) {
        let Some(open) = self.open.get_mut(&sequence) else { return };
        let actions = open.write.step(event);
        self.act(sequence, actions);
    }

    pub fn tick(&mut self, now: u64) {
        let is_due = |asked: Option<u64>, patience: u64| asked.is_none_or(|asked| now >= asked + patience);
        if self.incarnation.is_none() && is_due(self.asked_join, PATIENCE) {
            self.asked_join = Some(now);
            let (node, roles) = (node_of(self.place), vec![Role::Gateway]);
            let join = ToKeeper::Join { node, process: self.process, roles, address: String::new() };
            self.ask(KEEPER, Call::Join, Message::AskKeeper(join));
        }
        if is_due(self.asked_feed, 15 * MILLI) {
            self.asked_feed = Some(now);
            let after = self.image.version;
            self.ask(KEEPER, Call::Feed { sent: now }, Message::AskKeeper(ToKeeper::Feed { after, durable: None }));
        }
        if !self.waiting.is_empty() && is_due(self.asked_numbers, PATIENCE) {
            self.asked_numbers = Some(now);
            self.ask(KEEPER, Call::Numbers, Message::AskKeeper(ToKeeper::Numbers { count: 256 }));
        }
        let late: Vec<u64> =
            self.open.iter().filter(|(_, open)| now >= open.looked + PATIENCE).map(|(at, _)| *at).collect();
        for sequence in late {
            let Some(open) = self.open.get_mut(&sequence) else { continue };
            open.looked = now;
            let event = if now >= open.began + STAGING { Event::Late } else { Event::Again };
            self.step(sequence, event);
        }
        self.look_at_reads(now);
    }

    fn look_at_reads(&mut self, now: u64) {
        let mut reads = std::mem::take(&mut self.reads);
        reads.retain_mut(|read| !self.look_at_read(now, read));
        reads.append(&mut self.reads);
        self.reads = reads;
    }

    /// Goes on with a read; whether it is over.
    fn look_at_read(&mut self, now: u64, read: &mut Read) -> bool {
        if now >= read.began + READING {
            self.replies.push((read.token, Reply::Failed(Error::new(ErrorKind::Timeout, "nobody answers"))));
            return true;
        }
        let is_due = |asked: Option<u64>| asked.is_none_or(|asked| now >= asked + PATIENCE);
        let Some(version) = read.version else {
            let known = if read.age.is_zero() { None } else { self.known.within(Duration::from_micros(now), read.age) };
            if let Some(known) = known {
                read.version = Some(known.max(read.at_least));
                return self.look_at_read(now, read);
            }
            if is_due(read.asked_now) {
                read.asked_now = Some(now);
                let (call, after) = (Call::Now { token: read.token, sent: now }, self.image.version);
                self.ask(KEEPER, call, Message::AskKeeper(ToKeeper::Feed { after, durable: None }));
            }
            return false;
        };
        if self.image.version < version {
            return false;
        }
        if read.parts.is_empty() {
            for table in &read.tables {
                let Some(placed) = self.image.placed.get(table) else {
                    self.replies.push((read.token, Reply::Failed(Error::new(ErrorKind::UndefinedTable, "it is gone"))));
                    return true;
                };
                for shard in &placed.shards {
                    let (replicas, turn) = (shard.replicas_at(version), (now / 7) as usize);
                    let part = PartRead { table: *table, shard: shard.id, replicas, turn, asked: None, rows: None };
                    read.parts.push(part);
                }
            }
        }
        for (at, part) in read.parts.iter_mut().enumerate().filter(|(_, part)| part.rows.is_none()) {
            if is_due(part.asked) {
                (part.asked, part.turn) = (Some(now), part.turn + 1);
                let to = place_of(part.replicas[part.turn % part.replicas.len()]);
                let question = Message::AskRows { shard: part.shard, version };
                self.ask(to, Call::Rows { token: read.token, at, version }, question);
            }
        }
        if read.parts.iter().any(|part| part.rows.is_none()) {
            return false;
        }
        let mut tables: BTreeMap<TableId, Vec<FoundRow>> =
            read.tables.iter().map(|table| (*table, Vec::new())).collect();
        for part in &mut read.parts {
            tables.entry(part.table).or_default().extend(part.rows.take().unwrap_or_default());
        }
        tables.values_mut().for_each(|rows| rows.sort());
        self.replies.push((read.token, Reply::Read(version, tables.into_iter().collect())));
        true
    }

    /// Takes the answer to one of its questions.
    pub fn told(&mut self, now: u64, call: u64, said: Message) {
        let Some(call) = self.calls.remove(&call) else { return };
        match (call, said) {
            (Call::Join, Message::KeeperSays(Ok(FromKeeper::Joined { incarnation, .. }))) => {
                self.incarnation = Some(incarnation);
            }
            (Call::Feed { sent }, Message::KeeperSays(Ok(FromKeeper::Fed { feed, newest: now_version, .. }))) => {
                Image::fed(&mut self.image, feed).expect("decisions fit");
                self.known.answered(Duration::from_micros(sent), now_version);
                self.look_at_reads(now);
            }
            (Call::Now { token, sent }, Message::KeeperSays(Ok(FromKeeper::Fed { feed, newest: version, .. }))) => {
                Image::fed(&mut self.image, feed).expect("decisions fit");
                self.known.answered(Duration::from_micros(sent), version);
                if let Some(read) = self.reads.iter_mut().find(|read| read.token == token) {
                    read.version = read.version.or(Some(version.max(read.at_least)));
                }
                self.look_at_reads(now);
            }
            (Call::Numbers, Message::KeeperSays(Ok(FromKeeper::Numbers(first)))) => {
                self.numbers = first.0..first.0 + 256;
                for (token, content, mark) in std::mem::take(&mut self.waiting) {
                    self.write(now, token, content, mark);
                }
            }
            (Call::Stage { sequence, shard, node }, Message::BodiesSay(said)) => match said {
                Ok(FromBodies::Staged) => self.step(sequence, Event::Staged { shard, node }),
                Ok(FromBodies::Body(_)) => {}
                Err(error) => self.step(sequence, Event::Refused { shard, node, error }),
            },
            (Call::Propose { sequence }, Message::KeeperSays(said)) => {
                let outcome = match said {
                    Ok(FromKeeper::Outcome(outcome)) => Ok(outcome),
                    Ok(_) => return,
                    Err(error) => Err(error),
                };
                self.step(sequence, Event::Answered(outcome));
            }
            (Call::Rows { token, at, version }, Message::Rows(rows)) => {
                let is_asked = |read: &&mut Read| read.token == token && read.version == Some(version);
                let Some(read) = self.reads.iter_mut().find(is_asked) else { return };
                match rows {
                    Ok(rows) => {
                        if let Some(part) = read.parts.get_mut(at) {
                            part.rows.get_or_insert(rows);
                        }
                    }
                    // Rows of that version are gone: at a newer one, then.
                    Err(error) if error.kind() == ErrorKind::Conflict => {
                        (read.version, read.asked_now, read.age) = (None, None, Duration::ZERO);
                        read.parts.clear();
                    }
                    Err(_) => {}
                }
                self.look_at_reads(now);
            }
            _ => {}
        }
    }
}

fn new_rows(def: &TableDef, checked_at: Version, part: &Part) -> NewRows {
    match part {
        Part::Rows(rows) => {
            let change = if def.key.is_some() { RowChange::Upsert } else { RowChange::Insert };
            NewRows { change, ..NewRows::insert(def.id, checked_at, vec![table_batch(def, rows)]) }
        }
        Part::Keys(keys) => {
            let columns = def.key.iter().flat_map(|key| &key.columns).filter_map(|id| def.column_by_id(*id));
            let batch = batch_of(&columns.collect::<Vec<_>>(), keys);
            NewRows { change: RowChange::Delete, ..NewRows::insert(def.id, checked_at, vec![batch]) }
        }
    }
}

/// The tables that a gateway knows, with what tells their rows apart.
pub fn tables_of(image: &Image) -> Vec<(TableId, KeyKind)> {
    let kind = |def: &TableDef| if def.key.is_some() { KeyKind::Number } else { KeyKind::None };
    image.catalog.tables().map(|entry| (entry.def.id, kind(&entry.def))).collect()
}
