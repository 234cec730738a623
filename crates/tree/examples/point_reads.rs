//! Measures reads of single rows by their numbers: 12 columns of a table with a key, warm, in processor time per read.
//!
//! `cargo run --release -p alluvia-tree --example point_reads [rows]`

use alluvia_space::*;
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::*;
use alluvia_types::{ColumnId, Result, SegmentId, Stage, TableId};
use arrow::array::*;
use arrow::datatypes::{DataType as Arrow, Field, Schema};
use std::sync::Arc;
use std::time::Duration;

const CHUNK_ROWS: usize = 100_000;
const READS: usize = 20_000;

fn main() -> Result<()> {
    let rows: usize = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(1_200_000);
    let dir = std::env::temp_dir().join(format!("alluvia-point-reads-{}", std::process::id()));
    let disk = Arc::new(RealDisk::new());
    disk.create_dir_all(&dir).expect("a directory");
    let context = TreeContext::new(Arc::clone(&disk) as Arc<dyn Disk>, Arc::new(Cache::new(1 << 30)), &dir);
    for is_keyed in [false, true] {
        let def = table(is_keyed);
        let id = SegmentId(1 + u64::from(is_keyed));
        let mut writer = SegmentWriter::create(&context, id, &def, Stage::Merged, None)?;
        let start = cpu();
        for first in (0..rows).step_by(CHUNK_ROWS) {
            let count = CHUNK_ROWS.min(rows - first);
            let keys = (first..first + count).map(|row| row as u128).collect();
            writer.write(&RowChunk::new(values(&def, first, count), keys, LevelCodes::default()))?;
        }
        let meta = writer.finish()?;
        let per_row = |took: Duration| took.as_nanos() as f64 / rows as f64;
        let written = per_row(cpu() - start);
        let segment = Segment::open(&context, meta.clone())?;
        let columns: Vec<(&str, Arrow)> =
            def.columns.iter().map(|column| (column.storage_name.as_str(), column.data_type.to_arrow())).collect();
        let start = cpu();
        segment.column_batches(&columns)?.try_for_each(|batch| batch.map(drop))?;
        let start_warm = cpu();
        segment.column_batches(&columns)?.try_for_each(|batch| batch.map(drop))?;
        println!(
            "keyed {is_keyed}: write {written:.0} ns/row, {:.1} B/row, scan {:.0} ns/row cold, {:.0} warm",
            meta.parquet_bytes as f64 / rows as f64,
            per_row(start_warm - start),
            per_row(cpu() - start_warm),
        );
        measure("all", &segment, &columns, rows)?;
        for column in &columns {
            measure(column.0, &segment, std::slice::from_ref(column), rows)?;
        }
        segment.retire();
    }
    Ok(())
}

fn measure(what: &str, segment: &Arc<Segment>, columns: &[(&str, Arrow)], rows: usize) -> Result<()> {
    let columns = RowColumns::new(columns.iter().map(|(name, data_type)| ((*name).to_owned(), data_type.clone())));
    let reads = if columns.iter().len() > 1 { READS } else { READS / 10 };
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut start = cpu();
    for at in 0..reads + 100 {
        if at == 100 {
            start = cpu();
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let row = (state % rows as u64) as u32;
        assert_eq!(segment.rows_at(&columns, &[row])?.num_rows(), 1);
    }
    println!("  {what}: {:.1} us a row", (cpu() - start).as_nanos() as f64 / 1e3 / reads as f64);
    Ok(())
}

/// Time that this thread has been running: unlike the wall clock, it does not count what else the machine does.
#[allow(clippy::disallowed_methods)] // not a file: the kernel's counters
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn table(is_keyed: bool) -> TableDef {
    use DataType::{Boolean, Date, Decimal, Double, Int32, Int64, Text, Timestamp};
    let columns = [
        ("id", Int64),
        ("customer", Int64),
        ("quantity", Int32),
        ("line", Int32),
        ("price", Double),
        ("total", Decimal { precision: 15, scale: 2 }),
        ("day", Date),
        ("changed_at", Timestamp),
        ("state", Text),
        ("city", Text),
        ("name", Text),
        ("is_paid", Boolean),
    ];
    let column = |(at, (name, data_type)): (usize, (&str, DataType))| {
        let (name, storage_name) = (name.to_owned(), name.to_owned());
        Column { id: ColumnId(at as u32), name, storage_name, data_type, nullable: at > 0, chars_max: None }
    };
    let columns: Vec<Column> = columns.into_iter().enumerate().map(column).collect();
    let key = PrimaryKey { columns: vec![ColumnId(0)], secret: [1, 2], on_conflict: OnConflict::Error };
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "orders".to_owned(),
        next_column_id: columns.len() as u32,
        columns,
        key: is_keyed.then_some(key),
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 1,
        options: TableOptions::default(),
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
    }
}

/// Rows from one on, as a merge has them.
fn values(def: &TableDef, first: usize, count: usize) -> RecordBatch {
    let mix = |row: usize, salt: u64| {
        let mixed = (row as u64 + salt * 1_000_003).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33
    };
    let rows = first..first + count;
    let each = |salt: u64, end: u64| rows.clone().map(move |row| (mix(row, salt) % end) as i64);
    let decimals = Decimal128Array::from_iter_values(each(5, 900_000).map(i128::from));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))),
        Arc::new(Int64Array::from_iter_values(each(1, 150_000))),
        Arc::new(Int32Array::from_iter_values(each(2, 50).map(|number| number as i32))),
        Arc::new(Int32Array::from_iter_values(each(3, 7).map(|number| number as i32))),
        Arc::new(Float64Array::from_iter_values(each(4, 100_000).map(|cents| cents as f64 / 100.0))),
        Arc::new(decimals.with_precision_and_scale(15, 2).expect("fits")),
        Arc::new(Date32Array::from_iter_values(each(6, 2_000).map(|day| 18_000 + day as i32))),
        Arc::new(TimestampMicrosecondArray::from_iter_values(each(7, 1 << 40))),
        Arc::new(StringViewArray::from_iter_values(each(8, 5).map(|state| format!("state {state}")))),
        Arc::new(StringViewArray::from_iter_values(each(9, 2_000).map(|city| format!("the city of {city}")))),
        Arc::new(StringViewArray::from_iter_values(rows.clone().map(|row| format!("order {} {row}", mix(row, 10))))),
        Arc::new(BooleanArray::from_iter(each(11, 2).map(|paid| Some(paid == 1)))),
        Arc::new(UInt64Array::from_value(7, count)),
        Arc::new(UInt64Array::from_iter_values(rows.map(|row| row as u64))),
    ];
    let mut fields: Vec<Field> = def
        .columns
        .iter()
        .map(|column| Field::new(&column.storage_name, column.data_type.to_arrow(), column.nullable))
        .collect();
    fields.push(Field::new(VERSION_COLUMN, Arrow::UInt64, true));
    fields.push(Field::new(ORDINAL_COLUMN, Arrow::UInt64, false));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("the columns have the fields' types")
}
