//! Locks of rows: who changes rows by their keys holds these until the transaction is over, and so does who asks FOR UPDATE.
//!
//! The order is: lock, then look whether the rows were written since the version that was read. A writer that holds no locks looks
//! whether rows are locked after it has the table's keys ([`alluvia_snapshot::Heeds`]), where the look for writes is, too: one of the
//! two sees the other.
//!
//! Invariants:
//! - A row that a statement has locked was not written after the version that it read, or the statement is a `Conflict`: it is run
//!   again on a newer version at READ COMMITTED, with its locks held, and refused at the other levels. From then on nobody else writes
//!   it, so at READ COMMITTED its change says no more what it was computed from.
//! - Codes of one statement are locked in their order, so statements that change the same rows do not wait for one another in a
//!   circle. A circle of several statements is found when it closes.
//! - A statement outside of a transaction looks for locks only where there are any. The store tells it of those that came meanwhile.
//! - So many rows that locking them would cost more than it is worth ([`ROWS_MAX`]) are not locked: what others do to them meanwhile
//!   is found at COMMIT, as everywhere on several machines.

use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::state::scope::Scope;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_locks::{Key, Mode, Scope as LockScope};
use alluvia_snapshot::{Heeds, NewRows};
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Error, ErrorKind, Freshness, Result, TableId, Version};
use arrow::array::RecordBatch;
use std::sync::Arc;
use std::time::Duration;

/// Rows of one statement that are locked at most.
pub(crate) const ROWS_MAX: usize = 1 << 17;

/// Whether a row that another session has locked is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// For as long as `lock_timeout` says.
    Waits,
    /// Not at all: NOWAIT.
    None,
}

/// Rows of one table by their keys.
pub(crate) struct KeyedRows<'a> {
    pub(crate) table: TableId,
    pub(crate) name: &'a str,
    pub(crate) coder: &'a KeyCoder,
    /// With the columns of the key, by storage name.
    pub(crate) keys: Vec<&'a RecordBatch>,
    /// Of `keys`.
    pub(crate) codes: Vec<Vec<KeyCode>>,
}

impl<'a> KeyedRows<'a> {
    /// # Errors
    /// Those of [`KeyCoder::codes`].
    pub(crate) fn new(entry: &'a TableEntry, coder: &'a KeyCoder, keys: Vec<&'a RecordBatch>) -> Result<KeyedRows<'a>> {
        let codes = keys.iter().map(|keys| coder.codes(keys)).collect::<Result<Vec<_>>>()?;
        Ok(KeyedRows { table: entry.def.id, name: &entry.def.name, coder, keys, codes })
    }

    fn sorted(&self) -> Vec<KeyCode> {
        let mut codes = self.codes.concat();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// The key of a code, as it is told.
    fn shown(&self, code: KeyCode) -> String {
        let found = self.keys.iter().zip(&self.codes).find_map(|(keys, codes)| {
            let row = codes.iter().position(|known| *known == code)?;
            Some(self.coder.show(keys, row))
        });
        found.unwrap_or_else(|| "of a row".to_owned())
    }
}

/// Whether rows of a table are locked at all.
fn are_locked(run: &Run, table: TableId) -> bool {
    !run.engine().read().is_remote() && !is_temporary(table)
}

/// The session, for a batch that is to heed what others have locked.
pub(crate) fn heeds(scope: &Scope) -> Option<Heeds> {
    let locks = Arc::clone(scope.engine.sessions().locks());
    (!scope.engine.read().is_remote()).then(|| Heeds { locks, session: scope.id })
}

/// Locks rows for the session's transaction, or until its statement is over.
///
/// # Errors
/// `Deadlock`; `LockNotAvailable` of a lock that is not waited for, or not for so long.
pub(crate) async fn lock_rows(run: &Run, rows: &KeyedRows<'_>, mode: Mode, patience: Patience) -> Result<()> {
    let shown = |code| format!("row with key {} of table {}", rows.shown(code), rows.name);
    lock_codes(run, (rows.table, rows.name), &rows.sorted(), mode, patience, shown).await
}

/// Stands for all values of a table: who locks more than [`ROWS_MAX`] has this one alone, and who locks fewer shares it.
const WHOLE: u128 = u128::MAX - 1;

/// Locks values of a table that its constraints look for, for the session's transaction.
///
/// # Errors
/// Those of [`lock_rows`].
pub(crate) async fn lock_values(run: &Run, def: &TableDef, mut codes: Vec<u128>, mode: Mode) -> Result<()> {
    codes.sort_unstable();
    codes.dedup();
    if codes.is_empty() {
        return Ok(());
    }
    let (table, shown) =
        ((def.id, def.name.as_str()), |_| format!("value that a constraint of table {} is of", def.name));
    if codes.len() > ROWS_MAX {
        return lock_whole(run, def).await;
    }
    lock_codes(run, table, &[WHOLE], Mode::Shared, Patience::Waits, shown).await?;
    lock_codes(run, table, &codes, mode, Patience::Waits, shown).await
}

/// Locks all values of a table.
pub(crate) async fn lock_whole(run: &Run, def: &TableDef) -> Result<()> {
    let shown = |_| format!("values that constraints of table {} are of", def.name);
    lock_codes(run, (def.id, &def.name), &[WHOLE], Mode::Exclusive, Patience::Waits, shown).await
}

async fn lock_codes(
    run: &Run,
    (table, name): (TableId, &str),
    codes: &[u128],
    mode: Mode,
    patience: Patience,
    shown: impl Fn(u128) -> String,
) -> Result<()> {
    let (locks, session) = (run.engine().sessions().locks(), run.scope.id);
    let mut left = codes;
    while !left.is_empty() {
        let locked = locks.try_rows(session, table, left, mode)?;
        let Some((&code, rest)) = left[locked..].split_first() else { break };
        let key = Key::Row { table, code };
        let held = || {
            let holders: Vec<String> = locks.holders_beside(session, key).iter().map(u64::to_string).collect();
            format!("{}, which session {} holds", shown(code), holders.join(", "))
        };
        if patience == Patience::None {
            let message = format!("could not obtain lock on row in relation \"{name}\"");
            return Err(Error::new(ErrorKind::LockNotAvailable, message)
                .with_hint(format!("NOWAIT does not wait for the {}", held())));
        }
        let told = held();
        let waiting = locks.lock(session, key, mode, LockScope::Transaction);
        let done = match run.settings.lock_timeout {
            Duration::ZERO => waiting.await,
            limit => tokio::time::timeout(limit, waiting).await.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::LockNotAvailable, "canceling statement due to lock timeout")
                    .with_hint(format!("lock_timeout was waited for the {told}")))
            }),
        };
        done.map_err(|error| match error.kind() {
            ErrorKind::Deadlock => error.with_detail(format!("It waits for the {told}.")),
            _ => error,
        })?;
        left = rest;
    }
    Ok(())
}

/// Waits until what has written any of these rows above a version is visible; gives whether anything has. The rows are locked.
pub(crate) async fn was_written(run: &Run, table: TableId, codes: Vec<KeyCode>, above: Version) -> Result<bool> {
    let store = Arc::clone(run.engine().read());
    if store.last_written_now(table, &codes, above) == Some(None) {
        return Ok(false);
    }
    blocking(move || match store.last_written(table, &codes, above) {
        Some(version) => store.wait_visible(version).map(|()| true),
        None => Ok(false),
    })
    .await
}

/// Locks the rows that changes of one table are about, which are to be made in the session's transaction, or now. Gives whether they are
/// locked.
///
/// # Errors
/// Those of [`lock_rows`]; `Conflict` where rows were written since the version that their change was computed from.
pub(crate) async fn lock_changes(run: &Run, entry: &TableEntry, changes: &[NewRows]) -> Result<bool> {
    let Some(coder) = KeyCoder::new(&entry.def).filter(|_| are_locked(run, entry.def.id)) else { return Ok(false) };
    let count: usize = changes.iter().flat_map(|rows| &rows.batches).map(RecordBatch::num_rows).sum();
    if count == 0 || count > ROWS_MAX {
        return Ok(false);
    }
    // The newest version of now, which need not stay readable: what has written these keys since is waited for, and no more.
    let seen = run.engine().read().required(Freshness::Within(Duration::ZERO), Version(0));
    let all = KeyedRows::new(entry, &coder, changes.iter().flat_map(|rows| &rows.batches).collect())?;
    lock_rows(run, &all, Mode::Exclusive, Patience::Waits).await?;
    // Who reads one version may not write over what has come since.
    let pinned = match &run.state().transaction {
        Transaction::Open(open) => open.version(),
        _ => None,
    };
    let mut codes = all.codes.iter();
    for rows in changes {
        let codes: Vec<KeyCode> = codes.by_ref().take(rows.batches.len()).flatten().copied().collect();
        let read = rows.computed_at.or(pinned);
        let was_written = was_written(run, entry.def.id, codes, read.unwrap_or(seen)).await?;
        if was_written && read.is_some() {
            return Err(written_since(&entry.def.name));
        }
    }
    Ok(true)
}

/// The same of all changes of a batch, where any rows are locked: outside of a transaction locks are looked for, and none is left.
pub(crate) async fn lock_batch(run: &Run, rows: &[NewRows], catalog: &Catalog) -> Result<()> {
    if !run.engine().sessions().locks().has_rows() {
        return Ok(());
    }
    for changed in rows.chunk_by(|a, b| a.table == b.table) {
        let Some(entry) = changed.first().and_then(|rows| catalog.by_id(rows.table)) else { continue };
        lock_changes(run, entry, changed).await?;
    }
    Ok(())
}

/// Waits for the first row of a batch that another session has locked, of which the store has told: it is locked then.
pub(crate) async fn wait_for_taken(run: &Run, rows: &[NewRows], catalog: &Catalog) -> Result<()> {
    for changed in rows {
        let Some(entry) = catalog.by_id(changed.table) else { continue };
        let Some(coder) = KeyCoder::new(&entry.def).filter(|_| are_locked(run, changed.table)) else { continue };
        for keys in &changed.batches {
            let codes = coder.codes(keys)?;
            let taken = run.engine().sessions().locks().first_taken(run.scope.id, changed.table, &codes);
            if let Some((row, _)) = taken {
                let (name, key) = (&entry.def.name, keys.slice(row, 1));
                let codes = vec![vec![codes[row]]];
                let one = KeyedRows { table: changed.table, name, coder: &coder, keys: vec![&key], codes };
                return lock_rows(run, &one, Mode::Exclusive, Patience::Waits).await;
            }
        }
    }
    Ok(())
}

/// The error of a statement that others have changed rows before.
pub(crate) fn written_since(table: &str) -> Error {
    let message =
        format!("could not serialize access due to concurrent update: a row of table {table} was written since");
    Error::new(ErrorKind::Conflict, message)
        .with_hint("run the transaction again: it computed rows from a version that is not the newest any more")
}
