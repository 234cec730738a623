//! Functions of the catalog that depend on what they are given. Those that do not become constants, in `rewrite`.

use crate::context::Viewer;
use crate::definitions::list_of;
use crate::relations::is_visible;
use crate::{comments, constraints, defaults, keys, procedures, reg, rights, types, views};
use alluvia_catalog::Catalog;
use alluvia_functions::text::format::literal;
use alluvia_snapshot::Admin;
use alluvia_space::keywords::quoted;
use alluvia_types::Stage;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The name that `rewrite` gives to what a column of functions is made a number by.
pub(crate) const PROCEDURE: &str = "pg_catalog_procedure";

pub(crate) type Work = Arc<dyn Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync>;

/// Gives a statement the functions of the catalog.
pub fn register(state: &mut SessionState, catalog: &Arc<Catalog>, admin: &dyn Admin, viewer: &Viewer) -> Result<()> {
    let mut own = Vec::new();
    let mut add = |name: &str, arguments: Vec<DataType>, gives: DataType, work: Work| -> Result<()> {
        own.push(procedures::Own { name: name.to_owned(), arguments: arguments.clone(), result: gives.clone() });
        let run = move |arguments: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            work(&arrays).map(ColumnarValue::Array)
        };
        state.register_udf(Arc::new(create_udf(name, arguments, gives, Volatility::Stable, Arc::new(run))))?;
        Ok(())
    };
    let int = || DataType::Int64;
    let text = || DataType::Utf8View;
    add(
        "format_type",
        vec![int(), int()],
        text(),
        Arc::new(|arguments| {
            let (oids, modifiers) = (ints(&arguments[0])?, ints(&arguments[1])?);
            let format = |at: usize| {
                let modifier = modifiers.is_valid(at).then(|| modifiers.value(at));
                oids.is_valid(at).then(|| types::format(oids.value(at), modifier))
            };
            Ok(Arc::new(StringViewArray::from_iter((0..oids.len()).map(format))))
        }),
    )?;
    let of_oid = |gives: Arc<dyn Fn(i64) -> Option<String> + Send + Sync>| -> Work {
        Arc::new(move |arguments| {
            let oids = ints(&arguments[0])?;
            Ok(Arc::new(StringViewArray::from_iter(oids.iter().map(|oid| oid.and_then(|oid| gives(oid))))))
        })
    };
    add(
        PROCEDURE,
        vec![text()],
        int(),
        Arc::new(|arguments| {
            let names = cast(&arguments[0], &DataType::Utf8View)?;
            // What a type or a method does not have is 0.
            let number = |name: Option<&str>| Some(name.and_then(procedures::by_name).unwrap_or(0));
            Ok(Arc::new(Int64Array::from_iter(names.as_string_view().iter().map(number))))
        }),
    )?;
    for (name, told) in [
        ("pg_get_function_result", procedures::result as fn(i64) -> Option<String>),
        ("pg_get_function_arguments", procedures::arguments),
        ("pg_get_function_identity_arguments", procedures::arguments),
        ("pg_get_functiondef", procedures::definition),
    ] {
        add(name, vec![int()], text(), of_oid(Arc::new(told)))?;
    }
    let definitions = Arc::clone(catalog);
    add(
        keys::CONSTRAINT_TEXT,
        vec![int()],
        text(),
        of_oid(Arc::new(move |oid| constraints::constraint_text(&definitions, oid))),
    )?;
    let definitions = Arc::clone(catalog);
    add(views::VIEW_TEXT, vec![int()], text(), of_oid(Arc::new(move |oid| views::text(&definitions, oid))))?;
    let definitions = Arc::clone(catalog);
    add(
        keys::INDEX_TEXT,
        vec![int(), int()],
        text(),
        Arc::new(move |arguments| {
            let (oids, columns) = (ints(&arguments[0])?, ints(&arguments[1])?);
            let told = oids.iter().zip(&columns);
            let told = told.map(|(oid, column)| constraints::index_text(&definitions, oid?, column.unwrap_or(0)));
            Ok(Arc::new(StringViewArray::from_iter(told)))
        }),
    )?;
    for (name, first) in [(keys::PLACES, 1), (keys::PLACES_OF_VECTOR, 0)] {
        let places: Work = Arc::new(move |arguments| Ok(keys::places(&arguments[0], first)));
        add(name, vec![list_of(DataType::Int16)], list_of(DataType::Int64), places)?;
    }
    let definitions = viewer.clone();
    add(
        "pg_table_is_visible",
        vec![int()],
        DataType::Boolean,
        Arc::new(move |arguments| {
            let oids = ints(&arguments[0])?;
            let visible = oids.iter().map(|oid| oid.map(|oid| is_visible(&definitions, oid)));
            Ok(Arc::new(BooleanArray::from_iter(visible)))
        }),
    )?;
    let mut bytes: HashMap<i64, i64> = HashMap::new();
    for stage in admin.stages().iter().filter(|stage| stage.stage != Stage::Ingested) {
        *bytes.entry(crate::relations::table_oid(stage.table.0)).or_default() += stage.bytes as i64;
    }
    let all: i64 = bytes.values().sum();
    // Of a table that may not be read the size is not told either.
    let untold = catalog.tables().filter(|entry| !viewer.authoriser.may_read(entry));
    let untold: HashSet<i64> = untold.map(|entry| crate::relations::table_oid(entry.def.id.0)).collect();
    let (bytes, untold) = (Arc::new(bytes), Arc::new(untold));
    for name in ["pg_relation_size", "pg_table_size", "pg_total_relation_size"] {
        let (bytes, untold) = (Arc::clone(&bytes), Arc::clone(&untold));
        add(
            name,
            vec![int()],
            int(),
            Arc::new(move |arguments| {
                let oids = ints(&arguments[0])?;
                let told = |oid: &i64| !untold.contains(oid);
                let size = |oid: Option<i64>| oid.filter(told).map(|oid| bytes.get(&oid).copied().unwrap_or(0));
                Ok(Arc::new(Int64Array::from_iter(oids.iter().map(size))))
            }),
        )?;
    }
    // There is one database in one tablespace.
    for name in ["pg_database_size", "pg_tablespace_size"] {
        add(
            name,
            vec![text()],
            int(),
            Arc::new(move |arguments| Ok(Arc::new(Int64Array::from_value(all, arguments[0].len())))),
        )?;
    }
    add(
        "pg_size_pretty",
        vec![int()],
        text(),
        Arc::new(|arguments| {
            let sizes = ints(&arguments[0])?;
            Ok(Arc::new(StringViewArray::from_iter(sizes.iter().map(|size| size.map(pretty)))))
        }),
    )?;
    rights::register(&mut add, viewer)?;
    comments::register(&mut add, catalog)?;
    defaults::register(&mut add, viewer)?;
    let quotes = [
        ("quote_ident", quoted as fn(&str) -> String, None),
        ("quote_literal", literal, None),
        ("quote_nullable", literal, Some("NULL")),
    ];
    for (name, quote, of_null) in quotes {
        add(
            name,
            vec![text()],
            text(),
            Arc::new(move |arguments| {
                let texts = cast(&arguments[0], &DataType::Utf8View)?;
                let null = || of_null.map(str::to_owned);
                let quoted = texts.as_string_view().iter().map(|text| text.map(quote).or_else(null));
                Ok(Arc::new(StringViewArray::from_iter(quoted)))
            }),
        )?;
    }
    procedures::remember(own);
    for function in reg::functions(viewer) {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

pub(crate) fn ints(array: &ArrayRef) -> Result<Int64Array, DataFusionError> {
    Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// As PostgreSQL's `pg_size_pretty`: in the unit below which there would be five digits.
fn pretty(bytes: i64) -> String {
    let mut size = bytes;
    for unit in ["bytes", "kB", "MB", "GB"] {
        if size.abs() < 10 * 1024 {
            return format!("{size} {unit}");
        }
        size = (size + 512) / 1024;
    }
    format!("{size} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_look_as_in_postgresql() {
        assert_eq!((quoted("a_1"), quoted("A\"b"), quoted("1a")), ("a_1".into(), "\"A\"\"b\"".into(), "\"1a\"".into()));
        assert_eq!(
            (pretty(0), pretty(10_239), pretty(10_240), pretty(3 << 30)),
            ("0 bytes".into(), "10239 bytes".into(), "10 kB".into(), "3072 MB".into())
        );
    }
}
