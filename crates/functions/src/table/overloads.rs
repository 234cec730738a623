//! The lists of arguments that a function takes, in PostgreSQL's names of types.
//!
//! Invariants:
//! - An entry that spells its overloads is believed; of all others the function's signature is asked.
//! - A signature that does not say its arguments is `VARIADIC any`; a result that the arguments of a call decide is `any`.

use super::entry::Entry;
use super::{Built, Function};
use crate::casts::pg_typeof::type_name;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::Result;
use datafusion_expr::function::WindowUDFFieldArgs;
use datafusion_expr::{ArrayFunctionArgument, ArrayFunctionSignature, ReturnFieldArgs, Signature, TypeSignature};
use std::sync::Arc;

/// A type that stands for all others.
pub const ANY: &str = "any";
/// A type that stands for all lists.
pub const ANY_LIST: &str = "anyarray";

/// One list of arguments, and the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overload {
    /// Names of types, as `format_type` writes them; [`ANY`] and [`ANY_LIST`] stand for others.
    pub arguments: Vec<String>,
    /// Whether the last argument may be written any number of times.
    pub is_variadic: bool,
    /// The result's type.
    pub result: String,
}

/// The overloads of a function, each once.
pub fn of(built: &Built) -> Vec<Overload> {
    let spelled: Vec<Overload> = built.entry.overloads.iter().filter_map(|text| spelled(built.entry, text)).collect();
    let told = if spelled.is_empty() { told(&built.function) } else { spelled };
    let mut overloads: Vec<Overload> = Vec::new();
    for overload in told {
        if !overloads.iter().any(|known| known.arguments == overload.arguments) {
            overloads.push(overload);
        }
    }
    overloads
}

/// `name(type, VARIADIC type) -> type`; `None` of any other text, which a test of the table finds.
pub(super) fn spelled(entry: &Entry, text: &str) -> Option<Overload> {
    let (arguments, result) = text.strip_prefix(entry.name)?.strip_prefix('(')?.split_once(") -> ")?;
    let mut is_variadic = false;
    let mut named = Vec::new();
    for argument in arguments.split(", ").filter(|argument| !argument.is_empty()) {
        is_variadic = argument.starts_with("VARIADIC ");
        named.push(long_name(argument.trim_start_matches("VARIADIC ")));
    }
    Some(Overload { arguments: named, is_variadic, result: long_name(result) })
}

/// The name that `format_type` writes of a type that is written shorter.
fn long_name(name: &str) -> String {
    match name {
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        "int" => "integer",
        "double" => "double precision",
        other => other,
    }
    .to_owned()
}

/// A list of arguments; with the types that values of it may have, if these decide the result.
struct Form {
    arguments: Vec<String>,
    is_variadic: bool,
    types: Option<Vec<DataType>>,
}

impl Form {
    fn variadic(types: Option<Vec<DataType>>) -> Form {
        Form { arguments: vec![ANY.to_owned()], is_variadic: true, types }
    }

    fn of_names(arguments: Vec<&str>) -> Form {
        Form { arguments: arguments.into_iter().map(str::to_owned).collect(), is_variadic: false, types: None }
    }

    fn of_types(types: Vec<DataType>) -> Form {
        Form { arguments: types.iter().map(known_name).collect(), is_variadic: false, types: Some(types) }
    }
}

fn known_name(data_type: &DataType) -> String {
    if data_type.is_null() { ANY.to_owned() } else { type_name(data_type) }
}

/// What a function's signature says.
fn told(function: &Function) -> Vec<Overload> {
    let signature: &Signature = match function {
        Function::Scalar(function) => function.signature(),
        Function::Aggregate(function) => function.signature(),
        Function::Window(function) => function.signature(),
    };
    let mut forms = forms(&signature.type_signature);
    if forms.is_empty() {
        forms.push(Form::variadic(None));
    }
    let overload = |Form { arguments, is_variadic, types }: Form| {
        let field = types.and_then(|types| result_of(function, types).ok());
        let result = field.map_or_else(|| ANY.to_owned(), |field| known_name(field.data_type()));
        Overload { arguments, is_variadic, result }
    };
    forms.into_iter().map(overload).collect()
}

fn result_of(function: &Function, types: Vec<DataType>) -> Result<FieldRef> {
    let named = |(at, data_type): (usize, DataType)| Arc::new(Field::new(format!("${at}"), data_type, true));
    let fields: Vec<FieldRef> = types.into_iter().enumerate().map(named).collect();
    match function {
        Function::Scalar(function) => {
            let scalar_arguments = vec![None; fields.len()];
            function
                .return_field_from_args(ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalar_arguments })
        }
        Function::Aggregate(function) => function.return_field(&fields),
        Function::Window(function) => function.field(WindowUDFFieldArgs::new(&fields, function.name())),
    }
}

fn forms(signature: &TypeSignature) -> Vec<Form> {
    match signature {
        TypeSignature::OneOf(several) => several.iter().flat_map(forms).collect(),
        TypeSignature::Nullary => vec![Form::of_types(Vec::new())],
        TypeSignature::Any(count) | TypeSignature::Comparable(count) => vec![Form::of_names(vec![ANY; *count])],
        TypeSignature::ArraySignature(ArrayFunctionSignature::Array { arguments, .. }) => {
            let name = |argument: &ArrayFunctionArgument| match argument {
                ArrayFunctionArgument::Array => ANY_LIST,
                ArrayFunctionArgument::Element => ANY,
                ArrayFunctionArgument::Index => "bigint",
                ArrayFunctionArgument::String => "text",
            };
            vec![Form::of_names(arguments.iter().map(name).collect())]
        }
        TypeSignature::ArraySignature(ArrayFunctionSignature::RecursiveArray) => vec![Form::of_names(vec![ANY_LIST])],
        TypeSignature::ArraySignature(ArrayFunctionSignature::MapArray) => vec![Form::of_names(vec![ANY])],
        TypeSignature::Variadic(types) => {
            vec![Form::variadic(types.first().map(|data_type| vec![data_type.clone()]))]
        }
        TypeSignature::VariadicAny | TypeSignature::UserDefined => vec![Form::variadic(None)],
        other => other.get_example_types().into_iter().map(Form::of_types).collect(),
    }
}
