//! The plans that are kept, by the texts that share them.
//!
//! Invariants:
//! - What is kept is bounded; the least recently used half goes.
//! - Of one skeleton there are few plans: texts that differ in many other literals are not worth it.

use super::plan::PointPlan;
use crate::answer::NamedView;
use alluvia_catalog::TableEntry;
use alluvia_syntax::alike::AlikeText;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Skeletons that are kept. A plan takes some kilobytes: its text is short, and so is what it shows.
const SKELETONS_MAX: usize = 2_048;
/// Plans of one skeleton.
const PLANS_MAX: usize = 4;
/// Texts of one skeleton that are looked at in vain: a parameter may be NULL, or of a type that only the planner knows.
const REFUSALS_MAX: usize = 8;
/// Bytes of texts, with what their plans are taken to hold.
const BYTES_MAX: usize = 64 << 20;
/// What a plan is taken to hold for each byte of its text: names, types and expressions are about as many as the words.
const BYTES_PER_BYTE: usize = 64;

/// Plans of point reads.
#[derive(Debug, Default)]
pub(crate) struct PointPlans {
    known: Mutex<Known>,
    answered: AtomicU64,
    /// How many statements were answered by heaps.
    by_heap: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    skeletons: HashMap<String, Alike>,
    bytes: usize,
    clock: u64,
}

/// The plans of texts that are alike.
#[derive(Debug, Default)]
struct Alike {
    plans: Vec<Arc<PointPlan>>,
    /// How many of them had plans that cannot be kept, since one could.
    refusals: usize,
    used: u64,
}

impl PointPlans {
    /// The plan of a text, if one like it was planned.
    pub(crate) fn get(&self, text: &AlikeText) -> Option<Arc<PointPlan>> {
        let mut known = self.known.lock();
        known.clock += 1;
        let now = known.clock;
        let alike = known.skeletons.get_mut(text.skeleton())?;
        alike.used = now;
        alike.plans.iter().find(|plan| plan.is_of(text)).cloned()
    }

    /// One of them has answered.
    pub(crate) fn count(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// How often one of them has answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// A statement was answered by heaps.
    pub(crate) fn count_heap(&self) {
        self.by_heap.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were.
    pub(crate) fn by_heap(&self) -> u64 {
        self.by_heap.load(Ordering::Relaxed)
    }

    /// Whether there is none at all, so that no text need be taken apart.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.lock().skeletons.is_empty()
    }

    /// Whether the plan of a text would be kept, that reads a table which is defined so, in a session that may hold so many
    /// bytes.
    pub(crate) fn want(
        &self,
        text: &AlikeText,
        entry: &TableEntry,
        view: Option<&NamedView>,
        memory_limit_bytes: u64,
    ) -> bool {
        let known = self.known.lock();
        let Some(alike) = known.skeletons.get(text.skeleton()) else { return true };
        match alike.plans.iter().find(|plan| plan.is_of(text)) {
            Some(plan) => plan.view() != view || !plan.holds(entry, memory_limit_bytes),
            None => alike.refusals < REFUSALS_MAX && alike.plans.len() < PLANS_MAX,
        }
    }

    /// Keeps the plan of a text, in the place of that which it had; after some texts without one, none like them is kept again.
    pub(crate) fn insert(&self, text: &AlikeText, plan: Option<PointPlan>) {
        let mut known = self.known.lock();
        let now = known.clock;
        if !known.skeletons.contains_key(text.skeleton()) {
            known.bytes += bytes_of(text.skeleton());
        }
        let alike = known.skeletons.entry(text.skeleton().to_owned()).or_default();
        alike.used = now;
        alike.plans.retain(|known| !known.is_of(text));
        alike.refusals = if plan.is_none() { alike.refusals + 1 } else { 0 };
        if alike.plans.len() < PLANS_MAX {
            alike.plans.extend(plan.map(Arc::new));
        }
        known.make_room();
    }
}

/// What a skeleton and its plans are taken to hold.
fn bytes_of(skeleton: &str) -> usize {
    skeleton.len() * (1 + PLANS_MAX * BYTES_PER_BYTE)
}

impl Known {
    fn make_room(&mut self) {
        if self.skeletons.len() <= SKELETONS_MAX && self.bytes <= BYTES_MAX {
            return;
        }
        let mut used: Vec<u64> = self.skeletons.values().map(|alike| alike.used).collect();
        used.sort_unstable();
        let median = used[used.len() / 2];
        self.skeletons.retain(|_, alike| alike.used > median);
        self.bytes = self.skeletons.keys().map(|skeleton| bytes_of(skeleton)).sum();
    }
}
