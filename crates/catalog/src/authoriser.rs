//! Who may do what: the one authoriser, whatever the server.
//!
//! Invariants:
//! - What is not allowed is refused. A session is for somebody ([`Who`]); whoever nobody knows may nothing at all.
//! - Nothing is asked for without saying what it is for: a table or a view with a [`Need`], all else with a privilege, a role or "for
//!   superusers".
//! - Rights are those of the definitions that the authoriser was made of. Sessions make one of the newest whenever they ask, also in a
//!   transaction that reads an older version: what is revoked is gone at once.
//! - An error names the privilege that is missing and the GRANT that gives it.
//!
//! Definitions (names of tables, columns, roles) are everybody's, as in PostgreSQL; rows, and other people's statements, are not.

use crate::rights::{BOOTSTRAP, Object, Privilege, Rights, RoleId};
use crate::{
    Catalog, DATABASE_NAME, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC_SCHEMA_ID, RelationName, RoutineEntry,
    SYSTEM_SCHEMA, SearchPath, TEMPORARY_SCHEMA, TEMPORARY_SCHEMA_ID, TableEntry, ViewEntry,
};
use alluvia_space::PUBLIC_SCHEMA;
use alluvia_space::keywords::quoted;
use alluvia_types::{Error, ErrorKind, Result, TableId, near_names};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// Who a session is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// The process itself, or somebody whom its server trusts, under any name.
    Trusted(Arc<str>),
    /// A role.
    Role(RoleId, Arc<str>),
    /// Nobody that is known.
    Nobody(Arc<str>),
}

impl Who {
    /// The process itself.
    pub fn embedded() -> Who {
        Who::Trusted(DATABASE_NAME.into())
    }

    /// As it called itself.
    pub fn name(&self) -> &str {
        match self {
            Who::Trusted(name) | Who::Role(_, name) | Who::Nobody(name) => name,
        }
    }
}

/// What a table is resolved for, other than to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Its definition, which is everybody's.
    Definition,
    /// To do this with its rows.
    Privilege(Privilege),
    /// To change what it is: for its owner.
    Ownership,
    /// To drop it: for its owner, and for that of its schema.
    Dropping,
}

/// What a session may, now.
#[derive(Clone, Debug)]
pub struct Authoriser {
    who: Who,
    /// Of SET ROLE; empty for none.
    acting: Arc<str>,
    catalog: Arc<Catalog>,
    /// Where names without a schema are looked up: schemas that are there, and may be used.
    path: Arc<SearchPath>,
}

/// Adding rows.
pub const INSERT: Need = Need::Privilege(Privilege::Insert);
/// Deleting rows.
pub const DELETE: Need = Need::Privilege(Privilege::Delete);

fn denied(message: String) -> Error {
    Error::new(ErrorKind::Forbidden, message)
}

impl Authoriser {
    /// Of `who`, acting as a role (empty: as itself), by the rights of these definitions.
    pub fn new(who: Who, acting: Arc<str>, catalog: Arc<Catalog>) -> Authoriser {
        static PATH: LazyLock<Arc<SearchPath>> = LazyLock::new(Arc::default);
        Authoriser { who, acting, catalog, path: Arc::clone(&PATH) }
    }

    /// The same with a search path, as it is set.
    pub fn along(self, stated: &Arc<SearchPath>) -> Authoriser {
        let path = match stated.is_default() {
            true => Arc::clone(stated),
            false => Arc::new(stated.of_role(self.current_user(), |schema| self.may_look_into(schema))),
        };
        let has_temporary = self.catalog.relations_in(TEMPORARY_SCHEMA).next().is_some();
        let path = if has_temporary { Arc::new(path.with_temporary()) } else { path };
        Authoriser { path, ..self }
    }

    /// Whether a schema on the path is one, and may be used.
    fn may_look_into(&self, schema: &str) -> bool {
        match self.catalog.schema(schema) {
            Ok(entry) => self.schema(Privilege::Usage, schema, entry.id).is_ok(),
            Err(_) => matches!(schema, SYSTEM_SCHEMA | PG_CATALOG | INFORMATION_SCHEMA),
        }
    }

    /// Where names without a schema are looked up.
    pub fn path(&self) -> &Arc<SearchPath> {
        &self.path
    }

    /// The user table that a name means.
    pub fn relation(&self, name: &RelationName) -> Result<&Arc<TableEntry>> {
        self.catalog.relation(name, &self.path)
    }

    /// The same acting as another role.
    pub fn acting_as(&self, role: &str) -> Authoriser {
        Authoriser { acting: if role == "none" { "".into() } else { role.into() }, ..self.clone() }
    }

    fn rights(&self) -> &Rights {
        self.catalog.rights()
    }

    /// The role whose rights hold.
    pub fn role(&self) -> Result<RoleId> {
        let own = match &self.who {
            Who::Trusted(_) => BOOTSTRAP,
            Who::Role(id, name) => match self.rights().role(*id) {
                Some(_) => *id,
                None => return Err(denied(format!("role '{name}' was dropped")).with_hint("log in as another")),
            },
            Who::Nobody(name) => {
                return Err(denied(format!("role '{name}' does not exist, or may not connect"))
                    .with_hint("a superuser makes it with CREATE ROLE ... LOGIN PASSWORD '...'"));
            }
        };
        if self.acting.is_empty() {
            return Ok(own);
        }
        let other = role_named(self.rights(), &self.acting)?;
        if self.rights().is_in(own, other) {
            return Ok(other);
        }
        let (name, other) = (quoted(self.who.name()), quoted(&self.acting));
        Err(denied(format!("permission denied to set role {other}: role {name} is not in it"))
            .with_hint(format!("a superuser can GRANT {other} TO {name}")))
    }

    /// `current_user`.
    pub fn current_user(&self) -> &str {
        if self.acting.is_empty() { self.session_user() } else { &self.acting }
    }

    /// `session_user`.
    pub fn session_user(&self) -> &str {
        match &self.who {
            // A role may have got another name.
            Who::Role(id, name) => self.rights().role(*id).map_or(name.as_ref(), |role| role.name.as_str()),
            who => who.name(),
        }
    }

    /// Whether it may everything.
    pub fn is_superuser(&self) -> bool {
        self.role().is_ok_and(|id| self.rights().is_superuser(id))
    }

    /// Whether what a session for `who` does may be seen. Roles are told by their ids: a name may have become another's.
    pub fn sees(&self, who: &Who) -> bool {
        let is_own = match (&self.who, who) {
            (Who::Role(own, _), Who::Role(other, _)) => own == other,
            (own, other) => own == other,
        };
        is_own || self.is_superuser()
    }

    /// Whether it may read a table.
    pub fn may_read(&self, entry: &TableEntry) -> bool {
        self.table(Need::Privilege(Privilege::Select), entry).is_ok()
    }

    /// Whether it may know of the rows of a table that was one of the definitions `then`. Of one that was dropped only superusers may.
    pub fn may_know_of(&self, table: TableId, then: &Catalog) -> bool {
        match then.by_id(table) {
            Some(entry) => self.may_read(entry),
            None => self.is_superuser(),
        }
    }

    /// Whether it may read a view.
    pub fn may_read_view(&self, id: TableId) -> bool {
        self.catalog.view_by_id(id).is_some_and(|view| self.view(Need::Privilege(Privilege::Select), view).is_ok())
    }

    /// Refuses a table for what it may not be used.
    pub fn table(&self, need: Need, entry: &TableEntry) -> Result<()> {
        // A snapshot's definition may be older than the schema's name.
        let now = self.catalog.by_id(entry.def.id).map_or(entry, Arc::as_ref);
        self.use_of_schema(need, &now.def.schema)?;
        self.relation_for(need, &Named::of_table(entry))
    }

    /// Refuses a view for what it may not be used.
    pub fn view(&self, need: Need, view: &ViewEntry) -> Result<()> {
        let now = self.catalog.view_by_id(view.def.id).map_or(view, Arc::as_ref);
        self.use_of_schema(need, &now.def.schema)?;
        self.relation_for(need, &Named::of_view(view))
    }

    /// Refuses a procedure for what it may not be used. Everybody may run it who may look into its schema.
    pub fn use_of_routine(&self, need: Need, routine: &RoutineEntry) -> Result<()> {
        let now = self.catalog.routine_by_id(routine.def.id).map_or(routine, Arc::as_ref);
        self.use_of_schema(need, &now.def.schema)?;
        match need {
            Need::Privilege(_) => self.role().map(|_| ()),
            need => self.relation_for(need, &Named::of_routine(now)),
        }
    }

    /// Refuses what a view reads, whatever views are between, where its owner may not read it: whoever reads a view needs the right to that view
    /// alone. What the views are, the definitions `then` say, by which it is read.
    pub fn below_view(&self, view: &ViewEntry, then: &Catalog) -> Result<()> {
        self.below_views(view, then, &mut BTreeSet::new())
    }

    /// Refuses to drop a view to who owns neither it nor anything that it needs: with that it goes.
    pub fn drop_of_view(&self, view: &ViewEntry) -> Result<()> {
        let owned = self.view(Need::Dropping, view);
        let goes_with = |id: TableId| match (self.catalog.by_id(id), self.catalog.view_by_id(id)) {
            (Some(entry), _) => self.table(Need::Dropping, entry).is_ok(),
            (_, Some(below)) => self.drop_of_view(below).is_ok(),
            // It was made, or has gone, in the transaction itself.
            _ => true,
        };
        if owned.is_err() && view.def.reads.iter().any(|read| goes_with(read.relation)) { Ok(()) } else { owned }
    }

    fn below_views(&self, view: &ViewEntry, then: &Catalog, seen: &mut BTreeSet<TableId>) -> Result<()> {
        if !seen.insert(view.def.id) {
            return Ok(());
        }
        let owner = self.owner_of(view.def.id);
        const READ: Need = Need::Privilege(Privilege::Select);
        for read in &view.def.reads {
            // One that was dropped since is its superusers' alone. Of one that is not there then nothing is read.
            if let Some(entry) = then.by_id(read.relation) {
                owner.relation_for(READ, &Named::of_table(entry))?;
            } else if let Some(below) = then.view_by_id(read.relation) {
                owner.relation_for(READ, &Named::of_view(below))?;
                self.below_views(below, then, seen)?;
            }
        }
        Ok(())
    }

    /// What the owner of a relation may.
    fn owner_of(&self, id: TableId) -> Authoriser {
        let owner = self.rights().owner(id);
        let who = Who::Role(owner, self.rights().name(owner).into());
        Authoriser { who, acting: "".into(), catalog: Arc::clone(&self.catalog), path: Arc::clone(&self.path) }
    }

    fn use_of_schema(&self, need: Need, schema: &str) -> Result<()> {
        if need == Need::Definition || schema == PUBLIC_SCHEMA {
            return Ok(());
        }
        match self.catalog.schema(schema) {
            Ok(entry) => self.schema(Privilege::Usage, schema, entry.id),
            // It was renamed since the definition was looked up; its number is known by the newest alone.
            Err(_) => Ok(()),
        }
    }

    fn relation_for(&self, need: Need, named: &Named<'_>) -> Result<()> {
        let id = self.role()?;
        let Named { kind, id: table, name, schema, shown } = named;
        let (rights, table, role) = (self.rights(), *table, quoted(self.current_user()));
        match need {
            Need::Definition => Ok(()),
            Need::Privilege(privilege) if rights.may(id, privilege, Object::Table(table)) => Ok(()),
            Need::Privilege(privilege) => {
                let privilege = privilege.sql_name();
                Err(denied(format!("permission denied for {kind} '{name}': role {role} lacks {privilege}"))
                    .with_hint(format!("its owner or a superuser can GRANT {privilege} ON {shown} TO {role}")))
            }
            Need::Ownership | Need::Dropping if rights.owns(id, table) => Ok(()),
            Need::Dropping if self.owns_schema_of(schema) => Ok(()),
            Need::Ownership | Need::Dropping => {
                let owner = quoted(rights.name(rights.owner(table)));
                let kind_of = kind.to_uppercase();
                Err(denied(format!("permission denied for {kind} '{name}': role {role} is not its owner")).with_hint(
                    format!("its owner is {owner}: a superuser can GRANT {owner} TO {role}, or ALTER {kind_of} {shown} OWNER TO {role}"),
                ))
            }
        }
    }

    /// Refuses what needs a privilege on a schema. Everybody may use `public`, and make tables there who may in the database.
    pub fn schema(&self, privilege: Privilege, name: &str, id: TableId) -> Result<()> {
        // The session's own.
        if id == TEMPORARY_SCHEMA_ID {
            return Ok(());
        }
        if id == PUBLIC_SCHEMA_ID {
            return match privilege {
                Privilege::Usage => Ok(()),
                privilege => self.database(privilege),
            };
        }
        if self.rights().may(self.role()?, privilege, Object::Table(id)) {
            return Ok(());
        }
        let (privilege, role) = (privilege.sql_name(), quoted(self.current_user()));
        Err(denied(format!("permission denied for schema {name}"))
            .with_hint(format!("its owner or a superuser can GRANT {privilege} ON SCHEMA {} TO {role}", quoted(name))))
    }

    /// Whether a schema is its own.
    fn owns_schema_of(&self, name: &str) -> bool {
        self.catalog.schema(name).is_ok_and(|schema| self.owns_schema(name, schema.id).is_ok())
    }

    /// Refuses what only the owner of a schema may.
    pub fn owns_schema(&self, name: &str, id: TableId) -> Result<()> {
        let rights = self.rights();
        if rights.owns(self.role()?, id) {
            return Ok(());
        }
        let (owner, role) = (quoted(rights.name(rights.owner(id))), quoted(self.current_user()));
        Err(denied(format!("must be owner of schema {name}"))
            .with_hint(format!("its owner is {owner}: a superuser can GRANT {owner} TO {role}")))
    }

    /// Refuses what needs a privilege on the database.
    pub fn database(&self, privilege: Privilege) -> Result<()> {
        if self.rights().may(self.role()?, privilege, Object::Database) {
            return Ok(());
        }
        let (name, role) = (privilege.sql_name(), quoted(self.current_user()));
        Err(denied(format!("permission denied for the database: role {role} lacks {name}"))
            .with_hint(format!("a superuser can GRANT {name} ON DATABASE alluvia TO {role}")))
    }

    /// Refuses what only a superuser may.
    pub fn superuser(&self, what: &str) -> Result<()> {
        if self.rights().is_superuser(self.role()?) {
            return Ok(());
        }
        let role = quoted(self.current_user());
        Err(denied(format!("permission denied to {what}: role {role} is no superuser"))
            .with_hint(format!("a superuser can do it, or ALTER ROLE {role} SUPERUSER")))
    }

    /// Refuses what only those may who are in a role.
    pub fn membership(&self, in_role: RoleId, what: &str) -> Result<()> {
        if self.rights().is_in(self.role()?, in_role) {
            return Ok(());
        }
        let (role, wanted) = (quoted(self.current_user()), self.rights().name(in_role));
        Err(denied(format!("permission denied to {what}: role {role} is not in {wanted}"))
            .with_hint(format!("a superuser can GRANT {wanted} TO {role}")))
    }

    /// The definitions by which it decides.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
}

/// A table or a view, as an error tells of it.
struct Named<'a> {
    kind: &'static str,
    id: TableId,
    name: &'a str,
    schema: &'a str,
    /// As a statement names it.
    shown: String,
}

impl Named<'_> {
    fn of_table(entry: &TableEntry) -> Named<'_> {
        Named {
            kind: "table",
            id: entry.def.id,
            name: &entry.def.name,
            schema: &entry.def.schema,
            shown: entry.def.shown(),
        }
    }

    fn of_routine(routine: &RoutineEntry) -> Named<'_> {
        let def = &routine.def;
        Named { kind: "procedure", id: def.id, name: &def.name, schema: &def.schema, shown: def.shown() }
    }

    fn of_view(view: &ViewEntry) -> Named<'_> {
        Named { kind: "view", id: view.def.id, name: &view.def.name, schema: &view.def.schema, shown: view.def.shown() }
    }
}

/// The role of a name, with near names if there is none.
pub fn role_named(rights: &Rights, name: &str) -> Result<RoleId> {
    rights.named(name).map(|role| role.id).ok_or_else(|| {
        let error = Error::new(ErrorKind::UndefinedObject, format!("there is no role '{name}'"));
        match near_names(name, rights.roles().map(|role| role.name.as_str())).as_slice() {
            [] => error.with_hint("pg_roles lists the roles"),
            near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
        }
    })
}
