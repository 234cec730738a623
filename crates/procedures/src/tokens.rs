//! A body as words, numbers, texts and signs, with their places and lines.
//!
//! SQL's own tokenizer is not used for bodies: it reads the bounds of `1..10` as the numbers `1.` and `.10`, and gives no offsets. Statements within
//! a body are cut out of its text whole, and go to `alluvia_syntax`, which cuts them as it does all SQL.
//!
//! Invariant: places are within the text, on boundaries of characters, in its order; a text of any bytes gives tokens or a syntax error.

use alluvia_types::{Error, ErrorKind, Result};
use std::ops::Range;

/// The most bytes of a body.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What a token is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Lexeme {
    /// A name or keyword that is not quoted, in small letters.
    Word(String),
    /// A name in double quotes, without them.
    Quoted(String),
    /// A number, as it is written.
    Number,
    /// A text in any quotes, without them.
    Text(String),
    /// `$1`.
    Parameter(usize),
    /// Any other sign.
    Sign(&'static str),
    /// A sign that the language does not have itself: of an operator.
    Other,
}

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub lexeme: Lexeme,
    pub place: Range<usize>,
    /// From 1.
    pub line: u32,
}

impl Token {
    /// Whether it is this keyword (small letters) or sign.
    pub fn is(&self, wanted: &str) -> bool {
        match &self.lexeme {
            Lexeme::Word(word) => word == wanted,
            Lexeme::Sign(sign) => *sign == wanted,
            _ => false,
        }
    }
}

/// Signs that are looked for, longer ones first.
const SIGNS: [&str; 16] = [":=", "..", "::", "<<", ">>", "=>", ";", ",", "(", ")", "[", "]", ".", "=", "%", ":"];

/// A text with the tokenizer's place in it.
struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

/// The tokens of a text.
pub(crate) fn of(text: &str) -> Result<Vec<Token>> {
    if text.len() > BODY_BYTES_MAX {
        let message = format!("a body of {} bytes is longer than the {BODY_BYTES_MAX} that one may have", text.len());
        return Err(Error::new(ErrorKind::TooLarge, message).with_hint("make several procedures of it"));
    }
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::new();
    while lexer.skip()? {
        let (start, line) = (lexer.at, lexer.line);
        let lexeme = lexer.next()?;
        tokens.push(Token { lexeme, place: start..lexer.at, line });
    }
    Ok(tokens)
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || !c.is_ascii()
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Goes over so many bytes, which end with a character.
    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.at..self.at + bytes];
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count() as u32;
        self.at += bytes;
    }

    /// Goes over characters of a kind.
    fn advance_while(&mut self, is_of_kind: impl Fn(char) -> bool) {
        let rest = self.rest();
        let bytes = rest.find(|c| !is_of_kind(c)).unwrap_or(rest.len());
        self.advance(bytes);
    }

    fn unterminated(&self, what: &str, line: u32) -> Error {
        Error::new(ErrorKind::Syntax, format!("unterminated {what}")).at(format!("line {line}"))
    }

    /// Goes over spaces and comments. Whether there is more.
    fn skip(&mut self) -> Result<bool> {
        loop {
            self.advance_while(char::is_whitespace);
            let rest = self.rest();
            if rest.starts_with("--") {
                self.advance(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.comment()?;
            } else {
                return Ok(!rest.is_empty());
            }
        }
    }

    /// A comment, and those in it.
    fn comment(&mut self) -> Result<()> {
        let (line, mut depth) = (self.line, 0usize);
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") {
                depth += 1;
                self.advance(2);
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.advance(2);
            } else {
                match self.peek() {
                    Some(c) => self.advance(c.len_utf8()),
                    None => return Err(self.unterminated("comment", line)),
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Lexeme> {
        let rest = self.rest();
        let Some(first) = self.peek() else { return Ok(Lexeme::Other) };
        if matches!(first, 'e' | 'E') && rest[1..].starts_with('\'') {
            self.advance(1);
            return self.quoted('\'', true).map(Lexeme::Text);
        }
        match first {
            '\'' => self.quoted('\'', false).map(Lexeme::Text),
            '"' => self.quoted('"', false).map(Lexeme::Quoted),
            '$' => self.dollar(),
            '0'..='9' => {
                self.number();
                Ok(Lexeme::Number)
            }
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                self.number();
                Ok(Lexeme::Number)
            }
            first if is_word_start(first) => {
                let start = self.at;
                self.advance_while(|c| is_word_start(c) || c.is_ascii_digit() || c == '$');
                Ok(Lexeme::Word(self.text[start..self.at].to_ascii_lowercase()))
            }
            first => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    self.advance(sign.len());
                    Ok(Lexeme::Sign(sign))
                }
                None => {
                    self.advance(first.len_utf8());
                    Ok(Lexeme::Other)
                }
            },
        }
    }

    /// Digits, a point unless it is one of two, digits, an exponent.
    fn number(&mut self) {
        let is_digit = |c: char| c.is_ascii_digit();
        self.advance_while(is_digit);
        if self.rest().starts_with('.') && !self.rest().starts_with("..") {
            self.advance(1);
            self.advance_while(is_digit);
        }
        if let Some(exponent) = self.rest().strip_prefix(['e', 'E']) {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.starts_with(is_digit) {
                self.advance(1 + exponent.len() - digits.len());
                self.advance_while(is_digit);
            }
        }
    }

    /// What is between quotes, which stand twice within it; with `escapes`, behind a backslash, too.
    fn quoted(&mut self, quote: char, escapes: bool) -> Result<String> {
        let line = self.line;
        let mut found = String::new();
        self.advance(1);
        loop {
            let Some(c) = self.peek() else {
                let what = if quote == '"' { "quoted identifier" } else { "quoted string" };
                return Err(self.unterminated(what, line));
            };
            self.advance(c.len_utf8());
            if c == quote {
                if self.peek() != Some(quote) {
                    return Ok(found);
                }
                self.advance(1);
                found.push(quote);
            } else if c == '\\' && escapes {
                let Some(escaped) = self.peek() else { return Err(self.unterminated("quoted string", line)) };
                self.advance(escaped.len_utf8());
                found.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                });
            } else {
                found.push(c);
            }
        }
    }

    /// `$1`, or a text between dollars.
    fn dollar(&mut self) -> Result<Lexeme> {
        let (rest, line) = (self.rest(), self.line);
        let behind = &rest[1..];
        let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        if digits > 0 {
            self.advance(1 + digits);
            return behind[..digits].parse().map(Lexeme::Parameter).map_err(|_| {
                Error::new(ErrorKind::Syntax, format!("${} is no parameter", &behind[..digits]))
                    .at(format!("line {line}"))
            });
        }
        let tag = behind.find(|c| !(is_word_start(c) || char::is_ascii_digit(&c))).unwrap_or(behind.len());
        if !behind[tag..].starts_with('$') {
            self.advance(1);
            return Ok(Lexeme::Other);
        }
        let quotes = &rest[..tag + 2];
        let inside = &rest[quotes.len()..];
        let Some(end) = inside.find(quotes) else {
            return Err(self.unterminated("dollar-quoted string", line));
        };
        self.advance(2 * quotes.len() + end);
        Ok(Lexeme::Text(inside[..end].to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let tokens = of(text).unwrap();
        tokens.iter().map(|token| format!("{}:{}", token.line, &text[token.place.clone()])).collect()
    }

    #[test]
    fn bodies_are_cut_as_postgresql_cuts_them() {
        assert_eq!(shown("FOR i IN 1..10"), ["1:FOR", "1:i", "1:IN", "1:1", "1:..", "1:10"]);
        assert_eq!(shown("1.5e-3 .5 1..n 2."), ["1:1.5e-3", "1:.5", "1:1", "1:..", "1:n", "1:2."]);
        assert_eq!(
            shown("a:=1;--x\n<<é>> /* /* ; */ */\nE'a\\'b;' $x$;$$;$x$ $1 a$b"),
            ["1:a", "1::=", "1:1", "1:;", "2:<<", "2:é", "2:>>", "3:E'a\\'b;'", "3:$x$;$$;$x$", "3:$1", "3:a$b"]
        );
        assert_eq!(of("'it''s'").unwrap()[0].lexeme, Lexeme::Text("it's".to_owned()));
        assert_eq!(of("\"A\"\"b\"").unwrap()[0].lexeme, Lexeme::Quoted("A\"b".to_owned()));
        assert!(of("").unwrap().is_empty());
        for text in ["'a", "\"a", "$$a", "/* a", "E'\\", "$99999999999999999999999"] {
            assert!(of(&format!("\n{text}")).unwrap_err().message().starts_with("line 2: "), "{text}");
        }
        assert!(of(&" ".repeat(BODY_BYTES_MAX + 1)).is_err());
    }
}
