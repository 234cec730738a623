//! The tables of the tests: with keys of several kinds, and one without a key.

use alluvia_sim::Random;
use alluvia_sim::rows::{Row, Value};
use alluvia_space::{Column, DataType, OnConflict, PrimaryKey, RowStore, TableDef, TableOptions, dimensions};
use alluvia_types::{ColumnId, TableId};

/// What a table's key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// None: rows are told apart by their identities.
    None,
    /// A `BIGINT` that is a dimension, too; it fits into a code.
    Number,
    /// A `TEXT` and an `INT`, which are hashed into one.
    Pair,
    /// A `BIGINT` of a table without dimensions, whose segments are in the order of keys.
    Ordered,
    /// A `TEXT` of a table without dimensions, whose segments stay in the order of arrival.
    Unordered,
}

impl KeyKind {
    /// How many columns stand before those that all tables have.
    pub fn columns(self) -> usize {
        match self {
            KeyKind::None | KeyKind::Number | KeyKind::Ordered | KeyKind::Unordered => 1,
            KeyKind::Pair => 2,
        }
    }
}

/// Keys that histories use: few, so that they meet.
pub const KEYS: u64 = 60;

const KINDS: [&str; 6] = ["", "red", "green", "a much longer kind of thing", "ü", "blue"];

/// A table of some kind: `id BIGINT`, `id TEXT` or `name TEXT, part INT`, then `kind TEXT` (a dimension), `amount BIGINT` and
/// `price DOUBLE` (measures), `note TEXT` and `flag BOOLEAN`.
pub fn table(id: TableId, name: &str, kind: KeyKind, on_conflict: OnConflict) -> TableDef {
    let mut columns = Vec::new();
    let mut add = |name: &str, data_type, nullable| {
        let id = ColumnId(columns.len() as u32);
        let (name, storage_name) = (name.to_owned(), name.to_owned());
        columns.push(Column { id, name, storage_name, data_type, nullable, chars_max: None });
    };
    match kind {
        KeyKind::Pair => {
            add("name", DataType::Text, false);
            add("part", DataType::Int32, false);
        }
        KeyKind::Unordered => add("id", DataType::Text, false),
        _ => add("id", DataType::Int64, kind == KeyKind::None),
    }
    add("kind", DataType::Text, true);
    add("amount", DataType::Int64, true);
    add("price", DataType::Double, true);
    add("note", DataType::Text, true);
    add("flag", DataType::Boolean, true);
    let declared = match kind {
        KeyKind::None => "kind",
        KeyKind::Number => "kind; number(id: linear 0..1000)",
        KeyKind::Pair => "name; kind",
        KeyKind::Ordered | KeyKind::Unordered => "",
    };
    let dimensions = match declared {
        "" => Vec::new(),
        declared => dimensions::parse(declared, &columns).expect("a good declaration"),
    };
    let keys = kind.columns();
    let key = (kind != KeyKind::None).then(|| PrimaryKey {
        columns: columns[..keys].iter().map(|column| column.id).collect(),
        secret: [7, u64::from(id.0)],
        on_conflict,
    });
    let measures = vec![columns[keys + 1].id, columns[keys + 2].id];
    TableDef {
        id,
        schema: "public".to_owned(),
        name: name.to_owned(),
        next_column_id: columns.len() as u32,
        columns,
        key,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions,
        measures,
        seed: 7,
        options: TableOptions { rows: Some(RowStore::Memory), ..TableOptions::default() },
    }
}

/// The values of a key's columns, for one of [`KEYS`] numbers.
pub fn key(kind: KeyKind, number: u64) -> Row {
    match kind {
        // Names that are prefixes of one another, beside equal ones.
        KeyKind::Pair => {
            let name = "ab".repeat(number as usize % 7);
            vec![Value::text(name), Value::Number((number / 7) as i64 - 3)]
        }
        KeyKind::Unordered => vec![Value::text(format!("key {number}"))],
        // Some outside of the dimension's range.
        _ => vec![Value::Number(number as i64 * 19 - 40)],
    }
}

/// A row with this key, and other values as it comes.
pub fn row(kind: KeyKind, number: u64, random: &mut Random) -> Row {
    let mut row = key(kind, number);
    row.extend(values(random));
    row
}

/// The values of the columns that all tables have.
fn values(random: &mut Random) -> [Value; 5] {
    let some = |value: Value, random: &mut Random| if random.one_in(8) { Value::Null } else { value };
    let kind = Value::text(*random.pick(&KINDS));
    let amount = Value::Number(random.below(2_000) as i64 - 1_000);
    let price = Value::Quarters(random.below(4_000) as i64 - 2_000);
    let note = Value::text(format!("note {}", random.below(1_000_000)));
    let flag = Value::Flag(random.one_in(2));
    [some(kind, random), some(amount, random), some(price, random), some(note, random), some(flag, random)]
}
