//! Rights as the manifest keeps them.

use super::{BUILT_IN, Object, PUBLIC, Privileges, Rights, Role, RoleId};
use alluvia_types::TableId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    next_role: u32,
    roles: Vec<Role>,
    owners: BTreeMap<TableId, RoleId>,
    grants: Vec<StoredGrant>,
}

#[derive(Serialize, Deserialize)]
struct StoredGrant {
    on: Object,
    to: RoleId,
    privileges: Privileges,
}

impl From<Rights> for Stored {
    fn from(rights: Rights) -> Stored {
        let grant = |((on, to), privileges)| StoredGrant { on, to, privileges };
        Stored {
            next_role: rights.next,
            roles: rights.roles.into_values().collect(),
            owners: rights.owners,
            grants: rights.grants.into_iter().map(grant).collect(),
        }
    }
}

impl TryFrom<Stored> for Rights {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Rights, String> {
        let mut rights = Rights { next: stored.next_role, owners: stored.owners, ..Rights::default() };
        rights.grants.clear();
        for role in stored.roles {
            let is_built_in = BUILT_IN.iter().any(|(id, _)| *id == role.id);
            if !is_built_in && (role.id.0 >= rights.next || rights.named(&role.name).is_some()) {
                return Err(format!("role {} ('{}') is there twice, or has a number to come", role.id.0, role.name));
            }
            rights.roles.insert(role.id, role);
        }
        for StoredGrant { on, to, privileges } in stored.grants {
            if to != PUBLIC && rights.role(to).is_none() {
                return Err(format!("role {} has privileges and does not exist", to.0));
            }
            rights.grants.insert((on, to), privileges);
        }
        Ok(rights)
    }
}
