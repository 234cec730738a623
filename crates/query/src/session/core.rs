//! One client's session: the only entrance to the database.
//!
//! Invariants:
//! - One statement at a time; a second one waits.
//! - A session never reads below what it has read or written ([`State::seen`]).
//! - A statement that is committing is not dropped by a cancel: whether it committed must be known.
//! - Whatever ends a statement (error, cancel, timeout, panic), an open transaction is failed by it.

use crate::answer::{Accuracy, CachedStatement};
use crate::clients::{Client, Registration, Standing};
use crate::engine::Engine;
use crate::execution::guard::Guarded;
use crate::rights::{Authoriser, Need, Who, of_statement};
use crate::session::control::deallocate;
use crate::session::cursor::Cursors;
use crate::session::outcome::Outcome;
use crate::session::refine::Telling;
use crate::session::supervise::{Record, Stop, SupervisedRows};
use crate::session::transaction::Transaction;
use crate::settings::{Settings, SettingsNow};
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_copy::destination::repeated;
use alluvia_copy::progress::{CancelHandle, CancelToken, Phase, Progress};
use alluvia_syntax::parameters::missing;
use alluvia_syntax::statements::definitions::TableChange;
use alluvia_syntax::{Kind, Statement};
use alluvia_types::{Error, ErrorKind, Result, Version};
use alluvia_values::excerpt::cut;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::Instrument;

/// A session. See the crate's documentation for an example.
#[derive(Debug)]
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) id: u64,
    pub(crate) state: Arc<Mutex<State>>,
    /// Held while a statement runs.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) cancel: CancelHandle,
    progress: Mutex<Arc<Progress>>,
    pub(crate) cursors: Cursors,
    pub(crate) place: Registration,
}

/// Where a session stands between statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionStatus {
    /// Each statement is a transaction of its own.
    Idle,
    /// Between BEGIN and COMMIT.
    Open,
    /// An error came: only its end and ROLLBACK TO a savepoint are taken.
    Failed,
}

impl TransactionStatus {
    /// In small letters.
    pub fn name(self) -> &'static str {
        match self {
            TransactionStatus::Idle => "idle",
            TransactionStatus::Open => "open",
            TransactionStatus::Failed => "failed",
        }
    }
}

/// What a session remembers between statements.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) defaults: Settings,
    pub(crate) transaction: Transaction,
    /// The highest version read or written.
    pub(crate) seen: Version,
    /// The highest version written with relaxed durability that may not be visible yet.
    pub(crate) unseen: Option<Version>,
    /// Who it is for.
    pub(crate) who: Who,
    /// Whether it is a server's for a client, and not the process's own.
    pub(crate) is_served: bool,
    /// What it was made with, if it is another session's sibling.
    pub(crate) inherited: Option<Box<Settings>>,
}

impl State {
    fn authoriser(&self, catalog: Arc<Catalog>) -> Authoriser {
        Authoriser::new(self.who.clone(), Arc::clone(&self.settings.role), catalog)
    }

    /// An error came: an open transaction can only end, or go back to a savepoint.
    pub(crate) fn fail_transaction(&mut self) {
        self.transaction = match std::mem::take(&mut self.transaction) {
            Transaction::Open(mut open) => {
                open.drop_unsaved();
                Transaction::Failed(open)
            }
            other => other,
        };
    }
}

impl Standing for Mutex<State> {
    fn who(&self) -> Who {
        self.lock().who.clone()
    }

    fn idle(&self) -> &'static str {
        match self.lock().transaction {
            Transaction::None => "idle",
            Transaction::Open(_) => "idle in transaction",
            Transaction::Failed(_) => "failed transaction",
        }
    }
}

/// One statement on its way.
pub(crate) struct Run {
    pub(crate) token: CancelToken,
    pub(crate) progress: Arc<Progress>,
    /// The settings it runs with, whatever it changes.
    pub(crate) settings: Settings,
    /// How exact its answer must be; `None` is exact.
    pub(crate) accuracy: Option<Accuracy>,
    /// Its text.
    pub(crate) text: Arc<str>,
    /// Its place in `alluvia.queries`.
    pub(crate) query_id: u64,
    /// What is known of the statement from its last answer by the index, and then what is from this one.
    pub(crate) cached: Mutex<Option<Arc<CachedStatement>>>,
    /// Set if its answer is to be refined.
    pub(crate) telling: OnceLock<Arc<Telling>>,
    /// Set to the version that its batch had before, if its producer had sent it before.
    pub(crate) repeated: Arc<OnceLock<Version>>,
}

/// What a statement does once it has its turn.
///
/// It is boxed, and so is every future that leaves this crate: else each crate that awaits one compiles all that is beneath it anew,
/// and proves of all of it that threads may share it.
type Work<'a> = Box<dyn FnOnce(Arc<Run>) -> BoxFuture<'a, Result<Outcome>> + Send + 'a>;

impl Engine {
    /// A new session. Cheap.
    pub fn session(self: &Arc<Engine>) -> Session {
        Session::new(Arc::clone(self), self.next_session_id())
    }
}

impl Session {
    fn new(engine: Arc<Engine>, id: u64) -> Session {
        let settings = engine.default_settings();
        let state = State {
            defaults: settings.clone(),
            settings,
            transaction: Transaction::None,
            seen: Version(0),
            unseen: None,
            who: Who::embedded(),
            is_served: false,
            inherited: None,
        };
        let (state, cancel) = (Arc::new(Mutex::new(state)), CancelHandle::default());
        let start_micros = engine.read().clock().wall_micros();
        let place = engine.sessions().register(id, start_micros, cancel.clone(), Arc::clone(&state) as _);
        Session {
            engine,
            id,
            state,
            turn: tokio::sync::Mutex::new(()),
            cancel,
            progress: Mutex::default(),
            cursors: Cursors::default(),
            place,
        }
    }

    /// The number by which `alluvia.queries` knows this session.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// States who the session is for: from now on it may what they may, and has the settings of their role. Whoever calls this
    /// has seen their password, or trusts them. Whoever it is, COPY names from now on only what servers' clients may
    /// ([`EngineOptions::served`](crate::EngineOptions::served)).
    pub fn introduce(&self, client: Client) {
        let who = self.engine.trust().who(&client.user, &self.engine);
        *self.place.entry.client.lock() = client;
        {
            let mut state = self.state.lock();
            (state.who, state.is_served) = (who.clone(), true);
        }
        let catalog = self.engine.read().catalog();
        let role = match who {
            Who::Role(id, _) => catalog.rights().role(id),
            who => catalog.rights().named(who.name()),
        };
        for (name, value) in role.iter().flat_map(|role| &role.settings) {
            // It was checked when it was set; a limit may have become lower since.
            if let Err(error) = self.start_with(name, value) {
                tracing::warn!(%error, name, "a setting of the role is left as it is");
            }
        }
    }

    /// Whether a server that lets somebody in under this name lets in whom the session is for: names go from role to role.
    pub fn is_still(&self, user: &str) -> bool {
        let now = self.engine.trust().who(user, &self.engine);
        self.state.lock().who == now
    }

    /// Who the session is for, to others.
    pub(crate) fn client(&self) -> Client {
        self.place.entry.client.lock().clone()
    }

    /// What the session may, now.
    pub(crate) fn authoriser(&self) -> Authoriser {
        let newest = self.engine.read().catalog();
        let mut state = self.state.lock();
        // That another session made the transaction's own impossible is told where they are looked at.
        let catalog = state.definitions(&newest).unwrap_or(newest);
        state.authoriser(catalog)
    }

    /// The same, to resolve tables by its definitions; refused if the open transaction's own can no longer be.
    pub(crate) fn resolver(&self) -> Result<Authoriser> {
        let newest = self.engine.read().catalog();
        let mut state = self.state.lock();
        let catalog = state.definitions(&newest)?;
        Ok(state.authoriser(catalog))
    }

    /// Where the session stands.
    pub fn transaction_status(&self) -> TransactionStatus {
        match self.state.lock().transaction {
            Transaction::None => TransactionStatus::Idle,
            Transaction::Open(_) => TransactionStatus::Open,
            Transaction::Failed(_) => TransactionStatus::Failed,
        }
    }

    /// Something outside of a statement went wrong (a protocol error, a value that cannot be read): an open transaction can only
    /// end, as after a statement's error.
    pub fn fail_transaction(&self) {
        self.state.lock().fail_transaction();
    }

    /// All statements of a script. A syntax error anywhere refuses all of it; a statement that is merely not supported is
    /// refused when it is executed. Never panics, however deep the text.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let parsed = alluvia_syntax::script::parse(sql);
        if parsed.is_err() {
            self.state.lock().fail_transaction();
        }
        parsed
    }

    /// Parses and runs exactly one statement. One whose text the index has answered before is not parsed again.
    pub async fn sql(&self, sql: &str) -> Result<Outcome> {
        if let Some(cached) = self.engine.cached_statements().get(sql) {
            if cached.is_by_cuboid()
                && let Some(outcome) = self.answer_at_once(sql, &cached, &[])?
            {
                tokio::task::coop::consume_budget().await;
                return Ok(outcome);
            }
            return self.sql_again(sql, &cached).await;
        }
        self.execute_alone(sql, self.parse_one(sql)?).await
    }

    /// Whether the index has answered this text before, which is then one query and nothing else: [`Session::sql`] need not parse it.
    pub fn knows(&self, sql: &str) -> bool {
        self.engine.cached_statements().get(sql).is_some()
    }

    /// Runs the one statement of a text. What the index answers is known by it from then on ([`Session::knows`]).
    pub async fn execute_alone(&self, sql: &str, statement: Statement) -> Result<Outcome> {
        let text = Arc::clone(&statement.text);
        let (outcome, cached) = self.execute_cached(statement, None).await?;
        // What is around a statement's text may be anything, and what is secret in it is not kept.
        if let Some(cached) = cached.filter(|_| *text == *sql) {
            self.engine.cached_statements().insert(&text, cached);
        }
        Ok(outcome)
    }

    /// Runs a text whose statement the index has answered before. Where it cannot be answered so again, it is parsed again.
    async fn sql_again(&self, sql: &str, cached: &CachedStatement) -> Result<Outcome> {
        let made = Mutex::new((None, false));
        let work = |run: Arc<Run>| {
            let made = &made;
            async move {
                let may = self.may_answer_again(&run, cached)?;
                if may && let Some(outcome) = self.answer_again(&run, cached).await? {
                    *made.lock() = (run.cached.lock().take(), false);
                    return Ok(outcome);
                }
                let (outcome, parsed) = self.dispatch_cached(&run, self.parse_one(sql)?).await;
                let is_refused = may && parsed.is_none();
                *made.lock() = (parsed, is_refused);
                outcome
            }
        };
        let outcome = self.run(sql, work).await?;
        let made = made.into_inner();
        match made {
            // It is known as well as it can be.
            (Some(made), _) if made.is_same_way_as(cached) => {}
            (Some(made), _) => self.engine.cached_statements().insert(&Arc::from(sql), made),
            // Whatever the index refuses it would refuse again.
            (None, true) => self.engine.cached_statements().remove(sql),
            // It was not asked: this session's state or settings want another way.
            (None, false) => {}
        }
        Ok(outcome)
    }

    /// The statement of a text that has exactly one.
    pub(crate) fn parse_one(&self, sql: &str) -> Result<Statement> {
        let mut statements = self.parse(sql)?;
        match statements.len() {
            1 => Ok(statements.remove(0)),
            0 => Err(Error::new(ErrorKind::Syntax, "there is no statement to run")),
            several => Err(Error::new(ErrorKind::Syntax, format!("one statement is wanted, and {several} are given"))
                .with_hint("run them one by one")),
        }
    }

    /// Stops the running statement of this session from anywhere.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// What the running (or else the last) statement has done so far.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress.lock())
    }

    /// The last statement had nothing to tell.
    pub(crate) fn forget_progress(&self) {
        *self.progress.lock() = Arc::default();
    }

    /// Whether the session is between BEGIN and the end of its transaction.
    pub fn in_transaction(&self) -> bool {
        !matches!(self.state.lock().transaction, Transaction::None)
    }

    /// Runs a statement. For a query, returns when its rows begin to come; the rest of the time passes in the stream.
    pub async fn execute(&self, statement: Statement) -> Result<Outcome> {
        self.execute_cached(statement, None).await.map(|(outcome, _)| outcome)
    }

    /// As [`Session::execute`]; also gives what it takes to ask again, if the index answered, as `known` may be from the last time.
    pub(crate) fn execute_cached(
        &self,
        statement: Statement,
        known: Option<Arc<CachedStatement>>,
    ) -> BoxFuture<'_, Result<(Outcome, Option<Arc<CachedStatement>>)>> {
        Box::pin(async move {
            let text = Arc::clone(&statement.text);
            let cached = Mutex::new(None);
            let work = |run: Arc<Run>| {
                let cached = &cached;
                async move {
                    *run.cached.lock() = known;
                    let (outcome, made) = self.dispatch_cached(&run, statement).await;
                    *cached.lock() = made;
                    outcome
                }
            };
            let outcome = self.run(&text, work).await?;
            let cached = cached.lock().take();
            Ok((outcome, cached))
        })
    }

    /// Runs `work` as a statement: in turn, cancellable, timed, recorded, guarded against panics.
    pub(crate) fn run<'a, F, W>(&'a self, text: &'a str, work: F) -> BoxFuture<'a, Result<Outcome>>
    where
        F: FnOnce(Arc<Run>) -> W + Send + 'a,
        W: Future<Output = Result<Outcome>> + Send + 'a,
    {
        Box::pin(self.run_work(text, Box::new(move |run| Box::pin(work(run)))))
    }

    async fn run_work<'a>(&'a self, text: &'a str, work: Work<'a>) -> Result<Outcome> {
        let _turn = self.turn.lock().await;
        let token = self.cancel.begin();
        let progress = Arc::new(Progress::default());
        *self.progress.lock() = Arc::clone(&progress);
        let settings = self.state.lock().settings.clone();
        let mut stop = Stop::new(token.clone(), settings.statement_timeout);
        let record = Record::begin(&self.engine, &self.place.entry, text);
        let version_before = Arc::<OnceLock<Version>>::default();
        let run = Arc::new(Run {
            token: token.clone(),
            progress: Arc::clone(&progress),
            accuracy: settings.accuracy(),
            settings,
            text: cut(text).into(),
            query_id: record.id(),
            cached: Mutex::default(),
            telling: OnceLock::new(),
            repeated: Arc::clone(&version_before),
        });
        let span = record.span().clone();
        let work = work(run);
        let work = async {
            // Whoever is nobody, or no longer somebody, may nothing. (Whoever's SET ROLE does not hold any more may RESET it.)
            self.authoriser().acting_as("none").role()?;
            work.await
        };
        let mut work = Guarded::new(work.instrument(span));
        let result = tokio::select! {
            biased;
            result = &mut work => result,
            () = stop.stopped() => match progress.phase() {
                Phase::Committing => work.await,
                _ => Err(token.error()),
            },
        };
        match result {
            Ok(mut outcome) => {
                if let Some(version) = version_before.get() {
                    outcome = outcome.with_notice(repeated(*version));
                }
                match outcome.rows.take() {
                    Some(rows) => {
                        let supervised = SupervisedRows::new(rows, stop, record, Arc::clone(&self.state));
                        outcome.rows = Some(Box::pin(supervised));
                    }
                    None => record.end(progress.rows(), Ok(())),
                }
                Ok(outcome)
            }
            Err(error) => {
                record.end(progress.rows(), Err(&error));
                self.state.lock().fail_transaction();
                self.audit_refusal(text, &error).await;
                Err(error)
            }
        }
    }

    /// As [`Session::dispatch`]; also what it takes to ask a query again. Other statements ask one on the way, and mean more than its answer.
    async fn dispatch_cached(
        &self,
        run: &Arc<Run>,
        statement: Statement,
    ) -> (Result<Outcome>, Option<Arc<CachedStatement>>) {
        let is_query = matches!(statement.kind, Kind::Query(_));
        let outcome = self.dispatch(run, statement).await;
        (outcome, run.cached.lock().take().filter(|_| is_query))
    }

    pub(crate) async fn dispatch(&self, run: &Arc<Run>, statement: Statement) -> Result<Outcome> {
        let Statement { kind, hints, text: _, parameters, tokens: _ } = statement;
        self.check_transaction(&kind)?;
        of_statement(&self.authoriser(), &kind)?;
        if let Transaction::Open(open) = &mut self.state.lock().transaction {
            open.has_run |= !kind.is_about_session();
        }
        if parameters > 0 {
            return Err(missing(1));
        }
        match kind {
            Kind::Query(query) => self.query(run, query, &hints).await,
            Kind::Explain { query, options } => self.explain(run, query, options, &hints).await,
            Kind::Insert(insert) => self.insert(run, insert, &hints).await,
            Kind::CreateTable(create) => self.create_table(run, *create, &hints).await,
            Kind::DropTable { names, if_exists } => self.drop_tables(run, names, if_exists).await,
            Kind::DropNone { command, names } => self.drop_none(command, &names),
            Kind::AsIs { command, notice } => {
                let done = Outcome::done(command);
                Ok(match notice {
                    Some(notice) => done.with_notice(notice),
                    None => done,
                })
            }
            Kind::AlterTable(alter) => self.alter_table(run, alter).await,
            Kind::Describe(table) => self.describe_table(&table),
            Kind::ShowTables => Ok(self.show_tables()),
            Kind::ShowCreate(table) => self.show_create(&table),
            Kind::Setting(command) => self.setting(command),
            Kind::Role(statement) => self.role_statement(run, *statement).await,
            Kind::Begin(access) => self.begin(access).await,
            Kind::Commit => self.commit(run).await,
            Kind::Rollback => self.rollback(),
            Kind::Savepoint(name) => self.savepoint(name),
            Kind::RollbackTo(name) => self.rollback_to(&name),
            Kind::Release(name) => self.release(&name),
            Kind::Copy(copy) => self.copy(run, *copy, &hints).await,
            Kind::Call(procedure) => self.call(procedure).await,
            Kind::Declare(declare) => self.declare(run, declare, &hints).await,
            Kind::Fetch { name, count } => self.fetch(run, &name, count).await,
            Kind::CloseCursor(name) => self.close_cursor(name.as_deref()),
            Kind::Discard => self.discard(),
            Kind::Deallocate(name) => deallocate(name.as_deref()),
            Kind::Refused(error) => Err(error),
        }
    }

    /// Refuses everything while the transaction has failed.
    pub(crate) fn check_usable(&self) -> Result<()> {
        match self.state.lock().transaction {
            Transaction::Failed(_) => Err(failed_transaction()),
            _ => Ok(()),
        }
    }

    /// Refuses what writes in a session, or a transaction, that only reads.
    pub(crate) fn check_writable(&self, command: &str) -> Result<()> {
        if !self.state.lock().settings.is_read_only() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ReadOnlyTransaction, format!("cannot execute {command} in a read-only transaction"))
            .with_hint(
                "BEGIN READ WRITE begins one that writes; SHOW default_transaction_read_only tells what others are",
            ))
    }

    /// Refuses what a transaction cannot hold, and, once it failed, everything but its end and the way back to a savepoint.
    pub(crate) fn check_transaction(&self, kind: &Kind) -> Result<()> {
        let refused = |what: &str| {
            Err(Error::new(ErrorKind::NotSupported, format!("{what} inside a transaction is not supported"))
                .with_hint("it holds queries, rows and tables' definitions; COMMIT or ROLLBACK first"))
        };
        let has_failed = matches!(self.state.lock().transaction, Transaction::Failed(_));
        if !has_failed && let Some(command) = kind.writes() {
            self.check_writable(command)?;
        }
        match (&self.state.lock().transaction, kind) {
            (Transaction::None, _) => Ok(()),
            (_, Kind::Commit | Kind::Rollback | Kind::RollbackTo(_)) => Ok(()),
            (Transaction::Failed(_), _) => Err(failed_transaction()),
            (Transaction::Open(_), Kind::AlterTable(alter)) if matches!(alter.change, TableChange::Owner(_)) => {
                refused("ALTER TABLE ... OWNER TO")
            }
            (Transaction::Open(_), Kind::Role(_)) => refused("a change of roles or grants"),
            (Transaction::Open(_), Kind::Call(_)) => refused("CALL"),
            (Transaction::Open(_), Kind::Discard) => refused("DISCARD ALL"),
            (Transaction::Open(_), Kind::Copy(copy)) if copy.is_in_batches() => refused("COPY with BATCH_ROWS"),
            (Transaction::Open(_), _) => Ok(()),
        }
    }

    /// The newest visible definition of a user table, or the open transaction's own, with near names if there is none; refused if the
    /// session may not use it for this.
    pub(crate) fn table_for(&self, need: Need, name: &str) -> Result<Arc<TableEntry>> {
        let authoriser = self.resolver()?;
        let entry = authoriser.catalog().table(name)?;
        authoriser.table(need, entry)?;
        Ok(Arc::clone(entry))
    }

    /// The session's settings beside the database's, for `alluvia.settings`.
    pub(crate) fn settings_now(&self) -> SettingsNow {
        let database = self.engine.database_settings();
        let state = self.state.lock();
        SettingsNow { now: state.settings.clone(), defaults: state.defaults.clone(), database }
    }
}

pub(crate) fn failed_transaction() -> Error {
    Error::new(ErrorKind::FailedTransaction, "the transaction has failed: statements are refused until it ends")
        .with_hint("ROLLBACK ends it, and ROLLBACK TO goes back to a savepoint")
}

/// A statement's duration limit as the settings have it.
pub(crate) fn limit(timeout: Duration) -> Option<Duration> {
    (!timeout.is_zero()).then_some(timeout)
}
