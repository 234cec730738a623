//! Texts that are alike but for literals: `SELECT name FROM t WHERE id = 5` and `... id = 7`.
//!
//! Invariants:
//! - Two texts with one skeleton have the same words, signs, white space and parameters, and literals of the same kinds in the
//!   same places.
//! - What a literal is compared with is told by the words around it, and only where these leave no doubt of which mention of
//!   a column is meant. Whether the statement means it so, its plan says.
//! - A text with comments, with strings of other kinds than `'...'`, or with anything else that is not plain has no skeleton.

use std::borrow::Cow;

/// Longer texts have no skeleton: it is made each time before it is known that it is of use.
pub const BYTES_MAX: usize = 2_048;

/// Stands in a skeleton where a literal was, before a letter for its kind. No text with it has a skeleton.
const HOLE: char = '\0';

/// A literal of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Literal<'a> {
    /// As it is written, without its sign: `5`, `1.5e3`.
    Number(Cow<'a, str>),
    /// What stands between the quotes.
    Text(Cow<'a, str>),
}

impl Literal<'_> {
    /// The same, of no text.
    pub fn to_owned_literal(&self) -> Literal<'static> {
        match self {
            Literal::Number(number) => Literal::Number(number.clone().into_owned().into()),
            Literal::Text(text) => Literal::Text(text.clone().into_owned().into()),
        }
    }
}

/// A part of a text that means something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part<'a> {
    Word(&'a str),
    Quoted(&'a str),
    /// The literal's place among them.
    Literal(usize),
    /// `$1` is 1.
    Parameter(usize),
    Sign(char),
}

/// A text, taken apart.
#[derive(Clone, Debug)]
pub struct AlikeText<'a> {
    skeleton: String,
    literals: Vec<Literal<'a>>,
    parts: Vec<Part<'a>>,
}

/// What a column is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComparedWith {
    /// The literal at this place of [`AlikeText::literals`], with its sign.
    Literal {
        /// Its place.
        at: usize,
        /// Whether a minus stands before it.
        is_negative: bool,
    },
    /// The parameter of this number, from 1.
    Parameter(usize),
}

/// How a column is compared: it stands on the left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// What a column is compared with: with one value that it equals, or with bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compared<T> {
    /// What it is equal to.
    pub equal: Option<T>,
    /// What it is greater than, and whether it may be that itself.
    pub least: Option<(T, bool)>,
    /// What it is less than, and whether it may be that itself.
    pub most: Option<(T, bool)>,
}

impl<T> Default for Compared<T> {
    fn default() -> Compared<T> {
        Compared { equal: None, least: None, most: None }
    }
}

impl<T> Compared<T> {
    /// Adds a comparison; `None` where there is one of the same kind, or one that is said twice.
    pub fn add(&mut self, comparison: Comparison, value: T) -> Option<()> {
        let is_free = match comparison {
            Comparison::Equal => self.equal.is_none() && self.least.is_none() && self.most.is_none(),
            Comparison::Less | Comparison::LessOrEqual => self.equal.is_none() && self.most.is_none(),
            Comparison::Greater | Comparison::GreaterOrEqual => self.equal.is_none() && self.least.is_none(),
        };
        if !is_free {
            return None;
        }
        match comparison {
            Comparison::Equal => self.equal = Some(value),
            Comparison::Less => self.most = Some((value, false)),
            Comparison::LessOrEqual => self.most = Some((value, true)),
            Comparison::Greater => self.least = Some((value, false)),
            Comparison::GreaterOrEqual => self.least = Some((value, true)),
        }
        Some(())
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let bounds = [&self.least, &self.most].into_iter().flatten().map(|(value, _)| value);
        self.equal.iter().chain(bounds)
    }

    /// The same with other values, if all can be told.
    pub fn try_map<U>(&self, mut value: impl FnMut(&T) -> Option<U>) -> Option<Compared<U>> {
        let mut bound = |bound: &Option<(T, bool)>| match bound {
            Some((with, counts)) => Some(Some((value(with)?, *counts))),
            None => Some(None),
        };
        let (least, most) = (bound(&self.least)?, bound(&self.most)?);
        let equal = match &self.equal {
            Some(with) => Some(value(with)?),
            None => None,
        };
        Some(Compared { equal, least, most })
    }
}

impl<'a> AlikeText<'a> {
    /// Takes a text apart; `None` if it has no skeleton.
    pub fn new(text: &'a str) -> Option<AlikeText<'a>> {
        // Before it is trimmed: of a longer text somebody may have kept the beginning alone.
        if text.len() > BYTES_MAX {
            return None;
        }
        let text = text.trim_end_matches(|c: char| c == ';' || c.is_ascii_whitespace());
        let mut alike =
            AlikeText { skeleton: String::with_capacity(text.len()), literals: Vec::new(), parts: Vec::new() };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (part, length) = match first {
                c if c.is_ascii_whitespace() => (None, 1),
                '\'' => alike.text(rest)?,
                '"' => {
                    let end = rest[1..].find('"')? + 1;
                    // Two quotes are one in the name.
                    if rest[end + 1..].starts_with('"') || rest[..end].contains(HOLE) {
                        return None;
                    }
                    (Some(Part::Quoted(&rest[1..end])), end + 1)
                }
                '$' => {
                    let digits = leading(&rest[1..], |c| c.is_ascii_digit());
                    (Some(Part::Parameter(digits.parse().ok()?)), 1 + digits.len())
                }
                c if c.is_ascii_digit() => {
                    let number = leading(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
                    (Some(alike.literal(Literal::Number(number.into()), 'n')), number.len())
                }
                c if c.is_ascii_alphabetic() || c == '_' => {
                    let word = leading(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
                    // E'...', U&'...' and the like are other literals.
                    let behind = &rest[word.len()..];
                    if behind.starts_with('\'') || behind.starts_with("&'") || behind.starts_with("&\"") {
                        return None;
                    }
                    (Some(Part::Word(word)), word.len())
                }
                _ if rest.starts_with("--") || rest.starts_with("/*") => return None,
                c if c.is_ascii_punctuation() && !matches!(c, ';' | '`' | '\\') => (Some(Part::Sign(c)), 1),
                _ => return None,
            };
            if !matches!(part, Some(Part::Literal(_))) {
                alike.skeleton.push_str(&rest[..length]);
            }
            alike.parts.extend(part);
            rest = &rest[length..];
        }
        Some(alike)
    }

    /// A literal in quotes, and its length as it is written.
    fn text(&mut self, rest: &'a str) -> Option<(Option<Part<'a>>, usize)> {
        let mut end = 1;
        loop {
            end += rest[end..].find('\'')?;
            if !rest[end + 1..].starts_with('\'') {
                break;
            }
            end += 2;
        }
        let written = &rest[1..end];
        // Dots stand for what is not to be kept of a statement, so that others have the same text.
        if written.contains(['\\', HOLE]) || written.contains("...") {
            return None;
        }
        let text = if written.contains('\'') { written.replace("''", "'").into() } else { written.into() };
        Some((Some(self.literal(Literal::Text(text), 't')), end + 1))
    }

    fn literal(&mut self, literal: Literal<'a>, kind: char) -> Part<'a> {
        self.skeleton.extend([HOLE, kind]);
        self.literals.push(literal);
        Part::Literal(self.literals.len() - 1)
    }

    /// The text with holes in the places of literals.
    pub fn skeleton(&self) -> &str {
        &self.skeleton
    }

    /// The literals, in their order.
    pub fn literals(&self) -> &[Literal<'a>] {
        &self.literals
    }

    /// Whether this is its first word.
    pub fn begins_with(&self, word: &str) -> bool {
        self.is_word(0, word)
    }

    /// What each of these columns is compared with in the WHERE of the text, if the text has one SELECT and one WHERE, if nothing in its
    /// FROM may call columns otherwise than their table does, if each mention of them in the WHERE is such a comparison, and if there are no
    /// other parameters.
    pub fn compared(&self, columns: &[&str]) -> Option<Vec<Compared<ComparedWith>>> {
        let mut wheres = (0..self.parts.len()).filter(|&at| self.is_word(at, "where"));
        let (Some(begin), None) = (wheres.next(), wheres.next()) else { return None };
        if (1..self.parts.len()).any(|at| self.is_word(at, "select")) || !self.is_from_plain(begin) {
            return None;
        }
        let of_column = |column: &&str| {
            let mut compared = Compared::default();
            for at in (begin + 1..self.parts.len()).filter(|&at| self.is_column(at, column)) {
                self.comparison(begin, at, &mut compared)?;
            }
            Some(compared)
        };
        let found: Vec<Compared<ComparedWith>> = columns.iter().map(of_column).collect::<Option<_>>()?;
        let parameters = self.parts.iter().filter(|part| matches!(part, Part::Parameter(_))).count();
        let compared = found.iter().flat_map(Compared::values);
        let compared = compared.filter(|with| matches!(with, ComparedWith::Parameter(_))).count();
        (parameters == compared).then_some(found)
    }

    fn is_column(&self, at: usize, column: &str) -> bool {
        match self.parts[at] {
            Part::Word(word) => word.eq_ignore_ascii_case(column),
            Part::Quoted(name) => name == column,
            _ => false,
        }
    }

    /// Adds what the mention of a column is compared with.
    fn comparison(&self, begin: usize, at: usize, compared: &mut Compared<ComparedWith>) -> Option<()> {
        let qualified = at >= 2
            && self.parts[at - 1] == Part::Sign('.')
            && matches!(self.parts[at - 2], Part::Word(_) | Part::Quoted(_));
        let before = if qualified { at - 2 } else { at } - 1;
        if before != begin && !self.is_word(before, "and") && self.parts[before] != Part::Sign('(') {
            return None;
        }
        if self.is_word(at + 1, "between") {
            let (least, end) = self.value(at + 2)?;
            // In brackets that begin here both bounds would be one value.
            if !self.is_word(end, "and") {
                return None;
            }
            let (most, end) = self.value(end + 1)?;
            compared.add(Comparison::GreaterOrEqual, least)?;
            compared.add(Comparison::LessOrEqual, most)?;
            return self.ends(end).then_some(());
        }
        let sign = |at: usize| match self.parts.get(at) {
            Some(Part::Sign(sign)) => Some(*sign),
            _ => None,
        };
        let (comparison, length) = match (sign(at + 1)?, sign(at + 2)) {
            ('<', Some('=')) => (Comparison::LessOrEqual, 2),
            ('>', Some('=')) => (Comparison::GreaterOrEqual, 2),
            ('<', _) => (Comparison::Less, 1),
            ('>', _) => (Comparison::Greater, 1),
            ('=', _) => (Comparison::Equal, 1),
            _ => return None,
        };
        let (value, end) = self.value(at + 1 + length)?;
        compared.add(comparison, value)?;
        self.ends(end).then_some(())
    }

    /// A literal with its sign, or a parameter, and where it ends.
    fn value(&self, at: usize) -> Option<(ComparedWith, usize)> {
        let is_negative = self.parts.get(at) == Some(&Part::Sign('-'));
        let value = if is_negative { at + 1 } else { at };
        match self.parts.get(value)? {
            Part::Literal(literal) => Some((ComparedWith::Literal { at: *literal, is_negative }, value + 1)),
            Part::Parameter(number) if !is_negative => Some((ComparedWith::Parameter(*number), value + 1)),
            _ => None,
        }
    }

    /// Whether a condition ends here.
    fn ends(&self, at: usize) -> bool {
        at == self.parts.len()
            || self.is_word(at, "and")
            || self.is_word(at, "limit")
            || self.parts.get(at) == Some(&Part::Sign(')'))
    }

    /// Whether there are no brackets in the FROM before this WHERE: in them are queries and the columns' other names.
    fn is_from_plain(&self, begin: usize) -> bool {
        let from = (0..begin).rev().find(|&at| self.is_word(at, "from"));
        from.is_some_and(|from| !self.parts[from..begin].iter().any(|part| matches!(part, Part::Sign('(' | ')'))))
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        matches!(self.parts.get(at), Some(Part::Word(found)) if found.eq_ignore_ascii_case(word))
    }
}

/// The characters at the beginning of a text for which `holds`.
fn leading(text: &str, holds: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !holds(c)).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skeleton(text: &str) -> Option<String> {
        AlikeText::new(text).map(|alike| alike.skeleton().to_owned())
    }

    #[test]
    fn texts_that_differ_in_literals_alone_have_one_skeleton() {
        let five = "SELECT name FROM t WHERE id = 5";
        assert_eq!(skeleton(five), skeleton("SELECT name FROM t WHERE id = 123456 ; \n"));
        assert_eq!(skeleton(five).unwrap(), "SELECT name FROM t WHERE id = \0n");
        assert_eq!(skeleton("SELECT a FROM t WHERE b = 'x'"), skeleton("SELECT a FROM t WHERE b = 'it''s; -- $1'"));
        for other in [
            "SELECT name FROM t WHERE id = '5'",
            "SELECT name FROM t WHERE id = -5",
            "SELECT name FROM t WHERE id =5",
            "SELECT name FROM t WHERE id = $1",
            "select name FROM t WHERE id = 5",
        ] {
            assert_ne!(skeleton(five), skeleton(other), "{other}");
        }
        let alike = AlikeText::new("SELECT 1.5e3, 'a''b' FROM t1 WHERE x2 = 07").unwrap();
        let literals = [Literal::Number("1.5e3".into()), Literal::Text("a'b".into()), Literal::Number("07".into())];
        assert_eq!(alike.literals(), literals);
        assert!(alike.begins_with("select") && !alike.begins_with("sel"));
    }

    #[test]
    fn what_is_not_plain_has_no_skeleton() {
        for text in [
            "SELECT 1 -- 2",
            "SELECT /*+ freshness('5s') */ 1",
            "SELECT E'a'",
            "SELECT e'a\\'b'",
            "SELECT U&'d'",
            "SELECT x'ff'",
            "SELECT $$a$$",
            "SELECT $a$b$a$",
            "SELECT 'a",
            "SELECT 'a\\'",
            "SELECT \"a",
            "SELECT \"a\"\"b\"",
            "SELECT 1; SELECT 2",
            "SELECT ä",
            "SELECT \u{1}",
            "SELECT '\0'",
            "SELECT \"\0n\"",
            "SELECT 'https://h.org/?...'",
            "SELECT \0n",
            "SELECT $99999999999999999999999",
        ] {
            assert_eq!(skeleton(text), None, "{text}");
        }
        assert!(skeleton(&format!("SELECT '{}'", "a".repeat(BYTES_MAX))).is_none());
        // As the beginning of a longer text would be.
        assert!(skeleton(&format!("SELECT 1{}", " ".repeat(BYTES_MAX))).is_none());
        assert!(skeleton("SELECT 'ä' AS \"ö\"").is_some());
    }

    fn compared(text: &str, columns: &[&str]) -> Option<Vec<Compared<ComparedWith>>> {
        AlikeText::new(text).unwrap().compared(columns)
    }

    /// What the columns are equal to, all of them.
    fn equal_to(text: &str, columns: &[&str]) -> Option<Vec<ComparedWith>> {
        compared(text, columns)?.into_iter().map(|compared| compared.equal).collect()
    }

    fn literal(at: usize) -> ComparedWith {
        ComparedWith::Literal { at, is_negative: false }
    }

    #[test]
    fn a_column_lies_between_bounds() {
        let between = |least, most| Some(vec![Compared { equal: None, least, most }]);
        let (low, high) = (Some((literal(0), true)), Some((literal(1), false)));
        assert_eq!(compared("SELECT a FROM t WHERE id >= 5 AND id < 9", &["id"]), between(low, high));
        assert_eq!(
            compared("SELECT a FROM t WHERE (t.id<9) AND id>=5", &["id"]),
            between(Some((literal(1), true)), Some((literal(0), false)))
        );
        assert_eq!(compared("SELECT a FROM t WHERE id > 5 LIMIT 2", &["id"]), between(Some((literal(0), false)), None));
        let parameters = between(Some((ComparedWith::Parameter(1), true)), Some((ComparedWith::Parameter(2), true)));
        assert_eq!(compared("SELECT a FROM t WHERE id BETWEEN $1 AND $2 AND n = 3", &["id"]), parameters);
        let first = compared("SELECT a FROM t WHERE w = 7 AND n = 3", &["w", "d"]).unwrap();
        assert_eq!((first[0].equal, &first[1]), (Some(literal(0)), &Compared::default()));
        for doubtful in [
            "SELECT a FROM t WHERE id > 5 AND id >= 7",
            "SELECT a FROM t WHERE id = 5 AND id >= 7",
            "SELECT a FROM t WHERE id > 5 + 1",
            "SELECT a FROM t WHERE id > 5 OR n = 1",
            "SELECT a FROM t WHERE id BETWEEN 5 AND 7 + 1",
            "SELECT a FROM t WHERE id BETWEEN SYMMETRIC 5 AND 7",
            "SELECT a FROM t WHERE id NOT BETWEEN 5 AND 7",
            "SELECT a FROM t WHERE id <> 5",
            "SELECT a FROM t WHERE id >> 5 = 1",
            "SELECT a FROM t WHERE id > $1 AND n = $2",
            "SELECT a FROM t WHERE id > 5 ORDER BY id",
        ] {
            assert_eq!(compared(doubtful, &["id"]), None, "{doubtful}");
        }
    }

    #[test]
    fn a_column_is_compared_with_what_stands_behind_its_one_mention() {
        assert_eq!(equal_to("SELECT 5 FROM t WHERE id = 5", &["id"]), Some(vec![literal(1)]));
        assert_eq!(equal_to("SELECT id = 5 FROM t WHERE (t.ID = 6) LIMIT 1", &["id"]), Some(vec![literal(1)]));
        assert_eq!(equal_to("SELECT * FROM t WHERE \"a\".\"id\"='x'AND n>1", &["id"]), Some(vec![literal(0)]));
        let called = "SELECT extract(year FROM at) FROM public.t AS s WHERE (s.id = 7)";
        assert_eq!(equal_to(called, &["id"]), Some(vec![literal(0)]));
        let negative = ComparedWith::Literal { at: 0, is_negative: true };
        assert_eq!(equal_to("SELECT * FROM t WHERE id = -5", &["id"]), Some(vec![negative]));
        let both = "SELECT * FROM t WHERE a = $1 AND b = 7 AND n > 2";
        assert_eq!(equal_to(both, &["b", "a"]), Some(vec![literal(0), ComparedWith::Parameter(1)]));
        for doubtful in [
            "SELECT id = 5 FROM t",
            "SELECT id = 5 FROM t WHERE 5 = id",
            "SELECT id = 5 FROM t WHERE id IN (5)",
            "SELECT * FROM t WHERE id = 5 AND id > 3",
            "SELECT * FROM t WHERE id = 5 + 1",
            "SELECT * FROM t WHERE id = 5 OR n = 1",
            "SELECT * FROM t WHERE id = 5::int",
            "SELECT * FROM t WHERE NOT id = 5",
            "SELECT * FROM t WHERE n + id = 5",
            "SELECT * FROM t WHERE id >= 5",
            "SELECT * FROM t WHERE id = 'a' 'b'",
            "SELECT * FROM t WHERE id = -$1",
            "SELECT $1 FROM t WHERE id = $1",
            "SELECT * FROM t WHERE id = $1 AND n = $2",
            "SELECT * FROM t WHERE id = 5 AND n IN (SELECT n FROM u WHERE true)",
            "SELECT * FROM t WHERE \"ID\" = 5",
            "SELECT * FROM t WHERE id =",
            "SELECT * FROM t WHERE id",
            "SELECT * FROM t WHERE",
            "SELECT x FROM (SELECT n AS id, id AS n, x FROM t) AS s WHERE id = 5 AND n = 5",
            "SELECT x FROM (SELECT n AS id, x FROM t) s WHERE s.id = $1",
            "SELECT x FROM t AS s (n, id, x) WHERE id = 5",
            "SELECT (SELECT 1) FROM t WHERE id = 5",
        ] {
            assert_eq!(equal_to(doubtful, &["id"]), None, "{doubtful}");
        }
    }
}
