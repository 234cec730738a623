//! Rows on their way into or out of a segment.

use alluvia_catalog::Dictionaries;
use alluvia_space::{DataType as Type, LevelCodes, LevelSource, TableDef};
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, AsArray, DictionaryArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

/// Rows with their keys and codes, in key order unless it is said of them that they lie in bands.
///
/// `rows` has the table's columns by storage name, but for those that are `coded`, then `_version` and `_ordinal`; a TEXT column may be
/// `Utf8View`, `Utf8` or a dictionary of `Utf8` with 32-bit keys. `codes` has one vector per level, in the
/// definition's order of dimensions and levels, each as long as `rows`.
#[derive(Clone, Debug)]
pub struct RowChunk {
    /// The values of columns that are not coded.
    pub rows: RecordBatch,
    /// Each row's curve key.
    pub keys: Vec<u128>,
    /// Each row's code at every level; 0 is NULL.
    pub codes: LevelCodes,
    /// Columns that are not among `rows`, ascending by place.
    pub coded: Arc<[CodedColumn]>,
}

/// A TEXT column of which the codes of a level say all: a merge moves codes, and neither decodes nor compares their values.
#[derive(Clone, Debug)]
pub struct CodedColumn {
    /// As Parquet knows it.
    pub storage_name: String,
    /// Its place among all columns of the rows.
    pub place: usize,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whose codes, counted over all dimensions.
    pub level: usize,
    /// The value of each code, `Utf8`; NULL is the first.
    pub values: ArrayRef,
    /// For each code the least code of the same value; `None` where no two codes have the same.
    pub first_codes: Option<Arc<[u32]>>,
}

impl RowChunk {
    /// Rows with all their columns.
    pub fn new(rows: RecordBatch, keys: Vec<u128>, codes: LevelCodes) -> RowChunk {
        RowChunk { rows, keys, codes, coded: Arc::default() }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Some rows, by their places, in this order.
    pub(crate) fn take(&self, places: &[u32]) -> Result<RowChunk> {
        let failed = |error| Error::internal(format!("taking rows of a chunk: {error}"));
        let rows = take_record_batch(&self.rows, &UInt32Array::from(places.to_vec())).map_err(failed)?;
        let keys = places.iter().map(|&place| self.keys[place as usize]).collect();
        let level = |codes: &Vec<u32>| places.iter().map(|&place| codes[place as usize]).collect();
        let codes = LevelCodes { levels: self.codes.levels.iter().map(level).collect() };
        Ok(RowChunk { rows, keys, codes, coded: Arc::clone(&self.coded) })
    }

    /// The same rows, whose texts and bytes keep no memory that they do not need.
    pub(crate) fn compact(self) -> RowChunk {
        let of_column = |column: &ArrayRef| -> ArrayRef {
            match column.data_type() {
                DataType::Utf8View => Arc::new(column.as_string_view().gc()),
                DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
                _ => Arc::clone(column),
            }
        };
        let columns = self.rows.columns().iter().map(of_column).collect();
        let rows = RecordBatch::try_new(self.rows.schema(), columns).expect("columns of the same types and lengths");
        RowChunk { rows, ..self }
    }

    /// All columns, the coded ones as dictionary arrays over their levels' values.
    pub fn whole(&self) -> Result<RecordBatch> {
        let mut columns = self.rows.columns().to_vec();
        let mut fields = self.rows.schema().fields().to_vec();
        for column in self.coded.iter() {
            let array = column.dictionary_array(&self.codes.levels[column.level])?;
            let field = Field::new(&column.storage_name, array.data_type().clone(), column.nullable);
            columns.insert(column.place, array);
            fields.insert(column.place, Arc::new(field));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|error| Error::internal(format!("rows of a chunk: {error}")))
    }
}

/// Bytes that a row has of a column, about: those of its value, and of text a view.
pub(crate) fn row_bytes(values: &ArrayRef) -> usize {
    let rows = values.len().max(1);
    let of_views = |lengths: &mut dyn Iterator<Item = u32>| {
        let total: usize = lengths.map(|len| len as usize).sum();
        size_of::<u128>() + total / rows
    };
    match values.data_type() {
        // The length is a view's first four bytes.
        DataType::Utf8View => of_views(&mut values.as_string_view().views().iter().map(|view| *view as u32)),
        DataType::BinaryView => of_views(&mut values.as_binary_view().views().iter().map(|view| *view as u32)),
        DataType::Utf8 => of_views(&mut values.as_string::<i32>().offsets().lengths().map(|len| len as u32)),
        other => other.primitive_width().unwrap_or(size_of::<u128>()),
    }
}

impl CodedColumn {
    /// The level whose codes say all of the column at a place, if it is text and a level is made of it.
    pub fn level_of(table: &TableDef, place: usize) -> Option<usize> {
        let column = &table.columns[place];
        let is_it = |source: &LevelSource| matches!(source, LevelSource::Column(id) if *id == column.id);
        let level = table.levels().position(|(_, _, level)| is_it(&level.source));
        level.filter(|_| column.data_type == Type::Text)
    }

    /// The column at a place, by the codes of a level that it [has](Self::level_of); of all codes that were given out until now.
    pub fn new(table: &TableDef, place: usize, level: usize, dictionaries: &Dictionaries) -> Result<CodedColumn> {
        let column = &table.columns[place];
        // In this order: the codes' values may get more in between, and then the codes have first ones, too.
        let values = dictionaries.value_array(level)?;
        let first_codes = dictionaries.first_codes(level);
        let (storage_name, nullable) = (column.storage_name.clone(), column.nullable);
        Ok(CodedColumn { storage_name, place, nullable, level, values, first_codes })
    }

    /// The values of rows with these codes.
    pub(crate) fn dictionary_array(&self, codes: &[u32]) -> Result<ArrayRef> {
        let nulls = codes.contains(&0).then(|| NullBuffer::from_iter(codes.iter().map(|&code| code != 0)));
        let keys = UInt32Array::new(codes.to_vec().into(), nulls);
        let array = DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(&self.values))
            .map_err(|error| Error::internal(format!("codes of {}: {error}", self.storage_name)))?;
        Ok(Arc::new(array))
    }

    /// The type of [`Self::dictionary_array`].
    pub(crate) fn data_type(&self) -> DataType {
        DataType::Dictionary(Box::new(DataType::UInt32), Box::new(self.values.data_type().clone()))
    }
}
