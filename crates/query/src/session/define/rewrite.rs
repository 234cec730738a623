//! ALTER TABLE where rows get other values, and where several things change at once.
//!
//! Invariants:
//! - A statement is one atomic change: outside of a transaction it is one by itself, which is begun again where others were in its way.
//! - Rows that are there are changed as UPDATE changes them; none that came meanwhile is left as it was, or COMMIT refuses.
//! - A table that is made anew is whole, and so is what refers to it, in the same batch.

use crate::session::change::existing::{refuse_columns_of_rows, update};
use crate::session::constraints::settle_due;
use crate::session::define::alter::{broken_sql, define_anew, is_broken};
use crate::session::define::constraints::{add_checked, refuse_found};
use crate::session::define::tables::{name_sequences, whole_name};
use crate::session::insert::rows::{hold, mapping, read_all, stream_into};
use crate::session::rules::{check_definition, rules_of};
use crate::session::run::Run;
use crate::session::select::pin::{pin_newest, reference_of};
use crate::session::select::planning::plan_later;
use crate::session::state::scope::Scope;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::submit::{change, submit};
use crate::session::transaction::{begin, commit, rollback};
use alluvia_catalog::alter::columns;
use alluvia_catalog::alter::remake::remake;
use alluvia_catalog::alter::retype::{NewColumn, Retype, Values, carried, converts, refuse_referred, retype};
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::{Change, Needed, RelationName, TableEntry, alter};
use alluvia_constraints::definition::{duplicates_sql, is_duplicate};
use alluvia_snapshot::{NewBatch, RowChange};
use alluvia_space::keywords::quoted;
use alluvia_space::{Column, ColumnType, DataType, TableDef};
use alluvia_syntax::statement::{Access, Isolation, Modes};
use alluvia_syntax::statements::alter::TableChange;
use alluvia_syntax::statements::definitions::ColumnSpec;
use alluvia_syntax::statements::keys::with_key;
use alluvia_syntax::statements::moment_defaults::fix_moments;
use alluvia_syntax::statements::rules::{identity_of, with_rules_of_last};
use alluvia_syntax::{Hints, Kind, parse};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use alluvia_values::errors::not_supported;
use futures::future::BoxFuture;
use std::sync::Arc;

/// How often a statement is begun again that others were in the way of.
const TRIES_MAX: u32 = 10;

/// Changes a table. Gives what is to be told.
pub(super) async fn altering(run: &Arc<Run>, name: &RelationName, change: TableChange) -> Result<Vec<String>> {
    let is_of_several = match &change {
        TableChange::Several(_) | TableChange::SetType { .. } => true,
        TableChange::AddColumn { column, then, .. } => {
            column.default.is_some() || column.identity.is_some() || !column.nullable || !then.is_empty()
        }
        _ => false,
    };
    if !is_of_several || run.scope.in_transaction() {
        return one(run, name, change).await;
    }
    let entry = run.scope.table_for(Need::Ownership, name)?;
    if let TableChange::SetType { column, column_type, using, is_cast } = &change
        && is_made_anew(&entry.def, column, *column_type)?
    {
        let values = (values_of(using.as_ref(), *is_cast), using.clone());
        return set_type(run, &entry, column, *column_type, values).await;
    }
    for tried in 1.. {
        let modes = Modes { access: Some(Access::ReadWrite), isolation: Some(Isolation::ReadCommitted) };
        begin(&run.scope, modes).await?;
        let own = Own(&run.scope);
        let done = match one(run, name, change.clone()).await {
            Ok(notices) => match settle_due(run, true).await {
                Ok(()) => commit(run).await.map(|_| notices),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        drop(own);
        run.unpin();
        match done {
            Err(error) if error.kind() == ErrorKind::Conflict && tried < TRIES_MAX => run.token.check()?,
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                return Err(error.with_hint(
                    "the table has more rows than one statement can give other values: CREATE TABLE ... AS SELECT from it",
                ));
            }
            done => return done,
        }
    }
    Err(Error::internal("an ALTER TABLE came to no end"))
}

/// The transaction of a statement, which leaves nothing behind unless it was committed.
struct Own<'a>(&'a Arc<Scope>);

impl Drop for Own<'_> {
    fn drop(&mut self) {
        // After COMMIT there is none.
        drop(rollback(self.0));
    }
}

/// Makes one change, which may be of several.
fn one<'a>(run: &'a Arc<Run>, name: &'a RelationName, change: TableChange) -> BoxFuture<'a, Result<Vec<String>>> {
    Box::pin(async move {
        let entry = run.scope.table_for(Need::Ownership, name)?;
        match change {
            TableChange::Told(notice) => Ok(vec![notice]),
            TableChange::Several(changes) => each(run, name, changes).await,
            TableChange::SetNotNull(column) => set_not_null(run, &entry, &column).await,
            TableChange::AddKey(columns) => add_key(run, &entry, &columns).await,
            TableChange::AddIdentity { column, identity } => {
                let of = identity_of(&entry.def.name, entry.def.column(&column)?, &identity)?;
                let id = of.column;
                let def = named(run, columns::add_identity(&entry.def, of)?, &entry.def);
                run.engine().sequences().forget(def.id, id);
                self::change(run, vec![Change::AlterTable { def, was: entry.changed_at }]).await?;
                Ok(Vec::new())
            }
            TableChange::SetType { column, column_type, using, is_cast } => {
                let values = values_of(using.as_ref(), is_cast);
                set_type(run, &entry, &column, column_type, (values, using)).await
            }
            TableChange::AddColumn { column, if_not_exists, then } => {
                let is_there = entry.def.columns.iter().any(|known| known.name == column.name);
                let (has_value, sets) = (column.default.is_some() || column.identity.is_some(), !column.nullable);
                if has_value && !(is_there && if_not_exists) {
                    add_filled(run, &entry, &column).await?;
                    return each(run, name, then).await;
                }
                let required = sets.then(|| TableChange::SetNotNull(column.name.clone()));
                let column = Box::new(ColumnSpec { nullable: true, ..*column });
                let added = TableChange::AddColumn { column, if_not_exists, then: Vec::new() };
                let mut notices = define_anew(run, &entry, added).await?;
                if !is_there {
                    notices.extend(each(run, name, required.into_iter().chain(then).collect()).await?);
                }
                Ok(notices)
            }
            change => define_anew(run, &entry, change).await,
        }
    })
}

async fn each(run: &Arc<Run>, name: &RelationName, changes: Vec<TableChange>) -> Result<Vec<String>> {
    let mut notices = Vec::new();
    for change in changes {
        notices.extend(one(run, name, change).await?);
    }
    Ok(notices)
}

/// SET NOT NULL, if no row that is there has NULL.
async fn set_not_null(run: &Arc<Run>, entry: &Arc<TableEntry>, column: &str) -> Result<Vec<String>> {
    if let Some(def) = columns::set_not_null(&entry.def, column)? {
        let altered = vec![Change::AlterTable { def, was: entry.changed_at }];
        add_checked(run, &[entry], &nulls_sql(&entry.def, column), altered, |_| Ok(has_nulls(&entry.def, column)))
            .await?;
    }
    Ok(Vec::new())
}

fn nulls_sql(def: &TableDef, column: &str) -> String {
    format!("SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1", def.qualified(), quoted(column))
}

fn has_nulls(def: &TableDef, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" contains null values", def.name);
    Error::new(ErrorKind::NotNull, message).with_hint(format!(
        "UPDATE {} SET {} = ... first, where it is NULL",
        def.shown(),
        quoted(column)
    ))
}

/// ADD COLUMN of one that has a default, or is numbered: rows that are there get what it gives.
async fn add_filled(run: &Arc<Run>, entry: &Arc<TableEntry>, spec: &ColumnSpec) -> Result<()> {
    let column_type = spec.column_type.ok_or_else(|| Error::internal("a column came without a type"))?;
    let def = alter::add_column(&entry.def, &spec.name, column_type, true)?;
    let mut def = named(run, with_rules_of_last(def, spec)?, &entry.def);
    let id = def.columns.last().map(|column| column.id).ok_or_else(|| Error::internal("a column was lost"))?;
    fix_moments(&mut def, &[id], &run.settings.time_zone)?;
    check_definition(run, &def).await?;
    run.engine().sequences().forget(def.id, id);
    change(run, vec![Change::AlterTable { def: def.clone(), was: entry.changed_at }]).await?;
    fill(run, &def, &spec.name, "DEFAULT").await
}

/// A definition whose new sequences have names that are free.
fn named(run: &Run, mut def: TableDef, before: &TableDef) -> TableDef {
    let known = before.rules.identities.len();
    let mut new = TableDef { rules: Default::default(), ..def.clone() };
    new.rules.identities = def.rules.identities.split_off(known);
    name_sequences(&run.scope, &mut new);
    def.rules.identities.append(&mut new.rules.identities);
    def
}

/// Gives all rows this value of a column, in the open transaction.
async fn fill(run: &Arc<Run>, def: &TableDef, column: &str, value: &str) -> Result<()> {
    run.unpin();
    let version = pin_newest(run, &[reference_of(&whole_name(def))]).await?.version;
    rest_on(run, def.id, version);
    let text = format!("UPDATE {} SET {} = {value}", def.qualified(), quoted(column));
    match parse(&text)?.pop().map(|statement| statement.kind) {
        Some(Kind::Update(statement)) => update(run, &statement).await.map(|_| ()),
        Some(Kind::Refused(error)) => Err(error),
        _ => Err(Error::internal("what gives a column its values is no UPDATE")),
    }
}

/// COMMIT refuses if a row of a table was written since a version.
fn rest_on(run: &Run, table: TableId, version: Version) {
    if let Transaction::Open(open) = &mut run.state().transaction
        && !is_temporary(table)
    {
        open.rests_on(table, version);
    }
}

/// Where the values of a column of another type come from.
fn values_of(using: Option<&String>, is_cast: bool) -> Values {
    match using {
        None => Values::Assigned,
        Some(_) if is_cast => Values::Cast,
        Some(_) => Values::Computed,
    }
}

/// Whether another type of a column makes its table anew in one batch, which holds no rows in memory. Rows of which more than the key
/// must be unique in it are looked at in a transaction.
fn is_made_anew(def: &TableDef, name: &str, wanted: ColumnType) -> Result<bool> {
    let id = def.column(name)?.id;
    Ok(retypes_key(def, name, wanted)? && def.unique_indexes().all(|index| !index.columns.contains(&id)))
}

/// Whether another type of a column is another key.
fn retypes_key(def: &TableDef, name: &str, wanted: ColumnType) -> Result<bool> {
    let column = def.column(name)?;
    let is_key = def.key.as_ref().is_some_and(|key| key.columns.contains(&column.id));
    Ok(is_key && column.data_type != wanted.data_type)
}

/// ALTER COLUMN TYPE.
async fn set_type(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    name: &str,
    wanted: ColumnType,
    (values, using): (Values, Option<String>),
) -> Result<Vec<String>> {
    let column = entry.def.column(name)?;
    let shown = Column { data_type: wanted.data_type, chars_max: wanted.chars_max, ..column.clone() }.sql_type();
    if using.is_none() && !converts(column.data_type, wanted.data_type) {
        let message = format!("column \"{name}\" cannot be cast automatically to type {}", shown.to_lowercase());
        return Err(Error::new(ErrorKind::DatatypeMismatch, message).with_hint(format!(
            "You might need to specify \"USING {}::{}\".",
            quoted(name),
            shown.to_lowercase()
        )));
    }
    refuse_referred(run.scope.resolver()?.catalog(), &entry.def, name, wanted, values)?;
    let value = match using {
        Some(sql) => format!("({sql})"),
        // As it is assigned: what is too long is refused.
        None if matches!(wanted.data_type, DataType::Text | DataType::Char) => format!("{}::text", quoted(name)),
        None => format!("CAST({} AS {shown})", quoted(name)),
    };
    if retypes_key(&entry.def, name, wanted)? {
        let mut def = TableDef::clone(&entry.def);
        for known in def.columns.iter_mut().filter(|known| known.id == column.id) {
            (known.data_type, known.chars_max) = (wanted.data_type, wanted.chars_max);
        }
        def.validate()?;
        check_definition(run, &def).await?;
        let of = |known: &Column| if known.id == column.id { value.clone() } else { quoted(&known.name) };
        let columns: Vec<String> = entry.def.columns.iter().map(of).collect();
        rebuild(run, entry, def, &columns, "another type of a key").await?;
        return Ok(Vec::new());
    }
    match retype(&entry.def, name, wanted, values)? {
        Retype::Definition { to, chars_max } => {
            check_definition(run, &to).await?;
            let altered = vec![Change::AlterTable { def: *to, was: entry.changed_at }];
            match chars_max {
                None => change(run, altered).await?,
                Some(most) => {
                    let (table, column) = (entry.def.qualified(), quoted(name));
                    let sql = format!("SELECT 1 FROM {table} WHERE char_length({column}) > {most} LIMIT 1");
                    let message = format!("value too long for type {}", shown.to_lowercase());
                    let too_long = || Error::new(ErrorKind::TooLong, message.clone()).at(format!("column {name}"));
                    add_checked(run, &[entry], &sql, altered, |_| Ok(too_long())).await?;
                }
            }
        }
        Retype::Column(new) => {
            let read = [Needed::Column(entry.def.id, new.old)];
            if let Some(dependent) = run.scope.resolver()?.catalog().dependents(&read).first() {
                let message = "cannot alter type of a column used by a view or rule";
                let view = dependent.view.def.shown();
                return Err(Error::new(ErrorKind::NotSupported, message)
                    .with_detail(format!("view {view} depends on column \"{name}\""))
                    .with_hint(format!("DROP VIEW {view}, and create it again behind it")));
            }
            check_definition(run, &new.to).await?;
            replace_column(run, entry, &new, &value).await?;
        }
    }
    Ok(Vec::new())
}

/// Puts a column in the place of another, with values that come from that.
async fn replace_column(run: &Arc<Run>, entry: &Arc<TableEntry>, column: &NewColumn, value: &str) -> Result<()> {
    change(run, vec![Change::AlterTable { def: column.between.clone(), was: entry.changed_at }]).await?;
    fill(run, &column.between, &column.name, value).await?;
    let named = whole_name(&entry.def);
    let now = run.scope.table_for(Need::Ownership, &named)?;
    let beside = carried(run.scope.resolver()?.catalog(), column);
    let altered = Change::AlterTable { def: column.to.clone(), was: now.changed_at };
    run.engine().sequences().forget(entry.def.id, column.new);
    change(run, std::iter::once(altered).chain(beside).collect()).await?;
    let (def, now) = (&column.to, run.scope.table_for(Need::Ownership, &named)?);
    run.unpin();
    if let Some(known) = def.column_by_id(column.new).filter(|known| !def.takes_null(known)) {
        refuse_found(run, &[&now], &nulls_sql(def, &known.name), |_| Ok(has_nulls(def, &known.name))).await?;
    }
    for check in def.rules.checks.iter().filter(|check| check.columns.contains(&column.new)) {
        refuse_found(run, &[&now], &broken_sql(def, check), |_| Ok(is_broken(def, check))).await?;
    }
    for index in def.unique_indexes().filter(|index| index.columns.contains(&column.new)) {
        refuse_found(run, &[&now], &duplicates_sql(def, index)?, |row| is_duplicate(def, index, row)).await?;
    }
    Ok(())
}

/// ADD PRIMARY KEY.
async fn add_key(run: &Arc<Run>, entry: &Arc<TableEntry>, key: &[String]) -> Result<Vec<String>> {
    let before = &entry.def;
    if before.key.is_some() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", before.name);
        return Err(Error::new(ErrorKind::InvalidDefinition, message).with_hint("a table has one primary key"));
    }
    let mut def = with_key(TableDef::clone(before), key, None, crate::session::define::tables::secret())?;
    if let Some(key) = def.key.as_ref() {
        def.rules.not_null.retain(|column| !key.columns.contains(column));
    }
    for column in key {
        if before.takes_null(before.column(column)?) {
            refuse_found(run, &[entry], &nulls_sql(before, column), |_| Ok(has_nulls(before, column))).await?;
        }
    }
    let columns: Vec<String> = before.columns.iter().map(|column| quoted(&column.name)).collect();
    rebuild(run, entry, def, &columns, "ADD PRIMARY KEY").await?;
    Ok(Vec::new())
}

/// Makes a table anew with rows that these expressions give of its own.
async fn rebuild(run: &Arc<Run>, entry: &Arc<TableEntry>, def: TableDef, columns: &[String], what: &str) -> Result<()> {
    if is_temporary(entry.def.id) {
        return Err(not_supported(format!("{what} of a temporary table")).with_hint("create it with its key"));
    }
    if run.engine().read().is_remote() {
        return Err(not_supported(format!("{what} on a database of several machines"))
            .with_hint("create the table anew with its key, and INSERT INTO it the rows"));
    }
    let mut def = TableDef { id: run.engine().ingest().new_table_id(), ..def };
    let sql = format!("SELECT {} FROM {}", columns.join(", "), entry.def.qualified());
    let own = entry.def.id;
    def.foreign_keys.iter_mut().filter(|key| key.parent == own).for_each(|key| key.parent = def.id);
    for tried in 1.. {
        run.scope.await_own_writes().await?;
        run.unpin();
        let changes = remake(run.scope.resolver()?.catalog(), entry, &def, what)?;
        match loaded_anew(run, entry, &def, &sql, changes).await {
            Err(error) if error.kind() == ErrorKind::Conflict && tried < TRIES_MAX && !run.scope.in_transaction() => {}
            Err(error) if error.kind() == ErrorKind::UniqueViolation => {
                let message = format!("could not create unique index \"{}_pkey\"", def.name);
                return Err(Error::new(ErrorKind::UniqueViolation, message).with_detail(error.message().to_owned()));
            }
            done => return done,
        }
        run.token.check()?;
    }
    Ok(())
}

async fn loaded_anew(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    def: &TableDef,
    sql: &str,
    changes: Vec<Change>,
) -> Result<()> {
    let query = match parse(sql)?.pop().map(|statement| statement.kind) {
        Some(Kind::Query(query)) => query,
        _ => return Err(Error::internal("what reads a table whole is no query")),
    };
    refuse_columns_of_rows(run, &query, "USING")?;
    let rules = rules_of(run, &Arc::new(TableEntry::new(Arc::new(def.clone()), Version(0)))).await?;
    let snapshot = pin_newest(run, &[reference_of(&whole_name(&entry.def))]).await?;
    let (version, hints) = (snapshot.version, Hints { sample_fraction: Some("1".to_owned()), ..Hints::default() });
    let planned = plan_later(run, query, &snapshot, &hints)?.plan().await?;
    let mapping = mapping(def, &(0..def.columns.len()).collect::<Vec<_>>());
    if !run.state().is_open()? {
        let mut batch = NewBatch { changes, unwritten: vec![(entry.def.id, version)], ..NewBatch::default() };
        // The version is ignored for a table that the same batch creates.
        stream_into(run, &planned, (&Arc::new(def.clone()), Version(0)), &mapping, &rules, &mut batch).await?;
        drop((planned, snapshot));
        return submit(run, batch).await.map(|_| ());
    }
    let rows = read_all(run, &planned, def, &mapping, &rules).await?;
    drop((planned, snapshot));
    rest_on(run, entry.def.id, version);
    change(run, changes).await?;
    let now = run.scope.table_for(Need::Definition, &whole_name(def))?;
    hold(run, &now, RowChange::Insert, rows).await?;
    let (engine, state) = (Arc::clone(run.engine()), Arc::clone(&run.scope.state));
    let taken = run.scope.resolver()?;
    for identity in &now.def.rules.identities {
        // Until COMMIT nobody but the transaction knows of the new table's.
        let through = taken.catalog().taken(now.def.id, identity.column);
        engine.sequences().set(&engine, state.as_ref(), &now, identity, through)?;
    }
    Ok(())
}
