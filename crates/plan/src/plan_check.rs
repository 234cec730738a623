//! What tests ask of every plan that is optimized; a process that asks nothing pays nothing.
//!
//! Invariant: a check changes no plan. A plan that fails it fails its statement, so that a test of the statement shows it.

use alluvia_functions::codec;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF, SimpleScalarUDF, WindowFunctionDefinition};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::OnceLock;

/// Fails of a plan that is not as it should be.
pub type PlanCheck = fn(&LogicalPlan) -> Result<()>;

static CHECK: OnceLock<PlanCheck> = OnceLock::new();

/// Has every plan checked of sessions that are made from now on in this process.
pub fn check_every_plan(check: PlanCheck) {
    let _ = CHECK.set(check);
}

/// The rule that checks, if there is a check.
pub(crate) fn rule() -> Option<CheckedPlan> {
    CHECK.get().map(|check| CheckedPlan(*check))
}

/// Checks what the rules before it have made.
#[derive(Debug)]
pub(crate) struct CheckedPlan(PlanCheck);

impl OptimizerRule for CheckedPlan {
    fn name(&self) -> &str {
        "checked_plan"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.0)(&plan)?;
        Ok(Transformed::no(plan))
    }
}

/// Every function of a plan is what it was after it has become bytes ([`codec`]). A session's own functions, which read its snapshot, are
/// passed over.
pub fn functions_survive_encoding(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                survives_encoding(expr)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

fn survives_encoding(expr: &Expr) -> Result<()> {
    let (name, survives) = match expr {
        Expr::ScalarFunction(call) if !is_of_session(&call.func) => {
            (call.func.name(), codec::decode_scalar(&codec::encode_scalar(&call.func)?)? == call.func)
        }
        Expr::AggregateFunction(AggregateFunction { func, .. }) => {
            (func.name(), codec::decode_aggregate(&codec::encode_aggregate(func)?)? == *func)
        }
        Expr::WindowFunction(call) => match &call.as_ref() {
            WindowFunction { fun: WindowFunctionDefinition::AggregateUDF(func), .. } => {
                (func.name(), codec::decode_aggregate(&codec::encode_aggregate(func)?)? == *func)
            }
            WindowFunction { fun: WindowFunctionDefinition::WindowUDF(func), .. } => {
                (func.name(), codec::decode_window(&codec::encode_window(func)?)? == *func)
            }
        },
        _ => return Ok(()),
    };
    if survives { Ok(()) } else { internal_err!("the function {name} is another one after it was encoded") }
}

/// Functions of settings, which are those of their session.
const OF_SETTINGS: [&str; 3] = ["current_setting", "set_config", "pg_backend_pid"];

/// Functions of sequences, which take values for their session.
const OF_SEQUENCES: [&str; 4] = ["nextval", "currval", "lastval", "setval"];

/// How casts to numbers of the catalog begin, which look names up for their session.
const OF_CATALOG: &str = "pg_catalog_reg";

/// How functions of advisory locks begin, which hold them for their session.
const OF_LOCKS: [&str; 2] = ["pg_advisory_", "pg_try_advisory_"];

fn is_of_session(function: &ScalarUDF) -> bool {
    let name = function.name();
    function.inner().is::<SimpleScalarUDF>()
        || OF_SEQUENCES.contains(&name)
        || OF_SETTINGS.contains(&name)
        || name.starts_with(OF_CATALOG)
        || OF_LOCKS.iter().any(|locks| name.starts_with(locks))
}
