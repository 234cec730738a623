//! The answer of one statement.
//!
//! Invariants:
//! - One thread at a time reads; another one is told so.
//! - What is taken (`fetch`, iteration, a stream that is not kept) comes once, in order, and the rest can be taken in another way.
//! - What is only held (`hold`, `peek`, `all`) can be taken later.

use crate::answer::{Answer, Estimate, OutcomeState, UsedRow};
use crate::database::{Closing, Shared};
use crate::errors::OrRaise;
use crate::exclusive::Exclusive;
use crate::progress::{ProgressRow, Stopwatch};
use crate::row_reader::RowReader;
use crate::to_python;
use crate::waiting::{Look, droppable, look_of, until_look};
use alluvia_query::{Bounds, Outcome};
use alluvia_space::data_type::chars_of;
use alluvia_types::{Error, Result};
use alluvia_values::unique_names::unique_names;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::pin::pin;
use std::sync::{Arc, Weak};
use tokio::runtime::Handle;

const STREAM_NAME: &CStr = c"arrow_array_stream";
const SCHEMA_NAME: &CStr = c"arrow_schema";
/// Rows that are turned into Python's values at a time.
const WINDOW_ROWS: usize = 1_024;

/// Name, lower and upper bounds.
type ColumnBounds<'py> = (String, Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

/// What the objects of one answer share.
struct RowsInner {
    shared: Arc<Shared>,
    runtime: Handle,
    schema: SchemaRef,
    told: OutcomeState,
    /// Of each column, row by row, whether rows were taken or not; empty of an exact answer.
    bounds: Vec<Option<Bounds>>,
    time: Arc<Stopwatch>,
    turn: Exclusive<RowReader>,
}

impl Closing for RowsInner {
    fn stop(&self) {}

    fn close(&self) {
        // Dropping a stream stops its statement; who has it out drops it when it is brought back.
        self.turn.close();
    }
}

impl RowsInner {
    fn take_out(&self) -> Result<Box<RowReader>> {
        self.shared.check_process()?;
        self.turn.take_out()
    }

    /// Works on the rows; an error or an exception closes the result.
    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut RowReader) -> PyResult<T>) -> PyResult<T> {
        let mut reading = self.take_out().or_raise(py)?;
        let done = work(&mut reading);
        match done {
            Ok(_) => self.turn.bring_back(reading),
            Err(_) => {
                self.turn.close();
                py.detach(|| drop(reading));
            }
        }
        done
    }

    /// Holds at least `rows`, or all.
    fn hold(&self, py: Python<'_>, reading: &mut RowReader, rows: usize, look: Look<'_>) -> PyResult<()> {
        if reading.held_rows() >= rows || reading.is_all_held() {
            return Ok(());
        }
        let _busy = self.shared.enter().or_raise(py)?;
        let mut look = |py: Python<'_>| {
            self.turn.check_open().or_raise(py)?;
            look(py)
        };
        droppable(py, &self.runtime, &mut look, reading.hold(rows))?.or_raise(py)
    }

    /// The next batch, for a reader that is not Python's: it may be on any thread, and whether that has the interpreter is not known, so
    /// signals are not looked at.
    fn next_batch(&self) -> Result<Option<RecordBatch>> {
        let _busy = self.shared.enter()?;
        let mut reading = self.take_out()?;
        let next = {
            let mut next = pin!(reading.next());
            loop {
                match until_look(&self.runtime, next.as_mut()) {
                    Some(next) => break next,
                    None => self.turn.check_open()?,
                }
            }
        };
        self.turn.bring_back(reading);
        next
    }
}

/// The answer of one statement: rows, and what the statement used.
#[pyclass(frozen, module = "alluvia._alluvia")]
pub(crate) struct Rows {
    inner: Arc<RowsInner>,
    /// Rows that are Python's values already, and of which the first batch held still begins with the first.
    window: Mutex<VecDeque<Py<PyAny>>>,
}

impl Rows {
    /// What a statement gave that began with `time`.
    pub(crate) fn of(shared: &Arc<Shared>, runtime: &Handle, answer: Answer, time: Arc<Stopwatch>) -> Rows {
        match answer {
            Answer::Rows(outcome) => Rows::new(shared, runtime, outcome, time),
            Answer::Estimate(estimate) => Rows::of_estimate(shared, runtime, *estimate, time),
            Answer::Remote(answer, session) => {
                let told = OutcomeState::Remote { told: answer.told(), session };
                let schema = Arc::clone(answer.schema());
                let stream = answer.has_rows().then(|| answer.into_rows());
                let reading = RowReader::of_stream(stream, Arc::clone(&time));
                Rows::made(shared, runtime, (schema, reading), told, Vec::new(), time)
            }
        }
    }

    /// The answer that `outcome` holds.
    fn new(shared: &Arc<Shared>, runtime: &Handle, mut outcome: Outcome, time: Arc<Stopwatch>) -> Rows {
        let (schema, reading) = RowReader::of(&mut outcome, Arc::clone(&time));
        Rows::made(shared, runtime, (schema, reading), OutcomeState::Still(Mutex::new(outcome)), Vec::new(), time)
    }

    /// An answer that is there, with its bounds if it is an estimate.
    pub(crate) fn of_estimate(
        shared: &Arc<Shared>,
        runtime: &Handle,
        estimate: Estimate,
        time: Arc<Stopwatch>,
    ) -> Rows {
        let Estimate { rows, bounds, tag, notices, used } = estimate;
        let read = (rows.schema(), RowReader::of_batch(rows, Arc::clone(&time)));
        Rows::made(shared, runtime, read, OutcomeState::Then { tag, notices, used }, bounds, time)
    }

    fn made(
        shared: &Arc<Shared>,
        runtime: &Handle,
        (schema, reading): (SchemaRef, RowReader),
        told: OutcomeState,
        bounds: Vec<Option<Bounds>>,
        time: Arc<Stopwatch>,
    ) -> Rows {
        let inner = Arc::new(RowsInner {
            shared: Arc::clone(shared),
            runtime: runtime.clone(),
            schema: unique_names(&schema),
            told,
            bounds,
            time,
            turn: Exclusive::new("result", reading),
        });
        let user: Weak<dyn Closing> = Arc::downgrade(&inner) as Weak<dyn Closing>;
        shared.register(user);
        Rows { inner, window: Mutex::default() }
    }

    /// Reads all rows that are left, and holds them.
    pub(crate) fn hold_all(&self, py: Python<'_>, look: Look<'_>) -> PyResult<usize> {
        self.inner.with(py, |reading| {
            self.inner.hold(py, reading, usize::MAX, look)?;
            Ok(reading.held_rows())
        })
    }

    fn tuples<'py>(&self, py: Python<'py>, batch: &RecordBatch, into: &Bound<'py, PyList>) -> PyResult<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = WINDOW_ROWS.min(batch.num_rows() - start);
            for tuple in self.window_of(py, &batch.slice(start, rows))? {
                into.append(tuple)?;
            }
            start += rows;
        }
        Ok(())
    }

    fn window_of<'py>(&self, py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let column = |(field, array): (&Arc<Field>, &ArrayRef)| to_python::of_field(py, array, field);
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).map(column).collect::<PyResult<Vec<_>>>()?;
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let row = |_| {
            let values: Vec<Bound<'py, PyAny>> = columns.iter_mut().filter_map(Iterator::next).collect();
            PyTuple::new(py, values)
        };
        (0..batch.num_rows()).map(row).collect()
    }

    /// Of each column that is estimated its name, and the bounds of up to so many rows from one on; `None` of an exact answer.
    fn bounds_of<'py>(&self, py: Python<'py>, from: usize, rows: usize) -> PyResult<Option<Vec<ColumnBounds<'py>>>> {
        let fields = self.inner.schema.fields().iter();
        let estimated = fields.zip(&self.inner.bounds).filter_map(|(field, bounds)| Some((field, bounds.as_ref()?)));
        let column = |(field, bounds): (&Arc<Field>, &Bounds)| {
            let name = field.name();
            let side = |side: &ArrayRef| {
                let from = from.min(side.len());
                to_python::values(py, &side.slice(from, rows.min(side.len() - from)), name)
            };
            Ok((name.clone(), side(&bounds.lower)?, side(&bounds.upper)?))
        };
        let columns = estimated.map(column).collect::<PyResult<Vec<_>>>()?;
        Ok((!columns.is_empty()).then_some(columns))
    }
}

#[pymethods]
impl Rows {
    /// The command tag: `SELECT`, `INSERT 0 5`, `CREATE TABLE`.
    #[getter]
    fn tag(&self) -> String {
        self.inner.told.tag()
    }

    /// What the statement had to tell beside its rows.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.inner.told.notices()
    }

    /// Name, SQL type and nullability of each column; empty for a statement without rows.
    #[getter]
    fn columns(&self) -> Vec<(String, String, bool)> {
        let named = |field: &Arc<Field>| (field.name().clone(), sql_name(field), field.is_nullable());
        self.inner.schema.fields().iter().map(named).collect()
    }

    /// What was used so far; complete when the rows have ended (of a server's statement the counts come then). `None` for a statement
    /// that reads no table.
    fn used(&self) -> Option<UsedRow> {
        self.inner.told.used()
    }

    /// How far the statement is, or how it ended. A server is asked, if its session has begun no other statement since: `is_latest`.
    fn progress(&self, py: Python<'_>, is_latest: bool) -> PyResult<ProgressRow> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        self.inner.told.progress(py, &self.inner.runtime, &self.inner.time, is_latest)
    }

    /// Takes up to `rows` rows, or all that are left, as tuples.
    #[pyo3(signature = (rows=None, look=None))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        rows: Option<usize>,
        look: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let fetched = PyList::empty(py);
        let wanted = rows.unwrap_or(usize::MAX);
        self.inner.with(py, |reading| {
            self.window.lock().clear();
            while fetched.len() < wanted {
                self.inner.hold(py, reading, 1, &mut look_of(&look))?;
                let Some(batch) = reading.take(wanted - fetched.len()) else { break };
                self.tuples(py, &batch, &fetched)?;
            }
            Ok(())
        })?;
        Ok(fetched)
    }

    /// Takes one row; `None` after the last one.
    fn fetch_one<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.inner.with(py, |reading| {
            let mut window = self.window.lock();
            if window.is_empty() {
                drop(window);
                self.inner.hold(py, reading, 1, &mut |_| Ok(()))?;
                let Some(first) = reading.held().next() else { return Ok(None) };
                let first = first.slice(0, first.num_rows().min(WINDOW_ROWS));
                let tuples = self.window_of(py, &first)?;
                window = self.window.lock();
                window.extend(tuples.into_iter().map(|tuple| tuple.into_any().unbind()));
            }
            reading.pass();
            Ok(window.pop_front().map(|row| row.into_bound(py)))
        })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.fetch_one(py)
    }

    /// Reads all rows that are left, and holds them. Gives how many.
    #[pyo3(signature = (look=None))]
    fn hold(&self, py: Python<'_>, look: Option<Bound<'_, PyAny>>) -> PyResult<usize> {
        self.hold_all(py, &mut look_of(&look))
    }

    /// Of each column that is estimated its name, and the lower and upper bounds of all its values, in the order of the rows. `None` of
    /// an exact answer.
    fn bounds<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<ColumnBounds<'py>>>> {
        self.bounds_of(py, 0, usize::MAX)
    }

    /// The same, of up to `rows` rows that were not taken: those that [`Rows::peek`] gives.
    fn peek_bounds<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Option<Vec<ColumnBounds<'py>>>> {
        let Some(all) = self.inner.bounds.iter().flatten().next().map(|bounds| bounds.lower.len()) else {
            return Ok(None);
        };
        // An estimate has all its rows.
        let left = self.hold_all(py, &mut |_| Ok(()))?;
        self.bounds_of(py, all.saturating_sub(left), rows)
    }

    /// All rows that are left as tuples, which are held and not taken.
    #[pyo3(signature = (look=None))]
    fn all<'py>(&self, py: Python<'py>, look: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let tuples = PyList::empty(py);
        self.inner.with(py, |reading| {
            self.inner.hold(py, reading, usize::MAX, &mut look_of(&look))?;
            let held: Vec<RecordBatch> = reading.held().cloned().collect();
            held.iter().try_for_each(|batch| self.tuples(py, batch, &tuples))
        })?;
        Ok(tuples)
    }

    /// The next rows, up to `rows`, which are not taken, and whether more come after them.
    fn peek<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<(Bound<'py, PyList>, bool)> {
        let tuples = PyList::empty(py);
        let more = self.inner.with(py, |reading| {
            self.inner.hold(py, reading, rows.saturating_add(1), &mut |_| Ok(()))?;
            let held: Vec<RecordBatch> = reading.held().cloned().collect();
            for batch in &held {
                let rows = batch.num_rows().min(rows - tuples.len());
                self.tuples(py, &batch.slice(0, rows), &tuples)?;
            }
            Ok(reading.held_rows() > rows)
        })?;
        Ok((tuples, more))
    }

    /// The columns as a capsule with an `ArrowSchema`. `plain` as in [`Rows::arrow_stream`].
    fn arrow_schema<'py>(&self, py: Python<'py>, plain: bool) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = if plain { plain_schema(&self.inner.schema) } else { Arc::clone(&self.inner.schema) };
        let exported = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| arrow_error(&error)).or_raise(py)?;
        PyCapsule::new_with_value(py, exported, SCHEMA_NAME)
    }

    /// The rows as a capsule with an `ArrowArrayStream`. With `plain`, texts and bytes are in the layout that every consumer knows, else
    /// as views. With `keep`, all rows are read now and stay here; else the stream reads as it is read, and takes them.
    #[pyo3(signature = (plain, keep, look=None))]
    fn arrow_stream<'py>(
        &self,
        py: Python<'py>,
        plain: bool,
        keep: bool,
        look: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = if plain { plain_schema(&self.inner.schema) } else { Arc::clone(&self.inner.schema) };
        let source = self.inner.with(py, |reading| {
            self.window.lock().clear();
            if !keep {
                return Ok(Source::Rest(Arc::clone(&self.inner)));
            }
            self.inner.hold(py, reading, usize::MAX, &mut look_of(&look))?;
            Ok(Source::Held(reading.held().cloned().collect()))
        })?;
        let stream = FFI_ArrowArrayStream::new(Box::new(Exported { schema, source, plain }));
        PyCapsule::new_with_value(py, stream, STREAM_NAME)
    }

    /// Stops the statement and lets go of its rows.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}

/// Type names as SQL writes them; types that no column can have as Arrow does.
fn sql_name(field: &Field) -> String {
    match alluvia_space::DataType::from_field(field) {
        Some(known) => match chars_of(field) {
            Some(chars) => format!("CHAR({chars})"),
            None => known.sql_name(),
        },
        None => field.data_type().to_string(),
    }
}

enum Source {
    Held(VecDeque<RecordBatch>),
    Rest(Arc<RowsInner>),
}

/// Rows that another library reads, from whatever thread.
struct Exported {
    schema: SchemaRef,
    source: Source,
    plain: bool,
}

impl Exported {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        match &mut self.source {
            Source::Held(held) => Ok(held.pop_front()),
            Source::Rest(rows) => rows.next_batch(),
        }
    }
}

impl Iterator for Exported {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error)));
        match next.transpose()? {
            Ok(batch) if self.plain => Some(plain_batch(&batch, &self.schema)),
            Ok(batch) => Some(named_batch(batch, &self.schema)),
            Err(error) => Some(Err(error)),
        }
    }
}

impl RecordBatchReader for Exported {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The same columns without views, which not every consumer knows.
fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        DataType::BinaryView => Arc::new(field.as_ref().clone().with_data_type(DataType::Binary)),
        _ => Arc::clone(field),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().map(plain).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let cast_to = |(array, field): (&ArrayRef, &Arc<Field>)| cast(array, field.data_type());
    let columns = batch.columns().iter().zip(schema.fields()).map(cast_to).collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The same columns under the names of this schema.
fn named_batch(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (_, columns, _) = batch.into_parts();
    let fields = schema.fields().iter().zip(&columns);
    let fields = fields.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<Field>>(), schema.metadata().clone()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

fn arrow_error(error: &ArrowError) -> Error {
    Error::internal(format!("the columns cannot be handed over: {error}"))
}
