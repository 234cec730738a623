//! Rows whose keys decide: what they do to rows that are there is looked at where these lie, before the batch is decided.
//!
//! A body asks for changes by key, and each replica finds what they do when it follows them. So what must be known before is whether they
//! can be let in: a replica of each shard is asked what the body would do there, and as of which version. The keeper decides the batch if no
//! row of these shards was written since; else it is looked at again. This is validation, as of optimistic transactions, by shard.
//!
//! Invariants:
//! - What was looked at is what the batch does: between the version that was looked at and the batch's own no row of the shard is written.
//! - Batches of one gateway that look at the same shard take turns: they refuse one another for nothing else.

use super::ask::{Asking, Failed, ShardAsk};
use super::session::{Gateway, unasked};
use super::split::Part;
use crate::image::Image;
use crate::message::{FromWorker, ToWorker};
use alluvia_commit::duplicate_key;
use alluvia_snapshot::{NewRows, RowChange};
use alluvia_space::TableDef;
use alluvia_space::key_code::KeyCoder;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What looking at the parts of a batch has shown.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The shards, and as of which versions they were looked at.
    pub shards: Vec<(TableId, Version)>,
    /// Rows that change nothing.
    pub passed_over: u64,
}

impl Looked {
    /// Of parts that are not looked at, for they seem to have come before: the keeper lets them in for nothing else.
    pub fn never(parts: &[Part]) -> Looked {
        let looks = parts.iter().filter(|part| part.looks.is_some());
        Looked { shards: looks.map(|part| (part.shard.id, Version(0))).collect(), passed_over: 0 }
    }

    /// Whether it is of parts that were not looked at.
    pub fn is_of_nothing(&self) -> bool {
        self.shards.iter().any(|(_, at)| *at == Version(0))
    }
}

impl Gateway {
    /// Looks at the parts that must be. Those that would do nothing at all are taken out.
    ///
    /// Errors: what refuses the batch: `UniqueViolation`; `Conflict`: rows were written since they were read.
    pub(super) fn look(&self, image: &Image, parts: &mut Vec<Part>) -> Result<Looked> {
        let asked: Vec<ShardAsk> = parts
            .iter()
            .filter(|part| part.looks.is_some())
            .map(|part| ShardAsk::one(part.table, &part.shard))
            .collect();
        if asked.is_empty() {
            return Ok(Looked::default());
        }
        let question = |shard: TableId| {
            let part = parts.iter().find(|part| part.shard.id == shard).expect("it is of a part");
            let written = image.written.get(&part.table).copied().unwrap_or_default();
            let defined = image.catalog.by_id(part.table).map_or(Version(0), |entry| entry.changed_at);
            let computed_at = part.looks.as_ref().map_or_else(Vec::new, |looks| looks.computed_at.clone());
            let at_least = computed_at.iter().flatten().copied().fold(written.max(defined), Version::max);
            ToWorker::Look { shard, at_least, computed_at, body: Arc::clone(&part.body) }
        };
        let mut found: BTreeMap<TableId, (Version, u64)> = BTreeMap::new();
        let asking = Asking { question: &question, at_once: usize::MAX, silence: None };
        let mut each = |asked: &ShardAsk, answer| match answer {
            FromWorker::Looked { version, passed_over } => {
                found.insert(asked.shard, (version, passed_over));
                Ok(())
            }
            _ => unasked(),
        };
        self.ask_each(asked, &asking, &mut each).map_err(|(Failed::Conflict(error) | Failed::Other(error))| error)?;
        let mut looked = Looked::default();
        // Of each table whose rows are named by their identities: how many are named, and how many of them were found.
        let mut named: BTreeMap<TableId, (u64, u64, bool)> = BTreeMap::new();
        parts.retain(|part| {
            let (Some(looks), Some((version, passed_over))) = (&part.looks, found.get(&part.shard.id)) else {
                return true;
            };
            looked.shards.push((part.shard.id, *version));
            match looks.named {
                0 => looked.passed_over += passed_over,
                all => {
                    let (count, there, must_be) = named.entry(part.table).or_default();
                    (*count, *must_be) = (all, looks.must_be);
                    *there += all - (*passed_over).min(all);
                }
            }
            // Every shard is told of all rows that are named so; what has none of them is not touched.
            part.rows > 0 || *passed_over < looks.named
        });
        for (all, there, must_be) in named.into_values() {
            if there < all && must_be {
                let what = "could not serialize access due to concurrent update: a row was written since it was read";
                return Err(Error::new(ErrorKind::Conflict, what).with_hint("run the statement again"));
            }
            looked.passed_over += all - there.min(all);
        }
        Ok(looked)
    }
}

/// What rows of a table that their own batch makes do to one another: how many are passed over.
///
/// Errors: `UniqueViolation`.
pub(super) fn among_themselves(def: &TableDef, rows: &[NewRows]) -> Result<u64> {
    let Some(coder) = KeyCoder::new(def) else { return Ok(0) };
    let (mut there, mut passed_over) = (HashSet::new(), 0);
    for rows in rows {
        for batch in &rows.batches {
            for (row, code) in coder.codes(batch)?.into_iter().enumerate() {
                match rows.change {
                    RowChange::Delete | RowChange::DeleteRows => passed_over += u64::from(!there.remove(&code)),
                    RowChange::Upsert => drop(there.insert(code)),
                    RowChange::InsertNew => passed_over += u64::from(!there.insert(code)),
                    RowChange::Insert if there.insert(code) => {}
                    RowChange::Insert => return Err(duplicate_key(&def.name, &coder.show(batch, row))),
                }
            }
        }
    }
    Ok(passed_over)
}
