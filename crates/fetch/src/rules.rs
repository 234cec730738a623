//! Rules of fetching: which hosts may be asked, how long anything may take, and how often a file that was cut is gone on with.

use crate::certificates::SYSTEM_CERTIFICATES;
use crate::hosts::Hosts;
use crate::proxy::Proxy;
use std::path::PathBuf;
use std::time::Duration;

/// What may be fetched.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The only hosts that may be asked; `None` for all, at all addresses.
    pub hosts: Option<Hosts>,
    /// Whether hosts that are allowed by their name may be at addresses that are not public.
    pub private_addresses: bool,
    /// The longest body.
    pub bytes_max: u64,
    /// File of the authorities that https believes, in PEM.
    pub certificates: PathBuf,
    /// How long what is waited for.
    pub waits: Waits,
    /// How often a file that was cut is gone on with.
    pub again: Again,
    /// Through whom hosts are asked; `None` asks them directly.
    pub proxy: Option<Proxy>,
}

impl Rules {
    /// Everything, at whatever length.
    pub fn free() -> Rules {
        Rules {
            hosts: None,
            private_addresses: true,
            bytes_max: u64::MAX,
            certificates: PathBuf::from(SYSTEM_CERTIFICATES),
            waits: Waits::default(),
            again: Again::default(),
            proxy: None,
        }
    }

    /// These hosts, at public addresses.
    pub fn only(hosts: Hosts, bytes_max: u64) -> Rules {
        Rules { hosts: Some(hosts), private_addresses: false, bytes_max, ..Rules::free() }
    }
}

/// How long what is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// The address of a name, a connection, the hand-shake of TLS; each.
    pub connect: Duration,
    /// The head of an answer.
    pub head: Duration,
    /// The next bytes of a body.
    pub silence: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { connect: Duration::from_secs(10), head: Duration::from_secs(60), silence: Duration::from_secs(60) }
    }
}

/// How often a file that was cut is gone on with, of one fetch in all.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// Tries after the first.
    pub times: u32,
    /// The wait before the first of them; it doubles with each.
    pub first_wait: Duration,
    /// And never is longer.
    pub longest_wait: Duration,
}

impl Default for Again {
    /// Half a minute of waiting in all.
    fn default() -> Self {
        Again { times: 8, first_wait: Duration::from_millis(250), longest_wait: Duration::from_secs(8) }
    }
}
