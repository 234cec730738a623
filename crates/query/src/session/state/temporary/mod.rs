//! The session's temporary tables and views: their definitions, over whatever the database has, and rows of tables.
//!
//! Invariants:
//! - Nobody but the session knows of them: no batch, no log and no file of the database has anything of them.
//! - They have numbers of their own ([`is_temporary`]), and every definition has a version that no other definition of any
//!   table has: what is kept between statements by number and version is never taken for another's.
//! - Each change is noted with what takes it back. A statement that fails takes back its own, ROLLBACK TO those behind its
//!   savepoint, ROLLBACK all of the transaction's; the end of a transaction that is kept forgets the notes
//!   ([`Temporary::keep`]), and only then are rows folded.
//! - What is taken of their sequences stays taken.

mod overlay;

use crate::engine::sequences::SharedBlock;
use crate::session::state::temporary::overlay::Overlay;
use alluvia_catalog::rights::{BOOTSTRAP, Object, RightsChange, RoleId};
use alluvia_catalog::{
    Catalog, Change as Definition, CommentOn, TEMPORARY_IDS, TEMPORARY_SCHEMA_ID, TableEntry, ViewDef, ViewEntry,
};
use alluvia_copy::temporary::{Coming, Spilled, Spilling, TemporaryMemory, TemporaryRead, TemporaryRows, Undo};
use alluvia_space::TableDef;
use alluvia_space::key_code::KeyCode;
use alluvia_syntax::statements::definitions::OnCommit;
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use arrow::array::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The numbers of temporary tables begin here: no other table gets so far.
const FIRST_ID: u32 = TEMPORARY_SCHEMA_ID.0 + 1;

/// Temporary tables and views of one session at most: a look through all of their numbers stays short.
const RELATIONS_MAX: usize = 10_000;

/// Whether a table is a session's own.
pub(crate) fn is_temporary(table: TableId) -> bool {
    table.0 >= FIRST_ID
}

/// Whether a definition of a temporary table changes.
pub(crate) fn of_temporary(change: &Definition) -> bool {
    match change {
        Definition::CreateTable { def } | Definition::AlterTable { def, .. } => is_temporary(def.id),
        Definition::CreateView { def } | Definition::AlterView { def, .. } => is_temporary(def.id),
        Definition::DropTable { id } | Definition::DropView { id } => is_temporary(*id),
        Definition::Rights { change: RightsChange::Own { table, .. } } => is_temporary(*table),
        Definition::Rights { change: RightsChange::Grant { on, .. } | RightsChange::Revoke { on, .. } } => {
            matches!(on, Object::Table(table) if is_temporary(*table))
        }
        Definition::Comment { on: CommentOn::Table(id) | CommentOn::Column(id, _), .. } => is_temporary(*id),
        _ => false,
    }
}

/// The temporary tables of one session.
#[derive(Debug)]
pub(crate) struct Temporary {
    memory: Arc<TemporaryMemory>,
    tables: BTreeMap<TableId, TemporaryTable>,
    views: BTreeMap<TableId, TemporaryView>,
    changes: Vec<Change>,
    /// Where changes were counted last: what lies behind may be taken back by itself.
    marked: usize,
    overlay: Overlay,
}

/// One of them.
#[derive(Debug)]
struct TemporaryTable {
    entry: Arc<TableEntry>,
    owner: RoleId,
    on_commit: OnCommit,
    rows: TemporaryRows,
    sequences: BTreeMap<ColumnId, SharedBlock>,
    comments: Comments,
    /// Counts its changes: whether a sibling has changed it.
    changed: u64,
}

/// A temporary view.
#[derive(Clone, Debug)]
pub(crate) struct TemporaryView {
    entry: Arc<ViewEntry>,
    owner: RoleId,
    comments: Comments,
}

/// The comments on a table or a view, and on its columns.
type Comments = BTreeMap<CommentOn, String>;

/// What takes back a change.
#[derive(Debug)]
enum Change {
    /// A view, as it was; `None` if it was not there.
    View(TableId, Option<TemporaryView>),
    Created(TableId),
    Dropped(Box<TemporaryTable>),
    Altered(TableId, Arc<TableEntry>, RoleId),
    /// The comment that there was.
    Commented(TableId, CommentOn, Option<String>),
    Rows(TableId, Undo),
}

/// What tables were like when a sibling got them.
pub(crate) type Inherited = BTreeMap<TableId, u64>;

impl Temporary {
    /// None yet.
    pub(crate) fn new(memory: Arc<TemporaryMemory>) -> Temporary {
        Temporary {
            memory,
            tables: BTreeMap::new(),
            views: BTreeMap::new(),
            changes: Vec::new(),
            marked: 0,
            overlay: Overlay::default(),
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.views.is_empty()
    }

    /// A number that none of them has; `next` counts those of all sessions, which come round again.
    pub(crate) fn new_id(&self, mut next: impl FnMut() -> u32) -> Result<TableId> {
        if self.tables.len() + self.views.len() >= RELATIONS_MAX {
            let message = format!("the session has {RELATIONS_MAX} temporary tables and views, which is the most");
            return Err(
                Error::new(ErrorKind::TooLarge, message).with_hint("drop some, or all of them with DISCARD TEMP")
            );
        }
        loop {
            let id = TableId(FIRST_ID + next() % TEMPORARY_IDS);
            if !self.tables.contains_key(&id) && !self.views.contains_key(&id) {
                return Ok(id);
            }
        }
    }

    /// What counts their memory.
    pub(crate) fn memory(&self) -> &Arc<TemporaryMemory> {
        &self.memory
    }

    /// The definitions that the session sees over these.
    pub(crate) fn over(&mut self, beneath: &Arc<Catalog>) -> Arc<Catalog> {
        if self.is_empty() {
            return Arc::clone(beneath);
        }
        let tables = self.tables.values().map(|table| (&table.entry, table.owner));
        let views = self.views.values().map(|view| (&view.entry, view.owner));
        // One on a column that is gone comes back with it, if that is taken back.
        let of_table = |table: &TemporaryTable, on: &CommentOn| match on {
            CommentOn::Column(_, column) => table.entry.def.column_by_id(*column).is_some(),
            _ => true,
        };
        let of_tables =
            self.tables.values().flat_map(|table| table.comments.iter().filter(move |(on, _)| of_table(table, on)));
        let comments = of_tables.chain(self.views.values().flat_map(|view| view.comments.iter()));
        self.overlay.over(beneath, tables, views, comments)
    }

    /// The rows that there are now of one of them.
    pub(crate) fn read(&mut self, table: TableId) -> Option<TemporaryRead> {
        self.tables.get_mut(&table).map(|table| table.rows.read())
    }

    /// Whether a row has a key; `None` if the table is not one of them.
    pub(crate) fn has_key(&self, table: TableId, code: KeyCode) -> Option<bool> {
        Some(self.tables.get(&table)?.rows.has_key(code))
    }

    /// The values of a sequence that are taken.
    pub(crate) fn sequence(&mut self, (table, column): (TableId, ColumnId)) -> Option<SharedBlock> {
        Some(Arc::clone(self.tables.get_mut(&table)?.sequences.entry(column).or_default()))
    }

    /// CREATE TABLE.
    pub(crate) fn create(&mut self, def: TableDef, version: Version, owner: RoleId, on_commit: OnCommit) {
        let (id, rows) = (def.id, TemporaryRows::new(&def, &self.memory));
        let entry = Arc::new(TableEntry::new(Arc::new(def), version));
        let (sequences, comments) = (BTreeMap::new(), Comments::new());
        let table = TemporaryTable { entry, owner, on_commit, rows, sequences, comments, changed: 0 };
        self.tables.insert(id, table);
        self.note(Change::Created(id));
    }

    /// What a statement changes of one of them, by a definition that gets this version.
    pub(crate) fn define(&mut self, change: Definition, version: Version) -> Result<()> {
        match change {
            Definition::AlterTable { def, .. } => self.alter(def.id, Some(def), version, None),
            Definition::DropTable { id } => self.drop_table(id),
            Definition::CreateView { def } | Definition::AlterView { def, .. } => {
                self.put_view(Arc::new(def), version);
                Ok(())
            }
            Definition::DropView { id } => {
                let was = self.views.remove(&id).ok_or_else(gone)?;
                self.note(Change::View(id, Some(was)));
                Ok(())
            }
            Definition::Rights { change: RightsChange::Own { table, owner } } => match self.views.get_mut(&table) {
                None => self.alter(table, None, version, Some(owner)),
                Some(view) => {
                    let was = view.clone();
                    view.owner = owner;
                    self.note(Change::View(table, Some(was)));
                    Ok(())
                }
            },
            Definition::Comment { on, text } => self.comment(on, text),
            Definition::Rights { .. } => {
                Err(Error::new(ErrorKind::NotSupported, "GRANT and REVOKE on a temporary table are not supported")
                    .with_hint("nobody but its session sees it: leave them out"))
            }
            _ => Err(Error::internal("a temporary table is made without saying how long its rows stay")),
        }
    }

    /// CREATE VIEW, and whatever gives one another definition.
    fn put_view(&mut self, def: Arc<ViewDef>, version: Version) {
        let was = self.views.remove(&def.id);
        let (id, owner) = (def.id, was.as_ref().map_or(BOOTSTRAP, |view| view.owner));
        let comments = was.as_ref().map_or_else(Comments::new, |view| view.comments.clone());
        let entry = Arc::new(ViewEntry { def, changed_at: version });
        self.views.insert(id, TemporaryView { entry, owner, comments });
        self.note(Change::View(id, was));
    }

    /// ALTER TABLE: another definition, or another owner.
    fn alter(&mut self, id: TableId, def: Option<TableDef>, version: Version, owner: Option<RoleId>) -> Result<()> {
        let table = self.tables.get_mut(&id).ok_or_else(gone)?;
        let was = Change::Altered(id, Arc::clone(&table.entry), table.owner);
        let def = def.map_or_else(|| Arc::clone(&table.entry.def), Arc::new);
        table.entry = Arc::new(TableEntry::new(def, version));
        table.owner = owner.unwrap_or(table.owner);
        self.note(was);
        Ok(())
    }

    /// The comments of one of them.
    fn comments(&mut self, id: TableId) -> Option<&mut Comments> {
        match self.tables.get_mut(&id) {
            Some(table) => Some(&mut table.comments),
            None => self.views.get_mut(&id).map(|view| &mut view.comments),
        }
    }

    /// COMMENT ON one of them, or on a column of it.
    fn comment(&mut self, on: CommentOn, text: Option<String>) -> Result<()> {
        let (CommentOn::Table(id) | CommentOn::Column(id, _)) = on else { return Err(gone()) };
        let comments = self.comments(id).ok_or_else(gone)?;
        let was = match text {
            Some(text) => comments.insert(on.clone(), text),
            None => comments.remove(&on),
        };
        self.note(Change::Commented(id, on, was));
        Ok(())
    }

    /// DROP TABLE.
    fn drop_table(&mut self, id: TableId) -> Result<()> {
        let table = self.tables.remove(&id).ok_or_else(gone)?;
        self.note(Change::Dropped(Box::new(table)));
        Ok(())
    }

    /// Rows come; those that have had their keys go.
    pub(crate) fn come(&mut self, id: TableId, coming: Coming) -> Result<()> {
        let undo = self.rows(id)?.come(coming)?;
        self.note(Change::Rows(id, undo));
        Ok(())
    }

    /// Rows with these keys go.
    pub(crate) fn delete(&mut self, id: TableId, codes: &[KeyCode]) -> Result<()> {
        let undo = self.rows(id)?.delete(codes);
        self.note(Change::Rows(id, undo));
        Ok(())
    }

    /// Rows that are told by version and ordinal go.
    pub(crate) fn delete_rows(&mut self, id: TableId, rows: &RecordBatch) -> Result<()> {
        let undo = self.rows(id)?.delete_rows(rows)?;
        self.note(Change::Rows(id, undo));
        Ok(())
    }

    /// All rows go; gives how many.
    pub(crate) fn clear(&mut self, id: TableId) -> Result<u64> {
        let rows = self.rows(id)?;
        let (count, undo) = (rows.rows(), rows.clear());
        self.note(Change::Rows(id, undo));
        Ok(count)
    }

    fn rows(&mut self, id: TableId) -> Result<&mut TemporaryRows> {
        self.tables.get_mut(&id).map(|table| &mut table.rows).ok_or_else(gone)
    }

    fn note(&mut self, change: Change) {
        if !matches!(change, Change::Rows(..)) {
            self.overlay.forget();
        }
        let (Change::Created(id) | Change::Altered(id, ..) | Change::Commented(id, ..) | Change::Rows(id, _)) = &change
        else {
            return self.changes.push(change);
        };
        if let Some(table) = self.tables.get_mut(id) {
            table.changed += 1;
        }
        let Change::Rows(id, undo) = change else { return self.changes.push(change) };
        // Rows that come one by one are many.
        let is_open = self.changes.len() > self.marked;
        let left = match self.changes.last_mut().filter(|_| is_open) {
            Some(Change::Rows(last, known)) if *last == id => known.join(undo).err(),
            _ => Some(undo),
        };
        self.changes.extend(left.map(|undo| Change::Rows(id, undo)));
    }

    /// How many changes could be taken back: what comes from now on can be by itself.
    pub(crate) fn mark(&mut self) -> usize {
        self.marked = self.changes.len();
        self.marked
    }

    /// Takes back what came after so many changes.
    pub(crate) fn take_back(&mut self, changes: usize) {
        let mut settled = BTreeSet::new();
        while self.changes.len() > changes {
            let Some(change) = self.changes.pop() else { break };
            match change {
                Change::Rows(id, undo) => {
                    if let Some(table) = self.tables.get_mut(&id) {
                        table.rows.take_back(undo);
                        table.changed += 1;
                        settled.insert(id);
                    }
                    continue;
                }
                Change::View(id, Some(was)) => drop(self.views.insert(id, was)),
                Change::View(id, None) => drop(self.views.remove(&id)),
                Change::Created(id) => drop(self.tables.remove(&id)),
                Change::Dropped(table) => drop(self.tables.insert(table.entry.def.id, *table)),
                Change::Commented(id, on, was) => {
                    if let Some(comments) = self.comments(id) {
                        match was {
                            Some(was) => drop(comments.insert(on, was)),
                            None => drop(comments.remove(&on)),
                        }
                    }
                    if let Some(table) = self.tables.get_mut(&id) {
                        table.changed += 1;
                    }
                }
                Change::Altered(id, entry, owner) => {
                    if let Some(table) = self.tables.get_mut(&id) {
                        (table.entry, table.owner) = (entry, owner);
                        table.changed += 1;
                    }
                }
            }
            self.overlay.forget();
        }
        self.marked = self.marked.min(changes);
        for id in settled {
            if let Some(table) = self.tables.get_mut(&id) {
                table.rows.settle();
            }
        }
    }

    /// A transaction is over, and its changes stay: nothing can be taken back any more.
    pub(crate) fn keep(&mut self) {
        let of_commit = |table: &TemporaryTable| table.on_commit != OnCommit::PreserveRows;
        if self.changes.is_empty() && !self.tables.values().any(of_commit) {
            return;
        }
        let before = self.tables.len();
        self.tables.retain(|_, table| table.on_commit != OnCommit::Drop);
        if self.tables.len() != before {
            self.drop_views_of_nothing();
            self.overlay.forget();
        }
        for table in self.tables.values_mut().filter(|table| table.on_commit == OnCommit::DeleteRows) {
            table.rows.clear();
        }
        let changed: BTreeSet<TableId> = self.changes.iter().filter_map(Change::of_rows).collect();
        self.changes.clear();
        self.marked = 0;
        for id in changed {
            let Some(table) = self.tables.get_mut(&id) else { continue };
            // Rows that cannot be folded stay as they are.
            if let Err(error) = table.rows.fold() {
                tracing::error!(%error, "rows of a temporary table stay as they came");
            }
        }
    }

    /// Views go whose tables are gone, and those that read them.
    fn drop_views_of_nothing(&mut self) {
        loop {
            let (tables, before) = (&self.tables, self.views.len());
            let known: BTreeSet<TableId> = self.views.keys().copied().collect();
            let is_there = |id: TableId| !is_temporary(id) || tables.contains_key(&id) || known.contains(&id);
            self.views.retain(|_, view| view.entry.def.reads.iter().all(|read| is_there(read.relation)));
            if self.views.len() == before {
                return;
            }
        }
    }

    /// DISCARD TEMP: all of them go; ROLLBACK brings them back.
    pub(crate) fn drop_all(&mut self) {
        for (id, view) in std::mem::take(&mut self.views) {
            self.note(Change::View(id, Some(view)));
        }
        for (_, table) in std::mem::take(&mut self.tables) {
            self.note(Change::Dropped(Box::new(table)));
        }
    }

    fn forget_all(&mut self) {
        self.tables.clear();
        self.views.clear();
        self.changes.clear();
        self.marked = 0;
        self.overlay.forget();
    }

    /// The rows in memory that could lie in files, by table.
    pub(crate) fn spilling(&self) -> Vec<(TableId, String, Spilling)> {
        let of_table = |(id, table): (&TableId, &TemporaryTable)| {
            let spilling = table.rows.spilling();
            (!spilling.is_empty()).then(|| (*id, table.entry.def.name.clone(), spilling))
        };
        self.tables.iter().filter_map(of_table).collect()
    }

    /// They lie there.
    pub(crate) fn spilled(&mut self, id: TableId, spilled: Spilled) {
        if let Some(table) = self.tables.get_mut(&id) {
            table.rows.spilled(spilled);
        }
    }

    /// The tables as they are now, for a sibling of the session.
    pub(crate) fn fork(&self) -> (Forked, Inherited) {
        let tables = self.tables.iter().map(|(id, table)| (*id, table.fork(&self.memory))).collect();
        (Forked { tables, views: self.views.clone() }, self.inherited())
    }

    fn inherited(&self) -> Inherited {
        self.tables.iter().map(|(id, table)| (*id, table.changed)).collect()
    }

    /// Begins with another session's tables.
    pub(crate) fn begin_with(&mut self, forked: Forked) {
        self.forget_all();
        (self.tables, self.views) = (forked.tables, forked.views);
    }

    /// Takes over what a sibling, which has these tables now, has changed since it got them.
    pub(crate) fn follow(&mut self, theirs: Forked, now: &Inherited, inherited: &Inherited) {
        let dropped = inherited.keys().filter(|id| !theirs.tables.contains_key(*id));
        dropped.for_each(|id| drop(self.tables.remove(id)));
        for (id, table) in theirs.tables {
            if inherited.get(&id) != now.get(&id) {
                self.tables.insert(id, table);
            }
        }
        self.views = theirs.views;
        self.drop_views_of_nothing();
        self.changes.clear();
        self.marked = 0;
        self.overlay.forget();
    }
}

/// What one session has, on its way to another.
#[derive(Debug)]
pub(crate) struct Forked {
    tables: BTreeMap<TableId, TemporaryTable>,
    views: BTreeMap<TableId, TemporaryView>,
}

impl TemporaryTable {
    fn fork(&self, memory: &Arc<TemporaryMemory>) -> TemporaryTable {
        TemporaryTable {
            entry: Arc::clone(&self.entry),
            owner: self.owner,
            on_commit: self.on_commit,
            rows: self.rows.fork(memory),
            sequences: self.sequences.clone(),
            comments: self.comments.clone(),
            changed: self.changed,
        }
    }
}

impl Change {
    fn of_rows(&self) -> Option<TableId> {
        match self {
            Change::Rows(id, _) => Some(*id),
            _ => None,
        }
    }
}

fn gone() -> Error {
    Error::internal("a temporary table that is changed is none of the session's")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_copy::temporary::MemoryBound;

    /// As much as is asked for.
    #[derive(Debug)]
    struct Unbounded;

    impl MemoryBound for Unbounded {
        fn try_take(&self, _: u64) -> bool {
            true
        }

        fn take(&self, _: u64) {}

        fn give_back(&self, _: u64) {}
    }

    #[test]
    fn a_session_that_has_as_many_as_it_may_is_refused_more() {
        let mut temporary = Temporary::new(TemporaryMemory::new(Arc::new(Unbounded)));
        let mut made = 0;
        let mut next = move || {
            made += 1;
            made
        };
        for number in 0..RELATIONS_MAX {
            let id = temporary.new_id(&mut next).expect("there may be more");
            let (schema, name) = ("pg_temp".to_owned(), format!("v{number}"));
            let def = ViewDef { id, schema, name, columns: Vec::new(), sql: String::new(), reads: Vec::new() };
            temporary.define(Definition::CreateView { def }, Version(number as u64 + 1)).expect("is made");
        }
        let error = temporary.new_id(&mut next).expect_err("is one too many");
        assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::TooLarge, true));
        temporary.drop_all();
        temporary.new_id(&mut next).expect("there are none");
    }
}
