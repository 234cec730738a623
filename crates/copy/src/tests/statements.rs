//! The two public calls: what they do when they end, fail or are dropped.

use super::Bench;
use crate::progress::Phase;
use crate::testing::table;
use crate::{CopyContext, CopyReport, copy_from, copy_to};
use alluvia_syntax::copy::options::{CopyOptions, Format};
use alluvia_syntax::copy::statement::{Source, Target};
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Int64Array, RecordBatch};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

fn context(bench: &Bench) -> CopyContext {
    CopyContext {
        body: Default::default(),
        progress: bench.progress.clone(),
        cancel: bench.cancel.clone(),
        streams: Streams::default(),
        places: bench.places(),
        rules: None,
    }
}

/// A COPY FROM of the bench's context and table.
fn load(bench: &Bench, context: CopyContext, source: Source) -> BoxFuture<'static, Result<CopyReport>> {
    copy_from(context, bench.entry(), Vec::new(), source, CopyOptions::default(), Box::new(bench.store_of()))
}

/// A COPY TO of so many batches, then perhaps of an error.
fn write(
    context: CopyContext,
    batches: usize,
    error: Option<Error>,
    target: Target,
    options: CopyOptions,
) -> BoxFuture<'static, Result<u64>> {
    let batch = |first: usize| {
        let values: Int64Array = (first as i64 * 2..first as i64 * 2 + 2).collect();
        crate::assign::storage_batch(&table("a BIGINT"), vec![Arc::new(values)], 2, &Default::default()).unwrap()
    };
    let rows: Vec<Result<RecordBatch>> = (0..batches).map(|at| Ok(batch(at))).chain(error.map(Err)).collect();
    copy_to(context, batch(0).schema(), stream::iter(rows).boxed(), target, options)
}

/// Never ends and never gives anything.
struct Silent;

impl Read for Silent {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        loop {
            std::thread::park();
        }
    }
}

/// What is written to it, for others to see.
#[derive(Clone, Default)]
struct Shared(Arc<parking_lot::Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_copy_to_writes_copy_from_reads() {
    let bench = Bench::new("a BIGINT");
    let file = bench.path("out.csv.gz");
    let target = Target::File(file.clone());
    let written = write(context(&bench), 3, None, target, CopyOptions::default()).await.unwrap();
    assert_eq!(written, 6);
    let source = Source::Files(file.display().to_string());
    let report = load(&bench, context(&bench), source).await.unwrap();
    assert_eq!((report.rows, bench.progress.phase()), (6, Phase::Idle));
    assert_eq!(*bench.told.lock(), [report.committed.unwrap().version]);
    assert_eq!(bench.rows().concat(), ["0", "1", "2", "3", "4", "5"]);
    assert!(!bench.cancel.is_cancelled(), "a statement that ended is not cancelled");

    let out = Shared::default();
    let mut to_stdout = context(&bench);
    to_stdout.streams.stdout = Some(Box::new(out.clone()));
    let options = CopyOptions { format: Some(Format::JsonArray), ..CopyOptions::default() };
    write(to_stdout, 1, None, Target::Stdout, options).await.unwrap();
    assert_eq!(String::from_utf8(out.0.lock().clone()).unwrap(), "[{\"a\":0},{\"a\":1}]\n");
    let refused = write(context(&bench), 1, None, Target::Stdout, CopyOptions::default()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotSupported);
}

#[tokio::test]
async fn a_result_that_fails_leaves_no_file() {
    let bench = Bench::new("a BIGINT");
    for name in ["out.csv", "out.parquet"] {
        let error = Some(Error::new(ErrorKind::OutOfMemory, "too much"));
        let failed = write(context(&bench), 2, error, Target::File(bench.path(name)), CopyOptions::default()).await;
        assert!(failed.unwrap_err().message().contains("too much"));
    }
    bench.cancel.cancel();
    let cancelled = write(context(&bench), 2, None, Target::File(bench.path("out.csv")), CopyOptions::default());
    assert_eq!(cancelled.await.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(bench.files(), Vec::<String>::new());
}

#[tokio::test]
async fn a_dropped_load_stops_its_threads() {
    let bench = Bench { inline_bytes_max: 0, ..Bench::new("a BIGINT") };
    let mut from_stdin = context(&bench);
    from_stdin.streams.stdin = Some(Box::new(std::io::Cursor::new(b"1\n2\n".to_vec()).chain(Silent)));
    let load = load(&bench, from_stdin, Source::Stdin);
    assert!(tokio::time::timeout(Duration::from_millis(200), load).await.is_err(), "there is no end of the input");
    assert!(bench.cancel.is_cancelled());
    assert_eq!(bench.batches().len(), 0);
}

#[tokio::test]
async fn a_cancelled_load_from_a_silent_input_ends_at_once() {
    let bench = Bench::new("a BIGINT");
    let mut from_stdin = context(&bench);
    from_stdin.streams.stdin = Some(Box::new(Silent));
    let cancel = bench.cancel.clone();
    let load = tokio::spawn(load(&bench, from_stdin, Source::Stdin));
    tokio::time::sleep(Duration::from_millis(20)).await;
    cancel.cancel();
    assert_eq!(load.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
}
