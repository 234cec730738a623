//! A star like the Star Schema Benchmark's (O'Neil, O'Neil, Chen, Revilak 2009): `lineorder` and four small tables, uniform, as
//! Parquet files that are made once. At scale 1 the small tables have SSB's sizes.

use crate::Anything;
use crate::retail::{Random, write_once};
use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::Int32Type;
use arrow::record_batch::RecordBatch;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub struct Star {
    /// Rows of the fact table.
    pub rows: u64,
    /// Of the small tables' sizes, but for the days.
    pub scale: f64,
}

/// Tables and how they are created in ours; the fact table first.
pub const TABLES: [(&str, &str); 5] = [
    (
        "lineorder",
        "(lo_custkey INT, lo_suppkey INT, lo_partkey INT, lo_orderdate INT, lo_discount INT, lo_quantity INT, lo_revenue BIGINT, lo_supplycost BIGINT) \
         WITH (dimensions = 'customer(lo_custkey); supplier(lo_suppkey); part(lo_partkey); day(lo_orderdate); discount(lo_discount); quantity(lo_quantity)', \
         measures = 'lo_revenue, lo_supplycost')",
    ),
    ("dates", "(d_datekey INT, d_year INT, d_month INT, d_week INT)"),
    ("customer", "(c_custkey INT, c_region TEXT, c_nation TEXT, c_city TEXT)"),
    ("supplier", "(s_suppkey INT, s_region TEXT, s_nation TEXT, s_city TEXT)"),
    ("part", "(p_partkey INT, p_mfgr TEXT, p_category TEXT, p_brand TEXT)"),
];

/// Years from 1992 on; each has 12 months of 30 days, and 52 weeks.
const YEARS: i32 = 7;
const DAYS_OF_A_YEAR: i32 = 360;

pub const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

impl Star {
    fn customers(&self) -> u64 {
        (30_000.0 * self.scale).ceil() as u64
    }

    fn suppliers(&self) -> u64 {
        (2_000.0 * self.scale).ceil() as u64
    }

    fn parts(&self) -> u64 {
        (200_000.0 * self.scale).ceil() as u64
    }

    /// Rows of the small tables, in the order of [`TABLES`].
    pub fn small_rows(&self) -> [u64; 4] {
        [(YEARS * DAYS_OF_A_YEAR) as u64, self.customers(), self.suppliers(), self.parts()]
    }

    /// The files, in the order of [`TABLES`].
    pub fn parquet(&self, folder: &Path) -> Anything<Vec<PathBuf>> {
        let mut random = Random(11);
        let [days, customers, suppliers, parts] = self.small_rows();
        let path = |table: &str, rows: u64| folder.join(format!("star-{table}-{rows}-of-{}.parquet", self.scale));
        let lineorder = write(path("lineorder", self.rows), self.rows, |_, count| self.lineorder(count, &mut random))?;
        let dates = write(path("dates", days), days, dates)?;
        let customer =
            write(path("customer", customers), customers, |first, count| places("c_", "c_custkey", first, count))?;
        let supplier =
            write(path("supplier", suppliers), suppliers, |first, count| places("s_", "s_suppkey", first, count))?;
        let part = write(path("part", parts), parts, products)?;
        Ok(vec![lineorder, dates, customer, supplier, part])
    }

    fn lineorder(&self, count: usize, random: &mut Random) -> Anything<RecordBatch> {
        let mut keys = |end: u64, first: u64| -> ArrayRef {
            Arc::new(Int32Array::from_iter_values((0..count).map(|_| (first + random.next() % end) as i32)))
        };
        let (customers, suppliers, parts) =
            (keys(self.customers(), 1), keys(self.suppliers(), 1), keys(self.parts(), 1));
        let days = keys((YEARS * DAYS_OF_A_YEAR) as u64, 0);
        let days = days.as_primitive::<Int32Type>().values().iter();
        let days = Int32Array::from_iter_values(days.map(|day| day_key(*day)));
        let (discounts, quantities) = (keys(11, 0), keys(50, 1));
        let mut amounts = |least: u64, span: u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..count).map(|_| (least + random.next() % span) as i64)))
        };
        let (revenue, cost) = (amounts(90_000, 10_000_000), amounts(50_000, 70_000));
        Ok(RecordBatch::try_from_iter([
            ("lo_custkey", customers),
            ("lo_suppkey", suppliers),
            ("lo_partkey", parts),
            ("lo_orderdate", Arc::new(days) as ArrayRef),
            ("lo_discount", discounts),
            ("lo_quantity", quantities),
            ("lo_revenue", revenue),
            ("lo_supplycost", cost),
        ])?)
    }
}

/// Writes a file of so many rows; batches are told which row is their first.
fn write(path: PathBuf, rows: u64, mut batch: impl FnMut(u64, usize) -> Anything<RecordBatch>) -> Anything<PathBuf> {
    let schema = batch(0, 1)?.schema();
    let mut first = 0;
    write_once(path, &schema, rows, |count| {
        let made = batch(first, count)?;
        first += count as u64;
        Ok(made)
    })
}

/// 19920101 for the first day.
fn day_key(day: i32) -> i32 {
    let (year, day) = (day / DAYS_OF_A_YEAR, day % DAYS_OF_A_YEAR);
    (1992 + year) * 10_000 + (1 + day / 30) * 100 + 1 + day % 30
}

fn dates(first: u64, count: usize) -> Anything<RecordBatch> {
    let ints = |of: fn(i32) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values((first as i32..).take(count).map(of)))
    };
    Ok(RecordBatch::try_from_iter([
        ("d_datekey", ints(day_key)),
        ("d_year", ints(|day| 1992 + day / DAYS_OF_A_YEAR)),
        ("d_month", ints(|day| day_key(day) / 100)),
        ("d_week", ints(|day| 1 + day % DAYS_OF_A_YEAR / 7)),
    ])?)
}

/// Five regions of five nations of ten cities.
fn places(prefix: &str, key: &str, first: u64, count: usize) -> Anything<RecordBatch> {
    let keys = Int32Array::from_iter_values((first as i32 + 1..).take(count));
    let texts = |of: fn(u64) -> String| -> ArrayRef {
        // Keys of a city are not neighbours.
        Arc::new(StringArray::from_iter_values((first..).take(count).map(|row| of(row.wrapping_mul(7_919) % 250))))
    };
    Ok(RecordBatch::try_from_iter([
        (key.to_owned(), Arc::new(keys) as ArrayRef),
        (format!("{prefix}region"), texts(|city| REGIONS[city as usize / 50].to_owned())),
        (format!("{prefix}nation"), texts(|city| format!("NATION {:02}", city / 10))),
        (format!("{prefix}city"), texts(|city| format!("CITY {city:03}"))),
    ])?)
}

/// Five manufacturers of five categories of forty brands.
fn products(first: u64, count: usize) -> Anything<RecordBatch> {
    let keys = Int32Array::from_iter_values((first as i32 + 1..).take(count));
    let texts = |of: fn(u64) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((first..).take(count).map(|row| of(row.wrapping_mul(7_919) % 1_000))))
    };
    Ok(RecordBatch::try_from_iter([
        ("p_partkey", Arc::new(keys) as ArrayRef),
        ("p_mfgr", texts(|brand| format!("MFGR {}", 1 + brand / 200))),
        ("p_category", texts(|brand| format!("CATEGORY {:02}", brand / 40))),
        ("p_brand", texts(|brand| format!("BRAND {brand:03}"))),
    ])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_key_of_the_fact_table_is_in_its_small_table() {
        let star = Star { rows: 5_000, scale: 0.01 };
        let facts = star.lineorder(5_000, &mut Random(3)).expect("rows");
        let [days, customers, suppliers, parts] = star.small_rows().map(|rows| rows as usize);
        let small = [
            ("lo_orderdate", dates(0, days).expect("rows")),
            ("lo_custkey", places("c_", "c_custkey", 0, customers).expect("rows")),
            ("lo_suppkey", places("s_", "s_suppkey", 0, suppliers).expect("rows")),
            ("lo_partkey", products(0, parts).expect("rows")),
        ];
        for (key, table) in small {
            let known: HashSet<i32> = table.column(0).as_primitive::<Int32Type>().values().iter().copied().collect();
            assert_eq!(known.len(), table.num_rows(), "keys of {key} are unique");
            let used = facts.column_by_name(key).expect("a column").as_primitive::<Int32Type>();
            assert!(used.values().iter().all(|value| known.contains(value)), "{key}");
        }
        assert_eq!((day_key(0), day_key(YEARS * DAYS_OF_A_YEAR - 1)), (19_920_101, 19_981_230));
    }
}
