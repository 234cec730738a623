//! The key index of a table, made of what is there.
//!
//! That reads key columns of whole segments. It is done where nothing knows the keys yet: when the first of a table's rows
//! is changed or looked up by key after the database was opened, and after a full disk took batches back.

use crate::views::WholeTable;
use alluvia_keys::{KeyIndex, KeyIndexBuilder, RowPlace};
use alluvia_space::key_code::KeyCoder;
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::Segment;
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use std::sync::Arc;

impl WholeTable {
    /// The index of its live rows. It reads the key columns of all segments.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged, or two rows have one key.
    pub fn key_index(&self, coder: &KeyCoder) -> Result<KeyIndex> {
        let columns: Vec<(&str, DataType)> = coder.columns().collect();
        let live = |segment: &Arc<Segment>| {
            let meta = segment.meta();
            meta.rows - self.kills.of(meta.id).map_or(0, |dead| dead.rows())
        };
        let keys = self.segments.iter().map(live).sum::<u64>() as usize;
        let mut index = KeyIndexBuilder::new(coder.code_bits(), keys);
        for segment in &self.segments {
            let id = segment.meta().id;
            let dead = self.kills.of(id);
            let mut row = 0;
            for keys in segment.column_batches(&columns)? {
                for code in coder.codes(&keys?)? {
                    if dead.is_none_or(|dead| !dead.is_killed_by(row, Version(u64::MAX))) {
                        index.add(code, RowPlace::Segment { segment: id, row: row as u32 });
                    }
                    row += 1;
                }
            }
        }
        for rows in &self.tail {
            let identities = identities_of(rows)?;
            for (code, (version, ordinal)) in coder.codes(rows)?.into_iter().zip(identities) {
                if !self.kills.tail().contains_key(&(version, ordinal)) {
                    index.add(code, RowPlace::Tail { version, ordinal });
                }
            }
        }
        index.finish().map_err(|(one, other)| {
            Error::new(ErrorKind::Corrupt, format!("two rows of a table have one key: {one:?} and {other:?}"))
                .with_hint("run `alluvia check` and restore the data directory from a copy")
        })
    }
}

#[cfg(feature = "paranoid")]
impl crate::Views {
    /// Checks K2: the index of a table, if it has one, is what its rows make. Looks away where a batch that is not visible
    /// has changed it, or somebody has its lock.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged; `Internal` if the index is another.
    pub fn check_key_index(&self, def: &alluvia_space::TableDef) -> Result<()> {
        let Some(coder) = KeyCoder::new(def) else { return Ok(()) };
        let generation = self.keys().generation();
        let locks = self.keys().locks(&[def.id]);
        let Some(mut guards) = locks.lock_within(std::time::Duration::ZERO) else { return Ok(()) };
        let known = guards.first_mut().and_then(|(_, keys)| keys.of(generation));
        let Some(known) = known.filter(|known| known.recent.newest().is_none_or(|newest| newest <= self.visible()))
        else {
            return Ok(());
        };
        match self.whole_table(def.id).key_index(&coder)? == known.index {
            true => Ok(()),
            false => Err(Error::internal(format!("K2: the key index of table {} is not of its rows", def.name))),
        }
    }
}

/// Versions and ordinals of rows.
///
/// # Errors
/// `InvalidValue` if the rows lack them.
pub fn identities_of(rows: &RecordBatch) -> Result<Vec<(Version, u64)>> {
    let column = |name: &str| {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        column.filter(|column| column.null_count() == 0).ok_or_else(|| {
            Error::new(ErrorKind::InvalidValue, format!("rows that are named by version and ordinal lack {name}"))
        })
    };
    let (versions, ordinals) = (column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?);
    Ok(versions.values().iter().map(|&version| Version(version)).zip(ordinals.values().iter().copied()).collect())
}
