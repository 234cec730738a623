//! What a session says of itself, and values that are drawn.

use super::entry::{Entry, Output};
use crate::casts::uuids::Drawn;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::datafusion("version", Output::Small)
        .postgresql(&["version"])
        .doc("The version of the server.")
        .example("length(version()) > 0", "true"),
    Entry::scalar("gen_random_uuid", Output::Small, || Drawn::new().into())
        .postgresql(&["gen_random_uuid"])
        .doc("A random UUID of version 4, another one for each row.")
        .example("length(gen_random_uuid()::text)", "36"),
    Entry::datafusion("uuid", Output::Small)
        .doc("A random UUID of version 4 as text, another one for each row.")
        .example("length(uuid()::text)", "36"),
];
