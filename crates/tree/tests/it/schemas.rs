//! Random tables of 1 to 64 dimensions of every kind, and rows of them whose members are known without looking at codes.
//!
//! Invariant: a row's member at a level is told from its values alone, by arithmetic that is not the engine's; so codes are checked,
//! and whatever is then added up by codes is added up by members.

use crate::common::Random;
use crate::made_zones::{ZONES, rules, shown};
use alluvia_space::codes::is_arithmetic;
use alluvia_space::{
    CalendarUnit, Column, Curve, DataType, Dimension, KeyRange, LevelCodes, LevelSource, ORDINAL_COLUMN, TableDef,
    TableOptions, VERSION_COLUMN, dimensions,
};
use alluvia_types::{ColumnId, TableId};
use arrow::array::*;
use arrow::compute::{DatePart, date_part};
use arrow::datatypes::{DataType as Arrow, Field, Int32Type, IntervalMonthDayNano, Schema as ArrowSchema};
use std::collections::HashMap;
use std::sync::Arc;

const DAY: i64 = 86_400_000_000;

/// Numbers that a column has: `first + step * pick`.
#[derive(Clone, Copy, Debug)]
struct Domain {
    first: i64,
    step: i64,
    distinct: u64,
    /// One row in so many is NULL; 0: none.
    nulls: u64,
    /// How much more often the first picks come than the last.
    skew: i32,
    /// The picks go along with the order of arrival.
    follows: bool,
}

/// Values of a measure.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Flavour {
    Constant,
    Small,
    Thirds,
    Skewed,
    /// What totals may refuse to hold.
    Wild,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Level(Domain),
    Measure(Flavour, u64),
}

/// A table, and what its columns are filled with.
#[derive(Debug)]
pub struct Schema {
    pub table: TableDef,
    /// As it was declared.
    pub declaration: String,
    /// Whether a measure has values that totals may refuse.
    pub wild: bool,
    sources: Vec<Source>,
}

/// Rows with the numbers that their columns are made of.
pub struct Rows {
    pub batch: RecordBatch,
    numbers: Vec<Vec<Option<i64>>>,
}

/// What a row is at a level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Member {
    Null,
    /// A value under a member of the level above, by that one's number; 0 for NULL and above the first level.
    Child(usize, i64),
    /// Calendar units, or the part of a number, in the order of values.
    Place(i64),
    /// A value whose part or bucket is not known here.
    Value(i64),
}

fn any(random: &mut Random, from: &[i64]) -> i64 {
    from[random.below(from.len() as u64) as usize]
}

fn domain(random: &mut Random) -> Domain {
    let distinct = match random.below(7) {
        0 => 1,
        1 => 2,
        2 => 3 + random.below(10),
        3 => 20 + random.below(200),
        4 => 1_000 + random.below(4_000),
        _ => 4 + random.below(40),
    };
    Domain {
        first: 0,
        step: 1,
        distinct,
        nulls: any(random, &[0, 0, 0, 2, 9, 50]) as u64,
        skew: 1 + random.below(6) as i32,
        follows: random.below(6) == 0,
    }
}

/// Makes a table's columns and its declaration.
struct Maker<'a> {
    random: &'a mut Random,
    columns: Vec<Column>,
    sources: Vec<Source>,
    parts: Vec<String>,
}

impl Maker<'_> {
    fn column(&mut self, data_type: DataType, source: Source) -> String {
        let id = ColumnId(self.columns.len() as u32 + 1);
        let name = format!("c{}", id.0);
        let nulls = match source {
            Source::Level(domain) => domain.nulls,
            Source::Measure(_, nulls) => nulls,
        };
        let nullable = nulls > 0 || self.random.below(2) == 0;
        self.columns.push(Column {
            id,
            storage_name: name.clone(),
            name: name.clone(),
            data_type,
            nullable,
            chars_max: None,
        });
        self.sources.push(source);
        name
    }

    /// Some of these, in their order; at least one.
    fn some<T: Copy>(&mut self, from: &[T]) -> Vec<T> {
        let one = self.random.below(from.len() as u64) as usize;
        let picked = |at: usize, random: &mut Random| at == one || random.below(3) == 0;
        (0..from.len()).filter(|&at| picked(at, self.random)).map(|at| from[at]).collect()
    }

    fn dimension(&mut self, at: usize) {
        let part = match self.random.below(9) {
            0..3 => self.path(at),
            3 | 4 => self.calendar(at),
            5 => self.linear(at),
            6 => self.learnt(at),
            7 => self.quantiles(at),
            _ => self.hashed(at),
        };
        self.parts.push(part);
    }

    fn path(&mut self, at: usize) -> String {
        let count = if self.random.below(2) == 0 { 1 } else { 1 + self.random.below(5) };
        let names: Vec<String> = (0..count)
            .map(|_| {
                let mut domain = domain(self.random);
                domain.first = any(self.random, &[0, -1, -7]);
                let data_type = match self.random.below(14) {
                    0 => DataType::Boolean,
                    1 => DataType::Int16,
                    2 => DataType::Int32,
                    3 => DataType::Int64,
                    4 => DataType::Double,
                    5 => DataType::Decimal { precision: 9, scale: 2 },
                    6 => DataType::Date,
                    7 => DataType::Timestamp,
                    8 => DataType::Binary,
                    9 => DataType::Uuid,
                    10 => DataType::Time,
                    11 => DataType::Numeric,
                    _ => DataType::Text,
                };
                if data_type == DataType::Boolean {
                    domain.distinct = domain.distinct.min(2);
                }
                self.column(data_type, Source::Level(domain))
            })
            .collect();
        if count == 1 && self.random.below(2) == 0 {
            return names[0].clone();
        }
        format!("d{at}({})", names.join(", "))
    }

    fn calendar(&mut self, at: usize) -> String {
        let is_date = self.random.below(3) == 0;
        let mut domain = domain(self.random);
        // 1900, 1970, 2020.
        domain.first = any(self.random, &[-25_567, 0, 18_262]);
        let units = if is_date {
            domain.step = any(self.random, &[1, 9, 40]);
            self.some(&CalendarUnit::ALL[..4])
        } else {
            domain.first = domain.first * DAY + 12_345_678;
            domain.step = any(self.random, &[61_000_000, 3_600_000_000, 26_411_000_007, DAY, 40 * DAY]);
            self.some(&CalendarUnit::ALL)
        };
        let data_type = match (is_date, self.random.below(3)) {
            (true, _) => DataType::Date,
            (false, 0) => DataType::TimestampTz,
            (false, _) => DataType::Timestamp,
        };
        let units: Vec<&str> = units.into_iter().map(CalendarUnit::name).collect();
        let span = if self.random.below(3) == 0 { " from 2019-01-01 to 2024-01-01" } else { "" };
        let zone = match (data_type, self.random.below(3)) {
            (DataType::TimestampTz, 0 | 1) => {
                let (zone, ..) = ZONES[self.random.below(2) as usize];
                format!(" AT TIME ZONE {zone}")
            }
            _ => String::new(),
        };
        let name = self.column(data_type, Source::Level(domain));
        format!("d{at}({name}{zone}: {}{span})", units.join(", "))
    }

    fn number(&mut self, domain: Domain) -> String {
        let types = [DataType::Int16, DataType::Int32, DataType::Int64, DataType::Real, DataType::Double];
        let data_type = types[self.random.below(5) as usize];
        self.column(data_type, Source::Level(domain))
    }

    /// A range that is declared, beyond which there are values on both sides.
    fn linear(&mut self, at: usize) -> String {
        let (low, span) = (any(self.random, &[0, -64, 1_000]), 1i64 << (4 + self.random.below(8)));
        let mut domain = domain(self.random);
        domain.first = low - span / 4;
        domain.step = any(self.random, &[1, 3]);
        let halvings: Vec<String> = self.some(&[1, 2, 3, 5, 8, 12]).iter().map(u8::to_string).collect();
        let name = self.number(domain);
        format!("d{at}({name}: linear {low}..{}, {})", low + span, halvings.join(", "))
    }

    fn learnt(&mut self, at: usize) -> String {
        let mut domain = domain(self.random);
        (domain.first, domain.step) = (any(self.random, &[0, -50, 9_999]), any(self.random, &[1, 2]));
        let name = self.number(domain);
        match self.random.below(3) {
            0 => format!("d{at}({name}: linear)"),
            1 => format!("d{at}({name}: linear, 2, 7, 20)"),
            _ => format!("d{at}({name}: quantiles, 1, 3, 6)"),
        }
    }

    /// Cuts that are declared.
    fn quantiles(&mut self, at: usize) -> String {
        let halvings = self.some(&[1u32, 2, 3, 4]);
        let finest = halvings[halvings.len() - 1];
        let mut cuts: Vec<i64> = (1..1 << finest).map(|_| self.random.below(300) as i64 - 20).collect();
        cuts.sort_unstable();
        let mut domain = domain(self.random);
        domain.first = -30;
        let (cuts, halvings): (Vec<String>, Vec<String>) =
            (cuts.iter().map(i64::to_string).collect(), halvings.iter().map(u32::to_string).collect());
        let name = self.number(domain);
        format!("d{at}({name}: quantiles ({}), {})", cuts.join(", "), halvings.join(", "))
    }

    fn hashed(&mut self, at: usize) -> String {
        let bits: Vec<String> = self.some(&[1, 4, 8, 16]).iter().map(u8::to_string).collect();
        let types = [DataType::Int64, DataType::Text, DataType::Int32];
        let data_type = types[self.random.below(3) as usize];
        let mut domain = domain(self.random);
        domain.distinct = domain.distinct.max(self.random.below(50_000));
        let name = self.column(data_type, Source::Level(domain));
        format!("d{at}({name}: hash {})", bits.join(", "))
    }

    fn measure(&mut self) -> ColumnId {
        let types = [
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::Real,
            DataType::Double,
            DataType::Double,
            DataType::Decimal { precision: 9, scale: 2 },
            DataType::Decimal { precision: 38, scale: 10 },
        ];
        let data_type = types[self.random.below(types.len() as u64) as usize];
        let flavour = match self.random.below(14) {
            0 => Flavour::Constant,
            1..5 => Flavour::Thirds,
            5..8 => Flavour::Skewed,
            8 => Flavour::Wild,
            _ => Flavour::Small,
        };
        let nulls = any(self.random, &[0, 0, 1, 3, 20]) as u64;
        self.column(data_type, Source::Measure(flavour, nulls));
        self.columns[self.columns.len() - 1].id
    }
}

/// A random table of so many dimensions.
pub fn schema(random: &mut Random, dimensions: usize) -> Schema {
    let mut maker = Maker { random, columns: Vec::new(), sources: Vec::new(), parts: Vec::new() };
    (0..dimensions).for_each(|at| maker.dimension(at));
    // A number may be dimension and measure at once.
    let numbers = maker.columns.iter().filter(|column| column.data_type.is_number()).map(|column| column.id);
    let mut measures: Vec<ColumnId> = numbers.take(1).filter(|_| maker.random.below(2) == 0).collect();
    for _ in 0..1 + maker.random.below(4) {
        measures.push(maker.measure());
    }
    let Maker { random, columns, sources, parts } = maker;
    let declaration = parts.join("; ");
    let wild = sources.iter().any(|source| matches!(source, Source::Measure(Flavour::Wild, _)));
    let curve = if random.below(3) == 0 { Curve::Z } else { Curve::Hilbert };
    let table = TableDef {
        id: TableId(1),
        schema: "public".to_owned(),
        name: "random".to_owned(),
        next_column_id: columns.len() as u32 + 1,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: dimensions::parse_with_zones(&declaration, &columns, &rules)
            .unwrap_or_else(|error| panic!("{declaration}: {error}")),
        columns,
        measures,
        seed: random.below(1 << 40),
        options: TableOptions { curve, ..TableOptions::default() },
    };
    table.validate().unwrap_or_else(|error| panic!("{declaration}: {error}"));
    Schema { table, declaration, wild, sources }
}

/// Rows in the order in which they arrive, in so many versions from 1 on.
pub fn rows(schema: &Schema, random: &mut Random, count: usize, versions: u64) -> Rows {
    let (mut arrays, mut fields, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (column, source) in schema.table.columns.iter().zip(&schema.sources) {
        let (array, of_column) = match source {
            Source::Level(domain) => {
                let of_column = picked(random, domain, count);
                (array_of(column.data_type, &of_column), of_column)
            }
            Source::Measure(flavour, nulls) => {
                (measured(random, column.data_type, *flavour, *nulls, count), Vec::new())
            }
        };
        fields.push(Field::new(&column.storage_name, array.data_type().clone(), column.nullable));
        arrays.push(array);
        numbers.push(of_column);
    }
    let version = |row: usize| 1 + row as u64 * versions / count as u64;
    let first_of = |version: u64| ((version - 1) * count as u64).div_ceil(versions);
    arrays.push(Arc::new(UInt64Array::from_iter_values((0..count).map(version))));
    fields.push(Field::new(VERSION_COLUMN, Arrow::UInt64, true));
    arrays.push(Arc::new(UInt64Array::from_iter_values((0..count).map(|row| row as u64 - first_of(version(row))))));
    fields.push(Field::new(ORDINAL_COLUMN, Arrow::UInt64, false));
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).expect("fits the schema");
    Rows { batch, numbers }
}

impl Rows {
    /// Some of them.
    pub fn slice(&self, start: usize, len: usize) -> Rows {
        let part = |numbers: &Vec<Option<i64>>| numbers.get(start..start + len).map(<[_]>::to_vec).unwrap_or_default();
        Rows { batch: self.batch.slice(start, len), numbers: self.numbers.iter().map(part).collect() }
    }
}

fn unit(random: &mut Random) -> f64 {
    random.below(1 << 40) as f64 / (1u64 << 40) as f64
}

fn picked(random: &mut Random, domain: &Domain, count: usize) -> Vec<Option<i64>> {
    (0..count)
        .map(|row| {
            let place = match domain.follows {
                true => (row as f64 + unit(random) * count as f64 / 20.0) / count as f64,
                false => unit(random).powi(domain.skew),
            };
            let pick = ((place * domain.distinct as f64) as u64).min(domain.distinct - 1);
            let is_null = domain.nulls > 0 && random.below(domain.nulls) == 0;
            (!is_null).then_some(domain.first + domain.step * pick as i64)
        })
        .collect()
}

/// Values of a type, another for each number.
fn array_of(data_type: DataType, numbers: &[Option<i64>]) -> ArrayRef {
    let numbers = numbers.iter().copied();
    let text = |number: i64| match number {
        0 => String::new(),
        number if number % 5 == 1 => format!("größe {number}"),
        number => format!("value {number}"),
    };
    match data_type {
        DataType::Boolean => {
            Arc::new(numbers.map(|number| number.map(|number| number & 1 == 1)).collect::<BooleanArray>())
        }
        DataType::Int16 => Arc::new(numbers.map(|number| number.map(|number| number as i16)).collect::<Int16Array>()),
        DataType::Int32 => Arc::new(numbers.map(|number| number.map(|number| number as i32)).collect::<Int32Array>()),
        DataType::Int64 => Arc::new(numbers.collect::<Int64Array>()),
        DataType::Real => Arc::new(numbers.map(|number| number.map(|number| number as f32)).collect::<Float32Array>()),
        DataType::Double => {
            Arc::new(numbers.map(|number| number.map(|number| number as f64)).collect::<Float64Array>())
        }
        DataType::Decimal { precision, scale } => {
            let values: Decimal128Array = numbers.map(|number| number.map(i128::from)).collect();
            Arc::new(values.with_precision_and_scale(precision, scale as i8).expect("fits"))
        }
        DataType::Date => Arc::new(numbers.map(|number| number.map(|number| number as i32)).collect::<Date32Array>()),
        DataType::Timestamp => Arc::new(numbers.collect::<TimestampMicrosecondArray>()),
        DataType::TimestampTz => Arc::new(numbers.collect::<TimestampMicrosecondArray>().with_timezone("UTC")),
        DataType::Time => Arc::new(numbers.collect::<Time64MicrosecondArray>()),
        DataType::Uuid => {
            let values = numbers.map(|number| number.map(|number| i128::from(number).to_be_bytes()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).expect("16 bytes"))
        }
        DataType::Interval => {
            let span = |number: i64| IntervalMonthDayNano::new(number as i32, 1, number * 1_000);
            Arc::new(numbers.map(|number| number.map(span)).collect::<IntervalMonthDayNanoArray>())
        }
        DataType::Numeric => {
            let values: Decimal128Array = numbers.map(|number| number.map(i128::from)).collect();
            Arc::new(values.with_data_type(data_type.to_arrow()))
        }
        DataType::Text | DataType::Json | DataType::Jsonb | DataType::Char => {
            Arc::new(numbers.map(|number| number.map(text)).collect::<StringViewArray>())
        }
        DataType::Binary => {
            Arc::new(numbers.map(|number| number.map(|number| text(number).into_bytes())).collect::<BinaryViewArray>())
        }
    }
}

fn measured(random: &mut Random, data_type: DataType, flavour: Flavour, nulls: u64, count: usize) -> ArrayRef {
    let is_null = |random: &mut Random| nulls > 0 && random.below(nulls) == 0;
    let float = |random: &mut Random| match flavour {
        Flavour::Constant => 2.5,
        Flavour::Small => (random.below(4_000) as f64 - 900.0) / 4.0,
        Flavour::Thirds => random.below(10_000) as f64 / 3.0,
        Flavour::Skewed => (8.0 * unit(random).powi(3)).exp(),
        Flavour::Wild => match random.below(40) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::MAX,
            3 => -0.0,
            _ => random.below(1 << 50) as f64 / 7.0,
        },
    };
    let wild = matches!(flavour, Flavour::Wild);
    let integer = |random: &mut Random, wildest: i128| match flavour {
        Flavour::Constant => 7,
        Flavour::Wild => i128::from(random.below(1 << 62)) * wildest / (1 << 62),
        Flavour::Skewed => i128::from((8.0 * unit(random).powi(3)).exp() as i64),
        _ => i128::from(random.below(1_300)) - 300,
    };
    let mut integers = |wildest: i128| -> Vec<Option<i128>> {
        (0..count).map(|_| (!is_null(random)).then(|| integer(random, wildest))).collect()
    };
    match data_type {
        DataType::Real => {
            // Of this width a wild value is wild enough as it is.
            let value = |value: f64| if wild { value } else { value / 8.0 };
            Arc::new(
                (0..count).map(|_| (!is_null(random)).then(|| value(float(random)) as f32)).collect::<Float32Array>(),
            )
        }
        DataType::Double => {
            Arc::new((0..count).map(|_| (!is_null(random)).then(|| float(random))).collect::<Float64Array>())
        }
        DataType::Decimal { precision, scale } => {
            let values: Decimal128Array = integers(10i128.pow(precision.min(18).into()) - 1).into_iter().collect();
            Arc::new(values.with_precision_and_scale(precision, scale as i8).expect("fits"))
        }
        DataType::Int16 => {
            let values = integers(i16::MAX.into()).into_iter();
            Arc::new(values.map(|value| value.map(|value| value as i16)).collect::<Int16Array>())
        }
        DataType::Int32 => {
            let values = integers(i32::MAX.into()).into_iter();
            Arc::new(values.map(|value| value.map(|value| value as i32)).collect::<Int32Array>())
        }
        _ => {
            let values = integers(i64::MAX.into()).into_iter();
            Arc::new(values.map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
        }
    }
}

/// The codes that members were found to have.
#[derive(Default)]
pub struct Found {
    codes: Vec<HashMap<Member, u32>>,
    members: Vec<HashMap<u32, Member>>,
    numbers: Vec<HashMap<Member, usize>>,
}

impl Found {
    /// Panics unless each member has one code, and each code is one member's where members are known.
    pub fn check(&mut self, schema: &Schema, rows: &Rows, codes: &LevelCodes) {
        let levels = schema.table.levels().count();
        assert_eq!(codes.levels.len(), levels);
        self.codes.resize_with(levels, HashMap::new);
        self.members.resize_with(levels, HashMap::new);
        self.numbers.resize_with(levels, HashMap::new);
        let mut above: Vec<usize> = Vec::new();
        for (at, (dimension, within, level)) in schema.table.levels().enumerate() {
            let of = &schema.table.dimensions[dimension];
            let column = schema.table.columns.iter().position(|column| column.id == level.source.column());
            let column = column.expect("a level's column");
            let values = &rows.numbers[column];
            let members = members(&level.source, of, schema.table.columns[column].data_type, values);
            if within == 0 {
                above = vec![0; values.len()];
            }
            assert_eq!(codes.levels[at].len(), members.len());
            for ((&code, member), above) in codes.levels[at].iter().zip(members).zip(&mut above) {
                let member = match member {
                    Member::Child(_, value) => Member::Child(*above, value),
                    other => other,
                };
                assert_eq!(code == 0, member == Member::Null, "level {at}: {member:?} has code {code}");
                let known = *self.codes[at].entry(member).or_insert(code);
                assert_eq!(known, code, "level {at}: {member:?} has two codes");
                if !matches!(member, Member::Value(_)) {
                    let other = *self.members[at].entry(code).or_insert(member);
                    assert_eq!(other, member, "level {at}: code {code} is of two members");
                }
                let next = self.numbers[at].len() + 1;
                *above = if member == Member::Null { 0 } else { *self.numbers[at].entry(member).or_insert(next) };
            }
        }
        check_nested(schema, codes);
    }

    /// Panics unless codes of numbers and times have the order of values.
    pub fn check_order(&self, schema: &Schema) {
        for ((_, _, level), codes) in schema.table.levels().zip(&self.codes) {
            if matches!(level.source, LevelSource::Column(_) | LevelSource::Hashed { .. }) {
                continue;
            }
            let mut ordered: Vec<(Member, u32)> = codes.iter().map(|(member, code)| (*member, *code)).collect();
            ordered.sort_unstable();
            assert!(ordered.is_sorted_by(|a, b| a.1 <= b.1), "level {}: {ordered:?}", level.name);
        }
    }
}

/// A coarser level that follows from values does so from the finer one, too.
fn check_nested(schema: &Schema, codes: &LevelCodes) {
    for (at, (dimension, within, _)) in schema.table.levels().enumerate() {
        if within == 0 || !is_arithmetic(&schema.table.dimensions[dimension]) {
            continue;
        }
        let mut coarser: HashMap<u32, u32> = HashMap::new();
        for (&fine, &coarse) in codes.levels[at].iter().zip(&codes.levels[at - 1]) {
            assert_eq!(*coarser.entry(fine).or_insert(coarse), coarse, "level {at}: code {fine} is under two");
        }
    }
}

/// Members of rows; of paths the values alone.
fn members(source: &LevelSource, of: &Dimension, data_type: DataType, values: &[Option<i64>]) -> Vec<Member> {
    let known = |member: &dyn Fn(i64) -> Member| -> Vec<Member> {
        values.iter().map(|value| value.map_or(Member::Null, member)).collect()
    };
    match (source, &of.range) {
        // A BOOLEAN is one of two.
        (LevelSource::Column(_), _) if data_type == DataType::Boolean => known(&|value| Member::Child(0, value & 1)),
        (LevelSource::Column(_), _) => known(&|value| Member::Child(0, value)),
        (LevelSource::Calendar(_, unit), _) => calendar(*unit, data_type, values),
        (LevelSource::Local(_, unit), _) => {
            let zone = of.zone.as_ref().expect("a zone").name();
            let shown: Vec<Option<i64>> = values.iter().map(|value| Some(shown(zone, (*value)?))).collect();
            calendar(*unit, data_type, &shown)
        }
        (LevelSource::Halved { halvings, .. }, KeyRange::Linear { low, high })
            if low.fract() == 0.0 && is_power(high - low) =>
        {
            let (span, parts) = ((high - low) as i128, 1i128 << halvings);
            let low = *low as i128;
            known(&|value| {
                let part = ((i128::from(value) - low) * parts).div_euclid(span).clamp(0, parts - 1);
                Member::Place(part as i64)
            })
        }
        (LevelSource::Halved { halvings, .. }, KeyRange::Quantiles { cuts })
            if cuts.iter().all(|cut| cut.fract() == 0.0) =>
        {
            let each = (cuts.len() as i64 + 1) >> halvings;
            known(&|value| Member::Place(cuts.iter().filter(|&&cut| cut <= value as f64).count() as i64 / each))
        }
        _ => known(&Member::Value),
    }
}

fn is_power(span: f64) -> bool {
    (1.0..1e15).contains(&span) && span.fract() == 0.0 && (span as u64).is_power_of_two()
}

/// Truncated times, by Arrow's calendar.
fn calendar(unit: CalendarUnit, data_type: DataType, values: &[Option<i64>]) -> Vec<Member> {
    let times: ArrayRef = match data_type {
        DataType::Date => array_of(DataType::Date, values),
        _ => array_of(DataType::Timestamp, values),
    };
    let day = if data_type == DataType::Date { 1 } else { DAY };
    let part = |part: DatePart| date_part(&times, part).expect("a part").as_primitive::<Int32Type>().clone();
    let (years, months) = (part(DatePart::Year), part(DatePart::Month));
    let units = |row: usize, value: i64| {
        let (year, month) = (i64::from(years.value(row)), i64::from(months.value(row)));
        match unit {
            CalendarUnit::Year => year,
            CalendarUnit::Quarter => year * 4 + (month - 1) / 3,
            CalendarUnit::Month => year * 12 + month,
            CalendarUnit::Day => value.div_euclid(day),
            CalendarUnit::Hour => value.div_euclid(DAY / 24),
            CalendarUnit::Minute => value.div_euclid(DAY / 1440),
        }
    };
    let member =
        |(row, value): (usize, &Option<i64>)| value.map_or(Member::Null, |value| Member::Place(units(row, value)));
    values.iter().enumerate().map(member).collect()
}
