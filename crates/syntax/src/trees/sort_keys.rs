//! ORDER BY of positions of the select list, and of expressions that are in the select list.
//!
//! Invariants, as in PostgreSQL:
//! - An expression that a SELECT DISTINCT is sorted by is the column of the same expression. DataFusion 55.2 looks for the columns that the
//!   expression reads, and refuses it where they are not selected.
//! - A number is the column of that number, also where rows are grouped, or told apart by DISTINCT ON: there DataFusion finds no more than keys,
//!   aggregates and what has an alias. So the column's expression stands in the place of its number; where that could mean something else
//!   the column is called after its text, and the number stays.
//! - What was planned before keeps its form: columns of tables, keys and aggregates, and all numbers where rows are not grouped.
//!
//! Mends apache/datafusion#5293 (in 55.2). Of numbers no issue upstream is known (searched 2026-11-27: ORDER BY,
//! ordinal position, aggregate expression, GROUP BY).
//! Held by `slt/windows.slt` (`SELECT DISTINCT UPPER(t.s) AS x FROM t ORDER BY upper(s)`,
//! `SELECT g, sum(p) * 2 FROM t GROUP BY g ORDER BY 2 DESC, 1`).

use super::cast_keys::AGGREGATES;
use super::visit::{visit, visit_mut};
use crate::names::name_of;
use crate::trees::column_labels::is_of_one_table;
use crate::trees::repeated_names::expr_of;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    CastKind, Distinct, Expr, Function, GroupByExpr, Ident, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query,
    Select, SelectItem, SetExpr, Value, Visitor, VisitorMut,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Functions whose calls of the same text are not the same value.
const VOLATILE: [&str; 3] = ["random", "uuid", "gen_random_uuid"];

/// Whether what is written once may not be written several times.
pub(crate) fn differs_each_time(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Function(function) => name_of_call(function).is_some_and(|name| VOLATILE.contains(&name.as_str())),
        _ => false,
    }
}

/// Whether a query of these tokens may be sorted, or told apart by DISTINCT ON.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_such = |keyword| matches!(keyword, Keyword::ORDER | Keyword::DISTINCT);
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_such(word.keyword)))
}

/// Brings what all SELECTs of a query are sorted by to the form that is planned.
pub fn write_out(query: &mut Query) -> Result<()> {
    match visit_mut(query, &mut Sorted) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Sorted;

impl VisitorMut for Sorted {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Query { body, order_by, .. } = query;
        if let SetExpr::Select(select) = body.as_mut()
            && let Err(error) = write_out_apart(select)
        {
            return ControlFlow::Break(error);
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by
            && let SetExpr::Select(select) = body.as_mut()
        {
            if matches!(select.distinct, Some(Distinct::Distinct)) {
                number_columns(select, keys);
            }
            write_out_numbers(select, keys);
        }
        ControlFlow::Continue(())
    }
}

/// Says the number of a column in the place of its expression.
fn number_columns(select: &Select, keys: &mut [OrderByExpr]) {
    // Most are sorted by names.
    if keys.iter().all(|key| is_plain(&key.expr)) {
        return;
    }
    let is_of_one = is_of_one_table(select);
    let mut numbers: HashMap<Expr, usize> = HashMap::new();
    // What `*` is, only planning knows.
    for (at, expr) in select.projection.iter().map_while(expr_of).enumerate() {
        numbers.entry(alike(expr, is_of_one)).or_insert(at + 1);
    }
    for key in keys.iter_mut().filter(|key| !is_plain(&key.expr)) {
        let key_alike = alike(&key.expr, is_of_one);
        if !is_plain(&key_alike)
            && let Some(number) = numbers.get(&key_alike)
        {
            key.expr = Expr::Value(Value::Number(number.to_string(), false).into());
        }
    }
}

/// Says a column's expression in the place of its number in DISTINCT ON.
fn write_out_apart(select: &mut Select) -> Result<()> {
    let Select { distinct: Some(Distinct::On(keys)), projection, .. } = select else { return Ok(()) };
    // What `*` is, only planning knows.
    let are_known = projection.iter().all(|item| expr_of(item).is_some());
    for key in keys.iter_mut().filter(|_| are_known) {
        let Some(number) = number_of(key) else { continue };
        let item = number.checked_sub(1).and_then(|at| projection.get(at)).and_then(expr_of);
        let Some(expr) = item else {
            let message = format!("SELECT DISTINCT ON position {number} is not in select list");
            return Err(Error::new(ErrorKind::NoKey, message)
                .with_hint(format!("the select list has {} items", projection.len())));
        };
        *key = expr.clone();
    }
    Ok(())
}

/// Says a column's expression in the place of its number, where planning would not know the column.
fn write_out_numbers(select: &mut Select, keys: &mut Vec<OrderByExpr>) {
    let is_apart = matches!(select.distinct, Some(Distinct::On(_)));
    if !is_apart && !is_grouped(select)
        || !keys.iter().any(|key| number_of(&key.expr).is_some())
        || select.projection.iter().any(|item| expr_of(item).is_none())
    {
        return;
    }
    let is_of_one = is_of_one_table(select);
    let groups = groups_of(select, is_of_one);
    let renamed = renamed(select);
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
    let mut done = HashSet::new();
    keys.retain_mut(|key| {
        let Some(at) = number_of(&key.expr).and_then(|number| number.checked_sub(1)) else { return true };
        let Some(item) = select.projection.get_mut(at) else { return true };
        let SelectItem::UnnamedExpr(expr) = item else { return true };
        let of_item = alike(expr, is_of_one);
        let is_known = is_column(&of_item) || groups.contains(&of_item);
        // A cast is called after what it casts.
        let cast = uncast(&of_item);
        if is_known || is_aggregate(cast) || !is_column(cast) && groups.contains(cast) {
            return true;
        }
        if !done.insert(at) {
            // Rows are sorted by it already.
            return false;
        }
        if is_distinct || is_plain(&of_item) || !says_the_same(expr, &renamed) {
            let alias = Ident::with_quote('"', expr.to_string());
            let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *item = SelectItem::ExprWithAlias { expr, alias };
        } else {
            key.expr = expr.clone();
        }
        true
    });
}

/// Whether an expression is a value or a column.
fn is_plain(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_)) || is_column(expr)
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn uncast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast { expr, .. } => uncast(expr),
        _ => expr,
    }
}

/// The number that an expression is, and no more.
fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a call is that of an aggregate, and of no window.
pub(crate) fn is_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_none()
        && name_of_call(function).is_some_and(|name| AGGREGATES.contains(&name.as_str())))
}

fn name_of_call(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name_of(name)),
        _ => None,
    }
}

/// Whether the rows of a SELECT are those of groups.
fn is_grouped(select: &Select) -> bool {
    let has_keys = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    };
    has_keys || select.having.is_some() || has_aggregates(select)
}

/// Whether there are aggregates in the columns of a SELECT, but for those of subqueries.
pub(crate) fn has_aggregates(select: &Select) -> bool {
    visit(&select.projection, &mut Aggregates { queries: 0 }).is_break()
}

/// Ends at the first aggregate that is not a subquery's.
struct Aggregates {
    queries: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.queries == 0 && is_aggregate(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// What rows are grouped by, also in sets.
fn groups_of(select: &Select, is_of_one: bool) -> HashSet<Expr> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return HashSet::new() };
    let mut groups = HashSet::new();
    let mut add = |key: &Expr| {
        let item = number_of(key).and_then(|number| select.projection.get(number.checked_sub(1)?)).and_then(expr_of);
        groups.insert(alike(item.unwrap_or(key), is_of_one));
    };
    for key in keys {
        match key {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                sets.iter().flatten().for_each(&mut add)
            }
            Expr::Tuple(keys) => keys.iter().for_each(&mut add),
            key => add(key),
        }
    }
    groups
}

/// The names that a SELECT gives to something else than the columns of these names.
fn renamed(select: &Select) -> HashSet<String> {
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let column = match expr {
                Expr::Identifier(ident) => Some(name_of(ident)),
                Expr::CompoundIdentifier(parts) => parts.last().map(name_of),
                _ => None,
            };
            let name = name_of(alias);
            (column.as_ref() != Some(&name)).then_some(name)
        }
        _ => None,
    };
    select.projection.iter().filter_map(name).collect()
}

/// Whether an expression of a SELECT is the same in its ORDER BY, where planning takes names for those that the SELECT gives.
fn says_the_same(expr: &Expr, renamed: &HashSet<String>) -> bool {
    visit(expr, &mut Differing(renamed)).is_continue()
}

/// Ends at what may be something else when it is said again.
struct Differing<'a>(&'a HashSet<String>);

impl Visitor for Differing<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let differs = match expr {
            Expr::Identifier(ident) => self.0.contains(&name_of(ident)),
            Expr::Function(function) => name_of_call(function).is_some_and(|name| VOLATILE.contains(&name.as_str())),
            _ => false,
        };
        if differs { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// An expression without what makes no difference: brackets, the case of names, the sign of a cast and, where columns are those of one table,
/// its name.
fn alike(expr: &Expr, is_of_one: bool) -> Expr {
    let mut expr = expr.clone();
    let _ = visit_mut(&mut expr, &mut Alike { is_of_one, queries: 0 });
    expr
}

struct Alike {
    is_of_one: bool,
    /// Subqueries that are open: they may have tables of their own.
    queries: usize,
}

impl VisitorMut for Alike {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Nested(inner) => {
                let inner = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
                *expr = inner;
            }
            Expr::Identifier(ident) => *ident = folded(ident),
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(column) if self.is_of_one && self.queries == 0 => {
                    let column = folded(column);
                    *expr = Expr::Identifier(column);
                }
                _ => parts.iter_mut().for_each(|part| *part = folded(part)),
            },
            Expr::Function(Function { name, .. }) => {
                for part in &mut name.0 {
                    if let ObjectNamePart::Identifier(ident) = part {
                        *ident = folded(ident);
                    }
                }
            }
            Expr::Cast { kind, .. } if *kind == CastKind::DoubleColon => *kind = CastKind::Cast,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The same name, however it is written.
fn folded(ident: &Ident) -> Ident {
    Ident::with_quote('"', name_of(ident))
}

#[cfg(test)]
mod tests {
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().to_string()
    }

    #[test]
    fn expressions_of_distinct_rows_are_their_columns() {
        for (key, wanted) in [
            ("upper(a)", "2"),
            ("UPPER(A) DESC, c", "2 DESC, c"),
            ("(upper(t.a)) NULLS FIRST", "2 NULLS FIRST"),
            ("c::DATE", "3"),
            ("CAST(\"c\" AS DATE), b * 2", "3, 4"),
            ("(b) * 2", "4"),
            ("b, 2, x", "b, 2, x"),
            ("b * 3, upper(\"A\"), lower(a)", "b * 3, upper(\"A\"), lower(a)"),
        ] {
            let select = "SELECT DISTINCT a, upper(a), CAST(c AS DATE) AS x, b * 2 FROM t ORDER BY";
            assert_eq!(written(&format!("{select} {key}")), format!("{select} {wanted}"));
        }
        for sql in [
            "SELECT upper(a) FROM t ORDER BY upper(a)",
            "SELECT DISTINCT *, upper(a) FROM t ORDER BY upper(a)",
            "SELECT DISTINCT upper(t.a) FROM t, u ORDER BY upper(a)",
            "SELECT DISTINCT upper(a) FROM t UNION SELECT b FROM u ORDER BY 1",
        ] {
            assert_eq!(written(sql), sql);
        }
        let within = "SELECT (SELECT DISTINCT upper(a) FROM t ORDER BY 1 LIMIT 1)";
        assert_eq!(written(&within.replace("BY 1", "BY upper(a)")), within);
    }

    #[test]
    fn numbers_of_grouped_rows_are_their_columns() {
        for (sql, wanted) in [
            (
                "SELECT a, rank() OVER (ORDER BY sum(b)) FROM t GROUP BY a ORDER BY 2 DESC",
                "SELECT a, rank() OVER (ORDER BY sum(b)) FROM t GROUP BY a ORDER BY rank() OVER (ORDER BY sum(b)) DESC",
            ),
            (
                "SELECT a + 1, sum(b) FROM t GROUP BY a ORDER BY 1, 2, 1 DESC",
                "SELECT a + 1, sum(b) FROM t GROUP BY a ORDER BY a + 1, 2",
            ),
            ("SELECT sum(b) * 2 FROM t ORDER BY 1", "SELECT sum(b) * 2 FROM t ORDER BY sum(b) * 2"),
            // The name would be the other column's.
            (
                "SELECT upper(a) AS a, count(a) + 1 FROM t GROUP BY t.a ORDER BY 2",
                "SELECT upper(a) AS a, count(a) + 1 AS \"count(a) + 1\" FROM t GROUP BY t.a ORDER BY 2",
            ),
            ("SELECT a, 7 FROM t GROUP BY a ORDER BY 2", "SELECT a, 7 AS \"7\" FROM t GROUP BY a ORDER BY 2"),
            (
                "SELECT a, random() FROM t GROUP BY a ORDER BY 2",
                "SELECT a, random() AS \"random()\" FROM t GROUP BY a ORDER BY 2",
            ),
            (
                "SELECT DISTINCT sum(b) + 1 FROM t GROUP BY a ORDER BY sum(b) + 1",
                "SELECT DISTINCT sum(b) + 1 AS \"sum(b) + 1\" FROM t GROUP BY a ORDER BY 1",
            ),
            ("SELECT DISTINCT ON (1) a, b FROM t", "SELECT DISTINCT ON (a) a, b FROM t"),
            (
                "SELECT DISTINCT ON (abs(a)) abs(a), b FROM t ORDER BY 1, 2",
                "SELECT DISTINCT ON (abs(a)) abs(a), b FROM t ORDER BY abs(a), 2",
            ),
        ] {
            assert_eq!(written(sql), wanted);
        }
        for sql in [
            "SELECT a, sum(b), sum(b) + 1 AS x FROM t GROUP BY a ORDER BY 1, 2, 3",
            "SELECT DISTINCT ON (b) a, * FROM t",
            "SELECT abs(a), sum(b) FROM t GROUP BY ABS(t.a) ORDER BY 1",
            "SELECT abs(a), sum(b) FROM t GROUP BY 1 ORDER BY 1",
            "SELECT DISTINCT sum(b)::TEXT, abs(a)::TEXT FROM t GROUP BY abs(a) ORDER BY 1, 2",
            "SELECT abs(a), sum(b) FROM t GROUP BY ROLLUP (abs(a)) ORDER BY 1",
            "SELECT a + 1, random() FROM t ORDER BY 1, 2",
            "SELECT abs(a), (SELECT max(b) FROM u) FROM t ORDER BY 1, 2",
            "SELECT a + 1, sum(b) FROM t GROUP BY a ORDER BY 3, 0, a",
        ] {
            assert_eq!(written(sql), sql);
        }
    }
}
