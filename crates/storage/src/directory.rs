//! Directories held open: users' files are found and named in them, and no link leads out.
//!
//! Invariants:
//! - Below its root a path is walked name by name, each opened in the directory that the one before gave. No link is followed and no `..`
//!   taken, whatever somebody has put in the place of a part since the path was made canonical.
//! - What is created, renamed or removed is so in the directory that was opened, wherever that has been moved to.
//! - Nothing waits: a pipe is opened without its other end, and it is for the caller to refuse what is no plain file.
//!
//! A hard link is the file itself, by another name: nothing can tell.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, openat, renameat, statat, unlinkat};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// Where there is a mode that needs no right to list a directory, that one.
#[cfg(target_os = "linux")]
const WALKED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const WALKED: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// What a name in a directory is of; links are themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// Nothing.
    Nothing,
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A link, wherever it leads.
    Link,
    /// A device, a pipe, a socket.
    Other,
}

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
}

impl Directory {
    /// By its path, as the process sees it: links are followed.
    pub fn open(path: &Path) -> io::Result<Directory> {
        // The empty path is the current directory to `Path::parent`, but not to the kernel.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Directory { fd: open(path, WALKED, Mode::empty())? })
    }

    /// A directory below `root`, which is opened by its path. `relative` is of names alone, none of which may be a link.
    pub fn beneath(root: &Path, relative: &Path) -> io::Result<Directory> {
        let mut directory = Directory::open(root)?;
        for component in relative.components() {
            let Component::Normal(name) = component else {
                let message = format!("{} is no path of names below a directory", relative.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            };
            directory = Directory { fd: openat(&directory.fd, name, WALKED.union(OFlags::NOFOLLOW), Mode::empty())? };
        }
        Ok(directory)
    }

    /// Opens a file to be read. A link is an error.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.fd, name, flags, Mode::empty())?))
    }

    /// Creates a file to be written; `AlreadyExists` if the name is taken, be it by a link that leads nowhere.
    pub fn create_new(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // As of any program; the process's mask takes away from it.
        let mode = Mode::from_raw_mode(0o666);
        Ok(File::from(openat(&self.fd, name, flags, mode)?))
    }

    /// What has this name.
    pub fn named(&self, name: &OsStr) -> io::Result<Named> {
        let stat = match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(Named::Nothing),
            stat => stat?,
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Named::File,
            FileType::Directory => Named::Directory,
            FileType::Symlink => Named::Link,
            _ => Named::Other,
        })
    }

    /// Renames a file, replacing at once what has the name; a link is replaced itself.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // what the module is about
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    fn read(directory: &Directory, name: &str) -> io::Result<String> {
        let mut text = String::new();
        directory.open_file(OsStr::new(name))?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn no_link_is_followed_below_the_root() -> io::Result<()> {
        let home = tempfile::tempdir()?;
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("root/sub/deep"))?;
        fs::create_dir_all(at("out/deep"))?;
        for name in ["root/sub/deep/a", "out/deep/a", "out/a"] {
            fs::write(at(name), name)?;
        }
        symlink(at("out"), at("root/link"))?;
        symlink(at("out/a"), at("root/sub/file"))?;
        symlink(at("root"), at("alias"))?;
        let beneath = |relative: &str| Directory::beneath(&at("root"), Path::new(relative));
        assert_eq!(read(&beneath("sub/deep")?, "a")?, "root/sub/deep/a");
        assert_eq!(read(&Directory::beneath(&at("alias"), Path::new("sub/deep"))?, "a")?, "root/sub/deep/a");
        for relative in ["link", "link/deep", "sub/..", "../out", "/", "sub/deep/a"] {
            assert!(beneath(relative).is_err(), "{relative}");
        }
        assert!(read(&beneath("sub")?, "file").is_err(), "the last name is a link");
        // A part that becomes a link after the path was checked leads nowhere.
        fs::rename(at("root/sub"), at("root/old"))?;
        symlink(at("out"), at("root/sub"))?;
        assert!(beneath("sub/deep").is_err());
        Ok(())
    }

    #[test]
    fn names_are_those_of_the_directory_that_was_opened() -> io::Result<()> {
        let home = tempfile::tempdir()?;
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("root/sub"))?;
        fs::create_dir_all(at("out"))?;
        let directory = Directory::beneath(&at("root"), Path::new("sub"))?;
        // Moved away, with a link to elsewhere in its place: what is written still goes where it was checked to go.
        fs::rename(at("root/sub"), at("root/moved"))?;
        symlink(at("out"), at("root/sub"))?;
        directory.create_new(OsStr::new("partial"))?.write_all(b"rows")?;
        symlink(at("out/victim"), at("root/moved/taken"))?;
        assert_eq!(directory.create_new(OsStr::new("taken")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(directory.named(OsStr::new("taken"))?, Named::Link);
        directory.rename(OsStr::new("partial"), OsStr::new("taken"))?;
        assert_eq!(directory.named(OsStr::new("taken"))?, Named::File);
        assert_eq!(fs::read(at("root/moved/taken"))?, b"rows");
        assert_eq!(directory.named(OsStr::new("partial"))?, Named::Nothing);
        directory.remove(OsStr::new("taken"))?;
        fs::create_dir_all(at("root/moved/inner"))?;
        assert_eq!(directory.named(OsStr::new("inner"))?, Named::Directory);
        assert_eq!(Directory::open(Path::new("/dev"))?.named(OsStr::new("null"))?, Named::Other);
        assert_eq!(fs::read_dir(at("out"))?.count(), 0);
        Ok(())
    }
}
