//! Queries in WITH: which are computed once, their lists of names, and those that name later ones.
//!
//! Invariants, as in PostgreSQL:
//! - A query that calls a volatile function is computed once, however often it is named. All others are planned where they are named.
//! - A list of names may be shorter than the columns.
//! - With RECURSIVE a query may name one that stands behind it; those that name one another are refused, and so is one that names itself in
//!   a subquery, on the nullable side of an outer join, or in EXCEPT.
//!
//! For the binder: `WITH q AS (SELECT random()) SELECT * FROM q, q r`, `WITH q(a) AS (SELECT 1, 2)`, `WITH RECURSIVE a AS (SELECT * FROM b), b`.

use super::merged_columns::{HIDDEN, query_all};
use super::relations::named;
use super::visit::{visit, visit_mut};
use crate::names::name_of;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Cte, Expr, Ident, JoinOperator, ObjectName, Query, SelectItem, SetExpr, SetOperator, TableAlias, TableFactor,
    TableWithJoins, Visit, Visitor, VisitorMut, With,
};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Functions that give another value each time.
const VOLATILE: [&str; 9] = [
    "random",
    "uuid",
    "gen_random_uuid",
    "uuidv4",
    "uuidv7",
    "clock_timestamp",
    "timeofday",
    "nextval",
    "random_normal",
];

/// What a derived table is called whose rows are computed once.
pub fn is_computed_once(alias: &TableAlias) -> bool {
    alias.name.value == computed_once()
}

fn computed_once() -> String {
    format!("{HIDDEN}once")
}

/// Puts queries of WITH RECURSIVE behind those that they name, and refuses what names itself where it must not.
pub(crate) fn order(query: &mut Query) -> Result<()> {
    match visit_mut(query, &mut Recursive) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Recursive;

impl VisitorMut for Recursive {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match &mut query.with {
            Some(with) if with.recursive => match in_order(with) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Brings queries in WITH to the form that is planned.
pub fn write_out(query: &mut Query) {
    let _ = visit_mut(query, &mut Named);
}

struct Named;

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(mut with) = query.with.take() else { return ControlFlow::Continue(()) };
        let names: Vec<String> = with.cte_tables.iter().map(|cte| name_of(&cte.alias.name)).collect();
        let volatile: Vec<bool> = with.cte_tables.iter().map(|cte| calls_volatile(&cte.query)).collect();
        let times = if volatile.contains(&true) { times(&with, &names, query) } else { vec![0; names.len()] };
        for (at, name) in names.iter().enumerate() {
            let cte = &mut with.cte_tables[at];
            if with.recursive && uses(&cte.query, name) > 0 {
                continue;
            }
            short_list(cte);
            if volatile[at] && times[at] > 1 {
                put_apart(cte, plain_alias(Ident::with_quote('"', computed_once())));
            }
        }
        query.with = Some(with);
        ControlFlow::Continue(())
    }
}

/// How often each query is planned: as often as it is named by what is planned. Those that name it stand behind it.
fn times(with: &With, names: &[String], query: &Query) -> Vec<usize> {
    let mut times: Vec<usize> = names.iter().map(|name| uses(query, name)).collect();
    for (at, cte) in with.cte_tables.iter().enumerate().rev() {
        let mut all = Relations(HashMap::new());
        let _ = visit(&cte.query, &mut all);
        let own = times[at];
        for (before, name) in times.iter_mut().zip(names).take(at) {
            let named = all.0.get(name).copied().unwrap_or(0);
            *before = before.saturating_add(named.saturating_mul(own));
        }
    }
    times
}

/// Counts relations by their names.
struct Relations(HashMap<String, usize>);

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
        {
            *self.0.entry(name_of(ident)).or_insert(0) += 1;
        }
        ControlFlow::Continue(())
    }
}

fn plain_alias(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// Makes a query all rows of a derived table that it was.
fn put_apart(cte: &mut Cte, alias: TableAlias) {
    let nothing = TableFactor::NestedJoin {
        table_with_joins: Box::new(TableWithJoins {
            relation: TableFactor::Table {
                name: ObjectName(Vec::new()),
                alias: None,
                args: None,
                with_hints: Vec::new(),
                version: None,
                with_ordinality: false,
                partitions: Vec::new(),
                json_path: None,
                sample: None,
                index_hints: Vec::new(),
            },
            joins: Vec::new(),
        }),
        alias: None,
    };
    let subquery = std::mem::replace(&mut cte.query, Box::new(query_all(nothing)));
    let relation = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    *cte.query = query_all(relation);
}

/// Puts a list of names that may be shorter than the columns behind a derived table.
fn short_list(cte: &mut Cte) {
    let names = cte.alias.columns.len();
    if names == 0 || width(&cte.query.body) == Some(names) {
        return;
    }
    let alias = TableAlias { columns: std::mem::take(&mut cte.alias.columns), ..plain_alias(cte.alias.name.clone()) };
    put_apart(cte, alias);
}

/// How many columns a query gives, if that can be told.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, .. } => width(left),
        _ => None,
    }
}

/// How often a name is that of a relation. A query within that gives the name to another is counted, too.
fn uses(node: &impl Visit, name: &str) -> usize {
    let mut uses = Uses { name, found: 0 };
    let _ = visit(node, &mut uses);
    uses.found
}

struct Uses<'a> {
    name: &'a str,
    found: usize,
}

impl Visitor for Uses<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.found += usize::from(is_named(name, self.name));
        ControlFlow::Continue(())
    }
}

fn is_named(relation: &ObjectName, name: &str) -> bool {
    matches!(relation.0.as_slice(), [part] if part.as_ident().is_some_and(|ident| name_of(ident) == name))
}

fn calls_volatile(query: &Query) -> bool {
    visit(query, &mut Volatile).is_break()
}

struct Volatile;

impl Visitor for Volatile {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_volatile = matches!(expr, Expr::Function(function)
            if function.name.0.last().and_then(|part| part.as_ident())
                .is_some_and(|name| VOLATILE.contains(&name_of(name).as_str())));
        if is_volatile { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Puts queries behind those that they name.
fn in_order(with: &mut With) -> Result<()> {
    let names: Vec<String> = with.cte_tables.iter().map(|cte| name_of(&cte.alias.name)).collect();
    for (cte, name) in with.cte_tables.iter().zip(&names) {
        names_itself_rightly(&cte.query, name)?;
    }
    let places: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    if places.len() < names.len() {
        // A name that comes twice is an error of its own.
        return Ok(());
    }
    let needs: Vec<Vec<usize>> = with
        .cte_tables
        .iter()
        .enumerate()
        .map(|(at, cte)| {
            (0..names.len()).filter(|other| *other != at && uses(&cte.query, &names[*other]) > 0).collect()
        })
        .collect();
    if needs.iter().enumerate().all(|(at, needs)| needs.iter().all(|need| *need < at)) {
        return Ok(());
    }
    let mut order: Vec<usize> = Vec::with_capacity(names.len());
    while order.len() < names.len() {
        let is_next = |at: &usize| !order.contains(at) && needs[*at].iter().all(|need| order.contains(need));
        let Some(next) = (0..names.len()).find(is_next) else {
            let message = "mutual recursion between WITH items is not implemented";
            return Err(Error::new(ErrorKind::NotSupported, message).with_hint("write one query that names itself"));
        };
        order.push(next);
    }
    let mut ctes: Vec<Option<Cte>> = std::mem::take(&mut with.cte_tables).into_iter().map(Some).collect();
    with.cte_tables = order.into_iter().filter_map(|at| ctes[at].take()).collect();
    Ok(())
}

/// The relations that queries in WITH name of which nothing is read: no plan tells their columns. It may be more than those.
pub fn relations_of_unread(query: &Query) -> Result<BTreeSet<RelationName>> {
    let mut unread = Unread(BTreeSet::new());
    match visit(query, &mut unread) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(unread.0),
    }
}

struct Unread(BTreeSet<RelationName>);

impl Visitor for Unread {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        let main = Query { with: None, ..query.clone() };
        // Where a query within has the name for its own, it may be that one's everywhere.
        let reads = |node: &Query, name: &str| uses(node, name) > 0 && !gives_name(node, name);
        let names: Vec<String> = with.cte_tables.iter().map(|cte| name_of(&cte.alias.name)).collect();
        let mut is_read: Vec<bool> = names.iter().map(|name| reads(&main, name)).collect();
        while let Some(at) = (0..names.len()).find(|at| {
            let by_another = |(by, cte): (usize, &Cte)| is_read[by] && by != *at && reads(&cte.query, &names[*at]);
            !is_read[*at] && with.cte_tables.iter().enumerate().any(by_another)
        }) {
            is_read[at] = true;
        }
        for (cte, _) in with.cte_tables.iter().zip(is_read).filter(|(_, is_read)| !is_read) {
            match named(&cte.query) {
                Ok(found) => self.0.extend(found.into_iter().map(|named| named.name)),
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

/// Refuses a query that names itself where its rows cannot be added to.
fn names_itself_rightly(query: &Query, name: &str) -> Result<()> {
    if uses(query, name) == 0 {
        return Ok(());
    }
    let refused = |place: &str| {
        let message = format!("recursive reference to query \"{name}\" must not appear within {place}");
        Err(Error::new(ErrorKind::InvalidRecursion, message))
    };
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_ref() else {
        // A query within that has the name for its own is none of this.
        return Ok(());
    };
    if uses(left.as_ref(), name) > 0 && !gives_name(left.as_ref(), name) {
        return refused("its non-recursive term");
    }
    if gives_name(right.as_ref(), name) {
        return Ok(());
    }
    if in_expressions(right, name) {
        return refused("a subquery");
    }
    match wrong_side(right, name) {
        Some(place) => refused(place),
        None if uses(right.as_ref(), name) > 1 => {
            let message = format!("recursive reference to query \"{name}\" must not appear more than once");
            Err(Error::new(ErrorKind::InvalidRecursion, message))
        }
        None => Ok(()),
    }
}

/// Whether a query within gives the name to one of its own.
fn gives_name(node: &impl Visit, name: &str) -> bool {
    struct Gives<'a>(&'a str);
    impl Visitor for Gives<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let mut ctes = query.with.iter().flat_map(|with| &with.cte_tables);
            if ctes.any(|cte| name_of(&cte.alias.name) == self.0) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }
    visit(node, &mut Gives(name)).is_break()
}

/// Whether a subquery of an expression has the name.
fn in_expressions(body: &SetExpr, name: &str) -> bool {
    struct Within<'a>(&'a str);
    impl Visitor for Within<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let query = match expr {
                Expr::Subquery(query)
                | Expr::Exists { subquery: query, .. }
                | Expr::InSubquery { subquery: query, .. } => query,
                _ => return ControlFlow::Continue(()),
            };
            if uses(query.as_ref(), self.0) > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    visit(body, &mut Within(name)).is_break()
}

/// A part of a query, other than a subquery, whose rows may go when there are more of another.
fn wrong_side(body: &SetExpr, name: &str) -> Option<&'static str> {
    match body {
        SetExpr::Select(select) => {
            let is_nullable = select.from.iter().any(|from| {
                let mut before = uses(&from.relation, name) > 0;
                from.joins.iter().any(|join| {
                    let here = uses(&join.relation, name) > 0;
                    let wrong = match &join.join_operator {
                        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => here,
                        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => before,
                        JoinOperator::FullOuter(_) => here || before,
                        _ => false,
                    };
                    before |= here;
                    wrong
                })
            });
            is_nullable.then_some("an outer join")
        }
        SetExpr::SetOperation { op: SetOperator::Except | SetOperator::Minus, right, .. }
            if uses(right.as_ref(), name) > 0 =>
        {
            Some("EXCEPT")
        }
        SetExpr::SetOperation { left, right, .. } => wrong_side(left, name).or_else(|| wrong_side(right, name)),
        SetExpr::Query(query) => wrong_side(&query.body, name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        let mut query = query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().clone();
        write_out(&mut query);
        query.to_string().replace(HIDDEN, "")
    }

    #[test]
    fn volatile_queries_that_are_named_twice_are_computed_once() {
        assert_eq!(
            written("WITH q AS (SELECT random() AS r) SELECT * FROM q, q AS p"),
            "WITH q AS (SELECT * FROM (SELECT random() AS r) AS \"once\") SELECT * FROM q, q AS p"
        );
        assert_eq!(
            written("WITH q AS (SELECT random() AS r), p AS (SELECT r FROM q) SELECT * FROM p, p AS o"),
            "WITH q AS (SELECT * FROM (SELECT random() AS r) AS \"once\"), p AS (SELECT r FROM q) SELECT * FROM p, p AS o"
        );
        for same in [
            "WITH q AS (SELECT random() AS r), p AS (SELECT r FROM q) SELECT * FROM p",
            "WITH q AS (SELECT random() AS r) SELECT * FROM q",
            "WITH q AS (SELECT 1 AS r) SELECT * FROM q, q AS p",
            "WITH q (a, b) AS (SELECT 1, 2) SELECT * FROM q",
        ] {
            assert_eq!(written(same), same);
        }
    }

    #[test]
    fn lists_of_names_may_be_short() {
        assert_eq!(
            written("WITH q (a) AS (SELECT 1, 2) SELECT * FROM q"),
            "WITH q AS (SELECT * FROM (SELECT 1, 2) AS q (a)) SELECT * FROM q"
        );
    }

    #[test]
    fn recursive_queries_stand_behind_those_that_they_name() {
        assert_eq!(
            written("WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a"),
            "WITH RECURSIVE b AS (SELECT 1), a AS (SELECT * FROM b) SELECT * FROM a"
        );
        let refused = |sql: &str| match parse(sql) {
            Err(error) => error.message().to_owned(),
            Ok(mut statements) => match statements.remove(0).kind {
                Kind::Refused(error) => error.message().to_owned(),
                _ => panic!("refused: {sql}"),
            },
        };
        let mutual = refused("WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a");
        assert!(mutual.contains("mutual recursion"), "{mutual}");
        for (term, place) in [
            ("SELECT n + 1 FROM t WHERE n < (SELECT max(n) FROM t)", "within a subquery"),
            ("SELECT n + 1 FROM x LEFT JOIN t ON x.a = t.n", "within an outer join"),
            ("SELECT n FROM x EXCEPT SELECT n FROM t", "within EXCEPT"),
            ("SELECT a.n FROM t AS a, t AS b", "more than once"),
        ] {
            let told = refused(&format!("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL ({term})) SELECT * FROM t"));
            assert!(told.contains(place), "{told}");
        }
    }
    #[test]
    fn relations_of_queries_that_nothing_reads_are_told() {
        let unread = |sql: &str| {
            let mut kind = parse(sql).unwrap().remove(0).kind;
            let found = relations_of_unread(query_of(&mut kind).unwrap()).unwrap();
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for (sql, found) in [
            ("WITH q AS (SELECT a FROM t) SELECT * FROM q", vec![]),
            ("WITH q AS (SELECT a FROM t) SELECT 1 FROM u", vec!["t"]),
            ("WITH p AS (SELECT a FROM s.t), q AS (SELECT * FROM p, u) SELECT 1", vec!["p", "u", "s.t"]),
            ("WITH p AS (SELECT a FROM t), q AS (SELECT * FROM p) SELECT * FROM q", vec![]),
            ("SELECT (WITH q AS (SELECT a FROM t) SELECT 1) FROM u", vec!["t"]),
            ("WITH q AS (SELECT a FROM t) SELECT (WITH q AS (SELECT 1 AS a) SELECT a FROM q)", vec!["t"]),
        ] {
            assert_eq!(unread(sql), found, "{sql}");
        }
    }
}
