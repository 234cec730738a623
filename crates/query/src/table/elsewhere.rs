//! Scans of tables whose rows lie on other machines.
//!
//! Invariants:
//! - Filters that travel are asked with the rows; if one does not, all are looked at here, too.
//! - What is asked there means what it means here: a part knows no session, so that of one in another time zone what goes by clocks stays.

use super::provider::AlluviaTable;
use super::scan::{Scan, Sieve, Skipped};
use alluvia_snapshot::AskedPart;
use alluvia_spread::{AnswersExec, Part, Source};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use std::sync::Arc;

/// Whether an expression may mean something else in a session of another time zone. It says so where it is not sure.
pub(crate) fn goes_by_clocks(expr: &Expr) -> bool {
    let mut found = false;
    let looked = expr.apply(|expr| {
        found |= matches!(expr, Expr::ScalarFunction(_) | Expr::Cast(_) | Expr::TryCast(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || looked.is_err()
}

/// Whether a statement's session shows moments in UTC.
pub(crate) fn is_utc(session: &dyn Session) -> bool {
    session.config_options().execution.time_zone.as_deref() == Some("UTC")
}

/// A part as bytes, and the filters that are in it.
type Sent = (Arc<[u8]>, Vec<Expr>);

/// The part that asks for these columns of the rows that pass filters, of which it has those that travel.
fn part_of(
    table: &Arc<dyn TableProvider>,
    columns: &[usize],
    filters: &[Expr],
    limit: Option<usize>,
    is_utc: bool,
) -> Result<Option<Sent>> {
    let part = |filters: Vec<Expr>| Part::rows(table, columns.to_vec(), filters, limit).map(|part| part.encode());
    let sent: Vec<Expr> = filters.iter().filter(|filter| is_utc || !goes_by_clocks(filter)).cloned().collect();
    if let Some(all) = part(sent.clone())? {
        return Ok(Some((all, sent)));
    }
    let mut those = Vec::new();
    for filter in sent {
        if part(vec![filter.clone()])?.is_some() {
            those.push(filter);
        }
    }
    Ok(part(those.clone())?.map(|part| (part, those)))
}

impl Scan<'_> {
    /// The scan of a table whose rows lie elsewhere, and of the open transaction's rows.
    pub(super) fn elsewhere(&self, filters: &[Expr], is_utc: bool) -> Result<Arc<dyn ExecutionPlan>> {
        let table: Arc<dyn TableProvider> = Arc::new(AlluviaTable::new(Arc::new(self.entry.clone())));
        let columns = &self.projected.indices;
        let wanted = &columns[..self.wanted];
        let asked = match part_of(&table, wanted, filters, self.limit, is_utc)? {
            Some((part, sent)) if sent.len() == filters.len() => Some((part, sent, wanted)),
            _ => part_of(&table, columns, filters, self.limit, is_utc)?.map(|(part, sent)| (part, sent, &columns[..])),
        };
        let Some((plan, sent, given)) = asked else {
            return datafusion::common::internal_err!("columns of table {} do not travel", self.entry.def.name);
        };
        let mut shown = format!("columns={}", given.len());
        if !sent.is_empty() {
            let list: Vec<String> = sent.iter().map(ToString::to_string).collect();
            shown += &format!(", filters=[{}]", list.join(", "));
        }
        let source = Source {
            store: Arc::clone(&self.context.store),
            table: self.entry.def.id,
            name: self.entry.def.name.clone(),
            version: self.context.snapshot.version,
            uses: self.context.uses(),
        };
        let schema = Arc::new(self.schema.project(given)?);
        let part = AskedPart { plan, is_small: false, uses: source.uses };
        let answers: Arc<dyn ExecutionPlan> = Arc::new(AnswersExec::rows(source, part, schema, shown));
        let is_whole = sent.len() == filters.len();
        let rows = if is_whole { answers } else { self.sift(answers, &Sieve::OPEN, None, None)? };
        match self.context.pending.get(&self.entry.def.id) {
            Some(pending) if pending.iter().any(|rows| rows.num_rows() > 0) => {
                let pending: Vec<_> = pending.iter().collect();
                let pending = self.tail(std::iter::empty(), &pending, None, Skipped::default())?;
                UnionExec::try_new(vec![rows, pending])
            }
            _ => Ok(rows),
        }
    }
}
