//! COPY from URLs: what is loaded, and that nothing is when a fetch fails, whatever came before it.
#![allow(clippy::disallowed_methods)] // users' files

use super::Bench;
use crate::progress::CancelToken;
use crate::{Fetch, Spool};
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// A network of a few files, which counts what it was asked for.
#[derive(Debug, Default)]
struct Network {
    files: BTreeMap<&'static str, Vec<u8>>,
    fetched: Mutex<Vec<String>>,
}

impl Network {
    fn with(files: &[(&'static str, &[u8])]) -> Arc<Network> {
        let files = files.iter().map(|(url, bytes)| (*url, bytes.to_vec())).collect();
        Arc::new(Network { files, fetched: Mutex::default() })
    }
}

impl Fetch for Network {
    fn check(&self, url: &str) -> Result<()> {
        match url.contains("//forbidden.") {
            true => Err(Error::new(ErrorKind::Forbidden, "permission denied to read it")),
            false => Ok(()),
        }
    }

    fn fetch(&self, url: &str, into: &mut dyn Write, stopped: &dyn Fn() -> bool) -> Result<u64> {
        self.fetched.lock().push(url.to_owned());
        if url.contains("/silent") {
            while !stopped() {
                std::thread::yield_now();
            }
            return Err(Error::new(ErrorKind::Cancelled, "stopped"));
        }
        let bytes = &self.files[url];
        into.write_all(bytes).map_err(|error| Error::io("a file", "writing", &error))?;
        match url.contains("/cut") {
            true => Err(Error::new(ErrorKind::Io, "it was cut")),
            false => Ok(bytes.len() as u64),
        }
    }
}

fn bench(network: &Arc<Network>) -> Bench {
    Bench { fetch: Some(Arc::clone(network) as Arc<dyn Fetch>), ..Bench::new("a BIGINT, b TEXT") }
}

/// Loads these places, given as they are.
fn load(bench: &Bench, places: &[&str], options: &str) -> Result<crate::CopyReport> {
    bench.run(bench.job(Source::Several(places.iter().map(|place| (*place).to_owned()).collect()), options))
}

/// Files, and bytes that count, of what was fetched.
fn spooled(bench: &Bench) -> (usize, u64) {
    let folders = std::fs::read_dir(bench.path("spool")).unwrap();
    let files = folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum();
    (files, bench.spool.bytes())
}

#[test]
fn urls_are_loaded_after_files_as_one_batch_and_leave_nothing_behind() {
    let packed = zstd::encode_all("{\"a\": 3, \"b\": \"z\"}\n".as_bytes(), 1).unwrap();
    let network =
        Network::with(&[("https://h.org/a.csv?key=secret", b"a,b\n2,y\n"), ("http://h.org/b.ndjson.zst", &packed)]);
    let bench = bench(&network);
    bench.write("0.csv", "1,x\n");
    let file = bench.path("0.csv").display().to_string();
    let urls = ["https://h.org/a.csv?key=secret", "http://h.org/b.ndjson.zst", "https://h.org/a.csv?key=secret", &file];
    let report = load(&bench, &urls, "").unwrap();
    assert_eq!((report.rows, report.batches), (3, 1));
    assert_eq!(bench.rows(), [["1", "x"], ["3", "z"], ["2", "y"]]);
    assert_eq!(*network.fetched.lock(), ["http://h.org/b.ndjson.zst", "https://h.org/a.csv?key=secret"], "each once");
    assert_eq!(spooled(&bench), (0, 0));
    assert_eq!(bench.progress.bytes_done(), bench.progress.bytes_total());
    assert_eq!(bench.progress.fraction(), Some(0.99), "whether it is the end is not the file's to say");
}

#[test]
fn a_fetch_that_fails_applies_nothing() {
    let network = Network::with(&[
        ("https://h.org/a.csv", b"1,x\n"),
        ("https://h.org/cut.csv", b"2,y\n3,"),
        ("https://h.org/wrong.csv?key=secret", b"1,x\nno number,y\n"),
    ]);
    let bench = bench(&network);
    assert_eq!(load(&bench, &["https://h.org/a.csv", "https://h.org/cut.csv"], "").unwrap_err().kind(), ErrorKind::Io);
    let wrong = load(&bench, &["https://h.org/wrong.csv?key=secret"], "").unwrap_err();
    assert!(wrong.message().starts_with("https://h.org/wrong.csv, line 2, column a"), "{wrong}");
    assert!(!wrong.to_string().contains("secret"), "{wrong}");
    assert!(bench.batches().is_empty() && bench.told.lock().is_empty());
    assert_eq!(spooled(&bench), (0, 0));
    let rejects = format!("(ON_ERROR skip, REJECTS '{}')", bench.path("bad.csv").display());
    let report = load(&bench, &["https://h.org/wrong.csv?key=secret"], &rejects).unwrap();
    assert_eq!((report.rows, report.skipped), (1, 1));
    assert!(bench.read(&bench.path("bad.csv")).contains("https://h.org/wrong.csv,2,a,"));
}

#[test]
fn a_fetch_that_is_cancelled_applies_nothing() {
    let network = Network::with(&[("https://h.org/a.csv", b"1,x\n")]);
    let bench = bench(&network);
    let (cancel, seen): (CancelToken, Arc<Network>) = (bench.cancel.clone(), Arc::clone(&network));
    let canceller = std::thread::spawn(move || {
        while seen.fetched.lock().len() < 2 {
            std::thread::yield_now();
        }
        cancel.cancel();
    });
    let error = load(&bench, &["https://h.org/a.csv", "https://h.org/silent.csv"], "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    canceller.join().unwrap();
    assert!(bench.batches().is_empty());
}

#[test]
fn what_may_not_be_read_is_refused_before_anything_is() {
    let network = Network::with(&[("https://h.org/a.csv", b"1,x\n")]);
    let bench = bench(&network);
    let refused = |places: &[&str], options: &str| load(&bench, places, options).unwrap_err().kind();
    assert_eq!(refused(&["https://h.org/a.csv", "https://forbidden.org/b.csv"], ""), ErrorKind::Forbidden);
    assert_eq!(refused(&["https://h.org/a.csv", "s3://bucket/b.csv"], ""), ErrorKind::NotSupported);
    assert_eq!(refused(&["https://h.org/a.csv"], "(BATCH_ROWS 5)"), ErrorKind::NotSupported);
    assert_eq!(refused(&["https://h.org/a.csv"], "(ON_ERROR skip)"), ErrorKind::InvalidSetting);
    assert_eq!(refused(&["https://h.org/a"], ""), ErrorKind::InvalidSetting);
    assert!(network.fetched.lock().is_empty());
    let without = Bench::new("a BIGINT, b TEXT");
    let error = load(&without, &["https://h.org/a.csv?key=secret"], "").unwrap_err();
    assert!(error.kind() == ErrorKind::Forbidden && !error.to_string().contains("secret"), "{error}");
}

#[test]
fn what_a_url_names_counts_against_what_may_be_spilled_while_it_lies_there() {
    let network = Network::with(&[
        ("https://h.org/a.csv", b"1,x\n2,y\n"),
        ("https://h.org/b.csv", b"3,x\n4,y\n"),
        ("https://h.org/long.csv?key=secret", b"5,x\n6,y\n7,z\n"),
    ]);
    let bench = bench(&network);
    let bench = Bench { spool: Spool::in_dir(&bench.path("narrow"), 8), ..bench };
    let error = load(&bench, &["https://h.org/a.csv", "https://h.org/long.csv?key=secret"], "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.message().contains("https://h.org/long.csv ") && error.message().contains("spill_max"), "{error}");
    assert!(!error.to_string().contains("secret") && bench.batches().is_empty(), "{error}");
    // One after the other they fit.
    assert_eq!(load(&bench, &["https://h.org/a.csv", "https://h.org/b.csv"], "").unwrap().rows, 4);
    assert_eq!(bench.spool.bytes(), 0);
}

#[test]
fn what_a_packed_file_unpacks_to_is_bounded_wherever_it_comes_from() {
    let text = "1,x\n".repeat(10_000);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let network = Network::with(&[("https://h.org/a.csv.zst", &packed)]);
    let (fits, narrow) = (text.len() as u64, text.len() as u64 - 1);
    let bench = |unpacked_bytes_max| {
        let bench = Bench { unpacked_bytes_max: Some(unpacked_bytes_max), ..bench(&network) };
        bench.write("plain.csv", &text).write("packed.csv", &packed);
        let rows = RecordBatch::try_from_iter([
            ("a", Arc::new(Int64Array::from(vec![1; 10_000])) as ArrayRef),
            ("b", Arc::new(StringArray::from(vec!["x"; 10_000])) as ArrayRef),
        ]);
        let rows = rows.unwrap();
        let file = std::fs::File::create(bench.path("rows.parquet")).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        bench
    };
    let load = |bytes_max: u64, place: &str| {
        let bench = bench(bytes_max);
        let place = if place.contains("://") { place.to_owned() } else { bench.path(place).display().to_string() };
        load(&bench, &[&place], "").map(|report| report.rows)
    };
    // Rows of eight bytes and one.
    for (place, bytes_max) in
        [("https://h.org/a.csv.zst", fits), ("packed.csv", fits), ("plain.csv", 1), ("rows.parquet", 100_000)]
    {
        assert_eq!(load(bytes_max, place).unwrap(), 10_000, "{place}");
    }
    for (place, bytes_max) in [("https://h.org/a.csv.zst", narrow), ("packed.csv", narrow), ("rows.parquet", 80_000)] {
        let error = load(bytes_max, place).unwrap_err();
        assert!(error.kind() == ErrorKind::TooLarge && error.message().contains(place), "{error}");
        assert!(error.hint().unwrap().contains("copy_unpacked_bytes_max"), "{error}");
    }
}
