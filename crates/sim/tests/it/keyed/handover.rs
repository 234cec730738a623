//! Hand-over, with few rows and every order: a sort or a merge is held before each of its syncs in turn, and each change
//! comes in between, to rows in each stage. Elsewhere this is where deletes were lost against compactions.

use super::model::{Change, Part};
use super::tables::{KeyKind, key, row};
use super::world::{Checked, KEYED, NEWEST, Setup, World};
use alluvia_sim::Random;
use alluvia_space::OnConflict;

/// The keys of these tests; one more is not there at first.
const ROWS: u64 = 3;

/// What comes in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    Nothing,
    Upsert(u64),
    Delete(u64),
    /// Deleted, and there again.
    Renew(u64),
    UpsertAll,
    Insert,
    /// A pin, and then all rows are replaced.
    PinAndUpsert,
    /// The other stage, after a change.
    OtherStage(u64),
}

fn between() -> Vec<Between> {
    use Between::{Delete, Insert, Nothing, OtherStage, PinAndUpsert, Renew, Upsert, UpsertAll};
    let each = |number| [Upsert(number), Delete(number), Renew(number), OtherStage(number)];
    let mut all = vec![Nothing, UpsertAll, Insert, PinAndUpsert];
    all.extend((0..ROWS).flat_map(each));
    all
}

/// Where the rows are when it begins, and what is dead already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// One row merged, one sorted, one in the tail.
    Spread,
    /// The same, and each was replaced once, with the old ones dead in their segments.
    Replaced,
    /// All of one merge, and killed since.
    Killed,
    /// Two sorts' worth in the tail, of which one row came and went.
    Tail,
}

fn upsert(world: &World, numbers: &[u64], random: &mut Random) -> Part {
    let rows = numbers.iter().map(|&number| row(world.setup.kind, number, random)).collect();
    Part::new(KEYED, Change::Upsert(rows))
}

fn delete(world: &World, number: u64) -> Part {
    Part::new(KEYED, Change::Delete(vec![key(world.setup.kind, number)]))
}

fn prepare(world: &mut World, layout: Layout, random: &mut Random) -> Checked {
    let mut spread = |world: &mut World| -> Checked {
        let part = upsert(world, &[0], random);
        world.commit(&[part])?;
        world.sort()?;
        world.merge()?;
        let part = upsert(world, &[1], random);
        world.commit(&[part])?;
        world.sort()?;
        let part = upsert(world, &[2], random);
        world.commit(&[part]).map(drop)
    };
    match layout {
        Layout::Spread => spread(world),
        Layout::Replaced => {
            spread(world)?;
            spread(world)
        }
        Layout::Killed => {
            let part = upsert(world, &[0, 1, 2], random);
            world.commit(&[part])?;
            world.sort()?;
            world.merge()?;
            let parts = [delete(world, 1), upsert(world, &[2], random)];
            world.commit(&parts).map(drop)
        }
        Layout::Tail => {
            for numbers in [&[0, 1][..], &[1, 2], &[0]] {
                let part = upsert(world, numbers, random);
                world.commit(&[part])?;
            }
            let part = delete(world, 0);
            world.commit(&[part]).map(drop)
        }
    }
}

impl World {
    fn come_between(&mut self, what: Between, is_merge: bool, random: &mut Random) -> Checked {
        match what {
            Between::Nothing => Ok(()),
            Between::Upsert(number) => {
                let part = upsert(self, &[number], random);
                self.commit(&[part]).map(drop)
            }
            Between::Delete(number) => {
                let part = delete(self, number);
                self.commit(&[part]).map(drop)
            }
            Between::Renew(number) => {
                let parts = [delete(self, number), upsert(self, &[number], random)];
                self.commit(&parts[..1])?;
                self.commit(&parts[1..]).map(drop)
            }
            Between::UpsertAll => {
                let part = upsert(self, &[0, 1, 2], random);
                self.commit(&[part]).map(drop)
            }
            Between::Insert => {
                let part = Part::new(KEYED, Change::Insert(vec![row(self.setup.kind, ROWS, random)]));
                self.commit(&[part]).map(drop)
            }
            Between::PinAndUpsert => {
                self.pin(NEWEST)?;
                self.hold(NEWEST)?;
                self.come_between(Between::UpsertAll, is_merge, random)
            }
            Between::OtherStage(number) => {
                self.come_between(Between::Upsert(number), is_merge, random)?;
                if is_merge { self.sort() } else { self.merge() }?;
                self.come_between(Between::Delete(number), is_merge, random)
            }
        }
    }

    /// All that may show what went wrong before.
    fn settle(&mut self, random: &mut Random) -> Checked {
        self.check(random)?;
        let part = upsert(self, &[1, 2], random);
        self.commit(&[part])?;
        self.check(random)?;
        self.sort()?;
        self.check(random)?;
        self.merge()?;
        self.check(random)?;
        self.release_all()?;
        self.probe_index(random)?;
        self.reopen()?;
        self.check(random)?;
        self.probe_index(random)?;
        self.merge()?;
        self.check(random)
    }
}

/// Runs one case; returns whether there was such a sync.
fn case(setup: &Setup, layout: Layout, is_merge: bool, passes: usize, what: Between) -> Checked<Option<bool>> {
    let mut random = Random::new(passes as u64);
    let mut world = World::new(setup);
    prepare(&mut world, layout, &mut random)?;
    if is_merge {
        // So that there is something to merge, whatever the layout.
        world.sort()?;
    }
    let mut has_come = false;
    let was_held = world.during(is_merge, passes, |world, is_apart| {
        has_come = is_apart;
        world.check(&mut random)?;
        if is_apart { world.come_between(what, is_merge, &mut random) } else { Ok(()) }
    })?;
    world.settle(&mut random)?;
    Ok(was_held.then_some(has_come))
}

fn every_order(kind: KeyKind) {
    let setup = Setup::new(kind, OnConflict::Error);
    let mut cases = 0;
    for layout in [Layout::Spread, Layout::Replaced, Layout::Killed, Layout::Tail] {
        for is_merge in [false, true] {
            for what in between() {
                for passes in 0.. {
                    let checked = case(&setup, layout, is_merge, passes, what);
                    let shown = format!("{layout:?}, merge {is_merge}, {what:?} before sync {passes}");
                    match checked.unwrap_or_else(|wrong| panic!("{shown}: {wrong}")) {
                        None => break,
                        Some(has_come) => cases += usize::from(has_come),
                    }
                }
            }
        }
    }
    println!("{cases} times something came in between");
    assert!(cases >= 8 * between().len(), "a stage writes a segment's two files at least: {cases}");
}

#[test]
fn what_comes_between_a_stage_and_its_end_is_kept_in_any_order() {
    every_order(KeyKind::Number);
}

#[test]
fn what_comes_between_is_kept_where_segments_are_promoted() {
    every_order(KeyKind::Unordered);
}
