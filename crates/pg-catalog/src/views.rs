//! Views in the catalog: their definitions, and what they depend on.
//!
//! Invariant: where there is no view, `pg_rewrite` and `pg_depend` are empty, and known to be: tools join them to everything.

use crate::constants::number_expr;
use crate::context::{CatalogContext, Viewer};
use crate::relations::{Attribute, Relation, by_text, id_of_number, number_of, schema_oid, shown_schema, table_oid};
use crate::tables::{Row, row};
use crate::types;
use alluvia_catalog::{Catalog, NameKind, PG_CATALOG, Shown, ViewColumn, ViewEntry};
use alluvia_syntax::statement::text_of;
use alluvia_syntax::statements::views::type_of_column;
use alluvia_syntax::trees::rewriting::call;
use alluvia_types::TableId;
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// The function that tells a view's query by its number.
pub(crate) const VIEW_TEXT: &str = "pg_catalog_viewdef";
/// The numbers of `pg_class` and `pg_rewrite`.
const CLASS_OID: i64 = 1259;
const REWRITE_OID: i64 = 2618;
/// Rules of views are numbered from here, by their views' ids.
const FIRST_RULE_OID: i64 = 1 << 30;

/// The tables that views are rows of.
const TABLES: [&str; 2] = ["pg_rewrite", "pg_depend"];

/// A view as `pg_class` has it.
pub(crate) fn relation(catalog: &Catalog, view: &ViewEntry) -> Relation {
    let attribute = |column: &ViewColumn| {
        let (type_oid, modifier) = types::of_column(type_of_column(&column.sql_type).into());
        Attribute { name: column.name.clone(), type_oid, modifier, not_null: false, default: None, identity: None }
    };
    Relation {
        oid: table_oid(view.def.id.0),
        name: view.def.name.clone(),
        schema: (schema_oid(catalog, &view.def.schema), shown_schema(&view.def.schema)),
        kind: "v",
        columns: view.def.columns.iter().map(attribute).collect(),
        rows: 0,
        owner: catalog.rights().owner(view.def.id).0.into(),
        has_key: false,
        checks: 0,
    }
}

fn by_oid(catalog: &Catalog, oid: i64) -> Option<&ViewEntry> {
    let id = id_of_number(oid - table_oid(0))?;
    catalog.view_by_id(TableId(id)).map(|view| view.as_ref())
}

/// The query of the view with this number, as PostgreSQL ends it.
pub(crate) fn text(catalog: &Catalog, oid: i64) -> Option<String> {
    let text = by_oid(catalog, oid)?.def.query(catalog, Shown::AsWritten).ok()?;
    Some(format!("{text};"))
}

/// `pg_get_viewdef` as what is registered for it.
pub(crate) fn definition(name: &str, function: &Function, viewer: &Viewer) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) if name == "pg_get_viewdef" => {
            // It takes a name, too.
            let named = text_of(expr).and_then(|name| by_text(viewer, &name));
            Some(call(VIEW_TEXT, vec![named.map_or_else(|| expr.clone(), number_expr)]))
        }
        _ => None,
    }
}

/// Whether a table has rows of views and nothing else, and there is no view.
pub(crate) fn hides(catalog: &Catalog, schema: &str, table: &str) -> bool {
    schema == PG_CATALOG && TABLES.contains(&table) && !catalog.has_views()
}

/// The rows of a table that views are rows of.
pub(crate) fn rows_of(schema: &str, table: &str) -> Option<fn(&CatalogContext) -> Vec<Row>> {
    match (schema, table) {
        (PG_CATALOG, "pg_rewrite") => Some(rules),
        (PG_CATALOG, "pg_depend") => Some(dependencies),
        _ => None,
    }
}

fn rule_oid(view: &ViewEntry) -> i64 {
    FIRST_RULE_OID + number_of(view.def.id.0)
}

fn rules(context: &CatalogContext) -> Vec<Row> {
    let rule = |view: &std::sync::Arc<ViewEntry>| {
        row! {
            oid: rule_oid(view), rulename: "_RETURN", ev_class: table_oid(view.def.id.0), ev_type: "1", ev_enabled: "O",
            is_instead: true,
        }
    };
    context.catalog.views().map(rule).collect()
}

/// Of each view that its rule is its own, and what the rule reads: relations, and the columns of them that it uses.
fn dependencies(context: &CatalogContext) -> Vec<Row> {
    let catalog = &context.catalog;
    let mut rows = Vec::new();
    for view in catalog.views() {
        let mut depend = |on: TableId, column: i64, kind: &'static str| {
            rows.push(row! {
                classid: REWRITE_OID, objid: rule_oid(view), objsubid: 0_i64, refclassid: CLASS_OID,
                refobjid: table_oid(on.0), refobjsubid: column, deptype: kind,
            });
        };
        depend(view.def.id, 0, "i");
        depend(view.def.id, 0, "n");
        for read in view.def.reads.iter().filter(|read| is_read(&read.places)) {
            let columns = catalog.relation_now(read.relation).map(|(_, columns)| columns).unwrap_or_default();
            let place = |id| columns.iter().position(|(known, _)| *known == id);
            let used: Vec<i64> = read.used.iter().filter_map(|id| place(*id)).map(|at| at as i64 + 1).collect();
            if used.is_empty() {
                depend(read.relation, 0, "n");
            }
            used.into_iter().for_each(|column| depend(read.relation, column, "n"));
        }
    }
    rows
}

fn is_read(places: &[alluvia_catalog::NamePlace]) -> bool {
    places.iter().any(|place| place.kind != NameKind::Qualifier)
}
