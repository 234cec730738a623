//! The disk in memory against the machine's file system: what readers see, and how wrong calls fail, is the same.

use alluvia_storage::{Disk, DiskEntry, FaultDisk, RealDisk, SlowSync, WatchedDisk};
use proptest::prelude::*;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 5] = ["a", "b", "sub/a", "sub/b", "none/a"];

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Write(usize, u64, Vec<u8>),
    SetLen(usize, u64),
    Read(usize, u64, usize),
    Rename(usize, usize),
    Remove(usize),
    Sync(usize),
    MakeDir(usize),
    SyncDir,
}

fn any_step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        name().prop_map(Step::Create),
        (name(), 0..9000u64, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(n, o, b)| Step::Write(n, o, b)),
        (name(), 0..9000u64).prop_map(|(n, len)| Step::SetLen(n, len)),
        (name(), 0..9000u64, 0..500usize).prop_map(|(n, offset, len)| Step::Read(n, offset, len)),
        (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        name().prop_map(Step::Remove),
        name().prop_map(Step::Sync),
        (0..2usize).prop_map(Step::MakeDir),
        Just(Step::SyncDir),
    ]
}

/// The bytes read, or nothing; or the kind of failure.
fn apply(disk: &dyn Disk, home: &Path, step: &Step) -> Result<Vec<u8>, io::ErrorKind> {
    let at = |name: usize| home.join(NAMES[name]);
    let mut found = Vec::new();
    let done = match step {
        Step::Create(name) => disk.create(&at(*name)).map(drop),
        Step::Write(name, offset, bytes) => disk.open(&at(*name)).and_then(|file| file.write_all_at(bytes, *offset)),
        Step::SetLen(name, len) => disk.open(&at(*name)).and_then(|file| file.set_len(*len)),
        Step::Read(name, offset, len) => {
            found.resize(*len, 0);
            disk.open(&at(*name)).and_then(|file| file.read_exact_at(&mut found, *offset))
        }
        Step::Rename(from, to) => disk.rename(&at(*from), &at(*to)),
        Step::Remove(name) => disk.remove(&at(*name)),
        Step::Sync(name) => disk.open(&at(*name)).and_then(|file| file.sync_data()),
        Step::MakeDir(dir) => disk.create_dir_all(&home.join(["sub", "sub/deep/er"][*dir])),
        Step::SyncDir => disk.sync_dir(&home.join("sub")),
    };
    match done {
        Ok(()) => Ok(found),
        Err(error) => Err(error.kind()),
    }
}

fn tree(disk: &dyn Disk, dir: PathBuf) -> Vec<(DiskEntry, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in disk.read_dir(&dir).expect("lists") {
        let path = dir.join(&entry.name);
        assert!(disk.exists(&path));
        let mut bytes = vec![0; entry.len as usize];
        if !entry.is_dir {
            let file = disk.open(&path).expect("opens");
            assert_eq!(file.len().expect("has a length"), entry.len);
            assert_eq!(file.is_empty().expect("has a length"), entry.len == 0);
            file.read_exact_at(&mut bytes, 0).expect("reads");
        }
        let below = if entry.is_dir { tree(disk, path) } else { Vec::new() };
        found.push((entry, bytes));
        found.extend(below);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_disk_shows_the_same(steps in prop::collection::vec(any_step(), 1..40)) {
        let home = tempfile::tempdir().expect("makes a directory");
        let (fault, slow_fault) = (FaultDisk::new(), FaultDisk::new());
        fault.create_dir_all(home.path()).expect("creates");
        slow_fault.create_dir_all(home.path()).expect("creates");
        let slow = WatchedDisk::new(slow_fault, Arc::new(SlowSync(Duration::from_micros(1))));
        let disks: [Arc<dyn Disk>; 3] = [Arc::new(RealDisk::new()), fault, Arc::new(slow)];
        for step in &steps {
            let [real, fault, slow] = [0, 1, 2].map(|disk| apply(disks[disk].as_ref(), home.path(), step));
            prop_assert_eq!(&real, &fault, "{:?}", step);
            prop_assert_eq!(&real, &slow, "{:?}", step);
        }
        let [real, fault, slow] = [0, 1, 2].map(|disk: usize| tree(disks[disk].as_ref(), home.path().into()));
        prop_assert_eq!(&real, &fault);
        prop_assert_eq!(&real, &slow);
    }
}

#[test]
fn a_slow_sync_waits_and_passes_on() {
    let fault = FaultDisk::new();
    let slow = WatchedDisk::new(Arc::clone(&fault) as Arc<dyn Disk>, Arc::new(SlowSync(Duration::from_millis(1))));
    let file = slow.create(Path::new("/a")).expect("creates");
    fault.fail_sync(1);
    file.sync_data().expect_err("the failure comes through");
    assert!(slow.try_lock(Path::new("/lock")).expect("asks").is_some());
    assert_eq!(slow.free_bytes(Path::new("/")).expect("asks"), fault.free_bytes(Path::new("/")).expect("asks"));
}
