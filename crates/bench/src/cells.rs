//! Answers of any shape, as rows of cells, and when two are the same: texts exactly, numbers to one part in a million, since
//! engines type averages differently. Rows that an ORDER BY leaves tied may differ in order, so both sides are sorted.

use crate::Anything;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use serde_json::Value;

#[derive(Debug, PartialEq, PartialOrd)]
enum Cell {
    Null,
    Number(f64),
    Text(String),
}

/// Whether an answer of ours is that of a peer, whose rows are lists of numbers, texts and nulls.
pub fn equal(ours: &[RecordBatch], theirs: &Value) -> Anything<bool> {
    Ok(same(cells(ours)?, cells_of_rows(theirs)?))
}

/// Whether two answers are the same, whose rows are lists of numbers, texts and nulls.
pub fn equal_rows(a: &Value, b: &Value) -> Anything<bool> {
    Ok(same(cells_of_rows(a)?, cells_of_rows(b)?))
}

fn cells_of_rows(rows: &Value) -> Anything<Vec<Vec<Cell>>> {
    let rows = rows.as_array().ok_or("an answer's rows are missing")?;
    Ok(rows.iter().map(|row| row.as_array().into_iter().flatten().map(Cell::of_json).collect()).collect())
}

/// Whether two answers in Arrow are the same.
pub fn equal_batches(a: &[RecordBatch], b: &[RecordBatch]) -> Anything<bool> {
    Ok(same(cells(a)?, cells(b)?))
}

fn cells(batches: &[RecordBatch]) -> Anything<Vec<Vec<Cell>>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| Cell::of_column(column.as_ref(), row));
            rows.push(cells.collect::<Anything<Vec<Cell>>>()?);
        }
    }
    Ok(rows)
}

fn same(mut left: Vec<Vec<Cell>>, mut right: Vec<Vec<Cell>>) -> bool {
    let order = |a: &Vec<Cell>, b: &Vec<Cell>| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
    left.sort_by(order);
    right.sort_by(order);
    left.len() == right.len()
        && left.iter().zip(&right).all(|(l, r)| l.len() == r.len() && l.iter().zip(r).all(|(l, r)| l.near(r)))
}

impl Cell {
    fn of_json(value: &Value) -> Cell {
        match value {
            Value::String(text) => Cell::of_text(text.clone()),
            Value::Number(number) => Cell::Number(number.as_f64().unwrap_or(f64::NAN)),
            _ => Cell::Null,
        }
    }

    fn of_column(column: &dyn Array, row: usize) -> Anything<Cell> {
        if column.is_null(row) {
            return Ok(Cell::Null);
        }
        if column.data_type().is_numeric() {
            let value = cast(&column.slice(row, 1), &DataType::Float64)?;
            return Ok(Cell::Number(value.as_primitive::<Float64Type>().value(0)));
        }
        Ok(Cell::of_text(array_value_to_string(column, row)?))
    }

    fn of_text(text: String) -> Cell {
        text.parse().map_or_else(|_| Cell::Text(text), Cell::Number)
    }

    fn near(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Number(a), Cell::Number(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0),
            _ => self == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn rows_are_the_same_in_any_order_and_numbers_nearly() {
        let names = Arc::new(StringArray::from(vec![Some("b"), Some("a"), None])) as _;
        let numbers = Arc::new(Int64Array::from(vec![Some(2), Some(5_000_000), None])) as _;
        let batch = [RecordBatch::try_from_iter_with_nullable([("name", names, true), ("n", numbers, true)]).unwrap()];
        assert!(equal(&batch, &json!([["a", 5_000_000.1], [null, null], ["b", "2"]])).unwrap());
        for other in [
            json!([["a", 5_000_100], [null, null], ["b", 2]]),
            json!([["a", 5_000_000], ["", null], ["b", 2]]),
            json!([["a", 5_000_000], ["b", 2]]),
            json!([["a"], [null], ["b"]]),
        ] {
            assert!(!equal(&batch, &other).unwrap(), "{other}");
        }
        assert!(equal_batches(&batch, &batch).unwrap());
    }
}
