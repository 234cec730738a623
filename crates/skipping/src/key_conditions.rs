//! The keys that filters ask for.
//!
//! Invariants:
//! - Only TRUE passes a filter, so NULL among the literals names no key.
//! - Floats name none: `=` on them is a function of its own (`functions::operators::floats`).

use alluvia_space::data_type::NUMERIC_PRECISION;
use alluvia_space::{Column, DataType, TableDef};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Operator};

/// Keys that one statement may name: more are found by a scan.
const KEYS_MAX: usize = 1_024;

/// The keys that rows which pass the filters may have, whose values are in the order of the key; `None` where the filters do not fix all of
/// its columns, or leave too many keys.
pub fn fixed_keys(filters: &[Expr], def: &TableDef) -> Option<Vec<Vec<ScalarValue>>> {
    let key = def.key_columns()?;
    let columns: Vec<&Column> = key.iter().map(|&at| &def.columns[at]).collect();
    let fixed = filters.iter().flat_map(split_conjunction).filter_map(|part| Fixed::by(part, def, &columns));
    let fixed = fixed.fold(None, Fixed::and)?;
    // In the order of the key, and all of it.
    (fixed.places.iter().copied().eq(0..columns.len())).then_some(fixed.keys)
}

/// What a condition leaves some columns of the key.
struct Fixed {
    /// The places of these columns in the key, ascending.
    places: Vec<usize>,
    /// Their values; a row that passes has those of one of these.
    keys: Vec<Vec<ScalarValue>>,
}

impl Fixed {
    /// What a condition says of the key; `None` where it says nothing, or too much.
    fn by(condition: &Expr, def: &TableDef, columns: &[&Column]) -> Option<Fixed> {
        if let Expr::BinaryExpr(binary) = condition {
            let side = |side: &Expr| Fixed::by(side, def, columns);
            match binary.op {
                Operator::And => {
                    return match (side(&binary.left), side(&binary.right)) {
                        (left, Some(right)) => Fixed::and(left, right),
                        (left, None) => left,
                    };
                }
                // What the optimizer makes of short lists, and of rows that are compared.
                Operator::Or => return side(&binary.left)?.or(side(&binary.right)?),
                _ => {}
            }
        }
        let (column, values) = asked_of(condition, def)?;
        let place = columns.iter().position(|of_key| of_key.id == column.id)?;
        Some(Fixed { places: vec![place], keys: values.into_iter().map(|value| vec![value]).collect() })
    }

    /// Both are so.
    fn and(known: Option<Fixed>, other: Fixed) -> Option<Fixed> {
        let Some(known) = known else { return Some(other) };
        let says_no_more = |a: &Fixed, b: &Fixed| a.places.iter().all(|place| b.places.contains(place));
        // Of the same columns either will do, for filters look at what is found: the fewest.
        match (says_no_more(&other, &known), says_no_more(&known, &other)) {
            (true, true) => return Some(if other.keys.len() < known.keys.len() { other } else { known }),
            (true, false) => return Some(known),
            (false, true) => return Some(other),
            (false, false) => {}
        }
        if known.keys.len().checked_mul(other.keys.len())? > KEYS_MAX {
            return None;
        }
        let mut places = [known.places.as_slice(), other.places.as_slice()].concat();
        places.sort_unstable();
        places.dedup();
        let value = |place: &usize, a: &[ScalarValue], b: &[ScalarValue]| match known.places.binary_search(place) {
            Ok(at) => Some(a[at].clone()),
            Err(_) => other.places.binary_search(place).ok().map(|at| b[at].clone()),
        };
        let pairs = known.keys.iter().flat_map(|a| other.keys.iter().map(move |b| (a, b)));
        let joined = pairs.map(|(a, b)| places.iter().map(|place| value(place, a, b)).collect::<Option<Vec<_>>>());
        let keys = joined.collect::<Option<Vec<_>>>()?;
        Some(Fixed { places, keys })
    }

    /// One of the two is so: it says of a column what both say of it.
    fn or(self, other: Fixed) -> Option<Fixed> {
        let places: Vec<usize> = self.places.iter().copied().filter(|place| other.places.contains(place)).collect();
        if places.is_empty() || self.keys.len() + other.keys.len() > KEYS_MAX {
            return None;
        }
        let of_places = |fixed: Fixed| {
            let at: Vec<usize> = places.iter().filter_map(|place| fixed.places.binary_search(place).ok()).collect();
            fixed.keys.into_iter().map(|key| at.iter().map(|&at| key[at].clone()).collect()).collect::<Vec<_>>()
        };
        let keys = [of_places(self), of_places(other)].concat();
        Some(Fixed { places, keys })
    }
}

/// The one column that a condition is about, and the values for which alone it is TRUE.
fn asked_of<'d>(condition: &Expr, def: &'d TableDef) -> Option<(&'d Column, Vec<ScalarValue>)> {
    match condition {
        Expr::Alias(alias) => asked_of(&alias.expr, def),
        // What the optimizer leaves of `flag = true` and `flag = false`.
        Expr::Column(_) => of_flag(condition, true, def),
        Expr::Not(inner) => of_flag(inner, false, def),
        Expr::InList(list) if !list.negated && list.list.len() <= KEYS_MAX => {
            let column = column_of(&list.expr, def)?;
            let values = list.list.iter().map(|literal| values_of(literal, column));
            Some((column, values.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()))
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
            match (column_of(&binary.left, def), column_of(&binary.right, def)) {
                (Some(column), None) => Some((column, values_of(&binary.right, column)?)),
                (None, Some(column)) => Some((column, values_of(&binary.left, column)?)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn of_flag<'d>(flag: &Expr, value: bool, def: &'d TableDef) -> Option<(&'d Column, Vec<ScalarValue>)> {
    let column = column_of(flag, def).filter(|column| column.data_type == DataType::Boolean)?;
    Some((column, vec![ScalarValue::Boolean(Some(value))]))
}

fn column_of<'d>(expr: &Expr, def: &'d TableDef) -> Option<&'d Column> {
    match expr {
        Expr::Column(column) => def.columns.iter().find(|known| known.name == column.name),
        _ => None,
    }
}

/// The value of a literal, none of NULL; `None` of anything else, and of a literal that is not of the column's type.
fn values_of(literal: &Expr, column: &Column) -> Option<Vec<ScalarValue>> {
    let Expr::Literal(value, _) = literal else { return None };
    if value.is_null() {
        return Some(Vec::new());
    }
    value_for(value, column.data_type).map(|value| vec![value])
}

/// A value as a column of this type stores it; `None` if it is of another type, or of one that names no keys.
pub fn value_for(value: &ScalarValue, data_type: DataType) -> Option<ScalarValue> {
    let (stored, found) = (data_type.to_arrow(), value.data_type());
    let is_same = match data_type {
        DataType::Real | DataType::Double => false,
        // Texts and bytes are the same however they are laid out.
        DataType::Text | DataType::Char => {
            matches!(found, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
        }
        DataType::Binary => matches!(found, ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView),
        _ => found == stored,
    };
    match (is_same, data_type) {
        (false, _) => None,
        (true, DataType::Text | DataType::Binary | DataType::Char) => value.cast_to(&stored).ok(),
        (true, DataType::Numeric) => has_digits(value, NUMERIC_PRECISION).then(|| value.clone()),
        // No key has one.
        (true, DataType::Json | DataType::Jsonb | DataType::Interval) => None,
        (true, DataType::Decimal { precision, .. }) => has_digits(value, precision).then(|| value.clone()),
        (true, _) => Some(value.clone()),
    }
}

/// Whether a decimal has no more digits than its type says: Arrow does not hold it to that.
fn has_digits(value: &ScalarValue, precision: u8) -> bool {
    let ScalarValue::Decimal128(Some(unscaled), ..) = value else { return false };
    10u128.checked_pow(precision.into()).is_some_and(|limit| unscaled.unsigned_abs() < limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_fixture::table;
    use alluvia_space::{OnConflict, PrimaryKey};
    use alluvia_types::ColumnId;
    use datafusion::logical_expr::{cast, col, lit};

    fn keyed(columns: &[(&str, DataType)], key: &[u32]) -> TableDef {
        let columns_of_key = key.iter().map(|&id| ColumnId(id)).collect();
        let key = PrimaryKey { columns: columns_of_key, secret: [1, 2], on_conflict: OnConflict::Error };
        TableDef { key: Some(key), ..table("t", columns) }
    }

    fn texts(values: &[ScalarValue]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn equalities_and_lists_fix_a_key_and_nothing_else_does() {
        let def = keyed(&[("id", DataType::Int64), ("n", DataType::Int64)], &[0]);
        let fixed = |filters: &[Expr]| Some(texts(&fixed_keys(filters, &def)?.concat()));
        let one = |values: &[&str]| Some(values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>());
        assert_eq!(fixed(&[col("id").eq(lit(5i64))]), one(&["5"]));
        assert_eq!(fixed(&[lit(5i64).eq(col("id"))]), one(&["5"]));
        assert_eq!(fixed(&[col("n").gt(lit(1i64)).and(col("id").eq(lit(5i64)))]), one(&["5"]));
        assert_eq!(fixed(&[col("id").in_list(vec![lit(5i64), lit(7i64)], false)]), one(&["5", "7"]));
        assert_eq!(fixed(&[col("id").eq(lit(5i64)).or(col("id").eq(lit(7i64)))]), one(&["5", "7"]));
        let both = [col("id").in_list(vec![lit(5i64), lit(7i64)], false), col("id").eq(lit(9i64))];
        assert_eq!(fixed(&both), one(&["9"]), "the fewest, whose rows the other filter sees");
        let null = || lit(ScalarValue::Int64(None));
        assert_eq!(fixed(&[col("id").eq(null())]), one(&[]), "NULL is equal to nothing");
        assert_eq!(fixed(&[col("id").in_list(vec![null(), lit(5i64)], false)]), one(&["5"]));
        for scanned in [
            col("n").eq(lit(5i64)),
            col("id").gt(lit(5i64)),
            col("id").eq(col("n")),
            col("id").eq(lit(5i32)),
            cast(col("id"), ArrowType::Int32).eq(lit(5i32)),
            col("id").in_list(vec![lit(5i64)], true),
            col("id").in_list(vec![lit(5i64), col("n")], false),
            col("id").eq(lit(5i64)).or(col("n").eq(lit(5i64))),
            col("id").eq(lit(5i64)).or(col("id").gt(lit(7i64))),
        ] {
            assert_eq!(fixed(std::slice::from_ref(&scanned)), None, "{scanned}");
        }
        let many = (0..=KEYS_MAX as i64).map(lit).collect();
        assert_eq!(fixed(&[col("id").in_list(many, false)]), None);
        assert_eq!(fixed_keys(&[col("id").eq(lit(5i64))], &table("t", &[("id", DataType::Int64)])), None);
    }

    #[test]
    fn all_columns_of_a_key_are_fixed_in_its_order() {
        let def = keyed(&[("a", DataType::Int32), ("b", DataType::Boolean), ("c", DataType::Text)], &[2, 1]);
        let fixed = |filters: &[Expr]| {
            fixed_keys(filters, &def).map(|keys| keys.iter().map(|key| texts(key)).collect::<Vec<_>>())
        };
        let c = || col("c").in_list(vec![lit("x"), lit("y")], false);
        assert_eq!(
            fixed(&[col("b"), c()]),
            Some(vec![vec!["x".into(), "true".into()], vec!["y".into(), "true".into()]])
        );
        assert_eq!(fixed(&[Expr::Not(Box::new(col("b"))), c()]).unwrap()[1], ["y", "false"]);
        assert_eq!(fixed(&[c()]), None);
        let long = || col("c").in_list((0..600).map(|n| lit(n.to_string())).collect(), false);
        assert!(fixed(&[col("b"), long()]).is_some());
        let both = col("b").in_list(vec![lit(true), lit(false)], false);
        assert_eq!(fixed(&[both, long()]), None, "1,200 keys");
    }

    #[test]
    fn rows_that_are_compared_fix_keys_together() {
        let def = keyed(&[("a", DataType::Int64), ("b", DataType::Int64), ("c", DataType::Int64)], &[0, 1]);
        let fixed = |filter: Expr| {
            fixed_keys(&[filter], &def).map(|keys| keys.iter().map(|key| texts(key)).collect::<Vec<_>>())
        };
        let row = |a: i64, b: i64| col("a").eq(lit(a)).and(col("b").eq(lit(b)));
        let two = || Some(vec![vec!["1".to_owned(), "2".to_owned()], vec!["3".to_owned(), "4".to_owned()]]);
        assert_eq!(fixed(row(1, 2).or(row(3, 4))), two());
        assert_eq!(fixed(row(1, 2).and(col("c").eq(lit(9i64))).or(row(3, 4))), two(), "what one side says alone");
        let factored = col("a").eq(lit(1i64)).and(col("b").eq(lit(2i64)).or(col("b").eq(lit(4i64))));
        assert_eq!(fixed(factored).unwrap().len(), 2);
        for scanned in [
            row(1, 2).or(col("a").eq(lit(3i64))),
            row(1, 2).or(col("c").eq(lit(3i64))),
            col("a").eq(lit(1i64)).or(col("b").eq(lit(2i64))),
        ] {
            assert_eq!(fixed(scanned.clone()), None, "{scanned}");
        }
    }

    #[test]
    fn values_are_of_the_columns_type_to_the_digit() {
        let decimal = DataType::Decimal { precision: 4, scale: 2 };
        let value = |unscaled| ScalarValue::Decimal128(Some(unscaled), 4, 2);
        assert_eq!(value_for(&value(-9_999), decimal), Some(value(-9_999)));
        assert_eq!(value_for(&value(10_000), decimal), None, "no row has so many digits");
        assert_eq!(value_for(&ScalarValue::Decimal128(Some(1), 5, 2), decimal), None);
        let stored = ScalarValue::Utf8View(Some("x".to_owned()));
        assert_eq!(value_for(&ScalarValue::from("x"), DataType::Text), Some(stored));
        assert_eq!(value_for(&ScalarValue::Float64(Some(0.0)), DataType::Double), None);
        let time = ScalarValue::TimestampMicrosecond(Some(1), None);
        assert_eq!(value_for(&time, DataType::TimestampTz), None);
        assert_eq!(value_for(&time, DataType::Timestamp), Some(time));
    }
}
