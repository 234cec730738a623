//! What a statement calls its tables and columns.

use alluvia_space::TableDef;
use alluvia_syntax::names::name_of;
use sqlparser::ast::{self, Ident};

/// A table of a statement, and what this calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) def: &'a TableDef,
    pub(crate) alias: &'a Ident,
}

/// A column: the place of its table in the statement, and its own in the definition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ColumnPlace {
    pub(crate) table: usize,
    pub(crate) column: usize,
}

/// The column that an expression is; `None` also of a name that two tables have.
pub(crate) fn column_of(expr: &ast::Expr, tables: &[Named<'_>]) -> Option<ColumnPlace> {
    let (table, name) = match expr {
        ast::Expr::Nested(inner) => return column_of(inner, tables),
        ast::Expr::Identifier(name) => (None, name),
        ast::Expr::CompoundIdentifier(names) => match names.as_slice() {
            [table, name] => (Some(name_of(table)), name),
            _ => return None,
        },
        _ => return None,
    };
    let name = name_of(name);
    let is_meant = |of: &Named<'_>| table.as_ref().is_none_or(|table| name_of(of.alias) == *table);
    let place = |(at, of): (usize, &Named<'_>)| {
        let column = of.def.columns.iter().position(|column| column.name == name)?;
        Some(ColumnPlace { table: at, column })
    };
    let mut found = tables.iter().enumerate().filter(|(_, of)| is_meant(of)).filter_map(place);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}
