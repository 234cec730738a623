//! What of a segment's files is damaged: all bytes are read, past the cache, and held against their checksums.
//!
//! Invariant: a file that cannot be read for another reason, such as a disk that fails, is no finding but an error.

use crate::context::TreeContext;
use crate::meta::SegmentMeta;
use crate::segment::check_length;
use crate::side::SideFile;
use alluvia_storage::{Cache, CheckedFile, FileChecks};
use alluvia_types::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// What is damaged, missing or short.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// The Parquet file: the rows are lost.
    pub parquet: Option<Error>,
    /// The side file: it can be made anew, if the rows are whole.
    pub side: Option<Error>,
    /// Rungs, by their numbers: they can be made anew, if the segment is whole.
    pub rungs: Vec<(u32, Error)>,
}

impl Damage {
    /// Reads the files of a segment and of its ladder.
    ///
    /// # Errors
    /// Those of reading that are no damage.
    pub fn find(context: &TreeContext, meta: &SegmentMeta) -> Result<Damage> {
        let mut damage = Damage::of_one(context, meta)?;
        for rung in &meta.rungs {
            let of_rung = Damage::of_one(context, &rung.segment)?;
            damage.rungs.extend(of_rung.parquet.or(of_rung.side).map(|error| (rung.rung, error)));
        }
        Ok(damage)
    }

    /// Whether all is whole.
    pub fn is_none(&self) -> bool {
        self.parquet.is_none() && self.side.is_none() && self.rungs.is_empty()
    }

    fn of_one(context: &TreeContext, meta: &SegmentMeta) -> Result<Damage> {
        let (side_path, parquet_path) = (context.side_path(meta.id), context.parquet_path(meta.id));
        let (side, known) = match checks_of(context, meta, &side_path) {
            Ok(known) => (None, Some(known)),
            Err(error) if error.kind() == ErrorKind::Corrupt => (Some(error), surviving_checks(context, meta)),
            Err(error) => return Err(error),
        };
        let parquet = check_length(context, &parquet_path, meta.parquet_bytes).and_then(|()| match known {
            Some(known) => verified(context, &parquet_path, known).map(drop),
            // Nothing is left to hold it against.
            None => Ok(()),
        });
        Ok(Damage { parquet: corrupt_of(parquet)?, side, rungs: Vec::new() })
    }
}

/// Verifies the side file, and gives the checksums of the Parquet file that it has.
fn checks_of(context: &TreeContext, meta: &SegmentMeta, path: &Path) -> Result<FileChecks> {
    check_length(context, path, meta.side.len)?;
    let file = verified(context, path, meta.side.clone())?;
    SideFile::open(file, meta.id, meta.table)?.parquet_checks()
}

fn verified(context: &TreeContext, path: &Path, checks: FileChecks) -> Result<CheckedFile> {
    let file = CheckedFile::open(context.disk.as_ref(), path, Arc::new(checks), Arc::new(Cache::new(0)))?;
    file.verify()?;
    Ok(file)
}

/// The checksums of the Parquet file, if that part of a damaged side file holds; its own checksum says so.
pub(super) fn surviving_checks(context: &TreeContext, meta: &SegmentMeta) -> Option<FileChecks> {
    let path = context.side_path(meta.id);
    SideFile::surviving_checks(context.disk.as_ref(), &path, meta.id, meta.table).ok()
}

/// Damage, where there is some; other errors are errors.
fn corrupt_of(result: Result<()>) -> Result<Option<Error>> {
    match result {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(error)),
        Err(error) => Err(error),
    }
}
