//! docs/SQL.md, executed: its blocks of SQL, each in a session of its own, on a small database.
//!
//! Invariants:
//! - In a block that begins with ```` ```sql ```` every statement is done, and those that ask for rows get some.
//! - In one that begins with a SQLSTATE behind that (```` ```sql 0A000 ````) every statement is refused with it. These come last, when
//!   the tables are there.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_types::Result;

const DOCS: &str = include_str!("../../../../docs/SQL.md");

/// What the document asks of and does not make.
const POINTS: &str =
    "CREATE TABLE points (x DOUBLE, y DOUBLE) WITH (dimensions = 'x(x: linear 0..90); y(y: linear 0..90)');
    INSERT INTO points VALUES (2.35, 48.85), (2.2, 48.9), (13.4, 52.5)";
const SALES: &str = "INSERT INTO sales VALUES
    ('2026-11-20 09:15:00', 'Chile', 'Maule', 'Talca', 'Books', 'Andes', 'Atlas', 25.0, 1, 7),
    ('2026-11-20 09:16:30', 'France', 'Bretagne', 'Brest', 'Music', 'Plume', 'Vinyle', 12.5, 2, 8);
    CALL alluvia.merge()";

/// Blocks of SQL: what stands behind the language, and the text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fenced = DOCS.split("```").skip(1).step_by(2);
    let block = |block: &'static str| {
        let (head, sql) = block.split_once('\n')?;
        let behind = head.strip_prefix("sql")?;
        Some((behind.trim(), sql))
    };
    fenced.filter_map(block).collect()
}

/// Runs statements; gives how many rows each had that asks for some.
async fn rows(session: &Session, sql: &str) -> Result<Vec<usize>> {
    let mut counts = Vec::new();
    for statement in session.parse(sql)? {
        let outcome = session.execute(statement).await?;
        if outcome.rows.is_some() {
            counts.push(outcome.collect().await?.iter().map(|batch| batch.num_rows()).sum());
        }
    }
    Ok(counts)
}

#[test]
fn blocks_of_sql_do_what_they_say() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let (good, refused): (Vec<_>, Vec<_>) = blocks().into_iter().partition(|(sqlstate, _)| sqlstate.is_empty());
    assert!(good.len() >= 5 && !refused.is_empty(), "{} blocks are done and {} refused", good.len(), refused.len());
    runtime.block_on(async {
        let done = async |sql: &str| {
            let counts = rows(&db.session(), sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            assert!(counts.iter().all(|&count| count > 0), "{counts:?} rows of\n{sql}");
        };
        done(POINTS).await;
        for (_, sql) in good {
            done(sql).await;
            if sql.contains("CREATE TABLE sales") {
                done(SALES).await;
            }
        }
        for (sqlstate, sql) in refused {
            for statement in sql.split(";\n").filter(|statement| !statement.trim().is_empty()) {
                let error = rows(&db.session(), statement).await.expect_err(statement);
                assert_eq!(error.kind().sqlstate(), sqlstate, "{statement}\n{error}");
            }
        }
    });
}
