//! Recognising statements that the index can answer, from their trees.
//!
//! Invariant: refuses rather than errs. Every part of the tree is looked at; whatever is not understood, or might mean
//! something else to the planner, makes the statement one for the general way.

use super::declined::Declined;
use super::having::{Having, having_of};
use super::predicate::{conjunction, literal_of};
use super::statement::{Aggregate, Condition, Group, Item, Literal, Order, Statement};
use alluvia_catalog::{INFORMATION_SCHEMA, PG_CATALOG, RelationName, SYSTEM_SCHEMA};
use alluvia_syntax::Sureness;
use alluvia_syntax::names::name_of;
use alluvia_syntax::trees::rewriting::call_of;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, LimitClause, ObjectName, OrderBy, OrderByKind, Query, Select, SelectFlavor,
    SelectItem, SetExpr, TableFactor, Value,
};

/// The statement, if it is one that the index may answer; else why not.
pub fn recognise(query: &Query) -> Result<Statement, Declined> {
    let (select, order_by, limit) = select_alone(query).ok_or(Declined::NoSelect)?;
    let Parts { table, mut items, groups, aliases, conditions, having } = select_of(select)?;
    let order = match order_by {
        None => Vec::new(),
        Some(order_by) => order_of(order_by, &mut items, &groups, select).ok_or(Declined::Order)?,
    };
    let (limit, offset) = limit_of(limit).ok_or(Declined::Limit)?;
    let (all, hidden) = items.all();
    Ok(Statement { table, view: None, items: all, hidden, groups, aliases, conditions, having, order, limit, offset })
}

/// The SELECT of a query that is nothing more, its order and its limit.
pub fn select_alone(query: &Query) -> Option<(&Select, Option<&OrderBy>, Option<&LimitClause>)> {
    let Query {
        with: None,
        body,
        order_by,
        limit_clause,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    let SetExpr::Select(select) = body.as_ref() else { return None };
    let is_alone = locks.is_empty() && pipe_operators.is_empty();
    is_alone.then_some((select.as_ref(), order_by.as_ref(), limit_clause.as_ref()))
}

/// The table, the items, the groups and the conditions.
struct Parts {
    table: RelationName,
    items: Items,
    groups: Vec<Group>,
    aliases: Vec<String>,
    conditions: Vec<Condition>,
    having: Option<Having>,
}

/// What a statement tells or looks at.
struct Items {
    /// With their names.
    shown: Vec<(Item, Option<String>)>,
    /// As they were written.
    hidden: Vec<(Item, Expr)>,
}

impl Items {
    /// The place of an expression that is shown, or that will be looked at without being shown.
    fn place(&mut self, expr: &Expr, groups: &[Group], scope: &Scope) -> Option<usize> {
        let item = item_of(expr, groups, scope)?;
        let known = self.shown.iter().map(|(known, _)| known).chain(self.hidden.iter().map(|(known, _)| known));
        if let Some(place) = known.into_iter().position(|known| *known == item) {
            return Some(place);
        }
        // A name may be an item's and a column's; who is meant is the planner's to say.
        let column = match &item {
            Item::Group(at) => match &groups[*at] {
                Group::Column(column) | Group::Truncated(_, column) | Group::TruncatedIn { column, .. } => Some(column),
            },
            Item::Aggregate(_, column) | Item::Sureness(_, _, column) => column.as_ref(),
        };
        let is_own =
            |of: &Item, name: &String| matches!(of, Item::Group(at) if groups[*at] == Group::Column(name.clone()));
        let takes = |(of, name): &(Item, Option<String>)| {
            name.as_ref().is_some_and(|name| Some(name) == column && !is_own(of, name))
        };
        if self.shown.iter().any(takes) {
            return None;
        }
        self.hidden.push((item, expr.clone()));
        Some(self.shown.len() + self.hidden.len() - 1)
    }

    /// The only item of a name.
    fn named(&self, name: &String) -> Option<usize> {
        let mut named = self.shown.iter().enumerate().filter(|(_, (_, known))| known.as_ref() == Some(name));
        let (place, _) = named.next()?;
        named.next().is_none().then_some(place)
    }

    /// All of them in their places, and what is not shown.
    fn all(self) -> (Vec<Item>, Vec<Expr>) {
        let (more, hidden): (Vec<Item>, Vec<Expr>) = self.hidden.into_iter().unzip();
        (self.shown.into_iter().map(|(item, _)| item).chain(more).collect(), hidden)
    }
}

/// A group, or an aggregate.
fn item_of(expr: &Expr, groups: &[Group], scope: &Scope) -> Option<Item> {
    match group_of(expr, scope) {
        Some(group) => Some(Item::Group(groups.iter().position(|known| *known == group)?)),
        None => aggregate_of(expr, scope),
    }
}

/// The clauses of a SELECT that has no others.
pub(super) struct Plain<'a> {
    pub(super) projection: &'a [SelectItem],
    pub(super) from: &'a ast::TableWithJoins,
    pub(super) selection: Option<&'a Expr>,
    pub(super) group_by: &'a GroupByExpr,
    pub(super) having: Option<&'a Expr>,
}

/// The clauses of a SELECT from one place, if it has no others.
pub(super) fn plain_of(select: &Select) -> Option<Plain<'_>> {
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
        from,
        lateral_views,
        prewhere: None,
        selection,
        connect_by,
        group_by,
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
        return None;
    };
    let is_plain = optimizer_hints.is_empty()
        && lateral_views.is_empty()
        && connect_by.is_empty()
        && cluster_by.is_empty()
        && distribute_by.is_empty()
        && sort_by.is_empty()
        && named_window.is_empty();
    let ([from], true) = (from.as_slice(), is_plain) else { return None };
    Some(Plain { projection, from, selection: selection.as_ref(), group_by, having: having.as_ref() })
}

/// Why a SELECT has other clauses, or is not from one place.
fn not_plain(select: &Select) -> Declined {
    match (select.distinct.is_some(), select.from.len()) {
        (true, _) => Declined::Distinct,
        (false, 0) => Declined::NoTable,
        (false, 1) => Declined::Clause,
        (false, _) => Declined::Join,
    }
}

fn select_of(select: &Select) -> Result<Parts, Declined> {
    let Some(Plain { projection, from, selection, group_by, having }) = plain_of(select) else {
        return Err(not_plain(select));
    };
    let scope = scope_of(from).ok_or(if from.joins.is_empty() { Declined::Relation } else { Declined::Join })?;
    let conditions = match selection {
        None => Vec::new(),
        Some(selection) => conjunction(selection, &|expr| scope.column(expr)).ok_or(Declined::Condition)?,
    };
    let GroupByExpr::Expressions(expressions, modifiers) = group_by else { return Err(Declined::GroupingSets) };
    if !modifiers.is_empty() {
        return Err(Declined::GroupingSets);
    }
    let mut aliases = Vec::new();
    let groups: Vec<Group> = expressions
        .iter()
        .map(|expr| group_expression(expr, projection, &scope, &mut aliases))
        .collect::<Option<_>>()
        .ok_or(Declined::Group)?;
    let mut items = Vec::with_capacity(projection.len());
    for item in projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(name_of(alias))),
            _ => return Err(Declined::Item),
        };
        let item = item_of(expr, &groups, &scope).ok_or(Declined::Item)?;
        let name = alias.or_else(|| match expr {
            Expr::Identifier(ident) => Some(name_of(ident)),
            Expr::CompoundIdentifier(path) => path.last().map(name_of),
            _ => None,
        });
        items.push((item, name));
    }
    let mut items = Items { shown: items, hidden: Vec::new() };
    let having = match having {
        None => None,
        Some(having) => {
            let having = having_of(having, &mut |expr| match expr {
                Expr::Identifier(ident) => {
                    let name = name_of(ident);
                    let place = items.named(&name)?;
                    aliases.push(name);
                    Some(place)
                }
                other => items.place(other, &groups, &scope),
            });
            Some(having.ok_or(Declined::Having)?)
        }
    };
    // A query without an aggregate and without groups is a plain SELECT.
    let aggregates = items.shown.iter().any(|(item, _)| item.aggregate().is_some());
    let is_aggregate = aggregates || !groups.is_empty();
    match is_aggregate {
        true => Ok(Parts { table: scope.table, items, groups, aliases, conditions, having }),
        false => Err(Declined::NoAggregate),
    }
}

/// The one table, and what columns may be qualified with.
pub(super) struct Scope {
    pub(super) table: RelationName,
    pub(super) qualifier: String,
}

impl Scope {
    /// A column's name.
    pub(super) fn column(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Identifier(ident) => Some(name_of(ident)),
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [qualifier, column] if name_of(qualifier) == self.qualifier => Some(name_of(column)),
                _ => None,
            },
            Expr::Nested(inner) => self.column(inner),
            _ => None,
        }
    }
}

pub(super) fn scope_of(from: &ast::TableWithJoins) -> Option<Scope> {
    if !from.joins.is_empty() {
        return None;
    }
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = &from.relation
    else {
        return None;
    };
    if !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty() {
        return None;
    }
    let table = table_of(name)?;
    let qualifier = match alias {
        None => table.name.clone(),
        Some(alias) if alias.columns.is_empty() => name_of(&alias.name),
        Some(_) => return None,
    };
    Some(Scope { table, qualifier })
}

fn table_of(name: &ObjectName) -> Option<RelationName> {
    let parts: Vec<&Ident> = name.0.iter().map(|part| part.as_ident()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [table] => Some(RelationName::bare(name_of(table))),
        [schema, table] => {
            let named = RelationName::in_schema(name_of(schema), name_of(table));
            let is_system = matches!(named.schema(), Some(SYSTEM_SCHEMA | PG_CATALOG | INFORMATION_SCHEMA));
            (!is_system).then_some(named)
        }
        _ => None,
    }
}

/// A group, which may be written as the place or the alias of an item.
fn group_expression(expr: &Expr, projection: &[SelectItem], scope: &Scope, aliases: &mut Vec<String>) -> Option<Group> {
    if let Expr::Value(value) = expr {
        let Value::Number(place, false) = &value.value else { return None };
        let place = place.parse::<usize>().ok()?.checked_sub(1)?;
        return match projection.get(place)? {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => group_of(expr, scope),
            _ => None,
        };
    }
    // A name may be a column's or an alias's; where an alias hides another column, who is meant is the planner's to say.
    if let Expr::Identifier(ident) = expr {
        let name = name_of(ident);
        for item in projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && name_of(alias) == name
            {
                let group = group_of(expr, scope)?;
                if group != Group::Column(name.clone()) {
                    aliases.push(name);
                }
                return Some(group);
            }
        }
    }
    group_of(expr, scope)
}

fn group_of(expr: &Expr, scope: &Scope) -> Option<Group> {
    if let Some(column) = scope.column(expr) {
        return Some(Group::Column(column));
    }
    let Expr::Function(function) = expr else { return None };
    let (name, arguments) = call_of(function)?;
    match (name.as_str(), arguments.as_slice()) {
        ("date_trunc", [unit, column]) => {
            let Literal::Text(unit) = literal_of(unit)? else { return None };
            Some(Group::Truncated(unit.to_ascii_lowercase(), scope.column(column)?))
        }
        _ => None,
    }
}

fn aggregate_of(expr: &Expr, scope: &Scope) -> Option<Item> {
    let Expr::Function(function) = expr else { return None };
    let (name, arguments) = call_of(function)?;
    if let Some(sureness) = Sureness::of(&name) {
        let [argument] = arguments.as_slice() else { return None };
        return match aggregate_of(argument, scope)? {
            Item::Aggregate(aggregate @ (Aggregate::Count | Aggregate::Sum | Aggregate::Avg), column) => {
                Some(Item::Sureness(sureness, aggregate, column))
            }
            _ => None,
        };
    }
    let aggregate = match name.as_str() {
        "count" => Aggregate::Count,
        "sum" => Aggregate::Sum,
        "avg" | "mean" => Aggregate::Avg,
        "min" => Aggregate::Min,
        "max" => Aggregate::Max,
        "var" | "var_samp" | "var_sample" | "variance" => Aggregate::VarSample,
        "var_pop" | "var_population" => Aggregate::VarPopulation,
        "stddev" | "stddev_samp" => Aggregate::StddevSample,
        "stddev_pop" => Aggregate::StddevPopulation,
        _ => return None,
    };
    match arguments.as_slice() {
        [] if aggregate == Aggregate::Count => Some(Item::Aggregate(aggregate, None)),
        [Expr::Value(value)] if aggregate == Aggregate::Count && matches!(value.value, Value::Number(..)) => {
            Some(Item::Aggregate(aggregate, None))
        }
        [column] => Some(Item::Aggregate(aggregate, Some(scope.column(column)?))),
        _ => None,
    }
}

fn order_of(order_by: &ast::OrderBy, items: &mut Items, groups: &[Group], select: &Select) -> Option<Vec<Order>> {
    let ast::OrderBy { kind: OrderByKind::Expressions(expressions), interpolate: None } = order_by else {
        return None;
    };
    let scope = scope_of(select.from.first()?)?;
    expressions
        .iter()
        .map(|order| {
            if order.with_fill.is_some() {
                return None;
            }
            let item = order_item(&order.expr, items, groups, &scope)?;
            let descending = order.options.asc == Some(false);
            // As in PostgreSQL, NULL is the largest value.
            Some(Order { item, descending, nulls_first: order.options.nulls_first.unwrap_or(descending) })
        })
        .collect()
}

fn order_item(expr: &Expr, items: &mut Items, groups: &[Group], scope: &Scope) -> Option<usize> {
    if let Expr::Value(value) = expr {
        let Value::Number(place, false) = &value.value else { return None };
        return place.parse::<usize>().ok()?.checked_sub(1).filter(|&place| place < items.shown.len());
    }
    if let Expr::Identifier(ident) = expr {
        let name = name_of(ident);
        if items.shown.iter().any(|(_, known)| known.as_ref() == Some(&name)) {
            return items.named(&name);
        }
    }
    items.place(expr, groups, scope)
}

fn limit_of(clause: Option<&LimitClause>) -> Option<(Option<usize>, usize)> {
    let number = |expr: &Expr| match literal_of(expr)? {
        Literal::Number(text) => text.parse::<usize>().ok(),
        _ => None,
    };
    match clause {
        None => Some((None, 0)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            let limit = match limit {
                None => None,
                Some(limit) => Some(number(limit)?),
            };
            let offset = match offset {
                None => 0,
                Some(offset) => number(&offset.value)?,
            };
            Some((limit, offset))
        }
        Some(_) => None,
    }
}
