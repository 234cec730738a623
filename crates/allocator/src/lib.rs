//! The allocator of the programs: who links this room allocates with mimalloc.
//!
//! Libraries leave the choice to whoever embeds them.

use libmimalloc_sys::{mi_option_set_default, mi_option_t, mi_option_use_numa_nodes};
use std::ffi::c_long;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `purge_delay`, which its Rust crate does not name: it stands before this one.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

/// How long freed memory is kept for the next who wants some, in milliseconds. A load, and a join of much, frees and takes as much as it
/// holds every second: with mimalloc's own second, the system clears pages for it that it gave back a moment ago (docs/BENCHMARKS.md, Load).
const KEPT_MS: c_long = 10_000;

/// Keeps freed memory for ten seconds before the system gets it back, unless the environment says otherwise (`MIMALLOC_PURGE_DELAY`). Is
/// called before there are other threads.
pub fn keep_freed_memory() {
    // SAFETY: the option is a number, which any thread may read meanwhile, and none writes.
    unsafe { mi_option_set_default(PURGE_DELAY, KEPT_MS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::mi_option_get;

    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: options are numbers.
        let get = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1_000, "its documented default; if it is another one, see whether this is the option");
        keep_freed_memory();
        assert_eq!(get(), KEPT_MS);
    }
}
