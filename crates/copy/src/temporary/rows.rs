//! The rows of one temporary table.

use crate::temporary::chunk::{Chunk, Data, InMemory, Place, TEMPORARY_VERSION, misfit};
use crate::temporary::memory::{Taken, TemporaryMemory};
use crate::temporary::read::TemporaryRead;
use crate::temporary::spill::{Coming, Spilled, Spilling, keys_bytes};
use alluvia_snapshot::identities_of;
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Error, Result};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Chunks in memory below this many rows are joined with their neighbours, once there are so many of them.
const SMALL_ROWS: usize = 4_096;
const SMALL_CHUNKS: usize = 32;
/// Up to this many rows.
const JOINED_ROWS: usize = 8_192;

/// The rows of one temporary table.
#[derive(Debug)]
pub struct TemporaryRows {
    memory: Arc<TemporaryMemory>,
    coder: Option<KeyCoder>,
    chunks: Vec<Chunk>,
    next: u32,
    /// Where the row of each key is, in a table that has one.
    keys: HashMap<KeyCode, Place>,
    keys_taken: Taken,
    /// Chunks from this number on were taken back, and their keys are still known.
    taken_back: Option<u32>,
    /// What was made for the last reader, while it is the same.
    read: Option<TemporaryRead>,
}

/// What takes back a change.
#[derive(Debug)]
pub struct Undo {
    /// Chunks that have come, by their numbers.
    came: Range<u32>,
    /// Rows that have died, and their keys where they have such.
    killed: Vec<Place>,
    codes: Vec<KeyCode>,
    /// All rows that were there.
    cleared: Option<Box<Cleared>>,
    _taken: Option<Taken>,
}

/// Rows that were there before all were removed at once.
#[derive(Debug)]
struct Cleared {
    chunks: Vec<Chunk>,
    keys: HashMap<KeyCode, Place>,
    keys_taken: Taken,
}

impl Undo {
    fn nothing() -> Undo {
        Undo { came: 0..0, killed: Vec::new(), codes: Vec::new(), cleared: None, _taken: None }
    }

    /// Takes on what takes back the change behind it, if both are no more than rows that have come.
    ///
    /// # Errors
    /// Gives that back where it cannot be.
    pub fn join(&mut self, behind: Undo) -> Result<(), Undo> {
        let is_plain = |undo: &Undo| undo.killed.is_empty() && undo.cleared.is_none() && !undo.came.is_empty();
        if !is_plain(self) || !is_plain(&behind) || self.came.end != behind.came.start {
            return Err(behind);
        }
        self.came.end = behind.came.end;
        Ok(())
    }

    /// How many rows have died.
    pub fn killed(&self) -> usize {
        self.killed.len()
    }
}

impl TemporaryRows {
    /// None yet, of a table of this definition.
    pub fn new(def: &TableDef, memory: &Arc<TemporaryMemory>) -> TemporaryRows {
        TemporaryRows {
            coder: KeyCoder::new(def),
            chunks: Vec::new(),
            next: 0,
            keys: HashMap::new(),
            keys_taken: Taken::nothing(memory),
            memory: Arc::clone(memory),
            taken_back: None,
            read: None,
        }
    }

    /// The same rows for another session of the same client, with nothing that can be taken back.
    pub fn fork(&self, memory: &Arc<TemporaryMemory>) -> TemporaryRows {
        TemporaryRows {
            coder: self.coder.clone(),
            chunks: self.chunks.clone(),
            next: self.next,
            keys: self.keys.clone(),
            keys_taken: memory.take(self.keys_taken.bytes()),
            memory: Arc::clone(memory),
            taken_back: None,
            read: self.read.clone(),
        }
    }

    /// What codes the keys; `None` in a table without one.
    pub fn coder(&self) -> Option<&KeyCoder> {
        self.coder.as_ref()
    }

    /// Whether a row has a key.
    pub fn has_key(&self, code: KeyCode) -> bool {
        self.keys.contains_key(&code)
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.live() as u64).sum()
    }

    /// The rows of now.
    pub fn read(&mut self) -> TemporaryRead {
        self.read.get_or_insert_with(|| TemporaryRead::new(self.chunks.as_slice().into())).clone()
    }

    /// Rows come; those that have had their keys go.
    ///
    /// # Errors
    /// `Internal` if there are no numbers left for chunks.
    pub fn come(&mut self, coming: Coming) -> Result<Undo> {
        self.read = None;
        let Coming { pieces, codes, keys } = coming;
        let mut undo = Undo { came: self.next..self.next, ..Undo::nothing() };
        let mut codes = codes.into_iter();
        self.keys_taken.add(keys);
        for (data, rows) in pieces {
            let number = self.next;
            self.next =
                number.checked_add(1).ok_or_else(|| Error::internal("a temporary table has too many chunks"))?;
            self.chunks.push(Chunk { number, rows, data, dead: None });
            undo.came.end = self.next;
            for (row, code) in (0..rows as u32).zip(codes.by_ref()) {
                if let Some(gone) = self.keys.insert(code, Place { chunk: number, row }) {
                    self.kill(gone, &mut undo);
                    undo.codes.push(code);
                }
            }
        }
        Ok(self.counted(undo))
    }

    /// The rows with these keys go, if there are such.
    pub fn delete(&mut self, codes: &[KeyCode]) -> Undo {
        self.read = None;
        let mut undo = Undo::nothing();
        for code in codes {
            if let Some(gone) = self.keys.remove(code) {
                self.kill(gone, &mut undo);
                undo.codes.push(*code);
            }
        }
        self.counted(undo)
    }

    /// The rows go that a batch tells by version and ordinal, of a table without a key.
    ///
    /// # Errors
    /// `Internal` for rows that are told by what no row has.
    pub fn delete_rows(&mut self, rows: &RecordBatch) -> Result<Undo> {
        self.read = None;
        let mut undo = Undo::nothing();
        for (version, ordinal) in identities_of(rows)? {
            let place = Place::of_ordinal(ordinal);
            let is_there = version == TEMPORARY_VERSION && self.chunk(place).is_some();
            if !is_there {
                return Err(Error::internal("a row of a temporary table that goes is not among its rows"));
            }
            self.kill(place, &mut undo);
        }
        Ok(self.counted(undo))
    }

    /// All rows go.
    pub fn clear(&mut self) -> Undo {
        self.read = None;
        let cleared = Cleared {
            chunks: std::mem::take(&mut self.chunks),
            keys: std::mem::take(&mut self.keys),
            keys_taken: std::mem::replace(&mut self.keys_taken, Taken::nothing(&self.memory)),
        };
        Undo { cleared: Some(Box::new(cleared)), ..Undo::nothing() }
    }

    fn chunk(&mut self, place: Place) -> Option<&mut Chunk> {
        let at = self.chunks.binary_search_by_key(&place.chunk, |chunk| chunk.number).ok()?;
        self.chunks.get_mut(at).filter(|chunk| (place.row as usize) < chunk.rows)
    }

    fn kill(&mut self, place: Place, undo: &mut Undo) {
        if self.chunk(place).is_some_and(|chunk| chunk.kill(place.row)) {
            undo.killed.push(place);
        }
    }

    /// What it takes to take it back counts as long as it is kept.
    fn counted(&self, mut undo: Undo) -> Undo {
        let bytes = undo.killed.len() * size_of::<Place>() + undo.codes.len() * size_of::<KeyCode>();
        if bytes > 0 {
            undo._taken = Some(self.memory.take(bytes as u64));
        }
        undo
    }

    /// Takes back the last change that is left. Keys are right once [`TemporaryRows::settle`] has been called.
    pub fn take_back(&mut self, undo: Undo) {
        self.read = None;
        if let Some(cleared) = undo.cleared {
            let Cleared { chunks, keys, keys_taken } = *cleared;
            (self.chunks, self.keys, self.keys_taken) = (chunks, keys, keys_taken);
            return;
        }
        for (at, place) in undo.killed.iter().enumerate().rev() {
            if let Some(chunk) = self.chunk(*place) {
                chunk.revive(place.row);
            }
            if let Some(code) = undo.codes.get(at) {
                self.keys.insert(*code, *place);
            }
        }
        if !undo.came.is_empty() {
            let first = undo.came.start;
            let kept = self.chunks.partition_point(|chunk| chunk.number < first);
            self.chunks.truncate(kept);
            self.taken_back = Some(self.taken_back.map_or(first, |known| known.min(first)));
        }
    }

    /// Forgets the keys of what was taken back.
    pub fn settle(&mut self) {
        if let Some(first) = self.taken_back.take() {
            self.keys.retain(|_, place| place.chunk < first);
        }
        self.keys_taken.shrink_to(keys_bytes(self.keys.len()));
    }

    /// Joins small chunks, and lets dead rows go. Rows have other places then: it is for when nobody will take back
    /// anything, nor tells rows by their places.
    ///
    /// # Errors
    /// Those of [`KeyCoder::codes`].
    pub fn fold(&mut self) -> Result<()> {
        if self.chunks.iter().any(|chunk| chunk.live() == 0) {
            self.read = None;
            self.chunks.retain(|chunk| chunk.live() > 0);
        }
        let mut at = 0;
        while at < self.chunks.len() {
            let small = self.small_from(at);
            if small.len() >= SMALL_CHUNKS || self.is_mostly_dead(at) {
                self.join(at..small.end.max(at + 1))?;
                at += 1;
            } else {
                at = small.end.max(at + 1);
            }
        }
        self.keys_taken.shrink_to(keys_bytes(self.keys.len()));
        Ok(())
    }

    /// Small neighbours from here on that may be joined.
    fn small_from(&self, at: usize) -> Range<usize> {
        let Some(first) = self.in_memory(at) else { return at..at };
        let (mut end, mut rows) = (at, 0);
        while let Some(data) = self.in_memory(end)
            && self.chunks[end].rows < SMALL_ROWS
            && rows + self.chunks[end].live() <= JOINED_ROWS
            && data.batch.schema_ref() == first.batch.schema_ref()
        {
            rows += self.chunks[end].live();
            end += 1;
        }
        at..end
    }

    fn in_memory(&self, at: usize) -> Option<&Arc<InMemory>> {
        match &self.chunks.get(at)?.data {
            Data::Memory(data) => Some(data),
            Data::File(..) => None,
        }
    }

    fn is_mostly_dead(&self, at: usize) -> bool {
        self.in_memory(at).is_some() && self.chunks[at].live() * 2 < self.chunks[at].rows
    }

    /// Makes one chunk of several in memory.
    fn join(&mut self, chunks: Range<usize>) -> Result<()> {
        let number = self.chunks[chunks.start].number;
        let live = |at: usize| self.in_memory(at).map(|data| self.chunks[at].live_rows(&data.batch));
        let batches = chunks.clone().filter_map(live).collect::<Result<Vec<_>>>()?;
        let Some(first) = batches.first() else { return Ok(()) };
        let batch = concat_batches(&first.schema(), &batches).map_err(misfit)?;
        let codes = self.coder.as_ref().map(|coder| coder.codes(&batch)).transpose()?.unwrap_or_default();
        self.read = None;
        for (row, code) in (0..).zip(codes) {
            self.keys.insert(code, Place { chunk: number, row });
        }
        let (rows, taken) = (batch.num_rows(), self.memory.take(batch.get_array_memory_size() as u64));
        let data = Data::Memory(Arc::new(InMemory { batch, taken }));
        self.chunks.splice(chunks, [Chunk { number, rows, data, dead: None }]);
        Ok(())
    }

    /// The rows in memory that could lie in files.
    pub fn spilling(&self) -> Spilling {
        let chunks = self.chunks.iter().filter_map(|chunk| match &chunk.data {
            Data::Memory(data) => Some((chunk.number, Arc::clone(data))),
            Data::File(..) => None,
        });
        Spilling { chunks: chunks.collect() }
    }

    /// They lie there now, as far as they are still among the rows.
    pub fn spilled(&mut self, spilled: Spilled) {
        self.read = None;
        for (number, data, file) in spilled.moved {
            if let Some(chunk) = self.chunk(Place { chunk: number, row: 0 })
                && matches!(&chunk.data, Data::Memory(known) if Arc::ptr_eq(known, &data))
            {
                chunk.data = file;
            }
        }
    }
}
