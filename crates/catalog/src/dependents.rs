//! What goes with what is dropped: the views that need it, and the foreign keys that refer to it.
//!
//! Invariant: nothing that a view or a foreign key needs goes without it. Without CASCADE it does not go at all (2BP01), and what else would
//! have to go is told; with it they go before what they need, and are told, too.

use crate::{Catalog, Change, Needed, TableEntry};
use alluvia_space::{ForeignKey, TableDef};
use alluvia_types::{Error, ErrorKind, Result, TableId};

/// What goes with what is dropped, as changes in their order, and what the client is told.
#[derive(Debug, Default)]
pub struct Dependents {
    /// To be made before the drop itself.
    pub changes: Vec<Change>,
    /// One for each.
    pub notices: Vec<String>,
}

/// A foreign key that cannot be without what goes.
struct Referring<'a> {
    entry: &'a TableEntry,
    key: &'a ForeignKey,
}

/// What goes with `gone`, which is called `what` if it is one thing; refused without `cascade`, if there is anything.
pub fn dependents(catalog: &Catalog, gone: &[Needed], what: &str, cascade: bool) -> Result<Dependents> {
    let found = catalog.dependents(gone);
    let referring = referring_to(catalog, gone);
    if found.is_empty() && referring.is_empty() {
        return Ok(Dependents::default());
    }
    if !cascade {
        let of_views = found.iter().map(|dependent| {
            format!("view {} depends on {}", dependent.view.def.shown(), shown(catalog, dependent.on))
        });
        let of_keys = referring.iter().map(|referring| {
            format!("{} depends on {}", referring.shown(), shown(catalog, Needed::Relation(referring.key.parent)))
        });
        return Err(needed(gone.len() == 1, what, of_views.chain(of_keys)));
    }
    let mut all = without(&referring);
    all.changes.extend(found.iter().rev().map(|dependent| Change::DropView { id: dependent.view.def.id }));
    let notices = found.iter().map(|dependent| format!("drop cascades to view {}", dependent.view.def.shown()));
    all.notices.extend(notices);
    Ok(all)
}

/// What refers to tables that go, of those that stay.
fn referring_to<'a>(catalog: &'a Catalog, gone: &[Needed]) -> Vec<Referring<'a>> {
    let goes = |id: TableId| gone.contains(&Needed::Relation(id));
    let of_tables = gone.iter().filter_map(|needed| match needed {
        Needed::Relation(id) => Some(*id),
        Needed::Column(..) => None,
    });
    let referring = of_tables.flat_map(|id| catalog.references_to(id)).filter(|(entry, _)| !goes(entry.def.id));
    referring.map(|(entry, key)| Referring { entry, key }).collect()
}

/// Foreign keys that go with the tables that they refer to.
#[derive(Debug)]
pub struct ReferencesGone {
    /// What each is called, and what it needs.
    pub shown: Vec<(String, String)>,
    /// To be made before the drop itself.
    pub changes: Vec<Change>,
}

/// The foreign keys of other tables that refer to those that go.
pub fn references_gone(catalog: &Catalog, gone: &[Needed]) -> ReferencesGone {
    let referring = referring_to(catalog, gone);
    let parent = |referring: &Referring<'_>| shown(catalog, Needed::Relation(referring.key.parent));
    let shown = referring.iter().map(|referring| (referring.shown(), parent(referring))).collect();
    ReferencesGone { shown, changes: without(&referring).changes }
}

/// What other tables refer to a table by, and its new definition has no key for any more; what goes with that is called `what`.
pub fn references_lost(catalog: &Catalog, new: &TableDef, what: &str, cascade: bool) -> Result<Dependents> {
    let is_lost = |key: &ForeignKey| new.key_of_columns(&key.parent_columns).is_none();
    let lost = catalog.references_to(new.id).filter(|(entry, key)| entry.def.id != new.id && is_lost(key));
    let lost: Vec<Referring<'_>> = lost.map(|(entry, key)| Referring { entry, key }).collect();
    match lost.is_empty() || cascade {
        true => Ok(without(&lost)),
        false => Err(needed(true, what, lost.iter().map(|lost| format!("{} depends on {what}", lost.shown())))),
    }
}

impl Referring<'_> {
    fn shown(&self) -> String {
        format!("constraint {} on table {}", self.key.name, self.entry.def.shown())
    }
}

/// The tables without these foreign keys.
fn without(gone: &[Referring<'_>]) -> Dependents {
    let mut all = Dependents::default();
    for referring in gone {
        all.notices.push(format!("drop cascades to {}", referring.shown()));
        let known = all.changes.iter_mut().find_map(|change| match change {
            Change::AlterTable { def, .. } if def.id == referring.entry.def.id => Some(def),
            _ => None,
        });
        match known {
            Some(def) => def.foreign_keys.retain(|key| key.name != referring.key.name),
            None => {
                let mut def = TableDef::clone(&referring.entry.def);
                def.foreign_keys.retain(|key| key.name != referring.key.name);
                all.changes.push(Change::AlterTable { def, was: referring.entry.changed_at });
            }
        }
    }
    all
}

fn needed(is_one: bool, what: &str, lines: impl Iterator<Item = String>) -> Error {
    let message = match is_one {
        true => format!("cannot drop {what} because other objects depend on it"),
        false => "cannot drop desired object(s) because other objects depend on them".to_owned(),
    };
    Error::new(ErrorKind::DependentObjects, message)
        .with_detail(lines.collect::<Vec<_>>().join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// What something that is needed is called.
pub fn shown(catalog: &Catalog, needed: Needed) -> String {
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
