//! A database on the real machine, and statements of one session that are run for their tags.
#![allow(clippy::disallowed_methods)] // tests that use it run on the real machine

use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::Result;
use std::path::Path;

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(future)
}

pub fn open(dir: &Path) -> Database {
    let options = DatabaseOptions { memory_limit_bytes: 256 << 20, threads: 2, ..DatabaseOptions::default() };
    Database::open_with(dir, options).unwrap()
}

/// Runs a statement, and gives its tag.
pub async fn run(session: &Session, sql: &str) -> Result<String> {
    let outcome = session.sql(sql).await?;
    let tag = outcome.tag.clone();
    outcome.collect().await.map(|_| tag)
}

/// The tag of a statement that must go well.
pub async fn tag(session: &Session, sql: &str) -> String {
    run(session, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"))
}
