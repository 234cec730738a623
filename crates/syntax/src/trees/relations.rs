//! The relations that a query names, and where: for views, whose queries are kept as they are written and bound to what they name.
//!
//! Invariant: a name that a WITH around it defines is no relation's.

use super::visit::visit;
use crate::names::{name_of, user_table};
use alluvia_catalog::{NameKind, RelationName};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Visitor,
};
use sqlparser::tokenizer::Span;
use std::ops::ControlFlow;

/// A name in a query.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Named {
    /// What it names.
    pub(crate) name: RelationName,
    /// Where it is written.
    pub(crate) span: Span,
    /// What it stands for there.
    pub(crate) kind: NameKind,
    /// Whether a sample is drawn of it.
    pub(crate) is_sampled: bool,
}

/// The names of a query as the parser gave it; refused where it does what no view may.
pub(crate) fn named(query: &Query) -> Result<Vec<Named>> {
    let mut names = Names::default();
    match visit(query, &mut names) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(names.found),
    }
}

/// A query around: what its WITH defines, and how much of that the walk has come through.
struct Around {
    defined: Vec<String>,
    is_recursive: bool,
    behind: usize,
}

impl Around {
    /// Whether a name is one of its own where the walk is: a part of WITH knows those before it.
    fn defines(&self, name: &str) -> bool {
        let known = if self.is_recursive { self.defined.len() } else { self.behind };
        self.defined[..known].iter().any(|defined| defined == name)
    }
}

#[derive(Default)]
struct Names {
    around: Vec<Around>,
    found: Vec<Named>,
}

impl Names {
    /// `s.t` before a column, or before `*`.
    fn qualifier(&mut self, parts: &[&Ident]) {
        let ([schema, table] | [_, schema, table]) = parts else { return };
        let name = RelationName::in_schema(name_of(schema), name_of(table));
        let span = Span::new(parts[0].span.start, table.span.end);
        self.found.push(Named { name, span, kind: NameKind::Qualifier, is_sampled: false });
    }
}

fn parts(name: &ObjectName) -> Vec<&Ident> {
    name.0.iter().filter_map(|part| part.as_ident()).collect()
}

impl Visitor for Names {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        if matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)) {
            let message = "views must not contain data-modifying statements in WITH";
            return ControlFlow::Break(Error::new(ErrorKind::NotSupported, message));
        }
        let with = query.with.as_ref();
        let defined = with.iter().flat_map(|with| &with.cte_tables).map(|cte| name_of(&cte.alias.name)).collect();
        self.around.push(Around { defined, is_recursive: with.is_some_and(|with| with.recursive), behind: 0 });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.around.pop();
        if let Some(around) = self.around.last_mut()
            && around.behind < around.defined.len()
        {
            around.behind += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        if select.into.is_some() {
            let refused = Error::new(ErrorKind::NotSupported, "views must not contain SELECT INTO");
            return ControlFlow::Break(refused.with_hint("leave INTO out"));
        }
        for item in &select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
                self.qualifier(&parts(name));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        if let Expr::CompoundIdentifier(idents) = expr
            && let Some((_, before)) = idents.split_last()
        {
            self.qualifier(&before.iter().collect::<Vec<_>>());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table { name, alias, args, sample, .. } = factor else { return ControlFlow::Continue(()) };
        if args.is_some() {
            if crate::sample::thin::is_call(name) {
                let refused = not_supported("thin(...) in a view");
                return ControlFlow::Break(refused.with_hint("write TABLESAMPLE BERNOULLI (1) behind the table"));
            }
            return ControlFlow::Continue(());
        }
        let written = parts(name);
        let (Some(first), Some(last)) = (written.first(), written.last()) else { return ControlFlow::Continue(()) };
        if written.len() == 1 && self.around.iter().any(|around| around.defines(&name_of(first))) {
            return ControlFlow::Continue(());
        }
        let named = match user_table(name) {
            Ok(named) => named,
            Err(error) => return ControlFlow::Break(error),
        };
        let kind = if alias.is_some() { NameKind::Aliased } else { NameKind::Relation };
        let span = Span::new(first.span.start, last.span.end);
        self.found.push(Named { name: named, span, kind, is_sampled: sample.is_some() });
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    fn names(sql: &str) -> Vec<String> {
        let query = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap().parse_query().unwrap();
        let shown = |named: &Named| {
            let text = sql.get(named.span.start.column as usize - 1..named.span.end.column as usize - 1).unwrap();
            format!("{} {:?} {text}", named.name, named.kind)
        };
        self::named(&query).unwrap().iter().map(shown).collect()
    }

    #[test]
    fn what_with_defines_is_no_relation_where_it_is_known() {
        for (sql, found) in [
            ("SELECT a FROM t", vec!["t Relation t"]),
            ("SELECT 1 FROM s.\"T\" AS x, u", vec!["s.\"T\" Aliased s.\"T\"", "u Relation u"]),
            ("WITH t AS (SELECT * FROM t) SELECT * FROM t", vec!["t Relation t"]),
            ("WITH a AS (SELECT 1), b AS (SELECT * FROM a, c) SELECT * FROM b, a", vec!["c Relation c"]),
            ("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT * FROM t", vec![]),
            ("SELECT (WITH t AS (SELECT 1 AS n) SELECT n FROM t) FROM t", vec!["t Relation t"]),
            ("SELECT 1 FROM u WHERE EXISTS (SELECT * FROM v x)", vec!["u Relation u", "v Aliased v"]),
            ("SELECT s.t.a, s.t.* FROM s.t", vec!["s.t Qualifier s.t", "s.t Relation s.t", "s.t Qualifier s.t"]),
            ("SELECT * FROM generate_series(1, 2) g", vec![]),
        ] {
            let (mut own, mut wanted) = (names(sql), found.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            own.sort();
            wanted.sort();
            assert_eq!(own, wanted, "{sql}");
        }
    }
}
