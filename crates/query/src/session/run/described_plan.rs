//! The plan that describing a query has made, for the executions that follow.
//!
//! Invariants:
//! - A plan is executed only for the statement that was described, which is told by the identity of its text: what was
//!   parsed again, or has other values in the place of parameters, is another statement.
//! - It is executed only while all that it depends on is as it was: the definitions, and the settings of the session.
//!   A transaction that has changed definitions keeps none, and executes none.
//! - It holds no snapshot, so that it may be kept: it scans tables as they are defined, and nothing else.

use crate::table::AlluviaTable;
use alluvia_catalog::Catalog;
use alluvia_settings::Settings;
use alluvia_syntax::Statement;
use alluvia_types::Version;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;

/// The most words, literals and signs of a statement whose plan is kept: a session holds one such plan for as long as
/// it is open.
const TOKENS_MAX: usize = 1_000;

/// The logical plan of a described query, and what it depends on.
#[derive(Debug)]
pub(crate) struct DescribedPlan {
    text: Arc<str>,
    plan: LogicalPlan,
    /// The version of the definitions that it was planned by.
    definitions: Version,
    settings: Settings,
}

impl DescribedPlan {
    /// The plan of a query without parameters, if it may be kept.
    pub(crate) fn new(
        statement: &Statement,
        plan: LogicalPlan,
        catalog: &Catalog,
        settings: &Settings,
    ) -> Option<DescribedPlan> {
        let may_be_kept = statement.parameters == 0 && statement.tokens <= TOKENS_MAX && scans_tables_alone(&plan);
        may_be_kept.then(|| DescribedPlan {
            text: Arc::clone(&statement.text),
            plan,
            definitions: catalog.version,
            settings: settings.clone(),
        })
    }

    /// Whether it is of the statement that has this text.
    pub(crate) fn is_of(&self, text: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.text, text)
    }

    /// The plan, if it would be planned the same now.
    pub(crate) fn plan(&self, catalog: &Catalog, settings: &Settings) -> Option<&LogicalPlan> {
        (self.definitions == catalog.version && self.settings == *settings).then_some(&self.plan)
    }
}

/// Whether a plan scans tables by their definitions, and nothing that holds more: samples hold the snapshot that they
/// are drawn from, and the tables of functions and of the catalogs what was there when they were planned.
fn scans_tables_alone(plan: &LogicalPlan) -> bool {
    let mut are_tables = true;
    let walked = plan.apply_with_subqueries(|node| {
        are_tables &= match node {
            LogicalPlan::TableScan(scan) => source_as_provider(&scan.source)
                .is_ok_and(|provider| provider.downcast_ref::<AlluviaTable>().is_some_and(|table| !table.is_drawn())),
            LogicalPlan::Extension(_) => false,
            _ => true,
        };
        Ok(if are_tables { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && are_tables
}
