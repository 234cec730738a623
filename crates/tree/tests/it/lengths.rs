//! How long a segment says that its values are.

use crate::common::*;
use alluvia_space::{DataType, TableDef};
use alluvia_tree::{KeptLengths, Segment, SegmentWriter, TreeContext, segment_schema};
use alluvia_types::{SegmentId, Stage, Version};
use arrow::array::*;
use std::sync::Arc;

/// Of four columns of text alone.
fn texts() -> TableDef {
    let mut table = table(false);
    table.columns.retain(|column| column.data_type == DataType::Text);
    table.measures.clear();
    assert_eq!(table.columns.len(), 4);
    table
}

/// A segment of short texts, of long ones, of long ones of which there are three, and of none.
fn segment(context: &TreeContext, id: u64, table: &TableDef, count: usize, long: usize) -> Arc<Segment> {
    let mut random = Random(id + 1);
    let mut text =
        |bytes: usize| (0..bytes / 16).map(|_| format!("{:016x}", random.below(u64::MAX))).collect::<String>();
    let again: Vec<String> = (0..3).map(|_| text(40_000)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values((0..count).map(|at| format!("text {at}")))),
        Arc::new(StringViewArray::from_iter_values((0..count).map(|_| text(long)))),
        Arc::new(StringViewArray::from_iter_values((0..count).map(|at| &again[at % 3]))),
        Arc::new(StringViewArray::from_iter_values((0..count).map(|_| ""))),
        Arc::new(UInt64Array::from_value(1, count)),
        Arc::new(UInt64Array::from_iter_values(0..count as u64)),
    ];
    let rows = RecordBatch::try_new(segment_schema(table), columns).expect("fits");
    let dictionaries = dictionaries(&disk(), table);
    let mut writer =
        SegmentWriter::create(context, SegmentId(id), table, Stage::Sorted, None::<Version>).expect("creates");
    writer.write(&chunk(table, &dictionaries, rows, vec![0; count])).expect("writes");
    Segment::open(context, writer.finish().expect("finishes")).expect("opens")
}

#[test]
fn values_are_as_long_as_in_the_segment_where_they_are_longest() {
    let (disk, table) = (disk(), texts());
    let context = context(&disk);
    let one = segment(&context, 1, &table, 2_000, 160);
    let bytes = |at: usize| one.value_bytes(&table.columns[at].storage_name).expect("known");
    assert!((5..40).contains(&bytes(0)) && (160..200).contains(&bytes(1)), "{} {}", bytes(0), bytes(1));
    assert!((40_000..40_100).contains(&bytes(2)), "a value that comes again is in every row: {}", bytes(2));
    assert!(bytes(3) < 10, "{}", bytes(3));
    assert_eq!(one.value_bytes("none of this name").expect("known"), 0);

    let other = segment(&context, 2, &table, 200, 8_000);
    let few = segment(&context, 3, &table, 1, 8_000);
    assert_eq!(few.value_bytes(&table.columns[1].storage_name).expect("known") / 10, 12, "one row of many");
    let kept = KeptLengths::default();
    let of =
        |segments: &[&Segment], at: usize| kept.longest(table.id, segments, &[&table.columns[at]]).expect("known")[0];
    for at in [1, 2, 1] {
        assert_eq!(of(&[&one], at), bytes(at));
        let of_both = of(&[&one, &other, &few], at);
        assert!(if at == 1 { (8_000..8_100).contains(&of_both) } else { of_both == bytes(2) }, "{at}: {of_both}");
    }
}
