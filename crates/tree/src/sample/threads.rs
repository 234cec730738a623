//! Parts of one question's work on several threads.
//!
//! Invariant: results come in the order of the chunks, whoever did them; an error or a panic of one is the error of all.

use alluvia_types::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `run` makes of each chunk: of the first on the caller's thread, of the others on threads that stay; one that is begun for this
/// takes longer to get its first memory than to do its part.
pub(super) fn in_threads<T: Sync, R: Send>(chunks: &[&[T]], run: impl Fn(&[T]) -> Result<R> + Sync) -> Result<Vec<R>> {
    let Some((first, others)) = chunks.split_first() else { return Ok(Vec::new()) };
    if others.is_empty() {
        return Ok(vec![run(first)?]);
    }
    let panicked = || Error::internal("a thread that worked on a sample panicked");
    let mut parts: Vec<Result<R>> = others.iter().map(|_| Err(panicked())).collect();
    let own = rayon_core::in_place_scope(|scope| {
        for (part, chunk) in parts.iter_mut().zip(others) {
            let run = &run;
            scope.spawn(move |_| {
                if let Ok(done) = catch_unwind(AssertUnwindSafe(|| run(chunk))) {
                    *part = done;
                }
            });
        }
        run(first)
    });
    std::iter::once(own).chain(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_one_error_is_the_error_of_all() {
        let items: Vec<u32> = (0..100).collect();
        for size in [1, 3, 50, 100] {
            let chunks: Vec<&[u32]> = items.chunks(size).collect();
            let sums = in_threads(&chunks, |chunk| Ok(chunk.iter().sum::<u32>())).expect("sums");
            assert_eq!(sums, chunks.iter().map(|chunk| chunk.iter().sum()).collect::<Vec<u32>>(), "{size}");
            for bad in [0, 99] {
                let failing = |chunk: &[u32]| match chunk.contains(&bad) {
                    true => Err(Error::internal("bad")),
                    false => Ok(()),
                };
                assert!(in_threads(&chunks, failing).is_err(), "{size}");
            }
            let panicking = |chunk: &[u32]| -> Result<()> {
                assert!(size == 100 || !chunk.contains(&99), "a panic");
                Ok(())
            };
            assert_eq!(in_threads(&chunks, panicking).is_err(), size < 100);
        }
        assert!(in_threads(&[], |_: &[u32]| Ok(())).expect("nothing").is_empty());
    }
}
