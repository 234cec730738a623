//! From the text of a script to its statements.
//!
//! Invariants:
//! - The text is cut into tokens once and parsed once; a tree is never printed and parsed again. How many tokens there may be,
//!   [`tokens`](crate::tokens::lexer) bounds.
//! - No tree is deeper than [`depth::DEPTH_MAX`], and none is built on a stack that could overflow.
//! - A syntax error refuses the whole script; a statement that is merely not built is refused when its turn comes.

use crate::result_names::ResultNames;
use crate::statement::{Kind, Statement};
use crate::statements::parse::statement;
use crate::statements::plain_insert;
use crate::statements::roles::{is_role_statement, secrets};
use crate::statements::routines;
use crate::statements::views;
use crate::tokens::catalog_names::names_catalog;
use crate::tokens::hints::Hints;
use crate::tokens::{depth, hints, lexer, url_secrets};
use crate::trees::rewrite;
use crate::{parameters, refuse};
use alluvia_types::Result;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use std::str::Chars;
use std::sync::Arc;

/// Stack for parsing: what the parser recurses through without counting (types, nested statements) is bounded by the
/// depth check, and fits in this many times over.
const PARSE_STACK_BYTES: usize = 32 << 20;
/// Statements up to this depth and of so few tokens are parsed on the caller's stack if it has this much left: a new stack costs as
/// much as all the rest of a single-row INSERT. The tokens bound what the depth does not count.
const SHALLOW_DEPTH_MAX: usize = 16;
const SHALLOW_TOKENS_MAX: usize = 128;
const SHALLOW_STACK_BYTES: usize = 1 << 20;

/// All statements of a script.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    cut(sql, |_| {})
}

/// The same by tokens and a tree, whatever it is: the model of [`plain_insert`].
pub fn parse_by_tokens(sql: &str) -> Result<Vec<Statement>> {
    cut_by_tokens(sql, |_| {})
}

/// All statements of a script; `each` is told what is between the semicolons around each of them.
fn cut(sql: &str, mut each: impl FnMut(&str)) -> Result<Vec<Statement>> {
    if let Some((text, kind)) = plain_insert::read(sql) {
        each(sql);
        return Ok(vec![Statement {
            text,
            hints: Hints::default(),
            kind,
            parameters: 0,
            tokens: 0,
            names_catalog: false,
            names: None,
        }]);
    }
    cut_by_tokens(sql, each)
}

fn cut_by_tokens(sql: &str, mut each: impl FnMut(&str)) -> Result<Vec<Statement>> {
    let tokens = lexer::of(sql)?;
    let mut offsets = Offsets::new(sql);
    let mut statements = Vec::new();
    for tokens in tokens.split(|token| token.token == Token::SemiColon) {
        let meaning = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        let (Some(first), Some(last)) = (tokens.iter().find(meaning), tokens.iter().rfind(meaning)) else {
            hints::read(tokens)?;
            continue;
        };
        let words = leading_words(tokens);
        // Also after EXPLAIN and its like, which will be refused.
        let is_of_roles = (0..words.len()).any(|at| is_role_statement(&words[at..]));
        let whole = tokens.first().map_or(0, |first| offsets.at(first.span.start));
        let start = offsets.at(first.span.start);
        let dots = |token| (token, "'...'".to_owned());
        let hidden: Vec<(&TokenWithSpan, String)> = match words.iter().any(|word| word == "COPY") {
            // First: a role may be called copy.
            _ if is_of_roles => secrets(tokens).map(dots).collect(),
            true => url_secrets::secrets(tokens).collect(),
            false => Vec::new(),
        };
        let text: Arc<str> = match hidden.as_slice() {
            [] => Arc::from(&sql[start..offsets.at(last.span.end)]),
            hidden => Arc::from(without(sql, start, hidden, last, &mut offsets)),
        };
        let end = tokens.last().map_or(sql.len(), |last| offsets.at(last.span.end));
        each(&sql[whole..end]);
        let hints = hints::read(tokens)?;
        // A view has none, and says so itself.
        let parameters = if views::is_create_view(&words) { 0 } else { parameters::count(tokens)? };
        let (kind, names) = with_stack_for(depth::check(tokens)?, tokens.len(), || match refuse::statement(&words) {
            // Its text is kept, for which it takes more than tokens.
            Ok(()) if views::is_create_view(&words) => Ok((views::create_view(tokens, sql, &hints)?, None)),
            Ok(()) if routines::is_create_procedure(&words) => {
                Ok((routines::create_procedure(tokens, sql, &hints)?, None))
            }
            Ok(()) => match statement(tokens, &hints) {
                Err(error) => refuse::unread(tokens).ok_or(error).map(|refused| (Kind::Refused(refused), None)),
                Ok(mut kind) => {
                    let names = ResultNames::of_kind(&kind).map(Arc::new);
                    rewrite(tokens, &mut kind);
                    Ok((kind, names))
                }
            },
            Err(refused) => Ok((Kind::Refused(refused), None)),
        })?;
        let names_catalog = names_catalog(tokens);
        // White space leaves nothing in a tree.
        let tokens = tokens.iter().filter(meaning).count();
        statements.push(Statement { text, hints, kind, parameters, tokens, names_catalog, names });
    }
    Ok(statements)
}

/// A script's statements with the whole text of each, for whoever has them run elsewhere: secrets are in it, which
/// [`Statement::sql`] leaves out.
pub fn script(sql: &str) -> Result<Vec<(Statement, String)>> {
    let mut texts = Vec::new();
    let statements = cut(sql, |text| texts.push(text.to_owned()))?;
    if let [only] = texts.as_mut_slice() {
        sql.clone_into(only);
    }
    Ok(statements.into_iter().zip(texts).collect())
}

/// The text of a statement with others in the place of tokens of which something is hidden.
fn without(
    sql: &str,
    start: usize,
    hidden: &[(&TokenWithSpan, String)],
    last: &TokenWithSpan,
    offsets: &mut Offsets<'_>,
) -> String {
    let (mut text, mut from) = (String::new(), start);
    for (token, shown) in hidden {
        text += &sql[from..offsets.at(token.span.start)];
        text += shown;
        from = offsets.at(token.span.end);
    }
    text + &sql[from..offsets.at(last.span.end)]
}

/// Runs `parse` with stack for a statement of this depth and so many tokens.
pub(crate) fn with_stack_for<T>(depth: usize, tokens: usize, parse: impl FnOnce() -> T) -> T {
    if depth <= SHALLOW_DEPTH_MAX && tokens <= SHALLOW_TOKENS_MAX {
        stacker::maybe_grow(SHALLOW_STACK_BYTES, PARSE_STACK_BYTES, parse)
    } else {
        stacker::grow(PARSE_STACK_BYTES, parse)
    }
}

/// The first few words of a statement, upper case.
fn leading_words(tokens: &[TokenWithSpan]) -> Vec<String> {
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).map_while(|token| {
        match &token.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        }
    });
    words.take(6).collect()
}

/// Turns the tokenizer's lines and columns into byte offsets. It is asked in the order of the text and only goes forward, so a
/// script takes linear time whatever its lines.
pub struct Offsets<'a> {
    sql: &'a str,
    rest: Chars<'a>,
    line: u64,
    column: u64,
}

impl Offsets<'_> {
    /// At the first character of `sql`: line 1, column 1.
    pub fn new(sql: &str) -> Offsets<'_> {
        Offsets { sql, rest: sql.chars(), line: 1, column: 1 }
    }

    /// The offset of a place that is not before the one asked for last.
    pub fn at(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            match self.rest.next() {
                Some('\n') => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => break,
            }
        }
        self.sql.len() - self.rest.as_str().len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::statement::{Insert, InsertSource};
    use alluvia_types::ErrorKind;

    pub fn one(sql: &str) -> Statement {
        let mut statements = parse(sql).unwrap();
        assert_eq!(statements.len(), 1, "{sql}");
        statements.remove(0)
    }

    #[test]
    fn scripts_are_cut_at_semicolons_and_keep_each_text() {
        let script = "SELECT 'a;b' ; -- c;\n\n  INSERT INTO t\nVALUES ('é') ;; BEGIN;";
        let texts: Vec<String> = parse(script).unwrap().iter().map(|statement| statement.sql().to_owned()).collect();
        assert_eq!(texts, ["SELECT 'a;b'", "INSERT INTO t\nVALUES ('é')", "BEGIN"]);
    }

    #[test]
    fn statements_of_one_line_and_of_many_keep_their_texts() {
        let script = "SELECT 'ü', 1; SELECT \"é\n2\";\r\n;SELECT\n\n3 ;; SELECT '4\n' -- ;\n; SELECT 5";
        let texts: Vec<String> = parse(script).unwrap().iter().map(|statement| statement.sql().to_owned()).collect();
        assert_eq!(texts, ["SELECT 'ü', 1", "SELECT \"é\n2\"", "SELECT\n\n3", "SELECT '4\n'", "SELECT 5"]);
        let statements = parse(&"SELECT 'é';".repeat(20_000)).unwrap();
        assert!(statements.len() == 20_000 && statements.iter().all(|statement| statement.sql() == "SELECT 'é'"));
    }

    #[test]
    fn what_a_statement_holds_follows_its_tokens_and_not_its_spaces() {
        let bytes = |sql: &str| one(sql).bytes() - one(sql).sql().len();
        assert_eq!(bytes("SELECT 'a,b,c'"), bytes(" /* 1, 2 */ SELECT   'd'; "));
        let list = |many: usize| bytes(&format!("SELECT 1 IN ({})", vec!["1"; many].join(", ")));
        assert_eq!((list(10) - list(9), list(1_010) - list(10)), (list(3) - list(2), 1_000 * (list(3) - list(2))));
        assert!(list(1_000) > 400_000);
        // Places in the text.
        let rows = |many: usize| bytes(&format!("INSERT INTO t VALUES {}", vec!["(1, 'a')"; many].join(",")));
        assert!((1..100_000).contains(&rows(1_000)) && rows(1_000) == 1_000 * rows(1));
        // Those of one script are counted each for itself.
        let script = parse("SELECT 1; SELECT 1, 2").unwrap();
        assert_eq!(
            script.iter().map(Statement::bytes).collect::<Vec<_>>(),
            ["SELECT 1", "SELECT 1, 2"].map(|sql| one(sql).bytes())
        );
    }

    #[test]
    fn dense_texts_are_refused_and_rows_of_literals_are_not() {
        let ones = vec!["1"; 600_000].join(",");
        for dense in
            [format!("SELECT {ones}"), format!("SELECT 1 IN ({ones})"), format!("INSERT INTO t VALUES (1 + 1,{ones})")]
        {
            assert_eq!(parse(&dense).unwrap_err().kind(), ErrorKind::TooLarge);
        }
        let rows = format!("INSERT INTO t VALUES {}", vec!["(1)"; 600_000].join(","));
        assert!(matches!(one(&rows).kind, Kind::Insert(Insert { source: InsertSource::Literals(_), .. })));
    }

    #[test]
    fn whole_texts_of_a_script_mean_what_they_mean_in_it() {
        let texts = |sql: &str| script(sql).unwrap().into_iter().map(|(_, text)| text).collect::<Vec<String>>();
        assert_eq!(texts(" SELECT 1 ; -- one"), [" SELECT 1 ; -- one"]);
        assert!(texts(" ;; -- nothing").is_empty());
        let secret = "CREATE ROLE a LOGIN PASSWORD 'x;y'";
        let hinted = "/* é; */ SELECT /*+ freshness('5s') */ 'é'";
        let all = format!("{secret};\n{hinted};;SELECT 2");
        let found = texts(&all);
        assert_eq!(found.iter().map(|text| text.trim()).collect::<Vec<_>>(), [secret, hinted, "SELECT 2"]);
        for (text, in_script) in found.iter().zip(parse(&all).unwrap()) {
            assert_eq!((one(text).sql(), &one(text).hints), (in_script.sql(), &in_script.hints));
        }
        assert!(script("SELECT 1; SELEC 2").is_err());
    }

    #[test]
    fn a_syntax_error_refuses_the_script_and_what_is_not_built_only_itself() {
        assert_eq!(parse("SELECT 1; SELEKT 2").unwrap_err().kind(), ErrorKind::Syntax);
        let statements = parse("REFRESH t nonsense; SELECT 1").unwrap();
        assert!(matches!(&statements[0].kind, Kind::Refused(error) if error.message().contains("REFRESH")));
        assert!(matches!(statements[1].kind, Kind::Query(_)));
    }

    /// Nothing here may overflow a small stack, panic, or take exponential time.
    #[test]
    fn deep_statements_are_refused_or_parsed_on_any_stack() {
        const DEEP: usize = 100_000;
        let nested = |open: &str, inside: &str, close: &str, depth: usize| {
            format!("{}{inside}{}", open.repeat(depth), close.repeat(depth))
        };
        let mut statements = Vec::new();
        for depth in [30, 100, 400, 10_000, DEEP] {
            statements.extend([
                format!("SELECT {}", nested("(", "1", ")", depth)),
                format!("SELECT {}", nested("NOT ", "true", "", depth)),
                format!("SELECT {}", nested("- ", "1", "", depth)),
                format!("SELECT {}", nested("CASE WHEN ", "true", " THEN 1 END", depth)),
                format!("SELECT {}", nested("CASE WHEN a THEN 1 ELSE ", "2", " END", depth)),
                format!("SELECT {}", nested("(SELECT ", "1", ")", depth)),
                format!("SELECT {}", nested("f(", "1", ")", depth)),
                format!("SELECT * FROM {}", nested("(", "t", ")", depth)),
                format!("SELECT * FROM {}", nested("(SELECT * FROM ", "t", ") AS x", depth)),
                format!("SELECT * FROM {}", nested("(t JOIN ", "t", " ON true)", depth)),
                nested("(", "SELECT 1", ")", depth),
                format!("SELECT 1 WHERE {}", vec!["a = 1"; depth].join(" AND ")),
                format!("SELECT 1 WHERE {}", vec!["a = 1"; depth].join(" OR ")),
                format!("SELECT {}", vec!["1"; depth].join(" || ")),
                format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(depth)),
                format!("SELECT * FROM t {}", "JOIN t ON true ".repeat(depth)),
                format!("SELECT a{}", "[1]".repeat(depth)),
                format!("SELECT a{}", "::INT".repeat(depth)),
                format!("SELECT {}", nested("interval ", "'1'", "", depth)),
                format!("SELECT 1::INT{}", "[]".repeat(depth)),
                format!("SELECT TRY_CAST(1 AS INT{})", "[]".repeat(depth)),
                format!("SELECT '{{1}}'::INT{}", "[]".repeat(depth)),
                format!("SELECT 1{}", " NOTNULL".repeat(depth)),
                format!("SELECT {}", vec!["CASE WHEN true THEN 1 END"; depth].join(" + ")),
                format!("SELECT {}", vec!["t.when"; depth].join(" + ")),
                vec!["SELECT 1 AS end"; depth].join(" UNION ALL "),
                vec!["SELECT 1"; depth].join(" MINUS "),
                format!("SELECT 1 FROM t{}", " PIVOT (sum(a) FOR b IN (1))".repeat(depth)),
                format!("SELECT {}", nested("1 IN ((SELECT ", "1", ") + 1)", depth)),
                format!("SELECT * FROM {}", nested("((SELECT * FROM ", "t", ") AS x NATURAL JOIN t)", depth)),
                format!("CREATE TABLE t (a INT{})", "[]".repeat(depth)),
                format!("CREATE TABLE t (a {})", nested("ARRAY<", "INT", ">", depth)),
                format!("CREATE TABLE t (a {})", nested("STRUCT<a ", "INT", ">", depth)),
                format!("{}SELECT 1", "EXPLAIN ".repeat(depth)),
                format!("{}SELECT 1", "WITH x AS (".repeat(depth)),
                nested("WITH x AS (", "SELECT 1", ") SELECT 1", depth),
                format!("INSERT INTO t VALUES {}", nested("(", "1", ")", depth)),
                "(".repeat(depth),
                ")".repeat(depth),
                ") CASE ".repeat(depth),
                format!("SELECT {}", "'".repeat(depth)),
                format!("SELECT {}", "/*".repeat(depth)),
            ]);
        }
        // Words that are keywords or names of functions: the parser tries both.
        for word in ["interval", "floor", "ceil", "cast", "case", "not", "extract", "position", "substring", "trim"] {
            statements.push(format!("SELECT {}", nested(&format!("{word}("), "1", ")", 60)));
            statements.push(format!("SELECT {}", nested(&format!("{word}("), "1 1", "", 60)));
        }
        let small = std::thread::Builder::new().stack_size(1 << 20);
        let done = small.spawn(move || {
            for sql in &statements {
                let _ = parse(sql);
            }
            parse(&format!("SELECT {}", nested("(", "1", ")", 10_000))).unwrap_err()
        });
        assert_eq!(done.unwrap().join().unwrap().kind(), ErrorKind::Syntax);
    }
}
