//! `tableoid`, the hidden column that says of which table a row is: `d.classoid = l.tableoid`.
//!
//! Invariant: in a query of the catalog it is the number of the table that its qualifier names, or of the only one there is. What a
//! statement itself calls so is meant where it is read.

use crate::constants::number_expr;
use crate::definitions;
use crate::relations::table_oid;
use crate::rewrite::{cast, catalog_table, parts};
use alluvia_catalog::RelationName;
use alluvia_catalog::authoriser::Authoriser;
use alluvia_syntax::names::name_of;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Select, TableFactor};

const TABLEOID: &str = "tableoid";

/// The tables of the SELECTs around what is visited, the innermost last: what each is called, and its number if it has one.
#[derive(Default)]
pub(crate) struct Tables(Vec<Vec<(String, Option<i64>)>>);

impl Tables {
    /// A SELECT begins.
    pub(crate) fn enter(&mut self, select: &Select, authoriser: &Authoriser) {
        let joined = |from: &datafusion::sql::sqlparser::ast::TableWithJoins| {
            let joins = from.joins.iter().map(|join| called(&join.relation, authoriser));
            std::iter::once(called(&from.relation, authoriser)).chain(joins).collect::<Vec<_>>()
        };
        self.0.push(select.from.iter().flat_map(joined).flatten().collect());
    }

    /// And ends.
    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }

    /// The number that an expression stands for, if it is the hidden column of a table that has one.
    pub(crate) fn number(&self, expr: &Expr) -> Option<Expr> {
        let number = match expr {
            Expr::Identifier(ident) if name_of(ident) == TABLEOID => match self.0.last()?.as_slice() {
                [(_, number)] => *number,
                _ => None,
            },
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [.., table, column] if name_of(column) == TABLEOID => {
                    let table = name_of(table);
                    let mut tables = self.0.iter().rev().flatten();
                    tables.find(|(name, _)| *name == table).and_then(|(_, number)| *number)
                }
                _ => None,
            },
            _ => None,
        };
        // A cast, since a number alone would be a position in ORDER BY.
        number.map(|number| cast(number_expr(number), DataType::BigInt(None)))
    }
}

/// What a part of FROM is called, and its number.
fn called(factor: &TableFactor, authoriser: &Authoriser) -> Option<(String, Option<i64>)> {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let mut written = parts(name);
            let last = written.pop()?;
            let mut of_users = || {
                let named = RelationName { schema: written.pop(), name: last.clone() };
                let entry = authoriser.catalog().found(&named, authoriser.path())?;
                let has_own = entry.def.columns.iter().any(|column| column.name == TABLEOID);
                (!has_own).then(|| table_oid(entry.def.id.0))
            };
            let number = match catalog_table(name, authoriser.catalog()) {
                Some((schema, table)) => definitions::find(schema, &table).map(|definition| definition.oid),
                None => of_users(),
            };
            Some((alias.as_ref().map_or(last, |alias| name_of(&alias.name)), number))
        }
        TableFactor::Derived { alias: Some(alias), .. } | TableFactor::Table { alias: Some(alias), .. } => {
            Some((name_of(&alias.name), None))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_catalog::authoriser::Who;
    use alluvia_syntax::Kind;
    use alluvia_syntax::script::parse;
    use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr};

    fn number(sql: &str) -> Option<String> {
        let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
        let SetExpr::Select(select) = *query.body else { panic!("a SELECT") };
        let mut tables = Tables::default();
        let asks = Authoriser::new(Who::embedded(), Default::default(), Default::default());
        tables.enter(&select, &asks);
        match &select.projection[0] {
            SelectItem::UnnamedExpr(expr) => tables.number(expr).map(|number| number.to_string()),
            _ => panic!("an item"),
        }
    }

    #[test]
    fn it_is_the_number_of_its_table() {
        let of_class = Some("CAST(1259 AS BIGINT)".to_owned());
        for sql in [
            "SELECT tableoid FROM pg_class",
            "SELECT c.tableoid FROM pg_catalog.pg_class c JOIN pg_namespace n ON true",
            "SELECT pg_class.tableoid FROM pg_class, pg_namespace",
        ] {
            assert_eq!(number(sql), of_class, "{sql}");
        }
        for sql in [
            "SELECT tableoid FROM pg_class, pg_namespace",
            "SELECT c.tableoid FROM (SELECT 1 AS tableoid) c",
            "SELECT c.oid FROM pg_class c",
            "SELECT tableoid FROM nowhere",
        ] {
            assert_eq!(number(sql), None, "{sql}");
        }
    }
}
