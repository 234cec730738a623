//! The log as other rooms see it, and the state that its leaders and followers share.
//!
//! Invariants:
//! - Versions are appended without a gap; so are groups, so that "durable through" is one number.
//! - The state lock is never held during I/O, and everything done under it takes constant time but for copying small
//!   bodies: appending goes on while groups are written and synced.
//! - A failure, once set, is what every append and every wait for something not durable gets: until [`Log::rewind`] for a
//!   full disk, for ever otherwise. Records that were not durable are dropped when it is set.

use crate::end::{EndMark, MarkState};
use crate::files::{ClosedFile, CurrentFile, file_path};
use crate::format::Position;
use crate::group::{Body, Group, Outcome, SHARED_BYTES_MAX};
use crate::recovery::{LogEnd, Recovered, recover};
use crate::scan::{self, LogSummary, Record};
use crate::writer::ROOM_BYTES_MAX;
use alluvia_storage::Disk;
use alluvia_types::{Clock, Error, ErrorKind, Result, SystemClock, Version};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A random number that is the database's own, the same at every opening. Files of another database are refused.
    pub salt: u64,
    /// A file that has reached this length is closed, and a new one begun. A group is never split.
    pub file_bytes_max: u64,
    /// Zeros that are written ahead of small groups, so that the fsync of a group has only its own bytes to write, and no new
    /// length: half the time on ext4. At most 256 KiB; 0 writes none.
    pub room_bytes: u64,
    /// Whether a file beside the directory says how far the log goes, and whether somebody writes to it ([`Log::mark_end`]).
    pub is_marked: bool,
    /// Paces groups by the time that fsyncs take; with a clock that stands still nothing ever waits to be paced.
    pub clock: Arc<dyn Clock>,
}

impl LogOptions {
    /// Files of 64 MiB, room of 256 KiB, a mark, the machine's clock.
    pub fn new(salt: u64) -> LogOptions {
        LogOptions {
            salt,
            file_bytes_max: 64 << 20,
            room_bytes: ROOM_BYTES_MAX as u64,
            is_marked: true,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

/// An appended record, to wait for.
///
/// It tells the record from another one that got the same version after a [`Log::rewind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    version: Version,
    /// That were before it.
    rewinds: u64,
}

impl Ticket {
    /// The record's version.
    pub fn version(&self) -> Version {
        self.version
    }
}

/// The one log of a database: an append-only sequence of opaque bodies, one for each version.
///
/// All methods may be called from many threads. Appending is cheap and does no I/O; [`Log::sync_through`] does it for all
/// who wait.
///
/// ```
/// use alluvia_log::{Log, LogOptions};
/// use alluvia_storage::{Disk, RealDisk};
/// use alluvia_types::Version;
/// use std::sync::Arc;
///
/// # fn main() -> alluvia_types::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
/// let log = Log::open(disk.clone(), dir.path(), LogOptions::new(42), Version(0), &mut |_| Ok(()))?;
/// log.append(Version(1), 1_700_000_000_000_000, b"first")?;
/// log.append(Version(2), 1_700_000_000_000_001, b"second")?;
/// log.sync_through(Version(2))?;
/// drop(log);
///
/// let mut found = Vec::new();
/// Log::open(disk, dir.path(), LogOptions::new(42), Version(1), &mut |record| {
///     found.push((record.version, record.body.to_vec()));
///     Ok(())
/// })?;
/// assert_eq!(found, [(Version(2), b"second".to_vec())]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    found: LogEnd,
    /// What was wrong with the mark that was found.
    damaged_mark: Option<Error>,
    pub(crate) state: Mutex<State>,
    /// Told whenever a group is written, synced or withdrawn, and when a file has been begun.
    pub(crate) progress: Condvar,
}

/// What the leaders and followers share.
#[derive(Debug)]
pub(crate) struct State {
    /// Takes what is appended.
    pub pending: Group,
    /// Taken, not yet durable; oldest first.
    pub in_flight: VecDeque<InFlight>,
    /// The mark that is there; `None` also where it is not known which one is.
    pub mark: Option<EndMark>,
    /// Whether someone is writing to the current file, beginning a new one, or writing the mark. At most one does.
    pub is_writing: bool,
    pub closed: VecDeque<ClosedFile>,
    pub current: CurrentFile,
    /// Whether the current file is to be closed before anything else is written.
    pub is_to_close: bool,
    pub durable: Version,
    /// The end of the last durable group.
    pub durable_at: Position,
    pub last_sequence: u64,
    /// Everything before this offset of the current file is stated, by a group in it, to be durable.
    pub stated_len: u64,
    /// End of the current file's last durable record.
    pub records_end: u64,
    pub failure: Option<Error>,
    /// How often the log was rewound.
    pub rewinds: u64,
    /// The durable version at each rewind, by runs of equal ones, of which each has the number of rewinds at its end: a disk that
    /// stays full makes one run, however often it refuses.
    pub rewound_to: Vec<(u64, Version)>,
    pub sync_started: Duration,
    pub sync_mean: Duration,
    /// An old chunk to use again.
    pub spare: Vec<u8>,
}

/// A group that is being written or synced.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub sequence: u64,
    pub last_version: Version,
    pub bytes: u64,
    pub has_records: bool,
    /// Its own fsync has succeeded; it becomes durable when all before it have, too.
    pub is_synced: bool,
    pub outcome: Arc<Outcome>,
}

impl State {
    /// Sets the failure, drops what waits to be written and tells those who wait for it.
    pub fn fail(&mut self, error: Error) {
        let is_final = error.kind() != ErrorKind::DiskFull;
        if is_final {
            for group in self.in_flight.drain(..) {
                group.outcome.decide(Err(error.clone()));
            }
        }
        self.pending.outcome.decide(Err(error.clone()));
        self.pending = Group::new(self.durable, Vec::new());
        if is_final || self.failure.is_none() {
            self.failure = Some(error);
        }
    }

    /// Counts a rewind.
    fn rewound(&mut self, durable: Version) {
        self.rewinds += 1;
        match self.rewound_to.last_mut() {
            Some((end, version)) if *version == durable => *end = self.rewinds,
            _ => self.rewound_to.push((self.rewinds, durable)),
        }
    }

    /// The last version that the first rewind after so many has kept; `None` if there was none since.
    fn kept_since(&self, rewinds: u64) -> Option<Version> {
        let run = self.rewound_to.partition_point(|(end, _)| *end <= rewinds);
        self.rewound_to.get(run).map(|(_, version)| *version)
    }

    /// A mark of how far the log goes now.
    pub fn marked_as(&self, state: MarkState, note: u64) -> EndMark {
        let at = Position { file: self.current.number, offset: self.records_end };
        EndMark { version: self.durable, at, state, note }
    }

    /// Whether the failure, if any, is one that only reopening ends.
    pub fn is_poisoned(&self) -> bool {
        self.failure.as_ref().is_some_and(|error| error.kind() != ErrorKind::DiskFull)
    }

    /// Whether nobody writes and everything taken has become durable or failed.
    pub fn is_quiet(&self) -> bool {
        !self.is_writing && self.in_flight.is_empty()
    }
}

impl Log {
    /// Opens the log in `dir`, which exists, or begins one, and hands every record after version `after` to `replay`, in order.
    ///
    /// What an interrupted write left at the end is cut. When this returns, everything handed out is durable.
    ///
    /// Errors: [`ErrorKind::Corrupt`], naming file and offset, when something durable is not what was written, when a file
    /// is missing, or when the log ends before `after`; [`ErrorKind::IncompatibleFormat`]; I/O errors; whatever `replay`
    /// returns. An error leaves the files as they were or partly repaired; opening again is always safe.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: LogOptions,
        after: Version,
        replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<Log> {
        let recovered = recover(&*disk, dir, options.salt, after, replay)?;
        let log = Log::new(disk, dir, options, recovered);
        match log.seal() {
            // The statement only tells damage from a torn write better; a full disk must not keep a database closed. (Recovery writes
            // over bytes that are there, which a full file system may refuse where it copies what is written to, as btrfs does.)
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                log.rewind();
            }
            sealed => sealed?,
        }
        if !log.found.is_closed {
            match log.mark_recovered() {
                // Then it is told again.
                Err(error) if error.kind() == ErrorKind::DiskFull => {}
                marked => marked?,
            }
        }
        Ok(log)
    }

    /// Says that nothing was written since it was opened, and how it ended was told.
    fn mark_recovered(&self) -> Result<()> {
        let state = self.state.lock();
        let mark = state.marked_as(MarkState::Recovered, state.mark.map_or(0, |mark| mark.note));
        if !self.options.is_marked || mark.version == Version(0) || state.mark == Some(mark) {
            return Ok(());
        }
        self.write_mark(state, mark).1
    }

    fn new(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions, recovered: Recovered) -> Log {
        let Recovered { closed, current, last_version, last_sequence, stated_len, records_end, found, mark } =
            recovered;
        let (mark, damaged_mark) = mark.map_or_else(|error| (None, Some(error)), |mark| (mark, None));
        let state = State {
            pending: Group::new(last_version, Vec::new()),
            in_flight: VecDeque::new(),
            mark,
            is_writing: false,
            closed: closed.into(),
            durable: last_version,
            durable_at: Position { file: current.number, offset: current.len },
            current,
            is_to_close: false,
            last_sequence,
            stated_len,
            records_end,
            failure: None,
            rewinds: 0,
            rewound_to: Vec::new(),
            sync_started: Duration::ZERO,
            sync_mean: Duration::ZERO,
            spare: Vec::new(),
        };
        Log {
            disk,
            dir: dir.to_owned(),
            options,
            found,
            damaged_mark,
            state: Mutex::new(state),
            progress: Condvar::new(),
        }
    }

    /// The version through which the log in `dir` has given its records up, for whoever keeps no number of that: with it as `after` it opens
    /// with all that is there. Oldest files that are lost are not missed then.
    pub fn given_up(disk: &dyn Disk, dir: &Path, salt: u64) -> Result<Version> {
        scan::given_up(disk, dir, salt)
    }

    /// As [`Log::read`], without looking at the records.
    pub fn check(disk: &dyn Disk, dir: &Path, salt: u64, after: Version) -> Result<LogSummary> {
        Log::read(disk, dir, salt, after, &mut |_| Ok(()))
    }

    /// Reads the whole log in `dir` without changing it, for `alluvia check`, and hands every record after version `after` to
    /// `replay`, in order, as [`Log::open`] would. Errors as [`Log::open`]; what comes before damage is handed out before. Nobody may have
    /// the log open meanwhile: what is being written can look like damage.
    pub fn read(
        disk: &dyn Disk,
        dir: &Path,
        salt: u64,
        after: Version,
        replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<LogSummary> {
        scan::check(disk, dir, salt, after, replay)
    }

    /// Appends a record. It is copied once, becomes durable by a later [`Log::sync_through`], and until then may be lost.
    ///
    /// `version` must be the one after the version appended last; anything else is a defect of the caller and panics.
    ///
    /// Errors: the failure that the log is in, [`ErrorKind::DiskFull`] or [`ErrorKind::Poisoned`].
    pub fn append(&self, version: Version, commit_micros: i64, body: &[u8]) -> Result<Ticket> {
        match body.len() <= SHARED_BYTES_MAX {
            true => self.push(version, commit_micros, Body::Small(body)),
            false => self.push(version, commit_micros, Body::Large(body.to_vec())),
        }
    }

    /// As [`Log::append`], but takes the body over: a large one is not copied at all.
    pub fn append_owned(&self, version: Version, commit_micros: i64, body: Vec<u8>) -> Result<Ticket> {
        match body.len() <= SHARED_BYTES_MAX {
            true => self.push(version, commit_micros, Body::Small(&body)),
            false => self.push(version, commit_micros, Body::Large(body)),
        }
    }

    fn push(&self, version: Version, commit_micros: i64, body: Body<'_>) -> Result<Ticket> {
        let body_crc = crc32c::crc32c(body.bytes());
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        assert_eq!(version, state.pending.last_version().next(), "versions are appended without a gap");
        state.pending.push(version, commit_micros, body, body_crc, self.options.salt);
        Ok(Ticket { version, rewinds: state.rewinds })
    }

    /// A record that was appended before, to wait for: the one that has this version now.
    pub fn ticket(&self, version: Version) -> Ticket {
        Ticket { version, rewinds: self.state.lock().rewinds }
    }

    /// Returns when every record through `version` is durable. Whoever comes first does the I/O for all.
    ///
    /// After a [`Log::rewind`] a version may name another record than the one that the caller appended; where that can
    /// happen, wait with [`Log::sync`]. A version that was never appended is a defect of the caller and panics.
    ///
    /// Errors: [`ErrorKind::DiskFull`]: the record is not in the log and will not come back. [`ErrorKind::Poisoned`]: it
    /// may or may not be there after reopening.
    pub fn sync_through(&self, version: Version) -> Result<()> {
        self.sync(self.ticket(version))
    }

    /// Returns when the record that was appended as `ticket`, and every one before it, is durable. Errors as
    /// [`Log::sync_through`]; a record that a rewind dropped is [`ErrorKind::DiskFull`].
    pub fn sync(&self, ticket: Ticket) -> Result<()> {
        self.sync_telling(ticket, &mut |_| ())
    }

    /// As [`Log::sync`]. Before its long wait `taken` is told through which version that decides: if the caller is to write the record's
    /// group, of the group's last one, as soon as nothing can be added to it any more; if others write it, of the record's own.
    pub fn sync_telling(&self, ticket: Ticket, taken: &mut dyn FnMut(Version)) -> Result<()> {
        let Ticket { version, rewinds } = ticket;
        let mut state = self.state.lock();
        if let Some(kept) = state.kept_since(rewinds) {
            return match version <= kept {
                true => Ok(()),
                false => Err(dropped(version)),
            };
        }
        if version <= state.durable {
            return Ok(());
        }
        if let Some(group) = state.in_flight.iter().find(|group| version <= group.last_version) {
            let outcome = group.outcome.clone();
            drop(state);
            taken(version);
            return outcome.wait();
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        assert!(version <= state.pending.last_version(), "waiting for version {version}, which was not appended");
        let outcome = state.pending.outcome.clone();
        if state.pending.has_leader {
            drop(state);
            taken(version);
            return outcome.wait();
        }
        state.pending.has_leader = true;
        self.lead(state, &outcome, taken)
    }

    /// Syncs what is pending and states in the log that everything is durable, so that any later damage is told from a
    /// torn write. For closing cleanly; while others append it is a plain sync. Errors as [`Log::sync_through`].
    pub fn seal(&self) -> Result<()> {
        let last_version = self.state.lock().pending.last_version();
        self.sync_through(last_version)?;
        let mut state = self.state.lock();
        while !state.is_quiet() {
            self.progress.wait(&mut state);
        }
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None if state.records_end > state.stated_len && state.pending.is_empty() => {
                self.write_group(state, &mut |_| ())
            }
            None => Ok(()),
        }
    }

    /// Says in a file beside the log's directory, durably, that the log ends here: a log that is opened and does not go that far has lost
    /// something, and is refused. After [`Log::seal`], for closing cleanly; while others append nothing is said. `note` is what the owner
    /// has to say of this end ([`LogEnd::note`]).
    ///
    /// Errors: I/O errors and [`ErrorKind::DiskFull`], and the failure that the log is in if only reopening ends that; the log is as it
    /// was, and an earlier mark holds.
    pub fn mark_end(&self, note: u64) -> Result<()> {
        let mut state = self.state.lock();
        while !state.is_quiet() {
            self.progress.wait(&mut state);
        }
        if let Some(failure) = state.failure.as_ref().filter(|_| state.is_poisoned()) {
            return Err(failure.clone());
        }
        let mark = state.marked_as(MarkState::Stopped, note);
        let is_said = mark.version == Version(0) || state.mark == Some(mark);
        if !self.options.is_marked || is_said || !state.pending.is_empty() {
            return Ok(());
        }
        self.write_mark(state, mark).1
    }

    /// Whether there is a mark.
    pub fn has_mark(&self) -> bool {
        self.state.lock().mark.is_some()
    }

    /// What was wrong with the mark when the log was opened: it was passed over.
    pub fn damaged_mark(&self) -> Option<&Error> {
        self.damaged_mark.as_ref()
    }

    /// How it ended when it was opened.
    pub fn found(&self) -> LogEnd {
        self.found
    }

    /// The last durable version.
    pub fn durable(&self) -> Version {
        self.state.lock().durable
    }

    /// Why the log refuses records now, if it does.
    pub fn failure(&self) -> Option<Error> {
        self.state.lock().failure.clone()
    }

    /// Bytes appended and not yet durable.
    pub fn bytes_pending(&self) -> u64 {
        let state = self.state.lock();
        let pending = if state.pending.is_empty() { 0 } else { state.pending.bytes() };
        pending + state.in_flight.iter().map(|group| group.bytes).sum::<u64>()
    }

    /// Groups written since the first file; each is one fsync.
    pub fn groups(&self) -> u64 {
        self.state.lock().last_sequence
    }

    /// Length of all files, with what is being written and the room for what will be.
    pub fn bytes_on_disk(&self) -> u64 {
        let state = self.state.lock();
        state.closed.iter().map(|file| file.len).sum::<u64>() + state.current.len.max(state.current.room_end)
    }

    /// Waits until nothing is being written, and gives the last durable version: while the log is in a failure that is what
    /// [`Log::rewind`] would go back to.
    pub fn settle(&self) -> Version {
        let mut state = self.state.lock();
        while !state.is_quiet() {
            self.progress.wait(&mut state);
        }
        state.durable
    }

    /// Ends a [`ErrorKind::DiskFull`] failure: what was not durable is gone, and appending goes on after the version
    /// returned. The files were cut back before the failure was reported.
    ///
    /// Without a failure, or after one that only reopening ends, it changes nothing; so of several threads that met the
    /// same failure, each may call it.
    pub fn rewind(&self) -> Version {
        let mut state = self.state.lock();
        while !state.is_quiet() {
            self.progress.wait(&mut state);
        }
        if state.failure.is_some() && !state.is_poisoned() {
            state.failure = None;
            let durable = state.durable;
            state.rewound(durable);
            state.pending = Group::new(durable, Vec::new());
        }
        state.durable
    }

    /// Closes the current file, if it has records, however short it is: so that [`Log::remove_through`] can remove every file
    /// that has a record of now. Returns a version that no such record is above; it is durable.
    ///
    /// Errors: [`ErrorKind::DiskFull`] where there is no room for a new file, and the failure that the log is in.
    pub fn close_file(&self) -> Result<Version> {
        let last_version = self.state.lock().pending.last_version();
        self.sync_through(last_version)?;
        let mut state = self.state.lock();
        let number = state.current.number;
        state.is_to_close = state.has_records();
        while state.is_to_close && state.current.number == number {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            // A group may be written meanwhile; whoever would write the next one begins the file instead.
            if !state.is_quiet() {
                self.progress.wait(&mut state);
                continue;
            }
            let begun;
            (state, begun) = self.begin_file(state);
            if let Err(error) = begun {
                if error.kind() != ErrorKind::DiskFull {
                    state.fail(error.clone());
                }
                return Err(error);
            }
        }
        if state.current.number == number && state.has_records() {
            let message = format!("{} could not be closed", state.current.path.display());
            return Err(state.failure.clone().unwrap_or_else(|| Error::new(ErrorKind::DiskFull, message)));
        }
        Ok(state.durable)
    }

    /// Makes durable that files were removed: until then a power loss may bring them back, for the next opening to remove.
    ///
    /// Errors: [`ErrorKind::Io`]; the log stays usable.
    pub fn sync_removals(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir).map_err(|error| Error::io(&self.dir, "syncing", &error))
    }

    /// Removes files all of whose records have a version of at most `version`. The current file stays; it is closed first
    /// if all its records are that old and it has reached a quarter of its greatest length.
    ///
    /// The caller promises that it never opens the log with a smaller `after` again. Removals need not survive a crash.
    ///
    /// Errors: [`ErrorKind::Io`]; the log stays usable and a later call tries again.
    pub fn remove_through(&self, version: Version) -> Result<()> {
        let mut state = self.state.lock();
        let version = version.min(state.durable);
        let is_idle = state.is_quiet() && state.pending.is_empty() && state.failure.is_none();
        if is_idle
            && state.durable <= version
            && state.current.len >= self.options.file_bytes_max / 4
            && state.has_records()
        {
            let begun;
            (state, begun) = self.begin_file(state);
            match begun {
                Err(error) if error.kind() != ErrorKind::DiskFull => state.fail(error),
                _ => {} // begun; or there is no room for it, and removing what can be removed is the cure
            }
        }
        while let Some(oldest) = state.closed.front().copied().filter(|file| file.last_version <= version) {
            drop(state);
            let path = file_path(&self.dir, oldest.number);
            match self.disk.remove(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(&path, "removing", &e)),
                _ => {}
            }
            state = self.state.lock();
            if state.closed.front().is_some_and(|file| file.number == oldest.number) {
                state.closed.pop_front();
            }
        }
        Ok(())
    }
}

fn dropped(version: Version) -> Error {
    Error::new(ErrorKind::DiskFull, format!("version {version} was not committed, since the disk was full"))
        .with_hint("free space on this disk; writes resume by themselves")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::FaultDisk;
    use alluvia_types::ManualClock;

    #[test]
    fn a_disk_that_stays_full_adds_nothing_to_what_is_remembered() {
        let (disk, dir) = (FaultDisk::new(), Path::new("/log"));
        disk.create_dir_all(dir).unwrap();
        let options = LogOptions { room_bytes: 0, clock: Arc::new(ManualClock::default()), ..LogOptions::new(7) };
        let log = Log::open(disk.clone(), dir, options, Version(0), &mut |_| Ok(())).unwrap();
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for through in 1..=3 {
            kept.push(log.append(Version(through), 0, b"kept").unwrap());
            log.sync(kept[kept.len() - 1]).unwrap();
            disk.limit_bytes(Some(log.bytes_on_disk()));
            for _ in 0..100 {
                dropped.push(log.append(Version(through + 1), 0, b"dropped").unwrap());
                assert_eq!(log.sync(dropped[dropped.len() - 1]).unwrap_err().kind(), ErrorKind::DiskFull);
                assert_eq!(log.rewind(), Version(through));
            }
            disk.limit_bytes(None);
            assert_eq!(log.state.lock().rewound_to.len() as u64, through);
        }
        // Whoever comes late is told all the same, though others have those versions now.
        assert!(kept.iter().all(|ticket| log.sync(*ticket).is_ok()));
        assert!(dropped.iter().all(|ticket| log.sync(*ticket).is_err()));
    }
}
