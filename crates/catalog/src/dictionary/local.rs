//! Local ids: small dense numbers for the values of one column of a batch.
//!
//! Invariants:
//! - Id 0 is NULL; other ids are given in order of first appearance, so they depend on the rows alone.
//! - Rows of equal ids have equal values. The converse does not always hold: a dictionary may hold a value twice, and
//!   telling would cost a hash table of its own. Both ids come to the same member later.
//!
//! This is where a batch of a million rows comes down to its distinct values, without any lock. A dictionary-encoded
//! column costs one table look-up a row, a plain one a hash of each row's value.

use super::value::{Distinct, Shape, Value, double_bits, real_bits};
use alluvia_space::DataType;
use alluvia_space::data_type::UUID_BYTES;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, GenericByteViewArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ByteViewType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt32Type,
};
use hashbrown::HashTable;

/// Values whose range is at most this wide are numbered through a table instead of a hash, where there are rows enough
/// to use it.
const NARROW: u64 = 1 << 16;

/// Places of a table that a row pays for.
const PLACES_PER_ROW: u64 = 16;

/// Distinct values for which there is room from the start: few batches have more than this, and an index that grows is
/// made anew.
const ROOM: usize = 256;

/// A column's rows as local ids, and what the ids stand for.
#[derive(Debug)]
pub(crate) struct Local<'a> {
    /// One id per row.
    pub(crate) ids: Vec<u32>,
    /// The value of id `i` is in place `i - 1`.
    pub(crate) distinct: Distinct<'a>,
}

/// Brings a column to a form that [`local_ids`] takes: storage type, or text or binary in a dictionary with 32-bit
/// keys.
pub(crate) fn prepare(array: &ArrayRef, data_type: DataType) -> Result<ArrayRef> {
    let stored = data_type.to_arrow();
    let bytes = Shape::of(data_type) == Shape::Bytes;
    let fits = match array.data_type() {
        ArrowType::Dictionary(key, value) => {
            bytes
                && matches!(**key, ArrowType::Int32 | ArrowType::UInt32)
                && matches!(**value, ArrowType::Utf8 | ArrowType::Utf8View | ArrowType::Binary | ArrowType::BinaryView)
        }
        ArrowType::Timestamp(unit, _) => matches!(&stored, ArrowType::Timestamp(stored, _) if stored == unit),
        other => *other == stored,
    };
    if fits { Ok(array.clone()) } else { convert(array, &stored) }
}

/// As [`prepare`], for values of a predicate: refuses those that no value of the column is equal to.
pub(crate) fn prepare_exact(array: &ArrayRef, data_type: DataType) -> Result<ArrayRef> {
    let prepared = prepare(array, data_type)?;
    if prepared.data_type() != array.data_type() && convert(&prepared, array.data_type())?.to_data() != array.to_data()
    {
        let message = format!("not all values of type {} are values of {}", array.data_type(), data_type.sql_name());
        return Err(Error::new(ErrorKind::DatatypeMismatch, message));
    }
    Ok(prepared)
}

fn convert(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(|error| {
        Error::new(ErrorKind::DatatypeMismatch, format!("{} cannot be taken as {to}: {error}", array.data_type()))
    })
}

/// Numbers the rows of a column that was [`prepare`]d.
pub(crate) fn local_ids(array: &ArrayRef, data_type: DataType) -> Local<'_> {
    use DataType::*;
    match data_type {
        // No level is of the last two.
        Text | Binary | Char | Json | Jsonb => match array.data_type() {
            ArrowType::Dictionary(key, _) => {
                let (keys, values) = match **key {
                    ArrowType::Int32 => {
                        let array = array.as_dictionary::<Int32Type>();
                        // Keys are not negative; those of NULL rows are not looked at.
                        (array.keys().values().inner().typed_data::<u32>(), array.values())
                    }
                    _ => {
                        let array = array.as_dictionary::<UInt32Type>();
                        (&array.keys().values()[..], array.values())
                    }
                };
                of_dictionary(keys, array.nulls(), values)
            }
            ArrowType::BinaryView => of_views(array.as_binary_view(), |at| array.as_binary_view().value(at)),
            _ => of_views(array.as_string_view(), |at| array.as_string_view().value(at).as_bytes()),
        },
        Boolean => {
            let values = array.as_boolean();
            of_words(values.iter().map(|value| u64::from(value.unwrap_or(false))), array.nulls())
        }
        Int16 => signed::<Int16Type>(array),
        Int32 => signed::<Int32Type>(array),
        Int64 => signed::<Int64Type>(array),
        Date => signed::<Date32Type>(array),
        Timestamp | TimestampTz => signed::<TimestampMicrosecondType>(array),
        Real => of_words(array.as_primitive::<Float32Type>().values().iter().map(|&v| real_bits(v)), array.nulls()),
        Double => of_words(array.as_primitive::<Float64Type>().values().iter().map(|&v| double_bits(v)), array.nulls()),
        Time => signed::<Time64MicrosecondType>(array),
        Uuid => {
            let values = array.as_fixed_size_binary();
            let (chunks, _) = values.value_data().as_chunks::<{ UUID_BYTES as usize }>();
            of_wide(chunks.iter().map(|bytes| u128::from_be_bytes(*bytes)), array.nulls())
        }
        Interval => of_words(std::iter::repeat_n(0, array.len()), array.nulls()),
        Decimal { .. } | Numeric => {
            let values = array.as_primitive::<Decimal128Type>().values();
            of_wide(values.iter().map(|&value| value as u128), array.nulls())
        }
    }
}

fn of_wide<'a>(values: impl Iterator<Item = u128>, nulls: Option<&NullBuffer>) -> Local<'a> {
    let mut numbers = Numbers::default();
    let ids = number(values, nulls, |value| numbers.id(value));
    Local { ids, distinct: Distinct::Wide(numbers.distinct) }
}

fn signed<T: ArrowPrimitiveType>(array: &ArrayRef) -> Local<'_>
where
    T::Native: Into<i64>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    of_words(array.values().iter().map(|&value| value.into() as u64), array.nulls())
}

/// One id per value; 0 where the row is NULL.
fn number<V>(values: impl Iterator<Item = V>, nulls: Option<&NullBuffer>, mut id: impl FnMut(V) -> u32) -> Vec<u32> {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => values.map(id).collect(),
        Some(nulls) => values.zip(nulls.iter()).map(|(value, valid)| if valid { id(value) } else { 0 }).collect(),
    }
}

/// Ids of the values met so far.
struct Numbers<V> {
    index: HashTable<(u32, u32)>,
    distinct: Vec<V>,
    last: Option<(V, u32)>,
}

impl<V> Default for Numbers<V> {
    fn default() -> Self {
        Numbers { index: HashTable::new(), distinct: Vec::new(), last: None }
    }
}

impl<V: Value + PartialEq> Numbers<V> {
    fn id(&mut self, value: V) -> u32 {
        if let Some((last, id)) = self.last
            && last == value
        {
            return id;
        }
        let id = self.id_hashed(value, value.hash());
        self.last = Some((value, id));
        id
    }

    fn id_hashed(&mut self, value: V, hash: u64) -> u32 {
        let short = hash as u32;
        if let Some(&(_, id)) = self.index.find(hash, |&(h, id)| h == short && self.distinct[id as usize - 1] == value)
        {
            return id;
        }
        self.distinct.push(value);
        let id = self.distinct.len() as u32;
        let Numbers { index, distinct, .. } = self;
        index.insert_unique(hash, (short, id), |&(_, id)| distinct[id as usize - 1].hash());
        id
    }
}

fn of_words<'a>(words: impl Iterator<Item = u64>, nulls: Option<&NullBuffer>) -> Local<'a> {
    let words: Vec<u64> = words.collect();
    // Order-preserving for signed numbers; for floats any range will do.
    let place = |word: u64| word ^ 1 << 63;
    let bounds = words.iter().fold((u64::MAX, 0), |(low, high), &word| (place(word).min(low), place(word).max(high)));
    let narrow = NARROW.min(words.len() as u64 * PLACES_PER_ROW);
    if !words.is_empty() && bounds.1 - bounds.0 < narrow {
        let mut table = vec![0u32; (bounds.1 - bounds.0) as usize + 1];
        let mut distinct = Vec::new();
        let ids = number(words.into_iter(), nulls, |word| {
            let id = &mut table[(place(word) - bounds.0) as usize];
            if *id == 0 {
                distinct.push(word);
                *id = distinct.len() as u32;
            }
            *id
        });
        return Local { ids, distinct: Distinct::Words(distinct) };
    }
    let mut numbers = Numbers::default();
    let ids = number(words.into_iter(), nulls, |word| numbers.id(word));
    Local { ids, distinct: Distinct::Words(numbers.distinct) }
}

fn of_dictionary<'a>(keys: &[u32], nulls: Option<&NullBuffer>, values: &'a ArrayRef) -> Local<'a> {
    match values.data_type() {
        ArrowType::Utf8 => of_entries(keys, nulls, values, |at| values.as_string::<i32>().value(at).as_bytes()),
        ArrowType::Binary => of_entries(keys, nulls, values, |at| values.as_binary::<i32>().value(at)),
        ArrowType::Utf8View => of_entries(keys, nulls, values, |at| values.as_string_view().value(at).as_bytes()),
        _ => of_entries(keys, nulls, values, |at| values.as_binary_view().value(at)),
    }
}

/// Numbers the entries of a dictionary that rows use.
fn of_entries<'a>(
    keys: &[u32],
    nulls: Option<&NullBuffer>,
    values: &'a ArrayRef,
    value: impl Fn(usize) -> &'a [u8],
) -> Local<'a> {
    let mut distinct: Vec<&'a [u8]> = Vec::new();
    let mut entry = |key: u32| {
        if values.is_null(key as usize) {
            return 0;
        }
        distinct.push(value(key as usize));
        distinct.len() as u32
    };
    let keys = keys.iter().copied();
    // A table as long as the dictionary pays only where there are rows enough to use it.
    let ids = if values.len() / 4 > keys.len() {
        let mut used = Numbers::default();
        let mut entries: Vec<u32> = Vec::new();
        number(keys, nulls, |key| {
            let at = used.id(u64::from(key)) as usize - 1;
            if at == entries.len() {
                entries.push(entry(key));
            }
            entries[at]
        })
    } else {
        let mut table = vec![0u32; values.len()];
        number(keys, nulls, |key| match table[key as usize] {
            0 => {
                let id = entry(key);
                table[key as usize] = id;
                id
            }
            id => id,
        })
    };
    Local { ids, distinct: Distinct::Bytes(distinct) }
}

/// Bytes that a view holds itself.
const INLINE_MAX: u32 = 12;

/// Plain text and binary. Most names of members fit into their views: those are numbered as 128-bit words, without
/// touching the text; longer ones by their bytes.
fn of_views<'a, T: ByteViewType + ?Sized>(
    array: &GenericByteViewArray<T>,
    value: impl Fn(usize) -> &'a [u8],
) -> Local<'a> {
    let hash_of = |view: u128, bytes: &[u8]| if view as u32 <= INLINE_MAX { view.hash() } else { bytes.hash() };
    let room = array.len().min(ROOM);
    let mut index: HashTable<u32> = HashTable::with_capacity(room);
    let mut firsts: Vec<u128> = Vec::with_capacity(room);
    let mut distinct: Vec<&'a [u8]> = Vec::with_capacity(room);
    let mut last = (0, 0);
    let rows = array.views().iter().copied().enumerate();
    let ids = number(rows, array.nulls(), |(row, view)| {
        if last.0 == view && last.1 != 0 {
            return last.1;
        }
        let inline = view as u32 <= INLINE_MAX;
        let bytes: &[u8] = if inline { &[] } else { value(row) };
        let hash = hash_of(view, bytes);
        let found = index.find(hash, |&id| {
            let at = id as usize - 1;
            // The low half holds length and the first bytes: enough to tell most values apart.
            firsts[at] as u64 == view as u64 && (firsts[at] == view || (!inline && distinct[at] == bytes))
        });
        let id = match found {
            Some(&id) => id,
            None => {
                firsts.push(view);
                distinct.push(value(row));
                let id = distinct.len() as u32;
                index.insert_unique(hash, id, |&id| hash_of(firsts[id as usize - 1], distinct[id as usize - 1]));
                id
            }
        };
        last = (view, id);
        id
    });
    Local { ids, distinct: Distinct::Bytes(distinct) }
}
