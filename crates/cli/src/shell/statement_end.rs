//! The end of a statement: as much of SQL's lexis as tells a ';' from one in quotes or in a comment.
//!
//! Invariants:
//! - It agrees with the parser's tokenizer on quotes (doubled inside, backslashes in E'...', $tag$) and on comments, which nest.
//! - Text is fed in pieces and looked at once, so a script of any number of lines takes linear time. A piece ends at the end
//!   of a line or of the text: nothing of two characters is cut by it.
//! - Text without a statement (nothing, blanks, comments) has ended.

/// What the text fed so far is in the middle of.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Inside {
    /// Nothing but, perhaps, a statement.
    Text,
    /// A literal or a quoted name.
    Quotes { quote: char, backslash_escapes: bool },
    /// A literal that ends with this: `$$`, `$tag$`.
    Dollars(String),
    /// So many comments, one in the other.
    Comment(usize),
}

/// Whether the last thing of a text, outside of quotes and comments, is a ';'.
#[derive(Debug)]
pub(super) struct StatementEnd {
    inside: Inside,
    ended: bool,
}

impl Default for StatementEnd {
    fn default() -> StatementEnd {
        StatementEnd { inside: Inside::Text, ended: true }
    }
}

/// Whether a whole text has ended.
pub(super) fn ends(text: &str) -> bool {
    let mut ending = StatementEnd::default();
    ending.feed(text);
    ending.has_ended()
}

impl StatementEnd {
    /// Whether what was fed so far has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended && self.inside == Inside::Text
    }

    /// Goes on with the next piece.
    pub(super) fn feed(&mut self, piece: &str) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = match &self.inside {
                Inside::Text => self.text(rest),
                &Inside::Quotes { quote, backslash_escapes } => self.quotes(rest, quote, backslash_escapes),
                Inside::Dollars(end) => match rest.find(end.as_str()) {
                    Some(at) => {
                        let after = &rest[at + end.len()..];
                        self.inside = Inside::Text;
                        after
                    }
                    None => "",
                },
                &Inside::Comment(depth) => self.comment(rest, depth),
            };
        }
    }

    /// Up to the next quote or comment; gives what follows its beginning.
    fn text<'t>(&mut self, text: &'t str) -> &'t str {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let next = chars.clone().next();
            match c {
                ';' => self.ended = true,
                c if c.is_whitespace() => {}
                '-' if next == Some('-') => {
                    let comment = chars.as_str();
                    chars = comment[comment.find(['\n', '\r']).unwrap_or(comment.len())..].chars();
                }
                '/' if next == Some('*') => {
                    chars.next();
                    self.inside = Inside::Comment(1);
                    return chars.as_str();
                }
                'e' | 'E' if next == Some('\'') => {
                    chars.next();
                    return self.open('\'', true, chars.as_str());
                }
                '\'' | '"' => return self.open(c, false, chars.as_str()),
                '$' => {
                    self.ended = false;
                    if let Some(tag) = dollar_tag(chars.as_str()) {
                        self.inside = Inside::Dollars(format!("${tag}$"));
                        return &chars.as_str()[tag.len() + 1..];
                    }
                }
                // A whole word, so that neither its E nor its $ is taken for the beginning of a literal.
                c if c.is_alphanumeric() || c == '_' => {
                    self.ended = false;
                    chars = chars.as_str().trim_start_matches(is_word_part).chars();
                }
                _ => self.ended = false,
            }
        }
        ""
    }

    fn open<'t>(&mut self, quote: char, backslash_escapes: bool, after: &'t str) -> &'t str {
        self.ended = false;
        self.inside = Inside::Quotes { quote, backslash_escapes };
        after
    }

    fn quotes<'t>(&mut self, text: &'t str, quote: char, backslash_escapes: bool) -> &'t str {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if backslash_escapes && c == '\\' {
                chars.next();
            } else if c == quote {
                if chars.as_str().starts_with(quote) {
                    chars.next();
                } else {
                    self.inside = Inside::Text;
                    break;
                }
            }
        }
        chars.as_str()
    }

    fn comment<'t>(&mut self, text: &'t str, mut depth: usize) -> &'t str {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (c, chars.clone().next()) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => continue,
            }
            chars.next();
            if depth == 0 {
                self.inside = Inside::Text;
                return chars.as_str();
            }
        }
        self.inside = Inside::Comment(depth);
        ""
    }
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The tag of a literal whose first '$' was read; `$1` begins none.
fn dollar_tag(after: &str) -> Option<&str> {
    let len = after.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(after.len());
    after[len..].starts_with('$').then_some(&after[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_at_its_semicolon_and_not_at_one_in_quotes_or_comments() {
        for complete in [
            "SELECT 1;",
            "SELECT ';' ; ",
            "SELECT 1; -- done",
            "SELECT 1 /* ; */ ;",
            "",
            " \n",
            "-- nothing but a comment;",
            "/* one /* in the other */ */",
            "SELECT $$ ; $$;",
            "SELECT $tag$ $$ ; $tag$;",
            "SELECT $1, a$b$c;",
            r"SELECT E'it\'s'; ",
            r"SELECT '\';",
            "SELECT 'it''s', \"a\"\"b\";",
            "SELECT fine'x';",
            "SELECT 1 -- comment\r;",
        ] {
            assert!(ends(complete), "{complete}");
        }
        for incomplete in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 1 -- ;",
            "SELECT /* ;",
            "SELECT 1; SELECT 2",
            "SELECT 'a;'",
            "SELECT $$ ;",
            "SELECT $tag$ ; $$;",
            "; /* one /* in the other */ ;",
            r"SELECT E'it\';",
            "SELECT 'it''s;",
        ] {
            assert!(!ends(incomplete), "{incomplete}");
        }
    }

    #[test]
    fn pieces_say_what_the_whole_says() {
        let texts = [
            "SELECT 'two\nlines;\n' ;\n-- then\n\\d\n",
            "SELECT $a$ one\n $$ ;\n$a$\n;",
            "/* a\n/* b\n*/\n;*/ SELECT 1\n;",
            "SELECT E'\\\n' ;\n",
        ];
        for text in texts {
            let (mut ending, mut so_far) = (StatementEnd::default(), String::new());
            for line in text.split_inclusive('\n') {
                ending.feed(line);
                so_far.push_str(line);
                assert_eq!(ending.has_ended(), ends(&so_far), "{so_far:?}");
            }
        }
    }
}
