//! Named windows: `OVER w`, `OVER (w ORDER BY a)` and `WINDOW v AS (w ORDER BY a)`.
//!
//! Invariants, as in PostgreSQL:
//! - A window that names another has its PARTITION BY and ORDER BY. It may have an ORDER BY of its own where that has none, never a PARTITION BY, and
//!   what it names has no frame. Of a WINDOW clause it may name what stands before it.
//! - A name means the same in all of its SELECT, and in the ORDER BY of its query; that of another SELECT, around it or in it, is not known.
//!   DataFusion 55.2 leaves the name within brackets out without a word, and knows the others among the items of the SELECT alone.
//! - A bare name among the items of the outermost SELECT stays as it is: their columns may be called after their text.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: named window, OVER (w ORDER BY), WINDOW
//! clause, name ignored).
//! Held by `slt/windows.slt` (`row_number() OVER (w ORDER BY id)`,
//! `WINDOW v AS (PARTITION BY g), w AS (v ORDER BY id DESC)`).

use super::visit::visit_mut;
use crate::names::name_of;
use alluvia_types::{Error, ErrorKind, Result, near_names};
use sqlparser::ast::{
    Distinct, Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut, VisitorMut,
    WindowSpec, WindowType,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Windows that one SELECT may name: each may copy the one before it.
const NAMED_MAX: usize = 250;

/// A window that a SELECT names.
type Named = (String, WindowSpec);

/// Whether a statement of these tokens may name one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_of_windows = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::OVER | Keyword::WINDOW),
        _ => false,
    };
    tokens.iter().any(is_of_windows)
}

/// Puts what is named in the place of the names.
pub fn write_out(query: &mut Query) -> Result<()> {
    match visit_mut(query, &mut Selects { queries: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Goes through all SELECTs, those within others first.
struct Selects {
    /// Queries that are open, one inside the other.
    queries: usize,
}

impl VisitorMut for Selects {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        or_break(of_select(select, self.queries <= 1))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.queries -= 1;
        let Query { body, order_by, .. } = query;
        let Some(order_by) = order_by else { return ControlFlow::Continue(()) };
        let windows = match body.as_ref() {
            SetExpr::Select(select) => written_out(select),
            _ => Vec::new(),
        };
        or_break(resolve(order_by, &windows, false))
    }
}

fn or_break(done: Result<()>) -> ControlFlow<Error> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

fn of_select(select: &mut Select, is_outermost: bool) -> Result<()> {
    let windows = defined(&mut select.named_window)?;
    resolve(&mut select.projection, &windows, is_outermost)?;
    resolve(&mut select.qualify, &windows, false)?;
    match &mut select.distinct {
        Some(Distinct::On(keys)) => resolve(keys, &windows, false),
        _ => Ok(()),
    }
}

/// The windows of a WINDOW clause, none of which names another any more.
fn defined(definitions: &mut [NamedWindowDefinition]) -> Result<Vec<Named>> {
    if definitions.len() > NAMED_MAX {
        let message = format!("WINDOW with {} names is too wide: there may be {NAMED_MAX}", definitions.len());
        return Err(Error::new(ErrorKind::Syntax, message).with_hint("write it as several statements"));
    }
    let mut known: Vec<Named> = Vec::with_capacity(definitions.len());
    for NamedWindowDefinition(ident, window) in definitions {
        let name = name_of(ident);
        if known.iter().any(|(other, _)| *other == name) {
            return Err(Error::new(ErrorKind::DuplicateObject, format!("window {name} is defined twice")));
        }
        let mut spec = match window {
            NamedWindowExpr::NamedWindow(base) => named(base, &known)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => spec.clone(),
        };
        copy(&mut spec, &known)?;
        *window = NamedWindowExpr::WindowSpec(spec.clone());
        known.push((name, spec));
    }
    Ok(known)
}

/// The windows of a SELECT whose WINDOW clause names no others any more.
fn written_out(select: &Select) -> Vec<Named> {
    let of = |definition: &NamedWindowDefinition| match &definition.1 {
        NamedWindowExpr::WindowSpec(spec) => Some((name_of(&definition.0), spec.clone())),
        NamedWindowExpr::NamedWindow(_) => None,
    };
    select.named_window.iter().filter_map(of).collect()
}

/// Gives a window what the one has that it names.
fn copy(spec: &mut WindowSpec, windows: &[Named]) -> Result<()> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let base = named(&name, windows)?;
    let refused = |what: &str| Error::new(ErrorKind::Syntax, format!("{what} of window {}", name_of(&name)));
    if !spec.partition_by.is_empty() {
        return Err(refused("cannot override PARTITION BY").with_hint("only a window without a name in it has its own"));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(refused("cannot override ORDER BY").with_hint("name a window that has none"));
    }
    if base.window_frame.is_some() {
        let is_all = spec.order_by.is_empty() && spec.window_frame.is_none();
        let hint = if is_all { "leave out the brackets around its name" } else { "name a window without a frame" };
        return Err(refused("cannot copy the frame").with_hint(hint));
    }
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}

fn named<'a>(ident: &Ident, windows: &'a [Named]) -> Result<&'a WindowSpec> {
    let name = name_of(ident);
    if let Some((_, spec)) = windows.iter().find(|(other, _)| *other == name) {
        return Ok(spec);
    }
    let error = Error::new(ErrorKind::UndefinedObject, format!("there is no window {name}"));
    let near = near_names(&name, windows.iter().map(|(other, _)| other.as_str()));
    Err(match near.is_empty() {
        true => error.with_hint("define it in the same SELECT, before what names it: WINDOW w AS (...)"),
        false => error.with_hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// Puts windows in the place of their names in a part of their own SELECT.
fn resolve(part: &mut impl VisitMut, windows: &[Named], keeps_bare: bool) -> Result<()> {
    match visit_mut(part, &mut Calls { windows, keeps_bare, queries: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Goes through the calls of one SELECT.
struct Calls<'a> {
    windows: &'a [Named],
    /// Whether a bare name stays, if it is known.
    keeps_bare: bool,
    /// Subqueries that are open: what they call has their windows.
    queries: usize,
}

impl VisitorMut for Calls<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(function) if self.queries == 0 => match &mut function.over {
                Some(over) => or_break(self.resolved(over)),
                None => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Calls<'_> {
    fn resolved(&self, over: &mut WindowType) -> Result<()> {
        match over {
            WindowType::WindowSpec(spec) => copy(spec, self.windows),
            WindowType::NamedWindow(name) => {
                let spec = named(name, self.windows)?;
                if !self.keeps_bare {
                    *over = WindowType::WindowSpec(spec.clone());
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;
    use alluvia_types::{ErrorKind, Result};

    fn written(sql: &str) -> Result<String> {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Refused(error) => Err(error),
            mut kind => Ok(query_of(&mut kind).unwrap().to_string()),
        }
    }

    #[test]
    fn windows_have_what_those_have_that_they_name() {
        for (sql, wanted) in [
            (
                "SELECT rank() OVER (w ORDER BY b) FROM t WINDOW w AS (PARTITION BY a)",
                "SELECT rank() OVER (PARTITION BY a ORDER BY b) FROM t WINDOW w AS (PARTITION BY a)",
            ),
            (
                "SELECT count(*) OVER (W), count(*) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (ORDER BY a)",
                "SELECT count(*) OVER (ORDER BY a), count(*) OVER (ORDER BY a ROWS 1 PRECEDING) FROM t WINDOW w AS (ORDER BY a)",
            ),
            (
                "SELECT count(*) OVER w FROM t WINDOW v AS (PARTITION BY a), w AS (v ORDER BY b ROWS 1 PRECEDING)",
                "SELECT count(*) OVER w FROM t WINDOW v AS (PARTITION BY a), w AS (PARTITION BY a ORDER BY b ROWS 1 PRECEDING)",
            ),
            (
                "SELECT a FROM t QUALIFY count(*) OVER w > 1 WINDOW w AS (PARTITION BY a) ORDER BY 1 + count(*) OVER w",
                "SELECT a FROM t QUALIFY count(*) OVER (PARTITION BY a) > 1 WINDOW w AS (PARTITION BY a) ORDER BY 1 + count(*) OVER (PARTITION BY a)",
            ),
            (
                "SELECT count(*) OVER w, (SELECT max(x) FROM (SELECT count(*) OVER w AS x FROM u WINDOW w AS (PARTITION BY b))) FROM t WINDOW w AS (ORDER BY a)",
                "SELECT count(*) OVER w, (SELECT max(x) FROM (SELECT count(*) OVER (PARTITION BY b) AS x FROM u WINDOW w AS (PARTITION BY b))) FROM t WINDOW w AS (ORDER BY a)",
            ),
        ] {
            assert_eq!(written(sql).unwrap(), wanted);
        }
    }

    #[test]
    fn what_cannot_be_copied_is_told() {
        let kind = |sql: &str| written(sql).unwrap_err().kind();
        let with = |over: &str, windows: &str| format!("SELECT count(*) OVER {over} FROM t WINDOW {windows}");
        for (sql, wanted) in [
            (with("(w PARTITION BY b)", "w AS (PARTITION BY a)"), ErrorKind::Syntax),
            (with("(w ORDER BY b)", "w AS (ORDER BY a)"), ErrorKind::Syntax),
            (with("(w)", "w AS (ORDER BY a ROWS 1 PRECEDING)"), ErrorKind::Syntax),
            (with("w", "v AS (w), w AS (ORDER BY a)"), ErrorKind::UndefinedObject),
            (with("w", "w AS (ORDER BY a), W AS (ORDER BY b)"), ErrorKind::DuplicateObject),
            (
                "SELECT (SELECT count(*) OVER w FROM u) FROM t WINDOW w AS (ORDER BY a)".into(),
                ErrorKind::UndefinedObject,
            ),
            ("SELECT count(*) OVER w FROM t".into(), ErrorKind::UndefinedObject),
            ("SELECT a FROM t UNION SELECT b FROM u ORDER BY count(*) OVER w".into(), ErrorKind::UndefinedObject),
        ] {
            assert_eq!(kind(&sql), wanted, "{sql}");
        }
        let near = written("SELECT count(*) OVER windw FROM t WINDOW window1 AS (ORDER BY a)").unwrap_err();
        assert_eq!(near.hint(), Some("did you mean window1?"));
    }
}
