//! Running totals of groups: what box queries, cuboids and samples add rows to.
//!
//! Invariants:
//! - Totals are sums: adding the totals of two disjoint sets of rows gives those of both, in any order. Of integers,
//!   decimals, and floats that are decimal numbers in disguise the result is the same bits whatever the order; other
//!   floats are summed with compensation, so that the order shows at most in the last place.
//! - Nothing wraps: what passes 128 bits, and NaN and infinities, which sums cannot show rightly, set
//!   [`Totals::is_spoilt`], and the caller answers by the general way.

use crate::filter::{FloatSums, PackedSums};
use crate::float_sum::Compensated;
use crate::packed::{SCALE_MAX, powi, units};
use alluvia_types::ColumnId;

/// Floats beyond this are left to the general way: sums of their squares might pass what a float holds.
pub(crate) const LARGE: f64 = 1e140;

/// What is wanted of a measure beside the count of its values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Wanted {
    /// The sum.
    pub sum: bool,
    /// The sum of squares.
    pub squares: bool,
    /// The least and the greatest value.
    pub min_max: bool,
}

impl Wanted {
    /// Whether all that `other` wants is wanted here, too.
    pub fn contains(self, other: Wanted) -> bool {
        self.sum >= other.sum && self.squares >= other.squares && self.min_max >= other.min_max
    }

    /// What either wants.
    pub fn or(self, other: Wanted) -> Wanted {
        Wanted {
            sum: self.sum || other.sum,
            squares: self.squares || other.squares,
            min_max: self.min_max || other.min_max,
        }
    }
}

/// A measure, and what is wanted of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WantedMeasure {
    /// The column.
    pub column: ColumnId,
    /// Whether it is REAL or DOUBLE.
    pub is_float: bool,
    /// What of it.
    pub wanted: Wanted,
}

/// Totals of one measure, one entry per group.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasureTotals {
    of: WantedMeasure,
    /// Values that are not NULL.
    counts: Vec<u64>,
    /// Sums of integers; of floats that are integers over a power of ten, in units of 10^-[`SCALE_MAX`].
    exact: Vec<i128>,
    /// Sums of other floats.
    raw: Vec<Compensated>,
    /// Sums of squares of integers.
    exact_squares: Vec<i128>,
    /// Sums of squares of floats.
    raw_squares: Vec<Compensated>,
    exact_bounds: Vec<(i128, i128)>,
    raw_bounds: Vec<(f64, f64)>,
}

impl MeasureTotals {
    fn new(of: WantedMeasure, groups: usize) -> MeasureTotals {
        let mut totals = MeasureTotals {
            of,
            counts: Vec::new(),
            exact: Vec::new(),
            raw: Vec::new(),
            exact_squares: Vec::new(),
            raw_squares: Vec::new(),
            exact_bounds: Vec::new(),
            raw_bounds: Vec::new(),
        };
        totals.resize(groups);
        totals
    }

    fn resize(&mut self, groups: usize) {
        let Wanted { sum, squares, min_max } = self.of.wanted;
        let float = self.of.is_float;
        let size = |wanted: bool| if wanted { groups } else { 0 };
        self.counts.resize(groups, 0);
        self.exact.resize(size(sum), 0);
        self.raw.resize(size(sum && float), Compensated::default());
        self.exact_squares.resize(size(squares && !float), 0);
        self.raw_squares.resize(size(squares && float), Compensated::default());
        self.exact_bounds.resize(size(min_max && !float), (i128::MAX, i128::MIN));
        self.raw_bounds.resize(size(min_max && float), (f64::INFINITY, f64::NEG_INFINITY));
    }

    /// What it is of.
    pub fn of(&self) -> WantedMeasure {
        self.of
    }

    /// Values of a group that are not NULL.
    pub fn count(&self, group: usize) -> u64 {
        self.counts[group]
    }

    /// The sum of an integer or decimal measure, in units of its scale.
    pub fn exact_sum(&self, group: usize) -> i128 {
        self.exact[group]
    }

    /// The sum of a float measure.
    pub fn float_sum(&self, group: usize) -> f64 {
        let mut sum = self.raw[group];
        let exact = self.exact[group];
        if exact != 0 {
            let unit = i128::from(units(0));
            // Whole and fraction apart: a sum of cents comes out as the float nearest to it.
            let nearest = exact as f64 / powi(SCALE_MAX);
            if sum == Compensated::default() {
                return nearest;
            }
            sum.add((exact / unit) as f64);
            sum.add((exact % unit) as f64 / powi(SCALE_MAX));
        }
        sum.total()
    }

    /// The sum of those floats that are no integers over a power of ten; `None` where it is not kept.
    pub(crate) fn raw_sum(&self, group: usize) -> Option<Compensated> {
        self.raw.get(group).copied()
    }

    /// The sum of squares of floats; `None` where it is not kept.
    pub(crate) fn raw_squares(&self, group: usize) -> Option<Compensated> {
        self.raw_squares.get(group).copied()
    }

    /// The sum of squares of an integer or decimal measure, in units of its scale squared.
    pub fn exact_squares(&self, group: usize) -> i128 {
        self.exact_squares[group]
    }

    /// The sum of squares of a float measure.
    pub fn float_squares(&self, group: usize) -> f64 {
        self.raw_squares[group].total()
    }

    /// The least and greatest value of an integer or decimal measure; `None` of no values.
    pub fn exact_bounds(&self, group: usize) -> Option<(i128, i128)> {
        (self.counts[group] > 0).then(|| self.exact_bounds[group])
    }

    /// The least and greatest value of a float measure; `None` of no values.
    pub fn float_bounds(&self, group: usize) -> Option<(f64, f64)> {
        (self.counts[group] > 0).then(|| self.raw_bounds[group])
    }
}

/// Totals of groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Totals {
    rows: Vec<u64>,
    measures: Vec<MeasureTotals>,
    is_spoilt: bool,
}

impl Totals {
    /// Of no rows.
    pub fn new(measures: &[WantedMeasure], groups: usize) -> Totals {
        let measures = measures.iter().map(|&of| MeasureTotals::new(of, groups)).collect();
        Totals { rows: vec![0; groups], measures, is_spoilt: false }
    }

    /// How many groups.
    pub fn groups(&self) -> usize {
        self.rows.len()
    }

    /// Makes room for more groups.
    pub(crate) fn grow(&mut self, groups: usize) {
        self.rows.resize(groups, 0);
        self.measures.iter_mut().for_each(|measure| measure.resize(groups));
    }

    /// Rows of a group.
    pub fn rows(&self, group: usize) -> u64 {
        self.rows[group]
    }

    /// The measures, in the order in which they were asked for.
    pub fn measures(&self) -> &[MeasureTotals] {
        &self.measures
    }

    /// Whether something was met that totals cannot hold.
    pub fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    /// Bytes in memory, about.
    pub fn bytes(&self) -> u64 {
        let each = |measure: &MeasureTotals| {
            8 * measure.counts.len()
                + 16 * (measure.exact.len()
                    + measure.raw.len()
                    + measure.exact_squares.len()
                    + measure.raw_squares.len())
                + 32 * measure.exact_bounds.len()
                + 16 * measure.raw_bounds.len()
        };
        (8 * self.rows.len() + self.measures.iter().map(each).sum::<usize>()) as u64
    }

    pub(crate) fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    #[inline]
    pub(crate) fn add_rows(&mut self, group: usize, rows: u64) {
        self.rows[group] += rows;
    }

    #[inline]
    pub(crate) fn add_count(&mut self, measure: usize, group: usize) {
        self.measures[measure].counts[group] += 1;
    }

    /// Adds a value of an integer measure.
    #[inline]
    pub(crate) fn add_integer(&mut self, measure: usize, group: usize, value: i128) {
        let totals = &mut self.measures[measure];
        totals.counts[group] += 1;
        if let Some(sum) = totals.exact.get_mut(group) {
            let (next, over) = sum.overflowing_add(value);
            *sum = next;
            self.is_spoilt |= over;
        }
        if let Some(sum) = totals.exact_squares.get_mut(group) {
            match value.checked_mul(value).and_then(|square| sum.checked_add(square)) {
                Some(next) => *sum = next,
                None => self.is_spoilt = true,
            }
        }
        if let Some((min, max)) = totals.exact_bounds.get_mut(group) {
            *min = value.min(*min);
            *max = value.max(*max);
        }
    }

    /// Adds a float that is an integer over 10^`scale`.
    #[inline]
    pub(crate) fn add_scaled(&mut self, measure: usize, group: usize, integer: i128, scale: u8) {
        let totals = &mut self.measures[measure];
        totals.counts[group] += 1;
        if let Some(sum) = totals.exact.get_mut(group) {
            // At most 2^53 * 10^6 a row: 2^54 rows fit.
            *sum += integer * i128::from(units(scale));
        }
        if totals.of.wanted.squares || totals.of.wanted.min_max {
            self.add_float_parts(measure, group, integer as f64 / powi(scale));
        }
    }

    /// Adds packed values that stand for `base + packed`, over 10^`scale` for floats, each to its group, where sums
    /// alone are wanted.
    pub(crate) fn add_each_packed(
        &mut self,
        measure: usize,
        values: impl Iterator<Item = (u32, u64)>,
        base: i64,
        scale: u8,
    ) {
        let totals = &mut self.measures[measure];
        let unit = if totals.of.is_float { units(scale).into() } else { 1 };
        let (counts, sums) = (&mut totals.counts, &mut totals.exact);
        for (group, packed) in values {
            let group = group as usize;
            counts[group] += 1;
            let (next, over) = sums[group].overflowing_add((i128::from(base) + i128::from(packed)) * unit);
            sums[group] = next;
            self.is_spoilt |= over;
        }
    }

    /// Adds any float.
    #[inline]
    pub(crate) fn add_float(&mut self, measure: usize, group: usize, value: f64) {
        if !value.is_finite() || value.abs() > LARGE {
            self.is_spoilt = true;
            return;
        }
        let totals = &mut self.measures[measure];
        totals.counts[group] += 1;
        if let Some(sum) = totals.raw.get_mut(group) {
            sum.add(value);
        }
        self.add_float_parts(measure, group, value);
    }

    #[inline]
    fn add_float_parts(&mut self, measure: usize, group: usize, value: f64) {
        let totals = &mut self.measures[measure];
        if let Some(sum) = totals.raw_squares.get_mut(group) {
            sum.add(value * value);
        }
        if let Some((min, max)) = totals.raw_bounds.get_mut(group) {
            *min = if value < *min { value } else { *min };
            *max = if value > *max { value } else { *max };
        }
    }

    /// Adds packed values that stand for `base + packed`, over 10^`scale` for floats.
    pub(crate) fn add_packed(&mut self, measure: usize, group: usize, sums: &PackedSums, base: i64, scale: u8) {
        if sums.count == 0 {
            return;
        }
        let totals = &mut self.measures[measure];
        let (count, base) = (i128::from(sums.count), i128::from(base));
        totals.counts[group] += sums.count;
        // A block's packed sum is below 2^77, and so is 8192 times the base.
        let total = base * count + sums.sum as i128;
        let unit = if totals.of.is_float { units(scale).into() } else { 1 };
        if let Some(sum) = totals.exact.get_mut(group) {
            match total.checked_mul(unit).and_then(|total| sum.checked_add(total)) {
                Some(next) => *sum = next,
                None => self.is_spoilt = true,
            }
        }
        if totals.of.wanted.squares {
            // Sum of (base + p)^2 = n base^2 + 2 base sum(p) + sum(p^2).
            let squares = (sums.squares_carry == 0)
                .then(|| i128::try_from(sums.squares).ok())
                .flatten()
                .and_then(|squares| (2 * base).checked_mul(sums.sum as i128)?.checked_add(squares))
                .and_then(|squares| squares.checked_add(base.checked_mul(base)?.checked_mul(count)?));
            match (squares, totals.of.is_float) {
                (None, _) => self.is_spoilt = true,
                (Some(squares), true) => totals.raw_squares[group].add(squares as f64 / powi(scale) / powi(scale)),
                (Some(squares), false) => match totals.exact_squares[group].checked_add(squares) {
                    Some(next) => totals.exact_squares[group] = next,
                    None => self.is_spoilt = true,
                },
            }
        }
        if totals.of.wanted.min_max {
            let (min, max) = (base + i128::from(sums.min), base + i128::from(sums.max));
            if totals.of.is_float {
                totals.merge_float_bounds(group, min as f64 / powi(scale), max as f64 / powi(scale));
            } else {
                totals.merge_exact_bounds(group, min, max);
            }
        }
    }

    /// Adds sums of floats.
    pub(crate) fn add_floats(&mut self, measure: usize, group: usize, sums: &FloatSums) {
        self.is_spoilt |= sums.nans + sums.infinities + sums.negative_infinities > 0;
        let (sum, squares) = (sums.sum.total(), sums.squares.total());
        self.add_float_summary(measure, group, sums.count, sum, squares.0 + squares.1, (sums.min, sums.max));
    }

    /// Adds what is known of many floats: their count, sum (in two parts), sum of squares, least and greatest.
    pub(crate) fn add_float_summary(
        &mut self,
        measure: usize,
        group: usize,
        count: u64,
        sum: (f64, f64),
        squares: f64,
        bounds: (f64, f64),
    ) {
        // Of a block: beside what a value may be, its sums may be a few thousand times that.
        let is_tame = sum.0.abs() <= LARGE * 1e4 && squares <= LARGE * LARGE * 1e4;
        if !is_tame {
            self.is_spoilt = true;
            return;
        }
        let totals = &mut self.measures[measure];
        totals.counts[group] += count;
        if let Some(total) = totals.raw.get_mut(group) {
            total.add(sum.0);
            total.add(sum.1);
        }
        if let Some(total) = totals.raw_squares.get_mut(group) {
            total.add(squares);
        }
        if totals.of.wanted.min_max && count > 0 {
            totals.merge_float_bounds(group, bounds.0, bounds.1);
        }
    }

    /// Adds what is known of many integers; `None` for a sum of squares that is not known.
    pub(crate) fn add_exact_summary(
        &mut self,
        measure: usize,
        group: usize,
        count: u64,
        sum: Option<i128>,
        squares: Option<i128>,
        bounds: Option<(i128, i128)>,
    ) {
        let totals = &mut self.measures[measure];
        totals.counts[group] += count;
        let mut add = |place: Option<&mut i128>, value: Option<i128>| {
            if let Some(place) = place {
                match value.and_then(|value| place.checked_add(value)) {
                    Some(next) => *place = next,
                    None => self.is_spoilt = true,
                }
            }
        };
        add(totals.exact.get_mut(group), sum);
        add(totals.exact_squares.get_mut(group), squares);
        if totals.of.wanted.min_max && count > 0 {
            match bounds {
                Some((min, max)) => totals.merge_exact_bounds(group, min, max),
                None => self.is_spoilt = true,
            }
        }
    }

    /// Adds sums of many values: their count, sum and sum of squares, where those are exact and wanted.
    pub(crate) fn add_exact(&mut self, measure: usize, group: usize, count: u64, sum: i128, squares: i128) {
        let totals = &mut self.measures[measure];
        totals.counts[group] += count;
        for (own, more) in [(&mut totals.exact, sum), (&mut totals.exact_squares, squares)] {
            if let Some(own) = own.get_mut(group) {
                let (next, over) = own.overflowing_add(more);
                *own = next;
                self.is_spoilt |= over;
            }
        }
    }

    /// Adds sums of floats, where they are wanted.
    pub(crate) fn add_raw(
        &mut self,
        measure: usize,
        group: usize,
        sum: Option<&Compensated>,
        squares: Option<&Compensated>,
    ) {
        let totals = &mut self.measures[measure];
        for (own, more) in [(&mut totals.raw, sum), (&mut totals.raw_squares, squares)] {
            if let (Some(own), Some(more)) = (own.get_mut(group), more) {
                own.add_sum(*more);
            }
        }
    }

    /// Takes bounds of integers or decimals in, where they are wanted.
    pub(crate) fn widen_exact_bounds(&mut self, measure: usize, group: usize, bounds: (i128, i128)) {
        if !self.measures[measure].exact_bounds.is_empty() {
            self.measures[measure].merge_exact_bounds(group, bounds.0, bounds.1);
        }
    }

    /// Takes bounds of floats in, where they are wanted.
    pub(crate) fn widen_float_bounds(&mut self, measure: usize, group: usize, bounds: (f64, f64)) {
        if !self.measures[measure].raw_bounds.is_empty() {
            self.measures[measure].merge_float_bounds(group, bounds.0, bounds.1);
        }
    }

    /// Adds one group of other totals, of the same measures or more, to a group of these.
    pub fn add_group(&mut self, group: usize, other: &Totals, from: usize, measures: &[usize]) {
        self.is_spoilt |= other.is_spoilt;
        self.rows[group] += other.rows[from];
        for (at, &their) in measures.iter().enumerate() {
            let theirs = &other.measures[their];
            let sum_of = |sums: &[i128]| sums.get(from).copied().unwrap_or(0);
            let (sum, squares) = (sum_of(&theirs.exact), sum_of(&theirs.exact_squares));
            self.add_exact(at, group, theirs.counts[from], sum, squares);
            self.add_raw(at, group, theirs.raw.get(from), theirs.raw_squares.get(from));
            if theirs.counts[from] > 0 {
                if let Some(&bounds) = theirs.exact_bounds.get(from) {
                    self.widen_exact_bounds(at, group, bounds);
                }
                if let Some(&bounds) = theirs.raw_bounds.get(from) {
                    self.widen_float_bounds(at, group, bounds);
                }
            }
        }
    }
}

impl MeasureTotals {
    fn merge_exact_bounds(&mut self, group: usize, min: i128, max: i128) {
        let bounds = &mut self.exact_bounds[group];
        *bounds = (bounds.0.min(min), bounds.1.max(max));
    }

    fn merge_float_bounds(&mut self, group: usize, min: f64, max: f64) {
        let bounds = &mut self.raw_bounds[group];
        *bounds = (if min < bounds.0 { min } else { bounds.0 }, if max > bounds.1 { max } else { bounds.1 });
    }
}
