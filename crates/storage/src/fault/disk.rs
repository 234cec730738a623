//! The [`Disk`] side of a [`FaultDisk`]: which call does what, and which fails.
//!
//! Invariants:
//! - Every mutating call is counted once, before it does anything, under the one lock; so calls have an order.
//! - The call during which power is lost leaves its change pending, never durable, and returns an error.
//! - Locks are taken in the order state, then file. A file's own lock is enough to read it.

use super::inode::Inode;
use super::names::File;
use super::pages::Pages;
use super::{FaultDisk, Shared, State};
use crate::disk::{Disk, DiskEntry, DiskFile, DiskLock};
use parking_lot::{MutexGuard, RwLock};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn power_is_lost() -> io::Error {
    io::Error::other("power is lost")
}

fn device_error(doing: &str) -> io::Error {
    io::Error::other(format!("the device failed while {doing}"))
}

/// Whether power lasts through a call that has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    Stays,
    IsLost,
}

impl Power {
    /// The result of a call whose change is made.
    fn outcome(self) -> io::Result<()> {
        match self {
            Power::Stays => Ok(()),
            Power::IsLost => Err(power_is_lost()),
        }
    }
}

impl Shared {
    fn refuse_without_power(&self) -> io::Result<()> {
        if self.off.load(Ordering::Acquire) { Err(power_is_lost()) } else { Ok(()) }
    }

    /// For a call that changes nothing.
    fn look(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        self.refuse_without_power()?;
        Ok(state)
    }

    /// Counts a mutating call, and decides whether power is lost during it.
    fn count(&self, state: &mut State) -> Power {
        state.calls += 1;
        if state.off_at == Some(state.calls) {
            self.off.store(true, Ordering::Release);
            return Power::IsLost;
        }
        Power::Stays
    }
}

impl State {
    /// How long a file of `old` bytes may become when it is to be `new` bytes long.
    fn allowed_len(&self, linked: bool, old: u64, new: u64) -> u64 {
        match self.bytes_max {
            Some(bytes_max) if linked && new > old => new.min(old + bytes_max.saturating_sub(self.bytes)),
            _ => new,
        }
    }

    fn resized(&mut self, linked: bool, old: u64, new: u64) {
        if linked {
            self.bytes = self.bytes - old + new;
        }
    }

    fn unlink(&mut self, file: &File) {
        let mut inode = file.inode.write();
        inode.links -= 1;
        if inode.links == 0 {
            self.bytes -= inode.live().len();
        }
    }

    fn create(&mut self, path: &Path) -> io::Result<Arc<File>> {
        let inode = RwLock::new(Inode::settled(Pages::default()));
        let file = Arc::new(File { number: self.files_created, inode });
        self.names.change([(path, Some(Arc::clone(&file)))]).ok_or(io::ErrorKind::NotFound)?;
        self.files_created += 1;
        Ok(file)
    }

    fn file(&self, path: &Path) -> io::Result<&Arc<File>> {
        self.names.get(path).ok_or_else(|| match self.names.is_dir(path) {
            true => io::ErrorKind::IsADirectory.into(),
            false => io::ErrorKind::NotFound.into(),
        })
    }

    fn exists(&self, path: &Path) -> bool {
        self.names.is_dir(path) || self.names.get(path).is_some()
    }

    fn has_parent(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.names.is_dir(parent))
    }
}

impl Disk for FaultDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.shared.look()?;
        let power = self.shared.count(&mut state);
        if state.exists(path) {
            return power.outcome().and(Err(io::ErrorKind::AlreadyExists.into()));
        }
        let file = state.create(path)?;
        power.outcome()?;
        Ok(self.handle(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.shared.look()?;
        let file = state.file(path)?;
        Ok(self.handle(Arc::clone(file)))
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        let state = self.shared.look()?;
        let files = state.names.files_in(dir).ok_or(io::ErrorKind::NotFound)?;
        let mut entries: Vec<DiskEntry> = files
            .map(|(name, file)| DiskEntry { name: name.into(), len: file.inode.read().live().len(), is_dir: false })
            .collect();
        for dir in state.names.dirs_in(dir).filter_map(Path::file_name) {
            entries.push(DiskEntry { name: dir.to_string_lossy().into_owned(), len: 0, is_dir: true });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.shared.look()?;
        if dir.ancestors().any(|dir| state.names.get(dir).is_some()) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if state.names.is_dir(dir) {
            return Ok(());
        }
        self.shared.count(&mut state).outcome()?;
        state.names.make_dir(dir);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.shared.look()?;
        let power = self.shared.count(&mut state);
        let file = Arc::clone(state.file(from)?);
        if state.names.is_dir(to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if from == to {
            return power.outcome();
        }
        let replaced = state.names.get(to).cloned();
        state.names.change([(from, None), (to, Some(file))]).ok_or(io::ErrorKind::NotFound)?;
        if let Some(replaced) = replaced {
            state.unlink(&replaced);
        }
        power.outcome()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.shared.look()?;
        let power = self.shared.count(&mut state);
        let file = Arc::clone(state.file(path)?);
        state.names.change([(path, None)]).expect("a file's directory exists");
        state.unlink(&file);
        power.outcome()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.shared.look()?;
        self.shared.count(&mut state).outcome()?;
        state.dir_syncs += 1;
        if state.failing_dir_sync == Some(state.dir_syncs) {
            return Err(device_error("syncing a directory"));
        }
        state.names.sync_dir(dir).ok_or(io::ErrorKind::NotFound.into())
    }

    fn exists(&self, path: &Path) -> bool {
        self.shared.look().is_ok_and(|state| state.exists(path))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let state = self.shared.look()?;
        if !state.exists(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state.bytes_max.map_or(1 << 50, |bytes_max| bytes_max.saturating_sub(state.bytes)))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut state = self.shared.look()?;
        if !state.has_parent(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.names.get(path).is_none() {
            let power = self.shared.count(&mut state);
            state.create(path)?;
            power.outcome()?;
        }
        if !state.locked.insert(path.into()) {
            return Ok(None);
        }
        Ok(Some(Box::new(FaultLock { shared: Arc::clone(&self.shared), path: path.into() })))
    }
}

impl FaultDisk {
    fn handle(&self, file: Arc<File>) -> Arc<dyn DiskFile> {
        Arc::new(FaultFile { shared: Arc::clone(&self.shared), file })
    }
}

#[derive(Debug)]
struct FaultLock {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl DiskLock for FaultLock {}

impl Drop for FaultLock {
    fn drop(&mut self) {
        self.shared.state.lock().locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct FaultFile {
    shared: Arc<Shared>,
    file: Arc<File>,
}

impl DiskFile for FaultFile {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.shared.look()?;
        let power = self.shared.count(&mut state);
        state.writes += 1;
        let fails = state.failing_write == Some(state.writes);
        let whole = if fails { &buf[..buf.len() / 2] } else { buf };

        let mut inode = self.file.inode.write();
        let (linked, old) = (inode.links > 0, inode.live().len());
        let end = offset + whole.len() as u64;
        let allowed = state.allowed_len(linked, old, end.max(old));
        let written = &whole[..whole.len().min(allowed.saturating_sub(offset) as usize)];
        if !written.is_empty() {
            inode.write(written, offset);
            state.resized(linked, old, inode.live().len());
        }
        power.outcome()?;
        if fails {
            return Err(device_error("writing"));
        }
        if written.len() < buf.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.shared.refuse_without_power()?;
        self.file.inode.read().live().read(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.shared.refuse_without_power()?;
        Ok(self.file.inode.read().live().len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.shared.look()?;
        let power = self.shared.count(&mut state);
        let mut inode = self.file.inode.write();
        let (linked, old) = (inode.links > 0, inode.live().len());
        if state.allowed_len(linked, old, len) < len {
            return power.outcome().and(Err(io::ErrorKind::StorageFull.into()));
        }
        inode.set_len(len);
        state.resized(linked, old, len);
        power.outcome()
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.shared.look()?;
        self.shared.count(&mut state).outcome()?;
        state.syncs += 1;
        let mut inode = self.file.inode.write();
        if state.failing_sync == Some(state.syncs) {
            inode.fail_sync();
            return Err(device_error("syncing"));
        }
        inode.sync();
        Ok(())
    }
}
