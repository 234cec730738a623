//! Assignment casts: rows of any types into a table's storage schema, as PostgreSQL assigns.
//!
//! Invariants:
//! - A value arrives as itself, rounded only where SQL rounds (to a decimal's scale, a float to the nearest even integer,
//!   finer times to microseconds), or its row is reported; nothing wraps, saturates or turns into NULL.
//! - Types that can never fit are refused before any row is looked at.
//! - A text that is longer than its column takes is reported, too; spaces that are too many are cut ([`crate::copy::lengths`]).
//! - A NULL in a NOT NULL column is reported with the row, whatever made it: a missing column does too.
//!
//! Casts run a column at a time through Arrow's kernels in their "safe" mode, which put NULL for what does not fit; comparing
//! NULLs before and after finds the bad rows, so a good batch costs no more than the kernel.

use crate::copy::columns::{ColumnBuilder, TextAs, is_level_text};
use crate::copy::lengths::fit;
use crate::copy::text::{TextColumn, shown_value};
use crate::copy::values::{Bad, DAY_MICROS, DAYS, MICROS};
use alluvia_space::{Column, DataType, TableDef};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch, StringViewBuilder,
    new_null_array,
};
use arrow::compute::{CastOptions, cast, cast_with_options, filter_record_batch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Field, Float32Type, Float64Type, Int64Type, Schema,
    SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use std::ops::Range;
use std::sync::Arc;

/// Casts `batch` into the storage schema of `target`; `mapping[i]` is the column of `batch` for `target.columns[i]`, `None`
/// gives NULL. Fails on the first bad row, naming row (from 1), column and value.
pub(crate) fn assign(batch: &RecordBatch, target: &TableDef, mapping: &[Option<usize>]) -> Result<RecordBatch> {
    Assigner::new(batch.schema_ref(), target, mapping, TextAs::Plain)?.assign(batch)
}

/// A row that does not fit: the first of its columns that does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadRow {
    /// Index in the batch.
    pub(crate) row: usize,
    /// Index in the table's columns.
    pub(crate) column: usize,
    /// Why.
    pub(crate) bad: Bad,
    /// The value, quoted and shortened.
    pub(crate) shown: String,
}

impl BadRow {
    /// A NULL in a NOT NULL column that the source does not have.
    pub(crate) fn missing(row: usize, column: usize) -> BadRow {
        BadRow { row, column, bad: Bad::Null, shown: "NULL".to_owned() }
    }

    /// What is wrong, with the column and without the row.
    pub(crate) fn reason(&self, table: &TableDef) -> String {
        let column = &table.columns[self.column];
        format!("column {}: {}", column.name, self.bad.describe(&self.shown, &column.sql_type()))
    }
}

/// Casts for some columns of one table from one schema, planned once.
pub(crate) struct Assigner {
    table: TableDef,
    plans: Vec<Plan>,
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
    pub(crate) fn new(source: &Schema, target: &TableDef, mapping: &[Option<usize>], text: TextAs) -> Result<Assigner> {
        assert_eq!(mapping.len(), target.columns.len(), "a source for every column of the table");
        let columns: Vec<usize> = (0..mapping.len()).collect();
        Assigner::for_columns(source, target, &columns, mapping, text)
    }

    /// Plans only `columns` of `target`, `mapping[i]` being the source of `columns[i]`.
    pub(crate) fn for_columns(
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
        Ok(Assigner { table: target.clone(), plans })
    }

    /// The planned columns, with NULL where a value does not fit, and the rows that have such, ascending, each once.
    pub(crate) fn convert(&self, batch: &RecordBatch) -> Result<(Vec<ArrayRef>, Vec<BadRow>)> {
        let rows = batch.num_rows();
        let mut arrays = Vec::with_capacity(self.plans.len());
        let mut bad_rows = Vec::new();
        for plan in &self.plans {
            let column = &self.table.columns[plan.column];
            let mut bad = Vec::new();
            let array = match plan.source {
                Some(from) => {
                    let array = convert(batch.column(from), column.data_type, plan.text, &mut bad)?;
                    match column.chars_max {
                        Some(chars_max) => fit(&array, chars_max, &mut bad)?,
                        None => array,
                    }
                }
                None => new_null_array(&column.data_type.to_arrow(), rows),
            };
            if !column.nullable && array.logical_null_count() > bad.len() {
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
    pub(crate) fn assign(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.assign_from(batch, 0)
    }

    /// As [`Assigner::assign`], for a batch that `before` rows came before: errors count them.
    pub(crate) fn assign_from(&self, batch: &RecordBatch, before: u64) -> Result<RecordBatch> {
        let (arrays, bad) = self.convert(batch)?;
        if let Some(first) = bad.first() {
            let message = format!("row {}, {}", before + first.row as u64 + 1, first.reason(&self.table));
            return Err(Error::new(first.bad.kind(), message));
        }
        storage_batch(&self.table, arrays, batch.num_rows())
    }
}

/// All columns of `table` as a batch in its storage schema, text columns as plain or dictionary as they come.
pub(crate) fn storage_batch(table: &TableDef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    batch_of(storage_schema_of(table, &arrays), arrays, rows)
}

/// As [`storage_batch`], without the rows in `bad` (which may hold NULLs that the schema forbids).
pub(crate) fn storage_batch_without(
    table: &TableDef,
    arrays: Vec<ArrayRef>,
    rows: usize,
    bad: impl Iterator<Item = usize>,
) -> Result<RecordBatch> {
    let schema = storage_schema_of(table, &arrays);
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

fn storage_schema_of(table: &TableDef, arrays: &[ArrayRef]) -> SchemaRef {
    let field = |(column, array): (&Column, &ArrayRef)| {
        Field::new(&column.storage_name, array.data_type().clone(), column.nullable)
    };
    Arc::new(Schema::new(table.columns.iter().zip(arrays).map(field).collect::<Vec<Field>>()))
}

fn internal(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("a batch could not be assembled: {error}"))
}

/// What a source type is to a cast.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Null,
    Boolean,
    Integer,
    Float,
    Decimal,
    Date,
    Timestamp,
    Text,
    Bytes,
    /// Times of day, durations, intervals: only as text.
    Other,
    /// Lists, structs, maps, unions.
    Nested,
}

fn family(from: &ArrowType) -> Family {
    match from {
        ArrowType::Null => Family::Null,
        ArrowType::Boolean => Family::Boolean,
        from if from.is_integer() => Family::Integer,
        from if from.is_floating() => Family::Float,
        from if from.is_decimal() => Family::Decimal,
        ArrowType::Date32 | ArrowType::Date64 => Family::Date,
        ArrowType::Timestamp(..) => Family::Timestamp,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => Family::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
            Family::Bytes
        }
        ArrowType::Time32(_) | ArrowType::Time64(_) | ArrowType::Duration(_) | ArrowType::Interval(_) => Family::Other,
        ArrowType::Dictionary(_, values) => family(values),
        ArrowType::RunEndEncoded(_, values) => family(values.data_type()),
        _ => Family::Nested,
    }
}

fn check_types(from: &Field, to: &Column) -> Result<()> {
    let fits = match (family(from.data_type()), to.data_type) {
        (Family::Null | Family::Text, _) => true,
        (Family::Nested, _) => false,
        (Family::Bytes, DataType::Text | DataType::Binary) => true,
        (Family::Bytes, _) => false,
        (_, DataType::Text) => true,
        (Family::Boolean, to) => to == DataType::Boolean,
        (Family::Integer | Family::Float | Family::Decimal, to) => matches!(
            to,
            DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Real
                | DataType::Double
                | DataType::Decimal { .. }
        ),
        (Family::Date | Family::Timestamp, to) => {
            matches!(to, DataType::Date | DataType::Timestamp | DataType::TimestampTz)
        }
        (Family::Other, _) => false,
    };
    if fits {
        return Ok(());
    }
    let from_name = DataType::from_arrow(from.data_type())
        .map_or_else(|| from.data_type().to_string(), |data_type| data_type.sql_name());
    Err(Error::new(
        ErrorKind::DatatypeMismatch,
        format!("column {} is {}, and a value of type {from_name} cannot be stored in it", to.name, to.sql_type()),
    )
    .with_hint("write an explicit cast"))
}

/// One column in the storage type of `to`; `bad` gets the rows whose value does not fit, ascending, and NULL stands there.
fn convert(array: &ArrayRef, to: DataType, text: TextAs, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let target = to.to_arrow();
    if *array.data_type() == target {
        return Ok(match to {
            DataType::Date => within(array.as_primitive::<Date32Type>(), &DAYS, bad),
            DataType::Timestamp | DataType::TimestampTz => {
                within(array.as_primitive::<TimestampMicrosecondType>(), &MICROS, bad)
            }
            _ => array.clone(),
        });
    }
    match array.data_type() {
        ArrowType::Dictionary(_, values) if family(values) == Family::Text && text == TextAs::Dictionary => {
            let wanted = ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8));
            return cast(array, &wanted).map_err(internal);
        }
        ArrowType::Dictionary(_, values) if family(values) == Family::Text && to == DataType::Text => {
            return cast(array, &target).map_err(internal);
        }
        ArrowType::Dictionary(_, values) => return convert(&cast(array, values).map_err(internal)?, to, text, bad),
        ArrowType::RunEndEncoded(_, values) => {
            return convert(&cast(array, values.data_type()).map_err(internal)?, to, text, bad);
        }
        _ => {}
    }
    match (family(array.data_type()), to) {
        (Family::Null, _) => Ok(new_null_array(&target, array.len())),
        (Family::Text, DataType::Text) | (Family::Bytes, DataType::Binary) => cast(array, &target).map_err(internal),
        (Family::Text | Family::Bytes, _) => parse_each(array, to, bad),
        (_, DataType::Text) => text_of(array),
        (Family::Float, DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            let doubles = cast(array, &ArrowType::Float64).map_err(internal)?;
            let rounded: Float64Array = doubles.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            safe_cast(&rounded, &target, bad)
        }
        (Family::Decimal, DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            let whole = ArrowType::Decimal256(76, 0);
            safe_cast(&cast(array, &whole).map_err(internal)?, &target, bad)
        }
        (Family::Float | Family::Decimal, DataType::Real) => {
            let doubles = cast(array, &ArrowType::Float64).map_err(internal)?;
            Ok(narrow(doubles.as_primitive(), bad))
        }
        (Family::Date | Family::Timestamp, _) => times(array, to, bad),
        _ => safe_cast(array, &target, bad),
    }
}

/// Casts with NULL for what does not fit, and reports what became NULL.
fn safe_cast(array: &dyn Array, target: &ArrowType, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, ..Default::default() };
    let out = cast_with_options(array, target, &options).map_err(internal)?;
    report(array, &out, bad);
    Ok(out)
}

/// Reports what became NULL.
fn report(before: &dyn Array, after: &dyn Array, bad: &mut Vec<(usize, Bad)>) {
    if after.null_count() > before.null_count() {
        let is_lost = |row: &usize| after.is_null(*row) && before.is_valid(*row);
        bad.extend((0..after.len()).filter(is_lost).map(|row| (row, Bad::Range)));
    }
}

fn narrow(doubles: &Float64Array, bad: &mut Vec<(usize, Bad)>) -> ArrayRef {
    let out: PrimitiveArray<Float32Type> = doubles.unary_opt(|value| {
        let narrowed = value as f32;
        (narrowed.is_finite() || !value.is_finite()).then_some(narrowed)
    });
    report(doubles, &out, bad);
    Arc::new(out)
}

fn parse_each(array: &ArrayRef, to: DataType, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let bytes = cast(array, &ArrowType::BinaryView).map_err(internal)?;
    let mut builder = ColumnBuilder::new(to, TextAs::Plain, bytes.len());
    for (row, value) in bytes.as_binary_view().iter().enumerate() {
        match value.map(|value| builder.append(value)) {
            Some(Ok(())) => {}
            Some(Err(why)) => {
                bad.push((row, why));
                builder.append_null();
            }
            None => builder.append_null(),
        }
    }
    Ok(builder.finish())
}

fn text_of(array: &ArrayRef) -> Result<ArrayRef> {
    let column = TextColumn::new(array)?;
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut value = Vec::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        value.clear();
        column.write(row, &mut value)?;
        builder.append_value(String::from_utf8_lossy(&value));
    }
    Ok(Arc::new(builder.finish()))
}

/// Dates and timestamps of any unit, through microseconds since 1970 in UTC.
fn times(array: &ArrayRef, to: DataType, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let numbers = cast(array, &ArrowType::Int64).map_err(internal)?;
    let numbers: &Int64Array = numbers.as_primitive();
    let (multiply, divide) = match array.data_type() {
        ArrowType::Date32 => (DAY_MICROS, 1),
        ArrowType::Date64 | ArrowType::Timestamp(TimeUnit::Millisecond, _) => (1_000, 1),
        ArrowType::Timestamp(TimeUnit::Second, _) => (1_000_000, 1),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => (1, 1_000),
        _ => (1, 1),
    };
    let to_micros = |value: i64| {
        let micros = value.checked_mul(multiply).map(|value| value.div_euclid(divide));
        micros.filter(|micros| MICROS.contains(micros))
    };
    let micros: PrimitiveArray<Int64Type> = numbers.unary_opt(to_micros);
    let out: ArrayRef = match to {
        DataType::Date => {
            let days: PrimitiveArray<Date32Type> =
                micros.unary_opt(|value| i32::try_from(value.div_euclid(DAY_MICROS)).ok());
            Arc::new(days)
        }
        _ => Arc::new(micros.reinterpret_cast::<TimestampMicrosecondType>().with_data_type(to.to_arrow())),
    };
    report(array, &out, bad);
    Ok(out)
}

/// Days or microseconds that are stored as they are, if they lie in the range.
fn within<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    range: &Range<T::Native>,
    bad: &mut Vec<(usize, Bad)>,
) -> ArrayRef {
    // What stands where there is NULL counts as well, and does no harm.
    if values.values().iter().all(|value| range.contains(value)) {
        return Arc::new(values.clone());
    }
    let fitting: PrimitiveArray<T> = values.unary_opt(|value| range.contains(&value).then_some(value));
    report(values, &fitting, bad);
    Arc::new(fitting.with_data_type(values.data_type().clone()))
}

/// Adds the rows that are NULL and not yet bad.
fn find_nulls(array: &ArrayRef, bad: &mut Vec<(usize, Bad)>) {
    let nulls = array.logical_nulls();
    let known: std::collections::HashSet<usize> = bad.iter().map(|(row, _)| *row).collect();
    let null_rows = (0..array.len()).filter(|row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row)));
    bad.extend(null_rows.filter(|row| !known.contains(row)).map(|row| (row, Bad::Null)).collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::testing::{row_texts, table};
    use arrow::array::{
        BinaryArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Int32Array, ListArray, NullArray,
        StringArray, Time32SecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray,
        UInt64Array,
    };
    use arrow::datatypes::Int32Type;
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
            let good = storage_batch_without(&table, arrays, values.len(), bad.into_iter()).unwrap();
            let kept = values.iter().filter(|value| value.is_none_or(fits));
            let want: Vec<String> = kept.map(|value| value.map_or("NULL".to_owned(), |value| (value.round_ties_even() as i16).to_string())).collect();
            prop_assert_eq!(row_texts(&good).concat(), want);
        }
    }
}
