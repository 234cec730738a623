//! Views over the wire: what psql asks for `\dv`, `\d+` and `\sv`, and what clients are told of dependencies.

use crate::support::{rows, serve, texts};

/// Queries of psql 15, recorded with `psql -E` against PostgreSQL 15; `16384` was the number of the view `v`.
const PSQL: &str = include_str!("psql15_views.txt");

fn asked(command: &str, oid: &str) -> String {
    let mut parts = PSQL.split("-- META ").filter_map(|part| part.split_once('\n'));
    let (_, query) = parts.find(|(known, _)| *known == command).unwrap_or_else(|| panic!("no {command}"));
    query.trim().trim_end_matches(';').replace("16384", oid)
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_shows_views() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a INT, b TEXT, d DECIMAL(10, 2));
             CREATE VIEW v AS SELECT a, b, d FROM t WHERE a > 1;
             CREATE VIEW w AS SELECT * FROM v",
        )
        .await
        .unwrap();
    let oid = texts(&client, &asked("\\sv v: which", "")).await.remove(0);
    let owner = texts(&client, "SELECT current_user").await.remove(0);
    for command in ["\\dv", "\\dv+"] {
        let listed = rows(&client, &asked(command, &oid)).await;
        let names: Vec<[&str; 4]> = listed
            .iter()
            .map(|row| [row[0].as_str(), &row[1], &row[2], &row[3]])
            .filter(|row| row[0] == "public")
            .collect();
        assert_eq!(names, [["public", "v", "view", &owner], ["public", "w", "view", &owner]], "{command}");
    }
    assert_eq!(rows(&client, &asked("\\d+ v: which", &oid)).await, [[oid.as_str(), "public", "v"]]);
    let what = rows(&client, &asked("\\d+ v: what", &oid)).await;
    assert_eq!((what.len(), what[0][1].as_str(), what[0][3].as_str()), (1, "v", "t"));
    let columns = rows(&client, &asked("\\d+ v: columns", &oid)).await;
    let columns: Vec<[&str; 4]> = columns.iter().map(|row| [row[0].as_str(), &row[1], &row[2], &row[3]]).collect();
    assert_eq!(
        columns,
        [["a", "integer", "NULL", "f"], ["b", "text", "NULL", "f"], ["d", "numeric(10,2)", "NULL", "f"]]
    );
    assert_eq!(texts(&client, &asked("\\d+ v: query", &oid)).await, ["SELECT a, b, d FROM t WHERE a > 1;"]);
    assert!(rows(&client, &asked("\\d+ v: rules", &oid)).await.is_empty());
    let shown = rows(&client, &asked("\\sv v: what", &oid)).await;
    assert_eq!(shown[0][..4], ["public", "v", "v", "SELECT a, b, d FROM t WHERE a > 1;"].map(str::to_owned));
    // What tools find out about what a view needs.
    let needs = "SELECT DISTINCT dependent.relname, source.relname FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid \
                 JOIN pg_class dependent ON dependent.oid = r.ev_class JOIN pg_class source ON source.oid = d.refobjid \
                 WHERE d.deptype = 'n' AND dependent.oid <> source.oid ORDER BY 1, 2";
    assert_eq!(rows(&client, needs).await, [["v", "t"], ["w", "v"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_depends_on_what_is_told() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a INT, b TEXT); CREATE VIEW v AS SELECT a FROM t; CREATE VIEW w AS SELECT a FROM v",
        )
        .await
        .unwrap();
    let error = client.batch_execute("DROP TABLE t").await.unwrap_err();
    let error = error.as_db_error().expect("the server's");
    assert_eq!(error.code().code(), "2BP01");
    assert_eq!(error.message(), "cannot drop table t because other objects depend on it");
    assert_eq!(error.detail(), Some("view v depends on table t\nview w depends on view v"));
    assert_eq!(error.hint(), Some("Use DROP ... CASCADE to drop the dependent objects too."));
    let error = client.batch_execute("ALTER TABLE t DROP COLUMN a").await.unwrap_err();
    let error = error.as_db_error().expect("the server's");
    assert_eq!(error.detail(), Some("view v depends on column a of table t\nview w depends on view v"));
    client.batch_execute("ALTER TABLE t DROP COLUMN b").await.unwrap();
    // A prepared statement of a view that is replaced.
    client
        .batch_execute("CREATE TABLE u (a INT, b INT); INSERT INTO u VALUES (1, 2); CREATE VIEW x AS SELECT a FROM u")
        .await
        .unwrap();
    let statement = client.prepare("SELECT a FROM x WHERE a > $1").await.unwrap();
    assert_eq!(client.query(&statement, &[&0i32]).await.unwrap()[0].get::<_, i32>(0), 1);
    client.batch_execute("CREATE OR REPLACE VIEW x AS SELECT b AS a FROM u").await.unwrap();
    assert_eq!(client.query(&statement, &[&0i32]).await.unwrap()[0].get::<_, i32>(0), 2);
    client.batch_execute("DROP TABLE u CASCADE").await.unwrap();
    let error = client.query(&statement, &[&0i32]).await.unwrap_err();
    assert_eq!(error.code().expect("the server's").code(), "42P01");
}
