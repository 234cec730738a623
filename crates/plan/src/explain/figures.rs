//! The metrics of an operator that are worth a column, and how numbers are written.

use alluvia_values::thousands::{self, with_commas};
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};

/// What an operator has measured; what it has not is `None`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Rows that it gave.
    pub rows: Option<u64>,
    /// Nanoseconds that it computed, of all threads together; of a scan those in which it read and decoded.
    pub nanos: Option<u64>,
    /// Compressed bytes that it fetched.
    pub bytes: Option<u64>,
    /// Blocks that it opened.
    pub blocks: Option<u64>,
    /// Blocks that it did not need to open.
    pub skipped: Option<u64>,
}

impl Figures {
    pub(super) fn of(metrics: &MetricsSet) -> Figures {
        let named = |name: &str| metrics.sum_by_name(name).map(|value| value.as_usize() as u64);
        let computed = metrics.elapsed_compute().map(|nanos| nanos as u64);
        Figures {
            rows: metrics.output_rows().map(|rows| rows as u64),
            // A scan computes next to nothing: it reads.
            nanos: named("time_elapsed_processing").or(computed),
            bytes: named("bytes_scanned"),
            // What the index cuts it reads, but for what it estimates.
            blocks: named("blocks_read")
                .or_else(|| Some(named("cut")?.saturating_sub(named("drawn_from").unwrap_or(0)))),
            skipped: named("blocks_skipped"),
        }
    }
}

/// What is worth a line, where it happened.
pub(super) fn notes_of(metrics: &MetricsSet) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(spills) = metrics.spill_count().filter(|&spills| spills > 0) {
        let spilled = bytes(metrics.spilled_bytes().unwrap_or(0) as u64);
        notes.push(format!("spilled {spilled} in {}", counted(spills as u64, "file")));
    }
    let by_cache = metrics.sum_by_name("blocks_skipped_by_cache").map_or(0, |value| value.as_usize());
    if by_cache > 0 {
        notes.push(format!("the predicate cache knew of {} that nothing matches", counted(by_cache as u64, "block")));
    }
    if let Some(rungs) = metrics.sum_by_name("rungs_read").map(|value| value.as_usize()).filter(|&rungs| rungs > 0) {
        notes.push(format!("{} read in the place of segments", counted(rungs as u64, "rung")));
    }
    notes
}

/// A text that an operator tells under a name.
pub fn told(metrics: &MetricsSet, name: &str) -> Option<String> {
    metrics.iter().find_map(|metric| match metric.value() {
        MetricValue::Custom { name: own, value } if own == name => Some(value.to_string()),
        _ => None,
    })
}

/// So many of something whose word for many ends in an s.
pub fn counted(count: u64, what: &str) -> String {
    thousands::counted(count, what, &format!("{what}s"))
}

/// A number with commas between thousands.
pub fn grouped(number: u64) -> String {
    with_commas(&number.to_string())
}

/// A time.
pub fn millis(nanos: u64) -> String {
    let millis = nanos as f64 / 1e6;
    match millis {
        short if short < 10.0 => format!("{millis:.2} ms"),
        middle if middle < 1_000.0 => format!("{millis:.1} ms"),
        _ => format!("{:.2} s", millis / 1e3),
    }
}

/// A number of bytes.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1e3;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1e3;
        unit += 1;
    }
    if size < 9.95 { format!("{size:.1} {}", UNITS[unit]) } else { format!("{size:.0} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 7, 999, 1_000, 1_234_567].map(grouped), ["0", "7", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 4_000, 2_345_678, 99_960_000, 1_500_000_000].map(millis),
            ["0.00 ms", "0.00 ms", "2.35 ms", "100.0 ms", "1.50 s"]
        );
        assert_eq!(
            [0, 999, 1_000, 59_130, 999_700, 3_400_000].map(bytes),
            ["0 B", "999 B", "1.0 kB", "59 kB", "1.0 MB", "3.4 MB"]
        );
    }
}
