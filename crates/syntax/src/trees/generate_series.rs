//! Functions of rows, as PostgreSQL's users write them: `FROM generate_series(1, 3) AS n`, `FROM unnest(ARRAY['a', 'b']) AS x`,
//! `generate_series((SELECT min(d) FROM t), ...)`.
//!
//! Invariants:
//! - The alias of such a function is also its column, where the query says it so and does not say `value`, which it is called otherwise; with a
//!   list of columns it is left as it is.
//! - Several lists beside one another are columns of a subquery that unnests them, under the names that the alias gives them.
//! - Bounds that are subqueries are computed where the query runs, as an array that is unnested: planning takes constants alone.

use super::rewriting::{RowsCall, call, contains, rows_call};
use super::visit::{visit, visit_mut};
use crate::names::name_of;
use crate::statement::literal_text;
use crate::trees::repeated_names::says_alone;
use alluvia_types::Result;
use sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Visit, Visitor, VisitorMut,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

const SERIES: &str = "generate_series";

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_name = |word: &str| [SERIES, "range", "unnest"].iter().any(|name| word.eq_ignore_ascii_case(name));
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_name(&word.value)))
}

/// Writes them as planning takes them.
pub fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Series);
    Ok(())
}

struct Series;

impl VisitorMut for Series {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // What orders a set operation knows nothing of what is in its branches.
        let whole = matches!(query.body.as_ref(), SetExpr::Select(_)).then(|| query.clone());
        body(&mut query.body, whole.as_ref());
        ControlFlow::Continue(())
    }
}

/// Brings the functions in FROM to what planning takes; `whole` is the query around its only SELECT.
fn body(set: &mut SetExpr, whole: Option<&Query>) {
    match set {
        SetExpr::Select(select) => {
            let alone = select.clone();
            for table in &mut select.from {
                let joined = table.joins.iter_mut().map(|join| &mut join.relation);
                for factor in std::iter::once(&mut table.relation).chain(joined) {
                    let is_said = bare_alias(factor).is_some_and(|alias| match whole {
                        Some(query) => says_as_column(query, alias),
                        None => says_as_column(&alone, alias),
                    });
                    if is_said {
                        name_column(factor);
                    }
                    scale_steps(factor);
                    compute_bounds(factor);
                    beside_one_another(factor);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            body(left, None);
            body(right, None);
        }
        _ => {}
    }
}

/// Whether an alias is said as a column, and `value` is not.
fn says_as_column(node: &impl Visit, alias: &TableAlias) -> bool {
    says_alone(node, &name_of(&alias.name)) && visit(node, &mut SaysValue).is_continue()
}

/// Ends at a column `value`, of whatever table.
struct SaysValue;

impl Visitor for SaysValue {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let last = match expr {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        match last {
            Some(ident) if name_of(ident) == "value" => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The alias of a function of rows of one column, if it names no columns.
fn bare_alias(factor: &TableFactor) -> Option<&TableAlias> {
    let alias = match factor {
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: false, .. } => {
            (array_exprs.len() == 1).then_some(alias.as_ref())??
        }
        other => {
            let call = rows_call(other).filter(|call| !call.with_ordinality)?;
            matches!(call.name.as_str(), SERIES | "range").then_some(call.alias.as_ref())??
        }
    };
    alias.columns.is_empty().then_some(alias)
}

fn name_column(factor: &mut TableFactor) {
    if let TableFactor::Table { alias: Some(alias), .. }
    | TableFactor::Function { alias: Some(alias), .. }
    | TableFactor::UNNEST { alias: Some(alias), .. } = factor
    {
        alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
    }
}

/// Has series of moments computed where the query runs, where the time zone of its session is known.
///
/// For the binder: `SET timezone = 'Europe/Berlin'; SELECT * FROM generate_series('2026-03-28'::timestamptz, now(), '1 day')`.
pub fn compute_moments(query: &mut Query) {
    let _ = visit_mut(query, &mut Moments);
}

struct Moments;

impl VisitorMut for Moments {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let is_number = |step: &Expr| literal_text(step).is_some_and(|text| text.parse::<f64>().is_ok());
        if series(factor).is_some_and(|call| matches!(call.arguments.as_slice(), [_, _, step] if !is_number(step))) {
            compute(factor);
        }
        ControlFlow::Continue(())
    }
}

/// The call of `generate_series` that a part of FROM is, without a number for each row.
fn series(factor: &TableFactor) -> Option<RowsCall<'_>> {
    rows_call(factor).filter(|call| call.name == SERIES && !call.with_ordinality)
}

/// `generate_series(bounds) AS g(x)` with a subquery among the bounds as `(SELECT unnest(generate_series(bounds)) AS
/// value) AS g(x)`. What is LATERAL is left to [`super::lateral_functions`].
fn compute_bounds(factor: &mut TableFactor) {
    if series(factor).is_some_and(|call| call.arguments.iter().any(has_subquery)) {
        compute(factor);
    }
}

fn compute(factor: &mut TableFactor) {
    let Some(RowsCall { arguments: bounds, alias, says_lateral: false, .. }) = series(factor) else { return };
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql("SELECT unnest(NULL) AS value");
    let Ok(mut subquery) = parsed.and_then(|mut parser| parser.parse_query()) else { return };
    let SetExpr::Select(select) = subquery.body.as_mut() else { return };
    let Some(SelectItem::ExprWithAlias { expr, .. }) = select.projection.first_mut() else { return };
    *expr = call("unnest", vec![call(SERIES, bounds)]);
    let alias = Some(alias.clone().unwrap_or_else(own_alias));
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
}

/// `generate_series(1.0, 2.0, 0.5)` as `(SELECT CAST(value AS DECIMAL(19, 0)) * 0.5 + 1.0 AS value FROM generate_series(0, 2))`, of decimals: of
/// numbers planning takes whole ones alone. Others than written ones are left.
fn scale_steps(factor: &mut TableFactor) {
    let Some(RowsCall { arguments, alias, .. }) = series(factor) else { return };
    let Some(texts) = arguments.iter().map(literal_text).collect::<Option<Vec<String>>>() else { return };
    let (from, to, step) = match texts.as_slice() {
        [from, to] => (from.as_str(), to.as_str(), "1"),
        [from, to, step] => (from.as_str(), to.as_str(), step.as_str()),
        _ => return,
    };
    let Some(last) = last_step(from, to, step) else { return };
    let scale = digits(from).max(digits(step));
    let decimal = |text: &str| format!("CAST('{text}' AS DECIMAL(18, {scale}))");
    let value = format!("CAST(value AS DECIMAL(19, 0)) * {} + {}", decimal(step), decimal(from));
    let sql = format!("SELECT {value} AS value FROM {SERIES}(0, {last})");
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(&sql);
    let Ok(subquery) = parsed.and_then(|mut parser| parser.parse_query()) else { return };
    let alias = Some(alias.clone().unwrap_or_else(own_alias));
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
}

/// What the rows of a series are called if nobody names them.
fn own_alias() -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(SERIES), columns: Vec::new(), at: None }
}

/// How many digits a number has behind its point.
fn digits(number: &str) -> usize {
    number.split_once('.').map_or(0, |(_, part)| part.len())
}

/// How many steps a series takes between these numbers; less than none where it has no rows. `None` where all of them are whole, or one is no
/// number, or too long a one.
fn last_step(from: &str, to: &str, step: &str) -> Option<i64> {
    let scale = [from, to, step].into_iter().map(digits).max().filter(|scale| (1..=15).contains(scale))?;
    let scaled = |text: &str| {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        format!("{whole}{part:0<scale$}").parse::<i64>().ok()
    };
    let (from, to, step) = (scaled(from)?, scaled(to)?, scaled(step)?);
    let length = to.checked_sub(from)?;
    let steps = length.checked_div(step)?;
    Some(if length != 0 && (length < 0) != (step < 0) { -1 } else { steps })
}

/// `unnest(a, b) AS t(x, y)` as `(SELECT unnest(a) AS x, unnest(b) AS y) AS t`: planning calls its columns after what they are of, which may be
/// the same in two of them, as in lists of no rows. Those that nobody names are `unnest` and `unnest_2`. Lists of other tables' columns
/// are left.
fn beside_one_another(factor: &mut TableFactor) {
    let TableFactor::UNNEST {
        alias,
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
        ..
    } = factor
    else {
        return;
    };
    let is_column =
        |expr: &Expr| contains(expr, |expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)));
    let named: Vec<Ident> = alias.iter().flat_map(|alias| &alias.columns).map(|column| column.name.clone()).collect();
    // Too many names are an error of the alias.
    if array_exprs.len() < 2 || named.len() > array_exprs.len() || array_exprs.iter().any(is_column) {
        return;
    }
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql("SELECT 1");
    let Ok(mut subquery) = parsed.and_then(|mut parser| parser.parse_query()) else { return };
    let SetExpr::Select(select) = subquery.body.as_mut() else { return };
    let own_name = |at: usize| match at {
        0 => Ident::new("unnest"),
        at => Ident::new(format!("unnest_{}", at + 1)),
    };
    let items = std::mem::take(array_exprs).into_iter().enumerate();
    select.projection = items
        .map(|(at, list)| SelectItem::ExprWithAlias {
            expr: call("unnest", vec![list]),
            alias: named.get(at).cloned().unwrap_or_else(|| own_name(at)),
        })
        .collect();
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new("unnest"),
        columns: Vec::new(),
        at: None,
    });
    alias.columns.clear();
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
}

fn has_subquery(expr: &Expr) -> bool {
    contains(expr, |expr| matches!(expr, Expr::Subquery(_)))
}

#[cfg(test)]
mod tests {
    use super::last_step;

    #[test]
    fn steps_are_counted_as_they_are_taken() {
        for (from, to, step, expected) in [
            ("1.0", "2.0", "0.5", Some(2)),
            ("0", "1", "0.25", Some(4)),
            ("0", "0.99", ".25", Some(3)),
            ("2.0", "1", "-0.50", Some(2)),
            ("1.5", "1.5", "1", Some(0)),
            ("1.5", "0", "1", Some(-1)),
            ("1.5", "9", "-1", Some(-1)),
            // Whole ones, no step, no numbers.
            ("1", "3", "1", None),
            ("1.5", "3", "0.0", None),
            ("1.5e3", "3", "1", None),
            ("x.y", "3", "1", None),
        ] {
            assert_eq!(last_step(from, to, step), expected, "{from} {to} {step}");
        }
    }
}
