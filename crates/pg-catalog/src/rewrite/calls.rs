//! Calls of the catalog's functions: what is known of them before their query is planned.
//!
//! Invariant: a call of which nothing is known is left as it is.

use super::{Rewrite, cast, is_number, parts, uncast};
use crate::constants::{Constant, constant, is_function, number_expr, text_expr};
use crate::relations::{by_text, temporary_schema_oid};
use crate::{comments, defaults, fold, keys, reg, rights, versions, views};
use alluvia_catalog::{PG_CATALOG, TEMPORARY_SCHEMA, TEMPORARY_SCHEMA_SHOWN};
use alluvia_syntax::statement::{literal_text, text_of};
use alluvia_syntax::trees::rewriting::call;
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};

impl Rewrite<'_> {
    pub(super) fn function(&self, function: &mut ast::Function) -> Result<Option<Expr>> {
        let parts = parts(&function.name);
        let name = match parts.as_slice() {
            [name] => name.clone(),
            [schema, name] if schema == PG_CATALOG => {
                function.name = ObjectName::from(vec![Ident::new(name.clone())]);
                name.clone()
            }
            _ => return Ok(None),
        };
        if is_function(&name) && !name.starts_with("quote_") {
            reg::give_numbers(function);
        }
        if let Some(known) = fold::function(&name, function)? {
            return Ok(Some(known));
        }
        if let Some(replaced) = rights::replaced(&name, function, &self.viewer.authoriser) {
            return Ok(Some(replaced));
        }
        if let Some(call) = keys::definition(&name, function).filter(|_| self.has_keys) {
            return Ok(Some(call));
        }
        if let Some(call) = views::definition(&name, function, self.viewer) {
            return Ok(Some(call));
        }
        if name == "pg_get_serial_sequence" && self.shown.sequences {
            return Ok(None);
        }
        if let Some(bound) = keys::bound(&name, function) {
            return Ok(Some(bound));
        }
        // Of other lists of the catalog nothing is known, and some are texts.
        if name == "array_to_string" && fold::argument(function, 0).is_some_and(keys::is_planned_list) {
            return Ok(None);
        }
        if name == "pg_get_expr"
            && (self.shown.defaults || self.has_keys)
            && let Some(kept) = defaults::expression(function)
        {
            return Ok(Some(kept));
        }
        if comments::gives(self.catalog, &name) {
            // Of which kind an object is may be left out.
            if let FunctionArguments::List(list) = &mut function.args
                && name == "obj_description"
                && list.args.len() == 1
            {
                let any = cast(Constant::Null.expr(), ast::DataType::Text);
                list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(any)));
            }
            return Ok(None);
        }
        if name == "pg_get_functiondef" {
            return Ok(None);
        }
        if let Some(constant) = constant(&name) {
            return Ok(Some(constant.expr()));
        }
        let argument = |at: usize| text_argument(function, at);
        Ok(match name.as_str() {
            "age" if parts.len() == 2 => match fold::argument(function, 0) {
                Some(of) if fold::argument(function, 1).is_none() => versions::age(of, self.catalog),
                _ => None,
            },
            "pg_my_temp_schema" => Some(number_expr(temporary_schema_oid(self.catalog))),
            "current_schema" => {
                Some(match self.viewer.authoriser.path().schemas().find(|schema| *schema != TEMPORARY_SCHEMA) {
                    Some(schema) => text_expr(schema),
                    None => cast(Constant::Null.expr(), ast::DataType::Text),
                })
            }
            "current_schemas" => {
                let path = self.viewer.authoriser.path();
                let implicit = argument(0).is_some_and(|text| text.eq_ignore_ascii_case("true"))
                    && path.schemas().all(|schema| schema != PG_CATALOG);
                let is_asked = argument(0).is_some_and(|text| text.eq_ignore_ascii_case("true"));
                let temporary = path.schemas().find(|schema| *schema == TEMPORARY_SCHEMA).filter(|_| is_asked);
                let implicit =
                    temporary.map(|_| TEMPORARY_SCHEMA_SHOWN).into_iter().chain(implicit.then_some(PG_CATALOG));
                let stated = path.schemas().filter(|schema| *schema != TEMPORARY_SCHEMA);
                let elem: Vec<Expr> = implicit.chain(stated).map(text_expr).collect();
                if elem.is_empty() {
                    let texts =
                        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(ast::DataType::Text), None));
                    let none = Expr::Array(ast::Array { elem, named: true });
                    return Ok(Some(cast(none, texts)));
                }
                Some(Expr::Array(ast::Array { elem, named: true }))
            }
            // NULL gives NULL, and so does a parameter, of which only the type is asked.
            "current_setting" if fold::argument(function, 0).is_some_and(|name| is_null(uncast(name))) => {
                Some(cast(Constant::Null.expr(), ast::DataType::Text))
            }
            // Tools take apart in SQL what settings are. What follows from who asks, or is the database's, the session says.
            "current_setting" => {
                let wanted = fold::argument(function, 0).and_then(text_of).map(|name| name.to_ascii_lowercase());
                let of_session = |name: &String| !matches!(name.as_str(), "is_superuser" | "session_authorization");
                let known = wanted.filter(of_session).and_then(|name| self.settings.shown(&name));
                known.map(|value| text_expr(&value))
            }
            // A text stands for a table, as for a regclass.
            "pg_relation_size" | "pg_table_size" | "pg_total_relation_size" => match fold::argument(function, 0) {
                Some(Expr::Value(value)) => match &value.value {
                    Value::SingleQuotedString(text) => Some(call(
                        &name,
                        vec![number_expr(by_text(self.viewer, text).ok_or_else(|| {
                            Error::new(ErrorKind::UndefinedTable, format!("there is no table '{text}'"))
                        })?)],
                    )),
                    _ => None,
                },
                _ => None,
            },
            // `'t_id_seq'::regclass` is a number by now.
            "nextval" | "currval" | "setval" => {
                if let FunctionArguments::List(list) = &mut function.args
                    && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(of))) = list.args.first_mut()
                    && is_number(of)
                    && let Some(name) = literal_text(of)
                        .and_then(|number| number.parse().ok())
                        .and_then(|oid| defaults::sequence_name(self.catalog, oid))
                {
                    *of = text_expr(&name.to_string());
                }
                None
            }
            "to_regclass" | "to_regtype" | "to_regnamespace" | "to_regproc" | "to_regrole" => {
                let kind = reg::Kind::of_type(name.trim_start_matches("to_"));
                let number = kind.zip(argument(0)).and_then(|(kind, text)| kind.number(self.viewer, &text).ok());
                Some(or_null(number))
            }
            _ => None,
        })
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Null | Value::Placeholder(_)))
}

fn or_null(number: Option<i64>) -> Expr {
    number.map_or_else(|| Constant::Null.expr(), number_expr)
}

/// A function's argument, if it is a text or a truth.
fn text_argument(function: &ast::Function, at: usize) -> Option<String> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.get(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => literal_text(uncast(expr)),
        _ => None,
    }
}
