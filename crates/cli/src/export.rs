//! `alluvia export`: tables into files of this machine, from a directory or a server, with progress.
//!
//! Invariants:
//! - It is the shell's COPY TO, so rows that were deleted or replaced are in no file, as they are in no answer. (The Parquet files of a
//!   data directory have them until they are merged away.)
//! - All tables are read in one transaction: the files are of one version.
//! - A file is there whole or not at all; files that were written before another failed stay.

use crate::quoting::{exactly, literal, user_table};
use crate::shell::{Answer, Connection, HowArgs};
use crate::{note, say};
use alluvia_syntax::copy::streams::Streams;
use alluvia_syntax::names::{PUBLIC, RelationName};
use alluvia_types::{Error, ErrorKind, Result};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args)]
#[command(
    override_usage = "alluvia export [OPTIONS] --to <FOLDER> <DIR> <TABLE>...\n       alluvia export [OPTIONS] --to <FOLDER> --host <HOST[:PORT]> <TABLE>..."
)]
pub struct ExportArgs {
    /// DIR TABLE..., and with --host TABLE...: the data directory, or the URL of a server; the tables, named as in SQL.
    #[arg(required = true, value_name = "DIR TABLE")]
    words: Vec<OsString>,
    /// The folder that gets a file for each table, TABLE.parquet; made if it does not exist. A file of this name is replaced.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// What the files are.
    #[arg(long, value_enum, default_value_t = Format::Parquet)]
    format: Format,
    #[command(flatten)]
    how: HowArgs,
}

/// What files are, by how their names end.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Parquet,
    Csv,
    Ndjson,
    Arrow,
}

impl Format {
    fn ending(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
            Format::Arrow => "arrow",
        }
    }
}

pub async fn run(mut args: ExportArgs) -> Result<ExitCode> {
    let mut words = std::mem::take(&mut args.words).into_iter();
    let place = if args.how.server.host.is_none() { words.next().map(PathBuf::from) } else { None };
    let tables = words.map(table_of).collect::<Result<Vec<RelationName>>>()?;
    if tables.is_empty() {
        return Err(Error::new(ErrorKind::InvalidSetting, "no table is named")
            .with_hint("write alluvia export DIR TABLE... --to FOLDER, or with --host HOST: TABLE... --to FOLDER"));
    }
    if let Some(place) = place.as_ref().filter(|place| !is_there(place)) {
        let message = format!("{} does not exist", place.display());
        return Err(Error::new(ErrorKind::UndefinedObject, message).with_hint("a data directory is wanted"));
    }
    fs::create_dir_all(&args.to).map_err(|error| Error::io(&args.to, "creating", &error))?;
    let connection = args.how.open(place).await?;
    let exported = export(&connection, &tables, &args.to, args.format.ending()).await;
    connection.close().await;
    exported.map(|()| ExitCode::SUCCESS)
}

/// Whether it is a server, or a directory that exists: to export from what is not there would make it.
fn is_there(place: &Path) -> bool {
    place.to_str().is_some_and(crate::target::is_url) || place.is_dir()
}

fn table_of(word: OsString) -> Result<RelationName> {
    let word = word
        .into_string()
        .map_err(|word| Error::new(ErrorKind::InvalidSetting, format!("{} is no text", word.display())))?;
    let table = user_table(&word)?;
    let name = file_name(&table);
    match name.contains(['/', '\\', '\0']) || name.starts_with('.') {
        true => Err(Error::new(ErrorKind::NotSupported, format!("'{name}' is no name of a file"))
            .with_hint("COPY ... TO 'file' in alluvia sql takes any file")),
        false => Ok(table),
    }
}

/// What a table's file is called: `s.t` of one that is named with its schema, unless that is `public`.
fn file_name(table: &RelationName) -> String {
    match table.schema() {
        Some(schema) if schema != PUBLIC => format!("{schema}.{}", table.name),
        _ => table.name.clone(),
    }
}

/// All tables, as of one version.
async fn export(connection: &Connection, tables: &[RelationName], folder: &Path, ending: &str) -> Result<()> {
    connection.sql("BEGIN READ ONLY").await?;
    for table in tables {
        let file = folder.join(format!("{}.{ending}", file_name(table)));
        let text = file.to_str().ok_or_else(|| {
            Error::new(ErrorKind::NotSupported, format!("{} is no text, which COPY TO wants", file.display()))
        })?;
        let copy = format!("COPY {} TO {}", exactly(table), literal(text));
        let start = Instant::now();
        let answer = watched(connection, &table.name, copied(connection, &copy)).await?;
        let (tag, seconds) = (answer.tag.clone(), start.elapsed().as_secs_f64());
        for notice in answer.end().notices {
            note(format_args!("NOTICE: {notice}"));
        }
        say(&format!("{tag} to {} in {seconds:.2} s\n", file.display()))?;
    }
    connection.sql("COMMIT").await.map(drop)
}

/// Runs the COPY, whose file is this machine's.
async fn copied(connection: &Connection, sql: &str) -> Result<Answer> {
    let parsed = connection.parse(sql)?.pop();
    let mut statement = parsed.ok_or_else(|| Error::internal("a COPY was parsed to nothing"))?;
    statement.is_here = true;
    connection.execute_with(statement, Streams::default()).await
}

/// Does it under a progress bar; Ctrl-C stops it.
async fn watched<T>(connection: &Connection, table: &str, copy: impl Future<Output = Result<T>>) -> Result<T> {
    let bar = ProgressBar::new_spinner();
    if std::io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{spinner} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let start = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let shown = async {
        tokio::pin!(copy);
        loop {
            tokio::select! {
                result = &mut copy => return result,
                _ = tick.tick() => {
                    let rows = connection.copied().rows();
                    let rate = rows as f64 / start.elapsed().as_secs_f64().max(1e-9);
                    bar.set_message(format!("{table}: {rows} rows, {rate:.0} rows/s"));
                    bar.tick();
                }
            }
        }
    };
    let result = connection.cancellable(shown).await;
    bar.finish_and_clear();
    result
}
