//! Which members of a level share a name under different parents.
//!
//! `GROUP BY city` asks for names, and codes tell the Paris in France from the one in Texas. The dictionary knows the first code of
//! each name; whether any name has two is kept as long as the level has no new members.

use alluvia_catalog::Dictionaries;
use alluvia_types::TableId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// For each code the first code of its name; `None` where no two codes have one name.
pub(crate) type FirstOfName = Option<Arc<[u32]>>;

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
        let first = share_names(&codes).then_some(codes);
        self.known.lock().insert((table, level), (len, first.clone()));
        first
    }
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
