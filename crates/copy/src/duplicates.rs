//! Where in its file the row is whose key is there already.
//!
//! The store refuses a whole batch, and names the key; the keys of the batch's rows are kept until then, with their places.
//!
//! Invariant: what is kept is bounded. Of a batch with more rows the key alone is told, as of one whose rows wait for the
//! COMMIT of a transaction.

use crate::rows::RowLocation;
use alluvia_space::{KeyCoder, OnConflict, RowOp, RowPolicy, TableDef};
use alluvia_types::{Error, ErrorKind};
use arrow::array::RecordBatch;

/// What keys and places may come to.
const BYTES_MAX: usize = 64 << 20;

/// The keys of rows, and where they are.
pub(crate) struct KeyPlaces {
    coder: KeyCoder,
    /// The places of the key's columns.
    columns: Vec<usize>,
    kept: Vec<Kept>,
    bytes: usize,
}

/// Those of some rows of one file.
struct Kept {
    file: String,
    keys: RecordBatch,
    places: Vec<RowLocation>,
}

impl KeyPlaces {
    /// For rows of a table; `None` where no key can be there that must not be.
    pub fn new(def: &TableDef, policy: RowPolicy) -> Option<KeyPlaces> {
        let may_refuse =
            policy.on_conflict_in(def) == OnConflict::Error && policy.op.is_none_or(|op| op == RowOp::Insert);
        let (coder, columns) = (KeyCoder::new(def)?, def.key_columns()?);
        may_refuse.then(|| KeyPlaces { coder, columns, kept: Vec::new(), bytes: 0 })
    }

    /// Keeps the keys of rows of a file. `places` has one for each row.
    pub fn keep(&mut self, file: &str, rows: &RecordBatch, places: Vec<RowLocation>) {
        if self.bytes > BYTES_MAX || places.len() != rows.num_rows() {
            return;
        }
        let Ok(keys) = rows.project(&self.columns) else { return };
        self.bytes += keys.get_array_memory_size() + places.len() * size_of::<RowLocation>();
        if self.bytes > BYTES_MAX {
            self.kept.clear();
            return;
        }
        self.kept.push(Kept { file: file.to_owned(), keys, places });
    }

    /// A batch is committed: of rows that are not in it, only some of the last can have been kept.
    pub fn committed(&mut self) {
        let last = self.kept.pop();
        self.kept.clear();
        self.bytes = last.iter().map(|last| last.keys.get_array_memory_size()).sum();
        self.kept.extend(last);
    }

    /// The error with the place of the row that it is about.
    pub fn tell(&self, error: Error) -> Error {
        match (error.kind() == ErrorKind::UniqueViolation).then(|| self.place(error.message())).flatten() {
            Some(place) => error.at(place),
            None => error,
        }
    }

    /// The last row with the key that a message names: of two it is the one that came second.
    fn place(&self, message: &str) -> Option<String> {
        let key = message.split_once(": key ")?.1.strip_suffix(" already exists")?;
        self.kept.iter().rev().find_map(|kept| {
            let row = (0..kept.keys.num_rows()).rev().find(|row| self.coder.show(&kept.keys, *row) == key)?;
            Some(format!("{}, {}", kept.file, kept.places[row]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use alluvia_space::PrimaryKey;
    use alluvia_types::ColumnId;
    use arrow::array::{ArrayRef, Int32Array};
    use std::sync::Arc;

    fn keyed() -> TableDef {
        let mut def = table("a INT, id INT NOT NULL").as_ref().clone();
        def.key = Some(PrimaryKey { columns: vec![ColumnId(1)], secret: [1, 2], on_conflict: OnConflict::Error });
        def
    }

    fn rows(keys: &[i32]) -> RecordBatch {
        let column = || Arc::new(Int32Array::from(keys.to_vec())) as ArrayRef;
        RecordBatch::try_from_iter([("a", column()), ("id", column())]).unwrap()
    }

    fn refused(places: &KeyPlaces, key: i32) -> String {
        let message =
            format!("duplicate key value violates unique constraint \"t_pkey\": key (id)=({key}) already exists");
        places.tell(Error::new(ErrorKind::UniqueViolation, message)).message().to_owned()
    }

    #[test]
    fn the_row_is_named_by_file_and_line() {
        let mut places = KeyPlaces::new(&keyed(), RowPolicy::default()).unwrap();
        let lines = |lines: &[u64]| lines.iter().map(|line| RowLocation::Line(*line)).collect::<Vec<_>>();
        places.keep("a.csv", &rows(&[1, 2, 3]), lines(&[2, 3, 5]));
        places.keep("b.csv", &rows(&[4, 2]), lines(&[1, 2]));
        assert!(refused(&places, 3).starts_with("a.csv, line 5: duplicate key value"));
        assert!(refused(&places, 2).starts_with("b.csv, line 2: duplicate key value"));
        assert!(refused(&places, 9).starts_with("duplicate key value"));
        places.committed();
        assert!(refused(&places, 3).starts_with("duplicate key value"));
        assert!(refused(&places, 4).starts_with("b.csv, line 1: "));
        let other = places.tell(Error::new(ErrorKind::Conflict, "t: key (id)=(4) already exists"));
        assert_eq!(other.message(), "t: key (id)=(4) already exists");
    }

    #[test]
    fn nothing_is_kept_where_no_key_is_refused() {
        let replace = RowPolicy { on_conflict: Some(OnConflict::Replace), op: None };
        let delete = RowPolicy { on_conflict: None, op: Some(RowOp::Delete) };
        assert!([replace, delete].into_iter().all(|policy| KeyPlaces::new(&keyed(), policy).is_none()));
        assert!(KeyPlaces::new(&table("id INT"), RowPolicy::default()).is_none());
    }
}
