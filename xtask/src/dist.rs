//! What is given to others, in one command: the archive, the wheel, the Debian package and their checksums, in the folder `dist` of the
//! target folder.
//!
//! Invariants:
//! - What is given away runs on every x86-64-v3 Linux with glibc 2.28 or later: the program and the extension are linked against that C
//!   library, whatever this machine has, and are looked at before anything is called done.
//! - It is compiled as what the demo and the benches run, with the same overflow checks (`[profile.dist]` in Cargo.toml).
//! - The packed program is started, out of the archive, before anything is called done.
//!
//! zig is the C compiler and the linker: it has the symbols of every glibc. It comes from Python's registry, as does cargo-zigbuild, which
//! tells cargo of it. Everything is compiled a second time, in a folder of its own: other flags, other objects.

use crate::archive::{self, Compression};
use crate::program::{glibc, libraries};
use crate::run::{Step, cache, die, emptied, output, output_in, target_dir, text_of};
use crate::{data, package};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The oldest C library that the program and the extension run on.
pub const GLIBC: (u32, u32) = (2, 28);

/// For which machine rustc compiles.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The profile in Cargo.toml.
const PROFILE: &str = "dist";

/// Libraries that are a part of glibc, and so are everywhere: the same that PEP 600 takes for granted.
const EVERYWHERE: &[&str] =
    &["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"];

/// How often a start is measured; the median counts.
const STARTS: usize = 9;

/// Makes everything and says what it made.
pub fn run() {
    if std::env::consts::ARCH != "x86_64" {
        die("make dist starts the program that it built: it needs an x86-64 machine");
    }
    let built = build();
    let (program, extension) = (built.join("alluvia"), built.join("lib_alluvia.so"));
    for made in [&program, &extension] {
        reaches(made);
    }
    let folder = emptied(target_dir().join("dist"));
    let archive = archive::pack(&program, &folder, Compression::Best);
    let wheel = pack_wheel(&extension, &folder);
    if !shown(&wheel).contains("-manylinux_") {
        die(&format!(
            "{}: no tag of a manylinux: scripts/wheel.py found that it does not run everywhere",
            shown(&wheel)
        ));
    }
    let deb = package::deb(&program, &folder);
    let starts = starts(&archive);
    let made = [archive, wheel, deb];
    let names: Vec<&str> = made.iter().map(|path| shown(path)).collect();
    let sums = output_in(&folder, "sha256sum", &names);
    let file = folder.join("SHA256SUMS");
    fs::write(&file, &sums).unwrap_or_else(|error| die(&format!("{}: {error}", file.display())));
    for path in &made {
        let size = fs::metadata(path).unwrap_or_else(|error| die(&format!("{}: {error}", path.display()))).len();
        println!("{:>8.1} MB  {}", size as f64 / 1e6, shown(path));
    }
    print!("{sums}{starts}");
    println!("{}", folder.display());
}

/// Compiles the program and the Python extension for the oldest C library; gives the folder where they lie.
fn build() -> PathBuf {
    let tools = data::builders().join("bin");
    let zig = cache().join("zig");
    let folder = target_dir().join("dist-build");
    let target = format!("{TARGET}.{}.{}", GLIBC.0, GLIBC.1);
    // With the whole workspace selected, as everywhere: the features are then those that are tested.
    let args = ["zigbuild", "--locked", "--workspace", "--lib", "--bin", "alluvia", "--profile", PROFILE];
    Step::new(tools.join("cargo-zigbuild"), &[args.as_slice(), &["--target", &target]].concat())
        .env("CARGO_TARGET_DIR", text_of(&folder))
        .env("CARGO_ZIGBUILD_PYTHON_PATH", text_of(&tools.join("python")))
        .env("CARGO_ZIGBUILD_CACHE_DIR", text_of(&zig))
        .env("ZIG_GLOBAL_CACHE_DIR", text_of(&zig.join("cache")))
        // They would take the place of the flags in .cargo/config.toml, which say what machine it runs on.
        .without("RUSTFLAGS")
        .without("CARGO_ENCODED_RUSTFLAGS")
        .run();
    folder.join(TARGET).join(PROFILE)
}

/// Ends this process unless a program (or library) runs on the oldest C library, and needs nothing else.
fn reaches(made: &Path) {
    let newest = glibc(made);
    if newest > GLIBC {
        die(&format!(
            "{}: names glibc {}.{}, and must run on {}.{}: `objdump -T` says which of its symbols do",
            made.display(),
            newest.0,
            newest.1,
            GLIBC.0,
            GLIBC.1
        ));
    }
    let others: Vec<String> =
        libraries(made).into_iter().filter(|library| !EVERYWHERE.contains(&library.as_str())).collect();
    if !others.is_empty() {
        die(&format!("{}: needs {}, which not every Linux has", made.display(), others.join(", ")));
    }
}

/// Packs the built Python extension into a wheel, in a folder; gives its path.
pub fn pack_wheel(extension: &Path, folder: &Path) -> PathBuf {
    PathBuf::from(output("python3", &["scripts/wheel.py", text_of(extension), text_of(folder)]).trim())
}

/// A file's name.
fn shown(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_else(|| die("files of make dist have names"))
}

/// The archive's program starts and says its version; how long that takes, and opening an empty database.
fn starts(archive: &Path) -> String {
    let scratch = emptied(target_dir().join("dist-build").join("started"));
    let program = archive::unpack(archive, &scratch);
    let version = output(text_of(&program), &["--version"]);
    let expected = format!("alluvia {}", env!("CARGO_PKG_VERSION"));
    if version.trim() != expected {
        die(&format!("{}: says '{}', and not '{expected}'", program.display(), version.trim()));
    }
    let database = scratch.join("empty");
    let ask = ["sql", text_of(&database), "-c", "SELECT 1"];
    took(&program, &ask);
    let start = median(|| took(&program, &["--version"]));
    let open = median(|| took(&program, &ask));
    fs::remove_dir_all(&scratch).unwrap_or_else(|error| die(&format!("{}: {error}", scratch.display())));
    format!("{start:>8.1} ms  alluvia --version\n{open:>8.1} ms  alluvia sql DIR -c 'SELECT 1', of an empty database\n")
}

/// The milliseconds that a program runs, which must go well.
fn took(program: &Path, args: &[&str]) -> f64 {
    let start = Instant::now();
    let done =
        Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match done {
        Ok(status) if status.success() => start.elapsed().as_secs_f64() * 1e3,
        Ok(status) => die(&format!("{} {} ended with {status}", program.display(), args.join(" "))),
        Err(error) => die(&format!("{} could not be started: {error}", program.display())),
    }
}

fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let mut times: Vec<f64> = (0..STARTS).map(|_| measure()).collect();
    times.sort_by(f64::total_cmp);
    times[STARTS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;

    fn text(path: &str) -> String {
        fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The value of a line `name = "value"`.
    fn value<'a>(toml: &'a str, name: &str) -> &'a str {
        let start = format!("{name} = \"");
        let line = toml.lines().find_map(|line| line.strip_prefix(start.as_str())).expect(name);
        line.trim_end_matches('"')
    }

    #[test]
    fn releases_are_made_by_this_command_and_the_toolchain_of_the_checkout() {
        let workflow = text(".github/workflows/release.yml");
        let toolchain = text("rust-toolchain.toml");
        assert!(workflow.contains("run: make dist\n"), "the workflow runs make dist");
        let installed = format!("rustup toolchain install {} ", value(&toolchain, "channel"));
        assert!(workflow.contains(&installed), "the workflow installs the toolchain of rust-toolchain.toml");
        assert!(workflow.contains("target/dist/*"), "the workflow gives away all of the folder");
    }

    #[test]
    fn the_profile_checks_for_overflow_as_the_tests_do() {
        let cargo = text("Cargo.toml");
        let (_, profile) = cargo.split_once("[profile.dist]\n").expect("Cargo.toml has the profile");
        let profile = profile.split("\n[").next().unwrap_or_default();
        assert_eq!(value(profile, "inherits"), "dev");
        // What is not stated is dev's.
        let stated = ["opt-level", "overflow-checks", "debug-assertions", "panic"];
        assert!(!profile.lines().any(|line| stated.iter().any(|name| line.starts_with(name))), "{profile}");
    }

    #[test]
    fn the_readme_and_the_documents_name_the_oldest_c_library() {
        let named = format!("glibc {}.{} or later", GLIBC.0, GLIBC.1);
        for document in ["README.md", "docs/OPERATIONS.md"] {
            assert!(text(document).contains(&named), "{document} does not say '{named}'");
        }
    }
}
