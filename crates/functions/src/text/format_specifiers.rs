//! Reads what the text of `format()` consists of: texts, and specifiers of the values that stand among them.
//!
//! Invariants:
//! - `format()` makes its result, and estimates its size, of what is read here.
//! - A specifier is PostgreSQL's: `%[position$][-][width]type`, with a width that may be a value (`*`, `*position$`).
//!   Anything else is an error.

use alluvia_types::{Error, ErrorKind, Result};

/// Characters that a value may be made to take at least.
pub const WIDTH_MAX: usize = 1 << 20;

/// A part of the text of `format()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// Text that is taken over.
    Text(&'a str),
    /// The place of a value.
    Value(Specifier),
}

/// What stands between `%` and the end of a specifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Specifier {
    /// The number of the value, from 1; `None` is the next one.
    pub position: Option<usize>,
    /// Whether spaces are put behind the value, and not before it.
    pub is_left: bool,
    /// The least number of characters.
    pub width: Width,
    /// How the value is written.
    pub conversion: Conversion,
}

/// The least number of characters of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// A number that is written; 0 if there is none.
    Written(usize),
    /// The value with this number, from 1; `None` is the next one.
    Value(Option<usize>),
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conversion {
    /// `%s`: as it is.
    Plain,
    /// `%I`: as a name, quoted if need be.
    Name,
    /// `%L`: as a literal.
    Literal,
}

/// The pieces of the text of `format()`, in order; the first error is the last item.
pub fn pieces(text: &str) -> Pieces<'_> {
    Pieces { rest: text }
}

/// The iterator of [`pieces`].
pub struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<Piece<'a>>;

    fn next(&mut self) -> Option<Result<Piece<'a>>> {
        if self.rest.is_empty() {
            return None;
        }
        let (text, behind) = self.rest.split_at(self.rest.find('%').unwrap_or(self.rest.len()));
        if !text.is_empty() {
            self.rest = behind;
            return Some(Ok(Piece::Text(text)));
        }
        let specifier = &behind[1..];
        if let Some(behind) = specifier.strip_prefix('%') {
            self.rest = behind;
            return Some(Ok(Piece::Text(&specifier[..1])));
        }
        let read = Specifier::read(specifier);
        self.rest = read.as_ref().map_or("", |(_, behind)| behind);
        Some(read.map(|(specifier, _)| Piece::Value(specifier)))
    }
}

impl Specifier {
    /// The specifier at the start of a text, and what is behind it.
    fn read(text: &str) -> Result<(Specifier, &str)> {
        let (position, text) = match leading_digits(text) {
            (Some(digits), behind) => match behind.strip_prefix('$') {
                Some(behind) => (Some(position_of(digits)?), behind),
                // The number is a width: no `-` stands behind it.
                None => {
                    return Specifier {
                        position: None,
                        is_left: false,
                        width: written(digits)?,
                        conversion: Conversion::Plain,
                    }
                    .converted(behind);
                }
            },
            (None, behind) => (None, behind),
        };
        let unsigned = text.trim_start_matches('-');
        let (width, behind) = Width::read(unsigned)?;
        Specifier { position, is_left: unsigned.len() < text.len(), width, conversion: Conversion::Plain }
            .converted(behind)
    }

    /// The specifier with the conversion that a text begins with, and what is behind it.
    fn converted(self, text: &str) -> Result<(Specifier, &str)> {
        let mut letters = text.chars();
        let conversion = match letters.next() {
            Some('s') => Conversion::Plain,
            Some('I') => Conversion::Name,
            Some('L') => Conversion::Literal,
            Some(other) => {
                return Err(refused(format!("format() knows no %{other}")).with_hint("it knows %s, %I, %L and %%"));
            }
            None => {
                let error = refused("the text of format() ends within a place for a value".to_owned());
                return Err(error.with_hint("write %% for %"));
            }
        };
        Ok((Specifier { conversion, ..self }, letters.as_str()))
    }
}

impl Width {
    /// The width at the start of a text, and what is behind it.
    fn read(text: &str) -> Result<(Width, &str)> {
        let Some(behind) = text.strip_prefix('*') else {
            let (number, behind) = leading_digits(text);
            return Ok((number.map_or(Ok(Width::Written(0)), written)?, behind));
        };
        let (number, behind) = leading_digits(behind);
        match (number, behind.strip_prefix('$')) {
            (Some(digits), Some(behind)) => Ok((Width::Value(Some(position_of(digits)?)), behind)),
            (None, _) => Ok((Width::Value(None), behind)),
            (Some(digits), None) => {
                let what = "in format() a $ must end the number of the value that is the width";
                Err(refused(format!("{what}: *{digits}$")))
            }
        }
    }
}

fn refused(what: String) -> Error {
    Error::new(ErrorKind::InvalidSetting, what)
}

fn leading_digits(text: &str) -> (Option<&str>, &str) {
    let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    ((!digits.is_empty()).then_some(digits), rest)
}

fn position_of(digits: &str) -> Result<usize> {
    match digits.parse() {
        Ok(0) => Err(refused("format() counts its values from 1, not from 0".to_owned())),
        Ok(position) => Ok(position),
        Err(_) => Err(refused(format!("format() has no value {digits}"))),
    }
}

fn written(digits: &str) -> Result<Width> {
    bounded(digits.parse().unwrap_or(usize::MAX)).map(Width::Written)
}

/// A width, or the error of one that is more than [`WIDTH_MAX`].
pub fn bounded(width: usize) -> Result<usize> {
    if width <= WIDTH_MAX {
        return Ok(width);
    }
    let message = format!("a width in format() is more than {WIDTH_MAX} characters");
    Err(Error::new(ErrorKind::TooLarge, message).with_hint("use lpad or rpad around the value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(position: Option<usize>, is_left: bool, width: Width, conversion: Conversion) -> Piece<'static> {
        Piece::Value(Specifier { position, is_left, width, conversion })
    }

    #[test]
    fn pieces_are_in_order() {
        use Conversion::{Literal, Name, Plain};
        let found: Result<Vec<Piece<'_>>> = pieces("é%% %2$-05I%s,%*L%-*3$s").collect();
        let wanted = [
            Piece::Text("é"),
            Piece::Text("%"),
            Piece::Text(" "),
            value(Some(2), true, Width::Written(5), Name),
            value(None, false, Width::Written(0), Plain),
            Piece::Text(","),
            value(None, false, Width::Value(None), Literal),
            value(None, true, Width::Value(Some(3)), Plain),
        ];
        assert_eq!(found.expect("pieces"), wanted);
    }

    #[test]
    fn an_error_is_the_last_piece() {
        let mut all = pieces("a%xb%s");
        assert_eq!(all.next().map(Result::ok), Some(Some(Piece::Text("a"))));
        assert!(all.next().is_some_and(|piece| piece.is_err()));
        assert!(all.next().is_none());
    }
}
