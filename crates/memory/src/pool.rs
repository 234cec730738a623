//! What statements hold, in two levels: a fair pool of the whole database would shrink one statement's share with every other statement's
//! operator.

use alluvia_copy::temporary::MemoryBound;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all queries of a database may hold.
#[derive(Debug)]
pub struct TotalMemory {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    /// What is held beside, and grows with the rows: keys, and notes of dead rows.
    beside_bytes: AtomicUsize,
}

impl TotalMemory {
    /// Nothing used of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Arc<TotalMemory> {
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        Arc::new(TotalMemory { limit_bytes, used_bytes: 0.into(), beside_bytes: 0.into() })
    }

    /// Bytes that queries hold now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Says what is held beside statements: they have so much less, but half of their memory whatever that is.
    pub fn set_beside(&self, bytes: u64) {
        self.beside_bytes.store(usize::try_from(bytes).unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// What statements may hold now.
    fn left_bytes(&self) -> usize {
        self.limit_bytes - self.beside_bytes.load(Ordering::Relaxed).min(self.limit_bytes / 2)
    }

    fn try_use(&self, bytes: usize) -> bool {
        let left = self.left_bytes();
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= left);
        self.used_bytes.try_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// What lies between statements counts among what these hold: rows of temporary tables.
impl MemoryBound for TotalMemory {
    fn try_take(&self, bytes: u64) -> bool {
        self.try_use(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn take(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes as usize, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes as usize, Ordering::Relaxed);
    }
}

/// One query's memory.
#[derive(Debug)]
pub struct QueryMemory {
    own: FairSpillPool,
    total: Arc<TotalMemory>,
    /// What others held when it was refused last, if that was for what they had; [`NOT_REFUSED`] if it was for its own bound.
    refused: AtomicUsize,
}

const NOT_REFUSED: usize = usize::MAX;
/// What messages of refusals say that are for others' memory.
pub(crate) const OTHERS: &str = "all queries together hold";

impl QueryMemory {
    /// A query that may hold `limit_bytes`, as far as the database has them.
    pub fn new(limit_bytes: u64, total: Arc<TotalMemory>) -> Arc<QueryMemory> {
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX).min(total.limit_bytes);
        Arc::new(QueryMemory { own: FairSpillPool::new(limit_bytes), total, refused: NOT_REFUSED.into() })
    }

    /// What others held when it was refused last, if that was for what they had. It is told once.
    pub(crate) fn take_refusal(&self) -> Option<usize> {
        Some(self.refused.swap(NOT_REFUSED, Ordering::Relaxed)).filter(|held| *held != NOT_REFUSED)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.total.used_bytes.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.total.used_bytes.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.own
            .try_grow(reservation, additional)
            .inspect_err(|_| self.refused.store(NOT_REFUSED, Ordering::Relaxed))?;
        if self.total.try_use(additional) {
            return Ok(());
        }
        let (wanted, left) = (self.own.reserved(), self.total.left_bytes());
        self.own.shrink(reservation, additional);
        if wanted > left {
            // It would not have it if it were alone.
            self.refused.store(NOT_REFUSED, Ordering::Relaxed);
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} needs {additional} bytes more, and queries have {left} bytes beside keys and notes of dead rows",
                reservation.consumer().name(),
            )));
        }
        let others = self.total.used_bytes().saturating_sub(self.own.reserved());
        self.refused.store(others, Ordering::Relaxed);
        Err(DataFusionError::ResourcesExhausted(format!(
            "{} needs {additional} bytes more, and {OTHERS} {} of {} bytes",
            reservation.consumer().name(),
            self.total.used_bytes(),
            self.total.left_bytes()
        )))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.own, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_bounded_each_and_together_and_give_everything_back() {
        let total = TotalMemory::new(100);
        let memories = [80, 80].map(|bytes| QueryMemory::new(bytes, Arc::clone(&total)));
        let [first, second] = memories.clone().map(|memory| -> Arc<dyn MemoryPool> { memory });
        let one = MemoryConsumer::new("one").register(&first);
        let two = MemoryConsumer::new("two").register(&second);
        assert!(one.try_grow(81).is_err());
        one.try_grow(70).unwrap();
        let error = two.try_grow(40).unwrap_err().to_string();
        assert!(error.contains("all queries together hold 70 of 100"), "{error}");
        let refusals = || memories.each_ref().map(|memory| memory.take_refusal());
        assert_eq!(refusals(), [None, Some(70)], "its own bound is none of the others'");
        assert_eq!(refusals(), [None, None]);
        two.try_grow(30).unwrap();
        assert_eq!(total.used_bytes(), 100);
        two.shrink(20);
        total.set_beside(15);
        let error = two.try_grow(10).unwrap_err().to_string();
        assert!(error.contains("all queries together hold 80 of 85"), "{error}");
        total.set_beside(u64::MAX);
        assert!(two.try_grow(1).is_err());
        one.shrink(40);
        two.try_grow(10).expect("half of it is left, whatever is held beside");
        refusals();
        one.shrink(30);
        let error = two.try_grow(31).unwrap_err().to_string();
        assert!(error.contains("queries have 50 bytes beside keys"), "{error}");
        assert_eq!(refusals(), [None, None], "nobody else has what it lacks");
        drop((one, two));
        assert_eq!((total.used_bytes(), first.reserved(), second.reserved()), (0, 0, 0));
    }
}
