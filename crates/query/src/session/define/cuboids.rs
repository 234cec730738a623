//! `CALL alluvia.pin_cuboid`, `unpin_cuboid`, `drop_cuboid`.

use crate::answer::{Pinned, Shape};
use crate::execution::blocking::blocking;
use crate::session::run::outcome::Outcome;
use crate::session::state::scope::Scope;
use alluvia_catalog::TableEntry;
use alluvia_catalog::authoriser::Need;
use alluvia_syntax::CuboidName;
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Builds a cuboid, if it is not there, and keeps it.
pub(crate) async fn pin_cuboid(scope: &Scope, name: CuboidName) -> Result<Outcome> {
    let entry = scope.table_for(Need::Ownership, &name.table)?;
    let shape = Shape::named(&entry.def, &name)?;
    let engine = Arc::clone(&scope.engine);
    let pinned = blocking(move || engine.pin_cuboid(&entry, &shape)).await?;
    let outcome = Outcome::done("CALL");
    Ok(match pinned {
        Pinned::Now => outcome,
        Pinned::Later => outcome.with_notice("the table has no sorted rows: the cuboid is built once it has some"),
    })
}

/// From now on the cuboid may be evicted, or with `forget` it is gone; statements that ask for its shape bring it back.
pub(crate) async fn unpin_cuboid(scope: &Scope, name: CuboidName, forget: bool) -> Result<Outcome> {
    let entry = scope.table_for(Need::Ownership, &name.table)?;
    let shape = Shape::named(&entry.def, &name)?;
    let (engine, meant, measures) = (Arc::clone(&scope.engine), shape.clone(), name.measures.is_some());
    let dimensions: Vec<usize> = entry.def.levels().map(|(dimension, _, _)| dimension).collect();
    // One may just be built.
    match blocking(move || engine.unpin_cuboid(&meant, &dimensions, measures, forget)).await? {
        0 => Err(no_cuboid(if forget { "" } else { "pinned " }, &entry, &shape, &name)),
        _ => Ok(Outcome::done("CALL")),
    }
}

fn no_cuboid(what: &str, entry: &TableEntry, shape: &Shape, name: &CuboidName) -> Error {
    let measures = match name.measures {
        None => String::new(),
        Some(_) => format!(" of {}", shape.show_measures(&entry.def)),
    };
    let message =
        format!("table '{}' has no {what}cuboid over ({}){measures}", entry.def.name, shape.show_levels(&entry.def));
    Error::new(ErrorKind::UndefinedObject, message).with_hint("alluvia.cuboids lists them")
}
