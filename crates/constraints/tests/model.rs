//! Random statements over three tables that refer to one another, against what the same statements do to plain maps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use alluvia_catalog::{Catalog, Change, TableEntry};
use alluvia_constraints::events::{of_parents, of_rows, referred};
use alluvia_constraints::settle::{Changed, Found};
use alluvia_constraints::{Event, Events, Looks, Values, settle};
use alluvia_locks::Mode;
use alluvia_space::{Action, Column, DataType, ForeignKey, Index, OnConflict, PrimaryKey, TableDef, TableOptions};
use alluvia_types::{ColumnId, ErrorKind, Result, TableId, Version};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, new_null_array};
use arrow::datatypes::{DataType as ArrowType, Int32Type};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

/// Rows by their keys, which are their first columns.
type Rows = BTreeMap<i32, Vec<Option<i32>>>;

const PARENT: TableId = TableId(1);
const CHILD: TableId = TableId(2);
const GRANDCHILD: TableId = TableId(3);

fn def(id: TableId, name: &str, columns: &[&str]) -> TableDef {
    let column = |(at, name): (usize, &&str)| Column {
        id: ColumnId(at as u32),
        name: (*name).to_owned(),
        storage_name: (*name).to_owned(),
        data_type: DataType::Int32,
        nullable: at > 0,
        chars_max: None,
    };
    TableDef {
        id,
        schema: "public".to_owned(),
        name: name.to_owned(),
        columns: columns.iter().enumerate().map(column).collect(),
        next_column_id: columns.len() as u32,
        key: Some(PrimaryKey { columns: vec![ColumnId(0)], secret: [1, 2], on_conflict: OnConflict::Error }),
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 0,
        options: TableOptions::default(),
    }
}

fn key(name: &str, column: u32, parent: TableId, of: u32, on_delete: Action, on_update: Action) -> ForeignKey {
    ForeignKey {
        name: name.to_owned(),
        columns: vec![ColumnId(column)],
        parent,
        parent_columns: vec![ColumnId(of)],
        on_delete,
        on_update,
        deferrable: false,
        initially_deferred: false,
    }
}

struct Plain {
    catalog: Arc<Catalog>,
    tables: Mutex<BTreeMap<TableId, Rows>>,
    events: Mutex<Events>,
    locked: Mutex<HashSet<u128>>,
}

fn batch(entry: &TableEntry, rows: &[Vec<Option<i32>>]) -> RecordBatch {
    let column = |at: usize| -> ArrayRef { Arc::new(rows.iter().map(|row| row[at]).collect::<Int32Array>()) };
    let columns = (0..entry.def.columns.len()).map(column).collect();
    RecordBatch::try_new(Arc::clone(entry.storage_schema()), columns).unwrap()
}

fn rows_of(batch: &RecordBatch) -> Vec<Vec<Option<i32>>> {
    let value =
        |array: &ArrayRef, row: usize| array.is_valid(row).then(|| array.as_primitive::<Int32Type>().value(row));
    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|array| value(array, row)).collect()).collect()
}

impl Plain {
    /// Rows go by their keys, and others come; `pairs` become one another. What is to be looked at is noted.
    fn apply(&self, table: TableId, old: &[i32], new: &[Vec<Option<i32>>], set: Option<&[usize]>, pairs: bool) {
        let entry = self.catalog.by_id(table).unwrap();
        let mut tables = self.tables.lock().unwrap();
        let rows = tables.get_mut(&table).unwrap();
        let before: Vec<_> = old.iter().map(|key| rows.remove(key).unwrap()).collect();
        for row in new {
            assert!(rows.insert(row[0].unwrap(), row.clone()).is_none(), "keys are free");
        }
        let (before, after) = (batch(entry, &before), batch(entry, new));
        let mut events = of_rows(&self.catalog, entry, [&after].into_iter(), set).unwrap();
        let referred = referred(&self.catalog, entry, set).unwrap();
        events.extend(of_parents(entry, &referred, &before, pairs.then_some(&after)).unwrap());
        self.events.lock().unwrap().extend(events);
    }
}

impl Looks for Plain {
    fn catalog(&self) -> Result<Arc<Catalog>> {
        Ok(Arc::clone(&self.catalog))
    }

    fn take_due(&self) -> Result<Vec<Event>> {
        Ok(self.events.lock().unwrap().take_due(&self.catalog, false))
    }

    fn lock<'a>(&'a self, _: &'a Arc<TableEntry>, codes: Vec<u128>, _: Mode) -> BoxFuture<'a, Result<()>> {
        self.locked.lock().unwrap().extend(codes);
        async { Ok(()) }.boxed()
    }

    fn rows_with<'a>(
        &'a self,
        entry: &'a Arc<TableEntry>,
        columns: &'a [usize],
        values: &'a Values,
        wanted: &'a [usize],
        told: bool,
    ) -> BoxFuture<'a, Result<Found>> {
        async move {
            let types = vec![ArrowType::Int32; columns.len()];
            let asked: HashSet<_> = values.cast_to(&types)?.keys()?.into_iter().collect();
            let all: Vec<_> = self.tables.lock().unwrap()[&entry.def.id].values().cloned().collect();
            let whole = batch(entry, &all);
            let keys = Values::aligned(&whole, columns, &types)?.keys()?;
            let is_whole = |row: &Vec<Option<i32>>| columns.iter().all(|at| row[*at].is_some());
            let found = all
                .iter()
                .zip(keys)
                .filter(|(row, key)| is_whole(row) && asked.contains(key))
                .map(|(row, _)| row.clone());
            let found = batch(entry, &found.collect::<Vec<_>>());
            let mut given = wanted.to_vec();
            given.extend(told.then_some(0));
            Ok(Found { batches: vec![found.project(&given).unwrap()], at: Version(1) })
        }
        .boxed()
    }

    fn sees_commits(&self) -> bool {
        true
    }

    fn wait_for<'a>(&'a self, _: &'a Arc<TableEntry>, keys: Vec<ArrayRef>, _: Mode) -> BoxFuture<'a, Result<()>> {
        assert!(keys.len() == 1 && !keys[0].is_empty());
        async { Ok(()) }.boxed()
    }

    fn change<'a>(&'a self, entry: &'a Arc<TableEntry>, changed: Changed) -> BoxFuture<'a, Result<()>> {
        let old: Vec<i32> = rows_of(&changed.told).into_iter().map(|row| row[0].unwrap()).collect();
        let set = (!changed.set.is_empty()).then_some(changed.set.as_slice());
        match &changed.rows {
            None => self.apply(entry.def.id, &old, &[], set, false),
            Some(rows) => self.apply(entry.def.id, &old, &rows_of(rows), set, true),
        }
        async { Ok(()) }.boxed()
    }

    fn default_of<'a>(&'a self, _: &'a Arc<TableEntry>, _: usize, count: usize) -> BoxFuture<'a, Result<ArrayRef>> {
        async move { Ok(new_null_array(&ArrowType::Int32, count)) }.boxed()
    }
}

/// What a statement comes to by the rules alone: rows after it, or that it is refused.
fn expected(
    catalog: &Catalog,
    before: &BTreeMap<TableId, Rows>,
    table: TableId,
    old: &[i32],
    new: &[Vec<Option<i32>>],
) -> Option<BTreeMap<TableId, Rows>> {
    let mut all = before.clone();
    let is_update = !old.is_empty() && !new.is_empty();
    let mut became: BTreeMap<(TableId, u32, i32), Option<i32>> = BTreeMap::new();
    let mut queue = vec![(table, old.to_vec(), new.to_vec())];
    while let Some((table, old, new)) = queue.pop() {
        let rows = all.get_mut(&table).unwrap();
        for (at, key) in old.iter().enumerate() {
            let was = rows.remove(key).unwrap();
            for (column, value) in was.iter().enumerate() {
                let Some(value) = value else { continue };
                let next = new.get(at).filter(|_| is_update).and_then(|row| row[column]);
                if next != Some(*value) {
                    became.insert((table, column as u32, *value), next);
                }
            }
        }
        for row in &new {
            rows.insert(row[0].unwrap(), row.clone());
        }
        for child in catalog.tables() {
            for key in child.def.foreign_keys.iter().filter(|key| key.parent == table) {
                let (from, of) = (key.columns[0].0 as usize, key.parent_columns[0].0);
                let action = if is_update { key.on_update } else { key.on_delete };
                let lost: Vec<(i32, Vec<Option<i32>>)> = all[&child.def.id]
                    .iter()
                    .filter(|(_, row)| row[from].is_some_and(|value| became.contains_key(&(table, of, value))))
                    .map(|(key, row)| (*key, row.clone()))
                    .collect();
                if lost.is_empty() || matches!(action, Action::NoAction | Action::Restrict) {
                    continue;
                }
                let keys: Vec<i32> = lost.iter().map(|(key, _)| *key).collect();
                let rows: Vec<Vec<Option<i32>>> = lost
                    .into_iter()
                    .map(|(_, mut row)| {
                        row[from] = match action {
                            Action::Cascade => became[&(table, of, row[from].unwrap())],
                            _ => None,
                        };
                        row
                    })
                    .collect();
                let is_gone = action == Action::Cascade && !is_update;
                queue.push((child.def.id, keys, if is_gone { Vec::new() } else { rows }));
                // What follows is seen by what comes next.
                let (table, keys, rows) = queue.pop().unwrap();
                let known = all.get_mut(&table).unwrap();
                let kept: Vec<i32> = keys.iter().copied().filter(|key| known.contains_key(key)).collect();
                if rows.is_empty() {
                    queue.push((table, kept, rows));
                } else {
                    for row in rows {
                        known.insert(row[0].unwrap(), row);
                    }
                }
            }
        }
    }
    for entry in catalog.tables() {
        let rows = &all[&entry.def.id];
        for index in entry.def.unique_indexes() {
            let mut seen = HashSet::new();
            let at = index.columns[0].0 as usize;
            if rows.values().filter_map(|row| row[at]).any(|value| !seen.insert(value)) {
                return None;
            }
        }
        for key in &entry.def.foreign_keys {
            let of = key.parent_columns[0].0 as usize;
            let parents: HashSet<i32> = all[&key.parent].values().filter_map(|row| row[of]).collect();
            let from = key.columns[0].0 as usize;
            if rows.values().filter_map(|row| row[from]).any(|value| !parents.contains(&value)) {
                return None;
            }
        }
    }
    Some(all)
}

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn value(&mut self) -> Option<i32> {
        (self.below(5) > 0).then(|| self.below(12) as i32)
    }
}

#[test]
fn random_statements_come_to_what_the_rules_say() {
    let actions = [Action::NoAction, Action::Cascade, Action::SetNull];
    let mut done = (0, 0);
    for seed in 0..60_u64 {
        let mut random = Random(seed);
        let mut action = || actions[random.below(3) as usize];
        let unique = |name: &str, column| Index {
            name: name.to_owned(),
            columns: vec![ColumnId(column)],
            unique: true,
            is_constraint: true,
        };
        let mut parent = def(PARENT, "p", &["id", "u"]);
        parent.indexes.push(unique("p_u_key", 1));
        let mut child = def(CHILD, "c", &["id", "p_id", "p_u"]);
        child.foreign_keys.push(key("c_p_id_fkey", 1, PARENT, 0, action(), Action::NoAction));
        child.foreign_keys.push(key("c_p_u_fkey", 2, PARENT, 1, action(), action()));
        let mut grandchild = def(GRANDCHILD, "g", &["id", "c_id"]);
        grandchild.foreign_keys.push(key("g_c_id_fkey", 1, CHILD, 0, action(), Action::NoAction));
        let changes: Vec<Change> =
            [parent, child, grandchild].into_iter().map(|def| Change::CreateTable { def }).collect();
        let catalog = Arc::new(Catalog::default().apply(Version(1), &changes).unwrap());
        let mut tables: BTreeMap<TableId, Rows> = [PARENT, CHILD, GRANDCHILD].map(|id| (id, Rows::new())).into();
        for _ in 0..200 {
            let table = TableId(1 + random.below(3) as u32);
            let width = catalog.by_id(table).unwrap().def.columns.len();
            let mut row = |key: i32| -> Vec<Option<i32>> {
                std::iter::once(Some(key)).chain((1..width).map(|_| random.value())).collect()
            };
            let keys: Vec<i32> = (0..12).collect();
            let some: Vec<i32> = {
                let mut random = Random(seed ^ 77 ^ tables[&table].len() as u64);
                keys.into_iter().filter(|_| random.below(5) == 0).collect()
            };
            let there: Vec<i32> = some.iter().copied().filter(|key| tables[&table].contains_key(key)).collect();
            let free: Vec<i32> = some.iter().copied().filter(|key| !tables[&table].contains_key(key)).collect();
            let new: Vec<Vec<Option<i32>>> = free.iter().map(|key| row(*key)).collect();
            let changed: Vec<Vec<Option<i32>>> = there.iter().map(|key| row(*key)).collect();
            let (old, new, pairs) = match random.below(3) {
                0 => (Vec::new(), new, false),
                1 => (there, changed, true),
                _ => (there, Vec::new(), false),
            };
            if old.is_empty() && new.is_empty() {
                continue;
            }
            let plain = Plain {
                catalog: Arc::clone(&catalog),
                tables: Mutex::new(tables.clone()),
                events: Mutex::default(),
                locked: Mutex::default(),
            };
            plain.apply(table, &old, &new, None, pairs);
            let result = settle(&plain).now_or_never().expect("nothing waits");
            let wanted = expected(&catalog, &tables, table, &old, &new);
            match (result, wanted) {
                (Ok(()), Some(wanted)) => {
                    tables = plain.tables.into_inner().unwrap();
                    assert_eq!(tables, wanted, "seed {seed}: {table} {old:?} -> {new:?}");
                    done.0 += 1;
                }
                (Err(error), None) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::UniqueViolation | ErrorKind::ForeignKeyViolation),
                        "{error}"
                    );
                    done.1 += 1;
                }
                (result, wanted) => {
                    panic!("seed {seed}: {table} {old:?} -> {new:?} is {result:?}, and {wanted:?} was wanted")
                }
            }
        }
    }
    assert!(done.0 > 500 && done.1 > 500, "{done:?}");
}
