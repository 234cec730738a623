//! Which options of COPY go together.
//!
//! Invariant: an option that would be ignored is refused.

use crate::copy::options::{CopyOptions, Direction, Format, Header, OnError, invalid};
use alluvia_space::RowOp;
use alluvia_types::{Error, ErrorKind, Result};

impl CopyOptions {
    /// Checks that the options go together, with the direction, and with the format that `file` (if any) implies.
    pub fn check(&self, direction: Direction, file: Option<&str>) -> Result<()> {
        if direction == Direction::To {
            let loading_only = [
                ("ON_ERROR", self.on_error != OnError::Refuse),
                ("REJECTS", self.rejects.is_some()),
                ("BATCH_ROWS", self.batch_rows.is_some()),
                ("EXACT", self.is_exact),
                ("HEADER match", self.header == Header::Match),
                ("ON_CONFLICT", self.policy.on_conflict.is_some()),
                ("OP", self.policy.op.is_some()),
            ];
            if let Some((name, _)) = loading_only.iter().find(|(_, given)| *given) {
                return Err(invalid(format!("COPY option {name} is for COPY ... FROM")));
            }
        }
        if self.batch_rows.is_some() && direction == Direction::From && file.is_none() {
            return Err(Error::new(ErrorKind::NotSupported, "COPY option BATCH_ROWS is not supported from standard input")
                .with_hint(
                    "only files can be read again to go on where a load stopped: save the input to a file, or leave the option out",
                ));
        }
        if self.rejects.is_some() && self.on_error == OnError::Refuse {
            return Err(invalid("COPY option REJECTS needs ON_ERROR skip: nothing is rejected otherwise"));
        }
        if let (Some(_), Some(op)) = (self.policy.on_conflict, self.policy.op)
            && op != RowOp::Insert
        {
            return Err(invalid(format!(
                "COPY option ON_CONFLICT is for rows that are inserted, and OP is {}",
                op.name()
            )));
        }
        let format = self.format_of(file)?;
        if direction == Direction::From && format == Format::JsonArray {
            return Err(Error::new(ErrorKind::NotSupported, "a JSON array cannot be loaded").with_hint(ARRAY_HINT));
        }
        if let (Format::Text | Format::Binary, Direction::To, Some(name)) = (format, direction, file) {
            let message = format!("{name} cannot be written as {}, PostgreSQL's own format", format.name());
            return Err(Error::new(ErrorKind::NotSupported, message)
                .with_hint("use csv, ndjson, parquet or arrow; PostgreSQL's clients copy to STDOUT in it"));
        }
        if self.is_exact && format == Format::Binary {
            return Err(invalid("COPY option EXACT is not for FORMAT binary, whose values have types of their own"));
        }
        let of_text = matches!(format, Format::Csv | Format::Text);
        let csv_only = [
            ("HEADER", self.header != Header::Auto, of_text),
            ("DELIMITER", self.delimiter.is_some(), of_text),
            ("QUOTE", self.quote.is_some(), format == Format::Csv),
            ("ESCAPE", self.escape.is_some(), format == Format::Csv),
            ("NULL", self.null.is_some(), of_text),
        ];
        if let Some((name, ..)) = csv_only.iter().find(|(_, given, fits)| *given && !fits) {
            return Err(invalid(format!("COPY option {name} is for FORMAT csv, and this is {}", format.name())));
        }
        let dialect = self.dialect(file);
        let distinct = dialect.delimiter != dialect.quote && dialect.delimiter != dialect.escape;
        if !distinct {
            return Err(invalid("DELIMITER must differ from QUOTE and ESCAPE"));
        }
        if dialect.null.iter().any(|byte| [dialect.delimiter, dialect.quote, b'\n', b'\r'].contains(byte)) {
            return Err(invalid("NULL must not contain the delimiter, the quote or a line end"));
        }
        Ok(())
    }
}

/// What is to be done about an array of objects.
pub const ARRAY_HINT: &str = "write one object a line, for example with jq -c '.[]'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::options::tests::options;

    #[test]
    fn options_that_would_be_ignored_are_refused() {
        let refused = |pairs: &[(&str, Option<&str>)], direction, file| {
            options(pairs).unwrap().check(direction, Some(file)).unwrap_err().message().to_owned()
        };
        assert!(refused(&[("BATCH_ROWS", Some("5"))], Direction::To, "a.csv").contains("BATCH_ROWS"));
        assert!(
            refused(&[("HEADER", Some("match"))], Direction::To, "a.csv").contains("HEADER match is for COPY ... FROM")
        );
        assert!(refused(&[("EXACT", None)], Direction::To, "a.csv").contains("EXACT is for COPY ... FROM"));
        assert!(refused(&[("ON_CONFLICT", Some("replace"))], Direction::To, "a.csv").contains("is for COPY ... FROM"));
        let both = [("ON_CONFLICT", Some("replace")), ("OP", Some("delete"))];
        assert!(refused(&both, Direction::From, "a.csv").contains("OP is delete"));
        assert!(refused(&[("FORMAT", Some("binary")), ("EXACT", None)], Direction::From, "a").contains("EXACT"));
        assert!(refused(&[("REJECTS", Some("r"))], Direction::From, "a.csv").contains("ON_ERROR skip"));
        assert!(refused(&[("DELIMITER", Some(";"))], Direction::From, "a.parquet").contains("DELIMITER"));
        assert!(refused(&[("QUOTE", Some(","))], Direction::From, "a.csv").contains("differ"));
        assert!(refused(&[("NULL", Some("a,b"))], Direction::From, "a.csv").contains("NULL"));
        assert!(refused(&[], Direction::From, "a.dat").contains("a.dat"));
        let batches = options(&[("BATCH_ROWS", Some("5"))]).unwrap();
        assert_eq!(batches.check(Direction::From, None).unwrap_err().kind(), ErrorKind::NotSupported);
        options(&[("QUOTE", Some("'")), ("HEADER", None)]).unwrap().check(Direction::From, Some("a.tsv.gz")).unwrap();
        CopyOptions::default().check(Direction::From, None).unwrap();
    }
}
