//! What EXPLAIN shows of a bound statement: its boxes, with how many codes each filter has, its groups and its measures.

use super::bound::Bound;
use alluvia_tree::{BoxQuery, LevelFilter, TimeRange};

impl Bound {
    /// What EXPLAIN shows of it.
    pub fn describe(&self) -> String {
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
        let range =
            |range: &TimeRange| self.def.column_by_id(range.column).map(|column| format!("{} in range", column.name));
        let tests = |question: &BoxQuery| {
            let filters = question.filters.iter().map(filter);
            filters.chain(question.times.iter().filter_map(range)).collect::<Vec<_>>().join(", ")
        };
        let boxes: Vec<String> = self.asked().iter().map(tests).collect();
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
