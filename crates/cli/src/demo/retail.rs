//! A retail chain's tills: sales in eight countries, skewed as real ones are, reproducible by seed.

use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, Float64Array, Int32Array, StringViewBuilder, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

/// The table, as in the README.
pub const CREATE: &str = "CREATE TABLE sales (
  sold_at TIMESTAMP, country TEXT, state TEXT, city TEXT,
  category TEXT, brand TEXT, item TEXT, price DOUBLE, quantity INT
) WITH (
  dimensions = 'store(country, state, city); item(category, brand, item); time(sold_at: year, month, day, hour)',
  measures   = 'price, quantity'
)";
/// What is asked of it.
pub const QUESTION: &str = "SELECT country, count(*) AS sales, round(sum(price * quantity)) AS revenue FROM sales \
                            WHERE category IN ('Books', 'Music') GROUP BY country ORDER BY country";

/// The levels of a cuboid, and a question that it answers.
pub const CUBOID: (&str, &str) =
    ("country, category", "SELECT country, sum(price) AS revenue FROM sales WHERE category = 'Books' GROUP BY country");
/// A question whose members lie everywhere: rows must be read for it, or a sample of them.
pub const ESTIMATED: &str = "SELECT avg(price) AS price FROM sales WHERE item LIKE '%7'";

const COUNTRIES: [&str; 8] = ["Brazil", "Chile", "France", "Germany", "India", "Japan", "Kenya", "Norway"];
const CATEGORIES: [&str; 6] = ["Books", "Clothes", "Food", "Garden", "Music", "Tools"];
/// 2026-01-01 00:00:00 in microseconds.
const START: i64 = 1_767_225_600_000_000;

/// Makes sales.
pub struct Retail {
    state: u64,
    sold_at: i64,
    schema: SchemaRef,
    names: Names,
}

struct Names {
    states: Vec<String>,
    cities: Vec<String>,
    brands: Vec<String>,
    items: Vec<String>,
}

impl Retail {
    pub fn new(seed: u64) -> Retail {
        let text = |name: &str| Field::new(name, DataType::Utf8View, true);
        let fields = vec![
            Field::new("sold_at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
            text("country"),
            text("state"),
            text("city"),
            text("category"),
            text("brand"),
            text("item"),
            Field::new("price", DataType::Float64, true),
            Field::new("quantity", DataType::Int32, true),
        ];
        let list = |kind: &str, count: usize| (0..count).map(|at| format!("{kind} {at:03}")).collect();
        let names = Names {
            states: list("State", 12),
            cities: list("City", 40),
            brands: list("Brand", 30),
            items: list("Item", 200),
        };
        Retail { state: seed, sold_at: START, schema: Arc::new(Schema::new(fields)), names }
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`, the small ones more often.
    fn skewed(&mut self, count: usize) -> usize {
        let uniform = (self.random() >> 11) as f64 / (1u64 << 53) as f64;
        ((uniform * uniform) * count as f64) as usize
    }

    /// The next `rows` sales; time moves on by a few milliseconds each.
    pub fn batch(&mut self, rows: usize) -> Result<RecordBatch> {
        let mut times = Vec::with_capacity(rows);
        let mut texts: [StringViewBuilder; 6] = std::array::from_fn(|_| StringViewBuilder::with_capacity(rows));
        let (mut prices, mut quantities) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for _ in 0..rows {
            self.sold_at += (self.random() % 20_000) as i64;
            times.push(self.sold_at);
            let picks = [
                self.skewed(COUNTRIES.len()),
                self.skewed(self.names.states.len()),
                self.skewed(self.names.cities.len()),
                self.skewed(CATEGORIES.len()),
                self.skewed(self.names.brands.len()),
                self.skewed(self.names.items.len()),
            ];
            texts[0].append_value(COUNTRIES[picks[0]]);
            texts[1].append_value(&self.names.states[picks[1]]);
            texts[2].append_value(&self.names.cities[picks[2]]);
            texts[3].append_value(CATEGORIES[picks[3]]);
            texts[4].append_value(&self.names.brands[picks[4]]);
            texts[5].append_value(&self.names.items[picks[5]]);
            // Quarters: their sums are exact in binary, so an answer does not depend on the order of rows.
            prices.push((self.random() % 400) as f64 * 0.25);
            quantities.push(1 + self.skewed(9) as i32);
        }
        let mut columns: Vec<ArrayRef> = vec![Arc::new(TimestampMicrosecondArray::from(times))];
        columns.extend(texts.into_iter().map(|mut text| Arc::new(text.finish()) as ArrayRef));
        columns.push(Arc::new(Float64Array::from(prices)));
        columns.push(Arc::new(Int32Array::from(quantities)));
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| Error::internal(error.to_string()))
    }
}
