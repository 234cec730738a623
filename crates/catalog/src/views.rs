//! The views of a catalog, and what depends on what.
//!
//! Invariants:
//! - What a view reads is there, with the columns that the view uses; no view reads itself, by whatever way.
//! - A relation goes after the views that read it: [`Catalog::apply`] refuses all else, as what another batch has made impossible.
//!
//! A view depends on the relations that its query names, and not on what those read: as in PostgreSQL, of a view on a view only the upper one is
//! told to depend on the lower.

use crate::catalog::{Catalog, conflict};
use crate::view::{ViewDef, ViewEntry};
use crate::{RelationName, SearchPath};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Views that a view may stand on, one on the other: planning goes through them one inside the other.
const DEPTH_MAX: usize = 32;
/// Relations that a query may have once each view in it is what it stands for. Planning took a second for about so many.
const WRITTEN_OUT_MAX: usize = 1_000;

/// Something that a view needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Needed {
    /// A table or a view.
    Relation(TableId),
    /// A column of a table.
    Column(TableId, ColumnId),
}

impl Needed {
    fn is_needed_by(self, view: &ViewDef) -> bool {
        view.reads.iter().any(|read| match self {
            Needed::Relation(id) => read.relation == id,
            Needed::Column(id, column) => read.relation == id && read.used.contains(&column),
        })
    }
}

/// A view that needs something that is to go.
#[derive(Clone, Debug)]
pub struct Dependent {
    /// The view.
    pub view: Arc<ViewEntry>,
    /// What it needs.
    pub on: Needed,
}

impl Catalog {
    /// The view that a name means, where names without a schema are looked up along `path`; `None` if there is none, or it is a table.
    pub fn view(&self, name: &RelationName, path: &SearchPath) -> Option<&Arc<ViewEntry>> {
        self.views.get(&self.id_of(name, path)?)
    }

    /// The view of that id, unless it was dropped.
    pub fn view_by_id(&self, id: TableId) -> Option<&Arc<ViewEntry>> {
        self.views.get(&id)
    }

    /// All views, in the order of their schemas' names and their own.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewEntry>> {
        self.relation_ids().filter_map(|id| self.views.get(&id))
    }

    /// All views, each behind those that it reads.
    pub fn views_in_order(&self) -> Vec<&Arc<ViewEntry>> {
        let mut ordered: Vec<&Arc<ViewEntry>> = Vec::new();
        let mut seen = BTreeSet::new();
        for view in self.views() {
            self.put_behind(view, &mut seen, &mut ordered);
        }
        ordered
    }

    fn put_behind<'a>(
        &'a self,
        view: &'a Arc<ViewEntry>,
        seen: &mut BTreeSet<TableId>,
        ordered: &mut Vec<&'a Arc<ViewEntry>>,
    ) {
        if !seen.insert(view.def.id) {
            return;
        }
        for below in view.def.reads.iter().filter_map(|read| self.views.get(&read.relation)) {
            self.put_behind(below, seen, ordered);
        }
        ordered.push(view);
    }

    /// What a relation is called today, and its columns.
    pub fn relation_now(&self, id: TableId) -> Option<(RelationName, Vec<(ColumnId, String)>)> {
        if let Some(view) = self.views.get(&id) {
            let name = RelationName::in_schema(view.def.schema.as_str(), view.def.name.as_str());
            return Some((name, view.def.bound_columns()));
        }
        let def = &self.by_id(id)?.def;
        let columns = def.columns.iter().map(|column| (column.id, column.name.clone())).collect();
        Some((RelationName::in_schema(def.schema.as_str(), def.name.as_str()), columns))
    }

    /// The tables that a view reads, whatever views are between.
    pub fn tables_below(&self, view: &ViewEntry) -> BTreeSet<TableId> {
        let (mut tables, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<TableId> = view.def.reads.iter().map(|read| read.relation).collect();
        while let Some(id) = open.pop() {
            match self.views.get(&id) {
                Some(below) if seen.insert(id) => open.extend(below.def.reads.iter().map(|read| read.relation)),
                Some(_) => {}
                None => drop(tables.insert(id)),
            }
        }
        tables
    }

    /// The views that need something of what is to go, each before those that need it, as PostgreSQL tells them. What is to go itself is not
    /// among them.
    pub fn dependents(&self, gone: &[Needed]) -> Vec<Dependent> {
        let of_gone = |needed: &Needed| match needed {
            Needed::Relation(id) => Some(*id),
            Needed::Column(..) => None,
        };
        let mut seen: BTreeSet<TableId> = gone.iter().filter_map(of_gone).collect();
        let mut found = Vec::new();
        for needed in gone.iter().rev() {
            self.find_dependents(*needed, &mut seen, &mut found);
        }
        found.reverse();
        found
    }

    /// The last ones first.
    fn find_dependents(&self, needed: Needed, seen: &mut BTreeSet<TableId>, found: &mut Vec<Dependent>) {
        let readers: Vec<&Arc<ViewEntry>> =
            self.views.values().rev().filter(|view| needed.is_needed_by(&view.def)).collect();
        for view in readers {
            if seen.insert(view.def.id) {
                self.find_dependents(Needed::Relation(view.def.id), seen, found);
                found.push(Dependent { view: Arc::clone(view), on: needed });
            }
        }
    }

    /// Refuses a view that needs itself, or stands for more than planning can take.
    pub fn check_view(&self, view: &ViewDef) -> Result<()> {
        let mut known = BTreeMap::new();
        let (mut depth, mut relations) = (0, 0usize);
        for read in &view.reads {
            let times = read.places.iter().filter(|place| place.kind != crate::view::NameKind::Qualifier).count();
            let below = self.written_out(read.relation, view, 1, &mut known)?;
            depth = depth.max(below.depth);
            relations = relations.saturating_add(below.relations.saturating_mul(times));
        }
        if depth >= DEPTH_MAX || relations > WRITTEN_OUT_MAX {
            let message = match depth >= DEPTH_MAX {
                true => format!("view \"{}\" would stand on {depth} views, one on the other", view.name),
                false => format!("view \"{}\" would read {relations} relations", view.name),
            };
            return Err(Error::new(ErrorKind::TooLarge, message).with_hint(format!(
                "the most is {DEPTH_MAX} views, one on the other, and {WRITTEN_OUT_MAX} relations: keep the rows of one of them with CREATE TABLE \
                 ... AS"
            )));
        }
        Ok(())
    }

    fn written_out(
        &self,
        id: TableId,
        new: &ViewDef,
        level: usize,
        known: &mut BTreeMap<TableId, WrittenOut>,
    ) -> Result<WrittenOut> {
        if id == new.id {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", new.name);
            return Err(Error::new(ErrorKind::RecursiveDefinition, message)
                .with_hint("a view cannot read itself, nor views that read it"));
        }
        if let Some(known) = known.get(&id) {
            return Ok(*known);
        }
        let Some(view) = self.views.get(&id).filter(|_| level <= DEPTH_MAX) else {
            return Ok(WrittenOut { depth: 0, relations: 1 });
        };
        let mut all = WrittenOut { depth: 0, relations: 0 };
        for read in &view.def.reads {
            let times = read.places.iter().filter(|place| place.kind != crate::view::NameKind::Qualifier).count();
            let below = self.written_out(read.relation, new, level + 1, known)?;
            all.depth = all.depth.max(below.depth);
            all.relations = all.relations.saturating_add(below.relations.saturating_mul(times));
        }
        all.depth += 1;
        all.relations = all.relations.max(1);
        known.insert(id, all);
        Ok(all)
    }

    pub(crate) fn create_view(&mut self, version: Version, def: &ViewDef) -> Result<()> {
        self.check_free(&def.schema, &def.name)?;
        self.check_new(def.id, &def.name)?;
        self.check_reads(def)?;
        self.put_view(version, def);
        Ok(())
    }

    pub(crate) fn alter_view(&mut self, version: Version, def: &ViewDef, was: Version) -> Result<()> {
        let Some(entry) = self.views.get(&def.id).cloned() else {
            return Err(conflict(format!("view '{}' was dropped by another batch", def.name)));
        };
        if entry.changed_at != was && entry.changed_at != version {
            return Err(conflict(format!("view '{}' was altered by another batch", entry.def.name)));
        }
        if (&entry.def.schema, &entry.def.name) != (&def.schema, &def.name) {
            self.check_free(&def.schema, &def.name)?;
        }
        if def.columns.len() < entry.def.columns.len() {
            return Err(Error::internal(format!("view {} would lose a column", def.name)));
        }
        self.check_reads(def)?;
        self.free_name(&entry.def.schema, &entry.def.name);
        self.put_view(version, def);
        Ok(())
    }

    pub(crate) fn drop_view(&mut self, id: TableId) -> Result<()> {
        let Some(entry) = self.views.get(&id).cloned() else {
            return Err(conflict(format!("view number {id} was dropped by another batch")));
        };
        self.check_unread(&[Needed::Relation(id)], &entry.def.name)?;
        Arc::make_mut(&mut self.views).remove(&id);
        self.free_name(&entry.def.schema, &entry.def.name);
        self.forget_rights(id);
        Ok(())
    }

    /// Refuses that something goes which a view needs. Whoever asked for it has looked: the view came since.
    pub(crate) fn check_unread(&self, gone: &[Needed], name: &str) -> Result<()> {
        match self.views.values().find(|view| gone.iter().any(|gone| gone.is_needed_by(&view.def))) {
            Some(view) => {
                Err(conflict(format!("view '{}' of another batch needs what is dropped of '{name}'", view.def.name)))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn check_reads(&self, def: &ViewDef) -> Result<()> {
        for read in &def.reads {
            let Some((name, columns)) = self.relation_now(read.relation) else {
                return Err(conflict(format!(
                    "{}, which view '{}' reads, was dropped by another batch",
                    read.written, def.name
                )));
            };
            if let Some(id) = read.used.iter().find(|id| columns.iter().all(|(known, _)| known != *id)) {
                let column = read.columns.iter().find(|(known, _)| known == id).map_or("a column", |(_, name)| name);
                return Err(conflict(format!(
                    "column {column} of {name}, which view '{}' reads, was dropped by another batch",
                    def.name
                )));
            }
        }
        // What the statement's own definitions did not show, another batch has made.
        self.check_view(def).map_err(|error| conflict(error.message().to_owned()))
    }

    /// Its schema must be there.
    pub(crate) fn put_view(&mut self, version: Version, def: &ViewDef) {
        self.take_name(&def.schema, &def.name, def.id);
        let entry = ViewEntry { def: Arc::new(def.clone()), changed_at: version };
        Arc::make_mut(&mut self.views).insert(def.id, Arc::new(entry));
    }
}

/// What a relation comes to once views are what they stand for.
#[derive(Clone, Copy)]
struct WrittenOut {
    depth: usize,
    relations: usize,
}
