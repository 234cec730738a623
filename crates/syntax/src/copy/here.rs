//! A COPY whose files are here and whose table is elsewhere, at a server: what its client has to know of the statement.
//!
//! Invariants:
//! - The query of a COPY ... TO goes to the server as it was written.
//! - URLs are the server's to fetch, and refused by name.

use crate::copy::options::CopyOptions;
use crate::copy::places::name_of as place_name;
use crate::copy::statement::{CopyStatement, Source, Target};
use crate::names::{name_of, user_table};
use crate::statement::{Kind, Statement};
use crate::tokens::copied_query::copied_text;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, ErrorKind, Result};

/// A COPY, as whoever has its files runs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CopyHere {
    /// Files into a table.
    From {
        /// Its name.
        table: RelationName,
        /// The columns that the statement lists.
        columns: Vec<String>,
        /// The files.
        source: Source,
        /// The options, checked.
        options: CopyOptions,
    },
    /// Rows into a file.
    To {
        /// The query that gives them.
        query: String,
        /// Where they go.
        target: Target,
        /// The options, checked.
        options: CopyOptions,
    },
}

impl Statement {
    /// What of this statement is to be done where its files are; `None` if it is no COPY. `text` is the whole of it as it was written.
    pub fn copy_here(&self, text: &str) -> Result<Option<CopyHere>> {
        let copy = match &self.kind {
            Kind::Copy(copy) => copy.as_ref(),
            Kind::Refused(error) => return Err(error.clone()),
            _ => return Ok(None),
        };
        match copy {
            CopyStatement::From { table, columns, source, options, .. } => {
                if let Some(url) = source.urls().next() {
                    let message = format!("a URL is no file that is read here: {}", place_name(url));
                    return Err(Error::new(ErrorKind::NotSupported, message)
                        .with_hint("COPY t FROM 'https://...', as a statement, has the server fetch it"));
                }
                Ok(Some(CopyHere::From {
                    table: user_table(table)?,
                    columns: columns.iter().map(name_of).collect(),
                    source: source.clone(),
                    options: options.clone(),
                }))
            }
            CopyStatement::To { target, options, .. } => {
                let (query, target, options) = (copied_text(text)?, target.clone(), options.clone());
                Ok(Some(CopyHere::To { query, target, options }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::script;
    use std::path::PathBuf;

    fn here(sql: &str) -> Result<Option<CopyHere>> {
        let (statement, text) = script(sql)?.pop().unwrap();
        statement.copy_here(&text)
    }

    #[test]
    fn statements_say_what_is_to_be_done_here() {
        let from = here("COPY public.\"T\" (A, \"B\") FROM 'a.csv', 'b.csv' (DELIMITER ';')").unwrap().unwrap();
        let CopyHere::From { table, columns, source, options } = from else { panic!("a COPY FROM") };
        assert_eq!((table, columns), (RelationName::in_schema("public", "T"), vec!["a".to_owned(), "B".to_owned()]));
        assert_eq!(source, Source::Several(vec!["a.csv".to_owned(), "b.csv".to_owned()]));
        assert_eq!(options.delimiter, Some(b';'));
        let to = here("COPY (SELECT /*+ freshness('5s') */ 1) TO 'out.parquet'").unwrap().unwrap();
        let CopyHere::To { query, target, .. } = to else { panic!("a COPY TO") };
        assert_eq!(query, "SELECT /*+ freshness('5s') */ 1");
        assert_eq!(target, Target::File(PathBuf::from("out.parquet")));
        assert!(here("SELECT 1").unwrap().is_none());
    }

    #[test]
    fn what_it_cannot_do_is_refused_by_name() {
        for (sql, word) in [
            ("COPY t FROM 'https://me:pw@h.org/a.csv?key=secret'", "https://h.org/a.csv"),
            ("COPY alluvia.tables FROM STDIN", "system table"),
            ("VACUUM t", "VACUUM"),
        ] {
            let error = here(sql).unwrap_err();
            assert!(error.message().contains(word) && !error.to_string().contains("secret"), "{sql}: {error}");
        }
    }
}
