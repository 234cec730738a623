//! Options of a database, and how memory is shared out.

use crate::urls;
use alluvia_log::LogOptions;
use alluvia_pipeline::PipelineOptions;
use alluvia_snapshot::TailBounds;
use alluvia_space::PurgeAfter;
use alluvia_types::{Clock, Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// The least memory that can be shared out: a tail, a cache and statements that have less do no work.
pub const MEMORY_LIMIT_MIN_BYTES: u64 = 128 << 20;

/// Options that are chosen when a database is opened.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Memory that Alluvia may use in all, roughly: tail, caches, loads and queries share it. At least
    /// [`MEMORY_LIMIT_MIN_BYTES`].
    pub memory_limit_bytes: u64,
    /// Threads for queries, and for sorting and merging.
    pub threads: usize,
    /// Bytes that spilling statements may use on disk.
    pub spill_bytes_max: u64,
    /// Where statements spill; `None` for a folder in the data directory.
    pub spill_dir: Option<PathBuf>,
    /// The pipeline.
    pub pipeline: PipelineOptions,
    /// Bytes of a log file before the next one begins.
    pub log_file_bytes_max: u64,
    /// Bytes that the names of one level's members may take: at most 2 GiB, which is the default.
    pub level_bytes_max: u64,
    /// How old deleted rows may become in the files, of tables that do not say it themselves.
    pub purge_after: PurgeAfter,
    /// What sessions of servers' clients may name in COPY.
    pub served: ServedOptions,
}

/// What sessions of servers' clients may name in COPY. By default nothing: the process's own sessions may what the
/// process may.
#[derive(Clone, Debug)]
pub struct ServedOptions {
    /// The directories that files may be in.
    pub copy_roots: Vec<PathBuf>,
    /// The hosts that URLs may name: `data.example.org`, `*.example.org`, `example.org:8443`, `10.1.2.3`.
    pub copy_hosts: Vec<String>,
    /// Whether a host that is allowed by its name may be at an address that is not public.
    pub copy_private_addresses: bool,
    /// The longest file of a URL.
    pub copy_url_bytes_max: u64,
    /// What a packed file or a URL's may unpack to; of Parquet and Arrow their rows.
    pub copy_unpacked_bytes_max: u64,
    /// The authorities that https believes, in PEM; `None` for the system's. Also for the process's own sessions.
    pub copy_ca_file: Option<PathBuf>,
    /// The proxy through which URLs are read, as `http://host:port`; `None` for none. Also for the process's own
    /// sessions.
    pub copy_proxy: Option<String>,
    /// The hosts that are asked without it, as `copy_hosts` has them.
    pub copy_proxy_except: Vec<String>,
}

impl Default for ServedOptions {
    fn default() -> Self {
        ServedOptions {
            copy_roots: Vec::new(),
            copy_hosts: Vec::new(),
            copy_private_addresses: false,
            copy_url_bytes_max: 10 << 30,
            copy_unpacked_bytes_max: 100 << 30,
            copy_ca_file: None,
            copy_proxy: None,
            copy_proxy_except: Vec::new(),
        }
    }
}

impl Default for DatabaseOptions {
    /// Three quarters of the machine's memory, all its cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let machine_bytes = alluvia_storage::machine_memory_bytes().unwrap_or(4 << 30) / 4 * 3;
        DatabaseOptions {
            memory_limit_bytes: machine_bytes.max(MEMORY_LIMIT_MIN_BYTES),
            threads,
            spill_bytes_max: 100 << 30,
            spill_dir: None,
            pipeline: PipelineOptions::default(),
            log_file_bytes_max: 64 << 20,
            level_bytes_max: 2 << 30,
            purge_after: PurgeAfter::Never,
            served: ServedOptions::default(),
        }
    }
}

impl DatabaseOptions {
    /// Refuses what no database can be opened with. Opening one does so, too, before anything is made.
    pub fn check(&self) -> Result<()> {
        if self.memory_limit_bytes < MEMORY_LIMIT_MIN_BYTES {
            let message = format!("memory_limit cannot be {} bytes: 128MB are the least", self.memory_limit_bytes);
            return Err(Error::new(ErrorKind::InvalidSetting, message)
                .with_hint("write a size with its unit, such as 512MB or 4GB; without one, three quarters of the machine's are taken"));
        }
        urls::process_fetch(&self.served)?;
        urls::served_places(&self.served).map(drop)
    }

    /// Where new batches wait for a sort: an eighth of memory, 1 GiB at most. From its half on they wait for their turn.
    pub fn tail_bytes_max(&self) -> u64 {
        (self.memory_limit_bytes / 8).min(1 << 30)
    }

    /// The tail: a worker sorts as much of it at a time as a sort begins with, but all together no more than a quarter.
    pub(crate) fn tail_bounds(&self) -> TailBounds {
        let bytes_max = self.tail_bytes_max();
        let share = bytes_max / 4 / self.threads.max(1) as u64;
        TailBounds { bytes_max, step_bytes: self.pipeline.sort_bytes.min(share) }
    }

    /// The cache of file chunks: a sixth of memory.
    pub fn cache_bytes_max(&self) -> u64 {
        self.memory_limit_bytes / 6
    }

    /// What all statements together may use: three eighths of memory.
    pub fn query_bytes_max(&self) -> u64 {
        self.memory_limit_bytes / 8 * 3
    }

    /// Packed codes and values, and summaries, that are kept in memory: a fifth.
    pub fn index_bytes_max(&self) -> u64 {
        self.memory_limit_bytes / 5
    }

    /// Rows that are kept one by one for statements about few of them: an eighth of memory.
    pub fn row_bytes_max(&self) -> u64 {
        self.memory_limit_bytes / 8
    }

    /// The keys of all tables, which are in memory while rows are changed by them: a quarter. Past it statements have less, and no new keys
    /// are taken.
    pub fn key_bytes_max(&self) -> u64 {
        self.memory_limit_bytes / 4
    }

    /// Cuboids: a sixteenth of memory.
    pub fn cuboid_bytes_max(&self) -> u64 {
        self.memory_limit_bytes / 16
    }

    /// Which blocks predicates match nowhere: a 256th of memory, between 1 and 64 MiB.
    pub fn predicate_cache_bytes_max(&self) -> u64 {
        (self.memory_limit_bytes / 256).clamp(1 << 20, 64 << 20)
    }

    /// A batch that travels in the log: half the tail.
    pub fn batch_bytes_max(&self) -> u64 {
        self.tail_bytes_max() / 2
    }

    /// What the writer of one segment holds of a row group, and again of a stripe, 256 MiB at most: a sixth of memory for the writers of
    /// merges side by side and a sort.
    pub fn waiting_bytes_max(&self) -> usize {
        (self.memory_limit_bytes / 6 / (self.threads.max(1) as u64 + 1)).min(256 << 20) as usize
    }

    /// The options of the pipeline, within the memory that a load and the tail may take.
    pub(crate) fn pipeline_options(&self) -> PipelineOptions {
        let mut pipeline = self.pipeline.clone();
        // A load holds one run more than there are workers, each of them twice while it is sorted.
        let runs = 2 * (self.threads as u64 + 1);
        pipeline.run_bytes = pipeline.run_bytes.min((self.memory_limit_bytes / 4 / runs) as usize);
        pipeline.sort_bytes = pipeline.sort_bytes.min(self.tail_bytes_max() / 2);
        // Workers merge side by side.
        pipeline.merge_bytes =
            pipeline.merge_bytes.min((self.memory_limit_bytes / 4 / self.threads.max(1) as u64) as usize);
        pipeline
    }

    /// The options of the log of this database.
    pub(crate) fn log_options(&self, database: u64, clock: &Arc<dyn Clock>) -> LogOptions {
        LogOptions { file_bytes_max: self.log_file_bytes_max, clock: Arc::clone(clock), ..LogOptions::new(database) }
    }
}

/// Bytes from text such as `4GB`, `512MiB`, `100000`. Decimal and binary units both mean powers of 1024, as in
/// PostgreSQL.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "kb" | "kib" | "k" => Some(10),
        "mb" | "mib" | "m" => Some(20),
        "gb" | "gib" | "g" => Some(30),
        "tb" | "tib" | "t" => Some(40),
        _ => None,
    };
    let bytes = number.parse::<u64>().ok().zip(scale).and_then(|(number, scale)| number.checked_mul(1u64 << scale));
    bytes.ok_or_else(|| {
        Error::new(ErrorKind::InvalidSetting, format!("'{text}' is no size")).with_hint("write it like 4GB or 512MB")
    })
}

#[cfg(test)]
mod tests {
    use crate::options::{DatabaseOptions, MEMORY_LIMIT_MIN_BYTES, parse_bytes};
    use alluvia_types::ErrorKind;

    #[test]
    fn too_little_memory_is_refused_with_the_least() {
        let check = |memory_limit_bytes| DatabaseOptions { memory_limit_bytes, ..DatabaseOptions::default() }.check();
        check(MEMORY_LIMIT_MIN_BYTES).unwrap();
        DatabaseOptions::default().check().unwrap();
        for bytes in [0, 1 << 10, MEMORY_LIMIT_MIN_BYTES - 1] {
            let error = check(bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSetting);
            assert!(error.message().contains("memory_limit") && error.message().contains("128MB"), "{error}");
        }
        assert_eq!(parse_bytes("128MB").unwrap(), MEMORY_LIMIT_MIN_BYTES);
    }

    #[test]
    fn sizes_parse_as_in_postgresql() {
        assert_eq!(parse_bytes("4GB").unwrap(), 4 << 30);
        assert_eq!(parse_bytes(" 512 MiB ").unwrap(), 512 << 20);
        assert_eq!(parse_bytes("77").unwrap(), 77);
        assert!(parse_bytes("four").is_err());
        assert!(parse_bytes("99999999999999999TB").is_err());
    }
}
