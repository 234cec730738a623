//! The merge policy: the choice of what to merge, by sizes alone.
//!
//! A table's merged rows lie in *partitions* (disjoint key ranges, powers of two, so boxes of the curve) and in a
//! *buffer*: merged segments over the whole key space that are still too few rows to be worth spreading. Sorted
//! segments go to the buffer while `buffer + sorted` is small against the number of partitions, and otherwise through
//! it into the partitions. Within either, runs are merged by *tiers*: a run is taken along when it is at most twice
//! what is already being merged, so that a row is rewritten O(log n) times (O'Neil et al. 1996; the size-tiered rule of
//! Bigtable's minor compactions), and no merge is larger than a partition (plus what is new in it).

/// Rows per partition below which spreading is not worth a file each.
const SPREAD_ROWS_MIN: u64 = 128 << 10;

/// What one merge of a table does with its new rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination {
    /// One run in the buffer, taking along this many of its smallest runs.
    Buffer {
        /// Runs taken along, smallest first.
        runs: usize,
    },
    /// Everything in buffer and sorted segments goes to the partitions.
    Partitions,
}

/// Where new rows go. `buffer` holds run sizes in ascending order.
pub(crate) fn destination(sorted: u64, buffer: &[u64], partitions: usize, partition_rows_max: u64) -> Destination {
    debug_assert!(buffer.is_sorted());
    let waiting: u64 = sorted + buffer.iter().sum::<u64>();
    let enough = (SPREAD_ROWS_MIN * partitions as u64).max(partition_rows_max / 4);
    if waiting >= enough {
        Destination::Partitions
    } else {
        Destination::Buffer { runs: tier(sorted, buffer, u64::MAX) }
    }
}

/// How many of `runs` (ascending sizes) to take along with `new` rows: each at most twice what is gathered so far, and
/// none of `sealed` rows or more.
pub(crate) fn tier(new: u64, runs: &[u64], sealed: u64) -> usize {
    let mut gathered = new;
    let mut taken = 0;
    for &rows in runs {
        if rows > gathered.saturating_mul(2) || rows >= sealed {
            break;
        }
        gathered += rows;
        taken += 1;
    }
    taken
}

/// Cuts the key range `low..=high` in halves until none holds more than `rows_max` rows or one key is left.
/// `count` gives the rows in a range.
pub(crate) fn split(low: u128, high: u128, rows_max: u64, count: &dyn Fn(u128, u128) -> u64) -> Vec<(u128, u128)> {
    debug_assert!(low <= high);
    if low == high || count(low, high) <= rows_max {
        return vec![(low, high)];
    }
    let middle = low + (high - low) / 2;
    let mut ranges = split(low, middle, rows_max, count);
    ranges.extend(split(middle + 1, high, rows_max, count));
    ranges
}

/// Neighbours of [`split`]'s put together again where they hold no more than `rows_max` rows: primary keys fill small parts of
/// their range, and the halves around these are empty. Halves of a curve stay, since they are boxes.
pub(crate) fn joined(ranges: Vec<(u128, u128)>, rows_max: u64, count: &dyn Fn(u128, u128) -> u64) -> Vec<(u128, u128)> {
    let mut joined: Vec<(u128, u128)> = Vec::new();
    let mut held = 0;
    for (low, high) in ranges {
        let rows = count(low, high);
        match joined.last_mut() {
            Some((_, last)) if held + rows <= rows_max => {
                *last = high;
                held += rows;
            }
            _ => {
                joined.push((low, high));
                held = rows;
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_news_goes_to_the_buffer_and_large_news_to_the_partitions() {
        assert_eq!(destination(1_000, &[], 25, 4 << 20), Destination::Buffer { runs: 0 });
        assert_eq!(destination(1_000, &[900, 2_500, 100_000], 25, 4 << 20), Destination::Buffer { runs: 2 });
        assert_eq!(destination(20 << 20, &[], 1, 4 << 20), Destination::Partitions);
        assert_eq!(destination(1_000, &[4 << 20], 8, 4 << 20), Destination::Partitions);
    }

    #[test]
    fn a_row_is_rewritten_a_logarithmic_number_of_times() {
        let (mut runs, mut written): (Vec<u64>, u64) = (Vec::new(), 0);
        let (news, rounds) = (1_000u64, 4_096u64);
        for _ in 0..rounds {
            let taken = tier(news, &runs, u64::MAX);
            let merged = news + runs.drain(..taken).sum::<u64>();
            written += merged;
            runs.push(merged);
            runs.sort();
        }
        let rewrites = written / (news * rounds);
        assert!(rewrites <= 16, "each row was written {rewrites} times");
        assert!(runs.len() <= 14, "{} runs are left", runs.len());
    }

    #[test]
    fn splitting_halves_until_small_or_one_key() {
        let rows = |low: u128, high: u128| if low == 0 { 10 + (high - low) as u64 } else { (high - low + 1) as u64 };
        let ranges = split(0, 63, 16, &rows);
        assert_eq!(ranges.first(), Some(&(0, 3)));
        assert_eq!(ranges.last(), Some(&(48, 63)));
        assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        assert_eq!(split(0, 1, 1, &|_, _| 100), [(0, 0), (1, 1)]);
    }

    #[test]
    fn keys_that_are_dense_somewhere_make_few_ranges() {
        // A hundred keys from the middle of 2^64 on.
        let first = 1u128 << 63;
        let rows = |low: u128, high: u128| {
            let (low, high) = (low.max(first), high.min(first + 99));
            if low > high { 0 } else { (high - low + 1) as u64 }
        };
        let most = u128::from(u64::MAX);
        let ranges = split(0, most, 30, &rows);
        assert!(ranges.len() > 50, "{} ranges", ranges.len());
        let ranges = joined(ranges, 30, &rows);
        assert!((4..=8).contains(&ranges.len()), "{ranges:?}");
        assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), (0, most));
        assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        assert!(ranges.iter().all(|&(low, high)| rows(low, high) <= 30));
    }
}
