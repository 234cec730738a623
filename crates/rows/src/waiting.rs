//! Versions of definitions that only an open transaction knows.

use alluvia_types::Version;

/// Versions from here on are those of definitions that wait: batches get here after a century of a billion a second.
const WAITING_FROM: u64 = 1 << 62;

/// The version of a definition that waits; `number` is one that no other has.
pub fn waiting(number: u64) -> Version {
    Version(WAITING_FROM | number)
}

/// Whether a definition of this version waits for a COMMIT.
pub fn is_waiting(version: Version) -> bool {
    version.0 >= WAITING_FROM
}

/// As the log has it: what waits is made by the batch itself, which has no version yet.
pub fn in_log(version: Version) -> Version {
    if is_waiting(version) { Version(0) } else { version }
}
