//! The queries that find what a statement changes.
//!
//! Invariants:
//! - Columns of a query are in the order of the table's columns, and so known by their places.
//! - A value that is set is what it is in the statement: the type that it has by itself is assigned to its column
//!   later, beside no other value that would change it.

use crate::beside::give_beside;
use crate::defaults::{default_expr, refuse_set};
use crate::{GIVEN, ROWS, TARGET, has_digits, identity_names};
use alluvia_space::TableDef;
use alluvia_syntax::keep_columns;
use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::changes::{Delete, EXCLUDED, Update, number};
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SetExpr, TableFactor, TableWithJoins,
};

/// What tells the rows that go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// Those that come have their keys.
    Replaced,
    /// Their keys, in the order of the key.
    Keys,
    /// Their versions and ordinals.
    Identities,
}

/// The query of an UPDATE: the table's columns, as its rows are to be, and behind them what tells the rows that go.
#[derive(Clone, Debug)]
pub struct UpdateQuery {
    /// The query.
    pub query: Box<Query>,
    /// What its last columns are.
    pub gone: Gone,
    /// Whether it may give a row several times, of which any one is meant.
    pub may_repeat: bool,
}

/// The query of an UPDATE.
pub fn update_query(def: &TableDef, update: &Update) -> Result<UpdateQuery> {
    let mut query = update.query.clone();
    let values = assignments(def, &update.columns, &update.defaults, &mut query)?;
    let gone = match def.key_columns() {
        None => Gone::Identities,
        Some(key) if key.iter().any(|&at| values[at].is_some()) => Gone::Keys,
        Some(_) => Gone::Replaced,
    };
    let alias = &update.alias;
    let new = values.into_iter().zip(&def.columns);
    let new = new.map(|(value, column)| value.unwrap_or_else(|| of(alias, &column.name)));
    let columns = new.chain(gone_columns(def, alias, gone)).collect();
    let select = select_of(&mut query)?;
    let may_repeat = select.from.len() > 1;
    give(select, columns);
    give_beside(select, &update.beside);
    read_given(select, 0, TARGET)?;
    Ok(UpdateQuery { query, gone, may_repeat })
}

/// The query of a DELETE: what tells the rows that go, and behind it, where they are wanted `whole`, the table's columns.
/// Also whether it may give a row several times.
pub fn delete_query(def: &TableDef, delete: &Delete, whole: bool) -> Result<(Box<Query>, Gone, bool)> {
    let mut query = delete.query.clone();
    let alias = &delete.alias;
    let gone = if def.key.is_some() { Gone::Keys } else { Gone::Identities };
    let mut columns: Vec<Expr> = gone_columns(def, alias, gone).collect();
    if whole {
        columns.extend(def.columns.iter().map(|column| of(alias, &column.name)));
    }
    let select = select_of(&mut query)?;
    let may_repeat = select.from.len() > 1;
    give(select, columns);
    give_beside(select, &delete.beside);
    read_given(select, 0, TARGET)?;
    Ok((query, gone, may_repeat))
}

/// The query of an INSERT that sets columns of rows whose keys are there, where rows that come are `given.rows`. It gives
/// whether there was such a row; the row that came; and that row as it is to be, with NULL where there was none and a
/// value is set. Rows that the condition leaves out are not given.
pub fn insert_or_update(def: &TableDef, alias: &Ident, values: &[Option<Expr>], query: &Query) -> Result<Box<Query>> {
    let mut query = Box::new(query.clone());
    let key = def.key_columns().ok_or_else(|| Error::internal("a table without a key has no conflicts"))?;
    let [first, ..] = key.as_slice() else { return Err(Error::internal("a key has no columns")) };
    let excluded = Ident::new(EXCLUDED);
    let is_there = || Expr::IsNotNull(Box::new(of(alias, &def.columns[*first].name)));
    let computed = values.iter().zip(&def.columns).map(|(value, column)| match value {
        // It may be an error where there is no row.
        Some(value) => when(is_there(), value.clone(), None),
        None => of(alias, &column.name),
    });
    let came = def.columns.iter().map(|column| of(&excluded, &column.name));
    let columns = std::iter::once(is_there()).chain(came).chain(computed).collect();
    let select = select_of(&mut query)?;
    give(select, columns);
    read_given(select, 0, ROWS)?;
    read_given(select, 1, TARGET)?;
    if select.from.len() != 2 {
        return Err(Error::internal("what ON CONFLICT reads are not two tables"));
    }
    let target = select.from.pop().ok_or_else(|| Error::internal("ON CONFLICT reads no table"))?.relation;
    let same = key.iter().map(|&at| {
        let name = &def.columns[at].name;
        binary(of(alias, name), BinaryOperator::Eq, of(&excluded, name))
    });
    let same =
        same.reduce(|all, next| binary(all, BinaryOperator::And, next)).ok_or_else(|| Error::internal("no key"))?;
    let join_operator = JoinOperator::LeftOuter(JoinConstraint::On(same));
    let join = Join { relation: target, global: false, join_operator };
    select.from.iter_mut().for_each(|table| table.joins = vec![join.clone()]);
    select.selection = select.selection.take().map(|condition| {
        // It may be an error where there is no row, and OR computes both of its sides: so does a CASE of truths, of which
        // planning makes AND and OR.
        let holds = when(condition, number("1"), Some(number("0")));
        binary(when(is_there(), holds, Some(number("1"))), BinaryOperator::Eq, number("1"))
    });
    Ok(query)
}

/// The query of RETURNING, of which `given.rows` are the rows.
pub fn returning_query(query: &Query) -> Result<Box<Query>> {
    let mut query = Box::new(query.clone());
    read_given(select_of(&mut query)?, 0, ROWS)?;
    Ok(query)
}

/// For each of the table's columns the value that it is set to by a query with a column for each of `columns`, of which
/// those at `defaults` are set to their defaults.
pub(crate) fn assignments(
    def: &TableDef,
    columns: &[Ident],
    defaults: &[usize],
    query: &mut Query,
) -> Result<Vec<Option<Expr>>> {
    let places = places_of(def, columns)?;
    keep_columns(query, &|at: usize| places.get(at).is_some_and(|&place| has_digits(def.columns[place].data_type)));
    let select = select_of(query)?;
    if select.projection.len() != places.len() {
        return Err(Error::internal("there is not one value for each column that is set"));
    }
    let mut values: Vec<Option<Expr>> = vec![None; def.columns.len()];
    for (at, (item, place)) in select.projection.iter().zip(places).enumerate() {
        values[place] = Some(match defaults.contains(&at) {
            true => default_expr(def, place)?,
            false => {
                refuse_set(def, place)?;
                expr_of(item)?.clone()
            }
        });
    }
    Ok(values)
}

/// Where columns that are set are in their table.
pub(crate) fn places_of(def: &TableDef, columns: &[Ident]) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(columns.len());
    for ident in columns {
        let column = def.column(&name_of(ident))?;
        let place = def.columns.iter().position(|known| known.id == column.id);
        let place = place.ok_or_else(|| Error::internal(format!("column {} is not in its table", column.name)))?;
        if places.contains(&place) {
            return Err(Error::new(ErrorKind::Syntax, format!("column {} is set twice", column.name))
                .with_hint("set each column once"));
        }
        places.push(place);
    }
    Ok(places)
}

/// The expression that a column of a query is.
pub(crate) fn expr_of(item: &SelectItem) -> Result<&Expr> {
    match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => Ok(expr),
        _ => Err(Error::internal("a value that is set is no expression")),
    }
}

/// The columns that tell rows of the target that go.
pub(crate) fn gone_columns<'a>(def: &'a TableDef, alias: &'a Ident, gone: Gone) -> impl Iterator<Item = Expr> + 'a {
    let names: Vec<String> = match gone {
        Gone::Replaced => Vec::new(),
        Gone::Keys => {
            let key = def.key_columns().unwrap_or_default();
            key.into_iter().map(|at| def.columns[at].name.clone()).collect()
        }
        Gone::Identities => identity_names(def).to_vec(),
    };
    names.into_iter().map(|name| of(alias, &name))
}

pub(crate) fn select_of(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(Error::internal("what a statement changes is found by no SELECT")),
    }
}

/// Has a SELECT give these columns.
fn give(select: &mut Select, columns: Vec<Expr>) {
    let named = columns.into_iter().enumerate();
    select.projection = named
        .map(|(at, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', format!("column{}", at + 1)),
        })
        .collect();
}

/// Has the tables of FROM, in their order, read what is given under these names.
pub fn read_all_given(query: &mut Query, given: &[&str]) -> Result<()> {
    let select = select_of(query)?;
    given.iter().enumerate().try_for_each(|(at, given)| read_given(select, at, given))
}

/// Has the table at a place of FROM read what is given under a name.
pub(crate) fn read_given(select: &mut Select, at: usize, given: &str) -> Result<()> {
    match select.from.get_mut(at) {
        Some(TableWithJoins { relation: TableFactor::Table { name, .. }, .. }) => {
            *name = ObjectName::from(vec![Ident::new(GIVEN), Ident::new(given)]);
            Ok(())
        }
        _ => Err(Error::internal("what a statement changes is not where its tables are read")),
    }
}

pub(crate) fn of(table: &Ident, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), Ident::with_quote('"', column)])
}

pub(crate) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn when(condition: Expr, result: Expr, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: otherwise.map(Box::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflict::{Resolved, resolve};
    use crate::testing::{kind, table, text};
    use alluvia_syntax::Kind;
    use alluvia_syntax::statement::Insert;

    const KEYED: &str = "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(9, 2), \"B\" TEXT)";
    const PLAIN: &str = "CREATE TABLE t (a INT, b TEXT)";

    fn update(def: &str, sql: &str) -> Result<(String, Gone, bool)> {
        let Kind::Update(update) = kind(sql) else { panic!("an UPDATE") };
        let UpdateQuery { query, gone, may_repeat } = update_query(&table(def), &update)?;
        Ok((text(&query), gone, may_repeat))
    }

    fn delete(def: &str, sql: &str, whole: bool) -> (String, Gone, bool) {
        let Kind::Delete(delete) = kind(sql) else { panic!("a DELETE") };
        let (query, gone, may_repeat) = delete_query(&table(def), &delete, whole).unwrap();
        (text(&query), gone, may_repeat)
    }

    #[test]
    fn an_update_selects_whole_rows() {
        let (query, gone, may_repeat) = update(KEYED, "UPDATE t SET a = 1.10 WHERE \"B\" = 'x'").unwrap();
        assert_eq!(
            query,
            "SELECT t.\"id\" AS \"column1\", CAST('1.10' AS DECIMAL(3,2)) AS \"column2\", t.\"B\" AS \"column3\" FROM \
             given.target AS t WHERE \"B\" = 'x'"
        );
        assert_eq!((gone, may_repeat), (Gone::Replaced, false));
        let (query, gone, may_repeat) = update(KEYED, "UPDATE t AS u SET id = u.id + v.n FROM v").unwrap();
        assert_eq!(
            query,
            "SELECT u.id + v.n AS \"column1\", u.\"a\" AS \"column2\", u.\"B\" AS \"column3\", u.\"id\" AS \"column4\" \
             FROM given.target AS u, v"
        );
        assert_eq!((gone, may_repeat), (Gone::Keys, true));
        let (query, gone, _) = update(PLAIN, "UPDATE t SET b = 'x'").unwrap();
        assert_eq!(
            query,
            "SELECT t.\"a\" AS \"column1\", 'x' AS \"column2\", t.\"row version\" AS \"column3\", t.\"row ordinal\" AS \
             \"column4\" FROM given.target AS t"
        );
        assert_eq!(gone, Gone::Identities);
        assert_eq!(update(KEYED, "UPDATE t SET c = 1").unwrap_err().kind(), ErrorKind::UndefinedColumn);
        assert_eq!(update(KEYED, "UPDATE t SET a = 1, a = 2").unwrap_err().kind(), ErrorKind::Syntax);
    }

    #[test]
    fn a_delete_selects_what_tells_its_rows() {
        assert_eq!(
            delete(KEYED, "WITH t AS (SELECT 1 AS x) DELETE FROM t AS s USING u WHERE s.id = u.id", false),
            (
                "WITH t AS (SELECT 1 AS x) SELECT s.\"id\" AS \"column1\" FROM given.target AS s, u WHERE s.id = u.id"
                    .to_owned(),
                Gone::Keys,
                true
            )
        );
        assert_eq!(
            delete(PLAIN, "DELETE FROM t", true).0,
            "SELECT t.\"row version\" AS \"column1\", t.\"row ordinal\" AS \"column2\", t.\"a\" AS \"column3\", \
             t.\"b\" AS \"column4\" FROM given.target AS t"
        );
    }

    #[test]
    fn an_upsert_selects_both_rows() {
        let def = table(KEYED);
        let sql = "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = t.a + 1 WHERE t.a < 5 OR excluded.a > 2";
        let Kind::Insert(Insert { conflict: Some(conflict), .. }) = kind(sql) else { panic!("an INSERT") };
        let Resolved::Compute { alias, values, query } = resolve(&def, &conflict).unwrap() else { panic!("computed") };
        assert_eq!(
            text(&insert_or_update(&def, &alias, &values, &query).unwrap()),
            "SELECT t.\"id\" IS NOT NULL AS \"column1\", excluded.\"id\" AS \"column2\", excluded.\"a\" AS \"column3\", \
             excluded.\"B\" AS \"column4\", t.\"id\" AS \"column5\", CASE WHEN t.\"id\" IS NOT NULL THEN t.a + 1 END AS \
             \"column6\", t.\"B\" AS \"column7\" FROM given.rows AS excluded LEFT OUTER JOIN given.target AS t ON \
             t.\"id\" = excluded.\"id\" WHERE CASE WHEN t.\"id\" IS NOT NULL THEN CASE WHEN t.a < 5 OR excluded.a > 2 \
             THEN 1 ELSE 0 END ELSE 1 END = 1"
        );
    }
}
