//! Statements bound to a table: its words as levels, codes and measures of the index.
//!
//! Invariants:
//! - What is bound asks for the same rows and values as the statement, or is not bound.
//! - Filters and maps hold for the members that there were when they were made; [`Bound::now`] makes them anew where there are more.

use super::boxes::{Found, boxes, with};
use super::clocks;
use super::cuboids::{Selected, Shape, dimensions};
use super::declined::Declined;
use super::having::Having;
use super::mapped::Side;
use super::statement::{Aggregate, Condition, Group, Item, Order, Statement};
use super::tail::has_codes;
use super::times::tests_by_column;
use alluvia_catalog::{Dictionaries, TableEntry};
use alluvia_space::{CalendarUnit, Column, DataType, LevelSource, TableDef};
use alluvia_tree::{BoxQuery, CodeMap, TESTS_MAX, TimeRange, Wanted, WantedMeasure};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;

/// A statement in the words of a table's index.
#[derive(Debug)]
pub struct Bound {
    pub(super) def: Arc<TableDef>,
    pub(super) dictionaries: Arc<Dictionaries>,
    pub(super) items: Vec<Item>,
    /// How many items there are at the end that are not shown.
    pub(super) hidden: usize,
    pub(super) groups: Vec<usize>,
    /// What makes a group's codes ordinals of a side; `None` for codes that are grouped by as they are.
    pub(super) maps: Vec<Option<Arc<CodeMap>>>,
    pub(super) measures: Vec<WantedMeasure>,
    /// One for each box; boxes have no rows in common.
    questions: Vec<BoxQuery>,
    /// Joined small tables, and the levels that they are joined by. Those that are grouped by are the last groups, in this order.
    sides: Vec<(Side, usize)>,
    shape: Shape,
    /// Which dimension each level is of.
    pub(super) dimensions: Vec<usize>,
    conditions: Vec<Condition>,
    /// The levels whose members conditions and sides look at, each with how many it had when the filters were made.
    members: Vec<(usize, u32)>,
    /// For each item the measure that it aggregates, if it does one.
    pub(super) item_measures: Vec<Option<usize>>,
    pub(super) having: Option<Having>,
    pub(super) order: Vec<Order>,
    pub(super) limit: Option<usize>,
    pub(super) offset: usize,
    /// What was chosen of the cuboid that answered last.
    pub(super) selected: Mutex<Option<Arc<Selected>>>,
}

/// The statement bound to its table; or why the index cannot answer it.
pub fn bind(statement: &Statement, entry: &TableEntry, dictionaries: &Arc<Dictionaries>) -> Result<Bound, Declined> {
    let def = &entry.def;
    // GROUP BY of a name means the column of that name, if there is one, and not an item that is called so.
    let hides = |alias: &String| def.columns.iter().any(|column| column.name == *alias);
    if def.dimensions.is_empty() {
        return Err(Declined::NoDimensions);
    }
    if statement.aliases.iter().any(hides) {
        return Err(Declined::Alias);
    }
    if statement.having.as_ref().is_some_and(|having| !having.fits(&statement.items)) {
        return Err(Declined::Having);
    }
    let members = members_asked(def, dictionaries, &statement.conditions);
    let found = boxes(def, dictionaries, &statement.conditions)?;
    let level = |group: &Group| level_of(def, group).ok_or_else(|| group_declined(def, group));
    let groups: Vec<usize> = statement.groups.iter().map(level).collect::<Result<_, _>>()?;
    let mut named = found.iter().flat_map(|one| &one.filters).map(|filter| filter.level).chain(groups.iter().copied());
    if !named.all(|level| has_level_codes(def, level)) {
        return Err(Declined::NoCodes);
    }
    let mut measures = Vec::new();
    let mut item_measures = Vec::with_capacity(statement.items.len());
    for item in &statement.items {
        item_measures.push(match item.aggregate() {
            None | Some((_, None)) => None,
            Some((aggregate, Some(name))) => {
                let column = def.columns.iter().find(|column| column.name == *name);
                let column = column.ok_or(Declined::Item)?;
                if aggregate == Aggregate::Count && !column.nullable {
                    None
                } else {
                    let measure = measure_of(def, column, aggregate, &mut measures);
                    Some(measure.ok_or(Declined::NoMeasure(column.id))?)
                }
            }
        });
    }
    let questions = questions(found, &groups, &measures).ok_or(Declined::Boxes)?;
    Ok(Bound {
        def: Arc::clone(def),
        items: statement.items.clone(),
        hidden: statement.hidden.len(),
        having: statement.having.clone(),
        dimensions: dimensions(def),
        shape: Shape::of(def, &questions),
        questions,
        maps: vec![None; groups.len()],
        groups,
        sides: Vec::new(),
        measures,
        conditions: statement.conditions.clone(),
        members,
        item_measures,
        order: statement.order.clone(),
        limit: statement.limit,
        offset: statement.offset,
        dictionaries: Arc::clone(dictionaries),
        selected: Mutex::default(),
    })
}

/// Why no level makes a group.
fn group_declined(def: &TableDef, group: &Group) -> Declined {
    let (Group::Column(name) | Group::Truncated(_, name) | Group::TruncatedIn { column: name, .. }) = group;
    let column = def.columns.iter().find(|column| column.name == *name);
    column.map_or(Declined::Group, |column| Declined::GroupOf(column.id))
}

/// Whether rows of the tail have codes at a level.
pub(super) fn has_level_codes(def: &TableDef, level: usize) -> bool {
    def.levels().nth(level).is_some_and(|(dimension, _, _)| has_codes(&def.dimensions[dimension]))
}

/// The levels of the columns that conditions are on, and how many codes each has given out: no other member is part of a filter.
fn members_asked(def: &TableDef, dictionaries: &Dictionaries, conditions: &[Condition]) -> Vec<(usize, u32)> {
    let tests = tests_by_column(conditions);
    let is_asked = |source: &LevelSource| {
        let column = def.column_by_id(source.column());
        column.is_some_and(|column| tests.contains_key(column.name.as_str()))
    };
    let levels = def.levels().enumerate().filter(|(_, (_, _, level))| is_asked(&level.source));
    levels.map(|(level, _)| (level, dictionaries.len(level))).collect()
}

impl Bound {
    /// What is asked of each box.
    pub(super) fn asked(&self) -> &[BoxQuery] {
        &self.questions
    }

    /// Bytes in memory of its sets of codes, which are most of it.
    pub(super) fn bytes(&self) -> usize {
        let filters = self.questions.iter().flat_map(|question| &question.filters).map(|filter| filter.codes.bytes());
        let times = self.questions.iter().flat_map(|question| &question.times).map(TimeRange::bytes);
        filters.chain(times).sum()
    }

    /// Whether codes alone tell its rows, as a cuboid has to.
    pub fn is_told_by_codes(&self) -> bool {
        are_told_by_codes(&self.questions)
    }

    /// Its levels and measures.
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether the filters and maps know every member there is now of the levels that they are of.
    pub(super) fn knows_its_members(&self) -> bool {
        self.members.iter().all(|&(level, known)| known == self.dictionaries.len(level))
    }

    /// The questions with filters and maps that know every member there is now: rows of the tail bring new ones when they get their
    /// codes. `None` if the conditions cannot be filters any more.
    pub(super) fn now(&self) -> Option<Now<'_>> {
        if self.knows_its_members() {
            return Some(Now { questions: Cow::Borrowed(&*self.questions), maps: self.maps.clone() });
        }
        self.made()
    }

    fn made(&self) -> Option<Now<'static>> {
        let mut found = boxes(&self.def, &self.dictionaries, &self.conditions).ok()?;
        let mut maps = Vec::with_capacity(self.sides.len());
        for (side, level) in &self.sides {
            let (codes, map) = side.codes(&self.dictionaries, *level)?;
            found.iter_mut().for_each(|one| one.filters = with(&one.filters, *level, &codes));
            maps.extend(map.map(Some));
        }
        let mut all = vec![None; self.groups.len() - maps.len()];
        all.extend(maps);
        let questions = questions(found, &self.groups, &self.measures)?;
        Some(Now { questions: Cow::Owned(questions), maps: all })
    }

    /// The level of a column that a small table may be joined by; `None` if codes do not tell its values apart.
    pub fn key_level(&self, column: &str) -> Option<usize> {
        let level = level_of(&self.def, &Group::Column(column.to_owned()))?;
        (has_level_codes(&self.def, level) && self.dictionaries.has_members(level)).then_some(level)
    }

    /// Codes that a level has given out.
    pub fn members(&self, level: usize) -> u32 {
        self.dictionaries.len(level)
    }

    /// The same of the rows that have keys of all sides, grouped by those sides' ordinals after all other groups, in the sides' order.
    /// `None` where the join says more than codes do.
    pub fn joined(mut self, sides: Vec<Side>) -> Option<Bound> {
        self.members = members_asked(&self.def, &self.dictionaries, &self.conditions);
        for side in sides {
            let level = self.key_level(&side.column)?;
            self.members.push((level, self.dictionaries.len(level)));
            self.groups.extend(side.groups.is_some().then_some(level));
            self.sides.push((side, level));
        }
        let Now { questions, maps } = self.made()?;
        (self.questions, self.maps) = (questions.into_owned(), maps);
        self.shape = Shape::of(&self.def, &self.questions);
        Some(self)
    }
}

/// What is asked, by the members that there are at a moment.
pub(super) struct Now<'a> {
    pub(super) questions: Cow<'a, [BoxQuery]>,
    /// By group.
    pub(super) maps: Vec<Option<Arc<CodeMap>>>,
}

/// A question for each box; `None` if one has more tests than there are bits.
fn questions(found: Vec<Found>, groups: &[usize], measures: &[WantedMeasure]) -> Option<Vec<BoxQuery>> {
    let question = |Found { filters, times }: Found| {
        let question = BoxQuery { filters, times, groups: groups.to_vec(), measures: measures.to_vec() };
        (question.tests() <= TESTS_MAX).then_some(question)
    };
    found.into_iter().map(question).collect()
}

/// Whether codes alone tell the rows of boxes.
pub(super) fn are_told_by_codes(questions: &[BoxQuery]) -> bool {
    questions.iter().all(|question| question.times.is_empty())
}

/// The boxes without their edges, which codes alone tell, and the edges.
pub(super) fn without_edges(questions: &[BoxQuery]) -> (Cow<'_, [BoxQuery]>, Vec<BoxQuery>) {
    if are_told_by_codes(questions) {
        return (Cow::Borrowed(questions), Vec::new());
    }
    let (whole, edges): (Vec<BoxQuery>, Vec<Vec<BoxQuery>>) = questions.iter().map(BoxQuery::without_edges).unzip();
    (Cow::Owned(whole), edges.into_iter().flatten().collect())
}

/// The level whose codes make a group.
fn level_of(def: &TableDef, group: &Group) -> Option<usize> {
    let find = |name: &str| def.columns.iter().find(|column| column.name == name);
    match group {
        Group::Column(name) => {
            let column = find(name)?;
            // A dictionary has one zero and one NaN, and groups of floats have several.
            if matches!(column.data_type, DataType::Real | DataType::Double) {
                return None;
            }
            let is_own = |source: &LevelSource| match source {
                LevelSource::Calendar(id, CalendarUnit::Day) => *id == column.id && column.data_type == DataType::Date,
                source => *source == LevelSource::Column(column.id),
            };
            def.levels().position(|(_, _, level)| is_own(&level.source))
        }
        Group::Truncated(unit, name) => {
            let is_time = |of: DataType| matches!(of, DataType::Date | DataType::Timestamp | DataType::TimestampTz);
            let column = find(name).filter(|column| is_time(column.data_type))?;
            let unit = CalendarUnit::named(unit)?;
            def.levels().position(|(_, _, level)| level.source == LevelSource::Calendar(column.id, unit))
        }
        Group::TruncatedIn { unit, column, zone } => {
            let column = find(column).filter(|column| column.data_type == DataType::TimestampTz)?;
            clocks::level_of(def, column, CalendarUnit::named(unit)?, zone)
        }
    }
}

fn measure_of(
    def: &TableDef,
    column: &Column,
    aggregate: Aggregate,
    measures: &mut Vec<WantedMeasure>,
) -> Option<usize> {
    if !def.measures.contains(&column.id) {
        return None;
    }
    let spread = matches!(
        aggregate,
        Aggregate::VarSample | Aggregate::VarPopulation | Aggregate::StddevSample | Aggregate::StddevPopulation
    );
    let wanted = Wanted {
        sum: spread || matches!(aggregate, Aggregate::Sum | Aggregate::Avg),
        squares: spread,
        min_max: matches!(aggregate, Aggregate::Min | Aggregate::Max),
    };
    if let Some(at) = measures.iter().position(|measure| measure.column == column.id) {
        measures[at].wanted = measures[at].wanted.or(wanted);
        return Some(at);
    }
    let is_float = match column.data_type {
        DataType::Real | DataType::Double => true,
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal { .. } | DataType::Numeric => false,
        _ => return None,
    };
    measures.push(WantedMeasure { column: column.id, is_float, wanted });
    Some(measures.len() - 1)
}
