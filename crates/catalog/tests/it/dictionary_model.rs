//! Dictionaries against hash maps: random tables, rows, encodings, reopened at random.

use crate::common::{Model, TYPES, array, assert_codes, batch, identity, table, text};
use alluvia_catalog::Dictionaries;
use alluvia_space::codes::calendar;
use alluvia_space::{CalendarUnit, DataType, LevelSource, TableDef};
use alluvia_storage::{Disk, FaultDisk};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType as ArrowType, TimestampMicrosecondType};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

type Rows = Vec<Vec<Option<u8>>>;

fn tables() -> impl Strategy<Value = TableDef> {
    let path = prop::collection::vec(prop::sample::select(TYPES.to_vec()), 1..4);
    (prop::collection::vec(path, 0..4), any::<bool>()).prop_map(|(paths, calendar)| table(&paths, calendar))
}

/// Batches of rows, each with its encoding and whether to reopen after it. Draws are few, so that children meet several
/// parents, or many, so that the fast path for single parents is taken.
fn workloads() -> impl Strategy<Value = (TableDef, Vec<(Rows, u8, bool)>)> {
    tables().prop_flat_map(|def| {
        let width = def.columns.len();
        let draw = prop_oneof![1 => Just(None), 4 => (0u8..6).prop_map(Some), 2 => (0u8..200).prop_map(Some)];
        let rows = prop::collection::vec(prop::collection::vec(draw, width), 0..60);
        (Just(def), prop::collection::vec((rows, 0u8..3, any::<bool>()), 1..5))
    })
}

fn path() -> PathBuf {
    PathBuf::from("/dict-7")
}

fn check_members(def: &TableDef, dictionaries: &Dictionaries, model: &Model) {
    for (at, (_, depth, level)) in def.levels().enumerate() {
        let LevelSource::Column(id) = level.source else {
            assert!(!dictionaries.has_members(at) && dictionaries.len(at) == 0);
            continue;
        };
        let data_type = def.columns[id.0 as usize].data_type;
        let members = &model.levels[at];
        assert_eq!(dictionaries.len(at) as usize, members.len() + 1);
        assert_eq!(dictionaries.is_empty(at), members.is_empty());
        let values = dictionaries.value_array(at).unwrap();
        assert!(Arc::ptr_eq(&values, &dictionaries.value_array(at).unwrap()), "the same array while nothing is new");
        assert!(values.is_null(0) && values.null_count() == 1 && values.len() == members.len() + 1);
        let stored = cast(&values, &data_type.to_arrow()).unwrap();
        for (&(parent, draw), &code) in members {
            assert_eq!(dictionaries.parent(at, code), parent);
            let expected = array(data_type, &[Some(draw)], 0);
            assert_eq!(&stored.slice(code as usize, 1), &expected, "level {at}, code {code}");
            assert_eq!(dictionaries.find(at, &path_of(dictionaries, at, depth, code)).unwrap(), Some(code));
        }
        let draws: BTreeSet<u8> = members.keys().map(|&(_, draw)| draw).collect();
        for &draw in &draws {
            let value = array(data_type, &[Some(draw)], 0);
            let mut expected: Vec<u32> =
                members.iter().filter(|((_, d), _)| *d == draw).map(|(_, &code)| code).collect();
            expected.sort_unstable();
            assert_eq!(dictionaries.codes_with_value(at, &value).unwrap(), expected);
            // The same of each row, where a value may come again.
            let rows = array(data_type, &[None, Some(draw), Some(draw)], 0);
            let mut pairs = dictionaries.codes_by_row(at, &rows).unwrap();
            assert!(pairs.is_sorted_by_key(|(row, _)| *row));
            pairs.sort_unstable();
            let of_row = |row: u32| expected.iter().map(move |&code| (row, code));
            assert_eq!(pairs, of_row(1).chain(of_row(2)).collect::<Vec<_>>());
        }
        let wanted: Vec<Option<u8>> = draws.iter().map(|&draw| Some(draw)).chain([None, Some(250)]).collect();
        if !draws.contains(&identity(data_type, 250)) {
            let found = dictionaries.codes_with_value(at, &array(data_type, &wanted, 0)).unwrap();
            assert_eq!(found, (0..dictionaries.len(at)).collect::<Vec<u32>>());
        }
    }
}

/// The values of a member and of those above it.
fn path_of(dictionaries: &Dictionaries, level: usize, depth: usize, mut code: u32) -> Vec<ArrayRef> {
    let mut path = Vec::new();
    for level in (level - depth..=level).rev() {
        path.push(dictionaries.value_array(level).unwrap().slice(code as usize, 1));
        code = dictionaries.parent(level, code);
    }
    path.reverse();
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn codes_and_members_are_those_of_the_model((def, batches) in workloads(), cut in 0usize..20) {
        let disk: Arc<dyn Disk> = FaultDisk::new();
        let mut dictionaries = Dictionaries::create(Arc::clone(&disk), path(), &def).unwrap();
        let mut model = Model::default();
        model.remap(&def, &[]);
        for (rows, encoding, reopen) in batches {
            // A slice, so that offsets of arrays and dictionaries are not zero.
            let cut = cut.min(rows.len());
            let whole = batch(&def, &rows, encoding);
            let found = dictionaries.remap(&def, &whole.slice(cut, rows.len() - cut)).unwrap();
            assert_codes(&found, &model.remap(&def, &rows[cut..]));
            if reopen {
                let mark = dictionaries.persist().unwrap();
                prop_assert_eq!(&mark, &dictionaries.persist().unwrap());
                let stored: alluvia_catalog::DictionaryMark =
                    serde_json::from_str(&serde_json::to_string(&mark).unwrap()).unwrap();
                dictionaries = Dictionaries::open(Arc::clone(&disk), path(), &def, &stored).unwrap();
            }
            check_members(&def, &dictionaries, &model);
        }
    }
}

#[test]
fn what_is_above_a_null_is_not_known() {
    let def = table(&[vec![DataType::Text, DataType::Text, DataType::Text]], false);
    let dictionaries = Dictionaries::create(FaultDisk::new(), path(), &def).unwrap();
    let rows: Rows = vec![vec![Some(2), Some(3), Some(6)], vec![Some(2), None, Some(7)], vec![None, Some(4), Some(8)]];
    let codes = dictionaries.remap(&def, &batch(&def, &rows, 0)).unwrap();
    assert_eq!(codes.levels, [vec![1, 1, 0], vec![1, 0, 2], vec![1, 2, 3]]);
    let above = |level, coarser| (0..dictionaries.len(level)).map(move |code| (level, coarser, code));
    let ancestors = |level, coarser| {
        let of = |(level, coarser, code)| dictionaries.ancestor(level, coarser, code);
        above(level, coarser).map(of).collect::<Vec<_>>()
    };
    assert_eq!(ancestors(2, 2), [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(ancestors(2, 1), [None, Some(1), Some(0), Some(2)]);
    assert_eq!(ancestors(2, 0), [None, Some(1), None, Some(0)]);
    assert_eq!(ancestors(1, 0), [None, Some(1), Some(0)]);
}

#[test]
fn the_same_name_under_two_parents_is_two_members() {
    let def = table(&[vec![DataType::Text, DataType::Text]], false);
    let dictionaries = Dictionaries::create(FaultDisk::new(), path(), &def).unwrap();
    let rows: Rows = vec![vec![Some(2), Some(6)], vec![Some(3), Some(6)], vec![None, Some(6)], vec![Some(2), None]];
    let codes = dictionaries.remap(&def, &batch(&def, &rows, 0)).unwrap();
    assert_eq!(codes.levels, [vec![1, 2, 0, 1], vec![1, 2, 3, 0]]);
    let springfield = array(DataType::Text, &[Some(6)], 0);
    assert_eq!(dictionaries.codes_with_value(1, &springfield).unwrap(), [1, 2, 3]);
    let values = dictionaries.value_array(1).unwrap();
    assert_eq!(values.data_type(), &ArrowType::Utf8);
    assert_eq!(values.as_string::<i32>().iter().collect::<Vec<_>>(), [None, Some("né6"), Some("né6"), Some("né6")]);
    let nobody = [array(DataType::Text, &[Some(9)], 0), springfield];
    assert_eq!(dictionaries.find(1, &nobody).unwrap(), None);
}

#[test]
fn calendar_levels_need_no_members() {
    let def = table(&[vec![DataType::Text]], true);
    let dictionaries = Dictionaries::create(FaultDisk::new(), path(), &def).unwrap();
    let rows: Rows = vec![vec![Some(1), Some(9)], vec![Some(2), None], vec![None, Some(0)]];
    let batch = batch(&def, &rows, 1);
    let codes = dictionaries.remap(&def, &batch).unwrap();
    let micros = batch.column(1).as_primitive::<TimestampMicrosecondType>();
    for (level, unit) in [(1, CalendarUnit::Year), (2, CalendarUnit::Day)] {
        let expected: Vec<u32> =
            micros.iter().map(|micros| micros.map_or(0, |micros| calendar::code_of_micros(micros, unit))).collect();
        assert_eq!(codes.levels[level], expected);
    }
}

#[test]
fn a_few_rows_of_a_large_dictionary_take_only_their_values() {
    let def = table(&[vec![DataType::Text]], false);
    let dictionaries = Dictionaries::create(FaultDisk::new(), path(), &def).unwrap();
    let rows: Rows = (0..200).map(|draw| vec![Some(draw)]).collect();
    let few = batch(&def, &rows, 1).slice(120, 3);
    assert_eq!(dictionaries.remap(&def, &few).unwrap().levels, [vec![1, 2, 3]]);
    let values = dictionaries.value_array(0).unwrap();
    assert_eq!(values.as_string::<i32>().value(1), text(120));
}

#[test]
fn values_of_another_type_are_cast_or_refused() {
    let def = table(&[vec![DataType::Int32]], false);
    let dictionaries = Dictionaries::create(FaultDisk::new(), path(), &def).unwrap();
    let rows = batch(&def, &[vec![Some(4)], vec![Some(5)]], 0);
    dictionaries.remap(&def, &rows).unwrap();
    let wide = cast(rows.column(0), &ArrowType::Int64).unwrap();
    assert_eq!(dictionaries.codes_with_value(0, &wide).unwrap(), [1, 2]);
    let words: ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["four"]));
    assert!(dictionaries.codes_with_value(0, &words).is_err());
    let past_the_end: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![i64::MAX]));
    assert!(dictionaries.codes_with_value(0, &past_the_end).is_err());
}

#[test]
fn threads_that_remap_at_once_agree_on_every_member() {
    let def = table(&[vec![DataType::Text, DataType::Text], vec![DataType::Int32, DataType::Double]], false);
    let dictionaries = Arc::new(Dictionaries::create(FaultDisk::new(), path(), &def).unwrap());
    let rows_of = |thread: usize, round: usize| -> Rows {
        let draw = |at: usize| Some(((at * 31 + round * 17 + thread * 7) % 180) as u8);
        (0..500).map(|row| vec![draw(row % 9), draw(row), draw(row % 5), draw(row * 3)]).collect()
    };
    let handles: Vec<_> = (0..8)
        .map(|thread| {
            let (dictionaries, def) = (Arc::clone(&dictionaries), def.clone());
            std::thread::spawn(move || {
                for round in 0..20 {
                    let batch = batch(&def, &rows_of(thread, round), (thread % 3) as u8);
                    let codes = dictionaries.remap(&def, &batch).unwrap();
                    for (level, codes) in codes.levels.iter().enumerate() {
                        let indices = arrow::array::UInt32Array::from(codes.clone());
                        let back = take(&dictionaries.value_array(level).unwrap(), &indices, None).unwrap();
                        let expected = batch.column(level);
                        let back = cast(&back, &def.columns[level].data_type.to_arrow()).unwrap();
                        let expected = cast(expected, &def.columns[level].data_type.to_arrow()).unwrap();
                        assert_eq!(normal(&back).to_data(), normal(&expected).to_data());
                    }
                    dictionaries.persist().unwrap();
                }
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    // Each member once, each under its parent.
    let mut model = Model::default();
    let all: Rows = (0..8).flat_map(|thread| (0..20).flat_map(move |round| rows_of(thread, round))).collect();
    model.remap(&def, &all);
    for level in 0..4 {
        assert_eq!(dictionaries.len(level) as usize, model.levels[level].len() + 1, "level {level}");
    }
}

/// Floats as their members are.
fn normal(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        ArrowType::Float64 => {
            let values = array.as_primitive::<arrow::datatypes::Float64Type>();
            Arc::new(values.unary::<_, arrow::datatypes::Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }))
        }
        _ => array.clone(),
    }
}
