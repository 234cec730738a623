//! What stands in FROM and in a list of columns as PostgreSQL allows it, and planning does not.

use crate::constants::{Constant, is_function, number_expr};
use crate::rewrite::{cast, parts};
use alluvia_catalog::PG_CATALOG;
use alluvia_syntax::names::name_of;
use alluvia_syntax::query_of_table;
use alluvia_syntax::trees::rewriting::{call, call_with};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
};

/// Functions that give one value, and that tools read as tables of one row.
const OF_ONE_ROW: [&str; 3] = ["string_to_array", "parse_ident", "current_schemas"];

/// Functions that give the rows of a table of the catalog.
const OF_ROWS: [(&str, &str); 4] = [
    ("pg_available_extension_versions", "pg_available_extension_versions"),
    ("pg_available_extensions", "pg_available_extensions"),
    ("pg_get_keywords", "pg_get_keywords"),
    ("pg_show_all_settings", "pg_settings"),
];

/// What tells the partitions of a table, of which none has any here.
const PARTITION_TREE: &str = "pg_partition_tree";

fn alias_of(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// The name of a function in FROM.
pub(crate) fn called(factor: &TableFactor) -> Option<String> {
    let (TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }) = factor else {
        return None;
    };
    match parts(name).as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == PG_CATALOG => Some(name.clone()),
        _ => None,
    }
}

/// Brings a function in FROM to what is planned: without a schema, its column called as its alias says.
pub(crate) fn function(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: args @ Some(_), .. } = factor else { return };
    let function = match parts(name).as_slice() {
        [schema, function] if schema == PG_CATALOG => function.clone(),
        [function] => function.clone(),
        _ => return,
    };
    if let Some((_, table)) = OF_ROWS.iter().find(|(known, _)| *known == function) {
        *name = ObjectName::from(vec![Ident::new(PG_CATALOG), Ident::new(*table)]);
        *args = None;
        // Columns are qualified by the function's name, unless its rows have another.
        if alias.is_none() {
            *alias = Some(alias_of(Ident::new(function)));
        }
        return;
    }
    *name = ObjectName::from(vec![Ident::new(function.clone())]);
    match function.as_str() {
        "generate_series" => {
            if let Some(alias) = alias
                && alias.columns.is_empty()
            {
                alias.columns.push(TableAliasColumnDef::from_name(alias.name.value.clone()));
            }
        }
        PARTITION_TREE => {
            if let Some(derived) = partition_tree(factor) {
                *factor = derived;
            }
        }
        name if OF_ONE_ROW.contains(&name) || is_function(name) => {
            if let Some(derived) = of_one_row(factor) {
                *factor = derived;
            }
        }
        _ => {}
    }
}

/// `SELECT generate_series(a, b)` is a row for each number: planning makes a list of it.
pub(crate) fn rows_of_series(expr: &mut Expr) {
    if let Expr::Function(function) = &*expr
        && parts(&function.name).last().is_some_and(|name| name == "generate_series")
    {
        *expr = call("unnest", vec![expr.clone()]);
    }
}

/// `f(x) AS s` as `(SELECT f(x) AS s) AS s`.
fn of_one_row(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return None };
    let column = match alias {
        Some(alias) => alias.columns.first().map_or(&alias.name, |column| &column.name).clone(),
        None => Ident::new(parts(name).pop()?),
    };
    let call = call_with(name.clone(), args.args.clone());
    let items = vec![SelectItem::ExprWithAlias { expr: call, alias: column.clone() }];
    row_of(items, alias.clone().unwrap_or_else(|| alias_of(column)), false)
}

/// A table is its own only part: `pg_partition_tree(c.oid) AS p` as `(SELECT c.oid AS relid, ...) AS p`.
fn partition_tree(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Table { alias, args: Some(args), .. } = factor else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] = args.args.as_slice() else { return None };
    let null = cast(Constant::Null.expr(), ast::DataType::BigInt(None));
    let columns = [
        ("relid", of.clone()),
        ("parentrelid", null),
        ("isleaf", Constant::Truth(true).expr()),
        ("level", number_expr(0)),
    ];
    let item = |(name, expr): (&str, Expr)| SelectItem::ExprWithAlias { expr, alias: Ident::new(name) };
    let items = columns.into_iter().map(item).collect();
    row_of(items, alias.clone().unwrap_or_else(|| alias_of(Ident::new(PARTITION_TREE))), false)
}

fn row_of(items: Vec<SelectItem>, alias: TableAlias, lateral: bool) -> Option<TableFactor> {
    let mut subquery = query_of_table(&ObjectName::from(vec![alias.name.clone()]), &[]).ok()?;
    let SetExpr::Select(select) = subquery.body.as_mut() else { return None };
    select.from.clear();
    select.projection = items;
    Some(TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None })
}

/// `SELECT n.oid, n.*` names a column twice, which planning refuses: the one that is written gets a number.
pub(crate) fn tell_apart(select: &mut Select) {
    let mut all = false;
    let mut of: Vec<String> = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(_) => all = true,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                of.extend(parts(name).pop());
            }
            _ => {}
        }
    }
    if !all && of.is_empty() {
        return;
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let name = match &*expr {
            Expr::Identifier(ident) if all => name_of(ident),
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [.., qualifier, column] if all || of.contains(&name_of(qualifier)) => name_of(column),
                _ => continue,
            },
            _ => continue,
        };
        let alias = Ident::with_quote('"', format!("{name} {}", at + 1));
        let expr = expr.clone();
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}
