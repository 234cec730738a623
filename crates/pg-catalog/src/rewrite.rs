//! Queries of the catalog, from PostgreSQL's language to what is planned here.
//!
//! Invariants:
//! - A query that names nothing of the catalog is left as it is.
//! - Calls are [`calls`]' matter; what else stands in expressions is replaced here.
//! - What is left out can be seen to be empty, or false, by what the catalog never holds ([`facts`](crate::facts),
//!   [`empty`](crate::empty)).

mod calls;

use crate::constants::{Constant, is_of_catalog, number_expr};
use crate::context::{SettingsView, Viewer};
use crate::empty::one_row;
use crate::functions::PROCEDURE;
use crate::tableoid::Tables;
use crate::{defaults, definitions, distinct, factors, facts, fold, keys, reg, rights, versions};
use alluvia_catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG};
use alluvia_syntax::names::name_of;
use alluvia_syntax::statement::literal_text;
use alluvia_syntax::trees::rewriting::call;
use alluvia_syntax::trees::visit::visit;
use alluvia_syntax::trees::{array_subqueries, list_literals, qualified_wildcards};
use alluvia_syntax::visit_mut;
use alluvia_types::{Error, Result};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SetExpr, TableFactor, Value, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Brings a query of the catalog to what can be planned; gives whether it is one.
pub fn prepare<S: SettingsView>(query: &mut Query, viewer: &Viewer, settings: impl FnOnce() -> S) -> Result<bool> {
    let catalog: &Catalog = viewer.authoriser.catalog();
    let mut names = Names { catalog, found: false };
    let _ = visit(query, &mut names);
    if !names.found {
        return Ok(false);
    }
    let has_xmin = !versions::is_named(query);
    let (has_keys, shown) = (keys::are_there(catalog), defaults::Shown::of(catalog));
    let settings = settings();
    let (tables, depth) = (Tables::default(), 0);
    let mut rewrite = Rewrite { catalog, viewer, settings: &settings, has_xmin, has_keys, shown, tables, depth };
    match visit_mut(query, &mut rewrite) {
        ControlFlow::Continue(()) => Ok(true),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The parts of a name, lower case unless quoted.
pub(crate) fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(ObjectNamePart::as_ident).map(name_of).collect()
}

/// The schema and table of the catalog that a name means.
pub(crate) fn catalog_table(name: &ObjectName, catalog: &Catalog) -> Option<(&'static str, String)> {
    let parts = parts(name);
    match parts.as_slice() {
        [.., schema, table] if schema == PG_CATALOG => Some((PG_CATALOG, table.clone())),
        [.., schema, table] if schema == INFORMATION_SCHEMA => Some((INFORMATION_SCHEMA, table.clone())),
        [table] if table.starts_with("pg_") && catalog.table(table).is_err() => Some((PG_CATALOG, table.clone())),
        _ => None,
    }
}

/// Looks for names of the catalog.
struct Names<'a> {
    catalog: &'a Catalog,
    found: bool,
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.found |= catalog_table(relation, self.catalog).is_some();
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.found |= factors::called(factor).is_some_and(|name| is_of_catalog(&name));
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.found |= match expr {
            Expr::Function(function) => match parts(&function.name).as_slice() {
                [name] => is_of_catalog(name),
                [schema, _] => schema == PG_CATALOG,
                _ => false,
            },
            Expr::Cast { data_type, .. } => reg_type(data_type).is_some(),
            expr => is_current_role(expr),
        };
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A reserved word that the parser takes for a column.
fn is_current_role(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("current_role"))
}

/// The last part of a type's name, if it is one of PostgreSQL's that the parser has no word for.
fn custom_type(data_type: &ast::DataType) -> Option<String> {
    match data_type {
        ast::DataType::Custom(name, _) => parts(name).pop(),
        ast::DataType::Regclass => Some("regclass".to_owned()),
        _ => None,
    }
}

fn is_cast_to(expr: &Expr, data_type: &ast::DataType) -> bool {
    matches!(expr, Expr::Cast { data_type: of, .. } if of == data_type)
}

fn reg_type(data_type: &ast::DataType) -> Option<String> {
    let name = custom_type(data_type)?;
    matches!(
        name.as_str(),
        "regclass" | "regtype" | "regnamespace" | "regproc" | "regprocedure" | "regrole" | "oid" | "name"
    )
    .then_some(name)
}

pub(crate) struct Rewrite<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) viewer: &'a Viewer,
    settings: &'a dyn SettingsView,
    /// Whether `xmin` is the hidden column.
    has_xmin: bool,
    /// Whether there are keys, indexes or constraints.
    pub(crate) has_keys: bool,
    /// Which defaults and sequences are.
    pub(crate) shown: defaults::Shown,
    tables: Tables,
    /// Queries around what is visited.
    depth: usize,
}

impl VisitorMut for Rewrite<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        if self.empty_out(&mut query.body) && matches!(query.body.as_ref(), SetExpr::Select(_)) {
            query.order_by = None;
        }
        distinct::split(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.tables.leave();
        // Tables of the catalog have their schema by now.
        qualified_wildcards::qualify(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.tables.enter(select, &self.viewer.authoriser);
        factors::tell_apart(select);
        // Items keep the names that PostgreSQL gives them, whatever becomes of them.
        let mut seen: Vec<String> = Vec::new();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let Some(name) = item_name(expr) else { continue };
            let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                && !is_current_role(expr)
                && !versions::is_xmin(expr, self.catalog);
            if seen.contains(&name) || is_column {
                continue;
            }
            seen.push(name.clone());
            let expr = std::mem::replace(expr, Constant::Null.expr());
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                factors::rows_of_series(expr);
            }
        }
        // What a statement gives is shown: the name, also of what is known to be a number.
        if self.depth == 1 {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                    show_name(expr);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Error> {
        if let Some((schema, table)) = catalog_table(relation, self.catalog) {
            *relation = ObjectName::from(vec![Ident::new(schema), Ident::with_quote('"', table)]);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        factors::function(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            // Planning wants a subquery in an expression to be one row by its form.
            Expr::Subquery(query) => match (self.is_empty_query(query), self.of_nothing(query)) {
                (true, _) => *expr = cast(Constant::Null.expr(), ast::DataType::Text),
                (false, Some(known)) => *expr = known,
                (false, None) => one_row(query),
            },
            Expr::Exists { subquery, negated } | Expr::InSubquery { subquery, negated, .. } => {
                let is_known = self.is_empty_query(subquery);
                if is_known {
                    *expr = Constant::Truth(*negated).expr();
                }
            }
            // `'upper'::regproc::oid`, of what would be a text by then.
            Expr::Cast { expr: within, data_type, .. } if is_number_type(data_type) => {
                if let Expr::Cast { expr: named, data_type: of, .. } = within.as_mut()
                    && let Some(kind @ (reg::Kind::Procedure | reg::Kind::Signature)) =
                        reg_type(of).and_then(|name| reg::Kind::of_type(&name))
                {
                    let named = std::mem::replace(named.as_mut(), Constant::Null.expr());
                    if let Some((_, number)) = reg::number(&reg::cast_to(kind, named)) {
                        *expr = number;
                    }
                }
            }
            // `CAST($1::regclass AS regclass)` is the number that the one within is.
            Expr::Cast { expr: within, data_type, .. }
                if reg_type(data_type).is_some() && is_cast_to(within, data_type) =>
            {
                let within = std::mem::replace(within.as_mut(), Constant::Null.expr());
                *expr = within;
            }
            Expr::Case { .. } => facts::prune(expr, self.catalog),
            Expr::Function(function) if matches!(function.args, FunctionArguments::Subquery(_)) => {
                // ARRAY(SELECT ...)
                if let Some(known) = rights::memberships(function) {
                    *expr = known;
                } else if let FunctionArguments::Subquery(query) = &function.args
                    // What is recursive cannot look at the row around it.
                    && (self.is_empty_query(query) || query.with.as_ref().is_some_and(|with| with.recursive))
                {
                    *expr = Constant::Null.expr();
                } else if array_subqueries::expand(expr).is_err() {
                    // Tools go on without what they ask for in other forms.
                    *expr = Constant::Null.expr();
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match self.replaced(expr) {
            Ok(Some(replacement)) => *expr = replacement,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        fold::fold(expr);
        match list_literals::expand(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Rewrite<'_> {
    fn replaced(&self, expr: &mut Expr) -> Result<Option<Expr>> {
        if is_current_role(expr) {
            *expr = call("current_role", Vec::new());
        }
        if let Some(expanded) = keys::expanded(expr).or_else(|| keys::element_of_vector(expr)) {
            return Ok(Some(expanded));
        }
        if self.has_xmin && versions::is_xmin(expr, self.catalog) {
            return Ok(Some(versions::xmin(self.catalog)));
        }
        if let Some(number) = self.tables.number(expr) {
            return Ok(Some(number));
        }
        Ok(match expr {
            Expr::Function(function) => return self.function(function),
            Expr::BinaryOp { left, op, right } => {
                // `p.oid = t.typreceive` and `t.typreceive <> 0` compare numbers: the catalog's functions are kept by their names.
                if self.is_procedure(right) && (is_oid(left) || is_number(left)) {
                    **right = procedure_number(right);
                } else if self.is_procedure(left) && (is_oid(right) || is_number(right)) {
                    **left = procedure_number(left);
                }
                // And so does `oid::regtype <> 'trigger'::regtype`.
                reg::compare(left, op, right);
                if let BinaryOperator::PGCustomBinaryOperator(name) = op
                    && let Some(known) = name.last().and_then(|name| operator(name))
                {
                    *op = known;
                }
                None
            }
            Expr::InList { expr, list, .. } => {
                reg::compare_with_list(expr, list);
                None
            }
            Expr::Collate { expr, .. } => Some(std::mem::replace(expr.as_mut(), Constant::Null.expr())),
            Expr::Cast { expr: inner, data_type, .. } => {
                if let ast::DataType::Array(of) = data_type {
                    // Of the catalog's own some are texts, and none has elements.
                    return Ok(match fold::is_written(inner) || keys::is_planned_list(inner) {
                        true => {
                            fold::plain_elements(of);
                            None
                        }
                        false => Some(Constant::Null.expr()),
                    });
                }
                if is_number_type(data_type)
                    && let Some((_, number)) = reg::number(inner)
                {
                    return Ok(Some(number));
                }
                let Some(name) = custom_type(data_type) else { return Ok(None) };
                let literal = match inner.as_ref() {
                    Expr::Value(value) => match &value.value {
                        Value::SingleQuotedString(text) => Some(text.clone()),
                        _ => None,
                    },
                    _ => None,
                };
                let is_procedure = self.is_procedure(inner);
                let inner = std::mem::replace(inner.as_mut(), Constant::Null.expr());
                Some(match (name.as_str(), literal) {
                    ("oid", _) if is_procedure => procedure_number(&inner),
                    (name @ ("regclass" | "regtype" | "regnamespace" | "regrole"), Some(text)) => {
                        match reg::Kind::of_type(name) {
                            Some(kind) => number_expr(kind.number(self.viewer, &text)?),
                            None => inner,
                        }
                    }
                    // A column of the catalog that holds functions has their names.
                    ("regproc" | "regprocedure", None) if is_procedure => inner,
                    (name @ ("regclass" | "regtype" | "regnamespace" | "regproc" | "regprocedure" | "regrole"), _) => {
                        match reg::Kind::of_type(name) {
                            Some(kind) => reg::cast_to(kind, inner),
                            None => inner,
                        }
                    }
                    ("oid" | "xid", _) => cast(inner, ast::DataType::BigInt(None)),
                    ("int2", _) => cast(inner, ast::DataType::SmallInt(None)),
                    ("int4", _) => cast(inner, ast::DataType::Integer(None)),
                    ("int8", _) => cast(inner, ast::DataType::BigInt(None)),
                    ("bool", _) => cast(inner, ast::DataType::Boolean),
                    _ => cast(inner, ast::DataType::Text),
                })
            }
            _ => None,
        })
    }

    /// Whether an expression is a column of the catalog that holds functions.
    fn is_procedure(&self, expr: &Expr) -> bool {
        let column = match expr {
            Expr::Identifier(ident) => name_of(ident),
            Expr::CompoundIdentifier(path) => path.last().map(name_of).unwrap_or_default(),
            _ => return false,
        };
        let is_users = || self.catalog.tables().any(|entry| entry.def.columns.iter().any(|known| known.name == column));
        definitions::is_procedure(&column) && !is_users()
    }
}

/// The number of a function that is named.
fn procedure_number(named: &Expr) -> Expr {
    call(PROCEDURE, vec![named.clone()])
}

pub(crate) fn is_oid(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(ident) => name_of(ident) == "oid",
        Expr::CompoundIdentifier(path) => path.last().is_some_and(|ident| name_of(ident) == "oid"),
        _ => false,
    }
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// Whether a type is one of whole numbers.
fn is_number_type(data_type: &ast::DataType) -> bool {
    use ast::DataType::{BigInt, Int, Int4, Int8, Integer};
    matches!(data_type, BigInt(_) | Int(_) | Int4(_) | Int8(_) | Integer(_))
        || custom_type(data_type).is_some_and(|name| matches!(name.as_str(), "oid" | "int4" | "int8"))
}

/// Shows the name that a literal stands for, where it is cast to a number of the catalog: `SELECT 'pg_class'::regclass`.
fn show_name(expr: &mut Expr) {
    let Expr::Cast { expr: within, data_type, .. } = &*expr else { return };
    let Some(kind) = reg_type(data_type).and_then(|name| reg::Kind::of_type(&name)) else { return };
    if literal_text(uncast(within)).is_some() {
        *expr = reg::cast_to(kind, expr.clone());
    }
}

pub(crate) fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast { kind: ast::CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// What is within casts and brackets.
fn uncast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast { expr: inner, .. } | Expr::Nested(inner) => uncast(inner),
        expr => expr,
    }
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        _ => return None,
    })
}

/// The name that PostgreSQL gives to an item without one.
pub(crate) fn item_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(name_of(ident)),
        Expr::CompoundIdentifier(path) => path.last().map(name_of),
        Expr::Function(function) => parts(&function.name).pop(),
        Expr::Cast { expr, data_type, .. } => item_name(expr).or_else(|| custom_type(data_type)),
        Expr::Nested(inner) => item_name(inner),
        Expr::Collate { expr, .. } => item_name(expr),
        Expr::Case { .. } => Some("case".to_owned()),
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.as_slice() {
                [SelectItem::UnnamedExpr(expr)] => item_name(expr),
                [SelectItem::ExprWithAlias { alias, .. }] => Some(name_of(alias)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
