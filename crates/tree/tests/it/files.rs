//! A segment's files: damage is found and named, what is unfinished goes, what is finished stays.

use crate::common::*;
use alluvia_catalog::Dictionaries;
use alluvia_space::TableDef;
use alluvia_storage::{Cache, Disk, FaultDisk, Survival};
use alluvia_tree::{Segment, SegmentMeta, SegmentWriter, TreeContext};
use alluvia_types::{ErrorKind, Result, SegmentId, Stage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn write(
    context: &TreeContext,
    table: &TableDef,
    dictionaries: &Dictionaries,
    id: u64,
    count: usize,
) -> Result<SegmentMeta> {
    let mut random = Random(id + 77);
    let batch = rows(table, &mut random, count, 300, 20, 3);
    let keys = keys(&mut random, count, 0);
    let all = chunk(table, dictionaries, batch, keys);
    let mut writer = SegmentWriter::create(context, SegmentId(id), table, Stage::Sorted, None)?;
    writer.write(&all)?;
    writer.finish()
}

fn paths(id: u64) -> [PathBuf; 2] {
    ["parquet", "side"].map(|kind| Path::new(DIR).join(format!("seg-{id}.{kind}")))
}

fn read_file(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).expect("opens");
    let mut bytes = vec![0; file.len().expect("length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("reads");
    bytes
}

/// Everything that reads a segment, as a check would do it.
fn check(disk: &Arc<FaultDisk>, meta: &SegmentMeta, table: &TableDef) -> Result<()> {
    Segment::open(&context(disk), meta.clone())?.verify(table)
}

#[test]
fn any_damaged_byte_is_found_and_its_file_named() {
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let meta = write(&context(&disk), &table, &dictionaries, 1, 700).expect("writes");
    check(&disk, &meta, &table).expect("verifies");
    for path in paths(1) {
        let len = read_file(&disk, &path).len() as u64;
        for offset in (0..len).step_by(37).chain(len - 30..len).chain(0..70) {
            disk.corrupt(&path, offset, 0x10);
            let error = check(&disk, &meta, &table).expect_err("damage is found");
            let named = error.message().contains(&*path.to_string_lossy());
            assert!(error.kind() == ErrorKind::Corrupt && named, "{offset} of {}: {error}", path.display());
            disk.corrupt(&path, offset, 0x10);
        }
    }
    check(&disk, &meta, &table).expect("all damage is undone");
}

#[test]
fn damage_to_each_section_is_named() {
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let meta = write(&context(&disk), &table, &dictionaries, 1, 9_000).expect("writes");
    let [_, side] = paths(1);
    let bytes = read_file(&disk, &side);
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let mut places = vec![("header", 9), ("stripes", 100), ("trailer", bytes.len() - 20)];
    for (at, name) in ["checks", "stripes", "blocks", "presence"].into_iter().enumerate() {
        let entry = bytes.len() - 24 - (4 - at) * 24;
        places.push((name, number(entry + 8) as usize + number(entry + 16) as usize / 2));
        places.push(("trailer", entry + 3));
    }
    for (name, offset) in places {
        disk.corrupt(&side, offset as u64, 1);
        let error = check(&disk, &meta, &table).expect_err("damage is found");
        let place = format!("seg-1.side, section {name}");
        assert!(error.message().contains(&place), "{name}: {error}");
        disk.corrupt(&side, offset as u64, 1);
    }
    // Which stream of a stripe, too.
    disk.corrupt(&side, 70, 1);
    let error = check(&disk, &meta, &table).expect_err("damage is found");
    assert!(error.message().contains("keys of stripe 0"), "{error}");
}

#[test]
fn damage_is_found_by_whoever_reads_it() {
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let meta = write(&context(&disk), &table, &dictionaries, 1, 9_000).expect("writes");
    let [parquet, side] = paths(1);
    let segment = Segment::open(&context(&disk), meta.clone()).expect("opens");
    disk.corrupt(&side, 100, 1);
    assert_eq!(segment.keys(0..1).expect_err("damaged").kind(), ErrorKind::Corrupt);
    disk.corrupt(&side, 100, 1);
    disk.corrupt(&parquet, 1000, 1);
    let cursor = alluvia_tree::SegmentCursor::new(&segment, &table, &dictionaries, 0..9_000, 1000);
    let error = cursor.and_then(|mut cursor| cursor.try_for_each(|chunk| chunk.map(|_| ()))).expect_err("damaged");
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("seg-1.parquet"), "{error}");
}

#[test]
fn what_was_written_and_cannot_be_opened_goes() {
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let context = context(&disk);
    let meta = write(&context, &table, &dictionaries, 1, 700).expect("writes");
    drop(Segment::open_written(&context, meta.clone()).expect("opens"));
    assert!(paths(1).iter().all(|path| disk.exists(path)), "it stays");
    let other = SegmentMeta { parquet_bytes: meta.parquet_bytes + 1, ..meta };
    assert_eq!(Segment::open_written(&context, other).expect_err("another length").kind(), ErrorKind::Corrupt);
    assert!(!paths(1).iter().any(|path| disk.exists(path)), "nothing is left of it");
}

#[test]
fn a_missing_or_cut_file_is_noticed_at_open() {
    let disk = disk();
    let table = table(false);
    let dictionaries = dictionaries(&disk, &table);
    let context = context(&disk);
    for path in paths(1) {
        let meta = write(&context, &table, &dictionaries, 1, 100).expect("writes");
        disk.open(&path).expect("opens").set_len(50).expect("cuts");
        assert_eq!(Segment::open(&context, meta.clone()).expect_err("cut").kind(), ErrorKind::Corrupt);
        disk.remove(&path).expect("removes");
        let error = Segment::open(&context, meta).expect_err("missing");
        assert!(error.message().contains("is missing"), "{error}");
        paths(1).iter().for_each(|path| {
            let _ = disk.remove(path);
        });
    }
}

#[test]
fn files_of_another_segment_are_refused() {
    let disk = disk();
    let table = table(false);
    let dictionaries = dictionaries(&disk, &table);
    let context = context(&disk);
    let meta = write(&context, &table, &dictionaries, 1, 100).expect("writes");
    for (from, to) in paths(1).iter().zip(paths(2)) {
        disk.rename(from, &to).expect("renames");
    }
    let other = SegmentMeta { id: SegmentId(2), ..meta };
    let error = Segment::open(&context, other).and_then(|segment| segment.summaries()).expect_err("another's");
    assert!(error.message().contains("it belongs to segment 1"), "{error}");
}

#[test]
fn a_finished_segment_survives_a_power_loss() {
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    disk.sync_dir(Path::new("/db")).expect("syncs");
    disk.sync_dir(Path::new("/")).expect("syncs");
    let meta = write(&context(&disk), &table, &dictionaries, 1, 9_000).expect("writes");
    let after = disk.after_power_loss(Survival::SyncedOnly);
    check(&after, &meta, &table).expect("verifies");
}

#[test]
fn every_failed_call_fails_the_segment_and_leaves_no_file() {
    let clean = disk();
    let table = table(true);
    let dictionaries = dictionaries(&clean, &table);
    let before = clean.calls();
    write(&context(&clean), &table, &dictionaries, 1, 1_000).expect("writes");
    let calls = clean.calls() - before;
    assert!(calls >= 7, "two creates, two writes, two syncs, one directory");
    for call in 1..=calls {
        let disk = disk();
        disk.fail_after(call);
        let error = write(&context(&disk), &table, &dictionaries, 1, 1_000).expect_err("power is lost");
        assert_eq!(error.kind(), ErrorKind::Io, "call {call}: {error}");
    }
    for sync in 1..=2 {
        let disk = disk();
        disk.fail_sync(sync);
        write(&context(&disk), &table, &dictionaries, 1, 1_000).expect_err("a sync fails");
        assert!(paths(1).iter().all(|path| !disk.exists(path)), "sync {sync}");
    }
}

#[test]
fn a_full_disk_is_said_and_gets_its_room_back() {
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let meta = write(&context(&disk), &table, &dictionaries, 1, 5_000).expect("writes");
    for bytes_max in [0, 10_000, meta.parquet_bytes / 2, meta.parquet_bytes + 100, meta.bytes() - 1] {
        let disk = crate::common::disk();
        disk.limit_bytes(Some(bytes_max));
        let error = write(&context(&disk), &table, &dictionaries, 1, 5_000).expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{bytes_max}: {error}");
        assert!(paths(1).iter().all(|path| !disk.exists(path)));
        disk.limit_bytes(Some(meta.bytes()));
        write(&context(&disk), &table, &dictionaries, 1, 5_000).expect("there is room again");
    }
}

#[test]
fn files_go_when_retired_and_the_last_holder_is_gone() {
    let disk = disk();
    let table = table(false);
    let dictionaries = dictionaries(&disk, &table);
    let context = context(&disk);
    let meta = write(&context, &table, &dictionaries, 1, 9_000).expect("writes");
    let exist = || paths(1).iter().filter(|path| disk.exists(path)).count();
    drop(Segment::open(&context, meta.clone()).expect("opens"));
    assert_eq!(exist(), 2, "a segment that is merely closed stays");
    let segment = Segment::open(&context, meta).expect("opens");
    let reader = Arc::clone(&segment);
    let cursor = alluvia_tree::SegmentCursor::new(&segment, &table, &dictionaries, 0..9_000, 100).expect("a cursor");
    segment.retire();
    drop(segment);
    drop(reader);
    assert_eq!(exist(), 2, "a cursor still reads it");
    assert_eq!(cursor.map(|chunk| chunk.expect("a chunk").len()).sum::<usize>(), 9_000);
    assert_eq!(exist(), 0);
}

#[test]
fn what_open_segments_hold_is_bounded() {
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let cache = Arc::new(Cache::new(16 << 20));
    let bytes_max = 200_000;
    let context = TreeContext::new(Arc::clone(&disk) as Arc<dyn Disk>, cache, DIR).with_loaded_bytes_max(bytes_max);
    let metas: Vec<SegmentMeta> =
        (1..=20).map(|id| write(&context, &table, &dictionaries, id, 500).expect("writes")).collect();
    let segments: Vec<Arc<Segment>> =
        metas.iter().map(|meta| Segment::open(&context, meta.clone()).expect("opens")).collect();
    assert_eq!(context.loaded_bytes(), 0, "opening loads nothing");
    for _ in 0..3 {
        for segment in &segments {
            assert_eq!(segment.summaries().expect("summaries").blocks(), 1);
            segment.parquet_metadata().expect("a footer");
            assert!(context.loaded_bytes() <= bytes_max);
        }
    }
    assert!(context.loaded_bytes() > bytes_max / 4);
}
