//! Types of parameters by the places that they stand in.
//!
//! Invariants:
//! - What is stated is what PostgreSQL takes an unknown literal in that place for, whatever is around it: an argument of a function, a
//!   condition, a bound of `generate_series`.
//! - [`compare`] is for a query that is planned for its types alone, and never runs: that $1 in `coalesce($1, a)` is what a is, planning
//!   finds where both are compared. What is written a second time has no parameters in it, so that nothing is written a third time.

use super::names::name_of;
use super::parameters::{is_parameter, parameter};
use crate::statements::written_types::data_type_of;
use crate::trees::rewriting::{contains, rows_call};
use crate::trees::visit::{visit, visit_mut};
use alluvia_values::calls::TEXT_BESIDE;
use arrow::datatypes::{DataType, IntervalUnit};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, TableFactor,
    TypedString, UnaryOperator, Value, Visitor, VisitorMut,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

const INT: DataType = DataType::Int32;
const LONG: DataType = DataType::Int64;
const TRUTH: DataType = DataType::Boolean;
const DOUBLE: DataType = DataType::Float64;
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Arguments by the functions that they are of: which, from 0 on, and what they are.
const ARGUMENTS: &[(&[&str], &[usize], DataType)] = &[
    (&["left", "right", "repeat", "lpad", "rpad", "lag", "lead", "nth_value", "round", "trunc"], &[1], INT),
    (&["substr"], &[1, 2], INT),
    (&["split_part"], &[2], INT),
    (&["ntile", "chr"], &[0], INT),
    (&["make_date"], &[0, 1, 2], INT),
    (&["power", "pow", "atan2"], &[0, 1], DOUBLE),
    (&["percentile_cont", "percentile_disc"], &[0], DOUBLE),
    (&["sqrt", "cbrt", "exp", "ln", "log", "log10", "abs", "sign", "degrees", "radians"], &[0], DOUBLE),
    (&["sin", "cos", "tan", "asin", "acos", "atan"], &[0], DOUBLE),
    (&["date_bin"], &[0], SPAN),
    (
        &["pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"],
        &[0],
        LONG,
    ),
    (&["pg_try_advisory_lock", "pg_try_advisory_lock_shared"], &[0], LONG),
    (&["pg_try_advisory_xact_lock", "pg_try_advisory_xact_lock_shared"], &[0], LONG),
    (&["pg_advisory_unlock", "pg_advisory_unlock_shared"], &[0], LONG),
    (&["set_config"], &[2], TRUTH),
    (&["current_setting"], &[1], TRUTH),
];

/// What the places of a query state, by the numbers of its parameters.
pub fn stated(query: &Query) -> BTreeMap<usize, DataType> {
    let mut places = Places::default();
    let _ = visit(query, &mut places);
    places.types
}

#[derive(Default)]
struct Places {
    types: BTreeMap<usize, DataType>,
}

impl Places {
    fn note(&mut self, expr: &Expr, data_type: &DataType) {
        if let Some(number) = parameter(expr) {
            self.types.entry(number).or_insert_with(|| data_type.clone());
        }
    }
}

impl Visitor for Places {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for condition in select.selection.iter().chain(&select.having).chain(&select.qualify) {
            self.note(condition, &DataType::Boolean);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let Some(call) = rows_call(factor).filter(|call| matches!(call.name.as_str(), "generate_series" | "range"))
        else {
            return ControlFlow::Continue(());
        };
        let moment = call.arguments.iter().find_map(moment_of);
        for (at, bound) in call.arguments.iter().enumerate() {
            match &moment {
                Some(moment) if at < 2 => self.note(bound, moment),
                Some(_) => self.note(bound, &SPAN),
                None => self.note(bound, &DataType::Int64),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                let Some((name, arguments)) = called(function) else { return ControlFlow::Continue(()) };
                for (names, places, data_type) in ARGUMENTS {
                    if names.contains(&name.as_str()) {
                        places.iter().filter_map(|at| arguments.get(*at)).for_each(|of| self.note(of, data_type));
                    }
                }
            }
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.note(left, &DataType::Boolean);
                self.note(right, &DataType::Boolean);
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.note(expr, &DataType::Boolean),
            Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => self.note(expr, &DOUBLE),
            Expr::Case { operand: None, conditions, .. } => {
                conditions.iter().for_each(|when| self.note(&when.condition, &DataType::Boolean));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The moment that a bound is by its text.
fn moment_of(bound: &Expr) -> Option<DataType> {
    let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = bound else { return None };
    let known = data_type_of(data_type).ok()?.to_arrow();
    matches!(known, DataType::Date32 | DataType::Timestamp(..)).then_some(known)
}

/// The name of a function and its plain arguments, whatever clauses the call has.
fn called(function: &Function) -> Option<(String, Vec<&Expr>)> {
    let name = name_of(function.name.0.last()?.as_ident()?);
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut arguments = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return None };
        arguments.push(expr);
    }
    Some((name, arguments))
}

/// Parameters that [`compare`] has compared with what they are added to, or what they multiply or divide.
#[derive(Default)]
pub struct Compared {
    added: BTreeSet<usize>,
    scaling: BTreeSet<usize>,
    is_changed: bool,
}

impl Compared {
    /// Whether anything was written otherwise.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// What a parameter is, that was found to be like what it is compared with: what is added to a moment is a span, and what a span is
    /// multiplied with a number.
    pub fn type_of(&self, number: usize, found: DataType) -> DataType {
        match found {
            DataType::Timestamp(..) if self.added.contains(&number) => SPAN,
            DataType::Interval(_) | DataType::Duration(_) if self.scaling.contains(&number) => DOUBLE,
            found => found,
        }
    }
}

/// Compares parameters with what decides of which type they are.
pub fn compare(query: &mut Query) -> Compared {
    let Some(case) = template() else { return Compared::default() };
    let mut compare = Compare { case, compared: Compared::default() };
    let _ = visit_mut(query, &mut compare);
    compare.compared
}

/// What comparisons are written into.
fn template() -> Option<Expr> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql("CASE WHEN true THEN 1 END");
    parser.and_then(|mut parser| parser.parse_expr()).ok()
}

struct Compare {
    case: Expr,
    compared: Compared,
}

impl Compare {
    /// `CASE WHEN known = $1 AND known = $2 THEN result END`
    fn write(&mut self, known: &Expr, parameters: &[Expr], result: Expr) -> Option<Expr> {
        let equal =
            |parameter: &Expr| binary(Expr::Nested(Box::new(known.clone())), BinaryOperator::Eq, parameter.clone());
        let condition = parameters.iter().map(equal).reduce(|all, one| binary(all, BinaryOperator::And, one))?;
        let mut case = self.case.clone();
        let Expr::Case { conditions, .. } = &mut case else { return None };
        let when = conditions.first_mut()?;
        when.condition = condition;
        when.result = result;
        self.compared.is_changed = true;
        Some(case)
    }

    fn of_call(&mut self, function: &Function) -> Option<Expr> {
        let (name, arguments) = called(function)?;
        match (name.as_str(), arguments.as_slice()) {
            ("coalesce" | "greatest" | "least" | "nullif" | TEXT_BESIDE, _) if function.over.is_none() => {
                let known = (*arguments.iter().find(|argument| is_known(argument))?).clone();
                let parameters: Vec<Expr> =
                    arguments.iter().filter(|argument| parameter(argument).is_some()).map(|of| (*of).clone()).collect();
                self.write(&known, &parameters, known.clone())
            }
            ("lag" | "lead", [of, _, default]) if is_known(of) && parameter(default).is_some() => {
                let mut without = function.clone();
                let FunctionArguments::List(list) = &mut without.args else { return None };
                list.args.truncate(2);
                self.write(of, &[(*default).clone()], Expr::Function(without))
            }
            _ => None,
        }
    }

    fn of_operator(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
        let (known, unknown) = match (parameter(left), parameter(right)) {
            (None, Some(_)) if is_known(left) => (left, right),
            (Some(_), None) if is_known(right) => (right, left),
            _ => return None,
        };
        let number = parameter(unknown)?;
        let numbers = match op {
            BinaryOperator::Plus => &mut self.compared.added,
            BinaryOperator::Multiply | BinaryOperator::Divide => &mut self.compared.scaling,
            _ => return None,
        };
        numbers.insert(number);
        self.write(known, std::slice::from_ref(unknown), known.clone())
    }
}

impl VisitorMut for Compare {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let written = match expr {
            Expr::Function(function) => self.of_call(function),
            Expr::BinaryOp { left, op, right } => self.of_operator(left, op, right),
            _ => None,
        };
        if let Some(written) = written {
            *expr = written;
        }
        ControlFlow::Continue(())
    }
}

/// Whether it says by itself what it is: NULLs and texts do not, nor does what has parameters in it.
fn is_known(expr: &Expr) -> bool {
    let is_unknown = |value: &Value| matches!(value, Value::Null | Value::SingleQuotedString(_));
    !matches!(expr, Expr::Value(value) if is_unknown(&value.value)) && !contains(expr, is_parameter)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn query(sql: &str) -> Query {
        query_of(&mut parse(sql).unwrap().remove(0).kind).expect("a query").clone()
    }

    #[test]
    fn places_state_types() {
        for (sql, expected) in [
            ("SELECT left(a, $1), split_part(a, '@', $2), round(b, $3), power(2, $4)", vec![INT, INT, INT, DOUBLE]),
            ("SELECT percentile_cont($1) WITHIN GROUP (ORDER BY a), ntile($2) OVER () FROM t", vec![DOUBLE, INT]),
            ("SELECT 1 FROM t WHERE $1", vec![DataType::Boolean]),
            ("SELECT 1 FROM t WHERE a = 1 AND NOT $1", vec![DataType::Boolean]),
            ("SELECT value FROM generate_series(1, $1)", vec![DataType::Int64]),
            ("SELECT value FROM generate_series(DATE '2024-01-01', $1, $2)", vec![DataType::Date32, SPAN]),
            ("SELECT concat(a, $1), date_trunc($2, b) FROM t", vec![]),
        ] {
            assert_eq!(stated(&query(sql)).into_values().collect::<Vec<_>>(), expected, "{sql}");
        }
    }

    #[test]
    fn parameters_are_compared_with_what_decides() {
        for (sql, expected) in [
            ("coalesce($1, a)", "CASE WHEN (a) = $1 THEN a END"),
            ("greatest(a, $1, $2)", "CASE WHEN (a) = $1 AND (a) = $2 THEN a END"),
            ("a + $1", "CASE WHEN (a) = $1 THEN a END"),
            ("lag(a, 1, $1) OVER ()", "CASE WHEN (a) = $1 THEN lag(a, 1) OVER () END"),
            // Not a third time.
            ("a + $1 + $2", "CASE WHEN (a) = $1 THEN a END + $2"),
            ("coalesce($1, NULL)", "coalesce($1, NULL)"),
            ("a - $1", "a - $1"),
        ] {
            let mut query = query(&format!("SELECT {sql} AS x FROM t"));
            compare(&mut query);
            assert_eq!(query.to_string(), format!("SELECT {expected} AS x FROM t"));
        }
        let compared = compare(&mut query("SELECT a + $1, b * $2 FROM t"));
        let moment = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
        assert_eq!(compared.type_of(1, moment.clone()), SPAN);
        assert_eq!((compared.type_of(2, SPAN), compared.type_of(3, moment.clone())), (DOUBLE, moment));
    }
}
