//! Prints how fast rows become keys and arithmetic codes: 1M rows, 8 dimensions over 19 level columns.
//!
//! `cargo run -p alluvia-space --example key_speed`

use alluvia_space::{Column, Curve, DataType, KeyLayout, TableDef, TableOptions, codes, dimensions, weight};
use alluvia_types::{Clock, ColumnId, SystemClock, TableId, Version};
use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int32Type;
use std::hint::black_box;
use std::sync::Arc;

const ROWS: usize = 1_000_000;

fn main() {
    let clock = SystemClock::default();
    let time = |what: &str, work: &mut dyn FnMut()| {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = clock.monotonic();
            work();
            best = best.min((clock.monotonic() - start).as_secs_f64());
        }
        println!("{what:<44} {:>7.1} ms  {:>6.1} ns/row", best * 1e3, best * 1e9 / ROWS as f64);
    };
    for curve in [Curve::Hilbert, Curve::Z] {
        for encoded in [true, false] {
            let (def, rows) = paths(curve, encoded);
            let layout = KeyLayout::new(&def);
            let text = if encoded { "dictionaries" } else { "plain text" };
            time(&format!("{curve:?}, 8 paths of 19 columns, {text}"), &mut || {
                black_box(layout.keys(&rows).map(|keys| keys.len()).unwrap_or(0));
            });
        }
    }
    let (def, rows) = calendars();
    let layout = KeyLayout::new(&def);
    time("Hilbert, 16 calendars", &mut || {
        black_box(layout.keys(&rows).map(|keys| keys.len()).unwrap_or(0));
    });
    time("codes of year, month, day, hour", &mut || {
        black_box(codes::arithmetic(&def.dimensions[0], rows.column(0)).map(|codes| codes.len()).unwrap_or(0));
    });
    time("weights", &mut || {
        black_box((0..ROWS as u64).fold(0, |sum, row| sum ^ weight::weight(Version(7), black_box(row), 42)));
    });
}

/// Eight paths: five of two levels and three of three.
fn paths(curve: Curve, encoded: bool) -> (TableDef, RecordBatch) {
    let mut columns = Vec::new();
    let mut arrays: Vec<(String, ArrayRef)> = Vec::new();
    let mut declared = Vec::new();
    for dimension in 0..8u64 {
        let levels = if dimension < 5 { 2 } else { 3 };
        let mut path = Vec::new();
        for level in 0..levels {
            let name = format!("c{dimension}_{level}");
            let members = [12, 150, 2000][level as usize];
            let keys =
                (0..ROWS as u64).map(|row| (weight::weight(Version(dimension * 3 + level), row, 1) % members) as i32);
            let values = StringArray::from_iter_values(
                (0..members).map(|at| format!("{}{at}", ["nation ", "st", "a longer city name "][level as usize])),
            );
            let array: ArrayRef = if encoded {
                Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from_iter_values(keys), Arc::new(values)))
            } else {
                Arc::new(StringViewArray::from_iter_values(keys.map(|key| values.value(key as usize))))
            };
            columns.push(column(columns.len(), &name, DataType::Text));
            arrays.push((name.clone(), array));
            path.push(name);
        }
        declared.push(format!("d{dimension}({})", path.join(", ")));
    }
    (define(columns, &declared.join("; "), curve), RecordBatch::try_from_iter(arrays).expect("arrays of equal length"))
}

fn calendars() -> (TableDef, RecordBatch) {
    let start = 1_600_000_000_000_000;
    let times = (0..ROWS as u64).map(|row| start + (weight::weight(Version(1), row, 1) % 100_000_000_000_000) as i64);
    let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(times));
    let declared: Vec<String> =
        (0..16).map(|at| format!("t{at}(t: year, month, day, hour from 2020-01-01 to 2030-01-01)")).collect();
    let def = define(vec![column(0, "t", DataType::Timestamp)], &declared.join("; "), Curve::Hilbert);
    (def, RecordBatch::try_from_iter([("t", array)]).expect("one array"))
}

fn column(id: usize, name: &str, data_type: DataType) -> Column {
    Column {
        id: ColumnId(id as u32),
        name: name.into(),
        storage_name: name.into(),
        data_type,
        nullable: true,
        chars_max: None,
    }
}

fn define(columns: Vec<Column>, declared: &str, curve: Curve) -> TableDef {
    let dimensions = dimensions::parse(declared, &columns).expect("a right declaration");
    let next_column_id = columns.len() as u32;
    let options = TableOptions { curve, ..TableOptions::default() };
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "t".into(),
        columns,
        next_column_id,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions,
        measures: vec![],
        seed: 1,
        options,
    }
}
