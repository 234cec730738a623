//! Changes of rights, as the log keeps them, and what they do.

use super::{BUILT_IN, Object, PUBLIC, Privileges, Rights, Role, RoleId, Secret};
use alluvia_types::{Error, ErrorKind, Result, TableId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a password.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewPassword {
    /// The role has none any more.
    None,
    /// What is known of the new one.
    Verifier(Secret),
}

/// One change of roles, owners or grants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RightsChange {
    /// A new role; its number is the next one.
    CreateRole {
        /// Its name.
        name: String,
        /// Whether it may log in.
        login: bool,
        /// Whether it may everything.
        superuser: bool,
        /// What is known of its password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verifier: Option<Secret>,
        /// The roles that it is in.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        member_of: BTreeSet<RoleId>,
    },
    /// A role's attributes; what is `None` stays.
    AlterRole {
        /// Which.
        id: RoleId,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Whether it may log in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<bool>,
        /// Whether it may everything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        superuser: Option<bool>,
        /// Its password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<NewPassword>,
    },
    /// What a role's sessions begin with; no value takes it back.
    SetForRole {
        /// Which role.
        id: RoleId,
        /// The setting.
        name: String,
        /// Its value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
    },
    /// A role's sessions begin as anybody's.
    ResetForRole {
        /// Which role.
        id: RoleId,
    },
    /// A role goes, with its memberships and what it was granted.
    DropRole {
        /// Which.
        id: RoleId,
    },
    /// A role is in another from now on.
    Join {
        /// The one that it is in.
        role: RoleId,
        /// The one that is in it.
        member: RoleId,
    },
    /// A role is no longer in another.
    Leave {
        /// The one that it was in.
        role: RoleId,
        /// The one that was in it.
        member: RoleId,
    },
    /// Somebody may do more.
    Grant {
        /// With what.
        on: Object,
        /// What.
        privileges: Privileges,
        /// Who.
        to: RoleId,
    },
    /// Somebody may do less.
    Revoke {
        /// With what.
        on: Object,
        /// What.
        privileges: Privileges,
        /// Who.
        from: RoleId,
    },
    /// A table gets another owner.
    Own {
        /// The table.
        table: TableId,
        /// Its owner.
        owner: RoleId,
    },
}

fn gone() -> Error {
    Error::new(ErrorKind::Conflict, "a role was dropped by another batch").with_hint("run the statement again")
}

impl Rights {
    /// Makes a change; `has_table` tells the tables and schemas that there are. Refuses, perhaps with a part of it applied to `self`, what other
    /// batches have made impossible; what makes no sense by itself is for whoever makes the change.
    pub fn apply(&mut self, change: &RightsChange, has_table: impl Fn(TableId) -> bool) -> Result<()> {
        match change {
            RightsChange::CreateRole { name, login, superuser, verifier, member_of } => {
                self.check_free(name)?;
                if member_of.iter().any(|id| self.role(*id).is_none()) {
                    return Err(gone());
                }
                let id = RoleId(self.next);
                self.next += 1;
                let role = Role {
                    id,
                    name: name.clone(),
                    login: *login,
                    superuser: *superuser,
                    verifier: verifier.clone(),
                    settings: BTreeMap::new(),
                    member_of: member_of.clone(),
                };
                self.roles.insert(id, role);
            }
            RightsChange::AlterRole { id, name, login, superuser, password } => {
                if let Some(name) = name
                    && *name != self.changed(*id)?.name
                {
                    self.check_free(name)?;
                }
                let role = self.changed(*id)?;
                role.name = name.clone().unwrap_or_else(|| role.name.clone());
                role.login = login.unwrap_or(role.login);
                role.superuser = superuser.unwrap_or(role.superuser);
                match password {
                    Some(NewPassword::None) => role.verifier = None,
                    Some(NewPassword::Verifier(verifier)) => role.verifier = Some(verifier.clone()),
                    None => {}
                }
            }
            RightsChange::SetForRole { id, name, value } => {
                let settings = &mut self.changed(*id)?.settings;
                match value {
                    Some(value) => drop(settings.insert(name.clone(), value.clone())),
                    None => drop(settings.remove(name)),
                }
            }
            RightsChange::ResetForRole { id } => self.changed(*id)?.settings.clear(),
            RightsChange::DropRole { id } => self.drop_role(*id)?,
            RightsChange::Join { role, member } => {
                let name = self.changed(*role)?.name.clone();
                if self.reach(*role).contains(member) {
                    let member = self.name(*member);
                    return Err(Error::new(
                        ErrorKind::InvalidDefinition,
                        format!("role '{name}' is in '{member}' itself"),
                    )
                    .with_hint("a role cannot be in itself, by whatever way"));
                }
                self.changed(*member)?.member_of.insert(*role);
            }
            RightsChange::Leave { role, member } => {
                self.changed(*member)?.member_of.remove(role);
            }
            RightsChange::Grant { on, privileges, to } => {
                self.check_grant(*on, *to, &has_table)?;
                let granted = self.grants.entry((*on, *to)).or_default();
                *granted = granted.and(*privileges);
            }
            RightsChange::Revoke { on, privileges, from } => {
                self.check_grant(*on, *from, &has_table)?;
                if let Some(granted) = self.grants.get_mut(&(*on, *from)) {
                    *granted = granted.without(*privileges);
                    if granted.is_empty() {
                        self.grants.remove(&(*on, *from));
                    }
                }
            }
            RightsChange::Own { table, owner } => {
                self.check_grant(Object::Table(*table), *owner, &has_table)?;
                self.owners.insert(*table, *owner);
            }
        }
        Ok(())
    }

    /// A table was dropped.
    pub(crate) fn forget_table(&mut self, table: TableId) {
        self.owners.remove(&table);
        self.grants.retain(|(on, _), _| *on != Object::Table(table));
    }

    /// Whether anything is known of a table.
    pub(crate) fn knows_table(&self, table: TableId) -> bool {
        self.owners.contains_key(&table) || self.grants(Object::Table(table)).next().is_some()
    }

    fn drop_role(&mut self, id: RoleId) -> Result<()> {
        let name = self.changed(id)?.name.clone();
        if BUILT_IN.iter().any(|(known, _)| *known == id) {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("role '{name}' is part of every database")));
        }
        let tables = self.owned_by(id).count();
        if tables > 0 {
            return Err(Error::new(
                ErrorKind::DependentObjects,
                format!("role '{name}' cannot be dropped: it owns {tables} tables or schemas"),
            )
            .with_hint("give them to another with ALTER TABLE or ALTER SCHEMA ... OWNER TO, or drop them"));
        }
        self.roles.remove(&id);
        for role in self.roles.values_mut() {
            role.member_of.remove(&id);
        }
        self.grants.retain(|(_, to), _| *to != id);
        Ok(())
    }

    fn changed(&mut self, id: RoleId) -> Result<&mut Role> {
        self.roles.get_mut(&id).ok_or_else(gone)
    }

    fn check_free(&self, name: &str) -> Result<()> {
        match self.named(name) {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::DuplicateObject, format!("role '{name}' already exists"))
                .with_hint("choose another name, or ALTER ROLE")),
        }
    }

    fn check_grant(&self, on: Object, to: RoleId, has_table: &impl Fn(TableId) -> bool) -> Result<()> {
        match on {
            Object::Table(table) if !has_table(table) => {
                Err(Error::new(ErrorKind::Conflict, "a table was dropped by another batch")
                    .with_hint("run the statement again"))
            }
            _ if to != PUBLIC && self.role(to).is_none() => Err(gone()),
            _ => Ok(()),
        }
    }
}
