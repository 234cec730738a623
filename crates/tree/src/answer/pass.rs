//! Passes over blocks that questions share.
//!
//! Codes and values lie packed in memory and are filtered as they lie, so what questions can share is the way from memory to the
//! processor: questions over the same segments at a time are read piece by piece, each piece for all of them while it is in the cache.
//! (Zukowski et al., "Cooperative Scans", VLDB 2007, section 4, where relevance says what is read next; here age and what is left do, as
//! every ride has its pieces in one order.) `examples/shared_passes.rs` measures the most that this can gain.
//!
//! Invariants:
//! - Each piece of a ride is read exactly once, into an answer that one thread has at a time.
//! - A ride is over when all of its pieces were read, or one failed, and none is being read.
//! - Threads that answer read: whoever asks reads for others, too, until its own ride is over. Of all of them no more read at a time than the
//!   asker allows; the others sleep. Whoever stops while pieces are left wakes one that sleeps.
//! - Every other time the oldest ride says what is read next, so that no ride waits forever; else the one that has least before it, so that
//!   short ones do not wait for long ones.

use super::blocks::{Reading, Scratch, read};
use super::groups::GroupKeys;
use super::question::BoxQuery;
use super::segments::{Answer, BLOCKS_PER_THREAD, CutBlock};
use alluvia_types::{Error, Result, SegmentId};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Blocks of a piece: of eight dimensions and a measure they fit the second-level cache.
const PIECE_BLOCKS: usize = 8;

/// Blocks of a segment that lie together.
type Piece = (SegmentId, usize);

/// The passes over the segments of one directory; or of one question that shares none.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Rides begun so far.
    rides: u64,
    /// Threads that read.
    reading: usize,
    /// Pieces that were taken.
    stops: u64,
    /// Oldest first.
    riding: Vec<Riding>,
}

/// A question on its way through its cut blocks.
#[derive(Debug)]
struct Ride {
    number: u64,
    query: BoxQuery,
    /// By segment.
    readings: Vec<Option<Reading>>,
    /// In the pieces' order.
    cut: Vec<CutBlock>,
    keys: GroupKeys,
    /// What was added up, for the next thread to add to.
    answers: Mutex<Vec<Answer>>,
    /// Wakes who asks.
    woken: Condvar,
}

/// How far a ride is.
#[derive(Debug)]
struct Riding {
    ride: Arc<Ride>,
    /// How many may read where who asked does.
    threads: usize,
    /// With the places of their cut blocks, in order; none twice.
    pieces: Vec<(Piece, Range<usize>)>,
    is_taken: Vec<bool>,
    /// No piece before this one is left.
    next: usize,
    /// Pieces that are being read.
    being_read: usize,
    failed: Option<Error>,
    /// Whether who asked sleeps.
    sleeps: bool,
}

/// A piece that is to be read, for these rides.
struct Stop(Vec<(Arc<Ride>, Range<usize>)>);

impl Riding {
    /// Of which no piece was taken.
    fn new(ride: Arc<Ride>, threads: usize, pieces: Vec<(Piece, Range<usize>)>) -> Riding {
        let is_taken = vec![false; pieces.len()];
        Riding { ride, threads, pieces, is_taken, next: 0, being_read: 0, failed: None, sleeps: false }
    }

    /// The first piece that is left.
    fn first(&mut self) -> Option<Piece> {
        while self.is_taken.get(self.next) == Some(&true) {
            self.next += 1;
        }
        self.pieces.get(self.next).map(|(piece, _)| *piece)
    }

    /// Takes a piece, if it is left here.
    fn take(&mut self, piece: Piece) -> Option<Range<usize>> {
        let at = self.pieces.binary_search_by_key(&piece, |(piece, _)| *piece).ok()?;
        if std::mem::replace(&mut self.is_taken[at], true) {
            return None;
        }
        self.being_read += 1;
        Some(self.pieces[at].1.clone())
    }

    fn is_over(&mut self) -> bool {
        self.being_read == 0 && self.first().is_none()
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
        self.is_taken.fill(true);
    }
}

impl State {
    /// The next piece, the oldest ride's and the shortest one's in turns.
    fn take_in_turn(&mut self) -> Option<Stop> {
        self.stops += 1;
        if self.stops.is_multiple_of(2) {
            return self.take();
        }
        let first = |riding: &mut Riding| {
            let piece = riding.first()?;
            Some((riding.pieces.len() - riding.next, piece))
        };
        let (_, piece) = self.riding.iter_mut().filter_map(first).min()?;
        Some(self.take_piece(piece))
    }

    /// The oldest ride's next piece.
    fn take(&mut self) -> Option<Stop> {
        let piece = self.riding.iter_mut().find_map(Riding::first)?;
        Some(self.take_piece(piece))
    }

    /// A piece, for all who have it before them.
    fn take_piece(&mut self, piece: Piece) -> Stop {
        let stop = self.riding.iter_mut().filter_map(|riding| {
            let blocks = riding.take(piece)?;
            Some((Arc::clone(&riding.ride), blocks))
        });
        Stop(stop.collect())
    }

    fn place(&self, number: u64) -> usize {
        let place = self.riding.iter().position(|riding| riding.ride.number == number);
        place.expect("a ride is there until who asked takes it")
    }

    /// Wakes who sleeps longest of those who may read now, if there is something to read.
    fn wake_one(&mut self) {
        let reading = self.reading;
        if self.riding.iter_mut().any(|riding| riding.first().is_some())
            && let Some(sleeper) = self.riding.iter_mut().find(|riding| riding.sleeps && reading < riding.threads)
        {
            sleeper.sleeps = false;
            sleeper.ride.woken.notify_one();
        }
    }
}

impl Passes {
    /// Adds the rows of cut blocks, with up to `threads` threads in all that read in these passes.
    pub(super) fn read(
        &self,
        query: &BoxQuery,
        readings: Vec<Option<Reading>>,
        cut: &[CutBlock],
        threads: usize,
        into: &mut Answer,
    ) -> Result<()> {
        let keys = into.keys.clone();
        let begun = std::mem::replace(into, Answer::new(&BoxQuery::default(), GroupKeys::default()));
        let threads = threads.max(1);
        let ride = self.begin(query, readings, cut, (keys, begun), threads);
        let mut helpers_left = threads.min(cut.len() / BLOCKS_PER_THREAD + 1) - 1;
        let over = std::thread::scope(|scope| {
            // Not all at once: those who read when it began may stop later.
            let mut call = |room: usize| {
                for _ in 0..room.min(helpers_left) {
                    helpers_left -= 1;
                    // Where there is no thread to be had, those that there are read.
                    let _ = std::thread::Builder::new().spawn_scoped(scope, || self.help(&ride, threads));
                }
                helpers_left > 0
            };
            self.finish(&ride, threads, &mut call)
        });
        over?;
        let mut answers = std::mem::take(&mut *ride.answers.lock());
        *into = answers.pop().ok_or_else(|| Error::internal("a pass lost an answer"))?;
        answers.iter().for_each(|answer| into.add(answer));
        Ok(())
    }

    fn begin(
        &self,
        query: &BoxQuery,
        readings: Vec<Option<Reading>>,
        cut: &[CutBlock],
        (keys, begun): (GroupKeys, Answer),
        threads: usize,
    ) -> Arc<Ride> {
        let piece_of = |block: &CutBlock| {
            let segment = readings[block.segment].as_ref().map_or(SegmentId(0), |reading| reading.segment.meta().id);
            (segment, block.block / PIECE_BLOCKS)
        };
        let mut cut: Vec<CutBlock> = cut.to_vec();
        cut.sort_by_key(|block| (piece_of(block), block.block));
        let mut pieces: Vec<(Piece, Range<usize>)> = Vec::new();
        for (place, block) in cut.iter().enumerate() {
            let piece = piece_of(block);
            match pieces.last_mut() {
                Some((last, blocks)) if *last == piece => blocks.end = place + 1,
                _ => pieces.push((piece, place..place + 1)),
            }
        }
        let mut state = self.state.lock();
        state.rides += 1;
        let ride = Arc::new(Ride {
            number: state.rides,
            query: query.clone(),
            readings,
            cut,
            keys,
            answers: Mutex::new(vec![begun]),
            woken: Condvar::new(),
        });
        state.riding.push(Riding::new(Arc::clone(&ride), threads, pieces));
        ride
    }

    /// Reads or sleeps until the ride is over, and takes it away. `call` is told for how many more threads there is room, and says whether
    /// it may be asked again.
    fn finish(&self, ride: &Ride, threads: usize, call: &mut dyn FnMut(usize) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let mut may_call = true;
        loop {
            let place = state.place(ride.number);
            if state.riding[place].is_over() {
                let failed = state.riding.remove(place).failed;
                state.wake_one();
                return failed.map_or(Ok(()), Err);
            }
            let room = threads.saturating_sub(state.reading + 1);
            if may_call && room > 0 && state.riding[place].first().is_some() {
                may_call = MutexGuard::unlocked(&mut state, || call(room));
                continue;
            }
            if !self.read_one(&mut state, threads) {
                state.riding[place].sleeps = true;
                ride.woken.wait(&mut state);
                let place = state.place(ride.number);
                state.riding[place].sleeps = false;
            }
        }
    }

    /// Reads until nothing is left of the ride.
    fn help(&self, ride: &Ride, threads: usize) {
        let mut state = self.state.lock();
        loop {
            let is_left = state.riding.iter_mut().find(|riding| riding.ride.number == ride.number);
            if is_left.is_none_or(|riding| riding.first().is_none()) || !self.read_one(&mut state, threads) {
                return state.wake_one();
            }
        }
    }

    /// Reads the next piece; `false` if there is none, or enough threads read.
    fn read_one(&self, state: &mut MutexGuard<'_, State>, threads: usize) -> bool {
        if state.reading >= threads {
            return false;
        }
        let Some(stop) = state.take_in_turn() else { return false };
        state.reading += 1;
        state.wake_one();
        let read = MutexGuard::unlocked(state, || stop.read());
        state.reading -= 1;
        for (number, read) in read {
            let place = state.place(number);
            let riding = &mut state.riding[place];
            riding.being_read -= 1;
            if let Err(error) = read {
                riding.fail(error);
            }
            if riding.is_over() {
                riding.sleeps = false;
                riding.ride.woken.notify_one();
            }
        }
        true
    }
}

impl Stop {
    /// Reads the piece for each ride; what came of it, by the ride's number.
    fn read(self) -> Vec<(u64, Result<()>)> {
        let mut scratch = Scratch::default();
        let mut read_for = |(ride, blocks): (Arc<Ride>, Range<usize>)| {
            // A panic would leave the others of this piece waiting.
            let read = catch_unwind(AssertUnwindSafe(|| ride.read(blocks, &mut scratch)));
            (ride.number, read.unwrap_or_else(|_| Err(Error::internal("a thread that read blocks panicked"))))
        };
        self.0.into_iter().map(&mut read_for).collect()
    }
}

impl Ride {
    fn read(&self, blocks: Range<usize>, scratch: &mut Scratch) -> Result<()> {
        let begun = self.answers.lock().pop();
        let mut answer = begun.unwrap_or_else(|| Answer::new(&self.query, self.keys.clone()));
        read(&self.query, &self.readings, &self.cut[blocks], scratch, &mut answer)?;
        self.answers.lock().push(answer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn riding(number: u64, pieces: &BTreeSet<usize>) -> Riding {
        let ride = Ride {
            number,
            query: BoxQuery::default(),
            readings: Vec::new(),
            cut: Vec::new(),
            keys: GroupKeys::default(),
            answers: Mutex::default(),
            woken: Condvar::new(),
        };
        let pieces = pieces.iter().map(|&piece| ((SegmentId(1), piece), piece..piece + 1));
        Riding::new(Arc::new(ride), 1, pieces.collect())
    }

    proptest! {
        /// Rides begin at any time and end when they can: each has each of its pieces once, those that are there together share
        /// all pieces that they have in common, and the oldest one never waits.
        #[test]
        fn each_piece_is_taken_once_and_by_all_who_have_it(
            rides in prop::collection::vec((prop::collection::btree_set(0usize..40, 0..40), 0usize..30), 1..8),
        ) {
            let mut state = State::default();
            let mut had: Vec<Vec<usize>> = vec![Vec::new(); rides.len()];
            let mut coming = rides.iter().enumerate().peekable();
            let mut stops = 0;
            loop {
                while let Some((number, (pieces, _))) = coming.next_if(|(_, (_, after))| *after <= stops || state.riding.is_empty()) {
                    state.riding.push(riding(number as u64, pieces));
                }
                let left = |riding: &Riding| -> BTreeSet<usize> {
                    let pieces = riding.pieces.iter().zip(&riding.is_taken);
                    pieces.filter(|(_, taken)| !**taken).map(|(((_, piece), _), _)| *piece).collect()
                };
                let before: Vec<(u64, BTreeSet<usize>)> =
                    state.riding.iter().map(|riding| (riding.ride.number, left(riding))).collect();
                match state.take() {
                    Some(Stop(riders)) => {
                        stops += 1;
                        let piece = riders[0].1.start;
                        let oldest = before.iter().find(|(_, left)| !left.is_empty()).expect("a piece was left");
                        prop_assert_eq!(oldest.1.first(), Some(&piece));
                        let all: Vec<u64> =
                            before.iter().filter(|(_, left)| left.contains(&piece)).map(|(number, _)| *number).collect();
                        prop_assert_eq!(riders.iter().map(|(ride, _)| ride.number).collect::<Vec<_>>(), all);
                        for (ride, blocks) in riders {
                            prop_assert_eq!(blocks, piece..piece + 1);
                            had[ride.number as usize].push(piece);
                            let place = state.place(ride.number);
                            state.riding[place].being_read -= 1;
                        }
                    }
                    None => {
                        prop_assert!(before.iter().all(|(_, left)| left.is_empty()));
                        prop_assert!(state.riding.iter_mut().all(Riding::is_over));
                        state.riding.clear();
                        if coming.peek().is_none() {
                            break;
                        }
                    }
                }
            }
            for (had, (pieces, _)) in had.iter_mut().zip(&rides) {
                had.sort_unstable();
                prop_assert_eq!(had, &pieces.iter().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn short_rides_do_not_wait_for_long_ones_and_these_go_on() {
        let mut state = State::default();
        state.riding.push(riding(1, &(0..1_000).collect()));
        for number in 2..50 {
            state.riding.push(riding(number, &BTreeSet::from([1_000 + number as usize])));
            let stops = [state.take_in_turn().expect("a piece"), state.take_in_turn().expect("a piece")];
            let readers: BTreeSet<u64> =
                stops.iter().flat_map(|Stop(riders)| riders.iter().map(|(ride, _)| ride.number)).collect();
            assert_eq!(readers, BTreeSet::from([1, number]));
        }
    }

    #[test]
    fn only_who_may_read_now_is_woken() {
        let mut state = State { reading: 1, ..State::default() };
        for (number, threads) in [(1, 1), (2, 4), (3, 4)] {
            state.riding.push(Riding { threads, sleeps: true, ..riding(number, &BTreeSet::from([0])) });
        }
        let asleep = |state: &State| state.riding.iter().map(|riding| riding.sleeps).collect::<Vec<_>>();
        state.wake_one();
        assert_eq!(asleep(&state), [true, false, true]);
        state.reading = 0;
        state.wake_one();
        assert_eq!(asleep(&state), [false, false, true]);
        state.take();
        state.wake_one();
        assert_eq!(asleep(&state), [false, false, true], "nothing is left to read");
    }

    #[test]
    fn a_ride_that_failed_is_over_when_nobody_reads_for_it() {
        let mut one = riding(1, &(0..5).collect());
        assert!(one.take((SegmentId(1), 0)).is_some() && one.take((SegmentId(1), 0)).is_none());
        one.fail(Error::internal("first"));
        one.fail(Error::internal("second"));
        assert!(!one.is_over() && one.take((SegmentId(1), 3)).is_none());
        one.being_read -= 1;
        assert!(one.is_over() && one.failed.is_some_and(|error| error.to_string().contains("first")));
    }
}
