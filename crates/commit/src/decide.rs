//! Decisions: whether a batch comes into the order of versions, and what it becomes there.
//!
//! A decision needs no rows, no disk and no clock of its own: what is decided follows from the decisions before and from
//! what is known of the batch without its rows. So whoever has made the same decisions before decides the same.
//!
//! Invariants:
//! - [`Order::decide`] changes nothing. What it has decided is so once it is [accepted](Order::accept), in the order in
//!   which it was decided: between the two there is no other decision.
//! - C3: what a producer numbers, or a client gives a key, is accepted once.
//! - C4: rows come by the definition they were checked against, or not at all.
//! - [`Order::follow`] decides nothing: it is told what another order has decided, and checks that it comes next.
//! - Who takes away a table that they have read takes away what they have read: rows that came since refuse them.

use crate::keys::Keys;
use alluvia_catalog::{Catalog, Change};
use alluvia_snapshot::{BatchKey, KeyRecord, ProducerState};
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, TableId, Version, planted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of a batch without its rows.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Changes of definitions.
    pub changes: &'a [Change],
    /// The producer's number.
    pub producer: Option<&'a ProducerMark>,
    /// The client's key.
    pub key: Option<BatchKey>,
    /// By which definitions its rows were checked.
    pub checked: &'a [(TableId, Version)],
    /// Tables of which no row may have been written since a version.
    pub unwritten: &'a [(TableId, Version)],
}

/// What is decided of a batch that is not refused.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It was sent before, and has this version.
    Duplicate(Version),
    /// It comes next.
    Next(Numbered),
}

/// A batch's place in the order of versions.
#[derive(Clone, Debug)]
pub struct Numbered {
    /// Its version.
    pub version: Version,
    /// Its time of commit.
    pub commit_micros: i64,
    /// The definitions from then on, if the batch changes them.
    pub changed: Option<Arc<Catalog>>,
}

/// What has been decided so far.
#[derive(Debug)]
pub struct Order {
    next: Version,
    commit_micros: i64,
    catalog: Arc<Catalog>,
    producers: BTreeMap<String, ProducerState>,
    keys: Keys,
    /// The last version of each table's rows, of those that were written in this process. Who has read a table is of this process, too.
    written: BTreeMap<TableId, Version>,
}

impl Order {
    /// After everything through a version, whose time of commit was `commit_micros`. `keys` ascend by version.
    pub fn new(
        through: Version,
        commit_micros: i64,
        catalog: Arc<Catalog>,
        producers: BTreeMap<String, ProducerState>,
        keys: impl IntoIterator<Item = KeyRecord>,
    ) -> Order {
        let mut known = Keys::default();
        keys.into_iter().for_each(|record| known.insert(record));
        Order { next: through.next(), commit_micros, catalog, producers, keys: known, written: BTreeMap::new() }
    }

    /// The last version that was given out.
    pub fn last(&self) -> Version {
        Version(self.next.0 - 1)
    }

    /// The newest definitions.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The batch that has used a key within the time that keys are kept.
    pub fn keyed(&self, key: BatchKey, now_micros: i64) -> Option<KeyRecord> {
        self.keys.get(key, now_micros)
    }

    /// Decides about a batch that has come at a time. `admitted` is what else refuses it: that is told only of a batch
    /// that was not sent before.
    pub fn decide(&mut self, head: Head<'_>, now_micros: i64, admitted: Result<()>) -> Result<Decision> {
        if let Some(mark) = head.producer
            && let Some(version) = self.duplicate_of(mark)?
        {
            return Ok(Decision::Duplicate(version));
        }
        let commit_micros = now_micros.max(self.commit_micros);
        if let Some(key) = head.key {
            if let Some(KeyRecord { version, .. }) = self.keys.get(key, commit_micros) {
                return Ok(Decision::Duplicate(version));
            }
            // Forgets only what is too old to count.
            self.keys.make_room(commit_micros)?;
        }
        admitted?;
        let version = self.next;
        let changed = match head.changes {
            [] => None,
            changes => {
                let changed = self.catalog.apply(version, changes)?;
                changed.check_index_names(&self.catalog, changes)?;
                Some(Arc::new(changed))
            }
        };
        let current = changed.as_ref().unwrap_or(&self.catalog);
        head.checked.iter().try_for_each(|&(table, at)| check_definition(current, version, table, at))?;
        head.unwritten.iter().try_for_each(|&(table, at)| self.check_unwritten(table, at))?;
        Ok(Decision::Next(Numbered { version, commit_micros, changed }))
    }

    /// The place of a batch that another order has decided about. It must be the next one here, too.
    pub fn follow(&self, version: Version, commit_micros: i64, changes: &[Change]) -> Result<Numbered> {
        if version != self.next {
            let message = format!("version {version} is followed, and the next one is {}", self.next);
            return Err(Error::internal(message));
        }
        let changed = match changes {
            [] => None,
            changes => Some(Arc::new(self.catalog.apply(version, changes)?)),
        };
        Ok(Numbered { version, commit_micros, changed })
    }

    fn check_unwritten(&self, table: TableId, at: Version) -> Result<()> {
        if self.written.get(&table).is_none_or(|written| *written <= at) {
            return Ok(());
        }
        let name = self.catalog.by_id(table).map_or_else(String::new, |entry| entry.def.name.clone());
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "could not serialize access due to concurrent update: rows of table '{name}' were written since the \
                 transaction has read it"
            ),
        )
        .with_hint("run the transaction again: it then reads those rows, too"))
    }

    /// What was just decided is so. `rows` are how many the batch has, and `tables` what they are of.
    pub fn accept(
        &mut self,
        place: Numbered,
        producer: Option<&ProducerMark>,
        key: Option<BatchKey>,
        rows: u64,
        tables: &[TableId],
    ) {
        let Numbered { version, commit_micros, changed } = place;
        assert_eq!(version, self.next, "C1: decisions are accepted in the order of versions");
        if let Some(changed) = changed {
            self.written.retain(|table, _| changed.by_id(*table).is_some());
            self.catalog = changed;
        }
        self.written.extend(tables.iter().map(|table| (*table, version)));
        if let Some(mark) = producer {
            let state = ProducerState { epoch: mark.epoch, sequence: mark.sequence, version };
            self.producers.insert(mark.name.clone(), state);
        }
        if let Some(key) = key {
            self.keys.insert(KeyRecord { key, version, commit_micros, rows });
        }
        self.commit_micros = commit_micros;
        self.next = version.next();
    }

    /// Goes back to what was decided through a version; the later versions are given out anew.
    pub fn go_back(&mut self, through: Version, catalog: Arc<Catalog>, producers: BTreeMap<String, ProducerState>) {
        self.next = through.next();
        self.catalog = catalog;
        self.producers = producers;
        if !planted("key of a refused batch kept") {
            self.keys.forget_above(through);
        }
        // When they were written before that is not known: no later than that.
        self.written.values_mut().for_each(|written| *written = (*written).min(through));
    }

    /// C3: the version of the batch that a producer has sent before; `None` if it is its next one.
    fn duplicate_of(&self, mark: &ProducerMark) -> Result<Option<Version>> {
        let refused = |what: String| Error::new(ErrorKind::Producer, format!("producer '{}': {what}", mark.name));
        let first_of_epoch = || match mark.sequence {
            1 => Ok(None),
            other => Err(refused(format!("epoch {} starts with sequence {other}", mark.epoch))
                .with_hint("number the batches of an epoch 1, 2, 3, ...")),
        };
        let Some(state) = self.producers.get(&mark.name) else {
            return first_of_epoch();
        };
        if mark.epoch < state.epoch {
            return Err(refused(format!("epoch {} is over, epoch {} has begun", mark.epoch, state.epoch))
                .with_hint("another process writes under this name; start with a higher epoch to take over"));
        }
        if mark.epoch > state.epoch {
            return first_of_epoch();
        }
        if mark.sequence <= state.sequence {
            return Ok(Some(state.version));
        }
        if mark.sequence != state.sequence + 1 {
            return Err(refused(format!(
                "sequence {} follows {}, so batches are missing",
                mark.sequence, state.sequence
            ))
            .with_hint(format!("send again from sequence {}", state.sequence + 1)));
        }
        Ok(None)
    }
}

/// C4.
fn check_definition(catalog: &Catalog, version: Version, table: TableId, checked_at: Version) -> Result<()> {
    match catalog.by_id(table) {
        Some(entry) if entry.changed_at == checked_at || entry.changed_at == version => Ok(()),
        Some(entry) => Err(Error::new(
            ErrorKind::Conflict,
            format!("table '{}' was altered while the batch was under way", entry.def.name),
        )
        .with_hint("run the statement again")),
        None => Err(Error::new(ErrorKind::Conflict, "the table was dropped while the batch was under way")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order::new(Version(6), 50, Arc::default(), BTreeMap::new(), [])
    }

    fn mark(epoch: u64, sequence: u64) -> ProducerMark {
        ProducerMark { name: "p".to_owned(), epoch, sequence }
    }

    fn decide(order: &mut Order, mark: &ProducerMark, now: i64, admitted: Result<()>) -> Result<Decision> {
        order.decide(
            Head { changes: &[], producer: Some(mark), key: None, checked: &[], unwritten: &[] },
            now,
            admitted,
        )
    }

    #[test]
    fn who_takes_a_table_away_has_read_all_of_it() {
        let (one, other) = (TableId(1), TableId(2));
        let cases = [([(one, Version(6))], true), ([(one, Version(7))], false), ([(other, Version(6))], false)];
        let mut order = order();
        let head = |unwritten| Head { changes: &[], producer: None, key: None, checked: &[], unwritten };
        let Decision::Next(place) = order.decide(head(&[]), 60, Ok(())).unwrap() else { panic!("it is new") };
        order.accept(place, None, None, 1, &[one]);
        for (unwritten, is_refused) in &cases {
            let decided = order.decide(head(unwritten), 70, Ok(()));
            let kind = decided.err().map(|error| error.kind());
            assert_eq!(kind, is_refused.then_some(ErrorKind::Conflict), "{unwritten:?}");
        }
        order.go_back(Version(6), Arc::default(), BTreeMap::new());
        assert!(order.decide(head(&[(one, Version(6))]), 70, Ok(())).is_ok());
    }

    #[test]
    fn a_decision_is_nothing_until_it_is_accepted() {
        let mut order = order();
        for _ in 0..2 {
            let Decision::Next(place) = decide(&mut order, &mark(1, 1), 40, Ok(())).unwrap() else {
                panic!("it is new")
            };
            assert_eq!((place.version, place.commit_micros), (Version(7), 50), "time does not go back");
        }
        let Decision::Next(place) = decide(&mut order, &mark(1, 1), 60, Ok(())).unwrap() else { panic!("it is new") };
        order.accept(place, Some(&mark(1, 1)), None, 0, &[]);
        let again = decide(&mut order, &mark(1, 1), 70, Err(Error::internal("not asked")));
        assert!(matches!(again, Ok(Decision::Duplicate(Version(7)))), "what was sent before is not refused: {again:?}");
        decide(&mut order, &mark(1, 2), 70, Err(Error::internal("full"))).expect_err("what is new is");
        assert_eq!(order.last(), Version(7));
        order.go_back(Version(6), Arc::default(), BTreeMap::new());
        let anew = decide(&mut order, &mark(1, 1), 70, Ok(()));
        assert!(matches!(anew, Ok(Decision::Next(Numbered { version: Version(7), .. }))));
    }
}
