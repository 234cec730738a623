//! SELECT ... FOR UPDATE and FOR SHARE: a query, and the relations of it whose rows are locked. FOR NO KEY UPDATE and FOR KEY SHARE are
//! these by now ([`phrases`](crate::tokens::phrases)).
//!
//! Invariants:
//! - A row of the answer is made of one row of each relation that is locked: what makes one of several (groups, DISTINCT, UNION) is
//!   refused, as is the side of an outer join that may be missing.
//! - The clauses stand behind the statement's own query, or behind a subquery of the WHERE of UPDATE or DELETE
//!   ([`locked_within`](super::locked_within)), and nowhere else.

use crate::names::{name_of, relation_name};
use crate::statement::Kind;
use crate::trees::prepare;
use crate::trees::sort_keys::has_aggregates;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    GroupByExpr, Ident, JoinOperator, LockClause, LockType, NonBlock, Query, Select, SetExpr, TableFactor,
};

/// A query that locks rows which it reads.
#[derive(Clone, Debug)]
pub struct Locking {
    /// The query, without the clauses.
    pub query: Box<Query>,
    /// What is locked, in the order of FROM; each relation once.
    pub locks: Vec<RowLock>,
}

/// A relation whose rows are locked.
#[derive(Clone, Debug)]
pub struct RowLock {
    /// Its name.
    pub table: RelationName,
    /// What the query calls it.
    pub alias: Ident,
    /// FOR SHARE: whether others may share it.
    pub is_shared: bool,
    /// What becomes of rows that others have locked.
    pub wait: LockWait,
}

/// What becomes of a row that is locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockWait {
    /// It is waited for.
    Wait,
    /// SKIP LOCKED: it is passed over.
    Skip,
    /// NOWAIT: an error.
    Refuse,
}

impl Locking {
    /// What it is called where it is refused.
    pub fn name(&self) -> &'static str {
        if self.locks.iter().all(|lock| lock.is_shared) { "SELECT FOR SHARE" } else { "SELECT FOR UPDATE" }
    }
}

/// A relation in FROM.
struct Read {
    /// `None` of what is no relation by name.
    table: Option<RelationName>,
    alias: Option<Ident>,
    /// Whether an outer join may leave it out.
    is_nullable: bool,
}

/// A query that has such clauses.
pub(crate) fn locking_of(mut query: Box<Query>) -> Result<Kind> {
    let locks = locks_of(&mut query)?;
    Ok(Kind::Locking(Box::new(Locking { query: prepare(query)?, locks })))
}

/// What the clauses of a query lock, which are taken out of it.
pub(super) fn locks_of(query: &mut Query) -> Result<Vec<RowLock>> {
    let clauses = std::mem::take(&mut query.locks);
    let called = clauses.first().map_or_else(String::new, |clause| format!("FOR {}", clause.lock_type));
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err(not_supported(format!("{called} with UNION, INTERSECT, EXCEPT or VALUES")));
    };
    refuse_groups(select, &called)?;
    let within: Vec<String> =
        query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| name_of(&cte.alias.name)).collect();
    let read = relations(select, &within)?;
    let mut locks: Vec<(usize, RowLock)> = Vec::new();
    for clause in &clauses {
        for at in named(clause, &read, &called)? {
            let Read { table: Some(table), alias: Some(alias), is_nullable } = &read[at] else {
                return Err(not_supported(format!("{called} of what is no table"))
                    .with_hint(format!("{called} OF names the tables whose rows are locked")));
            };
            if *is_nullable {
                return Err(not_supported(format!("{called} of the nullable side of an outer join"))
                    .with_hint(format!("{called} OF names the tables whose rows are locked")));
            }
            let wait = match clause.nonblock {
                None => LockWait::Wait,
                Some(NonBlock::SkipLocked) => LockWait::Skip,
                Some(NonBlock::Nowait) => LockWait::Refuse,
            };
            let is_shared = clause.lock_type == LockType::Share;
            match locks.iter_mut().find(|(known, _)| *known == at) {
                // As in PostgreSQL, the stricter of two holds.
                Some((_, lock)) => (lock.is_shared, lock.wait) = (lock.is_shared && is_shared, lock.wait.max(wait)),
                None => locks.push((at, RowLock { table: table.clone(), alias: alias.clone(), is_shared, wait })),
            }
        }
    }
    locks.sort_by_key(|(at, _)| *at);
    Ok(locks.into_iter().map(|(_, lock)| lock).collect())
}

fn refuse_groups(select: &Select, called: &str) -> Result<()> {
    let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let found = match () {
        () if has_groups => "GROUP BY",
        () if select.distinct.is_some() => "DISTINCT",
        () if select.having.is_some() => "HAVING",
        () if has_aggregates(select) => "aggregate functions",
        () => return Ok(()),
    };
    Err(not_supported(format!("{called} with {found}")).with_hint("lock the rows first, and ask of them afterwards"))
}

/// What a clause names, by place in FROM: all tables where it names none.
fn named(clause: &LockClause, read: &[Read], called: &str) -> Result<Vec<usize>> {
    let Some(name) = &clause.of else {
        return Ok((0..read.len()).collect());
    };
    let name = relation_name(name)?;
    let is_it = |of: &Read| of.alias.as_ref().is_some_and(|alias| name_of(alias) == name.name);
    match read.iter().position(is_it) {
        Some(at) => Ok(vec![at]),
        None => {
            let message = format!("relation \"{}\" in {called} clause not found in FROM clause", name.name);
            Err(Error::new(ErrorKind::UndefinedTable, message)
                .with_hint("OF takes the names that FROM gives its tables"))
        }
    }
}

/// What FROM reads, but for common table expressions.
fn relations(select: &Select, within: &[String]) -> Result<Vec<Read>> {
    let mut read = Vec::new();
    for from in &select.from {
        let first = read.len();
        add(&mut read, &from.relation, within)?;
        for join in &from.joins {
            use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
            let joined = read.len();
            add(&mut read, &join.relation, within)?;
            let (left, right) = match &join.join_operator {
                Left(_) | LeftOuter(_) => (false, true),
                Right(_) | RightOuter(_) => (true, false),
                FullOuter(_) => (true, true),
                _ => (false, false),
            };
            read[first..joined].iter_mut().for_each(|read| read.is_nullable |= left);
            read[joined..].iter_mut().for_each(|read| read.is_nullable |= right);
        }
    }
    Ok(read)
}

fn add(read: &mut Vec<Read>, relation: &TableFactor, within: &[String]) -> Result<()> {
    let (table, alias) = match relation {
        TableFactor::Table { name, alias, args: None, .. } => {
            let table = relation_name(name)?;
            if table.schema().is_none() && within.contains(&table.name) {
                return Ok(());
            }
            let alias = alias.as_ref().map(|alias| alias.name.clone());
            let own = || name.0.last().and_then(|part| part.as_ident()).cloned();
            (Some(table), alias.or_else(own))
        }
        TableFactor::Derived { alias, .. } => (None, alias.as_ref().map(|alias| alias.name.clone())),
        TableFactor::NestedJoin { .. } => (None, None),
        // A function's rows are nobody's.
        _ => return Ok(()),
    };
    read.push(Read { table, alias, is_nullable: false });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Kind, parse};

    fn locked(sql: &str) -> String {
        let kind = parse(sql).and_then(|mut all| match all.remove(0).kind {
            Kind::Refused(error) => Err(error),
            kind => Ok(kind),
        });
        match kind {
            Ok(Kind::Locking(locking)) => {
                let lock = |lock: &super::RowLock| {
                    let mode = if lock.is_shared { "share" } else { "update" };
                    format!("{} as {} for {mode}, {:?}", lock.table, lock.alias, lock.wait)
                };
                locking.locks.iter().map(lock).collect::<Vec<_>>().join("; ")
            }
            Ok(_) => "no lock".to_owned(),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn tables_of_from_are_locked_as_the_clauses_say() {
        for (sql, expected) in [
            ("SELECT a FROM t FOR UPDATE", "t as t for update, Wait"),
            ("SELECT a FROM s.t x WHERE a = 1 ORDER BY b LIMIT 1 FOR SHARE NOWAIT", "s.t as x for share, Refuse"),
            ("SELECT 1 FROM t, u FOR UPDATE OF u SKIP LOCKED", "u as u for update, Skip"),
            (
                "SELECT 1 FROM t JOIN u ON true FOR SHARE FOR UPDATE OF t",
                "t as t for update, Wait; u as u for share, Wait",
            ),
            ("SELECT 1 FROM t LEFT JOIN u ON true FOR UPDATE OF t", "t as t for update, Wait"),
            ("SELECT 1 FROM t FOR NO KEY UPDATE OF t SKIP LOCKED", "t as t for update, Skip"),
            ("SELECT 1 FROM t FOR KEY SHARE NOWAIT", "t as t for share, Refuse"),
            ("WITH w AS (SELECT 1) SELECT 1 FROM t, w FOR UPDATE", "t as t for update, Wait"),
            ("SELECT 1 FROM t", "no lock"),
        ] {
            assert_eq!(locked(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_is_no_row_of_a_table_is_refused_by_name() {
        for (sql, expected) in [
            ("SELECT count(*) FROM t FOR UPDATE", "FOR UPDATE with aggregate functions is not supported"),
            ("SELECT DISTINCT a FROM t FOR SHARE", "FOR SHARE with DISTINCT is not supported"),
            ("SELECT a FROM t GROUP BY a FOR UPDATE", "FOR UPDATE with GROUP BY is not supported"),
            (
                "SELECT a FROM t UNION SELECT a FROM u FOR UPDATE",
                "FOR UPDATE with UNION, INTERSECT, EXCEPT or VALUES is not supported",
            ),
            ("SELECT a FROM t FOR UPDATE OF u", "relation \"u\" in FOR UPDATE clause not found in FROM clause"),
            (
                "SELECT 1 FROM t LEFT JOIN u ON true FOR UPDATE",
                "FOR UPDATE of the nullable side of an outer join is not supported",
            ),
            ("SELECT 1 FROM (SELECT 1) s FOR UPDATE", "FOR UPDATE of what is no table is not supported"),
        ] {
            assert_eq!(locked(sql), expected, "{sql}");
        }
    }
}
