//! What columns of the catalog never hold. Conditions that ask for it are false, and what they guard is not planned: PostgreSQL has
//! kinds of types and relations that Alluvia has none of, and tools look into each.

use crate::constants::Constant;
use crate::rewrite::{cast, parts};
use alluvia_catalog::Catalog;
use alluvia_syntax::names::name_of;
use alluvia_syntax::statement::text_of;
use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, CaseWhen, Expr, Query, SelectItem, SetExpr,
};

/// Columns that hold one of a few values. Tests hold this against the tables. What drivers make of `typtype` and call so has `a` for lists.
pub(crate) const KINDS: [(&str, &[&str]); 2] = [("typtype", &["a", "b", "p"]), ("relkind", &["r", "v", "S", "i"])];

/// Drops the branches of a CASE that are never taken.
pub(crate) fn prune(expr: &mut Expr, catalog: &Catalog) {
    let Expr::Case { operand: None, conditions, else_result, .. } = expr else { return };
    let before = conditions.len();
    let mut dropped = None;
    conditions.retain(|CaseWhen { condition, result }| {
        let never = is_never(condition, catalog);
        if never && dropped.is_none() {
            dropped = Some(result.clone());
        }
        !never
    });
    if conditions.len() == before || !conditions.is_empty() {
        return;
    }
    let rest = else_result.take().map_or_else(|| Constant::Null.expr(), |rest| *rest);
    // A column of nothing but NULLs keeps the sort of its values.
    let is_null = matches!(&rest, Expr::Value(value) if matches!(value.value, ast::Value::Null));
    *expr = match dropped {
        Some(Expr::Subquery(query)) if is_null && is_list(&query) => {
            let of = ArrayElemTypeDef::SquareBracket(Box::new(ast::DataType::Text), None);
            cast(rest, ast::DataType::Array(of))
        }
        Some(Expr::Subquery(_)) if is_null => cast(rest, ast::DataType::BigInt(None)),
        _ => rest,
    };
}

/// Whether a condition is never true: `typtype = 'd'`.
fn is_never(condition: &Expr, catalog: &Catalog) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return false };
    let column = match left.as_ref() {
        Expr::Identifier(ident) => name_of(ident),
        Expr::CompoundIdentifier(path) => match path.last() {
            Some(ident) => name_of(ident),
            None => return false,
        },
        _ => return false,
    };
    let Some((_, values)) = KINDS.iter().find(|(known, _)| *known == column) else { return false };
    // A user's column of that name may hold anything.
    let is_users = catalog.tables().any(|entry| entry.def.columns.iter().any(|known| known.name == column));
    !is_users && text_of(right).is_some_and(|text| !values.contains(&text.as_str()))
}

/// Whether a subquery gives a list.
fn is_list(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    match select.projection.as_slice() {
        [
            SelectItem::UnnamedExpr(Expr::Function(function))
            | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. },
        ] => parts(&function.name).last().is_some_and(|name| name == "array_agg"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::testing::viewer;
    use crate::types;
    use alluvia_syntax::Kind;
    use alluvia_syntax::script::parse;

    fn pruned(case: &str) -> String {
        let sql = format!("SELECT CASE {case} END AS c FROM pg_type t");
        let Kind::Query(query) = parse(&sql).unwrap().remove(0).kind else { panic!("a query") };
        let SetExpr::Select(select) = *query.body else { panic!("a SELECT") };
        let Some(SelectItem::ExprWithAlias { mut expr, .. }) = select.projection.into_iter().next() else {
            panic!("an item")
        };
        prune(&mut expr, &Catalog::default());
        expr.to_string()
    }

    #[test]
    fn branches_that_are_never_taken_are_dropped() {
        assert_eq!(pruned("WHEN t.typtype = 'd' THEN 1 ELSE 2"), "2");
        assert_eq!(pruned("WHEN t.typtype = 'd' THEN (SELECT 1) ELSE NULL"), "CAST(NULL AS BIGINT)");
        assert_eq!(pruned("WHEN typtype = 'c' THEN (SELECT array_agg(x) FROM y)"), "CAST(NULL AS TEXT[])");
        assert_eq!(pruned("WHEN relkind = 'S' THEN 1"), "CASE WHEN relkind = 'S' THEN 1 END");
        assert_eq!(pruned("WHEN relkind = 'f' THEN 1 WHEN relkind = 'r' THEN 2"), "CASE WHEN relkind = 'r' THEN 2 END");
        for kept in ["WHEN t.typtype = 'b' THEN 1 END", "WHEN other = 'd' THEN 1 END", "t.typtype WHEN 'd' THEN 1 END"]
        {
            assert_eq!(pruned(kept.trim_end_matches(" END")), format!("CASE {kept}"));
        }
    }

    #[test]
    fn types_and_relations_are_of_the_kinds_that_are_stated() {
        let kinds = |wanted: &str| KINDS.iter().find(|(column, _)| *column == wanted).unwrap().1;
        assert!(types::all().all(|known| kinds("typtype").contains(&known.kind())));
        assert!(viewer().system.relations().iter().all(|relation| kinds("relkind").contains(&relation.kind)));
    }
}
