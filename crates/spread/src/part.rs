//! A part of a plan, as bytes and back.
//!
//! ```text
//! part := version:u8 form:u8 plan
//! plan := datafusion's LogicalPlanNode, over one table whose rows are those that are where it runs
//! ```

use alluvia_functions::codec::{decode_aggregate, decode_scalar, encode_aggregate, encode_scalar};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, TableReference, internal_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, Expr, Extension, LogicalPlan, LogicalPlanBuilder, ScalarUDF, WindowUDF};
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use std::sync::Arc;

/// The version of the bytes.
const VERSION: u8 = 1;

/// What the table is called in a part.
const TABLE: &str = "rows";

/// What a part gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// What its plan gives.
    Values,
    /// The states of the aggregates that its plan gives the values of.
    States,
}

/// A part of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// What it gives.
    pub form: Form,
    /// Over one table.
    pub plan: LogicalPlan,
}

impl Part {
    /// Columns of the rows of a table that pass all filters; of at most `limit` of them, if one is given. Columns are by their places, and
    /// expressions name them without a table.
    pub fn rows(
        table: &Arc<dyn TableProvider>,
        columns: Vec<usize>,
        filters: Vec<Expr>,
        limit: Option<usize>,
    ) -> Result<Part> {
        let scan = LogicalPlanBuilder::scan_with_filters(
            TABLE,
            provider_as_source(Arc::clone(table)),
            Some(columns),
            filters,
        )?;
        let scan = match limit {
            Some(_) => scan.limit(0, limit)?,
            None => scan,
        };
        Ok(Part { form: Form::Values, plan: scan.build()? })
    }

    /// Aggregates of the rows of a table that pass all filters, by groups.
    pub fn aggregates(
        form: Form,
        table: &Arc<dyn TableProvider>,
        filters: Vec<Expr>,
        groups: Vec<Expr>,
        functions: Vec<Expr>,
    ) -> Result<Part> {
        let mut columns: Vec<usize> = Vec::new();
        for expr in groups.iter().chain(&functions) {
            for column in expr.column_refs() {
                columns.push(table.schema().index_of(&column.name)?);
            }
        }
        columns.sort_unstable();
        columns.dedup();
        let source = provider_as_source(Arc::clone(table));
        let scan = LogicalPlanBuilder::scan_with_filters(TABLE, source, Some(columns), filters)?;
        Ok(Part { form, plan: scan.aggregate(groups, functions)?.build()? })
    }

    /// As bytes; `None` if it does not travel.
    pub fn encode(&self) -> Option<Arc<[u8]>> {
        if !is_of_rows_alone(&self.plan) {
            return None;
        }
        let codec = OfTable(table_of(&self.plan)?);
        let plan = logical_plan_to_bytes_with_extension_codec(&self.plan, &codec).ok()?;
        let form = match self.form {
            Form::Values => 0,
            Form::States => 1,
        };
        let bytes: Vec<u8> = [VERSION, form].into_iter().chain(plan).collect();
        let read = Part::decode(&bytes, Arc::clone(&codec.0)).ok()?;
        (expressions(&read.plan) == expressions(&self.plan)).then(|| bytes.into())
    }

    /// The part that was encoded, over a table's rows.
    ///
    /// Errors: the bytes are of another build.
    pub fn decode(bytes: &[u8], table: Arc<dyn TableProvider>) -> Result<Part> {
        let (form, plan) = match bytes {
            [VERSION, 0, plan @ ..] => (Form::Values, plan),
            [VERSION, 1, plan @ ..] => (Form::States, plan),
            _ => {
                let what = "a part of a plan is of another version of Alluvia";
                let error = Error::new(ErrorKind::Protocol, what);
                return Err(wrap(error.with_hint("all nodes of a cluster run the same version")));
            }
        };
        let plan = logical_plan_from_bytes_with_extension_codec(plan, &TaskContext::default(), &OfTable(table))?;
        Ok(Part { form, plan })
    }
}

/// The one table of a part.
fn table_of(plan: &LogicalPlan) -> Option<Arc<dyn TableProvider>> {
    let mut found = None;
    let looked = plan.apply(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            found = source_as_provider(&scan.source).ok();
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.ok().and(found)
}

/// All expressions, in the order of the plan's nodes.
fn expressions(plan: &LogicalPlan) -> Vec<Expr> {
    let mut all = Vec::new();
    let looked = plan.apply(|plan| {
        all.extend(plan.expressions());
        if let LogicalPlan::TableScan(scan) = plan {
            let columns = scan.projected_schema.columns();
            all.extend(scan.filters.iter().cloned().chain(columns.into_iter().map(Expr::Column)));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(looked.is_ok(), "nothing in it fails");
    all
}

/// Whether its values are told by the rows: nothing random, no other query, no parameter.
fn is_of_rows_alone(plan: &LogicalPlan) -> bool {
    let is_plain = |expr: &Expr| {
        let mut is_plain = !expr.is_volatile();
        let looked = expr.apply(|expr| {
            is_plain &= !matches!(
                expr,
                Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Placeholder(_)
                    | Expr::ScalarVariable(..)
            );
            Ok(if is_plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        });
        looked.is_ok() && is_plain
    };
    expressions(plan).iter().all(is_plain)
}

/// Functions as this database writes them, and one table that is named by nothing.
#[derive(Debug)]
struct OfTable(Arc<dyn TableProvider>);

impl LogicalExtensionCodec for OfTable {
    fn try_decode(&self, _bytes: &[u8], _inputs: &[LogicalPlan], _task: &TaskContext) -> Result<Extension> {
        internal_err!("a part of a plan has no nodes of its own")
    }

    fn try_encode(&self, node: &Extension, _bytes: &mut Vec<u8>) -> Result<()> {
        internal_err!("a part of a plan has no nodes of its own: {}", node.node.name())
    }

    fn try_decode_table_provider(
        &self,
        _bytes: &[u8],
        _name: &TableReference,
        schema: SchemaRef,
        _task: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        if schema.fields() != self.0.schema().fields() {
            let error = Error::new(ErrorKind::Conflict, "the table was altered while it was read");
            return Err(wrap(error.with_hint("run the statement again")));
        }
        Ok(Arc::clone(&self.0))
    }

    fn try_encode_table_provider(
        &self,
        _name: &TableReference,
        _table: Arc<dyn TableProvider>,
        _bytes: &mut Vec<u8>,
    ) -> Result<()> {
        Ok(())
    }

    fn try_decode_udf(&self, _name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        decode_scalar(bytes)
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.extend(encode_scalar(function)?);
        Ok(())
    }

    fn try_decode_udaf(&self, _name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        decode_aggregate(bytes)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.extend(encode_aggregate(function)?);
        Ok(())
    }

    fn try_decode_udwf(&self, name: &str, _bytes: &[u8]) -> Result<Arc<WindowUDF>> {
        internal_err!("a part of a plan has no window functions: {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_functions::table::register;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
    use datafusion::datasource::MemTable;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::logical_expr::{col, lit, placeholder};

    fn table() -> Arc<dyn TableProvider> {
        let k: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let name: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
        let rows = RecordBatch::try_from_iter([("k", k), ("name", name)]).unwrap();
        Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]]).unwrap())
    }

    #[test]
    fn what_travels_comes_out_as_it_went_in() {
        let mut state = SessionStateBuilder::new().with_default_features().build();
        register(&mut state).unwrap();
        let function = |name: &str, args| state.aggregate_functions()[name].call(args);
        let upper = state.scalar_functions()["upper"].call(vec![col("name")]);
        let parts = [
            Part::rows(&table(), vec![0, 1], vec![], None),
            Part::rows(&table(), vec![], vec![col("k").gt(lit(1_i64))], None),
            Part::rows(&table(), vec![1], vec![upper.clone().eq(lit("A")), col("name").is_not_null()], Some(7)),
            Part::aggregates(
                Form::States,
                &table(),
                vec![col("k").lt(lit(3_i64))],
                vec![upper],
                vec![function("sum", vec![col("k")])],
            ),
            Part::aggregates(Form::Values, &table(), vec![], vec![], vec![function("count", vec![lit(1_i64)])]),
        ];
        for part in parts {
            let part = part.unwrap();
            let bytes = part.encode().unwrap_or_else(|| panic!("{part:?} travels"));
            let read = Part::decode(&bytes, table()).unwrap();
            assert_eq!((read.form, expressions(&read.plan)), (part.form, expressions(&part.plan)));
            for cut in 0..bytes.len() {
                // Whatever comes, nothing panics.
                let _ = Part::decode(&bytes[..cut], table());
            }
        }
    }

    #[test]
    fn what_is_not_told_by_the_rows_stays() {
        let mut state = SessionStateBuilder::new().with_default_features().build();
        register(&mut state).unwrap();
        let random = state.scalar_functions()["random"].call(vec![]);
        for filter in [random.gt(lit(0.5)), col("k").eq(placeholder("$1"))] {
            assert_eq!(Part::rows(&table(), vec![0], vec![filter], None).unwrap().encode(), None);
        }
        assert!(Part::decode(&[9, 0], table()).unwrap_err().to_string().contains("another version"));
    }
}
