//! The calls of Flight, and which command of Flight SQL is answered by what.
//!
//! Invariant: every call is of a [`Caller`], whom the gate before this service ([`crate::gate`]) has let in; a handshake makes one.

use crate::answer::{Messages, Sending, messages, one_batch, plain};
use crate::arriving::{Arriving, descriptor, first};
use crate::failure::{malformed, refused, status};
use crate::ingest::ingest;
use crate::login::Caller;
use crate::places::Connection;
use crate::poll::{self, Polled, Told};
use crate::server::Shared;
use crate::statement::{Answered, Kept, end, run};
use crate::work::beside;
use crate::{auth, catalog, gate, own, parameters};
use alluvia_query::{Command as Sort, Described};
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::datatypes::{Field, Schema};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
    ActionEndTransactionRequest, Any, Command, DoPutPreparedStatementResult, DoPutUpdateResult, EndTransaction,
    ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, Criteria, Empty, FlightData,
    FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, PollInfo, PutResult,
    SchemaAsIpc, SchemaResult, Ticket,
};
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use std::sync::Arc;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

/// What a prepared statement may keep of values that come before the call that runs it.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// `CloseSessionResult { status: CLOSED }`, as protobuf writes it.
const CLOSED: &[u8] = &[0x08, 0x01];

/// Actions that are taken, and what they do.
const ACTIONS: [(&str, &str); 9] = [
    ("CreatePreparedStatement", "Prepares a statement: ActionCreatePreparedStatementRequest, with its Result."),
    ("ClosePreparedStatement", "Forgets a prepared statement: ActionClosePreparedStatementRequest."),
    ("BeginTransaction", "Begins a transaction: ActionBeginTransactionRequest, with its Result."),
    ("EndTransaction", "Commits a transaction, as one batch, or rolls it back: ActionEndTransactionRequest."),
    ("CancelQuery", "Cancels a statement by its FlightInfo: ActionCancelQueryRequest, with its Result."),
    ("CancelFlightInfo", "Cancels a statement by its FlightInfo: CancelFlightInfoRequest, with its Result."),
    ("CloseSession", "Ends the login, with all that is kept for it: CloseSessionRequest, with its Result."),
    (own::STATE, "How the login's session stands, and how far its statement is: no body, with JSON as its result."),
    (own::CANCEL, "Stops what the login's session runs: no body."),
];

/// The service.
pub(crate) struct Service {
    shared: Arc<Shared>,
}

type Answer<T> = std::result::Result<Response<T>, Status>;

fn sent<T>(result: Result<T>) -> Answer<T> {
    result.map(Response::new).map_err(|error| status(&error))
}

/// Who calls, and what with.
fn entered<T>(request: Request<T>) -> std::result::Result<(Arc<Caller>, T), Status> {
    let (_, extensions, asked) = request.into_parts();
    Ok((gate::entered(&extensions)?, asked))
}

/// A message within another.
fn any(bytes: &[u8]) -> Result<Any> {
    Any::decode(bytes).map_err(|error| malformed(format!("a command cannot be read: {error}")))
}

fn command(bytes: &[u8]) -> Result<Command> {
    Command::try_from(any(bytes)?).map_err(|error| malformed(format!("a command cannot be read: {error}")))
}

fn unpacked<M: ProstMessageExt>(bytes: &[u8]) -> Result<M> {
    let unpacked = any(bytes)?.unpack::<M>();
    let unpacked = unpacked.map_err(|error| malformed(format!("an action cannot be read: {error}")))?;
    unpacked.ok_or_else(|| malformed(format!("the action's body is no {}", M::type_url())))
}

fn encoded(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message: std::result::Result<IpcMessage, _> = SchemaAsIpc::new(schema, &options).try_into();
    let IpcMessage(bytes) = message.map_err(|error| Error::internal(format!("a schema was not encoded: {error}")))?;
    Ok(bytes)
}

fn unknown(command: &Command, call: &str) -> Error {
    refused(&format!("{} with {call}", command.type_url()), "see docs/OPERATIONS.md for what is")
}

/// The schema of a statement's parameters.
fn parameters_of(described: &Described) -> Schema {
    let field = |(at, data_type): (usize, &arrow::datatypes::DataType)| {
        Field::new(format!("${}", at + 1), data_type.clone(), true)
    };
    plain(&Schema::new(described.parameters.iter().enumerate().map(field).collect::<Vec<Field>>()))
}

/// The schema of a statement's rows.
fn columns_of(described: &Described) -> Option<Schema> {
    described.columns.as_ref().map(|columns| plain(columns))
}

impl Service {
    /// Of a server.
    pub(crate) fn new(shared: Arc<Shared>) -> Service {
        Service { shared }
    }

    /// Begins what a descriptor asks for; with bounds of what is estimated, if they are wanted.
    async fn info(&self, caller: &Arc<Caller>, asked: FlightDescriptor, bounds: bool) -> Result<FlightInfo> {
        let command = command(&asked.cmd)?;
        if let Some(schema) = catalog::schema_of(&command)? {
            return flight(&schema, asked.clone(), Some(asked.cmd));
        }
        let answered = self.begun(caller, command, "GetFlightInfo", bounds).await?;
        self.answered(caller, asked, answered)
    }

    /// Begins a statement.
    async fn begun(&self, caller: &Arc<Caller>, command: Command, call: &str, bounds: bool) -> Result<Answered> {
        match command {
            Command::CommandStatementQuery(query) => {
                let lane = caller.login.lane(query.transaction_id.as_ref())?;
                let prepared = lane.session.prepare(&query.query)?;
                run(&self.shared, caller, &lane, prepared, Vec::new(), bounds).await
            }
            Command::CommandPreparedStatementQuery(query) => {
                self.run_kept(caller, &query.prepared_statement_handle, None, bounds).await
            }
            other => Err(unknown(&other, call)),
        }
    }

    /// What is told of a statement that has begun, or has run.
    fn answered(&self, caller: &Caller, asked: FlightDescriptor, answered: Answered) -> Result<FlightInfo> {
        match answered {
            Answered::Rows(waiting) => {
                let schema = Arc::clone(&waiting.schema);
                let handle = caller.login.wait(waiting, self.shared.now())?;
                let ticket = TicketStatementQuery { statement_handle: handle.into() };
                flight(&schema, asked, Some(ticket.as_any().encode_to_vec().into()))
            }
            // It has run; there is nothing to fetch. Clients show the number as that of changed rows.
            Answered::Done(count, told) => {
                let info = flight(&Schema::empty(), asked, None)?;
                Ok(info.with_total_records(count).with_app_metadata(told.to_string()))
            }
        }
    }

    /// Begins what a descriptor asks for, or tells how far it is.
    async fn poll(&self, caller: &Arc<Caller>, asked: FlightDescriptor) -> Result<PollInfo> {
        let whole = |info: FlightInfo| PollInfo { info: Some(info), progress: Some(1.0), ..PollInfo::default() };
        let command = command(&asked.cmd)?;
        if let Some(schema) = catalog::schema_of(&command)? {
            return Ok(whole(flight(&schema, asked.clone(), Some(asked.cmd))?));
        }
        let (handle, polled, is_first) = match command {
            Command::TicketStatementQuery(TicketStatementQuery { statement_handle }) => {
                let polled = caller.login.polled(&statement_handle)?;
                (statement_handle, polled, false)
            }
            command => {
                let lane = match &command {
                    Command::CommandStatementQuery(query) => caller.login.lane(query.transaction_id.as_ref())?,
                    Command::CommandPreparedStatementQuery(query) => {
                        let kept = caller.login.prepared(&query.prepared_statement_handle)?;
                        caller.login.lane_of(&kept)?
                    }
                    other => return Err(unknown(other, "PollFlightInfo")),
                };
                let (service, who) = (Service::new(Arc::clone(&self.shared)), Arc::clone(caller));
                let work = Box::pin(async move { service.begun(&who, command, "PollFlightInfo", false).await });
                let (handle, polled) = caller.login.poll(|| Polled::begin(&self.shared, caller, lane, work))?;
                (handle.into(), polled, true)
            }
        };
        match polled.ask(&self.shared, is_first).await {
            Told::End(result) => {
                caller.login.told(&handle);
                Ok(whole(self.answered(caller, asked, result?)?))
            }
            Told::Running(report) => {
                let ticket = TicketStatementQuery { statement_handle: handle };
                let again = FlightDescriptor::new_cmd(ticket.as_any().encode_to_vec());
                let info = flight(&Schema::empty(), again.clone(), None)?;
                Ok(PollInfo {
                    info: Some(info.with_app_metadata(poll::progress(report).to_string())),
                    flight_descriptor: Some(again),
                    progress: report.and_then(|report| report.fraction),
                    ..PollInfo::default()
                })
            }
        }
    }

    /// Runs a prepared statement with these rows of values, or those that came before.
    async fn run_kept(
        &self,
        caller: &Arc<Caller>,
        handle: &Bytes,
        rows: Option<Vec<Vec<alluvia_query::ScalarValue>>>,
        bounds: bool,
    ) -> Result<Answered> {
        let kept = caller.login.prepared(handle)?;
        let lane = caller.login.lane_of(&kept)?;
        let before = kept.bound.lock().take();
        match rows.or(before) {
            // Rows were to come, and none came: it runs for none of them.
            Some(rows) if rows.is_empty() && kept.prepared.statement().command() == Sort::Insert => {
                Ok(Answered::Done(0, serde_json::json!({ "tag": "INSERT 0 0" })))
            }
            rows => run(&self.shared, caller, &lane, kept.prepared.clone(), rows.unwrap_or_default(), bounds).await,
        }
    }

    /// The columns of what a descriptor asks for, without running it.
    async fn schema(&self, caller: &Arc<Caller>, asked: &FlightDescriptor) -> Result<SchemaResult> {
        let command = command(&asked.cmd)?;
        if let Some(schema) = catalog::schema_of(&command)? {
            return Ok(SchemaResult { schema: encoded(&schema)? });
        }
        let schema = match command {
            Command::CommandStatementQuery(query) => {
                let lane = caller.login.lane(query.transaction_id.as_ref())?;
                let work = move |lane: Arc<crate::login::Lane>| async move {
                    let prepared = lane.session.prepare(&query.query)?;
                    lane.session.describe(prepared.statement(), &[]).await
                };
                columns_of(&beside(&self.shared, caller, &lane, work).await?)
            }
            Command::CommandPreparedStatementQuery(query) => {
                columns_of(&caller.login.prepared(&query.prepared_statement_handle)?.described)
            }
            other => return Err(unknown(&other, "GetSchema")),
        };
        Ok(SchemaResult { schema: encoded(&schema.unwrap_or_else(Schema::empty))? })
    }

    /// Begins to send what a ticket stands for.
    async fn get(&self, caller: Arc<Caller>, ticket: Ticket) -> Result<Messages<FlightData>> {
        let command = command(&ticket.ticket)?;
        if let Command::TicketStatementQuery(TicketStatementQuery { statement_handle }) = command {
            let (answer, end) = caller.login.fetch(&statement_handle)?;
            let sending = Sending { shared: Arc::clone(&self.shared), caller, ticket: statement_handle, end };
            return Ok(sending.begin(answer));
        }
        let batch = catalog::rows_of(&self.shared, &caller, command).await?;
        Ok(messages(one_batch(&batch.schema(), batch)?))
    }

    /// Takes what a client sends; gives also the version of its batch, if its rows became one.
    async fn put(&self, caller: &Arc<Caller>, mut rest: Streaming<FlightData>) -> Result<(PutResult, Option<Version>)> {
        let mut message = first(&mut rest).await?;
        let asked = descriptor(&mut message)?;
        let command = command(&asked.cmd)?;
        let mut rows = Arriving::new(message, rest);
        let mut version = None;
        let bytes_max = self.shared.options.message_bytes_max;
        let answered = match command {
            Command::CommandStatementUpdate(update) => {
                let lane = caller.login.lane(update.transaction_id.as_ref())?;
                let prepared = lane.session.prepare(&update.query)?;
                refuse_rows(prepared.statement().command())?;
                run(&self.shared, caller, &lane, prepared, Vec::new(), false).await?
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let handle = update.prepared_statement_handle;
                let kept = caller.login.prepared(&handle)?;
                refuse_rows(kept.prepared.statement().command())?;
                let values = parameters::take(&mut rows, kept.prepared.parameters(), bytes_max).await?;
                self.run_kept(caller, &handle, values, false).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                let kept = caller.login.prepared(&query.prepared_statement_handle)?;
                let bytes_max = bytes_max.min(KEPT_BYTES_MAX);
                let values = parameters::take(&mut rows, kept.prepared.parameters(), bytes_max).await?;
                *kept.bound.lock() = values;
                let result =
                    DoPutPreparedStatementResult { prepared_statement_handle: Some(query.prepared_statement_handle) };
                return Ok((PutResult { app_metadata: result.encode_to_vec().into() }, None));
            }
            Command::CommandStatementIngest(asked) => {
                let taken = ingest(&self.shared, caller, asked, rows).await?;
                version = taken.committed.map(|committed| committed.version);
                Answered::Done(taken.rows as i64, serde_json::Value::Null)
            }
            other => return Err(unknown(&other, "DoPut")),
        };
        let record_count = match answered {
            Answered::Done(count, _) => count,
            // A procedure that gives rows; nobody has asked for them.
            Answered::Rows(_) => -1,
        };
        Ok((PutResult { app_metadata: DoPutUpdateResult { record_count }.encode_to_vec().into() }, version))
    }

    /// Does what an action asks for; gives its results.
    async fn act(
        &self,
        caller: &Arc<Caller>,
        connection: Option<&Arc<Connection>>,
        action: Action,
    ) -> Result<Vec<Bytes>> {
        let body = &action.body;
        match action.r#type.as_str() {
            "CreatePreparedStatement" => {
                let asked: ActionCreatePreparedStatementRequest = unpacked(body)?;
                let lane = caller.login.lane(asked.transaction_id.as_ref())?;
                let work = move |lane: Arc<crate::login::Lane>| async move {
                    let prepared = lane.session.prepare(&asked.query)?;
                    let described = lane.session.describe(prepared.statement(), &[]).await?;
                    Ok((prepared, described))
                };
                let (prepared, described) = beside(&self.shared, caller, &lane, work).await?;
                let columns = columns_of(&described).map(|columns| encoded(&columns)).transpose()?;
                let parameters = encoded(&parameters_of(&described))?;
                let handle = caller.login.keep(Kept { lane, prepared, described, bound: Mutex::default() })?;
                let result = ActionCreatePreparedStatementResult {
                    prepared_statement_handle: handle.into(),
                    dataset_schema: columns.unwrap_or_default(),
                    parameter_schema: parameters,
                };
                Ok(vec![result.as_any().encode_to_vec().into()])
            }
            "ClosePreparedStatement" => {
                let asked: ActionClosePreparedStatementRequest = unpacked(body)?;
                caller.login.close(&asked.prepared_statement_handle)?;
                Ok(Vec::new())
            }
            "BeginTransaction" => {
                let result =
                    ActionBeginTransactionResult { transaction_id: caller.login.begin(self.shared.now())?.into() };
                Ok(vec![result.as_any().encode_to_vec().into()])
            }
            "EndTransaction" => {
                let asked: ActionEndTransactionRequest = unpacked(body)?;
                let is_commit = match asked.action() {
                    EndTransaction::Commit => true,
                    EndTransaction::Rollback => false,
                    EndTransaction::Unspecified => {
                        return Err(malformed("EndTransaction says neither commit nor rollback"));
                    }
                };
                let lane = caller.login.take_transaction(&asked.transaction_id)?;
                end(&self.shared, caller, &lane, is_commit).await?;
                Ok(Vec::new())
            }
            "CancelQuery" => {
                let asked: ActionCancelQueryRequest = unpacked(body)?;
                let info =
                    FlightInfo::decode(asked.info).map_err(|error| malformed(format!("a FlightInfo: {error}")))?;
                let status = cancel(caller, &info)?;
                Ok(vec![ActionCancelQueryResult { result: status as i32 }.as_any().encode_to_vec().into()])
            }
            "CancelFlightInfo" => {
                let asked = CancelFlightInfoRequest::decode(body.clone())
                    .map_err(|error| malformed(format!("CancelFlightInfo cannot be read: {error}")))?;
                let status = cancel(caller, &asked.info.unwrap_or_default())?;
                Ok(vec![CancelFlightInfoResult { status: status as i32 }.encode_to_vec().into()])
            }
            "CloseSession" => {
                self.shared.logins.end(&caller.login);
                connection.iter().for_each(|connection| connection.end(&caller.login));
                Ok(vec![Bytes::from_static(CLOSED)])
            }
            own::STATE => Ok(vec![own::state_of(&caller.login.lane.session)]),
            own::CANCEL => {
                caller.login.lane.session.cancel_handle().cancel();
                Ok(Vec::new())
            }
            other => {
                let names = ACTIONS.map(|(name, _)| name).join(", ");
                Err(refused(&format!("the action {other:?}"), &format!("actions are {names}")))
            }
        }
    }
}

/// A statement whose rows would be thrown away.
fn refuse_rows(sort: Sort) -> Result<()> {
    match sort {
        Sort::Query | Sort::Show => Err(Error::new(ErrorKind::NotSupported, "a query as an update is not supported")
            .with_hint("run it as a query: its rows would be thrown away")),
        _ => Ok(()),
    }
}

fn cancel(caller: &Caller, info: &FlightInfo) -> Result<CancelStatus> {
    let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref());
    let mut commands = tickets.map(|ticket| command(&ticket.ticket)).collect::<Result<Vec<Command>>>()?;
    // A statement that is asked about has no ticket yet; the descriptor of another is whatever its client asked for.
    commands.extend(info.flight_descriptor.iter().filter_map(|descriptor| command(&descriptor.cmd).ok()));
    let mut found = false;
    for command in commands {
        if let Command::TicketStatementQuery(ticket) = command {
            found |= caller.login.cancel(&ticket.statement_handle);
        }
    }
    // Here a statement that is not found has ended.
    Ok(if found { CancelStatus::Cancelled } else { CancelStatus::NotCancellable })
}

fn flight(schema: &Schema, asked: FlightDescriptor, ticket: Option<Bytes>) -> Result<FlightInfo> {
    let info = FlightInfo::new().try_with_schema(schema);
    let info = info.map_err(|error| Error::internal(format!("a schema was not encoded: {error}")))?;
    let info = info.with_descriptor(asked).with_total_records(-1).with_total_bytes(-1).with_ordered(true);
    Ok(match ticket {
        Some(ticket) => info.with_endpoint(FlightEndpoint::new().with_ticket(Ticket { ticket })),
        None => info,
    })
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Messages<HandshakeResponse>;
    type ListFlightsStream = Messages<FlightInfo>;
    type DoGetStream = Messages<FlightData>;
    type DoPutStream = Messages<PutResult>;
    type DoActionStream = Messages<arrow_flight::Result>;
    type ListActionsStream = Messages<ActionType>;
    type DoExchangeStream = Messages<FlightData>;

    async fn handshake(&self, request: Request<Streaming<HandshakeRequest>>) -> Answer<Self::HandshakeStream> {
        let (metadata, extensions, _) = request.into_parts();
        let token = auth::handshake(&self.shared, metadata.as_ref(), &extensions).await;
        let token = token.map_err(|error| status(&error))?;
        let header = MetadataValue::try_from(format!("Bearer {token}"));
        let header = header.map_err(|_| status(&Error::internal("a token is no header")))?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let mut response: Response<Self::HandshakeStream> = Response::new(messages(vec![answer]));
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        entered(request)?;
        sent(Err(refused("ListFlights", "ask for tables with the command GetTables")))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        let bounds = own::wants_bounds(request.metadata());
        let (caller, asked) = entered(request)?;
        let bounds = bounds.map_err(|error| status(&error))?;
        sent(self.info(&caller, asked, bounds).await)
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        let (caller, asked) = entered(request)?;
        sent(self.poll(&caller, asked).await)
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        let (caller, asked) = entered(request)?;
        sent(self.schema(&caller, &asked).await)
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let (caller, ticket) = entered(request)?;
        sent(self.get(caller, ticket).await)
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        let (caller, sent_rows) = entered(request)?;
        let (result, version) = self.put(&caller, sent_rows).await.map_err(|error| status(&error))?;
        let mut response: Response<Self::DoPutStream> = Response::new(messages(vec![result]));
        if let Some(version) = version {
            response.metadata_mut().insert(own::VERSION, MetadataValue::from(version.0));
        }
        Ok(response)
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        entered(request)?;
        sent(Err(refused("DoExchange", "ingest with DoPut, and fetch with DoGet")))
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let (caller, action) = entered(request)?;
        let results = self.act(&caller, connection.as_ref(), action).await;
        sent(results.map(|results| messages(results.into_iter().map(|body| arrow_flight::Result { body }).collect())))
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        entered(request)?;
        let action = |(name, what): (&str, &str)| ActionType { r#type: name.to_owned(), description: what.to_owned() };
        sent(Ok(messages(ACTIONS.map(action).into_iter().collect())))
    }
}
