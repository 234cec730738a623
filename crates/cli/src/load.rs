//! `alluvia load`: files of this machine into a table, in a directory or at a server, with progress.
//!
//! Invariants:
//! - It is the shell's COPY with files that are here: what differs at a server is `shell::copying`'s.
//! - All files of a load are one COPY: one batch, or with `--batch-rows` one numbered sequence of batches.
//! - Run again, a load in batches is the same COPY, whether the table was there or this created it: else what was loaded would not be known
//!   again, and be loaded twice.
//! - Into a table that this creates, nothing is changed to fit the types that were inferred: its COPY is EXACT. One that was there takes
//!   values as PostgreSQL assigns them, unless a load in batches may have made it.
//! - Standard input is looked at as a file is, and what was looked at is loaded with the rest of it. A pipe with a name is opened once, and
//!   loaded in the same way.
//! - A load that is refused leaves no table that it created, unless rows are in it.

use crate::quoting::{exactly, literal, user_table};
use crate::shell::{Answer, Connection, HowArgs};
use crate::{Cli, note, say, say_error};
use alluvia_copy::{Inferred, infer, infer_stream, pipe_of};
use alluvia_syntax::copy::options::{CopyOptions, Format};
use alluvia_syntax::copy::statement::Source;
use alluvia_syntax::copy::streams::Streams;
use alluvia_syntax::names::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use clap::{Args, CommandFactory};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args)]
#[command(
    override_usage = "alluvia load [OPTIONS] <DIR> <TABLE> <FILE>...\n       alluvia load [OPTIONS] --host <HOST[:PORT]> <TABLE> <FILE>..."
)]
pub struct LoadArgs {
    /// DIR TABLE FILE..., and with --host TABLE FILE...: the data directory, created if it does not exist, or the URL of a server;
    /// the table, created if it does not exist, named as in SQL (Sales and public.sales are sales; '"Sales"', with double quotes
    /// that the shell leaves, is Sales); files of this machine and quoted patterns ('data/**/*.parquet'), loaded together in the
    /// order of their names, or - for standard input.
    #[arg(required = true, value_name = "DIR TABLE FILE")]
    words: Vec<OsString>,
    #[command(flatten)]
    how: HowArgs,
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
    /// What a bad row does: 'refuse' the load, or 'skip' the row and keep it in a rejects file (of standard input, only count it).
    #[arg(long, default_value = "refuse")]
    on_error: String,
    /// Where skipped rows go [default: FILE.rejects; TABLE.rejects beside the first of several files; nowhere from standard input].
    #[arg(long, value_name = "FILE")]
    rejects: Option<String>,
    /// What becomes of a row whose key is there: 'error' (the load is refused), 'nothing' (the row is passed over) or 'replace'
    /// [default: what the table says].
    #[arg(long, value_name = "WHAT")]
    on_conflict: Option<String>,
    /// What rows do that do not say it in a field _op: 'insert', 'upsert', 'patch' (the fields of the file are set, other columns stay)
    /// or 'delete' [default: insert].
    #[arg(long, value_name = "WHAT")]
    op: Option<String>,
    /// Loads in batches of so many rows, each atomic; run again to resume, where options for a new table are not applied [default:
    /// one batch].
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

/// What is loaded into which table of what.
struct Named {
    /// The directory or the URL; `None` where an option names a server.
    place: Option<PathBuf>,
    table: RelationName,
    source: Source,
}

pub async fn run(mut args: LoadArgs) -> Result<ExitCode> {
    let Named { place, table, source } = args.named()?;
    let options = args.options()?;
    let with = args.with();
    let connection = args.how.open(place).await?;
    let mut load = Load { connection, table, source, with, is_merged: args.merge, is_left: false };
    let loaded = load.run(options).await;
    load.connection.close().await;
    if load.is_left {
        // Closing a directory waits for the merge that is under way. Left as it is, it is as after any end of a process: the rows are there,
        // and what was written of the merge is removed where it is opened the next time.
        std::mem::forget(load);
    }
    loaded.map(|()| ExitCode::SUCCESS)
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
            ("ON_CONFLICT", self.on_conflict.as_deref()),
            ("OP", self.op.as_deref()),
        ];
        let mut options = CopyOptions::default();
        for (name, value) in given {
            if value.is_some() {
                options.set(name, value)?;
            }
        }
        Ok(options)
    }

    /// What the words of the command line name.
    fn named(&mut self) -> Result<Named> {
        let mut words = std::mem::take(&mut self.words).into_iter();
        let place = if self.how.server.host.is_none() { words.next().map(PathBuf::from) } else { None };
        let text = |word: OsString| {
            word.into_string()
                .map_err(|word| Error::new(ErrorKind::InvalidSetting, format!("{} is no text", word.display())))
        };
        let words: Vec<String> = words.map(text).collect::<Result<_>>()?;
        let [table, sources @ ..] = words.as_slice() else { too_few() };
        let source = match sources {
            [] => too_few(),
            [only] if only == "-" => Source::Stdin,
            [only] => Source::Files(only.clone()),
            several if several.iter().any(|source| source == "-") => {
                return Err(Error::new(
                    ErrorKind::NotSupported,
                    "standard input (-) is not loaded together with files",
                )
                .with_hint("load it by itself, or save it to a file"));
            }
            several => Source::Several(several.to_vec()),
        };
        Ok(Named { place, table: user_table(table)?, source })
    }

    /// What is said about a new table, as WITH takes it.
    fn with(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("dimensions", &self.dimensions),
            ("measures", &self.measures),
            ("curve", &self.curve),
            ("freshness", &self.freshness),
            ("ladder", &self.ladder),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Ends the process as any wrong command line does.
fn too_few() -> ! {
    let mut cli = Cli::command();
    cli.build();
    let what = "a table and a file are wanted, and before them a directory where no --host names a server";
    let kind = clap::error::ErrorKind::TooFewValues;
    let error = match cli.find_subcommand_mut("load") {
        Some(load) => load.error(kind, what),
        None => cli.error(kind, what),
    };
    error.exit()
}

/// One load.
struct Load {
    connection: Connection,
    table: RelationName,
    source: Source,
    /// What is said about a new table.
    with: Vec<(&'static str, String)>,
    is_merged: bool,
    /// Whether somebody did not want to wait for the merge.
    is_left: bool,
}

impl Load {
    async fn run(&mut self, options: CopyOptions) -> Result<()> {
        let columns = self.columns().await?;
        let is_in_batches = options.batch_rows.is_some();
        if !columns.is_empty() {
            self.new_tables_only(&options)?;
        } else if options.policy != CopyOptions::default().policy {
            return Err(Error::new(
                ErrorKind::NoKey,
                format!("there is no table '{}', and one that is made of files has no key", self.table.name),
            )
            .with_hint("CREATE TABLE with a PRIMARY KEY first, or leave --on-conflict and --op out"));
        }
        let Looked { found, source, options, streams, pipe } = look_at(self.source.clone(), options).await?;
        let told = |error: Error| match &pipe {
            Some(pipe) => error.at(pipe.display()),
            None => error,
        };
        self.source = source;
        let copy = match columns.as_slice() {
            [] => self.create(&found.map_err(told)?).await?,
            columns => self.existing(columns, options, found.ok()),
        };
        let start = Instant::now();
        let outcome = match self.watched(self.copy(&copy, streams)).await {
            Ok(outcome) => outcome,
            Err(error) => {
                if is_in_batches && error.kind() == ErrorKind::Cancelled {
                    self.tell_what_stays().await;
                }
                if columns.is_empty()
                    && let Err(stays) = self.take_back().await
                {
                    say_error(&stays.at(format!("dropping table '{}' again", self.table.name)));
                }
                return Err(told(error));
            }
        };
        let rows = self.connection.copied().rows();
        let tag = outcome.tag.clone();
        for notice in outcome.end().notices {
            say(&format!("{notice}\n"))?;
        }
        let rate = |seconds: f64| format!("{seconds:.2} s ({:.0} rows/s)", rows as f64 / seconds.max(1e-9));
        say(&format!("{tag} in {}, durable and sorted\n", rate(start.elapsed().as_secs_f64())))?;
        if self.is_merged {
            self.merge().await?;
            say(&format!("merged after {}\n", rate(start.elapsed().as_secs_f64())))?;
        }
        Ok(())
    }

    /// What is said about a new table, while there is one of this name, is refused. In batches it is not applied: the same command
    /// may have made the table, and goes on.
    fn new_tables_only(&self, options: &CopyOptions) -> Result<()> {
        for (name, _) in &self.with {
            if options.batch_rows.is_none() {
                return Err(Error::new(
                    ErrorKind::InvalidDefinition,
                    format!("table '{}' exists; --{name} is for new tables", self.table.name),
                ));
            }
            note(format_args!("NOTICE: table '{}' exists: --{name} is not applied", self.table.name));
        }
        Ok(())
    }

    /// Waits until all rows are merged; Ctrl-C ends the wait.
    async fn merge(&mut self) -> Result<()> {
        let merged = self.connection.cancellable(self.connection.sql("CALL alluvia.merge()")).await;
        merged.map(drop).map_err(|error| {
            if error.kind() == ErrorKind::Cancelled {
                self.is_left = true;
                note(format_args!("NOTICE: the rows are loaded; merging is not waited for: a server goes on with it, and a directory when it is open again"));
            }
            error.at("merging")
        })
    }

    /// The columns of the table, with their types in SQL; none if there is no such table.
    async fn columns(&self) -> Result<Vec<(String, String)>> {
        let table = literal(&self.table.name);
        let schema = self.table.schema().map_or_else(|| "current_schema()".to_owned(), literal);
        let columns = format!(
            "SELECT column_name, data_type FROM alluvia.columns WHERE table_schema = {schema} AND table_name = {table}"
        );
        let mut found = Vec::new();
        for batch in self.connection.sql(&columns).await?.collect().await? {
            let texts = |at: usize| -> Result<Vec<String>> {
                let texts = cast(batch.column(at), &DataType::Utf8View)
                    .map_err(|error| Error::internal(format!("names of columns are no texts: {error}")))?;
                let texts: &StringViewArray = texts.as_string_view();
                Ok((0..texts.len()).map(|row| texts.value(row).to_owned()).collect())
            };
            found.extend(texts(0)?.into_iter().zip(texts(1)?));
        }
        Ok(found)
    }

    /// The COPY into a table that exists. Where the files name the table's columns it reads them as that of [`Load::create`] does, and in
    /// batches it is the same, if the table is the one that would be made.
    fn existing(&self, columns: &[(String, String)], options: CopyOptions, found: Option<Inferred>) -> String {
        let copy = |options: &CopyOptions| {
            format!("COPY {} FROM {}{}", exactly(&self.table), self.source.to_sql(), options.to_sql())
        };
        // What nothing can be found out about is left to COPY, which says what is wrong with it.
        let Some(found) = found else { return copy(&options) };
        // What each row does, files may say, and it is no column.
        let is_known = |name: &String| name == "_op" || columns.iter().any(|(known, _)| known == name);
        if found.columns.iter().all(|column| is_known(&column.name)) {
            let own = |(name, sql_type): &(String, String)| {
                found.columns.iter().any(|column| column.name == *name && column.data_type.sql_name() == *sql_type)
            };
            // The table that this would make: an earlier run of a load in batches did, it may be.
            let is_own = options.batch_rows.is_some() && columns.iter().all(own);
            return match is_own {
                true => found.copy_from(&self.table, &self.source),
                false => found.copy_into_existing(&self.table, &self.source),
            };
        }
        // A separator that cuts rows into more fields than the table has columns is none.
        let delimiter = found.options.delimiter.filter(|_| found.columns.len() <= columns.len());
        // The format of files is in their names.
        let format = found.options.format.filter(|_| self.source == Source::Stdin);
        copy(&CopyOptions { format: options.format.or(format), delimiter: options.delimiter.or(delimiter), ..options })
    }

    /// Shows the table that was inferred, creates it, and gives the COPY that goes with what was found out.
    async fn create(&self, inferred: &Inferred) -> Result<String> {
        inferred.check_names()?;
        let mut create = inferred.create_table(&self.table);
        let with: Vec<String> = self.with.iter().map(|(name, value)| format!("{name} = {}", literal(value))).collect();
        if !with.is_empty() {
            create = format!("{create} WITH ({})", with.join(", "));
        }
        if let Some(line) = &inferred.row_at_first {
            say(&format!("-- The first line is loaded as a row, since not all of it are names: {line}\n"))?;
            say("-- If it names the columns, drop the table and load again with --header true.\n")?;
        }
        say(&format!("{create};\n"))?;
        self.connection.sql(&create).await?;
        Ok(inferred.copy_from(&self.table, &self.source))
    }

    /// Drops a table that this run created, if none of its batches was committed.
    async fn take_back(&self) -> Result<()> {
        let table = exactly(&self.table);
        let rows = format!("SELECT /*+ freshness('0s') */ 1 AS found FROM {table} LIMIT 1");
        let rows = self.connection.sql(&rows).await?.collect().await?;
        if rows.iter().all(|batch| batch.num_rows() == 0) {
            let drop = format!("DROP TABLE {table}");
            self.connection.sql(&drop).await?;
            say(&format!("{drop};\n"))?;
        }
        Ok(())
    }

    /// Tells what a load in batches that was stopped has left, and how it goes on. What cannot be asked is not told.
    async fn tell_what_stays(&self) {
        let Ok(rows) = self.rows().await else { return };
        if rows > 0 {
            note(format_args!(
                "NOTICE: batches before this are committed, and table '{}' has {rows} rows; the same command loads the rest",
                self.table.name
            ));
        }
    }

    /// How many rows the table has.
    async fn rows(&self) -> Result<i64> {
        let count = format!("SELECT /*+ freshness('0s') */ count(*) AS found FROM {}", exactly(&self.table));
        let batches = self.connection.sql(&count).await?.collect().await?;
        let counts = batches.iter().filter_map(|batch| batch.column(0).as_primitive_opt::<Int64Type>());
        Ok(counts.flat_map(|counts| counts.values().iter()).sum())
    }

    /// Runs the COPY, whose files are this machine's, and which may read standard input.
    async fn copy(&self, sql: &str, streams: Streams) -> Result<Answer> {
        let parsed = self.connection.parse(sql)?.pop();
        let mut statement = parsed.ok_or_else(|| Error::internal("a COPY was parsed to nothing"))?;
        statement.is_here = true;
        self.connection.execute_with(statement, streams).await
    }

    /// Does it under a progress bar; Ctrl-C stops it.
    async fn watched<T>(&self, copy: impl Future<Output = Result<T>>) -> Result<T> {
        let bar = ProgressBar::new(0);
        if std::io::stderr().is_terminal() {
            let style = "{spinner} {bytes}/{total_bytes} [{bar:40}] {percent}% {msg} eta {eta}";
            bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        } else {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        let start = Instant::now();
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        let shown = async {
            tokio::pin!(copy);
            loop {
                tokio::select! {
                    result = &mut copy => return result,
                    _ = tick.tick() => {
                        let progress = self.connection.copied();
                        bar.set_length(progress.bytes_total());
                        bar.set_position(progress.bytes_done());
                        let rate = progress.rows() as f64 / start.elapsed().as_secs_f64().max(1e-9);
                        bar.set_message(format!("{} rows, {rate:.0} rows/s", progress.rows()));
                    }
                }
            }
        };
        let result = self.connection.cancellable(shown).await;
        bar.finish_and_clear();
        result
    }
}

/// What was found of a source, and how the COPY reads it then.
struct Looked {
    found: Result<Inferred>,
    source: Source,
    options: CopyOptions,
    streams: Streams,
    /// The path of what is read as standard input, where it has one.
    pipe: Option<PathBuf>,
}

/// Looks at the first files, or at the beginning of what gives its bytes once: standard input, or a pipe with a name.
async fn look_at(source: Source, options: CopyOptions) -> Result<Looked> {
    let look = move || -> Result<Looked> {
        let pipe = pipe_of(&source);
        let (input, options): (Box<dyn Read + Send>, CopyOptions) = match &pipe {
            None if source != Source::Stdin => {
                let found = infer(&source, &options);
                return Ok(Looked { found, source, options, streams: Streams::default(), pipe });
            }
            None => (Box::new(std::io::stdin()), options),
            Some(path) => {
                let file = File::open(path).map_err(|error| Error::io(path, "opening", &error))?;
                let format = options.format.or_else(|| Format::from_file_name(&path.to_string_lossy()));
                (Box::new(file), CopyOptions { format, ..options })
            }
        };
        let (found, input) = infer_stream(input, &options);
        let streams = Streams { stdin: Some(input), ..Streams::default() };
        Ok(Looked { found, source: Source::Stdin, options, streams, pipe })
    };
    tokio::task::spawn_blocking(look).await.map_err(|error| Error::internal(format!("inferring: {error}")))?
}
