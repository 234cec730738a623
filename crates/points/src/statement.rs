//! Which statements are about rows that they name, and what they do.

use crate::expr::{Expr, column_of};
use crate::value::{Value, stored};
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_syntax::names::{name_of, relation_name};
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
    entry: Arc<TableEntry>,
    coder: KeyCoder,
    kind: PointKind,
    sets: Vec<(usize, Expr)>,
    /// The keys that it names, each in the order of the key.
    keys: Vec<Vec<Expr>>,
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
}

/// How rows are locked that are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointLock {
    /// FOR SHARE.
    pub is_shared: bool,
    /// NOWAIT: a row that is locked is an error.
    pub refuses: bool,
}

/// The table that a statement is about, if it may be a point statement.
pub fn point_table(kind: &Kind) -> Option<RelationName> {
    match kind {
        Kind::Update(update) if update.returning.is_none() => Some(update.table.clone()),
        Kind::Delete(delete) if delete.returning.is_none() => Some(delete.table.clone()),
        Kind::Query(query) => Some(read_by(query)?.0),
        Kind::Locking(locking) => match locking.locks.as_slice() {
            [lock] if lock.wait != LockWait::Skip => Some(lock.table.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The one table that a query reads, and what the query calls it.
fn read_by(query: &Query) -> Option<(RelationName, Ident)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, alias, args: None, .. } = &from.relation else { return None };
    select.selection.as_ref()?;
    let own = || name.0.last().and_then(|part| part.as_ident()).cloned();
    Some((relation_name(name).ok()?, alias.as_ref().map(|alias| alias.name.clone()).or_else(own)?))
}

impl PointStatement {
    /// Compiles a statement about a table, which [`point_table`] names; `None` of one that is planned.
    pub fn recognise(kind: &Kind, entry: &Arc<TableEntry>) -> Option<PointStatement> {
        let def = &entry.def;
        let coder = KeyCoder::new(def)?;
        let (kind, sets, keys) = match kind {
            Kind::Update(update) if update.returning.is_none() && update.beside.is_empty() => {
                let (select, keys) = parts(&update.query, def, &update.alias)?;
                if !update.defaults.is_empty() || select.projection.len() != update.columns.len() {
                    return None;
                }
                let set = |(column, item): (&Ident, &SelectItem)| {
                    let name = name_of(column);
                    let at = def.columns.iter().position(|column| column.name == name)?;
                    Some((at, Expr::of(item_expr(item)?, def, &update.alias)?))
                };
                let sets = update.columns.iter().zip(&select.projection).map(set).collect::<Option<Vec<_>>>()?;
                let key = def.key_columns()?;
                if sets.iter().any(|(at, _)| key.contains(at)) {
                    return None;
                }
                (PointKind::Update, sets, keys)
            }
            Kind::Delete(delete) if delete.returning.is_none() && delete.beside.is_empty() => {
                (PointKind::Delete, Vec::new(), parts(&delete.query, def, &delete.alias)?.1)
            }
            Kind::Query(query) => {
                let (_, alias) = read_by(query)?;
                let (select, keys) = parts(query, def, &alias)?;
                (PointKind::Select(shown(select, def, &alias)?, None), Vec::new(), keys)
            }
            Kind::Locking(locking) => {
                let [lock] = locking.locks.as_slice() else { return None };
                let lock_of = PointLock { is_shared: lock.is_shared, refuses: lock.wait == LockWait::Refuse };
                if lock.wait == LockWait::Skip {
                    return None;
                }
                let (select, keys) = parts(&locking.query, def, &lock.alias)?;
                (PointKind::Select(shown(select, def, &lock.alias)?, Some(lock_of)), Vec::new(), keys)
            }
            _ => return None,
        };
        Some(PointStatement { entry: Arc::clone(entry), coder, kind, sets, keys })
    }

    /// What it does.
    pub fn kind(&self) -> &PointKind {
        &self.kind
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
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        for (place, (name, data_type)) in self.coder.columns().enumerate() {
            let at = *def.key_columns()?.get(place)?;
            let value = |key: &Vec<Expr>| key[place].value(parameters, None).filter(|value| *value != Value::Null);
            let values = self.keys.iter().map(value).collect::<Option<Vec<Value>>>()?;
            columns.push(stored(&def.columns[at], &values)?);
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

    /// Rows, which have all columns in the order of the definition, as an UPDATE makes them; `None` where that is for planning.
    pub fn updated(&self, rows: &RecordBatch, parameters: &[ScalarValue]) -> Option<RecordBatch> {
        let def = &self.entry.def;
        let mut columns = rows.columns().to_vec();
        for (at, expr) in &self.sets {
            let value = |row| expr.value(parameters, Some((def, rows, row)));
            let values = match expr.reads_row() {
                true => (0..rows.num_rows()).map(value).collect::<Option<Vec<_>>>()?,
                false => vec![expr.value(parameters, None)?; rows.num_rows()],
            };
            columns[*at] = stored(&def.columns[*at], &values)?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(self.entry.storage_schema()), columns, &options).ok()
    }
}

/// The SELECT of a query that has nothing but columns, one table and a condition; and the keys that this names.
fn parts<'a>(query: &'a Query, def: &TableDef, alias: &Ident) -> Option<(&'a Select, Vec<Vec<Expr>>)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { args: None, .. } = &from.relation else { return None };
    let condition = select.selection.as_ref()?;
    let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    // Whatever else it has shows in its text.
    if query.to_string() != format!("SELECT {} FROM {from} WHERE {condition}", items.join(", "))
        || !from.joins.is_empty()
    {
        return None;
    }
    let key = def.key_columns()?;
    let mut keys = Vec::new();
    add_keys(condition, def, alias, &key, &mut keys)?;
    (keys.len() <= KEYS_MAX).then_some((select, keys))
}

/// The keys that a condition names, if it names whole keys and nothing else.
fn add_keys(
    condition: &ast::Expr,
    def: &TableDef,
    alias: &Ident,
    key: &[usize],
    keys: &mut Vec<Vec<Expr>>,
) -> Option<()> {
    match condition {
        ast::Expr::Nested(inner) => return add_keys(inner, def, alias, key, keys),
        ast::Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            add_keys(left, def, alias, key, keys)?;
            return add_keys(right, def, alias, key, keys);
        }
        ast::Expr::InList { expr, list, negated: false } => {
            let (at, [only]) = (column_of(expr, def, alias)?, key) else { return None };
            if at != *only {
                return None;
            }
            for value in list {
                keys.push(vec![constant(value, def, alias)?]);
            }
            return Some(());
        }
        _ => {}
    }
    let mut named: Vec<Option<Expr>> = vec![None; key.len()];
    add_equalities(condition, def, alias, key, &mut named)?;
    keys.push(named.into_iter().collect::<Option<Vec<_>>>()?);
    Some(())
}

fn add_equalities(
    condition: &ast::Expr,
    def: &TableDef,
    alias: &Ident,
    key: &[usize],
    named: &mut [Option<Expr>],
) -> Option<()> {
    match condition {
        ast::Expr::Nested(inner) => add_equalities(inner, def, alias, key, named),
        ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            add_equalities(left, def, alias, key, named)?;
            add_equalities(right, def, alias, key, named)
        }
        ast::Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let (column, value) = match (column_of(left, def, alias), column_of(right, def, alias)) {
                (Some(column), None) => (column, right),
                (None, Some(column)) => (column, left),
                _ => return None,
            };
            let place = &mut named[key.iter().position(|&at| at == column)?];
            if place.is_some() {
                return None;
            }
            *place = Some(constant(value, def, alias)?);
            Some(())
        }
        _ => None,
    }
}

/// A constant or a parameter, perhaps negative.
fn constant(expr: &ast::Expr, def: &TableDef, alias: &Ident) -> Option<Expr> {
    let compiled = Expr::of(expr, def, alias)?;
    match &compiled {
        Expr::Constant(_) | Expr::Parameter(_) => Some(compiled),
        Expr::Negated(inner) if matches!(**inner, Expr::Constant(_)) => Some(compiled),
        _ => None,
    }
}

/// Columns of a table that are shown as they are.
fn shown(select: &Select, def: &TableDef, alias: &Ident) -> Option<Vec<(usize, String)>> {
    let item = |item: &SelectItem| {
        let at = column_of(item_expr(item)?, def, alias)?;
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => name_of(alias),
            _ => def.columns[at].name.clone(),
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
