//! Keys against a slow model, and their independence of encoding.

use super::*;
use crate::schema::{Column, Curve, DataType, TableOptions};
use crate::{codes, dimensions};
use alluvia_types::TableId;
use arrow::array::{
    ArrayRef, Float64Array, Int64Array, StringDictionaryBuilder, StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;
use std::sync::Arc;

const DECLARED: &str = "store(country, state, city); time(sold_at: year, month, day, hour from 2020-01-01 to 2030-01-01); \
     price(price: linear 0..1000, 4, 8); band(price: quantiles (1, 10, 100), 1, 2); user(user_id: hash 4, 8); id(user_id)";

fn table(curve: Curve) -> TableDef {
    let declared = [
        ("sold_at", DataType::Timestamp),
        ("country", DataType::Text),
        ("state", DataType::Text),
        ("city", DataType::Text),
        ("price", DataType::Double),
        ("user_id", DataType::Int64),
    ];
    let column = |(id, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(id as u32),
        name: name.into(),
        storage_name: name.into(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    let columns: Vec<Column> = declared.into_iter().enumerate().map(column).collect();
    let def = TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "sales".into(),
        dimensions: dimensions::parse(DECLARED, &columns).unwrap(),
        next_column_id: columns.len() as u32,
        rules: crate::rules::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        measures: vec![ColumnId(4)],
        seed: 7,
        options: TableOptions { curve, ..TableOptions::default() },
    };
    def.validate().unwrap();
    def
}

type Row = (Option<i64>, Option<String>, Option<String>, Option<String>, Option<f64>, Option<i64>);

fn any_row() -> impl Strategy<Value = Row> {
    let text = || prop::option::weighted(0.9, "[a-e]|[a-z]{10,20}");
    let time = prop::option::weighted(0.9, 1_500_000_000_000_000i64..2_000_000_000_000_000);
    (
        time,
        text(),
        text(),
        text(),
        prop::option::weighted(0.9, -10.0f64..1100.0),
        prop::option::weighted(0.9, any::<i64>()),
    )
}

fn batch(rows: &[Row], encoded: bool) -> RecordBatch {
    let text = |value: fn(&Row) -> &Option<String>| -> ArrayRef {
        if encoded {
            let mut builder = StringDictionaryBuilder::<Int32Type>::new();
            rows.iter().for_each(|row| builder.append_option(value(row).as_deref()));
            Arc::new(builder.finish())
        } else {
            Arc::new(StringViewArray::from_iter(rows.iter().map(|row| value(row).as_deref())))
        }
    };
    RecordBatch::try_from_iter_with_nullable([
        ("sold_at", Arc::new(TimestampMicrosecondArray::from_iter(rows.iter().map(|row| row.0))) as ArrayRef, true),
        ("country", text(|row| &row.1), true),
        ("state", text(|row| &row.2), true),
        ("city", text(|row| &row.3), true),
        ("price", Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.4))), true),
        ("user_id", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.5))), true),
    ])
    .unwrap()
}

/// Coordinates as the module doc words them, one row at a time.
fn model(row: &Row, def: &TableDef) -> Vec<u32> {
    let top = |hash: u64, bits: u8| (hash >> (64 - bits)) as u32;
    let bits = |dimension: usize| def.dimensions[dimension].levels.iter().map(|level| level.bits).sum::<u8>();
    let mut store = 0;
    for (level, text) in def.dimensions[0].levels.iter().zip([&row.1, &row.2, &row.3]) {
        let hash = text.as_ref().map_or(0, |text| codes::hash::hash_bytes(text.as_bytes()));
        store = store << level.bits | top(hash, level.bits);
    }
    let line = |value: Option<f64>, low: f64, high: f64, bits: u8| {
        let parts = (1u64 << bits) as f64;
        value.map_or(0, |value| ((value - low) * (parts / (high - low))).clamp(0.0, parts - 1.0) as u32)
    };
    let time = line(row.0.map(|at| at as f64), 1_577_836_800e6, 1_893_456_000e6, bits(1));
    let price = line(row.4, 0.0, 1000.0, bits(2));
    let band = [1.0, 10.0, 100.0].iter().filter(|&&cut| row.4.is_some_and(|price| cut <= price)).count() as u32;
    let user = row.5.map_or(0, codes::hash::hash_integer);
    vec![store, time, price, band, top(user, bits(4)), top(user, bits(5))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn keys_follow_the_model_whatever_the_encoding(rows in prop::collection::vec(any_row(), 0..40), cut in 0usize..40) {
        for curve in [Curve::Hilbert, Curve::Z] {
            let def = table(curve);
            let layout = KeyLayout::new(&def);
            let keys = layout.keys(&batch(&rows, false)).unwrap();
            let expected: Vec<u128> = rows.iter().map(|row| layout.curve().encode(&model(row, &def))).collect();
            prop_assert_eq!(&keys, &expected);
            prop_assert_eq!(&layout.keys(&batch(&rows, true)).unwrap(), &expected);
            let cut = cut.min(rows.len());
            let tail = batch(&rows, true).slice(cut, rows.len() - cut);
            prop_assert_eq!(&layout.keys(&tail).unwrap(), &expected[cut..]);
        }
    }

    /// A member of a level is an interval of its axis, so a coarse level's rows stay together.
    #[test]
    fn equal_coarse_members_share_their_top_bits(rows in prop::collection::vec(any_row(), 1..40)) {
        let def = table(Curve::Hilbert);
        let layout = KeyLayout::new(&def);
        let keys = layout.keys(&batch(&rows, false)).unwrap();
        let bits = def.dimensions[0].levels[0].bits;
        let below = layout.curve().bits()[0] - bits;
        for (a, row_a) in keys.iter().zip(&rows) {
            for (b, row_b) in keys.iter().zip(&rows) {
                if row_a.1 == row_b.1 {
                    prop_assert_eq!(layout.curve().decode(*a)[0] >> below, layout.curve().decode(*b)[0] >> below);
                }
            }
        }
    }
}

#[test]
fn batches_of_many_chunks_equal_their_parts() {
    let row = |at: i64| -> Row {
        let text = |modulus: i64| Some(format!("name {}", at % modulus));
        (
            Some(1_600_000_000_000_000 + at * 7_919_000_000),
            text(5),
            text(50),
            text(500),
            Some((at % 997) as f64),
            Some(at),
        )
    };
    let rows: Vec<Row> = (0..3 * CHUNK_ROWS as i64 + 17).map(row).collect();
    let layout = KeyLayout::new(&table(Curve::Hilbert));
    let whole = layout.keys(&batch(&rows, true)).unwrap();
    let parts: Vec<u128> = rows.chunks(700).flat_map(|rows| layout.keys(&batch(rows, false)).unwrap()).collect();
    assert_eq!(whole, parts);
}

#[test]
fn no_dimensions_no_bits() {
    let def = TableDef { dimensions: Vec::new(), ..table(Curve::Hilbert) };
    let layout = KeyLayout::new(&def);
    assert_eq!(layout.bits_total(), 0);
    assert_eq!(layout.keys(&batch(&[(None, None, None, None, None, None)], false)).unwrap(), [0]);
}

#[test]
fn a_range_that_is_not_fixed_and_a_column_that_is_missing_are_reported() {
    let mut def = table(Curve::Hilbert);
    let rows = batch(&[], false);
    let lacking = rows.project(&[0, 1]).unwrap();
    assert!(KeyLayout::new(&def).keys(&lacking).unwrap_err().message().contains("lack column state"));
    def.dimensions[1].range = KeyRange::Learnt;
    assert!(KeyLayout::new(&def).keys(&rows).unwrap_err().message().contains("before it was fixed"));
}
