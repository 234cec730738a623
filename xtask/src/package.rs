//! The Debian package: `packaging/` and the program, laid out as they are installed, by dpkg-deb alone.
//!
//! Invariant: what the package depends on is read out of the program, not stated: the newest version of the C library whose
//! symbols it names, and the compiler's library where it needs that.

use crate::program::{glibc, libraries, mode, strip};
use crate::run::{Step, die, emptied, root, target_dir, text_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What lies where: from the checkout, to the package, and how it may be used.
const FILES: &[(&str, &str, u32)] = &[
    ("packaging/systemd/alluvia.service", "usr/lib/systemd/system/alluvia.service", 0o644),
    ("packaging/systemd/alluvia-node.service", "usr/lib/systemd/system/alluvia-node.service", 0o644),
    ("packaging/alluvia.toml", "etc/alluvia/alluvia.toml", 0o644),
    ("packaging/grafana/alluvia.json", "usr/share/alluvia/grafana/alluvia.json", 0o644),
    ("packaging/debian/copyright", "usr/share/doc/alluvia/copyright", 0o644),
    ("docs/OPERATIONS.md", "usr/share/doc/alluvia/OPERATIONS.md", 0o644),
    ("docs/CLUSTER.md", "usr/share/doc/alluvia/CLUSTER.md", 0o644),
    ("docs/SQL.md", "usr/share/doc/alluvia/SQL.md", 0o644),
    ("docs/KNOWN.md", "usr/share/doc/alluvia/KNOWN.md", 0o644),
    ("docs/openapi.yaml", "usr/share/doc/alluvia/openapi.yaml", 0o644),
    ("packaging/debian/conffiles", "DEBIAN/conffiles", 0o644),
    ("packaging/debian/postinst", "DEBIAN/postinst", 0o755),
    ("packaging/debian/prerm", "DEBIAN/prerm", 0o755),
    ("packaging/debian/postrm", "DEBIAN/postrm", 0o755),
];

/// Makes the package of a program that is built, in a folder; gives its path.
pub fn deb(program: &Path, folder: &Path) -> PathBuf {
    let version = env!("CARGO_PKG_VERSION");
    let architecture = output("dpkg", &["--print-architecture"]);
    let tree = emptied(target_dir().join("deb"));
    let place = |to: &str| -> PathBuf {
        let path = tree.join(to);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).unwrap_or_else(|error| die(&format!("{}: {error}", folder.display())));
        }
        path
    };
    let binary = place("usr/bin/alluvia");
    strip(program, &binary);
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
    Step::new("gzip", &["--no-name", "--best", text_of(&page)]).run();

    let size = fs::metadata(&binary).unwrap_or_else(|error| die(&format!("{}: {error}", binary.display()))).len();
    let text = fs::read_to_string(root().join("packaging/debian/control.in"));
    let control = text
        .unwrap_or_else(|error| die(&format!("packaging/debian/control.in: {error}")))
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@INSTALLED_KIB@", &(size / 1024 + 1).to_string())
        .replace("@LIBRARIES@", &depends(glibc(&binary), &libraries(&binary)));
    fs::write(place("DEBIAN/control"), control).unwrap_or_else(|error| die(&format!("control: {error}")));
    folders(&tree);

    let package = folder.join(format!("alluvia_{version}_{architecture}.deb"));
    let names = [text_of(&tree), text_of(&package)];
    // The same bytes on every run: no file is younger than 1980-01-01.
    let build = Step::new("dpkg-deb", &["--root-owner-group", "-Zgzip", "--build", names[0], names[1]]);
    build.env("SOURCE_DATE_EPOCH", "315532800").run();
    package
}

/// Packages of the libraries that a program needs: the C library's, in the version that it needs, and the compiler's. That one has another
/// name in old distributions, and a program of `make dist` does without it.
fn depends(glibc: (u32, u32), libraries: &[String]) -> String {
    let mut packages = vec![format!("libc6 (>= {}.{})", glibc.0, glibc.1)];
    if libraries.iter().any(|library| library == "libgcc_s.so.1") {
        packages.push("libgcc-s1".to_owned());
    }
    packages.join(", ")
}

fn output(program: &str, args: &[&str]) -> String {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => die(&format!("{program} ended with {}", output.status)),
        Err(error) => die(&format!("{program} could not be started: {error}; a Debian package needs a Debian machine")),
    }
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
    fn what_is_needed_is_what_is_depended_on() {
        let both = ["libgcc_s.so.1", "libc.so.6"].map(str::to_owned);
        assert_eq!(depends((2, 36), &both), "libc6 (>= 2.36), libgcc-s1");
        assert_eq!(depends((2, 28), &both[1..]), "libc6 (>= 2.28)");
    }

    #[test]
    fn a_node_may_do_no_more_than_a_server() {
        let bounds = |unit: &str| {
            let text = fs::read_to_string(root().join("packaging/systemd").join(unit)).unwrap();
            let at = text.find("# What it may not do.").expect("the unit says what it may not do");
            text[at..].to_owned()
        };
        assert_eq!(bounds("alluvia-node.service"), bounds("alluvia.service"));
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
