//! Queries about few rows of few tables, compiled: columns or aggregates of rows that are reached by keys, in an order, some of them.

use crate::access::{Step, order_of, steps};
use crate::condition::{Condition, is_compared};
use crate::expr::Expr;
use crate::names::{ColumnPlace, Named, column_of};
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_space::{DataType, TableDef};
use alluvia_syntax::MARK;
use alluvia_syntax::names::{name_of, relation_name};
use sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, JoinConstraint,
    JoinOperator, LimitClause, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
};
use std::sync::Arc;

/// Tables that one query reads at most.
const TABLES_MAX: usize = 4;

/// A compiled query.
#[derive(Clone, Debug)]
pub struct PointQuery {
    pub(crate) entries: Vec<Arc<TableEntry>>,
    names: Vec<RelationName>,
    pub(crate) steps: Vec<Step>,
    pub(crate) outputs: Vec<Output>,
    /// Columns whose values make a group, where there are groups: without any all rows are one.
    pub(crate) groups: Option<Vec<ColumnPlace>>,
    pub(crate) order: Vec<OrderKey>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) found_in: FoundIn,
}

/// In what order rows are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FoundIn {
    /// None that was asked for.
    AnyOrder,
    /// What is asked for: the index's.
    Order,
    /// What is asked for: the index's from its end.
    ReverseOrder,
}

/// A column of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) value: OutputValue,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OutputValue {
    Column(ColumnPlace),
    CountAll,
    /// Of a column; whether each value counts once.
    Count(ColumnPlace, bool),
    Sum(ColumnPlace),
    /// Whether it is the least.
    Extreme(ColumnPlace, bool),
}

/// What rows are ordered by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OrderKey {
    pub(crate) by: OutputValue,
    pub(crate) is_descending: bool,
}

/// The tables of a query, and what it calls them, if it may be one that is compiled.
pub fn query_tables(query: &Query) -> Option<Vec<(RelationName, Ident)>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    select.selection.as_ref()?;
    factors(select)?.into_iter().map(named).collect()
}

fn factors(select: &Select) -> Option<Vec<&TableFactor>> {
    let joined = select.from.iter().flat_map(|from| from.joins.iter().map(|join| &join.relation));
    let factors: Vec<&TableFactor> = select.from.iter().map(|from| &from.relation).chain(joined).collect();
    (1..=TABLES_MAX).contains(&factors.len()).then_some(factors)
}

fn named(factor: &TableFactor) -> Option<(RelationName, Ident)> {
    let TableFactor::Table { name, alias, args: None, sample: None, .. } = factor else { return None };
    // What it calls the columns is not what their definition does.
    if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return None;
    }
    let own = || name.0.last().and_then(|part| part.as_ident()).cloned();
    Some((relation_name(name).ok()?, alias.as_ref().map(|alias| alias.name.clone()).or_else(own)?))
}

impl PointQuery {
    /// Compiles a query of tables, which [`query_tables`] names; `None` of one that is planned. Where `is_shown` does not hold only its rows
    /// are wanted, whatever it shows of them.
    pub(crate) fn of(query: &Query, entries: &[Arc<TableEntry>], is_shown: bool) -> Option<PointQuery> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let called = query_tables(query)?;
        let defs: Vec<&TableDef> = entries.iter().map(|entry| entry.def.as_ref()).collect();
        if called.len() != defs.len() {
            return None;
        }
        let tables: Vec<Named<'_>> = called.iter().zip(&defs).map(|((_, alias), def)| Named { def, alias }).collect();
        let is_once =
            |of: &Named<'_>| tables.iter().filter(|other| name_of(other.alias) == name_of(of.alias)).count() == 1;
        if !tables.iter().all(is_once) || !has_nothing_else(query, select) {
            return None;
        }
        let mut conditions = Condition::of(select.selection.as_ref()?, &tables)?.all();
        let mut next = 0;
        for from in &select.from {
            let first = next;
            next += 1;
            for join in &from.joins {
                let (JoinOperator::Join(JoinConstraint::On(on)) | JoinOperator::Inner(JoinConstraint::On(on))) =
                    &join.join_operator
                else {
                    return None;
                };
                next += 1;
                let on = Condition::of(on, &tables)?;
                // It knows the tables that are joined by then, and none beside them.
                if on.reads_other_than(&|table| (first..next).contains(&table)) {
                    return None;
                }
                conditions.extend(on.all());
            }
        }
        if !conditions.iter().all(|condition| condition.reads_other_than(&|_| false)) {
            return None;
        }
        let outputs = if is_shown { outputs(select, &tables)? } else { Vec::new() };
        let groups = groups(select, &tables, &outputs)?;
        let order = order(query, &tables, &outputs, groups.is_some())?;
        let (limit, offset) = limits(query, &tables)?;
        let steps = steps(&defs, &conditions)?;
        let found_in = follows_index(&defs, &steps, &order, groups.is_some());
        let names = called.into_iter().map(|(name, _)| name).collect();
        Some(PointQuery { entries: entries.to_vec(), names, steps, outputs, groups, order, limit, offset, found_in })
    }

    /// The tables, by the definitions that it was compiled for.
    pub fn entries(&self) -> &[Arc<TableEntry>] {
        &self.entries
    }

    /// What it calls the tables.
    pub fn tables(&self) -> &[RelationName] {
        &self.names
    }

    /// Whether the types of its answer are those of a plan, which must be known.
    pub fn is_computed(&self) -> bool {
        self.groups.is_some()
    }

    /// Where columns of the answer come from, and their names: the place of the table, and of the column.
    pub fn shown(&self) -> impl Iterator<Item = (Option<(usize, usize)>, &str)> {
        self.outputs.iter().map(|output| match output.value {
            OutputValue::Column(place) => (Some((place.table, place.column)), output.name.as_str()),
            _ => (None, output.name.as_str()),
        })
    }
}

/// Whether a query has nothing but what is looked at: whatever else it has shows in its text.
fn has_nothing_else(query: &Query, select: &Select) -> bool {
    let list = |items: Vec<String>| items.join(", ");
    let mut text = format!(
        "SELECT {} FROM {}",
        list(select.projection.iter().map(ToString::to_string).collect()),
        list(select.from.iter().map(ToString::to_string).collect()),
    );
    if let Some(condition) = &select.selection {
        text += &format!(" WHERE {condition}");
    }
    match &select.group_by {
        GroupByExpr::Expressions(by, modifiers) if modifiers.is_empty() => {
            if !by.is_empty() {
                text += &format!(" GROUP BY {}", list(by.iter().map(ToString::to_string).collect()));
            }
        }
        _ => return false,
    }
    if let Some(order) = &query.order_by {
        text += &format!(" {order}");
    }
    if let Some(limit) = &query.limit_clause {
        text += &limit.to_string();
    }
    query.to_string() == text
}

fn outputs(select: &Select, tables: &[Named<'_>]) -> Option<Vec<Output>> {
    let mut outputs = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(name_of(alias))),
            _ => return None,
        };
        let value = output(expr, tables)?;
        let own = || match &value {
            OutputValue::Column(place) => column_name(tables, *place),
            _ => Some(String::new()),
        };
        let name = match alias {
            Some(alias) => alias,
            None => own()?,
        };
        let is_column = matches!(value, OutputValue::Column(_));
        if is_column && name.contains(MARK) {
            return None;
        }
        outputs.push(Output { name, value });
    }
    (!outputs.is_empty()).then_some(outputs)
}

fn column_name(tables: &[Named<'_>], place: ColumnPlace) -> Option<String> {
    Some(tables.get(place.table)?.def.columns.get(place.column)?.name.clone())
}

fn output(expr: &ast::Expr, tables: &[Named<'_>]) -> Option<OutputValue> {
    if let Some(place) = column_of(expr, tables) {
        return Some(OutputValue::Column(place));
    }
    let ast::Expr::Nested(inner) = expr else { return aggregate(expr, tables) };
    output(inner, tables)
}

fn aggregate(expr: &ast::Expr, tables: &[Named<'_>]) -> Option<OutputValue> {
    let ast::Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return None };
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let distinct = if is_distinct { "DISTINCT " } else { "" };
    // Whatever else it has shows in its text.
    let name = function.name.to_string();
    if function.to_string() != format!("{name}({distinct}{argument})") {
        return None;
    }
    let column = match argument {
        FunctionArgExpr::Wildcard if name.eq_ignore_ascii_case("count") && !is_distinct => {
            return Some(OutputValue::CountAll);
        }
        FunctionArgExpr::Expr(expr) => column_of(expr, tables)?,
        _ => return None,
    };
    let data_type = tables.get(column.table)?.def.columns.get(column.column)?.data_type;
    let is_number = matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal { .. });
    match name.to_ascii_lowercase().as_str() {
        _ if !is_compared(data_type) => None,
        "count" => Some(OutputValue::Count(column, is_distinct)),
        "sum" if is_number && !is_distinct => Some(OutputValue::Sum(column)),
        "min" | "max" if data_type == DataType::Boolean => None,
        "min" => Some(OutputValue::Extreme(column, true)),
        "max" => Some(OutputValue::Extreme(column, false)),
        _ => None,
    }
}

/// The columns that make groups; inside, `None` where there are none, and `None` of what is planned.
fn groups(select: &Select, tables: &[Named<'_>], outputs: &[Output]) -> Option<Option<Vec<ColumnPlace>>> {
    let GroupByExpr::Expressions(by, _) = &select.group_by else { return None };
    let is_aggregate = |output: &Output| !matches!(output.value, OutputValue::Column(_));
    if by.is_empty() && !outputs.iter().any(is_aggregate) {
        return Some(None);
    }
    let columns = by.iter().map(|expr| column_of(expr, tables)).collect::<Option<Vec<_>>>()?;
    let is_known = |output: &Output| match &output.value {
        OutputValue::Column(place) => columns.contains(place),
        _ => true,
    };
    let may_group = |place: &ColumnPlace| {
        let column = tables.get(place.table).and_then(|of| of.def.columns.get(place.column));
        column.is_some_and(|column| is_compared(column.data_type))
    };
    (outputs.iter().all(is_known) && columns.iter().all(may_group)).then_some(Some(columns))
}

fn order(query: &Query, tables: &[Named<'_>], outputs: &[Output], is_grouped: bool) -> Option<Vec<OrderKey>> {
    let Some(order) = &query.order_by else { return Some(Vec::new()) };
    let (OrderByKind::Expressions(keys), None) = (&order.kind, &order.interpolate) else { return None };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        if key.with_fill.is_some() || key.options.nulls_first.is_some() {
            return None;
        }
        // A name is first that of a column of the answer.
        let named = match &key.expr {
            ast::Expr::Identifier(name) => outputs.iter().find(|output| output.name == name_of(name)),
            _ => None,
        };
        let by = match named {
            Some(output) => output.value.clone(),
            None => OutputValue::Column(column_of(&key.expr, tables)?),
        };
        if let OutputValue::Column(place) = &by {
            let column = tables.get(place.table)?.def.columns.get(place.column)?;
            if !is_compared(column.data_type) {
                return None;
            }
        }
        // Of groups only what they show.
        if is_grouped && !outputs.iter().any(|output| output.value == by) {
            return None;
        }
        found.push(OrderKey { by, is_descending: key.options.asc == Some(false) });
    }
    Some(found)
}

fn limits(query: &Query, tables: &[Named<'_>]) -> Option<(Option<Expr>, Option<Expr>)> {
    let constant = |expr: &ast::Expr| match Expr::of(expr, tables)? {
        constant @ (Expr::Constant(_) | Expr::Parameter(_)) => Some(constant),
        _ => None,
    };
    match &query.limit_clause {
        None => Some((None, None)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            let limit = match limit {
                None => None,
                Some(limit) => Some(constant(limit)?),
            };
            let offset = match offset {
                None => None,
                Some(offset) => Some(constant(&offset.value)?),
            };
            Some((limit, offset))
        }
        Some(_) => None,
    }
}

/// Whether rows are found in the order that is asked for. Only the primary key's index has a row once, whatever became of it.
fn follows_index(defs: &[&TableDef], steps: &[Step], order: &[OrderKey], is_grouped: bool) -> FoundIn {
    let ([def], [step], [first, ..], false) = (defs, steps, order, is_grouped) else { return FoundIn::AnyOrder };
    if step.ways.len() != 1 || def.key_columns().as_ref() != Some(&step.index) {
        return FoundIn::AnyOrder;
    }
    let mut columns = order_of(step);
    let mut is_next = |key: &OrderKey| {
        let place = columns.next().map(OutputValue::Column);
        key.is_descending == first.is_descending && place.as_ref() == Some(&key.by)
    };
    match (order.iter().all(&mut is_next), first.is_descending) {
        (false, _) => FoundIn::AnyOrder,
        (true, false) => FoundIn::Order,
        (true, true) => FoundIn::ReverseOrder,
    }
}
