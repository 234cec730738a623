//! Types as expressions write them: `CAST(x AS JSONB)`, `'...'::uuid`, `TIME '10:00'`.

use crate::statements::written_types::{column_type_of, data_type_of};
use alluvia_space::data_type::EXTENSION_METADATA;
use alluvia_space::{ColumnType, DataType};
use alluvia_types::Result;
use arrow::datatypes::FieldRef;
use sqlparser::ast::{self, ExactNumberInfo};
use std::sync::Arc;

/// The field of a type that is written in an expression, where DataFusion would plan another; `None` where it would not.
pub fn planned_type(written: &ast::DataType) -> Result<Option<FieldRef>> {
    use ast::DataType as Sql;
    let column_type = match written {
        Sql::Char(_) | Sql::Character(_) => column_type_of(written)?,
        Sql::Custom(name, modifiers) if modifiers.is_empty() && name.to_string().eq_ignore_ascii_case("bpchar") => {
            ColumnType::from(DataType::Char)
        }
        Sql::Timestamp(..)
        | Sql::Bytea
        | Sql::Text
        | Sql::Float(_)
        | Sql::Varchar(_)
        | Sql::CharacterVarying(_)
        | Sql::CharVarying(_)
        | Sql::Uuid
        | Sql::JSON
        | Sql::JSONB
        | Sql::Time(..)
        | Sql::Decimal(ExactNumberInfo::None)
        | Sql::Numeric(ExactNumberInfo::None)
        | Sql::Dec(_) => ColumnType::from(data_type_of(written)?),
        _ => return Ok(None),
    };
    let mut field = column_type.data_type.to_field("", true);
    if let Some(chars_max) = column_type.chars_max {
        field.metadata_mut().insert(EXTENSION_METADATA.to_owned(), chars_max.to_string());
    }
    Ok(Some(Arc::new(field)))
}
