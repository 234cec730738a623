//! `alluvia verify`: how often the intervals of an estimated statement hold the exact answer.

use crate::OpenArgs;
use crate::shell::{Format, print};
use crate::target::is_url;
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// The statement: count, sum or avg over one table with dimensions.
    sql: String,
    /// How often it is asked, each time with rows drawn under another seed.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,
    /// The largest relative error of a value.
    #[arg(long, default_value_t = 0.01)]
    max_error: f64,
    /// How often an interval should hold.
    #[arg(long, default_value_t = 0.95)]
    confidence: f64,
}

pub async fn run(args: VerifyArgs) -> Result<ExitCode> {
    let dir = &args.open.dir;
    if !dir.to_str().is_some_and(is_url) && !dir.is_dir() {
        return Err(Error::new(ErrorKind::UndefinedObject, format!("{} holds no Alluvia database", dir.display()))
            .with_hint("name a data directory; verify makes none"));
    }
    let db = args.open.open()?;
    let session = db.session();
    session.sql(&format!("SET max_error = '{}'", args.max_error)).await?;
    session.sql(&format!("SET confidence = '{}'", args.confidence)).await?;
    print(session.verify(&args.sql, args.trials).await?, Format::Table).await?;
    Ok(ExitCode::SUCCESS)
}
