//! The table of a COPY whose files are here and whose table is at a server.
//!
//! Invariant: files are read by the readers of every COPY into the columns of the server's table, and refused in the same words: the
//! [`Destination`](crate::Destination) alone differs.

use alluvia_catalog::TableEntry;
use alluvia_space::PUBLIC_SCHEMA;
use alluvia_syntax::Kind;
use alluvia_syntax::script::parse;
use alluvia_syntax::statements::definitions::{WithOptions, define};
use alluvia_syntax::statements::keys::with_key;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use std::sync::Arc;

/// The columns of a table by its CREATE TABLE, as SHOW CREATE TABLE has it, for [`copy_from`](crate::copy_from). `id` and
/// `changed_at` tell it from others, in the numbers of a load in batches.
pub fn table_elsewhere(create_table: &str, id: TableId, changed_at: Version) -> Result<Arc<TableEntry>> {
    let unknown = || Error::new(ErrorKind::Protocol, "the server's definition of the table was not understood");
    let kind = parse(create_table)?.pop().map(|statement| statement.kind);
    let Some(Kind::CreateTable(create)) = kind else { return Err(unknown()) };
    let mut columns = Vec::with_capacity(create.columns.len());
    for column in create.columns {
        columns.push((column.name, column.column_type.ok_or_else(unknown)?, column.nullable));
    }
    // Dimensions are the server's affair: text comes plain.
    let schema = create.name.schema().unwrap_or(PUBLIC_SCHEMA);
    let def = define(id, (schema, &create.name.name), &columns, &WithOptions::default(), 0)?;
    // Which columns are the key, and no more of it: the codes of keys are the server's affair, too.
    let def = with_key(def, &create.key, None, [0; 2])?;
    Ok(Arc::new(TableEntry::new(Arc::new(def), changed_at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_what_show_create_table_says() {
        let created = "CREATE TABLE \"T\" (\n  a BIGINT NOT NULL,\n  \"order\" TEXT,\n  c VARCHAR(3)\n) WITH (\n  dimensions = 'd(order)'\n)";
        let entry = table_elsewhere(created, TableId(7), Version(9)).unwrap();
        let plain = created.split(" WITH").next().unwrap();
        assert_eq!((entry.def.show_create().as_str(), entry.def.id, entry.changed_at), (plain, TableId(7), Version(9)));
        let keyed = "CREATE TABLE t (\n  a INT,\n  id BIGINT PRIMARY KEY\n)";
        assert_eq!(table_elsewhere(keyed, TableId(7), Version(9)).unwrap().def.key_columns(), Some(vec![1]));
        assert_eq!(table_elsewhere("SELECT 1", TableId(7), Version(9)).unwrap_err().kind(), ErrorKind::Protocol);
    }
}
