//! Rows in memory: at every version that is pinned, and from which on a heap was made, it has the rows of the model, by their keys and by
//! its ordered index, whatever was sorted, merged, taken back by a full disk or loaded meanwhile.

use super::model::TableModel;
use super::world::Checked;
use alluvia_heap::RowRef;
use alluvia_sim::rows::{Row, rows_in};
use alluvia_sim::{Engine, Random};
use alluvia_snapshot::TableRead;
use alluvia_space::key_code::KeyCode;
use alluvia_types::Version;

/// More than tables of histories take.
const BYTES_MAX: usize = 1 << 30;

/// Compares a table's heap, if it has one that begins with this version or an earlier one, with the model; `keys` are some, with what they
/// have. Now and then a table that has none gets one.
pub fn compare(
    engine: &Engine,
    version: u64,
    read: &TableRead,
    (model, keys): (&TableModel, &[(KeyCode, Option<Row>)]),
    random: &mut Random,
) -> Checked {
    let (views, table) = (engine.views(), read.entry.def.id);
    views.heaps().set_bytes_max(BYTES_MAX);
    if random.one_in(3)
        && let Some(load) = views.begin_heap(table)
    {
        load.run().map_err(|error| format!("a heap: {error}"))?;
    }
    let Some(heaps) = views.rows_in_memory(&[table], Some(Version(version))) else { return Ok(()) };
    // It may begin with a later version.
    let Some(rows) = heaps.rows() else { return Ok(()) };
    let Some(view) = rows.first() else { return Err("a heap has no rows".to_owned()) };
    let def = &view.heap().entry().def;
    let columns: Vec<usize> = (0..def.columns.len()).collect();
    let values = |found: &[RowRef<'_>]| -> Checked<Vec<Row>> {
        let decoded = view.heap().layout().decoded(found, &columns).map_err(|error| error.to_string())?;
        rows_in(def, &decoded).map_err(|error| error.to_string())
    };
    for (code, expected) in keys {
        let found: Vec<RowRef<'_>> = view.by_code(*code, Version(version)).into_iter().collect();
        let found = values(&found)?.pop();
        if found != *expected {
            return Err(format!("version {version}: the heap has {found:?} instead of {expected:?}"));
        }
    }
    let all = view.ranges(0, &[], None, None, 1).map_err(|error| error.to_string())?;
    let found: Vec<RowRef<'_>> =
        view.in_range(0, &all[0], Version(version), random.one_in(2)).flatten().map(|(_, row)| row).collect();
    let mut found = values(&found)?;
    found.sort();
    let expected = model.contents(version);
    if found != expected {
        return Err(format!("version {version}: the heap has {} rows, and the table {}", found.len(), expected.len()));
    }
    Ok(())
}
