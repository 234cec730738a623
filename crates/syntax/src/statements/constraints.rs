//! UNIQUE, REFERENCES and FOREIGN KEY: from the parser's trees to what a definition keeps.
//!
//! Invariants:
//! - What is accepted is kept, and what is kept is checked: every clause that would mean something else is refused by name.
//! - What has no name gets the one that PostgreSQL would give it.

use crate::names::{name_of, parts_of, user_table};
use crate::statement::SetConstraints;
use crate::statements::parse::syntax;
use crate::statements::roles::{one_of, word};
use crate::statements::rules::free_name;
use alluvia_catalog::RelationName;
use alluvia_space::{Action, ForeignKey, Index, TableDef};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial, Expr, ForeignKeyConstraint, Ident,
    IndexColumn, KeyOrIndexDisplay, NullsDistinctOption, ReferentialAction, UniqueConstraint,
};
use sqlparser::parser::Parser;

/// A UNIQUE as it is declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UniqueSpec {
    /// Its name; `None` if none is written.
    pub name: Option<String>,
    /// The columns.
    pub columns: Vec<String>,
}

/// A REFERENCES as it is declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKeySpec {
    /// Its name; `None` if none is written.
    pub name: Option<String>,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that is referred to.
    pub parent: RelationName,
    /// Its columns; empty for its primary key.
    pub parent_columns: Vec<String>,
    /// ON DELETE.
    pub on_delete: Action,
    /// ON UPDATE.
    pub on_update: Action,
    /// DEFERRABLE.
    pub deferrable: bool,
    /// INITIALLY DEFERRED.
    pub initially_deferred: bool,
}

/// A UNIQUE that stands beside a column, or among a table's; `name` is what it is called, if it is.
pub(crate) fn unique_spec(
    constraint: &UniqueConstraint,
    name: Option<&Ident>,
    beside: Option<&str>,
) -> Result<UniqueSpec> {
    let characteristics = constraint.characteristics;
    let clauses = [
        (constraint.nulls_distinct == NullsDistinctOption::NotDistinct, "NULLS NOT DISTINCT of UNIQUE"),
        (
            constraint.index_name.is_some()
                || constraint.index_type.is_some()
                || constraint.index_type_display != KeyOrIndexDisplay::None
                || !constraint.index_options.is_empty(),
            "an index in UNIQUE",
        ),
        (
            characteristics.is_some_and(|said| said.deferrable == Some(true) || is_deferred(said)),
            "DEFERRABLE of UNIQUE",
        ),
        (characteristics.is_some_and(|said| said.enforced == Some(false)), "NOT ENFORCED of UNIQUE"),
    ];
    if let Some((_, clause)) = clauses.iter().find(|(found, _)| *found) {
        return Err(not_supported(clause).with_hint("write UNIQUE (a, b): it is checked when each statement ends"));
    }
    let name = name.or(constraint.name.as_ref()).map(name_of);
    let columns = match beside {
        Some(column) => vec![column.to_owned()],
        None => constraint.columns.iter().map(unique_column).collect::<Result<_>>()?,
    };
    Ok(UniqueSpec { name, columns })
}

fn unique_column(column: &IndexColumn) -> Result<String> {
    match &column.column.expr {
        Expr::Identifier(ident) if column.operator_class.is_none() => Ok(name_of(ident)),
        _ => Err(not_supported(format!("{column} in UNIQUE")).with_hint("it is made of columns")),
    }
}

fn is_deferred(said: ConstraintCharacteristics) -> bool {
    said.initially == Some(DeferrableInitial::Deferred)
}

/// A REFERENCES that stands beside a column, or a FOREIGN KEY among a table's.
pub(crate) fn foreign_key_spec(
    constraint: &ForeignKeyConstraint,
    name: Option<&Ident>,
    beside: Option<&str>,
) -> Result<ForeignKeySpec> {
    match &constraint.match_kind {
        None | Some(ConstraintReferenceMatchKind::Simple) => {}
        Some(other) => {
            return Err(not_supported(format!("{other} of a foreign key"))
                .with_hint("leave it out, and declare columns NOT NULL that must refer to something"));
        }
    }
    if constraint.index_name.is_some() {
        return Err(not_supported("an index in FOREIGN KEY").with_hint("CREATE INDEX makes one"));
    }
    let said = constraint.characteristics;
    if said.is_some_and(|said| said.enforced == Some(false)) {
        return Err(not_supported("NOT ENFORCED of a foreign key")
            .with_hint("leave it out: what a foreign key says is checked"));
    }
    let initially_deferred = said.is_some_and(is_deferred);
    let deferrable = said.and_then(|said| said.deferrable);
    if initially_deferred && deferrable == Some(false) {
        let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(Error::new(ErrorKind::Syntax, message).with_hint("leave NOT DEFERRABLE out"));
    }
    let columns = match beside {
        Some(column) => vec![column.to_owned()],
        None => constraint.columns.iter().map(name_of).collect(),
    };
    Ok(ForeignKeySpec {
        name: name.or(constraint.name.as_ref()).map(name_of),
        columns,
        parent: user_table(&constraint.foreign_table)?,
        parent_columns: constraint.referred_columns.iter().map(name_of).collect(),
        on_delete: constraint.on_delete.map(action).unwrap_or_default(),
        on_update: constraint.on_update.map(action).unwrap_or_default(),
        deferrable: deferrable.unwrap_or(initially_deferred),
        initially_deferred,
    })
}

fn action(action: ReferentialAction) -> Action {
    match action {
        ReferentialAction::NoAction => Action::NoAction,
        ReferentialAction::Restrict => Action::Restrict,
        ReferentialAction::Cascade => Action::Cascade,
        ReferentialAction::SetNull => Action::SetNull,
        ReferentialAction::SetDefault => Action::SetDefault,
    }
}

/// `SET CONSTRAINTS { ALL | names } { DEFERRED | IMMEDIATE }`.
pub(crate) fn parse_set_constraints(parser: &mut Parser<'_>) -> Result<SetConstraints> {
    parser.next_token();
    parser.next_token();
    let names = match word(parser, "ALL") {
        true => None,
        false => {
            let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(syntax)?;
            let last = |name| parts_of(name).map(|mut parts| parts.pop().unwrap_or_default());
            Some(names.iter().map(last).collect::<Result<Vec<String>>>()?)
        }
    };
    match one_of(parser, &["DEFERRED", "IMMEDIATE"]) {
        Some(said) => Ok(SetConstraints { names, deferred: said == "DEFERRED" }),
        None => Err(Error::new(ErrorKind::Syntax, "SET CONSTRAINTS needs DEFERRED or IMMEDIATE behind it")
            .with_hint("write SET CONSTRAINTS ALL DEFERRED")),
    }
}

/// The index that a UNIQUE is; `is_free` tells whether no other relation of its schema is called so.
pub fn unique_of(def: &TableDef, spec: &UniqueSpec, is_free: impl Fn(&str) -> bool) -> Result<Index> {
    Ok(Index { is_constraint: true, ..index_of(def, (&spec.name, &spec.columns, "key"), true, is_free)? })
}

/// An index on columns of these names, called as it is written or as PostgreSQL would call it.
pub fn index_of(
    def: &TableDef,
    (name, columns, label): (&Option<String>, &[String], &str),
    unique: bool,
    is_free: impl Fn(&str) -> bool,
) -> Result<Index> {
    let ids = columns.iter().map(|name| def.column(name).map(|column| column.id)).collect::<Result<Vec<_>>>()?;
    let name = match name {
        Some(name) => name.clone(),
        None => free_name(&made_name(&def.name, &columns.join("_"), label), |name| {
            is_free(name) && !def.has_constraint(name)
        }),
    };
    Ok(Index { name, columns: ids, unique, is_constraint: false })
}

/// The foreign key of a table, which refers to `parent`.
pub fn foreign_key_of(def: &TableDef, spec: &ForeignKeySpec, parent: &TableDef) -> Result<ForeignKey> {
    let ids = |def: &TableDef, names: &[String]| {
        names.iter().map(|name| def.column(name).map(|column| column.id)).collect::<Result<Vec<_>>>()
    };
    let columns = ids(def, &spec.columns)?;
    let parent_columns = match (spec.parent_columns.as_slice(), &parent.key) {
        ([], Some(key)) => key.columns.clone(),
        ([], None) => {
            let message = format!("there is no primary key for referenced table \"{}\"", parent.name);
            return Err(Error::new(ErrorKind::UndefinedObject, message)
                .with_hint("name the columns of a unique constraint: REFERENCES p (a)"));
        }
        (named, _) => ids(parent, named)?,
    };
    if columns.len() != parent_columns.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(Error::new(ErrorKind::InvalidForeignKey, message));
    }
    if parent.key_of_columns(&parent_columns).is_none() {
        let message =
            format!("there is no unique constraint matching given keys for referenced table \"{}\"", parent.name);
        return Err(Error::new(ErrorKind::InvalidForeignKey, message).with_hint(format!(
            "ALTER TABLE {} ADD CONSTRAINT name UNIQUE ({})",
            parent.shown(),
            parent.listed(&parent_columns)
        )));
    }
    let name = match &spec.name {
        Some(name) => name.clone(),
        None => free_name(&made_name(&def.name, &spec.columns.join("_"), "fkey"), |name| !def.has_constraint(name)),
    };
    for (column, referred) in columns.iter().zip(&parent_columns) {
        let (Some(column), Some(referred)) = (def.column_by_id(*column), parent.column_by_id(*referred)) else {
            return Err(Error::internal("a foreign key is of columns that are not there"));
        };
        let are_alike = column.data_type == referred.data_type
            || column.data_type.is_whole_number() && referred.data_type.is_whole_number()
            || column.data_type.is_text() && referred.data_type.is_text();
        if !are_alike {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            return Err(Error::new(ErrorKind::DatatypeMismatch, message).with_detail(format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                column.name,
                referred.name,
                column.sql_type().to_lowercase(),
                referred.sql_type().to_lowercase()
            )));
        }
    }
    Ok(ForeignKey {
        name,
        columns,
        parent: parent.id,
        parent_columns,
        on_delete: spec.on_delete,
        on_update: spec.on_update,
        deferrable: spec.deferrable,
        initially_deferred: spec.initially_deferred,
    })
}

/// Bytes of a name in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// `table_columns_label`, as PostgreSQL shortens it: of the longer one of table and columns first.
fn made_name(table: &str, columns: &str, label: &str) -> String {
    let room = NAME_BYTES_MAX.saturating_sub(label.len() + 2);
    let (mut table, mut columns) = (table, columns);
    while table.len() + columns.len() > room {
        let longer = if table.len() > columns.len() { &mut table } else { &mut columns };
        let Some((end, _)) = longer.char_indices().next_back() else { break };
        *longer = &longer[..end];
    }
    format!("{table}_{columns}_{label}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_as_postgresql_makes_them() {
        assert_eq!(made_name("t", "a_b", "key"), "t_a_b_key");
        let long = made_name(&"t".repeat(60), &"c".repeat(40), "fkey");
        assert_eq!((long.len(), long.as_str()), (63, format!("{}_{}_fkey", "t".repeat(29), "c".repeat(28)).as_str()));
    }
}
