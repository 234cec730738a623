//! Aggregates of random boxes: what the tree and the tail answer, against the sum over the model's rows.

use alluvia_sim::rows::{Row, Value, table_batch};
use alluvia_sim::{Engine, Random};
use alluvia_snapshot::Snapshot;
use alluvia_space::LevelCodes;
use alluvia_tree::{
    Answer, BoxQuery, CodeSet, GroupKeys, GroupSpan, LevelFilter, Wanted, WantedMeasure, add_rows, answer,
};
use alluvia_types::TableId;
use arrow::array::ArrayRef;
use std::collections::BTreeMap;

/// What is summed up of a measure: how many values, their sum, the least and the greatest.
type Summed = (u64, i128, Option<(i128, i128)>);

/// Rows of a group, and its measures.
type Group = (u64, Vec<Summed>);

/// Asks a random box of a snapshot's table, whose rows are `rows`. Says what differs.
pub fn compare(
    engine: &Engine,
    snapshot: &Snapshot,
    table: TableId,
    rows: &[Row],
    random: &mut Random,
) -> Result<(), String> {
    let read = &snapshot.tables[&table];
    let def = &read.entry.def;
    let said = |error: alluvia_types::Error| format!("a box of table '{}': {error}", def.name);
    let space = engine.views().spaces().get(def).map_err(said)?;
    let dictionaries = &space.dictionaries;
    let codes = dictionaries.remap(def, &table_batch(def, rows)).map_err(said)?;
    let query = random_box(def, &codes, random);
    let span = |&level: &usize| {
        // Of levels whose codes follow from values alone there are more than their bits have.
        let last = if dictionaries.has_members(level) { dictionaries.len(level) } else { 1 << 13 };
        GroupSpan { level, first: 1, count: last }
    };
    let keys = GroupKeys::new(query.groups.iter().map(span).collect()).expect("few groups");
    let mut found = Answer::new(&query, keys);
    if !answer(&query, &read.segments, 1, &mut found).map_err(said)? {
        return Err(format!("table '{}': a segment cannot answer {query:?}", def.name));
    }
    for run in &read.tail {
        let codes = dictionaries.remap(def, &run.rows).map_err(said)?;
        let measure = |wanted: &WantedMeasure| -> Option<ArrayRef> {
            let column = def.column_by_id(wanted.column)?;
            run.rows.column_by_name(&column.storage_name).cloned()
        };
        let measures: Vec<Option<ArrayRef>> = query.measures.iter().map(measure).collect();
        add_rows(&query, &codes, &measures, 0..run.rows.num_rows(), &mut found).map_err(said)?;
    }
    if found.totals.is_spoilt() {
        return Err(format!("table '{}': sums of small numbers are spoilt by {query:?}", def.name));
    }
    let expected = expected(def.columns.len(), &query, &codes, rows);
    let found: BTreeMap<Vec<u32>, Group> = (0..found.totals.groups())
        .filter(|&group| found.totals.rows(group) > 0)
        .map(|group| (found.keys.codes(group), group_of(&found, group)))
        .collect();
    match expected == found {
        true => Ok(()),
        false => Err(format!(
            "table '{}' at version {} ({} segments, {} tail runs): {query:?} is {found:?} and not {expected:?}",
            def.name,
            snapshot.version,
            read.segments.len(),
            read.tail.len()
        )),
    }
}

fn random_box(def: &alluvia_space::TableDef, codes: &LevelCodes, random: &mut Random) -> BoxQuery {
    let wanted = Wanted { sum: true, squares: false, min_max: true };
    let is_float = |column| def.column_by_id(column).is_some_and(|of| of.data_type == alluvia_space::DataType::Double);
    let measure = |&column: &_| WantedMeasure { column, is_float: is_float(column), wanted };
    let mut query = BoxQuery { measures: def.measures.iter().map(measure).collect(), ..BoxQuery::default() };
    for (level, codes) in codes.levels.iter().enumerate() {
        if random.one_in(2) {
            let every = 1 + random.below(3) as u32;
            let some = codes.iter().copied().filter(|code| code % every == 0).chain([u32::from(random.one_in(2))]);
            query.filters.push(LevelFilter { level, codes: CodeSet::of_codes(some.collect()) });
        } else if query.groups.is_empty() && random.one_in(3) {
            query.groups.push(level);
        }
    }
    query
}

/// The sum over rows, one by one. Measures are the second and third of the last five columns.
fn expected(columns: usize, query: &BoxQuery, codes: &LevelCodes, rows: &[Row]) -> BTreeMap<Vec<u32>, Group> {
    let mut groups: BTreeMap<Vec<u32>, Group> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if !query.filters.iter().all(|filter| filter.codes.contains(codes.levels[filter.level][at])) {
            continue;
        }
        let key = query.groups.iter().map(|&level| codes.levels[level][at]).collect();
        let (count, sums) = groups.entry(key).or_insert_with(|| (0, vec![Summed::default(); 2]));
        *count += 1;
        for (sum, value) in sums.iter_mut().zip(&row[columns - 4..columns - 2]) {
            let value = match value {
                Value::Number(number) => i128::from(*number),
                Value::Quarters(quarters) => i128::from(*quarters),
                _ => continue,
            };
            let (least, greatest) = sum.2.unwrap_or((value, value));
            *sum = (sum.0 + 1, sum.1 + value, Some((least.min(value), greatest.max(value))));
        }
    }
    groups
}

fn group_of(found: &Answer, group: usize) -> Group {
    let quarters = |value: f64| (value * 4.0) as i128;
    let summed = found.totals.measures().iter().map(|measure| {
        let count = measure.count(group);
        match measure.of().is_float {
            false => (count, measure.exact_sum(group), measure.exact_bounds(group)),
            true => {
                let bounds = measure.float_bounds(group);
                let bounds = bounds.map(|(least, greatest)| (quarters(least), quarters(greatest)));
                (count, quarters(measure.float_sum(group)), bounds)
            }
        }
    });
    (found.totals.rows(group), summed.collect())
}
