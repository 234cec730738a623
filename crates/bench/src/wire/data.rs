//! The rows of `wire`: a country, a day of 2025, a price and a quantity; as COPY's text and as Arrow streams.

use crate::Anything;
use arrow::array::{ArrayRef, Date32Array, Float64Array, Int32Array, StringArray};
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

pub const COUNTRIES: u64 = 50;
pub const DAYS: u64 = 365;
/// 2025-01-01, in days since 1970-01-01.
const FIRST_DAY: i32 = 20_089;
/// First days of months in 2025, and the last one's end.
pub const FIRSTS: [i32; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
/// Rows of a batch of an Arrow stream.
const BATCH_ROWS: usize = 65_536;
/// Bytes of a piece of COPY's text.
const PIECE_BYTES: usize = 60_000;

struct Row {
    country: u64,
    /// Of the year.
    day: i32,
    price: f64,
    quantity: i32,
}

/// A pseudo-random number of a row.
pub fn mix(at: u64) -> u64 {
    let x = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 17
}

fn row(at: u64) -> Row {
    let random = mix(at);
    Row {
        country: random % COUNTRIES,
        day: (random / 64 % DAYS) as i32,
        price: (random / 7 % 1000) as f64 + 0.25,
        quantity: (random % 9) as i32,
    }
}

/// COPY's text, in pieces that end with a line.
pub fn text(rows: Range<u64>) -> Vec<Bytes> {
    let (mut pieces, mut piece) = (Vec::new(), String::with_capacity(PIECE_BYTES + 100));
    for at in rows {
        let Row { country, day, price, quantity } = row(at);
        let month = FIRSTS.partition_point(|first| *first <= day);
        let day = 1 + day - FIRSTS[month - 1];
        let _ = writeln!(piece, "country {country}\t2025-{month:02}-{day:02}\t{price}\t{quantity}");
        if piece.len() > PIECE_BYTES {
            pieces.push(Bytes::from(std::mem::replace(&mut piece, String::with_capacity(PIECE_BYTES + 100))));
        }
    }
    pieces.push(Bytes::from(piece));
    pieces
}

/// The same rows as Arrow has them.
pub fn batch(rows: Range<u64>) -> Anything<RecordBatch> {
    let rows: Vec<Row> = rows.map(row).collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("country", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("country {}", row.country))))),
        ("day", Arc::new(Date32Array::from_iter_values(rows.iter().map(|row| FIRST_DAY + row.day)))),
        ("price", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.price)))),
        ("quantity", Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.quantity)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// The same rows as an Arrow stream.
pub fn arrow(rows: Range<u64>) -> Anything<Bytes> {
    let mut writer: Option<StreamWriter<Vec<u8>>> = None;
    for first in rows.clone().step_by(BATCH_ROWS) {
        let batch = batch(first..rows.end.min(first + BATCH_ROWS as u64))?;
        if writer.is_none() {
            writer = Some(StreamWriter::try_new(Vec::new(), &batch.schema())?);
        }
        if let Some(writer) = &mut writer {
            writer.write(&batch)?;
        }
    }
    let mut writer = writer.ok_or("a stream needs rows")?;
    writer.finish()?;
    Ok(Bytes::from(writer.into_inner()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::ipc::reader::StreamReader;
    use arrow::util::display::array_value_to_string;

    #[test]
    fn text_and_arrow_are_the_same_rows() {
        let lines: Vec<u8> = text(5..70_005).iter().flat_map(|piece| piece.to_vec()).collect();
        let lines = String::from_utf8(lines).expect("text");
        let bytes = arrow(5..70_005).expect("a stream");
        let mut left = lines.lines();
        for batch in StreamReader::try_new(&bytes[..], None).expect("a stream") {
            let batch = batch.expect("a batch");
            for at in 0..batch.num_rows() {
                let fields: Vec<&str> = left.next().expect("a line").split('\t').collect();
                assert_eq!(fields[0], batch.column(0).as_string::<i32>().value(at));
                assert_eq!(fields[1], array_value_to_string(batch.column(1), at).expect("a day"));
                let price: f64 = fields[2].parse().expect("a number");
                assert_eq!(price, batch.column(2).as_primitive::<arrow::datatypes::Float64Type>().value(at));
                assert_eq!(fields[3], array_value_to_string(batch.column(3), at).expect("a number"));
            }
        }
        assert_eq!(left.next(), None);
    }
}
