//! Batches, and what became of each: what the model says, or, where something on the disk fails, an error after which
//! a flush or a new start has to say it.

use super::ledger::{Known, Mark, Sent};
use super::tables::FACTS;
use super::world::World;
use crate::keyed::model::{Change, Outcome, Part};
use crate::keyed::world::{Checked, new_batch};
use alluvia_sim::Random;
use alluvia_snapshot::{BatchKey, Committed, Durability};
use alluvia_types::{Error, ErrorKind, Result};

impl World {
    /// Sends a batch that is new, and remembers it for being sent again.
    pub fn send(&self, parts: Vec<Part>, durability: Durability, random: &mut Random) -> Checked {
        let mark = self.state.lock().ledger.new_mark(random);
        let sent = Sent { mark, parts };
        if sent.mark != Mark::None {
            self.state.lock().ledger.sent.push(sent.clone());
        }
        self.submit(&sent, durability)
    }

    /// Sends one of the last batches again, as who does not know what became of it.
    pub fn send_again(&self, random: &mut Random) -> Checked {
        let sent = {
            let state = self.state.lock();
            let sent = &state.ledger.sent;
            let near = if random.one_in(3) { sent.len() } else { sent.len().min(2) };
            match near {
                0 => return Ok(()),
                near => sent[sent.len() - 1 - random.below(near as u64) as usize].clone(),
            }
        };
        self.trace.say(format_args!("again:"));
        self.submit(&sent, Durability::Sync)
    }

    fn submit(&self, sent: &Sent, durability: Durability) -> Checked {
        let engine = self.engine();
        let tables = self.state.lock().tables.clone();
        // Segments are written of loads: others may come between.
        let mut batch = match new_batch(&engine, &tables, &sent.parts) {
            Ok(batch) => batch,
            Err(error) => return self.pass("staging", &error),
        };
        match &sent.mark {
            Mark::None => {}
            Mark::Key(key) => batch.key = Some(BatchKey::new(tables[FACTS], &format!("batch {key}"))),
            Mark::Producer(mark) => batch.producer = Some(mark.clone()),
        }
        let mut state = self.state.lock();
        let (before, was_closed) = (state.model.version(), state.is_closed);
        let known = state.ledger.find(&sent.mark);
        let expected = match known {
            Known::New => Some(state.model.apply(&sent.parts)),
            _ => None,
        };
        drop(state);
        let submitted = engine.submit(batch, durability);
        self.trace.say(format_args!("batch {:?} {}: {}", sent.mark, shown(&sent.parts), outcome(&submitted)));
        let is_unknown = self.judge(sent, (before, known, was_closed), expected, &submitted, durability)?;
        if is_unknown {
            self.resolve(before)?;
        }
        self.notice();
        Ok(())
    }

    /// Holds what became of a batch against the model. Returns whether nobody knows.
    fn judge(
        &self,
        sent: &Sent,
        (before, known, was_closed): (u64, Known, bool),
        expected: Option<Outcome>,
        submitted: &Result<Committed>,
        durability: Durability,
    ) -> Checked<bool> {
        let mut state = self.state.lock();
        let wrong =
            || Err(format!("{submitted:?} instead of {known:?}, {expected:?} after version {before}: {sent:?}"));
        match (submitted, known, &expected) {
            (Ok(committed), Known::Again(version), _) => match committed.duplicate && committed.version.0 == version {
                true => Ok(false),
                false => wrong(),
            },
            (Ok(committed), Known::New, Some(Outcome::Applied { passed_over })) => {
                let found = (committed.version.0, committed.duplicate, committed.passed_over);
                if found != (before + 1, false, *passed_over) || was_closed {
                    return wrong();
                }
                state.ledger.applied(&sent.mark, before + 1);
                if durability == Durability::Sync {
                    state.known = state.known.max(before + 1);
                    if self.engine().views().visible().0 < before + 1 {
                        return Err(format!("version {} is acknowledged, and not visible", before + 1));
                    }
                }
                Ok(false)
            }
            (Err(error), _, Some(Outcome::Refused(_))) if error.kind() == ErrorKind::UniqueViolation => Ok(false),
            (Err(error), Known::Refused, _) if error.kind() == ErrorKind::Producer => Ok(false),
            (Err(error), _, _) if error.kind() == ErrorKind::DiskFull && state.is_full => {
                // Acknowledged ones that were relaxed are taken back as well, unless they became durable.
                let visible = self.engine().views().visible().0;
                if visible < state.known {
                    return Err(format!("version {} was known, and a full disk has taken it back", state.known));
                }
                if visible < state.model.version() {
                    state.model.take_back(visible);
                    state.ledger.take_back(visible);
                }
                Ok(false)
            }
            (Err(error), _, _) => {
                let is_applied = matches!(expected, Some(Outcome::Applied { .. }));
                match (is_applied, was_closed) {
                    // What has failed before takes nothing: it is certainly not there.
                    (true, true) => state.model.take_back(before),
                    (true, false) => state.ledger.applied(&sent.mark, before + 1),
                    (false, _) => {}
                }
                drop(state);
                self.pass("a batch", error)?;
                Ok(!was_closed)
            }
            _ => wrong(),
        }
    }

    /// Asks what became of a batch after version `before` whose answer was an error of the disk.
    fn resolve(&self, before: u64) -> Checked {
        let engine = self.engine();
        let flushed = engine.flush();
        let visible = engine.views().visible().0;
        let mut state = self.state.lock();
        match flushed {
            Ok(()) if visible == before || visible == state.model.version() => {
                self.trace.say(format_args!(" resolved: version {visible}"));
                state.model.take_back(visible);
                state.ledger.take_back(visible);
                Ok(())
            }
            Ok(()) => Err(format!("version {visible} is visible after a flush, and {before} was the last one")),
            Err(error) if error.kind() == ErrorKind::DiskFull && state.is_full => {
                state.model.take_back(visible);
                state.ledger.take_back(visible);
                Ok(())
            }
            Err(error) => {
                self.trace.say(format_args!(" not resolved: {error}"));
                state.is_closed = true;
                Ok(())
            }
        }
    }

    pub fn flush(&self) -> Checked {
        let flushed = self.engine().flush();
        self.trace.say(format_args!("flush: {}", flushed.as_ref().map_or_else(Error::to_string, |()| "done".into())));
        let done = match flushed {
            Ok(()) => {
                let (visible, state) = (self.engine().views().visible().0, self.state.lock());
                match visible == state.model.version() {
                    true => Ok(()),
                    false => Err(format!("version {visible} after a flush, and not {}", state.model.version())),
                }
            }
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                let visible = self.engine().views().visible().0;
                {
                    let mut state = self.state.lock();
                    state.model.take_back(visible);
                    state.ledger.take_back(visible);
                }
                self.pass("a flush", &error)
            }
            Err(error) => {
                self.state.lock().is_closed = true;
                self.pass("a flush", &error)
            }
        };
        self.notice();
        done
    }
}

fn outcome(submitted: &Result<Committed>) -> String {
    match submitted {
        Ok(Committed { version, duplicate, passed_over }) => {
            format!("version {version}{}, {passed_over} passed over", if *duplicate { " (again)" } else { "" })
        }
        Err(error) => error.to_string(),
    }
}

fn shown(parts: &[Part]) -> String {
    let shown = parts.iter().map(|part| {
        let (what, count) = match &part.change {
            Change::Insert(rows) => ("insert", rows.len()),
            Change::InsertNew(rows) => ("insert new", rows.len()),
            Change::Upsert(rows) => ("upsert", rows.len()),
            Change::Delete(keys) => ("delete", keys.len()),
            Change::DeleteRows(identities) => ("delete rows", identities.len()),
            Change::Load(rows) => ("load", rows.len()),
        };
        format!("{what} {count} of table {}", part.table)
    });
    shown.collect::<Vec<_>>().join(", ")
}
