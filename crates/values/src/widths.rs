//! How many bytes the values of a column have once each of them is written out.
//!
//! Invariants:
//! - A width is known before anything is written out: nothing is cast, copied or gathered to know it.
//! - What rows share is counted once for each row that has it: the value of a dictionary's key, of a run, or of a view. A message of 760
//!   bytes may say the same 4 MB thirty thousand times.
//! - Sums saturate, and NULL comes to nothing where it is told from a value by more than its place.
//!
//! Whatever makes plain columns of rows from elsewhere takes them in [`pieces`], so that what it makes at a time is bounded whatever came.

use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteArray, GenericByteViewArray, OffsetSizeTrait, RecordBatch, RunArray,
};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, Int16Type, Int32Type,
    Int64Type, LargeBinaryType, LargeUtf8Type, RunEndIndexType, StringViewType, Utf8Type,
};
use std::ops::Range;

/// What rows come to that are cast, copied or staged at a time: more than a batch of rows of the usual width.
pub const PIECE_BYTES: u64 = 32 << 20;
/// And how many rows at most: columns that they lack are made for them, and those of NULL take room that they came without.
const PIECE_ROWS: usize = 1 << 16;
/// The most that one row may come to.
const ROW_BYTES_MAX: u64 = 1 << 30;

/// The width of each value of a column.
pub enum Widths {
    /// All values have one.
    Same {
        /// The width of each value, in bytes.
        bytes: u64,
        /// The number of values.
        rows: usize,
    },
    /// As many as there are values.
    Each(Vec<u64>),
}

impl Widths {
    /// Those of a column.
    pub fn of(array: &dyn Array) -> Widths {
        let rows = array.len();
        match array.data_type() {
            DataType::Null => Widths::Same { bytes: 0, rows },
            DataType::Boolean => Widths::Same { bytes: 1, rows },
            DataType::FixedSizeBinary(bytes) => Widths::Same { bytes: u64::try_from(*bytes).unwrap_or(0), rows },
            DataType::Utf8 => of_bytes(array.as_bytes_opt::<Utf8Type>(), rows),
            DataType::LargeUtf8 => of_bytes(array.as_bytes_opt::<LargeUtf8Type>(), rows),
            DataType::Binary => of_bytes(array.as_bytes_opt::<BinaryType>(), rows),
            DataType::LargeBinary => of_bytes(array.as_bytes_opt::<LargeBinaryType>(), rows),
            DataType::Utf8View => of_views(array.as_byte_view_opt::<StringViewType>(), rows),
            DataType::BinaryView => of_views(array.as_byte_view_opt::<BinaryViewType>(), rows),
            DataType::Dictionary(..) => of_dictionary(array),
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => of_runs(array.as_run_opt::<Int16Type>(), rows),
                DataType::Int32 => of_runs(array.as_run_opt::<Int32Type>(), rows),
                _ => of_runs(array.as_run_opt::<Int64Type>(), rows),
            },
            DataType::List(_) => of_lists::<i32>(array),
            DataType::LargeList(_) => of_lists::<i64>(array),
            DataType::FixedSizeList(..) => of_fixed_lists(array),
            DataType::Struct(_) => of_structs(array),
            DataType::Map(..) => of_maps(array),
            known => match known.primitive_width() {
                Some(bytes) => Widths::Same { bytes: bytes as u64, rows },
                None => spread(array),
            },
        }
    }

    /// That of one value.
    pub fn at(&self, row: usize) -> u64 {
        match self {
            Widths::Same { bytes, .. } => *bytes,
            Widths::Each(all) => all[row],
        }
    }

    /// That of all values together.
    pub fn sum(&self) -> u64 {
        match self {
            Widths::Same { bytes, rows } => bytes.saturating_mul(*rows as u64),
            Widths::Each(all) => sum(all.iter().copied()),
        }
    }

    /// That of the widest value.
    fn widest(&self) -> u64 {
        match self {
            Widths::Same { bytes, rows } => {
                if *rows == 0 {
                    0
                } else {
                    *bytes
                }
            }
            Widths::Each(all) => all.iter().copied().max().unwrap_or(0),
        }
    }

    fn within(&self, rows: Range<usize>) -> u64 {
        match self {
            Widths::Same { bytes, .. } => bytes.saturating_mul(rows.len() as u64),
            Widths::Each(all) => sum(all[rows].iter().copied()),
        }
    }
}

fn sum(widths: impl Iterator<Item = u64>) -> u64 {
    widths.fold(0, u64::saturating_add)
}

/// By the validity of `array`, NULL comes to nothing.
fn each(array: &dyn Array, width: impl Fn(usize) -> u64) -> Widths {
    let all = 0..array.len();
    Widths::Each(match array.nulls() {
        Some(nulls) => all.map(|row| if nulls.is_null(row) { 0 } else { width(row) }).collect(),
        None => all.map(width).collect(),
    })
}

fn of_bytes<T: ByteArrayType>(array: Option<&GenericByteArray<T>>, rows: usize) -> Widths {
    match array {
        None => Widths::Same { bytes: 0, rows },
        Some(array) => each(array, |row| array.value_length(row).as_usize() as u64),
    }
}

fn of_views<T: ByteViewType + ?Sized>(array: Option<&GenericByteViewArray<T>>, rows: usize) -> Widths {
    match array {
        None => Widths::Same { bytes: 0, rows },
        // The lower half of a view's first word is its length.
        Some(array) => each(array, |row| u64::from(array.views()[row] as u32)),
    }
}

fn of_dictionary(array: &dyn Array) -> Widths {
    let rows = array.len();
    let Some(dictionary) = array.as_any_dictionary_opt().filter(|dictionary| !dictionary.values().is_empty()) else {
        return Widths::Same { bytes: 0, rows };
    };
    let (values, keys) = (Widths::of(dictionary.values().as_ref()), dictionary.normalized_keys());
    match values {
        Widths::Same { bytes, .. } => Widths::Same { bytes, rows },
        Widths::Each(values) => each(array, |row| values[keys[row]]),
    }
}

fn of_runs<R: RunEndIndexType>(array: Option<&RunArray<R>>, rows: usize) -> Widths {
    let Some(array) = array else { return Widths::Same { bytes: 0, rows } };
    let values = match Widths::of(array.values_slice().as_ref()) {
        Widths::Same { bytes, .. } => return Widths::Same { bytes, rows },
        Widths::Each(values) => values,
    };
    let mut all = Vec::with_capacity(rows);
    for (width, end) in values.into_iter().zip(array.run_ends().sliced_values()) {
        all.resize(end.as_usize().max(all.len()), width);
    }
    Widths::Each(all)
}

fn of_lists<O: OffsetSizeTrait>(array: &dyn Array) -> Widths {
    let lists = array.as_list::<O>();
    let elements = Widths::of(lists.values().as_ref());
    let offsets = lists.value_offsets();
    each(array, |row| elements.within(offsets[row].as_usize()..offsets[row + 1].as_usize()))
}

fn of_fixed_lists(array: &dyn Array) -> Widths {
    let lists = array.as_fixed_size_list();
    let elements = Widths::of(lists.values().as_ref());
    let count = lists.value_length().as_usize();
    // NULL has its elements, too.
    Widths::Each((0..array.len()).map(|row| elements.within(row * count..(row + 1) * count)).collect())
}

fn of_structs(array: &dyn Array) -> Widths {
    let fields: Vec<Widths> = array.as_struct().columns().iter().map(|field| Widths::of(field.as_ref())).collect();
    Widths::Each((0..array.len()).map(|row| sum(fields.iter().map(|field| field.at(row)))).collect())
}

fn of_maps(array: &dyn Array) -> Widths {
    let maps = array.as_map();
    let entries = of_structs(maps.entries());
    let offsets = maps.value_offsets();
    each(array, |row| entries.within(offsets[row].as_usize()..offsets[row + 1].as_usize()))
}

/// Of what has no width by row its memory, spread over the rows.
fn spread(array: &dyn Array) -> Widths {
    let rows = array.len();
    Widths::Same { bytes: (array.get_array_memory_size() as u64).div_ceil(rows.max(1) as u64), rows }
}

/// What all values of a column come to at most: exactly so, or where values are shared as if each were as wide as the widest. It is read
/// where no figure for each row has to be kept.
fn at_most(array: &dyn Array) -> u64 {
    let rows = array.len() as u64;
    match array.data_type() {
        DataType::Utf8View => lengths(array.as_byte_view_opt::<StringViewType>()),
        DataType::BinaryView => lengths(array.as_byte_view_opt::<BinaryViewType>()),
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary_opt().map(|dictionary| Widths::of(dictionary.values().as_ref()));
            values.map_or(0, |values| values.widest()).saturating_mul(rows)
        }
        _ => Widths::of(array).sum(),
    }
}

fn lengths<T: ByteViewType + ?Sized>(array: Option<&GenericByteViewArray<T>>) -> u64 {
    array.map_or(0, |array| array.lengths().map(u64::from).sum())
}

/// What all rows come to when each value is written out, however many of them share it.
pub fn written_bytes(rows: &RecordBatch) -> u64 {
    sum(rows.columns().iter().map(|column| Widths::of(column.as_ref()).sum()))
}

/// Where rows are cut so that each piece is of [`PIECE_ROWS`] at most, which come to [`PIECE_BYTES`] at most, or of one row.
pub struct Pieces {
    /// Behind the last row of each piece.
    ends: Vec<usize>,
}

impl Pieces {
    /// Those of a batch; `before` is how many rows came before it, if that is known. A row that no piece may hold is refused.
    pub fn of(columns: &[ArrayRef], rows: usize, before: Option<u64>) -> Result<Pieces> {
        let mut ends = Vec::new();
        // Usually there is one, and what is cheaper to know says so.
        if rows > PIECE_ROWS || sum(columns.iter().map(|column| at_most(column.as_ref()))) > PIECE_BYTES {
            let widths: Vec<Widths> = columns.iter().map(|column| Widths::of(column.as_ref())).collect();
            let (mut from, mut piece): (usize, u64) = (0, 0);
            for row in 0..rows {
                let width = sum(widths.iter().map(|column| column.at(row)));
                if width > ROW_BYTES_MAX {
                    return Err(too_wide(before.map(|before| before.saturating_add(row as u64 + 1)), width));
                }
                piece = piece.saturating_add(width);
                if row > from && (piece > PIECE_BYTES || row - from == PIECE_ROWS) {
                    ends.push(row);
                    (from, piece) = (row, width);
                }
            }
        }
        ends.extend(Some(rows).filter(|rows| *rows > 0));
        Ok(Pieces { ends })
    }

    /// As ranges of rows.
    pub fn ranges(self) -> impl Iterator<Item = Range<usize>> + Send {
        let mut from = 0;
        self.ends.into_iter().map(move |end| std::mem::replace(&mut from, end)..end)
    }
}

/// The rows in [`Pieces`]; `before` as there.
pub fn pieces(rows: &RecordBatch, before: Option<u64>) -> Result<impl Iterator<Item = RecordBatch> + Send + use<>> {
    let ranges = Pieces::of(rows.columns(), rows.num_rows(), before)?.ranges();
    let rows = rows.clone();
    Ok(ranges.map(move |range| rows.slice(range.start, range.len())))
}

fn too_wide(row: Option<u64>, bytes: u64) -> Error {
    let row = row.map_or_else(|| "a row".to_owned(), |row| format!("row {row}"));
    let message = format!("{row} comes to {bytes} bytes, and one of more than {} MB is not taken", ROW_BYTES_MAX >> 20);
    Error::new(ErrorKind::TooLarge, message).with_hint("shorten its values, or put them into several rows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BinaryArray, BooleanArray, DictionaryArray, Int32Array, Int64Array, ListArray, StringArray, StringViewArray,
        StructArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::compute::cast;
    use arrow::datatypes::Field;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn widths(array: &dyn Array) -> Vec<u64> {
        let widths = Widths::of(array);
        let all: Vec<u64> = (0..array.len()).map(|row| widths.at(row)).collect();
        assert_eq!(widths.sum(), all.iter().sum::<u64>());
        assert!(at_most(array) >= widths.sum());
        all
    }

    fn runs(ends: Vec<i32>, values: &dyn Array) -> ArrayRef {
        Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), values).unwrap())
    }

    #[test]
    fn a_value_counts_for_every_row_that_has_it() {
        let values = StringArray::from(vec![Some("four"), None, Some("a text that is in no view itself")]);
        let keys = Int32Array::from(vec![Some(0), Some(2), None, Some(1), Some(2)]);
        let dictionary = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(values.clone())).unwrap();
        assert_eq!(widths(&dictionary), [4, 32, 0, 0, 32]);
        assert_eq!(widths(&dictionary.slice(1, 2)), [32, 0]);
        assert_eq!(widths(cast(&dictionary, &DataType::Utf8View).unwrap().as_ref()), [4, 32, 0, 0, 32]);
        let of_runs = runs(vec![2, 3, 6], &values);
        assert_eq!(widths(of_runs.as_ref()), [4, 4, 0, 32, 32, 32]);
        assert_eq!(widths(of_runs.slice(1, 3).as_ref()), [4, 0, 32]);
        // A dictionary of runs' values.
        assert_eq!(widths(runs(vec![1, 4], &dictionary.slice(0, 2)).as_ref()), [4, 32, 32, 32]);
        let empty = DictionaryArray::<Int32Type>::try_new(
            Int32Array::from(vec![None, None]),
            Arc::new(StringArray::from(Vec::<&str>::new())),
        );
        assert_eq!(widths(&empty.unwrap()), [0, 0]);
    }

    #[test]
    fn elements_and_fields_count_for_what_has_them() {
        let values = BinaryArray::from_iter_values([&b"one"[..], b"three", b"", b"seven"]);
        let field = Arc::new(Field::new_list_field(DataType::Binary, true));
        let offsets = OffsetBuffer::from_lengths([2, 0, 2]);
        let lists = ListArray::new(field, offsets, Arc::new(values), None);
        assert_eq!(widths(&lists), [8, 0, 5]);
        assert_eq!(widths(&lists.slice(1, 2)), [0, 5]);
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let fields = [("flag", DataType::Boolean, flags), ("number", DataType::Int64, numbers)];
        let structs: StructArray = fields
            .into_iter()
            .map(|(name, data_type, array)| (Arc::new(Field::new(name, data_type, true)), array))
            .collect::<Vec<_>>()
            .into();
        assert_eq!(widths(&structs), [9, 9, 9]);
    }

    /// One value of so many bytes, so many times, in a body of hardly more than the value.
    fn repeated(bytes: usize, rows: usize) -> RecordBatch {
        let keys = Int32Array::from(vec![0; rows]);
        let value = Arc::new(StringArray::from(vec!["x".repeat(bytes)]));
        let column: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(keys, value).unwrap());
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    }

    #[test]
    fn rows_come_in_pieces_of_bounded_bytes() {
        let batch = repeated(1 << 20, 100);
        assert_eq!(written_bytes(&batch), 100 << 20);
        let counts: Vec<usize> = pieces(&batch, None).unwrap().map(|piece| piece.num_rows()).collect();
        assert_eq!(counts, [32, 32, 32, 4]);
        let wide = repeated(40 << 20, 3);
        assert_eq!(pieces(&wide, None).unwrap().map(|piece| piece.num_rows()).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(pieces(&repeated(10, 1_000), None).unwrap().count(), 1);
        assert_eq!(pieces(&batch.slice(0, 0), None).unwrap().count(), 0);
        let many = repeated(1, PIECE_ROWS * 2 + 1);
        let rows: Vec<usize> = pieces(&many, None).unwrap().map(|piece| piece.num_rows()).collect();
        assert_eq!(rows, [PIECE_ROWS, PIECE_ROWS, 1]);
    }

    #[test]
    fn a_row_that_no_piece_may_hold_is_refused_by_its_number() {
        let column = Arc::clone(repeated(64 << 20, 3).column(0));
        let many = RecordBatch::try_from_iter((0..17).map(|at| (format!("c{at}"), Arc::clone(&column)))).unwrap();
        let Err(error) = pieces(&many, Some(7)) else { panic!("it is taken") };
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.message().starts_with("row 8 comes to ") && error.hint().is_some(), "{error}");
    }

    proptest! {
        #[test]
        fn widths_are_those_of_plain_values(
            rows in prop::collection::vec(prop::option::of("[a-zß]{0,20}"), 0..40),
            from in 0_usize..40,
        ) {
            let plain: StringArray = rows.iter().map(Option::as_deref).collect();
            let from = from.min(plain.len());
            let length = |row: &Option<String>| row.as_ref().map_or(0, |text| text.len() as u64);
            let expected: Vec<u64> = rows[from..].iter().map(length).collect();
            let coded = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
            for to in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::Binary, coded] {
                let array = cast(&plain, &to).unwrap();
                prop_assert_eq!(&widths(array.slice(from, plain.len() - from).as_ref()), &expected, "{}", to);
            }
            let views: StringViewArray = rows.iter().map(Option::as_deref).collect();
            prop_assert_eq!(widths(&views), widths(&plain));
        }
    }
}
