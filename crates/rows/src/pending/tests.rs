//! What is read while changes wait, against what COMMIT makes of them.

use super::*;
use alluvia_syntax::statements::definitions::define;
use alluvia_syntax::statements::keys::with_key;
use alluvia_syntax::{Kind, parse};
use arrow::array::{ArrayRef, AsArray, Int64Array, UInt64Array};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TABLE: TableId = TableId(1);

fn pending(sql: &str) -> PendingRows {
    let Kind::CreateTable(create) = parse(sql).unwrap().remove(0).kind else { panic!("a CREATE TABLE") };
    let columns: Vec<_> = create
        .columns
        .into_iter()
        .map(|column| (column.name, column.column_type.expect("a type"), column.nullable))
        .collect();
    let def = define(TABLE, ("public", &create.name.name), &columns, &create.with, 0).unwrap();
    let def = with_key(def, &create.key, create.with.on_conflict.as_deref(), [1, 2]).unwrap();
    PendingRows::new(Arc::new(TableEntry::new(Arc::new(def), Version(1))))
}

fn rows(pending: &PendingRows, change: RowChange, values: &[(i64, i64)]) -> NewRows {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let keys = column(values.iter().map(|row| row.0).collect());
    let schema = pending.entry.storage_schema();
    let batch = match change {
        RowChange::Delete => RecordBatch::try_new(Arc::new(schema.project(&[0]).unwrap()), vec![keys]),
        _ => RecordBatch::try_new(Arc::clone(schema), vec![keys, column(values.iter().map(|row| row.1).collect())]),
    };
    NewRows { change, ..NewRows::insert(TABLE, Version(1), vec![batch.unwrap()]) }
}

fn identities(values: &[(Version, u64)]) -> NewRows {
    let column = |values: Vec<u64>| Arc::new(UInt64Array::from(values)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        ("_version", column(values.iter().map(|row| row.0.0).collect())),
        ("_ordinal", column(values.iter().map(|row| row.1).collect())),
    ]);
    NewRows { change: RowChange::DeleteRows, ..NewRows::insert(TABLE, Version(1), vec![batch.unwrap()]) }
}

fn values(batch: &RecordBatch) -> Vec<(i64, Option<i64>)> {
    let keys = batch.column(0).as_primitive::<Int64Type>();
    let value = |row: usize| (batch.num_columns() > 1).then(|| batch.column(1).as_primitive::<Int64Type>().value(row));
    (0..batch.num_rows()).map(|row| (keys.value(row), value(row))).collect()
}

fn push(pending: &mut PendingRows, changes: Vec<NewRows>) {
    let added = pending.added(changes).unwrap();
    pending.push(added);
}

proptest! {
    #[test]
    fn what_is_read_by_key_is_what_commit_makes(
        there in prop::collection::btree_set(0i64..8, 0..8),
        steps in prop::collection::vec((0u8..5, 0i64..8, 0i64..100), 0..40),
    ) {
        let mut pending = pending("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)");
        let coder = KeyCoder::new(&pending.entry.def).unwrap();
        let snapshot: BTreeMap<i64, i64> = there.into_iter().map(|key| (key, -1)).collect();
        let mut model = snapshot.clone();
        let mut saved = (0, model.clone());
        for (step, key, value) in steps {
            let row = [(key, value)];
            match step {
                0 if !model.contains_key(&key) => {
                    let new = rows(&pending, RowChange::Insert, &row);
                    push(&mut pending, vec![new]);
                    model.insert(key, value);
                }
                0 | 1 => {
                    let new = rows(&pending, RowChange::Upsert, &row);
                    push(&mut pending, vec![new]);
                    model.insert(key, value);
                }
                2 => {
                    let gone = rows(&pending, RowChange::Delete, &row);
                    push(&mut pending, vec![gone]);
                    model.remove(&key);
                }
                3 => saved = (pending.len(), model.clone()),
                _ => {
                    pending.truncate(saved.0);
                    model = saved.1.clone();
                }
            }
            // As a statement sees it.
            let mut seen = snapshot.clone();
            if let Some(Killed::Keys(killed)) = pending.killed().unwrap() {
                seen.retain(|&key, _| {
                    let key = rows(&pending, RowChange::Delete, &[(key, 0)]);
                    !killed.contains(&coder.codes(&key.batches[0]).unwrap()[0])
                });
            }
            for (key, value) in pending.readable().unwrap().iter().flat_map(values) {
                prop_assert!(seen.insert(key, value.unwrap()).is_none(), "a key is seen twice");
            }
            prop_assert_eq!(&seen, &model);
            // As it is committed.
            let mut committed = snapshot.clone();
            for new in pending.new_rows(TABLE).unwrap() {
                for (key, value) in new.batches.iter().flat_map(values) {
                    match new.change {
                        RowChange::Insert => prop_assert!(committed.insert(key, value.unwrap()).is_none()),
                        RowChange::Upsert => {
                            committed.insert(key, value.unwrap());
                        }
                        _ => {
                            committed.remove(&key);
                        }
                    }
                }
            }
            prop_assert_eq!(&committed, &model);
        }
    }
}

#[test]
fn own_rows_without_a_key_go_by_where_they_stand() {
    let mut pending = pending("CREATE TABLE t (id BIGINT, n BIGINT)");
    let new = rows(&pending, RowChange::Insert, &[(1, 1), (2, 2), (3, 3)]);
    push(&mut pending, vec![new]);
    let gone = identities(&[(PENDING_VERSION, 1), (Version(7), 4)]);
    let new = rows(&pending, RowChange::Insert, &[(2, 20)]);
    push(&mut pending, vec![gone, new]);
    let saved = pending.len();
    let shown = |pending: &PendingRows| pending.readable().unwrap().iter().flat_map(values).collect::<Vec<_>>();
    assert_eq!(shown(&pending), [(1, Some(1)), (3, Some(3)), (2, Some(20))]);
    push(&mut pending, vec![identities(&[(PENDING_VERSION, 1), (PENDING_VERSION, 2)])]);
    assert_eq!(shown(&pending), [(1, Some(1))]);
    assert!(matches!(pending.killed().unwrap(), Some(Killed::Rows(rows)) if rows == [(Version(7), 4)]));
    let submitted = pending.new_rows(TABLE).unwrap();
    let changes: Vec<_> = submitted.iter().map(|rows| (rows.change, rows.batches[0].num_rows())).collect();
    assert_eq!(changes, [(RowChange::Insert, 1), (RowChange::DeleteRows, 1)]);
    pending.truncate(saved);
    assert_eq!(shown(&pending), [(1, Some(1)), (3, Some(3)), (2, Some(20))]);
    assert!(pending.added(vec![identities(&[(PENDING_VERSION, 3)])]).is_err());
}
