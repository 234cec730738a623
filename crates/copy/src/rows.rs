//! Rows on their way from a file into a table: good ones as batches, bad ones with their place and reason.
//!
//! Invariants:
//! - A part holds rows of one stretch of one file, in the file's order; every row of it is either in `rows` or in `rejects`.
//! - A rejected row leaves nothing behind in `rows`.

use crate::assign::{storage_batch, storage_batch_without};
use crate::infer::stays_as_written;
use crate::lacking::Lacking;
use crate::operations::{Operations, type_name};
use alluvia_space::{RowOp, TableDef};
use alluvia_syntax::copy::options::OnError;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::builders::{ColumnBuilder, TextAs, is_level_text};
use alluvia_values::parse::{Bad, shown};
use alluvia_values::time_zone::Zone;
use arrow::array::RecordBatch;
use std::fmt;
use std::sync::Arc;

/// What is to be done about a value that would be changed.
const CHANGED_HINT: &str = "the type, which was taken from the first rows and files, is too narrow: create the table with a wider one, such \
                            as TEXT, or load the other rows with ON_ERROR skip";

/// Where in a file a row is, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowLocation {
    /// Text files: the line where the record begins.
    Line(u64),
    /// Parquet and Arrow files.
    Row(u64),
}

impl fmt::Display for RowLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowLocation::Line(line) => write!(f, "line {line}"),
            RowLocation::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// A row that was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reject {
    /// The line or row number in the file, from 1.
    pub place: RowLocation,
    /// The table's column whose value is bad; `None` when the record as a whole is.
    pub column: Option<String>,
    /// The kind of the error by which a whole load is refused because of the row.
    pub kind: ErrorKind,
    /// What is wrong, without the place.
    pub reason: String,
    /// What is to be done about it, where that is more than to correct the file.
    pub hint: Option<String>,
    /// The lines of a CSV record that is malformed: of more than one, most are others that a quote took in. Else 1.
    pub lines: u64,
    /// The record as it is in the file; JSON for a row of a Parquet or Arrow file.
    pub raw: Vec<u8>,
}

impl Reject {
    /// The error that refuses a whole load because of this row; what is to be done depends on how the rows came.
    pub fn refuse(&self, file: &str) -> Error {
        let column = self.column.as_ref().map(|column| format!(", column {column}")).unwrap_or_default();
        let error = Error::new(self.kind, format!("{file}, {}{column}: {}", self.place, self.reason));
        match &self.hint {
            Some(hint) => error.with_hint(hint.as_str()),
            None => error,
        }
    }
}

/// What is wrong with a record, in other ways than that a value does not fit its column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The table's column that it is about; `None` for the record as a whole.
    pub column: Option<usize>,
    /// The kind of the error in the record.
    pub kind: ErrorKind,
    /// What is wrong, without the place in the file.
    pub reason: String,
    /// What is to be done; `None` where that is no more than to correct the file.
    pub hint: Option<String>,
    /// See [`Reject::lines`].
    pub lines: u64,
}

impl From<String> for Wrong {
    /// Of the record as a whole, with nothing to say but the reason.
    fn from(reason: String) -> Wrong {
        Wrong { column: None, kind: ErrorKind::InvalidValue, reason, hint: None, lines: 1 }
    }
}

/// Rows of one stretch of a file.
#[derive(Debug)]
pub struct Part {
    /// In the table's storage schema, but for what they lack.
    pub rows: RecordBatch,
    /// What the table's definition is to give them.
    pub lacking: Lacking,
    /// The rows that were not loaded, in the file's order.
    pub rejects: Vec<Reject>,
    /// Where each of `rows` is, in a table with a key; else nothing.
    pub places: Vec<RowLocation>,
}

/// Bytes that a part takes before it has rows.
const ROOM_BYTES: usize = 4 << 20;

/// Builds parts from text values, a row at a time.
pub(crate) struct TextRows {
    table: Arc<TableDef>,
    builders: Vec<ColumnBuilder>,
    on_error: OnError,
    /// Whether what would be changed is bad.
    is_exact: bool,
    /// What rows may do besides coming.
    operations: Option<Arc<Operations>>,
    /// What the current row does, if it says so and that is an operation.
    op_now: Option<RowOp>,
    /// The first column of the current row that is NULL, and must not be if the row comes whole.
    null_now: Option<usize>,
    /// Rows begun, good or bad.
    rows: usize,
    /// For each column, how many rows have a value in it.
    filled: Vec<usize>,
    /// Columns that have a value in the current row.
    filled_now: usize,
    /// Columns to which the definition gives something.
    fills: Vec<bool>,
    lacking: Lacking,
    bad_now: Option<(usize, Bad, String)>,
    bad_rows: Vec<usize>,
    rejects: Vec<Reject>,
    places: Vec<RowLocation>,
}

impl TextRows {
    /// Empty; for about `rows` rows, or fewer where these are wide.
    pub fn new(table: &Arc<TableDef>, on_error: OnError, rows: usize) -> TextRows {
        let rows = rows.min(ROOM_BYTES / (size_of::<u128>() * table.columns.len().max(1)));
        let builder = |column: &alluvia_space::Column| {
            let dictionary = is_level_text(table, column.id, column.data_type);
            let text = if dictionary { TextAs::Dictionary } else { TextAs::Plain };
            ColumnBuilder::new(column.declared_type(), text, rows)
        };
        TextRows {
            builders: table.columns.iter().map(builder).collect(),
            filled: vec![0; table.columns.len()],
            fills: table.columns.iter().map(|column| table.fills(column.id)).collect(),
            lacking: Lacking::default(),
            table: table.clone(),
            on_error,
            is_exact: false,
            operations: None,
            op_now: None,
            null_now: None,
            rows: 0,
            filled_now: 0,
            bad_now: None,
            bad_rows: Vec::new(),
            rejects: Vec::new(),
            places: Vec::new(),
        }
    }

    /// With values that must be written as inference reads them, or need not.
    pub fn exactly(self, is_exact: bool) -> TextRows {
        TextRows { is_exact, ..self }
    }

    /// In a session of a time zone.
    pub fn in_zone(mut self, zone: &Zone) -> TextRows {
        self.builders = self.builders.into_iter().map(|builder| builder.in_zone(zone)).collect();
        self
    }

    /// Of rows that may do this.
    pub fn doing(self, operations: Option<Arc<Operations>>) -> TextRows {
        TextRows { operations, ..self }
    }

    /// Whether the current row has a value, or NULL, in this column of the table.
    pub fn is_set(&self, column: usize) -> bool {
        self.filled[column] > self.rows
    }

    /// Sets a column of the current row, at most once a row; what does not fit makes the row bad.
    #[inline]
    pub fn set(&mut self, column: usize, value: Option<&[u8]>) {
        let result = match value {
            Some(text) => self.builders[column].append(text),
            None if self.table.columns[column].nullable => {
                self.builders[column].append_null();
                Ok(())
            }
            None => Err(Bad::Null),
        };
        self.filled[column] = self.rows + 1;
        self.filled_now += 1;
        if let Some(operations) = &self.operations {
            if column == operations.op_at() {
                self.op_now = operations.op(value);
                if self.op_now.is_none() {
                    // What was appended goes with the row.
                    self.bad_now.get_or_insert_with(|| (column, Bad::Form, value.map(shown).unwrap_or_default()));
                }
            } else if value.is_none() && operations.is_required(column) {
                self.null_now.get_or_insert(column);
            }
        }
        if let Err(bad) = result {
            self.builders[column].append_null();
            self.bad_now.get_or_insert_with(|| (column, bad, value.map(shown).unwrap_or_default()));
        } else if self.is_exact
            && let Some(text) = value
            && !stays_as_written(self.table.columns[column].data_type, text)
        {
            // What was appended goes with the row.
            self.bad_now.get_or_insert_with(|| (column, Bad::Changed, shown(text)));
        }
    }

    /// Ends the current row; columns that were not set are lacking, or become NULL. Whether reading should go on.
    #[inline]
    pub(crate) fn end_row(&mut self, place: RowLocation, raw: &[u8]) -> bool {
        let comes = self.end_operation();
        if self.filled_now < self.builders.len() {
            for column in 0..self.builders.len() {
                if self.is_set(column) {
                    continue;
                }
                match self.fills[column] && comes {
                    true => {
                        self.builders[column].append_null();
                        self.filled[column] = self.rows + 1;
                        self.lacking.add(column, self.rows);
                    }
                    false => self.set(column, None),
                }
            }
        }
        let bad = self.bad_now.take();
        self.next_row();
        (self.op_now, self.null_now) = (None, None);
        match bad {
            None => {
                if self.operations.is_some() {
                    self.places.push(place);
                }
                true
            }
            Some((column, bad, shown)) => {
                let column = &self.table.columns[column];
                let reason = bad.describe(&shown, &type_name(column));
                self.reject(Reject {
                    place,
                    column: Some(column.name.clone()),
                    kind: bad.kind(),
                    reason,
                    hint: (bad == Bad::Changed).then(|| CHANGED_HINT.to_owned()),
                    lines: 1,
                    raw: raw.to_vec(),
                })
            }
        }
    }

    /// Says what the current row gives, if it is a patch, and what it needs. Whether it comes whole, with what the
    /// definition gives to it.
    fn end_operation(&mut self) -> bool {
        let Some(operations) = self.operations.clone() else { return true };
        let written = self.op_now.take();
        let op = written.or_else(|| operations.op(None)).unwrap_or_default();
        let lacks = |column: usize| operations.is_required(column) && !self.fills[column] && !self.is_set(column);
        let missing = match op {
            RowOp::Insert | RowOp::Upsert => {
                self.null_now.or_else(|| (0..operations.op_at()).find(|column| lacks(*column)))
            }
            RowOp::Patch => self.null_now,
            RowOp::Delete => None,
        };
        if let Some(column) = missing {
            self.bad_now.get_or_insert_with(|| (column, Bad::Null, String::new()));
        }
        if op == RowOp::Patch {
            let given = operations.given(|column| self.is_set(column));
            self.set(operations.given_at(), Some(given.as_bytes()));
        }
        matches!(op, RowOp::Insert | RowOp::Upsert)
    }

    /// Ends the current row as bad as a whole, whatever was set. Whether reading should go on.
    pub(crate) fn end_malformed(&mut self, place: RowLocation, wrong: impl Into<Wrong>, raw: &[u8]) -> bool {
        let wrong: Wrong = wrong.into();
        for column in 0..self.builders.len() {
            if !self.is_set(column) {
                self.builders[column].append_null();
                self.filled[column] = self.rows + 1;
            }
        }
        self.bad_now = None;
        (self.op_now, self.null_now) = (None, None);
        self.next_row();
        let column = wrong.column.map(|column| self.table.columns[column].name.clone());
        self.reject(Reject {
            place,
            column,
            kind: wrong.kind,
            reason: wrong.reason,
            hint: wrong.hint,
            lines: wrong.lines,
            raw: raw.to_vec(),
        })
    }

    fn next_row(&mut self) {
        self.rows += 1;
        self.filled_now = 0;
    }

    fn reject(&mut self, reject: Reject) -> bool {
        self.bad_rows.push(self.rows - 1);
        self.rejects.push(reject);
        self.on_error != OnError::Refuse
    }

    /// The rows so far; empty again afterwards.
    pub fn finish(&mut self) -> Result<Part> {
        assert_eq!(self.filled_now, 0, "the last row was ended");
        let rows = std::mem::take(&mut self.rows);
        let rejects = std::mem::take(&mut self.rejects);
        let bad_rows = std::mem::take(&mut self.bad_rows);
        let places = std::mem::take(&mut self.places);
        self.filled.fill(0);
        let arrays = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
        let lacking = std::mem::take(&mut self.lacking);
        if bad_rows.is_empty() {
            let rows = storage_batch(&self.table, arrays, rows, &lacking)?;
            return Ok(Part { rows, lacking, rejects, places });
        }
        let rows = storage_batch_without(&self.table, arrays, rows, bad_rows.iter().copied(), &lacking)?;
        Ok(Part { rows, lacking: lacking.without(&bad_rows), rejects, places })
    }
}
