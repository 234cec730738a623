//! `check` lists all that is wrong, says what is merely torn, and changes nothing.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::{Database, DatabaseOptions, check};
use alluvia_pipeline::PipelineOptions;
use alluvia_snapshot::{
    Admin, BatchKey, KeyFiles, KeyRecord, KeysFile, Manifest, Memo, PartitionFiles, ProducerState, Spaces,
};
use alluvia_space::{LevelCodes, ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_storage::{Cache, Disk, RealDisk, write_atomic};
use alluvia_tree::{RowChunk, Segment, SegmentCursor, SegmentMeta, SegmentWriter, TreeContext};
use alluvia_types::{ErrorKind, SegmentId, TableId, Version};
use arrow::array::{ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A database with merged and sorted segments of two tables, none of them large enough for a ladder, and something in the log.
fn database(dir: &Path) {
    // Nothing is organised but where it is asked for.
    let never = Duration::from_secs(3600);
    let pipeline = PipelineOptions { sort_interval: never, merge_interval: never, ..PipelineOptions::default() };
    let db = Database::open_with(dir, DatabaseOptions { pipeline, ..DatabaseOptions::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = db.session();
        for sql in [
            "CREATE TABLE one (a BIGINT, b TEXT) WITH (dimensions = 'b', measures = 'a')",
            "CREATE TABLE two (a BIGINT, b TEXT) WITH (dimensions = 'b')",
            "INSERT INTO one SELECT value, 'text ' || value % 7 FROM generate_series(1, 12000)",
            "INSERT INTO two SELECT a, b FROM one WHERE a <= 100",
            "CALL alluvia.merge()",
            "INSERT INTO one VALUES (1, 'sorted')",
            "CALL alluvia.flush()",
            "INSERT INTO two VALUES (1, 'in the log')",
        ] {
            session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        }
    });
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_directory_without_a_database_is_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    for dir in [scratch.path().to_owned(), scratch.path().join("typo")] {
        let error = check(&dir, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedObject);
        assert!(error.message().contains("holds no Alluvia database"), "{error}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn all_damage_is_listed_and_a_torn_end_is_none() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    let mut told = Vec::new();
    let report = check(&dir, &mut |what| told.push(what.to_owned())).unwrap();
    assert_eq!((&report.findings, &report.notices), (&Vec::<String>::new(), &Vec::<String>::new()));
    assert_eq!((report.tables, report.torn_log_bytes), (2, 0));
    let told = told.iter().filter(|what| what.starts_with("segment ")).count();
    assert!(report.segments >= 3 && report.segments == told, "{report:?}");
    assert_eq!((report.rows, report.log_rows), (12_101, 1));

    // What a power loss leaves at the end of the log.
    let log = files(&dir.join("log"), ".log").pop().unwrap();
    let whole = fs::read(&log).unwrap();
    fs::write(&log, [whole.as_slice(), b"GRUPtorn"].concat()).unwrap();
    let report = check(&dir, &mut |_| {}).unwrap();
    // With the zeros before it, in which groups would have come to lie.
    assert!(report.findings.is_empty() && report.torn_log_bytes >= 8, "{report:?}");
    assert_eq!(fs::read(&log).unwrap().len(), whole.len() + 8, "nothing was cut");

    // A dictionary, a segment that is gone, one that is short, one whose bytes differ, and the log.
    fs::write(&log, &whole).unwrap();
    flip(&files(&dir, "dict-1").pop().unwrap_or_else(|| files(&dir, "dict-2").pop().unwrap()), 12);
    let segments = files(&dir.join("segments"), ".parquet");
    assert_eq!(segments.len(), report.segments);
    fs::remove_file(&segments[0]).unwrap();
    let bytes = fs::read(&segments[1]).unwrap();
    fs::write(&segments[1], &bytes[..bytes.len() - 1]).unwrap();
    flip(&segments[2], 200);
    let report = check(&dir, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 4, "{:#?}", report.findings);
    flip(&log, 70);
    let report = check(&dir, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 5, "{:#?}", report.findings);
    assert!(report.findings.iter().any(|finding| finding.contains(".log")), "{:#?}", report.findings);
}

#[test]
fn memos_and_the_audit_log_are_read_and_files_that_nothing_names_are_told_of() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    let db = Database::open(&dir).unwrap();
    for (memo, empty) in alluvia_query::MEMOS.iter().zip(["[]", r#"{"planner":"","predicates":[]}"#]) {
        db.core().memorise(memo, empty.as_bytes()).unwrap();
    }
    drop(db);
    let checked = || check(&dir, &mut |_| {}).unwrap();
    let nothing = Vec::<String>::new();
    let report = checked();
    assert_eq!((&report.findings, &report.notices), (&nothing, &nothing));

    // One byte of a memo, of its content or of its envelope.
    for name in ["cuboids", "predicates"] {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        for at in [0, 17, whole.len() - 1] {
            flip(&path, at);
            let findings = checked().findings;
            assert!(findings.len() == 1 && findings[0].contains(name), "{name}, byte {at}: {findings:#?}");
            assert!(findings[0].contains("it holds no data"), "{findings:#?}");
            fs::write(&path, &whole).unwrap();
        }
    }
    // What was written whole, and says nothing.
    for memo in alluvia_query::MEMOS {
        let path = dir.join(memo.name);
        let whole = fs::read(&path).unwrap();
        write_atomic(&RealDisk::new(), &path, memo.magic, b"{}").unwrap();
        let findings = checked().findings;
        assert!(findings.len() == 1 && findings[0].contains(memo.name), "{findings:#?}");
        assert!(findings[0].contains("cannot be read"), "{findings:#?}");
        fs::write(&path, &whole).unwrap();
    }
    // One of a later version is whole; so is one that was set aside before.
    let later = Memo { name: "cuboids", magic: b"ALVCUB99" };
    write_atomic(&RealDisk::new(), &dir.join(later.name), later.magic, b"?").unwrap();
    fs::write(dir.join("predicates.damaged"), "?").unwrap();
    let report = checked();
    assert_eq!((&report.findings, report.notices.len()), (&nothing, 2), "{:#?}", report.notices);
    assert!(report.notices[0].contains("format version 99") && report.notices[1].contains("predicates.damaged"));
    fs::remove_file(dir.join("predicates.damaged")).unwrap();
    alluvia_query::MEMOS.iter().for_each(|memo| fs::remove_file(dir.join(memo.name)).unwrap());

    // A line of the audit log that is none, in the middle or at the end, and a last one that is torn.
    let audit = files(&dir.join("audit"), ".ndjson").into_iter().find(|path| !fs::read(path).unwrap().is_empty());
    let audit = audit.expect("tables were created");
    let whole = fs::read_to_string(&audit).unwrap();
    let first = whole.find('\n').unwrap() + 1;
    for damaged in [
        format!("{}{{\"event\": nonsense}}\n{}", &whole[..first], &whole[first..]),
        format!("{whole}garbage\n"),
        format!("{whole}\0\n{whole}"),
        whole.replacen('{', "[", 1),
        format!("{whole}{{}}\n"),
    ] {
        fs::write(&audit, &damaged).unwrap();
        let findings = checked().findings;
        assert!(findings.len() == 1 && findings[0].contains("ndjson: line "), "{damaged}\n{findings:#?}");
    }
    for torn in [&whole[..first - 1], "{\"at\":\"2026", "\0\0\0\0}\n"] {
        fs::write(&audit, format!("{whole}{torn}")).unwrap();
        let report = checked();
        assert_eq!((&report.findings, report.notices.len()), (&nothing, 1), "{torn:?}: {:#?}", report.notices);
        assert!(report.notices[0].contains(&format!("ends in {} bytes", torn.len())), "{:#?}", report.notices);
    }
    fs::write(&audit, &whole).unwrap();

    // What an interrupted run leaves, and what is none of ours. A check leaves both.
    let strays = [
        "segments/seg-999.parquet",
        "segments/seg-999.side",
        "dict-999",
        "kills-1-999",
        "segments/notes",
        "log/notes",
        "notes",
    ];
    strays.iter().for_each(|name| fs::write(dir.join(name), "stray").unwrap());
    let report = checked();
    assert_eq!((&report.findings, report.notices.len()), (&nothing, strays.len()), "{:#?}", report.notices);
    for (at, name) in strays.iter().enumerate() {
        let notice = report.notices.iter().find(|notice| notice.contains(&format!("db/{name} "))).unwrap();
        assert_eq!((notice.contains("the next start removes it"), notice.contains("left alone")), (at < 4, at >= 4));
        assert!(dir.join(name).exists());
    }
    drop(Database::open(&dir).unwrap());
    let left: Vec<bool> = strays.iter().map(|name| dir.join(name).exists()).collect();
    assert_eq!(left, [false, false, false, false, true, true, true], "a start does as the check says");
}

fn manifest(dir: &Path) -> Manifest {
    Manifest::load(&RealDisk::new(), dir).unwrap().unwrap()
}

/// Changes the manifest, which is written with a good checksum.
fn edit(dir: &Path, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = manifest(dir);
    change(&mut manifest);
    manifest.store(&RealDisk::new(), dir).unwrap();
}

fn id_of(manifest: &Manifest, table: &str) -> TableId {
    manifest.catalog.tables().find(|entry| entry.def.name == table).unwrap().def.id
}

/// Every segment of a table is written anew as `change` leaves its rows, so that checksums and summaries hold; and named in the place of
/// the old one. Gives what was named before.
fn rewrite(dir: &Path, table: &str, change: &dyn Fn(&mut RowChunk)) -> Vec<SegmentMeta> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut before = Vec::new();
    edit(dir, |manifest| {
        let id = id_of(manifest, table);
        let def = Arc::clone(&manifest.catalog.by_id(id).unwrap().def);
        let files = manifest.tables.get_mut(&id).unwrap();
        let spaces = Spaces::new(Arc::clone(&disk), dir.into());
        spaces.require(id, files.dictionary.as_ref(), files.ranges.as_deref());
        let space = spaces.get(&def).unwrap();
        let tree = TreeContext::new(disk, Arc::new(Cache::new(1 << 20)), dir.join("segments"));
        let parts = files.partitions.iter_mut().flat_map(|partition| &mut partition.segments);
        for meta in files.sorted.iter_mut().chain(&mut files.buffer).chain(parts) {
            before.push(meta.clone());
            let segment = Segment::open(&tree, meta.clone()).unwrap();
            let rows = meta.rows as usize;
            let mut cursor = SegmentCursor::new(&segment, &def, &space.dictionaries, 0..meta.rows, rows).unwrap();
            let read = cursor.next().unwrap().unwrap();
            // Values as values: they do not follow the codes.
            let mut chunk = RowChunk::new(read.whole().unwrap(), read.keys.clone(), read.codes.clone());
            assert_eq!(chunk.len(), rows);
            change(&mut chunk);
            let new = SegmentId(manifest.next_segment);
            manifest.next_segment += 1;
            let mut writer = SegmentWriter::create(&tree, new, &def, meta.stage, None).unwrap();
            writer.write(&chunk).unwrap();
            *meta = writer.finish().unwrap();
        }
    });
    before
}

/// Replaces a column of numbers.
fn replace(chunk: &mut RowChunk, name: &str, value: impl Fn(u64) -> u64) {
    let place = chunk.rows.schema().index_of(name).unwrap();
    let mut columns = chunk.rows.columns().to_vec();
    let values = columns[place].as_primitive::<UInt64Type>().values();
    columns[place] = Arc::new(UInt64Array::from_iter_values(values.iter().map(|&old| value(old)))) as ArrayRef;
    chunk.rows = RecordBatch::try_new(chunk.rows.schema(), columns).unwrap();
}

/// The rows that are kept.
fn retain(chunk: &mut RowChunk, keep: &[bool]) {
    let kept = |at: &usize| keep[*at];
    let level = |codes: &Vec<u32>| (0..codes.len()).filter(kept).map(|at| codes[at]).collect();
    let rows = filter_record_batch(&chunk.rows, &BooleanArray::from(keep.to_vec())).unwrap();
    let keys = (0..chunk.len()).filter(kept).map(|at| chunk.keys[at]).collect();
    *chunk = RowChunk::new(rows, keys, LevelCodes { levels: chunk.codes.levels.iter().map(level).collect() });
}

/// What a check finds after a change of a fresh database.
fn found_after(change: impl FnOnce(&Path)) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    change(&dir);
    check(&dir, &mut |_| {}).unwrap().findings
}

/// Exactly one finding, which says all of this.
#[track_caller]
fn assert_one(findings: &[String], parts: &[&str]) {
    assert!(findings.len() == 1 && parts.iter().all(|part| findings[0].contains(part)), "{parts:?}: {findings:#?}");
}

#[test]
fn segments_that_are_written_anew_as_they_were_are_sound() {
    let findings = found_after(|dir| {
        rewrite(dir, "one", &|_| {});
        rewrite(dir, "two", &|_| {});
    });
    assert_eq!(findings, Vec::<String>::new());
}

#[test]
fn codes_and_keys_of_other_values_are_found() {
    let findings = found_after(|dir| {
        rewrite(dir, "one", &|chunk| {
            let swap = |code: &mut u32| *code = [*code, 2, 1].get(*code as usize).copied().unwrap_or(*code);
            chunk.codes.levels[0].iter_mut().for_each(swap);
        });
    });
    assert_one(&findings, &[".side, block ", ", row ", "the code of level '", "of its value it is"]);
    let findings = found_after(|dir| {
        rewrite(dir, "two", &|chunk| chunk.keys.iter_mut().for_each(|key| *key = 0));
    });
    assert_one(&findings, &[".side, block 0, row ", "the key is 0, of its values it is"]);
}

#[test]
fn rows_of_two_segments_and_rows_of_none_are_found() {
    // Named beside what was written of them.
    for (table, count) in [("one", 2), ("two", 1)] {
        let findings = found_after(|dir| {
            let before = rewrite(dir, table, &|_| {});
            edit(dir, |manifest| {
                let id = id_of(manifest, table);
                manifest.tables.get_mut(&id).unwrap().sorted.extend(before);
            });
        });
        assert_eq!(findings.len(), count, "{findings:#?}");
        let says =
            |finding: &String| finding.contains("segments ") && finding.contains(" rows both, first number 0 of");
        assert!(findings.iter().all(says), "{findings:#?}");
    }
    // The same number for two rows of one segment; then the first row of its batch is gone.
    let is_first = |ordinal: u64| ordinal & 0xffff_ffff == 0;
    let findings = found_after(|dir| {
        rewrite(dir, "two", &|chunk| replace(chunk, ORDINAL_COLUMN, |old| old + u64::from(is_first(old))));
    });
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings[0].contains("holds 1 of its rows twice, first number 1 of"), "{findings:#?}");
    assert!(findings[1].contains("1 rows are in no segment, first number 0 of"), "{findings:#?}");
    let findings = found_after(|dir| {
        rewrite(dir, "two", &|chunk| {
            let ordinals = chunk.rows.column_by_name(ORDINAL_COLUMN).unwrap().as_primitive::<UInt64Type>();
            let keep: Vec<bool> = ordinals.values().iter().map(|&ordinal| !is_first(ordinal)).collect();
            retain(chunk, &keep);
        });
    });
    assert_one(&findings, &["table 'two': 1 rows are in no segment, first number 0 of"]);
}

#[test]
fn a_manifest_that_contradicts_itself_or_the_log_is_found() {
    // The log has one more version.
    let findings = found_after(|dir| {
        let next = manifest(dir).through.next().0;
        rewrite(dir, "one", &|chunk| {
            if chunk.len() == 1 {
                replace(chunk, VERSION_COLUMN, |_| next);
            }
        });
    });
    assert_one(&findings, &["after the watermark"]);
    let findings = found_after(|dir| {
        edit(dir, |manifest| {
            let state = ProducerState { epoch: 1, sequence: 1, version: manifest.through.next() };
            manifest.producers.insert("loader".to_owned(), state);
        });
    });
    assert_one(&findings, &["producer 'loader'", "after the watermark"]);
    let findings = found_after(|dir| edit(dir, |manifest| manifest.next_table = id_of(manifest, "two").0));
    assert_one(&findings, &["table 'two' has the id", "is said to be the next one"]);
    let findings = found_after(|dir| {
        edit(dir, |manifest| {
            let ids = manifest.segments().flat_map(SegmentMeta::with_rungs).map(|meta| meta.id.0);
            manifest.next_segment = ids.max().unwrap();
        });
    });
    assert_one(&findings, &["is said to be the next id"]);
    for (low, high, says) in [(1, u128::MAX, "instead of 0 to"), (0, 2, "instead of 0 to")] {
        let findings = found_after(|dir| {
            edit(dir, |manifest| {
                let id = id_of(manifest, "two");
                let files = manifest.tables.get_mut(&id).unwrap();
                files.buffer.extend(files.partitions.drain(..).flat_map(|partition| partition.segments));
                files.partitions.push(PartitionFiles { low, high, segments: Vec::new() });
            });
        });
        assert_one(&findings, &["table 'two': partitions have the keys", says]);
    }
}

#[test]
fn idempotency_keys_that_cannot_be_are_found() {
    let record = |key: &str, version: u64, commit_micros: i64| KeyRecord {
        key: BatchKey::new(TableId(1), key),
        version: Version(version),
        commit_micros,
        rows: 1,
    };
    let after = |records: &[KeyRecord]| {
        found_after(|dir| {
            name_keys(dir, records);
        })
    };
    let eight_days = 8 * 24 * 3_600_000_000;
    assert_eq!(after(&[record("a", 1, 0), record("b", 2, 5), record("a", 3, eight_days)]), Vec::<String>::new());
    assert_one(&after(&[record("a", 1, 0), record("a", 2, 5)]), &["versions 1 and 2 have the same key"]);
    assert_one(&after(&[record("a", 1_000_000, 0)]), &["version 1000000", "the log does not reach"]);
    // Two files that say the same contradict nothing.
    let repeated = found_after(|dir| {
        name_keys(dir, &[record("a", 1, 0), record("b", 2, 5)]);
        fs::copy(dir.join("keys-00000001"), dir.join("keys-00000002")).unwrap();
        edit(dir, |manifest| {
            let keys = manifest.keys.as_mut().unwrap();
            keys.push(KeysFile { number: 2, ..keys[0] });
        });
    });
    assert_eq!(repeated, Vec::<String>::new());
}

/// Writes a file of keys, and a manifest that names it.
fn name_keys(dir: &Path, records: &[KeyRecord]) {
    let named = manifest(dir).keys;
    let (mut files, none) = KeyFiles::load(&RealDisk::new(), dir, named.as_deref()).unwrap();
    assert!(none.is_empty());
    files.add(&RealDisk::new(), records, i64::MIN).unwrap();
    edit(dir, |manifest| manifest.keys = Some(files.named().0));
}

/// A batch that is sent again would be applied again: so nobody goes on without its key unless somebody says so.
#[test]
fn a_file_of_keys_that_is_gone_or_older_is_found_and_refused() {
    let record = |version: u64| KeyRecord {
        key: BatchKey::new(TableId(1), &version.to_string()),
        version: Version(version),
        commit_micros: 0,
        rows: 1,
    };
    for older in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("db");
        database(&dir);
        name_keys(&dir, &[record(1)]);
        let copy = fs::read(dir.join("keys-00000001")).unwrap();
        let named = manifest(&dir).keys;
        let (mut files, _) = KeyFiles::load(&RealDisk::new(), &dir, named.as_deref()).unwrap();
        files.add(&RealDisk::new(), &[record(2)], i64::MIN).unwrap();
        edit(&dir, |manifest| manifest.keys = Some(files.named().0));
        fs::remove_file(dir.join("keys-00000001")).unwrap();
        assert_eq!(check(&dir, &mut |_| {}).unwrap().findings, Vec::<String>::new());
        match older {
            true => fs::write(dir.join("keys-00000002"), copy).unwrap(),
            false => fs::remove_file(dir.join("keys-00000002")).unwrap(),
        }
        assert_one(&check(&dir, &mut |_| {}).unwrap().findings, &["keys-00000002", "keys.lost"]);
        let refused = Database::open(&dir).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        assert!(refused.message().contains("keys-00000002") && refused.hint().is_some(), "{refused}");
        fs::write(dir.join("keys.lost"), "").unwrap();
        drop(Database::open(&dir).unwrap());
    }
}

/// What was acknowledged and is missing at the log's end is not taken for a write that a crash broke off.
#[test]
fn a_log_that_was_cut_since_a_clean_stop_is_found_and_refused() {
    for is_gone in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("db");
        database(&dir);
        let log = files(&dir.join("log"), ".log").pop().unwrap();
        let whole = fs::read(&log).unwrap();
        let last_body = whole.windows(4).rposition(|bytes| bytes == b"BODY").expect("something is in the log alone");
        match is_gone {
            true => fs::remove_dir_all(dir.join("log")).unwrap(),
            false => fs::write(&log, &whole[..last_body]).unwrap(),
        }
        let findings = check(&dir, &mut |_| {}).unwrap().findings;
        assert!(!findings.is_empty());
        let refused = Database::open(&dir).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        if !is_gone {
            assert_one(&findings, &["are missing", "bytes too early", "log.end"]);
            assert!(refused.message().contains("are missing"), "{refused}");
            // Whoever says so goes on without.
            fs::remove_file(dir.join("log.end")).unwrap();
            drop(Database::open(&dir).unwrap());
            assert_eq!(check(&dir, &mut |_| {}).unwrap().findings, Vec::<String>::new());
        }
    }
}

#[test]
fn lines_of_the_audit_log_that_are_gone_are_found() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    let found = || check(&dir, &mut |_| {}).unwrap().findings;
    assert_eq!(found(), Vec::<String>::new());
    let audit = files(&dir.join("audit"), ".ndjson").pop().unwrap();
    let whole = fs::read_to_string(&audit).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert!(lines.len() > 2);
    fs::write(&audit, [&lines[..1], &lines[2..]].concat().concat()).unwrap();
    assert_one(&found(), &["ndjson: line 2 does not follow"]);
    fs::write(&audit, lines[..lines.len() - 1].concat()).unwrap();
    assert_one(&found(), &["lines at its end are missing"]);
    fs::write(&audit, whole.replacen("\"ddl\"", "\"dd1\"", 1)).unwrap();
    assert_one(&found(), &["ndjson: line 1 does not follow"]);
    fs::remove_dir_all(dir.join("audit")).unwrap();
    assert_one(&found(), &["00000001.ndjson is missing"]);
}

/// A format that this build does not know is no other build's where the manifest is of this one.
#[test]
fn a_file_of_another_format_is_damage() {
    let findings = found_after(|dir| {
        let dictionary = files(dir, "dict-1").pop().unwrap_or_else(|| files(dir, "dict-2").pop().unwrap());
        flip(&dictionary, 7);
    });
    assert!(!findings.is_empty());
}
