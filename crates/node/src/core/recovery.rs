//! What opening a database had to bring back, because the process before it did not stop cleanly.
//!
//! Invariant: a database whose log was ended by a clean stop, or that nothing was written to since it was opened, has
//! nothing to tell: the log says which ([`LogEnd::is_closed`](alluvia_log::LogEnd)). A process that died as it had begun
//! another file of the log, and written nothing into it, passes for one that had stopped.

use alluvia_types::Version;
use std::fmt;
use std::time::Duration;

/// What was brought back from the log after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Batches that were read again: those that no manifest covers.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// The newest of them: everything through it is there.
    pub through: Version,
    /// Whether the writing of a batch had been broken off, which nobody was told is there. It was cut.
    pub is_torn: bool,
    /// How long reading them again took.
    pub elapsed: Duration,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recovery { batches, rows, through, is_torn, elapsed } = *self;
        let of =
            |count: u64, one: &str, many: &str| format!("{} {}", grouped(count), if count == 1 { one } else { many });
        write!(f, "the last process had not stopped cleanly: recovered in {:.2} s, ", elapsed.as_secs_f64())?;
        match batches {
            0 => f.write_str("nothing had to be read again from the log")?,
            batches => {
                let (batches, rows) = (of(batches, "batch", "batches"), of(rows, "row", "rows"));
                write!(f, "{batches} with {rows} read again from the log")?;
            }
        }
        write!(f, ", everything through version {} is there", through.0)?;
        if is_torn {
            f.write_str("; a batch whose writing was broken off, and not acknowledged, is not")
        } else {
            Ok(())
        }
    }
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_read_again_and_what_was_cut() {
        let recovery = Recovery {
            batches: 1_204,
            rows: 3_100_000,
            through: Version(5_321),
            is_torn: false,
            elapsed: Duration::from_millis(412),
        };
        let told = "the last process had not stopped cleanly: recovered in 0.41 s, 1,204 batches with 3,100,000 rows \
                    read again from the log, everything through version 5321 is there";
        assert_eq!(recovery.to_string(), told);
        let sorted = Recovery { batches: 0, rows: 0, ..recovery };
        assert!(sorted.to_string().contains(" s, nothing had to be read again from the log, everything"), "{sorted}");
        let torn = Recovery { batches: 1, rows: 1, is_torn: true, ..recovery };
        assert!(torn.to_string().contains(" s, 1 batch with 1 row read"), "{torn}");
        assert!(
            torn.to_string().ends_with("is there; a batch whose writing was broken off, and not acknowledged, is not"),
            "{torn}"
        );
    }
}
