//! Small files replaced whole: the manifest and its like.
//!
//! Invariants:
//! - At any moment, whatever happens, the name stands for one whole earlier or later content, never for a mixture.
//! - When [`write_atomic`] has returned, the new content survives a power loss.
//! - When it fails, it says whether the earlier content certainly stays. If not, either may be found after reopening, and
//!   nothing may be built on which of them it is, nor on which is read meanwhile. It may be tried again, because every try
//!   writes a new file.
//!
//! The envelope, little endian, is the same for every kind and version of payload, so that damage is told from a format
//! that is too new:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic: six letters for the kind, two digits for the version of the payload |
//! | 8..16 | length of the payload |
//! | 16..20 | crc32c over magic, length and payload |
//! | 20.. | the payload, to the end of the file |

use crate::checks::corrupt;
use crate::disk::Disk;
use alluvia_types::{Error, ErrorKind, Result, planted};
use std::io;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 20;
/// The part of the magic that names the kind of file; the rest is its version.
const FAMILY_BYTES: usize = 6;

/// Why a file was not replaced, or not durably.
#[derive(Debug)]
pub struct NotReplaced {
    /// What failed.
    pub error: Error,
    /// Whether the name stands for the earlier content, and will after a power loss: the new one never had the name.
    pub is_kept: bool,
}

impl From<NotReplaced> for Error {
    fn from(failure: NotReplaced) -> Error {
        failure.error
    }
}

/// Replaces the file at `path` with `payload`, durably: written to `<path>.tmp`, synced, renamed, directory synced.
///
/// The last two bytes of `magic` are the version of the payload's format.
pub fn write_atomic(disk: &dyn Disk, path: &Path, magic: &[u8; 8], payload: &[u8]) -> Result<(), NotReplaced> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), payload);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(payload);

    let temporary = temporary_of(path);
    let kept = |error: io::Error| NotReplaced { error: Error::io(&temporary, "writing", &error), is_kept: true };
    // A rename that fails may have been made all the same.
    let unsure = |path: &Path, doing: &str, error: io::Error| NotReplaced {
        error: Error::io(path, doing, &error),
        is_kept: false,
    };
    let written = write_temporary(disk, &temporary, &bytes)
        .map_err(kept)
        .and_then(|()| disk.rename(&temporary, path).map_err(|error| unsure(path, "replacing", error)));
    if let Err(failure) = written {
        // It may hold the very bytes that a full disk lacks. If it cannot go now, the next try removes it.
        let _ = disk.remove(&temporary);
        return Err(failure);
    }
    let dir = path.parent().unwrap_or(Path::new(""));
    if planted("skipped directory fsync") {
        return Ok(());
    }
    disk.sync_dir(dir).map_err(|error| unsure(dir, "syncing", error))
}

fn write_temporary(disk: &dyn Disk, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    match disk.remove(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(temporary)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}

fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Reads a file that [`write_atomic`] wrote.
///
/// Errors: `Corrupt` for anything that is not an intact envelope of this kind, `IncompatibleFormat` for an intact one of
/// another version, `Io` when it cannot be read or is not there.
pub fn read_atomic(disk: &dyn Disk, path: &Path, magic: &[u8; 8]) -> Result<Vec<u8>> {
    read_atomic_of(disk, path, magic, &[])
}

/// As [`read_atomic`], for a payload that can also be read in the form of older versions, which have the magics `older`.
pub fn read_atomic_of(disk: &dyn Disk, path: &Path, magic: &[u8; 8], older: &[[u8; 8]]) -> Result<Vec<u8>> {
    let failed = |error: io::Error| Error::io(path, "reading", &error);
    let file = disk.open(path).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    let len = usize::try_from(len).map_err(|_| corrupt(path, "is larger than memory"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;

    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(corrupt(path, &format!("has {len} bytes, fewer than its header")));
    };
    let (signed, crc) = header.split_last_chunk::<4>().expect("the header has 20 bytes");
    let (found_magic, stated_len) = signed.split_first_chunk::<8>().expect("16 bytes are left");
    if found_magic[..FAMILY_BYTES] != magic[..FAMILY_BYTES] {
        let (found, wanted) = (found_magic.escape_ascii(), magic.escape_ascii());
        return Err(corrupt(path, &format!("begins with '{found}' instead of '{wanted}'")));
    }
    if stated_len != (payload.len() as u64).to_le_bytes() {
        return Err(corrupt(
            path,
            &format!("has a payload of {} bytes, which is not the stated length", payload.len()),
        ));
    }
    if crc32c::crc32c_append(crc32c::crc32c(signed), payload).to_le_bytes() != *crc {
        return Err(corrupt(path, "does not match its checksum"));
    }
    if found_magic != magic && !older.contains(found_magic) {
        let [found, wanted] = [found_magic, magic].map(|magic| magic[FAMILY_BYTES..].escape_ascii().to_string());
        return Err(Error::new(
            ErrorKind::IncompatibleFormat,
            format!("{} is of format version {found}; this Alluvia reads version {wanted}", path.display()),
        )
        .with_hint("open it with the version of Alluvia that wrote it"));
    }
    bytes.drain(..HEADER_BYTES);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FaultDisk, Survival};
    use std::sync::Arc;

    const MAGIC: &[u8; 8] = b"ALVTST01";

    fn file() -> &'static Path {
        Path::new("/db/state")
    }

    fn new_disk() -> Arc<FaultDisk> {
        let disk = FaultDisk::new();
        disk.create_dir_all(Path::new("/db")).expect("creates");
        disk
    }

    #[test]
    fn golden_bytes_of_the_envelope() {
        let disk = new_disk();
        write_atomic(disk.as_ref(), file(), MAGIC, b"payload").expect("writes");
        let handle = disk.open(file()).expect("opens");
        let mut found = vec![0; handle.len().expect("has a length") as usize];
        handle.read_exact_at(&mut found, 0).expect("reads");
        assert_eq!(found, b"ALVTST01\x07\0\0\0\0\0\0\0\x2B\x3C\xA0\x27payload");
        assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), b"payload");
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_refused_as_damage() {
        let disk = new_disk();
        write_atomic(disk.as_ref(), file(), MAGIC, b"a payload").expect("writes");
        for offset in 0..29 {
            for bit in 0..8 {
                disk.corrupt(file(), offset, 1 << bit);
                let error = read_atomic(disk.as_ref(), file(), MAGIC).expect_err("damaged");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit} of byte {offset}");
                assert!(error.message().contains("/db/state"), "{error}");
                disk.corrupt(file(), offset, 1 << bit);
            }
        }
        for len in (0..29).chain([30]) {
            write_atomic(disk.as_ref(), file(), MAGIC, b"a payload").expect("writes");
            disk.open(file()).expect("opens").set_len(len).expect("cuts");
            let error = read_atomic(disk.as_ref(), file(), MAGIC).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "cut to {len}");
        }
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let disk = new_disk();
        write_atomic(disk.as_ref(), file(), b"ALVTST12", b"from the future").expect("writes");
        let error = read_atomic(disk.as_ref(), file(), MAGIC).expect_err("newer");
        assert_eq!(error.kind(), ErrorKind::IncompatibleFormat);
        assert_eq!(error.message(), "/db/state is of format version 12; this Alluvia reads version 01");
        disk.open(file()).expect("opens").write_all_at(b"#!/bin/sh\necho not one of ours\n", 0).expect("writes");
        let error = read_atomic(disk.as_ref(), file(), MAGIC).expect_err("foreign");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("begins with '#!/bin/s' instead of 'ALVTST01'"), "{error}");
    }

    #[test]
    fn older_versions_are_read_where_they_are_named() {
        let disk = new_disk();
        write_atomic(disk.as_ref(), file(), MAGIC, b"as it was").expect("writes");
        let read = |older: &[[u8; 8]]| read_atomic_of(disk.as_ref(), file(), b"ALVTST02", older);
        assert_eq!(read(&[*MAGIC]).expect("named"), b"as it was");
        assert_eq!(read(&[]).expect_err("not named").kind(), ErrorKind::IncompatibleFormat);
    }

    #[test]
    fn a_missing_file_is_not_damage() {
        assert_eq!(read_atomic(new_disk().as_ref(), file(), MAGIC).expect_err("missing").kind(), ErrorKind::Io);
    }

    #[test]
    fn power_loss_at_any_call_leaves_the_old_or_the_new() {
        let old = vec![1; 3000];
        let new = vec![2; 5000];
        let mut states = std::collections::HashSet::new();
        for seed in 0..200 {
            for n in 1.. {
                let disk = new_disk();
                write_atomic(disk.as_ref(), file(), MAGIC, &old).expect("writes");
                disk.fail_after(n);
                let done = write_atomic(disk.as_ref(), file(), MAGIC, &new).is_ok();
                for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed }] {
                    let disk = disk.after_power_loss(survival);
                    states.insert(disk.fingerprint());
                    let found = read_atomic(disk.as_ref(), file(), MAGIC).expect("whole");
                    assert!(found == new || (!done && found == old), "n={n} {survival:?}");
                    // What the loss left lying about is no obstacle.
                    write_atomic(disk.as_ref(), file(), MAGIC, &old).expect("writes again");
                }
                if done {
                    break;
                }
            }
        }
        assert!(states.len() > 20, "torn states were seen: {}", states.len());
    }

    #[test]
    fn a_full_disk_keeps_the_old_and_can_be_tried_again() {
        let disk = new_disk();
        write_atomic(disk.as_ref(), file(), MAGIC, &[1; 3000]).expect("writes");
        disk.limit_bytes(Some(5000));
        let failure = write_atomic(disk.as_ref(), file(), MAGIC, &[2; 3000]).expect_err("no room");
        assert_eq!((failure.error.kind(), failure.is_kept), (ErrorKind::DiskFull, true));
        assert!(!disk.exists(Path::new("/db/state.tmp")));
        assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), [1; 3000]);
        disk.limit_bytes(None);
        write_atomic(disk.as_ref(), file(), MAGIC, &[2; 3000]).expect("writes");
        assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), [2; 3000]);
    }

    #[test]
    fn a_failed_sync_keeps_the_old() {
        let disk = new_disk();
        write_atomic(disk.as_ref(), file(), MAGIC, b"old").expect("writes");
        disk.fail_sync(1);
        let failure = write_atomic(disk.as_ref(), file(), MAGIC, b"new").expect_err("fails");
        assert_eq!((failure.error.kind(), failure.is_kept), (ErrorKind::Io, true));
        assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), b"old");
        write_atomic(disk.as_ref(), file(), MAGIC, b"newer").expect("a new file, so a new chance");
        let disk = disk.after_power_loss(Survival::SyncedOnly);
        assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), b"newer");
    }

    #[test]
    fn a_failed_sync_of_the_directory_leaves_either() {
        let disk = new_disk();
        write_atomic(disk.as_ref(), file(), MAGIC, b"old").expect("writes");
        disk.fail_sync_dir(1);
        let failure = write_atomic(disk.as_ref(), file(), MAGIC, b"new").expect_err("fails");
        assert_eq!((failure.error.kind(), failure.is_kept), (ErrorKind::Io, false));
        assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), b"new");
        let lost = disk.after_power_loss(Survival::SyncedOnly);
        assert_eq!(read_atomic(lost.as_ref(), file(), MAGIC).expect("reads"), b"old");
        write_atomic(disk.as_ref(), file(), MAGIC, b"newer").expect("another try");
        let disk = disk.after_power_loss(Survival::SyncedOnly);
        assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), b"newer");
    }

    /// What is built on: where the old content is said to stay, no power loss brings the new one.
    #[test]
    fn what_is_kept_stays_whatever_a_power_loss_leaves() {
        let mut kept = 0;
        for n in 1.. {
            let disk = new_disk();
            write_atomic(disk.as_ref(), file(), MAGIC, b"old").expect("writes");
            disk.fail_after(n);
            match write_atomic(disk.as_ref(), file(), MAGIC, b"new") {
                Ok(()) => break,
                Err(failure) if failure.is_kept => {
                    kept += 1;
                    let disk = disk.after_power_loss(Survival::Everything);
                    assert_eq!(read_atomic(disk.as_ref(), file(), MAGIC).expect("reads"), b"old", "call {n}");
                }
                Err(_) => {}
            }
        }
        assert!(kept >= 3, "the temporary file is made, written and synced first: {kept}");
    }
}
