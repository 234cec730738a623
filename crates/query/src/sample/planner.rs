//! Where planning meets a sample: every table factor of a statement comes by here. So does a function of one value in FROM.

use super::clause::{Clause, read};
use super::outline::GapTable;
use crate::sample::thin;
use crate::table::{AlluviaTable, Draw, Sample, StatementContext, Unit, sql_schema};
use alluvia_space::weight::weight;
use alluvia_syntax::names::name_of;
use alluvia_syntax::sample::thin::is_call;
use alluvia_syntax::trees::rewriting::call_with;
use alluvia_types::{Error, ErrorKind, Version};
use alluvia_values::errors::{not_supported, wrap};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::{DFSchema, DataFusionError, TableReference};
use datafusion::logical_expr::logical_plan::SubqueryAlias;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, TableScan, TableScanBuilder};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, TableAlias, TableFactor, TableSampleKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Result<T> = std::result::Result<T, DataFusionError>;

/// Plans the samples of one statement.
#[derive(Debug)]
pub(crate) struct SamplePlanner {
    context: Arc<StatementContext>,
    /// No other statement has it.
    number: u64,
    /// Samples without a seed so far.
    drawn: AtomicU64,
    /// Whether the plan only tells types, so that parameters may lack values.
    describes: bool,
    /// Whether the plan is an outline, which has a gap where the drawn rows come in.
    leaves_gap: bool,
}

impl SamplePlanner {
    /// For a statement that reads `context`. `number` is one that no other statement has.
    pub(crate) fn new(context: Arc<StatementContext>, number: u64, describes: bool) -> SamplePlanner {
        SamplePlanner { context, number, drawn: AtomicU64::new(0), describes, leaves_gap: false }
    }

    /// As this, for an outline.
    pub(crate) fn leaving_gap(self) -> SamplePlanner {
        SamplePlanner { leaves_gap: true, ..self }
    }

    /// A table with TABLESAMPLE behind it; `factor` is the table without both.
    fn sampled(
        &self,
        factor: TableFactor,
        kind: &TableSampleKind,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let named = factor.to_string();
        let clause = read(kind, self.describes).map_err(wrap)?;
        let planned = context.plan(factor)?;
        if matches!(planned, LogicalPlan::SubqueryAlias(_)) {
            let message = "TABLESAMPLE clause can only be applied to tables and materialized views";
            let error = Error::new(ErrorKind::WrongObject, message);
            return Err(wrap(
                error
                    .with_hint(format!("{named} is a view, or a query of WITH: put it behind the table that it reads")),
            ));
        }
        let (scan, table) = table_of(planned).ok_or_else(|| {
            wrap(
                not_supported(format!("TABLESAMPLE on {named}"))
                    .with_hint("samples are drawn of tables: put it behind the table that is read"),
            )
        })?;
        let Clause { unit, percent, seed, .. } = clause;
        let (drawn, repeatable) = match seed {
            Some(seed) => (0, format!(" REPEATABLE ({seed})")),
            None => {
                let drawn = 1 + self.drawn.fetch_add(1, Ordering::Relaxed);
                (drawn, format!(" #{drawn}"))
            }
        };
        let method = if unit == Unit::Row { "BERNOULLI" } else { "SYSTEM" };
        let name = format!("{} TABLESAMPLE {method} ({percent}){repeatable}", scan.table_name);
        let draw = draw_of(&clause, table.entry().def.seed, self.number, drawn);
        let provider: Arc<dyn TableProvider> = match self.leaves_gap {
            true => Arc::new(GapTable::new(sql_schema(&table.entry().def))),
            false => Arc::new(table.drawn(draw)),
        };
        let drawn = TableScanBuilder::new(TableReference::bare(name), provider_as_source(provider));
        let drawn = Arc::new(LogicalPlan::TableScan(drawn.build()?));
        Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(drawn, scan.table_name)?))
    }
}

/// What a clause draws of a table whose own seed is `own`. Without a seed to repeat it by it is the `drawn`-th sample, from 1, of the
/// statement that has this `number`.
pub(super) fn draw_of(clause: &Clause, own: u64, number: u64, drawn: u64) -> Draw {
    let Clause { unit, below, seed, percent: _ } = *clause;
    let seed = match seed {
        Some(seed) => weight(Version(seed.to_bits()), 0, own),
        None => weight(Version(number), drawn, own),
    };
    Draw { sample: Some(Sample { unit, seed, below }), ..Draw::default() }
}

/// The scan of a user's table, if that is all there is.
pub(super) fn table_of(plan: LogicalPlan) -> Option<(TableScan, AlluviaTable)> {
    let LogicalPlan::TableScan(scan) = plan else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<AlluviaTable>()?.clone();
    Some((scan, table))
}

/// The name of a function of one value that is called in FROM.
fn scalar_called(name: &ObjectName, context: &dyn RelationPlannerContext) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    let name = name_of(part.as_ident()?);
    // Of these names there are functions of rows, too, which are meant in FROM.
    if matches!(name.as_str(), "generate_series" | "range" | "unnest") {
        return None;
    }
    let provider = context.context_provider();
    let is_scalar = provider.get_function_meta(&name).is_some() || provider.get_higher_order_meta(&name).is_some();
    is_scalar.then_some(name)
}

impl RelationPlanner for SamplePlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let mut relation = relation;
        let planned = match &mut relation {
            TableFactor::Table { name, args: Some(args), alias, sample: None, .. } if is_call(name) => {
                let plan = thin::plan(args, context, &self.context, self.describes, self.leaves_gap)?;
                PlannedRelation::new(plan, alias.take())
            }
            // `FROM upper('a') AS result` is a row of one value, as in PostgreSQL.
            TableFactor::Table { name, args: Some(args), alias, sample: None, .. }
                if let Some(function) = scalar_called(name, &*context) =>
            {
                let column = match &*alias {
                    Some(alias) => alias.columns.first().map_or(&alias.name, |column| &column.name).clone(),
                    None => Ident::with_quote('"', function),
                };
                let schema = DFSchema::empty();
                let call = call_with(name.clone(), std::mem::take(&mut args.args));
                let value = context.sql_to_expr(call, &schema)?.alias(context.normalize_ident(column.clone()));
                let plan = LogicalPlanBuilder::empty(true).project([value])?.build()?;
                let called = TableAlias { explicit: true, name: column, columns: Vec::new(), at: None };
                PlannedRelation::new(plan, Some(alias.take().unwrap_or(called)))
            }
            TableFactor::Table { alias, sample, args: None, .. } if sample.is_some() => {
                let (alias, sample) = (alias.take(), sample.take());
                let Some(sample) = sample else { return Ok(RelationPlanning::Original(Box::new(relation))) };
                PlannedRelation::new(self.sampled(relation, &sample, context)?, alias)
            }
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                return Err(wrap(Error::new(ErrorKind::NotSupported, "TABLESAMPLE here is not supported")));
            }
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}
