//! Running a compiled query over heaps: nested loops, each by an index.
//!
//! Invariants:
//! - What is found by an index is only looked at: every condition is evaluated on it.
//! - Rows that the reader's transaction has changed are taken from it, and not from the heap.
//! - Everything that is passed over or looked at counts, and what is found by its bytes: past a bound it is for planning, which streams.

use crate::access::Step;
use crate::expr::{Expr, Rows};
use crate::query::{FoundIn, PointQuery};
use crate::value::{Value, stored_as_it_is};
use alluvia_heap::{HeapView, KeyRange, Layout, RowRef};
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Result, Version};
use arrow::array::{ArrayRef, RecordBatch};
use datafusion_common::ScalarValue;
use std::collections::HashSet;

/// Entries of indexes and own rows that one query looks at, at most: more are for plans, which read columns.
const ROWS_MAX: usize = 1 << 14;

/// Bytes of the rows that it finds, at most: an answer is in memory as a whole.
const BYTES_MAX: usize = 16 << 20;

/// What a transaction has changed of one table.
#[derive(Debug, Default)]
pub struct OwnRows {
    /// Keys whose rows are not those of the heap.
    changed: HashSet<KeyCode>,
    /// Its own rows.
    rows: Vec<(KeyCode, Box<[u8]>)>,
}

impl OwnRows {
    /// Of keys that are gone or have other rows, and the rows that are there instead.
    ///
    /// # Errors
    /// Those of [`KeyCoder::codes`]; `Internal` where rows are not of the definition.
    pub fn new(layout: &Layout, coder: &KeyCoder, changed: HashSet<KeyCode>, rows: &[RecordBatch]) -> Result<OwnRows> {
        let mut own = OwnRows { changed, rows: Vec::new() };
        for batch in rows {
            let codes = coder.codes(batch)?;
            let encoded = layout.encoded(batch, 0..batch.num_rows())?;
            own.changed.extend(codes.iter().copied());
            own.rows.extend(codes.into_iter().zip(encoded));
        }
        Ok(own)
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.changed.is_empty()
    }
}

/// Rows of all tables of a query together, in the order in which it names them.
pub(crate) type Tuple<'a> = Vec<Option<RowRef<'a>>>;

/// A running query.
pub(crate) struct Running<'a> {
    query: &'a PointQuery,
    defs: Vec<&'a TableDef>,
    views: &'a [HeapView<'a>],
    own: &'a [OwnRows],
    version: Version,
    parameters: &'a [ScalarValue],
    /// How many rows are enough.
    enough: usize,
    looked_at: usize,
    found: Vec<Tuple<'a>>,
    found_bytes: usize,
}

impl<'a> Running<'a> {
    /// A query with values, over heaps in the order of its tables, and what the transaction has changed of each.
    pub(crate) fn new(
        query: &'a PointQuery,
        (views, own): (&'a [HeapView<'a>], &'a [OwnRows]),
        version: Version,
        parameters: &'a [ScalarValue],
        enough: usize,
    ) -> Running<'a> {
        let defs = query.entries.iter().map(|entry| entry.def.as_ref()).collect();
        let found = Vec::new();
        Running { query, defs, views, own, version, parameters, enough, looked_at: 0, found, found_bytes: 0 }
    }

    /// The rows, and how many were looked at; `None` where the query must be planned.
    pub(crate) fn run(mut self) -> Option<(Vec<Tuple<'a>>, usize)> {
        let mut tuple: Tuple<'a> = vec![None; self.defs.len()];
        self.step(0, &mut tuple)?;
        Some((self.found, self.looked_at))
    }

    fn step(&mut self, at: usize, tuple: &mut Tuple<'a>) -> Option<()> {
        let Some(step) = self.query.steps.get(at) else {
            self.found_bytes += tuple.iter().flatten().map(RowRef::bytes).sum::<usize>();
            self.found.push(tuple.clone());
            return (self.found_bytes <= BYTES_MAX).then_some(());
        };
        let (view, own) = (self.views.get(step.table)?, self.own.get(step.table)?);
        let index = view.indexes().position(|columns| columns == step.index)?;
        let is_reverse = self.query.found_in == FoundIn::ReverseOrder;
        let ranges = self.ranges(step, view, index, tuple)?;
        // Of another index than the key's a row may come twice: under a key that it had before.
        let mut seen = (index > 0).then(HashSet::new);
        for range in ranges {
            for entry in view.in_range(index, &range, self.version, is_reverse) {
                self.count()?;
                let Some((code, row)) = entry else { continue };
                if own.changed.contains(&code) || seen.as_mut().is_some_and(|seen| !seen.insert(code)) {
                    continue;
                }
                self.look(at, step, row, tuple)?;
                if self.found.len() >= self.enough {
                    return Some(());
                }
            }
        }
        for (_, bytes) in &own.rows {
            self.count()?;
            self.look(at, step, view.heap().layout().row_of(bytes), tuple)?;
        }
        tuple[step.table] = None;
        Some(())
    }

    /// Counts what is looked at, or passed over; `None` where that is too much.
    fn count(&mut self) -> Option<()> {
        self.looked_at += 1;
        (self.looked_at <= ROWS_MAX).then_some(())
    }

    /// Goes on with a row, if all that is known of it by now holds.
    fn look(&mut self, at: usize, step: &'a Step, row: RowRef<'a>, tuple: &mut Tuple<'a>) -> Option<()> {
        tuple[step.table] = Some(row);
        let rows = Rows::Heap(&self.defs, tuple);
        for condition in &step.conditions {
            if condition.holds(self.parameters, rows)? != Some(true) {
                return Some(());
            }
        }
        self.step(at + 1, tuple)
    }

    fn ranges(&self, step: &Step, view: &HeapView<'_>, index: usize, tuple: &Tuple<'_>) -> Option<Vec<KeyRange>> {
        let rows = Rows::Heap(&self.defs, tuple);
        let columns = &self.defs.get(step.table)?.columns;
        let mut values: Vec<Vec<Value>> = vec![Vec::with_capacity(step.ways.len()); step.fixed()];
        let mut ways = 0;
        for way in &step.ways {
            let way = way.iter().map(|expr| expr.value(self.parameters, rows)).collect::<Option<Vec<_>>>()?;
            // Nothing equals NULL.
            if way.contains(&Value::Null) {
                continue;
            }
            ways += 1;
            for (value, column) in way.into_iter().zip(&mut values) {
                column.push(value);
            }
        }
        if ways == 0 {
            return Some(Vec::new());
        }
        let array = |(values, &column): (&Vec<Value>, &usize)| stored_as_it_is(columns.get(column)?, values);
        let fixed: Vec<ArrayRef> = values.iter().zip(&step.index).map(array).collect::<Option<Vec<_>>>()?;
        let next = step.index.get(step.fixed()).and_then(|&column| columns.get(column));
        let bound = |bound: &Option<(Expr, bool)>| -> Option<Bound> {
            let Some((expr, counts)) = bound else { return Some(Bound::None) };
            let value = expr.value(self.parameters, rows)?;
            if value == Value::Null {
                return Some(Bound::Nothing);
            }
            let array = stored_as_it_is(next?, &vec![value; ways])?;
            Some(Bound::At(array, *counts))
        };
        let (low, high) = match (bound(&step.low)?, bound(&step.high)?) {
            (Bound::Nothing, _) | (_, Bound::Nothing) => return Some(Vec::new()),
            (low, high) => (low.given(), high.given()),
        };
        let mut ranges = view.ranges(index, &fixed, low, high, ways).ok()?;
        if ranges.len() > 1 {
            ranges.sort_unstable();
            ranges.dedup();
        }
        Some(ranges)
    }
}

/// A bound of a column.
enum Bound {
    None,
    /// Compared with NULL nothing holds.
    Nothing,
    At(ArrayRef, bool),
}

impl Bound {
    fn given(self) -> Option<(ArrayRef, bool)> {
        match self {
            Bound::At(array, counts) => Some((array, counts)),
            Bound::None | Bound::Nothing => None,
        }
    }
}
