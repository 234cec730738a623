//! Pins the snapshot that a statement reads.
//!
//! Order matters: the tables are found first, because freshness may come from their options; then the snapshot is
//! pinned; then everything else goes by that snapshot's definitions.
//!
//! Invariants:
//! - No table is scanned that was not named here, and none that the session may not read: planning finds by their names
//!   what was allowed here, and nothing else ([`Run::named`]).
//! - What is read is allowed by the definitions that it is planned by, those of its snapshot; rights are those of now.
//! - A statement names schemas that are there. What planning has beside them for itself nobody can name.
//! - A statement pins once: the index tried, an outline, a plan, and whatever is planned again read one version by one
//!   set of definitions.
//! - What was pinned, the session has read: no later statement of it reads below.
//! - Within a transaction a statement's snapshot lacks the rows that the transaction has killed: whoever reads it sees
//!   what those before it have changed. The transaction's own rows come beside it.

use crate::execution::blocking::{Rows, blocking, snapshot_of};
use crate::session::run::Run;
use crate::session::state::transaction::Transaction;
use alluvia_catalog::authoriser::{Authoriser, Need};
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{
    Catalog, INFORMATION_SCHEMA, PG_CATALOG, RelationName, SYSTEM_SCHEMA, SearchPath, TEMPORARY_SCHEMA,
    TEMPORARY_SCHEMA_SHOWN, TableEntry,
};
use alluvia_rows::leave_out;
use alluvia_settings::Settings;
use alluvia_snapshot::{Snapshot, TableRead, Want};
use alluvia_syntax::Hints;
use alluvia_syntax::units::{parse_fraction, parse_freshness};
use alluvia_types::{Error, ErrorKind, Freshness, Result, TableId, Version};
use datafusion::common::TableReference;
use std::sync::Arc;
use std::time::Duration;

/// The snapshot that a statement over these tables reads, which the session must be allowed to: no table that is not
/// named here can be scanned. The statement's first look pins it, and all further ones have it.
pub(crate) async fn pin(run: &Run, references: &[TableReference], hints: &Hints) -> Result<Arc<Snapshot>> {
    let pinned = run.pinned();
    if let Some(pinned) = &pinned
        && tables_of(references, &pinned.catalog, &run.scope.path())
            .iter()
            .all(|table| pinned.tables.contains_key(table))
    {
        // A table may have been pinned for a view that reads it.
        run.may_name(&authorise(&run.scope.resolver()?, references, &pinned.catalog)?);
        check_schemas(references, &pinned.catalog)?;
        return Ok(Arc::clone(pinned));
    }
    // A look at other tables than before is at the version of before.
    let snapshot = pin_new(run, references, hints, pinned.map(|pinned| pinned.version)).await?;
    let snapshot = Arc::new(without_killed(run, snapshot).await?);
    run.pin(&snapshot);
    Ok(snapshot)
}

/// The same for a statement that changes what it reads, which has not looked before: the newest version that is visible,
/// whatever freshness is asked for.
pub(crate) async fn pin_newest(run: &Run, references: &[TableReference]) -> Result<Arc<Snapshot>> {
    let newest = |_: &[TableId], _: &Catalog| Ok(Freshness::Within(Duration::ZERO));
    let snapshot = pin_as_fresh(run, references, &Hints::default(), None, Rows::There, newest).await?;
    let snapshot = Arc::new(without_killed(run, snapshot).await?);
    run.pin(&snapshot);
    Ok(snapshot)
}

/// The newest version of tables that constraints look at, whoever the session is; the statement reads nothing else of it.
pub(crate) async fn pin_tables(run: &Run, tables: &[TableId]) -> Result<Arc<Snapshot>> {
    let (at_least, exactly) = match &run.state().transaction {
        Transaction::Open(open) => (open.least(), open.version()),
        _ => (Version(0), None),
    };
    let at_least = at_least.max(run.state().must_see());
    let want = Want { freshness: Freshness::Within(Duration::ZERO), at_least, exactly, tables: tables.to_vec() };
    let mut snapshot = snapshot_of(run.engine().read(), want, Rows::There).await?;
    run.state().add_own_definitions(&mut snapshot, tables)?;
    if let (Some(version), Transaction::Open(open)) = (exactly, &mut run.state().transaction) {
        // What it reads is not what is newest: that nothing came since, COMMIT finds out.
        tables.iter().for_each(|table| open.rests_on(*table, version));
    }
    without_killed(run, snapshot).await.map(Arc::new)
}

/// The same for a statement that reads rows of one table by their keys, and looks itself at what the open transaction has changed; as new
/// as can be for what `is_newest`.
pub(crate) async fn pin_point(run: &Run, table: &RelationName, is_newest: bool) -> Result<Snapshot> {
    let asked = |tables: &[TableId], catalog: &Catalog| match is_newest {
        true => Ok(Freshness::Within(Duration::ZERO)),
        false => freshness_of(tables, catalog, &run.settings, &Hints::default()),
    };
    pin_as_fresh(run, &[reference_of(table)], &Hints::default(), None, Rows::There, asked).await
}

/// Pins a snapshot of these tables, at this version if one is given.
async fn pin_new(
    run: &Run,
    references: &[TableReference],
    hints: &Hints,
    version: Option<Version>,
) -> Result<Snapshot> {
    let asked = |tables: &[TableId], catalog: &Catalog| freshness_of(tables, catalog, &run.settings, hints);
    pin_as_fresh(run, references, hints, version, Rows::Later, asked).await
}

async fn pin_as_fresh(
    run: &Run,
    references: &[TableReference],
    hints: &Hints,
    version: Option<Version>,
    rows: Rows,
    freshness: impl Fn(&[TableId], &Catalog) -> Result<Freshness>,
) -> Result<Snapshot> {
    let store = run.engine().read();
    let authoriser = run.scope.resolver()?;
    let mut catalog = Arc::clone(authoriser.catalog());
    loop {
        let tables = tables_of(references, &catalog, authoriser.path());
        let mut named = authorise(&authoriser, references, &catalog)?;
        let freshness = freshness(&tables, &catalog)?;
        let (at_least, exactly) = {
            let state = run.state();
            match &state.transaction {
                Transaction::Open(open) => match open.version() {
                    Some(_) if hints.freshness.is_some() => return Err(hint_in_transaction()),
                    Some(pinned) => (pinned, Some(pinned)),
                    None => (state.must_see().max(open.least()), version),
                },
                _ => (state.must_see(), version),
            }
        };
        // What the transaction has deleted is left out where the rows are.
        let has_killed = match &run.state().transaction {
            Transaction::Open(open) => !open.killed(|table| tables.contains(table))?.is_empty(),
            _ => false,
        };
        let rows = if has_killed { Rows::There } else { rows };
        let want = Want { freshness, at_least, exactly, tables: tables.clone() };
        let mut snapshot = snapshot_of(store, want, rows).await?;
        run.state().add_own_definitions(&mut snapshot, &tables)?;
        // Between the two looks at the definitions a table may have come or gone.
        if tables_of(references, &snapshot.catalog, authoriser.path()) == tables {
            // Of the same tables a view may have become another.
            if !Arc::ptr_eq(&catalog, &snapshot.catalog) {
                named = authorise(&run.scope.resolver()?, references, &snapshot.catalog)?;
            }
            run.may_name(&named);
            check_schemas(references, &snapshot.catalog)?;
            let mut state = run.state();
            state.has_read(snapshot.version);
            if let Transaction::Open(open) = &mut state.transaction {
                open.has_read(&tables, snapshot.version);
            }
            return Ok(snapshot);
        }
        catalog = Arc::clone(&snapshot.catalog);
    }
}

/// A snapshot as the open transaction sees it, but for its own rows.
async fn without_killed(run: &Run, snapshot: Snapshot) -> Result<Snapshot> {
    let killed = match &run.state().transaction {
        Transaction::Open(open) => open.killed(|table| snapshot.tables.contains_key(table))?,
        _ => return Ok(snapshot),
    };
    if killed.is_empty() {
        return Ok(snapshot);
    }
    let store = Arc::clone(run.engine().read());
    let mut snapshot = snapshot;
    let left_out = blocking(move || {
        leave_out(store.as_ref(), &mut snapshot, killed)?;
        Ok(snapshot)
    });
    left_out.await
}

/// The user table that a name means along a path, in a snapshot that was pinned for it, perhaps beside others.
pub(crate) fn read_of<'a>(snapshot: &'a Snapshot, name: &RelationName, path: &SearchPath) -> Option<&'a TableRead> {
    let entry = snapshot.catalog.found(name, path)?;
    snapshot.tables.get(&entry.def.id)
}

/// A name as planning has it.
pub(crate) fn reference_of(name: &RelationName) -> TableReference {
    match name.schema() {
        None => TableReference::bare(name.name.as_str()),
        Some(schema) => TableReference::partial(schema, name.name.as_str()),
    }
}

/// A name that planning has.
pub(crate) fn named(reference: &TableReference) -> RelationName {
    match reference.schema() {
        None => RelationName::bare(reference.table()),
        Some(schema) => RelationName::in_schema(schema, reference.table()),
    }
}

/// The user tables among the names in a statement, and those that its views read. Names of functions and unknown names are planning's to judge.
fn tables_of(references: &[TableReference], catalog: &Catalog, path: &SearchPath) -> Vec<TableId> {
    let mut tables = Vec::with_capacity(references.len());
    for id in references.iter().filter_map(|reference| catalog.id_of(&named(reference), path)) {
        match catalog.view_by_id(id) {
            Some(view) => tables.extend(catalog.tables_below(view)),
            None => tables.push(id),
        }
    }
    tables
}

/// Refuses what the session may not read: the tables and views that it names, and what these views read, by their owners' rights. Gives those that
/// it names.
fn authorise(authoriser: &Authoriser, references: &[TableReference], catalog: &Catalog) -> Result<Vec<TableId>> {
    const READ: Need = Need::Privilege(Privilege::Select);
    let mut allowed = Vec::with_capacity(references.len());
    for reference in references {
        let name = named(reference);
        let Some(id) = catalog.id_of(&name, authoriser.path()) else { continue };
        if let Some(view) = catalog.view_by_id(id) {
            authoriser.view(READ, view)?;
            authoriser.below_view(view, catalog)?;
        } else if let Some(entry) = catalog.by_id(id) {
            authoriser.table(READ, entry)?;
        }
        allowed.push(id);
    }
    Ok(allowed)
}

/// Refuses names in a schema that is none: what planning has for itself is no statement's to name, and nobody was asked about it.
fn check_schemas(references: &[TableReference], catalog: &Catalog) -> Result<()> {
    for reference in references {
        let is_there = match reference.schema() {
            None | Some(SYSTEM_SCHEMA | PG_CATALOG | INFORMATION_SCHEMA) => true,
            Some(TEMPORARY_SCHEMA_SHOWN) => catalog.schema(TEMPORARY_SCHEMA).is_ok(),
            Some(schema) => catalog.schema(schema).is_ok(),
        };
        if !is_there {
            catalog.relation(&named(reference), &SearchPath::default())?;
        }
    }
    Ok(())
}

/// Hint, else setting, else the freshest of what the tables ask for.
fn freshness_of(tables: &[TableId], catalog: &Catalog, settings: &Settings, hints: &Hints) -> Result<Freshness> {
    if let Some(hint) = &hints.freshness {
        return parse_freshness(hint);
    }
    if let Some(set) = settings.freshness {
        return Ok(set);
    }
    let mut wanted: Option<Freshness> = None;
    for entry in tables.iter().filter_map(|id| catalog.by_id(*id)) {
        let own = own_freshness(entry)?;
        wanted = Some(wanted.map_or(own, |other| fresher(own, other)));
    }
    Ok(wanted.unwrap_or(Freshness::Within(Duration::ZERO)))
}

/// The share of rows that a statement reads: hint, else setting.
pub(crate) fn sample_fraction_of(settings: &Settings, hints: &Hints) -> Result<f64> {
    match &hints.sample_fraction {
        Some(hint) => parse_fraction(hint),
        None => Ok(settings.sample_fraction),
    }
}

/// What a table asks for by itself.
pub(crate) fn own_freshness(entry: &TableEntry) -> Result<Freshness> {
    match &entry.def.options.freshness {
        Some(text) => parse_freshness(text),
        None => Ok(Freshness::Within(Duration::ZERO)),
    }
}

/// All statements read one version, so a hint could only be left out.
fn hint_in_transaction() -> Error {
    Error::new(
        ErrorKind::NotSupported,
        "the hint freshness inside a transaction that reads one version is not supported",
    )
    .with_hint(
        "reads of it are at its BEGIN: SET freshness before, read outside of it, or BEGIN ISOLATION LEVEL READ COMMITTED",
    )
}

fn fresher(a: Freshness, b: Freshness) -> Freshness {
    match (a, b) {
        (Freshness::Within(a), Freshness::Within(b)) => Freshness::Within(a.min(b)),
        (Freshness::Merged, other) | (other, Freshness::Merged) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fresher_of_two_tables_wins() {
        let within = |seconds| Freshness::Within(Duration::from_secs(seconds));
        assert_eq!(fresher(within(5), within(1)), within(1));
        assert_eq!(fresher(Freshness::Merged, within(9)), within(9));
        assert_eq!(fresher(Freshness::Merged, Freshness::Merged), Freshness::Merged);
    }
}
