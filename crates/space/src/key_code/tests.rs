//! Codes against the order of values, and their golden values.

use super::*;
use crate::schema::{Column, OnConflict, TableOptions};
use alluvia_types::{ColumnId, TableId};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, LargeStringArray,
    StringArray, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{Int32Type, UInt32Type};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

/// The key of SipHash's own test vectors.
const SECRET: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
const MONEY: DataType = DataType::Decimal { precision: 18, scale: 2 };
const WIDEST: DataType = DataType::Decimal { precision: 38, scale: 10 };

/// A table with a key of columns `c0`, `c1`, ... of these types.
fn table(types: &[DataType]) -> TableDef {
    let column = |(at, &data_type): (usize, &DataType)| Column {
        id: ColumnId(at as u32),
        name: format!("c{at}"),
        storage_name: format!("c{at}"),
        data_type,
        nullable: false,
        chars_max: (data_type == DataType::Char).then_some(20),
    };
    let columns: Vec<Column> = types.iter().enumerate().map(column).collect();
    TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "t".into(),
        next_column_id: columns.len() as u32,
        rules: crate::rules::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        key: Some(PrimaryKey {
            columns: columns.iter().map(|column| column.id).collect(),
            secret: SECRET,
            on_conflict: OnConflict::Error,
        }),
        columns,
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 1,
        options: TableOptions::default(),
    }
}

fn coder(types: &[DataType]) -> KeyCoder {
    let def = table(types);
    def.validate().unwrap();
    KeyCoder::new(&def).unwrap()
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let named = columns.into_iter().enumerate().map(|(at, column)| (format!("c{at}"), column));
    RecordBatch::try_from_iter(named).unwrap()
}

fn codes(types: &[DataType], columns: Vec<ArrayRef>) -> Vec<KeyCode> {
    coder(types).codes(&batch(columns)).unwrap()
}

#[derive(Clone, Debug)]
enum Value {
    Whole(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Value {
    /// As SQL orders values.
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Whole(a), Value::Whole(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => unreachable!("values of one column are of one kind"),
        }
    }
}

fn any_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::Int16),
        Just(DataType::Int32),
        Just(DataType::Int64),
        Just(DataType::Real),
        Just(DataType::Double),
        Just(MONEY),
        Just(WIDEST),
        (1u8..10).prop_map(|precision| DataType::Decimal { precision, scale: 0 }),
        Just(DataType::Date),
        Just(DataType::Timestamp),
        Just(DataType::TimestampTz),
        Just(DataType::Text),
        Just(DataType::Binary),
        Just(DataType::Uuid),
        Just(DataType::Time),
        Just(DataType::Numeric),
        Just(DataType::Char),
    ]
}

/// Few values, so that many are equal, and those at the ends.
fn any_value(data_type: DataType) -> BoxedStrategy<Value> {
    let whole = |low: i128, high: i128| {
        prop_oneof![4 => low.max(-2)..=high.min(2), 1 => Just(low), 1 => Just(high), 2 => low..=high]
            .prop_map(Value::Whole)
    };
    let floats = [0.0, -0.0, 1.5, -1.5, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-42, -1e30];
    match data_type {
        DataType::Boolean => whole(0, 1).boxed(),
        DataType::Int16 => whole(i16::MIN.into(), i16::MAX.into()).boxed(),
        DataType::Int32 | DataType::Date => whole(i32::MIN.into(), i32::MAX.into()).boxed(),
        DataType::Int64 | DataType::Timestamp | DataType::TimestampTz => {
            whole(i64::MIN.into(), i64::MAX.into()).boxed()
        }
        DataType::Real => prop_oneof![prop::sample::select(floats.to_vec()), any::<f32>().prop_map(f64::from)]
            .prop_map(|value| Value::Float(f64::from(value as f32)))
            .boxed(),
        DataType::Double => {
            prop_oneof![prop::sample::select(floats.to_vec()), any::<f64>()].prop_map(Value::Float).boxed()
        }
        DataType::Decimal { precision, .. } => {
            let most = 10i128.pow(precision.into()) - 1;
            whole(-most, most).boxed()
        }
        DataType::Time => whole(0, 86_400_000_000).boxed(),
        DataType::Numeric => whole(1 - 10i128.pow(38), 10i128.pow(38) - 1).boxed(),
        DataType::Uuid => prop_oneof![Just([0; 16]), Just([255; 16]), any::<[u8; 16]>()]
            .prop_map(|bytes| Value::Bytes(bytes.to_vec()))
            .boxed(),
        DataType::Json | DataType::Jsonb | DataType::Interval => unreachable!("no key has one"),
        DataType::Text | DataType::Char => {
            "[ab]{0,2}|[a-c]{13,14}|ü".prop_map(|text| Value::Bytes(text.into_bytes())).boxed()
        }
        DataType::Binary => {
            prop::collection::vec(prop_oneof![Just(0u8), Just(255)], 0..4).prop_map(Value::Bytes).boxed()
        }
    }
}

fn any_rows() -> impl Strategy<Value = (Vec<DataType>, Vec<Vec<Value>>)> {
    prop::collection::vec(any_type(), 1..4).prop_flat_map(|types| {
        let row: Vec<BoxedStrategy<Value>> = types.iter().map(|&data_type| any_value(data_type)).collect();
        (Just(types), prop::collection::vec(row, 0..20))
    })
}

/// A column in storage form.
fn column(data_type: DataType, values: &[&Value]) -> ArrayRef {
    let wholes = || values.iter().map(|value| if let Value::Whole(whole) = value { *whole } else { unreachable!() });
    let floats = || values.iter().map(|value| if let Value::Float(float) = value { *float } else { unreachable!() });
    let bytes =
        || values.iter().map(|value| if let Value::Bytes(bytes) = value { bytes.as_slice() } else { unreachable!() });
    match data_type {
        DataType::Boolean => Arc::new(wholes().map(|value| Some(value == 1)).collect::<BooleanArray>()),
        DataType::Int16 => Arc::new(Int16Array::from_iter_values(wholes().map(|value| value as i16))),
        DataType::Int32 => Arc::new(Int32Array::from_iter_values(wholes().map(|value| value as i32))),
        DataType::Date => Arc::new(Date32Array::from_iter_values(wholes().map(|value| value as i32))),
        DataType::Int64 => Arc::new(Int64Array::from_iter_values(wholes().map(|value| value as i64))),
        DataType::Timestamp => {
            Arc::new(TimestampMicrosecondArray::from_iter_values(wholes().map(|value| value as i64)))
        }
        DataType::TimestampTz => Arc::new(
            TimestampMicrosecondArray::from_iter_values(wholes().map(|value| value as i64)).with_timezone("UTC"),
        ),
        DataType::Real => Arc::new(Float32Array::from_iter_values(floats().map(|value| value as f32))),
        DataType::Double => Arc::new(Float64Array::from_iter_values(floats())),
        DataType::Decimal { precision, scale } => Arc::new(
            Decimal128Array::from_iter_values(wholes()).with_precision_and_scale(precision, scale as i8).unwrap(),
        ),
        DataType::Time => Arc::new(Time64MicrosecondArray::from_iter_values(wholes().map(|value| value as i64))),
        DataType::Numeric => Arc::new(Decimal128Array::from_iter_values(wholes()).with_data_type(data_type.to_arrow())),
        DataType::Uuid => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes().map(Some), 16).unwrap())
        }
        DataType::Json | DataType::Jsonb | DataType::Interval => unreachable!("no key has one"),
        DataType::Text | DataType::Char => {
            Arc::new(StringViewArray::from_iter_values(bytes().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())))
        }
        DataType::Binary => Arc::new(BinaryViewArray::from_iter_values(bytes())),
    }
}

proptest! {
    #[test]
    fn equal_keys_have_equal_codes_and_others_others((types, rows) in any_rows()) {
        let coder = coder(&types);
        let columns = types.iter().enumerate().map(|(at, &data_type)| {
            column(data_type, &rows.iter().map(|row| &row[at]).collect::<Vec<_>>())
        });
        let batch = batch(columns.collect());
        let codes = coder.codes(&batch).unwrap();
        prop_assert_eq!(codes.len(), rows.len());
        for (first, one) in rows.iter().zip(&codes) {
            for (second, other) in rows.iter().zip(&codes) {
                let order = first.iter().zip(second).fold(Ordering::Equal, |order, (a, b)| order.then(a.cmp(b)));
                prop_assert_eq!(order == Ordering::Equal, one == other, "{:?} and {:?}", first, second);
                if coder.is_exact() {
                    prop_assert_eq!(order, one.cmp(other), "{:?} and {:?}", first, second);
                }
            }
        }
        let half = rows.len() / 2;
        prop_assert_eq!(&coder.codes(&batch.slice(half, rows.len() - half)).unwrap(), &codes[half..]);
    }

    /// Exactly the keys whose first value lies between two have codes between their bounds.
    #[test]
    fn bounds_of_the_first_column_bound_codes((types, rows) in any_rows()) {
        let coder = coder(&types);
        let of_column = |at: usize, rows: &[&Vec<Value>]| {
            column(types[at], &rows.iter().map(|row| &row[at]).collect::<Vec<_>>())
        };
        let all: Vec<&Vec<Value>> = rows.iter().collect();
        let codes = coder.codes(&batch((0..types.len()).map(|at| of_column(at, &all)).collect())).unwrap();
        let pairs = all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other)));
        let (least, most): (Vec<&Vec<Value>>, Vec<&Vec<Value>>) =
            pairs.filter(|(one, other)| one[0].cmp(&other[0]) != Ordering::Greater).unzip();
        let bounds = coder.code_bounds(&of_column(0, &least), &of_column(0, &most)).unwrap();
        let Some(bounds) = bounds else {
            let is_float = matches!(types[0], DataType::Real | DataType::Double);
            prop_assert!(!coder.is_exact() || is_float, "{:?}", types);
            return Ok(());
        };
        prop_assert_eq!(bounds.len(), least.len());
        for (bounds, (least, most)) in bounds.into_iter().zip(least.iter().zip(&most)) {
            let (low, high) = bounds.expect("no value is NULL");
            for (row, &code) in rows.iter().zip(&codes) {
                let is_between = row[0].cmp(&least[0]) != Ordering::Less && row[0].cmp(&most[0]) != Ordering::Greater;
                prop_assert_eq!((low..=high).contains(&code), is_between, "{:?}", row);
            }
        }
    }

    #[test]
    fn codes_do_not_depend_on_how_columns_are_encoded(
        texts in prop::collection::vec("[ab]{0,2}|[a-z]{10,20}", 0..30),
        skipped in 0usize..10,
    ) {
        let types = [DataType::Text, DataType::Binary];
        let skipped = skipped.min(texts.len());
        let bytes: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let views: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(&bytes));
        let expected = codes(&types, vec![Arc::new(StringViewArray::from_iter_values(&texts)), views.clone()]);
        let signed: DictionaryArray<Int32Type> = texts.iter().map(String::as_str).collect();
        let unsigned: DictionaryArray<UInt32Type> = texts.iter().map(String::as_str).collect();
        let encodings: [ArrayRef; 4] = [
            Arc::new(StringArray::from_iter_values(&texts)),
            Arc::new(LargeStringArray::from_iter_values(&texts)),
            Arc::new(signed),
            Arc::new(unsigned),
        ];
        for texts in encodings {
            let kept = texts.len() - skipped;
            let plain: ArrayRef = Arc::new(BinaryArray::from_iter_values(&bytes));
            prop_assert_eq!(&codes(&types, vec![texts.slice(skipped, kept), plain.slice(skipped, kept)]), &expected[skipped..]);
            prop_assert_eq!(&codes(&types, vec![texts, views.clone()]), &expected);
        }
    }
}

/// Codes are kept: a change here is a change of format. The hashed ones were made by another program, from the
/// definition of SipHash and the test vectors of its authors.
#[test]
fn codes_are_those_of_the_first_release() {
    let whole = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let text = |text: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![text])) };
    let cast_to = |data_type: DataType, value: i64| cast(&whole(&[value]), &data_type.to_arrow()).unwrap();
    let one = |types: &[DataType], columns: Vec<ArrayRef>| codes(types, columns)[0];

    assert_eq!(codes(&[DataType::Int64], vec![whole(&[0, 1, -1])]), [1 << 63, (1 << 63) + 1, (1 << 63) - 1]);
    let day: ArrayRef = Arc::new(Date32Array::from(vec![20_454]));
    assert_eq!(one(&[DataType::Int32, DataType::Date], vec![cast_to(DataType::Int32, 3), day]), 0x8000_0003_8000_4fe6);
    assert_eq!(
        one(
            &[DataType::Boolean, DataType::Int16],
            vec![Arc::new(BooleanArray::from(vec![true])), cast_to(DataType::Int16, -2)]
        ),
        0x1_7ffe
    );
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.5, -1.5, -0.0, f64::NAN]));
    assert_eq!(
        codes(&[DataType::Double], vec![floats]),
        [0xbff8_0000_0000_0000, 0x4007_ffff_ffff_ffff, 1 << 63, 0xfff8_0000_0000_0000]
    );
    let reals: ArrayRef = Arc::new(Float32Array::from(vec![1.5, f32::NEG_INFINITY]));
    assert_eq!(codes(&[DataType::Real], vec![reals]), [0xbfc0_0000, 0x007f_ffff]);
    let decimal = |data_type, value: i128| column(data_type, &[&Value::Whole(value)]);
    assert_eq!(one(&[MONEY], vec![decimal(MONEY, -5)]), (1 << 60) - 5);
    assert_eq!(one(&[WIDEST], vec![decimal(WIDEST, 7)]), (1 << 127) + 7);
    let time = |data_type| column(data_type, &[&Value::Whole(1)]);
    assert_eq!(
        one(
            &[DataType::Timestamp, DataType::TimestampTz],
            vec![time(DataType::Timestamp), time(DataType::TimestampTz)]
        ),
        0x8000_0000_0000_0001_8000_0000_0000_0001
    );

    let texts = [DataType::Text, DataType::Text];
    assert_eq!(one(&texts[..1], vec![text("")]), 0x1ad1_c8f3_cee8_d211_4e47_8f8f_949a_6b29);
    assert_eq!(one(&texts[..1], vec![text("Germany")]), 0x06bc_87d8_5b56_22fa_9985_b0c7_3480_bb09);
    assert_eq!(one(&texts, vec![text("a"), text("bc")]), 0x0532_4a41_d713_bedf_66c9_066d_6f13_f62d);
    assert_eq!(one(&texts, vec![text("ab"), text("c")]), 0x6f48_eb8b_f65f_85a2_6bfd_a0ac_0b54_083d);
    assert_eq!(
        one(&[DataType::Int64, DataType::Text], vec![whole(&[7]), text("Zürich")]),
        0x9db3_fd34_9441_b70b_6f9a_5109_db28_ab52
    );
    let bytes: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([[0u8, 255]]));
    assert_eq!(one(&[DataType::Binary], vec![bytes]), 0x421c_f759_c72e_c29f_f927_c0b0_964d_83e3);
    assert_eq!(
        one(&[DataType::Int64; 3], vec![whole(&[1]), whole(&[2]), whole(&[-3])]),
        0x0b14_dd18_6df1_f604_b1ae_cc8d_9309_aea6
    );
    let flag: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    assert_eq!(
        one(&[DataType::Boolean, DataType::Text, MONEY], vec![flag, text("x"), decimal(MONEY, -5)]),
        0x52f6_0548_52e8_d619_82d0_54a5_444f_2b73
    );
}

#[test]
fn bounds_that_are_not_known_bound_nothing() {
    let (least, most): (ArrayRef, ArrayRef) =
        (Arc::new(Int32Array::from(vec![Some(1), None])), Arc::new(Int32Array::from(vec![Some(2), None])));
    let bounds = coder(&[DataType::Int32]).code_bounds(&least, &most).unwrap().unwrap();
    assert_eq!(bounds, [Some(((1 << 31) + 1, (1 << 31) + 2)), None]);
    assert!(coder(&[DataType::Int32, DataType::Text]).code_bounds(&least, &most).unwrap().is_none());
}

#[test]
fn keys_are_exact_up_to_128_bits() {
    assert!(coder(&[DataType::Int64, DataType::Timestamp]).is_exact());
    assert!(coder(&[WIDEST]).is_exact());
    assert!(!coder(&[DataType::Int64, DataType::Timestamp, DataType::Boolean]).is_exact());
    assert!(!coder(&[DataType::Text]).is_exact());
    let columns: Vec<(String, ArrowType)> =
        coder(&[DataType::Int32, DataType::Text]).columns().map(|(name, of)| (name.to_owned(), of)).collect();
    assert_eq!(columns, [("c0".to_owned(), ArrowType::Int32), ("c1".to_owned(), ArrowType::Utf8View)]);
    let keyless = TableDef { key: None, ..table(&[DataType::Int32]) };
    assert!(KeyCoder::new(&keyless).is_none());
}

#[test]
fn nulls_and_long_keys_and_foreign_columns_are_refused() {
    let types = [DataType::Int64, DataType::Text];
    let try_it = |numbers: Int64Array, texts: ArrayRef| coder(&types).codes(&batch(vec![Arc::new(numbers), texts]));
    let text = |text: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![text])) };
    let null = try_it(Int64Array::from(vec![None]), text("a")).unwrap_err();
    assert_eq!((null.kind(), null.message()), (ErrorKind::NotNull, "table t: NULL in column c0 of its primary key"));
    // Behind an index that is none itself.
    let values: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let hidden: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0]), values));
    assert_eq!(try_it(Int64Array::from(vec![1]), hidden).unwrap_err().kind(), ErrorKind::NotNull);

    let longest = "x".repeat(KEY_BYTES_MAX - 8);
    assert!(try_it(Int64Array::from(vec![1]), text(&longest)).is_ok());
    for more in [1, 20] {
        let long = try_it(Int64Array::from(vec![1]), text(&"x".repeat(longest.len() + more))).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::TooLarge);
        assert!(long.hint().is_some_and(|hint| hint.contains("at most 2048 bytes")), "{long}");
    }

    assert_eq!(
        try_it(Int64Array::from(vec![1]), Arc::new(Int64Array::from(vec![1]))).unwrap_err().kind(),
        ErrorKind::Internal
    );
    let narrow: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert_eq!(coder(&types).codes(&batch(vec![narrow])).unwrap_err().kind(), ErrorKind::Internal);
    // More digits than the type has would be other keys' bits.
    let many: ArrayRef = Arc::new(Decimal128Array::from(vec![1 << 100]).with_precision_and_scale(18, 2).unwrap());
    assert_eq!(coder(&[MONEY]).codes(&batch(vec![many])).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn keys_show_as_in_postgresql() {
    let day = 20_454;
    let rows = [
        (DataType::Boolean, Value::Whole(1), "t"),
        (DataType::Int16, Value::Whole(-3), "-3"),
        (DataType::Real, Value::Float(1e6), "1e+06"),
        (DataType::Real, Value::Float(0.25), "0.25"),
        (DataType::Double, Value::Float(1e15), "1e+15"),
        (DataType::Double, Value::Float(123_456.5), "123456.5"),
        (DataType::Double, Value::Float(0.00001), "1e-05"),
        (DataType::Double, Value::Float(0.0), "0"),
        (DataType::Double, Value::Float(f64::NAN), "NaN"),
        (DataType::Double, Value::Float(f64::NEG_INFINITY), "-Infinity"),
        (MONEY, Value::Whole(-105), "-1.05"),
        (DataType::Date, Value::Whole(day), "2026-01-01"),
        (DataType::Date, Value::Whole(-719_163), "0001-12-31 BC"),
        (DataType::Timestamp, Value::Whole(day * 86_400_000_000 + 3_600_000_000), "2026-01-01 01:00:00"),
        (DataType::TimestampTz, Value::Whole(-500_000), "1969-12-31 23:59:59.5+00"),
        (DataType::Text, Value::Bytes("ü, b".into()), "ü, b"),
        (DataType::Binary, Value::Bytes(vec![0, 171]), "\\x00ab"),
    ];
    for (data_type, value, shown) in rows {
        let rows = batch(vec![column(data_type, &[&value])]);
        assert_eq!(coder(&[data_type]).show(&rows, 0), format!("(c0)=({shown})"));
    }
    let mut def = table(&[DataType::Int32, DataType::Date]);
    (def.columns[0].name, def.columns[1].name) = ("Id".into(), "day".into());
    let coder = KeyCoder::new(&def).unwrap();
    let rows =
        batch(vec![Arc::new(Int32Array::from(vec![Some(3), None])), Arc::new(Date32Array::from(vec![20_454, 0]))]);
    assert_eq!(coder.show(&rows, 0), "(\"Id\", day)=(3, 2026-01-01)");
    assert_eq!(coder.show(&rows, 1), "(\"Id\", day)=(null, 1970-01-01)");
}

#[test]
fn keys_that_cannot_be_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut TableDef)| {
        let mut def = table(&[DataType::Int32; 40]);
        def.key.as_mut().unwrap().columns.truncate(32);
        def.validate().unwrap();
        change(&mut def);
        let error = def.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidDefinition);
        error.message().to_owned()
    };
    let key = |def: &mut TableDef, ids: &[u32]| {
        def.key.as_mut().unwrap().columns = ids.iter().map(|&id| ColumnId(id)).collect();
    };
    assert!(refused(&|def| key(def, &[])).contains("at least one column"));
    assert!(refused(&|def| key(def, &(0..33).collect::<Vec<_>>())).contains("33 columns are too many"));
    assert!(refused(&|def| key(def, &[0, 99])).contains("part 2 of the primary key is column 99"));
    assert!(refused(&|def| key(def, &[1, 0, 1])).contains("column c1 is named twice"));
    assert!(refused(&|def| def.columns[2].nullable = true).contains("column c2 is part of the primary key"));
}
