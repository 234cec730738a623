//! Backslash commands: lines of their own between statements, typed or in a script.

use super::Format;
use super::script::shell_word;
use crate::quoting::literal;
use alluvia_types::{Error, ErrorKind, Result};
use clap::ValueEnum;
use std::path::PathBuf;

/// What `\l` asks.
const DATABASES: &str = "SELECT d.datname AS name, pg_catalog.pg_get_userbyid(d.datdba) AS owner, \
    pg_catalog.pg_encoding_to_char(d.encoding) AS encoding, d.datcollate AS \"collate\", d.datctype AS ctype \
    FROM pg_catalog.pg_database d ORDER BY 1";

/// What `\dn` asks.
const SCHEMAS: &str = "SELECT n.nspname AS name, pg_catalog.pg_get_userbyid(n.nspowner) AS owner \
    FROM pg_catalog.pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1";

/// What `\d` asks: tables and views with their size, the dimensions of tables, and how far their merged rows are behind.
const RELATIONS: &str = "SELECT i.table_schema AS schema, i.table_name AS name, \
    CASE i.table_type WHEN 'VIEW' THEN 'view' WHEN 'LOCAL TEMPORARY' THEN 'temporary table' ELSE 'table' END AS type, \
    t.rows, pg_catalog.pg_size_pretty(t.bytes) AS size, d.dimensions, round(s.behind) || ' s' AS merged_behind \
    FROM information_schema.tables i \
    LEFT JOIN alluvia.tables t ON t.table_schema = i.table_schema AND t.table_name = i.table_name \
    LEFT JOIN (SELECT table_schema, table_name, string_agg(dimension, ', ' ORDER BY dimension) AS dimensions \
        FROM (SELECT DISTINCT table_schema, table_name, dimension FROM alluvia.dimensions) AS l GROUP BY 1, 2) AS d \
        ON d.table_schema = i.table_schema AND d.table_name = i.table_name \
    LEFT JOIN (SELECT table_schema, table_name, max(staleness_seconds) AS behind FROM alluvia.stages \
        WHERE stage = 'merged' GROUP BY 1, 2) AS s ON s.table_schema = i.table_schema AND s.table_name = i.table_name \
    WHERE ";

/// `\d` lists what is of users.
const OF_USERS: &str = "i.table_schema NOT IN ('pg_catalog', 'information_schema', 'alluvia')";

/// What `\?` and `help` print.
pub const HELP: &str =
    "  \\d              list tables and views with rows and size; \\dt tables alone, \\dv views alone
  \\d NAME         describe a table or a view; so does \\d+ NAME
  \\dt SCHEMA.*    list the tables of a schema
  \\dn             list the schemas
  \\l              list the databases, of which there is one
  \\conninfo       where the shell is connected to
  \\stages         how organised each table is
  \\timing         switch the time of each statement on or off; \\timing on and \\timing off state it
  \\progressive    the same of estimates that get better until the answer
  \\format FORM    table, csv, json, arrow or parquet; without FORM the one in use
  \\x              switch tables with a column a line on or off; \\x on and \\x off state it
  \\pset null TEXT what NULL is shown as in tables and CSV; without TEXT the one in use
  \\o FILE         write the answers that follow to a file; without FILE to standard output again
  \\i FILE         run the statements of a file
  \\echo TEXT      write a text to standard output; with -n before it without the end of the line
  \\copy ...       COPY of files of this machine, also at a server: t FROM 'FILE' (...), (SELECT ...) TO 'FILE'
  \\rows N         how many rows a table on a terminal shows: a number, or all
  \\h COMMAND      how a statement is written; without COMMAND which there are
  \\?              this; so does help
  clear           empties the screen
  \\q              leave; so do exit and quit
Statements end with ';'. Tab completes, Ctrl-C cancels (a progressive query gives the best so far), Ctrl-D leaves.";

/// A parsed backslash command.
#[derive(Debug, PartialEq, Eq)]
pub enum Meta {
    Quit,
    Help,
    /// Of a statement; empty for the list of all.
    SqlHelp(String),
    Clear,
    /// Rows that a table on a terminal shows; `None` is all.
    Rows(Option<usize>),
    /// How many these are.
    ShowRows,
    /// To what; `None` switches it.
    Timing(Option<bool>),
    /// The same.
    Progressive(Option<bool>),
    Format(Format),
    ShowFormat,
    /// Tables with a column a line: to what; `None` switches it.
    Expanded(Option<bool>),
    /// What NULL is shown as; `None` asks.
    Null(Option<String>),
    /// Where answers go; `None` is standard output.
    Output(Option<PathBuf>),
    /// Runs a file.
    Include(PathBuf),
    /// Written as it is.
    Echo(String),
    /// Where the shell is connected to.
    Connected,
    /// Stands for a statement.
    Sql(String),
    /// Stands for a COPY, whose files are this machine's.
    Copy(String),
}

impl Meta {
    pub fn parse(line: &str) -> Result<Meta> {
        if let Some(rest) = line.trim().strip_prefix("\\copy").filter(|rest| !rest.starts_with(is_word_part)) {
            return Ok(Meta::Copy(format!("COPY{rest}")));
        }
        if let Some(meta) = with_texts(line.trim())? {
            return Ok(meta);
        }
        let words = words_of(line.trim().trim_end_matches(';'));
        let (command, arguments) = match words.as_slice() {
            [command, arguments @ ..] => (*command, arguments),
            [] => ("", &[] as &[&str]),
        };
        Ok(match (command, arguments) {
            ("\\q" | "\\quit", []) => Meta::Quit,
            ("\\?" | "\\help", []) => Meta::Help,
            ("\\h", words) => Meta::SqlHelp(words.join(" ")),
            ("\\rows", []) => Meta::ShowRows,
            ("\\rows", [argument]) => Meta::Rows(rows(argument)?),
            (word, []) if shell_word(word).is_some() => match shell_word(word) {
                Some("help") => Meta::Help,
                Some("clear") => Meta::Clear,
                _ => Meta::Quit,
            },
            ("\\timing", []) => Meta::Timing(None),
            ("\\timing", [argument]) => Meta::Timing(Some(switch(command, argument)?)),
            ("\\progressive", []) => Meta::Progressive(None),
            ("\\progressive", [argument]) => Meta::Progressive(Some(switch(command, argument)?)),
            ("\\x", []) => Meta::Expanded(None),
            ("\\x", [argument]) => Meta::Expanded(Some(switch(command, argument)?)),
            ("\\conninfo", []) => Meta::Connected,
            ("\\l" | "\\l+" | "\\list", []) => Meta::Sql(DATABASES.to_owned()),
            ("\\d" | "\\d+", []) => Meta::Sql(relations(OF_USERS, None)),
            ("\\dt" | "\\dt+", []) => Meta::Sql(relations(OF_USERS, Some(false))),
            ("\\dv" | "\\dv+", []) => Meta::Sql(relations(OF_USERS, Some(true))),
            ("\\dn" | "\\dn+", []) => Meta::Sql(SCHEMAS.to_owned()),
            ("\\dt" | "\\dt+", [pattern]) if pattern.ends_with(".*") => {
                Meta::Sql(relations(&of_schema(pattern), Some(false)))
            }
            ("\\d" | "\\d+", [table]) => Meta::Sql(format!("DESCRIBE {table}")),
            ("\\stages", []) => Meta::Sql("SELECT * FROM alluvia.stages".to_owned()),
            ("\\format", []) => Meta::ShowFormat,
            ("\\format", [name]) => Meta::Format(Format::from_str(name, true).map_err(|_| {
                Error::new(ErrorKind::InvalidSetting, format!("there is no format '{name}'"))
                    .with_hint("table, csv, json, arrow or parquet")
            })?),
            ("\\d" | "\\d+" | "\\timing" | "\\progressive" | "\\format" | "\\x" | "\\rows", [_, more @ ..]) => {
                return Err(superfluous(command, "one argument", more));
            }
            (
                "\\q" | "\\quit" | "\\?" | "\\help" | "\\dt" | "\\dt+" | "\\dv" | "\\dv+" | "\\dn" | "\\dn+"
                | "\\stages" | "\\conninfo" | "\\l" | "\\l+" | "\\list",
                more,
            ) => {
                return Err(superfluous(command, "no argument", more));
            }
            _ => {
                return Err(Error::new(ErrorKind::Syntax, format!("there is no command {command}"))
                    .with_hint(format!("the commands are:\n{HELP}")));
            }
        })
    }
}

/// The statement that lists relations: views, tables, or both.
fn relations(which: &str, are_views: Option<bool>) -> String {
    let kind = match are_views {
        None => "",
        Some(true) => " AND i.table_type = 'VIEW'",
        Some(false) => " AND i.table_type <> 'VIEW'",
    };
    format!("{RELATIONS}{which}{kind} ORDER BY 1, 2")
}

/// The condition of the schema that `s.*` names.
fn of_schema(pattern: &str) -> String {
    let schema = pattern.trim_end_matches(".*");
    let schema = match schema.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => schema.to_ascii_lowercase(),
    };
    format!("i.table_schema = {}", literal(&schema))
}

/// The commands whose arguments are texts and files: what is in single quotes is one argument.
fn with_texts(line: &str) -> Result<Option<Meta>> {
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = command.trim_end_matches(';');
    if command == "\\echo" {
        let given = texts_of(command, rest)?;
        let is_part = given.first().is_some_and(|first| first == "-n");
        let text = given[usize::from(is_part)..].join(" ");
        return Ok(Some(Meta::Echo(if is_part { text } else { format!("{text}\n") })));
    }
    if !matches!(command, "\\i" | "\\include" | "\\o" | "\\out" | "\\pset") {
        return Ok(None);
    }
    let given = texts_of(command, rest.trim_end_matches(';'))?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(Some(match (command, given.as_slice()) {
        ("\\i" | "\\include", [file]) => Meta::Include(path_of(file)),
        ("\\i" | "\\include", []) => {
            return Err(Error::new(ErrorKind::Syntax, format!("{command} is followed by no file"))
                .with_hint(format!("write {command} FILE; a name with spaces stands in single quotes")));
        }
        ("\\o" | "\\out", []) => Meta::Output(None),
        ("\\o" | "\\out", [file]) if !file.starts_with('|') => Meta::Output(Some(path_of(file))),
        ("\\o" | "\\out", [file, ..]) if file.starts_with('|') => {
            return Err(Error::new(ErrorKind::NotSupported, format!("{command} writes to files, and not to programs"))
                .with_hint("pipe the output of alluvia sql itself"));
        }
        ("\\pset", [] | ["null"]) => Meta::Null(None),
        ("\\pset", ["null", text]) => Meta::Null(Some((*text).to_owned())),
        ("\\pset", ["null", _, more @ ..]) => return Err(superfluous("\\pset null", "one argument", more)),
        ("\\pset", [name, ..]) => {
            return Err(Error::new(ErrorKind::InvalidSetting, format!("\\pset knows null, and not '{name}'"))
                .with_hint("\\x and \\format set other things of the output"));
        }
        (_, more) => return Err(superfluous(command, "one argument", more.get(1..).unwrap_or(&[]))),
    }))
}

/// The arguments of a line, as psql takes them: two quotes within single quotes stand for one.
fn texts_of(command: &str, rest: &str) -> Result<Vec<String>> {
    let (mut texts, mut text, mut is_open) = (Vec::new(), None::<String>, false);
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' if is_open && chars.peek() == Some(&'\'') => {
                chars.next();
                text.get_or_insert_with(String::new).push('\'');
            }
            '\'' => {
                is_open = !is_open;
                text.get_or_insert_with(String::new);
            }
            c if c.is_whitespace() && !is_open => texts.extend(text.take()),
            c => text.get_or_insert_with(String::new).push(c),
        }
    }
    if is_open {
        return Err(Error::new(ErrorKind::Syntax, format!("a single quote behind {command} is not closed"))
            .with_hint("within single quotes two of them stand for one"));
    }
    texts.extend(text);
    Ok(texts)
}

/// A file, as psql names it: `~` is the home directory.
fn path_of(file: &str) -> PathBuf {
    let home = file.strip_prefix("~/").zip(std::env::var_os("HOME"));
    home.map_or_else(|| PathBuf::from(file), |(rest, home)| PathBuf::from(home).join(rest))
}

/// The words of a line; white space within double quotes parts none.
fn words_of(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = line.split(|c: char| {
        is_quoted ^= c == '"';
        c.is_whitespace() && !is_quoted
    });
    parts.filter(|word| !word.is_empty()).collect()
}

/// What a command is to be switched to.
fn switch(command: &str, argument: &str) -> Result<bool> {
    match argument.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Error::new(ErrorKind::InvalidSetting, format!("{command} is on or off, and not '{argument}'"))
            .with_hint(format!("{command} by itself switches it"))),
    }
}

/// How many rows are to be shown.
fn rows(argument: &str) -> Result<Option<usize>> {
    if argument.eq_ignore_ascii_case("all") {
        return Ok(None);
    }
    let rows = argument.parse().ok().filter(|rows| *rows > 0);
    rows.map(Some).ok_or_else(|| {
        Error::new(ErrorKind::InvalidSetting, format!("\\rows is a number above 0, or all, and not '{argument}'"))
            .with_hint("\\rows 40 shows the first 40 rows of an answer")
    })
}

fn superfluous(command: &str, taken: &str, more: &[&str]) -> Error {
    let message = format!("{command} takes {taken}, and this is too much: {}", more.join(" "));
    let error = Error::new(ErrorKind::Syntax, message);
    match command {
        "\\d" | "\\d+" => {
            error.with_hint("a name with spaces or capital letters is written in double quotes: \\d \"Two Words\"")
        }
        "\\i" | "\\include" | "\\o" | "\\out" | "\\pset null" => {
            error.with_hint("a name or a text with spaces stands in single quotes")
        }
        _ => error.with_hint("statements stand on lines of their own"),
    }
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_parse_and_unknown_ones_list_the_known() {
        assert_eq!(Meta::parse("\\q").unwrap(), Meta::Quit);
        assert_eq!(Meta::parse("\\d sales;").unwrap(), Meta::Sql("DESCRIBE sales".into()));
        assert_eq!(Meta::parse("\\format JSON").unwrap(), Meta::Format(Format::Json));
        assert_eq!(Meta::parse("\\format").unwrap(), Meta::ShowFormat);
        let copy = Meta::parse("\\copy t FROM 'a;b.csv' (FORMAT csv);\n").unwrap();
        assert_eq!(copy, Meta::Copy("COPY t FROM 'a;b.csv' (FORMAT csv);".into()));
        assert_eq!(Meta::parse("\\copy(SELECT 1) TO STDOUT").unwrap(), Meta::Copy("COPY(SELECT 1) TO STDOUT".into()));
        assert!(Meta::parse("\\copying t").is_err());
        assert!(Meta::parse("\\nonsense").unwrap_err().to_string().contains("\\timing"));
    }

    #[test]
    fn switches_take_on_and_off() {
        assert_eq!(Meta::parse("\\timing").unwrap(), Meta::Timing(None));
        assert_eq!(Meta::parse("\\timing off").unwrap(), Meta::Timing(Some(false)));
        assert_eq!(Meta::parse("\\timing ON;").unwrap(), Meta::Timing(Some(true)));
        assert_eq!(Meta::parse("\\progressive").unwrap(), Meta::Progressive(None));
        assert_eq!(Meta::parse("\\progressive on").unwrap(), Meta::Progressive(Some(true)));
        let error = Meta::parse("\\timing maybe").unwrap_err();
        assert_eq!(error.message(), "\\timing is on or off, and not 'maybe'");
    }

    #[test]
    fn names_in_quotes_are_one_argument() {
        for (line, described) in [
            ("\\d \"Mixed Case\"", "\"Mixed Case\""),
            ("\\d  public.t ;\n", "public.t"),
            ("\\d public.\"Two  Words\";", "public.\"Two  Words\""),
            ("\\d \"a \"\"quoted\"\" word;\"", "\"a \"\"quoted\"\" word;\""),
        ] {
            assert_eq!(Meta::parse(line).unwrap(), Meta::Sql(format!("DESCRIBE {described}")), "{line}");
        }
    }

    #[test]
    fn what_is_superfluous_is_refused() {
        for (line, message) in [
            ("\\d Mixed Case", "\\d takes one argument, and this is too much: Case"),
            ("\\d t; DROP TABLE t", "\\d takes one argument, and this is too much: DROP TABLE t"),
            ("\\timing on off", "\\timing takes one argument, and this is too much: off"),
            ("\\format csv json", "\\format takes one argument, and this is too much: json"),
            ("\\stages t", "\\stages takes no argument, and this is too much: t"),
            ("\\dt t", "\\dt takes no argument, and this is too much: t"),
            ("\\q now", "\\q takes no argument, and this is too much: now"),
        ] {
            assert_eq!(Meta::parse(line).unwrap_err().message(), message, "{line}");
        }
    }
    #[test]
    fn texts_and_files_stand_in_single_quotes_or_without() {
        let file = |name: &str| Some(PathBuf::from(name));
        for (line, wanted) in [
            ("\\i a.sql;\n", Meta::Include("a.sql".into())),
            ("\\i 'a b''c.sql'", Meta::Include("a b'c.sql".into())),
            ("\\o", Meta::Output(None)),
            ("\\o;", Meta::Output(None)),
            ("\\o 'two words.csv' ;", Meta::Output(file("two words.csv"))),
            ("\\pset null", Meta::Null(None)),
            ("\\pset null '(null)'", Meta::Null(Some("(null)".into()))),
            ("\\pset null ''", Meta::Null(Some(String::new()))),
            ("\\echo one   two;\n", Meta::Echo("one two;\n".into())),
            ("\\echo -n 'one   two'", Meta::Echo("one   two".into())),
            ("\\echo", Meta::Echo("\n".into())),
            ("\\x", Meta::Expanded(None)),
            ("\\x off;", Meta::Expanded(Some(false))),
            ("\\d+", Meta::Sql(relations(OF_USERS, None))),
            ("\\dv", Meta::Sql(relations(OF_USERS, Some(true)))),
            ("\\dt \"A\".*", Meta::Sql(relations("i.table_schema = 'A'", Some(false)))),
            ("\\d+ t", Meta::Sql("DESCRIBE t".into())),
            ("exit ;", Meta::Quit),
            ("HELP;", Meta::Help),
            ("clear\n", Meta::Clear),
            ("\\h create table;", Meta::SqlHelp("create table".into())),
            ("\\rows 7", Meta::Rows(Some(7))),
            ("\\rows ALL", Meta::Rows(None)),
            ("\\rows", Meta::ShowRows),
        ] {
            assert_eq!(Meta::parse(line).unwrap(), wanted, "{line}");
        }
        for (line, message) in [
            ("\\i", "\\i is followed by no file"),
            ("\\i a b", "\\i takes one argument, and this is too much: b"),
            ("\\o |less", "\\o writes to files, and not to programs"),
            ("\\echo it's", "a single quote behind \\echo is not closed"),
            ("\\pset border 2", "\\pset knows null, and not 'border'"),
            ("\\rows 0", "\\rows is a number above 0, or all, and not '0'"),
        ] {
            assert_eq!(Meta::parse(line).unwrap_err().message(), message, "{line}");
        }
    }
}
