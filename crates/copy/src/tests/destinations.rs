//! What a destination of the caller's own is told, and when.

use super::Bench;
use crate::testing::row_texts;
use crate::{CopyReport, Destination};
use alluvia_snapshot::Committed;
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, Version};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::sync::Arc;

/// Writes down what it is told; so many batches of every producer were there before.
struct RecordingDestination {
    events: Arc<Mutex<Vec<String>>>,
    before: u64,
    /// The error of rows, if they are refused.
    refusal: Option<Error>,
}

impl RecordingDestination {
    fn note(&self, event: impl Into<String>) {
        self.events.lock().push(event.into());
    }
}

impl Destination for RecordingDestination {
    fn resume(&mut self, producer: &str) -> Result<u64> {
        assert!(producer.starts_with("copy f.csv "), "{producer}");
        self.note("resume");
        Ok(self.before)
    }

    fn begin(&mut self, number: Option<ProducerMark>) -> Result<()> {
        self.note(number.map_or("begin".to_owned(), |mark| format!("begin {}.{}", mark.epoch, mark.sequence)));
        Ok(())
    }

    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        self.note(row_texts(&rows).concat().join(" "));
        self.refusal.take().map_or(Ok(()), Err)
    }

    fn commit(&mut self) -> Result<Option<Committed>> {
        self.note("commit");
        Ok(Some(Committed { version: Version(7), duplicate: false, passed_over: 0 }))
    }

    fn end(&mut self) -> Result<()> {
        self.note("end");
        Ok(())
    }
}

impl Drop for RecordingDestination {
    fn drop(&mut self) {
        self.note("dropped");
    }
}

fn load(bench: &Bench, options: &str, before: u64, refusal: Option<Error>) -> (Result<CopyReport>, Vec<String>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = RecordingDestination { events: Arc::clone(&events), before, refusal };
    let job = bench.job(Source::Files(bench.path("f.csv").display().to_string()), options);
    let loaded = job.run(Box::new(told));
    let events = std::mem::take(&mut *events.lock());
    (loaded, events)
}

#[test]
fn batches_are_begun_filled_and_committed_one_after_the_other() {
    let bench = Bench::new("a BIGINT");
    bench.write("f.csv", "1\n2\n3\n");
    let (report, events) = load(&bench, "", 0, None);
    assert_eq!(events, ["begin", "1 2 3", "commit", "end", "dropped"]);
    assert_eq!(report.unwrap().rows, 3);
    let (report, events) = load(&bench, "(BATCH_ROWS 2)", 0, None);
    assert_eq!(events, ["resume", "begin 1.1", "1 2", "commit", "begin 1.2", "3", "commit", "end", "dropped"]);
    assert_eq!(report.unwrap().batches, 2);
    // What was committed before is not even begun.
    let (report, events) = load(&bench, "(BATCH_ROWS 2)", 1, None);
    assert_eq!(events, ["resume", "begin 1.2", "3", "commit", "end", "dropped"]);
    let report = report.unwrap();
    assert_eq!((report.rows, report.rows_repeated, report.batches_repeated), (1, 2, 1));
    assert_eq!(report.notices(false), ["1 batch had been loaded before, and was left out"]);
    bench.write("f.csv", "");
    assert_eq!(load(&bench, "", 0, None).1, ["end", "dropped"]);
    assert_eq!(bench.batches().len(), 0, "the store knows nothing of it");
}

#[test]
fn a_load_that_fails_commits_nothing_of_its_batch() {
    let bench = Bench::new("a BIGINT");
    bench.write("f.csv", "1\n2\n3\n");
    let refusal = Error::new(ErrorKind::Forbidden, "it may not");
    let (refused, events) = load(&bench, "", 0, Some(refusal));
    assert_eq!(
        (refused.unwrap_err().message(), events.as_slice()),
        ("it may not", ["begin", "1 2 3", "dropped"].map(str::to_owned).as_slice())
    );
    bench.write("f.csv", "1\nx\n");
    let (refused, events) = load(&bench, "", 0, None);
    assert_eq!(
        (refused.unwrap_err().kind(), events.as_slice()),
        (ErrorKind::InvalidText, ["dropped".to_owned()].as_slice())
    );
}
