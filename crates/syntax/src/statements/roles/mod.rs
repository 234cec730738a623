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
pub(crate) use parse::{expect, is_role_statement, list, one_of, owner_of, parse_role_statement, role, word};

use alluvia_catalog::RelationName;
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
    /// CREATE ROLE, or CREATE USER, which means LOGIN unless NOLOGIN is stated.
    Create {
        /// The new role.
        name: String,
        /// What is stated of the role.
        options: RoleOptions,
    },
    /// ALTER ROLE ... WITH: changes the options that are stated.
    Alter {
        /// The role to change.
        name: RoleName,
        /// The new options; what is not stated stays.
        options: RoleOptions,
    },
    /// ALTER ROLE ... RENAME TO.
    Rename {
        /// The role to rename.
        name: RoleName,
        /// The new name.
        to: String,
    },
    /// ALTER ROLE ... SET or RESET: what sessions of the role begin with. No value: back to the default.
    Set {
        /// The role whose sessions are meant.
        name: RoleName,
        /// The setting, in small letters.
        setting: String,
        /// The value as text; `None` for RESET and for DEFAULT.
        value: Option<String>,
    },
    /// ALTER ROLE ... RESET ALL: all settings back to the defaults.
    ResetAll {
        /// The role whose sessions are meant.
        name: RoleName,
    },
    /// DROP ROLE.
    Drop {
        /// The roles to drop.
        names: Vec<String>,
        /// Whether a role that does not exist is no error.
        if_exists: bool,
    },
    /// GRANT role TO role.
    Join {
        /// The roles that get members.
        roles: Vec<RoleName>,
        /// The new members of each of these roles.
        members: Vec<RoleName>,
    },
    /// REVOKE role FROM role.
    Leave {
        /// The roles that lose members.
        roles: Vec<RoleName>,
        /// The roles that are members no more.
        members: Vec<RoleName>,
    },
    /// GRANT privilege ON ... TO role.
    Grant {
        /// The privileges, and what they are on.
        grant: Grant,
        /// The roles that get the privileges.
        to: Vec<RoleName>,
    },
    /// REVOKE privilege ON ... FROM role.
    Revoke {
        /// The privileges, and what they are on.
        grant: Grant,
        /// The roles that lose the privileges.
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
    /// LOGIN or NOLOGIN; `None` if neither is stated.
    pub login: Option<bool>,
    /// SUPERUSER or NOSUPERUSER; `None` if neither is stated.
    pub superuser: Option<bool>,
    /// `Some(None)` is PASSWORD NULL.
    pub password: Option<Option<Secret>>,
    /// IN ROLE: the roles that the new role becomes a member of.
    pub member_of: Vec<RoleName>,
}

/// Privileges on something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The privileges that are named; for ALL every privilege that an object of this sort has.
    pub privileges: Privileges,
    /// What the privileges are on.
    pub on: GrantOn,
}

/// What privileges are granted on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrantOn {
    /// Tables by name.
    Tables(Vec<RelationName>),
    /// All tables of these schemas.
    AllTables(Vec<String>),
    /// Schemas by name.
    Schemas(Vec<String>),
    /// The database.
    Database,
}
