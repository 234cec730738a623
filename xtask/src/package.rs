//! The Debian package: `packaging/` and the program, laid out as they are installed, by dpkg-deb alone.
//!
//! Invariant: what the package depends on is read out of the program, not stated: the newest version of the C library whose
//! symbols it names.

use crate::run::{Step, die, root, target_dir};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What lies where: from the checkout, to the package, and how it may be used.
const FILES: &[(&str, &str, u32)] = &[
    ("packaging/systemd/alluvia.service", "usr/lib/systemd/system/alluvia.service", 0o644),
    ("packaging/alluvia.toml", "etc/alluvia/alluvia.toml", 0o644),
    ("packaging/grafana/alluvia.json", "usr/share/alluvia/grafana/alluvia.json", 0o644),
    ("packaging/debian/copyright", "usr/share/doc/alluvia/copyright", 0o644),
    ("docs/OPERATIONS.md", "usr/share/doc/alluvia/OPERATIONS.md", 0o644),
    ("docs/SQL.md", "usr/share/doc/alluvia/SQL.md", 0o644),
    ("docs/KNOWN.md", "usr/share/doc/alluvia/KNOWN.md", 0o644),
    ("docs/openapi.yaml", "usr/share/doc/alluvia/openapi.yaml", 0o644),
    ("packaging/debian/conffiles", "DEBIAN/conffiles", 0o644),
    ("packaging/debian/postinst", "DEBIAN/postinst", 0o755),
    ("packaging/debian/prerm", "DEBIAN/prerm", 0o755),
    ("packaging/debian/postrm", "DEBIAN/postrm", 0o755),
];

/// Makes the package of a program that is built; says where it lies.
pub fn deb(program: &Path) {
    let version = env!("CARGO_PKG_VERSION");
    let architecture = output("dpkg", &["--print-architecture"]);
    let tree = target_dir().join("deb");
    if tree.exists() {
        fs::remove_dir_all(&tree).unwrap_or_else(|error| die(&format!("{}: {error}", tree.display())));
    }
    let place = |to: &str| -> PathBuf {
        let path = tree.join(to);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).unwrap_or_else(|error| die(&format!("{}: {error}", folder.display())));
        }
        path
    };
    let binary = place("usr/bin/alluvia");
    let names = [program, &binary].map(|path| path.to_str().expect("paths here are UTF-8").to_owned());
    Step::new("strip", &["--strip-debug", "-o", &names[1], &names[0]]).run();
    mode(&binary, 0o755);
    for &(from, to, bits) in FILES {
        let from = root().join(from);
        let to = place(to);
        fs::copy(&from, &to).unwrap_or_else(|error| die(&format!("{}: {error}", from.display())));
        mode(&to, bits);
    }
    // The same bytes on every run: no name and no time in the header.
    let page = place("usr/share/man/man1/alluvia.1");
    fs::copy(root().join("packaging/alluvia.1"), &page).unwrap_or_else(|error| die(&format!("the man page: {error}")));
    mode(&page, 0o644);
    Step::new("gzip", &["--no-name", "--best", page.to_str().expect("paths here are UTF-8")]).run();

    let bytes = fs::read(&binary).unwrap_or_else(|error| die(&format!("{}: {error}", binary.display())));
    let glibc = glibc_of(&bytes).unwrap_or_else(|| die("the program names no version of the C library"));
    let text = fs::read_to_string(root().join("packaging/debian/control.in"));
    let control = text
        .unwrap_or_else(|error| die(&format!("packaging/debian/control.in: {error}")))
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@INSTALLED_KIB@", &(bytes.len() / 1024 + 1).to_string())
        .replace("@GLIBC@", &format!("{}.{}", glibc.0, glibc.1));
    fs::write(place("DEBIAN/control"), control).unwrap_or_else(|error| die(&format!("control: {error}")));
    folders(&tree);

    let package = target_dir().join(format!("alluvia_{version}_{architecture}.deb"));
    let names = [&tree, &package].map(|path| path.to_str().expect("paths here are UTF-8"));
    Step::new("dpkg-deb", &["--root-owner-group", "-Zgzip", "--build", names[0], names[1]]).run();
    println!("{}", package.display());
}

/// The newest `GLIBC_a.b` that a program names.
fn glibc_of(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let starts = program.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK).map(|(at, _)| at);
    let versions = starts.filter_map(|at| {
        let rest = &program[at + MARK.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        let mut parts = text.split('.').map(|part| part.parse().ok());
        Some((parts.next()??, parts.next()??))
    });
    versions.max()
}

fn output(program: &str, args: &[&str]) -> String {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => die(&format!("{program} ended with {}", output.status)),
        Err(error) => die(&format!("{program} could not be started: {error}; a Debian package needs a Debian machine")),
    }
}

fn mode(path: &Path, bits: u32) {
    let set = fs::set_permissions(path, fs::Permissions::from_mode(bits));
    set.unwrap_or_else(|error| die(&format!("{}: {error}", path.display())));
}

/// Folders are as the archive's rules want them, whatever the umask.
fn folders(folder: &Path) {
    mode(folder, 0o755);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            folders(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_is_named_counts() {
        assert_eq!(glibc_of(b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(glibc_of(b"nothing"), None);
    }

    #[test]
    fn everything_that_is_packed_is_there() {
        for (from, ..) in FILES {
            assert!(root().join(from).exists(), "{from}");
        }
        let service = fs::read_to_string(root().join("packaging/systemd/alluvia.service")).unwrap();
        let settings = fs::read_to_string(root().join("packaging/alluvia.toml")).unwrap();
        assert!(
            service.contains("--config /etc/alluvia/alluvia.toml")
                && settings.contains("authentication = \"password\"")
        );
    }
}
