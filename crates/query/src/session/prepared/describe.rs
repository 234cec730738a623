//! What a statement takes and gives, without running it.
//!
//! A parameter's type is, in this order: what the caller knows; what a cast in the text says; for a whole value of an INSERT, the
//! type of its column; what its place is for, such as an argument of a function; what planning infers from what the parameter meets (`x =
//! ANY($1)`: a list of what `x` is), the first that it meets; TEXT.

use crate::execution::guard::Guarded;
use crate::pg_catalog;
use crate::rights::INSERT;
use crate::session::door::{Run, Session};
use crate::session::insert::targets;
use crate::session::run::supervise::Stop;
use alluvia_copy::progress::Progress;
use alluvia_syntax::statement::{Insert, InsertSource};
use alluvia_syntax::trees::like_escape;
use alluvia_syntax::{Hints, Kind, Statement, parameter_places, parameters};
use alluvia_types::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Query;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// What [`Session::describe`] tells.
#[derive(Clone, Debug)]
pub struct Described {
    /// The types of parameters $1, $2, ...
    pub parameters: Vec<DataType>,
    /// The columns of the rows, for a statement that gives any.
    pub columns: Option<SchemaRef>,
}

impl Session {
    /// The types of a statement's parameters, and its columns. `known[i]` is what the caller knows of parameter i+1. Names that
    /// do not exist are errors here as they would be on execution; an open transaction stays as it is. It can be cancelled, and
    /// takes no longer than `statement_timeout`, as a statement; a statement whose rows are still being taken is left alone.
    pub fn describe<'a>(
        &'a self,
        statement: &'a Statement,
        known: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Described>> {
        Box::pin(async move {
            let settings = self.state.lock().settings.clone();
            let beside = self.cancel.beside();
            let mut stop = Stop::new(beside.token.clone(), settings.statement_timeout);
            let run = Run {
                token: beside.token.clone(),
                progress: Arc::new(Progress::default()),
                accuracy: settings.accuracy(),
                settings,
                text: "".into(),
                // No statement has it: what describing reads is nobody's.
                query_id: 0,
                cached: Mutex::default(),
                telling: OnceLock::new(),
                repeated: Arc::default(),
            };
            let described = tokio::select! {
                // First, since nothing is lost: what is stopped is stopped, however far it came.
                biased;
                () = stop.stopped() => Err(beside.token.error()),
                described = Guarded::new(self.describe_here(&run, statement, known)) => described,
            };
            if let Err(error) = &described {
                self.audit_refusal(&statement.text, error).await;
            }
            described
        })
    }

    async fn describe_here(&self, run: &Run, statement: &Statement, known: &[Option<DataType>]) -> Result<Described> {
        let found = self.parameter_types(run, statement, known).await?;
        let types = or_text(found.clone());
        let bound = statement.bind(&nulls(types.iter().map(Some))?)?;
        let text = |names: &[&str]| {
            let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect();
            Some(Arc::new(Schema::new(fields)))
        };
        let columns = match bound.kind {
            Kind::Query(query) => Some(match self.columns_of(run, *query, &bound.hints).await {
                // What is not known to be text may be anything: there may be no such function of a text.
                Err(_) if found.iter().any(Option::is_none) => {
                    let bound = statement.bind(&nulls(found.iter().map(Option::as_ref))?)?;
                    let Kind::Query(query) = bound.kind else {
                        return Err(Error::internal("a query with other values is none"));
                    };
                    self.columns_of(run, *query, &bound.hints).await?
                }
                columns => columns?,
            }),
            Kind::Explain { .. } => text(&["plan_type", "plan"]),
            Kind::Fetch { name, .. } => Some(self.cursor_schema(&name)?),
            Kind::Setting(command) => match command {
                alluvia_syntax::statement::SettingCommand::Show(_)
                | alluvia_syntax::statement::SettingCommand::ShowAll => {
                    self.setting(command)?.rows.map(|rows| rows.schema())
                }
                _ => None,
            },
            Kind::Describe(table) => self.describe_table(&table)?.rows.map(|rows| rows.schema()),
            Kind::ShowTables => self.show_tables().rows.map(|rows| rows.schema()),
            Kind::ShowCreate(table) => self.show_create(&table)?.rows.map(|rows| rows.schema()),
            Kind::Refused(error) => return Err(error),
            _ => None,
        };
        Ok(Described { parameters: types, columns })
    }

    async fn parameter_types(
        &self,
        run: &Run,
        statement: &Statement,
        known: &[Option<DataType>],
    ) -> Result<Vec<Option<DataType>>> {
        let mut types: Vec<Option<DataType>> = known.iter().take(statement.parameters).cloned().collect();
        types.resize(statement.parameters, None);
        if types.iter().all(Option::is_some) {
            return Ok(types);
        }
        let mut kind = statement.kind.clone();
        for (number, data_type) in parameters::stated(&mut kind) {
            if let Some(place) = types.get_mut(number - 1) {
                place.get_or_insert(data_type);
            }
        }
        if let Kind::Insert(Insert { table, columns, source: InsertSource::Query(source) }) = &kind {
            let entry = self.table_for(INSERT, table)?;
            let whole = parameters::whole_values(source);
            let width = whole.iter().map(|(_, place)| place + 1).max().unwrap_or(0);
            let targets = targets(&entry.def, columns.as_deref(), width)?;
            for (number, place) in whole {
                if let (Some(known), Some(&column)) = (types.get_mut(number - 1), targets.get(place)) {
                    known.get_or_insert(entry.def.columns[column].data_type.to_arrow());
                }
            }
        }
        let Some(query) = parameters::query_of(&mut kind) else { return Ok(types) };
        for (number, data_type) in pg_catalog::compared(query).into_iter().chain(parameter_places::stated(query)) {
            if let Some(place) = types.get_mut(number - 1) {
                place.get_or_insert(data_type);
            }
        }
        if types.iter().all(Option::is_some) {
            return Ok(types);
        }
        let mut query = query.clone();
        let lists = parameters::unlist(&mut query);
        like_escape::leave_out(&mut query)?;
        let list_of = |element| DataType::List(Arc::new(Field::new("item", element, true)));
        let mut told = query.clone();
        let compared = parameter_places::compare(&mut told);
        let inferred = match self.inferred(run, told, &statement.hints).await {
            // It is the statement as it was written that may be wrong.
            Err(_) if compared.is_changed() => self.inferred(run, query, &statement.hints).await?,
            inferred => inferred?,
        };
        for (number, data_type) in inferred {
            if let Some(place) = number.checked_sub(1).and_then(|at| types.get_mut(at)) {
                let data_type = compared.type_of(number, data_type);
                place.get_or_insert(if lists.contains(&number) { list_of(data_type) } else { data_type });
            }
        }
        for number in lists {
            if let Some(place) = types.get_mut(number - 1) {
                place.get_or_insert(list_of(DataType::Utf8View));
            }
        }
        Ok(types)
    }

    /// The types that planning finds for parameters, by their numbers; for one that meets several, all of them.
    async fn inferred(&self, run: &Run, query: Query, hints: &Hints) -> Result<Vec<(usize, DataType)>> {
        let plan = self.plan_told_apart(run, query, hints).await?;
        let mut types = Vec::new();
        let walked = plan.apply_with_subqueries(|plan| {
            plan.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = expr
                        && let Some(number) = id.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok())
                    {
                        types.push((number, field.data_type().clone()));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        walked.map_err(|error| crate::errors::error_of(&error))?;
        Ok(types)
    }
}

/// NULLs of these types, or of none.
fn nulls<'a>(types: impl Iterator<Item = Option<&'a DataType>>) -> Result<Vec<ScalarValue>> {
    let null = |known: Option<&DataType>| known.map_or(Ok(ScalarValue::Null), ScalarValue::try_from);
    let nulls = types.map(null).collect::<Result<Vec<ScalarValue>, _>>();
    nulls.map_err(|error| Error::internal(format!("a type has no NULL: {error}")))
}

/// What nothing says of is text.
fn or_text(types: Vec<Option<DataType>>) -> Vec<DataType> {
    types.into_iter().map(|known| known.unwrap_or(DataType::Utf8View)).collect()
}
