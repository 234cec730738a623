//! The users' own files: found, opened, unpacked, written.
//!
//! Invariants:
//! - This is the only module of `query` that touches files directly; the database's own files go through `Disk`.
//! - Files of a pattern come in the order of their names, so that a load that is repeated sees the same rows in the same order.
//! - A file that is written appears under its name when it is complete and synced, or not at all. Syncing and naming are two
//!   steps, so that what must be safe first can be made safe in between.
//! - With roots, nothing outside them is opened, whatever links and `..` say.
#![allow(clippy::disallowed_methods)] // the reason of this module

use crate::copy::options::Compression;
use crate::copy::statement::Source;
use crate::session::progress::{CancelToken, Progress};
use alluvia_types::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, UNIX_EPOCH};

/// Directories that COPY may use; `None` means any.
pub(crate) type Roots = Option<Vec<PathBuf>>;

/// A file to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Microseconds since 1970; part of the identity that makes a load resumable.
    pub(crate) modified_micros: i64,
}

impl InputFile {
    /// As messages call it.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Opens it for random access.
    pub(crate) fn open(&self) -> Result<File> {
        File::open(&self.path).map_err(|error| Error::io(&self.path, "opening", &error))
    }
}

/// The files of a source, in the order of their names; at least one. Standard input has none.
pub(crate) fn resolve(source: &Source, roots: &Roots) -> Result<Vec<InputFile>> {
    let mut paths = Vec::new();
    for pattern in source.patterns() {
        paths.extend(matching(pattern)?);
    }
    // Listed files come as from one pattern that matches them all: who expanded it makes no other load.
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| describe(path, roots)).collect()
}

/// The files of one pattern; at least one.
fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    if Path::new(pattern).exists() || !is_pattern(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let bad = |error| Error::new(ErrorKind::InvalidValue, format!("{pattern} is not a file pattern: {error}"));
    let mut paths = Vec::new();
    for path in glob::glob(pattern).map_err(bad)? {
        let path = path.map_err(|error| Error::io(error.path(), "listing", error.error()))?;
        if !path.is_dir() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Error::new(ErrorKind::Io, format!("no file matches {pattern}")).with_hint(
            "patterns take *, ?, [...] and **; a relative one starts at the directory of the process that runs the statement",
        ));
    }
    Ok(paths)
}

/// Whether a path may stand for several files.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

fn describe(path: PathBuf, roots: &Roots) -> Result<InputFile> {
    let failed = |error: io::Error| Error::io(&path, "opening", &error);
    check_roots(&fs::canonicalize(&path).map_err(failed)?, &path, roots)?;
    let metadata = fs::metadata(&path).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::new(ErrorKind::Io, format!("{} is a directory", path.display()))
            .with_hint(format!("for the files in it: '{}'", path.join("*").display())));
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(InputFile { bytes: metadata.len(), modified_micros: modified.as_micros() as i64, path })
}

fn check_roots(real: &Path, asked: &Path, roots: &Roots) -> Result<()> {
    let Some(roots) = roots else { return Ok(()) };
    let inside = |root: &PathBuf| fs::canonicalize(root).is_ok_and(|root| real.starts_with(root));
    if roots.iter().any(inside) {
        return Ok(());
    }
    let allowed: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    Err(Error::new(ErrorKind::Io, format!("{} is outside the directories that COPY may use", asked.display()))
        .with_hint(format!("they are: {}", allowed.join(", "))))
}

/// Opens a file or standard input as bytes, unpacked, and counts what is consumed of the packed file.
pub(crate) fn open_unpacked(
    raw: impl Read + Send + 'static,
    name: &str,
    compression: Compression,
    progress: &Arc<Progress>,
) -> Result<Box<dyn Read + Send>> {
    let failed = |error: io::Error| Error::io(name, "reading", &error);
    let mut raw = Counted { inner: raw, progress: progress.clone() };
    let mut start = Vec::with_capacity(4);
    (&mut raw).take(4).read_to_end(&mut start).map_err(failed)?;
    let packing = match (compression, start.as_slice()) {
        (Compression::Auto, [0x1f, 0x8b, ..]) => Compression::Gzip,
        (Compression::Auto, [0x28, 0xb5, 0x2f, 0xfd]) => Compression::Zstd,
        (Compression::Auto, _) => Compression::None,
        (stated, _) => stated,
    };
    let whole = Cursor::new(start).chain(raw);
    Ok(match packing {
        Compression::Auto | Compression::None => Box::new(whole),
        Compression::Gzip => {
            let inner = flate2::read::MultiGzDecoder::new(whole);
            Box::new(Unpacked { inner, name: name.to_owned(), packing: "gzip" })
        }
        Compression::Zstd => {
            let inner = zstd::stream::read::Decoder::new(whole).map_err(failed)?;
            Box::new(Unpacked { inner, name: name.to_owned(), packing: "zstd" })
        }
    })
}

/// As [`open_unpacked`], for text: a UTF-8 byte order mark is dropped, UTF-16 is refused by name.
pub(crate) fn open_text(
    raw: impl Read + Send + 'static,
    name: &str,
    compression: Compression,
    progress: &Arc<Progress>,
) -> Result<Box<dyn Read + Send>> {
    let mut text = open_unpacked(raw, name, compression, progress)?;
    let mut start = Vec::with_capacity(3);
    (&mut text).take(3).read_to_end(&mut start).map_err(|error| Error::io(name, "reading", &error))?;
    match start.as_slice() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Err(Error::new(ErrorKind::InvalidValue, format!("{name} is UTF-16, and only UTF-8 text is read"))
                .with_hint(format!("convert it: iconv -f UTF-16 -t UTF-8 {name}")))
        }
        [0xef, 0xbb, 0xbf] => Ok(text),
        _ => Ok(Box::new(Cursor::new(start).chain(text))),
    }
}

/// Tells damaged packed bytes from a failing disk: the former are the user's to mend.
struct Unpacked<R> {
    inner: R,
    name: String,
    packing: &'static str,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let is_own = error.get_ref().is_some_and(|inner| inner.is::<Error>());
            if is_own || error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            let message = format!("{} cannot be unpacked as {}: {error}", self.name, self.packing);
            io::Error::other(Error::new(ErrorKind::InvalidValue, message).with_hint("is it complete, and packed so?"))
        })
    }
}

/// Counts bytes into the statement's progress.
struct Counted<R> {
    inner: R,
    progress: Arc<Progress>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.add_bytes(count as u64);
        Ok(count)
    }
}

/// A reader whose `read` ends soon after the statement is cancelled, even while the one behind it waits for a terminal or a
/// peer. The thread that waits ends with its next byte.
pub(crate) struct Cancellable {
    chunks: Receiver<io::Result<Vec<u8>>>,
    current: Cursor<Vec<u8>>,
    cancel: CancelToken,
}

impl Cancellable {
    /// Starts reading ahead of use, by at most a few chunks.
    pub(crate) fn new(mut inner: Box<dyn Read + Send>, cancel: CancelToken) -> Cancellable {
        const CHUNK_BYTES: usize = 256 * 1024;
        let (send, chunks) = sync_channel(4);
        std::thread::spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = inner.read(&mut chunk);
                let (last, message) = match read {
                    Ok(count) => {
                        chunk.truncate(count);
                        (count == 0, Ok(chunk))
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => (true, Err(error)),
                };
                if send.send(message).is_err() || last {
                    return;
                }
            }
        });
        Cancellable { chunks, current: Cursor::default(), cancel }
    }
}

impl Read for Cancellable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.chunks.recv_timeout(Duration::from_millis(50)) {
                Ok(chunk) => {
                    let chunk = chunk?;
                    if chunk.is_empty() {
                        return Ok(0);
                    }
                    self.current = Cursor::new(chunk);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    return Err(io::Error::other("the statement was cancelled"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// A file being written. Dropped before `finish`, it leaves nothing.
#[derive(Debug)]
pub(crate) struct OutputFile {
    writer: Option<BufWriter<File>>,
    path: PathBuf,
    /// Where the bytes go until the file is complete; `None` for a device or a pipe, which is written directly.
    partial: Option<PathBuf>,
}

impl OutputFile {
    /// Starts a file that will appear as `path`.
    pub(crate) fn create(path: &Path, roots: &Roots) -> Result<OutputFile> {
        let failed = |error: io::Error| Error::io(path, "creating", &error);
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        check_roots(&fs::canonicalize(parent).map_err(failed)?, path, roots)?;
        let existing = fs::metadata(path).ok();
        if existing.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(Error::new(ErrorKind::Io, format!("{} is a directory", path.display())));
        }
        let device = existing.is_some_and(|metadata| !metadata.is_file());
        let Some(name) = path.file_name() else {
            return Err(Error::new(ErrorKind::Io, format!("{} does not name a file", path.display())));
        };
        let partial = path.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()));
        let (file, partial) = if device {
            (File::options().write(true).open(path), None)
        } else {
            (File::create(&partial), Some(partial))
        };
        let writer = BufWriter::with_capacity(256 * 1024, file.map_err(failed)?);
        Ok(OutputFile { writer: Some(writer), path: path.to_owned(), partial })
    }

    /// Syncs the bytes and gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        self.sync()?.publish()
    }

    /// Syncs the bytes. The file has no name yet.
    pub(crate) fn sync(mut self) -> Result<SyncedFile> {
        let failed = |error: io::Error| Error::io(&self.path, "writing", &error);
        let writer = self.writer.take().expect("synced once");
        let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        if self.partial.is_some() {
            file.sync_all().map_err(failed)?;
        }
        Ok(SyncedFile { path: std::mem::take(&mut self.path), partial: self.partial.take() })
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().expect("not finished").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().expect("not finished").flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = fs::remove_file(partial);
        }
    }
}

/// A file whose bytes are on disk, and which has yet to get its name. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub(crate) struct SyncedFile {
    path: PathBuf,
    /// As [`OutputFile::partial`].
    partial: Option<PathBuf>,
}

impl SyncedFile {
    /// Gives the file its name.
    pub(crate) fn publish(mut self) -> Result<()> {
        self.rename()
    }

    /// Gives the file its name, and keeps it where it is if it cannot have it; says where it is.
    pub(crate) fn publish_or_keep(mut self) -> PathBuf {
        match self.rename() {
            Ok(()) => std::mem::take(&mut self.path),
            Err(_) => self.partial.take().unwrap_or_default(),
        }
    }

    fn rename(&mut self) -> Result<()> {
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.path).map_err(|error| Error::io(&self.path, "writing", &error))?;
            self.partial = None;
        }
        Ok(())
    }
}

impl Drop for SyncedFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8], compression: Compression) -> Vec<u8> {
        match compression {
            Compression::Gzip => {
                let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                out.write_all(bytes).unwrap();
                out.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(bytes, 1).unwrap(),
            _ => bytes.to_vec(),
        }
    }

    fn read_all(bytes: Vec<u8>, compression: Compression) -> io::Result<Vec<u8>> {
        let progress = Arc::new(Progress::default());
        let length = bytes.len() as u64;
        let mut out = Vec::new();
        open_text(Cursor::new(bytes), "x", compression, &progress).map_err(io::Error::other)?.read_to_end(&mut out)?;
        assert_eq!(progress.bytes_done(), length);
        Ok(out)
    }

    #[test]
    fn packing_is_recognised_by_first_bytes_or_taken_as_stated() {
        for packing in [Compression::None, Compression::Gzip, Compression::Zstd] {
            for text in ["", "a", "\u{feff}a,b\n", "hello world"] {
                let want = text.trim_start_matches('\u{feff}').as_bytes();
                let bytes = packed(text.as_bytes(), packing);
                assert_eq!(read_all(bytes.clone(), packing).unwrap(), want, "{packing:?} {text:?}");
                assert_eq!(read_all(bytes, Compression::Auto).unwrap(), want, "{packing:?} {text:?}");
            }
        }
        // Two members one after the other are one file.
        let twice = [packed(b"ab", Compression::Gzip), packed(b"cd", Compression::Gzip)].concat();
        assert_eq!(read_all(twice, Compression::Auto).unwrap(), b"abcd");
        let cut = packed(&[7; 100_000], Compression::Gzip);
        assert!(read_all(cut[..cut.len() - 9].to_vec(), Compression::Auto).is_err(), "a cut file is not a short file");
        assert!(read_all(b"not packed".to_vec(), Compression::Gzip).is_err());
        assert!(read_all(vec![0xff, 0xfe, b'a', 0], Compression::None).unwrap_err().to_string().contains("UTF-16"));
    }

    #[test]
    fn patterns_give_files_in_name_order_and_roots_hold() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a10.csv", "a2.csv", "x.txt", "odd[1].csv"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        fs::create_dir_all(dir.path().join("sub.csv")).unwrap();
        let at = |name: &str| Source::Files(dir.path().join(name).display().to_string());
        let names = |source: &Source| -> Vec<String> {
            let files = resolve(source, &None).unwrap();
            files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&at("*.csv")), ["a10.csv", "a2.csv", "b.csv", "odd[1].csv"]);
        assert_eq!(names(&at("odd[1].csv")), ["odd[1].csv"], "a file of exactly that name comes first");
        let listed = |patterns: &[&str]| {
            names(&Source::Several(patterns.iter().map(|name| dir.path().join(name).display().to_string()).collect()))
        };
        assert_eq!(listed(&["b.csv", "x.txt", "a*.csv", "a2.csv"]), ["a10.csv", "a2.csv", "b.csv", "x.txt"]);
        assert_eq!(resolve(&at("*.parquet"), &None).unwrap_err().kind(), ErrorKind::Io);
        assert!(resolve(&at("sub.csv"), &None).unwrap_err().hint().unwrap().contains("sub.csv/*"));
        assert!(resolve(&at("missing.csv"), &None).unwrap_err().message().contains("missing.csv"));
        let inside = Some(vec![dir.path().join("sub.csv")]);
        assert!(resolve(&at("b.csv"), &inside).is_err());
        assert!(resolve(&at("sub.csv/../b.csv"), &inside).is_err());
        assert!(resolve(&at("b.csv"), &Some(vec![dir.path().to_owned()])).is_ok());
        assert!(OutputFile::create(&dir.path().join("out.csv"), &inside).is_err());
    }

    #[test]
    fn an_output_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let count = || fs::read_dir(dir.path()).unwrap().count();
        let mut file = OutputFile::create(&path, &None).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(count(), 0);
        let mut file = OutputFile::create(&path, &None).unwrap();
        file.write_all(b"whole").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), count()), (b"whole".as_slice(), 1));
        assert!(OutputFile::create(dir.path(), &None).is_err());
        drop(OutputFile::create(&path, &None).unwrap().sync().unwrap());
        assert_eq!((fs::read(&path).unwrap().as_slice(), count()), (b"whole".as_slice(), 1));
    }

    #[test]
    fn a_synced_file_is_kept_when_its_name_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let synced = || {
            let mut file = OutputFile::create(&path, &None).unwrap();
            file.write_all(b"rows").unwrap();
            file.sync().unwrap()
        };
        let (refused, kept) = (synced(), synced());
        fs::create_dir_all(path.join("in the way")).unwrap();
        let place = kept.publish_or_keep();
        assert_eq!(fs::read(&place).unwrap(), b"rows");
        assert!(refused.publish().is_err() && !place.exists(), "both have the same hidden file");
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(synced().publish_or_keep(), path);
        assert_eq!(fs::read(&path).unwrap(), b"rows");
    }

    #[test]
    fn a_blocked_reader_ends_when_cancelled() {
        struct Never;
        impl Read for Never {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                loop {
                    std::thread::park();
                }
            }
        }
        let cancel = CancelToken::new();
        let mut reader = Cancellable::new(Box::new(Never), cancel.clone());
        cancel.cancel();
        assert!(reader.read(&mut [0; 8]).is_err());
        let mut all = Vec::new();
        Cancellable::new(Box::new(Cursor::new(vec![5; 1_000_000])), CancelToken::new()).read_to_end(&mut all).unwrap();
        assert_eq!(all, vec![5; 1_000_000]);
    }
}
