//! The catalog as tools ask for it: what psql 15 sends, as its `-E` shows it, and what drivers send.

use crate::raw_messages::RawClient;
use crate::support::{rows, serve, texts};
use crate::tools;

/// Queries of psql 15 for its commands, recorded with `psql -E` against PostgreSQL 15; `16384` was the number of a table.
const PSQL: &str = include_str!("psql15.txt");

#[tokio::test(flavor = "multi_thread")]
async fn what_psql_asks_is_answered() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE sales (id BIGINT NOT NULL, country TEXT, price DOUBLE, at TIMESTAMPTZ, d DECIMAL(10, 2))",
        )
        .await
        .unwrap();
    let oid = texts(&client, "SELECT 'sales'::regclass::oid").await.remove(0);
    let mut asked = 0;
    for part in PSQL.split("-- META ").skip(1) {
        let (command, queries) = part.split_once('\n').unwrap();
        for query in queries.split(";\n").map(str::trim).filter(|query| !query.is_empty()) {
            let query = query.replace("16384", &oid);
            client.simple_query(&query).await.unwrap_or_else(|error| panic!("{command}: {error:?}\n{query}"));
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_is_told_of_tables_alone() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE sales (id BIGINT NOT NULL, country TEXT)").await.unwrap();
    client.batch_execute("INSERT INTO sales VALUES (1, 'fr')").await.unwrap();
    let oid = texts(&client, "SELECT 'sales'::regclass::oid").await.remove(0);
    let mut raw = RawClient::start(&served).await;
    raw.send(b'Q', b"SET report = 'notice'\0").await;
    raw.until_ready().await;
    let mut notices = async |sql: &str| {
        raw.send(b'Q', &[sql.as_bytes(), b"\0"].concat()).await;
        let messages = raw.until_ready().await;
        assert!(messages.iter().all(|(kind, _)| *kind != b'E'), "{sql}");
        let told = messages.iter().filter(|(kind, _)| *kind == b'N');
        told.map(|(_, body)| String::from_utf8_lossy(body).into_owned()).collect::<Vec<String>>()
    };
    for (sql, is_told) in [
        ("SELECT country FROM sales", true),
        ("SELECT count(*) FROM sales", true),
        ("SELECT s.id, c.relname FROM sales s, pg_class c WHERE c.relname = 'sales'", true),
        ("INSERT INTO sales SELECT id + 1, country FROM sales", true),
        ("SELECT table_name FROM alluvia.tables", true),
        ("INSERT INTO sales VALUES (7, 'cl')", false),
        ("SELECT 1", false),
        ("SELECT value FROM generate_series(1, 3)", false),
        ("SHOW freshness", false),
        ("SELECT relname FROM pg_class", false),
        ("SELECT column_name FROM information_schema.columns WHERE table_name = 'sales'", false),
        ("SELECT version(), current_schema()", false),
    ] {
        let told = notices(sql).await;
        let of_use = told.iter().filter(|told| told.contains("Mused version ")).count();
        assert_eq!((told.len(), of_use), (usize::from(is_told), usize::from(is_told)), "{sql}: {told:?}");
    }
    for query in PSQL.split("-- META ").skip(1).flat_map(|part| part.split_once('\n').unwrap().1.split(";\n")) {
        let query = query.trim().replace("16384", &oid);
        assert!(notices(&query).await.is_empty(), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_tells_what_is_there() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE sales (id BIGINT NOT NULL, d DECIMAL(10, 2), s VARCHAR(20)); CREATE TABLE b (x TEXT)",
        )
        .await
        .unwrap();
    assert_eq!(
        texts(&client, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").await,
        ["b", "sales"]
    );
    let columns = rows(
        &client,
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = 'public.sales'::regclass AND a.attnum > 0 ORDER BY a.attnum",
    )
    .await;
    assert_eq!(columns, [["id", "bigint", "t"], ["d", "numeric(10,2)", "f"], ["s", "character varying(20)", "f"]]);
    let columns = rows(
        &client,
        "SELECT column_name, data_type, is_nullable, coalesce(numeric_precision, character_maximum_length)
         FROM information_schema.columns
         WHERE table_schema = 'public' AND table_name = 'sales' ORDER BY ordinal_position",
    )
    .await;
    assert_eq!(
        columns,
        [["id", "bigint", "NO", "64"], ["d", "numeric", "YES", "10"], ["s", "character varying", "YES", "20"]]
    );
    for (sql, expected) in [
        ("SELECT current_database()", "alluvia"),
        ("SELECT current_schema()", "public"),
        ("SELECT current_user", "alluvia"),
        ("SELECT pg_catalog.pg_is_in_recovery()", "f"),
        ("SELECT current_setting('server_version_num')", "160000"),
        ("SELECT count(*) FROM pg_index", "0"),
        ("SELECT typname FROM pg_type WHERE oid = 1700", "numeric"),
        ("SELECT 'sales'::regclass::text", "NULL"),
        ("SELECT c.oid::regclass FROM pg_class c WHERE c.relname = 'sales'", "sales"),
        (
            "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'sales'",
            "public",
        ),
        ("SELECT to_regclass('nothing')", "NULL"),
        ("SELECT has_table_privilege('sales', 'SELECT')", "t"),
    ] {
        let found = texts(&client, sql).await;
        if expected != "NULL" || sql.contains("nothing") {
            assert_eq!(found, [expected], "{sql}");
        }
    }
    assert!(texts(&client, "SELECT version()").await[0].starts_with("PostgreSQL 16.0 (Alluvia"));
    // A user's own table of such a name is the one that is meant.
    client.batch_execute("CREATE TABLE pg_mine (x INT); INSERT INTO pg_mine VALUES (5)").await.unwrap();
    assert_eq!(texts(&client, "SELECT x FROM pg_mine").await, ["5"]);
    let typed = client.prepare("SELECT oid, relname, relkind FROM pg_class").await.unwrap();
    let types: Vec<u32> = typed.columns().iter().map(|column| column.type_().oid()).collect();
    assert_eq!(types, [26, 19, 18]);
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_shows_which_roles_a_role_is_in() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE ROLE readers; CREATE ROLE \"Big, Boss\"; CREATE ROLE grafana; CREATE ROLE loner; GRANT readers, \"Big, Boss\" TO grafana",
        )
        .await
        .unwrap();
    let asked = PSQL.split("-- META ").find(|part| part.starts_with("\\du\n")).unwrap();
    let asked = asked.split_once('\n').unwrap().1.split(";\n").next().unwrap();
    let shown: Vec<(String, String)> =
        rows(&client, asked).await.into_iter().map(|row| (row[0].clone(), row[8].clone())).collect();
    let wanted = [
        ("Big, Boss", "{}"),
        ("alluvia", "{}"),
        ("grafana", "{readers,\"Big, Boss\"}"),
        ("loner", "{}"),
        ("readers", "{}"),
    ];
    assert_eq!(shown, wanted.map(|(role, member_of)| (role.to_owned(), member_of.to_owned())));
}

/// The first query of a command of psql's.
fn of_psql(command: &str) -> &'static str {
    let asked = PSQL.split("-- META ").find_map(|part| part.strip_prefix(command)?.strip_prefix('\n')).unwrap();
    asked.split(";\n").next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_lists_functions() {
    let served = serve().await;
    let client = served.client().await;
    let upper = rows(&client, of_psql("\\df upper")).await;
    assert_eq!(upper, [["pg_catalog", "upper", "text", "text", "func"]]);
    let sum = rows(&client, &of_psql("\\df upper").replace("upper", "sum")).await;
    assert!(!sum.is_empty() && sum.iter().all(|row| row[1] == "sum" && row[4] == "agg"), "{sum:?}");
    let of_aggregates = rows(&client, of_psql("\\da sum")).await;
    assert!(!of_aggregates.is_empty() && of_aggregates.iter().all(|row| row[1] == "sum"), "{of_aggregates:?}");
    // Those that PostgreSQL has too are of its schema, which psql leaves out here.
    let listed = rows(&client, of_psql("\\df")).await;
    assert!(listed.len() > 100, "{}", listed.len());
    assert!(listed.iter().all(|row| row[0] == "public" && row[2] != "NULL" && row[3] != "NULL"), "{listed:?}");
    assert!(listed.iter().any(|row| row[1] == "list_sort") && !listed.iter().any(|row| row[1] == "upper"));
    let kinds = rows(&client, "SELECT DISTINCT prokind FROM pg_proc ORDER BY 1").await;
    assert_eq!(kinds, [["a"], ["f"], ["w"]]);
    let numbers = rows(&client, "SELECT count(*) = count(DISTINCT oid), min(oid) > 16384 FROM pg_proc").await;
    assert_eq!(numbers, [["t", "t"]]);
    let completed = tools::with(tools::PGCLI, "proallargtypes").remove(0);
    assert!(rows(&client, completed).await.iter().any(|row| row[..2] == ["pg_catalog", "upper"] && row[5] == "text"));
}
