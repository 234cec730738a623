//! Tells the service manager where the server stands, as sd_notify(3) does: a line in a datagram to the socket that
//! `NOTIFY_SOCKET` names.
//!
//! Invariant: a service manager that cannot be told is reported and never stops the server.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The server takes connections.
pub const READY: &str = "READY=1";
/// The server takes none any more, and ends.
pub const STOPPING: &str = "STOPPING=1";

/// Tells the service manager, if there is one.
pub fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(socket = %socket.display(), %error, "the service manager could not be told {state}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        // A name of Linux's own, outside of the file system.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("notify");
        let name = format!("alluvia-test-{}", std::process::id());
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                format!("@{name}").into(),
            ),
        ];
        for (socket, address) in sockets {
            send(&address, READY).unwrap();
            let mut told = [0; 100];
            let count = socket.recv(&mut told).unwrap();
            assert_eq!(&told[..count], READY.as_bytes());
        }
        assert!(send(OsStr::new("/nowhere/at/all"), READY).is_err());
    }
}
