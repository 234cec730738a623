//! A kept plan: which keys it reads, and what it makes of their rows.

use super::aggregates::Aggregates;
use super::between::KeysBetween;
use super::values::{of_literal, of_parameter};
use crate::answer::NamedView;
use crate::by_key::{FoundRows, NamedKeys};
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_skipping::Predicate;
use alluvia_snapshot::{Read, TableRead};
use alluvia_space::TableDef;
use alluvia_syntax::alike::{AlikeText, Compared, ComparedWith, Literal};
use alluvia_tree::RowColumns;
use alluvia_types::Version;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;

/// The plan of a point read.
#[derive(Debug)]
pub(crate) struct PointPlan {
    pub(super) name: RelationName,
    /// The view that this is the name of.
    pub(super) view: Option<NamedView>,
    pub(super) entry: Arc<TableEntry>,
    /// What each column of the key is compared with, in the order of the key.
    pub(super) key: Vec<Compared<ComparedWith>>,
    /// The literals of the text that are no key's, by their places.
    pub(super) fixed: Vec<(usize, Literal<'static>)>,
    /// The columns that are read, by their places in the definition.
    pub(super) columns: Vec<usize>,
    /// The same as rows are read in them.
    pub(super) row_columns: Arc<RowColumns>,
    /// The same under their SQL names.
    pub(super) read: SchemaRef,
    /// What rows must pass beside their keys.
    pub(super) filter: Predicate,
    /// What is made of all rows together, before it is shown.
    pub(super) aggregates: Option<Aggregates>,
    pub(super) shown: Vec<Arc<dyn PhysicalExpr>>,
    /// Of the answer.
    pub(super) schema: SchemaRef,
    /// Of the session that it was planned for: functions look at it.
    pub(super) memory_limit_bytes: u64,
}

impl PointPlan {
    /// The table that it reads, or the view of it, by the name that its text has.
    pub(crate) fn name(&self) -> &RelationName {
        &self.name
    }

    /// The view that its text names, if it does.
    pub(crate) fn view(&self) -> Option<&NamedView> {
        self.view.as_ref()
    }

    /// The table that it reads.
    pub(crate) fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// The columns that are read, by their places in the definition.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The same as rows are read in them.
    pub(crate) fn row_columns(&self) -> &Arc<RowColumns> {
        &self.row_columns
    }

    /// The columns of the answer.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// For each column of the answer the place of the column, among those that are read, that it is as it is.
    pub(crate) fn shown_places(&self) -> impl Iterator<Item = Option<usize>> {
        self.shown.iter().map(|shown| shown.downcast_ref::<Column>().map(Column::index))
    }

    /// Whether a session that may hold so many bytes would plan it the same, on a table that is defined so.
    pub(crate) fn holds(&self, entry: &TableEntry, memory_limit_bytes: u64) -> bool {
        let is_same = entry.def.id == self.entry.def.id && entry.changed_at == self.entry.changed_at;
        is_same && self.memory_limit_bytes == memory_limit_bytes
    }

    /// Whether it is of a text with the same skeleton as this one's.
    pub(super) fn is_of(&self, text: &AlikeText) -> bool {
        self.fixed.iter().all(|(at, literal)| text.literals().get(*at) == Some(literal))
    }

    /// The keys that a text asks for, with values for its parameters; `None` where only the planner knows.
    pub(crate) fn keys(&self, text: &AlikeText, parameters: &[ScalarValue]) -> Option<PointKeys> {
        let def = &self.entry.def;
        let column = |(compared, at): (&Compared<ComparedWith>, usize)| {
            let data_type = def.columns[at].data_type;
            compared.try_map(|with| match *with {
                ComparedWith::Literal { at, is_negative } => {
                    of_literal(text.literals().get(at)?, is_negative, data_type)
                }
                ComparedWith::Parameter(number) => of_parameter(parameters.get(number.checked_sub(1)?)?, data_type),
            })
        };
        let compared = self.key.iter().zip(def.key_columns()?).map(column).collect::<Option<Vec<_>>>()?;
        PointKeys::new(&compared, def)
    }

    /// The answer, of rows in the columns that are read, among which are those that have the keys.
    pub(crate) fn answer(&self, rows: &RecordBatch, keys: &PointKeys) -> Result<RecordBatch> {
        let options = |rows: usize| RecordBatchOptions::new().with_row_count(Some(rows));
        let count = rows.num_rows();
        let columns = rows.columns().to_vec();
        let mut rows = RecordBatch::try_new_with_options(Arc::clone(&self.read), columns, &options(count))?;
        if let PointKeys::Between(between) = keys {
            rows = between.among(&rows, &self.columns)?;
        }
        if rows.num_rows() > 0 && !self.filter.parts().is_empty() {
            rows = filter_record_batch(&rows, &self.filter.evaluate(&rows, |_, _| {})?)?;
        }
        if let Some(aggregates) = &self.aggregates {
            rows = aggregates.of(&rows)?;
        }
        let count = rows.num_rows();
        if count == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let shown =
            self.shown.iter().map(|expr| expr.evaluate(&rows)?.into_array(count)).collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), shown, &options(count))?)
    }
}

/// The keys that a statement asks for.
#[derive(Debug)]
pub(crate) enum PointKeys {
    /// One key.
    One(NamedKeys),
    /// Those between two.
    Between(KeysBetween),
}

impl PointKeys {
    /// Of what the columns of the key are compared with, in its order; `None` where only the planner knows.
    pub(super) fn new(compared: &[Compared<ScalarValue>], def: &TableDef) -> Option<PointKeys> {
        let equal: Option<Vec<ScalarValue>> = compared.iter().map(|compared| compared.equal.clone()).collect();
        match equal {
            Some(values) => NamedKeys::of_key(&values, def).map(PointKeys::One),
            None => KeysBetween::new(compared, def).map(PointKeys::Between),
        }
    }

    /// Whether others are the same.
    pub(super) fn is_same_as(&self, others: &PointKeys) -> bool {
        match (self, others) {
            (PointKeys::One(keys), PointKeys::One(others)) => keys.is_same_as(others),
            (PointKeys::Between(between), PointKeys::Between(others)) => between.is_same_as(others),
            _ => false,
        }
    }

    /// The row of a table in a snapshot of this version that has the one key, in these columns, if nothing is waited for and no file is read.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub(crate) fn read_now(
        &self,
        store: &dyn Read,
        version: Version,
        read: &TableRead,
        columns: &Arc<RowColumns>,
    ) -> alluvia_types::Result<Option<(FoundRows, RecordBatch)>> {
        let PointKeys::One(keys) = self else { return Ok(None) };
        let Some(found) = keys.find_now(store, version, read)? else { return Ok(None) };
        let rows = read.rows_in_memory(found.rows(), columns)?;
        Ok(rows.map(|rows| (found, rows)))
    }

    /// Rows of a table in a snapshot of this version among which are all that have them; `None` where a plan is to look for them. May read
    /// files.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub(crate) fn find(
        &self,
        store: &dyn Read,
        version: Version,
        read: &TableRead,
    ) -> alluvia_types::Result<Option<FoundRows>> {
        match self {
            PointKeys::One(keys) => keys.find(store, version, read).map(Some),
            PointKeys::Between(between) => between.find(read),
        }
    }
}
