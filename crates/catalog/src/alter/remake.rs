//! A table that is made anew under its name, because what its files depend on changes: its key.
//!
//! Invariants:
//! - What is said of the table beside its definition stays: owner, grants, comments, what is taken of its sequences, and the foreign keys
//!   that refer to it. Views are bound to a table's id, so a table that they read is not made anew.
//! - What another batch has made of its definition meanwhile is not lost: then the changes are a `Conflict`.

use crate::rights::{BOOTSTRAP, Object, RightsChange};
use crate::{Catalog, Change, CommentOn, Needed, TableEntry};
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, Result, TableId};

/// The changes by which `new`, under an id that was never used, takes the place of a table. Its rows are the caller's.
pub fn remake(catalog: &Catalog, old: &TableEntry, new: &TableDef, what: &str) -> Result<Vec<Change>> {
    let (from, to) = (old.def.id, new.id);
    if let Some(dependent) = catalog.dependents(&[Needed::Relation(from)]).first() {
        let view = dependent.view.def.shown();
        let message = format!("{what} of table {}, which view {view} reads, is not supported", old.def.shown());
        return Err(Error::new(ErrorKind::NotSupported, message)
            .with_hint(format!("DROP VIEW {view}, and create it again behind it")));
    }
    let mut new = new.clone();
    refer_to(&mut new, from, to);
    let as_it_is = Change::AlterTable { def: TableDef::clone(&old.def), was: old.changed_at };
    let mut changes = vec![as_it_is, Change::DropTable { id: from }, Change::CreateTable { def: new.clone() }];
    let rights = catalog.rights();
    let owner = rights.owner(from);
    if owner != BOOTSTRAP {
        changes.push(Change::Rights { change: RightsChange::Own { table: to, owner } });
    }
    for (grantee, privileges) in rights.grants(Object::Table(from)) {
        let on = Object::Table(to);
        changes.push(Change::Rights { change: RightsChange::Grant { on, privileges, to: grantee } });
    }
    let is_there = |column| new.column_by_id(column).is_some();
    let comments = catalog.comments().filter_map(|(on, text)| match on {
        CommentOn::Table(table) if *table == from => Some((CommentOn::Table(to), text)),
        CommentOn::Column(table, column) if *table == from && is_there(*column) => {
            Some((CommentOn::Column(to, *column), text))
        }
        _ => None,
    });
    changes.extend(comments.map(|(on, text)| Change::Comment { on, text: Some(text.to_owned()) }));
    for identity in &new.rules.identities {
        if let Some(through) = catalog.taken(from, identity.column) {
            let column = identity.column;
            changes.push(Change::Sequence { table: to, column, through: Some(through), only_after: None });
        }
    }
    let mut children: Vec<TableId> = Vec::new();
    for (child, _) in catalog.references_to(from).filter(|(child, _)| child.def.id != from) {
        if !children.contains(&child.def.id) {
            children.push(child.def.id);
            let mut def = TableDef::clone(&child.def);
            refer_to(&mut def, from, to);
            changes.push(Change::AlterTable { def, was: child.changed_at });
        }
    }
    Ok(changes)
}

fn refer_to(def: &mut TableDef, from: TableId, to: TableId) {
    def.foreign_keys.iter_mut().filter(|key| key.parent == from).for_each(|key| key.parent = to);
}
