//! Answers that are files: Arrow streams and Parquet files, which are read from their first byte to their last.
//!
//! Invariant: where standard output is no terminal, it holds one such file and nothing else, or none. What would write more is refused
//! before it runs, unless only its run shows that it answers with rows.

use super::Format;
use alluvia_types::{Error, ErrorKind, Result};

/// What standard output has got.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    lines: bool,
    file: bool,
}

impl Written {
    /// Takes note of what is about to be written in this form; refuses it beside a file.
    pub fn admit(&mut self, format: Format) -> Result<()> {
        let is_file = format.is_file();
        if self.file || is_file && self.lines {
            let message =
                "an answer in the form of Arrow or Parquet is a whole file: no other can stand beside it in the output";
            return Err(Error::new(ErrorKind::NotSupported, message).with_hint(
                "run one query at a time, or write files: COPY (SELECT ...) TO '/a.parquet'; COPY (SELECT ...) TO '/b.parquet'",
            ));
        }
        match is_file {
            true => self.file = true,
            false => self.lines = true,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stands_alone() {
        use Format::{Arrow, Csv, Json, Parquet, Table};
        for (forms, admitted) in [
            (vec![Csv, Json, Table, Csv], 4),
            (vec![Arrow], 1),
            (vec![Arrow, Arrow], 1),
            (vec![Parquet, Csv], 1),
            (vec![Csv, Parquet, Csv], 1),
        ] {
            let mut written = Written::default();
            let count = forms.iter().take_while(|form| written.admit(**form).is_ok()).count();
            assert_eq!(count, admitted, "{forms:?}");
        }
    }
}
