//! A cluster of processes: what one gateway has acknowledged the other answers, also after `kill -9` of a worker, of the keeper and of a
//! gateway.

mod certificates;

use super::{command, good, run, stderr};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStdout};
use std::time::Duration;
use tempfile::TempDir;

/// A process of a cluster; killed when it is dropped.
struct Node {
    child: Child,
    /// Kept to the end: a node whose output nobody takes stops.
    _output: BufReader<ChildStdout>,
    said: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Where it speaks Flight SQL.
    fn url(&self) -> String {
        let line = self.said.lines().find(|line| line.contains("Flight SQL")).expect("a gateway says where");
        line.split(" on ").nth(1).expect("an address").trim().to_owned()
    }

    /// Its answer to a query, as CSV.
    fn asked(&self, sql: &str) -> String {
        good(&["sql", &self.url(), "--format", "csv", "-c", sql], "")
    }
}

/// The folders of a cluster, and where its keeper is.
struct Cluster {
    scratch: TempDir,
    keeper: String,
}

impl Cluster {
    fn new() -> Cluster {
        // Free now, and taken by nobody else before the keeper does.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let keeper = listener.local_addr().unwrap().to_string();
        Cluster { scratch: tempfile::tempdir().unwrap(), keeper }
    }

    fn dir(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    /// Starts a node, and waits until it is ready.
    fn start(&self, name: &str, roles: &str) -> Node {
        let secret = self.dir("keeper/secret");
        match roles {
            "keeper" => self.start_with(name, roles, &["--node-listen", &self.keeper]),
            _ => self.start_with(name, roles, &["--join", &self.keeper, "--secret-file", &secret]),
        }
    }

    /// Starts a node with other options of its links.
    fn start_with(&self, name: &str, roles: &str, links: &[&str]) -> Node {
        let dir = self.dir(name);
        let mut args = vec!["node", &dir, "--roles", roles, "--set", "memory_limit=256MB"];
        args.extend(links);
        if roles.contains("gateway") {
            let any = "127.0.0.1:0";
            args.extend([
                "--listen",
                any,
                "--http-listen",
                "off",
                "--flight-listen",
                any,
                "--set",
                "authentication=trust",
            ]);
        }
        let mut child = command(&args).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("  psql ") || line == "ready") {
            if output.read_line(&mut said).unwrap() == 0 {
                panic!("node {name} ended: {said}{}", stderr(&child.wait_with_output().unwrap()));
            }
        }
        Node { child, _output: output, said }
    }
}

const MADE: &str =
    "CREATE TABLE visits (id BIGINT, page TEXT) WITH (placement = 'rows', shards = 4, replicas = 2, write_quorum = 1);
    CREATE TABLE pages (page TEXT, topic TEXT) WITH (placement = 'copied');
    INSERT INTO pages VALUES ('a', 'news'), ('b', 'sport');
    INSERT INTO visits SELECT i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END FROM generate_series(1, 3000) AS g(i)";
const ASKED: &str =
    "SELECT topic, count(*) AS n, sum(id) AS ids FROM visits JOIN pages USING (page) GROUP BY topic ORDER BY topic";

#[test]
fn nodes_that_are_killed_lose_nothing() {
    let cluster = Cluster::new();
    let mut keeper = cluster.start("keeper", "keeper");
    let _one = cluster.start("one", "worker");
    let mut other = cluster.start("other", "worker");
    let gateway = cluster.start("gateway", "gateway");
    let mut second = cluster.start("second", "gateway");
    good(&["sql", &gateway.url(), "-c", MADE], "");
    let before = gateway.asked(ASKED);
    assert_eq!(before, "topic,n,ids\nnews,1500,2251500\nsport,1500,2250000\n");
    assert_eq!(second.asked(ASKED), before, "the other gateway answers the same");

    drop(other);
    gateway.asked("INSERT INTO visits VALUES (5000, 'a')");
    let after = "topic,n,ids\nnews,1501,2256500\nsport,1500,2250000\n";
    assert_eq!(second.asked(ASKED), after, "a worker is down, and the other has all shards");
    other = cluster.start("other", "worker");

    drop(keeper);
    keeper = cluster.start("keeper", "keeper");
    assert_eq!(second.asked(ASKED), after, "the keeper has decided nothing anew");
    drop(second);
    second = cluster.start("second", "gateway");
    second.asked("INSERT INTO visits VALUES (6000, 'b')");
    let last = "topic,n,ids\nnews,1501,2256500\nsport,1501,2256000\n";
    assert_eq!((gateway.asked(ASKED), second.asked(ASKED)), (last.to_owned(), last.to_owned()));
    drop((keeper, other));
    // Nothing is promised at freshness 0 that nobody can know.
    let refused = run(&["sql", &gateway.url(), "-c", "SELECT count(*) FROM visits"], "");
    assert!(stderr(&refused).contains("the keeper is not reached"), "{}", stderr(&refused));
}

#[test]
fn a_worker_that_stands_still_is_not_waited_for() {
    let cluster = Cluster::new();
    let _keeper = cluster.start("keeper", "keeper");
    let _one = cluster.start("one", "worker");
    let other = cluster.start("other", "worker");
    let gateway = cluster.start("gateway", "gateway");
    good(&["sql", &gateway.url(), "-c", MADE], "");
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &other.child.id().to_string()]).status();
        assert!(sent.unwrap().success(), "kill {name}");
    };
    signal("-STOP");
    let began = std::time::Instant::now();
    for at in 0..6 {
        let count = gateway.asked(&format!("SELECT count(*) AS n FROM visits WHERE id >= {at}"));
        assert_eq!(count, format!("n\n{}\n", if at == 0 { 3000 } else { 3001 }), "the other worker answers");
        gateway.asked(&format!("INSERT INTO visits VALUES ({}, 'a')", 10_000 + at));
    }
    // A connection is given up after half a minute, every other time: more than a minute in all.
    assert!(began.elapsed() < Duration::from_secs(45), "it was waited for: {:?}", began.elapsed());
    signal("-CONT");
    assert_eq!(gateway.asked("SELECT count(*) AS n FROM visits"), "n\n3006\n");
}

#[test]
fn a_node_that_cannot_be_says_why() {
    let cluster = Cluster::new();
    let dir = cluster.dir("node");
    for (args, wanted) in [
        (vec!["--roles", "worker"], "there is no secret of a cluster"),
        (vec!["--roles", "keeper", "--join", "127.0.0.1:1"], "a node that is the keeper joins no other"),
        (
            vec!["--roles", "keeper", "--node-listen", "0.0.0.0:0"],
            "without certificates nodes are linked on this machine alone",
        ),
        (
            vec!["--roles", "keeper", "--node-listen", "0.0.0.0:0"],
            "hint:  make certificates with `alluvia cluster init`",
        ),
        (vec!["--roles", "keeper", "--certificates", "/nowhere"], "reading /nowhere/authority.pem failed"),
        (vec!["--roles", "keeper", "--node-address", "127.0.0.1"], "is no address of a node"),
        // The secret is there by now.
        (vec!["--roles", "worker"], "a node that is no keeper must join one"),
        (vec!["--roles", "worker", "--join", "127.0.0.1:1"], "the keeper is not reached"),
        (vec!["--roles", "king"], "invalid value 'king'"),
    ] {
        let args: Vec<&str> = ["node", &dir].into_iter().chain(args).collect();
        let started = std::time::Instant::now();
        let output = run(&args, "");
        assert!(stderr(&output).contains(wanted), "{args:?}: {}", stderr(&output));
        assert!(started.elapsed() < Duration::from_secs(30), "{args:?} took long to say so");
    }
}

#[test]
fn the_demo_kills_a_worker_and_loses_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let kept = scratch.path().join("kept").display().to_string();
    let output = run(&["cluster", "demo", "--seconds", "4", "--keep", &kept], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", stderr(&output));
    for told in
        ["kill -9", "worker-2 is started again", "are there once", "both gateways and all replicas agree", "Go on"]
    {
        assert!(said.contains(told), "{told}: {said}");
    }
    let again = run(&["cluster", "demo", "--keep", &kept], "");
    assert!(stderr(&again).contains("has a cluster already"), "{}", stderr(&again));
}
