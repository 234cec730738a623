//! Seeded simulation of the engine: histories on disks that fail, under a clock that stands still.
mod cluster;
mod keyed;
