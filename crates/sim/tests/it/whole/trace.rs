//! What happened in a simulation, in order: every step, every call that changed the disk, every answer.
//!
//! Invariant: two runs of a seed say the same lines, so they have the same hash; the last lines are kept for whoever
//! looks at a failure. `ALLUVIA_TEST_TRACE=1` prints all of them.

use alluvia_sim::variable;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::{Arguments, Write};

/// Lines that are kept.
const KEPT: usize = 60;

/// The lines of one simulation.
#[derive(Debug)]
pub struct Trace {
    said: Mutex<Said>,
    is_printed: bool,
}

#[derive(Debug)]
struct Said {
    hash: u64,
    lines: u64,
    last: VecDeque<String>,
}

impl Trace {
    pub fn new() -> Trace {
        // FNV-1a (Fowler, Noll, Vo), 64 bits.
        let said = Said { hash: 0xCBF2_9CE4_8422_2325, lines: 0, last: VecDeque::new() };
        Trace { said: Mutex::new(said), is_printed: variable("ALLUVIA_TEST_TRACE").is_some() }
    }

    /// Adds a line.
    pub fn say(&self, line: Arguments<'_>) {
        let mut said = self.said.lock();
        let mut text = if said.last.len() == KEPT { said.last.pop_front().unwrap_or_default() } else { String::new() };
        text.clear();
        write!(text, "{line}").expect("a text takes what is written");
        for byte in text.bytes().chain([b'\n']) {
            said.hash = (said.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        said.lines += 1;
        if self.is_printed {
            println!("{:6} {text}", said.lines);
        }
        said.last.push_back(text);
    }

    /// The hash of all lines, and how many they are.
    pub fn hash(&self) -> (u64, u64) {
        let said = self.said.lock();
        (said.hash, said.lines)
    }

    /// The last lines.
    pub fn last(&self) -> String {
        let said = self.said.lock();
        said.last.iter().fold(String::new(), |text, line| text + "  " + line + "\n")
    }
}
