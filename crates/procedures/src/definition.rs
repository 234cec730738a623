//! What is stored of a procedure.
//!
//! Invariant: a definition holds its texts as they were written; that they compile is checked before it is stored.

use alluvia_space::keywords::quoted;
use alluvia_space::{ColumnType, DataType};
use alluvia_syntax::statements::routines::{CreateProcedure, DoBlock, ParameterMode};
use alluvia_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A procedure as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcedureDef {
    /// The schema that it is in.
    pub schema: String,
    /// Its name; there is one procedure of a name in a schema.
    pub name: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// What its body is written in.
    pub language: Language,
    /// Whether it runs with the rights of its owner, and not of who calls it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_definers: bool,
    /// Its body.
    pub body: String,
}

/// A parameter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Which way values go.
    #[serde(default, skip_serializing_if = "Mode::is_in")]
    pub mode: Mode,
    /// The type of its values.
    pub data_type: DataType,
    /// The n of `VARCHAR(n)` and `CHAR(n)`; as in PostgreSQL it is not kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars_max: Option<u32>,
    /// The expression for a CALL that leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// Which way the values of a parameter go.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Into the procedure.
    #[default]
    In,
    /// Out of it.
    Out,
    /// Both.
    InOut,
}

impl Mode {
    fn is_in(&self) -> bool {
        *self == Mode::In
    }

    /// Whether values go out.
    pub fn is_output(self) -> bool {
        self != Mode::In
    }

    /// As SQL writes it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::In => "IN",
            Mode::Out => "OUT",
            Mode::InOut => "INOUT",
        }
    }
}

/// What a body is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// PL/pgSQL.
    Plpgsql,
    /// Statements, one behind the other.
    Sql,
}

impl Language {
    /// The language of a name.
    pub fn of_name(name: &str) -> Result<Language> {
        match name {
            "plpgsql" => Ok(Language::Plpgsql),
            "sql" => Ok(Language::Sql),
            _ => Err(Error::new(ErrorKind::UndefinedObject, format!("language \"{name}\" does not exist"))
                .with_hint("languages are plpgsql and sql")),
        }
    }

    /// As SQL writes it.
    pub fn name(self) -> &'static str {
        match self {
            Language::Plpgsql => "plpgsql",
            Language::Sql => "sql",
        }
    }

    /// As errors call it.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Language::Plpgsql => "PL/pgSQL",
            Language::Sql => "SQL",
        }
    }
}

/// What a DO block is called in errors.
const BLOCK: &str = "inline_code_block";

impl ProcedureDef {
    /// The definition that a CREATE PROCEDURE in a schema makes. It is not yet compiled.
    pub fn of(create: &CreateProcedure, schema: impl Into<String>) -> Result<ProcedureDef> {
        let parameter = |parameter: &alluvia_syntax::statements::routines::RoutineParameter| Parameter {
            name: parameter.name.clone(),
            mode: match parameter.mode {
                ParameterMode::In => Mode::In,
                ParameterMode::Out => Mode::Out,
                ParameterMode::InOut => Mode::InOut,
            },
            data_type: parameter.column_type.data_type,
            chars_max: parameter.column_type.chars_max,
            default: parameter.default.clone(),
        };
        Ok(ProcedureDef {
            schema: schema.into(),
            name: create.name.name.clone(),
            parameters: create.parameters.iter().map(parameter).collect(),
            language: Language::of_name(&create.language)?,
            is_definers: create.is_definers,
            body: create.body.clone(),
        })
    }

    /// A procedure without a name: what DO runs.
    pub fn of_block(block: &DoBlock) -> Result<ProcedureDef> {
        let language = Language::of_name(&block.language)?;
        if language == Language::Sql {
            return Err(Error::new(ErrorKind::NotSupported, "language \"sql\" does not support inline code execution"));
        }
        Ok(ProcedureDef {
            schema: String::new(),
            name: BLOCK.to_owned(),
            parameters: Vec::new(),
            language,
            is_definers: false,
            body: block.body.clone(),
        })
    }

    /// What stands behind the name in the CREATE PROCEDURE statement that makes it.
    pub fn behind_name(&self) -> String {
        let parameters: Vec<String> = self.parameters.iter().map(Parameter::shown).collect();
        let mut text = format!("({})\nLANGUAGE {}", parameters.join(", "), self.language.name());
        if self.is_definers {
            text.push_str("\nSECURITY DEFINER");
        }
        let mut quotes = "$procedure$".to_owned();
        while self.body.contains(&quotes) {
            quotes.insert(quotes.len() - 1, 'x');
        }
        let _ = write!(text, "\nAS {quotes}{}{quotes}", self.body);
        text
    }
}

impl Parameter {
    /// The type that was declared.
    pub fn column_type(&self) -> ColumnType {
        ColumnType { data_type: self.data_type, chars_max: self.chars_max }
    }

    /// As SQL writes it.
    pub fn shown(&self) -> String {
        let mode = if self.mode.is_output() { format!("{} ", self.mode.name()) } else { String::new() };
        let default = self.default.as_ref().map_or_else(String::new, |default| format!(" DEFAULT {default}"));
        format!("{mode}{} {}{default}", quoted(&self.name), self.column_type().sql_name())
    }
}
