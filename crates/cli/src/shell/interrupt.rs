//! Ctrl-C, as this process hears it.
//!
//! Invariants:
//! - From the first time that somebody listens to it, one that is pressed while nobody does is kept for whoever listens next: between two
//!   statements, or between a statement's beginning and its rows, none is lost.
//! - Before that it ends the process, as it does with any other.

use futures::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

/// The one listener: each of [`tokio::signal::ctrl_c`] hears only what is pressed while it is held. A process has one Ctrl-C.
static LISTENER: Mutex<Option<Signal>> = Mutex::const_new(None);

/// Completes when Ctrl-C is pressed, or was since it was last heard. Never, where it cannot be listened to.
pub async fn pressed() {
    let mut listener = LISTENER.lock().await;
    if listener.is_none() {
        *listener = signal(SignalKind::interrupt()).ok();
    }
    match listener.as_mut() {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether it was pressed since it was last heard. From now on that is forgotten.
pub fn was_pressed() -> bool {
    let Ok(mut listener) = LISTENER.try_lock() else { return false };
    let Some(signal) = listener.as_mut() else { return false };
    signal.recv().now_or_never().is_some()
}

#[cfg(test)]
mod tests {
    use super::{pressed, was_pressed};
    use std::process::Command;
    use std::time::Duration;
    use tokio::time::timeout;

    fn press() {
        let pid = std::process::id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// The only test that listens: Ctrl-C is one for all that this process runs.
    #[tokio::test]
    async fn what_is_pressed_while_nobody_listens_is_heard_once() {
        assert!(timeout(Duration::from_millis(10), pressed()).await.is_err());
        assert!(!was_pressed());
        press();
        timeout(Duration::from_secs(60), pressed()).await.unwrap();
        assert!(timeout(Duration::from_millis(10), pressed()).await.is_err());
        press();
        while !was_pressed() {
            tokio::task::yield_now().await;
        }
        assert!(!was_pressed());
    }
}
