//! Tables and rows for tests, and the slow, obviously right dictionaries.

use alluvia_space::{
    CalendarUnit, Column, DataType, Dimension, KeyRange, Level, LevelCodes, LevelSource, TableDef, TableOptions,
};
use alluvia_types::{ColumnId, TableId};
use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, StringArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::datatypes::{Field, Int32Type, Schema, UInt32Type};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use std::collections::HashMap;
use std::sync::Arc;

/// Every type that a level's column can have.
pub const TYPES: [DataType; 15] = [
    DataType::Text,
    DataType::Binary,
    DataType::Boolean,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Real,
    DataType::Double,
    DataType::Decimal { precision: 38, scale: 4 },
    DataType::Date,
    DataType::Timestamp,
    DataType::TimestampTz,
    DataType::Uuid,
    DataType::Time,
    DataType::Numeric,
];

/// A table whose dimensions are these paths of columns; with `calendar`, a last one of year and day of a timestamp.
pub fn table(paths: &[Vec<DataType>], calendar: bool) -> TableDef {
    let mut columns = Vec::new();
    let mut column = |data_type: DataType| {
        let id = columns.len() as u32;
        let name = format!("c{id}");
        columns.push(Column {
            id: ColumnId(id),
            storage_name: name.clone(),
            name,
            data_type,
            nullable: true,
            chars_max: None,
        });
        ColumnId(id)
    };
    let mut dimensions = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let level = |data_type: &DataType| {
            let id = column(*data_type);
            Level { name: format!("c{id}"), source: LevelSource::Column(id), bits: 4 }
        };
        let levels = path.iter().map(level).collect();
        dimensions.push(Dimension { name: format!("d{at}"), levels, range: KeyRange::None, zone: None });
    }
    if calendar {
        let id = column(DataType::Timestamp);
        let level = |(name, unit): (&str, CalendarUnit)| Level {
            name: name.to_owned(),
            source: LevelSource::Calendar(id, unit),
            bits: 4,
        };
        let levels = [("year", CalendarUnit::Year), ("day", CalendarUnit::Day)].map(level).to_vec();
        dimensions.push(Dimension { name: "time".into(), levels, range: KeyRange::Learnt, zone: None });
    }
    TableDef {
        id: TableId(7),
        schema: "public".to_owned(),
        name: "t".into(),
        next_column_id: columns.len() as u32,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        dimensions,
        measures: Vec::new(),
        seed: 1,
        options: TableOptions::default(),
    }
}

/// Text of that number: some empty, some within a view, some longer.
pub fn text(draw: u8) -> String {
    match draw % 4 {
        0 if draw == 0 => String::new(),
        0 => format!("a name longer than a view, number {draw}"),
        1 => format!("a name longer than a view{draw}"),
        _ => format!("né{draw}"),
    }
}

/// A column of these draws; `None` is NULL. `encoding`: 0 plain, 1 and 2 dictionary-encoded (text and binary only).
pub fn array(data_type: DataType, draws: &[Option<u8>], encoding: u8) -> ArrayRef {
    let of = |draw: u8| i64::from(draw) - 3;
    match data_type {
        DataType::Text if encoding > 0 => encoded_text(draws, encoding),
        DataType::Text => Arc::new(draws.iter().map(|draw| draw.map(text)).collect::<StringViewArray>()),
        DataType::Binary => {
            let bytes = |draw: u8| [&[0xFF, 0x00], text(draw).as_bytes()].concat();
            Arc::new(draws.iter().map(|draw| draw.map(bytes)).collect::<BinaryViewArray>())
        }
        DataType::Boolean => Arc::new(draws.iter().map(|draw| draw.map(|d| d % 2 == 1)).collect::<BooleanArray>()),
        DataType::Int16 => Arc::new(draws.iter().map(|draw| draw.map(|d| of(d) as i16)).collect::<Int16Array>()),
        DataType::Int32 => {
            Arc::new(draws.iter().map(|draw| draw.map(|d| (of(d) as i32) << 24)).collect::<Int32Array>())
        }
        DataType::Int64 => {
            Arc::new(draws.iter().map(|draw| draw.map(|d| of(d).wrapping_mul(i64::MAX / 2))).collect::<Int64Array>())
        }
        DataType::Real => Arc::new(draws.iter().map(|draw| draw.map(|d| float(d) as f32)).collect::<Float32Array>()),
        DataType::Double => Arc::new(draws.iter().map(|draw| draw.map(float)).collect::<Float64Array>()),
        DataType::Decimal { .. } | DataType::Numeric => {
            let values = draws.iter().map(|draw| draw.map(|d| i128::from(of(d)) << 70)).collect::<Decimal128Array>();
            Arc::new(values.with_data_type(data_type.to_arrow()))
        }
        DataType::Time => {
            let micros = |draw: u8| i64::from(draw) * 1_234_567_890;
            Arc::new(draws.iter().map(|draw| draw.map(micros)).collect::<Time64MicrosecondArray>())
        }
        DataType::Uuid => {
            let bytes = |draw: u8| [draw; 16];
            let values = draws.iter().map(|draw| draw.map(bytes));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).unwrap())
        }
        DataType::Char => Arc::new(draws.iter().map(|draw| draw.map(text)).collect::<StringViewArray>()),
        DataType::Json | DataType::Jsonb | DataType::Interval => unreachable!("no level is made of one"),
        DataType::Date => Arc::new(draws.iter().map(|draw| draw.map(|d| of(d) as i32 * 400)).collect::<Date32Array>()),
        DataType::Timestamp | DataType::TimestampTz => {
            let micros = |draw: u8| of(draw) * 86_400_000_000 * 90;
            let values = draws.iter().map(|draw| draw.map(micros)).collect::<TimestampMicrosecondArray>();
            Arc::new(values.with_data_type(data_type.to_arrow()))
        }
    }
}

fn float(draw: u8) -> f64 {
    match draw {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        3 => -f64::NAN,
        4 => f64::NEG_INFINITY,
        _ => f64::from(draw) / 2.0,
    }
}

/// A dictionary with unused entries, every value twice, and NULL among the values.
fn encoded_text(draws: &[Option<u8>], encoding: u8) -> ArrayRef {
    let top = draws.iter().flatten().max().map_or(0, |&top| u32::from(top)) + 1;
    let values = (0..2 * top).map(|at| Some(text((at % top) as u8))).chain([None]);
    let values: ArrayRef = Arc::new(values.collect::<StringArray>());
    let key = |(row, draw): (usize, &Option<u8>)| match draw {
        Some(draw) => Some(u32::from(*draw) + if row % 2 == 0 { top } else { 0 }),
        None if row % 2 == 0 => Some(2 * top),
        None => None,
    };
    let keys: UInt32Array = draws.iter().enumerate().map(key).collect();
    if encoding == 1 {
        return Arc::new(DictionaryArray::<UInt32Type>::new(keys, values));
    }
    let keys = keys.iter().map(|key| key.map(|key| key as i32)).collect();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}

/// What tells the value of a draw from others of its type.
pub fn identity(data_type: DataType, draw: u8) -> u8 {
    match (data_type, draw) {
        (DataType::Boolean, draw) => draw % 2,
        (DataType::Real | DataType::Double, 1) => 0,
        (DataType::Real | DataType::Double, 3) => 2,
        (_, draw) => draw,
    }
}

/// Rows: per row a draw for each column.
pub fn batch(def: &TableDef, rows: &[Vec<Option<u8>>], encoding: u8) -> RecordBatch {
    let column = |at: usize| -> Vec<Option<u8>> { rows.iter().map(|row| row[at]).collect() };
    let columns: Vec<ArrayRef> =
        def.columns.iter().enumerate().map(|(at, c)| array(c.data_type, &column(at), encoding)).collect();
    let fields: Vec<Field> = def
        .columns
        .iter()
        .zip(&columns)
        .map(|(column, array)| Field::new(&column.storage_name, array.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

/// The obviously right dictionaries: one hash map per level made of a column.
#[derive(Clone, Default)]
pub struct Model {
    pub levels: Vec<HashMap<(u32, u8), u32>>,
}

impl Model {
    /// Codes of the rows; `None` for arithmetic levels.
    pub fn remap(&mut self, def: &TableDef, rows: &[Vec<Option<u8>>]) -> Vec<Option<Vec<u32>>> {
        self.levels.resize(def.levels().count(), HashMap::new());
        let mut parents = vec![0; rows.len()];
        let mut codes = Vec::new();
        for (at, (_, depth, level)) in def.levels().enumerate() {
            let LevelSource::Column(id) = level.source else {
                codes.push(None);
                continue;
            };
            let data_type = def.columns[id.0 as usize].data_type;
            let members = &mut self.levels[at];
            let code = |(row, parent): (&Vec<Option<u8>>, &u32)| match row[id.0 as usize] {
                None => 0,
                Some(draw) => {
                    let next = members.len() as u32 + 1;
                    let parent = if depth == 0 { 0 } else { *parent };
                    *members.entry((parent, identity(data_type, draw))).or_insert(next)
                }
            };
            parents = rows.iter().zip(&parents).map(code).collect();
            codes.push(Some(parents.clone()));
        }
        codes
    }
}

/// Holds codes against the model's.
pub fn assert_codes(found: &LevelCodes, expected: &[Option<Vec<u32>>]) {
    assert_eq!(found.levels.len(), expected.len());
    for (at, (found, expected)) in found.levels.iter().zip(expected).enumerate() {
        if let Some(expected) = expected {
            assert_eq!(found, expected, "level {at}");
        }
    }
}
