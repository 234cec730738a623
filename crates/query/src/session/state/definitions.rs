//! Definitions that an open transaction has changed.
//!
//! Invariants:
//! - The transaction sees its changes over the newest visible definitions, and nobody else sees them; its COMMIT
//!   applies them in their order.
//! - A definition that waits has a version that no batch will ever have, and no other definition has: what is kept
//!   between statements by a definition's version is never taken for another's, nor outlives ROLLBACK.
//! - COMMIT asks once more whether who made a change may make it: a table may have got another owner meanwhile. What follows from such a
//!   change in tables of others is made with it.
//! - If another session has changed what a change was made from, whatever looks at definitions next is refused with
//!   `Conflict`, and so is COMMIT.

use alluvia_catalog::authoriser::{Authoriser, Need};
use alluvia_catalog::rights::{Object, Privilege, RightsChange};
use alluvia_catalog::{Catalog, Change, CommentOn};
use alluvia_rows::in_log;
use alluvia_space::{ForeignKey, TableDef};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use std::sync::Arc;

/// Statements of one transaction that may change definitions: all of them are kept, and applied anew where another
/// session changes any.
const STATEMENTS_MAX: usize = 1 << 12;

/// A statement that changes definitions, and who it is that does.
#[derive(Clone, Debug)]
pub(crate) struct Definer {
    pub(crate) text: Arc<str>,
    /// Of SET ROLE, when the statement ran; empty for none.
    pub(crate) acting: Arc<str>,
}

/// What another session has made impossible. That a name is taken is, too: it was free when the transaction took it.
pub(crate) fn conflict(error: Error) -> Error {
    match error.kind() {
        ErrorKind::DuplicateTable | ErrorKind::DuplicateSchema | ErrorKind::DuplicateFunction => {
            let message = format!("{} by now: another session has made it since the transaction did", error.message());
            Error::new(ErrorKind::Conflict, message).with_hint("roll back and try again")
        }
        _ => error,
    }
}

/// The changes of one transaction, in their order.
#[derive(Debug, Default)]
pub(crate) struct PendingDefinitions {
    statements: Vec<Changed>,
    /// What the transaction sees, and the version of the definitions beneath.
    seen: Option<(Version, Arc<Catalog>)>,
}

/// What one statement has changed.
#[derive(Debug)]
struct Changed {
    version: Version,
    changes: Vec<Change>,
    definer: Definer,
}

impl PendingDefinitions {
    /// How many statements have changed anything.
    pub(crate) fn len(&self) -> usize {
        self.statements.len()
    }

    /// The definitions that the transaction sees; `newest` are the newest visible ones.
    pub(crate) fn over(&mut self, newest: &Arc<Catalog>) -> Result<Arc<Catalog>> {
        if self.statements.is_empty() {
            return Ok(Arc::clone(newest));
        }
        if let Some((beneath, seen)) = &self.seen
            && *beneath == newest.version
        {
            return Ok(Arc::clone(seen));
        }
        let mut seen = Arc::clone(newest);
        for statement in &self.statements {
            seen = Arc::new(seen.apply(statement.version, &statement.changes).map_err(conflict)?);
        }
        self.seen = Some((newest.version, Arc::clone(&seen)));
        Ok(seen)
    }

    /// Adds what the statement of `definer` changes. Gives the definitions with it.
    pub(crate) fn push(
        &mut self,
        newest: &Arc<Catalog>,
        version: Version,
        changes: Vec<Change>,
        definer: Definer,
    ) -> Result<Arc<Catalog>> {
        if self.statements.len() >= STATEMENTS_MAX {
            let message = format!("the transaction has changed definitions {STATEMENTS_MAX} times");
            return Err(Error::new(ErrorKind::Busy, message).with_hint("COMMIT more often"));
        }
        let seen = Arc::new(self.over(newest)?.apply(version, &changes)?);
        self.statements.push(Changed { version, changes, definer });
        self.seen = Some((newest.version, Arc::clone(&seen)));
        Ok(seen)
    }

    /// Forgets what came after so many statements.
    pub(crate) fn truncate(&mut self, statements: usize) {
        if statements < self.statements.len() {
            self.statements.truncate(statements);
            self.seen = None;
        }
    }

    /// Whether the transaction has dropped a table.
    pub(crate) fn has_dropped(&self, table: TableId) -> bool {
        let drop = Change::DropTable { id: table };
        self.statements.iter().any(|statement| statement.changes.contains(&drop))
    }

    /// Whether the transaction has begun a sequence anew.
    pub(crate) fn has_restarted(&self, (of, numbered): (TableId, ColumnId)) -> bool {
        let is_it = |change: &Change| matches!(change, Change::Sequence { table, column, through: None, .. } if (*table, *column) == (of, numbered));
        self.statements.iter().any(|statement| statement.changes.iter().any(is_it))
    }

    /// Refuses what the role of one of its statements may not do any more to the tables that are there, by the newest
    /// visible definitions, which are those of `authoriser`. What the transaction itself has made is its own.
    pub(crate) fn check_rights(&self, authoriser: &Authoriser) -> Result<()> {
        for statement in &self.statements {
            let authoriser = authoriser.acting_as(&statement.definer.acting);
            // One that takes a table's place under its name.
            let is_remade = statement.changes.iter().any(|change| matches!(change, Change::DropTable { .. }));
            for change in &statement.changes {
                match change {
                    Change::CreateTable { .. } if is_remade => {}
                    Change::CreateTable { def } => check_schema(&authoriser, &def.schema)?,
                    Change::CreateView { def } => check_schema(&authoriser, &def.schema)?,
                    // A view goes with what it needs, too, whose owner may drop that.
                    Change::DropView { id } => {
                        if let Some(view) = authoriser.catalog().view_by_id(*id) {
                            authoriser.drop_of_view(view)?;
                        }
                    }
                    Change::AlterView { def, .. } => match authoriser.catalog().view_by_id(def.id) {
                        Some(view) => {
                            authoriser.view(Need::Ownership, view)?;
                            if view.def.schema != def.schema {
                                check_schema(&authoriser, &def.schema)?;
                            }
                        }
                        // The transaction has made it, perhaps in another schema.
                        None => check_schema(&authoriser, &def.schema)?,
                    },
                    Change::PutRoutine { def, .. } => match authoriser.catalog().routine_by_id(def.id) {
                        Some(routine) => authoriser.use_of_routine(Need::Ownership, routine)?,
                        None => check_schema(&authoriser, &def.schema)?,
                    },
                    Change::DropRoutine { id } => {
                        if let Some(routine) = authoriser.catalog().routine_by_id(*id) {
                            authoriser.use_of_routine(Need::Dropping, routine)?;
                        }
                    }
                    Change::AlterTable { def, .. } => match authoriser.catalog().by_id(def.id) {
                        // What refers to it makes it anew as it is.
                        Some(entry) if *entry.def == *def || self.is_of_references(&entry.def, def) => {}
                        Some(entry) => {
                            authoriser.table(Need::Ownership, entry)?;
                            if entry.def.schema != def.schema {
                                check_schema(&authoriser, &def.schema)?;
                            }
                        }
                        None => check_schema(&authoriser, &def.schema)?,
                    },
                    Change::DropTable { id } => {
                        if let Some(entry) = authoriser.catalog().by_id(*id) {
                            authoriser.table(Need::Dropping, entry)?;
                        }
                    }
                    Change::CreateSchema { .. } => authoriser.database(Privilege::Create)?,
                    Change::DropSchema { id } => check_own_schema(&authoriser, *id)?,
                    Change::RenameSchema { id, .. } => {
                        authoriser.database(Privilege::Create)?;
                        check_own_schema(&authoriser, *id)?;
                    }
                    Change::Comment { on: CommentOn::Table(id) | CommentOn::Column(id, _), .. } => {
                        check_own_relation(&authoriser, *id)?;
                    }
                    Change::Comment { on: CommentOn::Schema(id), .. } => check_own_schema(&authoriser, *id)?,
                    Change::Rights { change: RightsChange::Grant { on, .. } | RightsChange::Revoke { on, .. } } => {
                        match on {
                            Object::Table(id) => {
                                check_own_relation(&authoriser, *id)?;
                                check_own_schema(&authoriser, *id)?;
                            }
                            Object::Database => {
                                authoriser.superuser("change who may do what with the database")?;
                            }
                        }
                    }
                    Change::Rights { .. } | Change::Sequence { .. } | Change::Comment { .. } => {}
                }
            }
        }
        Ok(())
    }

    /// Whether a definition differs from that of a table only in foreign keys which cannot be as they were, by what the transaction makes of
    /// the tables that they refer to.
    fn is_of_references(&self, was: &TableDef, now: &TableDef) -> bool {
        let is_same = *was == TableDef { foreign_keys: was.foreign_keys.clone(), ..now.clone() };
        let gone: Vec<&ForeignKey> = was.foreign_keys.iter().filter(|key| !now.foreign_keys.contains(key)).collect();
        let mut come = now.foreign_keys.iter().filter(|key| !was.foreign_keys.contains(key));
        let takes_place = |new: &ForeignKey, old: &ForeignKey| {
            let ForeignKey { parent, parent_columns, .. } = new.clone();
            *new == ForeignKey { parent, parent_columns, ..old.clone() }
                && (new.parent == old.parent || self.all().any(|change| change.new_id() == Some(new.parent)))
        };
        is_same
            && gone.iter().all(|key| self.loses(key))
            && come.all(|new| gone.iter().any(|old| takes_place(new, old)))
    }

    /// Whether a foreign key has nothing that it refers to any more.
    fn loses(&self, key: &ForeignKey) -> bool {
        self.all().any(|change| match change {
            Change::DropTable { id } => *id == key.parent,
            Change::AlterTable { def, .. } => def.id == key.parent && def.key_of_columns(&key.parent_columns).is_none(),
            _ => false,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Change> {
        self.statements.iter().flat_map(|statement| &statement.changes)
    }

    /// What COMMIT submits, and the statements that it is of.
    pub(crate) fn into_parts(self) -> (Vec<Change>, Vec<Definer>) {
        let (mut changes, mut definers) = (Vec::new(), Vec::new());
        for statement in self.statements {
            definers.push(statement.definer);
            changes.extend(statement.changes.into_iter().map(|change| match change {
                Change::AlterTable { def, was } => Change::AlterTable { def, was: in_log(was) },
                Change::AlterView { def, was } => Change::AlterView { def, was: in_log(was) },
                Change::PutRoutine { def, was } => Change::PutRoutine { def, was: was.map(in_log) },
                other => other,
            }));
        }
        (changes, definers)
    }
}

/// Refuses who may make nothing in a schema, unless the transaction has made the schema itself.
fn check_schema(authoriser: &Authoriser, schema: &str) -> Result<()> {
    match authoriser.catalog().schema(schema) {
        Ok(entry) => authoriser.schema(Privilege::Create, schema, entry.id),
        Err(_) => Ok(()),
    }
}

fn check_own_relation(authoriser: &Authoriser, id: TableId) -> Result<()> {
    match (authoriser.catalog().by_id(id), authoriser.catalog().view_by_id(id)) {
        (Some(entry), _) => authoriser.table(Need::Ownership, entry),
        (_, Some(view)) => authoriser.view(Need::Ownership, view),
        (None, None) => Ok(()),
    }
}

fn check_own_schema(authoriser: &Authoriser, id: TableId) -> Result<()> {
    match authoriser.catalog().schema_name(id) {
        Some(name) => authoriser.owns_schema(name, id),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_catalog::alter;
    use alluvia_rows::{is_waiting, waiting};
    use alluvia_space::DataType;
    use alluvia_syntax::statements::definitions::{WithOptions, define};

    fn def(id: u32, name: &str) -> TableDef {
        let columns = [("a".to_owned(), DataType::Int32.into(), true)];
        define(TableId(id), ("public", name), &columns, &WithOptions::default(), 7).unwrap()
    }

    fn create(id: u32, name: &str) -> Change {
        Change::CreateTable { def: def(id, name) }
    }

    fn names(catalog: &Catalog) -> Vec<&str> {
        catalog.tables().map(|entry| entry.def.name.as_str()).collect()
    }

    #[test]
    fn changes_are_seen_over_whatever_is_newest_until_they_conflict() {
        let definer = || Definer { text: "a statement".into(), acting: "".into() };
        let newest = Arc::new(Catalog::default().apply(Version(1), &[create(1, "t")]).unwrap());
        let mut own = PendingDefinitions::default();
        own.push(&newest, waiting(1), vec![create(2, "u")], definer()).unwrap();
        let renamed = alter::rename_table(&def(2, "u"), "v").unwrap();
        own.push(&newest, waiting(2), vec![Change::AlterTable { def: renamed, was: waiting(1) }], definer()).unwrap();
        assert_eq!((names(&own.over(&newest).unwrap()), names(&newest)), (vec!["t", "v"], vec!["t"]));
        let newer = Arc::new(newest.apply(Version(2), &[create(3, "w")]).unwrap());
        let seen = own.over(&newer).unwrap();
        assert_eq!((names(&seen), seen.table("v").unwrap().changed_at), (vec!["t", "v", "w"], waiting(2)));
        let taken = Arc::new(newest.apply(Version(3), &[create(4, "v")]).unwrap());
        assert_eq!(own.over(&taken).unwrap_err().kind(), ErrorKind::Conflict);
        own.truncate(1);
        assert_eq!(names(&own.over(&taken).unwrap()), ["t", "u", "v"]);
    }

    #[test]
    fn what_commit_submits_is_what_was_seen() {
        let definer = || Definer { text: "a statement".into(), acting: "".into() };
        let newest = Arc::new(Catalog::default().apply(Version(1), &[create(1, "t"), create(2, "u")]).unwrap());
        let mut own = PendingDefinitions::default();
        // Two names change places, and a table comes and goes.
        for (number, (id, from, to, was)) in
            [(1, "t", "x", Version(1)), (2, "u", "t", Version(1)), (1, "x", "u", waiting(0))].into_iter().enumerate()
        {
            let def = alter::rename_table(&def(id, from), to).unwrap();
            own.push(&newest, waiting(number as u64), vec![Change::AlterTable { def, was }], definer()).unwrap();
        }
        own.push(&newest, waiting(8), vec![create(3, "w")], definer()).unwrap();
        own.push(&newest, waiting(9), vec![Change::DropTable { id: TableId(3) }], definer()).unwrap();
        assert!(own.has_dropped(TableId(3)) && !own.has_dropped(TableId(1)));
        let seen = own.over(&newest).unwrap();
        let (changes, definers) = own.into_parts();
        assert_eq!((changes.len(), definers.len()), (5, 5));
        let committed = newest.apply(Version(2), &changes).unwrap();
        let ids = |catalog: &Catalog| catalog.tables().map(|entry| entry.def.id.0).collect::<Vec<_>>();
        assert_eq!((names(&committed), ids(&committed)), (vec!["t", "u"], vec![2, 1]));
        assert_eq!((names(&seen), ids(&seen)), (vec!["t", "u"], vec![2, 1]));
        assert!(changes.iter().all(|change| !matches!(change, Change::AlterTable { was, .. } if is_waiting(*was))));
    }
}
