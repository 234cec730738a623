//! Checks that no two live rows of a table have one key (K1), as of the manifest's version.
//!
//! Invariants:
//! - Keys are compared by their codes, made of the values in the files: neither an index nor anything else that was
//!   derived from keys is believed. Keys that are hashed are taken for equal where their codes are, as everywhere.
//! - Memory is bounded as that of `identities`: more rows take more passes, each over keys that no other pass has.
//!
//! Rows that the log alone has are not looked at: whoever replays it decides by these keys, and refuses what does not
//! fit.

use super::CheckReport;
use super::identities::Checked;
use super::kills::TableDead;
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_tree::{Dead, Segment, TreeContext};
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::datatypes::DataType;
use std::sync::Arc;

/// A live row: the code of its key, its segment by its place among the table's, and its number there.
type Keyed = (KeyCode, u32, u32);

/// Checks the keys of a table's segments, as of `through`. A pass holds about `pass_rows` rows.
#[allow(clippy::too_many_arguments)] // called once
pub(super) fn check_keys_once(
    tree: &TreeContext,
    def: &TableDef,
    segments: &[Checked],
    dead: &TableDead,
    through: Version,
    pass_rows: u64,
    progress: &mut dyn FnMut(&str),
    report: &mut CheckReport,
) -> Result<()> {
    let Some(coder) = KeyCoder::new(def) else { return Ok(()) };
    // Where kills are not known, rows that were replaced seem to be there twice.
    if dead.lacks_some {
        return Ok(());
    }
    let mut open = Vec::new();
    for Checked { meta, .. } in
        segments.iter().filter(|checked| checked.is_sound && checked.meta.max_version <= through)
    {
        open.push(Segment::open(tree, meta.clone())?);
    }
    let rows: u64 = open.iter().map(|segment| segment.meta().rows).sum();
    let passes = rows.div_ceil(pass_rows).max(1);
    let (mut twice, mut first) = (0, None);
    for pass in 0..passes {
        progress(&format!("which keys table '{}' has, pass {} of {passes}", def.name, pass + 1));
        let mut keys: Vec<Keyed> = Vec::with_capacity((rows / passes) as usize);
        for (at, segment) in (0..).zip(&open) {
            let dead = dead.segments.get(&segment.meta().id);
            for_each_key(segment, &coder, dead, through, |code, row| {
                if pass_of(code, passes) == pass {
                    keys.push((code, at, row));
                }
            })?;
        }
        keys.sort_unstable();
        for pair in keys.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            twice += 1;
            first.get_or_insert((pair[0], pair[1]));
        }
    }
    let Some(((_, one, one_row), (_, other, other_row))) = first else { return Ok(()) };
    let id = |at: u32| open[at as usize].meta().id;
    let (table, one, other) = (&def.name, id(one), id(other));
    let what = format!(
        "table '{table}': {twice} live rows have a key that another one has, first row {one_row} of segment {one} and \
         row {other_row} of segment {other}"
    );
    report.add_finding(Error::new(ErrorKind::Corrupt, what).with_hint(super::RESTORE))
}

/// Calls `each` with the code of each live row's key, and its number.
fn for_each_key(
    segment: &Arc<Segment>,
    coder: &KeyCoder,
    dead: Option<&Dead>,
    through: Version,
    mut each: impl FnMut(KeyCode, u32),
) -> Result<()> {
    let columns: Vec<(&str, DataType)> = coder.columns().collect();
    let mut row = 0;
    for rows in segment.column_batches(&columns)? {
        for code in coder.codes(&rows?)? {
            if dead.is_none_or(|dead| !dead.is_killed_by(row, through)) {
                each(code, row as u32);
            }
            row += 1;
        }
    }
    Ok(())
}

/// Which pass a key is of. Codes that are keys themselves are spread.
fn pass_of(code: KeyCode, passes: u64) -> u64 {
    let folded = code as u64 ^ (code >> 64) as u64;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % passes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_of_one_pass_and_passes_have_about_as_many() {
        let codes = (0..10_000u128).chain((0..10_000).map(|code| code << 64));
        let mut counts = [0; 7];
        codes.for_each(|code| counts[pass_of(code, 7) as usize] += 1);
        assert!(counts.iter().all(|count| (2_000..4_000).contains(count)), "{counts:?}");
    }
}
