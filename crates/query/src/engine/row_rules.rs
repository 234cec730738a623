//! Expressions of tables' definitions, as they were planned last: kept between statements, by table, definition and time zone.
//!
//! Who plans and evaluates them is [`rules`](crate::session::rules).

use alluvia_types::{TableId, Version};
use alluvia_values::time_zone::Zone;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Definitions whose expressions are kept.
const KEPT_MAX: usize = 256;

/// The expressions of a definition.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Defaults by the places of their columns.
    pub(crate) defaults: Vec<(usize, Analysed)>,
    /// Conditions by their names.
    pub(crate) checks: Vec<(String, Analysed)>,
}

/// An expression with its types.
#[derive(Debug)]
pub(crate) enum Analysed {
    /// It is the same for all statements.
    Planned(Arc<dyn PhysicalExpr>),
    /// It depends on when its statement began.
    OfItsTime(Box<Expr>, Arc<DFSchema>),
}

/// The expressions of definitions that were used last.
#[derive(Debug, Default)]
pub(crate) struct KeptRules(Mutex<HashMap<RulesKey, Arc<Kept>>>);

/// A table, the version of its definition, and the time zone of the session, in which its expressions were planned.
pub(crate) type RulesKey = (TableId, Version, Zone);

impl KeptRules {
    /// Those of a table by the version of its definition.
    pub(crate) fn get(&self, key: &RulesKey) -> Option<Arc<Kept>> {
        self.0.lock().get(key).cloned()
    }

    /// Keeps them.
    pub(crate) fn put(&self, key: RulesKey, kept: &Arc<Kept>) {
        let mut known = self.0.lock();
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(kept));
    }
}
