//! The committer over a log and views of its own, without the pipeline.

mod cuts;
mod levels;
mod room;
mod support;
mod turns;
