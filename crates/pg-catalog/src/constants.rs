//! Functions of the catalog that say the same whatever they are given, and those that are answered at all.

use alluvia_syntax::names::DATABASE_NAME;
use datafusion::sql::sqlparser::ast::{Expr, Value};

/// Functions that say the same whatever they are given, with what they say.
const CONSTANTS: &[(&[&str], Constant)] = &[
    (&["current_database", "current_catalog"], Constant::Text(DATABASE_NAME)),
    (&["pg_encoding_to_char", "pg_client_encoding", "getdatabaseencoding"], Constant::Text("UTF8")),
    (&["pg_tablespace_location"], Constant::Text("")),
    (&["version"], Constant::Version),
    (&["pg_char_to_encoding"], Constant::Number("6")),
    (&["txid_current", "pg_trigger_depth"], Constant::Number("0")),
    (
        &[
            "has_function_privilege",
            "has_sequence_privilege",
            "has_type_privilege",
            "has_tablespace_privilege",
            "has_language_privilege",
            "pg_type_is_visible",
            "pg_function_is_visible",
            "pg_operator_is_visible",
            "pg_opclass_is_visible",
            "pg_collation_is_visible",
            "pg_conversion_is_visible",
            "pg_ts_config_is_visible",
            "pg_ts_dict_is_visible",
            "pg_statistics_obj_is_visible",
        ],
        Constant::Truth(true),
    ),
    (
        &[
            "pg_is_in_recovery",
            "pg_relation_is_publishable",
            "pg_is_other_temp_schema",
            "pg_jit_available",
            "pg_relation_is_updatable",
            "pg_is_wal_replay_paused",
        ],
        Constant::Truth(false),
    ),
    (
        &[
            "pg_get_expr",
            "pg_get_indexdef",
            "pg_get_constraintdef",
            "obj_description",
            "col_description",
            "shobj_description",
            "pg_get_serial_sequence",
            "pg_get_partkeydef",
            "pg_get_functiondef",
            "pg_get_triggerdef",
            "pg_get_ruledef",
            "pg_get_statisticsobjdef_columns",
            "array_to_string",
            "array_upper",
            "array_lower",
            "inet_server_addr",
            "inet_client_addr",
            "inet_server_port",
            "inet_client_port",
            "pg_get_function_sqlbody",
            "pg_postmaster_start_time",
            "pg_conf_load_time",
            "_pg_char_max_length",
            "_pg_numeric_precision",
            "_pg_numeric_scale",
            "pg_options_to_table",
        ],
        Constant::Null,
    ),
];

/// Functions that are answered here, or registered, beside those.
const FUNCTIONS: &[&str] = &[
    "current_user",
    "current_role",
    "session_user",
    "user",
    "pg_get_userbyid",
    "has_table_privilege",
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_schema_privilege",
    "pg_get_viewdef",
    "pg_has_role",
    "current_schema",
    "current_schemas",
    "pg_my_temp_schema",
    "current_setting",
    "set_config",
    "pg_backend_pid",
    "to_regclass",
    "to_regtype",
    "to_regnamespace",
    "to_regproc",
    "to_regrole",
    "format_type",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_table_is_visible",
    "pg_relation_size",
    "pg_table_size",
    "pg_total_relation_size",
    "pg_database_size",
    "pg_size_pretty",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all",
    "pg_tablespace_size",
    "nextval",
    "currval",
    "lastval",
    "setval",
];

/// Functions of these names mean something without the catalog, too: alone they do not make a query one of it.
const ORDINARY: &[&str] = &["array_to_string", "array_upper", "array_lower"];

/// What a function says.
#[derive(Clone, Copy)]
pub(crate) enum Constant {
    Text(&'static str),
    Number(&'static str),
    Truth(bool),
    Null,
    Version,
}

impl Constant {
    pub(crate) fn expr(self) -> Expr {
        match self {
            Constant::Text(text) => text_expr(text),
            Constant::Number(number) => number_expr(number),
            Constant::Truth(value) => Expr::Value(Value::Boolean(value).into()),
            Constant::Null => Expr::Value(Value::Null.into()),
            Constant::Version => {
                let ours = env!("CARGO_PKG_VERSION");
                text_expr(&format!("PostgreSQL 16.0 (Alluvia {ours}) on {}", std::env::consts::ARCH))
            }
        }
    }
}

pub(crate) fn text_expr(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

pub(crate) fn number_expr(number: impl ToString) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

/// What a function always says.
pub(crate) fn constant(name: &str) -> Option<Constant> {
    CONSTANTS.iter().find(|(names, _)| names.contains(&name)).map(|(_, constant)| *constant)
}

/// The names of all functions of the catalog.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    CONSTANTS.iter().flat_map(|(names, _)| names.iter()).chain(FUNCTIONS).copied()
}

/// Whether there is a function of this name here.
pub fn is_function(name: &str) -> bool {
    constant(name).is_some() || FUNCTIONS.contains(&name)
}

/// Whether a function of this name makes a query one of the catalog.
pub(crate) fn is_of_catalog(name: &str) -> bool {
    is_function(name) && !ORDINARY.contains(&name)
}
