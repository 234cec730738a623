//! Binding a recognised statement to a table of a snapshot, and answering it.

use super::boxes::{Filters, Found, boxes, with};
use super::cuboids::{Selected, Shape, dimensions};
use super::having::Having;
use super::mapped::Side;
use super::statement::{Aggregate, Condition, Group, Item, Order, Statement};
use super::tail::{TailRows, has_codes};
use super::times::tests_by_column;
use super::{Kept, columns, names};
use alluvia_catalog::{Dictionaries, TableEntry};
use alluvia_snapshot::{SegmentRead, TableRead};
use alluvia_space::{CalendarUnit, Column, DataType, LevelSource, TableDef};
use alluvia_tree::{
    Answer, BoxQuery, CodeMap, Counters, EDGE_FILTERS_MAX, GroupKeys, GroupSpan, LevelFilter, SegmentRows, TimeRange,
    Wanted, WantedMeasure, add_edge_rows, add_rows, answer, answer_edge,
};
use alluvia_types::{Result, Version};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;

/// A statement in the words of a table's index.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(super) def: Arc<TableDef>,
    pub(super) dictionaries: Arc<Dictionaries>,
    pub(super) items: Vec<Item>,
    /// How many items there are at the end that are not shown.
    pub(super) hidden: usize,
    pub(super) groups: Vec<usize>,
    /// What makes a group's codes ordinals of a side; `None` for codes that are grouped by as they are.
    pub(super) maps: Vec<Option<Arc<CodeMap>>>,
    pub(super) measures: Vec<WantedMeasure>,
    /// One for each box that codes alone tell; boxes have no rows in common.
    questions: Vec<BoxQuery>,
    edges: Vec<Edge>,
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

/// The statement bound to its table; `None` if the index cannot answer it.
pub(crate) fn bind(statement: &Statement, entry: &TableEntry, dictionaries: &Arc<Dictionaries>) -> Option<Bound> {
    let def = &entry.def;
    // GROUP BY of a name means the column of that name, if there is one, and not an item that is called so.
    let hides = |alias: &String| def.columns.iter().any(|column| column.name == *alias);
    if def.dimensions.is_empty() || statement.aliases.iter().any(hides) {
        return None;
    }
    if statement.having.as_ref().is_some_and(|having| !having.fits(&statement.items)) {
        return None;
    }
    let members = members_asked(def, dictionaries, &statement.conditions);
    let found = boxes(def, dictionaries, &statement.conditions)?;
    let groups: Vec<usize> = statement.groups.iter().map(|group| level_of(def, group)).collect::<Option<_>>()?;
    let mut filtered = found.each().flatten().map(|filter| filter.level);
    let is_known = |level: usize| has_level_codes(def, level);
    if has_too_many_filters(&found) || !filtered.all(is_known) || !groups.iter().all(|&level| is_known(level)) {
        return None;
    }
    drop(filtered);
    let mut measures = Vec::new();
    let mut item_measures = Vec::with_capacity(statement.items.len());
    for item in &statement.items {
        item_measures.push(match item.aggregate() {
            None | Some((_, None)) => None,
            Some((aggregate, Some(name))) => {
                let column = def.columns.iter().find(|column| column.name == *name)?;
                if aggregate == Aggregate::Count && !column.nullable {
                    None
                } else {
                    Some(measure_of(def, column, aggregate, &mut measures)?)
                }
            }
        });
    }
    let (questions, edges) = questions(found, &groups, &measures);
    Some(Bound {
        def: Arc::clone(def),
        items: statement.items.clone(),
        hidden: statement.hidden.len(),
        having: statement.having.clone(),
        dimensions: dimensions(def),
        shape: Shape::of(def, &questions),
        questions,
        edges,
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

/// The rows at an end of a range of times: of a box those whose own values lie in ranges.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    question: BoxQuery,
    ranges: Arc<[TimeRange]>,
}

/// Whether a box has more filters than there are bits.
fn has_too_many_filters(found: &Found) -> bool {
    found.each().any(|filters| filters.len() > EDGE_FILTERS_MAX)
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
        let asked = self.questions.iter().chain(self.edges.iter().map(|edge| &edge.question));
        asked.flat_map(|question| &question.filters).map(|filter| filter.codes.bytes()).sum()
    }

    /// Whether codes alone tell its rows, as a cuboid has to.
    pub(super) fn is_told_by_codes(&self) -> bool {
        self.edges.is_empty()
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
            let (questions, edges) = (Cow::Borrowed(&*self.questions), Cow::Borrowed(&*self.edges));
            return Some(Now { questions, edges, maps: self.maps.clone() });
        }
        self.made()
    }

    fn made(&self) -> Option<Now<'static>> {
        let mut found = boxes(&self.def, &self.dictionaries, &self.conditions)?;
        let mut maps = Vec::with_capacity(self.sides.len());
        for (side, level) in &self.sides {
            let (codes, map) = side.codes(&self.dictionaries, *level)?;
            found.each_mut().for_each(|filters| *filters = with(filters, *level, &codes));
            maps.extend(map.map(Some));
        }
        let mut all = vec![None; self.groups.len() - maps.len()];
        all.extend(maps);
        if has_too_many_filters(&found) {
            return None;
        }
        let (questions, edges) = questions(found, &self.groups, &self.measures);
        Some(Now { questions: Cow::Owned(questions), edges: Cow::Owned(edges), maps: all })
    }

    /// The level of a column that a small table may be joined by; `None` if codes do not tell its values apart.
    pub(crate) fn key_level(&self, column: &str) -> Option<usize> {
        let level = level_of(&self.def, &Group::Column(column.to_owned()))?;
        (has_level_codes(&self.def, level) && self.dictionaries.has_members(level)).then_some(level)
    }

    /// Codes that a level has given out.
    pub(crate) fn members(&self, level: usize) -> u32 {
        self.dictionaries.len(level)
    }

    /// The same of the rows that have keys of all sides, grouped by those sides' ordinals after all other groups, in the sides' order.
    /// `None` where the join says more than codes do.
    pub(crate) fn joined(mut self, sides: Vec<Side>) -> Option<Bound> {
        self.members = members_asked(&self.def, &self.dictionaries, &self.conditions);
        for side in sides {
            let level = self.key_level(&side.column)?;
            self.members.push((level, self.dictionaries.len(level)));
            self.groups.extend(side.groups.is_some().then_some(level));
            self.sides.push((side, level));
        }
        let Now { questions, edges, maps } = self.made()?;
        (self.questions, self.edges, self.maps) = (questions.into_owned(), edges.into_owned(), maps);
        self.shape = Shape::of(&self.def, &self.questions);
        Some(self)
    }

    /// What EXPLAIN shows of it.
    pub(crate) fn describe(&self) -> String {
        let name = |level: usize| {
            let named = self.def.levels().nth(level);
            named.map_or_else(String::new, |(dimension, _, level)| {
                format!("{}.{}", self.def.dimensions[dimension].name, level.name)
            })
        };
        let filter = |filter: &LevelFilter| match filter.codes.len() {
            count if count > u64::from(u32::MAX / 2) => format!("{} (range)", name(filter.level)),
            count => format!("{} ({count} codes)", name(filter.level)),
        };
        let filters = |question: &BoxQuery| question.filters.iter().map(filter).collect::<Vec<_>>().join(", ");
        let named =
            |range: &TimeRange| self.def.column_by_id(range.column).map(|column| format!(", {} in range", column.name));
        let edge = |edge: &Edge| filters(&edge.question) + &edge.ranges.iter().filter_map(named).collect::<String>();
        let boxes: Vec<String> = self.questions.iter().map(filters).chain(self.edges.iter().map(edge)).collect();
        let groups: Vec<String> = self.groups.iter().map(|&level| name(level)).collect();
        let measures: Vec<&str> = self
            .measures
            .iter()
            .filter_map(|measure| self.def.column_by_id(measure.column))
            .map(|column| column.name.as_str())
            .collect();
        format!(
            "table={}, filters=[{}], groups=[{}], measures=[{}]",
            self.def.name,
            boxes.join(" | "),
            groups.join(", "),
            measures.join(", ")
        )
    }
}

/// What is asked, by the members that there are at a moment.
pub(super) struct Now<'a> {
    pub(super) questions: Cow<'a, [BoxQuery]>,
    pub(super) edges: Cow<'a, [Edge]>,
    /// By group.
    pub(super) maps: Vec<Option<Arc<CodeMap>>>,
}

fn questions(found: Found, groups: &[usize], measures: &[WantedMeasure]) -> (Vec<BoxQuery>, Vec<Edge>) {
    let question = |filters: Filters| BoxQuery { filters, groups: groups.to_vec(), measures: measures.to_vec() };
    let edges = found.edges.into_iter();
    let edges = edges.map(|(filters, ranges)| Edge { question: question(filters), ranges: ranges.into() }).collect();
    (found.boxes.into_iter().map(question).collect(), edges)
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
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal { .. } => false,
        _ => return None,
    };
    measures.push(WantedMeasure { column: column.id, is_float, wanted });
    Some(measures.len() - 1)
}

/// The answer's rows and what they took; `None` where the general way must answer.
pub(crate) fn run(
    bound: &Bound,
    read: &TableRead,
    version: Version,
    kept: &Kept,
    threads: usize,
    schema: &SchemaRef,
) -> Result<Option<(RecordBatch, Counters)>> {
    let Some(Begun { segments, questions, mut found }) = begin(bound, read, version, kept, threads)? else {
        return Ok(None);
    };
    for question in questions.iter() {
        if !answer(question, &segments, threads, &mut found)? {
            return Ok(None);
        }
    }
    Ok(columns::batch(bound, &found, schema).map(|batch| (batch, found.counters)))
}

/// An answer that has the tail's rows and those of edges, and lacks the rows of segments that boxes tell.
pub(super) struct Begun<'a> {
    pub(super) segments: Vec<SegmentRows>,
    pub(super) questions: Cow<'a, [BoxQuery]>,
    pub(super) found: Answer,
}

/// Adds up the tail and the edges; `None` where the general way must answer.
pub(super) fn begin<'a>(
    bound: &'a Bound,
    read: &TableRead,
    version: Version,
    kept: &Kept,
    threads: usize,
) -> Result<Option<Begun<'a>>> {
    let tail = kept.tails.read(&read.entry, &bound.dictionaries, &read.tail, version)?;
    let segments = segment_rows(read, None);
    let Some(Now { questions, edges, maps }) = bound.now() else { return Ok(None) };
    // Now that all rows have their codes.
    let Some(maps) = names::with_names(bound, &kept.names, maps) else { return Ok(None) };
    let mut spans = Vec::with_capacity(bound.groups.len());
    for &level in &bound.groups {
        spans.push(span_of(bound, level, &segments, &tail)?);
    }
    let Some(keys) = GroupKeys::mapped(spans, maps) else { return Ok(None) };
    let mut found = Answer::new(&questions[0], keys);
    for (chunk, rows) in &tail {
        let measures = measure_columns(&bound.def, &bound.measures, &chunk.rows);
        for question in questions.iter() {
            add_rows(question, &chunk.codes, &measures, rows.clone(), &mut found)?;
        }
        for Edge { question, ranges } in edges.iter() {
            let times: Vec<_> =
                ranges.iter().map(|range| chunk.rows.column_by_name(&range.storage_name).cloned()).collect();
            add_edge_rows(question, (ranges, &times), &chunk.codes, &measures, rows.clone(), &mut found)?;
        }
    }
    // Each box has looked at them.
    found.counters.tail_rows = tail.iter().map(|(_, rows)| rows.len() as u64).sum();
    for Edge { question, ranges } in edges.iter() {
        if !answer_edge(question, ranges, &segments, threads, &mut found)? {
            return Ok(None);
        }
    }
    Ok(Some(Begun { segments, questions, found }))
}

/// The segments' rows of a table of a snapshot, those above a version.
pub(super) fn segment_rows(read: &TableRead, above: Option<Version>) -> Vec<SegmentRows> {
    let rows = |read: &SegmentRead| SegmentRows { segment: Arc::clone(&read.segment), above, through: read.through };
    read.segments.iter().map(rows).collect()
}

/// The values of each measure.
pub(super) fn measure_columns(def: &TableDef, measures: &[WantedMeasure], rows: &RecordBatch) -> Vec<Option<ArrayRef>> {
    let column = |measure: &WantedMeasure| {
        let column = def.column_by_id(measure.column)?;
        rows.column_by_name(&column.storage_name).cloned()
    };
    measures.iter().map(column).collect()
}

/// The codes that rows can have at a level.
fn span_of(bound: &Bound, level: usize, segments: &[SegmentRows], tail: &[TailRows]) -> Result<GroupSpan> {
    if bound.dictionaries.has_members(level) {
        return Ok(GroupSpan { level, first: 1, count: bound.dictionaries.len(level) - 1 });
    }
    Ok(match code_bounds(level, segments, tail)? {
        None => GroupSpan { level, first: 1, count: 0 },
        Some((low, high)) => GroupSpan { level, first: low, count: high - low + 1 },
    })
}

/// The least and the greatest code beside NULL that rows have at a level; `None` if they have none.
pub(super) fn code_bounds(level: usize, segments: &[SegmentRows], tail: &[TailRows]) -> Result<Option<(u32, u32)>> {
    let mut bounds: Option<(u32, u32)> = None;
    let mut widen = |low: u32, high: u32| {
        let (min, max) = bounds.unwrap_or((low, high));
        bounds = Some((min.min(low), max.max(high)));
    };
    for SegmentRows { segment, .. } in segments {
        let summaries = segment.summaries()?;
        let Some(summary) = summaries.level(level) else { continue };
        for (low, high) in (0..summaries.blocks()).map(|block| summary.bounds(block)).filter(|bounds| bounds.0 > 0) {
            widen(low, high);
        }
    }
    for (chunk, rows) in tail {
        for &code in chunk.codes.levels[level][rows.clone()].iter().filter(|&&code| code > 0) {
            widen(code, code);
        }
    }
    Ok(bounds)
}
