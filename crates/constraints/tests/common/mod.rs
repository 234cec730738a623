//! A session of plain maps, for what constraints do.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)] // each test uses its part of it

use alluvia_catalog::{Catalog, TableEntry};
use alluvia_constraints::events::{of_parents, of_rows, referred};
use alluvia_constraints::settle::{Changed, Found};
use alluvia_constraints::{Event, Events, Looks, Values};
use alluvia_locks::Mode;
use alluvia_space::{Action, Column, DataType, ForeignKey, OnConflict, PrimaryKey, TableDef, TableOptions};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, new_null_array};
use arrow::datatypes::{DataType as ArrowType, Int32Type};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

/// Rows by their keys, which are their first columns.
pub type Rows = BTreeMap<i32, Vec<Option<i32>>>;

pub const PARENT: TableId = TableId(1);
pub const CHILD: TableId = TableId(2);
pub const GRANDCHILD: TableId = TableId(3);

pub fn def(id: TableId, name: &str, columns: &[&str]) -> TableDef {
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

pub fn key(name: &str, column: u32, parent: TableId, of: u32, on_delete: Action, on_update: Action) -> ForeignKey {
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

/// What others write: rows of a table go, and others come.
pub type Written = (TableId, Vec<i32>, Vec<Vec<Option<i32>>>);

/// A session and its tables.
pub struct Plain {
    pub catalog: Arc<Catalog>,
    pub tables: Mutex<BTreeMap<TableId, Rows>>,
    pub events: Mutex<Events>,
    pub locked: Mutex<HashSet<u128>>,
    /// What others commit while rows are waited for, one after the other.
    pub others: Mutex<Vec<Written>>,
}

pub fn batch(entry: &TableEntry, rows: &[Vec<Option<i32>>]) -> RecordBatch {
    let column = |at: usize| -> ArrayRef { Arc::new(rows.iter().map(|row| row[at]).collect::<Int32Array>()) };
    let columns = (0..entry.def.columns.len()).map(column).collect();
    RecordBatch::try_new(Arc::clone(entry.storage_schema()), columns).unwrap()
}

pub fn rows_of(batch: &RecordBatch) -> Vec<Vec<Option<i32>>> {
    let value =
        |array: &ArrayRef, row: usize| array.is_valid(row).then(|| array.as_primitive::<Int32Type>().value(row));
    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|array| value(array, row)).collect()).collect()
}

impl Plain {
    pub fn new(catalog: &Arc<Catalog>, tables: BTreeMap<TableId, Rows>) -> Plain {
        Plain {
            catalog: Arc::clone(catalog),
            tables: Mutex::new(tables),
            events: Mutex::default(),
            locked: Mutex::default(),
            others: Mutex::default(),
        }
    }

    /// Waits for others, if any have rows; tells whether they had.
    fn wait(&self) -> bool {
        let Some((table, old, new)) = self.others.lock().unwrap().pop() else { return false };
        let mut tables = self.tables.lock().unwrap();
        let rows = tables.get_mut(&table).unwrap();
        rows.retain(|key, _| !old.contains(key));
        rows.extend(new.into_iter().map(|row| (row[0].unwrap(), row)));
        true
    }

    /// Rows go by their keys, and others come; `pairs` become one another. What is to be looked at is noted.
    pub fn apply(&self, table: TableId, old: &[i32], new: &[Vec<Option<i32>>], set: Option<&[usize]>, pairs: bool) {
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
        self.wait();
        async { Ok(()) }.boxed()
    }

    fn change<'a>(&'a self, entry: &'a Arc<TableEntry>, changed: Changed) -> BoxFuture<'a, Result<()>> {
        if self.wait() {
            return async { Err(Error::new(ErrorKind::Conflict, "a row was written since")) }.boxed();
        }
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
