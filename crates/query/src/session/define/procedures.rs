//! CALL: flushes, merges, cuboids, purges, and the end of what another session runs.

use crate::execution::blocking::blocking;
use crate::session::define::cuboids::{pin_cuboid, unpin_cuboid};
use crate::session::define::purge::purge;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use alluvia_catalog::authoriser::Need;
use alluvia_syntax::statement::Procedure;
use alluvia_types::{Result, SegmentId, Stage};
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
        Procedure::ForgetSegment { table, segment, is_told } => {
            let (entry, engine) = (scope.table_for(Need::Ownership, &table)?, Arc::clone(&scope.engine));
            let told = blocking(move || engine.forget_segment(entry.def.id, SegmentId(segment), is_told)).await?;
            return Ok(told.into_iter().fold(Outcome::done("CALL"), Outcome::with_notice));
        }
    };
    let admin = Arc::clone(scope.engine.admin());
    blocking(move || admin.organise(stage)).await?;
    Ok(Outcome::done("CALL"))
}
