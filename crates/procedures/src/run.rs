//! The interpreter: runs a program's steps, one behind the other, on a host.
//!
//! Invariants:
//! - One future runs all steps of a call, whatever they nest: what recurs are calls of procedures, which [`CALLS_MAX`] bounds.
//! - Every call and every step backwards asks whether to stop; every call and each [`TURNS`]th of those steps gives the thread to others, also
//!   where no statement is run.
//! - The host knows how many bytes variables hold, and is told when they are free: once the call is over, however it ends.

mod loops;
mod raise;
mod values;

use crate::assign::{bytes_of, null_of, plain, value_at};
use crate::definition::Mode;
use crate::host::{Answer, CALLS_MAX, Host};
use crate::program::{Compiled, CompiledParameter, FOUND, Into, Op, Query, Rows, SlotKind, Target};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion_common::ScalarValue;
use loops::Turns;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Turns of loops between two times that the thread is given to others.
const TURNS: u32 = 256;

/// What a procedure gives out.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// One row of its OUT and INOUT parameters.
    pub row: RecordBatch,
    /// For each column, which of the arguments, in their written order, it belongs to; `None` for one that was left out.
    pub arguments: Vec<Option<usize>>,
}

/// What a slot holds.
#[derive(Debug)]
enum Held {
    Scalar(ScalarValue),
    /// `None` before it was first assigned.
    Record(Option<Row>),
}

impl Held {
    /// Bytes beside those that every slot has.
    fn bytes(&self) -> u64 {
        match self {
            Held::Scalar(value) => bytes_of(value),
            Held::Record(row) => row.iter().flat_map(|row| &row.values).map(bytes_of).sum(),
        }
    }
}

/// The row that a record holds.
#[derive(Debug)]
struct Row {
    schema: SchemaRef,
    values: Vec<ScalarValue>,
}

struct Run<'a> {
    program: &'a Compiled,
    host: &'a dyn Host,
    slots: Vec<Held>,
    loops: Vec<Option<Turns>>,
    row_count: u64,
    turns: u32,
    /// Bytes that the host knows of.
    bytes: u64,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.host.free(self.bytes);
    }
}

impl Compiled {
    /// Runs it with arguments in their written order, each with its name if one is written. OUT parameters have arguments, too, whose values
    /// do not matter. `None` if it has no OUT and INOUT parameters.
    pub async fn call(&self, host: &dyn Host, arguments: &[(Option<String>, ScalarValue)]) -> Result<Option<Outputs>> {
        if host.calls_around() >= CALLS_MAX {
            let message = format!("stack depth limit exceeded: procedures call one another more than {CALLS_MAX} deep");
            return Err(
                Error::new(ErrorKind::TooDeep, message).with_hint("does a procedure call itself without an end?")
            );
        }
        // Calls without a loop may be many, too.
        host.check_stop()?;
        give_way().await;
        let mut run = Run {
            program: self,
            host,
            slots: Vec::with_capacity(self.slots.len()),
            loops: (0..self.loops).map(|_| None).collect(),
            row_count: 0,
            turns: 0,
            bytes: 0,
        };
        for slot in &self.slots {
            run.slots.push(match &slot.kind {
                SlotKind::Scalar { column_type, .. } => Held::Scalar(null_of(column_type.data_type)?),
                SlotKind::Any => Held::Scalar(ScalarValue::Null),
                SlotKind::Record => Held::Record(None),
            });
        }
        run.set_found(false);
        let given = self.matched(arguments)?;
        for (compiled, argument) in self.parameters.iter().zip(&given) {
            let CompiledParameter { parameter, slot, default } = compiled;
            let value = match (parameter.mode, argument, default) {
                (Mode::Out, ..) => continue,
                (_, Some(argument), _) => arguments[*argument].1.clone(),
                (_, None, Some(default)) => run.evaluate(default).await?,
                (_, None, None) => return Err(self.missing(&parameter.name)),
            };
            run.assign(&Target::Slot(*slot), value).await?;
        }
        run.go().await?;
        run.outputs(&given)
    }

    /// For each parameter the argument that is given for it.
    fn matched(&self, arguments: &[(Option<String>, ScalarValue)]) -> Result<Vec<Option<usize>>> {
        let mut given: Vec<Option<usize>> = vec![None; self.parameters.len()];
        let wrong = |message: String| Error::new(ErrorKind::UndefinedFunction, message).with_hint(self.usage());
        for (at, (name, _)) in arguments.iter().enumerate() {
            let place = match name {
                None if at < given.len() => at,
                None => {
                    return Err(wrong(format!(
                        "procedure {} takes {} arguments, not {}",
                        self.name,
                        given.len(),
                        arguments.len()
                    )));
                }
                Some(name) => {
                    let place = self.parameters.iter().position(|compiled| compiled.parameter.name == *name);
                    place.ok_or_else(|| wrong(format!("procedure {} has no parameter {name}", self.name)))?
                }
            };
            if given[place].replace(at).is_some() {
                let name = &self.parameters[place].parameter.name;
                return Err(wrong(format!("the parameter {name} of {} is given twice", self.name)));
            }
        }
        for (compiled, given) in self.parameters.iter().zip(&given) {
            if given.is_none() && compiled.default.is_none() {
                return Err(self.missing(&compiled.parameter.name));
            }
        }
        Ok(given)
    }

    fn missing(&self, name: &str) -> Error {
        let message = format!("procedure {} needs an argument for its parameter {name}", self.name);
        Error::new(ErrorKind::UndefinedFunction, message).with_hint(self.usage())
    }

    fn usage(&self) -> String {
        let parameters: Vec<String> = self.parameters.iter().map(|compiled| compiled.parameter.shown()).collect();
        let nulls = match self.parameters.iter().any(|compiled| compiled.parameter.mode == Mode::Out) {
            true => "; write NULL for what it gives out",
            false => "",
        };
        format!("it is {}({}){nulls}", self.name, parameters.join(", "))
    }
}

impl Run<'_> {
    fn set_found(&mut self, found: bool) {
        if let Some(slot) = self.slots.get_mut(FOUND) {
            *slot = Held::Scalar(ScalarValue::Boolean(Some(found)));
        }
    }

    /// Runs the steps up to RETURN.
    async fn go(&mut self) -> Result<()> {
        let program = self.program;
        let mut at = 0;
        while let Some(step) = program.steps.get(at) {
            let next = match self.run_step(&step.op, at).await {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(()),
                Err(error) => {
                    return Err(error.with_context(format!("{} line {} at {}", program.shown, step.line, step.name)));
                }
            };
            if next <= at {
                self.host.check_stop().map_err(|error| {
                    error.with_context(format!("{} line {} at {}", program.shown, step.line, step.name))
                })?;
                self.turns = self.turns.wrapping_add(1);
                if self.turns.is_multiple_of(TURNS) {
                    give_way().await;
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Runs a step. The next one, or `None` if it was the last.
    async fn run_step(&mut self, op: &Op, at: usize) -> Result<Option<usize>> {
        let next = at + 1;
        match op {
            Op::Assign { target, value } => {
                let value = self.evaluate(value).await?;
                self.assign(target, value).await?;
            }
            Op::Clear(slot) => self.clear(*slot)?,
            Op::Run { query, into } => {
                let answer = self.ask(query).await?;
                self.take_rows(&answer, into.as_ref()).await?;
            }
            Op::Call { query, arguments } => {
                let answer = self.ask(query).await?;
                self.take_outputs(&answer, arguments).await?;
            }
            Op::Jump(to) => return Ok(Some(*to)),
            Op::JumpUnless(condition, to) => {
                if !self.holds(condition).await? {
                    return Ok(Some(*to));
                }
            }
            Op::Count(count) => self.begin_count(count).await?,
            Op::CountNext { id, slot, end } => {
                if !self.next_number(*id, *slot) {
                    return Ok(Some(*end));
                }
            }
            Op::Rows { id, query } => {
                let answer = self.ask(query).await?;
                self.loops[*id] = Some(Turns::over(answer.rows));
            }
            Op::RowsNext { id, into, end } => match self.next_row(*id) {
                None => return Ok(Some(*end)),
                Some((rows, row)) => self.put(into, &rows, Some(row)).await?,
            },
            Op::LoopFound(id) => {
                let turns = self.loops[*id].take();
                self.set_found(turns.is_some_and(|turns| turns.has_begun()));
            }
            Op::CaseMissing => {
                return Err(Error::new(ErrorKind::CaseNotFound, "case not found")
                    .with_hint("CASE statement is missing ELSE part."));
            }
            Op::Raise(raise) => self.raise(raise).await?,
            Op::Assert { condition, message } => {
                if !self.holds(condition).await? {
                    let message = match message {
                        None => None,
                        Some(message) => match self.evaluate(message).await? {
                            ScalarValue::Utf8(text) => text,
                            value if value.is_null() => None,
                            value => Some(value.to_string()),
                        },
                    };
                    let message = message.unwrap_or_else(|| "assertion failed".to_owned());
                    return Err(Error::new(ErrorKind::AssertFailed, message));
                }
            }
            Op::RowCount(targets) => {
                for target in targets {
                    let count = i64::try_from(self.row_count).unwrap_or(i64::MAX);
                    self.assign(target, ScalarValue::Int64(Some(count))).await?;
                }
            }
            Op::Return => return Ok(None),
        }
        Ok(Some(next))
    }

    /// Runs a statement with the values of its variables.
    async fn ask(&self, query: &Query) -> Result<Answer> {
        let values = self.values_of(query)?;
        let embedded = self.program.statements.get(query.statement);
        let embedded = embedded.ok_or_else(|| Error::internal("a step names a statement that is not there"))?;
        self.host.run(embedded, &values).await
    }

    /// What a statement gave: FOUND, ROW_COUNT, and where INTO puts it.
    async fn take_rows(&mut self, answer: &Answer, into: Option<&(Into, Rows)>) -> Result<()> {
        let Some((into, wanted)) = into else {
            self.row_count = answer.row_count;
            self.set_found(answer.row_count > 0);
            return Ok(());
        };
        let rows: usize = answer.rows.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 && *wanted == Rows::One {
            return Err(Error::new(ErrorKind::NoDataFound, "query returned no rows"));
        }
        if rows > 1 && *wanted != Rows::First {
            return Err(Error::new(ErrorKind::SeveralRows, "query returned more than one row")
                .with_hint("Make sure the query returns a single row, or use LIMIT 1."));
        }
        self.row_count = u64::from(rows > 0);
        self.set_found(rows > 0);
        let first = answer.rows.iter().find(|batch| batch.num_rows() > 0);
        match (first, answer.rows.first()) {
            (Some(batch), _) => self.put(into, batch, Some(0)).await,
            (None, Some(empty)) => self.put(into, empty, None).await,
            (None, None) => self.put(into, &RecordBatch::new_empty(Arc::new(Schema::empty())), None).await,
        }
    }

    /// Puts a row where INTO says, or NULLs where there is none.
    async fn put(&mut self, into: &Into, rows: &RecordBatch, row: Option<usize>) -> Result<()> {
        let value = |column: &ArrayRef| match row {
            Some(row) => value_at(column, row),
            None => ScalarValue::try_new_null(column.data_type())
                .map(plain)
                .map_err(|_| Error::internal("a type has no NULL")),
        };
        match into {
            Into::Record(slot) => {
                let values = rows.columns().iter().map(value).collect::<Result<Vec<ScalarValue>>>()?;
                self.put_slot(*slot, Held::Record(Some(Row { schema: rows.schema(), values })))?;
            }
            // As in PostgreSQL, columns too many go nowhere, and variables too many are NULL.
            Into::Targets(targets) => {
                for (at, target) in targets.iter().enumerate() {
                    let value = rows.columns().get(at).map(value).transpose()?.unwrap_or(ScalarValue::Null);
                    self.assign(target, value).await?;
                }
            }
        }
        Ok(())
    }

    /// What a procedure that was called gave out.
    async fn take_outputs(&mut self, answer: &Answer, arguments: &[Option<Target>]) -> Result<()> {
        let Some(row) = answer.rows.iter().find(|batch| batch.num_rows() > 0) else { return Ok(()) };
        for (column, argument) in answer.outputs.iter().enumerate() {
            let Some(argument) = argument else { continue };
            let Some(target) = arguments.get(*argument).and_then(Option::as_ref) else {
                let message =
                    format!("argument {} of CALL is an output, and no variable that can be assigned", argument + 1);
                return Err(Error::new(ErrorKind::Syntax, message).with_hint("write a variable for it"));
            };
            if column < row.num_columns() {
                let value = value_at(row.column(column), 0)?;
                self.assign(target, value).await?;
            }
        }
        Ok(())
    }

    /// The row of OUT and INOUT parameters.
    fn outputs(&self, given: &[Option<usize>]) -> Result<Option<Outputs>> {
        let (mut fields, mut columns, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
        for (compiled, given) in self.program.parameters.iter().zip(given) {
            let CompiledParameter { parameter, slot, .. } = compiled;
            let (true, Held::Scalar(value)) = (parameter.mode.is_output(), &self.slots[*slot]) else { continue };
            let field = parameter.data_type.to_field(&parameter.name, true);
            let array = value.cast_to(field.data_type()).and_then(|value| value.to_array());
            columns.push(
                array
                    .map_err(|error| Error::internal(format!("{} could not be given out: {error}", parameter.name)))?,
            );
            fields.push(field);
            arguments.push(*given);
        }
        if fields.is_empty() {
            return Ok(None);
        }
        let row =
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(alluvia_values::errors::internal)?;
        Ok(Some(Outputs { row, arguments }))
    }
}

/// Lets other tasks of this thread run.
async fn give_way() {
    let mut has_given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
