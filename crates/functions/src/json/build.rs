//! JSON made of values: `to_json`, `row_to_json`, `json_build_object`, `json_build_array`, and the same of JSONB.
//!
//! Invariants, as in PostgreSQL:
//! - JSON has PostgreSQL's spaces, which differ from function to function; JSONB is written as all of it is.
//! - NULL makes NULL of `to_json` and `row_to_json`, and is `null` within others. A key of an object is not NULL.

use super::text::normalised;
use super::written::Written;
use crate::casts::kinds::{Kind, field_of};
use crate::columnar::{as_columnar, is_constant, rows_made};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::calls::JSON_ROW;
use alluvia_values::errors::wrap;
use alluvia_values::json_value::write_string;
use arrow::array::{Array, ArrayRef, StringViewBuilder, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::sync::Arc;

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Made {
    /// `to_json`, `array_to_json`
    Value,
    /// `row_to_json`
    Row,
    /// `json_build_object`
    Object,
    /// `json_build_array`
    Array,
}

/// A function that makes JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Building {
    made: Made,
    kind: Kind,
    name: &'static str,
    signature: Signature,
}

impl Building {
    /// By the name that statements call it by.
    pub(crate) fn new(name: &'static str, made: Made, kind: Kind) -> Building {
        let signature = match made {
            Made::Value | Made::Row => TypeSignature::OneOf(vec![TypeSignature::Any(1), TypeSignature::Any(2)]),
            Made::Object | Made::Array => {
                TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny])
            }
        };
        Building { made, kind, name, signature: Signature::new(signature, Volatility::Stable) }
    }

    fn text(&self, columns: &[Written], row: usize) -> Result<String> {
        let mut out = String::new();
        match self.made {
            Made::Value | Made::Row => columns.iter().for_each(|column| column.write(row, &mut out)),
            Made::Array => {
                out.push('[');
                for (at, column) in columns.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    column.write(row, &mut out);
                }
                out.push(']');
            }
            Made::Object => {
                out.push('{');
                for (at, pair) in columns.chunks_exact(2).enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    let Some(key) = pair[0].key(row) else { return Err(self.no_key(2 * at + 1)) };
                    write_string(key, &mut out);
                    out.push_str(" : ");
                    pair[1].write(row, &mut out);
                }
                out.push('}');
            }
        }
        if self.kind == Kind::Jsonb { normalised(&out) } else { Ok(out) }
    }

    fn no_key(&self, argument: usize) -> datafusion_common::DataFusionError {
        let error = match self.kind {
            Kind::Jsonb => Error::new(ErrorKind::InvalidArgument, format!("argument {argument}: key must not be null")),
            _ => Error::new(ErrorKind::InvalidArgument, format!("argument {argument} cannot be null"))
                .with_hint("Object keys should be text."),
        };
        wrap(error)
    }

    /// Whether the second argument asks for JSON in lines.
    fn is_pretty(&self, args: &[ColumnarValue]) -> Result<bool> {
        match (self.made, args) {
            (Made::Value | Made::Row, [_, ColumnarValue::Scalar(ScalarValue::Boolean(pretty))]) => {
                Ok(pretty.unwrap_or(false))
            }
            (Made::Value | Made::Row, [_, _]) => exec_err!("{} takes true or false for its second argument", self.name),
            _ => Ok(false),
        }
    }
}

impl ScalarUDFImpl for Building {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if self.made == Made::Object && args.arg_fields.len() % 2 == 1 {
            let error = Error::new(ErrorKind::InvalidArgument, "argument list must have even number of elements");
            let what = self.name;
            return Err(wrap(
                error.with_hint(format!("The arguments of {what}() must consist of alternating keys and values.")),
            ));
        }
        Ok(field_of(self.kind, self.name))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.is_pretty(&args.args)? {
            let error = Error::new(ErrorKind::NotSupported, format!("{} in lines is not supported", self.name));
            return Err(wrap(error.with_hint("jsonb_pretty(x) writes JSONB in lines")));
        }
        let (rows, is_constant) = (rows_made(&args.args, args.number_rows), is_constant(&args.args));
        let taken = if matches!(self.made, Made::Value | Made::Row) { 1 } else { args.args.len() };
        let mut columns = Vec::with_capacity(taken);
        let mut nulls = None;
        for (value, field) in args.args.iter().zip(&args.arg_fields).take(taken) {
            let values = value.to_array(rows)?;
            columns.push(Written::of(&values, field)?);
            nulls = values.logical_nulls();
        }
        let is_of_one = matches!(self.made, Made::Value | Made::Row);
        let is_null = |row: usize| is_of_one && nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let mut out = StringViewBuilder::with_capacity(rows);
        for row in 0..rows {
            if is_null(row) { out.append_null() } else { out.append_value(self.text(&columns, row)?) }
        }
        as_columnar(Arc::new(out.finish()), is_constant)
    }
}

/// The row that a table's name stands for among the arguments of these functions: names and values by turns. JSON, NUMERIC and their kin
/// stay what they are within it, which DataFusion's structs forget.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RowOf {
    signature: Signature,
}

impl Default for RowOf {
    fn default() -> RowOf {
        let signature = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
        RowOf { signature: Signature::new(signature, Volatility::Immutable) }
    }
}

/// The fields of a row; of a name that still stands for all columns there are none.
fn fields(args: &ReturnFieldArgs) -> Fields {
    let names = args.scalar_arguments.iter().step_by(2);
    let values = args.arg_fields.iter().skip(1).step_by(2);
    let field = |(name, field): (&Option<&ScalarValue>, &FieldRef)| {
        let name = name.and_then(|name| name.try_as_str().flatten()).unwrap_or_default();
        field.as_ref().clone().with_name(name).with_nullable(true)
    };
    names.zip(values).map(field).collect()
}

impl ScalarUDFImpl for RowOf {
    fn name(&self) -> &str {
        JSON_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(Fields::empty()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::Struct(fields(&args)), false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, is_constant) = (rows_made(&args.args, args.number_rows), is_constant(&args.args));
        let DataType::Struct(fields) = args.return_field.data_type() else {
            return exec_err!("{} gives no row", self.name());
        };
        let columns = args.args.iter().skip(1).step_by(2).map(|value| value.to_array(rows));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let row = StructArray::try_new_with_length(fields.clone(), columns, None, rows)?;
        as_columnar(Arc::new(row), is_constant)
    }
}
