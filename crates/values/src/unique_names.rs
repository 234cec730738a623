//! Names of columns for readers who know columns by their names: Arrow, Parquet, JSON, data frames.
//!
//! SQL gives two columns of an answer one name (`SELECT sum(a), sum(b)`); such readers would keep one of them, or refuse both.

use arrow::datatypes::{Field, Schema, SchemaRef};
use std::collections::HashSet;
use std::sync::Arc;

/// The columns, each under a name of its own: one that comes again gets `_1`, `_2`, and so on. Itself if all names differ.
pub fn unique_names(schema: &SchemaRef) -> SchemaRef {
    let taken: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    if taken.len() == schema.fields().len() {
        return Arc::clone(schema);
    }
    let mut seen: HashSet<String> = HashSet::new();
    let fields = schema.fields().iter().map(|field| {
        let mut name = field.name().clone();
        let mut again = 0;
        // Not a name that another column has by itself.
        while seen.contains(&name) || again > 0 && taken.contains(name.as_str()) {
            again += 1;
            name = format!("{}_{again}", field.name());
        }
        seen.insert(name.clone());
        if name == *field.name() { Arc::clone(field) } else { Arc::new(field.as_ref().clone().with_name(name)) }
    });
    let fields: Vec<Arc<Field>> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    #[test]
    fn names_that_come_again_get_numbers() {
        for (names, wanted) in [
            ("a b", "a b"),
            ("sum sum count sum", "sum sum_1 count sum_2"),
            ("a a a_1", "a a_2 a_1"),
            ("a_1 a a", "a_1 a a_2"),
            ("", ""),
        ] {
            let names: Vec<&str> = names.split_whitespace().collect();
            let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
            let made = unique_names(&Arc::new(Schema::new(fields)));
            let made: Vec<&str> = made.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!(made.join(" "), wanted);
        }
    }
}
