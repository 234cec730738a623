//! Functions that planning puts into plans and that no statement can name.

pub mod computed;
pub mod hidden;
pub mod opaque;
pub mod row_bytes;
pub mod single_row;
pub mod text_beside;
