//! Functions of rows over columns of the tables beside them, `FROM t, unnest(f(t.a)) AS u(x)` and `LATERAL generate_series(1, t.n)`, and such as
//! number their rows WITH ORDINALITY.
//!
//! Invariants:
//! - Each is a subquery that selects what the function makes, with LATERAL where it reads columns and is not the first of FROM. Its columns are
//!   called as PostgreSQL calls them: as the list of the alias says, else the only one as the alias itself, and the number of a row `ordinality`.
//! - What a function is called with is written down once, however often it is needed.
//! - Functions of constants alone are left as they are ([`crate::trees::generate_series`] knows them), unless their rows are numbered; so is all that has
//!   clauses that are not known here, to be refused.

use super::rewriting::{RowsCall, call, rows_call};
use super::visit::{visit, visit_mut};
use sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    Value, Visitor, VisitorMut,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use std::ops::ControlFlow;

const UNNEST: &str = "unnest";
/// DataFusion's, which makes a row of NULL of a list that is NULL or empty.
const OUTER: &str = "unnest_outer";
const SERIES: &str = "generate_series";
const ORDINALITY: &str = "ordinality";

/// Writes them as planning takes them.
pub fn write_out(query: &mut Query) {
    let _ = visit_mut(query, &mut Beside);
}

struct Beside;

impl VisitorMut for Beside {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from.iter_mut().flat_map(|table| &mut table.joins).for_each(keep_rows);
        if let Some(first) = select.from.first_mut() {
            read_around(&mut first.relation);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(written) = Rows::of(factor).and_then(Rows::written) {
            *factor = written;
        }
        ControlFlow::Continue(())
    }
}

/// `LEFT JOIN LATERAL unnest(list) AS u ON true` as all rows of the list, or else one.
fn keep_rows(join: &mut Join) {
    let (JoinOperator::Left(JoinConstraint::On(on)) | JoinOperator::LeftOuter(JoinConstraint::On(on))) =
        &join.join_operator
    else {
        return;
    };
    if !matches!(on, Expr::Value(value) if value.value == Value::Boolean(true)) {
        return;
    }
    let rows = Rows::of(&join.relation).filter(|rows| rows.is_lateral);
    if let Some(written) = rows.and_then(|rows| Rows { made_by: OUTER, ..rows }.written()) {
        join.relation = written;
        join.join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
    }
}

/// The first of FROM, which has nothing beside it: what it reads is around the query, and LATERAL says nothing. Planning would look for its columns
/// among the tables that are beside a query around this one, too.
fn read_around(first: &mut TableFactor) {
    if let Some(written) = Rows::of(first).and_then(Rows::written) {
        *first = written;
    }
    if let TableFactor::Derived { lateral, .. } = first {
        *lateral = false;
    }
}

/// A call in FROM that is written otherwise.
struct Rows {
    function: &'static str,
    /// What it makes rows of, side by side.
    lists: Vec<Expr>,
    /// What makes them.
    made_by: &'static str,
    is_lateral: bool,
    is_numbered: bool,
    alias: Option<TableAlias>,
}

impl Rows {
    fn of(factor: &TableFactor) -> Option<Rows> {
        let (function, arguments, is_numbered, alias, says_lateral) = match factor {
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            } => (UNNEST, array_exprs.clone(), *with_ordinality, alias, false),
            other => {
                let RowsCall { name, arguments, alias, with_ordinality, says_lateral } = rows_call(other)?;
                let known = [UNNEST, SERIES].into_iter().find(|known| *known == name)?;
                (known, arguments, with_ordinality, alias, says_lateral)
            }
        };
        let is_named = |alias: &TableAlias| alias.at.is_none() && alias.columns.iter().all(|of| of.data_type.is_none());
        let is_lateral = says_lateral || arguments.iter().any(reads_columns);
        if arguments.is_empty() || !alias.as_ref().is_none_or(is_named) || !is_lateral && !is_numbered {
            return None;
        }
        let lists = if function == UNNEST { arguments } else { vec![call(SERIES, arguments)] };
        Some(Rows { function, lists, made_by: UNNEST, is_lateral, is_numbered, alias: alias.clone() })
    }

    /// `(SELECT unnest(list) AS x) AS u`, or `(SELECT unnest("list 1") AS x, unnest(generate_series(1, array_length("list 1", 1))) AS ordinality
    /// FROM (SELECT list AS "list 1") AS lists) AS u`.
    fn written(self) -> Option<TableFactor> {
        let Rows { function, lists, made_by, is_lateral, is_numbered, alias } = self;
        let count = lists.len();
        let made = count + usize::from(is_numbered);
        let name = alias.as_ref().map_or_else(|| Ident::new(function), |alias| alias.name.clone());
        let listed = alias.map(|alias| alias.columns).unwrap_or_default();
        let only = if count == 1 { name.clone() } else { Ident::new(function) };
        let named = |at: usize, expr: Expr| {
            let unlisted = || if at < count { only.clone() } else { Ident::new(ORDINALITY) };
            let alias = listed.get(at).map_or_else(unlisted, |column| column.name.clone());
            SelectItem::ExprWithAlias { expr: call(made_by, vec![expr]), alias }
        };
        let parsed = |sql: &str| Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?.parse_query().ok();
        let subquery = if is_numbered {
            let mut query = parsed("SELECT 1 FROM (SELECT 1) AS lists")?;
            let select = select_of(&mut query)?;
            let TableFactor::Derived { subquery: inner, .. } = &mut select.from.first_mut()?.relation else {
                return None;
            };
            let held = |at: usize| Ident::with_quote('"', format!("list {}", at + 1));
            let hold = |(at, expr): (usize, Expr)| SelectItem::ExprWithAlias { expr, alias: held(at) };
            select_of(inner)?.projection = lists.into_iter().enumerate().map(hold).collect();
            let list = |at: usize| Expr::Identifier(held(at));
            let mut lengths: Vec<Expr> = (0..count).map(|at| call("array_length", vec![list(at), one()])).collect();
            let longest = if count == 1 { lengths.pop()? } else { call("greatest", lengths) };
            let numbers = call(SERIES, vec![one(), longest]);
            let items = (0..count).map(list).chain([numbers]).enumerate();
            select.projection = items.map(|(at, expr)| named(at, expr)).collect();
            query
        } else {
            let mut query = parsed("SELECT 1")?;
            let items = lists.into_iter().enumerate();
            select_of(&mut query)?.projection = items.map(|(at, list)| named(at, list)).collect();
            query
        };
        // A list that names more columns than there are is wrong, and told.
        let columns = if listed.len() > made { listed } else { Vec::new() };
        let alias = Some(TableAlias { explicit: true, name, columns, at: None });
        Some(TableFactor::Derived { lateral: is_lateral, subquery, alias, sample: None })
    }
}

fn one() -> Expr {
    Expr::Value(Value::Number("1".to_owned(), false).into())
}

fn select_of(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select.as_mut()),
        _ => None,
    }
}

/// Whether an expression says a column, but for those that its subqueries say.
fn reads_columns(expr: &Expr) -> bool {
    visit(expr, &mut Reading { within: 0 }).is_break()
}

/// Ends at a column.
struct Reading {
    /// How many subqueries are around.
    within: usize,
}

impl Visitor for Reading {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.within = self.within.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if self.within == 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
