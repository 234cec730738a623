//! Flight SQL over `query::Session`.
