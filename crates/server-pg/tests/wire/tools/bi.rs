//! Answers to Grafana, Metabase, Power BI, Superset and Tableau.

use super::{
    COLUMNS, GRAFANA, METABASE, POWER_BI, SUPERSET, TABLEAU, number, rows, rows_of_prepared, statement_for, text, with,
    with_tables,
};
use crate::support::texts;
use tokio_postgres::Client;

#[tokio::test(flavor = "multi_thread")]
async fn grafana_finds_tables_and_columns() {
    let (_served, client, _) = with_tables().await;
    let mut tables = Vec::new();
    for sql in with(GRAFANA, "AS \"table\"") {
        tables = texts(&client, sql).await;
        assert_eq!(tables[..3], ["\"My t\"", "games", "plays"], "{sql}");
    }
    // Those that are not looked up without their schema come last, with it.
    assert!(tables.contains(&"alluvia.tables".to_owned()), "{tables:?}");
    let columns = with(GRAFANA, "parse_ident").remove(0);
    let expected: Vec<Vec<String>> = COLUMNS
        .iter()
        .map(|(name, shown, ..)| vec![(*name).to_owned(), shown.split('(').next().unwrap().to_owned()])
        .collect();
    assert_eq!(rows(&client, columns).await, expected);
    assert_eq!(rows(&client, &columns.replace("public.games", "games")).await, expected);
    assert!(rows(&client, &columns.replace("public.games", "other.games")).await.is_empty());
    assert_eq!(rows(&client, with(GRAFANA, "AS \"name\"")[0]).await, [["alluvia"], ["public"]]);
}

/// Rows of numbers, however they are written.
fn numbers(rows: Vec<Vec<String>>) -> Vec<Vec<f64>> {
    rows.iter().map(|row| row.iter().map(|text| text.parse().unwrap()).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn grafana_draws_what_its_macros_expand_to() {
    let (_served, client, _) = with_tables().await;
    let drawn = async |purpose: &str| rows(&client, statement_for(GRAFANA, purpose)).await;
    assert_eq!(numbers(drawn("a series").await), [[1_795_255_200.0, 2.0], [1_795_255_500.0, 4.0]]);
    let in_order = drawn("rows in order").await;
    let of_whom: Vec<(&str, &str)> = in_order.iter().map(|row| (row[1].as_str(), row[2].as_str())).collect();
    assert_eq!(of_whom, [("ann", "1.5"), ("bob", "2.5"), ("ann", "4")]);
    assert_eq!(in_order[0][0], "2026-11-21 10:01:00+00");
    let epochs = [[1_795_255_260.0, 1.5], [1_795_255_499.75, 2.5], [1_795_255_500.0, 4.0]];
    assert_eq!(numbers(drawn("epochs").await), epochs);
    let halves = [[1_795_255_260.0, 1.0], [1_795_255_499.5, 1.0], [1_795_255_500.0, 1.0], [1_795_341_900.0, 1.0]];
    assert_eq!(numbers(drawn("intervals below a second").await), halves);
    assert_eq!(numbers(drawn("seconds that are numbers").await), [[1_795_255_200.0, 3.0]]);
    assert_eq!(drawn("nanoseconds that are numbers").await, [["3"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metabase_syncs() {
    let (_served, client, _) = with_tables().await;
    let synced = rows(&client, with(METABASE, "estimated_row_count")[0]).await;
    let found: Vec<&str> = synced.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(found, ["My t", "games", "plays"]);
    let schemas = rows(&client, with(METABASE, "TABLE_SCHEM")[0]).await;
    assert!(schemas.iter().any(|row| row[0] == "public" && row[1] == "alluvia"), "{schemas:?}");
    assert!(rows(&client, statement_for(METABASE, "whether a table may be read")).await.is_empty());
    assert!(rows(&client, statement_for(METABASE, "types that are lists of words")).await.is_empty());

    let (public, games) = (text(&"public"), text(&"games"));
    let tables = statement_for(METABASE, "tables of schemas");
    let values = [number(&0), text(&"^pg_"), text(&"information_schema"), public.clone()];
    let tables = rows_of_prepared(&client, tables, &values).await;
    let tables: Vec<[&str; 4]> = tables.iter().map(|row| [0, 1, 2, 3].map(|at| row[at].as_str())).collect();
    let table = |name| ["public", name, "TABLE", "NULL"];
    assert_eq!(tables, [table("My t"), table("games"), table("plays")]);

    // Name, type, position from 0, schema, table, whether it is a key, comment, whether a row must have it, whether it is numbered by itself.
    let expected: Vec<Vec<String>> = COLUMNS
        .iter()
        .enumerate()
        .map(|(at, (name, _, udt, required))| {
            let (at, required) = (at.to_string(), if *required { "t" } else { "f" });
            [*name, *udt, at.as_str(), "public", "games", "f", "NULL", required, "f"].map(str::to_owned).to_vec()
        })
        .collect();
    let of_table = statement_for(METABASE, "fields of a table");
    let named = [public.clone(), games.clone(), public.clone(), games.clone()];
    assert_eq!(rows_of_prepared(&client, of_table, &named).await, expected);
    let of_schema = statement_for(METABASE, "fields of a schema");
    let fields = rows_of_prepared(&client, of_schema, &[public.clone(), public.clone()]).await;
    let order: Vec<(&str, &str)> = fields.iter().map(|row| (row[4].as_str(), row[0].as_str())).collect();
    assert_eq!(order.first(), Some(&("My t", "x")));
    assert_eq!(order.last(), Some(&("plays", "nanos")));
    assert_eq!(fields[1..14], expected);

    // There are neither keys nor indexes, and that is what is said.
    let keys = statement_for(METABASE, "foreign keys of a schema");
    assert!(rows_of_prepared(&client, keys, std::slice::from_ref(&public)).await.is_empty());
    let keys = statement_for(METABASE, "foreign keys of a table");
    assert!(rows_of_prepared(&client, keys, &[games.clone(), public.clone()]).await.is_empty());
    let indexes = statement_for(METABASE, "indexes of a schema");
    assert!(rows_of_prepared(&client, indexes, &[public.clone(), number(&1)]).await.is_empty());
    let indexes = statement_for(METABASE, "indexes of a table");
    assert!(rows_of_prepared(&client, indexes, &[public, games, number(&1)]).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn metabase_sees_what_its_role_may() {
    let (served, client, _) = with_tables().await;
    client.batch_execute("CREATE ROLE analyst LOGIN; GRANT SELECT ON games TO analyst").await.unwrap();
    let mut config = served.config();
    config.user("analyst");
    let analyst = served.client_with(&config).await.unwrap();
    let privileges = with(METABASE, "table_privileges").remove(0);
    // Schema, table, UPDATE, SELECT, INSERT, DELETE.
    let of_games = async |client: &Client| {
        let found = rows(client, privileges).await;
        found.into_iter().find(|row| row[1] == "public" && row[2] == "games").map(|row| row[3..].join(""))
    };
    assert_eq!(of_games(&client).await.as_deref(), Some("tttt"));
    assert_eq!(of_games(&analyst).await.as_deref(), Some("ftff"));
}

#[tokio::test(flavor = "multi_thread")]
async fn power_bi_navigates() {
    let (_served, client, _) = with_tables().await;
    // Its driver reads values of types that it found here, alone.
    let types = rows(&client, statement_for(POWER_BI, "types")).await;
    let of =
        |name: &str| types.iter().find(|row| row[1] == name).map(|row| [&row[2], &row[5], &row[6]].map(String::as_str));
    for (.., udt, _) in COLUMNS {
        assert_eq!(of(udt).map(|[_, kind, element]| (kind, element)), Some(("b", "0")), "{udt}: {types:?}");
    }
    assert_eq!(of("_int4"), Some(["1007", "a", "23"]));
    // Lists come after what they are of.
    let at = |name: &str| types.iter().position(|row| row[1] == name);
    assert!(at("text") < at("_text"));
    assert_eq!(rows(&client, statement_for(POWER_BI, "the character set")).await, [["UTF8"]]);
    let tables = rows(&client, statement_for(POWER_BI, "tables")).await;
    let public: Vec<Vec<String>> = tables.into_iter().filter(|row| row[0] == "public").collect();
    assert_eq!(
        public,
        [["public", "My t", "BASE TABLE"], ["public", "games", "BASE TABLE"], ["public", "plays", "BASE TABLE"]]
    );
    let columns = rows(&client, statement_for(POWER_BI, "columns")).await;
    assert_eq!(columns.len(), COLUMNS.len());
    assert_eq!(columns[0], ["id", "1", "NO", "bigint"]);
    assert_eq!(columns[2], ["code", "3", "YES", "character varying"]);
    assert_eq!(columns[3], ["price", "4", "YES", "numeric"]);
    for purpose in ["keys that point to a table", "keys of a table"] {
        assert!(rows(&client, statement_for(POWER_BI, purpose)).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn superset_groups_by_its_grains() {
    let (_served, client, _) = with_tables().await;
    let drawn = async |purpose: &str| rows(&client, statement_for(SUPERSET, purpose)).await;
    assert_eq!(drawn("databases").await, [["alluvia"]]);
    assert_eq!(drawn("seconds").await.len(), 4);
    assert_eq!(drawn("hours").await, [["2026-11-21 10:00:00+00", "3"], ["2026-11-22 10:00:00+00", "1"]]);
    assert_eq!(drawn("weeks").await, [["2026-11-16 00:00:00+00", "4"]]);
    assert_eq!(drawn("quarters").await, [["2026-10-01 00:00:00+00", "4"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tableau_finds_tables_and_columns() {
    let (_served, client, oid) = with_tables().await;
    let tables = rows(&client, statement_for(TABLEAU, "tables")).await;
    let public: Vec<Vec<String>> = tables.into_iter().filter(|row| row[1] == "public").collect();
    assert_eq!(public, [["My t", "public", "r"], ["games", "public", "r"], ["plays", "public", "r"]]);
    let columns = rows(&client, &statement_for(TABLEAU, "columns").replace("16384", &oid)).await;
    let found: Vec<(&str, &str, bool)> =
        columns.iter().map(|row| (row[2].as_str(), row[4].as_str(), row[8] == "t")).collect();
    let expected: Vec<(&str, &str, bool)> =
        COLUMNS.iter().map(|(name, _, udt, not_null)| (*name, *udt, *not_null)).collect();
    assert_eq!(found, expected);
    for purpose in ["primary key", "foreign keys"] {
        assert!(rows(&client, statement_for(TABLEAU, purpose)).await.is_empty());
    }
}
