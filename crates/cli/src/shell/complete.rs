//! The interactive editor's knowledge of SQL: when a statement ends, what a word may become, how it is coloured.

use super::connection::{Connection, GOODBYE};
use super::script::shell_word;
use super::statement_end::ends;
use alluvia_functions::table as functions;
use arrow::array::{Array, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use nu_ansi_term::{Color, Style};
use reedline::{
    Completer, CompletionResult, Highlighter, Hinter, History, Span, StyledText, Suggestion, ValidationResult,
    Validator,
};
use std::sync::{Arc, Mutex};
use tokio::time::timeout;

const KEYWORDS: &[&str] = &[
    "ALTER TABLE",
    "AND",
    "AS",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CALL alluvia.flush()",
    "CALL alluvia.merge()",
    "CASE",
    "COMMIT",
    "COPY",
    "CREATE TABLE",
    "CROSS JOIN",
    "DESCRIBE",
    "DISTINCT",
    "DROP TABLE",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "FROM",
    "GROUP BY",
    "HAVING",
    "IN",
    "INSERT INTO",
    "IS NULL",
    "JOIN",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "ON",
    "OR",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "ROLLBACK",
    "SELECT",
    "SET freshness =",
    "SET statement_timeout =",
    "SHOW TABLES",
    "THEN",
    "UNION ALL",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

/// A statement is complete at a ';' outside of quotes and comments; backslash commands at the end of the line.
pub struct Statements;

impl Validator for Statements {
    fn validate(&self, line: &str) -> ValidationResult {
        let text = line.trim();
        if text.is_empty() || text.starts_with('\\') || shell_word(text).is_some() || ends(text) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

/// How a statement that has begun is ended or left.
pub struct Leaving;

impl Hinter for Leaving {
    fn handle(&mut self, line: &str, pos: usize, _: &dyn History, use_ansi_coloring: bool, _cwd: &str) -> String {
        match hint_of(line) {
            Some(hint) if pos == line.len() && use_ansi_coloring => Style::new().dimmed().paint(hint).to_string(),
            Some(hint) if pos == line.len() => hint.to_owned(),
            _ => String::new(),
        }
    }

    /// It is not for the statement.
    fn complete_hint(&self) -> String {
        String::new()
    }

    fn next_hint_token(&self) -> String {
        String::new()
    }
}

/// What is said of a statement that has begun, and whose last line is empty or says one of the shell's words.
fn hint_of(text: &str) -> Option<&'static str> {
    let (begun, last) = text.rsplit_once('\n')?;
    if ends(begun) {
        return None;
    }
    match shell_word(last) {
        Some("exit" | "quit") => Some("  -- a statement has begun: Ctrl-C drops it, then use \\q to leave"),
        Some(_) => Some("  -- a statement has begun: Ctrl-C drops it, then it is a command"),
        None => last.is_empty().then_some("-- ';' ends the statement, Ctrl-C drops it"),
    }
}

/// Tables, columns, functions and keywords.
#[derive(Clone)]
pub struct Names {
    /// Of its own; `None` where there is no place for another session.
    connection: Arc<Option<Connection>>,
    known: Arc<Mutex<Vec<String>>>,
}

impl Names {
    pub fn new(connection: Option<Connection>) -> Names {
        Names { connection: Arc::new(connection), known: Arc::default() }
    }

    /// Ends its session.
    pub async fn close(&self) {
        if let Some(connection) = self.connection.as_ref() {
            connection.close().await;
        }
    }

    /// Learns tables and columns anew; called after statements that may have changed them.
    pub async fn refresh(&self) {
        let mut found: Vec<String> = KEYWORDS.iter().copied().chain(functions::names()).map(str::to_owned).collect();
        let queries = ["SELECT table_name FROM alluvia.tables", "SELECT DISTINCT column_name FROM alluvia.columns"];
        for query in queries {
            let Some(connection) = self.connection.as_ref() else { break };
            let asked = async { connection.sql(query).await?.collect().await };
            let batches = match timeout(GOODBYE, asked).await {
                // Nobody wants to wait for that.
                Err(_) => break,
                Ok(Ok(batches)) => batches,
                Ok(Err(_)) => {
                    // A server that has come back may have another session for it.
                    connection.recover().await;
                    continue;
                }
            };
            for batch in batches {
                let Ok(names) = cast(batch.column(0), &DataType::Utf8View) else { continue };
                let names: &StringViewArray = names.as_string_view();
                found.extend((0..names.len()).map(|row| names.value(row).to_owned()));
            }
        }
        found.sort();
        found.dedup();
        if let Ok(mut known) = self.known.lock() {
            *known = found;
        }
    }
}

impl Completer for Names {
    fn complete(&mut self, line: &str, at: usize) -> CompletionResult {
        let before = &line[..at];
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
            .map_or(0, |found| found + before[found..].chars().next().map_or(1, char::len_utf8));
        let word = before[start..].to_lowercase();
        let Ok(known) = self.known.lock() else { return CompletionResult::Pending };
        let matching = known.iter().filter(|name| !word.is_empty() && name.to_lowercase().starts_with(&word));
        let suggest = |name: &String| Suggestion {
            value: name.clone(),
            span: Span::new(start, at),
            append_whitespace: true,
            ..Suggestion::default()
        };
        CompletionResult::fresh(matching.map(suggest).collect::<Vec<Suggestion>>())
    }
}

/// Keywords bold, strings green, numbers cyan.
pub struct Highlight;

impl Highlighter for Highlight {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let (len, style) = if first == '\'' {
                let end = rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
                (end, Style::new().fg(Color::Green))
            } else if first.is_alphabetic() || first == '_' {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let keyword = KEYWORDS.iter().any(|known| {
                    known
                        .split(' ')
                        .any(|word| word.chars().all(char::is_uppercase) && word.eq_ignore_ascii_case(&rest[..end]))
                });
                (end, if keyword { Style::new().bold() } else { Style::new() })
            } else if first.is_ascii_digit() {
                let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
                (end, Style::new().fg(Color::Cyan))
            } else {
                (first.len_utf8(), Style::new())
            };
            styled.push((style, rest[..len].to_owned()));
            rest = &rest[len..];
        }
        styled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_ends_a_text_of_its_own_and_within_a_statement_it_is_told_how() {
        let is_complete = |text: &str| matches!(Statements.validate(text), ValidationResult::Complete);
        assert!(is_complete("exit") && is_complete(" QUIT; ") && !is_complete("SELECT 1\nexit"));
        for text in ["SELECT 1\nexit", "SELECT 1\nhelp ", "SELECT 1\n"] {
            assert!(hint_of(text).is_some_and(|hint| hint.contains("Ctrl-C drops it")), "{text}");
        }
        for text in ["exit", "SELECT 1\nexits", "SELECT 1;\n", ""] {
            assert_eq!(hint_of(text), None, "{text}");
        }
    }
}
