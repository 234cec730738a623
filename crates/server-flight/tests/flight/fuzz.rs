//! Calls that no client would make, with messages that are damaged, and bytes that are no HTTP/2: the server answers or ends the
//! connection, and goes on. Messages begin as those that clients send, and what was answered (tickets, handles, descriptors) is sent
//! again in places where it may not belong.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::random::Random;
use crate::support::{Bare, Served, serve_with, text};
use alluvia_server_flight::ServerOptions;
use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{
    ActionBeginTransactionRequest, ActionCancelQueryRequest, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionEndTransactionRequest, Any, CommandGetCatalogs, CommandGetDbSchemas,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate,
    ProstMessageExt, TableDefinitionOptions, TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, Criteria, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    Ticket,
};
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use prost::Message;
use std::collections::BTreeMap;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

const METHODS: [&str; 13] = [
    "GetFlightInfo",
    "GetFlightInfo",
    "DoGet",
    "DoGet",
    "DoPut",
    "DoPut",
    "DoAction",
    "DoAction",
    "GetSchema",
    "PollFlightInfo",
    "Handshake",
    "ListFlights",
    "DoExchange",
];

const TEXTS: [&str; 15] = [
    "SELECT 1 AS a",
    "SELECT * FROM t",
    "SELECT $1",
    "SELECT a FROM t WHERE a = $1 AND b LIKE $2",
    "SELECT value FROM generate_series(1, 1000)",
    "INSERT INTO t VALUES (1, 'x')",
    "INSERT INTO t VALUES ($1, $2)",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SET freshness = '1s'",
    "COPY t FROM STDIN",
    "SELECT 1; SELECT 2",
    "SELEC",
    "",
];

const ACTIONS: [&str; 12] = [
    "CreatePreparedStatement",
    "CreatePreparedStatement",
    "ClosePreparedStatement",
    "BeginTransaction",
    "EndTransaction",
    "CancelQuery",
    "CancelFlightInfo",
    "CloseSession",
    "SetSessionOptions",
    "GetSessionOptions",
    "alluvia.producer",
    "Nothing",
];

/// What a connection was answered, to be sent again.
#[derive(Default)]
struct Known {
    /// Tickets and descriptors of answers.
    commands: Vec<Bytes>,
    /// Names of statements and transactions.
    names: Vec<Bytes>,
    infos: Vec<FlightInfo>,
}

impl Known {
    fn name(&self, random: &mut Random) -> Bytes {
        match self.names.is_empty() || random.below(4) == 0 {
            true => random.pick(&[Bytes::new(), Bytes::from_static(b"made up"), Bytes::from_static(b"\xff\0")]).clone(),
            false => random.pick(&self.names).clone(),
        }
    }

    fn command(&self, random: &mut Random) -> Bytes {
        if !self.commands.is_empty() && random.below(3) == 0 {
            return random.pick(&self.commands).clone();
        }
        let sql = (*random.pick(&TEXTS)).to_owned();
        let transaction_id = (random.below(4) == 0).then(|| self.name(random));
        let handle = self.name(random);
        let pattern = (random.below(2) == 0).then(|| (*random.pick(&["%", "t", "_", "\\", "%%%%%", ""])).to_owned());
        let any = match random.below(12) {
            0..=2 => CommandStatementQuery { query: sql, transaction_id }.as_any(),
            3 => CommandStatementUpdate { query: sql, transaction_id }.as_any(),
            4 => CommandPreparedStatementQuery { prepared_statement_handle: handle }.as_any(),
            5 => CommandPreparedStatementUpdate { prepared_statement_handle: handle }.as_any(),
            6 => TicketStatementQuery { statement_handle: handle }.as_any(),
            7 => CommandGetTables {
                table_name_filter_pattern: pattern,
                include_schema: random.below(2) == 0,
                ..CommandGetTables::default()
            }
            .as_any(),
            8 => CommandGetDbSchemas { db_schema_filter_pattern: pattern, ..CommandGetDbSchemas::default() }.as_any(),
            9 => CommandGetSqlInfo { info: vec![random.number() as u32 % 600, 0] }.as_any(),
            10 => CommandGetXdbcTypeInfo { data_type: Some(random.number() as i32) }.as_any(),
            _ => match random.below(2) {
                0 => CommandGetCatalogs {}.as_any(),
                _ => CommandGetPrimaryKeys { table: "t".to_owned(), ..CommandGetPrimaryKeys::default() }.as_any(),
            },
        };
        let mut bytes = any.encode_to_vec();
        if random.below(8) == 0 {
            random.damage(&mut bytes);
        }
        bytes.into()
    }

    fn action(&self, random: &mut Random) -> Action {
        let kind = *random.pick(&ACTIONS);
        let (query, name) = ((*random.pick(&TEXTS)).to_owned(), self.name(random));
        let info = if self.infos.is_empty() { FlightInfo::default() } else { random.pick(&self.infos).clone() };
        let mut body = match kind {
            "CreatePreparedStatement" => {
                ActionCreatePreparedStatementRequest { query, transaction_id: None }.as_any().encode_to_vec()
            }
            "ClosePreparedStatement" => {
                ActionClosePreparedStatementRequest { prepared_statement_handle: name }.as_any().encode_to_vec()
            }
            "BeginTransaction" => ActionBeginTransactionRequest {}.as_any().encode_to_vec(),
            "EndTransaction" => {
                let action = random.below(3) as i32;
                ActionEndTransactionRequest { transaction_id: name, action }.as_any().encode_to_vec()
            }
            "CancelQuery" => ActionCancelQueryRequest { info: info.encode_to_vec().into() }.as_any().encode_to_vec(),
            "SetSessionOptions" => b"\x0a\x11\x0a\x09freshness\x12\x04\x0a\x025s".to_vec(),
            _ => CancelFlightInfoRequest { info: Some(info) }.encode_to_vec(),
        };
        if random.below(6) == 0 {
            random.damage(&mut body);
        }
        Action { r#type: kind.to_owned(), body: body.into() }
    }

    /// The messages of a call, as they are sent.
    fn messages(&self, random: &mut Random, method: &str, rows: &[FlightData]) -> Vec<Vec<u8>> {
        let mut messages = match method {
            "GetFlightInfo" | "PollFlightInfo" | "GetSchema" => {
                vec![FlightDescriptor::new_cmd(self.command(random)).encode_to_vec()]
            }
            "DoGet" => vec![Ticket { ticket: self.command(random) }.encode_to_vec()],
            "DoAction" => vec![self.action(random).encode_to_vec()],
            "Handshake" => vec![HandshakeRequest { protocol_version: 1, payload: self.name(random) }.encode_to_vec()],
            "ListFlights" => vec![Criteria { expression: self.name(random) }.encode_to_vec()],
            _ => self.put(random, rows).iter().map(Message::encode_to_vec).collect(),
        };
        if random.below(8) == 0 {
            let at = random.below(messages.len());
            random.damage(&mut messages[at]);
        }
        if random.below(16) == 0 {
            messages.truncate(random.below(2));
        }
        messages
    }

    /// Rows with a command, damaged in their parts: their lengths are in the header, and what they are of in the body.
    fn put(&self, random: &mut Random, rows: &[FlightData]) -> Vec<FlightData> {
        let mut all = rows.to_vec();
        let mut command = self.command(random);
        if random.below(2) == 0 {
            let options = TableDefinitionOptions { if_not_exist: 1, if_exists: 2 };
            let table = (*random.pick(&["t", "u", "", "alluvia.tables"])).to_owned();
            let ingest = CommandStatementIngest {
                table_definition_options: Some(options),
                table,
                ..CommandStatementIngest::default()
            };
            command = ingest.as_any().encode_to_vec().into();
        }
        all[0].flight_descriptor = Some(FlightDescriptor::new_cmd(command));
        for _ in 0..random.below(3) {
            let at = random.below(all.len());
            let message = &mut all[at];
            let part = if random.below(2) == 0 { &mut message.data_header } else { &mut message.data_body };
            let mut bytes = part.to_vec();
            random.damage(&mut bytes);
            *part = bytes.into();
        }
        if random.below(8) == 0 {
            let (first, second) = (random.below(all.len()), random.below(all.len()));
            all.swap(first, second);
        }
        all
    }

    /// Remembers what an answer tells.
    fn learn(&mut self, method: &str, answer: &[u8]) {
        match method {
            "GetFlightInfo" => self.infos.extend(FlightInfo::decode(answer).ok()),
            "PollFlightInfo" => {
                if let Ok(PollInfo { info, flight_descriptor, .. }) = PollInfo::decode(answer) {
                    self.infos.extend(info);
                    self.commands.extend(flight_descriptor.map(|descriptor| descriptor.cmd));
                }
            }
            "DoAction" => {
                // The name is the first field of each result.
                let body = arrow_flight::Result::decode(answer).ok().map(|result| result.body);
                let value = body.and_then(|body| Any::decode(body).ok()).map(|any| any.value);
                let named = value.and_then(|value| TicketStatementQuery::decode(value).ok());
                self.names.extend(named.map(|named| named.statement_handle));
            }
            _ => {}
        }
        if let Some(info) = self.infos.last() {
            let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.clone());
            self.commands.extend(tickets.map(|ticket| ticket.ticket));
        }
    }
}

/// Makes a call; gives all that it answers.
async fn call(channel: &Channel, method: &str, messages: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::try_from(format!("/arrow.flight.protocol.FlightService/{method}")).unwrap();
    let mut answers = grpc.streaming(Request::new(stream::iter(messages)), path, Bare).await?.into_inner();
    let mut all = Vec::new();
    while let Some(answer) = answers.message().await? {
        all.push(answer);
    }
    Ok(all)
}

/// A connection of bytes that begin as HTTP/2 does, until the server ends it.
async fn babble(served: &Served, random: &mut Random) {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for _ in 0..random.below(20) {
        let payload: Vec<u8> = (0..random.below(100)).map(|_| random.number() as u8).collect();
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        bytes.extend_from_slice(&[random.below(12) as u8, random.number() as u8, 0, 0, 0, random.below(6) as u8]);
        bytes.extend_from_slice(&payload);
    }
    if random.below(2) == 0 {
        random.damage(&mut bytes);
    }
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let (mut read, mut write) = stream.split();
    let mut answer = Vec::new();
    // The server may have ended the connection already.
    let sending = async { drop(write.write_all(&bytes).await) };
    let ((), received) = tokio::join!(sending, read.read_to_end(&mut answer));
    drop(received);
}

/// Counts panics of the server's own code, which tasks would hide.
fn count_panics() -> Arc<AtomicUsize> {
    let count = Arc::<AtomicUsize>::default();
    let (counted, before) = (Arc::clone(&count), panic::take_hook());
    panic::set_hook(Box::new(move |panicked| {
        if panicked.location().is_some_and(|place| place.file().contains("server-flight/src")) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        before(panicked);
    }));
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn no_calls_harm_the_server() {
    let (mut random, time) = Random::of_environment();
    let panics = count_panics();
    let options = ServerOptions {
        message_bytes_max: 1 << 20,
        // What is cut is not waited for.
        authentication_timeout: Duration::from_millis(200),
        transfer_timeout: Duration::from_millis(200),
        ticket_timeout: Duration::from_secs(1),
        ..ServerOptions::default()
    };
    let served = serve_with(options).await;
    served.sql("CREATE TABLE t (a INT NOT NULL, b TEXT)").await;
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..100).map(|at| (at % 3 > 0).then_some("text"))));
    let batch = RecordBatch::try_from_iter_with_nullable([("a", numbers, false), ("b", texts, true)]).unwrap();
    let encoder = FlightDataEncoderBuilder::new();
    let rows: Vec<FlightData> =
        encoder.build(stream::iter([Ok(batch.clone()), Ok(batch)])).try_collect().await.unwrap();
    let (start, mut count, mut answered) = (Instant::now(), 0, BTreeMap::<i32, usize>::new());
    while start.elapsed() < time || count < 100 {
        let (channel, mut known) = (served.channel().await, Known::default());
        for _ in 0..1 + random.below(30) {
            let method = *random.pick(&METHODS);
            let messages = known.messages(&mut random, method, &rows);
            let ended = timeout(Duration::from_secs(60), call(&channel, method, messages)).await;
            let ended = ended.unwrap_or_else(|_| panic!("call {count}: {method} does not end"));
            match ended {
                Ok(answers) => {
                    *answered.entry(Code::Ok.into()).or_default() += 1;
                    answers.iter().for_each(|answer| known.learn(method, answer));
                }
                Err(failed) => {
                    *answered.entry(failed.code().into()).or_default() += 1;
                    let is_defect = failed.metadata().get("alluvia-sqlstate").is_some_and(|state| state == "XX000");
                    assert!(!is_defect, "call {count}: {method}: {failed:?}");
                }
            }
            count += 1;
        }
        if random.below(4) == 0 {
            babble(&served, &mut random).await;
        }
    }
    assert!(text(&mut served.client().await, "SELECT 1 AS a").await.contains("| 1 |"));
    assert_eq!(panics.load(Ordering::SeqCst), 0);
    let had = |code: Code| answered.contains_key(&i32::from(code));
    assert!(had(Code::Ok) && had(Code::InvalidArgument), "{answered:?}");
    println!("{count} calls; answered by code of gRPC: {answered:?}");
}
