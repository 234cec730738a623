//! Identifiers and positions, each a type of its own.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A batch's position in the log. `Version(0)` is the empty database.
    Version(u64)
);
id!(
    /// A table, for ever: never reused, unchanged by renames.
    TableId(u32)
);
id!(
    /// A column of one table, for ever: never reused, unchanged by renames.
    ColumnId(u32)
);
id!(
    /// An immutable segment file pair, database-wide, never reused.
    SegmentId(u64)
);

impl Version {
    /// The version after this one.
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

/// How organised data is. Ordered from least to most organised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Durable in the log, in memory as the tail.
    Ingested,
    /// A small segment in curve order.
    Sorted,
    /// A large segment of one partition.
    Merged,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::Ingested => "ingested",
            Stage::Sorted => "sorted",
            Stage::Merged => "merged",
        })
    }
}
