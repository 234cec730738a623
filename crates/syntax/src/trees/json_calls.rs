//! Functions of JSON in forms that planning does not take: rows of a table by its name (`row_to_json(t)`), functions of rows
//! (`json_array_elements(x)`, `FROM json_each(x)`), aggregates of two arguments.
//!
//! Invariants:
//! - The name of a table or subquery of FROM as an argument is its row: `row_to_json(t)` is `row_to_json(json_row(t.*))`, of which planning
//!   makes names and values by turns. (A column of that name in one of the tables would be preferred by PostgreSQL.)
//! - Functions of rows are `unnest` of functions that give lists (`alluvia_values::calls::JSON_ROWS`). In FROM their columns are called as
//!   PostgreSQL calls them: `key` and `value`, or as the alias says; the alias alone is the only column.
//! - `json_object_agg(k, v)` is that of one row of two fields.
//!
//! For the binder: whole rows, and functions of rows, need the names that a SELECT has around it.

use crate::names::name_of;
use crate::trees::rewriting::{RowsCall, call, call_of, name_items, rows_call};
use crate::trees::visit::visit_mut;
use alluvia_types::Result;
use alluvia_values::calls::{JSON_ROW, JSON_ROWS};
use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query,
    Select, TableAlias, TableAliasColumnDef, TableFactor, Value, VisitorMut,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Functions that may be given a row.
const OF_ROWS: [&str; 5] = ["row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg"];
/// Aggregates of a key and a value.
const OF_PAIRS: [&str; 2] = ["json_object_agg", "jsonb_object_agg"];
/// What is read as JSONB first.
const OF_JSONB: [(&str, &str); 2] =
    [("jsonb_extract_path", "json_extract_path"), ("jsonb_extract_path_text", "json_extract_path_text")];

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_one = |word: &str| word.to_ascii_lowercase().contains("json");
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_one(&word.value)))
}

/// Brings all of a query's to calls that are planned, but for those in FROM.
pub(crate) fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Calls { around: Vec::new() });
    Ok(())
}

/// Brings those in FROM to `UNNEST`.
pub(crate) fn unnest(query: &mut Query) {
    let _ = visit_mut(query, &mut InFrom);
}

/// Knows the tables of each SELECT that is around.
struct Calls {
    around: Vec<Vec<String>>,
}

impl VisitorMut for Calls {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_items(select, is_one);
        self.around.push(
            select
                .from
                .iter()
                .flat_map(|table| {
                    std::iter::once(&table.relation)
                        .chain(table.joins.iter().map(|join| &join.relation))
                        .filter_map(row_name)
                })
                .collect(),
        );
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(changed) = self.changed(function)
        {
            *expr = changed;
        }
        ControlFlow::Continue(())
    }
}

/// The name by which a table or a subquery is a row.
fn row_name(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { args: None, alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(name_of(&alias.name))
        }
        TableFactor::Table { args: None, name, .. } => name.0.last()?.as_ident().map(name_of),
        _ => None,
    }
}

fn is_one(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let Some(name) = called(function) else { return false };
    OF_ROWS.contains(&name.as_str())
        || OF_PAIRS.contains(&name.as_str())
        || lists_of(&name).is_some()
        || OF_JSONB.iter().any(|(of_jsonb, _)| *of_jsonb == name)
}

fn called(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [part] => part.as_ident().map(name_of),
        [schema, part] if name_of(schema.as_ident()?) == "pg_catalog" => part.as_ident().map(name_of),
        _ => None,
    }
}

fn lists_of(name: &str) -> Option<&'static [&'static str]> {
    JSON_ROWS.iter().find(|(of_rows, _)| *of_rows == name).map(|(_, lists)| *lists)
}

fn text(value: &str) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(Value::SingleQuotedString(value.to_owned()).into())))
}

fn row(args: Vec<FunctionArg>) -> FunctionArg {
    let name = ObjectName::from(vec![Ident::new(JSON_ROW)]);
    FunctionArg::Unnamed(FunctionArgExpr::Expr(crate::trees::rewriting::call_with(name, args)))
}

impl Calls {
    /// The name of a table of FROM that an argument is.
    fn row_said(&self, arg: &FunctionArg) -> Option<Ident> {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(ident))) = arg else { return None };
        let name = name_of(ident);
        self.around.iter().flatten().any(|table| *table == name).then(|| ident.clone())
    }

    fn changed(&self, function: &Function) -> Option<Expr> {
        let name = called(function)?;
        if let Some([list]) = lists_of(&name) {
            let (_, arguments) = call_of(function)?;
            return Some(call("unnest", vec![call(list, arguments.into_iter().cloned().collect())]));
        }
        let mut function = function.clone();
        let FunctionArguments::List(list) = &mut function.args else { return None };
        if OF_PAIRS.contains(&name.as_str()) {
            let [key, value] = list.args.as_slice() else { return None };
            list.args = vec![row(vec![text("k"), key.clone(), text("v"), value.clone()])];
            return Some(Expr::Function(function));
        }
        if let Some((_, known)) = OF_JSONB.iter().find(|(of_jsonb, _)| *of_jsonb == name) {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(first)) = list.args.first_mut()? else { return None };
            let expr = Box::new(std::mem::replace(first, Expr::Value(Value::Null.into())));
            *first = Expr::Cast { kind: CastKind::Cast, expr, data_type: DataType::JSONB, array: false, format: None };
            function.name = ObjectName::from(vec![Ident::new(*known)]);
            return Some(Expr::Function(function));
        }
        if !OF_ROWS.contains(&name.as_str()) {
            return None;
        }
        let said = self.row_said(list.args.first()?)?;
        let all = FunctionArgExpr::QualifiedWildcard(ObjectName::from(vec![said]));
        list.args[0] = row(vec![FunctionArg::Unnamed(all)]);
        Some(Expr::Function(function))
    }
}

struct InFrom;

impl VisitorMut for InFrom {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut only = Vec::new();
        for table in &mut select.from {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut table.relation).chain(joined) {
                if let Some((unnested, said)) = unnested(factor) {
                    *factor = unnested;
                    only.extend(said);
                }
            }
        }
        if !only.is_empty() {
            let _ = visit_mut(select, &mut Said { only });
        }
        ControlFlow::Continue(())
    }
}

/// A call in FROM as lists, and the alias that is said for its only column, which has another name.
fn unnested(factor: &TableFactor) -> Option<(TableFactor, Option<Ident>)> {
    let RowsCall { name, arguments, alias, with_ordinality, .. } = rows_call(factor)?;
    let lists = lists_of(&name)?;
    let own = || TableAlias { explicit: true, name: Ident::new(name.as_str()), columns: Vec::new(), at: None };
    let is_written = alias.is_some();
    let mut alias = alias.clone().unwrap_or_else(own);
    let mut said = None;
    if alias.columns.is_empty() {
        let column = |name: Ident| TableAliasColumnDef { name, data_type: None };
        alias.columns = if lists.len() == 2 {
            vec![column(Ident::new("key")), column(Ident::new("value"))]
        } else if name.ends_with("object_keys") {
            vec![column(alias.name.clone())]
        } else {
            said = is_written.then(|| alias.name.clone()).filter(|alias| name_of(alias) != "value");
            vec![column(Ident::new("value"))]
        };
        if with_ordinality {
            alias.columns.push(column(Ident::new("ordinality")));
        }
    }
    let array_exprs = lists.iter().map(|list| call(list, arguments.clone())).collect();
    let unnested = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
    Some((unnested, said))
}

/// Says the column where only the alias is said.
struct Said {
    only: Vec<Ident>,
}

impl VisitorMut for Said {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && self.only.iter().any(|alias| name_of(alias) == name_of(ident))
        {
            *expr = Expr::CompoundIdentifier(vec![ident.clone(), Ident::new("value")]);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string(),
        }
    }

    #[test]
    fn calls_are_brought_to_functions_that_are_there() {
        for (sql, expected) in [
            (
                "SELECT json_agg(t) AS a FROM s.t WHERE t.x = 1",
                "SELECT json_agg(json_row(t.*)) AS a FROM s.t WHERE t.x = 1",
            ),
            ("SELECT to_json(x) AS a FROM t", "SELECT to_json(x) AS a FROM t"),
            (
                "SELECT json_object_agg(k, v ORDER BY k) AS a FROM t",
                "SELECT json_object_agg(json_row('k', k, 'v', v) ORDER BY k) AS a FROM t",
            ),
            ("SELECT json_array_elements(x) AS a FROM t", "SELECT unnest(json_array_elements_list(x)) AS a FROM t"),
            (
                "SELECT e ->> 'a' AS a FROM jsonb_array_elements('[]') AS e",
                "SELECT e.value ->> 'a' AS a FROM UNNEST(jsonb_array_elements_list('[]')) AS e (value)",
            ),
            (
                "SELECT k AS a FROM json_object_keys('{}') AS k",
                "SELECT k AS a FROM UNNEST(json_object_keys_list('{}')) AS k (k)",
            ),
        ] {
            assert_eq!(written(sql), expected, "{sql}");
        }
    }
}
