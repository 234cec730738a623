//! The functions that read bytes of text, and show them as text.
//!
//! Invariant: they are called what they stand for, a cast: a column keeps its name.

use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::columnar::by_arrays;
use alluvia_types::Error;
use alluvia_values::errors::wrap;
use alluvia_values::parse::{parse_bytes, shown as quoted};
use arrow::array::{ArrayRef, AsArray, BinaryViewBuilder, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Bytes of type `to` that texts stand for; NULL, if asked for, of a text that stands for none, or else an error.
pub fn read(of: Expr, to: DataType, or_null: bool) -> Expr {
    call(of, Conversion::Read { or_null }, to)
}

/// Texts of type `to` that stand for bytes.
pub fn shown(of: Expr, to: DataType) -> Expr {
    call(of, Conversion::Show, to)
}

fn call(of: Expr, conversion: Conversion, to: DataType) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(Converted::new(conversion, to))), vec![of]))
}

/// The bytes that a text stands for.
pub fn bytes_of(text: &str) -> Result<Vec<u8>> {
    parse_bytes(text.as_bytes()).map_err(|bad| {
        let message = bad.describe(&quoted(text.as_bytes()), "BYTEA");
        wrap(Error::new(bad.kind(), message).with_hint(
            "write '\\x' and pairs of hexadecimal digits, or characters, with '\\\\' for a backslash and '\\ooo' for an octal byte",
        ))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Conversion {
    Read { or_null: bool },
    Show,
}

const CONVERSIONS: [Conversion; 3] =
    [Conversion::Read { or_null: false }, Conversion::Read { or_null: true }, Conversion::Show];

/// A cast between text and bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Converted {
    conversion: Conversion,
    to: DataType,
    signature: Signature,
}

impl Converted {
    fn new(conversion: Conversion, to: DataType) -> Converted {
        Converted { conversion, to, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Stateful for Converted {
    const CODE: &'static str = "bytes_and_texts";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.conversion, &CONVERSIONS));
        state.data_type(&self.to)
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Converted::new(state.variant(&CONVERSIONS)?, state.data_type()?))
    }
}

impl Converted {
    fn array(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let converted: ArrayRef = match self.conversion {
            Conversion::Read { or_null } => {
                let texts = cast(values, &DataType::Utf8View)?;
                let mut builder = BinaryViewBuilder::with_capacity(texts.len());
                for text in texts.as_string_view().iter() {
                    match text.map(bytes_of) {
                        Some(Ok(bytes)) => builder.append_value(bytes),
                        Some(Err(error)) if !or_null => return Err(error),
                        Some(Err(_)) | None => builder.append_null(),
                    }
                }
                Arc::new(builder.finish())
            }
            Conversion::Show => {
                let all = cast(values, &DataType::BinaryView)?;
                let mut builder = StringViewBuilder::with_capacity(all.len());
                for bytes in all.as_binary_view().iter() {
                    match bytes {
                        Some(bytes) => builder.append_value(hex_form(bytes)),
                        None => builder.append_null(),
                    }
                }
                Arc::new(builder.finish())
            }
        };
        Ok(cast(&converted, &self.to)?)
    }
}

fn hex_form(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

impl ScalarUDFImpl for Converted {
    fn name(&self) -> &str {
        match self.conversion {
            Conversion::Read { or_null: false } => "bytes_of_text",
            Conversion::Read { or_null: true } => "bytes_of_text_or_null",
            Conversion::Show => "text_of_bytes",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // As what is cast.
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let may_fail = self.conversion == Conversion::Read { or_null: true };
        let nullable = may_fail || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |values| {
            let [values] = take_function_args(self.name(), values)?;
            self.array(&values)
        })
    }
}
