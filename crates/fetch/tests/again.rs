//! Files that are cut on their way: gone on with, or refused; never put together of two.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_fetch::{Again, Fetcher, Hosts, Rules};
use alluvia_types::{Error, ErrorKind};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What one request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Request {
    /// How many came before it.
    number: usize,
    /// The first byte that is wanted.
    from: Option<usize>,
    /// And only of this state of the file.
    tag: Option<String>,
}

/// A host that answers every request with these bytes, and hangs up.
struct Host {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
}

fn host(answer: impl Fn(&Request) -> Vec<u8> + Send + 'static) -> Host {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&asked);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let field = |name: &str| {
                head.iter().filter_map(|line| line.split_once(": ")).find(|(known, _)| known.eq_ignore_ascii_case(name))
            };
            let from = field("range").map(|(_, value)| value[6..].trim_end_matches('-').parse().unwrap());
            let asked = Request { number, from, tag: field("if-range").map(|(_, value)| value.to_owned()) };
            all.lock().unwrap().push(asked.clone());
            let _ = stream.write_all(&answer(&asked));
        }
    });
    Host { address, asked }
}

impl Host {
    fn fetcher(&self, times: u32) -> Fetcher {
        let again = Again { times, first_wait: Duration::ZERO, longest_wait: Duration::ZERO };
        Fetcher::new(Rules { again, ..Rules::only(Hosts::parse(&[self.address.to_string()]).unwrap(), 1 << 20) })
    }

    fn get(&self, times: u32) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        let bytes =
            self.fetcher(times).get(&format!("http://{}/file?key=secret", self.address), &mut body, &|| false)?;
        assert_eq!(bytes, body.len() as u64);
        Ok(body)
    }

    /// First bytes that were asked for, in turn.
    fn starts(&self) -> Vec<Option<usize>> {
        self.asked.lock().unwrap().iter().map(|asked| asked.from).collect()
    }
}

/// A file with its tag, of which so many bytes come.
fn whole(file: &[u8], tag: &str, come: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n", file.len());
    [head.as_bytes(), &file[..come]].concat()
}

/// The bytes of it from `from` to `to`, of which so many come.
fn part(file: &[u8], tag: &str, (from, to): (usize, usize), come: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nETag: {tag}\r\nContent-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n\r\n",
        to - 1,
        file.len(),
        to - from
    );
    [head.as_bytes(), &file[from..from + come]].concat()
}

fn file(seed: usize) -> Vec<u8> {
    (0..1_000).map(|at| (at * 7 + at / 256 + seed) as u8).collect()
}

#[test]
fn what_was_cut_goes_on_from_where_it_was() {
    let host = host(|asked| match asked.number {
        0 => whole(&file(0), "\"a\"", 400),
        // A part of the rest, and the connection is cut within it.
        1 => part(&file(0), "\"a\"", (400, 900), 300),
        // The host does not answer, or cannot for a while.
        2 => Vec::new(),
        3 => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy".to_vec(),
        // It gives less than it was asked for.
        4 => part(&file(0), "\"a\"", (700, 800), 100),
        _ => part(&file(0), "\"a\"", (800, 1_000), 200),
    });
    assert_eq!(host.get(5).unwrap(), file(0));
    assert_eq!(host.starts(), [None, Some(400), Some(700), Some(700), Some(700), Some(800)]);
    let tags: Vec<_> = host.asked.lock().unwrap().iter().skip(1).map(|asked| asked.tag.clone()).collect();
    assert!(tags.iter().all(|tag| tag.as_deref() == Some("\"a\"")), "{tags:?}");
}

#[test]
fn a_host_that_gives_no_parts_gives_all_again() {
    let host = host(|asked| match asked.number {
        // Before its first byte, too, where there is nothing to go on with.
        0 => whole(&file(0), "\"a\"", 0),
        1 => whole(&file(0), "\"a\"", 400),
        2 => whole(&file(0), "\"a\"", 300),
        _ => whole(&file(0), "\"a\"", 1_000),
    });
    assert_eq!(host.get(3).unwrap(), file(0));
    assert_eq!(host.starts(), [None, None, Some(400), Some(400)]);
}

#[test]
fn a_file_that_has_changed_is_an_error() {
    let other = file(1);
    let longer = [file(0), file(1)].concat();
    for answer in [
        whole(&other, "\"b\"", 1_000),
        whole(&other, "W/\"a\"", 1_000),
        whole(&longer, "\"a\"", 2_000),
        part(&other, "\"b\"", (400, 1_000), 600),
        part(&longer, "\"a\"", (400, 2_000), 1_600),
        b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec(),
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 400-999/1000\r\nContent-Length: 600\r\n\r\n".to_vec(),
        b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */300\r\nContent-Length: 0\r\n\r\n".to_vec(),
    ] {
        let shown = String::from_utf8_lossy(&answer[..80.min(answer.len())]).into_owned();
        let host = host(move |asked| if asked.number == 0 { whole(&file(0), "\"a\"", 400) } else { answer.clone() });
        let error = host.get(5).unwrap_err();
        let is_said =
            error.message().contains("has changed") || shown.contains("chunked") && error.message().contains("cut");
        assert!(error.kind() == ErrorKind::Io && is_said && !error.to_string().contains("secret"), "{shown}: {error}");
    }
}

#[test]
fn parts_that_were_not_asked_for_are_refused() {
    for answer in [
        part(&file(0), "\"a\"", (300, 1_000), 700),
        part(&file(0), "\"a\"", (500, 1_000), 500),
        b"HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Length: 600\r\n\r\n".to_vec(),
        b"HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes 400-999/*\r\nContent-Length: 600\r\n\r\n"
            .to_vec(),
        b"HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Range: bytes 400-999/1000\r\nContent-Length: 500\r\n\r\n"
            .to_vec(),
    ] {
        let host = host(move |asked| if asked.number == 0 { whole(&file(0), "\"a\"", 400) } else { answer.clone() });
        let error = host.get(5).unwrap_err();
        assert!(error.kind() == ErrorKind::Io && error.message().contains("read on from byte 400"), "{error}");
        assert_eq!(host.starts().len(), 2);
    }
    // Nor is a part taken for the whole.
    let host = host(|_| part(&file(0), "\"a\"", (0, 1_000), 1_000));
    assert!(host.get(5).unwrap_err().message().contains("206"));
}

#[test]
fn without_a_strong_tag_nothing_is_added_to_what_came() {
    for tag in ["W/\"a\"", "a", ""] {
        let host = host(move |_| whole(&file(0), tag, 400));
        let error = host.get(5).unwrap_err();
        assert!(error.message().contains("cut after 400") && error.hint().unwrap().contains("ETag"), "{error}");
        assert_eq!(host.starts(), [None]);
    }
}

#[test]
fn tries_are_bounded_and_a_wait_can_be_stopped() {
    let host = host(|_| whole(&file(0), "\"a\"", 400));
    let error = host.get(3).unwrap_err();
    assert!(error.message().contains("cut after 400") && error.hint().unwrap().contains("3 times"), "{error}");
    assert_eq!(host.starts(), [None, Some(400), Some(400), Some(400)]);
    // What never began is not tried again.
    let silent = self::host(|_| b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec());
    assert!(silent.get(3).unwrap_err().message().contains("503"));
    assert_eq!(silent.starts(), [None]);
    let long = Duration::from_secs(1_000_000);
    let again = Again { times: 3, first_wait: long, longest_wait: long };
    let fetcher = Fetcher::new(Rules { again, ..Rules::free() });
    let url = format!("http://{}/", host.address);
    let stopped = fetcher.get(&url, &mut std::io::sink(), &|| host.starts().len() > 4);
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
}

/// Hosts that cut, give parts or all, are silent, and change the file: what comes is one state of it, or an error.
#[test]
fn whatever_a_host_does_the_file_is_one_state_of_it_or_none() {
    let seed: u64 = std::env::var("ALLUVIA_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_122);
    let (mut whole_ones, mut refused) = (0, 0);
    for round in 0..300 {
        let state = AtomicU64::new((seed + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let below = move |bound: usize| {
            let mut number = state.load(Ordering::SeqCst);
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            state.store(number, Ordering::SeqCst);
            (number % bound as u64) as usize
        };
        let changes_at = (round % 3 == 0).then(|| 1 + below(4));
        let has_tag = round % 5 != 0;
        let host = host(move |asked| {
            let state = usize::from(changes_at.is_some_and(|at| asked.number >= at));
            let tag = match has_tag {
                true => format!("\"{state}\""),
                false => format!("W/\"{state}\""),
            };
            let file = file(state);
            let is_patient = asked.number > 20;
            let cut = |bytes: usize| if is_patient { bytes } else { below(bytes + 1) };
            let is_same = asked.tag.as_ref() == Some(&tag);
            match (asked.from, below(4)) {
                (_, 0) if asked.number > 0 && !is_patient => Vec::new(),
                (Some(from), 1 | 2) if is_same => {
                    let to = if is_patient { 1_000 } else { from + 1 + below(1_000 - from) };
                    part(&file, &tag, (from, to), cut(to - from))
                }
                _ => whole(&file, &tag, cut(1_000)),
            }
        });
        match host.get(40) {
            Ok(body) => {
                whole_ones += 1;
                assert!(body == file(0) || changes_at.is_some() && body == file(1), "seed {seed}, round {round}");
            }
            Err(error) => {
                refused += 1;
                assert!(changes_at.is_some() || !has_tag, "seed {seed}, round {round}: {error}");
            }
        }
    }
    assert!(whole_ones > 100 && refused > 20, "{whole_ones} {refused}");
}
