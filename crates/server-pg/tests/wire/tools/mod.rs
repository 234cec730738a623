//! Questions of BI tools, IDEs and drivers to a PostgreSQL server, in the words in which they ask them.
//!
//! - There is a file for each; its sections say where the statements are from. They are quoted, never made up: where a template had holes,
//!   they are filled. Only the charts of Grafana and Superset are ours, around what their macros and time grains expand to.
//! - A statement ends with a semicolon at the end of a line. A comment `-- FOR` before it says what for.
//! - `16384` was the number of the table `games`.

mod bi;
mod ides;
mod libraries;

use crate::support::{Served, rows, serve, texts};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

pub(crate) const ADBC: &str = include_str!("adbc.txt");
const DATAGRIP: &str = include_str!("datagrip.txt");
const DBEAVER: &str = include_str!("dbeaver.txt");
const DBT: &str = include_str!("dbt.txt");
const GRAFANA: &str = include_str!("grafana.txt");
const METABASE: &str = include_str!("metabase.txt");
const OTHERS: &str = include_str!("others.txt");
const NPGSQL: &str = include_str!("npgsql.txt");
const PGADMIN: &str = include_str!("pgadmin.txt");
pub(crate) const PGCLI: &str = include_str!("pgcli.txt");
const POWER_BI: &str = include_str!("powerbi.txt");
const SQLALCHEMY: &str = include_str!("sqlalchemy.txt");
const SUPERSET: &str = include_str!("superset.txt");
const TABLEAU: &str = include_str!("tableau.txt");

const ALL: [&str; 14] = [
    ADBC, OTHERS, DATAGRIP, DBEAVER, DBT, GRAFANA, METABASE, NPGSQL, PGADMIN, PGCLI, POWER_BI, SQLALCHEMY, SUPERSET,
    TABLEAU,
];

/// The tables that tools find: one with a column of each type, one whose name wants quotes, and one to draw.
const TABLES: &str = "
    CREATE TABLE games (id BIGINT NOT NULL, name TEXT, code VARCHAR(20), price DECIMAL(10, 2), score DOUBLE, rate REAL,
        n INT, small SMALLINT, paid BOOLEAN, day DATE, sold TIMESTAMP NOT NULL, at TIMESTAMPTZ, raw BYTEA);
    CREATE TABLE \"My t\" (x INT);
    CREATE TABLE plays (at TIMESTAMPTZ, who TEXT, score DOUBLE, n BIGINT, nanos BIGINT);
    INSERT INTO plays VALUES
        ('2026-11-21T10:01:00Z', 'ann', 1.5, 1795255260, 1795255260000000000),
        ('2026-11-21T10:04:59.75Z', 'bob', 2.5, 1795255499, 1795255499750000000),
        ('2026-11-21T10:05:00Z', 'ann', 4, 1795255500, 1795255500000000000),
        ('2026-11-22T10:05:00Z', 'ann', 8, 1795341900, 1795341900000000000)";

/// The columns of `games` as `format_type` and as `pg_type` name their types, and whether they are NOT NULL.
const COLUMNS: [(&str, &str, &str, bool); 13] = [
    ("id", "bigint", "int8", true),
    ("name", "text", "text", false),
    ("code", "character varying(20)", "varchar", false),
    ("price", "numeric(10,2)", "numeric", false),
    ("score", "double precision", "float8", false),
    ("rate", "real", "float4", false),
    ("n", "integer", "int4", false),
    ("small", "smallint", "int2", false),
    ("paid", "boolean", "bool", false),
    ("day", "date", "date", false),
    ("sold", "timestamp without time zone", "timestamp", true),
    ("at", "timestamp with time zone", "timestamptz", false),
    ("raw", "bytea", "bytea", false),
];

/// A server with those tables, a client of it, and the number of `games`.
async fn with_tables() -> (Served, Client, String) {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let oid = texts(&client, "SELECT 'games'::regclass::oid").await.remove(0);
    (served, client, oid)
}

/// The statements of a file, each with the section that it is in.
fn statements(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.split("-- ASKED BY ").skip(1).flat_map(|section| {
        let (tool, statements) = section.split_once('\n').unwrap();
        let statements = statements.split(";\n").map(str::trim).filter(|sql| !sql.is_empty());
        statements.map(move |sql| (tool, sql))
    })
}

/// The statements that have a text in them.
pub(crate) fn with(file: &'static str, text: &str) -> Vec<&'static str> {
    statements(file).map(|(_, sql)| sql).filter(|sql| sql.contains(text)).collect()
}

/// The statement for a purpose.
pub(crate) fn statement_for(file: &'static str, purpose: &str) -> &'static str {
    let is_it = |sql: &&str| {
        let told = sql.strip_prefix("-- FOR ").map(|rest| rest.split(['\n', ':']).next().unwrap());
        told == Some(purpose)
    };
    statements(file).map(|(_, sql)| sql).find(is_it).unwrap_or_else(|| panic!("no statement for {purpose}"))
}

/// A parameter with the type that its driver states.
type Bound<'a> = (&'a (dyn ToSql + Sync), Type);

/// A text as pgjdbc binds it.
fn text<'a>(text: &'a &'a str) -> Bound<'a> {
    let value: &(dyn ToSql + Sync) = text;
    (value, Type::VARCHAR)
}

/// A whole number as pgjdbc binds it.
fn number(number: &i64) -> Bound<'_> {
    let value: &(dyn ToSql + Sync) = number;
    (value, Type::INT8)
}

/// The rows of a prepared statement, whose values come in binary, as text.
async fn rows_of_prepared(client: &Client, sql: &str, values: &[Bound<'_>]) -> Vec<Vec<String>> {
    let found = client.query_typed(sql, values).await.unwrap_or_else(|error| panic!("{error:?}\n{sql}"));
    found.iter().map(|row| (0..row.len()).map(|at| shown(row, at)).collect()).collect()
}

/// A value as simple queries give it.
fn shown(row: &Row, at: usize) -> String {
    let text = match *row.columns()[at].type_() {
        Type::BOOL => row.get::<_, Option<bool>>(at).map(|value| if value { "t" } else { "f" }.to_owned()),
        Type::INT2 => row.get::<_, Option<i16>>(at).map(|value| value.to_string()),
        Type::INT4 => row.get::<_, Option<i32>>(at).map(|value| value.to_string()),
        Type::INT8 => row.get::<_, Option<i64>>(at).map(|value| value.to_string()),
        Type::OID => row.get::<_, Option<u32>>(at).map(|value| value.to_string()),
        Type::CHAR => row.get::<_, Option<i8>>(at).map(|value| char::from(u8::try_from(value).unwrap()).to_string()),
        Type::TEXT_ARRAY => row.get::<_, Option<Vec<String>>>(at).map(|values| format!("{{{}}}", values.join(","))),
        Type::INT2_ARRAY => row
            .get::<_, Option<Vec<i16>>>(at)
            .map(|values| format!("{{{}}}", values.iter().map(i16::to_string).collect::<Vec<_>>().join(","))),
        _ => row.get::<_, Option<String>>(at),
    };
    text.unwrap_or_else(|| "NULL".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tools_ask_is_answered() {
    let (_served, client, oid) = with_tables().await;
    let mut asked = 0;
    let mut failed = Vec::new();
    for (tool, sql) in ALL.into_iter().flat_map(statements) {
        asked += 1;
        let sql = sql.replace("16384", &oid);
        // What has parameters is bound, below.
        if !sql.contains("$1")
            && let Err(error) = client.simple_query(&sql).await
        {
            failed.push(format!("{tool}\n{error:?}\n{sql}"));
        }
        // Drivers of some of them prepare what others send as it is.
        if let Err(error) = client.prepare(&sql).await {
            failed.push(format!("{tool}, prepared\n{error:?}\n{sql}"));
        }
    }
    assert!(failed.is_empty(), "{} of {asked}:\n{}", failed.len(), failed.join("\n\n"));
    assert!(asked > 180, "{asked}");
}
