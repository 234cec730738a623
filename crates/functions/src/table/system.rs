//! What a session says of itself, and values that are drawn.

use super::entry::{Entry, Output};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::datafusion("version", Output::Small)
        .postgresql(&["version"])
        .doc("The version of the server.")
        .example("length(version()) > 0", "true"),
    Entry::datafusion("uuid", Output::Small)
        .doc("A random UUID of version 4 as text, another one for each row.")
        .example("length(uuid()::text)", "36"),
];
