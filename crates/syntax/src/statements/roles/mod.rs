//! Statements about roles and grants: CREATE, ALTER and DROP ROLE, GRANT, REVOKE.
//!
//! Parsed here, on sqlparser's parser, since its own trees leave out parts of PostgreSQL's language, and since no message may repeat
//! what stands after PASSWORD.
//!
//! Invariants:
//! - Every clause is either taken over or refused by name.
//! - The text of a statement that sets a password is kept without it ([`secrets`]), from the moment it is parsed.

mod grants;
mod parse;

pub use parse::secrets;
pub(crate) use parse::{is_role_statement, owner_of, parse_role_statement};

use alluvia_catalog::rights::{Privileges, Secret};

/// A role as a statement names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleName {
    /// By its name.
    Named(String),
    /// CURRENT_USER, CURRENT_ROLE.
    Current,
    /// SESSION_USER.
    Session,
    /// PUBLIC.
    Everybody,
}

/// What a statement does to roles or grants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleStatement {
    Create {
        name: String,
        options: RoleOptions,
    },
    Alter {
        name: RoleName,
        options: RoleOptions,
    },
    Rename {
        name: RoleName,
        to: String,
    },
    /// No value: back to the default.
    Set {
        name: RoleName,
        setting: String,
        value: Option<String>,
    },
    ResetAll {
        name: RoleName,
    },
    Drop {
        names: Vec<String>,
        if_exists: bool,
    },
    Join {
        roles: Vec<RoleName>,
        members: Vec<RoleName>,
    },
    Leave {
        roles: Vec<RoleName>,
        members: Vec<RoleName>,
    },
    Grant {
        grant: Grant,
        to: Vec<RoleName>,
    },
    Revoke {
        grant: Grant,
        from: Vec<RoleName>,
    },
}

impl RoleStatement {
    /// What it is called.
    pub fn command(&self) -> &'static str {
        match self {
            RoleStatement::Create { .. } => "CREATE ROLE",
            RoleStatement::Alter { .. }
            | RoleStatement::Rename { .. }
            | RoleStatement::Set { .. }
            | RoleStatement::ResetAll { .. } => "ALTER ROLE",
            RoleStatement::Drop { .. } => "DROP ROLE",
            RoleStatement::Join { .. } => "GRANT ROLE",
            RoleStatement::Leave { .. } => "REVOKE ROLE",
            RoleStatement::Grant { .. } => "GRANT",
            RoleStatement::Revoke { .. } => "REVOKE",
        }
    }
}

/// What CREATE ROLE and ALTER ROLE state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoleOptions {
    pub login: Option<bool>,
    pub superuser: Option<bool>,
    /// `Some(None)` is PASSWORD NULL.
    pub password: Option<Option<Secret>>,
    pub member_of: Vec<RoleName>,
}

/// Privileges on something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    pub privileges: Privileges,
    /// USAGE of the schema, which everybody has.
    pub usage: bool,
    pub on: GrantOn,
}

/// What privileges are granted on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrantOn {
    /// Tables by name.
    Tables(Vec<String>),
    /// All tables that there are.
    AllTables,
    /// The database; its schema `public` is the same.
    Database,
}
