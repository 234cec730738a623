//! A constraint that is added to a table that has rows: the query that finds one which breaks it, and what is said of that.

use crate::messages::{key_shown, orphan};
use alluvia_space::keywords::quoted;
use alluvia_space::{ForeignKey, Index, TableDef};
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use arrow::array::RecordBatch;

/// The query of values that several rows have in a unique index: one of them, if there are any.
pub fn duplicates_sql(def: &TableDef, index: &Index) -> Result<String> {
    let names = names(def, &index.columns)?;
    let (listed, there) = (names.join(", "), all_there(&names));
    Ok(format!("SELECT {listed} FROM {} WHERE {there} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1", def.qualified()))
}

/// What is said of a row of that query.
pub fn is_duplicate(def: &TableDef, index: &Index, found: &RecordBatch) -> Result<Error> {
    let key = key_shown(def, &index.columns, found.columns(), 0)?;
    let message = format!("could not create unique index \"{}\"", index.name);
    Ok(Error::new(ErrorKind::UniqueViolation, message).with_detail(format!("Key {key} is duplicated.")))
}

/// The query of values that rows refer by to nothing: one of them, if there are any.
pub fn orphans_sql(def: &TableDef, key: &ForeignKey, parent: &TableDef) -> Result<String> {
    let (own, theirs) = (names(def, &key.columns)?, names(parent, &key.parent_columns)?);
    let own: Vec<String> = own.iter().map(|name| format!("c.{name}")).collect();
    let theirs: Vec<String> = theirs.iter().map(|name| format!("p.{name}")).collect();
    let alike: Vec<String> = own.iter().zip(&theirs).map(|(own, theirs)| format!("{own} = {theirs}")).collect();
    Ok(format!(
        "SELECT {} FROM {} AS c WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {}) LIMIT 1",
        own.join(", "),
        def.qualified(),
        all_there(&own),
        parent.qualified(),
        alike.join(" AND ")
    ))
}

/// What is said of a row of that query.
pub fn is_orphan(def: &TableDef, key: &ForeignKey, parent: &TableDef, found: &RecordBatch) -> Result<Error> {
    orphan((def, key), parent, found.columns(), 0)
}

fn names(def: &TableDef, columns: &[ColumnId]) -> Result<Vec<String>> {
    Ok(def.places(columns)?.into_iter().map(|at| quoted(&def.columns[at].name)).collect())
}

fn all_there(names: &[String]) -> String {
    names.iter().map(|name| format!("{name} IS NOT NULL")).collect::<Vec<_>>().join(" AND ")
}
