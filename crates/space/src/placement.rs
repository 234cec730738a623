//! How the rows of a table are spread over shards, where a database lies on several machines.
//!
//! A row has a *slot*, one of [`SLOTS`], and a shard has a range of slots. So a row is in one shard, and how many shards there are
//! changes no slot.
//!
//! Invariants:
//! - A slot depends only on the row's values in the columns of a hash, however these are encoded, or on its batch and its place there.
//!   It never changes: rows lie where it says.
//! - Rows that are equal in the columns of a hash have one slot; those with NULL among them have slot 0.

use crate::dimensions::parse_measures;
use crate::key_code::KeyCoder;
use crate::keywords::quoted;
use crate::schema::{Column, DataType, TableDef};
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// How many slots there are.
pub const SLOTS: u32 = 1 << 16;

/// Most shards of one table.
pub const SHARDS_MAX: u32 = 1024;

/// Most copies of one shard.
pub const REPLICAS_MAX: u32 = 16;

/// Consecutive rows of a batch that stay together where rows are spread by themselves: a small batch concerns one shard.
const ROWS_TOGETHER: u64 = 1024;

/// A fixed secret: who chooses values that meet in a shard gains nothing that an even spread would not give.
const SECRET: [u64; 2] = [0x616c_6c75_7669_6120, 0x706c_6163_656d_656e];

/// By what rows are spread.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// By themselves: evenly, whatever they are.
    #[default]
    Rows,
    /// By the values of some columns.
    Hash(Vec<ColumnId>),
    /// Not at all: every worker has all rows.
    Copied,
}

/// Where the rows of a table are to lie.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Placement {
    /// By what its rows are spread.
    pub spread: Spread,
    /// Over how many shards; 0: the cluster chooses.
    #[serde(default)]
    pub shards: u32,
    /// On how many workers each shard lies; 0: the cluster chooses.
    #[serde(default)]
    pub replicas: u32,
    /// On how many of them rows must be durable before their batch is decided; 0: on all.
    #[serde(default)]
    pub write_quorum: u32,
}

impl Spread {
    /// As `WITH (placement = '...')` writes it.
    ///
    /// Errors: `InvalidDefinition`, `UndefinedColumn`; `NotSupported` for those that are not built.
    pub fn parse(written: &str, columns: &[Column]) -> Result<Spread> {
        let text = written.trim();
        let unknown = || {
            Error::new(ErrorKind::InvalidDefinition, format!("there is no placement '{text}'"))
                .with_hint("placement is 'rows', 'hash(column, ...)' or 'copied'")
        };
        match text.to_ascii_lowercase().as_str() {
            "rows" => return Ok(Spread::Rows),
            "copied" => return Ok(Spread::Copied),
            "curve" => return Err(not_built("curve")),
            lower if lower.starts_with("range") => return Err(not_built("range")),
            _ => {}
        }
        let (name, rest) = text.split_at_checked("hash".len()).ok_or_else(unknown)?;
        let named = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let named = named.filter(|_| name.eq_ignore_ascii_case("hash")).ok_or_else(unknown)?;
        let columns = parse_measures(named, columns).map_err(|error| error.at("placement"))?;
        if columns.is_empty() { Err(unknown()) } else { Ok(Spread::Hash(columns)) }
    }
}

fn not_built(what: &str) -> Error {
    Error::new(ErrorKind::NotSupported, format!("placement by {what} is not built"))
        .with_hint("placement is 'rows', 'hash(column, ...)' or 'copied'")
}

impl Placement {
    /// That of a table which says nothing: by the whole key where it has one, else by rows.
    pub fn of_table(def: &TableDef) -> Placement {
        let spread = match &def.key {
            Some(key) => Spread::Hash(key.columns.clone()),
            None => Spread::Rows,
        };
        Placement { spread, shards: 0, replicas: 0, write_quorum: 0 }
    }

    /// Whether a table can lie so.
    ///
    /// Errors: `InvalidDefinition`, with what to do.
    pub fn check(&self, def: &TableDef) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Error::new(ErrorKind::InvalidDefinition, what).with_hint(hint));
        let Placement { spread, shards, replicas, write_quorum } = self;
        if *shards > SHARDS_MAX || *replicas > REPLICAS_MAX {
            let what = format!("table '{}' has {shards} shards with {replicas} replicas", def.name);
            return refuse(what, &format!("at most {SHARDS_MAX} shards and {REPLICAS_MAX} replicas"));
        }
        if *replicas > 0 && write_quorum > replicas {
            let what = format!("a write quorum of {write_quorum} is more than {replicas} replicas");
            return refuse(what, "write_quorum is from 1 to replicas");
        }
        match (spread, &def.key) {
            (Spread::Hash(columns), key) => {
                for id in columns {
                    let Some(column) = def.column_by_id(*id) else {
                        return refuse(format!("table '{}' has no such column", def.name), "name its columns");
                    };
                    if !is_hashed(column.data_type) {
                        let what = format!(
                            "rows are not spread by column '{}', of type {}",
                            column.name,
                            column.data_type.sql_name()
                        );
                        return refuse(what, "floats that are equal may differ in their bits: name another column");
                    }
                }
                match key {
                    Some(key) if key.columns != *columns => refuse(
                        format!("table '{}' has a primary key, and is spread by other columns", def.name),
                        "a table with a key is spread by its whole key, which is what it is without `placement`",
                    ),
                    _ if columns.is_empty() => refuse("a hash of no columns".to_owned(), "write hash(a, b)"),
                    _ => Ok(()),
                }
            }
            (Spread::Rows, Some(_)) => refuse(
                format!("table '{}' has a primary key, and its rows are spread without it", def.name),
                "a table with a key is spread by its whole key, which is what it is without `placement`",
            ),
            (Spread::Copied, _) if *shards > 1 => {
                refuse(format!("table '{}' is copied, in {shards} shards", def.name), "what is copied has one shard")
            }
            _ => Ok(()),
        }
    }

    /// As `WITH (...)` writes it: names and values.
    pub(crate) fn shown(&self, def: &TableDef) -> Vec<(&'static str, String)> {
        let spread = match &self.spread {
            Spread::Rows => "rows".to_owned(),
            Spread::Copied => "copied".to_owned(),
            Spread::Hash(columns) => {
                let names = columns.iter().filter_map(|id| def.column_by_id(*id)).map(|column| quoted(&column.name));
                format!("hash({})", names.collect::<Vec<_>>().join(", "))
            }
        };
        let numbers = [("shards", self.shards), ("replicas", self.replicas), ("write_quorum", self.write_quorum)];
        let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
        [("placement", spread)].into_iter().chain(numbers.map(|(name, number)| (name, number.to_string()))).collect()
    }

    /// The slot of each row. `batch` is a number that no other batch has; `first` is the ordinal of the first row.
    ///
    /// Errors: as [`KeyCoder::codes`], for columns of a hash.
    pub fn slots(&self, def: &TableDef, rows: &RecordBatch, batch: u64, first: u64) -> Result<Vec<u16>> {
        match &self.spread {
            Spread::Copied => Ok(vec![0; rows.num_rows()]),
            Spread::Rows => {
                let slot =
                    |row: u64| slot_of(&[batch.to_le_bytes(), ((first + row) / ROWS_TOGETHER).to_le_bytes()].concat());
                Ok((0..rows.num_rows() as u64).map(slot).collect())
            }
            Spread::Hash(columns) => hashed(def, columns, rows),
        }
    }
}

/// Which of so many shards has a slot.
pub fn shard_of(slot: u16, shards: u32) -> u32 {
    ((u64::from(slot) * u64::from(shards)) / u64::from(SLOTS)) as u32
}

fn slot_of(bytes: &[u8]) -> u16 {
    (xxh3_64(bytes) >> 48) as u16
}

fn is_hashed(data_type: DataType) -> bool {
    !matches!(data_type, DataType::Real | DataType::Double | DataType::Interval | DataType::Json | DataType::Jsonb)
}

fn hashed(def: &TableDef, columns: &[ColumnId], rows: &RecordBatch) -> Result<Vec<u16>> {
    let coder = KeyCoder::of_columns(def, columns, SECRET);
    let arrays = coder.columns().map(|(name, _)| rows.column_by_name(name)).collect::<Option<Vec<_>>>();
    let arrays = arrays.ok_or_else(|| Error::internal("rows lack a column that they are spread by"))?;
    let is_whole = |row: usize| arrays.iter().all(|array| array.is_valid(row));
    let of_codes = |rows: &RecordBatch| -> Result<Vec<u16>> {
        Ok(coder.codes(rows)?.into_iter().map(|code| slot_of(&code.to_le_bytes())).collect())
    };
    if arrays.iter().all(|array| array.logical_null_count() == 0) {
        return of_codes(rows);
    }
    let whole: BooleanArray = (0..rows.num_rows()).map(|row| Some(is_whole(row))).collect();
    let of_whole = filter_record_batch(rows, &whole).map_err(|error| Error::internal(error.to_string()))?;
    let mut slots = of_codes(&of_whole)?.into_iter();
    Ok(whole.values().iter().map(|is_whole| if is_whole { slots.next().unwrap_or(0) } else { 0 }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TableOptions;
    use alluvia_types::TableId;
    use arrow::array::{ArrayRef, Int64Array, StringArray, StringViewArray};
    use std::sync::Arc;

    fn table() -> TableDef {
        let column = |id: u32, name: &str, data_type| Column {
            id: ColumnId(id),
            name: name.to_owned(),
            storage_name: name.to_owned(),
            data_type,
            nullable: true,
            chars_max: None,
        };
        TableDef {
            id: TableId(1),
            schema: "public".to_owned(),
            name: "t".to_owned(),
            columns: vec![
                column(0, "a", DataType::Int64),
                column(1, "b", DataType::Text),
                column(2, "c", DataType::Double),
            ],
            next_column_id: 3,
            key: None,
            rules: crate::TableRules::default(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            dimensions: Vec::new(),
            measures: Vec::new(),
            seed: 7,
            options: TableOptions::default(),
        }
    }

    fn placed(spread: Spread, shards: u32) -> Placement {
        Placement { spread, shards, replicas: 0, write_quorum: 0 }
    }

    #[test]
    fn slots_are_those_of_values_however_they_are_encoded() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(1)]));
        let texts = [Some("x"), Some("a longer text than a view holds"), Some("x"), Some("x")];
        let (views, plain): (ArrayRef, ArrayRef) =
            (Arc::new(StringViewArray::from_iter(texts)), Arc::new(StringArray::from_iter(texts)));
        let of = |texts: ArrayRef| {
            let rows = RecordBatch::try_from_iter([("a", Arc::clone(&numbers)), ("b", texts)]).unwrap();
            placed(Spread::Hash(vec![ColumnId(0), ColumnId(1)]), 4).slots(&table(), &rows, 9, 0).unwrap()
        };
        let slots = of(views);
        assert_eq!(slots, of(plain));
        // They are never to change: rows lie where they say.
        assert_eq!(slots, [slots[0], slots[1], 0, slots[0]]);
        assert_eq!(slots[..2], GOLDEN, "slots that rows lie by");
    }

    const GOLDEN: [u16; 2] = [48737, 45826];

    #[test]
    fn every_slot_is_of_one_shard_and_shards_are_even() {
        for shards in [1, 2, 3, 7, 64, 1000] {
            let mut counts = vec![0u32; shards as usize];
            for slot in 0..SLOTS {
                counts[shard_of(slot as u16, shards) as usize] += 1;
            }
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{shards} shards have {least} to {most} slots");
        }
    }

    #[test]
    fn a_small_batch_is_of_one_shard_and_many_are_of_all() {
        let rows =
            RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..500)) as ArrayRef)]).unwrap();
        let mut shards = std::collections::BTreeSet::new();
        for batch in 0..100 {
            let slots = placed(Spread::Rows, 4).slots(&table(), &rows, batch, 0).unwrap();
            assert!(slots.iter().all(|slot| *slot == slots[0]));
            shards.insert(shard_of(slots[0], 4));
        }
        assert_eq!(shards.len(), 4);
    }

    #[test]
    fn placements_are_read_as_they_are_written() {
        let columns = table().columns;
        let parse = |text: &str| Spread::parse(text, &columns);
        assert_eq!(parse(" Rows ").unwrap(), Spread::Rows);
        assert_eq!(parse("HASH (b, a)").unwrap(), Spread::Hash(vec![ColumnId(1), ColumnId(0)]));
        for wrong in ["", "hash", "hash()", "hash(a", "hsh(a)", "hash(x)", "hash(a, a)", "ü"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for later in ["curve", "range(a)"] {
            assert_eq!(parse(later).unwrap_err().kind(), ErrorKind::NotSupported);
        }
        let mut def = table();
        let spread = parse("hash(b)").unwrap();
        def.options.placement = Some(Placement { spread, shards: 4, replicas: 2, write_quorum: 0 });
        assert!(
            def.show_create().contains("placement = 'hash(b)',\n  shards    = '4',\n  replicas  = '2'"),
            "{}",
            def.show_create()
        );
    }

    #[test]
    fn placements_that_cannot_be_say_why() {
        let refused = |placement: Placement| placement.check(&table()).unwrap_err();
        assert!(placed(Spread::Hash(vec![ColumnId(0)]), 4).check(&table()).is_ok());
        assert!(refused(placed(Spread::Hash(vec![ColumnId(2)]), 4)).message().contains("column 'c'"));
        assert!(refused(placed(Spread::Hash(vec![]), 4)).message().contains("no columns"));
        assert!(refused(placed(Spread::Copied, 4)).message().contains("copied"));
        assert!(refused(placed(Spread::Rows, 5000)).message().contains("5000 shards"));
        let quorum = Placement { write_quorum: 3, replicas: 2, ..placed(Spread::Rows, 1) };
        assert!(refused(quorum).message().contains("write quorum of 3"));
    }
}
