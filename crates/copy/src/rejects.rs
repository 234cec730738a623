//! The file of rejected rows: `file,line,column,reason,record`, a CSV with a header.
//!
//! Invariants:
//! - It appears when the COPY ends, and only if a row was rejected. Its bytes are safe before the rows that go with it are
//!   committed, and it gets its name after: a row is never lost, and a COPY that fails leaves no file.
//! - It never takes the place of a file that is loaded.
//! - `record` is the row as it was in its file, so that corrected records can be taken from there and loaded.
//! - Standard input needs none: whoever sends rows may be nobody who writes files here, and has them still. Then they are counted alone.

use crate::csv_out::write_field;
use crate::files::InputFile;
use crate::output_file::{OutputFile, SyncedFile, is_same_file};
use crate::roots::Roots;
use crate::rows::{Reject, RowLocation};
use alluvia_space::TableDef;
use alluvia_syntax::copy::options::{CopyOptions, Dialect, OnError};
use alluvia_types::{Error, ErrorKind, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes rejected rows.
pub(crate) struct Rejects {
    path: Option<PathBuf>,
    roots: Roots,
    file: Option<OutputFile>,
    dialect: Dialect,
    line: Vec<u8>,
}

impl Rejects {
    /// For a COPY of these files (none: standard input, or URLs, which need a stated place).
    pub fn new(options: &CopyOptions, files: &[InputFile], table: &TableDef, roots: &Roots) -> Result<Rejects> {
        let path = match (options.on_error, &options.rejects, files) {
            (OnError::Refuse | OnError::Count, ..) => None,
            (OnError::Skip, Some(path), _) => Some(path.clone()),
            (OnError::Skip, None, []) => None,
            (OnError::Skip, None, [file]) => Some(beside(&file.path, &file.name())),
            (OnError::Skip, None, [first, ..]) => Some(first.path.with_file_name(format!("{}.rejects", table.name))),
        };
        // Before the first row is read, and not when one is bad.
        path.as_deref().map_or(Ok(()), |path| roots.check_output(path))?;
        let is_loaded = |path: &PathBuf| files.iter().any(|file| is_same_file(path, &file.path));
        if let Some(path) = path.as_ref().filter(|path| is_loaded(path)) {
            let message = format!("bad rows cannot go to {}, which is to be loaded", path.display());
            return Err(Error::new(ErrorKind::InvalidSetting, message).with_hint("name another file: REJECTS 'file'"));
        }
        let dialect = CopyOptions::default().dialect(None);
        Ok(Rejects { path, roots: roots.clone(), file: None, dialect, line: Vec::new() })
    }

    /// Adds a row of the file that messages call `name`. Whether there is a place for it.
    pub fn write(&mut self, name: &str, reject: &Reject) -> Result<bool> {
        let Some(path) = &self.path else { return Ok(false) };
        let failed = |error: std::io::Error| Error::io(path, "writing", &error);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = OutputFile::create(path, &self.roots)?;
                file.write_all(b"file,line,column,reason,record\n").map_err(failed)?;
                self.file.insert(file)
            }
        };
        let (RowLocation::Line(place) | RowLocation::Row(place)) = reject.place;
        let column = reject.column.as_deref().unwrap_or_default();
        let fields =
            [name.as_bytes(), place.to_string().as_bytes(), column.as_bytes(), reject.reason.as_bytes(), &reject.raw]
                .map(<[u8]>::to_vec);
        self.line.clear();
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                self.line.push(self.dialect.delimiter);
            }
            write_field(&mut self.line, field, &self.dialect);
        }
        self.line.push(b'\n');
        file.write_all(&self.line).map_err(failed)?;
        Ok(true)
    }

    /// The file, if a row was rejected: safe, and without its name yet. No row can come after this.
    pub fn sync(&mut self) -> Result<Option<SyncedFile>> {
        self.file.take().map(OutputFile::sync).transpose()
    }
}

fn beside(path: &Path, name: &str) -> PathBuf {
    let file = path.file_name().map_or_else(|| name.to_owned(), |file| file.to_string_lossy().into_owned());
    path.with_file_name(format!("{file}.rejects"))
}
