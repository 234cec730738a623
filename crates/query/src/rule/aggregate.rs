//! From an aggregate of a plan to a statement that the index may answer.
//!
//! Invariants:
//! - The statement's items are the aggregate's columns, in their order.
//! - An argument may be a column, or one widened as the planner widens it for that function, or as an integer is that is summed in 128
//!   bits: no other cast. A DATE that is cut to a unit is a moment before, as the planner has it.

use super::condition::{column_of, conditions_of};
use super::source::{Source, without_alias};
use super::times::date_of;
use crate::answer::{Aggregate as Function, Group, Item, Statement};
use alluvia_catalog::RelationName;
use alluvia_functions::aggregates::sum::WIDE;
use alluvia_space::{DataType, TableDef};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Cast};
use datafusion::logical_expr::{Aggregate, Expr};

/// What an aggregate asks of its table; `None` if the index cannot tell.
pub(super) fn statement_of(aggregate: &Aggregate, source: &Source) -> Option<Statement> {
    statement(&aggregate.group_expr, &aggregate.aggr_expr, source)
}

/// What groups and functions over a source's columns ask of its table; the statement's items are these, in their order.
pub(super) fn statement(group_by: &[Expr], functions: &[Expr], source: &Source) -> Option<Statement> {
    let def = &source.entry.def;
    let mut groups: Vec<Group> = Vec::with_capacity(group_by.len());
    let mut items = Vec::with_capacity(group_by.len() + functions.len());
    for expr in group_by {
        let group = group_of(&source.resolve(expr)?, def)?;
        // Two columns may be one of the table's under two names.
        let place = groups.iter().position(|known| *known == group).unwrap_or(groups.len());
        if place == groups.len() {
            groups.push(group);
        }
        items.push(Item::Group(place));
    }
    for expr in functions {
        items.push(item_of(without_alias(expr), source, def)?);
    }
    Some(Statement {
        table: RelationName::in_schema(def.schema.as_str(), def.name.as_str()),
        view: None,
        items,
        hidden: Vec::new(),
        groups,
        aliases: Vec::new(),
        conditions: conditions_of(&source.predicates, def)?,
        having: None,
        order: Vec::new(),
        limit: None,
        offset: 0,
    })
}

pub(super) fn group_of(expr: &Expr, def: &TableDef) -> Option<Group> {
    if let Some(column) = column_of(expr) {
        return Some(Group::Column(column));
    }
    let Truncation { unit, operand, zone } = truncation(expr)?;
    if let Some(zone) = zone {
        return Some(Group::TruncatedIn { unit, column: column_of(operand)?, zone });
    }
    let column = match operand {
        // The planner makes a date the moment at which it begins, which is of the same unit.
        Expr::Cast(Cast { field, .. }) if matches!(field.data_type(), ArrowType::Timestamp(_, None)) => {
            date_of(operand, def)
        }
        operand => column_of(operand),
    };
    Some(Group::Truncated(unit, column?))
}

/// `date_trunc('unit', operand)`, or `date_trunc('unit', operand, 'zone')`.
pub(super) struct Truncation<'a> {
    unit: String,
    pub(super) operand: &'a Expr,
    zone: Option<String>,
}

/// What a truncation is of.
pub(super) fn truncation(expr: &Expr) -> Option<Truncation<'_>> {
    let Expr::ScalarFunction(function) = expr else { return None };
    let (unit, operand, zone) = match (function.func.name(), function.args.as_slice()) {
        ("date_trunc", [Expr::Literal(unit, _), operand]) => (unit, operand, None),
        ("date_trunc", [Expr::Literal(unit, _), operand, Expr::Literal(zone, _)]) => {
            (unit, operand, Some(zone.try_as_str()??.to_owned()))
        }
        _ => return None,
    };
    Some(Truncation { unit: unit.try_as_str()??.to_ascii_lowercase(), operand, zone })
}

/// An aggregate's function and its arguments, where it has nothing else: no DISTINCT, FILTER, ORDER BY.
pub(super) fn plain_function(expr: &Expr) -> Option<(&AggregateFunction, Function)> {
    let Expr::AggregateFunction(call) = expr else { return None };
    let AggregateFunctionParams { args: _, distinct: false, filter: None, order_by, null_treatment: None } =
        &call.params
    else {
        return None;
    };
    let function = match call.func.name() {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Avg,
        "min" => Function::Min,
        "max" => Function::Max,
        "var" => Function::VarSample,
        "var_pop" => Function::VarPopulation,
        "stddev" => Function::StddevSample,
        "stddev_pop" => Function::StddevPopulation,
        _ => return None,
    };
    order_by.is_empty().then_some((call, function))
}

fn item_of(expr: &Expr, source: &Source, def: &TableDef) -> Option<Item> {
    let (call, function) = plain_function(expr)?;
    let [argument] = call.params.args.as_slice() else { return None };
    let argument = source.resolve(argument)?;
    if let Expr::Literal(value, _) = &argument {
        let counts_rows = function == Function::Count && !value.is_null();
        return counts_rows.then_some(Item::Aggregate(Function::Count, None));
    }
    let (name, widened) = match &argument {
        Expr::Cast(Cast { expr, field }) => (column_of(expr)?, Some(field.data_type())),
        plain => (column_of(plain)?, None),
    };
    let column = def.columns.iter().find(|column| column.name == name)?;
    let is_right = match (function, column.data_type) {
        (Function::Count | Function::Min | Function::Max, _) => widened.is_none(),
        (Function::Sum, DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            matches!(widened, None | Some(ArrowType::Int64 | ArrowType::Float64)) || widened == Some(&WIDE)
        }
        (Function::Sum, DataType::Decimal { .. } | DataType::Numeric) => widened.is_none(),
        // Decimals are averaged as decimals, by rules of the planner's.
        (_, DataType::Decimal { .. } | DataType::Numeric) => false,
        _ => matches!(widened, None | Some(ArrowType::Float64)),
    };
    is_right.then_some(Item::Aggregate(function, Some(name)))
}
