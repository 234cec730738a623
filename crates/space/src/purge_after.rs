//! The option `purge_after` of a table: for how long rows that are dead keep their bytes.
//!
//! Invariant: what is not said is left out wherever definitions are kept, so a definition without the option is the bytes that it
//! always was.

use alluvia_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Units, the largest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
const SECONDS_MIN: u64 = 60;
/// Three hundred years.
const SECONDS_MAX: u64 = 300 * 365 * 86_400;

/// How old a deleted row may become in the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PurgeAfter {
    /// As old as it happens to become.
    #[default]
    Never,
    /// So many seconds: what is older is written away.
    Seconds(u64),
}

impl PurgeAfter {
    /// As WITH (purge_after = '...') has it: `never`, or a whole number of seconds, minutes, hours or days, at least a minute.
    ///
    /// # Errors
    /// `InvalidDefinition` of anything else.
    pub fn parse(text: &str) -> Result<PurgeAfter> {
        let written = text.trim().to_ascii_lowercase();
        if written == "never" {
            return Ok(PurgeAfter::Never);
        }
        let seconds = || {
            let (number, unit) = written.split_at(written.find(|c: char| !c.is_ascii_digit())?);
            let (_, scale) = UNITS.into_iter().find(|(name, _)| *name == unit.trim())?;
            number
                .parse::<u64>()
                .ok()?
                .checked_mul(scale)
                .filter(|seconds| (SECONDS_MIN..=SECONDS_MAX).contains(seconds))
        };
        seconds().map(PurgeAfter::Seconds).ok_or_else(|| {
            Error::new(ErrorKind::InvalidDefinition, format!("purge_after cannot be {text:?}"))
                .with_hint("it takes a time of a minute at least, such as '30d', '12h' or '90min', or 'never'")
        })
    }

    /// What an option of a table says; `None` of 'default', which is what is not said: as the database has it.
    ///
    /// # Errors
    /// As [`PurgeAfter::parse`].
    pub fn parse_option(text: &str) -> Result<Option<PurgeAfter>> {
        match text.trim().eq_ignore_ascii_case("default") {
            true => Ok(None),
            false => PurgeAfter::parse(text).map(Some),
        }
    }

    /// As SQL and definitions write it, in the largest unit that is exact.
    pub fn name(self) -> String {
        match self {
            PurgeAfter::Never => "never".to_owned(),
            PurgeAfter::Seconds(seconds) => {
                let exact = UNITS.into_iter().find(|(_, scale)| seconds.is_multiple_of(*scale));
                let (unit, scale) = exact.unwrap_or(("s", 1));
                format!("{}{unit}", seconds / scale)
            }
        }
    }

    /// The time; `None` of never.
    pub fn age(self) -> Option<Duration> {
        match self {
            PurgeAfter::Never => None,
            PurgeAfter::Seconds(seconds) => Some(Duration::from_secs(seconds)),
        }
    }
}

impl TryFrom<String> for PurgeAfter {
    type Error = Error;

    fn try_from(text: String) -> Result<PurgeAfter> {
        PurgeAfter::parse(&text)
    }
}

impl From<PurgeAfter> for String {
    fn from(after: PurgeAfter) -> String {
        after.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_in_their_units() {
        for (written, seconds, name) in [
            ("30d", 30 * 86_400, "30d"),
            (" 24 H ", 86_400, "1d"),
            ("90min", 5_400, "90min"),
            ("60s", 60, "1min"),
            ("61s", 61, "61s"),
            ("109500d", SECONDS_MAX, "109500d"),
        ] {
            let after = PurgeAfter::parse(written).unwrap();
            assert_eq!((after, after.name().as_str()), (PurgeAfter::Seconds(seconds), name), "{written}");
            assert_eq!(PurgeAfter::parse(name).unwrap(), after);
            assert_eq!(after.age(), Some(Duration::from_secs(seconds)));
            assert_eq!((String::from(after), PurgeAfter::try_from(name.to_owned()).unwrap()), (name.to_owned(), after));
        }
        assert_eq!(PurgeAfter::parse(" Never").unwrap(), PurgeAfter::Never);
        assert_eq!(PurgeAfter::parse_option("Default").unwrap(), None);
        assert_eq!(PurgeAfter::parse_option("never").unwrap(), Some(PurgeAfter::Never));
        for refused in ["", "d", "30", "30 days", "0d", "59s", "-1d", "1.5h", "109501d", "99999999999999999999d", "off"]
        {
            let error = PurgeAfter::parse(refused).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidDefinition, "{refused}");
            assert!(error.message().contains(&format!("{refused:?}")), "{error}");
        }
    }
}
