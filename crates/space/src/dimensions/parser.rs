//! From the text of a declaration to dimensions without key bits. Only the form is checked here; what the parts mean
//! for the columns' types is `validate`'s.
//!
//! Invariant: a hint never shows a declaration that is refused itself. Where a mistake has an obvious mend (a near
//! name, a sign that is missing), the mended dimension is read, too, and shown if it is right.

use super::error::{example, example_of, wrong};
use super::lexer::{Lexer, Token};
use super::{
    DIMENSIONS_MAX, HALVINGS_DEFAULT, HALVINGS_MAX, HASH_BITS_DEFAULT, QUANTILE_HALVINGS_MAX, Zones, bits, level, when,
};
use crate::definition::undefined_column;
use crate::keywords::quoted_for_letters;
use crate::schema::{CalendarUnit, Column, DataType, Dimension, KeyRange, LevelSource};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, near_names};

const KINDS: [&str; 9] = ["linear", "quantiles", "hash", "year", "quarter", "month", "day", "hour", "minute"];
const AFTER_COLON: &str = "year, quarter, month, day, hour, minute (of a date or timestamp), linear, quantiles (of a number) or \
     hash (of an id)";

pub(super) fn parse(text: &str, columns: &[Column], zones: Zones<'_>) -> Result<Vec<Dimension>> {
    let mut fixed = None;
    read(text, columns, zones, &mut fixed).map_err(|error| {
        let is_guess = error.hint().is_some_and(|hint| hint.starts_with("did you mean"));
        let told = match error.hint() {
            Some(hint) if is_guess => format!("{hint} Write"),
            _ => "write".to_owned(),
        };
        match fixed.filter(|fixed| is_right(fixed, columns, zones)) {
            Some(fixed) => error.with_hint(format!("{told} {fixed}")),
            None if is_guess || error.hint().is_none() => {
                error.with_hint(format!("{told} for instance {}", example(columns)))
            }
            None => error,
        }
    })
}

/// Whether a declaration is one.
fn is_right(text: &str, columns: &[Column], zones: Zones<'_>) -> bool {
    read(text, columns, zones, &mut None).is_ok_and(|mut dimensions| {
        bits::share(&mut dimensions);
        crate::validate::dimensions(&dimensions, columns).is_ok()
    })
}

/// The dimensions; or the error, and in `fixed` what the wrong one may have been meant to be.
fn read(text: &str, columns: &[Column], zones: Zones<'_>, fixed: &mut Option<String>) -> Result<Vec<Dimension>> {
    let mut parser = Parser { lexer: Lexer::new(text), columns, zones, begun: text, last: text, fixed: None };
    let mut dimensions: Vec<Dimension> = Vec::new();
    loop {
        let number = dimensions.len() + 1;
        match parser.lexer.peek()? {
            Token::End => return Ok(dimensions),
            Token::Symbol(';') if number == 1 => return Err(wrong("dimension 1: expected a name, found ;", columns)),
            Token::Name(_) => {}
            other => return Err(wrong(format!("dimension {number}: expected a name, found {other}"), columns)),
        }
        if dimensions.len() == DIMENSIONS_MAX {
            return Err(Error::new(ErrorKind::InvalidDefinition, "a table has at most 64 dimensions")
                .with_hint("leave out the dimensions that queries filter and group by least"));
        }
        parser.begun = parser.lexer.rest().trim_start();
        let name = parser.name()?;
        let place = format!("dimension {name}");
        match parser.dimension(name) {
            Ok(dimension) => dimensions.push(dimension),
            Err(error) => {
                *fixed = parser.fixed;
                return Err(error.at(&place));
            }
        }
        match parser.lexer.next()? {
            Token::End => return Ok(dimensions),
            Token::Symbol(';') => {}
            Token::Symbol(',') => {
                return Err(wrong(format!("{place}: expected ; after it, found a comma"), columns));
            }
            other => return Err(wrong(format!("{place}: expected ; after it, found {other}"), columns)),
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    columns: &'a [Column],
    zones: Zones<'a>,
    /// The text from the dimension's name on.
    begun: &'a str,
    /// The text from the last token on.
    last: &'a str,
    /// The dimension with its mistake mended, where one is known.
    fixed: Option<String>,
}

impl Parser<'_> {
    /// The next token.
    fn take(&mut self) -> Result<Token> {
        self.last = self.lexer.rest().trim_start();
        self.lexer.next()
    }

    /// The dimension up to the last token.
    fn before_last(&self) -> &str {
        &self.begun[..self.begun.len() - self.last.len()]
    }

    /// Notes the dimension with another word in the place of the last token.
    fn fix_word(&mut self, word: &str) {
        let after = to_its_end(self.lexer.rest());
        self.fixed = Some(format!("{}{word}{after}", self.before_last()));
    }

    /// Notes the dimension with a sign before the last token.
    fn fix_sign(&mut self, sign: char) {
        self.fixed = Some(format!("{}{sign} {}", self.before_last().trim_end(), to_its_end(self.last)));
    }

    /// What follows the dimension's name.
    fn dimension(&mut self, name: String) -> Result<Dimension> {
        let next = self.lexer.peek()?;
        if next != Token::Symbol('(') {
            let is_column = self.columns.iter().any(|column| column.name == name);
            if next == Token::Symbol(':') || matches!(next, Token::Name(_)) && !is_column {
                return Err(self.without_brackets(&name, &next));
            }
            let column = self.column_named(&name)?;
            return Ok(self.finish(name, vec![LevelSource::Column(column)], KeyRange::None));
        }
        self.take()?;
        let first = self.column()?;
        match self.take()? {
            Token::Symbol(':') => self.derived(name, first),
            Token::Name(word) if word == "at" && self.lexer.peek()? == Token::Name("time".to_owned()) => {
                self.local(name, first)
            }
            after => self.path(name, first, after),
        }
    }

    /// `time zone Europe/Berlin: year, month)`, after the `at` that is the last token.
    fn local(&mut self, name: String, column: ColumnId) -> Result<Dimension> {
        self.take()?;
        match self.take()? {
            Token::Name(word) if word == "zone" => {}
            other => return Err(self.wrong(format!("expected zone after at time, found {other}"))),
        }
        self.last = self.lexer.rest().trim_start();
        let zone = self.lexer.zone()?;
        if zone.is_empty() {
            let found = self.take()?;
            return Err(self.wrong(format!("expected a time zone, as in AT TIME ZONE Europe/Berlin, found {found}")));
        }
        let rules = (self.zones)(&zone)?;
        match self.take()? {
            Token::Symbol(':') => {}
            other => {
                if matches!(other, Token::Name(_)) {
                    self.fix_sign(':');
                }
                return Err(self.wrong(format!("expected a colon after the time zone, found {other}")));
            }
        }
        let mut dimension = self.derived(name, column)?;
        for level in &mut dimension.levels {
            level.source = match level.source {
                LevelSource::Calendar(column, unit) if rules.is_some() => LevelSource::Local(column, unit),
                LevelSource::Calendar(column, unit) => LevelSource::Calendar(column, unit),
                _ => {
                    return Err(
                        self.wrong("AT TIME ZONE is of calendar parts: year, quarter, month, day, hour, minute")
                    );
                }
            };
        }
        dimension.zone = rules;
        Ok(dimension)
    }

    /// The error for `t d: year` and `d: year`, of which the name is read.
    fn without_brackets(&mut self, name: &str, next: &Token) -> Error {
        let own = quoted_for_letters(name);
        // A column by itself gives the dimension its name.
        let column = if *next == Token::Symbol(':') { own.as_str() } else { "" };
        self.fixed = Some(format!("{own}({column}{})", to_its_end(self.lexer.rest()).trim_start()));
        self.wrong(format!("expected ( after {name}, found {next}"))
    }

    /// `country, state, city)`, of which the first is read.
    fn path(&mut self, name: String, first: ColumnId, mut after: Token) -> Result<Dimension> {
        let mut path = vec![LevelSource::Column(first)];
        loop {
            match after {
                Token::Symbol(')') => return Ok(self.finish(name, path, KeyRange::None)),
                Token::Symbol(',') => path.push(LevelSource::Column(self.column()?)),
                Token::Symbol(':') => {
                    return Err(self.wrong(
                        "a path of columns cannot go on with parts of a column (:); make that a dimension of its own",
                    ));
                }
                other => {
                    if let Token::Name(word) = &other {
                        self.fix_sign(if KINDS.contains(&word.as_str()) { ':' } else { ',' });
                    }
                    let last =
                        self.columns.iter().rev().find(|column| path.last().is_some_and(|l| l.column() == column.id));
                    let last = last.map_or("", |column| &column.name);
                    return Err(self.wrong(format!("expected a comma or ) after {last}, found {other}")));
                }
            }
            after = self.take()?;
        }
    }

    /// `sold_at: year, month)` after the colon.
    fn derived(&mut self, name: String, column: ColumnId) -> Result<Dimension> {
        let kind = match self.take()? {
            Token::Name(kind) => kind,
            other => return Err(self.wrong(format!("expected {AFTER_COLON} after the colon, found {other}"))),
        };
        match kind.as_str() {
            "linear" => self.linear(name, column),
            "quantiles" => self.quantiles(name, column),
            "hash" => self.hash(name, column),
            _ => self.calendar(name, column, &kind),
        }
    }

    fn calendar(&mut self, name: String, column: ColumnId, first: &str) -> Result<Dimension> {
        let mut levels = vec![LevelSource::Calendar(column, self.unit(first)?)];
        let mut range = KeyRange::Learnt;
        loop {
            match self.take()? {
                Token::Symbol(')') => return Ok(self.finish(name, levels, range)),
                Token::Symbol(',') => {
                    let unit = self.name()?;
                    levels.push(LevelSource::Calendar(column, self.unit(&unit)?));
                }
                Token::Name(word) if word == "from" => {
                    range = self.span(column)?;
                    self.expect(')')?;
                    return Ok(self.finish(name, levels, range));
                }
                other => {
                    if matches!(other, Token::Name(_)) {
                        self.fix_sign(',');
                    }
                    return Err(self.wrong(format!("expected a comma, from or ) after a calendar part, found {other}")));
                }
            }
        }
    }

    /// `2020-01-01 to 2030-01-01`, after the `from` that is the last token.
    fn span(&mut self, column: ColumnId) -> Result<KeyRange> {
        let is_date = self.columns.iter().any(|known| known.id == column && known.data_type == DataType::Date);
        self.fixed = Some(self.with_span(is_date));
        let low = self.moment(is_date)?;
        match self.take()? {
            Token::Name(word) if word == "to" => {}
            other => {
                let message = format!("expected to after the first moment, found {other}");
                return Err(Error::new(ErrorKind::InvalidDefinition, message)
                    .with_hint("a span is written from 2020-01-01 to 2030-01-01"));
            }
        }
        let high = self.moment(is_date)?;
        self.fixed = None;
        Ok(KeyRange::Linear { low, high })
    }

    /// The dimension up to its `from`, with the span that is meant to follow, or else one for instance.
    fn with_span(&self, is_date: bool) -> String {
        let begun = self.begun[..self.begun.len() - self.lexer.rest().len()].trim_end();
        let mut lexer = self.lexer.clone();
        let low = meant_moment(lexer.moment(), is_date);
        let high = match lexer.next() {
            Ok(Token::Name(word)) if word == "to" => meant_moment(lexer.moment(), is_date),
            _ => None,
        };
        match (low, high) {
            (Some(low), Some(high)) => format!("{begun} {low} to {high})"),
            _ => format!("{begun} 2020-01-01 to 2030-01-01)"),
        }
    }

    /// A moment in the column's own unit: that of a DATE, or of a timestamp.
    fn moment(&mut self, is_date: bool) -> Result<f64> {
        let text = self.lexer.moment();
        let wrong = |what, forms| {
            Error::new(ErrorKind::InvalidDefinition, format!("{text:?} is not a {what}"))
                .with_hint(format!("it is written {forms}"))
        };
        const DAY: i64 = 86_400_000_000;
        match when::parse(text) {
            Some(micros) if !is_date => Ok(micros as f64),
            Some(micros) if micros % DAY == 0 => Ok((micros / DAY) as f64),
            _ if is_date => Err(wrong("date", "2020-01-01")),
            _ => Err(wrong("date or timestamp", "2020-01-01 or 2020-01-01 12:30:00")),
        }
    }

    fn linear(&mut self, name: String, column: ColumnId) -> Result<Dimension> {
        let mut range = KeyRange::Learnt;
        let hint = match self.columns.iter().find(|known| known.id == column) {
            Some(of) if of.data_type.is_number() => {
                let (own, of) = (quoted_for_letters(&name), quoted_for_letters(&of.name));
                format!(
                    "write {own}({of}: linear 0..1000), or {own}({of}: linear) to learn the range from the first rows"
                )
            }
            Some(of) => format!("linear is of numbers; write {}", example_of(&name, of)),
            None => format!("write for instance {}", example(self.columns)),
        };
        let hinted = |error: Error| error.with_hint(hint.as_str());
        if let Token::Number(low) = self.lexer.peek().map_err(hinted)? {
            self.take()?;
            let wrong = |message: String| hinted(Error::new(ErrorKind::InvalidDefinition, message));
            match self.take().map_err(hinted)? {
                Token::Range => {}
                other => return Err(wrong(format!("expected .. after {low}, found {other}"))),
            }
            range = match self.take().map_err(hinted)? {
                Token::Number(high) => KeyRange::Linear { low, high },
                other => return Err(wrong(format!("expected a number after {low}.., found {other}"))),
            };
        }
        let levels = self.halvings(column, HALVINGS_MAX)?;
        Ok(self.finish(name, levels, range))
    }

    fn quantiles(&mut self, name: String, column: ColumnId) -> Result<Dimension> {
        let mut range = KeyRange::LearntQuantiles;
        if self.lexer.peek()? == Token::Symbol('(') {
            self.take()?;
            let mut cuts = Vec::new();
            loop {
                match self.take()? {
                    Token::Number(cut) => cuts.push(cut),
                    other => return Err(self.wrong(format!("expected a cut point, found {other}"))),
                }
                match self.take()? {
                    Token::Symbol(')') => break,
                    Token::Symbol(',') => {}
                    other => return Err(self.wrong(format!("expected a comma or ) after a cut point, found {other}"))),
                }
            }
            range = KeyRange::Quantiles { cuts };
        }
        let levels = self.halvings(column, QUANTILE_HALVINGS_MAX)?;
        Ok(self.finish(name, levels, range))
    }

    /// `, 4, 8)` or only `)`.
    fn halvings(&mut self, column: ColumnId, most: u8) -> Result<Vec<LevelSource>> {
        let mut levels = Vec::new();
        loop {
            match self.take()? {
                Token::Symbol(')') => break,
                Token::Symbol(',') => {
                    levels.push(LevelSource::Halved { column, halvings: self.small("halvings", most)? });
                }
                other => return Err(self.wrong(format!("expected a comma or ), found {other}"))),
            }
        }
        if levels.is_empty() {
            levels.extend(HALVINGS_DEFAULT.map(|halvings| LevelSource::Halved { column, halvings }));
        }
        Ok(levels)
    }

    fn hash(&mut self, name: String, column: ColumnId) -> Result<Dimension> {
        let mut levels = Vec::new();
        loop {
            match self.lexer.peek()? {
                Token::Symbol(')') => break,
                Token::Symbol(',') => {
                    self.take()?;
                }
                Token::Number(_) if levels.is_empty() => {}
                other => return Err(self.wrong(format!("expected a comma or ) in hash, found {other}"))),
            }
            levels.push(LevelSource::Hashed { column, bits: self.small("bits", HALVINGS_MAX)? });
        }
        self.expect(')')?;
        if levels.is_empty() {
            levels.push(LevelSource::Hashed { column, bits: HASH_BITS_DEFAULT });
        }
        Ok(self.finish(name, levels, KeyRange::None))
    }

    /// A count of halvings or bits, at most `most`.
    fn small(&mut self, what: &str, most: u8) -> Result<u8> {
        let found = self.take()?;
        if let Token::Number(count) = found {
            if count.fract() == 0.0 && (1.0..=f64::from(most)).contains(&count) {
                return Ok(count as u8);
            }
            self.fix_word(&count.round().clamp(1.0, f64::from(most)).to_string());
        }
        let message = format!("expected a count of {what} from 1 to {most}, found {found}");
        Err(Error::new(ErrorKind::InvalidDefinition, message)
            .with_hint(format!("n {what} make 2^n parts; leave the count out for the default")))
    }

    /// A calendar part, of which the last token is the name.
    fn unit(&mut self, word: &str) -> Result<CalendarUnit> {
        if let Some(unit) = CalendarUnit::named(word) {
            return Ok(unit);
        }
        let near = near_names(word, KINDS);
        let hint = match near.first() {
            Some(near) => {
                self.fix_word(near);
                format!("did you mean {near}?")
            }
            None => format!("after the colon stand {AFTER_COLON}; write for instance {}", example(self.columns)),
        };
        Err(self.wrong(format!("there is no part {word:?} of a column")).with_hint(hint))
    }

    fn column(&mut self) -> Result<ColumnId> {
        let name = self.name()?;
        self.column_named(&name)
    }

    /// The column of a name, which is the last token.
    fn column_named(&mut self, name: &str) -> Result<ColumnId> {
        if let Some(column) = self.columns.iter().find(|column| column.name == name) {
            return Ok(column.id);
        }
        let error = undefined_column(name, self.columns);
        if let Some(quoted) = self.columns.iter().find(|column| column.name.to_ascii_lowercase() == name) {
            return Err(error.with_hint(format!("its name has upper case: write \"{}\"", quoted.name)));
        }
        if let Some(near) = near_names(name, self.columns.iter().map(|column| column.name.as_str())).first() {
            self.fix_word(&quoted_for_letters(near));
            return Err(error);
        }
        let hint = format!("{}; write for instance {}", error.hint().unwrap_or_default(), example(self.columns));
        Err(error.with_hint(hint))
    }

    fn name(&mut self) -> Result<String> {
        match self.take()? {
            Token::Name(name) => Ok(name),
            other => Err(self.wrong(format!("expected a name, found {other}"))),
        }
    }

    fn expect(&mut self, symbol: char) -> Result<()> {
        match self.take()? {
            Token::Symbol(found) if found == symbol => Ok(()),
            other => Err(self.wrong(format!("expected {symbol}, found {other}"))),
        }
    }

    fn finish(&self, name: String, levels: Vec<LevelSource>, range: KeyRange) -> Dimension {
        let levels = levels.into_iter().map(|source| level(source, self.columns)).collect();
        Dimension { name, levels, range, zone: None }
    }

    fn wrong(&self, message: impl Into<String>) -> Error {
        wrong(message, self.columns)
    }
}

/// A moment as it is written, of a text that may lack its month and day, or have a time of day that a DATE has not.
fn meant_moment(text: &str, is_date: bool) -> Option<String> {
    let text = text.trim_matches('\'');
    let text = if is_date { text.split([' ', 'T', 't']).next()? } else { text };
    ["", "-01", "-01-01"].iter().map(|rest| format!("{text}{rest}")).find(|moment| when::parse(moment).is_some())
}

/// A dimension's text up to its end, as far as that can be told.
fn to_its_end(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim_end()
}
