//! Random batches: most are let in, some must be refused, and keys meet within batches as well as between them.

use super::model::{Change, Part};
use super::tables::{KEYS, key, row};
use super::world::{KEYED, KEYLESS, World};
use alluvia_sim::Random;
use alluvia_sim::rows::Row;

/// Rows of a load, at most; several runs of the pipeline.
const LOAD_ROWS_MAX: u64 = 200;

/// A batch over both tables.
pub fn batch(world: &World, random: &mut Random) -> Vec<Part> {
    let parts = 1 + random.below(3);
    let mut batch: Vec<Part> = (0..parts).map(|_| part(world, random)).collect();
    // Rows of the keyless table that were computed from rows that go: alone, so that no other part takes these.
    if let [Part { table: KEYLESS, change: Change::DeleteRows(_), computed_at }] = batch.as_mut_slice()
        && random.one_in(3)
    {
        *computed_at = Some(world.visible());
    }
    batch
}

fn part(world: &World, random: &mut Random) -> Part {
    if random.one_in(4) {
        return keyless_part(world, random);
    }
    let change = match random.below(10) {
        0..2 => Change::Insert(inserted(world, random)),
        2 => Change::InsertNew(any_rows(world, random)),
        3..7 => Change::Upsert(any_rows(world, random)),
        _ => Change::Delete(any_keys(world, random)),
    };
    let computed_at = random.one_in(4).then(|| read_version(world, random));
    Part { table: KEYED, change, computed_at }
}

fn keyless_part(world: &World, random: &mut Random) -> Part {
    let kind = world.model.tables[KEYLESS].kind;
    let change = match random.one_in(3) {
        true => Change::DeleteRows(identities(world, KEYLESS, random)),
        // Equal rows are others, too.
        false => {
            let mut rows: Vec<Row> = (0..1 + random.below(20)).map(|_| row(kind, random.below(9), random)).collect();
            rows.extend(rows.first().cloned());
            Change::Insert(rows)
        }
    };
    Part::new(KEYLESS, change)
}

/// A version that rows may have been computed from.
fn read_version(world: &World, random: &mut Random) -> u64 {
    let held = world.pins.iter().chain(&world.held).map(|pin| pin.version.0);
    let mut versions: Vec<u64> = held.chain([world.visible(); 3]).collect();
    versions.push(random.below(world.visible() + 1));
    *random.pick(&versions)
}

/// Rows whose keys are not there; now and then one is, or comes twice.
fn inserted(world: &World, random: &mut Random) -> Vec<Row> {
    let (kind, model) = (world.setup.kind, &world.model);
    let is_absent = |number: &u64| !model.tables[KEYED].has_key(model.version(), &key(kind, *number));
    let mut absent: Vec<u64> = (0..KEYS).filter(is_absent).collect();
    let mut rows = Vec::new();
    for _ in 0..1 + random.below(12) {
        if absent.is_empty() {
            break;
        }
        let number = absent.swap_remove(random.below(absent.len() as u64) as usize);
        rows.push(row(kind, number, random));
    }
    if random.one_in(5) || rows.is_empty() {
        rows.push(row(kind, random.below(KEYS), random));
    }
    rows
}

/// Rows of whatever keys, often with one twice.
fn any_rows(world: &World, random: &mut Random) -> Vec<Row> {
    (0..1 + random.below(16)).map(|_| row(world.setup.kind, near(random), random)).collect()
}

fn any_keys(world: &World, random: &mut Random) -> Vec<Row> {
    (0..1 + random.below(10)).map(|_| key(world.setup.kind, near(random))).collect()
}

/// A key's number: small ones are hot.
fn near(random: &mut Random) -> u64 {
    let most = if random.one_in(2) { 8 } else { KEYS };
    random.below(most)
}

/// Identities of rows, most of them there, each once.
fn identities(world: &World, table: usize, random: &mut Random) -> Vec<(u64, u64)> {
    let known = world.model.tables[table].known();
    let mut some: Vec<(u64, u64)> = (0..random.below(8)).filter_map(|_| random.pick_some(&known)).copied().collect();
    // New ones are those that are likely there.
    some.extend(known.iter().rev().take(random.below(6) as usize));
    some.sort_unstable();
    some.dedup();
    some
}

/// A load of the keyed table.
pub fn load(world: &World, random: &mut Random) -> Vec<Part> {
    let kind = world.setup.kind;
    let count = 1 + random.below(LOAD_ROWS_MAX);
    let mut rows: Vec<Row> = match world.setup.on_conflict {
        // Else hardly one would be let in.
        alluvia_space::OnConflict::Error => inserted(world, random),
        _ => (0..count).map(|_| row(kind, random.below(KEYS), random)).collect(),
    };
    let mut parts = Vec::new();
    if random.one_in(3) {
        parts.push(keyless_part(world, random));
    }
    if rows.is_empty() {
        rows.push(row(kind, 0, random));
    }
    parts.push(Part::new(KEYED, Change::Load(rows)));
    parts
}
