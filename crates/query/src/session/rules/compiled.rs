//! Expressions of a definition, planned.
//!
//! Invariants:
//! - They pass the same rules as the expressions of queries do. What they give depends on their text, the row, and, of
//!   `now()` and its like, the moment in which their statement began.
//! - What does not depend on that moment is planned once for a definition.

use crate::engine::Engine;
use crate::engine::row_rules::{Analysed, Kept};
use crate::errors::{error_of, planning_error};
use crate::execution::planning::plan_apart;
use crate::session::run::Run;
use crate::session::select::calls::refuse_ignored;
use crate::table::sql_schema;
use alluvia_change::has_digits;
use alluvia_space::TableDef;
use alluvia_syntax::keep_columns;
use alluvia_syntax::statements::rules::{expressions, kept_query};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use arrow::datatypes::DataType;
use chrono::{DateTime, Utc};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{EmptyRelation, Expr, ExprSchemable, LogicalPlan, Projection, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::sqlparser::ast::{self, ExprWithAlias};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Defaults by the places of their columns, and conditions by their names.
pub(super) type Physical = (BTreeMap<usize, Arc<dyn PhysicalExpr>>, Vec<(String, Arc<dyn PhysicalExpr>)>);

/// Plans the expressions of a definition.
pub(super) async fn compile(run: &Run, def: &TableDef) -> Result<Kept> {
    let (state, _) = run.engine().statement_state(&run.settings);
    let (engine, def) = (Arc::clone(run.engine()), def.clone());
    plan_apart(run.token.clone(), async move {
        let none = Arc::new(DFSchema::empty());
        let mut defaults = Vec::with_capacity(def.rules.defaults.len());
        for default in &def.rules.defaults {
            let place = def.columns.iter().position(|column| column.id == default.column);
            let place = place.ok_or_else(|| Error::internal("a default is of no column"))?;
            let column = &def.columns[place];
            let at = |error: Error| error.at(format!("DEFAULT of column {}", column.name));
            let has_digits = has_digits(column.data_type);
            let expr = analysed(&engine, &state, &default.sql, has_digits, &none, "DEFAULT expressions").map_err(at)?;
            defaults.push((place, expr.0));
        }
        let columns = sql_schema(&def);
        let columns = Arc::new(DFSchema::try_from(columns).map_err(|error| error_of(&error))?);
        let mut checks = Vec::with_capacity(def.rules.checks.len());
        for check in &def.rules.checks {
            let at = |error: Error| error.at(format!("constraint {}", check.name));
            let (expr, gives) =
                analysed(&engine, &state, &check.sql, false, &columns, "check constraints").map_err(at)?;
            if !matches!(gives, DataType::Boolean | DataType::Null) {
                let message = format!("constraint {}: argument of CHECK must be type boolean", check.name);
                return Err(Error::new(ErrorKind::DatatypeMismatch, message).with_hint("write a condition: a > 0"));
            }
            checks.push((check.name.clone(), expr));
        }
        Ok(Kept { defaults, checks })
    })
    .await
}

/// An expression over these columns, and the type of what it gives.
fn analysed(
    engine: &Engine,
    state: &SessionState,
    sql: &str,
    has_digits: bool,
    columns: &Arc<DFSchema>,
    place: &str,
) -> Result<(Analysed, DataType)> {
    let mut query = kept_query(&[sql])?;
    refuse_ignored(&query, engine.functions())?;
    keep_columns(&mut query, &|_| has_digits);
    let expr = expressions(*query)?.pop().ok_or_else(|| Error::internal("an expression was lost"))?;
    let expr = logical(state, expr, columns).map_err(|error| planning_error(&error, &engine.read().catalog()))?;
    refuse_of_rows(&expr, place)?;
    let wrong = |error: DataFusionError| error_of(&error);
    let input = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema: Arc::clone(columns) });
    let plan = LogicalPlan::Projection(Projection::try_new(vec![expr], Arc::new(input)).map_err(wrong)?);
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {});
    let plan = plan.map_err(|error| planning_error(&error, &engine.read().catalog()))?;
    let LogicalPlan::Projection(Projection { mut expr, .. }) = plan else {
        return Err(Error::internal("an expression became a query"));
    };
    let expr = expr.pop().ok_or_else(|| Error::internal("an expression was lost"))?.unalias();
    let gives = expr.get_type(columns.as_ref()).map_err(wrong)?;
    if is_of_its_time(&expr) {
        return Ok((Analysed::OfItsTime(Box::new(expr), Arc::clone(columns)), gives));
    }
    Ok((Analysed::Planned(physical(expr, columns, state.config_options(), None)?), gives))
}

fn logical(state: &SessionState, expr: ast::Expr, columns: &DFSchema) -> Result<Expr, DataFusionError> {
    state.create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, columns)
}

/// An expression as it is evaluated. Calls that only planning can write out are written out here; those that ask when their
/// statement began get `began`.
fn physical(
    expr: Expr,
    columns: &Arc<DFSchema>,
    options: &Arc<ConfigOptions>,
    began: Option<DateTime<Utc>>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let wrong = |error: DataFusionError| error_of(&error);
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(columns))
        .with_config_options(Arc::clone(options))
        .with_query_execution_start_time(began)
        .build();
    let expr = ExprSimplifier::new(context).simplify(expr).map_err(wrong)?;
    let mut properties = ExecutionProps::new();
    properties.query_execution_start_time = began;
    properties.config_options = Some(Arc::clone(options));
    create_physical_expr(&expr, columns, &properties, &PhysicalPlanningContext::default()).map_err(wrong)
}

/// Refuses what is made of several rows, or makes several.
fn refuse_of_rows(expr: &Expr, place: &str) -> Result<()> {
    let mut refused = None;
    let walked = expr.apply(|part| {
        use datafusion::common::tree_node::TreeNodeRecursion::{Continue, Stop};
        refused = match part {
            Expr::AggregateFunction(_) => {
                Some(Error::new(ErrorKind::NotGrouped, format!("aggregate functions are not allowed in {place}")))
            }
            Expr::WindowFunction(_) => Some(not_supported(format!("window functions in {place}"))),
            Expr::Unnest(_) => Some(not_supported(format!("functions that give several rows in {place}"))),
            _ => None,
        };
        Ok(if refused.is_some() { Stop } else { Continue })
    });
    walked.map_err(|error| error_of(&error))?;
    match refused {
        Some(error) => Err(error.with_hint("it is of one row alone")),
        None => Ok(()),
    }
}

/// Whether an expression has a call such as `now()`.
fn is_of_its_time(expr: &Expr) -> bool {
    let found = expr.exists(|part| {
        Ok(matches!(part, Expr::ScalarFunction(call) if call.func.signature().volatility == Volatility::Stable))
    });
    found.unwrap_or(true)
}

impl Kept {
    /// The expressions as a statement that begins now evaluates them.
    pub(super) fn physical(&self, run: &Run) -> Result<Physical> {
        let began = DateTime::from_timestamp_micros(run.engine().read().clock().wall_micros());
        let mut defaults = BTreeMap::new();
        for (place, expr) in &self.defaults {
            defaults.insert(*place, expr.physical(run.engine(), began)?);
        }
        let check = |(name, expr): &(String, Analysed)| Ok((name.clone(), expr.physical(run.engine(), began)?));
        Ok((defaults, self.checks.iter().map(check).collect::<Result<_>>()?))
    }
}

impl Analysed {
    fn physical(&self, engine: &Engine, began: Option<DateTime<Utc>>) -> Result<Arc<dyn PhysicalExpr>> {
        match self {
            Analysed::Planned(expr) => Ok(Arc::clone(expr)),
            Analysed::OfItsTime(expr, columns) => {
                physical(expr.as_ref().clone(), columns, engine.functions().config_options(), began)
            }
        }
    }
}
