//! Which statements are about rows that they name, and what they do.

use crate::expr::{Expr, Rows};
use crate::names::{Named, column_of};
use crate::query::{PointQuery, query_tables};
use crate::value::{Value, stored, stored_as_it_is};
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_space::IdentityKind;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::changes::Update;
use alluvia_syntax::statements::locking::LockWait;
use alluvia_syntax::{Kind, MARK};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion_common::ScalarValue;
use sqlparser::ast::{self, BinaryOperator, Ident, Query, Select, SelectItem, SetExpr, TableFactor};
use std::sync::Arc;

/// Keys that one statement may name.
const KEYS_MAX: usize = 64;

/// A compiled statement.
#[derive(Clone, Debug)]
pub struct PointStatement {
    table: RelationName,
    entry: Arc<TableEntry>,
    coder: KeyCoder,
    kind: PointKind,
    sets: Vec<(usize, Expr)>,
    finds: Finds,
}

/// How it finds its rows.
#[derive(Clone, Debug)]
enum Finds {
    /// By the keys that it names, each in the order of the key.
    Keys(Vec<Vec<Expr>>),
    /// By the heaps of its tables.
    Query(Box<PointQuery>),
}

/// What it does with the rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PointKind {
    /// They get new values.
    Update,
    /// They go.
    Delete,
    /// Some columns are shown, by their places and under these names; and the rows are locked, if that is said.
    Select(Vec<(usize, String)>, Option<PointLock>),
    /// A query is answered ([`PointStatement::query`]); and its rows are locked, if that is said.
    Query(Option<PointLock>),
}

/// How rows are locked that are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointLock {
    /// FOR SHARE.
    pub is_shared: bool,
    /// NOWAIT: a row that is locked is an error.
    pub refuses: bool,
}

/// The tables that a statement is about, if it may be a point statement.
pub fn point_tables(kind: &Kind) -> Option<Vec<RelationName>> {
    match kind {
        Kind::Update(update) if update.returning.is_none() && update.locked.is_empty() => {
            Some(vec![update.table.clone()])
        }
        Kind::Delete(delete) if delete.returning.is_none() && delete.locked.is_empty() => {
            Some(vec![delete.table.clone()])
        }
        Kind::Query(query) => Some(query_tables(query)?.into_iter().map(|(table, _)| table).collect()),
        Kind::Locking(locking) => match locking.locks.as_slice() {
            [lock] if lock.wait != LockWait::Skip => Some(vec![lock.table.clone()]),
            _ => None,
        },
        _ => None,
    }
}

impl PointStatement {
    /// Compiles a statement about tables, which [`point_tables`] names; `None` of one that is planned.
    pub fn recognise(kind: &Kind, entries: &[Arc<TableEntry>]) -> Option<PointStatement> {
        let table = point_tables(kind)?.into_iter().next()?;
        let entry = entries.first()?;
        let (def, coder) = (entry.def.as_ref(), KeyCoder::new(&entry.def)?);
        let rows_of = |query: &Query| Some(Finds::Query(Box::new(PointQuery::of(query, entries, false)?)));
        let (kind, sets, finds) = match kind {
            Kind::Update(update) if update.returning.is_none() && update.beside.is_empty() => {
                let of = Named { def, alias: &update.alias };
                let (select, finds) = match parts(&update.query, of) {
                    Some((select, keys)) => (select, Finds::Keys(keys)),
                    None => (select_of(&update.query)?, rows_of(&update.query)?),
                };
                (PointKind::Update, sets(update, select, of)?, finds)
            }
            Kind::Delete(delete) if delete.returning.is_none() && delete.beside.is_empty() => {
                let finds = match parts(&delete.query, Named { def, alias: &delete.alias }) {
                    Some((_, keys)) => Finds::Keys(keys),
                    None => rows_of(&delete.query)?,
                };
                (PointKind::Delete, Vec::new(), finds)
            }
            Kind::Query(query) => selected(query, entries, &query_tables(query)?.first()?.1, None)?,
            Kind::Locking(locking) => {
                let [lock] = locking.locks.as_slice() else { return None };
                let lock_of = PointLock { is_shared: lock.is_shared, refuses: lock.wait == LockWait::Refuse };
                if lock.wait == LockWait::Skip || query_tables(&locking.query)?.len() != 1 {
                    return None;
                }
                selected(&locking.query, entries, &lock.alias, Some(lock_of))?
            }
            _ => return None,
        };
        if let (PointKind::Query(Some(_)), Finds::Query(query)) = (&kind, &finds)
            && query.is_computed()
        {
            return None;
        }
        Some(PointStatement { table, entry: Arc::clone(entry), coder, kind, sets, finds })
    }

    /// The query that finds its rows, where it does not name them by their keys.
    pub fn query(&self) -> Option<&PointQuery> {
        match &self.finds {
            Finds::Query(query) => Some(query),
            Finds::Keys(_) => None,
        }
    }

    /// What it calls its tables, and these, by the definitions that it was compiled for.
    pub fn tables(&self) -> Vec<(&RelationName, &Arc<TableEntry>)> {
        match &self.finds {
            Finds::Query(query) => query.tables().iter().zip(query.entries()).collect(),
            Finds::Keys(_) => vec![(&self.table, &self.entry)],
        }
    }

    /// What it does.
    pub fn kind(&self) -> &PointKind {
        &self.kind
    }

    /// What it calls the table.
    pub fn table(&self) -> &RelationName {
        &self.table
    }

    /// The table, by the definition that it was compiled for.
    pub fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// What makes codes of the table's keys.
    pub fn coder(&self) -> &KeyCoder {
        &self.coder
    }

    /// The keys that it names with these values, by storage name, each once; and their codes. `None` where one is for planning.
    pub fn codes(&self, parameters: &[ScalarValue]) -> Option<(RecordBatch, Vec<KeyCode>)> {
        let def = &self.entry.def;
        let Finds::Keys(keys) = &self.finds else { return None };
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        for (place, (name, data_type)) in self.coder.columns().enumerate() {
            let at = *def.key_columns()?.get(place)?;
            let value =
                |key: &Vec<Expr>| key[place].value(parameters, Rows::None).filter(|value| *value != Value::Null);
            let values = keys.iter().map(value).collect::<Option<Vec<Value>>>()?;
            columns.push(stored_as_it_is(&def.columns[at], &values)?);
            fields.push(Field::new(name, data_type, true));
        }
        let keys = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).ok()?;
        let codes = self.coder.codes(&keys).ok()?;
        let mut known = codes.clone();
        known.sort_unstable();
        known.dedup();
        // A row is found once, however often it is named.
        (known.len() == codes.len()).then_some((keys, codes))
    }

    /// Rows, which have all columns in the order of the definition, as an UPDATE makes them; `None` where that is for planning, as where there
    /// are none: a value that does not fit is an error all the same.
    pub fn updated(&self, rows: &RecordBatch, parameters: &[ScalarValue]) -> Option<RecordBatch> {
        let def = &self.entry.def;
        if rows.num_rows() == 0 {
            return None;
        }
        let mut columns = rows.columns().to_vec();
        for (at, expr) in &self.sets {
            let value = |row| expr.value(parameters, Rows::Batch(def, rows, row));
            let values = match expr.reads_row() {
                true => (0..rows.num_rows()).map(value).collect::<Option<Vec<_>>>()?,
                false => vec![expr.value(parameters, Rows::None)?; rows.num_rows()],
            };
            columns[*at] = stored(&def.columns[*at], &values)?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(self.entry.storage_schema()), columns, &options).ok()
    }
}

/// What a statement does, what it sets, and how it finds its rows.
type Compiled = (PointKind, Vec<(usize, Expr)>, Finds);

/// A SELECT of one table, or of several: by whole keys, or as a query.
fn selected(query: &Query, entries: &[Arc<TableEntry>], alias: &Ident, lock: Option<PointLock>) -> Option<Compiled> {
    if let [entry] = entries {
        let of = Named { def: &entry.def, alias };
        if let Some((select, keys)) = parts(query, of)
            && let Some(shown) = shown(select, of)
        {
            return Some((PointKind::Select(shown, lock), Vec::new(), Finds::Keys(keys)));
        }
    }
    let query = PointQuery::of(query, entries, true)?;
    Some((PointKind::Query(lock), Vec::new(), Finds::Query(Box::new(query))))
}

/// What an UPDATE sets columns to; `None` where that is planned.
fn sets(update: &Update, select: &Select, of: Named<'_>) -> Option<Vec<(usize, Expr)>> {
    let def = of.def;
    if !update.defaults.is_empty() || select.projection.len() != update.columns.len() {
        return None;
    }
    let set = |(column, item): (&Ident, &SelectItem)| {
        let name = name_of(column);
        let at = def.columns.iter().position(|column| column.name == name)?;
        Some((at, Expr::of(item_expr(item)?, &[of])?))
    };
    let sets = update.columns.iter().zip(&select.projection).map(set).collect::<Option<Vec<_>>>()?;
    let key = def.key_columns()?;
    let is_once = |at: &usize| sets.iter().filter(|(other, _)| other == at).count() == 1;
    let may_be_set = |at: &usize| {
        let identity = def.identity_of(def.columns[*at].id);
        let always = identity.is_some_and(|identity| identity.kind == IdentityKind::Always);
        !key.contains(at) && !always && is_once(at)
    };
    sets.iter().all(|(at, _)| may_be_set(at)).then_some(sets)
}

fn select_of(query: &Query) -> Option<&Select> {
    match query.body.as_ref() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

fn column_in(expr: &ast::Expr, of: Named<'_>) -> Option<usize> {
    column_of(expr, &[of]).map(|place| place.column)
}

/// The SELECT of a query that has nothing but columns, one table and a condition; and the keys that this names.
fn parts<'a>(query: &'a Query, of: Named<'_>) -> Option<(&'a Select, Vec<Vec<Expr>>)> {
    let select = select_of(query)?;
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { args: None, sample: None, alias: called, .. } = &from.relation else { return None };
    // What it calls the columns is not what its definition does.
    if called.as_ref().is_some_and(|called| !called.columns.is_empty()) {
        return None;
    }
    let condition = select.selection.as_ref()?;
    let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    // Whatever else it has shows in its text.
    if query.to_string() != format!("SELECT {} FROM {from} WHERE {condition}", items.join(", "))
        || !from.joins.is_empty()
    {
        return None;
    }
    let key = of.def.key_columns()?;
    let mut keys = Vec::new();
    add_keys(condition, of, &key, &mut keys)?;
    (keys.len() <= KEYS_MAX).then_some((select, keys))
}

/// The keys that a condition names, if it names whole keys and nothing else.
fn add_keys(condition: &ast::Expr, of: Named<'_>, key: &[usize], keys: &mut Vec<Vec<Expr>>) -> Option<()> {
    match condition {
        ast::Expr::Nested(inner) => return add_keys(inner, of, key, keys),
        ast::Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            add_keys(left, of, key, keys)?;
            return add_keys(right, of, key, keys);
        }
        ast::Expr::InList { expr, list, negated: false } => {
            let (at, [only]) = (column_in(expr, of)?, key) else { return None };
            if at != *only {
                return None;
            }
            for value in list {
                keys.push(vec![constant(value, of)?]);
            }
            return Some(());
        }
        _ => {}
    }
    let mut named: Vec<Option<Expr>> = vec![None; key.len()];
    add_equalities(condition, of, key, &mut named)?;
    keys.push(named.into_iter().collect::<Option<Vec<_>>>()?);
    Some(())
}

fn add_equalities(condition: &ast::Expr, of: Named<'_>, key: &[usize], named: &mut [Option<Expr>]) -> Option<()> {
    match condition {
        ast::Expr::Nested(inner) => add_equalities(inner, of, key, named),
        ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            add_equalities(left, of, key, named)?;
            add_equalities(right, of, key, named)
        }
        ast::Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let (column, value) = match (column_in(left, of), column_in(right, of)) {
                (Some(column), None) => (column, right),
                (None, Some(column)) => (column, left),
                _ => return None,
            };
            let place = &mut named[key.iter().position(|&at| at == column)?];
            if place.is_some() {
                return None;
            }
            *place = Some(constant(value, of)?);
            Some(())
        }
        _ => None,
    }
}

/// A constant or a parameter, perhaps negative.
fn constant(expr: &ast::Expr, of: Named<'_>) -> Option<Expr> {
    let compiled = Expr::of(expr, &[of])?;
    match &compiled {
        Expr::Constant(_) | Expr::Parameter(_) => Some(compiled),
        Expr::Negated(inner) if matches!(**inner, Expr::Constant(_)) => Some(compiled),
        _ => None,
    }
}

/// Columns of a table that are shown as they are.
fn shown(select: &Select, of: Named<'_>) -> Option<Vec<(usize, String)>> {
    let item = |item: &SelectItem| {
        let at = column_in(item_expr(item)?, of)?;
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => name_of(alias),
            _ => of.def.columns[at].name.clone(),
        };
        (!name.contains(MARK)).then_some((at, name))
    };
    select.projection.iter().map(item).collect()
}

fn item_expr(item: &SelectItem) -> Option<&ast::Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_catalog::TableEntry;
    use alluvia_syntax::parse;
    use alluvia_syntax::statements::definitions::define;
    use alluvia_syntax::statements::keys::with_key;
    use alluvia_types::{TableId, Version};
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::{Decimal128Type, Int32Type};

    fn entry() -> Arc<TableEntry> {
        let sql = "CREATE TABLE stock (w INT NOT NULL, i INT NOT NULL, n SMALLINT, ytd DECIMAL(8, 2), note VARCHAR(5), \
                   PRIMARY KEY (w, i))";
        let Kind::CreateTable(create) = parse(sql).unwrap().remove(0).kind else { panic!("a CREATE TABLE") };
        let columns: Vec<_> = create
            .columns
            .into_iter()
            .map(|column| (column.name, column.column_type.expect("a type"), column.nullable))
            .collect();
        let def = define(TableId(1), ("public", &create.name.name), &columns, &create.with, 0).unwrap();
        let def = with_key(def, &create.key, create.with.on_conflict.as_deref(), [1, 2]).unwrap();
        Arc::new(TableEntry::new(Arc::new(def), Version(1)))
    }

    fn recognised(sql: &str) -> Option<PointStatement> {
        let kind = parse(sql).unwrap().remove(0).kind;
        point_tables(&kind)?;
        PointStatement::recognise(&kind, &[entry()])
    }

    #[test]
    fn statements_about_few_rows_are_recognised_by_whole_keys_or_as_queries() {
        for sql in [
            "UPDATE stock SET n = $1, ytd = ytd + $2 WHERE i = $3 AND w = $4",
            "UPDATE stock s SET n = n - 1 WHERE (s.w = 1) AND $1 = i",
            "DELETE FROM stock WHERE (w, i) IN (($1, $2), ($3, $4))",
            "SELECT n, note AS x FROM stock WHERE (w, i) IN (($1, $2), ($3, $4)) FOR UPDATE",
            "SELECT n FROM stock WHERE w = $1 AND i = $2",
            "SELECT n FROM stock WHERE w = $1 AND i = $2 FOR SHARE NOWAIT",
        ] {
            assert!(recognised(sql).is_some_and(|point| point.query().is_none()), "{sql}");
        }
        for sql in [
            "UPDATE stock SET n = 1 WHERE i = $2 AND w = 1 AND n > 0",
            "DELETE FROM stock WHERE w = $1 AND i BETWEEN $2 AND $3",
            "SELECT count(*), sum(ytd) FROM stock WHERE w = $1 AND i = $2",
            "SELECT n FROM stock WHERE w = $1 AND i = $2 ORDER BY n LIMIT 1",
            "SELECT n FROM stock WHERE w = $1 AND i > $2 ORDER BY i DESC LIMIT $3 FOR UPDATE",
            "SELECT i, max(n) FROM stock WHERE w IN ($1, 2) GROUP BY i ORDER BY i",
        ] {
            assert!(recognised(sql).is_some_and(|point| point.query().is_some()), "{sql}");
        }
        for sql in [
            "UPDATE stock SET n = $1 WHERE i = $2",
            "UPDATE stock SET w = $1 WHERE i = $2 AND w = 1",
            "UPDATE stock SET n = abs(n) WHERE i = $2 AND w = 1",
            "UPDATE stock SET n = 1 FROM t WHERE i = $2 AND w = 1",
            "UPDATE stock SET n = 1 WHERE i = $1 AND w = 1 RETURNING n",
            "SELECT n FROM stock WHERE w = $1 AND i = $2 FOR UPDATE SKIP LOCKED",
            "SELECT n FROM stock WHERE w = $1 OR i = $2",
            "SELECT n FROM stock WHERE w = $1 AND abs(i) = $2",
            "SELECT count(*) FROM stock WHERE w = $1 GROUP BY i HAVING count(*) > 1",
            "SELECT count(*) FROM stock WHERE w = $1 FOR UPDATE",
        ] {
            assert!(recognised(sql).is_none(), "{sql}");
        }
    }

    #[test]
    fn new_rows_are_computed_of_old_ones_and_parameters() {
        let point =
            recognised("UPDATE stock SET n = n - $1, ytd = ytd + $2, note = $5 WHERE i = $3 AND w = $4").unwrap();
        let (text, int) = (|text: &str| ScalarValue::from(text), |number: i32| ScalarValue::Int32(Some(number)));
        let amount = |unscaled, scale| ScalarValue::Decimal128(Some(unscaled), 10, scale);
        let row = |n: i64, cents: i128| {
            let entry = entry();
            let values = [
                Value::of_integer(1),
                Value::of_integer(2),
                Value::of_integer(n),
                Value::Decimal(cents, 2),
                Value::Null,
            ];
            let columns = entry
                .def
                .columns
                .iter()
                .zip(&values)
                .map(|(column, value)| stored(column, std::slice::from_ref(value)).unwrap());
            RecordBatch::try_new(Arc::clone(entry.storage_schema()), columns.collect()).unwrap()
        };
        let values = |n, by: ScalarValue, note: &str| [int(n), by, int(2), int(1), text(note)];
        let made = point.updated(&row(10, 1_050), &values(3, amount(2_345, 3), "abcde")).unwrap();
        assert_eq!(
            made.column(3).as_primitive::<Decimal128Type>().value(0),
            1_285,
            "10.50 + 2.345, half away from zero"
        );
        assert_eq!(made.column(4).as_string_view().value(0), "abcde");
        assert!(point.updated(&row(10, 1_050), &values(3, amount(1, 0), "abcdef")).is_none(), "it is too long");
        assert!(point.updated(&row(-32_768, 0), &values(1, amount(1, 0), "a")).is_none(), "it does not fit");
        assert!(point.updated(&row(1, 99_999_999), &values(1, amount(1, 0), "a")).is_none(), "it does not fit");
        let (keys, codes) = point.codes(&values(0, amount(0, 0), "")).unwrap();
        assert_eq!((keys.num_rows(), codes.len()), (1, 1));
        assert_eq!(keys.column(0).as_primitive::<Int32Type>(), &Int32Array::from(vec![1]));
        assert!(
            point.codes(&[int(0), int(0), ScalarValue::Int32(None), int(1), text("")]).is_none(),
            "NULL names no key"
        );
    }
}
