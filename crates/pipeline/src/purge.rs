//! Purges: no byte of what was deleted is left in the files of the database.
//!
//! Invariants:
//! - What readers may still ask for stays (K5): a purge waits for them, and says what it waits for.
//! - No batch is lost: a file of the log goes as after any sort, when all that it has is in segments that the manifest names.
//! - A purge that is cut short, by an error or a crash, has done a part of it, and nothing else; the next one does the rest.
//!
//! 1. Whoever calls closes the file of the log that is written to ([`Pipeline::close_log`]), and waits until all that was in it
//!    is visible.
//! 2. All of it is sorted.
//! 3. No snapshot is taken any more that is older than the newest kill of the table; merged stages of other tables may end
//!    before it, and are read again when they have come as far. The table alone is merged, and older pins are waited for.
//! 4. Segments with dead rows are written anew, without waiting until they are due.
//! 5. Members of dictionaries that no row has any more lose their names ([`alluvia_catalog::Watched`]).
//! 6. Readers may still hold files that were replaced; they are waited for, too.
//! 7. Files of the log go, and that files went is made durable.

use crate::handover::Handover;
use crate::pipeline::Pipeline;
use alluvia_catalog::CodeSet;
use alluvia_snapshot::{PurgeWait, Purged};
use alluvia_space::codes::is_arithmetic;
use alluvia_types::{Error, Result, SegmentId, TableId, Version};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Weak;

impl Pipeline {
    /// Ends the file of the log that is written to. All that it had has at most the version returned.
    ///
    /// Errors: as [`alluvia_log::Log::close_file`].
    pub fn close_log(&self) -> Result<Version> {
        self.log.close_file()
    }

    /// Removes what was deleted of a table through `closed`, which [`Pipeline::close_log`] has returned and which is visible.
    /// Between segments, and while something is waited for, `wait` is called again and again; an error of it ends the purge.
    ///
    /// Errors: as a sort and a merge, and those of `wait`.
    pub fn purge(
        &self,
        table: TableId,
        closed: Version,
        wait: &mut dyn FnMut(&PurgeWait) -> Result<()>,
    ) -> Result<Purged> {
        self.views.check_open(table)?;
        self.check_log_goes()?;
        let _one = loop {
            match self.purging.try_lock() {
                Some(one) => break one,
                None => wait(&PurgeWait::Another)?,
            }
        };
        let dropped = || self.views.base().tables.get(&table).map_or(0, |files| files.dropped);
        let dropped_before = dropped();
        while self.views.base().through < closed {
            wait(&PurgeWait::Working)?;
            self.sort()?;
        }
        let killed = self.views.killed_through(table, closed);
        self.views.raise_floor(killed);
        wait(&PurgeWait::Working)?;
        self.merge(table)?;
        loop {
            let pinned = self.views.pinned_below(killed);
            if pinned.is_empty() {
                break;
            }
            wait(&PurgeWait::Snapshots { killed, pinned })?;
        }
        let rewritten = self.rewrite_dead(table, killed, &mut || wait(&PurgeWait::Working))?;
        let members = self.forget_members(table, wait)?;
        // What merges replace from now on has nothing that was deleted before.
        let replaced: BTreeSet<SegmentId> =
            self.retired.lock().iter().filter(|one| one.table == table).map(|one| one.id).collect();
        loop {
            let held = self.held(&replaced)?;
            if held == 0 {
                break;
            }
            wait(&PurgeWait::Files(held))?;
        }
        self.end_purge()?;
        let rows = dropped().saturating_sub(dropped_before);
        Ok(Purged { rows, segments: rewritten.segments, bytes: rewritten.bytes, members })
    }

    /// Takes the names of members that no row of a table has any more. Returns how many there were.
    ///
    /// Whoever has a code that is to come to a row has asked for its member since the watch began, or is a load that is waited for,
    /// or has a row of the tail, which is asked for here; what segments have is read. So no code that goes is in use.
    fn forget_members(&self, table: TableId, wait: &mut dyn FnMut(&PurgeWait) -> Result<()>) -> Result<u64> {
        let Some(entry) = self.views.catalog().by_id(table).cloned() else { return Ok(0) };
        let Some(space) = self.views.spaces().existing(&entry.def)? else { return Ok(0) };
        let dictionaries = &space.dictionaries;
        let levels = entry.def.levels().count();
        if (0..levels).all(|level| dictionaries.is_empty(level)) {
            return Ok(0);
        }
        let watched = dictionaries.watch();
        let before: Vec<Weak<()>> = self.loads_of(table);
        while before.iter().any(|load| load.strong_count() > 0) {
            wait(&PurgeWait::Loads)?;
        }
        let _no_sort = self.sorting.lock();
        let _no_merge = self.merging.lock();
        let whole = self.views.whole_table(table);
        // Of a table that was dropped while others were waited for that is not all any more: who reads it still needs the names.
        if self.views.catalog().by_id(table).is_none() {
            return Ok(0);
        }
        let mut used = vec![CodeSet::default(); levels];
        for segment in &whole.segments {
            wait(&PurgeWait::Working)?;
            for (level, used) in used.iter_mut().enumerate().filter(|(level, _)| dictionaries.has_members(*level)) {
                for block in 0..segment.blocks() {
                    segment.codes(level, block)?.into_iter().for_each(|code| used.insert(code));
                }
            }
        }
        for rows in &whole.tail {
            dictionaries.remap_dimensions(&entry.def, rows, |dimension| !is_arithmetic(dimension))?;
        }
        let (mark, gone) = watched.forget_unused(used)?;
        let generation = mark.generation;
        let named = || self.views.base().tables.get(&table).and_then(|base| base.dictionary.clone());
        if named().as_ref() != Some(&mark) {
            self.edit(None, Vec::new(), &Handover::default(), |base| {
                base.tables.entry(table).or_default().dictionary = Some(mark);
                Vec::new()
            })?;
        }
        // Of a table that was dropped meanwhile all goes elsewhere.
        if named().is_some_and(|mark| mark.generation == generation) {
            self.remove_dictionaries(table, Some(generation))?;
        }
        Ok(gone)
    }

    /// Loads of a table that are not over.
    fn loads_of(&self, table: TableId) -> Vec<Weak<()>> {
        self.loading.lock().iter().filter(|(of, _)| *of == table).map(|(_, load)| Weak::clone(load)).collect()
    }

    /// How many of these segments, which were retired, are still held. Of those that are not, and whose files could not be removed, it
    /// is tried again.
    fn held(&self, segments: &BTreeSet<SegmentId>) -> Result<usize> {
        let mut retired = self.retired.lock();
        let of_these = retired.iter().filter(|one| segments.contains(&one.id));
        let (held, free): (Vec<_>, Vec<_>) = of_these.partition(|one| one.files.strong_count() > 0);
        let tree = self.tree();
        for path in free.iter().flat_map(|one| [tree.parquet_path(one.id), tree.side_path(one.id)]) {
            match tree.disk.remove(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::io(&path, "removing", &error)),
                _ => {}
            }
        }
        let held: BTreeSet<SegmentId> = held.iter().map(|one| one.id).collect();
        // One that was let go since is looked at again.
        retired.retain(|one| !segments.contains(&one.id) || held.contains(&one.id));
        Ok(held.len())
    }

    /// Removes files of the log that nothing needs, and makes durable that files are gone.
    fn end_purge(&self) -> Result<()> {
        self.give_log_up()?;
        self.log.sync_removals()?;
        let tree = self.tree();
        let dirs: [&Path; 2] = [&tree.dir, &self.dir];
        for dir in dirs {
            tree.disk.sync_dir(dir).map_err(|error| Error::io(dir, "syncing", &error))?;
        }
        Ok(())
    }
}
