//! `coalesce` of dates, moments, booleans and lists with texts, as `coalesce(sold_at, '2000-01-01')` and `coalesce(array_agg(x), '{}')`.
//!
//! Invariant: where all arguments but texts are of one such type, texts are read as that type; whatever else there is means what it means in
//! DataFusion 55.2, which knows no type in common there.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: coalesce, timestamp, date, text, no common
//! type).
//! Held by `slt/everyday.slt` (`coalesce(d, '2000-01-01')`).

use crate::casts::kinds::{UUID, common_field};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::Result;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_functions::core::coalesce;
use std::sync::Arc;

/// DataFusion's function, which reads texts.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ReadingCoalesce(Arc<ScalarUDF>);

impl Default for ReadingCoalesce {
    fn default() -> ReadingCoalesce {
        ReadingCoalesce(coalesce())
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The type that texts are read as.
fn read_as(types: &[DataType]) -> Option<&DataType> {
    let mut others = types.iter().filter(|of| !is_text(of) && !of.is_null());
    let first = others.next()?;
    let is_read = matches!(
        first,
        DataType::Time64(_) | DataType::Date32 | DataType::Timestamp(..) | DataType::Boolean | DataType::List(_)
    );
    (is_read && types.iter().any(is_text) && others.all(|other| other == first)).then_some(first)
}

impl ScalarUDFImpl for ReadingCoalesce {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let of = args.arg_fields;
        if of.iter().any(|field| *field.data_type() == UUID) {
            return Ok(Arc::new(Field::new(self.name(), UUID, true)));
        }
        let field = self.0.inner().return_field_from_args(args)?;
        let kind = common_field(field.name(), field.data_type().clone(), of);
        Ok(Arc::new(field.as_ref().clone().with_metadata(kind.metadata().clone())))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match read_as(arg_types) {
            Some(of) => Ok(vec![of.clone(); arg_types.len()]),
            // NULL has no type in common with bytes of one width.
            None if arg_types.contains(&UUID) && arg_types.iter().all(|of| *of == UUID || of.is_null()) => {
                Ok(vec![UUID; arg_types.len()])
            }
            // A literal beside a UUID is read where it is planned: Arrow has no cast.
            None if arg_types.contains(&UUID)
                && arg_types.iter().all(|of| *of == UUID || of.is_null() || is_text(of)) =>
            {
                Ok(arg_types.to_vec())
            }
            None => self.0.inner().coerce_types(arg_types),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.inner().simplify(args, info)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.0.inner().conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.0.inner().short_circuits()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.inner().invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;

    #[test]
    fn texts_are_read_beside_one_type_alone() {
        let (text, date) = (DataType::Utf8View, DataType::Date32);
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        let list = DataType::new_list(DataType::Int64, true);
        for (types, wanted) in [
            (vec![date.clone(), text.clone()], Some(&date)),
            (vec![text.clone(), DataType::Null, date.clone(), date.clone()], Some(&date)),
            (vec![DataType::Boolean, DataType::Utf8], Some(&DataType::Boolean)),
            (vec![list.clone(), text.clone(), list.clone()], Some(&list)),
            (vec![date.clone(), moment.clone(), text.clone()], None),
            (vec![date.clone(), DataType::Null], None),
            (vec![DataType::Int32, text.clone()], None),
            (vec![text.clone(), text.clone()], None),
        ] {
            assert_eq!(read_as(&types), wanted, "{types:?}");
        }
    }
}
