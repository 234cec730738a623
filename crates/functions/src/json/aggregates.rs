//! `json_agg`, `json_object_agg`, and the same of JSONB.
//!
//! Invariants, as in PostgreSQL:
//! - NULL is an element, and no rows make NULL. Elements are in the order of ORDER BY, or in the one in which rows come.
//! - An object is made of rows of a key and a value ([`super::build::RowOf`]; `alluvia_syntax` writes `json_object_agg(k, v)` so).
//! - What is held of a part of the rows is a list of them, as `array_agg` has it.

use super::text::normalised;
use super::written::Written;
use crate::aggregates::linear::linear;
use crate::casts::kinds::{Kind, field_of};
use crate::stopping;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::json_value::write_string;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use std::mem::size_of;
use std::sync::Arc;

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gathered {
    name: &'static str,
    kind: Kind,
    is_object: bool,
    /// What holds the elements.
    list: Arc<AggregateUDF>,
    signature: Signature,
}

impl Gathered {
    /// By the name that statements call it by.
    pub(crate) fn new(name: &'static str, kind: Kind, is_object: bool) -> Gathered {
        Gathered {
            name,
            kind,
            is_object,
            list: linear(array_agg_udaf()),
            signature: Signature::any(1, Volatility::Stable),
        }
    }

    fn written(&self, field: Option<&FieldRef>) -> Writer {
        let element = field.map_or_else(|| Field::new("", DataType::Null, true), |field| field.as_ref().clone());
        Writer { kind: self.kind, is_object: self.is_object, element }
    }
}

/// The field of a list of elements.
fn list_field(of: Option<&FieldRef>, name: &str) -> FieldRef {
    let element = of.map_or(DataType::Null, |field| field.data_type().clone());
    Arc::new(Field::new(name, DataType::List(Arc::new(Field::new_list_field(element, true))), true))
}

impl AggregateUDFImpl for Gathered {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field(&self, _arg_fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(field_of(self.kind, self.name))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.list.inner().state_fields(StateFieldsArgs {
            return_field: list_field(args.input_fields.first(), args.name),
            name: args.name,
            input_fields: args.input_fields,
            ordering_fields: args.ordering_fields,
            is_distinct: args.is_distinct,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let writer = self.written(args.expr_fields.first());
        let mut of_list = args.clone();
        of_list.return_field = list_field(args.expr_fields.first(), self.name);
        Ok(Box::new(OfList { list: self.list.inner().accumulator(of_list)?, writer }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.list.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let writer = self.written(args.expr_fields.first());
        let mut of_list = args.clone();
        of_list.return_field = list_field(args.expr_fields.first(), self.name);
        Ok(Box::new(OfLists { lists: self.list.inner().create_groups_accumulator(of_list)?, writer }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.list.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let list = self.list.as_ref().clone().with_beneficial_ordering(beneficial_ordering)?;
        let Some(list) = list.map(Arc::new) else { return Ok(None) };
        let Gathered { name, kind, is_object, .. } = *self;
        Ok(Some(Arc::new(Gathered { list, ..Gathered::new(name, kind, is_object) })))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }
}

/// What writes lists.
#[derive(Clone, Debug)]
struct Writer {
    kind: Kind,
    is_object: bool,
    element: Field,
}

impl Writer {
    fn of_lists(&self, lists: &ListArray) -> Result<ArrayRef> {
        let values = Written::of(lists.values(), &self.element)?;
        let offsets = lists.value_offsets();
        let mut out = StringViewBuilder::with_capacity(lists.len());
        for row in 0..lists.len() {
            stopping::check_at(row)?;
            if lists.is_null(row) || offsets[row] == offsets[row + 1] {
                out.append_null();
                continue;
            }
            let places = offsets[row] as usize..offsets[row + 1] as usize;
            let text = if self.is_object { object(&values, places)? } else { array(&values, places) };
            out.append_value(if self.kind == Kind::Jsonb { normalised(&text)? } else { text });
        }
        Ok(Arc::new(out.finish()))
    }
}

fn array(values: &Written, places: std::ops::Range<usize>) -> String {
    let mut out = String::from("[");
    // Rows and lists stand on lines of their own.
    let between = if matches!(values, Written::Row(..) | Written::List(..)) { ", \n " } else { ", " };
    for (at, place) in places.enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        values.write(place, &mut out);
    }
    out.push(']');
    out
}

fn object(rows: &Written, places: std::ops::Range<usize>) -> Result<String> {
    let Written::Row(_, columns) = rows else { return exec_err!("an object is made of keys and values") };
    let [(_, keys), (_, values)] = columns.as_slice() else {
        return exec_err!("an object is made of keys and values");
    };
    let mut out = String::from("{ ");
    for (at, place) in places.enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        let Some(key) = keys.key(place) else {
            return Err(wrap(Error::new(ErrorKind::InvalidArgument, "field name must not be null")));
        };
        write_string(key, &mut out);
        out.push_str(" : ");
        values.write(place, &mut out);
    }
    out.push_str(" }");
    Ok(out)
}

/// Of one group.
#[derive(Debug)]
struct OfList {
    list: Box<dyn Accumulator>,
    writer: Writer,
}

impl Accumulator for OfList {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.list.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::List(lists) = self.list.evaluate()? else { return exec_err!("elements are held as no list") };
        ScalarValue::try_from_array(&self.writer.of_lists(&lists)?, 0)
    }

    fn size(&self) -> usize {
        size_of::<OfList>() + 2 * self.list.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.list.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.list.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.list.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.list.supports_retract_batch()
    }
}

/// Of each group.
struct OfLists {
    lists: Box<dyn GroupsAccumulator>,
    writer: Writer,
}

impl GroupsAccumulator for OfLists {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.lists.update_batch(values, groups, filter, total_groups)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.lists.merge_batch(values, groups, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let lists = self.lists.evaluate(emit_to)?;
        self.writer.of_lists(lists.as_list::<i32>())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.lists.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.lists.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.lists.size()
    }
}
