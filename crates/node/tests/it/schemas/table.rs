//! A random table of 1 to 64 dimensions, and its rows as numbers, of which values are made.

use crate::support::Random;
use alluvia_space::codes::calendar::civil;
use std::cmp::Ordering;

pub(super) const DAY: i64 = 86_400_000_000;

/// What a column is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Text,
    SmallInt,
    Int,
    BigInt,
    Boolean,
    Date,
    Timestamp,
    /// Quarters.
    Double,
    /// Hundredths.
    Decimal,
}

/// A column, whose numbers are `first + step * pick`.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    first: i64,
    step: i64,
    distinct: u64,
    /// One row in so many is NULL; 0: none.
    nulls: u64,
    /// How much more often the first picks come than the last.
    skew: i32,
}

/// A unit that a time is cut off at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Year,
    Month,
    Day,
    Hour,
}

/// What groups may be made of, and boxes best be of.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// As cuboids are named by; `None` of numbers and ids, which have none.
    pub(super) name: Option<String>,
    pub(super) column: usize,
    pub(super) unit: Option<Unit>,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) levels: Vec<Level>,
    pub(super) measures: Vec<usize>,
    pub(super) create: String,
}

/// A row: for each column the number that its value is made of.
pub(super) type Row = Vec<Option<i64>>;

/// What tells groups apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Key {
    Null,
    Int(i64),
    Text(String),
}

fn one(random: &mut Random, from: &[i64]) -> i64 {
    from[random.below(from.len() as u64) as usize]
}

fn text(number: i64) -> String {
    match number.rem_euclid(7) {
        _ if number == 0 => String::new(),
        3 => format!("o'm{number}"),
        5 => format!("größe {number}"),
        _ => format!("m{number}"),
    }
}

impl Kind {
    fn sql(self) -> &'static str {
        match self {
            Kind::Text => "TEXT",
            Kind::SmallInt => "SMALLINT",
            Kind::Int => "INT",
            Kind::BigInt => "BIGINT",
            Kind::Boolean => "BOOLEAN",
            Kind::Date => "DATE",
            Kind::Timestamp => "TIMESTAMP",
            Kind::Double => "DOUBLE",
            Kind::Decimal => "DECIMAL(12, 2)",
        }
    }

    /// A value as a constant.
    pub(super) fn literal(self, number: i64) -> String {
        let date = |days: i64| {
            let (year, month, day) = civil(days);
            format!("{year:04}-{month:02}-{day:02}")
        };
        match self {
            Kind::Text => format!("'{}'", text(number).replace('\'', "''")),
            Kind::SmallInt | Kind::Int | Kind::BigInt => number.to_string(),
            Kind::Boolean => (number & 1 == 1).to_string(),
            Kind::Date => format!("'{}'", date(number)),
            Kind::Timestamp => {
                let (days, micros) = (number.div_euclid(DAY), number.rem_euclid(DAY));
                let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
                let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
                format!("'{} {hour:02}:{minute:02}:{second:02}.{micros:06}'", date(days))
            }
            Kind::Double => format!("{:?}", number as f64 / 4.0),
            Kind::Decimal => {
                let sign = if number < 0 { "-" } else { "" };
                format!("{sign}{}.{:02}", number.abs() / 100, number.abs() % 100)
            }
        }
    }

    pub(super) fn order(self, a: i64, b: i64) -> Ordering {
        match self {
            Kind::Text => text(a).cmp(&text(b)),
            Kind::Boolean => (a & 1).cmp(&(b & 1)),
            _ => a.cmp(&b),
        }
    }

    pub(super) fn starts_with(self, number: i64, prefix: &str) -> bool {
        self == Kind::Text && text(number).starts_with(prefix)
    }

    pub(super) fn key(self, number: i64) -> Key {
        match self {
            Kind::Text => Key::Text(text(number)),
            Kind::Boolean => Key::Int(number & 1),
            _ => Key::Int(number),
        }
    }
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Year => "year",
            Unit::Month => "month",
            Unit::Day => "day",
            Unit::Hour => "hour",
        }
    }

    /// The first microsecond of the unit that a time lies in.
    pub(super) fn start(self, micros: i64) -> i64 {
        let days = micros.div_euclid(DAY);
        let (_, month, day) = civil(days);
        let first_of_month = days - i64::from(day) + 1;
        match self {
            Unit::Hour => micros.div_euclid(DAY / 24) * (DAY / 24),
            Unit::Day => days * DAY,
            Unit::Month => first_of_month * DAY,
            // Month by month back to January.
            Unit::Year => {
                let step = |first: i64, _: u32| first - i64::from(civil(first - 1).2);
                (1..month).fold(first_of_month, step) * DAY
            }
        }
    }
}

impl Column {
    /// A number of a value of the column.
    pub(super) fn pick(&self, random: &mut Random) -> i64 {
        let place = random.below(1 << 30) as f64 / (1u64 << 30) as f64;
        let pick = (place.powi(self.skew) * self.distinct as f64) as i64;
        self.first + self.step * pick
    }

    fn value(&self, random: &mut Random) -> Option<i64> {
        let is_null = self.nulls > 0 && random.below(self.nulls) == 0;
        (!is_null).then(|| self.pick(random))
    }
}

/// Makes columns, levels and the declaration.
struct Maker<'a> {
    random: &'a mut Random,
    columns: Vec<Column>,
    levels: Vec<Level>,
    dimensions: Vec<String>,
}

impl Maker<'_> {
    fn column(&mut self, kind: Kind, (first, step): (i64, i64)) -> usize {
        let distinct = match self.random.below(7) {
            0 => 1,
            1 => 2,
            2 => 3 + self.random.below(10),
            3 => 200 + self.random.below(2_000),
            _ => 4 + self.random.below(40),
        };
        let name = format!("c{}", self.columns.len());
        let nulls = one(self.random, &[0, 0, 0, 2, 9, 40]) as u64;
        let skew = 1 + self.random.below(5) as i32;
        self.columns.push(Column { name, kind, first, step, distinct, nulls, skew });
        self.columns.len() - 1
    }

    fn dimension(&mut self, at: usize) {
        let part = match self.random.below(9) {
            0..4 => self.path(at),
            4 | 5 => self.times(at),
            6 => self.dates(at),
            7 => {
                let kind = if self.random.below(2) == 0 { Kind::Double } else { Kind::Int };
                let first = one(self.random, &[0, -40]);
                let how = ["linear 0..64, 2, 5", "linear", "quantiles, 1, 3", "quantiles (2, 9, 30), 2"];
                let how = self.random.pick(&how);
                let column = self.column(kind, (first, 1));
                if kind == Kind::Int {
                    self.levels.push(Level { name: None, column, unit: None });
                }
                format!("d{at}(c{column}: {how})")
            }
            _ => {
                let kind = if self.random.below(2) == 0 { Kind::BigInt } else { Kind::Text };
                let column = self.column(kind, (1, 1));
                self.levels.push(Level { name: None, column, unit: None });
                format!("d{at}(c{column}: hash {})", self.random.pick(&["8", "12", "3, 9"]))
            }
        };
        self.dimensions.push(part);
    }

    fn path(&mut self, at: usize) -> String {
        let count = if self.random.below(2) == 0 { 1 } else { 1 + self.random.below(5) };
        let kinds =
            [Kind::Text, Kind::Text, Kind::Text, Kind::Int, Kind::BigInt, Kind::SmallInt, Kind::Boolean, Kind::Date];
        let mut names = Vec::new();
        for _ in 0..count {
            let kind = kinds[self.random.below(kinds.len() as u64) as usize];
            let first = if kind == Kind::Date { 18_000 } else { one(self.random, &[0, -3, 1]) };
            let column = self.column(kind, (first, 1));
            let name = Some(format!("d{at}.c{column}"));
            self.levels.push(Level { name, column, unit: None });
            names.push(format!("c{column}"));
        }
        format!("d{at}({})", names.join(", "))
    }

    fn times(&mut self, at: usize) -> String {
        let first = one(self.random, &[1_577_836_800_000_000, -86_400_000_000, 1_703_900_000_000_001]);
        let step = one(self.random, &[61_000_000, 26_411_000_000, DAY, 9 * DAY]);
        let column = self.column(Kind::Timestamp, (first, step));
        let units = [Unit::Year, Unit::Month, Unit::Day, Unit::Hour];
        let from = self.random.below(4) as usize;
        let through = from + self.random.below(4 - from as u64) as usize;
        for unit in &units[from..=through] {
            let name = Some(format!("d{at}.{}", unit.name()));
            self.levels.push(Level { name, column, unit: Some(*unit) });
        }
        let units: Vec<&str> = units[from..=through].iter().map(|unit| unit.name()).collect();
        let span = self.random.pick(&["", " from 2020-01-01 to 2022-01-01"]);
        format!("d{at}(c{column}: {}{span})", units.join(", "))
    }

    fn dates(&mut self, at: usize) -> String {
        let first = one(self.random, &[18_262, -400]);
        let column = self.column(Kind::Date, (first, 1));
        format!("d{at}(c{column}: {})", self.random.pick(&["year, month, day", "month", "year, quarter"]))
    }

    fn measure(&mut self) -> usize {
        let kinds = [Kind::Int, Kind::BigInt, Kind::Double, Kind::Decimal, Kind::SmallInt];
        let kind = kinds[self.random.below(5) as usize];
        let first = one(self.random, &[0, -300, 7]);
        self.column(kind, (first, 1))
    }
}

impl Table {
    /// A random one.
    pub(super) fn new(random: &mut Random, dimensions: usize) -> Table {
        let mut maker = Maker { random, columns: Vec::new(), levels: Vec::new(), dimensions: Vec::new() };
        (0..dimensions).for_each(|at| maker.dimension(at));
        let measures: Vec<usize> = (0..1 + maker.random.below(4)).map(|_| maker.measure()).collect();
        let Maker { columns, levels, dimensions, random } = maker;
        let declared: Vec<String> = columns
            .iter()
            .map(|column| {
                let not_null = if column.nulls == 0 && random.below(2) == 0 { " NOT NULL" } else { "" };
                format!("{} {}{not_null}", column.name, column.kind.sql())
            })
            .collect();
        let names: Vec<&str> = measures.iter().map(|&column| columns[column].name.as_str()).collect();
        let curve = random.pick(&["", ", curve = 'z'"]);
        let create = format!(
            "CREATE TABLE t ({}) WITH (dimensions = '{}', measures = '{}'{curve})",
            declared.join(", "),
            dimensions.join("; "),
            names.join(", ")
        );
        Table { columns, levels, measures, create }
    }

    /// Random rows.
    pub(super) fn rows(&self, random: &mut Random, count: u64) -> Vec<Row> {
        (0..count).map(|_| self.columns.iter().map(|column| column.value(random)).collect()).collect()
    }

    /// The statement that inserts rows.
    pub(super) fn insert(&self, rows: &[Row]) -> String {
        let value = |(column, number): (&Column, &Option<i64>)| {
            number.map_or_else(|| "NULL".to_owned(), |number| column.kind.literal(number))
        };
        let row = |row: &Row| self.columns.iter().zip(row).map(value).collect::<Vec<_>>().join(", ");
        let rows: Vec<String> = rows.iter().map(|values| format!("({})", row(values))).collect();
        format!("INSERT INTO t VALUES {}", rows.join(", "))
    }
}
