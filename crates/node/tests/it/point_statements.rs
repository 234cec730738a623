//! Prepared statements about rows that they name by their keys, or by first columns of these, joins and aggregates among them, against
//! their texts in a second database, which plans each of them: generated ones, with values near the limits of their types, in and out of
//! transactions. Answers, errors and all that the tables have are the same. Most of them are answered by heaps.
//!
//! `ALLUVIA_TEST_STATEMENTS=100000` runs at least so many; `ALLUVIA_TEST_SEED` begins elsewhere; a failure prints what was run since
//! the tables were last compared.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, tag};
use crate::support::{Random, shown_rows, variable};
use alluvia_node::Database;
use alluvia_query::{Outcome, Prepared, ScalarValue, Session};
use alluvia_types::Result;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

const TABLE: &str = "CREATE TABLE t (a INT, b TEXT, i INT CHECK (i <> 13), l BIGINT, s SMALLINT NOT NULL, d DECIMAL(8, 2), v VARCHAR(5), \
                     x TEXT, f BOOLEAN, day DATE, moment TIMESTAMP, PRIMARY KEY (a, b))";

/// Rows that are there are left alone.
const FILL: &str = "INSERT INTO t SELECT k, name, k * 100, k * 5000000000, k, k / 4.0, 'v' || k, 'text ' || k, k % 2 = 0, \
                    DATE '2026-01-01' + k, TIMESTAMP '2026-01-01 12:34:56.789012' \
                    FROM (SELECT value::int AS k FROM generate_series(1, 8) AS s (value)) AS numbers, \
                    (VALUES ('a'), ('b''c'), ('ü'), ('')) AS names (name) WHERE true ON CONFLICT DO NOTHING";

const OTHER: &str = "CREATE TABLE u (k BIGINT PRIMARY KEY, name TEXT, n INT)";
const FILL_OTHER: &str =
    "INSERT INTO u SELECT value * 3 - 10, 'name ' || value, value * value FROM generate_series(1, 20) AS s (value)";

/// Asks until the tables have heaps, which others make.
async fn heaps_are_there(session: &Session, db: &Database) {
    let prepared = session.prepare("SELECT u.name FROM t, u WHERE a = $1 AND k = i").unwrap();
    for _ in 0..1_000 {
        let rows = session.execute_prepared(&prepared, &[ScalarValue::Int32(Some(1))]).await.unwrap();
        rows.collect().await.unwrap();
        if db.engine().heap_answered() > 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no heap was made");
}

/// What values are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Number,
    Text,
    Boolean,
    Date,
    Time,
    /// Of the first column of the key.
    First,
    /// Of the second.
    Second,
}

/// The columns that are no key.
const COLUMNS: [(&str, Sort); 9] = [
    ("i", Sort::Number),
    ("l", Sort::Number),
    ("s", Sort::Number),
    ("d", Sort::Number),
    ("v", Sort::Text),
    ("x", Sort::Text),
    ("f", Sort::Boolean),
    ("day", Sort::Date),
    ("moment", Sort::Time),
];

const NUMBERS: [&str; 4] = ["i", "l", "s", "d"];

/// Small ones, and those near the limits of the integers.
const INTEGERS: &str = "0 1 -1 2 7 13 100 -250 32767 32768 -32768 -32769 2147483647 2147483648 -2147483648 -2147483649 \
                        9223372036854775807 -9223372036854775807";

/// Small ones, and such as do not fit, or only when they are rounded.
const SMALL: &str = "0.01 0.005 -0.005 0.004 2.345 -2.345 1.25";
const DECIMALS: &str = "999999.99 -999999.99 999999.995 1000000.0 32767.75 123456789.123456789 0.1234567890123456789";

/// None lies between two integers: a literal there is rounded to even (docs/KNOWN.md), and a parameter away from zero.
const DOUBLES: [f64; 5] = [0.75, 2.25, -0.125, 1234.25, 999999.75];

const TEXTS: [&str; 12] =
    ["", "a", "abcde", "abcdef", "abcde  ", "äöüßé", "äöüßéx", "it's", "12", "true", "a longer text", "2026-01-01"];

/// Dates as days since 1970, and times of them as microseconds.
const DATES: [(&str, i32); 4] =
    [("1970-01-01", 0), ("1969-12-31", -1), ("2026-01-01", 20_454), ("2026-02-28", 20_454 + 58)];
const TIMES: [(&str, i64); 4] = [
    ("1970-01-01 00:00:00", 0),
    ("1969-12-31 23:59:59.5", -500_000),
    ("2026-01-01 00:00:00.000001", 20_454 * 86_400_000_000 + 1),
    ("2026-01-01 12:00:00", 20_454 * 86_400_000_000 + 43_200_000_000),
];

/// A value, and how it is written.
type Written = (ScalarValue, String);

fn word(random: &mut Random, words: &'static str) -> &'static str {
    let words: Vec<&str> = words.split(' ').collect();
    random.pick(&words)
}

fn signed(text: &str) -> String {
    if text.starts_with('-') { format!("({text})") } else { text.to_owned() }
}

fn integer(random: &mut Random, number: i64) -> Written {
    let value = match (i16::try_from(number), i32::try_from(number)) {
        (Ok(small), _) if random.below(3) == 0 => ScalarValue::Int16(Some(small)),
        (_, Ok(middle)) if random.below(3) > 0 => ScalarValue::Int32(Some(middle)),
        _ => ScalarValue::Int64(Some(number)),
    };
    (value, signed(&number.to_string()))
}

fn decimal(text: &str) -> Written {
    let scale = text.len() - 1 - text.find('.').expect("a decimal has a point");
    let digits = text.trim_start_matches('-').len() - 1;
    let unscaled = text.replace('.', "").parse().expect("a number without its point");
    (ScalarValue::Decimal128(Some(unscaled), digits as u8, scale as i8), signed(text))
}

fn number(random: &mut Random) -> Written {
    match random.below(8) {
        0 => decimal(word(random, DECIMALS)),
        1 => {
            let number = DOUBLES[random.below(DOUBLES.len() as u64) as usize];
            (ScalarValue::Float64(Some(number)), signed(&format!("{number:?}")))
        }
        2 => decimal(word(random, SMALL)),
        3 | 4 => {
            let number = word(random, INTEGERS).parse().expect("an integer");
            integer(random, number)
        }
        _ => {
            let number = random.below(20) as i64 - 6;
            integer(random, number)
        }
    }
}

fn text(text: &str) -> Written {
    (ScalarValue::from(text), format!("'{}'", text.replace('\'', "''")))
}

fn value(random: &mut Random, sort: Sort) -> Written {
    let is_of_key = matches!(sort, Sort::First | Sort::Second);
    if random.below(if is_of_key { 60 } else { 10 }) == 0 {
        return (ScalarValue::Utf8(None), "NULL".to_owned());
    }
    match sort {
        Sort::Number => number(random),
        Sort::Text => text(random.pick(&TEXTS)),
        Sort::Boolean => {
            let truth = random.below(2) == 0;
            (ScalarValue::Boolean(Some(truth)), truth.to_string())
        }
        Sort::Date => {
            let (shown, days) = DATES[random.below(DATES.len() as u64) as usize];
            (ScalarValue::Date32(Some(days)), format!("DATE '{shown}'"))
        }
        Sort::Time => {
            let (shown, micros) = TIMES[random.below(TIMES.len() as u64) as usize];
            (ScalarValue::TimestampMicrosecond(Some(micros), None), format!("TIMESTAMP '{shown}'"))
        }
        Sort::First => match random.below(30) {
            0 => number(random),
            1 => text("3"),
            2 => integer(random, 99),
            _ => {
                let number = random.below(9) as i64;
                integer(random, number)
            }
        },
        Sort::Second => match random.below(30) {
            0 => text(random.pick(&TEXTS)),
            1 => integer(random, 5),
            _ => text(random.pick(&["a", "a", "b'c", "ü", "", "nobody"])),
        },
    }
}

enum Part {
    Text(String),
    /// A parameter.
    Slot(Sort),
}

/// A statement, of which each run has other values.
#[derive(Default)]
struct Template {
    parts: Vec<Part>,
}

impl Template {
    fn add(&mut self, text: &str) {
        self.parts.push(Part::Text(text.to_owned()));
    }

    /// A value, mostly as a parameter, and now and then of another sort than its column.
    fn add_value(&mut self, random: &mut Random, sort: Sort) {
        let any = [Sort::Number, Sort::Text, Sort::Boolean, Sort::Date, Sort::Time];
        let is_of_key = matches!(sort, Sort::First | Sort::Second);
        let is_other = !is_of_key && random.below(20) == 0;
        let sort = if is_other { any[random.below(5) as usize] } else { sort };
        match random.below(4) {
            0 => {
                let written = value(random, sort).1;
                self.add(&written);
            }
            _ => self.parts.push(Part::Slot(sort)),
        }
    }

    fn add_number(&mut self, random: &mut Random) {
        match random.below(2) {
            0 => self.add(random.pick(&NUMBERS)),
            _ => self.add_value(random, Sort::Number),
        }
    }

    /// What a column is set to.
    fn add_assigned(&mut self, random: &mut Random, sort: Sort) {
        let signs = [" + ", " - ", " * "];
        match (sort, random.below(6)) {
            (Sort::Number, 0..3) => {
                self.add_number(random);
                self.add(random.pick(&signs));
                self.add_number(random);
            }
            (Sort::Number, 3) => {
                self.add(random.pick(&["-(", "("]));
                self.add_number(random);
                self.add(random.pick(&signs));
                self.add_number(random);
                self.add(")");
                self.add(random.pick(&signs));
                self.add_number(random);
            }
            (Sort::Number, 4) => self.add(random.pick(&["i", "l", "s", "d", "-i", "-s", "-d", "a"])),
            (Sort::Text, 0) => self.add(random.pick(&["v", "x", "b"])),
            (Sort::Boolean, 0) => self.add("f"),
            (Sort::Date, 0) => self.add("day"),
            (Sort::Time, 0) => self.add("moment"),
            _ => self.add_value(random, sort),
        }
    }

    /// An equality, from either side.
    fn add_equal(&mut self, random: &mut Random, column: &str, sort: Sort) {
        match random.below(4) {
            0 => {
                self.add_value(random, sort);
                self.add(&format!(" = {column}"));
            }
            1 => {
                self.add(&format!("({column} = "));
                self.add_value(random, sort);
                self.add(")");
            }
            _ => {
                self.add(&format!("{column} = "));
                self.add_value(random, sort);
            }
        }
    }

    /// Both columns of the key, in either order.
    fn add_key(&mut self, random: &mut Random) {
        let (first, second) = (("a", Sort::First), ("b", Sort::Second));
        let [one, other] = if random.below(2) == 0 { [first, second] } else { [second, first] };
        self.add_equal(random, one.0, one.1);
        self.add(" AND ");
        self.add_equal(random, other.0, other.1);
    }

    fn add_condition(&mut self, random: &mut Random) {
        self.add(" WHERE ");
        match random.below(12) {
            0 | 1 => {
                let is_turned = random.below(2) == 0;
                self.add(if is_turned { "(b, a) IN (" } else { "(a, b) IN (" });
                let sorts = if is_turned { [Sort::Second, Sort::First] } else { [Sort::First, Sort::Second] };
                for at in 0..1 + random.below(3) {
                    self.add(if at > 0 { ", (" } else { "(" });
                    self.add_value(random, sorts[0]);
                    self.add(", ");
                    self.add_value(random, sorts[1]);
                    self.add(")");
                }
                self.add(")");
            }
            2 => {
                self.add("(");
                self.add_key(random);
                self.add(") OR (");
                self.add_key(random);
                self.add(")");
            }
            // These do not name whole keys alone.
            3 => self.add_equal(random, "a", Sort::First),
            4 => {
                self.add_key(random);
                self.add(" AND s > ");
                self.add_value(random, Sort::Number);
            }
            5 => self.add_prefix(random, ""),
            _ => self.add_key(random),
        }
    }

    fn update(random: &mut Random) -> Template {
        let mut made = Template::default();
        made.add("UPDATE t SET ");
        let mut columns = COLUMNS.to_vec();
        for at in 0..1 + random.below(3) {
            let (column, sort) = columns.remove(random.below(columns.len() as u64) as usize);
            made.add(&format!("{}{column} = ", if at > 0 { ", " } else { "" }));
            made.add_assigned(random, sort);
        }
        made.add_condition(random);
        made
    }

    fn select(random: &mut Random) -> Template {
        let mut made = Template::default();
        let mut columns: Vec<&str> = COLUMNS.iter().map(|(column, _)| *column).chain(["a", "b"]).collect();
        for at in 0..1 + random.below(4) {
            let column = columns.remove(random.below(columns.len() as u64) as usize);
            let alias = if random.below(5) == 0 { format!(" AS shown_{column}") } else { String::new() };
            made.add(&format!("{}{column}{alias}", if at > 0 { ", " } else { "SELECT " }));
        }
        made.add(" FROM t");
        made.add_condition(random);
        made.add(random.pick(&["", "", " FOR UPDATE", " FOR UPDATE", " FOR SHARE", " FOR UPDATE OF t NOWAIT"]));
        made
    }

    /// Conditions that fix the first column of the key, perhaps bound the second, and ask for more.
    fn add_prefix(&mut self, random: &mut Random, table: &str) {
        match random.below(5) {
            0 => {
                self.add(&format!("{table}a IN ("));
                for at in 0..1 + random.below(3) {
                    self.add(if at > 0 { ", " } else { "" });
                    self.add_value(random, Sort::First);
                }
                self.add(")");
            }
            _ => self.add_equal(random, &format!("{table}a"), Sort::First),
        }
        for _ in 0..random.below(3) {
            self.add(" AND ");
            self.add_other(random, table);
        }
    }

    fn add_other(&mut self, random: &mut Random, table: &str) {
        let comparisons = [" = ", " <> ", " < ", " <= ", " > ", " >= "];
        match random.below(8) {
            0 | 1 => {
                self.add(&format!("{table}b{}", random.pick(&comparisons)));
                self.add_value(random, Sort::Second);
            }
            2 => {
                self.add(&format!("{table}{} BETWEEN ", random.pick(&NUMBERS)));
                self.add_value(random, Sort::Number);
                self.add(" AND ");
                self.add_value(random, Sort::Number);
            }
            3 => {
                let (column, _) = COLUMNS[random.below(COLUMNS.len() as u64) as usize];
                self.add(&format!("{table}{column} IS {}NULL", random.pick(&["", "NOT "])));
            }
            4 => {
                self.add("NOT (");
                self.add_other(random, table);
                self.add(" OR ");
                self.add_other(random, table);
                self.add(")");
            }
            5 => self.add(&format!("{table}i < {table}l")),
            _ => {
                let (column, sort) = COLUMNS[random.below(COLUMNS.len() as u64) as usize];
                self.add(&format!("{table}{column}{}", random.pick(&comparisons)));
                self.add_value(random, sort);
            }
        }
    }

    /// Rows of a prefix, of which the first ones may be asked for.
    fn rows(random: &mut Random) -> Template {
        let mut made = Template::default();
        made.add(random.pick(&[
            "SELECT b, s, x FROM t WHERE ",
            "SELECT day, a, b, f AS g FROM t WHERE ",
            "SELECT l, d FROM t WHERE ",
        ]));
        if random.below(2) == 0 {
            made.add_prefix(random, "");
            made.add(random.pick(&["", " FOR UPDATE", " FOR SHARE", " ORDER BY a, b"]));
            return made;
        }
        made.add("a = ");
        made.add_value(random, Sort::First);
        if random.below(2) == 0 {
            made.add(" AND ");
            made.add_other(random, "");
        }
        made.add(random.pick(&[
            " ORDER BY b",
            " ORDER BY b DESC",
            " ORDER BY a, b",
            " ORDER BY f, b DESC",
            " ORDER BY s DESC, b",
        ]));
        made.add(random.pick(&["", " LIMIT 1", " LIMIT 2 OFFSET 1", " LIMIT 3", " OFFSET 2"]));
        made.add(random.pick(&["", "", " FOR UPDATE"]));
        made
    }

    /// Aggregates of a prefix, perhaps in groups.
    fn aggregates(random: &mut Random) -> Template {
        let mut made = Template::default();
        let known = [
            "count(*)",
            "count(x)",
            "count(DISTINCT s)",
            "sum(i)",
            "sum(l)",
            "sum(s)",
            "sum(d)",
            "min(b)",
            "max(d)",
            "min(day)",
            "max(moment)",
            "count(DISTINCT b)",
        ];
        let group = random.pick(&["", "", "a", "f", "a, f"]);
        let own = if group.is_empty() { String::new() } else { format!("{group}, ") };
        made.add(&format!("SELECT {own}{}, {} AS y FROM t WHERE ", random.pick(&known), random.pick(&known)));
        made.add_prefix(random, "");
        if !group.is_empty() {
            made.add(&format!(" GROUP BY {group}"));
            made.add(random.pick(&["", " ORDER BY 1", &format!(" ORDER BY {group}"), " ORDER BY y LIMIT 40"]));
        }
        made
    }

    /// Two tables, of which the second is found by what the first one has.
    fn joined(random: &mut Random) -> Template {
        let mut made = Template::default();
        made.add(random.pick(&[
            "SELECT t.b, u.name, u.n FROM t, u WHERE ",
            "SELECT count(*), sum(u.n) FROM u, t WHERE ",
            "SELECT x.b, u.name FROM t AS x JOIN u ON u.k = x.s WHERE ",
        ]));
        let table = if made.sql().contains("AS x") { "x." } else { "t." };
        if table == "t." {
            made.add(random.pick(&["k = s AND ", "u.k = t.i AND ", "t.l = k AND "]));
        }
        made.add_prefix(random, table);
        if random.below(3) == 0 {
            made.add(" AND u.n > ");
            made.add_value(random, Sort::Number);
        }
        made
    }

    fn generated(random: &mut Random) -> Template {
        match random.below(15) {
            9 | 10 => Template::rows(random),
            11 | 12 => Template::aggregates(random),
            13 | 14 => Template::joined(random),
            0..5 => Template::update(random),
            5 => {
                let mut made = Template::default();
                made.add("DELETE FROM t");
                made.add_condition(random);
                made
            }
            _ => Template::select(random),
        }
    }

    /// The statement with `$1, $2, ...`.
    fn sql(&self) -> String {
        let mut number = 0;
        let shown = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Slot(_) => {
                number += 1;
                format!("${number}")
            }
        });
        shown.collect()
    }

    /// Values for one run, and the statement with them in their places.
    fn filled(&self, random: &mut Random) -> (Vec<ScalarValue>, String) {
        let mut values = Vec::new();
        let mut written = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => written += text,
                Part::Slot(sort) => {
                    let (value, shown) = value(random, *sort);
                    values.push(value);
                    written += &shown;
                }
            }
        }
        (values, written)
    }
}

/// What became of a statement.
#[derive(PartialEq, Debug)]
enum Answer {
    Done(String),
    /// Columns, and rows in an order of their own.
    Rows(Vec<(String, DataType)>, Vec<String>),
    /// The SQLSTATE.
    Refused(&'static str),
}

fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let value = |column: &ArrayRef, row| {
            ArrayFormatter::try_new(column.as_ref(), &options).expect("shows").value(row).to_string()
        };
        let row = |at| batch.columns().iter().map(|column| value(column, at)).collect::<Vec<_>>().join("|");
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows
}

async fn rows_of(outcome: Result<Outcome>) -> Result<Answer> {
    let outcome = outcome?;
    let Some(rows) = &outcome.rows else { return Ok(Answer::Done(outcome.tag)) };
    let columns =
        rows.schema().fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
    let mut rows = shown(&outcome.collect().await?);
    rows.sort_unstable();
    Ok(Answer::Rows(columns, rows))
}

async fn answer(outcome: Result<Outcome>) -> (Answer, String) {
    match rows_of(outcome).await {
        Ok(answer) => (answer, String::new()),
        Err(error) => (Answer::Refused(error.kind().sqlstate()), error.to_string()),
    }
}

fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    (dir, db)
}

/// Two sessions, of two databases, that are told the same.
struct Pair {
    fast: Session,
    general: Session,
    /// What was run since the tables were compared.
    told: Vec<String>,
}

impl Pair {
    async fn both(&mut self, sql: &str) {
        self.told.push(sql.to_owned());
        let (fast, general) = (tag(&self.fast, sql).await, tag(&self.general, sql).await);
        assert_eq!(fast, general, "{sql}, after {:#?}", self.told);
    }

    async fn compare(&mut self) {
        let sql = "SELECT * FROM t ORDER BY a, b";
        let (fast, general) = (shown_rows(&self.fast, sql).await, shown_rows(&self.general, sql).await);
        assert_eq!(fast, general, "after {:#?}", self.told);
        self.told.clear();
    }

    /// Runs a statement both ways. Whether it went well.
    async fn run(&mut self, prepared: &Prepared, values: &[ScalarValue], text: &str) -> bool {
        self.told.push(format!("{} {values:?}\n{text}", prepared.sql()));
        let found = answer(self.fast.execute_prepared(prepared, values).await).await;
        let again = self.general.prepare(prepared.sql()).expect(text);
        let expected = answer(self.general.execute_prepared(&again, values).await).await;
        assert_eq!(found.0, expected.0, "after {:#?}\n{}\n{}", self.told, found.1, expected.1);
        !matches!(found.0, Answer::Refused(_))
    }
}

#[test]
fn prepared_statements_about_rows_do_what_their_texts_do() {
    let least = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(2_000);
    let mut random = Random(variable("ALLUVIA_TEST_SEED").unwrap_or(1));
    let ((_dir, db), (_other_dir, other_db)) = (database(), database());
    block_on(async {
        let mut pair = Pair { fast: db.session(), general: other_db.session(), told: Vec::new() };
        // Nothing here is about what is durable.
        for sql in [TABLE, OTHER, "SET durability = relaxed", FILL, FILL_OTHER] {
            pair.both(sql).await;
        }
        tag(&pair.general, "SET short_path = off").await;
        heaps_are_there(&pair.fast, &db).await;
        let (mut ran, mut went_well, mut in_transaction) = (0, 0, false);
        while ran < least {
            let template = Template::generated(&mut random);
            let prepared =
                pair.fast.prepare(&template.sql()).unwrap_or_else(|error| panic!("{}\n{error}", template.sql()));
            for _ in 0..1 + random.below(4) {
                let (values, text) = template.filled(&mut random);
                if in_transaction {
                    pair.both("SAVEPOINT s").await;
                }
                let is_done = pair.run(&prepared, &values, &text).await;
                if in_transaction && (!is_done || random.below(5) == 0) {
                    pair.both("ROLLBACK TO s").await;
                }
                ran += 1;
                went_well += u64::from(is_done);
                if ran % 8 == 0 {
                    pair.compare().await;
                }
            }
            match (random.below(12), in_transaction) {
                (0 | 1, false) => {
                    pair.both(random.pick(&["BEGIN", "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"])).await;
                    in_transaction = true;
                }
                (0 | 1, true) => {
                    pair.compare().await;
                    pair.both(random.pick(&["COMMIT", "COMMIT", "ROLLBACK"])).await;
                    pair.compare().await;
                    in_transaction = false;
                }
                (2, _) => pair.both(FILL).await,
                (3, false) => pair.both(random.pick(&["CALL alluvia.flush()", "CALL alluvia.merge()"])).await,
                _ => {}
            }
        }
        if in_transaction {
            pair.both("COMMIT").await;
        }
        pair.compare().await;
        // Many of them do something, or nothing would be compared.
        assert!(went_well > ran / 4, "{went_well} of {ran}");
        let by_heap = db.engine().heap_answered();
        assert!(by_heap > ran / 4, "{by_heap} of {ran} by heaps");
    });
}
