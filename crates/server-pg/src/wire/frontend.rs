//! Messages from clients.

use alluvia_types::{Error, ErrorKind, Result};
use bytes::{Buf, Bytes, BytesMut};

/// Codes in the place of a protocol version.
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;
/// The longest first message, as in PostgreSQL.
const FIRST_BYTES_MAX: usize = 10_000;
/// The longest message of a client that has not logged in, as in PostgreSQL.
pub(crate) const STRANGER_BYTES_MAX: usize = 65_535;

/// The first message of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Asks for TLS.
    Ssl,
    /// Asks for GSSAPI encryption.
    Gss,
    /// Cancels what another connection runs.
    Cancel { process: u32, secret: u32 },
    /// Begins a session: version, and names with values.
    Startup { version: u32, parameters: Vec<(String, String)> },
}

/// Any later message.
#[derive(Debug)]
pub(crate) enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Describe),
    Execute {
        portal: String,
        rows_max: usize,
    },
    Close(Describe),
    Sync,
    Flush,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    /// A password, or a step of SASL: which, the server knows.
    Password(Bytes),
    /// A function call by oid, long obsolete.
    FunctionCall,
}

/// Values for a prepared statement.
#[derive(Debug)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    /// 0 text, 1 binary: none for all text, one for all, or one each.
    pub(crate) formats: Vec<i16>,
    /// `None` is NULL.
    pub(crate) values: Vec<Option<Bytes>>,
    /// As `formats`, of the result's columns.
    pub(crate) result_formats: Vec<i16>,
}

/// A prepared statement or a portal.
#[derive(Debug)]
pub(crate) struct Describe {
    pub(crate) target: Target,
    pub(crate) name: String,
}

/// What a name names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Statement,
    Portal,
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("a message from the client cannot be read: {what}"))
}

/// Cuts the first message off `buffer`; `None` if more bytes are needed.
pub(crate) fn first(buffer: &mut BytesMut) -> Result<Option<First>> {
    if buffer.len() < 4 {
        return Ok(None);
    }
    let length = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
    if !(8..=FIRST_BYTES_MAX).contains(&length) {
        return Err(broken("its length is not that of a startup message"));
    }
    if buffer.len() < length {
        return Ok(None);
    }
    let mut body = buffer.split_to(length).freeze();
    body.advance(4);
    match body.get_u32() {
        SSL_REQUEST => Ok(Some(First::Ssl)),
        GSS_REQUEST => Ok(Some(First::Gss)),
        CANCEL_REQUEST if body.len() == 8 => {
            Ok(Some(First::Cancel { process: body.get_u32(), secret: body.get_u32() }))
        }
        CANCEL_REQUEST => Err(broken("a cancel request has a process and a secret")),
        version => {
            let mut body = Body(body);
            let mut parameters = Vec::new();
            loop {
                let name = body.text()?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, body.text()?));
            }
            body.end()?;
            Ok(Some(First::Startup { version, parameters }))
        }
    }
}

/// Cuts the next message off `buffer`; `None` if more bytes are needed. A message of more than `bytes_max` bytes is refused
/// before they are waited for.
pub(crate) fn next(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<Message>> {
    if buffer.len() < 5 {
        return Ok(None);
    }
    let kind = buffer[0];
    let length = u32::from_be_bytes([buffer[1], buffer[2], buffer[3], buffer[4]]) as usize;
    if length < 4 {
        return Err(broken("its length is below 4"));
    }
    if !kind.is_ascii_alphabetic() {
        return Err(broken(&format!("there is no message of kind {kind:#04x}")));
    }
    if length > bytes_max {
        return Err(Error::new(
            ErrorKind::Protocol,
            format!("a message of {length} bytes is longer than the {bytes_max} that this server takes"),
        )
        .with_hint(format!(
            "send less at once: COPY streams any number of rows; the bound is message_bytes_max of the server, and \
             {STRANGER_BYTES_MAX} until the client has logged in"
        )));
    }
    if buffer.len() < length + 1 {
        return Ok(None);
    }
    let mut body = buffer.split_to(length + 1).freeze();
    body.advance(5);
    let mut body = Body(body);
    let message = match kind {
        b'Q' => Message::Query(body.text()?),
        b'P' => {
            let (name, sql) = (body.text()?, body.text()?);
            let count = body.count(4)?;
            let types = (0..count).map(|_| body.u32()).collect::<Result<_>>()?;
            Message::Parse { name, sql, types }
        }
        b'B' => {
            let (portal, statement) = (body.text()?, body.text()?);
            let formats = body.formats()?;
            let count = body.count(4)?;
            let values = (0..count).map(|_| body.value()).collect::<Result<_>>()?;
            Message::Bind(Bind { portal, statement, formats, values, result_formats: body.formats()? })
        }
        b'D' => Message::Describe(body.describe()?),
        b'C' => Message::Close(body.describe()?),
        b'E' => {
            let portal = body.text()?;
            // Zero, and as in PostgreSQL any negative number, is no limit.
            let rows_max = usize::try_from(body.u32()? as i32).unwrap_or(0);
            Message::Execute { portal, rows_max }
        }
        b'S' => Message::Sync,
        b'H' => Message::Flush,
        b'X' => Message::Terminate,
        b'd' => return Ok(Some(Message::CopyData(body.0))),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(body.text()?),
        b'p' => return Ok(Some(Message::Password(body.0))),
        b'F' => return Ok(Some(Message::FunctionCall)),
        other => return Err(broken(&format!("there is no message of kind {:?}", char::from(other)))),
    };
    body.end()?;
    Ok(Some(message))
}

/// The rest of a message.
struct Body(Bytes);

impl Body {
    fn text(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(|| broken("a text has no end"))?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(Error::new(
                ErrorKind::Encoding,
                format!("text from the client is not UTF-8 after {} bytes", error.valid_up_to()),
            )),
        }
    }

    fn u32(&mut self) -> Result<u32> {
        if self.0.len() < 4 {
            return Err(broken("it ends within a number"));
        }
        Ok(self.0.get_u32())
    }

    fn u16(&mut self) -> Result<u16> {
        if self.0.len() < 2 {
            return Err(broken("it ends within a number"));
        }
        Ok(self.0.get_u16())
    }

    /// A number of things, each of at least `bytes` bytes.
    fn count(&mut self, bytes: usize) -> Result<usize> {
        let count = usize::from(self.u16()?);
        if count * bytes > self.0.len() {
            return Err(broken("it counts more than it holds"));
        }
        Ok(count)
    }

    fn formats(&mut self) -> Result<Vec<i16>> {
        let count = self.count(2)?;
        let mut formats = Vec::with_capacity(count);
        for _ in 0..count {
            match self.u16()? {
                format @ (0 | 1) => formats.push(format as i16),
                other => return Err(broken(&format!("there is no format {other}"))),
            }
        }
        Ok(formats)
    }

    fn value(&mut self) -> Result<Option<Bytes>> {
        let length = self.u32()?;
        if length == u32::MAX {
            return Ok(None);
        }
        if length as usize > self.0.len() {
            return Err(broken("a value is longer than the message"));
        }
        Ok(Some(self.0.split_to(length as usize)))
    }

    fn describe(&mut self) -> Result<Describe> {
        if self.0.is_empty() {
            return Err(broken("it does not say what it describes"));
        }
        let target = match self.0.get_u8() {
            b'S' => Target::Statement,
            b'P' => Target::Portal,
            _ => return Err(broken("it describes neither a statement nor a portal")),
        };
        Ok(Describe { target, name: self.text()? })
    }

    fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(broken("it goes on after its end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::from(&[kind][..]);
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn messages_are_cut_off_when_they_are_whole() {
        let mut bytes = message(b'Q', b"SELECT 1\0");
        bytes.extend_from_slice(&message(b'S', b""));
        let whole = bytes.clone();
        for cut in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..cut]);
            let mut count = 0;
            while next(&mut part, 100).unwrap().is_some() {
                count += 1;
            }
            assert_eq!(count, usize::from(cut >= 14), "{cut}");
        }
        assert!(matches!(next(&mut bytes, 100).unwrap(), Some(Message::Query(sql)) if sql == "SELECT 1"));
        assert!(matches!(next(&mut bytes, 100).unwrap(), Some(Message::Sync)));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_length_over_the_bound_is_refused_before_its_bytes_come() {
        let mut bytes = BytesMut::from(&b"d\x7f\xff\xff\xff"[..]);
        let before = bytes.capacity();
        assert_eq!(next(&mut bytes, 1 << 20).unwrap_err().kind(), ErrorKind::Protocol);
        assert_eq!(bytes.capacity(), before);
        assert!(first(&mut BytesMut::from(&b"\x7f\xff\xff\xff\0\x03\0\0"[..])).is_err());
    }

    #[test]
    fn whatever_the_bytes_nothing_panics() {
        // Every message cut short or long by one, and every byte of it changed.
        let bodies: [(u8, &[u8]); 6] = [
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
            (b'B', b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x02ab\0\x01\0\0"),
            (b'D', b"Ss\0"),
            (b'E', b"p\0\0\0\0\x05"),
            (b'f', b"why\0"),
            (b'C', b"Pp\0"),
        ];
        for (kind, body) in bodies {
            assert!(next(&mut message(kind, body), 1000).unwrap().is_some(), "{kind}");
            assert!(next(&mut message(kind, &body[..body.len() - 1]), 1000).is_err());
            assert!(next(&mut message(kind, &[body, b"x"].concat()), 1000).is_err());
            for at in 0..body.len() {
                for byte in 0..=255 {
                    let mut changed = body.to_vec();
                    changed[at] = byte;
                    let _ = next(&mut message(kind, &changed), 1000);
                }
            }
        }
        let error = next(&mut message(b'Q', b"\xff\0"), 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding);
    }

    #[test]
    fn first_messages_are_told_apart() {
        let bytes = |body: &[u8]| {
            let mut bytes = BytesMut::from(&(body.len() as u32 + 4).to_be_bytes()[..]);
            bytes.extend_from_slice(body);
            bytes
        };
        assert_eq!(first(&mut bytes(&SSL_REQUEST.to_be_bytes())).unwrap(), Some(First::Ssl));
        let cancel = [&CANCEL_REQUEST.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 2]].concat();
        assert_eq!(first(&mut bytes(&cancel)).unwrap(), Some(First::Cancel { process: 1, secret: 2 }));
        let startup = [&(3u32 << 16).to_be_bytes()[..], b"user\0me\0\0"].concat();
        let parameters = vec![("user".to_owned(), "me".to_owned())];
        assert_eq!(first(&mut bytes(&startup)).unwrap(), Some(First::Startup { version: 3 << 16, parameters }));
        assert!(first(&mut bytes(&[&(3u32 << 16).to_be_bytes()[..], b"user\0me"].concat())).is_err());
    }
}
