//! The node that stands for an aggregate of rows that lie elsewhere.

use crate::aggregate::AskedAggregate;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An aggregate, and what to ask for in the place of its rows.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    pub aggregate: LogicalPlan,
    pub asked: Arc<AskedAggregate>,
}

// What is asked follows from the aggregate and the statement's snapshot.
impl PartialEq for Elsewhere {
    fn eq(&self, other: &Elsewhere) -> bool {
        self.aggregate == other.aggregate
    }
}

impl Eq for Elsewhere {}

impl PartialOrd for Elsewhere {
    fn partial_cmp(&self, other: &Elsewhere) -> Option<Ordering> {
        self.aggregate.partial_cmp(&other.aggregate)
    }
}

impl Hash for Elsewhere {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.aggregate.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for Elsewhere {
    fn name(&self) -> &str {
        "Elsewhere"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.aggregate]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.aggregate.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elsewhere: table={}", self.asked.source.name)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Elsewhere> {
        match inputs.pop() {
            Some(aggregate) if inputs.is_empty() => Ok(Elsewhere { aggregate, asked: Arc::clone(&self.asked) }),
            _ => internal_err!("an aggregate elsewhere has one input"),
        }
    }
}

/// Plans such nodes.
pub struct ElsewherePlanner;

#[async_trait]
impl ExtensionPlanner for ElsewherePlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [aggregate]) = (node.as_any().downcast_ref::<Elsewhere>(), inputs) else { return Ok(None) };
        node.asked.planned(aggregate, session).map(Some)
    }
}
