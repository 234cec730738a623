//! Hosts behind a proxy: it is asked for the addresses that were checked.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

#[path = "support/web.rs"]
mod web;

use alluvia_fetch::{Fetcher, Hosts, Proxy, Resolve, Rules};
use alluvia_types::{Error, ErrorKind};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::{io, thread};
use web::{elsewhere, host, plain};

/// A proxy that leads everybody to one host, or nobody anywhere, and what it was asked for.
fn proxy(leads_to: Option<SocketAddr>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            all.lock().unwrap().push(lines.next().unwrap_or_default());
            let _ = lines.find(String::is_empty);
            let Some(leads_to) = leads_to else {
                let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
                continue;
            };
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let there = TcpStream::connect(leads_to).unwrap();
            let pass = |mut from: TcpStream, mut to: TcpStream| {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                })
            };
            pass(stream.try_clone().unwrap(), there.try_clone().unwrap());
            pass(there, stream);
        }
    });
    (address, asked)
}

/// All names lead to this machine, but those that nobody knows here.
fn here() -> Resolve {
    Arc::new(|name, port| match name {
        "far.example.org" => Err(io::Error::other("no such name")),
        _ => Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)]),
    })
}

fn fetcher(proxy: SocketAddr, except: &[&str], rules: Rules) -> Fetcher {
    let except: Vec<String> = except.iter().map(|host| (*host).to_owned()).collect();
    let except = Hosts::of_setting("copy_proxy_except", &except).unwrap();
    let proxy = Proxy::parse(&format!("http://{proxy}"), except).unwrap();
    Fetcher::with_resolver(Rules { proxy: Some(proxy), ..rules }, here())
}

fn only(hosts: &[&str], private_addresses: bool) -> Rules {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    Rules { private_addresses, ..Rules::only(Hosts::parse(&hosts).unwrap(), 1 << 20) }
}

fn get(fetcher: &Fetcher, url: &str) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    fetcher.get(url, &mut body, &|| false)?;
    Ok(body)
}

#[test]
fn a_proxy_is_asked_for_the_address_that_was_checked() {
    let web = host(|path| match path {
        "/file" => plain(b"there"),
        "/moved" => elsewhere("/file"),
        "/away" => elsewhere("http://169.254.169.254/latest"),
        _ => plain(b"?"),
    });
    let (port, (address, asked)) = (web.port(), proxy(Some(web)));
    let listed = format!("data.example.org:{port}");
    let url = |path: &str| format!("http://{listed}{path}");
    let fetcher = fetcher(address, &[], only(&[&listed, "169.254.169.254:81"], true));
    let way = format!("CONNECT 127.0.0.1:{port} HTTP/1.1");
    assert_eq!(get(&fetcher, &url("/file")).unwrap(), b"there");
    assert_eq!(get(&fetcher, &url("/moved")).unwrap(), b"there");
    assert_eq!(*asked.lock().unwrap(), vec![way.clone(); 3]);
    assert_eq!(get(&fetcher, &url("/away")).unwrap_err().kind(), ErrorKind::Forbidden);
    assert_eq!(asked.lock().unwrap().len(), 4);
}

#[test]
fn what_may_not_be_asked_is_not_asked_through_a_proxy_either() {
    let (address, asked) = proxy(None);
    let private = fetcher(address, &[], only(&["data.example.org", "far.example.org"], false));
    for (url, want) in [
        ("http://data.example.org/", ErrorKind::Forbidden),
        ("http://other.example.org/", ErrorKind::Forbidden),
        ("http://127.0.0.1/", ErrorKind::Forbidden),
        // Under rules names are looked up here.
        ("http://far.example.org/", ErrorKind::Io),
    ] {
        assert_eq!(get(&private, url).unwrap_err().kind(), want, "{url}");
    }
    assert!(asked.lock().unwrap().is_empty());
}

#[test]
fn without_rules_the_proxy_looks_names_up_and_exceptions_are_asked_directly() {
    let web = host(|path| plain(path));
    let (port, (address, asked)) = (web.port(), proxy(Some(web)));
    let except = format!("near.example.org:{port}");
    let free = fetcher(address, &[&except], Rules::free());
    assert_eq!(get(&free, &format!("http://far.example.org:{port}/a")).unwrap(), b"/a");
    assert_eq!(*asked.lock().unwrap(), [format!("CONNECT far.example.org:{port} HTTP/1.1")]);
    assert_eq!(get(&free, &format!("http://{except}/b")).unwrap(), b"/b");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[test]
fn a_proxy_that_refuses_is_named() {
    let (address, _) = proxy(None);
    let error = get(&fetcher(address, &[], Rules::free()), "http://far.example.org/x?key=secret").unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.message().contains("403"), "{error}");
    assert!(error.message().contains(&format!("proxy {address}")) && !error.to_string().contains("secret"), "{error}");
}
