//! A snapshot as the transaction sees it: without the rows that it has killed. Its own rows come beside it, in the
//! statement's context.

use alluvia_snapshot::{Identity, Read, Snapshot};
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Result, TableId};
use std::collections::BTreeMap;

/// Rows of one table's snapshot that the transaction has killed.
#[derive(Debug)]
pub enum Killed {
    /// Those with these keys, as far as there are such.
    Keys(Vec<KeyCode>),
    /// Those with these identities, of a table without a key.
    Rows(Vec<Identity>),
}

/// Leaves out of a snapshot what the transaction has killed. May read segments.
///
/// # Errors
/// `Corrupt` if a segment is damaged.
pub fn leave_out(store: &dyn Read, snapshot: &mut Snapshot, killed: BTreeMap<TableId, Killed>) -> Result<()> {
    let version = snapshot.version;
    for (table, killed) in killed {
        let Some(read) = snapshot.tables.get_mut(&table) else { continue };
        let found = match killed {
            Killed::Keys(codes) => match KeyCoder::new(&read.entry.def) {
                Some(coder) => store.find_keys(version, read, &coder, &codes)?,
                None => continue,
            },
            Killed::Rows(identities) => read.find_identities(&identities)?,
        };
        read.leave_out(found.into_iter().flatten(), version)?;
    }
    Ok(())
}
