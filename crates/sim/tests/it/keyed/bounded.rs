//! Keys that have no more room in memory: no new ones come, and everything else goes on.

use super::mended::{rows, submit};
use super::model::{Change, Part};
use super::tables::{KeyKind, key, row};
use super::world::{KEYED, KEYLESS, Setup, create, new_batch, open};
use alluvia_sim::{Engine, Random};
use alluvia_snapshot::Durability;
use alluvia_space::OnConflict;
use alluvia_storage::FaultDisk;
use alluvia_types::{ErrorKind, TableId};

/// Numbers of rows, which are new where they are 100 or more.
fn part(table: usize, kind: KeyKind, numbers: std::ops::Range<u64>) -> Part {
    Part::new(table, Change::Upsert(numbers.map(|number| row(kind, number, &mut Random::new(number))).collect()))
}

fn refused(engine: &Engine, tables: &[TableId], part: Part) {
    let before = (engine.views().visible(), rows(engine, tables[part.table]).expect("read").len());
    let batch = new_batch(engine, tables, std::slice::from_ref(&part)).expect("a batch");
    let error = engine.submit(batch, Durability::Sync).expect_err("its keys have no room");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("the keys of all tables hold"), "{error}");
    let after = (engine.views().visible(), rows(engine, tables[part.table]).expect("read").len());
    assert_eq!(before, after, "nothing has changed");
}

#[test]
fn new_keys_are_refused_by_name_where_those_that_are_there_have_all_their_memory() {
    for kind in [KeyKind::Number, KeyKind::Pair, KeyKind::Ordered, KeyKind::Unordered] {
        let (setup, disk) = (Setup::new(kind, OnConflict::Replace), FaultDisk::new());
        let engine = open(&disk, &Default::default(), &Default::default(), &setup).expect("opened");
        let tables = create(&engine, &setup).expect("tables");
        let let_in = |part: Part| submit(&engine, &tables, part.table, part.change);
        let_in(part(KEYED, kind, 0..100));
        let measured = || {
            let (keys, _) = engine.views().measure();
            let index = engine.views().keys().index_bytes();
            assert!(index < keys, "the last writes are beside it");
            index
        };
        let held = measured();
        assert!(held > 100 * 7, "a hundred keys and places: {held}");
        // As many as are counted for a hundred keys more.
        engine.views().keys().set_index_bytes_max(held + 100 * 24);
        refused(&engine, &tables, part(KEYED, kind, 99..201));
        let_in(part(KEYED, kind, 100..200));
        assert!(measured() > held);
        engine.views().keys().set_index_bytes_max(held);

        refused(&engine, &tables, part(KEYED, kind, 150..201));
        let_in(part(KEYED, kind, 150..200));
        submit(&engine, &tables, KEYED, Change::Delete((0..20).map(|number| key(kind, number)).collect()));
        refused(&engine, &tables, part(KEYED, kind, 0..1));
        submit(&engine, &tables, KEYLESS, Change::Insert(vec![row(KeyKind::None, 300, &mut Random::new(1))]));
        assert_eq!(rows(&engine, tables[KEYED]).expect("read").len(), 180);
        engine.sort().expect("sorted");
        engine.merge().expect("merged");
        refused(&engine, &tables, part(KEYED, kind, 400..401));
        drop(engine);

        // What the log has was let in, whatever the bound is by now.
        let engine = open(&disk, &Default::default(), &Default::default(), &setup).expect("opened");
        assert_eq!(rows(&engine, tables[KEYED]).expect("read").len(), 180);
        let batch = new_batch(&engine, &tables, &[part(KEYED, kind, 0..1)]).expect("a batch");
        engine.submit(batch, Durability::Sync).expect("another process may have more memory");
    }
}
