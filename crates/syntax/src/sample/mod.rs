//! The grammar of samples: `TABLESAMPLE` and `thin`.

pub mod clause;
pub mod number;
pub mod thin;
