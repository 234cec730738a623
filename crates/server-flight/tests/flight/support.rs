//! A server on a database of its own, and what tests ask of it.

use alluvia_node::{Database, DatabaseOptions};
use alluvia_server_flight::{Server, ServerOptions};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use bytes::{Buf, BufMut};
use futures::TryStreamExt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// The client under test conditions.
pub type Client = FlightSqlServiceClient<Channel>;

/// A server that stops when it is dropped.
pub struct Served {
    pub address: SocketAddr,
    pub db: Arc<Database>,
    pub dir: TempDir,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// A server with these options.
pub async fn serve_with(options: ServerOptions) -> Served {
    serve_on(|_| options).await
}

/// A server with the options that go with its database.
pub async fn serve_on(options: impl FnOnce(&Database) -> ServerOptions) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let database = DatabaseOptions { memory_limit_bytes: 1 << 30, threads: 2, ..DatabaseOptions::default() };
    let db = Arc::new(Database::open_with(dir.path().join("db"), database).unwrap());
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), options(&db), Arc::clone(db.engine())).await.unwrap();
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
    /// A connection of its own.
    pub async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    /// A client on a connection of its own.
    pub async fn client(&self) -> Client {
        Client::new(self.channel().await)
    }

    /// Runs statements in a session of the database itself.
    pub async fn sql(&self, script: &str) {
        let session = self.db.session();
        for statement in session.parse(script).unwrap() {
            session.execute(statement).await.unwrap().collect().await.unwrap();
        }
    }

    /// What a query of one number gives.
    pub async fn number(&self, sql: &str) -> i64 {
        let batches = self.db.session().sql(sql).await.unwrap().collect().await.unwrap();
        batches[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    /// How many rows a table has.
    pub async fn count(&self, table: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {table}")).await
    }

    /// Waits until a query of one number gives it.
    pub async fn becomes(&self, sql: &str, wanted: i64) {
        for _ in 0..600 {
            if self.number(sql).await == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{sql} does not become {wanted}");
    }

    /// Stops it, and waits until it has.
    pub async fn stop(mut self) -> (Arc<Database>, TempDir) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
        (self.db, self.dir)
    }
}

/// All rows of a FlightInfo.
pub async fn fetch(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    let mut all = Vec::new();
    for endpoint in info.endpoint {
        let rows: Vec<RecordBatch> = client.do_get(endpoint.ticket.unwrap()).await?.try_collect().await?;
        all.extend(rows);
    }
    Ok(all)
}

/// The rows of a query that works, as text.
pub async fn text(client: &mut Client, sql: &str) -> String {
    let info = client.execute(sql.to_owned(), None).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    table(&fetch(client, info).await.unwrap())
}

/// Rows as text.
pub fn table(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

/// What the server says of a failure.
pub fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("no status: {other:?}"),
    }
}

/// Code and SQLSTATE of a failure.
pub fn state(error: FlightError) -> (Code, String) {
    let status = status(error);
    let sqlstate = status.metadata().get("alluvia-sqlstate").map(|value| value.to_str().unwrap().to_owned());
    (status.code(), sqlstate.unwrap_or_default())
}

/// Messages as bytes, whatever they say: what no client under test would send.
#[derive(Clone, Copy, Default)]
pub struct Bare;

impl Codec for Bare {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Bare;
    type Decoder = Bare;

    fn encoder(&mut self) -> Bare {
        Bare
    }

    fn decoder(&mut self) -> Bare {
        Bare
    }
}

impl Encoder for Bare {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bare {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut all = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut all);
        Ok(Some(all))
    }
}
