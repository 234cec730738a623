//! UPDATE and DELETE of rows that a subquery locks: its rows are found and locked first, and are constants of the statement then.

use crate::errors::from_datafusion;
use crate::session::change::locking::locking;
use crate::session::run::Run;
use alluvia_change::{locked_query, put_in_place};
use alluvia_syntax::Hints;
use alluvia_syntax::parameters::literal;
use alluvia_syntax::statements::changes::{Delete, Update};
use alluvia_syntax::statements::locking::{Locking, RowLock};
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Query;
use futures::StreamExt;
use std::sync::Arc;

/// An UPDATE that asks for no rows to be locked.
pub(super) async fn settled_update(run: &Arc<Run>, update: &Update, hints: &Hints) -> Result<Update> {
    let mut update = update.clone();
    let locked = std::mem::take(&mut update.locked);
    settle(run, &mut update.query, locked, hints).await?;
    Ok(update)
}

/// A DELETE that asks for none.
pub(super) async fn settled_delete(run: &Arc<Run>, delete: &Delete, hints: &Hints) -> Result<Delete> {
    let mut delete = delete.clone();
    let locked = std::mem::take(&mut delete.locked);
    settle(run, &mut delete.query, locked, hints).await?;
    Ok(delete)
}

async fn settle(run: &Arc<Run>, query: &mut Query, locked: Vec<Vec<RowLock>>, hints: &Hints) -> Result<()> {
    for (number, locks) in locked.into_iter().enumerate() {
        let asked = locked_query(query, number);
        let asked = asked.ok_or_else(|| Error::internal("a subquery whose rows are locked is not there"))?;
        let outcome = locking(run, Locking { query: asked, locks }, hints).await?;
        let mut rows = outcome.rows.ok_or_else(|| Error::internal("a query that locks rows gives none"))?;
        let schema = rows.schema();
        let [field] = schema.fields().as_ref() else {
            return Err(Error::new(ErrorKind::Syntax, "a subquery has too many columns")
                .with_hint("one column is compared with one value: select it alone"));
        };
        let mut values = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(from_datafusion)?;
            for row in 0..batch.num_rows() {
                let value = ScalarValue::try_from_array(batch.column(0), row);
                let value = value.map_err(|error| Error::internal(format!("a row has no value: {error}")))?;
                values.push(literal(&value)?);
            }
        }
        let null = ScalarValue::try_from(field.data_type())
            .map_err(|error| Error::internal(format!("a type has no NULL: {error}")))?;
        put_in_place(query, number, values, literal(&null)?)?;
        // What follows reads what is newest then: the rows are locked.
        run.unpin();
    }
    Ok(())
}
