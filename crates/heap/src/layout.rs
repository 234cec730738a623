//! A row as bytes: which columns are NULL, then each column's fixed part at a constant offset, then texts and bytes.
//!
//! Numbers are as Arrow has them in memory. The fixed part of a text says where it begins behind the fixed parts, and how long it is.

use alluvia_space::{Column, DataType, TableDef};
use alluvia_types::{Error, Result};
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, BooleanArray, RecordBatch, RecordBatchOptions,
    StringViewArray, make_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// How rows of one definition are laid out.
#[derive(Clone, Debug)]
pub struct Layout {
    fields: Vec<FieldLayout>,
    /// Where what has no fixed length begins.
    fixed: usize,
}

#[derive(Clone, Debug)]
struct FieldLayout {
    storage_name: String,
    data_type: DataType,
    form: Form,
    offset: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Boolean,
    /// So many bytes.
    Fixed(usize),
    Text,
    Bytes,
}

impl Form {
    fn of(data_type: DataType) -> Form {
        match data_type {
            DataType::Boolean => Form::Boolean,
            DataType::Int16 => Form::Fixed(2),
            DataType::Int32 | DataType::Date | DataType::Real => Form::Fixed(4),
            DataType::Int64 | DataType::Double | DataType::Timestamp | DataType::TimestampTz | DataType::Time => {
                Form::Fixed(8)
            }
            DataType::Decimal { .. } | DataType::Numeric | DataType::Uuid | DataType::Interval => Form::Fixed(16),
            DataType::Text | DataType::Json | DataType::Jsonb | DataType::Char => Form::Text,
            DataType::Binary => Form::Bytes,
        }
    }

    fn width(self) -> usize {
        match self {
            Form::Boolean => 1,
            Form::Fixed(bytes) => bytes,
            Form::Text | Form::Bytes => 8,
        }
    }
}

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// None.
    Null,
    /// `BOOLEAN`
    Boolean(bool),
    /// Of all widths.
    Int(i64),
    /// The number without its point; the column says how many digits are behind it.
    Decimal(i128),
    /// `TEXT` and its like, `CHAR(n)` without blanks at the end.
    Text(&'a str),
    /// Days since 1970.
    Date(i32),
    /// Microseconds since 1970, of both types of timestamps.
    Micros(i64),
    /// Of a type that nobody compares here.
    Other,
}

/// A row of a heap.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}

impl<'a> RowRef<'a> {
    pub(crate) fn new(layout: &'a Layout, bytes: &'a [u8]) -> RowRef<'a> {
        RowRef { layout, bytes }
    }

    /// The value of the column at this place of the definition.
    pub fn cell(&self, column: usize) -> Cell<'a> {
        let Some(field) = self.layout.fields.get(column) else { return Cell::Null };
        if self.is_null(column) {
            return Cell::Null;
        }
        match field.data_type {
            DataType::Boolean => Cell::Boolean(self.fixed::<1>(field) == [1]),
            DataType::Int16 => Cell::Int(i16::from_le_bytes(self.fixed(field)).into()),
            DataType::Int32 => Cell::Int(i32::from_le_bytes(self.fixed(field)).into()),
            DataType::Int64 => Cell::Int(i64::from_le_bytes(self.fixed(field))),
            DataType::Decimal { .. } | DataType::Numeric => Cell::Decimal(i128::from_le_bytes(self.fixed(field))),
            DataType::Date => Cell::Date(i32::from_le_bytes(self.fixed(field))),
            DataType::Timestamp | DataType::TimestampTz => Cell::Micros(i64::from_le_bytes(self.fixed(field))),
            DataType::Text | DataType::Char => {
                std::str::from_utf8(self.variable(field)).map_or(Cell::Other, Cell::Text)
            }
            _ => Cell::Other,
        }
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn is_null(&self, column: usize) -> bool {
        self.bytes.get(column / 8).is_none_or(|byte| byte & (1 << (column % 8)) != 0)
    }

    fn fixed<const N: usize>(&self, field: &FieldLayout) -> [u8; N] {
        let bytes = self.bytes.get(field.offset..field.offset + N);
        bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    fn variable(&self, field: &FieldLayout) -> &'a [u8] {
        let place = u64::from_le_bytes(self.fixed(field));
        let (start, length) = (self.layout.fixed + (place >> 32) as usize, (place & 0xffff_ffff) as usize);
        self.bytes.get(start..start + length).unwrap_or_default()
    }

    /// Whether two rows of one layout have the same value in a column, bit by bit.
    pub(crate) fn is_same_in(&self, other: &RowRef<'_>, column: usize) -> bool {
        let Some(field) = self.layout.fields.get(column) else { return true };
        let (null, other_null) = (self.is_null(column), other.is_null(column));
        if null || other_null {
            return null == other_null;
        }
        match field.form {
            Form::Text | Form::Bytes => self.variable(field) == other.variable(field),
            form => {
                let range = field.offset..field.offset + form.width();
                self.bytes.get(range.clone()) == other.bytes.get(range)
            }
        }
    }
}

impl Layout {
    /// Of the columns of a table.
    pub fn new(def: &TableDef) -> Layout {
        let mut offset = def.columns.len().div_ceil(8);
        let field = |column: &Column| {
            let form = Form::of(column.data_type);
            let at = offset;
            offset += form.width();
            FieldLayout { storage_name: column.storage_name.clone(), data_type: column.data_type, form, offset: at }
        };
        let fields = def.columns.iter().map(field).collect();
        Layout { fields, fixed: offset }
    }

    /// A row that was encoded.
    pub fn row_of<'a>(&'a self, bytes: &'a [u8]) -> RowRef<'a> {
        RowRef::new(self, bytes)
    }

    /// About what a row takes.
    pub fn bytes_about(&self) -> usize {
        const TEXT_BYTES: usize = 24;
        const HELD_BYTES: usize = 240;
        let texts = self.fields.iter().filter(|field| matches!(field.form, Form::Text | Form::Bytes)).count();
        self.fixed + texts * TEXT_BYTES + HELD_BYTES
    }

    /// How many columns there are.
    pub(crate) fn width(&self) -> usize {
        self.fields.len()
    }

    /// Rows, which have the columns by storage name, as bytes: those that `wanted` has, in its order. A column that they lack is NULL.
    ///
    /// # Errors
    /// `Internal` where a column has another type.
    pub fn encoded(&self, rows: &RecordBatch, wanted: impl Iterator<Item = usize> + Clone) -> Result<Vec<Box<[u8]>>> {
        let columns = self.columns_of(rows)?;
        let sources = self.fields.iter().zip(&columns).map(|(field, column)| Source::new(field.form, column));
        let sources = sources.collect::<Result<Vec<_>>>()?;
        Ok(wanted.map(|row| self.row(&sources, row)).collect())
    }

    /// The columns of rows, in their storage types.
    pub(crate) fn columns_of(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let column = |field: &FieldLayout| {
            let wanted = field.data_type.to_arrow();
            match rows.column_by_name(&field.storage_name) {
                None => Ok(new_null_array(&wanted, rows.num_rows())),
                Some(column) if *column.data_type() == wanted => Ok(Arc::clone(column)),
                Some(column) => cast(column, &wanted).map_err(|error| misfit(&error)),
            }
        };
        self.fields.iter().map(column).collect()
    }

    fn row(&self, sources: &[Source<'_>], row: usize) -> Box<[u8]> {
        let variable: usize = sources.iter().map(|source| source.variable(row).map_or(0, <[u8]>::len)).sum();
        let mut bytes = Vec::with_capacity(self.fixed + variable);
        bytes.resize(self.fixed, 0);
        for (at, (field, source)) in self.fields.iter().zip(sources).enumerate() {
            if source.is_null(row) {
                bytes[at / 8] |= 1 << (at % 8);
                continue;
            }
            match source.variable(row) {
                Some(value) => {
                    let place = (((bytes.len() - self.fixed) as u64) << 32) | value.len() as u64;
                    bytes[field.offset..field.offset + 8].copy_from_slice(&place.to_le_bytes());
                    bytes.extend_from_slice(value);
                }
                None => source.put(row, &mut bytes[field.offset..field.offset + field.form.width()]),
            }
        }
        bytes.into_boxed_slice()
    }

    /// Some columns of rows, by their places, as Arrow has them in storage.
    ///
    /// # Errors
    /// `Internal` where a row is not of this layout.
    pub fn decoded(&self, rows: &[RowRef<'_>], columns: &[usize]) -> Result<RecordBatch> {
        let (mut fields, mut arrays) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        for &column in columns {
            let field = self.fields.get(column).ok_or_else(|| Error::internal("a row has no such column"))?;
            fields.push(Field::new(&field.storage_name, field.data_type.to_arrow(), true));
            arrays.push(array(field, column, rows).map_err(|error| misfit(&error))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|error| misfit(&error))
    }
}

fn array(field: &FieldLayout, column: usize, rows: &[RowRef<'_>]) -> Result<ArrayRef, ArrowError> {
    let has_nulls = rows.iter().any(|row| row.is_null(column));
    let valid = || BooleanBuffer::from_iter(rows.iter().map(|row| !row.is_null(column)));
    let nulls = has_nulls.then(|| NullBuffer::new(valid()));
    let text = |row: &RowRef<'_>| match row.is_null(column) {
        true => Ok(None),
        false => match std::str::from_utf8(row.variable(field)) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(ArrowError::InvalidArgumentError("a text that is none".to_owned())),
        },
    };
    Ok(match field.form {
        Form::Boolean => {
            let values = BooleanBuffer::from_iter(rows.iter().map(|row| row.fixed::<1>(field) == [1]));
            Arc::new(BooleanArray::new(values, nulls))
        }
        Form::Text => Arc::new(rows.iter().map(text).collect::<Result<StringViewArray, _>>()?),
        Form::Bytes => {
            let value = |row: &RowRef<'_>| (!row.is_null(column)).then(|| row.variable(field).to_vec());
            Arc::new(rows.iter().map(value).collect::<BinaryViewArray>())
        }
        Form::Fixed(width) => {
            let mut bytes = Vec::with_capacity(width * rows.len());
            for row in rows {
                bytes.extend_from_slice(row.bytes.get(field.offset..field.offset + width).unwrap_or(&[0; 16][..width]));
            }
            let data = ArrayData::builder(field.data_type.to_arrow()).len(rows.len()).nulls(nulls);
            make_array(data.add_buffer(Buffer::from_vec(bytes)).align_buffers(true).build()?)
        }
    })
}

/// Where values of a column come from.
enum Source<'a> {
    Boolean(&'a BooleanArray),
    Fixed { bytes: Buffer, width: usize, nulls: Option<&'a NullBuffer> },
    Text(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
}

impl<'a> Source<'a> {
    fn new(form: Form, column: &'a ArrayRef) -> Result<Source<'a>> {
        let other = || Error::internal("a column of a heap came in another type");
        Ok(match form {
            Form::Boolean => Source::Boolean(column.as_boolean_opt().ok_or_else(other)?),
            Form::Text => Source::Text(column.as_string_view_opt().ok_or_else(other)?),
            Form::Bytes => Source::Bytes(column.as_binary_view_opt().ok_or_else(other)?),
            Form::Fixed(width) => {
                let data = column.to_data();
                let bytes = data.buffers().first().ok_or_else(other)?;
                let bytes = bytes.slice_with_length(data.offset() * width, data.len() * width);
                Source::Fixed { bytes, width, nulls: column.nulls() }
            }
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Source::Boolean(values) => values.is_null(row),
            Source::Text(values) => values.is_null(row),
            Source::Bytes(values) => values.is_null(row),
            Source::Fixed { nulls, .. } => nulls.is_some_and(|nulls| nulls.is_null(row)),
        }
    }

    fn variable(&self, row: usize) -> Option<&[u8]> {
        match self {
            Source::Text(values) if values.is_valid(row) => Some(values.value(row).as_bytes()),
            Source::Bytes(values) if values.is_valid(row) => Some(values.value(row)),
            _ => None,
        }
    }

    fn put(&self, row: usize, into: &mut [u8]) {
        match self {
            Source::Boolean(values) => into[0] = values.value(row).into(),
            Source::Fixed { bytes, width, .. } => into.copy_from_slice(&bytes[row * width..(row + 1) * width]),
            Source::Text(_) | Source::Bytes(_) => {}
        }
    }
}

pub(crate) fn misfit(error: &ArrowError) -> Error {
    Error::internal(format!("rows of a heap do not fit together: {error}"))
}
