//! COPY from end to end, over a store that only remembers.

mod destinations;
mod formats;
mod loads;
mod mutated;
mod statements;
mod urls;

use crate::load::LoadJob;
use crate::progress::{CancelToken, Progress};
use crate::testing::{row_texts, table};
use crate::{CopyPlaces, CopyReport, Fetch, IntoStore, Spool};
use alluvia_catalog::{DictionaryMark, TableEntry};
use alluvia_snapshot::{
    BatchKey, Committed, Done, Durability, Ingest, KeyRecord, Load, NewBatch, RowChange, StagedLoad,
};
use alluvia_space::TableDef;
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, TableId, Version};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Remembers batches. Staged rows count only once their load is committed.
#[derive(Debug)]
struct FakeStore {
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
    /// Stopped while a staged load is being finished.
    cancel_in_finish: Option<CancelToken>,
    /// Stopped while a batch is being committed.
    cancel_in_submit: Option<CancelToken>,
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
        let mut state = self.state.lock();
        state.finished.push(batches);
        if let Some(cancel) = &state.cancel_in_finish {
            cancel.cancel();
        }
        drop(state);
        let (table, dictionary) = (self.table, DictionaryMark::default());
        let (segments, ranges, change) = (Vec::new(), Vec::new(), RowChange::Insert);
        let staging = Default::default();
        Ok(StagedLoad { table, checked_at: Version(3), segments, dictionary, ranges, rows, change, staging })
    }
}

impl Drop for FakeLoad {
    fn drop(&mut self) {
        self.state.lock().loads_open -= 1;
    }
}

impl Ingest for FakeStore {
    fn submit(&self, batch: NewBatch, _durability: Durability) -> Result<Committed> {
        let mut state = self.state.lock();
        if let Some(cancel) = &state.cancel_in_submit {
            cancel.cancel();
        }
        if state.fail_from_batch == Some(state.batches.len()) {
            return Err(Error::new(ErrorKind::DiskFull, "no space left"));
        }
        if let Some(mark) = &batch.producer
            && state.producers.contains(mark)
        {
            return Ok(Committed { version: Version(1), duplicate: true, passed_over: 0 });
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
        Ok(Committed { version: Version(state.batches.len() as u64), duplicate: false, passed_over: 0 })
    }

    fn begin_load(&self, table: &Arc<TableDef>, _checked_at: Version) -> Result<Box<dyn Load>> {
        self.state.lock().loads_open += 1;
        Ok(Box::new(FakeLoad { state: self.state.clone(), rows: Vec::new(), table: table.id }))
    }

    fn discard(&self, batch: NewBatch) {
        let mut state = self.state.lock();
        for _ in batch.loads {
            state.finished.pop().expect("a finished load");
        }
    }

    fn producer(&self, name: &str) -> Option<(ProducerMark, Version)> {
        let state = self.state.lock();
        let last = state.producers.iter().rfind(|mark| mark.name == name)?;
        Some((last.clone(), Version(1)))
    }

    fn keyed(&self, _key: BatchKey) -> Option<KeyRecord> {
        None
    }

    fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)> {
        Some((batch, done))
    }

    fn new_table_id(&self) -> TableId {
        unreachable!("a load makes no table")
    }
}

/// A directory of files and a store to load them into.
struct Bench {
    dir: tempfile::TempDir,
    store: Arc<FakeStore>,
    table: Arc<TableDef>,
    progress: Arc<Progress>,
    cancel: CancelToken,
    /// What the session was told of.
    told: Arc<Mutex<Vec<Version>>>,
    inline_bytes_max: usize,
    fetch: Option<Arc<dyn Fetch>>,
    spool: Spool,
    unpacked_bytes_max: Option<u64>,
}

impl Bench {
    fn new(columns: &str) -> Bench {
        let store = FakeStore { state: Arc::default() };
        let dir = tempfile::tempdir().unwrap();
        Bench {
            spool: Spool::in_dir(&dir.path().join("spool"), 1 << 20),
            unpacked_bytes_max: None,
            dir,
            store: Arc::new(store),
            table: table(columns),
            progress: Arc::default(),
            cancel: CancelToken::new(),
            told: Arc::default(),
            inline_bytes_max: 1 << 20,
            fetch: None,
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

    /// Names of the files, hidden ones too, beside the directory of what is spooled.
    #[allow(clippy::disallowed_methods)] // a user's directory
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "spool").collect()
    }

    fn places(&self) -> CopyPlaces {
        let unpacked_bytes_max = self.unpacked_bytes_max;
        CopyPlaces { unpacked_bytes_max, ..CopyPlaces::anywhere(self.fetch.clone(), self.spool.clone()) }
    }

    fn entry(&self) -> Arc<TableEntry> {
        Arc::new(TableEntry::new(self.table.clone(), Version(3)))
    }

    fn store_of(&self) -> IntoStore {
        let told = self.told.clone();
        IntoStore {
            ingest: self.store.clone(),
            entry: self.entry(),
            durability: Durability::Sync,
            progress: self.progress.clone(),
            cancel: self.cancel.clone(),
            on_commit: Arc::new(move |committed: Committed| told.lock().push(committed.version)),
            mark: None,
            key: None,
            heeds: None,
            inline_bytes_max: self.inline_bytes_max,
            change: RowChange::of_table(&self.table),
            mixed: None,
            batch: None,
        }
    }

    fn job(&self, source: Source, options: &str) -> LoadJob {
        let sql = format!("COPY t FROM 'x.csv' {options}");
        let dialect = sqlparser::dialect::PostgreSqlDialect {};
        let mut parser = sqlparser::parser::Parser::new(&dialect).try_with_sql(&sql).unwrap();
        let parsed = alluvia_syntax::copy::statement::parse_copy(&mut parser).unwrap();
        let alluvia_syntax::copy::statement::CopyStatement::From { options, .. } = parsed else { panic!() };
        LoadJob {
            progress: self.progress.clone(),
            cancel: self.cancel.clone(),
            stdin: None,
            body: Default::default(),
            places: self.places(),
            rules: None,
            entry: self.entry(),
            columns: Vec::new(),
            source,
            options,
            read_as: None,
        }
    }

    fn run(&self, job: LoadJob) -> Result<CopyReport> {
        job.run(Box::new(self.store_of()))
    }

    fn load(&self, pattern: &str, options: &str) -> Result<CopyReport> {
        self.run(self.job(Source::Files(self.path(pattern).display().to_string()), options))
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
