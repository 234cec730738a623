//! What a table's columns are called in SQL, and what files and tail runs call them.
//!
//! Invariants:
//! - SQL names change, storage names never do: whatever is read is found by storage name.
//! - A column that a file or a run lacks was added later: every row has NULL. One that the definition lacks was dropped:
//!   it is not read.
//! - Position `i` of the SQL schema, of the definition and of the file schema is the same column; the hidden columns
//!   follow in the file schema.

use alluvia_space::data_type::UUID_BYTES;
use alluvia_space::{ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_tree::segment_schema;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use std::sync::Arc;

/// The columns of a table as SQL sees them.
pub(crate) fn sql_schema(def: &TableDef) -> SchemaRef {
    Arc::new(Schema::new(def.columns.iter().map(alluvia_space::Column::to_field).collect::<Vec<_>>()))
}

/// What a segment written now would have, as its file has it: intervals are bytes there ([`super::intervals`]).
fn file_schema(def: &TableDef) -> SchemaRef {
    let stored = segment_schema(def);
    let field = |(at, stored): (usize, &Arc<Field>)| match def.columns.get(at) {
        None => Arc::clone(stored),
        Some(column) => {
            let (shown, mut stored) = (column.to_field(), stored.as_ref().clone());
            if column.data_type == alluvia_space::DataType::Interval {
                stored = stored.with_data_type(DataType::FixedSizeBinary(UUID_BYTES));
            }
            Arc::new(stored.with_metadata(shown.metadata().clone()))
        }
    };
    Arc::new(Schema::new(stored.fields().iter().enumerate().map(field).collect::<Vec<_>>()))
}

/// `name`, or as much longer a name as no column has.
pub(crate) fn unused_name(name: &str, schemas: [&SchemaRef; 2]) -> String {
    let mut name = name.to_owned();
    while schemas.iter().any(|schema| schema.field_with_name(&name).is_ok()) {
        name.push('_');
    }
    name
}

/// Some columns of a table, in the order in which a scan returns them.
#[derive(Clone, Debug)]
pub(crate) struct Projected {
    /// Under their SQL names.
    pub schema: SchemaRef,
    /// Under their storage names, with the hidden columns: what a segment written now would have.
    pub file_schema: SchemaRef,
    /// Positions in `file_schema`.
    pub indices: Vec<usize>,
}

impl Projected {
    /// The columns at `projection`; all of them if there is none.
    pub(crate) fn new(
        def: &TableDef,
        sql: &SchemaRef,
        projection: Option<&Vec<usize>>,
    ) -> Result<Self, DataFusionError> {
        let indices = projection.cloned().unwrap_or_else(|| (0..sql.fields().len()).collect());
        let schema = Arc::new(sql.project(&indices)?);
        Ok(Projected { schema, file_schema: file_schema(def), indices })
    }

    /// The position of `_version` in the file schema.
    pub(crate) fn version_index(&self) -> usize {
        let fields = self.file_schema.fields();
        let (version, ordinal) = (fields.len() - 2, fields.len() - 1);
        assert!(fields[version].name() == VERSION_COLUMN && fields[ordinal].name() == ORDINAL_COLUMN);
        version
    }

    /// Those of them whose values may be long, by storage name.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let fields = self.indices.iter().map(|&index| self.file_schema.field(index));
        let is_text = |field: &&Field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
        fields.filter(is_text).map(|field| field.name().as_str()).collect()
    }

    /// The same columns and, behind them, what rows are known by: `_version` and `_ordinal`.
    pub(crate) fn with_identity(&self) -> Projected {
        let version = self.version_index();
        let hidden = [version, version + 1];
        let fields = self.schema.fields().iter().cloned();
        let fields = fields.chain(hidden.map(|index| Arc::clone(&self.file_schema.fields()[index])));
        Projected {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            file_schema: Arc::clone(&self.file_schema),
            indices: self.indices.iter().copied().chain(hidden).collect(),
        }
    }

    /// From the file schema to the SQL names, and behind these `extra` columns: where the source has them, and their names there.
    pub(crate) fn expressions(&self, extra: &[(usize, String)]) -> ProjectionExprs {
        let rename = |(&index, sql_name): (&usize, &str)| {
            let column = Column::new(self.file_schema.field(index).name(), index);
            ProjectionExpr::new(Arc::new(column), sql_name)
        };
        let sql_names = self.schema.fields().iter().map(|field| field.name().as_str());
        let columns = self.indices.iter().zip(sql_names).map(rename);
        let extra = extra.iter().map(|(index, name)| ProjectionExpr::new(Arc::new(Column::new(name, *index)), name));
        ProjectionExprs::new(columns.chain(extra))
    }

    /// Rows of the tail or of an open transaction, whatever definition they were written under.
    pub(crate) fn adapt(&self, rows: &RecordBatch) -> Result<RecordBatch, DataFusionError> {
        let column = |(&index, field): (&usize, &Arc<Field>)| -> ArrayRef {
            match rows.column_by_name(self.file_schema.field(index).name()) {
                Some(values) => Arc::clone(values),
                None => new_null_array(field.data_type(), rows.num_rows()),
            }
        };
        let columns = self.indices.iter().zip(self.schema.fields()).map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    #[test]
    fn adapt_follows_renames_and_fills_added_columns_with_null() {
        let mut def =
            testing::table("t", &[("a", alluvia_space::DataType::Int64), ("b", alluvia_space::DataType::Int64)]);
        let old = def.storage_schema();
        let batch = RecordBatch::try_new(
            old,
            vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(Int64Array::from(vec![10, 20]))],
        )
        .expect("two columns");
        def.columns[1].name = "renamed".to_owned();
        def.columns.push(testing::column(2, "c", alluvia_space::DataType::Text));

        let sql = sql_schema(&def);
        let projected = Projected::new(&def, &sql, Some(&vec![2, 1])).expect("columns exist");
        let adapted = projected.adapt(&batch).expect("adapts");
        assert_eq!(adapted.schema().fields()[1].name(), "renamed");
        assert_eq!(adapted.column(0).null_count(), 2);
        assert_eq!(adapted.column(1).as_primitive::<Int64Type>().values(), &[10, 20]);
    }

    #[test]
    fn adapt_keeps_the_row_count_of_no_columns() {
        let def = testing::table("t", &[("a", alluvia_space::DataType::Int64)]);
        let batch = RecordBatch::try_new(def.storage_schema(), vec![Arc::new(Int64Array::from(vec![1, 2, 3]))]);
        let projected = Projected::new(&def, &sql_schema(&def), Some(&vec![])).expect("no columns");
        assert_eq!(projected.adapt(&batch.expect("one column")).expect("adapts").num_rows(), 3);
    }
}
