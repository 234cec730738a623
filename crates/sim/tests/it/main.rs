//! Seeded simulation of the engine: histories on disks that fail, under a clock that stands still.
mod canaries;
mod cluster;
mod keyed;
mod whole;
