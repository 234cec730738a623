//! Who may connect, whatever the protocol: users, roles of the database and what is known of their passwords, wrong passwords by
//! address, certificates, and which addresses may be listened on, and how.
//!
//! Invariants:
//! - A password is never kept, only a verifier from which it cannot be had; what is compared is compared in constant time.
//! - Guessing is slow, whatever the protocol and the number of connections: all servers of a process share one [`Attempts`].
//! - No server listens where other machines can reach it unless clients must log in, over TLS (`check_address`).

mod attempts;
mod basic;
mod directory;
mod door;
mod listening;
mod passwords;
mod scram;
mod timed;
mod tls;
mod work;

pub use attempts::Attempts;
pub use directory::{Directory, LogIn};
pub use door::{Door, Shown, Turned};
pub use listening::{Listener, Stopping, reached};
pub use passwords::{Access, Passwords};
pub use scram::{Decoys, Exchange, MECHANISM, Verifier, random_password};
pub use timed::Timed;
pub use tls::Tls;
pub use work::{gone, watched};

use tls::check_address;
