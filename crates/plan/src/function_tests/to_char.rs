//! `to_char` in statements.

use crate::testing::{batches, context, runtime};
use arrow::array::AsArray;

/// The texts of the first column.
fn shown(sql: &str) -> Vec<Option<String>> {
    let found = runtime().block_on(batches(&context(), sql)).unwrap_or_else(|error| panic!("{error}"));
    let columns = found.iter().map(|batch| batch.column(0).as_string::<i32>().clone());
    columns.flat_map(|column| column.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()).collect()
}

#[test]
fn every_row_has_its_template() {
    let text = |text: &str| Some(text.to_owned());
    let sql = "SELECT to_char(n, f) AS shown FROM (VALUES (1, 1, '9'), (2, 12, '099'), (3, NULL, '9'), (4, 5, NULL), (5, 7, '9'), (6, 7, '')) q (i, n, f) ORDER BY i";
    assert_eq!(shown(sql), [text(" 1"), text(" 012"), None, None, text(" 7"), text("")]);
    let sql = "SELECT to_char(n, f) AS shown FROM (VALUES (1, DATE '2026-11-26', 'DD'), (2, DATE '2026-11-27', 'FMMonth'), (3, DATE '2026-11-27', '')) q (i, n, f) ORDER BY i";
    assert_eq!(shown(sql), [text("26"), text("November"), None]);
}

#[test]
fn numbers_that_are_written_out_are_no_floats() {
    let text = |text: &str| vec![Some(text.to_owned())];
    assert_eq!(shown("SELECT to_char(0.125, '9.99') AS shown"), text("  .13"));
    assert_eq!(shown("SELECT to_char(CAST(0.125 AS DOUBLE PRECISION), '9.99') AS shown"), text("  .12"));
    assert_eq!(shown("SELECT to_char(avg(n), '9.9') AS shown FROM (VALUES (0), (0), (0), (1)) q (n)"), text("  .3"));
}
