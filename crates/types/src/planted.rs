//! Bugs that are planted on purpose, to prove that some test would find them.
//!
//! A planted bug is one line at the place where the mistake would be made, behind [`planted`].
//! The files `planted.rs` of `crates/sim/tests/it` list them; `canaries.rs` beside them runs the tests once with each.
//!
//! Invariants:
//! - Without the feature `planted`, which only tests switch on, there is none: [`planted`] is `false` for the compiler.
//! - At most one is switched on, for the whole life of a process, by the variable [`PLANTED_VARIABLE`] of its
//!   environment.

/// The variable that has the name of the bug.
pub const PLANTED_VARIABLE: &str = "ALLUVIA_PLANTED";

/// Whether the bug of this name is switched on.
#[cfg(feature = "planted")]
pub fn planted(name: &str) -> bool {
    static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var(PLANTED_VARIABLE).ok()).as_deref() == Some(name)
}

/// Whether the bug of this name is switched on.
#[cfg(not(feature = "planted"))]
#[inline]
pub const fn planted(_name: &str) -> bool {
    false
}
