//! Estimates beside exact answers, without SQL: `cargo run -p alluvia-tree --example sample_speed [rows] [folder] [boxes] [max_error]`.
//!
//! Eight hierarchical dimensions over 19 levels in segments of some million rows with ladders, in Hilbert's order, as merges write them;
//! boxes of low, medium and high coverage that match at least a million rows, some of them by groups. Each box is asked exactly, estimated
//! where that is expected to cost less, and estimated whatever it costs, in turns; what counts is the least time of each. A folder that is
//! given is kept, and used again.
//!
//! At the end the counts of work that were foreseen are held against the times: how far `Kind::nanos` is off, and what would fit these boxes
//! best on this machine.
#![allow(clippy::disallowed_methods)] // an example measures with the machine's clock and keeps its segments

use alluvia_space::curve::CurveMap;
use alluvia_space::*;
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::estimate::Aggregate;
use alluvia_tree::sample::{Goal, Kind, Otherwise, SampleRequest, Sampled, Source, Work, sample};
use alluvia_tree::*;
use alluvia_types::{ColumnId, Result, SegmentId, Stage, TableId};
use arrow::array::*;
use arrow::datatypes::UInt32Type;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Children of a member of each level, by dimension.
const DIMENSIONS: [&[u32]; 8] =
    [&[12, 10, 12], &[16, 12, 25], &[8, 6, 200], &[8, 12, 28], &[6, 20], &[5, 8], &[6, 4], &[7]];
/// As a merge's partitions at the most, about.
const SEGMENT_ROWS: usize = 3 << 20;
const CHUNK_ROWS: usize = 1 << 16;
const THREADS: usize = 2;
const MATCHING: f64 = 1e6;
/// The level that groups are made of, of [`DIMENSIONS`]' first twelve members.
const GROUP: usize = 0;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn main() -> Result<()> {
    let argument = |at: usize| std::env::args().nth(at);
    let rows: usize = argument(1).and_then(|rows| rows.parse().ok()).unwrap_or(20_000_000);
    let folder = argument(2).filter(|folder| folder != "-");
    let each: usize = argument(3).and_then(|boxes| boxes.parse().ok()).unwrap_or(10);
    let max_error: f64 = argument(4).and_then(|error| error.parse().ok()).unwrap_or(0.01);
    let dir = folder.as_ref().map_or_else(
        || std::env::temp_dir().join(format!("alluvia-sample-speed-{}", std::process::id())),
        std::path::PathBuf::from,
    );
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    disk.create_dir_all(&dir).expect("a directory");
    let context = TreeContext::new(disk, Arc::new(Cache::new(1 << 30)), &dir).with_loaded_bytes_max(8 << 30);
    let table = table();
    let metas = segments(&context, &table, rows, &dir)?;
    let segments: Vec<SegmentRows> = metas
        .into_iter()
        .map(|meta| Ok(SegmentRows { segment: Segment::open(&context, meta)?, above: None, through: None, dead: None }))
        .collect::<Result<_>>()?;
    let measures = [("price", 19), ("quantity", 20), ("wild", 21)];
    let mut times = Times::default();
    for (wanted, group) in [(&[0usize, 1][..], None), (&[2], None), (&[0], Some(GROUP))] {
        let names: Vec<&str> = wanted.iter().map(|&at| measures[at].0).collect();
        println!("of {}{}:", names.join(", "), if group.is_some() { ", by 12 groups" } else { "" });
        for (name, least, most) in [("low", 0.0, 0.33), ("medium", 0.33, 0.66), ("high", 0.66, 1.0)] {
            compare(&segments, (wanted, group), rows, each, max_error, (name, least, most), &mut times)?;
        }
    }
    times.show();
    if folder.is_none() {
        segments.iter().for_each(|rows| rows.segment.retire());
    }
    Ok(())
}

/// Times the boxes of one bin of coverage.
fn compare(
    segments: &[SegmentRows],
    (measures, group): (&[usize], Option<usize>),
    rows: usize,
    each: usize,
    max_error: f64,
    (name, least, most): (&str, f64, f64),
    times: &mut Times,
) -> Result<()> {
    let mut random = Random(name.len() as u64);
    let wanted = Wanted { sum: true, ..Wanted::default() };
    let of = |&at: &usize| WantedMeasure { column: ColumnId(19 + at as u32), is_float: at != 1, wanted };
    let measures: Vec<WantedMeasure> = measures.iter().map(of).collect();
    let mut goals = vec![Goal { aggregate: Aggregate::Count, measure: None }];
    goals.push(Goal { aggregate: Aggregate::Sum, measure: Some(0) });
    if measures.len() > 1 {
        goals.push(Goal { aggregate: Aggregate::Avg, measure: Some(1) });
    }
    let (mut exact_ms, mut near_ms, mut ratios, mut shares) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut sampled, mut beyond, mut seconds) = (0, 0, 0);
    while ratios.len() < each {
        let (filters, coverage) = random_box(&mut random, name);
        if coverage < least || coverage >= most || coverage * (rows as f64) < MATCHING {
            continue;
        }
        let groups: Vec<usize> =
            group.into_iter().filter(|&level| filters.iter().all(|filter| filter.level != level)).collect();
        if groups.is_empty() && group.is_some() {
            continue;
        }
        let spans = groups.iter().map(|&level| GroupSpan { level, first: 1, count: DIMENSIONS[0][0] }).collect();
        let keys = GroupKeys::new(spans).expect("few groups");
        let question = BoxQuery { filters, groups, measures: measures.clone(), ..BoxQuery::default() };
        let empty = || Answer::new(&question, keys.clone());
        let boxes = Boxes::from(question.clone());
        let asked = SampleRequest {
            boxes: &boxes,
            group_codes: &[],
            goals: &goals,
            max_error,
            confidence: 0.95,
            otherwise: Otherwise::Exact,
            source: Source::Ladder,
            by_cost: true,
            strata_min: alluvia_tree::sample::STRATA_MIN,
            threads: THREADS,
        };
        let forced = SampleRequest { by_cost: false, otherwise: Otherwise::Reached, ..asked };
        let (mut best, mut share, mut error) = ((f64::INFINITY, f64::INFINITY, f64::INFINITY), 1.0, 0.0f64);
        let mut foreseen = None;
        for _ in 0..7 {
            let mut exact = empty();
            let start = Instant::now();
            assert!(answer(&question, segments, THREADS, &mut exact)?, "segments have the measures");
            best.0 = best.0.min(start.elapsed().as_secs_f64() * 1e3);
            let mut near = empty();
            let start = Instant::now();
            let found = sample(&asked, segments, &mut near)?;
            best.1 = best.1.min(start.elapsed().as_secs_f64() * 1e3);
            if let Sampled::Estimates(found) = found {
                share = found.rows_drawn as f64 / found.rows_cut as f64;
                seconds += u64::from(found.look > 1);
                let of_group = |(group, cells): &(usize, Vec<_>)| {
                    let cells: &[alluvia_tree::sample::Estimated] = cells;
                    let truth = exact.totals.measures()[0].float_sum(*group);
                    (cells[1].interval.estimate / truth - 1.0).abs()
                };
                error = found.groups.iter().map(of_group).fold(0.0, f64::max);
            }
            let mut whatever = empty();
            let start = Instant::now();
            let found = sample(&forced, segments, &mut whatever)?;
            best.2 = best.2.min(start.elapsed().as_secs_f64() * 1e3);
            if let Sampled::Estimates(found) = found
                && let Some(of_first) = found.foreseen.clone()
            {
                foreseen = Some((of_first, found));
            }
        }
        if let Some((foreseen, found)) = foreseen {
            times.exact.push((foreseen.exact, foreseen.exact_threads, best.0 * 1e6));
            times.missed.push((foreseen.misses(), found.look > 1));
            // A second look is not in what was foreseen.
            if found.look == 1 {
                times.errors.push(found.error / max_error / foreseen.error);
                times.near.push((foreseen.work, foreseen.threads, best.2 * 1e6));
            }
        }
        sampled += u64::from(share < 1.0);
        beyond += u64::from(error > max_error);
        exact_ms.push(best.0);
        near_ms.push(best.1);
        ratios.push(best.0 / best.1);
        shares.push(share);
    }
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "{name:>7}: {sampled} of {each} sampled; exact {:.2} ms, estimate {:.2} ms; {:.2} times faster, at least {least:.2}; \
         drawn {:.2} %; {beyond} beyond the error, {} second looks",
        median(exact_ms),
        median(near_ms),
        median(ratios),
        100.0 * median(shares),
        seconds / 7,
    );
    Ok(())
}

/// Work that was foreseen, threads, and nanoseconds that it took.
type Timed = (Work, usize, f64);

#[derive(Default)]
struct Times {
    exact: Vec<Timed>,
    near: Vec<Timed>,
    /// The largest error of a first look that was good enough, of what was foreseen.
    errors: Vec<f64>,
    /// How likely it was that a first look is not good enough, and whether it was.
    missed: Vec<(f64, bool)>,
}

impl Times {
    fn show(&self) {
        let quantiles = |mut ratios: Vec<f64>| {
            ratios.retain(|ratio| ratio.is_finite());
            ratios.sort_by(f64::total_cmp);
            let at = |share: f64| ratios.get((share * ratios.len() as f64) as usize).copied().unwrap_or(f64::NAN);
            format!("{:.2} / {:.2} / {:.2} / {:.2} / {:.2}", at(0.0), at(0.1), at(0.5), at(0.9), at(0.999))
        };
        let ratios = |timed: &[Timed]| timed.iter().map(|(work, threads, took)| took / work.nanos(*threads)).collect();
        println!("took, of what was foreseen (least, a tenth, half, nine tenths, most):");
        println!("  exact answers {}, {} boxes", quantiles(ratios(&self.exact)), self.exact.len());
        println!("  estimates {}, {} boxes", quantiles(ratios(&self.near)), self.near.len());
        println!("  errors of looks {}", quantiles(self.errors.clone()));
        let (expected, missed) = self.missed.iter().fold((0.0, 0), |(expected, missed), (misses, has_missed)| {
            (expected + misses, missed + u32::from(*has_missed))
        });
        println!("  {missed} first looks were not good enough, where {expected:.1} were foreseen");
        let fitted = fit(&self.exact, &self.near);
        for (kind, fitted) in Kind::ALL.into_iter().zip(fitted) {
            println!("  {kind:?}: {} ns, fitted {fitted:.3} ns", kind.nanos());
        }
    }
}

/// Nanoseconds of each kind that bring what is foreseen nearest to what it took, in relative terms: none negative, and those that these
/// boxes tell little of near to what they were.
fn fit(exact: &[Timed], near: &[Timed]) -> Vec<f64> {
    const TRUST: f64 = 0.02;
    // What each kind adds at its present cost, of what it took; and what is left when all threads have begun.
    let rows: Vec<(Vec<f64>, f64)> = exact
        .iter()
        .chain(near)
        .map(|(work, threads, took)| {
            let idle = Work::default().nanos(*threads);
            let of = |kind: Kind| (work.only(kind).nanos(*threads) - idle) / took;
            (Kind::ALL.into_iter().map(of).collect(), 1.0 - idle / took)
        })
        .collect();
    let mut times = vec![1.0f64; Kind::ALL.len()];
    for _ in 0..2_000 {
        for kind in 0..times.len() {
            let (mut along, mut square) = (0.0, 0.0);
            for (parts, wanted) in &rows {
                let rest: f64 = parts.iter().zip(&times).map(|(part, times)| part * times).sum::<f64>();
                along += parts[kind] * (wanted - rest + parts[kind] * times[kind]);
                square += parts[kind] * parts[kind];
            }
            times[kind] = ((along + TRUST) / (square + TRUST)).max(0.0);
        }
    }
    Kind::ALL.into_iter().zip(times).map(|(kind, times)| kind.nanos() * times).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A box, and the share of the rows that it should match.
fn random_box(random: &mut Random, bin: &str) -> (Vec<LevelFilter>, f64) {
    let shares: Vec<f64> = match bin {
        "low" => (0..1 + random.below(8)).map(|_| random.unit() / 2.0).collect(),
        _ => {
            let (least, most, dimensions) = if bin == "medium" { (0.35, 0.64, 4) } else { (0.68, 0.97, 3) };
            let coverage: f64 = least + random.unit() * (most - least);
            let parts: Vec<f64> = (0..1 + random.below(dimensions)).map(|_| 0.05 + random.unit()).collect();
            let total: f64 = parts.iter().sum();
            parts.iter().map(|part| coverage.powf(part / total)).collect()
        }
    };
    let mut dimensions: Vec<usize> = (0..8).collect();
    (1..8).for_each(|at| dimensions.swap(at, random.below(at + 1)));
    let (mut filters, mut coverage) = (Vec::new(), 1.0);
    for (dimension, share) in dimensions.into_iter().zip(shares) {
        let levels = DIMENSIONS[dimension];
        let level = random.below(levels.len());
        let count: u32 = levels[..=level].iter().product();
        let wanted = ((share * f64::from(count)).round() as u32).clamp(1, (count - 1).max(1));
        coverage *= f64::from(wanted) / f64::from(count);
        let codes = if random.below(100) < 30 {
            let first = 1 + random.below((count - wanted + 1) as usize) as u32;
            CodeSet::of_range(first, first + wanted - 1)
        } else {
            let mut all: Vec<u32> = (1..=count).collect();
            (1..count as usize).for_each(|at| all.swap(at, random.below(at + 1)));
            all.truncate(wanted as usize);
            CodeSet::of_codes(all)
        };
        let before: usize = DIMENSIONS[..dimension].iter().map(|levels| levels.len()).sum();
        filters.push(LevelFilter { level: before + level, codes });
    }
    (filters, coverage)
}

/// The segments of a folder, written if they are not there.
fn segments(context: &TreeContext, table: &TableDef, rows: usize, dir: &Path) -> Result<Vec<SegmentMeta>> {
    let list = dir.join(format!("segments-{rows}.json"));
    if let Ok(text) = std::fs::read_to_string(&list) {
        return Ok(serde_json::from_str(&text).expect("what this wrote"));
    }
    let start = Instant::now();
    let bits = [10, 10, 10, 10, 7, 6, 5, 3];
    let curve = CurveMap::new(Curve::Hilbert, &bits);
    let leaves: Vec<u32> = DIMENSIONS.iter().map(|levels| levels.iter().product()).collect();
    let leaf = |row: usize, random: &mut Random| {
        random.0 = row as u64 * 64;
        leaves.iter().map(|&leaves| random.below(leaves as usize) as u32).collect::<Vec<u32>>()
    };
    let mut random = Random(0);
    let mut order: Vec<(u128, u32)> = (0..rows)
        .map(|row| {
            let point: Vec<u32> = leaf(row, &mut random)
                .iter()
                .zip(&leaves)
                .zip(bits)
                .map(|((&leaf, &leaves), bits)| ((u64::from(leaf) << bits) / u64::from(leaves)) as u32)
                .collect();
            (curve.encode(&point), row as u32)
        })
        .collect();
    order.sort_unstable();
    println!("{rows} keys in {:.1} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let mut ids = 0;
    let mut metas = Vec::new();
    for part in order.chunks(SEGMENT_ROWS) {
        let new_id = || {
            ids += 1;
            SegmentId(ids)
        };
        let part_rows = part.len() as u64;
        let mut writer = LadderWriter::create(context, new_id, table, Stage::Merged, None, part_rows, RUNG_ROWS_MIN)?;
        for piece in part.chunks(CHUNK_ROWS) {
            let points: Vec<Vec<u32>> = piece.iter().map(|&(_, row)| leaf(row as usize, &mut random)).collect();
            writer.write(&chunk(table, piece, &points))?;
        }
        metas.push(writer.finish()?);
    }
    let (all, ladder): (u64, u64) =
        metas.iter().fold((0, 0), |sums, meta| (sums.0 + meta.bytes(), sums.1 + meta.ladder_bytes()));
    println!(
        "{} segments in {:.1} s: {:.1} bytes a row, {:.1} of them in ladders of {} rungs",
        metas.len(),
        start.elapsed().as_secs_f64(),
        all as f64 / rows as f64,
        ladder as f64 / rows as f64,
        metas[0].rungs.len(),
    );
    std::fs::write(&list, serde_json::to_string(&metas).expect("serializes")).expect("writes");
    Ok(metas)
}

fn chunk(table: &TableDef, piece: &[(u128, u32)], points: &[Vec<u32>]) -> RowChunk {
    let mut codes: Vec<Vec<u32>> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (dimension, levels) in DIMENSIONS.iter().enumerate() {
        for level in 0..levels.len() {
            let below: u32 = levels[level + 1..].iter().product();
            let count: u32 = levels[..=level].iter().product();
            let own: Vec<u32> = points.iter().map(|point| point[dimension] / below + 1).collect();
            let names = (0..=count).map(|at| (at > 0).then(|| format!("member {at}")));
            let values = Arc::new(StringArray::from_iter(names)) as ArrayRef;
            columns.push(Arc::new(DictionaryArray::<UInt32Type>::new(UInt32Array::from(own.clone()), values)));
            codes.push(own);
        }
    }
    let draws = |salt: u64| piece.iter().map(move |&(_, row)| Random(u64::from(row) * 64 + salt));
    let price = |mut random: Random| random.below(100_000) as f64 / 100.0;
    columns.push(Arc::new(Float64Array::from_iter_values(draws(20).map(price))));
    columns.push(Arc::new(Int32Array::from_iter_values(draws(30).map(|mut random| 1 + random.below(9) as i32))));
    let wild = |mut random: Random| {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        (2.0 * radius * (std::f64::consts::TAU * random.unit()).cos()).exp()
    };
    columns.push(Arc::new(Float64Array::from_iter_values(draws(40).map(wild))));
    columns.push(Arc::new(UInt64Array::from_iter_values(piece.iter().map(|&(_, row)| 1 + u64::from(row) / 100_000))));
    columns.push(Arc::new(UInt64Array::from_iter_values(piece.iter().map(|&(_, row)| u64::from(row) % 100_000))));
    let fields: Vec<arrow::datatypes::Field> = segment_schema(table)
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect();
    let rows = RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).expect("fits");
    RowChunk::new(rows, piece.iter().map(|&(key, _)| key).collect(), LevelCodes { levels: codes })
}

fn table() -> TableDef {
    let mut columns: Vec<Column> = Vec::new();
    let mut column = |name: String, data_type: DataType| {
        let id = ColumnId(columns.len() as u32);
        columns.push(Column { id, storage_name: name.clone(), name, data_type, nullable: true, chars_max: None });
        id
    };
    let mut dimensions: Vec<Dimension> = Vec::new();
    for (at, levels) in DIMENSIONS.iter().enumerate() {
        let level = |level: usize| {
            let name = format!("level{at}_{level}");
            (name.clone(), LevelSource::Column(column(name, DataType::Text)))
        };
        let levels: Vec<_> = (0..levels.len()).map(level).collect();
        let levels = levels.into_iter().map(|(name, source)| Level { name, source, bits: 5 }).collect();
        dimensions.push(Dimension { name: format!("d{at}"), levels, range: KeyRange::None, zone: None });
    }
    let measures = vec![
        column("price".to_owned(), DataType::Double),
        column("quantity".to_owned(), DataType::Int32),
        column("wild".to_owned(), DataType::Double),
    ];
    let next_column_id = columns.len() as u32;
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "sales".to_owned(),
        columns,
        next_column_id,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions,
        measures,
        seed: 1,
        options: TableOptions::default(),
    }
}
