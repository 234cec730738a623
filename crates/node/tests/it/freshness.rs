//! A statement reads the most organised stages that are fresh enough, at the version through which these are complete for its tables,
//! and says truly how far behind that is: against a model that knows of each batch how far it has come, and since when it is visible.

use crate::support::{create, insert, open, rows};
use alluvia_node::Core;
use alluvia_snapshot::{Admin, Durability, Ingest, NewBatch, Read, Want};
use alluvia_storage::FaultDisk;
use alluvia_types::{Clock, Freshness, ManualClock, Stage, TableId, Version};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const TABLES: usize = 2;

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    /// One batch with rows for these tables.
    Insert([bool; TABLES]),
    /// One batch with staged rows for a table.
    Load(usize),
    Sort,
    Merge,
    Wait(u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::sample::select(vec![[true, false], [false, true], [true, true]]).prop_map(Step::Insert),
        2 => (0..TABLES).prop_map(Step::Load),
        3 => Just(Step::Sort),
        3 => Just(Step::Merge),
        4 => prop::sample::select(vec![0, 1, 300, 700, 2_500]).prop_map(Step::Wait),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// Where the rows of one batch for one table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Organised {
    Tail,
    /// In a staged segment that no manifest names yet.
    Attached,
    Sorted,
    Merged,
}

#[derive(Debug, Default)]
struct Model {
    /// Version, table, and where they are.
    parts: Vec<(u64, usize, Organised)>,
    visible: u64,
    /// Everything through this version has been visible for ever; how long that is, is not known from before the opening.
    recovered: u64,
    opened: Duration,
    /// Of later versions.
    visible_at: Vec<(Duration, u64)>,
}

impl Model {
    fn commit(&mut self, now: Duration, version: Version, tables: &[usize], place: Organised) {
        assert_eq!(version.0, self.visible + 1);
        self.visible = version.0;
        self.visible_at.push((now, version.0));
        self.parts.extend(tables.iter().map(|&table| (version.0, table, place)));
    }

    fn moved(&mut self, from: &[Organised], to: Organised) {
        for (_, _, place) in &mut self.parts {
            if from.contains(place) {
                *place = to;
            }
        }
    }

    fn reopened(&mut self, now: Duration) {
        (self.recovered, self.opened) = (self.visible, now);
        self.visible_at.clear();
    }

    /// The version before the first whose rows of these tables are less organised.
    fn complete(&self, tables: &[usize], stage: Stage) -> u64 {
        let lacks = |place: Organised| match stage {
            Stage::Ingested => false,
            Stage::Sorted => place == Organised::Tail,
            Stage::Merged => place != Organised::Merged,
        };
        let lacking = self.parts.iter().filter(|(_, table, place)| tables.contains(table) && lacks(*place));
        lacking.map(|(version, _, _)| version - 1).min().unwrap_or(self.visible)
    }

    fn required(&self, now: Duration, freshness: Freshness) -> u64 {
        match freshness {
            Freshness::Merged => 0,
            Freshness::Within(age) => {
                let old_enough = self.visible_at.iter().filter(|(at, _)| *at + age <= now);
                old_enough.map(|entry| entry.1).max().unwrap_or(self.recovered)
            }
        }
    }

    fn choose(&self, tables: &[usize], required: u64) -> (u64, Stage) {
        // Every stage, the most organised first: what comes last always suffices.
        let stages = [Stage::Merged, Stage::Sorted, Stage::Ingested];
        let mut complete = stages.map(|stage| (self.complete(tables, stage), stage)).into_iter();
        complete.find(|(version, _)| *version >= required).expect("all that is visible is ingested")
    }

    fn lag(&self, now: Duration, version: u64) -> Duration {
        let lacking = (version < self.visible).then_some(version + 1);
        let since = lacking.map(|first| match self.visible_at.iter().find(|entry| entry.1 == first) {
            Some((at, _)) => *at,
            None => self.opened,
        });
        since.map_or(Duration::ZERO, |since| now - since)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_most_organised_stages_that_suffice_are_read(history in steps()) {
        let disk = FaultDisk::new();
        let clock = Arc::new(ManualClock::default());
        let mut core = open(&disk, &clock).unwrap();
        let mut model = Model::default();
        let tables: [TableId; TABLES] = [0, 1].map(|at| {
            let (table, committed) = create(&core, &format!("t{at}")).unwrap();
            model.commit(clock.monotonic(), committed.version, &[], Organised::Tail);
            table
        });
        let some = || rows(&[(1, "red"), (700, "green"), (12, "")]);
        for step in history {
            let now = clock.monotonic();
            match step {
                Step::Insert(into) => {
                    let into: Vec<usize> = (0..TABLES).filter(|&at| into[at]).collect();
                    let parts: Vec<_> = into.iter().map(|&at| (tables[at], some())).collect();
                    model.commit(now, insert(&core, &parts).unwrap().version, &into, Organised::Tail);
                }
                Step::Load(at) => {
                    let entry = core.catalog().by_id(tables[at]).cloned().unwrap();
                    let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
                    load.append(some()).unwrap();
                    let batch = NewBatch { loads: vec![load.finish().unwrap()], ..NewBatch::default() };
                    let version = core.submit(batch, Durability::Sync).unwrap().version;
                    model.commit(now, version, &[at], Organised::Attached);
                }
                Step::Sort => {
                    core.sort().unwrap();
                    model.moved(&[Organised::Tail, Organised::Attached], Organised::Sorted);
                }
                Step::Merge => {
                    core.merge(true).unwrap();
                    model.moved(&[Organised::Sorted], Organised::Merged);
                }
                Step::Wait(millis) => clock.advance(Duration::from_millis(millis)),
                Step::Reopen => {
                    drop(core);
                    core = open(&disk, &clock).unwrap();
                    model.reopened(now);
                }
            }
            check(&core, &model, clock.monotonic(), &tables)?;
        }
    }
}

fn check(core: &Core, model: &Model, now: Duration, tables: &[TableId; TABLES]) -> Result<(), TestCaseError> {
    let ages = [0, 1, 299, 300, 700, 2_500, 3_600_000].map(|millis| Freshness::Within(Duration::from_millis(millis)));
    let wanted: [&[usize]; 4] = [&[], &[0], &[1], &[0, 1]];
    let versions = [0, model.visible / 2, model.visible];
    for of in wanted {
        let want = |freshness, at_least: u64, exactly: Option<u64>| Want {
            freshness,
            at_least: Version(at_least),
            exactly: exactly.map(Version),
            tables: of.iter().map(|&at| tables[at]).collect(),
        };
        for freshness in ages.into_iter().chain([Freshness::Merged]) {
            for at_least in versions {
                let required = model.required(now, freshness).max(at_least);
                prop_assert_eq!(core.required(freshness, Version(at_least)).0, required, "{:?} {:?}", freshness, model);
                let (version, stage) = model.choose(of, required);
                let found = core.snapshot(&want(freshness, at_least, None)).unwrap();
                let expected = (version, stage, model.lag(now, version));
                prop_assert_eq!(
                    (found.version.0, found.stage, found.lag),
                    expected,
                    "tables {:?}, {:?}, at least {}: {:?}",
                    of,
                    freshness,
                    at_least,
                    model
                );
                prop_assert_eq!(core.lag(found.version), found.lag);
            }
        }
        for version in versions {
            let found = core.snapshot(&want(Freshness::Merged, 0, Some(version))).unwrap();
            let (_, stage) = model.choose(of, version);
            prop_assert_eq!((found.version.0, found.stage), (version, stage), "tables {:?}: {:?}", of, model);
        }
    }
    for info in core.stages() {
        let at = tables.iter().position(|table| *table == info.table).expect("one of ours");
        let watermark = model.complete(&[at], info.stage);
        let expected = (watermark, model.lag(now, watermark));
        prop_assert_eq!((info.watermark.0, info.staleness), expected, "{:?}: {:?}", info.stage, model);
    }
    Ok(())
}
