//! The members of one level.
//!
//! Invariants:
//! - A member is (parent's code, own value); its code is its place, given once, never changed, never given to another.
//! - A member that is [forgotten](Level::forget) keeps its place, without a value: nothing finds it, and its value gets a new code
//!   where it comes again.
//! - Code 0 is NULL, under whatever parent; it is not in the index.
//! - New members get codes in the order in which they are asked for, so one order of calls gives one set of codes.
//!
//! Look-ups of a whole batch share a read lock; the write lock is taken only for the members that were not found, which
//! soon are few. The index holds 32 bits of each hash, so that a look-up reads one place of the index and one member,
//! and growing it reads no member at all.

use super::bounds::LevelBounds;
use super::by_value::ByValue;
use super::code_set::CodeSet;
use super::value::{Distinct, Shape, Value, Values, mix};
use alluvia_space::DataType;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef};
use hashbrown::HashTable;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// Members that are looked up together.
const TOGETHER: usize = 256;

/// Members that are hashed before others may add more.
const HASHED_AT_ONCE: usize = 1 << 16;

/// A level whose members are kept, shared by all that remap or read.
#[derive(Debug)]
pub(crate) struct Level {
    /// `dimension.level`, for messages.
    name: String,
    data_type: DataType,
    bounds: LevelBounds,
    members: RwLock<Members>,
    array: Mutex<Option<ArrayRef>>,
    by_value: Mutex<ByValue>,
    firsts: Mutex<Arc<[u32]>>,
    /// Members that were asked for since somebody began to watch.
    asked: Mutex<Option<CodeSet>>,
}

/// What [`Level`] guards.
#[derive(Debug)]
pub(crate) struct Members {
    parents: Vec<u32>,
    values: Values,
    index: HashTable<Slot>,
    /// Those without a value.
    forgotten: CodeSet,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    code: u32,
}

/// What the index knows a member by.
fn member_hash(value: u64, parent: u32) -> u32 {
    (mix(value, u64::from(parent) << 1 | 1) >> 32) as u32
}

/// A table index wants 64 good bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Level {
    pub(crate) fn new(name: String, data_type: DataType) -> Level {
        Level {
            name,
            data_type,
            bounds: LevelBounds::default(),
            members: RwLock::new(Members::new(Shape::of(data_type))),
            array: Mutex::default(),
            by_value: Mutex::default(),
            firsts: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    pub(crate) fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Sets the bounds, before anybody else has the level.
    pub(crate) fn set_bounds(&mut self, bounds: LevelBounds) {
        self.bounds = bounds;
        if self.is_near_full() {
            self.bounds.set_near();
        }
    }

    /// Whether what waits for a sort may be more than fits.
    pub(crate) fn is_near_full(&self) -> bool {
        self.read(|members| self.bounds.is_near(members.values.bytes_len(), members.parents.len()))
    }

    /// Codes given out, with NULL's.
    pub(crate) fn len(&self) -> u32 {
        self.members.read().parents.len() as u32
    }

    pub(crate) fn parent(&self, code: u32) -> u32 {
        self.members.read().parents[code as usize]
    }

    /// Lets `read` look at all members; nobody can add any meanwhile.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Members) -> T) -> T {
        read(&self.members.read())
    }

    /// Indexes all members anew; after they came from a file.
    pub(crate) fn index_all(&self) {
        self.members.write().index_all();
    }

    /// For filling the level from its file, before anybody else has it.
    pub(crate) fn members_mut(&mut self) -> &mut Members {
        self.members.get_mut()
    }

    /// Codes of (parent's code, local id of the value from 1 on); new members get the next ones. Place 0 of the result
    /// is NULL's code, so that local ids of members index it. New members leave room for as many bytes as `waiting` tells.
    pub(crate) fn resolve(
        &self,
        members: &[(u32, u32)],
        distinct: &Distinct<'_>,
        waiting: Option<&dyn Fn() -> u64>,
    ) -> Result<Vec<u32>> {
        match distinct {
            Distinct::Bytes(values) => self.resolve_values(members, values, waiting),
            Distinct::Words(values) => self.resolve_values(members, values, waiting),
            Distinct::Wide(values) => self.resolve_values(members, values, waiting),
        }
    }

    fn resolve_values<V: Value>(
        &self,
        members: &[(u32, u32)],
        values: &[V],
        waiting: Option<&dyn Fn() -> u64>,
    ) -> Result<Vec<u32>> {
        let hashes: Vec<u64> = values.iter().map(|value| value.hash()).collect();
        let wanted = |&(parent, value): &(u32, u32)| {
            let at = value as usize - 1;
            (member_hash(hashes[at], parent), parent, values[at])
        };
        let mut codes = Vec::with_capacity(members.len() + 1);
        codes.push(0);
        let mut missing: Vec<u32> = Vec::new();
        {
            let known = self.members.read();
            // First all look-ups in the index, then all in the members: each of the two loops waits for many places of
            // memory at once, where one loop would wait for them one after the other.
            for chunk in members.chunks(TOGETHER) {
                let first = codes.len();
                codes.extend(chunk.iter().map(|member| known.candidate(wanted(member).0)));
                for (at, member) in (first..).zip(chunk) {
                    let (hash, parent, value) = wanted(member);
                    if codes[at] != 0 && !known.is(codes[at], parent, value) {
                        codes[at] = known.find(hash, parent, value).unwrap_or(0);
                    }
                    if codes[at] == 0 {
                        missing.push(at as u32 - 1);
                    }
                }
            }
            self.note_asked(&codes);
        }
        if missing.is_empty() {
            return Ok(codes);
        }
        let mut known = self.members.write();
        known.reserve(missing.len());
        let more = missing.iter().map(|&at| wanted(&members[at as usize]).2.bytes()).sum();
        let limits = self.limits(&known, more, missing.len(), waiting);
        for at in missing {
            let (hash, parent, value) = wanted(&members[at as usize]);
            // Another batch may have brought it since, or an equal value under another local id.
            codes[at as usize + 1] = match known.find(hash, parent, value) {
                Some(code) => code,
                None => {
                    self.check_room(&known, value.bytes(), limits)?;
                    known.insert(hash, parent, value)
                }
            };
        }
        self.note_asked(&codes);
        Ok(codes)
    }

    /// Notes members that somebody has the codes of from now on. Called under the members' lock, so that none of them is forgotten
    /// before.
    fn note_asked(&self, codes: &[u32]) {
        if let Some(asked) = self.asked.lock().as_mut() {
            codes.iter().for_each(|&code| asked.insert(code));
        }
    }

    /// From now on notes which members are asked for, or no longer.
    pub(crate) fn watch(&self, is_watched: bool) {
        *self.asked.lock() = is_watched.then(CodeSet::default);
    }

    /// The members that were asked for since they are watched.
    pub(crate) fn asked(&self) -> CodeSet {
        self.asked.lock().clone().unwrap_or_default()
    }

    /// Takes the values of all members that are neither in `used` nor were asked for since the level is watched. Returns how many
    /// there were.
    pub(crate) fn forget(&self, used: &CodeSet) -> u64 {
        let mut by_value = self.by_value.lock();
        let mut members = self.members.write();
        let asked = self.asked();
        let is_kept = |code: u32| used.contains(code) || asked.contains(code) || members.forgotten.contains(code);
        let gone: Vec<u32> = (1..members.parents.len() as u32).filter(|&code| !is_kept(code)).collect();
        if gone.is_empty() {
            return 0;
        }
        members.forget(&gone);
        members.index_all();
        *by_value = ByValue::default();
        *self.array.lock() = None;
        *self.firsts.lock() = Arc::default();
        gone.len() as u64
    }

    /// Bytes and codes that the level may have once members of so many are added to it.
    fn limits(
        &self,
        members: &Members,
        bytes: usize,
        codes: usize,
        waiting: Option<&dyn Fn() -> u64>,
    ) -> (usize, usize) {
        if !self.bounds.is_near(members.values.bytes_len() + bytes, members.parents.len() + codes) {
            return self.bounds.leaving(0);
        }
        // First: who does not see this is waiting already.
        self.bounds.set_near();
        self.bounds.leaving(waiting.map_or(0, |waiting| waiting()))
    }

    fn check_room(&self, members: &Members, bytes: usize, (bytes_max, codes_max): (usize, usize)) -> Result<()> {
        let what = if members.parents.len() >= codes_max {
            "as many members as a level can have".to_owned()
        } else if members.values.bytes_len() + bytes > bytes_max {
            let count = members.parents.len() - 1;
            format!("{count} members, whose names would take more than 2 GiB with what waits to be sorted")
        } else {
            return Ok(());
        };
        let column = self.name.rsplit('.').next().unwrap_or_default();
        Err(Error::new(ErrorKind::NotSupported, format!("level {} has {what}", self.name)).with_hint(format!(
            "create the table anew with a hashed dimension for this column, as in 'id({column}: hash 12)'"
        )))
    }

    /// All members' own values in code order, NULL first. The same array until there are new members.
    pub(crate) fn array(&self) -> Result<ArrayRef> {
        let members = self.members.read();
        let mut cached = self.array.lock();
        if let Some(array) = cached.as_ref()
            && array.len() == members.parents.len()
        {
            return Ok(array.clone());
        }
        let array = members.values.to_array(self.data_type)?;
        *cached = Some(array.clone());
        Ok(array)
    }

    /// For each code the least code of the same value; the same array until there are new members.
    pub(crate) fn first_codes(&self) -> Arc<[u32]> {
        let mut by_value = self.by_value.lock();
        // Not all at once: whoever has new members waits for those that read.
        while by_value.firsts().len() < self.len() as usize {
            let members = self.members.read();
            by_value.extend(&members.values, &members.forgotten, HASHED_AT_ONCE);
        }
        let mut cached = self.firsts.lock();
        if cached.len() != by_value.firsts().len() {
            *cached = by_value.firsts().into();
        }
        Arc::clone(&cached)
    }

    /// The member of this value under this parent.
    pub(crate) fn find(&self, parent: u32, value: &Distinct<'_>) -> Option<u32> {
        let members = self.members.read();
        let find = |hash| member_hash(hash, parent);
        match value {
            Distinct::Bytes(values) => members.find(find(values[0].hash()), parent, values[0]),
            Distinct::Words(values) => members.find(find(values[0].hash()), parent, values[0]),
            Distinct::Wide(values) => members.find(find(values[0].hash()), parent, values[0]),
        }
    }

    /// Calls `each` with the place of a value and the code of every member that has it, under whatever parent, by place.
    /// `first`: the level is its dimension's first, so that its members have no parents.
    pub(crate) fn with_values(&self, distinct: &Distinct<'_>, first: bool, each: impl FnMut(usize, u32)) {
        match distinct {
            Distinct::Bytes(values) => self.each_code(values, first, each),
            Distinct::Words(values) => self.each_code(values, first, each),
            Distinct::Wide(values) => self.each_code(values, first, each),
        }
    }

    fn each_code<V: Value>(&self, values: &[V], first: bool, mut each: impl FnMut(usize, u32)) {
        if !first {
            // Always in this order: the members' lock inside the index's.
            let mut by_value = self.by_value.lock();
            let members = self.members.read();
            by_value.extend(&members.values, &members.forgotten, usize::MAX);
            by_value.each(&members.values, values, each);
            return;
        }
        let members = self.members.read();
        let mut found: Vec<(u32, u32)> = Vec::with_capacity(TOGETHER);
        // In two loops, as where members get their codes.
        for (chunk, values) in values.chunks(TOGETHER).enumerate() {
            found.clear();
            found.extend(values.iter().map(|value| {
                let hash = member_hash(value.hash(), 0);
                (hash, members.candidate(hash))
            }));
            for (at, (value, &(hash, candidate))) in values.iter().zip(&found).enumerate() {
                let code = match candidate {
                    0 => None,
                    code if members.is(code, 0, *value) => Some(code),
                    _ => members.find(hash, 0, *value),
                };
                if let Some(code) = code {
                    each(TOGETHER * chunk + at, code);
                }
            }
        }
    }
}

impl Members {
    fn new(shape: Shape) -> Members {
        Members { parents: vec![0], values: shape.empty(), index: HashTable::new(), forgotten: CodeSet::default() }
    }

    pub(crate) fn parents(&self) -> &[u32] {
        &self.parents
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }

    /// Members without a value.
    pub(crate) fn forgotten(&self) -> &CodeSet {
        &self.forgotten
    }

    /// Takes the values of members.
    pub(crate) fn forget(&mut self, codes: &[u32]) {
        codes.iter().for_each(|&code| self.forgotten.insert(code));
        self.values = self.values.without(&self.forgotten);
    }

    /// To append to, from a file; [`Level::index_all`] afterwards.
    pub(crate) fn parts_mut(&mut self) -> (&mut Vec<u32>, &mut Values) {
        (&mut self.parents, &mut self.values)
    }

    /// A member that has this hash, if any has; most often the only one.
    fn candidate(&self, hash: u32) -> u32 {
        self.index.find(spread(hash), |slot| slot.hash == hash).map_or(0, |slot| slot.code)
    }

    fn is<V: Value>(&self, code: u32, parent: u32, value: V) -> bool {
        self.parents[code as usize] == parent && value.is_at(&self.values, code)
    }

    fn find<V: Value>(&self, hash: u32, parent: u32, value: V) -> Option<u32> {
        let is = |slot: &Slot| slot.hash == hash && self.is(slot.code, parent, value);
        self.index.find(spread(hash), is).map(|slot| slot.code)
    }

    fn reserve(&mut self, more: usize) {
        self.parents.reserve(more);
        self.index.reserve(more, |slot| spread(slot.hash));
    }

    fn insert<V: Value>(&mut self, hash: u32, parent: u32, value: V) -> u32 {
        let code = self.parents.len() as u32;
        self.parents.push(parent);
        value.push(&mut self.values);
        self.index.insert_unique(spread(hash), Slot { hash, code }, |slot| spread(slot.hash));
        code
    }

    fn index_all(&mut self) {
        assert_eq!(self.parents.len(), self.values.len(), "a parent and a value for every member");
        self.index = HashTable::with_capacity(self.parents.len());
        for code in (1..self.parents.len() as u32).filter(|&code| !self.forgotten.contains(code)) {
            let hash = member_hash(self.values.hash_at(code), self.parents[code as usize]);
            self.index.insert_unique(spread(hash), Slot { hash, code }, |slot| spread(slot.hash));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 600,000 hashes of 32 bits have some forty pairs that are equal, so every way through a look-up is taken.
    #[test]
    fn members_whose_hashes_collide_are_told_apart() {
        let level = Level::new("d.l".into(), DataType::Int64);
        let values: Vec<u64> = (0..600_000u64).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let members: Vec<(u32, u32)> = (1..=values.len() as u32).map(|value| (value % 7, value)).collect();
        let distinct = Distinct::Words(values);
        let expected: Vec<u32> = (0..=members.len() as u32).collect();
        for _ in 0..2 {
            assert_eq!(level.resolve(&members, &distinct, None).unwrap(), expected);
        }
        let mut hashes: Vec<u32> = level.read(|members| members.index.iter().map(|slot| slot.hash).collect());
        hashes.sort_unstable();
        assert!(hashes.windows(2).any(|pair| pair[0] == pair[1]), "the test meets collisions");
        let mut all = Vec::new();
        level.with_values(&distinct, false, |place, code| all.push((place as u32 + 1, code)));
        assert_eq!(all, expected[1..].iter().map(|&code| (code, code)).collect::<Vec<_>>());
    }

    /// Names that come under several parents, in steps; what is asked for by value in between makes no difference.
    #[test]
    fn first_codes_are_those_of_the_first_members_of_a_name() {
        let level = Level::new("d.l".into(), DataType::Int64);
        let (mut names, mut state) = (vec![u64::MAX], 3u64);
        let mut last: Arc<[u32]> = Arc::default();
        for step in 0..40 {
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let count = if step == 20 { HASHED_AT_ONCE as u64 + 5 } else { random(30) };
            let wanted: Vec<(u32, u64)> = (0..count).map(|_| (random(4) as u32, random(50 + 1_000 * step))).collect();
            let members: Vec<(u32, u32)> = (1..).zip(&wanted).map(|(at, &(parent, _))| (parent, at)).collect();
            let distinct = Distinct::Words(wanted.iter().map(|&(_, name)| name).collect());
            let codes = level.resolve(&members, &distinct, None).unwrap();
            for (&code, &(_, name)) in codes[1..].iter().zip(&wanted) {
                names.resize(names.len().max(code as usize + 1), name);
                assert_eq!(names[code as usize], name);
            }
            if random(3) == 0 {
                level.with_values(&distinct, false, |_, _| {});
            }
            let mut firsts = std::collections::HashMap::new();
            let expected: Vec<u32> =
                (0..).zip(&names).map(|(code, name)| *firsts.entry(name).or_insert(code)).collect();
            let found = level.first_codes();
            assert_eq!(*found, *expected);
            assert!(found.len() != last.len() || Arc::ptr_eq(&found, &last), "the same while nothing is new");
            last = found;
        }
    }

    #[test]
    fn a_level_that_is_full_says_so() {
        let level = Level::new("d.city".into(), DataType::Text);
        let error = level.read(|members| level.check_room(members, 1, (0, 9))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(
            error.message().contains("d.city") && error.hint().is_some_and(|hint| hint.contains("id(city: hash 12)"))
        );
    }

    /// What is added to a level that may not be able to take all that waits leaves room for that; what waited takes it.
    #[test]
    fn a_level_that_is_near_full_keeps_room_for_what_waits() {
        let mut level = Level::new("d.city".into(), DataType::Text);
        let bounds = LevelBounds::new(100, 40);
        level.set_bounds(bounds.clone());
        let add = |at: u8, waiting: Option<&dyn Fn() -> u64>| {
            let name = [b'a' + at; 10];
            level.resolve(&[(0, 1)], &Distinct::Bytes(vec![name.as_slice()]), waiting).map(|codes| codes[1])
        };
        let uncounted = || -> u64 { panic!("what waits fits, whatever it is") };
        for at in 0..6 {
            assert_eq!(add(at, Some(&uncounted)).unwrap(), u32::from(at) + 1);
        }
        assert!(!level.is_near_full() && !bounds.is_any_near(), "60 bytes and 40 that may wait");
        let waiting = || {
            assert!(bounds.is_any_near(), "who is let in from now on must see it");
            15
        };
        for at in 6..8 {
            add(at, Some(&waiting)).unwrap();
        }
        assert!(level.is_near_full());
        assert_eq!(add(8, Some(&waiting)).unwrap_err().kind(), ErrorKind::NotSupported, "90 bytes and 15 that wait");
        assert_eq!(add(3, Some(&waiting)).unwrap(), 4, "who is a member stays one");
        add(8, None).unwrap();
        add(9, None).unwrap();
        assert!(add(10, None).is_err(), "and all of it is bounded");
    }
}
