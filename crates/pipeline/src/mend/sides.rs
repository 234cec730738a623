//! Side files that keep a table from opening, made anew at a start: before the log is replayed, which needs the table.
//!
//! Invariants:
//! - A side file takes its place only if something proves that the rows it was made of are those that were written ([`Proof`]).
//! - One that cannot be made keeps no other from being made: nobody is told that rows are lost which are not.
//! - Dictionaries are read as the manifest knows them, and nothing of their files is cut: the log may need more.

use super::not_proven;
use alluvia_catalog::Dictionaries;
use alluvia_snapshot::{Spaces, TableFiles};
use alluvia_space::TableDef;
use alluvia_storage::Disk;
use alluvia_tree::{Proof, RebuiltSide, Segment, SegmentMeta, TreeContext};
use alluvia_types::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// Makes a segment's side file anew, in its place. Returns what the manifest is to say of the segment, and what was done.
///
/// # Errors
/// `Corrupt` where it cannot be, or nothing proves it right; and those of the disk.
pub fn rebuilt(
    tree: &TreeContext,
    meta: &SegmentMeta,
    def: &TableDef,
    dictionaries: &Dictionaries,
) -> Result<(SegmentMeta, String)> {
    let side = RebuiltSide::new(tree, meta, def, dictionaries)?;
    let proof = match side.proof() {
        Proof::Same => "it is, byte by byte, the one that was lost",
        Proof::Checksums => "the checksums of the Parquet file, which the damaged one still had, hold",
        Proof::None => return Err(not_proven(meta)),
    };
    let (id, table) = (meta.id, &def.name);
    let told = format!("the side file of segment {id} of table '{table}' was made anew from its Parquet file: {proof}");
    Ok((side.install()?, told))
}

/// Makes all side files of a table anew that are missing, short, or of which the length tells, as far as they can be: what the manifest is to
/// say of the table then, whether or not that opens. Of what was done `told` gets a sentence each.
///
/// # Errors
/// Those of the disk.
pub fn sides(
    dir: &Path,
    tree: &TreeContext,
    def: &TableDef,
    files: &TableFiles,
    told: &mut Vec<String>,
) -> Result<TableFiles> {
    let mut mended = files.clone();
    let Some((def, dictionaries)) = undamaged(space_of(dir, tree, def, files))? else { return Ok(mended) };
    for meta in mended.all_mut() {
        if undamaged(Segment::open(tree, meta.clone()))?.is_some() {
            continue;
        }
        if let Some((new, sentence)) = undamaged(rebuilt(tree, meta, &def, &dictionaries))? {
            told.push(sentence);
            *meta = new;
        }
    }
    Ok(mended)
}

/// What keys and codes of a table's segments are made of: its definition with the ranges that are fixed, and its dictionaries as the
/// manifest knows them, to be read.
///
/// # Errors
/// As [`Dictionaries::open`].
pub fn space_of(
    dir: &Path,
    tree: &TreeContext,
    def: &TableDef,
    files: &TableFiles,
) -> Result<(TableDef, Dictionaries)> {
    let mut def = def.clone();
    for (dimension, range) in def.dimensions.iter_mut().zip(files.ranges.iter().flatten()) {
        dimension.range = range.clone();
    }
    let (disk, path): (Arc<dyn Disk>, _) = (Arc::clone(&tree.disk), Spaces::path(dir, def.id));
    let dictionaries = match &files.dictionary {
        Some(mark) => Dictionaries::open_to_read(disk, path, &def, mark),
        None => Dictionaries::create(disk, path, &def),
    }?;
    Ok((def, dictionaries))
}

/// `None` for damage, and what is not built.
fn undamaged<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported) => Ok(None),
        Err(error) => Err(error),
    }
}
