//! Recognising statements that the index can answer, from their trees.
//!
//! Invariant: refuses rather than errs. Every part of the tree is looked at; whatever is not understood, or might mean
//! something else to the planner, makes the statement one for the general way.

use super::predicate::{conjunction, literal_of};
use super::statement::{Aggregate, Condition, Group, Item, Literal, Order, Statement};
use crate::dialect::Sureness;
use crate::dialect::names::{PUBLIC, name_of};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, LimitClause, ObjectName,
    OrderByKind, Query, Select, SelectFlavor, SelectItem, SetExpr, TableFactor, Value,
};

/// The statement, if it is one that the index may answer.
pub(crate) fn recognise(query: &Query) -> Option<Statement> {
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
    if !locks.is_empty() || !pipe_operators.is_empty() {
        return None;
    }
    let Parts { table, items, groups, aliases, conditions } = select_of(select)?;
    let order = match order_by {
        None => Vec::new(),
        Some(order_by) => order_of(order_by, &items, &groups, select)?,
    };
    let (limit, offset) = limit_of(limit_clause.as_ref())?;
    Some(Statement {
        table,
        items: items.into_iter().map(|(item, _)| item).collect(),
        groups,
        aliases,
        conditions,
        order,
        limit,
        offset,
    })
}

/// The table, the items with their names, the groups and the conditions.
struct Parts {
    table: String,
    items: Vec<(Item, Option<String>)>,
    groups: Vec<Group>,
    aliases: Vec<String>,
    conditions: Vec<Condition>,
}

fn select_of(select: &Select) -> Option<Parts> {
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
        having: None,
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
    let scope = scope_of(from)?;
    let conditions = match selection {
        None => Vec::new(),
        Some(selection) => conjunction(selection, &|expr| scope.column(expr))?,
    };
    let GroupByExpr::Expressions(expressions, modifiers) = group_by else { return None };
    if !modifiers.is_empty() {
        return None;
    }
    let mut aliases = Vec::new();
    let groups: Vec<Group> = expressions
        .iter()
        .map(|expr| group_expression(expr, projection, &scope, &mut aliases))
        .collect::<Option<_>>()?;
    let mut items = Vec::with_capacity(projection.len());
    for item in projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(name_of(alias))),
            _ => return None,
        };
        let item = match group_of(expr, &scope) {
            Some(group) => Item::Group(groups.iter().position(|known| *known == group)?),
            None => aggregate_of(expr, &scope)?,
        };
        let name = alias.or_else(|| match expr {
            Expr::Identifier(ident) => Some(name_of(ident)),
            Expr::CompoundIdentifier(path) => path.last().map(name_of),
            _ => None,
        });
        items.push((item, name));
    }
    // A query without an aggregate and without groups is a plain SELECT.
    let aggregates = items.iter().any(|(item, _)| item.aggregate().is_some());
    (aggregates || !groups.is_empty()).then_some(Parts { table: scope.table, items, groups, aliases, conditions })
}

/// The one table, and what columns may be qualified with.
struct Scope {
    table: String,
    qualifier: String,
}

impl Scope {
    /// A column's name.
    fn column(&self, expr: &Expr) -> Option<String> {
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

fn scope_of(from: &ast::TableWithJoins) -> Option<Scope> {
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
        None => table.clone(),
        Some(alias) if alias.columns.is_empty() => name_of(&alias.name),
        Some(_) => return None,
    };
    Some(Scope { table, qualifier })
}

fn table_of(name: &ObjectName) -> Option<String> {
    let parts: Vec<&Ident> = name.0.iter().map(|part| part.as_ident()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [table] => Some(name_of(table)),
        [schema, table] if name_of(schema) == PUBLIC => Some(name_of(table)),
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

/// A function's name and its plain arguments.
fn call_of(function: &Function) -> Option<(String, Vec<&Expr>)> {
    let Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group,
    } = function
    else {
        return None;
    };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() || !within_group.is_empty() {
        return None;
    }
    let [part] = name.0.as_slice() else { return None };
    let name = name_of(part.as_ident()?);
    let mut arguments = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => arguments.push(expr),
            // count(*) has no argument.
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" && list.args.len() == 1 => {}
            _ => return None,
        }
    }
    Some((name, arguments))
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

fn order_of(
    order_by: &ast::OrderBy,
    items: &[(Item, Option<String>)],
    groups: &[Group],
    select: &Select,
) -> Option<Vec<Order>> {
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

fn order_item(expr: &Expr, items: &[(Item, Option<String>)], groups: &[Group], scope: &Scope) -> Option<usize> {
    if let Expr::Value(value) = expr {
        let Value::Number(place, false) = &value.value else { return None };
        return place.parse::<usize>().ok()?.checked_sub(1).filter(|&place| place < items.len());
    }
    if let Expr::Identifier(ident) = expr {
        let name = name_of(ident);
        let mut named = items.iter().enumerate().filter(|(_, (_, known))| known.as_ref() == Some(&name));
        if let Some((place, _)) = named.next() {
            return named.next().is_none().then_some(place);
        }
    }
    let item = match group_of(expr, scope) {
        Some(group) => Item::Group(groups.iter().position(|known| *known == group)?),
        None => aggregate_of(expr, scope)?,
    };
    items.iter().position(|(known, _)| *known == item)
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
