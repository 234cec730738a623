//! What all sessions of a database share: ports, functions and rules, memory, spill directory.
//!
//! [`directory`] has the roles, for servers that let clients in; [`refused`] writes the audit log's lines about clients
//! that are turned away; [`sequences`] gives values of identity columns.
//!
//! Invariants:
//! - Planning state that does not depend on a statement is built once; a statement gets a copy with its own snapshot,
//!   settings and memory.
//! - All queries together hold at most `memory_limit_bytes`, and spill at most `spill_bytes_max`.

pub(crate) mod directory;
mod parts;
pub(crate) mod refused;
pub(crate) mod row_rules;
pub(crate) mod sequences;

use crate::answer::{CachedStatements, Cuboids, Kept, Pinned, Schemas, Shape};
use crate::clients::Sessions;
use crate::engine::directory::Trust;
use crate::engine::row_rules::KeptRules;
use crate::engine::sequences::Sequences;
use crate::errors::error_of;
use crate::execution::planning::STOP_CHECKS;
use crate::execution::{Executor, Patience};
use crate::point::PointPlans;
use crate::rule::IndexPlanner;
use crate::sample::Outlines;
use crate::system::{Figures, QueryLog, StageFigures, Statements};
use crate::table::ScanCache;
use alluvia_access::{LogIns, Refusals};
use alluvia_catalog::TableEntry;
use alluvia_copy::temporary::{MemoryBound, TemporaryMemory};
use alluvia_copy::{CopyPlaces, Fetch, ServedPlaces, Spool};
use alluvia_functions::output_size::StatementLimits;
use alluvia_memory::{Admission, QueryMemory, TotalMemory};
use alluvia_pg_catalog::SettingRow;
use alluvia_plan::rules::{configure, register, with_rules};
use alluvia_procedures::KeptRoutines;
use alluvia_rows::waiting;
use alluvia_settings::Settings;
use alluvia_skipping::{PredicateCache, Tended};
use alluvia_snapshot::{Admin, Ingest, Ports, Read};
use alluvia_space::PUBLIC_SCHEMA;
use alluvia_syntax::names::ALONG_PATH;
use alluvia_syntax::names::SYSTEM;
use alluvia_syntax::statements::planned_types::planned_type;
use alluvia_syntax::units::show_bytes;
use alluvia_types::{Error, Result, SegmentId, TableId, Version};
use alluvia_values::errors::wrap;
use arrow::datatypes::FieldRef;
use chrono::DateTime;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::ast;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Statements that `alluvia.queries` remembers.
const QUERIES_REMEMBERED: usize = 1_000;

/// Turns that tables share.
const CHANGE_TURNS: usize = 64;

/// What an engine may use.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Bytes that all queries together may hold in memory.
    pub memory_limit_bytes: u64,
    /// Bytes that one query may hold unless its session sets `memory_limit`.
    pub query_memory_bytes: u64,
    /// Where queries spill; created if it is missing.
    pub spill_dir: PathBuf,
    /// Bytes that all queries together may spill.
    pub spill_bytes_max: u64,
    /// Bytes that all cuboids together may hold.
    pub cuboid_bytes_max: u64,
    /// Bytes that the predicate cache may hold.
    pub predicate_cache_bytes_max: u64,
    /// Threads that one query runs on unless its session sets `threads`.
    pub threads: usize,
    /// Gets the URLs that the process's own sessions name in COPY, `None` for none.
    pub fetch: Option<Arc<dyn Fetch>>,
    /// The files and URLs that sessions of servers' clients may name in COPY.
    pub served: ServedPlaces,
}

/// Removes a spill directory with all that is in it, before its first engine; fine if there is none.
///
/// Not through `Disk`: spilled files are DataFusion's, and mean nothing after their process.
pub fn empty_spill_dir(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(dir, "emptying", &error)),
        _ => Ok(()),
    }
}

/// One database, ready for sessions.
#[derive(Debug)]
pub struct Engine {
    ports: Ports,
    options: EngineOptions,
    runtime: Arc<RuntimeEnv>,
    admission: Arc<Admission>,
    base: Arc<SessionState>,
    queries: Arc<QueryLog>,
    scans: Arc<ScanCache>,
    schemas: Schemas,
    outlines: Outlines,
    cached_statements: CachedStatements,
    point_plans: Arc<PointPlans>,
    cuboids: Arc<Cuboids>,
    predicates: Arc<PredicateCache>,
    predicates_tended: Tended,
    kept: Arc<Kept>,
    kept_rules: KeptRules,
    routines: KeptRoutines,
    sequences: Sequences,
    executor: Arc<Executor>,
    numbers: AtomicU64,
    /// How many sessions there have been.
    sessions_made: AtomicU64,
    sessions: Arc<Sessions>,
    trust: Trust,
    log_ins: LogIns,
    refusals: Refusals,
    statements: Statements,
    /// How many temporary tables there have been.
    temporary_made: AtomicU32,
    /// Turns of statements that change what they read, by tables.
    change_turns: [Arc<tokio::sync::Mutex<()>>; CHANGE_TURNS],
    /// Statements that take longer are logged; zero is never. Microseconds.
    slow_micros: AtomicU64,
}

impl Engine {
    /// An engine over a database.
    pub fn new(ports: Ports, options: EngineOptions) -> Result<Arc<Engine>> {
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![options.spill_dir.clone()]))
            .with_max_temp_directory_size(options.spill_bytes_max);
        let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk).build_arc();
        let runtime = runtime.map_err(|error| error_of(&error).at("preparing the spill directory"))?;
        let mut base = with_rules(SessionStateBuilder::new().with_default_features(), STOP_CHECKS)
            .with_config(base_config())
            .with_runtime_env(Arc::clone(&runtime))
            .with_type_planner(Arc::new(Types))
            .with_query_planner(Arc::new(IndexPlanner))
            .build();
        register(&mut base).map_err(|error| error_of(&error))?;
        let cuboids = Cuboids::new(options.cuboid_bytes_max);
        if let Err(error) = cuboids.recall(ports.admin.as_ref()) {
            tracing::warn!(%error, "which cuboids there were is not known; they are learnt anew");
        }
        let predicates = PredicateCache::new(options.predicate_cache_bytes_max);
        if let Err(error) = predicates.recall(ports.admin.as_ref()) {
            tracing::warn!(%error, "which blocks predicates match nowhere is not known; it is learnt anew");
        }
        Ok(Arc::new(Engine {
            admission: Admission::new(TotalMemory::new(options.memory_limit_bytes)),
            queries: QueryLog::new(QUERIES_REMEMBERED),
            scans: ScanCache::new(),
            schemas: Schemas::default(),
            outlines: Outlines::default(),
            cached_statements: CachedStatements::default(),
            point_plans: Arc::default(),
            cuboids: Arc::new(cuboids),
            predicates: Arc::new(predicates),
            predicates_tended: Tended::default(),
            kept: Arc::default(),
            kept_rules: KeptRules::default(),
            routines: KeptRoutines::default(),
            sequences: Sequences::default(),
            executor: Executor::new(options.threads),
            numbers: AtomicU64::new(0),
            sessions_made: AtomicU64::new(0),
            sessions: Arc::default(),
            trust: Trust::default(),
            log_ins: LogIns::default(),
            refusals: Refusals::default(),
            statements: Statements::default(),
            temporary_made: AtomicU32::new(0),
            change_turns: std::array::from_fn(|_| Arc::default()),
            slow_micros: AtomicU64::new(0),
            ports,
            options,
            runtime,
            base: Arc::new(base),
        }))
    }

    /// The number of a session that is made now.
    pub(crate) fn next_session_id(&self) -> u64 {
        self.sessions_made.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The sessions that are open.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Whom servers let in without a role.
    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Which log-ins have lines in the audit log.
    pub(crate) fn log_ins(&self) -> &LogIns {
        &self.log_ins
    }

    /// Which refusals have lines in the audit log.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The turn for which those statements wait that change a table by what they have read of it, and that others were in the
    /// way of.
    pub(crate) fn change_turn(&self, table: TableId) -> &Arc<tokio::sync::Mutex<()>> {
        &self.change_turns[table.0 as usize % CHANGE_TURNS]
    }

    /// Counters of statements.
    pub(crate) fn statements(&self) -> &Statements {
        &self.statements
    }

    /// From now on statements that take longer are logged, as warnings; zero logs none.
    pub fn log_slower_than(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.slow_micros.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn is_slow(&self, duration: Duration) -> bool {
        let slow = self.slow_micros.load(Ordering::Relaxed);
        slow > 0 && duration.as_micros() > u128::from(slow)
    }

    /// What a session may name in COPY.
    pub(crate) fn copy_places(&self, is_served: bool) -> CopyPlaces {
        let spool = self.spool();
        match is_served {
            true => CopyPlaces::served(&self.options.served, spool),
            false => CopyPlaces::anywhere(self.options.fetch.clone(), spool),
        }
    }

    /// Where files lie that mean nothing after the process: among what statements spill.
    pub(crate) fn spool(&self) -> Spool {
        Spool::new(Arc::clone(&self.runtime.disk_manager))
    }

    /// What counts the memory of a new session's temporary tables.
    pub(crate) fn temporary_memory(&self) -> Arc<TemporaryMemory> {
        TemporaryMemory::new(Arc::clone(self.admission.total()) as Arc<dyn MemoryBound>)
    }

    /// How many temporary tables there have been before the one that is made now.
    pub(crate) fn next_temporary(&self) -> u32 {
        self.temporary_made.fetch_add(1, Ordering::Relaxed)
    }

    /// How the database stands, and what was counted since it was opened.
    pub fn figures(&self) -> Figures {
        let (info, catalog) = (self.ports.admin.info(), self.ports.read.catalog());
        let stages = self.ports.admin.stages().into_iter().filter_map(|stage| {
            let def = &catalog.by_id(stage.table)?.def;
            // Two schemas may have tables of one name.
            let table = match def.schema.as_str() {
                PUBLIC_SCHEMA => def.name.clone(),
                schema => format!("{schema}.{}", def.name),
            };
            let (watermark, lag) = (stage.watermark, stage.staleness);
            Some(StageFigures {
                table,
                stage: stage.stage,
                watermark,
                lag,
                rows: stage.rows,
                bytes: stage.bytes,
                parts: stage.parts,
            })
        });
        let mut sessions: BTreeMap<&'static str, u64> = BTreeMap::new();
        for session in self.sessions.list() {
            *sessions.entry(session.client.lock().protocol).or_default() += 1;
        }
        Figures {
            statements: self.statements.figures(),
            sessions: sessions.into_iter().collect(),
            visible: info.visible,
            batches: info.published.batches,
            rows: info.published.rows,
            bytes: info.published.bytes,
            log_syncs: info.log_groups,
            log_bytes: info.log_bytes,
            tail_bytes: info.tail_bytes,
            tail_bytes_max: info.tail_bytes_max,
            writers_waiting: info.writers_waiting,
            cache_bytes: info.cache_bytes,
            key_bytes: info.key_bytes,
            kill_bytes: info.kill_bytes,
            query_bytes: self.memory_used_bytes(),
            cuboid_bytes: self.cuboids.list().iter().map(|cuboid| cuboid.bytes()).sum(),
            read_only: info.read_only,
            pipeline_error: info.pipeline_error,
            stages: stages.collect(),
        }
    }

    /// A number that no statement was given before, now or before the last restart: what a sample without a seed is
    /// drawn by.
    pub(crate) fn number(&self) -> u64 {
        let count = self.numbers.fetch_add(1, Ordering::Relaxed);
        ((self.ports.read.clock().wall_micros() as u64) << 12) ^ count
    }

    /// A version for a definition that waits for the COMMIT of its transaction: later than that of any other.
    pub(crate) fn waiting_version(&self) -> Version {
        waiting(self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// Recent statements of all sessions.
    pub fn queries(&self) -> &Arc<QueryLog> {
        &self.queries
    }

    /// Bytes that queries hold in memory now.
    pub fn memory_used_bytes(&self) -> u64 {
        self.admission.total().used_bytes() as u64
    }

    /// Says what the database holds beside statements that grows with its rows: these have so much less.
    pub fn set_memory_beside(&self, bytes: u64) {
        self.admission.total().set_beside(bytes);
    }

    /// Statistics of immutable segments, kept between statements.
    pub(crate) fn scans(&self) -> &Arc<ScanCache> {
        &self.scans
    }

    /// What the answers of statements that the index answers look like.
    pub(crate) fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// How many statements were answered over an outline, so without being planned, since the database was opened.
    pub fn outlined(&self) -> u64 {
        self.outlines.answered()
    }

    /// How many point reads were answered by plans that were kept, since the database was opened.
    pub fn points_answered(&self) -> u64 {
        self.point_plans.answered()
    }

    /// How many statements were answered by heaps, since the database was opened.
    pub fn heap_answered(&self) -> u64 {
        self.point_plans.by_heap()
    }

    /// What is around the drawn rows of statements.
    pub(crate) fn outlines(&self) -> &Outlines {
        &self.outlines
    }

    /// Statements that the index has answered, by their texts.
    pub(crate) fn cached_statements(&self) -> &CachedStatements {
        &self.cached_statements
    }

    /// Procedures that were compiled.
    pub(crate) fn routines(&self) -> &KeptRoutines {
        &self.routines
    }

    /// Plans of point reads.
    pub(crate) fn point_plans(&self) -> &Arc<PointPlans> {
        &self.point_plans
    }

    /// Resident cuboids.
    pub(crate) fn cuboids(&self) -> &Arc<Cuboids> {
        &self.cuboids
    }

    /// Builds the cuboid that is wanted most, if one is, and brings the resident ones up to date. Returns whether it
    /// built one. For a thread that has nothing else to do; queries never wait for it.
    pub fn tend_cuboids(&self) -> Result<bool> {
        self.cached_statements.retain(&self.ports.read.catalog());
        // One thread: the others are the statements'.
        self.cuboids.tend(self.ports.read.as_ref(), self.ports.admin.as_ref(), &self.kept, 1)
    }

    /// Builds a cuboid now and keeps it.
    pub(crate) fn pin_cuboid(&self, entry: &TableEntry, shape: &Shape) -> Result<Pinned> {
        let pinned = self.cuboids.pin(entry, shape, self.ports.read.as_ref(), &self.kept, self.options.threads)?;
        self.cuboids.memorise(self.ports.admin.as_ref(), false)?;
        Ok(pinned)
    }

    /// Lets cuboids be evicted, or with `forget` drops them at once; gives how many were meant. Measures matter if
    /// `measures` is set.
    pub(crate) fn unpin_cuboid(
        &self,
        shape: &Shape,
        dimensions: &[usize],
        measures: bool,
        forget: bool,
    ) -> Result<usize> {
        let count = match forget {
            true => self.cuboids.forget(shape, dimensions, measures),
            false => self.cuboids.unpin(shape, dimensions, measures),
        };
        self.cuboids.memorise(self.ports.admin.as_ref(), false)?;
        Ok(count)
    }

    /// Keeps across restarts which cuboids there are, and how they were used. For a clean end.
    pub fn remember_cuboids(&self) -> Result<()> {
        self.cuboids.memorise(self.ports.admin.as_ref(), true)
    }

    /// Predicates and the blocks they match nowhere.
    pub(crate) fn predicates(&self) -> &Arc<PredicateCache> {
        &self.predicates
    }

    /// Forgets what the predicate cache holds of segments that are gone, and now and then writes down what is new in
    /// it. For a thread that has nothing else to do; queries never wait for it.
    pub fn tend_predicate_cache(&self) -> Result<()> {
        self.predicates.tend(&self.predicates_tended, self.ports.read.as_ref(), self.ports.admin.as_ref())
    }

    /// Keeps across restarts what the predicate cache holds. For a clean end.
    pub fn remember_predicates(&self) -> Result<()> {
        self.predicates.memorise(&self.predicates_tended, self.ports.read.as_ref(), self.ports.admin.as_ref())
    }

    /// Forgets the predicates of a table, whose constants may be values of rows that are gone, also in the file.
    pub(crate) fn forget_predicates(&self, table: TableId) -> Result<()> {
        self.predicates.forget(&self.predicates_tended, table, self.ports.admin.as_ref())
    }

    /// As [`alluvia_snapshot::Admin::forget_segment`]; what was made of the rows goes, too.
    pub(crate) fn forget_segment(&self, table: TableId, segment: SegmentId, is_told: bool) -> Result<Vec<String>> {
        let told = self.ports.admin.forget_segment(table, segment, is_told)?;
        self.cuboids.give_up(table);
        Ok(told)
    }

    /// What is kept of tables between statements that the index answers.
    pub(crate) fn kept(&self) -> &Arc<Kept> {
        &self.kept
    }

    /// Expressions of definitions, as they were planned last.
    pub(crate) fn kept_rules(&self) -> &KeptRules {
        &self.kept_rules
    }

    /// Values of identity columns.
    pub(crate) fn sequences(&self) -> &Sequences {
        &self.sequences
    }

    /// Where plans are computed.
    pub(crate) fn executor(&self) -> &Arc<Executor> {
        &self.executor
    }

    /// Definitions, snapshots, versions and time.
    pub(crate) fn read(&self) -> &Arc<dyn Read> {
        &self.ports.read
    }

    /// Batches on their way in.
    pub(crate) fn ingest(&self) -> &Arc<dyn Ingest> {
        &self.ports.ingest
    }

    /// Work that is asked for, files beside the data, what system tables tell.
    pub(crate) fn admin(&self) -> &Arc<dyn Admin> {
        &self.ports.admin
    }

    /// What a new session's settings are.
    pub(crate) fn default_settings(&self) -> Settings {
        let EngineOptions { query_memory_bytes, memory_limit_bytes, threads, .. } = self.options;
        Settings::new(query_memory_bytes, memory_limit_bytes, threads)
    }

    /// The database's own settings, for SHOW ALL and `alluvia.settings`.
    pub(crate) fn database_settings(&self) -> Vec<SettingRow> {
        let info = self.ports.admin.info();
        let row = |name: &str, value: String, description: &str| SettingRow {
            name: name.to_owned(),
            default_value: value.clone(),
            value,
            scope: "database",
            description: description.to_owned(),
        };
        vec![
            row(
                "queries_memory_max",
                show_bytes(self.options.memory_limit_bytes),
                "Memory that all queries together may hold.",
            ),
            row(
                "predicate_cache_max",
                show_bytes(self.options.predicate_cache_bytes_max),
                "Memory that the predicate cache may hold.",
            ),
            row("spill_dir", self.options.spill_dir.display().to_string(), "Where queries spill."),
            row("spill_max", show_bytes(self.options.spill_bytes_max), "Bytes that all queries together may spill."),
            row(
                "tail_max",
                show_bytes(info.tail_bytes_max),
                "Bytes of unsorted rows in memory at which writers start to wait.",
            ),
        ]
    }

    /// How a statement of these settings waits for memory.
    pub(crate) fn patience(&self, settings: &Settings) -> Patience {
        Patience { admission: Arc::clone(&self.admission), most: settings.memory_wait_timeout }
    }

    /// What knows the functions that every statement has.
    pub(crate) fn functions(&self) -> &Arc<SessionState> {
        &self.base
    }

    /// The planning state of one statement: a copy of the engine's, with the statement's settings and memory.
    pub(crate) fn statement_state(&self, settings: &Settings) -> (SessionState, Arc<RuntimeEnv>) {
        let mut state = self.base.as_ref().clone();
        let config = std::mem::take(state.config_mut());
        let mut config = config.with_batch_size(settings.batch_size).with_target_partitions(settings.threads);
        let limits = StatementLimits::new(settings.memory_limit_bytes);
        config.options_mut().extensions.insert(limits);
        if !settings.time_zone.is_utc() {
            config.options_mut().execution.time_zone = Some(settings.time_zone.name().to_owned());
        }
        *state.config_mut() = config;
        state.mark_start_execution();
        // `now()` is a moment of the store's clock, as it is where the index answers.
        let began = DateTime::from_timestamp_micros(self.ports.read.clock().wall_micros());
        state.execution_props_mut().query_execution_start_time = began;
        (state, self.statement_runtime(settings))
    }

    /// What the operators of one statement share with all others, and its own memory.
    pub(crate) fn statement_runtime(&self, settings: &Settings) -> Arc<RuntimeEnv> {
        let memory = QueryMemory::new(settings.memory_limit_bytes, Arc::clone(self.admission.total()));
        Arc::new(RuntimeEnv { memory_pool: memory, ..self.runtime.as_ref().clone() })
    }
}

/// What holds for every statement.
fn base_config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(SYSTEM, ALONG_PATH);
    configure(&mut config);
    config
}

/// SQL types of ours where DataFusion's differ: timestamps are microseconds, bytes are views, text with a length is not text without one, and
/// what Arrow has no type of its own for says in its field what it is.
#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>, DataFusionError> {
        planned_type(sql_type).map_err(wrap)
    }
}
