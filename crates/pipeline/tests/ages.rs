//! Ages of kills as a damaged or foreign file may have them.

use alluvia_pipeline::Ages;
use alluvia_types::Version;
use std::time::Duration;

#[test]
fn marks_may_be_as_far_apart_as_times_can_be() {
    let marks: [(i64, u64); 3] = [(i64::MIN, 1), (0, 2), (i64::MAX - 1, 3)];
    let bytes: Vec<u8> =
        marks.iter().flat_map(|(at, version)| [at.to_le_bytes(), version.to_le_bytes()].concat()).collect();
    let mut ages = Ages::from_bytes(&bytes).expect("they ascend");
    assert!(ages.note(i64::MAX, Version(4), Duration::ZERO));
    assert_eq!(ages.through(i64::MAX, Duration::ZERO), Version(4));
}
