//! Output settings: the form in which answers are written, to standard output or to the file that `\o` names.
//!
//! Invariant: what is written goes to one place as long as an answer lasts; a file is emptied when it is named, and not with each answer.

use super::Format;
use crate::{Out, say};
use alluvia_types::{Error, Result};
use alluvia_values::time_zone::Zone;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terminal_size::{Width, terminal_size};

/// Rows that a table on a screen shows at first.
const ROWS_MAX: usize = 40;

/// How answers are written, and where to.
#[derive(Clone)]
pub struct OutputSettings {
    pub format: Format,
    /// Tables with a column a line, record by record.
    pub is_expanded: bool,
    /// What NULL is shown as in tables and CSV.
    pub null: String,
    /// In which tables and CSV show moments.
    pub time_zone: Zone,
    pub sink: Sink,
    /// Whether a person sees the answers as they come: tables are then as wide as the screen, and have no more rows than `rows_max`.
    pub is_screen: bool,
    /// Rows that a table on a screen shows; `None` is all.
    pub rows_max: Option<usize>,
}

impl OutputSettings {
    /// The width of the screen that answers go to, and how many rows a table on it shows; `None` if they go elsewhere.
    pub fn screen(&self) -> Option<(usize, Option<usize>)> {
        let is_seen = self.is_screen && matches!(self.sink, Sink::Out);
        let (Width(width), _) = is_seen.then(terminal_size)??;
        Some((width.into(), self.rows_max))
    }

    /// In this form to standard output, and all else as it is at first.
    pub fn of(format: Format) -> OutputSettings {
        OutputSettings {
            format,
            is_expanded: false,
            null: String::new(),
            time_zone: Zone::utc(),
            sink: Sink::Out,
            is_screen: false,
            rows_max: Some(ROWS_MAX),
        }
    }
}

/// Where answers go.
#[derive(Clone)]
pub enum Sink {
    /// Standard output.
    Out,
    /// A file with its name.
    File(Arc<(PathBuf, File)>),
}

impl Sink {
    /// A file, emptied.
    pub fn file(path: &Path) -> Result<Sink> {
        let file = File::create(path).map_err(|error| Error::io(path, "writing", &error))?;
        Ok(Sink::File(Arc::new((path.to_owned(), file))))
    }

    /// Writes a text at once.
    pub fn say(&self, text: &str) -> Result<()> {
        match self {
            Sink::Out => say(text),
            Sink::File(named) => {
                let (path, mut file) = (&named.0, &named.1);
                file.write_all(text.as_bytes()).map_err(|error| Error::io(path, "writing", &error))
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Out => Out::of_process().write(buffer),
            Sink::File(named) => (&named.1).write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Out => Out::of_process().flush(),
            Sink::File(named) => (&named.1).flush(),
        }
    }
}
