//! Columns that are there under their table's name alone.

use super::{HIDDEN, tables_of};
use crate::names::name_of;
use crate::trees::merged_columns::expand::FromColumn;
use crate::trees::visit::visit_mut;
use sqlparser::ast::{Expr, Ident, Join, OrderByKind, Query, SelectItem, SetExpr, VisitorMut};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Says columns of these names, with their table's name before it, by the name that they have.
pub fn say_hidden(query: &mut Query, hidden: &[FromColumn]) {
    if !hidden.is_empty() {
        let _ = visit_mut(query, &mut Saying { hidden, own: Vec::new(), is_around: true });
    }
}

/// The same in what a join says.
pub fn say_hidden_in_join(join: &mut Join, hidden: &[FromColumn]) {
    if !hidden.is_empty() {
        let _ = visit_mut(join, &mut Saying { hidden, own: Vec::new(), is_around: false });
    }
}

struct Saying<'a> {
    hidden: &'a [FromColumn],
    /// The tables of each open query's own FROM.
    own: Vec<HashSet<String>>,
    /// Whether the next query is the one around, whose tables are those that the columns are of.
    is_around: bool,
}

impl VisitorMut for Saying<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut own = HashSet::new();
        if !std::mem::take(&mut self.is_around) {
            add_tables(&query.body, &mut own);
        }
        self.own.push(own);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.own.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
        let names: Vec<String> = parts.iter().map(name_of).collect();
        let [relation @ .., column] = names.as_slice() else { return ControlFlow::Continue(()) };
        let Some(table) = relation.last() else { return ControlFlow::Continue(()) };
        let is_hidden = |hidden: &FromColumn| hidden.name == *column && hidden.relation.ends_with(relation);
        if !self.own.iter().any(|own| own.contains(table))
            && self.hidden.iter().any(is_hidden)
            && let Some(last) = parts.last_mut()
        {
            *last = Ident::with_quote('"', format!("{column}{HIDDEN}"));
        }
        ControlFlow::Continue(())
    }
}

fn add_tables(body: &SetExpr, own: &mut HashSet<String>) {
    match body {
        SetExpr::Select(select) => own.extend(select.from.iter().flat_map(tables_of)),
        SetExpr::SetOperation { left, right, .. } => {
            add_tables(left, own);
            add_tables(right, own);
        }
        _ => {}
    }
}

/// ORDER BY says a column of the select list by its name alone, also one that is hidden in FROM: `SELECT b.k ... ORDER BY k`.
pub fn sort_by_hidden(query: &mut Query, hidden: &[FromColumn]) {
    let Query { body, order_by: Some(order), .. } = query else { return };
    let (SetExpr::Select(select), OrderByKind::Expressions(keys)) = (body.as_ref(), &mut order.kind) else { return };
    for key in keys {
        let Expr::Identifier(name) = &key.expr else { continue };
        let name = name_of(name);
        let of_item = select.projection.iter().find_map(|item| match item {
            SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(parts)) => {
                (parts.last().map(name_of).as_ref() == Some(&name)).then_some(expr)
            }
            _ => None,
        });
        let is_said = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => name_of(alias) == name,
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => name_of(ident) == name,
            _ => false,
        };
        if let Some(expr) = of_item
            && hidden.iter().any(|hidden| hidden.name == name)
            && !select.projection.iter().any(is_said)
        {
            key.expr = expr.clone();
        }
    }
}
