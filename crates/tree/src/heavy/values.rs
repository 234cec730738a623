//! Packed values of a measure, row by row, as doubles with NULL as 0: what estimates work on.

use crate::packed::{Encoding, Value, powi, value_at};
use crate::segment::{Segment, values_of};
use alluvia_types::Result;

/// Calls `each` with all rows of a segment and their values, block by block.
pub(crate) fn each_value(segment: &Segment, measure: usize, mut each: impl FnMut(usize, f64)) -> Result<()> {
    let (index, stream) = (segment.index()?, segment.measure_stream(measure)?);
    let encodings = &index.table.measures[measure].1.encodings;
    for (block, &encoding) in encodings.iter().enumerate() {
        let (count, has_nulls) = values_of(&index, measure, segment, block);
        let rows = segment.block_rows(block);
        let (first, rows) = (rows.start as usize, (rows.end - rows.start) as usize);
        each_of_block(stream.block(block), encoding, (count, has_nulls), rows, |row, value| each(first + row, value));
    }
    Ok(())
}

/// Calls `each` with all rows of a block of so many values and their values; whether it has NULLs beside them.
pub(super) fn each_of_block(
    packed: &[u8],
    encoding: Encoding,
    (count, has_nulls): (u64, bool),
    rows: usize,
    mut each: impl FnMut(usize, f64),
) {
    match count {
        0 => (0..rows).for_each(|row| each(row, 0.0)),
        _ => unpack(packed, encoding, has_nulls, rows, each),
    }
}

/// Calls `each` with all rows of a block and what [`value_of`] says of them: of each block that a merge writes, as
/// well.
fn unpack(packed: &[u8], encoding: Encoding, has_nulls: bool, rows: usize, mut each: impl FnMut(usize, f64)) {
    match encoding {
        Encoding::Integers { base, width, scale } => {
            let unit = powi(scale);
            let mut integer = |row: usize, raw: u64| {
                let value = match base.checked_add_unsigned(raw) {
                    Some(value) => value as f64,
                    None => (i128::from(base) + i128::from(raw)) as f64,
                };
                each(row, if has_nulls && raw == 0 { 0.0 } else { value / unit });
            };
            let rows = 0..rows;
            match width {
                0 => rows.for_each(|row| integer(row, 0)),
                1 => rows.zip(packed).for_each(|(row, &raw)| integer(row, raw.into())),
                2 => rows
                    .zip(packed.as_chunks::<2>().0)
                    .for_each(|(row, &raw)| integer(row, u16::from_le_bytes(raw).into())),
                4 => rows
                    .zip(packed.as_chunks::<4>().0)
                    .for_each(|(row, &raw)| integer(row, u32::from_le_bytes(raw).into())),
                _ => rows.zip(packed.as_chunks::<8>().0).for_each(|(row, &raw)| integer(row, u64::from_le_bytes(raw))),
            }
        }
        Encoding::Floats if !has_nulls => {
            let values = packed.as_chunks::<8>().0.iter().map(|&value| f64::from_le_bytes(value));
            (0..rows).zip(values).for_each(|(row, value)| each(row, value));
        }
        Encoding::Floats | Encoding::Wide => {
            (0..rows).for_each(|row| each(row, value_of(packed, encoding, has_nulls, row)));
        }
    }
}

/// The value of a row, NULL as 0.
fn value_of(packed: &[u8], encoding: Encoding, has_nulls: bool, row: usize) -> f64 {
    match value_at(packed, encoding, has_nulls, true, row) {
        Value::Null => 0.0,
        Value::Integer(value) => value as f64,
        Value::Float(value) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_are_unpacked_as_rows_are(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 16 * 20),
            base in prop_oneof![-300..300i64, Just(i64::MAX - 70), any::<i64>()],
            (kind, scale, has_nulls, rows) in (0usize..7, 0u8..=6, any::<bool>(), 0usize..=20),
        ) {
            let encoding = match [0u8, 1, 2, 4, 8].get(kind) {
                Some(&width) => Encoding::Integers { base, width, scale },
                None if kind == 5 => Encoding::Floats,
                None => Encoding::Wide,
            };
            let packed = &bytes[..rows * encoding.width()];
            let mut found = Vec::new();
            unpack(packed, encoding, has_nulls, rows, |row, value| found.push((row, value.to_bits())));
            let expected = (0..rows).map(|row| (row, value_of(packed, encoding, has_nulls, row).to_bits()));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
