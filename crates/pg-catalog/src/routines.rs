//! Procedures that users have made, in `pg_proc` and `information_schema.routines`.
//!
//! Invariant: what is told of a procedure's parameters is read from its CREATE, as calls do.

use crate::context::CatalogContext;
use crate::procedures::{self, INTERNAL_LANGUAGE};
use crate::relations::{id_of_number, schema_oid, shown_schema, table_oid};
use crate::tables::{Row, row};
use crate::types;
use alluvia_catalog::{Catalog, RoutineEntry};
use alluvia_syntax::Kind;
use alluvia_syntax::names::DATABASE_NAME;
use alluvia_syntax::statements::routines::{CreateProcedure, ParameterMode, RoutineParameter, RoutineStatement};
use alluvia_types::TableId;

/// Languages of procedures, by their numbers.
pub(crate) const SQL_LANGUAGE: i64 = 14;
pub(crate) const PLPGSQL_LANGUAGE: i64 = 13_627;
/// The type of what gives nothing.
const VOID: i64 = 2278;
/// That of a row.
const RECORD: i64 = 2249;

fn by_oid(catalog: &Catalog, oid: i64) -> Option<&RoutineEntry> {
    let id = id_of_number(oid - table_oid(0))?;
    catalog.routine_by_id(TableId(id)).map(AsRef::as_ref)
}

fn create_of(entry: &RoutineEntry) -> Option<CreateProcedure> {
    match alluvia_syntax::parse(&entry.def.show_create()).ok()?.pop()?.kind {
        Kind::Routine(routine) => match *routine {
            RoutineStatement::Create(create) => Some(create),
            RoutineStatement::Drop { .. } => None,
        },
        _ => None,
    }
}

fn mode_of(parameter: &RoutineParameter) -> (&'static str, &'static str) {
    match parameter.mode {
        ParameterMode::In => ("i", "IN"),
        ParameterMode::Out => ("o", "OUT"),
        ParameterMode::InOut => ("b", "INOUT"),
    }
}

/// `IN a integer, OUT b text`, with or without defaults.
fn shown_arguments(create: &CreateProcedure, with_defaults: bool) -> String {
    let shown = |parameter: &RoutineParameter| {
        let (oid, modifier) = types::of_column(parameter.column_type);
        let name = alluvia_space::keywords::quoted(&parameter.name);
        let default = parameter.default.as_ref().filter(|_| with_defaults);
        let default = default.map_or_else(String::new, |default| format!(" DEFAULT {default}"));
        format!("{} {name} {}{default}", mode_of(parameter).1, types::format(oid, Some(modifier)))
    };
    create.parameters.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// `pg_get_functiondef`
pub(crate) fn definition(catalog: &Catalog, oid: i64) -> Option<String> {
    match by_oid(catalog, oid) {
        Some(entry) => Some(format!("{}\n", entry.def.show_create())),
        None => procedures::definition(oid),
    }
}

/// `pg_get_function_arguments`, or those that identify it.
pub(crate) fn arguments(catalog: &Catalog, oid: i64, with_defaults: bool) -> Option<String> {
    match by_oid(catalog, oid) {
        Some(entry) => Some(shown_arguments(&create_of(entry)?, with_defaults)),
        None => procedures::arguments(oid),
    }
}

/// `pg_get_function_result`, which procedures have none of.
pub(crate) fn result(catalog: &Catalog, oid: i64) -> Option<String> {
    if by_oid(catalog, oid).is_some() { None } else { procedures::result(oid) }
}

/// The rows of `pg_proc`: functions, and users' procedures.
pub(crate) fn pg_proc(context: &CatalogContext) -> Vec<Row> {
    let catalog = &context.catalog;
    let row = |entry: &RoutineEntry| {
        let create = create_of(entry)?;
        let oid_of = |parameter: &RoutineParameter| types::of_column(parameter.column_type).0.to_string();
        let inputs = create.parameters.iter().filter(|parameter| parameter.mode != ParameterMode::Out);
        let inputs: Vec<String> = inputs.map(oid_of).collect();
        let defaults = create.parameters.iter().filter(|parameter| parameter.default.is_some()).count();
        let has_outputs = create.parameters.iter().any(|parameter| parameter.mode != ParameterMode::In);
        Some(row! {
            oid: table_oid(entry.def.id.0), proname: entry.def.name.as_str(),
            pronamespace: schema_oid(catalog, &entry.def.schema),
            proowner: i64::from(catalog.rights().owner(entry.def.id).0),
            prolang: if create.language == "sql" { SQL_LANGUAGE } else { PLPGSQL_LANGUAGE }, procost: 100,
            provariadic: 0, prokind: "p", provolatile: "v", proparallel: "u", pronargs: inputs.len() as i64,
            pronargdefaults: defaults as i64, prorettype: if has_outputs { RECORD } else { VOID },
            proargtypes: inputs.join(" "), prosrc: create.body,
        })
    };
    let mut rows = procedures::rows();
    rows.extend(catalog.routines().filter_map(|entry| row(entry)));
    rows
}

/// The rows of `information_schema.routines`: users' procedures.
pub(crate) fn routines(context: &CatalogContext) -> Vec<Row> {
    let row = |entry: &RoutineEntry| {
        let create = create_of(entry)?;
        let (schema, name) = (shown_schema(&entry.def.schema), entry.def.name.as_str());
        let specific = format!("{name}_{}", table_oid(entry.def.id.0));
        Some(row! {
            specific_catalog: DATABASE_NAME, specific_schema: schema.clone(), specific_name: specific,
            routine_catalog: DATABASE_NAME, routine_schema: schema, routine_name: name, routine_type: "PROCEDURE",
            routine_body: if create.language == "sql" { "SQL" } else { "EXTERNAL" }, routine_definition: create.body,
            external_language: create.language.to_uppercase(), parameter_style: "GENERAL", is_deterministic: "NO",
            sql_data_access: "MODIFIES", schema_level_routine: "YES", security_type: "INVOKER",
        })
    };
    context.catalog.routines().filter_map(|entry| row(entry)).collect()
}

/// The rows of `pg_language`.
pub(crate) fn languages() -> Vec<Row> {
    let language = |(oid, name, is_trusted): (i64, &str, bool)| {
        row! { oid: oid, lanname: name, lanowner: crate::relations::ROLE_OID, lanpltrusted: is_trusted }
    };
    let known =
        [(INTERNAL_LANGUAGE, "internal", false), (SQL_LANGUAGE, "sql", true), (PLPGSQL_LANGUAGE, "plpgsql", true)];
    known.into_iter().map(language).collect()
}
