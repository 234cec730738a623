//! Regular expressions that are ready to be matched.
//!
//! Invariants:
//! - What is found is what PostgreSQL's functions find, in their order; nothing of a text is found twice. But with the options `n`, `m` and `p`
//!   `[^x]` matches the end of a line, which it does not there.
//! - What expressions take is bounded.

use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::regex::translated;
use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::Arc;

/// Expressions that are kept: a column may have another in each row.
const KEPT_MAX: usize = 32;
/// Bytes that one may take, and those that it may take while it is matched.
const BYTES_MAX: usize = 1 << 20;

/// The expressions of one batch of rows.
#[derive(Default)]
pub struct Patterns {
    kept: HashMap<String, HashMap<String, Arc<Compiled>>>,
}

/// One expression with its options.
pub(crate) struct Compiled {
    regex: Regex,
    is_global: bool,
}

impl Patterns {
    pub fn of(&mut self, pattern: &str, options: &str) -> Result<&Compiled> {
        self.kept(pattern, options).map(Arc::as_ref)
    }

    /// The same, to be held beside others.
    pub fn shared(&mut self, pattern: &str, options: &str) -> Result<Arc<Compiled>> {
        self.kept(pattern, options).map(Arc::clone)
    }

    fn kept(&mut self, pattern: &str, options: &str) -> Result<&Arc<Compiled>> {
        if !self.kept.get(options).is_some_and(|of_options| of_options.contains_key(pattern)) {
            if self.kept.values().map(HashMap::len).sum::<usize>() >= KEPT_MAX {
                self.kept.clear();
            }
            let compiled = Arc::new(Compiled::new(pattern, options)?);
            self.kept.entry(options.to_owned()).or_default().insert(pattern.to_owned(), compiled);
        }
        let found = self.kept.get(options).and_then(|of_options| of_options.get(pattern));
        found.ok_or_else(|| Error::internal("a pattern that was kept is not there"))
    }
}

impl Compiled {
    pub fn new(pattern: &str, options: &str) -> Result<Compiled> {
        let (mut is_global, mut is_literal) = (false, false);
        let (mut ignores_case, mut dot_ends_lines, mut has_lines, mut is_spaced) = (false, true, false, false);
        for option in options.chars() {
            match option {
                'g' => is_global = true,
                'i' => ignores_case = true,
                'c' => ignores_case = false,
                'n' | 'm' => (dot_ends_lines, has_lines) = (false, true),
                'p' => (dot_ends_lines, has_lines) = (false, false),
                's' => (dot_ends_lines, has_lines) = (true, false),
                'w' => (dot_ends_lines, has_lines) = (true, true),
                'x' => is_spaced = true,
                't' => is_spaced = false,
                'q' => is_literal = true,
                'e' => {}
                other => {
                    let message = format!("a regular expression has no option \"{other}\"");
                    return Err(Error::new(ErrorKind::InvalidSetting, message).with_hint(
                        "options are g (all matches), i (whatever the case), n (lines), x (with spaces and comments)",
                    ));
                }
            }
        }
        let pattern = match is_literal {
            true => regex::escape(pattern),
            false => translated(pattern).unwrap_or_else(|| pattern.to_owned()),
        };
        let regex = RegexBuilder::new(&pattern)
            .case_insensitive(ignores_case)
            .dot_matches_new_line(dot_ends_lines)
            .multi_line(has_lines)
            .ignore_whitespace(is_spaced)
            .size_limit(BYTES_MAX)
            .dfa_size_limit(BYTES_MAX)
            .build();
        let regex = regex.map_err(|error| {
            let told = error.to_string();
            let reason = told.rsplit_once("error: ").map_or(told.as_str(), |(_, reason)| reason);
            let reason = reason.lines().next().unwrap_or_default().trim();
            Error::new(ErrorKind::InvalidPattern, format!("the pattern is no regular expression: {reason}"))
        })?;
        Ok(Compiled { regex, is_global })
    }

    pub(crate) fn is_global(&self) -> bool {
        self.is_global
    }

    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    /// What the first group matches, or else the whole pattern.
    pub fn substring<'t>(&self, text: &'t str) -> Option<&'t str> {
        let found = self.regex.captures(text)?;
        let group = usize::from(self.regex.captures_len() > 1);
        found.get(group).map(|group| group.as_str())
    }

    /// A group of the match of this number, from a place of the text on.
    pub fn nth<'t>(&self, text: &'t str, from: usize, nth: i64, group: usize) -> Option<&'t str> {
        let (mut left, mut at) = (nth, from);
        loop {
            let found = self.regex.captures_at(text, at)?;
            left -= 1;
            if left <= 0 {
                return found.get(group).map(|group| group.as_str());
            }
            let whole = found.get(0)?;
            at = next(text, whole.start(), whole.end())?;
        }
    }

    /// Tells the groups of each match, or the whole of it where there are none, until it is told to stop.
    pub(crate) fn each_match<'t>(&self, text: &'t str, from: usize, mut each: impl FnMut(&[Option<&'t str>]) -> bool) {
        let mut at = Some(from);
        let first = usize::from(self.regex.captures_len() > 1);
        while let Some(found) = at.and_then(|at| self.regex.captures_at(text, at)) {
            let groups: Vec<Option<&'t str>> =
                found.iter().skip(first).map(|group| group.map(|group| group.as_str())).collect();
            let Some(whole) = found.get(0) else { return };
            if !each(&groups) {
                return;
            }
            at = next(text, whole.start(), whole.end());
        }
    }

    /// Tells what is between matches. An empty match at an end of the text, or right behind another match, parts nothing.
    pub(crate) fn each_part<'t>(&self, text: &'t str, mut each: impl FnMut(&'t str)) {
        let (mut at, mut part, mut last) = (Some(0), 0, 0);
        while let Some(found) = at.and_then(|at| self.regex.find_at(text, at)) {
            if found.start() < text.len() && found.end() > last {
                each(&text[part..found.start()]);
                part = found.end();
            }
            last = found.end();
            at = next(text, found.start(), found.end());
        }
        each(&text[part..]);
    }
}

/// Where the next match is looked for; `None` behind the text.
pub fn next(text: &str, start: usize, end: usize) -> Option<usize> {
    if start < end {
        return Some(end);
    }
    text[end..].chars().next().map(|c| end + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, pattern: &str) -> Vec<String> {
        let mut all = Vec::new();
        Compiled::new(pattern, "").unwrap().each_part(text, |part| all.push(part.to_owned()));
        all
    }

    fn matches(text: &str, pattern: &str) -> Vec<Vec<Option<String>>> {
        let mut all = Vec::new();
        Compiled::new(pattern, "g").unwrap().each_match(text, 0, |groups| {
            all.push(groups.iter().map(|group| group.map(str::to_owned)).collect());
            true
        });
        all
    }

    /// Every expected value is PostgreSQL 15's.
    #[test]
    fn what_is_found_is_what_postgresql_finds() {
        assert_eq!(parts("abc", ""), ["a", "b", "c"]);
        assert_eq!(parts("", ","), [""]);
        assert_eq!(parts(",a,", ","), ["", "a", ""]);
        assert_eq!(parts("the quick  brown", r"\s*").concat(), "thequickbrown");
        assert_eq!(parts("a1b22c", r"\d+"), ["a", "b", "c"]);
        assert_eq!(parts("aéb", "é"), ["a", "b"]);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(matches("ab", "a*"), [[some("a")], [some("")], [some("")]]);
        assert_eq!(matches("b", "(a)|(b)"), [[None, some("b")]]);
        assert_eq!(matches("foobarbequebaz", "(b[^b]+)(b[^b]+)"), [[some("bar"), some("beque")]]);
        let of = |pattern: &str| Compiled::new(pattern, "").unwrap();
        assert_eq!(of("^abc").nth("abcabc", 3, 1, 0), None);
        assert_eq!(of("b").nth("abcabc", 0, 2, 0), Some("b"));
        assert_eq!(of("b").nth("abcabc", 0, 3, 0), None);
        assert_eq!(of("o(.)b").nth("foobar", 0, 1, 1), Some("o"));
        assert_eq!(of("o(.)b").substring("foobar"), Some("o"));
        assert_eq!(of("(a)|(b)").substring("b"), None);
        assert_eq!(of("a.b").substring("a\nb"), Some("a\nb"));
        assert_eq!(Compiled::new("a.b", "n").unwrap().substring("a\nb"), None);
        assert_eq!(Compiled::new("A.", "q").unwrap().substring("A."), Some("A."));
        assert!(Compiled::new("a", "k").is_err() && Compiled::new("(", "").is_err());
    }
}
