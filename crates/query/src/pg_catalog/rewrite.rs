//! Queries of the catalog, from PostgreSQL's language to what is planned here.
//!
//! Invariant: a query that names nothing of the catalog is left as it is.

use super::functions::{REGCLASS, REGNAMESPACE};
use super::relations::{SCHEMAS, by_text};
use super::tables::{INFORMATION_SCHEMA, PG_CATALOG, is_always_empty};
use super::{NAME, rights, types};
use crate::dialect::names::name_of;
use crate::rights::Authoriser;
use crate::session::settings::SettingsNow;
use alluvia_catalog::Catalog;
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, JoinOperator,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableFactor, Value, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Functions that say the same whatever they are given, with what they say.
const CONSTANTS: &[(&[&str], Constant)] = &[
    (&["current_database", "current_catalog"], Constant::Text(NAME)),
    (&["current_schema"], Constant::Text("public")),
    (&["pg_encoding_to_char", "pg_client_encoding", "getdatabaseencoding"], Constant::Text("UTF8")),
    (&["pg_tablespace_location"], Constant::Text("")),
    (&["version"], Constant::Version),
    (&["pg_char_to_encoding"], Constant::Number("6")),
    (&["pg_my_temp_schema", "pg_backend_pid", "txid_current", "pg_trigger_depth"], Constant::Number("0")),
    (
        &[
            "has_function_privilege",
            "has_sequence_privilege",
            "has_type_privilege",
            "has_tablespace_privilege",
            "has_language_privilege",
            "pg_type_is_visible",
            "pg_function_is_visible",
            "pg_operator_is_visible",
            "pg_opclass_is_visible",
            "pg_collation_is_visible",
            "pg_conversion_is_visible",
            "pg_ts_config_is_visible",
            "pg_ts_dict_is_visible",
            "pg_statistics_obj_is_visible",
        ],
        Constant::Truth(true),
    ),
    (
        &[
            "pg_is_in_recovery",
            "pg_relation_is_publishable",
            "pg_is_other_temp_schema",
            "pg_jit_available",
            "pg_relation_is_updatable",
            "pg_is_wal_replay_paused",
        ],
        Constant::Truth(false),
    ),
    (
        &[
            "pg_get_expr",
            "pg_get_indexdef",
            "pg_get_constraintdef",
            "obj_description",
            "col_description",
            "shobj_description",
            "pg_get_viewdef",
            "pg_get_serial_sequence",
            "pg_get_partkeydef",
            "pg_get_function_result",
            "pg_get_function_arguments",
            "pg_get_function_identity_arguments",
            "pg_get_functiondef",
            "pg_get_triggerdef",
            "pg_get_ruledef",
            "pg_get_statisticsobjdef_columns",
            "array_to_string",
            "array_upper",
            "inet_server_addr",
            "inet_client_addr",
            "inet_server_port",
            "inet_client_port",
            "pg_get_function_sqlbody",
            "pg_postmaster_start_time",
            "pg_conf_load_time",
            "_pg_char_max_length",
            "_pg_numeric_precision",
            "_pg_numeric_scale",
            "pg_options_to_table",
        ],
        Constant::Null,
    ),
];

/// Functions that are answered here, or registered, beside those.
const FUNCTIONS: &[&str] = &[
    "current_user",
    "current_role",
    "session_user",
    "user",
    "pg_get_userbyid",
    "has_table_privilege",
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_schema_privilege",
    "pg_has_role",
    "current_schemas",
    "current_setting",
    "set_config",
    "to_regclass",
    "to_regtype",
    "to_regnamespace",
    "format_type",
    "pg_table_is_visible",
    "pg_relation_size",
    "pg_table_size",
    "pg_total_relation_size",
    "pg_database_size",
    "pg_size_pretty",
    "quote_ident",
    "quote_literal",
];

/// Functions of these names mean something without the catalog, too: alone they do not make a query one of it.
const ORDINARY: &[&str] = &["array_to_string"];

#[derive(Clone, Copy)]
enum Constant {
    Text(&'static str),
    Number(&'static str),
    Truth(bool),
    Null,
    Version,
}

impl Constant {
    fn expr(self) -> Expr {
        match self {
            Constant::Text(text) => text_expr(text),
            Constant::Number(number) => number_expr(number),
            Constant::Truth(value) => Expr::Value(Value::Boolean(value).into()),
            Constant::Null => Expr::Value(Value::Null.into()),
            Constant::Version => {
                let ours = env!("CARGO_PKG_VERSION");
                text_expr(&format!("PostgreSQL 16.0 (Alluvia {ours}) on {}", std::env::consts::ARCH))
            }
        }
    }
}

pub(super) fn text_expr(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

fn number_expr(number: impl ToString) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

fn constant(name: &str) -> Option<Constant> {
    CONSTANTS.iter().find(|(names, _)| names.contains(&name)).map(|(_, constant)| *constant)
}

/// Brings a query of the catalog to what can be planned; gives whether it is one.
pub(crate) fn prepare(
    query: &mut Query,
    authoriser: &Authoriser,
    settings: impl FnOnce() -> SettingsNow,
) -> Result<bool> {
    let catalog: &Catalog = authoriser.catalog();
    let mut names = Names { catalog, found: false };
    let _ = Visit::visit(&*query, &mut names);
    if !names.found {
        return Ok(false);
    }
    match VisitMut::visit(query, &mut Rewrite { catalog, authoriser, settings: &settings() }) {
        ControlFlow::Continue(()) => Ok(true),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The parts of a name, lower case unless quoted.
fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(ObjectNamePart::as_ident).map(name_of).collect()
}

/// The schema and table of the catalog that a name means.
fn catalog_table(name: &ObjectName, catalog: &Catalog) -> Option<(&'static str, String)> {
    let parts = parts(name);
    match parts.as_slice() {
        [.., schema, table] if schema == PG_CATALOG => Some((PG_CATALOG, table.clone())),
        [.., schema, table] if schema == INFORMATION_SCHEMA => Some((INFORMATION_SCHEMA, table.clone())),
        [table] if table.starts_with("pg_") && catalog.table(table).is_err() => Some((PG_CATALOG, table.clone())),
        _ => None,
    }
}

/// Looks for names of the catalog.
struct Names<'a> {
    catalog: &'a Catalog,
    found: bool,
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.found |= catalog_table(relation, self.catalog).is_some();
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.found |= match expr {
            Expr::Function(function) => match parts(&function.name).as_slice() {
                [name] => {
                    (constant(name).is_some() || FUNCTIONS.contains(&name.as_str()))
                        && !ORDINARY.contains(&name.as_str())
                }
                [schema, _] => schema == PG_CATALOG,
                _ => false,
            },
            Expr::Cast { data_type, .. } => reg_type(data_type).is_some(),
            _ => false,
        };
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The last part of a type's name, if it is one of PostgreSQL's that the parser has no word for.
fn custom_type(data_type: &ast::DataType) -> Option<String> {
    match data_type {
        ast::DataType::Custom(name, _) => parts(name).pop(),
        ast::DataType::Regclass => Some("regclass".to_owned()),
        _ => None,
    }
}

fn reg_type(data_type: &ast::DataType) -> Option<String> {
    let name = custom_type(data_type)?;
    matches!(
        name.as_str(),
        "regclass" | "regtype" | "regnamespace" | "regproc" | "regprocedure" | "regrole" | "oid" | "name"
    )
    .then_some(name)
}

struct Rewrite<'a> {
    catalog: &'a Catalog,
    authoriser: &'a Authoriser,
    settings: &'a SettingsNow,
}

impl VisitorMut for Rewrite<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if self.empty_out(&mut query.body) && matches!(query.body.as_ref(), SetExpr::Select(_)) {
            query.order_by = None;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // Items keep the names that PostgreSQL gives them, whatever becomes of them.
        let mut seen: Vec<String> = Vec::new();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let Some(name) = item_name(expr) else { continue };
            if seen.contains(&name) || matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                continue;
            }
            seen.push(name.clone());
            let expr = std::mem::replace(expr, Constant::Null.expr());
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Error> {
        if let Some((schema, table)) = catalog_table(relation, self.catalog) {
            *relation = ObjectName::from(vec![Ident::new(schema), Ident::with_quote('"', table)]);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        // pg_catalog.generate_series(...): a function, which has no schema here.
        if let TableFactor::Table { name, args: Some(_), .. } = factor
            && let [schema, function] = parts(name).as_slice()
            && schema == PG_CATALOG
        {
            *name = ObjectName::from(vec![Ident::new(function.clone())]);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            // Planning wants a subquery in an expression to be one row by its form.
            Expr::Subquery(query) => {
                self.empty_out(&mut query.body);
                one_row(query);
            }
            Expr::Function(function) if matches!(function.args, FunctionArguments::Subquery(_)) => {
                // ARRAY(SELECT ...), of what the catalog has none of.
                *expr = Constant::Null.expr();
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match self.replaced(expr) {
            Ok(Some(replacement)) => *expr = replacement,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl Rewrite<'_> {
    fn replaced(&self, expr: &mut Expr) -> Result<Option<Expr>> {
        Ok(match expr {
            Expr::Function(function) => return self.function(function),
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(name) = op
                    && let Some(known) = name.last().and_then(|name| operator(name))
                {
                    *op = known;
                }
                None
            }
            Expr::Collate { expr, .. } => Some(std::mem::replace(expr.as_mut(), Constant::Null.expr())),
            Expr::Cast { expr: inner, data_type, .. } => {
                if let ast::DataType::Array(_) = data_type {
                    return Ok(Some(Constant::Null.expr()));
                }
                let Some(name) = custom_type(data_type) else { return Ok(None) };
                let literal = match inner.as_ref() {
                    Expr::Value(value) => match &value.value {
                        Value::SingleQuotedString(text) => Some(text.clone()),
                        _ => None,
                    },
                    _ => None,
                };
                let inner = std::mem::replace(inner.as_mut(), Constant::Null.expr());
                Some(match (name.as_str(), literal) {
                    ("regclass", Some(text)) => {
                        number_expr(by_text(self.catalog, &text).ok_or_else(|| {
                            Error::new(ErrorKind::UndefinedTable, format!("there is no table '{text}'"))
                        })?)
                    }
                    ("regtype", Some(text)) => {
                        number_expr(types::by_name(&text).ok_or_else(|| {
                            Error::new(ErrorKind::UndefinedObject, format!("there is no type '{text}'"))
                        })?)
                    }
                    ("regnamespace", Some(text)) => number_expr(schema_oid(&text).ok_or_else(|| {
                        Error::new(ErrorKind::UndefinedObject, format!("there is no schema '{text}'"))
                    })?),
                    ("regclass", None) => call(REGCLASS, vec![inner]),
                    ("regtype", None) => call("format_type", vec![inner, Constant::Null.expr()]),
                    ("regnamespace", None) => call(REGNAMESPACE, vec![inner]),
                    ("regrole", Some(text)) => text_expr(&text),
                    ("regrole", None) => call("pg_get_userbyid", vec![inner]),
                    ("oid" | "xid", _) => cast(inner, ast::DataType::BigInt(None)),
                    ("int2", _) => cast(inner, ast::DataType::SmallInt(None)),
                    ("int4", _) => cast(inner, ast::DataType::Integer(None)),
                    ("int8", _) => cast(inner, ast::DataType::BigInt(None)),
                    ("bool", _) => cast(inner, ast::DataType::Boolean),
                    _ => cast(inner, ast::DataType::Text),
                })
            }
            _ => None,
        })
    }

    fn function(&self, function: &mut ast::Function) -> Result<Option<Expr>> {
        let parts = parts(&function.name);
        let name = match parts.as_slice() {
            [name] => name.clone(),
            [schema, name] if schema == PG_CATALOG => {
                function.name = ObjectName::from(vec![Ident::new(name.clone())]);
                name.clone()
            }
            _ => return Ok(None),
        };
        if let Some(replaced) = rights::replaced(&name, function, self.authoriser) {
            return Ok(Some(replaced));
        }
        if let Some(constant) = constant(&name) {
            return Ok(Some(constant.expr()));
        }
        let argument = |at: usize| text_argument(function, at);
        Ok(match name.as_str() {
            "current_schemas" => {
                let elem = vec![text_expr("pg_catalog"), text_expr("public")];
                Some(Expr::Array(ast::Array { elem, named: true }))
            }
            "current_setting" => {
                let wanted = argument(0).unwrap_or_default().to_ascii_lowercase();
                match self.settings.now.show(&wanted) {
                    Ok(value) => Some(text_expr(&value)),
                    Err(_) if text_argument(function, 1).is_some() => Some(Constant::Null.expr()),
                    Err(error) => return Err(error),
                }
            }
            // What may be set so is what changes nothing: its value is all that there is of it.
            "set_config" => {
                let (name, value) = (argument(0).unwrap_or_default(), argument(1).unwrap_or_default());
                match crate::session::client_settings::canonical(&name) {
                    Some(known) => Some(text_expr(&crate::session::client_settings::check(known, &value)?)),
                    None => {
                        return Err(Error::new(
                            ErrorKind::NotSupported,
                            format!("set_config of {name} is not supported"),
                        )
                        .with_hint("write SET name = value"));
                    }
                }
            }
            "to_regclass" => Some(or_null(argument(0).and_then(|text| by_text(self.catalog, &text)))),
            "to_regtype" => Some(or_null(argument(0).and_then(|text| types::by_name(&text)))),
            "to_regnamespace" => Some(or_null(argument(0).and_then(|text| schema_oid(&text)))),
            _ => None,
        })
    }

    /// Replaces what reads a table that is always empty by what gives no rows, and needs no plan for the rest of it.
    fn empty_out(&self, body: &mut SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                let is_empty = select.from.iter().any(|from| {
                    let inner = |join: &ast::Join| {
                        let kind = &join.join_operator;
                        matches!(kind, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
                            && self.is_empty(&join.relation)
                    };
                    self.is_empty(&from.relation) || from.joins.iter().any(inner)
                });
                if !is_empty || has_aggregate(select) {
                    return false;
                }
                let mut seen: Vec<String> = Vec::new();
                for (at, item) in select.projection.iter_mut().enumerate() {
                    let name = match item {
                        SelectItem::ExprWithAlias { alias, .. } => name_of(alias),
                        SelectItem::UnnamedExpr(expr) => item_name(expr).unwrap_or_else(|| "?column?".to_owned()),
                        // All columns of what is not planned: whoever asks gets the table itself.
                        _ => return false,
                    };
                    let name = if seen.contains(&name) { format!("{name} {}", at + 1) } else { name };
                    seen.push(name.clone());
                    let expr = cast(Constant::Null.expr(), ast::DataType::Text);
                    *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
                }
                select.from.clear();
                select.selection = Some(Constant::Truth(false).expr());
                select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
                select.having = None;
                select.distinct = None;
                true
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.empty_out(left);
                self.empty_out(right);
                false
            }
            _ => false,
        }
    }

    fn is_empty(&self, factor: &TableFactor) -> bool {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                catalog_table(name, self.catalog).is_some_and(|(schema, table)| is_always_empty(schema, &table))
            }
            _ => false,
        }
    }
}

fn or_null(number: Option<i64>) -> Expr {
    number.map_or_else(|| Constant::Null.expr(), number_expr)
}

fn schema_oid(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| SCHEMAS.iter().find(|(_, name)| *name == text).map(|(oid, _)| *oid))
}

pub(super) fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast { kind: ast::CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    let list = ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A function's argument, if it is a text or a truth.
fn text_argument(function: &ast::Function, at: usize) -> Option<String> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.get(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => crate::dialect::statement::literal_text(expr),
        _ => None,
    }
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        _ => return None,
    })
}

/// The name that PostgreSQL gives to an item without one.
fn item_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(name_of(ident)),
        Expr::CompoundIdentifier(path) => path.last().map(name_of),
        Expr::Function(function) => parts(&function.name).pop(),
        Expr::Cast { expr, data_type, .. } => item_name(expr).or_else(|| custom_type(data_type)),
        Expr::Nested(inner) => item_name(inner),
        Expr::Collate { expr, .. } => item_name(expr),
        Expr::Case { .. } => Some("case".to_owned()),
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.as_slice() {
                [SelectItem::UnnamedExpr(expr)] => item_name(expr),
                [SelectItem::ExprWithAlias { alias, .. }] => Some(name_of(alias)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

const AGGREGATES: [&str; 10] =
    ["count", "sum", "min", "max", "avg", "array_agg", "string_agg", "bool_and", "bool_or", "first_value"];

fn has_aggregate(select: &Select) -> bool {
    /// Whether there is one, and in how many subqueries the visit is: theirs are their own.
    struct Aggregates(bool, usize);
    impl Visitor for Aggregates {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.1 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.1 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let (Expr::Function(function), 0) = (expr, self.1) {
                self.0 |= parts(&function.name).last().is_some_and(|name| AGGREGATES.contains(&name.as_str()));
            }
            ControlFlow::Continue(())
        }
    }
    let mut aggregates = Aggregates(false, 0);
    let _ = Visit::visit(&select.projection, &mut aggregates);
    aggregates.0
}

/// Makes a subquery of one column give one row by its form.
fn one_row(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if has_aggregate(select) || select.from.is_empty() || query.limit_clause.is_some() {
        return;
    }
    if let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_mut_slice() {
        let inner = std::mem::replace(expr, Constant::Null.expr());
        *expr = call("first_value", vec![inner]);
        query.order_by = None;
    }
}
