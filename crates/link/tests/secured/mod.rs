//! Who belongs to a cluster is answered over TLS; who does not is told why, and so is the node that was asked.

use alluvia_cluster::gateway::Reach;
use alluvia_cluster::message::{FromKeeper, FromWorker, ToKeeper, ToWorker, WorkerStatus};
use alluvia_cluster::{NodeId, Role};
use alluvia_link::{
    Answer, Authority, Certificates, Handler, Links, Pair, Question, Security, Serving, Validity, serve,
};
use alluvia_types::{Result, TableId, Version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Answers what needs no keeper.
struct Fixed;

impl Handler for Fixed {
    fn answer(&self, asked: Question) -> Result<Answer> {
        Ok(match asked {
            Question::Keeper(_) => Answer::Keeper(FromKeeper::Numbers(TableId(7))),
            Question::Worker(_) => {
                let status = WorkerStatus { through: Version(5), bodies: 1, body_bytes: 2, stages: Vec::new() };
                Answer::Worker(FromWorker::Status(status))
            }
        })
    }
}

fn valid() -> Validity {
    let now = SystemTime::now();
    Validity { from: now - DAY, until: now + DAY }
}

/// A cluster's authority, as a file and as what signs.
struct Made {
    pem: String,
    authority: Authority,
}

impl Made {
    fn new(cluster: &str) -> Made {
        let (authority, Pair { certificate, .. }) = Authority::new(cluster, valid()).expect("an authority");
        Made { pem: certificate, authority }
    }

    fn pair(&self, hosts: &[&str]) -> Pair {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        self.authority.certificate("a node", &hosts, valid()).expect("a certificate")
    }

    fn node(&self, hosts: &[&str]) -> Security {
        self.of(&self.pair(hosts)).expect("they fit")
    }

    fn of(&self, pair: &Pair) -> Result<Security> {
        Certificates::new(self.pem.as_bytes(), pair.certificate.as_bytes(), pair.key.as_bytes())
            .map(Security::Certificates)
    }
}

fn served(security: &Security) -> (Serving, String) {
    let serving = serve("127.0.0.1:0".parse().unwrap(), security, Arc::new(Fixed)).expect("listens");
    let address = serving.address.to_string();
    (serving, address)
}

/// What a keeper is asked: whether it is answered, or why not.
fn ask(links: &Links) -> std::result::Result<(), String> {
    match links.keeper(ToKeeper::Numbers { count: 1 }) {
        Ok(Ok(FromKeeper::Numbers(TableId(7)))) => Ok(()),
        Ok(other) => panic!("{other:?}"),
        Err(unreached) => Err(unreached.why),
    }
}

/// What this process has logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn of_process() -> &'static Log {
        static LOG: OnceLock<Log> = OnceLock::new();
        LOG.get_or_init(|| {
            let log = Log::default();
            let writer = log.clone();
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
            log
        })
    }

    /// The lines that name an address and a text; waits for the first.
    fn lines(&self, address: &str, text: &str) -> usize {
        let began = Instant::now();
        loop {
            let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let found = log.lines().filter(|line| line.contains(address) && line.contains(text)).count();
            if found > 0 {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(8), "no line of {address} with {text:?}: {log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A server refuses a client: what either says, each time, and once in the log.
fn refused(server: &Security, client: &Security, client_says: &str, server_says: &str) {
    let log = Log::of_process();
    let (serving, address) = served(server);
    let links = Links::to(&address, client).expect("links");
    for _ in 0..3 {
        let why = ask(&links).expect_err("it is refused");
        assert!(why.contains(&format!("the node at {address} is not linked: {client_says}")), "{why}");
    }
    assert_eq!(log.lines(&format!("the node at {address} is not linked"), client_says), 1);
    assert_eq!(log.lines(&format!("to this node, {address}, was refused"), server_says), 1);
    drop(serving);
}

/// What a client hears that trusts an authority and shows another's certificate, or none.
fn heard(address: &str, trusted: &Made, shown: Option<&Pair>) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap()).unwrap()
        }
    };
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from("127.0.0.1").unwrap()).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    let mut first = [0];
    let read = Stream::new(&mut connection, &mut socket).read(&mut first);
    read.map(|read| format!("{:?}", &first[..read])).unwrap_or_else(|error| error.to_string())
}

#[test]
fn nodes_of_one_authority_answer_one_another_by_address_and_by_name() {
    let made = Made::new("prod");
    let (serving, address) = served(&made.node(&["localhost", "127.0.0.1"]));
    let port = serving.address.port();
    // A node that asks needs no address of its own here.
    let client = made.node(&["elsewhere.example.com"]);
    for address in [address, format!("localhost:{port}")] {
        let links = Links::to(&address, &client).expect("links");
        let join = ToKeeper::Join { node: NodeId(1), process: 2, roles: vec![Role::Worker], address: address.clone() };
        assert!(matches!(links.keeper(join), Ok(Ok(FromKeeper::Numbers(TableId(7))))), "{address}");
        links.located(NodeId(1), &address);
        let (sender, answer) = std::sync::mpsc::channel();
        links.worker(NodeId(1), ToWorker::Status, Box::new(move |answer| drop(sender.send(answer))));
        assert!(matches!(answer.recv(), Ok(Ok(Ok(FromWorker::Status(_))))), "{address}");
    }
}

#[test]
fn each_side_says_why_it_does_not_link() {
    let (made, other) = (Made::new("prod"), Made::new("prod"));
    assert_ne!(made.authority.subject(), other.authority.subject(), "two of one name are two");
    let here = ["127.0.0.1"];
    let (node, secret) = (made.node(&here), Security::Secret("a secret".to_owned()));
    let theirs =
        format!("its certificate is of {}, and this node's of {}", made.authority.subject(), other.authority.subject());
    refused(
        &node,
        &other.node(&here),
        &theirs,
        "it does not accept this node's certificate, which is of cluster \"prod\"",
    );
    refused(&node, &secret, "it speaks TLS, and this node has no certificates", "it speaks no TLS: start it with");
    refused(&secret, &node, "it speaks no TLS: start it with --certificates", "it speaks TLS, and this node has no");
    let elsewhere = made.node(&["10.0.0.1", "node-1"]);
    let for_others = "its certificate is for 10.0.0.1, node-1, and not for this address";
    refused(&elsewhere, &node, for_others, "it does not accept this node's certificate: was it asked at an address");
}

#[test]
fn a_certificate_that_has_expired_is_refused_by_both_sides() {
    let made = Made::new("prod");
    let until = SystemTime::now() + Duration::from_secs(3);
    let short = Validity { until, ..valid() };
    let pair = made.authority.certificate("old", &["127.0.0.1".to_owned()], short).expect("a certificate");
    let (old, node) = (made.of(&pair).expect("valid now"), made.node(&["127.0.0.1"]));
    let (_serving, address) = served(&old);
    ask(&Links::to(&address, &node).expect("links")).expect("valid now");
    // Certificates know whole seconds.
    std::thread::sleep(Duration::from_millis(4_100));
    refused(&old, &node, "its certificate has expired", "it says that this node's certificate has expired");
    refused(&node, &old, "it says that this node's certificate has expired", "its certificate has expired");
    let Security::Certificates(certificates) = &old else { panic!("it has certificates") };
    let fresh = |hosts: &[&str]| match made.node(hosts) {
        Security::Certificates(fresh) => fresh,
        Security::Secret(_) => panic!("it has certificates"),
    };
    assert!(certificates.replace(&fresh(&["10.0.0.1"]), &address).is_err(), "it is for another address");
    ask(&Links::to(&address, &node).expect("links")).expect_err("the old one is in place");
    certificates.replace(&fresh(&["127.0.0.1"]), &address).expect("it fits");
    ask(&Links::to(&address, &node).expect("links")).expect("it has a new one, and was not started again");
    let again = made.of(&pair).expect_err("a node does not start with it");
    assert!(again.message().contains("has expired"), "{again}");
}

#[test]
fn who_shows_another_certificate_or_none_is_refused() {
    let (made, other) = (Made::new("prod"), Made::new("other"));
    let (_serving, address) = served(&made.node(&["127.0.0.1"]));
    assert!(heard(&address, &made, None).contains("CertificateRequired"));
    assert_eq!(Log::of_process().lines(&address, "it shows no certificate"), 1);
    assert!(heard(&address, &made, Some(&other.pair(&["127.0.0.1"]))).contains("UnknownCA"));
    assert_eq!(Log::of_process().lines(&address, "its certificate is of another authority"), 1);
    assert_eq!(heard(&address, &made, Some(&made.pair(&["127.0.0.1"]))), "[161]", "who shows one of this is greeted");
}

#[test]
fn who_says_nothing_holds_up_nobody_and_is_left() {
    let (made, log) = (Made::new("prod"), Log::of_process());
    let node = made.node(&["127.0.0.1"]);
    let (_serving, address) = served(&node);
    let mut silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    // The beginning of a handshake.
    silent[0].write_all(&[0x16, 3]).unwrap();
    let began = Instant::now();
    ask(&Links::to(&address, &node).expect("links")).expect("it is answered");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0)), "the node ends what does not begin");
    }
    assert_eq!(log.lines(&address, "it does not begin within 5 s"), 1);
    let (_plain, plain) = served(&Security::Secret("a secret".to_owned()));
    let mut other = TcpStream::connect(&plain).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(matches!(other.read(&mut [0]), Ok(0)));
    assert_eq!(log.lines(&plain, "it does not begin as nodes of this version"), 1);
}

#[test]
fn one_authority_follows_another_while_nodes_trust_both() {
    let (old, new) = (Made::new("prod"), Made::new("prod"));
    let both = format!("{}{}", old.pem, new.pem);
    let node = |made: &Made| {
        let pair = made.pair(&["127.0.0.1"]);
        let certificates = Certificates::new(both.as_bytes(), pair.certificate.as_bytes(), pair.key.as_bytes());
        Security::Certificates(certificates.expect("one of them has signed it"))
    };
    let (of_old, of_new) = (node(&old), node(&new));
    for (server, client) in [(&of_old, &of_new), (&of_new, &of_old)] {
        let (_serving, address) = served(server);
        ask(&Links::to(&address, client).expect("links")).expect("both are trusted");
    }
}

#[test]
fn files_that_do_not_belong_together_are_told_by_name() {
    let (made, other) = (Made::new("prod"), Made::new("other"));
    let (pair, foreign) = (made.pair(&["10.0.0.1", "node-1"]), other.pair(&["10.0.0.1"]));
    let error = made.of(&foreign).expect_err("of two clusters");
    let message = format!("is of {}, and the authority's of {}", other.authority.subject(), made.authority.subject());
    assert!(error.message().contains(&message), "{error}");
    let mixed = Pair { certificate: pair.certificate.clone(), key: foreign.key };
    assert!(made.of(&mixed).expect_err("of two nodes").message().contains("the node's certificate cannot be used"));
    let (_, of_other) = Authority::new("third", valid()).expect("an authority");
    let error = Authority::read(made.pem.as_bytes(), of_other.key.as_bytes()).expect_err("of two clusters");
    assert!(
        error.message().contains("the authority of cluster \"prod\"") && error.message().contains("another cluster's")
    );
    assert!(Authority::read(of_other.certificate.as_bytes(), of_other.key.as_bytes()).is_ok());
    for hosts in [vec![], vec!["10.0.0.1:7400".to_owned()], vec!["a host".to_owned()]] {
        assert!(made.authority.certificate("a node", &hosts, valid()).is_err(), "{hosts:?}");
    }

    let node = made.of(&pair).expect("they fit");
    let listen = "127.0.0.1:7400".parse().unwrap();
    let error = node.announced(listen, None).expect_err("its certificate is for other hosts");
    assert!(error.message().contains("at 127.0.0.1, and its certificate is for 10.0.0.1, node-1"), "{error}");
    assert_eq!(node.announced(listen, Some("node-1:7400")).unwrap(), "node-1:7400");
    let error = Security::Secret("a secret".to_owned()).announced("10.0.0.1:7400".parse().unwrap(), None).unwrap_err();
    assert!(error.hint().unwrap().contains("alluvia cluster init"), "{error}");
}
