//! Rows that say what they do: how they are read, and told apart from those that merely come.
//!
//! Invariants:
//! - Rows of a table with a key are read by its definition with two columns behind: [`OP_COLUMN`], which files and batches
//!   may name, and one that no file names, which has the columns that a patch gives. Both are NULL where a row merely comes.
//! - NOT NULL holds for what a row gives: a row that is deleted needs its key alone, a patch what it sets.
//! - Only rows that come whole, inserts and upserts, lack what the table's definition gives.
//! - A stretch of rows that merely come goes on without the two columns, as rows of any other table do.

use crate::assign::{BadRow, storage_batch};
use crate::lacking::Lacking;
use alluvia_space::{Column, DataType, OP_COLUMN, RowOp, RowPolicy, TableDef};
use alluvia_types::{ColumnId, Result};
use alluvia_values::errors::internal;
use alluvia_values::parse::{Bad, shown};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType as ArrowType;
use std::sync::Arc;

/// The ids of the two columns, which no column of a table has.
const OP_ID: ColumnId = ColumnId(u32::MAX);
const GIVEN_ID: ColumnId = ColumnId(u32::MAX - 1);
const GIVEN_COLUMN: &str = "_given";

/// What rows of one table with a key do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operations {
    /// What a row does that does not say it.
    default: RowOp,
    /// Of the table's own columns, whether they are NOT NULL and not of the key.
    required: Vec<bool>,
    /// The places of the key's columns.
    key: Vec<usize>,
}

/// How rows that come into one table are read.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The definition that they are read by.
    pub def: Arc<TableDef>,
    /// What they do; none where they can only come.
    pub operations: Option<Arc<Operations>>,
}

impl Incoming {
    /// For rows of a table, of which this is said.
    ///
    /// # Errors
    /// `NoKey` if something is said of keys, and the table has none.
    pub fn new(table: &Arc<TableDef>, policy: RowPolicy) -> Result<Incoming> {
        policy.check(table)?;
        let is_taken = |name: &str| {
            table.columns.iter().any(|column| [&column.name, &column.storage_name].into_iter().any(|own| own == name))
        };
        let Some(key) = table.key.as_ref().filter(|_| !is_taken(OP_COLUMN) && !is_taken(GIVEN_COLUMN)) else {
            return Ok(Incoming { def: Arc::clone(table), operations: None });
        };
        let mut def = table.as_ref().clone();
        let mut required = Vec::with_capacity(def.columns.len());
        for column in &mut def.columns {
            let is_required = !column.nullable && !key.columns.contains(&column.id);
            column.nullable |= is_required;
            required.push(is_required);
        }
        for (id, name) in [(OP_ID, OP_COLUMN), (GIVEN_ID, GIVEN_COLUMN)] {
            let name = name.to_owned();
            let storage_name = name.clone();
            let data_type = DataType::Text;
            def.columns.push(Column { id, name, storage_name, data_type, nullable: true, chars_max: None });
        }
        let key = table.key_columns().unwrap_or_default();
        let operations = Operations { default: policy.op.unwrap_or_default(), required, key };
        Ok(Incoming { def: Arc::new(def), operations: Some(Arc::new(operations)) })
    }
}

/// Whether a column is one of the two, which are found by name alone.
pub(crate) fn is_apart(column: &Column) -> bool {
    column.id == OP_ID || column.id == GIVEN_ID
}

/// Whether rows may name it although it is no column of their table.
pub(crate) fn is_op(column: &Column) -> bool {
    column.id == OP_ID
}

/// What values of a column are called in errors.
pub(crate) fn type_name(column: &Column) -> String {
    if is_op(column) { format!("operation ({})", RowOp::takes()) } else { column.sql_type() }
}

impl Operations {
    /// The place of the column that says what a row does.
    pub(crate) fn op_at(&self) -> usize {
        self.required.len()
    }

    /// The place of the column that says what a patch gives.
    pub(crate) fn given_at(&self) -> usize {
        self.required.len() + 1
    }

    /// What a row does that says this of it; none of what is no operation.
    pub(crate) fn op(&self, written: Option<&[u8]>) -> Option<RowOp> {
        match written.map(|written| written.trim_ascii()) {
            None | Some(b"") => Some(self.default),
            Some(written) => std::str::from_utf8(written).ok().and_then(RowOp::named),
        }
    }

    /// Whether NULL may not be in this column of rows that come whole.
    pub(crate) fn is_required(&self, column: usize) -> bool {
        self.required.get(column).copied().unwrap_or(false)
    }

    /// What a patch gives, as it is told on the way.
    pub(crate) fn given(&self, is_given: impl Fn(usize) -> bool) -> String {
        (0..self.required.len()).map(|at| if is_given(at) { '1' } else { '0' }).collect()
    }

    /// Completes rows that all give these columns, and reports those that have not what they need, or do what is no
    /// operation. `arrays` are of the definition that rows are read by; of `lacking`, what rows lack that come whole is left.
    ///
    /// # Errors
    /// `Internal` if what is said of the rows is no text.
    pub fn complete(
        &self,
        arrays: &mut [ArrayRef],
        is_given: impl Fn(usize) -> bool,
        lacking: &mut Lacking,
        bad: &mut Vec<BadRow>,
    ) -> Result<()> {
        let written = cast(&arrays[self.op_at()], &ArrowType::Utf8View).map_err(internal)?;
        let mut ops = Vec::with_capacity(written.len());
        for (row, written) in written.as_string_view().iter().enumerate() {
            let written = written.map(str::as_bytes);
            ops.push(self.op(written).unwrap_or_else(|| {
                let shown = written.map(shown).unwrap_or_default();
                bad.push(BadRow { row, column: self.op_at(), bad: Bad::Form, shown });
                self.default
            }));
        }
        for at in (0..self.required.len()).filter(|at| self.required[*at]) {
            let nulls = arrays[at].logical_nulls();
            let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            for (row, op) in ops.iter().enumerate() {
                let is_needed = match op {
                    RowOp::Insert | RowOp::Upsert => !lacking.has(at),
                    RowOp::Patch => is_given(at),
                    RowOp::Delete => false,
                };
                if is_needed && is_null(row) {
                    bad.push(BadRow::missing(row, at));
                }
            }
        }
        let comes = |row: usize| matches!(ops[row], RowOp::Insert | RowOp::Upsert);
        for at in self.key.iter().filter(|at| lacking.has(**at)) {
            bad.extend((0..ops.len()).filter(|row| !comes(*row)).map(|row| BadRow::missing(row, *at)));
        }
        lacking.only(ops.len(), comes);
        if ops.contains(&RowOp::Patch) {
            let given = self.given(is_given);
            let of_row = |op: &RowOp| (*op == RowOp::Patch).then_some(given.as_str());
            arrays[self.given_at()] = Arc::new(ops.iter().map(of_row).collect::<StringViewArray>());
        }
        bad.sort_by_key(|bad| (bad.row, bad.column));
        bad.dedup_by_key(|bad| bad.row);
        Ok(())
    }

    /// Rows that merely come, as those of any table; `None` if some of them do something else. `rows` are of the definition
    /// that they were read by, with what they lack; `table` is the table's own.
    ///
    /// # Errors
    /// `Internal` if the rows are not such.
    pub fn plain(&self, table: &TableDef, rows: &RecordBatch, lacking: &Lacking) -> Result<Option<RecordBatch>> {
        let says = |at: usize| rows.column(at).logical_null_count() < rows.num_rows();
        if !matches!(self.default, RowOp::Insert | RowOp::Upsert) || says(self.op_at()) || says(self.given_at()) {
            return Ok(None);
        }
        storage_batch(table, rows.columns()[..self.op_at()].to_vec(), rows.num_rows(), lacking).map(Some)
    }

    /// What rows do, and the columns that patches give, of rows by either definition.
    ///
    /// # Errors
    /// `Internal` if what is said of the rows is no text.
    pub fn of_rows(&self, rows: &RecordBatch) -> Result<Vec<(RowOp, Option<String>)>> {
        if rows.num_columns() <= self.op_at() {
            return Ok(vec![(self.default, None); rows.num_rows()]);
        }
        let texts = |at: usize| cast(rows.column(at), &ArrowType::Utf8View).map_err(internal);
        let (ops, given) = (texts(self.op_at())?, texts(self.given_at())?);
        let both = ops.as_string_view().iter().zip(given.as_string_view().iter());
        let row = |(op, given): (Option<&str>, Option<&str>)| {
            // Readers have reported those that are none.
            let op = self.op(op.map(str::as_bytes)).unwrap_or(self.default);
            (op, given.map(str::to_owned))
        };
        Ok(both.map(row).collect())
    }
}

/// Rows by the definition that they were read by, as batches that are read by their names again: a patch has the columns
/// that it gives, and no batch has another column that says so. `columns` are those of the table.
///
/// # Errors
/// `Internal` if what is said of the rows is no text.
pub fn by_name(rows: &RecordBatch, columns: usize) -> Result<Vec<RecordBatch>> {
    if rows.num_columns() <= columns {
        return Ok(vec![rows.clone()]);
    }
    let given = cast(rows.column(columns + 1), &ArrowType::Utf8View).map_err(internal)?;
    let given = given.as_string_view();
    let of_row = |row: usize| given.is_valid(row).then(|| given.value(row));
    let mut batches = Vec::new();
    let mut start = 0;
    while start < rows.num_rows() {
        let first = of_row(start);
        let count = (start..rows.num_rows()).take_while(|row| of_row(*row) == first).count();
        let is_given = |at: &usize| first.is_none_or(|given| given.as_bytes().get(*at) == Some(&b'1'));
        let kept: Vec<usize> = (0..columns).filter(is_given).chain([columns]).collect();
        batches.push(rows.slice(start, count).project(&kept).map_err(internal)?);
        start += count;
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use alluvia_space::{ColumnDefault, OnConflict, PrimaryKey};
    use alluvia_types::ErrorKind;
    use arrow::array::{Int32Array, new_null_array};

    fn keyed() -> Arc<TableDef> {
        let mut def = table("id INT NOT NULL, a INT NOT NULL, b INT").as_ref().clone();
        def.key = Some(PrimaryKey { columns: vec![ColumnId(0)], secret: [1, 2], on_conflict: OnConflict::Error });
        Arc::new(def)
    }

    fn arrays(ops: &[Option<&str>]) -> Vec<ArrayRef> {
        let rows = ops.len();
        let numbers = Arc::new(Int32Array::from_iter_values(0..rows as i32)) as ArrayRef;
        let nulls = |data_type: &ArrowType| new_null_array(data_type, rows);
        let ops = Arc::new(ops.iter().copied().collect::<StringViewArray>()) as ArrayRef;
        vec![numbers, nulls(&ArrowType::Int32), nulls(&ArrowType::Int32), ops, nulls(&ArrowType::Utf8View)]
    }

    #[test]
    fn what_a_row_needs_depends_on_what_it_does() {
        let incoming = Incoming::new(&keyed(), RowPolicy::default()).unwrap();
        assert_eq!(incoming.def.columns.len(), 5);
        let operations = incoming.operations.unwrap();
        let ops = [Some("upsert"), Some("delete"), Some("patch"), Some("merge"), None];
        let bad_rows = |gives_a: bool| {
            let (mut arrays, mut bad) = (arrays(&ops), Vec::new());
            let is_given = |at: usize| at == 0 || at == 1 && gives_a;
            operations.complete(&mut arrays, is_given, &mut Lacking::default(), &mut bad).unwrap();
            let given = arrays[4].as_string_view();
            assert_eq!((given.is_null(0), given.value(2)), (true, if gives_a { "110" } else { "100" }));
            bad.iter().map(|bad| (bad.row, bad.column)).collect::<Vec<_>>()
        };
        assert_eq!(bad_rows(false), [(0, 1), (3, 1), (4, 1)]);
        assert_eq!(bad_rows(true), [(0, 1), (2, 1), (3, 1), (4, 1)]);
    }

    #[test]
    fn rows_that_come_whole_lack_what_the_definition_gives() {
        let mut def = keyed().as_ref().clone();
        let column = def.columns[1].id;
        def.rules.defaults = vec![ColumnDefault { column, sql: "7".to_owned() }];
        let def = Arc::new(def);
        let incoming = Incoming::new(&def, RowPolicy::default()).unwrap();
        let operations = incoming.operations.unwrap();
        let lacks = |ops: &[Option<&str>]| {
            let (mut arrays, mut bad) = (arrays(ops), Vec::new());
            let mut lacking = Lacking::of(&incoming.def, [1, 2]);
            operations.complete(&mut arrays, |at| at == 0, &mut lacking, &mut bad).unwrap();
            assert!(bad.is_empty());
            let rows = storage_batch(&incoming.def, arrays, ops.len(), &lacking).unwrap();
            let is_plain = operations.plain(&def, &rows, &lacking).unwrap().is_some();
            let columns = lacking.columns().map(|(at, rows)| (at, rows.map(<[usize]>::to_vec)));
            (columns.collect::<Vec<_>>(), is_plain)
        };
        assert_eq!(lacks(&[None, None]), (vec![(1, None)], true));
        assert_eq!(lacks(&[Some("d"), None, Some("p"), Some("u")]), (vec![(1, Some(vec![1, 3]))], false));
        assert_eq!(lacks(&[Some("p"), Some("d")]), (vec![], false));
    }

    #[test]
    fn patches_that_are_sent_have_the_columns_that_they_give() {
        let incoming = Incoming::new(&keyed(), RowPolicy::default()).unwrap();
        let mut arrays = arrays(&[Some("p"), Some("p"), Some("d"), Some("p")]);
        arrays[4] = Arc::new(StringViewArray::from(vec![Some("110"), Some("110"), None, Some("101")]));
        let rows = storage_batch(&incoming.def, arrays, 4, &Lacking::default()).unwrap();
        let sent = by_name(&rows, 3).unwrap();
        let names = |batch: &RecordBatch| {
            batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(" ")
        };
        let shown: Vec<(String, usize)> = sent.iter().map(|batch| (names(batch), batch.num_rows())).collect();
        let wanted = [("id a _op", 2), ("id a b _op", 1), ("id b _op", 1)];
        assert_eq!(shown, wanted.map(|(names, rows)| (names.to_owned(), rows)));
    }

    #[test]
    fn rows_that_merely_come_are_those_of_any_table() {
        let (def, policy) = (keyed(), |op| RowPolicy { op, on_conflict: None });
        for (op, written, is_plain) in [
            (None, [None, None], true),
            (Some(RowOp::Upsert), [None, None], true),
            (Some(RowOp::Delete), [None, None], false),
            (None, [None, Some("d")], false),
        ] {
            let incoming = Incoming::new(&def, policy(op)).unwrap();
            let operations = incoming.operations.unwrap();
            let mut arrays = arrays(&written);
            arrays[1] = Arc::new(Int32Array::from(vec![1, 2]));
            let rows = storage_batch(&incoming.def, arrays, 2, &Lacking::default()).unwrap();
            let plain = operations.plain(&def, &rows, &Lacking::default()).unwrap();
            assert_eq!(plain.map(|rows| rows.num_columns()), is_plain.then_some(3), "{op:?} {written:?}");
        }
        let without = table("id INT, a INT");
        assert!(Incoming::new(&without, policy(None)).unwrap().operations.is_none());
        let refused = Incoming::new(&without, policy(Some(RowOp::Delete))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoKey);
    }
}
