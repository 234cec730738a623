//! Temporary rows against a list of rows, in memory and in files, taken back and folded.

use super::*;
use crate::spool::Spool;
use alluvia_space::TableDef;
use alluvia_space::key_code::KeyCode;
use alluvia_syntax::statements::definitions::define;
use alluvia_syntax::statements::keys::with_key;
use alluvia_syntax::{Kind, parse};
use alluvia_types::{ErrorKind, TableId};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, UInt64Array};
use arrow::datatypes::{Int64Type, UInt64Type};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::sync::Arc;

/// A database that has so many bytes.
#[derive(Debug)]
struct Bound(Mutex<(u64, u64)>);

impl Bound {
    fn new(most: u64) -> Arc<Bound> {
        Arc::new(Bound(Mutex::new((0, most))))
    }

    fn used(&self) -> u64 {
        self.0.lock().0
    }
}

impl MemoryBound for Bound {
    fn try_take(&self, bytes: u64) -> bool {
        let mut bound = self.0.lock();
        let fits = bound.0 + bytes <= bound.1;
        bound.0 += if fits { bytes } else { 0 };
        fits
    }

    fn take(&self, bytes: u64) {
        self.0.lock().0 += bytes;
    }

    fn give_back(&self, bytes: u64) {
        self.0.lock().0 -= bytes;
    }
}

fn table(sql: &str) -> TableDef {
    let Kind::CreateTable(create) = parse(sql).unwrap().remove(0).kind else { panic!("a CREATE TABLE") };
    let column = |column: alluvia_syntax::statements::definitions::ColumnSpec| {
        (column.name, column.column_type.expect("a type"), column.nullable)
    };
    let columns: Vec<_> = create.columns.into_iter().map(column).collect();
    let def = define(TableId(1 << 30), &create.name, &columns, &create.with, 0).unwrap();
    with_key(def, &create.key, create.with.on_conflict.as_deref(), [1, 2]).unwrap()
}

/// Rows of a table, with a text beside that is long enough to matter.
fn batch(def: &TableDef, values: &[(i64, i64)]) -> RecordBatch {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let text = values.iter().map(|(key, value)| Some(format!("the text of {key} and {value}, which is long")));
    let columns: Vec<ArrayRef> = vec![
        column(values.iter().map(|row| row.0).collect()),
        column(values.iter().map(|row| row.1).collect()),
        Arc::new(text.collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(def.storage_schema(), columns).unwrap()
}

fn keys(def: &TableDef, keys: &[i64]) -> RecordBatch {
    let column = Arc::new(Int64Array::from(keys.to_vec())) as ArrayRef;
    RecordBatch::try_new(Arc::new(def.storage_schema().project(&[0]).unwrap()), vec![column]).unwrap()
}

struct Table {
    def: TableDef,
    rows: TemporaryRows,
    undo: Vec<Undo>,
    /// Changes behind so many are not joined with others.
    marked: usize,
    memory: Arc<TemporaryMemory>,
    spool: Spool,
    most: u64,
}

impl Table {
    fn new(sql: &str, dir: &std::path::Path, bound: &Arc<Bound>, most: u64) -> Table {
        let def = table(sql);
        let memory = TemporaryMemory::new(Arc::clone(bound) as Arc<dyn MemoryBound>);
        let rows = TemporaryRows::new(&def, &memory);
        Table { def, rows, undo: Vec::new(), marked: 0, memory, spool: Spool::in_dir(dir, 1 << 30), most }
    }

    fn codes(&self, batch: &RecordBatch) -> Vec<KeyCode> {
        self.rows.coder().map(|coder| coder.codes(batch).unwrap()).unwrap_or_default()
    }

    fn come(&mut self, values: &[(i64, i64)]) {
        let before = self.undo.len();
        let batch = batch(&self.def, values);
        let codes = self.codes(&batch);
        let coming = match Coming::in_memory(&self.memory, &batch, &codes, self.most) {
            Some(coming) => coming,
            None => {
                self.spill();
                Coming::in_memory(&self.memory, &batch, &codes, self.most).unwrap_or_else(|| {
                    Coming::in_file(&self.memory, &self.spool, "t", &batch, &codes, u64::MAX).unwrap()
                })
            }
        };
        let undo = self.rows.come(coming).unwrap();
        match self.undo.last_mut().filter(|_| self.marked < before) {
            Some(last) => {
                let other = last.join(undo).err();
                self.undo.extend(other);
            }
            None => self.undo.push(undo),
        }
    }

    fn spill(&mut self) {
        let spilling = self.rows.spilling();
        let spilled = spilling.write(&self.spool, "t").unwrap();
        self.rows.spilled(spilled);
    }

    fn take_back(&mut self, undo: usize) {
        while self.undo.len() > undo {
            let undo = self.undo.pop().unwrap();
            self.rows.take_back(undo);
        }
        self.rows.settle();
    }

    fn shown(&mut self, parts: usize) -> Vec<(i64, i64)> {
        let read = self.rows.read();
        let columns: Vec<String> = self.def.columns[..2].iter().map(|column| column.storage_name.clone()).collect();
        let mut shown = Vec::new();
        for part in read.parts(parts) {
            for batch in read.batches(part, columns.clone(), false) {
                let batch = batch.unwrap();
                let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
                shown.extend(column(0).into_iter().zip(column(1)));
            }
        }
        assert_eq!(shown.len() as u64, read.rows());
        shown
    }

    /// What the rows are known by, in their order.
    fn places(&mut self) -> Vec<u64> {
        let read = self.rows.read();
        let batches = read.batches(read.whole(), Vec::new(), true);
        let ordinals = |batch: RecordBatch| batch.column(1).as_primitive::<UInt64Type>().values().to_vec();
        batches.flat_map(|batch| ordinals(batch.unwrap())).collect()
    }
}

fn identities(places: &[u64]) -> RecordBatch {
    let versions = Arc::new(UInt64Array::from_value(TEMPORARY_VERSION.0, places.len())) as ArrayRef;
    let ordinals = Arc::new(UInt64Array::from(places.to_vec())) as ArrayRef;
    RecordBatch::try_from_iter([("_version", versions), ("_ordinal", ordinals)]).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Come(Vec<i64>),
    Many(usize),
    Delete(Vec<usize>),
    Clear,
    Spill,
    Save,
    Back,
    Fold,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0i64..30, 1..6).prop_map(Step::Come),
        1 => (500usize..700).prop_map(Step::Many),
        3 => prop::collection::vec(0usize..60, 1..6).prop_map(Step::Delete),
        1 => Just(Step::Clear),
        1 => Just(Step::Spill),
        1 => Just(Step::Save),
        2 => Just(Step::Back),
        2 => Just(Step::Fold),
    ]
}

/// Runs steps on a table and on a list, and compares after each.
fn compare(sql: &str, steps: Vec<Step>, most: u64) {
    let dir = tempfile::tempdir().unwrap();
    let bound = Bound::new(u64::MAX / 2);
    let mut table = Table::new(sql, dir.path(), &bound, most);
    let has_key = table.def.key.is_some();
    let mut model: Vec<(i64, i64)> = Vec::new();
    let mut saved = (0, model.clone());
    for (number, step) in (0..).zip(steps) {
        let put = |model: &mut Vec<(i64, i64)>, values: &[(i64, i64)]| {
            for row in values {
                if has_key {
                    model.retain(|known| known.0 != row.0);
                }
                model.push(*row);
            }
        };
        match step {
            Step::Come(keys) => {
                let values: Vec<(i64, i64)> = keys.into_iter().map(|key| (key, number)).collect();
                table.come(&values);
                put(&mut model, &values);
            }
            Step::Many(rows) => {
                let values: Vec<(i64, i64)> = (0..rows as i64).map(|key| (1_000 * number + key, number)).collect();
                table.come(&values);
                put(&mut model, &values);
            }
            Step::Delete(at) if has_key => {
                let gone: Vec<i64> = at.iter().filter_map(|&at| Some(model.get(at)?.0)).collect();
                let codes = table.codes(&keys(&table.def, &gone));
                let undo = table.rows.delete(&codes);
                table.undo.push(undo);
                model.retain(|row| !gone.contains(&row.0));
            }
            Step::Delete(at) => {
                let places = table.places();
                let gone: std::collections::BTreeSet<usize> = at.into_iter().filter(|&at| at < places.len()).collect();
                let rows = identities(&gone.iter().map(|&at| places[at]).collect::<Vec<_>>());
                let undo = table.rows.delete_rows(&rows).unwrap();
                assert_eq!(undo.killed(), gone.len());
                table.undo.push(undo);
                let mut at = 0..;
                model.retain(|_| !gone.contains(&at.next().unwrap()));
            }
            Step::Clear => {
                let undo = table.rows.clear();
                table.undo.push(undo);
                model.clear();
            }
            Step::Spill => table.spill(),
            Step::Save => {
                saved = (table.undo.len(), model.clone());
                table.marked = saved.0;
            }
            Step::Back => {
                table.take_back(saved.0);
                model = saved.1.clone();
            }
            Step::Fold => {
                table.undo.clear();
                table.marked = 0;
                table.rows.fold().unwrap();
                saved = (0, model.clone());
            }
        }
        assert_eq!(table.shown(1 + number as usize % 3), model);
        assert_eq!(table.rows.rows(), model.len() as u64);
        if has_key {
            for key in 0..30 {
                let code = table.codes(&keys(&table.def, &[key]))[0];
                assert_eq!(table.rows.has_key(code), model.iter().any(|row| row.0 == key));
            }
        }
    }
    assert_eq!(table.memory.held(), bound.used());
    drop(table);
    assert_eq!(bound.used(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_without_a_key_are_those_of_a_list(steps in prop::collection::vec(step(), 0..40), most in 0u64..60_000) {
        compare("CREATE TABLE t (id BIGINT, n BIGINT, s TEXT)", steps, most);
    }

    #[test]
    fn rows_with_a_key_are_those_of_a_list(steps in prop::collection::vec(step(), 0..40), most in 0u64..60_000) {
        compare("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s TEXT)", steps, most);
    }
}

#[test]
fn whoever_reads_keeps_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let bound = Bound::new(1 << 30);
    let mut table = Table::new("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s TEXT)", dir.path(), &bound, 1 << 20);
    table.come(&[(1, 1), (2, 2)]);
    let names: Vec<String> = table.def.columns.iter().map(|column| column.storage_name.clone()).collect();
    let before = table.rows.read();
    table.come(&[(2, 20), (3, 3)]);
    table.spill();
    let files = |dir: &std::path::Path| -> usize { walk(dir).into_iter().filter(|path| path.is_file()).count() };
    assert_eq!(files(dir.path()), 1);
    let in_file = table.rows.read();
    let undo = table.rows.clear();
    assert_eq!((before.rows(), in_file.rows(), table.rows.rows()), (2, 3, 0));
    let read = |read: &TemporaryRead| -> Vec<i64> {
        let batches = read.batches(read.whole(), names[1..2].to_vec(), false);
        batches.flat_map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    };
    drop(undo);
    table.undo.clear();
    assert_eq!((read(&before), read(&in_file)), (vec![1, 2], vec![1, 20, 3]));
    drop((before, in_file));
    assert_eq!(files(dir.path()), 0, "a file goes with its last reader");
    drop(table);
    assert_eq!(bound.used(), 0);
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    #[allow(clippy::disallowed_methods)]
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(walk(&path));
        }
        all.push(path);
    }
    all
}

#[test]
fn rows_that_came_one_by_one_become_few_chunks_and_are_read_together() {
    let dir = tempfile::tempdir().unwrap();
    let bound = Bound::new(1 << 30);
    let mut table = Table::new("CREATE TABLE t (id BIGINT, n BIGINT, s TEXT)", dir.path(), &bound, 1 << 30);
    for row in 0..3_000 {
        table.come(&[(row, row)]);
    }
    let read = table.rows.read();
    assert_eq!((read.whole().len(), read.batches(read.whole(), Vec::new(), false).count()), (3_000, 1));
    table.undo.clear();
    table.rows.fold().unwrap();
    assert_eq!(table.rows.read().whole().len(), 1);
    assert_eq!(table.shown(2), (0..3_000).map(|row| (row, row)).collect::<Vec<_>>());
}

#[test]
fn keys_and_files_that_have_no_room_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let bound = Bound::new(1 << 30);
    let mut table = Table::new("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s TEXT)", dir.path(), &bound, 1 << 20);
    let rows = batch(&table.def, &(0..100).map(|row| (row, row)).collect::<Vec<_>>());
    let codes = table.codes(&rows);
    assert!(Coming::in_memory(&table.memory, &rows, &codes, 1_000).is_none());
    let error = Coming::in_file(&table.memory, &table.spool, "t", &rows, &codes, 1_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.message().contains("temporary table \"t\""), "{error}");
    table.spool = Spool::in_dir(dir.path(), 1_000);
    let error = Coming::in_file(&table.memory, &table.spool, "t", &rows, &codes, 1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.message().contains("temporary table \"t\"") && error.message().contains("spill_max"), "{error}");
    assert_eq!(table.memory.held(), 0);
}
