//! Aggregates of one table's rows, asked where these lie and merged here.
//!
//! DataFusion plans an aggregate as a final aggregation over a partial one. The partial one, with all below it, is what the parts of the
//! table are asked for; the final one stays, and merges the states that they answer.

use crate::answers::{AnswersExec, Source};
use crate::node::Elsewhere;
use crate::part::{Form, Part};
use crate::values::{Makers, values_of};
use alluvia_snapshot::AskedPart;
use arrow::datatypes::FieldRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

/// Aggregates whose states merge to the same value in any order.
const MERGED: [&str; 17] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "var",
    "var_pop",
    "stddev",
    "stddev_pop",
    "covar_samp",
    "covar_pop",
    "corr",
];

/// An aggregate of rows that lie elsewhere.
#[derive(Clone, Debug)]
pub struct AskedAggregate {
    /// Which table is asked.
    pub source: Source,
    /// Its columns.
    pub table: Arc<dyn TableProvider>,
    /// All are true of its rows; over the table's own columns, as are the others.
    pub filters: Vec<Expr>,
    /// What rows are grouped by.
    pub groups: Vec<Expr>,
    /// The aggregates, without names.
    pub functions: Vec<Expr>,
}

/// The plan of an aggregate, asked elsewhere where that is possible.
pub fn elsewhere(aggregate: LogicalPlan, asked: AskedAggregate) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(Elsewhere { aggregate, asked: Arc::new(asked) }) })
}

impl AskedAggregate {
    /// What stands for the aggregate, as it is planned over rows that come here: its final half over what is answered. As it is, where
    /// that cannot be asked for.
    pub(crate) fn planned(
        &self,
        aggregate: &Arc<dyn ExecutionPlan>,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let unchanged = || Ok(Arc::clone(aggregate));
        let Some(last) = aggregate.downcast_ref::<AggregateExec>() else { return unchanged() };
        let Some(partial) = last.input().downcast_ref::<AggregateExec>() else { return unchanged() };
        if *partial.mode() != AggregateMode::Partial || partial.aggr_expr().len() != self.functions.len() {
            return unchanged();
        }
        let Some(answers) = self.asked(partial, session)? else { return unchanged() };
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(aggregate).replace_children(vec![Arc::new(answers)], options)
    }

    fn asked(&self, partial: &AggregateExec, session: &dyn Session) -> Result<Option<AnswersExec>> {
        let states: Vec<Vec<FieldRef>> =
            partial.aggr_expr().iter().map(|function| function.state_fields()).collect::<Result<_>>()?;
        let schema = partial.schema();
        let counted = self.groups.len() + states.iter().map(Vec::len).sum::<usize>();
        if counted != schema.fields().len() {
            return Ok(None);
        }
        let part = |form, functions: &[Expr]| {
            let (filters, groups) = (self.filters.clone(), self.groups.clone());
            Part::aggregates(form, &self.table, filters, groups, functions.to_vec()).ok()?.encode()
        };
        let answers = |plan, made| {
            let (source, uses) = (self.source.clone(), self.source.uses);
            let part = AskedPart { plan, is_small: true, uses };
            AnswersExec::new(source, part, made, Arc::clone(&schema), self.shown())
        };
        let rows = DFSchema::try_from(self.table.schema())?;
        let function = |name| session.aggregate_functions().get(name).cloned();
        if let (Some(count), Some(sum)) = (function("count"), function("sum"))
            && let Some((values, made)) = values_of(&self.functions, &states, &Makers { count, sum }, &rows)?
            && let Some(plan) = part(Form::Values, &values)
        {
            return Ok(Some(answers(plan, Some((self.groups.len(), made.into())))));
        }
        let are_merged = self.functions.iter().all(is_merged);
        let plan = if are_merged { part(Form::States, &self.functions) } else { None };
        Ok(plan.map(|plan| answers(plan, None)))
    }

    fn shown(&self) -> String {
        let list = |exprs: &[Expr]| exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut shown = format!("groups=[{}], aggregates=[{}]", list(&self.groups), list(&self.functions));
        if !self.filters.is_empty() {
            shown += &format!(", filters=[{}]", list(&self.filters));
        }
        shown
    }
}

fn is_merged(function: &Expr) -> bool {
    let Expr::AggregateFunction(call) = function else { return false };
    MERGED.contains(&call.func.name()) && call.params.order_by.is_empty() && call.params.null_treatment.is_none()
}
