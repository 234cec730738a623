//! `alluvia sql`: statements in, answers out.
//!
//! Interactive when standard input is a terminal; otherwise statements are read from -c, -f or the pipe, the first error
//! stops the run, and only answers go to standard output.
//!
//! Invariants:
//! - Statements and backslash commands run in the order in which they stand. A command is a line that begins with a backslash
//!   where no statement is under way: never a line of a literal.
//! - What is not a command reaches the parser byte for byte.

mod complete;
mod ending;
mod meta;
mod output;
mod refine;

pub use output::print;

use crate::{OpenArgs, say, say_error};
use alluvia_node::Database;
use alluvia_query::copy::Streams;
use alluvia_query::{Command, Session};
use alluvia_types::{Error, ErrorKind, Result};
use clap::{Args, ValueEnum};
use complete::{Highlight, Names, Statements};
use ending::Ending;
use meta::Meta;
use reedline::{
    ColumnarMenu, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder,
    Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Args)]
pub struct SqlArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// Runs these statements and ends.
    #[arg(short, long, value_name = "SQL")]
    command: Vec<String>,
    /// Runs the statements of a file and ends.
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// How answers are written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Prints the time of each statement.
    #[arg(long)]
    timing: bool,
    /// Shows estimates that get better until the answer; Ctrl-C takes the best so far. As SET progressive = on.
    #[arg(long)]
    progressive: bool,
}

/// Forms of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// Comma-separated, with a header.
    Csv,
    /// One JSON object a line.
    Json,
    /// Arrow IPC stream.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// What the shell remembers between statements.
pub struct Shell {
    session: Session,
    format: Format,
    timing: bool,
    /// Standard input is read as SQL, so no statement can read rows from it.
    stdin_is_script: bool,
}

pub async fn run(args: SqlArgs) -> Result<ExitCode> {
    let db = args.open.open()?;
    let session = db.session();
    if args.progressive {
        session.sql("SET progressive = on").await?;
    }
    let mut shell = Shell { session, format: args.format, timing: args.timing, stdin_is_script: false };
    if !args.command.is_empty() {
        for text in &args.command {
            if shell.script(text).await? {
                break;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file).map_err(|error| Error::io(file, "reading", &error))?;
        shell.script(&text).await.map_err(|error| error.at(file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if std::io::stdin().is_terminal() {
        return interactive(&db, shell).await;
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| Error::io("standard input", "reading", &error))?;
    shell.stdin_is_script = true;
    shell.script(&text).await?;
    Ok(ExitCode::SUCCESS)
}

impl Shell {
    /// Runs every statement and every backslash command of a text, in order; the first error ends it, and a syntax error
    /// refuses all statements up to the next command. Returns whether `\q` ended it.
    async fn script(&mut self, text: &str) -> Result<bool> {
        let (mut pending, mut ending, mut lines) = (String::new(), Ending::default(), 0);
        for line in text.split_inclusive('\n') {
            lines += 1;
            if !ending.has_ended() || !line.trim_start().starts_with('\\') {
                ending.feed(line);
                pending.push_str(line);
                continue;
            }
            self.statements(&pending).await?;
            // Errors name the line of the whole text.
            pending = "\n".repeat(lines);
            if self.meta(line).await? {
                return Ok(true);
            }
        }
        self.statements(&pending).await?;
        Ok(false)
    }

    async fn statements(&mut self, sql: &str) -> Result<()> {
        for statement in self.session.parse(sql)? {
            if self.stdin_is_script && statement.reads_stdin() {
                let message = "COPY ... FROM STDIN is refused here: standard input is the script, and was read as SQL";
                return Err(Error::new(ErrorKind::NotSupported, message)
                    .with_hint("give the statement with -c or -f and pipe the rows in, or load them from a file"));
            }
            self.statement(statement).await?;
        }
        Ok(())
    }

    async fn statement(&mut self, statement: alluvia_query::Statement) -> Result<()> {
        let start = Instant::now();
        if self.session.is_progressive() && statement.command() == Command::Query {
            refine::run(&self.session, statement, self.format).await?;
        } else {
            cancellable(&self.session, async {
                let outcome = self.session.execute_with(statement, Streams::of_process()).await?;
                print(outcome, self.format).await
            })
            .await?;
        }
        if self.timing {
            eprintln!("Time: {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(())
    }

    async fn meta(&mut self, line: &str) -> Result<bool> {
        match Meta::parse(line)? {
            Meta::Quit => return Ok(true),
            Meta::Help => say(&format!("{}\n", meta::HELP))?,
            Meta::Timing => {
                self.timing = !self.timing;
                say(&format!("Timing is {}.\n", if self.timing { "on" } else { "off" }))?;
            }
            Meta::Progressive => {
                let switched = if self.session.is_progressive() { "off" } else { "on" };
                self.session.sql(&format!("SET progressive = {switched}")).await?;
                say(&format!("Progressive answers are {switched}.\n"))?;
            }
            Meta::Format(format) => self.format = format,
            Meta::Sql(sql) => self.statements(&sql).await?,
        }
        Ok(false)
    }
}

/// Does what a statement of a session asks; Ctrl-C cancels it.
async fn cancellable<T>(session: &Session, work: impl Future<Output = Result<T>>) -> Result<T> {
    let cancel = session.cancel_handle();
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            signal = tokio::signal::ctrl_c() => match signal {
                Ok(()) => cancel.cancel(),
                Err(_) => return work.await,
            },
        }
    }
}

async fn interactive(db: &Database, mut shell: Shell) -> Result<ExitCode> {
    println!("Alluvia {}. Statements end with ';'. \\? for help, \\q to leave.", env!("CARGO_PKG_VERSION"));
    let names = Names::new(db.session());
    names.refresh().await;
    let mut keys = default_emacs_keybindings();
    let complete =
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu("completion".to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    let menu = Box::new(ColumnarMenu::default().with_name("completion"));
    let mut editor = Reedline::create()
        .with_completer(Box::new(names.clone()))
        .with_menu(ReedlineMenu::EngineCompleter(menu))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_highlighter(Box::new(Highlight))
        .with_validator(Box::new(Statements));
    if let Some(file) = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".alluvia_history"))
        && let Ok(history) = FileBackedHistory::with_file(10_000, file)
    {
        editor = editor.with_history(Box::new(history));
    }
    let name = db.core().dir().file_name().map_or_else(|| "alluvia".into(), |name| name.to_string_lossy().into_owned());
    let prompt = DefaultPrompt::new(DefaultPromptSegment::Basic(name), DefaultPromptSegment::Empty);
    loop {
        match editor.read_line(&prompt) {
            Ok(Signal::Success(line)) => match shell.script(&line).await {
                Ok(true) => return Ok(ExitCode::SUCCESS),
                Ok(false) => names.refresh().await,
                Err(error) => say_error(&error),
            },
            Ok(Signal::CtrlC) => {}
            Ok(_) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(Error::io("the terminal", "reading", &error)),
        }
    }
}
