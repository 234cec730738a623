//! Answers to DataGrip, DBeaver, pgAdmin and pgcli.

use super::{
    COLUMNS, DATAGRIP, DBEAVER, PGADMIN, PGCLI, number, rows, rows_of_prepared, statement_for, text, with, with_tables,
};
use crate::support::texts;

#[tokio::test(flavor = "multi_thread")]
async fn dbeaver_and_pgcli_find_schemas_types_words_and_columns() {
    let (_served, client, _) = with_tables().await;
    let schemas = rows(&client, with(DBEAVER, "pg_namespace n LEFT")[0]).await;
    assert!(schemas.iter().any(|row| row.contains(&"public".to_owned())), "{schemas:?}");
    assert_eq!(rows(&client, with(DBEAVER, "WHERE t.oid = 1034")[0]).await, [["t", "pg_catalog", "_aclitem"]]);
    // Its list has a NULL, so no word is known to be outside of it; PostgreSQL says the same.
    let words = with(DBEAVER, "pg_get_keywords").remove(0);
    assert_eq!(rows(&client, words).await, [["NULL"]]);
    let words = texts(&client, &words.replace(",null,", ",")).await;
    assert!(words[0].split(',').any(|word| word == "ilike") && !words[0].split(',').any(|word| word == "all"));
    let listed = rows(&client, with(PGCLI, "att.attname column_name")[0]).await;
    assert!(listed.iter().any(|row| row[..4] == ["public", "games", "id", "bigint"]), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pgadmin_shows_its_tree() {
    let (_served, client, oid) = with_tables().await;
    let asked = |purpose| statement_for(PGADMIN, purpose).replace("16384", &oid);
    // What it sends first is one simple query; it would say that it cannot connect.
    let start = ["date style", "messages", "form of bytes", "encoding"].map(asked).join(";\n");
    assert_eq!(rows(&client, &start).await, [["hex"]]);
    assert_eq!(rows(&client, &asked("this database")).await, [["5", "alluvia", "t", "UTF8", "t", "f"]]);
    // Number, name, superuser, whether it may make roles and databases, and signal others.
    let role = rows(&client, &asked("this role")).await;
    assert_eq!(role[0][..5], ["10", "alluvia", "t", "t", "t"]);
    assert_eq!(rows(&client, &asked("is a standby")).await, [["f", "f"]]);
    assert_eq!(rows(&client, &asked("databases")).await[0][1], "alluvia");
    let schemas = rows(&client, &asked("schemas")).await;
    let names: Vec<&str> = schemas.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(names, ["alluvia", "public"]);
    let tables = rows(&client, &asked("tables")).await;
    let names: Vec<(&str, &str)> = tables.iter().map(|row| (row[1].as_str(), row[2].as_str())).collect();
    assert_eq!(names, [("My t", "0"), ("games", "0"), ("plays", "0")]);
    assert_eq!(rows(&client, &asked("name of a table")).await, [["public", "games"]]);
    let columns = rows(&client, &asked("columns")).await;
    let found: Vec<[&str; 3]> = columns.iter().map(|row| [0, 3, 4].map(|at| row[at].as_str())).collect();
    let expected: Vec<[&str; 3]> =
        COLUMNS.iter().map(|(name, shown, _, not_null)| [*name, *shown, if *not_null { "t" } else { "f" }]).collect();
    assert_eq!(found, expected);
    let properties = rows(&client, &asked("columns properties")).await;
    let found: Vec<&str> = properties.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(found, COLUMNS.map(|(name, ..)| name));
    let shown = rows(&client, &asked("columns to show")).await;
    let mut found: Vec<(i32, &str)> = shown.iter().map(|row| (row[2].parse().unwrap(), row[0].as_str())).collect();
    found.sort_unstable();
    assert_eq!(found.len(), COLUMNS.len());
    assert_eq!(found[0], (1, "id"));
    for purpose in [
        "indexes",
        "primary keys",
        "foreign keys",
        "checks",
        "exclusions",
        "triggers",
        "rules",
        "policies",
        "views",
        "materialized views",
        "sequences",
        "primary key to show",
    ] {
        assert!(rows(&client, &asked(purpose)).await.is_empty(), "{purpose}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrip_introspects() {
    let (_served, client, oid) = with_tables().await;
    let schemas = rows(&client, statement_for(DATAGRIP, "schemas")).await;
    let names: Vec<(&str, &str)> = schemas.iter().map(|row| (row[0].as_str(), row[2].as_str())).collect();
    // The schema that names are looked up in comes first.
    assert_eq!(
        names,
        [("2200", "public"), ("11", "pg_catalog"), ("13000", "information_schema"), ("16000", "alluvia")]
    );
    // What it has seen: a number that grows whenever definitions change.
    let seen = schemas[0][1].clone();
    let public = || number(&2200);
    let tables = statement_for(DATAGRIP, "tables");
    for since in ["0", seen.as_str()] {
        let found = rows_of_prepared(&client, tables, &[public(), text(&since)]).await;
        let named: Vec<[&str; 2]> = found.iter().map(|row| [row[0].as_str(), row[1].as_str()]).collect();
        assert_eq!(named, [["r", "games"], ["r", "My t"], ["r", "plays"]], "{since}");
        assert_eq!((&found[0][2], &found[0][3]), (&oid, &seen));
    }
    client.batch_execute("CREATE TABLE later (x INT)").await.unwrap();
    let now = rows(&client, statement_for(DATAGRIP, "schemas")).await.remove(0).remove(1);
    assert!(now.parse::<u64>().unwrap() > seen.parse().unwrap(), "{now}, after {seen}");
    client.batch_execute("DROP TABLE later").await.unwrap();
    let columns = rows_of_prepared(&client, statement_for(DATAGRIP, "names of columns"), &[public()]).await;
    let of_games: Vec<(&str, &str)> =
        columns.iter().filter(|row| row[1] == oid).map(|row| (row[2].as_str(), row[4].as_str())).collect();
    assert_eq!(of_games.len(), COLUMNS.len());
    assert!(COLUMNS.iter().all(|(name, ..)| of_games.contains(&("r", *name))), "{of_games:?}");
    let all: Vec<_> = (0..7).map(|_| public()).collect();
    let objects = rows_of_prepared(&client, statement_for(DATAGRIP, "objects"), &all).await;
    let tables: Vec<&str> = objects.iter().filter(|row| row[2] == "r").map(|row| row[3].as_str()).collect();
    assert!(["My t", "games", "plays"].iter().all(|name| tables.contains(name)) && tables.len() == 3, "{tables:?}");
    for purpose in ["sequences", "indexes", "triggers"] {
        let found = rows_of_prepared(&client, statement_for(DATAGRIP, purpose), &[public(), text(&"0")]).await;
        assert!(found.is_empty(), "{purpose}");
    }
}
