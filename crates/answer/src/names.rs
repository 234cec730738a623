//! Which members of a level share a name under different parents.
//!
//! `GROUP BY city` asks for names, and codes tell the Paris in France from the one in Texas. The dictionary knows the first code of
//! each name; whether any name has two is kept as long as the level has no new members.
//!
//! Invariants:
//! - A group of a name has the first code of the name, whichever of its members rows have: so exact answers, samples and the tail count
//!   into one group, and what a name's rows are is looked for by all of its codes.
//! - A map is asked for when all rows to be read have their codes, so it knows them. Codes are never taken back: the first code of a name
//!   stays its first.

use super::bound::Bound;
use alluvia_catalog::Dictionaries;
use alluvia_tree::CodeMap;
use alluvia_types::TableId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// For each code the first code of its name; `None` where no two codes have one name.
pub(crate) type FirstOfName = Option<Arc<CodeMap>>;

/// What was found, with the number of codes that there were.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Mutex<HashMap<(TableId, usize), (u32, FirstOfName)>>,
}

impl Names {
    /// Drops what is kept of tables that are gone.
    pub(crate) fn retain(&self, exists: impl Fn(TableId) -> bool) {
        self.known.lock().retain(|(table, _), _| exists(*table));
    }

    /// The first codes of all names of a level that has members.
    pub(crate) fn first(&self, table: TableId, dictionaries: &Dictionaries, level: usize) -> FirstOfName {
        let len = dictionaries.len(level);
        if let Some((known, first)) = self.known.lock().get(&(table, level))
            && *known == len
        {
            return first.clone();
        }
        let codes = dictionaries.first_codes(level)?;
        let len = codes.len() as u32;
        let first = share_names(&codes).then(|| Arc::new(CodeMap::of_codes(codes)));
        self.known.lock().insert((table, level), (len, first.clone()));
        first
    }
}

/// For each group's level the first codes of all names; `None` if levels are not known.
pub(super) fn first_codes(bound: &Bound, names: &Names) -> Option<Vec<FirstOfName>> {
    let of_level = |(&level, map): (&usize, &Option<Arc<CodeMap>>)| {
        // Members of a first level have no parents, and ordinals are by name.
        let (_, within, _) = bound.def.levels().nth(level)?;
        let may_share = within > 0 && map.is_none() && bound.dictionaries.has_members(level);
        Some(if may_share { names.first(bound.def.id, &bound.dictionaries, level) } else { None })
    };
    bound.groups.iter().zip(&bound.maps).map(of_level).collect()
}

/// What makes groups of codes: ordinals of a side as these maps have them, and names.
pub(super) fn with_names(
    bound: &Bound,
    names: &Names,
    maps: Vec<Option<Arc<CodeMap>>>,
) -> Option<Vec<Option<Arc<CodeMap>>>> {
    Some(maps.into_iter().zip(first_codes(bound, names)?).map(|(map, first)| map.or(first)).collect())
}

/// Whether two codes have one name.
fn share_names(first_codes: &[u32]) -> bool {
    (0..).zip(first_codes).any(|(code, first)| code != *first)
}

#[cfg(test)]
mod tests {
    use super::share_names;

    #[test]
    fn a_name_is_shared_where_a_code_is_not_its_first() {
        assert!(share_names(&[0, 1, 2, 1]) && share_names(&[0, 1, 1]));
        assert!(!share_names(&[0, 1, 2]) && !share_names(&[]));
    }
}
