//! INSERT of rows with computed values: `VALUES (lower('A'), 1.50), ('b', now())`.
//!
//! Invariants:
//! - As in PostgreSQL, each value of each row is assigned to its column by itself. A literal is read as in rows of
//!   literals alone ([`crate::session::insert::values`]): a number arrives by its digits, whatever stands beside it. A
//!   computed value has its own type.
//! - So each computed value is a column of a query of one row, whose subqueries are planned as those of any query. More
//!   than [`EACH_MAX`] values would take long to plan: they become VALUES, whose columns have one type each. That is
//!   the type of the table's column where another type would lose digits or words.
//! - An expression that gives the same wherever it stands in a statement is computed once.

use crate::errors::from_datafusion;
use crate::session::insert::values::{AmongLiterals, batch, literals_among};
use crate::session::run::Run;
use crate::session::select::planning::plan;
use crate::used::UsedCounters;
use alluvia_catalog::TableEntry;
use alluvia_copy::progress::Phase;
use alluvia_copy::{Assigner, Lacking};
use alluvia_space::{DataType, TableDef};
use alluvia_syntax::Hints;
use alluvia_syntax::names::name_of;
use alluvia_syntax::parameters::sql_type;
use alluvia_syntax::statements::rules::Overriding;
use alluvia_syntax::trees::rewriting::contains;
use alluvia_syntax::trees::value_rows::{query_of_row, write_out};
use alluvia_syntax::trees::visit::visit;
use alluvia_types::{Error, Result};
use alluvia_values::builders::TextAs;
use alluvia_values::compact::tight_batch;
use alluvia_values::errors::not_supported;
use alluvia_values::time_zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{concat_batches, interleave};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Function, ObjectNamePart, Parens, Query, SetExpr, Value, Values, Visitor,
};
use futures::StreamExt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Values that are computed each by itself.
const EACH_MAX: usize = 128;

/// Functions that give the same wherever they stand in a statement.
const STABLE: [&str; 4] = ["now", "current_timestamp", "current_date", "current_time"];

/// Functions that give several rows.
const OF_ROWS: [&str; 2] = ["unnest", "unnest_outer"];

/// A query for what is computed.
struct ComputedQuery {
    query: Box<Query>,
    /// Its rows, and whether they have their number in front.
    rows: usize,
    is_numbered: bool,
    parts: Vec<Part>,
}

/// Values of one column of the query that go to one column of the table.
struct Part {
    /// Which value of a row.
    place: usize,
    /// Which column of the query.
    column: usize,
    /// Rows of the table, and those of the query.
    cells: Vec<(usize, usize)>,
}

/// The rows of `VALUES` that are not all literals, and what was read for them; all have as many values as there are
/// `targets`.
pub(crate) async fn computed_rows(
    run: &Arc<Run>,
    values: &Values,
    entry: &Arc<TableEntry>,
    targets: &[usize],
    overriding: Option<Overriding>,
    hints: &Hints,
) -> Result<(RecordBatch, Lacking, Arc<UsedCounters>)> {
    let AmongLiterals { mut arrays, computed, lacking } =
        literals_among(values, entry, targets, overriding, &run.settings.time_zone)?;
    for &(row, place) in &computed {
        refuse_of_rows(expr_at(values, row, place)?, "VALUES", run.engine().functions())?;
    }
    let wanted = computed_query(values, &computed, &entry.def, targets)?;
    let planned = plan(run, wanted.query, hints).await?;
    let mut stream = planned.execute()?;
    let mut batches = Vec::new();
    run.progress.set_phase(Phase::Running);
    while let Some(next) = stream.next().await {
        run.token.check()?;
        batches.push(next.map_err(from_datafusion)?);
    }
    let found = concat_batches(&planned.schema(), &batches).map_err(internal)?;
    let used = planned.used();
    // A batch may have to wait until what statements hold is given back: not for its own.
    drop((stream, planned));
    if found.num_rows() != wanted.rows {
        return Err(Error::internal(format!("{} rows of VALUES became {}", wanted.rows, found.num_rows())));
    }
    let order = if wanted.is_numbered { Some(order_of(&found)?) } else { None };
    put_in(&mut arrays, &found, order.as_deref(), &wanted.parts, (&entry.def, &run.settings.time_zone), targets)?;
    let rows = tight_batch(batch(entry, arrays, values.rows.len(), &lacking)?);
    Ok((rows, lacking, used))
}

fn internal(error: ArrowError) -> Error {
    Error::internal(format!("rows could not be assembled: {error}"))
}

fn expr_at(values: &Values, row: usize, place: usize) -> Result<&Expr> {
    let expr = values.rows.get(row).and_then(|row| row.content.get(place));
    expr.ok_or_else(|| Error::internal("a value of a row is missing"))
}

/// The query for the values at these rows and places.
fn computed_query(
    values: &Values,
    computed: &[(usize, usize)],
    def: &TableDef,
    targets: &[usize],
) -> Result<ComputedQuery> {
    let mut exprs: Vec<Expr> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut parts: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
    for &(row, place) in computed {
        let expr = expr_at(values, row, place)?;
        let text = (!contains(expr, varies)).then(|| expr.to_string());
        let column = match text.as_ref().and_then(|text| known.get(text)) {
            Some(column) => *column,
            None => {
                exprs.push(expr.clone());
                known.extend(text.map(|text| (text, exprs.len() - 1)));
                exprs.len() - 1
            }
        };
        if exprs.len() > EACH_MAX {
            return as_values(values, computed, def, targets);
        }
        parts.entry((place, column)).or_default().push((row, 0));
    }
    let parts = parts.into_iter().map(|((place, column), cells)| Part { place, column, cells }).collect();
    Ok(ComputedQuery { query: query_of_row(exprs)?, rows: 1, is_numbered: false, parts })
}

/// Whether an expression may give something else each time.
fn varies(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if !called(function).is_some_and(|name| STABLE.contains(&name.as_str())))
}

fn called(function: &Function) -> Option<String> {
    function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of)
}

/// The query that has the computed values as VALUES: rows that have any, by their numbers, with NULL for all else.
fn as_values(values: &Values, computed: &[(usize, usize)], def: &TableDef, targets: &[usize]) -> Result<ComputedQuery> {
    let is_computed: HashSet<(usize, usize)> = computed.iter().copied().collect();
    let sorted = |mut numbers: Vec<usize>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let rows = sorted(computed.iter().map(|(row, _)| *row).collect());
    let places = sorted(computed.iter().map(|(_, place)| *place).collect());
    let mut numbered = Vec::with_capacity(rows.len());
    for (at, &row) in rows.iter().enumerate() {
        let mut content = Vec::with_capacity(places.len() + 1);
        content.push(Expr::Value(Value::Number(at.to_string(), false).into()));
        for &place in &places {
            content.push(match is_computed.contains(&(row, place)) {
                true => as_stored(expr_at(values, row, place)?.clone(), def, targets, place),
                false => Expr::Value(Value::Null.into()),
            });
        }
        numbered.push(Parens::with_empty_span(content));
    }
    let mut query = query_of_row(Vec::new())?;
    *query.body = SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: numbered });
    write_out(&mut query, false)?;
    let part = |(at, &place): (usize, &usize)| {
        let cells = rows.iter().enumerate().filter(|(_, row)| is_computed.contains(&(**row, place)));
        Part { place, column: at + 1, cells: cells.map(|(at, row)| (*row, at)).collect() }
    };
    let parts = places.iter().enumerate().map(part).collect();
    Ok(ComputedQuery { query, rows: rows.len(), is_numbered: true, parts })
}

/// A value as what its column holds, where a type that it has in common with others would make another thing of it:
/// texts of a date and of a timestamp are two, and a whole number of many digits is none as a double.
fn as_stored(expr: Expr, def: &TableDef, targets: &[usize], place: usize) -> Expr {
    use DataType::{Decimal, Int16, Int32, Int64, Numeric, Text};
    let column = targets.get(place).and_then(|column| def.columns.get(*column));
    let is_exact = |of: &DataType| matches!(of, Text | Int16 | Int32 | Int64 | Decimal { .. } | Numeric);
    match column.filter(|column| is_exact(&column.data_type)).and_then(|of| sql_type(&of.data_type.to_arrow())) {
        Some(data_type) => {
            Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
        }
        None => expr,
    }
}

/// Where the row of each number has come.
fn order_of(found: &RecordBatch) -> Result<Vec<usize>> {
    let wrong = || Error::internal("rows of VALUES have lost their numbers");
    let numbers =
        found.columns().first().and_then(|numbers| numbers.as_primitive_opt::<Int64Type>()).ok_or_else(wrong)?;
    let mut order = vec![0; numbers.len()];
    for (at, number) in numbers.values().iter().enumerate() {
        let place = usize::try_from(*number).ok().and_then(|number| order.get_mut(number));
        *place.ok_or_else(wrong)? = at;
    }
    Ok(order)
}

/// Puts what was found among the literals of the table's columns.
fn put_in(
    arrays: &mut [ArrayRef],
    found: &RecordBatch,
    order: Option<&[usize]>,
    parts: &[Part],
    (def, zone): (&TableDef, &Zone),
    targets: &[usize],
) -> Result<()> {
    let at = |row: usize| order.map_or(row, |order| order[row]);
    let mut sources: BTreeMap<usize, Vec<ArrayRef>> = BTreeMap::new();
    let mut indices: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    let mut first: Option<((usize, usize), Error)> = None;
    for part in parts {
        let column = targets[part.place];
        let schema = found.schema();
        let assigner = Assigner::for_columns(&schema, def, &[column], &[Some(part.column)], TextAs::Plain)?;
        let (assigned, bad) = assigner.of_query().in_zone(zone).convert(found)?;
        if !bad.is_empty() {
            let rows: HashMap<usize, usize> = part.cells.iter().rev().map(|&(row, from)| (at(from), row)).collect();
            for bad in bad {
                // What is not asked for is NULL.
                let Some(&row) = rows.get(&bad.row) else { continue };
                if first.as_ref().is_none_or(|(place, _)| (row, column) < *place) {
                    let message = format!("row {}, {}", row + 1, bad.reason(def));
                    first = Some(((row, column), Error::new(bad.bad.kind(), message)));
                }
            }
        }
        let literals = &arrays[column];
        let sources = sources.entry(column).or_insert_with(|| vec![Arc::clone(literals)]);
        let indices = indices.entry(column).or_insert_with(|| (0..literals.len()).map(|row| (0, row)).collect());
        for &(row, from) in &part.cells {
            indices[row] = (sources.len(), at(from));
        }
        sources.extend(assigned);
    }
    if let Some((_, error)) = first {
        return Err(error);
    }
    for (column, sources) in sources {
        let sources: Vec<&dyn Array> = sources.iter().map(|array| array.as_ref()).collect();
        let indices = indices.remove(&column).unwrap_or_default();
        arrays[column] = interleave(&sources, &indices).map_err(internal)?;
    }
    Ok(())
}

/// Refuses what would make another thing of the other values of a row in this place: aggregates, windows, and functions
/// that give several rows.
pub(crate) fn refuse_of_rows(expr: &Expr, place: &str, state: &SessionState) -> Result<()> {
    match visit(expr, &mut OfRows { state, queries: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => Err(not_supported(format!("{name} in {place}"))
            .with_hint("write a subquery, or a query in FROM where its rows come from")),
    }
}

/// Ends at the first such call that is in no query within.
struct OfRows<'a> {
    state: &'a SessionState,
    queries: usize,
}

impl Visitor for OfRows<'_> {
    type Break = String;

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<String> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<String> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some(name) = called(function).filter(|_| self.queries == 0) else { return ControlFlow::Continue(()) };
        let is_aggregate =
            !self.state.scalar_functions().contains_key(&name) && self.state.aggregate_functions().contains_key(&name);
        if function.over.is_some() || is_aggregate || OF_ROWS.contains(&name.as_str()) {
            return ControlFlow::Break(name);
        }
        ControlFlow::Continue(())
    }
}
