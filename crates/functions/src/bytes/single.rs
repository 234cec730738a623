//! Functions of bytes alone: `get_byte`, `set_byte`, `get_bit`, `set_bit`, `bit_count`, `convert_from` and `convert_to`.
//!
//! Invariant: bytes count from 0, and so do bits, of which the least of a byte is the first, as in PostgreSQL.

use super::arguments::{Bytes, Numbers, Texts};
use super::forms::{all_bytes, bytes, bytes_or_text, number, refused};
use crate::columnar::{as_columnar, is_constant, rows_made};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, Int32Array, Int64Array, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion_common::types::logical_string;
use datafusion_common::{Result, internal_err};
use datafusion_expr::{
    Coercion, ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignatureClass, Volatility,
};
use std::borrow::Cow;
use std::sync::Arc;

/// What a function does with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Does {
    GetByte,
    SetByte,
    GetBit,
    SetBit,
    /// Counts the bits that are set.
    BitCount,
    /// Makes a text of bytes.
    ConvertFrom,
    /// Makes bytes of a text.
    ConvertTo,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Single {
    does: Does,
    signature: Signature,
}

impl Single {
    /// The function that does this.
    pub(crate) fn new(does: Does) -> Single {
        let text = || Coercion::new_exact(TypeSignatureClass::Native(logical_string()));
        let arguments = match does {
            Does::GetByte | Does::GetBit => vec![bytes_or_text(), number()],
            Does::SetByte | Does::SetBit => vec![bytes_or_text(), number(), number()],
            Does::BitCount => vec![bytes()],
            Does::ConvertFrom => vec![bytes_or_text(), text()],
            Does::ConvertTo => vec![text(), text()],
        };
        Single { does, signature: Signature::coercible(arguments, Volatility::Immutable) }
    }
}

/// The index of a byte, or of a bit, of so many.
fn index(at: i64, count: usize) -> Result<usize> {
    let index = usize::try_from(at).ok().filter(|index| *index < count);
    index.ok_or_else(|| refused(format!("there is no byte or bit {at}: they count from 0, and there are {count}")))
}

/// Refuses encodings that no texts have here.
fn check_encoding(name: &str) -> Result<()> {
    if ["utf8", "utf-8", "unicode"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::NotSupported, format!("the encoding '{name}' is not supported"));
    Err(wrap(error.with_hint("texts are 'UTF8'")))
}

/// The text that bytes are the UTF-8 of. One with a zero is none, as in PostgreSQL.
fn text_of(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        let error = Error::new(ErrorKind::Encoding, "bytes are no text in UTF-8");
        wrap(error.with_hint("encode(b, 'escape') and encode(b, 'hex') show any bytes"))
    })
}

impl Does {
    fn name(self) -> &'static str {
        match self {
            Does::GetByte => "get_byte",
            Does::SetByte => "set_byte",
            Does::GetBit => "get_bit",
            Does::SetBit => "set_bit",
            Does::BitCount => "bit_count",
            Does::ConvertFrom => "convert_from",
            Does::ConvertTo => "convert_to",
        }
    }

    fn result(self) -> DataType {
        match self {
            Does::GetByte | Does::GetBit => DataType::Int32,
            Does::SetByte | Does::SetBit | Does::ConvertTo => DataType::BinaryView,
            Does::BitCount => DataType::Int64,
            Does::ConvertFrom => DataType::Utf8View,
        }
    }

    fn array(self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        match (self, args) {
            (Does::GetByte | Does::GetBit, [of, at]) => {
                let (of, at) = (Bytes::of(of)?, Numbers::of(at)?);
                let values = (0..rows).map(|row| -> Result<Option<i32>> {
                    let Some((bytes, at)) = of.at(row).zip(at.at(row)) else { return Ok(None) };
                    if self == Does::GetByte {
                        return Ok(Some(i32::from(bytes[index(at, bytes.len())?])));
                    }
                    let at = index(at, bytes.len().saturating_mul(8))?;
                    Ok(Some(i32::from((bytes[at / 8] >> (at % 8)) & 1)))
                });
                Ok(Arc::new(values.collect::<Result<Int32Array>>()?))
            }
            (Does::SetByte | Does::SetBit, [of, at, value]) => {
                let (of, at, value) = (Bytes::of(of)?, Numbers::of(at)?, Numbers::of(value)?);
                all_bytes(rows, |row| {
                    let Some(((bytes, at), value)) = of.at(row).zip(at.at(row)).zip(value.at(row)) else {
                        return Ok(None);
                    };
                    let mut made = bytes.to_vec();
                    if self == Does::SetByte {
                        // Of more bits the lowest count.
                        made[index(at, bytes.len())?] = value as u8;
                        return Ok(Some(Cow::Owned(made)));
                    }
                    let at = index(at, bytes.len().saturating_mul(8))?;
                    let bit = 1_u8 << (at % 8);
                    match value {
                        0 => made[at / 8] &= !bit,
                        1 => made[at / 8] |= bit,
                        _ => return Err(refused(format!("a bit is 0 or 1, not {value}"))),
                    }
                    Ok(Some(Cow::Owned(made)))
                })
            }
            (Does::BitCount, [of]) => {
                let of = Bytes::of(of)?;
                let ones = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
                Ok(Arc::new((0..rows).map(|row| of.at(row).map(ones)).collect::<Int64Array>()))
            }
            (Does::ConvertFrom, [of, encoding]) => {
                let (of, encoding) = (Bytes::of(of)?, Texts::of(encoding)?);
                let mut builder = StringViewBuilder::with_capacity(rows);
                for row in 0..rows {
                    let Some((bytes, encoding)) = of.at(row).zip(encoding.at(row)) else {
                        builder.append_null();
                        continue;
                    };
                    check_encoding(encoding)?;
                    builder.append_value(text_of(bytes)?);
                }
                Ok(Arc::new(builder.finish()))
            }
            (Does::ConvertTo, [of, encoding]) => {
                let (of, encoding) = (Texts::of(of)?, Texts::of(encoding)?);
                all_bytes(rows, |row| {
                    let Some((text, encoding)) = of.at(row).zip(encoding.at(row)) else { return Ok(None) };
                    check_encoding(encoding)?;
                    Ok(Some(Cow::Borrowed(text.as_bytes())))
                })
            }
            _ => internal_err!("a function of bytes has other arguments"),
        }
    }
}

impl ScalarUDFImpl for Single {
    fn name(&self) -> &str {
        self.does.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.does.result())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = self.does.array(&args.args, rows_made(&args.args, args.number_rows))?;
        as_columnar(made, is_constant(&args.args))
    }
}
