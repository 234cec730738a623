//! ALTER TABLE: which table it is of, and the changes of its definition in which no row gets another value.
//!
//! Invariants:
//! - A change is checked against the newest visible definitions and committed as a batch, or added to the open transaction's; if another
//!   session changed the same table in between, the batch is refused with `Conflict` and nothing has happened.
//! - What must hold of the rows that are there is looked up among them, and none of them was written since.
//!
//! What gives rows other values, or changes several things at once, is [`super::rewrite`].

use crate::session::define::constraints::{
    add_checked, add_foreign_key, add_unique, parents_anew, rename_index, with_constraints, without_keys,
};
use crate::session::define::rewrite::altering;
use crate::session::define::roles::give;
use crate::session::define::tables::{is_free, missing_schema, schema_of_new, whole_name};
use crate::session::define::views::alter_as_table;
use crate::session::rules::check_definition;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::transaction::submit;
use alluvia_catalog::alter::columns;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::dependents::{Dependents, dependents};
use alluvia_catalog::rights::Object;
use alluvia_catalog::{Catalog, Change, Needed, RelationName, SearchPath, TEMPORARY_SCHEMA, TableEntry, alter};
use alluvia_change::conflict::key_name;
use alluvia_space::keywords::quoted;
use alluvia_space::{Check, Column, Ladder, PurgeAfter, RowStore, TableDef};
use alluvia_syntax::statements::alter::{AlterTable, TableChange};
use alluvia_syntax::statements::definitions::{WithOptions, checked_freshness};
use alluvia_syntax::statements::keys::with_on_conflict;
use alluvia_syntax::statements::moment_defaults::fix_moments;
use alluvia_syntax::statements::rules::{check_of, renamed};
use alluvia_types::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;

/// ALTER TABLE.
pub(crate) async fn alter_table(run: &Arc<Run>, statement: AlterTable) -> Result<Outcome> {
    if let TableChange::RenameIndex(to) = &statement.change {
        return rename_index(run, &statement, to).await;
    }
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
    match statement.change {
        TableChange::Owner(owner) => give(run, entry.def.id, &owner, "ALTER TABLE").await,
        TableChange::SetSchema(schema) => set_schema(run, &entry, &schema).await,
        change => {
            let notices = altering(run, &whole_name(&entry.def), change).await?;
            Ok(notices.into_iter().fold(Outcome::done("ALTER TABLE"), Outcome::with_notice))
        }
    }
}

/// A change of a definition that rows have no part in, or that looks at them and leaves them. Gives what is to be told.
pub(super) async fn define_anew(run: &Arc<Run>, entry: &Arc<TableEntry>, change: TableChange) -> Result<Vec<String>> {
    match &change {
        TableChange::AddUnique(spec) => return add_unique(run, entry, spec).await.map(|()| Vec::new()),
        TableChange::AddForeignKey(spec) => return add_foreign_key(run, entry, spec).await.map(|()| Vec::new()),
        _ => {}
    }
    let told = match &change {
        TableChange::Set(with) => with.notice(),
        _ => None,
    };
    let cascades = matches!(
        &change,
        TableChange::DropColumn { cascade: true, .. } | TableChange::DropConstraint { cascade: true, .. }
    );
    let (unique, references) = match &change {
        TableChange::AddColumn { column, .. } => (column.unique.clone(), column.references.clone()),
        _ => (None, Vec::new()),
    };
    let losing = match &change {
        TableChange::DropColumn { name, .. } => Some(format!("column {name} of table {}", entry.def.shown())),
        TableChange::DropConstraint { name, .. } => Some(format!("constraint {name} on table {}", entry.def.shown())),
        _ => None,
    };
    let is_of_rules = matches!(change, TableChange::SetDefault { .. } | TableChange::AddCheck(_));
    let added = match &change {
        TableChange::AddCheck(spec) => Some(check_of(&entry.def, spec)?),
        _ => None,
    };
    let given = match &change {
        TableChange::SetDefault { column, .. } => Some(entry.def.column(column)?.id),
        _ => None,
    };
    let mut def = match altered(&entry.def, change)? {
        Altered::To(def) => *def,
        Altered::Nothing(notice) => return Ok(vec![notice]),
    };
    fix_moments(&mut def, given.as_slice(), &run.settings.time_zone)?;
    // A column that comes is NULL in all rows, which refer to nothing by it and are not alike in it.
    let def = with_constraints(run, def, unique.as_slice(), &references)?;
    if is_of_rules {
        check_definition(run, &def).await?;
    }
    if let Some(check) = added {
        return add_check(run, entry, def, &check).await.map(|()| Vec::new());
    }
    let is_named_anew = (&def.schema, &def.name) != (&entry.def.schema, &entry.def.name);
    if is_named_anew && !is_free(run.scope.resolver()?.catalog(), &def.schema, &def.name) {
        return Err(Error::new(ErrorKind::DuplicateTable, format!("relation '{}' already exists", def.name)));
    }
    def.validate()?;
    let mut with = without_columns(run, &entry.def, &def, cascades)?;
    if let Some(what) = losing {
        let keys = without_keys(run, &def, &what, cascades)?;
        with.changes.extend(keys.changes);
        with.notices.extend(keys.notices);
    }
    with.changes.extend(parents_anew(run, &def, Some(&entry.def))?);
    let lost = lost_by_replacing(run, entry, &def);
    let ladder = (def.options.ladder != entry.def.options.ladder).then_some(def.options.ladder);
    let mut changes = with.changes;
    changes.push(Change::AlterTable { def, was: entry.changed_at });
    submit::change(run, changes).await?;
    let ladder = ladder.map(|ladder| {
        format!(
            "ladders begin at {} in what is merged from now on; merged segments keep theirs until they are merged again",
            ladder.name()
        )
    });
    Ok(with.notices.into_iter().chain(lost).chain(told).chain(ladder).collect())
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
    submit::change(run, vec![Change::AlterTable { def, was: entry.changed_at }]).await?;
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

/// Adds a condition, which must hold for the rows that are there.
async fn add_check(run: &Arc<Run>, entry: &Arc<TableEntry>, def: TableDef, check: &Check) -> Result<()> {
    let altered = vec![Change::AlterTable { def, was: entry.changed_at }];
    add_checked(run, &[entry], &broken_sql(&entry.def, check), altered, |_| Ok(is_broken(&entry.def, check))).await
}

/// A query that finds a row of which a condition is false.
pub(super) fn broken_sql(def: &TableDef, check: &Check) -> String {
    format!("SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1", def.qualified(), check.sql)
}

/// The error for a row that such a query has found.
pub(super) fn is_broken(def: &TableDef, check: &Check) -> Error {
    let message = format!("check constraint \"{}\" of relation \"{}\" is violated by some row", check.name, def.name);
    Error::new(ErrorKind::CheckViolation, message).with_hint(format!(
        "SELECT * FROM {} WHERE NOT ({}) gives them",
        def.qualified(),
        check.sql
    ))
}

enum Altered {
    To(Box<TableDef>),
    /// IF [NOT] EXISTS found that there is nothing to do.
    Nothing(String),
}

fn altered(def: &TableDef, change: TableChange) -> Result<Altered> {
    let has = |name: &str| def.columns.iter().any(|column| column.name == name);
    let to = match change {
        TableChange::AddColumn { column, if_not_exists, then: _ } => {
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
            purge_after,
            meaningless: _,
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
            if let Some(purge_after) = purge_after {
                options.purge_after = PurgeAfter::parse_option(&purge_after)?;
            }
            let def = alter::set_options(def, options)?;
            match on_conflict {
                Some(on_conflict) => with_on_conflict(def, &on_conflict)?,
                None => def,
            }
        }
        TableChange::DropNotNull(column) => columns::drop_not_null(def, &column)?,
        TableChange::SetGenerated { column, kind } => columns::set_generated(def, &column, kind)?,
        TableChange::DropIdentity { column, if_exists } => match columns::drop_identity(def, &column, if_exists)? {
            Some(def) => def,
            None => {
                let of = format!("column \"{column}\" of relation \"{}\"", def.name);
                return Ok(Altered::Nothing(format!("{of} is not an identity column, skipping")));
            }
        },
        TableChange::SetNotNull(_)
        | TableChange::SetType { .. }
        | TableChange::AddIdentity { .. }
        | TableChange::AddKey(_)
        | TableChange::Told(_)
        | TableChange::Several(_)
        | TableChange::RenameIndex(_) => return Err(Error::internal("a change of a table is made elsewhere")),
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
