//! `pg_proc`: the functions that statements have.
//!
//! Invariants:
//! - A function is listed once for each list of arguments, in PostgreSQL's types, that its signature tells; where it tells none, its
//!   arguments are `VARIADIC "any"`. What it gives is `"any"` where that is decided by the arguments of a call.
//! - A function's number follows from its name, its kind and its arguments, so it is the same in every process.
//! - Functions that read and write values of the types of `pg_type` are listed, too, though no statement calls them: drivers find out by them
//!   which types are lists.
//! - What PostgreSQL has, too, is in `pg_catalog`, as there, and psql's `\df` leaves it out unless it is asked by name; all else is in
//!   `public`.
//!
//! They are taken down when a statement asks about the catalog first: every statement has the same.

use super::functions::{PROCEDURE, REGCLASS, REGNAMESPACE};
use super::relations::{PG_CATALOG_OID, PUBLIC_OID, ROLE_OID};
use super::tables::{Row, row};
use super::{constants, types};
use alluvia_space::DataType;
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::function::WindowUDFFieldArgs;
use datafusion::logical_expr::{
    ArrayFunctionArgument, ArrayFunctionSignature, ReturnFieldArgs, Signature, TypeSignature, Volatility,
};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// Numbers of types that stand for others, and of those of all lists and texts.
const ANY: i64 = 2276;
const ANY_LIST: i64 = 2277;
const TEXT: i64 = 25;
const BIGINT: i64 = 20;
const NUMERIC: i64 = 1700;
const TIME: i64 = 1083;
const INTERVAL: i64 = 1186;
const BYTES: i64 = 17;
const C_STRING: i64 = 2275;
const INTERNAL: i64 = 2281;

/// The language of functions that are built in.
pub(super) const INTERNAL_LANGUAGE: i64 = 12;

/// Functions that PostgreSQL has, too, beside those of the catalog; in it some are words of its grammar.
const OF_POSTGRESQL: &str = "\
    abs acos acosh age any_value array_agg array_append array_cat array_dims array_length array_ndims array_position \
    array_positions array_prepend array_remove array_replace array_reverse array_sort array_to_string ascii asin \
    asinh atan atan2 atanh avg bit_and bit_count bit_length bit_or bit_xor bool_and bool_or btrim cardinality cbrt ceil \
    char_length character_length chr coalesce concat concat_ws convert_from convert_to corr cos cosh cot count covar_pop covar_samp \
    cume_dist current_date current_time current_timestamp date_bin date_part date_trunc decode degrees dense_rank \
    encode exp factorial first_value floor gcd get_bit get_byte greatest grouping initcap isfinite justify_days justify_hours justify_interval lag last_value lcm lead least left length \
    ln log log10 lower lpad ltrim make_date make_interval make_time make_timestamp max md5 min mode now nth_value ntile nullif octet_length overlay \
    percent_rank percentile_cont percentile_disc pi position pow power radians random rank regexp_count regexp_instr regexp_like \
    regexp_match regexp_replace regexp_split_to_array regexp_substr pg_typeof regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy \
    regr_syy repeat replace reverse right round row row_number rpad rtrim set_bit set_byte sha224 sha256 sha384 sha512 sin sinh \
    split_part sqrt starts_with stddev stddev_pop stddev_samp string_agg string_to_array strpos substr substring sum \
    tan tanh to_char to_date to_hex to_number to_timestamp translate trim trunc upper var_pop var_samp version";

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

/// Takes down what functions there are, unless that has been done.
pub(super) fn remember(state: &SessionState) {
    PROCEDURES.get_or_init(|| of(state));
}

fn all() -> &'static [Procedure] {
    PROCEDURES.get().map_or(&[], Vec::as_slice)
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
    OF_POSTGRESQL.split(' ').any(|known| known == name) || constants::is_function(name)
}

fn of(state: &SessionState) -> Vec<Procedure> {
    let mut all = Vec::new();
    for (name, function) in state.scalar_functions() {
        let gives = |fields: &[FieldRef]| {
            let scalar_arguments = vec![None; fields.len()];
            let arguments = ReturnFieldArgs { arg_fields: fields, scalar_arguments: &scalar_arguments };
            function.return_field_from_args(arguments)
        };
        add(&mut all, name, "f", function.signature(), &gives);
    }
    for (name, function) in state.aggregate_functions() {
        add(&mut all, name, "a", function.signature(), &|fields: &[FieldRef]| function.return_field(fields));
    }
    for (name, function) in state.window_functions() {
        let gives = |fields: &[FieldRef]| function.field(WindowUDFFieldArgs::new(fields, name));
        add(&mut all, name, "w", function.signature(), &gives);
    }
    // Names that only casts are given.
    all.retain(|procedure| ![PROCEDURE, REGCLASS, REGNAMESPACE].contains(&procedure.name.as_str()));
    add_of_types(&mut all);
    // Maps have no order, and what shares a number by chance gets its own by the order.
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

/// Adds a function, once for each list of its arguments.
fn add(
    all: &mut Vec<Procedure>,
    name: &str,
    kind: &'static str,
    signature: &Signature,
    gives: &dyn Fn(&[FieldRef]) -> Result<FieldRef>,
) {
    let volatility = match signature.volatility {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    };
    let mut forms = forms(&signature.type_signature);
    if forms.is_empty() {
        forms.push(Form::variadic());
    }
    let mut seen = HashSet::new();
    for Form { arguments, is_variadic, types } in forms {
        if !seen.insert(arguments.clone()) {
            continue;
        }
        let field = types.and_then(|types| {
            let named = |(at, data_type): (usize, ArrowType)| Arc::new(Field::new(format!("${at}"), data_type, true));
            let fields: Vec<FieldRef> = types.into_iter().enumerate().map(named).collect();
            gives(&fields).ok()
        });
        let result = field.map_or(ANY, |field| oid_of(field.data_type()));
        let shown: Vec<String> = arguments.iter().map(|oid| types::format(*oid, None)).collect();
        let variadic = if is_variadic { "VARIADIC " } else { "" };
        all.push(Procedure {
            oid: 0,
            name: name.to_owned(),
            is_ours: !is_of_postgresql(name),
            kind,
            volatility,
            is_variadic,
            result,
            shown_arguments: format!("{variadic}{}", shown.join(", ")),
            shown_result: types::format(result, None),
            arguments,
        });
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

/// A list of arguments; with the types that values of it may have, if they decide what is given.
struct Form {
    arguments: Vec<i64>,
    is_variadic: bool,
    types: Option<Vec<ArrowType>>,
}

impl Form {
    fn variadic() -> Form {
        Form { arguments: vec![ANY], is_variadic: true, types: None }
    }

    fn of_oids(arguments: Vec<i64>) -> Form {
        Form { arguments, is_variadic: false, types: None }
    }

    fn of_types(types: Vec<ArrowType>) -> Form {
        Form { arguments: types.iter().map(oid_of).collect(), is_variadic: false, types: Some(types) }
    }
}

fn forms(signature: &TypeSignature) -> Vec<Form> {
    match signature {
        TypeSignature::OneOf(several) => several.iter().flat_map(forms).collect(),
        TypeSignature::Nullary => vec![Form::of_types(Vec::new())],
        TypeSignature::Any(count) | TypeSignature::Comparable(count) => vec![Form::of_oids(vec![ANY; *count])],
        TypeSignature::ArraySignature(ArrayFunctionSignature::Array { arguments, .. }) => {
            let oid = |argument: &ArrayFunctionArgument| match argument {
                ArrayFunctionArgument::Array => ANY_LIST,
                ArrayFunctionArgument::Element => ANY,
                ArrayFunctionArgument::Index => BIGINT,
                ArrayFunctionArgument::String => TEXT,
            };
            vec![Form::of_oids(arguments.iter().map(oid).collect())]
        }
        TypeSignature::ArraySignature(ArrayFunctionSignature::RecursiveArray) => vec![Form::of_oids(vec![ANY_LIST])],
        TypeSignature::ArraySignature(ArrayFunctionSignature::MapArray) => vec![Form::of_oids(vec![ANY])],
        TypeSignature::Variadic(types) => {
            let types = types.first().map(|data_type| vec![data_type.clone()]);
            vec![Form { types, ..Form::variadic() }]
        }
        TypeSignature::VariadicAny | TypeSignature::UserDefined => vec![Form::variadic()],
        other => other.get_example_types().into_iter().map(Form::of_types).collect(),
    }
}

/// PostgreSQL's number of a type.
fn oid_of(data_type: &ArrowType) -> i64 {
    match data_type {
        ArrowType::Null => ANY,
        known if known.is_decimal() => NUMERIC,
        ArrowType::Time32(_) | ArrowType::Time64(_) => TIME,
        ArrowType::Interval(_) | ArrowType::Duration(_) => INTERVAL,
        ArrowType::List(element) | ArrowType::LargeList(element) | ArrowType::FixedSizeList(element, _) => {
            let element = oid_of(element.data_type());
            let list = types::all().find(|known| known.oid == element).map(|known| known.array);
            list.filter(|list| *list != 0).unwrap_or(ANY_LIST)
        }
        other => DataType::from_arrow(other).map_or(ANY, |known| types::of_column(known.into()).0),
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
    use datafusion::execution::SessionStateBuilder;

    #[test]
    fn functions_have_their_arguments_and_numbers_of_their_own() {
        let all = of(&SessionStateBuilder::new().with_default_features().build());
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
        let again = of(&SessionStateBuilder::new().with_default_features().build());
        assert!(all.iter().zip(&again).all(|(one, other)| (one.oid, &one.name) == (other.oid, &other.name)));
        assert!(all.iter().filter(|procedure| procedure.is_ours).count() > 100);
        assert_eq!(shown("int4recv"), [("f", "internal", "integer")]);
        assert_eq!(shown("array_recv"), [("f", "internal", "anyarray")]);
    }
}
