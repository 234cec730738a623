//! The events of a transaction that nobody has looked at yet.
//!
//! Invariants:
//! - An event is kept until it is taken to be looked at. A clone is what a savepoint keeps: whoever goes back to it looks again at what was
//!   taken since.
//! - What is deferred waits for COMMIT, or SET CONSTRAINTS IMMEDIATE; actions (CASCADE, SET NULL, SET DEFAULT) and RESTRICT never wait.
//! - What waits costs a statement nothing: only what is new is asked whether it waits, and all of it once SET CONSTRAINTS has been said.

use crate::events::{Event, Happened, foreign_key};
use alluvia_catalog::Catalog;
use alluvia_space::Action;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is to be looked at, and when.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Those of which it is not known yet whether they wait.
    new: Vec<Event>,
    deferred: Deferred,
    modes: Modes,
    bytes: u64,
}

/// What SET CONSTRAINTS has said.
#[derive(Clone, Debug, Default)]
struct Modes {
    all: Option<bool>,
    named: BTreeMap<String, bool>,
}

/// Events from the last to the first. Clones share them, so that many savepoints hold no more than one does.
#[derive(Clone, Debug, Default)]
struct Deferred(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    event: Event,
    before: Deferred,
}

impl Deferred {
    fn push(&mut self, event: Event) {
        let before = std::mem::take(self);
        self.0 = Some(Arc::new(Link { event, before }));
    }

    /// All of them, in the order in which they came.
    fn take(&mut self) -> Vec<Event> {
        let all = std::mem::take(self);
        let mut link = all.0.as_deref();
        let mut events = Vec::new();
        while let Some(Link { event, before }) = link {
            events.push(event.clone());
            link = before.0.as_deref();
        }
        events.reverse();
        events
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        // One after the other: within one another they would need a stack as deep as they are many.
        let mut next = self.0.take();
        while let Some(mut link) = next.and_then(Arc::into_inner) {
            next = link.before.0.take();
        }
    }
}

impl Events {
    /// More is to be looked at.
    pub fn extend(&mut self, events: Vec<Event>) {
        self.bytes += events.iter().map(Event::bytes).sum::<u64>();
        self.new.extend(events);
    }

    /// What they hold in memory, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is anything to take, of what is new or of `all`.
    pub fn has_due(&self, all: bool) -> bool {
        !self.new.is_empty() || (all && self.deferred.0.is_some())
    }

    /// SET CONSTRAINTS: of these names, or of all.
    pub fn defer(&mut self, names: Option<&[String]>, deferred: bool) {
        match names {
            None => self.modes = Modes { all: Some(deferred), named: BTreeMap::new() },
            Some(names) => self.modes.named.extend(names.iter().map(|name| (name.clone(), deferred))),
        }
        // What waits may be due now.
        let mut waiting = self.deferred.take();
        waiting.append(&mut self.new);
        self.new = waiting;
    }

    /// Takes what is to be looked at now, or `all` of it, in its order.
    pub fn take_due(&mut self, catalog: &Catalog, all: bool) -> Vec<Event> {
        let new = std::mem::take(&mut self.new);
        let due = if all {
            let mut due = self.deferred.take();
            due.extend(new);
            due
        } else {
            let (waiting, due): (Vec<_>, Vec<_>) = new.into_iter().partition(|event| self.modes.waits(catalog, event));
            waiting.into_iter().for_each(|event| self.deferred.push(event));
            due
        };
        self.bytes = self.bytes.saturating_sub(due.iter().map(Event::bytes).sum());
        due
    }
}

impl Modes {
    /// Whether an event waits for COMMIT.
    fn waits(&self, catalog: &Catalog, event: &Event) -> bool {
        let key = catalog.by_id(event.table).and_then(|entry| foreign_key(entry, &event.name));
        let Some(key) = key.filter(|key| key.deferrable) else { return false };
        let waits = self.named.get(&key.name).copied().or(self.all).unwrap_or(key.initially_deferred);
        waits
            && match event.happened {
                Happened::Comes(_) => false,
                Happened::Refers(_) => true,
                Happened::Goes(_) => key.on_delete == Action::NoAction,
                Happened::Becomes(..) => key.on_update == Action::NoAction,
            }
    }
}
