//! Aggregates whose work grows as their rows and groups do, and no faster.
//!
//! Invariants:
//! - Every aggregate of the table has an accumulator of groups ([`GroupsAccumulator`]): its own, or one made of an accumulator for each group
//!   ([`by_group`]). (Tested, with what is allocated: `tests/it`.)
//! - Those of DataFusion (55.2) that look at all groups for every batch are not used: `first_value` and `last_value` in an order ([`first_last`])
//!   and `min` and `max` of records. Nor are those that hold each value by itself: `array_agg` and `string_agg` in an order ([`ordered_lists`]).
//! - Those that count all they hold to say how much it is are asked seldom ([`gauge`]).
//! - Accumulators without groups ask whether their statement is to stop ([`asking`]).
//! - In all else a function is what it was: what it is called, means, and hands from one half of an aggregation to the other.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-29: GroupsAccumulatorAdapter quadratic, first_value many groups,
//! array_agg size).

mod asking;
mod by_group;
mod first_last;
mod gauge;
mod ordered_lists;
#[cfg(test)]
mod tests;

use arrow::datatypes::{DataType, FieldRef, Schema};
use asking::AskingAccumulator;
use by_group::ByGroup;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunctionParams};
use datafusion_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr_common::sort_expr::PhysicalSortExpr;
use first_last::FirstLast;
use gauge::{GaugedAccumulator, GaugedGroups};
use ordered_lists::{OrderedList, OrderedLists};
use std::sync::Arc;

/// Aggregates that hold lists of their values, and count them all to say how much they hold.
const LISTS: [&str; 11] = [
    "array_agg",
    "string_agg",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "nth_value",
    "median",
    "percentile_cont",
    "percentile_disc",
    "mode",
];

/// The same aggregate, whose work grows as its rows and groups do.
pub fn linear(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    if function.inner().is::<Linear>() {
        return function;
    }
    Arc::new(AggregateUDF::from(Linear { inner: function, is_input_ordered: false }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Linear {
    inner: Arc<AggregateUDF>,
    /// Whether rows come in the order that the aggregate has.
    is_input_ordered: bool,
}

impl Linear {
    fn holds_lists(&self, args: &AccumulatorArgs) -> bool {
        args.is_distinct || LISTS.contains(&self.inner.name())
    }

    /// Whether what the function has for groups looks at all of them for each batch.
    fn looks_at_all(&self, args: &AccumulatorArgs) -> bool {
        matches!(self.inner.name(), "min" | "max") && matches!(args.return_field.data_type(), DataType::Struct(_))
    }

    fn first_or_last(&self, args: &AccumulatorArgs) -> Result<Option<FirstLast>> {
        match self.inner.name() {
            "first_value" => FirstLast::new(args, true),
            "last_value" => FirstLast::new(args, false),
            _ => Ok(None),
        }
    }

    fn ordered_lists(&self, args: &AccumulatorArgs) -> Result<Option<OrderedLists>> {
        OrderedLists::new(self.inner.name(), args, self.is_input_ordered)
    }
}

/// What accumulators are made by, kept for the next one.
struct KeptArgs {
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl KeptArgs {
    fn of(args: &AccumulatorArgs) -> KeptArgs {
        KeptArgs {
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    fn lent(&self) -> AccumulatorArgs<'_> {
        AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        }
    }
}

// It stands for the function in everything, so each method of the trait is here.
#[warn(clippy::missing_trait_methods)]
impl AggregateUDFImpl for Linear {
    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if let Some(lists) = self.ordered_lists(&args)? {
            return Ok(Box::new(AskingAccumulator::new(Box::new(OrderedList(lists)))));
        }
        let holds_lists = self.holds_lists(&args);
        let inner = self.inner.inner().accumulator(args)?;
        let inner = if holds_lists { Box::new(GaugedAccumulator::new(inner)) } else { inner };
        Ok(Box::new(AskingAccumulator::new(inner)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(in_order) = self.first_or_last(&args)? {
            return Ok(Box::new(in_order));
        }
        if let Some(lists) = self.ordered_lists(&args)? {
            return Ok(Box::new(lists));
        }
        if self.inner.inner().groups_accumulator_supported(args.clone()) && !self.looks_at_all(&args) {
            let holds_lists = self.holds_lists(&args);
            let groups = self.inner.inner().create_groups_accumulator(args)?;
            return Ok(if holds_lists { Box::new(GaugedGroups::new(groups)) } else { groups });
        }
        let (function, args) = (Arc::clone(&self.inner), KeptArgs::of(&args));
        Ok(Box::new(ByGroup::new(Box::new(move || function.inner().accumulator(args.lent())))))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(AskingAccumulator::new(self.inner.inner().create_sliding_accumulator(args)?)))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(beneficial_ordering)?;
        Ok(inner.map(|inner| Arc::new(Linear { inner: Arc::new(inner), is_input_ordered: beneficial_ordering }) as _))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.inner().reverse_expr() {
            ReversedUDAF::Reversed(other) => ReversedUDAF::Reversed(linear(other)),
            same => same,
        }
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.inner().schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.inner().human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.inner().window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.inner().display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.inner().window_function_display_name(params)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.inner().return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.inner().is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.inner().state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.inner().simplify()
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        arg: &Expr,
        op: Operator,
        literal: &Expr,
        arg_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.inner.inner().simplify_expr_op_literal(function, arg, op, literal, arg_is_left)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arg_types)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.inner().is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(args)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.inner().default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.inner().supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.inner().supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}
