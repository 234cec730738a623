//! Statements about the session: SET and SHOW, what BEGIN may ask for, CALL.
//!
//! Invariant: every clause of them is either taken over or refused by name.

use crate::names::{SYSTEM, name_of, parts_of, relation_name};
use crate::statement::{
    Access, Declare, FetchCount, Isolation, Kind, Modes, Procedure, SettingCommand, SettingValue, literal_text,
};
use crate::statements::cuboid_name::{CuboidName, table_argument};
use crate::statements::segment_argument::{FORGET_SEGMENT, forget_segment};
use alluvia_catalog::SearchPath;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{self, Expr, ObjectName, Set, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};

pub fn is_plain(options: &ast::ShowStatementOptions) -> bool {
    options.show_in.is_none()
        && options.starts_with.is_none()
        && options.limit.is_none()
        && options.limit_from.is_none()
        && options.filter_position.is_none()
}

/// SHOW COLUMNS FROM t.
pub(crate) fn show_columns(more: bool, mut options: ast::ShowStatementOptions) -> Result<Kind> {
    let table = options.show_in.take().and_then(|place| place.parent_name);
    match table {
        Some(table) if !more && is_plain(&options) => Ok(Kind::Describe(relation_name(&table)?)),
        Some(_) => Err(not_supported("a clause of SHOW COLUMNS").with_hint("query alluvia.columns")),
        None => Err(Error::new(ErrorKind::Syntax, "SHOW COLUMNS needs a table").with_hint("write SHOW COLUMNS FROM t")),
    }
}

/// SHOW of a setting, or of all.
pub(crate) fn show_variable(variable: &[ast::Ident]) -> Result<Kind> {
    let words: Vec<String> = variable.iter().map(name_of).collect();
    let command = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["all"] => SettingCommand::ShowAll,
        ["time", "zone"] => SettingCommand::Show("timezone".to_owned()),
        ["transaction", "isolation", "level"] => SettingCommand::Show("transaction_isolation".to_owned()),
        ["session", "authorization"] => SettingCommand::Show("session_authorization".to_owned()),
        [name] => SettingCommand::Show((*name).to_owned()),
        _ => return Err(not_supported(format!("SHOW {}", words.join(" ").to_uppercase()))),
    };
    Ok(Kind::Setting(command))
}

/// What a transaction is asked to be; of what is said twice, the last.
pub(crate) fn transaction_modes(modes: &[TransactionMode]) -> Result<Modes> {
    let mut all = Modes::default();
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => all.access = Some(Access::ReadWrite),
            TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => all.access = Some(Access::ReadOnly),
            TransactionMode::IsolationLevel(level) => {
                all.isolation = Some(match level {
                    TransactionIsolationLevel::ReadCommitted | TransactionIsolationLevel::ReadUncommitted => {
                        Isolation::ReadCommitted
                    }
                    TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot => {
                        Isolation::RepeatableRead
                    }
                    TransactionIsolationLevel::Serializable => Isolation::Serializable,
                });
            }
        }
    }
    Ok(all)
}

/// A setting's name as SET writes it.
pub(crate) fn setting_name(name: &ObjectName) -> Result<String> {
    Ok(parts_of(name)?.join(".").to_ascii_lowercase())
}

/// SET.
pub(crate) fn set_of(set: Set) -> Result<SettingCommand> {
    match set {
        Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            let local = match scope {
                None | Some(ast::ContextModifier::Session) => false,
                Some(ast::ContextModifier::Local) => true,
                Some(ast::ContextModifier::Global) => return Err(not_supported("SET GLOBAL")),
            };
            let name = setting_name(&variable)?;
            let value = match values.as_slice() {
                values if name == SEARCH_PATH => path_value(values)?,
                [value] => setting_value(&name, value)?,
                // A list of words, as a search path is.
                several if name == "datestyle" => {
                    let words: Option<Vec<String>> = several.iter().map(literal_text).collect();
                    let wrong = || Error::new(ErrorKind::InvalidSetting, format!("{name} takes a list of words"));
                    SettingValue::Text(words.ok_or_else(wrong)?.join(", "))
                }
                _ => return Err(Error::new(ErrorKind::InvalidSetting, format!("{name} takes one value"))),
            };
            Ok(SettingCommand::Set { value, name, local })
        }
        Set::SetTimeZone { local, value } => {
            Ok(SettingCommand::Set { value: setting_value("timezone", &value)?, name: "timezone".to_owned(), local })
        }
        Set::SetTransaction { modes, snapshot: None, session: of_session } => {
            Ok(SettingCommand::Modes { modes: transaction_modes(&modes)?, of_session })
        }
        Set::SetTransaction { .. } => Err(not_supported("SET TRANSACTION SNAPSHOT")),
        Set::SetRole { context_modifier, role_name } => {
            let local = match context_modifier {
                None | Some(ast::ContextModifier::Session) => false,
                Some(ast::ContextModifier::Local) => true,
                Some(ast::ContextModifier::Global) => return Err(not_supported("SET GLOBAL")),
            };
            let value = role_name.map_or_else(|| "none".to_owned(), |role| name_of(&role));
            Ok(SettingCommand::Set { name: "role".to_owned(), value: SettingValue::Text(value), local })
        }
        Set::SetNames { charset_name, collation_name: None } => Ok(SettingCommand::Set {
            name: "client_encoding".to_owned(),
            value: SettingValue::Text(charset_name.value),
            local: false,
        }),
        Set::SetNames { .. } | Set::SetNamesDefault {} => {
            Err(not_supported("this form of SET NAMES").with_hint("text is always UTF-8"))
        }
        Set::SetSessionAuthorization(_) => Err(not_supported("SET SESSION AUTHORIZATION")),
        _ => Err(not_supported("this form of SET").with_hint("write SET name = value")),
    }
}

fn is_time_zone(name: &str) -> bool {
    matches!(name, "timezone" | "time_zone")
}

/// The setting that is a list of schemas.
pub(crate) const SEARCH_PATH: &str = "search_path";

/// The schemas of a search path: each value is one, whatever is in it.
fn path_value(values: &[Expr]) -> Result<SettingValue> {
    let mut schemas = Vec::with_capacity(values.len());
    for value in values {
        schemas.push(match value {
            Expr::Identifier(ident) => name_of(ident),
            value => match setting_value(SEARCH_PATH, value)? {
                SettingValue::Text(text) => text,
                SettingValue::Default => return Ok(SettingValue::Default),
            },
        });
    }
    match values {
        [value] if matches!(setting_value(SEARCH_PATH, value)?, SettingValue::Default) => Ok(SettingValue::Default),
        _ => Ok(SettingValue::Text(SearchPath::new(schemas).to_string())),
    }
}

fn setting_value(name: &str, value: &Expr) -> Result<SettingValue> {
    match value {
        Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") => {
            Ok(SettingValue::Default)
        }
        // Sequelize's first statement: SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE.
        Expr::Interval(ast::Interval { value, .. }) if is_time_zone(name) => {
            let wrong = || Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be {value}"));
            let text = literal_text(value).ok_or_else(wrong)?;
            Ok(SettingValue::Text(format!("INTERVAL '{text}'")))
        }
        value => literal_text(value).map(SettingValue::Text).ok_or_else(|| {
            Error::new(ErrorKind::InvalidSetting, format!("{name} needs a string, a number or a word, not {value}"))
        }),
    }
}

/// DECLARE, of one cursor that goes forward.
pub(crate) fn declare_of(mut declared: Vec<ast::Declare>) -> Result<Declare> {
    let (Some(one), true) = (declared.pop(), declared.is_empty()) else {
        return Err(not_supported("DECLARE of anything but one cursor"));
    };
    let (Some(ast::DeclareType::Cursor), [name], Some(query)) = (one.declare_type, one.names.as_slice(), one.for_query)
    else {
        return Err(not_supported("DECLARE of anything but a cursor"));
    };
    if one.scroll == Some(true) {
        return Err(not_supported("a SCROLL cursor").with_hint("cursors go forward only: leave it out"));
    }
    if one.binary == Some(true) {
        return Err(not_supported("a BINARY cursor").with_hint("drivers ask for binary results by their protocol"));
    }
    Ok(Declare { name: name_of(name), hold: one.hold == Some(true), query })
}

/// FETCH, forward.
pub(crate) fn fetch_of(name: &ast::Ident, direction: &ast::FetchDirection) -> Result<Kind> {
    use ast::FetchDirection::{All, Count, Forward, ForwardAll, Next};
    let rows = |limit: &ast::ValueWithSpan| {
        let text = limit.to_string();
        let wrong = |_| Error::new(ErrorKind::Syntax, format!("FETCH cannot give {text} rows"));
        text.parse::<usize>().map(FetchCount::Rows).map_err(wrong)
    };
    let count = match direction {
        Next | Forward { limit: None } => FetchCount::Rows(1),
        Count { limit } | Forward { limit: Some(limit) } => rows(limit)?,
        All | ForwardAll => FetchCount::All,
        other => {
            return Err(not_supported(format!("FETCH {other}")).with_hint("cursors go forward only"));
        }
    };
    Ok(Kind::Fetch { name: name_of(name), count })
}

/// What DEALLOCATE names; `None` is ALL.
pub(crate) fn deallocate_of(name: &ast::Ident) -> Option<String> {
    let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
    (!all).then(|| name_of(name))
}
/// Procedures without arguments, and those that take a cuboid's name.
const PLAIN_PROCEDURES: [(&str, Procedure); 3] =
    [("build_cuboids", Procedure::BuildCuboids), ("flush", Procedure::Flush), ("merge", Procedure::Merge)];
type OfCuboid = fn(CuboidName) -> Procedure;
const CUBOID_PROCEDURES: [(&str, OfCuboid); 3] = [
    ("drop_cuboid", Procedure::DropCuboid),
    ("pin_cuboid", Procedure::PinCuboid),
    ("unpin_cuboid", Procedure::UnpinCuboid),
];

/// Ends what a session runs.
const CANCEL: &str = "cancel";

/// Removes from the files what was deleted.
const PURGE: &str = "purge";

fn session_of(args: &ast::FunctionArguments) -> Result<u64> {
    let wrong = || {
        Error::new(ErrorKind::Syntax, format!("{SYSTEM}.{CANCEL} takes the number of a session"))
            .with_hint("alluvia.sessions lists them: CALL alluvia.cancel(7)")
    };
    let ast::FunctionArguments::List(list) = args else { return Err(wrong()) };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))] = list.args.as_slice() else {
        return Err(wrong());
    };
    literal_text(expr).and_then(|text| text.parse().ok()).ok_or_else(wrong)
}

/// The error of a CALL of a procedure that is not there.
pub fn no_procedure(name: impl std::fmt::Display) -> Error {
    let plain = PLAIN_PROCEDURES.iter().map(|(name, _)| format!("{SYSTEM}.{name}()"));
    let of_cuboids = CUBOID_PROCEDURES.iter().map(|(name, _)| format!("{SYSTEM}.{name}('table', 'levels')"));
    let others = [
        format!("{SYSTEM}.{CANCEL}(session_id)"),
        format!("{SYSTEM}.{PURGE}('table')"),
        format!("{SYSTEM}.{FORGET_SEGMENT}('table', segment)"),
    ];
    let known: Vec<String> = plain.chain(of_cuboids).chain(others).collect();
    Error::new(ErrorKind::UndefinedFunction, format!("there is no procedure {name}"))
        .with_hint(format!("procedures are {}", known.join(", ")))
}

/// CALL of a procedure of the system's.
pub fn call_of(function: &ast::Function) -> Result<Kind> {
    let parts = parts_of(&function.name)?;
    let name = match parts.as_slice() {
        [schema, name] if schema == SYSTEM => name.as_str(),
        _ => "",
    };
    if let Some((_, of_cuboid)) = CUBOID_PROCEDURES.iter().find(|(known, _)| *known == name) {
        let named = CuboidName::of_arguments(&format!("{SYSTEM}.{name}"), &function.args)?;
        return Ok(Kind::Call(of_cuboid(named)));
    }
    if name == CANCEL {
        return Ok(Kind::Call(Procedure::Cancel(session_of(&function.args)?)));
    }
    if name == PURGE {
        let table = table_argument(&format!("{SYSTEM}.{name}"), &function.args)?;
        return Ok(Kind::Call(Procedure::Purge(table)));
    }
    if name == FORGET_SEGMENT {
        return forget_segment(&format!("{SYSTEM}.{name}"), &function.args).map(Kind::Call);
    }
    let Some((_, procedure)) = PLAIN_PROCEDURES.into_iter().find(|(known, _)| *known == name) else {
        return Err(no_procedure(&function.name));
    };
    let no_arguments = match &function.args {
        ast::FunctionArguments::None => true,
        ast::FunctionArguments::List(list) => list.args.is_empty() && list.clauses.is_empty(),
        ast::FunctionArguments::Subquery(_) => false,
    };
    if !no_arguments {
        return Err(Error::new(ErrorKind::UndefinedFunction, format!("{} takes no arguments", function.name)));
    }
    Ok(Kind::Call(procedure))
}
