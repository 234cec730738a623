//! Cuboids that follow the log, as `answer` keeps them: built of a snapshot, then brought on by what was killed and what
//! came, from the tail or from a newer snapshot. What they answer is what the model's rows add up to at their version.

use super::tables::FACTS;
use super::world::World;
use crate::keyed::world::{Checked, NEWEST};
use alluvia_sim::Random;
use alluvia_sim::rows::{Row, Value, table_batch};
use alluvia_snapshot::{Killed, Snapshot, TableRead};
use alluvia_space::TableDef;
use alluvia_tree::{
    Answer, BoxQuery, CodeSet, Cuboid, GroupKeys, GroupSpan, LevelFilter, SegmentRows, Wanted, WantedMeasure,
};
use alluvia_types::{Result, Version};
use arrow::array::{ArrayRef, RecordBatch};
use std::collections::BTreeMap;

/// A cuboid of the facts through a version, which the snapshot keeps readable.
#[derive(Debug)]
pub struct Follower {
    cuboid: Cuboid,
    spans: Vec<GroupSpan>,
    at: Snapshot,
}

/// How many are kept.
const FOLLOWERS_MAX: usize = 2;

fn measures(def: &TableDef) -> Vec<WantedMeasure> {
    let wanted = Wanted { sum: true, squares: false, min_max: true };
    let is_float = |column| def.column_by_id(column).is_some_and(|of| of.data_type == alluvia_space::DataType::Double);
    def.measures.iter().map(|&column| WantedMeasure { column, is_float: is_float(column), wanted }).collect()
}

impl World {
    /// Builds a cuboid, or brings one on and asks it.
    pub fn follow(&self, random: &mut Random) -> Checked {
        let found = {
            let mut state = self.state.lock();
            let count = state.followers.len() as u64;
            let is_new = count == 0 || (count < FOLLOWERS_MAX as u64 && random.one_in(3));
            (!is_new).then(|| state.followers.swap_remove(random.below(count) as usize))
        };
        let followed = match found {
            None => self.build(),
            Some(follower) => self.bring_on(follower, random.one_in(2)),
        };
        let follower = match followed {
            Ok(Some(follower)) => follower,
            Ok(None) => return Ok(()),
            Err(error) => return self.pass("a cuboid", &error),
        };
        self.ask_cuboid(&follower, random)?;
        self.state.lock().followers.push(follower);
        Ok(())
    }

    fn build(&self) -> Result<Option<Follower>> {
        let engine = self.engine();
        let table = self.state.lock().tables[FACTS];
        let snapshot = engine.snapshot(NEWEST, Version(0), &[table])?;
        let read = &snapshot.tables[&table];
        let def = &read.entry.def;
        let dictionaries = &engine.views().spaces().get(def)?.dictionaries;
        // Room for members to come, which may not suffice.
        let span = |level: usize| GroupSpan { level, first: 1, count: dictionaries.len(level) + 3 };
        let levels: usize = def.dimensions.iter().map(|dimension| dimension.levels.len()).sum();
        let spans: Vec<GroupSpan> = (0..levels).map(span).collect();
        let Some(mut cuboid) = Cuboid::new(spans.clone(), measures(def), 1 << 20) else { return Ok(None) };
        let is_built = cuboid.add_segments(&read.segments, 1)?
            && read
                .tail
                .iter()
                .try_fold(true, |all, run| -> Result<bool> { Ok(all && self.add(&mut cuboid, read, &run.rows)?) })?;
        self.trace.say(format_args!("cuboid at version {}: {is_built}", snapshot.version));
        Ok(is_built.then_some(Follower { cuboid, spans, at: snapshot }))
    }

    fn add(&self, cuboid: &mut Cuboid, read: &TableRead, rows: &RecordBatch) -> Result<bool> {
        let def = &read.entry.def;
        let codes = self.engine().views().spaces().get(def)?.dictionaries.remap(def, rows)?;
        cuboid.add_rows(&codes, &columns(def, rows), 0..rows.num_rows())
    }

    /// Takes off what was killed since, and adds what came: from the tail if that has all of it, else from a snapshot.
    fn bring_on(&self, follower: Follower, by_tail: bool) -> Result<Option<Follower>> {
        let Follower { mut cuboid, spans, at } = follower;
        let engine = self.engine();
        let (views, above) = (engine.views(), at.version);
        let table = self.state.lock().tables[FACTS];
        let newest = engine.snapshot(NEWEST, above, &[table])?;
        let read = &newest.tables[&table];
        let newer = if by_tail { views.newer(table, above, above) } else { None };
        let is_by_tail = newer.is_some();
        let is_done = match newer {
            Some(newer) => {
                self.take_off(&mut cuboid, read, &newer.killed)?
                    && newer.tail.iter().try_fold(true, |all, run| -> Result<bool> {
                        let rows = without(&run.rows, &newer.killed);
                        Ok(all && self.add(&mut cuboid, read, &rows)?)
                    })?
            }
            None => {
                let killed = views.killed(table, above, newest.version).unwrap_or_default();
                let is_newer = |rows: &&SegmentRows| rows.segment.meta().max_version > above;
                let segments: Vec<SegmentRows> = read.segments.iter().filter(is_newer).cloned().collect();
                let segments: Vec<SegmentRows> =
                    segments.into_iter().map(|rows| SegmentRows { above: Some(above), ..rows }).collect();
                self.take_off(&mut cuboid, read, &killed)?
                    && cuboid.add_segments(&segments, 1)?
                    && read.tail.iter().try_fold(true, |all, run| -> Result<bool> {
                        let first = versions_through(&run.rows, above);
                        let rows = run.rows.slice(first, run.rows.num_rows() - first);
                        Ok(all && self.add(&mut cuboid, read, &rows)?)
                    })?
            }
        };
        self.trace.say(format_args!(
            "cuboid from version {above} to {}, by the tail: {is_by_tail}, done: {is_done}",
            newest.version
        ));
        Ok(is_done.then_some(Follower { cuboid, spans, at: newest }))
    }

    fn take_off(&self, cuboid: &mut Cuboid, read: &TableRead, killed: &Killed) -> Result<bool> {
        let def = &read.entry.def;
        let mut is_done = cuboid.take_off_segments(&killed.segments)?;
        for rows in &killed.tail {
            let codes = self.engine().views().spaces().get(def)?.dictionaries.remap(def, rows)?;
            is_done = is_done && cuboid.take_off_rows(&codes, &columns(def, rows), 0..rows.num_rows())?;
        }
        Ok(is_done)
    }

    /// Asks a random box of a cuboid.
    fn ask_cuboid(&self, follower: &Follower, random: &mut Random) -> Checked {
        let (engine, version) = (self.engine(), follower.at.version);
        let table = self.state.lock().tables[FACTS];
        let entry = &follower.at.tables[&table].entry;
        let def = &entry.def;
        let rows: Vec<Row> = self.state.lock().model.tables[FACTS].rows(version.0).cloned().collect();
        let said = |error: alluvia_types::Error| format!("a cuboid: {error}");
        let dictionaries = &engine.views().spaces().get(def).map_err(said)?.dictionaries;
        let codes = dictionaries.remap(def, &table_batch(def, &rows)).map_err(said)?;
        let mut query = BoxQuery { measures: measures(def), ..BoxQuery::default() };
        for (level, codes) in codes.levels.iter().enumerate() {
            match random.below(4) {
                0 | 1 => {
                    let every = 1 + random.below(3) as u32;
                    let some =
                        codes.iter().copied().filter(|code| code % every == 0).chain([u32::from(random.one_in(2))]);
                    query.filters.push(LevelFilter { level, codes: CodeSet::of_codes(some.collect()) });
                }
                2 if query.groups.is_empty() => query.groups.push(level),
                _ => {}
            }
        }
        let groups = query.groups.iter().map(|&level| follower.spans[level]).collect();
        let mut into = Answer::new(&query, GroupKeys::new(groups).expect("few groups"));
        let of = dimensions_of(def);
        // All levels are in the cuboid: no code's ancestor is asked for.
        let answered = follower.cuboid.answer(&query, &|level| of[level], &|_, _, _| None, &mut into);
        if answered.is_none() {
            self.trace.say(format_args!(" a cuboid at version {version} cannot tell"));
            return Ok(());
        }
        let found: BTreeMap<Vec<u32>, Cell> = (0..into.totals.groups())
            .filter(|&group| into.totals.rows(group) > 0)
            .map(|group| (into.keys.codes(group), cell_of(&into, group)))
            .collect();
        let expected = expected(&query, &codes, &rows);
        self.trace.say(format_args!(" a cuboid at version {version} tells of {} groups", found.len()));
        match found == expected {
            true => Ok(()),
            false => Err(format!("a cuboid at version {version}: {query:?} is {found:?} and not {expected:?}")),
        }
    }
}

/// Rows, and of each measure its values, their sum, the least and the greatest; floats in quarters.
type Cell = (u64, [(u64, i128, Option<(i128, i128)>); 2]);

fn cell_of(found: &Answer, group: usize) -> Cell {
    let (integer, float) = (&found.totals.measures()[0], &found.totals.measures()[1]);
    let quarters = |value: f64| (value * 4.0) as i128;
    let bounds = float.float_bounds(group).map(|(least, greatest)| (quarters(least), quarters(greatest)));
    let floats = (float.count(group), quarters(float.float_sum(group)), bounds);
    let integers = (integer.count(group), integer.exact_sum(group), integer.exact_bounds(group));
    (found.totals.rows(group), [integers, floats])
}

fn expected(query: &BoxQuery, codes: &alluvia_space::LevelCodes, rows: &[Row]) -> BTreeMap<Vec<u32>, Cell> {
    let mut groups: BTreeMap<Vec<u32>, Cell> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if !query.filters.iter().all(|filter| filter.codes.contains(codes.levels[filter.level][at])) {
            continue;
        }
        let cell = groups.entry(query.groups.iter().map(|&level| codes.levels[level][at]).collect()).or_default();
        cell.0 += 1;
        for (sum, value) in cell.1.iter_mut().zip(&row[row.len() - 4..row.len() - 2]) {
            if let Value::Number(value) | Value::Quarters(value) = value {
                let value = i128::from(*value);
                let (least, greatest) = sum.2.unwrap_or((value, value));
                *sum = (sum.0 + 1, sum.1 + value, Some((least.min(value), greatest.max(value))));
            }
        }
    }
    groups
}

fn dimensions_of(def: &TableDef) -> Vec<usize> {
    let levels = def.dimensions.iter().enumerate();
    levels.flat_map(|(at, dimension)| std::iter::repeat_n(at, dimension.levels.len())).collect()
}

fn columns(def: &TableDef, rows: &RecordBatch) -> Vec<Option<ArrayRef>> {
    let column = |of: &WantedMeasure| rows.column_by_name(&def.column_by_id(of.column)?.storage_name).cloned();
    measures(def).iter().map(column).collect()
}

/// How many of the rows, which are in the order of versions, came by one.
fn versions_through(rows: &RecordBatch, through: Version) -> usize {
    use arrow::array::AsArray;
    let column = rows.column_by_name(alluvia_space::VERSION_COLUMN).expect("rows of a tail have versions");
    let versions = column.as_primitive::<arrow::datatypes::UInt64Type>().values();
    versions.partition_point(|version| *version <= through.0)
}

/// Rows but for those that came and were killed since.
fn without(rows: &RecordBatch, killed: &Killed) -> RecordBatch {
    use arrow::array::{AsArray, BooleanArray};
    let hidden = |name: &str| {
        let column = rows.column_by_name(name).expect("rows of a tail have identities");
        column.as_primitive::<arrow::datatypes::UInt64Type>().values().clone()
    };
    let (versions, ordinals) = (hidden(alluvia_space::VERSION_COLUMN), hidden(alluvia_space::ORDINAL_COLUMN));
    let is_brief = |at: usize| killed.brief.binary_search(&(Version(versions[at]), ordinals[at])).is_ok();
    let kept: BooleanArray = (0..rows.num_rows()).map(|at| Some(!is_brief(at))).collect();
    arrow::compute::filter_record_batch(rows, &kept).expect("a mask of all rows")
}
