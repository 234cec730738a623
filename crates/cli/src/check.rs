//! `alluvia check`.

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
    let report = alluvia_node::check(&args.dir, &mut |what| {
        spinner.set_message(what.to_owned());
        spinner.tick();
    })?;
    spinner.finish_and_clear();
    println!(
        "{} tables, {} segments, {} rows, {:.1} MiB read",
        report.tables,
        report.segments,
        report.rows,
        report.bytes as f64 / f64::from(1 << 20)
    );
    for finding in &report.findings {
        println!("DAMAGED: {finding}");
    }
    if report.findings.is_empty() {
        println!("every checksum and invariant holds");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("{} findings", report.findings.len());
        Ok(ExitCode::from(3))
    }
}
