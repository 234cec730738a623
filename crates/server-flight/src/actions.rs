//! Flight's actions: prepared statements, transactions, cancelling, session options, and actions of our own.
//!
//! Invariant: what is not listed in [`ACTIONS`] is refused by name, with the list.

use crate::caller::Caller;
use crate::connection::Connection;
use crate::failure::{malformed, refused};
use crate::lane::Lane;
use crate::lane_task::run_in_lane;
use crate::messages::{any, command, encoded};
use crate::plain_types::{columns_of, plain};
use crate::prepared::PreparedStatement;
use crate::shared::Shared;
use crate::statement::end;
use crate::{extensions, session_options};
use alluvia_query::Described;
use alluvia_types::Result;
use arrow::datatypes::{Field, FieldRef, Schema};
use arrow_flight::sql::{
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
    ActionEndTransactionRequest, Command, EndTransaction, ProstMessageExt,
};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo};
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use std::sync::Arc;

/// `CloseSessionResult { status: CLOSED }`, as protobuf writes it.
const CLOSED: &[u8] = &[0x08, 0x01];

/// Actions that are taken, and what they do.
pub(crate) const ACTIONS: [(&str, &str); 12] = [
    ("CreatePreparedStatement", "Prepares a statement: ActionCreatePreparedStatementRequest, with its Result."),
    ("ClosePreparedStatement", "Forgets a prepared statement: ActionClosePreparedStatementRequest."),
    ("BeginTransaction", "Begins a transaction: ActionBeginTransactionRequest, with its Result."),
    ("EndTransaction", "Commits a transaction, as one batch, or rolls it back: ActionEndTransactionRequest."),
    ("CancelQuery", "Cancels a statement by its FlightInfo: ActionCancelQueryRequest, with its Result."),
    ("CancelFlightInfo", "Cancels a statement by its FlightInfo: CancelFlightInfoRequest, with its Result."),
    (session_options::SET, "Sets settings of the login's session: SetSessionOptionsRequest, with its Result."),
    (session_options::GET, "Tells the settings of the login's session: GetSessionOptionsRequest, with its Result."),
    ("CloseSession", "Ends the login, with all that is kept for it: CloseSessionRequest, with its Result."),
    (
        extensions::STATE,
        "How the login's session stands, and how far its statement is: no body, with JSON as its result.",
    ),
    (extensions::CANCEL, "Stops what the login's session runs: no body."),
    (extensions::PRODUCER, "The last batch of a producer: its name, with JSON as its result, or none."),
];

/// Does what an action asks for; gives its results.
pub(crate) async fn act(
    shared: &Arc<Shared>,
    caller: &Arc<Caller>,
    connection: Option<&Arc<Connection>>,
    action: Action,
) -> Result<Vec<Bytes>> {
    let body = &action.body;
    match action.r#type.as_str() {
        "CreatePreparedStatement" => {
            let asked: ActionCreatePreparedStatementRequest = unpacked(body)?;
            let lane = caller.login.lane(asked.transaction_id.as_ref())?;
            let work = move |lane: Arc<Lane>| async move {
                let prepared = lane.session.prepare(&asked.query)?;
                let described = lane.session.describe(prepared.statement(), &[]).await?;
                Ok((prepared, described))
            };
            let (prepared, described) = run_in_lane(shared, caller, &lane, work).await?;
            let columns = columns_of(&described).map(|columns| encoded(&columns)).transpose()?;
            let parameters = encoded(&parameters_of(&described))?;
            let handle = caller.login.keep(PreparedStatement { lane, prepared, described, bound: Mutex::default() })?;
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
            let result = ActionBeginTransactionResult { transaction_id: caller.login.begin(shared.now())?.into() };
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
            end(shared, caller, &lane, is_commit).await?;
            Ok(Vec::new())
        }
        "CancelQuery" => {
            let asked: ActionCancelQueryRequest = unpacked(body)?;
            let info = FlightInfo::decode(asked.info).map_err(|error| malformed(format!("a FlightInfo: {error}")))?;
            let status = cancel(caller, &info)?;
            Ok(vec![ActionCancelQueryResult { result: status as i32 }.as_any().encode_to_vec().into()])
        }
        "CancelFlightInfo" => {
            let asked = CancelFlightInfoRequest::decode(body.clone())
                .map_err(|error| malformed(format!("CancelFlightInfo cannot be read: {error}")))?;
            let status = cancel(caller, &asked.info.unwrap_or_default())?;
            Ok(vec![CancelFlightInfoResult { status: status as i32 }.encode_to_vec().into()])
        }
        session_options::SET => Ok(vec![session_options::set(shared, caller, body).await?]),
        session_options::GET => Ok(vec![session_options::get(shared, caller).await?]),
        "CloseSession" => {
            shared.tokens.end(&caller.login);
            connection.iter().for_each(|connection| connection.end(&caller.login));
            Ok(vec![Bytes::from_static(CLOSED)])
        }
        extensions::STATE => Ok(vec![extensions::state_of(&caller.login.lane.session)]),
        extensions::CANCEL => {
            caller.login.lane.session.cancel_handle().cancel();
            Ok(Vec::new())
        }
        extensions::PRODUCER => extensions::producer_of(&caller.login.lane.session, body),
        other => {
            let names = ACTIONS.map(|(name, _)| name).join(", ");
            Err(refused(&format!("the action {other:?}"), &format!("actions are {names}")))
        }
    }
}

fn unpacked<M: ProstMessageExt>(bytes: &[u8]) -> Result<M> {
    let unpacked = any(bytes)?.unpack::<M>();
    let unpacked = unpacked.map_err(|error| malformed(format!("an action cannot be read: {error}")))?;
    unpacked.ok_or_else(|| malformed(format!("the action's body is no {}", M::type_url())))
}

/// The schema of a statement's parameters.
fn parameters_of(described: &Described) -> Schema {
    let field = |(at, field): (usize, &FieldRef)| field.as_ref().clone().with_name(format!("${}", at + 1));
    plain(&Schema::new(described.parameters.iter().enumerate().map(field).collect::<Vec<Field>>()))
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
