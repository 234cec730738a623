//! The section `heavy` of a side file: the heavy rows of all measures. docs/FORMAT.md has its bytes.

use super::{Heavy, blocks_of};
use crate::estimate::Known;
use crate::segment::Segment;
use crate::side::SectionKind;
use alluvia_types::Result;
use std::sync::OnceLock;

/// The section of these measures, in the order of their streams.
pub(crate) fn encode(measures: &[Heavy]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for heavy in measures {
        bytes.extend(heavy.limit.to_le_bytes());
        bytes.extend((heavy.rows.len() as u32).to_le_bytes());
        bytes.extend(heavy.rows.iter().flat_map(|row| row.to_le_bytes()));
        bytes.extend(heavy.values.iter().flat_map(|value| value.to_le_bytes()));
        for (_, Known { sum, squares, min, max }) in &heavy.light {
            bytes.extend([sum, squares, min, max].into_iter().flat_map(|number| number.to_le_bytes()));
        }
        for codes in heavy.codes.iter().filter_map(|codes| codes.get()) {
            bytes.extend(codes.iter().flat_map(|code| code.to_le_bytes()));
        }
    }
    bytes
}

/// The heavy rows of a measure, by its place, as they were written; `None` if the segment was written without.
pub(crate) fn written(segment: &Segment, measure: usize) -> Result<Option<Heavy>> {
    let side = segment.side()?;
    let Some(bytes) = segment.diagnosed(side.heavy())? else { return Ok(None) };
    let decoded = Heavy::decode(&bytes, measure, side.measures, side.levels, side.rows);
    segment.diagnosed(decoded.map(Some).map_err(|what| side.damage(SectionKind::Heavy, what)))
}

impl Heavy {
    /// Reads one of the section's measures, of a segment of so many levels and rows; `Err` says what does not hold.
    pub(crate) fn decode(
        bytes: &[u8],
        measure: usize,
        measures: usize,
        levels: usize,
        rows: u64,
    ) -> Result<Heavy, String> {
        let mut bytes = Bytes(bytes);
        let mut wanted = None;
        for at in 0..measures {
            let is_wanted = at == measure;
            let heavy = bytes.measure(levels, rows, is_wanted).map_err(|what| format!("measure {at}: {what}"))?;
            wanted = if is_wanted { Some(heavy) } else { wanted };
        }
        match wanted {
            Some(heavy) if bytes.0.is_empty() => Ok(heavy),
            Some(_) => Err("it is longer than its measures".to_owned()),
            None => Err(format!("it has no measure {measure}")),
        }
    }
}

/// What is left of a section.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// The next measure; of one that is not wanted only how long it is.
    fn measure(&mut self, levels: usize, rows_of_segment: u64, is_wanted: bool) -> Result<Heavy, String> {
        let limit = self.numbers(1)?[0];
        let count = self.words(1)?[0] as usize;
        if count == 0 {
            return if limit == f64::INFINITY {
                Ok(Heavy::none())
            } else {
                Err("a limit beyond which no row is".to_owned())
            };
        }
        let rows = self.words(count)?;
        if !rows.is_sorted_by(|a, b| a < b) || rows.last().is_some_and(|&row| u64::from(row) >= rows_of_segment) {
            return Err("its rows do not ascend within the segment".to_owned());
        }
        let values = self.numbers(count)?;
        if !values.iter().all(|value| value.is_finite() && value.abs() > limit) {
            return Err("a value is not beyond its limit".to_owned());
        }
        let blocks = blocks_of(&rows);
        let light = self.numbers(4 * blocks.len())?;
        let known = |of: &[f64; 4]| Known { sum: of[0], squares: of[1], min: of[2], max: of[3] };
        let light = blocks.into_iter().zip(light.as_chunks::<4>().0.iter().map(known)).collect();
        if !is_wanted {
            self.many::<4>(levels.saturating_mul(count))?;
            return Ok(Heavy::none());
        }
        let codes = (0..levels).map(|_| self.words(count).map(OnceLock::from)).collect::<Result<_, _>>()?;
        Ok(Heavy { limit, rows, values, light, codes })
    }

    fn words(&mut self, count: usize) -> Result<Vec<u32>, String> {
        Ok(self.many::<4>(count)?.iter().copied().map(u32::from_le_bytes).collect())
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<f64>, String> {
        Ok(self.many::<8>(count)?.iter().copied().map(f64::from_le_bytes).collect())
    }

    /// The next numbers of so many bytes each.
    fn many<const N: usize>(&mut self, count: usize) -> Result<&'a [[u8; N]], String> {
        let (numbers, rest) = self.0.split_at_checked(count.saturating_mul(N)).ok_or("it is cut off")?;
        self.0 = rest;
        Ok(numbers.as_chunks::<N>().0)
    }
}
