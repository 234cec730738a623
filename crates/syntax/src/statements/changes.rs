//! UPDATE, DELETE, TRUNCATE, ON CONFLICT and RETURNING: from the parser's trees to the queries that they are made of.
//!
//! Invariants:
//! - All expressions of such a statement are those of queries, so that whatever passes over queries, and binds their
//!   parameters, has passed over these.
//! - The first table in a query's FROM stands for the rows that are changed: of UPDATE and DELETE it is the table
//!   itself, of RETURNING the rows as they were written. Of ON CONFLICT it is the rows that come, `excluded`, and the
//!   second is the table.
//! - Values that are set are the query's columns, in the order of the columns that they are for.

use crate::names::{PUBLIC, name_of, parts_of, user_table};
use crate::statements::assignments::{Assigned, assigned};
use crate::statements::locked_within;
use crate::statements::locking::RowLock;
use crate::trees::prepare;
use crate::trees::value_rows::query_of_row;
use crate::trees::visit::visit_mut;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    self, Expr, FromTable, Ident, JoinOperator, ObjectName, OnConflictAction, OnInsert, Query, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, UpdateTableFromKind, Value,
    VisitorMut, WildcardAdditionalOptions, With,
};
use std::ops::ControlFlow;

/// What rows that come are called where keys that are there are dealt with.
pub const EXCLUDED: &str = "excluded";

/// UPDATE of a user table.
#[derive(Clone, Debug)]
pub struct Update {
    /// The user table.
    pub table: RelationName,
    /// What the statement calls it.
    pub alias: Ident,
    /// The columns that are set.
    pub columns: Vec<Ident>,
    /// Which of them are set to their defaults: in the query they have NULL.
    pub defaults: Vec<usize>,
    /// `SELECT values FROM table AS alias, ... WHERE condition`.
    pub query: Box<Query>,
    /// `SELECT ... FROM table AS alias, ...`, of the rows as they are then.
    pub returning: Option<Box<Query>>,
    /// What the tables beside are called that RETURNING may name.
    pub beside: Vec<Ident>,
    /// What subqueries of the condition lock, by their numbers ([`locked_within`]).
    pub locked: Vec<Vec<RowLock>>,
}

/// DELETE from a user table, of all its rows also for TRUNCATE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The user table.
    pub table: RelationName,
    /// What the statement calls it.
    pub alias: Ident,
    /// `SELECT 1 FROM table AS alias, ... WHERE condition`.
    pub query: Box<Query>,
    /// `SELECT ... FROM table AS alias, ...`, of the rows as they were.
    pub returning: Option<Box<Query>>,
    /// What the tables beside are called that RETURNING may name.
    pub beside: Vec<Ident>,
    /// What subqueries of the condition lock, by their numbers ([`locked_within`]).
    pub locked: Vec<Vec<RowLock>>,
    /// RESTART IDENTITY of TRUNCATE: whether sequences of the table begin anew.
    pub restarts: bool,
    /// CASCADE of TRUNCATE: whether all rows go of the tables that refer to it.
    pub cascades: bool,
}

impl Delete {
    /// Of all rows of a table, as TRUNCATE has it.
    pub fn whole(schema: &str, table: &str, restarts: bool) -> Result<Delete> {
        let ident = |name: &str| Ident::with_quote('"', name);
        let target = Target::named(&ObjectName::from(vec![ident(schema), ident(table)]))?;
        Delete::of_target(target, restarts, true)
    }

    fn of_target(target: Target, restarts: bool, cascades: bool) -> Result<Delete> {
        let query = target.query(None, vec![number("1")], vec![target.under(target.alias.clone())], None)?;
        let Target { table, alias, .. } = target;
        let (beside, locked) = (Vec::new(), Vec::new());
        Ok(Delete { table, alias, query, returning: None, beside, locked, restarts, cascades })
    }
}

/// ON CONFLICT of an INSERT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The key that is meant; `None` where DO NOTHING leaves it out.
    pub target: Option<ConflictTarget>,
    /// What is done with rows whose key is there.
    pub action: ConflictAction,
}

/// The key that ON CONFLICT means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConflictTarget {
    /// By its columns.
    Columns(Vec<String>),
    /// By its name.
    Constraint(String),
}

/// What ON CONFLICT does.
#[derive(Clone, Debug)]
pub enum ConflictAction {
    /// DO NOTHING.
    Nothing,
    /// DO UPDATE SET.
    Update {
        /// The columns that are set.
        columns: Vec<Ident>,
        /// Which of them are set to their defaults: in the query they have NULL.
        defaults: Vec<usize>,
        /// What the statement calls the table.
        alias: Ident,
        /// `SELECT values FROM table AS excluded, table AS alias WHERE condition`.
        query: Box<Query>,
    },
}

/// Takes over an UPDATE, behind the queries of its WITH.
pub(crate) fn update_of(mut update: ast::Update, with: Option<With>) -> Result<Update> {
    refuse(&[
        (!update.optimizer_hints.is_empty(), "an optimizer hint", ""),
        (update.or.is_some(), "UPDATE OR ...", ""),
        (update.output.is_some(), "OUTPUT", "write RETURNING"),
        (!update.order_by.is_empty(), "ORDER BY in UPDATE", CHOSEN_HINT),
        (update.limit.is_some(), "LIMIT in UPDATE", CHOSEN_HINT),
        (!update.table.joins.is_empty(), "UPDATE of a join", "write UPDATE t SET ... FROM u WHERE ..."),
    ])?;
    let target = Target::of(&update.table.relation, "UPDATE")?;
    let others = match update.from {
        None => Vec::new(),
        Some(UpdateTableFromKind::AfterSet(from)) => from,
        Some(UpdateTableFromKind::BeforeSet(_)) => {
            return Err(not_supported("FROM before SET").with_hint("write UPDATE t SET ... FROM u WHERE ..."));
        }
    };
    let Assigned { columns, values, defaults } = assigned(update.assignments)?;
    let (returning, beside) = target.returning_beside(update.returning, with.as_ref(), &others)?;
    let from = std::iter::once(target.under(target.alias.clone())).chain(others).collect();
    let locked = locked_within::take_out(update.selection.as_mut())?;
    let query = target.query(with, values, from, update.selection)?;
    Ok(Update { table: target.table, alias: target.alias, columns, defaults, query, returning, beside, locked })
}

/// Takes over a DELETE, behind the queries of its WITH.
pub(crate) fn delete_of(mut delete: ast::Delete, with: Option<With>) -> Result<Delete> {
    let several = "write one DELETE for each table, and USING for tables that rows are compared with";
    let from = match delete.from {
        FromTable::WithFromKeyword(from) if delete.tables.is_empty() => from,
        _ => return Err(not_supported("DELETE of several tables").with_hint(several)),
    };
    refuse(&[
        (!delete.optimizer_hints.is_empty(), "an optimizer hint", ""),
        (delete.output.is_some(), "OUTPUT", "write RETURNING"),
        (!delete.order_by.is_empty(), "ORDER BY in DELETE", CHOSEN_HINT),
        (delete.limit.is_some(), "LIMIT in DELETE", CHOSEN_HINT),
    ])?;
    let [TableWithJoins { relation, joins }] = from.as_slice() else {
        return Err(not_supported("DELETE of several tables").with_hint(several));
    };
    if !joins.is_empty() {
        return Err(not_supported("DELETE of a join").with_hint("write DELETE FROM t USING u WHERE ..."));
    }
    let target = Target::of(relation, "DELETE")?;
    let others = delete.using.unwrap_or_default();
    let (returning, beside) = target.returning_beside(delete.returning, with.as_ref(), &others)?;
    let from = std::iter::once(target.under(target.alias.clone())).chain(others).collect();
    let locked = locked_within::take_out(delete.selection.as_mut())?;
    let query = target.query(with, vec![number("1")], from, delete.selection)?;
    let Target { table, alias, .. } = target;
    Ok(Delete { table, alias, query, returning, beside, locked, restarts: false, cascades: false })
}

/// Takes over a TRUNCATE: of each table once.
pub(crate) fn truncate_of(truncate: ast::Truncate) -> Result<Vec<Delete>> {
    refuse(&[
        (truncate.if_exists, "TRUNCATE IF EXISTS", ""),
        (truncate.partitions.is_some(), "PARTITION in TRUNCATE", "write DELETE FROM t WHERE ..."),
        (truncate.on_cluster.is_some(), "ON CLUSTER", ""),
    ])?;
    let cascades = truncate.cascade == Some(ast::CascadeOption::Cascade);
    let restarts = truncate.identity == Some(ast::TruncateIdentityOption::Restart);
    let mut tables: Vec<Delete> = Vec::with_capacity(truncate.table_names.len());
    for ast::TruncateTableTarget { name, .. } in &truncate.table_names {
        let target = Target::named(name)?;
        if tables.iter().any(|known| known.table == target.table) {
            continue;
        }
        tables.push(Delete::of_target(target, restarts, cascades)?);
    }
    Ok(tables)
}

/// Takes over the ON CONFLICT of an INSERT into a table that is called `alias` there.
pub(crate) fn conflict_of(on: OnInsert, table: &ObjectName, alias: Option<Ident>) -> Result<Conflict> {
    let OnInsert::OnConflict(conflict) = on else {
        return Err(
            not_supported("ON DUPLICATE KEY UPDATE").with_hint("write ON CONFLICT (key) DO UPDATE SET a = excluded.a")
        );
    };
    let target = match conflict.conflict_target {
        None => None,
        Some(ast::ConflictTarget::Columns(columns)) => {
            Some(ConflictTarget::Columns(columns.iter().map(name_of).collect()))
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            Some(ConflictTarget::Constraint(parts_of(&name)?.pop().unwrap_or_default()))
        }
    };
    let action = match conflict.action {
        OnConflictAction::DoNothing => ConflictAction::Nothing,
        OnConflictAction::DoUpdate(_) if target.is_none() => {
            return Err(Error::new(ErrorKind::Syntax, "ON CONFLICT DO UPDATE needs the columns of the key")
                .with_hint("write ON CONFLICT (id) DO UPDATE SET ..."));
        }
        OnConflictAction::DoUpdate(update) => {
            let own = Target::named(table)?;
            let alias = alias.unwrap_or_else(|| own.alias.clone());
            let Assigned { columns, values, defaults } = assigned(update.assignments)?;
            let from = vec![own.under(Ident::new(EXCLUDED)), own.under(alias.clone())];
            ConflictAction::Update { columns, defaults, alias, query: own.query(None, values, from, update.selection)? }
        }
    };
    Ok(Conflict { target, action })
}

/// Takes over the RETURNING of an INSERT into a table that is called `alias` there.
pub(crate) fn inserted_returning(
    items: Vec<SelectItem>,
    table: &ObjectName,
    alias: Option<Ident>,
) -> Result<Box<Query>> {
    let mut target = Target::named(table)?;
    target.alias = alias.unwrap_or(target.alias);
    target.returning(items)
}

/// What to do where rows are to be changed by their order.
const CHOSEN_HINT: &str = "choose the rows in a subquery: WHERE id IN (SELECT id FROM t ORDER BY ... LIMIT ...)";

/// The error for the first clause that is there, with its hint if it has one.
fn refuse(clauses: &[(bool, &str, &str)]) -> Result<()> {
    match clauses.iter().find(|(found, ..)| *found) {
        None => Ok(()),
        Some((_, clause, "")) => Err(not_supported(clause)),
        Some((_, clause, hint)) => Err(not_supported(clause).with_hint(*hint)),
    }
}

/// The table that a statement changes.
pub(super) struct Target {
    pub(super) name: ObjectName,
    pub(super) table: RelationName,
    pub(super) alias: Ident,
}

impl Target {
    fn named(name: &ObjectName) -> Result<Target> {
        let last = name.0.last().and_then(|part| part.as_ident());
        let alias = last.cloned().ok_or_else(|| Error::internal("a table has no name"))?;
        Ok(Target { name: name.clone(), table: user_table(name)?, alias })
    }

    pub(super) fn of(factor: &TableFactor, command: &str) -> Result<Target> {
        let TableFactor::Table { name, alias, args: None, sample, .. } = factor else {
            return Err(not_supported(format!("{command} of what is no table")));
        };
        if sample.is_some() {
            return Err(not_supported(format!("TABLESAMPLE in {command}"))
                .with_hint("a statement that changes rows reads all of them"));
        }
        let own = Target::named(name)?;
        // Other clauses of a table are refused with those of the query.
        if *factor != table_factor(name.clone(), alias.clone()) {
            return Err(not_supported(format!("a clause of the table in {command}")));
        }
        match alias {
            None => Ok(own),
            Some(TableAlias { name, columns, at: None, .. }) if columns.is_empty() => {
                Ok(Target { alias: name.clone(), ..own })
            }
            Some(_) => Err(not_supported(format!("names of columns in the alias of {command}"))),
        }
    }

    pub(super) fn under(&self, alias: Ident) -> TableWithJoins {
        let alias = TableAlias { explicit: true, name: alias, columns: Vec::new(), at: None };
        TableWithJoins { relation: table_factor(self.name.clone(), Some(alias)), joins: Vec::new() }
    }

    /// The query of RETURNING.
    fn returning(&self, items: Vec<SelectItem>) -> Result<Box<Query>> {
        let mut query = query_of_row(Vec::new())?;
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(no_select()) };
        select.projection = items;
        select.from = vec![self.under(self.alias.clone())];
        self.shorten(&mut query);
        prepare(query)
    }

    /// The query of RETURNING of a statement with other tables, and what these are called.
    fn returning_beside(
        &self,
        items: Option<Vec<SelectItem>>,
        with: Option<&With>,
        others: &[TableWithJoins],
    ) -> Result<(Option<Box<Query>>, Vec<Ident>)> {
        let Some(items) = items else { return Ok((None, Vec::new())) };
        if others.is_empty() {
            return Ok((Some(self.returning(items)?), Vec::new()));
        }
        let mut beside = Vec::new();
        for table in others {
            beside.push(named(&table.relation)?);
            for join in &table.joins {
                // The other side of these is not seen.
                if !matches!(join.join_operator, JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_)) {
                    beside.push(named(&join.relation)?);
                }
            }
        }
        if beside.len() > BESIDE_MAX {
            return Err(not_supported(format!("RETURNING beside more than {BESIDE_MAX} tables"))
                .with_hint("put the tables together in a subquery"));
        }
        let mut query = query_of_row(Vec::new())?;
        query.with = with.cloned();
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(no_select()) };
        select.projection = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
                    select.projection.extend(std::iter::once(&self.alias).chain(&beside).map(whole_of));
                }
                SelectItem::Wildcard(_) => {
                    return Err(not_supported("a clause of * in RETURNING").with_hint("name the columns"));
                }
                other => select.projection.push(other),
            }
        }
        select.from = vec![self.under(self.alias.clone())];
        select.from.extend_from_slice(others);
        self.shorten(&mut query);
        Ok((Some(prepare(query)?), beside))
    }

    /// `WITH ... SELECT values FROM ... WHERE condition`.
    pub(super) fn query(
        &self,
        with: Option<With>,
        values: Vec<Expr>,
        from: Vec<TableWithJoins>,
        selection: Option<Expr>,
    ) -> Result<Box<Query>> {
        let mut query = query_of_row(values)?;
        query.with = with;
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(no_select()) };
        select.from = from;
        select.selection = selection;
        self.shorten(&mut query);
        prepare(query)
    }

    /// Its columns may be named with its schema, which the alias that it has in a query would hide.
    pub(super) fn shorten(&self, query: &mut Query) {
        if name_of(&self.alias) == self.table.name {
            let _ = visit_mut(query, &mut WithoutSchema(&self.table));
        }
    }
}

/// Makes `t.a` of `s.t.a`, for one table. Without a schema it is taken for one of `public`.
struct WithoutSchema<'a>(&'a RelationName);

impl VisitorMut for WithoutSchema<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [schema, table, _] = parts.as_slice()
            && name_of(schema) == self.0.schema().unwrap_or(PUBLIC)
            && name_of(table) == self.0.name
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}

/// The most tables beside that RETURNING may name.
const BESIDE_MAX: usize = 8;

/// What a statement calls a table beside.
fn named(factor: &TableFactor) -> Result<Ident> {
    source_name(factor).ok_or_else(|| {
        not_supported("RETURNING beside a query without a name").with_hint("write FROM (SELECT ...) AS s")
    })
}

/// All columns of a table.
pub(super) fn whole_of(table: &Ident) -> SelectItem {
    let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.clone()]));
    SelectItem::QualifiedWildcard(name, WildcardAdditionalOptions::default())
}

/// What a statement calls what it reads, if it has a name.
pub(super) fn source_name(source: &TableFactor) -> Option<Ident> {
    let (alias, name) = match source {
        TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
            (alias, name.0.last().and_then(|part| part.as_ident()))
        }
        TableFactor::Derived { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => (alias, None),
        _ => return None,
    };
    alias.as_ref().map(|alias| &alias.name).or(name).cloned()
}

pub(super) fn no_select() -> Error {
    Error::internal("a query of a row is no SELECT")
}

/// A table under its name, as it stands in FROM.
pub fn table_factor(name: ObjectName, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// A number of these digits.
pub fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;
    use crate::script::tests::one;
    use crate::statement::Insert;
    use crate::statements::changes::{ConflictAction, Delete, Update};

    fn shown(sql: &str) -> String {
        match one(sql).kind {
            Kind::Update(update) => {
                let Update { table, alias, columns, query, returning, .. } = *update;
                let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
                let returning = returning.map(|query| format!(" returning {query}")).unwrap_or_default();
                format!("{} as {alias} set {}: {query}{returning}", table.name, columns.join(", "))
            }
            Kind::Delete(delete) => deleted(&delete),
            Kind::Truncate(tables) => tables.iter().map(deleted).collect::<Vec<_>>().join("; "),
            Kind::Insert(Insert { conflict: Some(conflict), .. }) => match conflict.action {
                ConflictAction::Nothing => format!("{:?}: nothing", conflict.target),
                ConflictAction::Update { columns, defaults: _, alias, query } => {
                    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
                    format!("as {alias} set {}: {query}", columns.join(", "))
                }
            },
            Kind::Refused(error) => format!("refused {}", error.message()),
            other => panic!("{other:?}"),
        }
    }

    fn deleted(delete: &Delete) -> String {
        format!("{} as {}: {}", delete.table.name, delete.alias, delete.query)
    }

    #[test]
    fn changes_are_queries() {
        for (sql, wanted) in [
            (
                "UPDATE t SET a = 1, (b, c) = (x + 1, DEFAULT) WHERE d = 2",
                "t as t set a, b, c: SELECT 1 AS column1, x + 1 AS column2, NULL AS column3 FROM t AS t WHERE d = 2",
            ),
            (
                "UPDATE public.t AS s SET a = u.a FROM u JOIN v ON u.b = v.b WHERE s.id = u.id RETURNING s.a, *",
                "t as s set a: SELECT u.a AS column1 FROM public.t AS s, u JOIN v ON u.b = v.b WHERE s.id = u.id \
                 returning SELECT s.a, s.*, u.*, v.* FROM public.t AS s, u JOIN v ON u.b = v.b",
            ),
            (
                "WITH w AS (SELECT 1 AS x) UPDATE \"T\" SET a = (SELECT x FROM w)",
                "T as \"T\" set a: WITH w AS (SELECT 1 AS x) SELECT (SELECT x FROM w) AS column1 FROM \"T\" AS \"T\"",
            ),
            ("DELETE FROM t", "t as t: SELECT 1 AS column1 FROM t AS t"),
            (
                "DELETE FROM public.t WHERE public.t.a = 1 AND public.u.b = 2",
                "t as t: SELECT 1 AS column1 FROM public.t AS t WHERE t.a = 1 AND public.u.b = 2",
            ),
            ("DELETE FROM ONLY t", "t as t: SELECT 1 AS column1 FROM t AS t"),
            (
                "DELETE FROM t a USING u WHERE a.id = u.id AND u.b IN (SELECT 1)",
                "t as a: SELECT 1 AS column1 FROM t AS a, u WHERE a.id = u.id AND u.b IN (SELECT 1)",
            ),
            ("TRUNCATE TABLE ONLY t RESTART IDENTITY CASCADE", "t as t: SELECT 1 AS column1 FROM t AS t"),
            (
                "TRUNCATE t, public.u, T",
                "t as t: SELECT 1 AS column1 FROM t AS t; u as u: SELECT 1 AS column1 FROM public.u AS u",
            ),
            (
                "INSERT INTO t AS s VALUES (1) ON CONFLICT (id) DO UPDATE SET a = excluded.a + s.a WHERE s.b > 1",
                "as s set a: SELECT excluded.a + s.a AS column1 FROM t AS excluded, t AS s WHERE s.b > 1",
            ),
            (
                "INSERT INTO t SELECT x FROM u ON CONFLICT (id, \"B\") DO NOTHING",
                "Some(Columns([\"id\", \"B\"])): nothing",
            ),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "None: nothing"),
        ] {
            assert_eq!(shown(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn what_is_not_done_is_refused_by_name() {
        for (sql, words) in [
            ("UPDATE t TABLESAMPLE BERNOULLI (10) SET a = 1", "TABLESAMPLE in UPDATE"),
            ("UPDATE t JOIN u ON true SET a = 1", "UPDATE of a join"),
            ("DELETE FROM t ORDER BY a LIMIT 1", "ORDER BY in DELETE"),
            ("DELETE FROM t, u", "several tables"),
            ("DELETE FROM t USING (INSERT INTO u VALUES (1)) AS s", "INSERT inside a query"),
            ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", "ON DUPLICATE KEY UPDATE"),
            ("UPDATE alluvia.tables SET a = 1", "a system table"),
        ] {
            let refused = shown(sql);
            assert!(refused.starts_with("refused") && refused.contains(words), "{sql}: {refused}");
        }
        for wrong in [
            "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1",
            "UPDATE t SET (a, b) = (1, 2, 3)",
            "UPDATE t SET t.a = 1",
            "UPDATE t SET",
            "DELETE t",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
