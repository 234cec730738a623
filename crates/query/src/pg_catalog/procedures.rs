//! `pg_proc`: the functions that statements have.
//!
//! Invariants:
//! - A function of the table ([`alluvia_functions::table`]) is listed once for each of its names and overloads.
//! - A function's number follows from its name, its kind and its arguments, so it is the same in every process.
//! - Functions that read and write values of the types of `pg_type` are listed, too, though no statement calls them: drivers find out by them
//!   which types are lists.
//! - What PostgreSQL has, too, is in `pg_catalog`, as there, and psql's `\df` leaves it out unless it is asked by name; all else is in
//!   `public`.

use super::relations::{PG_CATALOG_OID, PUBLIC_OID, ROLE_OID};
use super::tables::{Row, row};
use super::{constants, types};
use alluvia_functions::table::overloads::{self, Overload};
use alluvia_functions::table::{self, Built, Function};
use datafusion::logical_expr::Volatility;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Numbers of types that stand for others, and of those that the functions of types take and give.
const ANY: i64 = 2276;
const ANY_LIST: i64 = 2277;
const BYTES: i64 = 17;
const C_STRING: i64 = 2275;
const INTERNAL: i64 = 2281;

/// The language of functions that are built in.
pub(super) const INTERNAL_LANGUAGE: i64 = 12;

/// A function with one list of arguments.
struct Procedure {
    oid: i64,
    name: String,
    /// Whether PostgreSQL has none of this name.
    is_ours: bool,
    /// `f`, of aggregates `a`, of windows `w`.
    kind: &'static str,
    volatility: &'static str,
    arguments: Vec<i64>,
    is_variadic: bool,
    result: i64,
    /// As they are shown.
    shown_arguments: String,
    shown_result: String,
}

/// All functions. A table of functions that cannot be built has none: a session that registers it fails and says why.
fn all() -> &'static [Procedure] {
    static PROCEDURES: LazyLock<Vec<Procedure>> = LazyLock::new(|| of(table::functions().unwrap_or_default()));
    &PROCEDURES
}

fn by_oid(oid: i64) -> Option<&'static Procedure> {
    all().iter().find(|procedure| procedure.oid == oid)
}

/// The number of a function that is known by its name.
pub(super) fn by_name(name: &str) -> Option<i64> {
    all().iter().find(|procedure| procedure.name == name).map(|procedure| procedure.oid)
}

/// `pg_get_function_result`
pub(super) fn result(oid: i64) -> Option<String> {
    by_oid(oid).map(|procedure| procedure.shown_result.clone())
}

/// `pg_get_function_arguments`
pub(super) fn arguments(oid: i64) -> Option<String> {
    by_oid(oid).map(|procedure| procedure.shown_arguments.clone())
}

/// The rows of `pg_proc`.
pub(super) fn rows() -> Vec<Row> {
    let row = |procedure: &Procedure| {
        let types: Vec<String> = procedure.arguments.iter().map(i64::to_string).collect();
        row! {
            oid: procedure.oid, proname: procedure.name.as_str(), pronamespace: if procedure.is_ours { PUBLIC_OID } else { PG_CATALOG_OID },
            proowner: ROLE_OID, prolang: INTERNAL_LANGUAGE, procost: 1, provariadic: if procedure.is_variadic { ANY } else { 0 },
            prokind: procedure.kind, provolatile: procedure.volatility, proparallel: "s", pronargs: types.len() as i64,
            prorettype: procedure.result, proargtypes: types.join(" "), prosrc: procedure.name.as_str(),
        }
    };
    all().iter().map(row).collect()
}

fn is_of_postgresql(name: &str) -> bool {
    table::is_in_postgresql(name) || constants::is_function(name)
}

fn of(functions: &'static [Built]) -> Vec<Procedure> {
    let mut all = Vec::new();
    for built in functions {
        add(&mut all, built);
    }
    add_of_types(&mut all);
    // What shares a number by chance gets its own by the order.
    all.sort_by(|a, b| (&a.name, a.kind, &a.arguments).cmp(&(&b.name, b.kind, &b.arguments)));
    let mut taken = HashSet::new();
    for procedure in &mut all {
        procedure.oid = number(procedure);
        while !taken.insert(procedure.oid) {
            procedure.oid += 1;
        }
    }
    all
}

/// Adds a function, once for each of its names and each list of its arguments.
fn add(all: &mut Vec<Procedure>, built: &'static Built) {
    let (kind, signature) = match &built.function {
        Function::Scalar(function) => ("f", function.signature()),
        Function::Aggregate(function) => ("a", function.signature()),
        Function::Window(function) => ("w", function.signature()),
    };
    let volatility = match signature.volatility {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    };
    let overloads = overloads::of(built);
    for name in built.names() {
        for Overload { arguments, is_variadic, result } in &overloads {
            let arguments: Vec<i64> = arguments.iter().map(|name| oid_of(name)).collect();
            let result = oid_of(result);
            let shown: Vec<String> = arguments.iter().map(|oid| types::format(*oid, None)).collect();
            let variadic = if *is_variadic { "VARIADIC " } else { "" };
            all.push(Procedure {
                oid: 0,
                name: name.to_owned(),
                is_ours: !is_of_postgresql(name),
                kind,
                volatility,
                is_variadic: *is_variadic,
                result,
                shown_arguments: format!("{variadic}{}", shown.join(", ")),
                shown_result: types::format(result, None),
                arguments,
            });
        }
    }
}

/// Adds the functions that read and write values of types, each once: all lists share theirs.
fn add_of_types(all: &mut Vec<Procedure>) {
    let mut seen = HashSet::new();
    for known in types::all() {
        let is_list = known.input == "array_in";
        let of = if is_list { ANY_LIST } else { known.oid };
        for (name, argument, result) in [
            (known.input.to_owned(), C_STRING, of),
            (known.output.to_owned(), of, C_STRING),
            (known.receive(), INTERNAL, of),
            (known.send(), of, BYTES),
        ] {
            if !seen.insert(name.clone()) {
                continue;
            }
            all.push(Procedure {
                oid: 0,
                name,
                is_ours: false,
                kind: "f",
                volatility: "i",
                arguments: vec![argument],
                is_variadic: false,
                result,
                shown_arguments: types::format(argument, None),
                shown_result: types::format(result, None),
            });
        }
    }
}

/// PostgreSQL's number of a type that an overload names; of a type that PostgreSQL has not, that of all types.
fn oid_of(name: &str) -> i64 {
    match name {
        overloads::ANY => ANY,
        overloads::ANY_LIST => ANY_LIST,
        name => match name.strip_suffix("[]") {
            Some(element) => {
                let element = types::by_name(element);
                let list = types::all().find(|known| Some(known.oid) == element).map(|known| known.array);
                list.filter(|list| *list != 0).unwrap_or(ANY_LIST)
            }
            None => types::by_name(name).unwrap_or(ANY),
        },
    }
}

/// A number from the range above all others that there are, by FNV-1a.
fn number(procedure: &Procedure) -> i64 {
    let text = format!("{} {} {:?}", procedure.kind, procedure.name, procedure.arguments);
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    i64::from(hash >> 2) + (1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_arguments_and_numbers_of_their_own() {
        let all = of(table::functions().unwrap());
        let shown = |name: &str| -> Vec<(&str, &str, &str)> {
            let of_name = all.iter().filter(|procedure| procedure.name == name);
            of_name.map(|known| (known.kind, known.shown_arguments.as_str(), known.shown_result.as_str())).collect()
        };
        assert_eq!(shown("upper"), [("f", "text", "text")]);
        assert!(shown("row_number").iter().all(|(kind, arguments, _)| (*kind, *arguments) == ("w", "")));
        assert!(shown("sum").iter().all(|(kind, ..)| *kind == "a") && !shown("sum").is_empty());
        assert!(all.len() > 300, "{}", all.len());
        let numbers: HashSet<i64> = all.iter().map(|procedure| procedure.oid).collect();
        assert_eq!(numbers.len(), all.len());
        assert!(numbers.iter().all(|oid| (1 << 30..1 << 31).contains(oid)));
        // The same in any process, since tools keep them.
        let again = of(table::functions().unwrap());
        assert!(all.iter().zip(&again).all(|(one, other)| (one.oid, &one.name) == (other.oid, &other.name)));
        assert!(all.iter().filter(|procedure| procedure.is_ours).count() > 100);
        assert_eq!(shown("int4recv"), [("f", "internal", "integer")]);
        assert_eq!(shown("array_recv"), [("f", "internal", "anyarray")]);
    }
}
