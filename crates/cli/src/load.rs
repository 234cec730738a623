//! `alluvia load`: files into a table, with progress.

use crate::OpenArgs;
use alluvia_query::Session;
use alluvia_query::copy::{CopyOptions, Source, infer};
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct LoadArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// The table; created if it does not exist.
    table: String,
    /// A file, a quoted glob ('data/*.parquet'), or - for standard input.
    source: String,
    /// csv, ndjson, parquet or arrow [default: by the file's name].
    #[arg(long)]
    format: Option<String>,
    /// CSV: the separator [default: sniffed for a new table, else ','].
    #[arg(long, value_name = "CHAR")]
    delimiter: Option<String>,
    /// CSV: whether the first line names the columns [default: sniffed for a new table, else true].
    #[arg(long, value_name = "BOOL")]
    header: Option<bool>,
    /// CSV: the text that means NULL [default: the empty unquoted field].
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// gzip, zstd or none [default: by the file's name].
    #[arg(long)]
    compression: Option<String>,
    /// What a bad row does: 'refuse' the whole load, or 'skip' the row and keep it in a rejects file.
    #[arg(long, default_value = "refuse")]
    on_error: String,
    /// Where skipped rows go [default: SOURCE.rejects.csv].
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
    /// Returns only when all rows are merged.
    #[arg(long)]
    merge: bool,
}

pub async fn run(args: LoadArgs) -> Result<ExitCode> {
    let db = args.open.open()?;
    let session = db.session();
    let options = args.options()?;
    let exists = format!("SELECT 1 FROM alluvia.tables WHERE table_name = {}", literal(&args.table));
    let exists = !session.sql(&exists).await?.collect().await?.iter().all(|batch| batch.num_rows() == 0);
    if exists && (args.dimensions.is_some() || args.measures.is_some()) {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("table '{}' exists; --dimensions and --measures are for new tables", args.table),
        ));
    }
    let source = if args.source == "-" { "STDIN".to_owned() } else { literal(&args.source) };
    let copy = match exists {
        true => format!("COPY {} FROM {source}{}", identifier(&args.table), options.to_sql()),
        false => create(&session, &args, options).await?,
    };
    let start = Instant::now();
    let outcome = watch(&session, session.sql(&copy)).await?;
    let rows = session.progress().rows();
    for notice in outcome.notices() {
        println!("{notice}");
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{} in {seconds:.2} s ({:.0} rows/s), durable and sorted", outcome.tag, rows as f64 / seconds.max(1e-9));
    if args.merge {
        session.sql("CALL alluvia.merge()").await?;
        let seconds = start.elapsed().as_secs_f64();
        println!("merged after {seconds:.2} s ({:.0} rows/s)", rows as f64 / seconds.max(1e-9));
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
}

/// Infers a new table from the first file, shows it, creates it, and returns the COPY that goes with what was sniffed.
async fn create(session: &Session, args: &LoadArgs, options: CopyOptions) -> Result<String> {
    if args.source == "-" {
        let message = format!(
            "table '{}' does not exist, and standard input cannot be looked at before it is loaded",
            args.table
        );
        return Err(
            Error::new(ErrorKind::UndefinedTable, message).with_hint("create the table first, or load from a file")
        );
    }
    let source = Source::Files(args.source.clone());
    let asked = source.clone();
    let inferred = tokio::task::spawn_blocking(move || infer(&asked, &options, None))
        .await
        .map_err(|error| Error::internal(format!("inferring: {error}")))??;
    let mut create = inferred.create_table(&args.table);
    let with: Vec<String> = [("dimensions", &args.dimensions), ("measures", &args.measures)]
        .iter()
        .filter_map(|(name, value)| value.as_deref().map(|value| format!("{name} = {}", literal(value))))
        .collect();
    if !with.is_empty() {
        create = format!("{create} WITH ({})", with.join(", "));
    }
    println!("{create};");
    session.sql(&create).await?;
    Ok(inferred.copy_from(&args.table, &source))
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

/// A table name as typed: folded to lower case by SQL unless it needs quotes.
fn identifier(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
