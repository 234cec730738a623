//! Prints what a key costs in the index, and how fast keys are put into it and found: 20M keys in random order.
//!
//! `cargo run -p alluvia-keys --example key_index`

use alluvia_keys::{KeyIndex, RowPlace};
use alluvia_space::KeyCode;
use alluvia_types::{Clock, SegmentId, SystemClock};
use std::hint::black_box;

const KEYS: u64 = 20_000_000;
const PROBES: u64 = 5_000_000;

/// Every number below 2^25 once, in an order without a pattern that the machine could foresee.
fn code(number: u64) -> KeyCode {
    let bits = (1u64 << 25) - 1;
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & bits;
    KeyCode::from((mixed ^ mixed >> 13).wrapping_mul(0xd6e8_feb8_6659_fd93) & bits)
}

fn main() {
    let clock = SystemClock::default();
    let mut index = KeyIndex::new(64);
    let place = |row: u64| RowPlace::Segment { segment: SegmentId(1), row: row as u32 };
    let mut start = clock.monotonic();
    let mut printed = 0;
    for number in 0..KEYS {
        index.insert(code(number), place(number));
        if (number + 1).is_multiple_of(KEYS / 8) {
            let (now, keys) = (clock.monotonic(), index.len() as u64);
            let nanos = (now - start).as_nanos() as f64 / (keys - printed) as f64;
            println!(
                "{keys:>10} keys {:>6.1} bytes a key, {nanos:>6.1} ns an insertion",
                index.bytes() as f64 / keys as f64
            );
            (start, printed) = (now, keys);
        }
    }
    let start = clock.monotonic();
    let found = (0..PROBES).filter(|number| index.get(code(number * 7)).is_some()).count();
    let nanos = (clock.monotonic() - start).as_nanos() as f64 / PROBES as f64;
    println!("{:>10} found in {PROBES} probes, {nanos:.1} ns each", black_box(found));
}
