//! The allocator of the programs: who links this room allocates with mimalloc.
//!
//! Libraries leave the choice to whoever embeds them.

use libmimalloc_sys::{mi_option_set, mi_option_set_default, mi_option_t, mi_option_use_numa_nodes};
use std::ffi::c_long;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `purge_delay`, which its Rust crate does not name: it stands before this one.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

/// How long freed memory is kept for the next who wants some, in milliseconds. A load, and a join of much, frees and takes as much as it
/// holds every second: with mimalloc's own second, the system clears pages for it that it gave back a moment ago (docs/BENCHMARKS.md, Load).
const KEPT_MS: c_long = 10_000;

/// How long it is kept where there is little: what is kept counts among what the process holds.
const KEPT_OF_LITTLE_MS: c_long = 10;

/// What a process may hold that keeps what it frees for long.
const MUCH_BYTES: u64 = 4 << 30;

/// What a process may hold that gives back at once what it frees, and has no huge pages: of these a part that is freed stays.
const LITTLE_BYTES: u64 = 1 << 30;

/// Keeps freed memory for ten seconds before the system gets it back, unless the environment says otherwise (`MIMALLOC_PURGE_DELAY`). Is
/// called before there are other threads.
pub fn keep_freed_memory() {
    // SAFETY: the option is a number, which any thread may read meanwhile, and none writes.
    unsafe { mi_option_set_default(PURGE_DELAY, KEPT_MS) }
}

/// Gives back freed memory soon, in a process that may hold so many bytes, unless these are many or the environment says otherwise; where
/// they are few, at once, and without huge pages.
pub fn keep_freed_memory_within(limit_bytes: u64) {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if limit_bytes < MUCH_BYTES && !is_set("MIMALLOC_PURGE_DELAY") {
        let delay = if limit_bytes < LITTLE_BYTES { 0 } else { KEPT_OF_LITTLE_MS };
        // SAFETY: the option is a number, which threads read and write as one.
        unsafe { mi_option_set(PURGE_DELAY, delay) }
    }
    if limit_bytes < LITTLE_BYTES && !is_set("MIMALLOC_ALLOW_THP") {
        // SAFETY: it takes numbers, and changes how pages come that are touched from now on. Where the kernel does not know it, nothing
        // happens.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
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
        keep_freed_memory_within(MUCH_BYTES);
        assert_eq!(get(), KEPT_MS);
        keep_freed_memory_within(MUCH_BYTES - 1);
        assert_eq!(get(), KEPT_OF_LITTLE_MS);
        keep_freed_memory_within(LITTLE_BYTES - 1);
        assert_eq!(get(), 0);
    }
}
