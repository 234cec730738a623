//! The call: from the text to what it asks for.
//!
//! When a statement is parsed, `SELECT ... FROM thin(t, max_rows => n) AS a WHERE c` becomes
//! `SELECT ... FROM thin((SELECT * FROM t AS a WHERE c), max_rows => n) AS a`; so the table is found by whoever looks for tables,
//! and the condition is where it counts. Planning takes that apart again.

use super::super::outline::GapTable;
use super::super::planner::table_of;
use super::LIMIT_COLUMN;
use super::table::{Bound, ThinTable};
use crate::table::{AlluviaTable, StatementContext};
use alluvia_syntax::names::{is_ambiguous, name_of};
use alluvia_syntax::sample::number::{Number, number_of};
use alluvia_syntax::sample::thin::{THIN, alone, wrong};
use alluvia_types::{Error, ErrorKind, Result, near_names};
use alluvia_values::errors::{not_supported, wrap};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::logical_expr::logical_plan::SubqueryAlias;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{LogicalPlan, TableScanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, SetExpr, TableFactor, TableFunctionArgs,
};
use std::sync::Arc;

/// What is asked for beside the rows.
pub(crate) fn bound_of(args: &[FunctionArg], describes: bool) -> Result<Bound> {
    let [arg] = args else {
        return Err(wrong("thin takes a table and either max_rows or fraction"));
    };
    let FunctionArg::Named {
        name,
        arg: FunctionArgExpr::Expr(value),
        operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
    } = arg
    else {
        return Err(wrong("thin takes its bound by name"));
    };
    let name = name_of(name);
    let number = number_of(value);
    let value = |takes: &str| match number {
        Number::Of(number) => Err(wrong_value(&name, &number.to_string(), takes)),
        Number::Null => Err(wrong_value(&name, "NULL", takes)),
        Number::Unbound => Err(wrong_value(&name, "a parameter without a value", takes)),
        Number::Other => Err(wrong_value(&name, "anything but a number", takes)),
    };
    // Beyond this a double is no whole number for sure, and no memory would hold the rows.
    const ROWS_MAX: f64 = 9_007_199_254_740_992.0;
    match (name.as_str(), number) {
        ("max_rows" | "fraction", Number::Null | Number::Unbound) if describes => Ok(Bound::Fraction(1.0)),
        ("max_rows", Number::Of(rows)) if (1.0..=ROWS_MAX).contains(&rows) && rows.fract() == 0.0 => {
            Ok(Bound::Rows(rows as u64))
        }
        ("max_rows", Number::Of(rows)) if rows > ROWS_MAX => {
            Err(wrong_value(&name, "so large", "a whole number from 1 to 9007199254740992"))
        }
        ("max_rows", _) => value("a whole number from 1"),
        ("fraction", Number::Of(fraction)) if (0.0..=1.0).contains(&fraction) => Ok(Bound::Fraction(fraction)),
        ("fraction", _) => value("a number from 0 to 1"),
        (other, _) => {
            let error = wrong(format!("thin has no argument {other}"));
            Err(match near_names(other, ["max_rows", "fraction"]).first() {
                Some(near) => error.with_hint(format!("did you mean {near}?")),
                None => error,
            })
        }
    }
}

fn wrong_value(name: &str, what: &str, takes: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, format!("{name} of thin cannot be {what}"))
        .with_hint(format!("it takes {takes}"))
}

/// Plans a call that was gathered; where it `leaves_gap`, without its rows.
pub(crate) fn plan(
    call: &TableFunctionArgs,
    context: &mut dyn RelationPlannerContext,
    statement: &Arc<StatementContext>,
    describes: bool,
    leaves_gap: bool,
) -> Result<LogicalPlan, DataFusionError> {
    let Some((FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(rows))), bound)) = call.args.split_first()
    else {
        return Err(wrap(alone()));
    };
    let text = call.args[1..].iter().map(|arg| format!(", {arg}")).collect::<String>();
    let (named, condition) = match rows.body.as_ref() {
        SetExpr::Select(select) => {
            let table = select.from.first().map(|from| from.relation.to_string()).unwrap_or_default();
            (table, select.selection.as_ref().map(|condition| format!(" WHERE {condition}")).unwrap_or_default())
        }
        _ => return Err(wrap(alone())),
    };
    let bound = bound_of(bound, describes).map_err(wrap)?;
    let subquery = TableFactor::Derived { lateral: false, subquery: rows.clone(), alias: None, sample: None };
    let planned = context.plan(subquery)?;
    // SELECT * is one projection, of all that is below.
    let LogicalPlan::Projection(all) = planned else { return Err(wrap(no_table(&named))) };
    let rows = Arc::unwrap_or_clone(all.input);
    let table = scanned(&rows).ok_or_else(|| wrap(no_table(&named)))?;
    if table.entry().def.columns.iter().any(|column| column.name == LIMIT_COLUMN) {
        let message = format!("thin cannot show its {LIMIT_COLUMN} beside the column of that name of table {named}");
        let error = Error::new(ErrorKind::DuplicateColumn, message);
        return Err(wrap(error.with_hint(format!("ALTER TABLE {named} RENAME {LIMIT_COLUMN} TO another name"))));
    }
    let thin = ThinTable::new(rows, table, bound, statement);
    let provider: Arc<dyn TableProvider> =
        if leaves_gap { Arc::new(GapTable::new(thin.schema())) } else { Arc::new(thin) };
    // Scans of one name are one to the planner, which computes equal subqueries once.
    let name = format!("thin({named}{text}){condition}");
    let name = TableReference::bare(if is_ambiguous(&name) { format!("{name} {:?}", call.args) } else { name });
    let scan = TableScanBuilder::new(name, provider_as_source(provider)).build()?;
    let plan = Arc::new(LogicalPlan::TableScan(scan));
    Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(plan, THIN)?))
}

fn no_table(named: &str) -> Error {
    not_supported(format!("thin of {named}")).with_hint("it takes a table: neither a view of one nor a system table")
}

/// The table under a WHERE, if there is nothing else.
fn scanned(plan: &LogicalPlan) -> Option<AlluviaTable> {
    match plan {
        LogicalPlan::Filter(filter) => scanned(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => scanned(&alias.input),
        LogicalPlan::TableScan(_) => table_of(plan.clone()).map(|(_, table)| table),
        _ => None,
    }
}
