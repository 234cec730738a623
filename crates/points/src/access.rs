//! How rows of a table are reached: by which index, by which values of its first columns, and in which order of tables.

use crate::condition::{Comparison, Condition};
use crate::expr::Expr;
use crate::names::ColumnPlace;
use alluvia_space::TableDef;
use std::collections::BTreeMap;

/// Ways of one table that are tried one after the other.
const WAYS_MAX: usize = 256;

/// One step: a table whose rows are looked for, for each row of those before.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Its place in the statement.
    pub(crate) table: usize,
    /// The columns of the index.
    pub(crate) index: Vec<usize>,
    /// Values of the first columns of the index: rows that have those of one are looked at.
    pub(crate) ways: Vec<Vec<Expr>>,
    /// Bounds of the next column, and whether they count.
    pub(crate) low: Option<(Expr, bool)>,
    pub(crate) high: Option<(Expr, bool)>,
    /// What must hold of the rows so far.
    pub(crate) conditions: Vec<Condition>,
}

impl Step {
    /// How many columns of the index are fixed.
    pub(crate) fn fixed(&self) -> usize {
        self.ways.first().map_or(0, Vec::len)
    }
}

/// The steps that look for rows of all tables of which all conditions hold; `None` where a table can be reached by no index.
pub(crate) fn steps(defs: &[&TableDef], conditions: &[Condition]) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::with_capacity(defs.len());
    while steps.len() < defs.len() {
        let is_there = |table: usize| steps.iter().any(|step| step.table == table);
        let left = (0..defs.len()).filter(|&table| !is_there(table));
        let step =
            left.filter_map(|table| step(table, defs[table], conditions, &is_there)).max_by_key(|(rank, _)| *rank)?;
        let (_, mut step) = step;
        let known = |table: usize| table == step.table || is_there(table);
        let is_new =
            |condition: &&Condition| !condition.reads_other_than(&known) && condition.reads_other_than(&is_there);
        step.conditions = conditions.iter().filter(is_new).cloned().collect();
        steps.push(step);
    }
    Some(steps)
}

/// The best way to a table's rows, with its rank.
fn step(
    table: usize,
    def: &TableDef,
    conditions: &[Condition],
    is_there: &dyn Fn(usize) -> bool,
) -> Option<((bool, usize, bool), Step)> {
    let own = |expr: &Expr| match expr {
        Expr::Column(place) if place.table == table => Some(place.column),
        _ => None,
    };
    // What a column is compared with, where that is known before.
    let bound = |condition: &Condition| {
        let Condition::Compared(left, comparison, right) = condition else { return None };
        let (column, comparison, with) = match (own(left), own(right)) {
            (Some(column), None) => (column, *comparison, right),
            (None, Some(column)) => (column, comparison.turned(), left),
            _ => return None,
        };
        (!with.reads_other_than(is_there)).then(|| (column, comparison, with.clone()))
    };
    let equalities = |conditions: &[Condition]| -> BTreeMap<usize, Expr> {
        let bounds = conditions.iter().filter_map(bound);
        bounds
            .filter(|(_, comparison, _)| *comparison == Comparison::Equal)
            .map(|(column, _, with)| (column, with))
            .collect()
    };
    let common = equalities(conditions);
    // Of one condition that has several ways to hold each is a way to rows.
    let alternatives = |condition: &Condition| match condition {
        Condition::Any(any) if any.len() <= WAYS_MAX => {
            let ways: Vec<_> = any.iter().map(|one| equalities(&one.clone().all())).collect();
            ways.iter().all(|way| !way.is_empty()).then_some(ways)
        }
        _ => None,
    };
    let mut all = vec![vec![BTreeMap::new()]];
    all.extend(conditions.iter().filter_map(alternatives));
    let mut best: Option<((bool, usize, bool), Step)> = None;
    for ways in &all {
        for index in indexes_of(def) {
            let value = |way: &BTreeMap<usize, Expr>, column: &usize| way.get(column).or(common.get(column)).cloned();
            let is_fixed = |column: &&usize| ways.iter().all(|way| value(way, column).is_some());
            let fixed = index.iter().take_while(is_fixed).count();
            let ways = ways.iter().map(|way| index[..fixed].iter().filter_map(|column| value(way, column)).collect());
            let next = index.get(fixed);
            let of_next = |wanted: [Comparison; 2]| {
                let mut bounds = conditions.iter().filter_map(bound);
                let found =
                    bounds.find(|(column, comparison, _)| Some(column) == next && wanted.contains(comparison))?;
                Some((found.2, found.1 == wanted[1]))
            };
            let low = of_next([Comparison::Greater, Comparison::GreaterOrEqual]);
            let high = of_next([Comparison::Less, Comparison::LessOrEqual]);
            if fixed == 0 && (low.is_none() || high.is_none()) {
                continue;
            }
            let is_whole = fixed == index.len() && Some(&index) == def.key_columns().as_ref();
            let rank = (is_whole, fixed, low.is_some() || high.is_some());
            if best.as_ref().is_none_or(|(known, _)| rank > *known) {
                let ways = ways.collect();
                best = Some((rank, Step { table, index, ways, low, high, conditions: Vec::new() }));
            }
        }
    }
    best
}

/// The columns of the indexes that a heap of a table has.
fn indexes_of(def: &TableDef) -> Vec<Vec<usize>> {
    alluvia_heap::indexes_of(def)
}

/// The columns of an index behind those that are fixed.
pub(crate) fn order_of(step: &Step) -> impl Iterator<Item = ColumnPlace> + '_ {
    step.index.iter().skip(step.fixed()).map(|&column| ColumnPlace { table: step.table, column })
}
