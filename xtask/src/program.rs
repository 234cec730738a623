//! What a built program (or library) says about itself, by binutils: the newest glibc that it names, the libraries that it needs;
//! and the copy of it that is packed.
//!
//! Invariants:
//! - What a package says that it needs is read out of the program, not stated.
//! - What is packed has no debug information, and has the names of its functions: a backtrace in a report says where it was.

use crate::run::{Step, die, output, text_of};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The newest `GLIBC_a.b` that a program names; ends this process if it names none.
pub fn glibc(program: &Path) -> (u32, u32) {
    let bytes = fs::read(program).unwrap_or_else(|error| die(&format!("{}: {error}", program.display())));
    newest_glibc(&bytes)
        .unwrap_or_else(|| die(&format!("{} names no version of the C library: is it a program?", program.display())))
}

fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
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

/// The shared libraries that a program needs.
pub fn libraries(program: &Path) -> Vec<String> {
    libraries_of(&output("readelf", &["--wide", "--dynamic", text_of(program)]))
}

/// Lines such as `0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]`.
fn libraries_of(said: &str) -> Vec<String> {
    let needed = said.lines().filter(|line| line.contains("(NEEDED)"));
    needed.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

/// Copies a program without its debug information, for everybody to run.
pub fn strip(program: &Path, to: &Path) {
    Step::new("strip", &["--strip-debug", "-o", text_of(to), text_of(program)]).run();
    mode(to, 0o755);
}

/// Who may do what with a file.
pub fn mode(path: &Path, bits: u32) {
    let set = fs::set_permissions(path, fs::Permissions::from_mode(bits));
    set.unwrap_or_else(|error| die(&format!("{}: {error}", path.display())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_is_named_counts() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(newest_glibc(b"nothing"), None);
    }

    #[test]
    fn needed_libraries_are_told_from_other_entries() {
        let said = "Dynamic section at offset 0x1 contains 3 entries:\n  Tag        Type       Name/Value\n \
                    0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]\n \
                    0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n \
                    0x000000000000000e (SONAME)             Library soname: [lib_alluvia.so]\n";
        assert_eq!(libraries_of(said), ["libm.so.6", "libc.so.6"]);
    }
}
