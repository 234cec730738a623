//! What the catalog is told by whoever is above it: who looks at it, and the facts that its tables show.
//!
//! Invariant: nothing here is computed before a table or a function asks for it.

use crate::system_tables::SystemTables;
use alluvia_catalog::Catalog;
use alluvia_catalog::authoriser::Authoriser;
use alluvia_locks::Locks;
use alluvia_snapshot::Admin;
use datafusion::catalog::Session;
use datafusion::common::DataFusionError;
use std::fmt::Debug;
use std::sync::Arc;

/// Who looks at the catalog, and what there is for them beside what users made.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// What they may, now, and where their names are looked up.
    pub authoriser: Authoriser,
    /// What is there for everybody.
    pub system: &'static SystemTables,
}

/// One setting, as `alluvia.settings`, `pg_settings` and SHOW ALL show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingRow {
    /// Its name.
    pub name: String,
    /// Its value now, as SHOW prints it.
    pub value: String,
    /// Its value after RESET.
    pub default_value: String,
    /// `session`, `client` or `database`.
    pub scope: &'static str,
    /// What it does, in one sentence.
    pub description: String,
}

/// The settings of a session, as they are shown.
pub trait SettingsView: Send + Sync + Debug {
    /// All settings, in name order.
    fn settings(&self) -> Vec<SettingRow>;

    /// What SHOW prints of a setting of the session; `None` if there is none of this name, or it is the database's.
    fn shown(&self, name: &str) -> Option<String>;
}

/// The database as a statement's tables of the catalog describe it; put into `SessionConfig` with `set_extension`.
#[derive(Debug)]
pub struct CatalogContext {
    /// The definitions of the snapshot that the statement reads.
    pub catalog: Arc<Catalog>,
    /// Tells how many rows and bytes tables have.
    pub admin: Arc<dyn Admin>,
    /// The locks of all sessions.
    pub locks: Arc<Locks>,
    /// The session's settings.
    pub settings: Arc<dyn SettingsView>,
    /// Who asks.
    pub viewer: Viewer,
}

impl CatalogContext {
    /// The context of the statement that is being planned.
    pub(crate) fn of(session: &dyn Session) -> Result<Arc<CatalogContext>, DataFusionError> {
        session
            .config()
            .get_extension::<CatalogContext>()
            .ok_or_else(|| DataFusionError::Internal("a system table was planned outside Session::execute".to_owned()))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use alluvia_catalog::authoriser::Who;
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::LazyLock;

    /// The process itself, in a database without users' tables whose schema `alluvia` has one table.
    pub(crate) fn viewer() -> Viewer {
        static SYSTEM: LazyLock<SystemTables> = LazyLock::new(|| {
            let columns = vec![Field::new("version", DataType::Int64, true)];
            SystemTables::new(vec![("batches", Arc::new(Schema::new(columns)))])
        });
        Viewer { authoriser: Authoriser::new(Who::embedded(), "".into(), Arc::default()), system: &SYSTEM }
    }
}
