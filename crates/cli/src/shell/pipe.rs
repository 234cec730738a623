//! Standard input as it comes.
//!
//! Invariants:
//! - Lines come whole and in order. One whose end has come is not kept back because more may follow.
//! - Who stops waiting for the next line loses nothing of it.

use alluvia_types::{Error, Result};
use std::io::Read;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A script pauses where nothing has come for so long. What a file or another program gives at once does not.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// So many reads wait to be looked at, at most: whoever writes faster than statements run waits in turn.
const READS_MAX: usize = 16;

/// What a pipe has next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A line with its end, which the last one may lack.
    Line(String),
    /// Nothing for a while; said once.
    Pause,
    /// Nothing any more.
    End,
}

/// The lines of a pipe.
pub struct Pipe {
    reads: mpsc::Receiver<std::io::Result<Vec<u8>>>,
    /// What was read and not given.
    rest: Vec<u8>,
    /// Where the next line begins in it.
    at: usize,
    paused: bool,
}

impl Pipe {
    /// Reads on a thread of its own, which ends with the pipe or with the process.
    pub fn of(mut from: impl Read + Send + 'static) -> Pipe {
        let (send, reads) = mpsc::channel(READS_MAX);
        std::thread::spawn(move || {
            let mut buffer = vec![0; READ_BYTES];
            loop {
                let read = match from.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(bytes) => Ok(buffer[..bytes].to_vec()),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = read.is_err();
                if send.blocking_send(read).is_err() || is_last {
                    break;
                }
            }
        });
        Pipe { reads, rest: Vec::new(), at: 0, paused: true }
    }

    /// The next line, the beginning of a pause, or the end.
    pub async fn next(&mut self) -> Result<Next> {
        let mut seen = self.at;
        loop {
            if let Some(end) = self.rest[seen..].iter().position(|byte| *byte == b'\n') {
                return self.line(seen + end + 1);
            }
            seen = self.rest.len();
            let next = self.reads.recv();
            let read = if self.paused { Some(next.await) } else { timeout(PAUSE, next).await.ok() };
            match read {
                None => {
                    self.paused = true;
                    return Ok(Next::Pause);
                }
                Some(None) if seen == self.at => return Ok(Next::End),
                Some(None) => return self.line(seen),
                Some(Some(bytes)) => {
                    let bytes = bytes.map_err(|error| Error::io("standard input", "reading", &error))?;
                    self.rest.drain(..self.at);
                    (seen, self.at) = (seen - self.at, 0);
                    self.rest.extend_from_slice(&bytes);
                    self.paused = false;
                }
            }
        }
    }

    fn line(&mut self, end: usize) -> Result<Next> {
        let line = std::str::from_utf8(&self.rest[self.at..end]).map(str::to_owned);
        self.at = end;
        let line = line.map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error));
        Ok(Next::Line(line.map_err(|error| Error::io("standard input", "reading", &error))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    async fn all(from: impl Read + Send + 'static) -> Vec<Next> {
        let (mut pipe, mut found) = (Pipe::of(from), Vec::new());
        loop {
            match pipe.next().await.unwrap() {
                Next::End => return found,
                Next::Pause => {}
                line => found.push(line),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_whole_wherever_reads_end() {
        assert_eq!(all(Cursor::new("")).await, []);
        let long = "x".repeat(3 * READ_BYTES);
        let text = format!("a\n\n{long}\n{long}ü");
        let wanted: Vec<Next> = text.split_inclusive('\n').map(|line| Next::Line(line.to_owned())).collect();
        assert_eq!(all(Cursor::new(text)).await, wanted);
    }

    #[tokio::test]
    async fn what_has_come_is_given_before_more_comes() {
        let (read, mut write) = std::io::pipe().unwrap();
        let mut pipe = Pipe::of(read);
        write.write_all(b"SELECT 1;\nSELECT").unwrap();
        assert_eq!(pipe.next().await.unwrap(), Next::Line("SELECT 1;\n".to_owned()));
        assert_eq!(pipe.next().await.unwrap(), Next::Pause);
        write.write_all(b" 2;").unwrap();
        drop(write);
        let mut rest = Vec::new();
        while rest.last() != Some(&Next::End) {
            rest.push(pipe.next().await.unwrap());
        }
        rest.retain(|next| *next != Next::Pause);
        assert_eq!(rest, [Next::Line("SELECT 2;".to_owned()), Next::End]);
    }

    #[tokio::test]
    async fn what_is_not_utf8_is_refused() {
        let mut pipe = Pipe::of(Cursor::new(b"a\n\xff\n"));
        assert_eq!(pipe.next().await.unwrap(), Next::Line("a\n".to_owned()));
        assert!(pipe.next().await.unwrap_err().to_string().contains("standard input"));
    }
}
