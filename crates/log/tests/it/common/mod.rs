//! What the tests share: logs on a fault disk, recognisable bodies, and the model that recovery is checked against.

pub mod gate;

use alluvia_log::{Log, LogOptions};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{Error, ErrorKind, ManualClock, Result, Version};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const SALT: u64 = 0xa11u64 << 32 | 0x51de;

pub fn dir() -> &'static Path {
    Path::new("/db/log")
}

/// The path of log file `number`.
pub fn file(number: u64) -> PathBuf {
    dir().join(format!("{number:016}.log"))
}

/// Options without room, so that a log's length is that of its records.
pub fn options(file_bytes_max: u64) -> LogOptions {
    LogOptions { file_bytes_max, room_bytes: 0, clock: Arc::new(ManualClock::default()), ..LogOptions::new(SALT) }
}

/// A body of `len` bytes that tells its version, and which attempt at that version it is.
pub fn body(version: u64, attempt: u64, len: usize) -> Vec<u8> {
    let seed = (version << 8 | attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len).map(|i| (seed.rotate_left(i as u32 % 61) ^ i as u64) as u8).collect()
}

pub fn micros(version: u64) -> i64 {
    1_763_700_000_000_000 + version as i64
}

/// Records as recovery hands them out.
pub type Found = Vec<(u64, i64, Vec<u8>)>;

/// Opens the log and returns it with what it replayed.
pub fn open(disk: &Arc<FaultDisk>, file_bytes_max: u64, after: u64) -> Result<(Log, Found)> {
    open_on(disk.clone(), file_bytes_max, after)
}

pub fn open_on(disk: Arc<dyn Disk>, file_bytes_max: u64, after: u64) -> Result<(Log, Found)> {
    open_with(disk, options(file_bytes_max), after)
}

/// Options with zeros ahead of groups of up to 8 KiB.
pub fn with_room(file_bytes_max: u64) -> LogOptions {
    LogOptions { room_bytes: 64 << 10, ..options(file_bytes_max) }
}

pub fn open_with(disk: Arc<dyn Disk>, options: LogOptions, after: u64) -> Result<(Log, Found)> {
    let mut found = Found::new();
    disk.create_dir_all(dir()).map_err(|error| Error::io(dir(), "creating", &error))?;
    let log = Log::open(disk, dir(), options, Version(after), &mut |record| {
        found.push((record.version.0, record.commit_micros, record.body.to_vec()));
        Ok(())
    })?;
    Ok((log, found))
}

/// What a log may and must hold.
#[derive(Clone, Default, Debug)]
pub struct Model {
    /// The body of every version that may be there; the first is version 1.
    pub attempted: Vec<Vec<u8>>,
    /// Every version through this one must be there.
    pub acknowledged: u64,
    /// Records through this one may have been removed.
    pub removed: u64,
    /// How many bodies there have been, so that each is different.
    pub attempts: u64,
}

impl Model {
    /// Appends the next record.
    pub fn append(&mut self, log: &Log, len: usize) -> Result<()> {
        self.attempts += 1;
        let version = self.attempted.len() as u64 + 1;
        let body = body(version, self.attempts, len);
        log.append(Version(version), micros(version), &body)?;
        self.attempted.push(body);
        Ok(())
    }

    /// Syncs everything. A record that is refused for a full disk must never come back.
    pub fn sync(&mut self, log: &Log) -> Result<()> {
        let last = self.attempted.len() as u64;
        match log.sync_through(Version(last)) {
            Ok(()) => {
                self.acknowledged = last;
                Ok(())
            }
            Err(error) => {
                if error.kind() == ErrorKind::DiskFull {
                    self.attempted.truncate(self.acknowledged as usize);
                }
                Err(error)
            }
        }
    }

    /// Rewinds after a full disk.
    pub fn rewind(&mut self, log: &Log) {
        assert_eq!(log.rewind(), Version(self.acknowledged));
        self.attempted.truncate(self.acknowledged as usize);
    }

    pub fn remove_through(&mut self, log: &Log, version: u64) -> Result<()> {
        assert!(version <= self.acknowledged);
        self.removed = version; // as the caller's manifest says, before the log is told
        log.remove_through(Version(version))
    }

    /// Checks what recovery found after `self.removed`: every acknowledged record once, in order, with its bytes, and
    /// nothing that was never attempted. Everything found is from now on acknowledged.
    pub fn check(&mut self, found: &Found) {
        for (i, (version, commit_micros, bytes)) in found.iter().enumerate() {
            assert_eq!(*version, self.removed + 1 + i as u64, "versions have no gap");
            let expected = self.attempted.get(*version as usize - 1);
            assert!(expected == Some(bytes), "version {version} is not what was appended");
            assert_eq!(*commit_micros, micros(*version));
        }
        let last = self.removed + found.len() as u64;
        assert!(last >= self.acknowledged, "acknowledged through {}, found through {last}", self.acknowledged);
        self.acknowledged = last;
        self.attempted.truncate(last as usize);
    }

    /// Recovers the log, checks it, and checks that it works: what was found is still there after the power is lost at
    /// once, and so is a record appended then.
    pub fn check_recovery(&self, disk: &Arc<FaultDisk>, file_bytes_max: u64) {
        use alluvia_storage::Survival::SyncedOnly;
        let mut model = self.clone();
        // With room and without, as it comes.
        let options = if self.attempts.is_multiple_of(2) { options(file_bytes_max) } else { with_room(file_bytes_max) };
        let opened = open_with(disk.clone(), options, model.removed);
        let (log, found) = opened.expect("an ordinary power loss is recovered from");
        model.check(&found);
        let disk_then = disk.after_power_loss(SyncedOnly);
        model.append(&log, 33).expect("a recovered log takes records");
        model.sync(&log).expect("a recovered log syncs");
        assert_eq!(log.durable(), Version(model.acknowledged));
        drop(log);
        let (_, found) = open(&disk.after_power_loss(SyncedOnly), file_bytes_max, model.removed).expect("reopens");
        model.clone().check(&found);
        let (_, found) = open(&disk_then, file_bytes_max, model.removed).expect("reopens");
        model.attempted.pop();
        model.acknowledged -= 1;
        model.check(&found);
    }
}
