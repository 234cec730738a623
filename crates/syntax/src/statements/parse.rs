//! From the tokens of one statement to what it is.
//!
//! Invariants:
//! - What the parser's tree holds is taken over or refused by name; nothing in it is ignored.
//! - `Err` is a syntax error, which refuses the script; what is not built, or names a table where it cannot be seen, is
//!   [`Kind::Refused`].

use crate::copy::statement::{CopyStatement, CopyWhat, parse_copy};
use crate::grammar::Grammar;
use crate::names;
use crate::names::{relation_name, shown_table, user_table};
use crate::statement::{Discard, FetchCount, Insert, InsertSource, Kind, SettingCommand};
use crate::statements::alter::{is_alter, parse_alter};
use crate::statements::changes::{conflict_of, delete_of, inserted_returning, truncate_of, update_of};
use crate::statements::commands::{
    call_of, deallocate_of, declare_of, fetch_of, is_plain, set_of, setting_name, show_columns, show_variable,
    transaction_modes,
};
use crate::statements::comments::parse_comment;
use crate::statements::constraints::parse_set_constraints;
use crate::statements::definitions::{ColumnSpec, create_table, refuse_dropped};
use crate::statements::locking::locking_of;
use crate::statements::maintenance::{is_maintenance, parse_maintenance};
use crate::statements::merge::{is_merge, parse_merge};
use crate::statements::roles::{is_role_statement, parse_role_statement};
use crate::statements::routines::{call_procedure, calls_system, is_drop_procedure, parse_do, parse_drop_procedure};
use crate::statements::schemas::{is_schema_statement, parse_schema_statement, parse_set_schema, sets_schema};
use crate::statements::views::{is_alter_view, parse_alter_view};
use crate::tokens::hints::Hints;
use crate::tokens::{Prepared, depth, nested_joins, phrases, prepare_tokens};
use crate::trees::value_rows::query_of_row;
use crate::trees::{prepare, repeated_names};
use alluvia_types::{Error, ErrorKind, Result, near_names};
use alluvia_values::errors::not_supported;
use datafusion_common::DataFusionError;
use datafusion_common::format::{ExplainFormat, ExplainStatementOptions};
use sqlparser::ast::{self, Expr, ObjectName, ObjectType, Query, Reset, ShowCreateObject, TableObject};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::str::FromStr;

/// An error of the parser as a syntax error, with a hint where one is known.
pub fn syntax(error: ParserError) -> Error {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            format!("the statement is nested more than {} deep", depth::DEPTH_MAX)
        }
    };
    let hint = hint_of(&message);
    let error = Error::new(ErrorKind::Syntax, message);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// What to do where the parser's words do not tell it.
fn hint_of(message: &str) -> Option<String> {
    const FIRST: [&str; 24] = [
        "select", "insert", "with", "values", "create", "alter", "drop", "copy", "explain", "describe", "show", "set",
        "reset", "begin", "commit", "rollback", "call", "declare", "grant", "revoke", "update", "delete", "truncate",
        "merge",
    ];
    if message.starts_with("Expecting number or byte length") {
        let hint = "a sample is TABLESAMPLE BERNOULLI (10), the percentage without its sign, or FROM thin(table, max_rows => 1000)";
        return Some(hint.to_owned());
    }
    let rest = message.strip_prefix("Expected: an SQL statement, found: ")?;
    let near = near_names(&rest.split(" at Line").next()?.to_lowercase(), FIRST);
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ").to_uppercase()))
}

/// One statement. `Err` is a syntax error; what is not built is `Ok(Kind::Refused)`.
pub fn statement(tokens: &[TokenWithSpan], hints: &Hints) -> Result<Kind> {
    let given = tokens;
    let Prepared { tokens, column_names: names, is_without_rows, overriding, is_unlogged } = prepare_tokens(tokens);
    let grammar = Grammar::for_tokens(tokens.len()).nesting_joins(nested_joins::may_have(&tokens));
    let merges = is_merge(&tokens);
    let mut parser = Parser::new(&grammar).with_tokens_with_locations(tokens).with_recursion_limit(depth::DEPTH_MAX);
    let kind = match merges {
        true => parse_merge(&mut parser).map(|merge| Kind::Merge(Box::new(merge))),
        false => known(&mut parser, hints),
    };
    if grammar.is_used_up() {
        return Err(Error::new(ErrorKind::Syntax, "the statement can be read in too many ways")
            .with_hint("close every bracket, and put names that are keywords in double quotes"));
    }
    let mut kind = match kind {
        Err(error) if matches!(error.kind(), ErrorKind::NotSupported | ErrorKind::UndefinedTable) => {
            return Ok(Kind::Refused(error));
        }
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
        create.is_unlogged = is_unlogged;
        create.columns.extend(names.into_iter().map(ColumnSpec::named));
        if let Some(query) = create.query.as_mut().filter(|_| is_without_rows) {
            phrases::without_rows(query);
        }
    }
    match (&mut kind, overriding) {
        (_, None) => {}
        (Kind::Insert(insert), _) => insert.overriding = overriding,
        _ => return Ok(Kind::Refused(not_supported("OVERRIDING outside of an INSERT"))),
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
                    *query = prepare(query.clone())?;
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
            Keyword::ALTER if is_alter_view(parser) => Kind::AlterView(parse_alter_view(parser)?),
            Keyword::CREATE | Keyword::ALTER | Keyword::DROP | Keyword::GRANT | Keyword::REVOKE
                if starts_role_statement(parser) =>
            {
                Kind::Role(Box::new(parse_role_statement(parser)?))
            }
            Keyword::CREATE | Keyword::ALTER | Keyword::DROP if is_schema_statement(&first_words(parser, 2)) => {
                Kind::Schema(Box::new(parse_schema_statement(parser)?))
            }
            Keyword::DROP if is_drop_procedure(&first_words(parser, 2)) => {
                Kind::Routine(Box::new(parse_drop_procedure(parser)?))
            }
            Keyword::DO => Kind::Do(Box::new(parse_do(parser)?)),
            Keyword::ALTER if sets_schema(parser) => Kind::AlterTable(Box::new(parse_set_schema(parser)?)),
            Keyword::ALTER if is_alter(&first_words(parser, 2)) => Kind::AlterTable(Box::new(parse_alter(parser)?)),
            Keyword::COMMENT => {
                parser.next_token();
                Kind::Comment(parse_comment(parser)?)
            }
            Keyword::SET if first_words(parser, 2).last().is_some_and(|word| word == "CONSTRAINTS") => {
                Kind::SetConstraints(parse_set_constraints(parser)?)
            }
            _ if is_maintenance(&first_words(parser, 5)) => parse_maintenance(parser)?,
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
    is_role_statement(&first_words(parser, 2))
}

/// So many words that come next, upper case.
fn first_words(parser: &Parser<'_>, count: usize) -> Vec<String> {
    let word = |at: usize| match parser.peek_nth_token(at).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    };
    (0..count).map_while(word).collect()
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
        let mut options = Vec::new();
        for mut option in parser.parse_utility_options().map_err(syntax)? {
            let is_format = option.name.value.eq_ignore_ascii_case("format");
            if let Some(named) = option.arg.as_mut().filter(|_| is_format) {
                let Some(format) = explain_format(&named.to_string())? else { continue };
                *named = Expr::Identifier(ast::Ident::new(format.to_string()));
            }
            options.push(option);
        }
        ExplainStatementOptions::from_utility_options(&options).map_err(|error| match error {
            // "EXPLAIN option BUFFERS is not supported by ..."
            DataFusionError::NotImplemented(message) => {
                not_supported(message.split(" is not supported").next().unwrap_or("this option of EXPLAIN"))
            }
            DataFusionError::Plan(message) => Error::new(ErrorKind::Syntax, message)
                .with_hint("options are ANALYZE, VERBOSE, FORMAT, METRICS, LEVEL, TIMING, SUMMARY, COSTS"),
            error => Error::new(ErrorKind::Syntax, error.strip_backtrace()),
        })?
    } else {
        let analyze = parser.parse_keyword(Keyword::ANALYZE);
        let verbose = parser.parse_keyword(Keyword::VERBOSE);
        let format = if parser.parse_keyword(Keyword::FORMAT) {
            let _ = parser.consume_token(&Token::Eq);
            explain_format(&parser.next_token().token.to_string())?
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
    let query = prepare(parser.parse_query().map_err(syntax)?)?;
    Ok(Kind::Explain { query, options })
}

/// The format that EXPLAIN is to have, by PostgreSQL's name or DataFusion's, quoted or not. Text is what it has without being asked:
/// the index tells its answers in no other.
fn explain_format(name: &str) -> Result<Option<ExplainFormat>> {
    let name = name.trim_matches(['\'', '"']);
    match name.to_ascii_lowercase().as_str() {
        "text" => Ok(None),
        "json" => Ok(Some(ExplainFormat::PostgresJSON)),
        other => ExplainFormat::from_str(other).map(Some).map_err(|_| {
            Error::new(ErrorKind::Syntax, format!("EXPLAIN has no format {name}"))
                .with_hint("formats are text, tree, json, graphviz")
        }),
    }
}

fn describe(parser: &mut Parser<'_>) -> Result<Kind> {
    parser.next_token();
    let _ = parser.parse_keyword(Keyword::TABLE);
    let name = parser.parse_object_name(false).map_err(syntax)?;
    Ok(Kind::Describe(relation_name(&name)?))
}

/// The command that drops objects of a kind that is not built, of which there are none.
fn command_of(kind: ObjectType) -> Option<&'static str> {
    match kind {
        ObjectType::MaterializedView => Some("DROP MATERIALIZED VIEW"),
        ObjectType::Index => Some("DROP INDEX"),
        ObjectType::Sequence => Some("DROP SEQUENCE"),
        _ => None,
    }
}

/// Takes over the parser's tree.
fn of_tree(tree: ast::Statement) -> Result<Kind> {
    use ast::Statement as Tree;
    match tree {
        Tree::Query(query) => match *query.body {
            ast::SetExpr::Insert(_) => Ok(Kind::Insert(insert_of(with_within(*query)?)?)),
            ast::SetExpr::Update(Tree::Update(update)) => Ok(Kind::Update(Box::new(update_of(update, query.with)?))),
            ast::SetExpr::Delete(Tree::Delete(delete)) => Ok(Kind::Delete(Box::new(delete_of(delete, query.with)?))),
            _ if !query.locks.is_empty() => locking_of(query),
            _ => Ok(Kind::Query(prepare(query)?)),
        },
        Tree::Insert(insert) => Ok(Kind::Insert(insert_of(insert)?)),
        Tree::Update(update) => Ok(Kind::Update(Box::new(update_of(update, None)?))),
        Tree::Delete(delete) => Ok(Kind::Delete(Box::new(delete_of(delete, None)?))),
        Tree::Truncate(truncate) => Ok(Kind::Truncate(truncate_of(truncate)?)),
        Tree::CreateTable(create) => {
            let mut create = create_table(create)?;
            create.query = create.query.map(prepare).transpose()?;
            Ok(Kind::CreateTable(Box::new(create)))
        }
        Tree::Drop { object_type: ObjectType::Table, if_exists, names, purge, temporary, cascade, .. } => {
            if purge || temporary {
                return Err(not_supported("this form of DROP TABLE"));
            }
            Ok(Kind::DropTable { names: names.iter().map(user_table).collect::<Result<_>>()?, if_exists, cascade })
        }
        Tree::Drop { object_type: ObjectType::View, if_exists, names, purge, temporary, cascade, .. } => {
            if purge || temporary {
                return Err(not_supported("this form of DROP VIEW"));
            }
            Ok(Kind::DropView { names: names.iter().map(user_table).collect::<Result<_>>()?, if_exists, cascade })
        }
        Tree::Drop { object_type, if_exists: true, names, .. } if command_of(object_type).is_some() => {
            let command = command_of(object_type).unwrap_or("DROP");
            Ok(Kind::DropNone { command, names: names.iter().map(relation_name).collect::<Result<_>>()? })
        }
        Tree::ShowTables { terse, history, extended, full, external, show_options } => {
            if terse || history || extended || full || external || !is_plain(&show_options) {
                return Err(not_supported("a clause of SHOW TABLES").with_hint("query alluvia.tables"));
            }
            Ok(Kind::ShowTables)
        }
        Tree::ShowColumns { extended, full, show_options } => show_columns(extended || full, show_options),
        Tree::ShowCreate { obj_type: ShowCreateObject::Table | ShowCreateObject::View, obj_name } => {
            Ok(Kind::ShowCreate(shown_table(&obj_name)?))
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
            Ok(Kind::Begin(transaction_modes(&modes)?))
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
        Tree::Call(function) if calls_system(&function) => call_of(&function),
        Tree::Call(function) => call_procedure(&function),
        Tree::Declare { stmts } => {
            let mut declare = declare_of(stmts)?;
            declare.query = prepare(declare.query)?;
            Ok(Kind::Declare(declare))
        }
        Tree::Fetch { name, direction, position: _, into: None } => fetch_of(&name, &direction),
        Tree::Close { cursor } => Ok(Kind::CloseCursor(match cursor {
            ast::CloseCursor::All => None,
            ast::CloseCursor::Specific { name } => Some(names::name_of(&name)),
        })),
        Tree::Deallocate { name, .. } => Ok(Kind::Deallocate(deallocate_of(&name))),
        Tree::Discard { object_type } => Ok(Kind::Discard(match object_type {
            ast::DiscardObject::ALL => Discard::All,
            ast::DiscardObject::PLANS => Discard::Plans,
            ast::DiscardObject::SEQUENCES => Discard::Sequences,
            ast::DiscardObject::TEMP => Discard::Temporary,
        })),
        // Nobody listens.
        Tree::UNLISTEN { .. } => Ok(Kind::AsIs { command: "UNLISTEN", notice: None }),
        other => {
            let text = other.to_string();
            let words = text.split_whitespace().take_while(|word| word.bytes().all(|byte| byte.is_ascii_uppercase()));
            let error = not_supported(words.take(3).collect::<Vec<_>>().join(" "));
            Err(match other {
                Tree::ShowSchemas { .. } | Tree::ShowDatabases { .. } => error.with_hint(
                    "SELECT schema_name FROM information_schema.schemata lists the schemas of the one database",
                ),
                _ => error,
            })
        }
    }
}

/// `WITH ... INSERT INTO t SELECT ...` as `INSERT INTO t WITH ... SELECT ...`.
fn with_within(query: Query) -> Result<ast::Insert> {
    let Query { with, body, .. } = query;
    let ast::SetExpr::Insert(ast::Statement::Insert(mut insert)) = *body else {
        return Err(not_supported("INSERT inside a query"));
    };
    let Some(mut around) = with else { return Ok(insert) };
    if let Some(source) = insert.source.as_mut() {
        if let Some(own) = source.with.take() {
            let names = around.cte_tables.iter().chain(&own.cte_tables).map(|cte| names::name_of(&cte.alias.name));
            let mut names: Vec<String> = names.collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            if names.len() < count || around.recursive != own.recursive {
                let refused = not_supported("WITH before and behind INSERT INTO");
                return Err(refused.with_hint("write all of its queries behind one of them"));
            }
            around.cte_tables.extend(own.cte_tables);
        }
        source.with = Some(around);
    }
    Ok(insert)
}

fn insert_of(insert: ast::Insert) -> Result<Insert> {
    let clauses = [
        (insert.or.is_some(), "INSERT OR ..."),
        (insert.ignore, "INSERT IGNORE"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (insert.output.is_some(), "OUTPUT"),
        (insert.replace_into, "REPLACE INTO"),
        (!insert.assignments.is_empty(), "INSERT ... SET"),
        (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "PARTITION in INSERT"),
        (insert.has_table_keyword, "INSERT INTO TABLE"),
        (insert.priority.is_some(), "a priority of INSERT"),
        // That of the table has nothing that could say it.
        (insert.insert_alias.is_some(), "an alias in INSERT"),
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
    let source = match insert.source {
        Some(source) => source,
        None => default_values()?,
    };
    let mut source = prepare(source)?;
    repeated_names::tell_apart(&mut source);
    let alias = insert.table_alias.map(|alias| alias.alias);
    let conflict = insert.on.map(|on| conflict_of(on, name, alias.clone())).transpose()?.map(Box::new);
    let returning = insert.returning.map(|items| inserted_returning(items, name, alias)).transpose()?;
    let (source, columns) = (InsertSource::Query(source), (!columns.is_empty()).then_some(columns));
    Ok(Insert { table: user_table(name)?, columns, source, overriding: None, conflict, returning })
}

/// `DEFAULT VALUES`, as `VALUES (DEFAULT)`: columns that a row has no value for get theirs, too.
fn default_values() -> Result<Box<Query>> {
    let mut query = query_of_row(Vec::new())?;
    let row = ast::Parens::with_empty_span(vec![Expr::Identifier(ast::Ident::new("DEFAULT"))]);
    *query.body = ast::SetExpr::Values(ast::Values { explicit_row: false, value_keyword: false, rows: vec![row] });
    Ok(query)
}

/// The query that reads some or all columns of a table, for COPY t TO.
pub fn query_of_table(name: &ObjectName, columns: &[ast::Ident]) -> Result<Box<Query>> {
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
    use crate::script::parse;
    use crate::script::tests::one;

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
    fn explain_has_the_same_formats_in_brackets_and_without() {
        let format_of = |sql: &str| match one(sql).kind {
            Kind::Explain { options, .. } => options.format,
            other => panic!("{other:?}"),
        };
        for (name, format) in [
            ("text", None),
            ("JSON", Some(ExplainFormat::PostgresJSON)),
            ("tree", Some(ExplainFormat::Tree)),
            ("graphviz", Some(ExplainFormat::Graphviz)),
        ] {
            for sql in [
                format!("EXPLAIN FORMAT {name} SELECT 1"),
                format!("EXPLAIN FORMAT '{name}' SELECT 1"),
                format!("EXPLAIN (FORMAT {name}) SELECT 1"),
                format!("EXPLAIN (VERBOSE, FORMAT '{name}') SELECT 1"),
            ] {
                assert_eq!(format_of(&sql), format, "{sql}");
            }
        }
        for sql in ["EXPLAIN FORMAT xml SELECT 1", "EXPLAIN (FORMAT xml) SELECT 1"] {
            let error = parse(sql).unwrap_err();
            assert_eq!(error.hint(), Some("formats are text, tree, json, graphviz"), "{sql}");
        }
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
}
