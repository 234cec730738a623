//! Functions that `syntax` and `plan` put into statements and plans, and that nobody needs to write.

pub mod computed;
pub mod hidden;
pub mod opaque;
pub mod row_bytes;
pub mod single_row;
pub mod text_beside;
