//! File descriptors, for the tests of servers that are left half-open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many descriptors as the machine does, and gives how many connections can be left half-open.
pub fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    10_000.min(most.saturating_sub(1_000)) as usize
}
