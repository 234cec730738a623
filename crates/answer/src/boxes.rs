//! From conditions to boxes of codes.
//!
//! Invariants:
//! - The boxes together hold exactly the rows for which all conditions are true, and no two of them have a row in common: what is
//!   added up over them is added up once.
//! - A box has at most one filter for each level.
//!
//! An `OR` of conditions on one level is a set of codes. Any other takes what the first box has away from the next: a box minus
//! a box is, for each level of the latter, the part outside at that level and inside at the levels before. Boxes that differ at one
//! level only are one box, before and after: so a list of pairs of members makes no more boxes than one of the columns has members in it. There
//! are few boxes where there are few `OR`s; where not, the scan is no slower.
//!
//! A range of times whose ends fall inside units of its calendar is a box of all units that have any of its times, of whose rows those at the
//! *edges*, in the units that it begins or ends within, count where their own values lie in the range. While boxes are made, the times of such
//! a column are a level of their own ([`times::Axis`]), behind all others; boxes of that level get units and ranges when all is done.

use super::conditions::{filter_of, last_code};
use super::declined::Declined;
use super::statement::{Condition, Test};
use super::times;
use alluvia_catalog::Dictionaries;
use alluvia_space::TableDef;
use alluvia_tree::{CodeSet, LevelFilter, TimeRange};

/// More boxes than this are left to the scan: each walks the tree by itself.
const BOXES_MAX: usize = 16;

/// Units at the edges of ranges of a column; more are left to the scan, which reads values one after the other.
const EDGES_MAX: usize = 16;

/// Of more boxes than this it is not tried whether some are one: each is held against all others.
const MERGED_MAX: usize = 512;

/// Filters, all of which hold, ascending by level.
pub(super) type Filters = Vec<LevelFilter>;

/// Rows of a box: of those that pass the filters, all but those at the edges of the ranges that do not lie in them.
pub(super) struct Found {
    pub(super) filters: Filters,
    pub(super) times: Vec<TimeRange>,
}

/// The rows for which all conditions hold: at least one box; or why they are not few boxes.
pub(super) fn boxes(
    def: &TableDef,
    dictionaries: &Dictionaries,
    conditions: &[Condition],
) -> Result<Vec<Found>, Declined> {
    let levels = def.levels().count();
    // Behind all levels.
    let axes = times::axes(def, dictionaries, conditions);
    let filter = |column: &str, test: &Test| {
        let axis = axes.iter().position(|axis| axis.is_of(column));
        let own = axis.and_then(|at| Some(LevelFilter { level: levels + at, codes: axes[at].codes(test)? }));
        own.or_else(|| filter_of(def, dictionaries, column, test)).ok_or_else(|| {
            let column = def.columns.iter().find(|own| own.name == column);
            column.map_or(Declined::UnknownColumn, |column| Declined::ConditionOn(column.id))
        })
    };
    let last = |level: usize| match level.checked_sub(levels) {
        Some(at) => axes[at].last(),
        None => last_code(dictionaries, level),
    };
    let found = Maker { filter: &filter, last: &last }.all(conditions)?;
    let found = found.into_iter().map(|filters| without_axes(&filters, levels, &axes).ok_or(Declined::Edges));
    found.collect()
}

/// A box by the table's own levels.
fn without_axes(filters: &Filters, levels: usize, axes: &[times::Axis<'_>]) -> Option<Found> {
    let (own, of_axes) = filters.split_at(filters.partition_point(|filter| filter.level < levels));
    let mut found = Found { filters: own.to_vec(), times: Vec::new() };
    for filter in of_axes {
        let axis = &axes[filter.level - levels];
        let times::Units { codes, range } = axis.units(&filter.codes, EDGES_MAX)?;
        found.filters = with(&found.filters, axis.level(), &codes);
        found.times.extend(range);
    }
    Some(found)
}

fn is_empty(filters: &[LevelFilter]) -> bool {
    filters.iter().any(|filter| filter.codes.is_empty())
}

struct Maker<'a> {
    filter: &'a dyn Fn(&str, &Test) -> Result<LevelFilter, Declined>,
    /// The greatest code of a level.
    last: &'a dyn Fn(usize) -> u32,
}

impl Maker<'_> {
    fn of(&self, condition: &Condition) -> Result<Vec<Filters>, Declined> {
        match condition {
            Condition::Column(column, test) => Ok(vec![vec![(self.filter)(column, test)?]]),
            Condition::All(parts) => self.all(parts),
            Condition::Any(parts) => self.any(parts),
        }
    }

    fn all<'c>(&self, conditions: impl IntoIterator<Item = &'c Condition>) -> Result<Vec<Filters>, Declined> {
        let mut boxes = vec![Vec::new()];
        for condition in conditions {
            let others = self.of(condition)?;
            let pairs = boxes.iter().flat_map(|one| others.iter().map(move |other| intersection(one, other)));
            boxes = at_most_max(merged(without_empty(pairs.collect())))?;
        }
        Ok(boxes)
    }

    fn any(&self, conditions: &[Condition]) -> Result<Vec<Filters>, Declined> {
        // That nothing matches is said by a filter, and there is none.
        if conditions.is_empty() {
            return Err(Declined::Condition);
        }
        let mut levels: Vec<LevelFilter> = Vec::new();
        let mut others: Vec<Filters> = Vec::new();
        for condition in conditions {
            for filters in self.of(condition)? {
                match filters.as_slice() {
                    [one] => match levels.iter_mut().find(|known| known.level == one.level) {
                        Some(known) => known.codes = known.codes.union(&one.codes),
                        None => levels.push(one.clone()),
                    },
                    _ => others.push(filters),
                }
            }
        }
        let mut boxes: Vec<Filters> = Vec::new();
        for next in levels.into_iter().map(|filter| vec![filter]).chain(merged(others)) {
            let mut pieces = vec![next];
            for held in &boxes {
                let less = pieces.iter().flat_map(|piece| self.difference(piece, held));
                pieces = at_most_max(less.collect())?;
            }
            boxes = at_most_max(merged(boxes.into_iter().chain(pieces).collect()))?;
        }
        Ok(without_empty(boxes))
    }

    /// The rows of a box that are not in another, as boxes.
    fn difference(&self, filters: &Filters, other: &Filters) -> Vec<Filters> {
        if is_empty(&intersection(filters, other)) {
            return vec![filters.clone()];
        }
        let mut pieces = Vec::new();
        let mut inside = filters.clone();
        for LevelFilter { level, codes } in other {
            let outside = codes.complement((self.last)(*level));
            let piece = with(&inside, *level, &outside);
            if !is_empty(&piece) {
                pieces.push(piece);
            }
            inside = with(&inside, *level, codes);
        }
        pieces
    }
}

fn at_most_max<B>(boxes: Vec<B>) -> Result<Vec<B>, Declined> {
    if boxes.len() <= BOXES_MAX { Ok(boxes) } else { Err(Declined::Boxes) }
}

/// The boxes that are not empty; the first one, if all are.
fn without_empty(mut boxes: Vec<Filters>) -> Vec<Filters> {
    if boxes.iter().all(|filters| is_empty(filters)) {
        boxes.truncate(1);
    } else {
        boxes.retain(|filters| !is_empty(filters));
    }
    boxes
}

/// The same rows in fewer boxes, where boxes differ at one level only. What had no rows in common has none afterwards.
fn merged(boxes: Vec<Filters>) -> Vec<Filters> {
    if boxes.len() > MERGED_MAX {
        return boxes;
    }
    let mut all: Vec<Filters> = Vec::with_capacity(boxes.len());
    for mut next in boxes {
        // What has grown may fit another one, now.
        while let Some((at, both)) = all.iter().enumerate().find_map(|(at, known)| Some((at, as_one(known, &next)?))) {
            all.remove(at);
            next = both;
        }
        all.push(next);
    }
    all
}

/// Two boxes as one, if they differ at one level at most.
fn as_one(one: &Filters, other: &Filters) -> Option<Filters> {
    if one.len() != other.len() || one.iter().zip(other).any(|(a, b)| a.level != b.level) {
        return None;
    }
    let mut differ = one.iter().zip(other).enumerate().filter(|(_, (a, b))| a.codes != b.codes);
    let Some((at, (a, b))) = differ.next() else { return Some(one.clone()) };
    if differ.next().is_some() {
        return None;
    }
    let mut both = one.clone();
    both[at].codes = a.codes.union(&b.codes);
    Some(both)
}

fn intersection(one: &Filters, other: &Filters) -> Filters {
    other.iter().fold(one.clone(), |all, filter| with(&all, filter.level, &filter.codes))
}

/// A box with one more filter.
pub(super) fn with(filters: &Filters, level: usize, codes: &CodeSet) -> Filters {
    let mut filters = filters.clone();
    match filters.binary_search_by_key(&level, |filter| filter.level) {
        Ok(at) => filters[at].codes = filters[at].codes.intersect(codes),
        Err(at) => filters.insert(at, LevelFilter { level, codes: codes.clone() }),
    }
    filters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Literal;
    use proptest::prelude::*;

    const LEVELS: usize = 3;
    const LAST: u32 = 4;

    fn condition() -> impl Strategy<Value = Condition> {
        let column = (0..LEVELS, prop::collection::vec(0..=LAST, 0..4)).prop_map(|(level, codes)| {
            let literals = codes.iter().map(|code| Literal::Number(code.to_string())).collect();
            Condition::Column(level.to_string(), Test::In(literals))
        });
        column.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::All),
                prop::collection::vec(inner, 1..4).prop_map(Condition::Any),
            ]
        })
    }

    fn codes(test: &Test) -> Vec<u32> {
        let Test::In(literals) = test else { panic!("only lists are made") };
        let code = |literal: &Literal| match literal {
            Literal::Number(text) => text.parse().expect("a code"),
            other => panic!("{other:?}"),
        };
        literals.iter().map(code).collect()
    }

    fn is_true(condition: &Condition, row: &[u32; LEVELS]) -> bool {
        match condition {
            Condition::Column(level, test) => codes(test).contains(&row[level.parse::<usize>().expect("a level")]),
            Condition::All(parts) => parts.iter().all(|part| is_true(part, row)),
            Condition::Any(parts) => parts.iter().any(|part| is_true(part, row)),
        }
    }

    fn of(level: usize, codes: &[u32]) -> Condition {
        let literals = codes.iter().map(|code| Literal::Number(code.to_string())).collect();
        Condition::Column(level.to_string(), Test::In(literals))
    }

    fn boxes_of(conditions: &[Condition]) -> Option<Vec<Filters>> {
        let filter = |level: &str, test: &Test| {
            let level = level.parse().expect("a level");
            Ok(LevelFilter { level, codes: CodeSet::of_codes(codes(test)) })
        };
        Maker { filter: &filter, last: &|_| LAST }.all(conditions).ok()
    }

    #[test]
    fn what_differs_at_one_level_is_one_box() {
        let pair = |first: u32, second: u32| Condition::All(vec![of(0, &[first]), of(1, &[second])]);
        let count = |parts: Vec<Condition>| boxes_of(&[Condition::Any(parts)]).map(|boxes| boxes.len());
        assert_eq!(count((0..=LAST).map(|code| pair(code, 2)).collect()), Some(1));
        // All pairs of two lists are one box, and more of them than there may be boxes are no hindrance.
        assert_eq!(count((0..20).map(|at| pair(at % 4, at / 4)).collect()), Some(1));
        assert_eq!(count(vec![pair(1, 1), pair(2, 2), pair(1, 2), pair(2, 1), pair(3, 3)]), Some(2));
        // A OR B is A, and B without A.
        let either = boxes_of(&[Condition::Any(vec![of(0, &[1]), of(1, &[2, 3])])]).expect("two boxes");
        let outside = CodeSet::of_codes(vec![0, 2, 3, 4]);
        let first = LevelFilter { level: 0, codes: CodeSet::of_codes(vec![1]) };
        let second = LevelFilter { level: 1, codes: CodeSet::of_codes(vec![2, 3]) };
        assert_eq!(either, [vec![first], vec![LevelFilter { level: 0, codes: outside }, second]]);
    }

    #[test]
    fn there_is_a_box_though_nothing_matches() {
        let nothing = Some(vec![vec![LevelFilter { level: 0, codes: CodeSet::of_codes(Vec::new()) }]]);
        assert_eq!(boxes_of(&[of(0, &[])]), nothing);
        assert_eq!(boxes_of(&[Condition::Any(vec![of(0, &[]), of(0, &[])])]), nothing);
        assert_eq!(boxes_of(&[Condition::Any(Vec::new())]), None);
        assert_eq!(boxes_of(&[of(0, &[1]), Condition::Any(Vec::new())]), None);
    }

    proptest! {
        #[test]
        fn each_row_that_holds_is_in_one_box_and_no_other_is(conditions in prop::collection::vec(condition(), 0..3)) {
            let Some(boxes) = boxes_of(&conditions) else { return Ok(()) };
            prop_assert!(!boxes.is_empty());
            for filters in &boxes {
                prop_assert!(filters.is_sorted_by(|a, b| a.level < b.level));
            }
            for row in (0..(LAST + 1).pow(LEVELS as u32)).map(|n| [n % 5, n / 5 % 5, n / 25]) {
                let inside = |filters: &&Filters| filters.iter().all(|filter| filter.codes.contains(row[filter.level]));
                let expected = usize::from(conditions.iter().all(|condition| is_true(condition, &row)));
                prop_assert_eq!(boxes.iter().filter(inside).count(), expected, "{:?} {:?}", row, boxes);
            }
        }
    }
}
