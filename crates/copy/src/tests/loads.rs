//! COPY FROM: batches, refusals, rejects, resuming.

use super::{Bench, refused};
use crate::progress::{CancelToken, Phase};
use crate::testing::{row_texts, table};
use crate::{Held, IntoStore, IntoTransaction, ResultWriter, Sink};
use alluvia_snapshot::NewBatch;
use alluvia_syntax::copy::options::{CopyOptions, Format, OnError};
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{ErrorKind, ProducerMark, Version};
use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::Arc;

#[test]
fn all_files_of_a_pattern_are_one_batch_in_name_order() {
    let bench = Bench::new("a BIGINT, b TEXT");
    bench
        .write("f2.csv", "3,z\n")
        .write("f1.csv", "b,a\nx,1\ny,2\n")
        .write("f3.csv", zstd::encode_all(&b"4,w\n"[..], 1).unwrap());
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
fn finished_rows_that_no_batch_takes_leave_nothing() {
    let bench = Bench::new("a INT");
    let finished = || {
        let mut sink = Sink::new(bench.store.clone(), bench.table.clone(), Version(3), 0);
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        sink.append(RecordBatch::try_from_iter([("a", column)]).unwrap()).unwrap();
        sink.finish().unwrap()
    };
    let staged = || bench.store.state.lock().finished.len();
    let rows = finished();
    assert_eq!(staged(), 1);
    drop(rows);
    assert_eq!(staged(), 0, "nobody was left to commit them");
    let mut batch = NewBatch::default();
    finished().add_to(&mut batch);
    assert_eq!((batch.loads.len(), staged()), (1, 1), "they are the batch's");
}

#[test]
fn large_loads_are_staged_and_small_ones_travel_in_the_log() {
    let text: String = (0..50_000).map(|row| format!("{row},text {row}\n")).collect();
    for (inline_bytes_max, staged) in [(100_000, 1), (1 << 30, 0)] {
        let bench = Bench { inline_bytes_max, ..Bench::new("a BIGINT, b TEXT") };
        bench.write("f.csv", &text);
        assert_eq!(bench.load("f.csv", "").unwrap().rows, 50_000);
        let state = bench.store.state.lock();
        assert_eq!((state.staged_batches, state.loads_open), (staged, 0));
        drop(state);
        assert!(bench.rows().iter().enumerate().all(|(at, row)| row[0] == at.to_string()));
    }
}

#[test]
fn rows_for_a_transaction_are_held_within_its_bound_and_nothing_is_committed() {
    let text: String = (0..50_000).map(|row| format!("{row},text {row}\n")).collect();
    for (bytes_max, fits) in [(100_000, false), (1 << 30, true)] {
        let bench = Bench { inline_bytes_max: 0, ..Bench::new("a BIGINT, b TEXT") };
        bench.write("f.csv", &text);
        let held = Arc::new(Mutex::new(Held::new(bytes_max)));
        let job = bench.job(Source::Files(bench.path("f.csv").display().to_string()), "");
        let report = job.run(Box::new(IntoTransaction(Arc::clone(&held))));
        if fits {
            let report = report.unwrap();
            assert_eq!((report.rows, report.batches, report.committed), (50_000, 0, None));
            let rows: Vec<Vec<String>> = held.lock().batches.iter().flat_map(row_texts).collect();
            assert!(rows.len() == 50_000 && rows.iter().enumerate().all(|(at, row)| row[0] == at.to_string()));
        } else {
            assert_eq!(report.unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
        assert_eq!((bench.batches().len(), bench.store.state.lock().loads_open, bench.told.lock().len()), (0, 0, 0));
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
fn bad_rows_never_take_the_place_of_what_is_loaded() {
    let bench = Bench::new("a BIGINT");
    let file = bench.path("own.csv");
    bench.write("own.csv", "1\nbad\n");
    let around = bench.path("").join("..").join(file.parent().unwrap().file_name().unwrap()).join("own.csv");
    for rejects in [&file, &around] {
        let error = bench.load("own.csv", &format!("(ON_ERROR skip, REJECTS '{}')", rejects.display())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{error}");
        assert!(error.message().contains("which is to be loaded") && error.hint().is_some(), "{error}");
    }
    assert_eq!(bench.read(&file), "1\nbad\n");
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
fn a_refused_load_in_batches_goes_on_with_skip() {
    let bench = Bench::new("a BIGINT");
    bench.write("f1.csv", "1\n2\n3\n").write("f2.csv", "4\nx\n5\n");
    let error = bench.load("f?.csv", "(BATCH_ROWS 2)").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidText);
    let hint = error.hint().unwrap();
    assert!(hint.contains("the first 2 rows are loaded") && hint.contains("ON_ERROR skip"), "{hint}");
    assert_eq!(bench.batches(), [[["1"], ["2"]]]);
    assert_eq!(*bench.told.lock(), [Version(1)], "the session knows what it committed before the refusal");
    let report = bench.load("f?.csv", "(BATCH_ROWS 2, ON_ERROR skip)").unwrap();
    assert_eq!((report.rows, report.batches_repeated, report.skipped), (3, 1, 1));
    assert_eq!(bench.rows().concat(), ["1", "2", "3", "4", "5"]);
    assert_eq!(*bench.told.lock(), [Version(1), Version(2), Version(3)]);
    let elsewhere = format!("(BATCH_ROWS 2, ON_ERROR skip, REJECTS '{}')", bench.path("bad.csv").display());
    let report = bench.load("f?.csv", &elsewhere).unwrap();
    assert_eq!((report.rows, report.batches_repeated, report.rejects_file), (0, 3, Some(bench.path("bad.csv"))));
}

#[test]
fn a_load_that_is_one_batch_has_the_number_of_the_sessions_producer() {
    let bench = Bench::new("a BIGINT");
    bench.write("f.csv", "1\n2\n");
    let mark = ProducerMark { name: "p".into(), epoch: 2, sequence: 1 };
    let load = |options: &str| {
        let job = bench.job(Source::Files(bench.path("f.csv").display().to_string()), options);
        job.run(Box::new(IntoStore { mark: Some(mark.clone()), ..bench.store_of() }))
    };
    let report = load("").unwrap();
    assert_eq!((report.rows, report.committed.unwrap().duplicate), (2, false));
    assert_eq!(bench.store.state.lock().producers, std::slice::from_ref(&mark));
    let again = load("").unwrap();
    assert_eq!((again.rows, again.committed.unwrap().duplicate), (0, true));
    assert_eq!(bench.batches().len(), 1);
    let both = load("(BATCH_ROWS 1)").unwrap_err();
    assert_eq!(both.kind(), ErrorKind::NotSupported);
    assert!(both.message().contains("BATCH_ROWS") && both.hint().is_some(), "{both}");
}

#[test]
fn standard_input_is_read_where_there_is_one() {
    let bench = Bench::new("a BIGINT, b TEXT");
    assert_eq!(bench.run(bench.job(Source::Stdin, "")).unwrap_err().kind(), ErrorKind::NotSupported);
    let mut job = bench.job(Source::Stdin, "");
    job.stdin = Some(Box::new(Cursor::new(b"1,x\n")));
    assert_eq!(bench.run(job).unwrap().rows, 1);
    let mut job = bench.job(Source::Stdin, "(FORMAT parquet)");
    job.stdin = Some(Box::new(Cursor::new(b"PAR1")));
    assert_eq!(bench.run(job).unwrap_err().kind(), ErrorKind::NotSupported);
    let batches = bench.run(bench.job(Source::Stdin, "(BATCH_ROWS 1)")).unwrap_err();
    assert!(batches.kind() == ErrorKind::NotSupported && batches.message().contains("BATCH_ROWS"), "{batches}");
}

#[test]
fn bad_rows_of_standard_input_are_counted_where_no_file_has_them() {
    let bench = Bench::new("a BIGINT, b TEXT");
    let skip = |text: &'static str, options: &str| {
        let mut job = bench.job(Source::Stdin, options);
        if job.options.rejects.is_none() {
            job.options.on_error = OnError::Count;
        }
        job.stdin = Some(Box::new(Cursor::new(text.as_bytes())));
        let report = bench.run(job).unwrap();
        (report.rows, report.notices(false))
    };
    let of = |rows: u64, notice: &str| (rows, vec![notice.to_owned()]);
    let first = "standard input, line 2, column a: 'x' is not a valid BIGINT";
    assert_eq!(skip("1,a\nx,b\n", "(ON_ERROR skip)"), of(1, &format!("1 bad row was skipped; {first}")));
    let three = "1,a\nx,b\ny,c\n2\n3,d\n";
    let notice = format!("3 bad rows were skipped; the first: {first}");
    assert_eq!(skip(three, "(ON_ERROR ignore)"), of(2, &notice));
    let rejects = bench.path("bad.csv");
    let (rows, notices) = skip(three, &format!("(ON_ERROR skip, REJECTS '{}')", rejects.display()));
    assert_eq!((rows, notices), of(2, &format!("3 bad rows were skipped; they are in {}", rejects.display())));
    assert_eq!(bench.read(&rejects).lines().count(), 4);
}

#[test]
fn a_quote_that_takes_in_the_rest_of_a_file_is_told() {
    let bench = Bench::new("a BIGINT, b TEXT");
    bench.write("f.csv", "1,a\n2,\"b\n3,c\n4,d\n").write("g.csv", "1,a\n2,\"b\n");
    let told = |name: &str| {
        let report = bench.load(name, "(ON_ERROR skip)").unwrap();
        assert_eq!((report.rows, report.skipped), (1, 1));
        report.notices(false)
    };
    let notices = told("f.csv");
    let file = bench.path("f.csv").display().to_string();
    assert_eq!(notices[0], format!("1 bad row was skipped; it is in {file}.rejects"));
    let swallowed =
        "line 2: the bad row that begins here is 3 lines, to line 4, which a quote took in: is it unclosed?";
    assert_eq!(notices[1..], [format!("{file}, {swallowed}")]);
    assert_eq!(told("g.csv").len(), 1, "a line alone hides no other");
}

#[test]
fn an_exact_load_changes_no_value_of_any_format() {
    let bench = Bench::new("a BIGINT, d DATE");
    bench.write("f.csv", "a,d\n01234,2026-01-03\n0,2026-01-03 23:59:59\n-7,2026-01-03\n").write(
        "f.ndjson",
        "{\"a\": \"01234\"}\n{\"d\": \"2026-01-03 23:59:59\"}\n{\"a\": -7, \"d\": \"2026-01-03\"}\n",
    );
    for name in ["f.csv", "f.ndjson"] {
        assert_eq!(bench.load(name, "").unwrap().rows, 3, "as PostgreSQL assigns");
        let error = bench.load(name, "(EXACT)").unwrap_err();
        assert!(error.message().ends_with("column a: '01234' would be changed to be a BIGINT"), "{error}");
        assert!(error.hint().unwrap().contains("TEXT"), "{error}");
        let report = bench.load(name, "(EXACT, ON_ERROR skip)").unwrap();
        assert_eq!((report.rows, report.skipped), (1, 2), "{name}");
    }
    // A file that says its types is refused as a whole.
    let doubles = {
        let table = table("a DOUBLE");
        let values: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(vec![1.0, 2.6]))];
        crate::assign::storage_batch(&table, values, 2, &Default::default()).unwrap()
    };
    for name in ["f.parquet", "f.arrow"] {
        let format = Format::from_file_name(name).unwrap();
        let mut writer =
            ResultWriter::for_file(format, doubles.schema(), &CopyOptions::default(), name, Vec::new()).unwrap();
        writer.write(&doubles).unwrap();
        bench.write(name, writer.finish().unwrap().1);
        assert_eq!(bench.load(name, "").unwrap().rows, 2, "as PostgreSQL assigns");
        for options in ["(EXACT)", "(EXACT, ON_ERROR skip)"] {
            let error = bench.load(name, options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DatatypeMismatch);
            let words = format!("{name}: column a is DOUBLE, whose values would be changed to be BIGINT");
            assert!(error.message().ends_with(&words), "{error}");
        }
    }
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
fn a_load_that_is_cancelled_while_it_finishes_commits_nothing() {
    let bench = Bench { inline_bytes_max: 0, ..Bench::new("a BIGINT") };
    bench.write("f.csv", "1\nx\n2\n");
    bench.store.state.lock().cancel_in_finish = Some(bench.cancel.clone());
    assert_eq!(bench.load("f.csv", "(ON_ERROR skip)").unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!((bench.batches().len(), bench.told.lock().len()), (0, 0));
    assert!(bench.store.state.lock().finished.is_empty(), "what was staged is removed");
    assert_eq!(bench.files(), ["f.csv"], "the rejects file goes with the load");
}

#[test]
fn a_load_that_is_cancelled_while_it_commits_is_known_to_be_committed() {
    let bench = Bench::new("a BIGINT");
    bench.write("f.csv", "1\nx\n2\n");
    bench.store.state.lock().cancel_in_submit = Some(bench.cancel.clone());
    let report = bench.load("f.csv", "(ON_ERROR skip)").unwrap();
    assert_eq!((report.rows, bench.progress.phase()), (2, Phase::Committing));
    assert_eq!(report.rejects_file, Some(bench.path("f.csv.rejects")));

    let bench = Bench { cancel: CancelToken::new(), ..bench };
    {
        let mut state = bench.store.state.lock();
        (state.cancel_in_submit, state.fail_from_batch) = (Some(bench.cancel.clone()), Some(1));
    }
    let error = bench.load("f.csv", "(ON_ERROR skip)").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "what a commit ran into is told as it is");
    assert!(bench.cancel.is_cancelled());
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
    bench
        .write("a.parquet", "PAR1 not really PAR1")
        .write("a.arrow", "ARROW1\0\0 nothing")
        .write("a.csv.gz", [0x1f, 0x8b, 1, 2]);
    for name in ["a.parquet", "a.arrow", "a.csv.gz"] {
        let error = bench.load(name, "").unwrap_err();
        assert!(error.message().contains(name), "{error}");
    }
    assert_eq!(bench.batches().len(), 0);
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
