//! Bodies of batches that are staged, until they are decided and followed, or given up.
//!
//! They lie in a log of their own, under numbers that mean nothing elsewhere, and in memory.
//!
//! Invariants:
//! - What is acknowledged as staged is durable here until it is [settled](Bodies::settle) or its gateway has given it up: no time-out
//!   drops it.
//! - Bodies that are kept have a bounded number of bytes; past that nothing is staged until others are settled.
//! - A body that comes again is the same one, or refused.
//! - The log is given up as far as no body is in it that is kept.

use crate::words::{BatchId, Epoch};
use alluvia_log::{Log, LogOptions};
use alluvia_storage::Disk;
use alluvia_types::{Clock, Error, ErrorKind, Result, TableId, Version};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes before a body in the log: gateway, incarnation, sequence, shard, epoch.
const HEADER_BYTES: usize = 8 + 8 + 8 + 4 + 8;

/// Bodies that came since one that is still kept, past which it is written again.
const CARRIED_AFTER: u64 = 1 << 16;

/// Bytes of bodies that are kept, at most.
const KEPT_BYTES_MAX: u64 = 1 << 30;

/// The body of a batch for one shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staged {
    /// Of which batch.
    pub batch: BatchId,
    /// For which shard.
    pub shard: TableId,
    /// Under which epoch of it.
    pub epoch: Epoch,
    /// The rows ([`alluvia_commit::encode`]).
    pub body: Arc<[u8]>,
}

/// All bodies of one worker.
#[derive(Debug)]
pub struct Bodies {
    log: Log,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By batch and shard: the number in the log, and what is there.
    kept: BTreeMap<(BatchId, TableId), (u64, Staged)>,
    bytes: u64,
    /// The last number that was given.
    last: u64,
    /// How often the log was rewound.
    generation: u64,
}

impl State {
    fn keep(&mut self, number: u64, staged: Staged) {
        self.bytes += staged.body.len() as u64;
        self.kept.insert((staged.batch, staged.shard), (number, staged));
    }

    /// The least number that is kept, or the next one.
    fn least(&self) -> u64 {
        self.kept.values().map(|(number, _)| *number).min().unwrap_or(self.last + 1)
    }

    fn give_up(&mut self, is_over: impl Fn(&(BatchId, TableId), u64) -> bool) {
        let gone = self.kept.extract_if(.., |key, (number, _)| is_over(key, *number));
        self.bytes -= gone.map(|(_, (_, staged))| staged.body.len() as u64).sum::<u64>();
    }
}

impl Bodies {
    /// Opens the bodies in `dir`, or begins. `cluster` is the random number of the cluster: files of another are refused.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, clock: Arc<dyn Clock>, cluster: u64) -> Result<Bodies> {
        let io = |path: &Path| {
            let path: PathBuf = path.into();
            move |error: std::io::Error| Error::io(&path, "creating", &error)
        };
        disk.create_dir_all(dir).map_err(io(dir))?;
        let after = Log::given_up(disk.as_ref(), dir, cluster)?;
        let mut state = State { kept: BTreeMap::new(), bytes: 0, last: after.0, generation: 0 };
        let options = LogOptions { is_marked: false, clock, ..LogOptions::new(cluster) };
        let log = Log::open(disk, dir, options, after, &mut |record| {
            let number = record.version.0;
            state.keep(number, decode(record.body).map_err(|error| error.at(format_args!("staged body {number}")))?);
            state.last = number;
            Ok(())
        })?;
        state.last = state.last.max(log.durable().0);
        Ok(Bodies { log, state: Mutex::new(state) })
    }

    /// Keeps a body; it is durable on return.
    ///
    /// Errors: `Conflict`: another body of the batch and the shard is kept. `DiskFull`: it is not kept. Others: it may be.
    pub fn stage(&self, staged: Staged) -> Result<()> {
        self.put(staged, KEPT_BYTES_MAX)
    }

    /// Keeps a body that was decided, and is fetched: there is always room for the next one to follow.
    pub fn put_fetched(&self, staged: Staged) -> Result<()> {
        self.put(staged, u64::MAX)
    }

    fn put(&self, staged: Staged, bytes_max: u64) -> Result<()> {
        let (ticket, generation) = {
            let mut state = self.state.lock();
            let known = state.kept.get(&(staged.batch, staged.shard));
            let number = match known {
                Some((number, known)) if known.body == staged.body => *number,
                Some(_) => {
                    let what = format!("batch {} has two bodies for shard {}", staged.batch, staged.shard);
                    return Err(Error::new(ErrorKind::Conflict, what));
                }
                None if state.bytes + staged.body.len() as u64 > bytes_max => {
                    let what =
                        format!("{} MiB of bodies wait here until all workers have followed them", state.bytes >> 20);
                    return Err(
                        Error::new(ErrorKind::Busy, what).with_hint("send it again; a worker may be behind, or down")
                    );
                }
                None => {
                    let number = state.last + 1;
                    self.log.append_owned(Version(number), 0, encode(&staged))?;
                    state.last = number;
                    state.keep(number, staged);
                    number
                }
            };
            (self.log.ticket(Version(number)), state.generation)
        };
        let Err(error) = self.log.sync(ticket) else { return Ok(()) };
        if error.kind() == ErrorKind::DiskFull {
            self.take_back(generation);
        }
        Err(error)
    }

    /// Once for each full disk: what did not become durable is not kept.
    fn take_back(&self, generation: u64) {
        let mut state = self.state.lock();
        if state.generation != generation {
            return;
        }
        let durable = self.log.rewind().0;
        state.give_up(|_, number| number > durable);
        state.last = durable;
        state.generation += 1;
    }

    /// The shards that have a body of a batch here.
    pub fn shards_of(&self, batch: BatchId) -> Vec<TableId> {
        let state = self.state.lock();
        state.kept.range((batch, TableId(0))..=(batch, TableId(u32::MAX))).map(|((_, shard), _)| *shard).collect()
    }

    /// The body of a batch for a shard, if it is here.
    pub fn get(&self, batch: BatchId, shard: TableId) -> Option<Staged> {
        self.state.lock().kept.get(&(batch, shard)).map(|(_, staged)| staged.clone())
    }

    /// These bodies are in the database's own log, durable.
    pub fn settle(&self, settled: &[(BatchId, TableId)]) -> Result<()> {
        let mut state = self.state.lock();
        for key in settled {
            if let Some((_, staged)) = state.kept.remove(key) {
                state.bytes -= staged.body.len() as u64;
            }
        }
        drop(state);
        self.give_up_log()
    }

    /// A gateway's batches of earlier incarnations, and of this one below a sequence, are decided or given up, and what was decided is
    /// settled.
    pub fn drop_below(&self, floor: BatchId) -> Result<()> {
        let is_below = |id: &BatchId| {
            id.gateway == floor.gateway && (id.incarnation, id.sequence) < (floor.incarnation, floor.sequence)
        };
        let mut state = self.state.lock();
        let before = state.kept.len();
        state.give_up(|(id, _), _| is_below(id));
        let is_same = state.kept.len() == before;
        drop(state);
        if is_same { Ok(()) } else { self.give_up_log() }
    }

    fn give_up_log(&self) -> Result<()> {
        let mut state = self.state.lock();
        let mut least = state.least();
        if state.last - least.min(state.last) > CARRIED_AFTER {
            // A few that nobody ends must not keep all that came since: they are written again behind it.
            let old = state.last - CARRIED_AFTER / 2;
            let carried: Vec<(u64, Staged)> =
                state.kept.values().filter(|(number, _)| *number < old).cloned().collect();
            for (_, staged) in &carried {
                let (number, staged) = (state.last + 1, staged.clone());
                self.log.append_owned(Version(number), 0, encode(&staged))?;
                state.last = number;
                state.kept.insert((staged.batch, staged.shard), (number, staged));
            }
            let (last, generation) = (state.last, state.generation);
            let ticket = self.log.ticket(Version(last));
            drop(state);
            if let Err(error) = self.log.sync(ticket) {
                self.take_back(generation);
                // They lie where they lay.
                let mut state = self.state.lock();
                for (number, staged) in carried {
                    if !state.kept.contains_key(&(staged.batch, staged.shard)) {
                        state.keep(number, staged);
                    }
                }
                return Err(error);
            }
            least = self.state.lock().least();
        } else {
            drop(state);
        }
        self.log.remove_through(Version(least - 1))
    }

    /// Bodies that are kept, and their bytes.
    pub fn load(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.kept.len(), state.bytes)
    }
}

fn encode(staged: &Staged) -> Vec<u8> {
    let Staged { batch, shard, epoch, body } = staged;
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    for number in [batch.gateway.0, batch.incarnation, batch.sequence] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&shard.0.to_le_bytes());
    out.extend_from_slice(&epoch.0.to_le_bytes());
    out.extend_from_slice(body);
    out
}

fn decode(bytes: &[u8]) -> Result<Staged> {
    let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(Error::new(ErrorKind::Corrupt, "a staged body is shorter than its header"));
    };
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let shard = u32::from_le_bytes(header[24..28].try_into().expect("4 bytes"));
    let batch = BatchId { gateway: crate::NodeId(number(0)), incarnation: number(8), sequence: number(16) };
    Ok(Staged { batch, shard: TableId(shard), epoch: Epoch(number(28)), body: body.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::NodeId;
    use alluvia_storage::FaultDisk;
    use alluvia_types::ManualClock;

    fn staged(sequence: u64, shard: u32, body: &[u8]) -> Staged {
        let batch = BatchId { gateway: NodeId(9), incarnation: 1, sequence };
        Staged { batch, shard: TableId(shard), epoch: Epoch(3), body: body.into() }
    }

    fn open(disk: &Arc<FaultDisk>) -> Bodies {
        let disk = Arc::clone(disk) as Arc<dyn Disk>;
        Bodies::open(disk, Path::new("/bodies"), Arc::new(ManualClock::default()), 7).expect("opens")
    }

    #[test]
    fn what_is_staged_is_there_after_a_start_until_it_is_settled() {
        let disk = FaultDisk::new();
        let bodies = open(&disk);
        for sequence in 1..=4 {
            bodies.stage(staged(sequence, 1, b"rows")).unwrap();
        }
        bodies.stage(staged(2, 1, b"rows")).expect("it is the same one");
        assert_eq!(bodies.stage(staged(2, 1, b"other")).unwrap_err().kind(), ErrorKind::Conflict);
        bodies.settle(&[(staged(1, 1, b"").batch, TableId(1))]).unwrap();
        bodies.drop_below(staged(3, 1, b"").batch).unwrap();
        assert_eq!(bodies.load(), (2, 8));
        drop(bodies);
        let bodies = open(&disk);
        assert_eq!(bodies.get(staged(4, 1, b"").batch, TableId(1)), Some(staged(4, 1, b"rows")));
        // What was settled may come again with the log that is kept, until its gateway's floor comes.
        bodies.drop_below(staged(5, 1, b"").batch).unwrap();
        assert_eq!(bodies.load(), (0, 0));
        bodies.stage(staged(6, 1, b"rows")).expect("numbers go on");
    }

    #[test]
    fn a_full_disk_keeps_nothing_that_was_refused() {
        let disk = FaultDisk::new();
        let bodies = open(&disk);
        bodies.stage(staged(1, 1, b"rows")).unwrap();
        disk.limit_bytes(Some(bodies.log.bytes_on_disk()));
        let large = vec![1; 1 << 20];
        assert_eq!(bodies.stage(staged(2, 1, &large)).unwrap_err().kind(), ErrorKind::DiskFull);
        assert_eq!(bodies.load(), (1, 4));
        disk.limit_bytes(None);
        bodies.stage(staged(2, 1, &large)).expect("there is room");
        drop(bodies);
        assert_eq!(open(&disk).load(), (2, 4 + (1 << 20)));
    }
}
