//! Key indexes, made of what is there, and rows that are found by their identities.
//!
//! Both read columns of whole segments. That is slow, and done where nothing else knows: when a table is first changed by
//! key after the database was opened, and when rows of a table are named by version and ordinal.

use alluvia_keys::{KeyIndex, RowPlace};
use alluvia_snapshot::WholeTable;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::Segment;
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use std::collections::HashMap;
use std::sync::Arc;

/// The index of a table's live rows.
pub(crate) fn load_index(coder: &KeyCoder, whole: &WholeTable) -> Result<KeyIndex> {
    let mut index = KeyIndex::default();
    let rows = |segment: &Arc<Segment>| {
        let meta = segment.meta();
        meta.rows - whole.kills.of(meta.id).map_or(0, |dead| dead.rows())
    };
    index.reserve(whole.segments.iter().map(rows).sum::<u64>() as usize);
    let mut add = |code: KeyCode, place: RowPlace| match index.insert(code, place) {
        None => Ok(()),
        Some(other) => {
            Err(Error::new(ErrorKind::Corrupt, format!("two rows of a table have one key: {place:?} and {other:?}"))
                .with_hint("run `alluvia check` and restore the data directory from a copy"))
        }
    };
    for segment in &whole.segments {
        let id = segment.meta().id;
        let dead = whole.kills.of(id);
        let mut row = 0;
        for keys in key_columns(segment, coder)? {
            for code in coder.codes(&keys?)? {
                if dead.is_none_or(|dead| !dead.is_killed_by(row, Version(u64::MAX))) {
                    add(code, RowPlace::Segment { segment: id, row: row as u32 })?;
                }
                row += 1;
            }
        }
    }
    for rows in &whole.tail {
        let identities = identities_of(rows)?;
        for (code, (version, ordinal)) in coder.codes(rows)?.into_iter().zip(identities) {
            if !whole.kills.tail().contains_key(&(version, ordinal)) {
                add(code, RowPlace::Tail { version, ordinal })?;
            }
        }
    }
    Ok(index)
}

/// The key columns of a segment's rows, in the order of the file.
pub(crate) fn key_columns(
    segment: &Arc<Segment>,
    coder: &KeyCoder,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let columns: Vec<(&str, DataType)> = coder.columns().collect();
    segment.column_batches(&columns)
}

/// Versions and ordinals of rows.
pub(crate) fn identities_of(rows: &RecordBatch) -> Result<Vec<(Version, u64)>> {
    let column = |name: &str| {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        column.filter(|column| column.null_count() == 0).ok_or_else(|| {
            Error::new(ErrorKind::InvalidValue, format!("rows that are named by version and ordinal lack {name}"))
        })
    };
    let (versions, ordinals) = (column(VERSION_COLUMN)?, column(ORDINAL_COLUMN)?);
    Ok(versions.values().iter().map(|&version| Version(version)).zip(ordinals.values().iter().copied()).collect())
}

/// The places of rows; `None` for those that are not there any more.
pub(crate) fn locate(whole: &WholeTable, identities: &[(Version, u64)]) -> Result<Vec<Option<RowPlace>>> {
    let mut places: Vec<Option<RowPlace>> = vec![None; identities.len()];
    let mut wanted: HashMap<(Version, u64), Vec<usize>> = HashMap::with_capacity(identities.len());
    for (at, identity) in identities.iter().enumerate() {
        wanted.entry(*identity).or_default().push(at);
    }
    let (least, most) = match (identities.iter().min(), identities.iter().max()) {
        (Some(least), Some(most)) => (least.0, most.0),
        _ => return Ok(places),
    };
    let mut found = |identity: (Version, u64), place: RowPlace| {
        for &at in wanted.get(&identity).into_iter().flatten() {
            places[at] = Some(place);
        }
    };
    for rows in &whole.tail {
        for (version, ordinal) in identities_of(rows)? {
            found((version, ordinal), RowPlace::Tail { version, ordinal });
        }
    }
    let columns = [(VERSION_COLUMN, DataType::UInt64), (ORDINAL_COLUMN, DataType::UInt64)];
    for segment in &whole.segments {
        let meta = segment.meta();
        if meta.min_version > most || meta.max_version < least {
            continue;
        }
        let mut row = 0;
        for rows in segment.column_batches(&columns)? {
            for identity in identities_of(&rows?)? {
                found(identity, RowPlace::Segment { segment: meta.id, row });
                row += 1;
            }
        }
    }
    Ok(places)
}
