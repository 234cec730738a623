//! Files of a segment made anew from what is left of it: rungs from the segment, the side file from the Parquet file.
//!
//! Invariants:
//! - Nothing that is there is changed before what takes its place is durable.
//! - What is made of a file that may be damaged itself is used only where something says that it is not ([`Proof`]): the side file has the
//!   checksums of the Parquet file, so a lost one is proven right by the manifest's checksums of it, which the new one must have.
//! - A rung is a segment of its own: a new one has a new id, and whoever names it writes the manifest.
//!
//! What cannot be made anew is a Parquet file: its rows are nowhere else.

mod damage;
mod rungs;
mod side;

pub use damage::Damage;
pub use side::{Proof, REBUILT_DIR, RebuiltSide};
