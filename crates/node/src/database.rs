//! An embedded database.

use crate::core::{Core, Recovery};
use crate::holder::announce;
use crate::options::DatabaseOptions;
use crate::pool::Pool;
use crate::threads::Threads;
use crate::urls;
use alluvia_query::{Engine, EngineOptions, Session, empty_spill_dir};
use alluvia_snapshot::Ports;
use alluvia_storage::{Disk, RealDisk};
use alluvia_types::{Clock, Error, Result, SystemClock};
use std::path::Path;
use std::sync::Arc;

/// One open database. Dropping it stops its threads and releases the directory; what was acknowledged is durable
/// anyway.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let runtime = tokio::runtime::Runtime::new()?;
/// let db = alluvia_node::Database::open(dir.path().join("db"))?;
/// let session = db.session();
/// let answer = runtime.block_on(async {
///     session.sql("CREATE TABLE sales (country TEXT, price DOUBLE) WITH (dimensions = 'country', measures = 'price')").await?;
///     session.sql("INSERT INTO sales VALUES ('France', 2.5), ('Chile', 4.0), ('France', 1.5)").await?;
///     session.sql("SELECT country, sum(price) AS total FROM sales GROUP BY country ORDER BY country").await?.collect().await
/// })?;
/// let text = arrow::util::pretty::pretty_format_batches(&answer)?.to_string();
/// assert!(text.contains("| France  | 4.0   |"), "{text}");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Database {
    // The threads stop before what they work on goes.
    _threads: Threads,
    core: Arc<Core>,
    engine: Arc<Engine>,
}

impl Database {
    /// Opens the database in a directory, creating it if there is none.
    pub fn open(dir: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(dir, DatabaseOptions::default())
    }

    /// Opens a database with options.
    pub fn open_with(dir: impl AsRef<Path>, options: DatabaseOptions) -> Result<Database> {
        Database::open_on(Arc::new(RealDisk::new()), Arc::new(SystemClock::default()), dir, options)
    }

    /// Opens a database on a disk and a clock of the caller's. Statements that spill use the real disk all the same.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: impl AsRef<Path>,
        options: DatabaseOptions,
    ) -> Result<Database> {
        let dir = dir.as_ref();
        // Refused before anything is made.
        options.check()?;
        let (fetch, served) = (urls::process_fetch(&options.served)?, urls::served_places(&options.served)?);
        let pool = Arc::new(Pool::new(options.threads));
        let seed = clock.wall_micros() as u64 ^ u64::from(std::process::id()) << 48;
        let core = Arc::new(Core::open(Arc::clone(&disk), dir, clock, &options, pool, seed)?);
        announce(disk.as_ref(), dir, &[]);
        let own_spill_dir = dir.join("spill");
        if options.spill_dir.is_none() {
            // What a killed process left there is nobody's: the lock says that no other has the directory.
            empty_spill_dir(&own_spill_dir)?;
        }
        let engine = Engine::new(
            Ports::of_one(&core),
            EngineOptions {
                memory_limit_bytes: options.query_bytes_max(),
                query_memory_bytes: options.query_bytes_max(),
                spill_dir: options.spill_dir.clone().unwrap_or(own_spill_dir),
                spill_bytes_max: options.spill_bytes_max,
                cuboid_bytes_max: options.cuboid_bytes_max(),
                predicate_cache_bytes_max: options.predicate_cache_bytes_max(),
                threads: options.threads,
                fetch: Some(fetch),
                served,
            },
        )?;
        Ok(Database { _threads: Threads::start(&core, &engine), core, engine })
    }

    /// States where the database is served, for whoever finds its directory taken: places to connect to.
    pub fn announce(&self, places: &[String]) {
        self.core.announce(places);
    }

    /// What opening had to bring back; `None` if the last process stopped cleanly, or had written nothing.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.core.recovery()
    }

    /// Why tables are closed, for each that is: a file of it is missing or damaged. All others are open.
    pub fn closed(&self) -> Vec<Error> {
        self.core.closed()
    }

    /// A new session. Sessions are cheap; each runs one statement at a time.
    ///
    /// A statement that is run often is prepared once, with parameters where its constants change. Aggregates over
    /// boxes of a shape that is resident as a cuboid then take microseconds, at whatever freshness.
    ///
    /// ```
    /// use alluvia_query::ScalarValue;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let runtime = tokio::runtime::Runtime::new()?;
    /// let db = alluvia_node::Database::open(dir.path().join("db"))?;
    /// let session = db.session();
    /// # runtime.block_on(async {
    /// session.sql("CREATE TABLE sales (country TEXT, price DOUBLE) WITH (dimensions = 'country', measures = 'price')").await?;
    /// let insert = session.prepare("INSERT INTO sales VALUES ($1, $2)")?;
    /// for (country, price) in [("France", 2.5), ("Chile", 4.0), ("France", 1.5)] {
    ///     session.execute_prepared(&insert, &[ScalarValue::from(country), ScalarValue::from(price)]).await?;
    /// }
    /// session.sql("CALL alluvia.pin_cuboid('sales', 'country')").await?;
    /// let total = session.prepare("SELECT sum(price) FROM sales WHERE country = $1")?;
    /// let answer = session.execute_prepared(&total, &[ScalarValue::from("France")]).await?.collect().await?;
    /// let text = arrow::util::pretty::pretty_format_batches(&answer)?.to_string();
    /// assert!(text.contains("| 4.0 "), "{text}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(()) }
    /// ```
    pub fn session(&self) -> Session {
        self.engine.session()
    }

    /// The engine that all sessions share, for servers.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The engine below the SQL.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }
}
