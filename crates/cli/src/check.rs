//! `alluvia check`: all that is wrong with a data directory, and exit code 3 if anything is.

use crate::say;
use alluvia_types::Result;
use clap::Args;
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct CheckArgs {
    /// The data directory.
    dir: PathBuf,
}

pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let spinner = ProgressBar::new_spinner();
    let checked = alluvia_node::check(&args.dir, &mut |what| {
        spinner.set_message(what.to_owned());
        spinner.tick();
    });
    spinner.finish_and_clear();
    let report = checked?;
    say(&format!(
        "{} tables, {} segments, {} rows in them and {} in the log alone, {:.1} MiB read\n",
        report.tables,
        report.segments,
        report.rows,
        report.log_rows,
        report.bytes as f64 / f64::from(1 << 20)
    ))?;
    if let Some(torn) = &report.torn_log {
        say(&format!(
            "{torn}: an interrupted write, or damage at the log's end, which cannot be told apart; the next start cuts them\n"
        ))?;
    }
    for notice in &report.notices {
        say(&format!("notice: {notice}\n"))?;
    }
    for finding in &report.findings {
        say(&format!("DAMAGED: {finding}\n"))?;
    }
    if report.findings.is_empty() {
        say("every checksum and invariant holds\n")?;
        Ok(ExitCode::SUCCESS)
    } else {
        say(&format!("{} findings\n", report.findings.len()))?;
        Ok(ExitCode::from(3))
    }
}
