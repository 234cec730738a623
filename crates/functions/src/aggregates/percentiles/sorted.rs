//! A stable sort that asks whether its statement is to stop.
//!
//! One group may have all rows: to put a hundred million texts in order takes minutes, which no sort of the library can be stopped in. So runs
//! are sorted by it, and merged here.

use crate::stopping;
use datafusion_common::Result;
use std::cmp::Ordering;

/// Values of a run: some milliseconds of comparing.
const RUN: usize = 32_768;

/// The values in order, equal ones as they come.
pub(super) fn sorted(mut values: Vec<u64>, order: impl Fn(u64, u64) -> Ordering) -> Result<Vec<u64>> {
    sorted_in_runs(&mut values, RUN, &order)?;
    Ok(values)
}

fn sorted_in_runs(values: &mut Vec<u64>, run: usize, order: &impl Fn(u64, u64) -> Ordering) -> Result<()> {
    for run in values.chunks_mut(run) {
        stopping::check()?;
        run.sort_by(|one, other| order(*one, *other));
    }
    let mut width = run;
    let mut merged = Vec::with_capacity(if width < values.len() { values.len() } else { 0 });
    while width < values.len() {
        merged.clear();
        for pair in values.chunks(2 * width) {
            let (mut first, mut second) = pair.split_at(width.min(pair.len()));
            while let (Some(one), Some(other)) = (first.first(), second.first()) {
                stopping::check_at(merged.len())?;
                let from = if order(*one, *other).is_gt() { &mut second } else { &mut first };
                merged.push(from[0]);
                *from = &from[1..];
            }
            merged.extend_from_slice(first);
            merged.extend_from_slice(second);
        }
        std::mem::swap(values, &mut merged);
        width *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stopping::StopCheck;
    use datafusion_common::exec_err;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_come_to_what_one_sort_comes_to(values in prop::collection::vec(any::<u8>(), 0..200), run in 1..20_usize) {
            // Places of values, of which many are equal.
            let places: Vec<u64> = (0..values.len() as u64).collect();
            let order = |one: u64, other: u64| (values[one as usize] / 16).cmp(&(values[other as usize] / 16));
            let (mut found, mut wanted) = (places.clone(), places);
            sorted_in_runs(&mut found, run, &order).unwrap();
            wanted.sort_by(|one, other| order(*one, *other));
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_sort_ends_with_its_statement() {
        let stop = StopCheck::new(|| exec_err!("stopped"));
        assert!(stop.within(|| sorted(vec![2, 1], |one, other| one.cmp(&other))).is_err());
    }
}
