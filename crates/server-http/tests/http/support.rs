//! A server on a database of its own.

use crate::client::{Answered, Asking};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_server_http::{Server, ServerOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server that stops when it is dropped.
pub struct Served {
    pub address: SocketAddr,
    pub db: Arc<Database>,
    pub dir: TempDir,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// A database in a folder.
pub fn database(path: PathBuf) -> Arc<Database> {
    let options = DatabaseOptions { memory_limit_bytes: 1 << 30, threads: 2, ..DatabaseOptions::default() };
    Arc::new(Database::open_with(path, options).unwrap())
}

/// A server with these options.
pub async fn serve_with(options: ServerOptions) -> Served {
    serve_on(|_| options).await
}

/// A server with options that its database has a part in.
pub async fn serve_on(options: impl FnOnce(&Database) -> ServerOptions) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path().join("db"));
    let options = options(&db);
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), options, Arc::clone(db.engine())).await.unwrap();
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async move { drop(stopped.await) }));
    Served { address, db, dir, stop: Some(stop), task }
}

/// A server that trusts.
pub async fn serve() -> Served {
    serve_with(ServerOptions::default()).await
}

impl Served {
    /// A request of it.
    pub fn ask(&self, method: &str, path: &str) -> Asking {
        Asking::new(self.address, method, path)
    }

    /// A statement as text; its answer.
    pub async fn query(&self, sql: &str) -> Answered {
        self.ask("POST", "/query").body(sql).send().await
    }

    /// The rows of a query that works.
    pub async fn rows(&self, sql: &str) -> serde_json::Value {
        let answered = self.query(sql).await;
        assert_eq!(answered.status, 200, "{sql}: {}", answered.text());
        answered.json()["rows"].clone()
    }

    /// Stops it, and waits until it has.
    pub async fn stop(mut self) -> (Arc<Database>, TempDir) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
        (self.db, self.dir)
    }
}
