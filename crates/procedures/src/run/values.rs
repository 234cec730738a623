//! Values of variables, and of expressions.

use super::{Held, Row, Run};
use crate::assign::{Fitted, bytes_of, fit, fit_cast, null_of, value_at};
use crate::own::Own;
use crate::program::{Expression, Query, SlotKind, Source, Target};
use alluvia_space::{ColumnType, DataType};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::record_batch::RecordBatch;
use datafusion_common::ScalarValue;

/// Whether values of a type are what expressions that are evaluated here know of it. A CHAR is not compared as a text is.
fn is_known(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Text
            | DataType::Decimal { .. }
            | DataType::Numeric
    )
}

impl Row {
    fn place_of(&self, record: &str, field: &str) -> Result<usize> {
        self.schema.fields().iter().position(|known| known.name() == field).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedColumn, format!("record \"{record}\" has no field \"{field}\""))
        })
    }
}

impl Run<'_> {
    fn name_of(&self, slot: usize) -> &str {
        &self.program.slots[slot].name
    }

    fn row_of(&self, slot: usize) -> Result<&Row> {
        match &self.slots[slot] {
            Held::Record(Some(row)) => Ok(row),
            _ => {
                let message = format!("record \"{}\" is not assigned yet", self.name_of(slot));
                Err(Error::new(ErrorKind::ObjectState, message)
                    .with_detail("The tuple structure of a not-yet-assigned record is indeterminate."))
            }
        }
    }

    fn value_of(&self, source: &Source) -> Result<&ScalarValue> {
        match source {
            Source::Slot(slot) => match &self.slots[*slot] {
                Held::Scalar(value) => Ok(value),
                Held::Record(_) => Err(Error::internal("a record was compiled as a value")),
            },
            Source::Field(slot, field) => {
                let row = self.row_of(*slot)?;
                Ok(&row.values[row.place_of(self.name_of(*slot), field)?])
            }
        }
    }

    /// The values that a statement is run with.
    pub(super) fn values_of(&self, query: &Query) -> Result<Vec<ScalarValue>> {
        query.sources.iter().map(|source| self.value_of(source).cloned()).collect()
    }

    /// The value of a variable for an expression that is evaluated here.
    fn known_value(&self, source: &Source) -> Option<&ScalarValue> {
        let is_it = match source {
            Source::Slot(slot) => match &self.program.slots[*slot].kind {
                SlotKind::Scalar { column_type, .. } => is_known(column_type.data_type),
                // Of a text it is not known whether it is a CHAR.
                SlotKind::Any => !matches!(self.slots[*slot], Held::Scalar(ScalarValue::Utf8(_))),
                SlotKind::Record => false,
            },
            Source::Field(slot, field) => {
                let row = self.row_of(*slot).ok()?;
                let field = row.schema.field_with_name(field).ok()?;
                DataType::from_field(field).is_some_and(is_known)
            }
        };
        if is_it { self.value_of(source).ok() } else { None }
    }

    /// The value of an expression.
    pub(super) async fn evaluate(&self, expression: &Expression) -> Result<ScalarValue> {
        if let Some(own) = &expression.own {
            let sources = &expression.query.sources;
            // A variable alone is itself, whatever its type.
            if let Own::Source(at) = own
                && let Some(source) = sources.get(*at)
            {
                return self.value_of(source).cloned();
            }
            let value = own.evaluate(&|at| self.known_value(sources.get(at)?))?;
            if let Some(value) = value {
                return Ok(value);
            }
        }
        let answer = self.ask(&expression.query).await?;
        let rows: usize = answer.rows.iter().map(RecordBatch::num_rows).sum();
        if let Some(batch) = answer.rows.first()
            && batch.num_columns() != 1
        {
            let message = format!("an expression has one value, and this query {} columns", batch.num_columns());
            return Err(Error::new(ErrorKind::Syntax, message));
        }
        match (rows, answer.rows.iter().find(|batch| batch.num_rows() > 0)) {
            (1, Some(batch)) => value_at(batch.column(0), 0),
            (0, _) => Ok(ScalarValue::Null),
            _ => Err(Error::new(ErrorKind::TooManyRows, "query returned more than one row")),
        }
    }

    /// Whether a condition is true: NULL is not.
    pub(super) async fn holds(&self, condition: &Expression) -> Result<bool> {
        match self.evaluate(condition).await? {
            ScalarValue::Boolean(truth) => Ok(truth == Some(true)),
            value if value.is_null() => Ok(false),
            value => Err(Error::new(
                ErrorKind::DatatypeMismatch,
                format!("a condition must be of type boolean, not {}", value.data_type()),
            )
            .with_hint("compare it with something")),
        }
    }

    /// A variable as it is when its block begins.
    pub(super) fn clear(&mut self, slot: usize) -> Result<()> {
        let held = match &self.program.slots[slot].kind {
            SlotKind::Scalar { column_type, .. } => Held::Scalar(null_of(column_type.data_type)?),
            SlotKind::Any => Held::Scalar(ScalarValue::Null),
            SlotKind::Record => Held::Record(None),
        };
        self.put_slot(slot, held)
    }

    /// Puts into a slot what may be of any size.
    pub(super) fn put_slot(&mut self, slot: usize, held: Held) -> Result<()> {
        self.count(self.slots[slot].bytes(), held.bytes())?;
        self.slots[slot] = held;
        Ok(())
    }

    /// Tells the host that what held so many bytes before holds so many now.
    fn count(&mut self, before: u64, now: u64) -> Result<()> {
        if now > before {
            self.host.hold(now - before)?;
        } else if before > now {
            self.host.free(before - now);
        }
        self.bytes = self.bytes + now - before;
        Ok(())
    }

    /// Assigns a value, cast to the type of what it is assigned to.
    pub(super) async fn assign(&mut self, target: &Target, value: ScalarValue) -> Result<()> {
        match target {
            Target::Slot(slot) => {
                let value = match &self.program.slots[*slot].kind {
                    SlotKind::Scalar { column_type, not_null, cast } => {
                        let value = self.fitted(value, *column_type, *cast, self.name_of(*slot)).await?;
                        if *not_null && value.is_null() {
                            let name = self.name_of(*slot);
                            let message =
                                format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL");
                            return Err(Error::new(ErrorKind::NullNotAllowed, message));
                        }
                        value
                    }
                    SlotKind::Any => value,
                    SlotKind::Record => return Err(Error::internal("a value was compiled to be a record's")),
                };
                self.put_slot(*slot, Held::Scalar(value))
            }
            Target::Field(slot, field) => {
                let name = format!("{}.{field}", self.name_of(*slot));
                let row = self.row_of(*slot)?;
                let place = row.place_of(self.name_of(*slot), field)?;
                let data_type = DataType::from_field(row.schema.field(place));
                let fitted = data_type.map(|data_type| fit(value, ColumnType::from(data_type), &name)).transpose()?;
                let Some(Fitted::Value(value)) = fitted else {
                    let message = format!("the value does not have the type of the field {name}");
                    return Err(
                        Error::new(ErrorKind::DatatypeMismatch, message).with_hint("cast it to the type of the column")
                    );
                };
                self.count(bytes_of(&self.row_of(*slot)?.values[place]), bytes_of(&value))?;
                if let Held::Record(Some(row)) = &mut self.slots[*slot] {
                    row.values[place] = value;
                }
                Ok(())
            }
        }
    }

    /// A value as a variable of a type holds it; `cast` is the statement that casts to the type.
    pub(super) async fn fitted(
        &self,
        value: ScalarValue,
        column_type: ColumnType,
        cast: usize,
        name: &str,
    ) -> Result<ScalarValue> {
        let value = match fit(value, column_type, name)? {
            Fitted::Value(value) => return Ok(value),
            Fitted::ByHost(value) => value,
        };
        let embedded = self.program.statements.get(cast);
        let embedded = embedded.ok_or_else(|| Error::internal("a step names a cast that is not there"))?;
        let answer = self.host.run(embedded, std::slice::from_ref(&value)).await?;
        match answer.rows.iter().find(|batch| batch.num_rows() > 0 && batch.num_columns() > 0) {
            Some(batch) => fit_cast(value_at(batch.column(0), 0)?, column_type, name),
            None => Err(Error::internal("a cast gave no value")),
        }
    }
}
