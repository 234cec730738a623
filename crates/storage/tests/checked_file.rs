//! Checked files as the other rooms use them: right bytes, few I/O calls, damage found, memory accounted.

use alluvia_storage::{
    CHUNK_BYTES, Cache, CheckedFile, CheckedWriter, Disk, FaultDisk, FileChecks, Watch, WatchedDisk,
};
use alluvia_types::ErrorKind;
use proptest::prelude::*;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: u64 = CHUNK_BYTES as u64;

fn path() -> &'static Path {
    Path::new("/file")
}

fn bytes_of(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

struct Setup {
    disk: Arc<FaultDisk>,
    checks: Arc<FileChecks>,
    model: Vec<u8>,
}

fn written(len: usize) -> Setup {
    let (disk, model) = (FaultDisk::new(), bytes_of(len));
    let mut writer = CheckedWriter::create(disk.as_ref(), path()).expect("creates");
    writer.write_all(&model).expect("writes");
    Setup { disk, checks: Arc::new(writer.finish().expect("finishes")), model }
}

impl Setup {
    fn open(&self, cache: &Arc<Cache>) -> CheckedFile {
        open(self.disk.as_ref(), &self.checks, cache)
    }

    fn part(&self, range: Range<u64>) -> &[u8] {
        &self.model[range.start as usize..range.end as usize]
    }
}

fn open(disk: &dyn Disk, checks: &Arc<FileChecks>, cache: &Arc<Cache>) -> CheckedFile {
    CheckedFile::open(disk, path(), Arc::clone(checks), Arc::clone(cache)).expect("opens")
}

/// Counts the reads that reach the disk.
#[derive(Debug, Default)]
struct Reads(AtomicU64);

impl Watch for Reads {
    fn before_read(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_range_reads_as_written(
        len in 0..6 * CHUNK_BYTES,
        cache_bytes in prop_oneof![Just(0u64), 0..3 * CHUNK, Just(64 << 20)],
        ranges in prop::collection::vec((0.0..=1.0f64, prop_oneof![0.0..=0.02f64, 0.0..=1.0f64]), 1..30),
    ) {
        let setup = written(len);
        let cache = Arc::new(Cache::new(cache_bytes));
        let file = setup.open(&cache);
        prop_assert_eq!(file.len(), len as u64);
        for (start, share) in ranges {
            let start = (len as f64 * start) as u64;
            let end = start + ((len as u64 - start) as f64 * share) as u64;
            prop_assert!(file.read(start..end).expect("reads") == setup.part(start..end));
            prop_assert!(cache.used_bytes() <= cache_bytes);
        }
        file.verify().expect("is intact");
        drop(file);
        prop_assert_eq!(cache.used_bytes(), 0);
    }
}

#[test]
fn a_range_within_a_chunk_is_a_slice_and_a_cold_run_is_one_read() {
    let setup = written(10 * CHUNK_BYTES + 77);
    let reads = Arc::new(Reads::default());
    let disk = WatchedDisk::new(setup.disk.clone(), reads.clone());
    let cache = Arc::new(Cache::new(64 << 20));
    let file = open(&disk, &setup.checks, &cache);
    let count = || reads.0.swap(0, Ordering::Relaxed);

    let a = file.read(CHUNK + 5..CHUNK + 10).expect("reads");
    let b = file.read(CHUNK + 10..2 * CHUNK).expect("reads");
    assert_eq!(count(), 1);
    assert_eq!(a.as_ptr().wrapping_add(5), b.as_ptr(), "both are slices of the one chunk");

    let whole = 0..setup.checks.len;
    assert_eq!(file.read(whole.clone()).expect("reads"), setup.model);
    assert_eq!(count(), 2, "one run before the chunk that was there, one behind it");
    assert_eq!(file.read(whole.clone()).expect("reads"), setup.model);
    assert_eq!(count(), 0);
    assert_eq!(cache.hits(), 1 + 1 + 11);
    assert_eq!(cache.misses(), 1 + 10);
    assert!(cache.used_bytes() >= setup.checks.len);

    let other = open(&disk, &setup.checks, &cache);
    assert_eq!(other.read(3..setup.checks.len - 3).expect("reads"), setup.part(3..setup.checks.len - 3));
    assert_eq!(count(), 1, "another opening of the file has chunks of its own");

    let small = Arc::new(Cache::new(8 * CHUNK));
    let file = open(&disk, &setup.checks, &small);
    file.read(whole).expect("reads");
    assert_eq!((count(), small.used_bytes()), (1, 0), "a read larger than the cache's share goes past it");
}

#[test]
fn damage_is_found_at_every_byte_that_is_read_and_named() {
    let setup = written(3 * CHUNK_BYTES + 1000);
    for offset in [0, CHUNK - 1, CHUNK, 2 * CHUNK + 17, 3 * CHUNK + 999] {
        setup.disk.corrupt(path(), offset, 0x10);
        let file = setup.open(&Arc::new(Cache::new(64 << 20)));
        let bad = offset / CHUNK * CHUNK;
        for range in [offset..offset + 1, bad..bad + 1, 0..file.len()] {
            let error = file.read(range).expect_err("damaged");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.message().starts_with(&format!("/file has other bytes at {bad}..")), "{error}");
        }
        assert_eq!(file.verify().expect_err("damaged").kind(), ErrorKind::Corrupt);
        for chunk in (0..4).map(|chunk| chunk * CHUNK).filter(|chunk| *chunk != bad) {
            assert_eq!(file.read(chunk..chunk + 9).expect("the rest is intact"), setup.part(chunk..chunk + 9));
        }
        setup.disk.corrupt(path(), offset, 0x10);
    }
    setup.open(&Arc::new(Cache::new(0))).verify().expect("is intact again");
}

#[test]
fn damage_behind_a_cached_chunk_is_found_by_verify() {
    let setup = written(CHUNK_BYTES);
    let file = setup.open(&Arc::new(Cache::new(64 << 20)));
    file.read(0..1).expect("reads");
    setup.disk.corrupt(path(), 0, 1);
    file.read(0..1).expect("comes from the cache, verified");
    assert_eq!(file.verify().expect_err("damaged").kind(), ErrorKind::Corrupt);
}

#[test]
fn a_file_of_another_length_is_refused_when_it_is_opened() {
    let setup = written(1000);
    let cache = Arc::new(Cache::new(1 << 20));
    let refused = |checks: FileChecks| {
        CheckedFile::open(setup.disk.as_ref(), path(), Arc::new(checks), Arc::clone(&cache)).expect_err("refused")
    };
    let missing = refused(FileChecks { chunk_crcs: vec![], ..setup.checks.as_ref().clone() });
    assert_eq!(missing.kind(), ErrorKind::Corrupt);
    let file = setup.open(&cache);
    setup.disk.open(path()).expect("opens").set_len(999).expect("cuts");
    let error = refused(setup.checks.as_ref().clone());
    assert_eq!((error.kind(), error.message()), (ErrorKind::Corrupt, "/file has 999 bytes, was written with 1000"));
    assert_eq!(file.read(0..1).expect_err("was cut while open").kind(), ErrorKind::Corrupt);
    assert_eq!(file.read(0..1001).expect_err("is past the end").kind(), ErrorKind::Internal);
}

#[test]
fn many_readers_share_a_cache_that_stays_within_its_bytes() {
    let setup = written(24 * CHUNK_BYTES + 5);
    let cache = Arc::new(Cache::new(16 * CHUNK));
    let file = setup.open(&cache);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (setup, cache, file) = (&setup, &cache, file.clone());
            scope.spawn(move || {
                let mut state = thread + 1;
                for _ in 0..150 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let start = (state >> 33) % file.len();
                    let end = (start + (state >> 20) % (3 * CHUNK)).min(file.len());
                    assert!(file.read(start..end).expect("reads") == setup.part(start..end));
                    assert!(cache.used_bytes() <= cache.bytes_max());
                }
            });
        }
    });
    assert!(cache.hits() > 0 && cache.misses() > 0);
    drop(file);
    assert_eq!(cache.used_bytes(), 0);
}

#[test]
fn checks_are_the_same_text_for_ever() {
    let checks = FileChecks { len: 300_000, chunk_crcs: vec![1, u32::MAX] };
    let text = serde_json::to_string(&checks).expect("serializes");
    assert_eq!(text, r#"{"len":300000,"chunk_crcs":[1,4294967295]}"#);
    assert_eq!(serde_json::from_str::<FileChecks>(&text).expect("parses"), checks);
}
