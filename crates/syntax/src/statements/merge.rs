//! MERGE: from its tokens to the query that it is made of.
//!
//! Invariants:
//! - All expressions of the statement are those of queries, as of UPDATE: conditions and values of the WHEN clauses are
//!   columns of one query, which reads the table first, and joins the source to it.
//! - A clause sees what its rows have: one for rows that are not matched sees the source alone, one for rows that no
//!   source matches the table alone, whatever names the other has.
//! - The join is the least that the clauses need.
//!
//! The parser's own MERGE knows neither DO NOTHING nor DEFAULT VALUES.

use crate::names::name_of;
use crate::statements::assignments::{Assigned, assigned, is_default, null};
use crate::statements::changes::{Target, no_select, source_name, whole_of};
use crate::statements::parse::syntax;
use crate::trees::prepare;
use crate::trees::rewriting::{call_of, name_items};
use crate::trees::value_rows::query_of_row;
use crate::trees::visit::visit_mut;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value, VisitorMut, WildcardAdditionalOptions, With,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{IsOptional, Parser};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// What RETURNING has for `merge_action()`: a column of a table of its own.
pub const ACTION: [&str; 2] = ["merge action", "action"];

/// MERGE INTO a user table.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The user table.
    pub table: RelationName,
    /// What the statement calls it.
    pub alias: Ident,
    /// What it calls the source.
    pub source: Ident,
    /// `SELECT conditions and values FROM table AS alias JOIN source ON condition`.
    pub query: Box<Query>,
    /// The WHEN clauses, in their order.
    pub clauses: Vec<MergeClause>,
    /// `SELECT ... FROM source, table AS alias, action`, of the rows as they are then.
    pub returning: Option<Box<Query>>,
}

/// A WHEN clause.
#[derive(Clone, Debug)]
pub struct MergeClause {
    /// The rows that it is for.
    pub rows: MergeRows,
    /// Which column of the query is its condition.
    pub condition: Option<usize>,
    /// What it does.
    pub action: MergeAction,
}

/// Rows that a WHEN clause is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MergeRows {
    /// Rows of the table with one of the source.
    Matched,
    /// Rows of the source that match none of the table.
    NotMatchedByTarget,
    /// Rows of the table that match none of the source.
    NotMatchedBySource,
}

/// What a WHEN clause does.
#[derive(Clone, Debug)]
pub enum MergeAction {
    /// DO NOTHING.
    Nothing,
    /// DELETE.
    Delete,
    /// UPDATE SET.
    Update(MergeValues),
    /// INSERT.
    Insert(MergeValues),
}

/// The values of a WHEN clause.
#[derive(Clone, Debug, Default)]
pub struct MergeValues {
    /// The columns that they are for; without a list those of the table, from the first.
    pub columns: Option<Vec<Ident>>,
    /// Which column of the query is the first of them.
    pub first: usize,
    /// How many there are.
    pub count: usize,
    /// Which of them are defaults: in the query they have NULL.
    pub defaults: Vec<usize>,
}

impl MergeAction {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            MergeAction::Nothing => "DO NOTHING",
            MergeAction::Delete => "DELETE",
            MergeAction::Update(_) => "UPDATE",
            MergeAction::Insert(_) => "INSERT",
        }
    }
}

/// Whether a statement of these tokens is a MERGE: by its first word, or by the one behind the queries of its WITH.
pub(crate) fn is_merge(tokens: &[TokenWithSpan]) -> bool {
    let mut tokens = tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    match tokens.next() {
        Some(Token::Word(word)) if word.quote_style.is_none() => match word.keyword {
            Keyword::MERGE => return true,
            Keyword::WITH => {}
            _ => return false,
        },
        _ => return false,
    }
    let mut depth = 0usize;
    let mut is_behind_bracket = false;
    for token in tokens {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && is_behind_bracket && word.quote_style.is_none() => match word.keyword {
                Keyword::MERGE => return true,
                // Behind the columns of a query of WITH.
                Keyword::AS => {}
                _ => return false,
            },
            _ => {}
        }
        is_behind_bracket = *token == Token::RParen && depth == 0;
    }
    false
}

/// MERGE, with or without WITH before it.
pub(crate) fn parse_merge(parser: &mut Parser<'_>) -> Result<Merge> {
    let with = match parser.parse_keyword(Keyword::WITH) {
        false => None,
        true => Some(With {
            with_token: AttachedToken::empty(),
            recursive: parser.parse_keyword(Keyword::RECURSIVE),
            cte_tables: parser.parse_comma_separated(Parser::parse_cte).map_err(syntax)?,
        }),
    };
    parser.expect_keyword_is(Keyword::MERGE).map_err(syntax)?;
    parser.expect_keyword_is(Keyword::INTO).map_err(syntax)?;
    let _ = parser.parse_keyword(Keyword::ONLY);
    let target = parser.parse_table_factor().map_err(syntax)?;
    parser.expect_keyword_is(Keyword::USING).map_err(syntax)?;
    let _ = parser.parse_keyword(Keyword::ONLY);
    let source = parser.parse_table_factor().map_err(syntax)?;
    parser.expect_keyword_is(Keyword::ON).map_err(syntax)?;
    let on = parser.parse_expr().map_err(syntax)?;
    let mut clauses = Vec::new();
    while parser.parse_keyword(Keyword::WHEN) {
        clauses.push(when(parser)?);
    }
    if clauses.is_empty() {
        return Err(Error::new(ErrorKind::Syntax, "MERGE has no WHEN clause")
            .with_hint("write WHEN MATCHED THEN UPDATE SET ..., or WHEN NOT MATCHED THEN INSERT VALUES (...)"));
    }
    let returning = match parser.parse_keyword(Keyword::RETURNING) {
        true => Some(parser.parse_projection().map_err(syntax)?),
        false => None,
    };
    let target = Target::of(&target, "MERGE")?;
    merge_of(with, target, source, on, clauses, returning)
}

/// A WHEN clause as it is written.
struct When {
    rows: MergeRows,
    condition: Option<Expr>,
    action: Action,
}

enum Action {
    Nothing,
    Delete,
    Update(Assigned),
    Insert { columns: Option<Vec<Ident>>, values: Vec<Expr> },
}

fn when(parser: &mut Parser<'_>) -> Result<When> {
    let is_not = parser.parse_keyword(Keyword::NOT);
    parser.expect_keyword_is(Keyword::MATCHED).map_err(syntax)?;
    let rows = match is_not {
        false => MergeRows::Matched,
        true if parser.parse_keywords(&[Keyword::BY, Keyword::SOURCE]) => MergeRows::NotMatchedBySource,
        true => {
            let _ = parser.parse_keywords(&[Keyword::BY, Keyword::TARGET]);
            MergeRows::NotMatchedByTarget
        }
    };
    let condition = match parser.parse_keyword(Keyword::AND) {
        true => Some(parser.parse_expr().map_err(syntax)?),
        false => None,
    };
    parser.expect_keyword_is(Keyword::THEN).map_err(syntax)?;
    let word = parser.parse_one_of_keywords(&[Keyword::UPDATE, Keyword::DELETE, Keyword::INSERT, Keyword::DO]);
    let action = match (word, rows) {
        (Some(Keyword::DO), _) => {
            parser.expect_keyword_is(Keyword::NOTHING).map_err(syntax)?;
            Action::Nothing
        }
        (Some(Keyword::INSERT), MergeRows::NotMatchedByTarget) => insert(parser)?,
        (Some(Keyword::UPDATE), MergeRows::Matched | MergeRows::NotMatchedBySource) => {
            parser.expect_keyword_is(Keyword::SET).map_err(syntax)?;
            Action::Update(assigned(parser.parse_comma_separated(Parser::parse_assignment).map_err(syntax)?)?)
        }
        (Some(Keyword::DELETE), MergeRows::Matched | MergeRows::NotMatchedBySource) => Action::Delete,
        (_, MergeRows::NotMatchedByTarget) => {
            return Err(Error::new(ErrorKind::Syntax, "rows that are not matched can be inserted, and nothing else")
                .with_hint("write WHEN NOT MATCHED THEN INSERT ..., or DO NOTHING"));
        }
        (_, MergeRows::Matched | MergeRows::NotMatchedBySource) => {
            return Err(Error::new(
                ErrorKind::Syntax,
                "rows that are there can be updated or deleted, and nothing else",
            )
            .with_hint("write THEN UPDATE SET ..., DELETE, or DO NOTHING"));
        }
    };
    Ok(When { rows, condition, action })
}

fn insert(parser: &mut Parser<'_>) -> Result<Action> {
    let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false).map_err(syntax)?;
    let columns = (!columns.is_empty()).then_some(columns);
    if parser.parse_keywords(&[Keyword::DEFAULT, Keyword::VALUES]) {
        if columns.is_some() {
            return Err(Error::new(ErrorKind::Syntax, "DEFAULT VALUES has no list of columns"));
        }
        return Ok(Action::Insert { columns, values: Vec::new() });
    }
    if matches!(&parser.peek_token().token, Token::Word(word) if word.value.eq_ignore_ascii_case("overriding")) {
        return Err(not_supported("OVERRIDING"));
    }
    parser.expect_keyword_is(Keyword::VALUES).map_err(syntax)?;
    parser.expect_token(&Token::LParen).map_err(syntax)?;
    let values = parser.parse_comma_separated(Parser::parse_expr).map_err(syntax)?;
    parser.expect_token(&Token::RParen).map_err(syntax)?;
    if parser.peek_token().token == Token::Comma {
        return Err(Error::new(ErrorKind::Syntax, "MERGE inserts one row for each that is not matched")
            .with_hint("have the source give more rows"));
    }
    if columns.as_ref().is_some_and(|columns| columns.len() != values.len()) {
        let message =
            format!("{} columns are given {} values", columns.map_or(0, |columns| columns.len()), values.len());
        return Err(Error::new(ErrorKind::Syntax, message));
    }
    Ok(Action::Insert { columns, values })
}

fn merge_of(
    with: Option<With>,
    target: Target,
    source: TableFactor,
    on: Expr,
    clauses: Vec<When>,
    returning: Option<Vec<SelectItem>>,
) -> Result<Merge> {
    refuse_unreachable(&clauses)?;
    let name = source_name(&source)
        .ok_or_else(|| not_supported("a source of MERGE without a name").with_hint("write USING (SELECT ...) AS s"))?;
    if name_of(&name) == name_of(&target.alias) {
        let message = format!("table name {} is specified more than once", name_of(&name));
        return Err(Error::new(ErrorKind::Syntax, message).with_hint("give the source another name: USING t AS s"));
    }
    let names = Names { target: &target.alias, source: &name };
    let mut columns = Vec::new();
    let mut taken = Vec::with_capacity(clauses.len());
    for When { rows, condition, action } in clauses {
        let condition = match condition {
            None => None,
            Some(condition) => {
                columns.push(names.within(rows, condition)?);
                Some(columns.len() - 1)
            }
        };
        let first = columns.len();
        let action = match action {
            Action::Nothing => MergeAction::Nothing,
            Action::Delete => MergeAction::Delete,
            Action::Update(Assigned { columns: set, values, defaults }) => {
                let count = values.len();
                for value in values {
                    columns.push(names.within(rows, value)?);
                }
                MergeAction::Update(MergeValues { columns: Some(set), first, count, defaults })
            }
            Action::Insert { columns: list, values } => {
                let (count, mut defaults) = (values.len(), Vec::new());
                for (at, value) in values.into_iter().enumerate() {
                    if is_default(&value) {
                        defaults.push(at);
                        columns.push(null());
                    } else {
                        columns.push(names.within(rows, value)?);
                    }
                }
                MergeAction::Insert(MergeValues { columns: list, first, count, defaults })
            }
        };
        taken.push(MergeClause { rows, condition, action });
    }
    let returning = match returning {
        None => None,
        Some(items) => Some(returning_query(with.clone(), items, &target, &source, &names)?),
    };
    let mut from = target.under(target.alias.clone());
    from.joins = vec![Join { relation: source, global: false, join_operator: join_of(&taken, on) }];
    // A SELECT has a column.
    if columns.is_empty() {
        columns.push(null());
    }
    let query = target.query(with, columns, vec![from], None)?;
    Ok(Merge { table: target.table, alias: target.alias, source: name, query, clauses: taken, returning })
}

/// Refuses a clause behind one that takes all rows of its kind.
fn refuse_unreachable(clauses: &[When]) -> Result<()> {
    for (at, clause) in clauses.iter().enumerate() {
        let takes_all = |before: &When| before.rows == clause.rows && before.condition.is_none();
        if clauses[..at].iter().any(takes_all) {
            return Err(Error::new(
                ErrorKind::Syntax,
                "unreachable WHEN clause specified after unconditional WHEN clause",
            )
            .with_hint("write the clause that has no condition last"));
        }
    }
    Ok(())
}

/// The join that gives all rows that a clause is for, and no others but those that are matched.
fn join_of(clauses: &[MergeClause], on: Expr) -> JoinOperator {
    let has = |rows| clauses.iter().any(|clause| clause.rows == rows);
    let on = JoinConstraint::On(on);
    match (has(MergeRows::NotMatchedByTarget), has(MergeRows::NotMatchedBySource)) {
        (false, false) => JoinOperator::Inner(on),
        (true, false) => JoinOperator::RightOuter(on),
        (false, true) => JoinOperator::LeftOuter(on),
        (true, true) => JoinOperator::FullOuter(on),
    }
}

/// What a statement calls its tables.
struct Names<'a> {
    target: &'a Ident,
    source: &'a Ident,
}

impl Names<'_> {
    /// An expression of a clause for these rows. Names that stand by themselves are those of the table that there is.
    fn within(&self, rows: MergeRows, mut expr: Expr) -> Result<Expr> {
        let (seen, unseen) = match rows {
            MergeRows::Matched => return Ok(expr),
            MergeRows::NotMatchedByTarget => (self.source, self.target),
            MergeRows::NotMatchedBySource => (self.target, self.source),
        };
        match visit_mut(&mut expr, &mut Within { seen, unseen: &name_of(unseen), queries: 0 }) {
            ControlFlow::Continue(()) => Ok(expr),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

/// Has names be those of one table.
struct Within<'a> {
    seen: &'a Ident,
    unseen: &'a str,
    /// Queries around, which have tables of their own.
    queries: usize,
}

impl VisitorMut for Within<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Identifier(column) => {
                *expr = Expr::CompoundIdentifier(vec![self.seen.clone(), column.clone()]);
                ControlFlow::Continue(())
            }
            Expr::CompoundIdentifier(parts) if parts.first().is_some_and(|first| name_of(first) == self.unseen) => {
                let message =
                    format!("invalid reference to table {}: the rows of this WHEN clause have none of it", self.unseen);
                ControlFlow::Break(Error::new(ErrorKind::UndefinedTable, message))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The query of RETURNING: of the source, of the table's rows, and of what was done.
fn returning_query(
    with: Option<With>,
    items: Vec<SelectItem>,
    target: &Target,
    source: &TableFactor,
    names: &Names<'_>,
) -> Result<Box<Query>> {
    let mut query = query_of_row(Vec::new())?;
    query.with = with;
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(no_select()) };
    select.projection = Vec::with_capacity(items.len());
    for item in items {
        match item {
            // As PostgreSQL has it: the source first.
            SelectItem::Wildcard(options) => {
                if options != WildcardAdditionalOptions::default() {
                    return Err(not_supported("a clause of * in RETURNING of MERGE").with_hint("name the columns"));
                }
                select.projection.extend([names.source, names.target].map(whole_of));
            }
            SelectItem::UnnamedExpr(expr) if is_action(&expr) => {
                select.projection.push(SelectItem::ExprWithAlias { expr, alias: Ident::new("merge_action") });
            }
            other => select.projection.push(other),
        }
    }
    let own = |relation| TableWithJoins { relation, joins: Vec::new() };
    select.from = vec![own(source.clone()), target.under(target.alias.clone()), own(action_table()?)];
    put_action(select)?;
    target.shorten(&mut query);
    prepare(query)
}

fn is_action(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    call_of(function).is_some_and(|(name, arguments)| name == "merge_action" && arguments.is_empty())
}

/// Puts the column in the place of `merge_action()`.
fn put_action(select: &mut Select) -> Result<()> {
    struct Put;
    impl VisitorMut for Put {
        type Break = Error;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
            if is_action(expr) {
                let [table, column] = ACTION;
                *expr = Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), Ident::new(column)]);
            }
            ControlFlow::Continue(())
        }
    }
    name_items(select, is_action);
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let ControlFlow::Break(error) = visit_mut(expr, &mut Put)
        {
            return Err(error);
        }
    }
    Ok(())
}

/// What stands for what was done, where nothing is.
fn action_table() -> Result<TableFactor> {
    let [table, column] = ACTION;
    let mut query = query_of_row(Vec::new())?;
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(no_select()) };
    let expr = Expr::Value(Value::SingleQuotedString(String::new()).into());
    select.projection = vec![SelectItem::ExprWithAlias { expr, alias: Ident::new(column) }];
    let alias = TableAlias { explicit: true, name: Ident::with_quote('"', table), columns: Vec::new(), at: None };
    Ok(TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;
    use crate::script::tests::one;

    fn shown(sql: &str) -> String {
        match one(sql).kind {
            Kind::Merge(merge) => {
                let Merge { table, alias, source, query, clauses, returning } = *merge;
                let clauses = clauses.iter().map(|MergeClause { rows, condition, action }| {
                    let values = match action {
                        MergeAction::Update(values) | MergeAction::Insert(values) => {
                            let MergeValues { columns, first, count, defaults } = values;
                            let columns = columns.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
                            format!(" ({}) {first}+{count} {defaults:?}", columns.join(", "))
                        }
                        _ => String::new(),
                    };
                    let condition = condition.map(|at| format!(" if {at}")).unwrap_or_default();
                    format!("{rows:?}{condition} {}{values}", action.name())
                });
                let clauses = clauses.collect::<Vec<_>>().join("; ");
                let returning = returning.map(|query| format!(" returning {query}")).unwrap_or_default();
                let table = table.name;
                format!("{table} as {alias}, {source}: {query} [{clauses}]{returning}")
            }
            Kind::Refused(error) => format!("refused {}", error.message()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_merge_is_a_query_of_conditions_and_values() {
        for (sql, wanted) in [
            (
                "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
                "t as t, s: SELECT NULL AS column1 FROM t AS t INNER JOIN s ON t.id = s.id [Matched DELETE]",
            ),
            (
                "MERGE INTO t AS a USING u s ON a.id = s.id WHEN MATCHED AND s.x > 1 THEN UPDATE SET x = s.x, y = DEFAULT \
                 WHEN NOT MATCHED BY TARGET AND id > 0 THEN INSERT (id, x) VALUES (id, DEFAULT)",
                "t as a, s: SELECT s.x > 1 AS column1, s.x AS column2, NULL AS column3, s.id > 0 AS column4, s.id AS \
                 column5, NULL AS column6 FROM t AS a RIGHT OUTER JOIN u s ON a.id = s.id [Matched if 0 UPDATE (x, y) \
                 1+2 [1]; NotMatchedByTarget if 3 INSERT (id, x) 4+2 [1]]",
            ),
            (
                "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND x = (SELECT max(x) FROM u) THEN DO \
                 NOTHING WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN DO NOTHING",
                "t as t, s: SELECT t.x = (SELECT max(x) FROM u) AS column1 FROM t AS t LEFT OUTER JOIN s ON t.id = s.id \
                 [NotMatchedBySource if 0 DO NOTHING; NotMatchedBySource DELETE; Matched DO NOTHING]",
            ),
            (
                "WITH w AS (SELECT 1 AS id) MERGE INTO t USING w ON t.id = w.id WHEN NOT MATCHED THEN INSERT DEFAULT \
                 VALUES WHEN NOT MATCHED BY SOURCE THEN DELETE",
                "t as t, w: WITH w AS (SELECT 1 AS id) SELECT NULL AS column1 FROM t AS t FULL JOIN w ON t.id = \
                 w.id [NotMatchedByTarget INSERT () 0+0 []; NotMatchedBySource DELETE]",
            ),
            (
                "MERGE INTO t USING (VALUES (1)) AS s(id) ON t.id = s.id WHEN MATCHED THEN DELETE RETURNING \
                 merge_action(), *, s.id + 1",
                "t as t, s: SELECT NULL AS column1 FROM t AS t INNER JOIN (VALUES (1)) AS s (id) ON t.id = s.id [Matched \
                 DELETE] returning SELECT \"merge action\".action AS merge_action, s.*, t.*, s.id + 1 FROM (VALUES (1)) \
                 AS s (id), t AS t, (SELECT '' AS action) AS \"merge action\"",
            ),
        ] {
            assert_eq!(shown(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn with_is_not_always_of_a_merge() {
        for sql in [
            "WITH merge AS (SELECT 1 AS a) SELECT a FROM merge",
            "WITH a AS (SELECT 1 AS x) SELECT (x) merge FROM a",
            "WITH a (x) AS (SELECT 1) SELECT x FROM a AS merge",
        ] {
            assert!(matches!(one(sql).kind, Kind::Query(_)), "{sql}");
        }
        for sql in [
            "WITH merge (x) AS (SELECT (1)), b AS (SELECT 2) MERGE INTO t USING b ON true WHEN MATCHED THEN DELETE",
            "WITH RECURSIVE b AS (SELECT 2) MERGE INTO t USING b ON true WHEN MATCHED THEN DELETE",
        ] {
            assert!(matches!(one(sql).kind, Kind::Merge(_)), "{sql}");
        }
    }

    #[test]
    fn what_is_not_done_is_refused_by_name() {
        for (sql, words) in [
            ("MERGE INTO alluvia.tables USING s ON true WHEN MATCHED THEN DELETE", "a system table"),
            ("MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN DELETE", "without a name"),
            (
                "MERGE INTO t USING s ON true WHEN NOT MATCHED THEN INSERT OVERRIDING SYSTEM VALUE VALUES (1)",
                "OVERRIDING",
            ),
            ("MERGE INTO t USING s ON true WHEN NOT MATCHED THEN INSERT VALUES (t.a)", "invalid reference to table t"),
            (
                "MERGE INTO t USING s ON true WHEN NOT MATCHED BY SOURCE AND s.a = 1 THEN DELETE",
                "invalid reference to table s",
            ),
            ("MERGE INTO t TABLESAMPLE BERNOULLI (10) USING s ON true WHEN MATCHED THEN DELETE", "TABLESAMPLE"),
        ] {
            let refused = shown(sql);
            assert!(refused.starts_with("refused") && refused.contains(words), "{sql}: {refused}");
        }
        for wrong in [
            "MERGE INTO t USING s ON true",
            "MERGE INTO t USING s ON true WHEN MATCHED THEN INSERT VALUES (1)",
            "MERGE INTO t USING s ON true WHEN NOT MATCHED THEN DELETE",
            "MERGE INTO t USING s ON true WHEN NOT MATCHED BY SOURCE THEN INSERT VALUES (1)",
            "MERGE INTO t USING s ON true WHEN NOT MATCHED THEN INSERT VALUES (1), (2)",
            "MERGE INTO t USING s ON true WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
            "MERGE INTO t USING s ON true WHEN NOT MATCHED THEN INSERT (a) DEFAULT VALUES",
            "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE WHEN MATCHED AND s.x THEN DELETE",
            "MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING s WHEN MATCHED THEN DELETE",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
