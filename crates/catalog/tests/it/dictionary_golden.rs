//! The dictionary file, byte for byte. `golden/dictionary-01.bin` is what format version 01 is; it is read for ever.

use crate::common::{assert_codes, batch, table};
use alluvia_catalog::{Dictionaries, DictionaryMark};
use alluvia_space::{DataType, TableDef};
use alluvia_storage::{Disk, FaultDisk, Survival};
use arrow::array::{ArrayRef, StringArray, StringViewArray};
use arrow::datatypes::{DataType as ArrowType, Field, Schema};
use arrow::record_batch::RecordBatch;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PATH: &str = "/dict-7";
const GOLDEN: &[u8] = include_bytes!("../golden/dictionary-01.bin");
const GOLDEN_MARK: &str = include_str!("../golden/dictionary-01.json");

/// All three shapes, a parent, an arithmetic level.
fn def() -> TableDef {
    let decimal = DataType::Decimal { precision: 38, scale: 4 };
    table(&[vec![DataType::Text, DataType::Text], vec![DataType::Int64], vec![decimal, DataType::Double]], true)
}

fn rows(first: u8) -> Vec<Vec<Option<u8>>> {
    let draw = |draw: u8| (draw % 5 != 4).then_some(draw);
    (first..first + 9).map(|at| vec![draw(at / 3), draw(at), draw(at), draw(at / 2), draw(at), draw(at)]).collect()
}

/// Two groups.
fn written() -> (Arc<FaultDisk>, DictionaryMark) {
    let disk = FaultDisk::new();
    let dictionaries = Dictionaries::create(disk.clone(), PathBuf::from(PATH), &def()).unwrap();
    dictionaries.remap(&def(), &batch(&def(), &rows(0), 1)).unwrap();
    dictionaries.persist().unwrap();
    dictionaries.remap(&def(), &batch(&def(), &rows(6), 0)).unwrap();
    let mark = dictionaries.persist().unwrap();
    (disk.after_power_loss(Survival::SyncedOnly), mark)
}

fn bytes(disk: &FaultDisk) -> Vec<u8> {
    let file = disk.open(Path::new(PATH)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn what_is_written_is_the_golden_file() {
    let (disk, mark) = written();
    let found = bytes(&disk);
    let shown: Vec<String> = found.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(found == GOLDEN, "a changed format needs a new version; the bytes are {}", shown.concat());
    assert_eq!(serde_json::to_string(&mark).unwrap(), GOLDEN_MARK.trim());
}

#[test]
fn the_golden_file_is_read() {
    let disk = FaultDisk::new();
    disk.create(Path::new(PATH)).unwrap().write_all_at(GOLDEN, 0).unwrap();
    let mark: DictionaryMark = serde_json::from_str(GOLDEN_MARK).unwrap();
    let dictionaries = Dictionaries::open(disk, PathBuf::from(PATH), &def(), &mark).unwrap();
    let mut model = crate::common::Model::default();
    for first in [0, 6] {
        let expected = model.remap(&def(), &rows(first));
        assert_codes(&dictionaries.remap(&def(), &batch(&def(), &rows(first), 0)).unwrap(), &expected);
    }
    assert_eq!(dictionaries.persist().unwrap(), mark);
}

#[test]
fn large_members_and_many_members_span_groups() {
    let def = table(&[vec![DataType::Text, DataType::Text]], false);
    let schema =
        Schema::new(vec![Field::new("c0", ArrowType::Utf8View, true), Field::new("c1", ArrowType::Utf8View, true)]);
    let rows = |first: usize| {
        let parents: StringViewArray = (0..200_000).map(|at| Some(format!("parent {}", (first + at) / 1000))).collect();
        let large = |at: usize| if at % 60_000 == 7 { "x".repeat(5 << 20) } else { String::new() };
        let children: StringViewArray =
            (0..200_000).map(|at| Some(format!("child {}{}", first + at, large(first + at)))).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(parents), Arc::new(children)];
        RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap()
    };
    let disk = FaultDisk::new();
    let dictionaries = Dictionaries::create(disk.clone(), PathBuf::from(PATH), &def).unwrap();
    let codes: Vec<_> = [0, 150_000].map(|first| dictionaries.remap(&def, &rows(first)).unwrap()).into();
    let mark = dictionaries.persist().unwrap();
    assert!(mark.bytes > 30 << 20, "several reads: {} bytes", mark.bytes);
    let reopened = Dictionaries::open(disk, PathBuf::from(PATH), &def, &mark).unwrap();
    for (at, first) in [0, 150_000].into_iter().enumerate() {
        assert!(reopened.remap(&def, &rows(first)).unwrap() == codes[at]);
    }
    assert_eq!(reopened.persist().unwrap(), mark);
    let values = reopened.value_array(1).unwrap();
    let values = values.as_any().downcast_ref::<StringArray>().unwrap();
    assert_eq!(values.value(1), "child 0");
    assert_eq!(values.value(350_000), "child 349999");
}
