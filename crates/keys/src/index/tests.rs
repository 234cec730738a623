//! An index is a map, whatever is done to it.

use super::*;
use alluvia_types::{SegmentId, Version};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(KeyCode, RowPlace),
    Remove(KeyCode),
    /// So many keys that follow this one.
    Fill(KeyCode, u16),
    /// The segment of this number is gone.
    Lose(u64),
    /// All is made anew of what there is.
    Rebuild,
}

fn any_place() -> impl Strategy<Value = RowPlace> {
    prop_oneof![
        (0u64..4, any::<u32>()).prop_map(|(segment, row)| RowPlace::Segment { segment: SegmentId(segment), row }),
        (any::<u32>(), 0u64..10)
            .prop_map(|(version, ordinal)| RowPlace::Tail { version: Version(version.into()), ordinal }),
    ]
}

fn any_step(bits: u32) -> impl Strategy<Value = Step> {
    // Some codes differ in high bits alone.
    let code = move || {
        (0u128..6, 0u32..4).prop_map(move |(code, part)| (code << (bits / 4 * part)) & (u128::MAX >> (128 - bits)))
    };
    prop_oneof![
        12 => (code(), any_place()).prop_map(|(code, place)| Step::Insert(code, place)),
        6 => code().prop_map(Step::Remove),
        1 => (code(), 0u16..3_000).prop_map(|(code, count)| Step::Fill(code, count)),
        1 => prop_oneof![0u64..4, Just(9)].prop_map(Step::Lose),
        1 => Just(Step::Rebuild),
    ]
}

fn any_steps() -> impl Strategy<Value = (u32, Vec<Step>)> {
    prop_oneof![Just(32u32), Just(64), Just(128), 20u32..129]
        .prop_flat_map(|bits| (Just(bits), prop::collection::vec(any_step(bits), 0..60)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn an_index_is_a_map((bits, steps) in any_steps()) {
        let (mut index, mut model) = (KeyIndex::new(bits), BTreeMap::new());
        for step in steps {
            match step {
                Step::Insert(code, place) => prop_assert_eq!(index.insert(code, place), model.insert(code, place)),
                Step::Remove(code) => prop_assert_eq!(index.remove(code), model.remove(&code)),
                Step::Fill(from, count) => {
                    for code in (from..).take(count.into()).filter(|code| bits == 128 || code >> bits == 0) {
                        let place = RowPlace::Segment { segment: SegmentId(9), row: code as u32 };
                        prop_assert_eq!(index.insert(code, place), model.insert(code, place));
                    }
                }
                Step::Lose(lost) => {
                    let of_it = |place: &RowPlace| matches!(place, RowPlace::Segment { segment, .. } if segment.0 == lost);
                    index.forget_segment(SegmentId(lost));
                    model.retain(|_, place| !of_it(place));
                }
                Step::Rebuild => {
                    let mut builder = KeyIndexBuilder::new(bits, model.len());
                    model.iter().for_each(|(&code, &place)| builder.add(code, place));
                    let built = builder.finish().expect("keys are there once");
                    prop_assert!(built == index);
                    index = built;
                }
            }
            prop_assert_eq!((index.len(), index.is_empty()), (model.len(), model.is_empty()));
        }
        let all: BTreeMap<KeyCode, RowPlace> = index.iter().collect();
        prop_assert_eq!(&all, &model);
        for (&code, &place) in &model {
            prop_assert_eq!(index.get(code), Some(place));
            let other = code ^ 1;
            prop_assert_eq!(index.get(other), model.get(&other).copied());
        }
    }
}

#[test]
fn a_key_that_is_there_twice_is_told() {
    let mut builder = KeyIndexBuilder::new(64, 10_000);
    let place = |row| RowPlace::Segment { segment: SegmentId(1), row };
    (0..10_000).for_each(|row| builder.add((row % 9_999).into(), place(row)));
    let (one, other) = builder.finish().expect_err("one key is there twice");
    assert!([(place(0), place(9_999)), (place(9_999), place(0))].contains(&(one, other)), "{one:?} {other:?}");
}

#[test]
fn indexes_of_other_keys_are_others() {
    let place = |row| RowPlace::Segment { segment: SegmentId(1), row };
    let of = |keys: &[(KeyCode, u32)]| {
        let mut index = KeyIndex::new(64);
        keys.iter().for_each(|&(code, row)| assert_eq!(index.insert(code, place(row)), None));
        index
    };
    assert!(of(&[(1, 1), (2, 2)]) == of(&[(2, 2), (1, 1)]));
    assert!(of(&[(1, 1), (2, 2)]) != of(&[(1, 1), (3, 2)]));
    assert!(of(&[(1, 1), (2, 2)]) != of(&[(1, 1), (2, 3)]));
    assert!(of(&[(1, 1)]) != of(&[(1, 1), (2, 3)]));
}

/// What the module says of a key's cost, at any number of keys.
#[test]
fn a_key_costs_what_is_said() {
    for (bits, most_allowed) in [(32, 12.5), (64, 16.0), (128, 24.0)] {
        let mut index = KeyIndex::new(bits);
        let mut most = 0f64;
        for key in 1..=400_000u32 {
            index.insert(key.into(), RowPlace::Segment { segment: SegmentId(1), row: key });
            if key > 50_000 && key.is_multiple_of(1_000) {
                most = most.max(index.bytes() as f64 / f64::from(key));
            }
        }
        assert!(most < most_allowed, "{bits} bits: {most} bytes a key");
    }
}
