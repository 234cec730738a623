//! Loads from end to end, over a store that only remembers.

use crate::copy::load::LoadJob;
use crate::copy::options::{CopyOptions, OnError};
use crate::copy::statement::Source;
use crate::copy::testing::{row_texts, table};
use crate::copy::{CopyReport, ResultWriter};
use crate::copy::options::Format;
use crate::session::progress::{CancelToken, Progress};
use alluvia_catalog::{Catalog, DictionaryMark, TableEntry};
use alluvia_snapshot::{
    BatchInfo, Committed, Durability, Load, NewBatch, ProducerMark, Snapshot, StageInfo, StagedLoad, Store, StoreInfo, Want,
};
use alluvia_space::TableDef;
use alluvia_tree::SegmentMeta;
use alluvia_types::{Clock, Error, ErrorKind, ManualClock, Result, Stage, TableId, Version};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Remembers batches. Staged rows count only once their load is committed.
#[derive(Debug)]
struct FakeStore {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Rows of each committed batch, as text.
    batches: Vec<Vec<Vec<String>>>,
    staged_batches: usize,
    producers: Vec<ProducerMark>,
    finished: Vec<Vec<RecordBatch>>,
    loads_open: usize,
    fail_from_batch: Option<usize>,
}

struct FakeLoad {
    state: Arc<Mutex<State>>,
    rows: Vec<RecordBatch>,
    table: TableId,
}

impl Load for FakeLoad {
    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows.push(rows);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<StagedLoad> {
        let batches = std::mem::take(&mut self.rows);
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        self.state.lock().finished.push(batches);
        let (table, dictionary) = (self.table, DictionaryMark::default());
        Ok(StagedLoad { table, checked_at: Version(3), segments: Vec::new(), dictionary, ranges: Vec::new(), rows })
    }
}

impl Drop for FakeLoad {
    fn drop(&mut self) {
        self.state.lock().loads_open -= 1;
    }
}

impl Store for FakeStore {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn submit(&self, batch: NewBatch, _durability: Durability) -> Result<Committed> {
        let mut state = self.state.lock();
        if state.fail_from_batch == Some(state.batches.len()) {
            return Err(Error::new(ErrorKind::DiskFull, "no space left"));
        }
        let mut batches: Vec<RecordBatch> = batch.rows.iter().flat_map(|rows| rows.batches.clone()).collect();
        if !batch.loads.is_empty() {
            assert_eq!(batch.loads.len(), 1);
            batches.extend(state.finished.pop().expect("a finished load"));
            state.staged_batches += 1;
        }
        assert!(batch.rows.iter().all(|rows| rows.checked_at == Version(3)));
        state.producers.extend(batch.producer);
        let rows = batches.iter().flat_map(row_texts).collect();
        state.batches.push(rows);
        Ok(Committed { version: Version(state.batches.len() as u64), duplicate: false })
    }

    fn begin_load(&self, table: &Arc<TableDef>, _checked_at: Version) -> Result<Box<dyn Load>> {
        self.state.lock().loads_open += 1;
        Ok(Box::new(FakeLoad { state: self.state.clone(), rows: Vec::new(), table: table.id }))
    }

    fn producer(&self, name: &str) -> Option<(ProducerMark, Version)> {
        let state = self.state.lock();
        let last = state.producers.iter().rfind(|mark| mark.name == name)?;
        Some((last.clone(), Version(1)))
    }

    fn catalog(&self) -> Arc<Catalog> {
        unreachable!("a load asks for no definitions")
    }

    fn snapshot(&self, _want: &Want) -> Result<Snapshot> {
        unreachable!("a load reads no rows")
    }

    fn wait_visible(&self, _version: Version) -> Result<()> {
        unreachable!("submit waits")
    }

    fn new_table_id(&self) -> TableId {
        unreachable!("a load makes no table")
    }

    fn organise(&self, _stage: Stage) -> Result<()> {
        unreachable!("a load asks for no merge")
    }

    fn batches(&self, _limit: usize) -> Vec<BatchInfo> {
        unreachable!("a load looks at no batches")
    }

    fn stages(&self) -> Vec<StageInfo> {
        unreachable!("a load looks at no stages")
    }

    fn segments(&self) -> Vec<SegmentMeta> {
        unreachable!("a load looks at no segments")
    }

    fn info(&self) -> StoreInfo {
        unreachable!("a load asks for no state")
    }
}

/// A directory of files and a store to load them into.
struct Bench {
    dir: tempfile::TempDir,
    store: Arc<FakeStore>,
    table: Arc<TableDef>,
    progress: Arc<Progress>,
    cancel: CancelToken,
    inline_bytes_max: usize,
}

impl Bench {
    fn new(columns: &str) -> Bench {
        let store = FakeStore { clock: Arc::new(ManualClock::default()), state: Arc::default() };
        Bench {
            dir: tempfile::tempdir().unwrap(),
            store: Arc::new(store),
            table: table(columns),
            progress: Arc::default(),
            cancel: CancelToken::new(),
            inline_bytes_max: 1 << 20,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    #[allow(clippy::disallowed_methods)] // a user's file
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Bench {
        std::fs::File::create(self.path(name)).unwrap().write_all(bytes.as_ref()).unwrap();
        self
    }

    #[allow(clippy::disallowed_methods)] // a user's file
    fn read(&self, path: &Path) -> String {
        String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
    }

    fn job(&self, source: Source, options: &str) -> LoadJob {
        let sql = format!("COPY t FROM 'x.csv' {options}");
        let dialect = datafusion::sql::sqlparser::dialect::PostgreSqlDialect {};
        let mut parser = datafusion::sql::sqlparser::parser::Parser::new(&dialect).try_with_sql(&sql).unwrap();
        let parsed = crate::copy::parse_copy(&mut parser).unwrap();
        let crate::copy::CopyStatement::From { options, .. } = parsed else { panic!() };
        LoadJob {
            store: self.store.clone(),
            durability: Durability::Sync,
            progress: self.progress.clone(),
            cancel: self.cancel.clone(),
            stdin: None,
            roots: None,
            entry: Arc::new(TableEntry { def: self.table.clone(), changed_at: Version(3) }),
            columns: Vec::new(),
            source,
            options,
            inline_bytes_max: self.inline_bytes_max,
        }
    }

    fn load(&self, pattern: &str, options: &str) -> Result<CopyReport> {
        self.job(Source::Files(self.path(pattern).display().to_string()), options).run()
    }

    fn batches(&self) -> Vec<Vec<Vec<String>>> {
        self.store.state.lock().batches.clone()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.batches().concat()
    }
}

fn refused(result: Result<CopyReport>) -> String {
    result.unwrap_err().message().rsplit_once('/').unwrap().1.to_owned()
}

#[test]
fn all_files_of_a_pattern_are_one_batch_in_name_order() {
    let bench = Bench::new("a BIGINT, b TEXT");
    bench.write("f2.csv", "3,z\n").write("f1.csv", "b,a\nx,1\ny,2\n").write("f3.csv", zstd::encode_all(&b"4,w\n"[..], 1).unwrap());
    let report = bench.load("f*.csv", "").unwrap();
    assert_eq!((report.rows, report.batches, report.skipped), (4, 1, 0));
    assert_eq!(bench.batches(), [[["1", "x"], ["2", "y"], ["3", "z"], ["4", "w"]]]);
    assert_eq!(bench.progress.rows(), 4);
    assert_eq!(bench.progress.bytes_done(), bench.progress.bytes_total());
    assert_eq!(report.committed.unwrap().version, Version(1));
}

#[test]
fn a_refused_load_applies_nothing_and_names_the_place() {
    for inline_bytes_max in [0, 1 << 30] {
        let bench = Bench { inline_bytes_max, ..Bench::new("a BIGINT NOT NULL, b DATE") };
        bench.write("f1.csv", "1,2026-01-01\n2,\n").write("f2.csv", "3,\nfour,2026-01-01\n5,\n");
        assert_eq!(refused(bench.load("f*.csv", "")), "f2.csv, line 2, column a: 'four' is not a valid BIGINT");
        bench.write("f2.csv", "3,\n,\n");
        let error = bench.load("f*.csv", "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotNull);
        assert!(error.hint().unwrap().contains("nothing was loaded"));
        assert_eq!((bench.batches().len(), bench.store.state.lock().loads_open), (0, 0));
    }
}

#[test]
fn large_loads_are_staged_and_small_ones_travel_in_the_log() {
    let text: String = (0..50_000).map(|row| format!("{row},text {row}\n")).collect();
    for (inline_bytes_max, staged) in [(100_000, 1), (1 << 30, 0)] {
        let bench = Bench { inline_bytes_max, ..Bench::new("a BIGINT, b TEXT") };
        bench.write("f.csv", &text);
        assert_eq!(bench.load("f.csv", "").unwrap().rows, 50_000);
        assert_eq!((bench.store.state.lock().staged_batches, bench.store.state.lock().loads_open), (staged, 0));
        assert!(bench.rows().iter().enumerate().all(|(at, row)| row[0] == at.to_string()));
    }
}

#[test]
fn skipping_keeps_exactly_the_bad_rows_with_their_reasons() {
    let bench = Bench::new("a BIGINT NOT NULL, b DOUBLE");
    bench.write("f.csv", "1,1.5\nx,2\n2,\"a, \"\"b\"\"\"\n,3\n3,4,5\n4,\n");
    let report = bench.load("f.csv", "(ON_ERROR skip)").unwrap();
    assert_eq!((report.rows, report.skipped), (2, 4));
    assert_eq!(bench.rows(), [["1", "1.5"], ["4", "NULL"]]);
    let file = report.rejects_file.unwrap();
    assert_eq!(file, bench.path("f.csv.rejects"));
    let text = bench.read(&file);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let records: Vec<Vec<String>> =
        reader.records().map(|record| record.unwrap().iter().skip(1).map(str::to_owned).collect()).collect();
    assert_eq!(
        records,
        [
            ["2", "a", "'x' is not a valid BIGINT", "x,2"],
            ["3", "b", "'a, \"b\"' is not a valid DOUBLE", "2,\"a, \"\"b\"\"\""],
            ["4", "a", "NULL in a NOT NULL column", ",3"],
            ["5", "", "3 fields where 2 are expected", "3,4,5"],
        ]
    );
    bench.write("good.csv", "1,2\n");
    assert_eq!(bench.load("good.csv", "(ON_ERROR skip, REJECTS 'nowhere/x')").unwrap().rejects_file, None);
}

#[test]
fn a_load_in_batches_goes_on_where_it_stopped() {
    let bench = Bench::new("a BIGINT");
    let text: String = (0..25).map(|row| if row % 5 == 4 { "bad\n".into() } else { format!("{row}\n") }).collect();
    bench.write("f.csv", text);
    let options = "(BATCH_ROWS 3, ON_ERROR skip)";
    bench.store.state.lock().fail_from_batch = Some(4);
    assert_eq!(bench.load("f.csv", options).unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(bench.batches().iter().map(Vec::len).collect::<Vec<usize>>(), [3, 3, 3, 3]);
    bench.store.state.lock().fail_from_batch = None;
    let report = bench.load("f.csv", options).unwrap();
    assert_eq!((report.rows, report.batches, report.batches_repeated, report.rows_repeated), (8, 3, 4, 12));
    assert_eq!(report.skipped, 5, "the rejects file is of all the file");
    let want: Vec<Vec<String>> = (0..25).filter(|row| row % 5 != 4).map(|row| vec![row.to_string()]).collect();
    assert_eq!(bench.rows(), want);
    let sequences: Vec<u64> = bench.store.state.lock().producers.iter().map(|mark| mark.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6, 7]);

    let again = bench.load("f.csv", options).unwrap();
    assert_eq!((again.rows, again.batches, again.batches_repeated, again.committed), (0, 0, 7, None));
    // Another batch size would cut other batches, so it is another load.
    assert_eq!(bench.load("f.csv", "(BATCH_ROWS 4, ON_ERROR skip)").unwrap().rows, 20);
}

#[test]
fn a_refusal_among_batches_says_what_is_loaded() {
    let bench = Bench::new("a BIGINT");
    bench.write("f.csv", "1\n2\n3\n4\nx\n");
    // The good rows of a part come with its bad one; batches before it may or may not be committed, and the hint says which.
    let error = bench.load("f.csv", "(BATCH_ROWS 2)").unwrap_err();
    assert!(error.message().ends_with("line 5, column a: 'x' is not a valid BIGINT"), "{error}");
    let loaded = bench.batches().len();
    let hint = error.hint().unwrap();
    assert!(if loaded == 0 { hint.contains("nothing was loaded") } else { hint.contains("are loaded") }, "{hint}");
}

#[test]
fn standard_input_is_read_where_there_is_one() {
    let bench = Bench::new("a BIGINT, b TEXT");
    assert_eq!(bench.job(Source::Stdin, "").run().unwrap_err().kind(), ErrorKind::NotSupported);
    let mut job = bench.job(Source::Stdin, "");
    job.stdin = Some(Box::new(Cursor::new(b"1,x\n")));
    assert_eq!(job.run().unwrap().rows, 1);
    let mut job = bench.job(Source::Stdin, "(FORMAT parquet)");
    job.stdin = Some(Box::new(Cursor::new(b"PAR1")));
    assert_eq!(job.run().unwrap_err().kind(), ErrorKind::NotSupported);
    let mut job = bench.job(Source::Stdin, "(ON_ERROR skip)");
    job.stdin = Some(Box::new(Cursor::new(b"1,x\n")));
    assert!(job.run().unwrap_err().hint().unwrap().contains("REJECTS"));
}

#[test]
fn a_cancelled_load_applies_nothing() {
    let bench = Bench::new("a BIGINT");
    bench.write("f.csv", "1\n2\n");
    bench.cancel.cancel();
    assert_eq!(bench.load("f.csv", "").unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(bench.batches().len(), 0);
}

#[test]
fn an_empty_file_commits_nothing() {
    let bench = Bench::new("a BIGINT");
    bench.write("f.csv", "").write("g.csv", "a\n");
    let report = bench.load("?.csv", "").unwrap();
    assert_eq!((report.rows, report.committed), (0, None));
    assert_eq!(bench.batches().len(), 0);
}

#[test]
fn broken_files_are_refused_by_name() {
    let bench = Bench::new("a BIGINT");
    bench.write("a.parquet", "PAR1 not really PAR1").write("a.arrow", "ARROW1\0\0 nothing").write("a.csv.gz", [0x1f, 0x8b, 1, 2]);
    for name in ["a.parquet", "a.arrow", "a.csv.gz"] {
        let error = bench.load(name, "").unwrap_err();
        assert!(error.message().contains(name), "{error}");
    }
    assert_eq!(bench.batches().len(), 0);
}

const ALL_TYPES: &str = "o BOOLEAN, s SMALLINT, i INT, l BIGINT, r REAL, d DOUBLE, n DECIMAL, y DATE, m TIMESTAMP, z TIMESTAMPTZ, t TEXT, b BYTEA";

fn all_types() -> RecordBatch {
    let bench = Bench::new(ALL_TYPES);
    let text = "true,-32768,2147483647,-9223372036854775808,1.5,NaN,-12345678.91,2026-11-21,1969-12-31 23:59:59.999999,\
                2026-11-21 10:11:12.5+02:00,\"a \"\"q\"\",\u{e9}\nline\",\\x00ff\n\
                ,,,,,,,,,,,\n\
                false,1,2,3,-inf,1e300,0.01,0001-01-01,9999-12-31 00:00:00,1900-01-01 00:00:00Z,\"\",\"\\\\x\"\n";
    let input = crate::copy::csv_in::CsvInput {
        wanted: crate::copy::bind::Wanted::new(&bench.table, &[]).unwrap(),
        table: bench.table.clone(),
        dialect: CopyOptions::default().dialect(None),
        header: crate::copy::Header::No,
        on_error: OnError::Refuse,
    };
    let mut batches = Vec::new();
    let take = |part: crate::copy::rows::Part| {
        assert_eq!(part.rejects, []);
        batches.push(part.rows);
        Ok(())
    };
    input.read(Cursor::new(text.as_bytes().to_vec()), "x", &bench.cancel, take).unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

#[test]
fn every_format_writes_what_it_reads() {
    let batch = all_types();
    assert_eq!(batch.num_rows(), 3);
    for name in ["o.csv", "o.tsv.gz", "o.ndjson", "o.json.zst", "o.parquet", "o.arrow"] {
        let bench = Bench::new(ALL_TYPES);
        let format = Format::from_file_name(name).unwrap();
        let mut writer = ResultWriter::for_file(format, batch.schema(), &CopyOptions::default(), name, Vec::new()).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        let (rows, bytes) = writer.finish().unwrap();
        assert_eq!(rows, 6);
        bench.write(name, bytes);
        assert_eq!(bench.load(name, "").unwrap().rows, 6, "{name}");
        assert_eq!(bench.rows(), [row_texts(&batch), row_texts(&batch)].concat(), "{name}");
    }
}

#[test]
fn parquet_rows_that_do_not_fit_are_named_and_skipped() {
    let source = Bench::new("a BIGINT, b TEXT, extra DOUBLE");
    source.write("f.csv", "1,x,0.5\n70000,y,1\n3,,2\n4,z,3\n");
    let file = source.path("f.parquet");
    source.load("f.csv", "").unwrap();
    let rows = {
        let table = table("a BIGINT, b TEXT, extra DOUBLE");
        let arrays: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(arrow::array::Int64Array::from(vec![1, 70000, 3, 4])),
            Arc::new(arrow::array::StringViewArray::from(vec![Some("x"), Some("y"), None, Some("z")])),
            Arc::new(arrow::array::Float64Array::from(vec![0.5, 1.0, 2.0, 3.0])),
        ];
        crate::copy::assign::storage_batch(&table, arrays, 4).unwrap()
    };
    for name in ["f.parquet", "f.arrow"] {
        let format = Format::from_file_name(name).unwrap();
        let mut writer = ResultWriter::for_file(format, rows.schema(), &CopyOptions::default(), name, Vec::new()).unwrap();
        writer.write(&rows).unwrap();
        let bytes = writer.finish().unwrap().1;
        let bench = Bench::new("a SMALLINT, b TEXT NOT NULL, c INT");
        bench.write(name, bytes);
        let unknown = bench.load(name, "").unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::UndefinedColumn);
        let listed = |options: &str| {
            let mut job = bench.job(Source::Files(bench.path(name).display().to_string()), options);
            job.columns = vec!["a".into(), "b".into()];
            job.run()
        };
        assert_eq!(refused(listed("")), format!("{name}, row 2, column a: '70000' is out of range for SMALLINT"));
        let report = listed("(ON_ERROR skip)").unwrap();
        assert_eq!((report.rows, report.skipped), (2, 2));
        assert_eq!(bench.rows(), [["1", "x", "NULL"], ["4", "z", "NULL"]]);
        let rejects = bench.read(&report.rejects_file.unwrap());
        assert!(rejects.contains(",3,b,NULL in a NOT NULL column,\"{\"\"a\"\":3"), "{rejects}");
    }
    drop(file);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Good rows arrive in order, bad ones in the rejects file, whatever the batches and however often the load is broken off.
    #[test]
    fn rows_are_loaded_once_or_rejected(
        rows in proptest::collection::vec(proptest::option::weighted(0.8, any::<i16>()), 0..60),
        batch_rows in proptest::option::of(1u64..10),
        breaks in proptest::collection::vec(0usize..8, 0..3),
        staged in any::<bool>(),
    ) {
        let bench = Bench { inline_bytes_max: if staged { 0 } else { 1 << 30 }, ..Bench::new("a INT") };
        let text: String = rows.iter().map(|row| row.map_or("oops\n".to_owned(), |value| format!("{value}\n"))).collect();
        bench.write("f.csv", text);
        let batches = batch_rows.map_or(String::new(), |rows| format!(", BATCH_ROWS {rows}"));
        let options = format!("(ON_ERROR skip{batches}, HEADER false)");
        for at in breaks {
            bench.store.state.lock().fail_from_batch = Some(at);
            if batch_rows.is_none() && !bench.batches().is_empty() {
                break;
            }
            let _ = bench.load("f.csv", &options);
        }
        bench.store.state.lock().fail_from_batch = None;
        let done_before = bench.rows().len() as u64;
        let good: Vec<Vec<String>> = rows.iter().flatten().map(|value| vec![value.to_string()]).collect();
        if batch_rows.is_some() || done_before == 0 {
            let report = bench.load("f.csv", &options).unwrap();
            prop_assert_eq!(report.rows, good.len() as u64 - done_before);
            prop_assert_eq!(report.rows_repeated, done_before);
            prop_assert_eq!(report.skipped, (rows.len() - good.len()) as u64);
        }
        prop_assert_eq!(bench.rows(), good);
        prop_assert_eq!(bench.store.state.lock().loads_open, 0);
    }
}
