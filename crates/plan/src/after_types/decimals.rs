//! Decimals beside numbers that are written with a point, and beside floats.
//!
//! Invariants, as in PostgreSQL:
//! - A number that is written, or sums, differences and products of such, and that becomes a decimal, is the decimal that is written:
//!   `p = 99999.99` holds of what was stored as that.
//! - A decimal that is compared with any other float is the float that is nearest to it.
//! - Decimals and integers are compared with all of their digits, whatever scales they have.
//! - A cast to DECIMAL that rounds was written, and goes on rounding, whatever it stands beside.
//! - Types of values, and so of columns, stay as they were.
//!
//! DataFusion 55.2 makes decimals of fifteen digits behind the point of floats, which from some 70,000 on are not what was written; and it
//! compares decimals of 38 digits with ones of a larger scale in 38 digits, which do not hold them. Of REALs it makes
//! decimals of fourteen digits, seven of them behind the point. All are casts that its coercion of types puts in: they are found behind it.
//! Subqueries behind ANY and ALL, and `nullif` of a decimal and a float, keep them.
//!
//! Mends apache/datafusion#14272 (in 55.2).

use crate::expressions::changed;
use alluvia_values::decimal::{WrittenDecimal, written_decimal};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, InList, InSubquery};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, cast, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Digits behind the point that coercion gives a double, at least.
const DOUBLE_SCALE: i8 = 15;
/// The same of a REAL.
const REAL_SCALE: i8 = 7;

/// Puts what is written, and floats, where coercion has put decimals. Types must have been coerced, and nothing else.
#[derive(Debug)]
pub struct CommonDecimalType;

impl AnalyzerRule for CommonDecimalType {
    fn name(&self) -> &str {
        "common_decimal_type"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let concerns = |expr: &Expr| decimal_cast(expr).is_some() || matches!(expr, Expr::InSubquery(_));
        let plan = changed(plan, concerns, |expr, schema| match expr {
            Expr::InSubquery(found) => in_subquery(found, schema),
            Expr::Cast(of) => Ok(as_written(of)),
            mut expr => {
                let is_changed = compared(&mut expr).is_some_and(|exprs| in_one_decimal(exprs, schema));
                Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
        })?;
        // What a join says by its columns' names.
        let joined = plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
            let schema = Arc::clone(&join.schema);
            let mut is_changed = false;
            for (left, right) in &mut join.on {
                is_changed |= in_one_decimal(vec![left, right], &schema);
            }
            let join = LogicalPlan::Join(join);
            Ok(if is_changed { Transformed::yes(join) } else { Transformed::no(join) })
        })?;
        Ok(joined.data)
    }
}

/// What a decimal is cast from, and its digits.
fn decimal_cast(expr: &Expr) -> Option<(&Expr, u8, i8)> {
    match expr {
        Expr::Cast(Cast { expr, field }) => match field.data_type() {
            DataType::Decimal128(precision, scale) => Some((expr, *precision, *scale)),
            _ => None,
        },
        _ => None,
    }
}

/// The decimal that is written, where a float that becomes one is that.
fn as_written(of: Cast) -> Transformed<Expr> {
    let literal = match of.field.data_type() {
        DataType::Decimal128(precision, scale) => {
            let digits = written(&of.expr).and_then(|written| digits_at(written, *precision, *scale));
            digits.map(|digits| ScalarValue::Decimal128(Some(digits), *precision, *scale))
        }
        _ => None,
    };
    match literal {
        Some(literal) => Transformed::yes(lit(literal)),
        None => Transformed::no(Expr::Cast(of)),
    }
}

/// The decimal that a float is written as: by its shortest digits, which are what was written where that has no more than fifteen.
fn written(expr: &Expr) -> Option<WrittenDecimal> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(float)), _) if float.is_finite() => written_decimal(&float.to_string()),
        Expr::Negative(inner) => written(inner).map(|of| WrittenDecimal { digits: -of.digits, ..of }),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (operand(left)?, operand(right)?);
            let scale = left.scale.max(right.scale);
            match op {
                Operator::Plus => of_digits(at(left, scale)?.checked_add(at(right, scale)?)?, scale),
                Operator::Minus => of_digits(at(left, scale)?.checked_sub(at(right, scale)?)?, scale),
                Operator::Multiply => of_digits(left.digits.checked_mul(right.digits)?, left.scale + right.scale),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The same, or a whole number that is a float beside one.
fn operand(expr: &Expr) -> Option<WrittenDecimal> {
    match expr {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => match &**expr {
            Expr::Literal(whole, _) if whole.data_type().is_integer() => written_decimal(&whole.to_string()),
            _ => None,
        },
        other => written(other),
    }
}

fn of_digits(digits: i128, scale: u8) -> Option<WrittenDecimal> {
    let precision = digits.unsigned_abs().checked_ilog10().map_or(1, |log| log as u8 + 1);
    (precision.max(scale) <= DECIMAL128_MAX_PRECISION).then_some(WrittenDecimal {
        digits,
        precision: precision.max(scale),
        scale,
    })
}

/// Its digits with more of them behind the point.
fn at(decimal: WrittenDecimal, scale: u8) -> Option<i128> {
    decimal.digits.checked_mul(10_i128.checked_pow((scale - decimal.scale).into())?)
}

/// Its digits in a decimal of this type, rounded half away from zero; `None` if that does not hold them.
fn digits_at(decimal: WrittenDecimal, precision: u8, scale: i8) -> Option<i128> {
    let scale = u8::try_from(scale).ok()?;
    let digits = if decimal.scale <= scale {
        at(decimal, scale)?
    } else {
        let unit = 10_i128.checked_pow((decimal.scale - scale).into())?;
        let (whole, rest) = (decimal.digits / unit, decimal.digits % unit);
        whole + if rest.abs() >= unit - rest.abs() { decimal.digits.signum() } else { 0 }
    };
    (digits.unsigned_abs() < 10_u128.pow(precision.into())).then_some(digits)
}

/// What an expression compares with one another.
fn compared(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let compares = matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
            compares.then(|| vec![&mut **left, &mut **right])
        }
        Expr::Between(Between { expr, low, high, .. }) => Some(vec![expr, low, high]),
        Expr::InList(InList { expr, list, .. }) => Some(std::iter::once(&mut **expr).chain(list).collect()),
        Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => {
            Some(std::iter::once(&mut **expr).chain(when_then_expr.iter_mut().map(|(when, _)| &mut **when)).collect())
        }
        _ => None,
    }
}

/// Brings what is compared to another type than coercion did, where that loses something, and says whether it did.
fn in_one_decimal(mut exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    if exprs.iter().any(|expr| is_float(expr, schema)) {
        exprs.iter_mut().for_each(|expr| **expr = as_float(std::mem::take(*expr), schema));
        return true;
    }
    let narrowed = exprs.iter().find_map(|expr| narrowed_to(expr, schema));
    if let Some(scale) = narrowed {
        let wide = DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale);
        for expr in exprs {
            *expr = cast(uncast(std::mem::take(expr), schema), wide.clone());
        }
    }
    narrowed.is_some()
}

/// Whether coercion made a decimal of a float that is not written, or that no such decimal is.
fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    let Some((inner, precision, scale)) = decimal_cast(expr) else { return false };
    if !is_coerced(expr, schema) || !inner.get_type(schema).is_ok_and(|of| of.is_floating()) {
        return false;
    }
    match written(inner) {
        Some(written) => digits_at(written, precision, scale).is_none(),
        // Coercion casts a number to a float or to a decimal, not to one and then to the other.
        None => matches!(inner, Expr::Cast(_)) || inner.exists(|expr| Ok(is_made(expr))).unwrap_or(true),
    }
}

/// Whether a float is read or cast, or has too many digits: there are others, as `1.0 / 3`, that PostgreSQL has as NUMERIC.
fn is_made(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) => true,
        Expr::Literal(ScalarValue::Float32(_), _) => true,
        Expr::Literal(ScalarValue::Float64(_), _) => written(expr).is_none(),
        Expr::Cast(Cast { expr, field }) => match field.data_type() {
            DataType::Float32 => true,
            // Coercion makes floats of whole numbers beside one.
            DataType::Float64 => !matches!(&**expr, Expr::Literal(whole, _) if whole.data_type().is_integer()),
            _ => false,
        },
        _ => false,
    }
}

/// A number as a double: not as the decimal that coercion made of it.
fn as_float(expr: Expr, schema: &DFSchema) -> Expr {
    if let Some(decimal) = digits_of(&expr) {
        // What is written is read as it is: its digits may be too many for a division.
        return match decimal.to_string().parse::<f64>() {
            Ok(float) => lit(float),
            Err(_) => cast(expr, DataType::Float64),
        };
    }
    if !is_coerced(&expr, schema) {
        return cast(expr, DataType::Float64);
    }
    let inner = uncast(expr, schema);
    match inner.get_type(schema) {
        Ok(DataType::Float64) => inner,
        Ok(of) if of.is_decimal() => as_float(inner, schema),
        _ => cast(inner, DataType::Float64),
    }
}

/// The digits of a decimal that is written: a literal, or a number of many digits, which comes as a text within a cast that holds it.
fn digits_of(expr: &Expr) -> Option<WrittenDecimal> {
    if let Expr::Literal(ScalarValue::Decimal128(Some(digits), precision, scale), _) = expr {
        return Some(WrittenDecimal { digits: *digits, precision: *precision, scale: u8::try_from(*scale).ok()? });
    }
    let (inner, precision, scale) = decimal_cast(expr)?;
    let Expr::Literal(text, _) = inner else { return None };
    let written = written_decimal(text.try_as_str()??)?;
    ((written.precision, i16::from(written.scale)) == (precision, scale.into())).then_some(written)
}

/// Whether a decimal may be what coercion made of another number: a cast that rounds was written.
fn is_coerced(expr: &Expr, schema: &DFSchema) -> bool {
    let Some((inner, _, scale)) = decimal_cast(expr) else { return false };
    match inner.get_type(schema) {
        Ok(DataType::Decimal128(_, of)) => scale >= of,
        Ok(DataType::Float32) => scale >= REAL_SCALE,
        Ok(of) if of.is_floating() => scale >= DOUBLE_SCALE,
        Ok(of) => of.is_integer(),
        Err(_) => false,
    }
}

/// A number without the cast that made a decimal of it.
fn uncast(expr: Expr, schema: &DFSchema) -> Expr {
    let is_coerced = is_coerced(&expr, schema);
    match expr {
        Expr::Cast(Cast { expr, .. }) if is_coerced => *expr,
        expr => expr,
    }
}

/// The scale of a cast that leaves fewer digits before the point than there may be.
fn narrowed_to(expr: &Expr, schema: &DFSchema) -> Option<i8> {
    let (inner, precision, scale) = decimal_cast(expr)?;
    // Coercion leaves digits out only where it has no more.
    if precision != DECIMAL128_MAX_PRECISION || !is_coerced(expr, schema) {
        return None;
    }
    let whole = match inner.get_type(schema).ok()? {
        DataType::Decimal128(precision, scale) => i16::from(precision) - i16::from(scale),
        _ if matches!(inner, Expr::Literal(..)) => return None,
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    };
    (i16::from(precision) - i16::from(scale) < whole).then_some(scale)
}

/// `x IN (SELECT y ...)` of a decimal and a float.
fn in_subquery(found: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let InSubquery { expr, subquery, negated } = found;
    let again = |expr, subquery| Expr::InSubquery(InSubquery { expr, subquery, negated });
    let listed = match subquery.subquery.as_ref() {
        LogicalPlan::Projection(projection) => match projection.expr.as_slice() {
            [only] => is_float(&only.clone().unalias(), projection.input.schema()),
            _ => false,
        },
        _ => false,
    };
    if !listed && !is_float(&expr, schema) {
        return Ok(Transformed::no(again(expr, subquery)));
    }
    let subquery = if listed { uncast_subquery(subquery)? } else { with_floats(subquery)? };
    Ok(Transformed::yes(again(Box::new(as_float(*expr, schema)), subquery)))
}

/// A subquery of one column without the cast that coercion put on it.
fn uncast_subquery(subquery: Subquery) -> Result<Subquery> {
    of_plan(subquery, |plan| {
        let LogicalPlan::Projection(projection) = plan else { return Ok(plan) };
        let schema = Arc::clone(projection.input.schema());
        let exprs = projection.expr.into_iter().map(|expr| {
            let name = expr.schema_name().to_string();
            as_float(expr.unalias(), &schema).alias(name)
        });
        let exprs: Vec<Expr> = exprs.collect();
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(projection.input)).project(exprs)?.build()
    })
}

/// A subquery of one column, as floats.
fn with_floats(subquery: Subquery) -> Result<Subquery> {
    of_plan(subquery, |plan| {
        let floats = plan.schema().columns().into_iter().map(|column| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            cast(Expr::Column(column), DataType::Float64).alias_qualified(relation, name)
        });
        let floats: Vec<Expr> = floats.collect();
        LogicalPlanBuilder::from(plan).project(floats)?.build()
    })
}

fn of_plan(subquery: Subquery, change: impl FnOnce(LogicalPlan) -> Result<LogicalPlan>) -> Result<Subquery> {
    let Subquery { subquery, outer_ref_columns, spans } = subquery;
    let subquery = Arc::new(change(Arc::unwrap_or_clone(subquery))?);
    Ok(Subquery { subquery, outer_ref_columns, spans })
}

#[cfg(test)]
mod tests {
    use crate::testing::{context, questions, rows, runtime};
    use proptest::prelude::*;

    fn is_true(expr: &str, from: &str) -> Result<Option<i64>, String> {
        let found = runtime().block_on(rows(&context(), &format!("SELECT {expr} AS x FROM (SELECT {from}) q")));
        found.map(|rows| rows[0][0])
    }

    #[test]
    fn what_is_written_beside_decimals_is_what_was_stored() {
        let from = "CAST('99999.99' AS DECIMAL(10, 2)) AS p, 99999.99 AS f, CAST('123456789.999' AS DECIMAL(12, 3)) AS r, \
            CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) AS w, 7 AS i";
        for (expr, expected) in [
            ("p = 99999.99", 1),
            ("99999.99 = p", 1),
            ("p <> 99999.99", 0),
            ("-p = -99999.99", 1),
            ("p BETWEEN 99999.99 AND 100000", 1),
            ("p IN (1.5, 99999.99)", 1),
            ("p NOT IN (1, 99999.99)", 0),
            ("p IS DISTINCT FROM 99999.99", 0),
            ("r >= 123456789.999 AND r <= 123456789.999", 1),
            ("r < 123456789.9995 AND r > 123456789.9985", 1),
            ("CASE p WHEN 99999.99 THEN 1 ELSE 0 END", 1),
            ("nullif(p, 99999.99) IS NULL", 1),
            ("coalesce(p, 0.0) = 99999.99", 1),
            ("greatest(p, 99999.98) = p", 1),
            ("p = f", 1),
            ("f = p", 1),
            ("p IN (i, f)", 1),
            ("p BETWEEN 99999.98 + 0.01 AND 100000 - 0.01", 1),
            ("p = 33333.33 * 3", 1),
            ("p = 99999.98 + 0.01 AND p <= 0.1 * 999999.9", 1),
            ("CASE WHEN i = 7 THEN 99999.99 ELSE p END = p", 1),
            ("coalesce(99999.99, p) = p", 1),
            ("i < 7.1234567890123456789012", 1),
            ("CAST('12345678901234567' AS BIGINT) > CAST('0.1234567890123456789012' AS DECIMAL(22, 22))", 1),
            ("CAST('99999.99' AS DECIMAL(7, 2)) = 99999.99", 1),
            ("p < 1e30", 1),
            ("p > 1e300", 0),
            ("p < 1e-7", 0),
            ("w > 1.5", 1),
            // Doubles in PostgreSQL.
            ("CAST(1e10 AS REAL) = p", 0),
            ("p < CAST(1e10 AS REAL) AND p BETWEEN CAST(-1e30 AS REAL) AND CAST(1e30 AS REAL)", 1),
            ("p IN (CAST(1e10 AS REAL), 99999.99)", 1),
            ("CASE p WHEN CAST(1e10 AS REAL) THEN 1 ELSE 0 END", 0),
            ("p = CAST(99999.99 AS DOUBLE PRECISION)", 1),
            ("p = CAST(99999.99 AS REAL)", 0),
            ("p < CAST(20000000000000000 AS DOUBLE PRECISION)", 1),
            ("p < CAST(i AS REAL) * 1e10", 1),
            ("p < 1e15 * 1e5", 1),
            ("w > r", 1),
            ("w = CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))", 1),
            ("i < 7.5", 1),
            ("CAST('0.5' AS DECIMAL(1, 1)) = 0.5", 1),
            // As a number of many digits comes.
            ("f < CAST('99999.99000000000000000001' AS DECIMAL(25, 20))", 0),
            ("p < CAST('99999.99000000000000000001' AS DECIMAL(25, 20))", 1),
            ("p IN (SELECT 99999.99)", 1),
            ("f IN (SELECT CAST('99999.99' AS DECIMAL(10, 2)))", 1),
            ("p = (SELECT 99999.99)", 1),
        ] {
            assert_eq!(is_true(expr, from), Ok(Some(expected)), "{expr}");
        }
        let joined = "SELECT count(*) AS n FROM (SELECT CAST('99999.99' AS DECIMAL(10, 2)) AS p) a JOIN (VALUES (99999.99), (1.5)) b (x) ON a.p = b.x";
        assert_eq!(runtime().block_on(rows(&context(), joined)), Ok(vec![vec![Some(1)]]));
        let using = "SELECT count(*) AS n FROM (SELECT CAST('99999.99' AS DECIMAL(10, 2)) AS p) a JOIN (SELECT 99999.99 AS p) b USING (p)";
        assert_eq!(runtime().block_on(rows(&context(), using)), Ok(vec![vec![Some(1)]]));
        let united =
            "SELECT count(*) AS n FROM (SELECT CAST('99999.99' AS DECIMAL(10, 2)) AS p UNION SELECT 99999.99) q";
        assert_eq!(runtime().block_on(rows(&context(), united)), Ok(vec![vec![Some(1)]]));
        let outer = "SELECT count(*) AS n FROM (SELECT coalesce(p, 0.0) AS x FROM (SELECT CAST('99999.99' AS DECIMAL(10, 2)) AS p) a) q \
            WHERE EXISTS (SELECT 1 FROM (SELECT CAST('99999.99' AS DECIMAL(10, 2)) AS p) b WHERE b.p = q.x)";
        assert_eq!(runtime().block_on(rows(&context(), outer)), Ok(vec![vec![Some(1)]]));
        let having = "SELECT count(*) AS n FROM (SELECT sum(p) AS s FROM (SELECT CAST('99999.99' AS DECIMAL(10, 2)) AS p) a HAVING sum(p) = 99999.99) q";
        assert_eq!(runtime().block_on(rows(&context(), having)), Ok(vec![vec![Some(1)]]));
    }

    #[test]
    fn casts_that_are_written_round_what_is_compared() {
        let from = "0.123 AS f, 0.12 AS g, CAST('1.2345' AS DECIMAL(12, 4)) AS p, CAST('1.23' AS DECIMAL(8, 2)) AS q, \
            CAST('1.00000000004' AS DECIMAL(38, 20)) AS z, CAST('1' AS DECIMAL(38, 10)) AS w, CAST('0.5' AS DECIMAL(38, 38)) AS t";
        for (expr, expected) in [
            ("f = CAST('0.123' AS DECIMAL(10, 2))", 0),
            ("g = CAST('0.123' AS DECIMAL(10, 2))", 1),
            ("g = CAST(f AS DECIMAL(38, 2))", 1),
            ("f = CAST(f AS DECIMAL(38, 2))", 0),
            ("g IN (CAST(f AS DECIMAL(10, 2)), q)", 1),
            ("CAST(p AS DECIMAL(8, 2)) = q", 1),
            ("w = CAST(z AS DECIMAL(38, 10))", 1),
            ("w = z", 0),
            ("CAST(t AS DECIMAL(38, 0)) = w", 1),
            ("t < w", 1),
            ("CAST(0.4999999999999999 AS DECIMAL(38, 0)) = 0", 1),
        ] {
            assert_eq!(is_true(expr, from), Ok(Some(expected)), "{expr}");
        }
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn numbers_are_compared_by_their_digits(
            (stored, scale) in (-999_999_999_999_i64..999_999_999_999, 0..6_u32),
            (more, shift) in (0..4_u32, prop_oneof![Just(0_i64), -3..3_i64]),
        ) {
            let written_scale = scale + more;
            let unit = 10_i128.pow(more);
            let written = i128::from(stored) * unit + i128::from(shift);
            let text = |digits: i128, scale: u32| {
                let sign = if digits < 0 { "-" } else { "" };
                let digits = format!("{:0>width$}", digits.unsigned_abs(), width = scale as usize + 1);
                let (whole, part) = digits.split_at(digits.len() - scale as usize);
                format!("{sign}{whole}.{part}")
            };
            let from = format!("CAST('{}' AS DECIMAL(18, {scale})) AS p", text(stored.into(), scale));
            let number = text(written, written_scale);
            for (op, expected) in [("=", shift == 0), ("<", shift > 0), (">=", shift <= 0), ("IS DISTINCT FROM", shift != 0)] {
                prop_assert_eq!(is_true(&format!("p {op} {number}"), &from), Ok(Some(i64::from(expected))), "{} {}", op, number);
            }
        }
    }
}
