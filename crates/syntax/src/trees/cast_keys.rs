//! Casts in aggregates and in keys of GROUP BY get names that differ from the names of what they cast.
//!
//! DataFusion 55.2 leaves casts out of an expression's name, and refuses two aggregates or two keys of GROUP BY that have one name:
//! `avg(q), avg(q::decimal(10, 2))`, `GROUP BY ts, ts::date`. A call of `coalesce` with one argument is that argument, and has a name.
//!
//! Invariants:
//! - Only casts in keys and aggregates that would be refused are called so, by all parts of their SELECT and its ORDER BY alike.
//! - An item without a name gets the one that its cast would have had with a number, as beside what is cast ([`crate::trees::column_labels`]): whoever
//!   says the name alone means what is not cast.
//!
//! Mends apache/datafusion#4478, #5174 (in 55.2).
//! Held by `slt/select.slt` (`GROUP BY sold_at, sold_at::date`, `max(quantity), max(quantity::text)`).

use super::rewriting::{call, contains};
use super::visit::{visit, visit_mut};
use crate::names::name_of;
use crate::trees::column_labels::{is_of_one_table, text_of};
use crate::trees::display_names::MARK;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value, VisitMut, Visitor,
    VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Aggregates that are told apart.
pub const AGGREGATES: [&str; 28] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "median",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "var",
    "var_samp",
    "var_pop",
    "variance",
    "array_agg",
    "string_agg",
    "bool_and",
    "bool_or",
    "first_value",
    "last_value",
    "bit_and",
    "bit_or",
    "bit_xor",
    "corr",
    "covar_samp",
    "covar_pop",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
];

/// Tells the casts of all SELECTs of a query apart.
pub fn tell_apart(query: &mut Query) {
    let _ = visit_mut(query, &mut Selects);
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let keys: &mut [OrderByExpr] = match query.order_by.as_mut().map(|order| &mut order.kind) {
            Some(OrderByKind::Expressions(keys)) => keys,
            _ => &mut [],
        };
        if let SetExpr::Select(select) = query.body.as_mut() {
            of_select(select, keys);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // One that its query was looked at with has nothing left to be told apart.
        of_select(select, &mut []);
        ControlFlow::Continue(())
    }
}

fn of_select(select: &mut Select, keys: &mut [OrderByExpr]) {
    let has_casts = contains(&select.projection, is_cast)
        || contains(&select.group_by, is_cast)
        || select.having.as_ref().is_some_and(|having| contains(having, is_cast))
        || keys.iter().any(|key| contains(&key.expr, is_cast));
    if !has_casts {
        return;
    }
    let calls = calls_of(select, keys);
    if calls.is_empty() {
        return;
    }
    let is_of_one = is_of_one_table(select);
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
        _ => None,
    });
    let mut taken: HashSet<String> = aliases.collect();
    for item in &mut select.projection {
        let before = match item {
            SelectItem::UnnamedExpr(expr) => Some(expr.clone()),
            _ => None,
        };
        change(item, &calls);
        let Some(before) = before else { continue };
        let SelectItem::UnnamedExpr(after) = item else { continue };
        if *after == before {
            continue;
        }
        let (name, _) = text_of(&before, is_of_one);
        let mut number = 2;
        while !taken.insert(format!("{name}{MARK}{number}")) {
            number += 1;
        }
        let expr = std::mem::replace(after, Expr::Identifier(Ident::new("")));
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("{name} {number}")) };
    }
    change(&mut select.group_by, &calls);
    select.having.iter_mut().for_each(|having| change(having, &calls));
    select.qualify.iter_mut().for_each(|qualify| change(qualify, &calls));
    keys.iter_mut().for_each(|key| change(&mut key.expr, &calls));
}

/// By text, the keys and aggregates that are not the first of their name, with how many calls tell the casts of each apart.
fn calls_of(select: &Select, keys: &[OrderByExpr]) -> HashMap<String, usize> {
    let mut found = Vec::new();
    if let GroupByExpr::Expressions(exprs, _) = &select.group_by {
        found.extend(exprs.iter().map(|key| key_of(key, select).clone()));
    }
    let mut aggregates = Aggregates(&mut found);
    let _ = visit(&select.projection, &mut aggregates);
    for condition in select.having.iter().chain(&select.qualify).chain(keys.iter().map(|key| &key.expr)) {
        let _ = visit(condition, &mut aggregates);
    }
    let is_of_one = is_of_one_table(select);
    // What casts nothing keeps its name.
    found.sort_by_key(|expr| contains(expr, is_cast));
    let (mut of_name, mut known) = (HashMap::new(), HashSet::new());
    let mut calls = HashMap::new();
    for expr in found {
        let text = expr.to_string();
        if !known.insert(text.clone()) {
            continue;
        }
        let times: &mut usize = of_name.entry(text_of(&expr, is_of_one).0).or_default();
        if *times > 0 && contains(&expr, is_cast) {
            calls.insert(text, *times);
        }
        *times += 1;
    }
    calls
}

/// What rows are grouped by: a number is that of an item, and a name may be one's.
fn key_of<'a>(key: &'a Expr, select: &'a Select) -> &'a Expr {
    let item = match key {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => {
                number.parse::<usize>().ok().and_then(|at| select.projection.get(at.checked_sub(1)?))
            }
            _ => None,
        },
        Expr::Identifier(name) => select
            .projection
            .iter()
            .find(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if name_of(alias) == name_of(name))),
        _ => None,
    };
    match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr,
        _ => key,
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { .. })
}

struct Aggregates<'a>(&'a mut Vec<Expr>);

impl Visitor for Aggregates<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && AGGREGATES.contains(&function.name.to_string().to_ascii_lowercase().as_str())
        {
            self.0.push(expr.clone());
        }
        ControlFlow::Continue(())
    }
}

fn change(part: &mut impl VisitMut, calls: &HashMap<String, usize>) {
    let _ = visit_mut(part, &mut Change(calls));
}

struct Change<'a>(&'a HashMap<String, usize>);

impl VisitorMut for Change<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(&times) = self.0.get(&expr.to_string()) {
            let _ = visit_mut(expr, &mut Call(times));
        }
        ControlFlow::Continue(())
    }
}

/// Calls all casts so many times.
struct Call(usize);

impl VisitorMut for Call {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_cast(expr) {
            for _ in 0..self.0 {
                let cast = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                *expr = call("coalesce", vec![cast]);
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::MARK;
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn casts_of_keys_and_aggregates_are_told_apart_where_they_must_be() {
        let told = |sql: &str| {
            let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
            query.to_string().replace(MARK, " ")
        };
        for (sql, wanted) in [
            (
                "SELECT avg(q), avg(q::INT) FROM t ORDER BY avg(q::INT)",
                "SELECT avg(q), avg(coalesce(q::INT)) AS \"avg(q) 2\" FROM t ORDER BY avg(coalesce(q::INT))",
            ),
            (
                "SELECT max(q::INT) FROM t HAVING max(q::TEXT) = '3' AND max(q) = 10",
                "SELECT max(coalesce(q::INT)) AS \"max(q) 2\" FROM t HAVING max(coalesce(coalesce(q::TEXT))) = '3' AND max(q) = 10",
            ),
            (
                "SELECT a::DATE, count(*) FROM t GROUP BY a, a::DATE",
                "SELECT coalesce(a::DATE) AS \"a 2\", count(*) FROM t GROUP BY a, coalesce(a::DATE)",
            ),
            ("SELECT a, a::DATE FROM t GROUP BY 1, 2", "SELECT a, coalesce(a::DATE) AS \"a 2\" FROM t GROUP BY 1, 2"),
        ] {
            assert_eq!(told(sql), wanted);
        }
        // One name each, or none that planning refuses.
        for sql in [
            "SELECT avg(q::INT), max(q) FROM t GROUP BY q::DATE",
            "SELECT sum(q), sum(q)::TEXT AS x FROM t",
            "SELECT abs(a), abs(b::INT) FROM t",
        ] {
            assert_eq!(told(sql), sql);
        }
    }
}
