//! `alluvia`: the command line.
//!
//! Exit codes: 0 all went well; 1 a statement or a file was refused; 2 the command line was wrong; 3 `check` found damage, or `repair` what it has not mended;
//! 130 Ctrl-C ended the demo; 141 whoever read standard output has gone, which is not told of: so ends a process that the system stops
//! for it, as psql.
//!
//! Invariant: standard streams whose readers have gone make no panic: what is said goes through [`say`], [`note`] and [`Out`].
#![allow(clippy::disallowed_methods)] // at this edge the machine's files and clocks are meant

mod cancel;
mod check;
mod cluster;
mod config;
mod config_listing;
mod demo;
mod export;
mod load;
mod node;
mod notify;
mod quoting;
mod recovery;
mod remote;
mod repair;
mod serve;
mod settings;
mod shell;
mod target;
mod verify;

use alluvia_allocator::{keep_freed_memory, keep_freed_memory_within};
use alluvia_node::{Database, DatabaseOptions, parse_bytes, raise_open_files_max};
use alluvia_telemetry::Spans;
use alluvia_types::{Error, ErrorKind, Result};
use clap::{Args, Parser, Subcommand};
use recovery::tell_recovery;
use std::fmt::Display;
use std::io::{self, Stdout, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// An analytical database for data that is still arriving.
#[derive(Parser)]
#[command(name = "alluvia", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs SQL: interactively, from -c, from a file, or from a pipe.
    Sql(Box<shell::SqlArgs>),
    /// Loads files into a table, creating it from what the first file holds if it does not exist.
    Load(Box<load::LoadArgs>),
    /// Writes tables to files: the rows that are alive, as of one version.
    Export(Box<export::ExportArgs>),
    /// Verifies every checksum and invariant of a data directory, and changes nothing in it; exits with 3 if it finds damage.
    Check(check::CheckArgs),
    /// Says what of a data directory is damaged and can be made anew, and what is lost; with --yes it does the one and drops the other.
    Repair(repair::RepairArgs),
    /// Tries how often the intervals of an estimated statement hold the exact answer.
    Verify(verify::VerifyArgs),
    /// Serves a database to PostgreSQL's clients, over HTTP and over Flight SQL.
    Serve(Box<serve::ServeArgs>),
    /// Runs one process of a database on several machines.
    Node(Box<node::NodeArgs>),
    /// Shows a database on several machines.
    Cluster(cluster::ClusterArgs),
    /// Ends what a session of a running server runs; the session itself stays.
    Cancel(Box<cancel::CancelArgs>),
    /// Prints the server's settings, and where each value came from; refuses what no server would start with.
    Config(config::ConfigArgs),
    /// Shows in a minute what the database is for: a stream that is asked while it comes, estimates, kill -9.
    Demo(demo::DemoArgs),
}

/// Options that open a database.
#[derive(Args, Clone)]
pub struct OpenArgs {
    /// The data directory of a database.
    pub dir: PathBuf,
    /// Memory to use in all, such as 4GB [default: three quarters of the machine's].
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<String>,
    /// Threads [default: one per core].
    #[arg(long)]
    pub threads: Option<usize>,
}

impl OpenArgs {
    /// Opens the database.
    pub fn open(&self) -> Result<Database> {
        if let Some(url) = self.dir.to_str().filter(|text| target::is_url(text)) {
            let message = format!("{} is a server, and a data directory is wanted here", target::shown(url));
            return Err(Error::new(ErrorKind::NotSupported, message).with_hint(
                "alluvia sql, alluvia load and alluvia export speak to servers; other commands run where the data directory is",
            ));
        }
        let options = self.options()?;
        keep_freed_memory_within(options.memory_limit_bytes);
        let db = Database::open_with(&self.dir, options)?;
        tell_recovery(&db);
        Ok(db)
    }

    fn options(&self) -> Result<DatabaseOptions> {
        let mut options = DatabaseOptions::default();
        if let Some(limit) = &self.memory_limit {
            options.memory_limit_bytes = parse_bytes(limit).map_err(|error| error.at("--memory-limit"))?;
        }
        match self.threads {
            Some(0) => return Err(Error::new(ErrorKind::InvalidSetting, "--threads must be at least 1")),
            Some(threads) => options.threads = threads,
            None => {}
        }
        Ok(options)
    }
}

/// The exit code when standard output has no reader any more: 128 and the number of SIGPIPE, as shells have it.
const BROKEN_PIPE: u8 = 141;

/// Whether writing to standard output has found that its reader has gone.
static OUT_IS_BROKEN: AtomicBool = AtomicBool::new(false);

/// How long work that nobody waits for may go on once all is done, to remove its files.
const STOPPED_WORK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    keep_freed_memory();
    raise_open_files_max();
    let is_server = matches!(cli.command, Command::Serve(_) | Command::Node(_));
    if !is_server {
        observe(None);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            note(format_args!("error: the machine refuses threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Sql(args) => shell::run(*args).await,
            Command::Load(args) => load::run(*args).await,
            Command::Export(args) => export::run(*args).await,
            Command::Check(args) => check::run(&args),
            Command::Repair(args) => repair::run(&args),
            Command::Verify(args) => verify::run(args).await,
            Command::Serve(args) => serve::run(*args).await,
            Command::Node(args) => node::run(*args).await,
            Command::Cluster(args) => cluster::run(args).await,
            Command::Cancel(args) => cancel::run(*args).await,
            Command::Config(args) => config_listing::run(&args),
            Command::Demo(args) => demo::run(args).await,
        }
    });
    let code = match result {
        Ok(code) => code,
        // A server never ends without a word.
        Err(error) if is_server => {
            say_error(&error);
            ExitCode::FAILURE
        }
        Err(error) => failed(&error),
    };
    // The database is closed, and all is said. A statement that was stopped while it was planned may still be planned, on a thread that
    // nobody waits for.
    runtime.shutdown_timeout(STOPPED_WORK);
    code
}

/// Says why a command that is no server failed, unless its reader has gone; and the exit code for it.
pub fn failed(error: &Error) -> ExitCode {
    if OUT_IS_BROKEN.load(Ordering::Relaxed) {
        return ExitCode::from(BROKEN_PIPE);
    }
    say_error(error);
    ExitCode::FAILURE
}

/// Warnings and errors go to standard error, and spans where traces are taken.
fn observe(spans: Option<Spans>) {
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(LevelFilter::WARN);
    match spans {
        None => tracing_subscriber::registry().with(log).init(),
        Some(spans) => tracing_subscriber::registry().with(log).with(spans.with_filter(Spans::filter())).init(),
    }
}

/// How every error is shown.
pub fn say_error(error: &Error) {
    note(format_args!("error: {}", error.message()));
    if let Some(hint) = error.hint() {
        note(format_args!("hint:  {hint}"));
    }
}

/// Says a line on standard error. Nobody may read it, which changes nothing.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes an answer. Standard output may be closed by its reader, which is an error and no panic.
pub fn say(text: &str) -> Result<()> {
    let mut out = Out::of_process();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Error::new(ErrorKind::Io, format!("writing to standard output failed: {error}")))
}

/// Standard output; that its reader has gone is remembered for the exit code.
pub struct Out(Stdout);

impl Out {
    /// That of this process.
    pub fn of_process() -> Out {
        Out(io::stdout())
    }
}

impl Write for Out {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer).map_err(remembered)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(remembered)
    }
}

fn remembered(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        OUT_IS_BROKEN.store(true, Ordering::Relaxed);
    }
    error
}
