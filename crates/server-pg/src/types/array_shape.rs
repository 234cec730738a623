//! Lists of lists as PostgreSQL has them: as one array of several dimensions.
//!
//! An array has a length for each dimension, and its elements in one row. So it holds lists of one length, none of them NULL, and of
//! what is empty it does not know how.

use arrow::array::{Array, AsArray, ListArray};
use std::ops::Range;

/// Where the elements of the list at `row` are among its values.
pub(super) fn range(list: &ListArray, row: usize) -> Range<usize> {
    let offsets = list.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// The lengths of the list at `row`, the outermost first, and where its elements are among the values of the innermost lists. `None`
/// if it is no array.
pub(super) fn shape(list: &ListArray, row: usize) -> Option<(Vec<usize>, Range<usize>)> {
    let mut elements = range(list, row);
    let mut lengths = vec![elements.len()];
    let mut values = list.values();
    while let Some(lists) = values.as_list_opt::<i32>().filter(|_| !elements.is_empty()) {
        let length = range(lists, elements.start).len();
        if !elements.clone().all(|at| lists.is_valid(at) && range(lists, at).len() == length) {
            return None;
        }
        // Without gaps: those in the middle end where the next ones begin.
        elements = range(lists, elements.start).start..range(lists, elements.end - 1).end;
        lengths.push(length);
        values = lists.values();
    }
    Some((lengths, elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::encode::tests::rows;
    use crate::types::{RowForm, Rows, of_field, oid};
    use crate::wire::Out;
    use alluvia_types::ErrorKind;
    use arrow::array::{ArrayRef, Int64Array, Int64Builder, ListBuilder, RecordBatch};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{DataType, Field, Schema};
    use bytes::BytesMut;
    use std::sync::Arc;

    /// Lists of lists.
    fn nested(rows: Vec<Vec<Option<Vec<i64>>>>) -> ArrayRef {
        let mut builder = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
        for row in rows {
            for list in row {
                builder.values().values().append_slice(list.as_deref().unwrap_or_default());
                builder.values().append(list.is_some());
            }
            builder.append(true);
        }
        Arc::new(builder.finish())
    }

    #[test]
    fn lists_of_lists_are_arrays_of_several_dimensions() {
        let square =
            nested(vec![vec![Some(vec![1, 2]), Some(vec![3, 4]), Some(vec![5, 6])], vec![], vec![Some(vec![])]]);
        let field = Field::new("a", square.data_type().clone(), true);
        assert_eq!(of_field(&field).0, 1016);
        let text = rows(square.clone(), false).unwrap();
        assert_eq!(text[0].as_deref().unwrap(), b"{{1,2},{3,4},{5,6}}");
        let binary = rows(square, true).unwrap();
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks(4).map(|four| u32::from_be_bytes(four.try_into().unwrap())).collect()
        };
        let found = words(binary[0].as_deref().unwrap());
        // Two dimensions, no NULLs, elements of type 20; three from 1 on, two from 1 on; and elements of eight bytes, row by row.
        assert_eq!(found[..7], [2, 0, 20, 3, 1, 2, 1]);
        let elements: Vec<u32> = (1..=6).flat_map(|value| [8, 0, value]).collect();
        assert_eq!(found[7..], elements);
        for empty in &binary[1..] {
            assert_eq!(words(empty.as_deref().unwrap()), [0, 0, 20]);
        }
    }

    #[test]
    fn a_row_that_cannot_be_written_leaves_nothing_behind() {
        let whole = || vec![Some(vec![1, 2]), Some(vec![3, 4])];
        for broken in [vec![Some(vec![1, 2]), Some(vec![3])], vec![Some(vec![1, 2]), None]] {
            let lists = nested(vec![whole(), whole(), broken, whole()]);
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
            let schema = Arc::new(Schema::new(vec![
                Field::new("number", DataType::Int64, true),
                Field::new("lists", lists.data_type().clone(), true),
            ]));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![numbers, lists]).unwrap();
            let rows = Rows::new(&batch, &schema, &[1, 1]).unwrap();
            let (mut wanted, mut out) = (BytesMut::new(), BytesMut::new());
            rows.write(0, 2, &mut wanted).unwrap();
            let error = rows.write(0, 4, &mut out).unwrap_err();
            assert_eq!((error.kind(), out), (ErrorKind::NotSupported, wanted));
            // So it is in COPY, where each row is a message, too.
            let mut form = RowForm::Binary { begun: true };
            let mut copied = Out::default();
            rows.copy(0, 2, &mut form, &mut copied).unwrap();
            let wanted = copied.bytes.clone();
            copied.bytes.clear();
            assert!(rows.copy(0, 4, &mut form, &mut copied).is_err());
            assert_eq!(copied.bytes, wanted);
        }
        // As text every list has a form.
        let ragged = nested(vec![vec![Some(vec![1, 2]), None, Some(vec![])]]);
        assert_eq!(rows(ragged, false).unwrap()[0].as_deref(), Some(&b"{{1,2},NULL,{}}"[..]));
    }

    #[test]
    fn lists_of_more_dimensions_than_an_array_has_are_text() {
        let mut lists: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        for depth in 1..=7 {
            let field = Arc::new(Field::new("item", lists.data_type().clone(), true));
            let one = OffsetBuffer::from_lengths([1]);
            lists = Arc::new(ListArray::new(field, one, lists, None));
            let type_oid = of_field(&Field::new("a", lists.data_type().clone(), true)).0;
            let binary = rows(lists.clone(), true).unwrap().remove(0).unwrap();
            if depth <= 6 {
                assert_eq!((type_oid, &binary[..4]), (1016, &[0, 0, 0, depth][..]));
            } else {
                assert_eq!((type_oid, binary), (oid::TEXT, b"{{{{{{{7}}}}}}}".to_vec()));
            }
        }
    }
}
