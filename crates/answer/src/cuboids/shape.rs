//! What a cuboid is of: levels, mostly one of each dimension, and measures.
//!
//! Invariant: of a dimension the finest level tells the coarser ones, but of rows that are NULL there. Where these bar the way, a shape has all
//! levels that a statement names ([`Shape::apart`]), each of which is an axis of the cuboid.

use super::super::bound::has_level_codes;
use alluvia_space::keywords::quoted_for_letters;
use alluvia_space::{DataType, TableDef};
use alluvia_syntax::CuboidName;
use alluvia_tree::{BoxQuery, Wanted, WantedMeasure};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, near_names};

/// What a cuboid is of. The levels of a table never change, and columns have ids of their own, so a shape outlives ALTER TABLE.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// The table.
    pub table: TableId,
    /// The finest level of each dimension that is named, or all that are, ascending.
    pub(crate) levels: Vec<usize>,
    /// By column.
    pub(crate) measures: Vec<WantedMeasure>,
}

impl Shape {
    /// The shape of a statement with these questions.
    pub(crate) fn of(def: &TableDef, questions: &[BoxQuery]) -> Shape {
        let measures = questions.first().map_or_else(Vec::new, |question| question.measures.clone());
        Shape::new(def, named(questions), measures)
    }

    /// The same with all levels that the questions name; `None` where those are all that it has.
    pub(super) fn apart(&self, questions: &[BoxQuery]) -> Option<Shape> {
        let mut levels: Vec<usize> = named(questions).collect();
        levels.sort_unstable();
        levels.dedup();
        (levels != self.levels).then(|| Shape { levels, ..self.clone() })
    }

    /// The shape that `CALL alluvia.pin_cuboid` names. Without measures it is of all of the table's, in every way.
    pub fn named(def: &TableDef, name: &CuboidName) -> Result<Shape> {
        let levels = name.levels.iter().map(|level| level_named(def, level)).collect::<Result<Vec<usize>>>()?;
        let mut measures: Vec<WantedMeasure> = Vec::new();
        let mut add = |column: ColumnId, wanted: Wanted| -> Result<()> {
            match measures.iter_mut().find(|known| known.column == column) {
                Some(known) => known.wanted = known.wanted.or(wanted),
                None => measures.push(WantedMeasure { column, is_float: is_float(def, column)?, wanted }),
            }
            Ok(())
        };
        match &name.measures {
            None => def.measures.iter().try_for_each(|&column| add(column, EVERYTHING))?,
            Some(names) => {
                for (function, column) in names {
                    add(measure_named(def, column)?, wanted_by(function.as_deref())?)?;
                }
            }
        }
        Ok(Shape::new(def, levels.into_iter(), measures))
    }

    fn new(def: &TableDef, named: impl Iterator<Item = usize>, mut measures: Vec<WantedMeasure>) -> Shape {
        let dimensions = dimensions(def);
        let mut levels: Vec<usize> = Vec::new();
        for level in named {
            match levels.iter_mut().find(|known| dimensions[**known] == dimensions[level]) {
                Some(known) => *known = level.max(*known),
                None => levels.push(level),
            }
        }
        levels.sort_unstable();
        measures.sort_unstable();
        Shape { table: def.id, levels, measures }
    }

    /// The finest level of each dimension.
    pub(super) fn finest(&self, dimensions: &[usize]) -> Vec<usize> {
        let of_dimension = self.levels.chunk_by(|&a, &b| dimensions.get(a) == dimensions.get(b));
        of_dimension.filter_map(|levels| levels.last().copied()).collect()
    }

    /// Whether a cuboid of this shape can answer statements of another.
    pub(super) fn contains(&self, other: &Shape, dimensions: &[usize]) -> bool {
        let has_level =
            |&level: &usize| self.levels.iter().any(|&own| dimensions[own] == dimensions[level] && own >= level);
        let has_measure = |wanted: &WantedMeasure| {
            self.measures.iter().any(|own| own.column == wanted.column && own.wanted.contains(wanted.wanted))
        };
        self.table == other.table && other.levels.iter().all(has_level) && other.measures.iter().all(has_measure)
    }

    /// Whether a definition still has all that the shape is of.
    pub(super) fn fits(&self, def: &TableDef) -> bool {
        let levels = dimensions(def).len();
        self.table == def.id && self.levels.iter().all(|&level| level < levels) && self.left(def) == *self
    }

    /// The shape without measures that a definition does not have any more.
    pub(super) fn left(&self, def: &TableDef) -> Shape {
        let has = |measure: &WantedMeasure| {
            def.measures.contains(&measure.column)
                && is_float(def, measure.column).is_ok_and(|is_float| is_float == measure.is_float)
        };
        let measures = self.measures.iter().copied().filter(has).collect();
        Shape { measures, ..self.clone() }
    }

    /// The levels by name, as `alluvia.cuboids` shows them and `CALL alluvia.pin_cuboid` takes them.
    pub fn show_levels(&self, def: &TableDef) -> String {
        let names: Vec<String> = self.levels.iter().filter_map(|&level| level_name(def, level)).collect();
        names.join(", ")
    }

    /// The measures with what is kept of them, likewise.
    pub fn show_measures(&self, def: &TableDef) -> String {
        let show = |measure: &WantedMeasure| {
            let column = quoted_for_letters(&def.column_by_id(measure.column)?.name);
            let Wanted { sum, squares, min_max } = measure.wanted;
            let mut functions = Vec::new();
            functions.extend((sum && !squares).then_some("sum"));
            functions.extend(squares.then_some("var_pop"));
            functions.extend(min_max.then_some("min"));
            if functions.is_empty() {
                functions.push("count");
            }
            let shown: Vec<String> = functions.iter().map(|function| format!("{function}({column})")).collect();
            Some(if measure.wanted == EVERYTHING { column } else { shown.join(", ") })
        };
        self.measures.iter().filter_map(show).collect::<Vec<_>>().join(", ")
    }
}

/// The levels of questions that share their groups.
fn named(questions: &[BoxQuery]) -> impl Iterator<Item = usize> {
    let filters = questions.iter().flat_map(|question| &question.filters).map(|filter| filter.level);
    filters.chain(questions.first().into_iter().flat_map(|question| question.groups.iter().copied()))
}

/// All that totals can keep of a measure.
const EVERYTHING: Wanted = Wanted { sum: true, squares: true, min_max: true };

/// Which dimension each level is of.
pub(crate) fn dimensions(def: &TableDef) -> Vec<usize> {
    def.levels().map(|(dimension, _, _)| dimension).collect()
}

fn is_float(def: &TableDef, column: ColumnId) -> Result<bool> {
    let column = def.column_by_id(column).ok_or_else(|| Error::internal("a measure has no column"))?;
    Ok(matches!(column.data_type, DataType::Real | DataType::Double))
}

fn level_name(def: &TableDef, level: usize) -> Option<String> {
    let (dimension, _, level) = def.levels().nth(level)?;
    Some(format!("{}.{}", quoted_for_letters(&def.dimensions[dimension].name), quoted_for_letters(&level.name)))
}

/// The level of a name, `level` or `dimension.level`.
fn level_named(def: &TableDef, name: &[String]) -> Result<usize> {
    let is_meant = |dimension: usize, level: &str| match name {
        [only] => only == level,
        [path, last] => *path == def.dimensions[dimension].name && last == level,
        _ => false,
    };
    let levels = || def.levels().enumerate();
    let meant: Vec<usize> = levels()
        .filter(|(_, (dimension, _, level))| is_meant(*dimension, &level.name))
        .map(|(place, _)| place)
        .collect();
    let written = name.join(".");
    match meant.as_slice() {
        [level] => {
            if has_level_codes(def, *level) {
                return Ok(*level);
            }
            Err(Error::new(
                ErrorKind::NotSupported,
                format!("level {written} of table '{}' is a number cut in halves: no cuboid has it", def.name),
            ))
        }
        [] => {
            let names: Vec<String> = levels().map(|(_, (_, _, level))| level.name.clone()).collect();
            let full: Vec<String> = levels().filter_map(|(place, _)| level_name(def, place)).collect();
            let near = near_names(&written, names.iter().chain(&full).map(String::as_str));
            let hint = match (near.as_slice(), full.is_empty()) {
                ([], true) => "the table has no dimensions".to_owned(),
                ([], false) => format!("its levels are {}", full.join(", ")),
                (near, _) => format!("did you mean {}?", near.join(" or ")),
            };
            let message = format!("table '{}' has no level {written}", def.name);
            Err(Error::new(ErrorKind::UndefinedObject, message).with_hint(hint))
        }
        several => {
            let full: Vec<String> = several.iter().filter_map(|&level| level_name(def, level)).collect();
            Err(Error::new(
                ErrorKind::UndefinedObject,
                format!("table '{}' has {} levels {written}", def.name, several.len()),
            )
            .with_hint(format!("write {}", full.join(" or "))))
        }
    }
}

fn measure_named(def: &TableDef, name: &str) -> Result<ColumnId> {
    let measures = || def.measures.iter().filter_map(|&id| def.column_by_id(id));
    if let Some(column) = measures().find(|column| column.name == name) {
        return Ok(column.id);
    }
    let names: Vec<&str> = measures().map(|column| column.name.as_str()).collect();
    let hint = match near_names(name, names.iter().copied()).as_slice() {
        [] if names.is_empty() => "the table has no measures".to_owned(),
        [] => format!("its measures are {}", names.join(", ")),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Err(Error::new(ErrorKind::UndefinedColumn, format!("table '{}' has no measure {name}", def.name)).with_hint(hint))
}

/// What a function needs; all there is where none is named.
fn wanted_by(function: Option<&str>) -> Result<Wanted> {
    let nothing = Wanted::default();
    let sum = Wanted { sum: true, ..nothing };
    Ok(match function {
        None => EVERYTHING,
        Some("count") => nothing,
        Some("sum" | "avg" | "mean") => sum,
        Some("min" | "max") => Wanted { min_max: true, ..nothing },
        Some("var" | "var_samp" | "var_sample" | "variance" | "var_pop" | "var_population") => {
            Wanted { squares: true, ..sum }
        }
        Some("stddev" | "stddev_samp" | "stddev_pop") => Wanted { squares: true, ..sum },
        Some(other) => {
            return Err(Error::new(ErrorKind::UndefinedFunction, format!("cuboids have no {other}"))
                .with_hint("they have count, sum, avg, min, max, var_pop, var_samp, stddev and stddev_pop"));
        }
    })
}
