//! What clients send and read. A client numbers its batches as a producer, and sends one again, to another gateway, until it is
//! acknowledged.

use super::net::{MILLI, SECOND};
use crate::keyed::tables::{KEYS, KeyKind, key, row};
use alluvia_sim::Random;
use alluvia_sim::rows::{FoundRow, Row, Value};
use alluvia_space::{Placement, Spread};
use alluvia_types::{ColumnId, Error, ProducerMark, TableId, Version};
use std::sync::Arc;

/// A client waits so long for an answer.
pub const PATIENCE: u64 = 1_500 * MILLI;

/// Rows of a batch for one table, or keys of rows that go.
#[derive(Clone, Debug)]
pub enum Part {
    Rows(Vec<Row>),
    Keys(Vec<Row>),
}

/// A batch as a client has it.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Tables to make: name, key, where they lie.
    pub define: Vec<(String, KeyKind, Placement)>,
    /// Tables that go.
    pub drop: Vec<TableId>,
    pub parts: Vec<(TableId, Part)>,
}

/// What a client wants now.
#[derive(Clone, Debug)]
pub enum Wish {
    Write { content: Arc<Content>, mark: ProducerMark },
    Read { tables: Vec<TableId>, age: u64 },
}

/// Who has asked: a client, and which of its attempts.
pub type Token = (usize, u64);

/// What a gateway answers.
#[derive(Debug)]
pub enum Reply {
    Written(Version),
    Read(Version, Vec<(TableId, Vec<FoundRow>)>),
    Failed(Error),
}

pub struct Client {
    pub at: usize,
    pub wish: Option<Wish>,
    pub attempt: u64,
    pub sent: u64,
    /// An answer to its read must be at least of this version.
    pub must_see: Version,
    /// The newest version that it has seen.
    pub seen: Version,
    /// Batches that it has had acknowledged, with their versions.
    pub acknowledged: Vec<(ProducerMark, Version)>,
    /// Batches that it has yet to send.
    pub left: u64,
    sequence: u64,
    counted: i64,
}

impl Client {
    pub fn new(at: usize, batches: u64) -> Client {
        Client {
            at,
            wish: None,
            attempt: 0,
            sent: 0,
            must_see: Version(0),
            seen: Version(0),
            acknowledged: Vec::new(),
            left: batches,
            sequence: 0,
            counted: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        self.left == 0 && self.wish.is_none()
    }

    /// The number of its next batch.
    pub fn mark(&mut self) -> ProducerMark {
        self.sequence += 1;
        ProducerMark { name: format!("client {}", self.at), epoch: 1, sequence: self.sequence }
    }

    /// What it wants next: to read, or to write.
    pub fn wishes(&mut self, tables: &[(TableId, KeyKind)], random: &mut Random) -> Wish {
        if random.one_in(3) {
            let age = *random.pick(&[0, 0, 20 * MILLI, SECOND]);
            let tables = tables.iter().filter(|_| random.one_in(2)).map(|(table, _)| *table).collect();
            return Wish::Read { tables, age };
        }
        self.left -= 1;
        let mut parts = Vec::new();
        for _ in 0..1 + random.below(2) {
            let (table, kind) = *random.pick(tables);
            parts.push((table, self.part(kind, random)));
        }
        // Rows of one table stand together, as a gateway takes them.
        parts.sort_by_key(|(table, _)| *table);
        Wish::Write { content: Arc::new(Content { parts, ..Content::default() }), mark: self.mark() }
    }

    fn part(&mut self, kind: KeyKind, random: &mut Random) -> Part {
        if kind != KeyKind::None {
            let numbers: Vec<u64> = (0..1 + random.below(6)).map(|_| random.below(KEYS)).collect();
            return match random.one_in(3) {
                true => Part::Keys(numbers.into_iter().map(|number| key(kind, number)).collect()),
                false => Part::Rows(numbers.into_iter().map(|number| row(kind, number, random)).collect()),
            };
        }
        let rows = (0..1 + random.below(20)).map(|_| {
            let mut row = row(kind, 0, random);
            // No two rows are equal.
            self.counted += 1;
            row[0] = Value::Number(self.at as i64 * 1_000_000 + self.counted);
            row
        });
        Part::Rows(rows.collect())
    }
}

/// The tables of a world.
pub fn tables(replicas: u32) -> Vec<(String, KeyKind, Placement)> {
    let placed = |spread, shards, write_quorum| Placement { spread, shards, replicas, write_quorum };
    vec![
        ("by_rows".to_owned(), KeyKind::None, placed(Spread::Rows, 3, 1)),
        ("by_hash".to_owned(), KeyKind::None, placed(Spread::Hash(vec![ColumnId(0)]), 4, 0)),
        ("keyed".to_owned(), KeyKind::Number, placed(Spread::Hash(vec![ColumnId(0)]), 3, 1)),
        ("copied".to_owned(), KeyKind::None, Placement { shards: 1, replicas: 0, ..placed(Spread::Copied, 1, 1) }),
    ]
}
