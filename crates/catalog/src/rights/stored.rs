//! Rights as the manifest keeps them.
//!
//! Invariant: roles that every database has are there whether they are kept or not: manifests from before a role was built in lack it. What
//! came later than the format is kept only where it is not as every database has it, so that the bytes stay those of the format.

use super::{BUILT_IN, MONITOR, Object, PUBLIC, Privileges, READ_URLS, Rights, Role, RoleId};
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

/// Roles that were built in later than the format.
const LATER: [RoleId; 2] = [READ_URLS, MONITOR];

fn is_kept(role: &Role) -> bool {
    !LATER.contains(&role.id) || Rights::default().role(role.id) != Some(role)
}

impl From<Rights> for Stored {
    fn from(rights: Rights) -> Stored {
        let grant = |((on, to), privileges)| StoredGrant { on, to, privileges };
        Stored {
            next_role: rights.next,
            roles: rights.roles.into_values().filter(is_kept).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::{READ_FILES, RightsChange};

    #[test]
    fn a_role_that_became_built_in_later_is_there_in_old_manifests_too() {
        let mut rights = Rights::default();
        let text = serde_json::to_string(&rights).unwrap();
        assert!(text.contains("pg_read_server_files") && !text.contains("pg_read_server_urls"), "{text}");
        assert!(!text.contains("pg_monitor"), "{text}");
        assert_eq!(serde_json::from_str::<Rights>(&text).unwrap(), rights);
        // In another role it is not as every database has it.
        rights.apply(&RightsChange::Join { role: READ_FILES, member: READ_URLS }, |_| true).unwrap();
        let text = serde_json::to_string(&rights).unwrap();
        assert!(text.contains("pg_read_server_urls"), "{text}");
        assert_eq!(serde_json::from_str::<Rights>(&text).unwrap(), rights);
        // Whoever is in it stays so.
        let mut rights = Rights::default();
        let create = RightsChange::CreateRole {
            name: "loader".to_owned(),
            login: true,
            superuser: false,
            verifier: None,
            member_of: [READ_URLS].into(),
        };
        rights.apply(&create, |_| true).unwrap();
        let read: Rights = serde_json::from_str(&serde_json::to_string(&rights).unwrap()).unwrap();
        assert_eq!(read, rights);
        assert!(read.is_in(read.named("loader").unwrap().id, READ_URLS));
    }
}
