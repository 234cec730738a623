//! The status of a statement, told by the server beside the rows: at first in the schema's metadata, then, complete, with the last message.

use crate::failure::not_understood;
use alluvia_types::Result;
use arrow::datatypes::Schema;
use serde_json::Value;
use std::time::Duration;

/// What is known of a statement by now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementStatus {
    /// As PostgreSQL's command tag: `SELECT`, `INSERT 0 5`, `CREATE TABLE`.
    pub tag: String,
    /// Things to know that are not rows.
    pub notices: Vec<String>,
    /// What was read; `None` of a statement that reads no table. Counts are 0 before the last row has come.
    pub used: Option<Used>,
    /// Whether nothing more will be told.
    pub is_complete: bool,
}

/// What a statement used, by the names of `alluvia.queries`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// Everything through this version is in the answer, and nothing above it.
    pub version: u64,
    /// How long ago the first batch that the answer lacks became visible.
    pub lag: Duration,
    /// The least organised stage that had to be read.
    pub stage: String,
    /// Segments that were read.
    pub segments_read: u64,
    /// Segments that could be left out.
    pub segments_skipped: u64,
    /// Blocks that were read.
    pub blocks_read: u64,
    /// Blocks that could be left out.
    pub blocks_skipped: u64,
    /// Rows of the blocks and tail runs that were read, before filters.
    pub rows_read: u64,
    /// Of these, rows of the tail and of the open transaction.
    pub tail_rows: u64,
    /// Bytes fetched from segments, compressed.
    pub bytes_read: u64,
    /// Whether something in the answer is estimated.
    pub is_estimate: bool,
}

impl StatementStatus {
    /// By a schema's metadata.
    pub(crate) fn of_schema(schema: &Schema) -> StatementStatus {
        let said = |name: &str| schema.metadata().get(name);
        let used = said("alluvia.version").and_then(|version| version.parse().ok()).map(|version| Used {
            version,
            lag: seconds(said("alluvia.lag_seconds").and_then(|lag| lag.parse().ok())),
            stage: said("alluvia.stage").cloned().unwrap_or_default(),
            ..Used::default()
        });
        let tag = said("alluvia.tag").cloned().unwrap_or_default();
        StatementStatus { tag, notices: Vec::new(), used, is_complete: false }
    }

    /// By the last word.
    pub(crate) fn of_json(bytes: &[u8]) -> Result<StatementStatus> {
        let json: Value = serde_json::from_slice(bytes).map_err(|error| not_understood(&error.to_string()))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let notices = json["notices"].as_array().into_iter().flatten().map(text).collect();
        let used = json["used"].as_object().map(|used| {
            let count = |name: &str| used.get(name).and_then(Value::as_u64).unwrap_or_default();
            Used {
                version: count("version"),
                lag: seconds(used.get("lag_seconds").and_then(Value::as_f64)),
                stage: used.get("stage").map(text).unwrap_or_default(),
                segments_read: count("segments_read"),
                segments_skipped: count("segments_skipped"),
                blocks_read: count("blocks_read"),
                blocks_skipped: count("blocks_skipped"),
                rows_read: count("rows_read"),
                tail_rows: count("tail_rows"),
                bytes_read: count("bytes_read"),
                is_estimate: used.get("sample").is_some_and(|sample| !sample.is_null()),
            }
        });
        Ok(StatementStatus { tag: text(&json["tag"]), notices, used, is_complete: true })
    }
}

/// A time of the server's.
pub(crate) fn seconds(count: Option<f64>) -> Duration {
    count.and_then(|count| Duration::try_from_secs_f64(count).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_first_and_last() {
        let metadata = [("alluvia.tag", "SELECT"), ("alluvia.version", "7"), ("alluvia.lag_seconds", "0.25")];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let first = StatementStatus::of_schema(&Schema::empty().with_metadata(metadata.into()));
        let used = first.used.unwrap();
        assert_eq!((first.tag.as_str(), used.version, used.lag), ("SELECT", 7, Duration::from_millis(250)));
        assert!(StatementStatus::of_schema(&Schema::empty()).used.is_none());
        let last = br#"{"tag": "INSERT 0 2", "notices": ["one"], "used": {"version": 8, "lag_seconds": 0.0, "stage": "sorted", "rows_read": 5}}"#;
        let last = StatementStatus::of_json(last).unwrap();
        let used = last.used.unwrap();
        assert_eq!((last.tag.as_str(), last.notices, last.is_complete), ("INSERT 0 2", vec!["one".to_owned()], true));
        assert_eq!((used.version, used.stage.as_str(), used.rows_read, used.bytes_read), (8, "sorted", 5, 0));
        assert!(!used.is_estimate);
        let sampled = br#"{"tag": "SELECT", "notices": [], "used": {"version": 8, "sample": {"look": 1}}}"#;
        assert!(StatementStatus::of_json(sampled).unwrap().used.unwrap().is_estimate);
        assert!(StatementStatus::of_json(br#"{"tag": "SET", "notices": [], "used": null}"#).unwrap().used.is_none());
        assert!(StatementStatus::of_json(b"").is_err());
    }
}
