//! Bulk ingest: the rows of a DoPut as one atomic batch.
//!
//! Invariants:
//! - A table that is created for rows is created in the batch that brings them: if anything fails there is no table.
//! - What is asked for and not supported (replacing, other options than a producer's number and what rows do by key) is
//!   refused by name, before a row is taken.

use crate::caller::Caller;
use crate::catalog::{CATALOG, INFORMATION, PG_CATALOG, SYSTEM};
use crate::extensions::{ON_CONFLICT, OP, PRODUCER_EPOCH, PRODUCER_NAME, PRODUCER_SEQUENCE};
use crate::failure::{malformed, refused};
use crate::incoming_rows::IncomingRows;
use crate::lane::Lane;
use crate::lane_task::run_in_lane;
use crate::shared::Shared;
use alluvia_query::{Appended, RowPolicy};
use alluvia_syntax::names::{RelationName, TEMPORARY_SCHEMA};
use alluvia_types::{Error, ErrorKind, ProducerMark, Result};
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
    mut rows: IncomingRows,
) -> Result<Appended> {
    let mode = mode(&command)?;
    let mark = mark(&command, mode)?;
    let policy = policy(&command, mode)?;
    let lane = caller.login.lane(command.transaction_id.as_ref())?;
    let schema = command.schema.filter(|name| !name.is_empty());
    let schema = if command.temporary { Some(TEMPORARY_SCHEMA.to_owned()) } else { schema };
    let table = RelationName { schema, name: command.table };
    rows.may_change();
    let work = move |lane: Arc<Lane>| async move {
        let session = &lane.session;
        if let Some(mark) = mark {
            return session.append_numbered_as(table, mark, policy, rows).await;
        }
        if mode == Mode::Append {
            return session.append_stream_as(table, policy, rows).await;
        }
        let schema = rows.schema().await;
        let schema = schema.and_then(|schema| schema.ok_or_else(|| malformed("an ingest came without a schema")));
        // No statement has begun whose error would fail the transaction.
        let schema = schema.inspect_err(|_| session.fail_transaction())?;
        match mode {
            Mode::CreateOrAppend => session.append_creating_as(table, &schema, policy, rows).await,
            _ => session.append_to_new(table, &schema, rows).await,
        }
    };
    run_in_lane(shared, caller, &lane, work).await
}

fn mode(command: &CommandStatementIngest) -> Result<Mode> {
    if let Some(catalog) = command.catalog.as_deref().filter(|name| !name.is_empty() && *name != CATALOG) {
        return Err(Error::new(ErrorKind::UndefinedObject, format!("there is no catalog {catalog}"))
            .with_hint(format!("the one catalog is {CATALOG}, and may be left out")));
    }
    if command.temporary && command.schema.as_deref().is_some_and(|name| !name.is_empty() && name != TEMPORARY_SCHEMA) {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            "cannot create temporary relation in non-temporary schema",
        )
        .with_hint("leave the schema out"));
    }
    if let Some(schema) = command.schema.as_deref().filter(|name| [SYSTEM, PG_CATALOG, INFORMATION].contains(name)) {
        return Err(Error::new(ErrorKind::Forbidden, format!("permission denied for schema {schema}"))
            .with_hint("it is the system's: ingest into a table of another schema"));
    }
    let known = [PRODUCER_NAME, PRODUCER_EPOCH, PRODUCER_SEQUENCE, ON_CONFLICT, OP];
    if let Some(option) = command.options.keys().filter(|option| !known.contains(&option.as_str())).min() {
        let hint = format!("leave it out; the known ones are {}", known.join(", "));
        return Err(refused(&format!("the ingest option {option}"), &hint));
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

/// What rows do by key.
fn policy(command: &CommandStatementIngest, mode: Mode) -> Result<RowPolicy> {
    let option = |name: &str| command.options.get(name).map(String::as_str);
    let policy = RowPolicy::of_options(option(ON_CONFLICT), option(OP))?;
    if mode == Mode::Create && policy != RowPolicy::default() {
        return Err(refused(
            "what rows do by key, of an ingest that creates its table,",
            "create the table first, with a PRIMARY KEY, and append to it",
        ));
    }
    Ok(policy)
}

/// The number that a producer gives the batch.
fn mark(command: &CommandStatementIngest, mode: Mode) -> Result<Option<ProducerMark>> {
    let option = |name: &str| command.options.get(name).map(String::as_str);
    let number = |name: &str| {
        let text = option(name);
        let unreadable = || {
            Error::new(ErrorKind::InvalidSetting, format!("{name} {:?} of an ingest is no number", text.unwrap_or("")))
                .with_hint(format!(
                    "{PRODUCER_SEQUENCE} counts 1, 2, 3, ... and {PRODUCER_EPOCH} is 1 unless it is stated"
                ))
        };
        text.map(|text| text.parse::<u64>().map_err(|_| unreadable())).transpose()
    };
    let (name, epoch, sequence) = (option(PRODUCER_NAME), number(PRODUCER_EPOCH)?, number(PRODUCER_SEQUENCE)?);
    match (name, sequence) {
        (None, None) if epoch.is_none() => Ok(None),
        (Some(name), Some(sequence)) if !name.is_empty() && sequence > 0 => match mode {
            Mode::Append => Ok(Some(ProducerMark { name: name.to_owned(), epoch: epoch.unwrap_or(1), sequence })),
            Mode::Create | Mode::CreateOrAppend => Err(refused(
                "a producer's number of an ingest that may create a table",
                "create the table first, and append to it",
            )),
        },
        _ => Err(malformed("an ingest has a part of a producer's number")
            .with_hint(format!("state {PRODUCER_NAME} and {PRODUCER_SEQUENCE}, from 1 on"))),
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
            (CommandStatementIngest { temporary: true, schema: some("public"), ..right() }, "temporary"),
            (CommandStatementIngest { schema: some("alluvia"), ..right() }, "schema alluvia"),
            (CommandStatementIngest { catalog: some("other"), ..right() }, "catalog other"),
            (CommandStatementIngest { options: [(String::from("o"), String::new())].into(), ..right() }, "option o"),
            (CommandStatementIngest { table: String::new(), ..right() }, "names no table"),
        ] {
            assert!(mode(&wrong).unwrap_err().message().contains(word), "{word}");
        }
    }

    #[test]
    fn what_rows_do_by_key_is_an_option() {
        let of = |options: &[(&str, &str)], mode| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            policy(&CommandStatementIngest { options, ..asked(Missing::Fail, There::Append) }, mode)
        };
        assert_eq!(of(&[], Mode::Create).unwrap(), RowPolicy::default());
        let replace = RowPolicy::of_options(Some("replace"), None).unwrap();
        assert_eq!(of(&[("on_conflict", "replace")], Mode::Append).unwrap(), replace);
        assert_eq!(of(&[("on_conflict", "replace")], Mode::CreateOrAppend).unwrap(), replace);
        assert_eq!(of(&[("op", "delete")], Mode::Create).unwrap_err().kind(), ErrorKind::NotSupported);
        assert_eq!(of(&[("op", "merge")], Mode::Append).unwrap_err().kind(), ErrorKind::InvalidSetting);
    }

    #[test]
    fn a_producers_number_is_whole_or_refused() {
        let asked = |options: &[(&str, &str)], mode: Mode| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            mark(&CommandStatementIngest { options, ..asked(Missing::Fail, There::Append) }, mode)
        };
        assert_eq!(asked(&[], Mode::Create).unwrap(), None);
        let whole = [("producer", "p"), ("producer_sequence", "7")];
        let number = |epoch| Some(ProducerMark { name: "p".to_owned(), epoch, sequence: 7 });
        assert_eq!(asked(&whole, Mode::Append).unwrap(), number(1));
        assert_eq!(asked(&[&whole[..], &[("producer_epoch", "3")][..]].concat(), Mode::Append).unwrap(), number(3));
        for (options, word) in [
            (&whole[..1], "a part of"),
            (&whole[1..], "a part of"),
            (&[("producer_epoch", "1")][..], "a part of"),
            (&[("producer", "p"), ("producer_sequence", "0")][..], "a part of"),
            (&[("producer", "p"), ("producer_sequence", "seven")][..], "\"seven\" of an ingest is no number"),
        ] {
            let error = asked(options, Mode::Append).unwrap_err();
            assert!(error.message().contains(word) && error.hint().is_some(), "{options:?}: {error}");
        }
        assert_eq!(asked(&whole, Mode::CreateOrAppend).unwrap_err().kind(), ErrorKind::NotSupported);
    }
}
