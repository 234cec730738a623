//! Codes of keys: 128 bits for the values that a row has in the columns of its table's primary key.
//!
//! Invariants:
//! - Equal keys have equal codes, however their columns are encoded. Equal is what SQL says of the values: -0.0 is 0.0, and
//!   every NaN is the same NaN.
//! - Where the bits of all columns fit 128 together, the code *is* the key: they are concatenated, the first column on top,
//!   each so that bits ascend as values do. Other keys have other codes, and codes ascend as keys do.
//! - All other keys are hashed: SipHash-2-4 with 128 bits, under the table's secret, over lengths and bytes that no other
//!   key of the table has. Equal codes are then taken for equal keys: two keys meet with a chance of 2^-128, and a client
//!   that does not know the secret cannot steer it.
//! - These functions never change: codes are kept.
//!
//! A key has no NULL and at most [`KEY_BYTES_MAX`] bytes, which is checked where its code is made.

mod bits;
mod show;

use crate::keywords::quoted;
use crate::schema::{DataType, PrimaryKey, TableDef};
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType as ArrowType;
use bits::Values;
use siphasher::sip128::SipHasher24;

/// The code of a key.
pub type KeyCode = u128;

/// The least code and the greatest.
pub type CodeRange = (KeyCode, KeyCode);

/// Most bytes of the values of one key.
pub const KEY_BYTES_MAX: usize = 2048;
const CODE_BITS: u32 = KeyCode::BITS;

/// Makes the codes of one table's keys.
#[derive(Clone, Debug)]
pub struct KeyCoder {
    /// What SQL calls the table.
    table: String,
    /// In the order of the key.
    columns: Vec<KeyColumn>,
    secret: [u64; 2],
}

#[derive(Clone, Debug)]
struct KeyColumn {
    name: String,
    storage_name: String,
    data_type: DataType,
    /// Bits of a value; `None` of texts and bytes, which have any number.
    bits: Option<u32>,
}

impl KeyCoder {
    /// For the keys of a table; `None` if it has none.
    pub fn new(def: &TableDef) -> Option<KeyCoder> {
        let PrimaryKey { columns, secret, .. } = def.key.as_ref()?;
        Some(KeyCoder::of_columns(def, columns, *secret))
    }

    /// For some columns of a table, which it has, as if they were its key.
    pub fn of_columns(def: &TableDef, columns: &[ColumnId], secret: [u64; 2]) -> KeyCoder {
        let column = |id| {
            let column = def.column_by_id(id).expect("a key is of columns that the table has");
            KeyColumn {
                name: column.name.clone(),
                storage_name: column.storage_name.clone(),
                data_type: column.data_type,
                bits: bits::width(column.data_type),
            }
        };
        let columns = columns.iter().map(|&id| column(id)).collect();
        KeyCoder { table: def.name.clone(), columns, secret }
    }

    /// Storage name and type of the key's columns, in the order of the key.
    pub fn columns(&self) -> impl Iterator<Item = (&str, ArrowType)> {
        self.columns.iter().map(|column| (column.storage_name.as_str(), column.data_type.to_arrow()))
    }

    /// Whether a code is its key's values, and not a hash of them: codes then ascend as keys do.
    pub fn is_exact(&self) -> bool {
        self.exact_bits().is_some()
    }

    /// The most bits that a code has.
    pub fn code_bits(&self) -> u32 {
        self.exact_bits().unwrap_or(CODE_BITS)
    }

    /// The bits of all columns together, if they fit a code.
    pub(crate) fn exact_bits(&self) -> Option<u32> {
        let mut total = 0;
        for column in &self.columns {
            total += column.bits?;
        }
        (total <= CODE_BITS).then_some(total)
    }

    /// The code of each row's key. The rows have the key's columns by storage name, in storage form or, of texts and bytes,
    /// any other that Arrow has for them; what else they have is not looked at.
    ///
    /// Errors: `NotNull` where a column of the key is NULL; `TooLarge` where a key has more than [`KEY_BYTES_MAX`] bytes.
    pub fn codes(&self, rows: &RecordBatch) -> Result<Vec<KeyCode>> {
        let values = self.values(rows)?;
        if self.is_exact() { Ok(self.exact(&values, rows.num_rows())) } else { self.hashed(&values, rows.num_rows()) }
    }

    /// Between which codes those of keys lie whose first column has a value from one to another, for each row of the two
    /// arrays of such values: `None` where one of them is NULL. `None` in all where values say nothing of codes: these are
    /// hashed, or the values are floats, whose order is not that of bounds.
    ///
    /// # Errors
    /// The arrays are not of the column's type.
    pub fn code_bounds(&self, least: &ArrayRef, most: &ArrayRef) -> Result<Option<Vec<Option<CodeRange>>>> {
        let (Some(total), Some(first)) = (self.exact_bits(), self.columns.first()) else { return Ok(None) };
        let (Some(bits), false) = (first.bits, matches!(first.data_type, DataType::Real | DataType::Double)) else {
            return Ok(None);
        };
        let rest = total - bits;
        let (lows, highs) =
            (Values::new(least.as_ref(), first.data_type)?, Values::new(most.as_ref(), first.data_type)?);
        let bounds = |row| {
            let (low, high) = (lows.bits(row) << rest, (highs.bits(row) << rest) | ((1 << rest) - 1));
            (least.is_valid(row) && most.is_valid(row)).then_some((low, high))
        };
        Ok(Some((0..least.len().min(most.len())).map(bounds).collect()))
    }

    /// Between which codes those of keys lie whose first columns have some values, and whose next column lies between two, each an array of
    /// one row, which is not NULL; inclusively, and of a bound that is not given to the end. `None` where values say nothing of codes: these
    /// are hashed, or the columns are floats, whose order is not that of bounds, or too few.
    ///
    /// # Errors
    /// The arrays are not of the columns' types.
    pub fn code_range(
        &self,
        first: &[ArrayRef],
        (least, most): (Option<&ArrayRef>, Option<&ArrayRef>),
    ) -> Result<Option<CodeRange>> {
        let Some(mut rest) = self.exact_bits() else { return Ok(None) };
        let (mut low, mut high): CodeRange = (0, 0);
        let bits_of = |at: usize, value: &ArrayRef| -> Result<Option<(u128, u32)>> {
            let Some(column) = self.columns.get(at) else { return Ok(None) };
            let is_float = matches!(column.data_type, DataType::Real | DataType::Double);
            let Some(bits) = column.bits.filter(|_| !is_float && value.len() == 1 && value.is_valid(0)) else {
                return Ok(None);
            };
            Ok(Some((Values::new(value.as_ref(), column.data_type)?.bits(0), bits)))
        };
        for (at, value) in first.iter().enumerate() {
            let Some((value, bits)) = bits_of(at, value)? else { return Ok(None) };
            rest -= bits;
            (low, high) = (low | value << rest, high | value << rest);
        }
        // Ones in as many low bits; a shift by all bits is none.
        let ones = |bits: u32| if bits == 0 { 0 } else { KeyCode::MAX >> (CODE_BITS - bits) };
        let (mut below, mut above) = (0, ones(rest));
        for (bound, is_least) in [(least, true), (most, false)] {
            let Some(bound) = bound else { continue };
            let Some((value, bits)) = bits_of(first.len(), bound)? else { return Ok(None) };
            let behind = rest - bits;
            match is_least {
                true => below = value << behind,
                false => above = value << behind | ones(behind),
            }
        }
        Ok(Some((low | below, high | above)))
    }

    /// The storage name of the key's first column.
    pub fn first_column(&self) -> Option<&str> {
        self.columns.first().map(|column| column.storage_name.as_str())
    }

    /// The key of a row as PostgreSQL's details show it: `(id, day)=(3, 2026-01-01)`. The rows are such as
    /// [`KeyCoder::codes`] takes; a value that cannot be read shows as `?`.
    pub fn show(&self, rows: &RecordBatch, row: usize) -> String {
        let of_column = |column: &KeyColumn| match rows.column_by_name(&column.storage_name) {
            Some(array) => show::value(array.as_ref(), column.data_type, row),
            None => "?".to_owned(),
        };
        let values: Vec<String> = self.columns.iter().map(of_column).collect();
        format!("({})=({})", self.names(), values.join(", "))
    }

    /// The key's columns as SQL calls them.
    fn names(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        names.join(", ")
    }

    /// The key's columns of some rows, none of them NULL.
    fn values<'a>(&self, rows: &'a RecordBatch) -> Result<Vec<Values<'a>>> {
        let mut all = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let Some(array) = rows.column_by_name(&column.storage_name) else {
                let message = format!("rows of table {} came without key column {}", self.table, column.storage_name);
                return Err(Error::internal(message));
            };
            if array.logical_null_count() > 0 {
                let message = format!("table {}: NULL in column {} of its primary key", self.table, column.name);
                return Err(Error::new(ErrorKind::NotNull, message)
                    .with_hint(format!("give every row a value in each of ({})", self.names())));
            }
            let values = Values::new(array.as_ref(), column.data_type);
            all.push(values.map_err(|error| error.at(format!("table {}, column {}", self.table, column.name)))?);
        }
        Ok(all)
    }

    fn exact(&self, values: &[Values], rows: usize) -> Vec<KeyCode> {
        let mut codes = vec![0; rows];
        for (column, values) in self.columns.iter().zip(values) {
            let bits = column.bits.unwrap_or(CODE_BITS);
            for (row, code) in codes.iter_mut().enumerate() {
                // A column of 128 bits is the only one.
                *code = KeyCode::checked_shl(*code, bits).unwrap_or(0) | values.bits(row);
            }
        }
        codes
    }

    fn hashed(&self, values: &[Values], rows: usize) -> Result<Vec<KeyCode>> {
        let hasher = SipHasher24::new_with_keys(self.secret[0], self.secret[1]);
        let mut codes = Vec::with_capacity(rows);
        let mut encoded = Vec::new();
        for row in 0..rows {
            encoded.clear();
            let mut lengths = 0;
            for (column, values) in self.columns.iter().zip(values) {
                match column.bits {
                    Some(bits) => {
                        encoded.extend_from_slice(&values.bits(row).to_le_bytes()[..bits.div_ceil(8) as usize]);
                    }
                    None => {
                        let bytes = values.bytes(row);
                        if bytes.len() > KEY_BYTES_MAX {
                            return Err(self.too_large(bytes.len()));
                        }
                        encoded.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                        encoded.extend_from_slice(bytes);
                        lengths += size_of::<u32>();
                    }
                }
            }
            if encoded.len() - lengths > KEY_BYTES_MAX {
                return Err(self.too_large(encoded.len() - lengths));
            }
            codes.push(hasher.hash(&encoded).as_u128());
        }
        Ok(codes)
    }

    fn too_large(&self, bytes: usize) -> Error {
        let what = format!("a key of {bytes} bytes is too large for the primary key ({})", self.names());
        Error::new(ErrorKind::TooLarge, format!("table {}: {what}", self.table)).with_hint(format!(
            "a key has at most {KEY_BYTES_MAX} bytes; make it of ids and names, and keep long texts in other columns"
        ))
    }
}

#[cfg(test)]
mod tests;
