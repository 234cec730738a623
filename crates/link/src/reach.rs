//! How a node asks others: one connection to each, made again when it breaks.

use crate::certificates::Security;
use crate::connect::Connector;
use crate::greeting::Refused;
use crate::serve::Raw;
use crate::wire::{Answer, Question, decode_answer};
use crate::{MESSAGE_BYTES_MAX, METHOD, SECRET_HEADER};
use alluvia_cluster::NodeId;
use alluvia_cluster::gateway::{Answered, Reach, Reached, Unreached};
use alluvia_cluster::message::{FromKeeper, FromWorker, ToKeeper, ToWorker};
use alluvia_types::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

/// While an answer is waited for, a node is asked so often whether it is there, and has so long to say so.
const ALIVE: Duration = Duration::from_secs(5);
/// An answer is waited for so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// One to what may take long.
const LONG_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The connections of a node to others.
#[derive(Debug)]
pub struct Links {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Shared {
    security: Security,
    secret: Option<MetadataValue<Ascii>>,
    keeper: Channel,
    nodes: Mutex<HashMap<NodeId, (String, Channel)>>,
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn channel(address: &str, security: &Security) -> Result<Channel> {
    let connector = Connector::to(address, security.clone())?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|error| Error::internal(format!("{address} is no address of a node: {error}")))?;
    let endpoint = endpoint.http2_keep_alive_interval(ALIVE).keep_alive_timeout(ALIVE);
    Ok(endpoint.connect_with_connector_lazy(connector))
}

impl Links {
    /// Links to a keeper at an address, and to the nodes that it tells of. Nothing is sent yet.
    pub fn to(keeper: &str, security: &Security) -> Result<Links> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .thread_name("alluvia-links")
            .build();
        let runtime = runtime.map_err(|error| Error::internal(format!("no threads for links: {error}")))?;
        let secret = match security {
            Security::Certificates(_) => None,
            Security::Secret(secret) => {
                let mut secret: MetadataValue<Ascii> =
                    secret.parse().map_err(|_| Error::internal("a secret has letters and digits alone"))?;
                // Then it is shown by nothing.
                secret.set_sensitive(true);
                Some(secret)
            }
        };
        let _within = runtime.enter();
        let keeper = channel(keeper, security)?;
        let shared = Shared { security: security.clone(), secret, keeper, nodes: Mutex::default() };
        drop(_within);
        Ok(Links { shared: Arc::new(shared), runtime: Some(runtime) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until this is dropped")
    }
}

impl Shared {
    /// Asks, and waits for the answer. The outer error: nobody knows whether it was done.
    async fn ask(&self, channel: Channel, asked: Question, patience: Duration) -> Reached<Answer> {
        let bytes = match asked.encode() {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let unreached = |why: String| Unreached { why };
        let mut grpc = Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|error| unreached(because(&error)))?;
        let mut request = Request::new(bytes);
        if let Some(secret) = &self.secret {
            request.metadata_mut().insert(SECRET_HEADER, secret.clone());
        }
        let answered = grpc.unary::<Bytes, Bytes, Raw>(request, PathAndQuery::from_static(METHOD), Raw);
        match tokio::time::timeout(patience, answered).await {
            Err(_) => Err(unreached(format!("no answer within {} s", patience.as_secs()))),
            Ok(Ok(answer)) => Ok(decode_answer(answer.get_ref())),
            Ok(Err(status)) => Err(unreached(match refused(&status) {
                Some(why) => why,
                None => format!("{}: {}", status.code(), status.message()),
            })),
        }
    }
}

/// Why a node was not linked, where that is behind an error.
fn refused(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut behind = Some(error);
    while let Some(error) = behind {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused.to_string());
        }
        behind = error.source();
    }
    None
}

/// An error with what is behind it.
fn because(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        text = format!("{text}: {error}");
        behind = error.source();
    }
    text
}

impl Reach for Links {
    fn keeper(&self, asked: ToKeeper) -> Reached<FromKeeper> {
        let channel = self.shared.keeper.clone();
        // Waited for as a thread waits: whoever calls may be on a thread that drives tasks.
        let (sender, answer) = std::sync::mpsc::channel();
        let shared = Arc::clone(&self.shared);
        self.runtime()
            .spawn(async move { drop(sender.send(shared.ask(channel, Question::Keeper(asked), PATIENCE).await)) });
        let answer = answer.recv().unwrap_or_else(|_| Err(Unreached { why: "this node stops".to_owned() }))?;
        Ok(match answer {
            Ok(Answer::Keeper(said)) => Ok(said),
            Ok(Answer::Worker(_)) => Err(Error::internal("an answer to another question")),
            Err(error) => Err(error),
        })
    }

    fn worker(&self, node: NodeId, asked: ToWorker, answered: Answered) {
        let known = self.shared.nodes.lock().get(&node).map(|(_, channel)| channel.clone());
        let Some(channel) = known else {
            return answered(Err(Unreached { why: format!("where node {node} is, is not known yet") }));
        };
        let shared = Arc::clone(&self.shared);
        self.runtime().spawn(async move {
            let is_long = matches!(asked, ToWorker::Organise { .. } | ToWorker::Ask { .. } | ToWorker::Look { .. });
            let patience = if is_long { LONG_PATIENCE } else { PATIENCE };
            let answer = shared.ask(channel, Question::Worker(asked), patience).await;
            let answer: Reached<FromWorker> = answer.map(|answer| match answer {
                Ok(Answer::Worker(said)) => Ok(said),
                Ok(Answer::Keeper(_)) => Err(Error::internal("an answer to another question")),
                Err(error) => Err(error),
            });
            answered(answer);
        });
    }

    fn located(&self, node: NodeId, address: &str) {
        let mut nodes = self.shared.nodes.lock();
        if address.is_empty() || nodes.get(&node).is_some_and(|(known, _)| known == address) {
            return;
        }
        let _within = self.runtime().enter();
        match channel(address, &self.shared.security) {
            Ok(channel) => drop(nodes.insert(node, (address.to_owned(), channel))),
            Err(error) => tracing::warn!(%node, %error, "a node is not linked"),
        }
    }
}
