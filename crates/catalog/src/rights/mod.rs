//! Roles, and what they may do, at one version.
//!
//! Invariants:
//! - Nothing is allowed that was not granted to a role, to a role it is in, or to PUBLIC; that is not its own; and that it is no
//!   superuser for. What a superuser may, who is merely in their role may not.
//! - Numbers of roles are never used twice: who holds the number of a role that was dropped may nothing, whoever has its name now.
//! - No role is in itself, by whatever way; owners, grants and memberships name roles and tables that exist.
//! - Of a password there is only a verifier, and that is never printed.
//!
//! Changes are small and say what becomes different (a privilege is added, a setting set), so that two sessions that change one role
//! at the same time do not undo each other's work.

mod change;
mod privilege;
mod stored;

pub use change::{NewPassword, RightsChange};
pub use privilege::{Privilege, Privileges};

use alluvia_types::TableId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use stored::Stored;

/// A role's number: in PostgreSQL's catalog its oid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleId(pub u32);

/// Everybody.
pub const PUBLIC: RoleId = RoleId(0);
/// The superuser that a database is made with; it owns what was made before there were roles.
pub const BOOTSTRAP: RoleId = RoleId(10);
/// Who is in it may read files of the server in SQL.
pub const READ_FILES: RoleId = RoleId(4_569);
/// Who is in it may write files of the server in SQL.
pub const WRITE_FILES: RoleId = RoleId(4_570);
/// Who is in it may have the server read URLs in SQL. PostgreSQL has no such role; names that begin with pg_ were never to be had.
pub const READ_URLS: RoleId = RoleId(9_001);
/// Who is in it may read what a server counts.
pub const MONITOR: RoleId = RoleId(3_373);
/// The first number of a role that somebody made.
const FIRST: u32 = 16_384;

/// Roles that every database has.
pub const BUILT_IN: [(RoleId, &str); 5] = [
    (BOOTSTRAP, "alluvia"),
    (MONITOR, "pg_monitor"),
    (READ_FILES, "pg_read_server_files"),
    (WRITE_FILES, "pg_write_server_files"),
    (READ_URLS, "pg_read_server_urls"),
];

/// What must not be printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Of a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for whoever has to have it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// A role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Role {
    /// Its number.
    pub id: RoleId,
    /// Its name; no other has it.
    pub name: String,
    /// Whether a client may log in as it.
    pub login: bool,
    /// Whether it may everything.
    pub superuser: bool,
    /// What is known of its password: `SCRAM-SHA-256$...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<Secret>,
    /// What its sessions begin with, by setting.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The roles that it is in.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub member_of: BTreeSet<RoleId>,
}

/// What privileges are on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// The database.
    Database,
    /// A table.
    Table(TableId),
}

/// All roles, owners and grants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Rights {
    roles: BTreeMap<RoleId, Role>,
    next: u32,
    /// Of tables that are not [`BOOTSTRAP`]'s.
    owners: BTreeMap<TableId, RoleId>,
    grants: BTreeMap<(Object, RoleId), Privileges>,
}

impl Default for Rights {
    /// As a new database has them: everybody may connect.
    fn default() -> Rights {
        let role = |(id, name): (RoleId, &str)| {
            let is_first = id == BOOTSTRAP;
            let role = Role {
                id,
                name: name.to_owned(),
                login: is_first,
                superuser: is_first,
                verifier: None,
                settings: BTreeMap::new(),
                member_of: BTreeSet::new(),
            };
            (id, role)
        };
        let connect = Privileges::NONE.with(Privilege::Connect);
        Rights {
            roles: BUILT_IN.into_iter().map(role).collect(),
            next: FIRST,
            owners: BTreeMap::new(),
            grants: BTreeMap::from([((Object::Database, PUBLIC), connect)]),
        }
    }
}

impl Rights {
    /// Whether they are those of a new database.
    pub fn is_default(&self) -> bool {
        *self == Rights::default()
    }

    /// All roles, by number.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// The role of a number, unless it was dropped.
    pub fn role(&self, id: RoleId) -> Option<&Role> {
        self.roles.get(&id)
    }

    /// The role of a name.
    pub fn named(&self, name: &str) -> Option<&Role> {
        self.roles.values().find(|role| role.name == name)
    }

    /// What a role, or PUBLIC, is called.
    pub fn name(&self, id: RoleId) -> &str {
        if id == PUBLIC { "public" } else { self.role(id).map_or("unknown", |role| &role.name) }
    }

    /// The role and all that it is in.
    pub fn reach(&self, id: RoleId) -> BTreeSet<RoleId> {
        let mut reached = BTreeSet::new();
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            if let Some(role) = self.role(id)
                && reached.insert(id)
            {
                next.extend(&role.member_of);
            }
        }
        reached
    }

    /// Whether a role is another or in it, or is a superuser.
    pub fn is_in(&self, id: RoleId, other: RoleId) -> bool {
        self.is_superuser(id) || self.reach(id).contains(&other)
    }

    /// Whether a role may everything.
    pub fn is_superuser(&self, id: RoleId) -> bool {
        self.role(id).is_some_and(|role| role.superuser)
    }

    /// Whose a table is.
    pub fn owner(&self, table: TableId) -> RoleId {
        self.owners.get(&table).copied().unwrap_or(BOOTSTRAP)
    }

    /// Whether a table is a role's, or that of a role it is in.
    pub fn owns(&self, id: RoleId, table: TableId) -> bool {
        self.is_in(id, self.owner(table))
    }

    /// Whether a role may do something.
    pub fn may(&self, id: RoleId, privilege: Privilege, on: Object) -> bool {
        if self.is_superuser(id) {
            return true;
        }
        let mut reached = self.reach(id);
        if let Object::Table(table) = on
            && reached.contains(&self.owner(table))
        {
            return true;
        }
        // Who was dropped is not everybody either.
        if !reached.is_empty() {
            reached.insert(PUBLIC);
        }
        reached.into_iter().any(|id| self.grants.get(&(on, id)).is_some_and(|granted| granted.has(privilege)))
    }

    /// Who was granted what on something.
    pub fn grants(&self, on: Object) -> impl Iterator<Item = (RoleId, Privileges)> {
        self.grants.range((on, RoleId(0))..=(on, RoleId(u32::MAX))).map(|((_, to), privileges)| (*to, *privileges))
    }

    /// Tables that a role owns.
    pub fn owned_by(&self, id: RoleId) -> impl Iterator<Item = TableId> {
        self.owners.iter().filter(move |(_, owner)| **owner == id).map(|(table, _)| *table)
    }
}
