//! `flights.*` of `FROM "alluvia"."public"."flights"`: all columns of a table that is called by its last name.
//!
//! Planning knows a table in FROM by all that was written there, and finds its columns by that alone.
//!
//! Invariant: what names a table of FROM by a part of its name, or by more of it, gets the name that is written in FROM; where two tables
//! could be meant, or none is, nothing is changed.
// For the binder: dbt's `SELECT flights.*, a.name FROM "alluvia"."public"."flights" JOIN ...`.

use super::visit::visit_mut;
use crate::names::name_of;
use alluvia_types::Result;
use sqlparser::ast::{
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, VisitorMut,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a star stands behind a period.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let mut meaning = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).peekable();
    while let Some(token) = meaning.next() {
        if token.token == Token::Period && meaning.peek().is_some_and(|next| next.token == Token::Mul) {
            return true;
        }
    }
    false
}

/// Gives them the names that planning knows.
pub(crate) fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Wildcards);
    Ok(())
}

struct Wildcards;

impl VisitorMut for Wildcards {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        qualify(select);
        ControlFlow::Continue(())
    }
}

/// Those of one SELECT.
pub fn qualify(select: &mut Select) {
    let Select { projection, from, .. } = select;
    for item in projection {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
            continue;
        };
        let wanted = words(name);
        let factors = from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
        let mut meant: Vec<&ObjectName> = Vec::new();
        let mut is_alias = false;
        for factor in factors {
            match factor {
                TableFactor::Table { name, alias: None, args: None, .. } if is_end(&wanted, &words(name)) => {
                    meant.push(name);
                }
                TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
                    is_alias |= wanted.as_slice() == [name_of(&alias.name)];
                }
                _ => {}
            }
        }
        if let ([table], false) = (meant.as_slice(), is_alias) {
            *name = (*table).clone();
        }
    }
}

fn words(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(ObjectNamePart::as_ident).map(name_of).collect()
}

/// Whether one name is the end of the other.
fn is_end(one: &[String], other: &[String]) -> bool {
    !one.is_empty() && !other.is_empty() && (one.ends_with(other) || other.ends_with(one))
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Query(query) => query.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_columns_are_those_of_the_table_in_from() {
        for (sql, expected) in [
            ("SELECT t.* FROM public.t", "SELECT public.t.* FROM public.t"),
            (
                "SELECT columns.*, 1 AS one FROM \"information_schema\".\"columns\"",
                "SELECT \"information_schema\".\"columns\".*, 1 AS one FROM \"information_schema\".\"columns\"",
            ),
            (
                "SELECT \"T\".* FROM a.\"T\" JOIN a.t AS u ON true",
                "SELECT a.\"T\".* FROM a.\"T\" JOIN a.t AS u ON true",
            ),
            ("SELECT public.t.* FROM t", "SELECT t.* FROM t"),
            ("SELECT t.* FROM public.t AS u JOIN v AS t ON true", "SELECT t.* FROM public.t AS u JOIN v AS t ON true"),
            ("SELECT t.* FROM a.t, b.t", "SELECT t.* FROM a.t, b.t"),
            ("SELECT t.* FROM t", "SELECT t.* FROM t"),
        ] {
            assert_eq!(written(sql), expected, "{sql}");
        }
    }
}
