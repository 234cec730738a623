//! Nodes of a cluster: a worker is a database that follows, a gateway is one whose rows lie at workers.
//!
//! | Module | What it is |
//! |---|---|
//! | `worker` | a worker: its database, its bodies, and the thread that follows the decisions |
//! | `gateway` | a gateway: the engine of SQL over the ports of a cluster |
//! | `status` | how the nodes are, for system tables |
//! | `process` | one process of a cluster: its roles, its socket for other nodes, what its directory says of it |
//! | `within` | a whole cluster in one process, for tests and trials: the same parts, without a network |
//!
//! Invariant: nothing here is on the way of a database of one process.

mod gateway;
mod process;
mod repeating;
mod status;
mod within;
mod worker;

pub use gateway::GatewayNode;
pub use process::{NodeOptions, NodeProcess};
pub use within::Within;
pub use worker::WorkerNode;
