//! Calls of `thin(table, ...)` in FROM: the WHERE around a call is gathered into it.

use crate::names::name_of;
use crate::{query_of_table, visit_mut};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, Select, SetExpr, TableAlias, TableFactor,
    TableFunctionArgs, VisitorMut,
};
use std::ops::ControlFlow;

/// The function's name.
pub const THIN: &str = "thin";

/// How it is written.
const FORM: &str = "write FROM thin(table, max_rows => 1000) or FROM thin(table, fraction => 0.01)";

/// Whether a call of this name is meant.
pub fn is_call(name: &ObjectName) -> bool {
    match name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|ident| name_of(ident) == THIN),
        _ => false,
    }
}

/// A syntax error, with a hint that says how a call of `thin` is written.
pub fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Syntax, message).with_hint(FORM)
}

/// The error for a call of `thin` beside other tables in FROM.
pub fn alone() -> Error {
    not_supported("thin beside other tables").with_hint(
        "its WHERE says what is thinned: put SELECT * FROM thin(...) WHERE ... into a subquery, and join that",
    )
}

/// Gathers the WHERE of every SELECT from a call into the call.
pub fn gather(query: &mut Query) -> Result<()> {
    match visit_mut(query, &mut Gather) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Gather;

impl VisitorMut for Gather {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let factors = select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
        let is_thin = |factor: &TableFactor| match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => is_call(name),
            _ => false,
        };
        if !factors.into_iter().any(is_thin) {
            return ControlFlow::Continue(());
        }
        let gathered = match select.from.as_mut_slice() {
            [from] if from.joins.is_empty() => gather_one(&mut from.relation, &mut select.selection),
            _ => Err(alone()),
        };
        match gathered {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn gather_one(call: &mut TableFactor, condition: &mut Option<Expr>) -> Result<()> {
    let TableFactor::Table { args: Some(TableFunctionArgs { args, .. }), alias, .. } = call else {
        return Err(alone());
    };
    if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return Err(not_supported("thin with other names for its columns").with_hint("name them in the SELECT"));
    }
    let table: Vec<Ident> = match args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(table)))) => vec![table.clone()],
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(path)))) => path.clone(),
        _ => return Err(wrong("thin takes the name of a table first")),
    };
    let Some(last) = table.last().cloned() else { return Err(wrong("thin takes the name of a table first")) };
    let mut query = query_of_table(&ObjectName::from(table), &[])?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("SELECT * FROM t is not a SELECT"));
    };
    if let [from] = select.from.as_mut_slice()
        && let TableFactor::Table { alias: inner, .. } = &mut from.relation
    {
        *inner = alias.clone();
    }
    select.selection = condition.take();
    // Without an alias it goes by its table's name.
    alias.get_or_insert_with(|| TableAlias { explicit: true, name: last, columns: Vec::new(), at: None });
    args[0] = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(query)));
    Ok(())
}
