//! The saved image: a file that is replaced whole.

use crate::image::Image;
use alluvia_storage::{Disk, read_atomic, write_atomic};
use alluvia_types::{Error, ErrorKind, Result};
use std::path::Path;

/// Magic of the file; the last two bytes are the format version.
const MAGIC: &[u8; 8] = b"ALVIMG01";
const NAME: &str = "image";

/// What is saved in a directory. In a new one the image of a new cluster is saved first.
pub(super) fn load_or_begin(disk: &dyn Disk, dir: &Path, seed: u64) -> Result<Image> {
    let path = dir.join(NAME);
    if !disk.exists(&path) {
        let image = Image::new(seed);
        store(disk, dir, &image)?;
        return Ok(image);
    }
    let bytes = read_atomic(disk, &path, MAGIC)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("{} does not decode: {error}", path.display()))
            .with_hint("restore the keeper's directory from a copy")
    })
}

/// Replaces it.
pub(super) fn store(disk: &dyn Disk, dir: &Path, image: &Image) -> Result<()> {
    let bytes = serde_json::to_vec(image).map_err(|error| Error::internal(format!("an image: {error}")))?;
    write_atomic(disk, &dir.join(NAME), MAGIC, &bytes).map_err(|not_replaced| not_replaced.error)
}
