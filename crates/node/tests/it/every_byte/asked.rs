//! What a database is asked: all rows, boxes, estimates, single keys, batches that are sent again, a write, a merge.
//!
//! Invariant: the questions, and their order, are the same whatever state the database is in, so that answers are compared one by one. What
//! may differ between two right answers (an estimate) is asked for whether it holds.

use super::made::{self, KEYS, PRODUCERS};
use crate::support::shown;
use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind, Result};

/// One question, and what came of it.
#[derive(Debug)]
pub struct Answer {
    pub question: String,
    pub said: Result<Vec<String>>,
}

/// Asked in any state.
const ROWS: &[&str] = &[
    "SELECT * FROM visits",
    "SELECT * FROM goods",
    "SELECT * FROM named",
    "SELECT * FROM notes",
    "SELECT * FROM sent",
    "SELECT * FROM later",
];

const QUESTIONS: &[&str] = &[
    // Summaries, the tree, codes that are cut, cuboids, the predicate cache.
    "SELECT count(*), sum(n), min(price), max(price) FROM visits",
    "SELECT count(*), sum(n) FROM visits WHERE country = 'Chile' AND at >= '2026-02-01' AND at < '2026-03-01'",
    "SELECT country, count(*), sum(n) FROM visits GROUP BY country",
    "SELECT count(*) FROM visits WHERE price > 5000",
    "SELECT kind, sum(price) FROM goods WHERE kind >= 'kind 1' GROUP BY kind",
    // Keys: of a segment, replaced, dead, of the log, never there; the same of hashes.
    "SELECT * FROM goods WHERE id = 4",
    "SELECT * FROM goods WHERE id = 5",
    "SELECT * FROM goods WHERE id = 22",
    "SELECT * FROM goods WHERE id = 100",
    "SELECT * FROM goods WHERE id BETWEEN 28 AND 31",
    "SELECT * FROM named WHERE name = 'name 3'",
    "SELECT * FROM named WHERE name = 'name 4'",
    // Definitions and rights.
    "SELECT count(*) FROM dear",
    "SELECT rolname, rolconfig::text FROM pg_roles WHERE rolname = 'reader'",
    "SELECT has_table_privilege('reader', 'visits', 'SELECT'), obj_description('visits'::regclass)",
];

/// Statements that change rows, each of one table.
const WRITES: &[&str] = &[
    "INSERT INTO visits VALUES ('Chile', 'city after', '2026-02-03', 7, 7.5)",
    "INSERT INTO goods VALUES (200, 'after', 1.5)",
    // There already, in a segment and in the log.
    "INSERT INTO goods VALUES (4, 'twice', 1.5)",
    "INSERT INTO goods VALUES (100, 'twice', 1.5)",
    "UPDATE goods SET price = price + 1 WHERE id = 5",
    "DELETE FROM goods WHERE id = 6",
    "INSERT INTO named VALUES ('name 3', 333)",
    "INSERT INTO notes (note) VALUES ('after')",
];

/// Half of the rows, by a sample and in full.
const BOX: &str = "FROM visits WHERE country IN ('Chile', 'France') AND at >= '2026-01-20'";

async fn ask(session: &Session, sql: &str) -> Answer {
    let said = async { session.sql(sql).await?.collect().await }.await.map(|batches| {
        let mut rows = shown(&batches);
        rows.sort();
        rows
    });
    Answer { question: sql.to_owned(), said }
}

/// Whether the bounds of an estimate hold what is right.
async fn estimate(session: &Session) -> Answer {
    let exact = ask(session, &format!("SELECT count(*), sum(n) {BOX}")).await;
    let setting = "SET max_error = 0.9".to_owned();
    let sampled = match ask(session, &setting).await.said {
        Ok(_) => {
            let bounds = "lower_bound(count(*)), upper_bound(count(*)), lower_bound(sum(n)), upper_bound(sum(n))";
            ask(session, &format!("SELECT {bounds} {BOX}")).await
        }
        Err(error) => Answer { question: setting, said: Err(error) },
    };
    let _ = ask(session, "RESET max_error").await;
    let question = format!("an estimate {BOX}");
    let numbers = |rows: &[String]| -> Vec<f64> {
        rows.iter().flat_map(|row| row.split('|')).map(|text| text.parse().unwrap_or(f64::NAN)).collect()
    };
    let said = match (exact.said, sampled.said) {
        (Ok(exact), Ok(sampled)) => {
            let (truth, bounds) = (numbers(&exact), numbers(&sampled));
            let holds = truth.len() == 2
                && bounds.len() == 4
                && (0..2).all(|at| bounds[2 * at] <= truth[at] && truth[at] <= bounds[2 * at + 1]);
            Ok(vec![if holds { "it holds".to_owned() } else { format!("{exact:?} is not within {sampled:?}") }])
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    Answer { question, said }
}

fn answered(question: &str, said: Result<String>) -> Answer {
    Answer { question: question.to_owned(), said: said.map(|text| vec![text]) }
}

/// Batches that were applied are sent again.
fn send_again(db: &Database, answers: &mut Vec<Answer>) {
    let again = |key: Option<&str>, producer: Option<&str>| {
        let said = made::send(db, key, producer).map(|duplicate| format!("applied before: {duplicate}"));
        answered(&format!("send again {:?}", key.or(producer)), said)
    };
    answers.extend(KEYS.iter().map(|key| again(Some(key), None)));
    answers.extend(PRODUCERS.iter().map(|producer| again(None, Some(producer))));
}

/// What was written and read before anything else is written.
pub async fn read(db: &Database, answers: &mut Vec<Answer>) {
    let session = db.session();
    for sql in ROWS.iter().chain(QUESTIONS) {
        answers.push(ask(&session, sql).await);
    }
    answers.push(estimate(&session).await);
    send_again(db, answers);
}

/// Writes, and reads that again.
pub async fn write(db: &Database, answers: &mut Vec<Answer>) {
    let session = db.session();
    for sql in WRITES {
        let mut answer = ask(&session, sql).await;
        if answer.said.as_ref().is_err_and(|error| error.kind() == ErrorKind::UniqueViolation) {
            answer.said = Ok(vec!["the key is there".to_owned()]);
        }
        answers.push(answer);
    }
    answers.push(ask(&session, "SELECT count(*), max(id), count(DISTINCT id) FROM notes").await);
}

/// After another start: all rows, before and after they are merged.
pub async fn read_again(db: &Database, answers: &mut Vec<Answer>) {
    let session = db.session();
    send_again(db, answers);
    for sql in ROWS {
        answers.push(ask(&session, sql).await);
    }
    // Not by CALL, which waits for threads that look about every so often.
    let merged = db.core().sort().and_then(|_| db.core().merge(true)).map(|_| "merged".to_owned());
    answers.push(answered("sort and merge", merged));
    for sql in ROWS.iter().chain(&QUESTIONS[..3]) {
        answers.push(ask(&session, sql).await);
    }
}

/// A start that failed.
pub fn refused(error: Error) -> Answer {
    Answer { question: "another start".to_owned(), said: Err(error) }
}
