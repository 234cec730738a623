//! One statement on its way: supervised, recorded and audited, and what it gives back.

pub(crate) mod auditing;
pub(crate) mod outcome;
pub(crate) mod report;
pub(crate) mod supervise;
