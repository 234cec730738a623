//! What a row that comes does to the row that has its key.

use crate::schema::{OnConflict, TableDef};
use alluvia_types::{Error, ErrorKind, Result};

/// The field of rows that come which says what each of them does. No column has this name.
pub const OP_COLUMN: &str = "_op";

/// What a row that comes does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum RowOp {
    /// It comes. Where its key is there, [`OnConflict`] says what becomes of it.
    #[default]
    Insert,
    /// It comes, and the row that has had its key goes.
    Upsert,
    /// The columns that it gives are set in the row with its key; if there is none, it comes.
    Patch,
    /// The row with its key goes.
    Delete,
}

impl RowOp {
    const ALL: [RowOp; 4] = [RowOp::Insert, RowOp::Upsert, RowOp::Patch, RowOp::Delete];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            RowOp::Insert => "insert",
            RowOp::Upsert => "upsert",
            RowOp::Patch => "patch",
            RowOp::Delete => "delete",
        }
    }

    /// The one of a name, or of a letter: those of change streams, too (`c`, `r` and `u` of Debezium: a stream may be
    /// sent again, so that they are upserts).
    pub fn named(name: &str) -> Option<RowOp> {
        let name = name.trim().to_ascii_lowercase();
        match name.as_str() {
            "i" => Some(RowOp::Insert),
            "u" | "c" | "r" => Some(RowOp::Upsert),
            "p" => Some(RowOp::Patch),
            "d" => Some(RowOp::Delete),
            name => RowOp::ALL.into_iter().find(|op| op.name() == name),
        }
    }

    /// The same; an error that says which there are.
    ///
    /// # Errors
    /// `InvalidSetting` for any other name.
    pub fn of_option(name: &str) -> Result<RowOp> {
        RowOp::named(name).ok_or_else(|| {
            Error::new(ErrorKind::InvalidSetting, format!("op cannot be '{name}': it takes {}", RowOp::takes()))
        })
    }

    /// The names that there are.
    pub fn takes() -> &'static str {
        "insert, upsert, patch, delete"
    }
}

/// What whoever sends rows says of them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RowPolicy {
    /// What becomes of rows that are inserted and whose keys are there; none: what the table says.
    pub on_conflict: Option<OnConflict>,
    /// What rows do that do not say it themselves; none: they are inserted.
    pub op: Option<RowOp>,
}

impl RowPolicy {
    /// As options are written.
    ///
    /// # Errors
    /// `InvalidSetting` for names that there are not.
    pub fn of_options(on_conflict: Option<&str>, op: Option<&str>) -> Result<RowPolicy> {
        let on_conflict = on_conflict.map(|name| {
            OnConflict::named(&name.to_ascii_lowercase()).ok_or_else(|| {
                let message = format!("on_conflict cannot be '{name}': it takes error, nothing, replace");
                Error::new(ErrorKind::InvalidSetting, message)
            })
        });
        Ok(RowPolicy { on_conflict: on_conflict.transpose()?, op: op.map(RowOp::of_option).transpose()? })
    }

    /// Refuses what says something of keys for a table that has none.
    ///
    /// # Errors
    /// `NoKey`.
    pub fn check(&self, def: &TableDef) -> Result<()> {
        let what = match (self.on_conflict, self.op) {
            (Some(on_conflict), _) => format!("on_conflict = '{}'", on_conflict.name()),
            (None, Some(op)) if op != RowOp::Insert => format!("op = '{}'", op.name()),
            _ => return Ok(()),
        };
        if def.key.is_some() { Ok(()) } else { Err(without_key(&def.name, &what)) }
    }

    /// What becomes of rows that are inserted into this table.
    pub fn on_conflict_in(&self, def: &TableDef) -> OnConflict {
        self.on_conflict.or_else(|| def.key.as_ref().map(|key| key.on_conflict)).unwrap_or_default()
    }
}

/// The error of what is done by key, for a table that has none.
pub fn without_key(table: &str, what: &str) -> Error {
    Error::new(ErrorKind::NoKey, format!("{what}: table {table} has no primary key")).with_hint(
        "a key is declared with its table: CREATE TABLE t (id BIGINT PRIMARY KEY, ...), and then INSERT INTO t SELECT ...",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_names_and_letters() {
        for op in RowOp::ALL {
            assert_eq!(RowOp::named(op.name()), Some(op));
            assert_eq!(RowOp::named(&op.name().to_uppercase()), Some(op));
        }
        let letters = ["i", "u", "p", "d", "c", "r"].map(|letter| RowOp::named(letter).unwrap());
        use RowOp::{Delete, Insert, Patch, Upsert};
        assert_eq!(letters, [Insert, Upsert, Patch, Delete, Upsert, Upsert]);
        assert_eq!(RowOp::named("merge"), None);
        assert_eq!(RowOp::of_option("x").unwrap_err().kind(), ErrorKind::InvalidSetting);
    }

    #[test]
    fn a_policy_is_of_what_is_written() {
        let policy = RowPolicy::of_options(Some("Replace"), Some("delete")).unwrap();
        assert_eq!((policy.on_conflict, policy.op), (Some(OnConflict::Replace), Some(RowOp::Delete)));
        assert_eq!(RowPolicy::of_options(None, None).unwrap(), RowPolicy::default());
        assert_eq!(RowPolicy::of_options(Some("update"), None).unwrap_err().kind(), ErrorKind::InvalidSetting);
    }
}
