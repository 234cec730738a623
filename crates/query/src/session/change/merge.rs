//! MERGE.
//!
//! Invariants:
//! - A row of the table is changed once: a second row of the source that would change it is an error.
//! - One batch has all that the clauses do, in an order in which each part is right: what goes by its key goes first, then
//!   rows are written over those that are there, then rows come, whose keys must be free then.
//! - Also a row that comes was computed from what was there: of its key there was nothing.

use crate::session::change::beside::{number_name, numbered};
use crate::session::change::existing::{refuse_columns_of_rows, telling};
use crate::session::change::reading::{Read, Reading, misfit};
use crate::session::change::returning::Returned;
use crate::session::change::written::Written;
use crate::session::constraints::concern;
use crate::session::rules::rules_of;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::sequences::asks_sequence;
use crate::table::sql_schema;
use alluvia_catalog::rights::Privilege;
use alluvia_change::{
    ACTIONS, MergeChange, MergeQuery, MergeWrite, ROWS, SOURCE, Seen, merge_query, merge_returning_query,
};
use alluvia_constraints::Doing;
use alluvia_snapshot::RowChange;
use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::merge::{ACTION, Merge, MergeAction};
use alluvia_syntax::trees::visit::visit;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{Expr, ObjectNamePart, Query, SelectItem, SetExpr, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// MERGE.
pub(super) async fn merge(run: &Run, merge: &Merge) -> Result<Outcome> {
    check_clauses(run, merge)?;
    let queries: Vec<&Query> = std::iter::once(merge.query.as_ref()).chain(merge.returning.as_deref()).collect();
    let reading = Reading::begin(run, &merge.table, &privileges(merge), &queries).await?;
    let MergeQuery { query, gone, known, whole, source, changes } = merge_query(&reading.entry.def, merge)?;
    let read = reading.read(run, query, [reading.target(gone)]).await?;
    let moves = changes.iter().any(|change| matches!(change.write, MergeWrite::Update { moves: true, .. }));
    if moves && concern(run, &reading.entry, Doing::Deletes)? {
        return Err(not_supported("setting the key of a table in MERGE to which foreign keys refer")
            .with_hint("UPDATE the key: what refers to it follows, or refuses it"));
    }
    let rules = rules_of(run, &reading.entry).await?;
    let (removes, told) = telling(&reading, gone)?;
    let mut seen = Seen::default();
    let mut done = Done::default();
    for change in &changes {
        for batch in applied(&read, change)? {
            done.count += batch.num_rows() as u64;
            if !matches!(change.write, MergeWrite::Insert { .. }) {
                refuse_repeated(&mut seen, &batch.columns()[1..=known])?;
            }
            let goes = || RecordBatch::try_new(Arc::clone(&told), batch.columns()[1..=known].to_vec()).map_err(misfit);
            let one = std::slice::from_ref(&batch);
            let rows = match &change.write {
                MergeWrite::Delete => {
                    done.gone.push(goes()?);
                    whole.map(|first| reading.as_stored(&batch, first)).transpose()?.into_iter().collect()
                }
                MergeWrite::Update { places, moves } => {
                    let rows = reading.assigned_from(&read, places, one)?;
                    if let Some(rules) = &rules {
                        rules.check(&rows)?;
                    }
                    if *moves || removes == RowChange::DeleteRows {
                        done.gone.push(goes()?);
                        done.came.extend(rows.iter().cloned());
                    } else {
                        done.replaced.extend(rows.iter().cloned());
                    }
                    rows
                }
                MergeWrite::Insert { places } => {
                    let rows = reading.assigned_from(&read, places, one)?;
                    if let Some(rules) = &rules {
                        rules.check(&rows)?;
                    }
                    done.came.extend(rows.iter().cloned());
                    rows
                }
            };
            if let Some(first) = source {
                done.made.extend(rows.into_iter().map(|rows| Made::of(rows, &batch, first, change.name)));
            }
        }
    }
    let returned = match (&merge.returning, source) {
        (Some(query), Some(first)) => returned(run, &reading, merge, query, &read, first, &done.made).await?,
        _ => Returned::nothing(),
    };
    let computed_at = Some(reading.snapshot.version);
    let written = Written::nothing(&reading)
        .and(removes, computed_at, done.gone)
        .and(RowChange::Upsert, computed_at, done.replaced)
        .and(RowChange::Insert, computed_at, done.came);
    written.commit(run, reading).await?;
    run.progress.add_rows(done.count);
    Ok(returned.outcome(format!("MERGE {}", done.count)).with_used(read.used))
}

/// What the clauses do.
#[derive(Default)]
struct Done {
    count: u64,
    /// What tells the rows that go.
    gone: Vec<RecordBatch>,
    /// Rows in the place of those that have their keys.
    replaced: Vec<RecordBatch>,
    /// Rows that come.
    came: Vec<RecordBatch>,
    /// What RETURNING is asked of.
    made: Vec<Made>,
}

/// Rows as they are then, or were, with the rows of the source beside them.
struct Made {
    rows: RecordBatch,
    source: Vec<ArrayRef>,
    action: &'static str,
}

impl Made {
    /// Of a batch of the query whose columns from `first` on are the source's; the last is not.
    fn of(rows: RecordBatch, batch: &RecordBatch, first: usize, action: &'static str) -> Made {
        Made { rows, source: batch.columns()[first..batch.num_columns() - 1].to_vec(), action }
    }
}

/// What the session must be allowed to do with the table.
fn privileges(merge: &Merge) -> Vec<Privilege> {
    let privilege = |action: &MergeAction| match action {
        MergeAction::Nothing => None,
        MergeAction::Delete => Some(Privilege::Delete),
        MergeAction::Update(_) => Some(Privilege::Update),
        MergeAction::Insert(_) => Some(Privilege::Insert),
    };
    merge.clauses.iter().filter_map(|clause| privilege(&clause.action)).collect()
}

/// Refuses conditions and values that would mean another thing where the query has them.
fn check_clauses(run: &Run, merge: &Merge) -> Result<()> {
    refuse_columns_of_rows(run, &merge.query, "a WHEN clause of MERGE")?;
    let SetExpr::Select(select) = merge.query.body.as_ref() else { return Ok(()) };
    for at in merge.clauses.iter().filter_map(|clause| clause.condition) {
        if let Some(SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr)) = select.projection.get(at)
        {
            refuse_varying(expr, run.engine().functions())?;
        }
    }
    Ok(())
}

/// Refuses functions that give something else each time: a condition is looked at for each value of its clause.
fn refuse_varying(condition: &Expr, state: &SessionState) -> Result<()> {
    match visit(condition, &mut Varying(state)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => Err(not_supported(format!("{name} in the condition of a WHEN clause"))
            .with_hint(format!("have the source give it: USING (SELECT *, {name}() AS r FROM ...) AS s"))),
    }
}

/// Ends at the first call of such a function.
struct Varying<'a>(&'a SessionState);

impl Visitor for Varying<'_> {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of).unwrap_or_default();
        match self.0.scalar_functions().get(&name) {
            Some(known) if known.signature().volatility == Volatility::Volatile => ControlFlow::Break(name),
            // Only statements that ask sequences have functions for it.
            None if asks_sequence(&name) => ControlFlow::Break(name),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The rows to which a clause applies; no batch is empty.
fn applied(read: &Read, change: &MergeChange) -> Result<Vec<RecordBatch>> {
    let wanted = Int64Array::new_scalar(change.number);
    let mut batches = Vec::new();
    for batch in &read.batches {
        let number = batch.columns().first().ok_or_else(|| Error::internal("a MERGE gives no columns"))?;
        let number = cast(number, &DataType::Int64).map_err(misfit)?;
        let applies = eq(number.as_primitive::<Int64Type>(), &wanted).map_err(misfit)?;
        let batch = filter_record_batch(batch, &applies).map_err(misfit)?;
        if batch.num_rows() > 0 {
            batches.push(batch);
        }
    }
    Ok(batches)
}

/// Refuses rows that were changed already.
fn refuse_repeated(seen: &mut Seen, known: &[ArrayRef]) -> Result<()> {
    if seen.are_new(known)?.false_count() == 0 {
        return Ok(());
    }
    let message = "MERGE command cannot affect row a second time";
    Err(Error::new(ErrorKind::TooManyRows, message)
        .with_hint("ensure that not more than one row of the source matches any one row of the table"))
}

/// What RETURNING gives of what was made.
async fn returned(
    run: &Run,
    reading: &Reading,
    merge: &Merge,
    query: &Query,
    read: &Read,
    first: usize,
    made: &[Made],
) -> Result<Returned> {
    let def = &reading.entry.def;
    let fields = read.schema.fields();
    let source: Vec<FieldRef> = fields.iter().take(fields.len() - 1).skip(first).cloned().collect();
    let names: Vec<String> = source.iter().map(|field| field.name().clone()).collect();
    let number = number_name(names.iter().chain(def.columns.iter().map(|column| &column.name)));
    let target = sql_schema(def).fields().iter().cloned().collect();
    let action = vec![Arc::new(Field::new(ACTION[1], DataType::Utf8, false))];
    let action_of = |made: &Made| -> Vec<ArrayRef> {
        vec![Arc::new(StringArray::from_iter_values(std::iter::repeat_n(made.action, made.rows.num_rows())))]
    };
    let given = vec![
        numbered(ROWS, target, &number, made.iter().map(|made| made.rows.columns().to_vec()).collect())?,
        numbered(SOURCE, source, &number, made.iter().map(|made| made.source.clone()).collect())?,
        numbered(ACTIONS, action, &number, made.iter().map(action_of).collect())?,
    ];
    let made = |query: &Query| merge_returning_query(def, merge, query, &names, &number);
    Returned::by(run, reading, query, made, || Ok(given.clone())).await
}
