//! SQL behaviour, from the `.slt` files beside this one. Each file gets a database of its own.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::Database;
use alluvia_plan::plan_check::{check_every_plan, functions_survive_encoding};
use alluvia_query::Session;
use alluvia_space::DataType as StoredType;
use alluvia_types::Error;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Decimal128Type, Field, Time64MicrosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Connection {
    session: Session,
}

#[derive(Debug)]
struct Refused(Error);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0.sqlstate(), self.0)
    }
}

impl std::error::Error for Refused {}

#[async_trait::async_trait]
impl AsyncDB for Connection {
    type Error = Refused;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Refused> {
        let outcome = self.session.sql(sql).await.map_err(Refused)?;
        if outcome.rows.is_none() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let batches = outcome.collect().await.map_err(Refused)?;
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        let mut width = 0;
        for batch in &batches {
            width = batch.num_columns();
            let columns: Vec<ArrayFormatter> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
                .collect();
            for row in 0..batch.num_rows() {
                let fields = batch.schema_ref().fields();
                let shown = columns.iter().zip(batch.columns()).zip(fields).map(|((formatter, column), field)| {
                    let text = match own_text(column, field, row) {
                        Some(text) => text,
                        None => formatter.value(row).to_string(),
                    };
                    if text.is_empty() && !column.is_null(row) { "(empty)".to_owned() } else { text }
                });
                rows.push(shown.collect());
            }
        }
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; width], rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "alluvia"
    }
}

/// What our types are shown as that Arrow shows otherwise: UUIDs, NUMERIC without zeros at its end, and the last time of a day.
fn own_text(column: &ArrayRef, field: &Field, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    match StoredType::from_field(field)? {
        StoredType::Uuid => {
            let bytes = column.as_fixed_size_binary().value(row);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
        }
        StoredType::Numeric => {
            let text = column.as_primitive::<Decimal128Type>().value_as_string(row);
            Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
        }
        StoredType::Time => {
            let last = column.as_primitive_opt::<Time64MicrosecondType>()?.value(row) == 86_400_000_000;
            last.then(|| "24:00:00".to_owned())
        }
        _ => None,
    }
}

/// All scripts, by name.
pub(crate) fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("slt");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    found.sort();
    found
}

/// Runs a script, with files of its own in a folder. Says what does not hold.
pub(crate) async fn run(script: &Path, scratch: &Path, sessions: impl Fn() -> Session) -> Result<(), String> {
    let mut runner = Runner::new(|| {
        let session = sessions();
        async move { Ok(Connection { session }) }
    });
    runner.set_var("__TEST_DIR__".to_owned(), scratch.display().to_string());
    runner.run_file_async(script).await.map_err(|error| error.display(false).to_string())
}

#[test]
fn every_script_holds() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    // Plans may be sent to other processes, so what is in them must survive that.
    check_every_plan(functions_survive_encoding);
    let scripts = scripts();
    assert!(!scripts.is_empty());
    let mut failed = Vec::new();
    for script in &scripts {
        let scratch = tempfile::tempdir().unwrap();
        let db = Arc::new(Database::open(scratch.path().join("db")).unwrap());
        match runtime.block_on(run(script, scratch.path(), || db.session())) {
            Ok(()) => println!("{}: holds", script.display()),
            Err(error) => failed.push(format!("{}:\n{error}", script.display())),
        }
    }
    assert!(failed.is_empty(), "{} of {} scripts fail:\n{}", failed.len(), scripts.len(), failed.join("\n\n"));
}
