//! Replays the log into definitions, names of segments and numbers of batches, and checks the batches on the way.
//!
//! Invariants:
//! - Versions follow one another and commit times do not decrease (C1; that versions have no gap, the log's own reader
//!   holds).
//! - A producer's batch is there once, and so is one with a key within seven days, in the log and what the manifest and
//!   the files of keys remember of it (C3).
//! - Rows of a batch have each a number of their own in its table, and fit the definition of their version (C4).

use super::CheckReport;
use crate::core::{BEHIND_HEADER, lost_mark};
use crate::directory::LOG_DIR;
use alluvia_catalog::Catalog;
use alluvia_commit::Committer;
use alluvia_log::{Log, LogEnd};
use alluvia_snapshot::{BatchKey, KEYS_KEPT, KeyFiles, KeyRecord, Manifest, ProducerState, Published, Spaces};
use alluvia_storage::Disk;
use alluvia_tree::SegmentMeta;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// What the log holds beside rows.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) catalog: Arc<Catalog>,
    /// The last version; none when the log is damaged.
    pub(super) last: Option<Version>,
    /// Segments of staged loads.
    pub(super) staged: Vec<SegmentMeta>,
    /// How it ends; unknown when it is damaged.
    pub(super) end: Option<LogEnd>,
    keys: Vec<KeyRecord>,
}

/// Replays the log, and notes in `spaces` what staged loads need of dictionaries.
pub(super) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    spaces: &Spaces,
    report: &mut CheckReport,
) -> Result<Replayed> {
    let (mut staged, mut keys) = (Vec::new(), Vec::new());
    // The log is kept for tables that are closed, and the definitions as of where it begins.
    let (after, first) = match &manifest.held {
        Some(held) => (held.after.min(manifest.through), &held.catalog),
        None => (manifest.through, &manifest.catalog),
    };
    let mut catalog = Arc::new(first.clone());
    let mut batches = Batches { producers: manifest.producers.clone(), before: None, wrong: Vec::new() };
    let mut log_rows: BTreeMap<TableId, u64> = BTreeMap::new();
    let read = Log::read(disk, &dir.join(LOG_DIR), manifest.database, after, &mut |record| {
        let version = record.version;
        let published = Committer::read(&record, &catalog, spaces)?.published;
        let is_new = version > manifest.through;
        let files = |table: TableId| manifest.tables.get(&table);
        // What is in files is looked at there.
        let is_in_log =
            |table: TableId| version > files(table).and_then(|files| files.held).unwrap_or(manifest.through);
        if is_new {
            batches.check_next(&published);
        }
        for (table, batch, _) in published.rows.iter().filter(|(table, _, _)| is_in_log(*table)) {
            *log_rows.entry(*table).or_default() += batch.num_rows() as u64;
        }
        if let Some(key) = published.info.key.filter(|_| is_new) {
            let (commit_micros, rows) = (published.info.commit_micros, published.info.rows);
            keys.push(KeyRecord { key, version, commit_micros, rows });
        }
        if let Some(changed) = published.catalog {
            catalog = changed;
        }
        let is_forgotten = |meta: &SegmentMeta| {
            files(meta.table).is_some_and(|files| files.forgotten.iter().any(|lost| lost.segment == meta.id))
        };
        let loads = published.loads.into_iter().filter(|load| is_in_log(load.table));
        let segments = loads.flat_map(|load| load.segments).filter(|meta| !is_forgotten(meta));
        staged.extend(segments.map(|meta| meta.committed_as(version)));
        Ok(())
    });
    // Rows of tables that were dropped since are nobody's.
    log_rows.retain(|table, _| catalog.by_id(*table).is_some());
    report.log_rows = log_rows.into_values().sum();
    batches.wrong.into_iter().try_for_each(|error| report.add_finding(error))?;
    let (last, end) = match read {
        Ok(summary) if summary.last_version < manifest.through => {
            report.add_finding(log_ends_early(summary.last_version, manifest.through))?;
            (None, None)
        }
        Ok(summary) => {
            let last = summary.last_version.max(manifest.through);
            note_end(&summary.end, last, report);
            if manifest.marked && !summary.end.has_mark {
                report.add_finding(lost_mark(&dir.join(LOG_DIR)))?;
            }
            summary.damaged_mark.into_iter().try_for_each(|error| report.add_finding(error))?;
            (Some(last), Some(summary.end))
        }
        Err(error) => {
            report.add_finding(error)?;
            (None, None)
        }
    };
    Ok(Replayed { catalog, last, staged, end, keys })
}

/// Notes how a log ends that was not stopped cleanly.
fn note_end(end: &LogEnd, last: Version, report: &mut CheckReport) {
    if let Some(torn) = end.torn {
        report.torn_log_bytes = torn.bytes;
        report.torn_log = Some(format!("{torn}; everything through version {last} is there"));
    } else if !end.is_closed {
        let behind = if end.is_behind_header { format!("; {BEHIND_HEADER}") } else { String::new() };
        report
            .notices
            .push(format!("the last process did not stop cleanly: everything through version {last} is there{behind}"));
    }
}

/// What the next batch of the log is checked against.
struct Batches {
    producers: BTreeMap<String, ProducerState>,
    /// The commit time of the batch before.
    before: Option<i64>,
    wrong: Vec<Error>,
}

impl Batches {
    /// Checks the next batch.
    fn check_next(&mut self, batch: &Published) {
        let info = &batch.info;
        let version = info.version;
        if let Some(before) = self.before.replace(info.commit_micros).filter(|before| *before > info.commit_micros) {
            let micros = info.commit_micros;
            self.wrong.push(contradiction(format!("version {version} of time {micros} follows one of time {before}")));
        }
        if let Some(mark) = &info.producer {
            let state = ProducerState { epoch: mark.epoch, sequence: mark.sequence, version };
            let known = self.producers.insert(mark.name.clone(), state);
            if let Some(known) = known.filter(|known| (known.epoch, known.sequence) >= (mark.epoch, mark.sequence)) {
                self.wrong.push(contradiction(format!(
                    "version {version} is batch {} of epoch {} of producer '{}', and version {} was batch {} of epoch {}",
                    mark.sequence, mark.epoch, mark.name, known.version, known.sequence, known.epoch
                )));
            }
        }
        let mut tables: BTreeSet<TableId> = BTreeSet::new();
        for (table, _, _) in batch.rows.iter().filter(|(table, _, _)| !tables.insert(*table)) {
            let what = format!("version {version} has rows of table {table} in two parts, which are numbered alike");
            self.wrong.push(contradiction(what));
        }
        for load in &batch.loads {
            let (rows, said) = (load.segments.iter().map(|meta| meta.rows).sum::<u64>(), load.rows);
            if rows != said || load.segments.iter().any(|meta| meta.table != load.table) {
                let what = format!("version {version} stages {said} rows of table {}", load.table);
                self.wrong
                    .push(contradiction(format!("{what}, and its segments are of {rows} rows, or of other tables")));
            }
        }
    }
}

/// Checks the files of idempotency keys together with the keys that the log has.
pub(super) fn check_keys(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    replayed: &Replayed,
    report: &mut CheckReport,
) -> Result<()> {
    let read = KeyFiles::read_all(disk, dir, manifest.keys.as_deref(), &mut |error| report.add_finding(error));
    let mut records = match read {
        Ok((_, records)) => records,
        Err(error) => return report.add_finding(error),
    };
    // A write that failed at the end of a file once made the next file say again what was said: that is no other batch.
    let mut said: HashMap<(BatchKey, Version), KeyRecord> = HashMap::with_capacity(records.len());
    records.retain(|record| said.insert((record.key, record.version), *record) != Some(*record));
    let not_after = |pair: &&[KeyRecord]| pair[0].version >= pair[1].version;
    if let Some(pair) = records.windows(2).find(not_after) {
        let (one, other) = (pair[0].version, pair[1].version);
        report.add_finding(wrong_keys(format!("the key of version {other} comes after that of version {one}")))?;
    }
    if let Some(record) = records.iter().find(|record| replayed.last.is_some_and(|last| record.version > last)) {
        let version = record.version;
        report.add_finding(wrong_keys(format!("there is a key of version {version}, which the log does not reach")))?;
    }
    records.extend_from_slice(&replayed.keys);
    let mut known: HashMap<BatchKey, KeyRecord> = HashMap::with_capacity(records.len());
    for record in records {
        let Some(before) = known.insert(record.key, record) else { continue };
        // A batch that is in the log yet may be in the files already.
        let between = record.commit_micros.saturating_sub(before.commit_micros);
        if before.version != record.version && between <= KEYS_KEPT.as_micros() as i64 {
            let (one, other) = (before.version, record.version);
            report.add_finding(wrong_keys(format!("versions {one} and {other} have the same key within 7 days")))?;
        }
    }
    Ok(())
}

/// A finding about batches.
fn contradiction(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the log's batches contradict one another: {what}"))
        .with_hint("something else than Alluvia wrote them, or a defect did; restore the data directory from a copy")
}

/// A finding about a log that is kept for a closed table, and does not reach the manifest.
fn log_ends_early(last: Version, through: Version) -> Error {
    let message = format!("the log ends at version {last}, and the manifest has version {through}");
    Error::new(ErrorKind::Corrupt, message).with_hint("restore the data directory from a copy")
}

/// A finding about keys.
fn wrong_keys(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, format!("files keys-*: {what}")).with_hint(
        "they hold idempotency keys and no rows: a batch may be applied twice; look at the rows of these versions (_version)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_catalog::DictionaryMark;
    use alluvia_snapshot::{BatchInfo, RowChange, StagedLoad};
    use alluvia_types::ProducerMark;

    fn batch(version: u64, commit_micros: i64, mark: Option<(u64, u64)>) -> Published {
        let producer = mark.map(|(epoch, sequence)| ProducerMark { name: "loader".to_owned(), epoch, sequence });
        let info = BatchInfo {
            version: Version(version),
            commit_micros,
            rows: 0,
            tables: Vec::new(),
            changes: 0,
            bytes: 0,
            producer,
            key: None,
        };
        Published { info, catalog: None, rows: Vec::new(), keys: Vec::new(), loads: Vec::new(), room: None }
    }

    /// What is wrong with batches that follow a manifest with this producer.
    fn wrong_of(batches: &[Published]) -> Vec<String> {
        let known = ProducerState { epoch: 2, sequence: 7, version: Version(3) };
        let producers = BTreeMap::from([("loader".to_owned(), known)]);
        let mut follower = Batches { producers, before: None, wrong: Vec::new() };
        batches.iter().for_each(|batch| follower.check_next(batch));
        follower.wrong.iter().map(|error| error.message().to_owned()).collect()
    }

    #[test]
    fn producers_go_on_and_times_do_not_decrease() {
        let sound = [
            batch(4, 50, Some((2, 8))),
            batch(5, 50, None),
            batch(6, 51, Some((2, 9))),
            batch(7, 51, Some((3, 1))),
            batch(8, 60, Some((3, 2))),
        ];
        assert_eq!(wrong_of(&sound), Vec::<String>::new());
        for (again, says) in [
            (
                Some((2, 7)),
                "version 4 is batch 7 of epoch 2 of producer 'loader', and version 3 was batch 7 of epoch 2",
            ),
            (Some((1, 9)), "version 4 is batch 9 of epoch 1"),
        ] {
            let wrong = wrong_of(&[batch(4, 0, again)]);
            assert!(wrong.len() == 1 && wrong[0].contains(says), "{wrong:?}");
        }
        let wrong = wrong_of(&[batch(4, 51, None), batch(5, 50, None), batch(6, 50, None)]);
        assert!(wrong.len() == 1 && wrong[0].contains("version 5 of time 50 follows one of time 51"), "{wrong:?}");
    }

    #[test]
    fn a_load_has_the_rows_that_its_batch_says() {
        let load = StagedLoad {
            table: TableId(1),
            checked_at: Version(1),
            segments: Vec::new(),
            dictionary: DictionaryMark::default(),
            ranges: Vec::new(),
            rows: 5,
            change: RowChange::Insert,
            staging: Default::default(),
        };
        let wrong = wrong_of(&[Published { loads: vec![load], ..batch(4, 0, None) }]);
        assert!(wrong.len() == 1 && wrong[0].contains("version 4 stages 5 rows of table 1"), "{wrong:?}");
    }
}
