//! Prepared statements and portals of a connection, with their bounds. A portal is a statement with its values, and with its answer once it
//! has begun.

use crate::bounded_map::Bounds;
use crate::types::{Rows, changed, of_field, oid};
use crate::wire::Field;
use alluvia_query::{Described, Origin, Outcome, ScalarValue};
use alluvia_syntax::{Command, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Prepared statements that a connection may have: their texts and trees, and what is known of their columns.
pub(crate) const PREPARED: Bounds = Bounds {
    what: "prepared statements",
    count_max: 10_000,
    bytes_max: 16 << 20,
    hint: "DEALLOCATE (or Close) those that are done with; the bytes of a statement without a name do not count",
};
/// Portals that a connection may have: the texts and trees of their statements, and their values.
pub(crate) const PORTALS: Bounds = Bounds {
    what: "portals",
    count_max: 1_000,
    bytes_max: 16 << 20,
    hint: "Close those that are done with, or end the transaction; the bytes of a portal without a name do not count",
};
/// A statement that was parsed, and may be run many times.
pub(crate) struct Prepared {
    /// The statement, with what the session has learnt of it. `None` for a text without a statement.
    pub(crate) statement: Option<alluvia_query::Prepared>,
    /// The types of its parameters as the client stated them; 0 where it did not.
    pub(crate) types: Vec<u32>,
    /// Of its text and these types.
    pub(crate) bytes: usize,
    /// Found when it is first asked for: finding it plans the statement.
    pub(crate) described: Mutex<Option<Arc<Described>>>,
    /// Whether the client was told.
    pub(crate) is_told: AtomicBool,
}

impl Prepared {
    /// The statement, without values for its parameters.
    pub(crate) fn statement(&self) -> Option<&Statement> {
        self.statement.as_ref().map(|prepared| prepared.statement())
    }

    /// What a portal runs with these values: what reads or changes rows by what the session has learnt of it.
    ///
    /// # Errors
    /// Those of [`Statement::bind`].
    pub(crate) fn to_run(&self, values: Vec<ScalarValue>) -> Result<Option<ToRun>> {
        let Some(prepared) = &self.statement else { return Ok(None) };
        let statement = prepared.statement();
        let is_of_rows = matches!(statement.command(), Command::Query | Command::Change);
        Ok(Some(match statement.parameters() > 0 && is_of_rows {
            true => ToRun::Kept(prepared.clone(), values),
            false => ToRun::Whole(Box::new(statement.bind(&values)?)),
        }))
    }
}

/// What is run.
pub(crate) enum ToRun {
    /// A statement in which its values are written.
    Whole(Box<Statement>),
    /// A statement that the session keeps, and its values.
    Kept(alluvia_query::Prepared, Vec<ScalarValue>),
}

impl ToRun {
    /// The statement, perhaps without its values.
    pub(crate) fn statement(&self) -> &Statement {
        match self {
            ToRun::Whole(statement) => statement,
            ToRun::Kept(prepared, _) => prepared.statement(),
        }
    }
}

/// A statement with its values.
pub(crate) struct Portal {
    /// Taken when it begins; `None` from the start for a text without a statement.
    pub(crate) statement: Option<ToRun>,
    pub(crate) is_empty: bool,
    /// As the client asked: none, one for all, or one for each column.
    pub(crate) formats: Vec<i16>,
    /// The columns that the client knows, if it was told before the portal began.
    pub(crate) columns: Option<SchemaRef>,
    /// Where these are from.
    pub(crate) origins: Arc<[Option<Origin>]>,
    pub(crate) begun: Option<Answer>,
    /// Savepoints that its transaction had when it was made, but for those that were released since: it goes with the last of them.
    pub(crate) savepoints: usize,
    /// Of its name, its statement and its values.
    pub(crate) bytes: usize,
}

impl Portal {
    /// The columns that the client knows, as it gets them.
    pub(crate) fn announced(&self) -> Result<Option<Vec<Field>>> {
        let Some(columns) = &self.columns else { return Ok(None) };
        let formats = each_format(&self.formats, columns.fields().len())?;
        Ok(Some(fields(columns, &formats, &self.origins)))
    }
}

/// A statement's answer on its way to the client.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// What its columns were announced as.
    pub(crate) schema: Option<SchemaRef>,
    pub(crate) formats: Vec<i16>,
    /// The batch that is being sent, and the row that comes next.
    pub(crate) current: Option<(Rows, usize)>,
    pub(crate) is_over: bool,
    /// When the time of its statement is over, by the monotonic clock.
    pub(crate) until: Option<Duration>,
}

/// How far sending rows came.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// All rows are out; the command tag.
    All(String),
    /// As many as were asked for are out, and there may be more.
    Enough,
}

impl Answer {
    /// An answer that begins, of a statement that has time until then. `announced` is what the client believes of its columns.
    pub(crate) fn new(
        outcome: Outcome,
        announced: Option<SchemaRef>,
        formats: &[i16],
        until: Option<Duration>,
    ) -> Result<Answer> {
        let given = outcome.rows.as_ref().map(|rows| rows.schema());
        // Also where there are no rows to tell by.
        if let (Some(given), Some(announced)) = (&given, &announced)
            && given.fields().len() != announced.fields().len()
        {
            return Err(changed());
        }
        let schema = given.map(|given| announced.unwrap_or(given));
        let columns = schema.as_ref().map_or(0, |schema| schema.fields().len());
        let formats = each_format(formats, columns)?;
        Ok(Answer { outcome, schema, formats, current: None, is_over: false, until })
    }

    /// Its columns; `None` if it gives no rows.
    pub(crate) fn fields(&self) -> Option<Vec<Field>> {
        Some(fields(self.schema.as_ref()?, &self.formats, self.outcome.origins()))
    }
}

/// The format of each of `columns` columns.
fn each_format(asked: &[i16], columns: usize) -> Result<Vec<i16>> {
    match asked {
        [] => Ok(vec![0; columns]),
        [all] => Ok(vec![*all; columns]),
        each if each.len() == columns || columns == 0 => Ok(each.to_vec()),
        each => Err(Error::new(ErrorKind::Protocol, format!("{} result formats for {columns} columns", each.len()))),
    }
}

/// Columns as they are announced.
pub(crate) fn fields(schema: &SchemaRef, formats: &[i16], origins: &[Option<Origin>]) -> Vec<Field> {
    let field = |(at, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let (mut type_oid, type_size, mut type_modifier) = of_field(field);
        let format = formats.get(at).copied().unwrap_or(0);
        let origin = origins.get(at).copied().flatten();
        if let (oid::TEXT, Some(chars_max)) = (type_oid, origin.and_then(|origin| origin.chars_max)) {
            (type_oid, type_modifier) = (oid::VARCHAR, i32::try_from(chars_max).map_or(-1, |chars_max| chars_max + 4));
        }
        let (table_oid, attribute) = origin.map_or((0, 0), |origin| (origin.table_oid, origin.column));
        Field { name: field.name().clone(), table_oid, attribute, type_oid, type_size, type_modifier, format }
    };
    schema.fields().iter().enumerate().map(field).collect()
}
