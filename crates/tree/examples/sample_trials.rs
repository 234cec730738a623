//! How often intervals hold, through the path that stops when they are narrow enough, without SQL:
//! `cargo run -p alluvia-tree --example sample_trials [trials] [rows] [transactions.parquet]`.
//!
//! Lognormal values of sigma 1 and 2, and, if its file is given, the `sales_value` of `completejourney` (skew 17), each over two dimensions; of
//! every statement under so many seeds: how often our interval and the textbook's held, their widths, and what was drawn.
#![allow(clippy::disallowed_methods)] // an example measures with the machine's clock and reads a file that it is given

use alluvia_space::curve::CurveMap;
use alluvia_space::*;
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::estimate::Aggregate;
use alluvia_tree::sample::{Goal, Otherwise, SampleRequest, Sampled, Source, sample};
use alluvia_tree::*;
use alluvia_types::{ColumnId, Result, SegmentId, Stage, TableId};
use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, UInt32Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

/// Rows: members of both dimensions, from 0, and the value.
type Rows = Vec<(u32, u32, f64)>;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

fn main() -> Result<()> {
    let argument = |at: usize| std::env::args().nth(at);
    let trials: u64 = argument(1).and_then(|trials| trials.parse().ok()).unwrap_or(1_000);
    let count: usize = argument(2).and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    for sigma in [1.0, 2.0] {
        let mut random = Random(sigma as u64);
        let row = |_| {
            let (a, b) = ((random.next() % 100) as u32, (random.next() % 100) as u32);
            let radius = (-2.0 * random.unit().ln()).sqrt();
            (a, b, (sigma * radius * (std::f64::consts::TAU * random.unit()).cos()).exp())
        };
        let rows = (0..count).map(row).collect();
        let error = 0.02 * sigma;
        try_all(&format!("lognormal of sigma {sigma}"), rows, trials, [error / 2.0, error, error])?;
    }
    if let Some(file) = argument(3) {
        try_all("sales_value of completejourney", journey(&file), trials, [0.02, 0.03, 0.03])?;
    }
    Ok(())
}

/// Store, household and sales value of every row.
fn journey(file: &str) -> Rows {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).expect("the file")).expect("is Parquet");
    let mut columns: [Vec<String>; 2] = Default::default();
    let mut values = Vec::new();
    for batch in reader.build().expect("reads") {
        let batch = batch.expect("a batch");
        let column = |name: &str, to| cast(batch.column_by_name(name).expect("the column"), to).expect("casts");
        for (texts, name) in columns.iter_mut().zip(["store_id", "household_id"]) {
            let column = column(name, &ArrowType::Utf8);
            texts.extend(column.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned()));
        }
        let column = column("sales_value", &ArrowType::Float64);
        values.extend(column.as_primitive::<arrow::datatypes::Float64Type>().values());
    }
    let members = columns.each_ref().map(|texts| texts.iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
    let member = |dimension: usize, row: usize| {
        members[dimension].binary_search(&&columns[dimension][row]).expect("it is there") as u32
    };
    (0..values.len()).map(|row| (member(0, row), member(1, row), values[row])).collect()
}

/// Tries a count, a sum and an average, each with its largest error, under so many seeds.
fn try_all(name: &str, rows: Rows, trials: u64, errors: [f64; 3]) -> Result<()> {
    let dir = std::env::temp_dir().join(format!("alluvia-sample-trials-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    disk.create_dir_all(&dir).expect("a directory");
    let context = TreeContext::new(disk, Arc::new(Cache::new(1 << 30)), &dir);
    let members = [0, 1].map(|at| 1 + rows.iter().map(|row| if at == 0 { row.0 } else { row.1 }).max().unwrap_or(0));
    let segment = Segment::open(&context, write(&context, &rows, members)?)?;
    let identities = vec![segment.identities(0..segment.meta().rows)?];
    let segments = [SegmentRows { segment, above: None, through: None, dead: None }];
    let mut random = Random(7);
    let mut some = |level: usize, share: f64| LevelFilter {
        level,
        codes: CodeSet::of_codes((1..=members[level]).filter(|_| random.unit() < share).collect()),
    };
    let wanted = Wanted { sum: true, ..Wanted::default() };
    let question = BoxQuery {
        filters: vec![some(0, 0.6), some(1, 0.8)],
        times: Vec::new(),
        groups: Vec::new(),
        measures: vec![WantedMeasure { column: ColumnId(2), is_float: true, wanted }],
    };
    let boxes = Boxes::from(question.clone());
    let empty = || Answer::new(&question, GroupKeys::new(Vec::new()).expect("one group"));
    let mut exact = empty();
    assert!(answer(&question, &segments, 2, &mut exact)?, "the segment has the measure");
    let (count, sum) = (exact.totals.rows(0) as f64, exact.totals.measures()[0].float_sum(0));
    println!("{name}: {} rows, {count} match", rows.len());
    for ((aggregate, truth), max_error) in
        [(Aggregate::Count, count), (Aggregate::Sum, sum), (Aggregate::Avg, sum / count)].into_iter().zip(errors)
    {
        let goals = [Goal { aggregate, measure: (aggregate != Aggregate::Count).then_some(0) }];
        let start = Instant::now();
        let (mut held, mut textbook_held, mut sampled) = (0, 0, 0);
        let (mut width, mut textbook_width, mut drawn) = (0.0, 0.0, 0.0);
        for seed in 0..trials {
            let asked = SampleRequest {
                boxes: &boxes,
                group_codes: &[],
                goals: &goals,
                max_error,
                confidence: 0.95,
                otherwise: Otherwise::Exact,
                source: Source::Seeded { seed, identities: &identities },
                by_cost: true,
                strata_min: alluvia_tree::sample::STRATA_MIN,
                threads: 2,
            };
            let Sampled::Estimates(found) = sample(&asked, &segments, &mut empty())? else { continue };
            let cell = found.groups[0].1[0];
            let holds = |interval: &estimate::Interval| interval.lower <= truth && truth <= interval.upper;
            sampled += 1;
            held += u64::from(holds(&cell.interval));
            textbook_held += u64::from(holds(&cell.textbook));
            width += cell.interval.upper - cell.interval.lower;
            textbook_width += cell.textbook.upper - cell.textbook.lower;
            drawn += found.rows_drawn as f64 / found.rows_cut as f64;
        }
        let share = |part: u64| 100.0 * part as f64 / sampled.max(1) as f64;
        println!(
            "  {aggregate:?} within {max_error}: {sampled} of {trials} sampled, {:.2} % hold; the textbook's {:.2} %, ours {:.2} times as \
             wide; {:.2} % drawn; {:.1} s",
            share(held),
            share(textbook_held),
            width / textbook_width,
            100.0 * drawn / sampled.max(1) as f64,
            start.elapsed().as_secs_f64(),
        );
    }
    segments[0].segment.retire();
    Ok(())
}

/// One segment of all rows in Hilbert's order.
fn write(context: &TreeContext, rows: &Rows, members: [u32; 2]) -> Result<SegmentMeta> {
    let table = table();
    let curve = CurveMap::new(Curve::Hilbert, &[12, 12]);
    let axis = |member: u32, members: u32| ((u64::from(member) << 12) / u64::from(members)) as u32;
    let key = |row: &(u32, u32, f64)| curve.encode(&[axis(row.0, members[0]), axis(row.1, members[1])]);
    let mut order: Vec<(u128, u32)> = rows.iter().enumerate().map(|(at, row)| (key(row), at as u32)).collect();
    order.sort_unstable();
    let mut ids = (1..).map(SegmentId);
    let new_id = || ids.next().expect("without end");
    let count = rows.len() as u64;
    let mut writer = LadderWriter::create(context, new_id, &table, Stage::Merged, None, count, RUNG_ROWS_MIN)?;
    for piece in order.chunks(1 << 16) {
        let of = |row: &(u128, u32)| rows[row.1 as usize];
        let levels: Vec<Vec<u32>> =
            vec![piece.iter().map(|row| of(row).0 + 1).collect(), piece.iter().map(|row| of(row).1 + 1).collect()];
        let text = |level: usize| {
            let names = (0..=members[level]).map(|at| (at > 0).then(|| format!("member {at}")));
            let keys = UInt32Array::from(levels[level].clone());
            Arc::new(DictionaryArray::<UInt32Type>::new(keys, Arc::new(StringArray::from_iter(names)))) as ArrayRef
        };
        let columns: Vec<ArrayRef> = vec![
            text(0),
            text(1),
            Arc::new(piece.iter().map(|row| Some(of(row).2)).collect::<Float64Array>()),
            Arc::new(UInt64Array::from(vec![1; piece.len()])),
            Arc::new(UInt64Array::from_iter_values(piece.iter().map(|row| u64::from(row.1)))),
        ];
        let fields: Vec<arrow::datatypes::Field> = segment_schema(&table)
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
            .collect();
        let batch = RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).expect("fits");
        let keys = piece.iter().map(|row| row.0).collect();
        writer.write(&RowChunk::new(batch, keys, LevelCodes { levels }))?;
    }
    writer.finish()
}

fn table() -> TableDef {
    let types = [("first", DataType::Text), ("second", DataType::Text), ("value", DataType::Double)];
    let column = |(at, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(at as u32),
        storage_name: name.to_owned(),
        name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    let dimension = |at: u32| Dimension {
        name: format!("d{at}"),
        levels: vec![Level { name: format!("level{at}"), source: LevelSource::Column(ColumnId(at)), bits: 8 }],
        range: KeyRange::None,
        zone: None,
    };
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "trials".to_owned(),
        columns: types.into_iter().enumerate().map(column).collect(),
        next_column_id: 3,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: vec![dimension(0), dimension(1)],
        measures: vec![ColumnId(2)],
        seed: 1,
        options: TableOptions::default(),
    }
}
