//! The model: what was decided, in order, and which rows each table has at each version.

use super::clients::{Content, Part};
use crate::keyed::tables::KeyKind;
use alluvia_catalog::Change;
use alluvia_cluster::{BatchId, Decided, Decision, Image};
use alluvia_sim::rows::{FoundRow, Row};
use alluvia_types::{ProducerMark, TableId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct Model {
    /// What gateways have begun.
    pub begun: BTreeMap<BatchId, Arc<Content>>,
    /// All decisions, as the keeper has told them.
    pub decisions: Vec<Arc<Decision>>,
    kinds: BTreeMap<TableId, KeyKind>,
}

/// The part of a batch that is of one table.
fn of_table(content: &Content, table: TableId) -> impl Iterator<Item = &Part> {
    content.parts.iter().filter(move |(of, _)| *of == table).map(|(_, part)| part)
}

impl Model {
    /// Adds what the keeper has decided since; each decision must be the next one.
    pub fn add(&mut self, decisions: impl IntoIterator<Item = Arc<Decision>>) {
        for decision in decisions {
            assert_eq!(decision.version.0, self.decisions.len() as u64 + 1, "D1: decisions have no gaps");
            for change in decision.batch().iter().flat_map(|decided| &decided.changes) {
                if let Change::CreateTable { def } = change {
                    let kind = if def.key.is_some() { KeyKind::Number } else { KeyKind::None };
                    self.kinds.insert(def.id, kind);
                }
            }
            self.decisions.push(decision);
        }
    }

    /// What all decisions come to, as a worker learns it when it starts.
    pub fn image(&self, cluster: u64) -> Image {
        let mut image = Image::new(cluster);
        self.decisions.iter().for_each(|decision| image.apply(decision).expect("decisions follow one another"));
        image
    }

    pub fn version(&self) -> Version {
        Version(self.decisions.len() as u64)
    }

    fn batches(&self) -> impl Iterator<Item = (Version, &Decided)> {
        self.decisions.iter().filter_map(|decision| Some((decision.version, decision.batch()?)))
    }

    /// The rows of a table at a version.
    pub fn rows(&self, table: TableId, version: Version) -> Vec<FoundRow> {
        let kind = self.kinds[&table];
        let mut keyed: BTreeMap<Row, FoundRow> = BTreeMap::new();
        let mut rows = Vec::new();
        for (at, decided) in self.batches().take_while(|(at, _)| *at <= version) {
            let content = self.begun.get(&decided.id).expect("what is decided was begun");
            let mut ordinal = 0;
            for part in of_table(content, table) {
                match part {
                    Part::Rows(new) => {
                        for row in new {
                            let found = FoundRow { version: at.0, ordinal, row: row.clone() };
                            ordinal += 1;
                            match kind {
                                KeyKind::None => rows.push(found),
                                kind => drop(keyed.insert(row[..kind.columns()].to_vec(), found)),
                            }
                        }
                    }
                    Part::Keys(keys) => keys.iter().for_each(|key| drop(keyed.remove(key))),
                }
            }
        }
        rows.extend(keyed.into_values());
        rows.sort();
        rows
    }

    /// The versions of the batches with a producer's number.
    pub fn numbered(&self, mark: &ProducerMark) -> Vec<Version> {
        self.batches().filter(|(_, decided)| decided.producer.as_ref() == Some(mark)).map(|(at, _)| at).collect()
    }
}
