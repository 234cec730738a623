//! The dashboard shows what `/metrics` has: every name and every label of its expressions.

#![allow(clippy::disallowed_methods)] // it reads the checkout

use crate::support::serve;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Labels that Prometheus adds to what it scrapes.
const SCRAPED: [&str; 2] = ["job", "instance"];

/// Every text under one of these names, wherever it stands.
fn texts<'a>(value: &'a Value, names: &[&str], found: &mut Vec<&'a str>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| texts(value, names, found)),
        Value::Object(members) => members.iter().for_each(|(name, value)| match value {
            Value::String(text) if names.contains(&name.as_str()) => found.push(text),
            value => texts(value, names, found),
        }),
        _ => {}
    }
}

/// Words of an expression, without what is quoted.
fn words(expression: &str) -> Vec<&str> {
    let outside = expression.split('"').step_by(2);
    outside.flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect()
}

/// Labels that an expression names: those it selects by, and those it sums by.
fn labels(expression: &str) -> Vec<&str> {
    let selected = expression.split('{').skip(1).flat_map(|rest| rest.split('}').next().unwrap_or_default().split(','));
    let selected = selected.filter_map(|pair| pair.split(['=', '!']).next());
    let summed =
        expression.split("by (").skip(1).flat_map(|rest| rest.split(')').next().unwrap_or_default().split(','));
    selected.chain(summed).map(str::trim).filter(|label| !label.is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_expression_of_the_dashboard_finds_its_figures() {
    let served = serve().await;
    served.query("CREATE TABLE t (a INT)").await;
    served.query("INSERT INTO t VALUES (1)").await;
    served.query("SELECT nothing").await;
    // Sessions are counted while they are there.
    let _busy =
        served.ask("POST", "/query").body("SELECT count(*) FROM generate_series(1, 1000000000000)").begin().await;
    while !served.db.engine().figures().sessions.contains(&("http", 1)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let metrics = served.ask("GET", "/metrics").send().await.text();
    let mut exposed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let sample = line.rsplit_once(' ').unwrap().0;
        let (name, rest) = sample.split_once('{').unwrap_or((sample, ""));
        let names = rest.split(',').filter_map(|pair| pair.split_once('=')).map(|(label, _)| label);
        exposed.entry(name).or_default().extend(names);
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/alluvia.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut expressions = Vec::new();
    texts(&dashboard, &["expr", "query"], &mut expressions);
    let mut shown = BTreeSet::new();
    for expression in &expressions {
        let names: Vec<&str> = words(expression).into_iter().filter(|word| word.starts_with("alluvia_")).collect();
        for name in &names {
            assert!(exposed.contains_key(name), "{name} is not in /metrics: {expression}");
        }
        for label in labels(expression).into_iter().filter(|label| !SCRAPED.contains(label)) {
            let has = names.iter().any(|name| exposed[name].contains(label));
            assert!(has, "no figure has the label {label}: {expression}");
        }
        shown.extend(names);
    }
    assert!(expressions.len() > 20);
    let missing: Vec<&&str> = exposed.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
    // Values that it selects by are ones that there are.
    for value in ["kind=\"query\"", "outcome=\"done\""] {
        assert!(metrics.contains(value), "{value}");
    }
}
