//! A stream whose beginning is looked at before it is read: standard input, or a pipe, from which a table is inferred.
//!
//! Invariants:
//! - Every look begins at the first byte: what one has read is there for the next, and for the reader in the end.
//! - The reader gives every byte once, in order. Nothing is kept but what looks have read.

use crate::body::{BodyOptions, Bound};
use crate::files::{InputFile, open_unpacked, resolve};
use crate::infer::{Inferred, infer_from};
use crate::progress::Progress;
use crate::roots::Roots;
use alluvia_syntax::copy::options::{CopyOptions, Direction, Format, Header};
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{Error, Result};
use parking_lot::Mutex;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;

/// A stream that can be looked at.
pub struct Peeked {
    state: Arc<Mutex<State>>,
}

struct State {
    taken: Vec<u8>,
    inner: Box<dyn Read + Send>,
}

impl Peeked {
    /// Nothing is read yet.
    pub fn new(inner: Box<dyn Read + Send>) -> Peeked {
        Peeked { state: Arc::new(Mutex::new(State { taken: Vec::new(), inner })) }
    }

    /// The stream from its first byte, to be read in part.
    pub fn look(&self) -> Look {
        Look { state: Arc::clone(&self.state), at: 0 }
    }

    /// The stream from its first byte, to be read whole. Looks that are still there see no more of it.
    pub(crate) fn into_reader(self) -> Box<dyn Read + Send> {
        let mut state = self.state.lock();
        let (taken, inner) =
            (std::mem::take(&mut state.taken), std::mem::replace(&mut state.inner, Box::new(io::empty())));
        Box::new(Cursor::new(taken).chain(inner))
    }
}

/// See [`Peeked::look`].
pub struct Look {
    state: Arc<Mutex<State>>,
    at: usize,
}

impl Read for Look {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let State { taken, inner } = &mut *self.state.lock();
        if self.at >= taken.len() {
            let count = inner.read(buffer)?;
            taken.extend_from_slice(&buffer[..count]);
        }
        let count = taken.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

/// Where a sample is taken from.
pub enum Sampled<'a> {
    /// A file.
    File(&'a InputFile),
    /// A stream, and what messages call it.
    Stream(&'a Peeked, &'a str),
}

impl Sampled<'_> {
    /// As messages call it.
    pub fn name(&self) -> String {
        match self {
            Sampled::File(file) => file.name(),
            Sampled::Stream(_, name) => (*name).to_owned(),
        }
    }

    /// Whether what is read of it is there for the next reader.
    pub fn is_plain(&self) -> bool {
        match self {
            Sampled::File(file) => file.is_plain,
            Sampled::Stream(..) => true,
        }
    }

    /// The name from which a format may be told.
    pub fn file_name(&self) -> Option<String> {
        match self {
            Sampled::File(file) => Some(file.name()),
            Sampled::Stream(..) => None,
        }
    }

    /// Its bytes, from the first.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self {
            Sampled::File(file) => Box::new(file.open()?),
            Sampled::Stream(stream, _) => Box::new(stream.look()),
        })
    }
}

/// The path of a source that is one pipe or device, whose bytes come once: to be opened once, looked at with [`infer_stream`], and loaded
/// as standard input is. What cannot be found is left to whoever reads it.
pub fn pipe_of(source: &Source) -> Option<PathBuf> {
    let files = resolve(source, &Roots::Anywhere).ok()?;
    match files.as_slice() {
        [only] if !only.is_plain && source.urls().next().is_none() => Some(only.path.clone()),
        _ => None,
    }
}

/// Looks at the beginning of standard input, as much of it as is looked at of a file: blocks until that has come, or all. Gives what was
/// found, and the input from its first byte, to be loaded by the COPY that goes with it. Where no format is stated, the first bytes
/// tell it.
pub fn infer_stream(input: Box<dyn Read + Send>, options: &CopyOptions) -> (Result<Inferred>, Box<dyn Read + Send>) {
    let peeked = Peeked::new(input);
    let inferred = infer_peeked(&Sampled::Stream(&peeked, &BodyOptions::default().name), options);
    (inferred, peeked.into_reader())
}

fn infer_peeked(sample: &Sampled<'_>, options: &CopyOptions) -> Result<Inferred> {
    let format = match options.format {
        Some(format) => format,
        None => told_format(sample, options)?,
    };
    let options = CopyOptions { format: Some(format), ..options.clone() };
    options.check(Direction::From, None)?;
    infer_from(std::slice::from_ref(sample), format, &options)
}

/// The format that a stream begins like. Lines of JSON begin with a line that is an object, if no option says that they are of CSV; what
/// begins with an array of objects is taken for them, and refused as such.
fn told_format(sample: &Sampled<'_>, options: &CopyOptions) -> Result<Format> {
    const START_BYTES: u64 = 64 << 10;
    let name = sample.name();
    let mut start = Vec::new();
    let silent = Arc::new(Progress::default());
    let bytes = open_unpacked(sample.open()?, &name, options.compression, &silent, &Bound::None)?;
    bytes.take(START_BYTES).read_to_end(&mut start).map_err(|error| Error::io(&name, "reading", &error))?;
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start).trim_ascii_start();
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_cut = line.len() == text.len() && start.len() as u64 == START_BYTES;
    let is_object = line.starts_with(b"{") && (is_cut || line.trim_ascii_end().ends_with(b"}"));
    let is_array = line.trim_ascii_end() == b"[" || line.starts_with(b"[{");
    let of_csv = options.delimiter.or(options.quote).or(options.escape).is_some()
        || options.header != Header::Auto
        || options.null.is_some();
    Ok(match start.as_slice() {
        [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => Format::Arrow,
        _ if (is_object || is_array) && !of_csv => Format::JsonLines,
        _ => Format::Csv,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::{SAMPLE_BYTES, infer};
    use alluvia_types::ErrorKind;
    use std::io::Write;

    /// Gives its bytes in pieces of at most seven.
    struct Dripping(Cursor<Vec<u8>>);

    impl Read for Dripping {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(7);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn looks_begin_at_the_first_byte_and_take_nothing_from_the_reader() {
        let bytes: Vec<u8> = (0..1_000u32).map(|at| (at % 251) as u8).collect();
        let peeked = Peeked::new(Box::new(Dripping(Cursor::new(bytes.clone()))));
        for length in [0, 3, 500, 20, 501, 1_000, 2_000] {
            let mut seen = Vec::new();
            peeked.look().take(length).read_to_end(&mut seen).unwrap();
            assert_eq!(seen, bytes[..bytes.len().min(length as usize)]);
            assert!(peeked.state.lock().taken.len() <= 1_000);
        }
        let mut late = peeked.look();
        let mut all = Vec::new();
        peeked.into_reader().read_to_end(&mut all).unwrap();
        assert_eq!(all, bytes);
        assert_eq!(late.read(&mut [0; 9]).unwrap(), 0);
    }

    #[test]
    fn a_stream_is_looked_at_as_a_file_is_and_then_read_whole() {
        use arrow::array::{ArrayRef, Int64Array, RecordBatch};
        use flate2::{Compression as Level, write::GzEncoder};
        let batch = RecordBatch::try_from_iter([("A", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
        let mut arrow = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        arrow.write(&batch).unwrap();
        let large = "Value;other\n".to_owned() + &"17;a text\n".repeat(SAMPLE_BYTES / 4);
        let default = CopyOptions::default();
        for (name, format, bytes) in [
            ("f.csv", Format::Csv, b"a;b\n1;\"x,y\"\n".to_vec()),
            ("f.csv", Format::Csv, large.into_bytes()),
            ("f.ndjson", Format::JsonLines, b"\n {\"Id\": 1}\n{\"Id\": 2.5, \"at\": \"2026-11-21\"}\n".to_vec()),
            ("f.arrow", Format::Arrow, arrow.into_inner().unwrap()),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            #[allow(clippy::disallowed_methods)] // a user's file
            std::fs::write(&path, &bytes).unwrap();
            let expected = infer(&Source::Files(path.display().to_string()), &default).unwrap();
            let mut gzip = GzEncoder::new(Vec::new(), Level::fast());
            gzip.write_all(&bytes).unwrap();
            for bytes in [bytes, gzip.finish().unwrap()] {
                let (found, mut rest) = infer_stream(Box::new(Cursor::new(bytes.clone())), &default);
                let found = found.unwrap();
                assert_eq!(found.columns, expected.columns, "{name}");
                // No name states the format to the COPY that follows.
                assert_eq!(found.options, CopyOptions { format: Some(format), ..expected.options.clone() }, "{name}");
                let mut read = Vec::new();
                rest.read_to_end(&mut read).unwrap();
                assert!(read == bytes, "{name}: nothing is lost or twice");
            }
        }
        let of = |text: &'static str, options: &CopyOptions| infer_stream(Box::new(text.as_bytes()), options).0;
        assert_eq!(of("PAR1...", &default).unwrap_err().kind(), ErrorKind::NotSupported);
        assert_eq!(of("", &default).unwrap_err().kind(), ErrorKind::InvalidValue);
        let stated = CopyOptions { delimiter: Some(b','), ..CopyOptions::default() };
        assert_eq!(of("{\"a\":1},5\n", &stated).unwrap().columns.len(), 2, "an option of CSV says that it is");
    }
}
