//! A scan's predicate, part by part.
//!
//! Invariants:
//! - A row passes if every part is TRUE for it, in whatever order they are evaluated.
//! - Parts that may not depend on the row alone come last, so that what the parts before them match is known without them.
//! - A part that fails on a whole batch is asked again for the rows that the parts before have left: `x <> 0 AND 1 / x > 2` does
//!   not fail on rows that its first part leaves out.

use crate::form::Form;
use crate::normal::normal_form;
use alluvia_space::TableDef;
use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::{and, prep_null_mask_filter};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use std::sync::Arc;

/// Below one row in so many, the rows that are left are copied out before the next part is evaluated.
const COPIED_BELOW: usize = 5;

/// A predicate, without the expressions that evaluate it.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    parts: Vec<(Expr, Option<Arc<Form>>)>,
    /// All parts that have a form, together.
    known: Option<Arc<Form>>,
}

impl Parts {
    /// The parts of a conjunction of filters over a table. Simple conditions on one column are one part.
    pub fn new(filters: &[Expr], def: &TableDef) -> Parts {
        let mut parts: Vec<(Expr, Option<Form>)> = Vec::new();
        for filter in filters.iter().flat_map(split_conjunction) {
            let form = normal_form(filter, def);
            let column = form.as_ref().and_then(Form::only_column);
            let same = |(_, of): &&mut (Expr, Option<Form>)| {
                column.is_some() && of.as_ref().and_then(Form::only_column) == column
            };
            match (parts.iter_mut().find(same), form) {
                (Some((expr, Some(own))), Some(form)) => {
                    *expr = expr.clone().and(filter.clone());
                    *own = std::mem::take(own).and(form);
                }
                (_, form) => parts.push((filter.clone(), form)),
            }
        }
        // Stable: otherwise the order is the statement's.
        parts.sort_by_key(|(_, form)| form.is_none());
        let known = parts.iter().filter_map(|(_, form)| form.clone()).reduce(Form::and).map(Arc::new);
        Parts { parts: parts.into_iter().map(|(expr, form)| (expr, form.map(Arc::new))).collect(), known }
    }

    /// What the predicate implies: all of it that has a form.
    pub fn known(&self) -> Option<&Arc<Form>> {
        self.known.as_ref()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The parts, ready to be evaluated; `plan` makes an expression over rows.
    pub fn prepare(&self, plan: impl Fn(&Expr) -> Result<Arc<dyn PhysicalExpr>>) -> Result<Predicate> {
        let parts = self.parts.iter().map(|(expr, _)| plan(expr)).collect::<Result<Vec<_>>>()?;
        let known = self.parts.iter().take_while(|(_, form)| form.is_some()).count();
        Ok(Predicate { parts, known })
    }

    /// The forms of which [`Predicate::evaluate`] tells, by their places: each part's, and at the end that of all known parts.
    pub fn forms(&self) -> Vec<Arc<Form>> {
        self.parts.iter().map_while(|(_, form)| form.clone()).chain(self.known.clone()).collect()
    }
}

/// A predicate that can be evaluated.
#[derive(Clone, Debug)]
pub struct Predicate {
    parts: Vec<Arc<dyn PhysicalExpr>>,
    /// How many of them, from the first on, have forms.
    known: usize,
}

impl Predicate {
    /// The parts.
    pub fn parts(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.parts
    }

    /// The same where the columns of the table are those at these positions.
    pub fn over(&self, positions: &[usize]) -> Result<Predicate> {
        let moved = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let place = positions.iter().position(|&position| position == column.index());
            let place = place.ok_or_else(|| {
                DataFusionError::Internal(format!("a filter needs column {}, which is not read", column.name()))
            })?;
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
        };
        let parts = self.parts.iter().map(|part| Arc::clone(part).transform(moved).data()).collect::<Result<_>>()?;
        Ok(Predicate { parts, known: self.known })
    }

    /// All parts as one expression.
    pub fn whole(&self) -> Arc<dyn PhysicalExpr> {
        conjunction(self.parts.iter().cloned())
    }

    /// The rows for which all parts are TRUE. `tell` is told, for the place of a form, for which rows of the batch it is TRUE; not
    /// of every part, since not every one is asked of all rows.
    pub fn evaluate(&self, batch: &RecordBatch, mut tell: impl FnMut(usize, &BooleanArray)) -> Result<BooleanArray> {
        let rows = batch.num_rows();
        let mut left: Option<BooleanArray> = None;
        for (at, part) in self.parts.iter().enumerate() {
            let whole = match &left {
                Some(left) if left.true_count() * COPIED_BELOW < rows => None,
                Some(_) => part.evaluate(batch).ok(),
                None => Some(part.evaluate(batch)?),
            };
            let is_whole = whole.is_some();
            let value = match (whole, &left) {
                (Some(value), _) => value,
                (None, Some(left)) => part.evaluate_selection(batch, left)?,
                (None, None) => unreachable!("without rows left out, the part was evaluated on all"),
            };
            let array = value.into_array(rows)?;
            let mask = array.as_any().downcast_ref::<BooleanArray>().ok_or_else(|| {
                DataFusionError::Internal("a predicate gives something else than truth values".to_owned())
            })?;
            let mask = if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() };
            if is_whole && at < self.known {
                tell(at, &mask);
            }
            let mask = match &left {
                Some(left) => and(left, &mask)?,
                None => mask,
            };
            let is_none = !mask.has_true();
            // Where no row is left before the last known part, all of them together match none, too.
            if at < self.known && (at + 1 == self.known || is_none) {
                tell(self.known, &mask);
            }
            left = Some(mask);
            if is_none {
                break;
            }
        }
        Ok(left.unwrap_or_else(|| BooleanArray::from(vec![true; rows])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_fixture::table;
    use alluvia_space::DataType;
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::common::DFSchema;
    use datafusion::functions::expr_fn::random;
    use datafusion::prelude::{SessionContext, col, lit};

    fn run(filters: &[Expr]) -> (Result<BooleanArray>, Vec<(usize, usize)>, Parts) {
        let def = table("t", &[("a", DataType::Int64), ("b", DataType::Int64)]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..100)),
            Arc::new(Int64Array::from_iter((0..100).map(|row| (row % 10 > 0).then_some(row % 10)))),
        ];
        let batch = RecordBatch::try_new(def.storage_schema(), columns).expect("two columns");
        let parts = Parts::new(filters, &def);
        let schema = DFSchema::try_from(def.storage_schema()).expect("names differ");
        let session = SessionContext::new();
        let plan = |expr: &Expr| session.create_physical_expr(expr.clone(), &schema);
        let predicate = parts.prepare(plan).expect("plans");
        let mut told = Vec::new();
        let mask = predicate.evaluate(&batch, |form, mask| {
            assert_eq!((mask.len(), mask.null_count()), (100, 0));
            told.push((form, mask.true_count()));
        });
        (mask, told, parts)
    }

    #[test]
    fn parts_of_one_column_are_one_and_what_is_not_known_comes_last() {
        let filters =
            [random().gt(lit(-1.0)), col("a").gt_eq(lit(40i64)), col("b").eq(lit(3i64)), col("a").lt(lit(60i64))];
        let (mask, told, parts) = run(&filters);
        assert_eq!(mask.expect("evaluates").true_count(), 2);
        assert_eq!(told, [(0, 20), (1, 10), (2, 2)]);
        assert_eq!(parts.forms().len(), 3);
        assert!(parts.known().expect("two parts").implies(&parts.forms()[0]));
    }

    #[test]
    fn of_few_rows_left_only_these_are_asked() {
        let (mask, told, _) = run(&[col("a").lt(lit(7i64)), col("b").gt(lit(3i64))]);
        assert_eq!(mask.expect("evaluates").true_count(), 3);
        assert_eq!(told, [(0, 7), (2, 3)], "of the second part alone nothing is known");
        let (mask, told, _) = run(&[col("a").lt(lit(0i64)), col("b").gt(lit(3i64)), random().gt(lit(2.0))]);
        assert_eq!(mask.expect("evaluates").true_count(), 0);
        assert_eq!(told, [(0, 0), (2, 0)]);
    }

    #[test]
    fn a_part_does_not_fail_on_rows_that_another_leaves_out() {
        let (mask, told, _) = run(&[col("a").gt_eq(lit(50i64)), (lit(100i64) / (col("a") - lit(3i64))).gt(lit(1i64))]);
        assert_eq!(mask.expect("row 3 is left out").true_count(), 4);
        assert_eq!(told, [(0, 50), (2, 4)]);
        assert!(run(&[(lit(100i64) / (col("a") - lit(3i64))).gt(lit(1i64))]).0.is_err());
    }
}
