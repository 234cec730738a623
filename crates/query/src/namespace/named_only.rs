//! The relations that a statement may read by their names: those that it was seen to name, and that it was allowed.
//!
//! Invariant: whatever name planning looks up, it gets no relation that `session::select::pin` was not asked about. That one is pinned is not
//! enough: it may be for a view that reads it. And along the path a name may mean another by now.

use alluvia_catalog::{Catalog, RelationName, SearchPath};
use alluvia_types::{Error, ErrorKind, TableId};
use alluvia_values::errors::wrap;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A schema, or what is along the path, of which a statement sees what it may.
#[derive(Debug)]
pub(super) struct NamedOnly {
    pub(super) tables: Arc<dyn SchemaProvider>,
    pub(super) catalog: Arc<Catalog>,
    /// `None` for what is along the path.
    pub(super) schema: Option<String>,
    pub(super) path: Arc<SearchPath>,
    pub(super) named: Arc<BTreeSet<TableId>>,
}

#[async_trait]
impl SchemaProvider for NamedOnly {
    fn table_names(&self) -> Vec<String> {
        self.tables.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let relation = RelationName { schema: self.schema.clone(), name: name.to_owned() };
        match self.catalog.id_of(&relation, &self.path) {
            Some(id) if !self.named.contains(&id) => Err(wrap(unnamed(&relation))),
            _ => self.tables.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.table_exist(name)
    }
}

/// Another session may have made it along the path since the statement's names were looked up.
fn unnamed(relation: &RelationName) -> Error {
    Error::new(ErrorKind::Conflict, format!("{relation} is not what the statement was allowed to read"))
        .with_hint("run the statement again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::tables::SnapshotCatalog;
    use alluvia_catalog::Change;
    use alluvia_space::DataType;
    use alluvia_syntax::names::ALONG_PATH;
    use alluvia_syntax::statements::definitions::{WithOptions, define};
    use alluvia_types::Version;
    use alluvia_values::errors::user_error;
    use datafusion::catalog::CatalogProvider;

    #[tokio::test]
    async fn what_was_not_named_is_not_found_by_any_name() {
        let columns = [("a".to_owned(), DataType::Int32.into(), true)];
        let def = |id, name| define(TableId(id), ("public", name), &columns, &WithOptions::default(), 7).unwrap();
        let changes = [(1, "seen"), (2, "secret")].map(|(id, name)| Change::CreateTable { def: def(id, name) });
        let catalog = Arc::new(Catalog::default().apply(Version(1), &changes).unwrap());
        let path = Arc::<SearchPath>::default();
        let all = SnapshotCatalog::new(Arc::clone(&catalog), Arc::clone(&path));
        for (within, schema) in [(ALONG_PATH, None), ("public", Some("public".to_owned()))] {
            let (tables, named) = (all.schema(within).expect("is there"), Arc::new(BTreeSet::from([TableId(1)])));
            let only = NamedOnly { tables, catalog: Arc::clone(&catalog), schema, path: Arc::clone(&path), named };
            assert!(only.table("seen").await.expect("was named").is_some());
            let error = only.table("secret").await.expect_err("was not");
            assert_eq!(user_error(&error).expect("ours").kind(), ErrorKind::Conflict);
            let error = only.table("nothing").await.expect_err("is not there");
            assert_eq!(user_error(&error).expect("ours").kind(), ErrorKind::UndefinedTable);
        }
    }
}
