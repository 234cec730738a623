//! Against DataFusion's own accumulators, which are slower and known.

use super::first_last::FirstLast;
use super::*;
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{Field, Int64Type};
use datafusion_expr::EmitTo;
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion_physical_expr::expressions::col;
use proptest::prelude::*;
use std::mem::size_of;

/// A key, a value, a group, and what a filter says.
type Row = (Option<i64>, Option<i64>, usize, Option<bool>);

const GROUPS: usize = 4;

fn columns(rows: &[Row]) -> (Vec<ArrayRef>, Vec<usize>, BooleanArray) {
    let text = |value: &i64| format!("a text that does not fit into its view, {value}");
    let values: StringViewArray = rows.iter().map(|row| row.1.as_ref().map(text)).collect();
    let keys: Int64Array = rows.iter().map(|row| row.0).collect();
    let groups = rows.iter().map(|row| row.2).collect();
    (vec![Arc::new(values), Arc::new(keys)], groups, rows.iter().map(|row| row.3).collect())
}

fn kept(ignore_nulls: bool, order: Option<SortOptions>, is_distinct: bool) -> KeptArgs {
    let schema =
        Schema::new(vec![Field::new("value", DataType::Utf8View, true), Field::new("key", DataType::Int64, true)]);
    let key = |options| PhysicalSortExpr { expr: col("key", &schema).expect("a column"), options };
    KeptArgs {
        return_field: Arc::new(Field::new("f", DataType::Utf8View, true)),
        ignore_nulls,
        order_bys: order.map(key).into_iter().collect(),
        is_reversed: false,
        name: "f".to_owned(),
        is_distinct,
        exprs: vec![col("value", &schema).expect("a column")],
        expr_fields: vec![Arc::new(schema.field(0).clone())],
        schema,
    }
}

/// What both come to, of rows of which some are added, some merged as others' states, and some as states of their own.
fn come_to(groups: &mut dyn GroupsAccumulator, other: &mut dyn GroupsAccumulator, rows: &[Row]) -> ArrayRef {
    let thirds: Vec<&[Row]> = rows.chunks(rows.len().div_ceil(3).max(1)).collect();
    for (at, part) in thirds.into_iter().enumerate() {
        let (values, places, filter) = columns(part);
        match at {
            0 => groups.update_batch(&values, &places, Some(&filter), GROUPS).unwrap(),
            1 => {
                other.update_batch(&values, &places, Some(&filter), GROUPS).unwrap();
                groups.merge_batch(&other.state(EmitTo::All).unwrap(), &[0, 1, 2, 3], GROUPS).unwrap();
            }
            _ => {
                let states = groups.convert_to_state(&values, Some(&filter)).unwrap();
                groups.merge_batch(&states, &places, GROUPS).unwrap();
            }
        }
        assert!(groups.size() > 0);
    }
    let first = groups.evaluate(EmitTo::First(1)).unwrap();
    let rest = groups.evaluate(EmitTo::All).unwrap();
    arrow::compute::concat(&[&first, &rest]).unwrap()
}

proptest! {
    #[test]
    fn the_first_and_the_last_are_those_of_datafusion(
        rows in prop::collection::vec(
            (prop::option::of(-3..3_i64), prop::option::of(-3..9_i64), 0..GROUPS, prop::option::weighted(0.9, prop::bool::weighted(0.8))),
            1..60,
        ),
        ignore_nulls in any::<bool>(),
        is_first in any::<bool>(),
        descending in any::<bool>(),
        nulls_first in any::<bool>(),
    ) {
        let args = kept(ignore_nulls, Some(SortOptions { descending, nulls_first }), false);
        let theirs = if is_first { first_value_udaf() } else { last_value_udaf() };
        let their = || theirs.inner().create_groups_accumulator(args.lent()).unwrap();
        let our = || FirstLast::new(&args.lent(), is_first).unwrap().unwrap();
        let wanted = come_to(their().as_mut(), their().as_mut(), &rows);
        prop_assert_eq!(&come_to(&mut our(), &mut our(), &rows), &wanted);
        // And halves of one kind go on in the other.
        prop_assert_eq!(&come_to(their().as_mut(), &mut our(), &rows), &wanted);
        prop_assert_eq!(&come_to(&mut our(), their().as_mut(), &rows), &wanted);
    }

    #[test]
    fn an_accumulator_for_each_group_makes_what_datafusions_makes(
        rows in prop::collection::vec(
            (Just(None), prop::option::of(-3..9_i64), 0..GROUPS, prop::option::weighted(0.9, prop::bool::weighted(0.8))),
            1..60,
        ),
    ) {
        let theirs = array_agg_udaf();
        let mut args = kept(false, None, false);
        args.return_field = Arc::new(Field::new_list("f", Field::new_list_field(DataType::Utf8View, true), true));
        let args = Arc::new(args);
        let our = || {
            let (theirs, args) = (Arc::clone(&theirs), Arc::clone(&args));
            ByGroup::new(Box::new(move || theirs.inner().accumulator(args.lent())))
        };
        let only_values = |groups: &mut dyn GroupsAccumulator| {
            let (values, places, filter) = columns(&rows);
            groups.update_batch(&values[..1], &places, Some(&filter), GROUPS).unwrap();
            groups.evaluate(EmitTo::All).unwrap()
        };
        let wanted = only_values(theirs.inner().create_groups_accumulator(args.lent()).unwrap().as_mut());
        prop_assert_eq!(&only_values(&mut our()), &wanted);
    }
}

/// Holds nothing, and is told how many rows it has.
#[derive(Debug, Default)]
struct Rows(i64);

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0 += values[0].len() as i64;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0 += states[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Rows>()
    }
}

#[test]
fn a_batch_looks_at_the_groups_that_it_has_and_at_no_others() {
    const BATCH: usize = 1_000;
    for total in [1, 1_000, 1_000_000] {
        let mut groups = ByGroup::new(Box::new(|| Ok(Box::<Rows>::default())));
        let rows = 2 * total.max(BATCH);
        for first in (0..rows).step_by(BATCH) {
            let places: Vec<usize> = (first..first + BATCH).map(|row| row * 7919 % total).collect();
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..BATCH as i64));
            groups.update_batch(&[values], &places, None, total).unwrap();
        }
        assert!(groups.looked_at <= rows, "{} of {total} groups, {rows} rows", groups.looked_at);
        let counts = groups.evaluate(EmitTo::All).unwrap();
        let counts = counts.as_primitive::<Int64Type>();
        assert!(counts.len() == total && counts.values().iter().all(|count| *count as usize == rows / total));
        assert_eq!(groups.bytes(), 0);
    }
}
