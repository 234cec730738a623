//! Which codes a group can have, where a condition is on a coarser level of its dimension.
//!
//! `WHERE country = 'Chile' GROUP BY city`: blocks at Chile's border hold cities of other countries, which no row of the answer has. A
//! sample that knows does not look for them.

use super::bound::Bound;
use alluvia_space::LevelSource;
use alluvia_tree::{BoxQuery, CodeSet, LevelFilter};

/// Members of a level beyond which they are not gone through.
const MEMBERS_MAX: u32 = 1 << 16;

/// For each of the questions' groups, which all share, the codes that rows of any of their boxes can have; `None` where nothing is known.
pub(super) fn of(bound: &Bound, questions: &[BoxQuery]) -> Vec<Option<CodeSet>> {
    let of_group = |&level: &usize| {
        let each: Option<Vec<CodeSet>> = questions.iter().map(|question| of_level(bound, question, level)).collect();
        each?.into_iter().reduce(|any, codes| any.union(&codes))
    };
    questions.first().map_or_else(Vec::new, |question| question.groups.iter().map(of_group).collect())
}

fn of_level(bound: &Bound, question: &BoxQuery, level: usize) -> Option<CodeSet> {
    let dictionaries = &bound.dictionaries;
    if !dictionaries.has_members(level) || dictionaries.len(level) > MEMBERS_MAX {
        return None;
    }
    let dimension = bound.dimensions[level];
    let coarser: Vec<_> = question
        .filters
        .iter()
        .filter(|filter| filter.level < level && bound.dimensions[filter.level] == dimension)
        .filter(|filter| (filter.level..level).all(|level| is_column(bound, level)))
        .collect();
    if coarser.is_empty() || !is_column(bound, level) {
        return None;
    }
    // What is below a NULL may be under any parent of that.
    let passes = |code: u32, filter: &LevelFilter| {
        dictionaries.ancestor(level, filter.level, code).is_none_or(|ancestor| filter.codes.contains(ancestor))
    };
    let fits = |&code: &u32| coarser.iter().all(|filter| passes(code, filter));
    Some(CodeSet::of_codes((0..dictionaries.len(level)).filter(fits).collect()))
}

fn is_column(bound: &Bound, level: usize) -> bool {
    bound.def.levels().nth(level).is_some_and(|(_, _, level)| matches!(level.source, LevelSource::Column(_)))
}
