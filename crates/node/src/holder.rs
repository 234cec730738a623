//! Who has the data directory: a small file that says it to whoever is refused.
//!
//! Invariants:
//! - The lock decides, never this file: it may be missing, old or damaged, and then only a sentence is poorer.
//! - Nothing waits for it to be durable, and no database fails to open because it cannot be written.

use alluvia_storage::{Disk, DiskFile};
use alluvia_types::{Error, ErrorKind};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Its name.
pub(crate) const HOLDER_NAME: &str = "holder";
/// What of it is read.
const BYTES_MAX: u64 = 1 << 10;

/// Says who has the directory from now on: this process, and where it serves, a place a line.
pub(crate) fn announce(disk: &dyn Disk, dir: &Path, places: &[String]) {
    let lines: Vec<String> = [format!("process {}", std::process::id())].into_iter().chain(places.to_vec()).collect();
    drop(written(disk, &dir.join(HOLDER_NAME), &lines.join("\n")));
}

fn written(disk: &dyn Disk, path: &Path, text: &str) -> io::Result<()> {
    let file: Arc<dyn DiskFile> = if disk.exists(path) { disk.open(path)? } else { disk.create(path)? };
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)
}

/// The error for a directory that another process has.
pub(crate) fn locked(disk: &dyn Disk, dir: &Path, hint: &str) -> Error {
    let told = told(disk, dir).unwrap_or_default();
    let mut lines = told.lines();
    let who = lines.next().filter(|line| line.starts_with("process ")).map(|line| format!(", {line}"));
    let places: Vec<&str> = lines.collect();
    let mut message = format!("{} is open in another process{}", dir.display(), who.unwrap_or_default());
    if !places.is_empty() {
        message += &format!(", which serves it: {}", places.join("; "));
    }
    Error::new(ErrorKind::Locked, message).with_hint(match places.is_empty() {
        true => hint.to_owned(),
        false => format!("connect to it there (alluvia sql --host speaks Flight SQL); else {hint}"),
    })
}

fn told(disk: &dyn Disk, dir: &Path) -> Option<String> {
    let file = disk.open(&dir.join(HOLDER_NAME)).ok()?;
    let len = file.len().ok()?.min(BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.chars().all(|c| c == '\n' || !c.is_control()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::RealDisk;

    #[test]
    #[allow(clippy::disallowed_methods)] // the machine's own files
    fn whoever_is_refused_is_told_who_has_it_and_where() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, pid) = (RealDisk::new(), std::process::id());
        let message = || locked(&disk, dir.path(), "stop it first").message().to_owned();
        assert!(message().ends_with("is open in another process"));
        announce(&disk, dir.path(), &["PostgreSQL on 127.0.0.1:5432".to_owned(), "HTTP on http://[::1]:80".to_owned()]);
        let served = format!("process {pid}, which serves it: PostgreSQL on 127.0.0.1:5432; HTTP on http://[::1]:80");
        assert!(message().ends_with(&served), "{}", message());
        announce(&disk, dir.path(), &[]);
        assert!(message().ends_with(&format!("another process, process {pid}")), "{}", message());
        std::fs::write(dir.path().join(HOLDER_NAME), b"\xff\x00").unwrap();
        assert!(message().ends_with("is open in another process"));
    }
}
