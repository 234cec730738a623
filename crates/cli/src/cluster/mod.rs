//! `alluvia cluster`: what one does with several machines that is no node of them.

mod certificates;
mod demo;
mod processes;

pub use certificates::{AUTHORITY, NODE, NODE_KEY};

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
    /// Makes the authority of a cluster, which gives certificates to its nodes.
    Init(certificates::InitArgs),
    /// Makes the certificate of a node, for TLS with the others.
    Certificate(certificates::CertificateArgs),
    /// Shows a cluster of six processes on this machine: rows stream in, a worker is killed, no row is lost and no answer changes.
    Demo(demo::DemoArgs),
}

pub async fn run(args: ClusterArgs) -> Result<ExitCode> {
    match args.command {
        ClusterCommand::Init(args) => certificates::init(&args),
        ClusterCommand::Certificate(args) => certificates::certificate(&args),
        ClusterCommand::Demo(args) => demo::run(args).await,
    }
}
