//! What a command that opens a database says of what had to be brought back, and of what could not be.

use crate::note;
use alluvia_node::{Database, Recovery};
use alluvia_values::thousands::counted;

/// Says it, if there is something to say.
pub fn tell_recovery(db: &Database) {
    if let Some(recovery) = db.recovery() {
        note(format_args!("NOTICE: {}", in_words(recovery)));
    }
    for closed in db.closed() {
        note(format_args!("WARNING: {}", closed.message()));
        if let Some(hint) = closed.hint() {
            note(format_args!("HINT: {hint}"));
        }
    }
}

/// A recovery in a sentence.
pub fn in_words(recovery: &Recovery) -> String {
    let Recovery { batches, rows, through, torn, is_behind_header, elapsed } = *recovery;
    let read = match batches {
        0 => "nothing had to be read again from the log".to_owned(),
        batches => {
            let (batches, rows) = (counted(batches, "batch", "batches"), counted(rows, "row", "rows"));
            format!("{batches} with {rows} read again from the log")
        }
    };
    let seconds = elapsed.as_secs_f64();
    let torn = match torn {
        Some(torn) => format!(
            "; a batch whose writing was broken off, and not acknowledged, is not: cut off the end of the {torn}"
        ),
        None if is_behind_header => {
            "; the log ends behind the header of a group or of a file: if the process did not die just then, what followed was cut off \
             since"
                .to_owned()
        }
        None => String::new(),
    };
    format!(
        "the last process had not stopped cleanly: recovered in {seconds:.2} s, {read}, everything through version {} is \
         there{torn}",
        through.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_node::TornEnd;
    use alluvia_types::Version;
    use std::time::Duration;

    #[test]
    fn it_says_what_was_read_again_and_what_was_cut() {
        let recovery = Recovery {
            batches: 1_204,
            rows: 3_100_000,
            through: Version(5_321),
            torn: None,
            is_behind_header: false,
            elapsed: Duration::from_millis(412),
        };
        let told = "the last process had not stopped cleanly: recovered in 0.41 s, 1,204 batches with 3,100,000 rows \
                    read again from the log, everything through version 5321 is there";
        assert_eq!(in_words(&recovery), told);
        let sorted = in_words(&Recovery { batches: 0, rows: 0, ..recovery });
        assert!(sorted.contains(" s, nothing had to be read again from the log, everything"), "{sorted}");
        let cut = in_words(&Recovery { is_behind_header: true, ..recovery });
        assert!(cut.ends_with("is there; the log ends behind the header of a group or of a file: if the process did not die just then, what followed was cut off since"), "{cut}");
        let end = TornEnd { file: 3, offset: 640, bytes: 71, groups: 0 };
        let torn = in_words(&Recovery { batches: 1, rows: 1, torn: Some(end), ..recovery });
        assert!(torn.contains(" s, 1 batch with 1 row read"), "{torn}");
        let end = "is there; a batch whose writing was broken off, and not acknowledged, is not: cut off the end of the log file \
                   0000000000000003.log, from byte 640 on: 71 bytes that are no whole batch";
        assert!(torn.ends_with(end), "{torn}");
    }
}
