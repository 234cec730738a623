//! `skip`: predicates asked twice, and narrower ones after wider ones, on TPC-H's `lineitem` and `orders`: blocks read and time with
//! an empty predicate cache, with what the first run has left in it, and without it. Answers are checked against those without it.

use crate::machine::median;
use crate::tpch::{TABLES, generate};
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use arrow::util::pretty::pretty_format_batches;
use clap::Args;
use serde_json::{Value, json};
use std::time::Instant;

#[derive(Args)]
pub struct SkipArgs {
    #[command(flatten)]
    folders: Folders,
    /// Scale factor.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Later runs of each question; medians are shown.
    #[arg(long, default_value_t = 5)]
    turns: usize,
}

/// What a question is, beside the one before it.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Nothing that was asked before helps.
    New,
    /// Its predicate implies one that was asked before.
    Implied,
}

const QUESTIONS: [(Kind, &str, &str); 14] = [
    (Kind::New, "lineitem", "l_partkey = 77777"),
    (Kind::New, "lineitem", "l_partkey BETWEEN 1000 AND 1010"),
    (Kind::Implied, "lineitem", "l_partkey IN (1003, 1007)"),
    (Kind::Implied, "lineitem", "l_partkey > 1001 AND l_partkey < 1006 AND l_quantity > 10"),
    (Kind::New, "lineitem", "l_quantity = 50 AND l_discount = 0.10 AND l_tax = 0.08 AND l_shipmode = 'AIR'"),
    (
        Kind::Implied,
        "lineitem",
        "l_quantity = 50 AND l_discount = 0.10 AND l_tax = 0.08 AND l_shipmode = 'AIR' AND l_shipdate < DATE '1995-01-01'",
    ),
    (Kind::New, "lineitem", "l_comment LIKE 'furiously special dep%'"),
    (Kind::Implied, "lineitem", "l_comment LIKE 'furiously special deposits%' AND l_returnflag = 'N'"),
    (Kind::New, "lineitem", "l_comment LIKE '%ironic theodolites are b%'"),
    (Kind::New, "lineitem", "l_extendedprice % 977 = 0 AND l_shipinstruct = 'NONE'"),
    (Kind::New, "orders", "o_totalprice > 470000"),
    (Kind::Implied, "orders", "o_totalprice BETWEEN 480000 AND 500000 AND o_orderstatus = 'O'"),
    (Kind::New, "orders", "o_custkey IN (1234, 56789, 131071)"),
    (Kind::Implied, "orders", "o_custkey = 56789"),
];

fn statement(table: &str, predicate: &str) -> String {
    let figures = match table {
        "lineitem" => "count(*), sum(l_extendedprice), min(l_shipdate), max(l_comment)",
        _ => "count(*), sum(o_totalprice), min(o_orderdate), max(o_comment)",
    };
    format!("SELECT {figures} FROM {table} WHERE {predicate}")
}

/// One run: the answer, blocks read, and milliseconds.
struct Run {
    answer: String,
    blocks: u64,
    millis: f64,
}

async fn ask(session: &Session, sql: &str) -> Anything<Run> {
    let start = Instant::now();
    let mut outcome = session.sql(sql).await?;
    let rows = outcome.rows.take().ok_or("a query gives rows")?;
    let batches: Vec<_> = futures::TryStreamExt::try_collect(rows).await?;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let blocks = outcome.used().map_or(0, |used| used.blocks_read);
    Ok(Run { answer: pretty_format_batches(&batches)?.to_string(), blocks, millis })
}

pub async fn run(args: SkipArgs) -> Anything<Value> {
    let folder = generate(&args.folders, args.sf)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Database::open_with(scratch.path().join("db"), DatabaseOptions::default())?;
    let (session, without) = (db.session(), db.session());
    without.sql("SET predicate_cache = off").await?;
    for (table, columns) in TABLES.iter().filter(|(table, _)| matches!(*table, "lineitem" | "orders")) {
        session.sql(&format!("CREATE TABLE {table} ({columns})")).await?;
        session.sql(&format!("COPY {table} FROM '{}'", folder.join(format!("{table}.parquet")).display())).await?;
    }
    session.sql("CALL alluvia.merge()").await?;
    eprintln!("blocks read and ms: without the cache, the first run with it, later runs");
    let mut figures = Vec::new();
    let mut totals = [0.0; 3];
    for (kind, table, predicate) in QUESTIONS {
        let sql = statement(table, predicate);
        let warm = ask(&without, &sql).await?;
        let first = ask(&session, &sql).await?;
        let (mut off, mut again) = (Vec::new(), Vec::new());
        let mut blocks = (0, 0);
        for _ in 0..args.turns.max(1) {
            let (a, b) = (ask(&without, &sql).await?, ask(&session, &sql).await?);
            if [&first.answer, &a.answer, &b.answer].iter().any(|answer| **answer != warm.answer) {
                return Err(format!("{predicate}: an answer differs\n{}\n{}", warm.answer, b.answer).into());
            }
            off.push(a.millis);
            again.push(b.millis);
            blocks = (a.blocks, b.blocks);
        }
        let (off, again) = (median(&mut off), median(&mut again));
        eprintln!(
            "{:>8} {:>8} {:>8}  {off:>8.1} {:>8.1} {again:>8.1}  {} {table}: {predicate}",
            blocks.0,
            first.blocks,
            blocks.1,
            first.millis,
            if kind == Kind::New { "new    " } else { "implied" },
        );
        totals = [totals[0] + off, totals[1] + first.millis, totals[2] + again];
        figures.push(json!({
            "table": table, "predicate": predicate, "implied": kind == Kind::Implied,
            "blocks_without": blocks.0, "blocks_first": first.blocks, "blocks_again": blocks.1,
            "without_ms": off, "first_ms": first.millis, "again_ms": again,
        }));
    }
    eprintln!("total: {:.0} ms without, {:.0} ms first, {:.0} ms again", totals[0], totals[1], totals[2]);
    Ok(json!({
        "bench": "skip", "sf": args.sf, "turns": args.turns, "questions": figures,
        "without_ms": totals[0], "first_ms": totals[1], "again_ms": totals[2],
    }))
}
