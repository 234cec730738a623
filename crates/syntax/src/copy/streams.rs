//! Standard input and output, as a COPY is handed them.

use std::fmt;
use std::io::{Read, Write};

/// What `STDIN` and `STDOUT` are to a statement. Where there is nothing, COPY refuses them: a database within a program does
/// not help itself to the program's own.
#[derive(Default)]
pub struct Streams {
    /// Read by `COPY ... FROM STDIN`.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// Written by `COPY ... TO STDOUT`.
    pub stdout: Option<Box<dyn Write + Send>>,
}

impl Streams {
    /// Those of the process.
    pub fn of_process() -> Streams {
        Streams { stdin: Some(Box::new(std::io::stdin())), stdout: Some(Box::new(std::io::stdout())) }
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stdin, stdout) = (self.stdin.is_some(), self.stdout.is_some());
        f.debug_struct("Streams").field("stdin", &stdin).field("stdout", &stdout).finish()
    }
}
