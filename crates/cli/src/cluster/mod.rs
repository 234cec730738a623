//! `alluvia cluster`: what one does with several machines that is no node of them.

mod demo;
mod processes;

use alluvia_types::Result;
use clap::{Args, Subcommand};
use std::process::ExitCode;

#[derive(Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Shows a cluster of six processes on this machine: rows stream in, a worker is killed, no row is lost and no answer changes.
    Demo(demo::DemoArgs),
}

pub async fn run(args: ClusterArgs) -> Result<ExitCode> {
    match args.command {
        ClusterCommand::Demo(args) => demo::run(args).await,
    }
}
