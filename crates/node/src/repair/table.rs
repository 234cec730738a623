//! The repair of one table's files.
//!
//! Invariants:
//! - A segment is lost if its Parquet file is damaged, or no side file can be made of it. Of all others no row goes.
//! - A side file of which nothing proves that its rows are those that were written is used here, where somebody has told so, and it is said.

use super::RepairReport;
use super::copy::DirectoryCopy;
use alluvia_catalog::Dictionaries;
use alluvia_pipeline::space_of;
use alluvia_snapshot::{Forgotten, TableFiles, kills};
use alluvia_space::TableDef;
use alluvia_tree::{Damage, Proof, RebuiltSide, Segment, SegmentMeta, TreeContext};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One table, and what is told of it.
pub(super) struct TableRepair<'a> {
    pub(super) dir: &'a Path,
    pub(super) tree: &'a TreeContext,
    pub(super) def: &'a TableDef,
    pub(super) through: Version,
    pub(super) copy: Option<&'a DirectoryCopy<'a>>,
    pub(super) is_told: bool,
    pub(super) report: &'a mut RepairReport,
}

/// What keys and codes are made of, if it can be read.
type Space = Option<(TableDef, Dictionaries)>;

impl TableRepair<'_> {
    /// Looks at all files, and changes what the manifest is to say of them if it is told to. `gone` gets segments and rungs whose files go
    /// after that.
    pub(super) fn run(
        mut self,
        files: &mut TableFiles,
        next_segment: &mut u64,
        gone: &mut Vec<SegmentMeta>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let name = self.def.shown();
        let dead = self.dead_rows(files)?;
        let space = match space_of(self.dir, self.tree, self.def, files) {
            Ok(space) => Some(space),
            Err(error) => {
                let from_copy = self.copy.map(|copy| copy.dictionaries(self.def, files, &error, self.report));
                self.found_or_left(from_copy, error)?
            }
        };
        let metas: Vec<SegmentMeta> = files.segments().cloned().collect();
        for meta in metas {
            progress(&format!("segment {} of table '{name}', {} rows", meta.id, meta.rows));
            self.report.segments += 1;
            let mut damage = Damage::find(self.tree, &meta)?;
            if let Some(copy) = self.copy {
                damage = copy.segment(self.tree, &name, &meta, damage, self.report)?;
            }
            if damage.is_none() {
                continue;
            }
            match self.mend(&meta, damage, &space, next_segment)? {
                Ok(mended) if self.is_told => {
                    let ids: BTreeSet<SegmentId> = mended.with_rungs().map(|part| part.id).collect();
                    gone.extend(meta.with_rungs().filter(|part| !ids.contains(&part.id)).cloned());
                    if let Some(named) = files.all_mut().find(|named| named.id == meta.id) {
                        *named = mended;
                    }
                }
                Ok(_) => {}
                Err(why) => {
                    let dead = dead.get(&meta.id).copied().unwrap_or(0);
                    let (verb, lost) =
                        (if self.is_told { "has lost" } else { "would lose" }, Forgotten::new(&meta, dead));
                    self.report.lost.push(format!("table '{name}' {verb} {lost}: {}", why.message()));
                    if self.is_told {
                        gone.extend(files.forget(meta.id, dead));
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes anew what can be; the segment as it is then. The inner error says why its rows are lost.
    fn mend(
        &mut self,
        meta: &SegmentMeta,
        damage: Damage,
        space: &Space,
        next_segment: &mut u64,
    ) -> Result<Result<SegmentMeta, Error>> {
        if let Some(why) = damage.parquet {
            return Ok(Err(why));
        }
        let (mut mended, left_before) = (meta.clone(), self.report.left.len());
        if let Some(why) = damage.side {
            match self.side(meta, space, &why)? {
                Ok(side) => mended = side,
                Err(why) => return Ok(Err(why)),
            }
        }
        let lacking: Vec<u32> = damage.rungs.iter().map(|(rung, _)| *rung).collect();
        if lacking.is_empty() || self.report.left.len() > left_before {
            return Ok(Ok(mended));
        }
        if self.is_told {
            let segment = Segment::open(self.tree, mended.clone())?;
            let new_id = || {
                *next_segment += 1;
                SegmentId(*next_segment - 1)
            };
            mended.rungs.retain(|rung| !lacking.contains(&rung.rung));
            match segment.rebuild_rungs(self.def, &lacking, new_id) {
                Ok(rungs) => mended.rungs.extend(rungs),
                // They are done without; the next merge writes the whole ladder.
                Err(error) => {
                    self.leave(error)?;
                    return Ok(Ok(mended));
                }
            }
            mended.rungs.sort_by_key(|rung| rung.rung);
        }
        let name = self.def.shown();
        for (rung, why) in &damage.rungs {
            let (verb, why) = (self.verb(), why.message());
            self.report.mended.push(format!("table '{name}': rung {rung} of segment {} {verb}: {why}", meta.id));
        }
        Ok(Ok(mended))
    }

    /// Makes the side file anew. The inner error says why none can be made.
    fn side(&mut self, meta: &SegmentMeta, space: &Space, why: &Error) -> Result<Result<SegmentMeta, Error>> {
        // Its rows are there: once the dictionaries are, too, a side file can be made.
        let Some((def, dictionaries)) = space else {
            self.leave(why.clone())?;
            return Ok(Ok(meta.clone()));
        };
        let (name, id, verb) = (self.def.shown(), meta.id, self.verb());
        let told =
            format!("table '{name}': the side file of segment {id} {verb} of its Parquet file: {}", why.message());
        if !self.is_told {
            self.report.mended.push(format!("{told}; should that file be damaged, too, the segment is lost"));
            return Ok(Ok(meta.clone()));
        }
        let side = match RebuiltSide::new(self.tree, meta, def, dictionaries) {
            Ok(side) => side,
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(Err(error)),
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                self.leave(error)?;
                return Ok(Ok(meta.clone()));
            }
            Err(error) => return Err(error),
        };
        let proof = match side.proof() {
            Proof::Same | Proof::Checksums => "",
            Proof::None => {
                "; nothing is left that says whether its values are those that were written, and they are taken as they are"
            }
        };
        self.report.mended.push(format!("{told}{proof}"));
        side.install().map(Ok)
    }

    fn verb(&self) -> &'static str {
        if self.is_told { "was made anew" } else { "can be made anew" }
    }

    /// How many rows of each segment are dead. A file of kills that is damaged is put back from a copy or left: nobody else knows what it said.
    fn dead_rows(&mut self, files: &TableFiles) -> Result<BTreeMap<SegmentId, u64>> {
        let mut dead = BTreeMap::new();
        for file in &files.kills {
            let path = kills::path(self.dir, self.def.id, file.number);
            let told = match self.tree.disk.exists(&path) {
                true => kills::read(self.tree.disk.as_ref(), self.dir, self.def.id, file),
                false => Err(Error::new(ErrorKind::Corrupt, format!("{} is missing", path.display()))),
            };
            let told = match told {
                Ok(told) => Some(told),
                Err(error) => {
                    let from_copy = self.copy.map(|copy| copy.kills(self.def, file, &error, self.report));
                    self.found_or_left(from_copy, error)?
                }
            };
            for (segment, rows) in told.into_iter().flatten() {
                let rows = rows.iter().filter(|(_, killed)| *killed <= self.through).count() as u64;
                *dead.entry(segment).or_default() += rows;
            }
        }
        Ok(dead)
    }

    /// What the copy had of it; where it had nothing, or there is none, the damage stays.
    fn found_or_left<T>(&mut self, from_copy: Option<Result<Option<T>>>, damage: Error) -> Result<Option<T>> {
        let found = from_copy.transpose()?.flatten();
        if found.is_none() {
            self.leave(damage)?;
        }
        Ok(found)
    }

    /// Notes damage that stays; another failure is one.
    fn leave(&mut self, error: Error) -> Result<()> {
        if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported) {
            return Err(error);
        }
        let (name, why) = (self.def.shown(), error.message());
        self.report.left.push(format!("table '{name}': {why}; restore it from a copy, or drop the table"));
        Ok(())
    }
}
