//! The node that stands for an aggregate that the index answers.

use super::aggregate::statement_of;
use super::exec::IndexAnswerExec;
use super::source::{Source, source_of};
use crate::answer::{Accuracy, Bound, Condition, Side, Statement, Test, Values, bind};
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

/// A small table that is read before the index is asked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Hash, Debug)]
pub(super) struct Small {
    /// The table's column that its keys are values of.
    pub(super) column: String,
    pub(super) purpose: Purpose,
    /// Gives keys in its first column, NULL among them, and nothing or what is grouped by in the others.
    pub(super) plan: LogicalPlan,
}

/// What a small table is read for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash, Debug)]
pub(super) enum Purpose {
    /// Rows without one of the keys are not needed, but may be in the answer.
    Narrow,
    /// Its join is answered with the aggregate: rows without one of the keys must not be in the answer. With `may_repeat` a key that
    /// comes several times is as good as one.
    Join { may_repeat: bool },
}

/// Where a column of the aggregate is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ColumnOf {
    /// Among the statement's items.
    Item(usize),
    /// Among what a small table is grouped by.
    Small { small: usize, place: usize },
}

/// What is asked of the index.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) context: Arc<StatementContext>,
    pub(super) read: Arc<TableRead>,
    statement: Statement,
    pub(super) bound: Arc<Bound>,
    /// The node's small tables: their columns, and what for.
    pub(super) smalls: Vec<(String, Purpose)>,
    /// The aggregate's columns, if some are small tables'.
    pub(super) columns: Option<Vec<ColumnOf>>,
    /// How exact values must be; `None` is exact.
    pub(super) accuracy: Option<Accuracy>,
}

impl Question {
    /// The same question of the rows that have one of the values in each of some columns. As it is, where the index cannot tell
    /// which those are.
    pub(super) fn among(&self, values: Vec<(String, Values)>) -> Arc<Bound> {
        let mut bound = Arc::clone(&self.bound);
        let mut statement = self.statement.clone();
        for (column, values) in values {
            statement.conditions.push(Condition::Column(column, Test::Among(values)));
            match self.bound(&statement) {
                Some(narrower) => bound = Arc::new(narrower),
                None => drop(statement.conditions.pop()),
            }
        }
        bound
    }

    /// The same question of the rows that have keys of all sides. `None` where the index cannot answer it.
    pub(super) fn joined(&self, sides: Vec<Side>) -> Option<Bound> {
        self.bound(&self.statement)?.joined(sides)
    }

    fn bound(&self, statement: &Statement) -> Option<Bound> {
        bind(statement, &self.read.entry, self.read.dictionaries.as_ref()?).ok()
    }

    /// What EXPLAIN shows of it.
    pub(super) fn describe(&self) -> String {
        self.bound.describe() + &self.small_tables()
    }

    /// What small tables are read for, by their columns.
    pub(super) fn small_tables(&self) -> String {
        let mut shown = String::new();
        let (joins, keys): (Vec<_>, Vec<_>) =
            self.smalls.iter().partition(|(_, purpose)| matches!(purpose, Purpose::Join { .. }));
        for (what, smalls) in [("keys", keys), ("joined", joins)] {
            let columns: Vec<&str> = smalls.iter().map(|(column, _)| column.as_str()).collect();
            if !columns.is_empty() {
                shown += &format!(", {what}=[{}]", columns.join(", "));
            }
        }
        shown
    }
}

/// An aggregate, and what to ask the index instead of running it.
#[derive(Clone, Debug)]
pub(super) struct IndexAnswer {
    aggregate: LogicalPlan,
    smalls: Vec<Small>,
    question: Arc<Question>,
}

/// The aggregate's answer by the index, if it can be asked. Rows that have none of the keys' values may be missing from it.
pub(super) fn answer(
    aggregate: &Aggregate,
    keys: Vec<Small>,
    accuracy: Option<Accuracy>,
    context: &Arc<StatementContext>,
) -> Option<LogicalPlan> {
    let source = source_of(&aggregate.input)?;
    let statement = statement_of(aggregate, &source)?;
    asking(LogicalPlan::Aggregate(aggregate.clone()), &source, statement, keys, None, accuracy, context)
}

/// A plan's answer by the index, which is asked this statement when the small tables have been read.
pub(super) fn asking(
    plan: LogicalPlan,
    source: &Source,
    statement: Statement,
    smalls: Vec<Small>,
    columns: Option<Vec<ColumnOf>>,
    accuracy: Option<Accuracy>,
    context: &Arc<StatementContext>,
) -> Option<LogicalPlan> {
    let read = readable(source, context)?;
    let bound = Arc::new(bind(&statement, &read.entry, read.dictionaries.as_ref()?).ok()?);
    let is_joined = |small: &Small| matches!(small.purpose, Purpose::Join { .. });
    if smalls.iter().any(|small| is_joined(small) && bound.key_level(&small.column).is_none()) {
        return None;
    }
    let named = smalls.iter().map(|small| (small.column.clone(), small.purpose)).collect();
    let (context, read) = (Arc::clone(context), Arc::new(read.clone()));
    let question = Arc::new(Question { context, read, statement, bound, smalls: named, columns, accuracy });
    let node = IndexAnswer { aggregate: plan, smalls, question };
    Some(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The table in the statement's snapshot, if all of its rows are in the index, and none of these is gone for the open
/// transaction alone: what is kept of the table between statements has it.
pub(super) fn readable<'a>(source: &Source, context: &'a StatementContext) -> Option<&'a TableRead> {
    let table = source.entry.def.id;
    let read = context.snapshot.tables.get(&table).filter(|read| read.entry.changed_at == source.entry.changed_at)?;
    (!context.pending.contains_key(&table) && !context.temporary.contains_key(&table)).then_some(read)
}

// The question follows from the aggregate, the small tables and the statement's snapshot.
impl PartialEq for IndexAnswer {
    fn eq(&self, other: &IndexAnswer) -> bool {
        self.aggregate == other.aggregate && self.smalls == other.smalls
    }
}

impl Eq for IndexAnswer {}

impl PartialOrd for IndexAnswer {
    fn partial_cmp(&self, other: &IndexAnswer) -> Option<Ordering> {
        (&self.aggregate, &self.smalls).partial_cmp(&(&other.aggregate, &other.smalls))
    }
}

impl Hash for IndexAnswer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.aggregate.hash(state);
        self.smalls.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for IndexAnswer {
    fn name(&self) -> &str {
        "IndexAnswer"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        std::iter::once(&self.aggregate).chain(self.smalls.iter().map(|small| &small.plan)).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.aggregate.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexAnswer: {}", self.question.describe())
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<IndexAnswer> {
        if inputs.len() != 1 + self.smalls.len() {
            return Err(DataFusionError::Internal("an index answer was given other inputs".to_owned()));
        }
        let plans = inputs.split_off(1);
        let smalls = self.smalls.iter().zip(plans).map(|(small, plan)| Small { plan, ..small.clone() });
        Ok(IndexAnswer { aggregate: inputs.remove(0), smalls: smalls.collect(), question: Arc::clone(&self.question) })
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
