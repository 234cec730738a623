//! The archive that one unpacks and runs: a folder with the program, its manual and what a service needs, by tar and gzip alone.
//!
//! Invariants:
//! - Packing is apart from building: `make dist` packs what it built, and the tests pack theirs, by the same code.
//! - The same program gives the same bytes: names are sorted, and owners and times are none of this machine's.
//! - The archive holds what is listed here and nothing else, which is read out of it before it is given to anybody.

use crate::program::{mode, strip};
use crate::run::{Step, die, emptied, output, root, target_dir, text_of};
use std::fs;
use std::path::{Path, PathBuf};

/// The program's name in the archive.
const PROGRAM: &str = "alluvia";

/// What lies beside the program: from the checkout, to the archive.
const FILES: &[(&str, &str)] = &[
    ("LICENSE", "LICENSE"),
    ("packaging/archive/INSTALL.md", "INSTALL.md"),
    ("packaging/alluvia.1", "alluvia.1"),
    ("packaging/alluvia.toml", "alluvia.toml"),
    ("packaging/systemd/alluvia.service", "alluvia.service"),
];

/// How long gzip may take.
#[derive(Clone, Copy)]
pub enum Compression {
    /// For who downloads it.
    Best,
    /// For a test, which unpacks it at once.
    Fast,
}

/// The archive's one folder, and its name without the ending.
fn name() -> String {
    format!("alluvia-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// Packs a program that is built, in a folder; gives the archive's path.
pub fn pack(program: &Path, folder: &Path, compression: Compression) -> PathBuf {
    let staging = emptied(target_dir().join("archive"));
    let tree = emptied(staging.join(name()));
    mode(&tree, 0o755);
    strip(program, &tree.join(PROGRAM));
    for (from, to) in FILES {
        let to = tree.join(to);
        fs::copy(root().join(from), &to).unwrap_or_else(|error| die(&format!("{from}: {error}")));
        mode(&to, 0o644);
    }
    let archive = folder.join(format!("{}.tar.gz", name()));
    let gzip = match compression {
        Compression::Best => "gzip --no-name --best",
        Compression::Fast => "gzip --no-name --fast",
    };
    // The same bytes on every run, as the wheel's: no time and no owner of this machine.
    let same = ["--format=gnu", "--sort=name", "--mtime=1980-01-01T00:00:00Z", "--owner=root:0", "--group=root:0"];
    let packed =
        ["--create", "--file", text_of(&archive), "--use-compress-program", gzip, "--directory", text_of(&staging)];
    Step::new("tar", &[packed.as_slice(), same.as_slice(), &[name().as_str()]].concat()).run();
    hold(&archive);
    fs::remove_dir_all(&staging).unwrap_or_else(|error| die(&format!("{}: {error}", staging.display())));
    archive
}

/// What is packed is what is listed.
fn hold(archive: &Path) {
    let said = output("tar", &["--list", "--gzip", "--file", text_of(archive)]);
    let mut found: Vec<&str> = said.lines().collect();
    found.sort_unstable();
    if found != contents() {
        die(&format!("{}: holds {found:?}, and xtask/src/archive.rs lists {:?}", archive.display(), contents()));
    }
}

/// Every name in the archive, in order.
fn contents() -> Vec<String> {
    let name = name();
    let files = FILES.iter().map(|(_, to)| *to).chain([PROGRAM, ""]);
    let mut paths: Vec<String> = files.map(|file| format!("{name}/{file}")).collect();
    paths.sort_unstable();
    paths
}

/// Unpacks an archive into a folder; gives the program's path.
pub fn unpack(archive: &Path, folder: &Path) -> PathBuf {
    Step::new("tar", &["--extract", "--file", text_of(archive), "--directory", text_of(folder)]).run();
    folder.join(name()).join(PROGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_packed_is_there_and_has_its_own_name() {
        for (from, _) in FILES {
            assert!(root().join(from).exists(), "{from}");
        }
        let mut names = contents();
        names.dedup();
        assert_eq!(names.len(), FILES.len() + 2);
    }

    #[test]
    fn the_words_beside_the_program_name_what_lies_there() {
        let words = fs::read_to_string(root().join("packaging/archive/INSTALL.md")).unwrap();
        for (_, to) in FILES.iter().filter(|(_, to)| to.starts_with("alluvia.")) {
            assert!(words.contains(to), "INSTALL.md says nothing of {to}");
        }
        let (major, minor) = crate::dist::GLIBC;
        assert!(words.contains(&format!("glibc {major}.{minor} or later")), "INSTALL.md names another C library");
    }
}
