//! `percentile_cont`, `median`, `percentile_disc` and `mode`.
//!
//! Invariants:
//! - What lies between two values is `low + (high - low) * share` of them in doubles, as in PostgreSQL: numbers of all types are doubles here,
//!   and `median(x)` is `percentile_cont(0.5)`. Moments and spans, which are counted in integers, go to the nearest unit.
//! - Values are in PostgreSQL's order: NaN is the greatest, the zeros are one, spans go by their length where something lies between them.
//! - A fraction is a constant from 0 to 1, or a list of such, for which there is a list of values. NULL in, NULL out.
//! - Whatever holds values is counted, and what is held of a part of the rows is a list of them, as `array_agg` has it.
//!
//! DataFusion 55.2 rounds shares to six digits (the third of a thousand million was 333333000), cuts off digits of medians of decimals, which
//! wrap around, too, and has neither `percentile_disc` nor `mode`.
//!
//! Mends apache/datafusion#25266 (in 55.2).
//! Held by `slt/numbers.slt` (`percentile_cont(0.3333333333) WITHIN GROUP (ORDER BY x)`, `median(x)`).

pub(crate) mod request;

mod between;
mod held;
mod sorted;

use crate::aggregates::percentiles::request::{Fractions, PercentileRequest, What};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Schema, TimeUnit,
};
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_physical_expr::PhysicalExpr;
use held::Held;
use std::mem::size_of;
use std::sync::Arc;

/// Which of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `percentile_cont`
    Between,
    /// `median`
    Median,
    /// `percentile_disc`
    Among,
    /// `mode`
    Mode,
}

/// One of the four.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Ordered {
    kind: Kind,
    /// What holds values of types and groups of all kinds.
    list: Arc<AggregateUDF>,
    aliases: Vec<String>,
    signature: Signature,
}

impl Ordered {
    /// The aggregate of this kind.
    pub(crate) fn new(kind: Kind) -> Ordered {
        let alias = match kind {
            Kind::Between => Some("quantile_cont"),
            Kind::Among => Some("quantile_disc"),
            Kind::Median | Kind::Mode => None,
        };
        let aliases = alias.into_iter().map(str::to_owned).collect();
        Ordered { kind, list: array_agg_udaf(), aliases, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn asked(&self, args: &AccumulatorArgs) -> Result<PercentileRequest> {
        let what = match self.kind {
            Kind::Between => What::Between(fractions(args.exprs.get(1))?),
            Kind::Median => What::Between(Fractions::one(Some(0.5))),
            Kind::Among => What::Among(fractions(args.exprs.get(1))?),
            Kind::Mode => What::Mode,
        };
        let order = args.order_bys.first().map_or_else(SortOptions::default, |key| key.options);
        let of = args.expr_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        Ok(PercentileRequest { what, is_descending: order.descending, of })
    }

    /// What holds values as numbers, if there are such: without copies of them, and so that a frame's next row does not sort all again.
    fn held(&self, asked: &PercentileRequest) -> Option<Box<dyn Accumulator>> {
        if !matches!(asked.what, What::Between(_)) {
            return None;
        }
        match asked.of {
            DataType::Float64 => Some(Box::new(Held::<Float64Type>::new(asked.clone()))),
            DataType::Timestamp(..) | DataType::Duration(_) => Some(Box::new(Held::<Int64Type>::new(asked.clone()))),
            DataType::Interval(_) => Some(Box::new(Held::<IntervalMonthDayNanoType>::new(asked.clone()))),
            _ => None,
        }
    }
}

/// The arguments of the list of values: no order, no NULL.
fn of_list<'a>(args: &AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
    let mut of_list = args.clone();
    of_list.ignore_nulls = true;
    of_list.order_bys = &[];
    of_list.exprs = &args.exprs[..1];
    of_list.expr_fields = &args.expr_fields[..1];
    of_list
}

/// What a fraction is worth, which no row changes.
fn fractions(expr: Option<&Arc<dyn PhysicalExpr>>) -> Result<Fractions> {
    let Some(expr) = expr else { return exec_err!("there is no fraction") };
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let Ok(value) = expr.evaluate(&row).and_then(|value| value.into_array(1)) else {
        let error = Error::new(ErrorKind::NotSupported, "the fraction of a percentile must be a constant");
        return Err(wrap(error.with_hint("write a number from 0 to 1, or a list of such")));
    };
    let of_numbers = |numbers: &dyn Array| -> Result<Vec<Option<f64>>> {
        let numbers = numbers.as_primitive::<Float64Type>().iter();
        numbers.map(|number| number.map(checked).transpose()).collect()
    };
    match value.data_type() {
        DataType::Float64 => Ok(Fractions::one(of_numbers(&value)?.first().copied().flatten())),
        DataType::List(_) => {
            let lists = value.as_list::<i32>();
            let each = if lists.is_null(0) { None } else { Some(of_numbers(&lists.value(0))?) };
            Ok(Fractions { each, is_list: true })
        }
        other => exec_err!("{other} is no fraction"),
    }
}

fn checked(fraction: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(fraction);
    }
    let message = format!("percentile value {fraction} is not between 0 and 1");
    Err(wrap(Error::new(ErrorKind::OutOfRange, message)))
}

/// A number among the types of fractions.
fn is_number(of: &DataType) -> bool {
    of.is_numeric() || of.is_null()
}

/// The type that a fraction is taken as, if it is one.
fn fraction_type(of: &DataType) -> Option<DataType> {
    match of {
        of if is_number(of) => Some(DataType::Float64),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _)
            if is_number(element.data_type()) =>
        {
            Some(DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true))))
        }
        _ => None,
    }
}

/// The type in which something can lie between two values, if it can.
fn between_type(of: &DataType) -> Option<DataType> {
    match of {
        of if is_number(of) => Some(DataType::Float64),
        DataType::Timestamp(..) | DataType::Duration(_) => Some(of.clone()),
        DataType::Date32 | DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        DataType::Interval(_) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
        _ => None,
    }
}

impl AggregateUDFImpl for Ordered {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Between => "percentile_cont",
            Kind::Median => "median",
            Kind::Among => "percentile_disc",
            Kind::Mode => "mode",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let among_type = |of: &DataType| (!of.is_nested()).then(|| of.clone());
        let types = match (self.kind, arg_types) {
            (Kind::Between, [of, fraction]) => between_type(of).zip(fraction_type(fraction)),
            (Kind::Among, [of, fraction]) => among_type(of).zip(fraction_type(fraction)),
            (Kind::Median, [of]) => return between_type(of).map_or_else(|| self.refused(), |of| Ok(vec![of])),
            (Kind::Mode, [of]) => return among_type(of).map_or_else(|| self.refused(), |of| Ok(vec![of])),
            _ => None,
        };
        types.map_or_else(|| self.refused(), |(of, fraction)| Ok(vec![of, fraction]))
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [of, DataType::List(_)] => Ok(DataType::List(Arc::new(Field::new_list_field(of.clone(), true)))),
            [of, ..] => Ok(of.clone()),
            [] => plan_err!("there is nothing to put in order"),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.list.inner().state_fields(StateFieldsArgs {
            name: args.name,
            input_fields: &args.input_fields[..1],
            return_field: args.return_field,
            ordering_fields: &[],
            is_distinct: args.is_distinct,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let asked = self.asked(&args)?;
        match self.held(&asked) {
            Some(held) if !args.is_distinct => Ok(held),
            _ => Ok(Box::new(OfList { list: self.list.inner().accumulator(of_list(&args))?, asked })),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.list.inner().groups_accumulator_supported(of_list(&args))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let asked = self.asked(&args)?;
        Ok(Box::new(OfLists { lists: self.list.inner().create_groups_accumulator(of_list(&args))?, asked }))
    }

    /// Values are put in order here, whatever order they come in.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn supports_within_group_clause(&self) -> bool {
        // `median(x)` has no such form.
        self.kind != Kind::Median
    }
}

impl Ordered {
    fn refused(&self) -> Result<Vec<DataType>> {
        match self.kind {
            Kind::Between => {
                plan_err!("write percentile_cont(0.5) WITHIN GROUP (ORDER BY x) of a number, a moment or a span x")
            }
            Kind::Median => plan_err!("write median(x) of a number, a moment or a span x"),
            Kind::Among => {
                plan_err!("write percentile_disc(0.5) WITHIN GROUP (ORDER BY x) of an x that is no list")
            }
            Kind::Mode => plan_err!("write mode() WITHIN GROUP (ORDER BY x) of an x that is no list"),
        }
    }
}

/// Of all values of one group, which are held as a list.
#[derive(Debug)]
struct OfList {
    list: Box<dyn Accumulator>,
    asked: PercentileRequest,
}

impl Accumulator for OfList {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.list.update_batch(&values[..1])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::List(lists) = self.list.evaluate()? else { return exec_err!("values are held as no list") };
        ScalarValue::try_from_array(&self.asked.of_lists(&lists)?, 0)
    }

    fn size(&self) -> usize {
        // What is put in order is a copy.
        size_of::<OfList>() + 2 * self.list.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.list.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.list.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.list.retract_batch(&values[..1])
    }

    fn supports_retract_batch(&self) -> bool {
        self.list.supports_retract_batch()
    }
}

/// Of all values of each group.
struct OfLists {
    lists: Box<dyn GroupsAccumulator>,
    asked: PercentileRequest,
}

impl GroupsAccumulator for OfLists {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.lists.update_batch(&values[..1], groups, filter, total_groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.lists.merge_batch(states, groups, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let lists = self.lists.evaluate(emit_to)?;
        self.asked.of_lists(lists.as_list::<i32>())
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.lists.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.lists.convert_to_state(&values[..1], filter)
    }

    fn size(&self) -> usize {
        self.lists.size()
    }
}
