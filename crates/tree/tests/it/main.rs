//! The crate's tests from outside, in one binary.

mod answer_model;
mod bands;
mod common;
mod cuboid_model;
mod dead_sample_model;
mod edge_model;
mod files;
mod golden;
mod ladder;
mod lengths;
mod made_zones;
mod mapped_model;
mod mapping;
mod or_boxes;
mod passes;
mod point_rows;
mod rare_groups;
mod refine_model;
mod round_trip;
mod sample_model;
mod schema_model;
mod schemas;
mod wide;
