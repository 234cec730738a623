//! Points in three dimensions, as a Parquet file of `id, x, y, z`: a thousand clusters made here, or atoms of real trajectories.

use crate::boxes::peers::install;
use crate::retail::{Random, write_once};
use crate::{Anything, Folders};
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::Float64Type;
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const ATOMS: &str = include_str!("../../peers/atoms.py");

/// A box, its high ends not included.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Area {
    pub low: [f64; 3],
    pub high: [f64; 3],
}

impl Area {
    /// As a condition of SQL.
    pub fn condition(&self) -> String {
        let sides = ["x", "y", "z"].iter().zip(self.low.iter().zip(self.high));
        let sides = sides.map(|(name, (low, high))| format!("{name} >= {low} AND {name} < {high}"));
        sides.collect::<Vec<String>>().join(" AND ")
    }

    /// The `at`-th box within this one: of every third of them a side is 0.6, 0.4, 0.25 of the whole.
    pub fn part(&self, at: u64) -> Area {
        let share = [0.6, 0.4, 0.25][at as usize % 3];
        let mut part = *self;
        for (axis, step) in [17, 29, 41].into_iter().enumerate() {
            let span = self.high[axis] - self.low[axis];
            // Thousandths, so that every engine reads the same number.
            let thousandth = |value: f64| (value * 1e3).round() / 1e3;
            let low = self.low[axis] + span * (1.0 - share) * (at * step % 100) as f64 / 100.0;
            part.low[axis] = thousandth(low);
            part.high[axis] = thousandth(low + span * share);
        }
        part
    }
}

/// What lies in a file.
pub struct Points {
    pub file: PathBuf,
    pub count: u64,
    /// The smallest box around them.
    pub bounds: Area,
}

impl Points {
    fn of_file(file: PathBuf) -> Anything<Points> {
        let mut bounds = Area { low: [f64::INFINITY; 3], high: [f64::NEG_INFINITY; 3] };
        let mut count = 0;
        each_point(&file, |point| {
            count += 1;
            for (axis, at) in point.into_iter().enumerate() {
                bounds.low[axis] = bounds.low[axis].min(at);
                bounds.high[axis] = bounds.high[axis].max(at);
            }
        })?;
        Ok(Points { file, count, bounds })
    }

    /// Clusters, nearly normal.
    pub fn clusters(folder: &Path, count: u64) -> Anything<Points> {
        let (mut random, mut next) = (Random(5), 0);
        let schema = clusters(&mut Random(5), 0, 1)?.schema();
        let file = write_once(folder.join(format!("points-{count}.parquet")), &schema, count, |rows| {
            let batch = clusters(&mut random, next, rows)?;
            next += rows as u64;
            Ok(batch)
        })?;
        Points::of_file(file)
    }

    /// Atoms of the trajectories that MDAnalysis tests itself with, all frames, in angstroms.
    pub fn atoms(folders: &Folders) -> Anything<Points> {
        let file = folders.data.join("atoms.parquet");
        if !file.exists() {
            install("mdanalysis", folders)?;
            install("mdanalysistests", folders)?;
            let python = folders.venv.join("bin").join("python");
            let status = Command::new(python).args(["-c", ATOMS]).arg(&file).status()?;
            if !status.success() {
                return Err(format!("the atoms could not be written: {status}").into());
            }
        }
        Points::of_file(file)
    }
}

fn clusters(random: &mut Random, first: u64, rows: usize) -> Anything<RecordBatch> {
    let ids: Vec<u64> = (first..).take(rows).collect();
    let mut axis = |step: u64, span: u64| -> ArrayRef {
        // Sums of three uniform numbers.
        let mut noise = || (0..3).map(|_| (random.next() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 1.5;
        Arc::new(Float64Array::from_iter_values(ids.iter().map(|id| (id % 1_000 * step % span) as f64 + noise() * 6.0)))
    };
    let (x, y, z) = (axis(37, 101), axis(59, 103), axis(83, 107));
    let id = Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| *id as i64))) as ArrayRef;
    Ok(RecordBatch::try_from_iter([("id", id), ("x", x), ("y", y), ("z", z)])?)
}

/// Calls with every point of a file.
pub fn each_point(file: &Path, mut see: impl FnMut([f64; 3])) -> Anything<()> {
    for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?.build()? {
        let batch = batch?;
        let axis = |name: &str| {
            let column = batch.column_by_name(name).ok_or_else(|| format!("the points have no {name}"))?;
            Anything::Ok(column.as_primitive::<Float64Type>())
        };
        let (x, y, z) = (axis("x")?, axis("y")?, axis("z")?);
        (0..batch.num_rows()).for_each(|row| see([x.value(row), y.value(row), z.value(row)]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_within_the_whole() {
        let whole = Area { low: [-10.0, 0.0, 3.5], high: [10.0, 100.0, 4.5] };
        for at in 0..40 {
            let part = whole.part(at);
            for axis in 0..3 {
                assert!(part.low[axis] >= whole.low[axis] - 0.001 && part.high[axis] <= whole.high[axis] + 0.001);
                let share = (part.high[axis] - part.low[axis]) / (whole.high[axis] - whole.low[axis]);
                assert!((share - [0.6, 0.4, 0.25][at as usize % 3]).abs() < 0.002);
            }
        }
        let part = Area { low: [1.0, 2.5, 3.0], high: [2.0, 3.5, 4.0] };
        assert_eq!(part.condition(), "x >= 1 AND x < 2 AND y >= 2.5 AND y < 3.5 AND z >= 3 AND z < 4");
    }
}
