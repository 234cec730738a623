//! Statements that the index has answered, kept ready to be asked again.
//!
//! Invariants:
//! - An aim holds as long as the definitions are the same `Arc`; then its statement means what it meant, and its answer looks as it
//!   looked. Rows and members that came since are seen: whatever answers is asked for them, and filters are made anew for new members.
//! - What is kept by text is bounded, and only of statements that a cuboid has answered; the least recently used half goes.

use super::run::{Bound, bind};
use super::statement::{Literal, Statement};
use alluvia_catalog::{Catalog, Dictionaries, TableEntry};
use alluvia_snapshot::{Freshness, TableRead};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of texts that are kept; what is kept of each beside its text is about as much again.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// A statement with everything that its answer needs but rows.
#[derive(Debug)]
pub(crate) struct Aim {
    catalog: Arc<Catalog>,
    entry: Arc<TableEntry>,
    dictionaries: Arc<Dictionaries>,
    /// May have parameters where the statement that was answered had values.
    statement: Arc<Statement>,
    /// Of the statement without parameters; made anew when there are new members.
    bound: Mutex<Arc<Bound>>,
    pub(crate) schema: SchemaRef,
    /// As the statement's hint asks for.
    pub(crate) hint: Option<Freshness>,
    /// As the table asks for.
    pub(crate) own: Freshness,
    by_cuboid: bool,
}

impl Aim {
    /// Of a statement that was just answered, by a cuboid or by the tree.
    #[allow(clippy::too_many_arguments)] // what a statement has and what it gave, once
    pub(crate) fn new(
        catalog: &Arc<Catalog>,
        read: &TableRead,
        statement: Arc<Statement>,
        bound: Arc<Bound>,
        schema: SchemaRef,
        hint: Option<Freshness>,
        own: Freshness,
        by_cuboid: bool,
    ) -> Option<Aim> {
        let dictionaries = Arc::clone(read.dictionaries.as_ref()?);
        let (catalog, entry) = (Arc::clone(catalog), Arc::clone(&read.entry));
        Some(Aim { catalog, entry, dictionaries, statement, bound: Mutex::new(bound), schema, hint, own, by_cuboid })
    }

    /// The same for a statement with parameters where this one has values.
    pub(crate) fn of_template(&self, statement: Statement) -> Aim {
        Aim {
            catalog: Arc::clone(&self.catalog),
            entry: Arc::clone(&self.entry),
            dictionaries: Arc::clone(&self.dictionaries),
            statement: Arc::new(statement),
            bound: Mutex::new(Arc::clone(&self.bound.lock())),
            schema: Arc::clone(&self.schema),
            hint: self.hint,
            own: self.own,
            by_cuboid: self.by_cuboid,
        }
    }

    /// Whether a cuboid answered.
    pub(crate) fn is_by_cuboid(&self) -> bool {
        self.by_cuboid
    }

    /// The statement, as it was recognised.
    pub(crate) fn statement(&self) -> &Arc<Statement> {
        &self.statement
    }

    /// Whether it codes values by these dictionaries.
    pub(crate) fn codes_by(&self, dictionaries: &Arc<Dictionaries>) -> bool {
        Arc::ptr_eq(&self.dictionaries, dictionaries)
    }

    /// The table that it reads.
    pub(crate) fn entry(&self) -> &TableEntry {
        &self.entry
    }

    /// Whether the definitions are still those that it was made by.
    pub(crate) fn holds(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    /// The statement bound to the members that there are now, with values for its parameters. `None` if it cannot be.
    pub(crate) fn bound(&self, parameters: &[Literal]) -> Option<Arc<Bound>> {
        if !parameters.is_empty() {
            let statement = self.statement.with_parameters(parameters)?;
            return bind(&statement, &self.entry, &self.dictionaries).map(Arc::new);
        }
        let mut bound = self.bound.lock();
        if !bound.knows_all_members() {
            *bound = Arc::new(bind(&self.statement, &self.entry, &self.dictionaries)?);
        }
        Some(Arc::clone(&bound))
    }
}

/// Aims by the texts of their statements.
#[derive(Debug, Default)]
pub(crate) struct Aims {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the texts' hashes.
    aims: HashMap<u64, Entry>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    aim: Arc<Aim>,
    used: u64,
}

impl Aims {
    /// Drops what other definitions made.
    pub(crate) fn retain(&self, catalog: &Arc<Catalog>) {
        let mut known = self.known.lock();
        known.aims.retain(|_, entry| entry.aim.holds(catalog));
        known.bytes = known.aims.values().map(|entry| entry.text.len()).sum();
    }

    /// The aim of a text.
    pub(crate) fn get(&self, text: &str) -> Option<Arc<Aim>> {
        let hash = xxh3_64(text.as_bytes());
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        let entry = known.aims.get_mut(&hash).filter(|entry| *entry.text == *text)?;
        entry.used = now;
        Some(Arc::clone(&entry.aim))
    }

    /// Keeps the aim of a text.
    pub(crate) fn insert(&self, text: &Arc<str>, aim: Arc<Aim>) {
        if text.len() > TEXT_BYTES_MAX / 16 {
            return;
        }
        let hash = xxh3_64(text.as_bytes());
        let mut known = self.known.lock();
        let entry = Entry { text: Arc::clone(text), aim, used: known.clock };
        known.bytes += text.len();
        if let Some(before) = known.aims.insert(hash, entry) {
            known.bytes -= before.text.len();
        }
        if known.bytes > TEXT_BYTES_MAX {
            known.drop_half();
        }
    }
}

impl Known {
    fn drop_half(&mut self) {
        let mut used: Vec<u64> = self.aims.values().map(|entry| entry.used).collect();
        used.sort_unstable();
        let median = used[used.len() / 2];
        self.aims.retain(|_, entry| entry.used > median);
        self.bytes = self.aims.values().map(|entry| entry.text.len()).sum();
    }
}
