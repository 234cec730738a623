//! Rows without their values that wait to be written.

use super::RowAt;
use crate::chunk::RowChunk;
use alluvia_space::{LevelCodes, ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::UInt64Type;
use std::sync::Arc;

/// Rows in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) keys: Vec<u128>,
    pub(super) codes: LevelCodes,
    versions: Vec<Option<u64>>,
    ordinals: Vec<u64>,
    pub(super) at: Vec<RowAt>,
}

impl Pending {
    /// None, of a table with so many levels.
    pub(super) fn new(levels: usize) -> Pending {
        Pending { codes: LevelCodes { levels: vec![Vec::new(); levels] }, ..Pending::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds some rows of a chunk, of which `at` says where their values are.
    pub(super) fn add(
        &mut self,
        chunk: &RowChunk,
        at: &[RowAt],
        picked: impl Iterator<Item = usize> + Clone,
    ) -> Result<()> {
        let column = |name: &str| {
            let column = chunk.rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
            column.ok_or_else(|| Error::internal(format!("wide rows lack the column {name}")))
        };
        let (versions, ordinals) = (column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?);
        let version = |row: usize| versions.is_valid(row).then(|| versions.value(row));
        self.keys.extend(picked.clone().map(|row| chunk.keys[row]));
        self.versions.extend(picked.clone().map(version));
        self.ordinals.extend(picked.clone().map(|row| ordinals.value(row)));
        self.at.extend(picked.clone().map(|row| at[row]));
        for (all, codes) in self.codes.levels.iter_mut().zip(&chunk.codes.levels) {
            all.extend(picked.clone().map(|row| codes[row]));
        }
        Ok(())
    }

    /// Takes the first `count` rows out.
    pub(super) fn take(&mut self, count: usize) -> Pending {
        fn first<T>(of: &mut Vec<T>, count: usize) -> Vec<T> {
            let rest = of.split_off(count);
            std::mem::replace(of, rest)
        }
        Pending {
            keys: first(&mut self.keys, count),
            codes: LevelCodes { levels: self.codes.levels.iter_mut().map(|codes| first(codes, count)).collect() },
            versions: first(&mut self.versions, count),
            ordinals: first(&mut self.ordinals, count),
            at: first(&mut self.at, count),
        }
    }

    /// `_version` and `_ordinal`.
    pub(super) fn hidden(&self) -> [ArrayRef; 2] {
        let versions: UInt64Array = self.versions.iter().copied().collect();
        [Arc::new(versions), Arc::new(UInt64Array::from(self.ordinals.clone()))]
    }
}
