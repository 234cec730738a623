//! CREATE, DROP and ALTER TABLE.
//!
//! A change is checked against the newest visible definitions and committed as a batch, or added to the open
//! transaction's; if another session changed the same table in between, the batch is refused with `Conflict` and
//! nothing has happened.

use crate::engine::Engine;
use crate::errors::from_datafusion;
use crate::errors::signatures::sql_name;
use crate::result_names::named_schema;
use crate::session::define::constraints::{add_foreign_key, add_unique, parents_anew, with_constraints, without_keys};
use crate::session::define::roles::give;
use crate::session::define::views::alter_as_table;
use crate::session::insert::rows::{hold, hold_query, mapping, read_all, stream_into};
use crate::session::rules::check_definition;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::{pin_newest, reference_of};
use crate::session::select::planning::{plan, plan_later};
use crate::session::state::scope::Scope;
use crate::session::transaction::submit::{change, submit};
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::dependents::{Dependents, dependents};
use alluvia_catalog::rights::{BOOTSTRAP, Object, Privilege, RightsChange};
use alluvia_catalog::{
    Catalog, Change, INFORMATION_SCHEMA, Needed, PG_CATALOG, RelationName, SYSTEM_SCHEMA, SearchPath, TEMPORARY_SCHEMA,
    TableEntry, alter,
};
use alluvia_change::conflict::key_name;
use alluvia_snapshot::{NewBatch, RowChange};
use alluvia_space::data_type::chars_of;
use alluvia_space::keywords::quoted;
use alluvia_space::{Check, Column, ColumnType, DataType, Ladder, RowStore, TableDef};
use alluvia_syntax::statements::definitions::{
    AlterTable, CreateTable, OnCommit, TableChange, WithOptions, checked_freshness, define,
};
use alluvia_syntax::statements::keys::{with_key, with_on_conflict};
use alluvia_syntax::statements::moment_defaults::fix_moments;
use alluvia_syntax::statements::rules::{check_of, free_name, renamed, with_rules};
use alluvia_syntax::{Hints, Kind, parse};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use alluvia_values::errors::not_supported;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use futures::StreamExt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// CREATE TABLE, with or without AS.
pub(crate) async fn create_table(run: &Arc<Run>, create: CreateTable, hints: &Hints) -> Result<Outcome> {
    let schema = schema_of_new(&run.scope, &create.name)?;
    let name = (schema.as_str(), create.name.name.as_str());
    if run.scope.resolver()?.catalog().id_in_schema(name.0, name.1).is_some() {
        if create.if_not_exists {
            let notice = format!("table '{}' exists already, and is left as it is", create.name.name);
            return Ok(Outcome::done("CREATE TABLE").with_notice(notice));
        }
        return Err(Error::new(ErrorKind::DuplicateTable, format!("table '{}' already exists", create.name.name))
            .with_hint("choose another name, drop the table first, or write CREATE TABLE IF NOT EXISTS"));
    }
    if create.with.placement.is_some() && create.temporary.is_none() && !run.engine().read().is_remote() {
        return Err(not_supported("placement of a table in a database of one process")
            .with_hint("its rows are all here; a database on several machines is made by `alluvia node`"));
    }
    let id = match create.temporary {
        Some(_) => run.new_temporary_id()?,
        None => run.engine().ingest().new_table_id(),
    };
    let seed = seed(run.engine(), id);
    let (with, notice) = match create.temporary {
        Some(_) => of_temporary(create.with),
        None => (create.with, None),
    };
    let unlogged = "UNLOGGED changes nothing here: the table is kept as others are";
    let notices = notice.into_iter().chain(create.is_unlogged.then(|| unlogged.to_owned()));
    let told = |outcome: Outcome| notices.fold(outcome, Outcome::with_notice);
    let Some(query) = create.query else {
        let columns = create.columns.iter().map(|column| match column.column_type {
            Some(column_type) => Ok((column.name.clone(), column_type, column.nullable)),
            None => Err(Error::internal(format!("column {} came without a type", column.name))),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let def = define(id, name, &columns, &with, seed)?;
        let def = with_key(def, &create.key, with.on_conflict.as_deref(), secret())?;
        let mut def = with_rules(def, &create.columns, &create.checks)?;
        let all: Vec<ColumnId> = def.columns.iter().map(|column| column.id).collect();
        fix_moments(&mut def, &all, &run.settings.time_zone)?;
        name_sequences(&run.scope, &mut def);
        check_definition(run, &def).await?;
        let def = with_constraints(run, def, &create.uniques, &create.foreign_keys)?;
        match create.temporary {
            Some(on_commit) => create_temporary(run, def, on_commit)?,
            None => {
                let parents = parents_anew(run, &def, None)?;
                change(run, creating(&run.scope, def)?.into_iter().chain(parents).collect()).await?;
            }
        }
        return Ok(told(Outcome::done("CREATE TABLE")));
    };
    let planned = plan(run, query, hints).await?;
    let names: Vec<String> = create.columns.into_iter().map(|column| column.name).collect();
    let columns = columns_of(&named_schema(&planned.schema(), run.names.get().map(AsRef::as_ref)), &names)?;
    let def = define(id, name, &columns, &with, seed)?;
    let def = with_key(def, &create.key, with.on_conflict.as_deref(), secret())?;
    let all: Vec<usize> = (0..def.columns.len()).collect();
    let mapping = mapping(&def, &all);
    if let Some(on_commit) = create.temporary {
        let name = whole_name(&def);
        create_temporary(run, def, on_commit)?;
        let entry = run.scope.table_for(Need::Definition, &name)?;
        let (rows, _) = hold_query(run, &planned, &entry, RowChange::Insert, &mapping, &None).await?;
        return Ok(told(Outcome::done(format!("SELECT {rows}")).with_used(planned.used())));
    }
    if run.state().is_open()? {
        let rows = read_all(run, &planned, &def, &mapping, &None).await?;
        let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
        run.progress.add_rows(count as u64);
        create_with(run, def, rows).await?;
        return Ok(told(Outcome::done(format!("SELECT {count}")).with_used(planned.used())));
    }
    let mut batch = NewBatch { changes: creating(&run.scope, def.clone())?, ..NewBatch::default() };
    // The version is ignored for a table that the same batch creates.
    let rows = stream_into(run, &planned, (&Arc::new(def), Version(0)), &mapping, &None, &mut batch).await?;
    let used = planned.used();
    drop(planned);
    submit(run, batch).await?;
    Ok(told(Outcome::done(format!("SELECT {rows}")).with_used(used)))
}

/// Adds a temporary table to the session.
pub(crate) fn create_temporary(run: &Run, def: TableDef, on_commit: OnCommit) -> Result<()> {
    let owner = run.scope.authoriser().role()?;
    let version = run.engine().waiting_version();
    run.state().temporary_to_change()?.create(def, version, owner, on_commit);
    Ok(())
}

/// What is said of a table, as far as it means anything for a temporary one: no index is made of it. What means nothing is told.
fn of_temporary(with: WithOptions) -> (WithOptions, Option<String>) {
    let kept = WithOptions { on_conflict: with.on_conflict.clone(), ..WithOptions::default() };
    let notice = (with != kept).then(|| "a temporary table has no dimensions, and its options mean nothing".to_owned());
    (kept, notice)
}

/// Adds a new table and its rows to the open transaction.
pub(crate) async fn create_with(run: &Run, def: TableDef, rows: Vec<RecordBatch>) -> Result<()> {
    let name = RelationName::in_schema(def.schema.as_str(), def.name.as_str());
    change(run, creating(&run.scope, def)?).await?;
    hold(run, &run.scope.table_for(Need::Definition, &name)?, RowChange::Insert, rows).await.map(|_| ())
}

/// A new table, which is whose it is that makes it.
pub(crate) fn creating(scope: &Scope, def: TableDef) -> Result<Vec<Change>> {
    let (table, owner) = (def.id, scope.authoriser().role()?);
    let mut changes = vec![Change::CreateTable { def }];
    if owner != BOOTSTRAP {
        changes.push(Change::Rights { change: RightsChange::Own { table, owner } });
    }
    Ok(changes)
}

/// Gives the sequences of a new table names that no other has, nor a table.
fn name_sequences(scope: &Scope, def: &mut TableDef) {
    let authoriser = scope.authoriser();
    let catalog = authoriser.catalog();
    let mut named: Vec<String> = vec![def.name.clone()];
    let schema = def.schema.clone();
    for identity in &mut def.rules.identities {
        let is_free = |name: &str| is_free(catalog, &schema, name) && named.iter().all(|known| known != name);
        identity.name = free_name(&identity.name, is_free);
        named.push(identity.name.clone());
    }
}

/// Whether no table, no sequence and no index of a schema is called so.
pub(crate) fn is_free(catalog: &Catalog, schema: &str, name: &str) -> bool {
    let named = RelationName::in_schema(schema, name);
    let path = SearchPath::default();
    catalog.id_in_schema(schema, name).is_none()
        && catalog.sequence(&named, &path).is_none()
        && catalog.index(&named, &path).is_none()
        && catalog.tables_in(schema).all(|entry| entry.def.key.is_none() || key_name(&entry.def) != name)
}

/// The schema that a new relation of this name comes into: the one that is written, or the first of the path.
pub(crate) fn schema_of_new(scope: &Scope, name: &RelationName) -> Result<String> {
    let authoriser = scope.resolver()?;
    let schema = match name.schema() {
        Some(schema) => schema,
        None => authoriser.path().schemas().find(|schema| *schema != TEMPORARY_SCHEMA).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedSchema, "no schema has been selected to create in")
                .with_hint("name the schema: s.t, or SET search_path to one that exists")
        })?,
    };
    if matches!(schema, SYSTEM_SCHEMA | PG_CATALOG | INFORMATION_SCHEMA) {
        return Err(Error::new(ErrorKind::Forbidden, format!("permission denied for schema {schema}"))
            .with_hint("it is the system's: make tables in another schema"));
    }
    if schema == TEMPORARY_SCHEMA {
        return Ok(schema.to_owned());
    }
    authoriser.schema(Privilege::Create, schema, authoriser.catalog().schema(schema)?.id)?;
    Ok(schema.to_owned())
}

/// Seed of a new table's weights. Any number will do, as long as tables differ.
pub(crate) fn seed(engine: &Engine, id: TableId) -> u64 {
    let mut mixed = (engine.read().clock().wall_micros() as u64) ^ (u64::from(id.0) << 40);
    // SplitMix64 (Steele et al. 2014).
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The secret of a new key: nobody who chooses keys may know it. A hasher of the standard library has the system's randomness.
fn secret() -> [u64; 2] {
    let random = || RandomState::new().build_hasher().finish();
    [random(), random()]
}

/// DROP TABLE, all in one batch.
pub(crate) async fn drop_tables(
    run: &Arc<Run>,
    names: Vec<RelationName>,
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    let mut changes = Vec::new();
    let mut gone = Vec::new();
    let mut outcome = Outcome::done("DROP TABLE");
    for name in names {
        if let Some(error) = missing_schema(&run.scope, &name)? {
            match if_exists {
                true => outcome = outcome.with_notice(format!("{}, skipping", error.message())),
                false => return Err(error),
            }
            continue;
        }
        match run.scope.table_for(Need::Dropping, &name) {
            Ok(entry) => {
                let drop = Change::DropTable { id: entry.def.id };
                if !changes.contains(&drop) {
                    changes.push(drop);
                    gone.push(entry);
                }
            }
            Err(error) if if_exists && error.kind() == ErrorKind::UndefinedTable => {
                outcome = outcome.with_notice(format!("there is no table '{}' to drop", name.name))
            }
            Err(error) => return Err(error),
        }
    }
    let Some(first) = gone.first() else { return Ok(outcome) };
    let needed: Vec<Needed> = gone.iter().map(|entry| Needed::Relation(entry.def.id)).collect();
    let what = format!("table {}", first.def.shown());
    let mut with = dependents(run.scope.resolver()?.catalog(), &needed, &what, cascade)?;
    with.changes.extend(changes);
    change(run, with.changes).await?;
    Ok(with.notices.into_iter().fold(outcome, Outcome::with_notice))
}

/// The error for a name whose schema does not exist.
pub(crate) fn missing_schema(scope: &Scope, name: &RelationName) -> Result<Option<Error>> {
    let Some(schema) = name.schema() else { return Ok(None) };
    let authoriser = scope.resolver()?;
    Ok(authoriser.catalog().schema(schema).err())
}

/// DROP ... IF EXISTS of what is not built.
pub(crate) fn drop_none(scope: &Scope, command: &'static str, names: &[RelationName]) -> Result<Outcome> {
    let kind = command.trim_start_matches("DROP ").to_lowercase();
    let mut outcome = Outcome::done(command);
    for name in names {
        if scope.table_for(Need::Definition, name).is_ok() {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("'{}' is a table, and no {kind}", name.name))
                .with_hint(format!("write DROP TABLE {name}")));
        }
        outcome = outcome.with_notice(format!("there is no {kind} '{}' to drop", name.name));
    }
    Ok(outcome)
}

/// ALTER TABLE.
pub(crate) async fn alter_table(run: &Arc<Run>, statement: AlterTable) -> Result<Outcome> {
    if let Some(outcome) = alter_as_table(run, &statement).await? {
        return Ok(outcome);
    }
    if let Some(error) = missing_schema(&run.scope, &statement.name)? {
        return match statement.if_exists {
            true => Ok(Outcome::done("ALTER TABLE").with_notice(format!("{}, skipping", error.message()))),
            false => Err(error),
        };
    }
    let entry = match run.scope.table_for(Need::Ownership, &statement.name) {
        Ok(entry) => entry,
        Err(error) if statement.if_exists && error.kind() == ErrorKind::UndefinedTable => {
            let notice = format!("there is no table '{}' to alter", statement.name.name);
            return Ok(Outcome::done("ALTER TABLE").with_notice(notice));
        }
        Err(error) => return Err(error),
    };
    if let TableChange::Owner(owner) = &statement.change {
        return give(run, entry.def.id, owner, "ALTER TABLE").await;
    }
    if let TableChange::SetSchema(schema) = &statement.change {
        return set_schema(run, &entry, schema).await;
    }
    match &statement.change {
        TableChange::AddUnique(spec) => {
            add_unique(run, &entry, spec).await?;
            return Ok(Outcome::done("ALTER TABLE"));
        }
        TableChange::AddForeignKey(spec) => {
            add_foreign_key(run, &entry, spec).await?;
            return Ok(Outcome::done("ALTER TABLE"));
        }
        _ => {}
    }
    let cascades = matches!(
        &statement.change,
        TableChange::DropColumn { cascade: true, .. } | TableChange::DropConstraint { cascade: true, .. }
    );
    let (unique, references) = match &statement.change {
        TableChange::AddColumn { column, .. } => (column.unique.clone(), column.references.clone()),
        _ => (None, Vec::new()),
    };
    let losing = match &statement.change {
        TableChange::DropColumn { name, .. } => Some(format!("column {name} of table {}", entry.def.shown())),
        TableChange::DropConstraint { name, .. } => Some(format!("constraint {name} on table {}", entry.def.shown())),
        _ => None,
    };
    let is_of_rules = matches!(statement.change, TableChange::SetDefault { .. } | TableChange::AddCheck(_));
    let added = match &statement.change {
        TableChange::AddCheck(spec) => Some(check_of(&entry.def, spec)?),
        _ => None,
    };
    let given = match &statement.change {
        TableChange::SetDefault { column, .. } => Some(entry.def.column(column)?.id),
        _ => None,
    };
    let mut def = match altered(&entry.def, statement.change)? {
        Altered::To(def) => *def,
        Altered::Nothing(notice) => return Ok(Outcome::done("ALTER TABLE").with_notice(notice)),
    };
    fix_moments(&mut def, given.as_slice(), &run.settings.time_zone)?;
    // A column that comes is NULL in all rows, which refer to nothing by it and are not alike in it.
    let def = with_constraints(run, def, unique.as_slice(), &references)?;
    if is_of_rules {
        check_definition(run, &def).await?;
    }
    if let Some(check) = added {
        return add_check(run, &entry, def, &check).await;
    }
    let is_named_anew = (&def.schema, &def.name) != (&entry.def.schema, &entry.def.name);
    if is_named_anew && run.scope.resolver()?.catalog().id_in_schema(&def.schema, &def.name).is_some() {
        return Err(Error::new(ErrorKind::DuplicateTable, format!("table '{}' already exists", def.name)));
    }
    def.validate()?;
    let mut with = without_columns(run, &entry.def, &def, cascades)?;
    if let Some(what) = losing {
        let keys = without_keys(run, &def, &what, cascades)?;
        with.changes.extend(keys.changes);
        with.notices.extend(keys.notices);
    }
    with.changes.extend(parents_anew(run, &def, Some(&entry.def))?);
    let lost = lost_by_replacing(run, &entry, &def);
    let ladder = (def.options.ladder != entry.def.options.ladder).then_some(def.options.ladder);
    let mut changes = with.changes;
    changes.push(Change::AlterTable { def, was: entry.changed_at });
    change(run, changes).await?;
    let notices = with.notices.into_iter().chain(lost);
    let outcome = notices.fold(Outcome::done("ALTER TABLE"), Outcome::with_notice);
    Ok(match ladder {
        Some(ladder) => outcome.with_notice(format!(
            "ladders begin at {} in what is merged from now on; merged segments keep theirs until they are merged again",
            ladder.name()
        )),
        None => outcome,
    })
}

/// What goes with the columns that a definition has no more.
fn without_columns(run: &Run, old: &TableDef, new: &TableDef, cascades: bool) -> Result<Dependents> {
    let is_gone = |column: &&Column| new.columns.iter().all(|kept| kept.id != column.id);
    let gone: Vec<&Column> = old.columns.iter().filter(is_gone).collect();
    let Some(first) = gone.first() else { return Ok(Dependents::default()) };
    let what = format!("column {} of table {}", first.name, old.shown());
    let gone: Vec<Needed> = gone.iter().map(|column| Needed::Column(old.id, column.id)).collect();
    dependents(run.scope.resolver()?.catalog(), &gone, &what, cascades)
}

/// ALTER TABLE ... SET SCHEMA. Its sequences go with it.
async fn set_schema(run: &Run, entry: &TableEntry, schema: &str) -> Result<Outcome> {
    let done = Outcome::done("ALTER TABLE");
    let named = RelationName::in_schema(schema, entry.def.name.as_str());
    let schema = schema_of_new(&run.scope, &named)?;
    if schema == entry.def.schema {
        return Ok(done);
    }
    if [schema.as_str(), entry.def.schema.as_str()].contains(&TEMPORARY_SCHEMA) {
        let message = "cannot move objects into or out of temporary schemas";
        return Err(Error::new(ErrorKind::NotSupported, message).with_hint("create the other table AS SELECT from it"));
    }
    let authoriser = run.scope.resolver()?;
    let sequences = entry.def.rules.identities.iter().map(|identity| identity.name.as_str());
    let indexes = entry.def.indexes.iter().map(|index| index.name.as_str());
    for name in std::iter::once(entry.def.name.as_str()).chain(sequences).chain(indexes) {
        if !is_free(authoriser.catalog(), &schema, name) {
            let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
            return Err(Error::new(ErrorKind::DuplicateTable, message));
        }
    }
    let def = TableDef { schema, ..TableDef::clone(&entry.def) };
    change(run, vec![Change::AlterTable { def, was: entry.changed_at }]).await?;
    Ok(done)
}

/// What is told where a transaction gives a table the name of another that it has dropped or renamed, and that had more
/// than its columns and rows.
fn lost_by_replacing(run: &Run, entry: &TableEntry, def: &TableDef) -> Option<String> {
    if def.name == entry.def.name || entry.def.schema == TEMPORARY_SCHEMA || !run.state().is_open().unwrap_or(false) {
        return None;
    }
    let newest = run.engine().read().catalog();
    let named = RelationName::in_schema(def.schema.as_str(), def.name.as_str());
    let replaced = newest.found(&named, &SearchPath::default()).filter(|replaced| replaced.def.id != def.id)?;
    let authoriser = run.scope.authoriser();
    let has_grants = |catalog: &Catalog, table: TableId| catalog.rights().grants(Object::Table(table)).next().is_some();
    let old = &replaced.def;
    let lost = [
        ("dimensions", def.dimensions.is_empty() && !old.dimensions.is_empty()),
        ("measures", def.measures.is_empty() && !old.measures.is_empty()),
        ("primary key", def.key.is_none() && old.key.is_some()),
        ("unique constraints, indexes and foreign keys", {
            let has_any = |def: &TableDef| !def.indexes.is_empty() || !def.foreign_keys.is_empty();
            !has_any(def) && has_any(old)
        }),
        ("defaults and conditions", def.rules.is_empty() && !old.rules.is_empty()),
        ("grants", !has_grants(authoriser.catalog(), def.id) && has_grants(&newest, old.id)),
    ];
    let lost: Vec<&str> = lost.into_iter().filter(|(_, is_lost)| *is_lost).map(|(what, _)| what).collect();
    (!lost.is_empty()).then(|| {
        format!(
            "table '{}' has no {} as the one had that it replaces: CREATE TABLE ... WITH (...) AS SELECT and GRANT give \
             them to it",
            def.name,
            lost.join(", no "),
        )
    })
}

/// Columns for the result of a query.
fn columns_of(schema: &SchemaRef, names: &[String]) -> Result<Vec<(String, ColumnType, bool)>> {
    if !names.is_empty() && names.len() != schema.fields().len() {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("{} column names are given, and the query has {} columns", names.len(), schema.fields().len()),
        ));
    }
    let column = |(at, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let name = names.get(at).unwrap_or(field.name()).clone();
        let arrow = match field.data_type() {
            ArrowType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        let plain = field.as_ref().clone().with_data_type(arrow.clone());
        match DataType::from_field(&plain) {
            Some(data_type) => Ok((name, ColumnType { data_type, chars_max: chars_of(&plain) }, true)),
            None => Err(Error::new(
                ErrorKind::DatatypeMismatch,
                format!("column {name} of the query is {}, which a table cannot hold", sql_name(arrow)),
            )
            .with_hint("cast it in the query: SELECT CAST(x AS TEXT) AS x")),
        }
    };
    schema.fields().iter().enumerate().map(column).collect()
}

/// Adds a condition, which must hold for the rows that are there.
///
/// They are looked at before, and once more when no row that breaks it can come any more: then the condition goes again
/// if one has come between.
async fn add_check(run: &Arc<Run>, entry: &Arc<TableEntry>, def: TableDef, check: &Check) -> Result<Outcome> {
    refuse_broken(run, &def, check).await?;
    let is_alone = !run.state().is_held(def.id)?;
    change(run, vec![Change::AlterTable { def: def.clone(), was: entry.changed_at }]).await?;
    if is_alone {
        run.scope.await_own_writes().await?;
        if let Err(error) = refuse_broken(run, &def, check).await {
            let now = run.scope.table_for(Need::Ownership, &whole_name(&def))?;
            let def = alter::drop_constraint(&now.def, &check.name)?;
            change(run, vec![Change::AlterTable { def, was: now.changed_at }]).await?;
            return Err(error);
        }
    }
    Ok(Outcome::done("ALTER TABLE"))
}

/// Refuses a condition that is false of a row which is there.
async fn refuse_broken(run: &Arc<Run>, def: &TableDef, check: &Check) -> Result<()> {
    let table = def.qualified();
    let text = format!("SELECT 1 FROM {table} WHERE NOT ({}) LIMIT 1", check.sql);
    let query = match parse(&text)?.pop().map(|statement| statement.kind) {
        Some(Kind::Query(query)) => query,
        _ => return Err(Error::internal("a condition is no part of a query")),
    };
    let snapshot = pin_newest(run, &[reference_of(&whole_name(def))]).await?;
    let hints = Hints { sample_fraction: Some("1".to_owned()), ..Hints::default() };
    let planned = plan_later(run, query, &snapshot, &hints)?.plan().await?;
    let mut rows = planned.execute()?;
    while let Some(batch) = rows.next().await {
        run.token.check()?;
        if batch.map_err(from_datafusion)?.num_rows() > 0 {
            let message =
                format!("check constraint \"{}\" of relation \"{}\" is violated by some row", check.name, def.name);
            return Err(Error::new(ErrorKind::CheckViolation, message)
                .with_hint(format!("SELECT * FROM {table} WHERE NOT ({}) gives them", check.sql)));
        }
    }
    Ok(())
}

/// A table's name with its schema.
fn whole_name(def: &TableDef) -> RelationName {
    RelationName::in_schema(def.schema.as_str(), def.name.as_str())
}

enum Altered {
    To(Box<TableDef>),
    /// IF [NOT] EXISTS found that there is nothing to do.
    Nothing(String),
}

fn altered(def: &TableDef, change: TableChange) -> Result<Altered> {
    let has = |name: &str| def.columns.iter().any(|column| column.name == name);
    let to = match change {
        TableChange::AddColumn { column, if_not_exists } => {
            if if_not_exists && has(&column.name) {
                return Ok(Altered::Nothing(format!("column {} exists already", column.name)));
            }
            let column_type = column.column_type.ok_or_else(|| Error::internal("a column came without a type"))?;
            alter::add_column(def, &column.name, column_type, column.nullable)?
        }
        TableChange::DropColumn { name, if_exists, .. } => {
            if if_exists && !has(&name) {
                return Ok(Altered::Nothing(format!("there is no column {name} to drop")));
            }
            alter::drop_column(def, &name)?
        }
        TableChange::SetDefault { column, sql } => alter::set_default(def, &column, sql)?,
        TableChange::AddCheck(spec) => alter::add_check(def, check_of(def, &spec)?)?,
        TableChange::DropConstraint { name, .. } if def.key.is_some() && name == key_name(def) => {
            return Err(Error::new(ErrorKind::NotSupported, "dropping a primary key is not supported")
                .with_hint("create the table anew without it: CREATE TABLE ... AS SELECT"));
        }
        TableChange::AddUnique(_) | TableChange::AddForeignKey(_) => {
            return Err(Error::internal("a constraint among rows is added elsewhere"));
        }
        TableChange::DropConstraint { name, if_exists, .. } => match alter::drop_constraint(def, &name) {
            Err(error) if if_exists && error.kind() == ErrorKind::UndefinedObject => {
                return Ok(Altered::Nothing(format!("there is no constraint {name} to drop")));
            }
            dropped => dropped?,
        },
        TableChange::RenameColumn { from, to } => {
            alter::rename_column(def, &from, &to, |sql| renamed(sql, &from, &to))?
        }
        TableChange::Rename(name) => match name.schema() {
            Some(schema) if schema != def.schema => {
                return Err(Error::new(ErrorKind::NotSupported, "RENAME TO another schema is not supported")
                    .with_hint(format!("write ALTER TABLE {} SET SCHEMA {}", def.shown(), quoted(schema))));
            }
            _ => alter::rename_table(def, &name.name)?,
        },
        TableChange::Set(WithOptions {
            dimensions: None,
            measures: None,
            curve: None,
            freshness,
            ladder,
            on_conflict,
            placement: None,
            shards: None,
            replicas: None,
            write_quorum: None,
            rows,
        }) => {
            let mut options = def.options.clone();
            if let Some(freshness) = freshness {
                options.freshness = Some(checked_freshness(&freshness)?);
            }
            if let Some(ladder) = ladder {
                options.ladder = Ladder::parse(&ladder)?;
            }
            if let Some(rows) = rows {
                options.rows = RowStore::parse(&rows)?;
            }
            let def = alter::set_options(def, options)?;
            match on_conflict {
                Some(on_conflict) => with_on_conflict(def, &on_conflict)?,
                None => def,
            }
        }
        TableChange::SetSchema(_) => return Err(Error::internal("a table's schema is changed elsewhere")),
        TableChange::Owner(_) => return Err(Error::internal("a table's owner is no part of its definition")),
        TableChange::Set(_) => {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "changing dimensions, measures, curve or placement is not supported",
            )
            .with_hint("create a new table with CREATE TABLE ... WITH (...) AS SELECT * FROM the old one"));
        }
    };
    Ok(Altered::To(Box::new(to)))
}
