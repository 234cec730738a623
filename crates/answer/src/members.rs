//! Which members of dimensions' levels a predicate can match.
//!
//! Invariants:
//! - Conservative: a code that is left out is of no row for which the predicate is true.
//! - NULL (code 0) is a member under every parent, so it is never left out on account of its path.
//!
//! For a level made of a column, each part of the predicate that reads this column only is evaluated on the level's
//! members, whatever it is: `country LIKE '%land'` becomes a set of codes as well as `country = 'x'`. Where members are too
//! many for that, and for levels whose codes are arithmetic (hashed ids), the values that the predicate names are looked
//! up. Then paths are followed downwards: with `country = 'x' AND city = 'y'` only the cities named y in country x are left,
//! which the bounds of single columns cannot say.

use alluvia_catalog::Dictionaries;
use alluvia_functions::stopping;
use alluvia_space::codes::{arithmetic, is_arithmetic};
use alluvia_space::{Column, DataType, Dimension, TableDef};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{
    Guarantee, LiteralGuarantee, collect_columns, reassign_expr_columns, split_conjunction,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use std::sync::Arc;

/// Levels with more members than this are not evaluated, only looked up in.
pub(crate) const EVALUATED_MAX: u32 = 65_536;

/// Members that a predicate is evaluated on at once: a function may make much of each.
const SLICE_ROWS: usize = 1_024;

/// Codes of one level that the predicate can match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelCodes {
    /// Counted over all dimensions, as summaries count.
    pub level: usize,
    /// Ascending.
    pub codes: Vec<u32>,
}

/// The levels at which the predicate rules out codes.
pub fn level_codes(
    def: &TableDef,
    predicate: &Arc<dyn PhysicalExpr>,
    dictionaries: Option<&Dictionaries>,
) -> Vec<LevelCodes> {
    let conditions = Conditions::of(def, predicate);
    let mut found = Vec::new();
    let mut first = 0;
    for dimension in &def.dimensions {
        if is_arithmetic(dimension) {
            arithmetic_codes(def, dimension, first, &conditions, &mut found);
        } else if let Some(dictionaries) = dictionaries {
            path_codes(def, dimension, first, dictionaries, &conditions, &mut found);
        }
        first += dimension.levels.len();
    }
    found
}

/// What the predicate asks of single columns.
struct Conditions {
    /// Parts of the conjunction that read one column: its position, and the part over a batch of that column alone.
    parts: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    /// Columns that must have one of these values.
    named: Vec<(usize, ArrayRef)>,
}

impl Conditions {
    fn of(def: &TableDef, predicate: &Arc<dyn PhysicalExpr>) -> Conditions {
        let part = |part: &Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(part);
            let position = columns.iter().next().filter(|_| columns.len() == 1)?.index();
            let schema = alone(&def.columns[position]);
            let over_one = reassign_expr_columns(Arc::clone(part), &schema).ok()?;
            (!is_volatile(part)).then_some((position, over_one))
        };
        let named = |guarantee: LiteralGuarantee| {
            let position = def.columns.iter().position(|column| column.name == guarantee.column.name)?;
            let data_type = def.columns[position].data_type.to_arrow();
            // NULL equals nothing, so naming it allows nothing.
            let literals = guarantee.literals.into_iter().filter(|literal| !literal.is_null());
            let literals: Vec<ScalarValue> = literals.collect();
            let is_in = guarantee.guarantee == Guarantee::In && !literals.is_empty();
            let same_type = literals.iter().all(|literal| literal.data_type() == data_type);
            (is_in && same_type).then(|| ScalarValue::iter_to_array(literals).ok().map(|values| (position, values)))?
        };
        Conditions {
            parts: split_conjunction(predicate).into_iter().filter_map(part).collect(),
            named: LiteralGuarantee::analyze(predicate).into_iter().filter_map(named).collect(),
        }
    }

    fn parts(&self, position: usize) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.parts.iter().filter(move |(of, _)| *of == position).map(|(_, part)| part)
    }

    fn named(&self, position: usize) -> impl Iterator<Item = &ArrayRef> {
        self.named.iter().filter(move |(of, _)| *of == position).map(|(_, values)| values)
    }
}

/// The schema of this column and no other.
fn alone(column: &Column) -> Schema {
    Schema::new(vec![Field::new(&column.name, column.data_type.to_arrow(), true)])
}

/// Codes that follow from the values that the predicate names.
fn arithmetic_codes(
    def: &TableDef,
    dimension: &Dimension,
    first: usize,
    conditions: &Conditions,
    found: &mut Vec<LevelCodes>,
) {
    let column = dimension.levels[0].source.column();
    let Some(position) = def.columns.iter().position(|known| known.id == column) else { return };
    for values in conditions.named(position) {
        // Fails where a number's range is not part of the definition; bounds serve such levels.
        let Ok(levels) = arithmetic(dimension, values.as_ref()) else { return };
        for (level, mut codes) in levels.into_iter().enumerate() {
            codes.sort_unstable();
            codes.dedup();
            found.push(LevelCodes { level: first + level, codes });
        }
    }
}

/// Codes of a path of columns, from the top down.
fn path_codes(
    def: &TableDef,
    dimension: &Dimension,
    first: usize,
    dictionaries: &Dictionaries,
    conditions: &Conditions,
    found: &mut Vec<LevelCodes>,
) {
    let own: Vec<Option<Vec<u32>>> = dimension
        .levels
        .iter()
        .enumerate()
        .map(|(at, level)| {
            let position = def.columns.iter().position(|column| column.id == level.source.column())?;
            own_codes(&def.columns[position], position, first + at, dictionaries, conditions)
        })
        .collect();
    let Some(deepest) = own.iter().rposition(Option::is_some) else { return };
    // Whether each member of the level above is left; `None` when all are.
    let mut above: Option<Vec<bool>> = None;
    for (at, own) in own.into_iter().enumerate().take(deepest + 1) {
        let level = first + at;
        let members = dictionaries.len(level);
        let is_constrained = own.is_some();
        let left = match (own, &above) {
            (None, None) => continue,
            (Some(own), None) => own,
            (None, Some(_)) if members > EVALUATED_MAX => {
                above = None;
                continue;
            }
            (own, Some(above)) => {
                // A member that is newer than `above` is in no segment of the snapshot; it is kept all the same.
                let under = |code: &u32| {
                    let parent = dictionaries.ancestor(level, level - 1, *code);
                    parent.and_then(|parent| above.get(parent as usize).copied()).unwrap_or(true)
                };
                own.unwrap_or_else(|| (0..members).collect()).into_iter().filter(under).collect()
            }
        };
        if left.len() as u32 >= members {
            above = None;
            continue;
        }
        let mut marks = vec![false; members as usize];
        for &code in &left {
            if let Some(mark) = marks.get_mut(code as usize) {
                *mark = true;
            }
        }
        above = Some(marks);
        if is_constrained {
            found.push(LevelCodes { level, codes: left });
        }
    }
}

/// Codes of a level, ascending, by the conditions on its own column; `None` if there is none that can be used.
fn own_codes(
    column: &Column,
    position: usize,
    level: usize,
    dictionaries: &Dictionaries,
    conditions: &Conditions,
) -> Option<Vec<u32>> {
    // A dictionary has one zero and one NaN; rows, and comparisons, have several.
    if matches!(column.data_type, DataType::Real | DataType::Double) {
        return None;
    }
    let mut left: Option<Vec<u32>> = None;
    let mut narrow = |codes: Vec<u32>| {
        left = Some(match left.take() {
            None => codes,
            Some(left) => left.into_iter().filter(|code| codes.binary_search(code).is_ok()).collect(),
        });
    };
    for values in conditions.named(position) {
        if let Ok(codes) = dictionaries.codes_with_value(level, values) {
            narrow(codes);
        }
    }
    if dictionaries.len(level) <= EVALUATED_MAX {
        let mut members = None;
        for part in conditions.parts(position) {
            let members = match &members {
                Some(members) => members,
                None => members.insert(batch_of_members(column, level, dictionaries)?),
            };
            // What fails on a member may never meet it in a row.
            if let Ok(codes) = matching(part, members) {
                narrow(codes);
            }
        }
    }
    left
}

/// All members of a level as rows: place and code are the same.
pub(crate) fn batch_of_members(column: &Column, level: usize, dictionaries: &Dictionaries) -> Option<RecordBatch> {
    let values = dictionaries.value_array(level).ok()?;
    let values = cast(&values, &column.data_type.to_arrow()).ok()?;
    RecordBatch::try_new(Arc::new(alone(column)), vec![values]).ok()
}

/// What a predicate is of each member: true, false or unknown. `None` of what is no predicate.
pub(crate) fn evaluated(predicate: &Arc<dyn PhysicalExpr>, members: &RecordBatch) -> Result<Option<BooleanArray>> {
    let rows = members.num_rows();
    let mut all = BooleanBuilder::with_capacity(rows);
    for first in (0..rows).step_by(SLICE_ROWS) {
        stopping::check()?;
        let slice = members.slice(first, SLICE_ROWS.min(rows - first));
        let matching = predicate.evaluate(&slice)?.into_array(slice.num_rows())?;
        let Some(matching) = matching.as_boolean_opt() else { return Ok(None) };
        all.append_array(matching);
    }
    Ok(Some(all.finish()))
}

fn matching(part: &Arc<dyn PhysicalExpr>, members: &RecordBatch) -> Result<Vec<u32>> {
    let matches = evaluated(part, members)?.unwrap_or_else(|| vec![true; members.num_rows()].into());
    let is_true = |code: &usize| matches.is_valid(*code) && matches.value(*code);
    Ok((0..matches.len()).filter(is_true).map(|code| code as u32).collect())
}
