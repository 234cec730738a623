//! Several machines, in one process: a keeper, three workers and two gateways, which call one another.

mod keys;
mod lost;
mod parts;
mod scripts;
mod sessions;
mod together;
