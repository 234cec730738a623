//! FOR: numbers and rows, one a turn.

use super::{Held, Run};
use crate::program::{Count, Expression};
use alluvia_space::DataType;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::record_batch::RecordBatch;
use datafusion_common::ScalarValue;

/// Where a loop stands.
#[derive(Debug)]
pub(super) struct Turns {
    has_begun: bool,
    over: Over,
}

#[derive(Debug)]
enum Over {
    /// In more bits than the counter has, so that the last number is passed.
    Numbers {
        next: i64,
        last: i64,
        step: i64,
    },
    Rows {
        batches: std::vec::IntoIter<RecordBatch>,
        current: Option<RecordBatch>,
        row: usize,
    },
}

impl Turns {
    pub fn over(batches: Vec<RecordBatch>) -> Turns {
        Turns { has_begun: false, over: Over::Rows { batches: batches.into_iter(), current: None, row: 0 } }
    }

    /// Whether it has had a turn.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }
}

impl Run<'_> {
    pub(super) async fn begin_count(&mut self, count: &Count) -> Result<()> {
        let from = self.bound(&count.from, count.cast, "lower bound").await?;
        let to = self.bound(&count.to, count.cast, "upper bound").await?;
        let by = match &count.by {
            None => 1,
            Some(by) => self.bound(by, count.cast, "BY value").await?,
        };
        if by <= 0 {
            let message = "BY value of FOR loop must be greater than zero";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_hint("FOR i IN REVERSE 10..1 counts down"));
        }
        let step = if count.reverse { -by } else { by };
        self.loops[count.id] = Some(Turns { has_begun: false, over: Over::Numbers { next: from, last: to, step } });
        Ok(())
    }

    async fn bound(&self, expression: &Expression, cast: usize, name: &str) -> Result<i64> {
        let value = self.evaluate(expression).await?;
        match self.fitted(value, DataType::Int32.into(), cast, name).await? {
            ScalarValue::Int32(Some(number)) => Ok(i64::from(number)),
            _ => Err(Error::new(ErrorKind::NullNotAllowed, format!("{name} of FOR loop cannot be null"))),
        }
    }

    /// Puts the next number into the counter. Whether there was one.
    pub(super) fn next_number(&mut self, id: usize, slot: usize) -> bool {
        let Some(Turns { has_begun, over: Over::Numbers { next, last, step } }) = &mut self.loops[id] else {
            return false;
        };
        let is_over = if *step > 0 { *next > *last } else { *next < *last };
        let Some(number) = i32::try_from(*next).ok().filter(|_| !is_over) else { return false };
        *has_begun = true;
        *next += *step;
        self.slots[slot] = Held::Scalar(ScalarValue::Int32(Some(number)));
        true
    }

    /// The batch that has the next row, and its place in it.
    pub(super) fn next_row(&mut self, id: usize) -> Option<(RecordBatch, usize)> {
        let Some(Turns { has_begun, over: Over::Rows { batches, current, row } }) = &mut self.loops[id] else {
            return None;
        };
        loop {
            if let Some(batch) = current.as_ref().filter(|batch| *row < batch.num_rows()) {
                *has_begun = true;
                *row += 1;
                return Some((batch.clone(), *row - 1));
            }
            *current = Some(batches.next()?);
            *row = 0;
        }
    }
}
