//! The body of a log record: one batch, in bytes. Specified in docs/FORMAT.md, "Batch body".
//!
//! ```text
//! body    := extras:bytes32 tables:u32 table*
//! extras  := JSON of {changes, loads, producer, key, row_changes, parts}; empty when all of them are
//! table   := table_id:u32 checked_at:u64 batches:u32 batch* ordinals
//! batch   := message:bytes32 data:bytes64        an Arrow IPC record batch, without its schema
//! ordinals := bytes64, 8 of each row, of a table whose place is among the parts; else nothing
//! bytesN  := length:uN byte*
//! ```
//!
//! All integers are little-endian. The schema is not repeated in every batch: it is the table's definition as of
//! `checked_at`, or as the body's own changes leave it, which the log itself (or the manifest) holds. One-row batches are
//! the common case, and a schema message is ten times their size. Rows that say only which rows go have the columns that
//! their [`RowChange`] says.

use alluvia_catalog::{Catalog, Change, TableEntry};
use alluvia_snapshot::{BatchKey, NewBatch, NewRows, RowChange, StagedLoad};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, TableId, Version};
use arrow::array::UInt64Array;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::ipc::{MetadataVersion, root_as_message};
use arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// A decoded body.
#[derive(Debug)]
pub struct Body {
    /// Changes of definitions; applied before the rows.
    pub changes: Vec<Change>,
    /// Staged segments.
    pub loads: Vec<StagedLoad>,
    /// The producer's number.
    pub producer: Option<ProducerMark>,
    /// The client's key.
    pub key: Option<BatchKey>,
    /// Rows, still in bytes: their schema is known once the changes are applied.
    rows: Vec<EncodedRows>,
}

#[derive(Clone, Debug)]
struct EncodedRows {
    table: TableId,
    checked_at: Version,
    change: RowChange,
    batches: Vec<(Vec<u8>, Buffer)>,
    ordinals: Option<UInt64Array>,
}

#[derive(Default, Serialize, Deserialize)]
struct Extras {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    loads: Vec<StagedLoad>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    producer: Option<ProducerMark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<BatchKey>,
    /// Of each table of the body; left out where all rows are inserted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    row_changes: Vec<RowChange>,
    /// Places of the tables of the body whose rows are parts of a larger batch's, and have their ordinals with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<usize>,
}

/// Encodes a batch. Needs no lock and no version.
pub fn encode(batch: &NewBatch) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    let NewBatch { changes, loads, producer, key, .. } = batch;
    let mut row_changes: Vec<RowChange> = batch.rows.iter().map(|rows| rows.change).collect();
    if row_changes.iter().all(|change| *change == RowChange::Insert) {
        row_changes.clear();
    }
    let parts = (0..batch.rows.len()).filter(|&at| batch.rows[at].ordinals.is_some()).collect();
    let (changes, loads, producer) = (changes.clone(), loads.clone(), producer.clone());
    Extras { changes, loads, producer, key: *key, row_changes, parts }.put(&mut out)?;
    put_u32(&mut out, batch.rows.len());
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).map_err(|error| ipc_error(&error))?;
    let generator = IpcDataGenerator::default();
    let mut context = IpcWriteContext::default();
    for rows in &batch.rows {
        put_table(&mut out, rows.table, rows.checked_at, rows.batches.len());
        for batch in &rows.batches {
            let mut dictionaries = DictionaryTracker::new(true);
            let (dictionary, data) = generator
                .encode(batch, &mut dictionaries, &options, &mut context)
                .map_err(|error| ipc_error(&error))?;
            assert!(dictionary.is_empty(), "rows in the storage schema have no dictionaries");
            put_batch(&mut out, &data.ipc_message, &data.arrow_data);
        }
        put_ordinals(&mut out, rows.ordinals.as_ref());
    }
    Ok(out)
}

/// Decodes all but the rows of a body.
pub fn decode(bytes: &[u8]) -> Result<Body> {
    let mut input = Input { bytes };
    let json = input.bytes32()?;
    let extras: Extras = match json {
        [] => Extras::default(),
        json => serde_json::from_slice(json).map_err(|error| damaged(&format!("its extras: {error}")))?,
    };
    let mut rows = Vec::new();
    for at in 0..input.u32()? {
        let change = extras.row_changes.get(at as usize).copied().unwrap_or_default();
        let table = TableId(input.u32()?);
        let checked_at = Version(input.u64()?);
        let mut batches = Vec::new();
        for _ in 0..input.u32()? {
            let message = input.bytes32()?.to_vec();
            let len = input.u64()?;
            batches.push((message, Buffer::from(input.take(len)?)));
        }
        let ordinals = if extras.parts.contains(&(at as usize)) { Some(input.ordinals()?) } else { None };
        rows.push(EncodedRows { table, checked_at, change, batches, ordinals });
    }
    if !input.bytes.is_empty() {
        return Err(damaged("bytes are left over at its end"));
    }
    let Extras { changes, loads, producer, key, row_changes: _, parts: _ } = extras;
    Ok(Body { changes, loads, producer, key, rows })
}

/// One body of several, whose rows follow one another, with changes of definitions before them. The bodies have rows alone, by
/// definitions that hold after the changes.
pub fn joined(changes: Vec<Change>, bodies: &[&[u8]]) -> Result<Vec<u8>> {
    if let ([], [body]) = (changes.as_slice(), bodies) {
        return Ok(body.to_vec());
    }
    let rows: Vec<EncodedRows> = bodies.iter().map(|body| Ok(decode(body)?.rows)).collect::<Result<Vec<_>>>()?.concat();
    let mut row_changes: Vec<RowChange> = rows.iter().map(|rows| rows.change).collect();
    if row_changes.iter().all(|change| *change == RowChange::Insert) {
        row_changes.clear();
    }
    let parts = (0..rows.len()).filter(|&at| rows[at].ordinals.is_some()).collect();
    let mut out = Vec::with_capacity(1024 + bodies.iter().map(|body| body.len()).sum::<usize>());
    Extras { changes, row_changes, parts, ..Extras::default() }.put(&mut out)?;
    put_u32(&mut out, rows.len());
    for rows in &rows {
        put_table(&mut out, rows.table, rows.checked_at, rows.batches.len());
        for (message, data) in &rows.batches {
            put_batch(&mut out, message, data);
        }
        put_ordinals(&mut out, rows.ordinals.as_ref());
    }
    Ok(out)
}

impl Extras {
    fn is_empty(&self) -> bool {
        let Extras { changes, loads, producer, key, row_changes, parts } = self;
        let is_plain = changes.is_empty() && loads.is_empty() && row_changes.is_empty() && parts.is_empty();
        is_plain && producer.is_none() && key.is_none()
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.is_empty() {
            put_bytes32(out, &[]);
            return Ok(());
        }
        let json = serde_json::to_vec(self).map_err(|error| Error::internal(format!("batch body: {error}")))?;
        put_bytes32(out, &json);
        Ok(())
    }
}

impl Body {
    /// Whether it names rows that are there by their identities.
    pub(crate) fn names_rows(&self) -> bool {
        self.rows.iter().any(|rows| rows.change == RowChange::DeleteRows)
    }

    /// The rows, by the definitions that hold once the body's own changes are applied.
    pub fn rows(&self, catalog: &Catalog) -> Result<Vec<NewRows>> {
        let decode = |rows: &EncodedRows| {
            let entry = catalog.by_id(rows.table).ok_or_else(|| damaged("its table does not exist"))?;
            let schema = schema_of(rows.change, entry)?;
            let batches = rows.batches.iter().map(|(message, data)| decode_batch(message, data, Arc::clone(&schema)));
            let batches = batches.collect::<Result<_>>()?;
            let (change, ordinals) = (rows.change, rows.ordinals.clone());
            let batches: Vec<RecordBatch> = batches;
            let count = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            if ordinals.as_ref().is_some_and(|ordinals| ordinals.len() != count) {
                return Err(damaged("it has other ordinals than rows"));
            }
            Ok(NewRows { change, ordinals, ..NewRows::insert(rows.table, rows.checked_at, batches) })
        };
        self.rows.iter().map(decode).collect()
    }
}

/// The columns of rows that ask for something.
fn schema_of(change: RowChange, entry: &TableEntry) -> Result<SchemaRef> {
    let fields: Vec<Field> = match change {
        RowChange::Insert | RowChange::InsertNew | RowChange::Upsert => return Ok(Arc::clone(entry.storage_schema())),
        RowChange::Delete => {
            let key = entry.def.key.as_ref().ok_or_else(|| damaged("its table has no key"))?;
            let columns = key.columns.iter().map(|id| entry.def.column_by_id(*id));
            let columns = columns.collect::<Option<Vec<_>>>().ok_or_else(|| damaged("a column of its key is gone"))?;
            columns
                .into_iter()
                .map(|column| Field::new(&column.storage_name, column.data_type.to_arrow(), false))
                .collect()
        }
        RowChange::DeleteRows => {
            [VERSION_COLUMN, ORDINAL_COLUMN].map(|name| Field::new(name, DataType::UInt64, false)).to_vec()
        }
    };
    Ok(Arc::new(Schema::new(fields)))
}

fn decode_batch(message: &[u8], data: &Buffer, schema: SchemaRef) -> Result<RecordBatch> {
    let message = root_as_message(message).map_err(|error| damaged(&format!("its Arrow message: {error}")))?;
    let batch = message.header_as_record_batch().ok_or_else(|| damaged("its Arrow message is no record batch"))?;
    read_record_batch(data, batch, schema, &HashMap::new(), None, &message.version()).map_err(|error| ipc_error(&error))
}

fn put_table(out: &mut Vec<u8>, table: TableId, checked_at: Version, batches: usize) {
    out.extend_from_slice(&table.0.to_le_bytes());
    out.extend_from_slice(&checked_at.0.to_le_bytes());
    put_u32(out, batches);
}

fn put_batch(out: &mut Vec<u8>, message: &[u8], data: &[u8]) {
    put_bytes32(out, message);
    out.extend_from_slice(&(data.len() as u64).to_le_bytes());
    out.extend_from_slice(data);
}

fn put_ordinals(out: &mut Vec<u8>, ordinals: Option<&UInt64Array>) {
    let Some(ordinals) = ordinals else { return };
    out.extend_from_slice(&(ordinals.len() as u64 * 8).to_le_bytes());
    out.extend(ordinals.values().iter().flat_map(|ordinal| ordinal.to_le_bytes()));
}

fn put_u32(out: &mut Vec<u8>, value: usize) {
    let value = u32::try_from(value).expect("a batch has fewer than 2^32 parts");
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes32(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len());
    out.extend_from_slice(bytes);
}

struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(len).ok().filter(|&len| len <= self.bytes.len());
        let (taken, rest) = self.bytes.split_at(len.ok_or_else(|| damaged("it ends early"))?);
        self.bytes = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    fn ordinals(&mut self) -> Result<UInt64Array> {
        let len = self.u64()?;
        let (ordinals, rest) = self.take(len)?.as_chunks();
        match rest {
            [] => Ok(UInt64Array::from_iter_values(ordinals.iter().map(|ordinal| u64::from_le_bytes(*ordinal)))),
            _ => Err(damaged("its ordinals have a length that is none")),
        }
    }

    fn bytes32(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()?;
        self.take(u64::from(len))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a batch in the log has a good checksum but does not decode: {what}"))
        .with_hint("it was written by another build of Alluvia; open it with that one")
}

fn ipc_error(error: &arrow::error::ArrowError) -> Error {
    damaged(&error.to_string())
}
