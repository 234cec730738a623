//! Measures writing and reading of one segment, in processor time per row: 16 dictionary-encoded text columns, a timestamp, two doubles.
//!
//! `cargo run -p alluvia-tree --example write_speed [rows]`

use alluvia_catalog::Dictionaries;
use alluvia_space::*;
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::*;
use alluvia_types::{ColumnId, Result, SegmentId, Stage, TableId};
use arrow::array::*;
use arrow::compute::take;
use arrow::datatypes::UInt32Type;
use std::sync::Arc;
use std::time::Duration;

const CARDINALITIES: [u32; 16] = [5, 40, 3000, 12, 90, 20_000, 8, 50, 400, 4, 100_000, 30, 250, 7, 60, 1500];

fn main() -> Result<()> {
    let rows: usize = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(2_000_000);
    let def = table();
    let clocked = |what: &str, from: Duration| {
        println!("{what}: {:.0} ns/row", (cpu() - from).as_nanos() as f64 / rows as f64);
    };
    let dir = std::env::temp_dir().join(format!("alluvia-write-speed-{}", std::process::id()));
    let disk = Arc::new(RealDisk::new());
    disk.create_dir_all(&dir).expect("a directory");
    let context = TreeContext::new(Arc::clone(&disk) as Arc<dyn Disk>, Arc::new(Cache::new(1 << 30)), &dir);
    let dictionaries = Dictionaries::create(disk, dir.join("dictionary"), &def)?;
    let (batch, keys) = synthetic(&def, rows);
    let start = cpu();
    let codes = dictionaries.remap(&def, &batch)?;
    clocked("remap", start);
    let mut chunk = RowChunk::new(batch, keys, codes);
    for round in 0..4 {
        let start = cpu();
        // Every other round with a ladder.
        let mut ids = (8 * round..).map(SegmentId);
        let new_id = || ids.next().expect("without end");
        let least = if round % 2 == 0 { u64::MAX } else { RUNG_ROWS_MIN };
        let mut writer = LadderWriter::create(&context, new_id, &def, Stage::Sorted, None, rows as u64, least)?;
        writer.write(&chunk)?;
        let encoded = cpu();
        let meta = writer.finish()?;
        let written = cpu();
        let segment = Segment::open(&context, meta.clone())?;
        let mut cursor = SegmentCursor::new(&segment, &def, &dictionaries, 0..meta.rows, 8 * BLOCK_ROWS)?;
        let mut read = 0;
        while let Some(chunk) = cursor.next().transpose()? {
            read += chunk.len();
        }
        assert_eq!(read, rows);
        let cold = cpu();
        let again = SegmentCursor::new(&segment, &def, &dictionaries, 0..meta.rows, 8 * BLOCK_ROWS)?;
        let again: Vec<RowChunk> = again.collect::<Result<_>>()?;
        let warm = cpu();
        let per_row = |from: Duration, to: Duration| (to - from).as_nanos() as f64 / rows as f64;
        println!(
            "write {:.0} ns/row, finish {:.0} ns/row, cursor {:.0} ns/row cold, {:.0} warm; \
             parquet {:.1} B/row, side {:.1} B/row, ladder of {} rungs {:.1} B/row",
            per_row(start, encoded),
            per_row(encoded, written),
            per_row(written, cold),
            per_row(cold, warm),
            meta.parquet_bytes as f64 / rows as f64,
            meta.side.len as f64 / rows as f64,
            meta.rungs.len(),
            meta.ladder_bytes() as f64 / rows as f64,
        );
        if round == 1 {
            println!("from here on, what is written is what a merge would write:");
            chunk = join(&again);
        }
        if round == 3 && std::env::args().nth(2).as_deref() == Some("keep") {
            println!("kept {}", dir.display());
        } else {
            segment.retire();
        }
    }
    Ok(())
}

/// Time that this thread has been running: unlike the wall clock, it does not count what else the machine does.
#[allow(clippy::disallowed_methods)] // not a file: the kernel's counters
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// Dimensions of three text levels each (the last one of one), time, and the measures.
fn table() -> TableDef {
    let mut columns: Vec<Column> = Vec::new();
    let mut column = |name: String, data_type: DataType| {
        let id = ColumnId(columns.len() as u32);
        columns.push(Column { id, storage_name: name.clone(), name, data_type, nullable: true, chars_max: None });
        id
    };
    let mut dimensions: Vec<Dimension> = Vec::new();
    for at in 0..CARDINALITIES.len() {
        let id = column(format!("text{at}"), DataType::Text);
        if at % 3 == 0 {
            dimensions.push(Dimension {
                name: format!("d{at}"),
                levels: Vec::new(),
                range: KeyRange::None,
                zone: None,
            });
        }
        let level = Level { name: format!("text{at}"), source: LevelSource::Column(id), bits: 5 };
        dimensions.last_mut().expect("there is one").levels.push(level);
    }
    let time = column("sold_at".to_owned(), DataType::Timestamp);
    let units = [CalendarUnit::Year, CalendarUnit::Month, CalendarUnit::Day];
    let level = |unit| Level { name: format!("{unit:?}"), source: LevelSource::Calendar(time, unit), bits: 5 };
    let levels = units.into_iter().map(level).collect();
    dimensions.push(Dimension { name: "time".to_owned(), levels, range: KeyRange::None, zone: None });
    let measures = vec![column("price".to_owned(), DataType::Double), column("cost".to_owned(), DataType::Double)];
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

/// One chunk of all, which share their coded columns.
fn join(chunks: &[RowChunk]) -> RowChunk {
    let batches = chunks.iter().map(|chunk| &chunk.rows);
    let levels = 0..chunks[0].codes.levels.len();
    let level = |level: usize| chunks.iter().flat_map(|chunk| chunk.codes.levels[level].iter().copied()).collect();
    RowChunk {
        rows: arrow::compute::concat_batches(&chunks[0].rows.schema(), batches).expect("one schema"),
        keys: chunks.iter().flat_map(|chunk| chunk.keys.iter().copied()).collect(),
        codes: LevelCodes { levels: levels.map(level).collect() },
        coded: Arc::clone(&chunks[0].coded),
    }
}

/// Random rows in an order like a curve's: the dimensions' bits interleaved, coarse levels first.
fn synthetic(def: &TableDef, rows: usize) -> (RecordBatch, Vec<u128>) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut levels: Vec<Vec<u32>> = (0..19).map(|_| Vec::with_capacity(rows)).collect();
    let mut micros = Vec::with_capacity(rows);
    let mut prices = Vec::with_capacity(rows);
    let mut costs = Vec::with_capacity(rows);
    for _ in 0..rows {
        for dimension in (0..16).step_by(3) {
            // Squaring skews: some members are common.
            let draw = (random() >> 40) as f64 / (1u64 << 24) as f64;
            let draw = draw * draw;
            for level in dimension..(dimension + 3).min(16) {
                levels[level].push(1 + (draw * f64::from(CARDINALITIES[level])) as u32);
            }
        }
        let second = random() % (3 * 365 * 86400);
        micros.push((1_600_000_000 + second as i64) * 1_000_000);
        let day = (second / 86400) as u32;
        levels[16].push(50 + day / 365);
        levels[17].push(600 + day / 30);
        levels[18].push(18_000 + day);
        prices.push((random() % 100_000) as f64 / 100.0);
        costs.push((random() % 1_000_000) as f64 / 977.0);
    }
    let tops: Vec<(usize, u32)> = vec![(2, 3000), (5, 20_000), (8, 400), (10, 100_000), (14, 60), (18, 20_000)];
    let key = |row: usize| {
        let mut key = 0u128;
        for bit in 0..16 {
            for &(level, max) in &tops {
                let scaled = (u64::from(levels[level][row]) << 16) / u64::from(max + 1);
                key = key << 1 | u128::from(scaled >> (15 - bit) & 1);
            }
        }
        key
    };
    let mut order: Vec<(u128, u32)> = (0..rows).map(|row| (key(row), row as u32)).collect();
    order.sort_unstable();
    let indices = UInt32Array::from_iter_values(order.iter().map(|&(_, row)| row));
    let codes: Vec<Vec<u32>> =
        levels.iter().map(|level| order.iter().map(|&(_, row)| level[row as usize]).collect()).collect();
    let values: Vec<ArrayRef> = (0..16)
        .map(|level| {
            let count = CARDINALITIES[level];
            let names = (0..=count).map(|at| (at > 0).then(|| format!("member {at} of {level}")));
            Arc::new(StringArray::from_iter(names)) as ArrayRef
        })
        .collect();
    let mut columns: Vec<ArrayRef> = (0..16)
        .map(|level| {
            let keys = UInt32Array::from(codes[level].clone());
            Arc::new(DictionaryArray::<UInt32Type>::new(keys, Arc::clone(&values[level]))) as ArrayRef
        })
        .collect();
    let sorted = |array: &dyn Array| take(array, &indices, None).expect("takes");
    columns.push(sorted(&TimestampMicrosecondArray::from(micros)));
    columns.push(sorted(&Float64Array::from(prices)));
    columns.push(sorted(&Float64Array::from(costs)));
    columns.push(sorted(&UInt64Array::from_iter_values((0..rows as u64).map(|row| 1 + row / 100_000))));
    columns.push(sorted(&UInt64Array::from_iter_values((0..rows as u64).map(|row| row % 100_000))));
    let schema = segment_schema(def);
    let fields: Vec<arrow::datatypes::Field> = schema
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect();
    let rows = RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).expect("fits");
    let keys = order.into_iter().map(|(key, _)| key).collect();
    (rows, keys)
}
