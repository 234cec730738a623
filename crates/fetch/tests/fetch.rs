//! Fetching from hosts of this machine that answer as they are told, by every way there is of not being allowed to.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

#[path = "support/web.rs"]
mod web;

use alluvia_fetch::{Fetcher, Hosts, Resolve, Rules, Waits};
use alluvia_types::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, thread};
use web::{elsewhere, plain};

/// A host, and how often it was asked.
struct Served {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

fn host(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Served {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let address = web::host(move |path| {
        count.fetch_add(1, Ordering::SeqCst);
        answer(path)
    });
    Served { address, asked }
}

fn rules(hosts: &[&str]) -> Rules {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    Rules::only(Hosts::parse(&hosts).unwrap(), 1 << 20)
}

/// Names as the tests have them: all lead to this machine.
fn here() -> Resolve {
    Arc::new(|name, port| match name {
        "nobody.example.org" => Err(io::Error::other("no such name")),
        _ => Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)]),
    })
}

fn get(fetcher: &Fetcher, url: &str) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    let bytes = fetcher.get(url, &mut body, &|| false)?;
    assert_eq!(bytes, body.len() as u64);
    Ok(body)
}

fn kind(fetcher: &Fetcher, url: &str) -> ErrorKind {
    get(fetcher, url).unwrap_err().kind()
}

#[test]
fn a_file_comes_whole_with_a_length_or_in_chunks() {
    let served = host(|path| match path {
        "/a.csv?key=secret" => plain(b"a,b\n1,2\n"),
        "/empty" => plain(b""),
        "/chunks" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone".to_vec(),
    });
    let address = served.address;
    let fetcher = Fetcher::new(rules(&[&address.to_string()]));
    assert_eq!(get(&fetcher, &format!("http://{address}/a.csv?key=secret#part")).unwrap(), b"a,b\n1,2\n");
    assert_eq!(get(&fetcher, &format!("http://{address}/empty")).unwrap(), b"");
    assert_eq!(get(&fetcher, &format!("http://{address}/chunks")).unwrap(), b"abcde");
    let error = get(&fetcher, &format!("http://{address}/none?key=secret")).unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.message().contains("404"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    // The process's own sessions may ask anybody.
    assert_eq!(get(&Fetcher::new(Rules::free()), &format!("http://{address}/chunks")).unwrap(), b"abcde");
}

#[test]
fn only_hosts_that_are_listed_are_asked() {
    let served = host(|_| plain(b"x"));
    let port = served.address.port();
    let refused = |hosts: &[&str], url: &str| {
        let fetcher = Fetcher::with_resolver(rules(hosts), here());
        let error = get(&fetcher, url).unwrap_err();
        assert_eq!((error.kind(), served.asked.load(Ordering::SeqCst)), (ErrorKind::Forbidden, 0), "{url}: {error}");
        assert_eq!(error.kind().sqlstate(), "42501");
        error
    };
    let url = format!("http://127.0.0.1:{port}/");
    assert!(refused(&[], &url).hint().unwrap().contains("copy_hosts"));
    refused(&["127.0.0.1"], &url);
    refused(&[&format!("127.0.0.2:{port}")], &url);
    refused(&["localhost"], &url);
    // A name that leads to this machine, whoever answers for it.
    let inner = format!("data.example.org:{port}");
    let error = refused(&[&inner], &format!("http://{inner}/"));
    assert!(
        error.message().contains("127.0.0.1") && error.hint().unwrap().contains("copy_private_addresses"),
        "{error}"
    );
    refused(&[&format!("*:{port}")], &url);
    // The same in other notations.
    for written in ["127.1", "0x7f000001", "[::ffff:127.0.0.1]", "2130706433"] {
        refused(&[&format!("*:{port}")], &format!("http://{written}:{port}/"));
    }
    let open = Rules { private_addresses: true, ..rules(&[&inner]) };
    assert_eq!(get(&Fetcher::with_resolver(open, here()), &format!("http://{inner}/")).unwrap(), b"x");
    let named = Fetcher::with_resolver(rules(&["nobody.example.org"]), here());
    assert_eq!(kind(&named, "http://nobody.example.org/"), ErrorKind::Io);
}

#[test]
fn a_name_is_looked_up_once_and_only_checked_addresses_are_connected_to() {
    let served = host(|_| plain(b"x"));
    let port = served.address.port();
    let looked_up = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looked_up);
    // What is connected to is what was found at first, where nobody listens: a second look-up would find the host.
    let changing: Resolve = Arc::new(move |_, port| {
        let last = if count.fetch_add(1, Ordering::SeqCst) == 0 { 2 } else { 1 };
        Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), port)])
    });
    let listed = format!("rebound.example.org:{port}");
    let open = Rules { private_addresses: true, ..rules(&[&listed]) };
    let fetcher = Fetcher::with_resolver(open, changing);
    assert_eq!(kind(&fetcher, &format!("http://{listed}/")), ErrorKind::Io);
    assert_eq!((looked_up.load(Ordering::SeqCst), served.asked.load(Ordering::SeqCst)), (1, 0));
}

#[test]
fn where_an_answer_leads_is_checked_as_the_first_url() {
    let served = host(|path| match path {
        "/relative" => elsewhere("sub/file"),
        "/sub/file" => plain(b"there"),
        "/around" => elsewhere("/around"),
        "/nowhere" => b"HTTP/1.1 301 Moved Permanently\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "/metadata" => elsewhere("http://169.254.169.254/latest/meta-data/"),
        "/local" => elsewhere("http://localhost/"),
        "/listed-but-private" => elsewhere("http://inner.example.org/"),
        "/file" => elsewhere("file:///etc/passwd"),
        "/user" => elsewhere("http://me:pw@example.org/"),
        _ => plain(b"?"),
    });
    let address = served.address;
    let fetcher = Fetcher::with_resolver(rules(&[&address.to_string(), "*.example.org"]), here());
    let at = |path: &str| format!("http://{address}{path}");
    assert_eq!(get(&fetcher, &at("/relative")).unwrap(), b"there");
    for (path, want) in [
        ("/around", ErrorKind::Io),
        ("/nowhere", ErrorKind::Io),
        ("/metadata", ErrorKind::Forbidden),
        ("/local", ErrorKind::Forbidden),
        ("/listed-but-private", ErrorKind::Forbidden),
        ("/file", ErrorKind::NotSupported),
        ("/user", ErrorKind::NotSupported),
    ] {
        assert_eq!(kind(&fetcher, &at(path)), want, "{path}");
    }
}

#[test]
fn a_body_that_is_cut_or_too_long_is_refused() {
    let served = host(|path| match path {
        "/cut" => web::announced(b"only this", 100),
        "/cut-chunks" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nonly this".to_vec(),
        "/no-length" => b"HTTP/1.1 200 OK\r\n\r\nall of it, or not".to_vec(),
        "/long" => plain([7; 2_000]),
        "/long-chunks" => {
            let chunk = [b"3e8\r\n".as_slice(), &[7; 1_000], b"\r\n"].concat();
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice(), &chunk.repeat(3), b"0\r\n\r\n"]
                .concat()
        }
        "/brotli" => b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx".to_vec(),
        _ => Vec::new(),
    });
    let address = served.address;
    let fetcher = Fetcher::new(Rules { bytes_max: 1_999, ..rules(&[&address.to_string()]) });
    for (path, want, words) in [
        ("/cut", ErrorKind::Io, "cut"),
        ("/cut-chunks", ErrorKind::Io, "cut"),
        ("/no-length", ErrorKind::Io, "how long"),
        ("/long", ErrorKind::TooLarge, "1999"),
        ("/long-chunks", ErrorKind::TooLarge, "1999"),
        ("/brotli", ErrorKind::NotSupported, "br"),
        ("/silent", ErrorKind::Io, "cannot be read"),
    ] {
        let error = get(&fetcher, &format!("http://{address}{path}")).unwrap_err();
        assert!(error.kind() == want && error.message().contains(words), "{path}: {error}");
    }
    let exactly = Fetcher::new(Rules { bytes_max: 2_000, ..rules(&[&address.to_string()]) });
    assert_eq!(get(&exactly, &format!("http://{address}/long")).unwrap(), [7; 2_000]);
}

#[test]
fn a_fetch_ends_when_it_is_stopped_and_when_its_host_is_silent() {
    // Accepts, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            open.push(stream.unwrap());
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let url = format!("http://{address}/");
    let fetcher = Fetcher::new(rules(&[&address.to_string()]));
    let error = fetcher.get(&url, &mut io::sink(), &|| asked.load(Ordering::SeqCst) > 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let brief = Duration::from_millis(20);
    let waits = Waits { head: brief, ..Waits::default() };
    let impatient = Fetcher::new(Rules { waits, ..rules(&[&address.to_string()]) });
    assert!(get(&impatient, &url).unwrap_err().message().contains("does not answer"));
    // Also within the runtime of somebody else, on a thread that may block.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let within = runtime.block_on(async { tokio::task::spawn_blocking(move || kind(&impatient, &url)).await.unwrap() });
    assert_eq!(within, ErrorKind::Io);
}

#[test]
fn what_is_no_url_of_a_file_is_refused_by_name() {
    let fetcher = Fetcher::new(Rules::free());
    for (url, want) in [
        ("not a url", ErrorKind::InvalidValue),
        ("https://", ErrorKind::InvalidValue),
        ("s3://bucket/key", ErrorKind::NotSupported),
        ("file:///etc/passwd", ErrorKind::NotSupported),
        ("https://me:secret@example.org/", ErrorKind::NotSupported),
    ] {
        let error = fetcher.check(url).unwrap_err();
        assert!(error.kind() == want && !error.to_string().contains("secret"), "{url}: {error}");
    }
    fetcher.check("https://example.org/a.parquet").unwrap();
}

/// https with a certificate of an authority that is believed, or is not; and from there to http.
#[test]
fn tls_is_for_the_name_in_the_url() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let file = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let chain = vec![CertificateDer::from_pem_file(file("certificate.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // Who does not believe the certificate hangs up.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = vec![0; 4_096];
            let count = stream.read(&mut request).await.unwrap();
            let is_down = request[..count].starts_with(b"GET /down");
            let answer = if is_down { elsewhere("http://data.example.org/") } else { plain(b"sealed") };
            stream.write_all(&answer).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    let fetcher = |listed: &str, authority: &str| {
        let hosts = [format!("{listed}:{port}"), "data.example.org".to_owned()];
        let rules = Rules {
            private_addresses: true,
            certificates: file(authority),
            ..Rules::only(Hosts::parse(&hosts).unwrap(), 1 << 20)
        };
        Fetcher::with_resolver(rules, here())
    };
    let known = fetcher("data.example.org", "authority.pem");
    assert_eq!(get(&known, &format!("https://data.example.org:{port}/x")).unwrap(), b"sealed");
    assert_eq!(
        kind(&known, &format!("https://data.example.org:{port}/down")),
        ErrorKind::Forbidden,
        "from https to http"
    );
    let other = fetcher("other.example.org", "authority.pem");
    assert_eq!(kind(&other, &format!("https://other.example.org:{port}/x")), ErrorKind::Io, "another's certificate");
    // The server's own certificate is no authority, and that of nobody known.
    let unknown = fetcher("data.example.org", "../../server-http/tests/http/certificate.pem");
    assert_eq!(kind(&unknown, &format!("https://data.example.org:{port}/x")), ErrorKind::Io);
}
