//! The tables of a simulation: facts without a key, of several dimensions, and keyed rows as the histories have them.

use crate::keyed::tables::{KeyKind, table};
use alluvia_sim::Random;
use alluvia_sim::rows::{Row, Value};
use alluvia_space::{Column, DataType, OnConflict, TableDef, TableOptions, dimensions};
use alluvia_types::{ColumnId, TableId};

/// The tables by their places.
pub const KEYED: usize = 0;
pub const FACTS: usize = 1;

/// What keys the keyed table has.
pub const KIND: KeyKind = KeyKind::Number;

const REGIONS: [&str; 4] = ["north", "south", "east", "a region whose name is long enough to lie apart"];
const KINDS: [&str; 5] = ["red", "green", "blue", "ü", ""];

/// The keyed table.
pub fn keyed(id: TableId, on_conflict: OnConflict) -> TableDef {
    table(id, "keyed", KIND, on_conflict)
}

/// The facts: `id BIGINT`, `region TEXT`, `city TEXT`, `kind TEXT`, then `amount BIGINT` and `price DOUBLE` (measures),
/// `note TEXT` and `flag BOOLEAN`. A city is of one region.
pub fn facts(id: TableId) -> TableDef {
    let columns: Vec<Column> = [
        ("id", DataType::Int64),
        ("region", DataType::Text),
        ("city", DataType::Text),
        ("kind", DataType::Text),
        ("amount", DataType::Int64),
        ("price", DataType::Double),
        ("note", DataType::Text),
        ("flag", DataType::Boolean),
    ]
    .into_iter()
    .enumerate()
    .map(|(at, (name, data_type))| Column {
        id: ColumnId(at as u32),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    })
    .collect();
    TableDef {
        id,
        schema: "public".to_owned(),
        name: "facts".to_owned(),
        next_column_id: columns.len() as u32,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions: dimensions::parse("place(region, city); kind", &columns).expect("a good declaration"),
        measures: vec![columns[4].id, columns[5].id],
        columns,
        seed: 11,
        options: TableOptions::default(),
    }
}

/// A fact. Values are small, but for one in fifty, which outweighs many.
pub fn fact(random: &mut Random) -> Row {
    let some = |value: Value, random: &mut Random| if random.one_in(9) { Value::Null } else { value };
    let region = random.below(4);
    let city = Value::text(format!("city {}", region * 10 + random.below(6)));
    let times = if random.one_in(50) { 40 } else { 1 };
    // Where it is says something of what it is worth: a sample that looks at that is off.
    let amount = Value::Number((random.below(1_000) as i64 + 300 * region as i64) * times);
    let price = Value::Quarters(random.below(4_000) as i64 - 400);
    let kind = Value::text(KINDS[(random.below(25) as usize).isqrt()]);
    vec![
        Value::Number(random.below(1_000) as i64),
        Value::text(REGIONS[region as usize]),
        some(city, random),
        some(kind, random),
        some(amount, random),
        some(price, random),
        Value::text(format!("note {}", random.below(100))),
        Value::Flag(random.one_in(3)),
    ]
}
