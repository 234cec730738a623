//! What goes with what is dropped: the views that need it.
//!
//! Invariant: nothing that a view needs goes without it. Without CASCADE it does not go at all (2BP01), and what else would have to go is told; with it
//! the views go before what they need, and are told, too.

use alluvia_catalog::{Catalog, Change, Dependent, Needed};
use alluvia_types::{Error, ErrorKind, Result};

/// The views that go with what is dropped, as changes in their order, and what the client is told.
#[derive(Default)]
pub(crate) struct Dependents {
    /// To be made before the drop itself.
    pub(crate) changes: Vec<Change>,
    /// One for each view.
    pub(crate) notices: Vec<String>,
}

/// What goes with `gone`, which is called `what` if it is one thing; refused without `cascade`, if there is anything.
pub(crate) fn dependents(catalog: &Catalog, gone: &[Needed], what: &str, cascade: bool) -> Result<Dependents> {
    let found = catalog.dependents(gone);
    if found.is_empty() {
        return Ok(Dependents::default());
    }
    if !cascade {
        return Err(needed(catalog, gone, what, &found));
    }
    let changes = found.iter().rev().map(|dependent| Change::DropView { id: dependent.view.def.id }).collect();
    let notices = found.iter().map(|dependent| format!("drop cascades to view {}", dependent.view.def.shown()));
    Ok(Dependents { changes, notices: notices.collect() })
}

fn needed(catalog: &Catalog, gone: &[Needed], what: &str, found: &[Dependent]) -> Error {
    let message = match gone {
        [_] => format!("cannot drop {what} because other objects depend on it"),
        _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
    };
    let line = |dependent: &Dependent| {
        format!("view {} depends on {}", dependent.view.def.shown(), shown(catalog, dependent.on))
    };
    Error::new(ErrorKind::DependentObjects, message)
        .with_detail(found.iter().map(line).collect::<Vec<_>>().join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// What something that is needed is called.
pub(crate) fn shown(catalog: &Catalog, needed: Needed) -> String {
    match needed {
        Needed::Relation(id) => match (catalog.by_id(id), catalog.view_by_id(id)) {
            (Some(entry), _) => format!("table {}", entry.def.shown()),
            (_, Some(view)) => format!("view {}", view.def.shown()),
            _ => format!("relation number {id}"),
        },
        Needed::Column(id, column) => {
            let of = shown(catalog, Needed::Relation(id));
            let entry = catalog.by_id(id);
            let name = entry.and_then(|entry| entry.def.columns.iter().find(|known| known.id == column));
            format!("column {} of {of}", name.map_or("?", |column| column.name.as_str()))
        }
    }
}
