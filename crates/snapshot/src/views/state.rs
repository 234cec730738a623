//! The state of the views: for each table the version and the stages that answer a statement.

use super::{Attached, State, TableKills};
use crate::killed::KilledPlaces;
use crate::manifest::TableBase;
use crate::ports::Want;
use crate::snapshot::{TableRead, TailRead};
use crate::tail::TailTable;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_tree::{KilledRows, Segment, SegmentRows};
use alluvia_types::{Error, ErrorKind, Freshness, Result, Stage, TableId, Version, planted};
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "paranoid")]
use {crate::manifest::Base, std::collections::BTreeMap};

impl State {
    /// Takes the rows of tables that `catalog` lacks, which is that of `version`, out of the tail, and their staged
    /// loads from readers.
    pub(super) fn leave_dropped(&mut self, catalog: &Catalog, version: Version) {
        let is_gone = |table: TableId| catalog.by_id(table).is_none();
        for (_, mut tail) in self.tails.extract_if(|&table, _| is_gone(table)) {
            self.tail_bytes -= tail.bytes();
            tail.drop_through(version, self.pinned.get_mut());
        }
        for (&staged, loads) in &mut self.attached {
            let left: Vec<Attached> = loads.extract_if(.., |(table, _)| is_gone(*table)).collect();
            if !left.is_empty() {
                self.dropped.entry(staged).or_default().extend(left);
            }
        }
        self.attached.retain(|_, loads| !loads.is_empty());
    }

    /// Rows of each table that `base` has, wherever they are now. Not of one that was dropped while `base` was made: it
    /// has no tail any more, and the next base does not have it.
    #[cfg(feature = "paranoid")]
    pub(super) fn rows_of(&self, base: &Base) -> BTreeMap<TableId, u64> {
        let count = |segments: &[Arc<Segment>]| segments.iter().map(|segment| segment.meta().rows).sum::<u64>();
        let rows = |&table: &TableId| {
            let based = self.base.tables.get(&table);
            let based = based.map_or(0, |base| count(&base.sorted) + base.merged().map(|s| s.meta().rows).sum::<u64>());
            let attached = self.attached.values().flatten().filter(|(owner, _)| *owner == table);
            let attached: u64 = attached.map(|(_, segments)| count(segments)).sum();
            (table, based + attached + self.tails.get(&table).map_or(0, TailTable::rows))
        };
        base.tables.keys().filter(|&&table| self.catalog.by_id(table).is_some()).map(rows).collect()
    }

    /// The version and the least organised stage that a statement must read.
    pub(super) fn choose(&self, want: &Want, now: Duration) -> Result<(Version, Stage)> {
        let complete =
            |stage| want.tables.iter().map(|&table| self.watermark(table, stage)).min().unwrap_or(self.visible);
        if let Some(version) = want.exactly {
            if version > self.visible {
                return Err(Error::internal(format!(
                    "snapshot {version} is above the visible version {}",
                    self.visible
                )));
            }
            let stage = [Stage::Merged, Stage::Sorted].into_iter().find(|&stage| complete(stage) >= version);
            return Ok((version, stage.unwrap_or(Stage::Ingested)));
        }
        let fresh = match want.freshness {
            Freshness::Within(age) if planted("twice as old") => self.times.required(now, age * 2),
            Freshness::Within(age) => self.times.required(now, age),
            Freshness::Merged => Version(0),
        };
        let required = fresh.max(want.at_least).max(self.floor);
        if required > self.visible {
            return Err(Error::new(ErrorKind::Internal, format!("version {required} is not visible yet")));
        }
        for stage in [Stage::Merged, Stage::Sorted] {
            let version = complete(stage);
            if version >= required {
                return Ok((version, stage));
            }
        }
        Ok((self.visible, Stage::Ingested))
    }

    /// The version through which `stage` holds all rows of a table.
    pub(super) fn watermark(&self, table: TableId, stage: Stage) -> Version {
        let first_in_tail = self.tails.get(&table).and_then(|tail| tail.first_above(self.base.through));
        // A batch that only kills rows is one that a sort has yet to take.
        let first_kill = self.kills.get(&table).and_then(TableKills::first).filter(|first| *first <= self.visible);
        let first_in_tail = first_in_tail.into_iter().chain(first_kill).min();
        let sorted = first_in_tail.map_or(self.visible, |first| Version(first.0 - 1));
        match stage {
            Stage::Ingested => self.visible,
            Stage::Sorted => sorted,
            Stage::Merged => {
                let attached =
                    |(_, loads): &(&Version, &Vec<(TableId, _)>)| loads.iter().any(|(owner, _)| *owner == table);
                let attached = self.attached.iter().find(attached).map(|(version, _)| Version(version.0 - 1));
                let merged = self.base.tables.get(&table).map_or(sorted, |base| base.merged_through(sorted));
                merged.min(attached.unwrap_or(merged))
            }
        }
    }

    /// The rows of a table that were killed above one version, which is pinned, and through another that is visible.
    pub(super) fn killed(&self, table: TableId, above: Version, through: Version) -> Option<KilledPlaces> {
        self.catalog.by_id(table)?;
        let mut killed = KilledPlaces::default();
        let Some(kills) = self.kills.get(&table) else { return Some(killed) };
        let base = self.base.tables.get(&table);
        let based = base.iter().flat_map(|base| base.merged().chain(&base.sorted));
        let attached = self.attached.values().flatten().filter(|(owner, _)| *owner == table);
        for segment in based.chain(attached.flat_map(|(_, segments)| segments)) {
            let dead = kills.of(segment.meta().id);
            killed.segments.extend(dead.and_then(|dead| KilledRows::new(segment, dead, above, through)));
        }
        let (mut counted, mut brief): (Vec<_>, Vec<_>) =
            kills.killed_in_tail(above, through).partition(|(came, _)| *came <= above);
        if planted("killed row not taken off") {
            counted.clear();
        }
        counted.sort_unstable();
        brief.sort_unstable();
        if planted("dead row added") {
            brief.clear();
        }
        if !counted.is_empty() {
            killed.tail = self.tails.get(&table)?.find(&counted)?;
        }
        killed.brief = brief;
        Some(killed)
    }

    /// How many rows of a segment are dead at the visible version.
    pub(super) fn dead_rows_of(&self, segment: &Segment) -> u64 {
        let kills = self.kills.get(&segment.meta().table);
        let dead = kills.and_then(|kills| kills.of(segment.meta().id));
        dead.map_or(0, |dead| dead.rows_by(self.visible))
    }

    /// How many rows a table has at most: dead ones are among them.
    pub(super) fn rows_at_most(&self, table: TableId) -> u64 {
        let based = self.base.tables.get(&table);
        let based = based.iter().flat_map(|base| base.merged().chain(&base.sorted));
        let attached = self.attached.values().flatten().filter(|(owner, _)| *owner == table);
        let segments = based.chain(attached.flat_map(|(_, segments)| segments));
        let rows: u64 = segments.map(|segment| segment.meta().rows).sum();
        rows + self.tails.get(&table).map_or(0, TailTable::rows)
    }

    pub(super) fn read_table(&self, entry: &Arc<TableEntry>, version: Version, stage: Stage) -> TableRead {
        let table = entry.def.id;
        let kills = self.kills.get(&table);
        let mut segments = Vec::new();
        let mut add = |segment: &Arc<Segment>| {
            let meta = segment.meta();
            if meta.min_version <= version {
                let has_later = meta.max_version > version && !planted("later rows of a segment");
                let through = has_later.then_some(version);
                let dead = kills.and_then(|kills| kills.dead_rows(segment, version));
                segments.push(SegmentRows { segment: Arc::clone(segment), above: None, through, dead });
            }
        };
        let base: Option<&TableBase> = self.base.tables.get(&table);
        base.iter().flat_map(|base| base.merged()).for_each(&mut add);
        if stage < Stage::Merged {
            base.iter().flat_map(|base| &base.sorted).for_each(&mut add);
            let attached = self.attached.values().flatten().filter(|(owner, _)| *owner == table);
            attached.flat_map(|(_, segments)| segments).for_each(&mut add);
        }
        let (mut tail, mut is_tail_cut) = (Vec::new(), false);
        if stage == Stage::Ingested
            && let Some(rows) = self.tails.get(&table)
        {
            let above = self.base.through;
            let slices = match kills.map(TableKills::tail).filter(|dead| !dead.is_empty()) {
                Some(dead) => {
                    let (slices, is_cut) = rows.read_live(above, version, dead);
                    is_tail_cut = is_cut;
                    slices
                }
                None if planted("later rows of the tail") => rows.read(above, self.visible),
                None => rows.read(above, version),
            };
            tail.extend(slices.into_iter().map(TailRead::of_run));
        }
        let killed_through = kills.map_or(Version(0), |kills| kills.killed_through(version));
        TableRead { segments, tail, is_tail_cut, killed_through, ..TableRead::empty(Arc::clone(entry)) }
    }
}
