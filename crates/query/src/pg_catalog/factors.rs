//! What stands in FROM and in a list of columns as PostgreSQL allows it, and planning does not.

use super::rewrite::parts;
use super::tables::PG_CATALOG;
use alluvia_syntax::names::name_of;
use alluvia_syntax::query_of_table;
use alluvia_syntax::trees::rewriting::call_with;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor,
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

fn called(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// Brings a function in FROM to what is planned: without a schema, its column called as its alias says.
pub(super) fn function(factor: &mut TableFactor) {
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
            *alias = Some(called(Ident::new(function)));
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
        name if OF_ONE_ROW.contains(&name) => {
            if let Some(derived) = of_one_row(factor) {
                *factor = derived;
            }
        }
        _ => {}
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
    let mut subquery = query_of_table(name, &[]).ok()?;
    let SetExpr::Select(select) = subquery.body.as_mut() else { return None };
    select.from.clear();
    select.projection = vec![SelectItem::ExprWithAlias { expr: call, alias: column.clone() }];
    let alias = alias.clone().unwrap_or_else(|| called(column));
    Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None })
}

/// `SELECT n.oid, n.*` names a column twice, which planning refuses: the one that is written gets a number.
pub(super) fn tell_apart(select: &mut Select) {
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
