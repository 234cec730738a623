//! No aggregate is quadratic in rows or groups: what each allocates for a row is no more where there are many.
//!
//! What it computes without allocating is not seen here. That a batch looks at its own groups alone, and that what is held is asked for seldom, is
//! counted beside the code (`aggregates/linear`).

use crate::allocations;
use alluvia_functions::table::{Function, functions};
use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray, StructArray,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::{AggregateUDF, EmitTo};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{col, lit};
use datafusion_physical_expr_common::sort_expr::PhysicalSortExpr;
use std::sync::Arc;

const BATCH: usize = 1_024;

/// How many groups are many; `ALLUVIA_TEST_GROUPS=1000000` takes a million.
fn many() -> usize {
    std::env::var("ALLUVIA_TEST_GROUPS").map_or(30_000, |groups| groups.parse().expect("a number"))
}

fn schema() -> SchemaRef {
    let parts = vec![Field::new("k", DataType::Utf8View, true), Field::new("v", DataType::Int64, true)];
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("number", DataType::Float64, true),
        Field::new("whole", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("truth", DataType::Boolean, true),
        Field::new("record", DataType::Struct(parts.into()), true),
    ]))
}

fn batch(first: usize, rows: usize) -> RecordBatch {
    let places = first..first + rows;
    let text = |row| format!("a text that does not fit into its view, {}", row % 5);
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(places.clone().map(text)));
    let wholes: ArrayRef = Arc::new(Int64Array::from_iter_values(places.clone().map(|row| (row % 7) as i64)));
    let schema = schema();
    let DataType::Struct(parts) = schema.field(5).data_type() else { panic!("a record") };
    let records = StructArray::new(parts.clone(), vec![Arc::clone(&texts), Arc::clone(&wholes)], None);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(places.clone().map(|row| row as i64))),
        Arc::new(Float64Array::from_iter_values(places.clone().map(|row| (row % 11) as f64))),
        wholes,
        texts,
        Arc::new(BooleanArray::from_iter(places.map(|row| Some(row % 3 == 0)))),
        Arc::new(records),
    ];
    RecordBatch::try_new(schema, columns).expect("columns fit")
}

/// Lists of arguments for a function: columns, and constants behind them.
fn arguments(name: &str) -> Vec<(&'static [&'static str], Vec<ScalarValue>)> {
    let half = || vec![ScalarValue::Float64(Some(0.5))];
    match name {
        "sum" | "bit_and" | "bit_or" | "bit_xor" => vec![(&["whole"], vec![])],
        "bool_and" | "bool_or" => vec![(&["truth"], vec![])],
        "min" | "max" => vec![(&["text"], vec![]), (&["number"], vec![]), (&["record"], vec![])],
        "count" => vec![(&["text"], vec![]), (&["record"], vec![]), (&["text", "whole"], vec![])],
        "any_value" | "first_value" | "last_value" | "array_agg" | "mode" | "json_agg" | "jsonb_agg"
        | "approx_distinct" => vec![(&["text"], vec![]), (&["whole"], vec![])],
        "json_object_agg" | "jsonb_object_agg" => vec![(&["record"], vec![])],
        "string_agg" => vec![(&["text"], vec![ScalarValue::Utf8View(Some(",".to_owned()))])],
        "nth_value" => vec![(&["text"], vec![ScalarValue::Int64(Some(2))])],
        "percentile_cont" | "approx_percentile_cont" => vec![(&["number"], half())],
        "percentile_disc" => vec![(&["text"], half())],
        "approx_percentile_cont_with_weight" => vec![(&["number", "number"], half())],
        "corr" | "covar_pop" | "covar_samp" => vec![(&["number", "number"], vec![])],
        regr if regr.starts_with("regr_") => vec![(&["number", "number"], vec![])],
        _ => vec![(&["number"], vec![])],
    }
}

/// The aggregate with its clauses, where it can have them.
fn expressions(function: &Arc<AggregateUDF>) -> Vec<Arc<AggregateFunctionExpr>> {
    let (mut all, schema) = (Vec::new(), schema());
    for (columns, constants) in arguments(function.name()) {
        for (is_distinct, is_ordered) in [(false, false), (true, false), (false, true)] {
            let mut args: Vec<Arc<dyn PhysicalExpr>> =
                columns.iter().map(|name| col(name, &schema).expect("a column")).collect();
            args.extend(constants.iter().map(|constant| lit(constant.clone())));
            let mut builder = AggregateExprBuilder::new(Arc::clone(function), args)
                .schema(Arc::clone(&schema))
                .alias(format!("{} {columns:?} {is_distinct} {is_ordered}", function.name()))
                .with_distinct(is_distinct);
            // Others are handed no order.
            let tells_order =
                ["array_agg", "string_agg", "first_value", "last_value", "nth_value", "json_agg", "jsonb_agg"];
            if is_ordered && !tells_order.contains(&function.name()) {
                continue;
            }
            if is_ordered {
                let expr = col("key", &schema).expect("a column");
                builder = builder.order_by(vec![PhysicalSortExpr { expr, options: SortOptions::default() }]);
            }
            let built = builder.build();
            match built.and_then(|expr| expr.create_accumulator().map(|_| expr)) {
                Ok(expr) => all.push(Arc::new(expr)),
                Err(error) => assert!(is_distinct || is_ordered, "{}: {error}", function.name()),
            }
        }
    }
    all
}

/// What is allocated for so many rows in so many groups, by both halves of an aggregation: how often, and bytes.
fn allocated(expr: &AggregateFunctionExpr, groups: usize, rows: usize) -> (u64, u64) {
    let mut allocated = (0, 0);
    let mut counted = |work: &mut dyn FnMut()| {
        let before = allocations::so_far();
        work();
        let after = allocations::so_far();
        allocated = (allocated.0 + after.0 - before.0, allocated.1 + after.1 - before.1);
    };
    let mut parts = expr.create_groups_accumulator().expect("groups");
    let mut whole = expr.create_groups_accumulator().expect("groups");
    for first in (0..rows).step_by(BATCH) {
        let batch = batch(first, BATCH.min(rows - first));
        let of = |expr: &Arc<dyn PhysicalExpr>| {
            expr.evaluate(&batch).and_then(|value| value.into_array(batch.num_rows())).expect("a value")
        };
        let values: Vec<ArrayRef> =
            expr.expressions().iter().map(&of).chain(expr.order_bys().iter().map(|key| of(&key.expr))).collect();
        let places: Vec<usize> = (first..first + batch.num_rows()).map(|row| row * 7_919 % groups).collect();
        counted(&mut || {
            parts.update_batch(&values, &places, None, groups).expect("updates");
            parts.size();
        });
    }
    let mut states = Vec::new();
    counted(&mut || states = parts.state(EmitTo::All).expect("states"));
    for first in (0..groups).step_by(BATCH) {
        let count = BATCH.min(groups - first);
        // As they come from other threads.
        let places = arrow::array::UInt32Array::from_iter_values((first..first + count).map(|group| group as u32));
        let states = arrow::compute::take_arrays(&states, &places, None).expect("rows");
        let places: Vec<usize> = (first..first + count).collect();
        counted(&mut || {
            whole.merge_batch(&states, &places, groups).expect("merges");
            whole.size();
        });
    }
    counted(&mut || assert_eq!(whole.evaluate(EmitTo::All).expect("values").len(), groups));
    allocated
}

#[test]
fn what_is_allocated_for_a_row_does_not_grow_with_groups_or_rows() {
    let many = many();
    for built in functions().expect("the table") {
        let Function::Aggregate(function) = &built.function else { continue };
        if function.name() == "grouping" {
            continue;
        }
        for expr in expressions(function) {
            assert!(expr.groups_accumulator_supported(), "{} has no accumulator of groups", expr.name());
            for (few, more) in [((1_000, 2_000), (many, 2 * many)), ((1, many / 10), (1, many))] {
                let (of_few, of_more) = (allocated(&expr, few.0, few.1), allocated(&expr, more.0, more.1));
                let per_row =
                    |(times, bytes): (u64, u64), rows: usize| (times as f64 / rows as f64, bytes as f64 / rows as f64);
                let (of_few, of_more) = (per_row(of_few, few.1), per_row(of_more, more.1));
                // What grows by doubling is a few times too large at one size, and just right at another.
                let is_linear = of_more.0 <= 2.0 * of_few.0 + 1.0 && of_more.1 <= 3.0 * of_few.1 + 256.0;
                assert!(is_linear, "{}: {of_few:?} of {few:?}, {of_more:?} of {more:?}", expr.name());
            }
        }
    }
}
