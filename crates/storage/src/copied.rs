//! Copying a file.

use crate::disk::Disk;
use alluvia_types::{Error, Result};
use std::path::Path;

/// Bytes that are in memory at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Copies a file from one disk to a new file of another, and syncs it. Its name is for the caller to make durable; after an error the new file
/// may be there in part.
///
/// # Errors
/// Those of both disks; the name is taken.
pub fn copy_file(source: &dyn Disk, from: &Path, target: &dyn Disk, to: &Path) -> Result<()> {
    let read = |error: std::io::Error| Error::io(from, "reading", &error);
    let write = |error: std::io::Error| Error::io(to, "writing", &error);
    let source = source.open_to_read(from).map_err(read)?;
    let (len, target) = (source.len().map_err(read)?, target.create(to).map_err(write)?);
    let mut piece = vec![0; PIECE_BYTES.min(len) as usize];
    let mut at = 0;
    while at < len {
        let piece = &mut piece[..PIECE_BYTES.min(len - at) as usize];
        source.read_exact_at(piece, at).map_err(read)?;
        target.write_all_at(piece, at).map_err(write)?;
        at += piece.len() as u64;
    }
    target.sync_data().map_err(write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultDisk;

    #[test]
    fn a_copy_has_all_bytes_and_takes_no_name_that_is_taken() {
        let (disk, other) = (FaultDisk::new(), FaultDisk::new());
        for len in [0, 1, PIECE_BYTES as usize, 2 * PIECE_BYTES as usize + 7] {
            let (from, to) = (format!("/from-{len}"), format!("/to-{len}"));
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            disk.create(Path::new(&from)).unwrap().write_all_at(&bytes, 0).unwrap();
            let copy = || copy_file(disk.as_ref(), Path::new(&from), other.as_ref(), Path::new(&to));
            copy().unwrap();
            let copied = other.open(Path::new(&to)).unwrap();
            let mut read = vec![0; copied.len().unwrap() as usize];
            copied.read_exact_at(&mut read, 0).unwrap();
            assert!(read == bytes, "{len}");
            assert!(copy().unwrap_err().to_string().contains(&to));
        }
    }
}
