//! ALTER TABLE: from one definition of a table to the next.
//!
//! Invariants:
//! - Two columns that the table ever had never share a storage name, so files written before a column was dropped never
//!   show through under a column added later.
//! - A level keeps its column, and so does a key: what a dimension or the primary key is made of cannot be dropped. Renaming
//!   changes neither, since both name columns by their ids.
//!
//! A definition does not remember dropped columns; their number shows in `next_column_id`. So a column added after any
//! was dropped is stored as `name~id`, and ids skip whatever number a dropped column's own name ended in.

pub mod columns;
pub mod remake;
pub mod retype;

use alluvia_space::dimensions::level_name;
use alluvia_space::keywords::quoted;
use alluvia_space::{
    Check, Column, ColumnDefault, ColumnType, ForeignKey, Identity, IdentityKind, Index, TableDef, TableOptions,
};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, near_names};

/// ALTER TABLE ADD COLUMN. Rows that exist have NULL in it, so it must be `nullable`; that it is never NULL is for a rule to say.
pub fn add_column(
    table: &TableDef,
    name: &str,
    column_type: impl Into<ColumnType>,
    nullable: bool,
) -> Result<TableDef> {
    check_name(table, name)?;
    if !nullable {
        return Err(Error::new(
            ErrorKind::NotSupported,
            format!(
                "column '{name}' cannot be added as NOT NULL: in rows that table '{}' has, it would be NULL",
                table.name
            ),
        )
        .with_hint("add it without NOT NULL, or create the table anew with CREATE TABLE ... AS"));
    }
    let mut table = table.clone();
    let none_dropped = table.next_column_id as usize == table.columns.len();
    let taken = |storage_name: &str| table.columns.iter().any(|column| column.storage_name == storage_name);
    let mut id = table.next_column_id;
    let mut storage_name = name.to_owned();
    if !none_dropped || number_at_end(name).is_some() || taken(name) {
        storage_name = format!("{name}~{id}");
        while taken(&storage_name) {
            id = next_id(&table, id)?;
            storage_name = format!("{name}~{id}");
        }
    }
    table.next_column_id = next_id(&table, id)?;
    let (id, name) = (ColumnId(id), name.to_owned());
    let ColumnType { data_type, chars_max } = column_type.into();
    table.columns.push(Column { id, name, storage_name, data_type, nullable, chars_max });
    table.validate()?;
    Ok(table)
}

/// ALTER TABLE DROP COLUMN. Refused for the column of a level or of the key, and for the last one; a measure ceases to be one.
pub fn drop_column(table: &TableDef, name: &str) -> Result<TableDef> {
    let column = table.column(name)?;
    let id = column.id;
    if let Some(dimension) =
        table.dimensions.iter().find(|path| path.levels.iter().any(|level| level.source.column() == id))
    {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("column '{name}' of table '{}' is part of dimension '{}'", table.name, dimension.name),
        )
        .with_hint("dimensions stay as they were created; create the table anew with CREATE TABLE ... AS"));
    }
    if let Some(key) = table.key.as_ref().filter(|key| key.columns.contains(&id)) {
        let names: Vec<&str> =
            key.columns.iter().filter_map(|&id| Some(table.column_by_id(id)?.name.as_str())).collect();
        let names = names.join(", ");
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("column '{name}' of table '{}' is part of its primary key ({names})", table.name),
        )
        .with_hint("a key stays as it was created; create the table anew with another one"));
    }
    // A condition of it alone goes with it.
    if let Some(check) = table.rules.checks.iter().find(|check| check.columns.len() > 1 && check.columns.contains(&id))
    {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("column '{name}' of table '{}' is part of its constraint {}", table.name, check.name),
        )
        .with_hint(format!(
            "ALTER TABLE {} DROP CONSTRAINT {} first",
            quoted(&table.name),
            quoted(&check.name)
        )));
    }
    if table.columns.len() == 1 {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("column '{name}' is the only one of table '{}'", table.name),
        )
        .with_hint("drop the table instead"));
    }
    let mut table = table.clone();
    pass_number_of(&mut table, &column.storage_name)?;
    table.columns.retain(|column| column.id != id);
    table.measures.retain(|measure| *measure != id);
    table.rules.defaults.retain(|default| default.column != id);
    table.rules.identities.retain(|identity| identity.column != id);
    table.rules.not_null.retain(|known| *known != id);
    // An index goes with any of its columns, and so does what these refer to.
    table.rules.checks.retain(|check| !check.columns.contains(&id));
    table.indexes.retain(|index| !index.columns.contains(&id));
    let of_itself = table.id;
    let is_of =
        |key: &ForeignKey| key.columns.contains(&id) || key.parent == of_itself && key.parent_columns.contains(&id);
    table.foreign_keys.retain(|key| !is_of(key));
    Ok(table)
}

/// ALTER TABLE RENAME COLUMN. Levels named after the column are renamed with it. What conditions say of it, `in_sql`
/// writes by its new name.
pub fn rename_column(
    table: &TableDef,
    from: &str,
    to: &str,
    in_sql: impl Fn(&str) -> Result<String>,
) -> Result<TableDef> {
    let id = table.column(from)?.id;
    if from == to {
        return Ok(table.clone());
    }
    check_name(table, to)?;
    let mut table = table.clone();
    for column in table.columns.iter_mut().filter(|column| column.id == id) {
        column.name = to.to_owned();
    }
    for check in table.rules.checks.iter_mut().filter(|check| check.columns.contains(&id)) {
        check.sql = in_sql(&check.sql)?;
    }
    for level in table.dimensions.iter_mut().flat_map(|dimension| &mut dimension.levels) {
        if level.source.column() == id {
            level.name = level_name(&level.source, &table.columns);
        }
    }
    table.validate()?;
    Ok(table)
}

/// ALTER TABLE ALTER COLUMN SET DEFAULT, or DROP DEFAULT without an expression.
pub fn set_default(table: &TableDef, name: &str, sql: Option<String>) -> Result<TableDef> {
    let id = table.column(name)?.id;
    let mut table = table.clone();
    // In PostgreSQL the sequence of a SERIAL is no more than its default.
    let is_default = |identity: &Identity| identity.column == id && identity.kind == IdentityKind::Serial;
    if sql.is_none() {
        table.rules.identities.retain(|identity| !is_default(identity));
    }
    if table.identity_of(id).is_some() {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("column '{name}' of table '{}' is an identity column", table.name),
        )
        .with_hint("its sequence gives its values; ALTER COLUMN ... DROP IDENTITY ends that"));
    }
    table.rules.defaults.retain(|default| default.column != id);
    table.rules.defaults.extend(sql.map(|sql| ColumnDefault { column: id, sql }));
    table.validate()?;
    Ok(table)
}

/// ALTER TABLE ADD CONSTRAINT CHECK. Whether it holds for the rows that are there is for the caller to know.
pub fn add_check(table: &TableDef, check: Check) -> Result<TableDef> {
    let mut table = table.clone();
    table.rules.checks.push(check);
    table.validate()?;
    Ok(table)
}

/// CREATE INDEX, or ALTER TABLE ADD CONSTRAINT UNIQUE. Whether its name is free, and whether rows that are there are unique, is for the
/// caller to know.
pub fn add_index(table: &TableDef, index: Index) -> Result<TableDef> {
    let mut table = table.clone();
    table.indexes.push(index);
    table.validate()?;
    Ok(table)
}

/// DROP INDEX.
pub fn drop_index(table: &TableDef, name: &str) -> TableDef {
    let mut table = table.clone();
    table.indexes.retain(|index| index.name != name);
    table
}

/// ALTER TABLE ADD CONSTRAINT FOREIGN KEY. Whether its parent has such a key, and whether it holds, is for the caller to know.
pub fn add_foreign_key(table: &TableDef, key: ForeignKey) -> Result<TableDef> {
    let mut table = table.clone();
    table.foreign_keys.push(key);
    table.validate()?;
    Ok(table)
}

/// ALTER TABLE DROP CONSTRAINT: a condition, UNIQUE or a foreign key.
pub fn drop_constraint(table: &TableDef, name: &str) -> Result<TableDef> {
    let mut table = table.clone();
    let count = |table: &TableDef| table.rules.checks.len() + table.indexes.len() + table.foreign_keys.len();
    let before = count(&table);
    table.rules.checks.retain(|check| check.name != name);
    table.indexes.retain(|index| !index.is_constraint || index.name != name);
    table.foreign_keys.retain(|key| key.name != name);
    if count(&table) < before {
        return Ok(table);
    }
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    let indexes = table.indexes.iter().filter(|index| index.is_constraint).map(|index| index.name.as_str());
    let names = table.rules.checks.iter().map(|check| check.name.as_str()).chain(indexes);
    let near = near_names(name, names.chain(table.foreign_keys.iter().map(|key| key.name.as_str())));
    Err(Error::new(ErrorKind::UndefinedObject, message).with_hint(match near.as_slice() {
        [] => format!("SHOW CREATE TABLE {} tells its constraints", quoted(&table.name)),
        near => format!("did you mean {}?", near.join(" or ")),
    }))
}

/// ALTER TABLE RENAME TO. Whether the name is free is known when the change is applied.
pub fn rename_table(table: &TableDef, to: &str) -> Result<TableDef> {
    let table = TableDef { name: to.to_owned(), ..table.clone() };
    table.validate()?;
    Ok(table)
}

/// ALTER TABLE SET. The curve orders the rows in files, so it stays.
pub fn set_options(table: &TableDef, options: TableOptions) -> Result<TableDef> {
    if options.curve != table.options.curve {
        return Err(Error::new(
            ErrorKind::NotSupported,
            format!("the curve of table '{}' cannot be changed", table.name),
        )
        .with_hint("create the table anew with CREATE TABLE ... WITH (curve = '...') AS SELECT"));
    }
    if options.placement != table.options.placement {
        let what = format!("the placement of table '{}' cannot be changed", table.name);
        return Err(Error::new(ErrorKind::NotSupported, what).with_hint("copy its rows into a new table"));
    }
    Ok(TableDef { options, ..table.clone() })
}

/// Other rules of names are kept by [`TableDef::validate`].
fn check_name(table: &TableDef, name: &str) -> Result<()> {
    if table.columns.iter().any(|column| column.name == name) {
        return Err(Error::new(
            ErrorKind::DuplicateColumn,
            format!("table '{}' already has a column '{name}'", table.name),
        ));
    }
    Ok(())
}

/// Before a column goes: one that the user named "a~7" must not come back as column 7, when that is called "a".
fn pass_number_of(table: &mut TableDef, storage_name: &str) -> Result<()> {
    if let Some(number) = number_at_end(storage_name).filter(|&number| number >= table.next_column_id) {
        table.next_column_id = next_id(table, number)?;
    }
    Ok(())
}

/// The `N` of a name that ends in `~N`.
fn number_at_end(name: &str) -> Option<u32> {
    let (_, number) = name.rsplit_once('~')?;
    number.parse().ok()
}

fn next_id(table: &TableDef, id: u32) -> Result<u32> {
    id.checked_add(1).ok_or_else(|| {
        Error::new(ErrorKind::InvalidDefinition, format!("table '{}' has used up its column ids", table.name))
            .with_hint("create the table anew with CREATE TABLE ... AS")
    })
}
