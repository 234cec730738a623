//! CALL: flushes, merges, cuboids, purges, and the end of what another session runs.

use crate::execution::blocking::blocking;
use crate::session::define::cuboids::{pin_cuboid, unpin_cuboid};
use crate::session::define::purge::purge;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use alluvia_syntax::statement::Procedure;
use alluvia_types::{Result, Stage};
use std::sync::Arc;

/// CALL.
pub(crate) async fn call(run: &Arc<Run>, procedure: Procedure) -> Result<Outcome> {
    let scope = &run.scope;
    scope.await_own_writes().await?;
    let stage = match procedure {
        Procedure::Flush => Stage::Sorted,
        Procedure::Merge => Stage::Merged,
        Procedure::BuildCuboids => {
            let engine = Arc::clone(&scope.engine);
            blocking(move || {
                while engine.tend_cuboids()? {}
                Ok(())
            })
            .await?;
            return Ok(Outcome::done("CALL"));
        }
        Procedure::PinCuboid(name) => return pin_cuboid(scope, name).await,
        Procedure::UnpinCuboid(name) => return unpin_cuboid(scope, name, false).await,
        Procedure::Cancel(id) => {
            let authoriser = scope.authoriser();
            scope.engine.sessions().cancel(id, |who| match authoriser.sees(who) {
                true => Ok(()),
                false => authoriser.superuser("cancel another's statement"),
            })?;
            return Ok(Outcome::done("CALL"));
        }
        Procedure::DropCuboid(name) => return unpin_cuboid(scope, name, true).await,
        Procedure::Purge(table) => return purge(run, table).await,
    };
    let admin = Arc::clone(scope.engine.admin());
    blocking(move || admin.organise(stage)).await?;
    Ok(Outcome::done("CALL"))
}
