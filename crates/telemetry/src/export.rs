//! Sending spans: OTLP over HTTP/1.1, as protobuf.
//!
//! Invariants:
//! - One request at a time. What a collector refuses for now is sent again a few times, then dropped; it is said so at most once a
//!   minute, with the number of spans.
//! - Stopping sends what is queued, and waits no longer than [`LAST_WAIT`].
//! - To an address of https nothing is sent but over TLS, to a collector whose certificate is trusted for that address.

use crate::message::{Attribute, Export, Resource, ResourceSpans, Scope, ScopeSpans, Span, Value};
use alluvia_types::{Clock, Error, ErrorKind, Result, SystemClock};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Spans of one request.
const BATCH_SPANS: usize = 512;
/// How long spans wait for others to go with them.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// What one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Waits before a request is sent again.
const RETRIES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];
/// Time between messages of failures.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// What the exporter gets to send the rest.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Where a collector listens.
#[derive(Clone, Debug)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// Host and port as they are written.
    authority: String,
    path: String,
    /// Whom to believe, and for which name; `None` sends in the clear.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Endpoint {
    /// Reads `http://host:port` or `https://host:port`, the base address of OTLP over HTTP; spans go to `/v1/traces` below it. `trusted`
    /// is asked for whom to believe if it is https.
    pub fn parse(text: &str, trusted: impl FnOnce() -> Result<ClientConfig>) -> Result<Endpoint> {
        let wrong = |hint: &str| {
            Error::new(ErrorKind::InvalidSetting, format!("otlp_endpoint cannot be '{text}'")).with_hint(hint)
        };
        let uri: Uri = text.parse().map_err(|_| wrong("write http://127.0.0.1:4318"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("write http://127.0.0.1:4318")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("write http://127.0.0.1:4318"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(wrong("it is a host, a port and a path"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match is_tls {
            true => {
                let name =
                    ServerName::try_from(host.clone()).map_err(|_| wrong("no certificate could be for this host"))?;
                Some((Arc::new(trusted()?), name))
            }
            false => None,
        };
        Ok(Endpoint {
            host,
            tls,
            port: authority.port_u16().unwrap_or(4318),
            authority: authority.as_str().to_owned(),
            path: format!("{}/v1/traces", uri.path().trim_end_matches('/')),
        })
    }
}

/// What sends spans, in a task of its own.
#[derive(Debug)]
pub struct Exporter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    pub(crate) fn start(endpoint: Endpoint, queued: mpsc::Receiver<Span>, dropped: Arc<AtomicU64>) -> Exporter {
        let (stop, stopped) = oneshot::channel();
        let sending = Sending { endpoint, dropped, clock: SystemClock::default(), said: None };
        Exporter { stop, task: tokio::spawn(sending.run(queued, stopped)) }
    }

    /// Sends what is queued, and ends.
    pub async fn stop(self) {
        drop(self.stop);
        let mut task = self.task;
        if timeout(LAST_WAIT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

struct Sending {
    endpoint: Endpoint,
    dropped: Arc<AtomicU64>,
    clock: SystemClock,
    said: Option<Duration>,
}

/// Why a request did not do.
struct Refused {
    why: String,
    is_passing: bool,
}

impl Sending {
    async fn run(mut self, mut queued: mpsc::Receiver<Span>, mut stopped: oneshot::Receiver<()>) {
        let mut is_over = false;
        while !is_over {
            let mut spans = Vec::with_capacity(BATCH_SPANS);
            let mut gathered: Option<std::pin::Pin<Box<tokio::time::Sleep>>> = None;
            while spans.len() < BATCH_SPANS && !is_over {
                let room = BATCH_SPANS - spans.len();
                let enough = async {
                    match &mut gathered {
                        Some(wait) => wait.await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    _ = &mut stopped => is_over = true,
                    count = queued.recv_many(&mut spans, room) => is_over = count == 0,
                    () = enough => break,
                }
                gathered.get_or_insert_with(|| Box::pin(sleep(GATHERED_FOR)));
            }
            self.send(spans).await;
        }
        queued.close();
        loop {
            let mut spans = Vec::with_capacity(BATCH_SPANS);
            if queued.recv_many(&mut spans, BATCH_SPANS).await == 0 {
                break;
            }
            self.send(spans).await;
        }
    }

    async fn send(&mut self, spans: Vec<Span>) {
        if spans.is_empty() {
            return;
        }
        let count = spans.len() as u64;
        let body = Bytes::from(export(spans).encode_to_vec());
        let mut retries = RETRIES.iter();
        let refused = loop {
            let posted = timeout(REQUEST_TIMEOUT, post(&self.endpoint, body.clone())).await;
            let timed_out = |_| Refused { why: "it does not answer".to_owned(), is_passing: true };
            match posted.map_err(timed_out).flatten() {
                Ok(()) => break None,
                Err(refused) => match retries.next().filter(|_| refused.is_passing) {
                    Some(wait) => sleep(*wait).await,
                    None => break Some(refused),
                },
            }
        };
        if refused.is_some() {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
        self.say(refused);
    }

    /// Says that spans were dropped, now and then.
    fn say(&mut self, refused: Option<Refused>) {
        let now = self.clock.monotonic();
        let is_quiet = self.said.is_some_and(|said| now.saturating_sub(said) < SAID_EVERY);
        if is_quiet || self.dropped.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.said = Some(now);
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        let why =
            refused.map_or_else(|| "they came faster than the collector takes them".to_owned(), |refused| refused.why);
        tracing::warn!(collector = self.endpoint.authority, dropped, why, "spans were dropped");
    }
}

fn export(spans: Vec<Span>) -> Export {
    let text = |text: &str| Value::Text(text.to_owned());
    let attributes = vec![
        Attribute::new("service.name", text("alluvia")),
        Attribute::new("service.version", text(env!("CARGO_PKG_VERSION"))),
        Attribute::new("process.pid", Value::Integer(i64::from(std::process::id()))),
    ];
    let scope = Scope { name: "alluvia".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let scopes = vec![ScopeSpans { scope: Some(scope), spans }];
    Export { resources: vec![ResourceSpans { resource: Some(Resource { attributes }), scopes }] }
}

/// The error of a request that may do when it is sent again.
fn passing(error: &dyn std::error::Error) -> Refused {
    Refused { why: error.to_string(), is_passing: true }
}

/// Sends one request, over a connection of its own.
async fn post(endpoint: &Endpoint, body: Bytes) -> std::result::Result<(), Refused> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(|error| passing(&error))?;
    match &endpoint.tls {
        None => post_over(stream, endpoint, body).await,
        Some((config, name)) => {
            let secured = TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream).await;
            post_over(secured.map_err(|error| passing(&error))?, endpoint, body).await
        }
    }
}

async fn post_over<S>(stream: S, endpoint: &Endpoint, body: Bytes) -> std::result::Result<(), Refused>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| passing(&error))?;
    let request = Request::post(&endpoint.path)
        .header(HOST, &endpoint.authority)
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(USER_AGENT, concat!("alluvia/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body));
    let request = request.map_err(|error| Refused { why: error.to_string(), is_passing: false })?;
    let response = async {
        let response = sender.send_request(request).await;
        // The connection ends with its only request.
        drop(sender);
        response
    };
    let connection = async {
        // Its error is the request's, too.
        let _ = connection.await;
        std::future::pending::<()>().await
    };
    let status = tokio::select! {
        response = response => response.map_err(|error| passing(&error))?.status(),
        () = connection => return Err(Refused { why: "the connection ended".to_owned(), is_passing: true }),
    };
    match status.as_u16() {
        200..=299 => Ok(()),
        code => Err(Refused { why: format!("it answers {status}"), is_passing: matches!(code, 429 | 502..=504) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{RootCertStore, ServerConfig};

    fn nobody() -> Result<ClientConfig> {
        panic!("nobody is to be believed")
    }

    /// Reads a request and answers it; gives the names of its spans.
    async fn taken(mut stream: impl AsyncRead + AsyncWrite + Unpin, status: &str) -> Vec<String> {
        let mut all = Vec::new();
        let body = loop {
            assert_ne!(stream.read_buf(&mut all).await.unwrap(), 0);
            let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(all[..end].to_vec()).unwrap().to_ascii_lowercase();
            assert!(head.starts_with("post /otlp/v1/traces http/1.1\r\n"), "{head}");
            assert!(head.contains("content-type: application/x-protobuf"), "{head}");
            let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
            if all.len() - end - 4 == length.parse::<usize>().unwrap() {
                break all.split_off(end + 4);
            }
        };
        let export = Export::decode(&body[..]).unwrap();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        // The client may have hung up already.
        let _ = stream.shutdown().await;
        export.resources[0].scopes[0].spans.iter().map(|span| span.name.clone()).collect()
    }

    /// A collector that answers with these statuses in turn; gives the names of the spans of each request.
    async fn collector(statuses: &'static [&'static str]) -> (Endpoint, mpsc::UnboundedReceiver<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}/otlp/", listener.local_addr().unwrap()), nobody).unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for status in statuses {
                let (stream, _) = listener.accept().await.unwrap();
                tell.send(taken(stream, status).await).unwrap();
            }
        });
        (endpoint, told)
    }

    /// Believes this authority alone.
    fn believing(authority: &[u8]) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        Ok(config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth())
    }

    #[tokio::test]
    async fn to_https_spans_go_over_tls_and_only_to_whom_is_believed() {
        let chain = vec![CertificateDer::from_pem_slice(include_bytes!("../../fetch/tests/certificate.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../fetch/tests/key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, mut told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Who does not believe the certificate hangs up.
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                tell.send(taken(stream, "200 OK").await).unwrap();
            }
        });
        // The name is the certificate's, the address this machine's.
        let at = |host: &str, authority: &'static [u8]| {
            let parsed = Endpoint::parse(&format!("https://{host}:{port}/otlp"), || believing(authority)).unwrap();
            Endpoint { host: "127.0.0.1".to_owned(), ..parsed }
        };
        let authority = include_bytes!("../../fetch/tests/authority.pem");
        let body = || Bytes::from(export(vec![span("sealed")]).encode_to_vec());
        assert!(post(&at("data.example.org", authority), body()).await.is_ok());
        assert_eq!(told.recv().await.unwrap(), ["sealed"]);
        for (host, authority) in [
            ("other.example.org", &authority[..]),
            ("data.example.org", include_bytes!("../../server-http/tests/http/certificate.pem")),
        ] {
            let refused = post(&at(host, authority), body()).await.unwrap_err();
            assert!(refused.why.contains("certificate"), "{host}: {}", refused.why);
        }
        assert!(told.try_recv().is_err());
        // In the clear it is not understood, and nothing comes of it.
        let clear = Endpoint { tls: None, ..at("data.example.org", authority) };
        assert!(post(&clear, body()).await.is_err() && told.try_recv().is_err());
    }

    fn span(name: &str) -> Span {
        Span { name: name.to_owned(), ..Span::default() }
    }

    #[tokio::test]
    async fn what_is_queued_is_sent_before_the_end_and_again_if_it_was_refused_for_now() {
        let (endpoint, mut told) = collector(&["503 Service Unavailable", "200 OK", "200 OK"]).await;
        let (queue, queued) = mpsc::channel(10_000);
        let exporter = Exporter::start(endpoint, queued, Arc::default());
        for number in 0..600 {
            queue.try_send(span(&number.to_string())).unwrap();
        }
        exporter.stop().await;
        let (first, again, rest) = (told.recv().await.unwrap(), told.recv().await.unwrap(), told.recv().await.unwrap());
        assert_eq!(first, again);
        let all: Vec<String> = again.into_iter().chain(rest).collect();
        assert_eq!(all, (0..600).map(|number| number.to_string()).collect::<Vec<String>>());
    }

    #[tokio::test]
    async fn what_is_refused_for_good_is_dropped() {
        let (endpoint, mut told) = collector(&["400 Bad Request", "200 OK"]).await;
        let (queue, queued) = mpsc::channel(10);
        let dropped = Arc::<AtomicU64>::default();
        let mut sending = Sending {
            endpoint,
            dropped: Arc::clone(&dropped),
            clock: SystemClock::default(),
            // It has just been said: the number stays.
            said: Some(Duration::MAX),
        };
        sending.send(vec![span("a")]).await;
        assert_eq!((told.recv().await.unwrap(), dropped.load(Ordering::Relaxed)), (vec!["a".to_owned()], 1));
        let (stop, stopped) = oneshot::channel();
        queue.try_send(span("b")).unwrap();
        drop((queue, stop));
        sending.run(queued, stopped).await;
        assert_eq!(told.recv().await.unwrap(), ["b"]);
    }

    #[test]
    fn endpoints_are_base_addresses() {
        let parse = |text: &str| Endpoint::parse(text, nobody);
        let endpoint = parse("http://[::1]:4317/a/").unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port, endpoint.path.as_str()), ("::1", 4317, "/a/v1/traces"));
        let endpoint = parse("http://collector").unwrap();
        assert_eq!((endpoint.port, endpoint.path.as_str()), (4318, "/v1/traces"));
        for wrong in
            ["", "collector:4318", "ftp://collector", "http://", "http://a@b", "http://b?c", "https://a b", "https://-"]
        {
            assert!(Endpoint::parse(wrong, nobody).is_err(), "{wrong}");
        }
        let distrusting = || Err(Error::new(ErrorKind::InvalidSetting, "no file"));
        assert_eq!(Endpoint::parse("https://collector", distrusting).unwrap_err().message(), "no file");
        let authority = || believing(include_bytes!("../../fetch/tests/authority.pem"));
        for host in ["collector", "127.0.0.1", "[::1]"] {
            let endpoint = Endpoint::parse(&format!("https://{host}"), authority).unwrap();
            assert!(endpoint.tls.is_some() && endpoint.port == 4318, "{endpoint:?}");
        }
    }
}
