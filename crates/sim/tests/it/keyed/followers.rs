//! Who has the rows of a version and follows the log from there: what is told of rows that were killed since, wherever they
//! are by then, is what he must take off, and nothing else.

use super::world::Checked;
use alluvia_sim::Engine;
use alluvia_sim::rows::{found_rows, rows_of};
use alluvia_snapshot::Killed;
use alluvia_types::{Error, Result, TableId, Version};
use std::collections::BTreeSet;

/// Version and ordinal.
type Identity = (u64, u64);

/// Rows of a version less those that were killed since are those of it that the newest one has; with what came to the tail, if
/// all of that is there yet, they are the newest one.
pub fn check(engine: &Engine, tables: &[TableId], above: Version) -> Checked {
    for (at, &table) in tables.iter().enumerate() {
        let what = check_table(engine, table, above).map_err(|error| error.to_string())?;
        if let Some(what) = what {
            return Err(format!("table {at}: who follows it from version {above} {what}"));
        }
    }
    Ok(())
}

/// What is wrong, if anything is.
fn check_table(engine: &Engine, table: TableId, above: Version) -> Result<Option<String>> {
    let views = engine.views();
    let (newer, through) = (views.newer(table, above, above), views.visible());
    let Some(killed) = views.killed(table, above, through) else { return Ok(None) };
    let read = |version: Version| -> Result<BTreeSet<Identity>> {
        let rows = rows_of(&engine.snapshot_at(version, &[table])?, table)?;
        Ok(rows.into_iter().map(|row| (row.version, row.ordinal)).collect())
    };
    let (before, now) = (read(above)?, read(through)?);
    let gone: Vec<Identity> = before.difference(&now).copied().collect();
    let told = identities(engine, table, &killed, above)?;
    if told != gone {
        return Ok(Some(format!("is told that {told:?} were killed, and it is {gone:?}")));
    }
    let Some(newer) = newer else { return Ok(None) };
    let told = identities(engine, table, &newer.killed, above)?;
    let mut rows: BTreeSet<Identity> = before.into_iter().filter(|row| !told.contains(row)).collect();
    for run in &newer.tail {
        rows.extend(found_rows(&newer.entry.def, &run.rows)?.into_iter().map(|row| (row.version, row.ordinal)));
    }
    newer.killed.brief.iter().for_each(|(version, ordinal)| {
        rows.remove(&(version.0, *ordinal));
    });
    Ok((rows != now).then(|| format!("has {rows:?} at version {through}, and it is {now:?}")))
}

/// The rows that have to be taken off, ascending.
fn identities(engine: &Engine, table: TableId, killed: &Killed, above: Version) -> Result<Vec<Identity>> {
    let entry = engine.entry(table).ok_or_else(|| Error::internal("the table is gone"))?;
    let mut identities = Vec::new();
    for rows in &killed.segments {
        // Of staged rows the file does not know the version.
        let fixed = rows.segment().meta().fixed_version;
        for row in rows.rows_at_most() {
            let of_row = rows.segment().identities(row..row + 1)?.into_iter();
            let of_row = of_row.map(|(version, ordinal)| (fixed.map_or(version, |fixed| fixed.0), ordinal));
            identities.extend(of_row.filter(|row| row.0 <= above.0));
        }
    }
    for rows in &killed.tail {
        identities.extend(found_rows(&entry.def, rows)?.into_iter().map(|row| (row.version, row.ordinal)));
    }
    identities.sort_unstable();
    Ok(identities)
}
