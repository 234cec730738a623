//! One case: a copy of the directory with one damage, checked, opened, asked, written, opened again; and what came of it.
//!
//! Invariants:
//! - An answer is what it is without damage, or an error of a kind that damage has, which names a file. Anything else is [`Outcome::Wrong`].
//! - A panic is wrong, too, also one that the database caught.

use super::asked::{self, Answer};
use super::damage::{Damage, apply};
use super::made;
use crate::support::DIR;
use alluvia_node::check_on;
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{Error, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What came of a damage, the best last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// With the reason.
    Wrong(String),
    /// Not opened, and the error names a file: what it says.
    Refused(String),
    /// After a crash: as everything through an earlier version was, and the start says that the last process had not stopped cleanly, and
    /// through which version everything is there. What the log's end says is all that is known of it (docs/FORMAT.md, "What this cannot
    /// tell"); where bytes of the end are left that mean nothing, the start says that, too.
    Earlier,
    /// The same, and the start says nothing. There is none of these.
    Untold,
    /// Opened; what is damaged is refused by an error that names a file, and all else is right.
    Told,
    /// Every answer is right, and `check` finds the damage: what was damaged was made again or done without.
    Rebuilt,
    /// Every answer is right, and `check` or a start has a word for it, which is no finding.
    Noted,
    /// Every answer is right, and nobody noticed anything.
    Right,
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Wrong(_) => "wrong",
            Outcome::Refused(_) => "refused",
            Outcome::Earlier => "earlier",
            Outcome::Untold => "untold",
            Outcome::Told => "told",
            Outcome::Rebuilt => "rebuilt",
            Outcome::Noted => "noted",
            Outcome::Right => "right",
        }
    }
}

/// What a start says of the log's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    AfterStop,
    AfterCrash,
    /// It has cut off bytes that mean nothing.
    Cut,
}

/// Everything that a database is asked on one disk, through two starts. The first start's error alone, where it does not open.
fn answers(disk: &Arc<FaultDisk>, spill: &Path, runtime: &Runtime) -> Result<(Vec<Answer>, Start), Error> {
    let mut answers = Vec::new();
    let day = Duration::from_secs(24 * 3600);
    let db = made::open(disk, spill, 4 * day)?;
    let start = match db.recovery() {
        None => Start::AfterStop,
        Some(recovery) if recovery.torn.is_none() => Start::AfterCrash,
        Some(_) => Start::Cut,
    };
    runtime.block_on(async {
        asked::read(&db, &mut answers).await;
        asked::write(&db, &mut answers).await;
    });
    drop(db);
    match made::open(disk, spill, 4 * day) {
        Ok(db) => runtime.block_on(asked::read_again(&db, &mut answers)),
        Err(error) => answers.push(asked::refused(error)),
    }
    Ok((answers, start))
}

/// The answers without damage.
pub fn right_answers(disk: &Arc<FaultDisk>, spill: &Path, runtime: &Runtime) -> Vec<Answer> {
    answers(&made::copy(disk), spill, runtime).expect("it opens").0
}

/// What cases of one image are run with.
pub struct Bench<'a> {
    pub whole: &'a Arc<FaultDisk>,
    /// The answers without damage; then others that are right if a start says that it has cut the log's end.
    pub right: &'a [Vec<Answer>],
    pub spill: &'a Path,
    pub runtime: &'a Runtime,
}

impl Bench<'_> {
    /// Runs one case.
    pub fn outcome(&self, path: &Path, damage: &Damage) -> Outcome {
        let run = || {
            let disk = made::copy(self.whole);
            apply(&disk, path, damage);
            self.of_damaged(&disk)
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Outcome::Wrong("a panic".to_owned()))
    }

    fn of_damaged(&self, disk: &Arc<FaultDisk>) -> Outcome {
        let found = match check_on(made::copy(disk) as Arc<dyn Disk>, Path::new(DIR), &mut |_| {}) {
            Ok(report) if !report.findings.is_empty() => Found::Finding,
            Ok(report) if !report.notices.is_empty() || report.torn_log.is_some() => Found::Notice,
            Ok(_) => Found::Nothing,
            Err(error) if is_of_damage(&error) => Found::Finding,
            Err(error) => return Outcome::Wrong(format!("check: {error}")),
        };
        match answers(disk, self.spill, self.runtime) {
            Err(error) => match (is_of_damage(&error), found) {
                (true, Found::Finding) => Outcome::Refused(error.message().to_owned()),
                (true, _) => Outcome::Wrong(format!("a check finds nothing, and it is refused: {error}")),
                (false, _) => Outcome::Wrong(format!("refused: {error}")),
            },
            Ok((answers, start)) => {
                let judged = |right: &Vec<Answer>| judge(right, &answers, found, start);
                let is_earlier = || self.right[1..].iter().any(|right| !matches!(judged(right), Outcome::Wrong(_)));
                match judged(&self.right[0]) {
                    Outcome::Wrong(_) if is_earlier() => match start {
                        Start::AfterStop => Outcome::Untold,
                        Start::AfterCrash | Start::Cut => Outcome::Earlier,
                    },
                    outcome => outcome,
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Notice,
    Finding,
}

/// Whether an error is one that damage has, and says where.
fn is_of_damage(error: &Error) -> bool {
    let is_kind = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::IncompatibleFormat | ErrorKind::Io);
    is_kind && error.message().contains(DIR)
}

const TABLES: [&str; 6] = ["visits", "goods", "named", "notes", "sent", "later"];

/// The table that a question is about.
fn table_of(question: &str) -> Option<&'static str> {
    let question = if question.contains("dear") { "goods" } else { question };
    let question = if question.starts_with("send again") { "sent" } else { question };
    TABLES.into_iter().find(|table| question.contains(table))
}

/// Whether a question changes rows.
fn is_write(question: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| question.starts_with(verb))
}

/// Whether rows are those of before some writes, where each of these has come to its rows or has not: what both have is there, and nothing
/// that none has.
fn is_between(said: &[String], before: &[String], after: &[String]) -> bool {
    let is_known = said.iter().all(|row| before.contains(row) || after.contains(row));
    is_known && before.iter().filter(|row| after.contains(row)).all(|row| said.contains(row))
}

fn judge(right: &[Answer], answers: &[Answer], found: Found, start: Start) -> Outcome {
    let mut told = 0;
    // Tables that did not take a write, and said so: what is in them then is another thing.
    let mut unwritten: Vec<Option<&str>> = Vec::new();
    for (at, answer) in answers.iter().enumerate() {
        let expected = right.get(at).filter(|expected| expected.question == answer.question);
        match (&answer.said, expected.map(|expected| &expected.said)) {
            (Ok(said), Some(Ok(expected))) if said == expected => {}
            (Err(error), Some(Err(expected))) if error.kind() == expected.kind() => {}
            (Err(error), _) if is_of_damage(error) => {
                told += 1;
                if is_write(&answer.question) {
                    unwritten.push(table_of(&answer.question));
                }
            }
            (Ok(said), Some(Ok(expected)))
                if !is_write(&answer.question) && unwritten.contains(&table_of(&answer.question)) =>
            {
                // Of what was not asked before the writes nothing else is known.
                let before = right[..at].iter().find(|before| before.question == answer.question);
                let before = before.and_then(|before| before.said.as_ref().ok());
                if let Some(before) = before.filter(|before| !is_between(said, before, expected)) {
                    let of = &answer.question;
                    return Outcome::Wrong(format!(
                        "{of}\n    {said:?}\n    is neither {before:?}\n    nor {expected:?}"
                    ));
                }
            }
            (said, expected) => {
                return Outcome::Wrong(format!("{}\n    {said:?}\n    in the place of {expected:?}", answer.question));
            }
        }
    }
    match (told > 0, found) {
        (true, Found::Finding) => Outcome::Told,
        (true, _) => Outcome::Wrong(format!("a check finds nothing, and {told} answers are refused")),
        (false, Found::Finding) => Outcome::Rebuilt,
        (false, Found::Notice) => Outcome::Noted,
        (false, Found::Nothing) if start == Start::Cut => Outcome::Noted,
        (false, Found::Nothing) => Outcome::Right,
    }
}
