//! Which statements constraints concern: of others nothing is to be looked at.

use alluvia_catalog::Catalog;
use alluvia_space::TableDef;

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
