//! Lists in brackets among what is grouped by: `GROUP BY (a, b)`, `ROLLUP ((a, b), c)`, `CUBE ((a, b), c)`.
//!
//! Invariants, as in PostgreSQL:
//! - A plain list is each of its columns, whose numbers are positions of the select list.
//! - A list in ROLLUP or CUBE comes and goes as one.
//!
//! DataFusion 55.2 takes a plain list for one value of several parts, and refuses those in ROLLUP and CUBE: they become GROUPING SETS.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: ROLLUP, CUBE, GROUP BY, tuple, composite
//! columns, struct).
//! Held by `slt/phrases.slt` (`GROUP BY (country, plan)`, `GROUP BY ROLLUP ((country, plan), id % 1)`).

use super::rewriting::call_of;
use super::visit::visit_mut;
use sqlparser::ast::{Expr, GroupByExpr, Query, Select, VisitorMut};
use std::ops::ControlFlow;

/// Columns of a CUBE within other sets.
const CUBE_MAX: usize = 8;

/// Writes lists as planning takes them. It comes before anything else that looks for keys of groups, and after [`crate::bounds`].
pub fn write_out(query: &mut Query) {
    let _ = visit_mut(query, &mut Lists);
}

struct Lists;

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by
            && groups.iter().any(is_list)
        {
            // Lists of no columns alone are another question than no groups: those are left as they are.
            let are_empty = groups.iter().all(|group| parts_of(group).is_some_and(<[Expr]>::is_empty));
            *groups = std::mem::take(groups)
                .into_iter()
                .flat_map(|group| match &group {
                    Expr::Rollup(elements) if has_list(elements) => {
                        vec![Expr::GroupingSets(rolled_up(&flat(elements)))]
                    }
                    Expr::Cube(elements) if has_list(elements) => vec![Expr::GroupingSets(cubed(&flat(elements)))],
                    _ => match parts_of(&group) {
                        Some(parts) if !are_empty => columns(parts),
                        _ => vec![group],
                    },
                })
                .collect();
        }
        ControlFlow::Continue(())
    }
}

/// Writes ROLLUP and CUBE within GROUPING SETS out as the sets that they are.
pub(crate) fn flatten_sets(groups: &mut [Expr]) {
    for group in groups {
        let Expr::GroupingSets(sets) = group else { continue };
        if sets.iter().any(|set| sets_within(set).is_some()) {
            *sets = std::mem::take(sets)
                .into_iter()
                .flat_map(|set| sets_within(&set).unwrap_or_else(|| vec![set]))
                .collect();
        }
    }
}

/// The sets of ROLLUP or CUBE, which the parser takes for a call there.
fn sets_within(set: &[Expr]) -> Option<Vec<Vec<Expr>>> {
    let [Expr::Function(function)] = set else { return None };
    let (name, parts) = call_of(function)?;
    let elements: Vec<Vec<Expr>> = parts
        .into_iter()
        .map(|part| match parts_of(part) {
            Some(parts) => columns(parts),
            None => vec![part.clone()],
        })
        .collect();
    match name.as_str() {
        "rollup" => Some(rolled_up(&elements)),
        "cube" if elements.len() <= CUBE_MAX => Some(cubed(&elements)),
        _ => None,
    }
}

fn is_list(group: &Expr) -> bool {
    match group {
        Expr::Rollup(elements) | Expr::Cube(elements) => has_list(elements),
        other => parts_of(other).is_some(),
    }
}

fn has_list(elements: &[Vec<Expr>]) -> bool {
    elements.iter().any(|element| element.len() != 1 || element.iter().any(|part| parts_of(part).is_some()))
}

/// The parts of a list, which may stand in more brackets.
fn parts_of(group: &Expr) -> Option<&[Expr]> {
    match group {
        Expr::Tuple(parts) => Some(parts),
        Expr::Nested(inner) => parts_of(inner),
        _ => None,
    }
}

/// How many columns parts of GROUP BY are once lists are written out.
pub fn columns_of(parts: &[Expr]) -> usize {
    parts.iter().map(|part| parts_of(part).map_or(1, columns_of)).sum()
}

/// The columns of a list, also of lists within it.
fn columns(parts: &[Expr]) -> Vec<Expr> {
    let each = |part: &Expr| match parts_of(part) {
        Some(parts) => columns(parts),
        None => vec![part.clone()],
    };
    parts.iter().flat_map(each).collect()
}

/// Elements without lists in them.
fn flat(elements: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    elements.iter().map(|element| columns(element)).collect()
}

/// All elements, all but the last, and so on to none.
fn rolled_up(elements: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=elements.len()).rev().map(|count| elements[..count].concat()).collect()
}

/// Every choice of elements, of which there are as many as [`crate::bounds`] allows.
fn cubed(elements: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let mut sets: Vec<Vec<Expr>> = vec![Vec::new()];
    for element in elements {
        let with = sets.iter().map(|set| [set.as_slice(), element.as_slice()].concat());
        sets = with.chain(sets.iter().cloned()).collect();
    }
    sets
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    fn told(groups: &str) -> String {
        let sql = format!("SELECT count(*) FROM t GROUP BY {groups}");
        let Kind::Query(query) = parse(&sql).unwrap().remove(0).kind else { panic!("a query: {sql}") };
        let told = query.to_string();
        told.split_once("GROUP BY ").unwrap().1.to_owned()
    }

    #[test]
    fn lists_are_their_columns_and_come_and_go_as_one() {
        for (groups, wanted) in [
            ("(a, b)", "a, b"),
            ("c, (a, b)", "c, a, b"),
            ("((a, b), c), d", "a, b, c, d"),
            ("a, ()", "a"),
            ("((a, b))", "a, b"),
            ("(((a, (b))), c), d", "a, (b), c, d"),
            ("ROLLUP (((a, b)), c)", "GROUPING SETS ((a, b, c), (a, b), ())"),
            ("ROLLUP ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), ())"),
            ("d, ROLLUP (c, (a, b))", "d, GROUPING SETS ((c, a, b), (c), ())"),
            ("CUBE ((a, b), c)", "GROUPING SETS ((a, b, c), (c), (a, b), ())"),
        ] {
            assert_eq!(told(groups), wanted);
        }
        for same in ["a, b", "(a), b", "ROLLUP (a, b)", "CUBE (a, b)", "GROUPING SETS ((a, b), (a), ())", "a + (b)"] {
            assert_eq!(told(same), same);
        }
    }
}
