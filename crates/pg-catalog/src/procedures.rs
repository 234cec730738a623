//! `pg_proc`: the functions that statements have.
//!
//! Invariants:
//! - A function of the table ([`alluvia_functions::table`]) is listed once for each of its names and overloads,
//!   and so are the catalog's own.
//! - A function's number follows from its name, its kind and its arguments, so it is the same in every process.
//! - Functions that read and write values of the types of `pg_type` are listed, too, though no statement calls them: drivers find out by them
//!   which types are lists.
//! - What PostgreSQL has, too, is in `pg_catalog`, as there, and psql's `\df` leaves it out unless it is asked by name; all else is in
//!   `public`.

use crate::functions::PROCEDURE;
use crate::keys::{CONSTRAINT_TEXT, INDEX_TEXT, PLACES, PLACES_OF_VECTOR};
use crate::relations::{PG_CATALOG_OID, PUBLIC_OID, ROLE_OID};
use crate::tables::{Row, row};
use crate::views::VIEW_TEXT;
use crate::{constants, types};
use alluvia_functions::casts::pg_typeof::type_name;
use alluvia_functions::table::overloads::{self, Overload};
use alluvia_functions::table::{self, Built, Function};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;
use std::collections::HashSet;
use std::sync::OnceLock;

/// Numbers of types that stand for others, and of those that the functions of types take and give.
const ANY: i64 = 2276;
const ANY_LIST: i64 = 2277;
const BYTES: i64 = 17;
const C_STRING: i64 = 2275;
const INTERNAL: i64 = 2281;

/// The language of functions that are built in.
pub(crate) const INTERNAL_LANGUAGE: i64 = 12;

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

static PROCEDURES: OnceLock<Vec<Procedure>> = OnceLock::new();

/// A function of the catalog itself, which reads its statement's snapshot.
pub(crate) struct Own {
    pub(crate) name: String,
    pub(crate) arguments: Vec<DataType>,
    pub(crate) result: DataType,
}

/// Takes down what functions there are, unless that has been done: the catalog's own are the same for every statement.
pub(crate) fn remember(own: Vec<Own>) {
    // A session registers the table before, and fails where that cannot be.
    PROCEDURES.get_or_init(|| of(table::functions().unwrap_or_default(), own));
}

fn all() -> &'static [Procedure] {
    PROCEDURES.get().map_or(&[], Vec::as_slice)
}

fn by_oid(oid: i64) -> Option<&'static Procedure> {
    all().iter().find(|procedure| procedure.oid == oid)
}

/// The number of a function that is known by its name.
pub(crate) fn by_name(name: &str) -> Option<i64> {
    all().iter().find(|procedure| procedure.name == name).map(|procedure| procedure.oid)
}

/// The number of a function of a name and of arguments of these types.
pub(crate) fn by_signature(name: &str, arguments: &str) -> Option<i64> {
    let types = |arguments: &str| -> Vec<String> {
        let given = arguments.split(',').map(str::trim).filter(|given| !given.is_empty());
        given
            .map(|given| types::by_name(given).map_or_else(|| given.to_owned(), |oid| types::format(oid, None)))
            .collect()
    };
    let wanted = types(arguments);
    let mut named = all().iter().filter(|procedure| procedure.name == name);
    named.find(|procedure| types(&procedure.shown_arguments) == wanted).map(|procedure| procedure.oid)
}

/// The name of a function.
pub(crate) fn name(oid: i64) -> Option<String> {
    by_oid(oid).map(|procedure| procedure.name.clone())
}

/// Its name with the types of its arguments.
pub(crate) fn signature(oid: i64) -> Option<String> {
    by_oid(oid).map(|procedure| format!("{}({})", procedure.name, procedure.shown_arguments.replace(", ", ",")))
}

/// `pg_get_functiondef`; aggregates and windows have none.
pub(crate) fn definition(oid: i64) -> Option<String> {
    let procedure = by_oid(oid).filter(|procedure| procedure.kind == "f")?;
    let Procedure { name, shown_arguments, shown_result, .. } = procedure;
    let schema = if procedure.is_ours { "public" } else { "pg_catalog" };
    let volatility = match procedure.volatility {
        "i" => " IMMUTABLE",
        "s" => " STABLE",
        _ => "",
    };
    Some(format!(
        "CREATE OR REPLACE FUNCTION {schema}.{name}({shown_arguments})\n RETURNS {shown_result}\n LANGUAGE internal\n\
         {volatility} PARALLEL SAFE\nAS $function${name}$function$\n"
    ))
}

/// `pg_get_function_result`
pub(crate) fn result(oid: i64) -> Option<String> {
    by_oid(oid).map(|procedure| procedure.shown_result.clone())
}

/// `pg_get_function_arguments`
pub(crate) fn arguments(oid: i64) -> Option<String> {
    by_oid(oid).map(|procedure| procedure.shown_arguments.clone())
}

/// The rows of `pg_proc`.
pub(crate) fn rows() -> Vec<Row> {
    let row = |procedure: &Procedure| {
        let types: Vec<String> = procedure.arguments.iter().map(i64::to_string).collect();
        row! {
            oid: procedure.oid, proname: procedure.name.as_str(), pronamespace: if procedure.is_ours { PUBLIC_OID } else { PG_CATALOG_OID },
            proowner: ROLE_OID, prolang: INTERNAL_LANGUAGE, procost: 1, provariadic: procedure.arguments.last().filter(|_| procedure.is_variadic).copied().unwrap_or(0),
            prokind: procedure.kind, provolatile: procedure.volatility, proparallel: "s", pronargs: types.len() as i64,
            prorettype: procedure.result, proargtypes: types.join(" "), prosrc: procedure.name.as_str(),
        }
    };
    all().iter().map(row).collect()
}

fn is_of_postgresql(name: &str) -> bool {
    table::is_in_postgresql(name) || constants::is_function(name)
}

fn of(functions: &'static [Built], own: Vec<Own>) -> Vec<Procedure> {
    let mut all = Vec::new();
    for built in functions {
        add(&mut all, built);
    }
    // Some names only casts are given.
    for own in own.iter().filter(|own| {
        ![PROCEDURE, CONSTRAINT_TEXT, INDEX_TEXT, PLACES, PLACES_OF_VECTOR, VIEW_TEXT].contains(&own.name.as_str())
    }) {
        let arguments = own.arguments.iter().map(type_name).collect();
        let overload = Overload { arguments, is_variadic: false, result: type_name(&own.result) };
        all.push(procedure(&own.name, "f", "s", &overload));
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
        all.extend(overloads.iter().map(|overload| procedure(name, kind, volatility, overload)));
    }
}

fn procedure(name: &str, kind: &'static str, volatility: &'static str, overload: &Overload) -> Procedure {
    let arguments: Vec<i64> = overload.arguments.iter().map(|name| oid_of(name)).collect();
    let result = oid_of(&overload.result);
    let mut shown: Vec<String> = arguments.iter().map(|oid| types::format(*oid, None)).collect();
    if let Some(last) = shown.last_mut().filter(|_| overload.is_variadic) {
        last.insert_str(0, "VARIADIC ");
    }
    Procedure {
        oid: 0,
        name: name.to_owned(),
        is_ours: !is_of_postgresql(name),
        kind,
        volatility,
        is_variadic: overload.is_variadic,
        result,
        shown_arguments: shown.join(", "),
        shown_result: types::format(result, None),
        arguments,
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
        let own = || {
            let (arguments, result) = (vec![DataType::Int64, DataType::Int64], DataType::Utf8View);
            vec![Own { name: "format_type".to_owned(), arguments, result }]
        };
        let all = of(table::functions().unwrap(), own());
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
        let again = of(table::functions().unwrap(), own());
        assert!(all.iter().zip(&again).all(|(one, other)| (one.oid, &one.name) == (other.oid, &other.name)));
        assert!(all.iter().filter(|procedure| procedure.is_ours).count() > 100);
        assert_eq!(shown("format_type"), [("f", "bigint, bigint", "text")]);
        assert_eq!(shown("concat_ws").last().map(|shown| shown.1), Some("text, VARIADIC \"any\""));
        assert!(shown("current_time").iter().all(|(.., result)| *result == "time without time zone"));
        assert_eq!(shown("int4recv"), [("f", "internal", "integer")]);
        assert_eq!(shown("array_recv"), [("f", "internal", "anyarray")]);
    }
}
