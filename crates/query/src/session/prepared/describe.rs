//! Describes a statement without running it: the types of its parameters, and its columns.
//!
//! A parameter's type is, in this order: what the caller knows; what a cast in the text says; for a whole value of an
//! INSERT, the type of its column; what its place is for, such as an argument of a function; what planning infers from
//! what the parameter meets (`x = ANY($1)`: a list of what `x` is), the first that it meets; TEXT.
//!
//! Invariants:
//! - All of a description is by one snapshot's definitions: it is one [`Run`].
//! - The logical plan of a query without parameters is kept by the session, and executed if nothing that it depends on
//!   has changed ([`DescribedPlan`]).
//!
//! A plan with parameters is not executed. What is planned here has NULL or a placeholder where the execution has a
//! value, and is not the plan of the statement with the value written in its place, which is what a parameter means:
//! - Binding makes another tree of some values: `LIKE $1` with an escape, `x = ANY($1)` with a list, a pattern of `~`,
//!   the seed of TABLESAMPLE.
//! - A literal's type is found from its digits or from what it meets, by rules that run before types are coerced: `$1`
//!   with 1.50 is NUMERIC of two places, and text takes the type of what it is compared with. A placeholder has one
//!   type, and the plan around it the types and coercions that follow.
//! - The index and outlines read constants of the tree, and blocks are chosen by them.

use crate::session::define::show::{describe_table, show_create, show_tables};
use crate::session::insert::targets;
use crate::session::run::Run;
use crate::session::run::described_plan::DescribedPlan;
use crate::session::run::outcome::Origin;
use crate::session::run::runner::Runner;
use crate::session::select::origins::origins;
use crate::session::select::shown_names::{PlannedColumns, columns_of, plan_by_distinct_names};
use crate::session::settings::setting;
use crate::session::state::State;
use crate::session::state::scope::Scope;
use alluvia_catalog::RelationName;
use alluvia_catalog::authoriser::{INSERT, Need};
use alluvia_catalog::rights::Privilege;
use alluvia_settings::Settings;
use alluvia_space::{Column, DataType as ColumnType};
use alluvia_syntax::statement::{Insert, InsertSource, SettingCommand};
use alluvia_syntax::statements::changes::ConflictAction;
use alluvia_syntax::statements::merge::{Merge, MergeAction};
use alluvia_syntax::trees::like_escape;
use alluvia_syntax::{Hints, Kind, Statement, parameter_places, parameters};
use alluvia_types::{Error, Result, Version};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{Ident, Query};
use std::sync::Arc;

/// What [`Session::describe`](crate::Session::describe) tells.
#[derive(Clone, Debug)]
pub struct Described {
    /// The types of parameters $1, $2, ..., as fields without a name: these tell types of one Arrow type apart, such as
    /// JSON and TEXT.
    pub parameters: Vec<FieldRef>,
    /// The columns of the rows, for a statement that gives any.
    pub columns: Option<SchemaRef>,
    /// Where these are from; empty where nobody knows.
    pub origins: Arc<[Option<Origin>]>,
}

/// What a description follows from beside the statement: while that is the same, so is the description.
#[derive(Clone, Debug)]
pub struct DescribedBy {
    definitions: Version,
    settings: Settings,
}

/// What descriptions follow from now; `None` while the session has definitions of its own.
pub(crate) fn described_by(scope: &Scope) -> Option<DescribedBy> {
    let definitions = scope.engine.read().catalog().version;
    let state = scope.state();
    has_none_of_its_own(&state).then(|| DescribedBy { definitions, settings: state.settings.clone() })
}

/// Whether that is the same now.
pub(crate) fn describes_by(scope: &Scope, by: &DescribedBy) -> bool {
    let definitions = scope.engine.read().catalog().version;
    let state = scope.state();
    has_none_of_its_own(&state) && by.definitions == definitions && by.settings == state.settings
}

fn has_none_of_its_own(state: &State) -> bool {
    state.temporary.is_empty() && !state.has_own_definitions()
}

/// The types of a statement's parameters, and its columns.
pub(crate) async fn describe(runner: &Runner, statement: &Statement, known: &[Option<DataType>]) -> Result<Described> {
    let work = |run: Arc<Run>| async move {
        let (described, plan) = describe_here(&run, statement, known).await?;
        // Definitions of the open transaction have one version, whatever those below them become.
        let kept = plan
            .filter(|_| !run.state().has_own_definitions())
            .zip(run.pinned())
            .and_then(|(plan, snapshot)| DescribedPlan::new(statement, plan, &snapshot.catalog, &run.settings));
        if let Some(kept) = kept {
            runner.keep_described(kept);
        }
        Ok(described)
    };
    runner.beside(&statement.text, work).await
}

/// What is known of a statement, and the logical plan of a query that was planned as it was written.
async fn describe_here(
    run: &Run,
    statement: &Statement,
    known: &[Option<DataType>],
) -> Result<(Described, Option<LogicalPlan>)> {
    let scope = &run.scope;
    let found = parameter_types(run, statement, known).await?;
    let parameters = or_text(found.clone());
    let bound = statement.bind(&nulls(parameters.iter().map(Some))?)?;
    let text = |names: &[&str]| {
        let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect();
        Some(Arc::new(Schema::new(fields)))
    };
    if let Some(names) = &bound.names {
        let _ = run.names.set(Arc::clone(names));
    }
    let columns = match bound.kind {
        Kind::Query(query) => {
            let PlannedColumns { schema, plan } = match columns_of(run, *query, &bound.hints).await {
                // What is not known to be text may be anything: there may be no such function of a text.
                Err(_) if found.iter().any(Option::is_none) => {
                    let bound = statement.bind(&nulls(found.iter().map(Option::as_ref))?)?;
                    let Kind::Query(query) = bound.kind else {
                        return Err(Error::internal("a query with other values is none"));
                    };
                    columns_of(run, *query, &bound.hints).await?
                }
                columns => columns?,
            };
            let origins = plan.as_ref().map(origins).unwrap_or_default();
            return Ok((Described { parameters, columns: Some(schema), origins }, plan));
        }
        Kind::Locking(locking) => Some(columns_of(run, *locking.query, &bound.hints).await?.schema),
        Kind::Explain { .. } => text(&["plan_type", "plan"]),
        Kind::Fetch { name, .. } => Some(scope.cursors.schema(&name)?),
        Kind::Setting(command @ (SettingCommand::Show(_) | SettingCommand::ShowAll)) => {
            setting(scope, command)?.rows.map(|rows| rows.schema())
        }
        Kind::Describe(table) => describe_table(scope, &table)?.rows.map(|rows| rows.schema()),
        Kind::ShowTables => show_tables(scope).rows.map(|rows| rows.schema()),
        Kind::ShowCreate(table) => show_create(scope, &table)?.rows.map(|rows| rows.schema()),
        Kind::Refused(error) => return Err(error),
        Kind::Insert(Insert { returning, .. }) => returned_columns(run, returning, &bound.hints).await?,
        Kind::Update(update) => returned_columns(run, update.returning, &bound.hints).await?,
        Kind::Delete(delete) => returned_columns(run, delete.returning, &bound.hints).await?,
        Kind::Merge(merge) => returned_columns(run, merge.returning, &bound.hints).await?,
        _ => None,
    };
    Ok((Described { parameters, columns, origins: Arc::default() }, None))
}

/// The columns of RETURNING, if there is one.
async fn returned_columns(run: &Run, returning: Option<Box<Query>>, hints: &Hints) -> Result<Option<SchemaRef>> {
    match returning {
        Some(query) => Ok(Some(columns_of(run, *query, hints).await?.schema)),
        None => Ok(None),
    }
}

async fn parameter_types(
    run: &Run,
    statement: &Statement,
    known: &[Option<DataType>],
) -> Result<Vec<Option<FieldRef>>> {
    let known = known.iter().take(statement.parameters);
    let mut types: Vec<Option<FieldRef>> = known.map(|known| known.clone().map(of_type)).collect();
    types.resize(statement.parameters, None);
    if types.iter().all(Option::is_some) {
        return Ok(types);
    }
    let mut kind = statement.kind.clone();
    for (number, field) in parameters::stated(&mut kind) {
        if let Some(place) = types.get_mut(number - 1) {
            place.get_or_insert(Arc::new(field));
        }
    }
    let need = if matches!(kind, Kind::Update(_)) { Need::Privilege(Privilege::Update) } else { INSERT };
    for (table, columns, query) in whole_values_of(&kind) {
        let entry = run.scope.table_for(need, table)?;
        let whole = parameters::whole_values(query);
        let width = whole.iter().map(|(_, place)| place + 1).max().unwrap_or(0);
        let targets = targets(&entry.def, columns, width)?;
        for (number, place) in whole {
            if let (Some(known), Some(&column)) = (types.get_mut(number - 1), targets.get(place)) {
                known.get_or_insert(of_column(&entry.def.columns[column]));
            }
        }
    }
    if let Kind::Merge(merge) = &kind {
        merged_values(run, merge, &mut types)?;
    }
    for query in parameters::queries_of(&mut kind) {
        infer(run, query, &statement.hints, &mut types).await?;
    }
    Ok(types)
}

/// Finds the types of those parameters that are whole values of a MERGE's clauses.
fn merged_values(run: &Run, merge: &Merge, types: &mut [Option<FieldRef>]) -> Result<()> {
    let entry = run.scope.table_for(Need::Definition, &merge.table)?;
    for (number, place) in parameters::whole_values(&merge.query) {
        for clause in &merge.clauses {
            let (MergeAction::Update(values) | MergeAction::Insert(values)) = &clause.action else { continue };
            let Some(at) = place.checked_sub(values.first).filter(|at| *at < values.count) else { continue };
            let targets = targets(&entry.def, values.columns.as_deref(), values.count)?;
            if let (Some(known), Some(&column)) = (types.get_mut(number - 1), targets.get(at)) {
                known.get_or_insert(of_column(&entry.def.columns[column]));
            }
        }
    }
    Ok(())
}

/// The queries of a statement whose values are of a table's columns: of these, or of the first.
fn whole_values_of(kind: &Kind) -> Vec<(&RelationName, Option<&[Ident]>, &Query)> {
    match kind {
        Kind::Insert(Insert { table, columns, source, conflict, .. }) => {
            let source = match source {
                InsertSource::Query(source) => Some((table, columns.as_deref(), source.as_ref())),
                InsertSource::Literals(_) => None,
            };
            let set = conflict.as_deref().and_then(|conflict| match &conflict.action {
                ConflictAction::Update { columns, query, .. } => {
                    Some((table, Some(columns.as_slice()), query.as_ref()))
                }
                ConflictAction::Nothing => None,
            });
            source.into_iter().chain(set).collect()
        }
        Kind::Update(update) => vec![(&update.table, Some(update.columns.as_slice()), update.query.as_ref())],
        _ => Vec::new(),
    }
}

/// Finds the types of those parameters of a query that nothing is known of yet.
async fn infer(run: &Run, query: &Query, hints: &Hints, types: &mut [Option<FieldRef>]) -> Result<()> {
    for (number, data_type) in alluvia_pg_catalog::compared(query).into_iter().chain(parameter_places::stated(query)) {
        if let Some(place) = types.get_mut(number - 1) {
            place.get_or_insert(of_type(data_type));
        }
    }
    if types.iter().all(Option::is_some) {
        return Ok(());
    }
    let mut query = query.clone();
    let lists = parameters::unlist(&mut query);
    like_escape::leave_out(&mut query)?;
    let list_of = |element: &Field| DataType::List(Arc::new(element.clone().with_name("item")));
    let mut with_types = query.clone();
    let compared = parameter_places::compare(&mut with_types);
    let inferred = match inferred(run, with_types, hints).await {
        // It is the statement as it was written that may be wrong.
        Err(_) if compared.is_changed() => inferred(run, query, hints).await?,
        inferred => inferred?,
    };
    for (number, field) in inferred {
        if let Some(place) = number.checked_sub(1).and_then(|at| types.get_mut(at)) {
            let data_type = compared.type_of(number, field.data_type().clone());
            // What it is compared with may be of a type that is a text to Arrow.
            let field = if data_type == *field.data_type() { field } else { of_type(data_type) };
            place.get_or_insert(if lists.contains(&number) { of_type(list_of(&field)) } else { field });
        }
    }
    for number in lists {
        if let Some(place) = types.get_mut(number - 1) {
            place.get_or_insert(of_type(list_of(&of_type(DataType::Utf8View))));
        }
    }
    Ok(())
}

/// The types that planning finds for parameters, by their numbers; for one that meets several, all of them.
async fn inferred(run: &Run, query: Query, hints: &Hints) -> Result<Vec<(usize, FieldRef)>> {
    let (plan, _) = plan_by_distinct_names(run, query, hints).await?;
    let mut types = Vec::new();
    let walked = plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr
                    && let Some(number) = id.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok())
                {
                    types.push((number, of_field(field)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.map_err(|error| crate::errors::error_of(&error))?;
    Ok(types)
}

/// NULLs of these types, or of none: a text is none of a type that is a text to Arrow alone.
fn nulls<'a>(types: impl Iterator<Item = Option<&'a FieldRef>>) -> Result<Vec<ScalarValue>> {
    let null = |known: Option<&FieldRef>| match known.filter(|field| told_apart(field).is_none()) {
        Some(field) => ScalarValue::try_from(field.data_type()),
        None => Ok(ScalarValue::Null),
    };
    let nulls = types.map(null).collect::<Result<Vec<ScalarValue>, _>>();
    nulls.map_err(|error| Error::internal(format!("a type has no NULL: {error}")))
}

/// What nothing says of is text.
fn or_text(types: Vec<Option<FieldRef>>) -> Vec<FieldRef> {
    types.into_iter().map(|known| known.unwrap_or_else(|| of_type(DataType::Utf8View))).collect()
}

/// A parameter of an Arrow type.
fn of_type(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

/// A parameter of a field's type.
fn of_field(field: &Field) -> FieldRef {
    match told_apart(field) {
        Some(stored) => Arc::new(stored.to_field("", true)),
        None => of_type(field.data_type().clone()),
    }
}

/// A type that is a text to Arrow alone.
fn told_apart(field: &Field) -> Option<ColumnType> {
    use ColumnType::{Char, Json, Jsonb};
    ColumnType::from_field(field).filter(|stored| matches!(stored, Json | Jsonb | Char))
}

/// A parameter of a column's type.
fn of_column(column: &Column) -> FieldRef {
    Arc::new(column.data_type.to_field("", true))
}
