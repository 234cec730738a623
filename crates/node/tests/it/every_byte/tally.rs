//! What came of all damages, counted.
//!
//! Invariant: each line of figures is one that `xtask trust` reads: its words stand there, too.

use super::damage::Damage;
use super::files::File;
use super::outcome::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// Wrong answers that are printed whole.
const SHOWN: usize = 20;

/// Counts.
#[derive(Default)]
pub struct Tally {
    bytes: usize,
    files: usize,
    kinds: BTreeSet<&'static str>,
    /// By kind of file, sort of damage and outcome.
    counts: BTreeMap<(&'static str, &'static str, &'static str), usize>,
    wrong: Vec<String>,
    /// What the first start says that refused a kind of file and a sort of damage.
    refused: BTreeMap<(&'static str, &'static str), String>,
    /// What nobody noticed, by kind of file, sort of damage and region.
    unnoticed: BTreeMap<(&'static str, &'static str, &'static str), Vec<String>>,
}

impl Tally {
    /// Files that are about to be damaged.
    pub fn read(&mut self, files: &[File]) {
        if self.files == 0 {
            self.files = files.len();
            self.bytes = files.iter().map(|file| file.bytes.len()).sum();
            self.kinds = files.iter().map(|file| file.kind).collect();
        }
    }

    pub fn add(&mut self, file: &File, region: &'static str, damage: &Damage, outcome: Outcome) {
        *self.counts.entry((file.kind, damage.sort(), outcome.name())).or_default() += 1;
        let what = format!("{} ({}): {damage}", file.path.display(), region);
        match outcome {
            Outcome::Wrong(why) => self.wrong.push(format!("{what}: {why}")),
            Outcome::Refused(why) => drop(self.refused.entry((file.kind, damage.sort())).or_insert(why)),
            Outcome::Right => self.unnoticed.entry((file.kind, damage.sort(), region)).or_default().push(what),
            _ => {}
        }
    }

    fn count(&self, is_counted: impl Fn(&str, &str) -> bool) -> usize {
        self.counts.iter().filter(|((_, sort, outcome), _)| is_counted(sort, outcome)).map(|(_, count)| count).sum()
    }

    pub fn print(&self) {
        println!("{:28} {:8} {:8} {:>7}", "file", "damage", "outcome", "count");
        for ((kind, sort, outcome), count) in &self.counts {
            println!("{kind:28} {sort:8} {outcome:8} {count:7}");
        }
        for ((kind, sort), why) in &self.refused {
            println!("refused {kind}, {sort}, first: {why}");
        }
        for ((kind, sort, region), places) in &self.unnoticed {
            println!("nobody noticed {} of {kind}, {sort}, {region}, first {}", places.len(), places[0]);
        }
        self.wrong.iter().take(SHOWN).for_each(|wrong| println!("WRONG {wrong}"));
        println!("{} bytes in {} files of {} kinds", self.bytes, self.files, self.kinds.len());
        println!("{} bytes flipped", self.count(|sort, _| sort == "flipped"));
        println!("{} other damages: cut, longer, removed, swapped, older", self.count(|sort, _| sort != "flipped"));
        for outcome in ["refused", "told", "earlier", "rebuilt", "noted"] {
            println!("{} {outcome}", self.count(|_, found| found == outcome));
        }
        println!("{} that nobody noticed, of which each answer is right", self.count(|_, outcome| outcome == "right"));
        println!("{} untold, of logs that were not stopped cleanly", self.count(|_, outcome| outcome == "untold"));
        println!("{} wrong answers", self.count(|_, outcome| outcome == "wrong"));
    }

    /// Panics where an answer is wrong, or where nobody noticed what should be noticed.
    pub fn judge(&self, known: &[(&str, &[&str], &str)]) {
        assert!(self.kinds.len() > 12 && self.files > 30, "{:?}", self.kinds);
        assert!(self.wrong.is_empty(), "{} wrong answers, first {}", self.wrong.len(), self.wrong[0]);
        assert_eq!(self.count(|_, outcome| outcome == "untold"), 0, "a log that was cut opens, and nobody says so");
        let unknown: Vec<_> = self
            .unnoticed
            .keys()
            .filter(|(kind, sort, _)| !known.iter().any(|(known, sorts, _)| known == kind && sorts.contains(sort)))
            .collect();
        assert!(unknown.is_empty(), "nobody noticed damage of {unknown:?}");
    }
}
