//! Reading a log without changing it: every record in order, and where the good part ends.
//!
//! Invariants:
//! - Nothing is handed out before its checksums fit. A body is allocated only after its length is known to be right (its
//!   header's checksum) and to lie within the file.
//! - Only the newest file may end badly, and only after everything that any later whole group states to be durable. All
//!   else is damage: an error that names file and offset.
//! - Whole frames in an impossible order are damage too: torn writes do not produce checksums that fit.

use crate::end::EndMark;
use crate::files::{file_path, list};
use crate::format::{
    BadFileHeader, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, GROUP_HEADER_BYTES,
    GROUP_MARK_BYTES, GroupHeader, Header, Position, group_mark,
};
use crate::recovery::LogEnd;
use alluvia_storage::{Disk, DiskFile};
use alluvia_types::{Error, ErrorKind, Result, Version, planted};
use std::fmt;
use std::path::{Path, PathBuf};

/// How much is read at once.
const READ_BYTES: usize = 1 << 20;

/// One committed batch, as recovery hands it out.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its position in the log.
    pub version: Version,
    /// Its commit time, as it was given to [`crate::Log::append`].
    pub commit_micros: i64,
    /// Its bytes, as they were given to [`crate::Log::append`].
    pub body: &'a [u8],
}

/// What a log holds.
#[derive(Clone, Debug)]
pub struct LogSummary {
    /// How many files.
    pub files: u64,
    /// Their length in all.
    pub bytes: u64,
    /// The first version that is still there; one more than `last_version` when there is none.
    pub first_version: Version,
    /// The last version.
    pub last_version: Version,
    /// How it ends. What is torn, recovery cuts; zeros to the end are room for records to come, and not meant.
    pub end: LogEnd,
    /// What is wrong with the mark, which holds nothing else.
    pub damaged_mark: Option<Error>,
}

/// Bytes at the end of a log that are no whole record: what an interrupted write left, or damage to groups that nothing states to be
/// durable, which cannot be told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TornEnd {
    /// The number of the log file; it is the newest.
    pub file: u64,
    /// Where the last whole record or group header ends.
    pub offset: u64,
    /// So many bytes lie behind, up to the last that is not zero.
    pub bytes: u64,
    /// So many group headers lie whole among them: writes that were under way at once, and none of which was acknowledged, or groups that
    /// were, behind one that was damaged since.
    pub groups: u64,
}

impl fmt::Display for TornEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornEnd { file, offset, bytes, groups } = *self;
        let name = file_path(Path::new(""), file);
        write!(f, "log file {}, from byte {offset} on: {bytes} bytes that are no whole batch", name.display())?;
        match groups {
            0 => Ok(()),
            groups => write!(f, ", among them the beginnings of {groups} groups that were written whole"),
        }
    }
}

/// A file with a good header.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub path: PathBuf,
    pub header: FileHeader,
    pub len: u64,
}

/// The files of a log as found, before their frames are read.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    /// Contiguous, oldest first.
    pub files: Vec<FoundFile>,
    /// Removed before, and reappeared.
    pub stale: Vec<PathBuf>,
    /// The newest file when its header is torn: it was being begun when power was lost.
    pub torn: Option<PathBuf>,
}

/// Where the newest file's good part ends, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanEnd {
    /// End of the last whole record or empty group of the newest file.
    pub good_len: u64,
    /// What follows; `None` if that is nothing but zeros.
    pub torn: Option<TornEnd>,
    /// Everything before this offset of the newest file is stated to be durable.
    pub stated_len: u64,
    /// End of the newest file's last record; its header's end when it has none.
    pub records_end: u64,
    pub last_version: Version,
    pub last_sequence: u64,
}

/// The error for bytes that are not what was written.
pub(crate) fn damaged(path: &Path, offset: u64, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{} is damaged at offset {offset}: {what}", path.display())).with_hint(
        "this is not what a power loss leaves; check the disk, and restore the data directory from a backup or a replica",
    )
}

impl FoundFiles {
    /// Lists the files and reads their headers. `after` is the version up to which records may be missing.
    pub fn find(disk: &dyn Disk, dir: &Path, salt: u64, after: Version) -> Result<FoundFiles> {
        let found = FoundFiles::look(disk, dir, salt)?;
        found.check_complete(dir, after)?;
        Ok(found)
    }

    /// The same, whatever is missing before the first file.
    fn look(disk: &dyn Disk, dir: &Path, salt: u64) -> Result<FoundFiles> {
        let mut found = FoundFiles::default();
        let listed = list(disk, dir)?;
        let newest = listed.last().map(|&(number, _)| number);
        for (number, _) in listed {
            let path = file_path(dir, number);
            let file = disk.open(&path).map_err(|e| Error::io(&path, "opening", &e))?;
            let len = file.len().map_err(|e| Error::io(&path, "reading the length of", &e))?;
            let header = match read_file_header(&*file, &path, len, salt)? {
                Some(header) => header,
                None if Some(number) == newest => {
                    groups_behind(&*file, &path, len, salt, Position { file: number, offset: 0 })?;
                    found.torn = Some(path);
                    continue;
                }
                None => return Err(damaged(&path, 0, "its header does not fit its checksum, and newer files exist")),
            };
            if header.file != number {
                return Err(damaged(&path, 0, format!("it says that it is log file {}", header.file)));
            }
            if found.files.last().is_some_and(|last: &FoundFile| last.header.file + 1 != number) {
                found.stale.extend(found.files.drain(..).map(|file| file.path));
            }
            found.files.push(FoundFile { path, header, len });
        }
        Ok(found)
    }

    fn check_complete(&self, dir: &Path, after: Version) -> Result<()> {
        let hint = "restore the missing files, or the data directory from a backup or a replica";
        let missing = |message: String| Err(Error::new(ErrorKind::Corrupt, message).with_hint(hint));
        match self.files.first() {
            Some(first) if first.header.first_version > after.next() => {
                let path = file_path(dir, first.header.file - 1);
                missing(format!("log file {} is missing: versions from {} on were in it", path.display(), after.next()))
            }
            Some(_) => Ok(()),
            None if after > Version(0) => missing(format!("no log file in {}, after version {after}", dir.display())),
            None => Ok(()),
        }?;
        // A file is begun when all before it is durable, and removed only after a newer one is.
        let expected = file_path(dir, self.files.last().map_or(1, |last| last.header.file + 1));
        match &self.torn {
            Some(torn) if *torn != expected => missing(format!("log file {} is missing", expected.display())),
            _ => Ok(()),
        }
    }
}

fn read_file_header(file: &dyn DiskFile, path: &Path, len: u64, salt: u64) -> Result<Option<FileHeader>> {
    if len < FILE_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; FILE_HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io(path, "reading", &e))?;
    match FileHeader::decode(&bytes, salt, path) {
        Ok(header) => Ok(Some(header)),
        Err(BadFileHeader::Torn) => Ok(None),
        Err(BadFileHeader::Refused(error)) => Err(error),
    }
}

/// Reads the files in order and hands out every record after `after`. `files` must not be empty.
pub(crate) fn scan(
    disk: &dyn Disk,
    files: &[FoundFile],
    salt: u64,
    after: Version,
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<ScanEnd> {
    let mut end: Option<ScanEnd> = None;
    for (i, found) in files.iter().enumerate() {
        let next = files.get(i + 1).map(|next| &next.header);
        if let Some(next) = next {
            if next.previous_len != found.len {
                let what =
                    format!("it has {} bytes, and had {} when the next file was begun", found.len, next.previous_len);
                return Err(damaged(&found.path, found.len.min(next.previous_len), what));
            }
            if next.first_version <= after.next() {
                continue; // every record in it is older than what is asked for
            }
        }
        let header = found.header;
        if let Some(end) = end
            && (header.first_version != end.last_version.next() || header.first_sequence != end.last_sequence + 1)
        {
            let what = format!(
                "it begins at version {} and group {}, the file before ended at version {} and group {}",
                header.first_version, header.first_sequence, end.last_version, end.last_sequence
            );
            return Err(damaged(&found.path, 0, what));
        }
        let file = disk.open(&found.path).map_err(|e| Error::io(&found.path, "opening", &e))?;
        let mut scanner = FileScanner::new(&*file, found, salt, next.is_none());
        end = Some(scanner.run(after, replay)?);
    }
    let end = end.expect("a log has at least one file");
    if end.last_version < after {
        let newest = files.last().expect("a log has at least one file");
        let what = format!("the log ends at version {}, the database at version {after}", end.last_version);
        return Err(damaged(&newest.path, end.good_len, what));
    }
    Ok(end)
}

struct FileScanner<'a> {
    reader: FileReader<'a>,
    found: &'a FoundFile,
    salt: u64,
    is_newest: bool,
    end: ScanEnd,
}

impl<'a> FileScanner<'a> {
    fn new(file: &'a dyn DiskFile, found: &'a FoundFile, salt: u64, is_newest: bool) -> FileScanner<'a> {
        let start = FILE_HEADER_BYTES as u64;
        let end = ScanEnd {
            good_len: start,
            torn: None,
            stated_len: start,
            records_end: start,
            last_version: Version(found.header.first_version.0.saturating_sub(1)),
            last_sequence: found.header.first_sequence.saturating_sub(1),
        };
        FileScanner { reader: FileReader::new(file, &found.path, found.len), found, salt, is_newest, end }
    }

    fn run(&mut self, after: Version, replay: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<ScanEnd> {
        let mut in_group = false;
        let mut body = Vec::new();
        loop {
            let offset = self.end.good_len;
            if offset == self.found.len {
                return Ok(self.end);
            }
            match self.read_header(offset)? {
                Some(Header::Group(group)) => {
                    self.accept_group(&group)?;
                    in_group = true;
                }
                Some(Header::Frame(frame)) => {
                    let Some(record_end) = self.read_record(offset, in_group, &frame, &mut body)? else {
                        return self.cut();
                    };
                    let version = frame.version;
                    if version > after && !(planted("replay off by one") && version == after.next()) {
                        replay(Record { version, commit_micros: frame.commit_micros, body: &body })?;
                    }
                    self.end.last_version = version;
                    self.end.good_len = record_end;
                    self.end.records_end = record_end;
                }
                None => return self.cut(),
            }
        }
    }

    fn read_header(&mut self, offset: u64) -> Result<Option<Header>> {
        let bytes = self.reader.peek(offset, GROUP_HEADER_BYTES)?;
        Ok(Header::decode(bytes, self.salt, Position { file: self.found.header.file, offset }))
    }

    fn accept_group(&mut self, group: &GroupHeader) -> Result<()> {
        let offset = group.at.offset;
        if group.sequence != self.end.last_sequence + 1 {
            let what = format!("group {} follows group {}", group.sequence, self.end.last_sequence);
            return Err(damaged(&self.found.path, offset, what));
        }
        if group.durable > group.at
            || (group.durable.file == group.at.file && group.durable.offset < self.end.stated_len)
        {
            let what = format!("a group states {:?} to be durable", group.durable);
            return Err(damaged(&self.found.path, offset, what));
        }
        if group.durable.file == group.at.file {
            self.end.stated_len = group.durable.offset;
        }
        self.end.last_sequence = group.sequence;
        self.end.good_len = offset + GROUP_HEADER_BYTES as u64;
        Ok(())
    }

    /// Reads the body that `frame` announces into `body`, and its commit record. Returns the record's end, or `None` if
    /// it is not whole.
    fn read_record(
        &mut self,
        offset: u64,
        in_group: bool,
        frame: &FrameHeader,
        body: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let out_of_order = |what: &str| Err(damaged(&self.found.path, offset, what));
        if !in_group {
            return out_of_order("a frame outside any group");
        }
        if frame.kind != FrameKind::Body {
            return out_of_order("a commit record without its body");
        }
        if frame.version != self.end.last_version.next() {
            return out_of_order(&format!("version {} follows version {}", frame.version, self.end.last_version));
        }
        let body_at = offset + FRAME_HEADER_BYTES as u64;
        let Some(commit_at) = body_at.checked_add(frame.body_len).filter(|&end| end <= self.found.len) else {
            return Ok(None);
        };
        self.reader.read(body_at, frame.body_len, body)?;
        if crc32c::crc32c(body) != frame.body_crc {
            return Ok(None);
        }
        match self.read_header(commit_at)? {
            Some(Header::Frame(commit)) if commit == (FrameHeader { kind: FrameKind::Commit, ..*frame }) => {
                Ok(Some(commit_at + FRAME_HEADER_BYTES as u64))
            }
            Some(_) => Err(damaged(&self.found.path, commit_at, "a body without its commit record")),
            None => Ok(None),
        }
    }

    /// The frame at `good_len` is bad: what a power loss left, or damage?
    fn cut(&mut self) -> Result<ScanEnd> {
        let at = Position { file: self.found.header.file, offset: self.end.good_len };
        if !self.is_newest {
            return Err(damaged(&self.found.path, at.offset, "a bad frame, and newer files exist"));
        }
        let groups = groups_behind(self.reader.file, &self.found.path, self.found.len, self.salt, at)?;
        let bytes = self.reader.data_end(at.offset)? - at.offset;
        self.end.torn = (bytes > 0).then_some(TornEnd { file: at.file, offset: at.offset, bytes, groups });
        Ok(self.end)
    }
}

/// How many group headers lie whole at or after `bad`. Fails if one states that more than `bad` is durable.
fn groups_behind(file: &dyn DiskFile, path: &Path, len: u64, salt: u64, bad: Position) -> Result<u64> {
    let mark = group_mark(salt);
    let mut reader = FileReader::new(file, path, len);
    let (mut offset, mut groups) = (bad.offset, 0);
    while offset + GROUP_HEADER_BYTES as u64 <= len {
        let window = reader.peek(offset, READ_BYTES)?;
        // A header that begins in the last bytes of the window lies whole in the next one.
        let starts = window.len() - GROUP_HEADER_BYTES + 1;
        for i in find_all(&window[..starts + GROUP_MARK_BYTES - 1], &mark) {
            let at = Position { file: bad.file, offset: offset + i as u64 };
            let Some(group) = GroupHeader::decode(&window[i..], salt, at) else { continue };
            if group.durable > bad {
                let what = format!("a bad frame, and the group at {} states that it was durable", at.offset);
                return Err(damaged(path, bad.offset, what));
            }
            groups += 1;
        }
        offset += starts as u64;
    }
    Ok(groups)
}

fn find_all(bytes: &[u8], mark: &[u8; GROUP_MARK_BYTES]) -> impl Iterator<Item = usize> {
    let first = mark[0];
    bytes
        .windows(mark.len())
        .enumerate()
        .filter(move |(_, window)| window[0] == first && window == mark)
        .map(|(i, _)| i)
}

/// Reads forward through a large buffer; what is larger than the buffer is read straight into its place.
struct FileReader<'a> {
    file: &'a dyn DiskFile,
    path: &'a Path,
    len: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl<'a> FileReader<'a> {
    fn new(file: &'a dyn DiskFile, path: &'a Path, len: u64) -> FileReader<'a> {
        FileReader { file, path, len, buffer: Vec::new(), buffer_at: 0 }
    }

    /// Up to `wanted` bytes from `offset`; fewer only at the end of the file.
    fn peek(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let wanted = wanted.min(usize::try_from(self.len - offset).unwrap_or(usize::MAX));
        let buffer_end = self.buffer_at + self.buffer.len() as u64;
        if offset < self.buffer_at || offset + wanted as u64 > buffer_end {
            let bytes = READ_BYTES.max(wanted).min(usize::try_from(self.len - offset).unwrap_or(usize::MAX));
            self.buffer.resize(bytes, 0);
            self.buffer_at = offset;
            self.file.read_exact_at(&mut self.buffer, offset).map_err(|e| Error::io(self.path, "reading", &e))?;
        }
        let start = (offset - self.buffer_at) as usize;
        Ok(&self.buffer[start..start + wanted])
    }

    /// Where the last byte from `offset` on ends that is not zero; `offset` if there is none.
    fn data_end(&mut self, mut offset: u64) -> Result<u64> {
        let mut end = offset;
        while offset < self.len {
            let window = self.peek(offset, READ_BYTES)?;
            if let Some(last) = window.iter().rposition(|&byte| byte != 0) {
                end = offset + last as u64 + 1;
            }
            offset += window.len() as u64;
        }
        Ok(end)
    }

    /// Fills `into` with exactly `len` bytes from `offset`, which lie within the file.
    fn read(&mut self, offset: u64, len: u64, into: &mut Vec<u8>) -> Result<()> {
        let len = usize::try_from(len).map_err(|_| damaged(self.path, offset, "a body larger than memory"))?;
        into.clear();
        if len <= READ_BYTES {
            into.extend_from_slice(self.peek(offset, len)?);
            return Ok(());
        }
        into.resize(len, 0);
        self.file.read_exact_at(into, offset).map_err(|e| Error::io(self.path, "reading", &e))
    }
}

/// The version before the first record that is there.
pub(crate) fn given_up(disk: &dyn Disk, dir: &Path, salt: u64) -> Result<Version> {
    let found = FoundFiles::look(disk, dir, salt)?;
    Ok(found.files.first().map_or(Version(0), |first| Version(first.header.first_version.0.saturating_sub(1))))
}

/// Reads a whole log without changing it, and hands out every record after `after`.
pub(crate) fn check(
    disk: &dyn Disk,
    dir: &Path,
    salt: u64,
    after: Version,
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<LogSummary> {
    let found = FoundFiles::find(disk, dir, salt, after)?;
    let first_version = found.files.first().map_or(Version(1), |first| first.header.first_version);
    let (mut scanned, mut at) = (None, None);
    if let Some(newest) = found.files.last() {
        let before_first = Version(first_version.0.saturating_sub(1));
        let end = scan(disk, &found.files, salt, before_first, &mut |record| match record.version > after {
            true => replay(record),
            false => Ok(()),
        })?;
        scanned = Some(end);
        at = Some(Position { file: newest.header.file, offset: end.good_len });
        if end.last_version < after {
            let what = format!("the log ends at version {}, the database at version {after}", end.last_version);
            return Err(damaged(&newest.path, end.good_len, what));
        }
    }
    let last_version = scanned.map_or(Version(0), |end| end.last_version);
    let mark = found_mark(disk, dir, salt, last_version, at)?;
    Ok(LogSummary {
        files: found.files.len() as u64,
        bytes: found.files.iter().map(|file| file.len).sum(),
        first_version,
        last_version,
        end: LogEnd::new(scanned.as_ref(), &mark),
        damaged_mark: mark.err(),
    })
}

/// A mark, and whether it is of the log's end; or what is wrong with it: that is for the caller to tell, and keeps no log from opening.
pub(crate) type FoundMark = Result<(Option<EndMark>, bool)>;

/// The mark of a log that ends at `version`, at `end` or without any file. Refuses a log that ends before its mark.
pub(crate) fn found_mark(
    disk: &dyn Disk,
    dir: &Path,
    salt: u64,
    version: Version,
    end: Option<Position>,
) -> Result<FoundMark> {
    let mark = match EndMark::load(disk, dir, salt) {
        Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(Err(error)),
        mark => mark?,
    };
    let Some(mark) = mark else { return Ok(Ok((None, false))) };
    mark.check(dir, version, end)?;
    Ok(mark.is_of_end(dir, version).map(|is_of_end| (Some(mark), is_of_end)))
}
