//! `alluvia verify`: how often the intervals of a statement hold.

use crate::answer::{Asking, Held, Verified, verify as verify_trials};
use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::run::runner::Runner;
use crate::session::select::indexed::ready;
use crate::session::select::planning::plan;
use crate::session::statement::parse_one;
use alluvia_syntax::{Kind, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Asks a statement so many times, each time with rows drawn under another seed, and gives a table of figures.
pub(crate) async fn verify(runner: &Runner, sql: &str, trials: u64) -> Result<Outcome> {
    let statement = parse_one(&runner.scope, sql)?;
    let text = Arc::clone(&statement.text);
    runner.run(&text, |run| async move { verify_statement(&run, &statement, trials).await }).await
}

async fn verify_statement(run: &Run, statement: &Statement, trials: u64) -> Result<Outcome> {
    let Kind::Query(query) = &statement.kind else {
        return Err(Error::new(ErrorKind::NotSupported, "verify of anything but a SELECT is not supported"));
    };
    let Some(accuracy) = run.accuracy else {
        return Err(Error::new(ErrorKind::InvalidSetting, "verify wants a max_error above 0")
            .with_hint("SET max_error = 0.01, or give --max-error"));
    };
    let Some(ready) = ready(run, query, &statement.hints).await? else {
        // What is wrong with the statement itself, as a table that is not there, comes first.
        plan(run, query.clone(), &statement.hints).await?;
        let message = "only statements that the index answers without a plan can be verified";
        return Err(Error::new(ErrorKind::NotSupported, message).with_hint(
            "write count, sum and avg over one table with dimensions, with conditions that compare levels with plain constants",
        ));
    };
    let (kept, threads) = (Arc::clone(run.engine().kept()), run.settings.threads);
    let (read, bound, version) = (ready.read, ready.bound, ready.snapshot.version);
    let token = run.token.clone();
    let verified = blocking(move || {
        let asking = Asking { bound: &bound, read: &read, version, kept: &kept, threads };
        verify_trials(&asking, &accuracy, trials, || token.check())
    });
    Ok(Outcome::table("VERIFY", &["figure", "value"], table(&verified.await?)))
}

fn table(found: &Verified) -> Vec<Vec<Option<String>>> {
    let share = |part: u64, all: u64| match all {
        0 => None,
        _ => Some(format!("{:.2} %", 100.0 * part as f64 / all as f64)),
    };
    let of = |held: &Held| Some(format!("{:.2} % of {}", 100.0 * held.share(), held.values));
    let mean = |sum: f64, count: u64| (count > 0).then(|| format!("{:.6}", sum / count as f64));
    let mut rows = vec![
        ("trials answered from a sample".to_owned(), Some(found.sampled.to_string())),
        ("trials answered exactly".to_owned(), Some(found.exact.to_string())),
    ];
    if found.sampled == 0 {
        let reason = "no sample was foreseen to be cheaper than the exact answer".to_owned();
        rows.push(("why nothing was estimated".to_owned(), Some(reason)));
    }
    rows.extend([
        ("mean share of cut rows drawn".to_owned(), mean(found.drawn, found.sampled)),
        ("values estimated".to_owned(), Some(found.values.to_string())),
        ("intervals that hold".to_owned(), share(found.held, found.values)),
    ]);
    rows.extend(
        found.by_look.iter().map(|(look, held)| (format!("intervals that hold, stopped at look {look}"), of(held))),
    );
    rows.extend(found.least.iter().map(|(value, held)| (format!("held least often: {value}"), of(held))));
    rows.extend([
        ("mean width, relative to the exact value".to_owned(), mean(found.width, found.widths)),
        ("normal-theory intervals that hold".to_owned(), share(found.textbook_held, found.values)),
        ("mean width of normal theory".to_owned(), mean(found.textbook_width, found.widths)),
        ("groups lost".to_owned(), Some(found.lost.to_string())),
    ]);
    rows.into_iter().map(|(figure, value)| vec![Some(figure), value]).collect()
}
