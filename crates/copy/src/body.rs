//! How much input may unpack to: bodies of clients, files and URLs.
//!
//! Invariant: a small body that unpacks to a large one is refused at the bound of bodies, a small file at that of files. Of Parquet and
//! Arrow, which are packed inside, too, the rows in memory are bounded besides.

use alluvia_types::{Error, ErrorKind, Result};
use std::io::{self, Read};

/// What hints tell whoever sends rows to do, in the words of the way they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hints {
    /// How the columns that the fields go to are listed.
    pub columns: &'static str,
    /// What is to be done about a bad row, for which nothing was loaded.
    pub bad_row: &'static str,
}

/// Those of COPY.
impl Default for Hints {
    fn default() -> Self {
        Hints {
            columns: "COPY table (a, b, ...) FROM ...",
            bad_row: "nothing was loaded; correct the file, or load the other rows with ON_ERROR skip",
        }
    }
}

/// What a load knows of its standard input.
#[derive(Clone, Debug)]
pub struct BodyOptions {
    /// What messages call it.
    pub name: String,
    /// The most that it may unpack to; `None` for no bound.
    pub bytes_max: Option<u64>,
    /// Whether it is kept in a file where it has to be read from its end; otherwise formats that are read so are refused.
    pub is_kept: bool,
    /// JSON comes as one array of objects rather than an object a line.
    pub is_array: bool,
    /// What hints say.
    pub hints: Hints,
}

impl Default for BodyOptions {
    fn default() -> Self {
        BodyOptions {
            name: "standard input".to_owned(),
            bytes_max: None,
            is_kept: false,
            is_array: false,
            hints: Hints::default(),
        }
    }
}

impl BodyOptions {
    /// Its bound.
    pub fn bound(&self) -> Bound {
        self.bytes_max.map_or(Bound::None, Bound::Body)
    }
}

/// The most that some input may unpack to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    /// Whatever it is.
    None,
    /// Of a body, also of one that is not packed.
    Body(u64),
    /// Of a file or a URL of this name, if it is packed.
    File(String, u64),
}

impl Bound {
    fn bytes_max(&self, is_packed: bool) -> Option<u64> {
        match self {
            Bound::Body(bytes_max) => Some(*bytes_max),
            Bound::File(_, bytes_max) if is_packed => Some(*bytes_max),
            Bound::None | Bound::File(..) => None,
        }
    }

    /// The reader of what is unpacked, or never was packed, with its bound.
    pub fn on(&self, inner: Box<dyn Read + Send>, is_packed: bool) -> Box<dyn Read + Send> {
        match self.bytes_max(is_packed) {
            None => inner,
            Some(left) => Box::new(Bounded { inner, left, bound: self.clone() }),
        }
    }

    /// Refuses rows of more bytes, which come of a format that is packed inside.
    pub(crate) fn check_rows(&self, bytes: u64) -> Result<()> {
        match self.bytes_max(true) {
            Some(bytes_max) if bytes > bytes_max => Err(self.exceeded()),
            _ => Ok(()),
        }
    }

    fn exceeded(&self) -> Error {
        let bytes_max = self.bytes_max(true).unwrap_or(u64::MAX);
        let (what, hint) = match self {
            Bound::File(name, _) => (
                name.as_str(),
                "load it in parts, or raise the server's limit (copy_unpacked_bytes_max; copy_url_bytes_max is that of a URL's file as it comes)",
            ),
            _ => ("the body", "send it in parts, or raise the server's limit (body_bytes_max)"),
        };
        Error::new(ErrorKind::TooLarge, format!("{what} unpacks to more than {bytes_max} bytes")).with_hint(hint)
    }
}

/// A reader that fails past its bound.
struct Bounded {
    pub inner: Box<dyn Read + Send>,
    left: u64,
    bound: Bound,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other(self.bound.exceeded()))?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_ends_at_its_bound() {
        let read = |bound: &Bound, is_packed: bool| {
            let mut all = Vec::new();
            let read = bound.on(Box::new(io::Cursor::new(vec![7; 100])), is_packed).read_to_end(&mut all);
            read.map(|_| all.len()).map_err(|error| Error::io("x", "reading", &error))
        };
        let of_body = |bytes_max| BodyOptions { bytes_max: Some(bytes_max), ..BodyOptions::default() }.bound();
        let of_file = |bytes_max| Bound::File("a.csv.gz".to_owned(), bytes_max);
        for is_packed in [false, true] {
            assert_eq!(read(&BodyOptions::default().bound(), is_packed).unwrap(), 100);
            assert_eq!((read(&of_body(100), is_packed).unwrap(), read(&of_file(100), is_packed).unwrap()), (100, 100));
            let error = read(&of_body(99), is_packed).unwrap_err();
            assert!(error.kind() == ErrorKind::TooLarge && error.message().starts_with("the body unpacks"), "{error}");
        }
        assert_eq!(read(&of_file(99), false).unwrap(), 100, "a file that is not packed is as long as it is");
        let error = read(&of_file(99), true).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::TooLarge, "a.csv.gz unpacks to more than 99 bytes"));
        let hint = error.hint().unwrap();
        assert!(hint.contains("copy_unpacked_bytes_max") && hint.contains("copy_url_bytes_max"), "{hint}");
    }

    #[test]
    fn rows_are_held_to_the_bound_of_what_is_packed() {
        for bound in [Bound::Body(100), Bound::File("a.parquet".to_owned(), 100)] {
            assert!(bound.check_rows(100).is_ok() && Bound::None.check_rows(u64::MAX).is_ok());
            assert_eq!(bound.check_rows(101).unwrap_err().kind(), ErrorKind::TooLarge);
        }
    }
}
