//! A statement that was refused memory, from its first refusal to its first row.
//!
//! Invariants:
//! - Whose memory was in the way is told by the statement's own last refusal: what others are refused meanwhile says nothing of it.
//! - What others hold is compared with what they held at that refusal. What the statement keeps itself from try to try is not theirs.
//! - Whoever has the turn tries again when others have let go of something, and after [`TRIED_AFTER`] in any case: others wait behind it, and
//!   what is in the way may be there for long (rows of temporary tables, an open cursor), or have gone before it was looked at.

use crate::admission::{Admission, Turn};
use crate::pool::{OTHERS, QueryMemory};
use datafusion_common::DataFusionError;
use datafusion_execution::memory_pool::MemoryPool;
use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// How often it is looked whether memory was let go.
const LOOK: Duration = Duration::from_millis(5);
/// How long others are waited for that have let go of nothing.
const TRIED_AFTER: Duration = Duration::from_secs(1);
/// How long memory of what was let go is waited for.
const GIVEN_BACK: Duration = Duration::from_secs(2);

/// One statement.
pub struct Waiter<'a> {
    admission: &'a Admission,
    pool: Arc<dyn MemoryPool>,
    /// Bytes that it has also while it waits.
    kept: usize,
    most: Duration,
    /// When it gives up, once it waits.
    given_up: Option<Pin<Box<Sleep>>>,
    /// What others held when it was refused.
    held: usize,
    turn: Option<Turn<'a>>,
}

impl fmt::Debug for Waiter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("pool", &self.pool).field("most", &self.most).finish_non_exhaustive()
    }
}

impl<'a> Waiter<'a> {
    /// One that begins with `kept` bytes in its pool, and waits for `most` in all.
    pub fn new(admission: &'a Admission, pool: &Arc<dyn MemoryPool>, kept: usize, most: Duration) -> Waiter<'a> {
        Waiter { admission, pool: Arc::clone(pool), kept, most, given_up: None, held: 0, turn: None }
    }

    /// Whether it was others' memory that was in the way when it failed with this error.
    pub fn is_for_others(&mut self, error: &DataFusionError) -> bool {
        let refused = self.memory().and_then(QueryMemory::take_refusal);
        self.held = refused.unwrap_or_else(|| self.others());
        // Operators do not always hand on what they were told.
        refused.is_some() || error.to_string().contains(OTHERS)
    }

    /// Waits, not for ever, until what it has let go of has given back its memory: some of it is still at work.
    pub async fn given_back(&self) {
        let looks = GIVEN_BACK.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            if self.pool.reserved() <= self.kept {
                return;
            }
            sleep(LOOK).await;
        }
    }

    /// Waits for its turn, or with it until others let go of something. `false` where the time is over: it has no turn any more.
    pub async fn turn(&mut self) -> bool {
        let turn = self.turn.take();
        if self.most.is_zero() {
            return false;
        }
        let mut given_up = self.given_up.take().unwrap_or_else(|| Box::pin(sleep(self.most)));
        let turn = {
            let mut waited = pin!(self.waited(turn));
            // The end of its time first: a turn may come at once each time that it is asked for.
            let first = poll_fn(|context| match (given_up.as_mut().poll(context), waited.as_mut().poll(context)) {
                (Poll::Ready(()), _) => Poll::Ready(None),
                (Poll::Pending, turn) => turn.map(Some),
            });
            first.await
        };
        (self.turn, self.given_up) = (turn, Some(given_up));
        self.turn.is_some()
    }

    async fn waited(&self, turn: Option<Turn<'a>>) -> Turn<'a> {
        let Some(turn) = turn else { return self.admission.turn().await };
        let _waiting = self.admission.waits();
        let looks = TRIED_AFTER.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            let now = self.others();
            if now < self.held || now == 0 {
                break;
            }
            sleep(LOOK).await;
        }
        turn
    }

    /// What others hold.
    fn others(&self) -> usize {
        self.admission.total().used_bytes().saturating_sub(self.pool.reserved())
    }

    fn memory(&self) -> Option<&QueryMemory> {
        let pool: &dyn Any = self.pool.as_ref();
        pool.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TotalMemory;
    use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(60);

    fn pool(total: &Arc<TotalMemory>, bytes: u64) -> Arc<dyn MemoryPool> {
        QueryMemory::new(bytes, Arc::clone(total))
    }

    fn of(pool: &Arc<dyn MemoryPool>, bytes: usize) -> MemoryReservation {
        let reservation = MemoryConsumer::new("some").register(pool);
        reservation.try_grow(bytes).unwrap();
        reservation
    }

    /// A statement with the turn that is refused `bytes`; others let go of theirs before it looks.
    async fn refused<'a>(
        admission: &'a Admission,
        own: &Arc<dyn MemoryPool>,
        kept: usize,
        gone: MemoryReservation,
    ) -> Waiter<'a> {
        let mut waiter = Waiter::new(admission, own, kept, LONG);
        assert!(timeout(SOON, waiter.turn()).await.unwrap());
        let error = MemoryConsumer::new("more").register(own).try_grow(60).unwrap_err();
        drop(gone);
        assert!(waiter.is_for_others(&error));
        waiter
    }

    #[tokio::test]
    async fn what_was_let_go_before_it_was_looked_at_is_seen() {
        let total = TotalMemory::new(100);
        let admission = Admission::new(Arc::clone(&total));
        // Rows of temporary tables, or a cursor: they stay.
        let (steady, other) = (pool(&total, 100), pool(&total, 100));
        let _stays = of(&steady, 10);
        let own = pool(&total, 100);
        let mut waiter = refused(&admission, &own, 0, of(&other, 50)).await;
        timeout(SOON, waiter.given_back()).await.unwrap();
        assert!(timeout(SOON, waiter.turn()).await.unwrap(), "80 bytes are free");
    }

    #[tokio::test]
    async fn its_time_is_over_also_where_its_turn_comes_at_once() {
        let total = TotalMemory::new(100);
        let admission = Admission::new(Arc::clone(&total));
        // Nobody holds anything, so it tries again without a pause.
        let own = pool(&total, 100);
        let mut waiter = Waiter::new(&admission, &own, 0, SOON);
        let given_up = async {
            while waiter.turn().await {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, given_up).await.expect("it gives up");
    }

    #[tokio::test]
    async fn what_a_statement_keeps_itself_is_not_others() {
        let total = TotalMemory::new(100);
        let admission = Admission::new(Arc::clone(&total));
        let (own, other) = (pool(&total, 100), pool(&total, 100));
        let _kept = of(&own, 10);
        let mut waiter = refused(&admission, &own, 10, of(&other, 50)).await;
        timeout(SOON, waiter.given_back()).await.expect("it keeps that");
        assert!(timeout(SOON, waiter.turn()).await.unwrap(), "nobody else has any");
    }

    #[tokio::test]
    async fn who_has_the_turn_tries_again_though_nothing_is_let_go() {
        let total = TotalMemory::new(100);
        let admission = Admission::new(Arc::clone(&total));
        let (own, other) = (pool(&total, 100), pool(&total, 100));
        let held = of(&other, 50);
        let mut waiter = refused(&admission, &own, 0, of(&pool(&total, 100), 0)).await;
        assert!(timeout(SOON, waiter.turn()).await.is_err(), "at once is too soon");
        let mut waiter = refused(&admission, &own, 0, of(&pool(&total, 100), 0)).await;
        assert!(timeout(TRIED_AFTER * 3, waiter.turn()).await.unwrap());
        drop(held);
    }

    #[tokio::test]
    async fn refusals_of_others_are_none_of_a_statements() {
        let total = TotalMemory::new(100);
        let admission = Admission::new(Arc::clone(&total));
        let (own, other) = (pool(&total, 50), pool(&total, 100));
        let mut waiter = Waiter::new(&admission, &own, 0, LONG);
        let _held = of(&own, 45);
        // One beside it is refused by what all hold together, and it itself by its own bound.
        MemoryConsumer::new("beside").register(&other).try_grow(60).unwrap_err();
        let error = MemoryConsumer::new("more").register(&own).try_grow(20).unwrap_err();
        assert!(!waiter.is_for_others(&error), "{error}");
    }

    #[tokio::test]
    async fn who_waits_no_time_is_refused_though_the_turn_is_free() {
        let total = TotalMemory::new(100);
        let admission = Admission::new(Arc::clone(&total));
        let mut waiter = Waiter::new(&admission, &pool(&total, 100), 0, Duration::ZERO);
        for _ in 0..100 {
            assert!(!waiter.turn().await);
        }
        let mut waiter = Waiter::new(&admission, &pool(&total, 100), 0, LOOK);
        let turn = admission.turn().await;
        assert!(!timeout(SOON, waiter.turn()).await.unwrap());
        drop(turn);
    }
}
