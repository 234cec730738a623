//! Selection in a cuboid: the places on each axis whose cells add up to an answer.

use super::super::question::BoxQuery;
use super::cells::Axis;
use super::{Ancestor, code_of};
use crate::answer::groups::GroupKeys;

/// What an answer takes of one axis.
#[derive(Debug)]
pub(super) struct Chosen {
    /// In cells from digit 0; each is added, or makes a group.
    pub(super) plus: Vec<usize>,
    /// Each is taken off; none where the axis makes groups.
    pub(super) minus: Vec<usize>,
    /// For each of `plus` what it adds to the index of the answer's group; `None` inside for a digit without rows and
    /// place.
    pub(super) adds: Option<Vec<Option<u64>>>,
    pub(super) stride: usize,
}

/// How an axis may be added up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// With the total of the axis, where that takes fewer cells.
    Totals,
    /// Cell by cell.
    Cells,
}

/// The axis that has a level, or the coarsest of its dimension that is finer: axes of one dimension come from coarse to
/// fine.
fn axis_of(axes: &[Axis], dimension_of: &dyn Fn(usize) -> usize, level: usize) -> Option<usize> {
    axes.iter().position(|axis| dimension_of(axis.span.level) == dimension_of(level) && level <= axis.span.level)
}

/// Chooses places of all axes, those of the longest strides first. `None` where the cuboid cannot answer.
pub(super) fn choose(
    query: &BoxQuery,
    axes: &[Axis],
    has_nulls: &[bool],
    dimension_of: &dyn Fn(usize) -> usize,
    ancestor: &Ancestor<'_>,
    keys: &GroupKeys,
    by: By,
) -> Option<Vec<Chosen>> {
    let axis_of = |level: usize| axis_of(axes, dimension_of, level);
    let mut digits: Vec<Option<Vec<usize>>> = vec![None; axes.len()];
    for filter in &query.filters {
        let at = axis_of(filter.level)?;
        let axis = &axes[at];
        let passes = |digit: usize| -> Option<bool> {
            let code = code_of(&axis.span, digit as u64);
            let code = match filter.level == axis.span.level {
                true => Some(code),
                false => ancestor(axis.span.level, filter.level, code),
            };
            match code {
                Some(code) => Some(filter.codes.contains(code)),
                None => (digit == 0 && !has_nulls[at]).then_some(false),
            }
        };
        let mut kept = Vec::new();
        match digits[at].take() {
            Some(left) => {
                for digit in left {
                    if passes(digit)? {
                        kept.push(digit);
                    }
                }
            }
            None if filter.level == axis.span.level => {
                kept.extend(filter.codes.holds_null().then_some(0));
                let last = axis.span.first.saturating_add(axis.span.count.saturating_sub(1));
                for &(low, high) in filter.codes.runs() {
                    let (low, high) = (low.max(axis.span.first), high.min(last));
                    if axis.span.count > 0 && low <= high {
                        kept.extend((low..=high).map(|code| (code - axis.span.first) as usize + 1));
                    }
                }
            }
            None => {
                for digit in 0..axis.digits() {
                    if passes(digit)? {
                        kept.push(digit);
                    }
                }
            }
        }
        digits[at] = Some(kept);
    }
    let mut chosen = Vec::with_capacity(axes.len());
    for (at, axis) in axes.iter().enumerate() {
        let is_grouped = query.groups.iter().any(|&level| axis_of(level) == Some(at));
        let mut choice = match is_grouped {
            false => without_groups(axis, digits[at].take(), by),
            true => {
                let digits = digits[at].take().unwrap_or_else(|| (0..axis.digits()).collect());
                Chosen { plus: digits, minus: Vec::new(), adds: None, stride: axis.stride }
            }
        };
        if is_grouped {
            let mut adds = vec![Some(0); choice.plus.len()];
            for (place, &level) in query.groups.iter().enumerate().filter(|(_, level)| axis_of(**level) == Some(at)) {
                let stride = keys.strides()[place];
                for (add, &digit) in adds.iter_mut().zip(&choice.plus) {
                    let code = code_of(&axis.span, digit as u64);
                    let code =
                        if level == axis.span.level { Some(code) } else { ancestor(axis.span.level, level, code) };
                    if code.is_none() && (digit != 0 || has_nulls[at]) {
                        return None;
                    }
                    let digit = code.and_then(|code| keys.digit(place, code));
                    *add = add.zip(digit).map(|(add, digit)| add + digit * stride);
                }
            }
            choice.adds = Some(adds);
            choice.plus.iter_mut().for_each(|digit| *digit *= axis.stride);
        }
        chosen.push(choice);
    }
    if query.groups.iter().any(|&level| axis_of(level).is_none()) {
        return None;
    }
    chosen.sort_by_key(|choice| std::cmp::Reverse(choice.stride));
    Some(chosen)
}

/// The places that add up to some digits of an axis (`None`: all of them).
fn without_groups(axis: &Axis, digits: Option<Vec<usize>>, by: By) -> Chosen {
    let stride = axis.stride;
    let total = axis.total().filter(|_| by == By::Totals);
    let (plus, minus) = match (digits, total) {
        (None, Some(total)) => (vec![total], Vec::new()),
        (None, None) => ((0..axis.digits()).map(|digit| digit * stride).collect(), Vec::new()),
        (Some(digits), Some(total)) if 2 * digits.len() > axis.digits() + 1 => {
            let mut kept = digits.iter().peekable();
            let others = (0..axis.digits()).filter(|digit| kept.next_if_eq(&digit).is_none());
            (vec![total], others.map(|digit| digit * stride).collect())
        }
        (Some(digits), _) => (digits.iter().map(|digit| digit * stride).collect(), Vec::new()),
    };
    Chosen { plus, minus, adds: None, stride }
}

/// How many cells an answer takes, about: filters of coarser levels are taken to keep half.
pub(super) fn visits(query: &BoxQuery, axes: &[Axis], dimension_of: &dyn Fn(usize) -> usize, by: By) -> u64 {
    let of_axis = |(at, axis): (usize, &Axis)| {
        let is_own = |level: usize| axis_of(axes, dimension_of, level) == Some(at);
        let all = axis.digits() as u64;
        let mut kept = all;
        for filter in query.filters.iter().filter(|filter| is_own(filter.level)) {
            kept = kept.min(if filter.level == axis.span.level { filter.codes.len() } else { all / 2 });
        }
        let is_grouped = query.groups.iter().any(|&level| is_own(level));
        match axis.has_total && by == By::Totals && !is_grouped {
            true => kept.min(all + 1 - kept),
            false => kept,
        }
    };
    axes.iter().enumerate().fold(1u64, |visits, axis| visits.saturating_mul(of_axis(axis).max(1)))
}
