//! A table made by hand, with pending rows and what sessions keep of it, and the live rows in a plain in-memory table beside it.

use super::statistics::ScanCache;
use crate::namespace::tables::SnapshotCatalog;
use crate::system::{QueryLog, SystemContext};
use crate::table::context::{IndexUse, StatementContext};
use crate::used::UsedCounters;
use alluvia_catalog::Catalog;
use alluvia_catalog::authoriser::{Authoriser, Who};
use alluvia_fixture::FixedAdmin;
use alluvia_pg_catalog::{SettingRow, SettingsView};
use alluvia_plan::rules::configure;
use alluvia_skipping::PredicateCache;
use alluvia_snapshot::{Killed, Newer, Read, Snapshot, Want};
use alluvia_space::TableDef;
use alluvia_syntax::names::ALONG_PATH;
use alluvia_types::{Clock, Error, Freshness, ManualClock, Result, TableId, Version};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use alluvia_fixture::{Random, column, table, texts};

const CATALOG_NAME: &str = "alluvia";

/// A table, and what sessions keep of it.
pub(crate) struct Fixture {
    stored: alluvia_fixture::Fixture,
    pub pending: Vec<RecordBatch>,
    scans: Arc<ScanCache>,
    pub predicates: Arc<PredicateCache>,
    /// Whether scans use these.
    pub skips: bool,
}

impl Deref for Fixture {
    type Target = alluvia_fixture::Fixture;

    fn deref(&self) -> &alluvia_fixture::Fixture {
        &self.stored
    }
}

impl DerefMut for Fixture {
    fn deref_mut(&mut self) -> &mut alluvia_fixture::Fixture {
        &mut self.stored
    }
}

impl Fixture {
    /// A table with these dimensions, and ranges learnt from `sample`.
    pub(crate) fn new(def: TableDef, declared: &str, sample: &RecordBatch) -> Fixture {
        Fixture {
            stored: alluvia_fixture::Fixture::new(def, declared, sample),
            pending: Vec::new(),
            scans: ScanCache::new(),
            predicates: Arc::new(PredicateCache::new(64 << 20)),
            skips: true,
        }
    }

    /// Forgets statistics, which are kept by definition, after `now` was changed.
    pub(crate) fn altered(&mut self) {
        self.scans = ScanCache::new();
    }

    /// A session whose statement reads this table, with `plain` beside it: the visible rows, without segments.
    pub(crate) fn session(&self, plain: &RecordBatch) -> (SessionContext, Arc<UsedCounters>) {
        let snapshot = Arc::new(self.snapshot());
        let catalog = Arc::clone(&snapshot.catalog);
        let used = UsedCounters::new(&snapshot);
        let context = StatementContext {
            store: Arc::new(FixedStore { clock: Arc::new(ManualClock::default()), snapshot: Arc::clone(&snapshot) }),
            snapshot,
            used: Arc::clone(&used),
            temporary: Default::default(),
            pending: (!self.pending.is_empty()).then(|| (self.now.id, self.pending.clone())).into_iter().collect(),
            sample_fraction: 1.0,
            cuboids: Arc::new(crate::answer::Cuboids::new(0)),
            skipping: self.skips.then(|| Arc::clone(&self.predicates)),
            scans: Arc::clone(&self.scans),
            index: IndexUse { rule: false, cuboids: false, accuracy: None, threads: 1, kept: Arc::default() },
        };
        let mut config = SessionConfig::new()
            .with_target_partitions(2)
            .with_default_catalog_and_schema(CATALOG_NAME, ALONG_PATH)
            .with_create_default_catalog_and_schema(false);
        configure(&mut config);
        config.set_extension(Arc::new(SystemContext {
            snapshot: Arc::clone(&context.snapshot),
            used: Arc::clone(&used),
            admin: Arc::new(FixedAdmin),
            clock: Arc::new(ManualClock::default()),
            queries: QueryLog::new(10),
            sessions: Arc::default(),
            cuboids: Arc::clone(&context.cuboids),
            predicates: Arc::clone(&self.predicates),
            settings: Arc::new(FixedSettings),
            authoriser: Authoriser::new(Who::embedded(), "".into(), Arc::default()),
        }));
        config.set_extension(Arc::new(context));
        let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
        let session = SessionContext::new_with_state(state);
        session.register_catalog(CATALOG_NAME, Arc::new(SnapshotCatalog::new(catalog, Arc::default())));
        let memory = MemTable::try_new(plain.schema(), vec![vec![plain.clone()]]).expect("memory table");
        let plain_catalog = datafusion::catalog::MemoryCatalogProvider::new();
        let plain_schema = Arc::new(datafusion::catalog::MemorySchemaProvider::new());
        datafusion::catalog::SchemaProvider::register_table(&*plain_schema, "plain".to_owned(), Arc::new(memory))
            .expect("registers");
        datafusion::catalog::CatalogProvider::register_schema(&plain_catalog, "public", plain_schema)
            .expect("registers");
        session.register_catalog("memory", Arc::new(plain_catalog));
        (session, used)
    }
}

/// The first column of a query's result, which is BIGINT.
pub(crate) async fn numbers(session: &SessionContext, sql: &str) -> Vec<i64> {
    let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(column).collect()
}

/// A query's result as text.
pub(crate) async fn text(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
    arrow::util::pretty::pretty_format_batches(&batches).expect("prints").to_string()
}

#[derive(Debug)]
struct FixedSettings;

impl SettingsView for FixedSettings {
    fn settings(&self) -> Vec<SettingRow> {
        vec![SettingRow {
            name: "freshness".to_owned(),
            value: "5s".to_owned(),
            default_value: "0s".to_owned(),
            scope: "session",
            description: "How fresh answers must be.".to_owned(),
        }]
    }

    fn shown(&self, name: &str) -> Option<String> {
        (name == "freshness").then(|| "5s".to_owned())
    }
}

/// A database of one snapshot.
#[derive(Debug)]
struct FixedStore {
    clock: Arc<dyn Clock>,
    snapshot: Arc<Snapshot>,
}

impl Read for FixedStore {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.catalog)
    }

    fn snapshot(&self, _want: &Want) -> Result<Snapshot> {
        Ok(self.snapshot.as_ref().clone())
    }

    fn required(&self, _freshness: Freshness, _at_least: Version) -> Version {
        self.snapshot.version
    }

    fn lag(&self, _version: Version) -> Duration {
        self.snapshot.lag
    }

    fn newer(&self, _table: TableId, _above: Version, _from: Version) -> Option<Newer> {
        None
    }

    fn killed(&self, _table: TableId, _above: Version, _through: Version) -> Option<Killed> {
        None
    }

    fn wait_visible(&self, _version: Version) -> Result<()> {
        Err(Error::internal("the database of scan tests takes nothing"))
    }
}
