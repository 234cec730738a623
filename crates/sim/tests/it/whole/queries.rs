//! Questions: rows, boxes and estimates at some freshness, held against the model at the version that the answer says.

use super::estimates;
use super::tables::FACTS;
use super::world::World;
use crate::keyed::boxes;
use crate::keyed::world::{Checked, NEWEST};
use alluvia_sim::Random;
use alluvia_sim::rows::{Row, rows_of};
use alluvia_snapshot::Snapshot;
use alluvia_tree::Mapping;
use alluvia_types::{Clock, Freshness, Version};
use std::time::Duration;

impl World {
    /// Asks at some freshness, or at a version.
    pub fn ask(&self, random: &mut Random) -> Checked {
        match random.below(6) {
            0..3 => self.read_at(NEWEST, random),
            3 => self.read_at(Freshness::Within(Duration::from_millis(random.below(4_000))), random),
            4 => self.read_at(Freshness::Merged, random),
            _ => {
                let views = self.engine();
                let (through, visible) = (views.views().base().through.0, views.views().visible().0);
                let version = Version(random.within(through..visible + 1));
                self.trace.say(format_args!("query at version {version}"));
                let snapshot = match self.at(version) {
                    Ok(snapshot) => snapshot,
                    Err(error) => return self.pass("a snapshot", &error),
                };
                if snapshot.version != version {
                    return Err(format!("version {version} was asked for, and {} is given", snapshot.version));
                }
                self.compare(&snapshot, random)
            }
        }
    }

    /// Asks at a freshness.
    pub fn read_at(&self, freshness: Freshness, random: &mut Random) -> Checked {
        let (engine, now) = (self.engine(), self.clock.monotonic());
        let (tables, required, at_least) = {
            let state = self.state.lock();
            let age = match freshness {
                Freshness::Within(age) => Some(age),
                Freshness::Merged => None,
            };
            let required = age.map_or(0, |age| state.ledger.required(now, age));
            (state.tables.clone(), required, random.below(2) * random.below(state.known + 1))
        };
        let tables = match random.below(4) {
            0 => &tables[..1],
            1 => &tables[1..],
            _ => &tables[..],
        };
        let snapshot = match engine.snapshot(freshness, Version(at_least), tables) {
            Ok(snapshot) => snapshot,
            Err(error) => return self.pass("a snapshot", &error),
        };
        let (version, lag) = (snapshot.version.0, snapshot.lag);
        self.trace
            .say(format_args!("query {freshness:?}, at least {at_least}: version {version}, {:?}", snapshot.stage));
        let visible = engine.views().visible().0;
        if version < required.max(at_least) || version > visible {
            return Err(format!(
                "{freshness:?}: version {version} of {visible} is given, and {required} was visible for long enough, \
                 {at_least} asked for"
            ));
        }
        let true_lag = self.state.lock().ledger.lag(now, version);
        if true_lag.is_some_and(|true_lag| lag < true_lag || true_lag.is_zero() && !lag.is_zero()) {
            return Err(format!("version {version} lags by {true_lag:?}, and {lag:?} is said"));
        }
        self.compare(&snapshot, random)
    }

    /// Compares a snapshot with the model at its version: all rows, a box of each table, an estimate.
    pub fn compare(&self, snapshot: &Snapshot, random: &mut Random) -> Checked {
        let tables = self.state.lock().tables.clone();
        for (at, table) in tables.into_iter().enumerate() {
            if !snapshot.tables.contains_key(&table) {
                continue;
            }
            let found = match rows_of(snapshot, table) {
                Ok(found) => found,
                Err(error) => {
                    self.pass("reading", &error)?;
                    continue;
                }
            };
            let version = snapshot.version.0;
            let compared = self.state.lock().model.tables[at].compare(version, &found);
            compared.map_err(|what| format!("table {at}: {what}"))?;
            let rows: Vec<Row> = found.into_iter().map(|found| found.row).collect();
            self.trace.say(format_args!(" table {at}: {} rows", rows.len()));
            if self.is_readable(boxes::compare(&self.engine(), snapshot, table, &rows, random))? && at == FACTS {
                for _ in 0..if self.setup.is_large { 3 } else { 1 } {
                    let estimated = estimates::compare(self, snapshot, table, &rows, random);
                    self.is_readable(estimated)?;
                }
            }
        }
        Ok(())
    }

    /// Holds every segment against its own rows, as `alluvia check` does: checksums, summaries, codes, ladders.
    pub fn verify(&self) -> Checked {
        let tables = self.state.lock().tables.clone();
        let snapshot = self.engine().snapshot(NEWEST, Version(0), &tables).map_err(|error| error.to_string())?;
        for read in snapshot.tables.values() {
            let Some(dictionaries) = &read.dictionaries else { continue };
            let mapping = Mapping::new(&read.entry.def, dictionaries);
            for rows in &read.segments {
                let verified = rows.segment.verify_mapped(&read.entry.def, &mapping);
                verified.map_err(|error| format!("a segment is not what it says: {error}"))?;
            }
        }
        Ok(())
    }

    /// Whether an answer could be read: where reads fail, that may be said.
    fn is_readable(&self, answered: Checked) -> Checked<bool> {
        match answered {
            Ok(()) => Ok(true),
            Err(what)
                if self.state.lock().is_hurt && (what.contains("the device") || what.contains("power is lost")) =>
            {
                self.trace.say(format_args!(" not read: {what}"));
                Ok(false)
            }
            Err(what) => Err(what),
        }
    }
}
