//! RETURNING of the tables beside the one that is changed: FROM of UPDATE, USING of DELETE, the source of MERGE.
//!
//! Invariants:
//! - The query that finds the rows gives all columns of these tables, too, behind its own. Before those of each table is
//!   a column under a name that says so; nothing else is known by its name.
//! - What RETURNING asks are rows in step: each table has a column with the row's number, by which they are joined.

use crate::queries::{binary, of, select_of};
use crate::{GIVEN, ROWS};
use alluvia_space::TableDef;
use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::changes::table_factor;
use alluvia_types::Result;
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};

/// What these tables are called in schema [`GIVEN`], in their order; there may be as many.
pub const BESIDE: [&str; 8] = ["beside1", "beside2", "beside3", "beside4", "beside5", "beside6", "beside7", "beside8"];

/// A table beside the one that is changed.
#[derive(Clone, Debug)]
pub struct Beside {
    /// What the statement calls it.
    pub alias: Ident,
    /// What it is called in schema [`GIVEN`].
    pub given: &'static str,
    /// Its columns.
    pub columns: Vec<String>,
}

/// What the column is called behind which those of a table come.
pub fn mark_of(table: usize) -> String {
    format!("columns of table {} beside", table + 1)
}

/// Has a query give all columns of these tables behind its own, whose names no table has then.
pub(crate) fn give_beside(select: &mut Select, tables: &[Ident]) {
    if tables.is_empty() {
        return;
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            *alias = Ident::with_quote('"', format!("changed column {}", at + 1));
        }
    }
    for (at, table) in tables.iter().enumerate() {
        let expr = Expr::Value(Value::Boolean(true).into());
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', mark_of(at)) });
        let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.clone()]));
        select.projection.push(SelectItem::QualifiedWildcard(name, WildcardAdditionalOptions::default()));
    }
}

/// The query of RETURNING, of which `given.rows` are the rows of the table that is called `alias`. All of the tables have
/// the row's number in a column of this name.
pub fn returning_beside_query(
    def: &TableDef,
    alias: &Ident,
    returning: &Query,
    tables: &[Beside],
    number: &str,
) -> Result<Box<Query>> {
    let mut query = Box::new(returning.clone());
    let select = select_of(&mut query)?;
    let target: Vec<String> = def.columns.iter().map(|column| column.name.clone()).collect();
    let mut known: Vec<(&Ident, &[String])> = vec![(alias, &target)];
    known.extend(tables.iter().map(|table| (&table.alias, table.columns.as_slice())));
    let mut items = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        match columns_of(&item, &known) {
            // Without a name of their own: columns of several tables may have the same.
            Some((table, columns)) => {
                items.extend(columns.iter().map(|name| SelectItem::UnnamedExpr(of(table, name))));
            }
            None => items.push(item),
        }
    }
    select.projection = items;
    let beside = |table: &Beside| {
        let same = binary(of(alias, number), BinaryOperator::Eq, of(&table.alias, number));
        let join_operator = JoinOperator::Inner(JoinConstraint::On(same));
        Join { relation: given(table.given, &table.alias), global: false, join_operator }
    };
    let joins = tables.iter().map(beside).collect();
    select.from = vec![TableWithJoins { relation: given(ROWS, alias), joins }];
    Ok(query)
}

/// The table of which an item is all columns.
fn columns_of<'a>(item: &SelectItem, tables: &[(&'a Ident, &'a [String])]) -> Option<(&'a Ident, &'a [String])> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) = item else {
        return None;
    };
    let [part] = name.0.as_slice() else { return None };
    let name = name_of(part.as_ident()?);
    let is_plain = *options == WildcardAdditionalOptions::default();
    tables.iter().find(|(table, _)| is_plain && name_of(table) == name).copied()
}

/// A given table.
fn given(name: &str, alias: &Ident) -> TableFactor {
    let alias = TableAlias { explicit: true, name: alias.clone(), columns: Vec::new(), at: None };
    table_factor(ObjectName::from(vec![Ident::new(GIVEN), Ident::new(name)]), Some(alias))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{kind, table, text};
    use crate::{UpdateQuery, delete_query, update_query};
    use alluvia_syntax::Kind;

    const PLAIN: &str = "CREATE TABLE t (a INT, b TEXT)";

    #[test]
    fn the_query_gives_the_tables_beside() {
        let def = table(PLAIN);
        let Kind::Update(update) = kind("UPDATE t SET a = u.x FROM u, v AS w RETURNING *") else { panic!("an UPDATE") };
        let UpdateQuery { query, .. } = update_query(&def, &update).unwrap();
        assert_eq!(
            text(&query),
            "SELECT u.x AS \"changed column 1\", t.\"b\" AS \"changed column 2\", t.\"row version\" AS \"changed column \
             3\", t.\"row ordinal\" AS \"changed column 4\", true AS \"columns of table 1 beside\", u.*, true AS \
             \"columns of table 2 beside\", w.* FROM given.target AS t, u, v AS w"
        );
        let beside = |alias: &str, given, column: &str| Beside {
            alias: Ident::new(alias),
            given,
            columns: vec![column.to_owned()],
        };
        let tables = [beside("u", BESIDE[0], "x"), beside("w", BESIDE[1], "a")];
        let returning = update.returning.as_ref().unwrap();
        assert_eq!(
            text(&returning_beside_query(&def, &update.alias, returning, &tables, "row number").unwrap()),
            "SELECT t.\"a\", t.\"b\", u.\"x\", w.\"a\" FROM given.rows AS t INNER JOIN given.beside1 AS u ON t.\"row \
             number\" = u.\"row number\" INNER JOIN given.beside2 AS w ON t.\"row number\" = w.\"row number\""
        );
        let Kind::Delete(delete) = kind("DELETE FROM t USING u RETURNING t.a, u.x") else { panic!("a DELETE") };
        let (query, ..) = delete_query(&def, &delete, true).unwrap();
        assert!(query.to_string().contains("true AS \"columns of table 1 beside\", u.* FROM"));
    }
}
