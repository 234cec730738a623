//! What the answers of statements look like.
//!
//! Invariant: names and types of an answer's columns are the planner's own: it plans one of the statements that differ in their
//! conditions alone, and its schema is remembered for as long as the table's definition is the same.

use super::statement::{Group, Item};
use alluvia_types::{TableId, Version};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Schemas remembered; beyond, all are forgotten.
const SCHEMAS_MAX: usize = 4096;

/// Everything about a statement that the schema of its answer depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SchemaKey {
    /// The table.
    pub table: TableId,
    /// When its definition was changed last.
    pub changed_at: Version,
    /// The answer's columns.
    pub items: Vec<Item>,
    /// What rows are grouped by.
    pub groups: Vec<Group>,
    /// The items as written, which name the columns.
    pub labels: Vec<String>,
}

/// Schemas of answers.
#[derive(Debug, Default)]
pub struct Schemas {
    known: Mutex<HashMap<SchemaKey, SchemaRef>>,
}

impl Schemas {
    /// The schema, if a statement of this key was planned.
    pub fn get(&self, key: &SchemaKey) -> Option<SchemaRef> {
        self.known.lock().get(key).map(Arc::clone)
    }

    /// Remembers a schema.
    pub fn insert(&self, key: SchemaKey, schema: SchemaRef) {
        let mut known = self.known.lock();
        if known.len() >= SCHEMAS_MAX {
            known.clear();
        }
        known.insert(key, schema);
    }
}
