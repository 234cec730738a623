//! The leader's part: pacing, writing and syncing a group, withdrawing it when the disk is full, beginning a file.
//!
//! Invariants:
//! - Groups are written one after the other, each behind the last; their fsyncs may overlap. A group is durable when its
//!   own fsync and those of all groups before it have succeeded, so a later group's success never covers up an earlier
//!   group's failure.
//! - Before the first record behind a clean end the mark says that somebody writes ([`crate::end`]).
//! - A new file is begun only when every group of the current one is durable, and the room behind them is cut off.
//!
//! Room. The fsync of a file that grew makes its new length durable, too, by a commit of the file system's journal; of one that was
//! overwritten it only writes data. So behind a small group that reaches past the file's end zeros are written, in which the next
//! ones lie. Reading takes zeros for what they are: no group. Without space for them, groups grow the file as they come.
//!
//! Pacing. With one fsync at a time, writers fall into two camps, one waiting for the fsync under way and one for the
//! next, and each commits once every *two* fsyncs. So several may overlap; the next group starts when nothing is under
//! way, or when the mean duration of an fsync, divided by the number that may overlap, has passed since the last start. A
//! lone writer never waits, and a crowd shares fsyncs evenly.

use crate::end::{EndMark, MarkState};
use crate::files::{ClosedFile, CurrentFile, GROUPS_IN_FLIGHT_MAX, poisoned};
use crate::format::{FILE_HEADER_BYTES, FileHeader, GroupHeader, Position};
use crate::group::{Group, Outcome};
use crate::log::{InFlight, Log, State};
use alluvia_storage::{DiskFile, NotReplaced};
use alluvia_types::{Error, ErrorKind, Result, Version, planted};
use parking_lot::MutexGuard;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Sleeping for less than this costs more than the fsync it would save.
const PACE_MIN: Duration = Duration::from_micros(50);

/// What is written as room at once.
pub(crate) const ROOM_BYTES_MAX: usize = 256 << 10;
static ZEROS: [u8; ROOM_BYTES_MAX] = [0; ROOM_BYTES_MAX];

/// What the leader of the pending group does next.
enum Next {
    Wait,
    WaitFor(Duration),
    BeginFile,
    /// Says that somebody writes.
    Mark,
    Write,
}

impl State {
    /// Whether the current file holds anything but its header.
    pub fn has_records(&self) -> bool {
        self.current.len > FILE_HEADER_BYTES as u64
    }

    /// Marks a group as synced, and as durable all those that now are.
    fn complete(&mut self, sequence: u64) -> Vec<Arc<Outcome>> {
        if let Some(group) = self.in_flight.iter_mut().find(|group| group.sequence == sequence) {
            group.is_synced = true;
        }
        let mut done = Vec::new();
        while let Some(group) = self.in_flight.pop_front_if(|group| group.is_synced) {
            assert!(group.last_version >= self.durable, "groups become durable in order");
            self.durable = group.last_version;
            self.durable_at.offset += group.bytes;
            if group.has_records {
                self.records_end = self.durable_at.offset;
            }
            done.push(group.outcome);
        }
        done
    }
}

impl Log {
    /// Writes the pending group, whose outcome is `outcome`, as soon as it may, and returns how that ended. `taken` is told of its last
    /// version once nothing is added to it any more.
    pub(crate) fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        outcome: &Arc<Outcome>,
        taken: &mut dyn FnMut(Version),
    ) -> Result<()> {
        loop {
            if !Arc::ptr_eq(&state.pending.outcome, outcome) {
                drop(state); // a failure dropped the group
                return outcome.wait();
            }
            match self.next_step(&state) {
                Next::Wait => self.progress.wait(&mut state),
                Next::WaitFor(pause) => {
                    self.progress.wait_for(&mut state, pause);
                }
                Next::BeginFile => {
                    let begun;
                    (state, begun) = self.begin_file(state);
                    if let Err(error) = begun {
                        state.fail(error);
                    }
                }
                Next::Mark => {
                    let note = state.mark.map_or(0, |mark| mark.note);
                    let mark = state.marked_as(MarkState::Running, note);
                    let marked;
                    (state, marked) = self.write_mark(state, mark);
                    if let Err(error) = marked {
                        state.fail(if error.kind() == ErrorKind::DiskFull { error } else { poisoned(error) });
                    }
                }
                Next::Write => return self.write_group(state, taken),
            }
        }
    }

    fn next_step(&self, state: &State) -> Next {
        if state.is_writing || state.in_flight.len() == GROUPS_IN_FLIGHT_MAX {
            return Next::Wait;
        }
        let is_running = state.mark.is_some_and(|mark| mark.state == MarkState::Running);
        if self.options.is_marked && !is_running {
            return Next::Mark;
        }
        if (state.current.len >= self.options.file_bytes_max || state.is_to_close) && state.has_records() {
            return if state.in_flight.is_empty() { Next::BeginFile } else { Next::Wait };
        }
        if state.in_flight.is_empty() {
            return Next::Write;
        }
        let since_start = self.options.clock.monotonic().saturating_sub(state.sync_started);
        let pause = (state.sync_mean / GROUPS_IN_FLIGHT_MAX as u32).saturating_sub(since_start);
        if pause < PACE_MIN { Next::Write } else { Next::WaitFor(pause) }
    }

    /// Replaces the mark, durably. Nothing is written to the log meanwhile.
    pub(crate) fn write_mark<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        mark: EndMark,
    ) -> (MutexGuard<'a, State>, Result<()>) {
        state.is_writing = true;
        drop(state);
        let stored = mark.store(&*self.disk, &self.dir, self.options.salt);
        let mut state = self.state.lock();
        state.is_writing = false;
        let stored = match stored {
            Ok(()) => {
                state.mark = Some(mark);
                Ok(())
            }
            Err(NotReplaced { error, is_kept }) => {
                state.mark = state.mark.filter(|_| is_kept);
                Err(error)
            }
        };
        self.progress.notify_all();
        (state, stored)
    }

    /// Takes the pending group, tells of its last version, writes and syncs it, and returns how that ended.
    pub(crate) fn write_group(&self, mut state: MutexGuard<'_, State>, taken: &mut dyn FnMut(Version)) -> Result<()> {
        assert!(!state.is_writing && state.failure.is_none(), "one group is written at a time");
        let spare = std::mem::take(&mut state.spare);
        let next = Group::new(state.pending.last_version(), spare);
        let mut group = std::mem::replace(&mut state.pending, next);
        let outcome = group.outcome.clone();
        let header = GroupHeader {
            at: Position { file: state.current.number, offset: state.current.len },
            sequence: state.last_sequence + 1,
            durable: state.durable_at,
        };
        assert!(
            header.durable <= header.at && header.durable.file == header.at.file,
            "a statement is about what was before"
        );
        let stated_before = std::mem::replace(&mut state.stated_len, header.durable.offset);
        state.in_flight.push_back(InFlight {
            sequence: header.sequence,
            last_version: group.last_version(),
            bytes: group.bytes(),
            has_records: !group.is_empty(),
            is_synced: false,
            outcome: outcome.clone(),
        });
        state.last_sequence = header.sequence;
        state.current.len += group.bytes();
        let room = self.room_behind(&state.current, &group);
        let file = state.current.handles.pop().expect("as many handles as groups in flight");
        state.is_writing = true;
        drop(state);

        taken(group.last_version());
        group.set_header(&header, self.options.salt);
        let written = write_chunks(&*file, group.chunks(), header.at.offset).and_then(|()| write_room(&*file, &room));
        let has_room = match written {
            Ok(has_room) => has_room,
            Err(error) => return self.withdraw(file, &header, stated_before, &outcome, &error),
        };
        let spare = group.into_spare();
        let sync_started = self.options.clock.monotonic();
        let mut state = self.state.lock();
        state.spare = spare;
        match has_room {
            true => state.current.room_end = state.current.room_end.max(room.end),
            false => state.current.room_from = room.end,
        }
        state.is_writing = false;
        state.sync_started = sync_started;
        drop(state);
        self.progress.notify_all();

        if planted("acknowledged before sync") {
            let done = self.state.lock().complete(header.sequence);
            done.into_iter().for_each(|group| group.decide(Ok(())));
        }
        let synced = if planted("skipped fsync") { Ok(()) } else { file.sync_data() };
        let synced = if planted("failed fsync taken for good") { Ok(()) } else { synced };
        let took = self.options.clock.monotonic().saturating_sub(sync_started);
        let mut state = self.state.lock();
        state.current.handles.push(file);
        state.sync_mean = if state.sync_mean.is_zero() { took } else { (state.sync_mean * 7 + took) / 8 };
        let done = match synced {
            Ok(()) => state.complete(header.sequence),
            Err(error) => {
                let error = poisoned(Error::io(&state.current.path, "syncing", &error));
                state.fail(error);
                Vec::new()
            }
        };
        drop(state);
        self.progress.notify_all();
        for group in done {
            group.decide(Ok(()));
        }
        outcome.wait()
    }

    /// Where zeros are written behind `group`, which ends the file: nowhere if it is large, lies in room, or is only a statement.
    fn room_behind(&self, file: &CurrentFile, group: &Group) -> Range<u64> {
        let bytes = self.options.room_bytes.min(ROOM_BYTES_MAX as u64);
        let lacks_room = file.len > file.room_end && file.len >= file.room_from;
        let is_wanted = lacks_room && !group.is_empty() && group.bytes() <= bytes / 8;
        let end = (file.len + bytes).min(self.options.file_bytes_max);
        file.len..if is_wanted { end.max(file.len) } else { file.len }
    }

    /// Takes back a group whose write failed. If the disk is full, its bytes are cut off and the cut is synced before
    /// anyone is told; groups before it finish first, so that nothing else happens to the file meanwhile.
    fn withdraw(
        &self,
        file: Arc<dyn DiskFile>,
        header: &GroupHeader,
        stated_before: u64,
        outcome: &Arc<Outcome>,
        error: &io::Error,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let error = Error::io(&state.current.path, "writing", error);
        let is_full = error.kind() == ErrorKind::DiskFull;
        state.fail(if is_full { error.clone() } else { poisoned(error.clone()) });
        while !state.is_poisoned() && state.in_flight.front().is_some_and(|group| group.sequence != header.sequence) {
            self.progress.wait(&mut state);
        }
        if !state.is_poisoned() {
            drop(state);
            let cut = file.set_len(header.at.offset).and_then(|()| file.sync_data());
            state = self.state.lock();
            match cut {
                Ok(()) => {
                    state.in_flight.clear();
                    state.last_sequence = header.sequence - 1;
                    state.current.len = header.at.offset;
                    state.current.room_end = header.at.offset;
                    state.stated_len = stated_before;
                    state.current.handles.push(file);
                    outcome.decide(Err(error));
                }
                Err(e) => {
                    let error = Error::io(&state.current.path, "cutting back", &e);
                    state.fail(poisoned(error));
                }
            }
        }
        state.is_writing = false;
        drop(state);
        self.progress.notify_all();
        outcome.wait()
    }

    /// Closes the current file, all of which must be durable, and begins the next. On an error the current file stays, without room; a
    /// full disk leaves all else as it was.
    pub(crate) fn begin_file<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, Result<()>) {
        assert!(state.is_quiet(), "a file is closed when it is durable to its end");
        assert_eq!(state.durable_at.offset, state.current.len, "a file is closed when it is durable to its end");
        let header = FileHeader {
            file: state.current.number + 1,
            first_version: state.durable.next(),
            first_sequence: state.last_sequence + 1,
            previous_len: state.current.len,
        };
        state.is_writing = true;
        let (file, path) = (Arc::clone(&state.current.handles[0]), state.current.path.clone());
        drop(state);
        let cut = cut_room(&*file, &path, header.previous_len);
        let is_cut = cut.is_ok();
        let begun = cut.and_then(|()| CurrentFile::begin(&*self.disk, &self.dir, &header, self.options.salt));
        let mut state = self.state.lock();
        state.is_writing = false;
        state.is_to_close = false;
        if is_cut {
            state.current.room_end = header.previous_len;
        }
        let begun = begun.map(|current| {
            let old = std::mem::replace(&mut state.current, current);
            let last_version = state.durable;
            state.closed.push_back(ClosedFile { number: old.number, len: old.len, last_version });
            let len = FILE_HEADER_BYTES as u64;
            state.durable_at = Position { file: header.file, offset: len };
            state.stated_len = len;
            state.records_end = len;
        });
        self.progress.notify_all();
        (state, begun)
    }
}

/// Writes zeros, and returns whether they are there. Without space for all of them none are left; that is no error, since nothing depends on
/// them.
fn write_room(file: &dyn DiskFile, room: &Range<u64>) -> io::Result<bool> {
    let zeros = &ZEROS[..(room.end - room.start) as usize];
    if zeros.is_empty() {
        return Ok(true);
    }
    match file.write_all_at(zeros, room.start) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            file.set_len(room.start).map(|()| false)
        }
        Err(error) => Err(error),
    }
}

/// Cuts a file that is closed to its records, durably. Also where it has no room, as far as this process knows: a cut that a failed sync
/// left may be seen without being durable, and the next file says how long this one is.
///
/// Errors: [`ErrorKind::DiskFull`] if it could not even be cut; then nothing has changed. [`ErrorKind::Poisoned`] if it is unknown whether
/// the cut is durable.
fn cut_room(file: &dyn DiskFile, path: &Path, len: u64) -> Result<()> {
    file.set_len(len).map_err(|e| {
        let error = Error::io(path, "cutting", &e);
        if error.kind() == ErrorKind::DiskFull { error } else { poisoned(error) }
    })?;
    file.sync_data().map_err(|e| poisoned(Error::io(path, "syncing", &e)))
}

fn write_chunks(file: &dyn DiskFile, chunks: &[Vec<u8>], mut offset: u64) -> io::Result<()> {
    for chunk in chunks {
        file.write_all_at(chunk, offset)?;
        offset += chunk.len() as u64;
    }
    Ok(())
}
