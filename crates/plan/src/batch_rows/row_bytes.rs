//! Bytes of the rows that a plan's operators give, foreseen by the columns that they are made of.
//!
//! Columns are known by their names alone, across an operator's inputs: where two have one name, the longer one counts. A text that is computed
//! is foreseen to be as long as all texts that it is computed of.

use super::ScanLengths;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use std::collections::HashMap;

/// What is foreseen of a value without a fixed width of which no more is known.
const VALUE_BYTES: u64 = 32;

/// Bytes of a plan's widest rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widest {
    /// By the types of columns.
    pub(super) by_types: u64,
    /// By what is known of lengths, too.
    pub(super) by_lengths: u64,
}

/// What is known of columns by name that are longer than their types tell.
type Longer<'a> = HashMap<&'a str, u64>;

/// Looks at a plan and its subqueries.
pub(super) fn widest(plan: &LogicalPlan, lengths: ScanLengths<'_>) -> Result<Widest> {
    let mut looking = Looking { lengths, widest: Widest::default() };
    looking.visit(plan)?;
    Ok(looking.widest)
}

struct Looking<'l> {
    lengths: ScanLengths<'l>,
    widest: Widest,
}

impl Looking<'_> {
    /// Bytes of a value in each column of a plan.
    fn visit(&mut self, plan: &LogicalPlan) -> Result<Vec<u64>> {
        let inputs = plan.inputs();
        let of_inputs = inputs.iter().map(|input| self.visit(input)).collect::<Result<Vec<_>>>()?;
        plan.apply_subqueries(|subquery| {
            self.visit(subquery)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut longer = Longer::new();
        for (input, bytes) in inputs.iter().zip(&of_inputs) {
            for (field, &bytes) in input.schema().fields().iter().zip(bytes).filter(|(_, bytes)| **bytes > VALUE_BYTES)
            {
                let known = longer.entry(field.name()).or_default();
                *known = bytes.max(*known);
            }
        }
        let schema = plan.schema();
        let mut beside = 0;
        let bytes = match plan {
            LogicalPlan::TableScan(scan) => {
                let (bytes, of_filters) = self.scan(scan)?;
                beside = of_filters;
                bytes
            }
            LogicalPlan::Projection(projection) => computed(schema, &projection.expr, 0, &longer),
            LogicalPlan::Aggregate(aggregate) => {
                let groups = schema.fields().len().saturating_sub(aggregate.aggr_expr.len());
                let mut bytes = computed(schema, &aggregate.aggr_expr, groups, &longer);
                // Sets of groups have columns beside theirs, and are no expressions of columns.
                if groups == aggregate.group_expr.len() {
                    let of_groups = computed(schema, &aggregate.group_expr, 0, &longer);
                    bytes[..groups].copy_from_slice(&of_groups[..groups]);
                }
                bytes
            }
            LogicalPlan::Window(window) => {
                let first = schema.fields().len().saturating_sub(window.window_expr.len());
                computed(schema, &window.window_expr, first, &longer)
            }
            // Named by its first input.
            LogicalPlan::Union(_) => {
                let mut bytes = carried(schema, &Longer::new());
                for input in &of_inputs {
                    bytes.iter_mut().zip(input).for_each(|(all, &of_one)| *all = of_one.max(*all));
                }
                bytes
            }
            _ => carried(schema, &longer),
        };
        self.widest.by_types = self.widest.by_types.max(carried(schema, &Longer::new()).iter().sum());
        self.widest.by_lengths = self.widest.by_lengths.max(bytes.iter().sum::<u64>() + beside);
        Ok(bytes)
    }

    /// Bytes of the columns that a scan gives, and of those that it reads beside them, for its filters.
    fn scan(&self, scan: &TableScan) -> Result<(Vec<u64>, u64)> {
        let fields = scan.source.schema();
        let mut places = scan.projection.clone().unwrap_or_else(|| (0..fields.fields().len()).collect());
        let given = places.len();
        for column in scan.filters.iter().flat_map(Expr::column_refs) {
            if let Ok(place) = fields.index_of(&column.name)
                && !places.contains(&place)
            {
                places.push(place);
            }
        }
        let mut bytes: Vec<u64> = places.iter().map(|&place| by_type(fields.field(place).data_type())).collect();
        let texts: Vec<usize> = (0..places.len()).filter(|&at| is_long(fields.field(places[at]).data_type())).collect();
        if !texts.is_empty() {
            let asked: Vec<usize> = texts.iter().map(|&at| places[at]).collect();
            for (at, known) in texts.into_iter().zip((self.lengths)(scan, &asked)?) {
                bytes[at] = bytes[at].max(known);
            }
        }
        let of_filters = bytes.split_off(given).into_iter().sum();
        Ok((bytes, of_filters))
    }
}

/// Bytes of a plan's columns, of which those from the place `first` on are computed.
fn computed(schema: &DFSchema, expressions: &[Expr], first: usize, longer: &Longer<'_>) -> Vec<u64> {
    let mut bytes = carried(schema, longer);
    for ((expr, field), bytes) in expressions.iter().zip(&schema.fields()[first..]).zip(&mut bytes[first..]) {
        *bytes = by_type(field.data_type());
        if is_long(field.data_type()) && !longer.is_empty() {
            let of: u64 = expr.column_refs().into_iter().filter_map(|column| longer.get(column.name.as_str())).sum();
            *bytes = of.max(*bytes);
        }
    }
    bytes
}

/// Bytes of a plan's columns, which are those of its inputs.
fn carried(schema: &DFSchema, longer: &Longer<'_>) -> Vec<u64> {
    let bytes = |field: &arrow::datatypes::FieldRef| {
        let of_type = by_type(field.data_type());
        let known = longer.get(field.name().as_str()).filter(|_| is_long(field.data_type()));
        known.map_or(of_type, |&known| of_type.max(known))
    };
    schema.fields().iter().map(bytes).collect()
}

fn by_type(data_type: &DataType) -> u64 {
    data_type.primitive_width().map_or(VALUE_BYTES, |width| width as u64)
}

/// Whether a value may be longer than its type tells.
fn is_long(data_type: &DataType) -> bool {
    let is_short = matches!(data_type, DataType::Boolean | DataType::Null | DataType::FixedSizeBinary(_));
    data_type.primitive_width().is_none() && !is_short
}
