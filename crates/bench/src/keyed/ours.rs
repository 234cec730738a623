//! What benches of tables with keys do with a database of ours, in this process.

use crate::Anything;
use alluvia_node::{DatabaseOptions, parse_bytes};
use alluvia_query::Session;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use std::path::Path;
use std::time::Instant;

/// The usual options, with a limit of memory if one is given.
pub fn options(memory_limit: Option<&String>) -> Anything<DatabaseOptions> {
    let mut options = DatabaseOptions::default();
    if let Some(limit) = memory_limit {
        options.memory_limit_bytes = parse_bytes(limit)?;
    }
    Ok(options)
}

/// Makes the table `t`, and loads and merges the rows of a file.
pub async fn load(session: &Session, definition: &str, base: &Path) -> Anything<()> {
    session.sql(definition).await?;
    let start = Instant::now();
    session.sql(&format!("COPY t FROM '{}'", base.display())).await?;
    session.sql("CALL alluvia.merge()").await?;
    eprintln!("alluvia: loaded in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The rows of an answer.
pub async fn rows(session: &Session, sql: &str) -> Anything<Vec<RecordBatch>> {
    Ok(session.sql(sql).await?.collect().await?)
}

/// The numbers of the only row of an answer, which are BIGINTs.
pub async fn numbers(session: &Session, sql: &str) -> Anything<Vec<i64>> {
    let found = rows(session, sql).await?;
    let row = found.iter().find(|batch| batch.num_rows() == 1).ok_or_else(|| format!("no row is the answer: {sql}"))?;
    Ok(row.columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect())
}

/// How many rows the table has, and the sum of their quantities.
pub async fn state(session: &Session) -> Anything<(u64, i64)> {
    let found = numbers(session, "SELECT count(*), CAST(sum(quantity) AS BIGINT) FROM t").await?;
    Ok((found[0] as u64, found[1]))
}

/// Refuses what an engine has that it should not have.
pub fn check<T: PartialEq + std::fmt::Debug>(name: &str, what: &str, found: &T, wanted: &T) -> Anything<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{name}: {what} are {found:?} and should be {wanted:?}").into()),
    }
}
