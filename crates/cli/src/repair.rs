//! `alluvia repair`: what of a data directory is damaged, what can be made anew, what is lost; and, with `--yes`, that it is done.
//!
//! Exit codes: 0 nothing is damaged, or all that was is mended or dropped; 3 something is damaged that was not mended.

use crate::say;
use alluvia_types::Result;
use clap::Args;
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct RepairArgs {
    /// The data directory; no process may have it open.
    dir: PathBuf,
    /// A copy of the data directory, of whatever age, to put damaged files back from.
    #[arg(long, value_name = "COPY")]
    from: Option<PathBuf>,
    /// Do it: put back what the copy has, make anew what can be, and drop the segments that are lost. Without it nothing is changed.
    #[arg(long)]
    yes: bool,
}

pub fn run(args: &RepairArgs) -> Result<ExitCode> {
    let spinner = ProgressBar::new_spinner();
    let repaired = alluvia_node::repair(&args.dir, args.from.as_deref(), args.yes, &mut |what| {
        spinner.set_message(what.to_owned());
        spinner.tick();
    });
    spinner.finish_and_clear();
    let report = repaired?;
    say(&format!("{} segments were read\n", report.segments))?;
    for (what, sentences) in [("MENDED", &report.mended), ("LOST", &report.lost), ("LEFT", &report.left)] {
        let what = match (args.yes, what) {
            (false, "MENDED") => "DAMAGED",
            (_, what) => what,
        };
        for sentence in sentences {
            say(&format!("{what}: {sentence}\n"))?;
        }
    }
    if report.is_whole() {
        say("nothing is damaged that a repair looks at; alluvia check reads all that there is\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes {
        say(
            "nothing was changed: if there is a copy, --from COPY puts files back from it; --yes does what is said above\n",
        )?;
        return Ok(ExitCode::from(3));
    }
    say("done; run alluvia check\n")?;
    Ok(if report.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
