//! What a command that opens a database says of what had to be brought back.

use crate::note;
use alluvia_node::{Database, Recovery};
use alluvia_values::thousands::counted;

/// Says it, if there is something to say.
pub fn tell_recovery(db: &Database) {
    if let Some(recovery) = db.recovery() {
        note(format_args!("NOTICE: {}", in_words(recovery)));
    }
}

/// A recovery in a sentence.
pub fn in_words(recovery: &Recovery) -> String {
    let Recovery { batches, rows, through, is_torn, elapsed } = *recovery;
    let read = match batches {
        0 => "nothing had to be read again from the log".to_owned(),
        batches => {
            let (batches, rows) = (counted(batches, "batch", "batches"), counted(rows, "row", "rows"));
            format!("{batches} with {rows} read again from the log")
        }
    };
    let seconds = elapsed.as_secs_f64();
    let torn = if is_torn { "; a batch whose writing was broken off, and not acknowledged, is not" } else { "" };
    format!(
        "the last process had not stopped cleanly: recovered in {seconds:.2} s, {read}, everything through version {} is \
         there{torn}",
        through.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::Version;
    use std::time::Duration;

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
        assert_eq!(in_words(&recovery), told);
        let sorted = in_words(&Recovery { batches: 0, rows: 0, ..recovery });
        assert!(sorted.contains(" s, nothing had to be read again from the log, everything"), "{sorted}");
        let torn = in_words(&Recovery { batches: 1, rows: 1, is_torn: true, ..recovery });
        assert!(torn.contains(" s, 1 batch with 1 row read"), "{torn}");
        let end = "is there; a batch whose writing was broken off, and not acknowledged, is not";
        assert!(torn.ends_with(end), "{torn}");
    }
}
