//! Work on a stream of items by several threads, results in the items' order, in bounded memory.
//!
//! Invariants:
//! - Item i goes to worker i mod n through that worker's own short channel, and results are taken in the same turn: order needs
//!   no buffer, and at most a few items per worker are alive.
//! - Whichever side fails first, all threads end: the others find their channel closed. No error is lost behind a later one.
//! - A panic of a reading library is an error of the file, not of the process.
//! - The caller notices a cancelled statement while it waits.

use crate::progress::CancelToken;
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Items that wait before a worker, and results that wait behind it.
const WAITING_MAX: usize = 2;

/// Threads that parse or decode: enough to keep up with the thread that takes the rows, few enough to leave it room.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(1, 4))
}

/// Runs every item that `produce` gives through a worker, and hands the results to `consume` in order.
pub fn in_order<I, O, W>(
    workers: usize,
    cancel: &CancelToken,
    mut produce: impl FnMut() -> Result<Option<I>> + Send,
    worker: impl Fn() -> W,
    mut consume: impl FnMut(O) -> Result<()>,
) -> Result<()>
where
    I: Send,
    O: Send,
    W: FnMut(I) -> Result<O> + Send,
{
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (give, items) = sync_channel::<Result<I>>(WAITING_MAX);
            let (results, take) = sync_channel::<Result<O>>(WAITING_MAX);
            inputs.push(give);
            outputs.push(take);
            let mut work = worker();
            handles.push(scope.spawn(move || {
                for item in items {
                    let result = item.and_then(&mut work);
                    let failed = result.is_err();
                    if results.send(result).is_err() || failed {
                        return;
                    }
                }
            }));
        }
        handles.push(scope.spawn(move || {
            for turn in 0.. {
                let Some(item) = produce().transpose() else { return };
                let failed = item.is_err();
                if inputs[turn % inputs.len()].send(item).is_err() || failed {
                    return;
                }
            }
        }));
        let taken = (0..).try_for_each(|turn| match next(&outputs[turn % outputs.len()], cancel)? {
            Some(result) => consume(result?).map_err(Stop::Failed),
            None => Err(Stop::Ended),
        });
        drop(outputs);
        end(taken, handles)
    })
}

/// Runs one thread for each reader, and hands `consume` one result of each at a time, until the first one ends.
pub(crate) fn side_by_side<O, R>(
    readers: Vec<R>,
    cancel: &CancelToken,
    mut consume: impl FnMut(Vec<O>) -> Result<()>,
) -> Result<()>
where
    O: Send,
    R: FnMut() -> Result<Option<O>> + Send,
{
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut outputs = Vec::new();
        for mut read in readers {
            let (results, take): (SyncSender<Result<O>>, _) = sync_channel(WAITING_MAX);
            outputs.push(take);
            handles.push(scope.spawn(move || {
                while let Some(result) = read().transpose() {
                    let failed = result.is_err();
                    if results.send(result).is_err() || failed {
                        return;
                    }
                }
            }));
        }
        let taken = loop {
            let row: Result<Vec<O>, Stop> =
                outputs.iter().map(|output| next(output, cancel)?.ok_or(Stop::Ended)?.map_err(Stop::Failed)).collect();
            match row.and_then(|row| consume(row).map_err(Stop::Failed)) {
                Ok(()) => {}
                Err(stop) => break Err(stop),
            }
        };
        drop(outputs);
        end(taken, handles)
    })
}

enum Stop {
    Ended,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

fn next<T>(results: &Receiver<T>, cancel: &CancelToken) -> Result<Option<T>> {
    loop {
        cancel.check()?;
        match results.recv_timeout(Duration::from_millis(50)) {
            Ok(result) => return Ok(Some(result)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn end(taken: Result<(), Stop>, handles: Vec<ScopedJoinHandle<'_, ()>>) -> Result<()> {
    let panics: Vec<String> = handles.into_iter().filter_map(|handle| handle.join().err()).map(panic_text).collect();
    match (taken, panics.first()) {
        (Err(Stop::Failed(error)), _) => Err(error),
        (_, Some(panic)) => Err(Error::new(ErrorKind::InvalidValue, format!("the file cannot be read: {panic}"))),
        (_, None) => Ok(()),
    }
}

fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "the reader gave up".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(through: u64) -> impl FnMut() -> Result<Option<u64>> + Send {
        let mut at = 0;
        move || {
            at += 1;
            Ok((at <= through).then_some(at))
        }
    }

    #[test]
    fn results_come_in_order_whatever_the_workers_do() {
        for workers in 1..5 {
            let mut seen = Vec::new();
            let worker = || {
                |item: u64| {
                    if item.is_multiple_of(7) {
                        std::thread::yield_now();
                    }
                    Ok(item * 10)
                }
            };
            let consume = |result| {
                seen.push(result);
                Ok(())
            };
            in_order(workers, &CancelToken::new(), numbers(1000), worker, consume).unwrap();
            assert_eq!(seen, (1..=1000).map(|item| item * 10).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn the_first_failure_in_order_is_reported_and_everything_ends() {
        let fail = |at: u64| Error::new(ErrorKind::InvalidValue, format!("item {at}"));
        let mut consumed = 0;
        let worker = || move |item: u64| if item >= 50 { Err(fail(item)) } else { Ok(item) };
        let consume = |_| {
            consumed += 1;
            Ok(())
        };
        let error = in_order(3, &CancelToken::new(), numbers(1000), worker, consume).unwrap_err();
        assert_eq!((error.message(), consumed), ("item 50", 49));

        let consume = |item: u64| if item == 10 { Err(fail(item)) } else { Ok(()) };
        let error = in_order(3, &CancelToken::new(), numbers(u64::MAX), || Ok, consume).unwrap_err();
        assert_eq!(error.message(), "item 10");

        let mut produced = 0;
        let produce = || {
            produced += 1;
            if produced == 5 { Err(fail(5)) } else { Ok(Some(produced)) }
        };
        assert_eq!(in_order(2, &CancelToken::new(), produce, || Ok, |_| Ok(())).unwrap_err().message(), "item 5");
    }

    #[test]
    fn panics_and_cancellation_are_errors() {
        let worker = || |item: u64| if item == 5 { panic!("bad page") } else { Ok(item) };
        let error = in_order(2, &CancelToken::new(), numbers(10), worker, |_| Ok(())).unwrap_err();
        assert!(error.message().contains("bad page"), "{error}");
        let cancel = CancelToken::new();
        cancel.cancel();
        let error = in_order(2, &cancel, numbers(u64::MAX), || Ok, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn readers_side_by_side_are_taken_together() {
        let mut seen = Vec::new();
        let consume = |row: Vec<u64>| {
            seen.push(row);
            Ok(())
        };
        side_by_side(vec![numbers(3), numbers(3)], &CancelToken::new(), consume).unwrap();
        assert_eq!(seen, [[1, 1], [2, 2], [3, 3]]);
    }
}
