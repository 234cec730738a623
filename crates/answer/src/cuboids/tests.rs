//! What kills do to resident cuboids, and to those that are wanted.

use super::resident::{Effort, Followed, Plan, Resident};
use super::{Cuboids, Shape};
use crate::Kept;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_fixture::{FixedAdmin, Fixture, FixtureKills, TAIL_VERSION, table, texts};
use alluvia_snapshot::{Killed, Newer, Pin, Read, Snapshot, TailRead, Want};
use alluvia_space::DataType;
use alluvia_tree::{Answer, BoxQuery, GroupKeys, Wanted, WantedMeasure};
use alluvia_types::{Clock, ColumnId, Error, Freshness, ManualClock, Result, TableId, Version};
use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const TABLE: TableId = TableId(1);

/// A database that always gives the same.
#[derive(Debug)]
struct Store {
    clock: Arc<ManualClock>,
    as_clock: Arc<dyn Clock>,
    snapshot: Snapshot,
    entry: Arc<TableEntry>,
    tail: Vec<TailRead>,
    kills: FixtureKills,
    /// What was visible a while ago.
    old: Version,
}

impl Store {
    fn of(fixture: &Fixture, old: u64) -> Store {
        let clock = Arc::new(ManualClock::default());
        Store {
            as_clock: Arc::clone(&clock) as Arc<dyn Clock>,
            clock,
            snapshot: fixture.snapshot(),
            entry: fixture.entry(),
            tail: fixture.tail.clone(),
            kills: fixture.kills(),
            old: Version(old),
        }
    }
}

impl Read for Store {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.as_clock
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.catalog)
    }

    fn snapshot(&self, _want: &Want) -> Result<Snapshot> {
        Ok(self.snapshot.clone())
    }

    fn required(&self, freshness: Freshness, _at_least: Version) -> Version {
        match freshness {
            Freshness::Within(Duration::ZERO) => self.snapshot.version,
            _ => self.old,
        }
    }

    fn lag(&self, _version: Version) -> Duration {
        Duration::ZERO
    }

    fn newer(&self, _table: TableId, above: Version, from: Version) -> Option<Newer> {
        let through = self.snapshot.version;
        Some(Newer {
            through,
            floor: Version(0),
            entry: Arc::clone(&self.entry),
            tail: if TAIL_VERSION > from { self.tail.clone() } else { Vec::new() },
            killed: self.kills.killed(above, through),
            killed_through: self.snapshot.tables[&TABLE].killed_through,
            pin: Pin::detached(through),
        })
    }

    fn killed(&self, _table: TableId, above: Version, through: Version) -> Option<Killed> {
        Some(self.kills.killed(above, through))
    }

    fn wait_visible(&self, _version: Version) -> Result<()> {
        Err(Error::internal("nothing comes"))
    }
}

/// A segment and a tail of ten countries. Prices are numbers that no decimal is, if `thirds`.
fn fixture(thirds: bool) -> Fixture {
    let mut def = table("t", &[("country", DataType::Text), ("price", DataType::Double)]);
    def.measures = vec![ColumnId(1)];
    let countries = texts((0..100).map(|row| Some(format!("country{}", row % 10))).collect());
    let price = |row: i32| if thirds { f64::from(row + 1) / 3.0 } else { f64::from(row) / 4.0 };
    let prices: ArrayRef = Arc::new(Float64Array::from_iter_values((0..100).map(price)));
    let rows = RecordBatch::try_new(def.storage_schema(), vec![countries, prices]).expect("two columns");
    let mut fixture = Fixture::new(def, "store(country)", &rows);
    fixture.add_segment(&rows);
    fixture.add_tail(&rows);
    fixture
}

fn shape() -> Shape {
    let wanted = Wanted { sum: true, ..Wanted::default() };
    Shape {
        table: TABLE,
        levels: vec![0],
        measures: vec![WantedMeasure { column: ColumnId(1), is_float: true, wanted }],
    }
}

/// A cuboid of the fixture's snapshot.
fn resident(fixture: &Fixture, kept: &Kept) -> Resident {
    let snapshot = fixture.snapshot();
    let read = &snapshot.tables[&TABLE];
    let plan = Plan::new(&shape(), read, snapshot.version, &kept.tails).expect("plans").expect("codes");
    let built = plan.build(&shape(), &snapshot, read, Duration::ZERO, &ManualClock::default(), 1);
    built.expect("builds").expect("totals")
}

/// Rows of each country, and the sum of their prices.
fn totals(resident: &Resident) -> BTreeMap<Vec<u32>, (u64, f64)> {
    let state = resident.state.read();
    let query = BoxQuery { groups: vec![0], measures: shape().measures, ..BoxQuery::default() };
    let span = state.cuboid.span_of(0, &|level| level, &|_, _, _| None).expect("its level");
    let mut found = Answer::new(&query, GroupKeys::new(vec![span]).expect("few"));
    state.cuboid.answer(&query, &|level| level, &|_, _, _| None, &mut found).expect("answers");
    let groups = (0..found.totals.groups()).filter(|&group| found.totals.rows(group) > 0);
    let of_group = |group: usize| (found.totals.rows(group), found.totals.measures()[0].float_sum(group));
    groups.map(|group| (found.keys.codes(group), of_group(group))).collect()
}

#[test]
fn a_cuboid_catches_up_with_what_was_killed() {
    let (mut fixture, kept) = (fixture(false), Kept::default());
    let caught_up = |resident: &Resident, fixture: &Fixture| {
        let store = Store::of(fixture, 0);
        let read = &store.snapshot.tables[&TABLE];
        resident.catch_up(&store, &store.snapshot, read, &kept.tails).expect("catches up")
    };
    let before = resident(&fixture, &kept);
    let first = totals(&before);
    fixture.version = Version(110);
    assert!(caught_up(&before, &fixture));
    assert_eq!(before.version(), Version(110));
    fixture.kill_in_tail(0, 3, Version(115));
    fixture.kill(0, 7, Version(116));
    fixture.version = Version(112);
    assert!(caught_up(&before, &fixture), "nobody sees those kills yet");
    assert_eq!(totals(&before), first);
    fixture.version = Version(120);
    assert!(caught_up(&before, &fixture));
    assert_eq!(totals(&before), totals(&resident(&fixture, &kept)));
    assert_eq!(totals(&before).values().map(|(rows, _)| rows).sum::<u64>(), 198);
    // All rows of two countries go, with others that went already.
    for (row, place) in fixture.places(0).into_iter().enumerate() {
        // A row is killed once.
        if row != 3 {
            fixture.kill_in_tail(0, row, Version(125));
        }
        if place % 10 < 2 {
            fixture.kill(0, row as u64, Version(126));
        }
    }
    fixture.version = Version(130);
    assert!(caught_up(&before, &fixture));
    assert_eq!(totals(&before), totals(&resident(&fixture, &kept)));
    assert_eq!(totals(&before).len(), 8, "a country without rows is none");
}

#[test]
fn a_cuboid_follows_the_log_with_its_kills() {
    for effort in [Effort::Little, Effort::All] {
        // With what the tail has in codes, and without.
        for is_coded in [true, false] {
            let (mut fixture, kept) = (fixture(false), Kept::default());
            let followed = resident(&fixture, &kept);
            let kept = if is_coded { kept } else { Kept::default() };
            fixture.kill_in_tail(0, 3, Version(105));
            fixture.kill(0, 7, Version(106));
            fixture.kill(0, 8, Version(107));
            fixture.version = Version(106);
            let store = Store::of(&fixture, 0);
            assert_eq!(followed.follow(&store, Version(106), &kept.tails, effort).expect("follows"), Followed::Yes);
            assert_eq!(totals(&followed), totals(&resident(&fixture, &kept)));
            assert_eq!(totals(&followed).values().map(|(rows, _)| rows).sum::<u64>(), 198);
        }
    }
}

#[test]
fn sums_that_kills_have_lost_are_built_again_when_the_table_is_at_rest() {
    let (mut fixture, kept) = (fixture(true), Kept::default());
    let cuboids = Cuboids::new(64 << 20);
    cuboids.want(&shape());
    assert!(cuboids.build_next(&Store::of(&fixture, 0), &FixedAdmin, &kept, 1).expect("looks"));
    let followed = cuboids.list().pop().expect("it was built");
    fixture.kill_in_tail(0, 3, Version(105));
    fixture.version = Version(110);
    let (updated, at_rest) = (Store::of(&fixture, 104), Store::of(&fixture, 105));
    let done = followed.follow(&updated, Version(110), &kept.tails, Effort::All).expect("follows");
    assert_eq!(done, Followed::Yes);
    let sums = BoxQuery { measures: shape().measures, ..BoxQuery::default() };
    assert!(followed.state.read().cuboid.has_lost(&sums));
    assert!(!followed.state.read().cuboid.has_lost(&BoxQuery::default()), "rows are counted");
    let is_wanted = || cuboids.demand.lock().wanted.contains_key(&shape());
    for (store, seconds, then) in
        [(&updated, 0, false), (&updated, 90, false), (&at_rest, 0, false), (&at_rest, 90, true)]
    {
        store.clock.advance(Duration::from_secs(seconds));
        cuboids.want_anew(&followed, true, store);
        assert_eq!(is_wanted(), then);
    }
    assert!(cuboids.build_next(&at_rest, &FixedAdmin, &kept, 1).expect("looks"));
    let built = cuboids.list();
    assert_eq!(built.len(), 1, "it takes the other one's place");
    assert!(!built[0].state.read().cuboid.has_lost(&sums));
}

#[test]
fn a_cuboid_is_built_of_a_table_that_is_updated() {
    let (mut fixture, kept) = (fixture(false), Kept::default());
    fixture.kill_in_tail(0, 3, Version(90));
    let cuboids = Cuboids::new(64 << 20);
    cuboids.want(&shape());
    let next = |store: &Store| cuboids.build_next(store, &FixedAdmin, &kept, 1).expect("looks");
    let updated = Store::of(&fixture, 89);
    assert!(next(&updated));
    let listed = cuboids.list();
    assert_eq!(listed.iter().map(|resident| resident.version()).collect::<Vec<_>>(), [fixture.version]);
    assert!(!next(&updated), "nothing is wanted any more");
}
