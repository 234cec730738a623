//! Assignment casts: rows of any types into a table's storage schema, as PostgreSQL assigns.
//!
//! Invariants:
//! - A value arrives as itself, rounded only where SQL rounds (to a decimal's scale, a float to the nearest even integer,
//!   finer times to microseconds), or its row is reported; nothing wraps, saturates or turns into NULL.
//! - Types that can never fit are refused before any row is looked at.
//! - A text that is longer than its column takes is reported, too; spaces that are too many are cut ([`alluvia_values::varchar`]).
//! - Floats have one NaN ([`alluvia_values::nan`]).
//! - A NULL in a NOT NULL column is reported with the row, whatever made it: a missing column does too, unless the table's
//!   definition gives it something ([`Lacking`]).
//!
//! Casts run a column at a time ([`alluvia_values::convert`]).

use crate::lacking::Lacking;
use crate::operations::type_name;
use alluvia_space::{Column, DataType, TableDef};
use alluvia_types::{Error, Result};
use alluvia_values::builders::{TextAs, is_level_text};
use alluvia_values::convert::{check_types, convert_in_zone, find_nulls};
use alluvia_values::errors::internal;
use alluvia_values::nan::one_nan;
use alluvia_values::parse::Bad;
use alluvia_values::text::shown_value;
use alluvia_values::time_zone::Zone;
use alluvia_values::varchar::fit;
use alluvia_values::{float_digits, numeric};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;

/// Casts `batch` into the storage schema of `target`; `mapping[i]` is the column of `batch` for `target.columns[i]`, `None`
/// gives NULL, also where the definition gives something else ([`Assigner::lacking`]). Fails on the first bad row, naming row (from 1), column and value.
pub fn assign(batch: &RecordBatch, target: &TableDef, mapping: &[Option<usize>]) -> Result<RecordBatch> {
    Assigner::new(batch.schema_ref(), target, mapping, TextAs::Plain)?.assign(batch)
}

/// A row that does not fit: the first of its columns that does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRow {
    /// Index in the batch.
    pub row: usize,
    /// Index in the table's columns.
    pub column: usize,
    /// Why.
    pub bad: Bad,
    /// The value, quoted and shortened.
    pub shown: String,
}

impl BadRow {
    /// A NULL in a NOT NULL column that the source does not have.
    pub fn missing(row: usize, column: usize) -> BadRow {
        BadRow { row, column, bad: Bad::Null, shown: "NULL".to_owned() }
    }

    /// What is wrong, with the column and without the row.
    pub fn reason(&self, table: &TableDef) -> String {
        let column = &table.columns[self.column];
        format!("column {}: {}", column.name, self.bad.describe(&self.shown, &type_name(column)))
    }
}

/// Casts for some columns of one table from one schema, planned once.
pub struct Assigner {
    table: TableDef,
    plans: Vec<Plan>,
    /// Whether floats become decimals by the digits that they are sure of.
    is_of_query: bool,
    /// The time zone that times without one are of.
    zone: Zone,
    lacking: Lacking,
}

struct Plan {
    /// Index in the table's columns.
    column: usize,
    source: Option<usize>,
    text: TextAs,
}

impl Assigner {
    /// Plans all columns of `target`. With `TextAs::Dictionary`, text columns that are levels stay dictionaries where the
    /// source has them.
    pub fn new(source: &Schema, target: &TableDef, mapping: &[Option<usize>], text: TextAs) -> Result<Assigner> {
        assert_eq!(mapping.len(), target.columns.len(), "a source for every column of the table");
        let columns: Vec<usize> = (0..mapping.len()).collect();
        Assigner::for_columns(source, target, &columns, mapping, text)
    }

    /// Plans only `columns` of `target`, `mapping[i]` being the source of `columns[i]`.
    pub fn for_columns(
        source: &Schema,
        target: &TableDef,
        columns: &[usize],
        mapping: &[Option<usize>],
        text: TextAs,
    ) -> Result<Assigner> {
        let plan = |(&column, &from): (&usize, &Option<usize>)| {
            let to = &target.columns[column];
            if let Some(from) = from {
                check_types(source.field(from), to)?;
            }
            let dictionary = text == TextAs::Dictionary && is_level_text(target, to.id, to.data_type);
            Ok(Plan { column, source: from, text: if dictionary { TextAs::Dictionary } else { TextAs::Plain } })
        };
        let plans = columns.iter().zip(mapping).map(plan).collect::<Result<Vec<Plan>>>()?;
        let without = columns.iter().zip(mapping).filter(|(_, from)| from.is_none()).map(|(column, _)| *column);
        let lacking = Lacking::of(target, without);
        Ok(Assigner { table: target.clone(), plans, is_of_query: false, zone: Zone::utc(), lacking })
    }

    /// The same for what a query has computed: of floats that become decimals the digits count that they are sure of, as in PostgreSQL. A
    /// file's are taken as they are.
    pub fn of_query(mut self) -> Assigner {
        self.is_of_query = true;
        self
    }

    /// The same in a session of a time zone.
    pub fn in_zone(mut self, zone: &Zone) -> Assigner {
        self.zone = zone.clone();
        self
    }

    /// What the table's definition is to give to the rows.
    pub fn lacking(&self) -> &Lacking {
        &self.lacking
    }

    /// The planned columns, with NULL where a value does not fit, and the rows that have such, ascending, each once.
    pub fn convert(&self, batch: &RecordBatch) -> Result<(Vec<ArrayRef>, Vec<BadRow>)> {
        let rows = batch.num_rows();
        let mut arrays = Vec::with_capacity(self.plans.len());
        let mut bad_rows = Vec::new();
        for plan in &self.plans {
            let column = &self.table.columns[plan.column];
            let mut bad = Vec::new();
            let array = match plan.source {
                Some(from) => {
                    let from = batch.column(from);
                    let sure = match column.data_type {
                        DataType::Decimal { precision, scale } if self.is_of_query => {
                            float_digits::decimals(from, precision, scale, &mut bad)
                        }
                        DataType::Numeric if self.is_of_query => numeric::of_floats(from, &mut bad),
                        _ => None,
                    };
                    let array = match sure {
                        Some(decimals) => Arc::new(decimals) as ArrayRef,
                        None => convert_in_zone(from, column.data_type, plan.text, &self.zone, &mut bad)?,
                    };
                    match (column.chars_max, column.data_type) {
                        (Some(chars_max), _) => fit(&array, chars_max, &mut bad)?,
                        (None, DataType::Real | DataType::Double) => one_nan(&array),
                        (None, _) => array,
                    }
                }
                None => new_null_array(&column.data_type.to_arrow(), rows),
            };
            if !column.nullable && !self.lacking.has(plan.column) && array.logical_null_count() > bad.len() {
                find_nulls(&array, &mut bad);
            }
            bad_rows.extend(bad.into_iter().map(|(row, bad)| {
                let shown = plan.source.map_or_else(|| "NULL".to_owned(), |from| shown_value(batch.column(from), row));
                BadRow { row, column: plan.column, bad, shown }
            }));
            arrays.push(array);
        }
        bad_rows.sort_by_key(|bad| (bad.row, bad.column));
        bad_rows.dedup_by_key(|bad| bad.row);
        Ok((arrays, bad_rows))
    }

    /// All rows or the first that does not fit. Only for a plan of all columns.
    pub fn assign(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.assign_from(batch, 0)
    }

    /// As [`Assigner::assign`], for a batch that `before` rows came before: errors count them.
    pub fn assign_from(&self, batch: &RecordBatch, before: u64) -> Result<RecordBatch> {
        self.assign_completed(batch, before, |_, _, _| Ok(())).map(|(rows, _)| rows)
    }

    /// The same, of columns that are completed before they are a batch, with what they lack, and with the rows that are
    /// found bad by that. Gives what the rows lack then, too.
    pub fn assign_completed(
        &self,
        batch: &RecordBatch,
        before: u64,
        complete: impl FnOnce(&mut [ArrayRef], &mut Lacking, &mut Vec<BadRow>) -> Result<()>,
    ) -> Result<(RecordBatch, Lacking)> {
        let (mut arrays, mut bad) = self.convert(batch)?;
        let mut lacking = self.lacking.clone();
        complete(&mut arrays, &mut lacking, &mut bad)?;
        if let Some(first) = bad.first() {
            let message = format!("row {}, {}", before + first.row as u64 + 1, first.reason(&self.table));
            return Err(Error::new(first.bad.kind(), message));
        }
        let rows = storage_batch(&self.table, arrays, batch.num_rows(), &lacking)?;
        Ok((rows, lacking))
    }
}

/// All columns of `table` as a batch in its storage schema, text columns as plain or dictionary as they come.
pub(crate) fn storage_batch(
    table: &TableDef,
    arrays: Vec<ArrayRef>,
    rows: usize,
    lacking: &Lacking,
) -> Result<RecordBatch> {
    batch_of(storage_schema_of(table, &arrays, lacking), arrays, rows)
}

/// As [`storage_batch`], without the rows in `bad` (which may hold NULLs that the schema forbids).
pub(crate) fn storage_batch_without(
    table: &TableDef,
    arrays: Vec<ArrayRef>,
    rows: usize,
    bad: impl Iterator<Item = usize>,
    lacking: &Lacking,
) -> Result<RecordBatch> {
    let schema = storage_schema_of(table, &arrays, lacking);
    let relaxed: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let mut keep = vec![true; rows];
    bad.for_each(|row| keep[row] = false);
    let all = batch_of(Arc::new(Schema::new(relaxed)), arrays, rows)?;
    let good = filter_record_batch(&all, &BooleanArray::from(keep)).map_err(internal)?;
    let (_, arrays, rows) = good.into_parts();
    batch_of(schema, arrays, rows)
}

fn batch_of(schema: SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(internal)
}

fn storage_schema_of(table: &TableDef, arrays: &[ArrayRef], lacking: &Lacking) -> SchemaRef {
    let field = |(at, (column, array)): (usize, (&Column, &ArrayRef))| {
        Field::new(&column.storage_name, array.data_type().clone(), column.nullable || lacking.has(at))
    };
    Arc::new(Schema::new(table.columns.iter().zip(arrays).enumerate().map(field).collect::<Vec<Field>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{row_texts, table};
    use alluvia_types::ErrorKind;
    use alluvia_values::parse::{DAYS, MICROS};
    use arrow::array::{
        BinaryArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array,
        LargeStringArray, ListArray, NullArray, StringArray, Time32SecondArray, TimestampMicrosecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::{DataType as ArrowType, Int32Type};
    use proptest::prelude::*;

    fn cast_to(array: impl Array + 'static, column: &str) -> Result<Vec<String>> {
        let source = Arc::new(array) as ArrayRef;
        let schema = Schema::new(vec![Field::new("x", source.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![source]).unwrap();
        let table = table(&format!("c {column}"));
        let out = assign(&batch, &table, &[Some(0)])?;
        assert_eq!(out.column(0).data_type(), &table.columns[0].data_type.to_arrow());
        Ok(row_texts(&out).concat())
    }

    fn refusal(array: impl Array + 'static, column: &str) -> String {
        cast_to(array, column).unwrap_err().message().to_owned()
    }

    #[test]
    fn numbers_round_as_sql_does_or_are_refused() {
        assert_eq!(cast_to(Float64Array::from(vec![0.5, 1.5, 2.5, -1.5]), "INT").unwrap(), ["0", "2", "2", "-2"]);
        assert_eq!(cast_to(decimals(&[150, 249, -150, -149]), "INT").unwrap(), ["2", "2", "-2", "-1"]);
        assert_eq!(cast_to(decimals(&[125, -125]), "DOUBLE").unwrap(), ["1.25", "-1.25"]);
        assert_eq!(cast_to(Float64Array::from(vec![1.005e2, f64::NAN]), "REAL").unwrap(), ["100.5", "NaN"]);
        assert_eq!(cast_to(Float64Array::from(vec![2.675]), "DECIMAL").unwrap(), ["2.68"]);
        assert_eq!(cast_to(UInt64Array::from(vec![7]), "SMALLINT").unwrap(), ["7"]);
        assert_eq!(
            refusal(Int32Array::from(vec![1, 40_000]), "SMALLINT"),
            "row 2, column c: '40000' is out of range for SMALLINT"
        );
        assert_eq!(
            refusal(UInt64Array::from(vec![u64::MAX]), "BIGINT"),
            format!("row 1, column c: '{}' is out of range for BIGINT", u64::MAX)
        );
        assert_eq!(
            refusal(Float64Array::from(vec![f64::NAN]), "INT"),
            "row 1, column c: 'NaN' is out of range for INT"
        );
        assert_eq!(refusal(Float64Array::from(vec![1e39]), "REAL"), "row 1, column c: '1e39' is out of range for REAL");
        assert_eq!(
            refusal(Float64Array::from(vec![1e9]), "DECIMAL"),
            "row 1, column c: '1000000000.0' is out of range for DECIMAL(10, 2)"
        );
        assert_eq!(
            refusal(Float32Array::from(vec![3e9]), "INT"),
            "row 1, column c: '3000000000.0' is out of range for INT"
        );
    }

    fn decimals(hundredths: &[i128]) -> Decimal128Array {
        Decimal128Array::from(hundredths.to_vec()).with_precision_and_scale(10, 2).unwrap()
    }

    #[test]
    fn times_change_unit_and_zone_without_wrapping() {
        let nanos = TimestampNanosecondArray::from(vec![-1, 1_500]);
        assert_eq!(cast_to(nanos, "TIMESTAMP").unwrap(), ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00.000001"]);
        let seconds = || TimestampSecondArray::from(vec![-1]).with_timezone("Europe/Paris");
        assert_eq!(cast_to(seconds(), "TIMESTAMPTZ").unwrap(), ["1969-12-31 23:59:59+00"]);
        assert_eq!(cast_to(seconds(), "DATE").unwrap(), ["1969-12-31"]);
        assert_eq!(cast_to(Date32Array::from(vec![1]), "TIMESTAMPTZ").unwrap(), ["1970-01-02 00:00:00+00"]);
        assert!(refusal(TimestampSecondArray::from(vec![i64::MAX]), "TIMESTAMP").contains("row 1, column c"));
        assert!(refusal(Date32Array::from(vec![i32::MAX]), "TIMESTAMP").contains("out of range for TIMESTAMP"));
    }

    /// Whatever unit they come in, and if no cast is needed.
    #[test]
    fn times_that_no_text_tells_are_refused() {
        let micros = |value| TimestampMicrosecondArray::from(vec![Some(0), None, Some(value)]);
        for value in [MICROS.start - 1, MICROS.end, i64::MIN, i64::MAX] {
            assert!(refusal(micros(value), "TIMESTAMP").starts_with("row 3, column c: "), "{value}");
            assert!(refusal(micros(value).with_timezone("UTC"), "TIMESTAMPTZ").contains("out of range for"), "{value}");
            assert!(refusal(micros(value), "DATE").contains("out of range for DATE"), "{value}");
            assert!(
                refusal(TimestampSecondArray::from(vec![value.div_euclid(1_000_000)]), "TIMESTAMP").contains("row 1")
            );
        }
        for day in [DAYS.start - 1, DAYS.end, i32::MIN, i32::MAX] {
            assert!(
                refusal(Date32Array::from(vec![Some(0), None, Some(day)]), "DATE").starts_with("row 3, column c: ")
            );
        }
        for value in [MICROS.start, MICROS.end - 1] {
            assert_eq!(cast_to(micros(value), "TIMESTAMP").unwrap().len(), 3);
            assert_eq!(cast_to(micros(value), "DATE").unwrap().len(), 3);
        }
        let days = Date32Array::from(vec![DAYS.start, DAYS.end - 1]);
        assert_eq!(cast_to(days, "DATE").unwrap().len(), 2);
    }

    #[test]
    fn texts_are_read_and_everything_can_be_text() {
        let texts = || StringArray::from(vec![Some("12"), None, Some(" 7 ")]);
        assert_eq!(cast_to(texts(), "INT").unwrap(), ["12", "NULL", "7"]);
        assert_eq!(refusal(StringArray::from(vec!["1", "x"]), "INT"), "row 2, column c: 'x' is not a valid INT");
        assert_eq!(cast_to(StringArray::from(vec!["\\x6162"]), "BYTEA").unwrap(), ["\\x6162"]);
        assert_eq!(cast_to(BinaryArray::from_vec(vec![b"ab"]), "TEXT").unwrap(), ["ab"]);
        assert_eq!(
            refusal(BinaryArray::from_vec(vec![b"a\xff"]), "TEXT"),
            "row 1, column c: 'a\u{fffd}' is not valid UTF-8"
        );
        assert_eq!(cast_to(Float64Array::from(vec![1.5]), "TEXT").unwrap(), ["1.5"]);
        assert_eq!(cast_to(Time32SecondArray::from(vec![3661]), "TEXT").unwrap(), ["01:01:01"]);
        assert_eq!(
            cast_to(TimestampSecondArray::from(vec![0]).with_timezone("UTC"), "TEXT").unwrap(),
            ["1970-01-01 00:00:00+00"]
        );
        let dictionary: DictionaryArray<Int32Type> = vec![Some("5"), None, Some("5")].into_iter().collect();
        assert_eq!(cast_to(dictionary.clone(), "TEXT").unwrap(), ["5", "NULL", "5"]);
        assert_eq!(cast_to(dictionary, "BIGINT").unwrap(), ["5", "NULL", "5"]);
        assert_eq!(cast_to(NullArray::new(2), "DATE").unwrap(), ["NULL", "NULL"]);
    }

    #[test]
    fn types_that_never_fit_are_refused_before_any_row() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(Vec::<Option<Vec<Option<i32>>>>::new());
        for error in [
            cast_to(BooleanArray::from(Vec::<bool>::new()), "INT"),
            cast_to(Int32Array::from(Vec::<i32>::new()), "BOOLEAN"),
            cast_to(Int32Array::from(Vec::<i32>::new()), "DATE"),
            cast_to(Date32Array::from(Vec::<i32>::new()), "BIGINT"),
            cast_to(Time32SecondArray::from(Vec::<i32>::new()), "TIMESTAMP"),
            cast_to(list, "TEXT"),
        ] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::DatatypeMismatch);
        }
    }

    #[test]
    fn not_null_holds_whatever_made_the_null() {
        let null = |result: Result<Vec<String>>| {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotNull);
            error.message().to_owned()
        };
        assert_eq!(
            null(cast_to(Int32Array::from(vec![Some(1), None]), "INT NOT NULL")),
            "row 2, column c: NULL in a NOT NULL column"
        );
        assert!(null(cast_to(NullArray::new(1), "TEXT NOT NULL")).contains("row 1"));
        let table = table("a INT, b INT NOT NULL");
        let schema = Arc::new(Schema::new(vec![Field::new("x", ArrowType::Int32, true)]));
        let batch =
            |values: Vec<i32>| RecordBatch::try_new(schema.clone(), vec![Arc::new(Int32Array::from(values))]).unwrap();
        assert!(assign(&batch(vec![1]), &table, &[Some(0), None]).unwrap_err().message().contains("row 1, column b"));
        assert_eq!(assign(&batch(vec![]), &table, &[Some(0), None]).unwrap().num_rows(), 0);
        assert_eq!(row_texts(&assign(&batch(vec![1]), &table, &[None, Some(0)]).unwrap()), [["NULL", "1"]]);
    }

    proptest! {
        /// Each value against the plain rule, one at a time.
        #[test]
        fn every_value_arrives_or_is_reported(values in proptest::collection::vec(proptest::option::of(prop_oneof![any::<f64>(), -50_000.0..50_000.0f64]), 0..20)) {
            let fits = |value: f64| value.round_ties_even() >= -32_768.0 && value.round_ties_even() <= 32_767.0;
            let table = table("c SMALLINT");
            let schema = Schema::new(vec![Field::new("x", ArrowType::Float64, true)]);
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(Float64Array::from(values.clone()))]).unwrap();
            let assigner = Assigner::new(&schema, &table, &[Some(0)], TextAs::Plain).unwrap();
            let (arrays, bad) = assigner.convert(&batch).unwrap();
            let bad: Vec<usize> = bad.into_iter().map(|bad| bad.row).collect();
            let want: Vec<usize> = (0..values.len()).filter(|row| values[*row].is_some_and(|value| !fits(value))).collect();
            prop_assert_eq!(&bad, &want);
            let good = storage_batch_without(&table, arrays, values.len(), bad.into_iter(), &Lacking::default()).unwrap();
            let kept = values.iter().filter(|value| value.is_none_or(fits));
            let want: Vec<String> = kept.map(|value| value.map_or("NULL".to_owned(), |value| (value.round_ties_even() as i16).to_string())).collect();
            prop_assert_eq!(row_texts(&good).concat(), want);
        }
    }

    #[test]
    fn the_error_names_row_column_length_and_value() {
        let texts = LargeStringArray::from(vec!["good", "good  ", "not good"]);
        let schema = Schema::new(vec![Field::new("x", ArrowType::LargeUtf8, false)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts)]).unwrap();
        let error = assign(&batch, &table("c VARCHAR(4) NOT NULL"), &[Some(0)]).unwrap_err();
        assert_eq!(error.kind().sqlstate(), "22001");
        assert_eq!(error.message(), "row 3, column c: 'not good' is too long for VARCHAR(4)");
    }

    #[test]
    fn a_text_is_assigned_by_its_length() {
        let texts = StringArray::from(vec![Some("a"), None, Some("漢é😀  "), Some("漢é😀b")]);
        let schema = Schema::new(vec![Field::new("x", ArrowType::Utf8, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(texts)]).unwrap();
        let table = table("c VARCHAR(3)");
        let assigner = Assigner::new(&schema, &table, &[Some(0)], TextAs::Plain).unwrap();
        let (_, bad) = assigner.convert(&batch).unwrap();
        assert_eq!(bad.into_iter().map(|bad| bad.row).collect::<Vec<_>>(), [3]);
        assert!(assign(&batch, &table, &[Some(0)]).is_err());
        let kept = assign(&batch.slice(0, 3), &table, &[Some(0)]).unwrap();
        assert_eq!(row_texts(&kept).concat(), ["a", "NULL", "漢é😀"]);
    }
}
