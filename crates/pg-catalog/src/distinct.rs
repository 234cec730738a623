//! `SELECT DISTINCT ON (k) ..., (SELECT ... that asks about the row), ...`, as pgAdmin asks for columns.
//!
//! Planning knows subqueries about a row only where a projection or a condition has them, and DISTINCT ON keeps its items elsewhere. So the
//! rows are made below, with their keys, and the first of each key is chosen above.

use alluvia_syntax::query_of_table;
use alluvia_syntax::trees::rewriting::contains;
use datafusion::sql::sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr, Ident, ObjectName, OrderByKind, Query, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

/// Splits a query into the making of rows and the choice among them, if that is what it takes.
pub(crate) fn split(query: &mut Query) {
    if let Some(choice) = choice_among_rows(query) {
        *query = choice;
    }
}

fn choice_among_rows(query: &Query) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let Some(Distinct::On(keys)) = &select.distinct else { return None };
    if !select.projection.iter().any(|item| contains(item, |expr| matches!(expr, Expr::Subquery(_)))) {
        return None;
    }
    let names: Vec<Ident> = (1..=keys.len()).map(|at| Ident::with_quote('"', format!("on {at}"))).collect();
    let named = || names.iter().cloned().map(Expr::Identifier);
    let mut choice = query.clone();
    if let Some(order) = &mut choice.order_by {
        // What else it may be ordered by is not known above.
        let OrderByKind::Expressions(orders) = &mut order.kind else { return None };
        for order in orders {
            let at = keys.iter().position(|key| *key == order.expr)?;
            order.expr = named().nth(at)?;
        }
    }
    let mut rows = select.as_ref().clone();
    rows.distinct = None;
    let key_of = |(key, alias): (&Expr, &Ident)| SelectItem::ExprWithAlias { expr: key.clone(), alias: alias.clone() };
    let items = std::mem::take(&mut rows.projection);
    rows.projection = keys.iter().zip(&names).map(key_of).chain(items).collect();
    let mut made = query_of_table(&ObjectName::from(vec![Ident::new("rows")]), &[]).ok()?;
    let mut chosen = made.clone();
    *made.body = SetExpr::Select(Box::new(rows));
    let SetExpr::Select(above) = chosen.body.as_mut() else { return None };
    above.distinct = Some(Distinct::On(named().collect()));
    let keys = names.iter().map(|name| ObjectName::from(vec![name.clone()])).collect();
    let but_for_keys = Some(ExcludeSelectItem::Multiple(keys));
    above.projection =
        vec![SelectItem::Wildcard(WildcardAdditionalOptions { opt_exclude: but_for_keys, ..Default::default() })];
    let alias = TableAlias { explicit: true, name: Ident::new("rows"), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery: made, alias: Some(alias), sample: None };
    above.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    choice.body = chosen.body;
    Some(choice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::Kind;
    use alluvia_syntax::script::parse;

    fn written(sql: &str) -> String {
        let Kind::Query(mut query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
        split(&mut query);
        query.to_string()
    }

    #[test]
    fn rows_are_made_before_one_is_chosen() {
        assert_eq!(
            written(
                "SELECT DISTINCT ON (t.a) b, (SELECT max(c) FROM u WHERE u.a = t.a) AS c FROM t WHERE b > 1 ORDER BY t.a DESC"
            ),
            "SELECT DISTINCT ON (\"on 1\") * EXCLUDE (\"on 1\") FROM (SELECT t.a AS \"on 1\", b, \
             (SELECT max(c) FROM u WHERE u.a = t.a) AS c FROM t WHERE b > 1) AS rows ORDER BY \"on 1\" DESC"
        );
        for kept in [
            "SELECT DISTINCT ON (a) b FROM t ORDER BY a",
            "SELECT DISTINCT b, (SELECT max(c) FROM u WHERE u.a = t.a) AS c FROM t",
            "SELECT DISTINCT ON (a) b, (SELECT max(c) FROM u WHERE u.a = t.a) AS c FROM t ORDER BY a, b",
        ] {
            assert_eq!(written(kept), kept);
        }
    }
}
