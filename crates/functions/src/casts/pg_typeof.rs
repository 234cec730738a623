//! `pg_typeof`, which DataFusion lacks: the name of a value's type.
//!
//! Invariant: the names are PostgreSQL's, as `format_type` writes them; NULL by itself is `unknown`.

use super::kinds::{Kind, kind_of};
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TypeName {
    signature: Signature,
}

impl Default for TypeName {
    fn default() -> TypeName {
        TypeName { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TypeName {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = args.arg_fields.first().map(|field| type_of_field(field));
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(name)))
    }
}

/// PostgreSQL's name of what a field has.
pub fn type_of_field(field: &Field) -> String {
    let name = match kind_of(field) {
        Kind::Uuid => "uuid",
        Kind::Json => "json",
        Kind::Jsonb => "jsonb",
        Kind::Numeric => "numeric",
        Kind::Char => "character",
        Kind::Other => match field.data_type() {
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                let of = type_of_field(of);
                return if of.ends_with("[]") { of } else { of + "[]" };
            }
            other => return type_name(other),
        },
    };
    name.to_owned()
}

/// PostgreSQL's name of a type.
pub fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "unknown",
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "smallint",
        DataType::UInt16 | DataType::Int32 => "integer",
        DataType::UInt32 | DataType::Int64 => "bigint",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::FixedSizeBinary(16) => "uuid",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            // Lists of lists are lists of what these hold.
            let of = type_name(of.data_type());
            return if of.ends_with("[]") { of } else { of + "[]" };
        }
        DataType::Dictionary(_, of) => return type_name(of),
        DataType::Struct(_) | DataType::Map(..) => "record",
        _ => "numeric",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn names_are_postgresqls() {
        let list = |of: DataType| DataType::List(Arc::new(Field::new("item", of, true)));
        for (data_type, name) in [
            (DataType::Int64, "bigint"),
            (DataType::Decimal128(10, 2), "numeric"),
            (list(DataType::Utf8View), "text[]"),
            (list(list(DataType::Int32)), "integer[]"),
        ] {
            assert_eq!(type_name(&data_type), name);
        }
    }
}
