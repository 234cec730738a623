//! Curves against their defining properties.

use super::*;
use proptest::prelude::*;

/// Bits of up to 64 axes, 128 in all.
fn any_bits() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..=32, 1..=64).prop_map(|mut bits| {
        let mut left = 128u32;
        for bits in &mut bits {
            *bits = u32::from(*bits).min(left) as u8;
            left -= u32::from(*bits);
        }
        bits
    })
}

fn any_curve() -> impl Strategy<Value = Curve> {
    prop_oneof![Just(Curve::Hilbert), Just(Curve::Z)]
}

fn cut(point: &[u32], bits: &[u8]) -> Vec<u32> {
    bits.iter().enumerate().map(|(axis, &bits)| (u64::from(point[axis]) & ((1 << bits) - 1)) as u32).collect()
}

/// Every small space whole: each key once, decoded back, prefixes are boxes.
#[test]
fn small_spaces_are_visited_once_and_every_prefix_is_a_box() {
    for curve in [Curve::Hilbert, Curve::Z] {
        for bits in
            [&[3u8, 3][..], &[1, 4], &[0, 3, 2], &[2, 2, 2, 2], &[5], &[1, 1, 1, 1, 1, 1, 1, 1, 1], &[4, 0, 1, 3]]
        {
            let map = CurveMap::new(curve, bits);
            let total = map.bits_total();
            let mut points = Vec::new();
            for key in 0..1u128 << total {
                let point = map.decode(key);
                assert_eq!(map.encode(&point), key, "{curve:?} {bits:?}");
                points.push(point);
            }
            for prefix_bits in 0..=total {
                for (prefix, members) in points.chunks(1 << (total - prefix_bits)).enumerate() {
                    let found = map.prefix_box((prefix as u128) << (total - prefix_bits), prefix_bits);
                    let volume: u64 =
                        found.low.iter().zip(&found.high).map(|(low, high)| u64::from(high - low) + 1).product();
                    assert_eq!(volume, members.len() as u64);
                    assert!(members.iter().all(|point| found.contains(point)));
                }
            }
        }
    }
}

#[test]
fn neighbours_on_a_hilbert_curve_are_neighbours_in_space() {
    for (axes, bits) in [(1, 8u8), (2, 5), (3, 4), (4, 3), (5, 2), (8, 1), (9, 1), (10, 1)] {
        let map = CurveMap::new(Curve::Hilbert, &vec![bits; axes]);
        let mut last = map.decode(0);
        assert!(last.iter().all(|&at| at == 0), "the curve begins at the origin");
        for key in 1..1u128 << map.bits_total() {
            let next = map.decode(key);
            let steps: u32 = last.iter().zip(&next).map(|(a, b)| a.abs_diff(*b)).sum();
            assert_eq!(steps, 1, "{axes} axes of {bits} bits at key {key}");
            last = next;
        }
    }
}

#[test]
fn keys_are_those_of_the_first_release() {
    // Segments on disk are in this order: a change here is a change of format.
    let square = CurveMap::new(Curve::Hilbert, &[2, 2]);
    let path: Vec<Vec<u32>> = (0..16).map(|key| square.decode(key)).collect();
    let expected = [
        [0, 0],
        [1, 0],
        [1, 1],
        [0, 1],
        [0, 2],
        [0, 3],
        [1, 3],
        [1, 2],
        [2, 2],
        [2, 3],
        [3, 3],
        [3, 2],
        [3, 1],
        [2, 1],
        [2, 0],
        [3, 0],
    ];
    assert_eq!(path, expected);
    let eight = CurveMap::new(Curve::Hilbert, &[16; 8]);
    assert_eq!(eight.encode(&[1, 20, 300, 4000, 50000, 6, 700, 8000]), 20016563245661810897499804959090179897);
    assert_eq!(CurveMap::new(Curve::Z, &[2, 1]).encode(&[0b10, 0b1]), 0b101);
}

proptest! {
    #[test]
    fn large_spaces_are_bijective(curve in any_curve(), bits in any_bits(), point in prop::collection::vec(any::<u32>(), 64)) {
        let map = CurveMap::new(curve, &bits);
        let point = cut(&point, &bits);
        let key = map.encode(&point);
        prop_assert!(map.bits_total() == 128 || key >> map.bits_total() == 0);
        prop_assert_eq!(map.decode(key), point);
    }

    #[test]
    fn keys_decode_and_encode_to_themselves(curve in any_curve(), bits in any_bits(), key in any::<u128>()) {
        let map = CurveMap::new(curve, &bits);
        let key = key & 1u128.unbounded_shl(map.bits_total()).wrapping_sub(1);
        prop_assert_eq!(map.encode(&map.decode(key)), key);
    }

    /// A point is in the box of its own key's prefix and in no other; the box has the prefix's share of the space.
    #[test]
    fn a_prefix_is_a_box(
        curve in any_curve(), bits in any_bits(), key in any::<u128>(),
        points in prop::collection::vec(prop::collection::vec(any::<u32>(), 64), 20), share in 0u32..=128,
    ) {
        let map = CurveMap::new(curve, &bits);
        let total = map.bits_total();
        let key = key & 1u128.unbounded_shl(total).wrapping_sub(1);
        let prefix_bits = share * total / 128;
        let found = map.prefix_box(key, prefix_bits);
        let halvings: u32 = (0..bits.len())
            .map(|axis| u32::from(bits[axis]) - (u64::from(found.high[axis] - found.low[axis]) + 1).ilog2())
            .sum();
        prop_assert_eq!(halvings, prefix_bits);
        let prefix = |key: u128| key.unbounded_shr(total - prefix_bits);
        for point in points {
            let point = cut(&point, &bits);
            prop_assert_eq!(found.contains(&point), prefix(map.encode(&point)) == prefix(key));
            // A point forced into the box has the prefix.
            let inside: Vec<u32> = (0..bits.len())
                .map(|axis| found.low[axis] | point[axis] & (found.high[axis] - found.low[axis]))
                .collect();
            prop_assert_eq!(prefix(map.encode(&inside)), prefix(key));
        }
    }

    #[test]
    fn tables_and_bit_loops_agree(bits in prop::collection::vec(0u8..=16, 1..=8), point in prop::collection::vec(any::<u32>(), 64)) {
        let point = cut(&point, &bits);
        let axes: Vec<&[u32]> = point.iter().map(std::slice::from_ref).collect();
        for curve in [Curve::Hilbert, Curve::Z] {
            let map = CurveMap::new(curve, &bits);
            let mut words = transpose::LevelWords::new(axes.len(), map.active.len());
            let words = words.of(&axes, 0);
            let slow = match curve {
                Curve::Hilbert => hilbert::encode(bits.len() as u32, &map.active, words),
                Curve::Z => z::encode(&map.active, words),
            };
            prop_assert_eq!(map.encode(&point), slow);
        }
    }
}
