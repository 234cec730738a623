//! The definitions of all tables, and all rights, at one version.
//!
//! Invariants:
//! - A [`Catalog`] never changes; [`Catalog::apply`] makes the next one. Readers hold an `Arc` of theirs for as long as
//!   they like.
//! - Table ids are unique for ever, and schemas' ids are of the same numbers. Names are unique within their schema at a
//!   version; names of schemas are unique.
//! - Schema `public` is there from the beginning, and for ever.
//! - What files depend on (dimensions, seed, curve, key, the storage name and type of a column) is the same in every
//!   definition of a table, whatever is altered.
//!
//! `apply` is a pure function of its arguments, so that recovery repeats from the log exactly what was committed. It
//! refuses what *other batches* may have made impossible since the statement was checked (a name taken, a table dropped
//! or altered): that is the optimistic check of DDL. Whether a definition makes sense by itself is for
//! [`TableDef::validate`], before it is submitted: a stricter rule in a later release must not make an old log
//! unreadable.

mod comments;
mod constraints;
mod schemas;
mod stored;

pub use comments::CommentOn;
pub use schemas::SchemaEntry;

use crate::name::{RelationName, SearchPath, TEMPORARY_SCHEMA, TEMPORARY_SCHEMA_SHOWN};
use crate::rights::{Rights, RightsChange, RoleId};
use crate::routine::{RoutineDef, RoutineEntry};
use crate::view::{ViewDef, ViewEntry};
use crate::views::Needed;
use alluvia_space::keywords::quoted;
use alluvia_space::{Column, Identity, ORDINAL_COLUMN, PUBLIC_SCHEMA, TableDef, VERSION_COLUMN};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version, near_names};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use stored::Stored;

/// What is taken of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenBefore {
    /// Nothing.
    Nothing,
    /// Values through this one.
    Through(i64),
}

/// One change of the definitions, as the log keeps it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A new table. IF NOT EXISTS has been decided by whoever made the change.
    CreateTable {
        /// The definition, with an id that was never used.
        def: TableDef,
    },
    /// A table goes, with its rows.
    DropTable {
        /// Which.
        id: TableId,
    },
    /// A new view.
    CreateView {
        /// The definition, with an id that was never used.
        def: ViewDef,
    },
    /// A view goes.
    DropView {
        /// Which.
        id: TableId,
    },
    /// A view gets another definition: another query, other names.
    AlterView {
        /// The new definition, under the view's id.
        def: ViewDef,
        /// [`ViewEntry::changed_at`](crate::ViewEntry) of the definition it was made from, as that of a table.
        was: Version,
    },
    /// A procedure comes, or gets another definition.
    PutRoutine {
        /// The definition, under the procedure's id, or one that was never used.
        def: RoutineDef,
        /// [`RoutineEntry::changed_at`](crate::RoutineEntry) of the definition that it takes the place of; `None` of a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<Version>,
    },
    /// A procedure goes.
    DropRoutine {
        /// Which.
        id: TableId,
    },
    /// A table gets another definition.
    AlterTable {
        /// The new definition, under the table's id.
        def: TableDef,
        /// [`TableEntry::changed_at`] of the definition it was made from. Ignored where an earlier change of the same
        /// batch made that.
        was: Version,
    },
    /// Roles, owners or grants change.
    Rights {
        /// How.
        change: RightsChange,
    },
    /// A new schema. IF NOT EXISTS has been decided by whoever made the change.
    CreateSchema {
        /// A number that no table or schema ever had.
        id: TableId,
        /// Its name.
        name: String,
    },
    /// A schema goes, which must be empty.
    DropSchema {
        /// Which.
        id: TableId,
    },
    /// A schema gets another name.
    RenameSchema {
        /// Which.
        id: TableId,
        /// Its new name.
        name: String,
    },
    /// Values of a sequence are taken. It is no change of its table's definition, and means nothing once the table is
    /// gone.
    Sequence {
        /// The table.
        table: TableId,
        /// The numbered column.
        column: ColumnId,
        /// The last value that is taken; `None` where the sequence begins anew.
        through: Option<i64>,
        /// Refused unless this is what was taken before: of several processes that take values each has its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only_after: Option<TakenBefore>,
    },
    /// A comment comes, changes or goes. It is no change of a definition.
    Comment {
        /// What it is on.
        on: CommentOn,
        /// The comment; `None` where it goes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
}

impl Change {
    /// The number that it takes for something new.
    pub fn new_id(&self) -> Option<TableId> {
        match self {
            Change::CreateTable { def } => Some(def.id),
            Change::CreateView { def } => Some(def.id),
            Change::CreateSchema { id, .. } => Some(*id),
            Change::PutRoutine { def, was: None } => Some(def.id),
            _ => None,
        }
    }
}

/// The number of schema `public`, which no table has.
pub const PUBLIC_SCHEMA_ID: TableId = TableId(0);

/// The number of a session's schema `pg_temp`, which nothing else has.
pub const TEMPORARY_SCHEMA_ID: TableId = TableId((1 << 30) - 1);

/// How many numbers behind that one there are for what is in such schemas.
pub const TEMPORARY_IDS: u32 = 90_000;

/// A table at some version.
#[derive(Clone, PartialEq, Debug)]
pub struct TableEntry {
    /// What the table is.
    pub def: Arc<TableDef>,
    /// The version that made it so.
    pub changed_at: Version,
    /// The schema of its rows on their way into the engine, and in it: made once, for a row's own would cost more than
    /// the row.
    storage_schema: SchemaRef,
    versioned_schema: SchemaRef,
}

impl TableEntry {
    /// A definition that `changed_at` made.
    pub fn new(def: Arc<TableDef>, changed_at: Version) -> TableEntry {
        let storage_schema = def.storage_schema();
        let mut fields = storage_schema.fields().to_vec();
        fields.push(Arc::new(Field::new(VERSION_COLUMN, DataType::UInt64, true)));
        fields.push(Arc::new(Field::new(ORDINAL_COLUMN, DataType::UInt64, false)));
        TableEntry { def, changed_at, storage_schema, versioned_schema: Arc::new(Schema::new(fields)) }
    }

    /// [`TableDef::storage_schema`].
    pub fn storage_schema(&self) -> &SchemaRef {
        &self.storage_schema
    }

    /// The same, and the hidden columns `_version` and `_ordinal`.
    pub fn versioned_schema(&self) -> &SchemaRef {
        &self.versioned_schema
    }
}

/// The definitions of all tables at one version.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Catalog {
    /// The version of the last change; `Version(0)` when there was none.
    pub version: Version,
    by_id: BTreeMap<TableId, Arc<TableEntry>>,
    pub(crate) views: Arc<BTreeMap<TableId, Arc<ViewEntry>>>,
    pub(crate) routines: Arc<BTreeMap<TableId, Arc<RoutineEntry>>>,
    schemas: BTreeMap<String, SchemaEntry>,
    rights: Arc<Rights>,
    /// The last values that are taken of sequences.
    sequences: Arc<BTreeMap<(TableId, ColumnId), i64>>,
    comments: Arc<BTreeMap<CommentOn, String>>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog {
            version: Version::default(),
            by_id: BTreeMap::new(),
            views: Arc::default(),
            routines: Arc::default(),
            schemas: BTreeMap::from([(PUBLIC_SCHEMA.to_owned(), SchemaEntry::new(PUBLIC_SCHEMA_ID))]),
            rights: Arc::default(),
            sequences: Arc::default(),
            comments: Arc::default(),
        }
    }
}

impl Catalog {
    /// The table that a name means, where names without a schema are looked up along `path`.
    pub fn relation(&self, name: &RelationName, path: &SearchPath) -> Result<&Arc<TableEntry>> {
        self.found(name, path).ok_or_else(|| self.undefined(name, path))
    }

    /// The same; `None` if there is none.
    pub fn found(&self, name: &RelationName, path: &SearchPath) -> Option<&Arc<TableEntry>> {
        self.by_id.get(&self.id_of(name, path)?)
    }

    /// The id of the table or the view that a name means.
    pub fn id_of(&self, name: &RelationName, path: &SearchPath) -> Option<TableId> {
        match &name.schema {
            Some(schema) => self.id_in_schema(schema, &name.name),
            None => path.schemas().find_map(|schema| self.id_in_schema(schema, &name.name)),
        }
    }

    /// The id of the table or the view of that name in a schema.
    pub fn id_in_schema(&self, schema: &str, name: &str) -> Option<TableId> {
        let schema = if schema == TEMPORARY_SCHEMA_SHOWN { TEMPORARY_SCHEMA } else { schema };
        self.schemas.get(schema)?.relations.get(name).copied()
    }

    /// The ids of the tables and views of a schema, in name order; none if there is no such schema.
    pub fn relations_in(&self, schema: &str) -> impl Iterator<Item = TableId> {
        self.schemas.get(schema).into_iter().flat_map(|schema| schema.relations.values().copied())
    }

    /// The ids of all tables and views, in the order of their schemas' names and their own.
    pub(crate) fn relation_ids(&self) -> impl Iterator<Item = TableId> {
        self.schemas.values().flat_map(|schema| schema.relations.values().copied())
    }

    /// The table of that name in a schema.
    pub fn in_schema(&self, schema: &str, name: &str) -> Option<&Arc<TableEntry>> {
        self.by_id.get(&self.id_in_schema(schema, name)?)
    }

    /// The table of that name in schema `public`.
    pub fn table(&self, name: &str) -> Result<&Arc<TableEntry>> {
        self.relation(&RelationName::bare(name), &SearchPath::default())
    }

    /// The tables of a schema, in name order; none if there is no such schema.
    pub fn tables_in(&self, schema: &str) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.schemas
            .get(schema)
            .into_iter()
            .flat_map(|schema| schema.relations.values())
            .filter_map(|id| self.by_id.get(id))
    }

    /// The table of that id, unless it was dropped.
    pub fn by_id(&self, id: TableId) -> Option<&Arc<TableEntry>> {
        self.by_id.get(&id)
    }

    /// All tables, in the order of their schemas' names and their own.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.relation_ids().filter_map(|id| self.by_id.get(&id))
    }

    /// Roles, owners and grants.
    pub fn rights(&self) -> &Arc<Rights> {
        &self.rights
    }

    /// The last value that is taken of the sequence of a column; `None` if none is.
    pub fn taken(&self, table: TableId, column: ColumnId) -> Option<i64> {
        self.sequences.get(&(table, column)).copied()
    }

    /// The numbered column whose sequence is called so, with its table; a sequence is in its table's schema.
    pub fn sequence(&self, name: &RelationName, path: &SearchPath) -> Option<(&Arc<TableEntry>, &Identity)> {
        let within = |schema: &str| {
            self.tables_in(schema).find_map(|entry| {
                let identity = entry.def.rules.identities.iter().find(|identity| identity.name == name.name)?;
                Some((entry, identity))
            })
        };
        match &name.schema {
            Some(schema) => within(schema),
            None => path.schemas().find_map(within),
        }
    }

    /// The definitions after the batch `version`, which makes these changes in this order.
    ///
    /// Fails, with nothing applied, when a name is taken (`DuplicateTable`) or when a table is not what the change was
    /// made from (`Conflict`: the statement may be run again).
    pub fn apply(&self, version: Version, changes: &[Change]) -> Result<Catalog> {
        assert!(version > self.version, "version {version} after a catalog of version {}", self.version);
        let mut next = self.clone();
        next.version = version;
        for change in changes {
            match change {
                Change::CreateTable { def } => next.create(version, def)?,
                Change::DropTable { id } => next.drop_table(*id)?,
                Change::AlterTable { def, was } => next.alter(version, def, *was)?,
                Change::Rights { change } => {
                    let Catalog { rights, by_id, views, routines, schemas, .. } = &mut next;
                    let is_schema = |id: TableId| schemas.values().any(|known| known.id == id);
                    let is_relation = |id: TableId| by_id.contains_key(&id) || views.contains_key(&id);
                    let is_there = |id: TableId| is_relation(id) || routines.contains_key(&id) || is_schema(id);
                    Arc::make_mut(rights).apply(change, is_there)?;
                }
                Change::CreateView { def } => next.create_view(version, def)?,
                Change::DropView { id } => next.drop_view(*id)?,
                Change::AlterView { def, was } => next.alter_view(version, def, *was)?,
                Change::PutRoutine { def, was } => next.put_routine(version, def, *was)?,
                Change::DropRoutine { id } => next.drop_routine(*id)?,
                Change::CreateSchema { id, name } => next.create_schema(*id, name)?,
                Change::DropSchema { id } => next.drop_schema(*id)?,
                Change::RenameSchema { id, name } => next.rename_schema(version, *id, name)?,
                Change::Sequence { table, column, through, only_after } => {
                    let taken = next.taken(*table, *column).map_or(TakenBefore::Nothing, TakenBefore::Through);
                    if only_after.is_some_and(|expected| expected != taken) {
                        return Err(Error::new(ErrorKind::Conflict, "values of a sequence were taken elsewhere since")
                            .with_hint("run the statement again"));
                    }
                    next.take(*table, *column, *through);
                }
                Change::Comment { on, text } => next.comment_on(on, text.as_deref())?,
            }
        }
        next.check_references(changes)?;
        assert_eq!(
            next.by_id.len() + next.views.len(),
            next.relation_ids().count(),
            "every table and view has one name"
        );
        Ok(next)
    }

    /// These definitions with what one session has in its schema `pg_temp`, and whose that is. It is for that session alone: no
    /// batch makes such a catalog, and no manifest keeps it.
    pub fn with_temporary<'a>(
        &self,
        version: Version,
        tables: impl Iterator<Item = (&'a Arc<TableEntry>, RoleId)>,
        views: impl Iterator<Item = (&'a Arc<ViewEntry>, RoleId)>,
        comments: impl Iterator<Item = (&'a CommentOn, &'a String)>,
    ) -> Catalog {
        let mut next = Catalog { version, ..self.clone() };
        let mut schema = SchemaEntry::new(TEMPORARY_SCHEMA_ID);
        let mut owners = Vec::new();
        for (entry, owner) in tables {
            schema.relations.insert(entry.def.name.clone(), entry.def.id);
            next.by_id.insert(entry.def.id, Arc::clone(entry));
            owners.push((entry.def.id, owner));
        }
        for (entry, owner) in views {
            schema.relations.insert(entry.def.name.clone(), entry.def.id);
            Arc::make_mut(&mut next.views).insert(entry.def.id, Arc::clone(entry));
            owners.push((entry.def.id, owner));
        }
        for (table, owner) in owners {
            // A role that was dropped since owns nothing: what was its own is the first superuser's.
            drop(Arc::make_mut(&mut next.rights).apply(&RightsChange::Own { table, owner }, |_| true));
        }
        for (on, text) in comments {
            Arc::make_mut(&mut next.comments).insert(on.clone(), text.clone());
        }
        next.schemas.insert(TEMPORARY_SCHEMA.to_owned(), schema);
        next
    }

    fn create(&mut self, version: Version, def: &TableDef) -> Result<()> {
        self.check_free(&def.schema, &def.name)?;
        self.check_new(def.id, &def.name)?;
        self.put(version, def);
        Ok(())
    }

    pub(crate) fn check_new(&self, id: TableId, name: &str) -> Result<()> {
        let is_relation = self.by_id.contains_key(&id) || self.views.contains_key(&id);
        if is_relation || self.routines.contains_key(&id) || self.schema_name(id).is_some() {
            return Err(Error::internal(format!("'{name}' is created under id {id}, which is in use")));
        }
        Ok(())
    }

    fn take(&mut self, table: TableId, column: ColumnId, through: Option<i64>) {
        let is_there = self.by_id.get(&table).is_some_and(|entry| entry.def.identity_of(column).is_some());
        let sequences = Arc::make_mut(&mut self.sequences);
        match through.filter(|_| is_there) {
            Some(through) => sequences.insert((table, column), through),
            None => sequences.remove(&(table, column)),
        };
    }

    /// Forgets what is taken of sequences that a table has no more.
    fn forget_sequences(&mut self, table: TableId, def: Option<&TableDef>) {
        let is_gone =
            |key: &(TableId, ColumnId)| key.0 == table && def.is_none_or(|def| def.identity_of(key.1).is_none());
        if self.sequences.keys().any(is_gone) {
            Arc::make_mut(&mut self.sequences).retain(|key, _| !is_gone(key));
        }
    }

    fn drop_table(&mut self, id: TableId) -> Result<()> {
        if let Some(entry) = self.by_id.get(&id) {
            self.check_unread(&[Needed::Relation(id)], &entry.def.name)?;
        }
        match self.by_id.remove(&id) {
            Some(entry) => {
                self.free_name(&entry.def.schema, &entry.def.name);
                self.forget_sequences(id, None);
                self.forget_comments(id, None);
                self.forget_rights(id);
                Ok(())
            }
            None => Err(conflict(format!("table number {id} was dropped by another batch"))),
        }
    }

    fn alter(&mut self, version: Version, def: &TableDef, was: Version) -> Result<()> {
        let Some(entry) = self.by_id.get(&def.id).cloned() else {
            return Err(conflict(format!("table '{}' was dropped by another batch", def.name)));
        };
        // What the batch itself has made, nobody else can have changed.
        if entry.changed_at != was && entry.changed_at != version {
            return Err(conflict(format!("table '{}' was altered by another batch", entry.def.name)));
        }
        if (&entry.def.schema, &entry.def.name) != (&def.schema, &def.name) {
            self.check_free(&def.schema, &def.name)?;
        }
        check_kept(&entry.def, def)?;
        let is_gone = |column: &&Column| def.columns.iter().all(|kept| kept.id != column.id);
        let gone = entry.def.columns.iter().filter(is_gone).map(|column| Needed::Column(def.id, column.id));
        self.check_unread(&gone.collect::<Vec<_>>(), &entry.def.name)?;
        self.free_name(&entry.def.schema, &entry.def.name);
        self.forget_sequences(def.id, Some(def));
        self.forget_comments(def.id, Some(def));
        self.put(version, def);
        Ok(())
    }

    /// Its schema must be there.
    fn put(&mut self, version: Version, def: &TableDef) {
        self.take_name(&def.schema, &def.name, def.id);
        let entry = TableEntry::new(Arc::new(def.clone()), version);
        self.by_id.insert(def.id, Arc::new(entry));
    }

    pub(crate) fn take_name(&mut self, schema: &str, name: &str, id: TableId) {
        if let Some(schema) = self.schemas.get_mut(schema) {
            schema.relations.insert(name.to_owned(), id);
        }
    }

    /// A relation's name is free again.
    pub(crate) fn free_name(&mut self, schema: &str, name: &str) {
        if let Some(schema) = self.schemas.get_mut(schema) {
            schema.relations.remove(name);
        }
    }

    pub(crate) fn forget_rights(&mut self, id: TableId) {
        if self.rights.knows_table(id) {
            Arc::make_mut(&mut self.rights).forget_table(id);
        }
    }

    /// Refuses a name that is taken, or whose schema was dropped since the statement was checked.
    pub(crate) fn check_free(&self, schema: &str, name: &str) -> Result<()> {
        match self.schemas.get(schema) {
            None => Err(conflict(format!("schema '{schema}' was dropped by another batch"))),
            Some(entry) if entry.relations.contains_key(name) => {
                let is_view = self.views.contains_key(&entry.relations[name]);
                let kind = if is_view { "view" } else { "table" };
                let shown = if schema == PUBLIC_SCHEMA { name.to_owned() } else { format!("{schema}.{name}") };
                Err(Error::new(ErrorKind::DuplicateTable, format!("{kind} '{shown}' already exists"))
                    .with_hint(format!("choose another name, or drop the {kind} first")))
            }
            Some(_) => Ok(()),
        }
    }

    fn undefined(&self, name: &RelationName, path: &SearchPath) -> Error {
        let shown = match &name.schema {
            Some(schema) => format!("{schema}.{}", name.name),
            None => name.name.clone(),
        };
        if self.view(name, path).is_some() {
            return Error::new(ErrorKind::WrongObject, format!("\"{shown}\" is not a table"))
                .with_hint("it is a view, whose rows are computed when they are read");
        }
        let error = Error::new(ErrorKind::UndefinedTable, format!("there is no table '{shown}'"));
        if let Some(schema) = &name.schema
            && !self.schemas.contains_key(schema)
        {
            let hint = format!("there is no schema \"{schema}\"");
            return error.with_hint(match near_names(schema, self.schemas.keys().map(String::as_str)).as_slice() {
                [] => hint,
                near => format!("{hint}: did you mean {}?", shown_names(near)),
            });
        }
        let is_looked_at = |schema: &str| match &name.schema {
            Some(written) => schema == written,
            None => path.schemas().any(|known| known == schema),
        };
        let looked_at = self.schemas.iter().filter(|(schema, _)| is_looked_at(schema));
        let near =
            near_names(&name.name, looked_at.flat_map(|(_, schema)| schema.relations.keys().map(String::as_str)));
        if !near.is_empty() {
            return error.with_hint(format!("did you mean {}?", shown_names(&near)));
        }
        // It may be where nobody looked.
        let elsewhere: Vec<String> = self
            .tables()
            .filter(|entry| entry.def.name == name.name && !is_looked_at(&entry.def.schema))
            .map(|entry| entry.def.qualified())
            .collect();
        match elsewhere.as_slice() {
            [] if self.relation_ids().next().is_none() => {
                error.with_hint("there are no tables yet; CREATE TABLE makes one")
            }
            [] => error.with_hint("SHOW TABLES lists the tables"),
            found => error.with_hint(format!("did you mean {}?", found.join(" or "))),
        }
    }
}

/// Near names in a sentence: what must be written in double quotes is shown in them.
fn shown_names(names: &[String]) -> String {
    let shown = |name: &String| match quoted(name) {
        plain if plain == *name => format!("'{plain}'"),
        in_quotes => in_quotes,
    };
    names.iter().map(shown).collect::<Vec<_>>().join(" or ")
}

/// Refuses a definition under which the table's files would be read wrongly.
fn check_kept(old: &TableDef, new: &TableDef) -> Result<()> {
    let refuse = |what: String| Err(Error::internal(format!("ALTER TABLE {} would change {what}", old.name)));
    if new.seed != old.seed || new.options.curve != old.options.curve {
        return refuse("the curve or the rows' weights".to_owned());
    }
    if new.next_column_id < old.next_column_id {
        return refuse("the ids of columns to come".to_owned());
    }
    let sources = |def: &TableDef| -> Vec<_> {
        let levels = |levels: &[alluvia_space::Level]| {
            levels.iter().map(|level| (level.source.clone(), level.bits)).collect::<Vec<_>>()
        };
        def.dimensions.iter().map(|dimension| (levels(&dimension.levels), dimension.range.clone())).collect()
    };
    if sources(new) != sources(old) {
        return refuse("its dimensions".to_owned());
    }
    let key = |def: &TableDef| def.key.as_ref().map(|key| (key.columns.clone(), key.secret));
    if key(new) != key(old) {
        return refuse("its primary key".to_owned());
    }
    let files = |column: &Column| (column.storage_name.clone(), column.data_type);
    for column in &new.columns {
        match old.columns.iter().find(|known| known.id == column.id) {
            Some(known) if files(known) != files(column) => {
                return refuse(format!("what column '{}' is in files", known.name));
            }
            Some(_) => {}
            None if column.id.0 < old.next_column_id => {
                return refuse(format!("the owner of column id {}", column.id));
            }
            None => {}
        }
    }
    Ok(())
}

pub(crate) fn conflict(message: String) -> Error {
    Error::new(ErrorKind::Conflict, message).with_hint("run the statement again")
}
