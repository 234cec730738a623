//! Outcomes of sorts and merges, for those who wait for them.
//!
//! Invariants:
//! - What keeps writers out of a full tail is a failed sort alone: no merge makes room in it.
//! - Whoever waits for a stage is told of what failed since it asked, never of an older failure.

use super::{State, Views};
use alluvia_types::{Error, Stage};

/// The sorts, or the merges.
#[derive(Debug, Default)]
pub(super) struct Turns {
    failures: u64,
    /// Why the last one failed.
    error: Option<Error>,
}

impl Turns {
    fn ended(&mut self, failure: Option<Error>) {
        self.failures += u64::from(failure.is_some());
        self.error = failure;
    }

    /// Why the last one failed.
    pub(super) fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    fn error_since(&self, failures: u64) -> Option<&Error> {
        self.error().filter(|_| self.failures > failures)
    }
}

/// Sorts and merges that had failed at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failures {
    sorts: u64,
    merges: u64,
}

impl State {
    /// Why a stage is not reached, if that has failed since.
    pub(super) fn failed(&self, stage: Stage, since: Failures) -> Option<&Error> {
        let merge = self.merges.error_since(since.merges).filter(|_| stage == Stage::Merged);
        self.sorts.error_since(since.sorts).or(merge)
    }
}

impl Views {
    /// Remembers how the last sort went. If it failed, writers that wait for room are told.
    pub fn sort_ended(&self, failure: Option<Error>) {
        self.state.write().sorts.ended(failure);
        self.notify();
    }

    /// Remembers how the merge of all tables that need it went.
    pub fn merge_ended(&self, failure: Option<Error>) {
        self.state.write().merges.ended(failure);
        self.notify();
    }

    /// What has failed so far; to ask for a stage afterwards.
    pub fn failures(&self) -> Failures {
        let state = self.state.read();
        Failures { sorts: state.sorts.failures, merges: state.merges.failures }
    }

    /// Why the last sort failed, or else the last merge, if one did.
    pub fn pipeline_error(&self) -> Option<Error> {
        let state = self.state.read();
        state.sorts.error().or(state.merges.error()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_failure_is_not_told_of_and_a_success_ends_one() {
        let failure = || Some(Error::internal("failed"));
        let mut turns = Turns::default();
        assert!(turns.error().is_none() && turns.error_since(0).is_none());
        turns.ended(failure());
        assert!(turns.error().is_some() && turns.error_since(0).is_some());
        assert!(turns.error_since(turns.failures).is_none(), "it was there before");
        let before = turns.failures;
        turns.ended(failure());
        assert!(turns.error_since(before).is_some());
        turns.ended(None);
        assert!(turns.error().is_none() && turns.error_since(before).is_none());
    }
}
