//! Averages of BIGINT and of durations, and variances and deviations of integers and decimals, from exact sums.
//!
//! Invariants:
//! - What is added up is exact: the value does not depend on the order of the rows, nor on the threads, and is the one that the index gives.
//! - Only the last step, a quotient (and a root), is rounded to a double.
//! - Types stay: all of these are doubles, but averages of durations, which are durations
//!   ([`crate::aggregates::interval_avg`]). So do names.
//!
//! DataFusion 55.2 makes doubles of all values first: the average of epochs in microseconds is off by microseconds, and numbers of 19 digits
//! that differ in their last have no variance. Variances as PostgreSQL has them of `numeric` (`numeric_stddev_internal`): n times the sum of
//! squares less the square of the sum, over n times n (or n - 1).
//!
//! DISTINCT is DataFusion's, and so are doubles.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: avg, variance, BIGINT, precision lost,
//! Float64).
//! Held by `slt/spreads.slt` (`avg(i) - 4611686018427387`, `var_pop(d)`).

pub mod accumulators;
pub mod sums;

use crate::codec::{StateReader, StateWriter, Stateful};
use accumulators::{Alone, Groups};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};
use std::sync::Arc;
use sums::{Exact, Mean, Spread, Squares, Total};

/// What is made of sums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExactAggregate {
    /// The arithmetic mean.
    Average,
    /// The variance.
    Variance {
        /// Whether the divisor is n - 1, for n values; else n.
        of_sample: bool,
    },
    /// The standard deviation: the root of the variance.
    Deviation {
        /// Whether the divisor of the variance is n - 1, for n values; else n.
        of_sample: bool,
    },
}

impl ExactAggregate {
    /// By DataFusion's name of the aggregate function; `None` for a function that is none of these.
    pub fn named(name: &str) -> Option<ExactAggregate> {
        Some(match name {
            "avg" => ExactAggregate::Average,
            "var" => ExactAggregate::Variance { of_sample: true },
            "var_pop" => ExactAggregate::Variance { of_sample: false },
            "stddev" => ExactAggregate::Deviation { of_sample: true },
            "stddev_pop" => ExactAggregate::Deviation { of_sample: false },
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            ExactAggregate::Average => "avg",
            ExactAggregate::Variance { of_sample: true } => "var",
            ExactAggregate::Variance { of_sample: false } => "var_pop",
            ExactAggregate::Deviation { of_sample: true } => "stddev",
            ExactAggregate::Deviation { of_sample: false } => "stddev_pop",
        }
    }

    /// The aggregate function of one argument, an integer or a decimal, that gives a double.
    pub fn function(self) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Exactly::new(self)))
    }
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exactly {
    of: ExactAggregate,
    signature: Signature,
}

impl Exactly {
    fn new(of: ExactAggregate) -> Exactly {
        Exactly { of, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Stateful for Exactly {
    const CODE: &'static str = "exactly";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.text(self.of.name());
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        match ExactAggregate::named(state.text()?) {
            Some(of) => Ok(Exactly::new(of)),
            None => internal_err!("no exact aggregate"),
        }
    }
}

impl AggregateUDFImpl for Exactly {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let fields = if self.of == ExactAggregate::Average { Total::fields() } else { Squares::fields() };
        let field = |(part, of)| Field::new(format_state_name(args.name, part), of, true).into();
        Ok(fields.into_iter().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(match self.of {
            ExactAggregate::Average => Box::new(Alone::<Total>::new(Mean::Double)),
            _ => Box::new(Alone::<Squares>::new(Spread { of: self.of, scale: scale_of(&args) })),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match self.of {
            ExactAggregate::Average => Box::new(Groups::<Total>::new(Mean::Double)),
            _ => Box::new(Groups::<Squares>::new(Spread { of: self.of, scale: scale_of(&args) })),
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Digits behind the point of what is added up.
fn scale_of(args: &AccumulatorArgs) -> i8 {
    match args.expr_fields.first().map(|field| field.data_type()) {
        Some(DataType::Decimal128(_, scale)) => *scale,
        _ => 0,
    }
}
