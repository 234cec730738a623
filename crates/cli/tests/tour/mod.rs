//! The commands of the README's tour, run as they stand there. (What its SQL gives through the Rust API is tested in `node`.)
//!
//! Invariant: every command in the README's text is run here, or listed here with who runs it.

use super::remote::ready;
use super::{command, stderr, stdout};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

const README: &str = include_str!("../../../../README.md");

/// As `more.csv` of the tour is: one row.
const MORE: &str = "sold_at,country,state,city,category,brand,item,price,quantity\n\
    2026-11-21 10:00:00,Chile,Maule,Talca,Music,Andes,Zampoña,19.5,2\n";

/// Blocks of the README in a language.
fn blocks<'a>(readme: &'a str, language: &str) -> Vec<&'a str> {
    let fenced = readme.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// Whether an answer has figures that differ from run to run: an estimate, or times.
fn differs(answer: &str) -> bool {
    answer.contains('\u{b1}') || answer.contains(" ms")
}

/// A text with `#` for each number, and without what makes columns as wide as their numbers.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for c in text.chars() {
        let last = masked.chars().next_back();
        match c {
            '0'..='9' if last == Some('#') => {}
            '0'..='9' => masked.push('#'),
            // Within a number.
            ',' | '.' if last == Some('#') => {}
            ' ' | '-' if last == Some(c) => {}
            c => masked.push(c),
        }
    }
    masked
}

/// Commands within the README's text.
fn commands(readme: &str) -> Vec<&str> {
    let text = readme.split("```").step_by(2);
    let code = text.flat_map(|text| text.split('`').skip(1).step_by(2));
    code.filter(|code| ["make ", "alluvia ", "curl "].iter().any(|program| code.starts_with(program))).collect()
}

/// Runs `alluvia` in a folder, which must go well; gives its standard output.
fn good_in(folder: &Path, args: &[&str], input: &str) -> String {
    let mut child = command(args).current_dir(folder).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}\n{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// The body of what a request over HTTP is answered with, which must go well.
fn asked(address: &str, request: &str, headers: &[&str], body: &str) -> String {
    let mut lines = vec![format!("{request} HTTP/1.1"), "Host: localhost".to_owned(), "Accept: */*".to_owned()];
    lines.push("Connection: close".to_owned());
    lines.push(format!("Content-Length: {}", body.len()));
    lines.extend(headers.iter().map(|&header| header.to_owned()));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{}\r\n\r\n{body}", lines.join("\r\n")).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {answer}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{request}: {answer}");
    match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let (chunk, next) = after.split_at(usize::from_str_radix(length, 16).unwrap());
        body.push_str(chunk);
        rest = next.trim_start_matches("\r\n");
    }
    body
}

#[test]
fn the_commands_of_the_tour_do_what_they_say() {
    assert_eq!(
        commands(README),
        [
            // A bench, which `make test` does not run.
            "make bench NAME=mixed",
            // A build of its own. What it packs is typed by `scripts/install.py`, of the tests' program.
            "make dist",
            "make sql DIR=./tour",
            "alluvia load ./tour sales more.csv",
            "alluvia serve ./tour",
            "alluvia serve ./tour --set authentication=password",
            "curl localhost:8080/query -d \"SELECT count(*) FROM sales\"",
            "alluvia sql --host 127.0.0.1",
            // The wheel is made and tested by `make test`.
            "make wheel",
        ],
        "a command of the README is to be run here"
    );
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fs::write(folder.join("more.csv"), MORE).unwrap();

    // What `make sql DIR=./tour` runs.
    let shown = good_in(folder, &["sql", "./tour"], &blocks(README, "sql").concat());
    let (_, tour) = README.split_once("## Five minutes").unwrap();
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let (mut from, mut differing) = (0, 0);
    for expected in blocks(tour, "text") {
        let expected: Vec<&str> = expected.trim_matches('\n').lines().map(str::trim_end).collect();
        let is_masked = expected.iter().any(|line| differs(line));
        let is_same = |(found, wanted): (&&str, &&str)| match is_masked {
            true => masked(found) == masked(wanted),
            false => found == wanted,
        };
        let mut places = lines[from..].windows(expected.len());
        let place = places.position(|found| found.iter().zip(&expected).all(is_same));
        let place = place.unwrap_or_else(|| panic!("{expected:#?}\nis not in\n{}", lines[from..].join("\n")));
        (from, differing) = (from + place + expected.len(), differing + usize::from(is_masked));
    }
    assert_eq!(differing, 2, "the tour shows an estimate and a plan");
    let told = |sql: &str| good_in(folder, &["sql", "./tour", "--format", "csv", "-c", sql], "");
    assert_eq!(told("SELECT count(*) AS n FROM sales"), "n\n4\n");

    let said = good_in(folder, &["load", "./tour", "sales", "more.csv"], "");
    assert!(said.contains("COPY 1"), "{said}");
    assert_eq!(
        told("SELECT count(*) AS n, count(*) FILTER (WHERE item = 'Zampoña') AS more FROM sales"),
        "n,more\n5,2\n"
    );
    let said = good_in(folder, &["load", "./tour", "more", "more.csv"], "");
    assert!(said.contains("CREATE TABLE more") && said.contains("COPY 1"), "{said}");
    assert_eq!(
        told("SELECT column_name, data_type FROM alluvia.columns WHERE table_name = 'more' ORDER BY position"),
        "column_name,data_type\nsold_at,TIMESTAMP\ncountry,TEXT\nstate,TEXT\ncity,TEXT\ncategory,TEXT\nbrand,TEXT\nitem,TEXT\n\
         price,DOUBLE\nquantity,BIGINT\n"
    );

    // On the ports of the README or the next free ones: it says where.
    let server = ready(command(&["serve", "./tour"]).current_dir(folder).spawn().unwrap());
    let http = server.said.lines().find_map(|line| line.split_once("HTTP's on http://")).unwrap().1.trim();
    // What curl says of the bytes of -d.
    let form = ["Content-Type: application/x-www-form-urlencoded"];
    let count = || asked(http, "POST /query", &form, "SELECT count(*) FROM sales");
    assert!(count().contains("{\"count\":5}"), "{}", count());
    for duplicate in ["\"duplicate\":false", "\"duplicate\":true"] {
        let headers = ["Content-Type: text/csv", "Idempotency-Key: tour-1"];
        let told = asked(http, "POST /ingest/sales", &headers, MORE);
        assert!(told.contains(duplicate) && told.contains("\"rows\":1"), "{told}");
    }
    assert!(count().contains("{\"count\":6}"), "{}", count());
    assert!(asked(http, "GET /metrics", &[], "").contains("alluvia_statements_total"));
    let flight = server.url.strip_prefix("grpc://").unwrap();
    let args = ["sql", "--host", flight, "--format", "csv"];
    assert_eq!(good_in(folder, &args, "SELECT count(*) AS n FROM sales;\n"), "n\n6\n");

    drop(server);
    let server =
        ready(command(&["serve", "./tour", "--set", "authentication=password"]).current_dir(folder).spawn().unwrap());
    assert!(server.said.starts_with("the password of user alluvia, shown this once: "), "{}", server.said);
    let flight = server.url.strip_prefix("grpc://").unwrap();
    let refused = command(&["sql", "--host", flight, "-c", "SELECT 1"]).current_dir(folder).output().unwrap();
    assert!(!refused.status.success() && stderr(&refused).contains("password"), "{}", stderr(&refused));
}
