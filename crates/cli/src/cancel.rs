//! `alluvia cancel`: ends what a session of a running server runs.

use crate::remote::{RemoteArgs, connect, told};
use crate::say;
use alluvia_types::Result;
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
pub struct CancelArgs {
    /// The session's number: alluvia.sessions lists them, with what they run.
    id: u64,
    #[command(flatten)]
    remote: RemoteArgs,
}

pub async fn run(args: CancelArgs) -> Result<ExitCode> {
    let client = connect(&args.remote).await?;
    client.batch_execute(&format!("CALL alluvia.cancel({})", args.id)).await.map_err(|error| told(&error))?;
    say(&format!("session {} was told to stop what it runs\n", args.id))?;
    Ok(ExitCode::SUCCESS)
}
