//! Arrow IPC streams, message by message, checked before Arrow's own reader sees them.
//!
//! Invariant: no length in a stream is believed before as many bytes have come; what a message says of its body is checked by
//! [`MessageChecks`].
//!
//! A message is `[ffffffff] length:i32 metadata body`; streams from before Arrow 0.15 lack the mark.

use crate::arrow_message::{MessageChecks, longer, no_stream};
use arrow::ipc::root_as_message;
use std::io::{self, Read};

const CONTINUES: [u8; 4] = [0xff; 4];
/// The longest metadata, and body, of a message.
const METADATA_BYTES_MAX: usize = 16 << 20;
const BODY_BYTES_MAX: i64 = 512 << 20;

/// Passes whole, checked messages on.
pub struct Frames<R> {
    inner: R,
    /// The current message, and how much of it is passed on.
    message: Vec<u8>,
    at: usize,
    is_over: bool,
    has_footer: bool,
    checks: MessageChecks,
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::other(no_stream(what))
}

fn too_large(what: &str) -> io::Error {
    io::Error::other(longer(what))
}

impl<R: Read> Frames<R> {
    /// Of a stream, which ends where it says that it does.
    pub fn new(inner: R) -> Frames<R> {
        let checks = MessageChecks::default();
        Frames { inner, message: Vec::new(), at: 0, is_over: false, has_footer: false, checks }
    }

    /// Of the stream within a file, behind which comes what says where its parts are.
    pub fn of_file(inner: R) -> Frames<R> {
        Frames { has_footer: true, ..Frames::new(inner) }
    }

    /// What comes behind the end mark is read, too: what ends early, or is damaged there, is not whole.
    fn end(&mut self) -> io::Result<()> {
        self.is_over = true;
        match io::copy(&mut self.inner, &mut io::sink())? {
            behind if behind > 0 && !self.has_footer => Err(wrong(format!("{behind} bytes follow its end"))),
            _ => Ok(()),
        }
    }

    /// Appends so many bytes of the stream; memory grows with what comes.
    fn take(&mut self, count: usize) -> io::Result<()> {
        let read = (&mut self.inner).take(count as u64).read_to_end(&mut self.message)?;
        if read < count { Err(wrong("it ends within a message")) } else { Ok(()) }
    }

    fn next_message(&mut self) -> io::Result<()> {
        self.message.clear();
        self.at = 0;
        let read = (&mut self.inner).take(4).read_to_end(&mut self.message)?;
        if read == 0 {
            // Writers may leave the end mark out.
            self.is_over = true;
            return Ok(());
        }
        if read < 4 {
            return Err(wrong("it ends within a message"));
        }
        let is_marked = self.message[..4] == CONTINUES;
        if is_marked {
            self.take(4)?;
        }
        let head = self.message.len();
        let mut length = [0; 4];
        length.copy_from_slice(&self.message[head - 4..]);
        let length = i32::from_le_bytes(length);
        if length == 0 {
            return self.end();
        }
        let length = usize::try_from(length).map_err(|_| wrong("a length is negative"))?;
        if length > METADATA_BYTES_MAX {
            // Streams of long ago have no mark; what is none has any bytes there.
            return Err(if is_marked { too_large("the metadata") } else { wrong("it does not begin as one") });
        }
        self.take(length)?;
        let metadata = self.message[head..].to_vec();
        let message = root_as_message(&metadata).map_err(|error| wrong(format!("{error}")))?;
        let body_bytes = message.bodyLength();
        match body_bytes {
            ..0 => return Err(wrong("a length is negative")),
            0..=BODY_BYTES_MAX => self.take(body_bytes as usize)?,
            _ => return Err(too_large("the body")),
        }
        self.checks.check(&message, &self.message[head + length..]).map_err(io::Error::other)
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.message.len() && !self.is_over {
            self.next_message()?;
        }
        let rest = &self.message[self.at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caught::caught;
    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use arrow::ipc::CompressionType;
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
    use std::sync::Arc;

    fn stream(packed: bool) -> (RecordBatch, Vec<u8>) {
        let numbers = Int64Array::from_iter_values((0..5000).map(|row| row % 7));
        let texts = StringArray::from_iter_values((0..5000).map(|row| format!("text {}", row % 5)));
        let batch = RecordBatch::try_from_iter([("a", Arc::new(numbers) as _), ("b", Arc::new(texts) as _)]).unwrap();
        let packing = packed.then_some(CompressionType::ZSTD);
        let options = IpcWriteOptions::default().try_with_compression(packing).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        (batch, writer.into_inner().unwrap())
    }

    fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>, String> {
        let reader = caught(|| StreamReader::try_new(Frames::new(bytes), None)).map_err(|error| error.to_string())?;
        caught(|| reader.collect::<Result<_, _>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn whole_streams_pass_unchanged() {
        for packed in [false, true] {
            let (batch, bytes) = stream(packed);
            let mut passed = Vec::new();
            Frames::new(bytes.as_slice()).read_to_end(&mut passed).unwrap();
            assert_eq!(passed, bytes);
            assert_eq!(read(&bytes).unwrap(), [batch.clone(), batch]);
        }
    }

    #[test]
    fn what_follows_the_end_of_a_stream_is_no_part_of_it() {
        let (batch, bytes) = stream(false);
        let twice = [bytes.clone(), bytes.clone()].concat();
        assert!(
            read(&twice).unwrap_err().contains("follow its end"),
            "half of two streams would be taken for the whole"
        );
        let reader = StreamReader::try_new(Frames::of_file(twice.as_slice()), None).unwrap();
        assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), [batch.clone(), batch]);
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_an_error_or_another_stream() {
        for packed in [false, true] {
            let (_, bytes) = stream(packed);
            for at in (1..bytes.len() - 8).step_by(97) {
                assert!(read(&bytes[..at]).map_or(true, |batches| batches.len() < 2), "cut at {at}");
            }
            // Heads of messages are at the beginning; the rest is data.
            for at in 0..1200.min(bytes.len()) {
                for value in [0x7f, 0xff, 0x80] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    // What matters is that it comes to an end, within memory.
                    assert!(read(&changed).map_or(true, |batches| batches.len() <= 2), "byte {at} as {value:#x}");
                }
            }
        }
    }

    #[test]
    fn lengths_are_not_believed() {
        let long = [&CONTINUES[..], &i32::MAX.to_le_bytes(), b"x"].concat();
        assert!(read(&long).unwrap_err().contains("longer than is taken"));
        let negative = [&CONTINUES[..], &(-5_i32).to_le_bytes()].concat();
        assert!(read(&negative).unwrap_err().contains("negative"));
        assert!(read(b"a,b\n1,2\n").is_err() && read(b"ab").is_err());
    }
}
