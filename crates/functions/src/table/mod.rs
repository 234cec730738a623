//! The one table of functions: what a session has registered, what `pg_proc`, completion and errors name, what `docs/FUNCTIONS.md` says.
//!
//! Invariants:
//! - A function that statements can call has one [`Entry`], in the file of its family. (Tested: a session has these functions and no other,
//!   so an upgrade of DataFusion that brings another is noticed.)
//! - What is known of a function is in its entry or in the function itself, and nowhere else.
//! - Every example is run (`it functions`), and `docs/FUNCTIONS.md` is what [`document`] writes.
//!
//! To support another function: write it in the folder of its family, and add its entry here. Functions of `pg_catalog` that read a
//! statement's snapshot, and functions in FROM, are `query`'s and `plan`'s.

pub mod document;
pub mod entry;
pub mod overloads;

mod aggregates;
mod arrays;
mod bytes;
mod casts;
mod conditional;
mod datetime;
mod formatting;
mod internal;
mod json;
mod numbers;
mod patterns;
mod structs;
mod system;
mod text;
mod windows;

pub use entry::{Build, Entry, Example, Output};

use crate::aggregates::linear::linear;
use crate::output_size::Bounded;
use crate::output_size::estimate::OutputSize;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, plan_err};
use datafusion_expr::registry::FunctionRegistry;
use datafusion_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Functions that documents show under one heading.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The heading.
    pub heading: &'static str,
    /// The functions, in the order in which documents show them.
    pub entries: &'static [Entry],
}

/// All functions.
pub const FAMILIES: &[Family] = &[
    Family { heading: "Numbers", entries: numbers::ENTRIES },
    Family { heading: "Text", entries: text::ENTRIES },
    Family { heading: "Patterns", entries: patterns::ENTRIES },
    Family { heading: "Formatting", entries: formatting::ENTRIES },
    Family { heading: "Dates and times", entries: datetime::ENTRIES },
    Family { heading: "Lists", entries: arrays::ENTRIES },
    Family { heading: "JSON", entries: json::ENTRIES },
    Family { heading: "Bytes and digests", entries: bytes::ENTRIES },
    Family { heading: "Conditions", entries: conditional::ENTRIES },
    Family { heading: "Casts and types", entries: casts::ENTRIES },
    Family { heading: "Structs, maps and unions", entries: structs::ENTRIES },
    Family { heading: "Aggregates", entries: aggregates::ENTRIES },
    Family { heading: "Windows", entries: windows::ENTRIES },
    Family { heading: "System", entries: system::ENTRIES },
    Family { heading: INTERNAL, entries: internal::ENTRIES },
];

/// The heading of functions that operators and forms of the grammar become, and that nobody needs to write.
pub const INTERNAL: &str = "Behind operators";

/// A function of the table.
#[derive(Clone, Debug)]
pub struct Built {
    /// Its entry.
    pub entry: &'static Entry,
    /// The function.
    pub function: Function,
}

/// A function of one of the three kinds.
#[derive(Clone, Debug)]
pub enum Function {
    /// Of one row.
    Scalar(Arc<ScalarUDF>),
    /// Of a group.
    Aggregate(Arc<AggregateUDF>),
    /// Of a window alone.
    Window(Arc<WindowUDF>),
}

impl Function {
    /// Further names.
    pub fn aliases(&self) -> &[String] {
        match self {
            Function::Scalar(function) => function.aliases(),
            Function::Aggregate(function) => function.aliases(),
            Function::Window(function) => function.aliases(),
        }
    }
}

/// All entries.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    FAMILIES.iter().flat_map(|family| family.entries)
}

/// Every function, built, in the table's order.
pub fn functions() -> Result<&'static [Built]> {
    static BUILT: LazyLock<Result<Vec<Built>>> = LazyLock::new(|| entries().map(build).collect());
    match BUILT.as_ref() {
        Ok(built) => Ok(built),
        Err(error) => plan_err!("the table of functions: {error}"),
    }
}

/// Every name that a statement may call a function by: its own and its aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    let of_families =
        FAMILIES.iter().filter(|family| family.heading != INTERNAL).map(|family| family.entries.len()).sum();
    functions().unwrap_or_default().iter().take(of_families).flat_map(Built::names)
}

/// Whether a window function has this name.
pub fn is_window(name: &str) -> bool {
    let windows = functions().unwrap_or_default().iter().filter(|built| matches!(built.function, Function::Window(_)));
    windows.flat_map(Built::names).any(|known| known == name)
}

/// What a scalar function of this name may make of little, if it is counted.
pub fn output_size_of(name: &str) -> Option<OutputSize> {
    static COUNTED: LazyLock<HashMap<&'static str, OutputSize>> = LazyLock::new(|| {
        let counted = |entry: &'static Entry| match entry.output {
            Output::Counted(makes) => Some((entry.name, makes)),
            _ => None,
        };
        entries().filter_map(counted).collect()
    });
    COUNTED.get(name).copied()
}

/// The function of this name, if it is counted.
pub(crate) fn counted(name: &str) -> Option<Arc<ScalarUDF>> {
    let counted = |built: &&Built| built.entry.name == name && matches!(built.entry.output, Output::Counted(_));
    match functions().ok()?.iter().find(counted)?.function {
        Function::Scalar(ref function) => Some(Arc::clone(function)),
        _ => None,
    }
}

/// Whether a scalar function of this name is a cast to a type that its arguments say.
pub fn is_cast(name: &str) -> bool {
    casts::ENTRIES.iter().any(|entry| entry.name == name && matches!(entry.output, Output::Cast))
}

/// Whether PostgreSQL has a function of this name, too.
pub fn is_in_postgresql(name: &str) -> bool {
    entries().any(|entry| entry.postgresql.contains(&name))
}

/// Puts every function into a session: DataFusion's own first, since some have names that are ours.
pub fn register(state: &mut dyn FunctionRegistry) -> Result<()> {
    let (theirs, ours): (Vec<&Built>, Vec<&Built>) = functions()?.iter().partition(|built| built.is_datafusions());
    for built in theirs.into_iter().chain(ours) {
        match &built.function {
            Function::Scalar(function) => drop(state.register_udf(Arc::clone(function))?),
            Function::Aggregate(function) => drop(state.register_udaf(Arc::clone(function))?),
            Function::Window(function) => drop(state.register_udwf(Arc::clone(function))?),
        }
    }
    Ok(())
}

impl Built {
    /// Its name and its aliases.
    pub fn names(&'static self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.entry.name).chain(self.function.aliases().iter().map(String::as_str))
    }

    /// Whether the function is DataFusion's, and nothing is put around it.
    fn is_datafusions(&self) -> bool {
        match self.entry.build {
            Build::DataFusionScalar => !matches!(self.entry.output, Output::Counted(_)),
            Build::DataFusionAggregate | Build::DataFusionWindow => true,
            Build::Scalar(_) | Build::WrappedScalar(_) | Build::Aggregate(_) | Build::Window(_) => false,
        }
    }
}

fn build(entry: &'static Entry) -> Result<Built> {
    let scalar = |function: Arc<ScalarUDF>| match entry.output {
        Output::Counted(makes) => Function::Scalar(Arc::new(ScalarUDF::from(Bounded::new(function, makes, 1)))),
        _ => Function::Scalar(function),
    };
    let function = match entry.build {
        Build::DataFusionScalar => scalar(datafusion_scalar(entry.name)?),
        Build::Scalar(build) => scalar(Arc::new(build())),
        Build::WrappedScalar(build) => scalar(Arc::new(build(datafusion_scalar(entry.name)?))),
        Build::DataFusionAggregate => Function::Aggregate(linear(datafusion_aggregate(entry.name)?)),
        Build::Aggregate(build) => Function::Aggregate(linear(Arc::new(build()))),
        Build::DataFusionWindow => Function::Window(datafusion_window(entry.name)?),
        Build::Window(build) => Function::Window(Arc::new(build())),
    };
    Ok(Built { entry, function })
}

/// DataFusion's own scalar function of a canonical name.
pub(crate) fn datafusion_scalar(name: &str) -> Result<Arc<ScalarUDF>> {
    static THEIRS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
        let nested = datafusion_functions_nested::all_default_nested_functions();
        let all = datafusion_functions::all_default_functions().into_iter().chain(nested);
        all.map(|function| (function.name().to_owned(), in_utc(function))).collect()
    });
    found(THEIRS.get(name), name)
}

/// The function for sessions whose zone is UTC, as all are: DataFusion builds some functions for a session's zone.
fn in_utc(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let mut options = ConfigOptions::default();
    options.execution.time_zone = Some("UTC".to_owned());
    function.inner().with_updated_config(&options).map_or(function, Arc::new)
}

/// DataFusion's own aggregate of a canonical name.
pub(crate) fn datafusion_aggregate(name: &str) -> Result<Arc<AggregateUDF>> {
    static THEIRS: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
        let all = datafusion_functions_aggregate::all_default_aggregate_functions();
        all.into_iter().map(|function| (function.name().to_owned(), function)).collect()
    });
    found(THEIRS.get(name), name)
}

/// DataFusion's own window function of a canonical name.
pub(crate) fn datafusion_window(name: &str) -> Result<Arc<WindowUDF>> {
    static THEIRS: LazyLock<HashMap<String, Arc<WindowUDF>>> = LazyLock::new(|| {
        let all = datafusion_functions_window::all_default_window_functions();
        all.into_iter().map(|function| (function.name().to_owned(), function)).collect()
    });
    found(THEIRS.get(name), name)
}

fn found<F>(function: Option<&Arc<F>>, name: &str) -> Result<Arc<F>> {
    match function {
        Some(function) => Ok(Arc::clone(function)),
        None => plan_err!("DataFusion has no function {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn an_entry_is_whole_and_of_one_name() {
        let mut names = HashSet::new();
        for family in FAMILIES {
            for entry in family.entries {
                let kind = match entry.build {
                    Build::DataFusionScalar | Build::Scalar(_) | Build::WrappedScalar(_) => 'f',
                    Build::DataFusionAggregate | Build::Aggregate(_) => 'a',
                    Build::DataFusionWindow | Build::Window(_) => 'w',
                };
                assert!(names.insert((kind, entry.name)), "{} has two entries", entry.name);
                assert!(entry.doc.ends_with('.') && entry.doc.len() > 10, "{}: {:?}", entry.name, entry.doc);
                assert!(!entry.doc.contains('|'), "{}: its line is a cell of a table", entry.name);
                assert!(family.heading == INTERNAL || !entry.example.sql.is_empty(), "{} has no example", entry.name);
                for text in entry.overloads {
                    assert!(overloads::spelled(entry, text).is_some(), "{}: {text}", entry.name);
                }
            }
        }
    }

    #[test]
    fn a_function_has_the_names_that_its_entry_says() {
        for built in functions().unwrap() {
            let name = match &built.function {
                Function::Scalar(function) => function.name(),
                Function::Aggregate(function) => function.name(),
                Function::Window(function) => function.name(),
            };
            assert_eq!(name, built.entry.name);
            for known in built.entry.postgresql {
                let is_its = *known == name || built.function.aliases().iter().any(|alias| alias == known);
                assert!(is_its, "{name} is not called {known}");
            }
        }
    }
}
