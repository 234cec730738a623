//! The users' own files, and what else is read: found, opened, unpacked.
//!
//! Invariants:
//! - With `roots`, `output_file` and `body` this is all of `query` that touches files directly; the database's own files go through `Disk`.
//! - Files of a pattern come in the order of their names, so that a load that is repeated sees the same rows in the same order.
//! - Where files may be is `roots`' to say: whatever is opened for a statement was located by it.
#![allow(clippy::disallowed_methods)] // the reason of this module

use crate::body::Bound;
use crate::progress::{CancelToken, Progress};
use crate::roots::{Location, Roots};
use alluvia_syntax::copy::options::Compression;
use alluvia_syntax::copy::places::{is_pattern, is_url};
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, UNIX_EPOCH};

/// A file to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFile {
    /// As it was named.
    pub path: PathBuf,
    /// Where that leads.
    pub location: Location,
    pub bytes: u64,
    /// Microseconds since 1970; part of the identity that makes a load resumable.
    pub(crate) modified_micros: i64,
    /// Whether it can be read again: a pipe or a device gives its bytes once, to whoever opened it first.
    pub is_plain: bool,
}

impl InputFile {
    /// As messages call it.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Opens it for random access.
    pub fn open(&self) -> Result<File> {
        self.location.open().map_err(|error| Error::io(&self.path, "opening", &error))
    }
}

/// The files of a source, in the order of their names; at least one for each pattern. Standard input has none, nor have URLs.
pub fn resolve(source: &Source, roots: &Roots) -> Result<Vec<InputFile>> {
    let mut paths = Vec::new();
    for pattern in source.patterns().iter().filter(|pattern| !is_url(pattern)) {
        paths.extend(matching(pattern, roots)?);
    }
    // Listed files come as from one pattern that matches them all: who expanded it makes no other load.
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| describe(path, roots)).collect()
}

/// The files of one pattern; at least one.
fn matching(pattern: &str, roots: &Roots) -> Result<Vec<PathBuf>> {
    if Path::new(pattern).exists() || !is_pattern(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    roots.check_pattern(pattern)?;
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

fn describe(path: PathBuf, roots: &Roots) -> Result<InputFile> {
    let location = roots.locate(&path, "opening")?;
    let metadata = location.metadata().map_err(|error| Error::io(&path, "opening", &error))?;
    if metadata.is_dir() {
        return Err(Error::new(ErrorKind::Io, format!("{} is a directory", path.display()))
            .with_hint(format!("for the files in it: '{}'", path.join("*").display())));
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let (bytes, is_plain) = (metadata.len(), metadata.is_file());
    Ok(InputFile { bytes, modified_micros: modified.as_micros() as i64, is_plain, path, location })
}

/// Opens a file or standard input as bytes, unpacked within a bound, and counts what is consumed of the packed file.
pub(crate) fn open_unpacked(
    raw: impl Read + Send + 'static,
    name: &str,
    compression: Compression,
    progress: &Arc<Progress>,
    bound: &Bound,
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
        Compression::Auto | Compression::None => bound.on(Box::new(whole), false),
        Compression::Gzip => {
            let inner = flate2::read::MultiGzDecoder::new(whole);
            bound.on(Box::new(Unpacked { inner, name: name.to_owned(), packing: "gzip" }), true)
        }
        Compression::Zstd => {
            let inner = zstd::stream::read::Decoder::new(whole).map_err(failed)?;
            bound.on(Box::new(Unpacked { inner, name: name.to_owned(), packing: "zstd" }), true)
        }
    })
}

/// As [`open_unpacked`], for text: a UTF-8 byte order mark is dropped; UTF-16, Parquet and Arrow are refused by name.
pub(crate) fn open_text(
    raw: impl Read + Send + 'static,
    name: &str,
    compression: Compression,
    progress: &Arc<Progress>,
    bound: &Bound,
) -> Result<Box<dyn Read + Send>> {
    let mut text = open_unpacked(raw, name, compression, progress, bound)?;
    let mut start = Vec::with_capacity(8);
    (&mut text).take(8).read_to_end(&mut start).map_err(|error| Error::io(name, "reading", &error))?;
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = start.as_slice() {
        return Err(Error::new(ErrorKind::InvalidValue, format!("{name} is UTF-16, and only UTF-8 text is read"))
            .with_hint(format!("convert it: iconv -f UTF-16 -t UTF-8 {name}")));
    }
    if let Some(format) = columnar(&start) {
        let message = format!("{name} is {format}, and was to be read as text");
        let hint = format!("say FORMAT {}, or give the file a name that says so", format.to_ascii_lowercase());
        return Err(Error::new(ErrorKind::InvalidValue, message).with_hint(hint));
    }
    if start.starts_with(b"\xef\xbb\xbf") {
        start.drain(..3);
    }
    Ok(Box::new(Cursor::new(start).chain(text)))
}

/// The format without text of which these are the first bytes: a mark, and what no text has after it.
fn columnar(start: &[u8]) -> Option<&'static str> {
    match start {
        [b'P', b'A', b'R', b'1', 1..=8 | 14..=31, ..] => Some("Parquet"),
        [b'A', b'R', b'R', b'O', b'W', b'1', 0, 0] | [0xff, 0xff, 0xff, 0xff, _, _, 0, 0] => Some("Arrow"),
        _ => None,
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
    pub fn new(mut inner: Box<dyn Read + Send>, cancel: CancelToken) -> Cancellable {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

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
        let text = open_text(Cursor::new(bytes), "x", compression, &progress, &Bound::None);
        text.map_err(io::Error::other)?.read_to_end(&mut out)?;
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
        for (start, format) in [
            (&b"PAR1\x15\x04\x15\x20"[..], "x is Parquet,"),
            (&b"ARROW1\0\0\xff"[..], "x is Arrow,"),
            (&b"\xff\xff\xff\xff\x80\x01\0\0\x10"[..], "x is Arrow,"),
        ] {
            for packing in [Compression::None, Compression::Gzip] {
                let error = read_all(packed(start, packing), Compression::Auto).unwrap_err().to_string();
                assert!(error.contains(format), "{error}");
            }
        }
        for text in [&b"PAR1\tPAR2\n"[..], b"PAR1,2\n", b"PAR1", b"ARROW1,ARROW2\n"] {
            assert_eq!(read_all(text.to_vec(), Compression::Auto).unwrap(), text);
        }
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
            let files = resolve(source, &Roots::Anywhere).unwrap();
            files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&at("*.csv")), ["a10.csv", "a2.csv", "b.csv", "odd[1].csv"]);
        assert_eq!(names(&at("odd[1].csv")), ["odd[1].csv"], "a file of exactly that name comes first");
        let listed = |patterns: &[&str]| {
            names(&Source::Several(patterns.iter().map(|name| dir.path().join(name).display().to_string()).collect()))
        };
        assert_eq!(listed(&["b.csv", "x.txt", "a*.csv", "a2.csv"]), ["a10.csv", "a2.csv", "b.csv", "x.txt"]);
        assert_eq!(resolve(&at("*.parquet"), &Roots::Anywhere).unwrap_err().kind(), ErrorKind::Io);
        assert!(resolve(&at("sub.csv"), &Roots::Anywhere).unwrap_err().hint().unwrap().contains("sub.csv/*"));
        assert!(resolve(&at("missing.csv"), &Roots::Anywhere).unwrap_err().message().contains("missing.csv"));
        let inside = Roots::Below(vec![dir.path().join("sub.csv")]);
        for outside in ["b.csv", "*.csv", "sub.csv/../b.csv", "sub.csv/../*.csv", "missing.csv", "odd[1].csv"] {
            assert_eq!(resolve(&at(outside), &inside).unwrap_err().kind(), ErrorKind::Forbidden, "{outside}");
        }
        assert!(resolve(&at("b.csv"), &Roots::Below(vec![dir.path().to_owned()])).is_ok());
    }

    #[test]
    fn each_match_of_a_pattern_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("in/sub")).unwrap();
        fs::create_dir_all(at("out")).unwrap();
        for name in ["in/a.csv", "in/sub/b.csv", "out/c.csv"] {
            fs::write(at(name), name).unwrap();
        }
        let roots = Roots::Below(vec![at("in")]);
        let resolved = |pattern: &str| resolve(&Source::Files(at(pattern).display().to_string()), &roots);
        assert_eq!(resolved("in/**/*.csv").unwrap().len(), 2);
        assert_eq!(resolved("in/none*").unwrap_err().kind(), ErrorKind::Io);
        std::os::unix::fs::symlink(at("out"), at("in/link")).unwrap();
        assert_eq!(resolved("in/*/*.csv").unwrap_err().kind(), ErrorKind::Forbidden, "one of them is a link's");
        std::os::unix::fs::symlink(at("out/c.csv"), at("in/c.csv")).unwrap();
        assert_eq!(resolved("in/?.csv").unwrap_err().kind(), ErrorKind::Forbidden);
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
