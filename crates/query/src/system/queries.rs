//! The ring of recent queries behind `alluvia.queries`.
//!
//! Invariants:
//! - Memory is bounded: at most the capacity given, each text cut to [`SQL_BYTES_MAX`].
//! - A statement is in the ring from its start, as `running`; it ends exactly once, whatever becomes of its stream.
//! - What runs tells how far it is when somebody looks; nothing is counted twice for that.

use crate::report::Report;
use crate::system::figures::outcome;
use crate::used::{Used, UsedCounters};
use alluvia_catalog::authoriser::Who;
use alluvia_copy::progress::Progress;
use alluvia_values::excerpt::cut;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// One statement, as `alluvia.queries` shows it.
#[derive(Clone, Debug)]
pub struct QueryRow {
    /// Counts statements of this process, from 1.
    pub id: u64,
    /// The session that ran it.
    pub session: u64,
    /// Who that was for, by name.
    pub user: String,
    /// And by the role's id.
    pub(crate) who: Who,
    /// Its text, perhaps cut.
    pub sql: String,
    /// When it began, microseconds since 1970.
    pub start_micros: i64,
    /// How long it took, or has taken by now.
    pub duration: Duration,
    /// `running`, or how it ended: `done`, `cancelled`, `timeout`, `refused`, `failed`, as metrics count it.
    pub status: &'static str,
    /// The error's SQLSTATE.
    pub sqlstate: Option<&'static str>,
    /// The error's message.
    pub error: Option<String>,
    /// Rows it returned.
    pub rows: u64,
    /// What it read; `None` for statements that read no table.
    pub used: Option<Used>,
    /// How far it is; `None` of one that has ended.
    pub report: Option<Report>,
}

/// What a statement tells while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// When it began, as [`Clock::monotonic`](alluvia_types::Clock::monotonic) says it.
    pub(crate) start: Duration,
    /// What it has done.
    pub(crate) progress: Arc<Progress>,
}

/// Recent statements of all sessions.
#[derive(Debug)]
pub struct QueryLog {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    rows: VecDeque<Running>,
}

#[derive(Clone, Debug)]
struct Running {
    row: QueryRow,
    /// `None` once it has ended.
    live: Option<Live>,
    counters: Option<Arc<UsedCounters>>,
}

impl QueryLog {
    /// A ring of so many statements.
    pub fn new(capacity: usize) -> Arc<QueryLog> {
        Arc::new(QueryLog { capacity: capacity.max(1), state: Mutex::default() })
    }

    /// A statement of a session, its user and who that is begins; the returned id ends it.
    pub(crate) fn begin(
        &self,
        (session, user, who): (u64, &str, Who),
        sql: &str,
        start_micros: i64,
        live: Live,
    ) -> u64 {
        let sql = cut(sql).to_owned();
        let mut state = self.state.lock();
        state.last_id += 1;
        let id = state.last_id;
        if state.rows.len() == self.capacity {
            state.rows.pop_front();
        }
        let row = QueryRow {
            id,
            session,
            user: user.to_owned(),
            who,
            sql,
            start_micros,
            duration: Duration::ZERO,
            status: "running",
            sqlstate: None,
            error: None,
            rows: 0,
            used: None,
            report: None,
        };
        state.rows.push_back(Running { row, live: Some(live), counters: None });
        id
    }

    /// A statement began and was done at once.
    pub(crate) fn ran(
        &self,
        by: (u64, &str, Who),
        sql: &str,
        start_micros: i64,
        duration: Duration,
        rows: u64,
        used: &UsedCounters,
    ) {
        let id = self.begin(by, sql, start_micros, Live::default());
        self.change(id, |running| {
            running.live = None;
            running.row.duration = duration;
            running.row.rows = rows;
            running.row.status = outcome(Ok(()));
            running.row.used = Some(used.used());
        });
    }

    /// The running statement reads tables; its counters are shown live.
    pub fn reads(&self, id: u64, counters: &Arc<UsedCounters>) {
        self.change(id, |running| running.counters = Some(Arc::clone(counters)));
    }

    /// The statement is over.
    pub fn end(&self, id: u64, duration: Duration, rows: u64, result: Result<(), &alluvia_types::Error>) {
        self.change(id, |running| {
            running.live = None;
            let row = &mut running.row;
            (row.duration, row.rows) = (duration, rows);
            row.status = outcome(result);
            row.sqlstate = result.err().map(|error| error.kind().sqlstate());
            row.error = result.err().map(|error| error.message().to_owned());
            row.used = running.counters.take().map(|counters| counters.used());
        });
    }

    /// What counts what a running statement reads; `None` if it reads no table, or has fallen out of the ring.
    pub(crate) fn counters(&self, id: u64) -> Option<Arc<UsedCounters>> {
        let state = self.state.lock();
        let first = state.rows.front()?.row.id;
        let running = state.rows.get(usize::try_from(id.checked_sub(first)?).ok()?)?;
        running.counters.clone()
    }

    /// Newest first, as they are now.
    pub fn rows(&self, now: Duration) -> Vec<QueryRow> {
        // What plans tell is asked behind the lock: whoever looks on keeps no statement from beginning.
        let rows: Vec<Running> = self.state.lock().rows.iter().rev().cloned().collect();
        let show = |Running { mut row, live, counters }: Running| {
            if let Some(counters) = &counters {
                row.used = Some(counters.used());
            }
            if let Some(Live { start, progress }) = live {
                row.duration = now.saturating_sub(start);
                row.report = Some(Report::new(row.duration, &progress, counters.as_deref()));
            }
            row
        };
        rows.into_iter().map(show).collect()
    }

    /// Ids are consecutive in the ring, so the place follows from the id; a statement that fell out is forgotten.
    fn change(&self, id: u64, change: impl FnOnce(&mut Running)) {
        let mut state = self.state.lock();
        let Some(first) = state.rows.front().map(|running| running.row.id) else { return };
        if let Some(at) = id.checked_sub(first)
            && let Some(running) = state.rows.get_mut(at as usize)
        {
            change(running);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::{Error, ErrorKind};
    use alluvia_values::excerpt::SQL_BYTES_MAX;

    fn me() -> (u64, &'static str, Who) {
        (1, "me", Who::Trusted("me".into()))
    }

    #[test]
    fn ring_keeps_the_newest_and_ends_what_it_still_knows() {
        let log = QueryLog::new(2);
        let first = log.begin(me(), "SELECT 1", 10, Live::default());
        let second = log.begin(me(), "SELECT 2", 20, Live::default());
        let live = Live { start: Duration::from_secs(3), ..Live::default() };
        let third = log.begin((2, "you", Who::Nobody("you".into())), "SELECT 3", 30, live.clone());
        log.end(first, Duration::from_secs(1), 1, Ok(()));
        log.end(second, Duration::from_secs(2), 5, Err(&Error::new(ErrorKind::Cancelled, "the client has gone")));
        live.progress.set_rows_total(200);
        live.progress.add_rows(50);
        let rows = log.rows(Duration::from_secs(5));
        let report = rows[0].report.expect("it runs");
        assert_eq!((rows[0].duration, report.elapsed), (Duration::from_secs(2), Duration::from_secs(2)));
        assert_eq!((report.fraction, report.left), (Some(0.25), Some(Duration::from_secs(6))));
        assert!(rows[1].report.is_none() && rows[1].duration == Duration::from_secs(2));
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [third, second]);
        assert_eq!(rows[0].status, "running");
        assert_eq!((rows[1].status, rows[1].sqlstate, rows[1].rows), ("cancelled", Some("57014"), 5));
        assert_eq!((rows[0].error.as_deref(), rows[1].error.as_deref()), (None, Some("the client has gone")));
    }

    #[test]
    fn a_status_is_one_of_few_words_and_the_message_is_beside_it() {
        let log = QueryLog::new(10);
        for (kind, status) in [
            (ErrorKind::Cancelled, "cancelled"),
            (ErrorKind::Timeout, "timeout"),
            (ErrorKind::UndefinedTable, "refused"),
            (ErrorKind::OutOfMemory, "failed"),
            (ErrorKind::Internal, "failed"),
        ] {
            let id = log.begin(me(), "SELECT 1", 0, Live::default());
            log.end(id, Duration::ZERO, 0, Err(&Error::new(kind, "why")));
            let row = log.rows(Duration::ZERO).remove(0);
            assert_eq!((row.status, row.sqlstate, row.error.as_deref()), (status, Some(kind.sqlstate()), Some("why")));
        }
        let id = log.begin(me(), "SELECT 1", 0, Live::default());
        log.end(id, Duration::ZERO, 1, Ok(()));
        let row = log.rows(Duration::ZERO).remove(0);
        assert_eq!((row.status, row.sqlstate, row.error), ("done", None, None));
    }

    #[test]
    fn long_statements_are_cut_at_a_character() {
        let log = QueryLog::new(1);
        log.begin(me(), &"é".repeat(SQL_BYTES_MAX), 0, Live::default());
        assert!(log.rows(Duration::ZERO)[0].sql.len() <= SQL_BYTES_MAX);
    }
}
