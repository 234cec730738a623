//! `tpch`: the 22 queries on tables of ours, beside plain DataFusion over the same Parquet and DuckDB. Answers are checked.

use crate::cells::equal;
use crate::machine::median;
use crate::python_peer::python;
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use arrow::record_batch::RecordBatch;
use clap::Args;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

#[derive(Args)]
pub struct TpchArgs {
    #[command(flatten)]
    folders: Folders,
    /// Scale factor.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Turns of each engine on each query; the first one warms.
    #[arg(long, default_value_t = 4)]
    turns: usize,
}

/// Tables and their columns.
pub const TABLES: [(&str, &str); 8] = [
    ("region", "r_regionkey BIGINT, r_name TEXT, r_comment TEXT"),
    ("nation", "n_nationkey BIGINT, n_name TEXT, n_regionkey BIGINT, n_comment TEXT"),
    (
        "supplier",
        "s_suppkey BIGINT, s_name TEXT, s_address TEXT, s_nationkey BIGINT, s_phone TEXT, s_acctbal DECIMAL(15,2), s_comment TEXT",
    ),
    (
        "customer",
        "c_custkey BIGINT, c_name TEXT, c_address TEXT, c_nationkey BIGINT, c_phone TEXT, c_acctbal DECIMAL(15,2), c_mktsegment TEXT, c_comment TEXT",
    ),
    (
        "part",
        "p_partkey BIGINT, p_name TEXT, p_mfgr TEXT, p_brand TEXT, p_type TEXT, p_size INT, p_container TEXT, p_retailprice DECIMAL(15,2), p_comment TEXT",
    ),
    ("partsupp", "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2), ps_comment TEXT"),
    (
        "orders",
        "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus TEXT, o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority TEXT, o_clerk TEXT, o_shippriority INT, o_comment TEXT",
    ),
    (
        "lineitem",
        "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag TEXT, l_linestatus TEXT, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct TEXT, l_shipmode TEXT, l_comment TEXT",
    ),
];

/// The queries, in their order.
pub const QUERIES: [&str; 22] = [
    include_str!("../tpch/q01.sql"),
    include_str!("../tpch/q02.sql"),
    include_str!("../tpch/q03.sql"),
    include_str!("../tpch/q04.sql"),
    include_str!("../tpch/q05.sql"),
    include_str!("../tpch/q06.sql"),
    include_str!("../tpch/q07.sql"),
    include_str!("../tpch/q08.sql"),
    include_str!("../tpch/q09.sql"),
    include_str!("../tpch/q10.sql"),
    include_str!("../tpch/q11.sql"),
    include_str!("../tpch/q12.sql"),
    include_str!("../tpch/q13.sql"),
    include_str!("../tpch/q14.sql"),
    include_str!("../tpch/q15.sql"),
    include_str!("../tpch/q16.sql"),
    include_str!("../tpch/q17.sql"),
    include_str!("../tpch/q18.sql"),
    include_str!("../tpch/q19.sql"),
    include_str!("../tpch/q20.sql"),
    include_str!("../tpch/q21.sql"),
    include_str!("../tpch/q22.sql"),
];

const DUCKDB: &str = "
import duckdb, json, pathlib, statistics, sys, time
folder, turns, queries = sys.argv[1], int(sys.argv[2]), json.loads(open(sys.argv[3]).read())
connection = duckdb.connect()
connection.execute('SET enable_progress_bar = false')
connection.execute('SET threads = 2')
for file in pathlib.Path(folder).glob('*.parquet'):
    connection.execute(f\"CREATE VIEW {file.stem} AS SELECT * FROM read_parquet('{file}')\")
out = []
for query in queries:
    times = []
    for turn in range(turns):
        start = time.monotonic()
        rows = connection.execute(query).fetchall()
        times.append(time.monotonic() - start)
    out.append({'seconds': statistics.median(times[1:] or times), 'rows': [[None if v is None else str(v) for v in row] for row in rows]})
print(json.dumps({'version': duckdb.__version__, 'queries': out}))
";

pub async fn run(args: TpchArgs) -> Anything<Value> {
    let folder = generate(&args.folders, args.sf)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Database::open_with(scratch.path().join("db"), DatabaseOptions::default())?;
    let session = db.session();
    let start = Instant::now();
    for (table, columns) in TABLES {
        session.sql(&format!("CREATE TABLE {table} ({columns})")).await?;
        session.sql(&format!("COPY {table} FROM '{}'", folder.join(format!("{table}.parquet")).display())).await?;
    }
    session.sql("CALL alluvia.merge()").await?;
    eprintln!("loaded and merged in {:.1} s", start.elapsed().as_secs_f64());

    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let plain = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
    for (table, _) in TABLES {
        let path = folder.join(format!("{table}.parquet"));
        plain
            .register_parquet(table, path.to_str().ok_or("a path is not UTF-8")?, ParquetReadOptions::default())
            .await?;
    }
    let texts = scratch.path().join("queries.json");
    std::fs::write(&texts, serde_json::to_string(&QUERIES)?)?;
    let folder = folder.to_str().ok_or("a path is not UTF-8")?;
    let turns = args.turns.to_string();
    let peer = python(&args.folders, DUCKDB, &[folder, &turns, texts.to_str().ok_or("a path is not UTF-8")?])?;

    let (mut ours, mut theirs, mut ducks, mut wrong) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, query) in QUERIES.iter().enumerate() {
        let (mut mine, mut df) = (Vec::new(), Vec::new());
        let mut answer = Vec::new();
        for _ in 0..args.turns {
            let start = Instant::now();
            answer = ask(&session, query).await.map_err(|error| format!("query {}: {error}", at + 1))?;
            mine.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            plain.sql(query).await?.collect().await?;
            df.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let skip = usize::from(args.turns > 1);
        let (mine, df) = (median(&mut mine[skip..]), median(&mut df[skip..]));
        let duck = peer["queries"][at]["seconds"].as_f64().unwrap_or(f64::NAN) * 1e3;
        let same = equal(&answer, &peer["queries"][at]["rows"])?;
        if !same {
            wrong.push(at + 1);
        }
        eprintln!(
            "Q{:<2} alluvia {mine:>7.1} ms   DataFusion {df:>7.1} ms   DuckDB {duck:>7.1} ms   {}",
            at + 1,
            if same { "same answer" } else { "DIFFERS" }
        );
        ours.push(mine);
        theirs.push(df);
        ducks.push(duck);
    }
    let total = |times: &[f64]| times.iter().sum::<f64>();
    eprintln!(
        "total: alluvia {:.0} ms, DataFusion {:.0} ms, DuckDB {:.0} ms",
        total(&ours),
        total(&theirs),
        total(&ducks)
    );
    let figures = json!({
        "bench": "tpch", "sf": args.sf,
        "alluvia_ms": ours, "datafusion_ms": theirs, "duckdb_ms": ducks,
        "alluvia_total_ms": total(&ours), "datafusion_total_ms": total(&theirs), "duckdb_total_ms": total(&ducks),
        "to_datafusion": total(&ours) / total(&theirs), "to_duckdb": total(&ours) / total(&ducks),
        "wrong": wrong, "duckdb": peer["version"], "datafusion": datafusion::DATAFUSION_VERSION,
    });
    if wrong.is_empty() { Ok(figures) } else { Err(format!("queries {wrong:?} differ from DuckDB: {figures}").into()) }
}

async fn ask(session: &Session, query: &str) -> Anything<Vec<RecordBatch>> {
    Ok(session.sql(query).await?.collect().await?)
}

/// The tables as Parquet, made where they are missing.
pub fn generate(folders: &Folders, sf: f64) -> Anything<PathBuf> {
    let folder = folders.data.join(format!("tpch-{sf}"));
    if !folder.join("lineitem.parquet").exists() {
        std::fs::create_dir_all(&folder)?;
        let tool = folders.venv.join("bin").join("tpchgen-cli");
        let status = Command::new(tool)
            .args(["parquet", "--scale-factor", &sf.to_string(), "--output-dir"])
            .arg(&folder)
            .status()?;
        if !status.success() {
            return Err("tpchgen-cli failed".into());
        }
    }
    Ok(folder)
}
