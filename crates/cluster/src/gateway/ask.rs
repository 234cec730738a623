//! Asking the shards of tables: each of one replica or another, until all have answered.
//!
//! Invariants:
//! - An answer is handed out once, whichever replicas were asked.
//! - So many shards as are said are asked at a time: what waits to be handed out is bounded by that.
//! - Who works on an answer is waited for, as long as it gives signs of life; where another replica is there, that one is asked then. Who is
//!   not reached, or is behind, is waited for as long as a statement has patience.

use super::reach::Reached;
use super::session::{Gateway, unreached};
use crate::message::{FromWorker, ToWorker};
use crate::placed::{PlacedTable, Shard};
use crate::words::NodeId;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A shard is asked again after so long.
const ASKED_AGAIN: Duration = Duration::from_millis(20);

/// A shard that is to be asked.
pub(super) struct ShardAsk {
    /// Of which table.
    pub table: TableId,
    /// Which.
    pub shard: TableId,
    replicas: Vec<NodeId>,
    turn: usize,
    /// Who was asked last and has not answered, and since when.
    under_way: Option<(NodeId, Duration)>,
    is_answered: bool,
}

/// What stands in the place of a shard's where a node is asked for a sign of life.
const SIGN: usize = usize::MAX;
/// Who has not answered for so long is asked for a sign of life, and again after so long; who gives none within that is not waited for.
const SIGN_AFTER: Duration = Duration::from_millis(500);
/// So often it is looked who has not answered.
const SIGNS_EACH: Duration = Duration::from_millis(100);

/// Which nodes are alive, of those that work on an answer for long.
#[derive(Default)]
struct SignsOfLife {
    /// When a node was asked, and whether it has said something since.
    asked: BTreeMap<NodeId, (Duration, bool)>,
}

/// What is known of a node that works on an answer.
enum Sign {
    /// It is to be asked.
    Ask,
    /// It was asked, and says nothing.
    None,
    /// It may be at work.
    Waited,
}

impl SignsOfLife {
    /// What is known of a node that was asked for an answer at a time.
    fn of(&mut self, node: NodeId, since: Duration, now: Duration) -> Sign {
        let is_long = |from: Duration| now.saturating_sub(from) >= SIGN_AFTER;
        match self.asked.get(&node) {
            _ if !is_long(since) => Sign::Waited,
            Some((at, false)) if is_long(*at) && *at >= since => Sign::None,
            Some((at, _)) if !is_long(*at) => Sign::Waited,
            _ => {
                self.asked.insert(node, (now, false));
                Sign::Ask
            }
        }
    }

    fn heard(&mut self, node: NodeId, now: Duration) {
        self.asked.insert(node, (now, true));
    }
}

/// Why shards were not asked to the end.
pub(super) enum Failed {
    /// What was asked about has changed since: rows that went since the version are gone, a key was written.
    Conflict(Error),
    /// Anything else.
    Other(Error),
}

/// What is asked of each shard.
pub(super) struct Asking<'a> {
    /// The question to a shard.
    pub question: &'a dyn Fn(TableId) -> ToWorker,
    /// So many are asked at a time.
    pub at_once: usize,
    /// Who says nothing for so long fails the statement; `None` where the answer is worked on, and the connection tells whether it is.
    pub silence: Option<Duration>,
}

impl ShardAsk {
    /// One shard of a table.
    pub fn one(table: TableId, shard: &Shard) -> ShardAsk {
        let (shard, replicas) = (shard.id, shard.replicas.clone());
        ShardAsk { table, shard, replicas, turn: 0, under_way: None, is_answered: false }
    }

    /// All shards of a table. Statements of several versions begin with other replicas.
    pub fn all(table: TableId, placed: &PlacedTable, version: Version) -> impl Iterator<Item = ShardAsk> + '_ {
        let turn = (version.0 ^ u64::from(table.0)) as usize;
        placed.shards.iter().map(move |shard| ShardAsk {
            table,
            shard: shard.id,
            replicas: shard.replicas_at(version),
            turn: turn + shard.id.0 as usize,
            under_way: None,
            is_answered: false,
        })
    }
}

impl Gateway {
    /// Asks these shards. `each` is given the answers as they come; its error ends it.
    pub(super) fn ask_each(
        &self,
        mut asked: Vec<ShardAsk>,
        asking: &Asking<'_>,
        each: &mut dyn FnMut(&ShardAsk, FromWorker) -> Result<()>,
    ) -> Result<(), Failed> {
        if let Some(of) = asked.iter().find(|of| of.replicas.is_empty()) {
            let what = format!("the replicas that had shard {} at the version of the statement are gone", of.shard);
            return Err(Failed::Conflict(
                Error::new(ErrorKind::Conflict, what).with_hint("run the statement, or its transaction, again"),
            ));
        }
        let (sender, answers) = channel();
        let send = |at: usize, node: NodeId, question: ToWorker| {
            let sender = sender.clone();
            let answered = move |answer: Reached<FromWorker>| drop(sender.send((at, node, answer)));
            self.reach.worker(node, question, Box::new(answered));
        };
        let ask = |at: usize, asked: &mut ShardAsk| {
            let node = asked.replicas[asked.turn % asked.replicas.len()];
            asked.turn += 1;
            asked.under_way = Some((node, self.clock.monotonic()));
            send(at, node, (asking.question)(asked.shard));
        };
        let mut signs = SignsOfLife::default();
        let mut waiting: VecDeque<usize> = (0..asked.len()).collect();
        for at in waiting.drain(..asking.at_once.max(1).min(asked.len())) {
            ask(at, &mut asked[at]);
        }
        let patience = self.options.reading_patience;
        let mut left = asked.len();
        let mut heard = self.clock.monotonic();
        // The last failure, and since when there is nothing else.
        let mut failure: Option<(Duration, Error)> = None;
        let mut again: Vec<usize> = Vec::new();
        while left > 0 {
            let now = self.clock.monotonic();
            if let Some((since, error)) = &failure
                && now >= *since + patience
            {
                return Err(Failed::Other(error.clone()));
            }
            if asking.silence.is_some_and(|silence| now >= heard + silence) {
                let nobody = Error::new(ErrorKind::Timeout, "nobody answers");
                return Err(Failed::Other(failure.map_or(nobody, |(_, error)| error)));
            }
            let wait = match (again.is_empty(), asking.silence) {
                (false, _) => ASKED_AGAIN,
                (true, Some(silence)) => heard + silence - now,
                (true, None) => patience,
            };
            let (at, node, answer) = match answers.recv_timeout(wait.min(SIGNS_EACH)) {
                Ok((SIGN, node, said)) => {
                    // Who is not reached gives none.
                    if said.is_ok() {
                        signs.heard(node, self.clock.monotonic());
                    }
                    continue;
                }
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    again.drain(..).for_each(|at| ask(at, &mut asked[at]));
                    let now = self.clock.monotonic();
                    for (at, of) in asked.iter_mut().enumerate().filter(|(_, of)| !of.is_answered) {
                        match of.under_way.map(|(node, since)| (node, signs.of(node, since, now))) {
                            Some((node, Sign::Ask)) => send(SIGN, node, ToWorker::Status),
                            // It stands still, or is cut off: whoever has the shard, too, is asked beside it.
                            Some((_, Sign::None)) if of.replicas.len() > 1 => ask(at, of),
                            _ => {}
                        }
                    }
                    continue;
                }
            };
            asked[at].under_way = asked[at].under_way.filter(|(asked, _)| *asked != node);
            let mut is_late = |error: Error| {
                let since = failure.take().map_or(now, |(since, _)| since);
                failure = Some((since, error));
                again.push(at);
            };
            match answer {
                Ok(Ok(answer)) => {
                    (heard, failure) = (self.clock.monotonic(), None);
                    if !std::mem::replace(&mut asked[at].is_answered, true) {
                        left -= 1;
                        if let Some(next) = waiting.pop_front() {
                            ask(next, &mut asked[next]);
                        }
                        each(&asked[at], answer).map_err(Failed::Other)?;
                    }
                }
                Ok(Err(error)) if error.kind() == ErrorKind::Conflict => return Err(Failed::Conflict(error)),
                Ok(Err(error)) if error.kind() == ErrorKind::Busy => is_late(error),
                Ok(Err(error)) if error.kind() == ErrorKind::UndefinedTable && asked[at].replicas.len() > 1 => {
                    // It has the shard not yet, or no more; others have it.
                    asked[at].replicas.retain(|replica| *replica != node);
                    ask(at, &mut asked[at]);
                }
                Ok(Err(error)) => return Err(Failed::Other(error)),
                Err(why) => is_late(unreached(&format!("shard {} at node {node}", asked[at].shard), &why)),
            }
        }
        Ok(())
    }
}
