//! Who may connect, whatever the protocol: users, roles of the database and what is known of their passwords, wrong passwords by
//! network and role, certificates, which addresses may be listened on, and how; places of connections, and how servers end.
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
mod pace;
mod passwords;
mod places;
mod scram;
mod stopping;
mod timed;
mod tls;
mod work;

pub use attempts::Attempts;
pub use basic::credentials;
pub use directory::{Directory, LogIn};
pub use door::{Door, Shown, Turned};
pub use listening::Listener;
pub use passwords::{Access, Passwords};
pub use places::{Busy, ConnectionSlot, Places};
pub use scram::{Decoys, Exchange, MECHANISM, Verifier, random_password};
pub use stopping::{Stopping, reached, stop};
pub use timed::Timed;
pub use tls::{Tls, check_address};
pub use work::{gone, watched};
