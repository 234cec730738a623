//! Actions and checks where others write the same rows meanwhile, and what waits for COMMIT.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use alluvia_catalog::{Catalog, Change};
use alluvia_constraints::settle::new_in;
use alluvia_constraints::{Event, Events, Happened, Values, settle};
use alluvia_space::{Action, ForeignKey, Index};
use alluvia_types::{ColumnId, ErrorKind, TableId, Version};
use arrow::array::{AsArray, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::{CHILD, PARENT, Plain, Rows, batch, def, key, rows_of};
use futures::FutureExt;
use std::collections::BTreeMap;
use std::sync::Arc;

fn catalog(foreign: ForeignKey) -> Arc<Catalog> {
    let (parent, mut child) = (def(PARENT, "p", &["id"]), def(CHILD, "c", &["id", "p"]));
    child.foreign_keys.push(foreign);
    let changes = [Change::CreateTable { def: parent }, Change::CreateTable { def: child }];
    Arc::new(Catalog::default().apply(Version(1), &changes).unwrap())
}

fn rows(rows: &[(i32, Option<i32>)]) -> Rows {
    rows.iter().map(|(id, parent)| (*id, vec![Some(*id), *parent])).collect()
}

fn tables(parents: &[i32], children: &[(i32, Option<i32>)]) -> BTreeMap<TableId, Rows> {
    let parents = parents.iter().map(|id| (*id, vec![Some(*id)])).collect();
    [(PARENT, parents), (CHILD, rows(children))].into()
}

fn children(plain: &Plain) -> Rows {
    plain.tables.lock().unwrap()[&CHILD].clone()
}

#[test]
fn keys_that_shift_take_their_children_along_once() {
    let catalog = catalog(key("c_p", 1, PARENT, 0, Action::NoAction, Action::Cascade));
    let plain = Plain::new(&catalog, tables(&[1, 2, 3], &[(10, Some(2)), (11, Some(3)), (12, None)]));
    plain.apply(PARENT, &[1, 2, 3], &[vec![Some(0)], vec![Some(1)], vec![Some(2)]], None, true);
    settle(&plain).now_or_never().expect("nothing waits").unwrap();
    assert_eq!(children(&plain), rows(&[(10, Some(1)), (11, Some(2)), (12, None)]));
}

#[test]
fn restrict_does_not_ask_for_another_parent_and_no_action_does() {
    for (action, is_refused) in [(Action::Restrict, true), (Action::NoAction, false)] {
        let catalog = catalog(key("c_p", 1, PARENT, 0, Action::NoAction, action));
        let plain = Plain::new(&catalog, tables(&[1, 2], &[(10, Some(1))]));
        plain.apply(PARENT, &[1, 2], &[vec![Some(2)], vec![Some(1)]], None, true);
        let done = settle(&plain).now_or_never().expect("nothing waits");
        assert_eq!(done.map_err(|error| error.kind()).err(), is_refused.then_some(ErrorKind::ForeignKeyViolation));
    }
}

#[test]
fn rows_that_others_have_written_are_looked_for_again() {
    for action in [Action::Cascade, Action::SetNull] {
        let catalog = catalog(key("c_p", 1, PARENT, 0, action, Action::NoAction));
        let plain = Plain::new(&catalog, tables(&[1, 2], &[(10, Some(1)), (11, Some(1))]));
        plain.others.lock().unwrap().push((CHILD, vec![10], vec![vec![Some(10), Some(2)]]));
        plain.apply(PARENT, &[1], &[], None, false);
        settle(&plain).now_or_never().expect("nothing waits").unwrap();
        let left = [(10, Some(2)), (11, None)];
        assert_eq!(children(&plain), rows(if action == Action::Cascade { &left[..1] } else { &left }));
    }
}

#[test]
fn a_child_that_another_takes_away_is_in_nobodys_way() {
    for action in [Action::NoAction, Action::Restrict] {
        let catalog = catalog(key("c_p", 1, PARENT, 0, action, Action::NoAction));
        for (is_taken, wanted) in [(true, None), (false, Some(ErrorKind::ForeignKeyViolation))] {
            let plain = Plain::new(&catalog, tables(&[1], &[(10, Some(1))]));
            let stays = if is_taken { Vec::new() } else { vec![vec![Some(10), Some(1)]] };
            plain.others.lock().unwrap().push((CHILD, vec![10], stays));
            plain.apply(PARENT, &[1], &[], None, false);
            let done = settle(&plain).now_or_never().expect("nothing waits");
            assert_eq!(done.map_err(|error| error.kind()).err(), wanted);
        }
    }
}

fn refers(values: &[i32]) -> Vec<Event> {
    let schema = Arc::new(Schema::new(vec![Field::new("p", DataType::Int32, true)]));
    let rows = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(values.to_vec()))]).unwrap();
    let values = Values::of([&rows], &[0], &[DataType::Int64]).unwrap();
    vec![Event { table: CHILD, name: "c_p".to_owned(), happened: Happened::Refers(values) }]
}

fn referred(events: &[Event]) -> Vec<i64> {
    let values = events.iter().flat_map(|event| match &event.happened {
        Happened::Refers(values) => values.columns()[0].as_primitive::<Int64Type>().values().to_vec(),
        other => panic!("{other:?}"),
    });
    values.collect()
}

#[test]
fn what_is_deferred_waits_and_a_savepoint_keeps_it() {
    let foreign = key("c_p", 1, PARENT, 0, Action::NoAction, Action::NoAction);
    let catalog = catalog(ForeignKey { deferrable: true, initially_deferred: true, ..foreign });
    let mut events = Events::default();
    events.extend(refers(&[1]));
    assert!(events.take_due(&catalog, false).is_empty());
    assert!(!events.has_due(false) && events.has_due(true) && events.bytes() > 0);
    events.extend(refers(&[2, 3]));
    assert!(events.take_due(&catalog, false).is_empty());
    let mut saved = events.clone();
    events.defer(None, false);
    assert!(events.has_due(false));
    assert_eq!(referred(&events.take_due(&catalog, false)), [1, 2, 3]);
    assert_eq!((events.has_due(true), events.bytes()), (false, 0));
    // What comes now is due at once, and waits again for who has gone back.
    events.extend(refers(&[4]));
    assert_eq!(referred(&events.take_due(&catalog, false)), [4]);
    events = saved.clone();
    events.extend(refers(&[5]));
    assert!(events.take_due(&catalog, false).is_empty());
    assert_eq!(referred(&events.take_due(&catalog, true)), [1, 2, 3, 5]);
    assert_eq!(referred(&saved.take_due(&catalog, true)), [1, 2, 3]);
}

#[test]
fn many_that_wait_are_one_look() {
    const MANY: i32 = 20_000;
    let foreign = key("c_p", 1, PARENT, 0, Action::NoAction, Action::NoAction);
    let catalog = catalog(ForeignKey { deferrable: true, initially_deferred: true, ..foreign });
    let parents: Vec<i32> = (0..MANY).collect();
    let plain = Plain::new(&catalog, tables(&parents, &[]));
    let mut saved = Vec::new();
    for id in 0..MANY {
        let mut events = plain.events.lock().unwrap();
        events.extend(refers(&[id]));
        assert!(events.take_due(&catalog, false).is_empty());
        saved.push(events.clone());
    }
    plain.events.lock().unwrap().defer(None, false);
    settle(&plain).now_or_never().expect("nothing waits").unwrap();
    assert_eq!(plain.locked.lock().unwrap().len(), MANY as usize);
    drop(saved);
}

#[test]
fn a_row_that_does_not_come_keeps_none_of_its_values_from_others() {
    let mut parent = def(PARENT, "p", &["id", "u", "v"]);
    for (name, column) in [("p_u", 1), ("p_v", 2)] {
        let columns = vec![ColumnId(column)];
        parent.indexes.push(Index { name: name.to_owned(), columns, unique: true, is_constraint: true });
    }
    let catalog = Arc::new(Catalog::default().apply(Version(1), &[Change::CreateTable { def: parent }]).unwrap());
    let entry = catalog.by_id(PARENT).unwrap();
    let plain = Plain::new(&catalog, [(PARENT, [(1, vec![Some(1), Some(9), None])].into())].into());
    let all = [(1, 2, 2), (2, 2, 2), (3, 9, 3), (3, 3, 3), (4, 4, 3)];
    let came = all.map(|(id, u, v)| vec![Some(id), Some(u), Some(v)]);
    let indexes: Vec<&Index> = entry.def.unique_indexes().collect();
    let new = |counts_key, indexes: &[&Index]| {
        let rows = vec![batch(entry, &came[..2]), batch(entry, &came[2..])];
        let new = new_in(&plain, entry, (counts_key, indexes), rows).now_or_never().expect("nothing waits").unwrap();
        new.iter().flat_map(rows_of).map(|row| row[1]).collect::<Vec<_>>()
    };
    assert_eq!(new(true, &indexes), [Some(2), Some(3)]);
    assert_eq!(new(false, &indexes[..1]), [Some(2), Some(3), Some(4)]);
}
