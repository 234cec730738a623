//! Statements that the index has answered, kept ready to be asked again.
//!
//! Invariants:
//! - A cached statement holds as long as the definitions are the same `Arc`; then its statement means what it meant, and its answer looks as it
//!   looked. Rows and members that came since are seen: whatever answers is asked for them, and filters are made anew for new members of
//!   the levels that they are of.
//! - Of a statement that looks at the clock nothing that is bound is used again: it is bound each time, to the moment at which it begins.
//! - What is kept by text is bounded; the least recently used half goes.

use super::bound::{Bound, bind};
use super::declined::Declined;
use super::statement::{Literal, Statement};
use alluvia_catalog::{Catalog, Dictionaries, TableEntry};
use alluvia_snapshot::TableRead;
use alluvia_syntax::Hints;
use alluvia_types::Freshness;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are kept by text.
const BYTES_MAX: usize = 64 << 20;

/// Bytes of a text that is kept, and of what is kept of it.
const ENTRY_BYTES_MAX: usize = BYTES_MAX / 16;

/// A statement with everything that its answer needs but rows.
#[derive(Debug)]
pub struct CachedStatement {
    catalog: Arc<Catalog>,
    entry: Arc<TableEntry>,
    dictionaries: Arc<Dictionaries>,
    /// May have parameters where the statement that was answered had values.
    statement: Arc<Statement>,
    /// What the statement takes in memory; what is bound keeps its conditions once more.
    statement_bytes: usize,
    /// Whether the statement means something else each time it runs, so that nothing that is bound is kept.
    is_of_now: bool,
    /// Of the statement without parameters; made anew when there are new members.
    bound: Mutex<Arc<Bound>>,
    /// Held by whoever makes it anew: the others wait for that, and do not make it again.
    binding: Mutex<()>,
    /// Of its answer.
    pub schema: SchemaRef,
    /// As they are written in the statement.
    pub hints: Hints,
    /// The freshness that they ask for.
    pub hinted: Option<Freshness>,
    /// As the table asks for.
    pub own: Freshness,
    by_cuboid: bool,
}

impl CachedStatement {
    /// Of a statement that was just answered, by a cuboid or by the tree.
    #[allow(clippy::too_many_arguments)] // what a statement has and what it gave, once
    pub fn new(
        catalog: &Arc<Catalog>,
        read: &TableRead,
        statement: Arc<Statement>,
        bound: Arc<Bound>,
        schema: SchemaRef,
        hints: Hints,
        hinted: Option<Freshness>,
        own: Freshness,
        by_cuboid: bool,
    ) -> Option<CachedStatement> {
        let dictionaries = Arc::clone(read.dictionaries.as_ref()?);
        let (catalog, entry) = (Arc::clone(catalog), Arc::clone(&read.entry));
        let (bound, binding, statement_bytes) = (Mutex::new(bound), Mutex::default(), statement.bytes());
        let is_of_now = statement.is_of_now();
        let cached = CachedStatement {
            catalog,
            entry,
            dictionaries,
            statement,
            statement_bytes,
            is_of_now,
            bound,
            binding,
            schema,
            hints,
            hinted,
            own,
            by_cuboid,
        };
        Some(cached)
    }

    /// The same for a statement with parameters where this one has values.
    pub fn of_template(&self, statement: Statement) -> CachedStatement {
        CachedStatement {
            catalog: Arc::clone(&self.catalog),
            entry: Arc::clone(&self.entry),
            dictionaries: Arc::clone(&self.dictionaries),
            statement_bytes: statement.bytes(),
            is_of_now: statement.is_of_now(),
            statement: Arc::new(statement),
            bound: Mutex::new(Arc::clone(&self.bound.lock())),
            binding: Mutex::default(),
            schema: Arc::clone(&self.schema),
            hints: self.hints.clone(),
            hinted: self.hinted,
            own: self.own,
            by_cuboid: self.by_cuboid,
        }
    }

    /// Whether another one, of the same text, would be answered as this one: by the same definitions, and by a cuboid or not.
    pub fn is_same_way_as(&self, other: &CachedStatement) -> bool {
        Arc::ptr_eq(&self.catalog, &other.catalog)
            && self.codes_by(&other.dictionaries)
            && self.by_cuboid == other.by_cuboid
    }

    /// Whether a cuboid answered.
    pub fn is_by_cuboid(&self) -> bool {
        self.by_cuboid
    }

    /// The statement, as it was recognised.
    pub fn statement(&self) -> &Arc<Statement> {
        &self.statement
    }

    /// Whether it codes values by these dictionaries.
    pub fn codes_by(&self, dictionaries: &Arc<Dictionaries>) -> bool {
        Arc::ptr_eq(&self.dictionaries, dictionaries)
    }

    /// The table that it reads.
    pub fn entry(&self) -> &TableEntry {
        &self.entry
    }

    /// Whether it is of this table: along another path its name may mean another one.
    pub fn is_of(&self, entry: &TableEntry) -> bool {
        self.entry.def.id == entry.def.id
    }

    /// Whether the definitions are still those that it was made by.
    pub fn holds(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    /// The statement bound to the members that there are now, with values for its parameters, if it begins at a moment in microseconds since
    /// 1970. `None` if it cannot be.
    pub fn bound(&self, parameters: &[Literal], moment: i64) -> Option<Arc<Bound>> {
        if !parameters.is_empty() {
            let statement = self.statement.with_parameters(parameters)?;
            return bind_at(&statement, &self.entry, &self.dictionaries, moment).ok().map(Arc::new);
        }
        if self.is_of_now {
            return bind_at(&self.statement, &self.entry, &self.dictionaries, moment).ok().map(Arc::new);
        }
        let now = || Some(Arc::clone(&self.bound.lock())).filter(|bound| bound.knows_its_members());
        if let Some(bound) = now() {
            return Some(bound);
        }
        // Conditions may take long to be evaluated; what only looks at what is known does not wait meanwhile.
        let _binding = self.binding.lock();
        if let Some(bound) = now() {
            return Some(bound);
        }
        let bound = Arc::new(bind(&self.statement, &self.entry, &self.dictionaries).ok()?);
        *self.bound.lock() = Arc::clone(&bound);
        Some(bound)
    }

    /// Bytes in memory, about.
    fn bytes(&self) -> usize {
        size_of::<CachedStatement>() + size_of::<Bound>() + self.bound.lock().bytes() + 2 * self.statement_bytes
    }
}

/// The statement bound to its table as it means when it begins at a moment in microseconds since 1970.
pub fn bind_at(
    statement: &Statement,
    entry: &TableEntry,
    dictionaries: &Arc<Dictionaries>,
    moment: i64,
) -> Result<Bound, Declined> {
    match statement.is_of_now() {
        true => bind(&statement.at(moment).ok_or(Declined::Constant)?, entry, dictionaries),
        false => bind(statement, entry, dictionaries),
    }
}

/// Cached statements by the texts of their statements.
#[derive(Debug, Default)]
pub struct CachedStatements {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the texts' hashes.
    cached_statements: HashMap<u64, Entry>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    cached: Arc<CachedStatement>,
    used: u64,
    /// As counted when it was asked for last.
    bytes: usize,
}

impl Entry {
    fn new(text: &Arc<str>, cached: Arc<CachedStatement>, used: u64) -> Entry {
        let bytes = bytes_of(text, &cached);
        Entry { text: Arc::clone(text), cached, used, bytes }
    }
}

/// Bytes that a cached statement takes with its text.
fn bytes_of(text: &str, cached: &CachedStatement) -> usize {
    text.len() + size_of::<Entry>() + cached.bytes()
}

impl CachedStatements {
    /// Drops what other definitions made.
    pub fn retain(&self, catalog: &Arc<Catalog>) {
        let mut known = self.known.lock();
        known.cached_statements.retain(|_, entry| entry.cached.holds(catalog));
        known.count();
    }

    /// The cached statement of a text.
    pub fn get(&self, text: &str) -> Option<Arc<CachedStatement>> {
        let hash = xxh3_64(text.as_bytes());
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        let entry = known.cached_statements.get_mut(&hash).filter(|entry| *entry.text == *text)?;
        entry.used = now;
        let cached = Arc::clone(&entry.cached);
        // Since then it may have been bound to more members.
        let bytes = bytes_of(text, &cached);
        let before = std::mem::replace(&mut entry.bytes, bytes);
        known.bytes = known.bytes + bytes - before;
        known.make_room();
        Some(cached)
    }

    /// Forgets the statement of a text.
    pub fn remove(&self, text: &str) {
        let mut known = self.known.lock();
        if let Some(entry) = known.cached_statements.remove(&xxh3_64(text.as_bytes())) {
            known.bytes -= entry.bytes;
        }
    }

    /// Keeps the statement of a text.
    pub fn insert(&self, text: &Arc<str>, cached: Arc<CachedStatement>) {
        if bytes_of(text, &cached) > ENTRY_BYTES_MAX {
            return;
        }
        let hash = xxh3_64(text.as_bytes());
        let mut known = self.known.lock();
        let entry = Entry::new(text, cached, known.clock);
        known.bytes += entry.bytes;
        if let Some(before) = known.cached_statements.insert(hash, entry) {
            known.bytes -= before.bytes;
        }
        known.make_room();
    }
}

impl Known {
    fn make_room(&mut self) {
        if self.bytes <= BYTES_MAX {
            return;
        }
        let mut used: Vec<u64> = self.cached_statements.values().map(|entry| entry.used).collect();
        used.sort_unstable();
        let median = used[used.len() / 2];
        self.cached_statements.retain(|_, entry| entry.used > median);
        self.count();
    }

    fn count(&mut self) {
        self.bytes = self.cached_statements.values().map(|entry| entry.bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Aggregate, Condition, Item, Test};
    use alluvia_fixture::table;
    use alluvia_space::{DataType, dimensions};
    use alluvia_storage::{Disk, FaultDisk};
    use alluvia_types::Version;
    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use arrow::compute::cast;
    use arrow::datatypes::Schema;
    use std::path::Path;

    /// A table of cities and of items, with its dictionaries.
    struct Fixture {
        entry: Arc<TableEntry>,
        dictionaries: Arc<Dictionaries>,
    }

    impl Fixture {
        fn new() -> Fixture {
            let mut def = table("t", &[("city", DataType::Text), ("item", DataType::Text)]);
            def.dimensions = dimensions::parse("city; item", &def.columns).expect("dimensions");
            let disk = FaultDisk::new();
            disk.create_dir_all(Path::new("/db")).expect("directory");
            let dictionaries =
                Dictionaries::create(disk, Path::new("/db/dict").to_owned(), &def).expect("dictionaries");
            Fixture {
                entry: Arc::new(TableEntry::new(Arc::new(def), Version(1))),
                dictionaries: Arc::new(dictionaries),
            }
        }

        /// Rows of a city and an item each.
        fn meet(&self, rows: &[(String, String)]) {
            let schema = Arc::clone(self.entry.storage_schema());
            let column = |place: usize, values: Vec<&String>| {
                cast(&StringArray::from_iter_values(values), schema.field(place).data_type()).expect("a text")
            };
            let columns: Vec<ArrayRef> = vec![
                column(0, rows.iter().map(|row| &row.0).collect()),
                column(1, rows.iter().map(|row| &row.1).collect()),
            ];
            let rows = RecordBatch::try_new(schema, columns).expect("rows");
            self.dictionaries.remap(&self.entry.def, &rows).expect("codes");
        }

        /// How many rows there are of some cities.
        fn count_of(&self, cities: impl Iterator<Item = String>) -> CachedStatement {
            self.count_where(vec![Test::In(cities.map(Literal::Text).collect())])
        }

        /// How many rows there are of cities that pass all tests.
        fn count_where(&self, tests: Vec<Test>) -> CachedStatement {
            let conditions = tests.into_iter().map(|test| Condition::Column("city".to_owned(), test)).collect();
            let statement = Statement {
                table: "t".into(),
                view: None,
                items: vec![Item::Aggregate(Aggregate::Count, None)],
                hidden: Vec::new(),
                groups: Vec::new(),
                aliases: Vec::new(),
                conditions,
                having: None,
                order: Vec::new(),
                limit: None,
                offset: 0,
            };
            let bound = bind(&statement, &self.entry, &self.dictionaries).expect("the index tells cities");
            CachedStatement {
                catalog: Arc::default(),
                entry: Arc::clone(&self.entry),
                dictionaries: Arc::clone(&self.dictionaries),
                statement_bytes: statement.bytes(),
                is_of_now: statement.is_of_now(),
                statement: Arc::new(statement),
                bound: Mutex::new(Arc::new(bound)),
                binding: Mutex::default(),
                schema: Arc::new(Schema::empty()),
                hints: Hints::default(),
                hinted: None,
                own: Freshness::Merged,
                by_cuboid: true,
            }
        }
    }

    fn city(number: usize) -> String {
        format!("city {number}")
    }

    #[test]
    fn a_statement_is_bound_anew_for_members_that_its_conditions_look_at() {
        let fixture = Fixture::new();
        let row = |city: &str, item: &str| (city.to_owned(), item.to_owned());
        fixture.meet(&[row("Lima", "pen"), row("Oslo", "pen")]);
        let cached = fixture.count_of(["Lima", "Rome"].into_iter().map(str::to_owned));
        let codes = |bound: &Bound| bound.asked()[0].filters[0].codes.len();
        let first = cached.bound(&[], 0).expect("holds");
        fixture.meet(&[row("Lima", "cup"), row("Oslo", "cap")]);
        let second = cached.bound(&[], 0).expect("holds");
        assert!(Arc::ptr_eq(&first, &second), "items are nothing to it");
        fixture.meet(&[row("Rome", "pen")]);
        let third = cached.bound(&[], 0).expect("holds");
        assert_eq!((codes(&first), codes(&third)), (1, 2));
    }

    #[test]
    fn conditions_count_whatever_they_test() {
        let fixture = Fixture::new();
        fixture.meet(&[(city(1), "item".to_owned())]);
        let bytes_of = |test: &Test, count: usize| fixture.count_where(vec![test.clone(); count]).bytes();
        let text = |length: usize| Literal::Text("m".repeat(length));
        for test in
            [Test::Range(Some((text(100), true)), None), Test::Range(None, Some((text(100), false))), Test::Known]
        {
            let each = (bytes_of(&test, 200) - bytes_of(&test, 100)) / 100;
            // Twice: as it was read and as it was bound.
            let least = 2 * (size_of::<Condition>() + if test == Test::Known { 0 } else { 100 });
            assert!(each >= least, "{test:?}: {each}, and not {least}");
        }
    }

    #[test]
    fn sets_of_codes_count_as_texts_do() {
        let fixture = Fixture::new();
        let rows: Vec<(String, String)> = (0..20_000).map(|number| (city(number), "item".to_owned())).collect();
        fixture.meet(&rows);
        // Every other city is a run of its own.
        let cached = Arc::new(fixture.count_of((0..20_000).step_by(2).map(city)));
        assert!(cached.bytes() > 10_000 * 16, "{}", cached.bytes());
        let cached_statements = CachedStatements::default();
        for at in 0..2 * BYTES_MAX / cached.bytes() {
            let text: Arc<str> = format!("statement {at}").into();
            cached_statements.insert(&text, Arc::clone(&cached));
            assert!(cached_statements.get(&text).is_some(), "the newest is kept");
            let known = cached_statements.known.lock();
            let bytes: usize =
                known.cached_statements.values().map(|entry| entry.text.len() + entry.cached.bytes()).sum();
            assert!(bytes <= BYTES_MAX && bytes <= known.bytes, "{bytes} of {}", known.bytes);
        }
        let other = Arc::new(Catalog::default());
        cached_statements.retain(&other);
        let known = cached_statements.known.lock();
        assert_eq!((known.cached_statements.len(), known.bytes), (0, 0));
    }
}
