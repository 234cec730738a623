//! Which statements constraints concern: of others nothing is to be looked at.

use alluvia_catalog::{Catalog, TableEntry};
use alluvia_space::TableDef;
use alluvia_types::{TableId, Version};
use std::collections::BTreeMap;

/// What a statement does to rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing<'a> {
    /// Rows come.
    Inserts,
    /// Columns at these places are set.
    Sets(&'a [usize]),
    /// Rows go.
    Deletes,
    /// Any of these.
    Any,
}

/// Whether constraints concern what a statement does to a table.
pub fn concerns(catalog: &Catalog, def: &TableDef, doing: Doing<'_>) -> bool {
    let says = || def.unique_indexes().next().is_some() || !def.foreign_keys.is_empty();
    let is_referred = || catalog.references_to(def.id).next().is_some();
    match doing {
        Doing::Inserts => says(),
        Doing::Deletes => is_referred(),
        Doing::Any => says() || is_referred(),
        Doing::Sets(places) => {
            let is_set =
                |id: &_| places.iter().any(|place| def.columns.get(*place).is_some_and(|known| known.id == *id));
            def.unique_indexes().any(|index| index.columns.iter().any(is_set))
                || def.foreign_keys.iter().any(|key| key.columns.iter().any(is_set))
                || catalog.references_to(def.id).any(|(_, key)| key.parent_columns.iter().any(is_set))
        }
    }
}

/// Of which tables it was decided whether constraints concern what a statement does to them, and by which definitions. Whoever comes to
/// be referred to is defined anew, so what was decided is so for as long as the definition is.
#[derive(Debug, Default)]
pub struct Decided {
    all: bool,
    by: BTreeMap<TableId, Version>,
}

impl Decided {
    /// It was decided by this definition.
    pub fn note(&mut self, entry: &TableEntry) {
        self.all = false;
        self.by.insert(entry.def.id, entry.changed_at);
    }

    /// All that there was to be looked at has been looked at.
    pub fn note_all(&mut self) {
        self.all = true;
    }

    /// Whether it was decided by this definition of a table.
    pub fn knows(&self, table: TableId, changed_at: Version) -> bool {
        self.all || self.by.get(&table) == Some(&changed_at)
    }

    /// Whether it was decided by any.
    pub fn names(&self, table: TableId) -> bool {
        self.by.contains_key(&table)
    }
}
