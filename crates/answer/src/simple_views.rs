//! Views of one table, whose columns are columns of it: what the short ways answer without planning what a view is.
//!
//! Invariant: what was understood through views holds as long as each of them is defined as it was
//! ([`NamedView::holds`]); whoever keeps anything asks.

use super::statement::NamedView;
use super::view::SimpleView;
use alluvia_catalog::{Catalog, RelationName, SearchPath, Shown, ViewEntry};
use alluvia_syntax::statements::views::query_of;
use alluvia_types::Result;
use std::sync::Arc;

/// Views, each with what it is of the relation below.
pub type SimpleViews = Vec<(Arc<ViewEntry>, SimpleView)>;

/// The views between a name and the table below, from above; none if the name is a table's. `None` where one of them is more than a view of one
/// relation's columns.
pub fn simple_views(catalog: &Catalog, path: &SearchPath, name: &RelationName) -> Result<Option<SimpleViews>> {
    let mut views = Vec::new();
    let mut name = name.clone();
    while let Some(view) = catalog.view(&name, path) {
        let columns_of = |name: &RelationName| {
            let (_, columns) = catalog.relation_now(catalog.id_of(name, path)?)?;
            Some(columns.into_iter().map(|(_, name)| name).collect())
        };
        let query = query_of(&view.def.query(catalog, Shown::InSchemas)?)?;
        let names: Vec<String> = view.def.columns.iter().map(|column| column.name.clone()).collect();
        let Some(simple) = SimpleView::of(&query, &names, &columns_of) else { return Ok(None) };
        name = simple.relation.clone();
        views.push((Arc::clone(view), simple));
    }
    Ok(Some(views))
}

/// The view of a name whose rows a key of these columns finds as it finds the table's: it has them under their names, and does not look at them.
pub fn view_by_key(
    catalog: &Catalog,
    path: &SearchPath,
    name: &RelationName,
    key: &[&str],
) -> Result<Option<NamedView>> {
    let Some(views) = simple_views(catalog, path, name)? else { return Ok(None) };
    if views.is_empty() || !views.iter().all(|(_, view)| key.iter().all(|column| view.leaves(column))) {
        return Ok(None);
    }
    let defined = views.iter().map(|(view, _)| (view.def.id, view.changed_at)).collect();
    Ok(Some(NamedView { name: name.clone(), defined }))
}
