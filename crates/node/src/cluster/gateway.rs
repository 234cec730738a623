//! A gateway: the engine of SQL over the ports of a cluster.
//!
//! Invariants:
//! - What is told of stages is what the workers say of theirs; of segments nothing is told.
//! - The audit log is the gateway's own, in its directory; what would be kept of caches is not.

use super::repeating::Repeating;
use super::status;
use crate::audit::AuditLog;
use crate::options::DatabaseOptions;
use crate::urls;
use alluvia_cluster::Decision;
use alluvia_cluster::gateway::{Gateway, GatewayOptions, Reach, Reached};
use alluvia_cluster::message::{FromWorker, ToWorker};
use alluvia_query::{Engine, EngineOptions, Session, empty_spill_dir};
use alluvia_snapshot::{
    Admin, BatchInfo, ClusterInfo, Memo, Ports, PublishedTotals, PurgeWait, Purged, SegmentInfo, StageInfo, StoreInfo,
};
use alluvia_storage::{Disk, RealDisk};
use alluvia_types::{Clock, Error, ErrorKind, Result, SegmentId, Stage, SystemClock, TableId};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const AUDIT_FILE_BYTES_MAX: u64 = 16 << 20;
/// Definitions of other gateways are known after so long, at the latest.
const REFRESHED: Duration = Duration::from_millis(20);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);

/// A gateway of a cluster.
#[derive(Debug)]
pub struct GatewayNode {
    gateway: Arc<Gateway>,
    engine: Arc<Engine>,
    /// Keeps the image up to date, for statements that ask nobody.
    _refreshing: Repeating,
}

impl GatewayNode {
    /// Joins a cluster. `dir` has what the gateway itself keeps: its audit log, and what statements spill.
    pub fn join(
        dir: &Path,
        options: &DatabaseOptions,
        own: GatewayOptions,
        reach: Arc<dyn Reach>,
    ) -> Result<GatewayNode> {
        options.check()?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        disk.create_dir_all(dir).map_err(|error| Error::io(dir, "creating", &error))?;
        let (fetch, served) = (urls::process_fetch(&options.served)?, urls::served_places(&options.served)?);
        let gateway = Arc::new(Gateway::join(own, Arc::clone(&reach), clock)?);
        let audit = AuditLog::new(disk, dir, AUDIT_FILE_BYTES_MAX);
        let admin = Arc::new(GatewayAdmin {
            tail_bytes_max: options.tail_bytes_max(),
            gateway: Arc::clone(&gateway),
            reach,
            audit,
        });
        let spill_dir = options.spill_dir.clone().unwrap_or_else(|| dir.join("spill"));
        if options.spill_dir.is_none() {
            empty_spill_dir(&spill_dir)?;
        }
        let ports = Ports { read: Arc::clone(&gateway) as _, ingest: Arc::clone(&gateway) as _, admin };
        let engine = Engine::new(
            ports,
            EngineOptions {
                memory_limit_bytes: options.query_bytes_max(),
                query_memory_bytes: options.query_bytes_max(),
                spill_dir,
                spill_bytes_max: options.spill_bytes_max,
                cuboid_bytes_max: options.cuboid_bytes_max(),
                predicate_cache_bytes_max: options.predicate_cache_bytes_max(),
                threads: options.threads,
                fetch: Some(fetch),
                served,
            },
        )?;
        let refreshed = Arc::clone(&gateway);
        // Whoever needs what is newer asks, and is told why it cannot be.
        let refresh = move || if refreshed.refresh().is_ok() { REFRESHED } else { PAUSE_AFTER_FAILURE };
        let _refreshing = Repeating::start("alluvia-gateway", refresh)?;
        Ok(GatewayNode { gateway, engine, _refreshing })
    }

    /// A new session, as of [`Database::session`](crate::Database::session).
    pub fn session(&self) -> Session {
        self.engine.session()
    }

    /// The engine that all sessions share, for servers.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What it knows of the cluster.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }
}

/// The port of administration of a cluster.
#[derive(Debug)]
struct GatewayAdmin {
    tail_bytes_max: u64,
    gateway: Arc<Gateway>,
    reach: Arc<dyn Reach>,
    audit: AuditLog,
}

impl Admin for GatewayAdmin {
    fn organise(&self, stage: Stage) -> Result<()> {
        let version = self.gateway.now()?;
        let image = self.gateway.caught_up(version)?;
        let (sender, answers) = channel();
        let workers = image.workers();
        for &node in &workers {
            let sender = sender.clone();
            let answered = move |answer: Reached<FromWorker>| drop(sender.send((node, answer)));
            self.reach.worker(node, ToWorker::Organise { stage, version }, Box::new(answered));
        }
        drop(sender);
        for (node, answer) in answers.iter().take(workers.len()) {
            match answer {
                Ok(answer) => drop(answer?),
                Err(why) => {
                    let what = format!("worker {node} is not reached: {}", why.why);
                    return Err(Error::new(ErrorKind::Busy, what).with_hint("the others are organised; ask again"));
                }
            }
        }
        Ok(())
    }

    fn purge(&self, _table: TableId, _wait: &mut dyn FnMut(&PurgeWait) -> Result<()>) -> Result<Purged> {
        Err(Error::new(ErrorKind::NotSupported, "a purge of a table on several machines is not built")
            .with_hint("sorts and merges remove what was deleted; copies of files are removed with them"))
    }

    fn forget_segment(&self, _table: TableId, _segment: SegmentId, _is_told: bool) -> Result<Vec<String>> {
        Err(Error::new(ErrorKind::NotSupported, "a segment of a table on several machines is not forgotten from here")
            .with_hint("its worker takes the shard anew from another replica, once its data directory is removed"))
    }

    fn recall(&self, _memo: &Memo) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn memorise(&self, _memo: &Memo, _content: &[u8]) -> Result<()> {
        Ok(())
    }

    fn audit(&self, lines: &[u8]) -> Result<()> {
        self.audit.append(lines)
    }

    fn audited(&self, bytes_max: u64) -> Result<Vec<u8>> {
        self.audit.tail(bytes_max)
    }

    fn batches(&self, limit: usize) -> Vec<BatchInfo> {
        self.gateway.recent(limit).iter().filter_map(|decision| info_of(decision)).collect()
    }

    fn stages(&self) -> Vec<StageInfo> {
        let image = self.gateway.image();
        status::stages(&image, &status::asked(self.reach.as_ref(), &image))
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        Vec::new()
    }

    fn cluster(&self) -> ClusterInfo {
        // Who has joined since is shown, too; what is known will do where the keeper is silent.
        let _ = self.gateway.refresh();
        let image = self.gateway.image();
        status::cluster(&image, &status::asked(self.reach.as_ref(), &image))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            visible: self.gateway.image().version,
            tail_bytes: 0,
            tail_bytes_max: self.tail_bytes_max,
            writers_waiting: 0,
            log_bytes: 0,
            log_groups: 0,
            published: PublishedTotals::default(),
            read_only: None,
            cache_bytes: 0,
            key_bytes: 0,
            kill_bytes: 0,
            pipeline_error: None,
        }
    }
}

/// What `alluvia.batches` says of a decision.
fn info_of(decision: &Decision) -> Option<BatchInfo> {
    let decided = decision.batch()?;
    Some(BatchInfo {
        version: decision.version,
        commit_micros: decision.commit_micros,
        rows: decided.rows(),
        tables: decided.tables(),
        changes: decided.changes.len(),
        bytes: 0,
        producer: decided.producer.clone(),
        key: decided.key,
    })
}
