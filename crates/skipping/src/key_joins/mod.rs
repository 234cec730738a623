//! Joins of a table by its whole key: `MERGE INTO t USING s ON t.id = s.id`, and what other side has its rows.
//!
//! Of such a join the other side ([`KeyJoin::source`]) runs first ([`BegunRows`]). [`KeyJoin::keys`] says which keys its rows may be joined with, and
//! [`KeyJoin::replaced`] puts its rows, and a table that has no more than the rows of these keys, in the places of both.
//!
//! Invariants:
//! - The join must give no row for a row of the table alone, so that rows of other keys may be missing.
//! - Every row of the table with which a row of the other side may be joined has one of the keys: equality is that of the join, whose types
//!   may be others than those of the key ([`is_exact`]). Other keys may be there, too: the join and its conditions are evaluated on what is found.
//! - The table stands once in the plan. Nothing of its side of the join gives something else each time, or depends on what is not there.
//! - NULL is no key. Floats name none: `=` on them is a function of its own.

mod begun_rows;
#[cfg(test)]
mod tests;

pub use begun_rows::BegunRows;

use crate::key_conditions::value_for;
use alluvia_space::TableDef;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{CastOptions, and, cast_with_options, filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, TableScan,
};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use std::sync::Arc;

/// A join of a table by its whole key.
#[derive(Clone, Debug)]
pub struct KeyJoin {
    named: TableName,
    source: Arc<LogicalPlan>,
    /// What each column of the key is equal to, in the order of the key.
    values: Vec<KeyValue>,
    /// The key's columns, by storage name.
    schema: SchemaRef,
}

/// Schema and name of the table, as the plan has them.
type TableName = (&'static str, &'static str);

/// What a column of the key is equal to.
#[derive(Clone, Debug)]
enum KeyValue {
    /// The same for all rows.
    Fixed(ScalarValue),
    /// What a row of the other side has.
    Source(Arc<dyn PhysicalExpr>),
}

/// A join, and on which side of it the table is.
type JoinSide<'a> = (&'a Join, &'a TableScan, bool);

/// The scan of the table of this name, if a plan reads it once, in a join that leaves out rows of it to which nothing is joined.
pub fn joined_scan(plan: &LogicalPlan, named: TableName) -> Option<&TableScan> {
    let mut scans = 0;
    let counted = plan.apply_with_subqueries(|node| {
        scans += usize::from(matches!(node, LogicalPlan::TableScan(scan) if is_named(scan, named)));
        Ok(TreeNodeRecursion::Continue)
    });
    (counted.is_ok() && scans == 1).then(|| join_of(plan, named)).flatten().map(|(_, scan, _)| scan)
}

impl KeyJoin {
    /// The join of a plan by the whole key of the table of this name, whose scan is [`joined_scan`]'s.
    pub fn of(plan: &LogicalPlan, named: TableName, def: &TableDef, props: &ExecutionProps) -> Option<KeyJoin> {
        let (join, scan, is_left) = join_of(plan, named)?;
        let (side, source) = if is_left { (&join.left, &join.right) } else { (&join.right, &join.left) };
        if is_volatile(side) || scan.fetch.is_some() || !is_alone(source) {
            return None;
        }
        let key = def.key_columns()?;
        let mut values: Vec<Option<KeyValue>> = vec![None; key.len()];
        for (left, right) in &join.on {
            let (of_table, of_source) = if is_left { (left, right) } else { (right, left) };
            let Some((column, compared)) = column_of(of_table, side, def) else { continue };
            let Some(at) = key.iter().position(|&place| place == column) else { continue };
            if values[at].is_none() {
                let value = source_value(of_source, &compared, source.schema(), props);
                values[at] = value.map(KeyValue::Source);
            }
        }
        // Where nothing is compared with the other side, the scan finds the rows by its filters.
        if values.iter().all(Option::is_none) {
            return None;
        }
        for (column, value) in fixed_values(side, def) {
            let Some(at) = key.iter().position(|&place| place == column) else { continue };
            if values[at].is_none() {
                let value = value_for(value, def.columns[column].data_type).filter(|value| !value.is_null());
                values[at] = value.map(KeyValue::Fixed);
            }
        }
        let values = values.into_iter().collect::<Option<Vec<_>>>()?;
        let field = |&at: &usize| {
            let column = &def.columns[at];
            Field::new(&column.storage_name, column.data_type.to_arrow(), true)
        };
        let schema = Arc::new(Schema::new(key.iter().map(field).collect::<Vec<_>>()));
        Some(KeyJoin { named, source: Arc::clone(source), values, schema })
    }

    /// The other side, a plan by itself.
    pub fn source(&self) -> &LogicalPlan {
        &self.source
    }

    /// The keys that these rows of the other side may be joined with, in the key's columns by storage name.
    ///
    /// # Errors
    /// Those of what the key is compared with, which the join would fail with, too.
    pub fn keys(&self, rows: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        rows.iter().filter(|rows| rows.num_rows() > 0).map(|rows| self.keys_of(rows)).collect()
    }

    fn keys_of(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let count = rows.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.values.len());
        let mut may_match = BooleanArray::from(vec![true; count]);
        for (value, field) in self.values.iter().zip(self.schema.fields()) {
            let column = match value {
                KeyValue::Fixed(value) => value.to_array_of_size(count)?,
                KeyValue::Source(value) => {
                    let compared = value.evaluate(rows)?.into_array(count)?;
                    let (column, is_same) = as_key(&compared, field.data_type())?;
                    may_match = and(&may_match, &is_same)?;
                    column
                }
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let keys = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok(filter_record_batch(&keys, &may_match)?)
    }

    /// The plan of which the join is, with rows of the other side in its place, and another table in the table's, if there is one.
    ///
    /// # Errors
    /// The rows have not the other side's columns.
    pub fn replaced(
        &self,
        plan: LogicalPlan,
        rows: &Arc<dyn TableProvider>,
        table: Option<&Arc<dyn TableProvider>>,
    ) -> Result<LogicalPlan> {
        let replaced = plan.transform_down(|node| {
            let LogicalPlan::Join(join) = node else { return Ok(Transformed::no(node)) };
            let Some((_, _, is_left)) = side_of(&join, self.named) else {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            };
            let side = if is_left { &join.left } else { &join.right };
            let side = match table {
                Some(table) => Arc::new(with_table(side.as_ref().clone(), self.named, table)?),
                None => Arc::clone(side),
            };
            let source = Arc::new(read(self.source.schema(), rows)?);
            let (left, right) = if is_left { (side, source) } else { (source, side) };
            let join = LogicalPlan::Join(Join { left, right, ..join });
            Ok(Transformed::new(join, true, TreeNodeRecursion::Stop))
        });
        replaced.data()
    }
}

fn is_named(scan: &TableScan, (schema, table): TableName) -> bool {
    scan.table_name.schema() == Some(schema) && scan.table_name.table() == table
}

/// The join of the table that [`side_of`] takes.
fn join_of(plan: &LogicalPlan, named: TableName) -> Option<JoinSide<'_>> {
    if let LogicalPlan::Join(join) = plan
        && let Some(side) = side_of(join, named)
    {
        return Some(side);
    }
    plan.inputs().into_iter().find_map(|input| join_of(input, named))
}

/// On which side of a join the table is, right below it, if the join leaves out its rows to which nothing is joined.
fn side_of(join: &Join, named: TableName) -> Option<JoinSide<'_>> {
    use JoinType::{Inner, Left, LeftSemi, Right, RightSemi};
    if join.null_equality != NullEquality::NullEqualsNothing {
        return None;
    }
    let on_left = matches!(join.join_type, Inner | Right | LeftSemi).then(|| scan_of(&join.left, named)).flatten();
    if let Some(scan) = on_left {
        return Some((join, scan, true));
    }
    let on_right = matches!(join.join_type, Inner | Left | RightSemi).then(|| scan_of(&join.right, named)).flatten();
    on_right.map(|scan| (join, scan, false))
}

/// The scan of the table, of which a plan gives each row by itself, or not.
fn scan_of(plan: &LogicalPlan, named: TableName) -> Option<&TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => is_named(scan, named).then_some(scan),
        LogicalPlan::Projection(projection) => scan_of(&projection.input, named),
        LogicalPlan::Filter(filter) => scan_of(&filter.input, named),
        LogicalPlan::SubqueryAlias(alias) => scan_of(&alias.input, named),
        _ => None,
    }
}

fn with_table(side: LogicalPlan, named: TableName, table: &Arc<dyn TableProvider>) -> Result<LogicalPlan> {
    let replaced = side.transform_down(|node| match node {
        LogicalPlan::TableScan(scan) if is_named(&scan, named) => {
            let source = provider_as_source(Arc::clone(table));
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        }
        other => Ok(Transformed::no(other)),
    });
    replaced.data()
}

/// Reads rows under the names that a plan had for its columns.
fn read(named: &DFSchema, rows: &Arc<dyn TableProvider>) -> Result<LogicalPlan> {
    let scan = LogicalPlanBuilder::scan("begun rows", provider_as_source(Arc::clone(rows)), None)?.build()?;
    let columns = scan.schema().columns().into_iter().zip(named.iter());
    let columns = columns.map(|(column, (relation, field))| {
        Expr::Column(column).alias_qualified(relation.cloned(), field.name().clone())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(scan))?))
}

/// Whether an expression of a plan gives something else each time.
fn is_volatile(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let looked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    looked.is_err() || found
}

/// Whether a part of a plan can run by itself: it shares no rows with others, and knows of no row of another.
fn is_alone(plan: &LogicalPlan) -> bool {
    let mut is_alone = plan.all_out_ref_exprs().is_empty();
    let looked = plan.apply_with_subqueries(|node| {
        is_alone &= !matches!(node, LogicalPlan::Extension(_));
        Ok(if is_alone { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    looked.is_ok() && is_alone
}

/// The column of the table that an expression of its side of the join is, and the type that it is compared as.
fn column_of(expr: &Expr, plan: &LogicalPlan, def: &TableDef) -> Option<(usize, DataType)> {
    match expr {
        Expr::Alias(alias) => return column_of(&alias.expr, plan, def),
        Expr::Cast(cast) => {
            let (column, from) = column_of(&cast.expr, plan, def)?;
            let to = cast.field.data_type();
            return is_exact(&from, to).then(|| (column, to.clone()));
        }
        _ => {}
    }
    let Expr::Column(column) = expr else { return None };
    let at = plan.schema().maybe_index_of_column(column)?;
    let below = |input: &LogicalPlan| column_of(&Expr::Column(input.schema().columns().get(at)?.clone()), input, def);
    match plan {
        LogicalPlan::Projection(projection) => column_of(projection.expr.get(at)?, &projection.input, def),
        LogicalPlan::Filter(filter) => below(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input),
        LogicalPlan::TableScan(scan) => {
            let field = scan.projected_schema.field(at);
            let place = def.columns.iter().position(|column| column.name == *field.name())?;
            let data_type = def.columns[place].data_type.to_arrow();
            (!data_type.is_floating() && *field.data_type() == data_type).then_some((place, data_type))
        }
        _ => None,
    }
}

/// Whether values of a type have others of another type each, from which a cast leads back.
fn is_exact(from: &DataType, to: &DataType) -> bool {
    let digits = |data_type: &DataType| match *data_type {
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)
            if scale >= 0 && precision >= scale as u8 =>
        {
            Some((precision - scale as u8, scale))
        }
        _ => None,
    };
    match (from, to) {
        (from, to) if from == to || is_text(from) && is_text(to) => true,
        (DataType::Int16, DataType::Int32 | DataType::Int64) | (DataType::Int32, DataType::Int64) => true,
        (from, to @ (DataType::Decimal128(..) | DataType::Decimal256(..))) => match (digits(from), digits(to)) {
            (Some((whole, scale)), Some((to_whole, to_scale))) => whole <= to_whole && scale <= to_scale,
            _ => false,
        },
        _ => false,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// What a column of the key is compared with as a value of this type; `None` of what is not such a value, or gives another each time.
fn source_value(
    expr: &Expr,
    compared: &DataType,
    schema: &DFSchema,
    props: &ExecutionProps,
) -> Option<Arc<dyn PhysicalExpr>> {
    let data_type = expr.get_type(schema).ok()?;
    let is_same = data_type == *compared || is_text(&data_type) && is_text(compared);
    if !is_same || expr.is_volatile() {
        return None;
    }
    create_physical_expr(expr, schema, props, &PhysicalPlanningContext::default()).ok()
}

/// Columns of the table that conditions on its side of the join leave one value, and these values.
fn fixed_values<'a>(side: &'a LogicalPlan, def: &TableDef) -> Vec<(usize, &'a ScalarValue)> {
    let (parts, input) = match side {
        // Conditions may be about columns that the scan does not give.
        LogicalPlan::TableScan(scan) => {
            let fixed = scan.filters.iter().flat_map(split_conjunction).filter_map(fixed);
            let place = |name: &str| def.columns.iter().position(|column| column.name == name);
            return fixed.filter_map(|(column, value)| Some((place(&column.name)?, value))).collect();
        }
        LogicalPlan::Filter(filter) => (split_conjunction(&filter.predicate), &filter.input),
        LogicalPlan::Projection(projection) => (Vec::new(), &projection.input),
        LogicalPlan::SubqueryAlias(alias) => (Vec::new(), &alias.input),
        _ => return Vec::new(),
    };
    let fixed = parts.into_iter().filter_map(fixed);
    let here = fixed.filter_map(|(column, value)| {
        let (place, _) = column_of(&Expr::Column(column.clone()), input, def)?;
        Some((place, value))
    });
    here.chain(fixed_values(input, def)).collect()
}

/// A column and its only value, by a condition.
fn fixed(condition: &Expr) -> Option<(&Column, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) | (Expr::Literal(value, _), Expr::Column(column)) => {
            Some((column, value))
        }
        _ => None,
    }
}

/// Values that a key is compared with as values of its column, and for which of them there is one.
fn as_key(compared: &ArrayRef, data_type: &DataType) -> Result<(ArrayRef, BooleanArray)> {
    if compared.data_type() == data_type {
        return Ok((Arc::clone(compared), is_not_null(compared)?));
    }
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    let values = cast_with_options(compared, data_type, &lenient)?;
    let back = cast_with_options(&values, compared.data_type(), &lenient)?;
    let is_same = eq(&back, compared)?;
    // NULL where it is NULL on either side, which is no match.
    let is_same = match is_same.nulls() {
        None => is_same,
        Some(valid) => BooleanArray::new(is_same.values() & valid.inner(), None),
    };
    Ok((values, is_same))
}
