//! Every format out and in again.

use super::{Bench, refused};
use crate::ResultWriter;
use crate::bind::Wanted;
use crate::csv_in::CsvInput;
use crate::rows::Part;
use crate::testing::{row_texts, table};
use alluvia_syntax::copy::options::{CopyOptions, Format, Header, OnError};
use alluvia_syntax::copy::statement::Source;
use alluvia_types::ErrorKind;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use std::io::Cursor;
use std::sync::Arc;

const ALL_TYPES: &str = "o BOOLEAN, s SMALLINT, i INT, l BIGINT, r REAL, d DOUBLE, n DECIMAL, y DATE, m TIMESTAMP, z TIMESTAMPTZ, t TEXT, b BYTEA";

fn all_types() -> RecordBatch {
    let bench = Bench::new(ALL_TYPES);
    let text = "true,-32768,2147483647,-9223372036854775808,1.5,NaN,-12345678.91,2026-11-21,1969-12-31 23:59:59.999999,\
                2026-11-21 10:11:12.5+02:00,\"a \"\"q\"\",\u{e9}\nline\",\\x00ff\n\
                ,,,,,,,,,,,\n\
                false,1,2,3,-inf,1e300,0.01,0001-01-01,9999-12-31 00:00:00,1900-01-01 00:00:00Z,\"\",\"\\\\x\"\n";
    let input = CsvInput {
        wanted: Wanted::new(&bench.table, &[]).unwrap(),
        table: bench.table.clone(),
        dialect: CopyOptions::default().dialect(None),
        header: Header::No,
        on_error: OnError::Refuse,
    };
    let mut batches = Vec::new();
    let take = |part: Part| {
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
        let mut writer =
            ResultWriter::for_file(format, batch.schema(), &CopyOptions::default(), name, Vec::new()).unwrap();
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
    let rows = {
        let table = table("a BIGINT, b TEXT, extra DOUBLE");
        let arrays: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(arrow::array::Int64Array::from(vec![1, 70000, 3, 4])),
            Arc::new(arrow::array::StringViewArray::from(vec![Some("x"), Some("y"), None, Some("z")])),
            Arc::new(arrow::array::Float64Array::from(vec![0.5, 1.0, 2.0, 3.0])),
        ];
        crate::assign::storage_batch(&table, arrays, 4, &Default::default()).unwrap()
    };
    for name in ["f.parquet", "f.arrow"] {
        let format = Format::from_file_name(name).unwrap();
        let mut writer =
            ResultWriter::for_file(format, rows.schema(), &CopyOptions::default(), name, Vec::new()).unwrap();
        writer.write(&rows).unwrap();
        let bytes = writer.finish().unwrap().1;
        let bench = Bench::new("a SMALLINT, b TEXT NOT NULL, c INT");
        bench.write(name, bytes);
        let unknown = bench.load(name, "").unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::UndefinedColumn);
        let listed = |options: &str| {
            let mut job = bench.job(Source::Files(bench.path(name).display().to_string()), options);
            job.columns = vec!["a".into(), "b".into()];
            bench.run(job)
        };
        assert_eq!(refused(listed("")), format!("{name}, row 2, column a: '70000' is out of range for SMALLINT"));
        let report = listed("(ON_ERROR skip)").unwrap();
        assert_eq!((report.rows, report.skipped), (2, 2));
        assert_eq!(bench.rows(), [["1", "x", "NULL"], ["4", "z", "NULL"]]);
        let rejects = bench.read(&report.rejects_file.unwrap());
        assert!(rejects.contains(",3,b,NULL in a NOT NULL column,\"{\"\"a\"\":3"), "{rejects}");
    }
}

#[test]
fn rejected_rows_have_their_columns_in_the_order_of_the_file() {
    // Wide columns among narrow ones: threads that share them take them in another order.
    let rows = {
        let table = table("a BIGINT, b TEXT, c BIGINT, d TEXT, e BIGINT");
        let numbers = |first: i64| -> arrow::array::ArrayRef {
            Arc::new(arrow::array::Int64Array::from(vec![first, first + 1, 70_000]))
        };
        let texts = |text: &str| -> arrow::array::ArrayRef {
            Arc::new(arrow::array::StringViewArray::from(vec![text.repeat(50).as_str(), "y", "z"]))
        };
        let arrays = vec![numbers(1), texts("b"), numbers(5), texts("d"), numbers(9)];
        crate::assign::storage_batch(&table, arrays, 3, &Default::default()).unwrap()
    };
    for name in ["f.parquet", "f.arrow"] {
        let format = Format::from_file_name(name).unwrap();
        let mut writer =
            ResultWriter::for_file(format, rows.schema(), &CopyOptions::default(), name, Vec::new()).unwrap();
        writer.write(&rows).unwrap();
        let bench = Bench::new("e INT, d TEXT, c INT, b TEXT, a SMALLINT");
        bench.write(name, writer.finish().unwrap().1);
        let report = bench.load(name, "(ON_ERROR skip)").unwrap();
        assert_eq!((report.rows, report.skipped), (2, 1), "{name}");
        let rejects = bench.read(&report.rejects_file.unwrap()).replace("\"\"", "'");
        let record = "{'a':70000,'b':'z','c':70000,'d':'z','e':70000}";
        assert!(rejects.contains(record), "{name}: {rejects}");
    }
}
