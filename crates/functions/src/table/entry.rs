//! One entry of the table: all that Alluvia knows about one function.
//!
//! Invariant: what the built function says itself (signature, aliases, volatility) is not repeated in its entry.

use crate::output_size::estimate::OutputSize;
use datafusion_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use std::sync::Arc;

/// One function of SQL.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name that it is registered by.
    pub name: &'static str,
    /// How it is built.
    pub build: Build,
    /// How much a call may make of little.
    pub output: Output,
    /// Those of its names (of its aliases, too) that PostgreSQL has.
    pub postgresql: &'static [&'static str],
    /// Its lists of arguments and results as documents show them, such as `date_trunc(text, timestamp) -> timestamp`; empty where the
    /// function's signature says as much.
    pub overloads: &'static [&'static str],
    /// One sentence.
    pub doc: &'static str,
    /// An expression that calls it, and the text of its value.
    pub example: Example,
}

/// How a function is built. `DataFusion` is DataFusion's function of that name as it is; the others are ours.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// DataFusion's scalar function.
    DataFusionScalar,
    /// A scalar function of ours.
    Scalar(fn() -> ScalarUDF),
    /// A scalar function of ours around DataFusion's of the same name.
    WrappedScalar(fn(Arc<ScalarUDF>) -> ScalarUDF),
    /// DataFusion's aggregate.
    DataFusionAggregate,
    /// An aggregate of ours.
    Aggregate(fn() -> AggregateUDF),
    /// DataFusion's window function.
    DataFusionWindow,
    /// A window function of ours.
    Window(fn() -> WindowUDF),
}

/// How much a call of a scalar function may make.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// A value of a few bytes, whatever is given: numbers, times, truth, digests, names.
    Small,
    /// One of the arguments, a part of them, or each of their bytes and elements once, in another order or form: a few times what is given,
    /// at most. Fields of a struct are the arguments themselves.
    NoMoreThanGiven,
    /// A cast to a type whose values have no width of their own: others are refused where they are planned.
    Cast,
    /// Much of little: it is counted before it is made.
    Counted(OutputSize),
    /// Aggregates and windows: accounted for by the operators that hold them.
    Held,
}

/// What shows and tests a function.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// An expression, or a whole SELECT where an expression cannot show it.
    pub sql: &'static str,
    /// The value's text; of several rows the texts, a line each.
    pub gives: &'static str,
}

impl Entry {
    const fn new(name: &'static str, build: Build, output: Output) -> Entry {
        Entry { name, build, output, postgresql: &[], overloads: &[], doc: "", example: Example { sql: "", gives: "" } }
    }

    /// DataFusion's scalar function, as it is.
    pub(super) const fn datafusion(name: &'static str, output: Output) -> Entry {
        Entry::new(name, Build::DataFusionScalar, output)
    }

    /// A scalar function of ours.
    pub(super) const fn scalar(name: &'static str, output: Output, build: fn() -> ScalarUDF) -> Entry {
        Entry::new(name, Build::Scalar(build), output)
    }

    /// A scalar function of ours that passes on to DataFusion's what is no different.
    pub(super) const fn wrapping(name: &'static str, output: Output, build: fn(Arc<ScalarUDF>) -> ScalarUDF) -> Entry {
        Entry::new(name, Build::WrappedScalar(build), output)
    }

    /// DataFusion's aggregate, as it is.
    pub(super) const fn datafusion_aggregate(name: &'static str) -> Entry {
        Entry::new(name, Build::DataFusionAggregate, Output::Held)
    }

    /// An aggregate of ours.
    pub(super) const fn aggregate(name: &'static str, build: fn() -> AggregateUDF) -> Entry {
        Entry::new(name, Build::Aggregate(build), Output::Held)
    }

    /// DataFusion's window function, as it is.
    pub(super) const fn datafusion_window(name: &'static str) -> Entry {
        Entry::new(name, Build::DataFusionWindow, Output::Held)
    }

    /// A window function of ours.
    pub(super) const fn window(name: &'static str, build: fn() -> WindowUDF) -> Entry {
        Entry::new(name, Build::Window(build), Output::Held)
    }

    /// PostgreSQL has these names for it.
    pub(super) const fn postgresql(mut self, names: &'static [&'static str]) -> Entry {
        self.postgresql = names;
        self
    }

    /// What its signature does not say.
    pub(super) const fn overloads(mut self, overloads: &'static [&'static str]) -> Entry {
        self.overloads = overloads;
        self
    }

    /// What it does, in one sentence.
    pub(super) const fn doc(mut self, doc: &'static str) -> Entry {
        self.doc = doc;
        self
    }

    /// What an expression gives.
    pub(super) const fn example(mut self, sql: &'static str, gives: &'static str) -> Entry {
        self.example = Example { sql, gives };
        self
    }
}
