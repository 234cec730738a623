//! Memos: small files beside the data that may be lost, such as the list of cuboids that were useful.
//!
//! Invariant: no memo keeps a database from opening. A memo that is damaged or of another format is renamed to
//! `NAME.damaged`, with one warning.

use alluvia_snapshot::Memo;
use alluvia_storage::{Disk, read_atomic, write_atomic};
use alluvia_types::{Error, ErrorKind, Result};
use std::path::Path;

/// Ends the name of a memo that was set aside.
const DAMAGED: &str = ".damaged";

/// The memo's last content; `None` if there is none that can be read.
pub(crate) fn recall(disk: &dyn Disk, dir: &Path, memo: &Memo) -> Result<Option<Vec<u8>>> {
    let path = dir.join(memo.name);
    if !disk.exists(&path) {
        return Ok(None);
    }
    match read_atomic(disk, &path, memo.magic) {
        Ok(payload) => Ok(Some(payload)),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::IncompatibleFormat) => {
            let aside = dir.join(format!("{}{DAMAGED}", memo.name));
            disk.rename(&path, &aside).map_err(|error| Error::io(&path, "setting aside", &error))?;
            tracing::warn!(%error, aside = %aside.display(), "a memo cannot be read and was set aside; what it held is learnt anew");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Replaces the memo, durably.
pub(crate) fn memorise(disk: &dyn Disk, dir: &Path, memo: &Memo, payload: &[u8]) -> Result<()> {
    write_atomic(disk, &dir.join(memo.name), memo.magic, payload).map_err(Error::from)
}

/// Removes memos that were set aside.
pub(crate) fn remove_damaged(disk: &dyn Disk, dir: &Path) -> Result<()> {
    for entry in disk.read_dir(dir).map_err(|error| Error::io(dir, "listing", &error))? {
        if entry.name.ends_with(DAMAGED) {
            let path = dir.join(&entry.name);
            disk.remove(&path).map_err(|error| Error::io(&path, "removing", &error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::FaultDisk;

    const MEMO: Memo = Memo { name: "cuboids", magic: b"ALVCUB01" };

    #[test]
    fn a_memo_is_read_back_or_set_aside() {
        let (disk, dir) = (FaultDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).expect("creates");
        assert_eq!(recall(disk.as_ref(), dir, &MEMO).expect("none yet"), None);
        memorise(disk.as_ref(), dir, &MEMO, b"shapes").expect("writes");
        memorise(disk.as_ref(), dir, &MEMO, b"other shapes").expect("writes");
        assert_eq!(recall(disk.as_ref(), dir, &MEMO).expect("reads").as_deref(), Some(b"other shapes".as_slice()));
        let newer = Memo { magic: b"ALVCUB99", ..MEMO };
        for damage in [true, false] {
            match damage {
                true => disk.corrupt(&dir.join("cuboids"), 25, 4),
                false => memorise(disk.as_ref(), dir, &newer, b"from the future").expect("writes"),
            }
            assert_eq!(recall(disk.as_ref(), dir, &MEMO).expect("no error"), None);
            assert!(disk.exists(&dir.join("cuboids.damaged")) && !disk.exists(&dir.join("cuboids")));
            memorise(disk.as_ref(), dir, &MEMO, b"anew").expect("writes");
            assert_eq!(recall(disk.as_ref(), dir, &MEMO).expect("reads").as_deref(), Some(b"anew".as_slice()));
        }
        remove_damaged(disk.as_ref(), dir).expect("removes");
        assert!(disk.exists(&dir.join("cuboids")) && !disk.exists(&dir.join("cuboids.damaged")));
    }
}
