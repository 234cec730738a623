//! The examples of the table of functions, as a user would write them.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_functions::table::{Entry, entries};
use alluvia_node::Database;
use alluvia_query::Session;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

/// What the example gives, a line a row.
async fn value_of(session: &Session, entry: &Entry) -> Result<String, alluvia_types::Error> {
    let example = entry.example.sql;
    let query = if example.starts_with("SELECT ") { example.to_owned() } else { format!("SELECT {example}") };
    let sql = format!("SELECT value::text FROM ({query}) AS example(value)");
    let mut lines = Vec::new();
    for batch in session.sql(&sql).await?.collect().await? {
        let texts = cast(batch.column(0), &DataType::Utf8View).unwrap();
        let texts = texts.as_string_view();
        lines.extend((0..texts.len()).map(|row| if texts.is_null(row) { "NULL" } else { texts.value(row) }.to_owned()));
    }
    Ok(lines.join("\n"))
}

#[test]
fn every_example_gives_what_it_says() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let session = db.session();
    let mut wrong = Vec::new();
    for entry in entries().filter(|entry| !entry.example.sql.is_empty()) {
        match runtime.block_on(value_of(&session, entry)) {
            Ok(gives) if gives == entry.example.gives => {}
            Ok(gives) => wrong
                .push(format!("{}: {} gives {gives:?}, not {:?}", entry.name, entry.example.sql, entry.example.gives)),
            Err(error) => wrong.push(format!("{}: {}: {error}", entry.name, entry.example.sql)),
        }
    }
    assert!(wrong.is_empty(), "{} examples:\n{}", wrong.len(), wrong.join("\n"));
}
