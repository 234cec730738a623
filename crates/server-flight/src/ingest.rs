//! Bulk ingest: the rows of a DoPut as one atomic batch.
//!
//! Invariants:
//! - A table that is created for rows is created in the batch that brings them: if anything fails there is no table.
//! - What is asked for and not supported (temporary tables, replacing, options) is refused by name, before a row is taken.

use crate::arriving::Arriving;
use crate::catalog::{CATALOG, PUBLIC};
use crate::failure::{malformed, refused};
use crate::login::{Caller, Lane};
use crate::server::Shared;
use crate::work::beside;
use alluvia_query::Appended;
use alluvia_types::{Error, ErrorKind, Result};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use std::sync::Arc;

/// What becomes of a table that is there, and of one that is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Create,
    Append,
    CreateOrAppend,
}

/// Takes the rows; gives how many there were, and their batch.
pub(crate) async fn ingest(
    shared: &Arc<Shared>,
    caller: &Arc<Caller>,
    command: CommandStatementIngest,
    mut rows: Arriving,
) -> Result<Appended> {
    let mode = mode(&command)?;
    let lane = caller.login.lane(command.transaction_id.as_ref())?;
    let table = command.table;
    rows.may_change();
    let work = move |lane: Arc<Lane>| async move {
        let session = &lane.session;
        if mode == Mode::Append {
            return session.append_stream(&table, rows).await;
        }
        let schema = rows.schema().await;
        let schema = schema.and_then(|schema| schema.ok_or_else(|| malformed("an ingest came without a schema")));
        // No statement has begun whose error would fail the transaction.
        let schema = schema.inspect_err(|_| session.fail_transaction())?;
        match mode {
            Mode::CreateOrAppend => session.append_creating(&table, &schema, rows).await,
            _ => session.append_to_new(&table, &schema, rows).await,
        }
    };
    beside(shared, caller, &lane, work).await
}

fn mode(command: &CommandStatementIngest) -> Result<Mode> {
    if command.temporary {
        return Err(refused("a temporary table", "ingest into a table of its own name, and drop it at the end"));
    }
    if let Some(catalog) = command.catalog.as_deref().filter(|name| !name.is_empty() && *name != CATALOG) {
        return Err(Error::new(ErrorKind::UndefinedObject, format!("there is no catalog {catalog}"))
            .with_hint(format!("the one catalog is {CATALOG}, and may be left out")));
    }
    if let Some(schema) = command.schema.as_deref().filter(|name| !name.is_empty() && *name != PUBLIC) {
        return Err(Error::new(ErrorKind::UndefinedObject, format!("there is no schema {schema} to ingest into"))
            .with_hint(format!("tables are in {PUBLIC}, which may be left out")));
    }
    if let Some(option) = command.options.keys().min() {
        return Err(refused(&format!("the ingest option {option}"), "leave it out; none is known"));
    }
    if command.table.is_empty() {
        return Err(malformed("an ingest names no table"));
    }
    let options = command.table_definition_options.unwrap_or_default();
    let (missing, there) = (options.if_not_exist(), options.if_exists());
    match (missing, there) {
        (_, TableExistsOption::Replace) => {
            Err(refused("replacing a table by an ingest", "drop it, and ingest with mode create; or append to it"))
        }
        (TableNotExistOption::Create, TableExistsOption::Append) => Ok(Mode::CreateOrAppend),
        (TableNotExistOption::Create, _) => Ok(Mode::Create),
        (_, TableExistsOption::Append | TableExistsOption::Unspecified) => Ok(Mode::Append),
        (_, TableExistsOption::Fail) => {
            Err(malformed("an ingest may neither create a table nor append to one").with_hint("choose one of both"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TableExistsOption as There;
    use TableNotExistOption as Missing;
    use arrow_flight::sql::TableDefinitionOptions;

    fn asked(missing: Missing, there: There) -> CommandStatementIngest {
        let options = TableDefinitionOptions { if_not_exist: missing as i32, if_exists: there as i32 };
        CommandStatementIngest {
            table_definition_options: Some(options),
            table: "t".to_owned(),
            ..CommandStatementIngest::default()
        }
    }

    #[test]
    fn modes_are_those_of_adbc_and_the_rest_is_refused_by_name() {
        for (missing, there, wanted) in [
            (Missing::Create, There::Fail, Some(Mode::Create)),
            (Missing::Create, There::Unspecified, Some(Mode::Create)),
            (Missing::Fail, There::Append, Some(Mode::Append)),
            (Missing::Unspecified, There::Unspecified, Some(Mode::Append)),
            (Missing::Create, There::Append, Some(Mode::CreateOrAppend)),
            (Missing::Create, There::Replace, None),
            (Missing::Fail, There::Fail, None),
        ] {
            assert_eq!(mode(&asked(missing, there)).ok(), wanted, "{missing:?} {there:?}");
        }
        let right = || asked(Missing::Fail, There::Append);
        let some = |name: &str| Some(name.to_owned());
        assert!(mode(&CommandStatementIngest { schema: some("public"), catalog: some("alluvia"), ..right() }).is_ok());
        for (wrong, word) in [
            (CommandStatementIngest { temporary: true, ..right() }, "temporary"),
            (CommandStatementIngest { schema: some("alluvia"), ..right() }, "schema alluvia"),
            (CommandStatementIngest { catalog: some("other"), ..right() }, "catalog other"),
            (CommandStatementIngest { options: [(String::from("o"), String::new())].into(), ..right() }, "option o"),
            (CommandStatementIngest { table: String::new(), ..right() }, "names no table"),
        ] {
            assert!(mode(&wrong).unwrap_err().message().contains(word), "{word}");
        }
    }
}
