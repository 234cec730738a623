//! What EXPLAIN shows of a bound statement: its boxes, with how many codes each filter has, its groups and its measures.

use super::bound::Bound;
use super::statement::{Aggregate, Item};
use alluvia_space::codes::calendar;
use alluvia_space::{CalendarUnit, LevelSource};
use alluvia_tree::{BoxQuery, CodeSet, LevelFilter, TimeRange};

/// Of a filter that has more runs of units they are only counted.
const RUNS_MAX: usize = 2;

impl Bound {
    /// What EXPLAIN shows of it.
    pub fn describe(&self) -> String {
        let filter = |filter: &LevelFilter| {
            let name = self.level_name(filter.level);
            match self.units(filter) {
                Some(units) if filter.codes.runs().iter().any(is_open) => format!("{name} ({units})"),
                _ => format!("{name} ({} codes)", filter.codes.len()),
            }
        };
        let tests = |question: &BoxQuery| {
            let filters = question.filters.iter().map(filter);
            filters.chain(question.times.iter().filter_map(|range| self.range(range))).collect::<Vec<_>>().join(", ")
        };
        let boxes: Vec<String> = self.asked().iter().map(tests).collect();
        let groups: Vec<String> = self.groups.iter().map(|&level| self.level_name(level)).collect();
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

    /// The table, the aggregates and the levels that they are grouped by, in words: `s: sum(v) by country`.
    pub fn title(&self) -> String {
        let mut aggregates: Vec<String> = Vec::with_capacity(self.items.len());
        for (aggregate, column) in self.items.iter().filter_map(Item::aggregate) {
            let aggregate = called(aggregate, column.map(String::as_str));
            if !aggregates.contains(&aggregate) {
                aggregates.push(aggregate);
            }
        }
        let groups: Vec<String> = self.groups.iter().map(|&level| self.short_name(level)).collect();
        let aggregates = if aggregates.is_empty() { "groups".to_owned() } else { aggregates.join(", ") };
        let by = if groups.is_empty() { String::new() } else { format!(" by {}", groups.join(", ")) };
        format!("{}: {aggregates}{by}", self.def.name)
    }

    /// Its conditions as the index sees them, in words: `country: 3 of 20 members; time.month: from 2026-03`. `None` if it has none.
    pub fn box_text(&self) -> Option<String> {
        let filter = |filter: &LevelFilter| {
            let name = self.short_name(filter.level);
            match self.units(filter) {
                Some(units) => format!("{name}: {units}"),
                None => {
                    // NULL has a code, and is no member.
                    let (all, null) = (self.members(filter.level).saturating_sub(1), filter.codes.holds_null());
                    let members = filter.codes.len() - u64::from(null);
                    format!("{name}: {members} of {all} members{}", if null { " and NULL" } else { "" })
                }
            }
        };
        let tests = |question: &BoxQuery| {
            let filters = question.filters.iter().map(filter);
            filters.chain(question.times.iter().filter_map(|range| self.range(range))).collect::<Vec<_>>().join("; ")
        };
        match self.asked() {
            [] => None,
            [one] => Some(tests(one)).filter(|text| !text.is_empty()),
            several => {
                let first = several.iter().take(RUNS_MAX).map(tests).collect::<Vec<_>>().join(" | ");
                Some(format!("{} boxes: {first}{}", several.len(), if several.len() > RUNS_MAX { " | …" } else { "" }))
            }
        }
    }

    fn range(&self, range: &TimeRange) -> Option<String> {
        self.def.column_by_id(range.column).map(|column| format!("{} in range", column.name))
    }

    /// The level, by its dimension and its own name.
    fn level_name(&self, level: usize) -> String {
        let named = self.def.levels().nth(level);
        named.map_or_else(String::new, |(dimension, _, level)| {
            format!("{}.{}", self.def.dimensions[dimension].name, level.name)
        })
    }

    /// A level that is a column by its name alone.
    fn short_name(&self, level: usize) -> String {
        match self.def.levels().nth(level) {
            Some((_, _, own)) if matches!(own.source, LevelSource::Column(_)) => own.name.clone(),
            _ => self.level_name(level),
        }
    }

    /// The units of a calendar that a filter has; `None` of other levels.
    fn units(&self, filter: &LevelFilter) -> Option<String> {
        let unit = match self.def.levels().nth(filter.level)?.2.source {
            LevelSource::Calendar(_, unit) | LevelSource::Local(_, unit) => unit,
            _ => return None,
        };
        let LevelFilter { codes, .. } = filter;
        let null = if codes.holds_null() { " and NULL" } else { "" };
        if codes.runs().is_empty() {
            return Some(if codes.holds_null() { "NULL" } else { "none" }.to_owned());
        }
        if codes.runs().len() > RUNS_MAX {
            return Some(format!("{} in {} runs{null}", counted(codes), codes.runs().len()));
        }
        let run = |&(low, high): &(u32, u32)| match (started(low, unit), started(high, unit)) {
            (None, None) if low <= 1 && high == u32::MAX => "all".to_owned(),
            (None, None) => if low <= 1 { "before the first unit" } else { "after the last unit" }.to_owned(),
            (Some(low), None) => format!("from {low}"),
            (None, Some(high)) => format!("until {high}"),
            (Some(low), Some(high)) if low == high => low,
            (Some(low), Some(high)) => format!("{low} to {high}"),
        };
        Some(codes.runs().iter().map(run).collect::<Vec<_>>().join(", ") + null)
    }
}

/// Whether a run of units has no beginning or no end.
fn is_open(&(low, high): &(u32, u32)) -> bool {
    low == 1 || high == u32::MAX
}

fn counted(codes: &CodeSet) -> String {
    if codes.runs().iter().any(is_open) { "units".to_owned() } else { format!("{} units", codes.len()) }
}

/// When the unit of a code begins; `None` of the first and the last one, which stand for all times before and after.
fn started(code: u32, unit: CalendarUnit) -> Option<String> {
    if code <= 1 || code == u32::MAX {
        return None;
    }
    let micros = calendar::start_micros(calendar::units_of_code(code)?, unit);
    let text = arrow::temporal_conversions::timestamp_us_to_datetime(micros)?.to_string();
    let width = match unit {
        CalendarUnit::Year => 4,
        CalendarUnit::Quarter | CalendarUnit::Month => 7,
        CalendarUnit::Day => 10,
        CalendarUnit::Hour | CalendarUnit::Minute => 16,
    };
    // A year of more digits, or before the first one, is written as it is.
    Some(if text.find('-') == Some(4) { text.get(..width).unwrap_or(&text).to_owned() } else { text })
}

fn called(aggregate: Aggregate, column: Option<&str>) -> String {
    let name = match aggregate {
        Aggregate::Count => "count",
        Aggregate::Sum => "sum",
        Aggregate::Avg => "avg",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::VarSample => "var_samp",
        Aggregate::VarPopulation => "var_pop",
        Aggregate::StddevSample => "stddev_samp",
        Aggregate::StddevPopulation => "stddev_pop",
    };
    format!("{name}({})", column.unwrap_or("*"))
}
