//! Walks over statements' syntax trees.
//!
//! - There is one walk over trees that are looked at, and one over trees that are changed: visitors are called through a table of their
//!   methods. `sqlparser`'s `visit` is generic over its visitor, and makes code for each kind of node anew for each of them, with a closure on a stack
//!   that grows: twenty visitors were three quarters of all code that the compiler saw of this crate. So nobody else calls it (`clippy.toml`).
//! - A walk ends at the first break, with its value.

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Shows a node and all that it consists of to a visitor.
pub fn visit<B>(node: &impl Visit, visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
    let mut keeping = Keeping { visitor, broke: None };
    #[allow(clippy::disallowed_methods)] // the one place
    let walked = node.visit(&mut Looking(&mut keeping));
    ended(walked, keeping.broke)
}

/// Lets a visitor change a node and all that it consists of.
pub fn visit_mut<B>(node: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    let mut keeping = KeepingMut { visitor, broke: None };
    #[allow(clippy::disallowed_methods)] // the one place
    let walked = node.visit(&mut Changing(&mut keeping));
    ended(walked, keeping.broke)
}

fn ended<B>(walked: ControlFlow<()>, broke: Option<B>) -> ControlFlow<B> {
    match (walked, broke) {
        (ControlFlow::Break(()), Some(value)) => ControlFlow::Break(value),
        _ => ControlFlow::Continue(()),
    }
}

/// The visitor of every walk over trees that are looked at.
struct Looking<'a>(&'a mut dyn Visitor<Break = ()>);

/// The visitor of every walk over trees that are changed.
struct Changing<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// A visitor that keeps what another broke off with, so that walks need not know of its type.
struct Keeping<'a, B> {
    visitor: &'a mut dyn Visitor<Break = B>,
    broke: Option<B>,
}

struct KeepingMut<'a, B> {
    visitor: &'a mut dyn VisitorMut<Break = B>,
    broke: Option<B>,
}

/// Methods that pass a node on to the next visitor; with `keeping` they keep what it broke off with.
macro_rules! pass {
    ($($method:ident: $node:ty),+ $(,)?) => {
        $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
            self.0.$method(node)
        })+
    };
    (keeping $($method:ident: $node:ty),+ $(,)?) => {
        $(fn $method(&mut self, node: $node) -> ControlFlow<()> {
            self.visitor.$method(node).map_break(|value| self.broke = Some(value))
        })+
    };
}

impl Visitor for Looking<'_> {
    type Break = ();

    pass! {
        pre_visit_query: &Query, post_visit_query: &Query, pre_visit_select: &Select, post_visit_select: &Select,
        pre_visit_relation: &ObjectName, post_visit_relation: &ObjectName, pre_visit_table_factor: &TableFactor,
        post_visit_table_factor: &TableFactor, pre_visit_expr: &Expr, post_visit_expr: &Expr,
        pre_visit_statement: &Statement, post_visit_statement: &Statement, pre_visit_value: &ValueWithSpan,
        post_visit_value: &ValueWithSpan,
    }
}

impl<B> Visitor for Keeping<'_, B> {
    type Break = ();

    pass! {
        keeping
        pre_visit_query: &Query, post_visit_query: &Query, pre_visit_select: &Select, post_visit_select: &Select,
        pre_visit_relation: &ObjectName, post_visit_relation: &ObjectName, pre_visit_table_factor: &TableFactor,
        post_visit_table_factor: &TableFactor, pre_visit_expr: &Expr, post_visit_expr: &Expr,
        pre_visit_statement: &Statement, post_visit_statement: &Statement, pre_visit_value: &ValueWithSpan,
        post_visit_value: &ValueWithSpan,
    }
}

impl VisitorMut for Changing<'_> {
    type Break = ();

    pass! {
        pre_visit_query: &mut Query, post_visit_query: &mut Query, pre_visit_select: &mut Select,
        post_visit_select: &mut Select, pre_visit_relation: &mut ObjectName, post_visit_relation: &mut ObjectName,
        pre_visit_table_factor: &mut TableFactor, post_visit_table_factor: &mut TableFactor,
        pre_visit_expr: &mut Expr, post_visit_expr: &mut Expr, pre_visit_statement: &mut Statement,
        post_visit_statement: &mut Statement, pre_visit_value: &mut ValueWithSpan, post_visit_value: &mut ValueWithSpan,
    }
}

impl<B> VisitorMut for KeepingMut<'_, B> {
    type Break = ();

    pass! {
        keeping
        pre_visit_query: &mut Query, post_visit_query: &mut Query, pre_visit_select: &mut Select,
        post_visit_select: &mut Select, pre_visit_relation: &mut ObjectName, post_visit_relation: &mut ObjectName,
        pre_visit_table_factor: &mut TableFactor, post_visit_table_factor: &mut TableFactor,
        pre_visit_expr: &mut Expr, post_visit_expr: &mut Expr, pre_visit_statement: &mut Statement,
        post_visit_statement: &mut Statement, pre_visit_value: &mut ValueWithSpan, post_visit_value: &mut ValueWithSpan,
    }
}
