//! Answers to dbt, Npgsql and SQLAlchemy.

use super::{COLUMNS, DBT, NPGSQL, SQLALCHEMY, rows, statement_for, with_tables};
use crate::support::texts;

#[tokio::test(flavor = "multi_thread")]
async fn sqlalchemy_reflects_tables() {
    let (_served, client, oid) = with_tables().await;
    let asked = |purpose| statement_for(SQLALCHEMY, purpose).replace("16384", &oid);
    let schemas = texts(&client, &asked("schemas")).await;
    assert_eq!(schemas, ["alluvia", "information_schema", "public"]);
    for purpose in ["tables", "tables of a schema"] {
        let mut tables = texts(&client, &asked(purpose)).await;
        tables.sort();
        assert_eq!(tables, ["My t", "games", "plays"], "{purpose}");
    }
    assert_eq!(texts(&client, &asked("whether a table is there")).await, ["games"]);
    let columns = rows(&client, &asked("columns")).await;
    let expected: Vec<Vec<String>> = COLUMNS
        .iter()
        .map(|(name, shown, _, not_null)| {
            // Default, whether it is NOT NULL, table, comment, whether it is generated, identity, collation.
            let not_null = if *not_null { "t" } else { "f" };
            [*name, *shown, "NULL", not_null, "games", "NULL", "", "NULL", "NULL"].map(str::to_owned).to_vec()
        })
        .collect();
    assert_eq!(columns, expected);
    assert_eq!(rows(&client, &asked("columns without a schema")).await, expected);
    let all = rows(&client, &asked("columns of all tables")).await;
    let order: Vec<(&str, &str)> = all.iter().map(|row| (row[4].as_str(), row[0].as_str())).collect();
    assert_eq!((order[0], order[1], order.len()), (("My t", "x"), ("games", "id"), 1 + COLUMNS.len() + 5));
    assert_eq!(rows(&client, &asked("number of a table")).await, [[oid.as_str(), "games"]]);
    assert_eq!(rows(&client, &asked("comment")).await, [["games", "NULL"]]);
    // A row of NULLs says that the table is there, and has none.
    assert_eq!(rows(&client, &asked("foreign keys")).await, [["games", "NULL", "NULL", "NULL", "NULL"]]);
    assert_eq!(rows(&client, &asked("checks")).await, [["games", "NULL", "NULL", "NULL"]]);
    for purpose in [
        "views",
        "materialized views",
        "temporary tables",
        "whether a table of a schema is there",
        "domains",
        "enums beside columns",
        "enums",
        "primary key",
        "indexes",
        "unique constraints",
        "sequences",
        "definition of a view",
    ] {
        assert!(rows(&client, &asked(purpose)).await.is_empty(), "{purpose}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn npgsql_loads_types() {
    let (_served, client, _) = with_tables().await;
    let types = rows(&client, statement_for(NPGSQL, "types")).await;
    let at = |name: &str| types.iter().position(|row| row[2] == name).unwrap_or_else(|| panic!("no type {name}"));
    for (.., udt, _) in COLUMNS {
        let row = &types[at(udt)];
        assert_eq!((row[0].as_str(), row[3].as_str(), row[5].as_str()), ("pg_catalog", "b", "NULL"), "{udt}");
    }
    // Lists are known by the function that reads them, and come when what they are of is known.
    let list = &types[at("_int4")];
    assert_eq!((list[1].as_str(), list[3].as_str(), list[5].as_str()), ("1007", "a", "23"));
    assert!(types[..at("_int4")].iter().any(|row| row[2] == "int4"));
    assert!(types.iter().all(|row| row[3] != "a" || row[5] != "NULL"), "{types:?}");
    for purpose in ["fields of composite types", "words of enums"] {
        assert!(rows(&client, statement_for(NPGSQL, purpose)).await.is_empty(), "{purpose}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dbt_makes_its_catalog() {
    let (_served, client, _) = with_tables().await;
    client.batch_execute("CREATE ROLE reporter; GRANT SELECT ON games TO reporter").await.unwrap();
    let asked = |purpose| statement_for(DBT, purpose);
    assert!(texts(&client, asked("schemas")).await.contains(&"public".to_owned()));
    assert_eq!(rows(&client, asked("whether a schema is there")).await, [["1"]]);
    let relations = rows(&client, asked("relations")).await;
    let mut tables: Vec<&str> = relations.iter().filter(|row| row[3] == "table").map(|row| row[1].as_str()).collect();
    tables.sort_unstable();
    assert_eq!(tables, ["My t", "games", "plays"]);
    assert!(relations.iter().all(|row| row[0] == "alluvia" && row[2] == "public"), "{relations:?}");
    let columns = rows(&client, asked("columns")).await;
    assert_eq!(columns.len(), COLUMNS.len());
    // Name, type, characters, digits, digits behind the point.
    assert_eq!(columns[0], ["id", "bigint", "NULL", "64", "0"]);
    assert_eq!(columns[2], ["code", "character varying", "20", "NULL", "NULL"]);
    assert_eq!(columns[3], ["price", "numeric", "NULL", "10", "2"]);
    assert_eq!(rows(&client, asked("grants")).await, [["reporter", "SELECT"]]);
    let catalog = rows(&client, asked("the catalog")).await;
    let of_games: Vec<Vec<String>> = catalog.into_iter().filter(|row| row[2] == "games").collect();
    let expected: Vec<Vec<String>> = COLUMNS
        .iter()
        .zip(1..)
        .map(|((name, shown, ..), at)| {
            let at: i32 = at;
            let at = at.to_string();
            let table = ["alluvia", "public", "games", "BASE TABLE", "NULL"];
            let column = [*name, at.as_str(), *shown, "NULL", "alluvia"];
            table.into_iter().chain(column).map(str::to_owned).collect()
        })
        .collect();
    assert_eq!(of_games, expected);
    for purpose in ["indexes", "what depends on what"] {
        assert!(rows(&client, asked(purpose)).await.is_empty(), "{purpose}");
    }
}
