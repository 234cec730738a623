//! `alluvia cluster init` and `alluvia cluster certificate`: the authority of a cluster, and what it gives to nodes.
//!
//! ```text
//! DIR/authority.pem, DIR/authority.key              the authority; its key is on no node
//! FOLDER/authority.pem, FOLDER/node.pem, node.key   what a node needs: alluvia node --certificates FOLDER
//! ```
//!
//! Invariants:
//! - Keys are in files that only their owner can read, and are never shown.
//! - No authority takes another one's place, and none gives a folder that is of another cluster's node.

use crate::say;
use crate::serve::save_private;
use alluvia_link::{Authority, Pair, Validity, authority_subject};
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// The authority's certificate, in its own folder and in those of nodes.
pub const AUTHORITY: &str = "authority.pem";
const AUTHORITY_KEY: &str = "authority.key";
/// A node's certificate.
pub const NODE: &str = "node.pem";
/// A node's key.
pub const NODE_KEY: &str = "node.key";

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Clocks of machines may differ by so much.
const EARLIER: Duration = Duration::from_secs(3600);

#[derive(Args)]
pub struct InitArgs {
    /// The authority's folder; created if it does not exist. It belongs where the nodes' administrator works, and on no node.
    dir: PathBuf,
    /// What the cluster is called in messages.
    #[arg(long, default_value = "alluvia")]
    name: String,
    /// How long other programs are told to trust it.
    #[arg(long, default_value_t = 3650, value_parser = RangedU64ValueParser::<u64>::from(1..=36_500))]
    days: u64,
}

#[derive(Args)]
pub struct CertificateArgs {
    /// The authority's folder, of `alluvia cluster init`.
    dir: PathBuf,
    /// What the node is called in messages.
    #[arg(long)]
    node: String,
    /// The hosts at which others reach the node: names and IP addresses, with commas between.
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', required = true)]
    address: Vec<String>,
    /// The node's folder, to be copied to it; created if it does not exist. What it has of this cluster is replaced.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// How long it is valid.
    #[arg(long, default_value_t = 730, value_parser = RangedU64ValueParser::<u64>::from(1..=36_500))]
    days: u64,
}

fn valid(days: u64) -> Validity {
    let now = SystemTime::now();
    Validity { from: now - EARLIER, until: now + DAY * u32::try_from(days).unwrap_or(u32::MAX) }
}

fn refused(what: String, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, what).with_hint(hint)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|error| Error::io(file, "reading", &error))
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    fs::write(file, text).map_err(|error| Error::io(file, "writing", &error))
}

pub fn init(args: &InitArgs) -> Result<ExitCode> {
    let InitArgs { dir, name, days } = args;
    let files = [AUTHORITY, AUTHORITY_KEY].map(|name| dir.join(name));
    if let Some(there) = files.iter().find(|file| file.exists()) {
        let what = format!("there is an authority already: {}", there.display());
        return Err(refused(
            what,
            "another cluster's goes to another folder; this one gives certificates to further nodes",
        ));
    }
    let (authority, Pair { certificate, key }) = Authority::new(name, valid(*days))?;
    fs::create_dir_all(dir).map_err(|error| Error::io(dir, "creating", &error))?;
    save_private(&files[1], &key)?;
    write(&files[0], certificate.as_bytes())?;
    let dir = dir.display();
    say(&format!(
        "the authority of {}: {AUTHORITY} and {AUTHORITY_KEY} in {dir}\n\
         Who has {AUTHORITY_KEY} can make nodes of the cluster; no node needs it.\n\
         For each node: alluvia cluster certificate {dir} --node NAME --address HOST --out FOLDER\n",
        authority.subject()
    ))?;
    Ok(ExitCode::SUCCESS)
}

pub fn certificate(args: &CertificateArgs) -> Result<ExitCode> {
    let CertificateArgs { dir, node, address, out, days } = args;
    let files = [AUTHORITY, AUTHORITY_KEY].map(|name| dir.join(name));
    if let Some(lacking) = files.iter().find(|file| !file.exists()) {
        let what = format!("there is no authority of a cluster: {} does not exist", lacking.display());
        return Err(refused(what, "alluvia cluster init makes one"));
    }
    let own = read(&files[0])?;
    let authority = Authority::read(&own, &read(&files[1])?).map_err(|error| error.at(dir.display()))?;
    if out.join(AUTHORITY_KEY).exists() {
        let what = format!("{} has the key of an authority, which belongs on no node", out.display());
        return Err(refused(what, "name a folder of the node's own"));
    }
    let theirs = out.join(AUTHORITY);
    if theirs.exists() {
        let found = authority_subject(&read(&theirs)?).map_err(|error| error.at(theirs.display()))?;
        if found != *authority.subject() {
            let what =
                format!("{} is of a node of {found}, and this authority is of {}", out.display(), authority.subject());
            return Err(refused(what, "name a folder of the node's own"));
        }
    }
    let hosts: Vec<String> = address.iter().map(|host| host.trim().to_owned()).collect();
    let Pair { certificate, key } = authority.certificate(node, &hosts, valid(*days))?;
    fs::create_dir_all(out).map_err(|error| Error::io(out, "creating", &error))?;
    save_private(&out.join(NODE_KEY), &key)?;
    write(&out.join(NODE), certificate.as_bytes())?;
    write(&theirs, &own)?;
    say(&format!(
        "node {node:?} of {}, reached at {}, for {days} days: {AUTHORITY}, {NODE} and {NODE_KEY} in {}\n\
         Copy the folder to the node, and start it there: alluvia node DIR --roles ... --certificates FOLDER\n",
        authority.subject(),
        hosts.join(", "),
        out.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
