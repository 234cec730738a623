//! Segments that are written column by column are those that are written row by row.

use crate::common::*;
use alluvia_space::TableDef;
use alluvia_tree::{
    BLOCK_ROWS, BatchValues, CodedColumn, ColumnValues, LadderWriter, RowAt, RowChunk, Segment, SegmentCursor,
    SegmentMeta, SegmentValues, TreeContext, WideWriter,
};
use alluvia_types::{SegmentId, Stage};
use proptest::prelude::*;
use std::sync::Arc;

const ROWS_MIN: u64 = 20;

fn ladder(context: &TreeContext, first: u64, table: &TableDef, rows: u64, is_banded: bool) -> LadderWriter {
    let mut ids = first..;
    let new_id = || SegmentId(ids.next().expect("without end"));
    let writer = LadderWriter::create(context, new_id, table, Stage::Merged, None, rows, ROWS_MIN).expect("creates");
    if is_banded { writer.banded() } else { writer }
}

/// A chunk with the hidden columns alone.
fn narrow(chunk: &RowChunk) -> RowChunk {
    let columns = chunk.rows.num_columns();
    let rows = chunk.rows.project(&[columns - 2, columns - 1]).expect("hidden columns");
    RowChunk::new(rows, chunk.keys.clone(), chunk.codes.clone())
}

fn write_wide(
    context: &TreeContext,
    ladder: LadderWriter,
    chunk: &RowChunk,
    (inputs, at): (Box<dyn ColumnValues>, &[RowAt]),
    coded: Vec<CodedColumn>,
    piece: usize,
) -> SegmentMeta {
    let mut writer = WideWriter::new(context, ladder, inputs, coded);
    for start in (0..chunk.len()).step_by(piece) {
        let len = piece.min(chunk.len() - start);
        writer.write(&narrow(&slice(chunk, start, len)), &at[start..start + len]).expect("writes");
    }
    writer.finish().expect("finishes")
}

/// A rung of a banded segment is written in groups that end within that segment's blocks, whose keys are in no order.
#[test]
fn rungs_of_several_groups_are_those_of_rows() {
    let (count, mut random, disk) = (40 * BLOCK_ROWS + 77, Random(5), disk());
    let (context, table) = (context(&disk).with_waiting_bytes_max(1), table(true));
    let dictionaries = dictionaries(&disk, &table);
    let rows = rows(&table, &mut random, count, 50, 9, 5);
    let keys = keys(&mut random, count, 0);
    let lying = banded(&chunk(&table, &dictionaries, rows, keys), table.seed);
    let mut model = ladder(&context, 1, &table, count as u64, true);
    for start in (0..count).step_by(8 * BLOCK_ROWS) {
        model.write(&slice(&lying, start, (8 * BLOCK_ROWS).min(count - start))).expect("writes");
    }
    let model = open(&context, model.finish().expect("finishes"), &table);
    assert!(model.rungs()[0].segment.meta().rows as usize > 4 * BLOCK_ROWS, "several groups");
    let at: Vec<RowAt> = (0..count as u32).map(|row| RowAt { input: 0, row }).collect();
    let values = Box::new(BatchValues::new(vec![lying.rows.clone()], table.columns.len()));
    let writer = ladder(&context, 10_000, &table, count as u64, true);
    let wide = open(&context, write_wide(&context, writer, &lying, (values, &at), Vec::new(), 3 * BLOCK_ROWS), &table);
    assert_alike(&wide, &model, &table, &dictionaries);
}

/// Every row of a segment in key order, as a merge reads it.
fn read(segment: &Arc<Segment>, table: &TableDef, dictionaries: &alluvia_catalog::Dictionaries) -> RowChunk {
    let all = 0..segment.meta().rows;
    let cursor = SegmentCursor::new(segment, table, dictionaries, all, BLOCK_ROWS).expect("a cursor");
    join(&cursor.map(|chunk| chunk.expect("a chunk")).collect::<Vec<_>>())
}

/// All that two segments tell of themselves is the same, and so are their rungs.
fn assert_alike(
    one: &Arc<Segment>,
    other: &Arc<Segment>,
    table: &TableDef,
    dictionaries: &alluvia_catalog::Dictionaries,
) {
    let (a, b) = (one.meta(), other.meta());
    assert_eq!(
        (a.rows, a.key_min, a.key_max, a.min_version, a.max_version),
        (b.rows, b.key_min, b.key_max, b.min_version, b.max_version)
    );
    let (left, right) = (read(one, table, dictionaries), read(other, table, dictionaries));
    assert_eq!(left.rows, right.rows);
    assert_eq!((left.keys, left.codes), (right.keys, right.codes));
    let summaries = |segment: &Segment| format!("{:?}", segment.summaries().expect("summaries"));
    assert_eq!(summaries(one), summaries(other));
    assert_eq!(one.bands().expect("bands"), other.bands().expect("bands"));
    assert_eq!(one.rungs().len(), other.rungs().len());
    for (one, other) in one.rungs().iter().zip(other.rungs()) {
        assert_eq!(one.rung, other.rung);
        assert_eq!(one.segment.first_rows().expect("known"), other.segment.first_rows().expect("known"));
        assert_eq!(one.segment.places().expect("known"), other.segment.places().expect("known"));
        assert_alike(&one.segment, &other.segment, table, dictionaries);
    }
}

fn open(context: &TreeContext, meta: SegmentMeta, table: &TableDef) -> Arc<Segment> {
    let segment = Segment::open(context, meta).expect("opens");
    segment.verify(table).expect("verifies");
    segment
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn columns_make_the_segment_that_rows_make(
        seed: u64,
        count in prop_oneof![1usize..3_000, 1usize..60_000, Just(17 * BLOCK_ROWS + 5), Just(23 * BLOCK_ROWS + 7)],
        shared in prop::sample::select(vec![0u32, 100, 128]),
        waiting in prop::sample::select(vec![1usize, 40_000, 4 << 20, 64 << 20]),
        (is_banded, is_coded, of_segments) in any::<(bool, bool, bool)>(),
        batches in 1usize..5,
        piece in 1usize..4,
    ) {
        let mut random = Random(seed | 1);
        let disk = disk();
        let (context, table) = (context(&disk).with_waiting_bytes_max(waiting), table(true));
        let dictionaries = dictionaries(&disk, &table);
        let rows = rows(&table, &mut random, count, 50, 9, 5);
        let keys = keys(&mut random, count, shared);
        let ordered = chunk(&table, &dictionaries, rows, keys);
        let lying = if is_banded { banded(&ordered, table.seed) } else { ordered };
        let mut model = ladder(&context, 1, &table, count as u64, is_banded);
        model.write(&lying).expect("writes");
        let model = open(&context, model.finish().expect("finishes"), &table);

        // Each row's values lie in one of some inputs, in another order than they are written in.
        let mut inputs: Vec<Vec<u32>> = vec![Vec::new(); batches];
        for row in 0..count as u32 {
            inputs[random.below(batches as u64) as usize].push(row);
        }
        let mut at = vec![RowAt { input: 0, row: 0 }; count];
        for (input, rows) in (0..).zip(&mut inputs) {
            if !of_segments {
                rows.reverse();
            }
            for (row, &of) in (0..).zip(rows.iter()) {
                at[of as usize] = RowAt { input, row };
            }
        }
        let parts: Vec<RowChunk> = inputs.iter().map(|rows| {
            let keys = rows.iter().map(|&row| lying.keys[row as usize]).collect();
            taken(&lying, rows, keys)
        }).collect();
        let values: Box<dyn ColumnValues> = if of_segments {
            let segments = parts.iter().zip(1_000..).map(|(part, id)| {
                // Where values are read in the order of the file it does not matter in which it lies.
                let part = RowChunk { keys: (0..part.len() as u128).collect(), ..part.clone() };
                let mut writer = alluvia_tree::SegmentWriter::create(&context, SegmentId(id), &table, Stage::Sorted, None).expect("creates");
                writer.write(&part).expect("writes");
                Segment::open(&context, writer.finish().expect("finishes")).expect("opens")
            });
            Box::new(SegmentValues::new(segments.collect(), &table).expect("widths"))
        } else {
            Box::new(BatchValues::new(parts.iter().map(|part| part.rows.clone()).collect(), table.columns.len()))
        };
        let coded = |place: usize| {
            let level = CodedColumn::level_of(&table, place)?;
            Some(CodedColumn::new(&table, place, level, &dictionaries).expect("values"))
        };
        let coded = if is_coded { (0..table.columns.len()).filter_map(coded).collect() } else { Vec::new() };
        let writer = ladder(&context, 10_000, &table, count as u64, is_banded);
        let wide = write_wide(&context, writer, &lying, (values, &at), coded, piece * BLOCK_ROWS);
        let wide = open(&context, wide, &table);
        assert_alike(&wide, &model, &table, &dictionaries);
    }
}
