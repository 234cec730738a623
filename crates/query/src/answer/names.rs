//! Which members of a level share a name under different parents.
//!
//! `GROUP BY city` asks for names, and codes tell the Paris in France from the one in Texas. What is found is kept as long as
//! the level has no new members.

use alluvia_catalog::Dictionaries;
use alluvia_types::TableId;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::row::{RowConverter, SortField};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// For each code the first code of its name; `None` where no two codes have one name.
pub(crate) type FirstOfName = Option<Arc<Vec<u32>>>;

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

    /// The first codes of all names of a level that has members. `None` if they cannot be had.
    pub(crate) fn first(&self, table: TableId, dictionaries: &Dictionaries, level: usize) -> Option<FirstOfName> {
        let len = dictionaries.len(level);
        if let Some((known, first)) = self.known.lock().get(&(table, level))
            && *known == len
        {
            return Some(first.clone());
        }
        let members = dictionaries.value_array(level).ok()?;
        let first = first_of(&members)?.map(Arc::new);
        self.known.lock().insert((table, level), (members.len() as u32, first.clone()));
        Some(first)
    }
}

fn first_of(members: &ArrayRef) -> Option<Option<Vec<u32>>> {
    if let Some(texts) = members.as_string_opt::<i32>() {
        return Some(number(texts.iter()));
    }
    // Values of other types are compared as the bytes of a row.
    let converter = RowConverter::new(vec![SortField::new(members.data_type().clone())]).ok()?;
    let rows = converter.convert_columns(std::slice::from_ref(members)).ok()?;
    Some(number(rows.iter().map(|row| row.as_ref().to_vec())))
}

fn number<T: Hash + Eq>(names: impl Iterator<Item = T>) -> Option<Vec<u32>> {
    let mut seen: HashMap<T, u32> = HashMap::new();
    let mut any = false;
    let number = |(code, name): (usize, T)| {
        let first = *seen.entry(name).or_insert(code as u32);
        any |= first != code as u32;
        first
    };
    let first: Vec<u32> = names.enumerate().map(number).collect();
    any.then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringArray};

    #[test]
    fn names_are_numbered_by_their_first_code() {
        let cities: ArrayRef = Arc::new(StringArray::from(vec![None, Some("Paris"), Some("Lima"), Some("Paris")]));
        assert_eq!(first_of(&cities), Some(Some(vec![0, 1, 2, 1])));
        let shelves: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(3), Some(4)]));
        assert_eq!(first_of(&shelves), Some(None));
    }
}
