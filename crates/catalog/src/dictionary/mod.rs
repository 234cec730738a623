//! A table's dictionaries: from values to codes and back.
//!
//! Invariants:
//! - A member of a level is (code of its parent, own value); its code never changes, and is never given to another. A member that
//!   nothing has any more, nor its name, may be [forgotten](Watched::forget_unused): then its code is of nothing, for ever.
//! - Code 0 is NULL at every level, under whatever parent.
//! - A parent has its code before its child, in memory and in the file.
//! - Codes follow from the order of [`Dictionaries::remap`] calls alone, and of those of its like.
//!
//! Remapping is LazyBase's ID remapping (Cipar et al., EuroSys 2012, section 3): a batch is first brought to its own small
//! numbers, without a lock ([`local`], [`path`]); only its distinct members are looked up among all ([`level`]); then each
//! row's code is one array access. What grows is made durable by [`Dictionaries::persist`] ([`file`], [`group`]) before
//! anything durable names a new code.
//!
//! Only levels made of a column have members here. Codes of calendars, halved numbers and hashed ids are arithmetic
//! (`alluvia_space::codes`).

mod bounds;
mod by_value;
mod code_set;
mod file;
mod group;
mod level;
mod local;
mod path;
mod value;

pub use bounds::LevelBounds;
pub use code_set::CodeSet;
pub use file::DictionaryMark;

use alluvia_space::codes::{arithmetic, is_arithmetic};
use alluvia_space::{Dimension, LevelCodes, LevelSource, TableDef};
use alluvia_storage::Disk;
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use file::DictionaryFile;
use level::Level;
use local::{Local, local_ids, prepare, prepare_exact};
use parking_lot::Mutex;
use path::combine;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The dictionaries of one table, shared by all that write or read it.
///
/// Levels are numbered as [`TableDef::levels`] lists them.
pub struct Dictionaries {
    /// Which dimension each level is of.
    dimensions: Vec<usize>,
    /// `None` for an arithmetic level.
    levels: Vec<Option<Level>>,
    file: Mutex<DictionaryFile>,
}

impl fmt::Debug for Dictionaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<u32> = (0..self.levels.len()).map(|level| self.len(level)).collect();
        f.debug_struct("Dictionaries").field("members", &members).field("file", &*self.file.lock()).finish()
    }
}

impl Dictionaries {
    /// Empty dictionaries for a table. The file at `path` is made when there is something to persist; whatever an
    /// unfinished earlier life of the table left there is worthless then.
    pub fn create(disk: Arc<dyn Disk>, path: PathBuf, table: &TableDef) -> Result<Dictionaries> {
        let (dimensions, levels) = empty_levels(table)?;
        let file = Mutex::new(DictionaryFile::new(disk, path, table.id, &levels));
        Ok(Dictionaries { dimensions, levels, file })
    }

    /// The dictionaries as of `through`, which the caller found in something durable. Cuts the file off there.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        table: &TableDef,
        through: &DictionaryMark,
    ) -> Result<Dictionaries> {
        Dictionaries::open_with(disk, path, table, through, true)
    }

    /// The same, to be asked and not added to: the file stays as it is, since something else may need what lies beyond.
    pub fn open_to_read(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        table: &TableDef,
        through: &DictionaryMark,
    ) -> Result<Dictionaries> {
        Dictionaries::open_with(disk, path, table, through, false)
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        table: &TableDef,
        through: &DictionaryMark,
        is_cut: bool,
    ) -> Result<Dictionaries> {
        let (dimensions, mut levels) = empty_levels(table)?;
        let file = DictionaryFile::open(disk, path.clone(), table.id, &mut levels, through, is_cut)?;
        let dictionaries = Dictionaries { dimensions, levels, file: Mutex::new(file) };
        dictionaries.check_parents(&path)?;
        for level in dictionaries.levels.iter().flatten() {
            level.index_all();
        }
        Ok(dictionaries)
    }

    /// The same dictionaries under the bounds of a database, before anybody else has them.
    pub fn within(mut self, bounds: &LevelBounds) -> Dictionaries {
        self.levels.iter_mut().flatten().for_each(|level| level.set_bounds(bounds.clone()));
        self
    }

    /// Whether some level may not have room for all that may wait to be sorted: new members must be [admitted](Self::admit) before
    /// their rows are acknowledged.
    pub fn is_near_full(&self) -> bool {
        self.levels.iter().flatten().any(Level::is_near_full)
    }

    /// The codes of a batch's rows at every level; new members get codes. The rows were acknowledged: they have room.
    ///
    /// `rows` has the table's columns by storage name; text and binary may be dictionary-encoded, which is fastest. Ranges
    /// of halved dimensions must be fixed in `table`, which may be any definition of the table these dictionaries are of.
    pub fn remap(&self, table: &TableDef, rows: &RecordBatch) -> Result<LevelCodes> {
        self.codes(table, rows, |_| true, None)
    }

    /// As [`Self::remap`], of rows that are not acknowledged yet: their new members leave room for what is, of which `waiting` tells the
    /// bytes. `NotSupported` where they cannot.
    pub fn remap_leaving(&self, table: &TableDef, rows: &RecordBatch, waiting: &dyn Fn() -> u64) -> Result<LevelCodes> {
        self.codes(table, rows, |_| true, Some(waiting))
    }

    /// Gives the members of rows their codes, so that a sort has nothing to add once the rows are acknowledged. Errors as
    /// [`Self::remap_leaving`].
    pub fn admit(&self, table: &TableDef, rows: &RecordBatch, waiting: &dyn Fn() -> u64) -> Result<()> {
        self.codes(table, rows, |dimension| !is_arithmetic(dimension), Some(waiting)).map(drop)
    }

    /// As [`Self::remap`], of some dimensions only: the levels of the others have no codes.
    pub fn remap_dimensions(
        &self,
        table: &TableDef,
        rows: &RecordBatch,
        wanted: impl Fn(&Dimension) -> bool,
    ) -> Result<LevelCodes> {
        self.codes(table, rows, wanted, None)
    }

    fn codes(
        &self,
        table: &TableDef,
        rows: &RecordBatch,
        wanted: impl Fn(&Dimension) -> bool,
        waiting: Option<&dyn Fn() -> u64>,
    ) -> Result<LevelCodes> {
        assert_eq!(self.levels.len(), table.levels().count(), "dictionaries are used with their table");
        let mut levels: Vec<Vec<u32>> = Vec::with_capacity(self.levels.len());
        for dimension in &table.dimensions {
            if !wanted(dimension) {
                levels.resize(levels.len() + dimension.levels.len(), Vec::new());
                continue;
            }
            if is_arithmetic(dimension) {
                let column = column(table, rows, dimension.levels[0].source.column())?;
                levels.extend(arithmetic(dimension, column.as_ref())?);
                continue;
            }
            // The rows' local ids of members of the level before, and those members' codes.
            let mut parent: Option<(Vec<u32>, Vec<u32>)> = None;
            for level in &dimension.levels {
                let members = self.level(levels.len());
                let array = column(table, rows, level.source.column())?;
                let array = prepare(array, members.data_type())?;
                let Local { mut ids, distinct } = local_ids(&array, members.data_type());
                let pairs: Vec<(u32, u32)> = match &parent {
                    None => (1..=distinct.len() as u32).map(|value| (0, value)).collect(),
                    Some((parents, codes)) => {
                        let mut pairs = combine(&mut ids, distinct.len(), parents, codes.len());
                        pairs.iter_mut().for_each(|(parent, _)| *parent = codes[*parent as usize]);
                        pairs
                    }
                };
                let codes = members.resolve(&pairs, &distinct, waiting)?;
                levels.push(ids.iter().map(|&id| codes[id as usize]).collect());
                parent = Some((ids, codes));
            }
        }
        Ok(LevelCodes { levels })
    }

    /// Makes every code durable that `remap` has returned so far; what is durable already costs nothing. The mark goes
    /// into whatever names those codes. After `Poisoned` it may be called again only on a reopened file, after any other error at once.
    pub fn persist(&self) -> Result<DictionaryMark> {
        self.file.lock().persist(&self.levels)
    }

    /// From now on, until the result is dropped, members that are asked for are not forgotten.
    pub fn watch(&self) -> Watched<'_> {
        self.levels.iter().flatten().for_each(|level| level.watch(true));
        Watched(self)
    }

    /// Codes of members that were forgotten, of one level.
    pub fn forgotten(&self, level: usize) -> CodeSet {
        self.levels[level].as_ref().map_or_else(CodeSet::default, |level| level.read(|known| known.forgotten().clone()))
    }

    /// Adds the members that those of `used` are under, by level.
    fn with_ancestors(&self, used: &mut [CodeSet]) {
        for at in (1..self.levels.len()).rev().filter(|&at| !self.is_first(at)) {
            let Some(level) = &self.levels[at] else { continue };
            for code in used[at].iter().filter(|code| *code > 0).collect::<Vec<u32>>() {
                used[at - 1].insert(level.parent(code));
            }
        }
    }

    /// Forgets members in memory; the file follows when it is next persisted.
    fn forget_in(&self, used: &[CodeSet], file: &mut DictionaryFile) -> u64 {
        let levels = self.levels.iter().zip(used).enumerate();
        let forget = |(at, (level, used)): (usize, (&Option<Level>, &CodeSet))| {
            level.as_ref().map_or(0, |level| level.forget(used, self.is_first(at)))
        };
        let gone: u64 = levels.map(forget).sum();
        if gone > 0 {
            file.set_to_rewrite();
        }
        gone
    }

    /// Whether the level has members here; if not, its codes are arithmetic.
    pub fn has_members(&self, level: usize) -> bool {
        self.levels[level].is_some()
    }

    /// Codes given out at a level, NULL's included: codes are below this. 0 for an arithmetic level.
    pub fn len(&self, level: usize) -> u32 {
        self.levels[level].as_ref().map_or(0, Level::len)
    }

    /// Whether the level has no members besides NULL.
    pub fn is_empty(&self, level: usize) -> bool {
        self.len(level) <= 1
    }

    /// The own values of all members of a level in code order, in place 0 NULL. Text comes as `Utf8` and binary as
    /// `Binary`, ready to be the values of an Arrow dictionary whose keys are codes; other columns in their storage type. The
    /// same array (the same `Arc`) comes until there are new members. For levels that [have members](Self::has_members).
    pub fn value_array(&self, level: usize) -> Result<ArrayRef> {
        self.level(level).array()
    }

    /// For each code of a level the least code of the same own value, whatever their parents are; `None` of a dimension's first level,
    /// where no two members have the same. At least as long as any array that [`Self::value_array`] gave before. For levels that
    /// [have members](Self::has_members).
    pub fn first_codes(&self, level: usize) -> Option<Arc<[u32]>> {
        let is_first = level == 0 || self.dimensions[level - 1] != self.dimensions[level];
        (!is_first).then(|| self.level(level).first_codes())
    }

    /// The code of a member's parent, one level up in its dimension; 0 at the first level. For levels that
    /// [have members](Self::has_members) and codes that exist.
    pub fn parent(&self, level: usize, code: u32) -> u32 {
        self.level(level).parent(code)
    }

    /// The code that a member has at its level or a coarser one of its dimension. `None` where the way up meets NULL before: NULL is under
    /// whatever parent. For levels and codes as [`Self::parent`].
    pub fn ancestor(&self, level: usize, coarser: usize, code: u32) -> Option<u32> {
        let up = |code: u32, level: usize| (code > 0).then(|| self.parent(level, code));
        (coarser + 1..=level).rev().try_fold(code, up)
    }

    /// The code of the member with this path: one value for each level of the dimension from the first to this one, each
    /// the only row of an array whose type casts to the column's. `None` when there is no such member; an error as for
    /// [`Self::codes_with_value`].
    pub fn find(&self, level: usize, path: &[ArrayRef]) -> Result<Option<u32>> {
        let dimension = self.dimensions[level];
        let first = self.dimensions.iter().position(|&other| other == dimension).unwrap_or(level);
        assert_eq!(path.len(), level + 1 - first, "a path has a value for each level");
        let mut code = 0;
        for (level, value) in (first..).zip(path) {
            assert_eq!(value.len(), 1, "a path has one value for each level");
            let members = self.level(level);
            let value = prepare_exact(value, members.data_type())?;
            let local = local_ids(&value, members.data_type());
            code = match local.ids[0] {
                0 => 0,
                _ => match members.find(code, &local.distinct) {
                    Some(code) => code,
                    None => return Ok(None),
                },
            };
        }
        Ok(Some(code))
    }

    /// Codes, ascending, of all members of a level whose own value is a row of `values`, under whatever parent: what
    /// `column IN (...)` can match, and `column IS NULL` where a row is NULL. The array's type must cast to the column's
    /// and back without changing a value; `DatatypeMismatch` otherwise, which for a predicate means that codes say nothing.
    pub fn codes_with_value(&self, level: usize, values: &ArrayRef) -> Result<Vec<u32>> {
        let members = self.level(level);
        let values = prepare_exact(values, members.data_type())?;
        let local = local_ids(&values, members.data_type());
        let mut codes = Vec::new();
        members.with_values(&local.distinct, self.is_first(level), |_, code| codes.push(code));
        if local.ids.contains(&0) {
            codes.push(0);
        }
        codes.sort_unstable();
        codes.dedup();
        Ok(codes)
    }

    /// The members of a level, under whatever parent, that each row's value is the own value of: pairs of row and code, by
    /// row. A NULL has none. Errors as [`Self::codes_with_value`].
    pub fn codes_by_row(&self, level: usize, values: &ArrayRef) -> Result<Vec<(u32, u32)>> {
        let members = self.level(level);
        let values = prepare_exact(values, members.data_type())?;
        let local = local_ids(&values, members.data_type());
        // Codes of value `i` are those from `ends[i]` to `ends[i + 1]`.
        let (mut ends, mut codes) = (vec![0; local.distinct.len() + 1], Vec::new());
        members.with_values(&local.distinct, self.is_first(level), |place, code| {
            codes.push(code);
            ends[place + 1] = codes.len();
        });
        for place in 1..ends.len() {
            ends[place] = ends[place].max(ends[place - 1]);
        }
        let mut pairs = Vec::with_capacity(local.ids.len());
        for (row, &id) in local.ids.iter().enumerate().filter(|(_, id)| **id > 0) {
            let id = id as usize;
            pairs.extend(codes[ends[id - 1]..ends[id]].iter().map(|&code| (row as u32, code)));
        }
        Ok(pairs)
    }

    /// Whether a level is its dimension's first.
    fn is_first(&self, level: usize) -> bool {
        level == 0 || self.dimensions[level - 1] != self.dimensions[level]
    }

    fn level(&self, level: usize) -> &Level {
        self.levels[level].as_ref().expect("only levels made of a column have members")
    }

    /// Every parent that the file names exists.
    fn check_parents(&self, path: &std::path::Path) -> Result<()> {
        for (at, level) in self.levels.iter().enumerate() {
            let Some(level) = level else { continue };
            let above = at.checked_sub(1).filter(|&above| self.dimensions[above] == self.dimensions[at]);
            let parents = above.map_or(1, |above| self.len(above));
            if level.read(|members| members.parents().iter().any(|&parent| parent >= parents)) {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "dictionary file {}: a member of level {at} has a parent that does not exist",
                        path.display()
                    ),
                )
                .with_hint("restore the data directory from a backup"));
            }
        }
        Ok(())
    }
}

/// Dictionaries of which it is known which members are asked for.
#[derive(Debug)]
pub struct Watched<'a>(&'a Dictionaries);

impl Watched<'_> {
    /// Forgets every member that is neither in `used`, by level, nor under it, nor was asked for since, and writes the file anew
    /// without their values. Returns the new mark, and how many are gone now: where none are, the mark is that of the same file.
    ///
    /// Errors: as [`Dictionaries::persist`]. What was forgotten stays so, and is written the next time.
    pub fn forget_unused(&self, mut used: Vec<CodeSet>) -> Result<(DictionaryMark, u64)> {
        let Watched(dictionaries) = self;
        for (used, level) in used.iter_mut().zip(&dictionaries.levels) {
            level.iter().flat_map(|level| level.asked().iter().collect::<Vec<_>>()).for_each(|code| used.insert(code));
        }
        dictionaries.with_ancestors(&mut used);
        // From before values go until they are gone in the file nothing is appended to it.
        let mut file = dictionaries.file.lock();
        let gone = dictionaries.forget_in(&used, &mut file);
        Ok((file.persist(&dictionaries.levels)?, gone))
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.levels.iter().flatten().for_each(|level| level.watch(false));
    }
}

/// The dimension of each level, and a place for its members.
fn empty_levels(table: &TableDef) -> Result<(Vec<usize>, Vec<Option<Level>>)> {
    let mut dimensions = Vec::new();
    let mut levels = Vec::new();
    for (dimension, _, level) in table.levels() {
        dimensions.push(dimension);
        levels.push(match level.source {
            LevelSource::Column(id) => {
                let column = table.column_by_id(id).ok_or_else(|| no_column(table, id))?;
                let name = format!("{}.{}", table.dimensions[dimension].name, level.name);
                Some(Level::new(name, column.data_type))
            }
            _ => None,
        });
    }
    Ok((dimensions, levels))
}

fn column<'a>(table: &TableDef, rows: &'a RecordBatch, id: ColumnId) -> Result<&'a ArrayRef> {
    let name = &table.column_by_id(id).ok_or_else(|| no_column(table, id))?.storage_name;
    rows.column_by_name(name)
        .ok_or_else(|| Error::internal(format!("rows of table '{}' lack the level column '{name}'", table.name)))
}

fn no_column(table: &TableDef, id: ColumnId) -> Error {
    Error::internal(format!("a dimension of table '{}' is made of column {id}, which it does not have", table.name))
}
