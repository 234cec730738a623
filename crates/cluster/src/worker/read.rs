//! Reading at a version: the same answer at every replica, or none.
//!
//! Invariant: a snapshot of a version has the rows that its shards have at that version of the cluster, all of them.

use alluvia_snapshot::{Snapshot, Views, Want};
use alluvia_types::{Error, ErrorKind, Freshness, Result, TableId, Version, planted};
use std::time::Duration;

/// A snapshot of shards at exactly a version.
///
/// Errors: `Busy`: this worker is not through the version yet; another may be. `Conflict`: rows that went since are gone for good; ask at a
/// newer version; so, too, where the table was altered since. `UndefinedTable`: a shard is not here.
pub fn snapshot_at(views: &Views, version: Version, shards: &[TableId]) -> Result<Snapshot> {
    let visible = views.visible();
    if version > visible && !planted("answer before its version") {
        let what = format!("this worker is through version {visible}, and is asked at {version}");
        return Err(Error::new(ErrorKind::Busy, what).with_hint("ask again, or ask another replica"));
    }
    let exactly = Some(version.min(visible));
    let (freshness, at_least) = (Freshness::Within(Duration::ZERO), Version(0));
    let snapshot = views.snapshot(&Want { freshness, at_least, exactly, tables: shards.to_vec() })?;
    for &shard in shards {
        let Some(read) = snapshot.tables.get(&shard) else {
            return Err(Error::new(ErrorKind::UndefinedTable, format!("shard {shard} is not at this worker")));
        };
        if read.entry.changed_at > version {
            let what = format!("the table of shard {shard} was altered after version {version}");
            return Err(Error::new(ErrorKind::Conflict, what).with_hint("ask at a newer version"));
        }
        if !views.is_whole_at(shard, version) && !planted("asked below the last sort") {
            let what = format!("rows of shard {shard} that went after version {version} are gone");
            return Err(Error::new(ErrorKind::Conflict, what).with_hint("ask at a newer version"));
        }
    }
    Ok(snapshot)
}
