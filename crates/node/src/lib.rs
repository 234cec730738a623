//! The composition root: one database in one process.
//!
//! [`Database::open`] takes a directory; [`Database::session`] gives what command line, servers and programs use.
//!
//! Invariants:
//! - This room alone owns threads: the sorter, the merger, the flusher, and the pipeline's workers.
//! - [`Core`] is the whole engine without threads and without SQL, so that a simulation can drive it step by step on a
//!   disk that fails and a clock that stands still.
//! - One process at a time has the directory: a lock file says so.
//!
//! # Rows from programs
//!
//! Rows come as Arrow record batches. Columns are matched by name, and values cast as INSERT casts them. What one call
//! takes is one atomic batch: durable, and visible to everybody, when the call returns.
//!
//! ```
//! use alluvia_types::ProducerMark;
//! use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
//! use futures::stream;
//! use std::sync::Arc;
//! # async fn count(session: &alluvia_query::Session, table: &str) -> alluvia_types::Result<i64> {
//! #     use arrow::{array::AsArray, datatypes::Int64Type};
//! #     let answer = session.sql(&format!("SELECT count(*) FROM {table}")).await?.collect().await?;
//! #     Ok(answer[0].column(0).as_primitive::<Int64Type>().value(0))
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! let db = alluvia_node::Database::open(dir.path().join("db"))?;
//! let session = db.session();
//! # runtime.block_on(async {
//! session.sql("CREATE TABLE orders (id BIGINT, country TEXT)").await?;
//! session.sql("CREATE TABLE positions (order_id BIGINT, price DOUBLE)").await?;
//! let orders = RecordBatch::try_from_iter([
//!     ("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
//!     ("country", Arc::new(StringArray::from(vec!["Chile", "France"])) as ArrayRef),
//! ])?;
//! let positions = RecordBatch::try_from_iter([
//!     ("order_id", Arc::new(Int64Array::from(vec![1, 1, 2])) as ArrayRef),
//!     ("price", Arc::new(Float64Array::from(vec![2.5, 4.0, 1.5])) as ArrayRef),
//! ])?;
//!
//! // Into several tables at once: nobody ever sees an order without its positions.
//! let send = || {
//!     let mark = ProducerMark { name: "shop".to_owned(), epoch: 1, sequence: 1 };
//!     let batch = session.batch().producer(mark);
//!     batch.append("orders", vec![orders.clone()]).append("positions", vec![positions.clone()]).commit()
//! };
//! let committed = send().await?;
//! // It is numbered, so whoever does not know whether it arrived sends it again: it is not applied twice.
//! let again = send().await?;
//! assert!(again.duplicate && again.version == committed.version);
//! assert_eq!((count(&session, "orders").await?, count(&session, "positions").await?), (2, 3));
//!
//! // All of it, or nothing: `orders` has no column `price`.
//! let refused = session.batch().append("positions", vec![positions.clone()]).append("orders", vec![positions.clone()]);
//! assert!(refused.commit().await.is_err());
//! assert_eq!(count(&session, "positions").await?, 3);
//!
//! // Into one table; and as a stream of however many batches, in bounded memory, that is one batch in the end, too.
//! session.append("orders", vec![orders]).await?;
//! let parts = stream::iter((0..positions.num_rows()).map(|at| Ok(positions.slice(at, 1))));
//! let appended = session.append_stream("positions", parts).await?;
//! assert_eq!(appended.rows, 3);
//! assert_eq!((count(&session, "orders").await?, count(&session, "positions").await?), (4, 6));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok(()) }
//! ```
//!
//! # Statements that take long
//!
//! An answer may be watched while it gets better, and any statement may be stopped, from any thread.
//!
//! ```
//! use alluvia_types::ErrorKind;
//! use futures::StreamExt;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! let db = alluvia_node::Database::open(dir.path().join("db"))?;
//! let session = db.session();
//! # runtime.block_on(async {
//! session.sql("CREATE TABLE sales (country TEXT, price DOUBLE) WITH (dimensions = 'country', measures = 'price')").await?;
//! let many = "SELECT 'country ' || value % 7, value % 100 FROM generate_series(1, 100000)";
//! session.sql(&format!("INSERT INTO sales {many}")).await?;
//! session.sql("CALL alluvia.merge()").await?;
//!
//! let mut refinements = session.refine("SELECT country, sum(price) FROM sales WHERE price > 10 GROUP BY country").await?;
//! let mut last = None;
//! while let Some(refinement) = refinements.next().await {
//!     let refinement = refinement?;
//!     println!("{:.0} % read, at most {:.1} % off", 100.0 * refinement.fraction, 100.0 * refinement.error);
//!     // One may stop here, for whatever reason: the bounds of all refinements hold together.
//!     last = Some(refinement);
//! }
//! let answer = last.expect("the answer is the last refinement");
//! assert!(answer.is_last && answer.is_exact() && answer.rows.num_rows() == 7);
//!
//! let endless = session.sql("SELECT value FROM generate_series(1, 1000000000000)").await?;
//! let handle = session.cancel_handle();
//! std::thread::spawn(move || handle.cancel());
//! assert_eq!(endless.collect().await.unwrap_err().kind(), ErrorKind::Cancelled);
//! // The session goes on.
//! session.sql("SELECT 1").await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok(()) }
//! ```

mod audit;
mod check;
pub mod cluster;
mod core;
mod database;
mod directory;
mod holder;
mod memos;
mod options;
mod pool;
mod read_only;
mod repair;
mod threads;
mod urls;

pub use alluvia_log::TornEnd;
pub use alluvia_space::PurgeAfter;
pub use alluvia_storage::raise_open_files_max;
pub use check::{CheckReport, check, check_on};
pub use core::{Core, Recovery};
pub use database::Database;
pub use options::{DatabaseOptions, MEMORY_LIMIT_MIN_BYTES, ServedOptions, parse_bytes};
pub use repair::{RepairReport, repair, repair_on};
