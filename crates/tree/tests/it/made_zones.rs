//! Zones that are made for tests, and what their clocks show, looked up change by change.

use alluvia_space::ZoneRules;
use alluvia_types::Result;

/// A zone: its offset in seconds, and from each change on.
pub type Changes = (&'static str, i32, &'static [(i64, i32)]);

/// Zones whose clocks go forward and back near the times of random columns, by some minutes, hours and a day.
pub const ZONES: [Changes; 2] = [
    (
        "Somewhere",
        3_600,
        &[
            (-2_208_970_800, 7_200),
            (-2_208_800_000, 3_600),
            (7_200, 5_400),
            (180_000, 9_000),
            (1_577_847_600, 12_600),
            (1_577_937_600, 9_000),
        ],
    ),
    ("Elsewhere", -36_000, &[(100_000, 50_400), (1_577_900_000, -36_000)]),
];

/// The rules of one of them.
pub fn rules(name: &str) -> Result<Option<ZoneRules>> {
    let (_, offset, changes) = ZONES.iter().find(|(known, ..)| *known == name).expect("a zone");
    ZoneRules::new(name.to_owned(), *offset, changes).map(Some)
}

/// What clocks of a zone show at a moment.
pub fn shown(name: &str, micros: i64) -> i64 {
    let (_, offset, changes) = ZONES.iter().find(|(known, ..)| *known == name).expect("a zone");
    let last = changes.iter().rev().find(|(from, _)| from * 1_000_000 <= micros);
    micros + i64::from(last.map_or(*offset, |(_, offset)| *offset)) * 1_000_000
}
