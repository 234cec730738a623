//! Packed keys, codes and values of blocks, as the side file and memory hold them.
//!
//! Invariant: how a block is packed follows from its summary (bounds of keys and codes, encodings of measures), so that
//! packed bytes carry no headers and any row is found by multiplication.

mod codes;
mod measure;
mod stream;

pub(crate) use codes::{CodeBounds, code_at, key_width, pack_codes, pack_keys, unpack_codes, unpack_keys};
pub(crate) use measure::{Encoding, MeasureValues, PackedAs, SCALE_MAX, Value, powi, scaled_integer, units, value_at};
pub(crate) use stream::PackedStream;
