//! The power-loss model against a slow and obviously right one: whole copies of every state a file was in.

use super::*;
use crate::disk::{Disk, DiskFile};
use inode::SECTOR_BYTES;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::io;

const PATHS: [&str; 5] = ["/a", "/b", "/dir/a", "/dir/b", "/dir/c"];

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Write { path: usize, offset: u64, len: usize },
    Append { path: usize, len: usize },
    SetLen { path: usize, len: u64 },
    Rename(usize, usize),
    Remove(usize),
    Sync(usize),
    SyncDir(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    let path = || 0..PATHS.len();
    prop_oneof![
        2 => path().prop_map(Step::Create),
        3 => (path(), 0..6000u64, 0..3000usize).prop_map(|(path, offset, len)| Step::Write { path, offset, len }),
        4 => (path(), 1..1500usize).prop_map(|(path, len)| Step::Append { path, len }),
        1 => (path(), 0..7000u64).prop_map(|(path, len)| Step::SetLen { path, len }),
        2 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => path().prop_map(Step::Remove),
        2 => path().prop_map(Step::Sync),
        1 => any::<bool>().prop_map(Step::SyncDir),
    ]
}

/// Every state of a thing since it was last made durable; the first is the durable one, the last the visible one.
type History<T> = Vec<T>;

fn keep_last<T>(history: &mut History<T>) {
    history.drain(..history.len() - 1);
}

#[derive(Clone, Default)]
struct Model {
    /// By number.
    files: Vec<History<Vec<u8>>>,
    names: BTreeMap<&'static str, History<Option<usize>>>,
}

impl Model {
    fn visible(&self, path: &str) -> Option<usize> {
        *self.names.get(path)?.last()?
    }

    fn set(&mut self, path: &'static str, file: Option<usize>) {
        self.names.entry(path).or_insert_with(|| vec![None]).push(file);
    }

    fn apply(&mut self, step: &Step, fill: u8) {
        let edit = |files: &mut Vec<History<Vec<u8>>>, file: usize, with: &dyn Fn(&mut Vec<u8>)| {
            let mut next = files[file].last().expect("has a state").clone();
            with(&mut next);
            files[file].push(next);
        };
        let write = |bytes: &mut Vec<u8>, offset: usize, len: usize| {
            if len > 0 {
                bytes.resize(bytes.len().max(offset + len), 0);
                bytes[offset..offset + len].fill(fill);
            }
        };
        match *step {
            Step::Create(path) if self.visible(PATHS[path]).is_none() => {
                self.files.push(vec![Vec::new()]);
                self.set(PATHS[path], Some(self.files.len() - 1));
            }
            Step::Rename(from, to) if from != to => {
                if let Some(file) = self.visible(PATHS[from]) {
                    self.set(PATHS[from], None);
                    self.set(PATHS[to], Some(file));
                }
            }
            Step::Remove(path) if self.visible(PATHS[path]).is_some() => self.set(PATHS[path], None),
            Step::SyncDir(root) => self.sync_dir(if root { Path::new("/") } else { Path::new("/dir") }),
            Step::Write { path, .. } | Step::Append { path, .. } | Step::SetLen { path, .. } | Step::Sync(path) => {
                let Some(file) = self.visible(PATHS[path]) else { return };
                match *step {
                    Step::Write { offset, len, .. } => {
                        edit(&mut self.files, file, &|bytes| write(bytes, offset as usize, len))
                    }
                    Step::Append { len, .. } => edit(&mut self.files, file, &|bytes| write(bytes, bytes.len(), len)),
                    Step::SetLen { len, .. } => edit(&mut self.files, file, &|bytes| bytes.resize(len as usize, 0)),
                    _ => keep_last(&mut self.files[file]),
                }
            }
            _ => {}
        }
    }

    fn sync_dir(&mut self, dir: &Path) {
        let below = |name: &&str| Path::new(name).parent() == Some(dir);
        self.names.iter_mut().filter(|(name, _)| below(name)).for_each(|(_, history)| keep_last(history));
    }
}

/// A rename from one directory to the other is synced as a whole with either, and what it rests on with it: more than a
/// sync of one directory promises. The model then knows what must be durable, not what may be.
fn is_across(step: &Step) -> bool {
    matches!(step, Step::Rename(from, to) if Path::new(PATHS[*from]).parent() != Path::new(PATHS[*to]).parent())
}

fn apply(disk: &FaultDisk, step: &Step, fill: u8) -> io::Result<()> {
    let with = |path: usize, with: &dyn Fn(&dyn DiskFile) -> io::Result<()>| match disk.open(Path::new(PATHS[path])) {
        Ok(file) => with(file.as_ref()),
        Err(error) => Err(error),
    };
    match *step {
        Step::Create(path) => disk.create(Path::new(PATHS[path])).map(drop),
        Step::Write { path, offset, len } => with(path, &|file| file.write_all_at(&vec![fill; len], offset)),
        Step::Append { path, len } => with(path, &|file| file.write_all_at(&vec![fill; len], file.len()?)),
        Step::SetLen { path, len } => with(path, &|file| file.set_len(len)),
        Step::Rename(from, to) => disk.rename(Path::new(PATHS[from]), Path::new(PATHS[to])),
        Step::Remove(path) => disk.remove(Path::new(PATHS[path])),
        Step::Sync(path) => with(path, &|file| file.sync_data()),
        Step::SyncDir(root) => disk.sync_dir(Path::new(if root { "/" } else { "/dir" })),
    }
}

fn new_disk() -> Arc<FaultDisk> {
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new("/dir")).expect("creates");
    disk
}

fn contents(disk: &FaultDisk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(Path::new(path)).ok()?;
    let mut bytes = vec![0; file.len().expect("has a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("reads");
    Some(bytes)
}

fn number(disk: &FaultDisk, path: &str) -> Option<usize> {
    disk.shared.state.lock().names.get(Path::new(path)).map(|file| file.number as usize)
}

/// Sector `sector` of a file with zeros behind it, as far as a file of `len` bytes shows it.
fn sector_of(bytes: &[u8], sector: usize, len: usize) -> Vec<u8> {
    let size = SECTOR_BYTES as usize;
    let mut part = bytes.get(sector * size..).unwrap_or_default().to_vec();
    part.resize(size.min(len - sector * size), 0);
    part
}

fn is_torn_of(found: &[u8], history: &[Vec<u8>]) -> Result<(), String> {
    let (len, size) = (found.len(), SECTOR_BYTES as usize);
    let had = history.iter().any(|state| state.len() == len);
    let cut = len.is_multiple_of(size)
        && history.windows(2).any(|pair| (pair[0].len().min(pair[1].len())..=pair[1].len()).contains(&len));
    if !had && !cut {
        return Err(format!("length {len} is none of {:?}", history.iter().map(Vec::len).collect::<Vec<_>>()));
    }
    for sector in 0..len.div_ceil(size) {
        let part = sector_of(found, sector, len);
        if !history.iter().any(|state| sector_of(state, sector, len) == part) {
            return Err(format!("sector {sector} is in no state that it ever had"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_power_loss_leaves_what_was_synced_and_any_part_of_the_rest(
        steps in prop::collection::vec(any_step(), 1..60),
        seed in any::<u64>(),
        across in any::<bool>(),
    ) {
        let (disk, mut model) = (new_disk(), Model::default());
        for (i, step) in steps.iter().enumerate().filter(|(_, step)| across || !is_across(step)) {
            let fill = i as u8 + 1;
            let _ = apply(&disk, step, fill);
            model.apply(step, fill);
        }
        let synced = disk.after_power_loss(Survival::SyncedOnly);
        let everything = disk.after_power_loss(Survival::Everything);
        for path in PATHS {
            let default = vec![None];
            let history = model.names.get(path).unwrap_or(&default);
            let of = |file: Option<usize>| file.map(|file| &model.files[file]);
            let durable = of(history[0]).map(|states| states[0].clone());
            let visible = of(history[history.len() - 1]).map(|states| states[states.len() - 1].clone());
            if across {
                prop_assert!(history.contains(&number(&synced, path)));
            } else {
                prop_assert_eq!(&contents(&synced, path), &durable);
            }
            prop_assert_eq!(&contents(&everything, path), &visible);
            prop_assert_eq!(&contents(&disk, path), &visible);
        }
        for seed in (0..8).map(|i| seed.wrapping_add(i)) {
            let torn = disk.after_power_loss(Survival::Torn { seed });
            let mut seen = HashSet::new();
            for path in PATHS {
                let default = vec![None];
                let history = model.names.get(path).unwrap_or(&default);
                let file = number(&torn, path);
                prop_assert!(history.contains(&file), "{path}: file {file:?} is none of {history:?}");
                if let Some(file) = file {
                    prop_assert!(seen.insert(file), "file {file} has two names");
                    let found = contents(&torn, path).expect("exists");
                    if let Err(why) = is_torn_of(&found, &model.files[file]) {
                        prop_assert!(false, "{path}: {why}");
                    }
                }
            }
            prop_assert_eq!(torn.fingerprint(), disk.after_power_loss(Survival::Torn { seed }).fingerprint());
        }
        prop_assert_eq!(synced.fingerprint(), disk.fingerprint());
    }

    #[test]
    fn a_power_loss_during_a_call_is_one_just_before_or_just_after_it(
        steps in prop::collection::vec(any_step(), 1..30),
    ) {
        // Every sync reached must hold, and nothing may be held that was not asked for: compare with the same run
        // stopped before the fatal call, and after it.
        let states = |stop_after: u64, survival| {
            let disk = new_disk();
            let made = disk.calls();
            for (i, step) in steps.iter().enumerate() {
                if disk.calls() - made == stop_after {
                    break;
                }
                let _ = apply(&disk, step, i as u8 + 1);
            }
            (disk.calls() - made, disk.after_power_loss(survival).fingerprint())
        };
        let (calls, _) = states(u64::MAX, Survival::Everything);
        for n in 1..=calls {
            let disk = new_disk();
            disk.fail_after(n);
            let failed = steps.iter().enumerate().filter(|(i, step)| apply(&disk, step, *i as u8 + 1).is_err()).count();
            prop_assert!(failed > 0);
            prop_assert!(disk.open(Path::new("/a")).is_err_and(|error| error.kind() == io::ErrorKind::Other));
            prop_assert_eq!(disk.after_power_loss(Survival::SyncedOnly).fingerprint(), states(n - 1, Survival::SyncedOnly).1);
            let (before, after) = (states(n - 1, Survival::Everything).1, states(n, Survival::Everything).1);
            let left = disk.after_power_loss(Survival::Everything).fingerprint();
            prop_assert!(left == before || left == after);
        }
    }
}

#[test]
fn torn_writes_take_every_shape() {
    let disk = new_disk();
    let file = disk.create(Path::new("/a")).expect("creates");
    file.write_all_at(&[1; 1024], 0).expect("writes");
    file.sync_data().expect("syncs");
    disk.sync_dir(Path::new("/")).expect("syncs");
    file.write_all_at(&[2; 2048], 512).expect("writes");
    let mut shapes = HashSet::new();
    for seed in 0..4000 {
        let found = contents(&disk.after_power_loss(Survival::Torn { seed }), "/a").expect("is synced");
        assert_eq!(found[..512], [1; 512], "nobody wrote there");
        shapes.insert(found.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>());
    }
    let holes = shapes.iter().filter(|shape| shape.windows(2).any(|pair| pair == [0, 2])).count();
    let old_then_new = shapes.contains(&vec![1, 1, 2, 2, 2]);
    let short = shapes.iter().filter(|shape| shape.len() == 2).count();
    assert!(holes > 0 && old_then_new && short == 2, "{shapes:?}");
    // Two lengths; sector 1 old or new; three more sectors zero or new. And the cuts of a prefix.
    assert!(shapes.len() >= 2 + 16, "{} shapes", shapes.len());
}

#[test]
fn a_failed_sync_is_never_made_good_by_a_later_one() {
    let disk = new_disk();
    let file = disk.create(Path::new("/a")).expect("creates");
    disk.sync_dir(Path::new("/")).expect("syncs");
    file.write_all_at(b"kept", 0).expect("writes");
    file.sync_data().expect("syncs");
    file.write_all_at(b"lost", 4).expect("writes");
    disk.fail_sync(1);
    file.sync_data().expect_err("fails");
    assert_eq!(contents(&disk, "/a").expect("exists"), b"keptlost");
    file.write_all_at(b"more", 8).expect("writes");
    file.sync_data().expect("pretends");
    assert_eq!(contents(&disk, "/a").expect("exists"), b"keptlostmore");
    let left = disk.after_power_loss(Survival::SyncedOnly);
    assert_eq!(contents(&left, "/a").expect("exists"), b"kept\0\0\0\0more");
    file.write_all_at(b"last", 12).expect("writes");
    file.sync_data().expect("syncs");
    let left = disk.after_power_loss(Survival::SyncedOnly);
    assert_eq!(contents(&left, "/a").expect("exists"), b"kept\0\0\0\0morelast");
}

#[test]
fn a_failed_sync_of_a_directory_can_be_made_good() {
    let disk = new_disk();
    disk.create(Path::new("/a")).expect("creates");
    disk.fail_sync_dir(2);
    disk.sync_dir(Path::new("/dir")).expect("is the first");
    disk.sync_dir(Path::new("/")).expect_err("is the second");
    assert_eq!(disk.dir_syncs(), 2);
    assert!(disk.exists(Path::new("/a")));
    assert!(!disk.after_power_loss(Survival::SyncedOnly).exists(Path::new("/a")));
    disk.sync_dir(Path::new("/")).expect("syncs");
    assert!(disk.after_power_loss(Survival::SyncedOnly).exists(Path::new("/a")));
}

#[test]
fn a_full_disk_takes_what_fits_and_has_room_again() {
    let disk = new_disk();
    disk.limit_bytes(Some(10));
    let file = disk.create(Path::new("/a")).expect("creates");
    assert_eq!(file.write_all_at(b"0123456789ab", 0).expect_err("full").kind(), io::ErrorKind::StorageFull);
    assert_eq!(contents(&disk, "/a").expect("exists"), b"0123456789");
    assert_eq!(disk.free_bytes(Path::new("/dir")).expect("asks"), 0);
    file.write_all_at(b"abc", 2).expect("overwrites");
    assert_eq!(file.set_len(11).expect_err("full").kind(), io::ErrorKind::StorageFull);
    file.set_len(4).expect("cuts");
    assert_eq!(disk.free_bytes(Path::new("/dir")).expect("asks"), 6);
    file.write_all_at(b"xyz", 4).expect("fits again");
    disk.remove(Path::new("/a")).expect("removes");
    assert_eq!(disk.free_bytes(Path::new("/dir")).expect("asks"), 10);
    file.write_all_at(&[0; 100], 0).expect("an unnamed file is not counted");
    disk.create(Path::new("/b")).expect("creates").write_all_at(&[0; 7], 0).expect("fits");
    disk.create(Path::new("/dir/b")).expect("creates").write_all_at(&[0; 3], 0).expect("fits");
    disk.rename(Path::new("/dir/b"), Path::new("/b")).expect("replaces");
    assert_eq!(disk.free_bytes(Path::new("/dir")).expect("asks"), 7);
}

#[test]
fn a_failed_write_leaves_a_part() {
    let disk = new_disk();
    let file = disk.create(Path::new("/a")).expect("creates");
    disk.fail_write(2);
    file.write_all_at(b"whole", 0).expect("writes");
    file.write_all_at(b"half", 5).expect_err("fails");
    assert_eq!(contents(&disk, "/a").expect("exists"), b"wholeha");
    file.write_all_at(b"lf", 7).expect("the device has recovered");
}

#[test]
fn locks_are_held_by_one_and_end_with_the_power() {
    let disk = new_disk();
    let path = Path::new("/dir/lock");
    let held = disk.try_lock(path).expect("asks").expect("is free");
    assert!(disk.try_lock(path).expect("asks").is_none());
    assert!(disk.after_power_loss(Survival::Everything).try_lock(path).expect("asks").is_some());
    drop(held);
    assert!(disk.try_lock(path).expect("asks").is_some());
    assert_eq!(disk.try_lock(Path::new("/nowhere/lock")).expect_err("no directory").kind(), io::ErrorKind::NotFound);
}

#[test]
fn wrong_calls_fail_as_on_a_file_system() {
    let disk = new_disk();
    let kind = |result: io::Result<()>| result.expect_err("fails").kind();
    let at = Path::new;
    assert_eq!(kind(disk.create(at("/nowhere/a")).map(drop)), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.create(at("/dir")).map(drop)), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.open(at("/a")).map(drop)), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.open(at("/dir")).map(drop)), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.remove(at("/a"))), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.remove(at("/dir"))), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename(at("/a"), at("/b"))), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.sync_dir(at("/nowhere"))), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.read_dir(at("/nowhere")).map(drop)), io::ErrorKind::NotFound);
    disk.create(at("/a")).expect("creates");
    assert_eq!(kind(disk.create(at("/a")).map(drop)), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.rename(at("/a"), at("/nowhere/a"))), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.rename(at("/a"), at("/dir"))), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.create_dir_all(at("/a/b"))), io::ErrorKind::NotADirectory);
    let names: Vec<_> = disk.read_dir(at("/")).expect("lists").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "dir"]);
}

#[test]
fn tens_of_thousands_of_crashes_of_a_small_log() {
    // Records of 100 bytes, synced four at a time; the name synced once. Every acknowledged record must be there.
    const RECORD: usize = 100;
    let run = |disk: &FaultDisk| -> usize {
        let mut acknowledged = 0;
        let mut work = || -> io::Result<()> {
            let file = disk.create(Path::new("/dir/log"))?;
            disk.sync_dir(Path::new("/dir"))?;
            for record in 0..100 {
                file.write_all_at(&[record as u8 + 1; RECORD], (record * RECORD) as u64)?;
                if record % 4 == 3 {
                    file.sync_data()?;
                    acknowledged = record + 1;
                }
            }
            Ok(())
        };
        let _ = work();
        acknowledged
    };
    let whole = new_disk();
    assert_eq!(run(&whole), 100);
    let calls = whole.calls();
    let (mut runs, mut states) = (0, HashSet::new());
    for seed in 0..200 {
        for n in 1..calls {
            let disk = new_disk();
            disk.fail_after(n);
            let acknowledged = run(&disk);
            let left = disk.after_power_loss(Survival::Torn { seed });
            runs += 1;
            if states.insert((left.fingerprint(), acknowledged)) {
                let bytes = contents(&left, "/dir/log").unwrap_or_default();
                for record in 0..acknowledged {
                    assert_eq!(
                        bytes[record * RECORD..(record + 1) * RECORD],
                        [record as u8 + 1; RECORD],
                        "seed {seed}, call {n}"
                    );
                }
            }
        }
    }
    assert!(runs > 20_000 && states.len() > 500, "{runs} runs, {} states", states.len());
}

#[test]
fn readers_and_writers_of_many_threads_meet_on_one_disk() {
    let disk = new_disk();
    let path = Path::new("/a");
    disk.create(path).expect("creates").write_all_at(&[0; 4096], 0).expect("writes");
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let disk = &disk;
            scope.spawn(move || {
                let file = disk.open(path).expect("opens");
                for round in 0..200 {
                    file.write_all_at(&[thread; 512], u64::from(thread) * 512).expect("writes");
                    if round % 10 == 0 {
                        file.sync_data().expect("syncs");
                    }
                }
            });
            scope.spawn(move || {
                let file = disk.open(path).expect("opens");
                let mut sector = [9; 512];
                for _ in 0..200 {
                    file.read_exact_at(&mut sector, u64::from(thread) * 512).expect("reads");
                    assert!(sector == [0; 512] || sector == [thread; 512], "a write is seen whole");
                }
            });
        }
    });
    assert_eq!(disk.calls(), 1 + 2 + 4 * 220);
}

/// A canary: code with the usual omissions must be caught, or the model has gone tame.
#[test]
fn forgotten_syncs_are_found() {
    let replace = |disk: &FaultDisk, sync_data: bool, sync_dir: bool| -> io::Result<()> {
        let file = disk.create(Path::new("/dir/new"))?;
        file.write_all_at(&[2; 3000], 0)?;
        if sync_data {
            file.sync_data()?;
        }
        disk.rename(Path::new("/dir/new"), Path::new("/dir/a"))?;
        if sync_dir { disk.sync_dir(Path::new("/dir")) } else { Ok(()) }
    };
    let found_wrong = |sync_data, sync_dir| -> bool {
        (1..=5).any(|n| {
            (0..100).any(|seed| {
                let disk = new_disk();
                let file = disk.create(Path::new("/dir/a")).expect("creates");
                file.write_all_at(&[1; 3000], 0).and_then(|()| file.sync_data()).expect("writes");
                disk.sync_dir(Path::new("/dir")).expect("syncs");
                disk.fail_after(n);
                let acknowledged = replace(&disk, sync_data, sync_dir).is_ok();
                let found = contents(&disk.after_power_loss(Survival::Torn { seed }), "/dir/a");
                found != Some(vec![2; 3000]) && (acknowledged || found != Some(vec![1; 3000]))
            })
        })
    };
    assert!(!found_wrong(true, true));
    assert!(found_wrong(false, true));
    assert!(found_wrong(true, false));
}
