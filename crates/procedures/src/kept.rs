//! Compiled procedures that sessions share, each with what its statements were prepared to.
//!
//! Invariants:
//! - What is kept is known by the version of its definition, which no other definition ever has. One that has asked for columns' types is
//!   of the definitions and the search path that it asked by, too.
//! - It is bounded: where there would be too many, all of them go, and are compiled again when they are called.

use crate::definition::ProcedureDef;
use crate::program::{Compiled, Embedded};
use crate::{ColumnTypes, compile_with};
use alluvia_catalog::{RoutineEntry, SearchPath};
use alluvia_syntax::Kind;
use alluvia_syntax::statements::routines::RoutineStatement;
use alluvia_types::{Error, Result, TableId, Version};
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Procedures that are kept at most, and bytes that they hold, about.
const KEPT_MAX: usize = 1 << 10;
const BYTES_MAX: usize = 64 << 20;

/// A compiled procedure, and what its statements were prepared to.
pub struct Kept {
    compiled: Compiled,
    prepared: Box<[OnceLock<Box<dyn Any + Send + Sync>>]>,
    /// The definitions and the search path by which columns' types were asked for.
    by: Option<(Version, SearchPath)>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("compiled", &self.compiled).finish_non_exhaustive()
    }
}

impl Kept {
    /// Compiles a definition, with the types of columns as they are by definitions of a version, along a path.
    pub fn new(def: &ProcedureDef, columns: &ColumnTypes<'_>, version: Version, path: &SearchPath) -> Result<Kept> {
        let has_asked = Cell::new(false);
        let compiled = compile_with(def, &|parts| {
            has_asked.set(true);
            columns(parts)
        })?;
        let prepared = compiled.statements().iter().map(|_| OnceLock::new()).collect();
        Ok(Kept { compiled, prepared, by: has_asked.get().then(|| (version, path.clone())) })
    }

    /// The procedure.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// What one of its statements was prepared to, which `prepare` does the first time.
    pub fn prepared<P: Any + Send + Sync>(&self, of: &Embedded, prepare: impl FnOnce(&Embedded) -> P) -> Result<&P> {
        let place = self.prepared.get(of.number());
        let place = place.ok_or_else(|| Error::internal("a statement of another procedure is run"))?;
        let prepared = place.get_or_init(|| Box::new(prepare(of)));
        prepared.downcast_ref().ok_or_else(|| Error::internal("a statement was prepared to something else"))
    }

    fn holds(&self, version: Version, path: &SearchPath) -> bool {
        self.by.as_ref().is_none_or(|by| by.0 == version && by.1 == *path)
    }
}

/// Compiled procedures by their definitions.
#[derive(Debug, Default)]
pub struct KeptRoutines {
    all: Mutex<HashMap<(TableId, Version), Arc<Kept>>>,
}

impl KeptRoutines {
    /// The procedure of a definition, compiled now if it is not kept.
    pub fn get(
        &self,
        entry: &RoutineEntry,
        columns: &ColumnTypes<'_>,
        version: Version,
        path: &SearchPath,
    ) -> Result<Arc<Kept>> {
        let key = (entry.def.id, entry.changed_at);
        let all = || self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all().get(&key).filter(|kept| kept.holds(version, path)) {
            return Ok(Arc::clone(kept));
        }
        let kept = Arc::new(Kept::new(&ProcedureDef::of_entry(entry)?, columns, version, path)?);
        let mut all = all();
        let bytes: usize = all.values().map(|kept| kept.compiled.bytes()).sum();
        if all.len() >= KEPT_MAX || bytes + kept.compiled.bytes() > BYTES_MAX {
            all.clear();
        }
        // Of a procedure that was replaced nobody asks for the older definition any more.
        all.retain(|(id, _), _| *id != key.0);
        all.insert(key, Arc::clone(&kept));
        Ok(kept)
    }
}

impl ProcedureDef {
    /// What the catalog keeps, as it is.
    pub fn of_entry(entry: &RoutineEntry) -> Result<ProcedureDef> {
        let damaged = || Error::internal(format!("the definition of procedure {} is damaged", entry.def.shown()));
        let statement = alluvia_syntax::parse(&entry.def.show_create())?.pop().ok_or_else(damaged)?;
        match statement.kind {
            Kind::Routine(routine) => match *routine {
                RoutineStatement::Create(create) => ProcedureDef::of(&create, entry.def.schema.as_str()),
                RoutineStatement::Drop { .. } => Err(damaged()),
            },
            Kind::Refused(error) => Err(error),
            _ => Err(damaged()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::def_of;
    use alluvia_catalog::RoutineDef;
    use alluvia_space::DataType;

    fn entry(id: u32, version: u64, create: &str) -> RoutineEntry {
        let def = def_of(create);
        let sql = def.behind_name();
        let def = RoutineDef { id: TableId(id), schema: "public".to_owned(), name: def.name, sql };
        RoutineEntry { def: Arc::new(def), changed_at: Version(version) }
    }

    #[test]
    fn definitions_are_kept_by_their_versions() {
        let kept = KeptRoutines::default();
        let path = SearchPath::default();
        let get = |entry: &RoutineEntry, version: u64| {
            let columns = |_: &[String]| Some(DataType::Int32.into());
            kept.get(entry, &columns, Version(version), &path).unwrap()
        };
        let plain = entry(1, 5, "CREATE PROCEDURE p(INOUT a INT) LANGUAGE plpgsql AS $$ BEGIN a := a + 1; END $$");
        let first = get(&plain, 5);
        assert!(Arc::ptr_eq(&first, &get(&plain, 9)));
        assert_eq!(first.compiled().parameters().count(), 1);
        let replaced = RoutineEntry { changed_at: Version(6), ..plain.clone() };
        assert!(!Arc::ptr_eq(&first, &get(&replaced, 9)));
        let typed = entry(2, 7, "CREATE PROCEDURE q() LANGUAGE plpgsql AS $$ DECLARE x t.c%TYPE; BEGIN NULL; END $$");
        let by_nine = get(&typed, 9);
        assert!(Arc::ptr_eq(&by_nine, &get(&typed, 9)) && !Arc::ptr_eq(&by_nine, &get(&typed, 10)));
    }

    #[test]
    fn what_is_stored_is_what_was_written() {
        let create = "CREATE PROCEDURE \"P q\"(IN a VARCHAR(3), INOUT \"B\" NUMERIC(10, 2) DEFAULT 1.5, OUT c TIMESTAMP) \
                      LANGUAGE plpgsql AS $a$ BEGIN RAISE NOTICE '$procedure$'; END $a$";
        let stored = entry(1, 1, create);
        assert_eq!(ProcedureDef::of_entry(&stored).unwrap(), def_of(create), "{}", stored.def.show_create());
    }
}
