//! What kills do to resident cuboids, and to those that are wanted.

use super::resident::{Followed, Plan, Resident};
use super::{Built, Cuboids, Shape};
use crate::answer::Kept;
use crate::table::testing::{FixedAdmin, Fixture, table, texts};
use alluvia_catalog::Catalog;
use alluvia_snapshot::{Newer, Read, Snapshot, Want};
use alluvia_space::DataType;
use alluvia_types::{Clock, Error, Freshness, ManualClock, Result, TableId, Version};
use arrow::array::RecordBatch;
use std::sync::Arc;
use std::time::Duration;

const TABLE: TableId = TableId(1);

/// A database that always gives the same.
#[derive(Debug)]
struct Store {
    clock: Arc<dyn Clock>,
    snapshot: Snapshot,
    newer: Option<Newer>,
    /// What was visible a while ago.
    old: Version,
}

impl Store {
    fn of(fixture: &Fixture, old: u64) -> Store {
        Store { clock: Arc::new(ManualClock::default()), snapshot: fixture.snapshot(), newer: None, old: Version(old) }
    }

    fn with_newer(through: u64, killed_through: u64, fixture: &Fixture) -> Store {
        let newer = Newer {
            through: Version(through),
            floor: Version(0),
            entry: fixture.entry(),
            tail: Vec::new(),
            killed_through: Version(killed_through),
        };
        Store { newer: Some(newer), ..Store::of(fixture, 0) }
    }
}

impl Read for Store {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
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

    fn newer(&self, _table: TableId, _above: Version, _from: Version) -> Option<Newer> {
        self.newer.clone()
    }

    fn wait_visible(&self, _version: Version) -> Result<()> {
        Err(Error::internal("nothing comes"))
    }
}

/// A segment and a tail of ten countries.
fn fixture() -> Fixture {
    let def = table("t", &[("country", DataType::Text)]);
    let countries = texts((0..100).map(|row| Some(format!("country{}", row % 10))).collect());
    let rows = RecordBatch::try_new(def.storage_schema(), vec![countries]).expect("one column");
    let mut fixture = Fixture::new(def, "store(country)", &rows);
    fixture.add_segment(&rows);
    fixture.add_tail(&rows);
    fixture
}

fn shape() -> Shape {
    Shape { table: TABLE, levels: vec![0], measures: Vec::new() }
}

/// A cuboid of the fixture's snapshot.
fn resident(fixture: &Fixture, kept: &Kept) -> Resident {
    let snapshot = fixture.snapshot();
    let read = &snapshot.tables[&TABLE];
    let plan = Plan::new(&shape(), read, snapshot.version, &kept.tails).expect("plans").expect("codes");
    let built = plan.build(&shape(), &snapshot, read, Duration::ZERO, &ManualClock::default(), 1);
    built.expect("builds").expect("totals")
}

#[test]
fn a_cuboid_catches_up_only_where_nothing_was_killed_since() {
    let (mut fixture, kept) = (fixture(), Kept::default());
    let caught_up = |resident: &Resident, fixture: &Fixture| {
        resident.catch_up(&fixture.read(), fixture.version, &kept.tails).expect("catches up")
    };
    let before = resident(&fixture, &kept);
    fixture.version = Version(110);
    assert!(caught_up(&before, &fixture));
    assert_eq!(before.version(), Version(110));
    fixture.kill_in_tail(0, 3, Version(115));
    fixture.version = Version(112);
    assert!(caught_up(&before, &fixture), "nobody sees that kill yet");
    fixture.version = Version(120);
    assert!(!caught_up(&before, &fixture));
    fixture.version = Version(112);
    assert!(!caught_up(&before, &fixture), "what is stale stays so");
    fixture.version = Version(120);
    let after = resident(&fixture, &kept);
    fixture.version = Version(130);
    assert!(caught_up(&after, &fixture), "it was built without that row");
    assert_eq!(after.version(), Version(130));
}

#[test]
fn a_cuboid_follows_the_log_up_to_a_kill() {
    let (fixture, kept) = (fixture(), Kept::default());
    let follow = |resident: &Resident, through: u64, killed_through: u64, kept: &Kept| {
        let store = Store::with_newer(through, killed_through, &fixture);
        resident.follow(&store, Version(through), &kept.tails).expect("follows")
    };
    // With what the tail has in codes, and without.
    let empty = Kept::default();
    for following in [&kept, &empty] {
        let resident = resident(&fixture, &kept);
        assert_eq!(follow(&resident, 105, 0, following), Followed::Yes);
        assert_eq!(follow(&resident, 106, 100, following), Followed::Yes, "that kill was known when it was built");
        assert_eq!(follow(&resident, 110, 107, following), Followed::Never);
        assert_eq!(follow(&resident, 111, 0, following), Followed::Never, "what is stale stays so");
    }
}

#[test]
fn no_cuboid_is_built_of_a_table_that_is_updated_until_it_is_at_rest() {
    let (mut fixture, kept) = (fixture(), Kept::default());
    fixture.kill_in_tail(0, 3, Version(90));
    let cuboids = Cuboids::new(64 << 20);
    cuboids.want(&shape());
    let next = |store: &Store| cuboids.build_next(store, &FixedAdmin, &kept, 1).expect("looks");
    let (updated, at_rest) = (Store::of(&fixture, 89), Store::of(&fixture, 90));
    assert!(next(&updated), "it was looked at");
    assert!(!next(&updated), "once");
    assert!(cuboids.list().is_empty());
    assert!(next(&at_rest));
    let listed = cuboids.list();
    assert_eq!(listed.iter().map(|resident| resident.version()).collect::<Vec<_>>(), [fixture.version]);
    assert!(!next(&at_rest), "nothing is wanted any more");
    // Who pins one has it now.
    let pinned = Cuboids::new(64 << 20);
    let built = pinned.build(&shape(), None, &updated, &kept, 1).expect("builds");
    assert!(matches!(built, Built::Yes));
}
