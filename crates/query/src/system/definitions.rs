//! `alluvia.tables`, `alluvia.columns`, `alluvia.dimensions`: the definitions, as of the statement's snapshot.

use super::build::{Cell, Kind};
use crate::system::SystemContext;
use alluvia_rows::is_waiting;
use alluvia_space::{Curve, KeyRange, LevelSource, TableDef, ZoneRules};
use alluvia_types::{ColumnId, Stage, TableId};
use std::collections::HashMap;

/// Columns of `alluvia.tables`.
pub(crate) const TABLES: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("table_id", Kind::Count),
    ("columns", Kind::Count),
    ("dimensions", Kind::Count),
    ("measures", Kind::Text),
    ("curve", Kind::Text),
    ("freshness", Kind::Text),
    ("ladder", Kind::Text),
    ("rows", Kind::Count),
    ("bytes", Kind::Count),
    ("changed_at", Kind::Count),
    ("table_schema", Kind::Text),
    ("dead_rows", Kind::Count),
    ("closed", Kind::Text),
];

/// Columns of `alluvia.columns`.
pub(crate) const COLUMNS: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("position", Kind::Count),
    ("column_name", Kind::Text),
    ("data_type", Kind::Text),
    ("nullable", Kind::Text),
    ("role", Kind::Text),
    ("dimension", Kind::Text),
    ("storage_name", Kind::Text),
    ("table_schema", Kind::Text),
];

/// Columns of `alluvia.dimensions`.
pub(crate) const DIMENSIONS: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("dimension", Kind::Text),
    ("position", Kind::Count),
    ("level", Kind::Text),
    ("source", Kind::Text),
    ("column_name", Kind::Text),
    ("bits", Kind::Count),
    ("range", Kind::Text),
    ("table_schema", Kind::Text),
];

pub(crate) fn tables(context: &SystemContext) -> Vec<Vec<Cell>> {
    let mut sizes: HashMap<TableId, [u64; 3]> = HashMap::new();
    for stage in context.admin.stages() {
        let [rows, dead, bytes] = sizes.entry(stage.table).or_default();
        *rows += stage.rows;
        *dead += stage.dead_rows;
        *bytes += if stage.stage == Stage::Ingested { 0 } else { stage.bytes };
    }
    let closed = context.admin.closed();
    let row = |entry: &std::sync::Arc<alluvia_catalog::TableEntry>| {
        let def = &entry.def;
        // Definitions are everybody's; how many rows there are is for those who may read them.
        let may_read = context.authoriser.may_read(entry);
        let [rows, dead, bytes] = sizes.get(&def.id).copied().unwrap_or_default();
        let measures: Vec<&str> = def.measures.iter().map(|&id| column_name(def, id)).collect();
        vec![
            def.name.as_str().into(),
            u64::from(def.id.0).into(),
            def.columns.len().into(),
            def.dimensions.len().into(),
            (!measures.is_empty()).then(|| measures.join(", ")).into(),
            curve(def.options.curve).into(),
            def.options.freshness.clone().into(),
            def.options.ladder.name().into(),
            may_read.then_some(rows).into(),
            may_read.then_some(bytes).into(),
            (!is_waiting(entry.changed_at)).then_some(entry.changed_at.0).into(),
            def.schema.as_str().into(),
            may_read.then_some(dead).into(),
            closed.get(&def.id).cloned().into(),
        ]
    };
    context.snapshot.catalog.tables().map(row).collect()
}

pub(crate) fn columns(context: &SystemContext) -> Vec<Vec<Cell>> {
    let rows_of = |entry: &std::sync::Arc<alluvia_catalog::TableEntry>| {
        let def = std::sync::Arc::clone(&entry.def);
        let row = |(at, column): (usize, &alluvia_space::Column)| {
            let dimensions: Vec<&str> = def
                .dimensions
                .iter()
                .filter(|dimension| dimension.levels.iter().any(|level| level.source.column() == column.id))
                .map(|dimension| dimension.name.as_str())
                .collect();
            let role = match (dimensions.is_empty(), def.measures.contains(&column.id)) {
                (false, false) => "dimension",
                (false, true) => "dimension, measure",
                (true, true) => "measure",
                (true, false) => "plain",
            };
            vec![
                def.name.as_str().into(),
                (at + 1).into(),
                column.name.as_str().into(),
                column.sql_type().into(),
                if def.takes_null(column) { "YES" } else { "NO" }.into(),
                role.into(),
                (!dimensions.is_empty()).then(|| dimensions.join(", ")).into(),
                column.storage_name.as_str().into(),
                def.schema.as_str().into(),
            ]
        };
        def.columns.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    context.snapshot.catalog.tables().flat_map(rows_of).collect()
}

pub(crate) fn dimensions(context: &SystemContext) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for entry in context.snapshot.catalog.tables() {
        let def = &entry.def;
        for (dimension, position, level) in def.levels() {
            let dimension = &def.dimensions[dimension];
            rows.push(vec![
                def.name.as_str().into(),
                dimension.name.as_str().into(),
                (position + 1).into(),
                level.name.as_str().into(),
                source(&level.source, dimension.zone.as_ref()).into(),
                column_name(def, level.source.column()).into(),
                u64::from(level.bits).into(),
                range(&dimension.range).into(),
                def.schema.as_str().into(),
            ]);
        }
    }
    rows
}

fn column_name(def: &TableDef, id: ColumnId) -> &str {
    def.column_by_id(id).map_or("", |column| column.name.as_str())
}

fn curve(curve: Curve) -> &'static str {
    match curve {
        Curve::Hilbert => "hilbert",
        Curve::Z => "z",
    }
}

fn source(source: &LevelSource, zone: Option<&ZoneRules>) -> String {
    match source {
        LevelSource::Column(_) => "column".to_owned(),
        LevelSource::Calendar(_, unit) => unit.name().to_owned(),
        LevelSource::Local(_, unit) => {
            format!("{} in {}", unit.name(), zone.map_or("", ZoneRules::name))
        }
        LevelSource::Halved { halvings, .. } => format!("halved {halvings} times"),
        LevelSource::Hashed { bits, .. } => format!("hashed to {bits} bits"),
    }
}

fn range(range: &KeyRange) -> Option<String> {
    match range {
        KeyRange::None => None,
        KeyRange::Learnt => Some("learnt from the first rows".to_owned()),
        KeyRange::Linear { low, high } => Some(format!("linear {low}..{high}")),
        KeyRange::LearntQuantiles => Some("quantiles of the first rows".to_owned()),
        KeyRange::Quantiles { cuts } => Some(format!("quantiles, {} cuts", cuts.len())),
    }
}
