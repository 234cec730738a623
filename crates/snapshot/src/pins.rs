//! Versions that somebody may still ask for.
//!
//! Invariant: a row that is alive at a pinned version is kept by sorts and merges until the pin goes (K5).

use alluvia_types::Version;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many hold each version.
#[derive(Debug, Default)]
pub(crate) struct Pins(Arc<Mutex<BTreeMap<Version, usize>>>);

/// Keeps a version readable as long as it lives.
#[derive(Debug)]
pub struct Pin {
    version: Version,
    pins: Arc<Mutex<BTreeMap<Version, usize>>>,
}

impl Pins {
    /// Pins a version, which must be one that may be asked for now.
    pub(crate) fn pin(&self, version: Version) -> Arc<Pin> {
        *self.0.lock().entry(version).or_default() += 1;
        Arc::new(Pin { version, pins: Arc::clone(&self.0) })
    }

    /// The least version that is pinned.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.0.lock().keys().next().copied()
    }

    /// The pinned versions, ascending.
    pub(crate) fn versions(&self) -> Vec<Version> {
        self.0.lock().keys().copied().collect()
    }
}

impl Pin {
    /// A pin of a version that nothing else needs: of what no database holds.
    pub fn detached(version: Version) -> Arc<Pin> {
        Pins::default().pin(version)
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
        if let Some(count) = pins.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.version);
            }
        }
    }
}
