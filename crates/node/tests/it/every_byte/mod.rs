//! Each byte of a small database's files flipped, each file cut at each boundary, removed, swapped with another, replaced by an older copy:
//! refused, told, rebuilt, or the right answer; never a wrong one.
//!
//! `made` makes the database, `files` says what its files are made of, `damage` what is done to them, `asked` what it is asked then,
//! `outcome` what came of it, and `tally` counts that.
//!
//! Invariants:
//! - Without `ALLUVIA_TEST_EVERY` a sample of the bytes is flipped, some of each region of each file, and all else is done;
//!   `ALLUVIA_TEST_SEED` takes another sample. With it each byte is flipped, as `make soak` does.
//! - Damage that neither a start nor a check notices is counted, and of the kinds that are known to be harmless ([`UNNOTICED`]).
//! - A case that does not end fails: [`watch`] counts its own looks, not time, so that a machine that stands still fails nothing.

mod asked;
mod damage;
mod files;
mod made;
mod outcome;
mod tally;

use self::asked::Answer;
use self::damage::Damage;
use self::files::{File, regions};
use self::made::Made;
use self::outcome::Bench;
use self::tally::Tally;
use crate::support::{Random, variable};
use alluvia_storage::FaultDisk;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Bytes of each region of a file that are flipped where not all are.
const SAMPLED: usize = 1;
/// Threads that run cases, for each processor.
const WORKERS: usize = 12;
/// Looks of [`watch`], a second apart, after which a case hangs.
const LOOKS_MAX: u32 = 600;

/// Where damage may go unnoticed, as kind of file and sorts of damage, and why it harms nothing.
const UNNOTICED: &[(&str, &[&str], &str)] = &[
    ("ages", &["removed", "older"], "a memo: what it held is learnt anew"),
    ("cuboids", &["removed", "older"], "a memo"),
    ("predicates", &["removed", "older"], "a memo"),
    ("dictionary", &["longer"], "what lies behind the mark in the manifest is cut off"),
    (
        "log",
        &["longer", "cut", "flipped"],
        "zeros behind the end are room; the last statement of a clean stop says what the mark says, too",
    ),
    ("lock", &["removed", "longer"], "it is locked, and has no content"),
    ("holder", &["removed", "longer", "cut", "flipped"], "words for an error"),
];

/// One damage of one file, and where it lies in it.
struct Case<'a> {
    file: &'a File,
    region: &'static str,
    damage: Damage,
}

/// A state of the directory, and what it answers.
struct Image {
    disk: Arc<FaultDisk>,
    files: Vec<File>,
    /// The answers without damage; then those without the last groups of the log, which a start that says so may cut.
    right: Vec<Vec<Answer>>,
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().thread_stack_size(8 << 20).build().expect("a runtime")
}

/// The state after a clean stop, and that after a process was killed.
fn images(made: &Made, spill: &Path, runtime: &Runtime) -> [Image; 2] {
    let image = |disk: &Arc<FaultDisk>, is_killed: bool| {
        let files = files::files(disk);
        let mut disks = vec![made::copy(disk)];
        let newest = files.iter().rfind(|file| file.kind == "log").expect("there is a log");
        let groups = regions(newest).into_iter().filter(|region| region.name == "header of a group");
        for group in groups.filter(|_| is_killed) {
            disks.push(made::copy(disk));
            damage::apply(&disks[disks.len() - 1], &newest.path, &Damage::Cut { to: group.bytes.start });
        }
        let right = disks.iter().map(|disk| outcome::right_answers(disk, spill, runtime)).collect();
        Image { disk: Arc::clone(disk), files, right }
    };
    [image(&made.stopped, false), image(&made.killed, true)]
}

/// Flips: of each byte, or of some of each region.
fn flips<'a>(file: &'a File, is_every: bool, random: &mut Random) -> Vec<Case<'a>> {
    let mut found = Vec::new();
    for region in regions(file) {
        let some = (0..SAMPLED).map(|_| region.bytes.start + random.below(region.bytes.len() as u64) as usize);
        let places: Vec<usize> = if is_every { region.bytes.clone().collect() } else { some.collect() };
        found.extend(places.into_iter().map(|at| {
            let xor = if random.below(4) == 0 { 0xff } else { 1 << random.below(8) };
            Case { file, region: region.name, damage: Damage::Flip { at, xor } }
        }));
    }
    found
}

/// Everything that is done to an image. Without a clean stop only the log, and what says how far it goes, mean another thing.
fn cases<'a>(image: &'a Image, made: &Made, is_every: bool, random: &mut Random) -> Vec<Case<'a>> {
    let is_killed = image.right.len() > 1;
    let mut found = Vec::new();
    for file in image.files.iter().filter(|file| !is_killed || file.kind == "log") {
        found.extend(flips(file, is_every, random));
        let whole = damage::of_whole(file, &image.files, &made.older);
        found.extend(whole.into_iter().map(|damage| Case { file, region: "", damage }));
    }
    found
}

/// Ends the process with the cases that are under way, where none ends any more.
fn watch(is_over: &AtomicBool, done: &AtomicUsize, under_way: &[Mutex<String>]) {
    let (mut seen, mut looks) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
        let now = done.load(Ordering::Relaxed);
        looks = if now == seen { looks + 1 } else { 0 };
        seen = now;
        if looks == LOOKS_MAX {
            under_way.iter().for_each(|case| eprintln!("does not end: {}", case.lock()));
            std::process::exit(1);
        }
    }
}

/// Runs all cases of an image, on all processors.
fn run(image: &Image, cases: &[Case<'_>], spill: &Path, tally: &Mutex<Tally>) {
    // A case waits more than it computes: for the threads of its databases, which look about every so often whether to stop.
    let threads = WORKERS * std::thread::available_parallelism().map_or(1, usize::from);
    println!("{} cases", cases.len());
    let (next, done, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let under_way: Vec<Mutex<String>> = (0..threads).map(|_| Mutex::default()).collect();
    let work = |own: &Mutex<String>| {
        let runtime = runtime();
        let bench = Bench { whole: &image.disk, right: &image.right, spill, runtime: &runtime };
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            *own.lock() = format!("{}: {}", case.file.path.display(), case.damage);
            let outcome = bench.outcome(&case.file.path, &case.damage);
            tally.lock().add(case.file, case.region, &case.damage, outcome);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done % 500 == 0 {
                println!("{done} are done");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&is_over, &done, &under_way));
        let workers: Vec<_> = under_way.iter().map(|own| scope.spawn(|| work(own))).collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("a case's panic is caught"));
    });
}

#[test]
fn nothing_that_is_damaged_gives_a_wrong_answer() {
    let is_every = variable("ALLUVIA_TEST_EVERY").is_some_and(|every| every > 0);
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(20_261_129);
    println!("seed {seed} (ALLUVIA_TEST_SEED flips other bytes, ALLUVIA_TEST_EVERY=1 all of them)");
    let mut random = Random(seed.max(1));
    let spill = tempfile::tempdir().unwrap();
    let tally = Mutex::new(Tally::default());
    let first = runtime();
    let made = first.block_on(made::made(spill.path()));
    for image in images(&made, spill.path(), &first) {
        tally.lock().read(&image.files);
        let cases = cases(&image, &made, is_every, &mut random);
        run(&image, &cases, spill.path(), &tally);
    }
    let tally = tally.into_inner();
    tally.print();
    tally.judge(UNNOTICED);
}

/// What a closed table has in the log is sorted, and never merged: whoever asks for a merge of all tables does not wait for it.
#[test]
fn a_merge_that_is_asked_for_ends_where_a_table_is_closed() {
    let spill = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let made = runtime.block_on(made::made(spill.path()));
    let mut closed = 0;
    for file in files::files(&made.stopped).iter().filter(|file| file.kind == "segment") {
        let disk = made::copy(&made.stopped);
        damage::apply(&disk, &file.path, &Damage::Removed);
        let db = made::open(&disk, spill.path(), Duration::from_secs(1 << 20)).expect("the others are open");
        closed += db.closed().len();
        runtime.block_on(async { crate::support::real::tag(&db.session(), "CALL alluvia.merge()").await });
    }
    assert!(closed > 0);
}
