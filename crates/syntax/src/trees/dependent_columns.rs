//! `SELECT w_id, w_name, sum(x) ... GROUP BY w_id`: columns of a table that is grouped by its whole primary key.
//!
//! For the binder, which will know what depends on what; until then a query that was refused for such a column is asked again with
//! the column among its groups, which makes no other groups.

use crate::names::{name_of, relation_name};
use crate::trees::visit::{visit, visit_mut};
use alluvia_catalog::RelationName;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    TableWithJoins, Visitor, VisitorMut,
};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// A table with a primary key.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The columns of its key.
    pub key: Vec<String>,
    /// All its columns.
    pub columns: Vec<String>,
}

/// Adds columns that depend on the groups of their SELECT to these groups; whether there were any. `keyed` knows tables with keys.
pub fn group(query: &mut Query, keyed: &dyn Fn(&RelationName) -> Option<Keyed>) -> bool {
    // A table is not meant where the query has given its name to something else.
    let within: Vec<String> = named_within(query);
    let known = |name: &RelationName| {
        let is_within = name.schema().is_none() && within.contains(&name.name);
        if is_within { None } else { keyed(name) }
    };
    let mut groups = Groups { keyed: &known, has_added: false };
    let ControlFlow::Continue(()) = visit_mut(query, &mut groups);
    groups.has_added
}

struct Groups<'a> {
    keyed: &'a dyn Fn(&RelationName) -> Option<Keyed>,
    has_added: bool,
}

impl VisitorMut for Groups<'_> {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let GroupByExpr::Expressions(groups, modifiers) = &select.group_by else { return ControlFlow::Continue(()) };
        if groups.is_empty() || !modifiers.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut added: Vec<Expr> = Vec::new();
        for (alias, table) in select.from.iter().flat_map(tables_of) {
            let Some(Keyed { key, columns }) = relation_name(table).ok().and_then(|name| (self.keyed)(&name)) else {
                continue;
            };
            let is_grouped = |column: &String| groups.iter().any(|group| is_column(group, &alias, column));
            if !key.iter().all(is_grouped) {
                continue;
            }
            let (mentioned, all) = (mentioned(select), is_whole(select, &alias));
            let rest = columns.iter().filter(|column| (all || mentioned.contains(*column)) && !is_grouped(column));
            added.extend(
                rest.map(|column| Expr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', column)])),
            );
        }
        self.has_added |= !added.is_empty();
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            groups.extend(added);
        }
        ControlFlow::Continue(())
    }
}

/// What FROM calls its tables.
fn tables_of(from: &TableWithJoins) -> Vec<(Ident, &ObjectName)> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    fn table(factor: &TableFactor) -> Option<(Ident, &ObjectName)> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        // Its columns may be called otherwise.
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return None;
        }
        let own = || name.0.last().and_then(|part| part.as_ident()).cloned();
        Some((alias.as_ref().map(|alias| alias.name.clone()).or_else(own)?, name))
    }
    factors.filter_map(table).collect()
}

/// What WITH names, anywhere in a query.
fn named_within(query: &Query) -> Vec<String> {
    #[derive(Default)]
    struct Within(Vec<String>);
    impl Visitor for Within {
        type Break = Infallible;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(tables.map(|table| name_of(&table.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let mut within = Within::default();
    let ControlFlow::Continue(()) = visit(query, &mut within);
    within.0
}

fn is_column(expr: &Expr, table: &Ident, column: &str) -> bool {
    match expr {
        Expr::Identifier(name) => name_of(name) == column,
        Expr::CompoundIdentifier(names) => match names.as_slice() {
            [of, name] => name_of(of) == name_of(table) && name_of(name) == column,
            _ => false,
        },
        _ => false,
    }
}

/// Whether a SELECT gives all columns of a table: `*` or `t.*`.
fn is_whole(select: &Select, table: &Ident) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::Wildcard(_) => true,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            name.0.last().and_then(|part| part.as_ident()).is_some_and(|of| name_of(of) == name_of(table))
        }
        _ => false,
    })
}

/// The last parts of all names in a SELECT.
fn mentioned(select: &Select) -> BTreeSet<String> {
    #[derive(Default)]
    struct Names(BTreeSet<String>);
    impl Visitor for Names {
        type Break = Infallible;

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Infallible> {
            let name = match expr {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(names) => names.last(),
                _ => None,
            };
            self.0.extend(name.map(name_of));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names::default();
    let ControlFlow::Continue(()) = visit(select, &mut names);
    names.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, parse};

    fn grouped(sql: &str) -> Option<String> {
        let Kind::Query(mut query) = parse(sql).unwrap().remove(0).kind else { panic!("a query: {sql}") };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let keyed = |name: &RelationName| {
            (name.name == "t").then(|| Keyed { key: names(&["a", "b"]), columns: names(&["a", "b", "c", "d"]) })
        };
        group(&mut query, &keyed).then(|| query.to_string())
    }

    #[test]
    fn a_whole_key_groups_the_columns_that_are_mentioned() {
        let all = grouped("SELECT a, b, c, sum(x) FROM u, t WHERE y = a GROUP BY a, t.b").unwrap();
        assert!(all.ends_with(r#"GROUP BY a, t.b, t."c""#), "{all}");
        let within = grouped("SELECT 1 FROM (SELECT s.d FROM t s GROUP BY b, a) q").unwrap();
        assert!(within.contains(r#"GROUP BY b, a, s."d""#), "{within}");
        let whole = grouped("SELECT s.*, count(y) FROM t s JOIN u ON true GROUP BY s.a, b").unwrap();
        assert!(whole.ends_with(r#"GROUP BY s.a, b, s."c", s."d""#), "{whole}");
        assert_eq!(grouped("SELECT u.*, count(a) FROM t, u GROUP BY t.a, t.b"), None, "all of another");
        assert_eq!(grouped("SELECT a, c FROM t GROUP BY a"), None, "a part of a key");
        assert_eq!(grouped("SELECT a, c FROM u GROUP BY a, b"), None, "no key is known");
        assert_eq!(grouped("SELECT a, b FROM t GROUP BY a, b"), None);
        assert_eq!(grouped("WITH t AS (SELECT 1) SELECT a, b, c FROM t GROUP BY a, b"), None, "another t");
        assert_eq!(
            grouped("SELECT a, b, c FROM t AS t(b, a, c) GROUP BY a, b"),
            None,
            "its columns are called otherwise"
        );
    }
}
