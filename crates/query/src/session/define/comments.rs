//! COMMENT ON, and statements that change nothing here: VACUUM, CREATE INDEX and their like.
//!
//! Invariant: what is named is there, and is the session's to change, before anything is said of it.

use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::state::scope::Scope;
use crate::session::transaction::submit::change;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::{Change, CommentOn, TableEntry};
use alluvia_syntax::names::DATABASE_NAME;
use alluvia_syntax::statement::{Comment, Commented, Idle};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, near_names};
use std::sync::Arc;

/// COMMENT ON.
pub(crate) async fn comment(run: &Arc<Run>, comment: Comment) -> Result<Outcome> {
    let Comment { on, text } = comment;
    let on = commented(&run.scope, on)?;
    change(run, vec![Change::Comment { on, text }]).await?;
    Ok(Outcome::done("COMMENT"))
}

fn commented(scope: &Scope, on: Commented) -> Result<CommentOn> {
    Ok(match on {
        Commented::Table(name) => {
            scope.refuse_view(Need::Ownership, &name)?;
            CommentOn::Table(scope.table_for(Need::Ownership, &name)?.def.id)
        }
        Commented::View(name) => match scope.view(&name)? {
            Some(view) => {
                scope.authoriser().view(Need::Ownership, &view)?;
                CommentOn::Table(view.def.id)
            }
            None => {
                return Err(match scope.table_for(Need::Ownership, &name) {
                    Ok(_) => Error::new(ErrorKind::WrongObject, format!("'{name}' is a table, and no view"))
                        .with_hint(format!("write COMMENT ON TABLE {name}")),
                    Err(error) if error.kind() == ErrorKind::UndefinedTable => {
                        Error::new(ErrorKind::UndefinedTable, format!("there is no view '{name}'"))
                    }
                    Err(error) => error,
                });
            }
        },
        Commented::Column { table, column } => match scope.view(&table)? {
            Some(view) => {
                scope.authoriser().view(Need::Ownership, &view)?;
                let place = view.def.columns.iter().position(|known| known.name == column);
                let undefined =
                    || Error::new(ErrorKind::UndefinedColumn, format!("there is no column {table}.{column}"));
                CommentOn::Column(view.def.id, ColumnId(place.ok_or_else(undefined)? as u32))
            }
            None => {
                let entry = scope.table_for(Need::Ownership, &table)?;
                CommentOn::Column(entry.def.id, column_of(&entry, &column)?)
            }
        },
        Commented::Schema(name) => {
            let authoriser = scope.resolver()?;
            let schema = authoriser.catalog().schema(&name)?.id;
            authoriser.owns_schema(&name, schema)?;
            CommentOn::Schema(schema)
        }
        Commented::Database(name) if name == DATABASE_NAME => {
            scope.authoriser().superuser("comment on the database")?;
            CommentOn::Database
        }
        Commented::Database(name) => {
            return Err(Error::new(ErrorKind::UndefinedDatabase, format!("there is no database {name}"))
                .with_hint(format!("it is {DATABASE_NAME}")));
        }
    })
}

fn column_of(entry: &TableEntry, name: &str) -> Result<ColumnId> {
    if let Some(column) = entry.def.columns.iter().find(|column| column.name == name) {
        return Ok(column.id);
    }
    let error = Error::new(ErrorKind::UndefinedColumn, format!("there is no column {}.{name}", entry.def.name));
    let near = near_names(name, entry.def.columns.iter().map(|column| column.name.as_str()));
    Err(match near.as_slice() {
        [] => error,
        near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// VACUUM, ANALYZE, CLUSTER, REINDEX, CREATE INDEX.
pub(crate) fn idle(scope: &Scope, idle: &Idle) -> Result<Outcome> {
    if idle.is_alone && scope.in_transaction() {
        let message = format!("{} cannot run inside a transaction block", idle.command);
        return Err(Error::new(ErrorKind::Transaction, message).with_hint("COMMIT or ROLLBACK first"));
    }
    let need = if idle.command == "CREATE INDEX" { Need::Ownership } else { Need::Definition };
    for named in &idle.tables {
        let entry = scope.table_for(need, &named.table)?;
        named.columns.iter().try_for_each(|column| column_of(&entry, column).map(|_| ()))?;
    }
    Ok(Outcome::done(idle.command).with_notice(idle.notice.clone()))
}
