//! Types of parameters that stand beside columns of the catalog.
//!
//! What can only be empty is left out before a query is planned, and with it what would say of which types its parameters are; names
//! of the catalog's columns say it, since there each means one thing.

use crate::definitions;
use crate::rewrite::parts;
use alluvia_catalog::PG_CATALOG;
use alluvia_syntax::names::name_of;
use alluvia_syntax::parameters::parameter;
use alluvia_syntax::trees::visit::visit;
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Visitor};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The types of the parameters of a query of the catalog that are compared with its columns, by their numbers.
pub fn compared(query: &Query) -> BTreeMap<usize, DataType> {
    let mut found = Compared::default();
    let _ = visit(query, &mut found);
    if found.is_of_catalog { found.types } else { BTreeMap::new() }
}

#[derive(Default)]
struct Compared {
    is_of_catalog: bool,
    types: BTreeMap<usize, DataType>,
}

impl Compared {
    fn note(&mut self, column: &Expr, value: &Expr) {
        let name = match column {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(path) => path.last(),
            _ => None,
        };
        let (Some(name), Some(number)) = (name.map(name_of), parameter(value)) else { return };
        let fields = definitions::all().values().flat_map(|definition| definition.schema.fields());
        if let Some(field) = fields.into_iter().find(|field| *field.name() == name) {
            self.types.entry(number).or_insert_with(|| field.data_type().clone());
        }
    }
}

impl Visitor for Compared {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.is_of_catalog |= match parts(relation).as_slice() {
            [.., schema, table] if schema == PG_CATALOG => definitions::find(PG_CATALOG, table).is_some(),
            [table] => definitions::find(PG_CATALOG, table).is_some(),
            _ => false,
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, right, .. } => {
                self.note(left, right);
                self.note(right, left);
            }
            Expr::InList { expr, list, .. } => list.iter().for_each(|value| self.note(expr, value)),
            Expr::Like { expr, pattern, .. } => self.note(expr, pattern),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::Kind;
    use alluvia_syntax::script::parse;

    fn types(sql: &str) -> Vec<(usize, DataType)> {
        let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
        compared(&query).into_iter().collect()
    }

    #[test]
    fn columns_of_the_catalog_say_what_is_compared_with_them() {
        assert_eq!(
            types("SELECT 1 FROM pg_catalog.pg_constraint con WHERE con.conrelid IN ($2, $3) AND conname LIKE $1"),
            [(1, DataType::Utf8View), (2, DataType::Int64), (3, DataType::Int64)]
        );
        assert_eq!(types("SELECT 1 FROM pg_attribute WHERE $1 < attnum"), [(1, DataType::Int16)]);
        assert_eq!(types("SELECT 1 FROM mine WHERE oid = $1"), []);
    }
}
