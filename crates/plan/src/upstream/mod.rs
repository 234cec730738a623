//! What DataFusion gets wrong, and which of our rules and settings mend it: a table whose every entry proves itself.
//!
//! Invariants:
//! - Of each mend there is a statement that is answered rightly by all rules, and not rightly by all but the mend.
//! - Each rule of ours, and each setting that `configure` changes, is a mend, or is in [`NOT_MENDS`] with the reason.
//! - The module of a mend names its issue upstream, and the version, in the words of [`Mend::line`].
//!
//! At an upgrade of DataFusion write the new version into [`WRONG_IN`] and into these lines, and run the tests of this
//! room. They tell each mend without which its statement is answered rightly: the rule can go, and its entry here. The
//! tables are a file a phase.

mod analyzer;
mod optimizer;
mod physical;
mod settings;
mod tests;

use arrow::array::{AsArray, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The version of DataFusion that the tables are about.
const WRONG_IN: &str = "55.2";
/// When it was looked for issues.
const SEARCHED: &str = "2026-11-27";

/// Where a mend is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    BeforeTypes,
    AfterTypes,
    Optimizer,
    Physical,
    /// A setting that `configure` changes.
    Setting,
}

/// What is known upstream.
enum Issues {
    /// Their numbers, or those of pull requests, in apache/datafusion.
    Known(&'static [u32]),
    /// None was found by these words.
    None(&'static str),
}

/// The right answer to a statement.
enum Right {
    /// These rows in this order; values are parted by `|`.
    Rows(&'static [&'static str]),
    /// An error with these words in it.
    Fails(&'static str),
    /// Texts that refer to no more buffers in a batch.
    Buffers(usize),
    /// The error of a statement that is stopped once it runs.
    Stops,
}

/// A mend of DataFusion.
struct Mend {
    phase: Phase,
    /// Its rules, as they name themselves, or the keys of its settings.
    names: &'static [&'static str],
    /// The text of its module.
    module: &'static str,
    issues: Issues,
    /// What is done before: `SET ...` in the session of the statement, all else by DataFusion alone. `{folder}` is an
    /// empty folder.
    setup: &'static [&'static str],
    statement: &'static str,
    right: Right,
    /// What DataFusion does without the mend.
    without: &'static str,
}

/// Rules and settings of ours that would be there if DataFusion erred nowhere, and why.
const NOT_MENDS: &[(Phase, &str, &str)] = &[
    (Phase::BeforeTypes, "unknown_texts", "PostgreSQL's: a quoted literal has the type of what stands beside it"),
    (
        Phase::BeforeTypes,
        "listed_text",
        "PostgreSQL's: text beside a BOOLEAN or a TIMESTAMP is read as INSERT reads it",
    ),
    (Phase::BeforeTypes, "compared_spans", "PostgreSQL's: intervals are compared by their length"),
    (Phase::BeforeTypes, "written_bytes", "PostgreSQL's: casts between text and bytes read and write its formats"),
    (
        Phase::BeforeTypes,
        "rounded_floats",
        "PostgreSQL's: numbers written with a point are NUMERIC, and round away from zero",
    ),
    (Phase::AfterTypes, "session_zone", "PostgreSQL's: a session has a time zone"),
    (Phase::AfterTypes, "exact_spreads", "PostgreSQL's: averages of integers are NUMERIC"),
    (Phase::AfterTypes, "bytes_of_literals", "PostgreSQL's: a literal that becomes bytes is read in its formats"),
    (Phase::AfterTypes, "bare_distinct", "takes names away that other rules of ours put on aggregates"),
    (
        Phase::Setting,
        "datafusion.execution.time_zone",
        "moments are of UTC in plans, and the table of functions is built for it; a session's zone is for `session_zone`",
    ),
    (
        Phase::Setting,
        "datafusion.execution.max_spill_file_size_bytes",
        "mends apache/datafusion#24883, by chance of threads, so that no statement shows it each time: `it spilled` does",
    ),
];

/// All mends.
fn mends() -> impl Iterator<Item = &'static Mend> {
    [analyzer::MENDS, optimizer::MENDS, physical::MENDS, settings::MENDS].into_iter().flatten()
}

impl Mend {
    /// What its module says of it.
    fn line(&self) -> String {
        match self.issues {
            Issues::Known(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
                format!("Mends apache/datafusion{} (in {WRONG_IN}).", numbers.join(", "))
            }
            Issues::None(words) => {
                format!("Mends DataFusion (in {WRONG_IN}): no issue upstream known (searched {SEARCHED}: {words}).")
            }
        }
    }
}

impl Right {
    /// Whether it is this answer.
    fn is(&self, answer: &Result<Vec<RecordBatch>, String>) -> bool {
        match (self, answer) {
            (Right::Rows(rows), Ok(batches)) => lines(batches) == *rows,
            (Right::Fails(words), Err(error)) => error.contains(words),
            (Right::Buffers(most), Ok(batches)) => most_buffers(batches) <= *most,
            (Right::Stops, Err(error)) => error.contains(tests::STOPPED),
            _ => false,
        }
    }
}

/// Rows as text.
fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns: Vec<ArrayFormatter<'_>> = columns.collect::<Result<_, _>>().expect("values that have a text");
        let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
        lines.extend((0..batch.num_rows()).map(line));
    }
    lines
}

fn most_buffers(batches: &[RecordBatch]) -> usize {
    let columns = batches.iter().flat_map(RecordBatch::columns);
    columns.filter_map(|column| column.as_string_view_opt()).map(|texts| texts.data_buffers().len()).max().unwrap_or(0)
}
