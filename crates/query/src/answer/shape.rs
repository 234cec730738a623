//! What the answers of a statement's shape look like.
//!
//! Invariant: names and types of an answer's columns are the planner's own: it plans one statement of each shape, and its
//! schema is remembered for as long as the table's definition is the same.

use super::statement::{Group, Item};
use alluvia_types::{TableId, Version};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Shapes remembered; beyond, all are forgotten.
const SHAPES_MAX: usize = 4096;

/// Everything about a statement that the schema of its answer depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ShapeKey {
    pub(crate) table: TableId,
    pub(crate) changed_at: Version,
    pub(crate) items: Vec<Item>,
    pub(crate) groups: Vec<Group>,
    /// The items as written, which name the columns.
    pub(crate) labels: Vec<String>,
}

/// Schemas by shape.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    known: Mutex<HashMap<ShapeKey, SchemaRef>>,
}

impl Shapes {
    /// The schema of a shape's answers, if one of it was planned.
    pub(crate) fn get(&self, key: &ShapeKey) -> Option<SchemaRef> {
        self.known.lock().get(key).map(Arc::clone)
    }

    /// Remembers a schema.
    pub(crate) fn insert(&self, key: ShapeKey, schema: SchemaRef) {
        let mut known = self.known.lock();
        if known.len() >= SHAPES_MAX {
            known.clear();
        }
        known.insert(key, schema);
    }
}
