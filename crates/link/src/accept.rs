//! Whom a node lets in: each connection is greeted in a task of its own, so that none waits for another.
//!
//! Invariants:
//! - A greeting has a time limit, and there are so many at once and no more.
//! - Who is refused is told why, and so is the log: once a minute for each address and reason.

use crate::certificates::{Certificates, Security};
use crate::greeting::{
    ANSWER_TO_PLAIN, ANSWER_TO_TLS, GREETING, GREETING_TIME, Refused, TLS_HANDSHAKE, Wire, leave, why,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// So many are greeted at once.
const GREETED_MAX: usize = 256;
/// What was told is told again after this.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// So many different things are told in that time.
const TOLD_MAX: usize = 256;
/// When the machine gives no connection: tried again after this.
const PAUSE: Duration = Duration::from_millis(100);

struct Door {
    /// Where it is.
    address: String,
    security: Security,
    told: Mutex<HashSet<(Option<IpAddr>, String)>>,
}

/// Lets in who belongs to the cluster, until the task is ended.
pub(crate) async fn accept(listener: TcpListener, security: Security, wires: Sender<Wire>) {
    let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
    let door = Arc::new(Door { address, security, told: Mutex::default() });
    let greeted = Arc::new(Semaphore::new(GREETED_MAX));
    let mut again = interval(TOLD_AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is at once.
    again.tick().await;
    loop {
        let (stream, from) = tokio::select! {
            _ = again.tick() => {
                door.told.lock().clear();
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => (stream, from.ip()),
                Err(error) => {
                    door.tell(None, &format!("a connection of another node was not taken: {error}"));
                    sleep(PAUSE).await;
                    continue;
                }
            }
        };
        let Ok(slot) = Arc::clone(&greeted).try_acquire_owned() else {
            door.tell(None, &format!("{GREETED_MAX} connections are greeted at once; others are not taken"));
            continue;
        };
        let (door, wires) = (Arc::clone(&door), wires.clone());
        tokio::spawn(async move {
            let let_in = match timeout(GREETING_TIME, door.greet(stream)).await {
                Ok(let_in) => let_in,
                Err(_) => Err(Refused(format!("it does not begin within {} s", GREETING_TIME.as_secs()))),
            };
            drop(slot);
            match let_in {
                // Nobody takes it where the node stops.
                Ok(Some(wire)) => drop(wires.send(wire).await),
                Ok(None) => {}
                Err(Refused(why)) => door.tell(Some(from), &why),
            }
        });
    }
}

impl Door {
    fn tell(&self, from: Option<IpAddr>, why: &str) {
        let mut told = self.told.lock();
        if told.len() < TOLD_MAX && told.insert((from, why.to_owned())) {
            let here = &self.address;
            match from {
                Some(from) => tracing::warn!("a connection from {from} to this node, {here}, was refused: {why}"),
                None => tracing::warn!("this node, {here}: {why}"),
            }
        }
    }

    /// A connection that is let in; `None` where nothing was said on it, as by who looks whether a port is open.
    async fn greet(&self, mut stream: TcpStream) -> Result<Option<Wire>, Refused> {
        // Said by a socket that has ended: then what follows says so, too.
        let _ = stream.set_nodelay(true);
        let mut first = [0];
        if !stream.peek(&mut first).await.is_ok_and(|read| read == 1) {
            return Ok(None);
        }
        let is_tls = first[0] == TLS_HANDSHAKE;
        match &self.security {
            Security::Certificates(own) if is_tls => tls(stream, own).await.map(Some),
            Security::Certificates(_) => {
                refuse(stream, ANSWER_TO_PLAIN);
                Err(Refused("it speaks no TLS: start it with --certificates, too".to_owned()))
            }
            Security::Secret(_) if is_tls => {
                refuse(stream, ANSWER_TO_TLS);
                Err(Refused(
                    "it speaks TLS, and this node has no certificates: start it with --certificates".to_owned(),
                ))
            }
            Security::Secret(_) if first[0] == GREETING => match plain(&mut stream).await {
                Ok(()) => Ok(Some(Box::new(stream))),
                Err(_) => Ok(None),
            },
            Security::Secret(_) => {
                refuse(stream, &[]);
                Err(Refused("it does not begin as nodes of this version of Alluvia do".to_owned()))
            }
        }
    }
}

async fn plain(stream: &mut TcpStream) -> io::Result<()> {
    stream.read_u8().await?;
    stream.write_u8(GREETING).await
}

async fn tls(stream: TcpStream, own: &Certificates) -> Result<Wire, Refused> {
    match TlsAcceptor::from(own.server()).accept(stream).into_fallible().await {
        Ok(mut stream) => {
            let greeted = async {
                stream.write_u8(GREETING).await?;
                stream.flush().await
            };
            greeted.await.map_err(|error| Refused(why(&error, own, None)))?;
            Ok(Box::new(stream))
        }
        Err((error, stream)) => {
            tokio::spawn(leave(stream));
            Err(Refused(why(&error, own, None)))
        }
    }
}

/// Answers who is not let in, and does not wait for it.
fn refuse(mut stream: TcpStream, answer: &'static [u8]) {
    tokio::spawn(async move {
        if stream.write_all(answer).await.is_ok() {
            leave(stream).await;
        }
    });
}
