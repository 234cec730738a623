//! Where files of the machine may be that a statement names: the one check.
//!
//! Invariants:
//! - With roots, a path is made canonical (links followed, `..` taken) before it is compared, component by component, with the canonical roots.
//! - What passed is opened from its root on, name by name, and no link is followed any more: what is put in the place of a part after the
//!   check leads nowhere ([`Directory`]).
//! - A plain file passes, and nothing else: no device, no pipe.
//! - Outside the roots a path that leads somewhere and one that leads nowhere are refused alike, so that nobody learns what there is.
#![allow(clippy::disallowed_methods)] // users' files, no part of the database

use alluvia_storage::Directory;
use alluvia_syntax::copy::places::is_pattern;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::excerpt::cut;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

/// The longest path that systems take.
const PATH_BYTES_MAX: usize = 4_096;

/// The directories that files may be in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Roots {
    /// Wherever the process may.
    Anywhere,
    /// In these, and below them.
    Below(Vec<PathBuf>),
}

/// Where a path leads that may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// As it is written.
    Written(PathBuf),
    /// Below a root; both canonical.
    Beneath {
        /// The canonical path of the root.
        root: PathBuf,
        /// The rest of the canonical path, from the root on.
        relative: PathBuf,
    },
}

impl Roots {
    /// Where something that exists is, unless that is outside.
    pub(crate) fn locate(&self, asked: &Path, doing: &str) -> Result<Location> {
        let Roots::Below(_) = self else { return Ok(Location::Written(asked.to_owned())) };
        let asked_here = here(asked);
        match fs::canonicalize(asked_here) {
            Ok(real) => self.inside(&real).ok_or_else(|| self.refused(asked)),
            Err(error) if self.leads_inside(asked_here) => Err(Error::io(asked, doing, &error)),
            Err(_) => Err(self.refused(asked)),
        }
    }

    /// Refuses a file that is to be written outside, as far as is known before it is created.
    pub(crate) fn check_output(&self, asked: &Path) -> Result<()> {
        let parent = asked.parent().unwrap_or(Path::new(""));
        match self {
            Roots::Below(_) if !self.leads_inside(here(parent)) => Err(self.refused(asked)),
            _ => Ok(()),
        }
    }

    /// Refuses a pattern that looks outside: its beginning must be within a root, and what follows must not go up.
    pub(crate) fn check_pattern(&self, pattern: &str) -> Result<()> {
        let Roots::Below(_) = self else { return Ok(()) };
        let mut parts = Path::new(pattern).components().peekable();
        let is_open = |part: &Component<'_>| part.as_os_str().to_str().is_none_or(is_pattern);
        let mut fixed = PathBuf::new();
        while let Some(part) = parts.next_if(|part| !is_open(part)) {
            fixed.push(part);
        }
        let goes_up = parts.any(|part| part == Component::ParentDir);
        if goes_up || !self.leads_inside(here(&fixed)) {
            return Err(self.refused(Path::new(pattern)));
        }
        Ok(())
    }

    /// A canonical path as seen from a root that it is in.
    fn inside(&self, real: &Path) -> Option<Location> {
        let Roots::Below(roots) = self else { return Some(Location::Written(real.to_owned())) };
        roots.iter().find_map(|root| {
            let root = fs::canonicalize(root).ok()?;
            let relative = real.strip_prefix(&root).ok()?.to_owned();
            Some(Location::Beneath { root, relative })
        })
    }

    /// Whether as much of a path as exists is within a root.
    fn leads_inside(&self, path: &Path) -> bool {
        // No file can be there, and looking at each part of it would take long.
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return false;
        }
        let there = path.ancestors().map(here).find(|part| fs::symlink_metadata(part).is_ok());
        there.and_then(|part| fs::canonicalize(part).ok()).is_some_and(|real| self.inside(&real).is_some())
    }

    fn refused(&self, asked: &Path) -> Error {
        let asked = asked.to_string_lossy();
        let message = format!("permission denied for {}: it is outside the directories that COPY may use", cut(&asked));
        let hint = match self {
            Roots::Below(roots) if !roots.is_empty() => {
                let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
                format!("the server's setting copy_roots names them: {}", roots.join(", "))
            }
            _ => "the server's setting copy_roots names them, and names none; a client's own files go through STDIN"
                .to_owned(),
        };
        Error::new(ErrorKind::Forbidden, message).with_hint(hint)
    }
}

impl Location {
    /// What is known of the file there.
    pub fn metadata(&self) -> io::Result<Metadata> {
        match self {
            Location::Written(path) => fs::metadata(path),
            // Canonical, so no link; and nothing is opened for what is only told.
            Location::Beneath { root, relative } => fs::symlink_metadata(root.join(relative)),
        }
    }

    /// Opens the file to be read.
    pub fn open(&self) -> io::Result<File> {
        let (root, relative) = match self {
            Location::Written(path) => return File::open(path),
            Location::Beneath { root, relative } => (root, relative),
        };
        let (parent, name) = parent_and_name(relative)?;
        let file = Directory::beneath(root, parent)?.open_file(name)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file")),
        }
    }

    /// Opens the directory there.
    pub fn directory(&self) -> io::Result<Directory> {
        match self {
            Location::Written(path) => Directory::open(path),
            Location::Beneath { root, relative } => Directory::beneath(root, relative),
        }
    }

    /// Whether it is wherever the process may.
    pub fn is_free(&self) -> bool {
        matches!(self, Location::Written(_))
    }
}

fn parent_and_name(relative: &Path) -> io::Result<(&Path, &OsStr)> {
    let both = relative.parent().zip(relative.file_name());
    both.ok_or_else(|| io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"))
}

/// The empty path is the current directory to `Path::parent`, but not to the kernel.
fn here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// `in` and `in2` with a file each, `out` with a file, and links from `in` to everywhere.
    fn world() -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["in/sub", "in2", "out/sub"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["in/a.csv", "in/sub/b.csv", "in2/a.csv", "out/a.csv", "out/sub/b.csv"] {
            fs::write(at(name), name).unwrap();
        }
        symlink(at("out"), at("in/to_out")).unwrap();
        symlink(at("out/a.csv"), at("in/file_out.csv")).unwrap();
        symlink(at("out/missing"), at("in/dangling")).unwrap();
        symlink(at("in/sub"), at("in/to_sub")).unwrap();
        symlink(at("in"), at("alias")).unwrap();
        let roots = Roots::Below(vec![at("in")]);
        (dir, roots)
    }

    #[test]
    fn only_what_is_really_below_a_root_passes() {
        let (dir, roots) = world();
        let at = |name: &str| dir.path().join(name);
        let read = |roots: &Roots, name: &str| -> Result<String> {
            let mut text = String::new();
            let location = roots.locate(&at(name), "opening")?;
            location
                .open()
                .and_then(|mut file| file.read_to_string(&mut text))
                .map_err(|error| Error::io(name, "opening", &error))?;
            Ok(text)
        };
        for (name, want) in [
            ("in/a.csv", "in/a.csv"),
            ("in/sub/b.csv", "in/sub/b.csv"),
            ("in/sub/../a.csv", "in/a.csv"),
            ("in/to_sub/b.csv", "in/sub/b.csv"),
            ("alias/a.csv", "in/a.csv"),
            ("in/to_out/../in/a.csv", "in/a.csv"),
        ] {
            assert_eq!(read(&roots, name).unwrap(), want, "{name}");
            assert_eq!(
                read(&Roots::Below(vec![at("in2"), at("alias")]), name).unwrap(),
                want,
                "a root by a link, {name}"
            );
        }
        for name in [
            "in2/a.csv",
            "out/a.csv",
            "in/../out/a.csv",
            "in/../in2/a.csv",
            "in/to_out/a.csv",
            "in/to_out/sub/b.csv",
            "in/file_out.csv",
            // Whether there is something makes no difference.
            "out/missing.csv",
            "nowhere/at/all.csv",
            "in/to_out/missing.csv",
            "in/dangling",
            "in/../missing.csv",
        ] {
            let error = read(&roots, name).unwrap_err();
            assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::Forbidden, "42501"), "{name}: {error}");
            assert!(error.hint().unwrap().contains("copy_roots"), "{name}: {error}");
        }
        for name in ["in/missing.csv", "in/sub", "in"] {
            assert_eq!(read(&roots, name).unwrap_err().kind(), ErrorKind::Io, "{name}");
        }
        for name in ["in/a.csv", "out/a.csv", "in/missing.csv"] {
            assert_eq!(read(&Roots::Below(Vec::new()), name).unwrap_err().kind(), ErrorKind::Forbidden, "{name}");
        }
        assert_eq!(read(&Roots::Anywhere, "in/to_out/a.csv").unwrap(), "out/a.csv");
        // A root that is not there lets nothing in.
        assert!(read(&Roots::Below(vec![at("nowhere")]), "in/a.csv").is_err());
    }

    #[test]
    fn patterns_look_within_the_roots_alone() {
        let (dir, roots) = world();
        let check = |pattern: &str| roots.check_pattern(&dir.path().join(pattern).display().to_string());
        for pattern in ["in/*.csv", "in/**/*.csv", "in/sub/[ab].csv", "alias/*", "in/none/*"] {
            check(pattern).unwrap();
        }
        for pattern in ["*/a.csv", "out/*", "in2/*", "in/to_out/*", "in/*/../../out/*", "in/../out/?.csv", "nowhere/*"]
        {
            assert_eq!(check(pattern).unwrap_err().kind(), ErrorKind::Forbidden, "{pattern}");
        }
        assert!(roots.check_pattern("/**/*").is_err());
        Roots::Anywhere.check_pattern("/**/*").unwrap();
        for (output, is_inside) in
            [("in/new", true), ("in/sub/new", true), ("in/to_out/new", false), ("out/new", false), ("in", false)]
        {
            assert_eq!(roots.check_output(&dir.path().join(output)).is_ok(), is_inside, "{output}");
        }
    }

    #[test]
    fn a_link_put_there_after_the_check_leads_nowhere() {
        let (dir, roots) = world();
        let at = |name: &str| dir.path().join(name);
        let locate = |name: &str| roots.locate(&at(name), "opening").unwrap();
        let (file, deep, directory) = (locate("in/a.csv"), locate("in/sub/b.csv"), locate("in/sub"));
        fs::remove_file(at("in/a.csv")).unwrap();
        symlink(at("out/a.csv"), at("in/a.csv")).unwrap();
        fs::rename(at("in/sub"), at("in/old")).unwrap();
        symlink(at("out/sub"), at("in/sub")).unwrap();
        assert!(file.open().is_err() && deep.open().is_err() && directory.directory().is_err());
    }

    #[test]
    fn pipes_and_devices_are_no_files_below_a_root() {
        let error = Roots::Below(vec!["/dev".into()]).locate(Path::new("/dev/null"), "opening").unwrap().open();
        assert!(error.unwrap_err().to_string().contains("no plain file"));
        Roots::Anywhere.locate(Path::new("/dev/null"), "opening").unwrap().open().unwrap();
    }
}
