//! Messages to clients, appended to a buffer.

use alluvia_types::Error;
use bytes::{BufMut, BytesMut};

/// What PostgreSQL says where a prepared statement's columns are not those that its client was told.
pub(crate) const CHANGED_COLUMNS: &str = "cached plan must not change result type";
/// Where it says so: drivers (asyncpg, pgjdbc) know by this name that the statement is to be prepared again, and do.
const CHANGED_COLUMNS_ROUTINE: &str = "RevalidateCachedQuery";

/// How bad something told to the client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Something to know.
    Notice,
    /// Something that may be wrong.
    Warning,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

/// A column of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// The number of the table that it is a column of, and its place there; zeros of what is computed.
    pub(crate) table_oid: u32,
    pub(crate) attribute: i16,
    pub(crate) type_oid: u32,
    pub(crate) type_size: i16,
    pub(crate) type_modifier: i32,
    /// 0 text, 1 binary.
    pub(crate) format: i16,
}

/// What waits to be sent.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) bytes: BytesMut,
}

impl Out {
    /// Appends a message whose body `write` writes.
    pub(crate) fn message(&mut self, kind: u8, write: impl FnOnce(&mut BytesMut)) {
        self.bytes.put_u8(kind);
        let start = self.bytes.len();
        self.bytes.put_u32(0);
        write(&mut self.bytes);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub(crate) fn authentication(&mut self, code: u32, data: &[u8]) {
        self.message(b'R', |out| {
            out.put_u32(code);
            out.put_slice(data);
        });
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            put_text(out, name);
            put_text(out, value);
        });
    }

    pub(crate) fn backend_key(&mut self, process: u32, secret: u32) {
        self.message(b'K', |out| {
            out.put_u32(process);
            out.put_u32(secret);
        });
    }

    /// Which older or newer versions and options are spoken.
    pub(crate) fn negotiate_version(&mut self, minor: u32, unknown: &[&str]) {
        self.message(b'v', |out| {
            out.put_u32(minor);
            out.put_u32(unknown.len() as u32);
            unknown.iter().for_each(|name| put_text(out, name));
        });
    }

    pub(crate) fn ready(&mut self, status: u8) {
        self.message(b'Z', |out| out.put_u8(status));
    }

    pub(crate) fn row_description(&mut self, fields: &[Field]) {
        self.message(b'T', |out| {
            out.put_u16(fields.len() as u16);
            for field in fields {
                put_text(out, &field.name);
                out.put_u32(field.table_oid);
                out.put_i16(field.attribute);
                out.put_u32(field.type_oid);
                out.put_i16(field.type_size);
                out.put_i32(field.type_modifier);
                out.put_i16(field.format);
            }
        });
    }

    pub(crate) fn parameter_description(&mut self, oids: &[u32]) {
        self.message(b't', |out| {
            out.put_u16(oids.len() as u16);
            oids.iter().for_each(|oid| out.put_u32(*oid));
        });
    }

    pub(crate) fn complete(&mut self, tag: &str) {
        self.message(b'C', |out| put_text(out, tag));
    }

    /// ParseComplete, BindComplete, NoData, ...: messages without a body.
    pub(crate) fn plain(&mut self, kind: u8) {
        self.message(kind, |_| ());
    }

    /// CopyInResponse (`G`) or CopyOutResponse (`H`).
    pub(crate) fn copy_begins(&mut self, kind: u8, binary: bool, columns: usize) {
        let format = i16::from(binary);
        self.message(kind, |out| {
            out.put_u8(format as u8);
            out.put_u16(columns as u16);
            (0..columns).for_each(|_| out.put_i16(format));
        });
    }

    pub(crate) fn copy_data(&mut self, bytes: &[u8]) {
        self.message(b'd', |out| out.put_slice(bytes));
    }

    pub(crate) fn error(&mut self, severity: Severity, error: &Error) {
        let more = [(b'D', error.detail()), (b'H', error.hint()), (b'W', error.context())];
        self.report(b'E', severity, error.sqlstate(), error.message(), more);
    }

    pub(crate) fn notice(&mut self, severity: Severity, sqlstate: &str, message: &str) {
        self.report(b'N', severity, sqlstate, message, [(b'D', None), (b'H', None), (b'W', None)]);
    }

    fn report(&mut self, kind: u8, severity: Severity, sqlstate: &str, message: &str, more: [(u8, Option<&str>); 3]) {
        self.message(kind, |out| {
            let mut field = |code: u8, text: &str| {
                out.put_u8(code);
                put_text(out, text);
            };
            field(b'S', severity.name());
            field(b'V', severity.name());
            field(b'C', sqlstate);
            field(b'M', message);
            for (code, text) in more {
                if let Some(text) = text {
                    field(code, text);
                }
            }
            if message == CHANGED_COLUMNS {
                field(b'R', CHANGED_COLUMNS_ROUTINE);
            }
            out.put_u8(0);
        });
    }
}

/// A text with its end. What would end it early is left out.
fn put_text(out: &mut BytesMut, text: &str) {
    if text.as_bytes().contains(&0) {
        out.extend(text.bytes().filter(|byte| *byte != 0));
    } else {
        out.put_slice(text.as_bytes());
    }
    out.put_u8(0);
}
