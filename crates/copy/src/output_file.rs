//! Files that a statement writes.
//!
//! Invariants:
//! - A file appears under its name when it is complete and synced, or not at all. Syncing and naming are two steps, so that what must be
//!   safe first can be made safe in between.
//! - Where it may be is `roots`' to say. It is made and named in the directory that was opened for it, by names and not by its path, so
//!   that it stays where it was checked to go.
//! - Each is written under a hidden name of its own: two statements that write one file do not mix.
#![allow(clippy::disallowed_methods)] // users' files, no part of the database

use crate::roots::Roots;
use alluvia_storage::{Directory, Named};
use alluvia_types::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether two paths lead to one file, where there is one.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

/// A file being written. Dropped before `finish`, it leaves nothing.
#[derive(Debug)]
pub(crate) struct OutputFile {
    writer: Option<BufWriter<File>>,
    path: PathBuf,
    /// Where the bytes go until the file is complete; `None` for a device or a pipe, which is written directly.
    partial: Option<Partial>,
}

/// A hidden file, in the directory that its name is to be in.
#[derive(Debug)]
struct Partial {
    directory: Directory,
    hidden: OsString,
    name: OsString,
}

impl Partial {
    /// A file that nobody else writes.
    fn create(directory: Directory, name: &OsStr) -> io::Result<(File, Partial)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{number}.partial", std::process::id()));
            match directory.create_new(&hidden) {
                // Left by a process that had our number and was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => return Ok((file?, Partial { directory, hidden, name: name.to_owned() })),
            }
        }
    }

    fn remove(&self) {
        let _ = self.directory.remove(&self.hidden);
    }
}

impl OutputFile {
    /// Starts a file that will appear as `path`.
    pub fn create(path: &Path, roots: &Roots) -> Result<OutputFile> {
        let failed = |error: io::Error| Error::io(path, "creating", &error);
        let Some(name) = path.file_name() else {
            return Err(Error::new(ErrorKind::Io, format!("{} does not name a file", path.display())));
        };
        // Its directory may have no name to be told by.
        roots.check_output(path)?;
        let location = roots.locate(path.parent().unwrap_or(Path::new("")), "creating a file in")?;
        let directory = location.directory().map_err(failed)?;
        let named = match directory.named(name).map_err(failed)? {
            // Below a root a link is replaced, wherever it leads.
            Named::Link if location.is_free() => match fs::metadata(path) {
                Ok(there) if there.is_dir() => Named::Directory,
                Ok(there) if !there.is_file() => Named::Other,
                _ => Named::Link,
            },
            named => named,
        };
        let (file, partial) = match named {
            Named::Directory => return Err(Error::new(ErrorKind::Io, format!("{} is a directory", path.display()))),
            Named::Other if location.is_free() => (File::options().write(true).open(path).map_err(failed)?, None),
            Named::Other => {
                return Err(Error::new(ErrorKind::Forbidden, format!("{} is no plain file", path.display()))
                    .with_hint("within copy_roots COPY writes files, and no devices or pipes"));
            }
            Named::Nothing | Named::File | Named::Link => {
                let (file, partial) = Partial::create(directory, name).map_err(failed)?;
                (file, Some(partial))
            }
        };
        Ok(OutputFile { writer: Some(BufWriter::with_capacity(256 * 1024, file)), path: path.to_owned(), partial })
    }

    /// Syncs the bytes and gives the file its name.
    pub fn finish(self) -> Result<()> {
        self.sync()?.publish()
    }

    /// Syncs the bytes. The file has no name yet.
    pub fn sync(mut self) -> Result<SyncedFile> {
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
            partial.remove();
        }
    }
}

/// A file whose bytes are on disk, and which has yet to get its name. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub(crate) struct SyncedFile {
    path: PathBuf,
    /// As [`OutputFile::partial`].
    partial: Option<Partial>,
}

impl SyncedFile {
    /// Gives the file its name.
    pub fn publish(mut self) -> Result<()> {
        self.rename()
    }

    /// Gives the file its name, and keeps it where it is if it cannot have it; says where it is.
    pub(crate) fn publish_or_keep(mut self) -> PathBuf {
        let named = self.rename();
        let path = std::mem::take(&mut self.path);
        match (named, self.partial.take()) {
            (Err(_), Some(partial)) => path.with_file_name(&partial.hidden),
            _ => path,
        }
    }

    fn rename(&mut self) -> Result<()> {
        if let Some(Partial { directory, hidden, name }) = &self.partial {
            directory.rename(hidden, name).map_err(|error| Error::io(&self.path, "writing", &error))?;
            self.partial = None;
        }
        Ok(())
    }
}

impl Drop for SyncedFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            partial.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_below_a_root_stays_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("in/sub")).unwrap();
        fs::create_dir_all(at("out")).unwrap();
        let link = |to: &str, from: &str| std::os::unix::fs::symlink(at(to), at(from)).unwrap();
        link("out", "in/link");
        link("out/victim", "in/victim.csv");
        link("out/victim", "in/sub/late.csv");
        let roots = Roots::Below(vec![at("in")]);
        let create = |name: &str| OutputFile::create(&at(name), &roots);
        for name in ["out/x.csv", "in/link/x.csv", "in/../out/x.csv", "x.csv", "in2/x.csv"] {
            assert_eq!(create(name).unwrap_err().kind(), ErrorKind::Forbidden, "{name}");
        }
        assert_eq!(create("in/missing/x.csv").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(create("in/sub").unwrap_err().kind(), ErrorKind::Io);
        assert!(OutputFile::create(Path::new("/dev/null"), &Roots::Below(vec!["/dev".into()])).is_err());
        // A link is replaced, and what it leads to left alone; also where the directory became a link meanwhile.
        let write = |name: &str, file: &mut OutputFile| file.write_all(name.as_bytes()).unwrap();
        let mut file = create("in/victim.csv").unwrap();
        write("rows", &mut file);
        file.finish().unwrap();
        let mut late = create("in/sub/late.csv").unwrap();
        write("late", &mut late);
        fs::rename(at("in/sub"), at("in/moved")).unwrap();
        link("out", "in/sub");
        late.finish().unwrap();
        assert_eq!(fs::read(at("in/victim.csv")).unwrap(), b"rows");
        assert_eq!(fs::read(at("in/moved/late.csv")).unwrap(), b"late");
        assert_eq!(fs::read_dir(at("out")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(at("in/moved")).unwrap().count(), 1, "no hidden file is left");
    }

    #[test]
    fn an_output_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let count = || fs::read_dir(dir.path()).unwrap().count();
        let mut file = OutputFile::create(&path, &Roots::Anywhere).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(count(), 0);
        let mut file = OutputFile::create(&path, &Roots::Anywhere).unwrap();
        file.write_all(b"whole").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), count()), (b"whole".as_slice(), 1));
        assert!(OutputFile::create(dir.path(), &Roots::Anywhere).is_err());
        drop(OutputFile::create(&path, &Roots::Anywhere).unwrap().sync().unwrap());
        assert_eq!((fs::read(&path).unwrap().as_slice(), count()), (b"whole".as_slice(), 1));
    }

    #[test]
    fn a_synced_file_is_kept_when_its_name_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let synced = || {
            let mut file = OutputFile::create(&path, &Roots::Anywhere).unwrap();
            file.write_all(b"rows").unwrap();
            file.sync().unwrap()
        };
        let (refused, kept) = (synced(), synced());
        fs::create_dir_all(path.join("in the way")).unwrap();
        let place = kept.publish_or_keep();
        assert_eq!(fs::read(&place).unwrap(), b"rows");
        assert!(refused.publish().is_err() && place.exists());
        let hidden = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(hidden, 2, "what was refused leaves nothing beside what is in the way and what is kept");
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(synced().publish_or_keep(), path);
        assert_eq!(fs::read(&path).unwrap(), b"rows");
    }
}
