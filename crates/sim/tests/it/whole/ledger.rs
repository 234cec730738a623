//! What else a model has to remember beside rows: which batches were sent under which numbers, when versions became
//! visible, and what intervals have said.

use alluvia_sim::Random;
use alluvia_types::ProducerMark;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::keyed::model::Part;

/// How a batch is known when it comes again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    None,
    /// A client's key, by its number.
    Key(u64),
    Producer(ProducerMark),
}

/// A batch that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub mark: Mark,
    pub parts: Vec<Part>,
}

/// The numbers of batches, and the times of versions.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Batches that can be sent again.
    pub sent: Vec<Sent>,
    keys: BTreeMap<u64, u64>,
    /// Of each producer its sequences so far, by epoch and sequence, with their versions.
    producers: BTreeMap<String, BTreeMap<(u64, u64), u64>>,
    keys_given: u64,
    /// When a version was first seen to be visible, in this run; what was recovered was so for ever.
    times: Vec<(Duration, u64)>,
    recovered: u64,
}

const PRODUCERS: [&str; 2] = ["loader", "meter"];

impl Ledger {
    /// A mark for a batch that is new.
    pub fn new_mark(&mut self, random: &mut Random) -> Mark {
        match random.below(4) {
            0 => Mark::None,
            1 | 2 => {
                self.keys_given += 1;
                Mark::Key(self.keys_given)
            }
            _ => {
                let name = (*random.pick(&PRODUCERS)).to_owned();
                let last = self.producers.get(&name).and_then(|marks| marks.keys().next_back().copied());
                let (epoch, sequence) = match last {
                    // A process that has begun anew.
                    Some((epoch, _)) if random.one_in(8) => (epoch + 1, 1),
                    Some((epoch, sequence)) => (epoch, sequence + 1),
                    None => (1, 1),
                };
                Mark::Producer(ProducerMark { name, epoch, sequence })
            }
        }
    }

    /// What the engine must say of a batch with this mark.
    pub fn find(&self, mark: &Mark) -> Known {
        match mark {
            Mark::None => Known::New,
            Mark::Key(key) => self.keys.get(key).map_or(Known::New, |version| Known::Again(*version)),
            Mark::Producer(mark) => {
                let Some(marks) = self.producers.get(&mark.name) else { return Known::first(mark) };
                let Some((&(epoch, sequence), &version)) = marks.last_key_value() else { return Known::first(mark) };
                match (mark.epoch.cmp(&epoch), mark.sequence) {
                    (std::cmp::Ordering::Less, _) => Known::Refused,
                    (std::cmp::Ordering::Greater, _) => Known::first(mark),
                    // It says the version of the producer's last batch.
                    (_, again) if again <= sequence => Known::Again(version),
                    (_, next) if next == sequence + 1 => Known::New,
                    _ => Known::Refused,
                }
            }
        }
    }

    /// A batch was applied as a version, or may have been.
    pub fn applied(&mut self, mark: &Mark, version: u64) {
        match mark {
            Mark::None => {}
            Mark::Key(key) => drop(self.keys.insert(*key, version)),
            Mark::Producer(mark) => {
                let marks = self.producers.entry(mark.name.clone()).or_default();
                marks.insert((mark.epoch, mark.sequence), version);
            }
        }
    }

    /// Versions above one were never durable.
    pub fn take_back(&mut self, above: u64) {
        self.keys.retain(|_, version| *version <= above);
        self.producers.values_mut().for_each(|marks| marks.retain(|_, version| *version <= above));
    }

    /// The database was opened, with everything through a version.
    pub fn opened(&mut self, recovered: u64) {
        self.recovered = recovered;
        self.times.clear();
    }

    /// Everything through a version is visible, since now at the latest.
    pub fn visible(&mut self, now: Duration, version: u64) {
        if self.times.last().map_or(self.recovered, |(_, last)| *last) < version {
            self.times.push((now, version));
        }
    }

    /// The version that an answer must not be older than that lacks nothing that was visible for so long.
    pub fn required(&self, now: Duration, age: Duration) -> u64 {
        let Some(moment) = now.checked_sub(age) else { return self.recovered };
        let seen = self.times.iter().rev().find(|(since, _)| *since <= moment);
        seen.map_or(self.recovered, |(_, version)| *version)
    }

    /// How long something above a version has been visible; `None` of what was recovered, of which nobody knows.
    pub fn lag(&self, now: Duration, version: u64) -> Option<Duration> {
        if version < self.recovered {
            return None;
        }
        let lacking = self.times.iter().find(|(_, through)| *through > version);
        Some(lacking.map_or(Duration::ZERO, |(since, _)| now.saturating_sub(*since)))
    }
}

/// What is known of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    New,
    /// The batch was applied as this version.
    Again(u64),
    /// Its producer has gone on, or batches are missing.
    Refused,
}

impl Known {
    fn first(mark: &ProducerMark) -> Known {
        if mark.sequence == 1 { Known::New } else { Known::Refused }
    }
}
