//! Members that nothing has any more lose their names, in memory and in a file that is written anew; their codes stay, and are
//! given to nobody else.

use crate::common::{Model, assert_codes, batch, table};
use alluvia_catalog::{CodeSet, Dictionaries, DictionaryMark};
use alluvia_space::{DataType, TableDef};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::Result;
use arrow::array::{Array, ArrayRef, StringArray, StringViewArray};
use arrow::record_batch::RecordBatch;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PATH: &str = "/dict-7";
const NAME: &str = "zQ81mVt4Lw0pXk3s";

/// Two levels of text, and one of numbers.
fn def() -> TableDef {
    table(&[vec![DataType::Text, DataType::Text], vec![DataType::Int64]], false)
}

fn rows(of: &[(&str, &str)]) -> RecordBatch {
    let column = |values: Vec<&str>| -> ArrayRef { Arc::new(StringViewArray::from(values)) };
    let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(0..of.len() as i64));
    RecordBatch::try_from_iter([
        ("c0", column(of.iter().map(|row| row.0).collect())),
        ("c1", column(of.iter().map(|row| row.1).collect())),
        ("c2", numbers),
    ])
    .unwrap()
}

fn codes(dictionaries: &Dictionaries, of: &[(&str, &str)]) -> Vec<Vec<u32>> {
    let mut levels = dictionaries.remap(&def(), &rows(of)).unwrap().levels;
    levels.truncate(2);
    levels
}

fn opened(disk: &Arc<FaultDisk>, mark: &DictionaryMark) -> Dictionaries {
    Dictionaries::open(disk.clone(), PathBuf::from(PATH), &def(), mark).unwrap()
}

fn has_name(disk: &FaultDisk, path: &str) -> bool {
    let Ok(file) = disk.open(Path::new(path)) else { return false };
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes.windows(NAME.len()).any(|window| window == NAME.as_bytes())
}

fn set(codes: &[u32]) -> CodeSet {
    let mut set = CodeSet::default();
    codes.iter().for_each(|&code| set.insert(code));
    set
}

const FIRST: [(&str, &str); 4] = [("a", "x"), ("b", NAME), (NAME, "y"), ("", "")];

#[test]
fn names_go_and_codes_stay() {
    let disk = FaultDisk::new();
    let dictionaries = Dictionaries::create(disk.clone(), PathBuf::from(PATH), &def()).unwrap();
    assert_eq!(codes(&dictionaries, &FIRST), [[1, 2, 3, 4], [1, 2, 3, 4]]);
    let before = dictionaries.persist().unwrap();
    assert!(has_name(&disk, PATH));
    // The child keeps its parent, a member that is asked for stays.
    let watched = dictionaries.watch();
    assert_eq!(codes(&dictionaries, &[("", "")]), [[4], [4]]);
    let (mark, gone) = watched.forget_unused(vec![set(&[]), set(&[1]), set(&[0, 1, 2])]).unwrap();
    drop(watched);
    assert_eq!((gone, mark.generation), (2 + 2 + 2, 1), "two of the texts and of each level, and two numbers");
    assert!(mark.contains(&before) && !before.contains(&mark));
    assert!(!has_name(&disk, "/dict-7-1") && disk.exists(Path::new("/dict-7-1")));
    let check = |dictionaries: &Dictionaries| {
        let names = dictionaries.value_array(0).unwrap();
        let names = names.as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!((names.len(), names.value(1), names.value(2), names.value(3)), (5, "a", "", ""));
        assert_eq!(dictionaries.forgotten(0).iter().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(dictionaries.forgotten(1).iter().collect::<Vec<_>>(), [2, 3]);
        // The empty text is one name, and what is gone is none.
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["", NAME]));
        assert_eq!(dictionaries.codes_with_value(0, &texts).unwrap(), [4]);
        assert_eq!(dictionaries.codes_with_value(1, &texts).unwrap(), [4]);
        assert_eq!(dictionaries.first_codes(1).unwrap()[..5], [0, 1, 2, 3, 4]);
    };
    check(&dictionaries);
    check(&opened(&disk.after_power_loss(Survival::SyncedOnly), &mark));
    // What comes again is new, and so is what is appended to the file.
    assert_eq!(codes(&dictionaries, &[("b", NAME), ("a", "x")]), [[5, 1], [5, 1]]);
    let longer = dictionaries.persist().unwrap();
    assert!(longer.generation == 1 && longer.contains(&mark));
    for disk in [&disk, &disk.after_power_loss(Survival::SyncedOnly)] {
        let again = opened(disk, &longer);
        assert_eq!(codes(&again, &[("b", NAME), ("a", "x")]), [[5, 1], [5, 1]]);
        assert_eq!(codes(&again, &[("", "")]), [[4], [4]]);
        assert_eq!(again.persist().unwrap().members, longer.members);
    }
    // Twice, also of a dictionary that was opened so.
    let again = opened(&disk, &longer);
    let watched = again.watch();
    let (third, gone) = watched.forget_unused(vec![set(&[1]), set(&[1]), set(&[])]).unwrap();
    assert_eq!((gone, third.generation), (2 + 2 + 2, 2));
    assert_eq!(watched.forget_unused(vec![set(&[1]), set(&[1]), set(&[])]).unwrap(), (third.clone(), 0));
    assert_eq!(opened(&disk, &third).forgotten(0).iter().collect::<Vec<_>>(), [2, 3, 4, 5]);
}

/// Groups of a name have the first code of the name, and keep it.
#[test]
fn a_name_that_another_member_has_stays_with_all() {
    let disk = FaultDisk::new();
    let dictionaries = Dictionaries::create(disk.clone(), PathBuf::from(PATH), &def()).unwrap();
    codes(&dictionaries, &[("a", "n"), ("b", "n"), ("c", "m"), ("d", "m")]);
    dictionaries.persist().unwrap();
    let watched = dictionaries.watch();
    let (mark, gone) = watched.forget_unused(vec![set(&[]), set(&[2]), set(&[1])]).unwrap();
    assert_eq!(gone, 3 + 2 + 3);
    for dictionaries in [&dictionaries, &opened(&disk, &mark)] {
        assert_eq!(dictionaries.forgotten(0).iter().collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(dictionaries.forgotten(1).iter().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(dictionaries.first_codes(1).unwrap()[..], [0, 1, 1, 3, 4]);
    }
}

#[test]
fn power_loss_at_every_call_of_forgetting() {
    let draw = |at: usize| (at % 7 != 6).then_some((at * 13 % 50) as u8);
    let many: Vec<Vec<Option<u8>>> = (0..40).map(|at| vec![draw(at / 9), draw(at), draw(at)]).collect();
    for n in 1.. {
        let disk = FaultDisk::new();
        let dictionaries = Dictionaries::create(disk.clone(), PathBuf::from(PATH), &def()).unwrap();
        let mut model = Model::default();
        let expected = model.remap(&def(), &many);
        assert_codes(&dictionaries.remap(&def(), &batch(&def(), &many, 0)).unwrap(), &expected);
        let before = dictionaries.persist().unwrap();
        disk.fail_after(n);
        let forget = || -> Result<DictionaryMark> {
            let watched = dictionaries.watch();
            watched.forget_unused(vec![set(&[1]), set(&[1]), set(&[1])]).map(|(mark, _)| mark)
        };
        let forgotten = forget();
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: n }] {
            let after = disk.after_power_loss(survival);
            // What was durable before is read whatever has come of it.
            let old = opened(&after, &before);
            assert_codes(&old.remap(&def(), &batch(&def(), &many, 0)).unwrap(), &expected);
            if let Ok(mark) = &forgotten {
                assert_eq!(opened(&after, mark).value_array(0).unwrap().len(), before.members[0] as usize);
            }
        }
        if let Ok(mark) = forgotten {
            assert!(n > 4 && mark.generation == 1);
            break;
        }
    }
}

#[test]
fn what_could_not_be_written_is_written_the_next_time() {
    let disk = FaultDisk::new();
    let dictionaries = Dictionaries::create(disk.clone(), PathBuf::from(PATH), &def()).unwrap();
    codes(&dictionaries, &FIRST);
    dictionaries.persist().unwrap();
    disk.limit_bytes(Some(10));
    let watched = dictionaries.watch();
    watched.forget_unused(vec![set(&[1]), set(&[1]), set(&[1])]).unwrap_err();
    drop(watched);
    disk.limit_bytes(None);
    let mark = dictionaries.persist().unwrap();
    assert_eq!(mark.generation, 2);
    assert!(!disk.exists(Path::new("/dict-7-1")) && !has_name(&disk, "/dict-7-2"));
    assert_eq!(opened(&disk, &mark).forgotten(0).iter().collect::<Vec<_>>(), [2, 3, 4]);
}
