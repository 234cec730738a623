//! Looks at what a statement, or a transaction, has changed, and does what foreign keys say of rows that refer to what is gone.
//!
//! Invariants:
//! - Values are locked before it is looked who has them. Rows that refer to what is gone are looked for first, and locked when they are
//!   changed: what was found says of which version it is, and where others have written since one looks again.
//! - Actions come before checks, which see what is left when nothing more follows.

use crate::events::{Event, Happened, foreign_key, reference_types, types_of};
use crate::messages::{duplicate, orphan, still_referenced};
use crate::values::{Bytes, Values, counts, taken};
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_locks::Mode;
use alluvia_space::{Action, ForeignKey, Index};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, Version};
use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema};
use futures::future::BoxFuture;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Rows that a foreign key's action changes.
#[derive(Debug)]
pub struct Changed {
    /// What tells the rows as they were: the columns of the key, or those of their identities.
    pub told: RecordBatch,
    /// All columns of the table; `None` where the rows go.
    pub rows: Option<RecordBatch>,
    /// The columns that change, by their places.
    pub set: Vec<usize>,
    /// The version at which the rows were looked for.
    pub at: Version,
}

/// Rows that were looked for.
#[derive(Debug)]
pub struct Found {
    /// They themselves.
    pub batches: Vec<RecordBatch>,
    /// What others had committed by then.
    pub at: Version,
}

/// What a session does for its constraints.
pub trait Looks: Send + Sync {
    /// The definitions that its transaction sees.
    fn catalog(&self) -> Result<Arc<Catalog>>;
    /// What is to be looked at now.
    fn take_due(&self) -> Result<Vec<Event>>;
    /// Locks values of a table until the transaction is over.
    fn lock<'a>(&'a self, entry: &'a Arc<TableEntry>, codes: Vec<u128>, mode: Mode) -> BoxFuture<'a, Result<()>>;
    /// The rows, as the transaction sees them now, that have any of these values in columns at these places. Gives columns at the places
    /// `wanted`; behind them, where `told`, what tells the rows.
    fn rows_with<'a>(
        &'a self,
        entry: &'a Arc<TableEntry>,
        columns: &'a [usize],
        values: &'a Values,
        wanted: &'a [usize],
        told: bool,
    ) -> BoxFuture<'a, Result<Found>>;
    /// Whether what is looked at is what others have committed by now.
    fn sees_commits(&self) -> bool;
    /// Returns once nobody else is changing the rows of a table that have these keys, which are locked then.
    fn wait_for<'a>(&'a self, entry: &'a Arc<TableEntry>, keys: Vec<ArrayRef>, mode: Mode)
    -> BoxFuture<'a, Result<()>>;
    /// Changes rows within the statement, all of them or none; a `Conflict` where others have written one since it was looked for. They
    /// are locked then.
    fn change<'a>(&'a self, entry: &'a Arc<TableEntry>, changed: Changed) -> BoxFuture<'a, Result<()>>;
    /// So many values of a column by its default.
    fn default_of<'a>(
        &'a self,
        entry: &'a Arc<TableEntry>,
        column: usize,
        count: usize,
    ) -> BoxFuture<'a, Result<ArrayRef>>;
}

/// How many rounds of actions one statement may take: more is a circle that never ends.
const ROUNDS_MAX: usize = 10_000;
/// How often rows are looked for that others write meanwhile: those that were found stay locked, so there are ever fewer.
const LOOKS_MAX: usize = 100;

/// Looks at all that is due, until nothing is.
pub async fn settle(session: &dyn Looks) -> Result<()> {
    let mut checks: Vec<Event> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let due = session.take_due()?;
        if due.is_empty() {
            if checks.is_empty() {
                return Ok(());
            }
            for check in merged(std::mem::take(&mut checks), true)? {
                look(session, check).await?;
            }
            continue;
        }
        let catalog = session.catalog()?;
        for event in merged(due, false)? {
            match is_check(&catalog, &event) {
                true => checks.push(event),
                false => look(session, event).await?,
            }
        }
    }
    Err(Error::new(ErrorKind::NotSupported, "actions of foreign keys go round in a circle").with_hint(
        "ON UPDATE CASCADE between tables that refer to one another has no end here: write NO ACTION in one of them",
    ))
}

/// Whether an event asks for nothing to be done: what is so when all is done decides. RESTRICT does not wait for that.
fn is_check(catalog: &Catalog, event: &Event) -> bool {
    let key = catalog.by_id(event.table).and_then(|entry| foreign_key(entry, &event.name));
    match (&event.happened, key) {
        (Happened::Goes(_), Some(key)) => key.on_delete == Action::NoAction,
        (Happened::Becomes(..), Some(key)) => key.on_update == Action::NoAction,
        _ => true,
    }
}

/// Events of one constraint and kind as one. Of parents that become others it is so of checks alone: what one becomes by one event, the
/// next may change again.
fn merged(events: Vec<Event>, are_checks: bool) -> Result<Vec<Event>> {
    let mut places = HashMap::new();
    let mut all: Vec<Vec<Event>> = Vec::new();
    for event in events {
        if !are_checks && matches!(event.happened, Happened::Becomes(..)) {
            all.push(vec![event]);
            continue;
        }
        let kind = std::mem::discriminant(&event.happened);
        let at = *places.entry((event.table, event.name.clone(), kind)).or_insert(all.len());
        match all.get_mut(at) {
            Some(known) => known.push(event),
            None => all.push(vec![event]),
        }
    }
    all.into_iter().map(one_of).collect()
}

/// Events of one constraint and kind, of which there is one at least.
fn one_of(mut events: Vec<Event>) -> Result<Event> {
    let Some(last) = events.pop() else { return Err(Error::internal("no events are made one")) };
    if events.is_empty() {
        return Ok(last);
    }
    let (mut firsts, mut seconds) = (Vec::with_capacity(events.len() + 1), Vec::new());
    for event in events.iter().chain([&last]) {
        match &event.happened {
            Happened::Comes(values) | Happened::Refers(values) | Happened::Goes(values) => firsts.push(values),
            Happened::Becomes(old, new) => {
                firsts.push(old);
                seconds.push(new);
            }
        }
    }
    let values = Values::joined(&firsts)?;
    let happened = match &last.happened {
        Happened::Comes(_) => Happened::Comes(values.distinct()?),
        Happened::Refers(_) => Happened::Refers(values.distinct()?),
        Happened::Goes(_) => Happened::Goes(values.distinct()?),
        Happened::Becomes(..) => Happened::Becomes(values, Values::joined(&seconds)?),
    };
    Ok(Event { happened, ..last })
}

async fn look(session: &dyn Looks, event: Event) -> Result<()> {
    let catalog = session.catalog()?;
    // What was dropped since asks for nothing.
    let Some(entry) = catalog.by_id(event.table) else { return Ok(()) };
    match &event.happened {
        Happened::Comes(values) => {
            let index = entry.def.unique_indexes().find(|index| index.name == event.name);
            match index {
                Some(index) => comes(session, entry, index, values).await,
                None => Ok(()),
            }
        }
        happened => {
            let Some(key) = foreign_key(entry, &event.name) else { return Ok(()) };
            let Some(parent) = catalog.by_id(key.parent) else { return Ok(()) };
            let reference = Reference { session, child: entry, key, parent, of: reference(parent, key)? };
            match happened {
                Happened::Refers(values) => reference.refers(values).await,
                Happened::Goes(values) => reference.goes(values, None).await,
                Happened::Becomes(old, new) => reference.goes(old, Some(new)).await,
                Happened::Comes(_) => Ok(()),
            }
        }
    }
}

/// The codes of values of a unique index.
pub fn unique_codes(entry: &TableEntry, index: &Index, values: &Values) -> Result<Vec<u128>> {
    let order: Vec<usize> = (0..index.columns.len()).collect();
    values.codes(entry.def.id, &format!("unique {:?}", index.columns), &order)
}

async fn comes(session: &dyn Looks, entry: &Arc<TableEntry>, index: &Index, values: &Values) -> Result<()> {
    session.lock(entry, unique_codes(entry, index, values)?, Mode::Exclusive).await?;
    let (columns, types) = (entry.def.places(&index.columns)?, types_of(entry, &index.columns)?);
    let key = entry.def.key_columns().unwrap_or_default();
    let wanted: Vec<usize> = columns.iter().chain(&key).copied().collect();
    let mut has_waited = key.is_empty();
    loop {
        let found = session.rows_with(entry, &columns, values, &wanted, false).await?.batches;
        let times = counts(&found, &types)?;
        let keys = values.keys()?;
        let Some(row) = keys.iter().position(|key| times.get(key).is_some_and(|times| *times > 1)) else {
            return Ok(());
        };
        if has_waited {
            return Err(duplicate(&entry.def, index, values.columns(), row)?);
        }
        // Another may be about to take its row away, and has it locked.
        let several: HashSet<&Bytes> = times.iter().filter(|(_, times)| **times > 1).map(|(key, _)| key).collect();
        for batch in &found {
            let places: Vec<usize> = (0..types.len()).collect();
            let of = Values::aligned(batch, &places, &types)?.keys()?;
            let rows: Vec<usize> = (0..of.len()).filter(|row| several.contains(&of[*row])).collect();
            if !rows.is_empty() {
                let keys = taken(&batch.columns()[types.len()..], &rows)?;
                session.wait_for(entry, keys, Mode::Shared).await?;
            }
        }
        has_waited = true;
    }
}

/// How values are compared by which rows refer to a table.
struct Compared {
    types: Vec<DataType>,
    /// The columns in the order of their ids, in which all foreign keys to them are locked alike.
    order: Vec<usize>,
    what: String,
}

fn reference(parent: &TableEntry, key: &ForeignKey) -> Result<Compared> {
    let mut order: Vec<usize> = (0..key.parent_columns.len()).collect();
    order.sort_by_key(|at| key.parent_columns[*at]);
    let ids: Vec<_> = order.iter().map(|at| key.parent_columns[*at]).collect();
    let types = reference_types(parent, &key.parent_columns)?;
    Ok(Compared { types, order, what: format!("referred {ids:?}") })
}

struct Reference<'a> {
    session: &'a dyn Looks,
    child: &'a Arc<TableEntry>,
    key: &'a ForeignKey,
    parent: &'a Arc<TableEntry>,
    of: Compared,
}

impl Reference<'_> {
    async fn lock(&self, values: &Values, mode: Mode) -> Result<()> {
        let codes = values.codes(self.parent.def.id, &self.of.what, &self.of.order)?;
        self.session.lock(self.parent, codes, mode).await
    }

    /// Of these values, those that no parent has.
    async fn parentless(&self, values: &Values) -> Result<Values> {
        let columns = self.parent.def.places(&self.key.parent_columns)?;
        let found = self.session.rows_with(self.parent, &columns, values, &columns, false).await?.batches;
        values.without(&counts(&found, &self.of.types)?)
    }

    async fn refers(&self, values: &Values) -> Result<()> {
        self.lock(values, Mode::Shared).await?;
        let missing = self.parentless(values).await?;
        if missing.is_empty() {
            return Ok(());
        }
        // The rows may be gone since.
        let columns = self.child.def.places(&self.key.columns)?;
        let found = self.session.rows_with(self.child, &columns, &missing, &columns, false).await?.batches;
        match found.iter().find(|batch| batch.num_rows() > 0) {
            None => Ok(()),
            Some(found) => Err(orphan((&self.child.def, self.key), &self.parent.def, found.columns(), 0)?),
        }
    }

    /// Parents have gone that had these values, or have others now.
    async fn goes(&self, old: &Values, new: Option<&Values>) -> Result<()> {
        self.lock(old, Mode::Exclusive).await?;
        let action = if new.is_some() { self.key.on_update } else { self.key.on_delete };
        let columns = self.child.def.places(&self.key.columns)?;
        let width = self.child.def.columns.len();
        let whole: Vec<usize> = (0..width).collect();
        let mut has_waited = self.child.def.key.is_none();
        let mut looks = 0;
        loop {
            looks += 1;
            let gone = old.distinct()?;
            let gone = match action {
                Action::NoAction => self.parentless(&gone).await?,
                // As in PostgreSQL, rows follow the parent that they had, also where another has its value by now.
                _ => gone,
            };
            if gone.is_empty() {
                return Ok(());
            }
            let Found { batches, at } = self.session.rows_with(self.child, &columns, &gone, &whole, true).await?;
            // All at once: what has got another value must not be found by that one again.
            let found = joined(&batches)?;
            if found.num_rows() == 0 {
                return Ok(());
            }
            let (rows, told) = (part(&found, 0..width)?, part(&found, width..found.num_columns())?);
            if let Action::NoAction | Action::Restrict = action {
                if has_waited {
                    let values: Vec<ArrayRef> = columns.iter().map(|at| Arc::clone(rows.column(*at))).collect();
                    return Err(still_referenced((&self.child.def, self.key), &self.parent.def, &values, 0)?);
                }
                // Another may be about to take the rows away, and has them locked.
                self.session.wait_for(self.child, told.columns().to_vec(), Mode::Shared).await?;
                has_waited = true;
                continue;
            }
            let changed = Changed { told, rows: Some(rows), set: columns.clone(), at };
            match self.act(action, changed, old, new).await {
                Err(error)
                    if error.kind() == ErrorKind::Conflict && looks < LOOKS_MAX && self.session.sees_commits() => {}
                done => return done,
            }
        }
    }

    /// Does what an action says to rows that were found.
    async fn act(&self, action: Action, found: Changed, old: &Values, new: Option<&Values>) -> Result<()> {
        let Changed { told, rows: Some(rows), set: columns, at } = found else { return Ok(()) };
        let mut set: Vec<(usize, ArrayRef)> = Vec::with_capacity(columns.len());
        match (action, new) {
            (Action::Cascade, None) => {
                let gone = Changed { told, rows: None, set: Vec::new(), at };
                return self.session.change(self.child, gone).await;
            }
            (Action::Cascade, Some(new)) => {
                let of: HashMap<Bytes, usize> = old.keys()?.into_iter().zip(0..).collect();
                let keys = Values::aligned(&rows, &columns, &self.of.types)?.keys()?;
                let from = keys.iter().map(|key| of.get(key).copied());
                let from = from.collect::<Option<Vec<usize>>>();
                let from = from.ok_or_else(|| Error::internal("a row refers to what no parent was"))?;
                set.extend(columns.iter().copied().zip(taken(new.columns(), &from)?));
            }
            (Action::SetNull, _) => {
                let null = |at: &usize| (*at, new_null_array(rows.column(*at).data_type(), rows.num_rows()));
                set.extend(columns.iter().map(null));
            }
            _ => {
                for at in &columns {
                    set.push((*at, self.session.default_of(self.child, *at, rows.num_rows()).await?));
                }
            }
        }
        let mut arrays = rows.columns().to_vec();
        for (at, array) in set {
            let wanted = self.child.def.columns[at].data_type.to_arrow();
            let array = arrow::compute::cast(&array, &wanted).map_err(misfit)?;
            let column = &self.child.def.columns[at];
            if array.null_count() > 0 && !column.nullable {
                let message = format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, self.child.def.name
                );
                return Err(Error::new(ErrorKind::NotNull, message)
                    .with_hint(format!("foreign key {} sets it where a row goes that it refers to", self.key.name)));
            }
            arrays[at] = array;
        }
        let rows = RecordBatch::try_new(Arc::clone(self.child.storage_schema()), arrays).map_err(misfit)?;
        self.session.change(self.child, Changed { told, rows: Some(rows), set: columns, at }).await
    }
}

/// Of rows that come, those whose values nobody has yet in any of these unique indexes, nor in the key where that counts; neither have
/// rows before them that stay. The values are locked.
pub async fn new_in(
    session: &dyn Looks,
    entry: &Arc<TableEntry>,
    (counts_key, indexes): (bool, &[&Index]),
    rows: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    let mut known: Vec<Known> = Vec::with_capacity(indexes.len() + 1);
    // Rows before values: so is what an INSERT locks.
    if let Some(key) = entry.def.key.as_ref().filter(|_| counts_key) {
        let like = Known::new(entry, &key.columns)?;
        let values = Values::of(&rows, &like.columns, &like.types)?;
        session.wait_for(entry, values.columns().to_vec(), Mode::Exclusive).await?;
        known.push(like);
    }
    for index in indexes {
        let like = Known::new(entry, &index.columns)?;
        let values = Values::of(&rows, &like.columns, &like.types)?;
        session.lock(entry, unique_codes(entry, index, &values)?, Mode::Exclusive).await?;
        known.push(like);
    }
    for like in &mut known {
        let values = Values::of(&rows, &like.columns, &like.types)?.distinct()?;
        let found = session.rows_with(entry, &like.columns, &values, &like.columns, false).await?.batches;
        like.values = counts(&found, &like.types)?.into_keys().collect();
    }
    let mut new = Vec::with_capacity(rows.len());
    for batch in rows {
        let told = known.iter().map(|like| like.told(&batch)).collect::<Result<Vec<_>>>()?;
        let mut keep = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let is_new = known
                .iter()
                .zip(&told)
                .all(|(like, told)| told[row].as_ref().is_none_or(|value| !like.values.contains(value)));
            if is_new {
                let values = known.iter_mut().zip(&told);
                values.for_each(|(like, told)| like.values.extend(told[row].clone()));
            }
            keep.push(is_new);
        }
        let batch = arrow::compute::filter_record_batch(&batch, &keep.into()).map_err(misfit)?;
        new.extend((batch.num_rows() > 0).then_some(batch));
    }
    Ok(new)
}

/// Values that rows have in columns of which no two may have the same.
struct Known {
    columns: Vec<usize>,
    types: Vec<DataType>,
    values: HashSet<Bytes>,
}

impl Known {
    fn new(entry: &TableEntry, columns: &[ColumnId]) -> Result<Known> {
        let (columns, types) = (entry.def.places(columns)?, types_of(entry, columns)?);
        Ok(Known { columns, types, values: HashSet::new() })
    }

    /// What each row has there; `None` of one that has a NULL.
    fn told(&self, batch: &RecordBatch) -> Result<Vec<Option<Bytes>>> {
        let of = Values::aligned(batch, &self.columns, &self.types)?;
        let is_whole = |row: usize| of.columns().iter().all(|column| column.is_valid(row));
        Ok(of.keys()?.into_iter().enumerate().map(|(row, key)| is_whole(row).then_some(key)).collect())
    }
}

/// Columns of a batch.
fn part(batch: &RecordBatch, columns: std::ops::Range<usize>) -> Result<RecordBatch> {
    batch.project(&columns.collect::<Vec<_>>()).map_err(misfit)
}

/// All rows as one batch, by the schema of the first.
pub fn joined(batches: &[RecordBatch]) -> Result<RecordBatch> {
    match batches {
        [] => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
        [one] => Ok(one.clone()),
        [first, ..] => concat_batches(first.schema_ref(), batches).map_err(misfit),
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows of a constraint do not have the columns of their table: {error}"))
}
