//! What the procedures of one CALL or DO hold in memory, whatever they nest.
//!
//! Invariants:
//! - Variables hold no more than `memory_limit`, all together.
//! - Notices that would be too many, or too long, are left out, and the client hears of that once.

use alluvia_procedures::{Level, Notice};
use alluvia_syntax::units::show_bytes;
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Notices that one CALL tells at most.
const NOTICES_MAX: usize = 10_000;
/// Bytes of their texts.
const NOTICE_BYTES_MAX: u64 = 64 << 20;

/// What the procedures of a statement hold.
#[derive(Debug, Default)]
pub(crate) struct HeldByCall {
    variables: AtomicU64,
    notices: AtomicU64,
    has_left_out: AtomicBool,
}

impl HeldByCall {
    /// A CALL begins, perhaps once more: nothing of it is told yet.
    pub(crate) fn begin(&self) {
        self.notices.store(0, Ordering::Relaxed);
        self.has_left_out.store(false, Ordering::Relaxed);
    }

    /// Variables hold so many bytes more.
    ///
    /// # Errors
    /// `OutOfMemory`; then they do not.
    pub(crate) fn hold(&self, bytes: u64, bytes_max: u64) -> Result<()> {
        let held = self.variables.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if held <= bytes_max {
            return Ok(());
        }
        self.free(bytes);
        let message = format!(
            "variables of procedures would hold {held} bytes, more than memory_limit ({})",
            show_bytes(bytes_max)
        );
        Err(Error::new(ErrorKind::OutOfMemory, message)
            .with_hint("keep what is large as rows of a table, or SET memory_limit higher"))
    }

    /// So many bytes of variables are free.
    pub(crate) fn free(&self, bytes: u64) {
        self.variables.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds a notice, if it may be told.
    pub(crate) fn tell(&self, notices: &mut Vec<Notice>, notice: Notice) {
        let texts = [Some(&notice.message), notice.detail.as_ref(), notice.hint.as_ref()];
        let bytes: usize = texts.into_iter().flatten().map(String::len).sum();
        let bytes = self.notices.load(Ordering::Relaxed).saturating_add(bytes as u64);
        if notices.len() < NOTICES_MAX && bytes <= NOTICE_BYTES_MAX {
            self.notices.store(bytes, Ordering::Relaxed);
            notices.push(notice);
        } else if !self.has_left_out.swap(true, Ordering::Relaxed) {
            notices.push(Notice {
                level: Level::Warning,
                message: "some of what procedures have raised is not told: it is too much".to_owned(),
                sqlstate: "01000".to_owned(),
                detail: Some(format!(
                    "A CALL tells {NOTICES_MAX} notices at most, of {} in all.",
                    show_bytes(NOTICE_BYTES_MAX)
                )),
                hint: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: String) -> Notice {
        Notice { level: Level::Notice, message, sqlstate: "00000".to_owned(), detail: None, hint: None }
    }

    #[test]
    fn notices_are_bounded_and_the_client_hears_of_that_once() {
        let (held, mut notices) = (HeldByCall::default(), Vec::new());
        for _ in 0..NOTICES_MAX + 10 {
            held.tell(&mut notices, notice("x".to_owned()));
        }
        assert_eq!((notices.len(), notices[NOTICES_MAX].level), (NOTICES_MAX + 1, Level::Warning));
        held.begin();
        notices.clear();
        for _ in 0..10 {
            held.tell(&mut notices, notice("x".repeat(NOTICE_BYTES_MAX as usize / 4)));
        }
        assert_eq!((notices.len(), notices[4].level), (5, Level::Warning));
    }

    #[test]
    fn variables_are_bounded_and_what_is_refused_is_not_held() {
        let held = HeldByCall::default();
        held.hold(60, 100).unwrap();
        assert_eq!(held.hold(60, 100).unwrap_err().kind(), ErrorKind::OutOfMemory);
        held.hold(40, 100).unwrap();
        held.free(100);
        held.hold(100, 100).unwrap();
    }
}
