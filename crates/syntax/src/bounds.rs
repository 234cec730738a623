//! How wide a query may be: what planning would take minutes or all memory for.
//!
//! Planning asks between its rules whether it is still wanted, but not within one, and what it holds is not accounted. So
//! what it takes too long for by itself is refused before, with the bound in the message. Each bound is where planning took about a second on two
//! cores, or PostgreSQL's, whichever is lower. How deep a query may be is [`crate::tokens::depth`]'s.

use super::names::name_of;
use crate::trees::group_lists::columns_of;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, ObjectName, Query, Select, TableFactor, TableWithJoins,
};
use std::collections::HashMap;

/// Subqueries in expressions, one inside the other. Each level doubles the time that planning takes (0.3 s at 14).
const SUBQUERIES_MAX: usize = 12;
/// Common table expressions that are defined one inside the other. DataFusion looks for tables in each of them twice (0.2 s at 14).
const WITHS_MAX: usize = 12;
/// Common table expressions of which each reads the one before: a plan as deep as the chain is long, which [`crate::tokens::depth`] cannot see (1 s for
/// 400).
const CHAIN_MAX: usize = 500;
/// Calls of functions, and arrays that are written out, one as an argument of the other. Planning takes time with the square of their number, or worse (2.3 s for 200).
const CALLS_MAX: usize = 128;
/// Items of one SELECT, as in PostgreSQL. Planning compares each with all.
const ITEMS_MAX: usize = 1_664;
/// Window calls of a statement; planning takes time with the square of their number (0.5 s for 200, 20 s for 800).
const WINDOWS_MAX: usize = 250;
/// Tables that one SELECT joins (1 s for 200, 8 s for 400).
const TABLES_MAX: usize = 200;
/// Tables of a query once each mention of a common table expression is what it stands for, as planning has it.
const WRITTEN_OUT_MAX: usize = 10_000;
/// Elements of one CUBE, as in PostgreSQL.
const CUBE_MAX: usize = 12;
/// Grouping sets of one SELECT, as in PostgreSQL.
const SETS_MAX: usize = 4_096;
/// Expressions in all grouping sets of one SELECT.
const SET_EXPRESSIONS_MAX: usize = 1 << 18;

/// Counts what is open or was seen of a statement.
#[derive(Default)]
pub struct Bounds {
    /// Subqueries in expressions that are open.
    subqueries: usize,
    /// Calls of functions and arrays that are open.
    calls: usize,
    /// Calls with OVER so far.
    windows: usize,
    /// Queries that are open, one inside the other.
    queries: Vec<OpenQuery>,
}

/// A query of which a part was seen.
struct OpenQuery {
    /// Where its common table expressions stand, and what they are called.
    expressions: Vec<(usize, String)>,
    /// Which of them is open or comes next: they are met in order.
    next: usize,
    /// Those that were seen.
    known: HashMap<String, Known>,
    /// Its own tables so far.
    tables: usize,
    /// The longest chain of common table expressions that it reads.
    chain: usize,
    /// In how many common table expressions it stands, itself included.
    withs: usize,
}

/// What reading a common table expression stands for.
#[derive(Clone, Copy)]
struct Known {
    /// Its tables, written out.
    tables: usize,
    /// The longest chain that ends in it, itself included.
    chain: usize,
}

impl OpenQuery {
    /// Whether a query within it is the common table expression that is open or comes next.
    fn is_next(&self, query: &Query) -> bool {
        self.expressions.get(self.next).is_some_and(|(place, _)| *place == place_of(query))
    }
}

/// Which query it is.
fn place_of(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

impl Bounds {
    /// An expression begins.
    pub fn enter(&mut self, expr: &Expr) -> Result<()> {
        if is_subquery(expr) {
            self.subqueries += 1;
            if self.subqueries > SUBQUERIES_MAX {
                let message = format!("subqueries are nested more than {SUBQUERIES_MAX} deep in expressions");
                return Err(Error::new(ErrorKind::Syntax, message).with_hint("write them as joins, or in WITH"));
            }
        }
        if is_call(expr) {
            self.calls += 1;
            if self.calls > CALLS_MAX {
                let message = format!("calls of functions, or arrays, are nested more than {CALLS_MAX} deep");
                return Err(
                    Error::new(ErrorKind::Syntax, message).with_hint("compute a part of it in a subquery in FROM")
                );
            }
        }
        if matches!(expr, Expr::Function(function) if function.over.is_some()) {
            self.windows += 1;
            if self.windows > WINDOWS_MAX {
                let what = format!("the statement has more than {WINDOWS_MAX} window functions");
                return Err(Error::new(ErrorKind::Syntax, what).with_hint("write it as several statements"));
            }
        }
        Ok(())
    }

    /// An expression ends.
    pub fn leave(&mut self, expr: &Expr) {
        self.subqueries -= usize::from(is_subquery(expr));
        self.calls -= usize::from(is_call(expr));
    }

    /// A query begins; its common table expressions come before its body.
    pub(crate) fn enter_query(&mut self, query: &Query) -> Result<()> {
        let withs = self.queries.last().map_or(0, |outer| outer.withs + usize::from(outer.is_next(query)));
        if withs > WITHS_MAX {
            let message = format!("WITH is nested more than {WITHS_MAX} deep in WITH");
            return Err(Error::new(ErrorKind::Syntax, message)
                .with_hint("define one after the other: WITH a AS (...), b AS (...)"));
        }
        let expressions = query.with.iter().flat_map(|with| &with.cte_tables);
        let expressions = expressions.map(|cte| (place_of(&cte.query), name_of(&cte.alias.name))).collect();
        self.queries.push(OpenQuery { expressions, next: 0, known: HashMap::new(), tables: 0, chain: 0, withs });
        Ok(())
    }

    /// A table, or a common table expression, is read.
    pub fn relation(&mut self, name: &ObjectName) {
        let called = match name.0.as_slice() {
            [part] => part.as_ident().map(name_of),
            _ => None,
        };
        let known = |query: &OpenQuery| query.known.get(called.as_ref()?).copied();
        let Known { tables, chain } =
            self.queries.iter().rev().find_map(known).unwrap_or(Known { tables: 1, chain: 0 });
        if let Some(query) = self.queries.last_mut() {
            query.tables = query.tables.saturating_add(tables);
            query.chain = query.chain.max(chain);
        }
    }

    /// A query ends.
    pub(crate) fn leave_query(&mut self, query: &Query) -> Result<()> {
        let Some(OpenQuery { tables, chain, .. }) = self.queries.pop() else { return Ok(()) };
        if tables > WRITTEN_OUT_MAX {
            return Err(too_many(
                format!("a query that reads {tables} tables once WITH is written out"),
                WRITTEN_OUT_MAX,
            ));
        }
        if chain > CHAIN_MAX {
            let message = format!("more than {CHAIN_MAX} common table expressions read each the one before");
            return Err(Error::new(ErrorKind::Syntax, message).with_hint("write several of them as one query"));
        }
        if let Some(outer) = self.queries.last_mut() {
            if outer.is_next(query) {
                // One that reads none is copied all the same.
                let name = std::mem::take(&mut outer.expressions[outer.next].1);
                outer.known.insert(name, Known { tables: tables.max(1), chain: chain + 1 });
                outer.next += 1;
            } else {
                outer.tables = outer.tables.saturating_add(tables);
                outer.chain = outer.chain.max(chain);
            }
        }
        Ok(())
    }

    /// One SELECT.
    pub fn select(&self, select: &Select) -> Result<()> {
        let items = select.projection.len();
        if items > ITEMS_MAX {
            return Err(too_many(format!("a SELECT of {items} columns"), ITEMS_MAX));
        }
        let tables: usize = select.from.iter().map(tables_of).sum();
        if tables > TABLES_MAX {
            return Err(too_many(format!("a SELECT from {tables} tables"), TABLES_MAX));
        }
        grouping_sets(&select.group_by)
    }
}

fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(_) | Expr::Array(_))
}

fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        // ARRAY(SELECT ...)
        Expr::Function(Function { args: FunctionArguments::Subquery(_), .. }) => true,
        _ => false,
    }
}

fn tables_of(table: &TableWithJoins) -> usize {
    let of = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => tables_of(table_with_joins),
        _ => 1,
    };
    of(&table.relation) + table.joins.iter().map(|join| of(&join.relation)).sum::<usize>()
}

/// The sets that the items of GROUP BY make together: each of one with each of all others.
fn grouping_sets(group_by: &GroupByExpr) -> Result<()> {
    let GroupByExpr::Expressions(items, _) = group_by else { return Ok(()) };
    let all = |elements: &[Vec<Expr>]| elements.iter().map(|element| columns_of(element)).sum::<usize>();
    let (mut sets, mut width) = (1_usize, 0_usize);
    for item in items {
        let (more, wider) = match item {
            Expr::Cube(elements) if elements.len() > CUBE_MAX => {
                return Err(too_many(format!("CUBE of {} elements", elements.len()), CUBE_MAX));
            }
            Expr::Cube(elements) => (1 << elements.len(), all(elements)),
            Expr::Rollup(elements) => (elements.len() + 1, all(elements)),
            Expr::GroupingSets(elements) => (elements.len(), elements.iter().map(Vec::len).max().unwrap_or(0)),
            other => (1, columns_of(std::slice::from_ref(other))),
        };
        sets = sets.saturating_mul(more.max(1));
        width = width.saturating_add(wider);
    }
    if sets > SETS_MAX {
        return Err(too_many("GROUP BY with so many grouping sets", SETS_MAX));
    }
    if sets > 1 && sets.saturating_mul(width) > SET_EXPRESSIONS_MAX {
        return Err(too_many("GROUP BY with so many expressions in its grouping sets", SET_EXPRESSIONS_MAX));
    }
    Ok(())
}

fn too_many(what: impl std::fmt::Display, most: usize) -> Error {
    Error::new(ErrorKind::Syntax, format!("{what} is too wide: there may be {most}"))
        .with_hint("write it as several statements")
}

#[cfg(test)]
mod tests {
    use crate::script::parse;
    use alluvia_types::ErrorKind;

    fn numbered(count: usize, one: impl Fn(usize) -> String) -> String {
        (0..count).map(one).collect::<Vec<_>>().join(", ")
    }

    fn refused(sql: &str) -> String {
        let error = parse(sql).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Syntax);
        error.message().to_owned()
    }

    #[test]
    fn subqueries_in_expressions_are_bounded_and_those_beside_each_other_are_not() {
        let nested = |depth: usize| format!("SELECT {}1{}", "(SELECT ".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(12)).is_ok());
        assert_eq!(parse(&nested(13)).unwrap_err().kind(), ErrorKind::Syntax);
        let arrays = |depth: usize| format!("SELECT {}1{}", "ARRAY(SELECT ".repeat(depth), ")".repeat(depth));
        assert!(parse(&arrays(12)).is_ok());
        assert!(refused(&arrays(13)).contains("nested more than 12 deep in expressions"));
        let beside = vec!["EXISTS (SELECT 1)"; 100].join(" AND ");
        assert!(parse(&format!("SELECT {beside}")).is_ok());
    }

    #[test]
    fn with_inside_of_with_and_calls_inside_of_calls_are_bounded() {
        let withs =
            |depth: usize| format!("{}SELECT 1 AS x{}", "WITH a AS (".repeat(depth), ") SELECT * FROM a".repeat(depth));
        assert!(parse(&withs(12)).is_ok());
        assert!(refused(&withs(13)).contains("nested more than 12 deep in WITH"));
        assert!(refused(&withs(100)).contains("nested more than 12 deep in WITH"));
        let beside: Vec<String> =
            (0..100).map(|at| format!("a{at} AS (WITH b AS (SELECT 1) SELECT * FROM b)")).collect();
        assert!(parse(&format!("WITH {} SELECT * FROM a99", beside.join(", "))).is_ok());
        let second = |depth| format!("WITH z AS (SELECT 1), b AS ({}) SELECT * FROM b", withs(depth));
        assert!(parse(&second(11)).is_ok());
        assert!(refused(&second(12)).contains("nested more than 12 deep in WITH"));
        let calls = |depth: usize| format!("SELECT {}x{} FROM t", "abs(".repeat(depth), ")".repeat(depth));
        assert!(parse(&calls(128)).is_ok());
        assert!(refused(&calls(129)).contains("nested more than 128 deep"));
        let arrays = |depth: usize| format!("SELECT {}1{}", "ARRAY[".repeat(depth), "]".repeat(depth));
        assert!(parse(&arrays(128)).is_ok());
        assert!(refused(&arrays(129)).contains("nested more than 128 deep"));
        assert!(parse(&format!("SELECT {} FROM t", numbered(500, |_| "abs(x)".to_owned()))).is_ok());
    }

    #[test]
    fn items_windows_and_tables_are_bounded() {
        let items = |count| format!("SELECT {} FROM t", numbered(count, |at| format!("a + {at}")));
        assert!(parse(&items(1_664)).is_ok());
        assert!(refused(&items(1_665)).contains("1665 columns"));
        let windows = |count| format!("SELECT {} FROM t", numbered(count, |at| format!("sum(a + {at}) OVER ()")));
        assert!(parse(&windows(250)).is_ok());
        assert!(refused(&windows(251)).contains("more than 250 window functions"));
        let tables = |count| format!("SELECT 1 FROM {}", numbered(count, |at| format!("t AS t{at}")));
        assert!(parse(&tables(200)).is_ok());
        assert!(refused(&tables(201)).contains("201 tables"));
        let joined = format!("SELECT 1 FROM (t{}) JOIN u ON true", " JOIN t ON true".repeat(199));
        assert!(refused(&joined).contains("201 tables"));
    }

    #[test]
    fn common_table_expressions_are_bounded_as_they_are_written_out() {
        let doubled = |levels: usize| {
            let level = |at: usize| format!("a{at} AS (SELECT p.x FROM a{} p, a{} q)", at - 1, at - 1);
            let more: Vec<String> = (1..=levels).map(level).collect();
            format!("WITH a0 AS (SELECT x FROM t), {} SELECT count(*) FROM a{levels}", more.join(", "))
        };
        assert!(parse(&doubled(13)).is_ok());
        assert!(refused(&doubled(14)).contains("16384 tables once WITH is written out"));
        assert!(parse(&doubled(60)).is_err());
        assert!(refused(&doubled(14).replace("x FROM t", "1 AS x")).contains("16384 tables once WITH is written out"));
        // Also where one holds the others, and where a name of outside is meant within.
        let within = doubled(7).replace("count(*)", "*");
        let held = |times: usize| format!("WITH b AS ({within}) SELECT 1 FROM {}", vec!["b"; times].join(", "));
        assert!(parse(&held(78)).is_ok());
        assert!(refused(&held(79)).contains("10112 tables"));
        let inner = format!("WITH A AS ({within}) SELECT 1 FROM (SELECT * FROM {}) s", vec!["a"; 79].join(", "));
        assert!(refused(&inner).contains("10112 tables"));
        // One after the other they are no more than they are.
        let chain = |last: usize| {
            let more: Vec<String> = (1..=last).map(|at| format!("a{at} AS (SELECT * FROM a{})", at - 1)).collect();
            format!("WITH a0 AS (SELECT 1), {} SELECT * FROM (SELECT * FROM a{last}) s", more.join(", "))
        };
        assert!(parse(&chain(499)).is_ok());
        assert!(refused(&chain(500)).contains("more than 500 common table expressions"));
        assert!(refused(&chain(5_000)).contains("more than 500 common table expressions"));
    }

    #[test]
    fn grouping_sets_are_bounded() {
        let cube = |from: usize, count| format!("CUBE ({})", numbered(count, |at| format!("a{}", from + at)));
        let by = |items: &str| format!("SELECT count(*) FROM t GROUP BY {items}");
        assert!(parse(&by(&cube(0, 12))).is_ok());
        assert!(refused(&by(&cube(0, 13))).contains("CUBE of 13 elements"));
        assert!(refused(&by(&cube(0, 30))).contains("CUBE of 30 elements"));
        assert!(parse(&by(&format!("{}, {}", cube(0, 6), cube(6, 6)))).is_ok());
        assert!(refused(&by(&format!("{}, {}", cube(0, 7), cube(7, 6)))).contains("grouping sets"));
        let rollup = |count| by(&format!("ROLLUP ({})", numbered(count, |at| format!("a{at}"))));
        assert!(parse(&rollup(500)).is_ok());
        assert!(refused(&rollup(600)).contains("expressions in its grouping sets"));
        assert!(refused(&by(&format!("GROUPING SETS ({})", numbered(4_097, |_| "(a)".to_owned())))).contains("4096"));
        assert!(parse(&by(&numbered(1_000, |at| format!("a{at}")))).is_ok());
        // Lists within lists, too, are written out in every set.
        let list = |count| format!("(({}))", numbered(count, |at| format!("a{at}")));
        assert!(parse(&by(&format!("{}, {}", list(20), cube(100, 12)))).is_ok());
        let wide = by(&format!("{}, {}", list(60), cube(100, 12)));
        assert!(refused(&wide).contains("expressions in its grouping sets"));
        let wide = by(&format!("ROLLUP ({}, {})", list(600), numbered(500, |at| format!("b{at}"))));
        assert!(refused(&wide).contains("expressions in its grouping sets"));
    }
}
