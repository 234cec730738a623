//! A server on a database of its own, and clients.

use alluvia_node::{Database, DatabaseOptions};
use alluvia_server_pg::{Server, ServerOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// A server that stops when it is dropped.
pub struct Served {
    pub address: SocketAddr,
    pub db: Arc<Database>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    _dir: TempDir,
}

/// A server with these options.
pub async fn serve_with(options: ServerOptions) -> Served {
    serve_on(|_| options).await
}

/// A server with options that its database has a part in.
pub async fn serve_on(options: impl FnOnce(&Database) -> ServerOptions) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let database = DatabaseOptions { memory_limit_bytes: 1 << 30, threads: 2, ..DatabaseOptions::default() };
    let db = Arc::new(Database::open_with(dir.path().join("db"), database).unwrap());
    let sessions = Arc::clone(&db);
    let options = options(&db);
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), options, move || sessions.session()).await.unwrap();
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async move { drop(stopped.await) }));
    Served { address, db, stop: Some(stop), task, _dir: dir }
}

/// A server that trusts.
pub async fn serve() -> Served {
    serve_with(ServerOptions::default()).await
}

impl Served {
    /// How to connect.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.address.port()).user("alluvia").dbname("alluvia");
        config
    }

    /// A client.
    pub async fn client(&self) -> Client {
        self.client_with(&self.config()).await.unwrap()
    }

    /// A client that connects in its own way.
    pub async fn client_with(&self, config: &Config) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Stops it, and waits until it has.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
    }
}

/// The SQLSTATE of an error.
pub fn state(error: &tokio_postgres::Error) -> String {
    error.code().map(|code| code.code().to_owned()).unwrap_or_else(|| error.to_string())
}

/// The rows of a simple query, as text.
pub async fn rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{error:?}\n{sql}"));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect::<Vec<String>>())
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

/// The first column of all rows, as text.
pub async fn texts(client: &Client, sql: &str) -> Vec<String> {
    rows(client, sql).await.into_iter().filter_map(|row| row.into_iter().next()).collect()
}
