//! COPY, as the session runs it: names become tables, queries become streams; the rest is `copy`'s.

use crate::copy::{CopyContext, CopyStatement, CopyWhat, Source, Target, copy_from, copy_to};
use crate::dialect::names::{name_of, user_table};
use crate::dialect::{Hints, query_of_table};
use crate::session::core::{Run, Session};
use crate::session::outcome::Outcome;
use crate::session::progress::Phase;
use alluvia_types::Result;
use std::sync::Arc;

impl CopyStatement {
    /// Whether it writes a table.
    pub(crate) fn is_from(&self) -> bool {
        matches!(self, CopyStatement::From { .. })
    }
}

impl Session {
    /// COPY FROM, COPY TO.
    pub(crate) async fn copy(&self, run: &Arc<Run>, copy: CopyStatement, hints: &Hints) -> Result<Outcome> {
        match copy {
            CopyStatement::From { table, columns, source, options } => {
                let entry = self.user_table(&user_table(&table)?)?;
                let columns = columns.iter().map(name_of).collect();
                let mut context = self.copy_context(run);
                if source == Source::Stdin {
                    context.stdin = Some(Box::new(std::io::stdin()));
                }
                let report = copy_from(context, entry, columns, source, options).await?;
                if let Some(committed) = report.committed {
                    self.wrote(committed.version, run.settings.durability);
                }
                let mut outcome = Outcome::done(format!("COPY {}", report.rows));
                if report.skipped > 0 {
                    let place = report
                        .rejects_file
                        .map_or_else(String::new, |file| format!("; they are in {}", file.display()));
                    outcome = outcome.with_notice(format!("{} bad rows were skipped{place}", report.skipped));
                }
                if report.batches_repeated > 0 {
                    outcome = outcome.with_notice(format!(
                        "{} batches had been loaded before, and were left out",
                        report.batches_repeated
                    ));
                }
                Ok(outcome)
            }
            CopyStatement::To { what, target, options } => {
                let query = match what {
                    CopyWhat::Query(query) => query,
                    CopyWhat::Table { name, columns } => query_of_table(&name, &columns)?,
                };
                let planned = self.plan(run, query, hints).await?;
                let mut context = self.copy_context(run);
                if target == Target::Stdout {
                    context.stdout = Some(Box::new(std::io::stdout()));
                }
                run.progress.set_phase(Phase::Running);
                let rows = copy_to(context, planned.execute()?, target, options).await?;
                Ok(Outcome::done(format!("COPY {rows}")).with_used(planned.used()))
            }
        }
    }

    fn copy_context(&self, run: &Run) -> CopyContext {
        CopyContext {
            store: Arc::clone(self.engine.store()),
            durability: run.settings.durability,
            progress: Arc::clone(&run.progress),
            cancel: run.token.clone(),
            stdin: None,
            stdout: None,
            data_roots: None,
        }
    }
}
