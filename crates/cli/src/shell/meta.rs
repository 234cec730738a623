//! Backslash commands: lines of their own between statements, typed or in a script.

use super::Format;
use alluvia_types::{Error, ErrorKind, Result};
use clap::ValueEnum;

/// What `\?` prints.
pub const HELP: &str = "  \\d              list tables
  \\d NAME         describe a table
  \\stages         how organised each table is
  \\timing         switch the time of each statement on or off
  \\progressive    switch estimates that get better until the answer on or off
  \\format FORM    table, csv, json, arrow or parquet
  \\copy ...       COPY of files of this machine, also at a server: t FROM 'FILE' (...), (SELECT ...) TO 'FILE'
  \\q              leave
Statements end with ';'. Tab completes, Ctrl-C cancels (a progressive query gives the best so far), Ctrl-D leaves.";

/// A parsed backslash command.
#[derive(Debug, PartialEq, Eq)]
pub enum Meta {
    Quit,
    Help,
    Timing,
    Progressive,
    Format(Format),
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
        let mut words = line.trim().trim_end_matches(';').split_whitespace();
        let command = words.next().unwrap_or_default();
        let argument = words.next();
        Ok(match (command, argument) {
            ("\\q", _) => Meta::Quit,
            ("\\?" | "\\h" | "\\help", _) => Meta::Help,
            ("\\timing", _) => Meta::Timing,
            ("\\progressive", _) => Meta::Progressive,
            ("\\d" | "\\dt", None) => Meta::Sql("SHOW TABLES".to_owned()),
            ("\\d", Some(table)) => Meta::Sql(format!("DESCRIBE {table}")),
            ("\\stages", _) => Meta::Sql("SELECT * FROM alluvia.stages".to_owned()),
            ("\\format", Some(name)) => Meta::Format(Format::from_str(name, true).map_err(|_| {
                Error::new(ErrorKind::InvalidSetting, format!("there is no format '{name}'"))
                    .with_hint("table, csv, json, arrow or parquet")
            })?),
            _ => {
                return Err(Error::new(ErrorKind::Syntax, format!("there is no command {command}"))
                    .with_hint(format!("the commands are:\n{HELP}")));
            }
        })
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
        let copy = Meta::parse("\\copy t FROM 'a;b.csv' (FORMAT csv);\n").unwrap();
        assert_eq!(copy, Meta::Copy("COPY t FROM 'a;b.csv' (FORMAT csv);".into()));
        assert_eq!(Meta::parse("\\copy(SELECT 1) TO STDOUT").unwrap(), Meta::Copy("COPY(SELECT 1) TO STDOUT".into()));
        assert!(Meta::parse("\\copying t").is_err());
        assert!(Meta::parse("\\nonsense").unwrap_err().to_string().contains("\\timing"));
    }
}
