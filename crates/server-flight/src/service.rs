//! The Flight service: its calls, and which command of Flight SQL is answered by what.
//!
//! Invariant: every call is of a [`Caller`], whom the interceptor before this service ([`crate::interceptor`]) has let in; a handshake makes one.

use crate::actions::{ACTIONS, act};
use crate::answer::StatementResult;
use crate::caller::Caller;
use crate::connection::Connection;
use crate::extensions::Bounds;
use crate::failure::{refused, status};
use crate::incoming_rows::{IncomingRows, descriptor, first};
use crate::ingest::ingest;
use crate::lane::Lane;
use crate::lane_task::run_in_lane;
use crate::messages::{Messages, command, encoded, messages, one_batch};
use crate::plain_types::columns_of;
use crate::poll::StatementStatus;
use crate::sending::Sending;
use crate::shared::Shared;
use crate::statement::{run, run_text};
use crate::{auth, catalog, extensions, interceptor, parameters, poll};
use alluvia_query::Appended;
use alluvia_syntax::Command as Sort;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::Schema;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    Command, DoPutPreparedStatementResult, DoPutUpdateResult, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use bytes::Bytes;
use prost::Message;
use std::sync::Arc;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

/// What a prepared statement may keep of values that come before the call that runs it.
const KEPT_BYTES_MAX: usize = 1 << 20;
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
    Ok((interceptor::entered(&extensions)?, asked))
}

fn unknown(command: &Command, call: &str) -> Error {
    refused(&format!("{} with {call}", command.type_url()), "see docs/OPERATIONS.md for what is")
}

impl Service {
    /// Of a server.
    pub(crate) fn new(shared: Arc<Shared>) -> Service {
        Service { shared }
    }

    /// Begins what a descriptor asks for, with bounds of what is estimated as they are wanted.
    async fn info(&self, caller: &Arc<Caller>, asked: FlightDescriptor, bounds: Bounds) -> Result<FlightInfo> {
        let command = command(&asked.cmd)?;
        if let Some(schema) = catalog::schema_of(&command)? {
            return flight(&schema, asked.clone(), Some(asked.cmd));
        }
        let answered = self.begun(caller, command, "GetFlightInfo", bounds).await?;
        self.answered(caller, asked, answered)
    }

    /// Begins a statement.
    async fn begun(
        &self,
        caller: &Arc<Caller>,
        command: Command,
        call: &str,
        bounds: Bounds,
    ) -> Result<StatementResult> {
        match command {
            Command::CommandStatementQuery(query) => {
                let lane = caller.login.lane(query.transaction_id.as_ref())?;
                run_text(&self.shared, caller, &lane, query.query, bounds, |_| Ok(())).await
            }
            Command::CommandPreparedStatementQuery(query) => {
                self.run_kept(caller, &query.prepared_statement_handle, None, bounds).await
            }
            other => Err(unknown(&other, call)),
        }
    }

    /// What is told of a statement that has begun, or has run.
    fn answered(&self, caller: &Caller, asked: FlightDescriptor, answered: StatementResult) -> Result<FlightInfo> {
        match answered {
            StatementResult::Rows(waiting) => {
                let schema = Arc::clone(&waiting.schema);
                let handle = caller.login.wait(waiting, self.shared.now())?;
                let ticket = TicketStatementQuery { statement_handle: handle.into() };
                flight(&schema, asked, Some(ticket.as_any().encode_to_vec().into()))
            }
            // It has run; there is nothing to fetch. Clients show the number as that of changed rows.
            StatementResult::Done(count, told) => {
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
                let work = Box::pin(async move { service.begun(&who, command, "PollFlightInfo", Bounds::None).await });
                let (handle, polled) = caller.login.poll(|| poll::begin(&self.shared, caller, lane, work))?;
                (handle.into(), polled, true)
            }
        };
        match poll::ask(&self.shared, &polled, is_first).await {
            StatementStatus::End(result) => {
                caller.login.told(&handle);
                Ok(whole(self.answered(caller, asked, result?)?))
            }
            StatementStatus::Running(report) => {
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
        bounds: Bounds,
    ) -> Result<StatementResult> {
        let kept = caller.login.prepared(handle)?;
        let lane = caller.login.lane_of(&kept)?;
        let before = kept.bound.lock().take();
        match rows.or(before) {
            // Rows were to come, and none came: it runs for none of them.
            Some(rows) if rows.is_empty() && kept.prepared.statement().command() == Sort::Insert => {
                Ok(StatementResult::Done(0, serde_json::json!({ "tag": "INSERT 0 0" })))
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
                let work = move |lane: Arc<Lane>| async move {
                    let prepared = lane.session.prepare(&query.query)?;
                    lane.session.describe(prepared.statement(), &[]).await
                };
                columns_of(&run_in_lane(&self.shared, caller, &lane, work).await?)
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

    /// Takes what a client sends; gives also what became of its rows, if it is an ingest.
    async fn put(
        &self,
        caller: &Arc<Caller>,
        mut rest: Streaming<FlightData>,
    ) -> Result<(PutResult, Option<Appended>)> {
        let mut message = first(&mut rest).await?;
        let asked = descriptor(&mut message)?;
        let command = command(&asked.cmd)?;
        let mut rows = IncomingRows::new(message, rest);
        let mut appended = None;
        let bytes_max = self.shared.options.message_bytes_max;
        let answered = match command {
            Command::CommandStatementUpdate(update) => {
                let lane = caller.login.lane(update.transaction_id.as_ref())?;
                run_text(&self.shared, caller, &lane, update.query, Bounds::None, refuse_rows).await?
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let handle = update.prepared_statement_handle;
                let kept = caller.login.prepared(&handle)?;
                refuse_rows(kept.prepared.statement().command())?;
                let values = parameters::take(&mut rows, kept.prepared.parameters(), bytes_max).await?;
                self.run_kept(caller, &handle, values, Bounds::None).await?
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
                appended = Some(taken);
                StatementResult::Done(taken.rows as i64, serde_json::Value::Null)
            }
            other => return Err(unknown(&other, "DoPut")),
        };
        let record_count = match answered {
            StatementResult::Done(count, _) => count,
            // A procedure that gives rows; nobody has asked for them.
            StatementResult::Rows(_) => -1,
        };
        Ok((PutResult { app_metadata: DoPutUpdateResult { record_count }.encode_to_vec().into() }, appended))
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
        let bounds = extensions::wanted_bounds(request.metadata());
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
        let (result, appended) = self.put(&caller, sent_rows).await.map_err(|error| status(&error))?;
        let mut response: Response<Self::DoPutStream> = Response::new(messages(vec![result]));
        if let Some(committed) = appended.and_then(|appended| appended.committed) {
            response.metadata_mut().insert(extensions::VERSION, MetadataValue::from(committed.version.0));
            if committed.duplicate {
                response.metadata_mut().insert(extensions::DUPLICATE, MetadataValue::from(committed.version.0));
            }
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
        let results = act(&self.shared, &caller, connection.as_ref(), action).await;
        sent(results.map(|results| messages(results.into_iter().map(|body| arrow_flight::Result { body }).collect())))
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        entered(request)?;
        let action = |(name, what): (&str, &str)| ActionType { r#type: name.to_owned(), description: what.to_owned() };
        sent(Ok(messages(ACTIONS.map(action).into_iter().collect())))
    }
}
