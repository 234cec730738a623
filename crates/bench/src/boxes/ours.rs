//! Alluvia, asked in four ways: cold as SQL text, and with the query's shape resident as SQL text that was never seen before, as SQL
//! text that is repeated, and as a prepared statement.

use crate::Anything;
use crate::boxes::answer::Answer;
use crate::boxes::questions::{Question, TABLE};
use crate::retail::create;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{Prepared, Session};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;

/// Clients at once when throughput is measured.
pub const CLIENTS: usize = 2;

/// How a question is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// SQL text; cuboids are off.
    Cold,
    /// SQL text that is parsed each time; its shape is resident.
    ResidentNew,
    /// SQL text that is repeated; its shape is resident.
    ResidentSql,
    /// Prepared once; its shape is resident.
    ResidentApi,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Cold, Way::ResidentNew, Way::ResidentSql, Way::ResidentApi];

    pub fn name(self) -> &'static str {
        match self {
            Way::Cold => "alluvia cold",
            Way::ResidentNew => "alluvia resident new SQL",
            Way::ResidentSql => "alluvia resident SQL",
            Way::ResidentApi => "alluvia resident API",
        }
    }
}

/// Runs a prepared question.
async fn answer_prepared(session: &Session, prepared: &Prepared) -> Anything<Vec<RecordBatch>> {
    Ok(session.execute_prepared(prepared, &[]).await?.collect().await?)
}

/// The text of a question that nobody remembers: what is around a statement is no part of it.
fn unseen(sql: &str) -> String {
    format!("{sql} -- new")
}

/// Runs a question's text.
async fn answer_text(session: &Session, sql: &str) -> Anything<Vec<RecordBatch>> {
    Ok(session.sql(sql).await?.collect().await?)
}

/// From here on the session's statements leave cuboids alone.
async fn cuboids_off(session: &Session) -> Anything<()> {
    Ok(session.sql("SET cuboids = off").await.map(drop)?)
}

/// Returns when the cuboids that were asked for are built.
async fn build_cuboids(session: &Session) -> Anything<()> {
    Ok(session.sql("CALL alluvia.build_cuboids()").await.map(drop)?)
}

/// Whether a statement's answer comes from a cuboid, by what EXPLAIN ANALYZE prints.
async fn is_resident(session: &Session, sql: &str) -> Anything<bool> {
    let mut text = String::new();
    for batch in answer_text(session, &format!("EXPLAIN ANALYZE {sql}")).await? {
        for column in batch.columns() {
            for row in 0..batch.num_rows() {
                text.push_str(&array_value_to_string(column, row)?);
            }
        }
    }
    Ok(text.contains("cuboid: resident"))
}

/// The loaded database and its two sessions.
pub struct Ours {
    db: Arc<Database>,
    cold: Session,
    resident: Session,
    /// Seconds until everything was merged; zero if the table was there.
    pub load_s: f64,
}

impl Ours {
    /// Loads the file of so many rows and merges them, or opens a folder that an earlier run left so.
    pub async fn load(dir: &Path, file: &str, rows: u64, options: DatabaseOptions) -> Anything<Ours> {
        let is_there = dir.exists();
        let db = Arc::new(Database::open_with(dir, options)?);
        let (cold, resident) = (db.session(), db.session());
        let mut load_s = 0.0;
        if is_there {
            let counted = answer_text(&resident, &format!("SELECT count(*) FROM {TABLE}")).await?;
            let counted = counted[0].column(0).as_primitive::<Int64Type>().value(0);
            if counted as u64 != rows {
                let dir = dir.display();
                return Err(format!("{dir} has {counted} rows, not {rows}: remove it, or give its --rows").into());
            }
            // The run that loaded it may have ended before its merges.
            resident.sql("CALL alluvia.merge()").await?;
            // What earlier runs had resident is built anew, which would disturb what is measured.
            build_cuboids(&resident).await?;
        } else {
            let start = Instant::now();
            resident.sql(&create(TABLE)).await?;
            resident.sql(&format!("COPY {TABLE} FROM '{file}'")).await?;
            resident.sql("CALL alluvia.merge()").await?;
            load_s = start.elapsed().as_secs_f64();
            eprintln!("Alluvia: loaded and merged in {load_s:.1} s");
        }
        cuboids_off(&cold).await?;
        Ok(Ours { db, cold, resident, load_s })
    }

    /// The database.
    pub fn db(&self) -> &Arc<Database> {
        &self.db
    }

    /// Parses a question on the session that will run it.
    pub fn prepare(&self, question: &Question) -> Anything<Prepared> {
        Ok(self.resident.prepare(&question.sql)?)
    }

    /// Asks once, lets the demand be built and asks again. Whether the shape is resident then: not every shape is worth it.
    pub async fn make_resident(&self, question: &Question) -> Anything<bool> {
        answer_text(&self.resident, &question.sql).await?;
        build_cuboids(&self.resident).await?;
        answer_text(&self.resident, &question.sql).await?;
        is_resident(&self.resident, &question.sql).await
    }

    /// One query: its milliseconds and its answer.
    pub async fn ask(&self, way: Way, question: &Question, prepared: &Prepared) -> Anything<(f64, Answer)> {
        let start = Instant::now();
        let batches = match way {
            Way::Cold => answer_text(&self.cold, &question.sql).await?,
            Way::ResidentNew => answer_text(&self.resident, &unseen(&question.sql)).await?,
            Way::ResidentSql => answer_text(&self.resident, &question.sql).await?,
            Way::ResidentApi => answer_prepared(&self.resident, prepared).await?,
        };
        let took_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok((took_ms, Answer::of_batches(&batches, question.grouped)?))
    }

    /// Queries a second of [`CLIENTS`] clients, each over whole passes of the list, for at least so long.
    pub async fn throughput(&self, way: Way, texts: &[String], seconds: f64) -> Anything<f64> {
        let texts: Arc<[String]> = match way {
            Way::ResidentNew => texts.iter().map(|sql| unseen(sql)).collect(),
            _ => texts.into(),
        };
        let gate = Arc::new(Barrier::new(CLIENTS + 1));
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let client = Client {
                session: self.db.session(),
                way,
                texts: Arc::clone(&texts),
                // Clients ask different questions at a time.
                first: number * texts.len() / CLIENTS,
                time: Duration::from_secs_f64(seconds),
            };
            clients.push(tokio::spawn(client.run(Arc::clone(&gate))));
        }
        gate.wait().await;
        let start = Instant::now();
        let mut queries = 0;
        for client in clients {
            queries += client.await??;
        }
        Ok(queries as f64 / start.elapsed().as_secs_f64())
    }
}

/// One of several that ask at once.
struct Client {
    session: Session,
    way: Way,
    texts: Arc<[String]>,
    first: usize,
    time: Duration,
}

impl Client {
    /// How many queries it ran.
    async fn run(self, gate: Arc<Barrier>) -> Anything<u64> {
        // Whoever fails before the gate would leave the others waiting at it.
        let ready = self.ready().await;
        gate.wait().await;
        let prepared = ready?;
        let start = Instant::now();
        let mut queries = 0;
        while queries == 0 || start.elapsed() < self.time {
            for step in 0..self.texts.len() {
                let at = (self.first + step) % self.texts.len();
                match self.way {
                    Way::ResidentApi => answer_prepared(&self.session, &prepared[at]).await?,
                    _ => answer_text(&self.session, &self.texts[at]).await?,
                };
            }
            queries += self.texts.len() as u64;
        }
        Ok(queries)
    }

    async fn ready(&self) -> Anything<Vec<Prepared>> {
        if self.way == Way::Cold {
            cuboids_off(&self.session).await?;
        }
        Ok(self.texts.iter().map(|sql| self.session.prepare(sql)).collect::<Result<_, _>>()?)
    }
}
