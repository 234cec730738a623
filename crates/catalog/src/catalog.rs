//! The definitions of all tables, and all rights, at one version.
//!
//! Invariants:
//! - A [`Catalog`] never changes; [`Catalog::apply`] makes the next one. Readers hold an `Arc` of theirs for as long as
//!   they like.
//! - Table ids are unique for ever, names are unique within a version.
//! - What files depend on (dimensions, seed, curve, key, the storage name and type of a column) is the same in every
//!   definition of a table, whatever is altered.
//!
//! `apply` is a pure function of its arguments, so that recovery repeats from the log exactly what was committed. It
//! refuses what *other batches* may have made impossible since the statement was checked (a name taken, a table dropped
//! or altered): that is the optimistic check of DDL. Whether a definition makes sense by itself is for
//! [`TableDef::validate`], before it is submitted: a stricter rule in a later release must not make an old log
//! unreadable.

use crate::rights::{Rights, RightsChange};
use alluvia_space::keywords::quoted;
use alluvia_space::{Column, Identity, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version, near_names};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a comment is on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentOn {
    /// A table, or whatever else has such a number.
    Table(TableId),
    /// A column of one.
    Column(TableId, ColumnId),
    /// A schema.
    Schema(String),
    /// The database.
    Database,
}

impl CommentOn {
    /// The table that it goes with.
    fn table(&self) -> Option<TableId> {
        match self {
            CommentOn::Table(id) | CommentOn::Column(id, _) => Some(*id),
            CommentOn::Schema(_) | CommentOn::Database => None,
        }
    }
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
    /// Values of a sequence are taken. It is no change of its table's definition, and means nothing once the table is
    /// gone.
    Sequence {
        /// The table.
        table: TableId,
        /// The numbered column.
        column: ColumnId,
        /// The last value that is taken; `None` where the sequence begins anew.
        through: Option<i64>,
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
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Catalog {
    /// The version of the last change; `Version(0)` when there was none.
    pub version: Version,
    by_id: BTreeMap<TableId, Arc<TableEntry>>,
    by_name: BTreeMap<String, TableId>,
    rights: Arc<Rights>,
    /// The last values that are taken of sequences.
    sequences: Arc<BTreeMap<(TableId, ColumnId), i64>>,
    comments: Arc<BTreeMap<CommentOn, String>>,
}

impl Catalog {
    /// The table of that name.
    pub fn table(&self, name: &str) -> Result<&Arc<TableEntry>> {
        match self.by_name.get(name) {
            Some(id) => Ok(&self.by_id[id]),
            None => Err(self.undefined(name)),
        }
    }

    /// The table of that id, unless it was dropped.
    pub fn by_id(&self, id: TableId) -> Option<&Arc<TableEntry>> {
        self.by_id.get(&id)
    }

    /// All tables, in name order.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.by_name.values().map(|id| &self.by_id[id])
    }

    /// Roles, owners and grants.
    pub fn rights(&self) -> &Arc<Rights> {
        &self.rights
    }

    /// The last value that is taken of the sequence of a column; `None` if none is.
    pub fn taken(&self, table: TableId, column: ColumnId) -> Option<i64> {
        self.sequences.get(&(table, column)).copied()
    }

    /// The comment on something.
    pub fn comment(&self, on: &CommentOn) -> Option<&str> {
        self.comments.get(on).map(String::as_str)
    }

    /// All comments.
    pub fn comments(&self) -> impl Iterator<Item = (&CommentOn, &str)> {
        self.comments.iter().map(|(on, text)| (on, text.as_str()))
    }

    /// The numbered column whose sequence is called so, with its table.
    pub fn sequence(&self, name: &str) -> Option<(&Arc<TableEntry>, &Identity)> {
        self.tables().find_map(|entry| {
            let identity = entry.def.rules.identities.iter().find(|identity| identity.name == name)?;
            Some((entry, identity))
        })
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
                    let Catalog { rights, by_id, .. } = &mut next;
                    Arc::make_mut(rights).apply(change, |table| by_id.contains_key(&table))?;
                }
                Change::Sequence { table, column, through } => next.take(*table, *column, *through),
                Change::Comment { on, text } => next.comment_on(on, text.as_deref())?,
            }
        }
        assert_eq!(next.by_id.len(), next.by_name.len(), "every table has one name");
        Ok(next)
    }

    fn create(&mut self, version: Version, def: &TableDef) -> Result<()> {
        self.check_free(&def.name)?;
        if self.by_id.contains_key(&def.id) {
            return Err(Error::internal(format!(
                "table '{}' is created under id {}, which is in use",
                def.name, def.id
            )));
        }
        self.put(version, def);
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

    fn comment_on(&mut self, on: &CommentOn, text: Option<&str>) -> Result<()> {
        if on.table().is_some_and(|table| !self.by_id.contains_key(&table)) {
            return Err(conflict("a table was dropped by another batch".to_owned()));
        }
        match text {
            Some(text) => drop(Arc::make_mut(&mut self.comments).insert(on.clone(), text.to_owned())),
            None if self.comments.contains_key(on) => drop(Arc::make_mut(&mut self.comments).remove(on)),
            None => {}
        }
        Ok(())
    }

    /// Forgets comments on a table, or on columns that its definition has no more.
    fn forget_comments(&mut self, table: TableId, def: Option<&TableDef>) {
        let is_gone = |on: &CommentOn| match (on, def) {
            (on, None) => on.table() == Some(table),
            (CommentOn::Column(of, column), Some(def)) => *of == table && def.column_by_id(*column).is_none(),
            (_, Some(_)) => false,
        };
        if self.comments.keys().any(is_gone) {
            Arc::make_mut(&mut self.comments).retain(|on, _| !is_gone(on));
        }
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
        match self.by_id.remove(&id) {
            Some(entry) => {
                self.by_name.remove(&entry.def.name);
                self.forget_sequences(id, None);
                self.forget_comments(id, None);
                if self.rights.knows_table(id) {
                    Arc::make_mut(&mut self.rights).forget_table(id);
                }
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
        if entry.def.name != def.name {
            self.check_free(&def.name)?;
        }
        check_kept(&entry.def, def)?;
        self.by_name.remove(&entry.def.name);
        self.forget_sequences(def.id, Some(def));
        self.forget_comments(def.id, Some(def));
        self.put(version, def);
        Ok(())
    }

    fn put(&mut self, version: Version, def: &TableDef) {
        self.by_name.insert(def.name.clone(), def.id);
        let entry = TableEntry::new(Arc::new(def.clone()), version);
        self.by_id.insert(def.id, Arc::new(entry));
    }

    fn check_free(&self, name: &str) -> Result<()> {
        if !self.by_name.contains_key(name) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::DuplicateTable, format!("table '{name}' already exists"))
            .with_hint("choose another name, or drop the table first"))
    }

    fn undefined(&self, name: &str) -> Error {
        let near = near_names(name, self.by_name.keys().map(String::as_str));
        let hint = match near.as_slice() {
            [] if self.by_name.is_empty() => "there are no tables yet; CREATE TABLE makes one".to_owned(),
            [] => "SHOW TABLES lists the tables".to_owned(),
            near => {
                // What must be written in double quotes is shown in them.
                let shown = |name: &String| match quoted(name) {
                    plain if plain == *name => format!("'{plain}'"),
                    in_quotes => in_quotes,
                };
                format!("did you mean {}?", near.iter().map(shown).collect::<Vec<_>>().join(" or "))
            }
        };
        Error::new(ErrorKind::UndefinedTable, format!("there is no table '{name}'")).with_hint(hint)
    }
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

fn conflict(message: String) -> Error {
    Error::new(ErrorKind::Conflict, message).with_hint("run the statement again")
}

/// A catalog as the manifest keeps it.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: Version,
    tables: Vec<StoredTable>,
    /// Left out while they are those of a new database, as they are in manifests up to version 02.
    #[serde(default, skip_serializing_if = "Rights::is_default")]
    rights: Rights,
    /// Left out while nothing is taken of any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sequences: Vec<StoredSequence>,
    /// Left out while there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    comments: Vec<StoredComment>,
}

/// A comment.
#[derive(Serialize, Deserialize)]
struct StoredComment {
    on: CommentOn,
    text: String,
}

/// What is taken of a sequence.
#[derive(Serialize, Deserialize)]
struct StoredSequence {
    table: TableId,
    column: ColumnId,
    through: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    changed_at: Version,
    def: TableDef,
}

impl From<Catalog> for Stored {
    fn from(catalog: Catalog) -> Stored {
        let stored =
            |entry: &Arc<TableEntry>| StoredTable { changed_at: entry.changed_at, def: TableDef::clone(&entry.def) };
        let tables = catalog.by_id.values().map(stored).collect();
        let taken = catalog.sequences.iter();
        let sequences = taken.map(|(&(table, column), &through)| StoredSequence { table, column, through }).collect();
        let comment = |(on, text): (&CommentOn, &str)| StoredComment { on: on.clone(), text: text.to_owned() };
        let comments = catalog.comments().map(comment).collect();
        Stored { version: catalog.version, tables, rights: Arc::unwrap_or_clone(catalog.rights), sequences, comments }
    }
}

impl TryFrom<Stored> for Catalog {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Catalog, String> {
        let mut catalog = Catalog { version: stored.version, rights: Arc::new(stored.rights), ..Catalog::default() };
        for table in stored.tables {
            let (id, name) = (table.def.id, table.def.name.clone());
            if catalog.by_id.contains_key(&id) || catalog.by_name.contains_key(&name) {
                return Err(format!("two tables are named '{name}' or have id {id}"));
            }
            catalog.put(table.changed_at, &table.def);
        }
        let taken = stored.sequences.into_iter();
        let taken = taken.map(|StoredSequence { table, column, through }| ((table, column), through)).collect();
        catalog.sequences = Arc::new(taken);
        let comments = stored.comments.into_iter().map(|StoredComment { on, text }| (on, text));
        catalog.comments = Arc::new(comments.collect());
        Ok(catalog)
    }
}
