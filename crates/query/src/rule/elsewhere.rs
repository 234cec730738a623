//! Aggregates of tables whose rows lie on other machines: asked there, merged here.

use super::node::readable;
use super::source::{Source, source_of};
use crate::table::{AlluviaTable, StatementContext, goes_by_clocks};
use alluvia_rows::is_waiting;
use alluvia_snapshot::TableRead;
use alluvia_spread::aggregate::AskedAggregate;
use alluvia_spread::{Source as Asked, elsewhere};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use std::sync::Arc;

/// The plan with nodes in the place of such aggregates.
pub(super) fn asked(plan: LogicalPlan, context: &Arc<StatementContext>, is_utc: bool) -> Result<LogicalPlan> {
    let replaced = plan.transform_up_with_subqueries(|plan| {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        Ok(match asked_of(aggregate, context, is_utc) {
            Some(asked) => Transformed::yes(elsewhere(plan, asked)),
            None => Transformed::no(plan),
        })
    })?;
    Ok(replaced.data)
}

fn asked_of(aggregate: &Aggregate, context: &StatementContext, is_utc: bool) -> Option<AskedAggregate> {
    let source = source_of(&aggregate.input)?;
    let is_asked = |read: &&TableRead| read.is_elsewhere && !is_waiting(read.entry.changed_at);
    readable(&source, context).filter(is_asked)?;
    if context.sample_fraction < 1.0 || aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return None;
    }
    let resolved = |exprs: &[Expr]| exprs.iter().map(|expr| source.resolve(expr)).collect::<Option<Vec<Expr>>>();
    let (groups, functions) = (resolved(&aggregate.group_expr)?, resolved(&aggregate.aggr_expr)?);
    let Source { entry, predicates: filters, .. } = source;
    let all = || filters.iter().chain(&groups).chain(&functions);
    if !is_utc && all().any(goes_by_clocks) {
        return None;
    }
    let source = Asked {
        store: Arc::clone(&context.store),
        table: entry.def.id,
        name: entry.def.name.clone(),
        version: context.snapshot.version,
        uses: context.uses(),
    };
    let table = Arc::new(AlluviaTable::new(entry));
    Some(AskedAggregate { source, table, filters, groups, functions })
}
