//! Rows that come and do various things, as runs that each do one.
//!
//! Invariants:
//! - What rows of one key do happens in the order of the rows. What rows of other keys do may change places: so there are
//!   few runs, however mixed the rows are.
//! - A patch becomes a whole row: the columns that it gives, and the others of the row that its key has by then. Who hands
//!   the runs over says which version the old rows were of.
//! - Columns are known by their places in the definition.

use alluvia_space::{KeyCode, OnConflict, RowOp, TableDef};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Rows that come, in their order.
#[derive(Debug)]
pub struct MixedRows<'a> {
    /// The definition of their table, which has a key.
    pub def: &'a TableDef,
    /// What becomes of rows that are inserted and whose keys are there.
    pub on_conflict: OnConflict,
    /// One column for each of the table's. What a row does not need is NULL.
    pub rows: &'a RecordBatch,
    /// What each does.
    pub ops: &'a [RowOp],
    /// Of each patch, `1` for a column that it gives, and `0` for others; nothing of other rows.
    pub given: &'a [Option<&'a [u8]>],
    /// The codes of their keys.
    pub codes: &'a [KeyCode],
}

/// The rows that are there, of keys that are patched.
#[derive(Debug)]
pub struct OldRows<'a> {
    /// One column for each of the table's.
    pub rows: &'a RecordBatch,
    /// Which of them has a key.
    pub places: &'a HashMap<KeyCode, usize>,
}

/// What the rows of a run do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RunKind {
    /// They come, as [`MixedRows::on_conflict`] says.
    Insert,
    /// They take the place of those that have their keys.
    Upsert,
    /// The same, of rows that were made of old ones: who writes them checks that these are still there.
    Computed,
    /// The rows of these keys go: the columns are the key's, in its order.
    Delete,
}

/// Rows that do one thing.
#[derive(Clone, Debug)]
pub struct Run {
    /// What they do.
    pub kind: RunKind,
    /// The rows, by the names of storage.
    pub rows: RecordBatch,
}

/// Where the value of a column is: in which source, and in which row of it.
type Cell = (usize, usize);

const OLD: usize = 0;
const OWN: usize = 1;
const NULL: Cell = (2, 0);

/// The keys of rows that are patches: those whose old rows are to be read, each once.
pub fn patched_keys(ops: &[RowOp], codes: &[KeyCode]) -> Vec<KeyCode> {
    let mut seen = HashSet::new();
    let patched = ops.iter().zip(codes).filter(|(op, _)| **op == RowOp::Patch);
    patched.map(|(_, code)| *code).filter(|code| seen.insert(*code)).collect()
}

/// The runs of these rows, in the order in which they are to be applied.
///
/// # Errors
/// `NotNull` where a patch inserts a row, and lacks a column that is NOT NULL.
pub fn fold(mixed: &MixedRows<'_>, old: &OldRows<'_>) -> Result<Vec<Run>> {
    let mut runs = Runs::default();
    let patched: HashSet<KeyCode> = patched_keys(mixed.ops, mixed.codes).into_iter().collect();
    // What a key has by then, of those that are patched; at the beginning what `old` has.
    let mut states: HashMap<KeyCode, Option<Vec<Cell>>> = HashMap::with_capacity(patched.len());
    let columns = mixed.def.columns.len();
    let whole = |source: usize, row: usize| vec![(source, row); columns];
    for (row, (op, code)) in mixed.ops.iter().zip(mixed.codes).enumerate() {
        let state = match patched.contains(code) {
            true => {
                let before = || old.places.get(code).map(|place| whole(OLD, *place));
                Some(states.entry(*code).or_insert_with(before))
            }
            false => None,
        };
        match (op, state) {
            (RowOp::Insert, None) => runs.add(RunKind::Insert, *code, row),
            (RowOp::Upsert, None) => runs.add(RunKind::Upsert, *code, row),
            (RowOp::Delete, None) => runs.add(RunKind::Delete, *code, row),
            (RowOp::Insert, Some(state)) => {
                if mixed.on_conflict != OnConflict::Nothing || state.is_none() {
                    *state = Some(whole(OWN, row));
                }
                runs.add(RunKind::Insert, *code, row);
            }
            (RowOp::Upsert, Some(state)) => {
                *state = Some(whole(OWN, row));
                runs.add(RunKind::Upsert, *code, row);
            }
            (RowOp::Delete, Some(state)) => {
                *state = None;
                runs.add(RunKind::Delete, *code, row);
            }
            (RowOp::Patch, None) => return Err(Error::internal("a patch is of a key that is not patched")),
            (RowOp::Patch, Some(state)) => {
                let given = mixed.given.get(row).copied().flatten().unwrap_or_default();
                let is_given = |column: usize| given.get(column).is_some_and(|given| *given == b'1');
                let before = state.take();
                if before.is_none() {
                    check_required(mixed.def, row, is_given)?;
                }
                let mut cells = before.unwrap_or_else(|| vec![NULL; columns]);
                for (column, cell) in cells.iter_mut().enumerate() {
                    if is_given(column) {
                        *cell = (OWN, row);
                    }
                }
                *state = Some(cells.clone());
                runs.compute(*code, cells);
            }
        }
    }
    runs.finish(mixed, old)
}

/// Refuses a row that comes by a patch without what it needs.
fn check_required(def: &TableDef, row: usize, is_given: impl Fn(usize) -> bool) -> Result<()> {
    let missing = def.columns.iter().enumerate().find(|(at, column)| !column.nullable && !is_given(*at));
    let Some((_, column)) = missing else { return Ok(()) };
    let message = format!("row {}, column {}: NULL in a NOT NULL column", row + 1, column.name);
    Err(Error::new(ErrorKind::NotNull, message)
        .with_hint("no row has its key: a patch inserts one then, and needs every column that is NOT NULL"))
}

/// Runs that are being made.
#[derive(Debug, Default)]
struct Runs {
    all: Vec<Rows>,
    /// Those of each kind, in their order.
    of_kind: HashMap<RunKind, Vec<usize>>,
    /// The last run that has rows of a key.
    last: HashMap<KeyCode, usize>,
}

#[derive(Debug)]
struct Rows {
    kind: RunKind,
    /// Rows that come as they are.
    own: Vec<u32>,
    /// Rows that were made; of one key the last.
    computed: Vec<Vec<Cell>>,
    computed_of: HashMap<KeyCode, usize>,
}

impl Runs {
    /// The first run of a kind that comes no earlier than what is done with a key before.
    fn run(&mut self, kind: RunKind, code: KeyCode) -> &mut Rows {
        let from = self.last.get(&code).copied().unwrap_or(0);
        let of_kind = self.of_kind.entry(kind).or_default();
        let at = match of_kind.get(of_kind.partition_point(|at| *at < from)) {
            Some(at) => *at,
            None => {
                self.all.push(Rows { kind, own: Vec::new(), computed: Vec::new(), computed_of: HashMap::new() });
                of_kind.push(self.all.len() - 1);
                self.all.len() - 1
            }
        };
        self.last.insert(code, at);
        &mut self.all[at]
    }

    fn add(&mut self, kind: RunKind, code: KeyCode, row: usize) {
        self.run(kind, code).own.push(row as u32);
    }

    fn compute(&mut self, code: KeyCode, cells: Vec<Cell>) {
        let run = self.run(RunKind::Computed, code);
        match run.computed_of.get(&code) {
            Some(at) => run.computed[*at] = cells,
            None => {
                run.computed_of.insert(code, run.computed.len());
                run.computed.push(cells);
            }
        }
    }

    fn finish(self, mixed: &MixedRows<'_>, old: &OldRows<'_>) -> Result<Vec<Run>> {
        let def = mixed.def;
        let key = def.key_columns().ok_or_else(|| Error::internal("rows without a key were told apart by it"))?;
        let whole: Vec<usize> = (0..def.columns.len()).collect();
        let run = |rows: Rows| -> Result<Run> {
            let columns = if rows.kind == RunKind::Delete { &key } else { &whole };
            let arrays: Vec<ArrayRef> = match rows.kind {
                RunKind::Computed => {
                    columns.iter().map(|&at| computed(mixed, old, at, &rows.computed)).collect::<Result<_>>()?
                }
                _ if rows.own.len() == mixed.rows.num_rows() => {
                    columns.iter().map(|&at| Arc::clone(mixed.rows.column(at))).collect()
                }
                _ => {
                    let numbers = UInt32Array::from(rows.own);
                    let column = |&at: &usize| take(mixed.rows.column(at), &numbers, None).map_err(misfit);
                    columns.iter().map(column).collect::<Result<_>>()?
                }
            };
            Ok(Run { kind: rows.kind, rows: batch(def, columns, arrays)? })
        };
        self.all.into_iter().map(run).collect()
    }
}

/// One column of rows that were made.
fn computed(mixed: &MixedRows<'_>, old: &OldRows<'_>, at: usize, rows: &[Vec<Cell>]) -> Result<ArrayRef> {
    let data_type = mixed.def.columns[at].data_type.to_arrow();
    let own = cast(mixed.rows.column(at), &data_type).map_err(misfit)?;
    let old = match old.rows.columns().get(at) {
        Some(old) => cast(old, &data_type).map_err(misfit)?,
        None => new_null_array(&data_type, 0),
    };
    let null = new_null_array(&data_type, 1);
    let sources: [&dyn Array; 3] = [old.as_ref(), own.as_ref(), null.as_ref()];
    let cells: Vec<Cell> = rows.iter().map(|row| row[at]).collect();
    interleave(&sources, &cells).map_err(misfit)
}

fn batch(def: &TableDef, columns: &[usize], arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = arrays.first().map_or(0, |array| array.len());
    let field = |(&at, array): (&usize, &ArrayRef)| {
        let column = &def.columns[at];
        Field::new(&column.storage_name, array.data_type().clone(), column.nullable)
    };
    let fields: Vec<Field> = columns.iter().zip(&arrays).map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).map_err(misfit)
}

fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows that come do not have the columns of their table: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use alluvia_space::KeyCoder;
    use arrow::array::{AsArray, Int32Array, Int64Array};
    use arrow::datatypes::{Int32Type, Int64Type};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Values = [Option<i32>; 2];
    type Map = BTreeMap<i64, Values>;

    #[derive(Clone, Debug)]
    struct Row {
        op: RowOp,
        key: i64,
        values: Values,
        given: [bool; 2],
    }

    fn definition() -> TableDef {
        table("CREATE TABLE t (a INT, id BIGINT PRIMARY KEY, b INT)")
    }

    fn rows_of(rows: &[(i64, Values)]) -> RecordBatch {
        let values =
            |at: usize| Arc::new(rows.iter().map(|(_, values)| values[at]).collect::<Int32Array>()) as ArrayRef;
        let keys = Arc::new(rows.iter().map(|(key, _)| *key).collect::<Int64Array>()) as ArrayRef;
        batch(&definition(), &[0, 1, 2], vec![values(0), keys, values(1)]).unwrap()
    }

    /// One row after the other, as the words say; `None` where a key is there that must not be.
    fn plainly(map: &Map, rows: &[Row], on_conflict: OnConflict) -> Option<Map> {
        let mut map = map.clone();
        for row in rows {
            match row.op {
                RowOp::Insert if map.contains_key(&row.key) => match on_conflict {
                    OnConflict::Error => return None,
                    OnConflict::Nothing => {}
                    OnConflict::Replace => {
                        map.insert(row.key, row.values);
                    }
                },
                RowOp::Insert | RowOp::Upsert => {
                    map.insert(row.key, row.values);
                }
                RowOp::Delete => {
                    map.remove(&row.key);
                }
                RowOp::Patch => {
                    let there = map.entry(row.key).or_default();
                    for (at, there) in there.iter_mut().enumerate() {
                        if row.given[at] {
                            *there = row.values[at];
                        }
                    }
                }
            }
        }
        Some(map)
    }

    /// What a store does with runs.
    fn applied(map: &Map, runs: &[Run], on_conflict: OnConflict) -> Option<Map> {
        let mut map = map.clone();
        for run in runs {
            let keys = run.rows.column_by_name("id").unwrap().as_primitive::<Int64Type>();
            for (at, key) in keys.values().iter().enumerate() {
                if run.kind == RunKind::Delete {
                    assert_eq!(run.rows.num_columns(), 1);
                    map.remove(key);
                    continue;
                }
                let value = |name: &str| {
                    let column = run.rows.column_by_name(name).unwrap().as_primitive::<Int32Type>();
                    column.is_valid(at).then(|| column.value(at))
                };
                let values = [value("a"), value("b")];
                match (run.kind, map.contains_key(key), on_conflict) {
                    (RunKind::Insert, true, OnConflict::Error) => return None,
                    (RunKind::Insert, true, OnConflict::Nothing) => {}
                    _ => {
                        map.insert(*key, values);
                    }
                }
            }
        }
        Some(map)
    }

    fn folded(def: &TableDef, map: &Map, rows: &[Row], on_conflict: OnConflict) -> Result<Vec<Run>> {
        let coder = KeyCoder::new(def).unwrap();
        let old: Vec<(i64, Values)> = map.iter().map(|(key, values)| (*key, *values)).collect();
        let old = rows_of(&old);
        let places: HashMap<KeyCode, usize> = coder.codes(&old).unwrap().into_iter().zip(0..).collect();
        let batch = rows_of(&rows.iter().map(|row| (row.key, row.values)).collect::<Vec<_>>());
        let codes = coder.codes(&batch).unwrap();
        let ops: Vec<RowOp> = rows.iter().map(|row| row.op).collect();
        let mask = |row: &Row| {
            let of = |given: bool| if given { b'1' } else { b'0' };
            (row.op == RowOp::Patch).then(|| vec![of(row.given[0]), b'1', of(row.given[1])])
        };
        let masks: Vec<Option<Vec<u8>>> = rows.iter().map(mask).collect();
        let given: Vec<Option<&[u8]>> = masks.iter().map(Option::as_deref).collect();
        let mixed = MixedRows { def, on_conflict, rows: &batch, ops: &ops, given: &given, codes: &codes };
        fold(&mixed, &OldRows { rows: &old, places: &places })
    }

    fn ops() -> impl Strategy<Value = RowOp> {
        prop_oneof![Just(RowOp::Insert), Just(RowOp::Upsert), Just(RowOp::Patch), Just(RowOp::Delete)]
    }

    fn values() -> impl Strategy<Value = Values> {
        [proptest::option::of(0..100), proptest::option::of(0..100)]
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let row = (ops(), 0..6i64, values(), [any::<bool>(), any::<bool>()]).prop_map(|(op, key, values, given)| Row {
            op,
            key,
            values,
            given,
        });
        proptest::collection::vec(row, 0..30)
    }

    proptest! {
        /// Runs do what the rows say, one after the other.
        #[test]
        fn runs_are_what_the_rows_say(map in proptest::collection::btree_map(0..6i64, values(), 0..6), rows in rows()) {
            for on_conflict in [OnConflict::Error, OnConflict::Nothing, OnConflict::Replace] {
                let runs = folded(&definition(), &map, &rows, on_conflict).unwrap();
                prop_assert_eq!(applied(&map, &runs, on_conflict), plainly(&map, &rows, on_conflict));
            }
        }
    }

    fn row(op: RowOp, key: i64) -> Row {
        Row { op, key, values: [Some(1), None], given: [true, false] }
    }

    #[test]
    fn mixed_rows_make_few_runs() {
        let mixed = |key| [row(RowOp::Upsert, key), row(RowOp::Delete, key)];
        let rows: Vec<Row> = (0..100).flat_map(mixed).collect();
        let runs = folded(&definition(), &Map::new(), &rows, OnConflict::Error).unwrap();
        let kinds: Vec<(RunKind, usize)> = runs.iter().map(|run| (run.kind, run.rows.num_rows())).collect();
        assert_eq!(kinds, [(RunKind::Upsert, 100), (RunKind::Delete, 100)]);
        // Of many patches of a key one row is written.
        let rows: Vec<Row> = (0..50).map(|_| row(RowOp::Patch, 7)).collect();
        let runs = folded(&definition(), &Map::new(), &rows, OnConflict::Error).unwrap();
        assert_eq!((runs.len(), runs[0].kind, runs[0].rows.num_rows()), (1, RunKind::Computed, 1));
    }

    #[test]
    fn a_patch_that_inserts_needs_what_is_not_null() {
        let def = table("CREATE TABLE t (a INT, id BIGINT PRIMARY KEY, b INT NOT NULL)");
        let error = folded(&def, &Map::new(), &[row(RowOp::Patch, 1)], OnConflict::Error).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::NotNull, "row 1, column b: NULL in a NOT NULL column"));
        let there = Map::from([(1, [None, Some(5)])]);
        let runs = folded(&def, &there, &[row(RowOp::Patch, 1)], OnConflict::Error).unwrap();
        assert_eq!(applied(&there, &runs, OnConflict::Error), Some(Map::from([(1, [Some(1), Some(5)])])));
        // Not where it is gone by then.
        let rows = [row(RowOp::Delete, 1), row(RowOp::Patch, 1)];
        assert_eq!(folded(&def, &there, &rows, OnConflict::Error).unwrap_err().kind(), ErrorKind::NotNull);
    }
}
