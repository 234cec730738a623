//! `regclass`, `regtype`, `regnamespace`, `regproc` and `regrole`: numbers of the catalog that are shown as names.
//!
//! Invariants:
//! - A literal that is cast to one is looked up before planning; what else is cast is read row by row: texts are names, numbers are what
//!   they are.
//! - The number is compared, and given to functions of the catalog; the name is shown.
//! - A name that is nobody's is refused, as PostgreSQL does; a number that is nobody's is shown as it is.

use crate::context::Viewer;
use crate::relations::{by_text, schema_by_name, schema_name, text_of};
use crate::rewrite::parts;
use crate::{fold, procedures, types};
use alluvia_catalog::rights::RoleId;
use alluvia_space::keywords::quoted;
use alluvia_syntax::names::DATABASE_NAME;
use alluvia_syntax::statement::text_of as literal;
use alluvia_syntax::trees::rewriting::call;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What numbers are of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Class,
    Type,
    Namespace,
    Procedure,
    /// A procedure that is named with the types of its arguments.
    Signature,
    Role,
}

const KINDS: [Kind; 6] = [Kind::Class, Kind::Type, Kind::Namespace, Kind::Procedure, Kind::Signature, Kind::Role];

impl Kind {
    /// By the name of the type that is cast to.
    pub(crate) fn of_type(name: &str) -> Option<Kind> {
        Some(match name {
            "regclass" => Kind::Class,
            "regtype" => Kind::Type,
            "regnamespace" => Kind::Namespace,
            "regproc" => Kind::Procedure,
            "regprocedure" => Kind::Signature,
            "regrole" => Kind::Role,
            _ => return None,
        })
    }

    /// The functions that casts become, under names that no statement says: the first gives the name, the second the number.
    fn functions(self) -> (&'static str, &'static str) {
        match self {
            Kind::Class => ("pg_catalog_regclass", "pg_catalog_regclass_oid"),
            Kind::Type => ("pg_catalog_regtype", "pg_catalog_regtype_oid"),
            Kind::Namespace => ("pg_catalog_regnamespace", "pg_catalog_regnamespace_oid"),
            Kind::Procedure => ("pg_catalog_regproc", "pg_catalog_regproc_oid"),
            Kind::Signature => ("pg_catalog_regprocedure", "pg_catalog_regprocedure_oid"),
            Kind::Role => ("pg_catalog_regrole", "pg_catalog_regrole_oid"),
        }
    }

    /// The number of a name.
    pub(crate) fn number(self, viewer: &Viewer, text: &str) -> Result<i64> {
        let text = text.trim();
        if text == "-" {
            return Ok(0);
        }
        if let Ok(number) = text.parse() {
            return Ok(number);
        }
        let undefined = |kind, what| Error::new(kind, format!("there is no {what} '{text}'"));
        match self {
            Kind::Class => by_text(viewer, &plain(text)).ok_or_else(|| undefined(ErrorKind::UndefinedTable, "table")),
            Kind::Type => {
                let name = match text.contains('"') {
                    true => last(text),
                    false => text.to_owned(),
                };
                types::by_name(&name).ok_or_else(|| undefined(ErrorKind::UndefinedObject, "type"))
            }
            Kind::Namespace => {
                let (catalog, name) = (viewer.authoriser.catalog(), last(text));
                schema_by_name(catalog, &name).ok_or_else(|| catalog.undefined_schema(&name))
            }
            Kind::Procedure => {
                procedures::by_name(&last(text)).ok_or_else(|| undefined(ErrorKind::UndefinedFunction, "function"))
            }
            Kind::Signature => {
                let wrong = || undefined(ErrorKind::UndefinedFunction, "function");
                let (name, arguments) =
                    text.strip_suffix(')').and_then(|text| text.split_once('(')).ok_or_else(wrong)?;
                procedures::by_signature(&last(name), arguments).ok_or_else(wrong)
            }
            Kind::Role => viewer
                .authoriser
                .catalog()
                .rights()
                .named(&last(text))
                .map(|role| i64::from(role.id.0))
                .ok_or_else(|| undefined(ErrorKind::UndefinedObject, "role")),
        }
    }

    /// The name of a number.
    fn name(self, viewer: &Viewer, oid: i64) -> String {
        let known = match self {
            _ if oid == 0 => Some("-".to_owned()),
            Kind::Class => text_of(viewer, oid),
            Kind::Type => Some(types::format(oid, None)),
            Kind::Namespace => schema_name(viewer.authoriser.catalog(), oid).map(|name| quoted(&name)),
            Kind::Procedure => procedures::name(oid),
            Kind::Signature => procedures::signature(oid),
            Kind::Role => {
                let role = u32::try_from(oid).ok().and_then(|id| viewer.authoriser.catalog().rights().role(RoleId(id)));
                role.map(|role| quoted(&role.name))
            }
        };
        known.unwrap_or_else(|| oid.to_string())
    }
}

/// A name as its parts say it, each in quotes, without the database.
fn plain(text: &str) -> String {
    let Ok(mut names) = fold::identifiers(text) else { return text.to_owned() };
    if names.len() == 3 && names[0] == DATABASE_NAME {
        names.remove(0);
    }
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(".")
}

/// The last part of a name that may stand behind its schema.
fn last(text: &str) -> String {
    let names = fold::identifiers(text.trim()).unwrap_or_default();
    names.into_iter().next_back().unwrap_or_else(|| text.trim().to_owned())
}

/// A cast of what is not known before planning: the name.
pub(crate) fn cast_to(kind: Kind, of: Expr) -> Expr {
    call(kind.functions().0, vec![of])
}

/// The kind and the number of what such a cast has become; `None` of anything else.
pub(crate) fn number(expr: &Expr) -> Option<(Kind, Expr)> {
    match expr {
        Expr::Nested(inner) => number(inner),
        Expr::Function(function) => {
            let [name] = <[String; 1]>::try_from(parts(&function.name)).ok()?;
            let kind = KINDS.into_iter().find(|kind| kind.functions().0 == name)?;
            Some((kind, call(kind.functions().1, vec![fold::argument(function, 0)?.clone()])))
        }
        _ => None,
    }
}

/// Compares numbers where one side is such a cast, unless the other one is a text by its own words.
pub(crate) fn compare(left: &mut Expr, op: &BinaryOperator, right: &mut Expr) {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return;
    }
    match (number(left), number(right)) {
        (Some((_, of_left)), Some((_, of_right))) => (*left, *right) = (of_left, of_right),
        (Some((kind, of_left)), None) => {
            if let Some(of_right) = beside(kind, right) {
                (*left, *right) = (of_left, of_right);
            }
        }
        (None, Some((kind, of_right))) => {
            if let Some(of_left) = beside(kind, left) {
                (*left, *right) = (of_left, of_right);
            }
        }
        (None, None) => {}
    }
}

/// The same for a list.
pub(crate) fn compare_with_list(expr: &mut Expr, list: &mut [Expr]) {
    let Some((kind, of)) = number(expr) else { return };
    let numbers: Option<Vec<Expr>> =
        list.iter().map(|value| number(value).map(|(_, of)| of).or_else(|| beside(kind, value))).collect();
    if let Some(numbers) = numbers {
        *expr = of;
        list.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
    }
}

/// What stands beside a number: a literal is a name of that kind. `None` of a text.
fn beside(kind: Kind, expr: &Expr) -> Option<Expr> {
    use datafusion::sql::sqlparser::ast::DataType as Sql;
    match expr {
        Expr::Nested(inner) => beside(kind, inner),
        Expr::Cast { data_type: Sql::Text | Sql::Varchar(_) | Sql::CharacterVarying(_), .. } => None,
        expr if literal(expr).is_some() => Some(call(kind.functions().1, vec![expr.clone()])),
        // Columns of functions hold their names.
        _ if matches!(kind, Kind::Procedure | Kind::Signature) => match expr {
            Expr::Value(_) => Some(expr.clone()),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => crate::rewrite::is_oid(expr).then(|| expr.clone()),
            _ => None,
        },
        expr => Some(expr.clone()),
    }
}

/// Gives a function of the catalog numbers where it is called with such casts.
pub(crate) fn give_numbers(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && let Some((_, of)) = number(expr)
        {
            *expr = of;
        }
    }
}

/// All of these functions, by the definitions and the search path of who asks.
pub(crate) fn functions(viewer: &Viewer) -> impl Iterator<Item = Reg> {
    let viewer = Arc::new(viewer.clone());
    KINDS.into_iter().flat_map(move |kind| {
        [true, false].map(|named| Reg {
            kind,
            named,
            signature: Signature::any(1, Volatility::Stable),
            viewer: Arc::clone(&viewer),
        })
    })
}

/// A cast as a function of one statement.
#[derive(Debug)]
pub(crate) struct Reg {
    kind: Kind,
    /// Whether it gives the name.
    named: bool,
    signature: Signature,
    viewer: Arc<Viewer>,
}

impl PartialEq for Reg {
    fn eq(&self, other: &Reg) -> bool {
        (self.kind, self.named) == (other.kind, other.named) && Arc::ptr_eq(&self.viewer, &other.viewer)
    }
}

impl Eq for Reg {}

impl Hash for Reg {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind, self.named).hash(state);
    }
}

impl ScalarUDFImpl for Reg {
    fn name(&self) -> &str {
        let (name, number) = self.kind.functions();
        if self.named { name } else { number }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(if self.named { DataType::Utf8View } else { DataType::Int64 })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let given = arguments.args[0].to_array(arguments.number_rows)?;
        let numbers = self.numbers(&given)?;
        let array: ArrayRef = match self.named {
            true => {
                let name = |oid: Option<i64>| oid.map(|oid| self.kind.name(&self.viewer, oid));
                Arc::new(StringViewArray::from_iter(numbers.iter().map(name)))
            }
            false => Arc::new(numbers),
        };
        Ok(ColumnarValue::Array(array))
    }
}

impl Reg {
    fn numbers(&self, given: &ArrayRef) -> PlanResult<Int64Array> {
        let is_text = matches!(given.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            || matches!(given.data_type(), DataType::Dictionary(_, values) if !values.is_numeric());
        if !is_text {
            return Ok(cast(given, &DataType::Int64)?.as_primitive::<Int64Type>().clone());
        }
        let texts = cast(given, &DataType::Utf8View)?;
        let number = |text: Option<&str>| text.map(|text| self.kind.number(&self.viewer, text)).transpose();
        let numbers = texts.as_string_view().iter().map(number).collect::<Result<Vec<_>>>().map_err(wrap)?;
        Ok(Int64Array::from(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::testing::viewer;

    #[test]
    fn names_are_numbers_and_numbers_names() {
        let asks = viewer();
        for (kind, written, oid, shown) in [
            (Kind::Class, "pg_class", 1259, "pg_class"),
            (Kind::Class, "\"alluvia\".\"pg_catalog\".\"pg_class\"", 1259, "pg_class"),
            (Kind::Type, "int", 23, "integer"),
            (Kind::Type, "\"pg_catalog\".\"int4\"", 23, "integer"),
            (Kind::Type, "double precision", 701, "double precision"),
            (Kind::Namespace, "public", 2200, "public"),
            (Kind::Role, "alluvia", 10, "alluvia"),
            (Kind::Class, "1259", 1259, "pg_class"),
            (Kind::Class, "alluvia.batches", 16_100, "alluvia.batches"),
            (Kind::Class, "-", 0, "-"),
        ] {
            assert_eq!(kind.number(&asks, written).unwrap(), oid, "{written}");
            assert_eq!(kind.name(&asks, oid), shown, "{written}");
        }
        assert_eq!(Kind::Class.number(&asks, "nothing").unwrap_err().kind(), ErrorKind::UndefinedTable);
        assert_eq!(Kind::Type.number(&asks, "nothing").unwrap_err().kind(), ErrorKind::UndefinedObject);
        assert_eq!(Kind::Class.name(&asks, 999_999), "999999");
    }
}
