//! What stands in a logical plan.

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The next number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// One reader of rows that are computed once. Copies of it are other readers of the same rows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Hash, Debug)]
pub struct SharedRows {
    /// The same for all readers, and for no other rows.
    number: u64,
    input: LogicalPlan,
}

impl SharedRows {
    /// The rows of a plan, for all who read a copy of this.
    pub fn of(input: LogicalPlan) -> Result<LogicalPlan> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let rows = LogicalPlan::Extension(Extension { node: Arc::new(SharedRows { number, input }) });
        // DataFusion would put conditions that have no columns below, of this reader alone. It puts none below a limit.
        LogicalPlanBuilder::from(rows).limit(0, Some(i64::MAX as usize))?.build()
    }

    /// What all readers of these rows have.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl UserDefinedLogicalNodeCore for SharedRows {
    fn name(&self) -> &str {
        "SharedRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRows")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<SharedRows> {
        let [input] = <[LogicalPlan; 1]>::try_from(inputs).or_else(|_| internal_err!("shared rows have one input"))?;
        Ok(SharedRows { number: self.number, input })
    }
}
