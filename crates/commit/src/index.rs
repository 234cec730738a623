//! Rows that are found by their identities, and the keys of staged rows.
//!
//! Both read columns of whole segments. Of what is there that is done where rows of a table are named by version and
//! ordinal: nothing else knows where these are.

use alluvia_keys::RowPlace;
use alluvia_snapshot::{WholeTable, identities_of};
use alluvia_space::key_code::KeyCoder;
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::Segment;
use alluvia_types::{Result, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use std::collections::HashMap;
use std::sync::Arc;

/// The key columns of a segment's rows, in the order of the file.
pub(crate) fn key_columns(
    segment: &Arc<Segment>,
    coder: &KeyCoder,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let columns: Vec<(&str, DataType)> = coder.columns().collect();
    segment.column_batches(&columns)
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
