//! What is remembered, kept across restarts.
//!
//! Invariants:
//! - Entries name tables, columns and segments by ids that are never used again, and segments also by their size and checksum, so
//!   that a directory that was restored from a copy is not read by what was learnt of another.
//! - Expressions mean what the planner makes of them: what another version of it has written is not taken over. [`MEANINGS`] tells versions
//!   between releases apart.
//! - The file is bounded; what is most useful comes first. docs/FORMAT.md has the form.

use crate::blocks::BlockSet;
use crate::cache::{Known, PredicateCache, Seal};
use crate::constraint::{Constraint, End};
use crate::form::Form;
use crate::value::Value;
use alluvia_snapshot::{Admin, Memo, Read};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, SegmentId, TableId};
use datafusion::DATAFUSION_VERSION;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::time::Duration;

/// To be raised when a function or an operator means something else than before under the name it had.
const MEANINGS: u32 = 3;
/// Where it is kept.
pub const MEMO: Memo = Memo { name: "predicates", magic: b"ALVPRD01" };
/// What the file holds at most, roughly.
const FILE_BYTES_MAX: usize = 4 << 20;
/// How often what is gone is looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the file is written, at most; and at a clean end.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Blocks that a segment is believed to have, at most.
const BLOCKS_MAX: usize = 1 << 24;

/// When the cache was looked after last.
#[derive(Debug, Default)]
pub struct Tended(Mutex<Last>);

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    looked: Option<Duration>,
    wrote: Option<Duration>,
    /// The changes that the file has.
    changes: u64,
}

#[derive(Serialize, Deserialize)]
struct Content {
    planner: String,
    predicates: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    table: u32,
    columns: Vec<Column>,
    texts: BTreeSet<String>,
    segments: Vec<Segment>,
}

#[derive(Serialize, Deserialize)]
struct Column {
    column: u32,
    asks: Asks,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asks {
    Null,
    OneOf(Vec<String>),
    Within {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        low: Option<(String, bool)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        high: Option<(String, bool)>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        except: Vec<String>,
    },
}

#[derive(Serialize, Deserialize)]
struct Segment {
    segment: u64,
    rows: u64,
    parquet_bytes: u64,
    checksum: u32,
    blocks: usize,
    empty: Vec<Range<u32>>,
    seen: Vec<Range<u32>>,
    hits: u64,
    skipped: u64,
}

impl PredicateCache {
    /// Takes over what was kept when the database was open last.
    pub fn recall(&self, admin: &dyn Admin) -> Result<()> {
        match admin.recall(&MEMO)? {
            Some(content) => self.admit_bytes(&content),
            None => Ok(()),
        }
    }

    /// Forgets what is gone, and now and then writes down what is new. For a thread that has nothing else to do.
    pub fn tend(&self, tended: &Tended, store: &dyn Read, admin: &dyn Admin) -> Result<()> {
        let now = store.clock().monotonic();
        let is_due = |last: Option<Duration>, interval| last.is_none_or(|last| now.saturating_sub(last) >= interval);
        let mut last = tended.0.lock();
        if !is_due(last.looked, LOOK_INTERVAL) {
            return Ok(());
        }
        last.looked = Some(now);
        if self.is_empty() && last.changes == self.state.lock().changes {
            return Ok(());
        }
        self.forget_gone(store, admin);
        let changes = self.state.lock().changes;
        if changes == last.changes || !is_due(last.wrote, WRITE_INTERVAL) {
            return Ok(());
        }
        // If this fails, the next interval is the next chance.
        last.wrote = Some(now);
        admin.memorise(&MEMO, &self.to_bytes())?;
        last.changes = changes;
        Ok(())
    }

    /// Writes down what is remembered, and how it was used. For a clean end.
    pub fn memorise(&self, tended: &Tended, store: &dyn Read, admin: &dyn Admin) -> Result<()> {
        self.forget_gone(store, admin);
        let mut last = tended.0.lock();
        let changes = self.state.lock().changes;
        if self.is_empty() && changes == last.changes {
            return Ok(());
        }
        admin.memorise(&MEMO, &self.to_bytes())?;
        last.changes = changes;
        Ok(())
    }

    /// Forgets all predicates of a table, and writes the file anew where there is one: also one that another version has written, of
    /// which nothing was taken over.
    pub fn forget(&self, tended: &Tended, table: TableId, admin: &dyn Admin) -> Result<()> {
        let mut last = tended.0.lock();
        self.forget_table(table);
        let changes = self.state.lock().changes;
        if self.is_empty() && admin.recall(&MEMO)?.is_none() {
            return Ok(());
        }
        admin.memorise(&MEMO, &self.to_bytes())?;
        last.changes = changes;
        Ok(())
    }

    fn forget_gone(&self, store: &dyn Read, admin: &dyn Admin) {
        let segments: HashSet<SegmentId> = admin.segments().iter().map(|segment| segment.meta.id).collect();
        let catalog = store.catalog();
        self.retain(|table| catalog.by_id(table).is_some(), &segments);
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut predicates = Vec::new();
        let mut bytes = 0;
        // One predicate after the other is copied under the lock and written without it: entries have nothing to do with one another, so
        // what statements learn meanwhile makes none of them wrong.
        for (table, form) in self.ranked() {
            let Some(known) = self.known(table, &form) else { continue };
            let mut segments: Vec<Segment> = known.iter().map(|(id, known)| segment(*id, known)).collect();
            segments.sort_by_key(|segment| segment.segment);
            let entry = Entry { table: table.0, columns: columns(&form), texts: form.opaque().clone(), segments };
            let written = serde_json::to_vec(&entry).map_or(0, |written| written.len());
            if bytes + written > FILE_BYTES_MAX {
                // One that is too large keeps no others out.
                continue;
            }
            bytes += written;
            predicates.push(entry);
        }
        serde_json::to_vec(&Content { planner: planner(), predicates }).unwrap_or_default()
    }

    fn admit_bytes(&self, bytes: &[u8]) -> Result<()> {
        for (table, form, segments) in from_bytes(bytes)? {
            self.admit(table, form, segments);
        }
        Ok(())
    }
}

/// Predicates of tables, with what is known of segments.
type Remembered = Vec<(TableId, Form, Vec<(SegmentId, Known)>)>;

/// What the memo says; nothing if another planner wrote it.
fn from_bytes(bytes: &[u8]) -> Result<Remembered> {
    let wrong = |what: &str| Error::new(ErrorKind::Corrupt, format!("remembered predicates cannot be read: {what}"));
    let content: Content = serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()))?;
    if content.planner != planner() {
        return Ok(Vec::new());
    }
    let read = |entry: Entry| {
        let columns = entry.columns.into_iter().map(|column| Some((ColumnId(column.column), constraint(column.asks)?)));
        let form = Form::from_parts(columns.collect::<Option<_>>()?, entry.texts);
        let segments = entry.segments.into_iter().map(known).collect::<Option<Vec<_>>>()?;
        (!form.is_empty() && !segments.is_empty()).then_some((TableId(entry.table), form, segments))
    };
    let entries: Option<Remembered> = content.predicates.into_iter().map(read).collect();
    entries.ok_or_else(|| wrong("an entry contradicts itself"))
}

/// Whether the memo's content can be read.
pub fn check(content: &[u8]) -> Result<()> {
    from_bytes(content).map(|_| ())
}

/// The versions of all that decides what a text means and which rows it matches.
fn planner() -> String {
    let (arrow, own) = (arrow::ARROW_VERSION, env!("CARGO_PKG_VERSION"));
    format!("datafusion {DATAFUSION_VERSION}, arrow {arrow}, alluvia {own}, meanings {MEANINGS}")
}

fn columns(form: &Form) -> Vec<Column> {
    let texts = |values: &BTreeSet<Value>| values.iter().map(Value::to_text).collect::<Vec<_>>();
    let end = |end: &Option<End>| end.as_ref().map(|end| (end.value.to_text(), end.inclusive));
    let asks = |constraint: &Constraint| match constraint {
        Constraint::Null => Asks::Null,
        Constraint::OneOf(values) => Asks::OneOf(texts(values)),
        Constraint::Within(span, except) => {
            Asks::Within { low: end(&span.low), high: end(&span.high), except: texts(except) }
        }
    };
    form.columns().iter().map(|(column, constraint)| Column { column: column.0, asks: asks(constraint) }).collect()
}

fn constraint(asks: Asks) -> Option<Constraint> {
    let values = |texts: Vec<String>| texts.iter().map(|text| Value::from_text(text)).collect::<Option<BTreeSet<_>>>();
    let end = |end: Option<(String, bool)>| match end {
        Some((text, inclusive)) => Value::from_text(&text).map(|value| Some(End { value, inclusive })),
        None => Some(None),
    };
    Some(match asks {
        Asks::Null => Constraint::Null,
        Asks::OneOf(texts) => Constraint::OneOf(values(texts)?),
        Asks::Within { low, high, except } => {
            Constraint::between(end(low)?, end(high)?).and(Constraint::none_of(values(except)?))
        }
    })
}

fn segment(id: SegmentId, known: &Known) -> Segment {
    Segment {
        segment: id.0,
        rows: known.of.rows,
        parquet_bytes: known.of.parquet_bytes,
        checksum: known.of.checksum,
        blocks: known.blocks,
        empty: known.empty.runs(known.blocks),
        seen: known.seen.runs(known.blocks),
        hits: known.hits,
        skipped: known.skipped,
    }
}

fn known(of: Segment) -> Option<(SegmentId, Known)> {
    let blocks = Some(of.blocks).filter(|&blocks| blocks <= BLOCKS_MAX)?;
    let set = |runs: Vec<Range<u32>>| {
        let mut places = vec![false; blocks];
        for run in runs {
            places.get_mut(run.start as usize..run.end as usize)?.fill(true);
        }
        Some(places)
    };
    let (empty, seen) = (set(of.empty)?, set(of.seen)?);
    if empty.iter().zip(&seen).any(|(empty, seen)| *empty && !*seen) {
        return None;
    }
    let seal = Seal { rows: of.rows, parquet_bytes: of.parquet_bytes, checksum: of.checksum };
    let (empty, seen) = (BlockSet::new(&empty), BlockSet::new(&seen));
    Some((SegmentId(of.segment), Known { of: seal, blocks, empty, seen, hits: of.hits, skipped: of.skipped }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the golden file holds.
    fn remembered() -> PredicateCache {
        let whole = |value| Value::Whole(value);
        let end = |value, inclusive| Some(End { value, inclusive });
        let one = Form::of_column(ColumnId(2), Constraint::between(end(whole(-5), true), end(whole(9), false)))
            .and(Form::of_column(ColumnId(2), Constraint::none_of([whole(3), whole(4)].into())))
            .and(Form::of_column(ColumnId(7), Constraint::OneOf([Value::Bytes(b"x\xff".to_vec())].into())))
            .and(Form::of_column(ColumnId(8), Constraint::Null));
        let two = Form::of_text("(({0} % {Int64|7}) = {Int64|0})".to_owned())
            .and(Form::of_column(ColumnId(1), Constraint::between(end(Value::Float(1 << 63), false), None)));
        let known = |empty: [bool; 5], hits, skipped| Known {
            of: Seal { rows: 40_000, parquet_bytes: 123_456, checksum: 0xfeed_beef },
            blocks: 5,
            empty: BlockSet::new(&empty),
            seen: BlockSet::new(&[true, true, true, true, false]),
            hits,
            skipped,
        };
        let cache = PredicateCache::new(1 << 20);
        let segments = vec![(SegmentId(12), known([true, true, false, true, false], 4, 12))];
        cache.admit(TableId(3), one, segments);
        cache.admit(
            TableId(4),
            two,
            vec![(SegmentId(9), known([false; 5], 0, 0)), (SegmentId(10), known([false; 5], 0, 0))],
        );
        cache
    }

    fn listed(cache: &PredicateCache) -> String {
        format!("{:?}", cache.list())
    }

    #[test]
    fn golden_bytes_of_the_first_version() {
        let golden = include_str!("../tests/golden/predicates-01.json").trim_end();
        let written = String::from_utf8(remembered().to_bytes()).expect("JSON is text");
        let current = format!("\"planner\":\"{}\"", planner());
        assert_eq!(written.replace(&current, "\"planner\":\"PLANNER\""), golden);
        let cache = PredicateCache::new(1 << 20);
        cache.admit_bytes(golden.replace("PLANNER", &planner()).as_bytes()).expect("reads");
        assert_eq!(listed(&cache), listed(&remembered()));
        assert_eq!(cache.list().len(), 3);
    }

    /// What is forgotten between ranking and writing is left out; everything else is written.
    #[test]
    fn predicates_may_go_while_they_are_written() {
        let cache = remembered();
        let ranked = cache.ranked();
        assert_eq!(ranked.len(), 2);
        assert!(ranked.iter().all(|(table, form)| cache.known(*table, form).is_some_and(|known| !known.is_empty())));
        // The one that spared blocks comes first.
        assert_eq!(ranked[0].0, TableId(3));
        cache.retain(|table| table == TableId(3), &[SegmentId(12)].into());
        assert!(cache.known(ranked[1].0, &ranked[1].1).is_none());
        let again = PredicateCache::new(1 << 20);
        again.admit_bytes(&cache.to_bytes()).expect("reads");
        assert_eq!(listed(&again), listed(&cache));
        assert_eq!(again.list().len(), 1);
    }

    #[test]
    fn what_another_planner_has_written_is_left_alone_and_what_is_damaged_is_told() {
        let cache = PredicateCache::new(1 << 20);
        let text = String::from_utf8(remembered().to_bytes()).expect("JSON is text");
        cache.admit_bytes(text.replace(&planner(), "datafusion 1.0.0").as_bytes()).expect("reads");
        assert!(cache.is_empty());
        for (from, to) in [("\"w-5\"", "\"q-5\""), ("{\"start\":3,\"end\":4}", "{\"start\":4,\"end\":5}"), ("}]", "}")]
        {
            assert!(text.contains(from), "{from} in {text}");
            let error = cache.admit_bytes(text.replace(from, to).as_bytes()).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        assert!(cache.is_empty());
        let small = PredicateCache::new(1_500);
        small.admit_bytes(text.as_bytes()).expect("reads what there is room for");
        assert!(small.list().len() < 3);
    }
}
