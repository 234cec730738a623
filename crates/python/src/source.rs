//! Rows that a program has, as record batches: Arrow's C stream and C array interfaces (which pandas, polars, pyarrow, DuckDB and our
//! own results offer), and iterables of dicts.
//!
//! Invariant: everything is read on the calling thread, since what is behind it (a cursor of another database, a generator) may belong
//! to that thread. Streams are read without the interpreter, dicts with it.

use crate::errors::{OrRaise, misuse};
use crate::from_python::Table;
use alluvia_space::OP_COLUMN;
use alluvia_types::{Error, ErrorKind};
use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyMapping, PyString, PyTuple};
use std::ffi::CStr;

/// Dicts that become one batch.
const DICTS_MAX: usize = 16_384;

/// Where rows come from.
pub(crate) enum Source<'py> {
    /// A stream of batches.
    Stream(ArrowArrayStreamReader),
    /// One batch, until it is taken.
    Batch(Option<RecordBatch>),
    /// Dicts.
    Dicts(Dicts<'py>),
}

/// Dicts on their way into batches.
pub(crate) struct Dicts<'py> {
    rows: Bound<'py, PyIterator>,
    /// How many there were.
    before: usize,
    /// One that was looked at, and begins the next batch.
    ahead: Option<Bound<'py, PyDict>>,
    /// Whether all of them set some columns of rows that are there: what a row lacks then stays.
    are_patches: bool,
}

impl<'py> Dicts<'py> {
    fn next_row(&mut self, at: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        if let Some(row) = self.ahead.take() {
            return Ok(Some(row));
        }
        let Some(row) = self.rows.next().transpose()? else { return Ok(None) };
        let row = row.cast_into::<PyDict>().map_err(|error| {
            let given = error.into_inner().get_type().to_string();
            PyTypeError::new_err(format!("row {} is no dict but {given}", self.before + at + 1))
        })?;
        Ok(Some(row))
    }

    /// The next rows. Those that may be patches, and have other names than the ones before, begin a batch: a batch has the columns that
    /// each of its rows gives.
    fn next_table(&mut self) -> PyResult<Table> {
        let mut table = Table::default();
        while table.rows() < DICTS_MAX {
            let Some(row) = self.next_row(table.rows())? else { break };
            let may_be_patch = self.are_patches || table.has(OP_COLUMN) || row.contains(OP_COLUMN)?;
            if may_be_patch && table.rows() > 0 && !table.has_names_of(&row) {
                self.ahead = Some(row);
                break;
            }
            table.push(&row, self.before)?;
        }
        self.before += table.rows();
        Ok(table)
    }
}

impl<'py> Source<'py> {
    /// What can be read from an object.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
        let py = object.py();
        if object.hasattr("__arrow_c_stream__")? {
            let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
            let pointer = pointer::<FFI_ArrowArrayStream>(&capsule, c"arrow_array_stream")?;
            // SAFETY: the capsule's name says what it points to, and the capsule lives; the stream is moved out of it, as the interface
            // has it.
            let reader = py.detach(|| unsafe { ArrowArrayStreamReader::from_raw(pointer.get()) });
            return Ok(Source::Stream(reader.map_err(|error| unreadable(&error)).or_raise(py)?));
        }
        if object.hasattr("__arrow_c_array__")? {
            let pair = object.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
            let (schema, array) = pair.extract::<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)>()?;
            let schema = pointer::<FFI_ArrowSchema>(&schema, c"arrow_schema")?;
            let array = pointer::<FFI_ArrowArray>(&array, c"arrow_array")?;
            // SAFETY: as above; both are moved out, and released when they are dropped.
            let data = unsafe {
                let schema = FFI_ArrowSchema::from_raw(schema.get());
                from_ffi(FFI_ArrowArray::from_raw(array.get()), &schema)
            };
            let data = data.map_err(|error| unreadable(&error)).or_raise(py)?;
            if !matches!(data.data_type(), DataType::Struct(_)) {
                return Err(misuse("an Arrow array is one column, and rows are wanted")
                    .with_hint("give a RecordBatch or a Table, so that columns have names"))
                .or_raise(py);
            }
            let rows = StructArray::from(data);
            let (fields, columns, _) = rows.clone().into_parts();
            let options = RecordBatchOptions::new().with_row_count(Some(arrow::array::Array::len(&rows)));
            let schema = std::sync::Arc::new(arrow::datatypes::Schema::new(fields));
            let batch = RecordBatch::try_new_with_options(schema, columns, &options);
            return Ok(Source::Batch(Some(batch.map_err(|error| unreadable(&error)).or_raise(py)?)));
        }
        let is_one = object.is_instance_of::<PyString>() || object.cast::<PyMapping>().is_ok();
        match object.try_iter() {
            Ok(rows) if !is_one => Ok(Source::Dicts(Dicts { rows, before: 0, ahead: None, are_patches: false })),
            _ => Err(PyTypeError::new_err(format!(
                "rows are wanted (an Arrow, polars or pandas table, a stream of Arrow batches, or an iterable of dicts), and a {} is given",
                object.get_type().name()?
            ))),
        }
    }

    /// Of rows that set some columns of rows that are there.
    pub(crate) fn of_patches(mut self) -> Source<'py> {
        if let Source::Dicts(dicts) = &mut self {
            dicts.are_patches = true;
        }
        self
    }

    /// The columns, where they are known before the first row.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        match self {
            Source::Stream(reader) => Some(reader.schema()),
            Source::Batch(batch) => batch.as_ref().map(RecordBatch::schema),
            Source::Dicts(_) => None,
        }
    }

    /// The next rows.
    pub(crate) fn next(&mut self, py: Python<'py>) -> PyResult<Option<RecordBatch>> {
        match self {
            Source::Stream(reader) => {
                let next = py.detach(|| reader.next());
                next.transpose().map_err(|error| unreadable(&error)).or_raise(py)
            }
            Source::Batch(batch) => Ok(batch.take()),
            Source::Dicts(dicts) => {
                let table = dicts.next_table()?;
                if table.rows() == 0 { Ok(None) } else { table.finish(py).map(Some) }
            }
        }
    }
}

/// A pointer that may go to where the interpreter is not.
struct Pointer<T>(*mut T);

impl<T> Pointer<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

// SAFETY: Arrow's interfaces let whoever has a structure use it from any thread, one at a time; it is used by one.
unsafe impl<T> Send for Pointer<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Pointer<T> {}

fn pointer<T>(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<Pointer<T>> {
    Ok(Pointer(capsule.pointer_checked(Some(name))?.cast::<T>().as_ptr()))
}

fn unreadable(error: &ArrowError) -> Error {
    let said = match error {
        ArrowError::CDataInterface(said) => said.clone(),
        other => other.to_string(),
    };
    Error::new(ErrorKind::InvalidValue, format!("the rows cannot be read: {said}"))
}
