//! Inside a transaction each statement sees what those before it have changed, and COMMIT makes just that. The model is a map
//! from keys to rows, of a table without a key the rows themselves.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, run, tag};
use crate::support::{Random, shown_rows as rows, variable};
use alluvia_query::Session;
use alluvia_types::ErrorKind;
use std::collections::BTreeMap;

/// What a table has: of one with a key its rows by key, of one without one row for each number under which it came.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    rows: BTreeMap<i64, (i64, i64)>,
    came: i64,
}

impl Model {
    fn add(&mut self, id: i64, n: i64) {
        self.rows.insert(self.came, (id, n));
        self.came += 1;
    }

    fn has(&self, id: i64) -> bool {
        self.rows.values().any(|row| row.0 == id)
    }

    fn remove(&mut self, goes: impl Fn(i64, i64) -> bool) -> usize {
        let before = self.rows.len();
        self.rows.retain(|_, row| !goes(row.0, row.1));
        before - self.rows.len()
    }

    fn shown(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.rows.values().copied().collect();
        rows.sort_unstable();
        rows.into_iter().map(|(id, n)| format!("{id}|{n}")).collect()
    }

    fn groups(&self) -> Vec<String> {
        let mut groups: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for (id, n) in self.rows.values() {
            let group = groups.entry(format!("g{}", id % 3)).or_default();
            *group = (group.0 + 1, group.1 + n);
        }
        groups.into_iter().map(|(group, (count, sum))| format!("{group}|{count}|{sum}")).collect()
    }
}

const KEYS: u64 = 24;

/// Runs a random statement on a table and on its model.
async fn step(session: &Session, random: &mut Random, table: &str, has_key: bool, model: &mut Model) {
    let (id, n) = (random.below(KEYS) as i64, random.below(100) as i64);
    let from = random.below(KEYS) as i64;
    let until = from + random.below(6) as i64;
    let within = move |id: i64| (from..=until).contains(&id);
    let row = |id: i64, n: i64| format!("({id}, 'g{}', {n})", id % 3);
    let count = model.rows.values().filter(|row| within(row.0)).count();
    match random.below(8) {
        0 | 1 => {
            let mut new: Vec<i64> = (0..3).map(|at| (id + at * 7) % KEYS as i64).collect();
            new.retain(|&id| !has_key || !model.has(id));
            if new.is_empty() {
                return;
            }
            let values: Vec<String> = new.iter().map(|&id| row(id, n)).collect();
            let done = tag(session, &format!("INSERT INTO {table} VALUES {}", values.join(", "))).await;
            assert_eq!(done, format!("INSERT 0 {}", new.len()));
            new.into_iter().for_each(|id| model.add(id, n));
        }
        2 if has_key => {
            let values = [row(id, n), row(id, n + 1), row((id + 1) % KEYS as i64, n)].join(", ");
            let sql = format!("INSERT INTO {table} VALUES {values} ON CONFLICT DO NOTHING");
            let mut came = 0;
            for (id, n) in [(id, n), (id, n + 1), ((id + 1) % KEYS as i64, n)] {
                if !model.has(id) {
                    model.add(id, n);
                    came += 1;
                }
            }
            assert_eq!(tag(session, &sql).await, format!("INSERT 0 {came}"));
        }
        3 if has_key => {
            let set = random.pick(&["n = excluded.n", "n = excluded.n, g = excluded.g", "n = t.n + excluded.n"]);
            let sql = format!("INSERT INTO {table} AS t VALUES {} ON CONFLICT (id) DO UPDATE SET {set}", row(id, n));
            assert_eq!(tag(session, &sql).await, "INSERT 0 1");
            match model.rows.values_mut().find(|row| row.0 == id) {
                Some(row) if set.contains('+') => row.1 += n,
                Some(row) => row.1 = n,
                None => model.add(id, n),
            }
        }
        4 => {
            let sql = format!("UPDATE {table} SET n = n + {n} WHERE id BETWEEN {from} AND {until}");
            assert_eq!(tag(session, &sql).await, format!("UPDATE {count}"));
            model.rows.values_mut().filter(|row| within(row.0)).for_each(|row| row.1 += n);
        }
        5 => {
            // Another key, which is free.
            if has_key && (model.has(id) || count != 1) {
                return;
            }
            let sql = format!("UPDATE {table} SET id = {id}, g = 'g{}' WHERE id BETWEEN {from} AND {until}", id % 3);
            assert_eq!(tag(session, &sql).await, format!("UPDATE {count}"));
            model.rows.values_mut().filter(|row| within(row.0)).for_each(|row| row.0 = id);
        }
        6 => {
            let sql = format!("DELETE FROM {table} WHERE id BETWEEN {from} AND {until} AND n % 2 = 0");
            let gone = model.remove(|id, n| within(id) && n % 2 == 0);
            assert_eq!(tag(session, &sql).await, format!("DELETE {gone}"));
        }
        _ => {
            let least = 60 + n;
            let sql = format!("DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE n > {least})");
            let over: Vec<i64> = model.rows.values().filter(|row| row.1 > least).map(|row| row.0).collect();
            let gone = model.remove(|id, _| over.contains(&id));
            assert_eq!(tag(session, &sql).await, format!("DELETE {gone}"));
        }
    }
}

/// A table is what its model is, to every way of reading it.
async fn check(session: &Session, table: &str, model: &Model) {
    assert_eq!(rows(session, &format!("SELECT id, n FROM {table} ORDER BY id, n")).await, model.shown());
    let groups = format!("SELECT g, count(*), sum(n) FROM {table} GROUP BY g ORDER BY g");
    assert_eq!(rows(session, &groups).await, model.groups());
    let count = [model.rows.len().to_string()];
    assert_eq!(rows(session, &format!("SELECT count(*) FROM {table}")).await, count);
    let joined = format!("SELECT count(*) FROM {table} AS a JOIN (SELECT DISTINCT id FROM {table}) AS b USING (id)");
    assert_eq!(rows(session, &joined).await, count);
    let least = format!("SELECT id FROM {table} WHERE g = 'g1' ORDER BY id LIMIT 1");
    let of_model = model.rows.values().map(|row| row.0).filter(|id| id % 3 == 1).min();
    assert_eq!(rows(session, &least).await, of_model.map(|id| id.to_string()).into_iter().collect::<Vec<_>>());
}

#[test]
fn statements_of_a_transaction_see_what_a_model_has_and_commit_makes_it() {
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(0x5eed);
    let transactions = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(25);
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut models = [Model::default(), Model::default()];
    let tables = [("keyed", true), ("keyless", false)];
    {
        let db = open(dir.path());
        block_on(async {
            let (session, other) = (db.session(), db.session());
            let with = "WITH (dimensions = 'g', measures = 'n')";
            tag(&session, &format!("CREATE TABLE keyed (id BIGINT PRIMARY KEY, g TEXT, n BIGINT) {with}")).await;
            tag(&session, &format!("CREATE TABLE keyless (id BIGINT, g TEXT, n BIGINT) {with}")).await;
            for _ in 0..transactions {
                let before = models.clone();
                tag(&session, "BEGIN").await;
                let mut saved = None;
                for _ in 0..1 + random.below(12) {
                    let at = random.below(2) as usize;
                    let (table, has_key) = tables[at];
                    match random.below(9) {
                        0 => {
                            tag(&session, "SAVEPOINT s").await;
                            saved = Some(models.clone());
                        }
                        1 => {
                            if let Some(saved) = &saved {
                                tag(&session, "ROLLBACK TO s").await;
                                models = saved.clone();
                            }
                        }
                        _ => step(&session, &mut random, table, has_key, &mut models[at]).await,
                    }
                    check(&session, table, &models[at]).await;
                }
                // Nobody else has seen any of it.
                for ((table, _), model) in tables.iter().zip(&before) {
                    check(&other, table, model).await;
                }
                if random.below(5) == 0 {
                    tag(&session, "ROLLBACK").await;
                    models = before;
                } else {
                    tag(&session, "COMMIT").await;
                }
                for ((table, _), model) in tables.iter().zip(&models) {
                    check(&session, table, model).await;
                    check(&other, table, model).await;
                }
                match random.below(4) {
                    0 => drop(tag(&session, "CALL alluvia.flush()").await),
                    1 => drop(tag(&session, "CALL alluvia.merge()").await),
                    _ => {}
                }
            }
        });
    }
    let db = open(dir.path());
    block_on(async {
        for ((table, _), model) in tables.iter().zip(&models) {
            check(&db.session(), table, model).await;
        }
    });
}

#[test]
fn changes_of_rows_without_a_key_need_no_turns_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let session = db.session();
        tag(&session, "CREATE TABLE t (id BIGINT, n BIGINT)").await;
        tag(&session, "INSERT INTO t SELECT n, 0 FROM generate_series(1, 40) AS s (n)").await;
        // Each adds one to every row, eight times.
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let session = db.session();
            writers.spawn(async move {
                for _ in 0..8 {
                    loop {
                        match run(&session, "UPDATE t SET n = n + 1").await {
                            Ok(done) => {
                                assert_eq!(done, "UPDATE 40");
                                break;
                            }
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                        }
                    }
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        assert_eq!(rows(&session, "SELECT count(*), min(n), max(n) FROM t").await, ["40|24|24"]);
    });
}

#[test]
fn what_a_transaction_computed_from_is_as_it_was_or_it_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    block_on(async {
        let (one, two) = (db.session(), db.session());
        for key in ["BIGINT PRIMARY KEY", "BIGINT"] {
            tag(&one, &format!("CREATE TABLE t (id {key}, n BIGINT)")).await;
            tag(&one, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").await;
            for change in ["UPDATE t SET n = n + 10 WHERE id = 1", "DELETE FROM t WHERE id = 1"] {
                tag(&one, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
                // Rows with a key are locked by who changes them: there it is told by the statement.
                let is_told_at_once = key != "BIGINT";
                if !is_told_at_once {
                    tag(&one, change).await;
                }
                tag(&two, "UPDATE t SET n = n + 100 WHERE id = 1").await;
                let seen = rows(&one, "SELECT n FROM t WHERE id = 2").await;
                assert_eq!(seen, ["2"]);
                let lost = run(&one, if is_told_at_once { change } else { "COMMIT" }).await.unwrap_err();
                assert_eq!(lost.kind(), ErrorKind::Conflict, "{change}: {lost}");
                assert!(lost.to_string().contains("hint"), "{lost}");
                if is_told_at_once {
                    tag(&one, "ROLLBACK").await;
                }
            }
            // Others' rows are in nobody's way.
            tag(&one, "BEGIN").await;
            tag(&one, "UPDATE t SET n = n + 1000 WHERE id = 2").await;
            tag(&two, "UPDATE t SET n = n + 1000 WHERE id = 3").await;
            tag(&one, "COMMIT").await;
            assert_eq!(rows(&one, "SELECT * FROM t ORDER BY id").await, ["1|201", "2|1002", "3|1003"]);
            tag(&one, "DROP TABLE t").await;
        }
    });
}
