//! The stream of the demo: its rows are made and inserted.

use super::pace::Pace;
use super::retail;
use crate::say;
use crate::shell::drawn;
use alluvia_copy::{InferredColumn, infer};
use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_syntax::copy::options::CopyOptions;
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rows of a user's file that are kept to be sent over and over.
const FILE_ROWS_MAX: usize = 1_000_000;

/// Rows of one durable batch.
const BATCH_ROWS: usize = 10_000;

/// A table, a question about it, and rows for it without end.
#[derive(Clone)]
pub struct Feed {
    pub table: &'static str,
    pub create: String,
    pub question: String,
    /// Levels of a cuboid, and a question that it answers.
    pub cuboid: Option<(String, String)>,
    /// A question that samples can answer.
    pub estimated: Option<String>,
    /// The first rows of the user's file, sent over and over; `None` for the retail stream.
    rows: Option<Arc<RecordBatch>>,
}

impl Feed {
    /// The built-in retail stream.
    pub async fn retail(db: &Database) -> Result<Feed> {
        db.session().sql(retail::CREATE).await?;
        Ok(Feed {
            table: "sales",
            create: retail::CREATE.to_owned(),
            question: retail::QUESTION.to_owned(),
            cuboid: Some((retail::CUBOID.0.to_owned(), retail::CUBOID.1.to_owned())),
            estimated: Some(retail::ESTIMATED.to_owned()),
            rows: None,
        })
    }

    /// A user's file: read once as a table of its own, then streamed into another.
    pub async fn file(db: &Database, file: &Path) -> Result<Feed> {
        let path = file.to_str().ok_or_else(|| Error::new(ErrorKind::InvalidValue, "the file's name is not UTF-8"))?;
        let source = Source::Files(path.to_owned());
        let asked = source.clone();
        let inferred = tokio::task::spawn_blocking(move || infer(&asked, &CopyOptions::default()))
            .await
            .map_err(|error| Error::internal(format!("inferring: {error}")))??;
        let session = db.session();
        let Shape { with, question, cuboid } = shape(&inferred.columns);
        let create = |table: &str| format!("{}{with}", inferred.create_table(&table.into()));
        session.sql(&create("file")).await?;
        let tag = session.sql(&inferred.copy_from(&"file".into(), &source)).await?.tag;
        say(&format!("{path}: {tag} (one atomic batch)\n"))?;
        let batches = session.sql(&format!("SELECT * FROM file LIMIT {FILE_ROWS_MAX}")).await?.collect().await?;
        let Some(first) = batches.first() else {
            return Err(Error::new(ErrorKind::InvalidValue, format!("{path} has no rows to stream")));
        };
        let rows = concat_batches(&first.schema(), &batches)
            .map_err(|error| Error::internal(format!("joining the file's rows: {error}")))?;
        session.sql("DROP TABLE file").await?;
        session.sql(&create("stream")).await?;
        Ok(Feed {
            table: "stream",
            create: create("stream"),
            question,
            cuboid,
            estimated: None,
            rows: Some(Arc::new(rows)),
        })
    }

    /// Appends batch after batch, at the stream's pace, until told to stop.
    pub async fn write(
        self,
        session: Session,
        pace: Arc<Pace>,
        stop: Arc<AtomicBool>,
        ingested: Arc<AtomicU64>,
    ) -> Result<()> {
        let mut retail = retail::Retail::new(7);
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) {
            let batch = match &self.rows {
                None => retail.batch(BATCH_ROWS)?,
                Some(rows) => {
                    let batch = rows.slice(at, BATCH_ROWS.min(rows.num_rows() - at));
                    at = (at + batch.num_rows()) % rows.num_rows();
                    batch
                }
            };
            let rows = batch.num_rows() as u64;
            session.append(self.table, vec![batch]).await?;
            ingested.fetch_add(rows, Ordering::Relaxed);
            pace.keep(rows).await;
        }
        Ok(())
    }
}

/// What fits a file.
struct Shape {
    with: String,
    question: String,
    cuboid: Option<(String, String)>,
}

/// Dimensions and questions that fit a file: its first text columns, its first date or timestamp, its last number.
fn shape(columns: &[InferredColumn]) -> Shape {
    let of = |kinds: &[&str]| {
        let kinds: Vec<String> = kinds.iter().map(|&kind| kind.to_owned()).collect();
        columns
            .iter()
            .filter(move |column| kinds.contains(&column.data_type.sql_name()))
            .map(|column| quoted(&column.name))
    };
    let texts: Vec<String> = of(&["TEXT"]).take(3).collect();
    let time = of(&["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]).next();
    let number = of(&["DOUBLE", "BIGINT", "INT", "REAL", "SMALLINT"]).next_back();
    let mut dimensions = texts.clone();
    // A column may be called so, and be a dimension of that name.
    let mut calendar = "time".to_owned();
    while texts.contains(&calendar) {
        calendar.push('_');
    }
    dimensions.extend(time.map(|time| format!("{calendar}({time}: year, month, day)")));
    let mut options = Vec::new();
    if !dimensions.is_empty() {
        options.push(format!("dimensions = '{}'", dimensions.join("; ").replace('\'', "''")));
    }
    options.extend(number.as_ref().map(|number| format!("measures = '{}'", number.replace('\'', "''"))));
    let with = if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) };
    let sum = number.map_or_else(String::new, |number| format!(", sum({number}) AS total"));
    let cuboid = texts
        .first()
        .map(|text| (text.clone(), format!("SELECT {text}, count(*) AS rows{sum} FROM stream GROUP BY {text}")));
    let question = match texts.first() {
        Some(text) => format!(
            "SELECT {text}, count(*) AS rows{sum} FROM stream GROUP BY {text} ORDER BY rows DESC, {text} LIMIT 5"
        ),
        None => format!("SELECT count(*) AS rows{sum} FROM stream"),
    };
    Shape { with, question, cuboid }
}

fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The one value that a query returns, as text.
pub async fn single(session: &Session, query: &str) -> Result<String> {
    let batches = session.sql(query).await?.collect().await?;
    let batch = batches.iter().find(|batch| batch.num_rows() > 0);
    let batch = batch.ok_or_else(|| Error::internal(format!("{query} returned no row")))?;
    let options = FormatOptions::default();
    let shown = ArrayFormatter::try_new(batch.column(0), &options).and_then(|value| value.value(0).try_to_string());
    shown.map_err(|error| Error::internal(error.to_string()))
}

/// A query's answer as a table.
pub async fn answer(session: &Session, query: &str) -> Result<String> {
    let batches = session.sql(query).await?.collect().await?;
    drawn(&batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_has_a_name_that_no_other_dimension_has() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("rows.csv");
        for (rows, dimensions) in [
            ("date,city,v\n2026-11-21,Talca,1\n", "city; time(date: year, month, day)"),
            ("date,time,city,v\n2026-11-21,noon,Talca,1\n", "time; city; time_(date: year, month, day)"),
            ("date,time_,time,v\n2026-11-21,noon,late,1\n", "time_; time; time__(date: year, month, day)"),
        ] {
            std::fs::write(&file, rows).unwrap();
            let source = Source::Files(file.display().to_string());
            let inferred = infer(&source, &CopyOptions::default()).unwrap();
            let with = format!(" WITH (dimensions = '{dimensions}', measures = 'v')");
            assert_eq!(shape(&inferred.columns).with, with);
        }
    }
}
