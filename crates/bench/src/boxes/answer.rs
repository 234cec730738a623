//! Answers of any engine in one form, and when two are the same: groups and counts exactly, sums and averages to one part in
//! 10^9, since engines add doubles in different orders.

use crate::Anything;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use serde_json::Value;

/// Largest difference of sums and averages, as a share of the larger.
const TOLERANCE: f64 = 1e-9;

/// One group's aggregates; a question without GROUP BY has one group, named by the empty text.
#[derive(Clone, PartialEq, Debug)]
struct Group {
    name: String,
    count: u64,
    sum: f64,
    average: f64,
}

/// Groups in the order of their names.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer(Vec<Group>);

impl Answer {
    /// Of ours. Columns: the group, if any; count; sum; average.
    pub fn of_batches(batches: &[RecordBatch], grouped: bool) -> Anything<Answer> {
        let first = usize::from(grouped);
        let mut groups = Vec::new();
        for batch in batches {
            if batch.num_columns() != first + 3 {
                return Err(format!("an answer has {} columns", batch.num_columns()).into());
            }
            let numbers = |column: usize| cast(batch.column(first + column), &DataType::Float64);
            let (sums, averages) = (numbers(1)?, numbers(2)?);
            for row in 0..batch.num_rows() {
                let name = if grouped { array_value_to_string(batch.column(0), row)? } else { String::new() };
                let count = array_value_to_string(batch.column(first), row)?.parse()?;
                groups.push(Group {
                    name,
                    count,
                    sum: number(sums.as_ref(), row),
                    average: number(averages.as_ref(), row),
                });
            }
        }
        Ok(Answer::sorted(groups))
    }

    /// Of a peer: rows as lists. 64-bit numbers may come as text.
    pub fn of_json(rows: &Value, grouped: bool) -> Anything<Answer> {
        let first = usize::from(grouped);
        let mut groups = Vec::new();
        for row in rows.as_array().ok_or("a peer's answer has no rows")? {
            let number = |column: usize| match &row[first + column] {
                Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
                Value::String(text) => text.parse().unwrap_or(f64::NAN),
                _ => f64::NAN,
            };
            let name =
                if grouped { row[0].as_str().ok_or("a peer's group has no name")?.to_owned() } else { String::new() };
            // Counts are far below 2^53.
            groups.push(Group { name, count: number(0) as u64, sum: number(1), average: number(2) });
        }
        Ok(Answer::sorted(groups))
    }

    fn sorted(mut groups: Vec<Group>) -> Answer {
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        Answer(groups)
    }

    /// Rows that match.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|group| group.count).sum()
    }

    /// How `other` differs from this one, if it does.
    pub fn difference(&self, other: &Answer) -> Option<String> {
        if self.0.len() != other.0.len() {
            return Some(format!("{} groups instead of {}", other.0.len(), self.0.len()));
        }
        let pair = self.0.iter().zip(&other.0).find(|(right, got)| {
            right.name != got.name
                || right.count != got.count
                || !near(right.sum, got.sum)
                || !near(right.average, got.average)
        });
        pair.map(|(right, got)| format!("{got:?} instead of {right:?}"))
    }
}

fn number(column: &dyn Array, row: usize) -> f64 {
    if column.is_null(row) { f64::NAN } else { column.as_primitive::<Float64Type>().value(row) }
}

/// NULL (here NaN) is near NULL alone.
fn near(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_exact_and_sums_nearly_so() {
        let right = Answer::of_json(&json!([["b", 2, 1.5, 0.5], ["a", "3", 2.0, null]]), true).unwrap();
        let same = Answer::of_json(&json!([["a", 3, 2.000_000_000_1, null], ["b", 2, 1.5, 0.5]]), true).unwrap();
        assert_eq!(right.difference(&same), None);
        assert_eq!(right.count(), 5);
        for other in [
            json!([["a", 3, 2.0, null], ["b", 1, 1.5, 0.5]]),
            json!([["a", 3, 2.0, 1.0], ["b", 2, 1.5, 0.5]]),
            json!([]),
        ] {
            assert!(right.difference(&Answer::of_json(&other, true).unwrap()).is_some());
        }
    }
}
