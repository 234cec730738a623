//! A machine: a disk, and a process that runs on it, or none.

use alluvia_sim::Random;
use alluvia_storage::{FaultDisk, Survival};
use std::sync::Arc;

/// What of a machine is there.
pub struct Machine<T> {
    pub disk: Arc<FaultDisk>,
    /// How often a process was started.
    pub life: u64,
    pub running: Option<T>,
    /// It does nothing until then, and does not know it.
    pub paused_until: u64,
}

impl<T> Machine<T> {
    pub fn new() -> Machine<T> {
        Machine { disk: FaultDisk::new(), life: 0, running: None, paused_until: 0 }
    }

    /// Kills the process, and perhaps takes the power.
    pub fn crash(&mut self, random: &mut Random) {
        self.running = None;
        let survival = match random.below(3) {
            0 => Survival::Everything,
            1 => Survival::SyncedOnly,
            _ => Survival::Torn { seed: random.number() },
        };
        self.disk = self.disk.after_power_loss(survival);
    }
}
