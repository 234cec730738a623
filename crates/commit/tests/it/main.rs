//! The committer over a log and views of its own, without the pipeline.

mod room;
mod support;
