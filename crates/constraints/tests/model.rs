//! Random statements over three tables that refer to one another, against what the same statements do to plain maps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use alluvia_catalog::{Catalog, Change};
use alluvia_constraints::settle;
use alluvia_space::{Action, Index};
use alluvia_types::{ColumnId, ErrorKind, TableId, Version};
use common::{CHILD, GRANDCHILD, PARENT, Plain, Rows, def, key};
use futures::FutureExt;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What a statement comes to by the rules alone: rows after it, or that it is refused.
fn expected(
    catalog: &Catalog,
    before: &BTreeMap<TableId, Rows>,
    table: TableId,
    old: &[i32],
    new: &[Vec<Option<i32>>],
) -> Option<BTreeMap<TableId, Rows>> {
    let mut all = before.clone();
    let is_update = !old.is_empty() && !new.is_empty();
    let mut became: BTreeMap<(TableId, u32, i32), Option<i32>> = BTreeMap::new();
    let mut queue = vec![(table, old.to_vec(), new.to_vec())];
    while let Some((table, old, new)) = queue.pop() {
        let rows = all.get_mut(&table).unwrap();
        for (at, key) in old.iter().enumerate() {
            let was = rows.remove(key).unwrap();
            for (column, value) in was.iter().enumerate() {
                let Some(value) = value else { continue };
                let next = new.get(at).filter(|_| is_update).and_then(|row| row[column]);
                if next != Some(*value) {
                    became.insert((table, column as u32, *value), next);
                }
            }
        }
        for row in &new {
            rows.insert(row[0].unwrap(), row.clone());
        }
        for child in catalog.tables() {
            for key in child.def.foreign_keys.iter().filter(|key| key.parent == table) {
                let (from, of) = (key.columns[0].0 as usize, key.parent_columns[0].0);
                let action = if is_update { key.on_update } else { key.on_delete };
                let lost: Vec<(i32, Vec<Option<i32>>)> = all[&child.def.id]
                    .iter()
                    .filter(|(_, row)| row[from].is_some_and(|value| became.contains_key(&(table, of, value))))
                    .map(|(key, row)| (*key, row.clone()))
                    .collect();
                if lost.is_empty() || matches!(action, Action::NoAction | Action::Restrict) {
                    continue;
                }
                let keys: Vec<i32> = lost.iter().map(|(key, _)| *key).collect();
                let rows: Vec<Vec<Option<i32>>> = lost
                    .into_iter()
                    .map(|(_, mut row)| {
                        row[from] = match action {
                            Action::Cascade => became[&(table, of, row[from].unwrap())],
                            _ => None,
                        };
                        row
                    })
                    .collect();
                let is_gone = action == Action::Cascade && !is_update;
                queue.push((child.def.id, keys, if is_gone { Vec::new() } else { rows }));
                // What follows is seen by what comes next.
                let (table, keys, rows) = queue.pop().unwrap();
                let known = all.get_mut(&table).unwrap();
                let kept: Vec<i32> = keys.iter().copied().filter(|key| known.contains_key(key)).collect();
                if rows.is_empty() {
                    queue.push((table, kept, rows));
                } else {
                    for row in rows {
                        known.insert(row[0].unwrap(), row);
                    }
                }
            }
        }
    }
    for entry in catalog.tables() {
        let rows = &all[&entry.def.id];
        for index in entry.def.unique_indexes() {
            let mut seen = HashSet::new();
            let at = index.columns[0].0 as usize;
            if rows.values().filter_map(|row| row[at]).any(|value| !seen.insert(value)) {
                return None;
            }
        }
        for key in &entry.def.foreign_keys {
            let of = key.parent_columns[0].0 as usize;
            let parents: HashSet<i32> = all[&key.parent].values().filter_map(|row| row[of]).collect();
            let from = key.columns[0].0 as usize;
            if rows.values().filter_map(|row| row[from]).any(|value| !parents.contains(&value)) {
                return None;
            }
        }
    }
    Some(all)
}

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn value(&mut self) -> Option<i32> {
        (self.below(5) > 0).then(|| self.below(12) as i32)
    }
}

#[test]
fn random_statements_come_to_what_the_rules_say() {
    let actions = [Action::NoAction, Action::Cascade, Action::SetNull];
    let mut done = (0, 0);
    for seed in 0..60_u64 {
        let mut random = Random(seed);
        let mut action = || actions[random.below(3) as usize];
        let unique = |name: &str, column| Index {
            name: name.to_owned(),
            columns: vec![ColumnId(column)],
            unique: true,
            is_constraint: true,
        };
        let mut parent = def(PARENT, "p", &["id", "u"]);
        parent.indexes.push(unique("p_u_key", 1));
        let mut child = def(CHILD, "c", &["id", "p_id", "p_u"]);
        child.foreign_keys.push(key("c_p_id_fkey", 1, PARENT, 0, action(), Action::NoAction));
        child.foreign_keys.push(key("c_p_u_fkey", 2, PARENT, 1, action(), action()));
        let mut grandchild = def(GRANDCHILD, "g", &["id", "c_id"]);
        grandchild.foreign_keys.push(key("g_c_id_fkey", 1, CHILD, 0, action(), Action::NoAction));
        let changes: Vec<Change> =
            [parent, child, grandchild].into_iter().map(|def| Change::CreateTable { def }).collect();
        let catalog = Arc::new(Catalog::default().apply(Version(1), &changes).unwrap());
        let mut tables: BTreeMap<TableId, Rows> = [PARENT, CHILD, GRANDCHILD].map(|id| (id, Rows::new())).into();
        for _ in 0..200 {
            let table = TableId(1 + random.below(3) as u32);
            let width = catalog.by_id(table).unwrap().def.columns.len();
            let mut row = |key: i32| -> Vec<Option<i32>> {
                std::iter::once(Some(key)).chain((1..width).map(|_| random.value())).collect()
            };
            let keys: Vec<i32> = (0..12).collect();
            let some: Vec<i32> = {
                let mut random = Random(seed ^ 77 ^ tables[&table].len() as u64);
                keys.into_iter().filter(|_| random.below(5) == 0).collect()
            };
            let there: Vec<i32> = some.iter().copied().filter(|key| tables[&table].contains_key(key)).collect();
            let free: Vec<i32> = some.iter().copied().filter(|key| !tables[&table].contains_key(key)).collect();
            let new: Vec<Vec<Option<i32>>> = free.iter().map(|key| row(*key)).collect();
            let changed: Vec<Vec<Option<i32>>> = there.iter().map(|key| row(*key)).collect();
            let (old, new, pairs) = match random.below(3) {
                0 => (Vec::new(), new, false),
                1 => (there, changed, true),
                _ => (there, Vec::new(), false),
            };
            if old.is_empty() && new.is_empty() {
                continue;
            }
            let plain = Plain::new(&catalog, tables.clone());
            plain.apply(table, &old, &new, None, pairs);
            let result = settle(&plain).now_or_never().expect("nothing waits");
            let wanted = expected(&catalog, &tables, table, &old, &new);
            match (result, wanted) {
                (Ok(()), Some(wanted)) => {
                    tables = plain.tables.into_inner().unwrap();
                    assert_eq!(tables, wanted, "seed {seed}: {table} {old:?} -> {new:?}");
                    done.0 += 1;
                }
                (Err(error), None) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::UniqueViolation | ErrorKind::ForeignKeyViolation),
                        "{error}"
                    );
                    done.1 += 1;
                }
                (result, wanted) => {
                    panic!("seed {seed}: {table} {old:?} -> {new:?} is {result:?}, and {wanted:?} was wanted")
                }
            }
        }
    }
    assert!(done.0 > 500 && done.1 > 500, "{done:?}");
}
