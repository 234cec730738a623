//! A TABLESAMPLE is honoured or refused, wherever it stands: with 0 percent a statement must say what it says of an empty table.

use super::*;
use crate::support::{Random, variable};

/// Makes queries of one column `id`, in which `<a>` stands for a table under the alias a: sampled, or empty.
struct Maker {
    random: Random,
    aliases: u64,
}

impl Maker {
    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("a{}", self.aliases)
    }

    /// A thing to select from, and the alias it goes by.
    fn source(&mut self, depth: u64) -> (String, String) {
        let alias = self.alias();
        let pick = if depth == 0 { self.random.below(3) } else { self.random.below(6) };
        let text = match pick {
            0 => format!("points AS {alias}"),
            1 | 2 => format!("<{alias}>"),
            3 => format!("({}) AS {alias}", self.query(depth - 1)),
            4 => {
                let ((left, a), (right, b)) = (self.source(depth - 1), self.source(depth - 1));
                let join = ["JOIN", "LEFT JOIN", "FULL JOIN"][self.random.below(3) as usize];
                format!(
                    "(SELECT coalesce({a}.id, {b}.id) AS id FROM {left} {join} {right} ON {a}.id = {b}.id) AS {alias}"
                )
            }
            _ => {
                let ((left, a), (right, b)) = (self.source(depth - 1), self.source(depth - 1));
                format!("(SELECT {a}.id AS id FROM ({left} CROSS JOIN {right}) WHERE {a}.id = {b}.id) AS {alias}")
            }
        };
        (text, alias)
    }

    fn condition(&mut self, alias: &str, depth: u64) -> String {
        if depth == 0 {
            return format!("{alias}.id % 2 = 0");
        }
        let query = self.query(depth - 1);
        match self.random.below(5) {
            0 => format!("{alias}.id IN ({query})"),
            1 => format!("{alias}.id NOT IN ({query})"),
            2 => format!("EXISTS ({query})"),
            3 => format!("{alias}.id > coalesce((SELECT max(q.id) FROM ({query}) AS q), -1)"),
            _ => {
                let inner = self.alias();
                format!("EXISTS (SELECT 1 FROM <{inner}> WHERE {inner}.id = {alias}.id)")
            }
        }
    }

    fn query(&mut self, depth: u64) -> String {
        let (source, alias) = self.source(depth);
        match self.random.below(6) {
            0 => {
                let condition = self.condition(&alias, depth);
                format!("SELECT {alias}.id AS id FROM {source} WHERE {condition}")
            }
            1 if depth > 0 => {
                let other = self.query(depth - 1);
                let operation = ["UNION", "UNION ALL", "EXCEPT", "INTERSECT"][self.random.below(4) as usize];
                format!("SELECT {alias}.id AS id FROM {source} {operation} {other}")
            }
            2 => {
                let name = self.alias();
                format!("WITH {name} AS (SELECT * FROM {source}) SELECT id FROM {name}")
            }
            3 => format!("SELECT count(*) AS id FROM {source}"),
            4 => {
                let one = self.alias();
                format!(
                    "SELECT (SELECT count(*) FROM <{one}>) - (SELECT count(*) FROM points) + min({alias}.id) AS id FROM {source}"
                )
            }
            _ => format!("SELECT {alias}.id AS id FROM {source} GROUP BY {alias}.id"),
        }
    }
}

/// Puts something in every marked place.
fn filled(sql: &str, place: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("<a") {
        let (number, after) = after.split_once('>').expect("a mark has an end");
        text += before;
        text += &place(&format!("a{number}"));
        rest = after;
    }
    text + rest
}

async fn outcome(world: &World, sql: &str) -> Result<Vec<Option<i64>>, alluvia_types::Error> {
    let batches = world.session.sql(sql).await?.collect().await?;
    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    let mut ids: Vec<Option<i64>> = batches.iter().flat_map(column).collect();
    ids.sort_unstable();
    Ok(ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_nothing_is_an_empty_table_wherever_it_stands() {
    let world = World::new(Lie::Sorted, 40).await;
    world.run("CREATE TABLE none (id BIGINT, x DOUBLE, y DOUBLE, z DOUBLE, kind TEXT)").await;
    let mut maker = Maker { random: Random(0x5eed), aliases: 0 };
    let statements = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(250);
    let (mut told_apart, mut asked, mut made) = (0, 0, 0);
    while asked < statements {
        made += 1;
        assert!(made < 20 * statements, "only {asked} of {made} statements can be planned");
        maker.aliases = 0;
        let depth = maker.random.below(4);
        let sql = maker.query(depth);
        if !sql.contains('<') {
            continue;
        }
        let method = ["BERNOULLI", "SYSTEM"][maker.random.below(2) as usize];
        let sampled = filled(&sql, |alias| format!("points AS {alias} TABLESAMPLE {method} (0)"));
        let empty = filled(&sql, |alias| format!("none AS {alias}"));
        let whole = filled(&sql, |alias| format!("points AS {alias}"));
        // What cannot be planned without a sample cannot be planned with one.
        let Ok(expected) = outcome(&world, &empty).await else { continue };
        asked += 1;
        let found = outcome(&world, &sampled).await.unwrap_or_else(|error| panic!("{sampled}: {error}"));
        assert_eq!(found, expected, "{sampled}");
        let all = filled(&sql, |alias| format!("points AS {alias} TABLESAMPLE {method} (100)"));
        let whole = outcome(&world, &whole).await.unwrap_or_else(|error| panic!("{whole}: {error}"));
        assert_eq!(outcome(&world, &all).await.expect("all"), whole, "{all}");
        told_apart += u64::from(whole != expected);
    }
    assert!(told_apart * 2 > asked, "only {told_apart} of {asked} statements depend on their samples");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_every_kind_take_samples() {
    let world = World::new(Lie::Sorted, 400).await;
    let sample = "SELECT id FROM points TABLESAMPLE BERNOULLI (0)";
    world.run(&format!("CREATE TABLE made AS {sample}")).await;
    world.run(&format!("INSERT INTO made {sample}")).await;
    world.run(&format!("INSERT INTO made (id) WITH s AS ({sample}) SELECT id FROM s")).await;
    assert_eq!(world.number("SELECT count(*) FROM made").await, 0);
    let file = world._dir.path().join("sample.csv");
    world.run(&format!("COPY ({sample}) TO '{}'", file.display())).await;
    let written = std::fs::read_to_string(&file).expect("written");
    assert!(!written.chars().any(|c| c.is_ascii_digit()), "{written}");
    world.run("BEGIN").await;
    world.run(&format!("DECLARE c CURSOR FOR {sample}")).await;
    assert_eq!(world.ids("FETCH ALL FROM c").await, Vec::<i64>::new());
    world.run("COMMIT").await;
    let plan = world.explained("SELECT id FROM points TABLESAMPLE BERNOULLI (10) REPEATABLE (2)").await;
    assert!(plan.text.contains("row_weight"), "{}", plan.text);
    let sql = "SELECT id FROM points TABLESAMPLE BERNOULLI ($1) REPEATABLE ($2)";
    let ten = [ScalarValue::Float64(Some(10.0)), ScalarValue::Float64(Some(2.0))];
    let expected = world.id_set("SELECT id FROM points TABLESAMPLE BERNOULLI (10) REPEATABLE (2)").await;
    assert_eq!(prepared_ids(&world.session, sql, &ten).await, expected);
    let prepared = world.session.prepare(sql).expect("prepares");
    let described = world.session.describe(prepared.statement(), &[]).await.expect("describes");
    assert!(described.parameters.iter().all(|field| field.data_type() == &arrow::datatypes::DataType::Float64));
    assert_eq!(described.parameters.len(), 2);
    for (values, state) in [
        ([ScalarValue::Float64(Some(101.0)), ScalarValue::Float64(Some(2.0))], "2202H"),
        ([ScalarValue::Float64(None), ScalarValue::Float64(Some(2.0))], "2202H"),
        ([ScalarValue::Float64(Some(5.0)), ScalarValue::Float64(None)], "2202G"),
    ] {
        let error = world.session.execute_prepared(&prepared, &values).await.expect_err("refused");
        assert_eq!(error.kind().sqlstate(), state, "{error}");
    }
    // A setting holds for all of these, too; the index and cuboids know of no sample.
    world.run("CALL alluvia.merge()").await;
    let sql = "SELECT count(*) FROM points WHERE kind = 'kind 0'";
    let all = world.number(sql).await;
    world.run("CALL alluvia.build_cuboids()").await;
    assert_eq!((world.number(sql).await, world.number(sql).await), (all, all));
    world.run("SET sample_fraction = 0.1").await;
    assert!(world.number(sql).await < all / 2);
    world.run("CREATE TABLE tenth AS SELECT * FROM points").await;
    world.run("SET sample_fraction = 1").await;
    assert_eq!(world.number(sql).await, all);
    assert!(world.number("SELECT count(*) FROM tenth").await < 200);
    assert!(world.rows("SELECT 1 FROM points TABLESAMPLE SYSTEM (0)").await.iter().all(|batch| batch.num_rows() == 0));
}
