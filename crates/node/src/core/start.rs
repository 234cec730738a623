//! From the files of a data directory to views that are at the log's end.
//!
//! Invariant: damage to a file of a table keeps no other table from opening, wherever it is met: by the manifest, or while the log is read.
//! Where the log meets it, nothing was changed yet, and all is read again without that table, whose changes stay in the log.

use crate::directory::LOG_DIR;
use crate::options::DatabaseOptions;
use alluvia_catalog::LevelBounds;
use alluvia_commit::{Committer, RecoveredLog};
use alluvia_pipeline::open;
use alluvia_snapshot::{KEYS_LOST_NAME, KeyFiles, KeyRecord, Manifest, Spaces, Views};
use alluvia_storage::Disk;
use alluvia_tree::TreeContext;
use alluvia_types::{Clock, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What was opened.
pub(super) struct Started {
    pub(super) manifest: Manifest,
    pub(super) spaces: Arc<Spaces>,
    pub(super) views: Arc<Views>,
    pub(super) key_files: KeyFiles,
    pub(super) keys: Vec<KeyRecord>,
    pub(super) recovered: RecoveredLog,
}

/// Opens what is in `dir`, or makes a database there; `seed` names a new one.
pub(super) fn start(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    clock: &Arc<dyn Clock>,
    options: &DatabaseOptions,
    tree: &TreeContext,
    seed: u64,
) -> Result<Started> {
    let mut closing = BTreeMap::new();
    loop {
        let bounds = LevelBounds::new(options.level_bytes_max, options.tail_bytes_max());
        let spaces = Arc::new(Spaces::new(Arc::clone(disk), dir.into()).with_bounds(bounds));
        let opened = open(disk.as_ref(), dir, tree, &spaces, seed, &closing)?;
        let catalog = opened.catalog().clone();
        let manifest = opened.manifest;
        // Before anything is changed.
        let (key_files, keys) = KeyFiles::load(disk.as_ref(), dir, manifest.keys.as_deref())?;
        for told in &opened.mended {
            tracing::warn!("{told}");
        }
        let views = Arc::new(Views::new(
            Arc::clone(clock),
            tree.clone(),
            Arc::clone(&spaces),
            catalog,
            manifest.producers.clone(),
            opened.base,
            opened.dead,
            options.tail_bounds(),
        ));
        views.keys().set_index_bytes_max(options.key_bytes_max());
        let log_options = options.log_options(manifest.database, clock);
        let recovered = match Committer::recover(Arc::clone(disk), &dir.join(LOG_DIR), log_options, &views) {
            Ok(recovered) => recovered,
            Err(stopped) => match stopped.to_close().filter(|table| !closing.contains_key(table)) {
                Some(table) => {
                    closing.insert(table, stopped.error);
                    continue;
                }
                None => return Err(stopped.error),
            },
        };
        for error in key_files.lost() {
            tracing::warn!(%error, "idempotency keys are lost, as a file '{KEYS_LOST_NAME}' allows");
        }
        for closed in views.base().closed.values() {
            tracing::error!(error = %closed.error, "a table is closed, since a file of it is missing or damaged");
        }
        if let Some(held) = views.base().held() {
            let from = held.after.next().0;
            tracing::warn!(
                from,
                "the log is kept from this version on, for a table that is closed: it grows until that is open or dropped"
            );
        }
        return Ok(Started { manifest, spaces, views, key_files, keys, recovered });
    }
}
