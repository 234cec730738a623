//! Replaces expressions of a query by others, and reads and makes calls of functions.
//!
//! Invariants:
//! - A column is called what its text says before anything is put into it: whoever changes expressions names the items that have them
//!   first ([`name_items`]).
//! - Parts are changed before what they are part of.

use super::visit::{visit, visit_mut};
use crate::names::name_of;
use alluvia_types::{Error, Result};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query,
    Select, SelectItem, TableAlias, TableFactor, Visit, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Changes expressions of a query, of which `finds` knows all that `change` may change.
pub fn rewrite(
    query: &mut Query,
    finds: fn(&Expr) -> bool,
    change: &mut dyn FnMut(&mut Expr) -> Result<()>,
) -> Result<()> {
    match visit_mut(query, &mut Rewrite { finds, change }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Whether any expression in a part of a tree is one of these.
pub fn contains(node: &impl Visit, finds: fn(&Expr) -> bool) -> bool {
    visit(node, &mut Find(finds)).is_break()
}

/// Names the items that have any of these expressions after their text, which is what they are called.
pub(crate) fn name_items(select: &mut Select, finds: fn(&Expr) -> bool) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && contains(expr, finds)
        {
            let alias = Ident::with_quote('"', expr.to_string());
            let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// A call of a function of this name.
pub fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    call_with(ObjectName::from(vec![Ident::new(name)]), args)
}

/// The same with arguments as they are written.
pub fn call_with(name: ObjectName, args: Vec<FunctionArg>) -> Expr {
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A call in FROM.
pub(crate) struct RowsCall<'a> {
    /// What it may be called with `pg_catalog`, too.
    pub name: String,
    pub arguments: Vec<Expr>,
    pub alias: &'a Option<TableAlias>,
    pub with_ordinality: bool,
    pub(crate) says_lateral: bool,
}

/// The call that a part of FROM is, if it has plain arguments and no clauses but those: others are left to be refused.
pub(crate) fn rows_call(factor: &TableFactor) -> Option<RowsCall<'_>> {
    let (name, arguments, alias, with_ordinality, says_lateral) = match factor {
        TableFactor::Function { lateral, name, args, with_ordinality, alias } => {
            (name, args, alias, *with_ordinality, *lateral)
        }
        TableFactor::Table {
            name,
            alias,
            args: Some(args),
            with_hints,
            version: None,
            with_ordinality,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } if args.settings.is_none() && with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
            (name, &args.args, alias, *with_ordinality, false)
        }
        _ => return None,
    };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let arguments = arguments.iter().map(plain).collect::<Option<_>>()?;
    Some(RowsCall { name: called(name)?, arguments, alias, with_ordinality, says_lateral })
}

/// The name of a function, which may be of `pg_catalog`.
fn called(name: &ObjectName) -> Option<String> {
    let part = match name.0.as_slice() {
        [part] => part,
        [schema, part] if name_of(schema.as_ident()?) == "pg_catalog" => part,
        _ => return None,
    };
    part.as_ident().map(name_of)
}

/// The name of a function, which may be of `pg_catalog`, and its plain arguments; `None` of any other call.
pub fn call_of(function: &Function) -> Option<(String, Vec<&Expr>)> {
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
    let name = called(name)?;
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

struct Rewrite<'a> {
    finds: fn(&Expr) -> bool,
    change: &'a mut dyn FnMut(&mut Expr) -> Result<()>,
}

impl VisitorMut for Rewrite<'_> {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        name_items(select, self.finds);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match (self.change)(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Breaks at the first that is found.
struct Find(fn(&Expr) -> bool);

impl Visitor for Find {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
