//! Curve keys of rows.
//!
//! Each dimension is an axis of the curve. A path of columns concatenates hashed bits of its levels, coarse first, so that a
//! member of a coarse level is an interval of the axis; numbers and times are placed on the line of their range, which must
//! be fixed; ids give the top bits of their hash. Nothing needs a dictionary, so rows can be ordered and routed before
//! their values have codes, and no key changes when a domain grows. Two names that share hashed bits only lie beside each other:
//! summaries prune on codes.
//!
//! A table without dimensions whose primary key fits into a code has the codes of that for keys: its rows lie in the order of
//! their primary keys.
//!
//! Invariants:
//! - A key depends on the row's values and the layout alone, not on how a batch encodes them.
//! - The layout of a table never changes: it follows from levels, their bits and the fixed ranges, or from the primary key.
//! - NULL lies at the low end of each level.
//!
//! Work goes through a batch a thousand rows at a time, axis by axis into scratch arrays that stay in the nearest cache, and
//! each distinct value of a dictionary is hashed once.

use crate::codes::hash::Hashes;
use crate::curve::CurveMap;
use crate::key_code::KeyCoder;
use crate::numbers::{Numbers, Position};
use crate::schema::{KeyRange, LevelSource, TableDef};
use alluvia_types::{ColumnId, Error, Result};
use arrow::array::Array;
use arrow::record_batch::RecordBatch;

#[cfg(test)]
mod tests;

/// Rows whose coordinates are made before they are turned into keys.
const CHUNK_ROWS: usize = 1024;

/// How rows of one table become keys.
#[derive(Clone, Debug)]
pub struct KeyLayout {
    axes: Vec<Axis>,
    curve: CurveMap,
    /// Makes the keys, where there are no axes.
    codes: Option<KeyCoder>,
}

/// One dimension. Columns are storage names.
#[derive(Clone, Debug)]
enum Axis {
    /// Hashed levels, coarse first.
    Path(Vec<PathLevel>),
    /// A number, date or timestamp on its range.
    Line { column: String, range: KeyRange, bits: u8 },
    /// A hashed id.
    Hashed { column: String, bits: u8 },
}

#[derive(Clone, Debug)]
struct PathLevel {
    column: String,
    bits: u8,
    /// Bits of the levels below.
    below: u8,
}

impl KeyLayout {
    /// The layout of a valid definition. Ranges that are not fixed make `keys` fail.
    pub fn new(def: &TableDef) -> KeyLayout {
        let name = |id: ColumnId| def.column_by_id(id).map(|column| column.storage_name.clone()).unwrap_or_default();
        let mut axes = Vec::with_capacity(def.dimensions.len());
        let mut axis_bits = Vec::with_capacity(def.dimensions.len());
        for dimension in &def.dimensions {
            let bits: u8 = dimension.levels.iter().map(|level| level.bits).sum();
            axis_bits.push(bits);
            axes.push(match dimension.levels[0].source {
                LevelSource::Column(_) => {
                    let mut below = bits;
                    let level = dimension.levels.iter().map(|level| {
                        below -= level.bits;
                        PathLevel { column: name(level.source.column()), bits: level.bits, below }
                    });
                    Axis::Path(level.collect())
                }
                LevelSource::Calendar(column, _)
                | LevelSource::Local(column, _)
                | LevelSource::Halved { column, .. } => {
                    Axis::Line { column: name(column), range: dimension.range.clone(), bits }
                }
                LevelSource::Hashed { column, .. } => Axis::Hashed { column: name(column), bits },
            });
        }
        let codes = if axes.is_empty() { KeyCoder::new(def).filter(KeyCoder::is_exact) } else { None };
        KeyLayout { axes, curve: CurveMap::new(def.options.curve, &axis_bits), codes }
    }

    /// Bits of a key; keys are below 2^bits. 0 where rows have no order.
    pub fn bits_total(&self) -> u32 {
        match self.codes.as_ref().and_then(KeyCoder::exact_bits) {
            Some(bits) => bits,
            None => self.curve.bits_total(),
        }
    }

    /// The greatest key that there may be.
    pub fn last_key(&self) -> u128 {
        match self.bits_total() {
            128 => u128::MAX,
            bits => (1 << bits) - 1,
        }
    }

    /// Whether rows have an order by keys: else these are 0, and rows stay in the order of arrival.
    pub fn is_ordered(&self) -> bool {
        !self.axes.is_empty() || self.codes.is_some()
    }

    /// The curve, whose axes are the dimensions in order.
    pub fn curve(&self) -> &CurveMap {
        &self.curve
    }

    /// The keys of rows in storage form; text may be dictionary-encoded. Without an order there is the key 0 only.
    pub fn keys(&self, rows: &RecordBatch) -> Result<Vec<u128>> {
        if let Some(coder) = &self.codes {
            return coder.codes(rows);
        }
        let mut keys = vec![0; rows.num_rows()];
        if self.axes.is_empty() {
            return Ok(keys);
        }
        let readers: Vec<Reader<'_>> = self.axes.iter().map(|axis| Reader::new(axis, rows)).collect::<Result<_>>()?;
        let mut scratch = Scratch::new();
        let mut points = vec![[0; CHUNK_ROWS]; self.axes.len()];
        for (chunk, keys) in keys.chunks_mut(CHUNK_ROWS).enumerate() {
            for (reader, point) in readers.iter().zip(&mut points) {
                reader.fill(chunk * CHUNK_ROWS, &mut scratch, &mut point[..keys.len()]);
            }
            let axes: Vec<&[u32]> = points.iter().map(|point| &point[..keys.len()]).collect();
            self.curve.encode_all(&axes, keys);
        }
        Ok(keys)
    }
}

/// Space for values on their way to coordinates.
struct Scratch {
    hashes: [u64; CHUNK_ROWS],
    numbers: [f64; CHUNK_ROWS],
}

impl Scratch {
    fn new() -> Scratch {
        Scratch { hashes: [0; CHUNK_ROWS], numbers: [0.0; CHUNK_ROWS] }
    }
}

/// An axis with the batch's columns at hand.
enum Reader<'a> {
    /// Hashes, bits, bits below.
    Path(Vec<(Hashes<'a>, u8, u8)>),
    Line(Numbers<'a>, Position<'a>),
}

impl<'a> Reader<'a> {
    fn new(axis: &'a Axis, rows: &'a RecordBatch) -> Result<Reader<'a>> {
        match axis {
            Axis::Path(levels) => {
                let used = levels.iter().filter(|level| level.bits > 0);
                let levels: Result<Vec<_>> = used
                    .map(|level| Ok((Hashes::new(column(rows, &level.column)?)?, level.bits, level.below)))
                    .collect();
                Ok(Reader::Path(levels?))
            }
            Axis::Line { column: name, range, bits } => {
                Ok(Reader::Line(Numbers::new(column(rows, name)?)?, Position::new(range, *bits)?))
            }
            Axis::Hashed { column: name, bits } => {
                let used = if *bits > 0 { vec![(Hashes::new(column(rows, name)?)?, *bits, 0)] } else { Vec::new() };
                Ok(Reader::Path(used))
            }
        }
    }

    /// Coordinates from row `first` on, as many as `into` holds.
    fn fill(&self, first: usize, scratch: &mut Scratch, into: &mut [u32]) {
        match self {
            Reader::Path(levels) => {
                into.fill(0);
                let hashes = &mut scratch.hashes[..into.len()];
                for (level, bits, below) in levels {
                    level.fill(first, hashes);
                    for (into, hash) in into.iter_mut().zip(hashes.iter()) {
                        *into |= ((hash >> (64 - bits)) as u32) << below;
                    }
                }
            }
            Reader::Line(numbers, position) => {
                let values = &mut scratch.numbers[..into.len()];
                numbers.fill(first, values);
                position.fill(values, into);
            }
        }
    }
}

fn column<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a dyn Array> {
    match rows.column_by_name(name) {
        Some(column) => Ok(column.as_ref()),
        None => Err(Error::internal(format!("rows lack column {name}, of which a dimension is made"))),
    }
}
