//! Peers that live in Python: a script in, one JSON line out.

use crate::{Anything, Folders};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Runs a Python script of the virtual environment and parses its last line.
pub fn python(folders: &Folders, script: &str, args: &[&str]) -> Anything<Value> {
    let output = Command::new(folders.venv.join("bin").join("python"))
        .arg("-c")
        .arg(script)
        .args(args)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the peer ended with {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().ok_or("the peer printed nothing")?;
    Ok(serde_json::from_str(last)?)
}
