//! What compiled queries refuse: names that a join does not know, and more than they may look at or find.

use crate::statement::{PointStatement, point_tables};
use crate::{FoundRows, OwnRows};
use alluvia_catalog::TableEntry;
use alluvia_heap::{FedBatch, FedKey, Heap};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_syntax::statements::definitions::define;
use alluvia_syntax::statements::keys::with_key;
use alluvia_syntax::{Kind, parse};
use alluvia_types::{TableId, Version};
use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray, UInt64Array};
use datafusion_common::ScalarValue;
use std::sync::Arc;

fn entry(name: &str, number: u32) -> Arc<TableEntry> {
    let sql = format!("CREATE TABLE {name} (w INT, k INT, note TEXT, PRIMARY KEY (w, k))");
    let Kind::CreateTable(create) = parse(&sql).unwrap().remove(0).kind else { panic!("a CREATE TABLE") };
    let columns: Vec<_> = create
        .columns
        .into_iter()
        .map(|column| (column.name, column.column_type.expect("a type"), column.nullable))
        .collect();
    let def = define(TableId(number), ("public", &create.name.name), &columns, &create.with, 0).unwrap();
    let def = with_key(def, &create.key, create.with.on_conflict.as_deref(), [1, 2]).unwrap();
    Arc::new(TableEntry::new(Arc::new(def), Version(1)))
}

fn recognised(sql: &str, entries: &[Arc<TableEntry>]) -> Option<PointStatement> {
    let kind = parse(sql).unwrap().remove(0).kind;
    point_tables(&kind)?;
    PointStatement::recognise(&kind, entries)
}

/// Rows with `w` 1 and these keys, and a text of so many bytes each.
fn rows(entry: &TableEntry, keys: std::ops::Range<i32>, bytes: usize) -> RecordBatch {
    let count = keys.len();
    let notes = std::iter::repeat_n("x".repeat(bytes), count);
    let columns: [ArrayRef; 5] = [
        Arc::new(Int32Array::from_value(1, count)),
        Arc::new(Int32Array::from_iter_values(keys)),
        Arc::new(StringViewArray::from_iter_values(notes)),
        Arc::new(UInt64Array::from_value(1, count)),
        Arc::new(UInt64Array::from_iter_values(0..count as u64)),
    ];
    let names = entry.def.columns.iter().map(|column| column.storage_name.as_str());
    RecordBatch::try_from_iter(names.chain([VERSION_COLUMN, ORDINAL_COLUMN]).zip(columns)).unwrap()
}

fn loaded(entry: &Arc<TableEntry>, keys: std::ops::Range<i32>, bytes: usize) -> Heap {
    let heap = Heap::new(entry, Version(1), 0, usize::MAX).unwrap();
    assert!(heap.load(&rows(entry, keys, bytes)).unwrap());
    heap.loaded();
    heap
}

/// What a query of one table, with `w` 1, finds at a version.
fn found(sql: &str, heap: &Heap, version: u64) -> Option<FoundRows> {
    let point = recognised(sql, &[Arc::clone(heap.entry())]).unwrap();
    let views = [heap.read(Version(1)).unwrap()];
    let parameters = [ScalarValue::Int32(Some(1))];
    point.query().unwrap().run((&views, &[OwnRows::default()]), Version(version), &parameters, None, &[1])
}

#[test]
fn a_condition_of_a_join_knows_the_tables_that_are_joined_by_then() {
    let entries = [entry("t", 1), entry("u", 2), entry("v", 3)];
    let query = |from: &str| {
        let sql = format!("SELECT v.note FROM {from} WHERE t.w = $1 AND u.w = $1 AND v.w = $1");
        recognised(&sql, &entries).is_some()
    };
    assert!(query("t, u JOIN v ON v.k = u.k"));
    assert!(query("t JOIN u ON u.k = t.k JOIN v ON v.k = t.k"));
    assert!(!query("t, u JOIN v ON v.k = t.k"), "t is not joined");
    assert!(!query("t JOIN u ON u.k = v.k JOIN v ON v.k = t.k"), "v is joined later");
}

#[test]
fn an_answer_of_many_bytes_is_for_planning() {
    let heap = loaded(&entry("t", 1), 0..40, 1 << 20);
    assert!(found("SELECT note FROM t WHERE w = $1", &heap, 1).is_none());
    let some = found("SELECT note FROM t WHERE w = $1 ORDER BY k LIMIT 10", &heap, 1).unwrap();
    assert_eq!(some.rows.num_rows(), 10);
}

#[test]
fn entries_that_have_no_row_any_more_count_as_looked_at() {
    let entry = entry("t", 1);
    let heap = loaded(&entry, 0..20_000, 1);
    let codes = heap.coder().codes(&rows(&entry, 0..19_990, 1)).unwrap();
    let keys = codes.into_iter().map(|code| FedKey { code, ordinal: None }).collect();
    heap.feed(FedBatch { version: Version(2), rows: None, bytes: 0, keys });
    // The first version is pinned still.
    assert!(found("SELECT k FROM t WHERE w = $1", &heap, 2).is_none());
    assert!(found("SELECT k FROM t WHERE w = $1 ORDER BY k LIMIT 1", &heap, 2).is_none());
    let last = found("SELECT k FROM t WHERE w = $1 ORDER BY k DESC LIMIT 1", &heap, 2).unwrap();
    assert_eq!((last.rows.num_rows(), last.looked_at), (1, 1));
    let few = found("SELECT k FROM t WHERE w = $1 AND k >= 19980", &heap, 2).unwrap();
    assert_eq!((few.rows.num_rows(), few.looked_at), (10, 20));
}
