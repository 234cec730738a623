//! A heap against a map for each version, on random batches, pins and ranges.

mod bounds;

use crate::{FedBatch, FedKey, Heap, HeapView, indexes_of};
use alluvia_catalog::TableEntry;
use alluvia_space::key_code::KeyCoder;
use alluvia_space::{Index, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_syntax::statements::definitions::define;
use alluvia_syntax::statements::keys::with_key;
use alluvia_syntax::{Kind, parse};
use alluvia_types::{TableId, Version};
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int32Array, RecordBatch, StringViewArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLE: &str =
    "CREATE TABLE t (a INT, b TEXT, n INT, x TEXT, d DECIMAL(8, 2), f BOOLEAN, day DATE, PRIMARY KEY (a, b))";

fn entry() -> Arc<TableEntry> {
    let Kind::CreateTable(create) = parse(TABLE).unwrap().remove(0).kind else { panic!("a CREATE TABLE") };
    let columns: Vec<_> = create
        .columns
        .into_iter()
        .map(|column| (column.name, column.column_type.expect("a type"), column.nullable))
        .collect();
    let def = define(TableId(1), ("public", &create.name.name), &columns, &create.with, 0).unwrap();
    let mut def: TableDef = with_key(def, &create.key, create.with.on_conflict.as_deref(), [1, 2]).unwrap();
    let columns = [def.columns[2].id, def.columns[0].id].to_vec();
    def.indexes.push(Index { name: "by_n".to_owned(), columns, unique: false, is_constraint: false });
    Arc::new(TableEntry::new(Arc::new(def), Version(1)))
}

/// What is no key of a row.
type Rest = (Option<i32>, Option<String>, Option<i128>, Option<bool>, Option<i32>);
type Key = (i32, String);

fn rows(rows: &[(Key, Rest)]) -> RecordBatch {
    let entry = entry();
    let names: Vec<&str> = entry.def.columns.iter().map(|column| column.storage_name.as_str()).collect();
    let decimals: Decimal128Array = rows.iter().map(|(_, rest)| rest.2).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|((a, _), _)| Some(*a)).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|((_, b), _)| Some(b.clone())).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|(_, rest)| rest.0).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|(_, rest)| rest.1.clone()).collect::<StringViewArray>()),
        Arc::new(decimals.with_precision_and_scale(8, 2).unwrap()),
        Arc::new(rows.iter().map(|(_, rest)| rest.3).collect::<BooleanArray>()),
        Arc::new(rows.iter().map(|(_, rest)| rest.4).collect::<Date32Array>()),
    ];
    let mut fields: Vec<Field> =
        names.iter().zip(&columns).map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    fields.extend([
        Field::new(VERSION_COLUMN, DataType::UInt64, true),
        Field::new(ORDINAL_COLUMN, DataType::UInt64, false),
    ]);
    let hidden: [ArrayRef; 2] = [
        Arc::new(UInt64Array::from_value(1, rows.len())),
        Arc::new(UInt64Array::from_iter_values(0..rows.len() as u64)),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().chain(hidden).collect()).unwrap()
}

/// What a batch does to keys, in order; `None` takes one away.
type Batch = Vec<(Key, Option<Rest>)>;

fn fed(version: u64, batch: &Batch, coder: &KeyCoder) -> FedBatch {
    // Of several rows with one key the last stays, and all of them came.
    let coming: Vec<(Key, Rest)> =
        batch.iter().filter_map(|(key, rest)| rest.clone().map(|rest| (key.clone(), rest))).collect();
    let came = rows(&coming);
    let mut last: BTreeMap<Key, Option<u64>> = BTreeMap::new();
    let mut ordinal = 0;
    for (key, rest) in batch {
        last.insert(key.clone(), rest.as_ref().map(|_| ordinal));
        ordinal += u64::from(rest.is_some());
    }
    let key = |(key, ordinal): (Key, Option<u64>)| {
        let code = coder.codes(&rows(&[(key, (None, None, None, None, None))])).unwrap()[0];
        FedKey { code, ordinal }
    };
    let bytes = came.get_array_memory_size();
    FedBatch { version: Version(version), rows: Some(came), bytes, keys: last.into_iter().map(key).collect() }
}

/// All of a view at a version, by its key index.
fn shown(view: &HeapView<'_>, version: Version) -> Vec<String> {
    let all = view.ranges(0, &[], None, None, 1).unwrap();
    let rows: Vec<_> = view.in_range(0, &all[0], version, false).flatten().map(|(_, row)| row).collect();
    let columns: Vec<usize> = (0..7).collect();
    lines(&view.heap().layout().decoded(&rows, &columns).unwrap())
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let plain: Vec<ArrayRef> = batch.columns()[..7.min(batch.num_columns())].to_vec();
    (0..batch.num_rows())
        .map(|row| plain.iter().map(|column| format!("{:?}", column.slice(row, 1))).collect::<Vec<_>>().join("|"))
        .collect()
}

fn expected(model: &BTreeMap<Key, Rest>) -> Vec<String> {
    let all: Vec<(Key, Rest)> = model.iter().map(|(key, rest)| (key.clone(), rest.clone())).collect();
    if all.is_empty() { Vec::new() } else { lines(&rows(&all)) }
}

fn key() -> impl Strategy<Value = Key> {
    (-2..3i32, prop::sample::select(vec!["", "a", "a\0", "ab", "b", "ü"])).prop_map(|(a, b)| (a, b.to_owned()))
}

fn rest() -> impl Strategy<Value = Rest> {
    let text = prop::option::of("[a-c]{0,20}");
    (
        prop::option::of(-3..4i32),
        text,
        prop::option::of(-999..999i128),
        any::<Option<bool>>(),
        prop::option::of(0..9i32),
    )
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let change = (key(), prop::option::weighted(0.7, rest()));
    prop::collection::vec(prop::collection::vec(change, 1..6), 1..30)
}

proptest! {
    #[test]
    fn a_heap_has_at_each_pinned_version_what_the_model_has(
        loaded in prop::collection::btree_map(key(), rest(), 0..10),
        batches in batches(),
        reads in prop::collection::vec((0usize..30, 0usize..6, any::<bool>()), 30),
        n in -3..4i32,
        bound in -3..4i32,
    ) {
        let entry = entry();
        let coder = KeyCoder::new(&entry.def).unwrap();
        prop_assert_eq!(indexes_of(&entry.def), vec![vec![0, 1], vec![2, 0]]);
        let heap = Heap::new(&entry, Version(1), 0, usize::MAX).unwrap();
        let mut model = vec![(Version(1), loaded.clone())];
        let all: Vec<(Key, Rest)> = loaded.into_iter().collect();
        if !all.is_empty() {
            heap.load(&rows(&all)).unwrap();
        }
        heap.loaded();
        // Versions that are pinned from now on: the first one goes now and then.
        let mut oldest = 0;
        for (at, batch) in batches.iter().enumerate() {
            let version = at as u64 + 2;
            heap.feed(fed(version, batch, &coder));
            let mut next = model.last().unwrap().1.clone();
            for (key, rest) in batch {
                match rest {
                    Some(rest) => next.insert(key.clone(), rest.clone()),
                    None => next.remove(key),
                };
            }
            model.push((Version(version), next));
            let (forward, back, reads_now) = reads[at];
            oldest = oldest.max(model.len().saturating_sub(1 + forward % 8));
            if !reads_now {
                continue;
            }
            let view = heap.read(model[oldest].0).unwrap();
            let (version, known) = &model[oldest.max(model.len() - 1 - back.min(model.len() - 1))];
            prop_assert!(view.has(*version));
            prop_assert_eq!(shown(&view, *version), expected(known));
            for (key, rest) in known {
                let one = rows(&[(key.clone(), rest.clone())]);
                let row = view.by_code(coder.codes(&one).unwrap()[0], *version).unwrap();
                prop_assert_eq!(lines(&view.heap().layout().decoded(&[row], &[0, 1, 2, 3, 4, 5, 6]).unwrap()), lines(&one));
            }
            // The second index: one value of its first column, and the next from a bound on.
            let values: ArrayRef = Arc::new(Int32Array::from(vec![n]));
            let from: ArrayRef = Arc::new(Int32Array::from(vec![bound]));
            let ranges = view.ranges(1, &[values], Some((from, true)), None, 1).unwrap();
            let mut found: Vec<String> = Vec::new();
            for (_, row) in view.in_range(1, &ranges[0], *version, false).flatten() {
                let line = lines(&view.heap().layout().decoded(&[row], &[0, 1, 2, 3, 4, 5, 6]).unwrap()).remove(0);
                // It may be there under a key that it had.
                let is_it = row.cell(2) == crate::Cell::Int(n.into()) && matches!(row.cell(0), crate::Cell::Int(a) if a >= bound.into());
                if is_it && !found.contains(&line) {
                    found.push(line);
                }
            }
            let mut wanted: Vec<String> = known
                .iter()
                .filter(|((a, _), rest)| rest.0 == Some(n) && *a >= bound)
                .map(|(key, rest)| lines(&rows(&[(key.clone(), rest.clone())])).remove(0))
                .collect();
            found.sort();
            wanted.sort();
            prop_assert_eq!(found, wanted);
        }
        // Of what nobody reads nothing is kept.
        let (newest, known) = model.last().unwrap();
        let view = heap.read(*newest).unwrap();
        drop(view);
        heap.feed(fed(newest.0 + 1, &vec![((9, "z".to_owned()), None)], &coder));
        let view = heap.read(*newest).unwrap();
        prop_assert_eq!(view.len(), known.len());
    }

    #[test]
    fn ranges_of_the_key_are_those_of_the_model(
        known in prop::collection::btree_map(key(), rest(), 0..20),
        a in -3..4i32,
        low in prop::option::of((prop::sample::select(vec!["", "a", "a\0", "ab", "b", "ü", "z"]), any::<bool>())),
        high in prop::option::of((prop::sample::select(vec!["", "a", "a\0", "ab", "b", "ü", "z"]), any::<bool>())),
    ) {
        let heap = Heap::new(&entry(), Version(1), 0, usize::MAX).unwrap();
        let all: Vec<(Key, Rest)> = known.clone().into_iter().collect();
        if !all.is_empty() {
            heap.load(&rows(&all)).unwrap();
        }
        heap.loaded();
        let view = heap.read(Version(1)).unwrap();
        let text = |bound: Option<(&str, bool)>| bound.map(|(text, counts)| (Arc::new(StringViewArray::from_iter_values([text])) as ArrayRef, counts));
        let first: ArrayRef = Arc::new(Int32Array::from(vec![a]));
        let ranges = view.ranges(0, &[first], text(low), text(high), 1).unwrap();
        for is_reverse in [false, true] {
            let rows_of: Vec<_> = view.in_range(0, &ranges[0], Version(1), is_reverse).flatten().map(|(_, row)| row).collect();
            let columns: Vec<usize> = (0..7).collect();
            let found = lines(&view.heap().layout().decoded(&rows_of, &columns).unwrap());
            let is_in = |(key, _): &(&Key, &Rest)| {
                key.0 == a
                    && low.is_none_or(|(low, counts)| key.1.as_str() > low || (counts && key.1 == low))
                    && high.is_none_or(|(high, counts)| key.1.as_str() < high || (counts && key.1 == high))
            };
            let inside: BTreeMap<Key, Rest> = known.iter().filter(is_in).map(|(key, rest)| (key.clone(), rest.clone())).collect();
            let mut wanted = expected(&inside);
            if is_reverse {
                wanted.reverse();
            }
            prop_assert_eq!(found, wanted);
        }
    }
}

#[test]
fn a_second_view_of_one_thread_does_not_wait_for_who_waits_for_the_first() {
    let entry = entry();
    let coder = KeyCoder::new(&entry.def).unwrap();
    let heap = Arc::new(Heap::new(&entry, Version(1), 0, usize::MAX).unwrap());
    heap.loaded();
    let (told, known) = std::sync::mpsc::channel();
    let of_reader = Arc::clone(&heap);
    let reader = std::thread::Builder::new().spawn(move || {
        let first = of_reader.read_followed().unwrap();
        of_reader.feed(fed(2, &vec![((1, "a".to_owned()), Some((None, None, None, None, None)))], &coder));
        let of_follower = Arc::clone(&of_reader);
        let follower = std::thread::Builder::new();
        let follower = follower.spawn(move || of_follower.read(Version(1)).unwrap().len()).unwrap();
        while !of_reader.is_awaited() {
            std::thread::yield_now();
        }
        let second = of_reader.read_followed().unwrap();
        assert_eq!((first.len(), second.len()), (0, 0));
        drop((first, second));
        told.send(follower.join().unwrap()).unwrap();
    });
    reader.expect("a thread begins");
    // A deadlock must not be one of the test.
    assert_eq!(known.recv_timeout(std::time::Duration::from_secs(60)), Ok(1));
}

#[test]
fn a_row_that_is_written_often_is_found_at_each_version_that_is_pinned() {
    let entry = entry();
    let coder = KeyCoder::new(&entry.def).unwrap();
    let heap = Heap::new(&entry, Version(1), 0, usize::MAX).unwrap();
    heap.loaded();
    let rest = |version: u64| (Some(version as i32), None, None, None, None);
    let key = || (1, "a".to_owned());
    for version in 2..1_000 {
        let row = (version % 10 != 0).then(|| rest(version));
        heap.feed(fed(version, &vec![(key(), row)], &coder));
    }
    let code = coder.codes(&rows(&[(key(), rest(0))])).unwrap()[0];
    // Each time a little more is forgotten.
    for oldest in [1, 1, 400, 401, 700, 999] {
        heap.feed(fed(heap.counts().0.0.max(999) + 1, &vec![((9, "z".to_owned()), None)], &coder));
        let view = heap.read(Version(oldest)).unwrap();
        for version in oldest..1_000 {
            let found = view.by_code(code, Version(version)).map(|row| row.cell(2));
            let is_there = version > 1 && version % 10 != 0;
            assert_eq!(found, is_there.then_some(crate::Cell::Int(version as i64)), "at {version}");
        }
    }
}

#[test]
fn entries_without_a_row_are_told() {
    let entry = entry();
    let coder = KeyCoder::new(&entry.def).unwrap();
    let heap = Heap::new(&entry, Version(1), 0, usize::MAX).unwrap();
    heap.loaded();
    let key = |a: i32| (a, "a".to_owned());
    heap.feed(fed(2, &(0..5).map(|a| (key(a), Some((None, None, None, None, None)))).collect(), &coder));
    heap.feed(fed(3, &(0..4).map(|a| (key(a), None)).collect(), &coder));
    let view = heap.read(Version(1)).unwrap();
    let all = view.ranges(0, &[], None, None, 1).unwrap();
    let rows =
        |version| view.in_range(0, &all[0], Version(version), false).map(|row| row.is_some()).collect::<Vec<_>>();
    assert_eq!((rows(1), rows(2)), (vec![false; 5], vec![true; 5]));
    assert_eq!(rows(3), [false, false, false, false, true]);
}
