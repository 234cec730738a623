//! Random histories: what was acknowledged is there once, what is read is the model's at its version, and replicas agree.

use super::net::{MILLI, Trouble};
use super::world::{Faults, Setup, World};
use alluvia_sim::Seeds;
use alluvia_types::SystemClock;

const CALM: Setup = Setup {
    workers: 3,
    gateways: 2,
    clients: 3,
    replicas: 2,
    batches: 12,
    trouble: Trouble { dropped: 0, twice: 0, late: 0 },
    faults: Faults::None,
    dead_after: None,
};

#[test]
fn without_faults_every_answer_is_the_models() {
    Seeds(5).each(&SystemClock::default(), |seed| {
        let mut world = World::new(CALM, seed);
        world.run();
        assert!(world.reads > 0);
    });
}

#[test]
fn a_network_that_loses_repeats_and_reorders_changes_no_answer() {
    Seeds(15).each(&SystemClock::default(), |seed| {
        let trouble = Trouble { dropped: 12, twice: 8, late: 10 };
        World::new(Setup { trouble, ..CALM }, seed).run();
    });
}

#[test]
fn what_a_gateway_began_before_it_started_anew_is_decided_before_that_or_not_at_all() {
    Seeds(15).each(&SystemClock::default(), |seed| {
        let trouble = Trouble { dropped: 0, twice: 0, late: 2 };
        World::new(Setup { trouble, faults: Faults::Gateways, ..CALM }, seed).run();
    });
}

#[test]
fn machines_that_fail_lose_nothing_and_double_nothing() {
    let (mut reads, mut faults) = (0, 0);
    Seeds(40).each(&SystemClock::default(), |seed| {
        let trouble = Trouble { dropped: 25, twice: 20, late: 15 };
        let mut world = World::new(Setup { trouble, faults: Faults::All, ..CALM }, seed);
        world.run();
        reads += world.reads;
        faults += world.faults;
    });
    println!("{reads} reads were compared, {faults} faults");
}

#[test]
fn replicas_that_are_lost_are_made_anew_while_everything_goes_on() {
    let (mut copied, mut left) = (0, 0);
    Seeds(40).each(&SystemClock::default(), |seed| {
        let trouble = Trouble { dropped: 25, twice: 20, late: 15 };
        let dead_after = Some(300 * MILLI);
        let mut world = World::new(Setup { trouble, faults: Faults::All, dead_after, batches: 20, ..CALM }, seed);
        world.run();
        copied += world.copied;
        left += world.left;
    });
    println!("{copied} shards were copied, {left} replicas were lost");
    assert!(copied > 0 && left > 0, "nothing was lost");
}
