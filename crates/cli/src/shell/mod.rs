//! `alluvia sql`: statements in, answers out.
//!
//! Interactive when standard input is a terminal; otherwise statements are read from -c, -f or the pipe, the first error
//! stops the run, and only answers go to standard output.

mod complete;
mod meta;
mod output;

use crate::{OpenArgs, say_error};
use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_types::{Error, Result};
use clap::{Args, ValueEnum};
use complete::{Highlight, Names, Statements};
use meta::Meta;
use output::print;
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
}

pub async fn run(args: SqlArgs) -> Result<ExitCode> {
    let db = args.open.open()?;
    let mut shell = Shell { session: db.session(), format: args.format, timing: args.timing };
    if !args.command.is_empty() {
        for text in &args.command {
            shell.script(text).await?;
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
    shell.script(&text).await?;
    Ok(ExitCode::SUCCESS)
}

impl Shell {
    /// Runs every statement of a text; the first error ends it.
    async fn script(&mut self, text: &str) -> Result<()> {
        for line in text.lines().map(str::trim).filter(|line| line.starts_with('\\')) {
            // Backslash commands stand on lines of their own, also in scripts.
            self.meta(line).await?;
        }
        let sql: String =
            text.lines().filter(|line| !line.trim_start().starts_with('\\')).flat_map(|l| [l, "\n"]).collect();
        for statement in self.session.parse(&sql)? {
            self.statement(statement).await?;
        }
        Ok(())
    }

    async fn statement(&mut self, statement: alluvia_query::Statement) -> Result<()> {
        let start = Instant::now();
        let cancel = self.session.cancel_handle();
        let run = async {
            let outcome = self.session.execute(statement).await?;
            print(outcome, self.format).await
        };
        tokio::pin!(run);
        let result = loop {
            tokio::select! {
                result = &mut run => break result,
                signal = tokio::signal::ctrl_c() => match signal {
                    Ok(()) => cancel.cancel(),
                    Err(_) => break run.await,
                },
            }
        };
        result?;
        if self.timing {
            eprintln!("Time: {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(())
    }

    async fn meta(&mut self, line: &str) -> Result<bool> {
        match Meta::parse(line)? {
            Meta::Quit => return Ok(true),
            Meta::Help => println!("{}", meta::HELP),
            Meta::Timing => {
                self.timing = !self.timing;
                println!("Timing is {}.", if self.timing { "on" } else { "off" });
            }
            Meta::Format(format) => self.format = format,
            Meta::Sql(sql) => {
                for statement in self.session.parse(&sql)? {
                    self.statement(statement).await?;
                }
            }
        }
        Ok(false)
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
            Ok(Signal::Success(line)) => {
                let line = line.trim();
                let result = if line.starts_with('\\') {
                    shell.meta(line).await
                } else {
                    shell.script(line).await.map(|()| false)
                };
                match result {
                    Ok(true) => return Ok(ExitCode::SUCCESS),
                    Ok(false) => names.refresh().await,
                    Err(error) => say_error(&error),
                }
            }
            Ok(Signal::CtrlC) => {}
            Ok(_) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(Error::io("the terminal", "reading", &error)),
        }
    }
}
