//! The option `ladder` of a table: the thickest rung of its segments' ladders.
//!
//! Invariant: the default is left out wherever definitions are kept, so a definition without the option is the bytes
//! that it always was.
//!
//! Each rung has half of the rows of the one before. So a ladder from 1/2 on takes as much room as the rows themselves,
//! one from 1/4 on half as much, one from 1/8 on a quarter.

use alluvia_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The thickest rung that merges write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Ladder {
    /// Half of the rows.
    #[serde(rename = "1/2")]
    Half,
    /// A quarter of the rows.
    #[serde(rename = "1/4")]
    Quarter,
    /// An eighth of the rows.
    #[default]
    #[serde(rename = "1/8")]
    Eighth,
}

impl Ladder {
    /// All, the thickest first.
    pub const ALL: [Ladder; 3] = [Ladder::Half, Ladder::Quarter, Ladder::Eighth];

    /// As SQL and definitions write it.
    pub fn name(self) -> &'static str {
        match self {
            Ladder::Half => "1/2",
            Ladder::Quarter => "1/4",
            Ladder::Eighth => "1/8",
        }
    }

    /// The one that a definition names.
    pub fn parse(written: &str) -> Result<Ladder> {
        let found = Ladder::ALL.into_iter().find(|ladder| ladder.name() == written.trim());
        found.ok_or_else(|| {
            Error::new(ErrorKind::InvalidDefinition, format!("there is no ladder {written:?}"))
                .with_hint("ladder is the thickest rung: '1/2', '1/4' or '1/8'")
        })
    }

    /// The number of the thickest rung: so often the rows are halved.
    pub fn first_rung(self) -> u32 {
        match self {
            Ladder::Half => 1,
            Ladder::Quarter => 2,
            Ladder::Eighth => 3,
        }
    }

    /// Whether definitions leave it out.
    pub(crate) fn is_default(&self) -> bool {
        *self == Ladder::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_often_rows_are_halved() {
        for ladder in Ladder::ALL {
            assert_eq!(Ladder::parse(ladder.name()).unwrap(), ladder);
            assert_eq!(ladder.name(), format!("1/{}", 1 << ladder.first_rung()));
        }
        for wrong in ["", "1/16", "1/1", "0.5", "half"] {
            assert_eq!(Ladder::parse(wrong).unwrap_err().kind(), ErrorKind::InvalidDefinition, "{wrong}");
        }
        assert!(Ladder::Eighth.is_default() && !Ladder::Half.is_default());
    }
}
