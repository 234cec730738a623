//! `alluvia load`: files into a table, with progress.
//!
//! Invariants:
//! - All files of a load are one COPY: one batch, or with `--batch-rows` one numbered sequence of batches.
//! - Run again, a load is the same COPY, whether the table was there or this created it: else what was loaded in batches would
//!   not be known again, and be loaded twice.
//! - Standard input is looked at as a file is, and what was looked at is loaded with the rest of it.
//! - A load that is refused leaves no table that it created, unless rows are in it.

use crate::target::is_url;
use crate::{OpenArgs, say, say_error};
use alluvia_query::copy::{CopyOptions, Inferred, Source, Streams, infer, infer_stream};
use alluvia_query::{Outcome, Session};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a load to a server is told.
const NO_SERVER: &str = "loading to a server is not supported: files are read where the data directory is";
const INSTEAD: &str = "send each file over HTTP (POST /ingest/TABLE), ingest it from Python (alluvia.connect), or have the server read a file of its \
    own: alluvia sql --host HOST -c \"COPY t FROM 'FILE'\"";

#[derive(Args)]
pub struct LoadArgs {
    #[command(flatten)]
    open: OpenArgs,
    // Understood, and refused by name.
    #[arg(long = "host", hide = true, value_name = "HOST[:PORT]", value_parser = no_server)]
    _host: Option<String>,
    /// The table; created if it does not exist.
    table: String,
    /// Files and quoted patterns ('data/**/*.parquet'), loaded together in the order of their names; or - for standard input.
    #[arg(required = true, value_name = "FILE")]
    sources: Vec<String>,
    /// csv, ndjson, parquet or arrow [default: by each file's name; by the first bytes of standard input].
    #[arg(long)]
    format: Option<String>,
    /// CSV: the separator [default: found from the first rows].
    #[arg(long, value_name = "CHAR")]
    delimiter: Option<String>,
    /// CSV: what goes around a field [default: a double quote].
    #[arg(long, value_name = "CHAR")]
    quote: Option<String>,
    /// CSV: what goes before a quote within quotes [default: the quote itself].
    #[arg(long, value_name = "CHAR")]
    escape: Option<String>,
    /// CSV: whether the first line names the columns [default: found from the first line].
    #[arg(long, value_name = "BOOL")]
    header: Option<bool>,
    /// CSV: the text that means NULL [default: the empty unquoted field].
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// gzip, zstd or none [default: by the file's first bytes].
    #[arg(long)]
    compression: Option<String>,
    /// What a bad row does: 'refuse' the load, or 'skip' the row and keep it in a rejects file.
    #[arg(long, default_value = "refuse")]
    on_error: String,
    /// Where skipped rows go [default: FILE.rejects; TABLE.rejects beside the first of several files].
    #[arg(long, value_name = "FILE")]
    rejects: Option<String>,
    /// Loads in batches of so many rows, each atomic; run again to resume [default: one batch].
    #[arg(long, value_name = "ROWS")]
    batch_rows: Option<u64>,
    /// For a new table: its dimensions, such as 'place(country, city); time(sold_at: year, month, day)'.
    #[arg(long)]
    dimensions: Option<String>,
    /// For a new table: its measures, such as 'price, quantity'.
    #[arg(long)]
    measures: Option<String>,
    /// For a new table: the curve that orders its rows, 'hilbert' or 'z' [default: hilbert].
    #[arg(long)]
    curve: Option<String>,
    /// For a new table: how far behind answers from it may be, such as '5s' or 'merged' [default: 0s].
    #[arg(long, value_name = "TIME")]
    freshness: Option<String>,
    /// For a new table: the thickest rung of its ladders, '1/2', '1/4' or '1/8' [default: 1/8].
    #[arg(long, value_name = "SHARE")]
    ladder: Option<String>,
    /// Returns only when all rows are merged.
    #[arg(long)]
    merge: bool,
}

fn no_server(_: &str) -> Result<String, String> {
    Err(format!("{NO_SERVER}; {INSTEAD}"))
}

pub async fn run(args: LoadArgs) -> Result<ExitCode> {
    if args.open.dir.to_str().is_some_and(is_url) {
        return Err(Error::new(ErrorKind::NotSupported, NO_SERVER).with_hint(INSTEAD));
    }
    let (options, source) = (args.options()?, args.source()?);
    let db = args.open.open()?;
    let session = db.session();
    let columns = columns_of(&session, &args.table).await?;
    if let Some((name, _)) = args.with().first().filter(|_| !columns.is_empty()) {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("table '{}' exists; --{name} is for new tables", args.table),
        ));
    }
    let (found, streams) = look_at(&source, &options).await?;
    let copy = match columns.as_slice() {
        [] => create(&session, &args, &source, &found?).await?,
        columns => existing(&args, columns, &source, options, found.ok()),
    };
    let start = Instant::now();
    let outcome = match watch(&session, execute(&session, &copy, streams)).await {
        Ok(outcome) => outcome,
        Err(error) => {
            if columns.is_empty()
                && let Err(stays) = take_back(&session, &args.table).await
            {
                say_error(&stays.at(format!("dropping table '{}' again", args.table)));
            }
            return Err(error);
        }
    };
    let rows = session.progress().rows();
    for notice in outcome.notices() {
        say(&format!("{notice}\n"))?;
    }
    let rate = |seconds: f64| format!("{seconds:.2} s ({:.0} rows/s)", rows as f64 / seconds.max(1e-9));
    say(&format!("{} in {}, durable and sorted\n", outcome.tag, rate(start.elapsed().as_secs_f64())))?;
    if args.merge {
        session.sql("CALL alluvia.merge()").await?;
        say(&format!("merged after {}\n", rate(start.elapsed().as_secs_f64())))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl LoadArgs {
    fn options(&self) -> Result<CopyOptions> {
        let header = self.header.map(|header| header.to_string());
        let batch_rows = self.batch_rows.map(|rows| rows.to_string());
        let given = [
            ("FORMAT", self.format.as_deref()),
            ("DELIMITER", self.delimiter.as_deref()),
            ("QUOTE", self.quote.as_deref()),
            ("ESCAPE", self.escape.as_deref()),
            ("HEADER", header.as_deref()),
            ("NULL", self.null.as_deref()),
            ("COMPRESSION", self.compression.as_deref()),
            ("ON_ERROR", Some(self.on_error.as_str())),
            ("REJECTS", self.rejects.as_deref()),
            ("BATCH_ROWS", batch_rows.as_deref()),
        ];
        let mut options = CopyOptions::default();
        for (name, value) in given {
            if value.is_some() {
                options.set(name, value)?;
            }
        }
        Ok(options)
    }

    fn source(&self) -> Result<Source> {
        match self.sources.as_slice() {
            [only] if only == "-" => Ok(Source::Stdin),
            [only] => Ok(Source::Files(only.clone())),
            several if several.iter().any(|source| source == "-") => {
                Err(Error::new(ErrorKind::NotSupported, "standard input (-) is not loaded together with files")
                    .with_hint("load it by itself, or save it to a file"))
            }
            several => Ok(Source::Several(several.to_vec())),
        }
    }

    /// What is said about a new table, as WITH takes it.
    fn with(&self) -> Vec<(&'static str, &str)> {
        let given = [
            ("dimensions", &self.dimensions),
            ("measures", &self.measures),
            ("curve", &self.curve),
            ("freshness", &self.freshness),
            ("ladder", &self.ladder),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

/// The columns of a table; none if there is no such table.
async fn columns_of(session: &Session, table: &str) -> Result<Vec<String>> {
    let columns = format!("SELECT column_name FROM alluvia.columns WHERE table_name = {}", literal(table));
    let mut names = Vec::new();
    for batch in session.sql(&columns).await?.collect().await? {
        let texts = cast(batch.column(0), &DataType::Utf8View)
            .map_err(|error| Error::internal(format!("names of columns are no texts: {error}")))?;
        let texts: &StringViewArray = texts.as_string_view();
        names.extend((0..texts.len()).map(|row| texts.value(row).to_owned()));
    }
    Ok(names)
}

/// Looks at the first files, or at the beginning of standard input. Gives what was found, and what the COPY reads then.
async fn look_at(source: &Source, options: &CopyOptions) -> Result<(Result<Inferred>, Streams)> {
    let (source, options) = (source.clone(), options.clone());
    let look = move || match source {
        Source::Stdin => {
            let (found, input) = infer_stream(Box::new(std::io::stdin()), &options);
            (found, Streams { stdin: Some(input), ..Streams::default() })
        }
        source => (infer(&source, &options), Streams::default()),
    };
    tokio::task::spawn_blocking(look).await.map_err(|error| Error::internal(format!("inferring: {error}")))
}

/// The COPY into a table that exists. Where the files name the table's columns it is the one that [`create`] gives.
fn existing(
    args: &LoadArgs,
    columns: &[String],
    source: &Source,
    options: CopyOptions,
    found: Option<Inferred>,
) -> String {
    let copy = |options: &CopyOptions| {
        format!("COPY {} FROM {}{}", identifier(&args.table), source.to_sql(), options.to_sql())
    };
    // What nothing can be found out about is left to COPY, which says what is wrong with it.
    let Some(found) = found else { return copy(&options) };
    if found.columns.iter().all(|column| columns.contains(&column.name)) {
        return found.copy_from(&args.table, source);
    }
    // A separator that cuts rows into more fields than the table has columns is none.
    let delimiter = found.options.delimiter.filter(|_| found.columns.len() <= columns.len());
    // The format of files is in their names.
    let format = found.options.format.filter(|_| *source == Source::Stdin);
    copy(&CopyOptions { format: options.format.or(format), delimiter: options.delimiter.or(delimiter), ..options })
}

/// Shows the table that was inferred, creates it, and gives the COPY that goes with what was found out.
async fn create(session: &Session, args: &LoadArgs, source: &Source, inferred: &Inferred) -> Result<String> {
    let mut create = inferred.create_table(&args.table);
    let with: Vec<String> =
        args.with().into_iter().map(|(name, value)| format!("{name} = {}", literal(value))).collect();
    if !with.is_empty() {
        create = format!("{create} WITH ({})", with.join(", "));
    }
    say(&format!("{create};\n"))?;
    session.sql(&create).await?;
    Ok(inferred.copy_from(&args.table, source))
}

/// Drops a table that this run created, if none of its batches was committed.
async fn take_back(session: &Session, table: &str) -> Result<()> {
    let table = identifier(table);
    let rows = format!("SELECT /*+ freshness('0s') */ 1 AS found FROM {table} LIMIT 1");
    let rows = session.sql(&rows).await?.collect().await?;
    if rows.iter().all(|batch| batch.num_rows() == 0) {
        let drop = format!("DROP TABLE {table}");
        session.sql(&drop).await?;
        say(&format!("{drop};\n"))?;
    }
    Ok(())
}

/// Runs one statement that may read standard input.
async fn execute(session: &Session, sql: &str, streams: Streams) -> Result<Outcome> {
    let statement = session.parse(sql)?.pop().ok_or_else(|| Error::internal("a COPY was parsed to nothing"))?;
    session.execute_with(statement, streams).await
}

/// Runs a statement under a progress bar; Ctrl-C cancels it.
async fn watch<T>(session: &Session, statement: impl Future<Output = Result<T>>) -> Result<T> {
    let bar = ProgressBar::new(0);
    if std::io::stderr().is_terminal() {
        let style = "{spinner} {bytes}/{total_bytes} [{bar:40}] {percent}% {msg} eta {eta}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    } else {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let start = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tokio::pin!(statement);
    loop {
        tokio::select! {
            result = &mut statement => {
                bar.finish_and_clear();
                return result;
            }
            _ = tick.tick() => {
                let progress = session.progress();
                bar.set_length(progress.bytes_total());
                bar.set_position(progress.bytes_done());
                let rate = progress.rows() as f64 / start.elapsed().as_secs_f64().max(1e-9);
                bar.set_message(format!("{} rows, {rate:.0} rows/s", progress.rows()));
            }
            Ok(()) = tokio::signal::ctrl_c() => session.cancel_handle().cancel(),
        }
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name in SQL, exactly as it is.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
