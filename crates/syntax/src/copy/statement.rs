//! The COPY statement, from tokens.
//!
//! sqlparser 0.62 knows a closed list of options (no COMPRESSION, ON_ERROR, BATCH_ROWS) and reads rows for STDIN out of the SQL
//! text, so the statement is parsed here, on its parser: queries and names are sqlparser's, the rest is ours. Accepted are
//! PostgreSQL's `[WITH] (name value, ...)` and its older `[WITH] CSV HEADER DELIMITER AS ';'`.

use crate::copy::options::{CopyOptions, Direction, OnError, Written};
use crate::copy::places::{check_url_options, is_open, is_url, name_of, refuse_url};
use crate::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use sqlparser::ast::{Ident, ObjectName, Query};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{IsOptional, Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where COPY FROM reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// One file, or all files that a pattern with `*`, `?`, `[...]` or `**` matches, in the order of their names; or a URL.
    Files(String),
    /// The files of several such patterns, each file once, in the order of their names; and the URLs after them.
    Several(Vec<String>),
    /// What the caller hands in.
    Stdin,
}

impl Source {
    /// Files, patterns and URLs as they are written; none for standard input.
    pub fn patterns(&self) -> &[String] {
        match self {
            Source::Files(pattern) => std::slice::from_ref(pattern),
            Source::Several(patterns) => patterns,
            Source::Stdin => &[],
        }
    }

    /// The URLs among them.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.patterns().iter().map(String::as_str).filter(|place| is_url(place))
    }

    /// As SQL, to follow FROM.
    pub fn to_sql(&self) -> String {
        let quoted = |pattern: &String| format!("'{}'", pattern.replace('\'', "''"));
        match self {
            Source::Stdin => "STDIN".to_owned(),
            files => files.patterns().iter().map(quoted).collect::<Vec<String>>().join(", "),
        }
    }
}

/// Where COPY TO writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A file; replaced at once when it is complete.
    File(PathBuf),
    /// What the caller hands in.
    Stdout,
}

/// What COPY TO writes.
#[derive(Clone, PartialEq, Debug)]
pub enum CopyWhat {
    /// A table, all columns when none are listed.
    Table {
        /// Its name.
        name: ObjectName,
        /// The columns.
        columns: Vec<Ident>,
    },
    /// A query's result.
    Query(Box<Query>),
}

/// A parsed and checked COPY. Copies of it share its streams, which the first that runs takes.
#[derive(Clone, Debug)]
pub enum CopyStatement {
    /// `COPY table [(columns)] FROM ...`
    From {
        /// The table.
        table: ObjectName,
        /// The columns that the file's fields go to; none: see `alluvia_copy::copy_from`.
        columns: Vec<Ident>,
        /// The files.
        source: Source,
        /// The options, checked.
        options: CopyOptions,
        /// What standard input is; nothing until it is handed in.
        streams: Arc<Mutex<Streams>>,
    },
    /// `COPY table [(columns)] | (query) TO ...`
    To {
        /// What to write.
        what: CopyWhat,
        /// Where.
        target: Target,
        /// The options, checked.
        options: CopyOptions,
        /// What standard output is; nothing until it is handed in.
        streams: Arc<Mutex<Streams>>,
    },
}

impl CopyStatement {
    /// Whether it writes a table.
    pub fn is_from(&self) -> bool {
        matches!(self, CopyStatement::From { .. })
    }

    /// Whether it commits batch after batch.
    pub fn is_in_batches(&self) -> bool {
        matches!(self, CopyStatement::From { options, .. } if options.batch_rows.is_some())
    }

    /// Gives the statement its standard input and output.
    pub fn hand_in(&mut self, handed: Streams) {
        let (CopyStatement::From { streams, .. } | CopyStatement::To { streams, .. }) = self;
        *streams = Arc::new(Mutex::new(handed));
    }
}

/// Parses a COPY whose keyword is the next token, up to its `;` or the end.
pub fn parse_copy(parser: &mut Parser<'_>) -> Result<CopyStatement> {
    parser.expect_keyword(Keyword::COPY).map_err(syntax)?;
    let what = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query().map_err(syntax)?;
        parser.expect_token(&Token::RParen).map_err(syntax)?;
        CopyWhat::Query(query)
    } else {
        let name = parser.parse_object_name(false).map_err(syntax)?;
        let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false).map_err(syntax)?;
        CopyWhat::Table { name, columns }
    };
    if parser.parse_keyword(Keyword::FROM) {
        let CopyWhat::Table { name, columns } = what else {
            return Err(Error::new(ErrorKind::Syntax, "COPY ... FROM loads into a table, not into a query"));
        };
        let source = match place(parser, "FROM", Keyword::STDIN, Keyword::STDOUT)? {
            Some(path) => more_files(parser, path)?,
            None => Source::Stdin,
        };
        let mut options = parse_options(parser)?;
        if source == Source::Stdin {
            if options.on_error == OnError::Skip && options.rejects.is_none() {
                // Whoever sends rows has them still, and may be nobody who writes files here.
                options.on_error = OnError::Count;
            }
            options.check(Direction::From, None)?;
        }
        for path in source.patterns() {
            if is_url(path) {
                check_url_options(path, &options)?;
            }
            // A pattern may leave the format to the files that it matches; the load checks each of them.
            if options.format.is_some() || !is_open(path) {
                options.check(Direction::From, Some(&name_of(path)))?;
            }
        }
        if let Some(rejects) = options.rejects.as_deref().and_then(Path::to_str) {
            refuse_url("writing rejected rows to", rejects)?;
        }
        Ok(CopyStatement::From { table: name, columns, source, options, streams: Arc::default() })
    } else {
        parser.expect_keyword(Keyword::TO).map_err(syntax)?;
        let path = place(parser, "TO", Keyword::STDOUT, Keyword::STDIN)?;
        let options = parse_options(parser)?;
        path.as_deref().map_or(Ok(()), |path| refuse_url("COPY ... TO", path))?;
        options.check(Direction::To, path.as_deref())?;
        let target = path.map_or(Target::Stdout, |path| Target::File(PathBuf::from(path)));
        Ok(CopyStatement::To { what, target, options, streams: Arc::default() })
    }
}

/// The files after the first.
fn more_files(parser: &mut Parser<'_>, first: String) -> Result<Source> {
    let mut paths = vec![first];
    while parser.consume_token(&Token::Comma) {
        let found = text(parser).ok_or_else(|| {
            let found = parser.peek_token();
            Error::new(ErrorKind::Syntax, format!("COPY ... FROM takes file names in quotes, and found {found}"))
        })?;
        paths.push(found);
    }
    Ok(if paths.len() == 1 { Source::Files(paths.remove(0)) } else { Source::Several(paths) })
}

/// A quoted path, or `None` for the right standard stream.
fn place(parser: &mut Parser<'_>, word: &str, right: Keyword, wrong: Keyword) -> Result<Option<String>> {
    if parser.parse_keyword(right) {
        return Ok(None);
    }
    if parser.parse_keyword(wrong) {
        return Err(Error::new(ErrorKind::Syntax, format!("COPY ... {word} {wrong:?} goes the wrong way"))
            .with_hint(format!("write COPY ... {word} {right:?}")));
    }
    if parser.parse_keyword(Keyword::PROGRAM) {
        return Err(Error::new(ErrorKind::NotSupported, "COPY with PROGRAM is not supported")
            .with_hint("pipe the program into alluvia sql and use STDIN"));
    }
    match text(parser) {
        Some(path) => Ok(Some(path)),
        None => Err(Error::new(
            ErrorKind::Syntax,
            format!("COPY ... {word} needs a file name in quotes or {right:?}, and found {}", parser.peek_token()),
        )),
    }
}

fn parse_options(parser: &mut Parser<'_>) -> Result<CopyOptions> {
    let mut written = Written::default();
    let _ = parser.parse_keyword(Keyword::WITH);
    if parser.consume_token(&Token::LParen) {
        loop {
            let name = option_name(parser)?;
            let value = value(parser);
            written.set(&name, value.as_deref())?;
            if parser.consume_token(&Token::RParen) {
                break;
            }
            parser.expect_token(&Token::Comma).map_err(syntax)?;
        }
        return Ok(written.options());
    }
    while let Token::Word(word) = parser.peek_token().token {
        parser.next_token();
        match word.value.to_ascii_uppercase().as_str() {
            format @ ("CSV" | "PARQUET" | "NDJSON" | "JSON" | "ARROW" | "BINARY") => {
                written.set("FORMAT", Some(format))?
            }
            packing @ ("GZIP" | "ZSTD") => written.set("COMPRESSION", Some(packing))?,
            "HEADER" => written.set("HEADER", None)?,
            name => {
                let _ = parser.parse_keyword(Keyword::AS);
                let value = value(parser);
                written.set(name, value.as_deref())?;
            }
        }
    }
    Ok(written.options())
}

fn option_name(parser: &mut Parser<'_>) -> Result<String> {
    match parser.next_token().token {
        Token::Word(word) => Ok(word.value),
        other => Err(Error::new(ErrorKind::Syntax, format!("COPY: expected the name of an option, and found {other}"))),
    }
}

/// A quoted text, taken if it is next.
fn text(parser: &mut Parser<'_>) -> Option<String> {
    match parser.peek_token().token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            parser.next_token();
            Some(text)
        }
        _ => None,
    }
}

/// An option's value, taken if one is next: a text, a word, a number.
fn value(parser: &mut Parser<'_>) -> Option<String> {
    if let Some(text) = text(parser) {
        return Some(text);
    }
    let value = match parser.peek_token().token {
        Token::Word(word) => word.value,
        Token::Number(number, _) => number,
        Token::Minus => {
            // No option takes one: which numbers it takes is said where it is known.
            let Token::Number(number, _) = parser.peek_nth_token(1).token else { return None };
            parser.next_token();
            format!("-{number}")
        }
        _ => return None,
    };
    parser.next_token();
    Some(value)
}

fn syntax(error: ParserError) -> Error {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    };
    Error::new(ErrorKind::Syntax, format!("COPY: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::options::{Compression, Format, Header};
    use sqlparser::dialect::PostgreSqlDialect;

    fn parse(sql: &str) -> Result<CopyStatement> {
        parse_copy(&mut Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap())
    }

    #[test]
    fn both_forms_of_options_are_understood() {
        let new = "COPY s.t (a, \"B\") FROM 'x/*.csv.gz' WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'NA', QUOTE '''', \
                   COMPRESSION gzip, ON_ERROR skip, REJECTS 'bad.csv', BATCH_ROWS 1000)";
        let CopyStatement::From { table, columns, source, options, .. } = parse(new).unwrap() else { panic!() };
        assert_eq!((table.to_string().as_str(), columns[1].value.as_str()), ("s.t", "B"));
        assert_eq!(source, Source::Files("x/*.csv.gz".into()));
        assert_eq!((options.header, options.delimiter, options.quote), (Header::Yes, Some(b';'), Some(b'\'')));
        assert_eq!((options.on_error, options.batch_rows), (OnError::Skip, Some(1000)));
        assert_eq!((options.compression, options.null.as_deref()), (Compression::Gzip, Some("NA")));

        let old = parse("COPY t FROM STDIN WITH CSV HEADER DELIMITER AS E'\\t' NULL AS 'NULL';").unwrap();
        let CopyStatement::From { source: Source::Stdin, options, .. } = old else { panic!() };
        assert_eq!((options.format, options.delimiter), (Some(Format::Csv), Some(b'\t')));

        for (sql, on_error) in [
            ("COPY t FROM STDIN (ON_ERROR ignore)", OnError::Count),
            ("COPY t FROM STDIN (ON_ERROR skip, REJECTS 'bad.csv')", OnError::Skip),
            ("COPY t FROM 'a.csv' (ON_ERROR skip)", OnError::Skip),
        ] {
            let CopyStatement::From { options, .. } = parse(sql).unwrap() else { panic!() };
            assert_eq!(options.on_error, on_error, "{sql}");
            assert!(options.to_sql().contains("ON_ERROR skip"));
        }

        let several = parse("COPY t FROM 'a.csv', 'it''s/*', 'c.csv' (HEADER)").unwrap();
        let CopyStatement::From { source, .. } = several else { panic!() };
        assert_eq!(source, Source::Several(vec!["a.csv".into(), "it's/*".into(), "c.csv".into()]));
        assert_eq!(source.to_sql(), "'a.csv', 'it''s/*', 'c.csv'");
        parse("COPY t FROM 'data/c.*'").unwrap();

        let url = parse("COPY t FROM 'https://h.org/a.parquet?b=c*d', 'e.parquet'").unwrap();
        let CopyStatement::From { source, .. } = url else { panic!() };
        assert_eq!(source.urls().collect::<Vec<_>>(), ["https://h.org/a.parquet?b=c*d"]);
        parse("COPY t FROM 'http://h.org/a' (FORMAT ndjson, ON_ERROR skip, REJECTS 'bad.csv')").unwrap();

        let to = parse("COPY (SELECT 1 AS a) TO STDOUT (FORMAT parquet)").unwrap();
        assert!(matches!(to, CopyStatement::To { what: CopyWhat::Query(_), target: Target::Stdout, .. }));
        let to = parse("COPY t (a) TO 'out.csv' (HEADER false)").unwrap();
        assert!(matches!(to, CopyStatement::To { what: CopyWhat::Table { .. }, target: Target::File(_), .. }));
    }

    #[test]
    fn options_written_as_sql_are_the_same_options() {
        let sql = "COPY \"t\" FROM 'a''b.csv' (FORMAT csv, COMPRESSION zstd, HEADER false, DELIMITER 'tab', QUOTE '''', \
                   ESCAPE '\\', NULL 'none', ON_ERROR skip, REJECTS 'x', BATCH_ROWS 9, EXACT true, ON_CONFLICT nothing, OP insert)";
        let CopyStatement::From { options, .. } = parse(sql).unwrap() else { panic!() };
        assert!(sql.ends_with(&options.to_sql()), "{}", options.to_sql());
        assert_eq!(CopyOptions::default().to_sql(), "");
    }

    #[test]
    fn wrong_statements_say_what_is_wrong() {
        for (sql, kind) in [
            ("COPY t FROM 'a.csv' (COLOUR 'red')", ErrorKind::InvalidSetting),
            ("COPY t FROM STDOUT", ErrorKind::Syntax),
            ("COPY t FROM STDIN (BATCH_ROWS 5)", ErrorKind::NotSupported),
            ("COPY t FROM 'a.csv', STDIN", ErrorKind::Syntax),
            ("COPY t FROM 'a.csv', 'b.parquet' (HEADER)", ErrorKind::InvalidSetting),
            ("COPY t TO PROGRAM 'gzip'", ErrorKind::NotSupported),
            ("COPY t TO file", ErrorKind::Syntax),
            ("COPY (SELECT 1) FROM 'a.csv'", ErrorKind::Syntax),
            ("COPY t TO 'a.csv' (ON_ERROR skip)", ErrorKind::InvalidSetting),
            ("COPY t FROM 'a.csv' (FORMAT csv", ErrorKind::Syntax),
            ("COPY t FROM 'a.csv' (, )", ErrorKind::Syntax),
            ("COPY t FROM 's3://bucket/a.csv'", ErrorKind::NotSupported),
            ("COPY t FROM 'file:///etc/a.csv'", ErrorKind::NotSupported),
            ("COPY t FROM 'https://h.org/a?f=.csv'", ErrorKind::InvalidSetting),
            ("COPY t FROM 'https://h.org/a.csv' (BATCH_ROWS 5)", ErrorKind::NotSupported),
            ("COPY t FROM 'https://h.org/a.csv' (ON_ERROR skip)", ErrorKind::InvalidSetting),
            ("COPY t FROM 'a.csv' (ON_ERROR skip, REJECTS 'http://h.org/b')", ErrorKind::NotSupported),
            ("COPY t TO 'https://h.org/a.csv'", ErrorKind::NotSupported),
            ("COPY t FROM 'a.csv' CSV BANANA 'x'", ErrorKind::InvalidSetting),
            ("COPY", ErrorKind::Syntax),
        ] {
            assert_eq!(parse(sql).unwrap_err().kind(), kind, "{sql}");
        }
    }
}
