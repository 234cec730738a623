//! `alluvia sql`: statements in, answers out.
//!
//! Interactive when standard input is a terminal; otherwise statements are read from -c, -f or the pipe, the first error
//! stops the run, and only answers go to standard output. A pipe is read as it comes ([`pipe`]), unless its answers are one
//! file. Statements run in a database of this process or at a server: see [`connection`].
//!
//! Invariants:
//! - Statements and backslash commands run in the order in which they stand. A command is a line that begins with a backslash
//!   (or is `exit`, `quit`, `help` or `clear`) where no statement is under way: never a line of a literal.
//! - Answers go where [`output_settings`] says; what the shell itself says goes to standard output.
//! - What is not a command reaches the parser byte for byte.

mod client_copy;
mod complete;
mod connection;
mod estimate;
mod file_output;
mod interrupt;
mod interval_text;
mod meta;
mod output;
mod output_settings;
mod pipe;
mod refine;
mod script;
mod sql_help;
mod statement;
mod statement_end;
mod table_fit;

pub use connection::{Connection, HowArgs};
pub use output::{drawn, print};
pub use statement::Answer;

use crate::{failed, note, say, say_error};
use alluvia_syntax::Command;
use alluvia_syntax::names::DATABASE_NAME;
use alluvia_types::{Error, ErrorKind, Result};
use clap::{Args, ValueEnum};
use complete::{Highlight, Leaving, Names, Statements};
use connection::PlaceArgs;
use file_output::Written;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use meta::Meta;
use output::write;
use output_settings::{OutputSettings, Sink};
use pipe::{Next, Pipe};
use reedline::{
    ColumnarMenu, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder,
    Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use script::{Cutter, Piece, pieces};
use statement::{Bounded, Statement};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Args)]
pub struct SqlArgs {
    #[command(flatten)]
    place: PlaceArgs,
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

impl Format {
    /// Whether an answer in it is a whole file.
    fn is_file(self) -> bool {
        matches!(self, Format::Arrow | Format::Parquet)
    }

    /// As it is written on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What the shell remembers between statements.
pub struct Shell {
    connection: Connection,
    settings: OutputSettings,
    timing: bool,
    /// Standard input is read as SQL, so no statement can read rows from it.
    stdin_is_script: bool,
    /// What standard output has got; nobody counts for a terminal.
    written: Option<Written>,
    /// What the file of `\o` has got, where answers go to one.
    aside: Option<Written>,
    /// Files that run, one within the other.
    included: usize,
    /// How many statements of a file or a pipe have begun, whose errors say which it is; `None` of what is typed or given with -c.
    begun: Option<usize>,
}

/// Files that run one within the other, at most: one that runs itself ends here.
const INCLUDED_MAX: usize = 16;
/// Characters of a statement that its error shows.
const SHOWN_CHARS: usize = 60;

pub async fn run(args: SqlArgs) -> Result<ExitCode> {
    let SqlArgs { place, command, file, format, timing, progressive } = args;
    let connection = place.open().await?;
    let written = (!std::io::stdout().is_terminal()).then(Written::default);
    let mut shell = Shell {
        connection,
        settings: OutputSettings::of(format),
        timing,
        stdin_is_script: false,
        written,
        aside: None,
        included: 0,
        begun: None,
    };
    let ran = shell.run(&command, file.as_deref(), progressive).await;
    // Closing waits for what the database still writes: whoever stopped a statement is told before.
    let code = ran.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS);
    shell.connection.close().await;
    Ok(code)
}

impl Shell {
    /// Runs what is given, or else what is typed.
    async fn run(&mut self, commands: &[String], file: Option<&Path>, is_progressive: bool) -> Result<()> {
        if is_progressive {
            self.connection.sql("SET progressive = on").await?;
        }
        if !commands.is_empty() {
            self.foresee(commands)?;
            for text in commands {
                if self.script(text).await? {
                    break;
                }
            }
            return Ok(());
        }
        if let Some(file) = file {
            return self.include(file).await;
        }
        if std::io::stdin().is_terminal() {
            return self.interactive().await;
        }
        self.stdin_is_script = true;
        self.begun = Some(0);
        if !self.settings.format.is_file() {
            return self.piped().await;
        }
        // Whether its answers come to one file is seen at its end.
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|error| Error::io("standard input", "reading", &error))?;
        self.foresee(std::slice::from_ref(&text))?;
        self.script(&text).await.map(drop)
    }

    /// Runs a file; its errors name it, and the statement in it. `\q` in it ends it alone.
    fn include<'a>(&'a mut self, file: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let ran = async move {
            if self.included >= INCLUDED_MAX {
                let message = format!("{} files run one within the other: no more than that", self.included);
                return Err(Error::new(ErrorKind::NotSupported, message).with_hint("let no file run itself with \\i"));
            }
            let text = std::fs::read_to_string(file).map_err(|error| Error::io(file, "reading", &error))?;
            let before = self.begun.replace(0);
            self.included += 1;
            let ran = match self.foresee(std::slice::from_ref(&text)) {
                Ok(()) => self.script(&text).await.map(drop),
                Err(error) => Err(error),
            };
            self.included -= 1;
            self.begun = before;
            ran.map_err(|error| error.at(file.display()))
        };
        // A file may run another one.
        ran.boxed_local()
    }

    /// Runs the script in standard input as it comes: what has ended is run where it pauses, as a text of its own.
    async fn piped(&mut self) -> Result<()> {
        let (mut pipe, mut cutter) = (Pipe::of(std::io::stdin()), Cutter::default());
        loop {
            let next = tokio::select! {
                biased;
                next = pipe.next() => next?,
                () = interrupt::pressed() => {
                    return Err(Error::new(ErrorKind::Cancelled, "interrupted while waiting for statements"));
                }
            };
            let pieces = match next {
                Next::Line(line) => cutter.feed(&line),
                Next::Pause => cutter.pause().into_iter().collect(),
                Next::End => return self.piece(cutter.finish()).await.map(drop),
            };
            for piece in pieces {
                if self.piece(piece).await? {
                    return Ok(());
                }
            }
        }
    }

    /// Runs every statement and every backslash command of a text, in order; the first error ends it, and a syntax error
    /// refuses all statements up to the next command, or of half a megabyte of a longer text. Returns whether `\q` ended it.
    async fn script(&mut self, text: &str) -> Result<bool> {
        for piece in pieces(text) {
            if self.piece(piece).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn piece(&mut self, piece: Piece) -> Result<bool> {
        match piece {
            Piece::Sql(sql) => self.statements(&sql).await?,
            Piece::From(line, sql) => {
                let ran = self.statements(&sql).await;
                ran.map_err(|error| error.at(format_args!("what follows from line {line} on")))?;
            }
            Piece::Command(line) => return self.meta(&line).await,
        }
        Ok(false)
    }

    /// Refuses texts whose answers would be more than one file, before any of them is run. What cannot be read is refused in its place.
    fn foresee(&self, texts: &[String]) -> Result<()> {
        let (mut format, mut aside) = (self.settings.format, self.aside);
        let Some(mut written) = self.written.filter(|_| format.is_file()) else { return Ok(()) };
        for piece in texts.iter().flat_map(|text| pieces(text)) {
            let sql = match piece {
                Piece::Sql(sql) | Piece::From(_, sql) => sql,
                Piece::Command(line) => match Meta::parse(&line) {
                    Ok(Meta::Sql(sql) | Meta::Copy(sql)) => sql,
                    Ok(Meta::Format(other)) => {
                        format = other;
                        continue;
                    }
                    Ok(Meta::Output(file)) => {
                        aside = file.map(|_| Written::default());
                        continue;
                    }
                    Ok(
                        Meta::Help
                        | Meta::SqlHelp(_)
                        | Meta::Clear
                        | Meta::Rows(_)
                        | Meta::ShowRows
                        | Meta::Timing(_)
                        | Meta::Progressive(_)
                        | Meta::ShowFormat
                        | Meta::Expanded(_)
                        | Meta::Null(_)
                        | Meta::Echo(_)
                        | Meta::Connected,
                    ) => {
                        written.admit(Format::Table)?;
                        continue;
                    }
                    // What another file holds is seen when it runs.
                    Ok(Meta::Quit | Meta::Include(_)) | Err(_) => return Ok(()),
                },
            };
            let Ok(statements) = self.connection.parse(&sql) else { return Ok(()) };
            for statement in statements {
                if statement.writes(format) {
                    aside.as_mut().unwrap_or(&mut written).admit(format)?;
                }
            }
        }
        Ok(())
    }

    /// Takes note of an answer that is about to be written in this form.
    fn admit(&mut self, format: Format) -> Result<()> {
        self.aside.as_mut().or(self.written.as_mut()).map_or(Ok(()), |written| written.admit(format))
    }

    /// Says what is the shell's own: on standard output, wherever answers go.
    fn tell(&mut self, text: &str) -> Result<()> {
        self.written.as_mut().map_or(Ok(()), |written| written.admit(Format::Table))?;
        say(text)
    }

    async fn statements(&mut self, sql: &str) -> Result<()> {
        let statements = self.connection.parse(sql)?;
        self.all(statements).await
    }

    /// A COPY whose files are this machine's.
    async fn copy(&mut self, sql: &str) -> Result<()> {
        // What cannot be read here is not left to a server.
        alluvia_syntax::script(sql)?;
        let mut statements = self.connection.parse(sql)?;
        if statements.len() != 1 {
            return Err(Error::new(ErrorKind::Syntax, "\\copy is not followed by one COPY")
                .with_hint("write \\copy t FROM 'FILE' (FORMAT csv), or \\copy (SELECT ...) TO 'FILE', in one line"));
        }
        statements.iter_mut().for_each(|statement| statement.is_here = true);
        self.all(statements).await
    }

    async fn all(&mut self, statements: Vec<Statement>) -> Result<()> {
        for statement in statements {
            if self.stdin_is_script && statement.reads_stdin() {
                let message = "COPY ... FROM STDIN is refused here: standard input is the script, and was read as SQL";
                return Err(Error::new(ErrorKind::NotSupported, message)
                    .with_hint("give the statement with -c or -f and pipe the rows in, or load them from a file"));
            }
            // What could not be parsed here is whole texts, whose errors name a line.
            let place = self.begun.as_mut().zip(statement.parsed.as_ref()).map(|(begun, parsed)| {
                *begun += 1;
                format!("statement {begun} ({})", beginning_of(parsed.sql()))
            });
            let ran = self.statement(statement).await;
            ran.map_err(|error| match place {
                Some(place) => error.at(place),
                None => error,
            })?;
        }
        Ok(())
    }

    async fn statement(&mut self, statement: Statement) -> Result<()> {
        let start = Instant::now();
        let is_foreseen = statement.writes(self.settings.format);
        if is_foreseen {
            self.admit(self.settings.format)?;
        }
        let Shell { connection, settings, written, aside, .. } = self;
        if statement.command() == Command::Query && connection.is_progressive().await {
            settings.time_zone = connection.time_zone().await;
            refine::run(connection, statement, settings).await?;
        } else {
            let written = aside.as_mut().or(written.as_mut());
            let is_shown = settings.format == Format::Table && statement.command() == Command::Query;
            let work = async {
                let answer = match is_shown {
                    true => connection.bounded(statement).await?,
                    false => Bounded::Rows(connection.execute_to(statement, settings.sink.clone()).await?),
                };
                let answer = match answer {
                    Bounded::Rows(answer) => answer,
                    Bounded::Estimate(estimate, notices) => {
                        settings.time_zone = connection.time_zone().await;
                        estimate::table_of_estimate(&estimate, settings)?;
                        notices.iter().for_each(|notice| note(format_args!("NOTICE: {notice}")));
                        return Ok(());
                    }
                };
                if let Some(written) = written.filter(|_| !is_foreseen && answer.rows.is_some()) {
                    written.admit(settings.format)?;
                }
                if answer.rows.is_some() {
                    settings.time_zone = connection.time_zone().await;
                }
                write(answer, settings).await
            };
            connection.cancellable(work).await?;
        }
        if self.timing {
            note(format_args!("Time: {:.3} ms", start.elapsed().as_secs_f64() * 1e3));
        }
        Ok(())
    }

    async fn meta(&mut self, line: &str) -> Result<bool> {
        match Meta::parse(line)? {
            Meta::Quit => return Ok(true),
            Meta::Help => self.tell(&format!("{}\n", meta::HELP))?,
            Meta::SqlHelp(statement) => self.tell(&sql_help::of(&statement)?)?,
            Meta::Clear if std::io::stdout().is_terminal() => say("\u{1b}[H\u{1b}[2J")?,
            Meta::Clear => {}
            Meta::Rows(rows) => self.settings.rows_max = rows,
            Meta::ShowRows => {
                let rows = self.settings.rows_max.map_or_else(|| "all".to_owned(), |rows| rows.to_string());
                self.tell(&format!("Rows that a table on a terminal shows: {rows}.\n"))?;
            }
            Meta::Timing(to) => {
                self.timing = to.unwrap_or(!self.timing);
                self.tell(&format!("Timing is {}.\n", on_or_off(self.timing)))?;
            }
            Meta::Progressive(to) => {
                let to = match to {
                    Some(to) => to,
                    None => !self.connection.is_progressive().await,
                };
                let switched = on_or_off(to);
                self.connection.sql(&format!("SET progressive = {switched}")).await?;
                self.tell(&format!("Progressive answers are {switched}.\n"))?;
            }
            Meta::Expanded(to) => {
                self.settings.is_expanded = to.unwrap_or(!self.settings.is_expanded);
                self.tell(&format!("Expanded display is {}.\n", on_or_off(self.settings.is_expanded)))?;
            }
            Meta::Null(to) => {
                if let Some(to) = to {
                    self.settings.null = to;
                }
                self.tell(&format!("Null display is \"{}\".\n", self.settings.null))?;
            }
            Meta::Echo(text) => self.tell(&text)?,
            Meta::Connected => {
                let (place, user) = (self.connection.told(), self.user().await?);
                let told = format!("You are connected to database \"{DATABASE_NAME}\" {place} as user \"{user}\".\n");
                self.tell(&told)?;
            }
            Meta::Output(None) => {
                self.aside = None;
                self.settings.sink = Sink::Out;
            }
            Meta::Output(Some(file)) => {
                self.settings.sink = Sink::file(&file)?;
                self.aside = Some(Written::default());
            }
            Meta::Include(file) => self.include(&file).await?,
            Meta::Format(format) => self.settings.format = format,
            Meta::ShowFormat => {
                let all: Vec<String> = Format::value_variants().iter().map(|format| format.name()).collect();
                self.tell(&format!("The format is {}, of {}.\n", self.settings.format.name(), all.join(", ")))?;
            }
            Meta::Sql(sql) => self.statements(&sql).await?,
            Meta::Copy(sql) => self.copy(&sql).await?,
        }
        Ok(false)
    }

    /// Who the session is.
    async fn user(&self) -> Result<String> {
        let batches = self.connection.sql("SELECT current_user").await?.collect().await?;
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(String::new()) };
        Ok(output::texts("current_user", batch.column(0))?.remove(0).unwrap_or_default())
    }

    /// Runs what is typed, until it is enough.
    async fn interactive(&mut self) -> Result<()> {
        say(&format!(
            "Alluvia {}. Statements end with ';'. help lists the commands, exit leaves.\n",
            env!("CARGO_PKG_VERSION")
        ))?;
        let names = Names::new(self.connection.another().await.ok());
        names.refresh().await;
        let mut editor = editor(&names);
        let prompt =
            DefaultPrompt::new(DefaultPromptSegment::Basic(self.connection.name()), DefaultPromptSegment::Empty);
        self.settings.is_screen = std::io::stdout().is_terminal();
        let ended = loop {
            let typed = editor.read_line(&prompt);
            // What was pressed as the statement before ended is not for this one.
            interrupt::was_pressed();
            match typed {
                Ok(Signal::Success(line)) => match self.script(&line).await {
                    Ok(true) => break Ok(()),
                    Ok(false) => names.refresh().await,
                    Err(error) => {
                        say_error(&error);
                        if let Some(notice) = self.connection.recover().await {
                            note(format_args!("NOTICE: {notice}"));
                        }
                    }
                },
                Ok(Signal::CtrlC) => {}
                Ok(_) => break Ok(()),
                Err(error) => break Err(Error::io("the terminal", "reading", &error)),
            }
        };
        names.close().await;
        ended
    }
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// The beginning of a statement's text, in one line.
fn beginning_of(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().take(SHOWN_CHARS).collect();
    let text = words.join(" ");
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{} ...", text[..end].trim_end()),
        None => text,
    }
}

/// An editor of lines that knows these names.
fn editor(names: &Names) -> Reedline {
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
        .with_hinter(Box::new(Leaving))
        .with_validator(Box::new(Statements));
    if let Some(file) = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".alluvia_history"))
        && let Ok(history) = FileBackedHistory::with_file(10_000, file)
    {
        editor = editor.with_history(Box::new(history));
    }
    editor
}
