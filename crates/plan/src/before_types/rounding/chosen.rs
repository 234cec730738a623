//! Decimals beside floats of which one is chosen: `greatest`, `least`, `coalesce`, and the results of CASE.
//!
//! Invariants:
//! - Where PostgreSQL has one of them as DOUBLE PRECISION or REAL, what is chosen is a float, as there: decimals become the nearest.
//! - Where all floats are what it has as NUMERIC ([`super::Rounding::is_exact`]), what is chosen stays the decimal that coercion makes of it.
//!
//! DataFusion 55.2 makes decimals of all, which do not hold floats of more than fifteen digits before the point.

use super::Rounding;
use crate::expressions::parts_of_case;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};

const FUNCTIONS: [&str; 3] = ["coalesce", "greatest", "least"];

/// Whether it chooses.
pub fn chooses(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(function) => FUNCTIONS.contains(&function.name()),
        Expr::Case(_) => true,
        _ => false,
    }
}

/// What chooses, of floats alone where there is one among decimals. Types must not have been coerced.
pub fn chosen(mut expr: Expr, rounding: &Rounding<'_>) -> Transformed<Expr> {
    let is_changed = choices(&mut expr).is_some_and(|choices| made_floats(choices, rounding));
    Transformed::new_transformed(expr, is_changed)
}

/// Of what one is chosen.
fn choices(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::ScalarFunction(function) => Some(function.args.iter_mut().collect()),
        Expr::Case(case) => Some(parts_of_case(case).1),
        _ => None,
    }
}

/// Makes floats of decimals that are beside one, and says whether there are such.
fn made_floats(choices: Vec<&mut Expr>, rounding: &Rounding<'_>) -> bool {
    let types: Vec<Option<DataType>> = choices.iter().map(|of| of.get_type(rounding.schema).ok()).collect();
    let is_decimal = |of: &Option<DataType>| of.as_ref().is_some_and(DataType::is_decimal);
    let is_float = |of: &Option<DataType>| matches!(of, Some(DataType::Float32 | DataType::Float64));
    if !types.iter().any(is_decimal) {
        return false;
    }
    let mut floats = choices.iter().zip(&types).filter(|(_, of)| is_float(of));
    if floats.all(|(float, _)| rounding.is_exact(float)) {
        return false;
    }
    let has_doubles = types.contains(&Some(DataType::Float64));
    let float = if has_doubles { DataType::Float64 } else { DataType::Float32 };
    for (choice, _) in choices.into_iter().zip(&types).filter(|(_, of)| is_decimal(of)) {
        *choice = cast(std::mem::take(choice), float.clone());
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::testing::{batches, context, runtime};
    use arrow::datatypes::DataType;

    #[test]
    fn what_is_chosen_is_what_postgresql_has_it_as() {
        let from = "CAST('1.50' AS DECIMAL(12, 2)) AS p, CAST(2e20 AS DOUBLE PRECISION) AS d, CAST(2e10 AS REAL) AS r, 1.25 AS n, 7 AS i";
        for (expr, expected) in [
            ("least(d, p)", Some(DataType::Float64)),
            ("greatest(p, d)", Some(DataType::Float64)),
            ("greatest(p, i, d)", Some(DataType::Float64)),
            ("coalesce(p, d)", Some(DataType::Float64)),
            ("CASE WHEN i = 7 THEN d ELSE p END", Some(DataType::Float64)),
            ("CASE WHEN i = 7 THEN p WHEN i = 8 THEN d END", Some(DataType::Float64)),
            ("CASE WHEN i = 7 THEN coalesce(p, p) ELSE greatest(p, d) END", Some(DataType::Float64)),
            ("greatest(p, r)", Some(DataType::Float32)),
            ("greatest(p, r, d)", Some(DataType::Float64)),
            // Numbers there.
            ("greatest(p, n)", None),
            ("coalesce(p, 0.0)", None),
            ("CASE WHEN i = 7 THEN p ELSE 1.5 END", None),
        ] {
            let sql = format!("SELECT {expr} AS x FROM (SELECT {from}) q");
            let found = runtime().block_on(batches(&context(), &sql)).unwrap_or_else(|error| panic!("{error}"));
            let of = found[0].column(0).data_type();
            match expected {
                Some(float) => assert_eq!(*of, float, "{expr}"),
                None => assert!(of.is_decimal(), "{expr}: {of}"),
            }
        }
    }
}
