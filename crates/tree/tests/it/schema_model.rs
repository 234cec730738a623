//! Tables of 1 to 64 dimensions, wherever their rows lie, at any version: segments, cuboids and rows one by one answer what adding up
//! members gives, and rungs are nested samples.
//!
//! Every world is made from its seed: `ALLUVIA_TEST_SEED=n` begins at that one, `ALLUVIA_TEST_SECONDS` goes on for so long.

use crate::answer_model::{Counted, Groups, check, model, set, span};
use crate::common::*;
use crate::schemas::{Found, Rows, Schema, rows, schema};
use alluvia_catalog::Dictionaries;
use alluvia_space::codes::calendar;
use alluvia_space::{DataType, KeyLayout, LevelSource, TableDef, learn};
use alluvia_tree::{
    Answer, BLOCK_ROWS, BoxQuery, CodeSet, Counters, Cuboid, Dead, DeadRows, GroupKeys, LadderWriter, LevelFilter,
    RowChunk, Segment, SegmentCursor, SegmentRows, TreeContext, Wanted, WantedMeasure, add_rows, answer, rung_limit,
};
use alluvia_types::{SegmentId, Stage, Version};
use arrow::array::*;
use arrow::datatypes::UInt64Type;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Worlds that a run makes at least.
const WORLDS: u64 = 30;
/// One world in so many is tall.
const TALL_EVERY: u64 = 15;
/// Rows of a segment with nodes over nodes over blocks: a node has 16 children.
const TALL_ROWS: usize = 16 * BLOCK_ROWS + 1;
const QUESTIONS: usize = 25;
/// Each takes as long as many of a lower world.
const TALL_QUESTIONS: usize = 10;
const CELLS_MAX: u64 = 200_000;
const RUNG_ROWS_MIN: u64 = 30;

/// Where rows lie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lie {
    Tail,
    Sorted,
    Merged,
    Mixed,
}

/// One table, its rows in the order of arrival, and the segments that hold the first of them, with their kills.
struct World {
    schema: Schema,
    lie: Lie,
    dictionaries: Dictionaries,
    chunks: Vec<(RowChunk, Counted)>,
    segments: Vec<(Arc<Segment>, Arc<Dead>)>,
    /// The chunks from here on are in no segment.
    tail: usize,
    versions: u64,
}

/// What a run has come across.
#[derive(Default)]
struct Seen {
    questions: u64,
    cuboids: u64,
    caught_up: u64,
    /// Segments that were read, and those of which rows were dead.
    read: u64,
    killed: u64,
    refused: u64,
    widest: usize,
    nodes: Counters,
    lies: BTreeSet<Lie>,
    /// Heights of segments' trees.
    heights: BTreeSet<usize>,
}

/// The rows of a tall world lie in segments, one of which has nodes over nodes over blocks.
fn world(random: &mut Random, dimensions: usize, is_tall: bool) -> World {
    let mut schema = schema(random, dimensions);
    let levels = schema.table.levels().count();
    let count = (1_000_000 / levels).clamp(2_000, 24_000) + random.below(300) as usize;
    let count = if is_tall { TALL_ROWS + count } else { count };
    let versions = 3 + random.below(30);
    let rows = rows(&schema, random, count, versions);
    // What lies behind the cuts of a tall world is enough for it.
    let cut_max = if is_tall { count - TALL_ROWS } else { count - 1 };
    let mut cuts: Vec<usize> = (0..1 + random.below(5)).map(|_| 1 + random.below(cut_max as u64) as usize).collect();
    cuts.extend([0, count]);
    cuts.sort_unstable();
    cuts.dedup();
    let parts: Vec<Rows> = cuts.windows(2).map(|cut| rows.slice(cut[0], cut[1] - cut[0])).collect();
    // What is left open is learnt from the first rows, as by the first sort.
    let ranges = learn::ranges(&schema.table, &[parts[0].batch.clone()]);
    schema.table.dimensions.iter_mut().zip(ranges).for_each(|(dimension, range)| dimension.range = range);

    let disk = disk();
    let (context, dictionaries) = (context(&disk), dictionaries(&disk, &schema.table));
    let layout = KeyLayout::new(&schema.table);
    let mut found = Found::default();
    let has_kills = random.below(2) == 0;
    let mut chunks = Vec::new();
    for part in &parts {
        let keys = layout.keys(&part.batch).expect("keys");
        let bits = layout.bits_total();
        assert!(bits == 128 || keys.iter().all(|key| key >> bits == 0), "keys have {bits} bits");
        // Not yet in order: rows of the tail have no keys.
        let chunk = chunk(&schema.table, &dictionaries, part.batch.clone(), keys);
        found.check(&schema, part, &chunk.codes);
        let is_killed = has_kills && random.below(3) > 0;
        let kills = if is_killed { kills(random, chunk.len() as u64, 1..versions + 2) } else { BTreeMap::new() };
        // No row is killed before it is there.
        let own = versions_of(&chunk);
        let kills = kills.into_iter().map(|(row, killed)| (row, killed.max(own.value(row as usize)))).collect();
        chunks.push((chunk, Counted { kills: Arc::new(kills), ..Counted::all() }));
    }
    found.check_order(&schema);

    let lies: &[Lie] = match is_tall {
        true => &[Lie::Sorted, Lie::Merged],
        false => &[Lie::Tail, Lie::Sorted, Lie::Merged, Lie::Mixed, Lie::Mixed],
    };
    let lie = lies[random.below(lies.len() as u64) as usize];
    let (merged, tail) = match lie {
        Lie::Tail => (0, 0),
        Lie::Sorted => (0, chunks.len()),
        Lie::Merged => (chunks.len(), chunks.len()),
        Lie::Mixed => {
            let tail = 1 + random.below(chunks.len() as u64) as usize;
            (random.below(tail as u64 + 1) as usize, tail)
        }
    };
    let mut ids = 0;
    let mut sorted = Vec::new();
    for (chunk, _) in &chunks[..tail] {
        sorted.push(written(&context, &schema.table, &mut ids, Stage::Sorted, &in_key_order(chunk), random));
    }
    let mut segments = sorted.split_off(merged);
    if !sorted.is_empty() {
        segments.extend(merge(&context, &schema.table, &dictionaries, &mut ids, &sorted, random));
    }
    let segments = with_kills(segments, &chunks);
    World { schema, lie, dictionaries, chunks, segments, tail, versions }
}

fn versions_of(chunk: &RowChunk) -> &UInt64Array {
    chunk.rows.column(chunk.rows.num_columns() - 2).as_primitive::<UInt64Type>()
}

/// The kills of rows of chunks as those of the rows of segments that they have become, wherever they lie.
fn with_kills(segments: Vec<Arc<Segment>>, chunks: &[(RowChunk, Counted)]) -> Vec<(Arc<Segment>, Arc<Dead>)> {
    let mut killed: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (chunk, counted) in chunks {
        let ordinals = chunk.rows.column(chunk.rows.num_columns() - 1).as_primitive::<UInt64Type>();
        let identity = |row: u64| (versions_of(chunk).value(row as usize), ordinals.value(row as usize));
        killed.extend(counted.kills.iter().map(|(&row, &version)| (identity(row), version)));
    }
    let with_kills = |segment: Arc<Segment>| {
        let identities = segment.identities(0..segment.meta().rows).expect("identities");
        let kills = (0..).zip(&identities).filter_map(|(row, identity)| Some((row, Version(*killed.get(identity)?))));
        let dead = Arc::new(Dead::new(kills));
        (segment, dead)
    };
    segments.into_iter().map(with_kills).collect()
}

/// Rows in the order of their keys; those of one key stay as they are.
fn in_key_order(chunk: &RowChunk) -> RowChunk {
    let mut order: Vec<u32> = (0..chunk.len() as u32).collect();
    order.sort_by_key(|&row| chunk.keys[row as usize]);
    taken(chunk, &order, order.iter().map(|&row| chunk.keys[row as usize]).collect())
}

/// A segment of these rows with its ladder, written in pieces.
fn written(
    context: &TreeContext,
    table: &TableDef,
    ids: &mut u64,
    stage: Stage,
    chunk: &RowChunk,
    random: &mut Random,
) -> Arc<Segment> {
    let new_id = || {
        *ids += 1;
        SegmentId(*ids)
    };
    let rows = chunk.len() as u64;
    let mut writer = LadderWriter::create(context, new_id, table, stage, None, rows, RUNG_ROWS_MIN).expect("creates");
    // As merges write them, or as they did before there were bands.
    let is_banded = stage == Stage::Merged && random.below(3) > 0;
    let lying = if is_banded { &banded(chunk, table.seed) } else { chunk };
    if is_banded {
        writer = writer.banded();
    }
    let mut at = 0;
    while at < lying.len() {
        let len = if is_banded { BLOCK_ROWS } else { 1 + random.below(9_000) as usize };
        let len = len.min(lying.len() - at);
        writer.write(&slice(lying, at, len)).expect("writes");
        at += len;
    }
    let segment = Segment::open(context, writer.finish().expect("finishes")).expect("opens");
    segment.verify(table).expect("verifies");
    check_ladder(&segment, table.seed);
    segment
}

/// Each rung holds the light rows, and lies in the next thicker one.
fn check_ladder(segment: &Segment, seed: u64) {
    let identities =
        |segment: &Segment| -> Vec<(u64, u64)> { segment.identities(0..segment.meta().rows).expect("identities") };
    let mut thicker: BTreeSet<(u64, u64)> = identities(segment).into_iter().collect();
    assert_eq!(thicker.len() as u64, segment.meta().rows, "identities are of one row each");
    let weights = segment.weights(0..segment.meta().rows, seed).expect("weights");
    for rung in segment.rungs() {
        let own: BTreeSet<(u64, u64)> = identities(&rung.segment).into_iter().collect();
        assert!(own.is_subset(&thicker), "rung {} is no part of the one before", rung.rung);
        let limit = rung_limit(rung.rung).expect("a limit");
        assert_eq!(own.len(), weights.iter().filter(|&&weight| weight < limit).count(), "rung {}", rung.rung);
        thicker = own;
    }
}

/// One or two partitions of all rows of some segments, read back from these.
fn merge(
    context: &TreeContext,
    table: &TableDef,
    dictionaries: &Dictionaries,
    ids: &mut u64,
    from: &[Arc<Segment>],
    random: &mut Random,
) -> Vec<Arc<Segment>> {
    let mut read = Vec::new();
    for segment in from {
        let all = 0..segment.meta().rows;
        let cursor = SegmentCursor::new(segment, table, dictionaries, all, 5_000).expect("a cursor");
        read.extend(cursor.map(|chunk| chunk.expect("a chunk")));
    }
    let all = in_key_order(&join(&read));
    // Partitions are cut where keys differ; what is tall stays tall.
    let near_max = all.len().checked_sub(TALL_ROWS).map_or(all.len(), |room| room + 1);
    let near = random.below(near_max as u64) as usize;
    let cut = all.keys.partition_point(|&key| key < all.keys[near]);
    let parts: Vec<Range<usize>> = [0..cut, cut..all.len()].into_iter().filter(|part| !part.is_empty()).collect();
    let write = |part: Range<usize>| {
        let chunk = slice(&all, part.start, part.len());
        written(context, table, ids, Stage::Merged, &chunk, random)
    };
    parts.into_iter().map(write).collect()
}

impl World {
    /// The same rows, as segments have them at a version.
    fn read(&self, above: u64, through: u64, random: &mut Random) -> Vec<SegmentRows> {
        let bound = |version: u64| Some(Version(version));
        self.segments
            .iter()
            .map(|(segment, dead)| SegmentRows {
                segment: Arc::clone(segment),
                above: if above == 0 && random.below(2) == 0 { None } else { bound(above) },
                through: if through >= self.versions && random.below(2) == 0 { None } else { bound(through) },
                dead: DeadRows::new(dead, Version(through)),
            })
            .collect()
    }

    /// Adds rows of the chunks from `first` on by themselves.
    fn each_row(&self, first: usize, above: u64, through: u64, mut add: impl FnMut(&RowChunk, Range<usize>)) {
        for (chunk, counted) in &self.chunks[first..] {
            let versions = versions_of(chunk).values();
            let mut start = versions.partition_point(|&version| version <= above);
            let end = versions.partition_point(|&version| version <= through);
            let dead = counted.kills.iter().filter(|(_, killed)| **killed <= through).map(|(&row, _)| row as usize);
            // Between the dead ones.
            for row in dead.filter(|row| (start..end).contains(row)).chain([end]).collect::<Vec<_>>() {
                if start < row {
                    add(chunk, start..row);
                }
                start = row + 1;
            }
        }
    }

    fn by_rows(&self, first: usize, question: &BoxQuery, through: u64, into: &mut Answer) {
        self.each_row(first, 0, through, |chunk, rows| {
            add_rows(question, &chunk.codes, &values(chunk, &self.schema.table, &question.measures), rows, into)
                .expect("adds");
        });
    }

    fn keys(&self, question: &BoxQuery) -> Option<GroupKeys> {
        GroupKeys::new(question.groups.iter().map(|&level| span(level, &self.chunks)).collect())
    }

    fn dimension_of(&self) -> Vec<usize> {
        self.schema.table.levels().map(|(dimension, ..)| dimension).collect()
    }

    /// As a cuboid gets its rows: those of one version at first, those that came since later. `None` where it would be too large,
    /// or steps aside.
    fn by_cuboid(&self, random: &mut Random, question: &BoxQuery, through: u64, seen: &mut Seen) -> Option<Answer> {
        let table = &self.schema.table;
        let dimension_of = self.dimension_of();
        let mut finest: BTreeMap<usize, usize> = BTreeMap::new();
        for level in question.filters.iter().map(|filter| filter.level).chain(question.groups.iter().copied()) {
            let dimension = dimension_of[level];
            // Levels of a path or a calendar may be finer than what is asked; parts of numbers are asked as they are.
            let is_path = |level: usize| {
                let source = &table.levels().nth(level).expect("a level").2.source;
                matches!(source, LevelSource::Column(_) | LevelSource::Calendar(..) | LevelSource::Local(..))
            };
            let last = (level..dimension_of.len()).take_while(|&other| dimension_of[other] == dimension).last()?;
            let finer = if is_path(level) && random.below(3) == 0 {
                level + random.below((last - level) as u64 + 1) as usize
            } else {
                level
            };
            let known = finest.entry(dimension).or_insert(finer);
            *known = finer.max(*known);
        }
        let spans = finest.values().map(|&level| span(level, &self.chunks)).collect();
        let of = |measure: &WantedMeasure| WantedMeasure { wanted: Wanted { sum: true, ..measure.wanted }, ..*measure };
        let measures = question.measures.iter().rev().map(of).collect();
        let mut cuboid = Cuboid::new(spans, measures, CELLS_MAX)?;
        let mut middle = random.below(through + 1);
        let killed = self.chunks.iter().flat_map(|(_, counted)| counted.kills.values());
        if killed.clone().any(|killed| (middle + 1..=through).contains(killed)) {
            // Rows are only ever added: who has some that were killed since begins anew.
            middle = 0;
        }
        for (above, through) in [(0, middle), (middle, through)] {
            if !cuboid.add_segments(&self.read(above, through, random), 2).expect("adds") {
                return None;
            }
            let mut fits = true;
            self.each_row(self.tail, above, through, |chunk, rows| {
                let values = values(chunk, table, cuboid.measures());
                fits = fits && cuboid.add_rows(&chunk.codes, &values, rows).expect("adds");
            });
            if !fits {
                return None;
            }
        }
        let levels: Vec<&LevelSource> = table.levels().map(|(_, _, level)| &level.source).collect();
        let ancestor = |finer: usize, coarser: usize, code: u32| match (levels[finer], levels[coarser]) {
            (LevelSource::Calendar(_, from), LevelSource::Calendar(_, to))
            | (LevelSource::Local(_, from), LevelSource::Local(_, to)) => Some(match calendar::units_of_code(code) {
                None => 0,
                Some(units) => calendar::code_of_micros(calendar::start_micros(units, *from), *to),
            }),
            (LevelSource::Column(_), LevelSource::Column(_)) => {
                let up = |code: u32, level: usize| (code > 0).then(|| self.dictionaries.parent(level, code));
                (coarser + 1..=finer).rev().try_fold(code, up)
            }
            _ => None,
        };
        let mut into = Answer::new(question, self.keys(question)?);
        // NULL may be under any member, so of a coarser level a cuboid with NULL says nothing.
        cuboid.answer(question, &|level| dimension_of[level], &ancestor, &mut into)?;
        seen.cuboids += 1;
        seen.caught_up += u64::from(middle > 0 && middle < through);
        Some(into)
    }
}

/// The values of each measure.
fn values(chunk: &RowChunk, table: &TableDef, measures: &[WantedMeasure]) -> Vec<Option<ArrayRef>> {
    let name = |measure: &WantedMeasure| &table.column_by_id(measure.column).expect("a column").storage_name;
    measures.iter().map(|measure| chunk.rows.column_by_name(name(measure)).cloned()).collect()
}

/// All codes but the rarest, if that is rare: of many filters each must leave nearly all rows, or none is left.
fn nearly_all(world: &World, level: usize) -> CodeSet {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for code in world.chunks.iter().flat_map(|(chunk, _)| &chunk.codes.levels[level]) {
        *counts.entry(*code).or_default() += 1;
    }
    let rows: usize = counts.values().sum();
    let rarest = counts.iter().min_by_key(|(_, count)| **count).map(|(code, count)| (*code, *count));
    let without = rarest.filter(|(_, count)| count * 30 < rows).map(|(code, _)| code);
    CodeSet::of_codes(counts.into_keys().filter(|code| Some(*code) != without).collect())
}

/// A box over some levels, or over as many as there may be.
fn question(random: &mut Random, world: &World) -> BoxQuery {
    let table = &world.schema.table;
    let levels = table.levels().count();
    let mut query = BoxQuery::default();
    let is_wide = random.below(4) == 0;
    let share = if is_wide { 1 } else { 1 + levels as u64 / 2 };
    for level in (0..levels).filter(|_| random.below(share) == 0).take(64).collect::<Vec<_>>() {
        let codes = match is_wide && levels > 3 {
            true => nearly_all(world, level),
            false => {
                let chunk = random.below(world.chunks.len() as u64) as usize;
                set(random, &world.chunks[chunk].0.codes.levels[level])
            }
        };
        query.filters.push(LevelFilter { level, codes });
    }
    for _ in 0..random.below(4) {
        let level = random.below(levels as u64) as usize;
        if !query.groups.contains(&level) {
            query.groups.push(level);
        }
    }
    for &column in &table.measures {
        if random.below(3) > 0 {
            let wanted =
                Wanted { sum: random.below(2) == 0, squares: random.below(3) == 0, min_max: random.below(2) == 0 };
            let data_type = table.column_by_id(column).expect("a column").data_type;
            let is_float = matches!(data_type, DataType::Real | DataType::Double);
            query.measures.push(WantedMeasure { column, is_float, wanted });
        }
    }
    query
}

/// Panics unless an answer is the model's. What totals cannot hold may be refused.
fn agrees(world: &World, answer: &Answer, question: &BoxQuery, expected: &Groups, seen: &mut Seen) {
    if answer.totals.is_spoilt() {
        assert!(world.schema.wild, "refused without a reason: {question:?}");
        seen.refused += 1;
        return;
    }
    check(answer, question, expected);
}

fn ask(random: &mut Random, world: &mut World, seen: &mut Seen) {
    let through = if random.below(3) == 0 { world.versions } else { random.below(world.versions + 2) };
    world.chunks.iter_mut().for_each(|(_, counted)| (counted.through, counted.at) = (through, through));
    let world = &*world;
    let question = question(random, world);
    let Some(keys) = world.keys(&question) else { return };
    let expected = model(&world.schema.table, &question, &vec![None; question.groups.len()], &world.chunks);
    seen.questions += 1;

    let mut scanned = Answer::new(&question, keys.clone());
    world.by_rows(0, &question, through, &mut scanned);
    agrees(world, &scanned, &question, &expected, seen);

    let mut found = Answer::new(&question, keys);
    world.by_rows(world.tail, &question, through, &mut found);
    let threads = 1 + random.below(3) as usize;
    let read = world.read(0, through, random);
    seen.read += read.len() as u64;
    seen.killed += read.iter().filter(|rows| rows.dead.is_some()).count() as u64;
    assert!(answer(&question, &read, threads, &mut found).expect("answers"));
    agrees(world, &found, &question, &expected, seen);
    seen.nodes.add(&found.counters);

    if let Some(found) = world.by_cuboid(random, &question, through, seen) {
        agrees(world, &found, &question, &expected, seen);
    }
}

#[test]
fn any_table_is_the_model() {
    let mut seen = Seen::default();
    each_seed(WORLDS, |seed| {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // Few and many, the ends among them.
        let dimensions = match seed % 5 {
            0 => 1 + random.below(3) as usize,
            1 => 64,
            2 => 16 + random.below(48) as usize,
            _ => 2 + random.below(12) as usize,
        };
        let is_tall = seed.is_multiple_of(TALL_EVERY);
        let mut world = world(&mut random, dimensions, is_tall);
        println!("{dimensions} dimensions, {:?}: {}", world.lie, world.schema.declaration);
        seen.lies.insert(world.lie);
        seen.widest = seen.widest.max(dimensions);
        seen.heights.extend(world.segments.iter().map(|(segment, _)| segment.heights().expect("a tree")));
        let questions = if is_tall { TALL_QUESTIONS } else { QUESTIONS };
        for _ in 0..questions {
            ask(&mut random, &mut world, &mut seen);
        }
    });
    let Seen { questions, cuboids, caught_up, read, killed, refused, widest, nodes, lies, heights } = seen;
    println!("{questions} questions, {cuboids} by cuboids, {caught_up} caught up, {refused} refused, {nodes:?}");
    println!("{killed} of {read} segments with dead rows");
    // A run that is begun at another seed is long enough, too.
    assert_eq!((lies.len(), widest), (4, 64));
    assert!((1..=3).all(|height| heights.contains(&height)), "trees are {heights:?} high");
    assert!(questions > 500 && cuboids * 5 > questions && caught_up * 10 > questions, "the index was hardly asked");
    assert!(killed * 10 > read && killed * 10 < 9 * read, "{killed} of {read} segments with dead rows");
    assert!(refused * 5 < questions, "{refused} of {questions} refused");
    assert!(nodes.covered > 0 && nodes.disjoint > 0 && nodes.cut > 0 && nodes.tail_rows > 0, "{nodes:?}");
}
