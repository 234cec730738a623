//! Paths of Rust source that lead into their own crate, found by tokens: what the rule about folders reads.
//!
//! Invariants:
//! - Every path that begins with `crate`, `self` or `super` is found, in `use` and elsewhere, through groups within
//!   groups, and is told from the crate's root.
//! - Comments and literals hold no paths.
//!
//! Modules within a file count: `super` in one of them is the file's own module. Paths that begin with a module beside
//! (`use words::wrapped`) stay within their folder, unless they stand in the crate's root, where [`imports`] reads
//! them.

/// A piece of source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    /// A name, a keyword or a number.
    Word(&'a str),
    /// `::`.
    Colons,
    /// Any other sign.
    Sign(char),
}

/// A path, and what it is called where it is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import<'a> {
    /// From the crate's root; ends with `*` where it takes everything.
    pub path: Vec<&'a str>,
    /// Its last name, or what `as` makes of it.
    pub name: &'a str,
}

/// The paths in a file of this module (none in the crate's root) that lead into the crate.
pub fn paths<'a>(text: &'a str, module: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut reader = Reader { tokens: tokens(text), at: 0, found: Vec::new() };
    let mut module = module.to_vec();
    // Whether each open brace is a module's.
    let mut braces = Vec::new();
    while let Some(&token) = reader.tokens.get(reader.at) {
        match token {
            Token::Word("mod") if reader.tokens.get(reader.at + 2) == Some(&Token::Sign('{')) => {
                if let Token::Word(name) = reader.tokens[reader.at + 1] {
                    module.push(name);
                    braces.push(true);
                    reader.at += 3;
                    continue;
                }
            }
            Token::Sign('{') => braces.push(false),
            Token::Sign('}') if braces.pop() == Some(true) => drop(module.pop()),
            Token::Word("crate" | "self" | "super") if reader.is_beginning() => {
                reader.tree(module.clone());
                continue;
            }
            _ => {}
        }
        reader.at += 1;
    }
    reader.found.into_iter().map(|import| import.path).collect()
}

/// What the crate's root imports, for all or for itself: modules below see either as `crate::name`.
pub fn imports(root: &str) -> Vec<Import<'_>> {
    let mut reader = Reader { tokens: tokens(root), at: 0, found: Vec::new() };
    while let Some(&token) = reader.tokens.get(reader.at) {
        reader.at += 1;
        if token == Token::Word("use") {
            reader.tree(Vec::new());
        }
    }
    reader.found
}

/// Reads trees of paths.
struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    found: Vec<Import<'a>>,
}

impl<'a> Reader<'a> {
    /// Whether a path begins here that has more than one name.
    fn is_beginning(&self) -> bool {
        let is_inner = self.at > 0 && self.tokens[self.at - 1] == Token::Colons;
        !is_inner && self.tokens.get(self.at + 1) == Some(&Token::Colons)
    }

    /// Reads the paths that go on here from a module.
    fn tree(&mut self, mut path: Vec<&'a str>) {
        loop {
            match self.tokens.get(self.at) {
                Some(&Token::Word(word)) => {
                    self.at += 1;
                    match word {
                        "crate" => path.clear(),
                        "super" => drop(path.pop()),
                        "self" => {}
                        name => path.push(name),
                    }
                }
                Some(Token::Sign('{')) => return self.group(&path),
                Some(Token::Sign('*')) => {
                    self.at += 1;
                    path.push("*");
                }
                // Types of a function's call, a macro's call and the like: the path is over.
                _ => return self.end(path),
            }
            if self.tokens.get(self.at) != Some(&Token::Colons) {
                return self.end(path);
            }
            self.at += 1;
        }
    }

    fn group(&mut self, path: &[&'a str]) {
        self.at += 1;
        while let Some(&token) = self.tokens.get(self.at) {
            match token {
                Token::Sign('}') => {
                    self.at += 1;
                    return;
                }
                Token::Word(_) | Token::Sign('{' | '*') => self.tree(path.to_vec()),
                _ => self.at += 1,
            }
        }
    }

    fn end(&mut self, path: Vec<&'a str>) {
        let mut name = path.last().copied().unwrap_or_default();
        if let (Some(Token::Word("as")), Some(&Token::Word(alias))) =
            (self.tokens.get(self.at), self.tokens.get(self.at + 1))
        {
            name = alias;
            self.at += 2;
        }
        self.found.push(Import { path, name });
    }
}

/// Cuts source into tokens.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = &rest[..length];
            match raw_string(word, &rest[length..]) {
                Some(literal) => length + literal,
                None => {
                    found.push(Token::Word(word));
                    length
                }
            }
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            // What is no character in quotes is a lifetime, or a label.
            let is_character = rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'');
            if is_character { quoted(rest, '\'') } else { 1 }
        } else if rest.starts_with("::") {
            found.push(Token::Colons);
            2
        } else {
            if !first.is_whitespace() {
                found.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a raw string behind its prefix, if there is one.
fn raw_string(prefix: &str, rest: &str) -> Option<usize> {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if !matches!(prefix, "r" | "br" | "cr") || !rest[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = hashes + 1;
    Some(rest[begin..].find(&end).map_or(rest.len(), |place| begin + place + end.len()))
}

/// The length of a literal in quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, module: &[&'static str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|&name| name.to_owned()).collect();
        let module: Vec<&str> = module.iter().map(String::as_str).collect();
        paths(text, &module).iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn groups_within_groups_are_followed() {
        let text = "pub(crate) use crate::{a::{b, c::{self, d}, e as f}, g, h::*};\nuse crate::i;";
        let expected = ["a::b", "a::c", "a::c::d", "a::e", "g", "h::*", "i"];
        assert_eq!(found(text, &["own"]), expected);
    }

    #[test]
    fn super_leads_up_from_the_module_of_the_file() {
        let text = "use super::super::x::Y;\nuse super::z;\nuse super::{super::{v, w}, u};\nlet a = self::b::c();";
        assert_eq!(found(text, &["own", "file"]), ["x::Y", "own::z", "v", "w", "own::u", "own::file::b::c"]);
        assert_eq!(found("super::x::Y", &["own"]), ["x::Y"]);
    }

    #[test]
    fn modules_within_a_file_are_one_further_down() {
        let text = "mod inner { use super::super::super::x; fn f() { if a { super::b() } } } use super::super::y;";
        assert_eq!(found(text, &["own", "file"]), ["x", "own::file::b", "y"]);
    }

    #[test]
    fn paths_stand_in_code_of_all_kinds() {
        let text = "pub(in crate::a) fn f<'b>(c: &'b crate::d::E<'b>) -> F { $crate::g::h::<I>(crate::j!()) }";
        assert_eq!(found(text, &["own"]), ["a", "d::E", "g::h", "j"]);
        // The crate alone and the value `self` are no paths, and neither is what others call so.
        assert!(found("pub(crate) fn f(self) { self.a; b::crate_::c; d::self::e }", &["own"]).is_empty());
    }

    #[test]
    fn comments_and_literals_hold_no_paths() {
        let text = "// crate::a\n/* crate::b /* crate::c */ crate::d */ \"crate::e \\\" crate::f\" r#\"crate::g \" crate::h\"# \
                    b'\"' '\\'' crate::i 'x: loop";
        assert_eq!(found(text, &["own"]), ["i"]);
    }

    #[test]
    fn imports_of_the_root_are_known_by_their_names() {
        let root = "mod a;\npub use a::{B, c::D as E};\npub(crate) use self::f::G;\nuse crate::h::I;";
        let imports = imports(root);
        let found: Vec<(&str, String)> = imports.iter().map(|import| (import.name, import.path.join("::"))).collect();
        let expected = [("B", "a::B"), ("E", "a::c::D"), ("G", "f::G"), ("I", "h::I")];
        assert_eq!(found, expected.map(|(name, path)| (name, path.to_owned())));
    }
}
