//! Functions as bytes and back, for plans that another process is to run.
//!
//! Invariants:
//! - What is decoded equals what was encoded: the same function with the same state (`it functions` has it of every plan of the `.slt`
//!   files).
//! - A function of the table is its name. One that a rule makes with state is its code ([`Stateful::CODE`]) and its state. DataFusion's own,
//!   where the table has another of its name (planners of DataFusion put it into plans), is its name, too.
//! - What cannot be encoded is refused by name: a session's own functions, which read its snapshot.
//! - Bytes begin with a version; of another version they are refused.

mod state;
mod types;

use crate::{
    aggregates, arrays, bytes, casts, conditional, internal, operators, output_size, rounding, table, to_char, windows,
};
use datafusion_common::{Result, exec_err, not_impl_err};
use datafusion_expr::{AggregateUDF, AggregateUDFImpl, ScalarUDF, ScalarUDFImpl, WindowUDF};
pub use state::{StateReader, StateWriter, number_of};
use std::sync::Arc;
use table::Function;

/// The version of the bytes.
const VERSION: u8 = 1;
/// A function of the table, by its name.
const OF_TABLE: u8 = 0;
/// DataFusion's function, where the table has another of its name.
const OF_DATAFUSION: u8 = 1;
/// A function that is made with state, by its code and its state.
const MADE: u8 = 2;

/// A function that rules and planners make with state, and that has no name to be found by.
pub trait Stateful: Sized {
    /// Its name among such functions.
    const CODE: &'static str;

    /// Writes the state.
    fn write(&self, state: &mut StateWriter) -> Result<()>;

    /// Makes the function of its state.
    fn read(state: &mut StateReader<'_>) -> Result<Self>;
}

/// How the functions of one type are written and read.
#[derive(Clone, Copy, Debug)]
struct Made<F> {
    code: &'static str,
    /// `None` of a function of another type.
    write: fn(&F, &mut StateWriter) -> Option<Result<()>>,
    read: fn(&mut StateReader<'_>) -> Result<F>,
}

impl Made<ScalarUDF> {
    const fn scalar<T: Stateful + ScalarUDFImpl>() -> Made<ScalarUDF> {
        Made {
            code: T::CODE,
            write: |function, state| function.inner().downcast_ref::<T>().map(|function| function.write(state)),
            read: |state| T::read(state).map(ScalarUDF::from),
        }
    }
}

impl Made<AggregateUDF> {
    const fn aggregate<T: Stateful + AggregateUDFImpl>() -> Made<AggregateUDF> {
        Made {
            code: T::CODE,
            write: |function, state| function.inner().downcast_ref::<T>().map(|function| function.write(state)),
            read: |state| T::read(state).map(AggregateUDF::from),
        }
    }
}

/// Scalar functions that are made with state.
const SCALARS: &[Made<ScalarUDF>] = &[
    Made::scalar::<arrays::compared::Contains>(),
    Made::scalar::<arrays::compared::Ordered>(),
    Made::scalar::<arrays::subscripts::Subscript>(),
    Made::scalar::<arrays::texts::ReadLists>(),
    Made::scalar::<bytes::forms::OfBytes>(),
    Made::scalar::<bytes::functions::Converted>(),
    Made::scalar::<casts::float_ranges::FloatWithin>(),
    Made::scalar::<casts::interval_input::ReadInterval>(),
    Made::scalar::<casts::text_output::Written>(),
    Made::scalar::<casts::typed::Typed>(),
    Made::scalar::<conditional::interval_extremes::IntervalExtreme>(),
    Made::scalar::<aggregates::sum::NarrowedSum>(),
    Made::scalar::<internal::computed::Computed>(),
    Made::scalar::<internal::opaque::Opaque>(),
    Made::scalar::<internal::row_bytes::RowBytes>(),
    Made::scalar::<internal::single_row::Single>(),
    Made::scalar::<operators::Operation<operators::decimal_quotients::Quotient>>(),
    Made::scalar::<operators::Operation<operators::floats::FloatOperator>>(),
    Made::scalar::<operators::Operation<operators::integers::OfIntegers>>(),
    Made::scalar::<operators::Operation<operators::numerics::OfNumerics>>(),
    Made::scalar::<operators::durations::OfDuration>(),
    Made::scalar::<operators::interval_scaling::Scaled>(),
    Made::scalar::<output_size::Bounded>(),
    Made::scalar::<output_size::held::Held>(),
    Made::scalar::<output_size::joined::Joined>(),
    Made::scalar::<rounding::float_to_decimal::DecimalOfFloat>(),
    Made::scalar::<rounding::places::RoundedAt>(),
    Made::scalar::<rounding::round::AtPlace>(),
    Made::scalar::<rounding::round::Rounded>(),
    Made::scalar::<to_char::ToChar>(),
];

/// Aggregates that are made with state.
const AGGREGATES: &[Made<AggregateUDF>] =
    &[Made::aggregate::<aggregates::exact::Exactly>(), Made::aggregate::<windows::list_aggregates::InOrder>()];

/// A scalar function as bytes.
pub fn encode_scalar(function: &ScalarUDF) -> Result<Vec<u8>> {
    let of_table = |known: &Function| matches!(known, Function::Scalar(known) if known.as_ref() == function);
    let of_datafusion = || table::datafusion_scalar(function.name()).is_ok_and(|known| known.as_ref() == function);
    encode(function, function.name(), of_table, of_datafusion, SCALARS)
}

/// An aggregate as bytes.
pub fn encode_aggregate(function: &AggregateUDF) -> Result<Vec<u8>> {
    let of_table = |known: &Function| matches!(known, Function::Aggregate(known) if known.as_ref() == function);
    let of_datafusion = || table::datafusion_aggregate(function.name()).is_ok_and(|known| known.as_ref() == function);
    encode(function, function.name(), of_table, of_datafusion, AGGREGATES)
}

/// A window function as bytes.
pub fn encode_window(function: &WindowUDF) -> Result<Vec<u8>> {
    let of_table = |known: &Function| matches!(known, Function::Window(known) if known.as_ref() == function);
    let of_datafusion = || table::datafusion_window(function.name()).is_ok_and(|known| known.as_ref() == function);
    encode(function, function.name(), of_table, of_datafusion, &[])
}

/// The scalar function that was encoded.
pub fn decode_scalar(bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
    decode_scalar_within(bytes, 0)
}

fn decode_scalar_within(bytes: &[u8], depth: usize) -> Result<Arc<ScalarUDF>> {
    let of_table = |known: &Function| match known {
        Function::Scalar(function) => Some(Arc::clone(function)),
        _ => None,
    };
    decode(StateReader::within(bytes, depth)?, of_table, table::datafusion_scalar, SCALARS)
}

/// The aggregate that was encoded.
pub fn decode_aggregate(bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
    decode_aggregate_within(bytes, 0)
}

fn decode_aggregate_within(bytes: &[u8], depth: usize) -> Result<Arc<AggregateUDF>> {
    let of_table = |known: &Function| match known {
        Function::Aggregate(function) => Some(Arc::clone(function)),
        _ => None,
    };
    decode(StateReader::within(bytes, depth)?, of_table, table::datafusion_aggregate, AGGREGATES)
}

/// The window function that was encoded.
pub fn decode_window(bytes: &[u8]) -> Result<Arc<WindowUDF>> {
    let of_table = |known: &Function| match known {
        Function::Window(function) => Some(Arc::clone(function)),
        _ => None,
    };
    decode(StateReader::new(bytes), of_table, table::datafusion_window, &[])
}

fn encode<F>(
    function: &F,
    name: &str,
    of_table: impl Fn(&Function) -> bool,
    of_datafusion: impl Fn() -> bool,
    made: &[Made<F>],
) -> Result<Vec<u8>> {
    let mut state = StateWriter::default();
    state.byte(VERSION);
    let named = |mut state: StateWriter, how: u8| {
        state.byte(how);
        state.text(name);
        Ok(state.finish())
    };
    if table::functions()?.iter().any(|built| built.entry.name == name && of_table(&built.function)) {
        return named(state, OF_TABLE);
    }
    if of_datafusion() {
        return named(state, OF_DATAFUSION);
    }
    for made in made {
        let mut of_type = StateWriter::default();
        if let Some(written) = (made.write)(function, &mut of_type) {
            written?;
            state.byte(MADE);
            state.text(made.code);
            state.bytes(&of_type.finish());
            return Ok(state.finish());
        }
    }
    not_impl_err!("the function {name} cannot be sent to another process")
}

fn decode<F>(
    mut state: StateReader<'_>,
    of_table: impl Fn(&Function) -> Option<Arc<F>>,
    of_datafusion: fn(&str) -> Result<Arc<F>>,
    made: &[Made<F>],
) -> Result<Arc<F>> {
    match state.byte()? {
        VERSION => {}
        other => return exec_err!("a function was encoded by version {other}, and this is version {VERSION}"),
    }
    let (how, name) = (state.byte()?, state.text()?);
    let function = match how {
        OF_TABLE => {
            let known = table::functions()?.iter().filter(|built| built.entry.name == name);
            match known.filter_map(|built| of_table(&built.function)).next() {
                Some(function) => function,
                None => return exec_err!("there is no function {name}"),
            }
        }
        OF_DATAFUSION => of_datafusion(name)?,
        MADE => {
            let Some(made) = made.iter().find(|made| made.code == name) else {
                return exec_err!("there is no function that is made as {name}");
            };
            let depth = state.depth();
            let mut of_type = StateReader::within(state.bytes()?, depth)?;
            let function = (made.read)(&mut of_type)?;
            of_type.finish()?;
            Arc::new(function)
        }
        other => return exec_err!("{other} is no way in which a function is encoded"),
    };
    state.finish()?;
    Ok(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output_size::Bounded;

    #[test]
    fn functions_come_back_as_they_were() {
        for built in table::functions().unwrap() {
            match &built.function {
                Function::Scalar(function) => {
                    assert_eq!(decode_scalar(&encode_scalar(function).unwrap()).unwrap(), *function);
                }
                Function::Aggregate(function) => {
                    assert_eq!(decode_aggregate(&encode_aggregate(function).unwrap()).unwrap(), *function);
                }
                Function::Window(function) => {
                    assert_eq!(decode_window(&encode_window(function).unwrap()).unwrap(), *function);
                }
            }
        }
    }

    #[test]
    fn a_function_that_is_one_of_several_columns_comes_back() {
        let mut count = 0;
        for built in table::functions().unwrap() {
            let (Function::Scalar(function), Some(size)) = (&built.function, table::output_size_of(built.entry.name))
            else {
                continue;
            };
            let shared = ScalarUDF::from(Bounded::new(Arc::clone(function), size, 3));
            assert_eq!(*decode_scalar(&encode_scalar(&shared).unwrap()).unwrap(), shared);
            count += 1;
        }
        assert!(count > 20);
    }

    #[test]
    fn functions_within_many_others_are_refused() {
        let mut bytes = encode_scalar(&table::datafusion_scalar("upper").unwrap()).unwrap();
        for _ in 0..100_000 {
            let mut state = StateWriter::default();
            state.number(1);
            state.bytes(&bytes);
            let inner = state.finish();
            if inner.len() > 1 << 16 {
                break;
            }
            let mut state = StateWriter::default();
            state.byte(VERSION);
            state.byte(MADE);
            state.text("bounded");
            state.bytes(&inner);
            bytes = state.finish();
        }
        assert!(decode_scalar(&bytes).unwrap_err().to_string().contains("within more than"));
        assert!(decode_scalar(&[]).is_err() && decode_scalar(&[VERSION, 9, 0]).is_err());
    }
}
