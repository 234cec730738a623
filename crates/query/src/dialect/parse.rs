//! From SQL text to statements.
//!
//! Invariants:
//! - The text is cut into tokens once and parsed once; a tree is never printed and parsed again. How many tokens there may be,
//!   [`tokens`](super::tokens) bounds.
//! - No tree is deeper than [`depth::DEPTH_MAX`], and none is built on a stack that could overflow.
//! - A syntax error refuses the whole script; a statement that is merely not built is refused when its turn comes.

use crate::copy::{CopyStatement, CopyWhat, parse_copy};
use crate::dialect::commands::{
    call_of, deallocate_of, declare_of, fetch_of, is_plain, set_of, setting_name, show_columns, show_variable,
    transaction_access,
};
use crate::dialect::definitions::{ColumnSpec, alter_table, create_table, refuse_dropped, without_column_names};
use crate::dialect::grammar::Grammar;
use crate::dialect::hints::Hints;
use crate::dialect::names::{self, SYSTEM, parts_of, unknown_schema, user_table};
use crate::dialect::refuse::{self, not_supported};
use crate::dialect::roles::{is_role_statement, parse_role_statement, secrets};
use crate::dialect::statement::{FetchCount, Insert, InsertSource, Kind, SettingCommand, Statement, TableName};
use crate::dialect::{
    arrays, depth, hints, labels, mirror, parameters, patterns, plain_insert, released, repeated, row_lists, templates,
    text_casts, tokens, urls,
};
use crate::sample;
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::common::DataFusionError;
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::sql::sqlparser::ast::{
    self, Expr, ObjectName, ObjectType, Query, Reset, ShowCreateObject, TableObject,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use std::str::{Chars, FromStr};
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
pub(crate) fn parse(sql: &str) -> Result<Vec<Statement>> {
    cut(sql, |_| {})
}

/// The same by tokens and a tree, whatever it is: the model of [`plain_insert`].
#[cfg(test)]
pub(crate) fn parse_by_tokens(sql: &str) -> Result<Vec<Statement>> {
    cut_by_tokens(sql, |_| {})
}

/// All statements of a script; `each` is told what is between the semicolons around each of them.
fn cut(sql: &str, mut each: impl FnMut(&str)) -> Result<Vec<Statement>> {
    if let Some((text, kind)) = plain_insert::read(sql) {
        each(sql);
        return Ok(vec![Statement { text, hints: Hints::default(), kind, parameters: 0, tokens: 0 }]);
    }
    cut_by_tokens(sql, each)
}

fn cut_by_tokens(sql: &str, mut each: impl FnMut(&str)) -> Result<Vec<Statement>> {
    let tokens = tokens::of(sql)?;
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
            true => urls::secrets(tokens).collect(),
            false => Vec::new(),
        };
        let text: Arc<str> = match hidden.as_slice() {
            [] => Arc::from(&sql[start..offsets.at(last.span.end)]),
            hidden => Arc::from(without(sql, start, hidden, last, &mut offsets)),
        };
        let end = tokens.last().map_or(sql.len(), |last| offsets.at(last.span.end));
        each(&sql[whole..end]);
        let hints = hints::read(tokens)?;
        let parameters = parameters::count(tokens)?;
        let kind = with_stack_for(depth::check(tokens)?, tokens.len(), || match refuse::statement(&words) {
            Ok(()) => match statement(tokens, &hints) {
                Err(error) => Ok(Kind::Refused(refuse::older_version(tokens).ok_or(error)?)),
                Ok(mut kind) => {
                    if mirror::may_have(tokens)
                        && let Some(query) = parameters::query_of(&mut kind)
                    {
                        mirror::constants_right(query);
                    }
                    if row_lists::may_have(tokens)
                        && let Some(query) = parameters::query_of(&mut kind)
                        && let Err(error) = row_lists::write_out(query)
                    {
                        kind = Kind::Refused(error);
                    }
                    if arrays::may_have(tokens)
                        && let Some(query) = parameters::query_of(&mut kind)
                        && let Err(error) = arrays::write_out(query)
                    {
                        kind = Kind::Refused(error);
                    }
                    if text_casts::may_have(tokens)
                        && let Some(query) = parameters::query_of(&mut kind)
                        && let Err(error) = text_casts::write_out(query)
                    {
                        kind = Kind::Refused(error);
                    }
                    if patterns::may_have(tokens)
                        && let Some(query) = parameters::query_of(&mut kind)
                        && let Err(error) = patterns::write_out(query)
                    {
                        kind = Kind::Refused(error);
                    }
                    if templates::may_have(tokens)
                        && let Some(query) = parameters::query_of(&mut kind)
                        && let Err(error) = templates::write_out(query)
                    {
                        kind = Kind::Refused(error);
                    }
                    Ok(kind)
                }
            },
            Err(refused) => Ok(Kind::Refused(refused)),
        })?;
        // White space leaves nothing in a tree.
        let tokens = tokens.iter().filter(meaning).count();
        statements.push(Statement { text, hints, kind, parameters, tokens });
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
fn with_stack_for<T>(depth: usize, tokens: usize, parse: impl FnOnce() -> T) -> T {
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
pub(super) struct Offsets<'a> {
    sql: &'a str,
    rest: Chars<'a>,
    line: u64,
    column: u64,
}

impl Offsets<'_> {
    pub(super) fn new(sql: &str) -> Offsets<'_> {
        Offsets { sql, rest: sql.chars(), line: 1, column: 1 }
    }

    /// The offset of a place that is not before the one asked for last.
    pub(super) fn at(&mut self, place: Location) -> usize {
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

pub(super) fn syntax(error: ParserError) -> Error {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            format!("the statement is nested more than {} deep", depth::DEPTH_MAX)
        }
    };
    Error::new(ErrorKind::Syntax, message)
}

/// One statement. `Err` is a syntax error; what is not built is `Ok(Kind::Refused)`.
fn statement(tokens: &[TokenWithSpan], hints: &Hints) -> Result<Kind> {
    let given = tokens;
    let (mut tokens, names) = without_column_names(tokens);
    released::release(&mut tokens);
    let grammar = Grammar::for_tokens(tokens.len());
    let mut parser = Parser::new(&grammar).with_tokens_with_locations(tokens).with_recursion_limit(depth::DEPTH_MAX);
    let kind = known(&mut parser, hints);
    if grammar.is_used_up() {
        return Err(Error::new(ErrorKind::Syntax, "the statement can be read in too many ways")
            .with_hint("close every bracket, and put names that are keywords in double quotes"));
    }
    let mut kind = match kind {
        Err(error) if error.kind() == ErrorKind::NotSupported => return Ok(Kind::Refused(error)),
        kind => kind?,
    };
    let defines_columns = match &kind {
        Kind::CreateTable(create) => create.query.is_none(),
        Kind::AlterTable(_) => true,
        _ => false,
    };
    if defines_columns && let Err(error) = refuse_dropped(given) {
        return Ok(Kind::Refused(error));
    }
    if let Kind::CreateTable(create) = &mut kind {
        create.columns.extend(names.into_iter().map(|name| ColumnSpec { name, column_type: None, nullable: true }));
    }
    match parser.peek_token().token {
        Token::EOF => Ok(kind),
        _ => Err(syntax(
            parser.expected_ref::<()>("end of statement or ;", parser.peek_token_ref()).expect_err("always an error"),
        )),
    }
}

/// Whether FETCH has nothing after it but one name that is no direction.
fn names_cursor_alone(parser: &Parser<'_>) -> bool {
    let is_name = matches!(parser.peek_nth_token(1).token, Token::Word(word)
        if word.quote_style.is_some() || !matches!(word.keyword, Keyword::ALL | Keyword::NEXT | Keyword::FORWARD));
    is_name && matches!(parser.peek_nth_token(2).token, Token::EOF)
}

fn known(parser: &mut Parser<'_>, hints: &Hints) -> Result<Kind> {
    let kind = match parser.peek_token().token {
        Token::Word(word) if word.quote_style.is_none() => match word.keyword {
            Keyword::COPY => {
                let mut copy = parse_copy(parser)?;
                if let CopyStatement::To { what: CopyWhat::Query(query), .. } = &mut copy {
                    *query = checked(query.clone())?;
                }
                Kind::Copy(Box::new(copy))
            }
            Keyword::EXPLAIN => explain(parser)?,
            Keyword::DESCRIBE | Keyword::DESC => describe(parser)?,
            // The parser wants a direction.
            Keyword::FETCH if names_cursor_alone(parser) => {
                parser.next_token();
                let name = parser.parse_identifier().map_err(syntax)?;
                Kind::Fetch { name: names::name_of(&name), count: FetchCount::Rows(1) }
            }
            Keyword::ABORT => {
                parser.next_token();
                let _ = parser.parse_one_of_keywords(&[Keyword::TRANSACTION, Keyword::WORK]);
                Kind::Rollback
            }
            Keyword::CREATE | Keyword::ALTER | Keyword::DROP | Keyword::GRANT | Keyword::REVOKE
                if starts_role_statement(parser) =>
            {
                Kind::Role(Box::new(parse_role_statement(parser)?))
            }
            _ => of_tree(parser.parse_statement().map_err(syntax)?)?,
        },
        _ => of_tree(parser.parse_statement().map_err(syntax)?)?,
    };
    if *hints != Hints::default() && matches!(kind, Kind::Begin(_) | Kind::Commit | Kind::Rollback | Kind::Setting(_)) {
        return Err(not_supported("a hint on this statement"));
    }
    Ok(kind)
}

fn starts_role_statement(parser: &Parser<'_>) -> bool {
    let word = |at: usize| match parser.peek_nth_token(at).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    };
    is_role_statement(&(0..2).map_while(word).collect::<Vec<_>>())
}

/// EXPLAIN [ANALYZE] [VERBOSE] [FORMAT f] query, or EXPLAIN (option, ...) query. Parsed here because the parser's own
/// EXPLAIN turns a syntax error in the query into "expected a table name".
fn explain(parser: &mut Parser<'_>) -> Result<Kind> {
    parser.next_token();
    let starts_query = |token: &Token| match token {
        Token::LParen => true,
        Token::Word(word) => matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM),
        _ => false,
    };
    let options = if parser.peek_token().token == Token::LParen && !starts_query(&parser.peek_nth_token(1).token) {
        let options = parser.parse_utility_options().map_err(syntax)?;
        ExplainStatementOptions::from_utility_options(&options).map_err(|error| match error {
            // "EXPLAIN option BUFFERS is not supported by ..."
            DataFusionError::NotImplemented(message) => {
                not_supported(message.split(" is not supported").next().unwrap_or("this option of EXPLAIN"))
            }
            error => Error::new(ErrorKind::Syntax, error.strip_backtrace()),
        })?
    } else {
        let analyze = parser.parse_keyword(Keyword::ANALYZE);
        let verbose = parser.parse_keyword(Keyword::VERBOSE);
        let format = if parser.parse_keyword(Keyword::FORMAT) {
            let _ = parser.consume_token(&Token::Eq);
            let name = parser.next_token().token.to_string();
            let format = match name.to_ascii_lowercase().as_str() {
                "text" => Ok(ExplainFormat::Indent),
                "json" => Ok(ExplainFormat::PostgresJSON),
                other => ExplainFormat::from_str(other),
            };
            let wrong = |_| {
                Error::new(ErrorKind::Syntax, format!("EXPLAIN has no format {name}"))
                    .with_hint("formats are text, tree, json, graphviz")
            };
            Some(format.map_err(wrong)?)
        } else {
            None
        };
        ExplainStatementOptions {
            analyze,
            verbose,
            format,
            analyze_level: None,
            analyze_categories: None,
            show_statistics: None,
        }
    };
    if !starts_query(&parser.peek_token().token) {
        let what = match parser.parse_statement() {
            Ok(_) => "EXPLAIN of anything but a query",
            Err(error) => return Err(syntax(error)),
        };
        return Err(not_supported(what).with_hint("explain the SELECT that the statement is made of"));
    }
    let query = checked(parser.parse_query().map_err(syntax)?)?;
    Ok(Kind::Explain { query, options })
}

fn describe(parser: &mut Parser<'_>) -> Result<Kind> {
    parser.next_token();
    let _ = parser.parse_keyword(Keyword::TABLE);
    let name = parser.parse_object_name(false).map_err(syntax)?;
    Ok(Kind::Describe(table_name(&name)?))
}

/// A table of either schema.
pub(crate) fn table_name(name: &ObjectName) -> Result<TableName> {
    match parts_of(name)?.as_slice() {
        [schema, table] if schema == SYSTEM => Ok(TableName { schema: schema.clone(), table: table.clone() }),
        [schema, _] if schema != names::PUBLIC => Err(unknown_schema(schema)),
        _ => Ok(TableName { schema: names::PUBLIC.to_owned(), table: user_table(name)? }),
    }
}

/// A query as planning takes it: nothing in it is ignored, and no two columns have one name unless they were named so.
fn checked(mut query: Box<Query>) -> Result<Box<Query>> {
    refuse::query(&query)?;
    sample::gather(&mut query)?;
    labels::distinguish(&mut query);
    Ok(query)
}

/// Takes over the parser's tree.
fn of_tree(tree: ast::Statement) -> Result<Kind> {
    use ast::Statement as Tree;
    match tree {
        Tree::Query(query) => Ok(Kind::Query(checked(query)?)),
        Tree::Insert(insert) => Ok(Kind::Insert(insert_of(insert)?)),
        Tree::CreateTable(create) => {
            let mut create = create_table(create)?;
            create.query = create.query.map(checked).transpose()?;
            Ok(Kind::CreateTable(Box::new(create)))
        }
        Tree::AlterTable(alter) => Ok(Kind::AlterTable(alter_table(alter)?)),
        Tree::Drop { object_type: ObjectType::Table, if_exists, names, cascade, purge, temporary, .. } => {
            if cascade {
                return Err(
                    not_supported("DROP TABLE ... CASCADE").with_hint("nothing depends on a table: leave it out")
                );
            }
            if purge || temporary {
                return Err(not_supported("this form of DROP TABLE"));
            }
            Ok(Kind::DropTable { names: names.iter().map(user_table).collect::<Result<_>>()?, if_exists })
        }
        Tree::ShowTables { terse, history, extended, full, external, show_options } => {
            if terse || history || extended || full || external || !is_plain(&show_options) {
                return Err(not_supported("a clause of SHOW TABLES").with_hint("query alluvia.tables"));
            }
            Ok(Kind::ShowTables)
        }
        Tree::ShowColumns { extended, full, show_options } => show_columns(extended || full, show_options),
        Tree::ShowCreate { obj_type: ShowCreateObject::Table, obj_name } => {
            Ok(Kind::ShowCreate(user_table(&obj_name)?))
        }
        Tree::ShowCreate { obj_type, .. } => Err(not_supported(format!("SHOW CREATE {obj_type}"))),
        Tree::ShowVariable { variable } => show_variable(&variable),
        Tree::Set(set) => Ok(Kind::Setting(set_of(set)?)),
        Tree::Reset(reset) => Ok(Kind::Setting(match reset.reset {
            Reset::ALL => SettingCommand::ResetAll,
            Reset::ConfigurationParameter(name) => SettingCommand::Reset(setting_name(&name)?),
        })),
        Tree::StartTransaction { modes, modifier, statements, exception, has_end_keyword, .. } => {
            if modifier.is_some() || !statements.is_empty() || exception.is_some() || has_end_keyword {
                return Err(not_supported("BEGIN with statements or modifiers"));
            }
            Ok(Kind::Begin(transaction_access(&modes)?))
        }
        Tree::Commit { chain, modifier, .. } => {
            if chain || modifier.is_some() {
                return Err(not_supported("COMMIT with a clause"));
            }
            Ok(Kind::Commit)
        }
        Tree::Rollback { chain, savepoint } => {
            if chain {
                return Err(not_supported("ROLLBACK AND CHAIN").with_hint("BEGIN the next transaction by itself"));
            }
            Ok(savepoint.map_or(Kind::Rollback, |name| Kind::RollbackTo(names::name_of(&name))))
        }
        Tree::Savepoint { name } => Ok(Kind::Savepoint(names::name_of(&name))),
        Tree::ReleaseSavepoint { name } => Ok(Kind::Release(names::name_of(&name))),
        Tree::Call(function) => call_of(&function),
        Tree::Declare { stmts } => {
            let mut declare = declare_of(stmts)?;
            declare.query = checked(declare.query)?;
            Ok(Kind::Declare(declare))
        }
        Tree::Fetch { name, direction, position: _, into: None } => fetch_of(&name, &direction),
        Tree::Close { cursor } => Ok(Kind::CloseCursor(match cursor {
            ast::CloseCursor::All => None,
            ast::CloseCursor::Specific { name } => Some(names::name_of(&name)),
        })),
        Tree::Deallocate { name, .. } => Ok(Kind::Deallocate(deallocate_of(&name))),
        Tree::Discard { object_type: ast::DiscardObject::ALL } => Ok(Kind::Discard),
        other => {
            let text = other.to_string();
            let words = text.split_whitespace().take_while(|word| word.bytes().all(|byte| byte.is_ascii_uppercase()));
            Err(not_supported(words.take(3).collect::<Vec<_>>().join(" ")))
        }
    }
}

fn insert_of(insert: ast::Insert) -> Result<Insert> {
    let clauses = [
        (insert.or.is_some(), "INSERT OR ..."),
        (insert.ignore, "INSERT IGNORE"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (insert.on.is_some(), "ON CONFLICT"),
        (insert.returning.is_some(), "RETURNING"),
        (insert.output.is_some(), "OUTPUT"),
        (insert.replace_into, "REPLACE INTO"),
        (!insert.assignments.is_empty(), "INSERT ... SET"),
        (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "PARTITION in INSERT"),
        (insert.has_table_keyword, "INSERT INTO TABLE"),
        (insert.priority.is_some(), "a priority of INSERT"),
        (insert.table_alias.is_some() || insert.insert_alias.is_some(), "an alias in INSERT"),
        (insert.settings.is_some() || insert.format_clause.is_some(), "SETTINGS or FORMAT in INSERT"),
        (!insert.optimizer_hints.is_empty(), "an optimizer hint"),
        (
            insert.multi_table_insert_type.is_some()
                || !insert.multi_table_into_clauses.is_empty()
                || !insert.multi_table_when_clauses.is_empty(),
            "INSERT into several tables",
        ),
    ];
    if let Some((_, clause)) = clauses.iter().find(|(found, _)| *found) {
        return Err(not_supported(clause));
    }
    let TableObject::TableName(name) = &insert.table else {
        return Err(not_supported("INSERT into a function or a query"));
    };
    let columns = insert.columns.iter().map(|column| match column.0.as_slice() {
        [part] => part.as_ident().cloned().ok_or_else(|| not_supported(format!("{column} in a column list"))),
        _ => Err(not_supported(format!("{column} in a column list"))),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let Some(source) = insert.source else {
        return Err(not_supported("INSERT ... DEFAULT VALUES"));
    };
    let mut source = checked(source)?;
    repeated::tell_apart(&mut source);
    let source = InsertSource::Query(source);
    Ok(Insert { table: user_table(name)?, columns: (!columns.is_empty()).then_some(columns), source })
}

/// The query that reads some or all columns of a table, for COPY t TO.
pub(crate) fn query_of_table(name: &ObjectName, columns: &[ast::Ident]) -> Result<Box<Query>> {
    use ast::{Select, SelectItem, SetExpr, TableFactor, TableWithJoins, WildcardAdditionalOptions};
    let grammar = Grammar::for_tokens(0);
    let template = Parser::new(&grammar)
        .with_recursion_limit(depth::DEPTH_MAX)
        .try_with_sql("SELECT * FROM t")
        .and_then(|mut parser| parser.parse_query())
        .map_err(syntax)?;
    let mut query = template;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("SELECT * FROM t is not a SELECT"));
    };
    let Select { projection, from, .. } = select.as_mut();
    *projection = if columns.is_empty() {
        vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())]
    } else {
        columns.iter().map(|column| SelectItem::UnnamedExpr(Expr::Identifier(column.clone()))).collect()
    };
    let [TableWithJoins { relation: TableFactor::Table { name: place, .. }, .. }] = from.as_mut_slice() else {
        return Err(Error::internal("SELECT * FROM t does not read one table"));
    };
    *place = name.clone();
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(sql: &str) -> Statement {
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
    fn older_versions_are_refused_by_name_in_every_form() {
        for form in [
            "VERSION AS OF 5",
            "FOR VERSION AS OF 5",
            "TIMESTAMP AS OF '2026-01-01'",
            "FOR TIMESTAMP AS OF '2026-01-01'",
            "FOR SYSTEM_TIME AS OF '2026-01-01'",
        ] {
            let refused = one(&format!("SELECT * FROM t {form}"));
            assert!(matches!(&refused.kind, Kind::Refused(error) if error.message().contains(" AS OF")), "{form}");
        }
        assert!(matches!(one("SELECT version AS of FROM t").kind, Kind::Query(_)));
    }

    #[test]
    fn a_syntax_error_refuses_the_script_and_what_is_not_built_only_itself() {
        assert_eq!(parse("SELECT 1; SELEKT 2").unwrap_err().kind(), ErrorKind::Syntax);
        let statements = parse("UPDATE t SET nonsense; SELECT 1").unwrap();
        assert!(matches!(&statements[0].kind, Kind::Refused(error) if error.message().contains("UPDATE")));
        assert!(matches!(statements[1].kind, Kind::Query(_)));
    }

    #[test]
    fn create_table_as_takes_names_without_types() {
        let Kind::CreateTable(create) = one("CREATE TABLE t (a, \"B c\") WITH (curve = 'z') AS SELECT 1, 2").kind
        else {
            panic!("a CREATE TABLE")
        };
        let names: Vec<&str> = create.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "B c"]);
        assert_eq!(create.with.curve.as_deref(), Some("z"));
        let Kind::CreateTable(create) = one("CREATE TABLE t WITH (curve = z) AS SELECT 1").kind else {
            panic!("a CREATE TABLE")
        };
        assert!(create.columns.is_empty());
        assert!(parse("CREATE TABLE t (a, b)").is_err());
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
