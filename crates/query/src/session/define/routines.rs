//! CREATE and DROP PROCEDURE, and the compiled procedure of a name.
//!
//! Invariants:
//! - What cannot be compiled is not made.
//! - Everybody may call a procedure who may look into its schema; what it does is asked of who calls it.

use crate::session::define::tables::{missing_schema, schema_of_new};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::transaction::submit::change;
use alluvia_catalog::authoriser::{Authoriser, Need};
use alluvia_catalog::rights::{BOOTSTRAP, Privilege, RightsChange};
use alluvia_catalog::{Change, RelationName, RoutineDef, RoutineEntry, TEMPORARY_SCHEMA};
use alluvia_procedures::{Kept, Parameter, ProcedureDef};
use alluvia_space::ColumnType;
use alluvia_syntax::no_procedure;
use alluvia_syntax::statements::routines::{CreateProcedure, RoutineStatement};
use alluvia_types::{Error, ErrorKind, Result, near_names};
use alluvia_values::errors::not_supported;
use std::sync::Arc;

/// CREATE and DROP PROCEDURE.
pub(crate) async fn routine_statement(run: &Arc<Run>, statement: RoutineStatement) -> Result<Outcome> {
    match statement {
        RoutineStatement::Create(create) => create_procedure(run, create).await,
        RoutineStatement::Drop { procedures, if_exists } => drop_procedures(run, procedures, if_exists).await,
    }
}

async fn create_procedure(run: &Arc<Run>, create: CreateProcedure) -> Result<Outcome> {
    if create.is_definers {
        return Err(not_supported("SECURITY DEFINER").with_hint(
            "leave it out: the procedure does what its caller may do; views are read by their owners' rights",
        ));
    }
    let schema = schema_of_new(&run.scope, &create.name)?;
    if schema == TEMPORARY_SCHEMA {
        return Err(not_supported("a temporary procedure").with_hint("make it in another schema, or use DO"));
    }
    let authoriser = run.scope.resolver()?;
    let def = ProcedureDef::of(&create, schema.as_str())?;
    alluvia_procedures::compile_with(&def, &|parts| column_type(&authoriser, parts))?;
    let name = RelationName::in_schema(schema.as_str(), def.name.as_str());
    let replaced = authoriser.catalog().routine(&name, authoriser.path());
    if let Some(known) = replaced {
        if !create.or_replace {
            let message = format!("procedure {} already exists", known.def.shown());
            return Err(Error::new(ErrorKind::DuplicateFunction, message)
                .with_detail("There is one procedure of a name in a schema, whatever its parameters.")
                .with_hint("choose another name, or write CREATE OR REPLACE PROCEDURE"));
        }
        authoriser.use_of_routine(Need::Ownership, known)?;
    }
    let id = replaced.map_or_else(|| run.engine().ingest().new_table_id(), |known| known.def.id);
    let sql = def.behind_name();
    let was = replaced.map(|known| known.changed_at);
    let mut changes = vec![Change::PutRoutine { def: RoutineDef { id, schema, name: def.name, sql }, was }];
    let owner = authoriser.role()?;
    if was.is_none() && owner != BOOTSTRAP {
        changes.push(Change::Rights { change: RightsChange::Own { table: id, owner } });
    }
    change(run, changes).await?;
    Ok(Outcome::done("CREATE PROCEDURE"))
}

async fn drop_procedures(
    run: &Arc<Run>,
    procedures: Vec<(RelationName, Option<Vec<ColumnType>>)>,
    if_exists: bool,
) -> Result<Outcome> {
    let mut outcome = Outcome::done("DROP PROCEDURE");
    let mut changes: Vec<Change> = Vec::new();
    for (name, types) in procedures {
        let known = match missing_schema(&run.scope, &name)? {
            Some(error) => Err(error),
            None => found(&run.scope.resolver()?, Need::Dropping, &name),
        };
        let known = known.and_then(|known| match types {
            Some(types) if !has_types(&known, &types)? => {
                let types: Vec<String> = types.iter().map(|written| written.sql_name()).collect();
                let message = format!("procedure {name}({}) does not exist", types.join(", "));
                Err(Error::new(ErrorKind::UndefinedFunction, message).with_hint(format!("write DROP PROCEDURE {name}")))
            }
            _ => Ok(known),
        });
        match known {
            Ok(known) => {
                let drop = Change::DropRoutine { id: known.def.id };
                if !changes.contains(&drop) {
                    changes.push(drop);
                }
            }
            Err(error)
                if if_exists && matches!(error.kind(), ErrorKind::UndefinedFunction | ErrorKind::UndefinedSchema) =>
            {
                outcome = outcome.with_notice(format!("procedure {name} does not exist, skipping"));
            }
            Err(error) => return Err(error),
        }
    }
    if !changes.is_empty() {
        change(run, changes).await?;
    }
    Ok(outcome)
}

/// Whether a procedure has parameters of these types: all of them, or those that values go into.
fn has_types(entry: &RoutineEntry, types: &[ColumnType]) -> Result<bool> {
    let def = ProcedureDef::of_entry(entry)?;
    let is = |parameters: Vec<&Parameter>| {
        parameters.len() == types.len()
            && parameters.iter().zip(types).all(|(parameter, written)| parameter.data_type == written.data_type)
    };
    let into = |parameter: &&Parameter| parameter.mode != alluvia_procedures::Mode::Out;
    Ok(is(def.parameters.iter().collect()) || is(def.parameters.iter().filter(into).collect()))
}

/// The procedure of a name, for this.
fn found(authoriser: &Authoriser, need: Need, name: &RelationName) -> Result<Arc<RoutineEntry>> {
    if let Some(entry) = authoriser.routine(need, name)? {
        return Ok(Arc::clone(entry));
    }
    let error = no_procedure(name);
    let known = authoriser.catalog().routines().map(|entry| entry.def.name.as_str());
    Err(match near_names(&name.name, known).as_slice() {
        [] => error,
        near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// The procedure that a name means to the session now, compiled.
pub(crate) fn compiled(run: &Run, name: &RelationName) -> Result<Arc<Kept>> {
    let authoriser = run.scope.resolver()?;
    let entry = found(&authoriser, Need::Privilege(Privilege::Usage), name)?;
    let (version, path) = (authoriser.catalog().version, authoriser.path());
    run.engine().routines().get(&entry, &|parts| column_type(&authoriser, parts), version, path)
}

/// The same of a body without a name.
pub(crate) fn compiled_block(run: &Run, def: &ProcedureDef) -> Result<Arc<Kept>> {
    let authoriser = run.scope.resolver()?;
    let (version, path) = (authoriser.catalog().version, authoriser.path());
    Kept::new(def, &|parts| column_type(&authoriser, parts), version, path).map(Arc::new)
}

/// The type of a table's column, for `t.c%TYPE`.
fn column_type(authoriser: &Authoriser, parts: &[String]) -> Option<ColumnType> {
    let name = match parts {
        [table, _] => RelationName::bare(table.as_str()),
        [schema, table, _] => RelationName::in_schema(schema.as_str(), table.as_str()),
        _ => return None,
    };
    let entry = authoriser.catalog().found(&name, authoriser.path())?;
    let column = entry.def.columns.iter().find(|column| Some(&column.name) == parts.last())?;
    Some(ColumnType { data_type: column.data_type, chars_max: column.chars_max })
}
