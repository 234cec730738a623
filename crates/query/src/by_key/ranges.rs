//! Keys between two: `WHERE id >= 5 AND id < 9`, and all keys that begin alike: `WHERE warehouse = 1 AND district = 2`.
//!
//! Invariant: a range has every key of a row that passes the filters. Bounds that do not count themselves are taken as if they did.

use super::named::FoundRows;
use alluvia_skipping::value_for;
use alluvia_snapshot::TableRead;
use alluvia_space::TableDef;
use alluvia_space::key_code::{CodeRange, KeyCoder};
use alluvia_types::Result;
use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Operator};

/// So many rows of a range are read one by one; more are for a scan.
const ROWS_MAX: usize = 1 << 16;
/// And no more than this share of all rows.
const ROWS_SHARE: u64 = 16;

/// Keys of one table between two.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    coder: KeyCoder,
    codes: CodeRange,
}

/// What filters say of one column.
#[derive(Clone, Default)]
pub(crate) struct ColumnBounds {
    pub(crate) equal: Option<ScalarValue>,
    pub(crate) least: Option<ScalarValue>,
    pub(crate) most: Option<ScalarValue>,
}

impl ColumnBounds {
    /// Adds what a comparison with a value says. A second one of the same kind says no more than the first: filters look at what is found.
    pub(crate) fn add(&mut self, operator: Operator, value: ScalarValue) {
        let of = match operator {
            Operator::Eq => &mut self.equal,
            Operator::Gt | Operator::GtEq => &mut self.least,
            Operator::Lt | Operator::LtEq => &mut self.most,
            _ => return,
        };
        of.get_or_insert(value);
    }
}

impl KeyRange {
    /// The keys that rows which pass these filters may have; `None` where the filters do not say, or all keys may.
    pub(crate) fn of_filters(filters: &[Expr], def: &TableDef) -> Option<KeyRange> {
        let key = def.key_columns()?;
        let mut bounds = vec![ColumnBounds::default(); key.len()];
        for part in filters.iter().flat_map(split_conjunction) {
            let Expr::BinaryExpr(binary) = part else { continue };
            let (column, operator, value) = match (binary.left.as_ref(), binary.right.as_ref()) {
                (Expr::Column(column), Expr::Literal(value, _)) => (column, binary.op, value),
                (Expr::Literal(value, _), Expr::Column(column)) => {
                    let Some(turned) = binary.op.swap() else { continue };
                    (column, turned, value)
                }
                _ => continue,
            };
            let Some(at) = key.iter().position(|&at| def.columns[at].name == column.name) else { continue };
            // Compared with NULL nothing passes: the filter says so of whatever is found.
            if let Some(value) = value_for(value, def.columns[key[at]].data_type).filter(|value| !value.is_null()) {
                bounds[at].add(operator, value);
            }
        }
        KeyRange::of_bounds(&bounds, def)
    }

    /// The keys whose columns lie within bounds, in the order of the key.
    pub(crate) fn of_bounds(bounds: &[ColumnBounds], def: &TableDef) -> Option<KeyRange> {
        let array = |value: &ScalarValue| value.to_array_of_size(1).ok();
        let equal = bounds.iter().map_while(|bounds| bounds.equal.as_ref());
        let first: Vec<ArrayRef> = equal.map(array).collect::<Option<_>>()?;
        let next = bounds.get(first.len()).cloned().unwrap_or_default();
        if first.is_empty() && next.least.is_none() && next.most.is_none() {
            return None;
        }
        let coder = KeyCoder::new(def)?;
        let (least, most) = (next.least.as_ref().and_then(array), next.most.as_ref().and_then(array));
        let codes = coder.code_range(&first, (least.as_ref(), most.as_ref())).ok()??;
        Some(KeyRange { coder, codes })
    }

    /// Rows of a table among which are all that have these keys; `None` where a scan is to look for them. May read files.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged.
    pub(crate) fn find(&self, read: &TableRead) -> Result<Option<FoundRows>> {
        let most = (read.rows_at_most() / ROWS_SHARE).min(ROWS_MAX as u64) as usize;
        let (low, high) = self.codes;
        if low > high {
            return Ok(Some(FoundRows::default()));
        }
        Ok(read.find_between(&self.coder, self.codes, most)?.map(|rows| FoundRows { rows }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::table;
    use alluvia_space::{DataType, OnConflict, PrimaryKey};
    use alluvia_types::ColumnId;
    use datafusion::logical_expr::{col, lit};

    fn range(filters: &[Expr]) -> Option<CodeRange> {
        let key =
            PrimaryKey { columns: vec![ColumnId(0), ColumnId(1)], secret: [1, 2], on_conflict: OnConflict::Error };
        let columns = [("a", DataType::Int32), ("b", DataType::Int64), ("n", DataType::Int64)];
        let def = TableDef { key: Some(key), ..table("t", &columns) };
        KeyRange::of_filters(filters, &def).map(|range| range.codes)
    }

    #[test]
    fn bounds_of_the_first_columns_are_bounds_of_codes() {
        let code = |a: i32, b: i64| u128::from(a as u32 ^ 1 << 31) << 64 | u128::from(b as u64 ^ 1 << 63);
        let (a, b) = (|| col("a"), || col("b"));
        assert_eq!(range(&[a().eq(lit(5i32))]), Some((code(5, i64::MIN), code(5, i64::MAX))));
        assert_eq!(range(&[a().gt_eq(lit(-5i32)), a().lt(lit(7i32))]), Some((code(-5, i64::MIN), code(7, i64::MAX))));
        assert_eq!(
            range(&[lit(7i32).gt(a()).and(lit(-5i32).lt_eq(a()))]),
            range(&[a().gt_eq(lit(-5i32)), a().lt(lit(7i32))])
        );
        assert_eq!(
            range(&[a().eq(lit(5i32)), b().gt(lit(2i64)), b().lt_eq(lit(3i64))]),
            Some((code(5, 2), code(5, 3)))
        );
        assert_eq!(range(&[a().eq(lit(5i32)), b().eq(lit(3i64))]), Some((code(5, 3), code(5, 3))));
        assert_eq!(range(&[a().gt(lit(5i32))]), Some((code(5, i64::MIN), code(i32::MAX, i64::MAX))));
        for said_nothing in
            [b().eq(lit(5i64)), a().gt(lit(5i64)), a().eq(lit(5i32)).or(a().gt(lit(7i32))), a().not_eq(lit(5i32))]
        {
            assert_eq!(range(std::slice::from_ref(&said_nothing)), None, "{said_nothing}");
        }
        let null = lit(ScalarValue::Int32(None));
        assert_eq!(range(&[a().gt(null.clone())]), None);
        assert_eq!(range(&[a().gt(null), a().lt(lit(1i32))]), Some((0, code(1, i64::MAX))));
    }
}
