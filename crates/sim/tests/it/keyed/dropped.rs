//! A table that is dropped while a sort or a merge is at work: after a crash the log has what was done to it before, by
//! key, and finds it as it was.

use super::model::{Change, Part};
use super::tables::{KeyKind, row};
use super::world::{Checked, KEYED, Setup, World, open};
use alluvia_sim::Random;
use alluvia_snapshot::{Durability, NewBatch};
use alluvia_space::OnConflict;
use alluvia_storage::Survival;
use std::sync::Arc;

fn upsert(world: &mut World, numbers: &[u64], random: &mut Random) -> Checked {
    let rows = numbers.iter().map(|&number| row(world.setup.kind, number, random)).collect();
    world.commit(&[Part::new(KEYED, Change::Upsert(rows))]).map(drop)
}

/// Runs one case; returns whether there was such a sync.
fn case(is_merge: bool, passes: usize) -> Checked<bool> {
    let random = &mut Random::new(passes as u64);
    let setup = Setup::new(KeyKind::Number, OnConflict::Error);
    let mut world = World::new(&setup);
    let id = world.tables[KEYED];
    for numbers in [[0, 1], [0, 2]] {
        upsert(&mut world, &numbers, random)?;
        world.sort()?;
    }
    upsert(&mut world, &[1, 3], random)?;
    let mut is_dropped = false;
    let was_held = world.during(is_merge, passes, |world, is_apart| {
        if is_apart {
            upsert(world, &[1, 2, 4], random)?;
            let batch = NewBatch { changes: vec![alluvia_catalog::Change::DropTable { id }], ..NewBatch::default() };
            world.engine().submit(batch, Durability::Sync).map_err(|error| error.to_string())?;
            is_dropped = true;
        }
        Ok(())
    })?;
    for survival in [Survival::SyncedOnly, Survival::Everything] {
        let disk = world.disk.after_power_loss(survival);
        let engine = open(&disk, &Arc::default(), &Arc::default(), &setup);
        let engine = engine.map_err(|error| format!("it does not open: {error}"))?;
        if engine.entry(id).is_none() != is_dropped {
            return Err(format!("dropped: {is_dropped}, and it is otherwise"));
        }
        engine.sort().map_err(|error| format!("a sort: {error}"))?;
    }
    Ok(was_held)
}

#[test]
fn what_was_done_to_a_table_that_is_dropped_during_a_stage_is_replayed() {
    for is_merge in [false, true] {
        let mut passes = 0;
        while case(is_merge, passes).unwrap_or_else(|what| panic!("merge {is_merge}, sync {passes}: {what}")) {
            passes += 1;
        }
        assert!(passes >= 2, "a stage writes a segment's two files at least");
    }
}
