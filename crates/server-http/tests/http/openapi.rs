//! `docs/openapi.yaml` against the server: the statuses of errors that it lists are those that the server's own table gives each route;
//! every path, method, media type and status of an answer that it names is seen in one, no answer is seen that it does not name, and
//! answers in JSON have the form of the schema that it names.

use crate::client::{Answered, Asking};
use crate::support::{serve, serve_with};
use alluvia_access::{Access, Passwords, Verifier};
use alluvia_server_http::{ServerOptions, statuses_of};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A value of the part of YAML that the file uses: maps by indentation, and texts, among them lists in one line.
#[derive(Debug)]
enum Yaml {
    Map(Vec<(String, Yaml)>),
    Text(String),
}

impl Yaml {
    fn get(&self, name: &str) -> Option<&Yaml> {
        match self {
            Yaml::Map(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            Yaml::Text(_) => None,
        }
    }

    /// What is below these names, one within the other.
    fn at(&self, names: &[&str]) -> &Yaml {
        names.iter().fold(self, |yaml, name| yaml.get(name).unwrap_or_else(|| panic!("no {name} of {names:?}")))
    }

    /// A text, or those of a list in one line.
    fn texts(&self) -> Vec<&str> {
        match self {
            Yaml::Map(_) => Vec::new(),
            Yaml::Text(text) => {
                let inner = text.trim_start_matches('[').trim_end_matches(']');
                inner.split(',').map(|text| text.trim().trim_matches('\'')).filter(|text| !text.is_empty()).collect()
            }
        }
    }

    /// What a reference within the file leads to, or itself.
    fn followed<'a>(&'a self, file: &'a Yaml) -> &'a Yaml {
        match self.get("$ref").map(Yaml::texts).as_deref() {
            Some([reference]) => file.at(&reference.trim_start_matches("#/").split('/').collect::<Vec<&str>>()),
            _ => self,
        }
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Yaml::Map(members) => members.iter().map(|(name, _)| name.as_str()).collect(),
            Yaml::Text(_) => Vec::new(),
        }
    }
}

/// Reads a block of lines that are indented by at least `indent`. Lists are passed over: the test needs none.
fn parse(lines: &mut std::iter::Peekable<std::vec::IntoIter<(usize, String)>>, indent: usize) -> Yaml {
    let mut members = Vec::new();
    while let Some((depth, line)) = lines.peek().cloned() {
        if depth < indent {
            break;
        }
        lines.next();
        if depth > indent || line.starts_with("- ") {
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("not a member: {line}"));
        let value = match value.trim() {
            "" => {
                let deeper = lines.peek().map_or(0, |(depth, _)| *depth);
                if deeper > indent { parse(lines, deeper) } else { Yaml::Text(String::new()) }
            }
            text => Yaml::Text(text.to_owned()),
        };
        members.push((name.trim_matches('\'').to_owned(), value));
    }
    Yaml::Map(members)
}

fn file() -> Yaml {
    let text = include_str!("../../../../docs/openapi.yaml");
    let line = |line: &str| (line.len() - line.trim_start().len(), line.trim().to_owned());
    let lines: Vec<(usize, String)> =
        text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(line).collect();
    parse(&mut lines.into_iter().peekable(), 0)
}

/// Path, method, status, media type (empty for no body).
type Seen = (String, String, u16, String);

/// What the file says that there is.
fn documented(file: &Yaml) -> BTreeSet<Seen> {
    let mut all = BTreeSet::new();
    let paths = file.get("paths").unwrap();
    for path in paths.names() {
        let operations = paths.get(path).unwrap();
        for method in operations.names() {
            let responses = operations.get(method).unwrap().get("responses").unwrap();
            for status in responses.names() {
                let content = responses.at(&[status]).followed(file).get("content");
                let types = content.map_or(vec![""], Yaml::names);
                for media in types {
                    all.insert((path.to_owned(), method.to_uppercase(), status.parse().unwrap(), media.to_owned()));
                }
            }
        }
    }
    all
}

/// Whether a value has the form that a schema says, as far as types and required members go.
fn check(file: &Yaml, schema: &Yaml, value: &Value, place: &str) {
    let schema = schema.followed(file);
    let types = schema.get("type").map_or(Vec::new(), Yaml::texts);
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_number = name == "integer" && types.contains(&"number");
    assert!(types.is_empty() || types.contains(&name) || is_number, "{place} is of type {name}, and not {types:?}");
    if let Value::Object(members) = value {
        for required in schema.get("required").map_or(Vec::new(), Yaml::texts) {
            assert!(members.contains_key(required), "{place} lacks {required}: {value}");
        }
        for (name, member) in members {
            if let Some(schema) = schema.get("properties").and_then(|all| all.get(name)) {
                check(file, schema, member, &format!("{place}.{name}"));
            }
        }
    }
    if let (Value::Array(all), Some(items)) = (value, schema.get("items")) {
        all.iter().for_each(|one| check(file, items, one, &format!("{place}[]")));
    }
}

struct Walk<'a> {
    file: &'a Yaml,
    seen: BTreeSet<Seen>,
}

impl Walk<'_> {
    fn saw(&mut self, path: &str, method: &str, answer: &Answered) {
        // A wrong method is documented with the right one.
        let method = match method {
            "PUT" if path.starts_with("/query") || path.starts_with("/ingest") => "POST",
            "PUT" => "GET",
            right => right,
        };
        self.seen.insert((path.to_owned(), method.to_owned(), answer.status, answer.content_type().to_owned()));
        if answer.content_type() == "application/json" {
            let (method, status) = (method.to_lowercase(), answer.status.to_string());
            let response = self.file.at(&["paths", path, &method, "responses", &status]).followed(self.file);
            let schema = response.at(&["content", "application/json", "schema"]);
            check(self.file, schema, &answer.json(), &format!("{method} {path} {status}"));
        }
    }

    async fn ask(&mut self, path: &str, method: &str, asking: Asking) -> Answered {
        let answer = asking.send().await;
        self.saw(path, method, &answer);
        answer
    }
}

const QUERY: &str = "/query";
const INGEST: &str = "/ingest/{table}";

/// Errors that a server with nothing else to do does not give: a wrong estimate needs many rows, 429 many wrong passwords, which take
/// their time, and 500 a defect or a broken disk.
const NOT_PROVOKED: [u16; 3] = [422, 429, 500];

#[test]
fn the_errors_in_the_file_are_those_that_each_route_can_give() {
    let file = file();
    let paths = file.at(&["paths"]);
    for path in paths.names() {
        for method in paths.at(&[path]).names() {
            let statuses = paths.at(&[path, method, "responses"]).names();
            let statuses = statuses.iter().map(|status| status.parse::<u16>().unwrap());
            let listed: BTreeSet<u16> = statuses.filter(|status| *status >= 400).collect();
            assert_eq!(listed, statuses_of(path), "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_says_what_the_server_does() {
    let file = file();
    let mut walk = Walk { file: &file, seen: BTreeSet::new() };
    let served = serve_with(ServerOptions {
        statement_bytes_max: 2000,
        body_bytes_max: 5000,
        transfer_timeout: Duration::from_millis(300),
        ..ServerOptions::default()
    })
    .await;
    let query = || served.ask("POST", QUERY);
    let ingest = || served.ask("POST", "/ingest/t");
    walk.ask(QUERY, "POST", query().body("CREATE TABLE t (a INT)")).await;
    // Every type of body that the file names is taken.
    let body_types = |path: &str| {
        let content = file.at(&["paths", path, "post", "requestBody", "content"]);
        content.names().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for media in body_types(QUERY) {
        let body = if media == "application/json" { "{\"sql\": \"SELECT 1 AS a\"}" } else { "SELECT 1 AS a" };
        assert_eq!(
            walk.ask(QUERY, "POST", query().header("content-type", &media).body(body)).await.status,
            200,
            "{media}"
        );
    }
    for media in body_types(INGEST) {
        let accept = if media.contains("arrow") { "application/vnd.apache.arrow.stream" } else { media.as_str() };
        let mut rows = query().header("accept", accept).body("SELECT 1 AS a").send().await;
        if media == "application/json" {
            rows.body = rows.json()["rows"].to_string().into_bytes();
        }
        let answer = walk.ask(INGEST, "POST", ingest().header("content-type", &media).body(rows.body)).await;
        assert_eq!(answer.json()["rows"], serde_json::json!(1), "{media}: {}", answer.text());
    }
    let ok = file.at(&["paths", QUERY, "post", "responses", "200"]);
    for media in ok.get("content").unwrap().names() {
        walk.ask(QUERY, "POST", query().header("accept", media).body("SELECT 1 AS a")).await;
    }
    for header in ok.get("headers").unwrap().names() {
        let answer = query().body("SELECT a FROM t").send().await;
        assert!(answer.headers.contains_key(&header.to_ascii_lowercase()), "{header}");
    }
    // And every status.
    let csv = || ingest().header("content-type", "text/csv");
    let mut long =
        served.ask("POST", QUERY).body("SELECT count(*) FROM generate_series(1, 1000000000000)").begin().await;
    walk.ask(QUERY, "POST", query().header("accept", "text/csv").body("INSERT INTO t VALUES (1)")).await;
    for sql in ["SELEC", "SELECT * FROM nothing", "CREATE TABLE t (a INT)", "BEGIN"] {
        walk.ask(QUERY, "POST", query().body(sql)).await;
    }
    walk.ask(QUERY, "POST", query().header("origin", "https://a.example").body("SELECT 1")).await;
    walk.ask(QUERY, "POST", query().header("accept", "image/png").body("SELECT 1")).await;
    walk.ask(QUERY, "POST", query().body("x".repeat(3000))).await;
    walk.ask(QUERY, "POST", query().header("content-type", "image/png").body("SELECT 1")).await;
    let slow = served
        .ask("POST", "/query?statement_timeout=20ms")
        .body("SELECT count(*) FROM generate_series(1, 1000000000000)");
    walk.ask(QUERY, "POST", slow).await;
    let hungry = served
        .ask("POST", "/query?memory_limit=1MB")
        .body("SELECT array_agg(repeat('x', 1000) || value) AS a FROM generate_series(1, 100000)");
    walk.ask(QUERY, "POST", hungry).await;
    walk.ask(INGEST, "POST", csv().body("x\n")).await;
    walk.ask(INGEST, "POST", csv().header("origin", "https://a.example").body("1\n")).await;
    walk.ask(INGEST, "POST", served.ask("POST", "/ingest/nothing").header("content-type", "text/csv").body("1\n"))
        .await;
    walk.ask(INGEST, "POST", csv().body("1\n".repeat(9000))).await;
    walk.ask(INGEST, "POST", ingest().header("content-type", "image/png").body("1\n")).await;
    let numbered = served.ask("POST", "/ingest/t?producer=p&producer_sequence=7").header("content-type", "text/csv");
    assert_eq!(walk.ask(INGEST, "POST", numbered.body("1\n")).await.error(), (409, "55000".to_owned()));
    let many_headers = (0..200).fold(query().body("SELECT 1"), |asking, _| asking.header("a", "b"));
    assert_eq!(walk.ask(QUERY, "POST", many_headers).await.error(), (431, "54000".to_owned()));
    walk.ask("/metrics", "GET", served.ask("GET", "/metrics").header("origin", "https://a.example")).await;
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.yaml"] {
        walk.ask(path, "GET", served.ask("GET", path)).await;
        let wrong = walk.ask(path, "PUT", served.ask("PUT", path)).await;
        assert!(wrong.headers["allow"].contains("GET"), "{path}");
    }
    walk.ask(QUERY, "PUT", served.ask("PUT", QUERY)).await;
    walk.ask(INGEST, "PUT", served.ask("PUT", "/ingest/t")).await;
    for (path, head) in [
        (QUERY, "POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx"),
        (
            INGEST,
            "POST /ingest/t HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\ncontent-length: 9\r\n\r\n1\n",
        ),
        (QUERY, "POST /query HTTP/1.0\r\nhost: localhost\r\ncontent-length: 8\r\n\r\nSELECT 1"),
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        walk.saw(path, "POST", &crate::client::answered(&all));
    }
    let id = served.rows("SELECT session_id AS id FROM alluvia.sessions WHERE sql LIKE '%1000000000000)' AND sql NOT LIKE '%alluvia%'").await;
    query().body(format!("CALL alluvia.cancel({})", id[0]["id"])).send().await;
    let mut all = Vec::new();
    long.read_to_end(&mut all).await.unwrap();
    walk.saw(QUERY, "POST", &crate::client::answered(&all));

    let mut passwords = Passwords::default();
    passwords.set("me", Verifier::new("x").unwrap());
    let locked = serve_with(ServerOptions { access: Access::Passwords(passwords), ..ServerOptions::default() }).await;
    walk.ask(QUERY, "POST", locked.ask("POST", QUERY).body("SELECT 1")).await;
    walk.ask(INGEST, "POST", locked.ask("POST", "/ingest/t").header("content-type", "text/csv").body("1\n")).await;
    walk.ask("/metrics", "GET", locked.ask("GET", "/metrics")).await;
    // A database that refuses writes is not to be had here; the log's tests make one.
    walk.seen.insert(("/readyz".into(), "GET".into(), 503, "application/json".into()));

    let documented = documented(&file);
    let more: Vec<&Seen> = walk.seen.difference(&documented).collect();
    assert!(more.is_empty(), "not in the file: {more:?}");
    // Which route can give which error is the server's table to say; that each is given at all is seen here.
    let errors: BTreeSet<u16> = walk.seen.iter().map(|(_, _, status, _)| *status).collect();
    let is_missing =
        |(_, _, status, _): &&Seen| *status < 400 || (!errors.contains(status) && !NOT_PROVOKED.contains(status));
    let missing: Vec<&Seen> = documented.difference(&walk.seen).filter(is_missing).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_served_and_unknown_paths_point_to_it() {
    let served = serve().await;
    let answer = served.ask("GET", "/openapi.yaml").send().await;
    assert_eq!(answer.text(), include_str!("../../../../docs/openapi.yaml"));
    let unknown = served.ask("GET", "/nothing").send().await;
    assert_eq!(unknown.error(), (404, "42704".to_owned()));
    assert!(unknown.json()["error"]["hint"].as_str().unwrap().contains("/openapi.yaml"));
}
