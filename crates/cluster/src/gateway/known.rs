//! How new what a gateway knows is, without comparing clocks of two machines.
//!
//! What a keeper has answered to a question was the newest when the question was *sent*, or is newer. So what was asked at most so long ago
//! is fresh enough for whoever takes what is so old.
//!
//! Invariant: a version that is given for an age is at least the one that was newest so long before, whatever clocks of others say.

use alluvia_types::{Version, planted};
use std::time::Duration;

/// The newest version that is known, and as of when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// By the clock of this process, when the question was sent; `None` before the first answer.
    sent: Option<Duration>,
    version: Version,
}

impl Known {
    /// An answer to a question that was sent then.
    pub fn answered(&mut self, sent: Duration, version: Version) {
        self.version = self.version.max(version);
        self.sent = self.sent.max(Some(sent));
    }

    /// The version for a statement that takes what is so old; `None` where the keeper must be asked.
    pub fn within(&self, now: Duration, age: Duration) -> Option<Version> {
        let sent = self.sent?;
        (now.saturating_sub(sent) <= age || planted("old answer taken for new")).then_some(self.version)
    }

    /// The newest version that is known.
    pub fn version(&self) -> Version {
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_too_long_ago_must_be_asked_again() {
        let (second, mut known) = (Duration::from_secs(1), Known::default());
        assert_eq!(known.within(second, second * 9), None);
        known.answered(second * 5, Version(7));
        // A slow answer to an older question tells nothing of now.
        known.answered(second * 2, Version(9));
        assert_eq!(known.within(second * 6, second), Some(Version(9)));
        assert_eq!(known.within(second * 7, second), None);
    }
}
