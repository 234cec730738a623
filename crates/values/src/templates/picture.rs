//! Templates of numbers, as they are parsed: which digits, signs and points they have.
//!
//! Invariant: what PostgreSQL refuses in a template is refused in its words, with SQLSTATE 42601.

use crate::templates::literals::{Piece, after_text, key};
use alluvia_types::{Error, ErrorKind, Result};

/// What writes something, or reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `9`: a digit; a blank in the place of a leading zero.
    Nine,
    /// `0`: a digit; leading zeros are written.
    Zero,
    /// `.` and `D`: the same, as in the locale C.
    Point,
    /// `,` and `G`, which are told apart when numbers are read.
    Comma,
    /// `G`: the group separator, `,` in the locale C.
    Group,
    /// `L`: the currency symbol, a blank in the locale C.
    Currency,
    /// `RN` or `rn`: the number in Roman numerals.
    Roman {
        /// Whether in capital letters.
        is_upper: bool,
    },
    /// `TH` or `th`: the ordinal suffix of an integer, as in `1st`.
    Ordinal {
        /// Whether in capital letters.
        is_upper: bool,
    },
    /// `MI`: a minus sign if the number is negative, else a blank.
    Minus,
    /// `PL`: a plus sign if the number is not negative, else a blank.
    Plus,
    /// `SG`: a minus or a plus sign.
    Sign,
}

/// Patterns. The longer of two that begin alike comes first; those in small letters are the same, but for `rn` and `th`.
const KEYS: [(&str, Word); 36] = [
    (",", Word::Key(Key::Comma)),
    (".", Word::Key(Key::Point)),
    ("0", Word::Key(Key::Zero)),
    ("9", Word::Key(Key::Nine)),
    ("B", Word::Blank),
    ("C", Word::Nothing),
    ("D", Word::Key(Key::Point)),
    ("EEEE", Word::Scientific),
    ("FM", Word::Unfilled),
    ("G", Word::Key(Key::Group)),
    ("L", Word::Key(Key::Currency)),
    ("MI", Word::Key(Key::Minus)),
    ("PL", Word::Key(Key::Plus)),
    ("PR", Word::Bracket),
    ("RN", Word::Key(Key::Roman { is_upper: true })),
    ("SG", Word::Key(Key::Sign)),
    ("SP", Word::Nothing),
    ("S", Word::Anchored),
    ("TH", Word::Key(Key::Ordinal { is_upper: true })),
    ("V", Word::Shift),
    ("b", Word::Blank),
    ("c", Word::Nothing),
    ("d", Word::Key(Key::Point)),
    ("eeee", Word::Scientific),
    ("fm", Word::Unfilled),
    ("g", Word::Key(Key::Group)),
    ("l", Word::Key(Key::Currency)),
    ("mi", Word::Key(Key::Minus)),
    ("pl", Word::Key(Key::Plus)),
    ("pr", Word::Bracket),
    ("rn", Word::Key(Key::Roman { is_upper: false })),
    ("sg", Word::Key(Key::Sign)),
    ("sp", Word::Nothing),
    ("s", Word::Anchored),
    ("th", Word::Key(Key::Ordinal { is_upper: false })),
    ("v", Word::Shift),
];

/// A pattern, and whether it has a place in what is written.
#[derive(Debug, Clone, Copy)]
enum Word {
    Key(Key),
    /// `S`: the sign, beside the digits.
    Anchored,
    /// `PR`: what is negative, between `<` and `>`.
    Bracket,
    /// `B`.
    Blank,
    /// `FM`.
    Unfilled,
    /// `V`: digits behind it multiply by ten.
    Shift,
    /// `EEEE`.
    Scientific,
    Nothing,
}

/// Where `S` has its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Before the first digit.
    Before,
    /// Behind the last digit.
    Behind,
}

/// A template of numbers.
#[derive(Debug, Default)]
pub struct Picture {
    /// Patterns that write or read something, and literal text, in the template's order.
    pub pieces: Vec<Piece<Key>>,
    /// Digits before the point.
    pub whole: usize,
    /// Digits behind the point.
    pub fraction: usize,
    /// Digits behind `V`.
    pub shift: usize,
    /// Digits before the first zero that is written as one, if any is.
    pub first_zero: Option<usize>,
    /// Digits up to the last of these.
    pub last_zero: usize,
    /// The side of the digits that `S` has the sign on; `None` without `S`.
    pub anchor: Option<Anchor>,
    /// Digits before `S`.
    pub before_anchor: usize,
    /// Whether `.` or `D` is there.
    pub has_point: bool,
    /// Whether `V` is there.
    pub has_shift: bool,
    /// Whether `PR` is there: negative numbers stand between `<` and `>`.
    pub has_bracket: bool,
    /// Whether `MI` or `SG` is there.
    pub has_minus: bool,
    /// Whether `PL` or `SG` is there.
    pub has_plus: bool,
    /// Whether `FM` is there: no padding blanks, and no trailing zeros of `9` behind the point.
    pub is_unfilled: bool,
    /// Whether `RN` or `rn` is there.
    pub is_roman: bool,
    /// Whether `EEEE` is there: the number is written with a power of ten.
    pub is_scientific: bool,
    is_blank: bool,
}

impl Picture {
    /// Parses a template.
    pub fn parse(template: &str) -> Result<Picture> {
        let mut picture = Picture::default();
        let mut rest = template;
        while !rest.is_empty() {
            rest = match key(rest, &KEYS) {
                Some((word, behind)) => {
                    picture.take(word)?;
                    if let Word::Key(key) = word {
                        picture.pieces.push(Piece::Key(key));
                    }
                    behind
                }
                None => after_text(rest, &mut picture.pieces),
            };
        }
        Ok(picture)
    }

    /// Digits behind the point of a number that is read.
    pub fn scale(&self) -> usize {
        self.fraction + self.shift
    }

    fn take(&mut self, word: Word) -> Result<()> {
        if self.is_scientific && !matches!(word, Word::Scientific) {
            return refused("\"EEEE\" must be the last pattern used");
        }
        match word {
            Word::Key(Key::Nine) if self.has_bracket => return refused("\"9\" must be ahead of \"PR\""),
            Word::Key(Key::Zero) if self.has_bracket => return refused("\"0\" must be ahead of \"PR\""),
            Word::Key(Key::Nine) if self.has_shift => self.shift += 1,
            Word::Key(Key::Nine) if self.has_point => self.fraction += 1,
            Word::Key(Key::Nine) => self.whole += 1,
            Word::Key(Key::Zero) => {
                if self.has_point {
                    self.fraction += 1;
                } else {
                    self.first_zero = self.first_zero.or(Some(self.whole));
                    self.whole += 1;
                }
                self.last_zero = self.whole + self.fraction;
            }
            Word::Key(Key::Point) => {
                if self.has_point {
                    return refused("multiple decimal points");
                }
                if self.has_shift {
                    return refused("cannot use \"V\" and decimal point together");
                }
                self.has_point = true;
            }
            Word::Blank => self.is_blank |= self.whole == 0 && self.fraction == 0,
            Word::Unfilled => self.is_unfilled = true,
            Word::Anchored => {
                if self.anchor.is_some() {
                    return refused("cannot use \"S\" twice");
                }
                if self.has_plus || self.has_minus || self.has_bracket {
                    return refused("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together");
                }
                if self.has_point {
                    self.anchor = Some(Anchor::Behind);
                } else {
                    self.anchor = Some(Anchor::Before);
                    self.before_anchor = self.whole;
                }
            }
            Word::Key(Key::Minus) => {
                self.without_anchor("MI")?;
                self.has_minus = true;
            }
            Word::Key(Key::Plus) => {
                self.without_anchor("PL")?;
                self.has_plus = true;
            }
            Word::Key(Key::Sign) => {
                self.without_anchor("SG")?;
                (self.has_minus, self.has_plus) = (true, true);
            }
            Word::Bracket => {
                if self.anchor.is_some() || self.has_plus || self.has_minus {
                    return refused("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together");
                }
                self.has_bracket = true;
            }
            Word::Key(Key::Roman { .. }) => self.is_roman = true,
            Word::Shift => {
                if self.has_point {
                    return refused("cannot use \"V\" and decimal point together");
                }
                self.has_shift = true;
            }
            Word::Scientific => {
                if self.is_scientific {
                    return refused("cannot use \"EEEE\" twice");
                }
                let has_sign = self.anchor.is_some() || self.has_bracket || self.has_minus || self.has_plus;
                if has_sign || self.is_blank || self.is_unfilled || self.is_roman || self.has_shift {
                    let error = Error::new(ErrorKind::Syntax, "\"EEEE\" is incompatible with other formats");
                    let hint = "\"EEEE\" may only be used together with digit and decimal point patterns";
                    return Err(error.with_hint(hint));
                }
                self.is_scientific = true;
            }
            Word::Nothing | Word::Key(Key::Comma | Key::Group | Key::Currency | Key::Ordinal { .. }) => {}
        }
        Ok(())
    }

    fn without_anchor(&self, other: &str) -> Result<()> {
        if self.anchor.is_some() {
            return refused(&format!("cannot use \"S\" and \"{other}\" together"));
        }
        Ok(())
    }
}

fn refused<T>(what: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Syntax, what))
}

/// Digits behind the point of what `to_number` reads by a template, for whoever knows the template before it is planned.
pub fn scale_of(template: &str) -> Option<usize> {
    Picture::parse(template).ok().map(|picture| picture.scale())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_counted() {
        for (template, whole, fraction, shift, first_zero, last_zero) in [
            ("", 0, 0, 0, None, 0),
            ("999", 3, 0, 0, None, 0),
            ("9,9G9D99", 3, 2, 0, None, 0),
            ("FM0999.90", 4, 2, 0, Some(0), 6),
            ("990V99", 3, 0, 2, Some(2), 3),
            ("99\"99\"9", 3, 0, 0, None, 0),
            (".00", 0, 2, 0, None, 2),
        ] {
            let of = Picture::parse(template).unwrap();
            let found = (of.whole, of.fraction, of.shift, of.first_zero, of.last_zero);
            assert_eq!(found, (whole, fraction, shift, first_zero, last_zero), "{template}");
        }
    }

    #[test]
    fn patterns_have_their_places_and_letters_stand_for_themselves() {
        let pieces = Picture::parse("xMI9 th.RNrn").unwrap().pieces;
        let text = |text: &str| -> Piece<Key> { Piece::Text(text.to_owned()) };
        assert_eq!(
            pieces,
            [
                text("x"),
                Piece::Key(Key::Minus),
                Piece::Key(Key::Nine),
                text(" "),
                Piece::Key(Key::Ordinal { is_upper: false }),
                Piece::Key(Key::Point),
                Piece::Key(Key::Roman { is_upper: true }),
                Piece::Key(Key::Roman { is_upper: false }),
            ]
        );
        // What sets no digit has no place; one letter E is none of EEEE.
        assert_eq!(Picture::parse("FMSPBC9S").unwrap().pieces, [Piece::Key(Key::Nine)]);
        assert_eq!(Picture::parse("9EEE").unwrap().pieces, [Piece::Key(Key::Nine), text("EEE")]);
    }

    #[test]
    fn what_postgresql_refuses_is_refused() {
        for (template, told) in [
            ("9.9.9", "multiple decimal points"),
            ("9V9D9", "cannot use \"V\" and decimal point together"),
            ("9.9V9", "cannot use \"V\" and decimal point together"),
            ("9PR9", "\"9\" must be ahead of \"PR\""),
            ("9PR0", "\"0\" must be ahead of \"PR\""),
            ("S9S", "cannot use \"S\" twice"),
            ("S9MI", "cannot use \"S\" and \"MI\" together"),
            ("MI9S", "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"),
            ("S9PR", "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"),
            ("9EEEE9", "\"EEEE\" must be the last pattern used"),
            ("9EEEEEEEE", "cannot use \"EEEE\" twice"),
            ("FM9EEEE", "\"EEEE\" is incompatible with other formats"),
        ] {
            let error = Picture::parse(template).err().map(|error| (error.kind(), error.message().to_owned()));
            assert_eq!(error, Some((ErrorKind::Syntax, told.to_owned())), "{template}");
        }
    }
}
