//! Against DataFusion's own accumulators, which hold each value by itself.

use super::*;
use crate::aggregates::linear::KeptArgs;
use crate::aggregates::linear::by_group::ByGroup;
use arrow::array::{Int64Array, StringViewArray};
use arrow::compute::{SortOptions, concat};
use arrow::datatypes::Schema;
use datafusion_common::ScalarValue;
use datafusion_expr::{Accumulator, AggregateUDF};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::string_agg::string_agg_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{col, lit};
use datafusion_physical_expr_common::sort_expr::PhysicalSortExpr;
use proptest::prelude::*;

const GROUPS: usize = 4;

/// A value, two keys, a group, and what a filter says.
type Row = (Option<i64>, (Option<i64>, Option<i64>), usize, Option<bool>);

/// How a batch comes to a group.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Rows,
    /// By the state of somebody else.
    State,
    /// By a state of each row.
    StateOfRows,
}

/// A call of an aggregate.
#[derive(Clone, Debug)]
struct Call {
    is_joined: bool,
    is_of_texts: bool,
    ignore_nulls: bool,
    is_reversed: bool,
    is_input_ordered: bool,
    options: [SortOptions; 2],
    /// Whether no two rows have equal keys: of those that have, DataFusion's order is any where states are merged.
    has_no_ties: bool,
}

fn long(text: i64) -> String {
    format!("a text that does not fit into its view, {text}")
}

impl Call {
    fn is_of_texts(&self) -> bool {
        self.is_of_texts || self.is_joined
    }

    fn args(&self) -> KeptArgs {
        let value = if self.is_of_texts() { DataType::Utf8View } else { DataType::Int64 };
        let schema = Schema::new(vec![
            Field::new("value", value, true),
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
            Field::new("row", DataType::Int64, false),
        ]);
        let column = |name: &str| col(name, &schema).unwrap();
        let [number, text] = self.options;
        let mut keys = vec![("number", number), ("text", text)];
        keys.extend(self.has_no_ties.then(|| ("row", SortOptions::default())));
        let mut exprs = vec![column("value")];
        let mut expr_fields = vec![Arc::new(schema.field(0).clone())];
        if self.is_joined {
            exprs.push(lit(", "));
            expr_fields.push(Arc::new(Field::new("between", DataType::Utf8, false)));
        }
        let of_list = Field::new_list_field(schema.field(0).data_type().clone(), true);
        KeptArgs {
            return_field: Arc::new(match self.is_joined {
                true => Field::new("f", DataType::LargeUtf8, true),
                false => Field::new_list("f", of_list, true),
            }),
            ignore_nulls: self.ignore_nulls && !self.is_joined,
            order_bys: keys.into_iter().map(|(key, options)| PhysicalSortExpr { expr: column(key), options }).collect(),
            is_reversed: self.is_reversed,
            name: "f".to_owned(),
            is_distinct: false,
            exprs,
            expr_fields,
            schema,
        }
    }

    fn theirs(&self) -> Arc<AggregateUDF> {
        let function = if self.is_joined { string_agg_udaf() } else { array_agg_udaf() };
        let ordered = function.as_ref().clone().with_beneficial_ordering(self.is_input_ordered).unwrap();
        ordered.map_or(function, Arc::new)
    }

    fn their_groups(&self) -> Box<dyn GroupsAccumulator> {
        let (theirs, args) = (self.theirs(), self.args());
        Box::new(ByGroup::new(Box::new(move || theirs.inner().accumulator(args.lent()))))
    }

    fn our_groups(&self) -> OrderedLists {
        let name = if self.is_joined { "string_agg" } else { "array_agg" };
        OrderedLists::new(name, &self.args().lent(), self.is_input_ordered).unwrap().unwrap()
    }

    /// The arguments, the keys, the groups, and a filter; rows are numbered from the first.
    fn batch(&self, rows: &[Row], first: i64) -> (Vec<ArrayRef>, Vec<usize>, BooleanArray) {
        let value: ArrayRef = if self.is_of_texts() {
            Arc::new(rows.iter().map(|row| row.0.map(long)).collect::<StringViewArray>())
        } else {
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())
        };
        let mut columns = vec![value];
        if self.is_joined {
            columns.push(ScalarValue::from(", ").to_array_of_size(rows.len()).unwrap());
        }
        columns.push(Arc::new(rows.iter().map(|row| row.1.0).collect::<Int64Array>()));
        columns.push(Arc::new(rows.iter().map(|row| row.1.1.map(long)).collect::<StringViewArray>()));
        if self.has_no_ties {
            columns.push(Arc::new(Int64Array::from_iter_values(first..first + rows.len() as i64)));
        }
        (columns, rows.iter().map(|row| row.2).collect(), rows.iter().map(|row| row.3).collect())
    }

    /// What batches come to: the first groups, then the others together with a last batch.
    fn come_to(
        &self,
        groups: &mut dyn GroupsAccumulator,
        other: &mut dyn GroupsAccumulator,
        batches: &[(Way, Vec<Row>)],
        last: &[Row],
        taken_first: usize,
    ) -> Vec<ArrayRef> {
        for (at, (way, rows)) in batches.iter().enumerate() {
            let (values, places, filter) = self.batch(rows, 1_000 * at as i64);
            match way {
                Way::Rows => groups.update_batch(&values, &places, Some(&filter), GROUPS).unwrap(),
                Way::State => {
                    other.update_batch(&values, &places, Some(&filter), GROUPS).unwrap();
                    // Some at a time, as they are handed on when memory is short.
                    let first = other.state(EmitTo::First(taken_first)).unwrap();
                    groups.merge_batch(&first, &(0..taken_first).collect::<Vec<_>>(), GROUPS).unwrap();
                    let rest = other.state(EmitTo::All).unwrap();
                    groups.merge_batch(&rest, &(taken_first..GROUPS).collect::<Vec<_>>(), GROUPS).unwrap();
                }
                Way::StateOfRows => {
                    let states = groups.convert_to_state(&values, Some(&filter)).unwrap();
                    groups.merge_batch(&states, &places, GROUPS).unwrap();
                }
            }
        }
        let mut all = vec![groups.evaluate(EmitTo::First(taken_first)).unwrap()];
        let (values, places, _) = self.batch(last, 1_000_000);
        let rest = GROUPS - taken_first;
        let places: Vec<usize> = places.into_iter().map(|group| group % rest).collect();
        groups.update_batch(&values, &places, None, rest).unwrap();
        all.push(groups.evaluate(EmitTo::All).unwrap());
        all
    }
}

fn a_row() -> impl Strategy<Value = Row> {
    let key = || prop::option::weighted(0.8, -3..3_i64);
    let counts = prop::option::weighted(0.9, prop::bool::weighted(0.8));
    (prop::option::weighted(0.8, -3..9_i64), (key(), key()), 0..GROUPS, counts)
}

fn a_call(has_no_ties: bool) -> impl Strategy<Value = Call> {
    let options =
        || any::<(bool, bool)>().prop_map(|(descending, nulls_first)| SortOptions { descending, nulls_first });
    // Rows that are said to come in order are not sorted; DataFusion's `string_agg` is not told. States of them are in no order to merge.
    (any::<[bool; 5]>(), [options(), options()]).prop_map(move |(is, options)| Call {
        is_joined: is[0],
        is_of_texts: is[1],
        ignore_nulls: is[2],
        is_reversed: is[3],
        is_input_ordered: is[4] && !is[0] && !has_no_ties,
        options,
        has_no_ties,
    })
}

proptest! {
    #[test]
    fn lists_of_rows_are_those_of_datafusion(
        call in a_call(false),
        batches in prop::collection::vec(prop::collection::vec(a_row(), 1..20), 1..5),
        last in prop::collection::vec(a_row(), 1..10),
        taken_first in 1..GROUPS,
    ) {
        let batches: Vec<_> = batches.into_iter().map(|rows| (Way::Rows, rows)).collect();
        let wanted = call.come_to(
            call.their_groups().as_mut(), call.their_groups().as_mut(), &batches, &last, taken_first,
        );
        let found = call.come_to(&mut call.our_groups(), &mut call.our_groups(), &batches, &last, taken_first);
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn merged_lists_are_those_of_datafusion(
        call in a_call(true),
        batches in prop::collection::vec(
            (prop::sample::select(vec![Way::Rows, Way::State, Way::StateOfRows]), prop::collection::vec(a_row(), 1..20)),
            1..6,
        ),
        last in prop::collection::vec(a_row(), 1..10),
        taken_first in 1..GROUPS,
    ) {
        let theirs = || call.their_groups();
        let wanted = call.come_to(theirs().as_mut(), theirs().as_mut(), &batches, &last, taken_first);
        let ours = || call.our_groups();
        prop_assert_eq!(&call.come_to(&mut ours(), &mut ours(), &batches, &last, taken_first), &wanted);
        // And halves of one kind go on in the other.
        prop_assert_eq!(&call.come_to(theirs().as_mut(), &mut ours(), &batches, &last, taken_first), &wanted);
        prop_assert_eq!(&call.come_to(&mut ours(), theirs().as_mut(), &batches, &last, taken_first), &wanted);
    }

    #[test]
    fn the_list_of_all_rows_is_that_of_datafusion(
        call in a_call(true),
        batches in prop::collection::vec(prop::collection::vec(a_row(), 0..20), 0..4),
    ) {
        let (args, theirs) = (call.args(), call.theirs());
        let their = || theirs.inner().accumulator(args.lent()).unwrap();
        let our = || Box::new(OrderedList(call.our_groups())) as Box<dyn Accumulator>;
        let comes_to = |mut whole: Box<dyn Accumulator>, mut part: Box<dyn Accumulator>| {
            for (at, rows) in batches.iter().enumerate() {
                let (values, ..) = call.batch(rows, 1_000 * at as i64);
                if at % 2 == 0 { whole.update_batch(&values) } else { part.update_batch(&values) }.unwrap();
            }
            let state: Vec<ArrayRef> = part.state().unwrap().iter().map(|of| of.to_array().unwrap()).collect();
            whole.merge_batch(&state).unwrap();
            whole.evaluate().unwrap()
        };
        let wanted = comes_to(their(), their());
        prop_assert_eq!(&comes_to(our(), our()), &wanted);
        prop_assert_eq!(&comes_to(our(), their()), &wanted);
        prop_assert_eq!(&comes_to(their(), our()), &wanted);
    }
}

fn of_texts() -> Call {
    let options = [SortOptions::default(); 2];
    let (is_joined, is_of_texts, ignore_nulls, is_reversed) = (false, true, false, false);
    Call { is_joined, is_of_texts, ignore_nulls, is_reversed, is_input_ordered: false, options, has_no_ties: false }
}

fn numbered(first: usize, rows: usize, group: impl Fn(usize) -> usize) -> Vec<Row> {
    let row = |row: usize| (Some(row as i64), (Some(-(row as i64)), None), group(row), Some(true));
    (first..first + rows).map(row).collect()
}

#[test]
fn states_are_of_the_types_that_are_foreseen() {
    for is_joined in [false, true] {
        let call = Call { is_joined, ..of_texts() };
        let (theirs, args) = (call.theirs(), call.args());
        let of_key = |key: &PhysicalSortExpr| {
            let of = key.expr.data_type(&args.schema).unwrap();
            Arc::new(Field::new(key.expr.to_string(), of, true))
        };
        let ordering_fields: Vec<_> = args.order_bys.iter().map(of_key).collect();
        let foreseen = theirs.inner().state_fields(datafusion_expr::function::StateFieldsArgs {
            name: "f",
            input_fields: &args.expr_fields,
            return_field: Arc::clone(&args.return_field),
            ordering_fields: &ordering_fields,
            is_distinct: false,
        });
        let mut groups = call.our_groups();
        for rows in [numbered(0, 9, |row| row % GROUPS), vec![]] {
            let (values, places, _) = call.batch(&rows, 0);
            groups.update_batch(&values, &places, None, GROUPS).unwrap();
            for (state, field) in groups.state(EmitTo::All).unwrap().iter().zip(foreseen.as_ref().unwrap()) {
                assert_eq!((state.data_type(), state.len()), (field.data_type(), GROUPS));
                assert!(field.is_nullable() || state.null_count() == 0);
            }
        }
    }
}

#[test]
fn work_grows_as_rows_and_groups_do() {
    const BATCH: usize = 8_192;
    let call = of_texts();
    for total in [1, 1_000, 1_000_000] {
        let rows = 2 * total.max(BATCH);
        let (mut scattered, mut sorted) = (call.our_groups(), call.our_groups());
        let mut lists = 0;
        let mut gone = 0;
        for first in (0..rows).step_by(BATCH) {
            let count = BATCH.min(rows - first);
            let (values, places, _) = call.batch(&numbered(first, count, |row| row * 7_919 % total), 0);
            scattered.update_batch(&values, &places, None, total).unwrap();
            // Of sorted rows all groups but the last are taken with each batch.
            let group = |row: usize| row * total / rows;
            let (values, places, _) = call.batch(&numbered(first, count, |row| group(row) - gone), 0);
            let (last, total) = (group(first + count - 1), group(first + count - 1) + 1 - gone);
            sorted.update_batch(&values, &places, None, total).unwrap();
            if last > gone {
                lists += sorted.evaluate(EmitTo::First(last - gone)).unwrap().len();
                gone = last;
            }
        }
        let all = scattered.evaluate(EmitTo::All).unwrap();
        lists += sorted.evaluate(EmitTo::All).unwrap().len();
        assert_eq!((all.len(), lists), (total, total));
        for looked_at in [scattered.rows.looked_at, sorted.rows.looked_at] {
            assert!(looked_at <= 4 * (rows + total), "{looked_at} of {rows} rows in {total} groups");
        }
        let group = all.as_list::<i32>().value(0);
        assert_eq!(group.as_string_view().value(0), long(last_of_group_0(rows, total)), "the greatest row is first");
    }
}

fn last_of_group_0(rows: usize, total: usize) -> i64 {
    (0..rows).rev().find(|row| row * 7_919 % total == 0).unwrap() as i64
}

#[test]
fn what_is_held_is_what_the_rows_take() {
    const ROWS: usize = 10_000;
    let call = of_texts();
    let (values, _, _) = call.batch(&numbered(0, ROWS, |_| 0), 0);
    let whole: usize = values.iter().map(|column| column.get_array_memory_size()).sum();
    let mut groups = call.our_groups();
    let nothing = groups.size();
    for first in (0..ROWS).step_by(100) {
        let few: Vec<ArrayRef> = values.iter().map(|column| column.slice(first, 100)).collect();
        groups.update_batch(&few, &[0; 100], None, 1).unwrap();
    }
    let held = groups.size() - nothing;
    assert!(held > whole && held < 6 * whole, "{held} for rows of {whole} bytes");
    groups.evaluate(EmitTo::First(1)).unwrap();
    assert_eq!(groups.size(), nothing, "nothing is left");
}

#[test]
fn a_joined_text_asks_for_a_text_between() {
    let mut args = Call { is_joined: true, ..of_texts() }.args();
    args.exprs[1] = Arc::new(datafusion_physical_expr::expressions::Column::new("text", 2)) as Arc<dyn PhysicalExpr>;
    assert!(OrderedLists::new("string_agg", &args.lent(), false).unwrap().is_none());
}

#[test]
fn groups_go_and_others_stay() {
    let call = of_texts();
    let mut groups = call.our_groups();
    let (values, places, _) = call.batch(&numbered(0, 12, |row| row % 3), 0);
    groups.update_batch(&values, &places, None, 3).unwrap();
    let parts: Vec<ArrayRef> = [EmitTo::First(1), EmitTo::First(1), EmitTo::All]
        .into_iter()
        .map(|emit_to| groups.evaluate(emit_to).unwrap())
        .collect();
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    let all = concat(&parts).unwrap();
    let wanted = |group: i64| [9, 6, 3, 0].map(|row: i64| long(row + group));
    for (group, list) in all.as_list::<i32>().iter().enumerate() {
        let list = list.unwrap();
        assert!(list.as_string_view().iter().flatten().eq(wanted(group as i64).iter().map(String::as_str)));
    }
}
