//! Refuses by name what the parser accepts and Alluvia does not do.
//!
//! Invariant: whatever the parser accepts is either done or named in an error. DataFusion plans some parts of a query by
//! leaving them out (table versions and hints, FOR UPDATE, ...); [`query`] finds those in the tree. What is too much of a thing
//! that is planned is [`super::bounds`]'.

use crate::bounds::Bounds;
use crate::statements::alter::is_alter;
use crate::statements::maintenance::is_maintenance;
use crate::statements::roles::is_role_statement;
use crate::statements::routines::{is_create_procedure, is_drop_procedure};
use crate::statements::schemas::is_schema_statement;
use crate::statements::views::is_create_view;
use crate::tokens::unknown_clauses;
use crate::trees::rewriting::contains;
use crate::trees::visit::visit;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use alluvia_values::parse::shown;
use sqlparser::ast::{
    Cte, Expr, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, ObjectName, Query, Select, SelectFlavor,
    SetExpr, TableAlias, TableFactor, TableVersion, Value, Visitor,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Statements by their first word: what is refused before it is parsed, and what to do instead.
const STATEMENTS: &[(&str, &str)] = &[
    ("REPLACE", "use INSERT ... ON CONFLICT (key) DO UPDATE SET a = excluded.a"),
    ("UPSERT", "use INSERT ... ON CONFLICT (key) DO UPDATE SET a = excluded.a"),
    ("TABLE", "write SELECT * FROM the table"),
    ("OPTIMIZE", "merging runs by itself; CALL alluvia.merge() hurries it"),
    ("CHECKPOINT", "CALL alluvia.flush() sorts what has arrived so far"),
    ("USE", "there is one database; SET search_path chooses among its schemas"),
    ("ASSERT", ""),
    ("ATTACH", ""),
    ("CACHE", ""),
    ("DENY", ""),
    ("DETACH", ""),
    ("EXEC", ""),
    ("EXECUTE", "a client's driver runs what it has prepared"),
    ("EXPORT", ""),
    ("FLUSH", "use CALL alluvia.flush()"),
    ("IF", ""),
    ("IMPORT", ""),
    ("INSTALL", ""),
    ("KILL", ""),
    ("LISTEN", ""),
    ("LOAD", "use COPY t FROM 'file'"),
    ("LOCK", "readers and writers never block one another"),
    ("MOVE", "cursors go forward by FETCH"),
    ("MSCK", ""),
    ("NOTIFY", ""),
    ("OPEN", ""),
    ("PRAGMA", "settings are changed by SET"),
    ("PREPARE", "a client's driver prepares statements, with parameters as $1"),
    ("PRINT", ""),
    ("RAISE", ""),
    ("RAISERROR", ""),
    ("REASSIGN", ""),
    ("REFRESH", ""),
    ("RENAME", "use ALTER TABLE t RENAME TO u"),
    ("RETURN", ""),
    ("SECURITY", ""),
    ("THROW", ""),
    ("UNCACHE", ""),
    ("UNLOAD", "use COPY t TO 'file'"),
    ("UNLOCK", ""),
    ("WAITFOR", ""),
    ("WHILE", ""),
];

/// Kinds of objects that are not built, and what to do instead of creating one.
const OBJECTS: &[(&str, &str)] = &[
    ("MATERIALIZED", "keep its rows with CREATE TABLE ... AS; CALL alluvia.pin_cuboid keeps the sums of a table"),
    ("RECURSIVE", "write WITH RECURSIVE in the query of the view"),
    ("DATABASE", "there is one database; CREATE SCHEMA makes a schema in it"),
];

/// Words between CREATE, ALTER or DROP and the kind of object, which do not name it.
const FILLERS: &[&str] = &["OR", "REPLACE", "IF", "NOT", "EXISTS", "UNIQUE", "CONCURRENTLY", "LOCAL", "GLOBAL"];

/// Kinds of tables that are not ours.
const TABLE_KINDS: &[&str] =
    &["TEMP", "TEMPORARY", "EXTERNAL", "FOREIGN", "TRANSIENT", "VOLATILE", "DYNAMIC", "ICEBERG", "VIRTUAL"];

/// Refuses a statement by its leading words (upper case), if it is of a kind that is not built.
pub fn statement(words: &[String]) -> Result<()> {
    let Some(first) = words.first() else { return Ok(()) };
    if let Some((name, hint)) = STATEMENTS.iter().find(|(name, _)| name == first) {
        let error = not_supported(name);
        return Err(if hint.is_empty() { error } else { error.with_hint(*hint) });
    }
    if !matches!(first.as_str(), "CREATE" | "ALTER" | "DROP") {
        return Ok(());
    }
    let Some(kind) = words[1..].iter().find(|word| !FILLERS.contains(&word.as_str())) else { return Ok(()) };
    let is_temporary = first == "CREATE" && matches!(kind.as_str(), "TEMP" | "TEMPORARY");
    if is_temporary && words.iter().any(|word| word == "TABLE") {
        return Ok(());
    }
    let makes_view = is_create_view(words);
    if TABLE_KINDS.contains(&kind.as_str()) && !makes_view {
        let error = not_supported(format!("{first} {kind} TABLE"));
        return Err(match (first.as_str(), kind.as_str()) {
            ("CREATE", "EXTERNAL" | "FOREIGN") => error.with_hint(FILE_HINT),
            _ => error,
        });
    }
    if makes_view
        || is_role_statement(words)
        || kind == "TABLE"
        || kind == "VIEW"
        || !kind.bytes().all(|byte| byte.is_ascii_alphabetic())
    {
        return Ok(());
    }
    if is_maintenance(words)
        || is_alter(words)
        || words.starts_with(&["CREATE", "UNLOGGED", "TABLE"].map(str::to_owned))
    {
        return Ok(());
    }
    if is_create_procedure(words) || is_drop_procedure(words) {
        return Ok(());
    }
    if drops_none(words) || is_schema_statement(words) {
        return Ok(());
    }
    let kind_name = match kind.as_str() {
        "MATERIALIZED" => "MATERIALIZED VIEW",
        "RECURSIVE" => "RECURSIVE VIEW",
        "DEFAULT" => "DEFAULT PRIVILEGES",
        kind => kind,
    };
    Err(object(first, kind, kind_name))
}

/// The error for a statement about objects of a kind that is not built.
fn object(first: &str, kind: &str, kind_name: &str) -> Error {
    let error = not_supported(format!("{first} {kind_name}"));
    match OBJECTS.iter().find(|(name, _)| first == "CREATE" && *name == kind) {
        Some((_, hint)) => error.with_hint(*hint),
        None => error,
    }
}

/// Whether something of a kind that is not built is dropped if it exists.
fn drops_none(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["DROP", "INDEX" | "SEQUENCE", "IF", "EXISTS", ..] | ["DROP", "MATERIALIZED", "VIEW", "IF", "EXISTS", ..]
    )
}

/// For who reads a file as if it were a table.
const FILE_HINT: &str = "load it: COPY t FROM 'file' into a table that is there, or alluvia load, which makes one";

/// Functions of other systems that read files as tables.
const READERS: &[&str] = &[
    "read_csv",
    "read_csv_auto",
    "read_json",
    "read_json_auto",
    "read_ndjson",
    "read_parquet",
    "parquet_scan",
    "csv_scan",
];

/// How names of files end that other systems read as tables.
const FILES: &[&str] = &[".csv", ".tsv", ".json", ".ndjson", ".jsonl", ".parquet", ".arrow", ".gz", ".zst"];

/// Refuses a file in the place of a table: where a function reads it, or its name is a text.
fn file_in_from(name: &ObjectName, is_call: bool) -> ControlFlow<Error> {
    let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
    let Some(ident) = part.as_ident() else { return ControlFlow::Continue(()) };
    let lower = ident.value.to_ascii_lowercase();
    if is_call {
        return refuse_if_hinted(READERS.contains(&lower.as_str()), &format!("{lower} in FROM"), FILE_HINT);
    }
    let is_file = ident.quote_style == Some('\'') && FILES.iter().any(|end| lower.ends_with(*end));
    refuse_if_hinted(is_file, "a file in FROM", FILE_HINT)
}

/// What to know for who asks for an older version of a table.
const VERSION_HINT: &str = "a statement reads the newest snapshot that its freshness allows";

/// The refusal of a statement that does not parse because it has what the parser does not know: an older version of a table in a form like
/// `FOR VERSION AS OF 5`, `EXCLUDE CURRENT ROW`. Only for statements that do not parse: `of` may be an alias.
pub fn unread(tokens: &[TokenWithSpan]) -> Option<Error> {
    let meaning = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let keywords: Vec<Keyword> = meaning
        .map(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        })
        .collect();
    let version = |name: &str| Some(not_supported(name).with_hint(VERSION_HINT));
    let older = keywords.windows(3).find_map(|three| match three {
        [Keyword::VERSION, Keyword::AS, Keyword::OF] => version("VERSION AS OF"),
        [Keyword::TIMESTAMP, Keyword::AS, Keyword::OF] => version("TIMESTAMP AS OF"),
        [Keyword::SYSTEM_TIME, Keyword::AS, Keyword::OF] => version("SYSTEM_TIME AS OF"),
        _ => None,
    });
    let excluding = || {
        keywords.windows(2).find_map(|two| match two {
            [Keyword::EXCLUDE, Keyword::CURRENT | Keyword::GROUP | Keyword::TIES | Keyword::NO] => {
                Some(not_supported("EXCLUDE in a window"))
            }
            _ => None,
        })
    };
    older.or_else(excluding).or_else(|| unknown_clauses::refusal(tokens))
}

/// Where a sample can be asked for.
const SAMPLE_HINT: &str = "samples are drawn of tables: put it behind the table that is read";

/// Refuses what planning would leave out of a query.
pub fn query(query: &Query) -> Result<()> {
    match visit(query, &mut Ignored::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Looks for parts of a query that planning ignores, or would never end with.
#[derive(Default)]
struct Ignored {
    bounds: Bounds,
}

fn or_break(checked: Result<()>) -> ControlFlow<Error> {
    match checked {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

fn refuse_if(found: bool, what: &str) -> ControlFlow<Error> {
    if found { ControlFlow::Break(not_supported(what)) } else { ControlFlow::Continue(()) }
}

fn refuse_if_hinted(found: bool, what: &str, hint: &str) -> ControlFlow<Error> {
    if found { ControlFlow::Break(not_supported(what).with_hint(hint)) } else { ControlFlow::Continue(()) }
}

impl Visitor for Ignored {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        or_break(self.bounds.enter(expr))?;
        match expr {
            Expr::Value(value) => literal_of(&value.value),
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        self.bounds.leave(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Error> {
        self.bounds.relation(name);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        or_break(self.bounds.leave_query(query))
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        or_break(self.bounds.enter_query(query))?;
        if let Some(lock) = query.locks.first() {
            return ControlFlow::Break(not_supported(format!("{lock} within a query")).with_hint(
                "it stands behind the query of a statement: lock the rows first, and go on with their keys",
            ));
        }
        refuse_if(query.for_clause.is_some(), "FOR XML, FOR JSON or FOR BROWSE")?;
        refuse_if(query.settings.is_some(), "SETTINGS in a query")?;
        refuse_if(!query.pipe_operators.is_empty(), "a pipe operator")?;
        refuse_if(query.format_clause.is_some(), "FORMAT in a query")?;
        let hint = "write FETCH FIRST n ROWS ONLY, or LIMIT n; rank() OVER (ORDER BY ...) finds ties";
        refuse_if_hinted(query.fetch.is_some(), "FETCH FIRST with PERCENT or WITH TIES", hint)?;
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            let mut counts = limit.iter().chain(offset.as_ref().map(|offset| &offset.value));
            let has_subquery = |count: &Expr| contains(count, |part| matches!(part, Expr::Subquery(_)));
            let hint = "ask for the number first, and write it; or number the rows: row_number() OVER (ORDER BY ...) <= (SELECT ...)";
            refuse_if_hinted(counts.any(has_subquery), "LIMIT or OFFSET of a subquery", hint)?;
        }
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let Cte { materialized, from, alias, .. } = cte;
            refuse_if_hinted(materialized.is_some(), "MATERIALIZED in WITH", "leave it out: it changes no answer")?;
            refuse_if(from.is_some(), "FROM after a common table expression")?;
            alias_of(Some(alias))?;
        }
        match query.body.as_ref() {
            SetExpr::Insert(_) => refuse_if(true, "INSERT inside a query"),
            SetExpr::Update(_) => refuse_if(true, "UPDATE"),
            SetExpr::Delete(_) => refuse_if(true, "DELETE"),
            SetExpr::Merge(_) => refuse_if(true, "MERGE"),
            SetExpr::Table(_) => refuse_if_hinted(true, "TABLE", "write SELECT * FROM the table"),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        refuse_if_hinted(select.into.is_some(), "SELECT INTO", "write CREATE TABLE t AS SELECT ...")?;
        refuse_if(select.prewhere.is_some(), "PREWHERE")?;
        refuse_if(!select.connect_by.is_empty(), "CONNECT BY")?;
        refuse_if(!select.cluster_by.is_empty(), "CLUSTER BY")?;
        refuse_if(!select.distribute_by.is_empty(), "DISTRIBUTE BY")?;
        refuse_if(!select.sort_by.is_empty(), "SORT BY")?;
        refuse_if(!select.lateral_views.is_empty(), "LATERAL VIEW")?;
        refuse_if_hinted(select.top.is_some(), "TOP", "write LIMIT")?;
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            return ControlFlow::Break(
                Error::new(ErrorKind::Syntax, "FROM has no SELECT").with_hint("write SELECT * FROM the table"),
            );
        }
        refuse_if(select.exclude.is_some(), "EXCLUDE outside of a wildcard")?;
        refuse_if(select.value_table_mode.is_some(), "SELECT AS VALUE or AS STRUCT")?;
        refuse_if(select.select_modifiers.is_some(), "a modifier after SELECT")?;
        refuse_if(!select.optimizer_hints.is_empty(), "an optimizer hint")?;
        for join in select.from.iter().flat_map(|table| &table.joins) {
            join_of(&join.join_operator)?;
        }
        let modifiers = match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
        };
        refuse_if_hinted(!modifiers.is_empty(), "a modifier of GROUP BY", "write GROUP BY ROLLUP (...) or CUBE (...)")?;
        or_break(self.bounds.select(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                file_in_from(name, args.is_some())?;
                if let Some(sample) = sample {
                    if args.is_some() {
                        let refused = not_supported(format!("TABLESAMPLE on the function {name}"));
                        return ControlFlow::Break(refused.with_hint(SAMPLE_HINT));
                    }
                    if let Err(refused) = crate::sample::clause::check(sample) {
                        return ControlFlow::Break(refused.at(format_args!("table {name}")));
                    }
                }
                let asked = match version {
                    Some(TableVersion::ForSystemTimeAsOf(_)) => "FOR SYSTEM_TIME AS OF",
                    Some(TableVersion::TimestampAsOf(_)) => "TIMESTAMP AS OF",
                    Some(TableVersion::VersionAsOf(_)) => "VERSION AS OF",
                    _ => "a version",
                };
                refuse_if_hinted(version.is_some(), &format!("{asked} (on {name})"), VERSION_HINT)?;
                refuse_if(!with_hints.is_empty(), &format!("a table hint WITH (...) on {name}"))?;
                refuse_if(!index_hints.is_empty(), &format!("an index hint on {name}"))?;
                refuse_if(!partitions.is_empty(), &format!("PARTITION on {name}"))?;
                refuse_if(*with_ordinality, "WITH ORDINALITY")?;
                refuse_if(json_path.is_some(), "a JSON path in FROM")?;
                refuse_if(args.as_ref().is_some_and(|args| args.settings.is_some()), "SETTINGS of a table function")?;
                alias_of(alias.as_ref())
            }
            TableFactor::Derived { sample, alias, .. } => {
                refuse_if_hinted(sample.is_some(), "TABLESAMPLE on a subquery", SAMPLE_HINT)?;
                alias_of(alias.as_ref())
            }
            TableFactor::Function { with_ordinality, alias, .. } => {
                refuse_if(*with_ordinality, "WITH ORDINALITY")?;
                alias_of(alias.as_ref())
            }
            TableFactor::UNNEST { with_offset, with_offset_alias, with_ordinality, alias, .. } => {
                refuse_if(*with_ordinality, "WITH ORDINALITY")?;
                refuse_if(*with_offset || with_offset_alias.is_some(), "UNNEST ... WITH OFFSET")?;
                alias_of(alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                for join in &table_with_joins.joins {
                    join_of(&join.join_operator)?;
                }
                alias_of(alias.as_ref())
            }
            TableFactor::TableFunction { .. } => refuse_if(true, "TABLE(...) in FROM"),
            TableFactor::JsonTable { .. } => refuse_if(true, "JSON_TABLE"),
            TableFactor::OpenJsonTable { .. } => refuse_if(true, "OPENJSON"),
            TableFactor::Pivot { .. } => refuse_if(true, "PIVOT"),
            TableFactor::Unpivot { .. } => refuse_if(true, "UNPIVOT"),
            TableFactor::MatchRecognize { .. } => refuse_if(true, "MATCH_RECOGNIZE"),
            TableFactor::XmlTable { .. } => refuse_if(true, "XMLTABLE"),
            TableFactor::SemanticView { .. } => refuse_if(true, "SEMANTIC_VIEW"),
        }
    }
}

fn alias_of(alias: Option<&TableAlias>) -> ControlFlow<Error> {
    let Some(alias) = alias else { return ControlFlow::Continue(()) };
    refuse_if(alias.at.is_some(), "AT after a table alias")?;
    refuse_if(alias.columns.iter().any(|column| column.data_type.is_some()), "a type in a table alias")
}

/// Joins that other databases have.
fn join_of(join: &JoinOperator) -> ControlFlow<Error> {
    let sides = "write LEFT SEMI JOIN, or WHERE EXISTS (SELECT ...)";
    let lateral = "write JOIN LATERAL (SELECT ...) ON true";
    if let JoinOperator::Join(JoinConstraint::None)
    | JoinOperator::Inner(JoinConstraint::None)
    | JoinOperator::Left(JoinConstraint::None)
    | JoinOperator::LeftOuter(JoinConstraint::None)
    | JoinOperator::Right(JoinConstraint::None)
    | JoinOperator::RightOuter(JoinConstraint::None)
    | JoinOperator::FullOuter(JoinConstraint::None) = join
    {
        return ControlFlow::Break(
            Error::new(ErrorKind::Syntax, "a JOIN has neither ON nor USING")
                .with_hint("write JOIN ... ON a condition, or CROSS JOIN for all pairs"),
        );
    }
    match join {
        JoinOperator::Semi(_) => refuse_if_hinted(true, "SEMI JOIN without a side", sides),
        JoinOperator::Anti(_) => {
            refuse_if_hinted(true, "ANTI JOIN without a side", "write LEFT ANTI JOIN, or WHERE NOT EXISTS (SELECT ...)")
        }
        JoinOperator::AsOf { .. } => {
            refuse_if_hinted(true, "ASOF JOIN", "join with the latest earlier row: a window function over a UNION ALL")
        }
        JoinOperator::CrossApply | JoinOperator::OuterApply => refuse_if_hinted(true, "APPLY", lateral),
        JoinOperator::StraightJoin(_) => refuse_if_hinted(true, "STRAIGHT_JOIN", "write JOIN"),
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            refuse_if_hinted(true, "ARRAY JOIN", "write CROSS JOIN UNNEST(...)")
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Literals that other databases have.
fn literal_of(value: &Value) -> ControlFlow<Error> {
    match value {
        Value::SingleQuotedByteStringLiteral(_) | Value::DoubleQuotedByteStringLiteral(_) => {
            refuse_if_hinted(true, "a literal of the form B'...'", "write bytes as X'00FF'")
        }
        Value::NationalStringLiteral(_) | Value::NationalQuoteDelimitedStringLiteral(_) => {
            refuse_if_hinted(true, "a literal of the form N'...'", "leave the N out: all text is Unicode")
        }
        Value::UnicodeStringLiteral(_) => {
            refuse_if_hinted(true, "a literal of the form U&'...'", "write E'\\u00fc', or the character itself")
        }
        Value::SingleQuotedRawStringLiteral(_) | Value::DoubleQuotedRawStringLiteral(_) => {
            refuse_if_hinted(true, "a literal of the form R'...'", "write '...': a backslash is one there")
        }
        Value::QuoteDelimitedStringLiteral(_) => {
            refuse_if_hinted(true, "a literal of the form Q'...'", "write $$...$$")
        }
        // Planning would take it for infinity.
        Value::Number(digits, _) if digits.parse::<f64>().is_ok_and(f64::is_infinite) => {
            let message = format!("{} is out of range for DOUBLE", shown(digits.as_bytes()));
            ControlFlow::Break(
                Error::new(ErrorKind::OutOfRange, message)
                    .with_hint("a number that is written is a DECIMAL of 38 digits, or a double: up to 1.8e308"),
            )
        }
        _ => ControlFlow::Continue(()),
    }
}
