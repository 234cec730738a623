//! A disk in memory that fails on demand: power loss at any call, torn writes, failed syncs, no room, flipped bits.
//!
//! Invariants:
//! - What `sync_data` and `sync_dir` have returned for survives every power loss; nothing else is sure to.
//! - The same calls and the same seeds give the same disk, byte for byte. Threads that call it at the same time make
//!   their own order, and are as deterministic as that.
//! - After a power loss every call fails, reads too, until the state is picked up by [`FaultDisk::after_power_loss`].
//!
//! The way to test recovery: run a workload once and count its [`FaultDisk::calls`]; run it again with a power loss at
//! each of them; reopen what [`FaultDisk::after_power_loss`] leaves, and compare with what was acknowledged. Contents are
//! kept in shared pages, so a run costs little more than its writes, and [`FaultDisk::fingerprint`] tells states that were
//! seen before, so that each needs to be recovered only once.
//!
//! ```
//! use alluvia_storage::{Disk, FaultDisk, Survival, read_atomic, write_atomic};
//! use std::{collections::HashSet, path::Path};
//!
//! let (path, magic) = (Path::new("/answer"), b"ALVDOC01");
//! let mut seen = HashSet::new();
//! for n in 1.. {
//!     let disk = FaultDisk::new();
//!     disk.fail_after(n);
//!     let acknowledged = write_atomic(disk.as_ref(), path, magic, b"42").is_ok();
//!     for seed in 0..10 {
//!         let left = disk.after_power_loss(Survival::Torn { seed });
//!         if seen.insert((left.fingerprint(), acknowledged)) && (acknowledged || left.exists(path)) {
//!             assert_eq!(read_atomic(left.as_ref(), path, magic)?, b"42");
//!         }
//!     }
//!     if acknowledged {
//!         break;
//!     }
//! }
//! # Ok::<(), alluvia_types::Error>(())
//! ```

mod dice;
mod disk;
mod inode;
mod names;
mod pages;
#[cfg(test)]
mod tests;

use dice::Dice;
use inode::Inode;
use names::{File, Names};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use xxhash_rust::xxh3::Xxh3Default;

/// What a power loss leaves of that which was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// Nothing: the least that a disk may keep.
    SyncedOnly,
    /// All of it, the call during which power was lost included.
    Everything,
    /// A part of it that the seed decides: 512-byte sectors in any of their states since the last sync, any length that
    /// the file had, any names; see the module.
    Torn {
        /// The same seed leaves the same part.
        seed: u64,
    },
}

/// A disk in memory that fails on demand.
#[derive(Debug)]
pub struct FaultDisk {
    shared: Arc<Shared>,
}

/// What the disk and its open files share.
#[derive(Debug)]
struct Shared {
    /// Power is lost: every call fails. Apart from `state`, so that reads need no lock but their file's.
    off: AtomicBool,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    names: Names,
    /// Locks that are held; they end with the power.
    locked: BTreeSet<PathBuf>,
    files_created: u64,
    /// Mutating calls so far.
    calls: u64,
    /// The call at which power is lost.
    off_at: Option<u64>,
    syncs: u64,
    failing_sync: Option<u64>,
    dir_syncs: u64,
    failing_dir_sync: Option<u64>,
    writes: u64,
    failing_write: Option<u64>,
    bytes_max: Option<u64>,
    /// Bytes in files that have a name.
    bytes: u64,
}

impl FaultDisk {
    /// An empty disk with the directories `/` and the current one.
    pub fn new() -> Arc<FaultDisk> {
        let mut state = State::default();
        state.names.make_dir(Path::new("/"));
        state.names.make_dir(Path::new(""));
        FaultDisk::with(state)
    }

    fn with(state: State) -> Arc<FaultDisk> {
        Arc::new(FaultDisk { shared: Arc::new(Shared { off: AtomicBool::new(false), state: Mutex::new(state) }) })
    }

    /// Loses power at the `n`-th mutating call from now; 1 is the next one. That call fails, though what it was to write
    /// may survive; all later calls fail. Mutating are: `create`, `rename`, `remove`, `sync_dir`, `create_dir_all` and
    /// `try_lock` where they create something, and a file's `write_all_at`, `set_len` and `sync_data`.
    pub fn fail_after(&self, n: u64) {
        assert!(n > 0, "calls are counted from 1");
        let mut state = self.shared.state.lock();
        state.off_at = Some(state.calls + n);
    }

    /// Mutating calls so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.shared.state.lock().calls
    }

    /// Fails the `n`-th `sync_data` from now with an I/O error. Readers still see what was to be synced, but no later
    /// sync makes it durable, as the kernel takes such pages for clean.
    pub fn fail_sync(&self, n: u64) {
        assert!(n > 0, "syncs are counted from 1");
        let mut state = self.shared.state.lock();
        state.failing_sync = Some(state.syncs + n);
    }

    /// Fails the `n`-th `sync_dir` from now with an I/O error, as where no file could be opened for it: readers see the
    /// directory's names as they are, and a later sync makes them durable.
    pub fn fail_sync_dir(&self, n: u64) {
        assert!(n > 0, "syncs are counted from 1");
        let mut state = self.shared.state.lock();
        state.failing_dir_sync = Some(state.dir_syncs + n);
    }

    /// Calls of `sync_dir` so far that were made with power, failed ones included.
    pub fn dir_syncs(&self) -> u64 {
        self.shared.state.lock().dir_syncs
    }

    /// Fails the `n`-th `write_all_at` from now with an I/O error, after half of its bytes.
    pub fn fail_write(&self, n: u64) {
        assert!(n > 0, "writes are counted from 1");
        let mut state = self.shared.state.lock();
        state.failing_write = Some(state.writes + n);
    }

    /// Lets files that have a name hold so many bytes in all. Growing past them fails with `StorageFull`, a write after
    /// the part that still fits. `None` lifts the limit.
    pub fn limit_bytes(&self, bytes_max: Option<u64>) {
        self.shared.state.lock().bytes_max = bytes_max;
    }

    /// Changes bits of one byte of a file, as a failing device does: unseen by everything but checksums.
    pub fn corrupt(&self, path: &Path, offset: u64, xor: u8) {
        let state = self.shared.state.lock();
        let file = state.names.get(path).expect("the file to damage exists");
        let mut inode = file.inode.write();
        assert!(offset < inode.live().len(), "byte {offset} of {} exists", path.display());
        inode.corrupt(offset, xor);
    }

    /// A new disk with what a power loss now leaves of this one. Without limits or failures to come, nothing locked; this
    /// disk stays as it is, so that several kinds of survival can be looked at.
    pub fn after_power_loss(&self, survival: Survival) -> Arc<FaultDisk> {
        let state = self.shared.state.lock();
        let mut names = match survival {
            Survival::SyncedOnly => state.names.durable(),
            Survival::Everything => state.names.everything(),
            Survival::Torn { seed } => state.names.torn(Dice::new(seed, u64::MAX)),
        };
        let mut bytes = 0;
        names.map_files(|file| {
            let inode = file.inode.read();
            let content = match survival {
                Survival::SyncedOnly => inode.durable().clone(),
                Survival::Everything => inode.live().clone(),
                Survival::Torn { seed } => inode.torn(Dice::new(seed, file.number)),
            };
            bytes += content.len();
            Arc::new(File { number: file.number, inode: RwLock::new(Inode::settled(content)) })
        });
        FaultDisk::with(State { names, bytes, files_created: state.files_created, ..State::default() })
    }

    /// A hash of the durable state: names, lengths and contents. Equal for disks on which a recovery would find the same
    /// after a power loss that leaves only what was synced.
    pub fn fingerprint(&self) -> u64 {
        let state = self.shared.state.lock();
        let mut hash = Xxh3Default::new();
        for (path, files) in state.names.durable_files() {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update(&[0]);
            hash.update(&files.len().to_le_bytes());
            for (name, file) in files {
                hash.update(name.as_bytes());
                hash.update(&[0]);
                let inode = file.inode.read();
                hash.update(&inode.durable().len().to_le_bytes());
                inode.durable().iter().for_each(|page| hash.update(page));
            }
        }
        hash.digest()
    }
}
