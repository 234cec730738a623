//! The dictionary file of a table: append-only, synced before anything names a code in it.
//!
//! Invariants:
//! - The file's first [`DictionaryMark::bytes`] bytes are durable when a mark is handed out, and never change afterwards.
//!   What lies beyond the newest mark is worth nothing, and is cut off when the file is opened.
//! - A mark covers every code that a remap returned before `persist` was called, parents and all.
//! - After a failed sync of the file nothing is written until it is opened anew: what the disk holds is not known. A failed sync of
//!   its directory is tried again with a new file: no mark was handed out of one whose name is not durable.
//!
//! - A file that is written anew has a name of its own ([`DictionaryMark::generation`]), and is durable before a mark names it. It
//!   holds every code that was given out before it was begun; so a mark of a later generation contains those of earlier ones.
//!
//! Manifest and log hold marks, so a mark is what decides between a torn end (beyond: nobody needs it) and damage (below:
//! refused, naming file and offset). The file is made by the first `persist` that has something to write: plain tables,
//! and loads that are abandoned, leave none.

use super::group::{GROUP_HEADER, GroupWriter, MAGIC, MAGIC_REWRITTEN, group_crc, group_header, header, read_payload};
use super::level::Level;
use alluvia_storage::{Disk, DiskFile};
use alluvia_types::{Error, ErrorKind, Result, TableId};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// Bytes that are read at a time.
const READ_BYTES: usize = 8 << 20;

/// How many codes of members without a value a section has at most.
const FORGOTTEN_TOGETHER: usize = 1 << 18;

/// How much of a dictionary file is needed, and durable. Marks of one table are ordered: the later generation contains the
/// earlier, and of one generation the longer the shorter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DictionaryMark {
    /// Bytes from the start of the file; 0 when there is no file yet.
    pub bytes: u64,
    /// Per level: codes given out, NULL's included; 0 for a level without a dictionary.
    pub members: Vec<u32>,
    /// Checksum of those bytes, as the last group states it.
    pub crc: u32,
    /// How often the file was written anew. It is in its name, but for 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub generation: u32,
}

fn is_first(generation: &u32) -> bool {
    *generation == 0
}

impl DictionaryMark {
    /// Whether everything that `other` is of is in what this is of. Both are of one table.
    pub fn contains(&self, other: &DictionaryMark) -> bool {
        (self.generation, self.bytes) >= (other.generation, other.bytes)
    }
}

/// The file of a generation, by that of the first.
pub(crate) fn path_of(first: &Path, generation: u32) -> PathBuf {
    match generation {
        0 => first.to_owned(),
        later => {
            let mut name = first.as_os_str().to_owned();
            name.push(format!("-{later}"));
            PathBuf::from(name)
        }
    }
}

/// The file, as far as it is known to be durable.
pub(crate) struct DictionaryFile {
    disk: Arc<dyn Disk>,
    /// Of the first generation.
    first: PathBuf,
    /// Of the mark's generation.
    path: PathBuf,
    table: TableId,
    handle: Option<Arc<dyn DiskFile>>,
    /// The directory was synced since the file was made.
    named: bool,
    poisoned: bool,
    /// Members were forgotten, and the file still has their values.
    is_to_rewrite: bool,
    /// The last generation of which a file was begun.
    begun: u32,
    mark: DictionaryMark,
}

impl fmt::Debug for DictionaryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DictionaryFile").field("path", &self.path).field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl DictionaryFile {
    /// A file that nothing was written to.
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf, table: TableId, levels: &[Option<Level>]) -> DictionaryFile {
        let mark = DictionaryMark { members: members(levels), ..DictionaryMark::default() };
        DictionaryFile {
            disk,
            first: path.clone(),
            path,
            table,
            handle: None,
            named: false,
            poisoned: false,
            is_to_rewrite: false,
            begun: 0,
            mark,
        }
    }

    /// Fills the levels, which are empty, from the file through `mark`; what lies beyond is cut off, if it `is_cut`.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        table: TableId,
        levels: &mut [Option<Level>],
        mark: &DictionaryMark,
        is_cut: bool,
    ) -> Result<DictionaryFile> {
        let mut file = DictionaryFile::new(disk, path, table, levels);
        if mark.bytes == 0 {
            return Ok(file);
        }
        file.path = path_of(&file.first, mark.generation);
        file.begun = mark.generation;
        let handle = match file.disk.open(&file.path) {
            Ok(handle) => handle,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(&file.path, 0, "the file is missing"));
            }
            Err(error) => return Err(Error::io(&file.path, "opening", &error)),
        };
        let len = handle.len().map_err(|error| Error::io(&file.path, "reading the length of", &error))?;
        if len < mark.bytes {
            return Err(damaged(
                &file.path,
                len,
                &format!("the file ends here, of {} bytes that are needed", mark.bytes),
            ));
        }
        read(&file.path, handle.as_ref(), table, levels, mark)?;
        if is_cut && len > mark.bytes {
            handle.set_len(mark.bytes).map_err(|error| Error::io(&file.path, "cutting", &error))?;
        }
        file.handle = Some(handle);
        file.named = true;
        file.mark = mark.clone();
        Ok(file)
    }

    /// Appends the members that the file lacks, and returns once they are durable.
    pub(crate) fn persist(&mut self, levels: &[Option<Level>]) -> Result<DictionaryMark> {
        if self.poisoned {
            return Err(self.poison("writing", "an earlier write or sync failed"));
        }
        if self.is_to_rewrite {
            return self.rewrite(levels);
        }
        let lens = members(levels);
        if lens == self.mark.members {
            return Ok(self.mark.clone());
        }
        let file = self.handle()?;
        let mut next = DictionaryMark { members: lens, ..self.mark.clone() };
        if let Err(error) = append(file.as_ref(), self.table, levels, &self.mark, &mut next) {
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                // What was written lies beyond the mark; giving the room back is a courtesy.
                let _ = file.set_len(self.mark.bytes);
                return Err(Error::io(&self.path, "writing", &error));
            }
            return Err(self.poison("writing", &error.to_string()));
        }
        if let Err(error) = file.sync_data() {
            return Err(self.poison("syncing", &error.to_string()));
        }
        if !self.named {
            let dir = self.path.parent().unwrap_or(Path::new(""));
            if let Err(error) = self.disk.sync_dir(dir) {
                // Nothing names the file yet, and its mark stays at its start: the next call writes it from there. By a name of its own, since
                // a system may tell of a failed sync once, and take the name for durable after that.
                self.handle = None;
                let _ = self.disk.remove(&self.path);
                return Err(Error::io(&self.path, "syncing the directory of", &error));
            }
            self.named = true;
        }
        self.mark = next;
        Ok(self.mark.clone())
    }

    /// Says that values were taken from members: from now on nothing is appended to the file as it is.
    pub(crate) fn set_to_rewrite(&mut self) {
        // What has no file yet has nothing to be written anew.
        self.is_to_rewrite |= self.mark.bytes > 0;
    }

    /// Writes all members to a new file, and returns once it is durable. The file before stays, until nothing names it. After an
    /// error, too: then the next call tries again, under another name.
    fn rewrite(&mut self, levels: &[Option<Level>]) -> Result<DictionaryMark> {
        self.begun = self.begun.max(self.mark.generation) + 1;
        let (generation, path) = (self.begun, path_of(&self.first, self.begun));
        let io = |doing: &'static str| {
            let path = path.clone();
            move |error: io::Error| Error::io(&path, doing, &error)
        };
        let nothing = levels.iter().map(|level| u32::from(level.is_some())).collect();
        let old = DictionaryMark { bytes: 0, members: nothing, crc: 0, generation };
        let mut next = DictionaryMark { members: members(levels), ..old.clone() };
        let write = |next: &mut DictionaryMark| -> Result<Arc<dyn DiskFile>> {
            let file = self.disk.create(&path).map_err(io("creating"))?;
            append(file.as_ref(), self.table, levels, &old, next).map_err(io("writing"))?;
            append_forgotten(file.as_ref(), levels, next).map_err(io("writing"))?;
            file.sync_data().map_err(io("syncing"))?;
            self.disk.sync_dir(path.parent().unwrap_or(Path::new(""))).map_err(io("syncing the directory of"))?;
            Ok(file)
        };
        match write(&mut next) {
            Ok(file) => {
                (self.handle, self.named, self.path, self.is_to_rewrite) = (Some(file), true, path, false);
                self.mark = next;
                Ok(self.mark.clone())
            }
            Err(error) => {
                // Nothing names it.
                let _ = self.disk.remove(&path);
                Err(error)
            }
        }
    }

    /// The open file; made if it is not there. One that is there without a mark was left by a crash and is emptied.
    fn handle(&mut self) -> Result<Arc<dyn DiskFile>> {
        if let Some(handle) = &self.handle {
            return Ok(Arc::clone(handle));
        }
        let handle = match self.disk.create(&self.path) {
            Ok(handle) => handle,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let handle = self.disk.open(&self.path).map_err(|error| Error::io(&self.path, "opening", &error))?;
                handle.set_len(0).map_err(|error| Error::io(&self.path, "emptying", &error))?;
                handle
            }
            Err(error) => return Err(Error::io(&self.path, "creating", &error)),
        };
        self.handle = Some(Arc::clone(&handle));
        Ok(handle)
    }

    fn poison(&mut self, doing: &str, why: &str) -> Error {
        self.poisoned = true;
        Error::new(ErrorKind::Poisoned, format!("{doing} {} failed: {why}", self.path.display()))
            .with_hint("check the disk, then reopen the database; nothing that was acknowledged is lost")
    }
}

/// Codes given out per level. A child is counted before its parent, so that no member is counted without its parent while
/// others remap.
fn members(levels: &[Option<Level>]) -> Vec<u32> {
    let mut lens: Vec<u32> = levels.iter().rev().map(|level| level.as_ref().map_or(0, Level::len)).collect();
    lens.reverse();
    lens
}

/// Writes the members between two marks, and completes the second.
fn append(
    file: &dyn DiskFile,
    table: TableId,
    levels: &[Option<Level>],
    old: &DictionaryMark,
    new: &mut DictionaryMark,
) -> io::Result<()> {
    let mut write = |bytes: &[u8], crc: u32| {
        file.write_all_at(bytes, new.bytes)?;
        new.bytes += bytes.len() as u64;
        new.crc = crc;
        io::Result::Ok(crc)
    };
    let mut crc = old.crc;
    let mut group = GroupWriter::default();
    let mut start = Vec::new();
    if old.bytes == 0 {
        (start, crc) = header(magic_of(old.generation), table, levels);
    }
    for (at, level) in levels.iter().enumerate() {
        let Some(level) = level else { continue };
        let mut first = old.members[at];
        while first < new.members[at] {
            first = level.read(|members| group.add(at, members, first, new.members[at]));
            if group.is_full() {
                crc = write_group(&mut start, &mut group, crc, &mut write)?;
            }
        }
    }
    if !group.is_empty() {
        write_group(&mut start, &mut group, crc, &mut write)?;
    }
    Ok(())
}

/// The magic of a file of this generation.
fn magic_of(generation: u32) -> &'static [u8; 8] {
    if generation == 0 { MAGIC } else { MAGIC_REWRITTEN }
}

/// Names the members that have no value, behind all members.
fn append_forgotten(file: &dyn DiskFile, levels: &[Option<Level>], mark: &mut DictionaryMark) -> io::Result<()> {
    for (at, level) in levels.iter().enumerate() {
        let Some(level) = level else { continue };
        let most = mark.members[at];
        let codes: Vec<u32> = level.read(|members| members.forgotten().iter().filter(|code| *code < most).collect());
        for codes in codes.chunks(FORGOTTEN_TOGETHER) {
            let mut group = GroupWriter::default();
            group.add_forgotten(at, codes);
            let (bytes, crc) = group.finish(mark.crc);
            file.write_all_at(&bytes, mark.bytes)?;
            mark.bytes += bytes.len() as u64;
            mark.crc = crc;
        }
    }
    Ok(())
}

/// Writes what comes before the group, if anything, and the group, in one call.
fn write_group(
    start: &mut Vec<u8>,
    group: &mut GroupWriter,
    crc: u32,
    write: &mut impl FnMut(&[u8], u32) -> io::Result<u32>,
) -> io::Result<u32> {
    let (bytes, crc) = group.finish(crc);
    if start.is_empty() {
        return write(&bytes, crc);
    }
    start.extend_from_slice(&bytes);
    write(&std::mem::take(start), crc)
}

/// Reads header and groups through `mark` into the levels.
fn read(
    path: &Path,
    handle: &dyn DiskFile,
    table: TableId,
    levels: &mut [Option<Level>],
    mark: &DictionaryMark,
) -> Result<()> {
    let mut reader = Reader { path, handle, end: mark.bytes, offset: 0, buffer: Vec::new(), at: 0 };
    let (expected, mut crc) = header(magic_of(mark.generation), table, levels);
    let found = reader.take(expected.len())?;
    if found != expected {
        return Err(wrong_header(path, &found[..MAGIC.len()]));
    }
    while reader.position() < mark.bytes {
        let offset = reader.position();
        let mut start = [0; GROUP_HEADER];
        start.copy_from_slice(reader.take(GROUP_HEADER)?);
        let (stated, len) = group_header(&start);
        let payload = reader.take(len).map_err(|error| match error.kind() {
            ErrorKind::Corrupt => damaged(path, offset, "a group is longer than what is needed of the file"),
            _ => error,
        })?;
        if group_crc(crc, &start, payload) != stated {
            return Err(damaged(path, offset, "a group's checksum does not hold"));
        }
        read_payload(payload, levels).map_err(|why| damaged(path, offset, why))?;
        crc = stated;
    }
    if crc != mark.crc || members(levels) != mark.members {
        return Err(damaged(path, mark.bytes, "the file is not the one that the manifest was written with"));
    }
    Ok(())
}

/// Reads forward in large pieces.
struct Reader<'a> {
    path: &'a Path,
    handle: &'a dyn DiskFile,
    /// Nothing beyond is read.
    end: u64,
    /// Where the buffer ends in the file.
    offset: u64,
    buffer: Vec<u8>,
    /// What of the buffer was taken.
    at: usize,
}

impl Reader<'_> {
    /// Where the next byte to be taken lies in the file.
    fn position(&self) -> u64 {
        self.offset - (self.buffer.len() - self.at) as u64
    }

    /// The next `len` bytes.
    fn take(&mut self, len: usize) -> Result<&[u8]> {
        if (self.end - self.position()) < len as u64 {
            return Err(damaged(self.path, self.position(), "the file ends in the middle of something"));
        }
        if self.buffer.len() - self.at < len {
            self.buffer.drain(..self.at);
            self.at = 0;
            let kept = self.buffer.len();
            let more = (len - kept).max(READ_BYTES).min((self.end - self.offset) as usize);
            self.buffer.resize(kept + more, 0);
            self.handle
                .read_exact_at(&mut self.buffer[kept..], self.offset)
                .map_err(|error| Error::io(self.path, "reading", &error))?;
            self.offset += more as u64;
        }
        self.at += len;
        Ok(&self.buffer[self.at - len..self.at])
    }
}

fn damaged(path: &Path, offset: u64, why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("dictionary file {} is damaged at byte {offset}: {why}", path.display()))
        .with_hint("restore the data directory from a backup; if the disk is failing, its log says so")
}

fn wrong_header(path: &Path, magic: &[u8]) -> Error {
    let family = MAGIC.len() - 2;
    if magic[..family] == MAGIC[..family] && magic != MAGIC && magic != MAGIC_REWRITTEN {
        let version = String::from_utf8_lossy(&magic[family..]);
        return Error::new(
            ErrorKind::IncompatibleFormat,
            format!("dictionary file {} has format version {version}, this build reads 01 and 02", path.display()),
        )
        .with_hint("open the database with the version of Alluvia that wrote it");
    }
    damaged(path, 0, "its header is not that of this table's dictionaries")
}
