//! The engine: what all sessions share.
