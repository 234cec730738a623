//! A watch that holds up fsyncs.

use alluvia_storage::Watch;
use parking_lot::{Condvar, Mutex};

/// Fsyncs each wait until the test lets them go, in whatever order it likes.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_shut: bool,
    arrived: usize,
    released: Vec<usize>,
}

impl Gate {
    /// Holds up fsyncs from now on, which are counted from here.
    pub fn shut(&self) {
        *self.state.lock() = GateState { is_shut: true, ..GateState::default() };
    }

    /// Waits until `count` fsyncs have begun since the gate was shut.
    pub fn wait_for(&self, count: usize) {
        let mut state = self.state.lock();
        while state.arrived < count {
            self.changed.wait(&mut state);
        }
    }

    /// Lets the `index`-th fsync since the gate was shut go on.
    pub fn release(&self, index: usize) {
        self.state.lock().released.push(index);
        self.changed.notify_all();
    }

    /// Lets all go on, now and later.
    pub fn open(&self) {
        self.state.lock().is_shut = false;
        self.changed.notify_all();
    }

    /// Fsyncs that have begun since the gate was shut.
    pub fn arrived(&self) -> usize {
        self.state.lock().arrived
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        let mine = state.arrived;
        state.arrived += 1;
        self.changed.notify_all();
        while state.is_shut && !state.released.contains(&mine) {
            self.changed.wait(&mut state);
        }
    }
}

impl Watch for Gate {
    fn before_sync(&self) {
        self.pass();
    }
}
