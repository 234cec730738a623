//! Definitions of tables, roles and cuboids.

pub(crate) mod cuboids;
pub(crate) mod roles;
pub(crate) mod tables;
