//! Statements over a view of one table, as statements over that table.
//!
//! Invariants:
//! - Of such a view each column is one of the table's, perhaps under another name, and its rows are those that pass its conditions: then what a
//!   statement asks of the view is asked of the table, with these conditions beside its own.
//! - Refuses rather than errs: any other view is the planner's.

use super::predicate::conjunction;
use super::recognise::{Plain, Scope, plain_of, scope_of, select_alone};
use super::statement::{Condition, Group, Item, NamedView, Statement, Test};
use alluvia_catalog::{RelationName, ViewEntry};
use alluvia_syntax::names::name_of;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, SelectItem, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

/// What a view of one relation is.
#[derive(Clone, PartialEq, Debug)]
pub struct SimpleView {
    /// The relation, as the query names it: a table, or such a view again.
    pub relation: RelationName,
    /// The view's columns, and what they are called there.
    columns: Vec<(String, String)>,
    /// Over the relation's columns.
    conditions: Vec<Condition>,
}

impl SimpleView {
    /// The view of a query whose columns get these names; `None` for a query that is more. `columns_of` tells a relation's columns.
    pub fn of(
        query: &Query,
        names: &[String],
        columns_of: &dyn Fn(&RelationName) -> Option<Vec<String>>,
    ) -> Option<SimpleView> {
        let (select, None, None) = select_alone(query)? else { return None };
        let Plain { projection, from, selection, group_by, having: None } = plain_of(select)? else { return None };
        if !matches!(group_by, GroupByExpr::Expressions(groups, modifiers) if groups.is_empty() && modifiers.is_empty())
        {
            return None;
        }
        let (below, scope) = Below::of(from, columns_of)?;
        let mut columns = Vec::with_capacity(names.len());
        for item in projection {
            match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    columns.push(below.column(&scope.column(expr)?)?);
                }
                SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                    columns.extend(below.columns.iter().map(|(_, own)| own.clone()));
                }
                _ => return None,
            }
        }
        if columns.len() != names.len() {
            return None;
        }
        let own = match selection {
            None => Vec::new(),
            Some(selection) => conjunction(selection, &|expr: &Expr| scope.column(expr))?,
        };
        let mut conditions = below.conditions.clone();
        for condition in &own {
            conditions.push(condition.renamed(&|column| below.column(column))?);
        }
        let columns = names.iter().cloned().zip(columns).collect();
        Some(SimpleView { relation: below.relation, columns, conditions })
    }

    /// Whether a column of the relation is one of the view's under its name, and under no other, and the view does not look at it.
    pub fn leaves(&self, column: &str) -> bool {
        let of_column = self.columns.iter().filter(|(name, own)| name == column || own == column);
        let mut of_column = of_column.map(|(name, own)| name == own);
        of_column.next() == Some(true)
            && of_column.next().is_none()
            && !self.conditions.iter().any(|condition| condition.looks_at(column))
    }

    fn column(&self, name: &str) -> Option<String> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, own)| own.clone())
    }
}

/// What a query reads: a relation, or a query of one in brackets.
struct Below {
    relation: RelationName,
    columns: Vec<(String, String)>,
    conditions: Vec<Condition>,
}

impl Below {
    fn of(from: &TableWithJoins, columns_of: &dyn Fn(&RelationName) -> Option<Vec<String>>) -> Option<(Below, Scope)> {
        if let TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None } = &from.relation {
            if !from.joins.is_empty() || !alias.columns.is_empty() {
                return None;
            }
            let (select, ..) = select_alone(subquery)?;
            let named = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(name_of(ident)),
                SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
                _ => None,
            };
            let names = select.projection.iter().map(named).collect::<Option<Vec<_>>>()?;
            let SimpleView { relation, columns, conditions } = SimpleView::of(subquery, &names, columns_of)?;
            let scope = Scope { table: relation.clone(), qualifier: name_of(&alias.name) };
            return Some((Below { relation, columns, conditions }, scope));
        }
        let scope = scope_of(from)?;
        let columns = columns_of(&scope.table)?.into_iter().map(|name| (name.clone(), name)).collect();
        Some((Below { relation: scope.table.clone(), columns, conditions: Vec::new() }, scope))
    }

    fn column(&self, name: &str) -> Option<String> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, own)| own.clone())
    }
}

impl Statement {
    /// What a statement over a view asks of the view's relation; `None` where the planner must tell.
    pub fn through(&self, entry: &ViewEntry, view: &SimpleView) -> Option<Statement> {
        // Who is meant by a name that is a column's, too, is the planner's to say.
        if self.aliases.iter().any(|alias| view.column(alias).is_some()) {
            return None;
        }
        let column = |name: &str| view.column(name);
        let mut groups: Vec<Group> = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let group = match group {
                Group::Column(name) => Group::Column(column(name)?),
                Group::Truncated(unit, name) => Group::Truncated(unit.clone(), column(name)?),
                Group::TruncatedIn { unit, column: name, zone } => {
                    Group::TruncatedIn { unit: unit.clone(), column: column(name)?, zone: zone.clone() }
                }
            };
            // Two columns of the view may be one of the table.
            if groups.contains(&group) {
                return None;
            }
            groups.push(group);
        }
        let mut named =
            self.view.clone().unwrap_or_else(|| NamedView { name: self.table.clone(), defined: Vec::new() });
        named.defined.push((entry.def.id, entry.changed_at));
        let item = |item: &Item| {
            let renamed = |name: &Option<String>| match name {
                Some(name) => column(name).map(Some),
                None => Some(None),
            };
            Some(match item {
                Item::Group(place) => Item::Group(*place),
                Item::Aggregate(aggregate, name) => Item::Aggregate(*aggregate, renamed(name)?),
                Item::Sureness(sureness, aggregate, name) => Item::Sureness(*sureness, *aggregate, renamed(name)?),
            })
        };
        let items = self.items.iter().map(item).collect::<Option<_>>()?;
        let own = self.conditions.iter().map(|condition| condition.renamed(&column)).collect::<Option<Vec<_>>>()?;
        Some(Statement {
            table: view.relation.clone(),
            // The one that is named: what it reads is read by its owner's rights.
            view: Some(named),
            items,
            hidden: self.hidden.clone(),
            groups,
            aliases: Vec::new(),
            conditions: view.conditions.iter().cloned().chain(own).collect(),
            having: self.having.clone(),
            order: self.order.clone(),
            limit: self.limit,
            offset: self.offset,
        })
    }
}

impl Condition {
    fn looks_at(&self, column: &str) -> bool {
        match self {
            Condition::Column(name, _) => name == column,
            Condition::All(parts) | Condition::Any(parts) => parts.iter().any(|part| part.looks_at(column)),
        }
    }

    /// The same of columns with other names; `None` if one of them has none.
    fn renamed(&self, column: &dyn Fn(&str) -> Option<String>) -> Option<Condition> {
        let all = |parts: &[Condition]| parts.iter().map(|part| part.renamed(column)).collect::<Option<_>>();
        Some(match self {
            Condition::Column(name, test) => Condition::Column(column(name)?, test.renamed(column)?),
            Condition::All(parts) => Condition::All(all(parts)?),
            Condition::Any(parts) => Condition::Any(all(parts)?),
        })
    }
}

impl Test {
    fn renamed(&self, column: &dyn Fn(&str) -> Option<String>) -> Option<Test> {
        Some(match self {
            Test::Holds(predicate) => Test::Holds(predicate.renamed(column)?),
            Test::Not(test) => Test::Not(Box::new(test.renamed(column)?)),
            other => other.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;
    use alluvia_catalog::ViewDef;
    use alluvia_syntax::{Kind, parse};
    use alluvia_types::{TableId, Version};
    use std::sync::Arc;

    fn query(sql: &str) -> Box<Query> {
        match parse(sql).expect("parses").remove(0).kind {
            Kind::Query(query) => query,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn view(sql: &str, names: &[&str]) -> Option<SimpleView> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let columns = |_: &RelationName| Some(["a", "b", "c"].map(str::to_owned).to_vec());
        SimpleView::of(&query(sql), &names, &columns)
    }

    fn entry() -> ViewEntry {
        let def = ViewDef {
            id: TableId(7),
            schema: "public".to_owned(),
            name: "v".to_owned(),
            columns: Vec::new(),
            sql: String::new(),
            reads: Vec::new(),
        };
        ViewEntry { def: Arc::new(def), changed_at: Version(3) }
    }

    #[test]
    fn a_statement_over_a_view_is_one_over_its_table() {
        for (of, names, asked, same) in [
            (
                "SELECT * FROM public.t",
                vec!["a", "b", "c"],
                "SELECT sum(b) FROM v WHERE a = 'x'",
                "SELECT sum(b) FROM public.t WHERE a = 'x'",
            ),
            (
                "SELECT b AS x, t.a AS y FROM public.t WHERE c > 5",
                vec!["x", "y"],
                "SELECT y, max(x), count(*) FROM v AS w WHERE w.y LIKE 'l%' OR x = 1 GROUP BY y",
                "SELECT a, max(b), count(*) FROM public.t WHERE c > 5 AND (a LIKE 'l%' OR b = 1) GROUP BY a",
            ),
            (
                "SELECT u FROM (SELECT a AS u, b FROM public.t) AS t WHERE b = 2",
                vec!["k"],
                "SELECT count(k) FROM v",
                "SELECT count(a) FROM public.t WHERE b = 2",
            ),
        ] {
            let simple = view(of, &names).expect("is simple");
            let asked = recognise(&query(asked)).expect("is recognised");
            let through = asked.through(&entry(), &simple).expect("can be asked of the table");
            let wanted = recognise(&query(same)).expect("is recognised");
            assert_eq!(
                Statement { view: None, aliases: Vec::new(), ..through.clone() },
                Statement { aliases: Vec::new(), ..wanted }
            );
            let named = through.view.expect("names a view");
            assert_eq!((named.name, named.defined), (RelationName::bare("v"), vec![(TableId(7), Version(3))]));
        }
        let simple = view("SELECT a AS x, a AS y FROM t", &["x", "y"]).expect("is simple");
        let asked = |sql: &str| recognise(&query(sql)).expect("is recognised").through(&entry(), &simple);
        assert!(asked("SELECT x, count(*) FROM v GROUP BY x").is_some());
        assert!(asked("SELECT x, y, count(*) FROM v GROUP BY x, y").is_none(), "groups are one");
        assert!(asked("SELECT count(*) FROM v WHERE z = 1").is_none(), "has no such column");
    }

    #[test]
    fn any_other_view_is_the_planner_s() {
        for sql in [
            "SELECT a + 1 AS a FROM t",
            "SELECT a FROM t GROUP BY a",
            "SELECT DISTINCT a FROM t",
            "SELECT a FROM t LIMIT 5",
            "SELECT a FROM t ORDER BY a",
            "SELECT t.a FROM t, u",
            "SELECT a FROM t TABLESAMPLE BERNOULLI (1)",
            "SELECT a FROM t UNION ALL SELECT a FROM t",
            "WITH t AS (SELECT 1 AS a) SELECT a FROM t",
            "SELECT a FROM t WHERE random() < 0.5",
        ] {
            assert_eq!(view(sql, &["a"]), None, "{sql}");
        }
        let keyed = |sql: &str, names: &[&str]| view(sql, names).expect("is simple").leaves("a");
        assert!(keyed("SELECT a, b FROM t WHERE c > 1", &["a", "b"]));
        assert!(!keyed("SELECT a, b FROM t WHERE a > 1", &["a", "b"]));
        assert!(!keyed("SELECT b AS a, a AS b FROM t", &["a", "b"]));
        assert!(!keyed("SELECT a, a AS b FROM t", &["a", "b"]));
        assert!(!keyed("SELECT b FROM t", &["b"]));
    }
}
