//! What SET says: `a = 1, (b, c) = (SELECT x, y FROM u), d = DEFAULT`.
//!
//! Invariants:
//! - There is one value for each column, and each is an expression of its own.
//! - A subquery that several columns are set to becomes one for each of them. All of these must read the same row, so
//!   what lets a query choose among rows (LIMIT) is refused; a second row is an error in each of them.

use crate::names::name_of;
use crate::statements::changes::number;
use crate::trees::rewriting::{call, call_of};
use crate::trees::sort_keys::has_aggregates;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, Distinct, Expr, GroupByExpr, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, SetOperator, Value,
};

/// What SET says.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    /// The columns that are set.
    pub(crate) columns: Vec<Ident>,
    /// A value for each of them.
    pub(crate) values: Vec<Expr>,
    /// Which of them are set to their defaults, and have NULL for a value.
    pub(crate) defaults: Vec<usize>,
}

impl Assigned {
    fn push(&mut self, column: Ident, value: Expr) {
        let value = if is_default(&value) {
            self.defaults.push(self.values.len());
            null()
        } else {
            value
        };
        self.columns.push(column);
        self.values.push(value);
    }
}

/// The columns of SET, and a value for each.
pub(crate) fn assigned(assignments: Vec<Assignment>) -> Result<Assigned> {
    let mut assigned = Assigned::default();
    for Assignment { target, value } in assignments {
        match target {
            AssignmentTarget::ColumnName(name) => assigned.push(column_of(&name)?, value),
            AssignmentTarget::Tuple(names) => {
                let row = row_of(value, names.len())?;
                if row.len() != names.len() {
                    let message = format!("{} columns are set to {} values", names.len(), row.len());
                    return Err(Error::new(ErrorKind::Syntax, message));
                }
                for (name, value) in names.iter().zip(row) {
                    assigned.push(column_of(name)?, value);
                }
            }
        }
    }
    Ok(assigned)
}

/// A column that is set.
fn column_of(name: &ObjectName) -> Result<Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned().ok_or_else(|| not_supported(format!("{name} in SET"))),
        _ => Err(Error::new(ErrorKind::Syntax, format!("{name} cannot be set"))
            .with_hint("in SET a column stands by itself: write SET a = 1, not SET t.a = 1")),
    }
}

/// The values of a row for so many columns.
fn row_of(value: Expr, columns: usize) -> Result<Vec<Expr>> {
    match value {
        Expr::Tuple(values) => Ok(values),
        Expr::Nested(value) => Ok(vec![*value]),
        Expr::Subquery(query) => one_by_one(&query, columns),
        other => match of_row_call(&other) {
            Some(values) => Ok(values),
            None => Err(Error::new(ErrorKind::Syntax, format!("several columns are set to {other}, which is no row"))
                .with_hint("write SET (a, b) = (1, 2)")),
        },
    }
}

/// The values of `ROW(...)`.
fn of_row_call(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(function) = expr else { return None };
    let (_, values) = call_of(function).filter(|(name, _)| name == "row")?;
    Some(values.into_iter().cloned().collect())
}

/// A subquery of one column for each column of this one.
fn one_by_one(query: &Query, columns: usize) -> Result<Vec<Expr>> {
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err(not_supported("LIMIT in a subquery that several columns are set to").with_hint(
            "choose its row by a condition, or by a query in FROM: UPDATE t SET a = u.a FROM (SELECT ...) AS u",
        ));
    }
    let mut subqueries = Vec::with_capacity(columns);
    for at in 0..columns {
        let mut one = query.clone();
        // There is one row.
        one.order_by = None;
        let width = keep_column(&mut one.body, at)?;
        if width != columns {
            let message = format!("{columns} columns are set to {width} values");
            return Err(Error::new(ErrorKind::Syntax, message));
        }
        subqueries.push(Expr::Subquery(Box::new(one)));
    }
    Ok(subqueries)
}

/// Leaves one column of those that a query gives, and tells how many there were.
fn keep_column(set: &mut SetExpr, at: usize) -> Result<usize> {
    match set {
        SetExpr::Select(select) => keep_item(select, at),
        SetExpr::Query(query) if query.limit_clause.is_none() && query.fetch.is_none() => {
            query.order_by = None;
            keep_column(&mut query.body, at)
        }
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            for row in &mut values.rows {
                if at < row.content.len() {
                    row.content = vec![row.content.swap_remove(at)];
                }
            }
            Ok(width)
        }
        // Two rows that differ do so in a column: it gives two rows, too, and is refused as they are.
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => {
            let width = keep_column(left, at)?;
            if keep_column(right, at)? != width {
                return Err(Error::new(
                    ErrorKind::Syntax,
                    "each query of a UNION must have the same number of columns",
                ));
            }
            Ok(width)
        }
        other => Err(not_supported(format!("several columns set to {other}"))
            .with_hint("write it in FROM: UPDATE t SET a = u.a, b = u.b FROM (...) AS u")),
    }
}

fn keep_item(select: &mut Select, at: usize) -> Result<usize> {
    let is_value = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if !select.projection.iter().all(is_value) {
        return Err(not_supported("* in a subquery that several columns are set to").with_hint("name its columns"));
    }
    let is_position = |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)));
    if matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.iter().any(is_position)) {
        return Err(not_supported("GROUP BY of a position in a subquery that several columns are set to")
            .with_hint("write the expression"));
    }
    if matches!(select.group_by, GroupByExpr::All(_)) {
        return Err(not_supported("GROUP BY ALL in a subquery that several columns are set to")
            .with_hint("write the expressions"));
    }
    if matches!(select.distinct, Some(Distinct::On(_))) {
        return Err(not_supported("DISTINCT ON in a subquery that several columns are set to")
            .with_hint("write it in FROM: UPDATE t SET a = u.a, b = u.b FROM (...) AS u"));
    }
    let width = select.projection.len();
    let has_no_keys = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let is_one_group = has_no_keys && has_aggregates(select);
    if at < width {
        select.projection = vec![select.projection.swap_remove(at)];
        // Without the aggregates beside it, it would be a value for each row.
        if is_one_group && !has_aggregates(select) {
            let left = Box::new(call("count", vec![number("1")]));
            let always = Expr::BinaryOp { left, op: BinaryOperator::GtEq, right: Box::new(number("0")) };
            select.having = Some(match select.having.take() {
                None => always,
                Some(having) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(having))),
                    op: BinaryOperator::And,
                    right: Box::new(always),
                },
            });
        }
    }
    Ok(width)
}

/// Whether a value is DEFAULT.
pub(crate) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident) if ident.quote_style.is_none() && name_of(ident) == "default")
}

pub(crate) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;
    use crate::script::tests::one;

    fn shown(set: &str) -> String {
        match one(&format!("UPDATE t SET {set}")).kind {
            Kind::Update(update) => {
                let text = update.query.to_string();
                let values = text.strip_prefix("SELECT ").and_then(|text| text.strip_suffix(" FROM t AS t"));
                format!("{} {:?}", values.unwrap_or(&text), update.defaults)
            }
            Kind::Refused(error) => format!("refused {}", error.message()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_column_has_a_value_of_its_own() {
        for (set, wanted) in [
            ("a = DEFAULT, b = \"default\"", "NULL AS column1, \"default\" AS column2 [0]"),
            ("(a, b) = (1, DEFAULT)", "1 AS column1, NULL AS column2 [1]"),
            ("(a, b) = ROW(1, 'x')", "1 AS column1, 'x' AS column2 []"),
            ("(a) = (1)", "1 AS column1 []"),
            (
                "(a, b) = (SELECT u.x AS p, sum(u.y) FROM u WHERE u.id = t.id GROUP BY u.x ORDER BY 2)",
                "(SELECT u.x AS p FROM u WHERE u.id = t.id GROUP BY u.x) AS column1, \
                 (SELECT sum(u.y) FROM u WHERE u.id = t.id GROUP BY u.x) AS column2 []",
            ),
            (
                "(a, b) = (SELECT count(*), 'x' FROM u WHERE u.id = t.id)",
                "(SELECT count(*) FROM u WHERE u.id = t.id) AS column1, \
                 (SELECT 'x' FROM u WHERE u.id = t.id HAVING count(1) >= 0) AS column2 []",
            ),
            (
                "(a, b) = (SELECT 1, 2 UNION ALL SELECT 3, 4)",
                "(SELECT 1 UNION ALL SELECT 3) AS column1, (SELECT 2 UNION ALL SELECT 4) AS column2 []",
            ),
        ] {
            assert_eq!(shown(set), wanted, "{set}");
        }
    }

    #[test]
    fn what_could_mix_rows_is_refused() {
        for (set, words) in [
            ("(a, b) = (SELECT x, y FROM u LIMIT 1)", "LIMIT"),
            ("(a, b) = (SELECT * FROM u)", "*"),
            ("(a, b) = (SELECT x, count(*) FROM u GROUP BY 1)", "GROUP BY of a position"),
            ("(a, b) = (SELECT x, count(*) FROM u GROUP BY ALL)", "GROUP BY ALL"),
            ("(a, b) = (SELECT DISTINCT ON (x) x, y FROM u)", "DISTINCT ON"),
            ("(a, b) = (SELECT 1, 2 INTERSECT SELECT 1, 2)", "INTERSECT"),
        ] {
            let refused = shown(set);
            assert!(refused.starts_with("refused") && refused.contains(words), "{set}: {refused}");
        }
        for wrong in
            ["(a, b) = (SELECT 1)", "(a, b) = (SELECT 1, 2, 3)", "(a, b) = 1", "(a, b) = (SELECT 1, 2 UNION SELECT 1)"]
        {
            assert!(parse(&format!("UPDATE t SET {wrong}")).is_err(), "{wrong}");
        }
    }
}
