//! What else goes on while a segment is lost, mended or forgotten: batches that are not visible yet, snapshots that somebody holds, segments
//! beside it that can be mended.

use super::mended::{Whole, bytes, damage, database, rows, submit};
use super::model::{Change, Part};
use super::tables::{KeyKind, row};
use super::world::{KEYED, NEWEST, new_batch};
use alluvia_sim::rows::{FoundRow, Row, Value, rows_of};
use alluvia_sim::{DIR, Engine, Random};
use alluvia_snapshot::Durability;
use alluvia_storage::Disk;
use alluvia_types::{ErrorKind, SegmentId, TableId, Version};
use std::path::{Path, PathBuf};

const KIND: KeyKind = KeyKind::Number;

fn new_row(number: u64) -> Row {
    row(KIND, number, &mut Random::new(number))
}

/// Segments of the table with a key that have rows, and their files with this ending.
fn segments(whole: &Whole, ending: &str) -> Vec<(SegmentId, PathBuf)> {
    let keyed = whole.tables[KEYED];
    let has_rows = |id: &SegmentId| whole.by_segment.get(&(keyed, *id)).is_some_and(|rows| !rows.is_empty());
    whole.files(ending, false).into_iter().filter(|(id, _)| has_rows(id)).collect()
}

fn relaxed(engine: &Engine, whole: &Whole, change: Change) {
    let batch = new_batch(engine, &whole.tables, &[Part::new(KEYED, change)]).expect("a batch");
    engine.submit(batch, Durability::Relaxed).expect("let in");
}

fn refusal(engine: &Engine, whole: &Whole, change: Change) -> ErrorKind {
    let batch = new_batch(engine, &whole.tables, &[Part::new(KEYED, change)]).expect("a batch");
    engine.submit(batch, Durability::Sync).expect_err("it is refused").kind()
}

#[test]
fn keys_of_batches_that_are_not_visible_are_there_when_a_segment_is_forgotten() {
    let whole = database(KIND);
    let keyed = whole.tables[KEYED];
    for (id, path) in segments(&whole, ".parquet") {
        let disk = whole.copy();
        let engine = whole.open(&disk);
        // By key, so that there is an index.
        submit(&engine, &whole.tables, KEYED, Change::Upsert(vec![new_row(300)]));
        damage(&disk, &path, 2, 40);
        relaxed(&engine, &whole, Change::Insert(vec![new_row(301)]));
        relaxed(&engine, &whole, Change::Upsert(vec![new_row(302)]));
        drop(engine.forget_segment(keyed, id, true).expect("forgotten"));
        assert_eq!(refusal(&engine, &whole, Change::Insert(vec![new_row(301)])), ErrorKind::UniqueViolation);
        submit(&engine, &whole.tables, KEYED, Change::Upsert(vec![new_row(302)]));
        let expected = whole.without(KEYED, &[id].into()).len() + 3;
        assert_eq!(rows(&engine, keyed).expect("open").len(), expected);
        drop(engine);
        let engine = whole.open(&disk);
        assert_eq!(rows(&engine, keyed).expect("open").len(), expected, "replayed");
        engine.sort().expect("sorted");
        engine.merge().expect("merged");
        assert_eq!(refusal(&engine, &whole, Change::Insert(vec![new_row(301)])), ErrorKind::UniqueViolation);
    }
}

/// The log says that it came if its key was not there. It was.
#[test]
fn a_row_that_was_passed_over_does_not_come_with_the_next_start() {
    let whole = database(KIND);
    let keyed = whole.tables[KEYED];
    let segments = segments(&whole, ".parquet");
    assert!(segments.len() > 1);
    for (id, path) in segments {
        let disk = whole.copy();
        let engine = whole.open(&disk);
        let there: Vec<Row> = whole.by_segment[&(keyed, id)].iter().map(|found| found.row.clone()).collect();
        submit(&engine, &whole.tables, KEYED, Change::InsertNew(there[..1].to_vec()));
        relaxed(&engine, &whole, Change::InsertNew(there[1..].to_vec()));
        damage(&disk, &path, 2, 40);
        drop(engine.forget_segment(keyed, id, true).expect("forgotten"));
        let staying: Vec<FoundRow> = whole.without(KEYED, &[id].into());
        assert_eq!(rows(&engine, keyed).expect("open"), staying);
        submit(&engine, &whole.tables, KEYED, Change::Insert(there.clone()));
        drop(engine);
        let engine = whole.open(&disk);
        assert_eq!(rows(&engine, keyed).expect("open").len(), staying.len() + there.len());
    }
}

#[test]
fn a_side_file_is_made_anew_beside_a_segment_that_is_lost() {
    let whole = database(KIND);
    let keyed = whole.tables[KEYED];
    let (rows_files, sides) = (segments(&whole, ".parquet"), segments(&whole, ".side"));
    let mut met = 0;
    for (lost, parquet) in &rows_files {
        for (other, side) in sides.iter().filter(|(id, _)| id != lost) {
            for is_late in [false, true] {
                let disk = whole.copy();
                let before = bytes(&disk, side);
                disk.remove(parquet).expect("removed");
                if !is_late {
                    disk.remove(side).expect("removed");
                }
                let engine = whole.open(&disk);
                assert!(rows(&engine, keyed).is_err(), "it is closed");
                if is_late {
                    disk.remove(side).expect("removed");
                } else {
                    assert!(bytes(&disk, side) == before, "the start has made it anew");
                }
                let refused = engine.forget_segment(keyed, *other, true).expect_err("no row of it is lost");
                assert_eq!(refused.kind(), ErrorKind::InvalidValue, "{refused}");
                let told = engine.forget_segment(keyed, *lost, true).expect("forgotten");
                assert_eq!((told.mended.len(), told.still_closed.is_none()), (usize::from(is_late), true), "{told:?}");
                let staying = whole.without(KEYED, &[*lost].into());
                assert_eq!(rows(&engine, keyed).expect("open"), staying);
                drop(engine);
                assert_eq!(rows(&whole.open(&disk), keyed).expect("open"), staying);
                met += 1;
            }
        }
    }
    assert!(met > 3, "{met}");
}

#[test]
fn a_segment_of_an_open_table_is_not_forgotten_for_its_side_file() {
    let whole = database(KIND);
    let keyed = whole.tables[KEYED];
    for (id, side) in segments(&whole, ".side") {
        let disk = whole.copy();
        let engine = whole.open(&disk);
        disk.corrupt(&side, 60, 1);
        for is_told in [false, true] {
            let refused = engine.forget_segment(keyed, id, is_told).expect_err("no row of it is lost");
            assert_eq!(refused.kind(), ErrorKind::InvalidValue, "{refused}");
        }
        // Where nothing says whether the rows are those that were written, it is forgotten.
        let parquet = whole.files(".parquet", false).into_iter().find(|(of, _)| *of == id).expect("its rows").1;
        disk.corrupt(&parquet, 60, 1);
        drop(engine.forget_segment(keyed, id, true).expect("forgotten"));
        assert_eq!(rows(&engine, keyed).expect("open"), whole.without(KEYED, &[id].into()));
    }
}

/// A table whose merged segment has lost a rung: the segment is another one once it is made anew, with the files of the first.
#[test]
fn who_has_a_snapshot_reads_it_after_its_segment_was_mended_and_merged_away() {
    let whole = database(KIND);
    let keyed = whole.tables[KEYED];
    let mut met = 0;
    for (rung, path) in whole.files(".side", true) {
        let disk = whole.copy();
        disk.remove(&path).expect("removed");
        let engine = whole.open(&disk);
        let segment = engine.views().segments().into_iter().find_map(|segment| {
            let meta = segment.meta();
            let has_lost = meta.table == keyed && meta.rungs.iter().any(|of| of.segment.id == rung);
            has_lost.then_some(meta.id)
        });
        let Some(id) = segment else { continue };
        let held = engine.snapshot(NEWEST, Version(0), &[keyed]).expect("a snapshot");
        assert_eq!(engine.mend().expect("mended").len(), 1);
        let is_named = || engine.views().segments().iter().any(|segment| segment.meta().id == id);
        for round in 1..16 {
            // Keys between those that are there.
            let between =
                |number: i64| [vec![Value::Number(19 * number - 40 + round)], new_row(9)[1..].to_vec()].concat();
            let more = (0..60).map(between).collect();
            submit(&engine, &whole.tables, KEYED, Change::Insert(more));
            engine.sort().expect("sorted");
            engine.merge().expect("merged");
            if !is_named() {
                break;
            }
        }
        // One that is large beside what comes stays.
        if is_named() {
            continue;
        }
        let files = [".parquet", ".side"].map(|ending| {
            let mut files = whole.files(ending, false).into_iter();
            files.find(|(of, _)| *of == id).expect("it is there").1
        });
        assert!(files.iter().all(|path| disk.exists(path)), "somebody has a snapshot with it");
        assert_eq!(rows_of(&held, keyed).expect("its files are there"), whole_rows(&whole, keyed));
        drop(held);
        assert!(files.iter().all(|path| !disk.exists(path)), "nobody has it any more");
        met += 1;
    }
    assert!(met > 0);
}

fn whole_rows(whole: &Whole, table: TableId) -> Vec<FoundRow> {
    let engine = whole.open(&whole.copy());
    rows(&engine, table).expect("open")
}

#[test]
fn side_files_that_have_not_taken_their_names_go_at_the_next_start() {
    let whole = database(KIND);
    let disk = whole.copy();
    let folder = Path::new(DIR).join("segments").join("rebuilt");
    disk.create_dir_all(&folder).expect("a folder");
    let path = folder.join("seg-7.side");
    drop(disk.create(&path).expect("a file"));
    let engine = whole.open(&disk);
    assert!(!disk.exists(&path));
    whole.check_all(&engine, "all is there");
}
