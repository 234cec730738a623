//! Backslash commands: lines of their own between statements, typed or in a script.

use super::Format;
use alluvia_types::{Error, ErrorKind, Result};
use clap::ValueEnum;

/// What `\?` prints.
pub const HELP: &str = "  \\d              list tables
  \\d NAME         describe a table
  \\stages         how organised each table is
  \\timing         switch the time of each statement on or off; \\timing on and \\timing off state it
  \\progressive    the same of estimates that get better until the answer
  \\format FORM    table, csv, json, arrow or parquet; without FORM the one in use
  \\copy ...       COPY of files of this machine, also at a server: t FROM 'FILE' (...), (SELECT ...) TO 'FILE'
  \\q              leave
Statements end with ';'. Tab completes, Ctrl-C cancels (a progressive query gives the best so far), Ctrl-D leaves.";

/// A parsed backslash command.
#[derive(Debug, PartialEq, Eq)]
pub enum Meta {
    Quit,
    Help,
    /// To what; `None` switches it.
    Timing(Option<bool>),
    /// The same.
    Progressive(Option<bool>),
    Format(Format),
    ShowFormat,
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
        let words = words_of(line.trim().trim_end_matches(';'));
        let (command, arguments) = match words.as_slice() {
            [command, arguments @ ..] => (*command, arguments),
            [] => ("", &[] as &[&str]),
        };
        Ok(match (command, arguments) {
            ("\\q", []) => Meta::Quit,
            ("\\?" | "\\h" | "\\help", []) => Meta::Help,
            ("\\timing", []) => Meta::Timing(None),
            ("\\timing", [argument]) => Meta::Timing(Some(switch(command, argument)?)),
            ("\\progressive", []) => Meta::Progressive(None),
            ("\\progressive", [argument]) => Meta::Progressive(Some(switch(command, argument)?)),
            ("\\d" | "\\dt", []) => Meta::Sql("SHOW TABLES".to_owned()),
            ("\\d", [table]) => Meta::Sql(format!("DESCRIBE {table}")),
            ("\\stages", []) => Meta::Sql("SELECT * FROM alluvia.stages".to_owned()),
            ("\\format", []) => Meta::ShowFormat,
            ("\\format", [name]) => Meta::Format(Format::from_str(name, true).map_err(|_| {
                Error::new(ErrorKind::InvalidSetting, format!("there is no format '{name}'"))
                    .with_hint("table, csv, json, arrow or parquet")
            })?),
            ("\\d" | "\\timing" | "\\progressive" | "\\format", [_, more @ ..]) => {
                return Err(superfluous(command, "one argument", more));
            }
            ("\\q" | "\\?" | "\\h" | "\\help" | "\\dt" | "\\stages", more) => {
                return Err(superfluous(command, "no argument", more));
            }
            _ => {
                return Err(Error::new(ErrorKind::Syntax, format!("there is no command {command}"))
                    .with_hint(format!("the commands are:\n{HELP}")));
            }
        })
    }
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

fn superfluous(command: &str, taken: &str, more: &[&str]) -> Error {
    let message = format!("{command} takes {taken}, and this is too much: {}", more.join(" "));
    let error = Error::new(ErrorKind::Syntax, message);
    match command {
        "\\d" => {
            error.with_hint("a name with spaces or capital letters is written in double quotes: \\d \"Two Words\"")
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
}
