//! The input buffer: bytes that have come from a client and were not read yet.
//!
//! Invariants:
//! - Memory follows what has come, never the length that a message states: at most as much again, and a small step, is set aside.
//! - What a long message took goes with it: nothing of it is kept for those after it.

use crate::wire::frontend::{First, Message, first, next};
use alluvia_types::Result;
use bytes::BytesMut;

/// New memory is for so much at least.
const READ_BYTES: usize = 16 << 10;
/// Memory with less room than this is left for new, unless it does for the rest of a message.
const ROOM_BYTES_MIN: usize = 4 << 10;
/// The step beyond as much again as has come.
const STEP_BYTES: usize = 32 << 10;
/// Memory of more than this is given back as soon as what it held is read.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Bytes between the socket and those who read messages.
pub(crate) struct Input {
    bytes: BytesMut,
}

impl Input {
    /// With nothing in it.
    pub(crate) fn new() -> Input {
        Input { bytes: BytesMut::with_capacity(READ_BYTES) }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The kind of the next message, if its first byte is here.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// The first message of the connection; `None` if more bytes are needed.
    pub(crate) fn first(&mut self) -> Result<Option<First>> {
        first(&mut self.bytes)
    }

    /// The next message, of at most `bytes_max` bytes; `None` if more bytes are needed.
    pub(crate) fn next(&mut self, bytes_max: usize) -> Result<Option<Message>> {
        let before = self.bytes.len();
        let message = next(&mut self.bytes, bytes_max)?;
        if before - self.bytes.len() > KEPT_BYTES_MAX {
            // As long as something of it is held here, all of its memory is.
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        Ok(message)
    }

    /// Where what comes next goes: there is room.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        let come = self.bytes.len();
        let room = self.bytes.capacity() - come;
        let missing = stated(&self.bytes).saturating_sub(come);
        let enough = if missing == 0 { ROOM_BYTES_MIN } else { missing.min(ROOM_BYTES_MIN) };
        let is_too_much = come == 0 && room > KEPT_BYTES_MAX;
        if room < enough || is_too_much {
            // Where whole messages wait it doubles, so that they are not copied again and again.
            let wanted = if missing == 0 { come } else { missing };
            // Memory of its own, not `reserve`, which takes what a long message had for those after it.
            let mut bytes = BytesMut::with_capacity(come + wanted.clamp(READ_BYTES, come + STEP_BYTES));
            bytes.extend_from_slice(&self.bytes);
            self.bytes = bytes;
        }
        &mut self.bytes
    }
}

/// How long the message at the front says that it is, with its kind; 0 if it has not said so yet. Of a connection's first message,
/// which is written otherwise, it is some number: what is set aside for it is bounded by what has come, as ever.
fn stated(bytes: &[u8]) -> usize {
    match bytes {
        [_, a, b, c, d, ..] => (u32::from_be_bytes([*a, *b, *c, *d]) as usize).saturating_add(1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;

    const LONG: usize = 8 << 20;

    /// Lets some bytes come, as a socket would: never more than there is room for.
    fn come(input: &mut Input, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = input.room();
            let count = bytes.len().min(room.capacity() - room.len());
            assert!(count > 0);
            room.put_slice(&bytes[..count]);
            bytes = &bytes[count..];
            let (held, has_come) = (input.bytes.capacity(), input.len());
            assert!(held <= 2 * has_come + STEP_BYTES + READ_BYTES, "{held} bytes for {has_come}");
        }
    }

    fn copy_data(bytes: usize) -> Vec<u8> {
        [&b"d"[..], &(bytes as u32 + 4).to_be_bytes(), &vec![b'x'; bytes]].concat()
    }

    #[test]
    fn a_stated_length_takes_no_memory() {
        let mut input = Input::new();
        come(&mut input, b"d\x03\xff\xff\xff");
        assert!(input.next(64 << 20).unwrap().is_none());
        assert!(input.room().capacity() <= STEP_BYTES + READ_BYTES);
        // Nor does one that is never looked at, of what is read ahead.
        let mut input = Input::new();
        come(&mut input, b"d\xff\xff\xff\xff");
        assert!(input.room().capacity() <= STEP_BYTES + READ_BYTES);
    }

    #[test]
    fn long_messages_come_whole_and_leave_nothing_behind() {
        let mut input = Input::new();
        for _ in 0..3 {
            come(&mut input, &copy_data(LONG));
            // The last room was for the rest of it alone.
            assert!(input.bytes.capacity() <= LONG + 5 + READ_BYTES);
            come(&mut input, b"S\0\0");
            let Some(Message::CopyData(bytes)) = input.next(2 * LONG).unwrap() else { panic!("a message") };
            assert_eq!(bytes.len(), LONG);
            assert!(input.next(2 * LONG).unwrap().is_none());
            assert!(input.room().capacity() <= KEPT_BYTES_MAX);
            come(&mut input, b"\0\x04");
            assert!(matches!(input.next(2 * LONG).unwrap(), Some(Message::Sync)));
            assert!(input.is_empty() && input.room().capacity() <= KEPT_BYTES_MAX);
        }
    }

    #[test]
    fn many_messages_that_wait_are_read_in_turn_and_leave_nothing_behind() {
        let mut input = Input::new();
        let messages: Vec<usize> = (0..400).map(|at| at * 7).collect();
        messages.iter().for_each(|bytes| come(&mut input, &copy_data(*bytes)));
        for wanted in &messages {
            assert_eq!(input.peek(), Some(b'd'));
            let Some(Message::CopyData(bytes)) = input.next(LONG).unwrap() else { panic!("a message") };
            assert_eq!(bytes.len(), *wanted);
        }
        assert!(input.is_empty() && input.next(LONG).unwrap().is_none());
        assert!(input.room().capacity() <= KEPT_BYTES_MAX);
    }
}
