//! Random questions about a random table: their SQL, and what they say of rows, one by one.

use super::table::{Key, Kind, Level, Row, Table, Unit};
use crate::support::Random;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow::util::display::array_value_to_string;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a column's value must be.
#[derive(Clone, Debug)]
enum Test {
    Compare(&'static str, i64),
    In(Vec<i64>),
    Between(i64, i64),
    Null,
    Prefix(String),
    /// Of a BOOLEAN.
    True,
}

/// What a row must be; unknown where a value is NULL.
#[derive(Clone, Debug)]
enum Condition {
    Column(usize, Test),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// An aggregate function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
}

const FUNCTIONS: [(Function, &str); 9] = [
    (Function::Count, "count"),
    (Function::Sum, "sum"),
    (Function::Min, "min"),
    (Function::Max, "max"),
    (Function::Avg, "avg"),
    (Function::VarPop, "var_pop"),
    (Function::VarSamp, "var_samp"),
    (Function::StddevPop, "stddev_pop"),
    (Function::StddevSamp, "stddev_samp"),
];

/// Aggregates of a box by groups.
#[derive(Clone, Debug)]
pub(super) struct Question {
    conditions: Vec<Condition>,
    groups: Vec<Level>,
    /// Functions of columns; `None` is `count(*)`.
    values: Vec<Option<(usize, usize)>>,
}

/// One value of an answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cell {
    Null,
    Int(i128),
    Float(f64),
}

/// Groups, and their values.
pub(super) type Answer = BTreeMap<Vec<Key>, Vec<Cell>>;

fn test(random: &mut Random, table: &Table, column: usize) -> Test {
    let of = &table.columns[column];
    let pick = |random: &mut Random| {
        // Beside a value, too, and between two.
        of.pick(random) + if random.below(6) == 0 { random.below(3) as i64 - 1 } else { 0 }
    };
    match (random.below(9), of.kind) {
        (0, _) => Test::Null,
        (1, Kind::Boolean) => Test::True,
        (1 | 2, Kind::Text) => Test::Prefix(random.pick(&["", "m", "m1", "gr", "o'm", "x", "größe 1"]).to_owned()),
        (2 | 3, _) => Test::In((0..1 + random.below(4)).map(|_| pick(random)).collect()),
        (4, _) => Test::Between(pick(random), pick(random)),
        _ => {
            let operators = ["=", "<>", "<", "<=", ">", ">="];
            Test::Compare(operators[random.below(6) as usize], pick(random))
        }
    }
}

fn condition(random: &mut Random, table: &Table, columns: &[(usize, Option<Unit>)]) -> Condition {
    let (column, unit) = columns[random.below(columns.len() as u64) as usize];
    let simple = match unit {
        // A time between two moments at which units begin.
        Some(unit) if random.below(4) > 0 => {
            let moment = |random: &mut Random| unit.start(table.columns[column].pick(random));
            let (low, end) = (moment(random), moment(random));
            Condition::All(vec![
                Condition::Column(column, Test::Compare(">=", low)),
                Condition::Column(column, Test::Compare("<", end.max(low + 1_000_000))),
            ])
        }
        _ => Condition::Column(column, test(random, table, column)),
    };
    match random.below(9) {
        0 => Condition::Not(Box::new(simple)),
        1 => Condition::Any(vec![simple, condition(random, table, columns)]),
        2 => Condition::Not(Box::new(Condition::All(vec![simple, condition(random, table, columns)]))),
        _ => simple,
    }
}

impl Condition {
    fn sql(&self, table: &Table) -> String {
        let joined = |parts: &[Condition], by: &str| {
            let parts: Vec<String> = parts.iter().map(|part| part.sql(table)).collect();
            format!("({})", parts.join(by))
        };
        match self {
            Condition::Not(inner) => format!("NOT {}", inner.sql(table)),
            Condition::All(parts) => joined(parts, " AND "),
            Condition::Any(parts) => joined(parts, " OR "),
            Condition::Column(column, test) => {
                let of = &table.columns[*column];
                let (name, literal) = (&of.name, |number: &i64| of.kind.literal(*number));
                match test {
                    Test::Compare(operator, number) => format!("{name} {operator} {}", literal(number)),
                    Test::In(numbers) => {
                        format!("{name} IN ({})", numbers.iter().map(literal).collect::<Vec<_>>().join(", "))
                    }
                    Test::Between(low, high) => format!("({name} BETWEEN {} AND {})", literal(low), literal(high)),
                    Test::Null => format!("{name} IS NULL"),
                    Test::Prefix(prefix) => format!("{name} LIKE '{}%'", prefix.replace('\'', "''")),
                    Test::True => name.clone(),
                }
            }
        }
    }

    fn holds(&self, table: &Table, row: &Row) -> Option<bool> {
        let each = |parts: &[Condition], decides: bool| {
            let parts: Vec<Option<bool>> = parts.iter().map(|part| part.holds(table, row)).collect();
            if parts.contains(&Some(decides)) {
                return Some(decides);
            }
            (!parts.contains(&None)).then_some(!decides)
        };
        match self {
            Condition::Not(inner) => inner.holds(table, row).map(|holds| !holds),
            Condition::All(parts) => each(parts, false),
            Condition::Any(parts) => each(parts, true),
            Condition::Column(column, Test::Null) => Some(row[*column].is_none()),
            Condition::Column(column, test) => {
                let (kind, number) = (table.columns[*column].kind, row[*column]?);
                Some(match test {
                    Test::Compare(operator, other) => {
                        let order = kind.order(number, *other);
                        match *operator {
                            "=" => order == Ordering::Equal,
                            "<>" => order != Ordering::Equal,
                            "<" => order == Ordering::Less,
                            "<=" => order != Ordering::Greater,
                            ">" => order == Ordering::Greater,
                            _ => order != Ordering::Less,
                        }
                    }
                    Test::In(numbers) => numbers.iter().any(|other| kind.order(number, *other) == Ordering::Equal),
                    Test::Between(low, high) => {
                        kind.order(number, *low) != Ordering::Less && kind.order(number, *high) != Ordering::Greater
                    }
                    Test::Prefix(prefix) => kind.starts_with(number, prefix),
                    Test::True | Test::Null => number & 1 == 1,
                })
            }
        }
    }
}

impl Question {
    /// A random one; of these levels alone, if there are any.
    pub(super) fn new(random: &mut Random, table: &Table, within: &[Level]) -> Question {
        let mut columns: Vec<(usize, Option<Unit>)> = match within {
            [] => (0..table.columns.len()).map(|column| (column, None)).collect(),
            within => within.iter().map(|level| (level.column, level.unit)).collect(),
        };
        if within.is_empty() {
            // Levels more often than measures, and times by their units.
            columns.extend(table.levels.iter().map(|level| (level.column, level.unit)));
            columns.extend(table.levels.iter().map(|level| (level.column, level.unit)));
        }
        let conditions = (0..random.below(4)).map(|_| condition(random, table, &columns)).collect();
        let from = if within.is_empty() { &table.levels } else { within };
        let mut groups: Vec<Level> = Vec::new();
        let count = if from.is_empty() { 0 } else { random.below(3) };
        for _ in 0..count {
            let level = &from[random.below(from.len() as u64) as usize];
            if groups.iter().all(|known| (known.column, known.unit) != (level.column, level.unit)) {
                groups.push(level.clone());
            }
        }
        let value = |random: &mut Random| {
            let column = table.measures[random.below(table.measures.len() as u64) as usize];
            // A decimal's average is rounded as the planner has it.
            let functions = if table.columns[column].kind == Kind::Decimal { 4 } else { FUNCTIONS.len() as u64 };
            (random.below(4) > 0).then(|| (random.below(functions) as usize, column))
        };
        let values = (0..1 + random.below(3)).map(|_| value(random)).collect();
        Question { conditions, groups, values }
    }

    pub(super) fn sql(&self, table: &Table) -> String {
        let group = |level: &Level| {
            let name = &table.columns[level.column].name;
            level.unit.map_or_else(|| name.clone(), |unit| format!("date_trunc('{}', {name})", unit.name()))
        };
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        let mut items = groups.clone();
        items.extend(self.values.iter().enumerate().map(|(at, value)| match value {
            None => format!("count(*) AS v{at}"),
            Some((function, column)) => format!("{}({}) AS v{at}", FUNCTIONS[*function].1, table.columns[*column].name),
        }));
        let mut sql = format!("SELECT {} FROM t", items.join(", "));
        if !self.conditions.is_empty() {
            let conditions: Vec<String> = self.conditions.iter().map(|condition| condition.sql(table)).collect();
            sql += &format!(" WHERE {}", conditions.join(" AND "));
        }
        if !groups.is_empty() {
            sql += &format!(" GROUP BY {}", groups.join(", "));
        }
        sql
    }

    /// The slow way.
    pub(super) fn expected<'a>(&self, table: &Table, rows: impl Iterator<Item = &'a Row>) -> Answer {
        let mut groups: BTreeMap<Vec<Key>, Vec<&Row>> = BTreeMap::new();
        if self.groups.is_empty() {
            groups.insert(Vec::new(), Vec::new());
        }
        for row in rows.filter(|row| self.conditions.iter().all(|part| part.holds(table, row) == Some(true))) {
            let key = |level: &Level| match (row[level.column], level.unit) {
                (None, _) => Key::Null,
                (Some(number), Some(unit)) => Key::Int(unit.start(number)),
                (Some(number), None) => table.columns[level.column].kind.key(number),
            };
            groups.entry(self.groups.iter().map(key).collect()).or_default().push(row);
        }
        let value = |rows: &[&Row], value: &Option<(usize, usize)>| match value {
            None => Cell::Int(rows.len() as i128),
            Some((function, column)) => {
                let numbers: Vec<i128> = rows.iter().filter_map(|row| row[*column]).map(i128::from).collect();
                aggregate(FUNCTIONS[*function].0, table.columns[*column].kind, &numbers)
            }
        };
        let values = |rows: Vec<&Row>| self.values.iter().map(|of| value(&rows, of)).collect();
        groups.into_iter().map(|(key, rows)| (key, values(rows))).collect()
    }

    /// What was answered.
    pub(super) fn found(&self, batches: &[RecordBatch]) -> Answer {
        let mut answer = Answer::new();
        for batch in batches {
            let (keys, values) = batch.columns().split_at(self.groups.len());
            for row in 0..batch.num_rows() {
                let key = keys.iter().map(|column| key(column, row)).collect();
                let cells = values.iter().map(|column| cell(column, row)).collect();
                assert!(answer.insert(key, cells).is_none(), "a group comes twice");
            }
        }
        answer
    }

    /// Panics unless both say the same; floats may differ in the last digits.
    pub(super) fn agrees(&self, found: &Answer, expected: &Answer, told: &dyn Fn() -> String) {
        let keys = |answer: &Answer| answer.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(found), keys(expected), "{}", told());
        for ((key, found), expected) in found.iter().zip(expected.values()) {
            for ((found, expected), value) in found.iter().zip(expected).zip(&self.values) {
                let is_root =
                    value.is_some_and(|(of, _)| matches!(FUNCTIONS[of].0, Function::StddevPop | Function::StddevSamp));
                let same = match (found, expected) {
                    // Of a root the expected value is the square.
                    (Cell::Float(a), Cell::Float(b)) => {
                        let a = if is_root { a * a } else { *a };
                        (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
                    }
                    (a, b) => a == b,
                };
                assert!(same, "{found:?} is not {expected:?} in {key:?}: {}", told());
            }
        }
    }
}

/// Of exact numbers; of a standard deviation its square.
fn aggregate(function: Function, kind: Kind, numbers: &[i128]) -> Cell {
    let (count, sum) = (numbers.len() as i128, numbers.iter().sum::<i128>());
    let unit = if kind == Kind::Double { 0.25 } else { 1.0 };
    let exact = |number: i128| match kind {
        Kind::Double => Cell::Float(number as f64 * unit),
        _ => Cell::Int(number),
    };
    let spread = |divisor: i128| {
        let squares: i128 = numbers.iter().map(|number| number * number).sum();
        Cell::Float((count * squares - sum * sum) as f64 / count as f64 / divisor as f64 * unit * unit)
    };
    match function {
        Function::Count => Cell::Int(count),
        _ if count == 0 => Cell::Null,
        Function::Sum => exact(sum),
        Function::Min => exact(numbers.iter().copied().min().unwrap_or(0)),
        Function::Max => exact(numbers.iter().copied().max().unwrap_or(0)),
        Function::Avg => Cell::Float(sum as f64 * unit / count as f64),
        Function::VarPop | Function::StddevPop => spread(count),
        Function::VarSamp | Function::StddevSamp if count == 1 => Cell::Null,
        Function::VarSamp | Function::StddevSamp => spread(count - 1),
    }
}

fn number(column: &ArrayRef, row: usize) -> i64 {
    cast(&column.slice(row, 1), &DataType::Int64).expect("a number").as_primitive::<Int64Type>().value(0)
}

fn key(column: &ArrayRef, row: usize) -> Key {
    if column.is_null(row) {
        return Key::Null;
    }
    match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Key::Text(array_value_to_string(column, row).expect("shows"))
        }
        // Days.
        DataType::Date32 => {
            let days = cast(&column.slice(row, 1), &DataType::Int32).expect("days");
            Key::Int(days.as_primitive::<Int32Type>().value(0).into())
        }
        _ => Key::Int(number(column, row)),
    }
}

fn cell(column: &ArrayRef, row: usize) -> Cell {
    if column.is_null(row) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Float64 => Cell::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            assert_eq!(*scale, 2, "as the column has it");
            Cell::Int(column.as_primitive::<Decimal128Type>().value(row))
        }
        _ => Cell::Int(number(column, row).into()),
    }
}
