//! Recognising statements over one drawn table, from their trees.
//!
//! Invariants:
//! - Refuses rather than errs: every part of the tree is looked at, and what is not understood is left to the general way, errors too.
//! - One text means one statement: what may be the text of another, too, has no outline.
//! - What stands around the rows means the same whenever it is asked: columns, constants, operators and the plainest aggregates. So
//!   its text and the table's definition tell its plan.

use super::super::clause::{Clause, read};
use super::super::planner::draw_of;
use super::filters::filters_of;
use crate::answer::{conjunction, select_alone};
use crate::sample::thin::{Bound, bound_of};
use crate::table::Draw;
use alluvia_catalog::RelationName;
use alluvia_space::TableDef;
use alluvia_syntax::names::{is_ambiguous, name_of, user_table};
use alluvia_syntax::sample::thin::is_call;
use alluvia_syntax::trees::rewriting::call_of;
use datafusion::logical_expr::Expr as Filter;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, GroupByExpr, LimitClause, ObjectName, OrderByKind, Query,
    Select, SelectFlavor, SelectItem, SetExpr, TableAlias, TableFactor, TableFunctionArgs, TableWithJoins,
    UnaryOperator, Value, WildcardAdditionalOptions,
};
use std::fmt::Write;

/// Functions that may stand around the rows.
const FUNCTIONS: [&str; 5] = ["count", "sum", "avg", "min", "max"];

/// `SELECT ... FROM thin(t, ...) WHERE box ...` or `SELECT ... FROM t TABLESAMPLE ... WHERE box ...`.
#[derive(Debug)]
pub(crate) struct DrawnQuery<'a> {
    query: &'a Query,
    select: &'a Select,
    name: &'a ObjectName,
    table: RelationName,
    /// What the box's columns may be qualified with.
    qualifier: String,
    alias: Option<&'a TableAlias>,
    condition: Option<&'a Expr>,
    drawn: Drawn,
}

/// How much of a box is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drawn {
    /// `thin`.
    Thinned(Bound),
    /// TABLESAMPLE.
    Sampled(Clause),
}

impl DrawnQuery<'_> {
    /// What a statement asks, if it may have an outline.
    pub(crate) fn of(query: &Query) -> Option<DrawnQuery<'_>> {
        let (select, order_by, limit) = select_alone(query)?;
        let is_ordered_plainly = order_by.is_none_or(|order_by| match &order_by.kind {
            OrderByKind::Expressions(all) => {
                order_by.interpolate.is_none() && all.iter().all(|of| of.with_fill.is_none() && is_plain(&of.expr))
            }
            OrderByKind::All(_) => false,
        });
        if !is_ordered_plainly || !is_limit_plain(limit) || !is_select_plain(select) {
            return None;
        }
        let [TableWithJoins { relation, joins }] = select.from.as_slice() else { return None };
        if !joins.is_empty() {
            return None;
        }
        let (name, alias, condition, drawn) = factor_of(relation, select.selection.as_ref())?;
        let table = user_table(name).ok()?;
        let qualifier = alias.map_or_else(|| table.name.clone(), |alias| name_of(&alias.name));
        let asked = DrawnQuery { query, select, name, table, qualifier, alias, condition, drawn };
        (!is_ambiguous(&asked.text())).then_some(asked)
    }

    /// The table that is drawn from.
    pub(crate) fn table(&self) -> &RelationName {
        &self.table
    }

    /// The text that its outline depends on.
    pub(crate) fn text(&self) -> String {
        let Select { projection, group_by, having, .. } = self.select;
        let kind = match self.drawn {
            Drawn::Thinned(_) => "thin",
            Drawn::Sampled(_) => "sample",
        };
        // Columns of the answer may be called after the table as it is written.
        let mut text = format!("{kind} {}", self.name);
        if let Some(alias) = self.alias {
            let _ = write!(text, " {alias}");
        }
        for item in projection {
            let _ = write!(text, "\n{item}");
        }
        let _ = write!(text, "\n{group_by}");
        if let Some(having) = having {
            let _ = write!(text, "\nHAVING {having}");
        }
        if let Some(order_by) = &self.query.order_by {
            let _ = write!(text, "\n{order_by}");
        }
        if let Some(limit) = &self.query.limit_clause {
            let _ = write!(text, "\n{limit}");
        }
        text
    }

    /// The statement without its box: what its outline is planned from.
    pub(crate) fn without_box(&self) -> Query {
        let mut query = self.query.clone();
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.selection = None;
            for from in &mut select.from {
                if let TableFactor::Table { args: Some(TableFunctionArgs { args, .. }), .. } = &mut from.relation
                    && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(rows)))) = args.first_mut()
                    && let SetExpr::Select(select) = rows.body.as_mut()
                {
                    select.selection = None;
                }
            }
        }
        query
    }

    /// The box as filters; `None` where only the planner knows what it means.
    pub(crate) fn filters(&self, def: &TableDef) -> Option<Vec<Filter>> {
        let Some(condition) = self.condition else { return Some(Vec::new()) };
        let column = |expr: &Expr| match expr {
            Expr::Identifier(ident) => Some(name_of(ident)),
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [qualifier, column] if name_of(qualifier) == self.qualifier => Some(name_of(column)),
                _ => None,
            },
            _ => None,
        };
        filters_of(def, &conjunction(condition, &column)?)
    }

    /// Which rows of the box: a sample under a seed or what `max_rows` or `fraction` say. `number` is one that no other statement has.
    pub(crate) fn rows(&self, def: &TableDef, number: u64) -> Rows {
        match &self.drawn {
            Drawn::Thinned(bound) => Rows::Thinned(*bound),
            Drawn::Sampled(clause) => Rows::Sampled(draw_of(clause, def.seed, number, 1)),
        }
    }
}

/// Which rows of a box are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows {
    /// Those that weigh least.
    Thinned(Bound),
    /// Those of a draw.
    Sampled(Draw),
}

/// The name of the table, what it goes by, the box, and how much of it.
type Factor<'a> = (&'a ObjectName, Option<&'a TableAlias>, Option<&'a Expr>, Drawn);

fn factor_of<'a>(relation: &'a TableFactor, selection: Option<&'a Expr>) -> Option<Factor<'a>> {
    let TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample,
        index_hints,
    } = relation
    else {
        return None;
    };
    let is_alias_plain = alias.as_ref().is_none_or(|alias| alias.columns.is_empty() && alias.at.is_none());
    if !is_alias_plain || !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty() {
        return None;
    }
    match (args, sample) {
        (None, Some(kind)) => {
            let clause = read(kind, false).ok()?;
            Some((name, alias.as_ref(), selection, Drawn::Sampled(clause)))
        }
        (Some(TableFunctionArgs { args, settings: None }), None) if is_call(name) && selection.is_none() => {
            // The call has gathered the WHERE.
            let (first, bound) = args.split_first()?;
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(rows))) = first else { return None };
            let SetExpr::Select(rows) = rows.body.as_ref() else { return None };
            let [TableWithJoins { relation: TableFactor::Table { name, .. }, .. }] = rows.from.as_slice() else {
                return None;
            };
            let bound = bound_of(bound, false).ok()?;
            Some((name, alias.as_ref(), rows.selection.as_ref(), Drawn::Thinned(bound)))
        }
        _ => None,
    }
}

fn is_select_plain(select: &Select) -> bool {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: _,
        projection,
        exclude: None,
        into: None,
        from: _,
        lateral_views,
        prewhere: None,
        selection: _,
        connect_by,
        group_by: GroupByExpr::Expressions(groups, modifiers),
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify: None,
        window_before_qualify: _,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    } = select
    else {
        return false;
    };
    let is_item_plain = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_plain(expr),
        SelectItem::Wildcard(options) => is_wildcard_plain(options),
        _ => false,
    };
    optimizer_hints.is_empty()
        && lateral_views.is_empty()
        && connect_by.is_empty()
        && cluster_by.is_empty()
        && distribute_by.is_empty()
        && sort_by.is_empty()
        && named_window.is_empty()
        && modifiers.is_empty()
        && groups.iter().all(is_plain)
        && having.as_ref().is_none_or(is_plain)
        && projection.iter().all(is_item_plain)
}

fn is_wildcard_plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike: None,
        opt_exclude: None,
        opt_except: None,
        opt_replace: None,
        opt_rename: None,
        opt_alias: None,
    } = options
    else {
        return false;
    };
    true
}

fn is_limit_plain(clause: Option<&LimitClause>) -> bool {
    match clause {
        None => true,
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
            limit_by.is_empty()
                && limit.as_ref().is_none_or(is_number)
                && offset.as_ref().is_none_or(|offset| is_number(&offset.value))
        }
        Some(_) => false,
    }
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// Whether an expression means the same in every session and at every time, as far as its text tells.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Value(value) => {
            matches!(value.value, Value::Number(..) | Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null)
        }
        Expr::Nested(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) => is_plain(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus | UnaryOperator::Not, expr } => is_plain(expr),
        Expr::BinaryOp { left, op, right } => is_operator_plain(op) && is_plain(left) && is_plain(right),
        Expr::Between { expr, negated: _, low, high } => is_plain(expr) && is_plain(low) && is_plain(high),
        Expr::Function(function) => call_of(function)
            .is_some_and(|(name, arguments)| FUNCTIONS.contains(&name.as_str()) && arguments.into_iter().all(is_plain)),
        _ => false,
    }
}

fn is_operator_plain(op: &BinaryOperator) -> bool {
    use BinaryOperator::{And, Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Or, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo | Eq | NotEq | Lt | LtEq | Gt | GtEq | And | Or)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::Kind;
    use alluvia_syntax::script::parse;

    fn text_of(sql: &str) -> Option<String> {
        let Kind::Query(query) = parse(sql).expect(sql).remove(0).kind else { panic!("a query: {sql}") };
        DrawnQuery::of(&query).map(|asked| asked.text())
    }

    #[test]
    fn statements_that_differ_in_their_box_and_in_how_much_have_one_outline() {
        let one = text_of("SELECT id, x + y AS s FROM thin(t, max_rows => 10) WHERE x >= 1 AND y < 2.5");
        assert!(one.is_some());
        for same in [
            "SELECT id, x + y AS s FROM thin(t, max_rows => 999)",
            "SELECT id, x + y AS s FROM thin(t, fraction => 0.5) WHERE t.x BETWEEN 3 AND 4",
        ] {
            assert_eq!(text_of(same), one, "{same}");
        }
        for other in [
            "SELECT id, x - y AS s FROM thin(t, max_rows => 10)",
            "SELECT id, x + y AS r FROM thin(t, max_rows => 10)",
            "SELECT id, x + y AS s FROM thin(t, max_rows => 10) AS u",
            "SELECT id, x + y AS s FROM thin(t, max_rows => 10) ORDER BY id",
            "SELECT id, x + y AS s FROM thin(t, max_rows => 10) LIMIT 3",
            "SELECT id, x + y AS s FROM t TABLESAMPLE BERNOULLI (10)",
            "SELECT count(*) AS id, max(x) AS s FROM thin(t, max_rows => 10)",
        ] {
            let text = text_of(other);
            assert!(text.is_some() && text != one, "{other}");
        }
    }

    #[test]
    fn what_means_another_thing_at_another_time_has_no_outline() {
        for sql in [
            "SELECT now() FROM thin(t, max_rows => 10)",
            "SELECT random() FROM thin(t, max_rows => 10)",
            "SELECT current_date FROM thin(t, max_rows => 10) GROUP BY current_date",
            "SELECT (SELECT 1) FROM thin(t, max_rows => 10)",
            "SELECT id FROM thin(t, max_rows => 10) ORDER BY random()",
            "SELECT count(*) FILTER (WHERE x > 1) FROM thin(t, max_rows => 10)",
            "SELECT sum(x) OVER () FROM thin(t, max_rows => 10)",
            "SELECT DISTINCT id FROM thin(t, max_rows => 10)",
            "SELECT id FROM t",
            "SELECT id FROM (SELECT * FROM thin(t, max_rows => 10))",
            "SELECT id FROM t TABLESAMPLE BERNOULLI (10), u",
            "WITH a AS (SELECT 1) SELECT id FROM thin(t, max_rows => 10)",
        ] {
            assert_eq!(text_of(sql), None, "{sql}");
        }
    }
}
