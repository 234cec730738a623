//! Tests of learnt ranges, on samples of all kinds.

use super::*;
use crate::dimensions;
use crate::schema::TableOptions;
use alluvia_types::{ColumnId, TableId};
use arrow::array::{ArrayRef, Date32Array, Float64Array, TimestampMicrosecondArray};
use proptest::prelude::*;
use std::sync::Arc;

const DAY: f64 = 86_400e6;

fn table(declared: &str) -> TableDef {
    let columns = [("at", DataType::Timestamp), ("day", DataType::Date), ("price", DataType::Double)];
    let column = |(id, (name, data_type)): (usize, (&str, DataType))| Column {
        id: ColumnId(id as u32),
        name: name.into(),
        storage_name: name.into(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    let columns: Vec<Column> = columns.into_iter().enumerate().map(column).collect();
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "t".into(),
        dimensions: dimensions::parse(declared, &columns).unwrap(),
        next_column_id: 3,
        rules: crate::rules::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: None,
        columns,
        measures: Vec::new(),
        seed: 0,
        options: TableOptions::default(),
    }
}

fn prices(values: impl IntoIterator<Item = f64>) -> RecordBatch {
    let array: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("price", array)]).unwrap()
}

fn linear(range: &KeyRange) -> (f64, f64) {
    match range {
        KeyRange::Linear { low, high } if low < high => (*low, *high),
        other => panic!("not a linear range: {other:?}"),
    }
}

#[test]
fn times_go_on_to_the_right() {
    let def = table("t(at: day); d(day: day)");
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![
        Some(20_000 * 86_400_000_000),
        None,
        Some(20_001 * 86_400_000_000),
    ]));
    let day: ArrayRef = Arc::new(Date32Array::from(vec![10_000, 12_000, 20_000]));
    let sample = RecordBatch::try_from_iter([("at", at), ("day", day)]).unwrap();
    let learnt = ranges(&def, &[sample]);
    let (low, high) = linear(&learnt[0]);
    assert_eq!((low / DAY, high / DAY), (19_999.0, 21_462.0), "a stream's first day is followed by four years");
    assert_eq!(linear(&learnt[1]), (7_500.0, 30_000.0), "history is followed by as much again");
}

#[test]
fn declared_ranges_stay_and_open_ones_are_fixed_even_without_rows() {
    let def = table("p(price: linear 1..2); t(at: day); d(day: day); q(price: quantiles, 3); l(price: linear); price");
    let learnt = ranges(&def, &[]);
    assert_eq!(learnt[0], KeyRange::Linear { low: 1.0, high: 2.0 });
    assert_eq!(linear(&learnt[1]).0, 18_262.0 * DAY);
    assert_eq!(linear(&learnt[2]).1, 25_567.0);
    assert!(matches!(&learnt[3], KeyRange::Quantiles { cuts } if cuts.len() == 7 && cuts.is_sorted()));
    assert_eq!((linear(&learnt[4]), &learnt[5]), ((0.0, 1e6), &KeyRange::None));
}

#[test]
fn numbers_get_a_margin_and_strays_are_left_out() {
    let learnt = |values: Vec<f64>| linear(&ranges(&table("p(price: linear)"), &[prices(values)])[0]);
    assert_eq!(learnt(vec![10.0, 90.0]), (0.0, 100.0));
    assert_eq!(learnt(vec![-40.0, 40.0]), (-50.0, 50.0));
    assert_eq!(learnt(vec![5.0; 10]), (2.5, 7.5));
    assert_eq!(learnt(vec![0.0]), (0.0, 1.0));
    let mut values: Vec<f64> = (0..=2000).map(f64::from).collect();
    values.extend([1e18, f64::NAN, f64::INFINITY]);
    assert!(learnt(values).1 < 3000.0);
    let (low, high) = learnt(vec![f64::MIN, f64::MAX]);
    assert!((high - low).is_finite());
}

#[test]
fn quantiles_fill_their_parts_equally() {
    let def = table("q(price: quantiles, 4)");
    // Exponentially skewed.
    let values: Vec<f64> = (0..100_000).map(|at| ((at as f64 + 0.5) / 100_000.0).ln().abs() * 10.0).collect();
    let batches: Vec<RecordBatch> = values.chunks(333).map(|part| prices(part.iter().copied())).collect();
    let learnt = ranges(&def, &batches);
    let KeyRange::Quantiles { cuts } = &learnt[0] else { panic!("not quantiles: {learnt:?}") };
    let mut counts = [0; 16];
    values.iter().for_each(|value| counts[cuts.partition_point(|cut| cut <= value)] += 1);
    assert!(counts.iter().all(|count| (6_000..6_500).contains(count)), "{counts:?}");
}

#[test]
fn a_large_sample_is_thinned_evenly() {
    let batches: Vec<RecordBatch> =
        (0..5).map(|at| prices((0..199_999).map(|row| f64::from(at * 199_999 + row)))).collect();
    let values = sorted_values(&table("price").columns[2], &batches);
    assert!(values.len() <= SAMPLE_MAX && values.len() > SAMPLE_MAX / 2);
    assert!(values.windows(2).all(|pair| pair[1] - pair[0] == 4.0), "every fourth row, across batches");
}

proptest! {
    #[test]
    fn whatever_is_learnt_is_fixed_and_usable(values in prop::collection::vec(any::<f64>(), 0..300), times in prop::collection::vec(any::<i64>(), 300)) {
        let def = table("l(price: linear, 8); q(price: quantiles, 8); t(at: minute)");
        let rows = values.len();
        let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(times.into_iter().take(rows)));
        let price: ArrayRef = Arc::new(Float64Array::from(values));
        let sample = RecordBatch::try_from_iter([("at", at), ("price", price)]).unwrap();
        let learnt = ranges(&def, std::slice::from_ref(&sample));
        let mut fixed = def.clone();
        fixed.dimensions.iter_mut().zip(learnt).for_each(|(dimension, range)| dimension.range = range);
        prop_assert!(fixed.validate().is_ok(), "{:?}", fixed.validate());
        prop_assert_eq!(crate::KeyLayout::new(&fixed).keys(&sample).unwrap().len(), rows);
        // The fixed form is a declaration too; moments are written in whole microseconds.
        prop_assert!(dimensions::parse(&dimensions::show(&fixed.dimensions[..2], &fixed.columns), &fixed.columns).is_ok());
    }
}
