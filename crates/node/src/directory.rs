//! Names of the files in a data directory, and which files prove that the directory had a database.
//!
//! Invariants:
//! - The manifest is the first file of a database: every file that [`find_evidence`] looks for is made after the
//!   manifest is durable. So a directory that has such a file and no manifest has lost its manifest. The directory is
//!   refused: a start would take it for a new database, and remove as orphans all files that the lost manifest named.
//! - A directory that is refused is left as it is, byte by byte: it is looked at before anything is made in it.

use crate::audit::{self, AUDIT_DIR};
use crate::holder::HOLDER_NAME;
use alluvia_snapshot::{KEYS_LOST_NAME, KeyFiles, MANIFEST_NAME, Spaces, kills};
use alluvia_storage::Disk;
use alluvia_tree::segment_of_file;
use alluvia_types::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};

/// The file that the process which has the directory holds locked.
pub(crate) const LOCK_NAME: &str = "lock";
/// The folder of the log.
pub(crate) const LOG_DIR: &str = "log";
/// The folder of segments.
pub(crate) const SEGMENTS_DIR: &str = "segments";

/// Names that may be there without a manifest: a start that was cut short made the file, or somebody put it there for a
/// database to come.
const BEFORE_MANIFEST: [&str; 8] =
    [LOCK_NAME, HOLDER_NAME, LOG_DIR, SEGMENTS_DIR, "spill", "manifest.tmp", "passwords", "passwords.partial"];

/// Names of files beside the data that are made once there is a database, and may be lost.
const BESIDE: [&str; 15] = [
    AUDIT_DIR,
    "audit.end",
    "audit.end.tmp",
    "log.end",
    "log.end.tmp",
    "cuboids",
    "cuboids.tmp",
    "cuboids.damaged",
    "predicates",
    "predicates.tmp",
    "predicates.damaged",
    KEYS_LOST_NAME,
    "ages",
    "ages.tmp",
    "ages.damaged",
];

/// Whether a file of this name is one of idempotency keys, or what a try to write one left.
fn is_keys(name: &str) -> bool {
    KeyFiles::number_of_file(name.strip_suffix(".tmp").unwrap_or(name)).is_some()
}

/// Whether a file of this name is one of the log's.
pub(crate) fn is_log_file(name: &str) -> bool {
    let digits = name.strip_suffix(".log");
    digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a data directory may hold something of this name.
pub(crate) fn is_known(name: &str) -> bool {
    name == MANIFEST_NAME
        || BEFORE_MANIFEST.contains(&name)
        || BESIDE.contains(&name)
        || Spaces::table_of_file(name).is_some()
        || kills::table_of_file(name).is_some()
        || is_keys(name)
}

/// A file that is made only once a manifest is durable; `None` if there is none.
fn find_evidence(disk: &dyn Disk, dir: &Path) -> Result<Option<PathBuf>> {
    type IsOurs = fn(&str) -> bool;
    let folders: [(PathBuf, IsOurs); 4] = [
        (dir.join(LOG_DIR), is_log_file),
        (dir.join(SEGMENTS_DIR), |name| segment_of_file(name).is_some()),
        (dir.to_owned(), |name| !BEFORE_MANIFEST.contains(&name) && name != AUDIT_DIR && is_known(name)),
        (dir.join(AUDIT_DIR), audit::is_audit_file),
    ];
    for (folder, is_ours) in folders {
        if !disk.exists(&folder) {
            continue;
        }
        let entries = match disk.read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            entries => entries.map_err(|error| Error::io(&folder, "listing", &error))?,
        };
        let found = entries.iter().find(|entry| !entry.is_dir && entry.name != MANIFEST_NAME && is_ours(&entry.name));
        if let Some(found) = found {
            return Ok(Some(folder.join(&found.name)));
        }
    }
    Ok(None)
}

/// Why a data directory could not be made.
pub(crate) fn cannot_make(dir: &Path, error: &io::Error) -> Error {
    let dir_shown = dir.display();
    let message = match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{dir_shown} is there, and is no directory"),
        io::ErrorKind::NotADirectory => {
            format!("{dir_shown} cannot be a directory: what stands before its last name is none")
        }
        _ => return Error::io(dir, "creating", error),
    };
    Error::new(ErrorKind::Io, message).with_hint("name a data directory; it is made if it does not exist")
}

/// What is wrong with a directory that has no manifest although it had a database; `None` if it has one, or had none.
pub(crate) fn lost_manifest(disk: &dyn Disk, dir: &Path) -> Result<Option<Error>> {
    let manifest = dir.join(MANIFEST_NAME);
    if disk.exists(&manifest) {
        return Ok(None);
    }
    let Some(found) = find_evidence(disk, dir)? else { return Ok(None) };
    // Asked again: another process may be making the database right now, and makes the manifest before all else.
    if disk.exists(&manifest) {
        return Ok(None);
    }
    let message = format!("{} is missing although {} is there", manifest.display(), found.display());
    Ok(Some(Error::new(ErrorKind::Corrupt, message).with_hint(
        "without it nobody knows which files make the database; nothing was changed: restore the data directory from a copy, or \
         name another one to begin anew",
    )))
}

/// Refuses a directory that lost its manifest, or that holds something else than a database.
pub(crate) fn refuse_foreign(disk: &dyn Disk, dir: &Path) -> Result<()> {
    if disk.exists(&dir.join(MANIFEST_NAME)) {
        return Ok(());
    }
    let entries = disk.read_dir(dir).map_err(|error| Error::io(dir, "listing", &error))?;
    if let Some(lost) = lost_manifest(disk, dir)? {
        return Err(lost);
    }
    match entries.iter().find(|entry| !is_known(&entry.name)) {
        Some(entry) => Err(Error::new(
            ErrorKind::Io,
            format!("{} is not empty and is no Alluvia database (it holds '{}')", dir.display(), entry.name),
        )
        .with_hint("name an empty or a new directory")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_their_whole_form() {
        for ours in [
            "manifest",
            "lock",
            "dict-7",
            "keys-00000001",
            "keys-00000001.tmp",
            "audit",
            "audit.end",
            "log.end",
            "cuboids.damaged",
        ] {
            assert!(is_known(ours), "{ours}");
        }
        for other in ["dict-", "dict-en.txt", "dict-+1", "dict-4294967296", "keys-1", "keys-1.bak", "manifest.bak", ""]
        {
            assert!(!is_known(other), "{other}");
        }
        assert!(is_log_file("0000000000000001.log"));
        for other in ["1.log", "0000000000000001.log.gz", "000000000000000a.log"] {
            assert!(!is_log_file(other), "{other}");
        }
    }
}
