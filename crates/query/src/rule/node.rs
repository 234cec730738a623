//! The node that stands for an aggregate that the index answers.

use super::aggregate::statement_of;
use super::exec::IndexAnswerExec;
use super::source::{Source, source_of};
use crate::answer::{Bound, Condition, Statement, Test, Values, bind};
use crate::table::StatementContext;
use alluvia_snapshot::TableRead;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, DataFusionError, Result};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Aggregate, Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Values that a column of the table must have one of, or its row is not needed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Hash, Debug)]
pub(super) struct Keys {
    /// The table's column.
    pub(super) column: String,
    /// Gives the values in its only column, maybe several times, NULL among them.
    pub(super) plan: LogicalPlan,
}

/// What is asked of the index.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) context: Arc<StatementContext>,
    pub(super) read: Arc<TableRead>,
    statement: Statement,
    pub(super) bound: Arc<Bound>,
    /// The columns of the node's keys.
    pub(super) key_columns: Vec<String>,
}

impl Question {
    /// The same question of the rows that have one of the values in each of some columns. As it is, where the index cannot tell
    /// which those are.
    pub(super) fn among(&self, values: Vec<(String, Values)>) -> Arc<Bound> {
        let mut bound = Arc::clone(&self.bound);
        let mut statement = self.statement.clone();
        for (column, values) in values {
            statement.conditions.push(Condition::Column(column, Test::Among(values)));
            let dictionaries = self.read.dictionaries.as_ref();
            match dictionaries.and_then(|dictionaries| bind(&statement, &self.read.entry, dictionaries)) {
                Some(narrower) => bound = Arc::new(narrower),
                None => drop(statement.conditions.pop()),
            }
        }
        bound
    }
}

/// An aggregate, and what to ask the index instead of running it.
#[derive(Clone, Debug)]
pub(super) struct IndexAnswer {
    aggregate: LogicalPlan,
    keys: Vec<Keys>,
    question: Arc<Question>,
}

/// The aggregate's answer by the index, if it can be asked. Rows that have none of the keys' values may be missing from it.
pub(super) fn answer(aggregate: &Aggregate, keys: Vec<Keys>, context: &Arc<StatementContext>) -> Option<LogicalPlan> {
    let source = source_of(&aggregate.input)?;
    let read = readable(&source, context)?;
    let statement = statement_of(aggregate, &source)?;
    let bound = Arc::new(bind(&statement, &read.entry, read.dictionaries.as_ref()?)?);
    let key_columns = keys.iter().map(|keys| keys.column.clone()).collect();
    let question =
        Question { context: Arc::clone(context), read: Arc::new(read.clone()), statement, bound, key_columns };
    let node = IndexAnswer { aggregate: LogicalPlan::Aggregate(aggregate.clone()), keys, question: Arc::new(question) };
    Some(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The table in the statement's snapshot, if all of its rows are in the index.
pub(super) fn readable<'a>(source: &Source, context: &'a StatementContext) -> Option<&'a TableRead> {
    let table = source.entry.def.id;
    let read = context.snapshot.tables.get(&table).filter(|read| read.entry.changed_at == source.entry.changed_at)?;
    let is_pending = context.pending.get(&table).is_some_and(|runs| runs.iter().any(|run| run.num_rows() > 0));
    (!is_pending).then_some(read)
}

// The question follows from the aggregate, the keys and the statement's snapshot.
impl PartialEq for IndexAnswer {
    fn eq(&self, other: &IndexAnswer) -> bool {
        self.aggregate == other.aggregate && self.keys == other.keys
    }
}

impl Eq for IndexAnswer {}

impl PartialOrd for IndexAnswer {
    fn partial_cmp(&self, other: &IndexAnswer) -> Option<Ordering> {
        (&self.aggregate, &self.keys).partial_cmp(&(&other.aggregate, &other.keys))
    }
}

impl Hash for IndexAnswer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.aggregate.hash(state);
        self.keys.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for IndexAnswer {
    fn name(&self) -> &str {
        "IndexAnswer"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        std::iter::once(&self.aggregate).chain(self.keys.iter().map(|keys| &keys.plan)).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.aggregate.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexAnswer: {}", self.question.bound.describe())
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<IndexAnswer> {
        if inputs.len() != 1 + self.keys.len() {
            return Err(DataFusionError::Internal("an index answer was given other inputs".to_owned()));
        }
        let plans = inputs.split_off(1);
        let keys = self.keys.iter().zip(plans).map(|(keys, plan)| Keys { column: keys.column.clone(), plan });
        Ok(IndexAnswer { aggregate: inputs.remove(0), keys: keys.collect(), question: Arc::clone(&self.question) })
    }
}

/// Plans our nodes.
pub(super) struct IndexAnswerPlanner;

#[async_trait]
impl ExtensionPlanner for IndexAnswerPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(answer) = node.as_any().downcast_ref::<IndexAnswer>() else { return Ok(None) };
        Ok(Some(Arc::new(IndexAnswerExec::try_new(Arc::clone(&answer.question), inputs.to_vec())?)))
    }
}
