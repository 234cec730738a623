//! Arithmetic codes of whole columns, and how members read.

use super::*;
use crate::schema::{CalendarUnit, Level};
use alluvia_types::ColumnId;
use arrow::array::{Date32Array, Float64Array, Int32Array, StringViewArray, TimestampMicrosecondArray};
use proptest::prelude::*;

const COLUMN: ColumnId = ColumnId(0);

fn dimension(range: KeyRange, sources: &[LevelSource]) -> Dimension {
    let level = |(at, source): (usize, &LevelSource)| Level { name: format!("l{at}"), source: source.clone(), bits: 1 };
    Dimension { name: "d".into(), levels: sources.iter().enumerate().map(level).collect(), range, zone: None }
}

fn calendar_dimension(units: &[CalendarUnit]) -> Dimension {
    let sources: Vec<LevelSource> = units.iter().map(|&unit| LevelSource::Calendar(COLUMN, unit)).collect();
    dimension(KeyRange::Learnt, &sources)
}

fn halved(range: KeyRange, halvings: &[u8]) -> Dimension {
    let sources: Vec<_> = halvings.iter().map(|&halvings| LevelSource::Halved { column: COLUMN, halvings }).collect();
    dimension(range, &sources)
}

#[test]
fn null_is_code_0_at_every_level_of_every_kind() {
    let times = TimestampMicrosecondArray::from(vec![None, Some(0)]).with_timezone("UTC");
    let units = calendar_dimension(&CalendarUnit::ALL);
    assert_eq!(arithmetic(&units, &times).unwrap(), vec![vec![0, 1 + (1 << 31)]; 6]);
    let numbers = Float64Array::from(vec![None, Some(-1.0), Some(f64::NAN)]);
    let parts = halved(KeyRange::Linear { low: 0.0, high: 8.0 }, &[1, 3]);
    assert_eq!(arithmetic(&parts, &numbers).unwrap(), [[0, 1, 2], [0, 1, 8]]);
    let ids = StringViewArray::from(vec![None, Some("a"), Some("an id of some length"), Some("a")]);
    let hashed = dimension(KeyRange::None, &[4, 8].map(|bits| LevelSource::Hashed { column: COLUMN, bits }));
    let codes = arithmetic(&hashed, &ids).unwrap();
    assert!(codes.iter().all(|level| level[0] == 0 && level[1] != 0 && level[1] == level[3]));
}

#[test]
fn members_read_with_their_bounds() {
    let parts = halved(KeyRange::Linear { low: 0.0, high: 1000.0 }, &[2, 4]);
    let shown = |level, code| display(&parts, level, code);
    let texts = [0, 1, 2, 3, 4].map(|code| shown(0, code).unwrap());
    assert_eq!(texts, ["NULL", "< 250", "[250, 500)", "[500, 750)", ">= 750"]);
    assert_eq!((shown(0, 5), shown(1, 16).as_deref()), (None, Some(">= 937.5")));
    let cuts = halved(KeyRange::Quantiles { cuts: vec![1.0, 5.0, 25.0] }, &[1, 2]);
    assert_eq!(display(&cuts, 0, 2).as_deref(), Some(">= 5"));
    assert_eq!(display(&cuts, 1, 2).as_deref(), Some("[1, 5)"));
    assert_eq!(display(&halved(KeyRange::Learnt, &[2]), 0, 2), None);
    let hashed = dimension(KeyRange::None, &[LevelSource::Hashed { column: COLUMN, bits: 4 }]);
    assert_eq!((display(&hashed, 0, 16).as_deref(), display(&hashed, 0, 17)), (Some("#15"), None));
    let units = calendar_dimension(&[CalendarUnit::Month, CalendarUnit::Hour]);
    assert_eq!(display(&units, 0, 1 + (1 << 31)).as_deref(), Some("1970-01"));
    assert_eq!((display(&units, 1, 0).as_deref(), display(&units, 2, 1)), (Some("NULL"), None));
    let path = dimension(KeyRange::None, &[LevelSource::Column(COLUMN)]);
    assert_eq!((display(&path, 0, 0), is_arithmetic(&path), is_arithmetic(&units)), (None, false, true));
}

#[test]
fn what_has_no_arithmetic_codes_is_a_defect_not_a_panic() {
    let path = dimension(KeyRange::None, &[LevelSource::Column(COLUMN)]);
    let numbers = Int32Array::from(vec![1]);
    assert!(arithmetic(&path, &numbers).is_err());
    assert!(arithmetic(&calendar_dimension(&[CalendarUnit::Day]), &numbers).is_err());
    assert!(arithmetic(&halved(KeyRange::Learnt, &[2]), &numbers).is_err());
}

proptest! {
    #[test]
    fn calendar_codes_keep_the_order_of_a_column(mut micros in prop::collection::vec(prop_oneof![any::<i64>(), 0i64..2_000_000_000_000_000], 1..60)) {
        micros.sort_unstable();
        let codes = arithmetic(&calendar_dimension(&CalendarUnit::ALL), &TimestampMicrosecondArray::from(micros)).unwrap();
        prop_assert!(codes.iter().all(|level| level.is_sorted() && level[0] > 0));
    }

    #[test]
    fn dates_have_the_codes_of_their_midnights(mut days in prop::collection::vec(-700_000i32..4_000_000, 1..60)) {
        days.sort_unstable();
        let units = calendar_dimension(&CalendarUnit::ALL[..4]);
        let midnights = TimestampMicrosecondArray::from_iter_values(days.iter().map(|&day| i64::from(day) * 86_400_000_000));
        let codes = arithmetic(&units, &Date32Array::from(days)).unwrap();
        prop_assert_eq!(&codes, &arithmetic(&units, &midnights).unwrap());
        prop_assert!(codes.iter().all(|level| level.is_sorted()));
    }

    #[test]
    fn any_date_has_codes(mut days in prop::collection::vec(any::<i32>(), 1..60)) {
        days.sort_unstable();
        let codes = arithmetic(&calendar_dimension(&CalendarUnit::ALL), &Date32Array::from(days)).unwrap();
        prop_assert!(codes.iter().all(|level| level.is_sorted()));
    }

    /// A value lies within the bounds of its part, and a coarse part is the top bits of the fine one.
    #[test]
    fn parts_hold_their_values(
        values in prop::collection::vec(-50.0f64..150.0, 1..2000), mut cuts in prop::collection::vec(-50.0f64..150.0, 31),
        linear in any::<bool>(),
    ) {
        cuts.sort_by(f64::total_cmp);
        let range = if linear { KeyRange::Linear { low: 0.0, high: 100.0 } } else { KeyRange::Quantiles { cuts } };
        let dimension = halved(range.clone(), &[2, 5]);
        let codes = arithmetic(&dimension, &Float64Array::from(values.clone())).unwrap();
        for (row, value) in values.iter().enumerate() {
            let (coarse, fine) = (codes[0][row] - 1, codes[1][row] - 1);
            prop_assert_eq!(coarse, fine >> 3);
            let (low, high) = part_bounds(&range, 5, fine).unwrap();
            prop_assert!(low.is_none_or(|low| low <= value + 1e-9) && high.is_none_or(|high| *value < high + 1e-9));
        }
    }

    #[test]
    fn hashed_levels_nest(ids in prop::collection::vec(any::<i32>(), 1..2000)) {
        let hashed = dimension(KeyRange::None, &[4, 31].map(|bits| LevelSource::Hashed { column: COLUMN, bits }));
        let codes = arithmetic(&hashed, &Int32Array::from(ids)).unwrap();
        prop_assert!(codes[0].iter().zip(&codes[1]).all(|(coarse, fine)| coarse - 1 == (fine - 1) >> 27));
    }
}
