//! The accounted cache of file chunks.
//!
//! Invariants:
//! - [`Cache::used_bytes`] never exceeds the bytes it was made for: room is made before a chunk goes in. A chunk that was
//!   evicted while somebody reads it is that reader's memory, not the cache's.
//! - Every cached chunk has passed its checksum and is the only one in its allocation, so that evicting it frees it.
//! - A file's id is never used again; when the file is closed its chunks go.
//!
//! Why S3-FIFO (Yang, Zhang, Qiu, Yue, Vigfusson: "FIFO queues are all you need for cache eviction", SOSP 2023): most
//! chunks of a large scan are read once. New chunks pass through a small queue, a tenth of the space, and reach the main
//! queue only if they are asked for again, there or soon after; so a scan cannot sweep out what is read all the time. A
//! hit only counts, it moves nothing. Shards keep threads apart; at 256 KiB a chunk the locks are far from hot.

use bytes::Bytes;
use hashbrown::{HashMap, HashSet, hash_map};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checks::CHUNK_BYTES;

/// Hits that count; more make an entry no better.
const HITS_MAX: u8 = 3;
/// Hits in the small queue that earn a place in the main queue.
const HITS_TO_STAY: u8 = 2;
/// What an entry costs beside its bytes, so that many tiny chunks are not free.
const ENTRY_BYTES: u64 = 128;
/// A shard is at least this large, so that chunks of different shards do not evict each other for want of a few bytes.
const SHARD_BYTES_MIN: u64 = 32 * CHUNK_BYTES as u64;
const SHARDS_MAX: u64 = 64;

/// Which chunk of which file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ChunkId {
    pub(crate) file: u64,
    pub(crate) chunk: u32,
}

/// Recently read chunks of files, within a fixed number of bytes.
#[derive(Debug)]
pub struct Cache {
    shards: Box<[Mutex<Shard>]>,
    bytes_max: u64,
    next_file: AtomicU64,
}

impl Cache {
    /// A cache that holds at most `bytes_max` bytes; 0 caches nothing.
    pub fn new(bytes_max: u64) -> Cache {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shard = || Mutex::new(Shard { bytes_max: bytes_max / shards, ..Shard::default() });
        Cache { shards: (0..shards).map(|_| shard()).collect(), bytes_max, next_file: AtomicU64::new(0) }
    }

    /// Bytes that the cache may hold.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes that the cache holds now.
    pub fn used_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().used()).sum()
    }

    /// Chunks that were asked for and found.
    pub fn hits(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().hits).sum()
    }

    /// Chunks that were asked for and not found.
    pub fn misses(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().misses).sum()
    }

    /// An id for a file whose chunks will be cached.
    pub(crate) fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self, id: ChunkId) -> Option<Bytes> {
        self.shard(id).lock().get(id)
    }

    /// Caches a chunk. Of two readers that loaded it at the same time, both go on with the first one's copy.
    pub(crate) fn insert(&self, id: ChunkId, bytes: Bytes) -> Bytes {
        self.shard(id).lock().insert(id, bytes)
    }

    /// Drops everything of a file that is closed.
    pub(crate) fn forget_file(&self, file: u64) {
        for shard in &self.shards {
            shard.lock().forget_file(file);
        }
    }

    fn shard(&self, id: ChunkId) -> &Mutex<Shard> {
        // Fibonacci hashing; the high bits choose, by multiplication instead of division.
        let mixed = (id.file.rotate_left(32) ^ u64::from(id.chunk)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[((mixed * self.shards.len() as u64) >> 32) as usize]
    }
}

#[derive(Debug)]
struct Entry {
    bytes: Bytes,
    hits: u8,
    queue: Queue,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    Small,
    Main,
}

/// One shard: every entry is in exactly one of the two queues.
#[derive(Debug, Default)]
struct Shard {
    bytes_max: u64,
    small_bytes: u64,
    main_bytes: u64,
    hits: u64,
    misses: u64,
    entries: HashMap<ChunkId, Entry>,
    small: VecDeque<ChunkId>,
    main: VecDeque<ChunkId>,
    /// Ids lately evicted from the small queue: asked for again, they go straight to the main one.
    ghosts: VecDeque<ChunkId>,
    ghost_set: HashSet<ChunkId>,
}

fn cost(bytes: &Bytes) -> u64 {
    bytes.len() as u64 + ENTRY_BYTES
}

impl Shard {
    fn used(&self) -> u64 {
        self.small_bytes + self.main_bytes
    }

    fn get(&mut self, id: ChunkId) -> Option<Bytes> {
        match self.entries.get_mut(&id) {
            Some(entry) => {
                self.hits += 1;
                entry.hits = (entry.hits + 1).min(HITS_MAX);
                Some(entry.bytes.clone())
            }
            None => {
                self.misses += 1;
                None
            }
        }
    }

    fn insert(&mut self, id: ChunkId, bytes: Bytes) -> Bytes {
        let cost = cost(&bytes);
        if let Some(entry) = self.entries.get(&id) {
            return entry.bytes.clone();
        }
        if cost > self.bytes_max {
            return bytes;
        }
        while self.used() + cost > self.bytes_max {
            self.evict_one();
        }
        let queue = if self.ghost_set.contains(&id) { Queue::Main } else { Queue::Small };
        self.enqueue(id, queue, cost);
        let slot = self.entries.insert(id, Entry { bytes: bytes.clone(), hits: 0, queue });
        assert!(slot.is_none(), "an entry is queued once");
        bytes
    }

    fn enqueue(&mut self, id: ChunkId, queue: Queue, cost: u64) {
        match queue {
            Queue::Small => {
                self.small.push_back(id);
                self.small_bytes += cost;
            }
            Queue::Main => {
                self.main.push_back(id);
                self.main_bytes += cost;
            }
        }
    }

    /// Frees some bytes. Called only while there are entries; ends because every pass over an entry spends a hit of it.
    fn evict_one(&mut self) {
        while self.small_bytes > self.bytes_max / 10 || self.main.is_empty() {
            let id = self.small.pop_front().expect("used bytes belong to queued entries");
            let hash_map::Entry::Occupied(mut slot) = self.entries.entry(id) else {
                unreachable!("a queued id has an entry");
            };
            let cost = cost(&slot.get().bytes);
            self.small_bytes -= cost;
            if slot.get().hits < HITS_TO_STAY {
                slot.remove();
                self.remember_ghost(id);
                return;
            }
            *slot.get_mut() = Entry { hits: 0, queue: Queue::Main, bytes: slot.get().bytes.clone() };
            self.enqueue(id, Queue::Main, cost);
        }
        while let Some(id) = self.main.pop_front() {
            let hash_map::Entry::Occupied(mut slot) = self.entries.entry(id) else {
                unreachable!("a queued id has an entry");
            };
            if slot.get().hits == 0 {
                self.main_bytes -= cost(&slot.remove().bytes);
                return;
            }
            slot.get_mut().hits -= 1;
            self.main.push_back(id);
        }
    }

    fn remember_ghost(&mut self, id: ChunkId) {
        if self.ghost_set.insert(id) {
            self.ghosts.push_back(id);
        }
        while self.ghosts.len() > self.entries.len().max(1) {
            let oldest = self.ghosts.pop_front().expect("more than one is there");
            self.ghost_set.remove(&oldest);
        }
    }

    fn forget_file(&mut self, file: u64) {
        let (mut small, mut main) = (0, 0);
        self.entries.retain(|id, entry| {
            if id.file == file {
                *if entry.queue == Queue::Small { &mut small } else { &mut main } += cost(&entry.bytes);
            }
            id.file != file
        });
        self.small_bytes -= small;
        self.main_bytes -= main;
        if small + main > 0 {
            self.small.retain(|id| id.file != file);
            self.main.retain(|id| id.file != file);
        }
        self.ghosts.retain(|id| id.file != file);
        self.ghost_set.retain(|id| id.file != file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(file: u64, chunk: u32) -> ChunkId {
        ChunkId { file, chunk }
    }

    fn check(shard: &Shard) {
        let queued = |queue: &VecDeque<ChunkId>| queue.iter().map(|id| cost(&shard.entries[id].bytes)).sum::<u64>();
        assert_eq!(queued(&shard.small), shard.small_bytes);
        assert_eq!(queued(&shard.main), shard.main_bytes);
        assert_eq!(shard.small.len() + shard.main.len(), shard.entries.len());
        assert!(shard.small.iter().all(|id| shard.entries[id].queue == Queue::Small));
        assert!(shard.main.iter().all(|id| shard.entries[id].queue == Queue::Main));
        assert!(shard.used() <= shard.bytes_max);
        assert_eq!(shard.ghosts.len(), shard.ghost_set.len());
        assert!(shard.ghosts.len() as u64 <= shard.bytes_max / ENTRY_BYTES + 1);
    }

    proptest! {
        #[test]
        fn accounts_and_returns_what_was_put(
            bytes_max in 0..6000u64,
            steps in prop::collection::vec((0..4u64, 0..12u32, 1..900usize, 0..10u8), 0..400),
        ) {
            let mut shard = Shard { bytes_max, ..Shard::default() };
            for (file, chunk, len, what) in steps {
                let id = id(file, chunk);
                // A chunk's content is a function of its id, as a file's is.
                let len = len % (1 + chunk as usize * 70);
                match what {
                    0 => shard.forget_file(file),
                    1..6 => {
                        let had = shard.entries.contains_key(&id);
                        let got = shard.insert(id, Bytes::from(vec![chunk as u8; len]));
                        prop_assert!(had || got.len() == len);
                    }
                    _ => {
                        let had = shard.entries.contains_key(&id);
                        let got = shard.get(id);
                        prop_assert_eq!(had, got.is_some());
                        prop_assert!(got.is_none_or(|bytes| bytes.iter().all(|byte| *byte == chunk as u8)));
                    }
                }
                check(&shard);
            }
        }
    }

    #[test]
    fn a_scan_does_not_sweep_out_what_is_read_all_the_time() {
        let mut shard = Shard { bytes_max: 100 * (1000 + ENTRY_BYTES), ..Shard::default() };
        let chunk = Bytes::from(vec![1; 1000]);
        for round in 0..5 {
            for hot in 0..50 {
                if shard.get(id(0, hot)).is_none() {
                    assert_eq!(round, 0);
                    shard.insert(id(0, hot), chunk.clone());
                }
            }
        }
        for scanned in 0..10_000 {
            assert!(shard.get(id(1, scanned)).is_none());
            shard.insert(id(1, scanned), chunk.clone());
        }
        let kept = (0..50).filter(|hot| shard.entries.contains_key(&id(0, *hot))).count();
        assert_eq!(kept, 50);
        check(&shard);
    }

    #[test]
    fn what_comes_back_soon_goes_to_the_main_queue() {
        let mut shard = Shard { bytes_max: 10 * (1000 + ENTRY_BYTES), ..Shard::default() };
        for chunk in 0..12 {
            shard.insert(id(0, chunk), Bytes::from(vec![1; 1000]));
        }
        assert!(!shard.entries.contains_key(&id(0, 0)));
        shard.insert(id(0, 0), Bytes::from(vec![1; 1000]));
        assert_eq!(shard.entries[&id(0, 0)].queue, Queue::Main);
        check(&shard);
    }

    #[test]
    fn threads_together_stay_within_the_bound_and_the_sums_are_right() {
        let cache = Cache::new(64 << 20);
        assert!(cache.shards.len() > 1);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let cache = &cache;
                scope.spawn(move || {
                    let file = cache.new_file();
                    for step in 0..400u32 {
                        let id = id(if step % 3 == 0 { file } else { 1000 }, step * 7 % 301);
                        if cache.get(id).is_none() {
                            let bytes = cache.insert(id, Bytes::from(vec![id.chunk as u8; CHUNK_BYTES]));
                            assert_eq!(bytes[CHUNK_BYTES - 1], id.chunk as u8);
                        }
                        assert!(cache.used_bytes() <= cache.bytes_max());
                    }
                    if thread % 2 == 0 {
                        cache.forget_file(file);
                    }
                });
            }
        });
        assert_eq!(cache.hits() + cache.misses(), 8 * 400);
        cache.shards.iter().for_each(|shard| check(&shard.lock()));
        (0..8).chain([1000]).for_each(|file| cache.forget_file(file));
        assert_eq!(cache.used_bytes(), 0);
    }

    #[test]
    fn a_cache_of_nothing_caches_nothing() {
        let cache = Cache::new(0);
        assert_eq!(cache.insert(id(0, 0), Bytes::from_static(b"x")), "x");
        assert_eq!((cache.get(id(0, 0)), cache.used_bytes(), cache.misses()), (None, 0, 1));
    }
}
