//! The tally of drawn rows: their counts and sums by group, and the intervals that follow.
//!
//! Invariants:
//! - Frame 0 counts rows, frame 1 + m values of measure m; a group has a sample for each.
//! - What a group has in a frame is exact where nothing of it was drawn and summaries tell that there is no more: then
//!   a sum of no values is NULL. Where there may be more, a sum of which no value was seen is not known.

use super::foresee::exact_of;
use super::{Estimated, SampleRequest};
use crate::answer::Answer;
use crate::estimate::{Aggregate, Frame, GroupSample, Hidden, Interval, Kind, Plan, Stratum, interval, textbook};

/// Drawn rows, by strata and groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// By frame, by run.
    pub(super) strata: Vec<Vec<Stratum>>,
    pub(super) samples: Samples,
}

/// Drawn rows that match, by groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    frames: usize,
    /// Where a group's samples are, by its number; [`NONE`] if none of its rows were drawn.
    slots: Vec<u32>,
    /// The group's number, and its samples by frame.
    samples: Vec<(usize, Vec<GroupSample>)>,
}

const NONE: u32 = u32::MAX;

/// Of values that may be there and were never seen.
const UNKNOWN: Interval =
    Interval { estimate: f64::NAN, lower: f64::NEG_INFINITY, upper: f64::INFINITY, kind: Kind::Bounds };

/// What drawn rows say at one look.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) frames: Vec<Frame>,
    /// By frame, of each group that was seen and may have more in it: its sample, with what is exact.
    pub(super) samples: Vec<Vec<GroupSample>>,
    pub(super) groups: Vec<(usize, Vec<Estimated>)>,
    pub(super) error: f64,
    pub(super) share_off: f64,
    /// Indices of groups that may exist and were not seen, ascending.
    pub(super) unseen: Vec<u64>,
    pub(super) holds: bool,
}

impl Samples {
    pub(super) fn new(frames: usize) -> Samples {
        Samples { frames, slots: Vec::new(), samples: Vec::new() }
    }

    /// The samples of a group, by frame.
    #[inline]
    pub(super) fn of_group(&mut self, group: usize) -> &mut [GroupSample] {
        if group >= self.slots.len() {
            self.slots.resize(group + 1, NONE);
        }
        if self.slots[group] == NONE {
            self.slots[group] = self.samples.len() as u32;
            self.samples.push((group, vec![GroupSample::default(); self.frames]));
        }
        &mut self.samples[self.slots[group] as usize].1
    }

    /// Takes in other samples of a group.
    pub(super) fn add(&mut self, group: usize, more: &[GroupSample]) {
        self.of_group(group).iter_mut().zip(more).for_each(|(own, more)| own.merge(more));
    }

    /// Groups' numbers and samples.
    pub(super) fn all(&self) -> &[(usize, Vec<GroupSample>)] {
        &self.samples
    }

    fn slot(&self, group: usize) -> Option<usize> {
        self.slots.get(group).filter(|&&slot| slot != NONE).map(|&slot| slot as usize)
    }

    fn get(&self, group: usize) -> Option<&Vec<GroupSample>> {
        self.slot(group).map(|slot| &self.samples[slot].1)
    }
}

impl Tally {
    pub(super) fn new(strata: Vec<Vec<Stratum>>) -> Tally {
        Tally { samples: Samples::new(strata.len()), strata }
    }

    /// Forgets what was drawn of the runs that are read again.
    pub(super) fn forget(&mut self, is_read_again: &[bool]) {
        for (_, samples) in &mut self.samples.samples {
            samples.iter_mut().for_each(|sample| sample.forget(|run| is_read_again[run as usize]));
        }
    }

    /// Intervals of all groups that were seen, in the sample or exactly. `hidden` tells of measures, and in each of
    /// groups in the order of [`Samples::all`], where their rows may be of which none was drawn. `may_have_more` tells
    /// whether what was not read in full may have rows of a group, or values of one of the measures: where only rows of
    /// the tail have them, or nodes that were read in full, they are exact however little else is known.
    pub(super) fn look(
        &self,
        asked: &SampleRequest<'_>,
        plan: &Plan,
        into: &Answer,
        hidden: &[Vec<Hidden>],
        may_have_more: impl Fn(usize, Option<usize>) -> bool,
    ) -> Look {
        let nothing_open = Frame::new(Vec::new());
        let frames: Vec<Frame> = self.strata.iter().map(|strata| Frame::new(strata.clone())).collect();
        let none = vec![GroupSample::default(); frames.len()];
        let groups = self.samples.slots.len().max(into.totals.groups());
        let (mut samples, mut found) = (vec![Vec::new(); frames.len()], Vec::new());
        let (mut error, mut share_off) = (0.0f64, 0.0f64);
        for group in 0..groups {
            let drawn = self.samples.get(group);
            let is_drawn = drawn.is_some_and(|drawn| drawn[0].matches() > 0);
            if !is_drawn && exact_of(into, group, None).0 == 0 && !asked.shape().groups.is_empty() {
                continue;
            }
            let mut of_group = drawn.unwrap_or(&none).clone();
            for (at, sample) in of_group.iter_mut().enumerate() {
                let (count, sum) = exact_of(into, group, at.checked_sub(1));
                sample.set_exact(count, sum);
            }
            if let Some(slot) = self.samples.slot(group) {
                of_group[1..]
                    .iter_mut()
                    .zip(hidden)
                    .for_each(|(sample, hidden)| sample.set_hidden(hidden[slot].clone()));
            }
            let is_open = |at: usize| of_group[at].matches() > 0 || may_have_more(group, at.checked_sub(1));
            let is_open: Vec<bool> = (0..frames.len()).map(is_open).collect();
            let cells = asked.goals.iter().map(|goal| {
                let at = goal.measure.map_or(0, |measure| measure + 1);
                let (frame, sample) = (if is_open[at] { &frames[at] } else { &nothing_open }, &of_group[at]);
                // Of no values a sum is NULL, and so is an average: an interval cannot say that.
                let has_values = sample.matches() > 0 || exact_of(into, group, goal.measure).0 > 0;
                Estimated {
                    interval: match goal.aggregate {
                        Aggregate::Sum | Aggregate::Avg if !has_values && is_open[at] => UNKNOWN,
                        Aggregate::Sum | Aggregate::Avg if !has_values => Interval::NULL,
                        aggregate => interval(aggregate, frame, sample, plan),
                    },
                    textbook: textbook(goal.aggregate, frame, sample, plan.confidence()),
                }
            });
            let cells: Vec<Estimated> = cells.collect();
            for Estimated { interval, .. } in &cells {
                (error, share_off) = (error.max(interval.relative_error()), share_off.max(interval.share_off()));
            }
            found.push((group, cells));
            // Nothing that is read makes the others more exact.
            let open = of_group.into_iter().zip(is_open).zip(&mut samples).filter(|((_, is_open), _)| *is_open);
            open.for_each(|((sample, _), samples)| samples.push(sample));
        }
        Look { frames, samples, groups: found, error, share_off, unseen: Vec::new(), holds: error <= asked.max_error }
    }

    /// Numbers of the groups of which rows were drawn.
    pub(super) fn drawn_groups(&self) -> impl Iterator<Item = usize> {
        self.samples.all().iter().filter(|(_, samples)| samples[0].matches() > 0).map(|(group, _)| *group)
    }
}
